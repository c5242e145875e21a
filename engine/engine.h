/* engine.h: a model, its tokenizer, the backend and the scheduler, opened as the options and the
 * machine's memory say: for one prompt, a batch and an evaluation. Owns: all of them.
 * Must not know: records, prompts' texts, files of answers. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/backends.h"
#include "cli/options.h"
#include "core/sched/scheduler.h"
#include "core/text/tokenizer.h"

struct engine {
    const struct options *o;
    const struct backend_entry *entry;
    struct model model;
    struct tokenizer *tokenizer; /* NULL: the checkpoint has none */
    struct forward forward;
    struct sched *sched;
    int hidden; /* the caller's, before engine_open: rows of the last norm may be handed out */
    /* The instructions or device of the backend: for reports, and for engine_sums. */
    char identity[64];
    char own[BACKEND_OWN_BYTES]; /* of the open backend's be_config.own */
};

/* One sequence: its prompt's tokens, all positions that it may fill, and rows whose logits are
 * wanted in one step. */
struct engine_one {
    int n_prompt, n_positions, n_logits;
};

/* Replaces "auto" in --backend and --act and fills in -b and -np: a backend that an option of its
 * own asks for, else the best that this machine can run; then the fastest arithmetic whose error is
 * not above that of fp16 activations (docs/performance.md). Before it, --numa takes effect. */
int engine_settle(struct options *o, struct err *e);

/* Opens model and tokenizer; --check-tensors compares the tensors. Of settled options, which must
 * outlive the engine. */
int engine_open_model(struct engine *g, const struct options *o, struct err *e);
/* Opens backend and scheduler for -np sequences of a context each, with the KV pages that --mem or
 * the free memory gives; says on stderr what they take. */
int engine_open(struct engine *g, struct err *e);
/* Opens them for one sequence. */
int engine_open_one(struct engine *g, const struct engine_one *one, struct err *e);
/* Opens them for a conversation: one sequence at a time, whose keys and values stay for the next;
 * *n_ctx receives the context, which is the model's or less where memory is short. */
int engine_open_conversation(struct engine *g, int *n_ctx, struct err *e);
/* Also of an engine that was opened in part, or only zeroed. */
void engine_close(struct engine *g);

/* Context of a run: -c, or the model's. */
int engine_context(const struct engine *g);
/* A note on stderr when -c is more than the positions that the model was made for. */
void engine_say_context(const struct engine *g);
/* -v: more about the open backend, on stderr. */
void engine_say_variants(const struct engine *g);
/* The instructions or device on which the bytes of answers depend, beside backend and arithmetic;
 * NULL: on none, because all sums are exact. */
const char *engine_sums(const struct engine *g);
/* The backend whose order of operations the bytes have: in the integer arithmetics all have the
 * CPU's (docs/numerics.md). */
const char *engine_order(const struct engine *g);

#endif
