/* codes.h: quantized modules as a linear or stack of the model file, in memory: what the rows of
 * the calibration go on through. Must not know: how a module is quantized, files. */
#ifndef QUANTIZE_CODES_H
#define QUANTIZE_CODES_H

#include "core/base/pool.h"
#include "core/step/linear.h"

/* W = scale (code - zero) of a module. */
struct module_codes {
    uint8_t *codes;   /* [in][out]; NULL: none */
    uint16_t *scales; /* [n_groups][out] F16 */
    uint8_t *zeros;   /* [n_groups][out] */
    int32_t *g_idx;   /* [in] group of an input */
};

void module_codes_free(struct module_codes *c);

struct codes_want {
    const struct module_codes *const *module; /* [n] */
    const int32_t *const *rows; /* [n] outputs of a module that the linear has, in its order; an
                                   entry NULL: all of them */
    int n;                      /* 1, or of a stack */
    int out;                    /* outputs of a module */
    int n_groups, group, bits;
    int low; /* the first groups that have codes of 4 bits, whatever bits says */
};

/* *w has in, out, stack and bias; receives the rest. *memory: of its arrays, to be freed by the
 * caller when *w is not used any more. */
int codes_linear(struct linear *w, const struct codes_want *want, struct pool *p, void **memory,
                 struct err *e);

#endif
