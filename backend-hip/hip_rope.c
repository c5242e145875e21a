/* hip_rope.c: launches of OP_ROPE_STORE: rotation of queries and keys, storage of keys and values.
 * Prompt rows over integers go a page at a time (nvidia/rope_pages.hip), others row by row. Must
 * not know: attention. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_latent.h"

/* Launches the row kernels in the CPU's order. */
static void launch_exact_rows(struct hip *h, const struct rope_kernel_args *a, int rows)
{
    enum { FEW_ROWS = 16 }; /* fewer are faster in blocks of one head */
    int in_octets = a->head_dim % 16 == 0 && a->head_dim <= GPU_HEAD_DIM && rows >= FEW_ROWS,
        of_block = in_octets ? THREADS / (a->head_dim / 16) : 1,
        blocks = (a->n_heads + a->n_kv_heads + of_block - 1) / of_block;
    hip_launch(h, in_octets ? K_exact_rope_octets : K_exact_rope_store,
               (struct hip_blocks){(size_t)rows, (size_t)blocks, 1, 0}, a, sizeof *a);
}

/* Launches the row kernels for rows row .. row + rows - 1; all: the arguments for row 0. */
static void launch_rows(struct hip *h, const struct rope_kernel_args *all, int row, int rows)
{
    struct rope_kernel_args a = hip_rope_from(all, row);
    if (!rows) return;
    if (hip_is_exact(h)) {
        launch_exact_rows(h, &a, rows);
        return;
    }
    int by_warps = !a.in_octets && a.kv < PAGE_INT8 && hip_has(h, K_rope_store_warps) &&
                   (a.head_dim == 128 || a.head_dim == 256);
    int heads = a.n_heads + a.n_kv_heads, of_block = a.in_octets ? THREADS / (a.head_dim / 16)
                                                     : by_warps  ? THREADS / 32
                                                                 : 1;
    hip_launch(h,
               a.kv >= PAGE_INT8           ? K_rope_store_int8
               : by_warps                  ? K_rope_store_warps
               : a.head_dim > GPU_HEAD_DIM ? K_rope_store_512
                                           : K_rope_store,
               (struct hip_blocks){(size_t)rows, (size_t)((heads + of_block - 1) / of_block), 1, 0},
               &a, sizeof a);
}

/* The kernel that stores a page at a time; K_COUNT: none */
static enum hip_kernel by_pages(const struct hip *h, const struct rope_kernel_args *a)
{
    enum hip_kernel k = a->head_dim == 64    ? K_rope_pages_64
                        : a->head_dim == 128 ? K_rope_pages_128
                        : a->head_dim == 256 ? K_rope_pages_256
                                             : K_COUNT;
    return a->kv >= PAGE_INT8 && k < K_COUNT && hip_has(h, k) ? k : K_COUNT;
}

/* Launches it for all prompt rows. */
static void launch_pages(struct hip *h, enum hip_kernel k, const struct rope_kernel_args *all)
{
    const struct rope_pages_args a = {.rope = *all,
                                      .pos = h->shape.d_pos,
                                      .tiles = h->shape.d_tiles,
                                      .exact = hip_is_exact(h)};
    int of_block = THREADS / PAGE * 16 / all->head_dim;
    hip_launch(h, k,
               (struct hip_blocks){(size_t)h->shape.n_tiles * TILE_GROUPS * ROPE_GROUP_PAGES,
                                   (size_t)((all->n_heads + all->n_kv_heads + of_block - 1) /
                                            of_block),
                                   1, 0},
               &a, sizeof a);
}

void hip_rope_rows(struct hip *h, const struct be_plan *p, const struct hip_rope_rows *r)
{
    const struct rope_kernel_args all = hip_rope_args(h, p, r->op);
    struct rope_kernel_args prompts = all;
    int n = h->shape.n_rows, n_decode = h->shape.n_decode, begin = r->without_decode ? n_decode : 0;
    enum hip_kernel k = n > n_decode ? by_pages(h, &all) : K_COUNT;
    if (r->keys_of_prompts) prompts.n_heads = 0;
    hip_open_begin(h, p, r->op);
    if (k == K_COUNT && !r->keys_of_prompts) {
        launch_rows(h, &all, begin, n - begin);
    } else {
        launch_rows(h, &all, begin, n_decode - begin);
        if (k < K_COUNT) launch_pages(h, k, &prompts);
        else launch_rows(h, &prompts, n_decode, n - n_decode);
    }
    hip_open_pack(h, p, r->op, r->without_decode, k < K_COUNT);
}

void hip_rope_store(struct hip *h, const struct be_plan *p, int op)
{
    if (heads_are_latent(&hip_op(p, op)->as.rope.heads)) {
        hip_latent_rope(h, p, op);
        return;
    }
    hip_rope_rows(h, p, &(struct hip_rope_rows){.op = op});
}
