#include "engine/placement.h"

#include "core/base/memory.h"
#include "core/run/place.h"
#include "core/sched/scheduler.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)ENGINE_DEVICES <= (int)PLACES, "every device has a place");

enum { GPU, HOST, N_PLACES };
enum { NOT_GIVEN = -1, ALL = INT_MAX };

/* What the options say, as numbers. */
struct wish {
    int gpu_layers;  /* whole layers on the GPU */
    int gpu_experts; /* layers with experts whose experts are there */
    int cpu_experts; /* layers from the first whose experts are on the CPU */
    uint64_t memory; /* 0: not given */
};

/* ---- options */

static int read_count(const char *text, int *n)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || v > 1 << 24) return -1;
    *n = (int)v;
    return 0;
}

static int read_wish(const struct engine_options *o, struct wish *w, struct err *e)
{
    const char *layers = o->gpu_layers ? o->gpu_layers : "auto",
               *experts = o->experts_on ? o->experts_on : "auto";
    *w = (struct wish){NOT_GIVEN, NOT_GIVEN, NOT_GIVEN, 0};
    if (!strcmp(layers, "all")) w->gpu_layers = ALL;
    else if (strcmp(layers, "auto") && strcmp(layers, "-1") && read_count(layers, &w->gpu_layers))
        return err_set(e, "--gpu-layers %s: is no number of layers, all or auto", layers);
    if (!strcmp(experts, "gpu")) w->gpu_experts = ALL;
    else if (!strcmp(experts, "cpu")) w->gpu_experts = 0;
    else if (strcmp(experts, "auto") &&
             (strncmp(experts, "gpu:", 4) || read_count(experts + 4, &w->gpu_experts)))
        return err_set(e, "--experts-on %s: is none of auto, gpu, cpu, gpu:N", experts);
    if (o->n_cpu_moe) w->cpu_experts = o->n_cpu_moe;
    if (o->cpu_moe) w->cpu_experts = ALL;
    if (w->cpu_experts >= 0 && w->gpu_experts >= 0)
        return err_set(e, "%s and --experts-on %s exclude each other",
                       o->cpu_moe ? "--cpu-moe" : "--n-cpu-moe", experts);
    return o->gpu_memory && memory_parse(&w->memory, o->gpu_memory, e)
               ? err_prefix(e, "--gpu-memory %s", o->gpu_memory)
               : 0;
}

static struct wish wish_of(const struct engine_options *o)
{
    struct wish w;
    struct err e;
    CHECK(!read_wish(o, &w, &e));
    return w;
}

int placement_check(const struct engine_options *o, struct err *e)
{
    struct wish w;
    if (read_wish(o, &w, e)) return -1;
    const int asks = placement_asks(o);
    if (asks == PLACEMENT_GPU && !strcmp(o->backend, "cpu"))
        return err_set(e, "--gpu-layers, --experts-on, --n-cpu-moe, --cpu-moe and --gpu-memory say "
                          "what a GPU computes: not with --backend cpu");
    if (asks == PLACEMENT_CPU && !strcmp(o->backend, "hip"))
        return err_set(e, "--gpu-layers 0: the CPU computes everything: not with --backend gpu");
    if (w.memory && o->memory)
        return err_set(e, "--gpu-memory and --mem exclude each other: both are the GPU's memory");
    return 0;
}

enum placement_asks placement_asks(const struct engine_options *o)
{
    const struct wish w = wish_of(o);
    if (!w.gpu_layers) return PLACEMENT_CPU;
    return w.gpu_layers > 0 || w.gpu_experts >= 0 || w.cpu_experts >= 0 || w.memory
               ? PLACEMENT_GPU
               : PLACEMENT_NOTHING;
}

uint64_t placement_gpu_memory(const struct engine_options *o) { return wish_of(o).memory; }

/* ---- lists of layers */

static int has_experts(const struct model *m, int layer)
{
    for (int i = 0; i < m->plan.n_ops; i++)
        if (m->plan.op[i].kind == OP_EXPERTS && m->plan.op[i].layer == layer &&
            m->plan.op[i].in[1] >= 0)
            return 1;
    return 0;
}

void placement_set(struct placement *p, const struct model *m, int n, int k)
{
    uint8_t *layer = p->lists, *experts = layer + p->n_layers;
    p->n_gpu_layers = p->n_gpu_experts = 0;
    for (int l = p->n_layers - 1; l >= 0; l--) {
        int on_gpu = p->n_layers - l <= n, with = on_gpu && has_experts(m, l);
        layer[l] = on_gpu ? GPU : HOST;
        experts[l] = with ? (p->n_gpu_experts < k ? GPU : HOST) : layer[l];
        p->n_gpu_layers += on_gpu;
        p->n_gpu_experts += with && experts[l] == GPU;
    }
    p->want = (struct split_want){.rule = SPLIT_LAYERS,
                                  .n_places = N_PLACES,
                                  .streams = p->may_stream && p->n_gpu_layers == p->n_layers &&
                                             p->n_gpu_experts < p->n_experts,
                                  .of_layer = layer,
                                  .of_experts = experts};
}

