/* sched_runs.h: for unit_scheduler.c and unit_sched_grammar.c, runs of a scheduler over records,
 * with its allocations within a step counted. */
#ifndef TESTS_SCHED_RUNS_H
#define TESTS_SCHED_RUNS_H

#include "backend-cpu/cpu.h"
#include "core/sched/scheduler.h"
#include "tests/unit/sched_records.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- allocations inside sched_step, counted through the linker's --wrap (tests.mk) */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);

static atomic_int in_step, n_allocations;
static _Thread_local int is_main; /* with a store only this thread counts: that of files is free */
static atomic_int only_main;

static void count(void)
{
    if (in_step && (is_main || !only_main)) n_allocations++;
}

void *__wrap_malloc(size_t n) { return count(), __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return count(), __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return count(), __real_realloc(p, n); }
void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return count(), __real_aligned_alloc(alignment, n);
}
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
    return count(), __real_mmap(p, n, prot, flags, fd, at);
}

/* --- runs */
struct setup {
    int n_seqs, n_batch, threads, cache, n_pages, shuffle, max_logits, overlap, gather,
        sample_forced, draft_most, draft_always, draft_sure, share_generated, longest_first;
    const struct drafter *drafter;
    struct prefix_store *store;
    enum kv_type kv;
    const struct backend *ops; /* NULL: the CPU's */
};

static const struct setup plain = {.n_seqs = 1,
                                   .n_batch = 512,
                                   .threads = 1,
                                   .n_pages = 64,
                                   .max_logits = 64};

static void open_scheduler(const struct setup *u, struct forward *f, struct sched **s)
{
    struct err e = {0};
    const struct forward_options fo = {.n_threads = u->threads,
                                       .n_pages = u->n_pages,
                                       .kv = u->kv,
                                       .max_seqs = u->n_seqs,
                                       .max_rows = u->n_batch,
                                       .max_logits = u->max_logits};
    const struct sched_options so = {.n_seqs = u->n_seqs,
                                     .n_batch = u->n_batch,
                                     .n_ctx = N_CTX,
                                     .prefix_cache = u->cache,
                                     .gather = u->gather,
                                     .longest_first = u->longest_first,
                                     .overlap = u->overlap,
                                     .sample_forced = u->sample_forced,
                                     .draft_most = u->draft_most,
                                     .share_generated = u->share_generated,
                                     .draft_always = u->draft_always,
                                     .draft_sure = u->draft_sure,
                                     .store = u->store,
                                     .drafter = u->drafter};
    if (forward_open(f, &model, u->ops ? u->ops : &backend_cpu, &fo, &e)) fail_msg("%s", e.msg);
    if (u->ops) f->be->ops = u->ops;
    if (sched_open(s, f, &so, &e)) fail_msg("%s", e.msg);
}

static int step(struct sched *s)
{
    struct err e = {0};
    in_step = 1;
    int rc = sched_step(s, &e);
    in_step = 0;
    if (rc < 0) fail_msg("%s", e.msg);
    return rc;
}

/* Runs all records; requests are submitted as sched_wants asks for them. */
static struct sched_stats run(const struct setup *u, struct record *all, int n)
{
    struct forward f;
    struct sched *s;
    struct sched_stats stats;
    struct err e = {0};
    int *order = malloc((size_t)n * sizeof *order), next = 0, busy = 1, n_idle = 0;
    uint64_t n_steps = 0;
    for (int i = 0; i < n; i++) order[i] = i;
    random_state = 99;
    for (int i = n - 1; u->shuffle && i > 0; i--) {
        int j = below(i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    open_scheduler(u, &f, &s);
    is_main = 1;
    only_main = u->store != NULL;
    n_allocations = 0;
    for (int i = 0; i < n; i++) clear(&all[i]);
    while (busy || next < n) {
        for (int want = sched_wants(s); want > 0 && next < n; want--)
            if (sched_submit(s, &all[order[next++]].request, &e)) fail_msg("%s", e.msg);
        busy = step(s);
        sched_stats(s, &stats);
        n_idle = stats.n_steps == n_steps ? n_idle + 1 : 0;
        n_steps = stats.n_steps;
        if (n_idle > 100) fail_msg("requests that no step is computed for");
    }
    assert_int_equal(n_allocations, 0);
    sched_stats(s, &stats);
    assert_int_equal(stats.n_pages_used, 0);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    for (int i = 0; i < n; i++) assert_int_equal(all[i].n_done, 1);
    sched_close(s);
    forward_close(&f);
    free(order);
    return stats;
}

__attribute__((unused)) static void expect_same(const struct setup *u, struct record *all, int n,
                                                const uint64_t *want)
{
    for (int i = 0; i < n; i++)
        if (digest(&all[i]) != want[i])
            fail_msg("request %d differs: n_seqs %d, n_batch %d, threads %d, cache %d, %d pages, "
                     "shuffle %d, max_logits %d, overlap %d, "
                     "gather %d",
                     i, u->n_seqs, u->n_batch, u->threads, u->cache, u->n_pages, u->shuffle,
                     u->max_logits, u->overlap, u->gather);
}

__attribute__((unused)) static int n_different(const struct record *all, int n,
                                               const uint64_t *want)
{
    int k = 0;
    for (int i = 0; i < n; i++) k += digest(&all[i]) != want[i];
    return k;
}

static uint64_t *run_plain_kv(enum kv_type kv, const struct backend *ops, struct record *all, int n)
{
    struct setup u = plain;
    uint64_t *want = malloc((size_t)n * sizeof *want);
    u.ops = ops;
    u.kv = kv;
    run(&u, all, n);
    for (int i = 0; i < n; i++) want[i] = digest(&all[i]);
    return want;
}

__attribute__((unused)) static uint64_t *run_plain(const struct backend *ops, struct record *all,
                                                   int n)
{
    return run_plain_kv(KV_F16, ops, all, n);
}

#endif
