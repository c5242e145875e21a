#include "backend-hip/hip_heads.h"

#include "backend-hip/hip_args.h"
#include "backend-hip/hip_splits.h"

_Static_assert((int)PAGE_F16 == (int)KV_F16 && (int)PAGE_F32 == (int)KV_F32 &&
                   (int)PAGE_INT8 == (int)KV_INT8 && (int)PAGE_INT4 == (int)KV_INT4,
               "enum page_kind");
_Static_assert((int)BIAS_ROW == (int)KEY_BIAS_ROW && (int)KV_SPLIT == (int)KEY_BIAS_CHUNK,
               "rows of key biases");

enum { HEADS_64, HEADS_128, HEADS_256, HEADS };

/* The kernel for heads of 64, 128 or 256 dimensions, of kernels [KV_TYPES]; K_COUNT: none */
static enum hip_kernel by_dims(const struct hip *h, const struct op *attend,
                               const enum hip_kernel (*kernels)[HEADS])
{
    int dim = attend->as.attend.heads.head_dim, i = dim == 64    ? HEADS_64
                                                    : dim == 128 ? HEADS_128
                                                                 : HEADS_256;
    enum hip_kernel k = kernels[h->config.kv][i];
    if (heads_are_latent(&attend->as.attend.heads) || attend->as.attend.bias_pairs) return K_COUNT;
    if ((i == HEADS_256 && dim != 256) || k == K_COUNT) return K_COUNT;
    return hip_has(h, k) ? k : K_COUNT;
}

/* by_dims() for kernels that have no softcap. */
static enum hip_kernel by_head(const struct hip *h, const struct op *attend,
                               const enum hip_kernel (*kernels)[HEADS])
{
    return attend->as.attend.softcap > 0 ? K_COUNT : by_dims(h, attend, kernels);
}

#define NO_KERNELS                                                                                 \
    {                                                                                              \
        K_COUNT, K_COUNT, K_COUNT                                                                  \
    }

/* attend_prefill_wgmma.hip. With fp16 activations the softmax weights are fp16, too. */
enum hip_kernel hip_wgmma_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel
        half[][HEADS] =
            {[KV_F16] = {K_attend_wgmma_half_64, K_attend_wgmma_half_128, K_attend_wgmma_half_256},
             [KV_F32] = NO_KERNELS,
             [KV_INT8] = {K_attend_wgmma_half_int8_64, K_attend_wgmma_half_int8_128, K_COUNT},
             [KV_INT4] = {K_attend_wgmma_half_int4_64, K_attend_wgmma_half_int4_128, K_COUNT}},
        full[][HEADS] = {[KV_F16] = {K_attend_wgmma_64, K_attend_wgmma_128, K_COUNT},
                         [KV_F32] = NO_KERNELS,
                         [KV_INT8] = {K_attend_wgmma_int8_64, K_attend_wgmma_int8_128, K_COUNT},
                         [KV_INT4] = NO_KERNELS},
        one[][HEADS] = {
            [KV_F16] = {K_attend_wgmma_one_64, K_attend_wgmma_one_128, K_attend_wgmma_one_256},
            [KV_F32] = NO_KERNELS,
            [KV_INT8] = {K_attend_wgmma_one_int8_64, K_attend_wgmma_one_int8_128, K_COUNT},
            [KV_INT4] = {K_attend_wgmma_one_int4_64, K_attend_wgmma_one_int4_128, K_COUNT}};
    if (h->config.kv == KV_F16 && !h->tensor_maps) return K_COUNT;
    return by_head(h, attend,
                   h->config.act != ACT_F16      ? full
                   : h->options.query_halves == 1 ? one
                                                 : half);
}

int hip_check_queries(const struct hip *h, const struct op *attend, struct err *e)
{
    if (h->options.query_halves != 1 || hip_wgmma_kernel(h, attend) < K_COUNT) return 0;
    return err_set(e,
                   "--query-halves 1: %s has no kernel for it with heads of %d dimensions, "
                   "--kv %s%s",
                   h->device->name, attend->as.attend.heads.head_dim, kv_formats[h->config.kv].name,
                   attend->as.attend.softcap > 0 ? " and capped scores" : "");
}

enum hip_kernel hip_tile_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel tile[][HEADS] = {
        [KV_F16] = {K_attend_tile_64, K_attend_tile_128, K_attend_tile_256},
        [KV_F32] = NO_KERNELS,
        [KV_INT8] = {K_attend_tile_int8_64, K_attend_tile_int8_128, K_attend_tile_int8_256},
        [KV_INT4] = NO_KERNELS};
    return by_head(h, attend, tile);
}

