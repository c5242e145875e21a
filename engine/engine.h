/* engine.h: a model, its tokenizer, the backend and the scheduler, opened as the options and the
 * machine's memory say: for one prompt, a batch, an evaluation, the library. Owns: all of them.
 * Must not know: command lines, records, prompts' texts, files of answers. It prints nothing. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backends.h"
#include "engine/engine_options.h"
#include "engine/placement.h"
#include "core/sched/replicas.h"
#include "core/text/tokenizer.h"

/* Bytes that an open engine took. */
struct engine_memory {
    uint64_t model, cache, states, steps;
};

struct engine {
    uint64_t mapped; /* bytes of the model file, where the weights stay in its mapping; else 0 */
    const struct engine_options *o;
    const struct backend_entry *entry;
    struct model model;
    struct tokenizer *tokenizer; /* NULL: the checkpoint has none */
    struct placement placement;  /* of the open backends */
    struct forward forward;
    struct sched *sched; /* of the first card */
    /* All schedulers of engine_open; NULL otherwise. cards [n_cards]: those beside the first card.
     */
    struct replicas *replicas;
    int n_whole; /* cards that have all of the model, or its places: 1 but in data mode */
    struct engine_card *cards;
    int n_cards;
    /* Of a run by layers (microbatches.h), else 1; [n_microbatches - 1] those beside the first. */
    int n_microbatches;
    struct engine_microbatch *microbatches;

    struct prefix_store *store;  /* prompts on disk; NULL: none */
    struct engine_memory memory; /* of engine_open; stays when the engine is stopped */
    int n_seqs;                  /* sequences that run at once, chosen by engine_open */
    int longest_first;           /* the caller's, before engine_open: of sched_options */
    int hidden; /* the caller's, before engine_open: rows of the last norm may be handed out */
    /* The instructions or device of the backend: for reports, and for engine_sums. */
    char identity[160];
    char own[BACKEND_OWN_BYTES]; /* of the open backend's be_config.own */
};

/* One sequence: its prompt's tokens, all positions that it may fill, and rows whose logits are
 * wanted in one step. */
struct engine_one {
    int n_prompt, n_positions, n_logits;
};

/* Replaces "auto" and fills in rows and sequences: the best backend that this machine can run; then
 * the fastest arithmetic whose error is not above that of fp16 activations (docs/performance.md).
 * Before it, the mode of nodes takes effect. */
int engine_settle(struct engine_options *o, struct err *e);

/* Opens model file PATH and its tokenizer. Of settled options, which must outlive the engine. */
int engine_open_model(struct engine *g, const char *path, const struct engine_options *o,
                      struct err *e);
/* Opens backend and scheduler for all sequences with a context each, and the KV pages that the
 * memory gives, on each of several cards; notes what they take. */
int engine_open(struct engine *g, struct err *e);
/* Opens them for one sequence. */
int engine_open_one(struct engine *g, const struct engine_one *one, struct err *e);
/* Opens them for a conversation: one sequence at a time, whose keys and values stay for the next;
 * *n_ctx receives the context, which is the model's or less where memory is short. */
int engine_open_conversation(struct engine *g, int *n_ctx, struct err *e);
/* Takes other settled options for the backend, which is not open. */
void engine_use(struct engine *g, const struct engine_options *o);
/* Closes backend and scheduler alone. */
void engine_stop(struct engine *g);
/* Also of an engine that was opened in part, or only zeroed. */
void engine_close(struct engine *g);

/* Context of a run: that of the options, or the model's. */
int engine_context(const struct engine *g);
/* Notes a context of more positions than the model was made for. */
void engine_say_context(const struct engine *g);
/* The instructions or device on which the bytes of answers depend, beside backend and arithmetic;
 * NULL: on none, because all sums are exact. */
const char *engine_sums(const struct engine *g);
/* The backend whose order of operations the bytes have: in the integer arithmetics all have the
 * CPU's (docs/numerics.md). */
const char *engine_order(const struct engine *g);

/* Bytes of the open KV cache. */
uint64_t engine_cache_bytes(const struct engine *g);

#endif
