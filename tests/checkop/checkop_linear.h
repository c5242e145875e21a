/* checkop_linear.h: random linears in the layout of the model file, and the results expected of
 * them, for the checks of OP_LINEAR and OP_EXPERTS. */
#ifndef TESTS_CHECKOP_LINEAR_H
#define TESTS_CHECKOP_LINEAR_H

#include "tests/checkop/checkop.h"

/* PERM_PAIRS: each two groups have the same inputs; in order, or shuffled and padded;
 * PERM_OUTLIERS: the last two have. */
enum perm_kind {
    PERM_NONE,
    PERM_SHUFFLED,
    PERM_PADDED,
    PERM_TWICE,
    PERM_PAIRS,
    PERM_PAIRS_SHUFFLED,
    PERM_OUTLIERS,
    PERM_OUTLIERS_SHUFFLED
};
/* A panel and group has only zero points 8, for which a kernel may have a special case, or any;
 * ZEROS_PAIRS: 8 and 0 in turn, as pairs of groups have them, and scales 16 : 1; ZEROS_OUTLIERS: 8,
 * of the last two groups as ZEROS_PAIRS. */
enum zero_kind { ZEROS_ANY, ZEROS_EIGHT, ZEROS_MIXED, ZEROS_PAIRS, ZEROS_OUTLIERS };
enum scale_kind { SCALE_F16, SCALE_F32, SCALE_SUBNORMAL };

struct shape {
    int in, out, group, k; /* group 0: dense of weight_type */
    enum perm_kind perm;
    enum scale_kind scale;
    int bias;
    enum dtype weight_type;
    enum zero_kind zeros;
};

/* A linear as in a checkpoint, and in the layout of the model file. */
struct weights {
    struct linear w;
    float
        *value; /* [k][out], the product scale * (code - zero) in fp32, exact for the fp16 scales */
    double *packed_x; /* [k] scratch */
};

extern const struct shape outlier_shapes[];
enum { N_OUTLIER_SHAPES = 5 };

/* [k] or NULL */
int32_t *make_perm(struct arena *a, struct rng *r, const struct shape *s);
struct weights make_weights(struct arena *a, struct rng *r, const struct shape *s,
                            const int32_t *perm);
/* The expected result (in double) and its bound for x [rows][in], y and bound [rows][out]. */
void expect(const struct weights *q, enum act act, const float *x, float *y, float *bound,
            int rows);
/* name [NAME_BYTES] */
extern const char *const type_names[DT_COUNT];
void describe(char *name, const struct shape *s, int rows, int n_decode);

#endif
