/* notes.h: the converter's messages besides errors: one line each on stderr. Owns: their prefix
 * ("opt4gptq-convert: ..."), silence under -q, details under -v. Must not know: what is said. */
#ifndef CONVERT_NOTES_H
#define CONVERT_NOTES_H

struct notes {
    int silent;          /* no warnings */
    int quiet;           /* no notes and no progress; warnings still appear */
    int verbose;         /* details that need no action, too */
    const char *program; /* NULL: opt4gptq-convert */
};

void note_info(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_detail(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_warn(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
