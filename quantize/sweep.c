#include "quantize/sweep.h"

#include "core/base/memory.h"
#include "core/model/model.h"
#include "quantize/act.h"
#include "quantize/calibration.h"
#include "quantize/rows.h"
#include "quantize/runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { STARVED_ROWS = 128, SEQUENCE = 2048 };

struct sweep {
    struct quantize *q;
    struct model model;
    struct calibration text;
    struct runner run;
    const struct module_linear **linear; /* [n_weights] of the plan; NULL: it is not quantized */
    int *unit_of;                        /* [modules] the unit of a module; -1: none yet */
    struct module_codes *solved; /* [modules] of the current operation; without codes: none */
    int *cut, n_cuts;            /* operations with linears that are quantized */
    float *size;                 /* W4A4: square sums of the inputs of the current operation */
    void *kept;                  /* and its rows before they were rounded, or NULL */
};

/* ---- which operations */

/* The linear of the checkpoint that a weight of the plan is. */
static const struct module_linear *linear_of(const struct sweep *s, const struct weight *w)
{
    const struct modelfile *f = &s->model.file;
    static const char tail[] = ".weight";
    if (w->vector || !w->linear.weight) return NULL;
    uint64_t at = (uint64_t)((const uint8_t *)w->linear.weight - f->map);
    for (size_t i = 0; i < f->st.n_tensors; i++) {
        const struct st_tensor *t = &f->st.tensors[i];
        char name[256];
        size_t n = strlen(t->name);
        if (t->offset != at || n < sizeof tail || n >= sizeof name ||
            strcmp(t->name + n - (sizeof tail - 1), tail))
            continue;
        memcpy(name, t->name, n);
        name[n - (sizeof tail - 1)] = 0;
        const struct module_linear *l = modules_find(&s->q->modules, name);
        return l && l->module ? l : NULL;
    }
    return NULL;
}

static int is_linear(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERTS;
}

static int find_cuts(struct sweep *s, struct err *e)
{
    const struct step_plan *p = &s->model.plan;
    struct modules *m = &s->q->modules;
    s->linear = calloc((size_t)p->n_weights + 1, sizeof *s->linear);
    s->cut = malloc((size_t)p->n_ops * sizeof *s->cut);
    s->unit_of = malloc((size_t)m->n * sizeof *s->unit_of);
    s->solved = calloc((size_t)m->n, sizeof *s->solved);
    if (!s->linear || !s->cut || !s->unit_of || !s->solved) return err_memory(e);
    for (int i = 0; i < p->n_weights; i++) s->linear[i] = linear_of(s, &p->weight[i]);
    for (int i = 0; i < m->n; i++) s->unit_of[i] = -1;
    for (int i = 0; i < p->n_body; i++) {
        const struct op *op = &p->op[i];
        int any = 0;
        for (int k = 0; k < op->n && is_linear(op); k++) {
            const struct module_linear *l = op->w[k] < 0 ? NULL : s->linear[op->w[k]];
            any |= l != NULL;
            for (int x = 0; l && x < l->plan->n_modules; x++)
                if (s->unit_of[l->module[x]] < 0) s->unit_of[l->module[x]] = s->n_cuts;
        }
        if (any) s->cut[s->n_cuts++] = i;
    }
    for (int i = 0; i < m->n; i++)
        if (s->unit_of[i] < 0)
            return err_set(e,
                           "module '%s' has no part in a step: leave it as it is by --rule "
                           "'-:...'",
                           m->module[i].name);
    return 0;
}

/* ---- one operation */

/* A linear's inputs while its modules are quantized. */
struct inputs {
    struct sweep *s;
    const struct op *op;
    struct hessian own, pooled; /* of an expert's rows, or of all rows */
    struct factor f;
    int f_group; /* group of f; 0: there is none */
    const struct hessian *f_of;
    int64_t *index; /* [rows * top_k] rows of an expert */
    int64_t n_index;
    int32_t *id; /* [rows][top_k] experts of a row, borrowed */
    const char *how;
};

static int width_of(const struct sweep *s, const struct op *op)
{
    return s->model.plan.weight[op->w[0]].linear.in;
}

static struct input_rows all_rows(const struct sweep *s, const struct op *op)
{
    size_t row = s->model.plan.buffer[op->in[0]].row_bytes / sizeof(float);
    int each = op->kind == OP_EXPERTS && op->as.experts.each;
    return (struct input_rows){.x = rows_at(&s->run.rows, op->in[0], 0),
                               .stride = each ? (size_t)width_of(s, op) : row,
                               .n = (int64_t)s->text.n * (each ? op->as.experts.top_k : 1)};
}

