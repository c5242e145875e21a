/* vector_1024.hip: operations between the linears of decode rows on sm_90a, fused with the
 * preparation of the next linear: norm, SwiGLU, combination of KV splits. One block of THREADS_1024
 * threads for each row, for steps with a multiprocessor for every row: enough threads to have all
 * loads of a row in flight at once, so that a launch waits for memory once. Bits: sums keep the
 * order of the kernels of THREADS threads (vector.hip, attend.hip). Only for rows that fit
 * (hip_linear.c), whose packed length is a multiple of 128, because a warp places its elements
 * together. */

/* The largest x >= 0 of the block, in every thread. scratch[WARP] must be free of readers */
DEVICE float largest_of_block(float x, float *scratch, const int threads)
{
    u32 largest = max_of_warp(bits_of(x)); /* bits of x >= 0 are ordered as the numbers */
    if (thread() % WARP == 0) scratch[thread() / WARP] = f32_of(largest);
    barrier();
    return f32_of(max_of_warp(bits_of(scratch[thread() % (threads / WARP)])));
}

/* block_sum() of x of the first THREADS threads, in every thread. scratch[THREADS + 1] */
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

/* Packs a row v[n]. order[n], scratch[WARP]; ordered: that of place_pieces() */
DEVICE void prepare_1024(const struct prepare_args *a, const f32x4 *v, u64 *order, float *scratch,
                         u64 *ordered, const int n)
{
    struct row_place place = place_of(a, block_x());
    float largest = 0;
    FOR_PIECES_OF(THREADS_1024, n, j, i, a->in) largest = largest_of(v[j], largest);
    struct power_of_two p = power_for(largest_of_block(largest, scratch, THREADS_1024), a->top);
    if (thread() == 0) a->scale[block_x()] = p.undo;
    place_pieces(a, &place, v, p.factor, order, ordered, n, THREADS_1024);
}

/* The sum of squares of thread t in norm_pieces(), from values [dim / 4]. */
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

enum { MIX_AT_ONCE = 4 };

/* values [pieces * THREADS]: passes the row to the first THREADS threads, which sum the squares;
 * then holds the permuted row. */
DEVICE void norm_1024(const struct norm_prepare_args *a, const struct mix_args *mix, float *scratch,
                      f32x4 *values, const int pieces)
{
    const int n = PIECES_FOR(pieces, THREADS_1024);
    const struct norm_args *norm_of = &a->norm;
    int dim = norm_of->dim;
    u64 offset = (u64)block_x() * (u64)dim, order[ROW_PIECES];
    f32x4 v[ROW_PIECES], w[ROW_PIECES], delta[ROW_PIECES];
    float sum = 0;
    early_order(&a->prepare, order, n, THREADS_1024);
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim) w[j] = *(const f32x4 *)(norm_of->weight + i);
    wait_for_producer();
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim) v[j] = *(const f32x4 *)(norm_of->x + offset + i);
    if (mix) {
        const float *w_mix = mix->weight + (u64)block_x() * (u64)mix->top_k,
                    *x_mix = mix->x + offset * (u64)mix->top_k;
        NO_UNROLL for (int k = 0; k < mix->top_k; k += MIX_AT_ONCE)
            FOR_PIECES_OF(THREADS_1024, n, j, i, dim)
        {
            u32x4 x[MIX_AT_ONCE]; /* slots whose loads wait for memory together */
            float by[MIX_AT_ONCE];
            UNROLL for (int m = 0; m < MIX_AT_ONCE; m++)
            {
                int slot = k + m < mix->top_k ? k + m : k;
                x[m] = load_input(x_mix + (u64)slot * (u64)dim + i);
                by[m] = load_fresh(w_mix + slot);
            }
            UNROLL for (int m = 0; m < MIX_AT_ONCE; m++) if (k + m < mix->top_k)
                UNROLL for (int e = 0; e < 4; e++) delta[j][e] =
                    k + m ? fma32(by[m], f32_of(x[m][e]), delta[j][e]) : by[m] * f32_of(x[m][e]);
        }
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim) v[j] = v[j] + delta[j];
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim) * (f32x4 *)(norm_of->x + offset + i) = v[j];
    } else if (norm_of->delta) {
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim)
        delta[j] = *(const f32x4 *)(norm_of->delta + offset + i);
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim) v[j] = v[j] + delta[j];
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim) * (f32x4 *)(norm_of->x + offset + i) = v[j];
    }
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim) values[i / 4] = v[j];
    barrier();
    if (thread() < THREADS) sum = squares_of(values, dim, pieces);
    float f = rsqrt32(sum_of_first(sum, scratch) / (float)dim + norm_of->eps);
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = v[j][e] * f * w[j][e];
    if (norm_of->out)
        FOR_PIECES_OF(THREADS_1024, n, j, i, dim) * (f32x4 *)(norm_of->out + offset + i) = v[j];
    prepare_1024(&a->prepare, v, order, scratch, (u64 *)values, n);
}

/* norm_1024_4 takes half of a multiprocessor's registers, so that a block of the next linear, which
 * begins to load weights early, fits beside it: linear_decode_wgmma.hip or
 * hopper/linear_decode_mma.hip. */
KERNEL(norm_1024_4, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS + 1);
    LDS(f32x4, values, PIECES_OF_norm_1024_4 * THREADS);
    norm_1024(EARLY_ARGS, 0, scratch, values, PIECES_OF_norm_1024_4);
}

