/* attend_matrix.hip: attention of prompt rows by AMD's matrix instructions (matrix.h): over pages
 * of int8 and int4 in the order of the CPU backend, to the bit (common/exact_attend_int8.hip says
 * it), and with fp16 activations over pages of fp16.
 *   grid      (tile of 16 matrix rows, group of up to 64 rows of a sequence, KV head). Matrix rows
 *             are the group's rows times the query heads of the KV head, one row's heads beside
 *             each other; 4 waves
 *   scores    of a chunk of 256 positions a wave has every fourth page. A lane loads 16 bytes of a
 *             key, of dimensions that the queries in its registers agree with
 *   weights   16 threads have a row, each a position of every page, as the 16 lanes of the CPU's
 *             sums: maximum, exponentials, their sum and digits in registers
 *   values    a wave has a quarter of the dimensions; words of 4 positions as they lie, halves
 *             after a transposition in registers
 * Scores are in shared memory, and the weights in their place. fp16: queries in two halves, softmax
 * weights in one; the weights of a chunk are relative to the largest score that the row has seen.
 * Bits: chunks are at absolute positions, those of other rows change nothing. */
#include "backend-hip/kernels/amd/matrix.h"

/* floats between rows of scores; bytes between the digits of a row of weights */
enum { ATTEND_WAVES = 4, CHUNK_PAGES = KV_SPLIT / PAGE, SCORE_STRIDE = KV_SPLIT + 4 };
enum { SECOND_DIGITS = KV_SPLIT + 16 };

/* Of a block, by matrix row [MATRIX] unless said. */
struct matrix_attend_lds {
    float *score;    /* SCORE_STRIDE apart; first the queries, then also the weights */
    float *of_value; /* [KV_SPLIT] scales of a chunk's values */
    float *query;    /* factors of the scores */
    float *max, *sum, *old, *now, *scale; /* of the chunks before; factors of a chunk, old -1: the
                                             row does not see it; at last scale is the result's */
};

/* The matrix rows of a block and the pages that they read. */
struct matrix_attend_tile {
    struct exact_row_range g;
    int kv_head, of_kv, row0, first, last; /* matrix row row0 on; positions that they see */
    const u8 *pages, *own_page;            /* of the KV head; int4: of int8, which all rows are in */
    const int *table;
    u64 page_bytes; /* between pages of the KV head */
    int own;        /* number of own_page; -1: none is packed */
};

/* v of the 16 lanes with this one, which go round. On the host 32 threads arrive. */
#if defined(__AMDGCN__)
#define ROTATE_16(v, by) ((u32)__builtin_amdgcn_update_dpp(0, (int)(v), 0x120 + (by), 0xf, 0xf, 1))
#else
#define ROTATE_16(v, by) fiber_shuffle(v, (fiber_thread & 16) | ((fiber_thread + (by)) & 15))
#endif

DEVICE float max_of_16(float x)
{
    x = max32(f32_of(ROTATE_16(bits_of(x), 8)), x);
    x = max32(f32_of(ROTATE_16(bits_of(x), 4)), x);
    x = max32(f32_of(ROTATE_16(bits_of(x), 2)), x);
    return max32(f32_of(ROTATE_16(bits_of(x), 1)), x);
}
DEVICE int larger_int(int a, int b) { return a > b ? a : b; }
DEVICE int most_of_16(int x)
{
    x = larger_int((int)ROTATE_16((u32)x, 8), x);
    x = larger_int((int)ROTATE_16((u32)x, 4), x);
    x = larger_int((int)ROTATE_16((u32)x, 2), x);
    return larger_int((int)ROTATE_16((u32)x, 1), x);
}
/* As exact_fold(). */
DEVICE float fold_of_16(float x)
{
    x += f32_of(ROTATE_16(bits_of(x), 8));
    x += f32_of(ROTATE_16(bits_of(x), 4));
    x += f32_of(ROTATE_16(bits_of(x), 2));
    return x + f32_of(ROTATE_16(bits_of(x), 1));
}

/* n neighbouring words. */
DEVICE void load_words(const u8 *p, const int n, u32 *to)
{
    if (n == 1) to[0] = *(const u32 *)p;
    if (n == 2) {
        u32x2 v = *(const u32x2 *)p;
        UNROLL for (int i = 0; i < 2; i++) to[i] = v[i];
    }
    if (n == 4) {
        u32x4 v = *(const u32x4 *)p;
        UNROLL for (int i = 0; i < 4; i++) to[i] = v[i];
    }
}

