/* file.h: opening of regular files. Owns: the promise that no open blocks on another process or
 * touches a device. Must not know: what the file holds. */
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include "core/base/err.h"

#include <stdint.h>

/* Opens PATH for reading; *bytes is its size. A FIFO, socket, device or directory is refused at
 * once. On failure errno is the reason (ENOENT: no such file; 0: not a regular file). */
int file_open(int *fd, const char *path, uint64_t *bytes, struct err *e);

#endif
