/* runner.h: the operations of a plan over all rows of the calibration, some operations at a time:
 * what later operations read is kept between. A step is a sequence, on a device several. Owns: an
 * open backend, the memory of the part that runs, the rows. Must not know: what happens between two
 * parts. */
#ifndef QUANTIZE_RUNNER_H
#define QUANTIZE_RUNNER_H

#include "core/step/backend.h"
#include "quantize/rows.h"

struct runner_want {
    const struct step_plan *plan; /* its linears may change between two parts */
    const int32_t *token;         /* [n_tokens], sequences of `sequence` but the last */
    int n_tokens, sequence, n_threads;
    uint64_t mem;       /* bytes of rows in the host's memory; the rest lies in a file */
    const char *folder; /* of that file */
    int device;         /* of a GPU */
    const char *own;    /* be_config.own */
};

struct runner {
    struct runner_want want;
    const struct backend *ops;
    struct be *be;
    struct plan_memory memory;
    struct rows rows;
    struct batch batch;
    int32_t *ints; /* arrays of the batch */
    void **taken;  /* [n_weights] memory of changed linears */
    void **own;    /* [n_buffers] buffers of a step that are in no rows */
    int distinct; /* sequences have pages of their own: a cache outlives an operation that is cut */
    int at_once;  /* sequences of a step */
    int n_pages;  /* of a cache */
    int at;       /* the next operation */
};

int runner_open(struct runner *r, const struct backend *ops, const struct runner_want *want,
                struct err *e);
void runner_close(struct runner *r);
/* Runs the operations up to, but without, number `to`, of all rows. The buffers that this and later
 * operations read are in r->rows then. step: called after each sequence with the work done. */
int runner_go(struct runner *r, int to, int (*step)(void *self, double work, struct err *e),
              void *self, struct err *e);
/* Before an operation whose input rows are changed in place: *copy, of malloc, is what they were,
 * if operations behind it read the buffer, too, else NULL. runner_give_back puts it there, and
 * frees it. */
int runner_keep(struct runner *r, int buffer, void **copy, struct err *e);
void runner_give_back(struct runner *r, int buffer, void *copy);
/* Takes over the memory that linear `weight` has from now on; it is freed once it has run. */
int runner_take(struct runner *r, int weight, void *memory, struct err *e);
/* Work, in multiply-adds: of quantizing linear k of an operation; of all, up to operation `last`.
 */
double runner_cost_of(const struct runner *r, const struct op *op, int k);
double runner_cost(const struct runner *r, int last);

#endif
