/* process.h: runs a program and keeps what it printed. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stddef.h>

struct process {
    int code;        /* exit code, or -signal */
    char *out, *err; /* stdout and stderr, NUL-terminated, malloc'd */
    size_t out_bytes, err_bytes;
};

/* argv[0] is the program; input goes to its stdin (NULL: empty). Dies when the machine cannot run
 * it. */
void process_run(struct process *p, char *const argv[], const char *input);
void process_free(struct process *p);

#endif
