/* delta.hip: the gated delta rule (OP_DELTA; Yang et al. 2025, 3) and, with the constant `ssm`,
 * the recurrence of Mamba-2 (Dao & Gu 2024, 7), one row of a sequence after another. Block
 * (DELTA_COLUMNS columns of a value head, sequence): eight neighbouring threads, the consumers,
 * have two columns of the state S in registers, thread `part` rows i with i / 4 % 8 = part. As
 * many threads behind them, the producers, load rows, norm q and k and compute the gates; they
 * leave a chunk of rows in shared memory while the consumers compute the chunk before. k S of a
 * row, with its sum over the threads, is what the update depends on; q S of the row before is
 * computed beside it.
 * Bits: a sum over the key dimensions has two partial sums in each thread, i % 2, ascending and
 * fused; they are added, then those of neighbours, pairs and fours of threads. Squares of q and
 * k: 8 threads have four neighbouring dimensions of each 32. k (g S) is computed as g (k S). */

/* A chunk of rows in shared memory; the second one is behind it. */
struct delta_stage {
    float *k, *q, *v, *decay, *beta; /* [rows][dims], the same, [rows][DELTA_COLUMNS], [rows], the
                                        same */
};

DEVICE struct delta_stage delta_stage_of(float *lds, int chunk, const int dims, const int rows)
{
    struct delta_stage s;
    s.k = lds + chunk % 2 * DELTA_STAGE(dims, rows);
    s.q = s.k + rows * dims;
    s.v = s.q + rows * dims;
    s.decay = s.v + rows * DELTA_COLUMNS;
    s.beta = s.decay + rows;
    return s;
}

/* The block's columns and rows. */
struct delta_block {
    int head, column0, seq, row, end;
};

