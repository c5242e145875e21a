/* places.h: a plan on several open backends: its segments, and the rows that go from one to
 * another, by way of the host's memory. One step at a time. Owns: the backends of the places, their
 * memory. Must not know: rules of splits, what places compute on. */
#ifndef CORE_PLACES_H
#define CORE_PLACES_H

#include "core/run/place.h"
#include "core/step/split.h"

struct places {
    struct split split;
    struct be *be[PLACES];
    struct plan_memory memory[PLACES];
    struct be_plan **compiled; /* [split.n_items], NULL: a transfer */
    char *stage;               /* rows on their way, twice the largest transfer */
    struct err failed;         /* the first failure of a transfer in a step; empty: none */
};

/* Opens place 0 .. n-1 for a split plan, which must outlive the result. Errors: those of backends.
 */
int places_open(struct places **out, const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o, struct err *e);
/* What each place takes: need [want->n_places]. */
int places_need(const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o,
                struct forward_need *need, struct err *e);
void places_close(struct places *s);
/* As begin_step and run of a backend. */
void places_begin(struct places *s, const struct batch *b);
void places_end(struct places *s);
int places_wait(struct places *s, struct err *e);

#endif
