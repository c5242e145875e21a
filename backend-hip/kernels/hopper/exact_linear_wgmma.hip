/* exact_linear_wgmma.hip: 4-bit linears in the CPU's order by wgmma of signed bytes on sm_90a, for
 * many rows: plain linears (scales in fp16, groups of multiples of 128 inputs).
 *   grid      persistent: a block, of which a multiprocessor has one or two, takes output x row
 *             tiles in turn, rows first
 *   warps     warp-specialized as hopper/linear_prefill_wgmma.hip: one producer thread, one to
 *             three consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage is a sub-group:
 *             128 inputs
 *   products  code - zero as signed bytes in registers, the integers of the rows in shared memory;
 *             64 columns at a time
 *   rows      [row tile][sub-group][columns][128 bytes]: digit d of row r is column r * digits + d,
 *             so that a lane has both digits of a row. Octet o of chunk c: the bytes for low
 *             nibbles are at 32c + 4o, those for high ones at 32c + 16 + 4o; 16 bytes number i of
 *             a column are at i ^ (column % 8)
 * Bits: the matrix unit sums the integers of a sub-group, the lane that has an output adds its
 * terms, sub-group by sub-group (common/exact_linear.hip). */
struct exact_ring {
    u32 codes, meta, scaled, bytes; /* offsets in a stage */
};

DEVICE struct exact_ring exact_ring_of(const int groups, const int columns)
{
    struct exact_ring r;
    r.codes = (u32)columns * 128;
    r.meta = r.codes + (u32)groups * 4 * ITEM_BYTES;
    r.scaled = r.meta + (u32)groups * 4 * PANEL * 4;
    r.bytes = EXACT_WGMMA_STAGE(groups, columns);
    return r;
}

/* The producer thread: bulk copies for the integers and scales of the rows, TMA boxes of 4 panels
 * for codes and scales of the weights; those of the first stages ahead of the rows. */
