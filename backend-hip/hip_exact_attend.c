/* hip_exact_attend.c: launches of attention in the CPU's order, and of the prompt rows of other
 * arithmetics that no other kernel takes. Must not know: linears. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_latent.h"
#include "backend-hip/hip_splits.h"

/* Attention by type of keys and values: a block for each (row, head), for each chunk of these, for
 * several rows */
static const struct {
    enum hip_kernel row, split, rows;
} attend_kernels[] = {
    [KV_F16] = {K_exact_attend_f16, K_exact_attend_split_f16, K_exact_attend_rows_f16},
    [KV_F32] = {K_exact_attend_f32, K_exact_attend_split_f32, K_exact_attend_rows_f32},
    [KV_INT8] = {K_exact_attend_int8, K_exact_attend_split_int8, K_exact_attend_rows_int8},
    [KV_INT4] = {K_exact_attend_int8, K_exact_attend_split_int8, K_exact_attend_rows_int4},
};

/* Decode rows: a block for each chunk of positions, then their combination, which `leave` leaves to
 * the next launch. */
static void attend_splits(struct hip *h, const struct be_plan *p, int op,
                          const struct attend_kernel_args *all, int leave)
{
    size_t n_decode = (size_t)h->shape.n_decode, at_once = (size_t)hip_rows_at_once(h);
    enum hip_kernel chunk = hip_chunk_kernel(h, hip_op(p, op)),
                    split = all->bias_pairs ? K_exact_split_biased
                                            : attend_kernels[h->config.kv].split;
    for (size_t row = 0, n; row < n_decode; row += n) {
        struct attend_kernel_args a = *all;
        n = n_decode - row < at_once ? n_decode - row : at_once;
        hip_skip_rows(&a, row);
        a.parts = h->d_parts;
        a.n_splits = h->shape.n_splits;
        struct hip_blocks grid = {n, (size_t)a.n_heads, (size_t)a.n_splits, 0};
        if (chunk < K_COUNT) {
            a.work = hip_row_work(h, row);
            grid = hip_pages_grid(h, &hip_op(p, op)->as.attend.heads, n);
            split = hip_warp_kernel(h, &hip_op(p, op)->as.attend.heads, chunk, &grid);
        }
        hip_launch(h, split, grid, &a, sizeof a);
        if (leave) continue;
        struct combine_args m = hip_combine_args(h, p, op, row);
        hip_launch(h, K_exact_combine, (struct hip_blocks){n, (size_t)a.n_heads, 1, 0}, &m,
                   sizeof m);
    }
}

/* Prompt rows, each in a block of its own for each head. */
static void attend_each_row(struct hip *h, enum hip_kernel k, const struct attend_kernel_args *all)
{
    struct attend_kernel_args a = *all;
    size_t at = (size_t)h->shape.n_decode, n = (size_t)h->shape.n_rows - at,
           q_row = (size_t)a.n_heads * (size_t)a.head_dim;
    a.q += at * q_row;
    a.out += at * q_row;
    a.pos += at;
    a.seq += at;
    if (a.open.own) a.open.own += at;
    hip_launch(h, k, (struct hip_blocks){n, (size_t)a.n_heads, 1, 0}, &a, sizeof a);
}

/* A kernel of AMD's matrix instructions (amd/attend_matrix.hip), or K_COUNT. */
static enum hip_kernel attend_matrix_kernel(const struct hip *h, int head_dim)
{
    static const enum hip_kernel exact[] = {K_exact_attend_mfma, K_exact_attend_wmma,
                                            K_exact_attend_wmma12},
                                 half[] = {K_attend_mfma, K_attend_wmma, K_attend_wmma12};
    static const enum hip_kernel own[][2] = {{K_exact_attend_mfma_64, K_attend_mfma_64},
                                             {K_exact_attend_mfma_128, K_attend_mfma_128}};
    int of_halves = h->config.kv == KV_F16;
    if (of_halves ? head_dim > ATTEND_HALVES_DIM || h->config.act != ACT_F16
                  : !kv_is_integer(h->config.kv))
        return K_COUNT;
    if (head_dim == 64 || head_dim == 128) { /* kernels of one size alone */
        enum hip_kernel k = own[head_dim / 64 - 1][of_halves];
        if (hip_has(h, k)) return k;
    }
    for (size_t i = 0; i < sizeof half / sizeof *half; i++) {
        enum hip_kernel k = of_halves ? half[i] : exact[i];
        if (hip_has(h, k)) return k;
    }
    return K_COUNT;
}

void hip_attend_rows(struct hip *h, const struct attend_kernel_args *all)
{
    enum kv_type kv = h->config.kv;
    struct attend_kernel_args a = *all;
    if (a.bias_pairs) {
        attend_each_row(h,
                        h->config.act != ACT_F32 ? K_exact_attend_biased
                        : kv == KV_INT4          ? K_attend_biased_int4
                                                 : K_attend_biased_int8,
                        &a);
        return;
    }
    if (kv_is_integer(kv) && h->config.act == ACT_F32) {
        attend_each_row(h, kv == KV_INT4 ? K_attend_int4 : K_attend_int8, &a);
        return;
    }
    if (a.head_dim > GPU_HEAD_DIM) {
        attend_each_row(h, attend_kernels[kv].row, &a);
        return;
    }
    enum hip_kernel mma = a.head_dim <= 64    ? K_exact_attend_mma_64
                          : a.head_dim <= 128 ? K_exact_attend_mma_128
                                              : K_exact_attend_mma_256;
    int by_mma = kv_is_integer(kv) && hip_has(h, mma),
        rows = by_mma ? EXACT_TILE_ROWS : EXACT_ATTEND_ROWS;
    enum hip_kernel matrix = attend_matrix_kernel(h, a.head_dim);
    a.tiles = h->shape.d_tiles;
    if (matrix < K_COUNT) {
        hip_launch(h, matrix,
                   (struct hip_blocks){
                       (size_t)(GROUP_ROWS / ATTEND_MATRIX_ROWS * (a.n_heads / a.n_kv_heads)),
                       (size_t)h->shape.n_tiles * TILE_GROUPS, (size_t)a.n_kv_heads, 0},
                   &a, sizeof a);
        return;
    }
    hip_launch(h, by_mma ? mma : attend_kernels[kv].rows,
               (struct hip_blocks){
                   (size_t)a.n_heads,
                   (size_t)h->shape.n_tiles * TILE_GROUPS * (size_t)(GROUP_ROWS / rows), 1, 0},
               &a, sizeof a);
}

void hip_exact_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave)
{
    if (heads_are_latent(&hip_op(p, op)->as.attend.heads)) {
        hip_latent_attend(h, p, op);
        return;
    }
    struct attend_kernel_args a = hip_attend_args(h, p, op);
    struct attend_kernel_args prompts = a;
    int n_decode = h->shape.n_decode, n = h->shape.n_rows - n_decode;
    if (rope >= 0) {
        int rotates = n_decode && h->shape.single_rows;
        struct rope_kernel_args r = hip_rope_args(h, p, rope);
        if (rotates) hip_rotate_in(&a, &r);
        hip_rope_rows(h, p, &(struct hip_rope_rows){.op = rope, .without_decode = rotates});
    }
    if (n_decode) attend_splits(h, p, op, &a, leave);
    if (n) hip_attend_rows(h, &prompts);
}
