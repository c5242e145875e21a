/* amx_attend.h: the sums of integer attention on AMX tiles; a part of amx.c, which alone includes
 * it. Digit d of query i is a row of the left operand, so that two digits of 8 queries fill a tile.
 * Keys are read as they lie in their pages: 64 dimensions of a page are the right operand. Values
 * of a chunk are brought together, since a tile takes 64 positions, a page has 16. While the tile
 * unit multiplies one page, vector instructions finish the scores of the page before. */
#ifndef BACKEND_CPU_AMX_ATTEND_H
#define BACKEND_CPU_AMX_ATTEND_H

#include "backend-cpu/avx512_int8.h"

/* A tile that is loaded waits for the product that reads it, so neighbouring products take operands
 * in different tiles. Tiles 0 .. 3 are sums, 4 .. 7 operands. Sums of keys: 4 and 5 rows of digits,
 * 6 and 7 keys; 5 and 7 for the last `rest` dimensions. Where rest is 0 and in sums of values: 4
 * rows of digits, the others codes; with 16 rows all have one shape. */
static void configure_attend(int rows, int rest)
{
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 5; i++) c.rows[i] = (uint8_t)rows, c.row_bytes[i] = 64;
    for (int i = 5; i < 8; i++) c.rows[i] = TILE_ROWS, c.row_bytes[i] = 64;
    if (rest) {
        c.rows[5] = (uint8_t)rows, c.row_bytes[5] = (uint16_t)rest;
        c.rows[7] = (uint8_t)(rest / 4);
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* see configure() of amx.c */
    _tile_loadconfig(&c);
}

/* gcc does not know that loading a tile reads memory: what was written is in memory now. */
#define BEFORE_TILES() __asm__ volatile("" ::: "memory")

/* Rows of digits: `rows` to a tile, in n tiles. */
struct digit_tiles {
    int rows, n;
};

static struct digit_tiles tiles_of(const struct digits_state *s, int n_digits)
{
    int most = 2 * s->a.n < TILE_ROWS ? 2 * s->a.n : TILE_ROWS;
    return (struct digit_tiles){most, (n_digits * s->a.n + most - 1) / most};
}

#define MULTIPLY_KEYS(sum, left, right, from, row)                                                 \
    _tile_loadd(left, from, row);                                                                  \
    _tile_dpbsud(sum, left, right)

/* Sums of n tiles of digits with the keys of a page. */
ALWAYS_INLINE void amx_keys_page(const struct digits_state *s, const char *keys, int rows,
                                 int32_t *sums, const int n)
{
    const int8_t *q = s->q;
    size_t row = (size_t)s->row, tile = (size_t)rows * row;
    int d = 0;
    _tile_zero(0);
    if (n > 1) _tile_zero(1);
    if (n > 2) _tile_zero(2);
    if (n > 3) _tile_zero(3);
    for (; d + TILE_INPUTS <= s->dims; d += TILE_INPUTS, q += TILE_INPUTS) {
        _tile_loadd(6, keys + d * KV_PAGE, 64);
        MULTIPLY_KEYS(0, 4, 6, q, row);
        if (n == 2) {
            MULTIPLY_KEYS(1, 4, 6, q + tile, row);
        }
        if (n > 2 && s->dims % TILE_INPUTS == 0) {
            MULTIPLY_KEYS(1, 5, 6, q + tile, row);
            MULTIPLY_KEYS(2, 7, 6, q + 2 * tile, row);
            MULTIPLY_KEYS(3, 4, 6, q + 3 * tile, row);
        } else if (n > 2) {
            MULTIPLY_KEYS(1, 4, 6, q + tile, row);
            MULTIPLY_KEYS(2, 4, 6, q + 2 * tile, row);
            MULTIPLY_KEYS(3, 4, 6, q + 3 * tile, row);
        }
    }
    if (d < s->dims) {
        _tile_loadd(7, keys + d * KV_PAGE, 64);
        MULTIPLY_KEYS(0, 5, 7, q, row);
        if (n > 1) {
            MULTIPLY_KEYS(1, 5, 7, q + tile, row);
        }
        if (n > 2) {
            MULTIPLY_KEYS(2, 5, 7, q + 2 * tile, row);
        }
        if (n > 3) {
            MULTIPLY_KEYS(3, 5, 7, q + 3 * tile, row);
        }
    }
    _tile_stored(0, sums, 64);
    if (n > 1) _tile_stored(1, sums + rows * 16, 64);
    if (n > 2) _tile_stored(2, sums + rows * 32, 64);
    if (n > 3) _tile_stored(3, sums + rows * 48, 64);
}

/* One tile of digits, which stays in tile 4, with pages of 64 dimensions: each third page has its
 * sums and its keys in the same tiles. */
#define KEYS_OF_PAGE(sum, right)                                                                   \
    _tile_zero(sum);                                                                               \
    _tile_loadd(right, keys, 64);                                                                  \
    _tile_dpbsud(sum, 4, right);                                                                   \
    _tile_stored(sum, sums, 64)

