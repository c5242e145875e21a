#include "engine/engine.h"

#include "engine/cards.h"
#include "engine/devices.h"
#include "engine/microbatches.h"
#include "engine/prefix.h"
#include "engine/split_table.h"
#include "engine/vocabulary.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/run/parts.h"

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

int engine_settle(struct engine_options *o, struct err *e)
{
    if (numa_begin(&o->nodes, o->numa, e)) return -1;
    const int asks = placement_asks(o);
    if (!strcmp(o->backend, "auto") && (asks || o->devices))
        o->backend = asks == PLACEMENT_CPU ? "cpu" : "hip";
    const struct backend_entry *b = strcmp(o->backend, "auto") ? backend_find(o->backend) : NULL;
    if (!b) b = backend_best(o->act);
    o->backend = b->ops->name;
    if (devices_settle(o, e)) return -1;
    if (!o->n_batch) o->n_batch = b->n_batch;
    if (!o->n_seqs) {
        o->n_seqs = b->n_seqs;
        o->most_seqs = b->most_seqs;
    }
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
        engine_note(o, "note: -t %d: this process may use %d processor%s, so as many threads",
                    o->threads, processors, processors == 1 ? "" : "s");
        o->threads = processors;
    }
    return 0;
}

/* What drafts tokens, and how many at most: of texts and of the model's draft layer. */
struct drafts {
    int most, texts, mtp;
    int sure; /* only where it is clearly worth while */
};

/* On a CPU both unless one is named, on a GPU texts of models without states, where they are sure.
 * What a wrong draft leaves in states can be put right where the backend keeps it. */
static struct drafts drafts_of(const struct engine *g)
{
    enum { DEFAULT_MOST = 16, MTP_MOST = 3 };
    const struct engine_options *o = g->o;
    const char *how = o->speculate ? o->speculate : "auto";
    const int itself = !strcmp(how, "auto"), on_cpu = !g->entry->ops->asynchronous,
              has_states = g->model.plan.n_states > 0,
              may = !has_states || g->entry->ops->keeps_drafts;
    struct drafts d = {
        .texts = may && (itself ? on_cpu || !has_states : !strcmp(how, "prompt")),
        .mtp = may && (itself ? on_cpu : !strcmp(how, "mtp")) && g->model.plan.n_draft ? MTP_MOST
                                                                                       : 0,
        .sure = itself};
    if (d.texts || d.mtp) d.most = o->draft_most ? o->draft_most : DEFAULT_MOST;
    return d;
}

