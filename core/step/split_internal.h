/* split_internal.h: what split.c decides, split_build.c writes down.
 * Must not know: rules. */
#ifndef CORE_SPLIT_INTERNAL_H
#define CORE_SPLIT_INTERNAL_H

#include "core/step/split.h"

/* Columns at[q] .. at[q + 1] - 1 of each group of a row are place q's; no groups: not cut. */
struct cut {
    int groups;
    int at[PLACES + 1];
};

/* What is known of a buffer's rows. */
struct value {
    int written;    /* in this step; before, all places are taken to have it */
    unsigned whole; /* bit q: place q has whole rows */
    struct cut cut; /* every place has its columns, in a buffer of its own */
};

/* Buffer `number` of place q has its columns of a buffer. */
struct part {
    int q, buffer, number;
};

struct splitter {
    const struct step_plan *p;
    const struct split_want *want;
    struct split *out;
    struct value *value; /* [p->n_buffers] */
    char *kv_whole;      /* [p->n_kv] the cache is whole on every place */
    int pending[PLACES]; /* first operation of the place's next segment */
    struct part *part;
    int n_parts;
    int again, failed;
    struct err *e;
};

/* Elements of a row of the whole plan's buffer. */
static inline int split_width(const struct splitter *s, int buffer)
{
    return (int)(s->p->buffer[buffer].row_bytes / sizeof(float));
}

/* ---- split_build.c */
int split_begin(struct splitter *s);
void split_end_body(struct splitter *s);
void split_end(struct splitter *s);
void split_add_op(struct splitter *s, int q, const struct op *op);
/* Gives places (bit q: place q) whole rows of a buffer, by transfers to those that lack them, one
 * behind the other. */
void split_need(struct splitter *s, int buffer, unsigned places);
/* The number of the buffer for place q's columns of a buffer. */
int split_part(struct splitter *s, int q, int buffer, const struct cut *cut);
/* The number of the weight for n outputs of a linear or stack from `first` on. */
int split_rows(struct splitter *s, int q, int weight, int first, int n);
/* Makes an operation, which has place q's columns already, one of fewer heads or groups. */
void split_narrow(struct splitter *s, int q, struct op *op, const struct cut *out);
/* Cuts the segments out of the places' plans, with the last readers of results. */
int split_segments(struct splitter *s);
void split_free_plans(struct split *out);

#endif