ALWAYS_INLINE void amx_keys_64(const char *keys, int32_t *sums, int turn)
{
    if (turn == 0) {
        KEYS_OF_PAGE(0, 5);
    } else if (turn == 1) {
        KEYS_OF_PAGE(1, 6);
    } else {
        KEYS_OF_PAGE(2, 7);
    }
}

/* The scores of a page from its sums. */
ALWAYS_INLINE void amx_finish_page(const struct digits_state *s, int page, const int32_t *sums,
                                   const int digits)
{
    const __m512 scale = _mm512_loadu_ps(key_scales(page_keys(s->a.t, page), s->a.t->head_dim));
    float *p = s->a.scores + page * KV_PAGE - s->a.c0;
    const int32_t *second = sums + s->a.n * 16;
    for (int i = 0; i < s->a.n; i++) {
        __m512i x = _mm512_loadu_si512(sums + i * 16);
        if (digits == 2) x = join_digits(x, _mm512_loadu_si512(second + i * 16));
        finish_scores(s, i, x, scale, p + i * ATTEND_CHUNK);
    }
}

/* Scores are finished two pages behind the sums. */
ALWAYS_INLINE void amx_keys(struct digits_state *s, int rows, const int digits, const int n)
{
    enum { TURNS = 3 };
    int32_t sums[TURNS][4 * TILE_ROWS * 16] __attribute__((aligned(64)));
    const int stays = n == 1 && s->dims == TILE_INPUTS, pages = s->a.page1 - s->a.page0;
    if (stays) _tile_loadd(4, s->q, s->row);
    for (int i = 0, turn = 0; i < pages + TURNS - 1; i++) {
        int next = turn == TURNS - 1 ? 0 : turn + 1; /* it has the page two before, too */
        if (i < pages) {
            const char *keys = page_keys(s->a.t, s->a.page0 + i);
            begin_page(s, s->a.page0 + i, keys);
            if (stays) amx_keys_64(keys, sums[turn], turn);
            else amx_keys_page(s, keys, rows, sums[turn], n);
        }
        if (i >= TURNS - 1) amx_finish_page(s, s->a.page0 + i - TURNS + 1, sums[next], digits);
        turn = next;
    }
}

NOT_INLINE void amx_scores(struct digits_state *s)
{
    struct digit_tiles t = tiles_of(s, s->n_digits);
    if (s->dims % TILE_INPUTS) configure_attend(t.rows, s->dims % TILE_INPUTS);
    BEFORE_TILES();
    if (s->n_digits == 1 && t.n == 1) amx_keys(s, t.rows, 1, 1);
    else if (s->n_digits == 1) amx_keys(s, t.rows, 1, 2);
    else if (t.n == 1) amx_keys(s, t.rows, 2, 1);
    else if (t.n == 2) amx_keys(s, t.rows, 2, 2);
    else amx_keys(s, t.rows, 2, 4);
}

/* Brings the values of the chunk's pages page0 .. page1-1 to `to` [positions/4][dims][4]. */
ALWAYS_INLINE void gather_values(const struct digits_state *s, int page0, int page1, char *to)
{
    size_t bytes = (size_t)s->dims * KV_PAGE;
    for (int page = page0; page < page1; page++, to += bytes) {
        ask_next_chunk(s, page - s->a.c0 / KV_PAGE, PART_MORE_VALUES);
        if (s->a.t->unpack) {
            unpack_page_values(s->a.t, page, to);
            continue;
        }
        const char *v = page_values(s->a.t, page);
        for (size_t i = 0; i < bytes; i += 64)
            _mm512_storeu_si512(to + i, _mm512_loadu_si512(v + i));
    }
}

#define ZERO_SUMS()                                                                                \
    _tile_zero(0);                                                                                 \
    _tile_zero(1);                                                                                 \
    _tile_zero(2);                                                                                 \
    _tile_zero(3)

/* Finishes a tile of n x rows sums of 16 dimensions. */
ALWAYS_INLINE void amx_finish_values(const struct digits_state *s, const int32_t *sums, int d)
{
    const int32_t *second = sums + s->a.n * 16;
    for (int i = 0; i < s->a.n; i++)
        finish_values(
            s, i, d,
            join_digits(_mm512_loadu_si512(sums + i * 16), _mm512_loadu_si512(second + i * 16)));
}

/* Gathers the values of the 64 positions from c of the chunk on, as far as the chunk has pages. */
ALWAYS_INLINE void gather_block(const struct digits_state *s, int c, char *to)
{
    int page0 = (s->a.c0 + c) / KV_PAGE, page1 = page0 + TILE_INPUTS / KV_PAGE,
        first = page0 > s->a.page0 ? page0 : s->a.page0;
    gather_values(s, first, page1 < s->a.page1 ? page1 : s->a.page1,
                  to + (size_t)((first - page0) * KV_PAGE) * (size_t)s->dims);
}

