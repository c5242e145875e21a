#include "core/step/stepwise.h"

#include <stdlib.h>

struct be_plan {
    const struct step_plan *plan;
    const struct plan_memory *memory;
    struct step_plan *slice; /* [n_ops] */
    struct be_plan **inner;  /* [n_ops] NULL: the backend lacks it */
};

int stepwise_compile(struct be *inner, const struct backend *ops,
                     const struct stepwise_hooks *hooks, const struct step_plan *p,
                     const struct plan_memory *m, struct be_plan **out, struct err *e)
{
    struct be_plan *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e);
    *s = (struct be_plan){p, m, calloc((size_t)p->n_ops, sizeof *s->slice),
                          calloc((size_t)p->n_ops, sizeof *s->inner)};
    int rc = s->slice && s->inner ? 0 : err_memory(e);
    for (int i = 0; i < p->n_ops && !rc; i++) {
        rc = step_plan_slice(p, i, 1, &s->slice[i], e);
        if (rc || !(ops->kinds & 1u << p->op[i].kind)) continue;
        if (hooks && hooks->change) hooks->change(s->slice[i].op);
        rc = ops->compile(inner, &s->slice[i], m, &s->inner[i], e);
    }
    if (rc) stepwise_drop(inner, ops, s);
    else *out = s;
    return rc;
}

void stepwise_drop(struct be *inner, const struct backend *ops, struct be_plan *p)
{
    if (!p) return;
    for (int i = 0; i < p->plan->n_ops; i++) {
        if (p->inner && p->inner[i]) ops->drop_plan(inner, p->inner[i]);
        if (p->slice) step_plan_free_slice(&p->slice[i]);
    }
    free(p->slice);
    free(p->inner);
    free(p);
}

void stepwise_run(struct be *inner, const struct backend *ops, const struct stepwise_hooks *hooks,
                  const struct be_plan *p, const struct batch *b)
{
    int n = b->n_logits || b->n_top ? p->plan->n_ops : p->plan->n_body;
    for (int i = 0; i < n; i++) {
        struct stepwise_call c = {p->plan, p->memory, &p->plan->op[i], b, hooks->self};
        if (hooks->before) hooks->before(inner, &c);
        if (p->inner[i]) ops->run(inner, p->inner[i]);
        if (hooks->after) hooks->after(inner, &c);
    }
}

void stepwise_run_one(struct be *inner, const struct backend *ops, const struct be_plan *p, int i)
{
    if (p->inner[i]) ops->run(inner, p->inner[i]);
}
