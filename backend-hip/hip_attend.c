/* hip_attend.c: kernels and launches of attention. The KV range of a decode row is split over
 * blocks (flash-decoding, Dao et al. 2023), whose results the next launch combines; prompt rows
 * attend in tiles. Must not know: linears. */
#include "backend-hip/hip_plan.h"
#include "core/step/kv_open.h"

#include <string.h>

_Static_assert((int)PAGE_F16 == (int)KV_F16 && (int)PAGE_F32 == (int)KV_F32 &&
                   (int)PAGE_INT8 == (int)KV_INT8 && (int)PAGE_INT4 == (int)KV_INT4,
               "enum page_kind");

enum { HEADS_64, HEADS_128, HEADS_256, HEADS };

/* The kernel for heads of 64, 128 or 256 dimensions, of kernels [KV_TYPES]; K_COUNT: none */
static enum hip_kernel by_dims(const struct hip *h, const struct op *attend,
                               const enum hip_kernel (*kernels)[HEADS])
{
    int dim = attend->as.attend.heads.head_dim, i = dim == 64    ? HEADS_64
                                                    : dim == 128 ? HEADS_128
                                                                 : HEADS_256;
    enum hip_kernel k = kernels[h->config.kv][i];
    if ((i == HEADS_256 && dim != 256) || k == K_COUNT) return K_COUNT;
    return hip_has(h, k) ? k : K_COUNT;
}

/* The same of kernels that have no softcap. */
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
static enum hip_kernel wgmma_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel half[][HEADS] =
        {[KV_F16] = {K_attend_wgmma_half_64, K_attend_wgmma_half_128, K_attend_wgmma_half_256},
         [KV_F32] = NO_KERNELS,
         [KV_INT8] = {K_attend_wgmma_half_int8_64, K_attend_wgmma_half_int8_128, K_COUNT},
         [KV_INT4] = {K_attend_wgmma_half_int4_64, K_attend_wgmma_half_int4_128, K_COUNT}},
                                 full[][HEADS] = {
                                     [KV_F16] = {K_attend_wgmma_64, K_attend_wgmma_128, K_COUNT},
                                     [KV_F32] = NO_KERNELS,
                                     [KV_INT8] = {K_attend_wgmma_int8_64, K_attend_wgmma_int8_128,
                                                  K_COUNT},
                                     [KV_INT4] = NO_KERNELS},
                                 one[][HEADS] = {
                                     [KV_F16] = {K_attend_wgmma_one_64, K_attend_wgmma_one_128,
                                                 K_attend_wgmma_one_256},
                                     [KV_F32] = NO_KERNELS,
                                     [KV_INT8] = {K_attend_wgmma_one_int8_64,
                                                  K_attend_wgmma_one_int8_128, K_COUNT},
                                     [KV_INT4] = {K_attend_wgmma_one_int4_64,
                                                  K_attend_wgmma_one_int4_128, K_COUNT}};
    if (h->config.kv == KV_F16 && !h->tensor_maps) return K_COUNT;
    return by_head(h, attend,
                   h->config.act != ACT_F16       ? full
                   : h->options.query_halves == 1 ? one
                                                  : half);
}

int hip_check_queries(const struct hip *h, const struct op *attend, struct err *e)
{
    if (h->options.query_halves != 1 || wgmma_kernel(h, attend) < K_COUNT) return 0;
    return err_set(e,
                   "--query-halves 1: %s has no kernel for it with heads of %d dimensions, "
                   "--kv %s%s",
                   h->device->name, attend->as.attend.heads.head_dim,
                   kv_formats[h->config.kv].name,
                   attend->as.attend.softcap > 0 ? " and capped scores" : "");
}

/* attend_prefill_pages.hip: a box is the values of a page, [dims / 64][PAGE][128 bytes], in 32-bit
 * words. The rows of a map go on beyond the pages, whose number is not known here. */
