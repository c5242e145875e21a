#include "cli/modes/batch/durable.h"

#include "cli/run.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_WAIT_MS = 20000 };

static int try_open(const char *path, int flags, unsigned mode)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR && !run_stop_requested); /* a pipe without a reader */
    return fd;
}

int dur_open(int *fd, const char *path, int flags, struct err *e)
{
    *fd = try_open(path, flags, 0666);
    return *fd < 0 ? err_sys(e, "%s", path) : 0;
}

int dur_create(int *fd, const char *path, const char *replaces, struct err *e)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    const unsigned mode = file_first_mode(replaces);
    *fd = try_open(path, flags, mode);
    if (*fd < 0 && errno == EEXIST) {
        if (dur_remove(path, e)) return -1;
        *fd = try_open(path, flags, mode);
    }
    if (*fd < 0) return err_sys(e, "%s", path);
    if (!file_take_mode(*fd, replaces, e)) return 0;
    close(*fd);
    unlink(path);
    *fd = -1;
    return -1;
}

/* A signal came while a pipe was full: 1 when its reader goes on within a while, which a process
 * that shall end does wait. */
static int is_read(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, STOP_WAIT_MS) > 0;
}

int dur_write(int fd, const void *p, size_t n, int64_t offset, const char *path, struct err *e)
{
    const char *from = p;
    while (n) {
        ssize_t w = offset < 0 ? write(fd, from, n) : pwrite(fd, from, n, offset);
        if (w < 0 && errno == EINTR && offset < 0 && run_stop_requested && !is_read(fd))
            return err_set(e, "%s: nothing reads it any more", path);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return err_sys(e, "%s", path);
        from += w;
        n -= (size_t)w;
        if (offset >= 0) offset += w;
    }
    return 0;
}

int dur_sync(int fd, const char *path, struct err *e)
{
    int rc;
    do rc = fdatasync(fd);
    while (rc && errno == EINTR);
    return rc ? err_sys(e, "%s: cannot bring to disk", path) : 0;
}

int dur_sync_dir(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!dir) return err_memory(e);
    int fd, rc = dur_open(&fd, dir, O_RDONLY | O_DIRECTORY, e);
    if (!rc) {
        /* Some file systems know no fsync of a directory; they keep names by other means. */
        if (fsync(fd) && errno != EINVAL && errno != ENOTSUP)
            rc = err_sys(e, "%s: cannot bring to disk", dir);
        close(fd);
    }
    free(dir);
    return rc;
}

int dur_truncate(int fd, int64_t n, const char *path, struct err *e)
{
    int rc;
    do rc = ftruncate(fd, n);
    while (rc && errno == EINTR);
    return rc ? err_sys(e, "%s: cannot cut", path) : 0;
}

int dur_rename(const char *from, const char *to, struct err *e)
{
    return rename(from, to) ? err_sys(e, "%s -> %s", from, to) : 0;
}

int dur_remove(const char *path, struct err *e)
{
    return unlink(path) && errno != ENOENT ? err_sys(e, "%s: cannot remove", path) : 0;
}

int dur_close(int fd, const char *path, struct err *e)
{
    return close(fd) ? err_sys(e, "%s", path) : 0;
}
