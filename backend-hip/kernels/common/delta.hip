/* delta.hip: the gated delta rule (OP_DELTA; Yang et al. 2025, 3), one row of a sequence after
 * another. Block (columns of a value head, sequence): four neighbouring threads have a column of
 * the state S in registers, thread `part` rows i with i / 4 % 4 = part. Rows come through shared
 * memory, DELTA_ROWS at a time, while those before are computed; q and k are normed on the way.
 * The product k S of a row, with its sum over the threads, is what its update depends on; q S of
 * the row before is computed beside it.
 * Bits: a sum over the key dimensions has four partial sums in each thread, i % 4, ascending; they
 * are added by pairs, then those of the threads. Squares of q and k: 8 threads have four
 * neighbouring dimensions of each 32. k (g S) is computed as g (k S). */

/* A chunk of rows in shared memory, and the second one behind it. */
struct delta_stage {
    float *k, *q, *v, *decay, *beta; /* [DELTA_ROWS][dims], the same, [DELTA_ROWS][DELTA_COLUMNS],
                                        [DELTA_ROWS], the same */
};

DEVICE struct delta_stage delta_stage_of(float *lds, int chunk, const int dims)
{
    struct delta_stage s;
    s.k = lds + chunk % 2 * DELTA_STAGE(dims);
    s.q = s.k + DELTA_ROWS * dims;
    s.v = s.q + DELTA_ROWS * dims;
    s.decay = s.v + DELTA_ROWS * DELTA_COLUMNS;
    s.beta = s.decay + DELTA_ROWS;
    return s;
}

/* The loads of a thread for a chunk: a part of one q or k, two elements of v, the gates of a
 * row. */
struct delta_loads {
    f32x4 x[8];
    float v[DELTA_ROWS * DELTA_COLUMNS / DELTA_THREADS], a, b;
};

/* Rows from `row` up to end - 1. */
DEVICE void delta_load(const struct delta_args *a, struct delta_loads *l, int head, int column0,
                       int row, int end, const int dims)
{
    int t = thread(), keys = a->key_heads * a->key_dim, values = a->value_heads * a->value_dim,
        key_head = head / (a->value_heads / a->key_heads), is_q = t / 8 / DELTA_ROWS,
        of_x = row + t / 8 % DELTA_ROWS;
    u64 width = (u64)(2 * keys + values);
    const float *x = a->x + (u64)of_x * width + (u64)((is_q ? 0 : keys) + key_head * a->key_dim);
    const f32x4 none = {0, 0, 0, 0};
    UNROLL for (int j = 0, i = 4 * (t % 8); j < dims / 32; j++, i += 32)
    {
        l->x[j] = none;
        if (of_x < end && i < a->key_dim) l->x[j] = *(const f32x4 *)(x + i);
    }
    UNROLL for (int j = 0; j < DELTA_ROWS * DELTA_COLUMNS / DELTA_THREADS; j++)
    {
        int of_v = row + (t + j * DELTA_THREADS) / DELTA_COLUMNS,
            column = column0 + t % DELTA_COLUMNS;
        l->v[j] = 0;
        if (of_v < end && column < a->value_dim)
            l->v[j] = a->x[(u64)of_v * width + (u64)(2 * keys + head * a->value_dim + column)];
    }
    l->a = l->b = 0;
    if (t < DELTA_ROWS && row + t < end) {
        u64 at = (u64)(row + t) * (u64)a->value_heads + (u64)head;
        l->a = a->a[at];
        l->b = a->b[at];
    }
}

/* Norms q and k, computes the gates, and stores all in shared memory. */
DEVICE void delta_store(const struct delta_args *a, const struct delta_loads *l, int head,
                        const struct delta_stage *s, const int dims)
{
    int t = thread(), is_q = t / 8 / DELTA_ROWS, row = t / 8 % DELTA_ROWS;
    float sum = 0, *to = (is_q ? s->q : s->k) + row * dims;
    UNROLL for (int j = 0; j < dims / 32; j++) UNROLL for (int e = 0; e < 4; e++)
        sum = fma32(l->x[j][e], l->x[j][e], sum);
    float f = rsqrt32(sum_of_8(sum) + 1e-6f);
    if (is_q) f *= a->q_scale;
    UNROLL for (int j = 0; j < dims / 32; j++)
    {
        f32x4 y = l->x[j];
        UNROLL for (int e = 0; e < 4; e++) y[e] *= f;
        *(f32x4 *)(to + 4 * (t % 8) + 32 * j) = y;
    }
    UNROLL for (int j = 0; j < DELTA_ROWS * DELTA_COLUMNS / DELTA_THREADS; j++)
        s->v[t + j * DELTA_THREADS] = l->v[j];
    if (t < DELTA_ROWS) {
        s->decay[t] = exp32(a->decay[head] * softplus32(l->a + a->dt[head]));
        s->beta[t] = sigmoid32(l->b);
    }
}

DEVICE float delta_sum(f32x4 d) { return sum_of_4((d[0] + d[1]) + (d[2] + d[3])); }

