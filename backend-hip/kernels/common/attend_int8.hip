/* attend_int8.hip: attention over pages of int8 and int4 with fp32 activations, for every device:
 * decode rows as attend.hip has them for fp16 and fp32; prompt rows in a block for each (row, query
 * head), by online softmax (Milakov & Gimelshein 2018). Codes become numbers in registers; the
 * scale of a key multiplies its score, that of a value its weight. With fp16 activations rows
 * attend as exact_attend_int8.hip has it. Bits: as in attend.hip. */

/* Loads in flight together. */
enum { INT8_BATCH = 8 };

/* v in a vector register: kernels of two kinds of pages have more uniform numbers than AMD's scalar
 * registers. */
DEVICE int in_vector(int v)
{
#if defined(__AMDGCN__)
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* Shared memory of a block, and what it knows of its head. */
struct int8_block {
    float *q, *p, *scratch, *sums; /* [most dimensions], [KV_SPLIT], [THREADS], [4 THREADS] */
    u64 *pages;                    /* [KV_SPLIT / PAGE] bytes from a->pages on */
    const u8 *memory;
    int d16, quads, slices, slice, quad; /* of values: a thread has 4 dimensions of every slices-th
                                            four of positions */
    int own; /* int4: which of the split's pages is of int8, those before it are packed */
    float *plain; /* [LONG_HEAD_DIM] the query before it was transformed, for key biases; NULL */
};

DEVICE struct int8_block int8_block_of(const struct attend_kernel_args *a, float *q, float *p,
                                       float *scratch, float *sums, u64 *pages)
{
    struct int8_block b = {q, p, scratch, sums, pages, (const u8 *)a->pages, 0, 0, 0, 0, 0, 0, 0};
    b.d16 = round16(a->head_dim);
    b.quads = b.d16 / 4;
    b.slices = THREADS / b.quads;
    b.slice = thread() / b.quads;
    b.quad = thread() % b.quads;
    return b;
}

/* With key biases: the head's query back from its transform, in b->plain. offset: its element of
 * a->q */
DEVICE void plain_query(const struct attend_kernel_args *a, const struct int8_block *b, u64 offset)
{
    if (!b->plain) return;
    load_query(a, offset, b->plain, LONG_HEAD_DIM);
    hadamard_head(b->plain, a->head_dim);
}

/* Their term of position p0 + index of the split that begins at p0. */
DEVICE float bias_term(const struct attend_kernel_args *a, const struct int8_block *b, int kv_head,
                       int p0, int index)
{
    int half = in_vector(a->head_dim / 2);
    const float *row = a->bias + (u64)in_vector(kv_head) * (u64)(a->bias_pairs * BIAS_ROW),
                *turn = a->turns + (u64)in_vector(p0 / KV_SPLIT) * (u64)a->head_dim;
    float sum = 0;
    NO_UNROLL for (int k = 0; k < a->bias_pairs; k++, row += BIAS_ROW)
    {
        int d = in_vector((int)row[2 * KV_SPLIT]);
        float c = turn[2 * d], s = turn[2 * d + 1], x = b->plain[d] * c + b->plain[d + half] * s,
              y = b->plain[d + half] * c - b->plain[d] * s;
        sum = fma32(y, row[KV_SPLIT + index], fma32(x, row[index], sum));
    }
    return sum;
}

/* Looks up the pages of positions from .. to of the split that begins at p0. */
DEVICE void int8_pages_of(const struct attend_kernel_args *a, struct int8_block *b, int row,
                          int kv_head, int p0, int from, int to, const int int4)
{
    int t = thread();
    b->own = int4 ? in_vector((a->pos[row] - p0) / PAGE) : 0;
    if (t < from / PAGE || t > to / PAGE) return;
    int page = a->table[(u64)a->seq[row] * (u64)a->table_stride + (u64)(p0 / PAGE + t)];
    b->pages[t] = ((u64)page * (u64)a->n_kv_heads + (u64)kv_head) *
                  (u64)(int4 ? INT4_PAGE(a->head_dim) : INT8_PAGE(a->head_dim));
    if (int4 && t == b->own) b->pages[t] = (u64)(own_page_of(a, row, kv_head) - b->memory);
}

DEVICE const u8 *int8_page_at(const struct int8_block *b, int page)
{
    return b->memory + (long long)b->pages[page];
}

/* Whether a page of the split is packed. */
DEVICE int is_packed(const struct int8_block *b, int page, const int int4)
{
    return int4 && page < b->own;
}

/* Adds q . codes of n * 16 dimensions; key: the first 16 of them */
DEVICE void int8_add_dot(const float *q, const u8 *key, float *sum, const int n)
{
    u32x4 k[INT8_BATCH];
    UNROLL for (int j = 0; j < n; j++) k[j] = *(const u32x4 *)(key + j * PAGE * 16);
    UNROLL for (int j = 0; j < n; j++)
    {
        await_16(&k[j]); /* converted here, not ahead */
        UNROLL for (int i = 0; i < 4; i++) add_codes(k[j][i], q + 16 * j + 4 * i, sum);
    }
}

/* q . codes of a position of a page, packed or of int8. */
DEVICE float int4_key_dot(const float *q, const u8 *page, int position, int d16, int packed)
{
    float sum = 0;
    NO_UNROLL for (int d = 0; d < d16; d += 16)
    {
        u32 offset = int8_key_at(d, position);
        u32x4 k = packed ? int4_key_piece(page, offset, d, d16) : *(const u32x4 *)(page + offset);
        UNROLL for (int i = 0; i < 4; i++) add_codes(k[i], q + d + 4 * i, &sum);
    }
    return sum;
}

/* q . codes of a position; key: its first 16 dimensions */
DEVICE float int8_key_dot(const float *q, const u8 *key, int d16)
{
    float sum = 0;
    int d = 0;
    for (; d + 16 * INT8_BATCH <= d16; d += 16 * INT8_BATCH)
        int8_add_dot(q + d, key + (u32)(d * PAGE), &sum, INT8_BATCH);
    if (d + 8 * INT8_BATCH <= d16) {
        int8_add_dot(q + d, key + (u32)(d * PAGE), &sum, INT8_BATCH / 2);
        d += 8 * INT8_BATCH;
    }
    for (; d < d16; d += 16) int8_add_dot(q + d, key + (u32)(d * PAGE), &sum, 1);
    return sum;
}

/* Some of a split's fours, which are 4 neighbouring positions each: fours first .. end - 1 have
 * values of one kind of page (packed, or int8), and positions from .. to are visible. */
struct int8_fours {
    int first, end, from, to; /* end = first: there are none */
};

DEVICE struct int8_fours packed_fours_of(const struct int8_block *b, int from, int to,
                                         const int int4)
{
    int end = b->own < KV_SPLIT / PAGE ? 4 * b->own : KV_SPLIT / 4,
        last = to < 4 * end ? to : 4 * end - 1;
    return (struct int8_fours){0, int4 && from <= last ? end : 0, from, last};
}
DEVICE struct int8_fours plain_fours_of(const struct int8_block *b, int from, int to,
                                        const int int4)
{
    int first = 4 * b->own;
    if (!int4) return (struct int8_fours){0, KV_SPLIT / 4, from, to};
    return (struct int8_fours){first, to >= 4 * first ? first + 4 : first, from, to};
}

/* Loads 4 dimensions of fours number four, four + slices, .. of f; a visible four stands in for one
 * that is not. packed: the pages are packed, and int4_load_values() loads them. */
DEVICE void int8_load_values(const struct int8_block *b, const struct int8_fours *f,
                             u32x4 v[INT8_BATCH], int four, const int packed)
{
    UNROLL for (int j = 0; j < INT8_BATCH; j++)
    {
        int index = four + j * b->slices;
        index = index < f->from / 4 ? f->from / 4 : index > f->to / 4 ? f->to / 4 : index;
        const u8 *page = int8_page_at(b, index / 4);
        if (packed) v[j] = int4_load_values(page, index % 4, 4 * b->quad, b->d16);
        else v[j] = *(const u32x4 *)(page + int8_value_at(4 * b->quad, index % 4 * 4, b->d16));
    }
}

/* Adds the weighted values of the fours f of int8 pages; v has the first batch. */
DEVICE void int8_add_fours(const struct int8_block *b, const struct int8_fours *f,
                           u32x4 v[INT8_BATCH], float acc[4])
{
    for (int four = f->first + b->slice; four < f->end; four += INT8_BATCH * b->slices) {
        if (four > f->first + b->slice) int8_load_values(b, f, v, four, 0);
        UNROLL for (int j = 0; j < INT8_BATCH; j++)
        {
            int index = four + j * b->slices, valid = index < f->end;
            const f32x4 p = ((const f32x4 *)b->p)[valid ? index : 0];
            float w[4];
            UNROLL for (int i = 0; i < 4; i++) w[i] = valid ? p[i] : 0;
            await_16(&v[j]); /* converted here, not ahead */
            UNROLL for (int d = 0; d < 4; d++) add_codes(v[j][d], w, &acc[d]);
        }
    }
}

/* Adds the weighted values of positions from .. to of both kinds of pages, a four at a time. */
DEVICE void int4_add_values(const struct int8_block *b, int from, int to, float acc[4])
{
    NO_UNROLL for (int four = b->slice; b->slice < b->slices && four <= to / 4; four += b->slices)
    {
        int index = four < from / 4 ? from / 4 : four; /* a visible four in place of others */
        const u8 *page = int8_page_at(b, index / 4);
        const f32x4 p = ((const f32x4 *)b->p)[four];
        float w[4];
        u32x4 codes;
        if (index / 4 < b->own)
            codes = int4_value_piece(int4_load_values(page, index % 4, 4 * b->quad, b->d16));
        else codes = *(const u32x4 *)(page + int8_value_at(4 * b->quad, index % 4 * 4, b->d16));
        UNROLL for (int i = 0; i < 4; i++) w[i] = p[i];
        UNROLL for (int d = 0; d < 4; d++) add_codes(codes[d], w, &acc[d]);
    }
}

/* int8_first_values() loads the first values of a split of int8 into v, int8_add_values() adds all
 * of its values, beginning with v. */
DEVICE void int8_first_values(const struct int8_block *b, u32x4 v[INT8_BATCH], int from, int to,
                              const int int4)
{
    struct int8_fours plain = plain_fours_of(b, from, to, 0);
    if (!int4 && b->slice < b->slices) int8_load_values(b, &plain, v, b->slice, 0);
}

DEVICE void int8_add_values(const struct int8_block *b, u32x4 v[INT8_BATCH], int from, int to,
                            float acc[4], const int int4)
{
    struct int8_fours plain = plain_fours_of(b, from, to, 0);
    if (int4) int4_add_values(b, from, to, acc);
    else if (b->slice < b->slices) int8_add_fours(b, &plain, v, acc);
}

/* With key biases: their terms of a split's positions as p, ahead of all else, which has the
 * registers then. */
DEVICE void int8_bias_terms(const struct attend_kernel_args *a, const struct int8_block *b,
                            int kv_head, int p0)
{
    if (b->plain) b->p[thread()] = bias_term(a, b, kv_head, p0, thread());
}

/* Scores of positions of a split become p, weights times the scale of the value, 0 for
 * other positions; returns the factor of what was summed with the old *max. */
DEVICE float int8_weights(const struct attend_kernel_args *a, const struct int8_block *b, int from,
                          int to, float *max, float *sum, const int int4)
{
    int t = thread(), seen = t >= from && t <= to;
    float score = -__builtin_inff(), of_value = 0;
    if (seen) {
        const u8 *page = int8_page_at(b, t / PAGE);
        int packed = is_packed(b, t / PAGE, int4);
        const float *scales =
            (packed ? int4_scales_of(page, b->d16) : int8_scales_of(page, b->d16)) + t % PAGE;
        float of_key = scales[0];
        of_value = scales[PAGE];
        score = (int4 ? int4_key_dot(b->q, page, t % PAGE, b->d16, packed)
                      : int8_key_dot(b->q, page + t % PAGE * 16, b->d16)) *
                of_key;
        if (b->plain) score += b->p[t];
        score *= a->scale;
        if (a->softcap > 0) score = softcapped(score, a->softcap);
    }
    float larger = max32(block_max(score, b->scratch), *max), shrink = exp32(*max - larger);
    float weight = seen ? exp32(score - larger) : 0;
    b->p[t] = seen ? weight * of_value : 0;
    *sum = fma32(*sum, shrink, block_sum(weight, b->scratch));
    *max = larger;
    return shrink;
}

/* The slices' sums of dimension d, added in order. */
DEVICE float int8_sum_of_slices(const struct int8_block *b, int d)
{
    float y = 0;
    UNROLL_8 for (int s = 0; s < b->slices; s++) y += b->sums[s * b->d16 + d];
    return y;
}

DEVICE void int8_put_sums(const struct int8_block *b, const float acc[4])
{
    if (b->slice < b->slices)
        ((f32x4 *)b->sums)[b->slice * b->quads + b->quad] = (f32x4){acc[0], acc[1], acc[2], acc[3]};
    barrier();
}

/* Block (row, head, split) */
DEVICE void attend_splits_int8(const struct attend_kernel_args *a, struct int8_block *b,
                               const int int4)
{
    const struct row_split work = row_split_of(a, block_x(), block_z());
    int row = work.row, head = block_y(), p0 = work.split * KV_SPLIT, hd = a->head_dim,
        d8 = round8(hd);
    int kv_head = head / (a->n_heads / a->n_kv_heads), pos = a->pos[row],
        first = first_seen(pos, a->window);
    if (p0 > pos || p0 + KV_SPLIT <= first) return;
    int from = first > p0 ? first - p0 : 0, to = pos - p0 < KV_SPLIT - 1 ? pos - p0 : KV_SPLIT - 1;
    u64 of_row = (u64)row * (u64)a->n_heads + (u64)head;
    float *part = a->parts + (of_row * (u64)a->n_splits + (u64)work.split) * (u64)part_floats(hd);
    float max = -__builtin_inff(), sum = 0, acc[4] = {0, 0, 0, 0};
    u32x4 v[INT8_BATCH]; /* the first values are loaded with the keys */
    load_query(a, of_row * (u64)hd, b->q, LONG_HEAD_DIM);
    plain_query(a, b, of_row * (u64)hd);
    int8_bias_terms(a, b, kv_head, p0);
    int8_pages_of(a, b, row, kv_head, p0, from, to, int4);
    barrier();
    int8_first_values(b, v, from, to, int4);
    int8_weights(a, b, from, to, &max, &sum, int4);
    int8_add_values(b, v, from, to, acc, int4);
    int8_put_sums(b, acc);
    for (int d = thread(); d < d8; d += THREADS) part[d] = int8_sum_of_slices(b, d);
    if (thread() == 0) part[d8] = max, part[d8 + 1] = sum;
}

/* Block (row, head) */
DEVICE void attend_rows_int8(const struct attend_kernel_args *a, struct int8_block *b,
                             const int int4)
{
    int row = block_x(), head = block_y(), hd = a->head_dim,
        kv_head = head / (a->n_heads / a->n_kv_heads), pos = a->pos[row],
        first = first_seen(pos, a->window);
    if (b->plain) hd = in_vector(hd), kv_head = in_vector(kv_head), first = in_vector(first);
    u64 offset = ((u64)row * (u64)a->n_heads + (u64)head) * (u64)hd;
    float max = -__builtin_inff(), sum = 0, acc[4] = {0, 0, 0, 0};
    load_query(a, offset, b->q, LONG_HEAD_DIM);
    plain_query(a, b, offset);
    for (int p0 = first / KV_SPLIT * KV_SPLIT; p0 <= pos; p0 += KV_SPLIT) {
        int from = first > p0 ? first - p0 : 0,
            to = pos - p0 < KV_SPLIT - 1 ? pos - p0 : KV_SPLIT - 1;
        u32x4 v[INT8_BATCH];
        barrier();
        int8_bias_terms(a, b, kv_head, p0);
        int8_pages_of(a, b, row, kv_head, p0, from, to, int4);
        barrier();
        int8_first_values(b, v, from, to, int4);
        float shrink = int8_weights(a, b, from, to, &max, &sum, int4);
        UNROLL for (int d = 0; d < 4; d++) acc[d] *= shrink;
        int8_add_values(b, v, from, to, acc, int4);
    }
    int8_put_sums(b, acc);
    float inverse = a->sinks ? inverse_with_sink(sum, max, a->sinks[head], 1) : rcp32(sum);
    for (int d = thread(); d < hd; d += THREADS)
        a->out[offset + (u64)d] = int8_sum_of_slices(b, d) * inverse;
}

#define ATTEND_INT8(name, function, int4)                                                          \
    KERNEL(name, struct attend_kernel_args)                                                        \
    {                                                                                              \
        LDS(float, q, LONG_HEAD_DIM);                                                              \
        LDS(f32x4, p, KV_SPLIT / 4);                                                               \
        LDS(float, scratch, THREADS);                                                              \
        LDS(f32x4, sums, THREADS);                                                                 \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        const struct attend_kernel_args *a = ARGS;                                                 \
        struct int8_block b = int8_block_of(a, q, (float *)p, scratch, (float *)sums, pages);      \
        if (int4) b.d16 = in_vector(b.d16), b.quads = in_vector(b.quads);                          \
        if (int4) b.slices = in_vector(b.slices);                                                  \
        function(a, &b, int4);                                                                     \
    }
ATTEND_INT8(attend_int8, attend_rows_int8, 0)
ATTEND_INT8(attend_int4, attend_rows_int8, 1)
ATTEND_INT8(attend_split_int8, attend_splits_int8, 0)
ATTEND_INT8(attend_split_int4, attend_splits_int8, 1)
#undef ATTEND_INT8

/* The same with key biases. */
#define ATTEND_BIASED(name, function, int4)                                                        \
    KERNEL(name, struct attend_kernel_args)                                                        \
    {                                                                                              \
        LDS(float, q, LONG_HEAD_DIM);                                                              \
        LDS(float, plain, LONG_HEAD_DIM);                                                          \
        LDS(f32x4, p, KV_SPLIT / 4);                                                               \
        LDS(float, scratch, THREADS);                                                              \
        LDS(f32x4, sums, THREADS);                                                                 \
        LDS(u64, pages, KV_SPLIT / PAGE);                                                          \
        const struct attend_kernel_args *a = ARGS;                                                 \
        struct int8_block b = int8_block_of(a, q, (float *)p, scratch, (float *)sums, pages);      \
        b.plain = plain;                                                                           \
        if (int4) b.d16 = in_vector(b.d16), b.quads = in_vector(b.quads);                          \
        if (int4) b.slices = in_vector(b.slices);                                                  \
        function(a, &b, int4);                                                                     \
    }
ATTEND_BIASED(attend_biased_int8, attend_rows_int8, 0)
ATTEND_BIASED(attend_biased_int4, attend_rows_int8, 1)
ATTEND_BIASED(attend_split_biased, attend_splits_int8, a->open.own != 0)
#undef ATTEND_BIASED
