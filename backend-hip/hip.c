/* hip.c: the backend table for GPUs: opening, steps, and all operations but the linears
 * (hip_linear.c) and attention (hip_attend.c). Must not know: how a runtime is found
 * (hip_runtime.c), what a kernel does inside. One stream: everything happens in the order issued.
 */
#include "backend-hip/hip_internal.h"

#include "core/model/modelfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }

static size_t element_bytes(enum kv_type t) { return t == KV_F32 ? 4 : 2; }

static size_t hip_kv_page_bytes(const struct be *be)
{
    const struct be_config *g = &((const struct hip *)be)->config;
    return (size_t)g->n_kv_heads * 2 * PAGE * (((size_t)g->head_dim + 7) / 8 * 8) *
           element_bytes(g->kv);
}

static void hip_close(struct be *be)
{
    struct hip *h = (struct hip *)be;
    if (!h) return;
    void *const d[] = {h->d_batch, h->d_parts, h->d_packed, h->d_scale, h->d_inv_freq,
                       h->d_cos,   h->d_sin,   h->d_sums,   h->d_stage, h->d_largest};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) hip_free(be, d[i]);
    hip_waiting_close(h);
    free(h->batch_copy);
    hip_stream_close(h->stream);
    free(h);
}

static int open_device(struct hip *h, struct err *e)
{
    const struct hip_library *l;
    if (!hip_images[0].arch)
        return err_set(
            e, "--backend hip: this build contains no kernels (it was made without clang-19)");
    if (hip_library_open(&l, h->config.library, e) ||
        hip_device_open(&h->device, l, h->config.device, hip_wait_seconds(&h->config), e))
        return -1;
    const struct hip_device *d = h->device;
    if (!d->image)
        return err_set(e,
                       "%s%s%s: none of the embedded kernels fits this device (opt4gptq-run "
                       "--version lists them)%s%s",
                       d->name, d->arch[0] ? ", " : "", d->arch,
                       d->why[0] ? ", and to compile them for it failed: " : "", d->why);
    int family = hip_image_family(d->image->arch);
    if (hip_find_variant(h->config.variant, family, &h->pinned, e) || hip_load_kernels(h, e))
        return -1;
    h->tensor_maps = d->library->is_cuda && api_of(h)->cuda_tensor_map && family == IMAGES_SM90;
    if (h->pinned >= 0 && !hip_has(h, (enum hip_kernel)h->pinned))
        return err_set(e, "--variant %s: is not among the kernels for %s (%s)", h->config.variant,
                       d->name, d->image->arch);
    return 0;
}

enum { N_SCRATCH = 9 };

/* The arrays of a step: token, pos, seq, slot, logit_row, top_row, block table, tiles, work. */
static size_t batch_ints(const struct be_config *c)
{
    return 6 * (size_t)c->max_rows + (size_t)c->max_seqs * (size_t)c->max_pages +
           2 * TILE_GROUPS *
               ((size_t)c->max_seqs + (size_t)c->max_rows / (TILE_GROUPS * GROUP_ROWS)) +
           (size_t)c->max_rows * (size_t)hip_most_spans(c);
}

static void scratch_sizes(const struct be_config *c, size_t bytes[N_SCRATCH])
{
    size_t rows = (size_t)c->max_rows, half = (size_t)c->head_dim / 2,
           k = ((size_t)c->max_k + 4 * CHUNK - 1) / (4 * CHUNK) * (4 * CHUNK);
    size_t parts = hip_part_floats(c);
    size_t packed = 3 * rows + MAX_TILE_ROWS; /* of halves: three parts, or two phases that may end
                                                 with a whole tile each */
    const size_t sizes[N_SCRATCH] = {
        packed * k * 2,    rows * 4,        half * 4,
        rows * half * 4,   rows * half * 4, STAGE_BYTES,
        batch_ints(c) * 4, parts * 4,       rows * ARGMAX_SPANS * sizeof(struct largest)};
    memcpy(bytes, sizes, sizeof sizes);
}

