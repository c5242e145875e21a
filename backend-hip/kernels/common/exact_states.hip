/* exact_states.hip: the gated delta rule (OP_DELTA) in the order of the CPU backend
 * (backend-cpu/states_loops.h), to the bit: sums over the key dimensions ascend, fused. Block
 * (THREADS columns of a value head, sequence): a thread has a column of the state in registers and
 * takes the rows one after another. */

/* A row's q or k (2 [dims] of shared memory, zeros from key_dim on): 16 threads to each. */
DEVICE void exact_unit(const struct delta_args *a, float *x, float *lanes, const int dims)
{
    int t = thread(), which = t / EXACT_LANES;
    if (which < 2) {
        float sum = 0;
        UNROLL_8 for (int i = t % EXACT_LANES; i < a->key_dim; i += EXACT_LANES)
            sum += x[which * dims + i] * x[which * dims + i];
        lanes[t] = sum;
    }
    barrier();
    float root = 1 / exact_sqrt((float)a->key_dim), f[2];
    UNROLL for (int w = 0; w < 2; w++)
        f[w] = 1 / exact_sqrt(exact_fold(lanes + w * EXACT_LANES) + 1e-6f);
    for (int i = t; i < dims; i += THREADS) {
        x[i] = x[i] * f[0] * root;
        x[dims + i] = x[dims + i] * f[1];
    }
    barrier();
}

DEVICE void exact_delta(const struct delta_args *a, float *x, float *lanes, const int dims)
{
    int of_head = (a->value_dim + THREADS - 1) / THREADS, head = block_x() / of_head,
        column = block_x() % of_head * THREADS + thread(), seq = block_y(),
        keys = a->key_heads * a->key_dim, key_head = head / (a->value_heads / a->key_heads),
        there = column < a->value_dim;
    const struct state_rows *s = &a->state;
    u64 width = (u64)(2 * keys + a->value_heads * a->value_dim),
        at = (u64)head * (u64)(a->key_dim * a->value_dim) + (u64)column,
        value = (u64)(head * a->value_dim + column);
    float state[256];
    const float *from = (const float *)s->slots + (u64)s->from[seq] * s->slot_floats + at;
    float *to = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + at;
    UNROLL for (int i = 0; i < dims; i++) state[i] = there && i < a->key_dim && s->from[seq] >= 0
                                                         ? from[(u64)i * (u64)a->value_dim]
                                                         : 0;
    NO_UNROLL for (int row = s->seq_start[seq]; row < s->seq_start[seq + 1]; row++)
    {
        const float *of = a->x + (u64)row * width;
        u64 gate = (u64)row * (u64)a->value_heads + (u64)head;
        barrier();
        for (int i = thread(); i < dims; i += THREADS) {
            x[i] = i < a->key_dim ? of[key_head * a->key_dim + i] : 0;
            x[dims + i] = i < a->key_dim ? of[keys + key_head * a->key_dim + i] : 0;
        }
        barrier();
        exact_unit(a, x, lanes, dims);
        float g = exact_exp(a->decay[head] * exact_softplus(a->a[gate] + a->dt[head])),
              beta = 1 / (1 + exact_exp(-a->b[gate])), sum = 0, out = 0;
        UNROLL for (int i = 0; i < dims; i++)
        {
            state[i] = g * state[i];
            sum = fma32(x[dims + i], state[i], sum);
        }
        float u = beta * ((there ? of[2 * (u64)keys + value] : 0) - sum);
        UNROLL for (int i = 0; i < dims; i++)
        {
            state[i] = fma32(x[dims + i], u, state[i]);
            out = fma32(x[i], state[i], out);
        }
        if (there) a->out[(u64)row * (u64)(a->value_heads * a->value_dim) + value] = out;
    }
    if (there)
        UNROLL for (int i = 0; i < dims; i++) if (i < a->key_dim)
            to[(u64)i * (u64)a->value_dim] = state[i];
}

KERNEL(exact_delta_128, struct delta_args)
{
    LDS(float, x, 2 * 128);
    LDS(float, lanes, 2 * EXACT_LANES);
    exact_delta(ARGS, x, lanes, 128);
}

KERNEL(exact_delta_256, struct delta_args)
{
    LDS(float, x, 2 * 256);
    LDS(float, lanes, 2 * EXACT_LANES);
    exact_delta(ARGS, x, lanes, 256);
}
