/* exact_attend_mma.hip: attention of prompt rows over pages of int8 and int4 in the order of the
 * CPU backend (common/exact_attend_int8.hip says it), by mma of signed bytes on sm_80 and sm_90a.
 *   grid      (query head, EXACT_TILE_ROWS rows of one sequence); 256 threads
 *   warp      16 rows; of a chunk the scores of every fourth page, then the values of a quarter of
 *             the dimensions
 *   operands  codes as they lie: a lane loads 16 dimensions of a key, neighbouring dimensions of 4
 *             positions of the values, a page or two pairs of pages ahead. Digits of queries and of
 *             weights are in shared memory
 * Columns: column 2t + e of half h of a page's scores is position 4t + 2h + e. Head dimensions up
 * to dims; pieces that a head lacks are zeros. */

enum {
    QUARTERS = 4,
    TILE_PAGES = KV_SPLIT / PAGE,
    QUARTER_PAGES = TILE_PAGES / QUARTERS,
    /* rows of weights and of their digits in shared memory: no two lanes of a load share a bank */
    WEIGHT_STRIDE = KV_SPLIT + 16,
    DIGIT_STRIDE = KV_SPLIT / 4 + 4
};

#define QUERY_STRIDE(dims) ((dims) / 8 + 4)

/* Shared memory of a block. Arrays begin with its rows unless said. */
struct exact_tile_lds {
    float *p;         /* [EXACT_TILE_ROWS][WEIGHT_STRIDE] weights */
    u32 *w;           /* [2 digits][EXACT_TILE_ROWS][DIGIT_STRIDE] of fours of positions */
    float *max, *sum; /* [QUARTERS][EXACT_TILE_ROWS]; [EXACT_TILE_ROWS] */
    int *most;        /* [QUARTERS][EXACT_TILE_ROWS] the largest weights times their values' scales,
                         as bits */
    float *query;     /* [EXACT_TILE_ROWS] scales of the queries */
    u32x4 *q;         /* [EXACT_TILE_ROWS], QUERY_STRIDE apart, [2 digits][dims / 16] */
    const u8 **page;  /* [2][TILE_PAGES] pages of a chunk, and of the next one */
};

/* A lane's two rows, number row and row + 8 of the block. */
struct exact_lane_rows {
    int row, quarter, seen[2], first[2]; /* seen: the last visible position, -1: no row */
    int from, to; /* both rows see positions from .. to */
    int last;     /* the last position of the warp's rows */
    float query[2];                      /* scale of the query */
    int own; /* int4: the open page that all rows of the warp are in; -1: none */
    const u8 *own_page;
};

/* Pages from .. to of a chunk, and where the block has their addresses. */
struct exact_tile_chunk {
    const u8 **page;
    int page0, from, to;
};

DEVICE struct exact_tile_chunk exact_tile_chunk_of(const struct exact_row_range *g,
                                                   const struct exact_tile_lds *l, int c0)
{
    int last = g->last < c0 + KV_SPLIT ? g->last : c0 + KV_SPLIT - 1;
    struct exact_tile_chunk c;
    c.page = l->page + c0 / KV_SPLIT % 2 * TILE_PAGES;
    c.page0 = c0 / PAGE;
    c.from = g->first0 > c0 ? (g->first0 - c0) / PAGE : 0;
    c.to = (last - c0) / PAGE;
    return c;
}

/* The number in the chunk of a warp's k-th page. */
DEVICE int exact_page_at(const struct exact_lane_rows *x, int k)
{
    return QUARTERS * k + x->quarter;
}

/* Whether a page is multiplied with the weights of this chunk. Pages are taken two at a time, and a
 * page outside from .. to has weights of 0. */
DEVICE int exact_page_counts(const struct exact_tile_chunk *c, int index)
{
    return index >= c->from / 2 * 2 && index <= c->to / 2 * 2 + 1;
}

