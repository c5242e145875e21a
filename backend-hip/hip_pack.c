/* hip_pack.c: packs linears: copies them piece by piece from the mapped model file to a staging
 * buffer on the device, where a kernel brings each piece into the layout of
 * kernels/common/args.h. */
#include "backend-hip/hip_pack.h"

#include "backend-hip/hip_memory.h"
#include "core/model/modelfile.h"

#include <stdlib.h>

/* Panels of one linear of a stack; linears of a stack, or 1. */
static size_t panels_of(const struct linear *w) { return ((size_t)w->out + PANEL - 1) / PANEL; }
static size_t number_of(const struct linear *w) { return w->stack ? (size_t)w->stack : 1; }

static void pack_codes(struct hip *h, const struct linear *w, struct be_linear *l)
{
    size_t panels = number_of(w) * panels_of(w), panel_bytes = (size_t)w->k * 8,
           packed_bytes = (size_t)l->n_chunks * CHUNK * 8;
    size_t at_once = STAGE_BYTES / panel_bytes;
    CHECK(at_once > 0);
    for (size_t p = 0; p < panels; p += at_once) {
        size_t n = panels - p < at_once ? panels - p : at_once;
        hip_upload(&h->be, h->d_stage, w->codes + p * panel_bytes, n * panel_bytes);
        struct repack_args a = {.src = h->d_stage,
                                .dst = (char *)l->d_weight + (l->stride ? 0 : p * packed_bytes),
                                .n_panels = (int)n,
                                .n_chunks = w->k / CHUNK,
                                .first = (int)p,
                                .stride = l->stride};
        enum hip_kernel k = l->stride                                       ? K_repack_rows
                            : hip_is_exact(h) && hip_has(h, K_repack_lanes) ? K_repack_lanes
                                                                            : K_repack_codes;
        hip_launch_elements(h, k, n * packed_bytes / 4, &a, sizeof a);
    }
}

static void pack_meta(struct hip *h, const struct linear *w, struct be_linear *l)
{
    size_t total = number_of(w) * panels_of(w) * (size_t)w->n_groups * PANEL,
           bytes = dtype_bytes(w->scale_type), at_once = STAGE_BYTES / 8;
    for (size_t i = 0; i < total; i += at_once) {
        size_t n = total - i < at_once ? total - i : at_once;
        unsigned char *d_zeros = (unsigned char *)h->d_stage + at_once * 4;
        hip_upload(&h->be, h->d_stage, (const char *)w->scales + i * bytes, n * bytes);
        hip_upload(&h->be, d_zeros, w->zeros + i, n);
        struct repack_meta_args a = {.scales = h->d_stage,
                                     .zeros = d_zeros,
                                     .dst = (char *)l->d_meta +
                                            (l->stride ? 0 : i * (l->scale_f32 ? 8 : 4)),
                                     .n = (int)n,
                                     .scale_f32 = l->scale_f32,
                                     .first = (int)i,
                                     .n_groups = l->n_groups,
                                     .stride = l->stride};
        hip_launch_elements(h, K_repack_meta, n, &a, sizeof a);
    }
}

/* to: of the first panel */
static void pack_dense(struct hip *h, const struct linear *w, const struct be_linear *l, char *to)
{
    size_t element = dtype_bytes(w->weight_type), row = (size_t)w->in * element,
           at_once = STAGE_BYTES / (row * PANEL);
    size_t panel_bytes = (size_t)l->n_chunks * CHUNK * element * PANEL, panels = panels_of(w);
    CHECK(at_once > 0);
    for (size_t p = 0; p < panels; p += at_once) {
        size_t n = panels - p < at_once ? panels - p : at_once, rows = (size_t)w->out - p * PANEL;
        if (rows > n * PANEL) rows = n * PANEL;
        hip_upload(&h->be, h->d_stage, (const char *)w->weight + p * PANEL * row, rows * row);
        struct repack_args a = {.src = h->d_stage,
                                .dst = to + p * panel_bytes,
                                .n_panels = (int)n,
                                .n_chunks = l->n_chunks,
                                .in = w->in,
                                .out_left = (int)rows};
        hip_launch_elements(h, element == 4 ? K_repack_dense_32 : K_repack_dense_16,
                            n * panel_bytes / 16, &a, sizeof a);
    }
}

