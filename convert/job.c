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

/* Writes a piece of a tensor and remembers its checksum. */
static int put(struct plan *p, size_t tensor, size_t piece, uint64_t at, const void *data,
               uint64_t bytes, const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    struct out_tensor *t = &p->tensors[tensor];
    CHECK(piece < t->n_pieces && at + bytes <= t->bytes);
    t->crc[piece] = (uint32_t)crc32_z(0, data, bytes);
    t->crc_bytes[piece] = bytes;
    *n_bytes += bytes;
    return job_write(o, data, bytes, o->data_start + t->offset + at, e);
}

/* Columns [col, col + n) of a [rows][width] matrix of 32-bit words (or elements of item bytes) ->
 * dst [rows][stride]. */
static int read_columns(const struct hf_tensor *t, uint8_t *dst, size_t stride, int64_t rows,
                        int64_t width, int64_t col, int64_t n, size_t item, struct err *e)
{
    if (n == width && stride == (size_t)n)
        return st_read(t->shard, dst, t->t->offset, (uint64_t)(rows * width) * item, e);
    for (int64_t r = 0; r < rows; r++, dst += stride * item) {
        if (st_read(t->shard, dst, t->t->offset + (uint64_t)(r * width + col) * item,
                    (uint64_t)n * item, e))
            return -1;
        memset(dst + (size_t)n * item, 0, (stride - (size_t)n) * item);
    }
    return 0;
}

/* The same for n columns, those that COL names, in that order. row: room for a row. */
static int read_chosen(const struct hf_tensor *t, uint8_t *dst, size_t stride, int64_t rows,
                       int64_t width, const int32_t *col, int64_t n, size_t item, uint8_t *row,
                       struct err *e)
{
    for (int64_t r = 0; r < rows; r++, dst += stride * item) {
        if (st_read(t->shard, row, t->t->offset + (uint64_t)(r * width) * item,
                    (uint64_t)width * item, e))
            return -1;
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + (size_t)i * item, row + (size_t)col[i] * item, item);
        memset(dst + (size_t)n * item, 0, (stride - (size_t)n) * item);
    }
    return 0;
}

/* Zero points of n outputs from col on -> zeros [n_source][n], behind the words in src. */
static int read_zeros(const struct linear *l, int64_t col, int64_t n, const struct job_buffers *b,
                      const uint16_t **zeros, struct err *e)
{
    const struct hf_tensor *t = l->qzeros;
    int64_t width = t->t->shape[1], words = l->order ? 0 : unpack_n_words(n, l->bits);
    uint32_t *raw = (uint32_t *)(void *)b->src;
    uint16_t *z = (uint16_t *)(void *)(raw + l->n_source * words),
             *all = (uint16_t *)(void *)(b->row + (size_t)width * 4);
    *zeros = z;
    if (!l->order) {
        if (read_columns(t, b->src, (size_t)words, l->n_source, width, unpack_n_words(col, l->bits),
                         words, 4, e))
            return -1;
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
        for (int64_t i = 0; i < n; i++) z[g * n + i] = all[l->order[col + i]];
    }
    return 0;
}

static int put_codes(struct plan *p, const struct job *j, const struct job_buffers *b,
                     const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    const struct linear *l = j->linear;
    const struct slots *s = &l->slots;
    int per_word = l->layout == UNPACK_AWQ ? 8 : 1; /* columns in a word of a row */
    int64_t rows = l->qweight->t->shape[0], col = j->panel * MF_PANEL,
            n = l->out - col < j->n_panels * MF_PANEL ? l->out - col : j->n_panels * MF_PANEL;
    size_t stride = (size_t)(j->n_panels * MF_PANEL / per_word);
    uint64_t panel_bytes = (uint64_t)s->k * MF_PANEL / 2;
    const uint32_t *words = (const uint32_t *)(const void *)b->src;
    if (l->order
            ? read_chosen(l->qweight, b->src, stride, rows, l->out, l->order + col, n, 4, b->row, e)
            : read_columns(l->qweight, b->src, stride, rows, l->qweight->t->shape[1],
                           col / per_word, n / per_word, 4, e))
        return -1;
    if (l->bits == 4 && s->identity && l->layout != UNPACK_AWQ) {
        panels_from_words(b->dst, words, stride, s->k, j->n_panels);
    } else {
        for (int64_t i = 0; i < j->n_panels; i++) {
            unpack_codes(b->codes, words + i * MF_PANEL / per_word, stride, l->in, l->layout,
                         l->bits);
            panels_pack(b->dst + (uint64_t)i * panel_bytes, b->codes, s);
        }
    }
    if (n % MF_PANEL) /* rows past `out` are zero: the words are, and no layout makes a code of
                         nothing */
        CHECK(!b->dst[(uint64_t)j->n_panels * panel_bytes - 1]);
    return put(p, l->codes_at, j->piece, (uint64_t)j->panel * panel_bytes, b->dst,
               (uint64_t)j->n_panels * panel_bytes, o, n_bytes, e);
}

static int put_panels(struct plan *p, const struct job *j, const struct job_buffers *b,
                      const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    const struct linear *l = j->linear;
    const struct slots *s = &l->slots;
    int64_t col = j->panel * MF_PANEL,
            n = l->out - col < j->n_panels * MF_PANEL ? l->out - col : j->n_panels * MF_PANEL;
    uint64_t items = (uint64_t)(s->n_groups * MF_PANEL), size = dtype_bytes(l->scale_type);
    enum dtype type = l->scales->t->dtype;
    if (put_codes(p, j, b, o, n_bytes, e)) return -1;

    if (l->order ? read_chosen(l->scales, b->src, (size_t)n, l->n_source, l->out, l->order + col, n,
                               dtype_bytes(type), b->row, e)
                 : read_columns(l->scales, b->src, (size_t)n, l->n_source, l->out, col, n,
                                dtype_bytes(type), e))
        return -1;
    panels_scales(b->dst, l->scale_type, b->src, type, (size_t)n, n, s);
    if (put(p, l->scales_at, j->piece, (uint64_t)j->panel * items * size, b->dst,
            (uint64_t)j->n_panels * items * size, o, n_bytes, e))
        return -1;

    const uint16_t *zeros;
    if (read_zeros(l, col, n, b, &zeros, e)) return -1;
    panels_zeros(b->dst, zeros, (size_t)n, n, s);
    return put(p, l->zeros_at, j->piece, (uint64_t)j->panel * items, b->dst,
               (uint64_t)j->n_panels * items, o, n_bytes, e);
}

int job_run(struct plan *p, const struct job *j, const struct job_buffers *b,
            const struct job_output *o, uint64_t *n_bytes, struct err *e)
{
    *n_bytes = 0;
    switch (j->kind) {
    case JOB_MEMORY:
        return put(p, j->tensor, j->piece, 0, j->data, p->tensors[j->tensor].bytes, o, n_bytes, e);
    case JOB_COPY:
        if (st_read(j->source->shard, b->src, j->source->t->offset + j->at, j->bytes, e)) return -1;
        return put(p, j->tensor, j->piece, j->at, b->src, j->bytes, o, n_bytes, e);
    case JOB_PANELS: return put_panels(p, j, b, o, n_bytes, e);
    }
    return 0;
}
