#include "backend-hip/hip_scratch.h"

#include "backend-hip/hip_choose.h"
#include "backend-hip/hip_experts.h"
#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_open.h"
#include "backend-hip/hip_splits.h"

#include <stdlib.h>
#include <string.h>

/* The arrays of a step: samples, scores, token, pos, seq, slot, logit_row, top_row, seq_start,
 * state_from, state_to, block table, tiles, work, open pages, kept rows, changes. */
size_t hip_batch_ints(const struct be_config *c)
{
    const size_t of_row = 6 + (sizeof(struct batch_sample) + sizeof(struct batch_score)) /
                                  sizeof(int32_t);
    return of_row * (size_t)c->max_rows + (3 + KEPT_INTS) * (size_t)c->max_seqs + 1 +
           (size_t)c->max_seqs * (size_t)c->max_pages + hip_most_tiles(c->max_rows, c->max_seqs) +
           (size_t)c->max_rows * (size_t)hip_max_splits(c) + hip_open_ints(c) +
           BATCH_CHANGES * (sizeof(struct batch_change) / sizeof(int32_t));
}

/* The sizes that determine scratch memory, each the maximum over all plans. */
struct scratch_need {
    int k, heads;
    size_t split_floats;
};

static struct scratch_need need_of(const struct step_plan *p)
{
    struct scratch_need n = {step_plan_max_k(p), 0, 0};
    for (int i = 0; i < p->n_ops; i++) {
        if (p->op[i].kind != OP_ATTEND) continue;
        const struct heads *g = &p->op[i].as.attend.heads;
        if (g->n_heads > n.heads) n.heads = g->n_heads;
        if (hip_split_floats(g) > n.split_floats) n.split_floats = hip_split_floats(g);
    }
    return n;
}

/* Bytes of packed inputs: three parts, or two phases with a partial tile each, in three parts. */
static size_t packed_size(const struct be_config *c, int max_k)
{
    size_t k = ((size_t)max_k + 4 * CHUNK - 1) / (4 * CHUNK) * (4 * CHUNK);
    return 3 * ((size_t)c->max_rows + MAX_TILE_ROWS) * k * 2;
}

enum { N_SCRATCH = 6, DEALT_FROM = 65 /* rows */ };

/* 1: kernels of this image deal eighths of tiles. */
static int deals(const char *image)
{
    int family = image ? hip_image_family(image) : 0;
    for (int k = 0; k < K_COUNT; k++)
        if (hip_kernels[k].dealt && hip_kernels[k].images & family) return 1;
    return 0;
}

/* The image that the device of a backend to be opened takes, or NULL. */
static const char *image_of(const struct be_config *c)
{
    const struct hip_library *l;
    struct hip_options o;
    struct hip_device *d;
    struct err why;
    if (hip_options_read(&o, c->own, &why) || hip_library_open(&l, o.library, &why) ||
        hip_device_open(&d, l, c->device, 0, &why)) /* compiles nothing */
        return NULL;
    return d->image;
}

/* Scratch memory that does not depend on plans, on a device that takes IMAGE. */
static void scratch_sizes(const struct be_config *c, const char *image, size_t bytes[N_SCRATCH])
{
    size_t rows = (size_t)c->max_rows;
    size_t spans = rows * ARGMAX_SPANS_OF_MANY + ARGMAX_FEW_ROWS * ARGMAX_SPANS;
    const size_t sizes[N_SCRATCH] = {
        rows * 4,
        STAGE_BYTES,
        hip_batch_ints(c) * 4,
        spans * sizeof(struct largest),
        c->act == ACT_F16 && c->max_rows >= DEALT_FROM && deals(image) ? DEALT_BYTES : 0,
        (rows < SAMPLE_FEW ? rows : SAMPLE_FEW) * sizeof(struct sample_slot)};
    memcpy(bytes, sizes, sizeof sizes);
}