static void find_rows(struct inputs *x, int expert)
{
    const struct sweep *s = x->s;
    int top_k = x->op->as.experts.top_k, each = x->op->as.experts.each;
    const int32_t *id = x->id;
    x->n_index = 0;
    for (int64_t r = 0; r < s->text.n; r++)
        for (int j = 0; j < top_k; j++)
            if (id[r * top_k + j] == expert) x->index[x->n_index++] = each ? r * top_k + j : r;
}

static int sum_rows(struct inputs *x, struct hessian *h, const struct input_rows *rows,
                    const struct module *m, struct err *e)
{
    struct quantize *q = x->s->q;
    if (h->n ? hessian_clear(h, e) : hessian_open(h, width_of(x->s, x->op), x->s->run.rows.on, e))
        return -1;
    hessian_add(h, rows, q->pool, q->k);
    if (hessian_is_finite(h)) return 0;
    return err_set(e, "%s: the activations that go into it are NaN or infinite", m->name);
}

/* The Hessian of a module's inputs; *h NULL: too few rows went to it. */
static int choose_hessian(struct inputs *x, const struct module *m, int expert,
                          const struct hessian **h, struct err *e)
{
    const struct sweep *s = x->s;
    struct input_rows rows = all_rows(s, x->op);
    *h = NULL;
    x->how = "gptq";
    if (expert < 0) {
        *h = &x->own;
        return sum_rows(x, &x->own, &rows, m, e);
    }
    int64_t least = (int64_t)s->text.n / 200;
    if (least < STARVED_ROWS) least = STARVED_ROWS;
    find_rows(x, expert);
    if (x->n_index >= least) {
        rows.index = x->index, rows.n = x->n_index;
        *h = &x->own;
        return sum_rows(x, &x->own, &rows, m, e);
    }
    x->how = "rtn";
    if (x->op->as.experts.each) return 0; /* other experts' results are no substitute */
    x->how = "pooled";
    *h = &x->pooled;
    return x->pooled.n ? 0 : sum_rows(x, &x->pooled, &rows, m, e);
}

/* The factor of *h for groups of this size; the last one may do. */
static int take_factor(struct inputs *x, const struct hessian *h, int group, struct err *e)
{
    struct quantize *q = x->s->q;
    const struct settings *all = &q->o->settings;
    const struct factor_want want = {all->order, group, all->damp, x->s->size};
    if (x->f_group == group && x->f_of == h && (h || !x->f.solved)) return 0;
    factor_close(&x->f);
    x->f_group = 0;
    if (factor_open(&x->f, width_of(x->s, x->op), h, &want, e)) return -1;
    x->f_group = group, x->f_of = h;
    return h ? factor_solve(&x->f, h, all->damp, q->pool, q->k, e) : 0;
}

/* Modules with the same inputs: those of number `number` of each stack, or of each linear. */
static int solve_alike(struct inputs *x, struct unit *u, int number, struct err *e)
{
    struct sweep *s = x->s;
    struct quantize *q = s->q;
    const struct hessian *h = NULL;
    int stack = x->op->kind == OP_EXPERTS, first = 1;
    for (int k = 0; k < x->op->n; k++) {
        const struct module_linear *l = s->linear[x->op->w[k]];
        if (!l) continue;
        int i = l->module[stack ? number : 0];
        struct module *m = &q->modules.module[i];
        if (s->unit_of[i] != q->n_units || s->solved[i].codes) continue;
        if (first && choose_hessian(x, m, stack ? number : -1, &h, e)) return -1;
        if (first && h == &x->own) x->f_group = 0; /* its sums are new */
        first = 0;
        if (take_factor(x, h, module_group(m), e)) return -1;
        const struct module_call c = {m, &x->f, x->f.failed ? "rtn" : x->how,
                                      stack ? x->n_index : s->text.n};
        if (run_module(q, &c, &u->part[u->n++], &s->solved[i], e) ||
            run_step(q, runner_cost_of(&s->run, x->op, k) / (stack ? l->plan->n_modules : 1),
                     m->name, e))
            return -1;
    }
    return 0;
}

static int count_modules(const struct sweep *s, int unit)
{
    int n = 0;
    for (int i = 0; i < s->q->modules.n; i++) n += s->unit_of[i] == unit;
    return n;
}

