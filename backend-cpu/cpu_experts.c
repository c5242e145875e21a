/* cpu_experts.c: OP_ROUTE, OP_EXPERTS and OP_MIX (core/step/op.h). Owns: the order of rows by
 * expert and the scratch for it. Must not know: what a kernel does inside a task.
 *
 * OP_EXPERTS sorts the slots (pairs of row and expert) by expert, gathers the activations of each
 * expert, and multiplies each expert's weights once with all of them. A kernel sees an ordinary
 * linear with few rows, so that every element has the bits of OP_LINEAR. */
#include "backend-cpu/cpu_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* AWAY_SLOTS: from this many slots on, outputs leave the caches before they are read. */
enum {
    UNIT_ROWS = 256,
    STRIP = CPU_PANELS * 16,
    OFF_LINE = 4,
    THREAD_STRIP = UNIT_ROWS * STRIP + 16,
    AWAY_SLOTS = 512,
    GATHER_SLOTS = 8, /* of a task */
};

/* Slots of one expert, at most UNIT_ROWS: they read its weights together. */
struct unit {
    int expert, first, rows; /* places first .. first + rows - 1 */
};

/* Tasks that a thread does first; threads that have none left take the last ones of others. */
struct run {
    _Alignas(64) _Atomic uint64_t left; /* first task | end */
};

struct experts_scratch {
    size_t slots, inputs, groups, units; /* sizes */
    int32_t *slot, *unit_of; /* [slots] the slot (row * top_k + j) and the unit of each place;
                                places of an expert are neighbours, their slots ascend */
    struct unit *unit;       /* [units] */
    int32_t *count;          /* [ROUTE_MAX_EXPERTS] */
    float *packed;           /* [inputs] activations of each unit as q4 and dense take them */
    int8_t *digit;           /* [inputs * 2] the same as q4i takes them, with */
    float *act_scale;        /* [groups] */
    int32_t *act_sum;        /* [groups] */
    struct run *run;         /* [n_threads] */
    float *strip;            /* [n_threads][THREAD_STRIP] */
};

/* ---- scratch ---- */

static struct experts_scratch need_of(const struct step_plan *p, int max_rows)
{
    struct experts_scratch n = {0};
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind != OP_EXPERTS) continue;
        size_t slots = (size_t)max_rows * (size_t)op->as.experts.top_k;
        for (int k = 0; k < op->n; k++) {
            const struct linear *w = &p->weight[op->w[k]].linear;
            size_t inputs = slots * (size_t)w->k, units = (size_t)w->stack + slots / UNIT_ROWS;
            if (units > n.units) n.units = units;
            if (inputs > n.inputs) n.inputs = inputs;
        }
        if (slots > n.slots) n.slots = slots;
    }
    n.groups = n.inputs / MF_GROUP_MULTIPLE + n.slots;
    return n;
}

uint64_t cpu_experts_bytes(const struct step_plan *p, int max_rows)
{
    return (uint64_t)need_of(p, max_rows).inputs * sizeof(float);
}

void cpu_experts_free(struct cpu *c)
{
    struct experts_scratch *s = c->experts;
    if (!s) return;
    void *const d[] = {s->slot,  s->unit_of,   s->unit,    s->count, s->packed,
                       s->digit, s->act_scale, s->act_sum, s->run,   s->strip};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) c->be.ops->free(&c->be, d[i]);
    free(s);
    c->experts = NULL;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

