/* exact_states.hip: the gated delta rule and Mamba-2 (OP_DELTA) in the order of the CPU backend
 * (backend-cpu/states_loops.h), to the bit: sums over the key dimensions ascend, fused. Block
 * (THREADS columns of a value head, sequence): a thread has a column of the state, in memory, and
 * takes the rows one after another. */

enum { EXACT_KEYS = 256 }; /* most key dimensions */

/* A row's q and k in shared memory, x [2][EXACT_KEYS]: 16 threads to the squares of each. */
DEVICE void exact_unit(const struct delta_args *a, float *x, float *lanes)
{
    int t = thread(), which = t / EXACT_LANES, n = a->key_dim;
    if (which < 2) {
        float sum = 0;
        UNROLL_8 for (int i = t % EXACT_LANES; i < n; i += EXACT_LANES)
            sum += x[which * EXACT_KEYS + i] * x[which * EXACT_KEYS + i];
        lanes[t] = sum;
    }
    barrier();
    float root = 1 / exact_sqrt((float)n), q = 1 / exact_sqrt(exact_fold(lanes) + 1e-6f),
          k = 1 / exact_sqrt(exact_fold(lanes + EXACT_LANES) + 1e-6f);
    if (t < n) {
        x[t] = x[t] * q * root;
        x[EXACT_KEYS + t] = x[EXACT_KEYS + t] * k;
    }
    barrier();
}

/* One row of a column: returns q S of the new state, which goes from `from` (NULL: zeros) to `to`.
 * g S is computed twice, so that it is stored once. */
DEVICE float exact_delta_row(const float *x, const float *from, float *to, int n, u64 stride,
                             float g, float beta, float v)
{
    const float *k = x + EXACT_KEYS;
    float sum = 0, out = 0;
    UNROLL_8 for (int i = 0; i < n; i++)
        sum = fma32(k[i], g * (from ? from[(u64)i * stride] : 0), sum);
    float u = beta * (v - sum);
    UNROLL_8 for (int i = 0; i < n; i++)
    {
        float s = fma32(k[i], u, g * (from ? from[(u64)i * stride] : 0));
        to[(u64)i * stride] = s;
        out = fma32(x[i], s, out);
    }
    return out;
}

/* A block's value head and sequence, a thread's column. */
struct exact_delta_place {
    int head, key_head, column, valid;
};

/* q and k of a row into x [2][EXACT_KEYS], normed; *beta, and returns g. */
DEVICE float exact_delta_load(const struct delta_source *from, const struct exact_delta_place *p,
                              float *x, float *lanes, float *beta)
{
    const struct delta_args *a = &from->a;
    int t = thread();
    u64 row = (u64)from->row,
        source = row * (u64)a->qk_stride + (u64)(p->key_head * a->key_dim) + (u64)t,
        gate = row * (u64)a->value_heads + (u64)p->head;
    barrier();
    if (t < a->key_dim) {
        x[t] = a->q[source];
        x[EXACT_KEYS + t] = a->k[source];
    }
    barrier();
    exact_unit(a, x, lanes);
    *beta = a->beta_scale / (1 + exact_exp(-a->b[gate]));
    return exact_exp(a->decay[p->head] * exact_softplus(a->a[gate] + a->dt[p->head]));
}

/* Row d of drafts: its k S, and q S of the row before, in one pass over the state that is stored; x
 * [MAX_DRAFTS][2][EXACT_KEYS]. Element by element the rows before d are computed again. */
DEVICE f32x2 exact_draft_sums(const float *x, const float g[MAX_DRAFTS], const float u[MAX_DRAFTS],
                              const float *state, int keys, u64 stride, int d)
{
    const float *k = x + (2 * (d < MAX_DRAFTS ? d : 0) + 1) * EXACT_KEYS,
                *q = x + 2 * (d ? d - 1 : 0) * EXACT_KEYS;
    float sum = 0, out = 0, decay = 0;
    UNROLL for (int j = 0; j < MAX_DRAFTS; j++) if (j == d) decay = g[j];
    UNROLL_4 for (int i = 0; i < keys; i++)
    {
        float s = state ? state[(u64)i * stride] : 0;
        UNROLL for (int j = 0; j < MAX_DRAFTS; j++) if (j < d)
            s = fma32(x[(2 * j + 1) * EXACT_KEYS + i], u[j], g[j] * s);
        sum = fma32(k[i], decay * s, sum);
        out = fma32(q[i], s, out);
    }
    return (f32x2){sum, out};
}

