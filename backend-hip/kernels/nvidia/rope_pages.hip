/* rope_pages.hip: rotation of prompt rows and storage of their keys and values in pages of int8 and
 * int4, a page at a time, which is put together in shared memory; a full page of int4 is packed,
 * too. The same bits as rope_store_int8 and, in the CPU's order, as exact_rope_octets.
 *   grid    (pages of all groups of rows, ROPE_GROUP_PAGES to a group; heads)
 *   block   the rows that a group has of one page, 16 / lanes heads
 *   lanes   4, 8 or 16 neighbouring threads have a head of a row: lane i has four dimensions from
 *           4i on of each quarter of it, so both of a rotation, and lanes share lines of memory
 * Must not know: attention. */

/* What a thread has of a head. */
struct rope_part {
    int lane, at, head; /* at: position in the page; head: number among all heads, those of keys
                           behind those of queries */
    int is_key, there;
    u64 row, from; /* from: the first element of its head in q or k */
};

/* The sum of the squares of a head, 16 of which each of its lanes has, in the order of
 * rope_head(). */
DEVICE float sum_of_quarters(const f32x4 v[4], const int lanes)
{
    f32x4 sum = v[0] * v[0] + v[2] * v[2] + (v[1] * v[1] + v[3] * v[3]);
    UNROLL for (int apart = lanes / 2; apart; apart /= 2) UNROLL for (int e = 0; e < 4; e++)
        sum[e] += f32_of(shuffle_xor(bits_of(sum[e]), apart));
    return sum[0] + sum[2] + (sum[1] + sum[3]);
}

/* sum_of_quarters() in the CPU's order: lane l of 16 has dimensions l, l + 16, .., and lanes are
 * folded 8, 4, 2, 1. */
DEVICE float exact_sum_of_quarters(const f32x4 v[4], int lane, const int lanes)
{
    f32x4 sum = {0, 0, 0, 0};
    int first = thread() % WARP - lane + lane % 4;
    UNROLL for (int k = 0; k < 4; k++) UNROLL for (int four = 0; four < lanes; four += 4)
        UNROLL for (int e = 0; e < 4; e++)
    {
        float square = v[k][e] * v[k][e];
        sum[e] += lanes == 4 ? square : shuffle_from(square, first + four);
    }
    UNROLL for (int apart = 2; apart; apart /= 2) UNROLL for (int e = 0; e < 4; e++)
        sum[e] += f32_of(shuffle_xor(bits_of(sum[e]), apart));
    return sum[0] + sum[2] + (sum[1] + sum[3]);
}

/* Norms (where there are weights) and rotates a part of a head. */
DEVICE void rotate_part(const struct rope_pages_args *b, const struct rope_part *r, f32x4 v[4],
                        const int lanes)
{
    const struct rope_kernel_args *a = &b->rope;
    const int hd = 16 * lanes, quarter = 4 * lanes;
    const float *weight = r->is_key ? a->k_norm : a->q_norm;
    if (a->q_norm || a->k_norm) {
        float f;
        if (b->exact)
            f = 1.0f / exact_sqrt(exact_sum_of_quarters(v, r->lane, lanes) / (float)hd + a->eps);
        else f = rsqrt32(sum_of_quarters(v, lanes) / (float)hd + a->eps);
        if (weight)
            UNROLL for (int k = 0; k < 4; k++)
                v[k] = v[k] * (f32x4){f, f, f, f} *
                       *(const f32x4 *)(weight + 4 * r->lane + quarter * k);
    }
    UNROLL for (int k = 0; k < 2; k++)
    {
        u64 offset = r->row * (u64)(hd / 2) + (u64)(4 * r->lane + quarter * k);
        f32x4 c = *(const f32x4 *)(a->cos + offset), s = *(const f32x4 *)(a->sin + offset),
              low = v[k], high = v[k + 2];
        UNROLL for (int e = 0; e < 4; e++)
        {
            float of_high = -high[e] * s[e], of_low = low[e] * s[e];
            v[k][e] = b->exact ? low[e] * c[e] + of_high : fma32(low[e], c[e], of_high);
            v[k + 2][e] = b->exact ? high[e] * c[e] + of_low : fma32(high[e], c[e], of_low);
        }
    }
}

