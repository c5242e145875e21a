/* kernels.h: the interface of an instruction-set variant: for each operation a kernel for one task.
 * A new variant is one file with a const struct cpu_kernels and an entry of cpu_ladder
 * (ladder.c). Rows of x and y are dense; every function is a pure function of its arguments, called
 * from any thread.
 *
 * All variants except the reference have the same order of operations, for any number of rows, and
 * so the same bits on any machine. Fused (fmaf) are the products of q4, dense, and of attention's
 * scores and values. Every operation is rounded separately in q4i, RMSNorm, RoPE, and the merging
 * of attention's chunks (x*a + y*b: two products, then a sum).
 *  q4      per output: sub-groups of min(group, 128) inputs; within one, products summed input by
 *          input from 0; then total = total + scale * sum, sub-group by sub-group; bias last
 *  q4i     per output: sub-group by sub-group, total = total + integer sum * (activation scale *
 *          weight scale), each operation rounded; bias last. Groups that are pairs (core/model/
 *          linear.h) are one group of codes of 8 bits with the scale of the low one
 *  dense   16 lanes, lane l takes inputs l, l+16, ..; the lanes are then folded 8, 4, 2, 1; bias
 *          last
 *  sums    16 lanes from 0, folded 8, 4, 2, 1
 *  route   scores: exponentials summed in 16 lanes, then divided; chosen ones summed in order
 *  mix     a product, then fused sums, in order of the slots
 *  attend  chunks of ATTEND_CHUNK positions at absolute multiples: scores summed dimension by
 *          dimension, maximum, exponentials, their sum in 16 lanes, values summed position by
 *          position; chunks merged in order, a sink after the last. KV_INT8: scores times the
 *          scales of keys, exponentials times those of values (in fp32 a subnormal product is 0);
 *          in integers a score and a chunk's value are an exact sum times one scale
 *          (attend_int8.h)
 *  layer_norm  mean: 16 lanes, folded; the squares of the differences likewise
 *  add     in1 * gate + in0 fused, then the product with the factor */
#ifndef BACKEND_CPU_KERNELS_H
#define BACKEND_CPU_KERNELS_H

#include "backend-cpu/states.h"
#include "core/step/backend.h"
#include "core/step/op.h"

enum {
    CPU_SUBGROUP = 128, /* longest run of products summed before the scale is applied */
    CPU_PANELS = 4,     /* most panels of 16 outputs of a q4 task */
    CPU_ROW_TILE =
        240, /* rows per pass over the codes; the heights of the register blocks divide it */
    CPU_DENSE_ROWS = 64, /* most outputs of a dense task */
    ATTEND_CHUNK = 256,
    ATTEND_QUERIES = 32, /* most (row, head) pairs of one attend task */
};

/* Activations of one integer q4 call. Integer = 128 * first digit + second digit (two digits), or
 * the digit. A variant reads only the output of its own quantize: avx2 stores the bytes in another
 * order. */
struct q4_digits {
    int rows, n_digits;
    int low; /* inputs of the packed order before number `low` are integers of 4 bits (ACT_INT4) */
    const int8_t
        *digit; /* the sub-group from input j0 on, n inputs: [n_digits][rows][n] at digit + j0 *
                   rows * n_digits; behind the last there are DIGIT_SLACK more bytes to read */
    const float *scale; /* [sub-group][rows] activation = scale * integer */
    const int32_t *sum; /* [sub-group][rows] sum of the integers */
    int32_t largest; /* bits of the magnitude that all scales of the row are for, which `quantize`
                        is called with; 0: each sub-group's own */
};

enum { DIGIT_SLACK = 32 };

enum kv_part { KEYS, VALUES };

/* One attend task: some consecutive rows of one sequence and some query heads that share one KV
 * head. */
