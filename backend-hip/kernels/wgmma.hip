/* wgmma.hip: 4-bit linears of many rows by Hopper's matrix instruction. A block takes tiles of outputs x rows in turn. One thread
 * copies: for each item of 128 inputs the activations, codes and scales of the tile, into a ring in LDS. Two or three
 * warpgroups compute, each 64 outputs: codes from LDS become the instruction's register operand while the products
 * before are under way. The products of an item, which is of one group, are summed by themselves, then scaled and added. */
enum { COPIER = 128 }; /* threads that copy, after those that compute */

#define KERNEL_WGMMA(name, groups, type)                                                                                                   \
    extern "C" __attribute__((global, launch_bounds((groups)*128 + COPIER, 1))) void name(const type args_by_value)

/* What the constants of a kernel make of its LDS. */
struct ring {
    int panels, x_bytes, code_bytes, stage_bytes; /* of a tile; of a stage */
};

DEVICE struct ring ring_of(const int groups, const int n)
{
    struct ring r;
    r.panels = groups * 4;
    r.x_bytes = n * ITEM_CHUNKS * CHUNK * 2;
    r.code_bytes = r.panels * ITEM_CODES * 4;
    r.stage_bytes = r.x_bytes + r.code_bytes + 1024;
    return r;
}

/* Tile number `index`: rows first, so that weights are still near. */
struct tile {
    struct linear_part p;
    int unit, row_tile;
};

DEVICE struct tile tile_of(const struct linear_args *a, int index, const int n)
{
    struct tile t;
    int n_tiles = (a->rows + n - 1) / n;
    int unit = index / n_tiles;
    t.row_tile = index % n_tiles;
    t.p = part_of(a, unit);
    t.unit = unit - t.p.first;
    return t;
}

/* What a block computes: tiles first, first + step, .. of n; of each the slices slice .. slice_end - 1, all or, where a cluster
 * has one tile together, its own; these are items begin .. end - 1. */
struct share {
    int first, step, n, slice, slice_end, begin, end;
};

DEVICE struct share share_of(const struct linear_args *a, const int n)
{
    int blocks = cluster_blocks(), n_items = a->n_chunks / ITEM_CHUNKS;
    struct share s;
    s.first = block_x() / blocks;
    s.step = grid_x() / blocks;
    s.n = a->n_blocks * ((a->rows + n - 1) / n);
    s.slice = cluster_rank() * DECODE_SLICES / blocks;
    s.slice_end = s.slice + DECODE_SLICES / blocks;
    s.begin = slice_begin(n_items, s.slice);
    s.end = slice_begin(n_items, s.slice_end);
    return s;
}

/* The copying thread: the inputs of an item as one piece, codes and scales as boxes of 4 panels, those of the first items before
 * the inputs are there. plain: one word a scale, and one row of scales for an item */
DEVICE void copy_tiles(const struct linear_args *a, u32 lds, u32 full, u32 empty, const int groups, const int n, const int stages,
                       const int plain)
{
    const struct ring r = ring_of(groups, n);
    struct share s = share_of(a, n);
    int stage = 0, early = s.end - s.begin < stages ? s.end - s.begin : stages;
    u32 parity = 1; /* what has not been used is empty */
    for (int index = s.first; index < s.n; index += s.step) {
        struct tile t = tile_of(a, index, n);
        const char *x = (const char *)a->x + (u64)t.row_tile * (u64)n * (u64)(a->n_chunks * CHUNK * 2), *maps = (const char *)t.p.maps;
        for (int item = s.begin; item < s.end; item++) {
            u32 to = lds + (u32)(stage * r.stage_bytes), count = full + 8 * (u32)stage;
            phase_wait(empty + 8 * (u32)stage, parity);
            phase_arrive_expect(count, (u32)(r.x_bytes + r.code_bytes + (plain ? r.panels * PANEL * 4 : 0)));
            if (!early) copy_bytes(to, x + (u64)item * (u64)r.x_bytes, (u32)r.x_bytes, count);
            to += (u32)r.x_bytes;
            UNROLL for (int j = 0; j < groups; j++)
            {
                int panel = t.unit * r.panels + 4 * j;
                copy_box(to + (u32)(j * 4 * ITEM_CODES * 4), maps, 0, item, panel, count);
                if (plain)
                    copy_box(to + (u32)(r.code_bytes + j * 4 * PANEL * 4), maps + 128, 0, group_of(&t.p, item * ITEM_CHUNKS), panel, count);
            }
            if (item - s.begin + 1 == early) {
                wait_for_producer();
                NO_UNROLL for (int j = 0; j < early; j++)
                    copy_bytes(lds + (u32)(j * r.stage_bytes), x + (u64)(s.begin + j) * (u64)r.x_bytes, (u32)r.x_bytes, full + 8 * (u32)j);
                early = 0;
            }
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
    if (s.begin == s.end || s.first >= s.n) wait_for_producer();
}

/* part (+)= a chunk: two words of codes, one for each of the outputs of a lane, times 32 inputs. */
DEVICE void wgmma_chunk(const u32 *q, const struct scale_zero g[2], float *part, u64 rows, int more, const int n)
{
    f16x2 lo[4], hi[4];
    unpack_word(q[0], &g[0], lo);
    unpack_word(q[1], &g[1], hi);
    wgmma_begin();
    wgmma(part, word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]), rows, more, n);
    wgmma(part, word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]), rows + 2, 1, n);
    wgmma_commit();
}

