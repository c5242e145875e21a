/* attend.hip: attention of decode rows over pages of fp16 and fp32, for every device:
 * flash-decoding (Dao et al. 2023), a block for each (row, head, KV split of KV_SPLIT positions),
 * then a combination of the splits. Prompt rows: exact_attend.hip.
 * Bits: splits begin at absolute multiples of KV_SPLIT and are combined in order, so a row's result
 * does not depend on the batch. */

/* The first position that a row at pos attends to (OP_ATTEND, core/step/op.h) */
DEVICE int first_seen(int pos, int window)
{
    if (window < 0) return pos - pos % -window;
    return window && pos - window + 1 > 0 ? pos - window + 1 : 0;
}

/* 8 neighbouring numbers of a page, as they are in memory. */
struct eight {
    u32x4 lo, hi; /* hi: fp32 only */
};

DEVICE struct eight load_eight(const void *pages, u64 offset, const int f32)
{
    struct eight v;
    v.lo = f32 ? *(const u32x4 *)((const float *)pages + offset)
               : *(const u32x4 *)((const f16 *)pages + offset);
    v.hi = f32 ? *(const u32x4 *)((const float *)pages + offset + 4) : v.lo;
    return v;
}

DEVICE float element(const struct eight *v, int i, const int f32)
{
    if (f32) return f32_of(i < 4 ? v->lo[i] : v->hi[i - 4]);
    return (float)pair_of(v->lo[i / 2])[i % 2];
}

/* Loads in flight together; a quarter for fp32, whose loads are twice as long, to save
 * registers. */
enum { BATCH = 16 };
#define BATCH_OF(f32) ((f32) ? BATCH / 4 : BATCH)

/* q . k of one position; key points to its first 8 dimensions. */
DEVICE float key_dot(const float *q, const void *pages, u64 key, int d8, const int f32)
{
    const int batch = BATCH_OF(f32);
    float sum = 0;
    int d = 0;
    for (; d + 8 * batch <= d8; d += 8 * batch) {
        struct eight k[BATCH];
        UNROLL for (int j = 0; j < batch; j++)
            k[j] = load_eight(pages, key + (u64)((d / 8 + j) * PAGE * 8), f32);
        UNROLL for (int j = 0; j < batch; j++) UNROLL for (int i = 0; i < 8; i++)
            sum = fma32(q[d + 8 * j + i], element(&k[j], i, f32), sum);
    }
    for (; d < d8; d += 8) {
        struct eight k = load_eight(pages, key + (u64)(d / 8 * PAGE * 8), f32);
        UNROLL for (int i = 0; i < 8; i++) sum = fma32(q[d + i], element(&k, i, f32), sum);
    }
    return sum;
}

/* The inverse of a sum of weights e^(score - max) * factor with the weight of a sink, for totals
 * that are relative to max. */
DEVICE float inverse_with_sink(float sum, float max, float sink, float factor)
{
    float larger = max32(sink, max), shrink = exp32(max - larger);
    return shrink * rcp32(fma32(sum, shrink, exp32(sink - larger) * factor));
}

/* Loads a head's query, zeros up to `maximum`. */
DEVICE void load_query(const struct attend_kernel_args *a, u64 offset, float *q, const int maximum)
{
    UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS)
        q[d] = d < a->head_dim ? a->q[offset + (u64)d] : 0;
}

/* Floats of a partial result, of one head and split: weighted sums of values [head_dim rounded up
 * to 8], maximum, sum of weights. */
DEVICE int part_floats(int head_dim) { return round8(head_dim) + 8; }

/* Loads 8 dimensions from d on of positions i, i + slices, .. of a split; a visible position
 * replaces one that is not visible. */
DEVICE void load_values(const void *memory, const u64 *pages, struct eight v[BATCH], int i,
                        int slices, int from, int to, int d, int d8, const int f32)
{
    UNROLL for (int b = 0; b < BATCH_OF(f32); b++)
    {
        int index = i + b * slices < from ? from : i + b * slices > to ? to : i + b * slices;
        v[b] = load_eight(memory, pages[index / PAGE] + (u64)(PAGE * d8 + index % PAGE * d8 + d),
                          f32);
    }
}

struct row_split {
    int row, split;
};

/* The row and split of block `index` of a head: from the work list, or row `index` and split `z`
 * without one. */
DEVICE struct row_split row_split_of(const struct attend_kernel_args *a, int index, int z)
{
    if (!a->work) return (struct row_split){index, z};
    return (struct row_split){a->work[index] >> 16, a->work[index] & 0xffff};
}