/* Whether both rows of a lane see all of page `index`. */
DEVICE int exact_sees_page(const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                           int index)
{
    int p = (c->page0 + index) * PAGE;
    return index >= c->from && index <= c->to && p >= x->from && p + PAGE - 1 <= x->to;
}

/* Looks up the pages of a chunk, if there is one; in the place of pages that it lacks it gets
 * others of its own. */
DEVICE void exact_look_up(const struct attend_kernel_args *a, const struct exact_row_range *g,
                          const struct exact_tile_chunk *c, int kv_head, const int int4)
{
    int t = thread(), index = t < c->from ? c->from : t > c->to ? c->to : t;
    if (t >= TILE_PAGES || c->page0 * PAGE > g->last) return;
    c->page[t] = int4 ? int4_page_of(a, g->table[c->page0 + index], kv_head)
                      : int8_page_of(a, g->table, c->page0 + index, kv_head);
}

/* Page number `index` of a chunk; *packed: it is of int4. */
DEVICE const u8 *exact_tile_page(const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                                 int index, int *packed, const int int4)
{
    *packed = int4 && c->page0 + index < x->own;
    return *packed || !int4 ? c->page[index] : x->own_page;
}
DEVICE const float *exact_page_scales(const u8 *page, int packed, int d16)
{
    return packed ? int4_scales_of(page, d16) : int8_scales_of(page, d16);
}

/* The digits of four numbers of 0 to 127 * 128, rounded: 1.5 2^23 + 64 + an integer has its first
 * digit above the lowest 7 bits, and there the second one plus 64. */
DEVICE void exact_weight_digits(const f32x4 w, float inverse, u32 *first, u32 *second)
{
    int high[4], low[4];
    UNROLL for (int e = 0; e < 4; e++)
    {
        low[e] = (int)bits_of(w[e] * inverse + (0x1.8p23f + 64));
        high[e] = low[e] >> 7;
    }
    *first = int8_bytes(high);
    *second = int8_second_digits(int8_bytes(low));
}

/* The first or second digits of four integers. */
DEVICE u32 int8_word(const int v[4], const int second)
{
    int digit[4];
    UNROLL for (int i = 0; i < 4; i++)
    {
        int high = (v[i] + 64) >> 7;
        digit[i] = second ? v[i] - high * 128 : high;
    }
    return int8_bytes(digit);
}

/* The digits of the queries: dims / 16 neighbouring threads have a row. */
DEVICE void exact_tile_queries(const struct attend_kernel_args *a, const struct exact_row_range *g,
                               const struct exact_tile_lds *l, const int dims)
{
    const int lanes = dims / 16;
    int lane = thread() % lanes, hd = a->head_dim;
    for (int r = thread() / lanes; r < EXACT_TILE_ROWS; r += THREADS / lanes) {
        int maximum = 0, n[4];
        const float *q =
            a->q + ((u64)(g->row0 + (r >= g->begin && r < g->n ? r : g->begin)) * (u64)a->n_heads +
                    (u64)block_x()) *
                       (u64)hd;
        f32x4 v[4];
        UNROLL for (int j = 0; j < 4; j++)
        {
            int d = 16 * lane + 4 * j;
            v[j] = (f32x4){0, 0, 0, 0};
            if (hd % 4 == 0 && d < hd) v[j] = *(const f32x4 *)(q + d);
            else UNROLL for (int e = 0; e < 4; e++) if (d + e < hd) v[j][e] = q[d + e];
        }
        UNROLL for (int j = 0; j < 4; j++) UNROLL for (int e = 0; e < 4; e++)
            maximum = larger_bits(v[j][e], maximum);
        maximum = most_of_lanes(maximum, lanes);
        struct int_scale s = int_scale_of(maximum, exact_query_top(a->digits));
        u32x4 first, second;
        UNROLL for (int j = 0; j < 4; j++)
        {
            UNROLL for (int e = 0; e < 4; e++) n[e] = rounded_int(v[j][e], s.inverse);
            first[j] = int8_word(n, 0);
            second[j] = a->digits == 2 ? int8_word(n, 1) : int8_bytes(n);
        }
        u32x4 *to = l->q + r * QUERY_STRIDE(dims) + lane;
        to[0] = first;
        to[dims / 16] = second;
        if (lane == 0) l->query[r] = s.scale;
    }
}