/* Row of the group, and head, of a matrix row; whether there is one. */
DEVICE int matrix_row_exists(const struct matrix_attend_tile *x, int m, int *row, int *head)
{
    int i = x->row0 + m;
    *row = i / x->of_kv;
    *head = x->kv_head * x->of_kv + i % x->of_kv;
    return *row >= x->g.begin && *row < x->g.n;
}

/* Returns 0 if there are no rows. */
DEVICE int matrix_attend_tile_of(const struct attend_kernel_args *a, struct matrix_attend_tile *x,
                                 const int half)
{
    int int4 = !half && a->open.own, hd = a->head_dim, begin, end;
    u64 bytes = half   ? 2 * head_page(hd)
                : int4 ? (u64)INT4_PAGE(hd)
                       : (u64)INT8_PAGE(hd);
    x->g = exact_rows_of(a, GROUP_ROWS, int4);
    if (x->g.n <= x->g.begin) return 0;
    x->kv_head = block_z();
    x->of_kv = a->n_heads / a->n_kv_heads;
    x->row0 = block_x() * MATRIX;
    begin = x->row0 / x->of_kv;
    end = (x->row0 + MATRIX - 1) / x->of_kv;
    begin = begin < x->g.begin ? x->g.begin : begin;
    end = end < x->g.n ? end : x->g.n - 1;
    if (begin > end) return 0;
    x->first = first_seen(x->g.pos0 + begin, a->window);
    x->last = x->g.pos0 + end;
    x->pages = (const u8 *)a->pages + (u64)x->kv_head * bytes;
    x->page_bytes = (u64)a->n_kv_heads * bytes;
    x->table = x->g.table;
    x->own = int4 ? x->last / PAGE : -1;
    x->own_page = int4 ? own_page_of(a, x->g.row0 + begin, x->kv_head) : x->pages;
    return 1;
}

/* A page of the sequence, the same in all lanes of a wave. */
DEVICE const u8 *matrix_page_of(const struct matrix_attend_tile *x, int index)
{
    u32 page;
    if (index == x->own) return x->own_page;
    uniform_words(x->table + index, 1, &page);
    return x->pages + page * x->page_bytes;
}
DEVICE int matrix_is_packed(const struct matrix_attend_tile *x, int index) { return index < x->own; }

/* A lane's operands of a query or key: 16 bytes of every four pieces of 16 bytes, of each of which
 * a matrix instruction takes registers in turn. */
enum { MOST_QUERY_WORDS = GPU_HEAD_DIM / 16 };

/* Queries to shared memory [2 parts][MATRIX][row bytes]: digits or halves, of which the second
 * part is the lower one. */
DEVICE void matrix_put_queries(const struct attend_kernel_args *a,
                               const struct matrix_attend_lds *l,
                               const struct matrix_attend_tile *x, int m, const int dims,
                               const int half)
{
    const int bytes = half ? 2 * dims : dims;
    int lane = thread() % 16, hd = a->head_dim, row, head, most = 0;
    int exists = matrix_row_exists(x, m, &row, &head);
    const float *q =
        a->q + ((u64)(x->g.row0 + (exists ? row : x->g.begin)) * (u64)a->n_heads + (u64)head) *
                   (u64)hd;
    float v[GPU_HEAD_DIM / 16];
    u8 *first = (u8 *)l->score + m * bytes, *second = first + MATRIX * bytes;
    UNROLL for (int j = 0; j < dims / 16; j++)
    {
        int d = lane + 16 * j;
        v[j] = d < hd ? q[d] : 0;
        most = larger_bits(v[j], most);
    }
    most = most_of_16(most);
    if (half) {
        int exponent = most >> 23 > 27 ? most >> 23 : 27;
        float factor = f32_of((u32)(268 - exponent) << 23);
        UNROLL for (int j = 0; j < dims / 16; j++)
        {
            float of = v[j] * factor;
            f16 high = (f16)of;
            ((f16 *)first)[lane + 16 * j] = high;
            ((f16 *)second)[lane + 16 * j] = (f16)(of - (float)high);
        }
        if (lane == 0) l->query[m] = f32_of((u32)(exponent - 14) << 23) * a->scale;
    } else {
        struct int_scale s = int_scale_of(most, exact_query_top(a->digits));
        UNROLL for (int j = 0; j < dims / 16; j++)
        {
            int n = rounded_int(v[j], s.inverse), d = lane + 16 * j;
            if (a->digits == 2) put_digits(first + d, second + d, n);
            else second[d] = (u8)n;
        }
        if (lane == 0) l->query[m] = s.scale;
    }
    if (lane == 0) l->max[m] = -__builtin_inff(), l->sum[m] = 0;
}