/* Decode rows. Block (row, head, split): thread t has the score of position t of the split; then
 * thread (slice, octet) sums 8 dimensions of the values over positions slice, slice + slices, ..,
 * and the slices are added in order. Positions that are not visible have weight 0; a visible one is
 * read in their place. maximum: dimensions; q[maximum], sums[8 THREADS], pages[KV_SPLIT / PAGE] */
DEVICE void attend_split(const struct attend_kernel_args *a, float *q, float *p, float *scratch,
                         float *sums, u64 *pages, const int f32, const int maximum)
{
    const struct row_split work = row_split_of(a, block_x(), block_z());
    int row = work.row, head = block_y(), p0 = work.split * KV_SPLIT, t = thread(),
        hd = a->head_dim, d8 = round8(hd);
    int kv_head = head / (a->n_heads / a->n_kv_heads), pos = a->pos[row],
        first = first_seen(pos, a->window);
    int octets = d8 / 8, slices = THREADS / octets, slice = t / octets, d = t % octets * 8;
    if (p0 > pos || p0 + KV_SPLIT <= first) return;
    int from = first > p0 ? first - p0 : 0, to = pos - p0 < KV_SPLIT - 1 ? pos - p0 : KV_SPLIT - 1,
        seen = t >= from && t <= to;
    float *part = a->parts +
                  (((u64)row * (u64)a->n_heads + (u64)head) * (u64)a->n_splits + (u64)work.split) *
                      (u64)part_floats(hd);
    load_query(a, ((u64)row * (u64)a->n_heads + (u64)head) * (u64)hd, q, maximum);
    if (t >= from / PAGE && t <= to / PAGE) {
        int page = a->table[(u64)a->seq[row] * (u64)a->table_stride + (u64)(p0 / PAGE + t)];
        pages[t] = ((u64)page * (u64)a->n_kv_heads + (u64)kv_head) * head_page(hd);
    }
    barrier();
    struct eight v[BATCH]; /* the first values are loaded with the keys */
    if (slice < slices) load_values(a->pages, pages, v, slice, slices, from, to, d, d8, f32);
    float score = -__builtin_inff(), acc[8];
    if (seen) {
        score = key_dot(q, a->pages, pages[t / PAGE] + (u64)(t % PAGE * 8), d8, f32) * a->scale;
        if (a->softcap > 0) score = softcapped(score, a->softcap);
    }
    float max = block_max(score, scratch), weight = seen ? exp32(score - max) : 0;
    p[t] = weight;
    float sum = block_sum(weight, scratch);
    UNROLL for (int j = 0; j < 8; j++) acc[j] = 0;
    if (slice < slices) {
        for (int i = slice; i < KV_SPLIT; i += BATCH_OF(f32) * slices) {
            if (i > slice) load_values(a->pages, pages, v, i, slices, from, to, d, d8, f32);
            UNROLL for (int b = 0; b < BATCH_OF(f32); b++)
            {
                float w = i + b * slices < KV_SPLIT ? p[i + b * slices] : 0;
                UNROLL for (int j = 0; j < 8; j++)
                    acc[j] = fma32(w, element(&v[b], j, f32), acc[j]);
            }
        }
        UNROLL for (int j = 0; j < 8; j++) sums[slice * d8 + d + j] = acc[j];
    }
    barrier();
    UNROLL for (int j = 0, i = t; j < maximum / THREADS; j++, i += THREADS)
    {
        float y = 0;
        if (i >= d8) continue;
        UNROLL_8 for (int s = 0; s < slices; s++) y += sums[s * d8 + i];
        part[i] = y;
    }
    if (t == 0) part[d8] = max, part[d8 + 1] = sum;
}

#define ATTEND_SPLIT(name, f32, maximum)                                                           \
    KERNEL(name, struct attend_kernel_args)                                                        \
    {                                                                                              \
        LDS(float, q, maximum);                                                                    \
        LDS(float, p, KV_SPLIT);                                                                   \
        LDS(float, scratch, THREADS);                                                              \
        LDS(float, sums, 8 * THREADS);                                                             \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        attend_split(ARGS, q, p, scratch, sums, pages, f32, maximum);                              \
    }
