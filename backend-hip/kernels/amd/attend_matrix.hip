/* attend_matrix.hip: attention of prompt rows by AMD's matrix instructions (matrix.h): over pages
 * of int8 and int4 in the order of the CPU backend, to the bit (common/exact_attend_int8.hip says
 * it), and with fp16 activations over pages of fp16.
 *   grid      (tile of 16 matrix rows, group of up to 64 rows of a sequence, KV head). Matrix rows
 *             are the group's rows times the query heads of the KV head, one row's heads beside
 *             each other; 4 waves
 *   scores    of a chunk of 256 positions a wave has every fourth page. A lane loads 16 bytes of a
 *             key, of dimensions that the queries in its registers agree with. Kernels for heads of
 *             one size have all of a page's keys on the way while the page before is multiplied
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
enum { SECOND_DIGITS = KV_SPLIT + 16, MATRIX_SLICES = GPU_HEAD_DIM / 64 };

/* Shared memory of a block. Arrays are [MATRIX], by matrix row, unless said. */
struct matrix_attend_lds {
    float *score;    /* [MATRIX] rows SCORE_STRIDE apart, then the weights in their place */
    u8 *q;           /* [2 parts][MATRIX][row_bytes]: digits or halves, the high parts first */
    float *of_value; /* [KV_SPLIT] scales of a chunk's values */
    float *query;    /* factors of the scores */
    float *max, *sum, *old, *now, *scale; /* max, sum: of the chunks before; old, now: factors for
                                             merging a chunk (old -1: the row sees nothing of it);
                                             scale: of the weights, in the end of the result */
    int *first, *seen, *out; /* first position and number of positions that a row sees (0: the row
                                does not exist); its number in a->out */
};

/* The matrix rows of a block and the pages that they read. */
struct matrix_attend_tile {
    struct exact_row_range g;
    int kv_head, of_kv, row0, first, last; /* row0: the first matrix row; first, last: the positions
                                              that the rows see */
    int dims, row_bytes, pieces; /* of a head; bytes of a part of a query; pieces of 16 bytes of a
                                    key */
    u64 pages, own_page;   /* addresses of the KV head's pages; int4: of the page of int8 that all
                              rows are in */
    u64 page_bytes;        /* bytes from a page of the KV head to the next */
    int own;             /* number of own_page; -1: none is packed */
};

/* Pages from .. to of the chunk that begins at page number page0 of the sequence. */
struct matrix_pages {
    int page0, from, to;
};

/* The v of a lane `by` further in the ring of 16 lanes that this one belongs to. On the host 32
 * threads arrive. */
#if defined(__AMDGCN__)
#define ROTATE_16(v, by)                                                                           \
    ((u32)__builtin_amdgcn_update_dpp(0, (int)(v), 0x120 + (by), 0xf, 0xf, 1))
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
/* exact_fold() of the numbers of 16 lanes. */
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

/* Returns 0 if there are no rows. dims: of the heads that the kernel is for, 0: any. */
DEVICE int matrix_attend_tile_of(const struct attend_kernel_args *a, struct matrix_attend_tile *x,
                                 const int half, const int dims)
{
    int int4 = !half && a->open.own, hd = dims ? dims : a->head_dim, begin, end;
    u64 bytes = half   ? 2 * head_page(hd)
                : int4 ? (u64)INT4_PAGE(hd)
                       : (u64)INT8_PAGE(hd);
    x->g = exact_rows_of(a, GROUP_ROWS, int4);
    if (x->g.n <= x->g.begin) return 0;
    x->dims = hd;
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
    x->pages = (u64)a->pages + (u64)x->kv_head * bytes;
    x->page_bytes = (u64)a->n_kv_heads * bytes;
    x->pieces = half ? round8(hd) / 8 : round16(hd) / 16;
    x->row_bytes = (x->pieces + 3) / 4 * 64;
    x->own = int4 ? x->last / PAGE : -1;
    x->own_page = int4 ? (u64)own_page_of(a, x->g.row0 + begin, x->kv_head) : x->pages;
    return 1;
}