/* Loads 16 dimensions, from d on, of a lane's keys in both halves of a page. */
DEVICE void exact_page_keys(const u8 *page, int packed, int d, int d16, u32x4 k[2])
{
    int r = thread() % WARP / 4;
    u32 offset = int8_key_at(d, r / 2 * 4 + r % 2);
    if (!packed) {
        k[0] = *(const u32x4 *)(page + offset);
        k[1] = *(const u32x4 *)(page + offset + 32);
        return;
    }
    u32x4 lo = *(const u32x4 *)(page + int4_lo_at(0, d16) + (u32)d),
          step = *(const u32x4 *)(page + int4_step_at(0, d16) + (u32)d);
    u32x2 code[2] = {*(const u32x2 *)(page + offset / 2), *(const u32x2 *)(page + offset / 2 + 16)};
    UNROLL for (int i = 0; i < 4; i++)
    {
        struct key_channels c = key_channels_of(lo[i], step[i], i % 2);
        UNROLL for (int h = 0; h < 2; h++) k[h][i] = int4_key_bytes(code[h][i / 2], &c, i % 2);
    }
}

/* Loads a lane's keys in both halves of a page, piece c of 64 dimensions. */
DEVICE void exact_lane_keys(const u8 *page, int packed, int c, int d16, u32x4 k[2])
{
    int d = 64 * c + thread() % 4 * 16;
    UNROLL for (int h = 0; h < 2; h++) k[h] = (u32x4){0, 0, 0, 0};
    if (d >= d16) return;
    if (packed) exact_page_keys(page, 1, d, d16, k);
    else exact_page_keys(page, 0, d, d16, k);
}

/* Adds the products of digit n of a lane's two queries with piece c of the keys of a page. */
DEVICE void exact_add_scores(const struct exact_tile_lds *l, int row, const u32x4 k[2], int c,
                             const int n, int sum[2][4], const int dims)
{
    const u32x4 *q = l->q + row * QUERY_STRIDE(dims) + n * (dims / 16) + 4 * c + thread() % 4;
    u32x4 v[2] = {q[0], q[8 * QUERY_STRIDE(dims)]};
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int m = 0; m < 2; m++)
        mma_s8(sum[h], v[0][2 * m], v[1][2 * m], v[0][2 * m + 1], v[1][2 * m + 1], k[h][2 * m],
               k[h][2 * m + 1]);
}

/* Moves the numbers of x one place towards the first and puts v behind them: so a loop over pages
 * that is not unrolled has each page's numbers in registers. */
DEVICE void exact_push(f32x4 x[QUARTER_PAGES], f32x4 v)
{
    UNROLL for (int k = 0; k + 1 < QUARTER_PAGES; k++) x[k] = x[k + 1];
    x[QUARTER_PAGES - 1] = v;
}

