/* streams.h: a plan on one place, to whose memory the experts of some layers come for each step,
 * while the layers before them are computed: for steps of many rows, where another place would take
 * longer to compute them. Owns: its segments, the stacks that are away. Must not know: when a step
 * is computed so. */
#ifndef CORE_STREAMS_H
#define CORE_STREAMS_H

#include "core/run/place.h"
#include "core/step/split.h"

struct streams;

/* Of plan *p, the experts of whose layers with of_experts[l] != 0 are away; *memory: of all the
 * rest on backend be. Both must outlive the result. */
int streams_open(struct streams **out, struct be *be, const struct step_plan *p,
                 const uint8_t *of_experts, const struct plan_memory *memory,
                 const struct forward_options *o, struct err *e);
void streams_close(struct streams *s);
/* Bytes that it takes of the backend's memory; *host: of the host's. */
uint64_t streams_need(const struct step_plan *p, const uint8_t *of_experts,
                      const struct backend *ops, uint64_t *host);
/* As run of a backend. */
void streams_run(struct streams *s);
/* Seconds in which all stacks come. */
double streams_seconds(const struct streams *s);

#endif
