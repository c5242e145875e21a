/* job_panels.c: JOB_PANELS: the codes, scales and zeros of some panels of a quantized module;
 * JOB_TURNED: the numbers that they stand for, transposed. */
#include "convert/job.h"

#include "convert/mxfp4.h"
#include "convert/offsets.h"
#include "convert/panels.h"
#include "convert/round8.h"
#include "core/model/modelfile.h"

#include <string.h>

/* Columns of a [rows][width] matrix in a shard, elements of `item` bytes. */
struct columns {
    const struct hf_tensor *t;
    uint64_t from; /* offset in the tensor, bytes */
    int64_t rows, width;
    int64_t first, n;     /* columns first .. first+n-1 */
    const int32_t *order; /* [n] the columns; NULL: the above */
    int per;              /* a column of `order` lies in element order[i] / per */
    int turned;           /* stored as [width][rows] */
    size_t item;
};

/* The first and the last column. */
static void range_of(const struct columns *c, int64_t *lo, int64_t *hi)
{
    *lo = c->first, *hi = c->first + c->n - 1;
    for (int64_t i = 0; i < c->n && c->order; i++) {
        int64_t at = c->order[i] / c->per;
        if (!i || at < *lo) *lo = at;
        if (!i || at > *hi) *hi = at;
    }
}

/* dst [rows][stride] = src [n][rows] */
static void turn(uint8_t *restrict dst, size_t stride, const uint8_t *restrict src, int64_t rows,
                 int64_t n, size_t item)
{
    if (item == 4) {
        uint32_t *d = (uint32_t *)(void *)dst;
        for (int64_t r = 0; r < rows; r++, d += stride)
            for (int64_t i = 0; i < n; i++) memcpy(d + i, src + 4 * (i * rows + r), 4);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + ((size_t)r * stride + (size_t)i) * item,
                   src + (size_t)(i * rows + r) * item, item);
}

/* read_columns() of a turned matrix: columns lie one after the other. */
static int read_turned(const struct columns *c, uint8_t *dst, size_t stride, uint8_t *row,
                       struct err *e)
{
    uint64_t offset = c->t->t->offset + c->from, column = (uint64_t)c->rows * c->item;
    for (int64_t i = 0, more; i < c->n; i += more) {
        int64_t at = c->order ? c->order[i] / c->per : c->first + i;
        for (more = 1; more < PLAN_TURNED && i + more < c->n; more++)
            if (c->order && c->order[i + more] / c->per != at + more) break;
        if (st_read(c->t->shard, row, offset + (uint64_t)at * column, (uint64_t)more * column, e))
            return -1;
        turn(dst + (size_t)i * c->item, stride, row, c->rows, more, c->item);
    }
    for (int64_t r = 0; r < c->rows && stride > (size_t)c->n; r++)
        memset(dst + ((size_t)r * stride + (size_t)c->n) * c->item, 0,
               (stride - (size_t)c->n) * c->item);
    return 0;
}

/* Reads the columns into dst [rows][stride]; the rest of a row becomes 0. row: a buffer for one row
 * of the matrix; of a turned one, for PLAN_TURNED columns. */
static int read_columns(const struct columns *c, uint8_t *dst, size_t stride, uint8_t *row,
                        struct err *e)
{
    const struct st_file *shard = c->t->shard;
    uint64_t offset = c->t->t->offset + c->from;
    size_t bytes = (size_t)c->n * c->item;
    int64_t lo, hi;
    if (c->turned) return read_turned(c, dst, stride, row, e);
    if (!c->order && c->n == c->width && stride == (size_t)c->n)
        return st_read(shard, dst, offset, (uint64_t)(c->rows * c->width) * c->item, e);
    range_of(c, &lo, &hi);
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
    int64_t width = unpack_n_words(l->out, l->bits);
    struct columns c = {.t = l->qzeros,
                        .rows = l->n_source,
                        .width = width,
                        .n = width,
                        .turned = l->store == STORE_ROWS,
                        .item = 4};
    if (!l->rows) c.first = unpack_n_words(col, l->bits), c.n = unpack_n_words(n, l->bits);
    if (!l->qzeros) c.n = 0;
    uint32_t *raw = (uint32_t *)(void *)b->src;
    uint16_t *z = (uint16_t *)(void *)(raw + l->n_source * c.n), *all = (uint16_t *)(void *)b->row;
    *zeros = z;
    for (int64_t i = 0; i < l->n_source * n && !l->qzeros; i++)
        z[i] = (uint16_t)(1 << (l->bits - 1));
    if (!l->qzeros) return 0;
    if (read_columns(&c, b->src, (size_t)c.n, b->row, e)) return -1;
    for (int64_t g = 0; g < l->n_source; g++) {
        unpack_zero_row(l->rows ? all : z + g * n, raw + g * c.n, l->rows ? l->out : n, l->layout,
                        l->bits, l->zeros, NULL);
        for (int64_t i = 0; i < n && l->rows; i++) z[g * n + i] = all[l->rows[col + i]];
    }
    return 0;
}