KERNEL(mix_norm_1024_4, struct mix_norm_args)
{
    LDS(float, scratch, THREADS + 1);
    LDS(f32x4, values, PIECES_OF_mix_norm_1024_4 * THREADS);
    const struct mix_norm_args *a = EARLY_ARGS;
    norm_1024(&a->both, &a->mix, scratch, values, PIECES_OF_mix_norm_1024_4);
}

KERNEL(norm_1024_11, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS + 1);
    LDS(f32x4, values, PIECES_OF_norm_1024_11 * THREADS);
    norm_1024(EARLY_ARGS, 0, scratch, values, PIECES_OF_norm_1024_11);
}

KERNEL(glu_1024_14, struct glu_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_glu_1024_14));
    const struct glu_prepare_args *a = EARLY_ARGS;
    enum { PIECES = PIECES_FOR(PIECES_OF_glu_1024_14, THREADS_1024) };
    int dim = (int)a->glu.n;
    float *gate = a->glu.gate + (u64)block_x() * a->glu.n;
    const float *up = a->glu.up + (u64)block_x() * a->glu.n;
    u64 order[PIECES];
    f32x4 v[PIECES], w[PIECES];
    early_order(&a->prepare, order, PIECES, THREADS_1024);
    wait_for_producer();
    FOR_PIECES_OF(THREADS_1024, PIECES, j, i, dim)
    v[j] = *(const f32x4 *)(gate + i), w[j] = *(const f32x4 *)(up + i);
    warp_barrier(); /* keeps all loads before it: otherwise the compiler issues some of them only
                       after the first uses */
    FOR_PIECES_OF(THREADS_1024, PIECES, j, i, dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = gated(v[j][e], w[j][e], 0);
    if (a->keep) FOR_PIECES_OF(THREADS_1024, PIECES, j, i, dim) * (f32x4 *)(gate + i) = v[j];
    prepare_1024(&a->prepare, v, order, scratch, ordered, PIECES);
}

/* Combines the KV splits of four dimensions of a head, each thread by itself, in the order of
 * combine_weights() and combine_row(). source [n][size]: these dimensions of each split; scores
 * [n][size]: its maximum and sum; n: splits, up to `maximum`; sink: the head's, or NULL; factor: of
 * the sink's weight */
DEVICE f32x4 combine_four(const float *source, const float *scores, int size, int n,
                          const int maximum, const float *sink, float factor)
{
    f32x4 v = {0, 0, 0, 0}, p[ROW_SPLITS];
    f32x2 s[ROW_SPLITS];
    float max = -__builtin_inff(), sum = 0;
    UNROLL for (int i = 0; i < maximum; i++) if (i < n) s[i] = *(const f32x2 *)(scores + i * size),
                                                        p[i] = *(const f32x4 *)(source + i * size);
    if (sink) max = *sink;
    UNROLL for (int i = 0; i < maximum; i++) if (i < n) max = max32(s[i][0], max);
    if (sink) sum = exp32(*sink - max) * factor;
    UNROLL for (int i = 0; i < maximum; i++) if (i < n) s[i][0] = exp32(s[i][0] - max),
                                                        sum = fma32(s[i][0], s[i][1], sum);
    UNROLL for (int i = 0; i < maximum; i++) if (i < n) UNROLL for (int e = 0; e < 4; e++)
        v[e] = fma32(s[i][0], p[i][e], v[e]);
    float inverse = rcp32(sum);
    UNROLL for (int e = 0; e < 4; e++) v[e] = v[e] * inverse;
    return v;
}

/* Combines rows of up to `maximum` splits; addresses are computed before the wait. */
DEVICE void combine_1024(const struct combine_prepare_args *a, float *scratch, u64 *ordered,
                         const int pieces, const int maximum)
{
    const int n = PIECES_FOR(pieces, THREADS_1024);
    const struct combine_args *m = &a->combine;
    int row = block_x(), dim = a->prepare.in, hd = m->head_dim, size = part_floats(hd), first,
        splits = seen_splits(m, row, &first);
    u64 order[COMBINE_PIECES];
    u32 count[COMBINE_PIECES], scores[COMBINE_PIECES];
    f32x4 v[COMBINE_PIECES];
    early_order(&a->prepare, order, n, THREADS_1024);
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim)
    {
        u32 begin = (u32)((row * m->n_heads + i / hd) * m->n_splits + first) * (u32)size;
        count[j] = keep(begin + (u32)(i % hd));
        scores[j] = keep(begin + (u32)round8(hd));
    }
    wait_for_producer();
    FOR_PIECES_OF(THREADS_1024, n, j, i, dim)
    v[j] = combine_four(m->parts + count[j], m->parts + scores[j], size, splits, maximum,
                        m->sinks ? m->sinks + i / hd : (const float *)0, m->weight_scale);
    prepare_1024(&a->prepare, v, order, scratch, ordered, n);
}

KERNEL(combine_1024_4, struct combine_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_combine_1024_4));
    combine_1024(EARLY_ARGS, scratch, ordered, PIECES_OF_combine_1024_4, SHORT_ROW_SPLITS);
}

KERNEL(combine_1024_8, struct combine_prepare_args)
{
    LDS(float, scratch, WARP);
    LDS(u64, ordered, ORDERED(PIECES_OF_combine_1024_8));
    combine_1024(EARLY_ARGS, scratch, ordered, PIECES_OF_combine_1024_8, ROW_SPLITS);
}
