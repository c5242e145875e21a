#include "cli/engine.h"

#include "cli/machine.h"
#include "core/base/memory.h"

#include <stdio.h>
#include <string.h>

/* On a GPU sequences start in groups of a STARTS-th of all: with fewer, prompts leave most of its
 * multiprocessors idle; with more, free places do. */
enum { LOGITS_BYTES = 32 << 20, STARTS = 8 };

int engine_context(const struct options *o, const struct model *m)
{
    return o->n_ctx ? o->n_ctx : m->config.context;
}

void engine_say_context(const struct options *o, const struct model *m)
{
    if (o->n_ctx <= m->config.context) return;
    fprintf(stderr, "note: -c %d is more than the %d positions that the model was made for\n",
            o->n_ctx, m->config.context);
}

static int pages(int positions) { return (positions + KV_PAGE - 1) / KV_PAGE; }

/* Pages that the memory (a GPU's own, where that computes) allows, at most what all sequences can
 * fill. */
static int choose_pages(const struct options *o, const struct model *m,
                        const struct forward_options *f, const struct forward_need *need,
                        int *n_pages, struct err *e)
{
    int context = pages(engine_context(o, m));
    uint64_t budget = 0, fixed = need->weights + need->steps, page = need->page;
    if (o->n_pages) {
        if (o->n_pages < context)
            return err_set(
                e, "--kv-pages %d: one context of %d tokens needs %d (-c sets a smaller one)",
                o->n_pages, engine_context(o, m), context);
        *n_pages = o->n_pages;
        return 0;
    }
    if (o->memory && memory_parse(&budget, o->memory, e))
        return err_prefix(e, "--mem %s", o->memory);
    if (!o->memory) {
        if (forward_available(machine_backend(o), f, &budget, e)) return -1;
        budget = budget / 10 * 9;
        if (!budget) return err_set(e, "cannot tell how much memory is free: give --mem SIZE");
    }
    uint64_t most = (uint64_t)context * (uint64_t)(o->n_seqs + 1),
             fit = budget > fixed ? (budget - fixed) / page : 0;
    if (fit < (uint64_t)context)
        return err_set(e,
                       "%s %.0f MiB: the model takes %.0f MiB and the KV cache of one context of "
                       "%d tokens %.0f MiB (-c sets a smaller one)",
                       o->memory ? "--mem" : "free memory", (double)budget / 1048576,
                       (double)fixed / 1048576, engine_context(o, m),
                       (double)(page * (uint64_t)context) / 1048576);
    if (fit > most) fit = most;
    *n_pages = fit > 1 << 28 ? 1 << 28 : (int)fit;
    return 0;
}

int engine_open(struct engine *g, const struct options *o, const struct model *m, struct err *e)
{
    memset(g, 0, sizeof *g);
    engine_say_context(o, m);
    int rows = o->n_batch > o->n_seqs ? o->n_batch : o->n_seqs,
        logits = (int)(LOGITS_BYTES / ((size_t)m->config.vocab * sizeof(float)));
    if (logits > rows) logits = rows;
    struct forward_options f = machine_forward(o);
    f.max_rows = rows;
    f.max_logits = logits > o->n_seqs ? logits : o->n_seqs;
    f.max_seqs = o->n_seqs;
    f.max_pages = pages(engine_context(o, m));
    struct forward_need need;
    forward_need(m, machine_backend(o), &f, &need);
    const int own = need.weights != 0; /* else they stay in the file's mapping */
    if (!own) need.weights = m->file.st.file_bytes;
    if (choose_pages(o, m, &f, &need, &f.n_pages, e) ||
        forward_open(&g->forward, m, machine_backend(o), &f, e))
        return -1;
    const int gpu = machine_backend(o)->asynchronous;
    struct sched_options so = {.n_seqs = o->n_seqs,
                               .n_batch = rows,
                               .n_ctx = engine_context(o, m),
                               .prefix_cache = !o->no_prefix_cache,
                               .gather = gpu ? o->n_seqs / STARTS : 0,
                               .overlap = gpu};
    if (sched_open(&g->sched, &g->forward, &so, e)) return -1;
    const char *machine = g->forward.be->ops->describe(g->forward.be);
    snprintf(g->backend, sizeof g->backend, "%s", g->forward.be->ops->name);
    snprintf(g->instructions, sizeof g->instructions, "%.*s", (int)strcspn(machine, ",("), machine);
    double mib = 1048576;
    fprintf(stderr,
            "machine: %s; %smemory: model %.0f MiB, KV cache %.0f MiB (%d pages of %d tokens), "
            "steps %.0f MiB\n",
            machine, own ? "GPU " : "", (double)need.weights / mib,
            (double)(need.page * (uint64_t)f.n_pages) / mib, f.n_pages, KV_PAGE,
            (double)need.steps / mib);
    machine_say(o, g->forward.be);
    return 0;
}

void engine_close(struct engine *g)
{
    sched_close(g->sched);
    forward_close(&g->forward);
    memset(g, 0, sizeof *g);
}
