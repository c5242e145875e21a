/* attend_chunk.hip: attention of decode rows over pages of int8 and int4, by mma of signed bytes on
 * sm_80 and sm_90a, in the order of the CPU backend (common/exact_attend_int8.hip says it). A block
 * has a chunk, the KV_SPLIT positions of a split, and up to 8 query heads of a KV head.
 *   memory    a warp copies two pages to shared memory. Pages have 32 bytes between them, so that
 *             lanes that read the same place of four of them share no bank
 *   scores    of a warp's own pages: keys as they lie are operand a; column 2h + d of operand b is
 *             digit d of the query of head h
 *   weights   a thread is a position
 *   values    a warp has 64 dimensions and a share of the positions: values as they lie are operand
 *             a, of four pages at a time; column 2h + d is digit d of the weights of head h
 *   int4      codes become signed bytes in registers; the row's own page, which is of int8, is
 *             behind the others
 * With a->cos and a->k the block rotates the queries, and the row's own key, which it stores with
 * the value; int4: in the own page, which it packs if the row is its last. */

enum { CHUNK_PAGES = KV_SPLIT / PAGE, CHUNK_HEADS = 8, CHUNK_WARPS = THREADS / 32 };

/* The work of a block. */
struct chunk_work {
    int row, split, kv_head, head0, heads;
    int pos, first, c0; /* visible positions are first .. pos; the chunk's first position */
    int from, to;       /* pages of the chunk with visible positions */
    int own;            /* int4: the number of the row's own page, of int8; -1: another chunk has
                           it */
};

/* Shared memory of a block; see CHUNK_SHARED. */
struct chunk_lds {
    u8 *pages;         /* [CHUNK_PAGES], CHUNK_STRIDE apart; keys make way for scores and weights
                          [head][position] */
    u8 *own;           /* int4: the own page */
    u8 *digits;        /* queries [2h + d][dims + 16], then weights [page][2h + d][PAGE] */
    float *query;      /* [CHUNK_HEADS] scales */
    u32 *largest;      /* [CHUNK_HEADS][CHUNK_WARPS] scores, ordered as integers */
    u32 *most;         /* [CHUNK_HEADS][CHUNK_WARPS] the largest weight times its value's scale, as
                          bits */
    float *max, *unit; /* [CHUNK_HEADS] the largest score, the scale of the weights' integers */
};

/* heads: query heads of a block, at most */
DEVICE struct chunk_work chunk_work_of(const struct attend_kernel_args *a, const int int4,
                                       const int heads)
{
    struct chunk_work w;
    int of_kv = a->n_heads / a->n_kv_heads, groups = (of_kv + heads - 1) / heads,
        group = block_x() % groups;
    w.kv_head = block_x() / groups;
    w.head0 = w.kv_head * of_kv + group * heads;
    w.heads = of_kv - group * heads < heads ? of_kv - group * heads : heads;
    const struct row_split work = row_split_of(a, block_y(), block_z());
    w.row = work.row;
    w.split = work.split;
    w.pos = a->pos[w.row];
    w.first = first_seen(w.pos, a->window);
    w.c0 = w.split * KV_SPLIT;
    int own = w.pos / PAGE - w.c0 / PAGE;
    w.from = w.first > w.c0 ? (w.first - w.c0) / PAGE : 0;
    w.to = own < CHUNK_PAGES ? own : CHUNK_PAGES - 1;
    w.own = int4 && own < CHUNK_PAGES ? own : -1;
    return w;
}

DEVICE u8 *chunk_page(const struct chunk_lds *l, const struct chunk_work *w, int page,
                      const int dims, const int int4)
{
    return int4 && page == w->own ? l->own : l->pages + page * CHUNK_STRIDE(dims, int4);
}

DEVICE void chunk_copy_bytes(u8 *to, const u8 *from, const int bytes)
{
    int index = thread() % WARP * 16;
    UNROLL for (int k = 0; k < bytes; k += 16 * WARP) if (index + k < bytes)
        copy_16(lds_address(to) + (u32)(index + k), from + index + k);
}

