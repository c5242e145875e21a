/* capture.h: the inputs of the linears of one layer, handed to a function while a plan runs: what a
 * quantizer needs. One layer at a time, so memory is that of a step and one input.
 * Owns: the part of the plan up to the layer's last linear. Must not know: what the inputs are for,
 * weights, where the backend computes. */
#ifndef CORE_CAPTURE_H
#define CORE_CAPTURE_H

#include "core/step/backend.h"

/* The input of one operation of kind OP_LINEAR, all of whose weights w[0 .. n-1] have it, or the
 * rows of it that one expert's linears get. */
struct capture_rows {
    const struct op *op; /* names weights of the plan */
    int expert;          /* number in the stacks; -1: OP_LINEAR */
    int n, width;
    const float *x;     /* [n][width] */
    const int32_t *row; /* [n] rows of the batch, for the head rows of logits, ascending */
    const struct batch *batch;
};
/* -1 ends the step, with *e set. */
typedef int capture_fn(void *self, const struct capture_rows *r, struct err *e);

struct capture;
/* What is captured: plan and memory of an open backend `be`, both constant up to capture_close. */
struct capture_of {
    struct be *be;
    const struct step_plan *plan;
    const struct plan_memory *memory;
    int max_rows; /* of a step */
    int layer;    /* -1: linears of no layer, as the head */
};

/* Error: the plan has no linear in this layer. */
int capture_open(struct capture **out, const struct capture_of *of, capture_fn *fn, void *self,
                 struct err *e);
/* A step of its own, of which no others may be in flight: runs the operations up to the layer's
 * last linear; keys, values and states of the layers up to it are stored as always. Operations of
 * rows of logits run where b->n_logits > 0. */
int capture_step(struct capture *c, const struct batch *b, struct err *e);
void capture_close(struct capture *c);

#endif