/* Layers with experts from layer `first` on. */
static int count_experts(const struct placement *p, const struct model *m, int first)
{
    int n = 0;
    for (int l = first; l < p->n_layers; l++) n += has_experts(m, l);
    return n;
}

static int is_whole(const struct placement *p)
{
    return p->n_gpu_layers == p->n_layers && p->n_gpu_experts == p->n_experts;
}

/* ---- what fits */

int placement_need(struct placement *p, const struct model *m, const struct forward_options *f,
                   struct err *e)
{
    uint64_t page = 0, state = 0;
    if (p->n == 1) forward_need(m, p->entry[GPU]->ops, f, &p->need[GPU]);
    else if (forward_need_places(m, p->place, &p->want, f, p->need, e)) return -1;
    for (int q = 0; q < p->n; q++) page += p->need[q].page, state += p->need[q].state;
    if (p->has_store) p->need[GPU].steps += sched_store_bytes(page, state);
    return 0;
}

static int fits(const struct forward_need *n, const struct placement_room *room, int pages)
{
    return n->weights + n->steps + n->state * (uint64_t)room->n_states +
               n->page * (uint64_t)pages <=
           room->bytes;
}

int placement_fits(const struct placement *p, const struct placement_room *room)
{
    return !room->bytes || fits(&p->need[GPU], room, room->least_pages);
}

/* A search for the most that fits: n layers, the experts of k, so many pages. */
struct search {
    struct placement *p;
    const struct model *m;
    const struct forward_options *f;
    const struct placement_room *room;
    int n, k, pages;
};

/* Sets the lists as the search has them; whether that fits. -1: failed. */
static int try_it(const struct search *s, struct err *e)
{
    placement_set(s->p, s->m, s->n, s->k);
    return placement_need(s->p, s->m, s->f, e) ? -1 : fits(&s->p->need[GPU], s->room, s->pages);
}

/* The largest value from 0 to `most` of *number, n or k of the search, that fits; -1: none. */
static int largest(struct search *s, int *number, int most, struct err *e)
{
    int low = -1, high = most + 1;
    while (high - low > 1) {
        *number = low + (high - low) / 2;
        int rc = try_it(s, e);
        if (rc < 0) return -1;
        if (rc) low = *number;
        else high = *number;
    }
    *number = low;
    return 0;
}

/* Pages of keys and values come before experts: as many as a quarter of the memory holds. */
static int pages_first(const struct placement *p, const struct placement_room *room)
{
    uint64_t page = p->need[GPU].page, n = page ? room->bytes / 4 / page : 0;
    if (n > (uint64_t)room->most_pages) n = (uint64_t)room->most_pages;
    return n > (uint64_t)room->least_pages ? (int)n : room->least_pages;
}

/* All layers with the experts of as many as fit, else as many whole layers, their experts on the
 * CPU. *found 0: not even one. */
static int fill(struct search *s, int *found, struct err *e)
{
    struct placement *p = s->p;
    s->n = p->n_layers;
    s->k = 0;
    s->pages = pages_first(p, s->room);
    *found = 1;
    if (p->n_experts && largest(s, &s->k, p->n_experts, e)) return -1;
    if (s->k < 0) s->k = 0, s->pages = s->room->least_pages;
    int rc = try_it(s, e);
    if (rc) return rc < 0 ? -1 : 0;
    s->pages = s->room->least_pages;
    if (largest(s, &s->n, p->n_layers, e)) return -1;
    *found = s->n > 0;
    return *found && try_it(s, e) < 0 ? -1 : 0;
}

/* Whether experts that come to the GPU for prompts have room there, beside others that take three
 * times as much at least, and in the host's memory a second time; 1 also where none come. */
static int streams_fit(const struct placement *p, const struct placement_room *room)
{
    if (p->n == 1 || !p->want.streams) return 1;
    return p->need[GPU].away <= memory_available() / 2 && placement_fits(p, room) &&
           (!room->bytes || p->need[GPU].slots <= room->bytes / 4);
}

/* ---- opening */

static void add_host(struct placement *p, const struct engine_options *o)
{
    const struct backend_entry *cpu = backend_find("cpu");
    p->n = N_PLACES;
    p->entry[HOST] = cpu;
    /* integers of 15 bits have no larger error than fp16, and are what the CPU is fastest with */
    p->place[HOST] =
        (struct forward_place){.ops = cpu->ops,
                               .variant = backend_variant(cpu, o),
                               .n_threads = o->threads,
                               .act = p->place[GPU].act == ACT_F16 ? ACT_I16 : p->place[GPU].act};
}

