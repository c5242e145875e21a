/* printable.h: strangers' texts (names in checkpoints, fields of records, words of the command line)
 * on their way to a terminal. Must not know: what a text says. */
#ifndef CORE_PRINTABLE_H
#define CORE_PRINTABLE_H

#include <stddef.h>

enum { PRINTABLE = 512 };

/* Replaces each byte of the control characters in TEXT [n], which a terminal obeys, by "?": U+0000
 * to U+001F, U+007F, U+0080 to U+009F, separators of lines, and what turns the direction of a text.
 */
void printable_bytes(char *text, size_t n);
/* The same for a whole string. */
void err_printable(char *s);
/* TEXT without control characters, in ROOM, cut to what fits there; the result is ROOM. */
const char *printable_text(const char *text, char room[PRINTABLE]);
/* 1 when a terminal obeys the character that begins TEXT [n], *bytes long; newline and tab do not
 * count. */
int printable_obeyed(const char *text, size_t n, size_t *bytes);

#endif