/* The scores of a warp's positions. */
DEVICE void exact_tile_scores(const struct attend_kernel_args *a, const struct exact_tile_lds *l,
                              const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                              f32x4 score[2][QUARTER_PAGES], const int dims, const int int4)
{
    const int ahead = !int4, pieces = dims / 64; /* ahead: there are registers to load the next
                                                    piece early */
    int t = thread() % 4, d16 = round16(a->head_dim), packed;
    u32x4 next[2];
    const u8 *page = exact_tile_page(x, c, x->quarter, &packed, int4);
    if (ahead) exact_lane_keys(page, packed, 0, d16, next);
    UNROLL for (int k = 0; k < QUARTER_PAGES; k++) UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int e = 0; e < 4; e++) score[i][k][e] = -__builtin_inff();
    NO_UNROLL for (int k = 0; k < QUARTER_PAGES; k++)
    {
        int index = exact_page_at(x, k), p0 = (c->page0 + index) * PAGE + 4 * t, first[2][4],
            second[2][4], valid = index >= c->from && index <= c->to;
        const u8 *own = page;
        int own_packed = packed;
        f32x4 s[2], of_key = {0, 0, 0, 0};
        if (valid) of_key = *(const f32x4 *)(exact_page_scales(page, packed, d16) + 4 * t);
        UNROLL for (int i = 0; i < 2; i++) UNROLL for (int e = 0; e < 4; e++)
        {
            s[i][e] = -__builtin_inff();
            first[i][e] = second[i][e] = 0;
        }
        UNROLL for (int piece = 0; piece < pieces; piece++)
        {
            u32x4 now[2] = {next[0], next[1]};
            if (piece + 1 == pieces && k + 1 < QUARTER_PAGES)
                page = exact_tile_page(x, c, exact_page_at(x, k + 1), &packed, int4);
            if (ahead) exact_lane_keys(page, packed, (piece + 1) % pieces, d16, next);
            if (!valid) continue;
            if (!ahead) exact_lane_keys(own, own_packed, piece, d16, now);
            if (a->digits == 2) exact_add_scores(l, x->row, now, piece, 0, first, dims);
            exact_add_scores(l, x->row, now, piece, 1, second, dims);
        }
        if (valid) UNROLL for (int i = 0; i < 2; i++) UNROLL for (int n = 0; n < 4; n++)
            {
                int sum = first[n / 2][2 * i + n % 2] * 128 + second[n / 2][2 * i + n % 2];
                s[i][n] = (float)sum * (x->query[i] * of_key[n]) * a->scale;
                if (a->softcap > 0) s[i][n] = a->softcap * exact_tanh(s[i][n] / a->softcap);
            }
        if (!exact_sees_page(x, c, index))
            UNROLL for (int i = 0; i < 2; i++)
                UNROLL for (int n = 0; n < 4; n++) if (p0 + n > x->seen[i] || p0 + n < x->first[i])
                    s[i][n] = -__builtin_inff();
        UNROLL for (int i = 0; i < 2; i++) exact_push(score[i], s[i]);
    }
}

/* The scales of a lane's values in the warp's page number k. */
DEVICE f32x4 exact_lane_values(const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                               int k, int d16, const int int4)
{
    int packed;
    const u8 *page = exact_tile_page(x, c, exact_page_at(x, k), &packed, int4);
    return *(const f32x4 *)(exact_page_scales(page, packed, d16) + PAGE + 4 * (thread() % 4));
}

/* Turns scores into weights, and weights times the scales of their values into digits in shared
 * memory. max, scale: of a lane's rows */