/* A lane's pieces of a page's keys, of its position. pieces: that a key has */
DEVICE void matrix_keys(const u8 *page, int packed, int pieces, u32x4 k[][4], const int parts,
                        const int kind)
{
    int lane = thread() % matrix_lanes(kind), position = lane % MATRIX;
    UNROLL for (int c = 0; c < parts; c++) UNROLL for (int i = 0; i < matrix_words(kind); i++)
    {
        int piece = 4 * c + matrix_word(kind, lane, i);
        piece = piece < pieces ? piece : 0; /* the query is 0 there */
        if (packed)
            k[c][i] = int4_key_piece(page, int8_key_at(16 * piece, position), 16 * piece,
                                     16 * pieces);
        else k[c][i] = *(const u32x4 *)(page + (u32)((piece * PAGE + position) * 16));
    }
}

/* The scores of a wave's pages of the chunk that begins at page page0. q: [2 parts] */
DEVICE void matrix_scores(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                          const struct matrix_attend_tile *x, u32x4 q[2][MOST_QUERY_WORDS / 4][4],
                          int page0, int from, int to, const int dims, const int half,
                          const int kind)
{
    const int words = matrix_words(kind), values = matrix_values(kind),
              parts = half ? dims / 32 : dims / 64;
    int lane = thread() % matrix_lanes(kind), wave = uniform_int(thread() / matrix_lanes(kind)),
        pieces = half ? round8(a->head_dim) / 8 : round16(a->head_dim) / 16,
        digits = half ? 2 : a->digits;
    /* the first page from `from` on whose number is the wave's, modulo the waves */
    int at = from + ((wave - from) & (ATTEND_WAVES - 1));
    u32x4 next[MOST_QUERY_WORDS / 4][4];
    if (at <= to)
        matrix_keys(matrix_page_of(x, page0 + at), matrix_is_packed(x, page0 + at), pieces, next,
                    parts, kind);
    NO_UNROLL for (; at <= to; at += ATTEND_WAVES)
    {
        u32x4 k[MOST_QUERY_WORDS / 4][4];
        float score[8];
        UNROLL for (int c = 0; c < parts; c++) UNROLL for (int i = 0; i < words; i++)
            k[c][i] = next[c][i];
        int packed = matrix_is_packed(x, page0 + at), column = at * PAGE + lane % MATRIX;
        const u8 *page = matrix_page_of(x, page0 + at);
        float of_key = 0;
        if (!half) {
            const float *scales = (packed ? int4_scales_of(page, 16 * pieces)
                                          : int8_scales_of(page, 16 * pieces)) +
                                  lane % MATRIX;
            of_key = scales[0];
            l->of_value[column] = scales[PAGE];
        }
        if (at + ATTEND_WAVES <= to)
            matrix_keys(matrix_page_of(x, page0 + at + ATTEND_WAVES),
                        matrix_is_packed(x, page0 + at + ATTEND_WAVES), pieces, next, parts, kind);
        if (half) {
            UNROLL for (int v = 0; v < values; v++) score[v] = 0;
            UNROLL for (int n = 0; n < 2; n++) UNROLL for (int c = 0; c < parts; c++)
                matrix_add_chunk(kind, q[n][c], k[c], score);
        } else {
            int first[8], second[8];
            UNROLL for (int v = 0; v < values; v++) first[v] = second[v] = 0;
            UNROLL for (int c = 0; c < parts; c++)
            {
                if (digits == 2) matrix_add_pieces_s8(kind, q[0][c], k[c], first);
                matrix_add_pieces_s8(kind, q[1][c], k[c], second);
            }
            UNROLL for (int v = 0; v < values; v++) score[v] = (float)(first[v] * 128 + second[v]);
        }
        UNROLL for (int v = 0; v < values; v++)
        {
            int m = matrix_row(kind, lane, v);
            float of_query = l->query[m];
            l->score[m * SCORE_STRIDE + column] =
                half ? score[v] * of_query : score[v] * (of_query * of_key) * a->scale;
        }
    }
}

