/* exact_gemv.hip: 4-bit linears of one decode row in the CPU's order on sm_90a, with what comes
 * before and after them: plain linears with groups of 128 inputs.
 *   fusion    prologue: norm, combination of KV chunks, or the row as it is, then its digits, in
 *             every block; epilogue: y, y += (residual stream), or the activation of two parts
 *   grid      persistent: a block a multiprocessor, beside which no other one fits, so that the row
 *             is prepared once there; blocks take output tiles of one panel (16 outputs) in turn,
 *             with an activation the same panel of both parts
 *   warps     16 that compute, one whose first thread copies, one that adds
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage is
 *             EXACT_GEMV_ITEMS sub-groups of a panel, two bulk copies; the first ones are copied
 *             before the producer launch has ended
 *   products  mma of signed bytes: codes are operand a, columns 2i and 2i + 1 of operand b the
 *             digits of the row
 * Bits: the terms of a tile go to one of two buffers; a lane of the adding warp adds those of an
 * output, sub-group by sub-group (common/exact_linear.hip). */
enum { GEMV_COPIES = EXACT_GEMV_ITEMS, GEMV_ADDS }; /* warps */
#define GEMV_BARRIER() BARRIER_OF(1, EXACT_GEMV_COMPUTE)

/* Shared memory of a block, in order: the ring, mbarriers, digits [digit][inputs], scales and sums
 * [sub-group], terms [2][panels][sub-groups][PANEL]; `row`, the squares of a normed row, is in the
 * place of these. */
struct exact_gemv_lds {
    u32 ring, full, empty, added, added_empty;
    u8 *digits;
    struct exact_scaled *scaled;
    float *terms, *row;
    int of_buffer; /* floats */
};

DEVICE struct exact_gemv_lds exact_gemv_lds_of(const struct exact_gemv_args *a, u8 *lds,
                                               const int panels, const int digits)
{
    struct exact_gemv_lds l;
    u8 *barriers = lds + EXACT_GEMV_STAGES * EXACT_GEMV_STAGE;
    l.ring = lds_address(lds);
    l.full = lds_address(barriers);
    l.empty = l.full + 8 * EXACT_GEMV_STAGES;
    l.added = l.empty + 8 * EXACT_GEMV_STAGES;
    l.added_empty = l.added + 16;
    l.digits = barriers + EXACT_GEMV_BARRIERS;
    l.scaled = (struct exact_scaled *)(l.digits + digits * a->n_subs * 128);
    l.terms = l.row = (float *)(l.digits + digits * a->n_subs * 128 + (a->n_subs + 1) / 2 * 16);
    l.of_buffer = panels * a->n_subs * PANEL;
    return l;
}

/* The copying thread copies a tile's panels, stage by stage. */
DEVICE void exact_gemv_copy(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                            const int panels)
{
    int stage = 0;
    u32 parity = 1; /* an unused stage is empty */
    for (int tile = block_x(); tile < a->linear.n_blocks; tile += grid_x())
        for (int i = 0; i < panels; i++) {
            struct linear_part p = panels > 1 && i ? a->linear.part[1]
                                                   : part_of(&a->linear, tile);
            u64 panel = (u64)(panels > 1 ? tile : tile - p.first) * (u64)a->n_subs;
            const char *codes = (const char *)p.weight + panel * ITEM_BYTES,
                       *meta = (const char *)p.meta + panel * (PANEL * 4);
            for (int sub = 0; sub < a->n_subs; sub += EXACT_GEMV_ITEMS) {
                u32 n = (u32)(a->n_subs - sub < EXACT_GEMV_ITEMS ? a->n_subs - sub
                                                                 : EXACT_GEMV_ITEMS),
                    to = l->ring + (u32)(stage * EXACT_GEMV_STAGE), full = l->full + 8 * (u32)stage;
                mbarrier_wait(l->empty + 8 * (u32)stage, parity);
                mbarrier_arrive_expect(full, n * (ITEM_BYTES + PANEL * 4));
                bulk_copy(to, codes + (u64)sub * ITEM_BYTES, n * ITEM_BYTES, full);
                bulk_copy(to + EXACT_GEMV_ITEMS * ITEM_BYTES, meta + (u64)sub * (PANEL * 4),
                          n * (PANEL * 4), full);
                if (++stage == EXACT_GEMV_STAGES) stage = 0, parity ^= 1;
            }
        }
    wait_for_producer();
}

/* ---- the row */

/* Makes digits of octet number `octet` of the inputs. All threads of a warp come, neighbours with
 * neighbouring octets. The bytes of one octet number in a pair of chunks lie together. */
