/* prompt_text.c: reads the text of -p, -f or standard input. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROMPT_BYTES = 1 << 30 };

int run_read_text(const struct options *o, char **text, size_t *bytes, struct err *e)
{
    if (o->prompt) {
        *text = strdup(o->prompt);
        *bytes = strlen(o->prompt);
        return *text ? 0 : err_memory(e);
    }
    int fd = strcmp(o->file, "-") ? open(o->file, O_RDONLY | O_CLOEXEC) : 0;
    if (fd < 0) return err_sys(e, "%s", o->file);
    size_t n = 0, cap = 1 << 16;
    char *p = malloc(cap + 1);
    for (;;) {
        if (!p) {
            err_memory(e);
            break;
        }
        ssize_t got = read(fd, p + n, cap - n);
        if (got < 0 && errno == EINTR && !run_stop_requested) continue;
        if (got < 0) {
            err_sys(e, "%s", o->file);
            break;
        }
        if (got == 0) {
            p[n] = 0;
            *text = p;
            *bytes = n;
            if (fd) close(fd);
            return 0;
        }
        n += (size_t)got;
        if (n > MAX_PROMPT_BYTES) {
            err_set(e, "%s: prompt of more than 1 GiB", o->file);
            break;
        }
        if (n == cap) {
            char *grown = realloc(p, 2 * cap + 1);
            if (!grown) free(p);
            p = grown;
            cap *= 2;
        }
    }
    free(p);
    if (fd) close(fd);
    return -1;
}
