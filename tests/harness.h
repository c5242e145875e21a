/* harness.h: what the test programs of whole/ and faults/ share: counted checks, the closing line
 * that scripts/test reads, small files. Must not know: what is tested. */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include "tests/process.h"

#include <stddef.h>

extern int n_passed, n_failed, n_skipped;

/* Counts a check; a failed one prints what it was, and exit code and outputs of *p unless NULL. */
void check(int ok, const char *what, const struct process *p);
/* The same with a formatted text. */
void check_that(int ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Counts a skipped check and says why. */
void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints "NAME: N passed, N failed, N skipped"; the exit code of main. */
int report(const char *name);

/* 1 when this machine gives a pseudo-terminal; 0: what needs one is counted as skipped. */
int has_terminal(void);

/* The exit code of a command line of the shell. */
int shell_code(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A command line that must succeed, as a check. */
void shell_ok(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Newlines in a text. */
int lines(const char *s);
/* A whole file (malloc'd, *n bytes and a NUL), NULL when it cannot be opened; *n is 0 then. */
char *read_file(const char *path, size_t *n);
/* Whether two files have the same bytes, and some. */
int same_file(const char *a, const char *b);
/* Exits when it cannot. */
void write_file(const char *path, const void *data, size_t n);

#endif