static void pack_bytes(struct hip *h, const struct linear *w, struct be_linear *l)
{
    size_t panels = panels_of(w), panel_codes = (size_t)w->k * 8,
           panel_scales = (size_t)w->n_groups * PANEL * 2,
           at_once = STAGE_BYTES / (panel_codes + panel_scales);
    CHECK(at_once > 0);
    for (size_t p = 0; p < panels; p += at_once) {
        size_t n = panels - p < at_once ? panels - p : at_once,
               panel_bytes = (size_t)l->n_chunks / 2 * BYTES_STAGE;
        char *d_scales = (char *)h->d_stage + n * panel_codes;
        hip_upload(&h->be, h->d_stage, w->codes + p * panel_codes, n * panel_codes);
        hip_upload(&h->be, d_scales, (const char *)w->scales + p * panel_scales, n * panel_scales);
        struct repack_args a = {.src = h->d_stage,
                                .dst = (char *)l->d_weight + p * panel_bytes,
                                .n_panels = (int)n,
                                .n_chunks = l->n_chunks,
                                .in = w->in,
                                .scales = d_scales,
                                .group = w->group};
        hip_launch_elements(h, K_repack_bytes, n * (size_t)l->n_chunks * 32, &a, sizeof a);
    }
}

/* Tensor maps for TMA: a box is 4 panels of an item of codes, or of the scales of a group. */
static void make_maps(struct hip *h, struct be_linear *l)
{
    const struct hip_api *api = &h->device->library->api;
    const unsigned long long panels = ((unsigned long long)l->out + PANEL - 1) / PANEL *
                                      (l->stack ? (unsigned long long)l->stack : 1),
                             items = (unsigned long long)l->n_chunks / 4;
    const unsigned long long code_sizes[] = {256, items, panels},
                             code_strides[] = {1024, 1024 * items};
    const unsigned long long meta_sizes[] = {PANEL, (unsigned long long)l->n_groups, panels},
                             meta_strides[] = {PANEL * 4,
                                               PANEL * 4 * (unsigned long long)l->n_groups};
    const unsigned code_box[] = {256, 1, 4}, meta_box[] = {PANEL, 1, 4}, steps[] = {1, 1, 1};
    unsigned char maps[2 * CUDA_MAP_BYTES] __attribute__((aligned(64))) = {0};
    int code = api->cuda_tensor_map(maps, CUDA_MAP_U32, 3, l->d_weight, code_sizes, code_strides,
                                    code_box, steps, 0, 0, CUDA_MAP_L2_256, 0);
    if (!code && !l->scale_f32)
        code = api->cuda_tensor_map(maps + CUDA_MAP_BYTES, CUDA_MAP_U32, 3, l->d_meta, meta_sizes,
                                    meta_strides, meta_box, steps, 0, 0, CUDA_MAP_L2_256, 0);
    if (code) hip_fail(h, code, "a map of weights");
    hip_upload(&h->be, l->d_maps, maps, sizeof maps);
}

/* Makes the tensor map of a dense linear: a box is 64 inputs of 4 panels, in lines of 8 outputs x 8
 * inputs. */
static void make_dense_map(struct hip *h, struct be_linear *l)
{
    const unsigned long long lines = (unsigned long long)l->n_chunks * 8,
                             sizes[] = {32, lines,
                                        ((unsigned long long)l->out + PANEL - 1) / PANEL},
                             strides[] = {128, 128 * lines};
    const unsigned box[] = {32, 16, 4}, steps[] = {1, 1, 1};
    unsigned char map[CUDA_MAP_BYTES] __attribute__((aligned(64))) = {0};
    int code = h->device->library->api.cuda_tensor_map(map, CUDA_MAP_U32, 3, l->d_weight, sizes,
                                                       strides, box, steps, 0, CUDA_MAP_SWIZZLE_128,
                                                       CUDA_MAP_L2_256, 0);
    if (code) hip_fail(h, code, "a map of weights");
    hip_upload(&h->be, l->d_maps, map, sizeof map);
}

void hip_make_maps(struct hip *h, struct be_linear *l)
{
    if (!l->d_maps) return;
    if (l->dense) make_dense_map(h, l);
    else make_maps(h, l);
}