static uint64_t hip_scratch_bytes(const struct be_config *c)
{
    size_t bytes[N_SCRATCH];
    uint64_t sum = 0;
    scratch_sizes(c, bytes);
    for (int i = 0; i < N_SCRATCH; i++) sum += bytes[i];
    return sum;
}

static int hip_available(const struct be_config *c, uint64_t *bytes, struct err *e)
{
    struct hip h = {.config = *c};
    size_t left, total;
    if (open_device(&h, e)) return -1;
    int code = api_of(&h)->memory_info(&left, &total);
    char text[160];
    if (code)
        return err_set(e, "%s: free memory: %s", h.device->name,
                       hip_error_text(h.device->library, code, text, sizeof text));
    *bytes = left;
    return 0;
}

static int alloc_scratch(struct hip *h, struct err *e)
{
    const struct be_config *c = &h->config;
    void **const d[N_SCRATCH] = {
        &h->d_packed,         (void **)&h->d_scale, (void **)&h->d_inv_freq,
        (void **)&h->d_cos,   (void **)&h->d_sin,   &h->d_stage,
        (void **)&h->d_batch, (void **)&h->d_parts, (void **)&h->d_largest};
    size_t bytes[N_SCRATCH];
    if (hip_waiting_open(h, e)) return -1;
    scratch_sizes(c, bytes);
    for (int i = 0; i < N_SCRATCH; i++)
        if (!(*d[i] = hip_alloc(&h->be, bytes[i])))
            return err_set(e, "out of memory on %s: no room for %.1f MiB of scratch",
                           h->device->name, (double)bytes[i] / (1 << 20));
    h->batch_copy = malloc(batch_ints(c) * sizeof *h->batch_copy);
    if (!h->batch_copy) return err_memory(e);
    hip_upload(&h->be, h->d_inv_freq, c->inv_freq, (size_t)c->head_dim / 2 * 4);
    return 0;
}

static int hip_open(struct be **out, const struct be_config *config, struct err *e)
{
    if (config->act != ACT_F32 && config->act != ACT_F16)
        return err_set(e, "--backend hip: activations are f16 or f32 (--act)");
    if (config->head_dim > GPU_HEAD_DIM || config->head_dim % 2)
        return err_set(e,
                       "--backend hip: heads of %d dimensions; even sizes up to %d are supported",
                       config->head_dim, GPU_HEAD_DIM);
    if (hip_most_spans(config) >= MERGE_WEIGHTS)
        return err_set(e, "--backend hip: sequences of %d positions; up to %d are supported",
                       config->max_pages * PAGE, MERGE_WEIGHTS * SPAN / 4 * 3);
    struct hip *h = calloc(1, sizeof *h);
    if (!h) return err_memory(e);
    h->be.ops = &backend_hip;
    h->pending.kernel = K_COUNT;
    h->config = *config;
    if (open_device(h, e)) {
        free(h);
        return -1;
    }
    if (hip_runs_paper(h) && config->act != ACT_F16) {
        free(h);
        return err_set(e, "--variant %s: needs --act f16", config->variant);
    }
    if (hip_stream_open(&h->stream, h->device, e)) {
        free(h);
        return -1;
    }
    if (alloc_scratch(h, e) || h->failed.msg[0]) {
        if (h->failed.msg[0]) *e = h->failed;
        hip_close(&h->be);
        return -1;
    }
    *out = &h->be;
    return 0;
}

static const char *hip_describe(const struct be *be)
{
    struct hip *h = (struct hip *)be;
    const struct hip_device *d = h->device;
    snprintf(h->description, sizeof h->description,
             "%s%s%s (%s, kernels for %s), activations %s, variant %s, %.2f of %.2f GiB allocated",
             d->name, d->arch[0] ? ", " : "", d->arch, d->library->path, d->image->arch,
             h->config.act == ACT_F16 ? "f16" : "f32",
             h->pinned >= 0 ? hip_kernels[h->pinned].name : "auto",
             (double)h->bytes / (1 << 30), (double)d->memory / (1 << 30));
    return h->description;
}

