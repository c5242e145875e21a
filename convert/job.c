#include "convert/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

int job_buffers_init(struct job_buffers *b, const struct plan *p, struct err *e)
{
    *b = (struct job_buffers){malloc(p->src_max + 64), malloc(p->dst_max + 64),
                              malloc(p->codes_max + 64), malloc(p->row_max + 64)};
    if (b->src && b->dst && b->codes && b->row) return 0;
    job_buffers_free(b);
    return err_memory(e);
}

void job_buffers_free(struct job_buffers *b)
{
    free(b->src);
    free(b->dst);
    free(b->codes);
    free(b->row);
    memset(b, 0, sizeof *b);
}

int job_write(const struct job_output *o, const void *data, uint64_t bytes, uint64_t offset,
              struct err *e)
{
    const char *p = data;
    while (bytes) {
        ssize_t n = pwrite(o->fd, p, bytes > (1u << 30) ? 1u << 30 : bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_sys(e, "%s: cannot write", o->path);
        p += n, offset += (uint64_t)n, bytes -= (uint64_t)n;
    }
    return 0;
}

int job_put(struct job_task *k, size_t tensor, uint64_t offset, const void *data, uint64_t bytes,
            struct err *e)
{
    struct out_tensor *t = &k->plan->tensors[tensor];
    size_t piece = k->job->piece;
    CHECK(piece < t->n_pieces && offset + bytes <= t->bytes);
    t->crc[piece] = (uint32_t)crc32_z(0, data, bytes);
    t->crc_bytes[piece] = bytes;
    k->n_bytes += bytes;
    return job_write(k->output, data, bytes, k->output->data_start + t->offset + offset, e);
}

/* Some columns of a matrix that is wider. */
static int put_columns(struct job_task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct hf_tensor *t = j->source;
    uint64_t from = t->t->offset + j->from;
    for (uint64_t at = 0; at < j->bytes; at += j->row_bytes, from += j->stride)
        if (st_read(t->shard, k->buffers->src + at, from, j->row_bytes, e)) return -1;
    return job_put(k, j->tensor, j->at, k->buffers->src, j->bytes, e);
}

static int put_copy(struct job_task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct hf_tensor *t = j->source;
    if (st_read(t->shard, k->buffers->src, t->t->offset + j->from, j->bytes, e)) return -1;
    return job_put(k, j->tensor, j->at, k->buffers->src, j->bytes, e);
}

int job_read_rows(const struct plain_matrix *m, int64_t first, int64_t n, uint8_t *dst,
                  uint8_t *row, struct err *e)
{
    size_t item = dtype_bytes(m->t->t->dtype), row_bytes = (size_t)m->in * item;
    uint64_t offset = m->t->t->offset + m->at;
    int64_t lo = first, hi = first + n - 1;
    for (int64_t i = first; i < first + n && m->rows; i++) {
        if (i == first || m->rows[i] < lo) lo = m->rows[i];
        if (i == first || m->rows[i] > hi) hi = m->rows[i];
    }
    for (int64_t i = 0; i < n && !m->transposed; i++) {
        int64_t at = m->rows ? m->rows[first + i] : first + i, more = 1; /* consecutive rows */
        while (i + more < n && (!m->rows || m->rows[first + i + more] == at + more)) more++;
        if (st_read(m->t->shard, dst + (size_t)i * row_bytes, offset + (uint64_t)at * row_bytes,
                    (uint64_t)more * row_bytes, e))
            return -1;
        i += more - 1;
    }
    for (int64_t k = 0; k < m->in && m->transposed; k++) {
        if (st_read(m->t->shard, row, offset + (uint64_t)(k * m->out + lo) * item,
                    (uint64_t)(hi - lo + 1) * item, e))
            return -1;
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + (size_t)i * row_bytes + (size_t)k * item,
                   row + (size_t)((m->rows ? m->rows[first + i] : first + i) - lo) * item, item);
    }
    return 0;
}

static int put_rows(struct job_task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct plain_matrix *m = j->matrix;
    const struct job_buffers *b = k->buffers;
    int64_t n = (int64_t)(j->bytes / ((uint64_t)m->in * dtype_bytes(m->t->t->dtype)));
    if (job_read_rows(m, j->row, n, b->src, b->row, e)) return -1;
    return job_put(k, j->tensor, j->at, b->src, j->bytes, e);
}

int job_run(struct plan *p, const struct plan_job *j, const struct job_buffers *b,
            const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    struct job_task k = {p, j, b, o, 0};
    int rc = 0;
    switch (j->kind) {
    case JOB_MEMORY: rc = job_put(&k, j->tensor, 0, j->data, p->tensors[j->tensor].bytes, e); break;
    case JOB_COPY: rc = put_copy(&k, e); break;
    case JOB_COLUMNS: rc = put_columns(&k, e); break;
    case JOB_ROWS: rc = put_rows(&k, e); break;
    case JOB_PANELS: rc = job_panels(&k, e); break;
    case JOB_TURNED: rc = job_turned(&k, e); break;
    }
    *n_bytes = k.n_bytes;
    return rc;
}
