/* plan_layers.h: the tensors of the language model: embedding, layers, norms, RoPE tables. Owns:
 * which tensors a model has, from the tables of plan_names.h. Must not know: formats of weights. */
#ifndef CONVERT_PLAN_LAYERS_H
#define CONVERT_PLAN_LAYERS_H

#include "convert/plan.h"

/* Adds the tensors of all layers. It may change c->ffn to the size in the tensors and fills
 * c->layer_scalar. */
int plan_layers(struct plan *p, struct hf_config *c, struct err *e);
/* Adds the layer that only drafts tokens, as layer number n_layers and tensors draft.*, and sets
 * c->draft; where the checkpoint has none, or not all of it, it adds nothing. */
int plan_draft_layer(struct plan *p, struct hf_config *c, struct err *e);
/* Adds the final norm, per-layer embeddings and RoPE tables. */
int plan_final_norm(struct plan *p, struct err *e);
int plan_rope_tables(struct plan *p, struct err *e);

#endif
