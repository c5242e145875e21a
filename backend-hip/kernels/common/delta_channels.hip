/* delta_channels.hip: Kimi Delta Attention (OP_DELTA with DELTA_CHANNELS, core/step/op.h) for every
 * device and in every arithmetic, in the order of the CPU (backend-cpu/states_loops.h), to the bit:
 * sums over the key dimensions ascend, fused. Block (CHANNELS_THREADS columns of a value head,
 * sequence): a thread has a column of the state in shared memory from the first row to the last;
 * the inputs of a row are loaded while the one before is computed. */

enum { CHANNELS_EACH = CHANNELS_KEYS / CHANNELS_THREADS }; /* dimensions of a thread */

/* A thread's inputs of a row, as they come. */
struct channels_inputs {
    float q[CHANNELS_EACH], k[CHANNELS_EACH], a[CHANNELS_EACH], v, b;
};

/* The block's value head and its key head, the thread's column. */
struct channels_place {
    int head, key_head, column, valid;
};

DEVICE struct channels_inputs channels_load(const struct delta_args *args,
                                            const struct channels_place *p, int start, int at)
{
    const struct kept_rows kept = kept_rows_of(&args->state, block_y());
    const struct delta_source from = delta_source_of(args, &kept, start, at);
    const struct delta_args *a = &from.a;
    int n = a->key_dim;
    u64 row = (u64)from.row, gate = row * (u64)a->value_heads + (u64)p->head,
        key = row * (u64)a->qk_stride + (u64)(p->key_head * n);
    struct channels_inputs in;
    UNROLL for (int i = 0; i < CHANNELS_EACH; i++)
    {
        int d = thread() + i * CHANNELS_THREADS, there = d < n;
        in.q[i] = there ? a->q[key + (u64)d] : 0;
        in.k[i] = there ? a->k[key + (u64)d] : 0;
        in.a[i] = there ? a->a[gate * (u64)n + (u64)d] : 0;
    }
    in.v = p->valid ? a->v[row * (u64)a->v_stride + (u64)(p->head * a->value_dim + p->column)] : 0;
    in.b = a->b[gate];
    return in;
}

/* q and k of a row, normed, and its decays: x [3][CHANNELS_KEYS]. The squares of each are summed by
 * 16 threads. */
DEVICE void channels_prepare(const struct delta_args *a, const struct channels_place *p,
                             const struct channels_inputs *in, float *x, float *lanes)
{
    int t = thread(), n = a->key_dim, which = t / EXACT_LANES;
    const float *dt = a->dt + (u64)(p->head * n);
    float sum = 0;
    UNROLL for (int i = 0; i < CHANNELS_EACH; i++)
    {
        int d = t + i * CHANNELS_THREADS;
        x[d] = in->q[i];
        x[CHANNELS_KEYS + d] = in->k[i];
        if (d < n)
            x[2 * CHANNELS_KEYS + d] =
                exact_exp(a->decay[p->head] * exact_softplus(in->a[i] + dt[d]));
    }
    barrier();
    if (which < 2) {
        for (int i = t % EXACT_LANES; i < n; i += EXACT_LANES)
            sum += x[which * CHANNELS_KEYS + i] * x[which * CHANNELS_KEYS + i];
        lanes[t] = sum;
    }
    barrier();
    float root = 1 / exact_sqrt((float)n), q = 1 / exact_sqrt(exact_fold(lanes) + 1e-6f),
          k = 1 / exact_sqrt(exact_fold(lanes + EXACT_LANES) + 1e-6f);
    UNROLL for (int i = 0; i < CHANNELS_EACH; i++)
    {
        int d = t + i * CHANNELS_THREADS;
        x[d] = in->q[i] * q * root;
        x[CHANNELS_KEYS + d] = in->k[i] * k;
    }
    barrier();
}

