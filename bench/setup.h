/* setup.h: a model opened for one configuration (backend, variant, threads, arithmetic, KV type),
 * its KV cache and the batch of its steps. Owns: struct forward, the batch, the pages.
 * Must not know: measurements. */
#ifndef BENCH_SETUP_H
#define BENCH_SETUP_H

#include "bench/batches.h"
#include "bench/options.h"
#include "bench/probe.h"
#include "bench/cost.h"
#include "engine/backends.h"
#include "engine/placement.h"
#include "core/run/forward.h"

struct setup_config {
    const struct backend *backend;
    const char *cpu; /* name of the variant */
    int threads;     /* 0 on a GPU */
    const struct numa *numa;
    const char *own;    /* of struct be_config */
    int device, n_gpus; /* from this device on */
    int by_layers;      /* several have layers, not shares of linears */
    enum act act;
    enum kv_type kv;
};

/* The largest sizes of a run, for which every setup is opened. */
struct setup_size {
    int max_rows, max_seqs;
    int n_pages;   /* KV pages of the largest case */
    int seq_pages; /* of its longest sequence */
    int drafts;    /* rows of drafts of each sequence; 0: the draft layer is left out */
};

struct setup {
    struct setup_config config;
    struct placement placement;
    struct forward forward;
    struct batch batch;
    struct setup_size size;
    int32_t *ints;      /* memory of the batch and of the page table */
    struct span *spans; /* [max_seqs] */
    uint8_t *wanted;    /* [max_seqs] */
    /* GPUs that have layers: further setups, by whose steps all of them are busy (forward.h). */
    struct setup *microbatch; /* [n_microbatches - 1] */
    int n_microbatches;
};

/* Results of a step for the last row of each sequence: none, the index of the largest logit, or the
 * logits that top-40 sampling reads. */
enum setup_output { SETUP_NOTHING, SETUP_BEST, SETUP_SAMPLED };

struct setups {
    char own[BACKEND_OWN_BYTES]; /* of the configurations */
    int n;
    struct setup *setup; /* [n] in the order of the options: cpu, threads, act, kv, gpus */
};

/* The name of a CPU variant; "auto": the fastest that this machine can run. NULL: unknown, or not
 * on this machine. */
const char *setup_variant_name(const char *name);
/* Measures the peaks of the configuration (probe.h). On a GPU it measures the copy rate only, in
 * bytes per second; the arithmetic peaks are infinite. */
int setup_limits(struct setup *r, struct probe_limits *l, struct err *e);
/* Prints them as one line. */
void setup_print_limits(const struct setup *r, const struct probe_limits *l);
/* Fills the KV cache with a constant. */
int setup_fill_kv(struct forward *f, struct err *e);
/* Number i of the setup and its microbatches. */
struct setup *setup_microbatch(struct setup *r, int i);
/* Pages of n_seqs sequences of that many positions each. */
int setup_pages(int n_seqs, int positions);
/* One setup for each configuration in *o. The KV cache is filled with a constant, because pages
 * that were never written are all the same physical page and would stay in the processor's cache.
 */
int setups_open(struct setups *r, const struct model *m, const struct bench_options *o,
                const struct setup_size *size, struct err *e);
void setups_close(struct setups *r);
/* Rows of logits of a step, at most. */
int setup_logits(const struct setup_size *s);
/* Puts the arrays of r->batch in their places; the pages of each of n_seqs sequences. */
struct page_map setup_place(struct setup *r, int n_seqs);
/* Fills r->batch for a step of n_seqs * rows fixed tokens. */
void setup_batch(struct setup *r, const struct step_shape *s, enum setup_output output);
/* Fills the batch and begins the step (core/run/forward.h), or computes it. */
void setup_begin(struct setup *r, const struct step_shape *s, enum setup_output output);
int setup_step(struct setup *r, const struct step_shape *s, enum setup_output output,
               struct err *e);

#endif
