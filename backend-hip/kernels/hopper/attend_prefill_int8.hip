/* attend_prefill_int8.hip: attention of prompt rows over pages of int8 by wgmma on sm_90a, as
 * attend_prefill_wgmma.hip has it for fp16: the same tiles, warps, steps and products.
 *   pipeline  a producer thread copies pieces of 16 codes of the steps ahead to its own places in
 *             shared memory, converts those of a step to halves and writes them to a stage
 *   operands  codes are exact as halves; the scales of keys multiply scores, those of values
 *             weights
 *   weights   of a row are relative to a power of two above the largest scale of the values that it
 *             has seen, so that they fit halves */

enum { INT8_STAGES = ATTEND_INT8_STAGES, INT8_AHEAD = ATTEND_INT8_AHEAD };

/* A thread's pieces of the codes of keys or of values of a step, and their places in shared
 * memory. */
#define INT8_PIECES(dims) (KV_STEP * (dims) / 16 / 128)

/* Shared memory: stages of keys and values as in attend_prefill_wgmma.hip, then fp32 scales of
 * KV_STEP keys and KV_STEP values; the copies ahead [INT8_AHEAD][2 INT8_PIECES][128][16 bytes] and
 * [INT8_AHEAD][128] scales; the mbarriers. */
DEVICE u32 int8_ahead_at(const int dims) { return INT8_STAGES * (u32)ATTEND_INT8_STAGE(dims); }
DEVICE u32 int8_scales_ahead_at(const int dims)
{
    return int8_ahead_at(dims) + (u32)(INT8_AHEAD * 2 * INT8_PIECES(dims) * 128 * 16);
}

/* What a producer thread copies: pages of the sequence, up to the page of the last position. */
struct int8_source {
    const u8 *pages; /* of the KV head */
    const int *table;
    u64 page_stride; /* bytes */
    int last;
};

DEVICE const u8 *int8_source_page(const struct int8_source *s, int index)
{
    return s->pages +
           (u64)s->table[index <= s->last / PAGE ? index : s->last / PAGE] * s->page_stride;
}

/* Asks for a thread's pieces and its scale of the step from p0 on. lds: of shared memory */
DEVICE void int8_ask(const struct int8_source *s, u32 lds, int p0, int slot, const int dims)
{
    int i = thread() % 128;
    u32 to = lds + int8_ahead_at(dims) + (u32)((slot * 2 * INT8_PIECES(dims) * 128 + i) * 16);
    if (p0 <= s->last) {
        UNROLL for (int j = 0; j < INT8_PIECES(dims); j++)
        {
            int n = j * 128 + i; /* a page has `dims` pieces of keys, as many of values */
            const u8 *from = int8_source_page(s, p0 / PAGE + n / dims) + n % dims * 16;
            copy_16(to + (u32)(2 * j * 128 * 16), from);
            copy_16(to + (u32)((2 * j + 1) * 128 * 16), from + PAGE * dims);
        }
        copy_4(lds + int8_scales_ahead_at(dims) + (u32)((slot * 128 + i) * 4),
               int8_source_page(s, p0 / PAGE + i % KV_STEP / PAGE) + 2 * PAGE * dims +
                   i / KV_STEP * (4 * PAGE) + i % PAGE * 4);
    }
    copies_commit();
}

/* Bytes 0 and 1 (high 0) or 2 and 3 of a word of codes + 128 as halves of codes. */
DEVICE u32 int8_pair(u32 word, const int high)
{
    f16x2 biased = pair_of(chosen_bytes(word, 0x64646464u, high ? 0x4342 : 0x4140));
    return word_of(biased - (f16x2){(f16)1152, (f16)1152});
}

/* Piece n of the keys: 16 dimensions of a position. */
DEVICE void put_key_piece(u8 *stage, u32x4 codes, int n, const int dims)
{
    int position = n / dims * PAGE + n % PAGE, block = n % dims / PAGE;
    UNROLL for (int h = 0; h < 2; h++)
    {
        u32 a = codes[2 * h] ^ 0x80808080u, b = codes[2 * h + 1] ^ 0x80808080u;
        *(u32x4 *)(stage + ((2 * block + h) * KV_STEP + position) * 16) =
            (u32x4){int8_pair(a, 0), int8_pair(a, 1), int8_pair(b, 0), int8_pair(b, 1)};
    }
}

