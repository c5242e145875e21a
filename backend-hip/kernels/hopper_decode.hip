/* hopper_decode.hip: 4-bit linears for up to 16 generated tokens on sm_90a. A block takes panels of 16 outputs, one after the
 * other. Each of its 16 warps has a sixteenth of the inputs and a ring in LDS of its own, which it fills items
 * ahead and across panels, from before the launch before this one has ended. Nothing in the loop waits for other warps: each
 * leaves its sums in LDS, and the warp whose turn it is adds those of a panel in order. The products of an item, or of a
 * chunk where an item is of several groups, are summed by themselves: the order of wgmma.hip, which has the same bits. */

enum { SLICES = 16, DECODE_THREADS = SLICES * WARP, SLOT = ITEM_CODES * 4 + 64, SUMS = 4 }; /* SLOT: bytes; SUMS: buffers of 8 rows */

#define KERNEL_DECODE(name, blocks, type)                                                                                                  \
    extern "C" __attribute__((global, launch_bounds(DECODE_THREADS, blocks))) void name(const type args_by_value)

/* The first item of a slice. */
DEVICE int slice_begin(int n_items, int slice) { return n_items * slice / SLICES; }

/* The next item that a warp asks for, and where to. */
struct fetch {
    const char *codes; /* its, of this lane */
    const u32 *meta;   /* of the panel, of this lane */
    int unit, item, part_end, last_group;
    u32 to, magic;
};

DEVICE void fetch_enter(const struct linear_args *a, struct fetch *f, int unit, int item)
{
    struct linear_part p = part_of(a, unit);
    int lane = thread() % WARP;
    u64 panel = (u64)(unit - p.first);
    f->unit = unit;
    f->item = item;
    f->part_end = p.first + (p.out + PANEL - 1) / PANEL;
    f->codes = (const char *)p.weight + (panel * (u64)(a->n_chunks / ITEM_CHUNKS) + (u64)item) * (ITEM_CODES * 4) + lane * 16;
    f->meta = (const u32 *)p.meta + panel * (u64)((p.last_group + 1) * PANEL) + lane * 4;
    f->magic = p.group_magic;
    f->last_group = p.last_group;
}

/* Asks for an item and goes on to the next one of the slice, or to the slice of the next panel. */
DEVICE void fetch_next(const struct linear_args *a, struct fetch *f, int begin, int end, int end_unit, u32 ring_end, u32 ring_bytes, const int plain)
{
    if (f->unit < end_unit) {
        copy_16(f->to, f->codes);
        copy_16(f->to + 512, f->codes + 512);
        if (plain && thread() % WARP < 4) {
            int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
            copy_16(f->to + ITEM_CODES * 4, f->meta + (group < f->last_group ? group : f->last_group) * PANEL);
        }
        f->to += SLOT;
        if (f->to == ring_end) f->to -= ring_bytes;
        f->codes += ITEM_CODES * 4;
        if (++f->item == end) {
            f->item = begin;
            f->codes += (a->n_chunks / ITEM_CHUNKS - (end - begin)) * (ITEM_CODES * 4);
            f->meta += (f->last_group + 1) * PANEL;
            if (++f->unit == f->part_end && f->unit < end_unit) fetch_enter(a, f, f->unit, begin);
        }
    }
    copies_commit();
}

/* total += an item times v[chunk][tile]. */
DEVICE void decode_item(const struct linear_part *p, const u32 *item, u32x4 v[][2], int panel, int number, float total[][4], const int tiles,
                        const int plain)
{
    int lane = thread() % WARP;
    struct scale_zero g[2];
    float part[2][4];
    if (plain) {
        const u32 *meta = item + ITEM_CODES + lane / 4;
        UNROLL for (int j = 0; j < 2; j++) g[j] = scale_zero_of((float)half_of(meta[8 * j]), half_of(meta[8 * j] >> 16));
    }
    UNROLL for (int b = 0; b < ITEM_CHUNKS / 2; b++)
    {
        u32x4 q = *(const u32x4 *)(item + b * (ITEM_CODES / 2) + lane * 4);
        UNROLL for (int c = 2 * b; c < 2 * b + 2; c++)
        {
            f16x2 lo[4], hi[4];
            int fresh = c == 0 || !(plain || p->whole_items);
            if (!plain && fresh)
                UNROLL for (int j = 0; j < 2; j++) g[j] = meta_at(p, meta_row(p, panel, number * ITEM_CHUNKS + c), lane / 4 + 8 * j);
            unpack_word(q[c % 2 * 2], &g[0], lo);
            unpack_word(q[c % 2 * 2 + 1], &g[1], hi);
            UNROLL for (int m = 0; m < tiles; m++)
            {
                if (fresh) UNROLL for (int i = 0; i < 4; i++) part[m][i] = 0;
                mma_16x8x16(part[m], word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]), v[c][m][0], v[c][m][1]);
                mma_16x8x16(part[m], word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]), v[c][m][2], v[c][m][3]);
                if (c < ITEM_CHUNKS - 1 && (plain || p->whole_items)) continue;
                UNROLL for (int i = 0; i < 4; i++) total[m][i] = fma32(g[i / 2].scale, part[m][i], total[m][i]);
            }
        }
    }
}