/* Reads the words of the codes of n outputs into b->src [..][stride]. */
static int read_words(const struct quant_linear *l, int64_t col, int64_t n, size_t stride,
                      const struct job_buffers *b, struct err *e)
{
    int per_word = l->layout == UNPACK_AWQ ? 8 : 1; /* columns per word of a row */
    struct columns c = {.t = l->qweight,
                        .from = l->qweight_from,
                        .rows = l->n_words,
                        .width = (l->out + per_word - 1) / per_word,
                        .first = col / per_word,
                        .n = n / per_word,
                        .per = per_word,
                        .turned = l->store != STORE_COLUMNS,
                        .item = 4};
    if (l->rows) c.order = l->rows + col, c.n = n;
    return read_columns(&c, b->src, stride, b->row, e);
}

/* Codes [in][16] of one panel of n outputs, at most 16. words: [..][stride], the panel's first
 * column (first output `col` of those to be taken). */
static void codes_of_panel(const struct quant_linear *l, uint8_t *codes, const uint32_t *words,
                           size_t stride, int64_t col, int n)
{
    if (l->layout == UNPACK_AWQ && l->rows)
        unpack_awq_columns(codes, words, stride, l->in, l->rows + col, n);
    else
        unpack_codes(codes, words, stride, l->in, l->layout,
                     l->store == STORE_MXFP4 ? 4
                     : l->bytes              ? 8
                                             : l->bits);
    for (int64_t i = 0; i < l->in && l->bytes; i++)
        for (int r = 0; r < n; r++) /* modulo 256: of signed ones */
            codes[i * MF_PANEL + r] = (uint8_t)(codes[i * MF_PANEL + r] + (1 << (l->bits - 1)));
    if (l->store != STORE_MXFP4) return;
    mxfp4_codes(codes, l->in * MF_PANEL);
    for (int64_t i = 0; i < l->in && n < MF_PANEL; i++)
        memset(codes + i * MF_PANEL + n, 0, (size_t)(MF_PANEL - n));
}

/* Error: a code of more than 4 bits in a group of 4; W4A4 alone. */
static int check_low(const struct quant_linear *l, const uint8_t *codes, struct err *e)
{
    const struct slots *s = l->slots;
    for (int64_t i = 0; i < l->in * MF_PANEL && l->bytes; i++)
        if (codes[i] >> l->bits)
            return err_set(e,
                           "%s: tensor '%s' holds the number %d of input %lld, more than %d bits: "
                           "the checkpoint is damaged",
                           l->qweight->shard->path, l->qweight->t->name,
                           codes[i] < 136 ? codes[i] - 8 : codes[i] - 264,
                           (long long)(i / MF_PANEL), l->bits);
    for (int64_t g = 0; g < s->n_groups && s->low; g++) {
        if (s->groups[g].source >= s->low) continue;
        for (int64_t j = g * s->group; j < (g + 1) * s->group; j++)
            for (int r = 0; r < MF_PANEL && s->perm[j] >= 0; r++)
                if (codes[s->perm[j] * MF_PANEL + r] > 15)
                    return err_set(e,
                                   "%s: tensor '%s' holds the code %d of input %d in a group of 4 "
                                   "bits: the checkpoint is damaged",
                                   l->qweight->shard->path, l->qweight->t->name,
                                   codes[s->perm[j] * MF_PANEL + r], s->perm[j]);
    }
    return 0;
}

static int put_codes(struct job_task *k, int64_t col, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = j->linear;
    const struct slots *s = l->slots;
    int per_word = l->layout == UNPACK_AWQ && !l->rows ? 8 : 1;
    size_t stride = (size_t)(j->n_panels * MF_PANEL / per_word);
    uint64_t panel_bytes = (uint64_t)s->k * MF_PANEL / 2,
             bytes = (uint64_t)j->n_panels * panel_bytes;
    const uint32_t *words = (const uint32_t *)(const void *)b->src;
    if (read_words(l, col, n, stride, b, e)) return -1;
    if (l->bits == 4 && !l->bytes && s->identity && l->layout != UNPACK_AWQ) {
        panels_from_words(b->dst, words, stride, s->k, j->n_panels);
    } else {
        for (int64_t i = 0; i < j->n_panels; i++) {
            int64_t rest = n - i * MF_PANEL;
            codes_of_panel(l, b->codes, words + i * MF_PANEL / per_word, stride, col + i * MF_PANEL,
                           rest < MF_PANEL ? (int)rest : MF_PANEL);
            if (check_low(l, b->codes, e)) return -1;
            panels_pack(b->dst + (uint64_t)i * panel_bytes, b->codes, s);
        }
    }
    /* Rows past `n_rows` are zero: their words are, and every layout maps 0 to code 0. */
    if (n % MF_PANEL) CHECK(!b->dst[bytes - 1]);
    return job_put(k, l->codes_at, (uint64_t)(l->first_panel + j->panel) * panel_bytes, b->dst,
                   bytes, e);
}

