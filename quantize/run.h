/* run.h: the state of a quantization, and what becomes of one module. Must not know: the order of
 * modules, where inputs come from. */
#ifndef QUANTIZE_RUN_H
#define QUANTIZE_RUN_H

#include "convert/convert.h"
#include "core/base/progress.h"
#include "quantize/settings.h"
#include "quantize/work.h"

struct quantize_options {
    const char *in, *out, *report;
    struct settings settings;
    const char *calibrate; /* file of texts; NULL: the built-in text */
    int n_tokens, sequence;
    uint64_t mem; /* for the rows of the calibration; 0: what is free */
    int n_threads;
    const struct backend *backend; /* of the calibration */
    int device;
    const char *own; /* be_config.own */
    const volatile sig_atomic_t *stop;
    struct notes notes;
};

struct quantize {
    const struct quantize_options *o;
    const struct quantize_kernels *k;
    struct pool *pool;
    struct checkpoint source;
    struct plan plan;
    struct modules modules;
    struct work work;
    struct progress progress;
    double done, total; /* of the work, any unit */
    int n_units;
};

/* Quantizes a module with the factor of its inputs (not solved: by plain rounding) into *to and
 * *codes. how: of the report; rows: that the Hessian is of. */
struct module_call {
    const struct module *module;
    const struct factor *f;
    const char *how;
    int64_t rows;
};
int run_module(struct quantize *q, const struct module_call *c, struct unit_module *to,
               struct module_codes *codes, struct err *e);
/* Shows the progress. -1: a signal asks for the end. */
int run_step(struct quantize *q, double work, const char *what, struct err *e);

#endif
