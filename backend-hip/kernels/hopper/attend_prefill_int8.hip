/* attend_prefill_int8.hip: attention of prompt rows over pages of int8 and int4 by wgmma on sm_90a,
 * as attend_prefill_wgmma.hip has it for fp16: the same tiles, warps, steps and products.
 *   pipeline  a producer thread copies pieces of 16 codes of the steps ahead to its own places in
 *             shared memory, converts those of a step to halves and writes them to a stage
 *   operands  codes are exact as halves; the scales of keys multiply scores, those of values
 *             weights
 *   weights   of a row are relative to a power of two above the largest scale of the values that it
 *             has seen, so that they fit halves
 *   int4      steps over packed pages before the last page of a row, then a step for each group
 *             over its open pages, of which a warp reads that of its rows */

enum { INT8_STAGES = ATTEND_INT8_STAGES, INT8_AHEAD = ATTEND_INT8_AHEAD };

/* A thread's pieces of the codes of keys or of values of a step, and their places in shared
 * memory. */
#define INT8_PIECES(dims) (KV_STEP * (dims) / 16 / 128)

/* Shared memory: stages of keys and values as in attend_prefill_wgmma.hip, then fp32 scales of
 * KV_STEP keys and KV_STEP values; the copies ahead [INT8_AHEAD][2 INT8_PIECES][128][16 bytes] and
 * [INT8_AHEAD][128] scales; the mbarriers; int4: lo and step of the channels of keys, then of
 * values, [INT8_AHEAD][pages of a step][4 dims]. */
DEVICE u32 int8_ahead_at(const int dims) { return INT8_STAGES * (u32)ATTEND_INT8_STAGE(dims); }
DEVICE u32 int8_scales_ahead_at(const int dims)
{
    return int8_ahead_at(dims) + (u32)(INT8_AHEAD * 2 * INT8_PIECES(dims) * 128 * 16);
}
DEVICE u32 int4_channels_at(const int dims) { return (u32)ATTEND_INT8_SHARED(dims); }

/* What a producer thread copies: pages of the sequence, up to the page of the last position. */
struct int8_source {
    const u8 *pages; /* pages of the KV head */
    const int *table;
    u64 page_stride; /* bytes */
    int last;
    int row0, begin, n; /* the rows of a group whose own pages are copied: rows begin .. n - 1
                           exist */
};

/* The steps of a tile: of int8 over all positions; of int4 `packed` steps over packed pages, then
 * one over the own pages of each group. */
struct int8_steps {
    int packed; /* steps over packed pages; -1: pages are not packed */
    int n;
};

DEVICE struct int8_steps int8_steps_of(const struct query_tile *w, const int int4)
{
    if (!int4) return (struct int8_steps){-1, (w->last - w->begin) / KV_STEP + 1};
    int end = w->last / PAGE * PAGE, /* behind the last position of packed pages */
        packed = end > w->begin ? (end - 1 - w->begin) / KV_STEP + 1 : 0;
    return (struct int8_steps){packed, packed + TILE_GROUPS};
}

/* The first position of step i. own: the group whose own pages it has, -1: none */
DEVICE int int8_step_at(const struct query_tile *w, const struct int8_steps *s, int i, int *own)
{
    *own = s->packed >= 0 && i >= s->packed ? i - s->packed : -1;
    return *own < 0 ? w->begin + i * KV_STEP : *own ? w->pos0[1] : w->pos0[0];
}

DEVICE const u8 *int8_source_page(const struct int8_source *s, int index)
{
    return s->pages +
           (u64)s->table[index <= s->last / PAGE ? index : s->last / PAGE] * s->page_stride;
}

/* Begins to copy a thread's pieces and its scale of the step that begins at position p0 to slot
 * number `slot`. lds is the address at which the block's shared memory begins. */
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
}

/* Begins to copy the packed pages of the step that begins at p0: a thread's pieces of 8 bytes, and
 * its part of the channels. */