/* A panel's sums: adds the slices of what this lane has, and writes it. */
DEVICE void decode_finish(const struct linear_args *a, int unit, const float *sums, int row0)
{
    struct linear_part p = part_of(a, unit);
    int output = (unit - p.first) * PANEL + thread() % WARP / 4;
    f32x4 sum = {0, 0, 0, 0};
    if (row0 >= a->rows) return;
    UNROLL_4 for (int w = 0; w < SLICES; w++) sum = sum + *(const f32x4 *)(sums + w * (WARP * 4));
    UNROLL for (int i = 0; i < 4; i++) write_output(a, &p, row0 + i % 2, output + i / 2 * 8, sum[i]);
}

/* tiles: of 8 rows. lds: rings [SLICES][depth][SLOT], sums [SUMS / tiles][tiles][SLICES][lane][4], barriers */
DEVICE void q4_hopper_decode(const struct linear_args *a, u32 *lds, const int tiles, const int depth, const int plain)
{
    const int buffers = SUMS / tiles, sum_floats = SLICES * WARP * 4, ring_bytes = depth * SLOT;
    int lane = thread() % WARP, warp = thread() / WARP, n_items = a->n_chunks / ITEM_CHUNKS;
    int begin = slice_begin(n_items, warp), end = slice_begin(n_items, warp + 1);
    int unit = unit_share(a, block_x()), end_unit = unit_share(a, block_x() + 1);
    const u32 *ring = lds + warp * (ring_bytes / 4), *slot = ring;
    float *sums = (float *)(lds + SLICES * (ring_bytes / 4));
    u32 ready = lds_address(sums + SUMS * sum_floats), free = ready + 8 * SUMS, ring_end = lds_address(ring) + (u32)ring_bytes;
    struct fetch f;
    fetch_enter(a, &f, unit, begin);
    f.to = ring_end - (u32)ring_bytes + 16 * (u32)lane;
    ring_end += 16 * (u32)lane;
    if (begin == end) f.unit = end_unit; /* there are fewer items than slices */
    NO_UNROLL for (int i = 0; i < depth; i++) fetch_next(a, &f, begin, end, end_unit, ring_end, ring_bytes, plain);
    if (thread() < buffers) {
        phase_init(ready + 8 * (u32)thread(), SLICES);
        phase_init(free + 8 * (u32)thread(), 1);
    }
    barrier();
    const u32x4 *x[2];
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row = block_y() * 8 * tiles + 8 * m + lane / 4; /* one that is not there is computed as the last one and not written */
        if (row >= a->rows) row = a->rows - 1;
        x[m] = (const u32x4 *)a->x + (row * a->n_chunks * 4 + lane % 4 + begin * 16);
    }
    wait_for_producer();
    struct linear_part p = part_of(a, unit);
    u32 turn = 0;
    for (; unit < end_unit; unit++, turn++) {
        u32 buffer = turn % (u32)buffers, parity = turn / (u32)buffers % 2;
        float total[2][4];
        if (!plain && unit >= p.first + (p.out + PANEL - 1) / PANEL) p = part_of(a, unit);
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++) total[m][i] = 0;
        NO_UNROLL for (int i = begin; i < end; i++)
        {
            u32x4 v[ITEM_CHUNKS][2];
            UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
                UNROLL for (int m = 0; m < tiles; m++) v[c][m] = x[m][(i - begin) * 16 + 4 * c];
            COPIES_WAIT(depth - 1);
            warp_barrier();
            decode_item(&p, slot, v, unit - p.first, i, total, tiles, plain);
            warp_barrier();
            fetch_next(a, &f, begin, end, end_unit, ring_end, ring_bytes, plain);
            slot = slot == ring + (depth - 1) * (SLOT / 4) ? ring : slot + SLOT / 4;
        }
        float *of = sums + (int)buffer * tiles * sum_floats + lane * 4;
        phase_wait(free + 8 * buffer, parity ^ 1); /* what has not been used is free */
        UNROLL for (int m = 0; m < tiles; m++)
            *(f32x4 *)(of + m * sum_floats + warp * (WARP * 4)) = (f32x4){total[m][0], total[m][1], total[m][2], total[m][3]};
        warp_barrier();
        if (lane == 0) phase_arrive(ready + 8 * buffer);
        if ((u32)warp != turn % SLICES) continue;
        phase_wait(ready + 8 * buffer, parity);
        UNROLL for (int m = 0; m < tiles; m++) decode_finish(a, unit, of + m * sum_floats, (block_y() * tiles + m) * 8 + lane % 4 * 2);
        warp_barrier();
        if (lane == 0) phase_arrive(free + 8 * buffer);
    }
}

/* The LDS that hip_linear.c asks for: 16 * depth * 1088 + 4 * 8192 + 64 bytes. */
KERNEL_DECODE(q4_hopper_decode_8, 2, struct linear_args) { q4_hopper_decode(EARLY_ARGS, dynamic_lds, 1, 4, 1); }
KERNEL_DECODE(q4_hopper_decode_16, 1, struct linear_args) { q4_hopper_decode(EARLY_ARGS, dynamic_lds, 2, 4, 1); }
KERNEL_DECODE(q4_hopper_decode_any, 1, struct linear_args) { q4_hopper_decode(EARLY_ARGS, dynamic_lds, 2, 4, 0); }