/* One item of 64 outputs: total += scale * products. codes, meta: of this lane, x: of the item, addresses in LDS. Of one that is
 * not plain, scales come from memory, and where it is of several groups each chunk is scaled by itself. */
DEVICE void wgmma_item(const struct linear_part *p, u32 codes, u32 meta, u32 x, int panel, int item, float *part, float *total,
                       const int n, const int plain)
{
    struct scale_zero g[2];
    u64 rows = wgmma_rows(x);
    u32 q[4];
    if (plain) UNROLL for (int j = 0; j < 2; j++)
    {
        u32 m = lds_word(meta + (u32)(j * 32));
        g[j] = scale_zero_of((float)half_of(m), half_of(m >> 16));
    }
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
    {
        int fresh = c == 0 || !(plain || p->whole_items), lane = thread() % WARP;
        if (c % 2 == 0) {
            u32x4 v = lds_words(codes + (u32)(c / 2 * (ITEM_CODES * 2)));
            UNROLL for (int i = 0; i < 4; i++) q[i] = v[i];
        }
        if (!plain && fresh) UNROLL for (int j = 0; j < 2; j++)
            g[j] = meta_at(p, meta_row(p, panel, item * ITEM_CHUNKS + c), lane / 4 + 8 * j);
        wgmma_wait_but_one(&q[c % 2 * 2], &q[c % 2 * 2 + 1]);
        wgmma_chunk(q + c % 2 * 2, g, part, rows + (u64)(c / 2 * (n * 128 >> 4) + c % 2 * 4), !fresh, n);
        if (c < ITEM_CHUNKS - 1 && (plain || p->whole_items)) continue;
        wgmma_wait(part, n);
        UNROLL for (int i = 0; i < n / 2; i++) total[i] = fma32(g[i / 2 % 2].scale, part[i], total[i]);
    }
}

/* What a lane has of 16 outputs and n rows, from its first row and output on. */
DEVICE void write_rows(const struct linear_args *a, const struct linear_part *p, int row0, int output, const float *total, const int n)
{
    float bias[2];
    int there[2];
    UNROLL for (int j = 0; j < 2; j++)
    {
        there[j] = output + 8 * j < p->out;
        bias[j] = p->bias && there[j] ? p->bias[output + 8 * j] : 0;
    }
    UNROLL for (int i = 0; i < n / 4; i++)
    {
        int row = row0 + i / 2 * 8 + i % 2;
        if (row >= a->rows) continue;
        float scale = a->scale[row], *y = p->y + (u64)row * (u64)p->out + (u64)output;
        UNROLL for (int j = 0; j < 2; j++)
        {
            float v = total[i / 2 * 4 + 2 * j + i % 2] * scale;
            if (there[j]) y[8 * j] = p->bias ? v + bias[j] : v;
        }
    }
}