DEVICE struct delta_block delta_block_of(const struct delta_args *a)
{
    int of_head = (a->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS, seq = block_y();
    return (struct delta_block){block_x() / of_head, block_x() % of_head * DELTA_COLUMNS, seq,
                                a->state.seq_start[seq], a->state.seq_start[seq + 1]};
}

/* The loads of producer t for the chunk from `row` on: parts of q or k, elements of v, the gates of
 * a row. */
struct delta_loads {
    int t, row;
    f32x4 x[8];
    float v[4], a, b;
};

enum { DELTA_VECTORS = DELTA_THREADS / 8 }; /* vectors of q and k that the producers load at once */

/* Rows behind the sequence are zeros. */
DEVICE void delta_load(const struct delta_args *a, const struct delta_block *b,
                       struct delta_loads *l, const int dims, const int rows, const int ssm)
{
    const int t = l->t, row = l->row;
    int key_head = b->head / (a->value_heads / a->key_heads);
    const f32x4 none = {0, 0, 0, 0};
    UNROLL for (int n = 0; n < (2 * rows + DELTA_VECTORS - 1) / DELTA_VECTORS; n++)
    {
        int vector = n * DELTA_VECTORS + t / 8, is_q = vector / rows, of_x = row + vector % rows;
        const float *x = (is_q ? a->q : a->k) + (u64)of_x * (u64)a->qk_stride +
                         (u64)(key_head * a->key_dim);
        UNROLL for (int j = 0, i = 4 * (t % 8); j < dims / 32; j++, i += 32)
        {
            f32x4 *to = &l->x[n * (dims / 32) + j];
            *to = none;
            if (is_q < 2 && of_x < b->end && i < a->key_dim) *to = *(const f32x4 *)(x + i);
        }
    }
    UNROLL for (int n = 0; n < (rows * DELTA_COLUMNS + DELTA_THREADS - 1) / DELTA_THREADS; n++)
    {
        int index = t + n * DELTA_THREADS, of_v = row + index / DELTA_COLUMNS,
            column = b->column0 + index % DELTA_COLUMNS;
        l->v[n] = 0;
        if (of_v < b->end && column < a->value_dim && index < rows * DELTA_COLUMNS)
            l->v[n] = a->v[(u64)of_v * (u64)a->v_stride + (u64)(b->head * a->value_dim + column)];
    }
    l->a = l->b = 0;
    if (t < rows && row + t < b->end) {
        u64 index = (u64)(row + t) * (u64)a->value_heads + (u64)b->head;
        l->a = a->a[index];
        if (!ssm) l->b = a->b[index];
    }
}

/* Norms q and k, computes the gates, and stores all in shared memory. */
DEVICE void delta_store(const struct delta_args *a, const struct delta_block *b,
                        const struct delta_loads *l, const struct delta_stage *s, const int dims,
                        const int rows, const int ssm)
{
    const int t = l->t;
    UNROLL for (int n = 0; n < (2 * rows + DELTA_VECTORS - 1) / DELTA_VECTORS; n++)
    {
        int vector = n * DELTA_VECTORS + t / 8, is_q = vector / rows;
        float sum = 0, *to = (is_q ? s->q : s->k) + vector % rows * dims + 4 * (t % 8);
        const f32x4 *x = &l->x[n * (dims / 32)];
        UNROLL for (int j = 0; j < dims / 32 && !ssm; j++) UNROLL for (int e = 0; e < 4; e++)
            sum = fma32(x[j][e], x[j][e], sum);
        float f = ssm ? 1 : rsqrt32(sum_of_8(sum) + 1e-6f);
        if (is_q && !ssm) f *= a->q_scale;
        UNROLL for (int j = 0; j < dims / 32 && is_q < 2; j++)
        {
            f32x4 y = x[j];
            UNROLL for (int e = 0; e < 4; e++) y[e] *= f;
            *(f32x4 *)(to + 32 * j) = y;
        }
    }
    UNROLL for (int n = 0; n < (rows * DELTA_COLUMNS + DELTA_THREADS - 1) / DELTA_THREADS; n++)
        if (t + n * DELTA_THREADS < rows * DELTA_COLUMNS)
            s->v[t + n * DELTA_THREADS] = l->v[n];
    if (t < rows) {
        float step = softplus32(l->a + a->dt[b->head]);
        s->decay[t] = exp32(a->decay[b->head] * step);
        s->beta[t] = ssm ? step : a->beta_scale * sigmoid32(l->b);
    }
}

/* A consumer's part of its two columns: element e of [j] is dimension 4 (part + 8 j) + e. */
struct delta_columns {
    f32x4 first[8], second[8];
};

/* x [dims] in shared memory, from the thread's part on. */
DEVICE void delta_get(const float *x, f32x4 *y, const int dims)
{
    UNROLL for (int j = 0; j < dims / 32; j++) y[j] = *(const f32x4 *)(x + 32 * j);
}

/* y times both columns, of this thread. */
DEVICE f32x2 delta_product(const struct delta_columns *c, const f32x4 *y, const int dims)
{
    f32x2 first = {0, 0}, second = {0, 0};
    UNROLL for (int j = 0; j < dims / 32; j++) UNROLL for (int e = 0; e < 4; e++)
    {
        first[e % 2] = fma32(y[j][e], c->first[j][e], first[e % 2]);
        second[e % 2] = fma32(y[j][e], c->second[j][e], second[e % 2]);
    }
    return (f32x2){first[0] + first[1], second[0] + second[1]};
}

DEVICE f32x2 delta_sum(f32x2 x) { return (f32x2){sum_of_8(x[0]), sum_of_8(x[1])}; }

/* S = g S + k u */
DEVICE void delta_update(struct delta_columns *c, const f32x4 *k, f32x2 u, float decay,
                         const int dims)
{
    UNROLL for (int j = 0; j < dims / 32; j++) UNROLL for (int e = 0; e < 4; e++)
    {
        c->first[j][e] = fma32(k[j][e], u[0], decay * c->first[j][e]);
        c->second[j][e] = fma32(k[j][e], u[1], decay * c->second[j][e]);
    }
}

/* The consumer's pair of columns within the block. Threads beyond the last one compute it, too, so
 * that the rows need no branches. */
DEVICE int delta_pair(const struct delta_args *a, const struct delta_block *b)
{
    int last = (a->value_dim - b->column0) / 2 - 1, pair = thread() / 8;
    return pair < last ? pair : last;
}

/* A chunk of n rows for a consumer: its pair of columns, its outputs of the first row, floats to
 * the next row. */
struct delta_chunk {
    struct delta_stage s;
    float *out;
    int n, pair, stride;
    float skip; /* ssm: of the head */
};

/* Updates the state by row r, whose k is given, and writes the output of the row before (at row 0 a
 * value that the next call replaces). q is that of the row before and becomes that of row r. next:
 * NULL, or takes k of the next row. */
DEVICE void delta_row(struct delta_columns *c, const struct delta_chunk *chunk, int r,
                      const f32x4 *k, f32x4 *next, f32x4 *q, const int dims)
{
    const struct delta_stage *s = &chunk->s;
    int index = 4 * (thread() % 8), before = r - 1 > 0 ? r - 1 : 0;
    float decay = s->decay[r], beta = s->beta[r];
    f32x2 v = *(const f32x2 *)(s->v + r * DELTA_COLUMNS + chunk->pair * 2);
    f32x2 of_k = delta_product(c, k, dims), of_q = delta_product(c, q, dims), sum = delta_sum(of_k);
    f32x2 u = {beta * fma32(-decay, sum[0], v[0]), beta * fma32(-decay, sum[1], v[1])};
    if (next) delta_get(s->k + (r + 1 < chunk->n ? r + 1 : r) * dims + index, next, dims);
    delta_get(s->q + r * dims + index, q, dims);
    delta_update(c, k, u, decay, dims);
    *(f32x2 *)(chunk->out + (u64)(before * chunk->stride)) = delta_sum(of_q);
}

/* Row r of Mamba-2. */
DEVICE void ssm_row(struct delta_columns *c, const struct delta_chunk *chunk, int r, const int dims)
{
    const struct delta_stage *s = &chunk->s;
    f32x4 k[8], q[8];
    int index = 4 * (thread() % 8);
    float decay = s->decay[r], step = s->beta[r];
    f32x2 v = *(const f32x2 *)(s->v + r * DELTA_COLUMNS + chunk->pair * 2);
    delta_get(s->k + r * dims + index, k, dims);
    delta_get(s->q + r * dims + index, q, dims);
    delta_update(c, k, (f32x2){step * v[0], step * v[1]}, decay, dims);
    f32x2 y = delta_sum(delta_product(c, q, dims));
    *(f32x2 *)(chunk->out + (u64)(r * chunk->stride)) = (f32x2){fma32(chunk->skip, v[0], y[0]),
                                                                fma32(chunk->skip, v[1], y[1])};
}

/* Rows depend on each other by the state alone, so that four of them are one piece of code. */
DEVICE void ssm_rows(struct delta_columns *c, const struct delta_chunk *chunk, const int dims)
{
    int r = 0;
    NO_UNROLL for (; r + 4 <= chunk->n && dims <= 128; r += 4)
    {
        ssm_row(c, chunk, r, dims);
        ssm_row(c, chunk, r + 1, dims);
        ssm_row(c, chunk, r + 2, dims);
        ssm_row(c, chunk, r + 3, dims);
    }
    NO_UNROLL for (; r < chunk->n; r++) ssm_row(c, chunk, r, dims);
}

/* All rows of a chunk. Four rows at a time are one piece of code without a branch, so that the
 * compiler computes q S of a row beside k S of the next. Keys of more than 128 dimensions leave no
 * registers for that. */
DEVICE void delta_rows(struct delta_columns *c, const struct delta_chunk *chunk, const int dims)
{
    f32x4 k0[8], k1[8], q[8];
    int index = 4 * (thread() % 8), r = 0;
    delta_get(chunk->s.k + index, k0, dims);
    delta_get(chunk->s.q + index, q, dims);
    NO_UNROLL for (; r + 4 <= chunk->n && dims <= 128; r += 4)
    {
        delta_row(c, chunk, r, k0, k1, q, dims);
        delta_row(c, chunk, r + 1, k1, k0, q, dims);
        delta_row(c, chunk, r + 2, k0, k1, q, dims);
        delta_row(c, chunk, r + 3, k1, k0, q, dims);
    }
    NO_UNROLL for (; r < chunk->n; r++)
    {
        delta_get(chunk->s.k + r * dims + index, k0, dims);
        delta_row(c, chunk, r, k0, (f32x4 *)0, q, dims);
    }
    *(f32x2 *)(chunk->out + (u64)((chunk->n - 1) * chunk->stride)) =
        delta_sum(delta_product(c, q, dims));
}

/* A slot's state from a column pair on, as pairs of floats. */
DEVICE u64 delta_begin(const struct delta_args *a, const struct delta_block *b, int slot)
{
    return (u64)slot * a->state.slot_floats + (u64)b->head * (u64)(a->key_dim * a->value_dim) +
           (u64)(b->column0 + delta_pair(a, b) * 2);
}

DEVICE void delta_read(const struct delta_args *a, const struct delta_block *b,
                       struct delta_columns *c, const int dims)
{
    int from = a->state.from[b->seq], dv = a->value_dim;
    const float *slots = (const float *)a->state.slots;
    u64 begin = from < 0 ? 0 : delta_begin(a, b, from);
    UNROLL for (int j = 0, i = 4 * (thread() % 8); j < dims / 32; j++, i += 32)
    {
        c->first[j] = c->second[j] = (f32x4){0, 0, 0, 0};
        if (from < 0 || i >= a->key_dim) continue;
        UNROLL for (int e = 0; e < 4; e++)
        {
            f32x2 v = *(const f32x2 *)(slots + begin + (u64)((i + e) * dv));
            c->first[j][e] = v[0], c->second[j][e] = v[1];
        }
    }
}

DEVICE void delta_write(const struct delta_args *a, const struct delta_block *b,
                        const struct delta_columns *c, const int dims)
{
    int dv = a->value_dim;
    int part = (int)of_lane((u32)thread() % 8); /* opaque: no conditions are kept */
    float *to = (float *)a->state.slots + delta_begin(a, b, a->state.to[b->seq]);
    UNROLL for (int j = 0, i = 4 * part; j < dims / 32; j++, i += 32)
    {
        if (i >= a->key_dim) continue;
        UNROLL for (int e = 0; e < 4; e++)
            *(f32x2 *)(to + (u64)((i + e) * dv)) = (f32x2){c->first[j][e], c->second[j][e]};
    }
}

/* The sequence's first rows; the stage is the first. */
DEVICE struct delta_chunk delta_chunk_of(const struct delta_args *a, const struct delta_block *b,
                                         float *lds, const int dims, const int rows)
{
    struct delta_chunk c;
    c.pair = delta_pair(a, b);
    c.stride = a->value_heads * a->value_dim;
    c.out = a->out + (u64)b->row * (u64)c.stride +
            (u64)(b->head * a->value_dim + b->column0 + c.pair * 2);
    c.s = delta_stage_of(lds, 0, dims, rows);
    c.n = b->end - b->row < rows ? b->end - b->row : rows;
    c.skip = a->skip ? a->skip[b->head] : 0;
    return c;
}

/* The rows of one sequence, `rows` at a time. lds [2 * DELTA_STAGE(dims, rows)] */
DEVICE void delta(const struct delta_args *a, float *lds, const int dims, const int rows,
                  const int ssm)
{
    struct delta_block b = delta_block_of(a);
    int produces = thread() >= DELTA_THREADS, t = thread() - DELTA_THREADS,
        n_chunks = (b.end - b.row + rows - 1) / rows;
    if (produces) {
        struct delta_loads l;
        l.t = t;
        l.row = b.row;
        delta_load(a, &b, &l, dims, rows, ssm);
        NO_UNROLL for (int chunk = 0; chunk < n_chunks; chunk++)
        {
            struct delta_stage s = delta_stage_of(lds, chunk, dims, rows);
            delta_store(a, &b, &l, &s, dims, rows, ssm);
            l.row += rows;
            if (chunk + 1 < n_chunks) delta_load(a, &b, &l, dims, rows, ssm);
            barrier();
        }
        barrier();
    } else {
        struct delta_columns c;
        struct delta_chunk piece = delta_chunk_of(a, &b, lds, dims, rows);
        delta_read(a, &b, &c, dims);
        barrier();
        NO_UNROLL for (int chunk = 0; chunk < n_chunks; chunk++)
        {
            int left = b.end - b.row - chunk * rows;
            piece.s = delta_stage_of(lds, chunk, dims, rows);
            piece.n = left < rows ? left : rows;
            if (ssm) ssm_rows(&c, &piece, dims);
            else delta_rows(&c, &piece, dims);
            piece.out += (u64)rows * (u64)piece.stride;
            barrier();
        }
        delta_write(a, &b, &c, dims);
    }
}

/* Sequences of one row: the consumers load it themselves, and more blocks fit a multiprocessor. */
DEVICE void delta_one(const struct delta_args *a, float *lds, const int dims, const int ssm)
{
    struct delta_block b = delta_block_of(a);
    struct delta_chunk chunk = delta_chunk_of(a, &b, lds, dims, 1);
    chunk.n = 1; /* a constant */
    struct delta_loads l;
    struct delta_columns c;
    l.t = thread();
    l.row = b.row;
    delta_load(a, &b, &l, dims, 1, ssm);
    delta_read(a, &b, &c, dims);
    delta_store(a, &b, &l, &chunk.s, dims, 1, ssm);
    barrier();
    if (ssm) ssm_rows(&c, &chunk, dims);
    else delta_rows(&c, &chunk, dims);
    delta_write(a, &b, &c, dims);
}

/* Loads row `row` of the sequence. a: the kernel's arguments */
DEVICE void delta_load_kept(const struct delta_args *a, const struct kept_rows *kept,
                            const struct delta_block *b, struct delta_loads *l, int row,
                            const int dims)
{
    struct delta_source from = delta_source_of(LATE_ARGS(a), kept, b->row, row);
    struct delta_block one = *b;
    one.end = from.row + 1;
    l->row = from.row;
    delta_load(&from.a, &one, l, dims, 1, !a->b);
}

/* Sequences with rows of drafts, or right ones of the last step: the consumers load a row while they
 * compute the one before. What a row of the last step computes is written over by the first one of
 * this. One piece of code for both rules. */
DEVICE void delta_kept(const struct delta_args *a, float *lds, const int dims)
{
    int ssm = !a->b;
    struct delta_block b = delta_block_of(a);
    struct kept_rows kept = kept_rows_of(&a->state, b.seq);
    int of_head = (a->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS, first = b.row - kept.right;
    struct delta_chunk chunk = delta_chunk_of(a, &b, lds, dims, 1);
    struct delta_loads l;
    struct delta_columns c;
    float *out = chunk.out;
    chunk.n = 1; /* a constant */
    l.t = thread();
    delta_read(a, &b, &c, dims);
    NO_UNROLL for (int row = first - 1; row <= b.end; row++)
    {
        if (row == b.end - kept.drafts) delta_write(a, &b, &c, dims);
        if (row == b.end) break;
        if (row >= first) {
            delta_store(a, &b, &l, &chunk.s, dims, 1, ssm);
            barrier();
        }
        if (row + 1 < b.end) delta_load_kept(a, &kept, &b, &l, row + 1, dims);
        if (row < first) continue;
        chunk.out = row < b.row ? out : out + (u64)(row - b.row) * (u64)chunk.stride;
        if (ssm) ssm_rows(&c, &chunk, dims);
        else delta_rows(&c, &chunk, dims);
        barrier();
    }
    kept = kept_rows_of(&LATE_ARGS(a)->state, b.seq);
    delta_keep(LATE_ARGS(a), &kept, b.end, block_x() * DELTA_THREADS + thread(),
               a->value_heads * of_head * DELTA_THREADS);
}

#define DELTA(name, images, dims, rows, ssm)                                                       \
    KERNEL(name, struct delta_args)                                                                \
    {                                                                                              \
        LDS(float, lds, 2 * DELTA_STAGE(dims, rows));                                              \
        delta(ARGS, lds, dims, rows, ssm);                                                         \
    }
#define DELTA_ONE(name, images, dims, blocks, ssm)                                                 \
    KERNEL(name, struct delta_args)                                                                \
    {                                                                                              \
        LDS(float, lds, DELTA_STAGE(dims, 1));                                                     \
        delta_one(ARGS, lds, dims, ssm);                                                           \
    }
#define DELTA_KEPT(name, images, dims, blocks)                                                     \
    KERNEL(name, struct delta_args)                                                                \
    {                                                                                              \
        LDS(float, lds, DELTA_STAGE(dims, 1));                                                     \
        delta_kept(ARGS, lds, dims);                                                               \
    }
#include "backend-hip/kernels/common/list.h"