/* Copies the keys, or the values, of the warp's pages, with their scales, as a group. */
DEVICE void chunk_copy(const struct attend_kernel_args *a, const struct chunk_work *w,
                       const struct chunk_lds *l, const int values, const int dims, const int int4)
{
    const int *table = a->table + (u64)a->seq[w->row] * (u64)a->table_stride;
    UNROLL for (int i = 0; i < 2; i++)
    {
        int page = thread() / WARP * 2 + i;
        if (page < w->from || page > w->to) continue;
        u64 count = (u64)table[w->c0 / PAGE + page] * (u64)a->n_kv_heads + (u64)w->kv_head;
        u8 *to = chunk_page(l, w, page, dims, int4);
        if (int4 && page != w->own) {
            const u8 *from = (const u8 *)a->pages + count * INT4_PAGE(dims);
            u32 offset = int4_part_at(values, dims);
            chunk_copy_bytes(to + offset, from + offset, 10 * dims);
            if (!values) chunk_copy_bytes(to + 20 * dims, from + 20 * dims, 8 * PAGE);
        } else {
            const u8 *from = int4 ? own_page_of(a, w->row, w->kv_head)
                                  : (const u8 *)a->pages + count * INT8_PAGE(dims);
            int offset = values ? PAGE * dims : 0;
            chunk_copy_bytes(to + offset, from + offset, PAGE * dims);
            if (!values) chunk_copy_bytes(to + 32 * dims, from + 32 * dims, 8 * PAGE);
        }
    }
    copies_commit();
}

/* Loads a head of a row, rotated and transformed with `rotate`. x[k] of lane l has dimensions 2l +
 * k * dims / 2 and the next one; of heads of 256 there are also those 64 further. Lanes from dims /
 * 4 on have none. */
DEVICE void chunk_head(const struct attend_kernel_args *a, const float *head, int row,
                       float x[2][4], const int rotate, const int dims)
{
    int d = thread() % WARP * 2;
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < 4; e++) x[k][e] = 0;
    if (d < dims / 2)
        UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < (dims > 128 ? 4 : 2); e += 2)
        {
            f32x2 v = *(const f32x2 *)(head + k * (dims / 2) + d + 32 * e);
            x[k][e] = v[0];
            x[k][e + 1] = v[1];
        }
    if (!rotate || !a->cos || dims > 128) return;
    float y[4];
    u64 angle = (u64)row * (u64)(dims / 2) + (u64)d;
    f32x2 cos = {0, 0}, sin = {0, 0};
    if (d < dims / 2) {
        cos = *(const f32x2 *)(a->cos + angle);
        sin = *(const f32x2 *)(a->sin + angle);
    }
    UNROLL for (int e = 0; e < 2; e++)
    {
        y[e] = a->exact ? x[0][e] * cos[e] - x[1][e] * sin[e]
                        : fma32(x[0][e], cos[e], -x[1][e] * sin[e]);
        y[2 + e] = a->exact ? x[1][e] * cos[e] + x[0][e] * sin[e]
                            : fma32(x[1][e], cos[e], x[0][e] * sin[e]);
    }
    hadamard_step(y, 4, 1);
    UNROLL for (int lanes = 1; lanes < dims / 4; lanes *= 2) hadamard_lanes(y, 4, lanes);
    hadamard_step(y, 4, 2);
    UNROLL for (int e = 0; e < 2; e++) x[0][e] = y[e], x[1][e] = y[2 + e];
}

DEVICE int chunk_most(float x[2][4])
{
    int maximum = 0;
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < 4; e++)
        maximum = larger_bits(x[k][e], maximum);
    return (int)max_of_warp((u32)maximum);
}