DEVICE void exact_gemv_digits(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                              int octet, const float *v, const int digits)
{
    struct exact_integers integers = exact_integers_of(v, digits == 2, 0, (int *)0);
    int chunk = octet / 4;
    u32 word[2][2];
    if (octet >= a->n_subs * 16) return;
    exact_bytes_of(integers.of, digits == 2, word);
    UNROLL for (int d = 0; d < digits; d++) *
        (u64 *)(l->digits + d * a->n_subs * 128 + chunk / 2 * 64 + octet % 4 * 16 + chunk % 2 * 8) =
        (u64)word[d][0] | (u64)word[d][1] << 32;
    if (octet % 16 == 0) l->scaled[octet / 16] = integers.scaled;
}

DEVICE void exact_gemv_normed(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                              const int digits)
{
    const struct norm_args *norm_of = &a->norm;
    float v[EXACT_GEMV_NORM_OCTETS][8], w[EXACT_GEMV_NORM_OCTETS][8], lane = 0;
    UNROLL for (int i = 0; i < EXACT_GEMV_NORM_OCTETS; i++)
    {
        int index = (i * EXACT_GEMV_COMPUTE + thread()) * 8;
        if (index < norm_of->dim) load_octet(norm_of->weight + index, w[i]);
    }
    wait_for_producer();
    UNROLL for (int i = 0; i < EXACT_GEMV_NORM_OCTETS; i++)
    {
        int index = (i * EXACT_GEMV_COMPUTE + thread()) * 8;
        UNROLL for (int e = 0; e < 8; e++) v[i][e] = 0;
        if (index >= norm_of->dim) continue;
        load_octet(norm_of->x + index, v[i]);
        UNROLL for (int e = 0; e < 8; e += 4) * (f32x4 *)(l->row + index + e) =
            (f32x4){v[i][e] * v[i][e], v[i][e + 1] * v[i][e + 1], v[i][e + 2] * v[i][e + 2],
                    v[i][e + 3] * v[i][e + 3]};
    }
    GEMV_BARRIER();
    if (thread() < WARP) { /* both halves of the warp have the same lanes */
        const float *from = l->row + thread() % EXACT_LANES, *end = from + norm_of->dim;
        float s[8], next[8];
        UNROLL for (int k = 0; k < 8; k++) s[k] = from[k * EXACT_LANES];
        while ((from += 128) < end) { /* a whole sub-group at a time */
            UNROLL for (int k = 0; k < 8; k++) next[k] = from[k * EXACT_LANES];
            UNROLL for (int k = 0; k < 8; k++) lane += s[k], s[k] = next[k];
        }
        UNROLL for (int k = 0; k < 8; k++) lane += s[k];
        UNROLL for (int i = EXACT_LANES / 2; i; i /= 2)
            lane += f32_of(shuffle_xor(bits_of(lane), i));
        warp_barrier();
        if (thread() == 0) l->row[0] = 1.0f / exact_sqrt(lane / (float)norm_of->dim + norm_of->eps);
    }
    GEMV_BARRIER();
    float f = l->row[0];
    UNROLL for (int i = 0; i < EXACT_GEMV_NORM_OCTETS; i++)
    {
        int octet = i * EXACT_GEMV_COMPUTE + thread();
        if (i * EXACT_GEMV_COMPUTE * 8 >= norm_of->dim) break;
        if (octet * 8 < norm_of->dim)
            UNROLL for (int e = 0; e < 8; e++) v[i][e] = v[i][e] * f * w[i][e];
        exact_gemv_digits(a, l, octet, v[i], digits);
    }
}

/* 8 dimensions of a head from the chunks that the row sees, merged in order. */
DEVICE void exact_gemv_merged(const struct combine_args *m, int index, float v[8])
{
    int hd = m->head_dim, head = index / hd, pos = m->pos[0],
        first = first_seen(pos, m->window) / KV_SPLIT;
    float max = -__builtin_inff(), sum = 0;
    UNROLL for (int e = 0; e < 8; e++) v[e] = 0;
    for (int c = first; c <= pos / KV_SPLIT; c++) {
        const float *part = m->parts + (u64)(head * m->n_splits + c) * (u64)part_floats(hd);
        float acc[8], old, now;
        load_octet(part + index % hd, acc);
        exact_merge_scales(&max, &sum, part[round8(hd)], part[round8(hd) + 1], &old, &now);
        UNROLL for (int e = 0; e < 8; e++) v[e] = v[e] * old + acc[e] * now;
    }
    float f = exact_factor(sum, max, m->sinks, head);
    UNROLL for (int e = 0; e < 8; e++) v[e] = v[e] * f;
}