/* The address of a page of the sequence, the same in all lanes of a wave. */
DEVICE u64 matrix_page_of(const struct matrix_attend_tile *x, int index)
{
    u32 page;
    if (index == x->own) return x->own_page;
    uniform_words(x->g.table + index, 1, &page);
    return x->pages + page * x->page_bytes;
}

/* A pointer to a page's address that the compiler knows to be in global memory, not in shared
 * memory. */
DEVICE const u8 *at_page(u64 address)
{
#if defined(__AMDGCN__)
    return (const u8 *)(const __attribute__((address_space(1))) u8 *)address;
#else
    return (const u8 *)address;
#endif
}

DEVICE int matrix_is_packed(const struct matrix_attend_tile *x, int index, const int half)
{
    return !half && index < x->own;
}

/* Prepares the query of matrix row m, by 16 threads. */
DEVICE void matrix_put_query(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                             const struct matrix_attend_tile *x, int m, const int half)
{
    int lane = thread() % 16, hd = x->dims, i = x->row0 + m, row = i / x->of_kv,
        exists = row >= x->g.begin && row < x->g.n, maximum = 0,
        count = (x->g.row0 + (exists ? row : x->g.begin)) * a->n_heads + x->kv_head * x->of_kv +
                i % x->of_kv,
        dims = half ? x->row_bytes / 2 : x->row_bytes;
    const float *q = a->q + (u64)count * (u64)hd;
    u8 *first = l->q + m * x->row_bytes, *second = first + MATRIX * x->row_bytes;
    NO_UNROLL for (int d = lane; d < hd; d += 16) maximum = larger_bits(q[d], maximum);
    maximum = most_of_16(maximum);
    int exponent = maximum >> 23 > 27 ? maximum >> 23 : 27; /* of the largest power of two that is
                                                               not above the maximum */
    struct int_scale s = int_scale_of(maximum, exact_query_top(a->digits));
    float factor = f32_of((u32)(268 - exponent) << 23);
    NO_UNROLL for (int d = lane; d < dims; d += 16)
    {
        float v = d < hd ? q[d] : 0;
        if (half) {
            f16 high = (f16)(v * factor);
            ((f16 *)first)[d] = high;
            ((f16 *)second)[d] = (f16)(v * factor - (float)high);
        } else if (a->digits == 2) {
            put_digits(first + d, second + d, rounded_int(v, s.inverse));
        } else {
            second[d] = (u8)rounded_int(v, s.inverse);
        }
    }
    if (lane) return;
    l->query[m] = half ? f32_of((u32)(exponent - 14) << 23) * a->scale : s.scale;
    l->max[m] = -__builtin_inff();
    l->sum[m] = 0;
    l->first[m] = first_seen(x->g.pos0 + row, a->window);
    l->seen[m] = exists ? x->g.pos0 + row + 1 - l->first[m] : 0;
    l->out[m] = count;
}

/* Loads a lane's four pieces of the keys of a page, from piece 4 part on, for the position that is
 * the lane's. */
DEVICE void matrix_keys(const struct matrix_attend_tile *x, u64 address, int packed, int part,
                        u32x4 k[4], const int kind)
{
    const u8 *page = at_page(address);
    int lane = thread() % matrix_lanes(kind), position = lane % MATRIX;
    UNROLL for (int i = 0; i < matrix_words(kind); i++)
    {
        int piece = 4 * part + matrix_word(kind, lane, i);
        piece = piece < x->pieces ? piece : 0; /* a key has no more pieces: the query is 0 there */
        if (packed)
            k[i] = int4_key_piece(page, int8_key_at(16 * piece, position), 16 * piece,
                                  16 * x->pieces);
        else k[i] = *(const u32x4 *)(page + of_lane((u32)((piece * PAGE + position) * 16)));
    }
}

