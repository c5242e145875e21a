/* options.h: the command line of opt4gptq-bench, one table of options (core/base/args.h). Options
 * are llama-bench's where it has them: lists with commas, an option given again adds to its list.
 * Must not know: what the options do. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "core/base/args.h"
#include "engine/backends.h"
#include "core/base/numa.h"

/* The modes of opt4gptq-bench. */
enum bench_mode {
    BENCH_RUNS, /* whole runs; no option chooses it */
    BENCH_OPS,
    BENCH_ROOFLINE,
    BENCH_PROBE,
    BENCH_ABLATION,
    BENCH_SCHEMAS,
};

struct bench_options {
    const char *model; /* NULL: made up (shape.h) */
    const char *schemas; /* a file of them, or NULL */
    struct args_ints prompt, gen, depth, parallel, threads, gpus;
    struct args_texts act, kv, cpu, variant, shape;
    double spec_accept; /* 0: without drafts */
    const char *backend, *output, *hip_library, *numa, *parallel_mode, *exchange;
    struct numa nodes; /* what --numa found; filled by bench_options_settle */
    /* what placement.h reads of it, and nothing else */
    struct engine_options engine;
    int n_batch, repetitions, cpu_time, device, layers, query_halves;
    int ops, roofline, probe, ablation;
    struct args_common common;
    struct args_given given; /* how it was written; its mode is an enum bench_mode */
};

/* Fills *o with defaults, then from argv. */
int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e);
/* Lets --numa take effect, then: no more threads than processors, each number of them once; says
 * so, and the notes, on stderr. */
int bench_options_settle(struct bench_options *o, struct err *e);
/* The variants of a backend to measure: the value of its --cpu or --variant. */
const struct args_texts *bench_options_variants(const struct bench_options *o,
                                                const struct backend_entry *b);

/* The table, for its help, manual page, completion and checks. */
extern const struct args_program bench_program;

#endif