/* Chunks of 32 inputs, for 4-bit linears rounded up to a multiple of four, except in the paper's
 * layout. */
static int chunks_of(const struct linear *w)
{
    return w->codes ? (w->k / CHUNK + 3) / 4 * 4 : (w->in + CHUNK - 1) / CHUNK;
}

/* Bytes of weights or codes, and of scales and zeros, of one linear of a stack. */
static void sizes_of(const struct linear *w, size_t *weight, size_t *meta)
{
    size_t panels = panels_of(w);
    *meta = 0;
    if (!w->codes) {
        *weight = panels * PANEL * (size_t)chunks_of(w) * CHUNK * dtype_bytes(w->weight_type);
        return;
    }
    *weight = panels * (size_t)chunks_of(w) * CHUNK * 8;
    *meta = panels * PANEL * (size_t)w->n_groups * (w->scale_type == DT_F32 ? 8 : 4);
}

uint64_t hip_packed_bytes(const struct linear *w)
{
    size_t weight, meta;
    sizes_of(w, &weight, &meta);
    return number_of(w) *
               (weight + meta +
                (w->perm ? (4 + 2) * (size_t)w->k + 2 * (size_t)chunks_of(w) * CHUNK : 0) +
                (w->bias ? 4 * (size_t)w->out : 0)) +
           (w->codes ? 2 : 1) * CUDA_MAP_BYTES;
}

/* Uploads d_place, the packed position of each input, if every input has exactly one and a GEMV can
 * use it. 0 or -1. */
static int pack_places(struct be *be, const struct linear *w, struct be_linear *l)
{
    const struct hip *h = (const struct hip *)be;
    if (!l->perm || w->stack || !hip_has(h, K_q4_gemv_norm) || w->k != w->in || w->in > 1 << 16)
        return 0;
    uint16_t *place = calloc((size_t)w->in, sizeof *place);
    char *named = calloc((size_t)w->in, 1);
    int n = 0;
    for (int j = 0; place && named && j < w->k; j++) {
        int from = w->perm[j];
        if (from < 0 || named[from]) continue;
        named[from] = 1;
        place[from] = (uint16_t)j;
        n++;
    }
    int bad = !place || !named;
    if (n == w->in) {
        l->d_place = hip_alloc(be, (size_t)w->in * sizeof *place);
        bad = !l->d_place;
        if (!bad) hip_upload(be, l->d_place, place, (size_t)w->in * sizeof *place);
    }
    free(place);
    free(named);
    return bad ? -1 : 0;
}

/* Uploads d_order, the input of each packed position, for blocks that keep the row in registers. 0
 * or -1. */
static int pack_order(struct be *be, const struct linear *w, struct be_linear *l)
{
    int n = l->n_chunks * CHUNK;
    if (!l->perm || w->stack || ((const struct hip *)be)->config.act != ACT_F16 ||
        n > ROW_PIECES * PIECE || w->in > ROW_PIECES * PIECE)
        return 0;
    uint16_t *order = malloc((size_t)n * sizeof *order);
    if (!order) return -1;
    for (int j = 0; j < n; j++)
        order[j] = (uint16_t)(j < w->k && w->perm[j] >= 0 ? w->perm[j] : w->in);
    l->d_order = hip_alloc(be, (size_t)n * sizeof *order);
    if (l->d_order) hip_upload(be, l->d_order, order, (size_t)n * sizeof *order);
    free(order);
    return l->d_order ? 0 : -1;
}

/* Uploads d_perm; of pairs each input once, where the high halves name it. 0 or -1. */
static int pack_perm(struct be *be, const struct linear *w, struct be_linear *l)
{
    size_t n = number_of(w) * (size_t)l->k, group = (size_t)w->group;
    if (!l->perm) return 0;
    int32_t *once = l->pairs ? malloc(n * sizeof *once) : NULL;
    l->d_perm = hip_alloc(be, n * sizeof *l->d_perm);
    int bad = !l->d_perm || (l->pairs && !once);
    for (size_t j = 0; !bad && l->pairs && j < n; j++) once[j] = w->perm[j + j / group * group];
    if (!bad) hip_upload(be, l->d_perm, once ? once : w->perm, n * sizeof *l->d_perm);
    free(once);
    return bad ? -1 : 0;
}

