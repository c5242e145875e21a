/* linear_decode_wgmma.hip: 4-bit linears of decode rows with few outputs, by wgmma on sm_90a; plain
 * weights.
 *   grid      persistent clusters of CLUSTER blocks; a cluster computes 128 outputs x all rows
 *   block     split-K over the cluster: a block has a quarter of the inputs, two slices
 *   warps     one producer thread (TMA) and two consumer warpgroups of 64 outputs each
 *   pipeline  a ring of stages of 128 inputs in shared memory, full and empty mbarriers
 *   epilogue  each block adds all slices for a quarter of the outputs, through distributed shared
 *             memory, in the order of hopper/linear_decode_mma.hip, which has the same bits
 * Blocks are small enough for blocks of the next launch to begin loading beside them. */
DEVICE void release_stage(const struct consumer_state *state, int stage)
{
    if (thread() % WARP == 0) mbarrier_arrive(state->empty + 8 * (u32)stage);
}

DEVICE void add_products(float *total, float *part, const struct scale_zero g[2], const int n)
{
    wgmma_done(part, n);
    UNROLL for (int i = 0; i < n / 2; i++) total[i] = fma32(g[i / 2 % 2].scale, part[i], total[i]);
}

/* total += scale * products of `count` items. The products of an item are scaled and added while
 * the first chunk of the next item is in flight. */
DEVICE void multiply_items(struct consumer_state *state, float *total, const int count, const int n,
                           const int stages)
{
    float part[2][32];
    struct scale_zero g[2][2];
    int used = 0;
    UNROLL for (int j = 0; j < count; j++)
    {
        u32 x = state->x + (u32)(state->stage * ring_of(2, n).stage_bytes);
        u64 rows = wgmma_rows(x);
        mbarrier_wait(state->full + 8 * (u32)state->stage, state->parity);
        u32x4 v[2] = {lds_words(x + state->codes), lds_words(x + state->codes + ITEM_CODES * 2)};
        u32 q[8] = {v[0][0], v[0][1], v[0][2], v[0][3], v[1][0], v[1][1], v[1][2], v[1][3]};
        UNROLL for (int o = 0; o < 2; o++)
        {
            u32 m = lds_word(x + state->meta + (u32)(o * 32));
            g[j % 2][o] = scale_zero_of((float)half_of(m), half_of(m >> 16));
        }
        UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
        {
            if (j + c) wgmma_wait_but_one(&q[2 * c], &q[2 * c + 1]);
            if (j && c == 1) {
                add_products(total, part[1 - j % 2], g[1 - j % 2], n);
                release_stage(state, used);
            }
            wgmma_chunk(q + 2 * c, g[j % 2], part[j % 2], rows + chunk_rows(c, n), c, n);
        }
        used = state->stage;
        if (++state->stage == stages) state->stage = 0, state->parity ^= 1;
    }
    wgmma_wait_all();
    add_products(total, part[1 - count % 2], g[1 - count % 2], n);
    release_stage(state, used);
}

/* Stores the sums that a thread has as rows of outputs. */
DEVICE void store_partial_sums(float *sums, const float *total, const int n)
{
    int lane = thread() % WARP;
    float *to = sums + lane % 4 * 2 * CLUSTER_STRIDE + thread() / WARP * PANEL + lane / 4;
    UNROLL for (int i = 0; i < n / 2; i++)
        to[(i / 4 * 8 + i % 2) * CLUSTER_STRIDE + i / 2 % 2 * 8] = total[i];
}

/* Split-K reduction over the cluster, whose blocks have stored the sums of two slices each: each
 * block adds all slices for its quarter of the outputs and writes them. */
DEVICE void reduce_slices(const struct linear_args *a, const struct tile *t, const float *first,
                          const float *second, const int n)
{
    const int of_block = CLUSTER_OUTPUTS / CLUSTER, at_once = CLUSTER_CONSUMERS / of_block;
    int output = cluster_rank() * of_block + thread() % of_block;
    u32 from[2] = {lds_address(first) + 4 * (u32)output, lds_address(second) + 4 * (u32)output};
    cluster_barrier();
    UNROLL for (int j = 0; j < n / at_once; j++)
    {
        int row = thread() / of_block + j * at_once;
        float sum = 0;
        UNROLL for (int s = 0; s < DECODE_SLICES; s++)
            sum += load_of_block(from[s % 2] + 4 * (u32)(row * CLUSTER_STRIDE), s / 2);
        write_output(a, &t->p, t->row_tile * n + row, t->out_tile * CLUSTER_OUTPUTS + output, sum);
    }
    cluster_barrier(); /* no block exits while others read its shared memory */
}

/* A consumer warpgroup. lds: the ring, its mbarriers, then the sums of the first slice; the sums of
 * the second slice replace the ring. */
DEVICE void consume_cluster_tile(const struct linear_args *a, u32 *lds, u32 full, u32 empty,
                                 const int n, const int stages)
{
    float *first = (float *)(lds + (stages * ring_of(2, n).stage_bytes + 1024) / 4);
    int n_items = a->n_chunks / ITEM_CHUNKS;
    struct block_work s = block_work_of(a, 0, n);
    struct consumer_state state = consumer_state_of(lds_address(lds), full, empty, 2, n);
    float total[32];
    int item = s.begin;
    wait_for_producer();
    NO_UNROLL for (int slice = s.slice; slice < s.slice_end; slice++)
    {
        int end = slice_begin(n_items, slice + 1);
        UNROLL for (int i = 0; i < n / 2; i++) total[i] = 0;
        if (n <= 32)
            NO_UNROLL for (; item + 4 <= end; item += 4)
                multiply_items(&state, total, 4, n, stages);
        NO_UNROLL for (; item < end; item++) multiply_items(&state, total, 1, n, stages);
        if (slice > s.slice) barrier_numbered(1); /* all warps have finished with the ring */
        store_partial_sums(slice > s.slice ? (float *)lds : first, total, n);
    }
    struct tile t = tile_of(a, 0, s.first, n);
    reduce_slices(a, &t, first, (const float *)lds, n);
}

DEVICE void q4_wgmma_cluster(const struct linear_args *early, u32 *lds, const int n,
                             const int stages)
{
    u32 full = lds_address(lds) + (u32)(stages * ring_of(2, n).stage_bytes),
        empty = full + 8 * (u32)stages;
    if (thread() == 0) {
        for (int i = 0; i < stages; i++) {
            mbarrier_init(full + 8 * (u32)i, 1);
            mbarrier_init(empty + 8 * (u32)i, CLUSTER_CONSUMERS / WARP);
        }
        mbarrier_init_done();
    }
    barrier();
    if (thread() >= CLUSTER_CONSUMERS) {
        REGISTERS_LESS(32);
        if (thread() == CLUSTER_CONSUMERS)
            produce_tiles(early, 0, lds_address(lds), full, empty, 2, n, stages, 1);
        else wait_for_producer();
    } else {
        REGISTERS_MORE(104);
        consume_cluster_tile(early, lds, full, empty, n, stages);
    }
}

#define Q4_WGMMA_CLUSTER(name, images, tile_rows, stages, percent)                                 \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        q4_wgmma_cluster(EARLY_ARGS, dynamic_lds, tile_rows, stages);                              \
    })
#include "backend-hip/kernels/hopper/list.h"
