/* exact_linear_mma.hip: 4-bit linears in the CPU's order by int8 matrix instructions, to the bit
 * (common/exact_linear.hip): the integers of a sub-group are summed by mma, its terms are added by
 * one thread of an output, sub-group by sub-group. */

/* 8 bytes of a row's integers, one octet of a chunk. */
DEVICE u64 exact_octet(const struct exact_digits *x, int row, int digit, int chunk, int octet)
{
    const u8 *from = (const u8 *)x->digit + (u64)(row * x->digits + digit) * (u64)x->stride;
    return *(const u64 *)(from + (u64)(chunk * CHUNK + octet * 8));
}

/* A lane's codes of the n chunks from `first` on: octet lane % 4 of outputs lane / 4 and lane / 4 +
 * 8. */
DEVICE void exact_codes(const u32 *codes, int first, int n, int lane, u32 q[4][2])
{
    if (n == 4 && first % 2 == 0) {
        UNROLL for (int i = 0; i < 2; i++)
        {
            u32x4 v = *(const u32x4 *)(codes + (u64)(((first / 2 + i) * 32 + lane) * 4));
            UNROLL for (int j = 0; j < 4; j++) q[2 * i + j / 2][j % 2] = v[j];
        }
        return;
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        int c = first + (i < n ? i : 0);
        const u32 *from = codes + (u64)((c / 2 * 32 + lane) * 4 + c % 2 * 2);
        q[i][0] = from[0];
        q[i][1] = from[1];
    }
}

/* sum += the codes of a chunk as operand A (outputs lane / 4 and lane / 4 + 8, octet lane % 4)
 * times 8 bytes of a row, b, as operand B. */
DEVICE void exact_mma_chunk(int sum[4], const struct exact_bytes *q, u64 b)
{
    mma_s8(sum, q->low[0], q->low[1], q->high[0], q->high[1], (u32)b, (u32)(b >> 32));
}

/* ---- few rows: the sub-groups are shared out among the warps of a block */

/* Codes and scales of a sub-group of a lane; l: the low halves of pairs. */
struct exact_sub {
    u32 q[4][2], l[4][2];
    struct exact_scale scale[2];
    int first, n;
};

DEVICE void exact_load_sub(const struct exact_linear_args *a, const struct exact_panel *p, int sub,
                           struct exact_sub *s, const int pairs)
{
    int lane = thread() % WARP;
    s->n = 0;
    if (sub >= a->groups.n) return;
    s->first = exact_begin(&a->groups, sub, &s->n);
    int packed = pairs ? exact_packed(&a->groups, s->first) : s->first,
        group = pairs ? exact_group_of(&a->groups, s->first) : s->first / a->groups.group_chunks;
    exact_codes(p->codes, packed, s->n, lane, s->q);
    if (pairs) exact_codes(p->codes, packed + a->groups.group_chunks, s->n, lane, s->l);
    UNROLL for (int j = 0; j < 2; j++)
    {
        s->scale[j] = exact_scale_of(&p->part, p->number, group, lane / 4 + 8 * j);
        if (pairs) s->scale[j].zero = 0;
    }
}

/* The terms of a sub-group: terms [rows][PANEL]. of_rows: what a lane has of the rows' inputs (row
 * lane / 4) and scales (rows 2 (lane % 4) and the next) */
DEVICE void exact_sub_terms(const struct exact_linear_args *a, const struct exact_sub *s, int sub,
                            const int of_rows[3], float *terms, const int digits, const int pairs)
{
    int lane = thread() % WARP, row = lane % 4 * 2, sum[4] = {0, 0, 0, 0};
    u64 x[2][4];
    struct exact_scaled scaled[2];
    UNROLL for (int d = 0; d < 2; d++) UNROLL for (int c = 0; c < 4; c++) x[d][c] =
        d < digits && c < s->n ? exact_octet(&a->of, of_rows[0], d, s->first + c, lane % 4) : 0;
    UNROLL for (int e = 0; e < 2; e++) scaled[e] = *exact_scaled_at(&a->of, of_rows[1 + e], sub);
    UNROLL for (int d = 0; d < 2; d++)
    {
        if (d == digits) break;
        UNROLL for (int c = 0; c < 4; c++)
        {
            struct exact_bytes q = pairs ? exact_unpack_pair(s->q[c], s->l[c])
                                         : exact_unpack_half(s->q[c]);
            exact_mma_chunk(sum, &q, x[d][c]);
        }
        if (d + 1 < digits) UNROLL for (int e = 0; e < 4; e++) sum[e] *= 128;
    }
    UNROLL for (int e = 0; e < 2; e++) UNROLL for (int j = 0; j < 2; j++)
        terms[(row + e) * PANEL + lane / 4 + 8 * j] =
            exact_term(&scaled[e], &s->scale[j], sum[e + 2 * j]);
}

