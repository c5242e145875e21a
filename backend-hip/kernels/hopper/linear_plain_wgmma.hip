/* linear_plain_wgmma.hip: linears with bf16 weights or codes of 8 bits by wgmma on sm_90a: prompt
 * rows, with fp16 activations.
 *   grid      persistent: one block a multiprocessor takes output x row tiles in turn, rows first
 *   warps     one producer warp (bulk copies), and consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage has 64 inputs:
 *             the rows of the tile in parts, then the weights of its panels
 *   operands  weights are operand a, in registers, rows are operand b. Activations in two parts of
 *             bfloats (16 bits); of codes one half
 * Bits: all products of an output are added in the order of the inputs, both parts of each 16
 * inputs; those of codes are summed for each chunk, scaled and added. */

enum { PLAIN_PART = PLAIN_WGMMA_ROWS * 128 }; /* bytes of a part of 64 inputs of a tile in memory */

struct plain_ring {
    u32 stages, full, empty;
};

/* The producer warp: lane i copies the weights of panel i, lane 0 the rows, too. rows: rows of a
 * tile */
DEVICE void produce_plain(const struct linear_args *a, const struct plain_ring *r, const int rows,
                          const int groups, const int stages, const int kind)
{
    const int panels = 4 * groups, of_panel = dense_stage_bytes(kind), parts = F16_PARTS(kind),
              x_bytes = parts * rows * 128, stage_bytes = PLAIN_WGMMA_STAGE(kind, rows, groups),
              tiles = PLAIN_WGMMA_ROWS / rows;
    int lane = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS, stage = 0,
        n = tiles_of(a, 0, rows);
    u32 parity = 1; /* an unused stage is empty */
    for (int index = block_x(); index < n; index += grid_x()) {
        struct tile t = tile_of(a, 0, index, rows);
        int last = (t.p.out - 1) / PANEL, panel = t.out_tile * panels + lane % panels;
        const char *x = (const char *)a->x +
                        (u64)(t.row_tile / tiles) * (u64)n_items * (u64)(parts * PLAIN_PART) +
                        t.row_tile % tiles * (rows * 128),
                   *w = (const char *)t.p.weight +
                        (u64)(panel < last ? panel : last) * (u64)n_items * (u64)of_panel;
        for (int item = 0; item < n_items; item++) {
            u32 to = r->stages + (u32)(stage * stage_bytes), count = r->full + 8 * (u32)stage;
            mbarrier_wait(r->empty + 8 * (u32)stage, parity);
            if (lane == 0) {
                mbarrier_arrive_expect(count, (u32)(x_bytes + panels * of_panel));
                x += item ? parts * PLAIN_PART : 0;
                if (tiles == 1) bulk_copy(to, x, (u32)x_bytes, count);
                else
                    UNROLL for (int q = 0; q < parts; q++)
                        bulk_copy(to + (u32)(q * rows * 128), x + q * PLAIN_PART, (u32)rows * 128,
                                  count);
            }
            warp_barrier(); /* no bytes come before they are expected */
            if (lane < panels)
                bulk_copy(to + (u32)(x_bytes + lane * of_panel),
                          w + (u64)item * (u64)of_panel, (u32)of_panel, count);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
}

/* total (or with `extra` total +=) a stage's 64 inputs at x times the weights of the warp's panel
 * at w. */
DEVICE void plain_stage(u32 x, u32 w, float *total, int extra, const int n, const int kind)
{
    u32 a[4][4];
    u64 rows = wgmma_rows(x);
    UNROLL for (int s = 0; s < 4; s++)
        load_matrices(w + (u32)(s * 2 * PANEL * 16 + thread() % WARP * 16), a[s]);
    wgmma_begin();
    UNROLL for (int s = 0; s < 4; s++) UNROLL for (int q = 0; q < 2; q++)
        wgmma_of(total, a[s], rows + (u64)(q * (n * 128 >> 4) + 2 * s), extra || s + q, n,
                 kind == WEIGHT_BF16);
    wgmma_commit();
    wgmma_wait(total, n);
}

/* plain_stage() for codes: total += the products of each chunk times its scale. part: scratch */
DEVICE void plain_bytes(u32 x, u32 w, float *part, float *total)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    u64 rows = wgmma_rows(x);
    u32x4 v[2];
    u32 scales[2];
    UNROLL for (int j = 0; j < 2; j++)
    {
        v[j] = lds_words(w + (u32)(dense_place(t, r) + j * 128));
        scales[j] = lds_word(w + (u32)(BYTES_CODES + r * 8 + j * 4));
    }
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
    {
        u32 a[2][4];
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int j = 0; j < 2; j++)
        {
            u32 pair[2];
            unpack_bytes(v[j][2 * c + h], pair);
            a[h][j] = pair[0], a[h][2 + j] = pair[1];
        }
        wgmma_begin();
        UNROLL for (int h = 0; h < 2; h++)
            wgmma_of(part, a[h], rows + (u64)(4 * c + 2 * h), h, PLAIN_WGMMA_ROWS, 0);
        wgmma_commit();
        wgmma_wait(part, PLAIN_WGMMA_ROWS);
        UNROLL for (int i = 0; i < PLAIN_WGMMA_ROWS / 2; i++) total[i] =
            fma32((float)half_of(scales[i / 2 % 2] >> (16 * c)), part[i], total[i]);
    }
}

