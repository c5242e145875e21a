/* hip_patterns.h: patterns of operations that one launch computes. Owns: the table. */
#ifndef BACKEND_HIP_HIP_PATTERNS_H
#define BACKEND_HIP_HIP_PATTERNS_H

#include "backend-hip/hip_plan.h"

enum { MAX_PATTERN = 6 };

struct hip_pattern {
    const char *name;
    int regime; /* enum hip_regime, EXACT_ROWS or EXACT_SINGLE */
    int n;
    enum op_kind kind[MAX_PATTERN];
    /* Whether the pattern applies to the operations from first on, whose kinds match; NULL:
     * always. */
    int (*fits)(const struct hip *h, const struct be_plan *p, int first);
    void (*launch)(struct hip *h, const struct be_plan *p, int first);
    int needs; /* enum hip_kernel that the device must have; K_COUNT: none */
};

/* The first pattern that matches is taken. Patterns of SINGLE_ROW apply to steps of a single decode
 * row only, and come first. */
extern const struct hip_pattern hip_patterns[]; /* [hip_n_patterns] */
extern const int hip_n_patterns;

/* ---- hip_fuse.c */
/* Whether operation b is the only reader of result i of operation a. */
int hip_only_for(const struct be_plan *p, int a, int i, int b);
/* Whether the x of a norm is complete: it adds nothing, or the operation before it has added it. */
int hip_is_complete(const struct be_plan *p, int norm);
/* Whether the result of an operation can be added to the x of the norm that follows instead. */
int hip_feeds_norm(const struct be_plan *p, int op, int width);

#endif
