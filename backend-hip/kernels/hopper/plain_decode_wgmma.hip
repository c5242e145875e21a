/* plain_decode_wgmma.hip: linears with fp16 or bf16 weights by wgmma on sm_90a: many decode rows,
 * with fp16 activations.
 *   grid      persistent: blocks take output x row tiles in turn, rows first
 *   warps     one producer thread (TMA, bulk copies), and consumer warpgroups of 64 outputs, or
 *             twice 64
 *   pipeline  a ring of stages in shared memory, full and empty mbarriers; a stage has 64 inputs:
 *             the rows of the tile in two parts, then the weights of its panels; the first weights
 *             are loaded before the producer launch has ended
 *   operands  weights are operand a, in registers, rows are operand b, 64 at a time
 * Bits: those of nvidia/linear_plain_mma.hip, of bf16 with parts that are rounded. */

/* The producer thread. A box of the tensor map is 64 inputs of 4 panels, swizzled by 128 bytes. */
DEVICE void produce_plain_decode(const struct linear_args *a, const struct plain_ring *r,
                                 const int rows, const int outputs, const int stages,
                                 const int kind)
{
    const int x_bytes = F16_PARTS(kind) * rows * 128,
              stage_bytes = PLAIN_DECODE_STAGE(kind, rows, outputs);
    int n_items = a->n_chunks / SUM_CHUNKS, stage = 0, n = tiles_of(a, 0, rows),
        early = n_items < stages ? n_items : stages;
    u32 parity = 1; /* an unused stage is empty */
    for (int index = block_x(); index < n; index += grid_x()) {
        struct tile t = tile_of(a, 0, index, rows);
        const char *x = (const char *)a->x + (u64)t.row_tile * (u64)n_items * (u64)x_bytes;
        for (int item = 0; item < n_items; item++) {
            u32 to = r->stages + (u32)(stage * stage_bytes), count = r->full + 8 * (u32)stage;
            mbarrier_wait(r->empty + 8 * (u32)stage, parity);
            mbarrier_arrive_expect(count, (u32)stage_bytes);
            if (!early) bulk_copy(to, x + (u64)item * (u64)x_bytes, (u32)x_bytes, count);
            UNROLL for (int j = 0; j < outputs / 64; j++)
                tma_load(to + (u32)(x_bytes + j * 64 * 128), t.p.maps, 0, item * 16,
                         t.out_tile * (outputs / PANEL) + 4 * j, count);
            if (item + 1 == early) {
                wait_for_producer();
                NO_UNROLL for (int j = 0; j < early; j++)
                    bulk_copy(r->stages + (u32)(j * stage_bytes), x + (u64)j * (u64)x_bytes,
                              (u32)x_bytes, r->full + 8 * (u32)j);
                early = 0;
            }
            if (++stage == stages) stage = 0, parity ^= 1;
        }
    }
    if (early) wait_for_producer(); /* no tile */
}

/* total += a stage's 64 inputs times the weights of the warp's panel at w, for each 64 rows. */
DEVICE void plain_decode_stage(u32 x, u32 w, float *total, const int rows, const int kind)
{
    u32x4 q[SUM_CHUNKS][2];
    float part[32];
    int t = thread() % 4, output = thread() % WARP / 4;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int j = 0; j < 2; j++)
        q[c][j] = lds_words(w + (u32)(((c * 4 + t) * 2 + j) * 128 + (output ^ (2 * t + j)) * 16));
    UNROLL for (int m = 0; m < rows / 64; m++)
    {
        u64 count = wgmma_rows(x + (u32)(m * 64 * 128));
        wgmma_begin();
        UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < F16_PARTS(kind); s++)
            UNROLL for (int h = 0; h < 2; h++)
        {
            const u32 v[4] = {q[c][0][2 * h], q[c][1][2 * h], q[c][0][2 * h + 1],
                              q[c][1][2 * h + 1]};
            wgmma_of(part, v, count + (u64)(s * (rows * 128 >> 4) + 4 * c + 2 * h), c + s + h, 64,
                     kind == WEIGHT_BF16);
        }
        wgmma_commit();
        wgmma_wait(part, 64);
        UNROLL for (int i = 0; i < 32; i++) total[32 * m + i] += part[i];
    }
}

/* A consumer warpgroup: `tall` times 64 outputs. */
DEVICE void consume_plain_decode(const struct linear_args *a, const struct plain_ring *r,
                                 const int rows, const int outputs, const int tall,
                                 const int stages, const int kind)
{
    const int x_bytes = F16_PARTS(kind) * rows * 128,
              stage_bytes = PLAIN_DECODE_STAGE(kind, rows, outputs);
    int lane = thread() % WARP, n_items = a->n_chunks / SUM_CHUNKS, stage = 0,
        n = tiles_of(a, 0, rows),
        panel = thread() / 128 * (4 * tall) + thread() / WARP % 4; /* first panel of the warp */
    u32 parity = 0, w = (u32)(x_bytes + panel * (PANEL * 128));
    for (int index = block_x(); index < n; index += grid_x()) {
        struct tile t = tile_of(a, 0, index, rows);
        float total[64];
        UNROLL for (int i = 0; i < rows / 2 * tall; i++) total[i] = 0;
        for (int item = 0; item < n_items; item++) {
            u32 x = r->stages + (u32)(stage * stage_bytes);
            mbarrier_wait(r->full + 8 * (u32)stage, parity);
            UNROLL for (int m = 0; m < tall; m++)
                plain_decode_stage(x, x + w + (u32)(m * 64 * 128), total + rows / 2 * m, rows,
                                   kind);
            if (lane == 0) mbarrier_arrive(r->empty + 8 * (u32)stage);
            if (++stage == stages) stage = 0, parity ^= 1;
        }
        UNROLL for (int m = 0; m < tall; m++)
            write_rows(a, &t.p, t.row_tile * rows + lane % 4 * 2,
                       (t.out_tile * (outputs / PANEL) + panel + 4 * m) * PANEL + lane / 4,
                       total + rows / 2 * m, rows);
    }
}

/* The mbarriers are behind the ring. */
DEVICE void plain_decode(const struct linear_args *a, u32 *lds, const int rows, const int groups,
                         const int tall, const int stages, const int kind)
{
    const int outputs = 64 * groups * tall;
    struct plain_ring r;
    r.stages = lds_address(lds);
    r.full = r.stages + (u32)(stages * PLAIN_DECODE_STAGE(kind, rows, outputs));
    r.empty = r.full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(r.full + 8 * (u32)i, 1);
            mbarrier_init(r.empty + 8 * (u32)i, (u32)groups * 4); /* warps */
        }
        mbarrier_init_done();
    }
    barrier();
    if (thread() >= groups * 128) {
        REGISTERS_LESS(24);
        if (thread() == groups * 128)
            produce_plain_decode(a, &r, rows, outputs, stages, kind);
        else wait_for_producer();
    } else {
        wait_for_producer();
        /* all warpgroups together have at most the registers that the block was launched with */
        if (groups == 4) REGISTERS_MORE(112);
        else if (groups == 3) REGISTERS_MORE(160);
        else REGISTERS_MORE(104);
        consume_plain_decode(a, &r, rows, outputs, tall, stages, kind);
    }
}

#define PLAIN_DECODE(name, images, weights, tile_rows, groups, tall, stages, blocks, percent)      \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        plain_decode(EARLY_ARGS, dynamic_lds, tile_rows, groups, tall, stages, weights);           \
    })
#include "backend-hip/kernels/hopper/list.h"
