/* prefix.h: the store of prompts on disk (core/sched/prefix_store.h) of an engine: what its
 * contents depend on beside tokens. Must not know: files. */
#ifndef ENGINE_PREFIX_H
#define ENGINE_PREFIX_H

#include "engine/engine.h"

/* Opens g->store as the options say, for the model and the forward that are open; without
 * --prefix-cache-dir it stays NULL. SUMS: engine_sums. */
int prefix_open(struct engine *g, const char *sums, struct err *e);
/* --prefix-cache-size, or the default. */
int prefix_size(const struct engine_options *o, uint64_t *bytes, struct err *e);

#endif
