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
    r->spare = calloc(m, sizeof *r->spare);
    r->spare_bytes = calloc(m, sizeof *r->spare_bytes);
    return r->data && r->row_bytes && r->bytes && r->spare && r->spare_bytes ? 0 : err_memory(e);
}

static void *take_spare(struct rows *r, size_t bytes)
{
    for (int i = 0; i < r->n_buffers; i++) {
        void *d = r->spare[i];
        if (!d || r->spare_bytes[i] != bytes) continue;
        r->spare[i] = NULL;
        return d;
    }
    return NULL;
}

static void drop_spare(struct rows *r)
{
    for (int i = 0; i < r->n_buffers; i++) {
        if (r->spare[i]) r->on->ops->free(r->on, r->spare[i]);
        r->spare[i] = NULL;
    }
}

void rows_drop(struct rows *r, int buffer)
{
    if (!r->data[buffer]) return;
    if (r->on) {
        if (r->spare[buffer]) r->on->ops->free(r->on, r->spare[buffer]);
        r->spare[buffer] = r->data[buffer];
        r->spare_bytes[buffer] = r->bytes[buffer];
        r->data[buffer] = NULL;
        return;
    }
    munmap(r->data[buffer], r->bytes[buffer]);
    if (r->used >= r->bytes[buffer]) r->used -= r->bytes[buffer];
    r->data[buffer] = NULL;
}

void rows_close(struct rows *r)
{
    for (int i = 0; i < r->n_buffers && r->spare_bytes; i++) rows_drop(r, i);
    if (r->on) drop_spare(r);
    free(r->spare);
    free(r->spare_bytes);
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

static void *take_device(struct rows *r, size_t bytes, struct err *e)
{
    void *d = take_spare(r, bytes);
    if (!d) d = r->on->ops->alloc(r->on, bytes);
    if (!d) {
        drop_spare(r);
        d = r->on->ops->alloc(r->on, bytes);
    }
    if (!d && !r->on->ops->sync(r->on, e))
        err_set(e,
                "out of memory on the device: rows of the calibration need %.2f GiB more: take "
                "fewer --tokens, or --backend cpu",
                (double)bytes / (1 << 30));
    return d;
}

void *rows_borrow(struct rows *r, int buffer, struct err *e)
{
    if (!r->on) return r->data[buffer];
    void *copy = malloc(r->bytes[buffer]);
    if (!copy) {
        err_memory(e);
        return NULL;
    }
    r->on->ops->download(r->on, copy, r->data[buffer], r->bytes[buffer]);
    if (!r->on->ops->sync(r->on, e)) return copy;
    free(copy);
    return NULL;
}

void rows_give(struct rows *r, int buffer, void *borrowed, int changed)
{
    if (!r->on || !borrowed) return;
    if (changed) r->on->ops->upload(r->on, r->data[buffer], borrowed, r->bytes[buffer]);
    free(borrowed);
}

int rows_take(struct rows *r, int buffer, size_t row_bytes, struct err *e)
{
    if (r->data[buffer]) return 0;
    size_t bytes = (size_t)r->n * row_bytes;
    void *p;
    if (r->on) {
        if (!(p = take_device(r, bytes, e))) return -1;
    } else if (r->used + bytes > r->limit) {
        if (!(p = map_file(r->folder, bytes, e))) return -1;
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
