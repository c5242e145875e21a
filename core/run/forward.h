/* forward.h: a model on one backend, or on several places. Owns: the open backends, packed weights,
 * KV cache, buffers of the plan, the results of a step on the host. Must not know: sampling, text,
 * scheduling. */
#ifndef CORE_FORWARD_H
#define CORE_FORWARD_H

#include "core/model/model.h"
#include "core/step/backend.h"
#include "core/step/key_bias.h"

struct forward_options {
    const char *variant;     /* of struct be_config */
    int n_threads;           /* 0: as many as this process may use */
    const struct numa *numa; /* nodes to spread threads and weights over; NULL: not at all */
    int device;
    const char *own; /* of struct be_config */
    enum act act;
    enum kv_type kv;
    int n_pages;       /* KV pages of KV_PAGE positions, shared by all sequences */
    int max_rows;      /* rows of one step */
    int max_logits;    /* rows of logits of one step */
    int max_seqs;      /* sequences of one step */
    int max_pages;     /* pages of one sequence */
    int n_states;      /* slots of states; 0: max_seqs */
    int hidden;        /* 1: the last norm's rows may be downloaded (batch.hidden_row) */
    int keeps_drafts;  /* 1: seats keep what rows of drafts would change of states */
    int drafts;        /* 1: the model's layer that drafts tokens is there, too (forward_draft) */
    int show_progress; /* of packing the weights */
    /* Microbatches: runs of one model whose steps are apart, on the same linked places. While one
     * is in the layers of a device, others are in those of other devices, as in a pipeline (GPipe:
     * Huang et al. 2019). The first has the packed weights; the others name it as lender and are
     * closed before it. n_microbatches 0 or 1: there is no other. */
    int n_microbatches;
    const struct forward *lender; /* same model, places and split; NULL: this is the first */
    int context; /* most positions of a sequence of the run: chooses between the short and the
                    long frequencies of a model; 0: max_pages * KV_PAGE */
};

/* A backend of a run that has several, with the options of its own. */
struct forward_place {
    const struct backend *ops;
    const char *variant, *own;
    int n_threads, device;
    enum act act;
};

struct split_want;
struct places;
struct pool;

struct forward {
    const struct model *model;
    struct forward_options options;
    struct be *be;             /* of several places: place 0, which has the results */
    struct step_plan plan;     /* the model's plan without the operations that the backend lacks */
    struct key_biases biases;  /* of the plan */
    struct plan_memory memory; /* of the plan on the backend */
    struct be_plan *compiled;  /* NULL: of several places */
    struct places *places;     /* NULL: one place, the ordinary case */
    /* with options.drafts: plans of the first and of further drafting steps; their choices */
    struct step_plan draft_plan[2];
    struct be_plan *draft_compiled[2];
    int32_t *draft_best; /* [max_logits] */
    /* OP_SAMPLE by itself, and memory of the backend for its masks; NULL: forward_choose cannot */
    struct step_plan choice;
    struct be_plan *choice_compiled;
    uint32_t *d_masks;
    int n_later, n_scores; /* of the step that has begun last; n_later 0: it has begun whole */
    int32_t *best_view;    /* [3][max_logits] results of OP_ARGMAX on the host: part 0 mirrors the
                              device's, steps use parts 1 and 2 in turn */
    struct logits_score *score_view; /* the same of OP_SCORE; NULL where the backend lacks it */
    unsigned n_begun, n_ended;       /* steps */
    int logits_wanted; /* a step in flight downloads logits, results of OP_TOP or hidden rows */
    /* Results of the last ended step, on the host, for the rows of b->logit_row. */
    int32_t *best;            /* [n_logits] index of the largest logit, the lowest on ties; -1: a
                                 logit is NaN or the largest is not finite; of the rows of
                                 b->sample the chosen token */
    float *logits;            /* [n_logits][vocab], filled in the rows whose `wanted` is 1; valid
                                 until the next step begins */
    struct logits_entry *top; /* [n_top][OP_TOP_ROOM] of the rows of b->top_row, see OP_TOP (op.h);
                                 valid as long; NULL where the backend lacks OP_TOP */
    struct logits_score *score; /* [n_scores] of the rows of b->score */
    float *hidden;              /* [max_rows][dim] results of the last norm, filled in the rows
                                   b->hidden_row; valid as long; NULL without options.hidden */
};

/* Slots of states of these options. */
static inline int forward_n_states(const struct forward_options *o)
{
    return o->n_states ? o->n_states : o->max_seqs;
}

