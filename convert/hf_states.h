/* hf_states.h: the configuration of families with Mamba-2 or short convolutions. Private to hf_*.c.
 */
#ifndef CONVERT_HF_STATES_H
#define CONVERT_HF_STATES_H

#include "convert/hf_family.h"

/* num_hidden_layers where it is missing: of some families a list or a pattern says it. */
int hff_n_layers(const struct hf_family *f, const json_t *config);
/* The key of the size of a head: "head_dim", or another one of Nemotron's. */
const char *hff_head_dim_key(const struct hf_family *f, const json_t *config);
/* Kinds of layers, sizes, factors, and the traits that they switch on or off: before RoPE. */
int hff_states(struct hf_config *c, const json_t *config, struct err *e);
/* What differs of experts, after hff_layers(). before: widths as hff_states() left them. */
struct hf_widths {
    int ffn, shared;
};
int hff_state_experts(struct hf_config *c, const json_t *config, const struct hf_widths *before,
                      struct err *e);

#endif
