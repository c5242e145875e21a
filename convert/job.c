#include "convert/job.h"

#include "convert/panels.h"
#include "core/model/modelfile.h"

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

/* Arguments of job_run: one job on one thread. */
struct task {
    struct plan *plan;
    const struct plan_job *job;
    const struct job_buffers *buffers;
    const struct job_output *output;
    uint64_t n_bytes; /* written so far */
};

/* Writes the job's piece of a tensor, data [bytes] at `offset` of the tensor, and stores its
 * checksum. */
static int put(struct task *k, size_t tensor, uint64_t offset, const void *data, uint64_t bytes,
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

/* Columns of a [rows][width] matrix in a shard, elements of `item` bytes. */
struct columns {
    const struct hf_tensor *t;
    uint64_t at; /* offset in the tensor, bytes */
    int64_t rows, width;
    int64_t first, n;     /* columns first .. first+n-1 */
    const int32_t *order; /* [n] the columns; NULL: the above */
    int per;              /* a column of `order` lies in element order[i] / per */
    size_t item;
};

/* Reads the columns into dst [rows][stride]; the rest of a row becomes 0. row: a buffer for one row
 * of the matrix. */
static int read_columns(const struct columns *c, uint8_t *dst, size_t stride, uint8_t *row,
                        struct err *e)
{
    const struct st_file *shard = c->t->shard;
    uint64_t offset = c->t->t->offset + c->at;
    size_t bytes = (size_t)c->n * c->item;
    int64_t lo = c->first, hi = c->first + c->n - 1; /* of a row, what is read */
    if (!c->order && c->n == c->width && stride == (size_t)c->n)
        return st_read(shard, dst, offset, (uint64_t)(c->rows * c->width) * c->item, e);
    for (int64_t i = 0; i < c->n && c->order; i++) {
        int64_t at = c->order[i] / c->per;
        if (!i || at < lo) lo = at;
        if (!i || at > hi) hi = at;
    }
    for (int64_t r = 0; r < c->rows; r++, dst += stride * c->item) {
        uint64_t begin = offset + (uint64_t)(r * c->width + lo) * c->item;
        if (st_read(shard, c->order ? row : dst, begin, (uint64_t)(hi - lo + 1) * c->item, e))
            return -1;
        for (int64_t i = 0; c->order && i < c->n; i++)
            memcpy(dst + (size_t)i * c->item, row + (size_t)(c->order[i] / c->per - lo) * c->item,
                   c->item);
        memset(dst + bytes, 0, stride * c->item - bytes);
    }
    return 0;
}

/* Unpacks the zero points of n outputs from col on to zeros [n_source][n], behind the words in src.
 */
static int read_zeros(const struct quant_linear *l, int64_t col, int64_t n,
                      const struct job_buffers *b, const uint16_t **zeros, struct err *e)
{
    const struct hf_tensor *t = l->qzeros;
    int64_t width = t->t->shape[1], words = l->rows ? 0 : unpack_n_words(n, l->bits);
    uint32_t *raw = (uint32_t *)(void *)b->src;
    uint16_t *z = (uint16_t *)(void *)(raw + l->n_source * words),
             *all = (uint16_t *)(void *)(b->row + (size_t)width * 4);
    *zeros = z;
    if (!l->rows) {
        const struct columns c = {.t = t,
                                  .rows = l->n_source,
                                  .width = width,
                                  .first = unpack_n_words(col, l->bits),
                                  .n = words,
                                  .item = 4};
        if (read_columns(&c, b->src, (size_t)words, NULL, e)) return -1;
        for (int64_t g = 0; g < l->n_source; g++)
            unpack_zero_row(z + g * n, raw + g * words, n, l->layout, l->bits, l->zeros, NULL);
        return 0;
    }
    for (int64_t g = 0; g < l->n_source; g++) {
        if (st_read(t->shard, b->row, t->t->offset + (uint64_t)(g * width) * 4, (uint64_t)width * 4,
                    e))
            return -1;
        unpack_zero_row(all, (const uint32_t *)(const void *)b->row, l->out, l->layout, l->bits,
                        l->zeros, NULL);
        for (int64_t i = 0; i < n; i++) z[g * n + i] = all[l->rows[col + i]];
    }
    return 0;
}

/* Reads the words of the codes of n outputs into b->src [..][stride]. */
static int read_words(const struct quant_linear *l, int64_t col, int64_t n, size_t stride,
                      const struct job_buffers *b, struct err *e)
{
    int per_word = l->layout == UNPACK_AWQ ? 8 : 1; /* columns per word of a row */
    struct columns c = {.t = l->qweight,
                        .rows = l->qweight->t->shape[0],
                        .width = l->qweight->t->shape[1],
                        .first = col / per_word,
                        .n = n / per_word,
                        .per = per_word,
                        .item = 4};
    if (l->rows) c.order = l->rows + col, c.n = n;
    return read_columns(&c, b->src, stride, b->row, e);
}

static int put_codes(struct task *k, int64_t col, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = j->linear;
    const struct slots *s = l->slots;
    int awq = l->layout == UNPACK_AWQ, per_word = awq && !l->rows ? 8 : 1;
    size_t stride = (size_t)(j->n_panels * MF_PANEL / per_word);
    uint64_t panel_bytes = (uint64_t)s->k * MF_PANEL / 2,
             bytes = (uint64_t)j->n_panels * panel_bytes;
    const uint32_t *words = (const uint32_t *)(const void *)b->src;
    if (read_words(l, col, n, stride, b, e)) return -1;
    if (l->bits == 4 && s->identity && !awq) {
        panels_from_words(b->dst, words, stride, s->k, j->n_panels);
    } else {
        for (int64_t i = 0; i < j->n_panels; i++) {
            if (awq && l->rows) {
                int64_t rest = n - i * MF_PANEL;
                unpack_awq_columns(b->codes, words + i * MF_PANEL, stride, l->in,
                                   l->rows + col + i * MF_PANEL,
                                   rest < MF_PANEL ? (int)rest : MF_PANEL);
            } else {
                unpack_codes(b->codes, words + i * MF_PANEL / per_word, stride, l->in, l->layout,
                             l->bits);
            }
            panels_pack(b->dst + (uint64_t)i * panel_bytes, b->codes, s);
        }
    }
    /* Rows past `n_rows` are zero: their words are, and every layout maps 0 to code 0. */
    if (n % MF_PANEL) CHECK(!b->dst[bytes - 1]);
    return put(k, l->codes_at, (uint64_t)(l->first_panel + j->panel) * panel_bytes, b->dst, bytes,
               e);
}

static int put_scales(struct task *k, int64_t col, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = j->linear;
    enum dtype type = l->scales->t->dtype;
    uint64_t bytes = (uint64_t)(l->slots->n_groups * MF_PANEL) * dtype_bytes(l->scale_type);
    const struct columns c = {.t = l->scales,
                              .rows = l->n_source,
                              .width = l->out,
                              .first = col,
                              .n = n,
                              .order = l->rows ? l->rows + col : NULL,
                              .per = 1,
                              .item = dtype_bytes(type)};
    if (read_columns(&c, b->src, (size_t)n, b->row, e)) return -1;
    panels_scales(b->dst, l->scale_type, b->src, type, (size_t)n, n, l->slots);
    return put(k, l->scales_at, (uint64_t)(l->first_panel + j->panel) * bytes, b->dst,
               (uint64_t)j->n_panels * bytes, e);
}

static int put_zeros(struct task *k, int64_t col, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct quant_linear *l = j->linear;
    uint64_t bytes = (uint64_t)(l->slots->n_groups * MF_PANEL);
    const uint16_t *zeros;
    if (read_zeros(l, col, n, k->buffers, &zeros, e)) return -1;
    panels_zeros(k->buffers->dst, zeros, (size_t)n, n, l->slots);
    return put(k, l->zeros_at, (uint64_t)(l->first_panel + j->panel) * bytes, k->buffers->dst,
               (uint64_t)j->n_panels * bytes, e);
}

static int put_panels(struct task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    int64_t col = j->panel * MF_PANEL, rest = j->linear->n_rows - col,
            n = rest < j->n_panels * MF_PANEL ? rest : j->n_panels * MF_PANEL;
    return put_codes(k, col, n, e) || put_scales(k, col, n, e) || put_zeros(k, col, n, e) ? -1 : 0;
}

/* Some columns of a matrix that is wider. */
static int put_columns(struct task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct hf_tensor *t = j->source;
    uint64_t from = t->t->offset + j->from;
    for (uint64_t at = 0; at < j->bytes; at += j->row_bytes, from += j->stride)
        if (st_read(t->shard, k->buffers->src + at, from, j->row_bytes, e)) return -1;
    return put(k, j->tensor, j->at, k->buffers->src, j->bytes, e);
}

static int put_copy(struct task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct hf_tensor *t = j->source;
    if (st_read(t->shard, k->buffers->src, t->t->offset + j->from, j->bytes, e))
        return -1;
    return put(k, j->tensor, j->at, k->buffers->src, j->bytes, e);
}

/* Reads n rows of a matrix from `first` on into dst [n][in]. */
static int read_rows(const struct plain_matrix *m, int64_t first, int64_t n, uint8_t *dst,
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

static int put_rows(struct task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct plain_matrix *m = j->matrix;
    const struct job_buffers *b = k->buffers;
    int64_t n = (int64_t)(j->bytes / ((uint64_t)m->in * dtype_bytes(m->t->t->dtype)));
    if (read_rows(m, j->row, n, b->src, b->row, e)) return -1;
    return put(k, j->tensor, j->at, b->src, j->bytes, e);
}

int job_run(struct plan *p, const struct plan_job *j, const struct job_buffers *b,
            const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    struct task k = {p, j, b, o, 0};
    int rc = 0;
    switch (j->kind) {
    case JOB_MEMORY: rc = put(&k, j->tensor, 0, j->data, p->tensors[j->tensor].bytes, e); break;
    case JOB_COPY: rc = put_copy(&k, e); break;
    case JOB_COLUMNS: rc = put_columns(&k, e); break;
    case JOB_ROWS: rc = put_rows(&k, e); break;
    case JOB_PANELS: rc = put_panels(&k, e); break;
    }
    *n_bytes = k.n_bytes;
    return rc;
}
