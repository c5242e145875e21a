/* hip.c: the backend table for GPUs: opening and closing, scratch memory, the arrays of a step. All
 * work is in order on one stream. Must not know: how a runtime is found (hip_runtime.c), operations
 * (hip_step.c). */
#include "backend-hip/hip.h"
#include "backend-hip/hip_away.h"
#include "backend-hip/hip_exchange.h"
#include "backend-hip/hip_gptq.h"
#include "backend-hip/hip_latent.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_open.h"
#include "backend-hip/hip_pack.h"
#include "backend-hip/hip_scratch.h"
#include "backend-hip/hip_splits.h"
#include "backend-hip/hip_state.h"
#include "backend-hip/hip_step.h"
#include "backend-hip/hip_turns.h"
#include "core/model/modelfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }

static size_t hip_kv_page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    size_t dims = ((size_t)kv->head_dim + 7) / 8 * 8;
    if (kv_is_latent(kv)) return hip_latent_page_bytes(t, kv);
    if (t == KV_INT8) return (size_t)kv->n_kv_heads * INT8_PAGE((size_t)kv->head_dim);
    if (t == KV_INT4) return (size_t)kv->n_kv_heads * INT4_PAGE((size_t)kv->head_dim);
    return (size_t)kv->n_kv_heads * 2 * PAGE * dims * (t == KV_F32 ? 4 : 2);
}

static void hip_close(struct be *be)
{
    struct hip *h = (struct hip *)be;
    if (!h) return;
    hip_use(h);
    hip_unlink(h);
    hip_scratch_close(h);
    hip_away_close(h);
    hip_gptq_close(h);
    hip_waiting_close(h);
    hip_stream_close(h->stream);
    free(h);
}