DEVICE void exact_tile_weights(const struct attend_kernel_args *a, const struct exact_tile_lds *l,
                               const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                               f32x4 score[2][QUARTER_PAGES], float max[2], float scale[2],
                               const int int4)
{
    int t = thread() % 4, d16 = round16(a->head_dim), maximum[2] = {0, 0};
    float from[2]; /* what scores are relative to; finite for a row that sees nothing, whose weights
                      are 0 */
    f32x4 next = exact_lane_values(x, c, 0, d16, int4);
    UNROLL for (int i = 0; i < 2; i++)
    {
        float largest = -__builtin_inff();
        UNROLL for (int k = 0; k < QUARTER_PAGES; k++) UNROLL for (int e = 0; e < 4; e++)
            largest = max32(score[i][k][e], largest);
        largest = quad_max(largest);
        if (t == 0) l->max[x->quarter * EXACT_TILE_ROWS + x->row + 8 * i] = largest;
    }
    barrier();
    UNROLL for (int i = 0; i < 2; i++)
    {
        max[i] = -__builtin_inff();
        UNROLL for (int k = 0; k < QUARTERS; k++)
            max[i] = max32(l->max[k * EXACT_TILE_ROWS + x->row + 8 * i], max[i]);
        from[i] = max[i] == -__builtin_inff() ? 0 : max[i];
    }
    NO_UNROLL for (int k = 0; k < QUARTER_PAGES; k++) /* the weights take the scores' places */
    {
        int index = exact_page_at(x, k), all = exact_sees_page(x, c, index);
        f32x4 of_value = next;
        if (k + 1 < QUARTER_PAGES) next = exact_lane_values(x, c, k + 1, d16, int4);
        UNROLL for (int i = 0; i < 2; i++)
        {
            f32x4 p, w = {0, 0, 0, 0}, s = score[i][0];
            if (!exact_page_counts(c, index)) {
                exact_push(score[i], w);
                continue;
            }
            UNROLL for (int e = 0; e < 4; e++) p[e] = exact_exp_below(s[e] - from[i]);
            w = p * of_value;
            if (!all) /* scales of values that a row does not see may be anything */
                UNROLL for (int e = 0; e < 4; e++) if (s[e] == -__builtin_inff()) w[e] = 0;
            UNROLL for (int e = 0; e < 4; e++) maximum[i] = larger_bits(w[e], maximum[i]);
            *(f32x4 *)(l->p + (x->row + 8 * i) * WEIGHT_STRIDE + index * PAGE + 4 * t) = p;
            exact_push(score[i], w);
        }
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        maximum[i] = most_of_lanes(maximum[i], 4);
        if (t == 0) l->most[x->quarter * EXACT_TILE_ROWS + x->row + 8 * i] = maximum[i];
    }
    barrier();
    struct int_scale s[2];
    UNROLL for (int i = 0; i < 2; i++)
    {
        UNROLL for (int k = 0; k < QUARTERS; k++)
        {
            int other = l->most[k * EXACT_TILE_ROWS + x->row + 8 * i];
            maximum[i] = other > maximum[i] ? other : maximum[i];
        }
        s[i] = int_scale_of(maximum[i], EXACT_WEIGHT_TOP);
        scale[i] = s[i].scale;
    }
    UNROLL for (int k = 0; k < QUARTER_PAGES; k++) UNROLL for (int i = 0; i < 2; i++)
    {
        int index = exact_page_at(x, k);
        u32 *digits = l->w + (x->row + 8 * i) * DIGIT_STRIDE + index * (PAGE / 4) + t;
        if (exact_page_counts(c, index))
            exact_weight_digits(score[i][k], s[i].inverse, digits,
                                digits + EXACT_TILE_ROWS * DIGIT_STRIDE);
    }
    barrier();
}

/* The sums of the weights of a warp's rows, in 16 lanes folded 8, 4, 2, 1: 16 threads to a row. */
DEVICE void exact_tile_sums(const struct exact_tile_lds *l, const struct exact_tile_chunk *c)
{
    int warp = thread() / WARP, lane = thread() % EXACT_LANES,
        r = warp % 2 * 16 + warp / 2 * 2 + thread() % WARP / EXACT_LANES;
    const float *p = l->p + r * WEIGHT_STRIDE + c->from * PAGE + lane;
    float sum[2] = {0, 0};
    UNROLL_8 for (int i = c->from; i <= c->to; i++, p += PAGE) UNROLL for (int k = 0; k < 2; k++)
        sum[k] += p[8 * k * WEIGHT_STRIDE];
    UNROLL for (int k = 0; k < 2; k++)
    {
        UNROLL for (int i = EXACT_LANES / 2; i; i /= 2)
            sum[k] += f32_of(shuffle_xor(bits_of(sum[k]), i));
        if (lane == 0) l->sum[r + 8 * k] = sum[k];
    }
}

