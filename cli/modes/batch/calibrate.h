/* calibrate.h: what steps of an open engine cost: a few made-up requests, timed step by step. Must
 * not know: records, files. */
#ifndef CLI_MODES_BATCH_CALIBRATE_H
#define CLI_MODES_BATCH_CALIBRATE_H

#include "cli/modes/batch/estimate.h"
#include "core/sample/sampler.h"
#include "engine/engine.h"

/* What the run is like, so that what is timed is, too. */
struct calibrate_like {
    int n_prompt; /* tokens that a request computes of its prompt */
    int context;  /* positions before a token that is generated; 0: none is generated */
    int n_seqs, n_batch, n_ctx;
    int n_top;                      /* of requests */
    struct sampler_params sampling; /* without lists */
};

/* Takes about CALIBRATE_SECONDS, or a few steps where these take longer. -1: *e. */
#define CALIBRATE_SECONDS 3.0
int calibrate(struct engine *g, const struct calibrate_like *like, struct estimate_costs *c,
              struct err *e);

#endif
