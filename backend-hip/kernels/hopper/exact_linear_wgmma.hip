/* exact_linear_wgmma.hip: 4-bit linears in the CPU's order by wgmma of signed bytes on sm_90a, for
 * many rows: plain linears (scales in fp16, groups of multiples of 128 inputs).
 *   grid      persistent: a block, of which a multiprocessor has one or two, takes output x row
 *             tiles in turn, rows first
 *   warps     warp-specialized as hopper/linear_prefill_wgmma.hip: one producer thread, one to
 *             three consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage is a sub-group:
 *             128 inputs
 *   products  code - zero as signed bytes in registers, the integers of the rows in shared memory
 *   rows      [row tile][sub-group][EXACT_COLUMNS][128 bytes]: digit d of row r is column r *
 *             digits + d, so that a lane has both digits of a row. Octet o of chunk c: the bytes
 *             for low nibbles are at 32c + 4o, those for high ones at 32c + 16 + 4o; 16 bytes
 *             number i of a column are at i ^ (column % 8)
 * Bits: the matrix unit sums the integers of a sub-group, the lane that has an output adds its
 * terms, sub-group by sub-group (common/exact_linear.hip). */
struct exact_ring {
    u32 codes, meta, scaled, bytes; /* offsets in a stage */
};

DEVICE struct exact_ring exact_ring_of(const int groups)
{
    struct exact_ring r;
    r.codes = EXACT_COLUMNS * 128;
    r.meta = r.codes + (u32)groups * 4 * ITEM_BYTES;
    r.scaled = r.meta + (u32)groups * 4 * PANEL * 4;
    r.bytes = EXACT_WGMMA_STAGE(groups);
    return r;
}

/* The producer thread: bulk copies for the integers and scales of the rows, TMA boxes of 4 panels
 * for codes and scales of the weights; those of the first stages ahead of the rows. */
