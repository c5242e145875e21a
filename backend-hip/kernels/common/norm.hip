/* norm.hip: norms of groups of a row, and LayerNorm. Bits: sums depend on the length of a group
 * alone. */

/* Whether a group is read by 16 bytes. */
DEVICE int in_fours(const struct norm_args *a)
{
    return a->dim % 4 == 0;
}

/* RMSNorm of groups, 8 threads each: thread t sums elements 4t .. 4t + 3, then 4 (8 + t) .. and so
 * on; the threads' sums are added neighbours first. */
KERNEL(norm_groups, struct norm_groups_args)
{
    const struct norm_groups_args *a = ARGS;
    const struct norm_args *norm_of = &a->norm;
    int group = block_x() * (THREADS / 8) + thread() / 8, valid = group < a->n, dim = norm_of->dim;
    u64 offset = (u64)(valid ? group : 0) * (u64)dim;
    const float *x = norm_of->x + offset, *weight = norm_of->weight;
    float sum = 0;
    if (a->own) weight += (u64)(valid ? group % a->own : 0) * (u64)dim;
    if (in_fours(norm_of)) {
        UNROLL_4 for (int i = 4 * (thread() % 8); i < dim; i += 32)
        {
            f32x4 v = *(const f32x4 *)(x + i);
            UNROLL for (int e = 0; e < 4; e++) sum = fma32(v[e], v[e], sum);
        }
    } else {
        for (int i = 4 * (thread() % 8); i < dim; i += 32)
            for (int e = i; e < i + 4 && e < dim; e++) sum = fma32(x[e], x[e], sum);
    }
    float f = rsqrt32(sum_of_8(sum) / (float)dim + norm_of->eps);
    if (!valid) return;
    if (in_fours(norm_of)) {
        UNROLL_4 for (int i = 4 * (thread() % 8); i < dim; i += 32)
        {
            f32x4 v = *(const f32x4 *)(x + i), w = *(const f32x4 *)(weight + i);
            UNROLL for (int e = 0; e < 4; e++) v[e] = v[e] * f * w[e];
            *(f32x4 *)(norm_of->out + offset + (u64)i) = v;
        }
    } else {
        for (int i = 4 * (thread() % 8); i < dim; i += 32)
            for (int e = i; e < i + 4 && e < dim; e++)
                norm_of->out[offset + (u64)e] = x[e] * f * weight[e];
    }
}

/* LayerNorm. Block (row or group): thread t sums elements t, t + THREADS, .. */
KERNEL(norm_centered, struct norm_centered_args)
{
    LDS(float, scratch, THREADS);
    const struct norm_centered_args *all = ARGS;
    const struct norm_args *a = &all->norm;
    u64 offset = (u64)block_x() * (u64)a->dim;
    float *x = a->x + offset, sum = 0, squares = 0;
    for (int i = thread(); i < a->dim; i += THREADS) {
        float v = x[i];
        if (a->delta) x[i] = v = v + a->delta[offset + (u64)i];
        sum += v;
    }
    float mean = block_sum(sum, scratch) / (float)a->dim;
    for (int i = thread(); i < a->dim; i += THREADS) {
        float v = x[i] - mean;
        squares = fma32(v, v, squares);
    }
    float f = rsqrt32(block_sum(squares, scratch) / (float)a->dim + a->eps);
    for (int i = thread(); i < a->dim; i += THREADS) {
        float y = (x[i] - mean) * f * a->weight[i];
        a->out[offset + (u64)i] = all->bias ? y + all->bias[i] : y;
    }
}