/* A consumer warpgroup. */
DEVICE void consume_plain(const struct linear_args *a, const struct plain_ring *r, const int rows,
                          const int groups, const int stages, const int kind)
{
    const int x_bytes = F16_PARTS(kind) * rows * 128,
              stage_bytes = PLAIN_WGMMA_STAGE(kind, rows, groups);
    int warp = thread() / WARP, lane = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS,
        stage = 0, n = tiles_of(a, 0, rows);
    u32 parity = 0, w = (u32)(x_bytes + warp * dense_stage_bytes(kind));
    for (int index = block_x(); index < n; index += grid_x()) {
        struct tile t = tile_of(a, 0, index, rows);
        float total[PLAIN_WGMMA_ROWS / 2], part[PLAIN_WGMMA_ROWS / 2];
        UNROLL for (int i = 0; i < rows / 2; i++) total[i] = 0;
        for (int item = 0; item < n_items; item++) {
            u32 x = r->stages + (u32)(stage * stage_bytes);
            mbarrier_wait(r->full + 8 * (u32)stage, parity);
            if (kind == WEIGHT_I8) plain_bytes(x, x + w, part, total);
            else plain_stage(x, x + w, total, item > 0, rows, kind);
            if (lane == 0) mbarrier_arrive(r->empty + 8 * (u32)stage);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        write_rows(a, &t.p, t.row_tile * rows + lane % 4 * 2,
                   (t.out_tile * 4 * groups + warp) * PANEL + lane / 4, total, rows);
    }
}

/* groups: consumer warpgroups of 64 outputs each; blocks: blocks of a multiprocessor. The mbarriers
 * are behind the ring. */
DEVICE void plain_wgmma(const struct linear_args *a, u32 *lds, const int rows, const int groups,
                        const int stages, const int blocks, const int kind)
{
    struct plain_ring r;
    r.stages = lds_address(lds);
    r.full = r.stages + (u32)(stages * PLAIN_WGMMA_STAGE(kind, rows, groups));
    r.empty = r.full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(r.full + 8 * (u32)i, 1);
            mbarrier_init(r.empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        mbarrier_init_done();
    }
    barrier();
    wait_for_producer();
    if (thread() >= groups * 128) {
        if (blocks == 1) REGISTERS_LESS(24);
        if (thread() < groups * 128 + WARP) produce_plain(a, &r, rows, groups, stages, kind);
    } else {
        if (blocks == 1 && groups == 4) REGISTERS_MORE(112);
        else if (blocks == 1) REGISTERS_MORE(232);
        consume_plain(a, &r, rows, groups, stages, kind);
    }
}

#define PLAIN_WGMMA(name, images, weights, tile_rows, groups, stages, of_sm, percent)              \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        plain_wgmma(EARLY_ARGS, dynamic_lds, tile_rows, groups, stages, of_sm, weights);           \
    })
#include "backend-hip/kernels/hopper/list.h"