/* Makes the digits of the query of head h, by the warp: [2][stride]. Returns their scale. */
DEVICE float chunk_query(const struct attend_kernel_args *a, const struct chunk_work *w, u8 *digits,
                         const int stride, int h, const int dims)
{
    float x[2][4];
    int d = thread() % WARP * 2;
    chunk_head(a, a->q + ((u64)w->row * (u64)a->n_heads + (u64)(w->head0 + h)) * (u64)dims, w->row,
               x, 1, dims);
    if (a->cos && dims <= 128) UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < 2; e++)
        x[k][e] *= 1.0f / (float)dims;
    struct int_scale s = int_scale_of(chunk_most(x), exact_query_top(a->digits));
    u8 *second = digits + stride;
    if (d < dims / 2)
        UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < (dims > 128 ? 4 : 2); e++)
        {
            int v = rounded_int(x[k][e], s.inverse),
                index = k * (dims / 2) + d + e % 2 + e / 2 * 64;
            if (a->digits == 2) put_digits(digits + index, second + index, v);
            else digits[index] = 0, second[index] = (u8)v;
        }
    return s.scale;
}

/* The row's own key, rotated and transformed, or its value, rounded: a lane has dimensions as in
 * chunk_head(), code [k][e] in byte 2k + e. */
struct chunk_own {
    u32 code;
    float scale;
};

DEVICE struct chunk_own chunk_own_of(const struct attend_kernel_args *a, const struct chunk_work *w,
                                     const int value, const int dims)
{
    float x[2][4];
    struct chunk_own own;
    u64 from = ((u64)w->row * (u64)a->n_kv_heads + (u64)w->kv_head) * (u64)dims;
    chunk_head(a, (value ? a->v : a->k) + from, w->row, x, !value, dims);
    struct int_scale s = int_scale_of(chunk_most(x), 127);
    own.code = 0;
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < 2; e++)
        own.code |= (u32)(u8)rounded_int(x[k][e], s.inverse) << 8 * (2 * k + e);
    own.scale = s.scale;
    return own;
}

/* Puts the row's own key or value into a page, with its scale. part: the page's keys or values */
DEVICE void chunk_put(const struct chunk_own *own, int pos, u8 *part, float *scales,
                      const int value, const int dims)
{
    int d = thread() % WARP * 2, p = pos % PAGE;
    if (d < dims / 2) UNROLL for (int k = 0; k < 2; k++) UNROLL for (int e = 0; e < 2; e++)
        {
            int index = k * (dims / 2) + d + e;
            part[value ? int8_value_at(index, p, dims) - (u32)(PAGE * dims)
                       : int8_key_at(index, p)] = (u8)(own->code >> 8 * (2 * k + e));
        }
    if (d == 0) scales[p] = own->scale;
}

/* The page in memory that the row is stored in; of int4 the packed one, which it becomes when it is
 * full. */
DEVICE u8 *chunk_stored_page(const struct attend_kernel_args *a, const struct chunk_work *w,
                             const int dims, const int int4)
{
    u64 id = (u64)a->table[(u64)a->seq[w->row] * (u64)a->table_stride + (u64)(w->pos / PAGE)];
    return (u8 *)a->pages + (id * (u64)a->n_kv_heads + (u64)w->kv_head) *
                                (u64)(int4 ? INT4_PAGE(dims) : INT8_PAGE(dims));
}

/* The page of int8 in memory that the row's own key and value are stored in. */
DEVICE u8 *chunk_own_page(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const int dims, const int int4)
{
    if (int4) return (u8 *)own_page_of(a, w->row, w->kv_head);
    return chunk_stored_page(a, w, dims, 0);
}

/* int4: packs the own page, after the row is stored, if the row has filled it. `threads` threads
 * take part */
DEVICE void chunk_pack(const struct attend_kernel_args *a, const struct chunk_work *w,
                       const int dims, const int threads)
{
    if (!a->k || w->own < 0 || w->pos % PAGE != PAGE - 1 ||
        w->head0 % (a->n_heads / a->n_kv_heads))
        return;
    int4_pack_page(own_page_of(a, w->row, w->kv_head), chunk_stored_page(a, w, dims, 1), dims,
                   threads);
}

/* Stores the row's own key and value in the page in shared memory and, in the block of the first
 * heads, in memory. The warp that has copied the page calls it. own: the key and the value */