/* n rows of drafts, the first of which is `row`; the state stays. */
DEVICE void exact_drafts(const struct delta_args *a, const struct exact_delta_place *p, float *x,
                         float *lanes, const float *state, int row, int n)
{
    float g[MAX_DRAFTS], beta[MAX_DRAFTS], u[MAX_DRAFTS] = {0, 0, 0, 0};
    u64 values = (u64)(a->value_heads * a->value_dim),
        value = (u64)(p->head * a->value_dim + p->column);
    UNROLL for (int d = 0; d < MAX_DRAFTS; d++) g[d] = beta[d] = 0;
    NO_UNROLL for (int r = 0; r < MAX_DRAFTS; r++) /* behind the last row it again */
    {
        struct delta_source from = {*a, row + (r < n ? r : n - 1)};
        float of_v, of_g = exact_delta_load(&from, p, x + 2 * r * EXACT_KEYS, lanes, &of_v);
        UNROLL for (int d = 0; d < MAX_DRAFTS; d++) if (d == r) g[d] = of_g, beta[d] = of_v;
    }
    NO_UNROLL for (int r = 0; p->valid && r <= n; r++)
    {
        f32x2 sums = exact_draft_sums(x, g, u, state, a->key_dim, (u64)a->value_dim, r);
        if (r) a->out[(u64)(row + r - 1) * values + value] = sums[1];
        if (r == n) break;
        float v = a->v[(u64)(row + r) * (u64)a->v_stride + value];
        UNROLL for (int d = 0; d < MAX_DRAFTS; d++) if (d == r) u[d] = beta[d] * (v - sums[0]);
    }
}

KERNEL(exact_delta, struct delta_args)
{
    LDS(float, x, 2 * MAX_DRAFTS * EXACT_KEYS);
    LDS(float, lanes, 2 * EXACT_LANES);
    const struct delta_args *a = ARGS;
    int of_head = (a->value_dim + THREADS - 1) / THREADS, seq = block_y();
    struct exact_delta_place p;
    p.head = block_x() / of_head;
    p.key_head = p.head / (a->value_heads / a->key_heads);
    p.column = block_x() % of_head * THREADS + thread();
    p.valid = p.column < a->value_dim;
    const struct state_rows *s = &a->state;
    const struct kept_rows kept = kept_rows_of(s, seq);
    int start = s->seq_start[seq], end = s->seq_start[seq + 1];
    u64 index = (u64)p.head * (u64)(a->key_dim * a->value_dim) + (u64)p.column,
        value = (u64)(p.head * a->value_dim + p.column);
    float *to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + index;
    const float *from = s->from[seq] < 0
                            ? (const float *)0
                            : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + index;
    NO_UNROLL for (int row = start - kept.right; row < end - kept.drafts; row++)
    {
        struct delta_source source = delta_source_of(a, &kept, start, row);
        float beta, g = exact_delta_load(&source, &p, x, lanes, &beta);
        if (p.valid) {
            float v = source.a.v[(u64)source.row * (u64)source.a.v_stride + value],
                  y = exact_delta_row(x, from, to, a->key_dim, (u64)a->value_dim, g, beta, v);
            if (row >= start) a->out[(u64)row * (u64)(a->value_heads * a->value_dim) + value] = y;
        }
        from = to;
    }
    if (!kept.drafts) return;
    delta_keep(a, &kept, end, block_x() * THREADS + thread(), a->value_heads * of_head * THREADS);
    exact_drafts(a, &p, x, lanes, from, end - kept.drafts, kept.drafts);
}

/* Mamba-2. Block (EXACT_SSM_THREADS columns of the value heads of a key head, sequence): a thread
 * has a column of the state, in memory, and takes EXACT_SSM_ROWS rows in one pass over it. */
enum { EXACT_SSM_ROWS = 8 };

/* A thread's column: its head, its place among the values of a row, and the state's before and
 * after a pass. */
struct exact_ssm_column {
    int head, valid;
    u64 value;
    const float *from; /* NULL: zeros */
    float *to;
};

/* What a pass leaves: the state behind its rows, their results, or both. */
enum exact_ssm_leaves { SSM_STATE = 1, SSM_RESULTS = 2 };

/* n rows from `row` on, of which `count` are there; x [n][2][EXACT_KEYS]: their q and k. */
DEVICE void exact_ssm_rows(const struct delta_args *a, const struct exact_ssm_column *c,
                           const float *x, int row, const int n, int count, int leaves)
{
    float g[EXACT_SSM_ROWS], u[EXACT_SSM_ROWS], v[EXACT_SSM_ROWS], out[EXACT_SSM_ROWS];
    u64 values = (u64)(a->value_heads * a->value_dim), stride = (u64)a->value_dim;
    UNROLL for (int r = 0; r < n; r++)
    {
        u64 at = (u64)(row + (r < count ? r : count - 1));
        float step = exact_softplus(a->a[at * (u64)a->value_heads + (u64)c->head] + a->dt[c->head]);
        v[r] = a->v[at * (u64)a->v_stride + c->value];
        g[r] = exact_exp(a->decay[c->head] * step);
        u[r] = step * v[r];
        out[r] = 0;
    }
    UNROLL_4 for (int i = 0; i < a->key_dim; i++)
    {
        float s = c->from ? c->from[(u64)i * stride] : 0;
        UNROLL for (int r = 0; r < n; r++)
        {
            s = fma32(x[(2 * r + 1) * EXACT_KEYS + i], u[r], g[r] * s);
            out[r] = fma32(x[2 * r * EXACT_KEYS + i], s, out[r]);
        }
        if (leaves & SSM_STATE) c->to[(u64)i * stride] = s;
    }
    UNROLL for (int r = 0; r < n; r++) if (leaves & SSM_RESULTS && r < count)
        a->out[(u64)(row + r) * values + c->value] = fma32(a->skip[c->head], v[r], out[r]);
}