static void alone(struct placement *p)
{
    p->n = 1;
    p->n_gpu_layers = p->n_layers;
    p->n_gpu_experts = p->n_experts;
}

/* As the options say it. */
static int follow(struct placement *p, const struct wish *w, const struct model *m,
                  const struct forward_options *f, struct err *e)
{
    int n = w->gpu_layers < 0 || w->gpu_layers > p->n_layers ? p->n_layers : w->gpu_layers,
        k = p->n_experts;
    if ((w->gpu_experts >= 0 || w->cpu_experts >= 0) && !p->n_experts)
        return err_set(e, "--experts-on, --n-cpu-moe, --cpu-moe: the model has no experts");
    if (w->gpu_experts >= 0 && w->gpu_experts < k) k = w->gpu_experts;
    if (w->cpu_experts >= 0)
        k = count_experts(p, m, w->cpu_experts < p->n_layers ? w->cpu_experts : p->n_layers);
    placement_set(p, m, n, k);
    if (is_whole(p)) alone(p);
    return placement_need(p, m, f, e);
}

int placement_open(struct placement *p, const struct engine_options *o, const struct model *m,
                   const struct backend_entry *entry, const struct forward_options *f,
                   const struct placement_room *room, struct err *e)
{
    const struct wish w = wish_of(o);
    const int is_told = w.gpu_layers >= 0 || w.gpu_experts >= 0 || w.cpu_experts >= 0;
    memset(p, 0, sizeof *p);
    p->entry[GPU] = entry;
    p->place[GPU] = (struct forward_place){entry->ops,   f->variant, f->own,
                                           f->n_threads, f->device,  f->act};
    p->has_store = o->prefix_dir != NULL;
    p->n_layers = m->config.n_layers;
    p->n_experts = count_experts(p, m, 0);
    alone(p);
    if (placement_need(p, m, f, e)) return -1;
    if (!entry->probe || (!is_told && (o->memory || !room->bytes))) return 0;
    if (!is_told && placement_fits(p, room)) return 0;
    if (placement_add_host(p, o, m, e)) return -1;
    if (is_told) {
        if (follow(p, &w, m, f, e)) return -1;
        if (streams_fit(p, room)) return 0;
        p->may_stream = 0;
        return follow(p, &w, m, f, e);
    }
    struct search s = {.p = p, .m = m, .f = f, .room = room};
    int found;
    if (fill(&s, &found, e)) return -1;
    if (p->may_stream && (!found || !streams_fit(p, room))) {
        p->may_stream = 0;
        if (fill(&s, &found, e)) return -1;
    }
    if (found && !is_whole(p)) return 0;
    alone(p);
    return placement_need(p, m, f, e);
}

/* Gives each place as many layers as it has `room` for, place 0 first, which begins with `head`.
 * Whether that is all of them. */
static int deal_layers(const double *layer, int n_layers, double head, double room, int n,
                       int first_layer[PLACES])
{
    double used = head;
    int q = 0, first = 0;
    for (int l = 0; l < n_layers; l++) {
        const int must = n_layers - l == n - 1 - q; /* every place has one at least */
        if (l > first && q + 1 < n && (must || used + layer[l] > room)) {
            first_layer[++q] = first = l;
            used = 0;
        }
        used += layer[l];
        if (used > room * (1 + 1e-9) && l > first) return 0;
    }
    return q == n - 1;
}

int placement_share_layers(const struct model *m, int n, int first_layer[PLACES], struct err *e)
{
    const struct step_plan *p = &m->plan;
    double *layer = calloc((size_t)m->config.n_layers + 1, sizeof *layer), head = 0, all = 0;
    if (!layer) return err_memory(e);
    for (int i = 0; i < p->n_ops; i++) {
        const double bytes = (double)place_op_reads(p, &p->op[i], FORWARD_MANY);
        if (p->op[i].layer >= 0 && p->op[i].layer < m->config.n_layers)
            layer[p->op[i].layer] += bytes;
        else head += bytes / 2; /* of prompts it computes the last row alone */
        all += bytes;
    }
    double low = 0, high = all;
    first_layer[0] = 0;
    for (int i = 0; i < 40; i++) { /* the least that the busiest place reads */
        const double room = (low + high) / 2;
        if (deal_layers(layer, m->config.n_layers, head, room, n, first_layer)) high = room;
        else low = room;
    }
    const int found = deal_layers(layer, m->config.n_layers, head, high, n, first_layer);
    for (int q = 0; q < n && !found; q++) first_layer[q] = q * m->config.n_layers / n;
    free(layer);
    return 0;
}

