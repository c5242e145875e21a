/* bench.h: the modes of opt4gptq-bench. Each opens what it needs, measures, and writes to *out; 0
 * or -1. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "bench/options.h"
#include "bench/out.h"
#include "core/model/model.h"

/* What is said of model and machine in every record. */
struct bench_facts {
    char cpu_info[128];   /* the processor's own name */
    char model_type[96];  /* architecture, parameters, quantization */
    const char *filename; /* of the model, or what stands for it */
    double model_bytes, n_params;
};

/* Whole runs: prompts and generations. */
int bench_runs(const struct bench_options *o, const struct model *m,
               const struct bench_facts *facts, struct out *out, struct err *e);
int bench_ops(const struct bench_options *o, const struct model *m, const struct bench_facts *facts,
              struct out *out, struct err *e);
int bench_roofline(const struct bench_options *o, const struct model *m,
                   const struct bench_facts *facts, struct out *out, struct err *e);
int bench_ablation(const struct bench_options *o, const struct bench_facts *facts, struct out *out,
                   struct err *e);
int bench_probe(const struct bench_options *o, const struct bench_facts *facts, struct out *out,
                struct err *e);
/* Constraints: which JSON schemas of a file are served, and how long masks take. */
int bench_schemas(const struct bench_options *o, const struct model *m, struct out *out,
                  struct err *e);

#endif
