/* split_table.h: what lies where in a run on a GPU and the CPU, or on several GPUs, and what other
 * choices would cost by a model of time (costs.h), as lines for people. Must not know: how a choice
 * is made. */
#ifndef ENGINE_SPLIT_TABLE_H
#define ENGINE_SPLIT_TABLE_H

#include "engine/placement.h"

/* Hands the lines to o->note; *f has the sizes of the run. Nothing where GPUs alone or the CPU
 * alone compute, unless o->survey. */
int split_table_say(const struct placement *p, const struct model *m,
                    const struct engine_options *o, const struct forward_options *f, struct err *e);

#endif
