/* wgmma.hip: 4-bit linears of many rows by Hopper's matrix instruction. A block takes tiles of outputs x rows in turn. One
 * warpgroup copies: for each item of 128 inputs the activations, codes and scales of the tile, into a ring in LDS. Two or three
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

/* The copying warpgroup: activations as one piece, codes and scales by all threads. plain: one word a scale, and one row of
 * scales for an item */
DEVICE void copy_tiles(const struct linear_args *a, u32 lds, u32 full, u32 empty, const int groups, const int n, const int stages,
                       const int plain)
{
    struct ring r = ring_of(groups, n);
    int i = thread() % 128, n_items = a->n_chunks / ITEM_CHUNKS, n_all = a->n_blocks * ((a->rows + n - 1) / n), stage = 0;
    u64 panel_bytes = (u64)(a->n_chunks * CHUNK * PANEL / 2);
    u32 parity = 1; /* what has not been used is empty */
    for (int index = block_x(); index < n_all; index += grid_x()) {
        struct tile t = tile_of(a, index, n);
        int panel0 = t.unit * r.panels, last = (t.p.out - 1) / PANEL;
        const char *codes = (const char *)t.p.weight + i % 64 * 16;
        const char *x = (const char *)a->x + (u64)t.row_tile * (u64)n * (u64)(a->n_chunks * CHUNK * 2);
        const u32 *meta =
            (const u32 *)t.p.meta + (panel0 + i / 4 < last ? panel0 + i / 4 : last) * (t.p.last_group + 1) * PANEL + i % 4 * 4;
        for (int item = 0; item < n_items; item++) {
            u32 to = lds + (u32)(stage * r.stage_bytes), count = full + 8 * (u32)stage;
            phase_wait(empty + 8 * (u32)stage, parity);
            if (i == 0) {
                phase_arrive_expect(count, (u32)r.x_bytes);
                copy_bytes(to, x + (u64)item * (u64)r.x_bytes, (u32)r.x_bytes, count);
            }
            NO_UNROLL for (int j = 0; j < r.panels / 2; j++)
            {
                int panel = panel0 + 2 * j + i / 64;
                copy_16(to + (u32)(r.x_bytes + (j * 128 + i) * 16), codes + (u64)(panel < last ? panel : last) * panel_bytes);
            }
            if (plain && i < r.panels * 4)
                copy_16(to + (u32)(r.x_bytes + r.code_bytes + i * 16), meta + group_of(&t.p, item * ITEM_CHUNKS) * PANEL);
            phase_arrive_copied(count);
            codes += ITEM_CODES * 4;
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

/* One item of 64 outputs: total += scale * products. codes, meta: of this lane, in LDS; x: of the item. Of one that is not
 * plain, scales come from memory, and where it is of several groups each chunk is scaled by itself. */
DEVICE void wgmma_item(const struct linear_part *p, const u32 *codes, const u32 *meta, u32 x, int panel, int item, float *part,
                       float *total, const int n, const int plain)
{
    int lane = thread() % WARP;
    struct scale_zero g[2];
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
    {
        u32 q[2] = {codes[c / 2 * (ITEM_CODES / 2) + c % 2 * 2], codes[c / 2 * (ITEM_CODES / 2) + c % 2 * 2 + 1]};
        f16x2 lo[4], hi[4];
        int fresh = c == 0 || !(plain || p->whole_items);
        if (plain && c == 0) {
            UNROLL for (int j = 0; j < 2; j++) g[j] = scale_zero_of((float)half_of(meta[8 * j]), half_of(meta[8 * j] >> 16));
        } else if (!plain && fresh) {
            UNROLL for (int j = 0; j < 2; j++) g[j] = meta_at(p, meta_row(p, panel, item * ITEM_CHUNKS + c), lane / 4 + 8 * j);
        }
        wgmma_wait_but_one(&q[0], &q[1]);
        unpack_word(q[0], &g[0], lo);
        unpack_word(q[1], &g[1], hi);
        u64 rows = wgmma_rows(x + (u32)(c / 2 * n * 128 + c % 2 * 64));
        wgmma_begin();
        wgmma(part, word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]), rows, !fresh, n);
        wgmma(part, word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]), rows + 2, 1, n);
        wgmma_commit();
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
    int lane = thread() % WARP, warp = thread() / WARP % 4, group = thread() / 128, n_items = a->n_chunks / ITEM_CHUNKS, stage = 0;
    int n_all = a->n_blocks * ((a->rows + n - 1) / n);
    u32 parity = 0, at = lds_address(lds);
    for (int index = block_x(); index < n_all; index += grid_x()) {
        struct tile t = tile_of(a, index, n);
        float total[64], sum[64], part[64];
        int k = group * 4 + warp, panel = t.unit * r.panels + k, last = (t.p.out - 1) / PANEL, slice = 1;
        UNROLL for (int i = 0; i < n / 2; i++) total[i] = sum[i] = 0;
        for (int item = 0; item < n_items; item++) {
            const u32 *of = lds + stage * (r.stage_bytes / 4) + r.x_bytes / 4;
            phase_wait(full + 8 * (u32)stage, parity);
            if (sliced && item >= slice_begin(n_items, slice)) {
                UNROLL for (int i = 0; i < n / 2; i++) sum[i] += total[i], total[i] = 0;
                while (item >= slice_begin(n_items, slice)) slice++;
            }
            wgmma_item(&t.p, of + k * ITEM_CODES + lane * 4, of + r.code_bytes / 4 + k * PANEL + lane / 4,
                       at + (u32)(stage * r.stage_bytes), panel < last ? panel : last, item, part, total, n, plain);
            phase_arrive(empty + 8 * (u32)stage);
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
            phase_init(full + 8 * (u32)i, 1 + 128);
            phase_init(empty + 8 * (u32)i, (u32)groups * 128);
        }
        phase_init_done();
    }
    barrier();
    wait_for_producer();
    if (thread() >= groups * 128) {
        REGISTERS_LESS(32);
        copy_tiles(early, lds_address(lds), full, empty, groups, n, stages, plain);
    } else {
        if (groups == 2) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        compute_tiles(early, lds, full, empty, groups, n, stages, plain, sliced);
    }
}

/* The LDS that hip_linear.c asks for: stages * (256 * rows of a tile + 64 * outputs of a tile + 1024) + 1024 bytes. */
KERNEL_WGMMA(q4_wgmma_prefill_192, 3, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 3, 128, 4, 1, 0); }
KERNEL_WGMMA(q4_wgmma_prefill_128, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 128, 5, 1, 0); }
KERNEL_WGMMA(q4_wgmma_prefill_any, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 128, 5, 0, 0); }
KERNEL_WGMMA(q4_wgmma_decode_32, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 32, 8, 1, 1); }
KERNEL_WGMMA(q4_wgmma_decode_64, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 64, 7, 1, 1); }
KERNEL_WGMMA(q4_wgmma_decode_any, 2, struct linear_args) { q4_wgmma(EARLY_ARGS, dynamic_lds, 2, 64, 7, 0, 1); }
