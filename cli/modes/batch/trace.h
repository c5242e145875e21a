/* trace.h: --trace: steps and requests as Chrome trace events (chrome://tracing, Perfetto), written
 * as they happen. Format: "Trace Event Format" of the Chromium project, JSON array form. Must not
 * know: what is computed. */
#ifndef CLI_MODES_BATCH_TRACE_H
#define CLI_MODES_BATCH_TRACE_H

#include "core/sched/replicas.h"

struct trace;

/* PATH NULL: *t is NULL and every call does nothing. */
int trace_open(struct trace **t, const char *path, struct err *e);
/* One step of card number CARD from START to END (seconds), and the scheduler's state after it. */
void trace_step(struct trace *t, int card, double start, double end, const struct sched_stats *s);
/* Something beside the steps. */
void trace_span(struct trace *t, const char *what, double start, double end);
/* A request's life; INDEX names it. */
void trace_request(struct trace *t, uint64_t index, double start, double first_token, double end,
                   int prompt, int generated);
/* Reports a failed write, also of earlier calls. */
int trace_close(struct trace *t, struct err *e);

#endif