DEVICE void exact_gemv_combined(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                                const int digits)
{
    wait_for_producer();
    NO_UNROLL for (int i = 0; i < a->n_subs * 16; i += EXACT_GEMV_COMPUTE)
    {
        int octet = i + thread();
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (octet < a->n_subs * 16) exact_gemv_merged(&a->combine, octet * 8, v);
        exact_gemv_digits(a, l, octet, v, digits);
    }
}

DEVICE void exact_gemv_as_it_is(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                                const int digits)
{
    float v[EXACT_GEMV_ROW_OCTETS][8];
    wait_for_producer();
    UNROLL for (int i = 0; i < EXACT_GEMV_ROW_OCTETS; i++)
    {
        int octet = i * EXACT_GEMV_COMPUTE + thread();
        UNROLL for (int e = 0; e < 8; e++) v[i][e] = 0;
        if (octet < a->n_subs * 16) load_octet((const float *)a->linear.x + octet * 8, v[i]);
    }
    UNROLL for (int i = 0; i < EXACT_GEMV_ROW_OCTETS; i++)
        if (i * EXACT_GEMV_COMPUTE < a->n_subs * 16)
            exact_gemv_digits(a, l, i * EXACT_GEMV_COMPUTE + thread(), v[i], digits);
}

/* ---- products */

/* The term of the sub-group that a warp has of a stage: lanes 4r and 4r + 1 have outputs r and r +
 * 8. */
DEVICE float exact_gemv_term(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                             u32 stage, int sub, const int digits)
{
    int lane = thread() % WARP, digit = lane / 4 % digits, h = lane % 2, index = warp_number(),
        sum[4] = {0, 0, 0, 0};
    u32 x = lds_address(l->digits) + (u32)((digit * a->n_subs + sub) * 128 + lane % 4 * 16);
    UNROLL for (int i = 0; i < 2; i++)
    {
        u32x4 q = lds_words(stage + (u32)(index * ITEM_BYTES + i * (ITEM_BYTES / 2) + lane * 16)),
              b = lds_words(x + (u32)(64 * i));
        UNROLL for (int j = 0; j < 2; j++) mma_s8(
            sum, q[2 * j] & 0x0f0f0f0fu, q[2 * j + 1] & 0x0f0f0f0fu, q[2 * j] >> 4 & 0x0f0f0f0fu,
            q[2 * j + 1] >> 4 & 0x0f0f0f0fu, b[2 * j], b[2 * j + 1]);
    }
    u32 meta = lds_word(
        stage + (u32)(EXACT_GEMV_ITEMS * ITEM_BYTES + index * PANEL * 4 + (lane / 4 + 8 * h) * 4));
    struct exact_scale w = {(float)half_of(meta), (int)half_of(meta >> 16)};
    int high = h ? sum[2] : sum[0], low = h ? sum[3] : sum[1];
    return exact_term(&l->scaled[sub], &w, digits == 2 ? high * 128 + low : high);
}

/* A position in the ring. */
struct exact_gemv_place {
    int stage;
    u32 parity;
};

/* Computes the terms of n stages (a constant) from sub-group `sub` of a panel on. valid: whether
 * the warp has a sub-group of the last stage; to: terms of the panel */
DEVICE void exact_gemv_stages(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                              struct exact_gemv_place *place, int sub, int valid, float *to,
                              const int n, const int digits)
{
    float term[2];
    int stage[2], lane = thread() % WARP;
    UNROLL for (int k = 0; k < n; k++)
    {
        stage[k] = place->stage;
        mbarrier_wait(l->full + 8 * (u32)stage[k], place->parity);
        if (++place->stage == EXACT_GEMV_STAGES) place->stage = 0, place->parity ^= 1;
    }
    if (n == 2 || valid) {
        UNROLL for (int k = 0; k < n; k++) term[k] = exact_gemv_term(
            a, l, l->ring + (u32)(stage[k] * EXACT_GEMV_STAGE), sub + EXACT_GEMV_ITEMS * k, digits);
        UNROLL for (int k = 0; k < n; k++) if (lane % 4 < 2)
            to[(sub + EXACT_GEMV_ITEMS * k) * PANEL] = term[k];
    }
    warp_barrier();
    UNROLL for (int k = 0; k < n; k++) if (lane == 0) mbarrier_arrive(l->empty +
                                                                      8 * (u32)stage[k]);
}

/* A warp that computes: its sub-group of every stage, of two stages at a time where both have one.
 */