/* The scores of a row become weights: digits of the weights times the scales of their values, or
 * halves of 2^14 times the weights. */
DEVICE void matrix_weights(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                           const struct matrix_attend_tile *x, int m, int c0, const int half)
{
    int lane = thread() % 16, row, head, exists = matrix_row_exists(x, m, &row, &head),
        pos = exists ? x->g.pos0 + row : -1, first = first_seen(x->g.pos0 + row, a->window);
    float *of_row = l->score + m * SCORE_STRIDE, w[CHUNK_PAGES], max = -__builtin_inff(), sum = 0,
          all_max = l->max[m], all_sum = l->sum[m], old, now = 1, scale = 1;
    if (a->softcap > 0)
        NO_UNROLL for (int i = lane; i < KV_SPLIT; i += 16)
            of_row[i] = a->softcap * (half ? tanh32(of_row[i] * rcp32(a->softcap))
                                           : exact_tanh(of_row[i] / a->softcap));
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
    {
        int p = c0 + i * PAGE + lane;
        float score = of_row[i * PAGE + lane];
        w[i] = p <= pos && p >= first ? score : -__builtin_inff();
        max = max32(w[i], max);
    }
    max = max_of_16(max);
    float larger = all_max > max ? all_max : max, from = half ? larger : max;
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
    {
        int p = c0 + i * PAGE + lane;
        float weight = exact_exp(w[i] - from);
        w[i] = p <= pos && p >= first ? weight : 0;
        sum += w[i];
    }
    sum = fold_of_16(sum);
    if (half) {
        UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
            ((f16 *)of_row)[i * PAGE + lane] = (f16)(w[i] * 0x1p14f);
    } else {
        int most = 0;
        UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
        {
            int p = c0 + i * PAGE + lane;
            float of_value = l->of_value[i * PAGE + lane];
            w[i] = p <= pos && p >= first ? w[i] * of_value : 0;
            most = larger_bits(w[i], most);
        }
        struct int_scale s = int_scale_of(most_of_16(most), EXACT_WEIGHT_TOP);
        UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
        {
            u8 *to = (u8 *)of_row + i * PAGE + lane;
            put_digits(to, to + SECOND_DIGITS, rounded_int(w[i], s.inverse));
        }
        scale = s.scale;
    }
    if (lane) return;
    old = -1;
    if (max > -__builtin_inff()) {
        old = exact_exp(all_max - larger);
        if (!half) now = exact_exp(max - larger);
        l->max[m] = larger;
        l->sum[m] = all_sum * old + sum * now;
    }
    l->old[m] = old;
    l->now[m] = now;
    l->scale[m] = scale;
}

/* Number of a lane's i-th word of 4 positions of a page. */
DEVICE int matrix_positions(const int kind, int lane, int i)
{
    return kind == MATRIX_MFMA ? lane / MATRIX : kind == MATRIX_WMMA ? i : lane / MATRIX * 2 + i;
}

/* Word number `four` of positions of `tiles` neighbouring dimensions from d on. */
DEVICE void matrix_values_s8(const u8 *page, int packed, int four, int d, int d16, u32 v[4],
                             const int tiles)
{
    if (!packed) {
        load_words(page + int8_value_at(d, 4 * four, d16), tiles, v);
        return;
    }
    const u8 *codes = page + int4_part_at(1, d16) + (u32)((four * d16 + d / 2 * 2) * 2),
             *lo = page + int4_lo_at(1, d16) + (u32)d, *step = page + int4_step_at(1, d16) + (u32)d;
    if (tiles == 1) {
        v[0] = int4_row_bytes(*(const u32 *)codes >> (4 * (d % 2)), *lo, *step, 0, 0);
        return;
    }
    UNROLL for (int j = 0; j < tiles; j++)
        v[j] = int4_row_bytes(((const u32 *)codes)[j / 2], ((const u16 *)lo)[j / 2],
                              ((const u16 *)step)[j / 2], j % 2, j % 2);
}

