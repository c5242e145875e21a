#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int file_open(int *fd, const char *path, uint64_t *bytes, struct err *e)
{
    struct stat sb;
    int why = 0;
    *fd = -1;
    if (stat(path, &sb)) { /* before open: opening some devices acts on them */
        why = errno;
        err_sys(e, "%s", path);
    } else if (!S_ISREG(sb.st_mode)) {
        err_set(e, "%s: is not a regular file", path);
    } else if ((*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(*fd, &sb)) {
        why = errno;
        err_sys(e, "%s", path);
    } else if (!S_ISREG(sb.st_mode)) { /* replaced between stat and open */
        err_set(e, "%s: is not a regular file", path);
    } else {
        *bytes = (uint64_t)sb.st_size;
        return 0;
    }
    if (*fd >= 0) close(*fd);
    *fd = -1;
    errno = why;
    return -1;
}

static int is_there(const char *path, struct stat *st)
{
    return path && !stat(path, st) && S_ISREG(st->st_mode);
}

unsigned file_first_mode(const char *path)
{
    struct stat st;
    return is_there(path, &st) ? 0600 : 0666;
}

int file_take_mode(int fd, const char *path, struct err *e)
{
    struct stat old, now;
    if (!is_there(path, &old)) return 0;
    if (fstat(fd, &now)) return err_sys(e, "%s", path);
    if ((old.st_uid != now.st_uid || old.st_gid != now.st_gid) &&
        fchown(fd, old.st_uid, old.st_gid) && fchown(fd, (uid_t)-1, old.st_gid))
        old.st_mode &= ~(mode_t)070; /* another group's rights are not this one's */
    if (fstat(fd, &now)) return err_sys(e, "%s", path);
    return (old.st_mode & 0777) == (now.st_mode & 0777) || !fchmod(fd, old.st_mode & 0777)
               ? 0
               : err_sys(e, "%s: cannot keep its permissions", path);
}
