/* delta_scan.hip: the scan of Mamba-1 (OP_DELTA with DELTA_SCAN, core/step/op.h) for every device
 * and in every arithmetic, in the order of the CPU (backend-cpu/states_loops.h), to the bit: sums
 * over the key dimensions ascend, fused. Block (SCAN_THREADS columns, sequence): a thread has a
 * column of the state in registers from the first row to the last; the inputs of a row are loaded
 * while the one before is computed. */

/* A thread's inputs of a row: an element of q and k, of its column the step before softplus and the
 * value. */
struct scan_inputs {
    float qk, a, v;
};

DEVICE struct scan_inputs scan_load(const struct delta_args *args, int column, int start, int at)
{
    const struct kept_rows kept = kept_rows_of(&args->state, block_y());
    const struct delta_source from = delta_source_of(args, &kept, start, at);
    const struct delta_args *a = &from.a;
    int t = thread(), n = a->key_dim, is_key = t >= SCAN_KEYS, d = is_key ? t - SCAN_KEYS : t;
    u64 row = (u64)from.row;
    struct scan_inputs in = {0, 0, 0};
    if (d < n) in.qk = (is_key ? a->k : a->q)[row * (u64)a->qk_stride + (u64)d];
    if (column >= a->value_dim) return in;
    in.a = a->a[row * (u64)a->value_dim + (u64)column];
    in.v = a->v[row * (u64)a->v_stride + (u64)column];
    return in;
}

/* A thread's column: its state, its decays, w1 and w2. */
struct scan_column {
    float s[SCAN_KEYS], decay[SCAN_KEYS], dt, skip;
};

DEVICE struct scan_column scan_begin(const struct delta_args *a, int seq, int column)
{
    const struct state_rows *r = &a->state;
    int from = r->from[seq], valid = column < a->value_dim;
    const float *old = (const float *)r->slots + (u64)(from < 0 ? 0 : from) * r->slot_floats;
    struct scan_column c;
    UNROLL for (int i = 0; i < SCAN_KEYS; i++)
    {
        u64 at = (u64)i * (u64)a->value_dim + (u64)column;
        int there = valid && i < a->key_dim;
        c.s[i] = there && from >= 0 ? old[at] : 0;
        c.decay[i] = there ? a->decay[at] : 0;
    }
    c.dt = valid && a->dt ? a->dt[column] : 0;
    c.skip = valid ? a->skip[column] : 0;
    return c;
}

DEVICE void scan_store(const struct delta_args *a, const struct scan_column *c, int seq, int column)
{
    const struct state_rows *r = &a->state;
    float *to = (float *)r->slots + (u64)r->to[seq] * r->slot_floats;
    UNROLL for (int i = 0; i < SCAN_KEYS; i++) if (column < a->value_dim && i < a->key_dim)
        to[(u64)i * (u64)a->value_dim + (u64)column] = c->s[i];
}

/* One row of a column; x [2][SCAN_KEYS]: its q and k. Returns q S of the new state. */
DEVICE float scan_row(struct scan_column *c, const float *x, int keys, float step, float v)
{
    float u = step * v, out = 0;
    int n = (int)of_wave((u32)keys); /* not 16 comparisons ahead of all rows */
    UNROLL for (int i = 0; i < SCAN_KEYS; i++) if (i < n)
    {
        float g = exact_exp(step * c->decay[i]);
        c->s[i] = fma32(x[SCAN_KEYS + i], u, g * c->s[i]);
        out = fma32(x[i], c->s[i], out);
    }
    return fma32(c->skip, v, out);
}

KERNEL(delta_scan, struct delta_args)
{
    LDS(float, x, 2 * SCAN_KEYS);
    const struct delta_args *a = ARGS;
    int seq = block_y(), column = block_x() * SCAN_THREADS + thread(),
        start = a->state.seq_start[seq], end = a->state.seq_start[seq + 1],
        blocks = (a->value_dim + SCAN_THREADS - 1) / SCAN_THREADS;
    const struct kept_rows kept = kept_rows_of(&a->state, seq);
    struct scan_column c = scan_begin(a, seq, column);
    int row = start - kept.right, write = end - kept.drafts;
    struct scan_inputs in = scan_load(a, column, start, row);
    NO_UNROLL for (; row < end; row++)
    {
        if (row == write) scan_store(LATE_ARGS(a), &c, seq, column);
        barrier();
        if (thread() < 2 * SCAN_KEYS) x[thread()] = in.qk;
        float v = in.v, step = exact_softplus(in.a + c.dt);
        barrier();
        a = LATE_ARGS(a);
        if (row + 1 < end) in = scan_load(a, column, start, row + 1);
        float y = scan_row(&c, x, a->key_dim, step, v);
        if (row >= start && column < a->value_dim)
            a->out[(u64)row * (u64)a->value_dim + (u64)column] = y;
    }
    a = LATE_ARGS(a);
    if (write == end) scan_store(a, &c, seq, column);
    const struct kept_rows drafts = kept_rows_of(&a->state, seq);
    delta_keep(a, &drafts, end, block_x() * SCAN_THREADS + thread(), blocks * SCAN_THREADS);
}