/* q and k of n rows of a key head in shared memory, and the last one's up to EXACT_SSM_ROWS. */
DEVICE void exact_ssm_load(const struct delta_args *a, float *x, int row, int n, int key_head)
{
    NO_UNROLL for (int r = 0; r < EXACT_SSM_ROWS; r++)
    {
        u64 at = (u64)(row + (r < n ? r : n - 1));
        for (int i = thread(); i < 2 * a->key_dim; i += EXACT_SSM_THREADS) {
            int is_key = i >= a->key_dim, d = is_key ? i - a->key_dim : i;
            x[(2 * r + is_key) * EXACT_KEYS + d] =
                (is_key ? a->k : a->q)[at * (u64)a->qk_stride + (u64)(key_head * a->key_dim + d)];
        }
    }
}

/* The block's rows first .. end - 1 of what a says; x [EXACT_SSM_ROWS][2][EXACT_KEYS] */
DEVICE void exact_ssm_pass(const struct delta_args *a, struct exact_ssm_column *c, float *x,
                           int first, int end, int leaves)
{
    const int key_head = c->head / (a->value_heads / a->key_heads);
    NO_UNROLL for (int row = first; row < end; row += EXACT_SSM_ROWS)
    {
        int n = end - row < EXACT_SSM_ROWS ? end - row : EXACT_SSM_ROWS,
            at_once = n == EXACT_SSM_ROWS || !(leaves & SSM_STATE);
        barrier();
        exact_ssm_load(a, x, row, n, key_head);
        barrier();
        if (c->valid && at_once) exact_ssm_rows(a, c, x, row, EXACT_SSM_ROWS, n, leaves);
        NO_UNROLL for (int r = 0; c->valid && !at_once && r < n; r++)
        {
            exact_ssm_rows(a, c, x + 2 * r * EXACT_KEYS, row + r, 1, 1, leaves);
            c->from = c->to;
        }
        if (leaves & SSM_STATE) c->from = c->to;
    }
}

/* Rows of drafts that were right, the step's, and those that are drafts. */
enum exact_ssm_part { SSM_RIGHT, SSM_ROWS, SSM_DRAFTS, SSM_PARTS };

KERNEL(exact_ssm, struct delta_args)
{
    LDS(float, x, EXACT_SSM_ROWS * 2 * EXACT_KEYS);
    const struct delta_args *a = ARGS;
    const struct state_rows *s = &a->state;
    int heads = a->value_heads / a->key_heads, columns = heads * a->value_dim,
        blocks = (columns + EXACT_SSM_THREADS - 1) / EXACT_SSM_THREADS, seq = block_y(),
        key_head = block_x() / blocks, column = block_x() % blocks * EXACT_SSM_THREADS + thread(),
        start = s->seq_start[seq], end = s->seq_start[seq + 1];
    const struct kept_rows kept = kept_rows_of(s, seq);
    struct exact_ssm_column c;
    c.valid = column < columns;
    if (!c.valid) column = 0;
    c.head = key_head * heads + column / a->value_dim;
    c.value = (u64)(key_head * columns + column);
    u64 index = (u64)c.head * (u64)(a->key_dim * a->value_dim) + (u64)(column % a->value_dim);
    c.to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + index;
    c.from = s->from[seq] < 0
                 ? (const float *)0
                 : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + index;
    NO_UNROLL for (int part = SSM_RIGHT; part < SSM_PARTS; part++)
    {
        int drafts = end - kept.drafts,
            first = part == SSM_RIGHT  ? start - kept.right
                    : part == SSM_ROWS ? start
                                       : drafts,
            last = part == SSM_RIGHT ? start : part == SSM_ROWS ? drafts : end;
        if (first == last) continue;
        struct delta_source source = delta_source_of(a, &kept, start, first);
        exact_ssm_pass(&source.a, &c, x, source.row, source.row + last - first,
                       part == SSM_RIGHT    ? SSM_STATE
                       : part == SSM_DRAFTS ? SSM_RESULTS
                                            : SSM_STATE | SSM_RESULTS);
    }
    delta_keep(a, &kept, end, block_x() * EXACT_SSM_THREADS + thread(),
               a->key_heads * blocks * EXACT_SSM_THREADS);
}
