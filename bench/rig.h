/* rig.h: a model opened for one configuration, with room in its KV cache and the batches of real
 * steps. Owns: the forward, the batch, the pages. Must not know: what is measured on it. */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include "bench/batches.h"
#include "bench/options.h"
#include "bench/probe.h"
#include "bench/work.h"
#include "cli/backends.h"
#include "core/step/forward.h"

struct rig_config {
    const struct backend *backend;
    const char *cpu; /* name in the ladder; of a GPU: the variant */
    int threads;     /* of a GPU: 0 */
    const char *library;
    int device;
    enum act act;
    enum kv_type kv;
};

/* The largest sizes of a run: each rig has room for them. */
struct rig_size {
    int max_rows, max_seqs;
    int n_pages; /* pages of the largest case: sequences * pages of one */
};

struct rig {
    struct rig_config config;
    struct forward forward;
    struct batch batch;
    struct rig_size size;
    int32_t *ints;      /* memory of the batch and of the page table */
    struct span *spans; /* [max_seqs] */
    uint8_t *wanted;    /* [max_seqs] */
};

/* Results of a step, for the last row of each sequence: nothing, the best token, or the logits that
 * a draw from the 40 largest takes. */
enum rig_output { RIG_NOTHING, RIG_BEST, RIG_SAMPLED };

struct rigs {
    int n;
    struct rig *rig; /* [n] in the order of the options: cpu, threads, act, kv */
};

/* The name in the ladder of a rung, "auto" being the fastest that this machine runs; NULL: there is
 * none such. */
const char *rig_rung(const char *name);
/* Measures the limits of the configuration's operations; of a GPU only the rate of its copies, its
 * peaks are infinite. */
int rig_limits(struct rig *r, struct probe_limits *l, struct err *e);
/* Prints them as one line. */
void rig_print_limits(const struct rig *r, const struct probe_limits *l);
/* Fills the KV cache with a constant. */
int rig_fill_kv(struct forward *f, struct err *e);
/* Pages that n_seqs sequences of so many positions take. */
int rig_pages(int n_seqs, int positions);
/* One rig for each configuration in *o. The KV cache is filled with a constant: pages that were
 * never written would all be read from the same zero page. */
int rigs_open(struct rigs *r, const struct model *m, const struct bench_options *o,
              const struct rig_size *size, struct err *e);
void rigs_close(struct rigs *r);
/* The batch of a step; it begins with n_seqs * rows fixed tokens. */
void rig_batch(struct rig *r, const struct step_shape *s, enum rig_output output);
/* The step of such a batch, begun (core/step/forward.h) or computed. */
void rig_begin(struct rig *r, const struct step_shape *s, enum rig_output output);
int rig_step(struct rig *r, const struct step_shape *s, enum rig_output output, struct err *e);

#endif
