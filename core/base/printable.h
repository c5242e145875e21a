/* printable.h: texts of strangers on their way to a terminal. */
#ifndef CORE_PRINTABLE_H
#define CORE_PRINTABLE_H

/* Replaces the control characters of S, and what turns the direction of a text, by question marks.
 */
void err_printable(char *s);

#endif
