/* vector.hip: what works on rows of activations. One block to a row unless said otherwise. */

DEVICE float permuted(const struct prepare_args *a, const float *x, int j)
{
    int from = j < a->k ? (a->perm ? a->perm[j] : j) : -1;
    return from < 0 ? 0 : x[from];
}

KERNEL(prepare_f32, struct prepare_args)
{
    const struct prepare_args *a = ARGS;
    int row = block_x();
    const float *x = a->x + (u64)row * (u64)a->in;
    float *packed = (float *)a->packed + (u64)row * (u64)a->stride;
    for (int j = thread(); j < a->stride; j += THREADS) packed[j] = permuted(a, x, j);
}

/* A power of two brings the largest magnitude into [2^top, 2^(top+1)). With top = 14 nothing overflows, and what becomes
 * subnormal is below 2^-28 of the largest. */
DEVICE void prepare_row(const struct prepare_args *a, int row, float *scratch)
{
    const float *x = a->x + (u64)row * (u64)a->in;
    f16 *packed = (f16 *)a->packed + (u64)row * (u64)a->stride;
    float largest = 0;
    for (int j = thread(); j < a->k; j += THREADS) largest = max32(abs32(permuted(a, x, j)), largest);
    largest = block_max(largest, scratch);
    int exponent = (int)(bits_of(largest) >> 23) - 127;
    if (exponent < -100) exponent = -100; /* zeros, and what is next to it */
    float factor = f32_of((u32)(a->top - exponent + 127) << 23);
    for (int j = thread(); j < a->stride; j += THREADS) packed[j] = (f16)(permuted(a, x, j) * factor);
    if (thread() == 0) a->scale[row] = f32_of((u32)(exponent - a->top + 127) << 23);
}

KERNEL(prepare_f16, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    prepare_row(ARGS, block_x(), scratch);
}

KERNEL(embed_rows, struct embed_args)
{
    const struct embed_args *a = ARGS;
    int row = block_x(), token = a->token[row], pieces = a->kind == WEIGHT_F32 ? 8 : 4, inputs = CHUNK / pieces;
    u64 first = (u64)(token / PANEL) * (u64)(a->n_chunks * pieces * PANEL) + (u64)(token % PANEL);
    for (int j = thread(); j < a->dim; j += THREADS) {
        u64 at = (first + (u64)(j / inputs * PANEL)) * (u64)inputs + (u64)(j % inputs);
        float v;
        if (a->kind == WEIGHT_F32) v = ((const float *)a->weight)[at];
        else if (a->kind == WEIGHT_BF16) v = f32_of_bf16(((const u16 *)a->weight)[at]);
        else v = (float)half_of(((const u16 *)a->weight)[at]);
        a->out[(u64)row * (u64)a->dim + (u64)j] = v;
    }
}

DEVICE void norm_row(const struct norm_args *a, int row, float *scratch)
{
    u64 at = (u64)row * (u64)a->dim;
    float *x = a->x + at, sum = 0;
    for (int i = thread(); i < a->dim; i += THREADS) {
        float v = x[i];
        if (a->delta) x[i] = v = v + a->delta[at + (u64)i];
        sum = fma32(v, v, sum);
    }
    float f = rsqrt32(block_sum(sum, scratch) / (float)a->dim + a->eps);
    for (int i = thread(); i < a->dim; i += THREADS) a->out[at + (u64)i] = x[i] * f * a->weight[i];
}

KERNEL(norm_rows, struct norm_args)
{
    LDS(float, scratch, THREADS);
    norm_row(ARGS, block_x(), scratch);
}

KERNEL(norm_prepare, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS);
    const struct norm_prepare_args *a = ARGS;
    norm_row(&a->norm, block_x(), scratch);
    barrier();
    prepare_row(&a->prepare, block_x(), scratch);
}

DEVICE void glu_element(const struct glu_args *a, u64 i)
{
    float g = a->gate[i];
    a->gate[i] = g * rcp32(1 + exp32(-g)) * a->up[i];
}

/* One thread to an element. */
KERNEL(glu, struct glu_args)
{
    const struct glu_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i < a->n) glu_element(a, i);
}

KERNEL(glu_prepare, struct glu_prepare_args)
{
    LDS(float, scratch, THREADS);
    const struct glu_prepare_args *a = ARGS;
    u64 first = (u64)block_x() * a->glu.n;
    for (u64 i = (u64)thread(); i < a->glu.n; i += THREADS) glu_element(&a->glu, first + i);
    barrier();
    prepare_row(&a->prepare, block_x(), scratch);
}

KERNEL(gather_rows, struct gather_args)
{
    const struct gather_args *a = ARGS;
    const float *x = a->x + (u64)a->row[block_x()] * (u64)a->dim;
    float *out = a->out + (u64)block_x() * (u64)a->dim;
    for (int i = thread(); i < a->dim; i += THREADS) out[i] = x[i];
}

KERNEL(argmax_rows, struct argmax_args)
{
    LDS(float, value, THREADS);
    LDS(int, index, THREADS);
    const struct argmax_args *a = ARGS;
    const float *x = a->logits + (u64)block_x() * (u64)a->vocab;
    int t = thread(), best = t < a->vocab ? t : 0;
    for (int i = t; i < a->vocab; i += THREADS)
        if (x[i] > x[best]) best = i;
    value[t] = x[best];
    index[t] = best;
    barrier();
    for (int w = THREADS / 2; w; w /= 2) {
        if (t < w && (value[t + w] > value[t] || (value[t + w] == value[t] && index[t + w] < index[t]))) {
            value[t] = value[t + w];
            index[t] = index[t + w];
        }
        barrier();
    }
    if (t == 0) a->id[block_x()] = index[0];
}
