/* durable.h: every change that a batch makes on disk goes through here, with the loops and checks
 * that writing needs, so that a test can replace the few system calls below it. Must not know: what
 * is written. */
#ifndef CLI_MODES_BATCH_DURABLE_H
#define CLI_MODES_BATCH_DURABLE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Opens (flags as open(2), mode 0666); messages name PATH. */
int dur_open(int *fd, const char *path, int flags, struct err *e);
/* A new regular file of that name: what has the name (a link, a leftover) is removed first, so that
 * nothing is written through it. REPLACES: the file whose place it is going to take and whose
 * permissions it therefore gets, or NULL. */
int dur_create(int *fd, const char *path, const char *replaces, struct err *e);
/* Writes all N bytes at OFFSET of a file, or (offset < 0) to the end of a pipe. */
int dur_write(int fd, const void *p, size_t n, int64_t offset, const char *path, struct err *e);
/* Until the data and the length of the file are on the medium. */
int dur_sync(int fd, const char *path, struct err *e);
/* The same for the directory that PATH is in: a created, renamed or removed name. */
int dur_sync_dir(const char *path, struct err *e);
int dur_truncate(int fd, int64_t n, const char *path, struct err *e);
int dur_rename(const char *from, const char *to, struct err *e);
/* A file that is not there is no error. */
int dur_remove(const char *path, struct err *e);
/* Closes and reports what only close reports (NFS, quota). */
int dur_close(int fd, const char *path, struct err *e);

#endif