/* Adds the weighted values of a chunk to those before. d: a lane's first dimension; tiles:
 * neighbouring ones that it has */
DEVICE void matrix_add_values_s8(const struct matrix_attend_lds *l,
                                 const struct matrix_attend_tile *x, int page0, int from, int to,
                                 int d, int d16, float run[4][8], const int tiles, const int kind)
{
    const int words = matrix_words(kind), values = matrix_values(kind);
    int lane = thread() % matrix_lanes(kind), first[4][8], second[4][8];
    const u8 *weights = (const u8 *)(l->score + lane % MATRIX * SCORE_STRIDE);
    d = d < d16 ? d : 0;
    UNROLL for (int j = 0; j < tiles; j++) UNROLL for (int v = 0; v < values; v++)
        first[j][v] = second[j][v] = 0;
    NO_UNROLL for (int k = from / 2; k <= to / 2; k++)
    {
        u32 w[2][8], v[4][8];
        UNROLL for (int n = 0; n < 2; n++)
        {
            int at = 2 * k + n, four = matrix_positions(kind, lane, 0);
            UNROLL for (int digit = 0; digit < 2; digit++)
                load_words(weights + digit * SECOND_DIGITS + at * PAGE + 4 * four, words,
                           w[digit] + n * words);
            at = at < from ? from : at > to ? to : at; /* the weights are 0 */
            const u8 *page = matrix_page_of(x, page0 + at);
            int packed = matrix_is_packed(x, page0 + at);
            UNROLL for (int i = 0; i < words; i++)
            {
                u32 of[4];
                matrix_values_s8(page, packed, matrix_positions(kind, lane, i), d, d16, of, tiles);
                UNROLL for (int j = 0; j < tiles; j++) v[j][n * words + i] = of[j];
            }
        }
        UNROLL for (int j = 0; j < tiles; j++)
        {
            matrix_add_words_s8(kind, w[0], v[j], first[j]);
            matrix_add_words_s8(kind, w[1], v[j], second[j]);
        }
    }
    UNROLL for (int v = 0; v < values; v++)
    {
        int m = matrix_row(kind, lane, v);
        float old = l->old[m], now = l->now[m], scale = l->scale[m];
        UNROLL for (int j = 0; j < tiles; j++)
        {
            float all = (float)(first[j][v] * 128 + second[j][v]) * scale;
            run[j][v] = old < 0 ? run[j][v] : run[j][v] * old + all * now;
        }
    }
}

/* The same of halves: 16 bits of dimension j of 4 positions are a lane's word. */
DEVICE void matrix_add_values_f16(const struct matrix_attend_lds *l,
                                  const struct matrix_attend_tile *x, int page0, int from, int to,
                                  int d, int d8, float run[4][8], const int tiles, const int kind)
{
    const int words = matrix_words(kind), values = matrix_values(kind);
    int lane = thread() % matrix_lanes(kind), four = matrix_positions(kind, lane, 0);
    const u8 *weights = (const u8 *)(l->score + lane % MATRIX * SCORE_STRIDE) + 8 * four;
    d = d < d8 ? d : 0;
    UNROLL for (int v = 0; v < values; v++)
    {
        float old = l->old[matrix_row(kind, lane, v)];
        UNROLL for (int j = 0; j < tiles; j++) run[j][v] = old < 0 ? run[j][v] : run[j][v] * old;
    }
    NO_UNROLL for (int at = from; at <= to; at++)
    {
        u32 w[8], v[2][8];
        const u16 *value = (const u16 *)matrix_page_of(x, page0 + at) + (u32)(PAGE * d8 + d);
        int left = x->last - (page0 + at) * PAGE; /* stale memory may hold NaN */
        UNROLL for (int i = 0; i < words; i++)
        {
            int p0 = 4 * matrix_positions(kind, lane, i);
            u32 of[4];
            load_words(weights + at * PAGE * 2 + 8 * i, 2, w + 2 * i);
            UNROLL for (int e = 0; e < 4; e++)
            {
                const u16 *from_value = value + (u32)((p0 + e) * d8);
                of[e] = tiles == 1 ? *from_value : *(const u32 *)from_value;
                of[e] = p0 + e <= left ? of[e] : 0;
            }
            UNROLL for (int j = 0; j < tiles; j++) UNROLL for (int e = 0; e < 2; e++)
                v[j][2 * i + e] = chosen_bytes(of[2 * e], of[2 * e + 1], j ? 0x7632 : 0x5410);
        }
        UNROLL for (int j = 0; j < tiles; j++) matrix_multiply_add(kind, w, v[j], run[j]);
    }
}