/* The Hadamard transform of a head: dimensions 1, 2, 4, .. apart. */
DEVICE void transform_part(f32x4 v[4], const int lanes)
{
    UNROLL for (int k = 0; k < 4; k++)
        UNROLL for (int apart = 1; apart < 4; apart *= 2) hadamard_step((float *)&v[k], 4, apart);
    UNROLL for (int apart = 1; apart < lanes; apart *= 2) UNROLL for (int k = 0; k < 4; k++)
        UNROLL for (int e = 0; e < 4; e++)
    {
        float other = f32_of(shuffle_xor(bits_of(v[k][e]), apart));
        v[k][e] = thread() & apart ? other - v[k][e] : v[k][e] + other;
    }
    UNROLL for (int apart = 1; apart < 4; apart *= 2) UNROLL for (int k = 0; k < 4; k++)
        if (!(k & apart))
    {
        f32x4 low = v[k], high = v[k + apart];
        v[k] = low + high;
        v[k + apart] = low - high;
    }
}

/* Writes the codes of a part of a key (`of` 0) or a value (1) to the page in shared memory. */
DEVICE void put_part(u8 *page, const struct rope_part *r, const f32x4 v[4], const int count,
                     const int lanes)
{
    const int hd = 16 * lanes, quarter = 4 * lanes;
    int maximum = 0;
    UNROLL for (int k = 0; k < 4; k++) UNROLL for (int e = 0; e < 4; e++)
        maximum = larger_bits(v[k][e], maximum);
    struct int_scale s = int_scale_of(most_of_lanes(maximum, lanes), 127);
    if (!r->there) return;
    UNROLL for (int k = 0; k < 4; k++)
    {
        int code[4], d = 4 * r->lane + quarter * k;
        UNROLL for (int e = 0; e < 4; e++) code[e] = rounded_int(v[k][e], s.inverse);
        if (count == 0) *(u32 *)(page + int8_key_at(d, r->at)) = int8_bytes(code);
        else UNROLL for (int e = 0; e < 4; e++) page[int8_value_at(d + e, r->at, hd)] = (u8)code[e];
    }
    if (r->lane == 0) int8_scales(page, hd)[count * PAGE + r->at] = s.scale;
}

/* Copies positions begin .. end - 1 of a page; all threads of the block take part. */
DEVICE void copy_page(u8 *to, const u8 *from, int begin, int end, const int hd)
{
    const int pieces = INT8_PAGE(hd) / 16;
    if (end - begin == PAGE) {
        for (int i = thread(); i < pieces; i += THREADS)
            ((u32x4 *)to)[i] = ((const u32x4 *)from)[i];
        return;
    }
    for (int i = thread(); i < hd; i += THREADS)
        if (i % PAGE >= begin && i % PAGE < end) ((u32x4 *)to)[i] = ((const u32x4 *)from)[i];
    for (int i = thread(); i < 4 * hd; i += THREADS) {
        u32 offset = (u32)(PAGE * hd + 4 * i);
        UNROLL for (int p = 0; p < 4; p++) if (i / hd * 4 + p >= begin && i / hd * 4 + p < end)
            to[offset + p] = from[offset + p];
    }
    for (int i = thread(); i < 2 * PAGE; i += THREADS)
        if (i % PAGE >= begin && i % PAGE < end)
            int8_scales(to, hd)[i] = int8_scales_of(from, hd)[i];
}