/* All arrays of the batch in one copy. */
static void hip_begin_step(struct be *be, const struct batch *b)
{
    struct hip *h = (struct hip *)be;
    CHECK(b->n_rows <= h->config.max_rows);
    h->batch = b;
    if (h->failed.msg[0]) return;
    const struct {
        const int32_t *src, **d;
        size_t n;
    } part[] = {
        {b->token, &h->d_token, (size_t)b->n_rows},
        {b->pos, &h->d_pos, (size_t)b->n_rows},
        {b->seq, &h->d_seq, (size_t)b->n_rows},
        {b->slot, &h->d_slot, (size_t)b->n_rows},
        {b->logit_row, &h->d_logit_row, (size_t)b->n_logits},
        {b->top_row, &h->d_top_row, (size_t)b->n_top},
        {b->block_table, &h->d_table, (size_t)b->n_seqs * (size_t)b->table_stride},
    };
    h->n_spans = hip_spans(b);
    size_t n = 2 * TILE_GROUPS *
                   ((size_t)b->n_seqs +
                    (size_t)b->n_rows / (TILE_GROUPS * GROUP_ROWS)) + /* of tiles, at most */
               (size_t)b->n_decode * (size_t)h->n_spans;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) n += part[i].n;
    CHECK(n <= batch_ints(&h->config));
    n = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; n += part[i++].n) {
        if (part[i].n) memcpy(h->batch_copy + n, part[i].src, part[i].n * sizeof(int32_t));
        *part[i].d = h->d_batch + n;
    }
    h->n_tiles = hip_fill_tiles(h, b, h->batch_copy + n);
    h->d_tiles = h->d_batch + n;
    n += 2 * TILE_GROUPS * (size_t)h->n_tiles;
    h->d_work = h->d_batch + n;
    n += (size_t)hip_fill_work(h, b, h->batch_copy + n);
    hip_upload(be, h->d_batch, h->batch_copy, n * sizeof(int32_t));
    int half = h->config.head_dim / 2;
    struct angles_args a = {h->d_pos,  h->d_inv_freq, h->d_cos, h->d_sin, h->config.rope_scale,
                            b->n_rows, half};
    hip_launch_elements(h, K_rope_angles, (size_t)b->n_rows * (size_t)half, &a, sizeof a);
}

static void hip_embed(struct be *be, const struct be_linear *table, const int32_t *d_chosen,
                      float *d_out)
{
    struct hip *h = (struct hip *)be;
    struct embed_args a = {table->d_weight, h->d_token,      d_chosen,        d_out,
                           table->in,       table->n_chunks, (int)table->kind};
    hip_settle(h);
    hip_launch_rows(h, K_embed_rows, h->batch->n_rows, &a, sizeof a);
}

static void hip_norm(struct be *be, float *d_x, const float *d_delta, const float *d_weight,
                     float eps, float *d_out, int rows, int dim)
{
    struct hip *h = (struct hip *)be;
    if (d_delta && hip_one_adds(h, d_x, d_delta, rows, dim)) d_delta = NULL;
    hip_wait_for_next(h, K_norm_rows, d_out, rows, dim)->norm =
        (struct norm_args){d_x, d_delta, d_weight, d_out, eps, dim};
}

static void hip_glu(struct be *be, float *d_gate, const float *d_up, size_t n)
{
    struct hip *h = (struct hip *)be;
    if (hip_one_gates(h, d_gate, d_up, n)) return;
    int rows =
        h->batch
            ->n_rows; /* a whole number of elements each, or there is no linear that reads them */
    hip_wait_for_next(h, K_glu, d_gate, rows, (int)(n / (size_t)rows))->glu =
        (struct glu_args){d_gate, d_up, n};
}

