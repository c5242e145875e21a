/* engine.h: the model, its forward and its scheduler for a batch, sized by the options and the
 * machine's memory. Must not know: records, files of answers. */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include "cli/options.h"
#include "core/sched/scheduler.h"

struct engine {
    struct forward forward;
    struct sched *sched;
    char backend[16], instructions[64]; /* of the backend: its name, what it computes with */
};

/* Context of a run: -c, or the model's. */
int engine_context(const struct options *o, const struct model *m);
/* A note on stderr when -c is more than the positions that the model was made for. */
void engine_say_context(const struct options *o, const struct model *m);
/* Sizes and opens forward and scheduler; says on stderr what they take. */
int engine_open(struct engine *g, const struct options *o, const struct model *m, struct err *e);
void engine_close(struct engine *g);

#endif
