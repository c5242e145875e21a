/* slots.h: which input of a layer goes to which place of our packed rows. Owns: the reading of
 * g_idx; groups of equal size, each a multiple of 32, made by sorting, padding, splitting and (for
 * codes wider than 4 bits) doubling. Must not know: codes, files. */
#ifndef CONVERT_SLOTS_H
#define CONVERT_SLOTS_H

#include "core/base/err.h"

#include <stdint.h>

/* One group of our rows: all its slots share the scale and zero of one source group and one nibble
 * plane. */
struct slot_group {
    int32_t source; /* group in the checkpoint */
    int32_t high;   /* 1: the codes' high nibbles, with 16 times the scale */
};

struct slots {
    int64_t group, n_groups, k; /* k = group * n_groups */
    struct slot_group *groups;  /* [n_groups] */
    int32_t *perm;              /* [k]: input or -1 */
    int identity;               /* perm[j] == j for all, and k == in */
    int act_order;              /* inputs of the source groups are not consecutive */
    int assumed;                /* no usable g_idx says which inputs the several groups have */
    int32_t *rank;              /* [in], input i arrives as number rank[i]; NULL: i */
};

/* G_IDX [in] or NULL (then input i is in group i / group_size, group_size as said or in / n_source,
 * rounded up). SAID: group_size of the configuration, -1 = one group, 0 = unknown. PLANES: 1, or 2
 * for codes of 5 to 8 bits. */
int slots_plan(struct slots *s, const int32_t *g_idx, int64_t in, int64_t n_source, int said,
               int planes, struct err *e);
/* Lets the inputs arrive sorted by group. order [in]: which input arrives as number i. -1: no
 * memory. */
int slots_sort(struct slots *s, int64_t in, int32_t *order);
/* What is to be done with inputs as they arrive, perm [k]: number or -1. 0: nothing, they are in
 * place. */
int slots_arriving(const struct slots *s, int32_t *perm);
void slots_free(struct slots *s);

#endif