int cpu_experts_grow(struct cpu *c, const struct step_plan *p, struct err *e)
{
    struct experts_scratch n = need_of(p, c->config.max_rows), *s = c->experts;
    size_t threads = (size_t)pool_n_threads(c->pool);
    if (!n.slots) return 0;
    if (s) {
        if (n.slots <= s->slots && n.inputs <= s->inputs && n.units <= s->units) return 0;
        n.slots = larger(n.slots, s->slots);
        n.inputs = larger(n.inputs, s->inputs);
        n.groups = larger(n.groups, s->groups);
        n.units = larger(n.units, s->units);
        cpu_experts_free(c);
    }
    c->experts = s = malloc(sizeof *s);
    if (!s) return err_memory(e);
    *s = n;
    const struct {
        void **p;
        size_t bytes;
    } parts[] = {{(void **)&s->slot, n.slots * sizeof *s->slot},
                 {(void **)&s->unit_of, n.slots * sizeof *s->unit_of},
                 {(void **)&s->unit, n.units * sizeof *s->unit},
                 {(void **)&s->count, ROUTE_MAX_EXPERTS * sizeof *s->count},
                 {(void **)&s->packed, n.inputs * sizeof *s->packed},
                 {(void **)&s->digit, n.inputs * 2 + DIGIT_SLACK},
                 {(void **)&s->act_scale, n.groups * sizeof *s->act_scale},
                 {(void **)&s->act_sum, n.groups * sizeof *s->act_sum},
                 {(void **)&s->run, threads * sizeof *s->run},
                 {(void **)&s->strip, threads * THREAD_STRIP * sizeof *s->strip}};
    int failed = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        failed |= !(*parts[i].p = c->be.ops->alloc(&c->be, parts[i].bytes));
    if (!failed) return 0;
    cpu_experts_free(c);
    return err_memory_for(e, "out of memory for the CPU backend's scratch");
}

int cpu_experts_check(const struct step_plan *p, const struct op *op, struct err *e)
{
    if (op->kind == OP_ROUTE) {
        int n = op->as.route.n_experts, top = op->as.route.top_k, groups = op->as.route.groups,
            kept = op->as.route.kept_groups;
        if (n > ROUTE_MAX_EXPERTS || top > ROUTE_MAX_TOP)
            return err_set(e, "--backend cpu: at most %d experts, %d of them for a token",
                           ROUTE_MAX_EXPERTS, ROUTE_MAX_TOP);
        if (top < 1 || top > n ||
            (groups > 1 && (n % groups || kept < 1 || (kept < groups && top > n / groups * kept))))
            return err_set(e, "--backend cpu: cannot choose %d of %d experts in %d of %d groups",
                           top, n, kept, groups);
    }
    for (int i = 0; op->kind == OP_EXPERTS && i < op->n; i++) {
        int stack = p->weight[op->w[i]].linear.stack;
        CHECK(op->in[1] >= 0 || (op->as.experts.each && op->as.experts.top_k == stack));
        if (stack > ROUTE_MAX_EXPERTS)
            return err_set(e, "--backend cpu: at most %d experts", ROUTE_MAX_EXPERTS);
    }
    return 0;
}

/* ---- OP_EXPERTS ---- */

/* Some stacks that read the same activations. */
struct experts_job {
    const struct cpu *c;
    struct experts_scratch *s;
    const struct linear *w[OP_OUTS]; /* stacks */
    float *y[OP_OUTS];               /* [rows][top_k][out] */
    int n;
    int end[OP_OUTS]; /* tasks of one unit and the stacks 0 .. i */
    const float *x;   /* [rows][in], or [rows][top_k][in] */
    int top_k, each, n_units, n_slots;
    int n_digits;  /* 0: fp32 activations */
    int round_f16; /* they are rounded to fp16 */
    int by_slot;   /* each slot has activations of its own: by `each`, or by its expert's order */
    int subgroups;
};

/* Activations of a unit, at `place` of the arrays that rows or units have. */
static struct q4_digits digits_of(const struct experts_job *j, const struct unit *u, int place)
{
    const struct cpu *c = j->c;
    const struct experts_scratch *s = j->s;
    size_t at = (size_t)place, inputs = (size_t)q4i_inputs(j->w[0]) * (size_t)j->n_digits,
           groups = (size_t)j->subgroups;
    int low = cpu_low(c, j->w[0]);
    if (!u)
        return (struct q4_digits){1,
                                  j->n_digits,
                                  low,
                                  c->digit + at * inputs,
                                  c->act_scale + at * groups,
                                  c->act_sum + at * groups,
                                  0};
    return (struct q4_digits){u->rows,
                              j->n_digits,
                              low,
                              s->digit + at * inputs,
                              s->act_scale + at * groups,
                              s->act_sum + at * groups,
                              0};
}

