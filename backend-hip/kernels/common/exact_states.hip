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

KERNEL(exact_delta, struct delta_args)
{
    LDS(float, x, 2 * EXACT_KEYS);
    LDS(float, lanes, 2 * EXACT_LANES);
    const struct delta_args *a = ARGS;
    int of_head = (a->value_dim + THREADS - 1) / THREADS, head = block_x() / of_head,
        column = block_x() % of_head * THREADS + thread(), seq = block_y(), t = thread(),
        key_head = head / (a->value_heads / a->key_heads),
        valid = column < a->value_dim;
    const struct state_rows *s = &a->state;
    u64 index = (u64)head * (u64)(a->key_dim * a->value_dim) + (u64)column,
        value = (u64)(head * a->value_dim + column);
    float *to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + index;
    const float *from = s->from[seq] < 0
                            ? (const float *)0
                            : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + index;
    NO_UNROLL for (int row = s->seq_start[seq]; row < s->seq_start[seq + 1]; row++)
    {
        u64 source = (u64)row * (u64)a->qk_stride + (u64)(key_head * a->key_dim) + (u64)t;
        u64 gate = (u64)row * (u64)a->value_heads + (u64)head;
        barrier();
        if (t < a->key_dim) {
            x[t] = a->q[source];
            x[EXACT_KEYS + t] = a->k[source];
        }
        barrier();
        exact_unit(a, x, lanes);
        float g = exact_exp(a->decay[head] * exact_softplus(a->a[gate] + a->dt[head])),
              beta = a->beta_scale / (1 + exact_exp(-a->b[gate]));
        if (valid) {
            float v = a->v[(u64)row * (u64)a->v_stride + value];
            a->out[(u64)row * (u64)(a->value_heads * a->value_dim) + value] =
                exact_delta_row(x, from, to, a->key_dim, (u64)a->value_dim, g, beta, v);
        }
        from = to;
    }
}

/* Mamba-2. Block (EXACT_SSM_THREADS columns of the value heads of a key head, sequence): a thread
 * has a column of the state, in memory, and takes EXACT_SSM_ROWS rows in one pass over it. */
enum { EXACT_SSM_ROWS = 8 };

/* A thread's column: its head, its place among the values of a row, and the state's before and
 * after a pass. */
struct exact_ssm_column {
    int head;
    u64 value;
    const float *from; /* NULL: zeros */
    float *to;
};

/* n rows from `row` on; x [n][2][EXACT_KEYS]: their q and k. */
DEVICE void exact_ssm_rows(const struct delta_args *a, const struct exact_ssm_column *c,
                           const float *x, int row, const int n)
{
    float g[EXACT_SSM_ROWS], u[EXACT_SSM_ROWS], v[EXACT_SSM_ROWS], out[EXACT_SSM_ROWS];
    u64 values = (u64)(a->value_heads * a->value_dim), stride = (u64)a->value_dim;
    UNROLL for (int r = 0; r < n; r++)
    {
        u64 at = (u64)(row + r);
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
        c->to[(u64)i * stride] = s;
    }
    UNROLL for (int r = 0; r < n; r++)
        a->out[(u64)(row + r) * values + c->value] = fma32(a->skip[c->head], v[r], out[r]);
}

/* q and k of n rows of a key head in shared memory. */
DEVICE void exact_ssm_load(const struct delta_args *a, float *x, int row, int n, int key_head)
{
    for (int r = 0; r < n; r++)
        for (int i = thread(); i < 2 * a->key_dim; i += EXACT_SSM_THREADS) {
            int is_key = i >= a->key_dim, d = is_key ? i - a->key_dim : i;
            x[(2 * r + is_key) * EXACT_KEYS + d] = (is_key ? a->k : a->q)[
                (u64)(row + r) * (u64)a->qk_stride + (u64)(key_head * a->key_dim + d)];
        }
}

KERNEL(exact_ssm, struct delta_args)
{
    LDS(float, x, EXACT_SSM_ROWS * 2 * EXACT_KEYS);
    const struct delta_args *a = ARGS;
    const struct state_rows *s = &a->state;
    int heads = a->value_heads / a->key_heads, columns = heads * a->value_dim,
        blocks = (columns + EXACT_SSM_THREADS - 1) / EXACT_SSM_THREADS, seq = block_y(),
        key_head = block_x() / blocks, column = block_x() % blocks * EXACT_SSM_THREADS + thread(),
        valid = column < columns, end = s->seq_start[seq + 1];
    if (!valid) column = 0;
    struct exact_ssm_column c;
    c.head = key_head * heads + column / a->value_dim;
    c.value = (u64)(key_head * columns + column);
    u64 index = (u64)c.head * (u64)(a->key_dim * a->value_dim) + (u64)(column % a->value_dim);
    c.to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + index;
    c.from = s->from[seq] < 0
                 ? (const float *)0
                 : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + index;
    NO_UNROLL for (int row = s->seq_start[seq]; row < end; row += EXACT_SSM_ROWS)
    {
        int n = end - row < EXACT_SSM_ROWS ? end - row : EXACT_SSM_ROWS;
        barrier();
        exact_ssm_load(a, x, row, n, key_head);
        barrier();
        if (valid && n == EXACT_SSM_ROWS) exact_ssm_rows(a, &c, x, row, EXACT_SSM_ROWS);
        NO_UNROLL for (int r = 0; valid && n < EXACT_SSM_ROWS && r < n; r++)
        {
            exact_ssm_rows(a, &c, x + 2 * r * EXACT_KEYS, row + r, 1);
            c.from = c.to;
        }
        c.from = c.to;
    }
}