DEVICE void exact_gemv_terms(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                             const int panels, const int digits)
{
    int lane = thread() % WARP, warp = warp_number();
    struct exact_gemv_place place = {0, 0};
    u32 turn = 0;
    for (int tile = block_x(); tile < a->linear.n_blocks; tile += grid_x(), turn++) {
        u32 buffer = turn % 2;
        float *to = l->terms + (int)buffer * l->of_buffer + lane / 4 + lane % 2 * 8;
        if (turn > 1) mbarrier_wait(l->added_empty + 8 * buffer, (turn / 2 + 1) % 2);
        for (int i = 0; i < panels; i++, to += a->n_subs * PANEL) {
            int sub = warp;
            for (; sub + EXACT_GEMV_ITEMS < a->n_subs; sub += 2 * EXACT_GEMV_ITEMS)
                exact_gemv_stages(a, l, &place, sub, 1, to, 2, digits);
            for (; sub - warp < a->n_subs; sub += EXACT_GEMV_ITEMS)
                exact_gemv_stages(a, l, &place, sub, sub < a->n_subs, to, 1, digits);
        }
        if (lane == 0) mbarrier_arrive(l->added + 8 * buffer);
    }
}

/* The warp that adds: lane i has output i of a tile; with an activation lanes from 16 on have those
 * of the second part. */
DEVICE void exact_gemv_add(const struct exact_gemv_args *a, const struct exact_gemv_lds *l,
                           const int panels)
{
    int lane = thread() % WARP;
    u32 turn = 0;
    for (int tile = block_x(); tile < a->linear.n_blocks; tile += grid_x(), turn++) {
        u32 buffer = turn % 2;
        struct linear_part p = part_of(&a->linear, tile);
        int output = (tile - p.first) * PANEL + lane % PANEL,
            valid = output < p.out && lane < PANEL;
        const float *bias = panels > 1 && lane >= PANEL ? a->linear.part[1].bias : p.bias,
                    *count = l->terms + (int)buffer * l->of_buffer +
                             (panels > 1 ? lane / PANEL : 0) * a->n_subs * PANEL + lane % PANEL;
        float before = a->add && valid ? p.y[output] : 0, total = 0;
        mbarrier_wait(l->added + 8 * buffer, turn / 2 % 2);
        for (int sub = 0; sub < a->n_subs; sub += 16) {
            float term[16];
            UNROLL for (int i = 0; i < 16; i++) term[i] = count[(sub + i) * PANEL];
            UNROLL for (int i = 0; i < 16; i++) if (sub + i < a->n_subs) total = total + term[i];
        }
        if (bias && output < p.out) total = total + bias[output];
        if (panels > 1) {
            float up = shuffle_from(total, lane % PANEL + PANEL);
            total = exact_gated(&a->glu, total, &up);
        }
        if (valid) p.y[output] = a->add ? before + total : total;
        warp_barrier();
        if (lane == 0) mbarrier_arrive(l->added_empty + 8 * buffer);
    }
}

/* panels: of an output tile */
DEVICE void exact_gemv(const struct exact_gemv_args *a, u32 *lds, const enum gemv_source source,
                       const int panels, const int digits)
{
    const struct exact_gemv_lds l = exact_gemv_lds_of(a, (u8 *)lds, panels, digits);
    if (thread() == 0) {
        for (int i = 0; i < EXACT_GEMV_STAGES; i++) {
            mbarrier_init(l.full + 8 * (u32)i, 1);
            mbarrier_init(l.empty + 8 * (u32)i, EXACT_GEMV_ITEMS);
        }
        for (int i = 0; i < 2; i++) {
            mbarrier_init(l.added + 8 * (u32)i, EXACT_GEMV_ITEMS);
            mbarrier_init(l.added_empty + 8 * (u32)i, 1);
        }
        mbarrier_init_done();
    }
    barrier();
    if (warp_number() == GEMV_COPIES) {
        if (thread() % WARP == 0) exact_gemv_copy(a, &l, panels);
        else wait_for_producer();
    } else if (warp_number() == GEMV_ADDS) {
        wait_for_producer();
        exact_gemv_add(a, &l, panels);
    } else {
        if (source == GEMV_NORM) exact_gemv_normed(a, &l, digits);
        else if (source == GEMV_COMBINE) exact_gemv_combined(a, &l, digits);
        else exact_gemv_as_it_is(a, &l, digits);
        GEMV_BARRIER();
        exact_gemv_terms(a, &l, panels, digits);
    }
}

#define EXACT_GEMV(name, images, source, panels)                                                   \
    ON_##images(KERNEL(name, struct exact_gemv_args) {                                             \
        const struct exact_gemv_args *a = EARLY_ARGS;                                              \
        if (a->digits == 2) exact_gemv(a, dynamic_lds, source, panels, 2);                         \
        else exact_gemv(a, dynamic_lds, source, panels, 1);                                        \
    })
#include "backend-hip/kernels/hopper/list.h"