/* Piece n of the values: 4 dimensions of 4 positions. */
DEVICE void put_value_piece(u8 *values, u32x4 codes, int n, const int dims)
{
    int four = n % dims / (dims / 4), d = n % dims % (dims / 4) * 4,
        position = n / dims * PAGE + four * 4;
    UNROLL for (int h = 0; h < 2; h++) /* two positions */
    {
        u32 a = chosen_bytes(codes[0], codes[1], h ? 0x7362 : 0x5140) ^ 0x80808080u,
            b = chosen_bytes(codes[2], codes[3], h ? 0x7362 : 0x5140) ^ 0x80808080u;
        UNROLL for (int i = 0; i < 2; i++)
        {
            int p = position + 2 * h + i;
            *(u64 *)(values + d / 64 * (KV_STEP * 128) + p * 128 + (d % 64 / 8 ^ p % 8) * 16 +
                     d % 8 * 2) = (u64)int8_pair(a, i) | (u64)int8_pair(b, i) << 32;
        }
    }
}

/* The producer warpgroup. lds: shared memory; r: as of attend_prefill_wgmma.hip */
DEVICE void produce_int8(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct kv_ring *r, u8 *lds, const int dims)
{
    int i = thread() % 128, stage = 0, slot = 0;
    u32 parity = 1; /* an unused stage is empty */
    struct int8_source s;
    s.pages = (const u8 *)a->pages +
              (u64)(w->head / (a->n_heads / a->n_kv_heads)) * (u64)INT8_PAGE(dims);
    s.table = a->table + (u64)a->seq[w->row0[0]] * (u64)a->table_stride;
    s.page_stride = (u64)a->n_kv_heads * (u64)INT8_PAGE(dims);
    s.last = w->last;
    UNROLL for (int k = 0; k < INT8_AHEAD - 1; k++)
        int8_ask(&s, r->stages, w->begin + k * KV_STEP, k, dims);
    for (int p0 = w->begin; p0 <= w->last; p0 += KV_STEP) {
        int next = slot + INT8_AHEAD - 1;
        if (next >= INT8_AHEAD) next -= INT8_AHEAD;
        int8_ask(&s, r->stages, p0 + (INT8_AHEAD - 1) * KV_STEP, next, dims);
        mbarrier_wait(r->empty + (u32)(8 * stage), parity);
        COPIES_WAIT(ATTEND_INT8_AHEAD - 1);
        u8 *to = lds + stage * ATTEND_INT8_STAGE(dims);
        const u32x4 *codes = (const u32x4 *)(lds + int8_ahead_at(dims)) +
                             slot * 2 * INT8_PIECES(dims) * 128 + i;
        UNROLL for (int j = 0; j < INT8_PIECES(dims); j++)
        {
            put_key_piece(to, codes[2 * j * 128], j * 128 + i, dims);
            put_value_piece(to + KV_STEP * dims * 2, codes[(2 * j + 1) * 128], j * 128 + i, dims);
        }
        float scale = ((const float *)(lds + int8_scales_ahead_at(dims)))[slot * 128 + i];
        /* stale memory may hold NaN */
        ((float *)(to + 2 * KV_STEP * dims * 2))[i] = p0 + i % KV_STEP <= w->last ? scale : 0;
        matrix_reads_after();
        mbarrier_arrive(r->full + (u32)(8 * stage));
        if (++stage == INT8_STAGES) stage = 0, parity ^= 1;
        if (++slot == INT8_AHEAD) slot = 0;
    }
}

/* The softmax of a lane's two rows: offset: of the exponents so far, in bits; unit: the exponent of
 * the power of two that their weights are relative to. */
struct int8_softmax {
    float offset[2], unit[2], top_value[2];
};

/* The exponent of a power of two above x. */
DEVICE float exponent_above(float x)
{
    int e = (int)(bits_of(x) >> 23) - 126;
    return (float)(e < -60 ? -60 : e);
}

/* online_softmax() for scores in units of the scales of the keys. scales: of the step, in shared
 * memory, keys then values. */
