/* err.h: the error idiom. A function that can fail returns 0 or -1 and takes a trailing `struct err
 * *`; the innermost failure writes one line into it, callers pass it on. Only main exits. CHECK()
 * reports bugs of the program, never bad input; it is always compiled in. */
#ifndef CORE_ERR_H
#define CORE_ERR_H

enum err_kind {
    ERR_OTHER,  /* input, usage, a device */
    ERR_MEMORY, /* the machine lacks memory: the input must not be refused for it */
};

struct err {
    char msg[512]; /* one line, no newline; empty when nothing failed */
    enum err_kind kind;
};

/* Writes the message and returns -1, for `return err_set(e, ...)`. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* err_set with ": <strerror(errno)>" appended; ENOMEM becomes ERR_MEMORY, "out of memory". */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before the message and keeps its kind; returns -1. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reports a failed allocation: ERR_MEMORY with "out of memory" or, by err_memory_for, FMT, and the
 * limit of the address space (RLIMIT_AS) where there is one. */
int err_memory(struct err *e);
int err_memory_for(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_is_memory(const struct err *e);

_Noreturn void check_failed(const char *what, const char *file, int line);
#define CHECK(cond) ((cond) ? (void)0 : check_failed(#cond, __FILE__, __LINE__))

#endif