DEVICE void exact_produce(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int columns, const int stages)
{
    const struct exact_ring r = exact_ring_of(groups, columns);
    const u32 of_rows = (u32)a->of.tile * 8;
    int n_tiles = (a->linear.rows + a->of.tile - 1) / a->of.tile, n = a->linear.n_blocks * n_tiles,
        subs = a->groups.n, stage = 0, early = subs < stages ? subs : stages;
    u32 parity = 1; /* an unused stage is empty */
    if (block_x() >= n) wait_for_producer();
    for (int index = block_x(); index < n; index += grid_x()) {
        int row_tile = index % n_tiles, out_tile = index / n_tiles;
        struct linear_part p = part_of(&a->linear, out_tile);
        const char *x = (const char *)a->of.digit +
                        (u64)row_tile * (u64)subs * (u64)(columns * 128),
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
                bulk_copy(at, x + (u64)i * (u64)(columns * 128), (u32)columns * 128, of);
                bulk_copy(at + r.scaled, scaled + (u64)i * next, of_rows, of);
            }
            if (sub + 1 == early) early = 0;
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

/* A word of codes as code - zero: bytes of the low nibbles, of the high ones; less: 4 times 128 -
 * the zero point, which is at most 128. */
DEVICE void exact_unpack(u32 word, u32 less, u32 *low, u32 *high)
{
    *low = ((word & 0x0f0f0f0fu) + less) ^ 0x80808080u;
    *high = ((word >> 4 & 0x0f0f0f0fu) + less) ^ 0x80808080u;
}

/* A lane's codes of a sub-group as operand a, and the scales of its two outputs. */
struct exact_weights {
    u32 a[ITEM_CHUNKS][4];
    float scale[2];
};

/* codes, meta: of the lane; addresses in shared memory */
DEVICE void exact_read_weights(u32 codes, u32 meta, struct exact_weights *w)
{
    u32 less[2];
    UNROLL for (int h = 0; h < 2; h++)
    {
        u32 m = lds_word(meta + (u32)(h * 32));
        w->scale[h] = (float)half_of(m);
        less[h] = 0x80808080u - (u32)(int)half_of(m >> 16) * 0x01010101u;
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        u32x4 q = lds_words(codes + (u32)(i * ITEM_BYTES / 2));
        UNROLL for (int j = 0; j < 4; j++) exact_unpack(
            q[j], less[j % 2], &w->a[2 * i + j / 2][j % 2], &w->a[2 * i + j / 2][2 + j % 2]);
    }
}

/* Begins the products of a sub-group with 64 columns. */
DEVICE void exact_begin_products(int *part, const struct exact_weights *w, u64 columns)
{
    wgmma_begin();
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
        wgmma_s8(part, w->a[c], columns + (u64)(2 * c), c > 0);
    wgmma_commit();
}

/* total += terms of 64 columns. scaled: of their rows, an address in shared memory. total[4j + 2h +
 * e]: output lane / 4 + 8h, row 8j + 2 (lane % 4) + e; with two digits total[2j + h]: row 4j + lane
 * % 4 */
DEVICE void exact_add_terms(const int *part, const float *scale, u32 scaled, float *total,
                            const int digits)
{
    int t = thread() % 4;
    UNROLL for (int j = 0; j < 8; j++)
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

/* A consumer's place in the ring and what it has of a tile. codes, meta: of the lane, in a stage */
struct exact_consumer {
    u32 lds, full, empty, codes, meta, parity;
    int stage, left; /* stage of the weights that are read next; sub-groups that are not read yet */
    struct exact_weights w[2];
    float total[64]; /* of which 32 a product of 64 columns and one digit, 16 two digits */
};

/* Waits for the next sub-group of the tile, if there is one, and reads its weights. */
DEVICE void exact_next(struct exact_consumer *c, const struct exact_ring *r,
                       struct exact_weights *w)
{
    u32 x = c->lds + (u32)c->stage * r->bytes;
    if (!c->left) return;
    c->left--;
    mbarrier_wait(c->full + 8 * (u32)c->stage, c->parity);
    exact_read_weights(x + c->codes, x + c->meta, w);
}

/* The terms of the sub-group of weights w[now]; the next one's are read while its products are in
 * flight. */
DEVICE void exact_sub(struct exact_consumer *c, const struct exact_ring *r, const int now,
                      const int columns, const int stages, const int digits)
{
    const int halves = columns / 64;
    int part[2][32];
    u32 x = c->lds + (u32)c->stage * r->bytes, empty = c->empty + 8 * (u32)c->stage;
    UNROLL for (int h = 0; h < halves; h++)
        exact_begin_products(part[h], &c->w[now], wgmma_rows(x + (u32)(h * 64 * 128)));
    if (++c->stage == stages) c->stage = 0, c->parity ^= 1;
    exact_next(c, r, &c->w[!now]);
    UNROLL for (int h = 0; h < halves; h++)
    {
        wgmma_wait_s8(part[h], halves - 1 - h);
        exact_add_terms(part[h], c->w[now].scale, x + r->scaled + (u32)(h * 64 / digits * 8),
                        c->total + h * (32 / digits), digits);
    }
    warp_barrier(); /* all lanes have read the scales of the rows */
    if (thread() % WARP == 0) mbarrier_arrive(empty);
}

/* Writes the results of a tile. output: the first of the lane */
DEVICE void exact_write(const struct exact_linear_args *a, const struct linear_part *p,
                        const float *total, int row0, int output, const int columns,
                        const int digits)
{
    int lane = thread() % WARP;
    UNROLL for (int h = 0; h < 2; h++)
    {
        if (output + 8 * h >= p->out) continue;
        UNROLL for (int i = 0; i < columns / 4 / digits; i++)
        {
            int row = row0 + (digits == 2 ? 4 * i + lane % 4 : i / 2 * 8 + lane % 4 * 2 + i % 2);
            float v = total[digits == 2 ? 2 * i + h : i / 2 * 4 + 2 * h + i % 2];
            if (row < a->linear.rows)
                p->y[(u64)row * (u64)p->out + (u64)(output + 8 * h)] =
                    p->bias ? v + p->bias[output + 8 * h] : v;
        }
    }
}

/* A consumer warpgroup. */
DEVICE void exact_consume(const struct exact_linear_args *a, u32 lds, u32 full, u32 empty,
                          const int groups, const int columns, const int stages, const int digits)
{
    const struct exact_ring r = exact_ring_of(groups, columns);
    const int rows = columns / digits;
    int lane = thread() % WARP, warp = thread() / WARP,
        n_tiles = (a->linear.rows + rows - 1) / rows, n = a->linear.n_blocks * n_tiles;
    struct exact_consumer c;
    c.lds = lds;
    c.full = full;
    c.empty = empty;
    c.codes = r.codes + (u32)(warp * ITEM_BYTES + lane * 16);
    c.meta = r.meta + (u32)(warp * PANEL * 4 + lane / 4 * 4);
    c.parity = 0;
    c.stage = 0;
    for (int index = block_x(); index < n; index += grid_x()) {
        UNROLL for (int i = 0; i < columns / 2 / digits; i++) c.total[i] = 0;
        c.left = a->groups.n;
        exact_next(&c, &r, &c.w[0]);
        for (int sub = 0; sub < a->groups.n; sub += 2) {
            exact_sub(&c, &r, 0, columns, stages, digits);
            if (sub + 1 == a->groups.n) break;
            exact_sub(&c, &r, 1, columns, stages, digits);
        }
        struct linear_part p = part_of(&a->linear, index / n_tiles);
        exact_write(a, &p, c.total, index % n_tiles * rows,
                    ((index / n_tiles - p.first) * groups * 4 + warp) * PANEL + lane / 4, columns,
                    digits);
    }
}

/* groups: consumer warpgroups. The mbarriers are behind the ring. */
DEVICE void exact_wgmma(const struct exact_linear_args *a, u32 *memory, const int groups,
                        const int columns, const int stages)
{
    u32 lds = lds_address(memory), full = lds + (u32)(stages * EXACT_WGMMA_STAGE(groups, columns)),
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
        if (thread() == groups * 128) exact_produce(a, lds, full, empty, groups, columns, stages);
        else wait_for_producer();
    } else {
        wait_for_producer();
        if (groups < 3) REGISTERS_MORE(232);
        else REGISTERS_MORE(160);
        if (a->of.digits == 2) exact_consume(a, lds, full, empty, groups, columns, stages, 2);
        else if (groups < 3 || columns < 128)
            exact_consume(a, lds, full, empty, groups, columns, stages, 1);
    }
}

#define EXACT_WGMMA(name, images, groups, columns, stages, blocks)                                 \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        exact_wgmma(EARLY_ARGS, dynamic_lds, groups, columns, stages);                             \
    })
#include "backend-hip/kernels/kernel_list.h"