static int solve_unit(struct sweep *s, const struct op *op, struct err *e)
{
    struct quantize *q = s->q;
    struct inputs x = {.s = s, .op = op};
    struct unit u;
    int stack = op->kind == OP_EXPERTS, n = count_modules(s, q->n_units), numbers = 1, rc = 0;
    if (unit_open(&u, n, e)) return -1;
    u.n = 0;
    if (stack) {
        numbers = s->model.plan.weight[op->w[0]].linear.stack;
        x.index = malloc((size_t)s->text.n * (size_t)op->as.experts.top_k * sizeof *x.index);
        if (!x.index) rc = err_memory(e);
        if (!rc && !(x.id = rows_borrow(&s->run.rows, op->in[1], e))) rc = -1;
    }
    for (int i = 0; i < numbers && !rc; i++) rc = solve_alike(&x, &u, i, e);
    if (!rc) rc = unit_write(&u, &q->work, q->n_units, e);
    hessian_close(&x.own);
    hessian_close(&x.pooled);
    factor_close(&x.f);
    free(x.index);
    if (stack) rows_give(&s->run.rows, op->in[1], x.id, 0);
    unit_close(&u);
    return rc ? -1 : 0;
}

/* ---- the quantized weights take the place of the plain ones */

/* What a module became: just made, or from the file of its unit. */
static int codes_of(struct sweep *s, int i, struct err *e)
{
    struct quantize *q = s->q;
    struct st_file file;
    int there;
    if (s->solved[i].codes) return 0;
    if (unit_find(&file, &q->work, s->unit_of[i], &there, e)) return -1;
    CHECK(there);
    int rc = unit_codes(&file, &q->modules.module[i], &s->solved[i], e);
    st_close(&file);
    return rc;
}

static int put_linear(struct sweep *s, int weight, struct err *e)
{
    const struct module_linear *l = s->linear[weight];
    const struct module *m = &s->q->modules.module[l->module[0]];
    size_t n = (size_t)l->plan->n_modules;
    const struct module_codes **from = malloc(n * sizeof *from);
    const int32_t **rows = calloc(n, sizeof *rows);
    void *memory = NULL;
    int rc = from && rows ? 0 : err_memory(e);
    for (size_t x = 0; x < n && !rc; x++) {
        from[x] = &s->solved[l->module[x]];
        if (!l->whole) rows[x] = l->plan->plain[x].rows;
        rc = codes_of(s, l->module[x], e);
    }
    const struct codes_want want = {from,
                                    rows,
                                    (int)n,
                                    (int)m->from.n_rows,
                                    module_n_groups(m),
                                    m->to.group,
                                    m->to.bits,
                                    s->q->o->settings.w4a4 ? module_n_groups(m) - 1 : 0};
    if (!rc)
        rc = codes_linear(&s->model.plan.weight[weight].linear, &want, s->q->pool, &memory, e) ||
             runner_take(&s->run, weight, memory, e);
    free(from);
    free(rows);
    return rc ? -1 : 0;
}

static void drop_codes(struct sweep *s)
{
    for (int i = 0; i < s->q->modules.n && s->solved; i++) module_codes_free(&s->solved[i]);
}

static int put_unit(struct sweep *s, const struct op *op, struct err *e)
{
    int rc = 0;
    for (int k = 0; k < op->n && !rc; k++)
        if (s->linear[op->w[k]]) rc = put_linear(s, op->w[k], e);
    drop_codes(s);
    return rc;
}

/* ---- W4A4 */

/* The name of a module of an operation, for messages. */
static const char *name_of(const struct sweep *s, const struct op *op)
{
    int k = 0;
    while (!s->linear[op->w[k]]) k++;
    return s->q->modules.module[s->linear[op->w[k]]->module[0]].name;
}

/* Measures the operation's inputs, orders them and rounds all rows as --act int4 will, the same for
 * all its linears and experts. */
static int round_rows(struct sweep *s, const struct op *op, struct err *e)
{
    struct quantize *q = s->q;
    const struct settings *all = &q->o->settings;
    struct input_rows rows = all_rows(s, op);
    struct factor f;
    void *borrowed;
    int n = width_of(s, op);
    free(s->size);
    if (!(s->size = malloc((size_t)n * sizeof *s->size))) return err_memory(e);
    if (runner_keep(&s->run, op->in[0], &s->kept, e) ||
        !(borrowed = rows_borrow(&s->run.rows, op->in[0], e)))
        return -1;
    rows.x = borrowed;
    act_sizes(s->size, n, &rows, q->pool);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++)
        if (!isfinite(s->size[i]))
            rc = err_set(e, "%s: the activations that go into it are NaN or infinite",
                         name_of(s, op));
    const struct factor_want want = {all->order, all->all.group, all->damp, s->size};
    if (!rc && !(rc = factor_open(&f, n, NULL, &want, e))) {
        rc = act_round(&rows, &f, q->pool, e);
        factor_close(&f);
    }
    rows_give(&s->run.rows, op->in[0], borrowed, !rc);
    return rc;
}