/* Sums of the products of keys with queries: with the two halves, or with first and second
 * digits. */
struct matrix_sums {
    float half[8];
    int first[8], second[8];
};

DEVICE void matrix_no_sums(struct matrix_sums *s, const int kind)
{
    UNROLL for (int v = 0; v < matrix_values(kind); v++) s->half[v] = 0, s->first[v] = 0,
                                                         s->second[v] = 0;
}

/* Adds the products of four pieces. */
DEVICE void matrix_add_part(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                            const struct matrix_attend_tile *x, int part, const u32x4 k[4],
                            struct matrix_sums *s, const int half, const int kind)
{
    int lane = thread() % matrix_lanes(kind);
    UNROLL for (int n = 0; n < 2; n++)
    {
        u32x4 q[4];
        if (!half && n == 0 && a->digits != 2) continue;
        UNROLL for (int i = 0; i < matrix_words(kind); i++) q[i] =
            *(const u32x4 *)(l->q + (n * MATRIX + lane % MATRIX) * x->row_bytes +
                             16 * (4 * part + matrix_word(kind, lane, i)));
        if (half) matrix_add_chunk(kind, q, k, s->half);
        else matrix_add_pieces_s8(kind, q, k, n ? s->second : s->first);
    }
}

/* Writes the scores of page number `index` of a chunk. */
DEVICE void matrix_put_scores(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                              const struct matrix_attend_tile *x, u64 page, int packed, int index,
                              const struct matrix_sums *s, const int half, const int kind)
{
    int lane = thread() % matrix_lanes(kind), column = index * PAGE + lane % MATRIX;
    float of_key = 1;
    if (!half) {
        const u8 *scales = at_page(page) + (packed ? 20 : 2 * PAGE) * 16 * x->pieces +
                           of_lane((u32)(lane % MATRIX * 4));
        of_key = ((const float *)scales)[0];
        l->of_value[column] = ((const float *)scales)[PAGE];
    }
    UNROLL for (int v = 0; v < matrix_values(kind); v++)
    {
        int m = matrix_row(kind, lane, v);
        float of_query = l->query[m];
        l->score[m * SCORE_STRIDE + column] =
            half ? s->half[v] * of_query
                 : (float)(s->first[v] * 128 + s->second[v]) * (of_query * of_key) * a->scale;
    }
}

/* The first of a wave's pages. */
DEVICE int matrix_first_page(const struct matrix_pages *p, const int kind)
{
    int wave = uniform_int(thread() / matrix_lanes(kind));
    return p->from + ((wave - p->from) & (ATTEND_WAVES - 1));
}

/* The scores of a wave's pages among those of a chunk. The next keys are loaded while those before
 * are multiplied. */
DEVICE void matrix_scores(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                          const struct matrix_attend_tile *x, const struct matrix_pages *p,
                          const int half, const int kind)
{
    int parts = (x->pieces + 3) / 4, part = 0, index = matrix_first_page(p, kind), before = -1,
        part_before = 0, page0 = p->page0;
    u64 page = x->own_page, page_before = page;
    u32x4 next[4];
    struct matrix_sums sums;
    matrix_no_sums(&sums, kind);
    UNROLL for (int i = 0; i < matrix_words(kind); i++) next[i] = (u32x4){0, 0, 0, 0};
    NO_UNROLL for (;;)
    {
        u32x4 k[4];
        UNROLL for (int i = 0; i < matrix_words(kind); i++) k[i] = next[i];
        if (index <= p->to) {
            if (part == 0) page = matrix_page_of(x, page0 + index);
            matrix_keys(x, page, matrix_is_packed(x, page0 + index, half), part, next, kind);
        }
        if (before >= 0) matrix_add_part(a, l, x, part_before, k, &sums, half, kind);
        if (before >= 0 && part_before + 1 == parts) {
            matrix_put_scores(a, l, x, page_before, matrix_is_packed(x, page0 + before, half),
                              before, &sums, half, kind);
            matrix_no_sums(&sums, kind);
        }
        if (index > p->to) return;
        before = index, part_before = part, page_before = page;
        if (++part == parts) part = 0, index += ATTEND_WAVES;
    }
}