int placement_open_gpus(struct placement *p, const struct engine_options *o, const struct model *m,
                        const struct backend_entry *entry, const struct forward_options *f,
                        enum parallel mode, struct err *e)
{
    memset(p, 0, sizeof *p);
    p->has_store = o->prefix_dir != NULL;
    p->n_layers = p->n_gpu_layers = m->config.n_layers;
    p->n_experts = p->n_gpu_experts = count_experts(p, m, 0);
    p->has_gpus = 1;
    p->n = o->n_devices;
    if (mode == PARALLEL_LAYERS && p->n > p->n_layers)
        return err_set(e, "--parallel-mode layers: %d devices for %d layers", p->n, p->n_layers);
    p->want = (struct split_want){.rule = mode == PARALLEL_LAYERS ? SPLIT_LAYERS : SPLIT_OUTPUTS,
                                  .n_places = p->n};
    for (int q = 0; q < p->n; q++) {
        p->entry[q] = entry;
        p->place[q] = (struct forward_place){entry->ops,   f->variant,      f->own,
                                             f->n_threads, o->device_at[q], f->act};
    }
    if (mode == PARALLEL_LAYERS && placement_share_layers(m, p->n, p->want.first_layer, e))
        return -1;
    return placement_need(p, m, f, e);
}

int placement_gains(const struct placement *p, const struct engine_options *o)
{
    /* bytes a second of a single row, and what two GPUs lose to exchanges in a layer, in seconds:
     * from docs/devices.md, one sequence of Llama-2-7B and 70B */
    static const double rate = 2e12, exchanges = 4e-5;
    double read = (double)p->need[GPU].read[0];
    return read * (1 - 1.0 / o->n_devices) / rate > exchanges * p->n_layers;
}

int placement_add_host(struct placement *p, const struct engine_options *o, const struct model *m,
                       struct err *e)
{
    if (!(p->lists = calloc(2, (size_t)p->n_layers + 1))) return err_memory(e);
    add_host(p, o);
    p->may_stream = placement_is_exact(p) && p->entry[GPU]->ops->pack_away;
    placement_set(p, m, p->n_layers, p->n_experts);
    return 0;
}

void placement_close(struct placement *p)
{
    free(p->lists);
    memset(p, 0, sizeof *p);
}

/* Where sums are not exact, answers depend on the GPU. */
static int check_alike(const struct placement *p, const struct forward *f, struct err *e)
{
    char first[64], other[64];
    if (!p->has_gpus || placement_is_exact(p)) return 0;
    p->entry[0]->identify(forward_be(f, 0), first, sizeof first);
    for (int q = 1; q < p->n; q++) {
        p->entry[q]->identify(forward_be(f, q), other, sizeof other);
        if (devices_are_alike(act_formats[p->place[q].act].name, first, other, e)) return -1;
    }
    return 0;
}

int placement_open_forward(const struct placement *p, struct forward *f, const struct model *m,
                           const struct forward_options *o, struct err *e)
{
    if (p->n == 1) return forward_open(f, m, p->entry[GPU]->ops, o, e);
    if (forward_open_places(f, m, p->place, &p->want, o, e)) return -1;
    if (!check_alike(p, f, e)) return 0;
    forward_close(f);
    return -1;
}

/* ---- what is said */

int placement_is_exact(const struct placement *p)
{
    int exact = 1;
    for (int q = 0; q < p->n; q++) {
        const struct backend_entry *b = p->entry[q];
        exact = exact && b->is_exact && b->is_exact(p->place[q].act, p->place[q].variant);
    }
    return exact;
}

int placement_has_phases(const struct placement *p)
{
    int phases = 0;
    for (int q = 0; q < p->n; q++) phases |= p->entry[q]->ops->phases;
    return phases;
}

void placement_identify(const struct placement *p, const struct forward *f, char *out, size_t cap)
{
    p->entry[GPU]->identify(forward_be(f, GPU), out, cap);
    if (p->n == 1 || p->has_gpus) return; /* several GPUs have the bits of one */
    char host[64];
    p->entry[HOST]->identify(forward_be(f, HOST), host, sizeof host);
    size_t n = strlen(out);
    snprintf(out + n, cap - n, " (%d of %d layers, experts of %d) and %s", p->n_gpu_layers,
             p->n_layers, p->n_gpu_experts, host);
}

void placement_describe(const struct forward *f, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = 0;
    for (int q = 0; q < forward_n_places(f); q++) {
        const struct be *be = forward_be(f, q);
        int n = snprintf(out + at, cap - at, "%s%s", q ? "; " : "", be->ops->describe(be));
        at += n < 0 ? 0 : (size_t)n < cap - at ? (size_t)n : cap - at - 1;
    }
}