static int open_device(struct hip *h, struct err *e)
{
    const struct hip_library *l;
    if (!hip_images[0].arch)
        return err_set(
            e, "--backend hip: this build contains no kernels (it was made without clang-19)");
    if (hip_options_read(&h->options, h->config.own, e) ||
        hip_library_open(&l, h->options.library, e) ||
        hip_device_open(&h->device, l, h->config.device, hip_wait_seconds(h), e))
        return -1;
    const struct hip_device *d = h->device;
    if (!d->image)
        return err_set(e,
                       "%s%s%s: none of the embedded kernels fits this device (opt4gptq-run "
                       "--version lists them)%s%s",
                       d->name, d->arch[0] ? ", " : "", d->arch,
                       d->why[0] ? ", and to compile them for it failed: " : "", d->why);
    int family = hip_image_family(d->image);
    if (hip_find_variant(h->config.variant, family, &h->pinned, e) || hip_find_kernels(h, e))
        return -1;
    h->tensor_maps = d->library->is_cuda && api_of(h)->cuda_tensor_map && family == IMAGES_SM90;
    if (h->pinned >= 0 && !hip_has(h, (enum hip_kernel)h->pinned))
        return err_set(e, "--variant %s: is not among the kernels for %s (%s)", h->config.variant,
                       d->name, d->image);
    return 0;
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

static int hip_open(struct be **out, const struct be_config *config, struct err *e)
{
    if (hip_max_splits(config) >= COMBINE_WEIGHTS)
        return err_set(e, "--backend hip: sequences of %d positions; up to %d are supported",
                       config->max_pages * PAGE, COMBINE_WEIGHTS * KV_SPLIT / 4 * 3);
    if (act_formats[config->act].by_row)
        return err_set(e, "--backend hip: --act %s is the CPU's: --backend cpu, or --act int8",
                       act_formats[config->act].name);
    struct hip *h = calloc(1, sizeof *h);
    if (!h) return err_memory(e);
    h->be.ops = &backend_hip;
    h->config = *config;
    if (open_device(h, e)) {
        free(h);
        return -1;
    }
    if (h->pinned >= 0 && hip_is_exact(h)) {
        free(h);
        return err_set(e, "--variant %s: needs --act f16 or f32", config->variant);
    }
    if (hip_runs_paper(h) && config->act != ACT_F16) {
        free(h);
        return err_set(e, "--variant %s: needs --act f16", config->variant);
    }
    if (h->options.query_halves == 1 && config->act != ACT_F16) {
        free(h);
        return err_set(e, "--query-halves 1: needs --act f16");
    }
    const enum hip_stream_of which = config->n_microbatches < 2 ? STREAM_USUAL
                                     : hip_can_take_turns(h)    ? STREAM_OWN
                                                                : STREAM_COMMON;
    if (hip_stream_open(&h->stream, h->device, which, e)) {
        free(h);
        return -1;
    }
    if (hip_waiting_open(h, e) || hip_scratch_open(h, e) || h->failed.msg[0]) {
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
             "%s%s%s (%s, kernels for %s), activations %s, variant %s, %.2f of %.2f GiB "
             "allocated%s",
             d->name, d->arch[0] ? ", " : "", d->arch, d->library->path, d->image,
             act_formats[h->config.act].name, h->pinned >= 0 ? hip_kernels[h->pinned].name : "auto",
             (double)h->bytes / (1 << 30), (double)d->memory / (1 << 30), hip_link_text(h));
    return h->description;
}

const char *hip_device_name(const struct be *be) { return ((const struct hip *)be)->device->name; }

static size_t change_ints(const struct batch *b)
{
    return (size_t)b->n_changes * (sizeof *b->change / sizeof(int32_t));
}

/* The changes come last: how many there are is no matter of the shape. Returns their size. */
static size_t fill_changes(struct hip *h, const struct batch *b, size_t at)
{
    size_t n = change_ints(b);
    if (n) memcpy(h->batch_copy + at, b->change, n * sizeof(int32_t));
    h->shape.d_change = (struct sample_change_of *)(void *)(h->d_batch + at);
    return n;
}

/* Where sequences have rows of drafts, the numbers of rows whose tokens are drawn differ from step
 * to step. More are launched: zeros, by which nothing is drawn. */
static int n_samples_of(const struct hip_shape *s, const struct batch *b)
{
    const int up = hip_round_up(b->n_samples, 2), all = b->n_logits;
    return s->single_rows || all < b->n_samples ? b->n_samples : up < all ? up : all;
}

/* Returns their size. */
static size_t fill_samples(struct hip *h, const struct batch *b)
{
    struct sample_draw *to = (struct sample_draw *)(void *)h->batch_copy;
    const size_t n = (size_t)b->n_samples, all = (size_t)h->shape.n_samples;
    if (n) memcpy(to, b->sample, n * sizeof *to);
    memset(to + n, 0, (all - n) * sizeof *to);
    h->shape.d_sample = (const struct sample_draw *)(const void *)h->d_batch;
    return all * (sizeof *to / sizeof(int32_t));
}

static void set_counts(struct hip_shape *s, const struct batch *b)
{
    memset(s, 0, sizeof *s);
    s->n_rows = b->n_rows;
    s->n_decode = b->n_decode;
    s->n_logits = b->n_logits;
    s->n_decode_logits = b->n_decode_logits;
    s->single_rows = hip_single_rows(b);
    s->n_top = b->n_top;
    s->n_samples = n_samples_of(s, b);
    s->n_scores = b->n_scores;
    s->has_changes = b->n_changes > 0 || b->masks;
    s->d_masks = b->masks;
    s->n_seqs = b->n_seqs;
    s->table_stride = b->table_stride;
}

/* All arrays of the batch in one copy. */
static void hip_begin_step(struct be *be, const struct batch *b)
{
    struct hip *h = (struct hip *)be;
    struct hip_shape *s = &h->shape;
    const int32_t *d_score;
    CHECK(b->n_rows <= h->config.max_rows);
    hip_use(h);
    if (h->failed.msg[0]) return;
    set_counts(s, b);
    s->n_splits = hip_kv_splits(b);
    const struct {
        const void *src;
        const int32_t **d;
        size_t n;
    } part[] = {
        {b->score, &d_score, (size_t)b->n_scores * (sizeof *b->score / sizeof(int32_t))},
        {b->token, &s->d_token, (size_t)b->n_rows},
        {b->pos, &s->d_pos, (size_t)b->n_rows},
        {b->seq, &s->d_seq, (size_t)b->n_rows},
        {b->slot, &s->d_slot, (size_t)b->n_rows},
        {b->logit_row, &s->d_logit_row, (size_t)b->n_logits},
        {b->top_row, &s->d_top_row, (size_t)b->n_top},
        {b->seq_start, &s->d_seq_start, (size_t)b->n_seqs + 1},
        {b->state_from, &s->d_state_from, (size_t)b->n_seqs},
        {b->state_to, &s->d_state_to, (size_t)b->n_seqs},
        {b->block_table, &s->d_table, (size_t)b->n_seqs * (size_t)b->table_stride},
    };
    size_t n = hip_most_tiles(b->n_rows, b->n_seqs) + (size_t)b->n_decode * (size_t)s->n_splits +
               hip_open_ints(&h->config) + KEPT_INTS * (size_t)b->n_seqs + change_ints(b) +
               (size_t)s->n_samples * (sizeof *b->sample / sizeof(int32_t));
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) n += part[i].n;
    CHECK(n <= hip_batch_ints(&h->config));
    n = fill_samples(h, b);
    for (size_t i = 0; i < sizeof part / sizeof *part; n += part[i++].n) {
        if (part[i].n && part[i].src)
            memcpy(h->batch_copy + n, part[i].src, part[i].n * sizeof(int32_t));
        *part[i].d = h->d_batch + n;
    }
    s->d_score = (const struct score_row *)(const void *)d_score;
    s->n_tiles = hip_fill_tiles(h, b, h->batch_copy + n);
    s->d_tiles = h->d_batch + n;
    n += 2 * TILE_GROUPS * (size_t)s->n_tiles;
    s->d_work = h->d_batch + n;
    n += (size_t)hip_fill_work(h, b, h->batch_copy + n);
    n += hip_fill_open(h, b, h->batch_copy + n, h->d_batch + n);
    n += hip_fill_kept(h, b, h->batch_copy + n, h->d_batch + n);
    n += fill_changes(h, b, n);
    hip_upload(be, h->d_batch, h->batch_copy, n * sizeof(int32_t));
}

