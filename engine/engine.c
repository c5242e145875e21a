#include "engine/engine.h"

#include "engine/prefix.h"
#include "engine/vocabulary.h"
#include "core/base/memory.h"
#include "core/base/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* On a GPU sequences start in groups of a STARTS-th of all: with fewer, prompts leave most of its
 * multiprocessors idle; with more, free places do. */
enum { LOGITS_BYTES = 32 << 20, STARTS = 8 };

/* Slots of states beside those of the sequences, for snapshots of shared prefixes: as many as an
 * eighth of the memory that is left holds, within these limits. */
enum { FEWEST_POSITIONS = 4096 }; /* of a conversation's context, unless the model has fewer */
enum { FEWEST_SNAPSHOTS = 2, MOST_SNAPSHOTS = 32 };
static const double mib = 1048576;

/* ---- options */

static void note(const struct engine_options *o, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (o->note) o->note(o->note_arg, line);
}

int engine_settle(struct engine_options *o, struct err *e)
{
    if (numa_begin(&o->nodes, o->numa, e)) return -1;
    const struct backend_entry *b = strcmp(o->backend, "auto") ? backend_find(o->backend) : NULL;
    if (!b) b = backend_best(o->act);
    o->backend = b->ops->name;
    if (!o->n_batch) o->n_batch = b->n_batch;
    if (!o->n_seqs) o->n_seqs = b->n_seqs;
    if (!strcmp(o->act, "auto"))
        o->act = o->same_bits
                     ? "i16"
                     : backend_best_act(b, o->hip_library, o->device, backend_variant(b, o));
    /* in integers attention over int8 is the fastest that every backend has (docs/kv.md) */
    if (!strcmp(o->kv, "auto")) o->kv = o->same_bits ? "int8" : "f16";
    int processors = pool_n_processors();
    if (o->threads > processors) {
        /* a thread that is put to sleep within a task holds up all others: 4 on 2 processors lose a
         * quarter */
        note(o, "note: -t %d: this process may use %d processor%s, so as many threads", o->threads,
             processors, processors == 1 ? "" : "s");
        o->threads = processors;
    }
    return 0;
}

/* What settled options say about the backend. */
static struct forward_options forward_of(struct engine *g)
{
    const struct engine_options *o = g->o;
    const struct backend_own own = {o->hip_library, o->gpu_timeout, o->query_halves};
    return (struct forward_options){
        .variant = backend_variant(g->entry, o),
        .n_threads = o->threads,
        .numa = &o->nodes,
        .device = o->device,
        .own = backend_own_text(g->entry, &own, g->own),
        .act = backend_act(o->act),
        .kv = backend_kv(o->kv),
        .context = engine_context(g),
        .show_progress = !o->quiet,
    };
}

int engine_context(const struct engine *g)
{
    return g->o->n_ctx ? g->o->n_ctx : g->model.config.context;
}

void engine_say_context(const struct engine *g)
{
    if (g->o->n_ctx <= g->model.config.context) return;
    note(g->o, "note: -c %d is more than the %d positions that the model was made for", g->o->n_ctx,
         g->model.config.context);
}

const char *engine_sums(const struct engine *g)
{
    const struct forward_options *f = &g->forward.options;
    return g->entry->is_exact && g->entry->is_exact(f->act, f->variant) ? NULL : g->identity;
}

const char *engine_order(const struct engine *g)
{
    enum act act = g->forward.options.act;
    return act_is_integer(act) && !engine_sums(g) ? "cpu" : g->entry->ops->name;
}

/* ---- memory */

/* BYTES, or less where the address space is bounded; MAPPED of them are taken already. */
static uint64_t within_space(const struct engine *g, uint64_t bytes, uint64_t mapped)
{
    uint64_t space = memory_space_left(g->o->threads ? g->o->threads : pool_n_processors());
    if (space == UINT64_MAX) return bytes;
    space = space / 10 * 9 + mapped;
    return space < bytes ? space : bytes;
}

/* Bytes that the run may take: --mem, or 9/10 of what the backend could allocate; *what: which. */
static int find_budget(const struct engine *g, const struct forward_options *f, uint64_t *bytes,
                       const char **what, struct err *e)
{
    const struct engine_options *o = g->o;
    *what = o->memory ? "--mem" : "free memory";
    if (o->memory)
        return memory_parse(bytes, o->memory, e) ? err_prefix(e, "--mem %s", o->memory) : 0;
    if (forward_available(g->entry->ops, f, bytes, e)) return -1;
    *bytes = *bytes / 10 * 9;
    if (*bytes && g->mapped) {
        uint64_t free = *bytes;
        *bytes = within_space(g, free, g->mapped);
        if (*bytes < free) *what = "free memory (ulimit -v)";
    }
    return *bytes ? 0 : err_set(e, "cannot tell how much memory is free: give --mem SIZE");
}