DEVICE void chunk_store(const struct attend_kernel_args *a, const struct chunk_work *w,
                        const struct chunk_own own[2], u8 *page, const int dims, const int int4)
{
    u8 *to = w->head0 % (a->n_heads / a->n_kv_heads) ? 0 : chunk_own_page(a, w, dims, int4);
    UNROLL for (int value = 0; value < 2; value++)
    {
        int index = value * PAGE * dims;
        float *scales = int8_scales(page, dims) + value * PAGE;
        chunk_put(own + value, w->pos, page + index, scales, value, dims);
        if (to)
            chunk_put(own + value, w->pos, to + index, int8_scales(to, dims) + value * PAGE, value,
                      dims);
    }
    warp_barrier();
}

/* Operand a number s of a page: 16 positions and 32 dimensions. */
DEVICE void chunk_keys(const u8 *page, int s, u32 k[4])
{
    int lane = thread() % WARP, matrix = lane / 8;
    load_matrices(lds_address(page) +
                      (u32)(((2 * s + matrix / 2) * PAGE + matrix % 2 * 8 + lane % 8) * 16),
                  k);
}

/* chunk_keys() for a packed page: a lane has dimensions 8t .. 8t + 7 of the 32. */
DEVICE void chunk_packed_keys(const u8 *page, int s, u32 k[4], const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4, swap = t / 2;
    const u8 *code = page + (2 * s + swap) * 8 * PAGE + t % 2 * 4;
    u32 one = *(const u32 *)(code + 8 * (r + 8 * swap)),
        other = *(const u32 *)(code + 8 * (r + 8 - 8 * swap)), count[2] = {one, other};
    if (swap) count[0] = other, count[1] = one;
    u32x2 lo = *(const u32x2 *)(page + int4_lo_at(0, dims) + (u32)(32 * s + 8 * t)),
          step = *(const u32x2 *)(page + int4_step_at(0, dims) + (u32)(32 * s + 8 * t));
    UNROLL for (int n = 0; n < 2; n++)
    {
        struct key_channels c = key_channels_of(lo[n], step[n], n);
        UNROLL for (int i = 0; i < 2; i++) k[2 * n + i] = int4_key_bytes(count[i], &c, n);
    }
}

/* Integer scores of a page, in the place of its keys. tiles: 4 heads each */
DEVICE void chunk_scores(const struct chunk_lds *l, u8 *page, int packed, int heads,
                         const int tiles, const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4, sum[2][4];
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int e = 0; e < 4; e++) sum[i][e] = 0;
    UNROLL for (int s = 0; s < dims / 32; s++)
    {
        u32 k[4];
        if (packed) chunk_packed_keys(page, s, k, dims);
        else chunk_keys(page, s, k);
        UNROLL for (int i = 0; i < tiles; i++)
        {
            const u8 *q = l->digits + (8 * i + r) * (dims + 16) + 32 * s;
            u32 b0 = *(const u32 *)(q + (packed ? 8 * t : 4 * t)),
                b1 = *(const u32 *)(q + (packed ? 8 * t + 4 : 4 * t + 16));
            mma_s8(sum[i], k[0], k[1], k[2], k[3], b0, b1);
        }
    }
    warp_barrier();
    UNROLL for (int i = 0; i < tiles; i++) if (4 * i + t < heads)
    {
        int *score = (int *)page + (4 * i + t) * PAGE;
        UNROLL for (int e = 0; e < 2; e++)
            score[r + 8 * e] = of_digits(sum[i][2 * e], sum[i][2 * e + 1], 2);
    }
}

DEVICE u32 largest_of_warps(const u32 *from)
{
    u32 maximum = from[0];
    UNROLL for (int i = 1; i < CHUNK_WARPS; i++) maximum = from[i] > maximum ? from[i] : maximum;
    return maximum;
}

DEVICE float chunk_score(const struct attend_kernel_args *a, int sum, float scale)
{
    float x = (float)sum * scale * a->scale;
    return a->softcap > 0 ? a->softcap * exact_tanh(x / a->softcap) : x;
}

/* Turns scores into weights, and weights times the scales of the values into digits, in the scores'
 * place; then all values are in shared memory, too. A loop goes through the heads, because its code
 * is small. */