ATTEND_SPLIT(attend_split_f16, 0, GPU_HEAD_DIM)
ATTEND_SPLIT(attend_split_f32, 1, GPU_HEAD_DIM)
ATTEND_SPLIT(attend_split_f16_512, 0, LONG_HEAD_DIM)
ATTEND_SPLIT(attend_split_f32_512, 1, LONG_HEAD_DIM)
#undef ATTEND_SPLIT

/* Weights of n splits of the heads from head0 on of a row: weights[head][n + 1] = e^(maximum of the
 * split - maximum of all, a sink too), then the inverse of the sum. parts: of head0; sums[heads *
 * n] */
DEVICE void combine_weights(const struct combine_args *m, const float *parts, float *weights,
                            float *sums, int head0, int heads, int n)
{
    int d8 = round8(m->head_dim), size = part_floats(m->head_dim);
    u64 head_floats = (u64)m->n_splits * (u64)size;
    const float *sinks = m->sinks ? m->sinks + head0 : (const float *)0;
    int t = thread();
    for (int i = t; i < heads * n; i += THREADS) {
        const float *source = parts + (u64)(i / n) * head_floats + (u64)(i % n * size + d8);
        weights[i / n * (n + 1) + i % n] = source[0];
        sums[i] = source[1];
    }
    barrier();
    for (int h = t; h < heads; h += THREADS) {
        float *w = weights + h * (n + 1), max = sinks ? sinks[h] : -__builtin_inff();
        UNROLL_8 for (int i = 0; i < n; i++) max = max32(w[i], max);
        w[n] = max;
    }
    barrier();
    for (int i = t; i < heads * n; i += THREADS) {
        float *w = weights + i / n * (n + 1);
        w[i % n] = exp32(w[i % n] - w[n]);
    }
    barrier();
    for (int h = t; h < heads; h += THREADS) {
        float *w = weights + h * (n + 1),
              sum = sinks ? exp32(sinks[h] - w[n]) * m->weight_scale : 0;
        UNROLL_8 for (int i = 0; i < n; i++) sum = fma32(w[i], sums[h * n + i], sum);
        w[n] = rcp32(sum);
    }
    barrier();
}

/* Returns the number of visible splits of a row; *first: the first of them. */
DEVICE int seen_splits(const struct combine_args *m, int row, int *first)
{
    int pos = m->pos[row];
    *first = first_seen(pos, m->window) / KV_SPLIT;
    return pos / KV_SPLIT + 1 - *first;
}

/* Block (row, head): COMBINE_SPLITS splits in order are a group, and groups are added in order:
 * thread (slice, d) has dimension d of groups slice, slice + slices, .. */
KERNEL(attend_combine, struct combine_args)
{
    LDS(float, weights, COMBINE_WEIGHTS);
    LDS(float, sums, COMBINE_WEIGHTS);
    LDS(float, group, THREADS);
    const struct combine_args *m = ARGS;
    int row = block_x(), head = block_y(), hd = m->head_dim, d8 = round8(hd),
        size = part_floats(hd), first, n = seen_splits(m, row, &first);
    int slices = THREADS / d8, slice = thread() / d8, d = thread() % d8;
    const float *parts =
        m->parts +
        (((u64)row * (u64)m->n_heads + (u64)head) * (u64)m->n_splits + (u64)first) * (u64)size;
    float y = 0;
    combine_weights(m, parts, weights, sums, head, 1, n);
    for (int s0 = 0; s0 < n; s0 += slices * COMBINE_SPLITS) {
        float count = 0;
        int index = s0 + slice * COMBINE_SPLITS;
        if (slice < slices)
            UNROLL_8 for (int s = index; s < n && s < index + COMBINE_SPLITS; s++)
                count = fma32(weights[s], parts[(u64)(s * size + d)], count);
        group[thread()] = count;
        barrier();
        for (int i = 0; slice == 0 && i < slices && s0 + i * COMBINE_SPLITS < n; i++)
            y = s0 + i ? y + group[i * d8 + d] : group[d];
        barrier();
    }
    if (slice || d >= hd) return;
    u64 to = ((u64)row * (u64)m->n_heads + (u64)head) * (u64)hd + (u64)d;
    if (m->gate) m->gate[to] = sigmoid32(m->gate[to]) * (y * weights[n]);
    else m->out[to] = y * weights[n];
}

/* attend_combine for heads of more than THREADS dimensions: thread t has dimensions t, t + THREADS,
 * .. */