const char *hip_image_name(int i) { return hip_images[i].arch; }

int hip_probe(const char *library, int device, struct err *e)
{
    char own[HIP_OPTIONS_BYTES];
    hip_options_write(&(struct hip_options){.library = library}, own, sizeof own);
    struct hip h = {.config = {.own = own, .device = device}};
    return open_device(&h, e);
}

enum act hip_best_act(const char *library, int device, const char *variant)
{
    const struct hip_library *l;
    struct hip_device *d;
    struct err why;
    if ((variant && strcmp(variant, "auto")) || hip_library_open(&l, library, &why) || l->is_cuda ||
        hip_device_open(&d, l, device, 0, &why)) /* compiles nothing */
        return ACT_F16;
    return hip_image_family(d->image ? d->image : d->arch) == IMAGES_GFX906 ? ACT_I16 : ACT_F16;
}

int hip_count_devices(const char *library, int *n, struct err *e)
{
    const struct hip_library *l;
    return hip_library_open(&l, library, e) ? -1 : hip_device_count(l, n, e);
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
               d->image ? d->image : "", l->path);
    }
    if (!n) return err_set(e, "%s: there is no device", l->path);
    return 0;
}

const struct backend backend_hip = {
    .name = "hip",
    .kinds = (1u << OP_KINDS) - 1,
    .kv_types = 1u << KV_F16 | 1u << KV_F32 | 1u << KV_INT8 | 1u << KV_INT4,
    .asynchronous = 1,
    .keeps_drafts = 2,
    .phases = 1,
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
    .pack_away = hip_pack_away,
    .fetch = hip_fetch,
    .await = hip_await,
    .kv_page_bytes = hip_kv_page_bytes,
    .link = hip_link,
    .link_bytes = hip_link_bytes,
    .compile = hip_step_compile,
    .drop_plan = hip_step_drop,
    .begin_step = hip_begin_step,
    .run = hip_step_run,
    .end_step = hip_end_step,
    .wait_step = hip_wait_step,
    .step_done = hip_step_done,
    .sync = hip_sync,
    .gptq = &hip_gptq_ops,
};