struct attend_task {
    const float *q; /* first row, first head; a row is row_stride floats, a head head_dim */
    float *out;     /* a row is out_stride floats, a head value_dim */
    int row_stride, out_stride, n_rows, n_heads; /* n_rows * n_heads <= ATTEND_QUERIES */
    int pos0; /* position of the first row; row r attends to positions <= pos0 + r */
    /* NULL: all chunks, `out` is written. Else the chunks chunk0 .. chunk1-1, at
     * least one that the first row sees, are kept here apart, [chunk][(2 + value_dim) * n_rows *
     * n_heads] (fp32.h), for `merge` */
    float *kept;
    int chunk0, chunk1;
    int window, head_dim, value_dim;
    /* 1: latent heads (core/step/op.h): values are the first value_dim elements of keys. They are
     * brought into the order of values, page by page, behind the keys in `unpacked` (latent.h) */
    int latent;
    float scale, softcap; /* softcap 0: none */
    const float *sinks;   /* [n_heads] of these heads; NULL: none */
    /* of the KV head, as OP_ATTEND has them: [bias_pairs][KEY_BIAS_ROW]; [chunks][head_dim] */
    const float *bias, *turns;
    int bias_pairs; /* 0: none */
    enum kv_type kv;
    int q_top;         /* KV_INT8: query_top of the arithmetic */
    const char *pages; /* this layer's pages, moved to the KV head */
    size_t page_bytes;
    const int32_t *table; /* page of positions KV_PAGE*i .. */
    /* KV_INT4 (packed.h): kv is KV_INT8, `pages` are packed, and `unpack` makes keys or values of
     * that kind of them; the rows are of one page, which is in `own` instead. Else NULL */
    void (*unpack)(const char *page, enum kv_part part, int head_dim, char *to);
    const char *own;
    char *unpacked; /* scratch: [ATTEND_CHUNK / KV_PAGE] pages without values, the values; of
                       latent heads, too */
};

/* One row of OP_ROUTE. */
struct route_task {
    const struct op *op;
    const float *x;            /* [n_experts] */
    const float *bias, *factor; /* [n_experts] or NULL: w0, w1 */
    int32_t *id;               /* [top_k] */
    float *weight;             /* [top_k] */
};

/* The attributes of OP_GLU. */
struct cpu_glu {
    enum activation activation;
    float limit, alpha; /* ACTIVATION_SWIGLU_CLAMPED */
    struct xielu xielu; /* ACTIVATION_XIELU */
};

struct cpu_kernels {
    const char *name;
    const char *(*unusable)(
        void); /* NULL when this processor and system can run it, else why not */
    /* y[rows][out], outputs of panels p0 .. p1-1 (at most CPU_PANELS); x permuted and packed: the
     * inputs of a sub-group (from j0 on, n of them, see q4_next) stand together as [rows][n] at x +
     * j0 * rows. So the rows of a register block lie side by side (a power-of-two row length would
     * put them all into one set of the L1 cache); one row is just [k]. scratch:
     * CPU_PANELS*16*(CPU_SUBGROUP + CPU_ROW_TILE) floats of the calling thread, and for q4i
     * CPU_PANELS*32 bytes for each input */
    void (*q4)(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
               float *scratch);
    /* x [in] as row `row` of *q, through whose pointers it writes; a sub-group with a value that is
     * not finite gets the scale NaN (act_quant.h) */
    void (*quantize)(const struct linear *w, const float *x, int row, const struct q4_digits *q);
    /* q4 from integer activations */
    void (*q4i)(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                float *scratch);
    /* y[rows][out], outputs n0 .. n1-1; x [rows][in] */
    void (*dense)(const struct linear *w, const float *x, float *y, int rows, int n0, int n1);
    /* one row of OP_NORM (core/step/op.h); layer_norm: of a centered one, bias [dim] or NULL */
    void (*norm)(float *x, const float *delta, const float *weight, float eps, float *out, int dim);
    void (*layer_norm)(float *x, const float *delta, const float *weight, const float *bias,
                       float eps, float *out, int dim);
    /* one row of OP_ADD: x = (x + y / (1 + e^-*gate)) * factor; x, y [n]; y NULL: 0; gate NULL:
     * y as it is */
    void (*add)(float *x, const float *y, const float *gate, float factor, int n);
    /* n heads of one row: optional RMSNorm (weight [head_dim]) and rotation, from x to y; cos, sin
     * [head_dim/2] */
    void (*rope)(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                 float eps, const float *cos, const float *sin);
    /* scratch: attend_floats(head_dim) floats */
    void (*attend)(const struct attend_task *t, float *scratch);
    /* What attend writes, from all chunks that tasks have kept; NULL: tasks keep none. scratch as
     * attend */
    void (*merge)(const struct attend_task *t, float *scratch);
    /* gate, up [n]; up NULL: the activation alone */
    void (*glu)(const struct cpu_glu *a, float *gate, const float *up, size_t n);
    /* x[i] = cap * tanh(x[i] / cap) */
    void (*softcap)(float *x, float cap, size_t n);
    /* Bytes of packed activations or digits that stay in one core's cache from task to task; 0: no
     * limit */
    size_t cached_bytes;
    /* the only row of *from as row `row` of *to, through whose pointers it writes: what quantize
     * makes of the same activations */
    void (*copy_digits)(const struct linear *w, const struct q4_digits *from,
                        const struct q4_digits *to, int row);
    /* Copies rows [n] of `from` to row[i] of y, whose rows are `stride` floats apart, past the
     * caches. NULL: the variant has no such stores. */
    void (*scatter)(float *y, size_t stride, const int32_t *row, const float *from, int rows,
                    int n);
    void (*route)(const struct route_task *t);
    /* one row of OP_MIX: x [top_k][n], weight [top_k], out [n] */
    void (*mix)(const float *x, const float *weight, int top_k, float *out, int n);
    /* one row of OP_GROUP_SUMS: x [groups][group], out [groups]; group: a multiple of 16 */
    void (*sums)(const float *x, int group, int groups, float *out);
    const struct state_kernels *states;
    /* the keys or values of one head in a page of KV_INT4 as they are in one of KV_INT8 (packed.h)
     */
    void (*unpack)(const char *page, enum kv_part part, int head_dim, char *to);
};

