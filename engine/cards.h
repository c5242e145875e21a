/* cards.h: the further cards of a run in which each has all of the model (data mode): weights,
 * pages and a scheduler for each, beside those of the engine. Owns: all of them, and g->replicas.
 * Must not know: how much memory a card has, requests. */
#ifndef ENGINE_CARDS_H
#define ENGINE_CARDS_H

#include "engine/engine.h"

/* Begins to pack the weights on the cards but the first, whose forward the engine opens meanwhile.
 * f [g->n_whole]: by card. */
int cards_begin(struct engine *g, const struct forward_options *f, struct err *e);
/* Waits for that, opens the schedulers beside g->sched, and g->replicas of all. RC: what became of
 * the first card; *e: its error. SUMS: engine_sums of it; if not NULL the cards must be alike. */
int cards_end(struct engine *g, const struct sched_options *s, const char *sums, int rc,
              struct err *e);
/* Ahead of g->sched, whose threads they share. */
void cards_close(struct engine *g);
/* The open backend of card number i. */
const struct be *cards_be(const struct engine *g, int i);
/* "GPU 1: " in front of a message about card number i, where there are several. -1. */
int cards_say(const struct engine *g, int i, struct err *e);

#endif