/* A computing warpgroup. sliced: eighths of the inputs are summed by themselves, as hopper_decode.hip does. */
DEVICE void compute_tiles(const struct linear_args *a, const u32 *lds, u32 full, u32 empty, const int groups, const int n, const int stages,
                          const int plain, const int sliced)
{
    struct ring r = ring_of(groups, n);
    int lane = thread() % WARP, n_items = a->n_chunks / ITEM_CHUNKS, stage = 0;
    int n_all = a->n_blocks * ((a->rows + n - 1) / n);
    u32 parity = 0, at = lds_address(lds), k = (u32)(thread() / WARP);
    u32 codes = keep(k * ITEM_CODES * 4 + (u32)(lane * 16 + r.x_bytes));
    u32 meta = keep(k * PANEL * 4 + (u32)(lane / 4 * 4 + r.x_bytes + r.code_bytes));
    for (int index = block_x(); index < n_all; index += grid_x()) {
        struct tile t = tile_of(a, index, n);
        float total[64], sum[64], part[64];
        int panel = t.unit * r.panels + (int)k, last = (t.p.out - 1) / PANEL, slice = 1;
        UNROLL for (int i = 0; i < n / 2; i++) total[i] = sum[i] = 0;
        for (int item = 0; item < n_items; item++) {
            u32 x = at + (u32)(stage * r.stage_bytes);
            phase_wait(full + 8 * (u32)stage, parity);
            if (sliced && item >= slice_begin(n_items, slice)) {
                UNROLL for (int i = 0; i < n / 2; i++) sum[i] += total[i], total[i] = 0;
                while (item >= slice_begin(n_items, slice)) slice++;
            }
            wgmma_item(&t.p, x + codes, x + meta, x, panel < last ? panel : last, item, part, total, n, plain);
            if (lane == 0) phase_arrive(empty + 8 * (u32)stage);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        if (sliced) UNROLL for (int i = 0; i < n / 2; i++) total[i] += sum[i];
        write_rows(a, &t.p, t.row_tile * n + lane % 4 * 2, panel * PANEL + lane / 4, total, n);
    }
}

/* groups: warpgroups that compute, 64 outputs each; n: rows of a tile. Barriers lie behind the ring. */
DEVICE void q4_wgmma(const struct linear_args *early, u32 *lds, const int groups, const int n, const int stages, const int plain,
                     const int sliced)
{
    struct ring r = ring_of(groups, n);
    u32 full = lds_address(lds) + (u32)(stages * r.stage_bytes), empty = full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            phase_init(full + 8 * (u32)i, 1);
            phase_init(empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        phase_init_done();
    }
    barrier();
    if (thread() >= groups * 128) {
        REGISTERS_LESS(32);
        if (thread() == groups * 128) copy_tiles(early, lds_address(lds), full, empty, groups, n, stages, plain);
        else wait_for_producer();
    } else {
        wait_for_producer();
        if (groups == 2) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        compute_tiles(early, lds, full, empty, groups, n, stages, plain, sliced);
    }
}

/* The LDS that hip_linear.c asks for: stages * (256 * rows of a tile + 64 * outputs of a tile + 1024) + 1024 bytes. */
KERNEL_WGMMA(q4_wgmma_prefill_192, 3, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 3, 128, 4, 1, 0); }
KERNEL_WGMMA(q4_wgmma_prefill_128, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 128, 5, 1, 0); }
KERNEL_WGMMA(q4_wgmma_prefill_any, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 128, 5, 0, 0); }
KERNEL_WGMMA(q4_wgmma_decode_16, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 16, 12, 1, 1); }
KERNEL_WGMMA(q4_wgmma_decode_32, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 32, 10, 1, 1); }
KERNEL_WGMMA(q4_wgmma_decode_64, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 64, 8, 1, 1); }
KERNEL_WGMMA(q4_wgmma_wide_16, 3, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 3, 16, 12, 1, 1); }
KERNEL_WGMMA(q4_wgmma_wide_32, 3, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 3, 32, 9, 1, 1); }
KERNEL_WGMMA(q4_wgmma_wide_64, 3, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 3, 64, 7, 1, 1); }
KERNEL_WGMMA(q4_wgmma_decode_any, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 64, 7, 0, 1); }
