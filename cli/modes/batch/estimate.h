/* estimate.h: how long requests take one after the other as the scheduler runs them: decode rows,
 * then prompt rows up to a budget. From what each computes and what a step costs. Must not know:
 * records, models, how a cost is found. */
#ifndef CLI_MODES_BATCH_ESTIMATE_H
#define CLI_MODES_BATCH_ESTIMATE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { ESTIMATE_POINTS = 6 };

/* Seconds of a step by its rows; between points and behind the last one a straight line. */
struct estimate_curve {
    int n, rows[ESTIMATE_POINTS]; /* ascending */
    double seconds[ESTIMATE_POINTS];
};

struct estimate_costs {
    struct estimate_curve decode, prompt; /* of decode rows alone, of prompt rows alone */
    double attend; /* of a decode row, for each position of its context behind that of `decode` */
    int context;
};

/* One choice: positions of its prompt, those of them that are computed, tokens generated. */
struct estimate_request {
    int32_t n_prompt, n_computed, n_generated;
};

struct estimate_limits {
    int n_seqs, n_batch, n_pages;
};

struct estimate_times {
    double prompts, answers; /* seconds; a step of both counts for answers as far as it would
                                without prompt rows */
    uint64_t n_steps;
};

/* Adds a point; a step of more rows takes no less. */
void estimate_add(struct estimate_curve *c, int rows, double seconds);
double estimate_step(const struct estimate_costs *c, int decode_rows, int prompt_rows);
/* Runs the requests r [n], which are brought into the order in which they start. */
int estimate_run(struct estimate_request *r, size_t n, const struct estimate_limits *l,
                 const struct estimate_costs *c, struct estimate_times *t, struct err *e);

#endif
