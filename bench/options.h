/* options.h: the command line of opt4gptq-bench, from one table that gives parsing, ranges and
 * help. Options are llama-bench's where it has them: lists with commas, an option given again adds
 * to its list. Must not know: what the options do. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "core/base/args.h"
#include "core/step/backend.h"

enum { MAX_LIST = 16, BENCH_MAX_OPTIONS = 40 };

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
    /* how it was written */
    const char *given[BENCH_MAX_OPTIONS]; /* the name of each row of the table, or NULL */
    struct args_note note[ARGS_NOTES];    /* of options that change nothing here */
    int n_notes;
};

/* Fills *o with defaults, then from argv. */
int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e);
/* No more threads than processors, each number of them once; says so, and the notes, on stderr. */
void bench_options_settle(struct bench_options *o);
void bench_options_help(void);

#endif