/* Loads values of four positions, number t of a page, at dimensions d .. d + words - 1. */
DEVICE void exact_page_values(const u8 *page, int t, int d, int d16, u32 v[8], const int words)
{
    const u32 *codes = (const u32 *)(page + int8_value_at(d, 4 * t, d16));
    if (words % 4 == 0) { /* d is a multiple of 4 */
        UNROLL for (int j = 0; j < words; j += 4)
        {
            u32x4 four = {0, 0, 0, 0};
            if (d + j < d16) four = *(const u32x4 *)(codes + j);
            UNROLL for (int i = 0; i < 4; i++) v[j + i] = four[i];
        }
        return;
    }
    UNROLL for (int j = 0; j < words; j += 2)
    {
        u64 two = d + j < d16 ? *(const u64 *)(codes + j) : 0;
        v[j] = (u32)two;
        v[j + 1] = (u32)(two >> 32);
    }
}
DEVICE void exact_packed_values(const u8 *page, int t, int d, int d16, u32 v[8], const int words)
{
    UNROLL for (int j = 0; j < words; j += 2)
    {
        u32 lo = 0, step = 0, code = 0;
        if (d + j < d16) {
            code = *(const u32 *)(page + int4_part_at(1, d16) + (u32)((t * d16 + d + j) * 2));
            lo = *(const u16 *)(page + int4_lo_at(1, d16) + (u32)(d + j));
            step = *(const u16 *)(page + int4_step_at(1, d16) + (u32)(d + j));
        }
        UNROLL for (int e = 0; e < 2; e++) v[j + e] = int4_row_bytes(code, lo, step, e, e);
    }
}

/* Loads the values of two pages, number 2k and 2k + 1 of the chunk. Of int4 a page outside c->from
 * .. c->to is replaced by the nearest one inside, because open pages end there; its weights are
 * 0. */
DEVICE void exact_two_pages(const struct exact_lane_rows *x, const struct exact_tile_chunk *c,
                            int d, int d16, int k, u32 v[2][8], const int words, const int int4)
{
    UNROLL for (int i = 0; i < 2; i++)
    {
        int to = int4 ? c->to : TILE_PAGES - 1, index = 2 * k + i < to ? 2 * k + i : to, packed;
        if (int4 && index < c->from) index = c->from;
        const u8 *page = exact_tile_page(x, c, index, &packed, int4);
        if (packed) exact_packed_values(page, thread() % 4, d, d16, v[i], words);
        else exact_page_values(page, thread() % 4, d, d16, v[i], words);
    }
}

/* Adds the products of the weights of two pages and their values. */
DEVICE void exact_add_values(const u32 *weights, const u32 v[2][8], int high[8][4], int low[8][4],
                             const int words)
{
    u32 w[2][4];
    UNROLL for (int n = 0; n < 2; n++) UNROLL for (int i = 0; i < 4; i++)
        w[n][i] = weights[(n * EXACT_TILE_ROWS + i % 2 * 8) * DIGIT_STRIDE + i / 2 * (PAGE / 4)];
    UNROLL for (int j = 0; j < words; j++)
    {
        mma_s8(high[j], w[0][0], w[0][1], w[0][2], w[0][3], v[0][j], v[1][j]);
        mma_s8(low[j], w[1][0], w[1][1], w[1][2], w[1][3], v[0][j], v[1][j]);
    }
}

/* The sums of the weights and codes of a warp's dimensions: sum[j][2i + e] of row i and dimension
 * first + words (2t + e) + j. */
