/* failing.c: a library to preload whose system calls fail, one kind of them at one place (sites.c).
 * FAIL_KIND and FAIL_AT choose it: the n-th call of that name fails, and with FAIL_ALWAYS all from
 * there on; of the kinds "disk" and "quota" all that need room on a disk. FAIL_COUNT: a file
 * descriptor to which the number of calls of that kind is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind;
static long fail_at;
static int always;
static atomic_long n_calls;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_AT");
    kind = getenv("FAIL_KIND");
    fail_at = at ? atol(at) : -1;
    always = getenv("FAIL_ALWAYS") != NULL;
    unsetenv("LD_PRELOAD"); /* not for what the program starts */
}

__attribute__((destructor)) static void end(void)
{
    const char *fd = getenv("FAIL_COUNT");
    if (fd) dprintf(atoi(fd), "%ld\n", (long)n_calls);
}

/* What a full disk, or a quota that is used up, refuses. */
static int needs_room(const char *name)
{
    return !strcmp(name, "write") || !strcmp(name, "ftruncate") || !strcmp(name, "create");
}

/* 1: this call of that kind fails. */
static int fails(const char *name, int why)
{
    int is_disk = kind && (!strcmp(kind, "disk") || !strcmp(kind, "quota")) && needs_room(name);
    if (!kind || (strcmp(kind, name) && !is_disk)) return 0;
    long k = atomic_fetch_add(&n_calls, 1);
    if (fail_at < 0 || k < fail_at || (k > fail_at && !always && !is_disk)) return 0;
    errno = !is_disk ? why : kind[0] == 'd' ? ENOSPC : EDQUOT;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define WRAP(type, name, kind_of, why, failed, list, args)                                         \
    type name list;                                                                                \
    type name list { return fails(kind_of, why) ? failed : NEXT(name) args; }

WRAP(ssize_t, read, "read", EIO, -1, (int fd, void *p, size_t n), (fd, p, n))
WRAP(ssize_t, pread, "read", EIO, -1, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, pread64, "read", EIO, -1, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
WRAP(ssize_t, write, "write", ENOSPC, -1, (int fd, const void *p, size_t n), (fd, p, n))
WRAP(ssize_t, pwrite, "write", ENOSPC, -1, (int fd, const void *p, size_t n, off_t at),
     (fd, p, n, at))
WRAP(int, fsync, "fsync", EIO, -1, (int fd), (fd))
WRAP(int, fdatasync, "fsync", EIO, -1, (int fd), (fd))
WRAP(int, ftruncate, "ftruncate", ENOSPC, -1, (int fd, off_t n), (fd, n))
WRAP(int, fallocate, "ftruncate", ENOSPC, -1, (int fd, int mode, off_t at, off_t n),
     (fd, mode, at, n))
WRAP(int, mkdir, "create", ENOSPC, -1, (const char *p, mode_t m), (p, m))
WRAP(int, flock, "flock", n_calls % 2 ? ENOLCK : EOPNOTSUPP, -1, (int fd, int how), (fd, how))
WRAP(int, rename, "rename", EIO, -1, (const char *a, const char *b), (a, b))
WRAP(int, linkat, "rename", EIO, -1, (int a, const char *p, int b, const char *q, int f),
     (a, p, b, q, f))
WRAP(void *, mmap, "mmap", ENOMEM, MAP_FAILED, (void *p, size_t n, int r, int f, int fd, off_t at),
     (p, n, r, f, fd, at))
WRAP(void *, mmap64, "mmap", ENOMEM, MAP_FAILED,
     (void *p, size_t n, int r, int f, int fd, off_t at), (p, n, r, f, fd, at))
WRAP(FILE *, fopen, "open", EMFILE, NULL, (const char *p, const char *m), (p, m))
WRAP(pid_t, fork, "fork", EAGAIN, -1, (void), ())

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    return fails("pthread_create", EAGAIN) ? EAGAIN : NEXT(pthread_create)(t, a, run, arg);
}

static int makes_file(int flags) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; }

#define OPEN(name, list, args)                                                                     \
    int name list;                                                                                 \
    int name list                                                                                  \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, flags);                                                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;                      \
        va_end(ap);                                                                                \
        if (makes_file(flags) && fails("create", ENOSPC)) return -1;                               \
        return fails("open", EMFILE) ? -1 : NEXT(name) args;                                       \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
