/* file.h: opening and replacing of regular files. Owns: the promise that no open blocks on another process or
 * touches a device. Must not know: what the file holds. */
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include "core/base/err.h"

#include <stdint.h>
#include <string.h>

/* Opens PATH for reading; *bytes is its size. A FIFO, socket, device or directory is refused at
 * once. On failure errno is the reason (ENOENT: no such file; 0: not a regular file). */
int file_open(int *fd, const char *path, uint64_t *bytes, struct err *e);

/* Gives the new file FD the permissions of the regular file PATH, which it is going to replace, and
 * its owner and group where the system lets it. Nothing where there is no such file. To be called
 * before anything is written. */
int file_take_mode(int fd, const char *path, struct err *e);
/* The permissions with which a file is made that is going to replace PATH: only the owner's until
 * file_take_mode, where there is a file of that name, else the usual 0666. */
unsigned file_first_mode(const char *path);

/* 1: the name ends with END, as ".gz". */
static inline int file_name_ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

#endif