/* attend_chunk.hip: integers, as the integer arithmetics have them and fp16 may. */
enum hip_kernel hip_chunk_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel chunk[][HEADS] = {
        [KV_F16] = NO_KERNELS,
        [KV_F32] = NO_KERNELS,
        [KV_INT8] = {K_attend_chunk_int8_64, K_attend_chunk_int8_128, K_attend_chunk_int8_256},
        [KV_INT4] = {K_attend_chunk_int4_64, K_attend_chunk_int4_128, K_attend_chunk_int4_256}};
    return h->config.act == ACT_F32 ? K_COUNT : by_dims(h, attend, chunk);
}

/* hopper/attend_warp.hip in place of it, where a multiprocessor has so many blocks that eight warps
 * need not share one. */
enum hip_kernel hip_warp_kernel(const struct hip *h, const struct heads *g, enum hip_kernel chunk,
                                const struct hip_blocks *grid)
{
    static const struct {
        enum hip_kernel chunk, warp, of_heads; /* of_heads: of several query heads */
        size_t least[2];                       /* blocks of a multiprocessor */
    } forms[] = {
        {K_attend_chunk_int8_128, K_attend_warp_int8_128, K_attend_warp_heads_int8_128, {6, 12}},
        {K_attend_chunk_int4_128, K_attend_warp_int4_128, K_attend_warp_heads_int4_128, {12, 12}}};
    size_t n = (size_t)hip_stream_multiprocessors(h->stream);
    int of_kv = g->n_heads / g->n_kv_heads;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && of_kv <= WARP_HEADS; i++) {
        enum hip_kernel warp = of_kv > 1 ? forms[i].of_heads : forms[i].warp;
        if (forms[i].chunk == chunk && hip_has(h, warp) &&
            grid->x * grid->y * grid->z >= forms[i].least[of_kv > 1] * n)
            return warp;
    }
    return chunk;
}

/* Of decode rows with fp16 or fp32 activations. */
enum hip_kernel hip_pages_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel pages[][HEADS] = {
        [KV_F16] = {K_attend_pages_64, K_attend_pages_128, K_attend_pages_256},
        [KV_F32] = NO_KERNELS,
        [KV_INT8] = NO_KERNELS,
        [KV_INT4] = NO_KERNELS};
    enum hip_kernel chunk = hip_chunk_kernel(h, attend);
    return chunk < K_COUNT ? chunk : by_head(h, attend, pages);
}

int hip_can_attend_rotating(const struct hip *h, const struct be_plan *p, int rope, int attend)
{
    const struct op *r = hip_op(p, rope), *a = hip_op(p, attend);
    int f16 = h->config.kv == KV_F16; /* its kernels have norms and heads of 256 */
    return r->in[1] >= 0 && a->in[0] == r->out[0] && a->as.attend.kv == r->as.rope.kv &&
           (hip_is_exact(h) ? hip_chunk_kernel(h, a) : hip_pages_kernel(h, a)) < K_COUNT &&
           (f16 || (hip_rope_args(h, p, rope).in_octets && a->as.attend.heads.head_dim <= 128));
}

/* Whether one block can combine the splits of all heads of a row. */
static int combines_whole_rows(const struct hip *h, const struct heads *g)
{
    return h->shape.n_splits <= ROW_SPLITS &&
           g->n_heads * (COMBINE_SPLITS + 1) <= COMBINE_WEIGHTS &&
           g->n_heads * g->head_dim <= COMBINE_DIMS && g->head_dim % 4 == 0;
}

int hip_leaves_combine(const struct hip *h, const struct be_plan *p, int op)
{
    const struct hip_shape *s = &h->shape;
    return s->n_decode == s->n_rows && s->n_decode <= hip_rows_at_once(h) &&
           combines_whole_rows(h, &hip_op(p, op)->as.attend.heads);
}

struct combine_args hip_combine_args(const struct hip *h, const struct be_plan *p, int op,
                                     size_t row)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    float *out = hip_out(p, op, 0);
    int scaled = h->config.kv == KV_F16 && hip_pages_kernel(h, o) < K_COUNT;
    return (struct combine_args){.parts = h->d_parts,
                                 .out = out + row * (size_t)(g->n_heads * g->head_dim),
                                 .pos = h->shape.d_pos + row,
                                 .sinks = hip_vector(p, op, 0),
                                 .weight_scale = scaled ? 0x1p14f : 1,
                                 .n_splits = h->shape.n_splits,
                                 .window = o->as.attend.window,
                                 .n_heads = g->n_heads,
                                 .head_dim = g->head_dim};
}