extern const struct cpu_kernels cpu_ref, cpu_scalar;
#if defined(__x86_64__)
extern const struct cpu_kernels cpu_avx2, cpu_avx512, cpu_vnni, cpu_amx;
#elif defined(__aarch64__)
extern const struct cpu_kernels cpu_neon, cpu_dotprod, cpu_i8mm;
#endif

/* The ladder from slowest to fastest, NULL-terminated; the reference first. */
extern const struct cpu_kernels *const cpu_ladder[];

/* The known-answer check: NULL, or the name of the first kernel of k that disagrees with the
 * variant scalar, which is trusted, as ref is. About a millisecond; 200 KiB of stack. */
const char *cpu_selfcheck(const struct cpu_kernels *k);
/* The variant `name` of a ladder; for "auto" the last one that this machine can run and that passes
 * the check. NULL with an error that names variant and kernel (pinned) or lists the names. note
 * [note_bytes]: the variants that "auto" refused, "" for none. */
const struct cpu_kernels *cpu_choose(const struct cpu_kernels *const *ladder, const char *name,
                                     char *note, size_t note_bytes, struct err *e);

/* Floats of scratch of an attend task; what each part is for: struct attend_state. */
static inline size_t attend_floats(int head_dim)
{
    return ATTEND_QUERIES * (2 * ATTEND_CHUNK + 6 * (size_t)head_dim + 64);
}

/* Keys of a page are [head_dim][KV_PAGE], values [KV_PAGE][head_dim]: each is stored in the
 * order of the vector lanes that read it, so that no horizontal sums are needed.
 * KV_INT8, n = kv_padded(head_dim): keys [n/4][KV_PAGE][4], each plus KEY_BIAS and so unsigned, as
 * one operand of a four-way dot product has to be; values [KV_PAGE/4][n][4 positions], signed;
 * scales of keys [KV_PAGE], of values [KV_PAGE]. */
enum { KEY_BIAS = 128 };

/* Bytes of an element. */
static inline size_t kv_bytes(enum kv_type t) { return t == KV_F32 ? 4 : t == KV_F16 ? 2 : 1; }

/* Bytes of a page's keys, and of its values. */
static inline size_t kv_part_bytes(enum kv_type t, int head_dim)
{
    return (size_t)kv_padded(t, head_dim) * KV_PAGE * kv_bytes(t);
}

/* KV_INT4: where a page of the current chunk is unpacked: the keys, behind them as in a page of
 * KV_INT8 the scales; the values, those of a chunk one page behind the other. */
enum { CHUNK_PAGES = ATTEND_CHUNK / KV_PAGE };

/* kv_head_bytes(KV_INT8, head_dim), inline. */
static inline size_t unpacked_page_bytes(int head_dim)
{
    return 2 * KV_PAGE * ((size_t)((head_dim + 3) / 4 * 4) + sizeof(float));
}

static inline char *unpacked_keys(const struct attend_task *t, int page_index)
{
    return t->unpacked + (size_t)(page_index % CHUNK_PAGES) * unpacked_page_bytes(t->head_dim);
}
static inline char *unpacked_values(const struct attend_task *t, int page_index)
{
    return t->unpacked + CHUNK_PAGES * unpacked_page_bytes(t->head_dim) +
           (size_t)(page_index % CHUNK_PAGES) * kv_part_bytes(t->kv, t->value_dim);
}

/* Bytes of this scratch, which is behind the floats; the values of latent heads are of any kind. */
static inline size_t unpacked_bytes(int head_dim, int latent)
{
    size_t element = latent ? sizeof(float) : 1;
    return CHUNK_PAGES * (unpacked_page_bytes(head_dim) +
                          KV_PAGE * element * (size_t)kv_padded(KV_INT8, head_dim));
}

