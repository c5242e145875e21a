/* modules.h: which modules of a checkpoint become quantized ones, from the converter's plan of it,
 * and what the linears of the model file take of them. Owns: names of modules in the result, what
 * stays plain. Must not know: how a matrix is quantized, the step's plan. */
#ifndef QUANTIZE_MODULES_H
#define QUANTIZE_MODULES_H

#include "convert/plan_linear.h"
#include "core/base/pool.h"
#include "quantize/settings.h"

/* A linear of the result with qweight, qzeros, scales and g_idx of its own. */
struct module {
    char *name;
    struct plain_matrix from; /* n_rows outputs of it, rows as in the plan */
    struct module_settings to;
    const struct hf_tensor *bias; /* of all experts in one tensor: [experts][from.out], or NULL */
    int expert;
};

/* A linear or stack of the model file. */
struct module_linear {
    const struct plan_linear *plan; /* name, rows */
    int *module;                    /* [plan->n_modules] or NULL: it stays plain */
    int whole; /* every module has the linear's rows in order; else the linear takes plan's rows */
};

struct modules {
    struct module *module;
    struct module_linear *linear;
    int n, n_linears;
    const struct hf_dir *dir;
    uint8_t *replaced; /* [dir->n_tensors] 1: the tensor is not in the result as it is */
    json_t *plain;     /* patterns of linears that stay as they are */
};

/* The plan is of a checkpoint without quantized modules. Error: rules that cannot be kept, such as
 * experts of one layer unlike each other; nothing is left to be quantized. */
int modules_open(struct modules *m, const struct plan *p, const struct settings *s, struct err *e);
void modules_close(struct modules *m);
/* The linear of that name in the model file, or NULL. */
const struct module_linear *modules_find(const struct modules *m, const char *name);
/* The bias of a module [n_rows], where it is one of several in one tensor. *bias NULL: it has none.
 * The caller frees it. */
int module_bias(const struct module *m, float **bias, struct err *e);
/* W of a module, fp32 [n_rows][in]. Error: NaN or infinity, by name. */
int module_weights(const struct module *m, float *w, struct pool *p, struct err *e);
static inline int module_group(const struct module *m)
{
    return m->to.group < 0 || m->to.group > m->from.in ? (int)m->from.in : m->to.group;
}
static inline int module_n_groups(const struct module *m)
{
    return (int)((m->from.in + module_group(m) - 1) / module_group(m));
}

#endif
