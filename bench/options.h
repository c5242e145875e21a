/* options.h: the command line of opt4gptq-bench, from one table that gives parsing, ranges and help. Options are
 * llama-bench's where it has them: lists with commas, an option given again adds to its list.
 * Must not know: what the options do. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "core/backend.h"

enum { MAX_LIST = 16 };

struct int_list {
    int n, is_default, v[MAX_LIST];
};

struct text_list {
    int n, is_default;
    char v[MAX_LIST][32];
};

struct bench_options {
    const char *model; /* NULL: made up (shape.h) */
    struct int_list prompt, gen, depth, parallel, threads;
    struct text_list act, kv, cpu, variant, shape;
    const char *backend, *output, *hip_library;
    int n_batch, repetitions, cpu_time, device;
    int ops, roofline, probe, ablation; /* modes; none: whole runs */
    int help, version;
};

/* Fills *o with defaults, then from argv. */
int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e);
void bench_options_help(void);

#endif