uint64_t hip_scratch_bytes(const struct be_config *c, const struct step_plan *p)
{
    size_t bytes[N_SCRATCH];
    struct scratch_need n = need_of(p);
    uint64_t sum = packed_size(c, n.k) + 4 * hip_part_floats(c, n.split_floats);
    size_t experts[EXPERTS_SCRATCH];
    hip_experts_need(c, p, experts);
    for (int i = 0; i < EXPERTS_SCRATCH; i++) sum += experts[i];
    sum += hip_open_set_bytes(c, p) * (size_t)p->n_step_sets + hip_heads_bytes(c, p) +
           hip_choose_bytes(c, p);
    scratch_sizes(c, image_of(c), bytes);
    for (int i = 0; i < N_SCRATCH; i++) sum += bytes[i];
    return sum;
}

static int no_room(const struct hip *h, size_t bytes, struct err *e)
{
    if (h->failed.msg[0]) {
        *e = h->failed;
        return -1;
    }
    return err_set(e, "out of memory on %s: no room for %.1f MiB of scratch", h->device->name,
                   (double)bytes / (1 << 20));
}

/* Replaces *d by a larger block. */
static int regrow(struct hip *h, void **d, size_t bytes, struct err *e)
{
    hip_free(&h->be, *d);
    *d = hip_alloc(&h->be, bytes);
    return *d ? 0 : no_room(h, bytes, e);
}

int hip_reserve(struct hip *h, const struct step_plan *p, struct err *e)
{
    struct scratch_need n = need_of(p);
    if (hip_reserve_heads(h, p, e)) return -1;
    if (n.heads > h->most_heads) h->most_heads = n.heads;
    if (n.k > h->max_k) {
        if (regrow(h, &h->d_packed, packed_size(&h->config, n.k), e)) return -1;
        h->max_k = n.k;
    }
    if (n.split_floats > h->split_floats) {
        size_t floats = hip_part_floats(&h->config, n.split_floats);
        if (regrow(h, (void **)&h->d_parts, floats * sizeof(float), e)) return -1;
        h->split_floats = n.split_floats;
    }
    size_t open = hip_open_set_bytes(&h->config, p) * (size_t)p->n_step_sets;
    if (open > h->step_bytes) {
        h->step_bytes = 0;
        if (regrow(h, &h->d_step_pages, open, e)) return -1;
        h->step_bytes = open;
    }
    size_t scores = hip_choose_bytes(&h->config, p);
    if (scores > h->score_bytes) {
        h->score_bytes = 0;
        if (regrow(h, (void **)&h->d_scores, scores, e)) return -1;
        h->score_bytes = scores;
    }
    void **const d[EXPERTS_SCRATCH] = {&h->experts.d_packed, (void **)&h->experts.d_scale,
                                       (void **)&h->experts.d_groups};
    size_t need[EXPERTS_SCRATCH];
    hip_experts_need(&h->config, p, need);
    for (int i = 0; i < EXPERTS_SCRATCH; i++) {
        if (need[i] <= h->experts.bytes[i]) continue;
        h->experts.bytes[i] = 0;
        if (regrow(h, d[i], need[i], e)) return -1;
        h->experts.bytes[i] = need[i];
    }
    return 0;
}

int hip_scratch_open(struct hip *h, struct err *e)
{
    const struct be_config *c = &h->config;
    void **const d[N_SCRATCH] = {(void **)&h->d_scale,   &h->d_stage, (void **)&h->d_batch,
                                 (void **)&h->d_largest, &h->d_heads, (void **)&h->d_slots};
    size_t bytes[N_SCRATCH];
    scratch_sizes(c, h->device->image, bytes);
    for (int i = 0; i < N_SCRATCH; i++)
        if (bytes[i] && !(*d[i] = hip_alloc(&h->be, bytes[i]))) return no_room(h, bytes[i], e);
    h->batch_copy = malloc(hip_batch_ints(c) * sizeof *h->batch_copy);
    h->kept_half = calloc((size_t)c->max_seqs, sizeof *h->kept_half);
    return h->batch_copy && h->kept_half ? 0 : err_memory(e);
}

void hip_scratch_close(struct hip *h)
{
    const struct hip_experts *x = &h->experts;
    void *const d[] = {h->d_batch,  h->d_parts,      h->d_packed, h->d_scale, h->d_sums,
                       h->d_stage,  h->d_largest,    x->d_packed, h->d_heads, x->d_scale,
                       x->d_groups, h->d_step_pages, x->d_heads,  h->d_slots, h->d_scores};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) hip_free(&h->be, d[i]);
    free(h->batch_copy);
    free(h->kept_half);
}
