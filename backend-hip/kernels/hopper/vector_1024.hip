/* vector_1024.hip: what stands between the linears of generated rows, as vector.hip and
 * attention.hip have it, for so few rows that each has a multiprocessor to itself: with enough
 * threads for all that comes from the producer to be under way at once. A launch is then one wait
 * for memory rather than several. The bits are those of the kernels of THREADS threads: sums keep
 * their order. Rows that fit only (hip_linear.c), whose length among the inputs is a multiple of
 * 128: warps place them together. */

/* In every thread the largest x >= 0 of the block. scratch[WARP], which nobody reads any more */
DEVICE float largest_of_block(float x, float *scratch, const int threads)
{
    u32 largest = max_of_warp(bits_of(x)); /* ordered as the numbers are */
    if (thread() % WARP == 0) scratch[thread() / WARP] = f32_of(largest);
    barrier();
    return f32_of(max_of_warp(bits_of(scratch[thread() % (threads / WARP)])));
}

/* In every thread what block_sum() makes of x of the first THREADS. scratch[THREADS + 1] */
DEVICE float sum_of_first(float x, float *scratch)
{
    if (thread() < THREADS) {
        scratch[thread()] = x;
        barrier_numbered(1);
        if (thread() < WARP) scratch[THREADS] = warp_tree(scratch, 0);
    }
    barrier();
    return scratch[THREADS];
}

/* v[n], order[n], scratch[WARP], ordered: as place_pieces() has it */
DEVICE void prepare_1024(const struct prepare_args *a, const f32x4 *v, u64 *order, float *scratch,
                         u64 *ordered, const int n)
{
    struct row_place place = place_of(a, block_x());
    float largest = 0;
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, a->in) largest = largest_of(v[j], largest);
    struct power_of_two p = power_for(largest_of_block(largest, scratch, WIDE_THREADS), a->top);
    if (thread() == 0) a->scale[block_x()] = p.undo;
    place_pieces(a, &place, v, p.factor, order, ordered, n, WIDE_THREADS);
}

/* The sum of squares that this thread has in norm_pieces(), of values [dim / 4]. */
DEVICE float squares_of(const f32x4 *values, int dim, const int pieces)
{
    float sum = 0;
    FOR_PIECES(pieces, j, i, dim)
    {
        f32x4 v = values[i / 4];
        UNROLL for (int e = 0; e < 4; e++) sum = fma32(v[e], v[e], sum);
    }
    return sum;
}

/* values [pieces * THREADS]: by them the first THREADS threads get what they have to add up; then
 * the row in another order. */
DEVICE void norm_1024(const struct norm_prepare_args *a, float *scratch, f32x4 *values,
                      const int pieces)
{
    const int n = WIDE_PIECES(pieces, WIDE_THREADS);
    const struct norm_args *of = &a->norm;
    int dim = of->dim;
    u64 at = (u64)block_x() * (u64)dim, order[ROW_PIECES];
    f32x4 v[ROW_PIECES], w[ROW_PIECES], delta[ROW_PIECES];
    float sum = 0;
    early_order(&a->prepare, order, n, WIDE_THREADS);
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) w[j] = *(const f32x4 *)(of->weight + i);
    wait_for_producer();
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) v[j] = *(const f32x4 *)(of->x + at + i);
    if (of->delta) {
        FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) delta[j] = *(const f32x4 *)(of->delta + at + i);
        FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) v[j] = v[j] + delta[j];
        FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) * (f32x4 *)(of->x + at + i) = v[j];
    }
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) values[i / 4] = v[j];
    barrier();
    if (thread() < THREADS) sum = squares_of(values, dim, pieces);
    float f = rsqrt32(sum_of_first(sum, scratch) / (float)dim + of->eps);
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = v[j][e] * f * w[j][e];
    if (of->out) FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim) * (f32x4 *)(of->out + at + i) = v[j];
    prepare_1024(&a->prepare, v, order, scratch, (u64 *)values, n);
}

/* Of two kernels the one for shorter rows takes half of a multiprocessor's registers: a block of
 * the linear that comes next, which begins to copy weights early, fits beside it where it is one of
 * linear_decode_wgmma.hip or hopper/linear_decode_mma.hip. */
KERNEL(norm_wide_4, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS + 1);
    LDS(f32x4, values, PIECES_OF_norm_wide_4 * THREADS);
    norm_1024(EARLY_ARGS, scratch, values, PIECES_OF_norm_wide_4);
}

