#include "quantize/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int rows_open(struct rows *r, int n_buffers, int64_t n, struct err *e)
{
    size_t m = (size_t)n_buffers + 1;
    r->n_buffers = n_buffers;
    r->n = n;
    r->data = calloc(m, sizeof *r->data);
    r->row_bytes = calloc(m, sizeof *r->row_bytes);
    r->bytes = calloc(m, sizeof *r->bytes);
    return r->data && r->row_bytes && r->bytes ? 0 : err_memory(e);
}

void rows_drop(struct rows *r, int buffer)
{
    if (!r->data[buffer]) return;
    munmap(r->data[buffer], r->bytes[buffer]);
    if (r->used >= r->bytes[buffer]) r->used -= r->bytes[buffer];
    r->data[buffer] = NULL;
}

void rows_close(struct rows *r)
{
    for (int i = 0; i < r->n_buffers && r->data; i++) rows_drop(r, i);
    free(r->data);
    free(r->row_bytes);
    free(r->bytes);
    *r = (struct rows){0};
}

/* A mapping of a file without a name, whose room is reserved. */
static void *map_file(const char *folder, size_t bytes, struct err *e)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        err_sys(e, "%s: cannot hold the rows of the calibration", folder);
        return NULL;
    }
    int bad = posix_fallocate(fd, 0, (off_t)bytes);
    void *p = bad ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bad) errno = bad;
    if (p == MAP_FAILED)
        err_sys(e, "%s: the rows of the calibration need %zu bytes", folder, bytes);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

int rows_take(struct rows *r, int buffer, size_t row_bytes, struct err *e)
{
    if (r->data[buffer]) return 0;
    size_t bytes = (size_t)r->n * row_bytes;
    void *p;
    if (r->used + bytes > r->limit) {
        p = map_file(r->folder, bytes, e);
        if (!p) return -1;
    } else {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return err_memory(e);
    }
    r->used += bytes;
    r->data[buffer] = p;
    r->row_bytes[buffer] = row_bytes;
    r->bytes[buffer] = bytes;
    return 0;
}