static void describe_groups(const struct linear *w, struct be_linear *l)
{
    l->group_chunks = w->group / CHUNK;
    l->n_groups = w->n_groups;
    l->scale_f32 = w->scale_type == DT_F32;
    l->group_shift = -1;
    for (int s = 0; s < 16; s++)
        if (l->group_chunks == 1 << s) l->group_shift = s;
}

/* ---- the layouts. Each describes the packed linear, with the bytes of one linear of a stack, and
 * packs it. */
static void dense_kind(struct be_linear *l, enum weight_kind kind, int in)
{
    l->dense = 1;
    l->kind = kind;
    l->k = in;
    l->n_chunks = (in + CHUNK - 1) / CHUNK;
}

static int describe_dense(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e)
{
    (void)h;
    (void)e;
    dense_kind(l,
               w->weight_type == DT_F32    ? WEIGHT_F32
               : w->weight_type == DT_BF16 ? WEIGHT_BF16
                                           : WEIGHT_F16,
               w->in);
    sizes_of(w, &l->weight_bytes, &l->meta_bytes);
    return 0;
}

static void pack_stack_of_dense(struct hip *h, const struct linear *w, struct be_linear *l)
{
    for (size_t i = 0; i < number_of(w); i++) {
        struct linear one = linear_of_stack(w, (int)i);
        pack_dense(h, &one, l, (char *)l->d_weight + i * l->weight_bytes);
    }
    if (l->d_maps) make_dense_map(h, l);
}

/* Pairs of codes as bytes, in the order of the inputs. */
static int describe_bytes(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e)
{
    (void)h;
    (void)e;
    dense_kind(l, WEIGHT_I8, w->in);
    l->perm = NULL;
    l->n_chunks = (l->n_chunks + 1) / 2 * 2;
    l->weight_bytes = panels_of(w) * (size_t)l->n_chunks / 2 * BYTES_STAGE;
    return 0;
}

static int describe_codes(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e)
{
    (void)e;
    CHECK(w->k % CHUNK == 0 && w->group % CHUNK == 0);
    describe_groups(w, l);
    l->low_groups = act_formats[h->config.act].low && w->outliers ? w->n_groups - 2 : 0;
    l->n_chunks = chunks_of(w);
    sizes_of(w, &l->weight_bytes, &l->meta_bytes);
    return 0;
}

static void pack_codes_and_meta(struct hip *h, const struct linear *w, struct be_linear *l)
{
    pack_codes(h, w, l);
    pack_meta(h, w, l);
    if (l->d_maps) make_maps(h, l);
}

/* Codes whose pairs are one group of 8 bits: k and perm name an input once. */
static int describe_pairs(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e)
{
    l->pairs = 1;
    l->k = w->k / 2;
    if (w->in_order) l->perm = NULL;
    return describe_codes(h, w, l, e);
}

/* Codes for paper/linear_paper.hip, and room for the sums of the largest linear. */
static int describe_paper(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e)
{
    if (w->stack)
        return err_set(e, "--variant %s: has no mixtures of experts", hip_kernels[h->pinned].name);
    describe_codes(h, w, l, e);
    l->n_chunks = w->k / CHUNK;
    if (l->scale_f32)
        return err_set(e, "--variant %s: this model has fp32 scales, the kernel takes fp16 ones",
                       hip_kernels[h->pinned].name);
    l->stride = (int)panels_of(w) * PANEL;
    if (l->stride <= h->max_stride) return 0;
    hip_free(&h->be, h->d_sums);
    h->max_stride = l->stride;
    h->d_sums = hip_alloc(&h->be, (size_t)h->config.max_rows * (size_t)h->max_stride * 2);
    return h->d_sums ? 0 : err_set(e, "out of memory on %s", h->device->name);
}

struct layout {
    int (*describe)(struct hip *h, const struct linear *w, struct be_linear *l, struct err *e);
    void (*pack)(struct hip *h, const struct linear *w, struct be_linear *l);
};

/* Whether the codes are pairs that the device keeps as bytes (WEIGHT_I8): where groups are shorter
 * than an item, so that halves would be scaled for every chunk. */
