/* exact_states.hip: the gated delta rule (OP_DELTA) in the order of the CPU backend
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
        keys = a->key_heads * a->key_dim, key_head = head / (a->value_heads / a->key_heads),
        valid = column < a->value_dim;
    const struct state_rows *s = &a->state;
    u64 width = (u64)(2 * keys + a->value_heads * a->value_dim),
        index = (u64)head * (u64)(a->key_dim * a->value_dim) + (u64)column,
        value = (u64)(head * a->value_dim + column);
    float *to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + index;
    const float *from = s->from[seq] < 0
                            ? (const float *)0
                            : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + index;
    NO_UNROLL for (int row = s->seq_start[seq]; row < s->seq_start[seq + 1]; row++)
    {
        const float *source = a->x + (u64)row * width + (u64)(key_head * a->key_dim);
        u64 gate = (u64)row * (u64)a->value_heads + (u64)head;
        barrier();
        if (t < a->key_dim) {
            x[t] = source[t];
            x[EXACT_KEYS + t] = source[keys + t];
        }
        barrier();
        exact_unit(a, x, lanes);
        float g = exact_exp(a->decay[head] * exact_softplus(a->a[gate] + a->dt[head])),
              beta = 1 / (1 + exact_exp(-a->b[gate]));
        if (valid) {
            float v = a->x[(u64)row * width + 2 * (u64)keys + value];
            a->out[(u64)row * (u64)(a->value_heads * a->value_dim) + value] =
                exact_delta_row(x, from, to, a->key_dim, (u64)a->value_dim, g, beta, v);
        }
        from = to;
    }
}
