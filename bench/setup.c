#include "bench/setup.h"

#include "core/base/memory.h"
#include "core/run/parts.h"

#include "backend-cpu/cpu.h"
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "core/base/pool.h"
#include "core/run/places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int setup_pages(int n_seqs, int positions) { return n_seqs * kv_pages(positions); }

/* Each byte 0x2c: about 0.065 as fp16, 2e-12 as fp32; no operation is slower or faster for it. */
int setup_fill_kv(struct forward *f, struct err *e)
{
    size_t page = part_bytes(f, PART_PAGE);
    char *fill = malloc(page);
    if (!fill) return err_memory(e);
    memset(fill, 0x2c, page);
    for (int p = 0; p < f->options.n_pages; p++) part_load(f, PART_PAGE, p, fill);
    free(fill);
    return part_sync(f, e);
}

struct setup *setup_microbatch(struct setup *r, int i) { return i ? &r->microbatch[i - 1] : r; }

/* Layers in equal shares, or every linear. */
static int open_gpus(struct setup *r, const struct model *m, const struct forward_options *o,
                     struct err *e)
{
    struct forward_place place[PLACES];
    const int n = r->config.n_gpus;
    struct split_want want = {.rule = r->config.by_layers ? SPLIT_LAYERS : SPLIT_OUTPUTS,
                              .n_places = n};
    for (int q = 0; q < n; q++)
        place[q] = (struct forward_place){r->config.backend, o->variant,    o->own,
                                          o->n_threads,      o->device + q, o->act};
    if (r->config.by_layers && placement_share_layers(m, n, want.first_layer, e)) return -1;
    return forward_open_places(&r->forward, m, place, &want, o, e);
}

/* The places of a run: the one backend, or a GPU and the CPU as the options say. */
static int place(struct setup *r, const struct model *m, const struct bench_options *b,
                 const struct forward_options *o, struct err *e)
{
    const struct backend_entry *entry = backend_find(b->backend);
    const uint64_t limit = placement_gpu_memory(&b->engine);
    struct placement_room room = {
        .least_pages = o->n_pages, .most_pages = o->n_pages, .n_states = forward_n_states(o)};
    if (entry->probe && forward_available(entry->ops, o, &room.bytes, e)) return -1;
    if (limit && limit < room.bytes) room.bytes = limit;
    struct engine_options own = b->engine;
    own.threads = r->config.threads;
    own.cpu = b->cpu.v[0];
    if (placement_open(&r->placement, &own, m, entry, o, &room, e)) return -1;
    if (r->placement.n > 1)
        fprintf(stderr, "%d of %d layers on the GPU, the experts of %d\n",
                r->placement.n_gpu_layers, r->placement.n_layers, r->placement.n_gpu_experts);
    return 0;
}

int setup_logits(const struct setup_size *s) { return s->max_seqs * (1 + s->drafts); }

static int open_memory(struct setup *r, struct err *e)
{
    const struct setup_size *size = &r->size;
    r->ints = calloc(batch_ints(size->max_rows, size->max_seqs, setup_logits(size), 0) +
                         2 * (size_t)size->n_pages,
                     sizeof *r->ints);
    r->spans = calloc((size_t)size->max_seqs, sizeof *r->spans);
    r->wanted = malloc((size_t)size->max_seqs);
    if (!r->ints || !r->spans || !r->wanted) return err_memory(e);
    for (int i = 0; i < size->n_pages; i++) r->ints[i] = i;
    return setup_fill_kv(&r->forward, e);
}

/* The size of each of n microbatches that share the sequences. */
static struct setup_size of_microbatch(const struct setup_size *all, int n)
{
    struct setup_size s = *all;
    s.max_seqs = (all->max_seqs + n - 1) / n;
    if (n > 1) s.n_pages = all->n_pages / n + all->seq_pages;
    return s;
}

static int open_microbatches(struct setup *r, const struct model *m, struct forward_options *o,
                             struct err *e)
{
    if (open_gpus(r, m, o, e) || open_memory(r, e)) return -1;
    if (r->n_microbatches > 1 &&
        !(r->microbatch = calloc((size_t)r->n_microbatches - 1, sizeof *r->microbatch)))
        return err_memory(e);
    for (int i = 1; i < r->n_microbatches; i++) {
        struct setup *l = setup_microbatch(r, i);
        o->lender = &r->forward;
        l->config = r->config;
        l->size = r->size;
        if (open_gpus(l, m, o, e) || open_memory(l, e)) return -1;
    }
    return 0;
}

