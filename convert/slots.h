/* slots.h: the mapping of a layer's inputs to slots of the packed rows. Owns: the interpretation of
 * g_idx; groups of equal size, each a multiple of 32, made by sorting, padding, splitting and (for
 * codes of more than 4 bits) doubling. Must not know: codes, files. */
#ifndef CONVERT_SLOTS_H
#define CONVERT_SLOTS_H

#include "core/base/err.h"

#include <stdint.h>

/* A group of the packed rows: its slots share the scale and zero of one source group and one nibble
 * plane. */
struct slot_group {
    int32_t source; /* group in the checkpoint; -1: none, its slots are 0 */
    int32_t high;   /* 1: the codes' high nibbles, with 16 times the scale */
};

struct slots {
    int64_t group, n_groups, k; /* k = group * n_groups */
    struct slot_group *groups;  /* [n_groups] */
    int32_t *perm;              /* [k] input of a slot, or -1 (padding) */
    int identity;               /* perm[j] == j for all, and k == in */
    int act_order;              /* inputs of the source groups are not consecutive */
    int low;       /* groups of the checkpoint before this one have codes of 4 bits, those from it
                      on two planes; 0: all have the same planes */
    int assumed;   /* no usable g_idx: the groups' inputs are assumed to be consecutive */
    int32_t *rank; /* [in] input i arrives at position rank[i]; NULL: i */
};

/* The groups of a layer in the checkpoint. */
struct slots_source {
    const int32_t *g_idx; /* [in] group of an input; NULL: i / group_size, with group_size as
                             declared, or in / n_groups rounded up */
    int64_t in, n_groups;
    int group_size; /* as declared; -1: one group, 0: unknown */
    int planes;     /* nibble planes of the codes: 1, or 2 for 5 to 8 bits */
    int low;        /* first groups whose codes have 4 bits all the same: 1 plane */
};
/* Computes the mapping. */
int slots_plan(struct slots *s, const struct slots_source *from, struct err *e);
/* Makes the inputs arrive sorted by group. order [in]: the input at position i. -1: no memory. */
int slots_sort(struct slots *s, int64_t in, int32_t *order);
/* Fills perm [k], the position of a slot's input, or -1. Returns 0 if perm is not needed: the
 * inputs arrive in place. */
int slots_arriving(const struct slots *s, int32_t *perm);
void slots_free(struct slots *s);

#endif