/* Slots of states for all sequences, and for snapshots what `left` bytes beside them allow. */
static int choose_states(const struct engine *g, const struct forward_need *need, uint64_t left)
{
    uint64_t n = need->state ? left / 8 / need->state : 0;
    if (n < FEWEST_SNAPSHOTS) n = FEWEST_SNAPSHOTS;
    return g->o->n_seqs + (int)(n < MOST_SNAPSHOTS ? n : MOST_SNAPSHOTS);
}

/* Pages and slots of states that the memory (a GPU's own, where that computes) allows, at most what
 * all sequences can fill. */
static int choose_sizes(const struct engine *g, struct forward_options *f,
                        const struct forward_need *need, struct err *e)
{
    const struct engine_options *o = g->o;
    const int positions = engine_context(g), context = kv_pages(positions);
    const char *what;
    uint64_t budget = 0, page = need->page ? need->page : 1, left,
             fixed = need->weights + need->steps +
                     need->state * (uint64_t)(o->n_seqs + FEWEST_SNAPSHOTS);
    f->n_states = choose_states(g, need, 0);
    if (o->n_pages) {
        f->n_pages = o->n_pages;
        return o->n_pages >= context
                   ? 0
                   : err_set(e,
                             "--kv-pages %d: one context of %d tokens needs %d (-c sets a smaller "
                             "one)",
                             o->n_pages, positions, context);
    }
    if (find_budget(g, f, &budget, &what, e)) return -1;
    left = budget > fixed ? budget - fixed : 0;
    if (left / page < (uint64_t)context)
        return err_set(e,
                       "%s %.0f MiB: the model%s takes %.0f MiB and the KV cache of one context of "
                       "%d tokens %.0f MiB (-c sets a smaller one)",
                       what, (double)budget / mib,
                       need->state ? " with the states of -np sequences" : "", (double)fixed / mib,
                       positions, (double)(page * (uint64_t)context) / mib);
    f->n_states = choose_states(g, need, left - page * (uint64_t)context);
    left -= need->state * (uint64_t)(f->n_states - o->n_seqs - FEWEST_SNAPSHOTS);
    uint64_t most = (uint64_t)context * (uint64_t)(o->n_seqs + 1), fit = left / page;
    if (fit > most) fit = most;
    f->n_pages = fit > 1 << 28 ? 1 << 28 : (int)fit;
    return 0;
}

/* "states 1130 MiB (18 slots of 62.8 MiB), " of a model with states, else "". */
static const char *say_states(const struct forward_need *need, int n, char *text, size_t bytes)
{
    *text = 0;
    if (need->state)
        snprintf(text, bytes, "states %.0f MiB (%d slots of %.1f MiB), ",
                 (double)(need->state * (uint64_t)n) / mib, n, (double)need->state / mib);
    return text;
}

/* ---- drafts */

/* Most tokens of a draft. A model that keeps states could not take back what a wrong one left. */
static int draft_most(const struct engine *g)
{
    enum { DEFAULT_MOST = 16 };
    const struct engine_options *o = g->o;
    const char *how = o->speculate ? o->speculate : "auto";
    const int is_asked = !strcmp(how, "prompt"), has_states = g->model.plan.n_states > 0;
    if (!strcmp(how, "off") || (!is_asked && g->entry->ops->asynchronous)) return 0;
    if (is_asked && has_states)
        note(o, "note: --speculate: there are no drafts for a model with recurrent layers");
    return has_states ? 0 : o->draft_most ? o->draft_most : DEFAULT_MOST;
}

static int larger(int a, int b) { return a > b ? a : b; }

/* ---- opening */

int engine_open_model(struct engine *g, const char *path, const struct engine_options *o,
                      struct err *e)
{
    size_t n;
    struct progress progress;
    memset(g, 0, sizeof *g);
    engine_use(g, o);
    if (model_open(&g->model, path, e)) return -1;
    if (g->model.config.headless && !o->embeds)
        return err_set(
            e, "%s: has no head (lm_head): it makes embeddings, as lines of a batch (-i)", path);
    progress_begin(&progress);
    if (o->check_tensors && mf_verify(&g->model.file, &progress, &n, e)) return -1;
    return vocabulary_tokenizer(&g->tokenizer, &g->model.file, e);
}

static int open_sized(struct engine *g, const struct forward_options *f,
                      const struct sched_options *s, struct err *e)
{
    struct sched_options with_store = *s;
    if (forward_open(&g->forward, &g->model, g->entry->ops, f, e)) return -1;
    g->entry->identify(g->forward.be, g->identity, sizeof g->identity);
    if (prefix_open(g, engine_sums(g), e)) return -1;
    with_store.store = g->store;
    return sched_open(&g->sched, &g->forward, &with_store, e);
}

