/* drafts.h: generation with drafts by the model's draft layer (docs/speculation.md), of which a
 * share is taken to be right, since that of made-up weights is none. Must not know: time. */
#ifndef BENCH_DRAFTS_H
#define BENCH_DRAFTS_H

#include "bench/setup.h"

/* Tokens of a draft, at most. */
enum { BENCH_DRAFTS = 3 };

struct draft_run {
    int n_seqs, depth, n_gen; /* each sequence generates so many tokens on average */
    int drafts;               /* tokens of each draft */
    double accept;            /* probability that one is right, if those before it were */
};
/* Positions that a sequence of such a run may reach. */
int draft_run_positions(int depth, int n_gen);
/* Computes all steps, each with its drafting steps behind it. */
int draft_run_steps(struct setup *r, const struct draft_run *d, struct err *e);

#endif
