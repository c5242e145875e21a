/* costs.h: a model of time: what a step of a placement costs by the bytes of weights that it reads,
 * the operations on them, and the rows that change places, at assumed rates. Must not know: how a
 * placement is chosen, how costs are shown. */
#ifndef ENGINE_COSTS_H
#define ENGINE_COSTS_H

#include "engine/placement.h"

/* Rates. Those of several GPUs are an H200's, fitted to Llama-2-70B's and 7B's shapes on one, two
 * and four of them (docs/devices.md); beside a CPU any GPU is meant. */
struct costs {
    double gpu_bytes;  /* a second that a GPU reads */
    double gpu_ops;    /* operations a second of a GPU; 0: as many as the bytes need */
    double host_bytes; /* a second that all threads of the CPU read */
    double turn;       /* seconds of a change between a GPU and the CPU */
    double exchange;   /* seconds of an exchange of rows among GPUs, */
    double further;    /* and for each further one */
    double link;       /* bytes a second that a GPU gets in exchanges */
};
struct costs costs_of(const struct engine_options *o);

struct costs_step {
    int rows;
    double positions; /* of keys and values that are read, of all sequences together */
};

/* *seconds of a step, whose rows choose experts by chance. By layers the rows are as
 * many microbatches as there are GPUs, or as many as there are rows, which follow one another
 * through the GPUs (GPipe: Huang et al. 2019, section 2.3). */
int costs_seconds(const struct costs *c, const struct placement *p, const struct model *m,
                  const struct costs_step *step, double *seconds, struct err *e);

#endif