/* y [dims] in shared memory times a column. */
DEVICE float delta_dot(const f32x4 *state, const float *y, const int dims)
{
    f32x4 d = {0, 0, 0, 0};
    UNROLL for (int j = 0; j < dims / 16; j++)
    {
        f32x4 v = *(const f32x4 *)(y + 16 * j);
        UNROLL for (int e = 0; e < 4; e++) d[e] = fma32(v[e], state[j][e], d[e]);
    }
    return delta_sum(d);
}

/* n rows of a chunk; out: of the first, this thread's column, stride floats to the next row;
 * NULL: not this thread. */
DEVICE void delta_rows(f32x4 *state, const struct delta_stage *s, int n, float *out, int stride,
                       const int dims)
{
    int part = 4 * (thread() % 4), column = thread() / 4;
    NO_UNROLL for (int r = 0; r < n; r++)
    {
        const float *k = s->k + r * dims + part, *q = s->q + (r ? r - 1 : 0) * dims + part;
        f32x4 key[16], dk = {0, 0, 0, 0}, dq = {0, 0, 0, 0};
        float decay = s->decay[r], beta = s->beta[r], v = s->v[r * DELTA_COLUMNS + column];
        UNROLL for (int j = 0; j < dims / 16; j++)
        {
            f32x4 query = *(const f32x4 *)(q + 16 * j);
            key[j] = *(const f32x4 *)(k + 16 * j);
            UNROLL for (int e = 0; e < 4; e++)
            {
                dk[e] = fma32(key[j][e], state[j][e], dk[e]);
                dq[e] = fma32(query[e], state[j][e], dq[e]);
            }
        }
        float u = beta * fma32(-decay, delta_sum(dk), v), y = delta_sum(dq);
        if (out && r) out[(u64)(r - 1) * (u64)stride] = y;
        UNROLL for (int j = 0; j < dims / 16; j++) UNROLL for (int e = 0; e < 4; e++)
            state[j][e] = fma32(key[j][e], u, decay * state[j][e]);
    }
    float y = delta_dot(state, s->q + (n - 1) * dims + part, dims);
    if (out) out[(u64)(n - 1) * (u64)stride] = y;
}

/* The rows of one sequence. lds [2 * DELTA_STAGE(dims)] */
DEVICE void delta(const struct delta_args *a, float *lds, const int dims)
{
    const struct state_rows *at = &a->state;
    int of_head = (a->value_dim + DELTA_COLUMNS - 1) / DELTA_COLUMNS, head = block_x() / of_head,
        column0 = block_x() % of_head * DELTA_COLUMNS, column = column0 + thread() / 4,
        part = thread() % 4, seq = block_y(), dv = a->value_dim, there = column < dv,
        row = at->seq_start[seq], end = at->seq_start[seq + 1], from = at->from[seq],
        stride = a->value_heads * dv;
    u64 begin = (u64)head * (u64)(a->key_dim * dv) + (u64)column;
    const float *old = (const float *)at->slots + (u64)from * at->slot_floats + begin;
    struct delta_loads l;
    f32x4 state[16];
    delta_load(a, &l, head, column0, row, end, dims);
    UNROLL for (int j = 0, i = 4 * part; j < dims / 16; j++, i += 16)
    {
        state[j] = (f32x4){0, 0, 0, 0};
        if (!there || from < 0 || i >= a->key_dim) continue;
        UNROLL for (int e = 0; e < 4; e++) state[j][e] = old[(u64)((i + e) * dv)];
    }
    struct delta_stage s = delta_stage_of(lds, 0, dims);
    delta_store(a, &l, head, &s, dims);
    barrier();
    NO_UNROLL for (int chunk = 0; row < end; chunk++, row += DELTA_ROWS)
    {
        int n = end - row < DELTA_ROWS ? end - row : DELTA_ROWS, more = row + DELTA_ROWS < end;
        float *out = (float *)0;
        if (there && part == 0)
            out = a->out + (u64)row * (u64)stride + (u64)(head * dv + column);
        s = delta_stage_of(lds, chunk, dims);
        if (more) delta_load(a, &l, head, column0, row + DELTA_ROWS, end, dims);
        delta_rows(state, &s, n, out, stride, dims);
        s = delta_stage_of(lds, chunk + 1, dims);
        if (more) delta_store(a, &l, head, &s, dims);
        barrier();
    }
    float *after = (float *)at->slots + (u64)at->to[seq] * at->slot_floats + begin;
    part = (int)of_lane((u32)part); /* conditions are not kept from the loads */
    UNROLL for (int j = 0, i = 4 * part; j < dims / 16; j++, i += 16)
    {
        if (!there || i >= a->key_dim) continue;
        UNROLL for (int e = 0; e < 4; e++) after[(u64)((i + e) * dv)] = state[j][e];
    }
}

#define DELTA(name, images, dims, blocks)                                                          \
    KERNEL(name, struct delta_args)                                                                \
    {                                                                                              \
        LDS(float, lds, 2 * DELTA_STAGE(dims));                                                    \
        delta(ARGS, lds, dims);                                                                    \
    }
#include "backend-hip/kernels/kernel_list.h"