/* Block (panel of all parts, EXACT_SPLIT_ROWS rows); of experts (panel, tile of so many places).
 * Warp w has sub-groups w, w + 8, ..; the loads of the codes of EXACT_AHEAD of them are issued
 * before the first is needed. */
enum { EXACT_AHEAD = 2 };
DEVICE void exact_split(const struct exact_linear_args *a, const int digits, const int pairs,
                        const int experts)
{
    const int all = EXACT_SPLIT_ROWS * PANEL, pass = EXACT_SPLIT_TERMS / all;
    int t = thread(), lane = t % WARP, of_rows[3];
    float *terms = (float *)dynamic_lds, total = 0;
    struct exact_sub s[EXACT_AHEAD];
    if (experts) wait_for_producer();
    if (experts && !exact_tile_exists(a, block_y())) return;
    struct exact_panel p = exact_panel_of(a, block_x(), experts ? block_y() : -1);
    UNROLL for (int i = 0; i < EXACT_AHEAD; i++)
        exact_load_sub(a, &p, warp_number() + i * WARPS, &s[i], pairs);
    const struct exact_block_rows r = exact_rows_of_tile(a, block_y(), EXACT_SPLIT_ROWS, experts);
    UNROLL for (int i = 0; i < 3; i++)
    {
        int place = r.first + (i ? lane % 4 * 2 + i - 1 : lane / 4);
        if (place >= r.end) place = r.first; /* results that nobody reads */
        of_rows[i] = experts ? exact_input(a, place) : place;
    }
    if (!experts) wait_for_producer();
    int place = r.first + t / PANEL, valid = t < all && place < r.end;
    for (int sub0 = 0; sub0 < a->groups.n; sub0 += pass) {
        int n_subs = a->groups.n - sub0 < pass ? a->groups.n - sub0 : pass;
        NO_UNROLL for (int index = warp_number(); index < n_subs; index += EXACT_AHEAD * WARPS)
        {
            UNROLL for (int i = 0; i < EXACT_AHEAD; i++) if (index + i * WARPS < n_subs)
            {
                exact_sub_terms(a, &s[i], sub0 + index + i * WARPS, of_rows,
                                terms + (index + i * WARPS) * all, digits, pairs);
                exact_load_sub(a, &p, sub0 + index + (i + EXACT_AHEAD) * WARPS, &s[i], pairs);
            }
        }
        barrier();
        if (valid) UNROLL_8 for (int i = 0; i < n_subs; i++) total = total + terms[i * all + t];
        barrier();
    }
    int output = p.number * PANEL + t % PANEL;
    if (valid && output < p.part.out)
        p.part.y[(u64)(experts ? exact_slot(a, place) : place) * (u64)p.part.out + (u64)output] =
            p.part.bias ? total + p.part.bias[output] : total;
}

KERNEL(exact_split_8, struct exact_linear_args)
{
    const struct exact_linear_args *a = EARLY_ARGS;
    if (a->of.digits == 2) exact_split(a, 2, 0, 0);
    else exact_split(a, 1, 0, 0);
}

KERNEL(exact_experts_split, struct exact_linear_args)
{
    const struct exact_linear_args *a = EARLY_ARGS;
    if (a->of.digits == 2) exact_split(a, 2, 0, 1);
    else exact_split(a, 1, 0, 1);
}

KERNEL(exact_pairs_split, struct exact_linear_args)
{
    const struct exact_linear_args *a = EARLY_ARGS;
    exact_split(a, a->of.digits, 1, !!a->expert);
}

/* ---- many rows: tiles of 32 or 64 rows and EXACT_TILE_PANELS panels: a warp has 32 rows and
 * `panels` panels. Sub-groups go through stages of shared memory, EXACT_STAGES - 1 ahead. */

/* A stage: digits [digit][row][EXACT_MMA_STRIDE bytes], codes [panel][4 chunks][lane][2 words], of
 * pairs 4 chunks of the low halves behind each 4 of high ones, scales and sums of the rows, scales
 * and zero points of the panels [panel][16][2 words]. */
struct exact_stage_places {
    u32 codes, scaled, meta, bytes;
};

DEVICE struct exact_stage_places exact_places(const int rows, const int panels, const int digits,
                                              const int pairs)
{
    const int all = EXACT_TILE_PANELS(rows, panels);
    struct exact_stage_places s;
    s.codes = (u32)(digits * rows * EXACT_MMA_STRIDE);
    s.scaled = s.codes + (u32)(all * 4 * 256 * (1 + pairs));
    s.meta = s.scaled + (u32)rows * 8;
    s.bytes = s.meta + (u32)(all * PANEL * 8);
    return s;
}