int engine_open(struct engine *g, struct err *e)
{
    const struct engine_options *o = g->o;
    const struct backend *ops = g->entry->ops;
    engine_say_context(g);
    int rows = o->n_batch > o->n_seqs ? o->n_batch : o->n_seqs,
        logits = (int)(LOGITS_BYTES / ((size_t)g->model.config.vocab * sizeof(float)));
    if (logits > rows) logits = rows;
    struct forward_options f = forward_of(g);
    f.max_rows = rows;
    f.max_logits = logits > o->n_seqs ? logits : o->n_seqs;
    f.max_seqs = o->n_seqs;
    f.max_pages = kv_pages(engine_context(g));
    f.hidden = g->hidden;
    struct forward_need need;
    forward_need(&g->model, ops, &f, &need);
    need.steps += prefix_memory(o, &need);
    const int own = need.weights != 0; /* else they stay in the file's mapping */
    if (!own) need.weights = g->mapped = g->model.file.st.file_bytes;
    const struct sched_options s = {.n_seqs = o->n_seqs,
                                    .n_batch = rows,
                                    .n_ctx = engine_context(g),
                                    .prefix_cache = !o->no_prefix_cache,
                                    .gather = ops->asynchronous ? o->n_seqs / STARTS : 0,
                                    .draft_most = draft_most(g),
                                    .overlap = ops->asynchronous};
    if (choose_sizes(g, &f, &need, e) || open_sized(g, &f, &s, e)) return -1;
    g->memory = (struct engine_memory){need.weights, need.page * (uint64_t)f.n_pages,
                                       need.state * (uint64_t)f.n_states, need.steps};
    char states[96];
    note(o,
         "machine: %s; %smemory: model %.0f MiB, KV cache %.0f MiB (%d pages of %d tokens), "
         "%ssteps %.0f MiB",
         ops->describe(g->forward.be), own ? "GPU " : "", (double)need.weights / mib,
         (double)(need.page * (uint64_t)f.n_pages) / mib, f.n_pages, KV_PAGE,
         say_states(&need, f.n_states, states, sizeof states), (double)need.steps / mib);
    return 0;
}

int engine_open_one(struct engine *g, const struct engine_one *one, struct err *e)
{
    struct forward_options f = forward_of(g);
    const int drafts = draft_most(g);
    f.n_pages = f.max_pages = kv_pages(one->n_positions);
    f.max_rows = one->n_prompt < g->o->n_batch ? one->n_prompt : g->o->n_batch;
    f.max_rows = larger(f.max_rows, 1 + drafts);
    f.max_logits = larger(one->n_logits, 1 + drafts);
    if (f.max_logits > f.max_rows) f.max_logits = f.max_rows;
    f.max_seqs = 1;
    const int has_store = g->o->prefix_dir != NULL;
    if (has_store) f.n_states = 1 + FEWEST_SNAPSHOTS;
    const struct sched_options s = {.n_seqs = 1,
                                    .n_batch = f.max_rows,
                                    .n_ctx = one->n_positions,
                                    .prefix_cache = has_store,
                                    .draft_most = drafts,
                                    .overlap = g->entry->ops->asynchronous};
    return open_sized(g, &f, &s, e);
}

int engine_open_conversation(struct engine *g, int *n_ctx, struct err *e)
{
    const struct backend *ops = g->entry->ops;
    struct forward_options f = forward_of(g);
    struct forward_need need;
    uint64_t budget;
    *n_ctx = engine_context(g);
    const int drafts = draft_most(g);
    f.max_rows = larger(g->o->n_batch < *n_ctx ? g->o->n_batch : *n_ctx, 1 + drafts);
    f.max_logits = 1 + drafts;
    f.max_seqs = 1;
    f.n_states = 1 + FEWEST_SNAPSHOTS;
    f.max_pages = kv_pages(*n_ctx);
    forward_need(&g->model, ops, &f, &need);
    need.steps += prefix_memory(g->o, &need);
    if (!need.weights) /* in the file's mapping */
        need.weights = g->mapped = g->model.file.st.file_bytes;
    if (forward_available(ops, &f, &budget, e)) return -1;
    budget = budget / 10 * 9;
    if (budget && g->mapped) budget = within_space(g, budget, g->mapped);
    uint64_t fixed = need.weights + need.steps + need.state * (uint64_t)f.n_states,
             left = budget > fixed ? budget - fixed : 0;
    while (!g->o->n_ctx && budget && *n_ctx > FEWEST_POSITIONS &&
           need.page * (uint64_t)kv_pages(*n_ctx) > left)
        *n_ctx /= 2;
    f.n_pages = f.max_pages = kv_pages(*n_ctx);
    const struct sched_options s = {.n_seqs = 1,
                                    .n_batch = f.max_rows,
                                    .n_ctx = *n_ctx,
                                    .prefix_cache = 1,
                                    .draft_most = drafts,
                                    .share_generated = !ops->phases && !ops->asynchronous,
                                    .overlap = ops->asynchronous};
    return open_sized(g, &f, &s, e);
}

void engine_use(struct engine *g, const struct engine_options *o)
{
    g->o = o;
    g->entry = backend_find(o->backend);
}

void engine_stop(struct engine *g)
{
    sched_close(g->sched);
    prefix_store_close(g->store);
    forward_close(&g->forward);
    g->sched = NULL;
    g->store = NULL;
    memset(&g->forward, 0, sizeof g->forward);
}

void engine_close(struct engine *g)
{
    engine_stop(g);
    tok_close(g->tokenizer);
    model_close(&g->model);
    memset(g, 0, sizeof *g);
}