DEVICE void chunk_weights(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const struct chunk_lds *l, const int dims, const int int4)
{
    int t = thread(), warp = t / WARP, page = t / PAGE, place = t % PAGE, p = w->c0 + t,
        seen = p >= w->first && p <= w->pos;
    u8 *cursor = chunk_page(l, w, page, dims, int4);
    const float *scales = int4 && page != w->own ? int4_scales_of(cursor, dims)
                                                 : int8_scales_of(cursor, dims);
    float of_key = seen ? scales[place] : 0, of_value = seen ? scales[PAGE + place] : 0,
          *to = (float *)cursor + place;
    NO_UNROLL for (int h = 0; h < w->heads; h++)
    {
        float x = -__builtin_inff();
        if (seen) x = chunk_score(a, ((const int *)to)[h * PAGE], l->query[h] * of_key);
        to[h * PAGE] = x;
        u32 largest = max_of_warp(ordered_bits(x));
        if (t % WARP == 0) l->largest[h * CHUNK_WARPS + warp] = largest;
    }
    barrier();
    NO_UNROLL for (int h = 0; h < w->heads; h++) {
        float max = of_ordered(largest_of_warps(l->largest + h * CHUNK_WARPS)),
              weight = seen ? exact_exp(to[h * PAGE] - max) : 0;
        to[h * PAGE] = weight;
        u32 maximum = max_of_warp((u32)larger_bits(weight * of_value, 0));
        if (t % WARP == 0) l->most[h * CHUNK_WARPS + warp] = maximum;
        if (t == 0) l->max[h] = max;
    }
    barrier();
    NO_UNROLL for (int h = 0; h < w->heads; h++) {
        struct int_scale s = int_scale_of((int)largest_of_warps(l->most + h * CHUNK_WARPS),
                                          EXACT_WEIGHT_TOP);
        u8 *first = l->digits + (page * 2 * CHUNK_HEADS + 2 * h) * PAGE + place;
        put_digits(first, first + PAGE, rounded_int(to[h * PAGE] * of_value, s.inverse));
        if (t == 0) l->unit[h] = s.scale;
    }
    COPIES_WAIT(0);
    barrier();
}

/* The sum of a head's weights in 16 lanes, folded, by 16 threads, each of which gets it. All
 * threads of a warp come. */
DEVICE float chunk_sum(const struct chunk_work *w, const struct chunk_lds *l, int h,
                       const int dims, const int int4)
{
    float sum = 0, v[CHUNK_PAGES];
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
        v[i] = ((const float *)chunk_page(l, w, i, dims, int4))[h * PAGE + thread() % EXACT_LANES];
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++) sum += v[i];
    UNROLL for (int i = EXACT_LANES / 2; i; i /= 2) sum += f32_of(shuffle_xor(bits_of(sum), i));
    return sum;
}

/* Operand a of 64 dimensions from d0 on, for each of 4 matrices: row r of matrix j is dimension d0
 * + 4r + j, row 8 + r the dimension 32 further; lane t of a quad has the fours `four` and four + 1
 * of a page. values: the page's; of int4 lo and step are behind the codes */
DEVICE void chunk_values(const u8 *values, int four, int d0, u32 v[4][4], const int dims,
                         const int int4)
{
    int r = thread() % WARP / 4;
    UNROLL for (int i = 0; i < 4; i++) /* v[i] is 32 (i % 2) dimensions and i / 2 fours further */
    {
        int d = d0 + i % 2 * 32 + 4 * r, index = (four + i / 2) * dims + d;
        if (!int4) {
            u32x4 words = *(const u32x4 *)(values + 4 * index);
            UNROLL for (int j = 0; j < 4; j++) v[j][i] = words[j];
            continue;
        }
        u32x2 code = *(const u32x2 *)(values + 2 * index);
        u32 lo = *(const u32 *)(values + 8 * dims + d),
            step = *(const u32 *)(values + 9 * dims + d);
        UNROLL for (int j = 0; j < 4; j++)
            v[j][i] = int4_row_bytes(code[j / 2], lo, step, j, j % 2);
    }
}