/* What a thread copies: codes of one panel; digits of rows t / 8 and t / 8 + 32 of the tile; scales
 * and sums of row t. inputs: the rows' numbers in the input; -1: none */
struct exact_copies {
    struct exact_panel panel;
    int digits[2], scaled;
};

/* Copies a sub-group of n chunks from `first` on to a stage; rows that are not there become zeros.
 */
DEVICE void exact_stage(const struct exact_linear_args *a, const struct exact_copies *copies,
                        u32 to, int sub, const int rows, const int panels, const int digits,
                        const int pairs)
{
    const struct exact_stage_places places = exact_places(rows, panels, digits, pairs);
    const struct exact_digits *x = &a->of;
    const struct exact_panel *panel = &copies->panel;
    int t = thread(), n, first = exact_begin(&a->groups, sub, &n), row = t / 8, part = t % 8;
    UNROLL for (int d = 0; d < 2; d++) UNROLL for (int i = 0; i < rows / 32; i++)
    {
        if (d == digits) break;
        int valid = copies->digits[i] >= 0 && part / 2 < n;
        const u8 *from = (const u8 *)x->digit;
        if (valid)
            from += (u64)(copies->digits[i] * x->digits + d) * (u64)x->stride +
                    (u64)(first * CHUNK + part * 16);
        copy_16_or_zeros(to + (u32)((d * rows + row + 32 * i) * EXACT_MMA_STRIDE + part * 16), from,
                         valid);
    }
    /* threads that copy the codes of a panel */
    const int of_panel = THREADS / EXACT_TILE_PANELS(rows, panels), chunks = 4 * (1 + pairs);
    int number = t / of_panel, packed = pairs ? exact_packed(&a->groups, first) : first,
        group = pairs ? exact_group_of(&a->groups, first) : first / a->groups.group_chunks;
    UNROLL for (int i = 0; i < 32 * chunks / of_panel; i++)
    {
        int place = t % of_panel + i * of_panel, c = place / 32, lane = place % 32,
            chunk = packed + (c % 4 < n ? c % 4 : 0) + c / 4 * a->groups.group_chunks;
        copy_8(to + places.codes + (u32)((number * chunks + c) * 256 + lane * 8),
               panel->codes + (u64)((chunk / 2 * 32 + lane) * 4 + chunk % 2 * 2));
    }
    if (t < rows)
        copy_8(to + places.scaled + (u32)t * 8,
               exact_scaled_at(x, copies->scaled < 0 ? 0 : copies->scaled, sub));
    if (t % of_panel < PANEL) {
        u32 from = (u32)(panel->number * (panel->part.last_group + 1) + group) * PANEL +
                   (u32)(t % of_panel),
            place = to + places.meta + (u32)((number * PANEL + t % of_panel) * 8);
        if (panel->part.scale_f32) copy_8(place, (const u32 *)panel->part.meta + 2 * from);
        else copy_4(place, (const u32 *)panel->part.meta + from);
    }
}

DEVICE struct exact_scale exact_scale_in(const u32 *meta, int f32)
{
    if (f32) return (struct exact_scale){f32_of(meta[0]), (int)f32_of(meta[1])};
    return (struct exact_scale){(float)half_of(meta[0]), (int)half_of(meta[0] >> 16)};
}

enum { EXACT_TILES = EXACT_WARP_ROWS / 8 };

