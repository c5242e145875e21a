/* plan_rows.h: which outputs of a module of the checkpoint a linear of the model file takes, and in
 * which order. Owns: the meaning of enum row_pick, the order of a head's elements. Must not know:
 * names, formats of weights. */
#ifndef CONVERT_PLAN_ROWS_H
#define CONVERT_PLAN_ROWS_H

#include "convert/plan_names.h"

struct layer {
    int number;
    const char *source; /* in front of its tensors; NULL: "layers.NUMBER." behind the prefix */
    uint64_t traits;    /* enum hf_trait and LAYER_* */
    int64_t size[N_SIZES];
};

/* Fills the sizes of layer l->number. */
void rows_sizes(struct layer *l, const struct hf_config *c);
/* *rows [l->size[rule->out]], of HEADS of all heads one after the other: the module's outputs that
 * the rule takes; NULL: all in order. *total:
 * outputs of the module. The caller frees *rows. */
int rows_pick(const struct layer *l, const struct hf_config *c, const struct linear_rule *rule,
              int32_t **rows, int64_t *total, struct err *e);
/* 1 if heads of q and k are in the order of the model file's RoPE. */
int rows_keep_order(const struct hf_config *c);
/* Element of the source that is element d of a head of `dim`. */
int64_t rows_rope_source(const struct hf_config *c, int64_t dim, int64_t d);
/* The same of a key of the indexer (PICK_INDEX_KEY). */
int64_t rows_index_source(const struct hf_config *c, int64_t d);

#endif