KERNEL(attend_combine_512, struct combine_args)
{
    LDS(float, weights, COMBINE_WEIGHTS);
    LDS(float, sums, COMBINE_WEIGHTS);
    const struct combine_args *m = ARGS;
    int row = block_x(), head = block_y(), hd = m->head_dim, size = part_floats(hd), first,
        n = seen_splits(m, row, &first);
    u64 of_row = (u64)row * (u64)m->n_heads + (u64)head;
    const float *parts = m->parts + (of_row * (u64)m->n_splits + (u64)first) * (u64)size;
    combine_weights(m, parts, weights, sums, head, 1, n);
    for (int d = thread(); d < hd; d += THREADS) {
        float y = 0;
        for (int s0 = 0; s0 < n; s0 += COMBINE_SPLITS) {
            float count = 0;
            UNROLL_8 for (int s = s0; s < n && s < s0 + COMBINE_SPLITS; s++)
                count = fma32(weights[s], parts[(u64)(s * size + d)], count);
            y = s0 ? y + count : count;
        }
        m->out[of_row * (u64)hd + (u64)d] = y * weights[n];
    }
}

/* Combines all heads of a row of up to COMBINE_PIECES pieces; weights, sums: splits + 1 for each
 * head */
DEVICE void combine_row(const struct combine_args *m, int row, float *weights, float *sums,
                        f32x4 v[COMBINE_PIECES])
{
    int hd = m->head_dim, dim = m->n_heads * hd, size = part_floats(hd), first,
        n = seen_splits(m, row, &first);
    u64 head_floats = (u64)m->n_splits * (u64)size;
    const float *parts = m->parts + (u64)row * (u64)m->n_heads * head_floats + (u64)(first * size);
    combine_weights(m, parts, weights, sums, 0, m->n_heads, n);
    FOR_PIECES(COMBINE_PIECES, j, i, dim) v[j] = (f32x4){0, 0, 0, 0};
    for (int s = 0; s < n; s++) {
        f32x4 p[COMBINE_PIECES];
        FOR_PIECES(COMBINE_PIECES, j, i, dim)
        p[j] = *(const f32x4 *)(parts + (u64)(i / hd) * head_floats + (u64)(s * size + i % hd));
        FOR_PIECES(COMBINE_PIECES, j, i, dim)
        UNROLL for (int e = 0; e < 4; e++)
            v[j][e] = fma32(weights[i / hd * (n + 1) + s], p[j][e], v[j][e]);
    }
    FOR_PIECES(COMBINE_PIECES, j, i, dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = v[j][e] * weights[i / hd * (n + 1) + n];
}

/* Combination and preparation of a row of up to COMBINE_SPLITS splits and COMBINE_WEIGHTS /
 * (COMBINE_SPLITS + 1) heads. */
DEVICE void combine_prepared(const struct combine_prepare_args *a, float *weights, float *sums,
                             u64 *ordered)
{
    int row = block_x(), dim = a->combine.n_heads * a->combine.head_dim,
        fits = fits_pieces(&a->prepare, COMBINE_PIECES);
    f32x4 v[COMBINE_PIECES];
    u64 order[COMBINE_PIECES];
    if (ordered) early_order(&a->prepare, order, COMBINE_PIECES, THREADS);
    wait_for_producer();
    combine_row(&a->combine, row, weights, sums, v);
    if (!fits)
        FOR_PIECES(COMBINE_PIECES, j, i, dim) *
            (f32x4 *)(a->combine.out + (u64)row * (u64)dim + (u64)i) = v[j];
    barrier();
    if (fits) prepare_pieces(&a->prepare, row, v, order, weights, ordered, COMBINE_PIECES);
    else prepare_row(&a->prepare, a->prepare.x + (u64)row * (u64)a->prepare.in, row, weights);
}

KERNEL(combine_prepare, struct combine_prepare_args)
{
    LDS(float, weights, COMBINE_WEIGHTS);
    LDS(float, sums, COMBINE_WEIGHTS);
    combine_prepared(EARLY_ARGS, weights, sums, 0);
}

/* combine_prepare for permuted rows. It is a kernel of its own, because the additional shared
 * memory and registers slow down steps of few rows. */
KERNEL(combine_prepare_ordered, struct combine_prepare_args)
{
    LDS(float, weights, COMBINE_WEIGHTS);
    LDS(u64, ordered, ORDERED(COMBINE_PIECES)); /* holds the sums before the row: COMBINE_WEIGHTS
                                                   floats fit */
    combine_prepared(EARLY_ARGS, weights, (float *)ordered, ordered);
}