/* matrix_scores() of heads with `parts` times four pieces of a key. */
DEVICE void matrix_scores_of(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                             const struct matrix_attend_tile *x, const struct matrix_pages *p,
                             const int parts, const int half, const int kind)
{
    int index = matrix_first_page(p, kind);
    if (index > p->to) return;
    u64 page = matrix_page_of(x, p->page0 + index);
    int packed = matrix_is_packed(x, p->page0 + index, half);
    u32x4 next[ATTEND_HALVES_DIM / 32][4];
    UNROLL for (int part = 0; part < parts; part++)
        matrix_keys(x, page, packed, part, next[part], kind);
    NO_UNROLL for (int after = index; index <= p->to; index = after)
    {
        struct matrix_sums sums;
        u64 page_now = page;
        int packed_now = packed;
        matrix_no_sums(&sums, kind);
        after = index + ATTEND_WAVES;
        if (after <= p->to) { /* else it is read again */
            page = matrix_page_of(x, p->page0 + after);
            packed = matrix_is_packed(x, p->page0 + after, half);
        }
        UNROLL for (int part = 0; part < parts; part++)
        {
            u32x4 k[4];
            UNROLL for (int i = 0; i < matrix_words(kind); i++) k[i] = next[part][i];
            matrix_keys(x, page, packed, part, next[part], kind);
            matrix_add_part(a, l, x, part, k, &sums, half, kind);
        }
        matrix_put_scores(a, l, x, page_now, packed_now, index, &sums, half, kind);
    }
}

/* Turns the scores of a row into weights: digits of weights times the scales of their values, or
 * halves of 2^14 times the weights. */