/* Writes scales [n_source][n] of TYPE. */
static int put_scales(struct job_task *k, const void *scales, enum dtype type, int64_t n,
                      struct err *e)
{
    const struct plan_job *j = k->job;
    const struct quant_linear *l = j->linear;
    uint64_t bytes = (uint64_t)(l->slots->n_groups * MF_PANEL) * dtype_bytes(l->scale_type);
    panels_scales(k->buffers->dst, l->scale_type, scales, type, (size_t)n, n, l->slots);
    return job_put(k, l->scales_at, (uint64_t)(l->first_panel + j->panel) * bytes, k->buffers->dst,
                   (uint64_t)j->n_panels * bytes, e);
}

/* Writes zeros [n_source][n]. */
static int put_zeros(struct job_task *k, const uint16_t *zeros, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct quant_linear *l = j->linear;
    uint64_t bytes = (uint64_t)(l->slots->n_groups * MF_PANEL);
    panels_zeros(k->buffers->dst, zeros, (size_t)n, n, l->slots);
    return job_put(k, l->zeros_at, (uint64_t)(l->first_panel + j->panel) * bytes, k->buffers->dst,
                   (uint64_t)j->n_panels * bytes, e);
}

/* Reads one tensor of scales, of n outputs from col on, to dst [n_source][n], as they are stored.
 */
static int read_groups(const struct quant_linear *l, const struct hf_tensor *t, int64_t col,
                       int64_t n, const struct job_buffers *b, uint8_t *dst, struct err *e)
{
    const struct columns c = {.t = t,
                              .from = l->scales_from,
                              .rows = l->n_source,
                              .width = l->out,
                              .first = col,
                              .n = n,
                              .order = l->rows ? l->rows + col : NULL,
                              .per = 1,
                              .turned = l->store != STORE_COLUMNS,
                              .item = dtype_bytes(t->t->dtype)};
    if (!l->one_scale) return read_columns(&c, dst, (size_t)n, b->row, e);
    if (st_read(t->shard, dst, t->t->offset, c.item, e)) return -1;
    for (int64_t i = 1; i < n; i++) memcpy(dst + (size_t)i * c.item, dst, c.item);
    return 0;
}

static int read_scales(const struct quant_linear *l, int64_t col, int64_t n,
                       const struct job_buffers *b, struct err *e)
{
    return read_groups(l, l->scales, col, n, b, b->src, e);
}

/* Zero points of n outputs from col on, [n_source][n] behind scales and least values in src, and
 * their offsets to the output [n][n_source]. */
static int put_offsets(struct job_task *k, int64_t col, int64_t n, const uint16_t **zeros,
                       struct err *e)
{
    const struct plan_job *j = k->job;
    const struct quant_linear *l = j->linear;
    const struct job_buffers *b = k->buffers;
    enum dtype type = l->least->t->dtype;
    const size_t count = (size_t)(l->n_source * n), bytes = count * dtype_bytes(type);
    uint8_t *least = b->src + bytes;
    uint16_t *z = (uint16_t *)(void *)(least + bytes);
    if (read_scales(l, col, n, b, e) || read_groups(l, l->least, col, n, b, least, e)) return -1;
    for (size_t i = 0; i < count; i++) {
        const size_t to = i % (size_t)n * (size_t)l->n_source + i / (size_t)n;
        float offset = offset_of(f32_at(b->src, type, i), f32_at(least, type, i), type, &z[i]);
        if (type == DT_F16) ((uint16_t *)(void *)b->dst)[to] = f16_from_f32(offset);
        else ((float *)(void *)b->dst)[to] = offset;
    }
    *zeros = z;
    const uint64_t row = (uint64_t)l->first_panel * MF_PANEL + (uint64_t)col;
    return job_put(k, l->offsets_at, row * (uint64_t)l->n_source * dtype_bytes(type), b->dst, bytes,
                   e);
}

static int put_stored_scales(struct job_task *k, int64_t col, int64_t n, struct err *e)
{
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = k->job->linear;
    enum dtype type = l->scales->t->dtype;
    if (read_scales(l, col, n, b, e)) return -1;
    if (l->store != STORE_MXFP4) return put_scales(k, b->src, type, n, e);
    int64_t count = l->n_source * n;
    float *f = (float *)(void *)(b->src + (count + 63) / 64 * 64);
    for (int64_t i = 0; i < count; i++) f[i] = mxfp4_scale(b->src[i]);
    return put_scales(k, f, DT_F32, n, e);
}

