#include "quantize/run.h"

#include "core/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_step(struct quantize *q, double work, const char *what, struct err *e)
{
    char percent[96], left[PROGRESS_TEXT];
    q->done += work;
    if (*q->o->stop)
        return err_set(e, "stopped by a signal: the same command goes on from %s", q->work.dir);
    if (q->o->notes.quiet || !progress_due(&q->progress)) return 0;
    snprintf(percent, sizeof percent, "quantizing %.0f%%", 100 * q->done / q->total);
    const char *const part[] = {percent, progress_left(&q->progress, q->done, q->total, left),
                                what};
    progress_show(&q->progress, part, 3);
    return 0;
}

static json_t *report_of(const struct module_call *c, const struct settings *all,
                         const struct solver_matrix *x)
{
    const struct module *m = c->module;
    int outliers = module_group(m), low = all->w4a4 && outliers < m->from.in;
    json_t *j = json_pack("{s:s, s:I, s:I, s:i, s:i, s:b, s:s, s:f}", "module", m->name, "in",
                          (json_int_t)m->from.in, "out", (json_int_t)m->from.n_rows, "bits",
                          low ? SETTINGS_LOW_BITS : m->to.bits, "group", m->to.group, "sym",
                          m->to.sym, "how", c->how, "weight_error", x->weight_error);
    if (all->w4a4) json_object_set_new(j, "outliers", json_integer(outliers));
    if (!c->rows) return j;
    json_object_set_new(j, "rows", json_integer(c->rows));
    if (!c->f->solved) return j;
    json_object_set_new(j, "error", json_real(x->error / (double)c->rows / (double)m->from.n_rows));
    json_object_set_new(j, "damp", json_real(c->f->damp));
    return j;
}

/* The solver's arrays, and a copy of the order. */
static int take_codes(struct module_codes *to, struct solver_matrix *x, const int32_t *g_idx,
                      struct err *e)
{
    size_t bytes = (size_t)x->in * sizeof *g_idx;
    *to = (struct module_codes){x->codes, x->scales, x->zeros, malloc(bytes)};
    x->codes = x->zeros = NULL;
    x->scales = NULL;
    if (!to->g_idx) return err_memory(e);
    memcpy(to->g_idx, g_idx, bytes);
    return 0;
}

int run_module(struct quantize *q, const struct module_call *c, struct unit_module *to,
               struct module_codes *codes, struct err *e)
{
    const struct module *m = c->module;
    const struct settings *all = &q->o->settings;
    const struct solver_settings s = {
        m->to.bits,      m->to.sym, all->search, all->beta, all->w4a4 ? SETTINGS_LOW_BITS : 0,
        (float)all->clip};
    struct solver_matrix x;
    const struct unit_solved solved = {m, &x, c->f};
    if (solver_open(&x, (int)m->from.in, (int)m->from.n_rows, module_n_groups(m), e)) return -1;
    int rc = module_weights(m, x.w, q->pool, e) || solver_run(&x, c->f, &s, q->pool, q->k, e) ||
             unit_put(to, &solved, q->pool, e);
    if (!rc) {
        to->report = report_of(c, all, &x);
        rc = take_codes(codes, &x, to->g_idx, e);
    }
    solver_close(&x);
    return rc ? -1 : 0;
}
