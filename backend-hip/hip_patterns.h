/* hip_patterns.h: patterns of operations that one launch computes. Owns: the table. */
#ifndef BACKEND_HIP_HIP_PATTERNS_H
#define BACKEND_HIP_HIP_PATTERNS_H

#include "backend-hip/hip_plan.h"

enum { MAX_PATTERN = 9, MAX_CONDITIONS = 6 };

/* What must hold for operation number `op` of a pattern, whose kinds match. */
struct hip_condition {
    int (*holds)(const struct hip *h, const struct be_plan *p, int op);
    int op;
};

struct hip_pattern {
    const char *name;
    int regime; /* enum hip_regime, EXACT_ROWS or EXACT_SINGLE */
    int needs;  /* enum hip_kernel that the device must have; K_COUNT: none */
    int n;
    enum op_kind kind[MAX_PATTERN];
    struct hip_condition when[MAX_CONDITIONS]; /* in this order; holds NULL: no more */
    /* One of them: the launch from the pattern's first operation on, or of a match. */
    void (*launch)(struct hip *h, const struct be_plan *p, int first);
    void (*fused)(struct hip *h, const struct be_plan *p, const struct hip_group *g);
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