static const float *input_of(const struct experts_job *j, int slot)
{
    return j->x + (size_t)(j->each ? slot : slot / j->top_k) * (size_t)j->w[0]->in;
}

/* 1: the unit's activations are gathered; 0: its only row is read where it is. */
static int is_gathered(const struct experts_job *j, const struct unit *u)
{
    if (u->rows > 1) return 1;
    return j->by_slot && (j->w[0]->perm || j->n_digits || j->round_f16);
}

/* Converts a row for all its experts. */
static void convert_task(void *arg, int row, int thread)
{
    const struct experts_job *j = arg;
    (void)thread;
    struct linear w = linear_of_stack(j->w[0], 0);
    const float *x = j->x + (size_t)row * (size_t)w.in;
    if (j->n_digits) {
        struct q4_digits d = digits_of(j, NULL, row);
        d.largest = cpu_row_largest(j->c, &w, x);
        j->c->kernels->quantize(&w, x, 0, &d);
    } else cpu_pack_row(&w, x, j->c->packed + (size_t)row * (size_t)w.k, 1, 0, 1);
}

/* Copies the activations of the slot at `place` to those of its unit. */
static void gather(const struct experts_job *j, int place)
{
    const struct experts_scratch *s = j->s;
    const struct unit *u = &s->unit[s->unit_of[place]];
    int slot = s->slot[place], row = place - u->first;
    struct linear w = linear_of_stack(j->w[0], u->expert);
    const float *x = input_of(j, slot);
    if (!is_gathered(j, u)) return;
    if (!w.codes) {
        memcpy(s->packed + (size_t)place * (size_t)w.in, x, (size_t)w.in * sizeof *x);
    } else if (j->n_digits) {
        struct q4_digits d = digits_of(j, u, u->first);
        if (j->by_slot) {
            d.largest = cpu_row_largest(j->c, &w, x);
            j->c->kernels->quantize(&w, x, row, &d);
        } else {
            struct q4_digits from = digits_of(j, NULL, slot / j->top_k);
            j->c->kernels->copy_digits(&w, &from, &d, row);
        }
    } else {
        int converted = !j->by_slot && j->round_f16;
        if (converted) x = j->c->packed + (size_t)(slot / j->top_k) * (size_t)w.k;
        cpu_pack_row(&w, x, s->packed + (size_t)u->first * (size_t)w.k, u->rows, row,
                     j->round_f16 && !converted);
    }
}

static void gather_task(void *arg, int task, int thread)
{
    const struct experts_job *j = arg;
    int place = task * GATHER_SLOTS, end = place + GATHER_SLOTS;
    (void)thread;
    for (; place < end && place < j->n_slots; place++) gather(j, place);
}

/* All outputs of w for a unit, y [rows][out]. */
static void multiply(const struct experts_job *j, const struct unit *u, const struct linear *w,
                     float *y, int thread)
{
    const struct cpu_kernels *k = j->c->kernels;
    float *scratch = (float *)(j->c->scratch + (size_t)thread * j->c->scratch_bytes);
    int gathered = is_gathered(j, u), slot = j->s->slot[u->first], row = slot / j->top_k;
    const float *x = gathered ? j->s->packed + (size_t)u->first * (size_t)w->k : input_of(j, slot);
    if (!w->codes) {
        k->dense(w, x, y, u->rows, 0, w->out);
    } else if (j->n_digits) {
        struct q4_digits d = gathered ? digits_of(j, u, u->first) : digits_of(j, NULL, row);
        k->q4i(w, &d, y, 0, (w->out + 15) / 16, scratch);
    } else {
        if (!gathered && j->round_f16) x = j->c->packed + (size_t)row * (size_t)w->k;
        k->q4(w, x, y, u->rows, 0, (w->out + 15) / 16, scratch);
    }
}

static uint64_t run_word(uint64_t first, uint64_t end) { return first << 32 | end; }