DEVICE void matrix_weights(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                           int m, int c0, const int half)
{
    int lane = thread() % 16, index = c0 + lane - l->first[m]; /* among the row's visible ones */
    u32 seen = (u32)l->seen[m];
    float *of_row = l->score + m * SCORE_STRIDE, w[CHUNK_PAGES], max = -__builtin_inff(), sum = 0,
          all_max = l->max[m], all_sum = l->sum[m], old, now = 1, scale = 1;
    if (a->softcap > 0)
        NO_UNROLL for (int i = lane; i < KV_SPLIT; i += 16)
            of_row[i] = a->softcap * (half ? tanh32(of_row[i] * rcp32(a->softcap))
                                           : exact_tanh(of_row[i] / a->softcap));
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
    {
        float score = of_row[i * PAGE + lane];
        w[i] = (u32)(index + i * PAGE) < seen ? score : -__builtin_inff();
        max = max32(w[i], max);
    }
    max = max_of_16(max);
    float larger = all_max > max ? all_max : max, from = half ? larger : max;
    UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
    {
        float weight = exact_exp(w[i] - from);
        w[i] = (u32)(index + i * PAGE) < seen ? weight : 0;
        sum += w[i];
    }
    sum = fold_of_16(sum);
    if (half) {
        UNROLL for (int i = 0; i < CHUNK_PAGES;
                    i++)((f16 *)of_row)[i * PAGE + lane] = (f16)(w[i] * 0x1p14f);
    } else {
        int maximum = 0;
        UNROLL for (int i = 0; i < CHUNK_PAGES; i++)
        {
            float weight = w[i] * l->of_value[i * PAGE + lane];
            w[i] = (u32)(index + i * PAGE) < seen ? weight : 0;
            maximum = larger_bits(w[i], maximum);
        }
        struct int_scale s = int_scale_of(most_of_16(maximum), EXACT_WEIGHT_TOP);
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

/* Which four positions of a page a lane's i-th word has. */
DEVICE int matrix_positions(const int kind, int lane, int i)
{
    return kind == MATRIX_MFMA ? lane / MATRIX : kind == MATRIX_WMMA ? i : lane / MATRIX * 2 + i;
}

/* The word of dimension d of a page's values at four positions, number `four`. */
DEVICE u32 matrix_value_s8(u64 address, const int packed, int four, int d, int d16)
{
    const u8 *page = at_page(address);
    if (!packed) return *(const u32 *)(page + of_lane(int8_value_at(d, 4 * four, d16)));
    u32 codes = *(const u32 *)(page + int4_part_at(1, d16) + (u32)((four * d16 + d / 2 * 2) * 2));
    return int4_row_bytes(codes >> (4 * (d % 2)), page[int4_lo_at(1, d16) + (u32)d],
                          page[int4_step_at(1, d16) + (u32)d], 0, 0);
}

/* Loads a lane's words of a page's values, of dimensions d + 64 j: v [MATRIX_SLICES], 4 words
 * apart. */
DEVICE void matrix_load_values(const struct matrix_attend_tile *x, u64 page, const int packed,
                               int d, u32 *v, const int kind)
{
    int lane = thread() % matrix_lanes(kind), d16 = 16 * x->pieces;
    UNROLL for (int j = 0; j < MATRIX_SLICES; j++) if (64 * j < d16)
        UNROLL for (int i = 0; i < matrix_words(kind); i++) v[4 * j + i] =
            matrix_value_s8(page, packed, matrix_positions(kind, lane, i),
                            d + 64 * j < d16 ? d + 64 * j : 0, d16);
}

/* Adds the weighted values of a chunk to those before. A lane has dimensions d + 64 j; the next
 * values are loaded while those before are multiplied. */
DEVICE void matrix_add_values_s8(const struct matrix_attend_lds *l,
                                 const struct matrix_attend_tile *x, const struct matrix_pages *p,
                                 int d, float run[MATRIX_SLICES][8], const int kind)
{
    /* MFMA: two pages, for one instruction or for two */
    const int words = matrix_words(kind), values = matrix_values(kind),
              pages = kind == MATRIX_MFMA ? 2 : 1;
    int lane = thread() % matrix_lanes(kind), d16 = 16 * x->pieces, first[MATRIX_SLICES][8],
        second[MATRIX_SLICES][8], k = p->from / pages;
    const u8 *weights = (const u8 *)(l->score + lane % MATRIX * SCORE_STRIDE) +
                        4 * matrix_positions(kind, lane, 0);
    u32 next[MATRIX_SLICES][4];
    UNROLL for (int j = 0; j < MATRIX_SLICES; j++)
    {
        UNROLL for (int v = 0; v < values; v++) first[j][v] = second[j][v] = 0;
        UNROLL for (int i = 0; i < pages * words; i++) next[j][i] = 0;
    }
    NO_UNROLL for (int before = -1;; before = k++)
    {
        u32 w[2][4], v[MATRIX_SLICES][4];
        UNROLL for (int j = 0; j < MATRIX_SLICES; j++)
            UNROLL for (int i = 0; i < pages * words; i++) v[j][i] = next[j][i];
        if (k <= p->to / pages) UNROLL for (int n = 0; n < pages; n++)
            {
                int index = pages * k + n;
                index = index < p->from ? p->from
                        : index > p->to ? p->to
                                     : index; /* a page outside stands in for one whose weights are
                                                 0 */
                u64 page = matrix_page_of(x, p->page0 + index);
                if (matrix_is_packed(x, p->page0 + index, 0))
                    matrix_load_values(x, page, 1, d, next[0] + n * words, kind);
                else matrix_load_values(x, page, 0, d, next[0] + n * words, kind);
            }
        if (before >= 0) {
            UNROLL for (int n = 0; n < pages; n++) UNROLL for (int digit = 0; digit < 2; digit++)
                load_words(weights + digit * SECOND_DIGITS + (pages * before + n) * PAGE, words,
                           w[digit] + n * words);
            UNROLL for (int j = 0; j < MATRIX_SLICES; j++) if (64 * j < d16)
                UNROLL for (int digit = 0; digit < 2; digit++)
            {
                int *sum = digit ? second[j] : first[j];
                if (pages == 2) matrix_add_words_s8(kind, w[digit], v[j], sum);
                else matrix_multiply_add_s8(kind, w[digit], v[j], sum);
            }
        }
        if (k > p->to / pages) break;
    }
    UNROLL for (int v = 0; v < values; v++)
    {
        int m = matrix_row(kind, lane, v);
        float old = l->old[m], now = l->now[m], scale = l->scale[m];
        UNROLL for (int j = 0; j < MATRIX_SLICES; j++)
        {
            float all = (float)(first[j][v] * 128 + second[j][v]) * scale,
                  merged = run[j][v] * old + all * now;
            run[j][v] = old < 0 ? run[j][v] : merged;
        }
    }
}

/* matrix_add_values_s8() for halves: `pair` neighbouring dimensions, d + j, at a time. */
DEVICE void matrix_add_values_f16(const struct matrix_attend_lds *l,
                                  const struct matrix_attend_tile *x, const struct matrix_pages *p,
                                  int d, float run[MATRIX_SLICES][8], const int pair,
                                  const int kind)
{
    const int words = matrix_words(kind), values = matrix_values(kind);
    int lane = thread() % matrix_lanes(kind), d8 = 8 * x->pieces;
    const u8 *weights = (const u8 *)(l->score + lane % MATRIX * SCORE_STRIDE) +
                        8 * matrix_positions(kind, lane, 0);
    d = d < d8 ? d : 0;
    UNROLL for (int v = 0; v < values; v++)
    {
        float old = l->old[matrix_row(kind, lane, v)];
        UNROLL for (int j = 0; j < pair; j++) run[j][v] *= old < 0 ? 1 : old;
    }
    NO_UNROLL for (int index = p->from; index <= p->to; index++)
    {
        u32 w[8], v[2][8];
        const u8 *value = at_page(matrix_page_of(x, p->page0 + index));
        int left = x->last - (p->page0 + index) * PAGE; /* stale memory may hold NaN */
        UNROLL for (int i = 0; i < words; i++)
        {
            int p0 = 4 * matrix_positions(kind, lane, i);
            u32 count[4];
            load_words(weights + index * PAGE * 2 + 8 * i, 2, w + 2 * i);
            UNROLL for (int e = 0; e < 4; e++)
            {
                const u8 *one = value + of_lane((u32)(2 * ((PAGE + p0 + e) * d8 + d)));
                count[e] = pair == 1 ? *(const u16 *)one : *(const u32 *)one;
                count[e] = p0 + e <= left ? count[e] : 0;
            }
            UNROLL for (int j = 0; j < pair; j++) UNROLL for (int e = 0; e < 2; e++)
                v[j][2 * i + e] = chosen_bytes(count[2 * e], count[2 * e + 1], j ? 0x7632 : 0x5410);
        }
        UNROLL for (int j = 0; j < pair; j++) matrix_multiply_add(kind, w, v[j], run[j]);
    }
}

/* Those that rows of the tile see of the chunk from position c0 on. */
DEVICE struct matrix_pages matrix_pages_of(const struct matrix_attend_tile *x, int c0)
{
    return (struct matrix_pages){c0 / PAGE, x->first > c0 ? (x->first - c0) / PAGE : 0,
                                 x->last - c0 < KV_SPLIT ? (x->last - c0) / PAGE : CHUNK_PAGES - 1};
}

/* dims: of heads, of halves; 0: any */
DEVICE void attend_matrix(const struct attend_kernel_args *a, const struct matrix_attend_lds *l,
                          const int half, const int kind, const int dims)
{
    const int lanes = matrix_lanes(kind), values = matrix_values(kind),
              rows = ATTEND_WAVES * lanes / 16; /* rows whose 16 threads the block has at once */
    int lane = thread() % lanes, wave = thread() / lanes,
        hd = dims ? dims : a->head_dim, pair = half && hd > 64,
        d = wave * 16 + lane % MATRIX, apart = pair ? 1 : 64;
    struct matrix_attend_tile x;
    float run[MATRIX_SLICES][8];
    if (!matrix_attend_tile_of(a, &x, half, dims)) return;
    if (pair) d *= 2;
    NO_UNROLL for (int m = thread() / 16; m < MATRIX; m += rows)
        matrix_put_query(a, l, &x, m, half);
    UNROLL for (int j = 0; j < MATRIX_SLICES; j++) UNROLL for (int v = 0; v < values; v++)
        run[j][v] = 0;
    barrier();
    NO_UNROLL for (int c0 = x.first / KV_SPLIT * KV_SPLIT; c0 <= x.last; c0 += KV_SPLIT)
    {
        const struct matrix_pages p = matrix_pages_of(&x, c0);
        if (dims) matrix_scores_of(a, l, &x, &p, dims * (half ? 2 : 1) / 64, half, kind);
        else matrix_scores(a, l, &x, &p, half, kind);
        barrier();
        NO_UNROLL for (int m = thread() / 16; m < MATRIX; m += rows)
            matrix_weights(a, l, m, c0, half);
        barrier();
        if (!half) matrix_add_values_s8(l, &x, &p, d, run, kind);
        else if (pair) matrix_add_values_f16(l, &x, &p, d, run, 2, kind);
        else matrix_add_values_f16(l, &x, &p, d, run, 1, kind);
        barrier();
    }
    if (thread() < MATRIX) {
        int m = thread();
        l->scale[m] = exact_factor(l->sum[m], l->max[m], a->sinks, l->out[m] % a->n_heads) *
                      (half ? 0x1p-14f : 1);
    }
    barrier();
    UNROLL for (int v = 0; v < values; v++)
    {
        int m = matrix_row(kind, lane, v);
        float *to = a->out + (u64)l->out[m] * (u64)hd + d, factor = l->scale[m];
        if (!l->seen[m]) continue;
        UNROLL for (int j = 0; j < (half ? 2 : MATRIX_SLICES); j++)
            if (d + apart * j < hd) to[apart * j] = run[j][v] * factor;
    }
}

#define ATTEND_MATRIX(name, images, kind, threads, half, dims)                                     \
    ON_##images(KERNEL_TWICE(name, struct attend_kernel_args) {                                    \
        LDS(f32x4, score, MATRIX *SCORE_STRIDE / 4);                                               \
        LDS(u32x4, q, 2 * MATRIX * GPU_HEAD_DIM / 16);                                             \
        LDS(float, of_value, KV_SPLIT);                                                            \
        LDS(float, rows, 6 * MATRIX);                                                              \
        LDS(int, numbers, 3 * MATRIX);                                                             \
        const struct matrix_attend_lds l = {(float *)score,                                        \
                                            (u8 *)q,                                               \
                                            of_value,                                              \
                                            rows,                                                  \
                                            rows + MATRIX,                                         \
                                            rows + 2 * MATRIX,                                     \
                                            rows + 3 * MATRIX,                                     \
                                            rows + 4 * MATRIX,                                     \
                                            rows + 5 * MATRIX,                                     \
                                            numbers,                                               \
                                            numbers + MATRIX,                                      \
                                            numbers + 2 * MATRIX};                                 \
        attend_matrix(ARGS, &l, half, kind, dims);                                                 \
    })
#include "backend-hip/kernels/amd/list.h"
