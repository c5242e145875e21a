/* err.h: the one error idiom. A function that can fail returns 0 or -1 and takes a trailing
 * `struct err *`; the innermost failure writes one line into it, callers pass it on. Only main exits.
 * CHECK() is for our own bugs, never for input; it is always compiled in. */
#ifndef CORE_ERR_H
#define CORE_ERR_H

struct err {
    char msg[512]; /* one line, no newline; empty when nothing failed */
};

/* Writes the message and returns -1, so that `return err_set(e, ...)` reads as what it does. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Like err_set with ": <strerror(errno)>" appended. */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before a message that is already there; returns -1. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* 1 when the message says that memory was lacking (every failed allocation says "out of memory"): the machine's fault, not
 * the input's, so that an input must not be refused for it. */
int err_is_memory(const struct err *e);

_Noreturn void check_failed(const char *what, const char *file, int line);
#define CHECK(cond) ((cond) ? (void)0 : check_failed(#cond, __FILE__, __LINE__))

#endif