DEVICE void int4_ask(const struct int8_source *s, u32 lds, int p0, int slot, const int dims)
{
    int i = thread() % 128;
    u32 to = lds + int8_ahead_at(dims) + (u32)((slot * 2 * INT8_PIECES(dims) * 128 + i) * 16);
    UNROLL for (int j = 0; j < INT8_PIECES(dims); j++)
    {
        int n = j * 128 + i;
        const u8 *from = int8_source_page(s, p0 / PAGE + n / dims) + n % dims * 8;
        copy_8(to + (u32)(2 * j * 128 * 16), from);
        copy_8(to + (u32)((2 * j + 1) * 128 * 16), from + int4_part_at(1, dims));
    }
    if (i < KV_STEP / PAGE * dims / 4) {
        int of_page = dims / 4, part = i % of_page * 16; /* a page has 2 dims bytes of lo and step
                                                            for keys, as many for values */
        copy_16(lds + int4_channels_at(dims) + (u32)((slot * (dims) + i) * 16),
                int8_source_page(s, p0 / PAGE + i / of_page) +
                    (part < 2 * dims ? int4_lo_at(0, dims) + (u32)part
                                     : int4_lo_at(1, dims) + (u32)(part - 2 * dims)));
    }
    copy_4(lds + int8_scales_ahead_at(dims) + (u32)((slot * 128 + i) * 4),
           int8_source_page(s, p0 / PAGE + i % KV_STEP / PAGE) + 20 * dims +
               i / KV_STEP * (4 * PAGE) + i % PAGE * 4);
}

/* Begins to copy the own pages of a group's rows. Positions before the first row or behind the last
 * one get the page of the nearest row. */