/* pages: int8 pages of the block's heads in shared memory; packed: the same pages in int4 */
DEVICE void rope_page(const struct rope_pages_args *b, u8 *pages, u8 *packed, const int lanes)
{
    const struct rope_kernel_args *a = &b->rope;
    const int hd = 16 * lanes, quarter = 4 * lanes, of_block = THREADS / lanes / PAGE;
    const int *group = b->tiles + block_x() / ROPE_GROUP_PAGES * 2;
    int row0 = group[0], n = group[1], pos0 = b->pos[row0], t = thread(),
        p0 = (pos0 / PAGE + block_x() % ROPE_GROUP_PAGES) * PAGE,
        begin = p0 > pos0 ? 0 : pos0 - p0, end = pos0 + n - p0;
    if (end > PAGE) end = PAGE;
    wait_for_producer(); /* for the rows; tiles and positions are made once a step */
    if (end <= begin) return;
    int head0 = block_y() * of_block, stored = a->n_kv_heads && head0 + of_block > a->n_heads;
    struct rope_part r = {t % lanes, t / lanes % PAGE, head0 + t / lanes / PAGE, 0, 0, 0, 0};
    int head = r.head - a->n_heads;
    r.is_key = head >= 0;
    if (!r.is_key) head = r.head;
    r.there = r.at >= begin && r.at < end && r.head < a->n_heads + a->n_kv_heads;
    r.row = (u64)(row0 + p0 + r.at - pos0);
    r.from = (r.row * (u64)(r.is_key ? a->n_kv_heads : a->n_heads) + (u64)head) * (u64)hd +
             (u64)(4 * r.lane);
    f32x4 v[4], value[4];
    UNROLL for (int k = 0; k < 4; k++)
    {
        v[k] = value[k] = (f32x4){0, 0, 0, 0};
        if (!r.there) continue;
        v[k] = *(const f32x4 *)((r.is_key ? a->k : a->q) + r.from + quarter * k);
        if (r.is_key) value[k] = *(const f32x4 *)(a->v + r.from + quarter * k);
    }
    if (!r.there) r.row = (u64)row0;
    rotate_part(b, &r, v, lanes);
    transform_part(v, lanes);
    if (r.there && !r.is_key) {
        const float f = 1.0f / (float)hd;
        UNROLL for (int k = 0; k < 4; k++)
            *(f32x4 *)(a->q + r.from + quarter * k) = v[k] * (f32x4){f, f, f, f};
    }
    if (!stored) return;
    u8 *own = pages + t / lanes / PAGE * INT8_PAGE(hd);
    struct rope_part key = r;
    key.there = r.there && r.is_key;
    put_part(own, &key, v, 0, lanes);
    put_part(own, &key, value, 1, lanes);
    barrier();
    int row = row0 + p0 + begin - pos0, slot = a->slot[row], full = end - begin == PAGE;
    UNROLL for (int i = 0; i < of_block; i++)
    {
        int h = head0 + i - a->n_heads;
        if (h >= 0 && h < a->n_kv_heads)
            copy_page(stored_page(a, row, slot, h), pages + i * INT8_PAGE(hd), begin, end, hd);
    }
    if (a->kv != PAGE_INT4 || !full) return;
    for (int i = t; i < of_block * hd; i += THREADS)
        int4_pack_part(pages + i / hd * INT8_PAGE(hd), packed + i / hd * INT4_PAGE(hd), i % hd, hd);
    barrier();
    const int pieces = INT4_PAGE(hd) / 16;
    for (int i = t; i < of_block * pieces; i += THREADS) {
        int h = head0 + i / pieces - a->n_heads;
        if (h >= 0 && h < a->n_kv_heads)
            ((u32x4 *)((u8 *)a->pages +
                       ((u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)h) * INT4_PAGE(hd)))
                [i % pieces] = ((const u32x4 *)packed)[i];
    }
}

#define ROPE_PAGES(name, lanes)                                                                    \
    KERNEL(name, struct rope_pages_args)                                                           \
    {                                                                                              \
        LDS(u32x4, pages, THREADS / (lanes) / PAGE * INT8_PAGE(16 * (lanes)) / 16);                \
        LDS(u32x4, packed, THREADS / (lanes) / PAGE * INT4_PAGE(16 * (lanes)) / 16);               \
        rope_page(EARLY_ARGS, (u8 *)pages, (u8 *)packed, lanes);                                   \
    }
ROPE_PAGES(rope_pages_64, 4)
ROPE_PAGES(rope_pages_128, 8)
ROPE_PAGES(rope_pages_256, 16)
#undef ROPE_PAGES
