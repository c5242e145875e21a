/* key_bias.h: large biases of keys as a term of scores. A bias of hundreds, as Qwen2's models have,
 * makes the steps of keys in integers coarse for everything else. So the linear of keys loses it,
 * and attention adds q R(p) b to the score of position p, where R(p) is RoPE's rotation: exact but
 * for fp32. Owns: which pairs of a head count as large, the tables. Must not know: backends. */
#ifndef CORE_KEY_BIAS_H
#define CORE_KEY_BIAS_H

#include "core/step/kv_format.h"
#include "core/step/plan.h"

/* What the plan points to besides the model's weights. */
struct key_biases {
    struct weight *weight; /* the plan's, NULL: the plan has the model's */
    float **part;          /* biases and tables */
    int n_parts;
};

/* Changes a plan whose operations are its own, for keys and values of kind kv and sequences of up
 * to n_positions: linears of keys lose the pairs of their biases that are large, OP_ATTEND gets
 * them. Nothing happens where kv has no integers, keys are normed, or no pair is large. */
int key_biases_take(struct key_biases *k, struct step_plan *p, enum kv_type kv, int n_positions,
                    struct err *e);
/* Behind the plan's last use. */
void key_biases_free(struct key_biases *k);

#endif