DEVICE void own_ask(const struct attend_kernel_args *a, const struct int8_source *s, u32 lds,
                    int slot, int kv_head, const int dims)
{
    int i = thread() % 128;
    u32 to = lds + int8_ahead_at(dims) + (u32)((slot * 2 * INT8_PIECES(dims) * 128 + i) * 16);
    UNROLL for (int j = 0; j < INT8_PIECES(dims) + 1; j++)
    {
        int n = j * 128 + i, scales = j == INT8_PIECES(dims),
            row = (scales ? i % KV_STEP / PAGE : n / dims) * PAGE;
        row = row < s->begin ? s->begin : row < s->n ? row : s->n - 1;
        const u8 *page = own_page_of(a, s->row0 + row, kv_head);
        if (scales) {
            copy_4(lds + int8_scales_ahead_at(dims) + (u32)((slot * 128 + i) * 4),
                   page + 2 * PAGE * dims + i / KV_STEP * (4 * PAGE) + i % PAGE * 4);
            continue;
        }
        copy_16(to + (u32)(2 * j * 128 * 16), page + n % dims * 16);
        copy_16(to + (u32)((2 * j + 1) * 128 * 16), page + PAGE * dims + n % dims * 16);
    }
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

/* put_key_piece() and put_value_piece() for packed pieces. channels: lo and step of the page's
 * keys, then of its values */
DEVICE void put_packed_key(u8 *stage, const u8 *codes, const u8 *channels, int n, const int dims)
{
    int position = n / dims * PAGE + n % PAGE, block = n % dims / PAGE;
    u32x2 code = *(const u32x2 *)codes;
    u32x4 lo = *(const u32x4 *)(channels + 16 * block),
          step = *(const u32x4 *)(channels + dims + 16 * block);
    UNROLL for (int h = 0; h < 2; h++)
    {
        u32 pair[4];
        UNROLL for (int i = 0; i < 2; i++)
        {
            struct channel_pairs c = channel_pairs_of(lo[2 * h + i], step[2 * h + i], 0);
            u32 even = int4_halves(code[h], &c, i, 0), odd = int4_halves(code[h], &c, i, 1);
            pair[2 * i] = chosen_bytes(even, odd, 0x5410);
            pair[2 * i + 1] = chosen_bytes(even, odd, 0x7632);
        }
        *(u32x4 *)(stage + ((2 * block + h) * KV_STEP + position) * 16) = (u32x4){pair[0], pair[1],
                                                                                  pair[2], pair[3]};
    }
}

DEVICE void put_packed_value(u8 *values, const u8 *codes, const u8 *channels, int n, const int dims)
{
    int four = n % dims / (dims / 4), d = n % dims % (dims / 4) * 4,
        position = n / dims * PAGE + four * 4;
    u32x2 code = *(const u32x2 *)codes;
    u32 lo = *(const u32 *)(channels + 2 * dims + d),
        step = *(const u32 *)(channels + 3 * dims + d),
        count[4][2]; /* [dimension][odd positions] */
    UNROLL for (int j = 0; j < 4; j++)
    {
        struct channel_pairs c = row_pairs_of(lo, step, j);
        UNROLL for (int odd = 0; odd < 2; odd++)
            count[j][odd] = int4_halves(code[j / 2], &c, j % 2, odd);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        int p = position + i;
        u32 lower = chosen_bytes(count[0][i % 2], count[1][i % 2], i / 2 ? 0x7632 : 0x5410),
            upper = chosen_bytes(count[2][i % 2], count[3][i % 2], i / 2 ? 0x7632 : 0x5410);
        *(u64 *)(values + d / 64 * (KV_STEP * 128) + p * 128 + (d % 64 / 8 ^ p % 8) * 16 +
                 d % 8 * 2) = (u64)lower | (u64)upper << 32;
    }
}

/* Begins to copy step i. */
DEVICE void ask_step(const struct attend_kernel_args *a, const struct query_tile *w,
                     const struct int8_steps *steps, struct int8_source *s, u32 lds, int i,
                     int slot, const int dims, const int int4)
{
    if (i < steps->n) {
        int own, p0 = int8_step_at(w, steps, i, &own);
        if (!int4) {
            int8_ask(s, lds, p0, slot, dims);
        } else if (own < 0) {
            int4_ask(s, lds, p0, slot, dims);
        } else if (own ? w->n_rows[1] : w->n_rows[0]) {
            s->row0 = own ? w->row0[1] : w->row0[0];
            s->begin = own ? w->skip[1] : w->skip[0];
            s->n = own ? w->n_rows[1] : w->n_rows[0];
            own_ask(a, s, lds, slot, w->head / (a->n_heads / a->n_kv_heads), dims);
        }
    }
    copies_commit();
}

/* The producer warpgroup. lds: shared memory; r: the ring of attend_prefill_wgmma.hip */
DEVICE void produce_int8(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct kv_ring *r, u8 *lds, const int dims, const int int4)
{
    int i = thread() % 128, stage = 0, slot = 0;
    const struct int8_steps steps = int8_steps_of(w, int4);
    u32 parity = 1; /* an unused stage is empty */
    struct int8_source s;
    const int page_bytes = int4 ? INT4_PAGE(dims) : INT8_PAGE(dims);
    s.pages = (const u8 *)a->pages +
              (u64)(w->head / (a->n_heads / a->n_kv_heads)) * (u64)page_bytes;
    s.table = a->table + (u64)a->seq[w->row0[0] + w->skip[0]] * (u64)a->table_stride;
    s.page_stride = (u64)a->n_kv_heads * (u64)page_bytes;
    s.last = int4 ? w->last / PAGE * PAGE - 1 : w->last;
    UNROLL for (int k = 0; k < INT8_AHEAD - 1; k++)
        ask_step(a, w, &steps, &s, r->stages, k, k, dims, int4);
    for (int index = 0; index < steps.n; index++) {
        int next = slot + INT8_AHEAD - 1, own, p0 = int8_step_at(w, &steps, index, &own);
        if (next >= INT8_AHEAD) next -= INT8_AHEAD;
        ask_step(a, w, &steps, &s, r->stages, index + INT8_AHEAD - 1, next, dims, int4);
        mbarrier_wait(r->empty + (u32)(8 * stage), parity);
        COPIES_WAIT(ATTEND_INT8_AHEAD - 1);
        if (int4) warpgroup_barrier(1); /* the channels are copied by all */
        u8 *to = lds + stage * ATTEND_INT8_STAGE(dims);
        const u32x4 *codes = (const u32x4 *)(lds + int8_ahead_at(dims)) +
                             slot * 2 * INT8_PIECES(dims) * 128 + i;
        if (int4 && own < 0) UNROLL for (int j = 0; j < INT8_PIECES(dims); j++)
            {
                int n = j * 128 + i;
                const u8 *channels = lds + int4_channels_at(dims) + slot * 16 * dims +
                                     n / dims * 4 * dims;
                put_packed_key(to, (const u8 *)&codes[2 * j * 128], channels, n, dims);
                put_packed_value(to + KV_STEP * dims * 2, (const u8 *)&codes[(2 * j + 1) * 128],
                                 channels, n, dims);
            }
        else UNROLL for (int j = 0; j < INT8_PIECES(dims); j++)
            {
                put_key_piece(to, codes[2 * j * 128], j * 128 + i, dims);
                put_value_piece(to + KV_STEP * dims * 2, codes[(2 * j + 1) * 128], j * 128 + i,
                                dims);
            }
        float scale = ((const float *)(lds + int8_scales_ahead_at(dims)))[slot * 128 + i];
        /* stale memory may hold NaN */
        ((float *)(to + 2 * KV_STEP * dims * 2))[i] =
            p0 + i % KV_STEP <= (own < 0 ? s.last : w->last) ? scale : 0;
        if (int4) warpgroup_barrier(1); /* the slot may be copied to */
        matrix_reads_after();
        mbarrier_arrive(r->full + (u32)(8 * stage));
        if (++stage == INT8_STAGES) stage = 0, parity ^= 1;
        if (++slot == INT8_AHEAD) slot = 0;
    }
}

/* The softmax of a lane's two rows. offset: what the exponents so far are moved by, in bits; unit:
 * the exponent of the power of two that the weights are relative to */
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
 * memory, keys then values. seen: first and last visible position of each row */
DEVICE void online_softmax_int8(struct query_rows *r, struct int8_softmax *x, float score[32],
                                const float *scales, int p0, const int seen[2][2], float shrink[2],
                                const int masked)
{
    float top[2][4], extra[2][4], of_value[KV_STEP / 4];
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
        UNROLL for (int k = 0; k < 4; k++) top[i][k] = r->largest[i];
        largest_value[i] = 0;
        UNROLL for (int k = 0; k < KV_STEP / 4; k++)
        {
            float *s = &score[k / 2 * 4 + 2 * i + k % 2], value = abs32(of_value[k]);
            if (masked) {
                int p = p0 + thread() % 4 * 2 + k / 2 * 8 + k % 2;
                int sees = p >= seen[i][0] && p <= seen[i][1];
                *s = sees ? *s : -__builtin_inff();
                value = sees ? value : 0;
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
            extra[i][k % 4] = k < 4 ? *s : extra[i][k % 4] + *s;
            *s = masked && *s == 0 ? 0 : *s * of_value[k];
        }
        r->sum[i] = fma32(r->sum[i], shrink[i],
                          (extra[i][0] + extra[i][1]) + (extra[i][2] + extra[i][3]));
    }
}

/* A consumer warpgroup: 64 rows of the tile. lds: shared memory */
DEVICE void consume_int8(const struct attend_kernel_args *a, const struct query_tile *w,
                         const struct kv_ring *ring, const u8 *lds, const int dims,
                         const int queries, const int halves, const int int4)
{
    const struct int8_steps steps = int8_steps_of(w, int4);
    const int key_bytes = KV_STEP * dims * 2;
    struct query_rows r;
    struct int8_softmax x;
    int stage = 0;
    u32 parity = 0;
    begin_rows(a, w, &r, dims, 1);
    UNROLL for (int i = 0; i < 2; i++) x.offset[i] = x.unit[i] = x.top_value[i] = 0;
    for (int index = 0; index < steps.n; index++) {
        int own, p0 = int8_step_at(w, &steps, index, &own), seen[2][2];
        u32 keys = ring->stages + (u32)(stage * ATTEND_INT8_STAGE(dims));
        const float *scales =
            (const float *)(lds + stage * ATTEND_INT8_STAGE(dims) + 2 * key_bytes);
        mbarrier_wait(ring->full + (u32)(8 * stage), parity);
        int packed = int4 && own < 0, active = own == thread() / 128;
        if (own < 0) active = p0 <= (int4 ? r.highest / PAGE * PAGE - 1 : r.highest);
        if (active && r.n_rows) {
            struct two_halves p[KV_STEP / 16][4];
            float score[32], shrink[2];
            int whole = own < 0 && p0 + KV_STEP - 1 <= (int4 ? r.lowest - 1 : r.lowest) &&
                        first_seen(r.highest, a->window) <= p0;
            UNROLL for (int i = 0; i < 2; i++)
            {
                int pos = r.lowest + r.row + 8 * i, page = pos / PAGE * PAGE;
                seen[i][0] = first_seen(pos, a->window);
                seen[i][1] = packed ? page - 1 : pos;
                if (own >= 0 && seen[i][0] < page) seen[i][0] = page;
            }
            if (dims == 64) keep_queries(r.q, a->n_heads >> 31, dims, queries);
            wgmma_scores(keys, r.q, score, dims, queries);
            wgmma_wait(score, 64);
            if (whole) online_softmax_int8(&r, &x, score, scales, p0, seen, shrink, 0);
            else online_softmax_int8(&r, &x, score, scales, p0, seen, shrink, 1);
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
                              const int queries, const int halves, const int int4)
{
    struct kv_ring r;
    r.stages = lds_address(lds);
    r.full = r.stages + int8_scales_ahead_at(dims) + INT8_AHEAD * 128 * 4;
    r.empty = r.full + 8 * INT8_STAGES;
    begin_ring(&r, INT8_STAGES, 128);
    struct query_tile w = query_tile_of(early, int4, KV_STEP);
    barrier();
    wait_for_producer();
    if (thread() >= TILE_GROUPS * 128) {
        REGISTERS_LESS(56);
        produce_int8(early, &w, &r, (u8 *)lds, dims, int4);
    } else {
        REGISTERS_MORE(224);
        consume_int8(early, &w, &r, (const u8 *)lds, dims, queries, halves, int4);
    }
}

#define ATTEND_WGMMA_INT8(name, images, dims, queries, halves, int4)                               \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        attend_wgmma_int8(EARLY_ARGS, dynamic_lds, dims, queries, halves, int4);                   \
    })
#include "backend-hip/kernels/hopper/list.h"
