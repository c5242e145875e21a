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