/* Rounds n rows of a plain matrix, and writes codes, scales and zeros. */
static int put_rounded(struct job_task *k, int64_t col, int64_t n, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = j->linear;
    enum dtype type = l->plain->t->t->dtype;
    size_t in = (size_t)l->in, item = dtype_bytes(type), raw = (size_t)n * in * item;
    uint64_t panel_bytes = (uint64_t)l->slots->k * MF_PANEL / 2;
    float *scales = (float *)(void *)(b->src + (raw + 63) / 64 * 64), *w = (float *)(void *)b->row;
    uint16_t *zeros = (uint16_t *)(void *)(scales + l->n_source * n);
    if (job_read_rows(l->plain, col, n, b->src, b->row, e)) return -1;
    for (int64_t i = 0; i < l->n_source * n; i++) zeros[i] = ROUND8_ZERO;
    for (int64_t r = 0; r < j->n_panels * MF_PANEL; r++) {
        if (r < n) {
            for (size_t i = 0; i < in; i++) w[i] = f32_at(b->src + (size_t)r * in * item, type, i);
            round8_row(b->codes + r % MF_PANEL, MF_PANEL, scales + r, (size_t)n, l->scale_type, w,
                       l->in);
        } else {
            for (size_t i = 0; i < in; i++) b->codes[i * MF_PANEL + (size_t)r % MF_PANEL] = 0;
        }
        if (r % MF_PANEL == MF_PANEL - 1)
            panels_pack(b->dst + (uint64_t)(r / MF_PANEL) * panel_bytes, b->codes, l->slots);
    }
    uint64_t at = (uint64_t)(l->first_panel + j->panel) * panel_bytes;
    return job_put(k, l->codes_at, at, b->dst, (uint64_t)j->n_panels * panel_bytes, e) ||
                   put_scales(k, scales, DT_F32, n, e) || put_zeros(k, zeros, n, e)
               ? -1
               : 0;
}

int job_panels(struct job_task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    const struct quant_linear *l = j->linear;
    int64_t col = j->panel * MF_PANEL, rest = l->n_rows - col,
            n = rest < j->n_panels * MF_PANEL ? rest : j->n_panels * MF_PANEL;
    const uint16_t *zeros;
    if (l->store == STORE_ROUNDED) return put_rounded(k, col, n, e);
    if (put_codes(k, col, n, e) || put_stored_scales(k, col, n, e) ||
        (l->least ? put_offsets(k, col, n, &zeros, e)
                  : read_zeros(l, col, n, k->buffers, &zeros, e)))
        return -1;
    return put_zeros(k, zeros, n, e);
}

/* Numbers of up to 16 outputs from col on, to columns col .. of out [in][n_rows]; scale: a buffer
 * [n_source][16]. */
static int turn_panel(const struct job_task *k, int64_t col, float *scale, float *out,
                      struct err *e)
{
    const struct job_buffers *b = k->buffers;
    const struct quant_linear *l = k->job->linear;
    const struct slots *s = l->slots;
    int64_t n = l->n_rows - col < MF_PANEL ? l->n_rows - col : MF_PANEL;
    const uint16_t *zeros;
    if (read_words(l, col, n, MF_PANEL, b, e)) return -1;
    codes_of_panel(l, b->codes, (const uint32_t *)(const void *)b->src, MF_PANEL, col, (int)n);
    if (check_low(l, b->codes, e)) return -1;
    if (read_scales(l, col, n, b, e)) return -1;
    for (int64_t i = 0; i < l->n_source * n; i++)
        scale[i] = f32_at(b->src, l->scales->t->dtype, (size_t)i);
    if (read_zeros(l, col, n, b, &zeros, e)) return -1;
    for (int64_t j = 0; j < s->k; j++) {
        int64_t group = s->groups[j / s->group].source, i = s->perm[j];
        for (int64_t r = 0; r < n && i >= 0; r++)
            out[i * l->n_rows + col + r] =
                scale[group * n + r] * (float)(b->codes[i * MF_PANEL + r] - zeros[group * n + r]);
    }
    return 0;
}

int job_turned(struct job_task *k, struct err *e)
{
    const struct plan_job *j = k->job;
    float *out = (float *)(void *)k->buffers->dst, *scale = out + j->bytes / sizeof *out;
    for (int64_t col = 0; col < j->linear->n_rows; col += MF_PANEL)
        if (turn_panel(k, col, scale, out, e)) return -1;
    return job_put(k, j->tensor, j->at, out, j->bytes, e);
}
