/* cpu_open.c: the open pages of KV_INT4 (core/step/kv_open.h) on the CPU: step pages, and packing
 * of the pages that a step fills. Must not know: what attention does with them. */
#include "backend-cpu/cpu_internal.h"
#include "backend-cpu/packed.h"
#include "core/step/kv_open.h"

#include <stdlib.h>

/* A page that a step fills. */
struct full_page {
    int seq, page;
};

struct open_pages {
    size_t page_bytes; /* largest open page of a cache */
    int n_sets, n_step_pages;
    char *step_pages;       /* [n_sets][n_step_pages] pages of page_bytes */
    int32_t *first;         /* [max_seqs] number of a sequence's first step page */
    struct full_page *full; /* [n_full] of this step, at most n_step_pages + max_seqs */
    int n_full;
};

static size_t largest(enum kv_type t, const struct step_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->n_kv; i++)
        if (kv_open_bytes(t, &p->kv[i]) > most) most = kv_open_bytes(t, &p->kv[i]);
    return most;
}

uint64_t cpu_open_bytes(const struct be_config *g, const struct step_plan *p)
{
    return (uint64_t)kv_most_step_pages(g->max_rows, g->max_seqs) * (uint64_t)p->n_step_sets *
           largest(g->kv, p);
}

void cpu_open_free(struct cpu *c)
{
    if (!c->open) return;
    c->be.ops->free(&c->be, c->open->step_pages);
    free(c->open->first);
    free(c->open->full);
    free(c->open);
    c->open = NULL;
}

int cpu_open_grow(struct cpu *c, const struct step_plan *p, struct err *e)
{
    struct open_pages *o = c->open;
    size_t bytes = largest(c->config.kv, p);
    if (!kv_has_open(c->config.kv) || (o && bytes <= o->page_bytes && p->n_step_sets <= o->n_sets))
        return 0;
    int n_sets = o && o->n_sets > p->n_step_sets ? o->n_sets : p->n_step_sets,
        n = kv_most_step_pages(c->config.max_rows, c->config.max_seqs);
    if (o && o->page_bytes > bytes) bytes = o->page_bytes;
    cpu_open_free(c);
    o = c->open = calloc(1, sizeof *o);
    if (!o) return err_memory(e);
    *o = (struct open_pages){.page_bytes = bytes, .n_sets = n_sets, .n_step_pages = n};
    size_t seqs = (size_t)c->config.max_seqs, pages = (size_t)n + seqs;
    o->step_pages = c->be.ops->alloc(&c->be, (size_t)n_sets * (size_t)n * bytes + 1);
    o->first = calloc(seqs + 1, sizeof *o->first);
    o->full = calloc(pages + 1, sizeof *o->full);
    if (o->step_pages && o->first && o->full) return 0;
    cpu_open_free(c);
    return err_memory_for(e, "out of memory for the open pages of a step");
}

void cpu_open_step(struct cpu *c)
{
    struct open_pages *o = c->open;
    const struct batch *b = c->batch;
    if (!o) return;
    CHECK(b->n_seqs <= c->config.max_seqs);
    int n = kv_number_step_pages(b, o->first);
    CHECK(n <= o->n_step_pages);
    o->n_full = 0;
    for (int s = 0; s < b->n_seqs; s++)
        for (int i = kv_stored_pages(b, s).first; i < kv_stored_pages(b, s).end / KV_PAGE; i++)
            o->full[o->n_full++] = (struct full_page){s, i};
}

char *cpu_open_page(const struct call *t, int kv, int seq, int page)
{
    const struct open_pages *o = t->c->open;
    const struct batch *b = t->c->batch;
    const struct kv_cache *cache = &t->p->plan->kv[kv];
    struct kv_stored p = kv_stored_pages(b, seq);
    if (page == p.last)
        return (char *)t->p->memory->seat[kv] +
               (size_t)b->seat[seq] * kv_open_bytes(t->c->config.kv, cache);
    int set = t->op->kind == OP_ATTEND   ? t->op->as.attend.step_set
              : t->op->kind == OP_CHOOSE ? t->op->as.choose.step_set
                                         : t->op->as.rope.step_set;
    return o->step_pages +
           (size_t)(set * o->n_step_pages + o->first[seq] + page - p.first) * o->page_bytes;
}

void cpu_open_begin(const struct call *t, int kv)
{
    const struct batch *b = t->c->batch;
    size_t bytes = kv_open_bytes(t->c->config.kv, &t->p->plan->kv[kv]);
    for (int s = 0; s < b->n_seqs; s++) {
        struct kv_stored p = kv_stored_pages(b, s);
        if (p.begun && p.first < p.last)
            memcpy(cpu_open_page(t, kv, s, p.first), cpu_open_page(t, kv, s, p.last), bytes);
    }
}

struct pack_job {
    const struct call *t;
    int kv;
};

static void pack_task(void *arg, int task, int thread)
{
    const struct pack_job *j = arg;
    const struct cpu *c = j->t->c;
    const struct batch *b = c->batch;
    const struct kv_cache *cache = &j->t->p->plan->kv[j->kv];
    const struct full_page *f = &c->open->full[task / cache->n_kv_heads];
    const int32_t *table = b->block_table + (size_t)f->seq * (size_t)b->table_stride;
    size_t head = (size_t)(task % cache->n_kv_heads), page = (size_t)table[f->page];
    (void)thread;
    pack_page(cpu_open_page(j->t, j->kv, f->seq, f->page) +
                  head * kv_head_bytes(KV_INT8, cache->head_dim),
              cache->head_dim, kv_is_latent(cache) ? 1 : 2,
              (char *)j->t->p->memory->kv[j->kv] + page * cpu_kv_page_bytes(KV_INT4, cache) +
                  head * kv_head_bytes(KV_INT4, cache->head_dim));
}

void cpu_open_pack(const struct call *t, int kv)
{
    struct pack_job j = {t, kv};
    int n = t->c->open->n_full * t->p->plan->kv[kv].n_kv_heads;
    if (n) pool_run(t->c->pool, n, pack_task, &j);
}
