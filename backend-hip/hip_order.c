#include "backend-hip/hip_order.h"

/* Fp16, bf16 or fp32 weights, or those that --plain 8bit makes of them. */
static int is_plain(const struct step_plan *p, int w)
{
    const struct linear *l = &p->weight[w].linear;
    return l->weight || (l->in_order && l->group < 128);
}

/* The linears of the input of operation `router` that come behind the choice after it, of the same
 * layer; 0: none. */
static int shared_linears(const struct step_plan *p, int router)
{
    const struct op *r = &p->op[router];
    for (int i = router + 2; i < p->n_ops && p->op[i].layer == r->layer; i++)
        if (p->op[i].kind == OP_LINEAR && p->op[i].in[0] == r->in[0]) return i;
    return 0;
}

int hip_order(const struct step_plan *p, struct step_plan *out, struct err *e)
{
    if (step_plan_copy(p, out, e)) return -1;
    for (int i = 1; i < out->n_ops; i++) {
        const struct op *router = &out->op[i - 1];
        if (out->op[i].kind != OP_ROUTE || router->kind != OP_LINEAR) continue;
        int shared = shared_linears(out, i - 1);
        if (shared && is_plain(out, router->w[0]) && is_plain(out, out->op[shared].w[0]) &&
            step_plan_move_up(out, shared, i))
            i++;
    }
    return 0;
}

static int has(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

int hip_first_fed(const struct step_plan *p, int op)
{
    const struct step_plan *all = p->whole ? p->whole : p;
    int buffer = p->op[op].out[0];
    for (int i = op + 1 + (p->whole ? p->first : 0); buffer >= 0 && i < all->n_ops; i++) {
        const struct op *next = &all->op[i];
        if (has(next->in, OP_INS, buffer)) return next->kind == OP_LINEAR ? next->w[0] : NO_WEIGHT;
        if (has(next->out, OP_OUTS, buffer)) break;
    }
    return NO_WEIGHT;
}