/* Takes a task; one is left for every call. */
static int take_task(const struct experts_job *j, int thread)
{
    struct run *run = j->s->run;
    int n = pool_n_threads(j->c->pool);
    for (int i = 0;; i = (i + 1) % n) {
        struct run *r = &run[(thread + i) % n];
        uint64_t v = atomic_load(&r->left);
        while (v >> 32 < (uint32_t)v) {
            uint64_t first = v >> 32, end = (uint32_t)v;
            uint64_t rest = i ? run_word(first, end - 1) : run_word(first + 1, end);
            if (atomic_compare_exchange_weak(&r->left, &v, rest))
                return (int)(i ? end - 1 : first);
        }
    }
}

static void experts_task(void *arg, int any, int thread)
{
    const struct experts_job *j = arg;
    (void)any;
    int task = take_task(j, thread), per_unit = j->end[j->n - 1], i = 0;
    const struct unit *u = &j->s->unit[task / per_unit];
    task %= per_unit;
    while (task >= j->end[i]) i++;
    if (i) task -= j->end[i - 1];
    int out = j->w[i]->out, n0 = task * STRIP, n1 = n0 + STRIP < out ? n0 + STRIP : out;
    struct linear w = cpu_strip_of(linear_of_stack(j->w[i], u->expert), n0, n1);
    const int32_t *slot = j->s->slot + u->first;
    float *y = j->y[i] + n0;
    if (u->rows == 1) {
        multiply(j, u, &w, y + (size_t)*slot * (size_t)out, thread);
        return;
    }
    /* Off a line's start: no kernel then stores it past the caches, from which it is copied. */
    float *strip = j->s->strip + (size_t)thread * THREAD_STRIP + OFF_LINE;
    multiply(j, u, &w, strip, thread);
    if (j->n_slots >= AWAY_SLOTS && j->c->kernels->scatter) {
        j->c->kernels->scatter(y, (size_t)out, slot, strip, u->rows, w.out);
        return;
    }
    for (int r = 0; r < u->rows; r++)
        memcpy(y + (size_t)slot[r] * (size_t)out, strip + r * w.out, (size_t)w.out * sizeof *y);
}

/* Sorts the slots by expert and cuts them into units. id NULL: slot j of a row is expert j's. */
static int sort_slots(struct experts_scratch *s, const int32_t *id, int n_slots, int n_experts)
{
    int n_units = 0;
    memset(s->count, 0, (size_t)n_experts * sizeof *s->count);
    for (int i = 0; i < n_slots; i++) s->count[id ? id[i] : i % n_experts]++;
    for (int e = 0, first = 0; e < n_experts; e++) {
        int rows = s->count[e];
        s->count[e] = first;
        for (int end = first + rows; first < end;) {
            int n = end - first < UNIT_ROWS ? end - first : UNIT_ROWS;
            for (int i = 0; i < n; i++) s->unit_of[first + i] = n_units;
            s->unit[n_units++] = (struct unit){e, first, n};
            first += n;
        }
    }
    for (int i = 0; i < n_slots; i++) s->slot[s->count[id ? id[i] : i % n_experts]++] = i;
    return n_units;
}

/* Work of a unit: reading its weights, and a part for each row. */
static long unit_work(const struct unit *u) { return 4 + u->rows; }

/* Gives each thread neighbouring tasks of the same amount of work: what a kernel asks for beyond
 * the end of a task is then the beginning of the same thread's next one. */
static void cut_runs(const struct experts_job *j)
{
    int n_threads = pool_n_threads(j->c->pool), per_unit = j->end[j->n - 1], n = 0;
    uint64_t all = (uint64_t)j->n_units * (uint64_t)per_unit, first = 0;
    long total = 0, done = 0;
    for (int i = 0; i < j->n_units; i++) total += unit_work(&j->s->unit[i]);
    for (int i = 0; i < j->n_units && n < n_threads - 1; i++) {
        long work = unit_work(&j->s->unit[i]);
        while (n < n_threads - 1 && (done + work) * n_threads >= total * (n + 1)) {
            long part = (total * (n + 1) - done * n_threads) * per_unit / (work * n_threads);
            uint64_t end = (uint64_t)i * (uint64_t)per_unit + (uint64_t)part;
            atomic_store(&j->s->run[n++].left, run_word(first, end));
            first = end;
        }
        done += work;
    }
    while (n < n_threads) {
        atomic_store(&j->s->run[n++].left, run_word(first, all));
        first = all;
    }
}