KERNEL(norm_wide_11, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS + 1);
    LDS(f32x4, values, PIECES_OF_norm_wide_11 * THREADS);
    norm_1024(EARLY_ARGS, scratch, values, PIECES_OF_norm_wide_11);
}

KERNEL(glu_wide_14, struct glu_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_glu_wide_14));
    const struct glu_prepare_args *a = EARLY_ARGS;
    enum { PIECES = WIDE_PIECES(PIECES_OF_glu_wide_14, WIDE_THREADS) };
    int dim = (int)a->glu.n;
    float *gate = a->glu.gate + (u64)block_x() * a->glu.n;
    const float *up = a->glu.up + (u64)block_x() * a->glu.n;
    u64 order[PIECES];
    f32x4 v[PIECES], w[PIECES];
    early_order(&a->prepare, order, PIECES, WIDE_THREADS);
    wait_for_producer();
    FOR_PIECES_OF(WIDE_THREADS, PIECES, j, i, dim)
    v[j] = *(const f32x4 *)(gate + i), w[j] = *(const f32x4 *)(up + i);
    warp_barrier(); /* which no load crosses: else the compiler asks for some only when others are
                       done with */
    FOR_PIECES_OF(WIDE_THREADS, PIECES, j, i, dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = gated(v[j][e], w[j][e], 0);
    if (a->keep) FOR_PIECES_OF(WIDE_THREADS, PIECES, j, i, dim) * (f32x4 *)(gate + i) = v[j];
    prepare_1024(&a->prepare, v, order, scratch, ordered, PIECES);
}

/* Four dimensions of a head, merged in the order of span_weights() and merge_row(), by each thread
 * for itself: nothing passes through LDS. of: [n][size], these dimensions; scores: [n][size], the
 * largest score and the sum; n: spans, up to `most`. */
DEVICE f32x4 merged_four(const float *of, const float *scores, int size, int n, const int most)
{
    f32x4 v = {0, 0, 0, 0}, p[ROW_SPANS];
    f32x2 s[ROW_SPANS];
    float max = -__builtin_inff(), sum = 0;
    UNROLL for (int i = 0; i < most; i++) if (i < n) s[i] = *(const f32x2 *)(scores + i * size),
                                                     p[i] = *(const f32x4 *)(of + i * size);
    UNROLL for (int i = 0; i < most; i++) if (i < n) max = max32(s[i][0], max);
    UNROLL for (int i = 0; i < most; i++) if (i < n) s[i][0] = exp32(s[i][0] - max),
                                                     sum = fma32(s[i][0], s[i][1], sum);
    UNROLL for (int i = 0; i < most; i++) if (i < n) UNROLL for (int e = 0; e < 4; e++)
        v[e] = fma32(s[i][0], p[i][e], v[e]);
    float inverse = rcp32(sum);
    UNROLL for (int e = 0; e < 4; e++) v[e] = v[e] * inverse;
    return v;
}

/* Rows of up to `most` spans. Where those are is found out before the wait. */
DEVICE void merge_1024(const struct merge_prepare_args *a, float *scratch, u64 *ordered,
                       const int pieces, const int most)
{
    const int n = WIDE_PIECES(pieces, WIDE_THREADS);
    const struct merge_args *m = &a->merge;
    int row = block_x(), dim = a->prepare.in, hd = m->head_dim, size = part_floats(hd), first,
        spans = merged_spans(m, row, &first);
    u64 order[MERGE_PIECES];
    u32 of[MERGE_PIECES], scores[MERGE_PIECES];
    f32x4 v[MERGE_PIECES];
    early_order(&a->prepare, order, n, WIDE_THREADS);
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim)
    {
        u32 begin = (u32)((row * m->n_heads + i / hd) * m->n_spans + first) * (u32)size;
        of[j] = keep(begin + (u32)(i % hd));
        scores[j] = keep(begin + (u32)round8(hd));
    }
    wait_for_producer();
    FOR_PIECES_OF(WIDE_THREADS, n, j, i, dim)
    v[j] = merged_four(m->parts + of[j], m->parts + scores[j], size, spans, most);
    prepare_1024(&a->prepare, v, order, scratch, ordered, n);
}

KERNEL(merge_wide_4, struct merge_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_merge_wide_4));
    merge_1024(EARLY_ARGS, scratch, ordered, PIECES_OF_merge_wide_4, FEW_SPANS);
}

KERNEL(merge_wide_8, struct merge_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_merge_wide_8));
    merge_1024(EARLY_ARGS, scratch, ordered, PIECES_OF_merge_wide_8, ROW_SPANS);
}