static int takes_bytes(const struct hip *h, const struct linear *w)
{
    return w->pairs && w->in_order && !w->stack && w->scale_type == DT_F16 &&
           w->group % CHUNK == 0 && w->group % (ITEM_CHUNKS * CHUNK) && h->config.act == ACT_F16 &&
           !hip_runs_paper(h) && hip_has(h, K_repack_bytes);
}

static const struct layout *layout_of(const struct hip *h, const struct linear *w)
{
    static const struct layout dense = {describe_dense, pack_stack_of_dense},
                               bytes = {describe_bytes, pack_bytes},
                               paper = {describe_paper, pack_codes_and_meta},
                               pairs = {describe_pairs, pack_codes_and_meta},
                               codes = {describe_codes, pack_codes_and_meta};
    return !w->codes                     ? &dense
           : takes_bytes(h, w)           ? &bytes
           : hip_runs_paper(h)           ? &paper
           : w->pairs && hip_is_exact(h) ? &pairs
                                         : &codes;
}

/* Drops the linear and says why there is no room for it. */
static int no_room(struct hip *h, struct be_linear *l, struct err *e)
{
    size_t left = 0, total = 0;
    h->device->library->api.memory_info(&left, &total);
    hip_drop(&h->be, l);
    if (h->failed.msg[0]) {
        *e = h->failed;
        return -1;
    }
    return err_set(e,
                   "out of memory on %s: the weights do not fit (%.2f GiB are there so far, "
                   "%.2f of %.2f GiB free)",
                   h->device->name, (double)h->bytes / (1 << 30), (double)left / (1 << 30),
                   (double)total / (1 << 30));
}

/* Allocates all that the description asks for, and uploads the order of the inputs. 0 or -1. */
static int make_room(struct hip *h, const struct linear *w, struct be_linear *l)
{
    struct be *be = &h->be;
    size_t n = number_of(w);
    int mapped = !l->stride && h->tensor_maps &&
                 (!l->dense || (!l->stack && (l->kind == WEIGHT_F16 || l->kind == WEIGHT_BF16)));
    l->d_weight = hip_alloc(be, n * l->weight_bytes);
    if (l->meta_bytes) l->d_meta = hip_alloc(be, n * l->meta_bytes);
    if (w->bias) l->d_bias = hip_alloc(be, n * (size_t)w->out * sizeof *l->d_bias);
    if (mapped) l->d_maps = hip_alloc(be, 2 * CUDA_MAP_BYTES);
    int no_order = pack_perm(be, w, l) || pack_places(be, w, l) || pack_order(be, w, l);
    return no_order || (mapped && !l->d_maps) || !l->d_weight || (l->meta_bytes && !l->d_meta) ||
                   (w->bias && !l->d_bias)
               ? -1
               : 0;
}

int hip_pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e)
{
    struct hip *h = (struct hip *)be;
    const struct layout *layout = layout_of(h, w);
    struct be_linear *l = calloc(1, sizeof *l);
    if (!l) return err_memory(e);
    hip_use(h);
    *l = (struct be_linear){
        .in = w->in, .out = w->out, .k = w->k, .perm = w->perm, .stack = w->stack};
    if (layout->describe(h, w, l, e)) {
        free(l);
        return -1;
    }
    if (make_room(h, w, l)) return no_room(h, l, e);
    layout->pack(h, w, l);
    if (w->bias)
        hip_upload(be, l->d_bias, w->bias, number_of(w) * (size_t)w->out * sizeof *l->d_bias);
    if (h->failed.msg[0]) {
        *e = h->failed;
        hip_drop(be, l);
        return -1;
    }
    *out = l;
    return 0;
}

/* The host's copy of weights that are in memory of others (hip_away.h). */
static void drop_away(struct hip *h, struct be_linear *w)
{
    if (!w->away) return;
    w->d_weight = w->d_meta = NULL;
    if (!w->is_pinned) free(w->away);
    else if (!h->device->hung)
        hip_fail(h, h->device->library->api.host_free(w->away), "freeing pinned memory");
}

void hip_drop(struct be *be, struct be_linear *w)
{
    drop_away((struct hip *)be, w);
    hip_free(be, w->d_weight);
    hip_free(be, w->d_meta);
    hip_free(be, w->d_perm);
    hip_free(be, w->d_order);
    hip_free(be, w->d_place);
    hip_free(be, w->d_bias);
    hip_free(be, w->d_maps);
    free(w);
}
