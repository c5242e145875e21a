/* file.h: opening what must be a regular file. Owns: that no open waits for another process or
 * touches a device. Must not know: what the file holds. */
#ifndef CORE_FILE_H
#define CORE_FILE_H

#include "core/base/err.h"

#include <stdint.h>

/* Opens PATH for reading; *bytes: its size. A FIFO, socket, device or directory is refused at once.
 * On failure errno says why (ENOENT: there is no such file; 0: it is not a regular one). */
int file_open(int *fd, const char *path, uint64_t *bytes, struct err *e);

#endif