/* Values of one tile of digits, 64 dimensions at a time; tiles behind the last dimension are not
 * finished. Each 64 positions are brought together while the tile unit multiplies those before
 * them. With 64 dimensions they go to two places of `values` in turn, which stay in the level-1
 * cache; with more each has a place of its own, where the other dimensions find them. */
ALWAYS_INLINE void amx_values_1(struct digits_state *s, char *values, int from, int to)
{
    int32_t sums[4][TILE_ROWS * 16] __attribute__((aligned(64)));
    size_t row = (size_t)s->dims * 4;
    const int hd = s->a.t->head_dim, turns = s->dims <= 64 ? 2 * TILE_INPUTS : ATTEND_CHUNK;
    gather_block(s, from, values + (size_t)(from % turns) * (size_t)s->dims);
    for (int d = 0; d < hd; d += 64) {
        int n = (hd - d + 15) / 16;
        ZERO_SUMS();
        for (int c = from; c < to; c += TILE_INPUTS) {
            const char *v = values + (size_t)(c % turns) * (size_t)s->dims + d * 4;
            int next = c + TILE_INPUTS;
            if (!d && next < to)
                gather_block(s, next, values + (size_t)(next % turns) * (size_t)s->dims);
            BEFORE_TILES();
            _tile_loadd(4, s->w + c, ATTEND_CHUNK);
            _tile_loadd(6, v, row);
            _tile_dpbssd(0, 4, 6);
            if (n > 1) {
                _tile_loadd(7, v + 64, row);
                _tile_dpbssd(1, 4, 7);
            }
            if (n > 2) {
                _tile_loadd(5, v + 128, row);
                _tile_dpbssd(2, 4, 5);
            }
            if (n > 3) {
                _tile_loadd(6, v + 192, row);
                _tile_dpbssd(3, 4, 6);
            }
        }
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        _tile_stored(2, sums[2], 64);
        _tile_stored(3, sums[3], 64);
        for (int k = 0; k < n && k < 4; k++) amx_finish_values(s, sums[k], d + k * 16);
    }
}

/* Values of up to four tiles of digits: 16 dimensions at a time. */
ALWAYS_INLINE void amx_values_n(struct digits_state *s, const char *values, int from, int to,
                                const struct digit_tiles t)
{
    int32_t sums[4 * TILE_ROWS * 16] __attribute__((aligned(64)));
    size_t row = (size_t)s->dims * 4;
    const uint8_t *w = s->w;
    for (int d = 0; d < s->a.t->head_dim; d += 16) {
        ZERO_SUMS();
        for (int c = from; c < to; c += TILE_INPUTS) {
            _tile_loadd(6, values + (size_t)c * (size_t)s->dims + d * 4, row);
            _tile_loadd(4, w + c, ATTEND_CHUNK);
            _tile_dpbssd(0, 4, 6);
            _tile_loadd(5, w + 16 * ATTEND_CHUNK + c, ATTEND_CHUNK);
            _tile_dpbssd(1, 5, 6);
            if (t.n > 2) {
                _tile_loadd(7, w + 32 * ATTEND_CHUNK + c, ATTEND_CHUNK);
                _tile_dpbssd(2, 7, 6);
            }
            if (t.n > 3) {
                _tile_loadd(4, w + 48 * ATTEND_CHUNK + c, ATTEND_CHUNK);
                _tile_dpbssd(3, 4, 6);
            }
        }
        _tile_stored(0, sums, 64);
        _tile_stored(1, sums + 256, 64);
        _tile_stored(2, sums + 512, 64);
        _tile_stored(3, sums + 768, 64);
        amx_finish_values(s, sums, d);
    }
}

NOT_INLINE void amx_values(struct digits_state *s)
{
    struct digit_tiles t = tiles_of(s, 2);
    char *values = s->a.t->unpack ? unpacked_values(s->a.t, 0) : (char *)s->a.rest;
    int from = (s->a.page0 * KV_PAGE - s->a.c0) & -TILE_INPUTS, to = s->a.page1 * KV_PAGE - s->a.c0;
    if (s->dims % TILE_INPUTS) configure_attend(t.rows, 0);
    if (t.n == 1) {
        amx_values_1(s, values, from, to);
        return;
    }
    gather_values(s, s->a.page0, s->a.page1,
                  values + (size_t)(s->a.page0 * KV_PAGE - s->a.c0) * (size_t)s->dims);
    BEFORE_TILES();
    amx_values_n(s, values, from, to, t);
}

static void amx_attend(const struct attend_task *t, float *scratch)
{
    if (t->kv != KV_INT8 || !t->q_top || t->latent) {
        avx512_attend(t, scratch);
        return;
    }
    int n = 2 * t->n_rows * t->n_heads;
    configure_attend(n < TILE_ROWS ? n : TILE_ROWS, 0);
    attend_digits(t, scratch, amx_scores, amx_values);
    _tile_release();
}

#endif