static int setup_open(struct setup *r, const struct model *m, const struct bench_options *b,
                      const struct setup_size *all, struct err *e)
{
    r->n_microbatches = r->config.by_layers ? r->config.n_gpus : 1;
    const struct setup_size microbatch = of_microbatch(all, r->n_microbatches), *size = &microbatch;
    struct forward_options o = {.variant = r->config.cpu,
                                .n_threads = r->config.threads,
                                .numa = r->config.numa,
                                .own = r->config.own,
                                .device = r->config.device,
                                .act = r->config.act,
                                .kv = r->config.kv,
                                .n_pages = size->n_pages,
                                .max_rows = size->max_rows,
                                .max_logits = setup_logits(size),
                                .max_seqs = size->max_seqs,
                                .max_pages = size->seq_pages,
                                .n_microbatches = r->n_microbatches,
                                .drafts = size->drafts > 0,
                                .keeps_drafts = size->drafts > 0};
    r->size = *size;
    if (r->config.n_gpus > 1) return open_microbatches(r, m, &o, e);
    return place(r, m, b, &o, e) || placement_open_forward(&r->placement, &r->forward, m, &o, e) ||
                   open_memory(r, e)
               ? -1
               : 0;
}

/* Refuses KV caches and states that exceed the free memory; the kernel would kill the process. */
static int check_memory(const struct model *m, const struct setups *r,
                        const struct setup_size *size, struct err *e)
{
    double need = 0;
    uint64_t available = r->setup[0].config.backend == &backend_cpu
                             ? memory_available()
                             : 0; /* others ask for themselves */
    for (int i = 0; i < r->n; i++)
        need += (double)forward_kv_bytes(m, r->setup[i].config.backend, r->setup[i].config.kv,
                                         size->n_pages);
    for (int i = 0; i < m->plan.n_states; i++)
        need += (double)r->n * size->max_seqs * (double)m->plan.state[i].bytes;
    if (available && need > (double)available)
        return err_set(e,
                       "the KV caches%s of %d configuration%s need %.1f GiB, %.1f are free: "
                       "measure fewer, shorter or shallower at once",
                       m->plan.n_states ? " and states" : "", r->n, r->n == 1 ? "" : "s",
                       need / (1 << 30), (double)available / (1 << 30));
    return 0;
}

const char *setup_variant_name(const char *name)
{
    char note[256];
    struct err e;
    const struct cpu_kernels *k = cpu_choose(cpu_ladder, name, note, sizeof note, &e);
    return k ? k->name : NULL;
}

/* The variants that --ops times when none is named: all that this machine can run except ref and
 * scalar, which take minutes; scalar where there is no other. */
static void all_variants(struct args_texts *cpu)
{
    cpu->n = 0;
    for (int i = 0; cpu_ladder[i]; i++)
        if (cpu_ladder[i] != &cpu_ref && cpu_ladder[i] != &cpu_scalar &&
            !cpu_ladder[i]->unusable() && cpu->n < ARGS_LIST)
            snprintf(cpu->v[cpu->n++], sizeof cpu->v[0], "%s", cpu_ladder[i]->name);
    if (!cpu->n) snprintf(cpu->v[cpu->n++], sizeof cpu->v[0], "%s", cpu_scalar.name);
}

int setup_limits(struct setup *r, struct probe_limits *l, struct err *e)
{
    if (r->config.backend == &backend_cpu)
        return probe_limits_measure(l, r->config.cpu, r->config.threads, e);
    *l = (struct probe_limits){.variant = r->config.cpu, .fp32 = INFINITY, .int8 = INFINITY};
    return hip_copy_rate(r->forward.be, &l->bandwidth, e);
}

void setup_print_limits(const struct setup *r, const struct probe_limits *l)
{
    if (r->config.backend == &backend_cpu)
        printf("peaks of %s, %d thread%s: read %.1f GB/s, fp32 %.0f GFLOP/s, int8 %.0f GOP/s\n",
               l->variant, l->n_threads, l->n_threads == 1 ? "" : "s", l->bandwidth * 1e-9,
               l->fp32 * 1e-9, l->int8 * 1e-9);
    else
        printf("%s: copies %.0f GB/s, read and written; arithmetic is not probed\n",
               r->forward.be->ops->describe(r->forward.be), l->bandwidth * 1e-9);
}

/* The variants to measure. */
static struct args_texts variants_of(const struct bench_options *o, const struct backend_entry *b)
{
    struct args_texts v = *bench_options_variants(o, b);
    if (b->ops == &backend_cpu && o->given.mode == BENCH_OPS && v.is_default) all_variants(&v);
    return v;
}

/* Configuration number `i` of each variant with each number of threads, arithmetic, type of keys
 * and values and number of GPUs; the last changes fastest. */