static inline const void *page_keys(const struct attend_task *t, int page_index)
{
    if (t->unpack) return page_index == t->pos0 / KV_PAGE ? t->own : unpacked_keys(t, page_index);
    return t->pages + (size_t)t->table[page_index] * t->page_bytes;
}

static inline const void *page_values(const struct attend_task *t, int page_index)
{
    if (t->unpack || t->latent) return unpacked_values(t, page_index);
    return (const char *)page_keys(t, page_index) + kv_part_bytes(t->kv, t->head_dim);
}

/* The scales of a page's keys [KV_PAGE], behind them those of its values. */
static inline const float *key_scales(const void *keys, int head_dim)
{
    return (const float *)((const char *)keys + 2 * kv_part_bytes(KV_INT8, head_dim));
}

/* Of latent heads: the scales of a page's latents [KV_PAGE], behind them those of rotated parts. */
static inline const float *latent_scales(const void *keys, int head_dim)
{
    return (const float *)((const char *)keys + kv_part_bytes(KV_INT8, head_dim));
}

/* The scales of a page's values [KV_PAGE]. */
static inline const float *value_scales(const struct attend_task *t, int page_index)
{
    const void *keys = page_keys(t, page_index);
    return t->latent ? latent_scales(keys, t->head_dim) : key_scales(keys, t->head_dim) + KV_PAGE;
}

/* Place of element d of a key and of a value of KV_INT8 at position `offset` of a page. */
static inline size_t key_at(int d, int offset)
{
    return (size_t)((d / 4 * KV_PAGE + offset) * 4 + d % 4);
}
static inline size_t value_at(int d, int offset, int head_dim)
{
    return (size_t)((offset / 4 * kv_padded(KV_INT8, head_dim) + d) * 4 + offset % 4);
}

/* First input of the sub-group after the one that begins at j0. */
static inline int q4_next(const struct linear *w, int j0)
{
    int group_end = (j0 / w->group + 1) * w->group;
    return j0 + CPU_SUBGROUP < group_end ? j0 + CPU_SUBGROUP : group_end;
}

/* Inputs that q4i reads: of pairs those of a pair once. Sub-groups are counted along these. */
static inline int q4i_inputs(const struct linear *w) { return w->pairs ? w->k / 2 : w->k; }

/* The packed input that has the codes of input j0 of q4i; of pairs the high halves, the low ones
 * are a group further. */
static inline int q4i_packed(const struct linear *w, int j0)
{
    return w->pairs ? j0 + j0 / w->group * w->group : j0;
}

/* The group that has the scale of input j0 of q4i, and its zero point unless they are pairs. */
static inline int q4i_group_of(const struct linear *w, int j0)
{
    return w->pairs ? j0 / w->group * 2 + 1 : j0 / w->group;
}

/* gcc 12 removes calls of functions that do nothing but prefetch. */
#define FETCHES static inline __attribute__((always_inline)) void

/* Asks for the codes of packed inputs j0 .. j0+n-1 of the np panels behind p .. p+np-1, which are
 * being read, and for the scales and zero points of the group of j0. That is early enough for
 * memory, and the hardware prefetches no further than the end of a panel. */
FETCHES fetch_panels(const struct linear *w, int p, int j0, int n, int np)
{
    enum { LINE = 64, INPUT_BYTES = 8 };
    size_t panel = (size_t)(w->k * INPUT_BYTES), groups = (size_t)w->n_groups * 16,
           group = (size_t)(p + np) * groups + (size_t)(j0 / w->group) * 16;
    const uint8_t *c = w->codes + (size_t)(p + np) * panel + (size_t)(j0 * INPUT_BYTES);
    for (int k = 0; k < np; k++, group += groups) {
        __builtin_prefetch((const char *)w->scales + group * dtype_bytes(w->scale_type));
        __builtin_prefetch(w->zeros + group);
    }
    for (int i = 0; i < n * INPUT_BYTES; i += LINE)
        for (int k = 0; k < np; k++) __builtin_prefetch(c + (size_t)k * panel + i);
}

/* fetch_panels() for inputs j0 .. j0+n-1 of q4i. */
FETCHES fetch_panels_q4i(const struct linear *w, int p, int j0, int n, int np)
{
    fetch_panels(w, p, q4i_packed(w, j0), n, np);
    if (w->pairs) fetch_panels(w, p, q4i_packed(w, j0) + w->group, n, np);
}

/* What code - zero point subtracts of pairs. */
enum { PAIR_ZERO = 128 };

/* First position that row r sees. */
static inline int attend_first(const struct attend_task *t, int r)
{
    int pos = t->pos0 + r;
    return op_first_seen(pos, t->window);
}

#endif
