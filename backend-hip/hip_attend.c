/* hip_attend.c: kernels and launches of attention. The KV range of a decode row is split over
 * blocks (flash-decoding, Dao et al. 2023), whose results the next launch combines; prompt rows
 * attend in tiles. Must not know: linears. */
#include "backend-hip/hip_args.h"
#include "backend-hip/hip_attend.h"
#include "backend-hip/hip_heads.h"
#include "backend-hip/hip_latent.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_splits.h"
#include "backend-hip/hip_vector.h"
#include "core/step/kv_open.h"

#include <string.h>

/* attend_prefill_pages.hip: a box is the values of a page, [dims / 64][PAGE][128 bytes], in 32-bit
 * words. The rows of a map go on beyond the pages, whose number is not known here. */
int hip_map_values(struct hip *h, struct be_plan *p, struct err *e)
{
    const struct step_plan *plan = p->plan;
    int needed = 0;
    for (int i = 0; i < plan->n_ops; i++)
        needed |= plan->op[i].kind == OP_ATTEND && h->config.kv == KV_F16 &&
                  hip_wgmma_kernel(h, &plan->op[i]) < K_COUNT;
    if (!needed) return 0;
    p->d_values = hip_alloc(&h->be, (size_t)plan->n_kv * CUDA_MAP_BYTES);
    if (!p->d_values) return err_set(e, "out of memory on %s", h->device->name);
    for (int i = 0; i < plan->n_kv; i++) {
        unsigned char map[CUDA_MAP_BYTES] __attribute__((aligned(64))) = {0};
        const unsigned halves = (unsigned)plan->kv[i].head_dim / 64, box[] = {32, PAGE, halves},
                       steps[] = {1, 1, 1};
        const unsigned long long row = (unsigned long long)plan->kv[i].head_dim * 2,
                                 sizes[] = {32, INT32_MAX, halves}, strides[] = {row, 128};
        if (!halves) continue;
        int code = h->device->library->api.cuda_tensor_map(map, CUDA_MAP_U32, 3, p->memory->kv[i],
                                                           sizes, strides, box, steps, 0,
                                                           CUDA_MAP_SWIZZLE_128, CUDA_MAP_L2_256,
                                                           0);
        if (code) hip_fail(h, code, "a map of values");
        hip_upload(&h->be, p->d_values + (size_t)i * CUDA_MAP_BYTES, map, sizeof map);
    }
    return 0;
}

/* Decode rows: one block for each KV split, then the combination of the splits. leave: the next
 * launch combines. gate: as in combine_args */
static void attend_kv_splits(struct hip *h, const struct be_plan *p, int op,
                             const struct attend_kernel_args *a, int leave, float *gate)
{
    const struct heads *g = &hip_op(p, op)->as.attend.heads;
    const struct hip_shape *t = &h->shape;
    size_t q_row = (size_t)g->n_heads * (size_t)g->head_dim, n_decode = (size_t)t->n_decode,
           at_once = (size_t)hip_rows_at_once(h);
    static const enum hip_kernel split_kernel[][2] = {
        [KV_F16] = {K_attend_split_f16, K_attend_split_f16_512},
        [KV_F32] = {K_attend_split_f32, K_attend_split_f32_512},
        [KV_INT8] = {K_attend_split_int8, K_attend_split_int8},
        [KV_INT4] = {K_attend_split_int4, K_attend_split_int4}};
    int is_long = g->head_dim > GPU_HEAD_DIM;
    enum hip_kernel split = split_kernel[h->config.kv][is_long],
                    pages = hip_pages_kernel(h, hip_op(p, op));
    if (kv_is_integer(h->config.kv) && h->config.act == ACT_F16) split = K_exact_attend_split_int8;
    if (a->bias_pairs)
        split = h->config.act == ACT_F16 ? K_exact_split_biased : K_attend_split_biased;
    for (size_t row = 0; row < n_decode; row += at_once) {
        size_t n = n_decode - row < at_once ? n_decode - row : at_once;
        struct attend_kernel_args s = *a;
        hip_skip_rows(&s, row);
        s.parts = h->d_parts;
        s.n_splits = t->n_splits;
        s.work = hip_row_work(h, row);
        struct hip_blocks grid = hip_pages_grid(h, g, n);
        if (pages == K_COUNT)
            grid = (struct hip_blocks){grid.y, (size_t)g->n_heads, grid.z, 0};
        hip_launch(h, pages < K_COUNT ? hip_warp_kernel(h, g, pages, &grid) : split, grid, &s,
                   sizeof s);
        if (leave) continue;
        struct combine_args m = hip_combine_args(h, p, op, row);
        if (gate) m.gate = gate + row * q_row;
        hip_launch(h, is_long ? K_attend_combine_512 : K_attend_combine,
                   (struct hip_blocks){n, (size_t)g->n_heads, 1, 0}, &m, sizeof m);
    }
}