static struct setup_config config_of(const struct bench_options *o, const struct backend_entry *b,
                                     const struct args_texts *variants, int i)
{
    int gpus = i % o->gpus.n, rest = i / o->gpus.n, kv = rest % o->kv.n,
        act = (rest /= o->kv.n) % o->act.n, t = (rest /= o->act.n) % o->threads.n,
        threads = o->threads.v[t];
    const int v = rest / o->threads.n, host = b->ops == &backend_cpu; /* variants and threads */
    return (struct setup_config){.backend = b->ops,
                                 .cpu = host ? setup_variant_name(variants->v[v])
                                             : bench_options_variants(o, b)->v[v],
                                 .threads = host && !threads ? pool_n_cores() : threads,
                                 .numa = &o->nodes,
                                 .device = o->device,
                                 .n_gpus = host ? 1 : o->gpus.v[gpus],
                                 .by_layers = !strcmp(o->parallel_mode, "layers"),
                                 .act = backend_act(o->act.v[act]),
                                 .kv = backend_kv(o->kv.v[kv])};
}

int setups_open(struct setups *r, const struct model *m, const struct bench_options *o,
                const struct setup_size *size, struct err *e)
{
    const struct backend_entry *b = backend_find(o->backend);
    const struct args_texts variants = variants_of(o, b);
    *r = (struct setups){0};
    int n = variants.n * o->threads.n * o->act.n * o->kv.n * o->gpus.n;
    r->setup = calloc((size_t)n, sizeof *r->setup);
    if (!r->setup) return err_memory(e);
    for (int i = 0; i < n; i++) {
        r->setup[r->n].config = config_of(o, b, &variants, i);
        r->setup[r->n++].config.own = backend_own_text(
            b, &(struct backend_own){o->hip_library, 0, o->query_halves, o->exchange}, r->own);
        CHECK(r->setup[i].config.cpu);
    }
    if (check_memory(m, r, size, e)) return -1;
    for (int i = 0; i < n; i++)
        if (setup_open(&r->setup[i], m, o, size, e)) return -1;
    return 0;
}

static void setup_close(struct setup *r)
{
    for (int i = 1; r->microbatch && i < r->n_microbatches; i++)
        setup_close(setup_microbatch(r, i));
    if (r->forward.be) forward_close(&r->forward);
    placement_close(&r->placement);
    free(r->microbatch);
    free(r->ints);
    free(r->spans);
    free(r->wanted);
}

void setups_close(struct setups *r)
{
    for (int i = 0; i < r->n; i++) setup_close(&r->setup[i]);
    free(r->setup);
    *r = (struct setups){0};
}

struct page_map setup_place(struct setup *r, int n_seqs)
{
    struct page_map map = {r->size.n_pages, r->size.n_pages / n_seqs, r->ints};
    if (map.stride > r->size.seq_pages) map.stride = r->size.seq_pages;
    batch_place(&r->batch, r->ints + r->size.n_pages, r->size.max_rows, n_seqs,
                setup_logits(&r->size), map.stride);
    return map;
}

void setup_batch(struct setup *r, const struct step_shape *s, enum setup_output output)
{
    int rows = s->n_seqs * s->rows, stride = setup_pages(1, s->depth + s->rows),
        vocab = r->forward.model->config.vocab;
    CHECK(rows <= r->size.max_rows && s->n_seqs <= r->size.max_seqs &&
          s->n_seqs * stride <= r->size.n_pages && stride <= r->size.seq_pages);
    struct batch *b = &r->batch;
    struct page_map map = setup_place(r, s->n_seqs);
    for (int i = 0; i < s->n_seqs; i++) r->spans[i] = (struct span){i, s->depth, s->rows};
    batch_set(b, &map, r->spans, s->n_seqs, s->decode ? rows : 0);
    for (int i = 0; i < rows; i++) b->token[i] = (5 + 7 * (s->depth + i)) % vocab;
    if (output == SETUP_NOTHING) return;
    for (int i = 0; i < s->n_seqs; i++) b->logit_row[i] = (i + 1) * s->rows - 1;
    b->n_logits = s->n_seqs;
    b->n_decode_logits = s->decode ? s->n_seqs : 0;
    if (output != SETUP_SAMPLED || r->forward.plan.top < 0) return;
    for (int i = 0; i < s->n_seqs; i++) b->top_row[i] = i;
    b->n_top = s->n_seqs;
}

void setup_begin(struct setup *r, const struct step_shape *s, enum setup_output output)
{
    setup_batch(r, s, output);
    memset(r->wanted, output == SETUP_SAMPLED && r->forward.plan.top < 0, (size_t)s->n_seqs);
    forward_begin(&r->forward, &r->batch, r->wanted);
}

int setup_step(struct setup *r, const struct step_shape *s, enum setup_output output, struct err *e)
{
    setup_begin(r, s, output);
    return forward_end(&r->forward, e);
}