/* What settled options say about the backend. */
static struct forward_options forward_of(struct engine *g)
{
    const struct engine_options *o = g->o;
    const struct drafts d = drafts_of(g);
    const struct backend_own own = {o->hip_library, o->gpu_timeout, o->query_halves, o->exchange};
    return (struct forward_options){
        .variant = backend_variant(g->entry, o),
        .n_threads = o->threads,
        .numa = &o->nodes,
        .device = o->device,
        .own = backend_own_text(g->entry, &own, g->own),
        .act = backend_act(o->act),
        .kv = backend_kv(o->kv),
        .context = engine_context(g),
        .drafts = d.mtp > 0,
        .keeps_drafts = d.most && g->entry->ops->keeps_drafts,
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
    engine_note(g->o, "note: -c %d is more than the %d positions that the model was made for",
                g->o->n_ctx, g->model.config.context);
}

const char *engine_sums(const struct engine *g)
{
    return placement_is_exact(&g->placement) ? NULL : g->identity;
}

const char *engine_order(const struct engine *g)
{
    enum act act = g->forward.options.act;
    return act_is_integer(act) && !engine_sums(g) ? "cpu" : g->entry->ops->name;
}

uint64_t engine_cache_bytes(const struct engine *g)
{
    return part_bytes(&g->forward, PART_PAGE) * (uint64_t)g->forward.options.n_pages *
           (uint64_t)g->n_microbatches;
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

static int is_gpu(const struct engine *g, int q) { return g->placement.entry[q]->probe != NULL; }

/* A GPU's memory is as much as --gpu-memory says, whatever is here. */
static int is_told(const struct engine *g) { return g->o->survey && g->o->gpu_memory; }

/* What the backend of place q can allocate; 0: unknown. */
static int available_at(const struct engine *g, const struct forward_options *f, int q,
                        uint64_t *bytes, struct err *e)
{
    struct forward_options own = *f;
    if (is_gpu(g, q) && is_told(g)) return *bytes = UINT64_MAX / 2, 0;
    if (g->placement.has_gpus) own.device = g->placement.place[q].device;
    return forward_available(g->placement.entry[q]->ops, &own, bytes, e);
}

/* Bytes that the run may take of place q: --gpu-memory or --mem, each of every GPU, or 9/10 of what
 * the backend could allocate; *what: which. */
static int find_budget(const struct engine *g, const struct forward_options *f, int q,
                       uint64_t *bytes, const char **what, struct err *e)
{
    const struct engine_options *o = g->o;
    const int is_limited = is_gpu(g, q) && o->gpu_memory,
              is_told = (is_gpu(g, q) || !q) && o->memory, is_mapped = g->mapped && !is_gpu(g, q);
    *what = is_limited  ? "--gpu-memory"
            : is_told   ? "--mem"
            : is_mapped ? "the CPU's free memory"
                        : "free memory";
    if (is_told)
        return memory_parse(bytes, o->memory, e) ? err_prefix(e, "--mem %s", o->memory) : 0;
    if (available_at(g, f, q, bytes, e)) return -1;
    *bytes = q && !*bytes ? UINT64_MAX / 2 : *bytes / 10 * 9;
    if (is_limited && placement_gpu_memory(o) < *bytes) *bytes = placement_gpu_memory(o);
    if (*bytes && is_mapped) {
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
    return microbatches_seqs(g) + (int)(n < MOST_SNAPSHOTS ? n : MOST_SNAPSHOTS);
}

/* What a place has for each microbatch beside its weights and steps and the fewest slots of states:
 * *left bytes, which hold one context at least. */
static int find_room(const struct engine *g, const struct forward_options *f, int q, uint64_t *left,
                     struct err *e)
{
    const struct forward_need *need = &g->placement.need[q];
    const int positions = engine_context(g), context = kv_pages(positions);
    uint64_t budget = 0,
             microbatch = need->steps +
                          need->state * (uint64_t)(microbatches_seqs(g) + FEWEST_SNAPSHOTS),
             fixed = need->weights + microbatch * (uint64_t)g->n_microbatches;
    const char *what;
    if (find_budget(g, f, q, &budget, &what, e)) return -1;
    *left = budget > fixed ? (budget - fixed) / (uint64_t)g->n_microbatches : 0;
    if (budget > fixed && *left / (need->page ? need->page : 1) >= (uint64_t)context) return 0;
    return err_set(e,
                   "%s %.0f MiB: the model%s takes %.0f MiB and the KV cache of one context of "
                   "%d tokens %.0f MiB (-c sets a smaller one)",
                   what, (double)budget / mib,
                   need->state ? " with the states of -np sequences" : "", (double)fixed / mib,
                   positions, (double)(need->page * (uint64_t)context) / mib);
}

/* Pages and slots of states of a microbatch that the memory of all places (a GPU's own, where that
 * computes) allows, at most what all sequences can fill. */
static int choose_sizes(const struct engine *g, struct forward_options *f, struct err *e)
{
    const struct engine_options *o = g->o;
    const struct placement *p = &g->placement;
    const int positions = engine_context(g), context = kv_pages(positions);
    const int n_seqs = microbatches_seqs(g);
    uint64_t left[PLACES], fit = (uint64_t)context * (uint64_t)(n_seqs + 1);
    f->n_states = n_seqs + FEWEST_SNAPSHOTS;
    if (o->n_pages) {
        f->n_pages = o->n_pages / g->n_microbatches;
        return o->n_pages >= context
                   ? 0
                   : err_set(e,
                             "--kv-pages %d: one context of %d tokens needs %d (-c sets a smaller "
                             "one)",
                             o->n_pages, positions, context);
    }
    int n_states = n_seqs + MOST_SNAPSHOTS;
    for (int q = 0; q < p->n; q++) {
        if (find_room(g, f, q, &left[q], e))
            return p->has_gpus ? err_prefix(e, "GPU %d", p->place[q].device) : -1;
        int n = choose_states(g, &p->need[q], left[q] - p->need[q].page * (uint64_t)context);
        if ((p->need[q].state || p->n == 1) && n < n_states) n_states = n;
    }
    f->n_states = n_states;
    for (int q = 0; q < p->n; q++) {
        const struct forward_need *need = &p->need[q];
        uint64_t page = need->page ? need->page : 1;
        left[q] -= need->state * (uint64_t)(f->n_states - n_seqs - FEWEST_SNAPSHOTS);
        if ((need->page || p->n == 1) && left[q] / page < fit) fit = left[q] / page;
    }
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

/* What the backends took, one behind the other; of number CARD of several cards. */
static void say_memory(const struct engine *g, int card, const struct forward_options *f)
{
    const struct placement *p = &g->placement;
    const struct be *be = cards_be(g, card);
    const int n_pages = f->n_pages * g->n_microbatches, n_states = f->n_states * g->n_microbatches;
    char line[480], states[96];
    if (g->n_cards)
        snprintf(line, sizeof line / 2, "GPU %d: %s", g->o->device_at[card], be->ops->describe(be));
    else placement_describe(&g->forward, line, sizeof line / 2);
    for (int q = 0; q < p->n; q++) {
        const struct forward_need *n = &p->need[q];
        size_t at = strlen(line);
        const char *whose = p->entry[q]->probe ? "GPU " : q ? "CPU " : "";
        snprintf(line + at, sizeof line - at,
                 "; %smemory: model %.0f MiB, KV cache %.0f MiB (%d pages of %d tokens), "
                 "%ssteps %.0f MiB",
                 whose, (double)n->weights / mib, (double)(n->page * (uint64_t)n_pages) / mib,
                 n_pages, KV_PAGE, say_states(n, n_states, states, sizeof states),
                 (double)n->steps * g->n_microbatches / mib);
    }
    engine_note(g->o, "machine: %s", line);
}

/* Of one card. */
static void add_memory(struct engine *g, const struct forward_options *f)
{
    struct engine_memory *m = &g->memory;
    for (int q = 0; q < g->placement.n; q++) {
        const struct forward_need *n = &g->placement.need[q];
        const uint64_t n_microbatches = (uint64_t)g->n_microbatches;
        m->model += n->weights;
        m->cache += n->page * (uint64_t)f->n_pages * n_microbatches;
        m->states += n->state * (uint64_t)f->n_states * n_microbatches;
        m->steps += n->steps * n_microbatches;
    }
}

/* Chooses the places of a run and what each needs, in a share of a GPU's free memory. */
static int place(struct engine *g, const struct forward_options *f, struct placement_room *room,
                 int tenths, struct err *e)
{
    struct placement *p = &g->placement;
    const uint64_t limit = placement_gpu_memory(g->o);
    placement_close(p);
    if (g->entry->probe) {
        if (is_told(g)) room->bytes = UINT64_MAX / 2;
        else if (forward_available(g->entry->ops, f, &room->bytes, e)) return -1;
        room->bytes = room->bytes / 10 * (uint64_t)tenths;
        if (limit && limit < room->bytes) room->bytes = limit;
    }
    if (placement_open(p, g->o, &g->model, g->entry, f, room, e)) return -1;
    for (int q = 0; q < p->n; q++) {
        struct forward_need *need = &p->need[q];
        if (!is_gpu(g, q) && drafts_of(g).texts)
            need->steps += sched_draft_bytes(f->max_seqs, engine_context(g));
        if (need->weights) continue;
        g->mapped = g->model.file.st.file_bytes; /* they stay in the file's mapping */
        need->weights = p->n == 1 ? g->mapped : need->mapped;
    }
    return 0;
}

/* The sizes of each card, by what it has free; of places they are those of all. */
static int choose_cards(const struct engine *g, const struct forward_options *f,
                        struct forward_options *card, struct err *e)
{
    struct err first = {0};
    if (g->n_whole > 1 && g->placement.n > 1)
        err_set(&first, "GPU %d: the model does not fit its free memory", g->o->device);
    for (int i = 0; i < g->n_whole; i++) {
        struct err why = {0};
        card[i] = *f;
        card[i].device = g->o->device_at[i];
        if (first.msg[0] || !choose_sizes(g, &card[i], &why)) continue;
        cards_say(g, i, &why);
        first = why;
    }
    if (!first.msg[0]) return 0;
    *e = first;
    return -1;
}

/* Whether all of the model has room on the first GPU, whose place this is. */
static int fits_one(const struct engine *g, const struct forward_options *f,
                    const struct placement_room *room, int is_one)
{
    struct forward_options sized = *f;
    struct err why;
    return g->placement.n == 1 &&
           (is_one ? placement_fits(&g->placement, room) : !choose_sizes(g, &sized, &why));
}

/* How several GPUs share the work, and the places, in a share of the free memory (devices.h): a
 * batch or evaluation takes data where each GPU has room for the model, else layers; one sequence
 * tensor where one has no room, or is slower. */
static int share(struct engine *g, const struct forward_options *f, struct placement_room *room,
                 int tenths, int is_one, struct err *e)
{
    const struct engine_options *o = g->o;
    enum parallel mode;
    g->n_whole = 1;
    if (o->n_devices < 2) return place(g, f, room, tenths, e);
    if (parallel_read(o->parallel_mode, &mode, e)) return -1;
    if (mode == PARALLEL_AUTO || mode == PARALLEL_DATA) {
        if (place(g, f, room, tenths, e)) return -1;
        const int fits = fits_one(g, f, room, is_one);
        if (mode == PARALLEL_AUTO && !fits) mode = is_one ? PARALLEL_TENSOR : PARALLEL_LAYERS;
        else if (mode == PARALLEL_AUTO && is_one && placement_gains(&g->placement, o))
            mode = PARALLEL_TENSOR;
        else mode = PARALLEL_DATA;
    }
    if (mode == PARALLEL_DATA && is_one) {
        engine_note(o, "note: --devices: GPU %d alone computes the one sequence sooner", o->device);
    } else if (mode == PARALLEL_DATA) {
        g->n_whole = o->n_devices;
        engine_note(o, "parallel: data: each of %d GPUs has the model and up to %d sequences",
                    o->n_devices, g->n_seqs);
    } else {
        engine_note(o, "parallel: %s: %d GPUs have %s", parallel_name(mode), o->n_devices,
                    mode == PARALLEL_TENSOR ? "a share of every layer" : "some of the layers each");
        placement_close(&g->placement);
        return placement_open_gpus(&g->placement, o, &g->model, g->entry, f, mode, e);
    }
    return 0;
}

/* ---- drafts */

/* Says what --speculate asks for and does not get. */
static void say_drafts(const struct engine *g)
{
    const struct engine_options *o = g->o;
    const char *how = o->speculate ? o->speculate : "auto";
    const int layer = !strcmp(how, "mtp");
    if (!layer && strcmp(how, "prompt")) return;
    if (layer && !g->model.plan.n_draft)
        engine_note(o, "note: --speculate mtp: the model file has no layer that drafts tokens");
    else if (g->placement.n > 1 && (layer || g->model.plan.n_states))
        engine_note(o, "note: --speculate: drafts %s need that one device computes all of it",
                    layer ? "by the model's own layer" : "for a model with recurrent layers");
}

/* What several devices compute together has no layer that drafts and keeps no rows of drafts. */
static struct forward_options of_places(const struct engine *g, const struct forward_options *f)
{
    struct forward_options own = *f;
    own.drafts &= g->placement.n == 1;
    own.keeps_drafts &= g->placement.n == 1;
    return own;
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

/* *s: completed by what the backend and the places have. */
static int open_sized(struct engine *g, const struct forward_options *f, struct sched_options *s,
                      struct err *e)
{
    const struct forward_options own = of_places(g, f);
    const struct placement *p = &g->placement;
    const struct drafts d = drafts_of(g);
    say_drafts(g);
    s->draft_most = g->model.plan.n_states && p->n > 1 ? 0 : d.most;
    s->draft_sure = d.sure;
    s->no_texts = !d.texts;
    s->mtp_most = p->n == 1 ? d.mtp : 0;
    f = &own;
    if (split_table_say(p, &g->model, g->o, f, e)) return -1;
    if (placement_open_forward(p, &g->forward, &g->model, f, e)) return -1;
    s->overlap = forward_overlaps(&g->forward);
    placement_identify(p, &g->forward, g->identity, sizeof g->identity);
    if (prefix_open(g, engine_sums(g), e)) return -1;
    s->store = g->store;
    return sched_open(&g->sched, &g->forward, s, e);
}

/* What steps of so many sequences take. */
static struct forward_options steps_of(struct engine *g, int n_seqs)
{
    struct forward_options f = forward_of(g);
    int logits = (int)(LOGITS_BYTES / ((size_t)g->model.config.vocab * sizeof(float)));
    f.max_rows = larger(g->o->n_batch, n_seqs);
    f.max_logits = larger(logits < f.max_rows ? logits : f.max_rows, n_seqs);
    f.max_seqs = n_seqs;
    f.max_pages = kv_pages(engine_context(g));
    f.hidden = g->hidden;
    return f;
}

/* Sequences that run at once: more than the default where a GPU's memory holds so many of usual
 * lengths. A model with states keeps one of each sequence. */
static int choose_seqs(struct engine *g, struct err *e)
{
    enum { USUAL = 768 }; /* positions */
    const struct engine_options *o = g->o;
    struct forward_need need;
    uint64_t bytes;
    g->n_seqs = o->n_seqs;
    if (o->most_seqs <= o->n_seqs || o->n_pages || o->memory || placement_asks(o)) return 0;
    const struct forward_options f = steps_of(g, o->most_seqs);
    forward_need(&g->model, g->entry->ops, &f, &need);
    if (need.state) return 0;
    if (forward_available(g->entry->ops, &f, &bytes, e)) return -1;
    const int usual = kv_pages(USUAL) < f.max_pages ? kv_pages(USUAL) : f.max_pages;
    uint64_t kv = need.page * (uint64_t)usual * (uint64_t)o->most_seqs;
    if (bytes / 10 * 9 >= need.weights + need.steps + kv) g->n_seqs = o->most_seqs;
    return 0;
}

/* A microbatch for each device that computes layers, fewer where sequences or memory are few. *f:
 * of the steps of a microbatch. */
static int choose_microbatches(struct engine *g, struct forward_options *f, struct err *e)
{
    struct placement *p = &g->placement;
    const int by_layers = p->has_gpus && p->want.rule == SPLIT_LAYERS, pages = g->o->n_pages;
    for (int n = !by_layers ? 1 : p->n < g->n_seqs ? p->n : g->n_seqs; n > 1; n--) {
        struct forward_options microbatch = steps_of(g, (g->n_seqs + n - 1) / n);
        uint64_t left;
        struct err why;
        int fits = !pages || pages / n >= microbatch.max_pages;
        microbatch.n_microbatches = g->n_microbatches = n;
        if (placement_need(p, &g->model, &microbatch, e)) return -1;
        for (int q = 0; q < p->n && fits; q++) fits = !find_room(g, &microbatch, q, &left, &why);
        if (!fits) continue;
        *f = microbatch;
        engine_note(g->o, "pipeline: %d microbatches of up to %d sequence%s take turns on the GPUs",
                    n, microbatches_seqs(g), microbatches_seqs(g) == 1 ? "" : "s");
        return 0;
    }
    g->n_microbatches = 1;
    return by_layers ? placement_need(p, &g->model, f, e) : 0;
}

int engine_open(struct engine *g, struct err *e)
{
    const struct engine_options *o = g->o;
    const struct backend *ops = g->entry->ops;
    engine_say_context(g);
    if (choose_seqs(g, e)) return -1;
    struct forward_options f = steps_of(g, g->n_seqs);
    const int context = f.max_pages;
    int64_t most = o->n_pages ? o->n_pages : (int64_t)context * (g->n_seqs + 1);
    struct placement_room room = {.least_pages = o->n_pages ? o->n_pages : context,
                                  .most_pages = most < 1 << 28 ? (int)most : 1 << 28,
                                  .n_states = g->n_seqs + FEWEST_SNAPSHOTS};
    struct forward_options card[ENGINE_DEVICES];
    if (share(g, &f, &room, 9, 0, e) || choose_microbatches(g, &f, e) ||
        choose_cards(g, &f, card, e))
        return -1;
    if (o->survey) return split_table_say(&g->placement, &g->model, o, &card[0], e);
    for (int i = 0; i < g->n_whole; i++) card[i] = of_places(g, &card[i]);
    if (cards_begin(g, card, e)) return -1;
    const int n_seqs = microbatches_seqs(g);
    struct sched_options s = {.n_seqs = n_seqs,
                              .n_batch = f.max_rows,
                              .n_ctx = engine_context(g),
                              .prefix_cache = !o->no_prefix_cache,
                              .longest_first = g->longest_first,
                              .gather = ops->asynchronous ? n_seqs / STARTS : 0};
    const int rc = open_sized(g, &card[0], &s, e);
    if (g->n_microbatches > 1 ? rc || microbatches_open(g, &card[0], &s, e)
                              : cards_end(g, &s, rc ? NULL : engine_sums(g), rc, e))
        return -1;
    g->memory = (struct engine_memory){0};
    for (int i = 0; i < g->n_whole; i++) {
        add_memory(g, &card[i]);
        say_memory(g, i, &card[i]);
    }
    return 0;
}

int engine_open_one(struct engine *g, const struct engine_one *one, struct err *e)
{
    struct forward_options f = forward_of(g);
    const int drafts = drafts_of(g).most;
    f.n_pages = f.max_pages = kv_pages(one->n_positions);
    f.max_rows = one->n_prompt < g->o->n_batch ? one->n_prompt : g->o->n_batch;
    f.max_rows = larger(f.max_rows, 1 + drafts);
    f.max_logits = larger(one->n_logits, 1 + drafts);
    if (f.max_logits > f.max_rows) f.max_logits = f.max_rows;
    f.max_seqs = 1;
    const int has_store = g->o->prefix_dir != NULL;
    if (has_store) f.n_states = 1 + FEWEST_SNAPSHOTS;
    struct placement_room room = {
        .least_pages = f.n_pages, .most_pages = f.n_pages, .n_states = forward_n_states(&f)};
    struct sched_options s = {
        .n_seqs = 1, .n_batch = f.max_rows, .n_ctx = one->n_positions, .prefix_cache = has_store};
    return share(g, &f, &room, 10, 1, e) || open_sized(g, &f, &s, e) ? -1 : 0;
}

/* The context of a conversation, which is halved until the memory of all places holds it. */
static int choose_context(const struct engine *g, const struct forward_options *f, int *n_ctx,
                          struct err *e)
{
    for (int q = 0; q < g->placement.n; q++) {
        const struct forward_need *need = &g->placement.need[q];
        uint64_t budget, fixed = need->weights + need->steps + need->state * (uint64_t)f->n_states;
        if (available_at(g, f, q, &budget, e)) return -1;
        budget = budget / 10 * 9;
        if (is_gpu(g, q) && g->o->gpu_memory && placement_gpu_memory(g->o) < budget)
            budget = placement_gpu_memory(g->o);
        if (budget && g->mapped && !is_gpu(g, q)) budget = within_space(g, budget, g->mapped);
        uint64_t left = budget > fixed ? budget - fixed : 0;
        while (!g->o->n_ctx && budget && *n_ctx > FEWEST_POSITIONS &&
               need->page * (uint64_t)kv_pages(*n_ctx) > left)
            *n_ctx /= 2;
    }
    return 0;
}

int engine_open_conversation(struct engine *g, int *n_ctx, struct err *e)
{
    const struct backend *ops = g->entry->ops;
    struct forward_options f = forward_of(g);
    *n_ctx = engine_context(g);
    const int drafts = drafts_of(g).most;
    f.max_rows = larger(g->o->n_batch < *n_ctx ? g->o->n_batch : *n_ctx, 1 + drafts);
    f.max_logits = 1 + drafts;
    f.max_seqs = 1;
    f.n_states = 1 + FEWEST_SNAPSHOTS;
    f.max_pages = kv_pages(*n_ctx);
    int least = g->o->n_ctx || *n_ctx < FEWEST_POSITIONS ? *n_ctx : FEWEST_POSITIONS;
    struct placement_room room = {
        .least_pages = kv_pages(least), .most_pages = f.max_pages, .n_states = f.n_states};
    if (share(g, &f, &room, 9, 1, e) || choose_context(g, &f, n_ctx, e)) return -1;
    f.n_pages = f.max_pages = kv_pages(*n_ctx);
    struct sched_options s = {.n_seqs = 1,
                              .n_batch = f.max_rows,
                              .n_ctx = *n_ctx,
                              .prefix_cache = 1,
                              .share_generated = !placement_has_phases(&g->placement) &&
                                                 !ops->asynchronous};
    return open_sized(g, &f, &s, e);
}

void engine_use(struct engine *g, const struct engine_options *o)
{
    g->o = o;
    g->n_seqs = o->n_seqs;
    g->n_microbatches = 1;
    g->entry = backend_find(o->backend);
}

void engine_stop(struct engine *g)
{
    microbatches_close(g);
    cards_close(g);
    sched_close(g->sched);
    prefix_store_close(g->store);
    forward_close(&g->forward);
    placement_close(&g->placement);
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