/* One row of a column s [key_dim], CHANNELS_THREADS floats apart: returns q S of the new state. */
DEVICE float channels_row(const float *x, float *s, int n, float beta, float v)
{
    const float *k = x + CHANNELS_KEYS, *g = k + CHANNELS_KEYS;
    float sum = 0, out = 0;
    UNROLL_8 for (int i = 0; i < n; i++)
    {
        float y = g[i] * s[i * CHANNELS_THREADS];
        s[i * CHANNELS_THREADS] = y;
        sum = fma32(k[i], y, sum);
    }
    float u = beta * (v - sum);
    UNROLL_8 for (int i = 0; i < n; i++)
    {
        float y = fma32(k[i], u, s[i * CHANNELS_THREADS]);
        s[i * CHANNELS_THREADS] = y;
        out = fma32(x[i], y, out);
    }
    return out;
}

/* Stores the thread's column in the sequence's slot. */
DEVICE void channels_store(const struct delta_args *a, const struct channels_place *p, int seq,
                           const float *s)
{
    const struct state_rows *r = &a->state;
    float *to = (float *)r->slots + (u64)r->to[seq] * r->slot_floats +
                (u64)p->head * (u64)(a->key_dim * a->value_dim) + (u64)p->column;
    for (int i = 0; p->valid && i < a->key_dim; i++)
        to[(u64)i * (u64)a->value_dim] = s[i * CHANNELS_THREADS];
}

KERNEL(delta_channels, struct delta_args)
{
    LDS(float, state, CHANNELS_KEYS *CHANNELS_THREADS);
    LDS(float, x, 3 * CHANNELS_KEYS);
    LDS(float, lanes, 2 * EXACT_LANES);
    const struct delta_args *a = ARGS;
    const struct state_rows *r = &a->state;
    int of_head = (a->value_dim + CHANNELS_THREADS - 1) / CHANNELS_THREADS, seq = block_y(),
        start = r->seq_start[seq], end = r->seq_start[seq + 1], from = r->from[seq];
    const struct kept_rows kept = kept_rows_of(r, seq);
    struct channels_place p;
    p.head = block_x() / of_head;
    p.key_head = p.head / (a->value_heads / a->key_heads);
    p.column = block_x() % of_head * CHANNELS_THREADS + thread();
    p.valid = p.column < a->value_dim;
    const float *old = (const float *)r->slots + (u64)(from < 0 ? 0 : from) * r->slot_floats +
                       (u64)p.head * (u64)(a->key_dim * a->value_dim) + (u64)p.column;
    float *s = state + thread();
    for (int i = 0; i < a->key_dim; i++)
        s[i * CHANNELS_THREADS] = from >= 0 && p.valid ? old[(u64)i * (u64)a->value_dim] : 0;
    int row = start - kept.right, write = end - kept.drafts;
    struct channels_inputs in = channels_load(a, &p, start, row);
    NO_UNROLL for (; row < end; row++)
    {
        if (row == write) channels_store(LATE_ARGS(a), &p, seq, s);
        barrier();
        channels_prepare(LATE_ARGS(a), &p, &in, x, lanes);
        a = LATE_ARGS(a);
        float v = in.v, beta = a->beta_scale / (1 + exact_exp(-in.b));
        if (row + 1 < end) in = channels_load(LATE_ARGS(a), &p, start, row + 1);
        float y = channels_row(x, s, a->key_dim, beta, v);
        a = LATE_ARGS(a);
        if (row >= start && p.valid)
            a->out[(u64)row * (u64)(a->value_heads * a->value_dim) +
                   (u64)(p.head * a->value_dim + p.column)] = y;
    }
    a = LATE_ARGS(a);
    if (write == end) channels_store(a, &p, seq, s);
    const struct kept_rows drafts = kept_rows_of(&a->state, seq);
    delta_keep(a, &drafts, end, block_x() * CHANNELS_THREADS + thread(),
               a->value_heads * of_head * CHANNELS_THREADS);
}