DEVICE void exact_tile(const struct exact_linear_args *a, const int rows, const int panels,
                       const int digits, const int pairs)
{
    const struct exact_stage_places places = exact_places(rows, panels, digits, pairs);
    const int across = EXACT_TILE_PANELS(rows, panels) / panels; /* warps */
    if (!exact_tile_exists(a, block_x())) return;
    const struct exact_block_rows r = exact_rows_of_tile(a, block_x(), rows, !!a->expert);
    const int of_expert = a->expert ? block_x() : -1;
    int lane = thread() % WARP, half = warp_number() / across * EXACT_WARP_ROWS,
        own = warp_number() % across * panels, first = block_y() * across * panels;
    u32 shared = lds_address(dynamic_lds);
    float total[2][EXACT_TILES][4];
    UNROLL for (int k = 0; k < panels; k++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
        UNROLL for (int e = 0; e < 4; e++) total[k][i][e] = 0;
    struct exact_copies copies;
    copies.panel = exact_panel_of(a, first + thread() / (THREADS / (across * panels)), of_expert);
    copies.digits[1] = -1;
    UNROLL for (int i = 0; i < rows / 32; i++)
    {
        int place = r.first + thread() / 8 + 32 * i;
        copies.digits[i] = place < r.end ? exact_input(a, place) : -1;
    }
    copies.scaled = r.first + thread() < r.end ? exact_input(a, r.first + thread()) : -1;
    int f32[2]; /* whether the scales of the warp's panels are fp32 */
    UNROLL for (int k = 0; k < panels; k++)
        f32[k] = exact_panel_of(a, first + own + k, of_expert).part.scale_f32;
    UNROLL for (int i = 0; i < EXACT_STAGES - 1; i++)
    {
        if (i < a->groups.n)
            exact_stage(a, &copies, shared + (u32)i * places.bytes, i, rows, panels, digits, pairs);
        copies_commit();
    }
    u32 stage = 0;
    NO_UNROLL for (int sub = 0; sub < a->groups.n; sub++)
    {
        int sum[2][EXACT_TILES][4];
        COPIES_WAIT(EXACT_STAGES - 2);
        barrier();
        int next = sub + EXACT_STAGES - 1;
        if (next < a->groups.n)
            exact_stage(a, &copies, shared + (stage ? stage - 1 : EXACT_STAGES - 1) * places.bytes,
                        next, rows, panels, digits, pairs);
        copies_commit();
        const u8 *lds = (const u8 *)dynamic_lds + stage * places.bytes;
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
            UNROLL for (int e = 0; e < 4; e++) sum[k][i][e] = 0;
        UNROLL for (int d = 0; d < 2; d++)
        {
            if (d == digits) break;
            UNROLL for (int c = 0; c < 4; c++)
            {
                struct exact_bytes q[2];
                UNROLL for (int k = 0; k < panels; k++)
                {
                    const u32 *of_chunk =
                        (const u32 *)(lds + places.codes +
                                      (u32)(((own + k) * 4 * (1 + pairs) + c) * 256 + lane * 8));
                    u64 both = *(const u64 *)of_chunk;
                    u32 w[2] = {(u32)both, (u32)(both >> 32)};
                    q[k] = pairs ? exact_unpack_pair(w, of_chunk + 256) : exact_unpack_half(w);
                }
                UNROLL for (int i = 0; i < EXACT_TILES; i++)
                {
                    u64 b = *(const u64 *)(lds +
                                           (d * rows + half + 8 * i + lane / 4) *
                                               EXACT_MMA_STRIDE +
                                           c * CHUNK + lane % 4 * 8);
                    UNROLL for (int k = 0; k < panels; k++) exact_mma_chunk(sum[k][i], &q[k], b);
                }
            }
            if (d + 1 < digits)
                UNROLL for (int k = 0; k < panels; k++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
                    UNROLL for (int e = 0; e < 4; e++) sum[k][i][e] *= 128;
        }
        struct exact_scale w[2][2];
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int j = 0; j < 2; j++)
        {
            w[k][j] =
                exact_scale_in((const u32 *)(lds + places.meta +
                                             (u32)(((own + k) * PANEL + lane / 4 + 8 * j) * 8)),
                               f32[k]);
            if (pairs) w[k][j].zero = 0;
        }
        const struct exact_scaled *x = (const struct exact_scaled *)(lds + places.scaled) + half +
                                       lane % 4 * 2;
        UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
            UNROLL for (int k = 0; k < panels; k++) total[k][i][e] =
                total[k][i][e] + exact_term(&x[8 * i + e % 2], &w[k][e / 2], sum[k][i][e]);
        stage = stage == EXACT_STAGES - 1 ? 0 : stage + 1;
    }
    UNROLL for (int k = 0; k < panels; k++)
    {
        const struct exact_panel p = exact_panel_of(a, first + own + k, of_expert);
        UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
        {
            int place = r.first + half + 8 * i + lane % 4 * 2 + e % 2,
                output = p.number * PANEL + lane / 4 + e / 2 * 8;
            if (!p.exists || place >= r.end || output >= p.part.out) continue;
            p.part.y[(u64)exact_slot(a, place) * (u64)p.part.out + (u64)output] =
                p.part.bias ? total[k][i][e] + p.part.bias[output] : total[k][i][e];
        }
    }
}

#define EXACT_TILE(name, images, rows, panels, pairs)                                              \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        const struct exact_linear_args *a = ARGS;                                                  \
        if (pairs) exact_tile(a, rows, panels, a->of.digits, 1);                                   \
        else if (a->of.digits == 2) exact_tile(a, rows, panels, 2, 0);                             \
        else exact_tile(a, rows, panels, 1, 0);                                                    \
    })
#include "backend-hip/kernels/nvidia/list.h"
