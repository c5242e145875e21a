/* split.h: a plan that runs on several places becomes a plan for each of them, cut into segments
 * with transfers of rows between. Linears are split by outputs, attention by heads, experts by
 * layers or by outputs: every sum is computed on one place, so results do not depend on their
 * number. Owns: which operation runs where, the plans of the places. Must not know: what a place
 * is. */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

#include "core/step/plan.h"

/* SPLIT_LAYERS   layer l is computed by the last place whose first_layer is at most l, or by
 *                of_layer[l], its OP_EXPERTS to OP_MIX by of_experts[l]; attention to keys and
 *                values of an earlier layer where these are
 * SPLIT_OUTPUTS  every place computes its share of the outputs of each linear and stack and, of
 *                attention, its share of the KV heads, where each has one; the rest is computed on
 *                every place (tensor parallelism)
 * SPLIT_EXPERTS  OP_EXPERTS to OP_MIX of layer l are computed by the last place whose first_layer
 *                is at most l, all else by place 0
 * Operations of no layer that read rows of logits, and OP_EMBED, are computed by place 0, which has
 * all results that are read after a step. */
enum split_rule { SPLIT_LAYERS, SPLIT_OUTPUTS, SPLIT_EXPERTS };

struct split_want {
    enum split_rule rule;
    int n_places;            /* 2 to PLACES */
    int first_layer[PLACES]; /* ascending, first_layer[0] 0; without SPLIT_OUTPUTS */
    int streams;     /* steps of many rows are computed by place 0, to which the experts of other
                        places come (core/run/streams.h): all layers are its own */
    int stream_rows; /* from so many rows on; 0: where it takes less time, as steps are timed */
    const uint8_t *of_layer, *of_experts; /* [layers] places, instead of first_layer; or NULL */
};

/* Elements column .. column + n_columns - 1 of each group of a row, which are all of the buffer
 * `buffer` of place `from`. */
struct transfer_piece {
    int from, buffer, column, n_columns;
};
/* Rows of a buffer of a place are made of those of others, or of its own. */
struct transfer {
    int to, buffer;
    enum rows_of rows;
    int groups, width; /* a row of the buffer has so many groups of `width` elements of 4 bytes */
    int n;
    struct transfer_piece piece[PLACES];
};
/* A segment, or a transfer where n_ops is 0. */
struct split_item {
    int place, first, n_ops; /* operations of the place's plan */
    struct step_plan plan;   /* the segment: a slice of it */
    struct transfer transfer;
};
struct split {
    int n_places;
    /* What a place owns: operations, buffers, weights (views), KV caches and states of its own.
     * Numbers of the whole plan stand for the same, where the place uses them; parts have further
     * numbers. */
    struct step_plan plan[PLACES];
    struct split_item *item; /* in order of execution */
    int n_items, n_body;     /* items n_body and above where logits are read */
};

/* The result refers to *p, which must outlive it. */
int split_plan(const struct step_plan *p, const struct split_want *want, struct split *out,
               struct err *e);
void split_free(struct split *s);
/* The plans of the places with OP_EXCHANGE for every transfer, for places that a backend links
 * (backend.h): out [n_places], which own their operations only (step_plan_free_slice) and refer to
 * *s. The exchanges of two places come in the same order in both. */
int split_link(const struct split *s, struct step_plan *out, struct err *e);

#endif