static void hip_gather(struct be *be, const float *d_x, float *d_out, int dim)
{
    struct hip *h = (struct hip *)be;
    struct gather_args a = {d_x, h->d_logit_row, d_out, dim};
    hip_settle(h);
    hip_launch_rows(h, K_gather_rows, h->batch->n_logits, &a, sizeof a);
}

static void hip_argmax(struct be *be, const float *d_logits, int32_t *d_id, int rows, int vocab)
{
    struct hip *h = (struct hip *)be;
    struct argmax_args a = {d_logits, h->d_largest, d_id, vocab};
    CHECK(rows <= h->config.max_rows);
    hip_settle(h);
    hip_launch(h, K_argmax_spans, (struct hip_blocks){ARGMAX_SPANS, (size_t)rows, 1, 0}, &a,
               sizeof a);
    hip_launch_rows(h, K_argmax_rows, rows, &a, sizeof a);
}

_Static_assert((int)PAGE == KV_PAGE && (int)PANEL == MF_PANEL &&
                   (int)CHUNK == MF_GROUP_MULTIPLE,
               "kernels and core agree");
_Static_assert((int)TOP == BE_TOP && (int)TOP_ROOM == BE_TOP_ROOM &&
                   sizeof(struct largest) == sizeof(struct softmax_logit),
               "kernels and core agree");

static void hip_top(struct be *be, const float *d_logits, struct softmax_logit *d_top, int vocab)
{
    struct hip *h = (struct hip *)be;
    struct top_args a = {d_logits, h->d_top_row, (struct largest *)d_top, vocab};
    hip_settle(h);
    hip_launch_rows(h, K_top_rows, h->batch->n_top, &a, sizeof a);
}

const char *hip_image_name(int i) { return hip_images[i].arch; }

int hip_probe(const char *library, int device, struct err *e)
{
    struct hip h = {.config = {.library = library, .device = device}};
    return open_device(&h, e);
}

int hip_list_devices(const char *library, struct err *e)
{
    const struct hip_library *l;
    int n;
    if (hip_library_open(&l, library, e) || hip_device_count(l, &n, e)) return -1;
    for (int i = 0; i < n; i++) {
        struct hip_device *d;
        if (hip_device_open(&d, l, i, 0, e)) return -1;
        printf("%d: %s%s%s, %.1f GiB, %s%s (%s)\n", i, d->name, d->arch[0] ? ", " : "", d->arch,
               (double)d->memory / (1 << 30),
               d->image     ? "kernels for "
               : l->is_cuda ? "no embedded kernels fit"
                            : "no embedded kernels fit: they will be compiled for it",
               d->image ? d->image->arch : "", l->path);
    }
    if (!n) return err_set(e, "%s: there is no device", l->path);
    return 0;
}

const struct backend backend_hip = {
    .name = "hip",
    .asynchronous = 1,
    .available = hip_available,
    .packed_bytes = hip_packed_bytes,
    .scratch_bytes = hip_scratch_bytes,
    .open = hip_open,
    .close = hip_close,
    .describe = hip_describe,
    .alloc = hip_alloc,
    .free = hip_free,
    .view = hip_view,
    .drop_view = hip_drop_view,
    .upload = hip_upload,
    .download = hip_download,
    .pack = hip_pack,
    .drop = hip_drop,
    .kv_page_bytes = hip_kv_page_bytes,
    .begin_step = hip_begin_step,
    .end_step = hip_end_step,
    .wait_step = hip_wait_step,
    .sync = hip_sync,
    .embed = hip_embed,
    .norm = hip_norm,
    .linear = hip_linear,
    .rope_store = hip_rope_store,
    .attend = hip_attend,
    .glu = hip_glu,
    .gather = hip_gather,
    .argmax = hip_argmax,
    .top = hip_top,
};