DEVICE void exact_tile_values(const struct exact_tile_lds *l, const struct exact_lane_rows *x,
                              const struct exact_tile_chunk *c, int first_dim, int d16,
                              int sum[][4], const int words, const int int4)
{
    int d = first_dim + words * (thread() % WARP / 4), k = c->from / 2, last = c->to / 2,
        high[8][4], low[8][4];
    const u32 *w = l->w + x->row * DIGIT_STRIDE + k * (PAGE / 2) + thread() % 4;
    u32 next[2][2][8]; /* values of two steps; the next ones are loaded while these are
                          multiplied */
    UNROLL for (int j = 0; j < words; j++) UNROLL for (int e = 0; e < 4; e++)
        high[j][e] = low[j][e] = 0;
    UNROLL for (int n = 0; n < 2; n++) exact_two_pages(x, c, d, d16, k + n, next[n], words, int4);
    exact_tile_sums(l, c); /* while the first values are on their way */
    NO_UNROLL for (; k <= last; k += 2, w += PAGE) UNROLL for (int n = 0; n < 2; n++)
    {
        if (k + n > last) continue;
        exact_add_values(w + n * (PAGE / 2), next[n], high, low, words);
        exact_two_pages(x, c, d, d16, k + n + 2, next[n], words, int4);
    }
    UNROLL for (int j = 0; j < words; j++) UNROLL for (int e = 0; e < 4; e++)
        sum[j][e] = high[j][e] * 128 + low[j][e];
}

/* Writes a lane's results of its row number i. */
DEVICE void exact_write_row(float *to, int d, int hd, float run[][4], int i, float f,
                            const int words)
{
    UNROLL for (int e = 0; e < 2; e++) UNROLL for (int j = 0; j < words; j += 2)
    {
        int index = d + words * e + j;
        float y[2] = {run[j][2 * i + e] * f, run[j + 1][2 * i + e] * f};
        if (hd % 2 == 0) {
            if (index < hd) *(u64 *)(to + index) = (u64)bits_of(y[0]) | (u64)bits_of(y[1]) << 32;
            continue;
        }
        UNROLL for (int n = 0; n < 2; n++) if (index + n < hd) to[index + n] = y[n];
    }
}

DEVICE struct exact_lane_rows exact_lane_rows_of(const struct attend_kernel_args *a,
                                                 const struct exact_row_range *g,
                                                 const struct exact_tile_lds *l, int kv_head,
                                                 const int int4)
{
    struct exact_lane_rows x;
    int warp = thread() / WARP, of_warp = warp % 2 * 16;
    x.row = of_warp + thread() % WARP / 4;
    x.quarter = warp / 2;
    x.own = -1;
    UNROLL for (int i = 0; i < 2; i++)
    {
        int r = x.row + 8 * i;
        x.query[i] = l->query[r];
        x.seen[i] = r >= g->begin && r < g->n ? g->pos0 + r : -1;
        x.first[i] = first_seen(g->pos0 + r, a->window);
    }
    x.from = x.first[0] > x.first[1] ? x.first[0] : x.first[1];
    x.to = x.seen[0] < x.seen[1] ? x.seen[0] : x.seen[1];
    x.last = g->pos0 + (of_warp + 15 < g->n ? of_warp + 15 : g->n - 1);
    if (!int4) return x;
    x.own = (g->pos0 + of_warp) / PAGE;
    if (of_warp < g->begin) of_warp = g->begin;
    x.own_page = own_page_of(a, g->row0 + (of_warp < g->n ? of_warp : g->n - 1), kv_head);
    return x;
}