DEVICE void attend_matrix(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                          const int dims, const int half, const int kind)
{
    const int lanes = matrix_lanes(kind), words = matrix_words(kind), values = matrix_values(kind),
              threads = ATTEND_WAVES * lanes, tiles = dims / ATTEND_WAVES / MATRIX,
              parts = half ? dims / 32 : dims / 64, bytes = half ? 2 * dims : dims;
    int lane = thread() % lanes, wave = uniform_int(thread() / lanes), hd = a->head_dim,
        d = wave * (dims / ATTEND_WAVES) + tiles * (lane % MATRIX);
    struct matrix_attend_tile x;
    u32x4 q[2][MOST_QUERY_WORDS / 4][4];
    float run[4][8];
    if (!matrix_attend_tile_of(a, &x, half)) return;
    NO_UNROLL for (int m = thread() / 16; m < MATRIX; m += threads / 16)
        matrix_put_queries(a, l, &x, m, dims, half);
    barrier();
    UNROLL for (int n = 0; n < 2; n++) UNROLL for (int c = 0; c < parts; c++)
        UNROLL for (int i = 0; i < words; i++) q[n][c][i] =
            *(const u32x4 *)((const u8 *)l->score + (n * MATRIX + lane % MATRIX) * bytes +
                             16 * (4 * c + matrix_word(kind, lane, i)));
    UNROLL for (int j = 0; j < tiles; j++) UNROLL for (int v = 0; v < values; v++) run[j][v] = 0;
    barrier();
    NO_UNROLL for (int c0 = x.first / KV_SPLIT * KV_SPLIT; c0 <= x.last; c0 += KV_SPLIT)
    {
        int page0 = c0 / PAGE, from = x.first > c0 ? (x.first - c0) / PAGE : 0,
            to = x.last - c0 < KV_SPLIT ? (x.last - c0) / PAGE : CHUNK_PAGES - 1;
        matrix_scores(a, l, &x, q, page0, from, to, dims, half, kind);
        barrier();
        NO_UNROLL for (int m = thread() / 16; m < MATRIX; m += threads / 16)
            matrix_weights(a, l, &x, m, c0, half);
        barrier();
        if (half)
            matrix_add_values_f16(l, &x, page0, from, to, d, round8(hd), run, tiles, kind);
        else matrix_add_values_s8(l, &x, page0, from, to, d, round16(hd), run, tiles, kind);
        barrier();
    }
    NO_UNROLL for (int m = thread(); m < MATRIX; m += threads)
    {
        int row, head;
        matrix_row_exists(&x, m, &row, &head);
        l->scale[m] = exact_factor(l->sum[m], l->max[m], a->sinks, head) * (half ? 0x1p-14f : 1);
    }
    barrier();
    UNROLL for (int v = 0; v < values; v++)
    {
        int m = matrix_row(kind, lane, v), row, head;
        if (!matrix_row_exists(&x, m, &row, &head)) continue;
        float *to = a->out + ((u64)(x.g.row0 + row) * (u64)a->n_heads + (u64)head) * (u64)hd;
        UNROLL for (int j = 0; j < tiles; j++) if (d + j < hd) to[d + j] = run[j][v] * l->scale[m];
    }
}

#define ATTEND_MATRIX(name, images, kind, threads, dims, half)                                     \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(f32x4, score, MATRIX *SCORE_STRIDE / 4);                                               \
        LDS(float, of_value, KV_SPLIT);                                                            \
        LDS(float, rows, 6 * MATRIX);                                                              \
        const struct matrix_attend_lds l = {(float *)score,                                        \
                                            of_value,                                              \
                                            rows,                                                  \
                                            rows + MATRIX,                                         \
                                            rows + 2 * MATRIX,                                     \
                                            rows + 3 * MATRIX,                                     \
                                            rows + 4 * MATRIX,                                     \
                                            rows + 5 * MATRIX};                                    \
        attend_matrix(ARGS, &l, dims, half, kind);                                                 \
    })
#include "backend-hip/kernels/kernel_list.h"