/* Adds the own page's values of 64 dimensions from d0 on: lane t of a quad has four number t. */
DEVICE void chunk_own_values(const struct chunk_work *w, const struct chunk_lds *l, int d0,
                             int sum[2][4][4], const int tiles, const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    const u8 *values = l->own + PAGE * dims + 4 * (t * dims + d0 + 4 * r);
    u32x4 lo = *(const u32x4 *)values, hi = *(const u32x4 *)(values + 128);
    UNROLL for (int i = 0; i < tiles; i++)
    {
        u32 b = *(const u32 *)(l->digits + (w->own * 2 * CHUNK_HEADS + 8 * i + r) * PAGE + 4 * t);
        UNROLL for (int j = 0; j < 4; j++) mma_s8(sum[i][j], lo[j], hi[j], 0, 0, b, 0);
    }
}

/* Sums of weights and values over a warp's share of the positions: 64 dimensions from d0 on, pairs
 * of fours number begin .. end - 1; pair u is of pages 4 (u / 2) .. 4 (u / 2) + 3.
 * sum[i][j][2e + n]: digit n of head 4i + t, dimension d0 + 32e + 4r + j */
DEVICE void chunk_value_sums(const struct chunk_work *w, const struct chunk_lds *l, int d0,
                             int begin, int end, int sum[2][4][4], const int tiles, const int dims,
                             const int int4)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (int j = 0; j < 4; j++)
        UNROLL for (int e = 0; e < 4; e++) sum[i][j][e] = 0;
    UNROLL for (int u = begin; u < end; u++) {
        u32 v[4][4];
        int group = u / 2 * 4, page = group + t, four = u % 2 * 2;
        if (group > w->to || group + 3 < w->from) continue;
        chunk_values(l->pages + page * CHUNK_STRIDE(dims, int4) +
                         (int4 ? int4_part_at(1, dims) : (u32)(PAGE * dims)),
                     four, d0, v, dims, int4);
        UNROLL for (int i = 0; i < tiles; i++)
        {
            u32x2 b = *(const u32x2 *)(l->digits + (page * 2 * CHUNK_HEADS + 8 * i + r) * PAGE +
                                       4 * four);
            if (int4 && page == w->own) b = (u32x2){0, 0};
            UNROLL for (int j = 0; j < 4; j++)
                mma_s8(sum[i][j], v[j][0], v[j][1], v[j][2], v[j][3], b[0], b[1]);
        }
        if (int4 && four == 0 && w->own >= group && w->own < group + 4)
            chunk_own_values(w, l, d0, sum, tiles, dims);
    }
}

/* Multiplies the values with the digits of the weights, and writes the partial results of the
 * block's heads. */
DEVICE void chunk_results(const struct attend_kernel_args *a, const struct chunk_work *w,
                          const struct chunk_lds *l, const int tiles, const int dims,
                          const int int4)
{
    const int halves = dims / 64, ways = CHUNK_WARPS / halves, units = CHUNK_PAGES / 2 / ways;
    int t = thread() % 4, r = thread() % WARP / 4, warp = thread() / WARP, way = warp / halves,
        d0 = warp % halves * 64, sum[2][4][4];
    int *sums = (int *)l->pages; /* [ways][heads][dims] */
    float *part = a->parts +
                  (((u64)w->row * (u64)a->n_heads + (u64)w->head0) * (u64)a->n_splits +
                   (u64)w->split) *
                      (u64)(dims + 8);
    u64 next = (u64)a->n_splits * (u64)(dims + 8);
    if (warp < (w->heads + 1) / 2) {
        int h = thread() / EXACT_LANES;
        float all = chunk_sum(w, l, h < w->heads ? h : 0, dims, int4);
        if (h < w->heads && thread() % EXACT_LANES == 0)
            part[(u64)h * next + dims] = l->max[h], part[(u64)h * next + dims + 1] = all;
    }
    chunk_value_sums(w, l, d0, way * units, (way + 1) * units, sum, tiles, dims, int4);
    barrier();
    UNROLL for (int i = 0; i < tiles; i++) if (4 * i + t < w->heads)
        UNROLL for (int e = 0; e < 2; e++)
    {
        int *to = sums + (way * w->heads + 4 * i + t) * dims + d0 + 32 * e + 4 * r;
        UNROLL for (int j = 0; j < 4; j++)
            to[j] = of_digits(sum[i][j][2 * e], sum[i][j][2 * e + 1], 2);
    }
    barrier();
    for (int i = thread(); i < w->heads * dims; i += THREADS) {
        int all = 0, h = i / dims;
        UNROLL for (int k = 0; k < ways; k++) all += sums[k * w->heads * dims + i];
        part[(u64)h * next + (u64)(i % dims)] = (float)all * l->unit[h];
    }
}

