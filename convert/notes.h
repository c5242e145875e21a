/* notes.h: what the converter tells a person besides errors: one line each on stderr. Owns: the
 * wording's frame ("opt4gptq-convert: ..."), silence under -q, details under -v. Must not know:
 * what is being said. */
#ifndef CONVERT_NOTES_H
#define CONVERT_NOTES_H

#include <stdint.h>

struct notes {
    int quiet;   /* no notes and no progress; warnings still appear */
    int verbose; /* what nobody has to act on, too */
};

void note_info(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_detail(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void note_warn(const struct notes *n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "5.2 MB", "140 ms": three digits, never 0 of something. */
const char *note_bytes(uint64_t bytes, char text[32]);
const char *note_seconds(double seconds, char text[32]);

#endif