DEVICE void online_softmax_int8(struct query_rows *r, struct int8_softmax *x, float score[32],
                                const float *scales, int p0, int window, float shrink[2],
                                const int masked)
{
    float top[2][4], more[2][4], of_value[KV_STEP / 4];
    const float *of_key = scales + thread() % 4 * 2;
    UNROLL for (int k = 0; k < KV_STEP / 4; k += 2)
    {
        f32x2 key = *(const f32x2 *)(of_key + k / 2 * 8),
              value = *(const f32x2 *)(of_key + KV_STEP + k / 2 * 8);
        UNROLL for (int e = 0; e < 2; e++)
        {
            of_value[k + e] = value[e];
            UNROLL for (int i = 0; i < 2; i++) score[k / 2 * 4 + 2 * i + e] *= key[e];
        }
    }
    float largest_value[2];
    UNROLL for (int i = 0; i < 2; i++)
    {
        int pos = r->lowest + r->row + 8 * i,
            first = window && pos >= window ? pos - window + 1 : 0;
        UNROLL for (int k = 0; k < 4; k++) top[i][k] = r->largest[i];
        largest_value[i] = 0;
        UNROLL for (int k = 0; k < KV_STEP / 4; k++)
        {
            float *s = &score[k / 2 * 4 + 2 * i + k % 2], value = abs32(of_value[k]);
            if (masked) {
                int p = p0 + thread() % 4 * 2 + k / 2 * 8 + k % 2;
                *s = p <= pos && p >= first ? *s : -__builtin_inff();
                value = p <= pos && p >= first ? value : 0;
            }
            top[i][k % 4] = max32(*s, top[i][k % 4]);
            largest_value[i] = max32(value, largest_value[i]);
        }
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        top[i][0] = quad_max(max32(max32(top[i][0], top[i][1]), max32(top[i][2], top[i][3])));
        x->top_value[i] = max32(quad_max(largest_value[i]), x->top_value[i]);
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        float to_log2 = r->to_log2[i], unit = exponent_above(x->top_value[i]),
              offset = fma32(top[i][0] == -__builtin_inff() ? 0 : -top[i][0], to_log2, 14 - unit);
        shrink[i] = r->largest[i] == -__builtin_inff() ? 0 : exp2_estimate(offset - x->offset[i]);
        r->largest[i] = top[i][0];
        x->offset[i] = offset;
        x->unit[i] = unit;
        UNROLL for (int k = 0; k < KV_STEP / 4; k++)
        {
            float *s = &score[k / 2 * 4 + 2 * i + k % 2];
            *s = exp2_estimate(fma32(*s, to_log2, offset));
            more[i][k % 4] = k < 4 ? *s : more[i][k % 4] + *s;
            *s = masked && *s == 0 ? 0 : *s * of_value[k];
        }
        r->sum[i] = fma32(r->sum[i], shrink[i],
                          (more[i][0] + more[i][1]) + (more[i][2] + more[i][3]));
    }
}

/* A consumer warpgroup, as consume_kv(). lds: shared memory */
DEVICE void consume_int8(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct kv_ring *ring, const u8 *lds, const int dims,
                         const int halves)
{
    const int key_bytes = KV_STEP * dims * 2;
    struct query_rows r;
    struct int8_softmax x;
    int stage = 0;
    u32 parity = 0;
    begin_rows(a, w, &r, dims, 1);
    UNROLL for (int i = 0; i < 2; i++) x.offset[i] = x.unit[i] = x.top_value[i] = 0;
    for (int p0 = w->begin; p0 <= w->last; p0 += KV_STEP) {
        u32 keys = ring->stages + (u32)(stage * ATTEND_INT8_STAGE(dims));
        const float *scales =
            (const float *)(lds + stage * ATTEND_INT8_STAGE(dims) + 2 * key_bytes);
        mbarrier_wait(ring->full + (u32)(8 * stage), parity);
        if (p0 <= r.highest) {
            struct two_halves p[KV_STEP / 16][4];
            float score[32], shrink[2];
            int whole = p0 + KV_STEP - 1 <= r.lowest && !(a->window && r.highest - a->window >= p0);
            if (dims == 64) keep_queries(r.q, a->window >> 31, dims);
            wgmma_scores(keys, r.q, score, dims);
            wgmma_wait(score, 64);
            if (whole) online_softmax_int8(&r, &x, score, scales, p0, a->window, shrink, 0);
            else online_softmax_int8(&r, &x, score, scales, p0, a->window, shrink, 1);
            UNROLL for (int i = 0; i < dims / 2; i++) r.total[i] *= shrink[i / 2 % 2];
            split_weights(score, p);
            wgmma_values(keys + key_bytes, p, r.total, dims, halves);
            wgmma_wait(r.total, dims);
        }
        if (thread() % WARP == 0) mbarrier_arrive(ring->empty + (u32)(8 * stage));
        if (++stage == INT8_STAGES) stage = 0, parity ^= 1;
    }
    write_rows_of_head(a, w, &r, x.unit, dims);
}

DEVICE void attend_wgmma_int8(const struct attend_kernel_args *early, u32 *lds, const int dims,
                              const int halves)
{
    struct kv_ring r;
    r.stages = lds_address(lds);
    r.full = r.stages + int8_scales_ahead_at(dims) + INT8_AHEAD * 128 * 4;
    r.empty = r.full + 8 * INT8_STAGES;
    begin_ring(&r, INT8_STAGES);
    struct query_tile w = query_tile_of(early);
    barrier();
    wait_for_producer();
    if (thread() >= TILE_GROUPS * 128) {
        REGISTERS_LESS(56);
        produce_int8(early, &w, &r, (u8 *)lds, dims);
    } else {
        REGISTERS_MORE(224);
        consume_int8(early, &w, &r, (const u8 *)lds, dims, halves);
    }
}

#define ATTEND_WGMMA_INT8(name, images, dims, halves)                                              \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_wgmma_int8(EARLY_ARGS, dynamic_lds, dims, halves);                                  \
    })
#include "backend-hip/kernels/kernel_list.h"
