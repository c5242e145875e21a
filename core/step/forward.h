/* forward.h: the transformer, written once over the backend table: a model packed for one backend,
 * its KV pages and the activations of one step. Must not know: sampling, text, where rows come
 * from. */
#ifndef CORE_FORWARD_H
#define CORE_FORWARD_H

#include "core/step/backend.h"
#include "core/model/model.h"

struct forward_options {
    const char *variant; /* backend's own choice, e.g. --cpu */
    int n_threads;       /* 0: as many as this process may use */
    const char *library; /* GPU runtime, NULL: the known ones */
    int device;
    int wait_seconds; /* after which a GPU counts as hung, 0: the backend's own choice */
    enum act act;
    enum kv_type kv;
    int n_pages;    /* KV pages of KV_PAGE positions, shared by all sequences */
    int max_rows;   /* rows of one step */
    int max_logits; /* rows of one step whose logits are wanted */
    int max_seqs; /* sequences of one step, and pages of one of them; a backend may size its arrays
                     by these */
    int max_pages;
};

struct forward_layer {
    struct be_linear *linear[LIN_COUNT];
    float *d_input_norm, *d_post_norm; /* [dim] */
    float *d_q_norm, *d_k_norm;        /* [head_dim] or NULL */
    void *d_kv;                        /* [n_pages] pages */
};

struct forward {
    const struct model *model;
    struct forward_options options;
    struct be *be;
    struct forward_layer *layers;
    struct be_linear *embed, *head; /* the same when tied */
    float *d_norm;                  /* [dim] */
    float *d_x, *d_h,
        *d_delta;         /* [max_rows][dim] residual stream, normed input, what a block adds */
    float *d_q, *d_a;     /* [max_rows][n_heads*head_dim] */
    float *d_k, *d_v;     /* [max_rows][n_kv_heads*head_dim] */
    float *d_gate, *d_up; /* [max_rows][ffn] */
    float *d_last;        /* [max_logits][dim] */
    float *d_logits;      /* [max_logits][vocab] */
    struct logits_entry *d_top; /* [max_logits][BE_TOP_ROOM]; NULL where the backend has no `top` */
    int32_t *d_best;    /* [3][max_logits]: of the last step; the others only give their size to: */
    int32_t *best_view; /* [3][max_logits] the host's; steps take turns with the second and the
                           third part */
    unsigned n_begun, n_ended; /* steps */
    int logits_wanted; /* or what `top` leaves of them, by a step that was begun and not ended */
    /* What the last step that was ended hands out of the rows of b->logit_row, on the host: */
    int32_t *best; /* [n_logits] the largest logit's index, the lowest on ties; -1: one is NaN or
                      the largest is not finite */
    float *logits; /* [n_logits][vocab] of the rows for which they were wanted; until the next step
                      begins */
    struct logits_entry *top; /* [n_top][BE_TOP_ROOM] of the rows of b->top_row, as `top` says
                                  (backend.h); until then, too */
};

/* Bytes that a run takes of the backend's memory. */
struct forward_need {
    uint64_t weights; /* 0: they are read from the mapped file */
    uint64_t page;    /* one page of positions, all layers */
    uint64_t steps;   /* activations, logits, scratch */
};

void forward_need(const struct model *m, const struct backend *ops, const struct forward_options *o,
                  struct forward_need *n);
/* What the backend could allocate now, 0: it cannot tell. */
int forward_available(const struct model *m, const struct backend *ops,
                      const struct forward_options *o, uint64_t *bytes, struct err *e);
/* A model that does not fit into memory of its own (a GPU's) is refused with the sizes before
 * anything is allocated. */
int forward_open(struct forward *f, const struct model *m, const struct backend *ops,
                 const struct forward_options *o, struct err *e);
void forward_close(struct forward *f);
/* Bytes of KV cache for n_pages of this model. */
size_t forward_kv_bytes(const struct model *m, enum kv_type kv, int n_pages);
/* Begins a step: stores keys and values of all rows, and will fill f->best, f->top and f->logits.
 * Logits are many bytes: they leave the backend only where wanted [n_logits] is 1 (NULL: nowhere).
 * One more may begin before a step ends that wants neither logits nor what `top` leaves of them. *b
 * may change at once. */
void forward_begin(struct forward *f, const struct batch *b, const uint8_t *wanted);
/* For row i of b->top_row: whether there was room for what `top` left, and how many logits that is,
 * else 0. */
int forward_has_top(const struct forward *f, int i);
int forward_n_top(const struct forward *f, int i);
/* Fills f->logits of further rows of the step that was ended last: wanted [n]. None was begun
 * since. */
int forward_fetch(struct forward *f, const uint8_t *wanted, int n, struct err *e);
/* Waits for the oldest step begun. -1: the backend failed, in whichever step. */
int forward_end(struct forward *f, struct err *e);
int forward_step(struct forward *f, const struct batch *b, const uint8_t *wanted, struct err *e);

#endif