/* Whether the warp has the page that the row's own key and value are stored in. */
DEVICE int chunk_stores(const struct attend_kernel_args *a, const struct chunk_work *w, int warp)
{
    return a->k && (w->pos / PAGE - w->c0 / PAGE) / 2 == warp;
}

DEVICE void attend_chunk(const struct attend_kernel_args *a, const struct chunk_lds *l,
                         const int dims, const int int4)
{
    /* Pages that no launch of this step writes are loaded before the producer launch has ended. */
    int early = a->k != 0, warp = thread() / WARP;
    if (!early) wait_for_producer();
    const struct chunk_work w = chunk_work_of(a, int4, CHUNK_HEADS);
    int nothing = w.c0 > w.pos || w.c0 + KV_SPLIT <= w.first;
    if (!nothing) UNROLL for (int values = 0; values < 2; values++)
        chunk_copy(a, &w, l, values, dims, int4);
    if (early) wait_for_producer();
    if (nothing) return;
    int of_warp = CHUNK_WARPS - 1 - warp;
    struct chunk_own own[2];
    if (dims <= 128 && chunk_stores(a, &w, warp)) UNROLL for (int value = 0; value < 2; value++)
        own[value] = chunk_own_of(a, &w, value, dims);
    if (of_warp < w.heads) {
        float scale = chunk_query(a, &w, l->digits + 2 * of_warp * (dims + 16), dims + 16,
                                  of_warp, dims);
        if (thread() % WARP == 0) l->query[of_warp] = scale;
    }
    barrier();
    COPIES_WAIT(1); /* the keys */
    warp_barrier();
    for (int page = 2 * warp; page < 2 * warp + 2; page++) {
        u8 *source = chunk_page(l, &w, page, dims, int4);
        int packed = int4 && page != w.own;
        if (page < w.from || page > w.to) continue;
        if (dims <= 128 && a->k && page == w.pos / PAGE - w.c0 / PAGE) {
            COPIES_WAIT(0);
            warp_barrier();
            chunk_store(a, &w, own, source, dims, int4);
        }
        if (w.heads > 4) chunk_scores(l, source, packed, w.heads, 2, dims);
        else chunk_scores(l, source, packed, w.heads, 1, dims);
    }
    barrier();
    chunk_weights(a, &w, l, dims, int4);
    if (w.heads > 4) chunk_results(a, &w, l, 2, dims, int4);
    else chunk_results(a, &w, l, 1, dims, int4);
    if (int4 && dims <= 128) chunk_pack(a, &w, dims, THREADS);
}

#define ATTEND_CHUNK(name, images, dims, int4, blocks)                                             \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(float, query, CHUNK_HEADS);                                                            \
        LDS(u32, largest, CHUNK_HEADS *CHUNK_WARPS);                                               \
        LDS(u32, maximum, CHUNK_HEADS *CHUNK_WARPS);                                               \
        LDS(float, max, CHUNK_HEADS);                                                              \
        LDS(float, unit, CHUNK_HEADS);                                                             \
        u8 *pages = (u8 *)dynamic_lds, *own = pages + CHUNK_PAGES * CHUNK_STRIDE(dims, int4);      \
        const struct chunk_lds l = {                                                               \
            pages, own, own + ((int4) ? INT8_PAGE(dims) : 0), query, largest, maximum, max, unit}; \
        attend_chunk(EARLY_ARGS, &l, dims, int4);                                                  \
    })
#include "backend-hip/kernels/nvidia/list.h"