int hip_map_values(struct hip *h, struct be_plan *p, struct err *e)
{
    const struct step_plan *plan = p->plan;
    int needed = 0;
    for (int i = 0; i < plan->n_ops; i++)
        needed |= plan->op[i].kind == OP_ATTEND && h->config.kv == KV_F16 &&
                  wgmma_kernel(h, &plan->op[i]) < K_COUNT;
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

static enum hip_kernel tile_kernel(const struct hip *h, const struct op *attend)
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
    static const enum hip_kernel chunk[][HEADS] =
        {[KV_F16] = NO_KERNELS,
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
    } forms[] = {{K_attend_chunk_int8_128, K_attend_warp_int8_128, K_attend_warp_heads_int8_128,
                  {6, 12}},
                 {K_attend_chunk_int4_128, K_attend_warp_int4_128, K_attend_warp_heads_int4_128,
                  {12, 12}}};
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
static enum hip_kernel pages_kernel(const struct hip *h, const struct op *attend)
{
    static const enum hip_kernel pages[][HEADS] =
        {[KV_F16] = {K_attend_pages_64, K_attend_pages_128, K_attend_pages_256},
         [KV_F32] = NO_KERNELS,
         [KV_INT8] = NO_KERNELS,
         [KV_INT4] = NO_KERNELS};
    enum hip_kernel chunk = hip_chunk_kernel(h, attend);
    return chunk < K_COUNT ? chunk : by_head(h, attend, pages);
}

/* The KV splits of so many positions, rounded up to a power of two or 3/2 of one, so that
 * successive steps have equal launches and can be replayed. */
static int n_kv_splits(int positions)
{
    int n = 1, all = (positions + KV_SPLIT - 1) / KV_SPLIT;
    while (n < all) n *= 2;
    return n >= 4 && n / 4 * 3 >= all ? n / 4 * 3 : n;
}

int hip_max_splits(const struct be_config *c) { return n_kv_splits(c->max_pages * PAGE); }

size_t hip_split_floats(const struct heads *g)
{
    return (size_t)g->n_heads * (size_t)((g->head_dim + 7) / 8 * 8 + 8);
}

/* Room for the partial results of 256 decode rows of the maximal length, in at most 128 MiB unless
 * one row takes more. */
size_t hip_part_floats(const struct be_config *c, size_t split_floats)
{
    size_t row = split_floats * (size_t)hip_max_splits(c);
    size_t n = c->max_rows < 256 ? (size_t)c->max_rows : 256;
    size_t fit = row ? ((size_t)32 << 20) / row : n;
    return (fit < 1 ? 1 : fit < n ? fit : n) * row;
}

int hip_kv_splits(const struct batch *b)
{
    int longest = 0;
    for (int i = 0; i < b->n_decode; i++)
        if (b->pos[i] >= longest) longest = b->pos[i] + 1;
    return n_kv_splits(longest);
}

/* Decode rows whose partial results fit into d_parts together. */
int hip_rows_at_once(const struct hip *h)
{
    size_t row = h->split_floats * (size_t)h->shape.n_splits;
    return row ? (int)(hip_part_floats(&h->config, h->split_floats) / row) : h->config.max_rows;
}

/* below so many decode rows there is no work list; an entry without work */
enum { LISTED_ROWS = 8, NO_WORK = 0xffff };

/* n rounded up by at most a quarter, so that successive steps have equal launches and can be
 * replayed. */
static int rounded(int n)
{
    int step = 1;
    while (8 * step <= n) step *= 2;
    return (n + step - 1) / step * step;
}

/* Lists the KV splits of decode rows row .. end - 1 by falling number of positions, so that the
 * last blocks to start are short. work [n]: (row - first row) << 16 | split. Returns n. */
static int list_splits(const struct batch *b, int row, int end, int32_t *work)
{
    enum { PAGES = KV_SPLIT / PAGE };
    int n_of[PAGES] = {0}, at[PAGES], n = 0; /* by the number of pages that a split lacks */
    for (int i = row; i < end; i++) {
        n_of[0] += b->pos[i] / KV_SPLIT;
        n_of[PAGES - 1 - b->pos[i] % KV_SPLIT / PAGE]++;
    }
    for (int i = 0; i < PAGES; n += n_of[i++]) at[i] = n;
    for (int i = row; i < end; i++) {
        int last = b->pos[i] / KV_SPLIT;
        for (int j = 0; j < last; j++) work[at[0]++] = (i - row) << 16 | j;
        work[at[PAGES - 1 - b->pos[i] % KV_SPLIT / PAGE]++] = (i - row) << 16 | last;
    }
    return n;
}

/* A grid of rows x splits is mostly empty where a few sequences are much longer than the others; a
 * list of the splits that exist replaces it. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work)
{
    int at_once = hip_rows_at_once(h), launches = 0, max_blocks = 0;
    h->shape.work_blocks = 0;
    for (int row = 0; row < b->n_decode; row += at_once, launches++) {
        int n = 0;
        for (int i = row; i < b->n_decode && i < row + at_once; i++) n += b->pos[i] / KV_SPLIT + 1;
        if (n > max_blocks) max_blocks = n;
    }
    max_blocks = rounded(max_blocks);
    if (b->n_decode < LISTED_ROWS || b->n_decode >= 1 << 15 || max_blocks >= 1 << 16) return 0;
    if (8 * (size_t)launches * (size_t)max_blocks >
        7 * (size_t)b->n_decode * (size_t)h->shape.n_splits)
        return 0;
    for (int row = 0, k = 0; row < b->n_decode; row += at_once, k++) {
        int end = b->n_decode - row < at_once ? b->n_decode : row + at_once;
        for (int n = list_splits(b, row, end, work + k * max_blocks); n < max_blocks; n++)
            work[k * max_blocks + n] = NO_WORK;
    }
    h->shape.work_blocks = max_blocks;
    return launches * max_blocks;
}

/* A sequence's prompt rows, row begin .. end - 1, and how many groups they are. KV_INT4: groups end
 * at multiples of GROUP_ROWS positions, so that neighbouring rows share their own page; `skip` rows
 * are missing in the first. */
struct prompt {
    int begin, end, skip, groups;
};

static struct prompt prompt_of(const struct hip *h, const struct batch *b, int seq)
{
    struct prompt p = {.begin = b->seq_start[seq], .end = b->seq_start[seq + 1]};
    if (p.begin < b->n_decode) p.begin = b->n_decode;
    if (p.end <= p.begin) return p;
    if (kv_has_open(h->config.kv)) p.skip = b->pos[p.begin] % GROUP_ROWS;
    p.groups = (p.end - p.begin + p.skip + GROUP_ROWS - 1) / GROUP_ROWS;
    return p;
}

/* First row of a group. */
static int group_begin(const struct prompt *p, int group)
{
    return group ? p->begin + group * GROUP_ROWS - p->skip : p->begin;
}

size_t hip_most_tiles(int rows, int seqs)
{
    return 2 * TILE_GROUPS * (2 * (size_t)seqs + (size_t)rows / (TILE_GROUPS * GROUP_ROWS));
}

/* A tile has two groups of one sequence. If all tiles run at once, an early group is paired with a
 * late one, so that all tiles take equally long. Otherwise neighbours are paired, which share most
 * of their keys and values, and tiles are ordered by falling position, so that the last ones to
 * start are short. Fills shape.prompt_positions, too. */
int hip_fill_tiles(struct hip *h, const struct batch *b, int32_t *tile)
{
    int n = 0, all = 0, positions = 0;
    h->shape.prompt_positions = 1;
    for (int i = 0; i < b->n_seqs; i++) {
        const struct prompt p = prompt_of(h, b, i);
        all += (p.groups + 1) / 2;
        if (p.groups) positions += b->pos[p.end - 1] + 1;
    }
    while (h->shape.prompt_positions < positions) h->shape.prompt_positions *= 2;
    int at_once = all * h->most_heads <= hip_stream_multiprocessors(h->stream);
    for (int i = 0; i < b->n_seqs; i++) {
        const struct prompt p = prompt_of(h, b, i);
        int groups = p.groups;
        for (int j = (groups + 1) / 2 - 1; j >= 0; j--) {
            int of[TILE_GROUPS] = {at_once ? groups - 1 - j : 2 * j + 1, at_once ? j : 2 * j},
                at = n++;
            int last = group_begin(&p, of[0] < groups ? of[0] : of[1]); /* row */
            for (; at > 0 && b->pos[tile[4 * at - 4]] < b->pos[last]; at--)
                memcpy(tile + 4 * at, tile + 4 * at - 4, 4 * sizeof *tile);
            for (int g = 0; g < TILE_GROUPS; g++) {
                int there = of[g] < groups && (g == 0 || of[1] != of[0]), row = last, end = last;
                if (there) row = group_begin(&p, of[g]), end = group_begin(&p, of[g] + 1);
                tile[4 * at + 2 * g] = row;
                tile[4 * at + 2 * g + 1] = (end < p.end ? end : p.end) - row;
            }
        }
    }
    return n;
}

int hip_attend_rotates(const struct hip *h, const struct be_plan *p, int rope, int attend)
{
    const struct op *r = hip_op(p, rope), *a = hip_op(p, attend);
    int f16 = h->config.kv == KV_F16; /* its kernels have norms and heads of 256 */
    return r->in[1] >= 0 && a->in[0] == r->out[0] &&
           a->as.attend.kv == r->as.rope.kv &&
           (hip_is_exact(h) ? hip_chunk_kernel(h, a) : pages_kernel(h, a)) < K_COUNT &&
           (f16 || (hip_rope_args(h, p, rope).in_octets && a->as.attend.heads.head_dim <= 128));
}

int hip_single_rows(const struct batch *b)
{
    for (int i = 0; i < b->n_decode; i++)
        if (b->seq_start[b->seq[i] + 1] - b->seq_start[b->seq[i]] != 1) return 0;
    return 1;
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

static struct combine_args combine_from_row(const struct hip *h, const struct be_plan *p, int op,
                                            size_t row)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    float *out = hip_out(p, op, 0);
    int scaled = h->config.kv == KV_F16 && pages_kernel(h, o) < K_COUNT;
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

struct combine_args hip_combine_args(const struct hip *h, const struct be_plan *p, int op)
{
    return combine_from_row(h, p, op, 0);
}

struct hip_blocks hip_pages_grid(const struct hip *h, const struct heads *g, size_t n)
{
    size_t of_kv = (size_t)(g->n_heads / g->n_kv_heads), blocks = (size_t)h->shape.work_blocks;
    return (struct hip_blocks){(size_t)g->n_kv_heads * ((of_kv + 7) / 8), blocks ? blocks : n,
                               blocks ? 1 : (size_t)h->shape.n_splits, 0};
}

const int32_t *hip_row_work(const struct hip *h, size_t row)
{
    size_t blocks = (size_t)h->shape.work_blocks;
    return blocks ? h->shape.d_work + row / (size_t)hip_rows_at_once(h) * blocks : NULL;
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
                    pages = pages_kernel(h, hip_op(p, op));
    if (kv_is_integer(h->config.kv) && h->config.act == ACT_F16) split = K_exact_attend_split_int8;
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
        struct combine_args m = combine_from_row(h, p, op, row);
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
    const struct kv_cache head = {1, g->head_dim};
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
    enum hip_kernel wgmma = wgmma_kernel(h, attend), tile = tile_kernel(h, attend);
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

/* Has attention rotate and store decode rows. */
void hip_rotate_in(struct attend_kernel_args *a, const struct rope_kernel_args *rope)
{
    a->cos = rope->cos;
    a->sin = rope->sin;
    a->k = rope->k;
    a->v = rope->v;
    a->q_norm = rope->q_norm;
    a->k_norm = rope->k_norm;
    a->eps = rope->eps;
}

/* The arguments for rows from row `row` on. */
void hip_skip_rows(struct attend_kernel_args *a, size_t row)
{
    size_t q_row = (size_t)a->n_heads * (size_t)a->head_dim,
           kv_row = (size_t)a->n_kv_heads * (size_t)a->head_dim, half = (size_t)a->head_dim / 2;
    a->q += row * q_row;
    a->pos += row;
    a->seq += row;
    if (a->open.own) a->open.own += row;
    if (a->cos) a->cos += row * half, a->sin += row * half;
    if (a->k) a->k += row * kv_row, a->v += row * kv_row;
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
    if (wgmma_kernel(h, attend) < K_COUNT && rope.in_octets && rope.head_dim <= 128) {
        prompts->cos = rope.cos;
        prompts->sin = rope.sin;
        rows.keys_of_prompts = 1;
    }
    hip_rope_rows(h, p, &rows);
}

struct attend_kernel_args hip_attend_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    return (struct attend_kernel_args){
        .q = hip_in(p, op, 0),
        .pages = p->memory->kv[o->as.attend.kv],
        .out = hip_out(p, op, 0),
        .pos = h->shape.d_pos,
        .seq = h->shape.d_seq,
        .table = h->shape.d_table,
        .sinks = hip_vector(p, op, 0),
        .scale = o->as.attend.scale,
        .softcap = o->as.attend.softcap,
        .table_stride = h->shape.table_stride,
        .window = o->as.attend.window,
        .n_heads = g->n_heads,
        .n_kv_heads = g->n_kv_heads,
        .head_dim = g->head_dim,
        .values = p->d_values ? p->d_values + (size_t)o->as.attend.kv * CUDA_MAP_BYTES : NULL,
        .digits = h->config.act == ACT_INT8 ? 1 : 2,
        .exact = hip_is_exact(h),
        .open = hip_open_pages(h, p, o->as.attend.kv, o->as.attend.step_set),
    };
}

static void attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave, float *gate)
{
    const struct op *o = hip_op(p, op);
    struct attend_kernel_args a = hip_attend_args(h, p, op), prompts = a;
    if (rope >= 0) rotate(h, p, o, rope, &a, &prompts);
    attend_kv_splits(h, p, op, &a, leave, gate);
    if (h->shape.n_rows > h->shape.n_decode) attend_prompts(h, o, &prompts);
}

void hip_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave)
{
    attend(h, p, op, rope, leave, NULL);
}

int hip_attend_gates(const struct be_plan *p, int op)
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