static int step(void *self, double work, struct err *e)
{
    return run_step(self, work, "calibration", e);
}

/* ---- one operation, whole */

static int do_cut(struct sweep *s, int number, struct err *e)
{
    struct quantize *q = s->q;
    const int at = s->cut[number], w4a4 = q->o->settings.w4a4, last = number + 1 == s->n_cuts;
    const struct op *op = &s->model.plan.op[at];
    struct st_file file;
    int there;
    q->n_units = number;
    if (unit_find(&file, &q->work, number, &there, e)) return -1;
    if (there) st_close(&file);
    if (w4a4 && !(there && last) && round_rows(s, op, e)) return -1;
    if (!there && solve_unit(s, op, e)) return -1;
    for (int k = 0; k < op->n && there; k++) q->done += runner_cost_of(&s->run, op, k);
    if (last) return 0;
    if (put_unit(s, op, e)) return -1;
    if (!w4a4) return 0;
    if (runner_go(&s->run, at + 1, step, q, e)) return -1;
    runner_give_back(&s->run, op->in[0], s->kept);
    s->kept = NULL;
    return 0;
}

/* ---- the whole */

/* The weights as a model file in the folder of the work. */
static int make_model(struct sweep *s, struct err *e)
{
    struct quantize *q = s->q;
    struct stat sb;
    char *path = work_path(&q->work, "plain.safetensors");
    if (!path) return err_memory(e);
    const struct convert_options c = {
        .dir = q->o->in,
        .as_numbers = 1, /* codes of a GGUF file, too */
        .out = {path, q->o->n_threads < 16 ? q->o->n_threads : 16, 0, q->o->stop},
        .notes = {.silent = 1, .quiet = 1},
    };
    int rc = stat(path, &sb) ? convert_run(&c, e) : 0;
    if (!rc) rc = model_open(&s->model, path, e);
    free(path);
    return rc;
}

/* A run that goes on has the same calibration. */
static int check_text(const struct sweep *s, struct err *e)
{
    const struct calibration *c = &s->text;
    char digits[16];
    snprintf(digits, sizeof digits, "%08lx",
             crc32_z(0, (const void *)c->token, (size_t)c->n * sizeof *c->token));
    json_t *j = json_pack("{s:i, s:i, s:s}", "tokens", c->n, "sequence", c->sequence, "calibration",
                          digits);
    int rc = j ? work_check(&s->q->work, "calibration.json", j, e) : err_memory(e);
    json_decref(j);
    return rc;
}

static int open_sweep(struct sweep *s, struct err *e)
{
    struct quantize *q = s->q;
    const struct quantize_options *o = q->o;
    int context = s->model.config.context, most = context < SEQUENCE ? context : SEQUENCE;
    if (o->sequence > context)
        return err_set(e, "--sequence %d: the model's context is %d", o->sequence, context);
    const struct calibration_want want = {o->calibrate, o->n_tokens,
                                          o->sequence ? o->sequence : most, s->model.config.vocab};
    if (calibration_open(&s->text, &s->model.file, &want, e) || check_text(s, e) || find_cuts(s, e))
        return -1;
    const struct runner_want run = {.plan = &s->model.plan,
                                    .token = s->text.token,
                                    .n_tokens = s->text.n,
                                    .sequence = s->text.sequence,
                                    .n_threads = o->n_threads,
                                    .mem = o->mem ? o->mem : memory_available() / 2,
                                    .folder = q->work.dir,
                                    .device = o->device,
                                    .own = o->own};
    if (runner_open(&s->run, o->backend, &run, e)) return -1;
    note_info(&o->notes, "calibrating on %s", o->backend->describe(s->run.be));
    q->total = runner_cost(&s->run, s->cut[s->n_cuts - 1]);
    return 0;
}

int sweep_run(struct quantize *q, struct err *e)
{
    struct sweep s = {.q = q};
    int rc = make_model(&s, e);
    if (!rc) rc = open_sweep(&s, e);
    for (int i = 0; i < s.n_cuts && !rc; i++) {
        rc = runner_go(&s.run, s.cut[i], step, q, e);
        if (!rc) rc = do_cut(&s, i, e);
    }
    q->n_units = s.n_cuts;
    runner_close(&s.run);
    drop_codes(&s);
    calibration_close(&s.text);
    free(s.linear);
    free(s.size);
    free(s.kept);
    free(s.cut);
    free(s.unit_of);
    free(s.solved);
    model_close(&s.model);
    return rc ? -1 : 0;
}