static void multiply_experts(const struct call *t, struct experts_job *j)
{
    struct pool *pool = t->c->pool;
    int converts = !j->by_slot && (j->n_digits || j->round_f16), gathers = 0;
    if (converts) pool_run(pool, rows_of(t, t->op->in[0]), convert_task, j);
    for (int i = 0; i < j->n_units; i++) gathers |= is_gathered(j, &j->s->unit[i]);
    if (gathers) pool_run(pool, (j->n_slots + GATHER_SLOTS - 1) / GATHER_SLOTS, gather_task, j);
    cut_runs(j);
    pool_run(pool, j->n_units * j->end[j->n - 1], experts_task, j);
}

void cpu_run_experts(const struct call *t)
{
    struct cpu *c = t->c;
    const struct op *op = t->op;
    enum act act = c->config.act;
    struct experts_job all = {.c = c,
                              .s = c->experts,
                              .x = in_of(t, 0),
                              .top_k = op->as.experts.top_k,
                              .each = op->as.experts.each};
    all.n_slots = rows_of(t, op->in[0]) * all.top_k;
    all.n_units = sort_slots(c->experts, in_of(t, 1), all.n_slots, linear_of(t, 0)->stack);
    for (int i = 0; i < op->n;) {
        struct experts_job j = all;
        const struct linear *w = linear_of(t, i);
        int tasks = 0;
        if (w->codes) {
            j.n_digits = act_formats[act].digits;
            j.round_f16 = act == ACT_F16;
            for (int j0 = 0; j0 < q4i_inputs(w); j0 = q4_next(w, j0)) j.subgroups++;
        }
        j.by_slot = j.each || (w->perm && !(j.n_digits && (w->in_order || w->one_perm)));
        for (; i < op->n && cpu_same_input(w, linear_of(t, i)); i++) {
            j.w[j.n] = linear_of(t, i);
            j.y[j.n] = out_of(t, i);
            j.end[j.n++] = tasks += (linear_of(t, i)->out + STRIP - 1) / STRIP;
        }
        multiply_experts(t, &j);
    }
}

/* ---- OP_ROUTE and OP_MIX ---- */

static void route_row(void *arg, int row, int thread)
{
    const struct call *t = arg;
    const struct op *op = t->op;
    (void)thread;
    size_t r = (size_t)row, top = (size_t)op->as.route.top_k;
    t->c->kernels->route(&(struct route_task){
        .op = op,
        .x = (const float *)in_of(t, 0) + r * (size_t)op->as.route.n_experts,
        .bias = vector_of(t, 0),
        .factor = vector_of(t, 1),
        .id = (int32_t *)out_of(t, 0) + r * top,
        .weight = (float *)out_of(t, 1) + r * top,
    });
}

void cpu_run_route(const struct call *t)
{
    pool_run(t->c->pool, rows_of(t, t->op->in[0]), route_row, (void *)t);
}

static void mix_row(void *arg, int row, int thread)
{
    const struct call *t = arg;
    (void)thread;
    int top = t->op->as.mix.top_k, n = width_of(t, t->op->out[0]);
    size_t r = (size_t)row, slots = r * (size_t)top, columns = (size_t)n;
    t->c->kernels->mix((const float *)in_of(t, 0) + slots * columns,
                       (const float *)in_of(t, 1) + slots, top,
                       (float *)out_of(t, 0) + r * columns, n);
}

void cpu_run_mix(const struct call *t)
{
    pool_run(t->c->pool, rows_of(t, t->op->out[0]), mix_row, (void *)t);
}