DEVICE void exact_produce(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int stages)
{
    const struct exact_ring r = exact_ring_of(groups);
    const u32 of_rows = (u32)a->of.tile * 8;
    int n_tiles = (a->linear.rows + a->of.tile - 1) / a->of.tile, n = a->linear.n_blocks * n_tiles,
        subs = a->groups.n, stage = 0, early = subs < stages ? subs : stages;
    u32 parity = 1; /* an unused stage is empty */
    if (block_x() >= n) wait_for_producer();
    for (int index = block_x(); index < n; index += grid_x()) {
        int row_tile = index % n_tiles, out_tile = index / n_tiles;
        struct linear_part p = part_of(&a->linear, out_tile);
        const char *x = (const char *)a->of.digit +
                        (u64)row_tile * (u64)subs * (u64)(EXACT_COLUMNS * 128),
                   *scaled = (const char *)(a->of.scaled + (u64)row_tile * (u64)a->of.tile),
                   *maps = (const char *)p.maps;
        u64 next = (u64)a->of.rows * 8;
        int panel = (out_tile - p.first) * groups * 4;
        for (int sub = 0; sub < subs; sub++) {
            u32 to = lds + (u32)stage * r.bytes, count = full + 8 * (u32)stage;
            mbarrier_wait(empty + 8 * (u32)stage, parity);
            mbarrier_arrive_expect(count, r.scaled + of_rows);
            UNROLL for (int j = 0; j < groups; j++)
            {
                tma_load(to + r.codes + (u32)(j * 4 * ITEM_BYTES), maps, 0, sub, panel + 4 * j,
                         count);
                tma_load(to + r.meta + (u32)(j * 4 * PANEL * 4), maps + 128, 0,
                         group_of(&p, sub * ITEM_CHUNKS), panel + 4 * j, count);
            }
            if (sub + 1 == early) wait_for_producer();
            for (int i = sub + 1 == early ? 0 : sub; i <= sub && sub + 1 >= early; i++) {
                u32 at = lds + (u32)(early ? i : stage) * r.bytes,
                    of = full + 8 * (u32)(early ? i : stage);
                bulk_copy(at, x + (u64)i * (EXACT_COLUMNS * 128), EXACT_COLUMNS * 128, of);
                bulk_copy(at + r.scaled, scaled + (u64)i * next, of_rows, of);
            }
            if (sub + 1 == early) early = 0;
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

/* A word of codes as code - zero: bytes of the low nibbles, of the high ones; zeros: 4 times the
 * zero point, at most 128. */
DEVICE void exact_unpack(u32 word, u32 zeros, u32 *low, u32 *high)
{
    *low = (((word & 0x0f0f0f0fu) | 0x80808080u) - zeros) ^ 0x80808080u;
    *high = (((word >> 4 & 0x0f0f0f0fu) | 0x80808080u) - zeros) ^ 0x80808080u;
}

/* total += terms of a sub-group. codes, meta: of the lane; addresses in shared memory. total[4j +
 * 2h
 * + e]: output lane / 4 + 8h, row 8j + 2 (lane % 4) + e; with two digits total[2j + h]: row 4j +
 * lane % 4 */
DEVICE void exact_wgmma_sub(u32 x, u32 codes, u32 meta, u32 scaled, float *total, const int digits)
{
    int part[EXACT_COLUMNS / 2], t = thread() % 4;
    u32 a[ITEM_CHUNKS][4];
    float scale[2];
    u32 zeros[2];
    u64 rows = wgmma_rows(x);
    UNROLL for (int h = 0; h < 2; h++)
    {
        u32 m = lds_word(meta + (u32)(h * 32));
        scale[h] = (float)half_of(m);
        zeros[h] = (u32)(int)half_of(m >> 16) * 0x01010101u;
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        u32x4 q = lds_words(codes + (u32)(i * ITEM_BYTES / 2));
        UNROLL for (int j = 0; j < 4; j++) exact_unpack(
            q[j], zeros[j % 2], &a[2 * i + j / 2][j % 2], &a[2 * i + j / 2][2 + j % 2]);
    }
    wgmma_begin();
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) wgmma_s8(part, a[c], rows + (u64)(2 * c), c > 0);
    wgmma_commit();
    wgmma_wait_s8(part);
    UNROLL for (int j = 0; j < EXACT_COLUMNS / 8; j++)
    {
        if (digits == 2) {
            float xs = f32_of(lds_word(scaled + (u32)((4 * j + t) * 8)));
            UNROLL for (int h = 0; h < 2; h++) total[2 * j + h] =
                total[2 * j + h] +
                (float)(part[4 * j + 2 * h] * 128 + part[4 * j + 2 * h + 1]) * (xs * scale[h]);
            continue;
        }
        u32x4 xs = lds_words(scaled + (u32)((8 * j + 2 * t) * 8));
        UNROLL for (int e = 0; e < 4; e++) total[4 * j + e] =
            total[4 * j + e] + (float)part[4 * j + e] * (f32_of(xs[e % 2 * 2]) * scale[e / 2]);
    }
}

/* A consumer warpgroup. */
DEVICE void exact_consume(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int stages, const int digits)
{
    const struct exact_ring r = exact_ring_of(groups);
    const int rows = EXACT_COLUMNS / digits, of_column = 4 / digits; /* results of 8 columns */
    int lane = thread() % WARP, warp = thread() / WARP, stage = 0,
        n_tiles = (a->linear.rows + rows - 1) / rows, n = a->linear.n_blocks * n_tiles;
    u32 parity = 0, codes = r.codes + (u32)(warp * ITEM_BYTES + lane * 16),
        meta = r.meta + (u32)(warp * PANEL * 4 + lane / 4 * 4);
    for (int index = block_x(); index < n; index += grid_x()) {
        float total[64]; /* of which two digits use 32 */
        UNROLL for (int i = 0; i < 64 / digits; i++) total[i] = 0;
        for (int sub = 0; sub < a->groups.n; sub++) {
            u32 x = lds + (u32)stage * r.bytes;
            mbarrier_wait(full + 8 * (u32)stage, parity);
            exact_wgmma_sub(x, x + codes, x + meta, x + r.scaled, total, digits);
            warp_barrier(); /* all lanes have read the scales of the rows */
            if (lane == 0) mbarrier_arrive(empty + 8 * (u32)stage);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        struct linear_part p = part_of(&a->linear, index / n_tiles);
        int row0 = index % n_tiles * rows,
            output = ((index / n_tiles - p.first) * groups * 4 + warp) * PANEL + lane / 4;
        UNROLL for (int h = 0; h < 2; h++)
        {
            if (output + 8 * h >= p.out) continue;
            UNROLL for (int i = 0; i < 32 / digits; i++)
            {
                int row = row0 +
                          (digits == 2 ? 4 * i + lane % 4 : i / 2 * 8 + lane % 4 * 2 + i % 2);
                float v = total[digits == 2 ? 2 * i + h : i / 2 * of_column + 2 * h + i % 2];
                if (row < a->linear.rows)
                    p.y[(u64)row * (u64)p.out + (u64)(output + 8 * h)] =
                        p.bias ? v + p.bias[output + 8 * h] : v;
            }
        }
    }
}

/* groups: consumer warpgroups. The mbarriers are behind the ring. */
DEVICE void exact_wgmma(const struct exact_linear_args *a, u32 *memory, const int groups,
                        const int stages)
{
    u32 lds = lds_address(memory), full = lds + (u32)(stages * EXACT_WGMMA_STAGE(groups)),
        empty = full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(full + 8 * (u32)i, 1);
            mbarrier_init(empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        mbarrier_init_done();
    }
    barrier();
    if (thread() >= groups * 128) {
        if (groups < 3) REGISTERS_LESS(24);
        else REGISTERS_LESS(32);
        if (thread() == groups * 128) exact_produce(a, lds, full, empty, groups, stages);
        else wait_for_producer();
    } else {
        wait_for_producer();
        if (groups < 3) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        if (a->of.digits == 2) exact_consume(a, lds, full, empty, groups, stages, 2);
        else exact_consume(a, lds, full, empty, groups, stages, 1);
    }
}

#define EXACT_WGMMA(name, images, groups, stages, blocks)                                          \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        exact_wgmma(EARLY_ARGS, dynamic_lds, groups, stages);                                      \
    })
#include "backend-hip/kernels/kernel_list.h"