enum { FORWARD_MANY = 64 };
/* Bytes of the backend's memory that a run takes. */
struct forward_need {
    uint64_t weights; /* 0: they are read from the mapped file */
    uint64_t slots;   /* of steps: memory that experts come to (core/run/streams.h) */
    uint64_t away;    /* host memory for experts that come to the place (core/run/streams.h) */
    uint64_t mapped;  /* weights of the model file that the plan names */
    uint64_t read[2]; /* of these, what a step of 1 row and of FORWARD_MANY reads, where rows choose
                         experts by chance */
    uint64_t page;    /* one KV page in all layers */
    uint64_t state;   /* one slot of all states */
    uint64_t steps;   /* activations, logits, scratch, open pages */
};

void forward_need(const struct model *m, const struct backend *ops, const struct forward_options *o,
                  struct forward_need *n);
/* The same of places 0 .. want->n_places - 1: need [n_places]. */
int forward_need_places(const struct model *m, const struct forward_place *place,
                        const struct split_want *want, const struct forward_options *o,
                        struct forward_need *need, struct err *e);
/* Bytes that the backend can allocate now; 0: unknown. */
int forward_available(const struct backend *ops, const struct forward_options *o, uint64_t *bytes,
                      struct err *e);
/* Opens the backend, packs the weights, allocates and compiles. Error: among others, a model that
 * does not fit the memory of a GPU, with the sizes, before anything is allocated. */
int forward_open(struct forward *f, const struct model *m, const struct backend *ops,
                 const struct forward_options *o, struct err *e);
/* The same on places 0 .. want->n_places - 1, whose fields replace those of *o (core/step/split.h).
 * One step at a time, unless the backend links the places (backend.h). */
int forward_open_places(struct forward *f, const struct model *m, const struct forward_place *place,
                        const struct split_want *want, const struct forward_options *o,
                        struct err *e);
void forward_close(struct forward *f);
/* Open backends: place q of forward_n_places. */
int forward_n_places(const struct forward *f);
const struct be *forward_be(const struct forward *f, int q);
/* A second step may begin before the first has ended. */
int forward_overlaps(const struct forward *f);
/* The threads of a place that computes on the host; NULL: none does. */
struct pool *forward_pool(const struct forward *f);
/* Bytes of KV cache for n_pages of this model. */
uint64_t forward_kv_bytes(const struct model *m, const struct backend *ops, enum kv_type kv,
                          int n_pages);
/* Begins a step on *b, which may change afterwards; forward_end fills f->best, f->top and
 * f->logits. wanted [n_logits]: 1 where the row's logits are downloaded; NULL: nowhere. A second
 * step may begin before the first ends, if the first downloads neither logits nor results of
 * OP_TOP nor hidden rows. */
void forward_begin(struct forward *f, const struct batch *b, const uint8_t *wanted);
/* Computes a drafting step of the model's draft layer and waits for it: of row r of *b the token
 * that may come behind b->token[r], for the rows of b->logit_row into f->draft_best, -1: none. What
 * the model's last norm left of the position before that token is row r of the last step, which has
 * ended; with `again` it is row r of logits of the last drafting step. b->pos and b->slot are those
 * of the position before. Results of the last step stay as they are. */
int forward_draft(struct forward *f, int again, const struct batch *b, struct err *e);
/* 1: the backend has OP_SAMPLE: f->best has the tokens of the rows of b->sample. */
int forward_samples(const struct forward *f);
/* Ends the beginning of a step with b->n_later > 0, which has no end before: the tokens of the rows
 * of c->sample, of which c has no other rows, are chosen under masks [n_masks][(vocab + 31) / 32],
 * at most max_logits of them. */
void forward_choose(struct forward *f, const struct batch *c, const uint32_t *masks, int n_masks);
/* 1: tokens can be chosen so. */
int forward_chooses(const struct forward *f);
/* 1: the backend has OP_SCORE. */
int forward_scores(const struct forward *f);
/* Row i of b->top_row: 1 when all results of OP_TOP had room; their number, 0 when they had not. */
int forward_has_top(const struct forward *f, int i);
int forward_n_top(const struct forward *f, int i);
/* Downloads further rows of logits of the last ended step into f->logits, those whose wanted [n] is
 * 1. No step may have begun since. */
int forward_fetch(struct forward *f, const uint8_t *wanted, int n, struct err *e);
/* 1 when forward_end would not wait: there is a step in flight, and it has ended or failed. */
int forward_ready(struct forward *f);
/* Waits for the oldest step in flight. -1: the backend failed, in this or another step. */
int forward_end(struct forward *f, struct err *e);
int forward_step(struct forward *f, const struct batch *b, const uint8_t *wanted, struct err *e);

#endif