DEVICE void exact_attend_tile(const struct attend_kernel_args *a, const struct exact_tile_lds *l,
                              const int dims, const int int4)
{
    const int words = dims / QUARTERS / 8;
    int t = thread() % 4, head = block_x(), hd = a->head_dim,
        kv_head = head / (a->n_heads / a->n_kv_heads);
    const struct exact_row_range g = exact_rows_of(a, EXACT_TILE_ROWS, int4);
    if (g.n <= g.begin) {
        wait_for_producer();
        return;
    }
    struct exact_tile_chunk c = exact_tile_chunk_of(&g, l, g.first0 / KV_SPLIT * KV_SPLIT);
    exact_look_up(a, &g, &c, kv_head, int4);
    wait_for_producer(); /* for queries, keys and values; tiles and tables are made once a step */
    exact_tile_queries(a, &g, l, dims);
    barrier();
    struct exact_lane_rows x = exact_lane_rows_of(a, &g, l, kv_head, int4);
    float run[8][4], run_max[2], run_sum[2];
    UNROLL for (int j = 0; j < words; j++) UNROLL for (int e = 0; e < 4; e++) run[j][e] = 0;
    UNROLL for (int i = 0; i < 2; i++) run_max[i] = -__builtin_inff(), run_sum[i] = 0;
    for (int c0 = g.first0 / KV_SPLIT * KV_SPLIT; c0 <= g.last; c0 += KV_SPLIT) {
        int sum[8][4];
        f32x4 score[2][QUARTER_PAGES];
        float max[2], scale[2];
        const struct exact_tile_chunk next = exact_tile_chunk_of(&g, l, c0 + KV_SPLIT);
        exact_look_up(a, &g, &next, kv_head, int4);
        if (c.to > x.last / PAGE - c.page0) c.to = x.last / PAGE - c.page0;
        if (c.to < c.from) c.to = c.from; /* no row sees anything, all weights are 0 */
        exact_tile_scores(a, l, &x, &c, score, dims, int4);
        exact_tile_weights(a, l, &x, &c, score, max, scale, int4);
        exact_tile_values(l, &x, &c, x.quarter * (dims / QUARTERS), round16(hd), sum, words, int4);
        barrier();
        c = next;
        UNROLL for (int i = 0; i < 2; i++)
        {
            if (!(max[i] > -__builtin_inff())) continue;
            float m = run_max[i] > max[i] ? run_max[i] : max[i], old = exact_exp(run_max[i] - m),
                  now = exact_exp(max[i] - m);
            run_max[i] = m;
            run_sum[i] = run_sum[i] * old + l->sum[x.row + 8 * i] * now;
            UNROLL for (int j = 0; j < words; j++) UNROLL for (int e = 2 * i; e < 2 * i + 2; e++)
                run[j][e] = run[j][e] * old + (float)sum[j][e] * scale[i] * now;
        }
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        float f = exact_factor(run_sum[i], run_max[i], a->sinks, head);
        float *to = a->out +
                    ((u64)(g.row0 + x.row + 8 * i) * (u64)a->n_heads + (u64)head) * (u64)hd;
        if (x.row + 8 * i >= g.begin && x.row + 8 * i < g.n)
            exact_write_row(to, x.quarter * (dims / QUARTERS) + words * 2 * t, hd, run, i, f,
                            words);
    }
}

#define EXACT_ATTEND_MMA(name, images, dims, blocks)                                               \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(float, max, QUARTERS *EXACT_TILE_ROWS);                                                \
        LDS(float, sum, EXACT_TILE_ROWS);                                                          \
        LDS(int, maximum, QUARTERS *EXACT_TILE_ROWS);                                              \
        LDS(float, query, EXACT_TILE_ROWS);                                                        \
        LDS(const u8 *, page, 2 * TILE_PAGES);                                                     \
        u32 *w = dynamic_lds + EXACT_TILE_ROWS * WEIGHT_STRIDE;                                    \
        const struct exact_tile_lds l = {(float *)dynamic_lds,                                     \
                                         w,                                                        \
                                         max,                                                      \
                                         sum,                                                      \
                                         maximum,                                                  \
                                         query,                                                    \
                                         (u32x4 *)(w + 2 * EXACT_TILE_ROWS * DIGIT_STRIDE),        \
                                         page};                                                    \
        const struct attend_kernel_args *a = EARLY_ARGS;                                           \
        if (a->open.own) exact_attend_tile(a, &l, dims, 1);                                        \
        else exact_attend_tile(a, &l, dims, 0);                                                    \
    })
#include "backend-hip/kernels/nvidia/list.h"