/* Query heads whose tiles run side by side: as many as have keys and values in 32 MiB of a cache,
 * so that these are read from memory once; a divisor of their number. */
static size_t heads_at_once(const struct hip *h, const struct heads *g)
{
    enum { CACHE_MIB = 32 };
    const struct kv_cache head = {1, g->head_dim, 0};
    size_t all = (size_t)g->n_kv_heads, n = ((size_t)CACHE_MIB << 20) /
                                            (kv_format_page_bytes(h->config.kv, &head) *
                                             (size_t)kv_pages(h->shape.prompt_positions));
    if (n > all) n = all;
    while (n > 1 && all % n) n--;
    return (n ? n : 1) * (size_t)(g->n_heads / g->n_kv_heads);
}

static void attend_prompts(struct hip *h, const struct op *attend,
                           const struct attend_kernel_args *all)
{
    const struct heads *g = &attend->as.attend.heads;
    struct attend_kernel_args a = *all;
    enum hip_kernel wgmma = hip_wgmma_kernel(h, attend), tile = hip_tile_kernel(h, attend);
    if (wgmma < K_COUNT || tile < K_COUNT) {
        size_t tiles = (size_t)h->shape.n_tiles, heads = (size_t)g->n_heads,
               at_once = heads_at_once(h, g);
        a.tiles = h->shape.d_tiles;
        if (wgmma < K_COUNT)
            hip_launch(h, wgmma, (struct hip_blocks){at_once, tiles, heads / at_once, 0}, &a,
                       sizeof a);
        else
            hip_launch(h, tile, (struct hip_blocks){heads, tiles * TILE_GROUPS, 1, 0}, &a,
                       sizeof a);
        return;
    }
    hip_attend_rows(h, &a);
}

/* Divides rotation and storage among attention and hip_rope_rows(). Attention itself rotates and
 * stores decode rows that are the only row of their sequence in this step, and rotates queries of
 * prompts where its kernel can. */
static void rotate(struct hip *h, const struct be_plan *p, const struct op *attend, int op,
                   struct attend_kernel_args *decode, struct attend_kernel_args *prompts)
{
    const struct rope_kernel_args rope = hip_rope_args(h, p, op);
    struct hip_rope_rows rows = {.op = op};
    if (h->shape.n_decode && h->shape.single_rows) {
        hip_rotate_in(decode, &rope);
        rows.without_decode = 1;
    }
    if (hip_wgmma_kernel(h, attend) < K_COUNT && rope.in_octets && rope.head_dim <= 128) {
        prompts->cos = rope.cos;
        prompts->sin = rope.sin;
        rows.keys_of_prompts = 1;
    }
    hip_rope_rows(h, p, &rows);
}

static void attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave, float *gate)
{
    const struct op *o = hip_op(p, op);
    if (heads_are_latent(&o->as.attend.heads)) {
        hip_latent_attend(h, p, op);
        return;
    }
    struct attend_kernel_args a = hip_attend_args(h, p, op), prompts = a;
    if (rope >= 0) rotate(h, p, o, rope, &a, &prompts);
    attend_kv_splits(h, p, op, &a, leave, gate);
    if (h->shape.n_rows > h->shape.n_decode) attend_prompts(h, o, &prompts);
}

void hip_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave)
{
    attend(h, p, op, rope, leave, NULL);
}

int hip_can_attend_gated(const struct be_plan *p, int op)
{
    const struct op *glu = hip_op(p, op + 1);
    return hip_op(p, op)->as.attend.heads.head_dim <= GPU_HEAD_DIM &&
           glu->in[1] == hip_op(p, op)->out[0] && glu->as.glu.activation == ACTIVATION_SIGMOID;
}

void hip_attend_gated(struct hip *h, const struct be_plan *p, int op, int rope)
{
    int decodes = h->shape.n_decode == h->shape.n_rows;
    attend(h, p, op, rope, 0, decodes ? hip_in(p, op + 1, 0) : NULL);
    if (!decodes) hip_glu(h, p, op + 1);
}
