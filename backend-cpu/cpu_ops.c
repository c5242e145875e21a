/* cpu_ops.c: the operations of a plan, each cut into tasks for the thread pool. Must not know: what
 * a kernel does inside a task. */
#include "backend-cpu/cpu_internal.h"

#include "backend-cpu/cpu_math.h"
#include "core/sample/logits.h"
#include "core/step/kv_open.h"
#include "core/step/sincos.h"

#include <math.h>
#include <string.h>

void cpu_run_rows(const struct cpu *c, int rows, int width, void (*fn)(void *, int, int), void *arg)
{
    enum { FEW_ELEMENTS = 2400 };
    if ((int64_t)rows * width > FEW_ELEMENTS) {
        pool_run(c->pool, rows, fn, arg);
        return;
    }
    for (int i = 0; i < rows; i++) fn(arg, i, 0);
}

struct angles_job {
    const struct cpu *c;
    const float *inv_freq; /* [pairs] */
    float *cos, *sin;      /* [rows][pairs] */
    int pairs;
    float scale;
};

static void angles_task(void *arg, int row, int thread)
{
    const struct angles_job *j = arg;
    (void)thread;
    float *cosr = j->cos + (size_t)row * (size_t)j->pairs,
          *sinr = j->sin + (size_t)row * (size_t)j->pairs;
    for (int i = 0; i < j->pairs; i++) {
        /* fp32 product, as the models were trained with */
        step_sincos((float)j->c->batch->pos[row] * j->inv_freq[i], &sinr[i], &cosr[i]);
        if (j->inv_freq[i] == 0) continue; /* does not rotate: 1 and 0 */
        cosr[i] *= j->scale;
        sinr[i] *= j->scale;
    }
}

static void run_angles(const struct call *t)
{
    struct angles_job j = {t->c,         vector_of(t, 0),        out_of(t, 0),
                           out_of(t, 1), t->op->as.angles.pairs, t->op->as.angles.scale};
    pool_run(t->c->pool, t->c->batch->n_rows, angles_task, &j);
}

struct embed_job {
    const struct cpu *c;
    const struct linear *w;
    const int32_t *chosen;
    float *out, scale;
};

static void embed_task(void *arg, int row, int thread)
{
    const struct embed_job *j = arg;
    (void)thread;
    int dim = j->w->in, id = j->c->batch->token[row];
    if (id < 0) id = j->chosen[-1 - id];
    size_t at = (size_t)(id < 0 ? 0 : id) * (size_t)dim;
    for (int i = 0; i < dim; i++)
        j->out[(size_t)row * (size_t)dim + (size_t)i] =
            f32_at(j->w->weight, j->w->weight_type, at + (size_t)i) * j->scale;
}

static void run_embed(const struct call *t)
{
    float scale = t->op->as.embed.scale;
    struct embed_job j = {t->c, linear_of(t, 0), in_of(t, 0), out_of(t, 0), scale > 0 ? scale : 1};
    pool_run(t->c->pool, t->c->batch->n_rows, embed_task, &j);
}

struct norm_job {
    const struct cpu_kernels *k;
    float *x, *out;
    const float *delta, *weight, *bias;
    float eps;
    int dim, groups, centered; /* a row is `groups` rows of dim elements */
    int own;                   /* weights of a group are behind those of the group before */
};

static void norm_task(void *arg, int row, int thread)
{
    const struct norm_job *j = arg;
    (void)thread;
    size_t at = (size_t)row * (size_t)j->groups * (size_t)j->dim;
    for (int i = 0; i < j->groups; i++, at += (size_t)j->dim) {
        const float *delta = j->delta ? j->delta + at : NULL,
                    *weight = j->weight + (j->own ? (size_t)i * (size_t)j->dim : 0);
        if (j->centered)
            j->k->layer_norm(j->x + at, delta, weight, j->bias, j->eps, j->out + at, j->dim);
        else j->k->norm(j->x + at, delta, weight, j->eps, j->out + at, j->dim);
    }
}

static struct norm_job norm_job_of(const struct call *t)
{
    int groups = t->op->as.norm.groups > 1 ? t->op->as.norm.groups : 1,
        width = width_of(t, t->op->in[0]);
    struct norm_job j = {
        .k = t->c->kernels,
        .x = in_of(t, 0),
        .out = out_of(t, 0),
        .delta = in_of(t, 1),
        .weight = vector_of(t, 0),
        .bias = vector_of(t, 1),
        .eps = t->op->as.norm.eps,
        .dim = width / groups,
        .groups = groups,
        .centered = t->op->as.norm.centered,
        .own = t->op->as.norm.own,
    };
    CHECK(width % groups == 0 && !(j.delta && (groups > 1 || j.out == j.x)));
    return j;
}

static void run_norm(const struct call *t)
{
    struct norm_job j = norm_job_of(t);
    cpu_run_rows(t->c, rows_of(t, t->op->in[0]), width_of(t, t->op->in[0]), norm_task, &j);
}

struct add_job {
    const struct call *t;
    float *x;                 /* [rows][n] */
    const float *y, *gate;    /* [rows][n] or NULL; [rows] or NULL */
    const int32_t *logit_row; /* rows of the step; NULL: all */
    int n;
};

/* 1 + beta ln(1 + floor((pos + first) / original)), rounded once */
static float position_factor(const struct op *op, int pos)
{
    double n = 1 + (pos + op->as.add.first) / op->as.add.original;
    return (float)(1 + (double)op->as.add.beta * logits_log(n));
}

static void add_task(void *arg, int row, int thread)
{
    const struct add_job *j = arg;
    const struct op *op = j->t->op;
    struct cpu *c = j->t->c;
    (void)thread;
    float factor = op->as.add.scale != 0 ? op->as.add.scale : 1;
    if (op->as.add.original)
        factor *= position_factor(op, c->batch->pos[j->logit_row ? j->logit_row[row] : row]);
    size_t at = (size_t)row * (size_t)j->n;
    c->kernels->add(j->x + at, j->y ? j->y + at : NULL, j->gate ? j->gate + row : NULL, factor,
                    j->n);
}

static void run_add(const struct call *t)
{
    int x = t->op->in[0];
    enum rows_of of = t->p->plan->buffer[x].rows;
    struct add_job j = {t, in_of(t, 0), in_of(t, 1), in_of(t, 2),
                        of == ROWS_LOGITS ? t->c->batch->logit_row : NULL, width_of(t, x)};
    CHECK(of != ROWS_TOP && t->op->out[0] == x);
    pool_run(t->c->pool, rows_of(t, x), add_task, &j);
}

struct rope_job {
    const struct call *t;
    struct cpu *c;
    float *q;                      /* [rows][n_heads * head_dim] */
    const float *k, *v;            /* [rows][n_kv_heads * head_dim] or NULL: nothing is stored */
    const float *q_norm, *k_norm;  /* [head_dim] or NULL */
    const float *cos, *sin;        /* [rows][head_dim / 2] */
    const float *q_latent, *q_rot; /* latent heads: [rows][n_heads * value_dim], [.. rotated] */
    char *pages;
    size_t page_bytes;
    struct heads heads;
    float eps;
};

/* store_page() for KV_INT8. */
static void store_integers(char *keys, int hd, int offset, const float *k, const float *v)
{
    int8_t code[1024] = {0}; /* head_dim <= 1024, checked by core/model/model.c */
    float *scales = (float *)key_scales(keys, hd);
    char *values = keys + kv_part_bytes(KV_INT8, hd);
    int n = kv_padded(KV_INT8, hd);
    kv_round_int8(k, hd, code, scales + offset);
    for (int d = 0; d < n; d++) keys[key_at(d, offset)] = (char)(code[d] + KEY_BIAS);
    kv_round_int8(v, hd, code, scales + KV_PAGE + offset);
    for (int d = 0; d < n; d++) values[value_at(d, offset, hd)] = (char)code[d];
}

/* One key and one value of head_dim elements at position `offset` of a head's part of a page. */
static void store_page(char *keys, enum kv_type t, int hd, int offset, const float *k,
                       const float *v)
{
    if (t == KV_INT8) store_integers(keys, hd, offset, k, v);
    else if (t == KV_F16) {
        uint16_t *kd = (uint16_t *)keys, *vd = kd + hd * KV_PAGE + offset * hd;
        for (int d = 0; d < hd; d++)
            kd[d * KV_PAGE + offset] = f16_from_f32(k[d]), vd[d] = f16_from_f32(v[d]);
    } else {
        float *kd = (float *)keys, *vd = kd + hd * KV_PAGE + offset * hd;
        for (int d = 0; d < hd; d++) kd[d * KV_PAGE + offset] = k[d], vd[d] = v[d];
    }
}

/* store_page() for latent heads: one key [latent + rotated], whose latent is the value, too. */
static void store_latent(char *keys, enum kv_type t, const struct heads *g, int offset,
                         const float *k)
{
    int hd = g->head_dim, first = g->value_dim;
    if (t == KV_INT8) {
        int8_t code[1024]; /* head_dim <= 1024, checked by the architecture */
        float *scales = (float *)latent_scales(keys, hd);
        kv_round_int8(k, first, code, scales + offset);
        kv_round_int8(k + first, g->rotated, code + first, scales + KV_PAGE + offset);
        for (int d = 0; d < hd; d++) keys[key_at(d, offset)] = (char)(code[d] + KEY_BIAS);
    } else if (t == KV_F16) {
        uint16_t *to = (uint16_t *)keys;
        for (int d = 0; d < hd; d++) to[d * KV_PAGE + offset] = f16_from_f32(k[d]);
    } else {
        float *to = (float *)keys;
        for (int d = 0; d < hd; d++) to[d * KV_PAGE + offset] = k[d];
    }
}

/* Transforms n heads of a row, if the type of keys asks for it. */
static void rotate_heads(enum kv_type t, float *x, int n, int head_dim, float factor)
{
    if (!kv_formats[t].rotates) return;
    for (int h = 0; h < n; h++, x += head_dim) kv_rotate(x, head_dim, factor);
}

/* Latent heads: x [n][rotated] rotated behind the n latents [n][value_dim], to y [n][head_dim].
 * Where the kind of keys asks for it the rotated part is transformed: the latent is the value,
 * too. */
static void join_latent(const struct rope_job *j, int row, const float *latent, const float *x,
                        float *y, int n, float factor)
{
    const struct heads *g = &j->heads;
    size_t half = (size_t)row * (size_t)g->rotated / 2;
    for (int h = 0; h < n; h++, latent += g->value_dim, x += g->rotated, y += g->head_dim) {
        float *rot = y + g->value_dim;
        memcpy(y, latent, (size_t)g->value_dim * sizeof *y);
        j->c->kernels->rope(x, rot, 1, g->rotated, NULL, 0, j->cos + half, j->sin + half);
        rotate_heads(j->c->config.kv, rot, 1, g->rotated, factor);
    }
}

/* Where position `row` of the batch is stored; *type: the kind of this page. */
static char *page_of(const struct rope_job *j, int row, enum kv_type *type)
{
    const struct batch *b = j->c->batch;
    if (!kv_has_open(*type)) return j->pages + (size_t)(b->slot[row] / KV_PAGE) * j->page_bytes;
    *type = KV_INT8;
    return cpu_open_page(j->t, j->t->op->as.rope.kv, b->seq[row], b->pos[row] / KV_PAGE);
}

static void latent_task(void *arg, int row, int thread)
{
    const struct rope_job *j = arg;
    (void)thread;
    const struct heads *g = &j->heads;
    enum kv_type type = j->c->config.kv;
    size_t r = (size_t)row, heads = (size_t)g->n_heads;
    float *k = j->c->rotated + r * (size_t)g->head_dim;
    const float *latent = j->v + r * (size_t)g->value_dim, *rot = j->k + r * (size_t)g->rotated;
    if (j->t->op->as.rope.joined) {
        latent = j->v + r * (size_t)g->head_dim;
        rot = latent + g->value_dim;
    }
    join_latent(j, row, j->q_latent + r * heads * (size_t)g->value_dim,
                j->q_rot + r * heads * (size_t)g->rotated, j->q + r * heads * (size_t)g->head_dim,
                g->n_heads, 1.0f / (float)kv_rotation(g->rotated));
    join_latent(j, row, latent, rot, k, 1, 1);
    char *page = page_of(j, row, &type);
    store_latent(page, type, g, j->c->batch->slot[row] % KV_PAGE, k);
}

static void rope_task(void *arg, int row, int thread)
{
    const struct rope_job *j = arg;
    (void)thread;
    struct cpu *c = j->c;
    const struct heads *g = &j->heads;
    enum kv_type type = c->config.kv;
    size_t hd = (size_t)g->head_dim, kv_row = (size_t)g->n_kv_heads * hd;
    const float *cosr = j->cos + (size_t)row * hd / 2, *sinr = j->sin + (size_t)row * hd / 2;
    float *q = j->q + (size_t)row * (size_t)g->n_heads * hd;
    c->kernels->rope(q, q, g->n_heads, g->head_dim, j->q_norm, j->eps, cosr, sinr);
    if (!j->t->op->as.rope.ahead)
        rotate_heads(type, q, g->n_heads, g->head_dim, 1.0f / (float)kv_rotation(g->head_dim));
    if (!j->k) return;
    float *k = c->rotated + (size_t)row * kv_row;
    const float *v = j->v + (size_t)row * kv_row;
    c->kernels->rope(j->k + (size_t)row * kv_row, k, g->n_kv_heads, g->head_dim, j->k_norm, j->eps,
                     cosr, sinr);
    rotate_heads(type, k, g->n_kv_heads, g->head_dim, 1);
    char *page = page_of(j, row, &type);
    for (size_t h = 0; h < (size_t)g->n_kv_heads; h++)
        store_page(page + h * kv_head_bytes(type, g->head_dim), type, g->head_dim,
                   c->batch->slot[row] % KV_PAGE, k + h * hd, v + h * hd);
}

static void run_rope_store(const struct call *t)
{
    const struct step_plan *p = t->p->plan;
    int kv = t->op->as.rope.kv, latent = heads_are_latent(&t->op->as.rope.heads);
    struct rope_job j = {
        .t = t,
        .c = t->c,
        .q = out_of(t, 0),
        .q_latent = in_of(t, 0),
        .q_rot = in_of(t, 5),
        .k = in_of(t, 1),
        .v = in_of(t, 2),
        .q_norm = vector_of(t, 0),
        .k_norm = vector_of(t, 1),
        .cos = in_of(t, 3),
        .sin = in_of(t, 4),
        .heads = t->op->as.rope.heads,
        .eps = t->op->as.rope.eps,
    };
    CHECK(!j.k == !j.v && (!latent || (j.k && j.q_rot && t->op->out[0] != t->op->in[0])));
    if (j.k) {
        j.pages = t->p->memory->kv[kv];
        j.page_bytes = cpu_kv_page_bytes(t->c->config.kv, &p->kv[kv]);
    }
    int opens = j.k && kv_has_open(t->c->config.kv);
    if (opens) cpu_open_begin(t, kv);
    cpu_run_rows(t->c, t->c->batch->n_rows, width_of(t, t->op->out[0]),
                 latent ? latent_task : rope_task, &j);
    if (opens) cpu_open_pack(t, kv);
}

enum { ELEMENTS_TASK = 4096 };

struct glu_job {
    const struct cpu_kernels *k;
    struct cpu_glu a;
    float *gate;
    const float *up; /* or NULL */
    size_t n, each;  /* elements, those of a task */
};

static void glu_task(void *arg, int task, int thread)
{
    const struct glu_job *j = arg;
    (void)thread;
    size_t at = (size_t)task * j->each;
    j->k->glu(&j->a, j->gate + at, j->up ? j->up + at : NULL,
              j->n - at < j->each ? j->n - at : j->each);
}

struct cpu_glu cpu_glu_of(const struct op *op)
{
    return (struct cpu_glu){op->as.glu.activation, op->as.glu.limit, op->as.glu.alpha,
                            op->as.glu.xielu};
}

/* A task is a row. */
static struct glu_job glu_job_of(const struct call *t)
{
    size_t width = (size_t)width_of(t, t->op->in[0]);
    struct glu_job j = {t->c->kernels, cpu_glu_of(t->op), in_of(t, 0), in_of(t, 1),
                        (size_t)rows_of(t, t->op->in[0]) * width, width};
    CHECK(j.up ? j.a.activation != ACTIVATION_XIELU : j.a.activation != ACTIVATION_SWIGLU_CLAMPED);
    return j;
}

static void run_glu(const struct call *t)
{
    struct glu_job j = glu_job_of(t);
    j.each = ELEMENTS_TASK;
    pool_run(t->c->pool, (int)((j.n + j.each - 1) / j.each), glu_task, &j);
}

struct softcap_job {
    const struct cpu_kernels *k;
    float *x, cap;
    size_t n;
};

static void softcap_task(void *arg, int task, int thread)
{
    const struct softcap_job *j = arg;
    (void)thread;
    size_t at = (size_t)task * ELEMENTS_TASK;
    j->k->softcap(j->x + at, j->cap, j->n - at < ELEMENTS_TASK ? j->n - at : ELEMENTS_TASK);
}

static void run_softcap(const struct call *t)
{
    int x = t->op->in[0];
    size_t n = (size_t)rows_of(t, x) * (size_t)width_of(t, x);
    struct softcap_job j = {t->c->kernels, in_of(t, 0), t->op->as.softcap.cap, n};
    pool_run(t->c->pool, (int)((n + ELEMENTS_TASK - 1) / ELEMENTS_TASK), softcap_task, &j);
}

static void run_gather(const struct call *t)
{
    const struct batch *b = t->c->batch;
    size_t row_bytes = t->p->plan->buffer[t->op->in[0]].row_bytes;
    const char *x = in_of(t, 0);
    for (int i = 0; i < b->n_logits; i++)
        memcpy((char *)out_of(t, 0) + (size_t)i * row_bytes,
               x + (size_t)b->logit_row[i] * row_bytes, row_bytes);
}

struct argmax_job {
    const float *logits;
    int32_t *id;
    int vocab;
};

static void argmax_task(void *arg, int row, int thread)
{
    const struct argmax_job *j = arg;
    (void)thread;
    j->id[row] = logits_argmax(j->logits + (size_t)row * (size_t)j->vocab, j->vocab);
}

static void run_argmax(const struct call *t)
{
    struct argmax_job j = {in_of(t, 0), out_of(t, 0), width_of(t, t->op->in[0])};
    pool_run(t->c->pool, t->c->batch->n_logits, argmax_task, &j);
}

static void sums_task(void *arg, int row, int thread)
{
    const struct call *t = arg;
    int group = t->op->as.sums.group, groups = width_of(t, t->op->out[0]);
    size_t r = (size_t)row;
    (void)thread;
    t->c->kernels->sums((const float *)in_of(t, 0) + r * (size_t)width_of(t, t->op->in[0]), group,
                        groups, (float *)out_of(t, 0) + r * (size_t)groups);
}

static void run_sums(const struct call *t)
{
    CHECK(width_of(t, t->op->in[0]) == t->op->as.sums.group * width_of(t, t->op->out[0]));
    pool_run(t->c->pool, rows_of(t, t->op->in[0]), sums_task, (void *)t);
}

static void run_linear(const struct call *t) { cpu_run_linear(t, NULL, NULL); }

static void (*const run_kind[OP_KINDS])(const struct call *t) = {
    [OP_EMBED] = run_embed,         [OP_ANGLES] = run_angles,         [OP_NORM] = run_norm,
    [OP_LINEAR] = run_linear,       [OP_ATTEND] = cpu_run_attend,     [OP_GLU] = run_glu,
    [OP_CHOOSE] = cpu_run_choose,   [OP_ROPE_STORE] = run_rope_store, [OP_GATHER] = run_gather,
    [OP_ARGMAX] = run_argmax,       [OP_SOFTCAP] = run_softcap,       [OP_ADD] = run_add,
    [OP_CONV] = cpu_run_conv,       [OP_DELTA] = cpu_run_delta,       [OP_ROUTE] = cpu_run_route,
    [OP_EXPERTS] = cpu_run_experts, [OP_MIX] = cpu_run_mix,           [OP_GROUP_SUMS] = run_sums,
};

/* 1: the linear b begins with the rows that operation a ends with, so that a row passes through
 * both at once. */
static int is_input(const struct op *a, const struct op *b)
{
    return b->kind == OP_LINEAR && b->in[0] == a->out[0] &&
           (a->kind == OP_NORM || a->kind == OP_GLU);
}

/* 1: operation `at` has two linears whose results only the next operation, an OP_GLU, reads. */
static int has_glu(const struct be_plan *p, int at)
{
    const struct op *a = &p->plan->op[at], *b = a + 1;
    if (a->kind != OP_LINEAR || a->n != 2 || b->kind != OP_GLU) return 0;
    const struct linear *gate = &p->memory->linear[a->w[0]]->w,
                        *up = &p->memory->linear[a->w[1]]->w;
    return b->in[0] == a->out[0] && b->in[1] == a->out[1] && a->last[1] == at + 1 &&
           cpu_same_input(gate, up) && gate->codes && gate->out == up->out;
}

/* Runs the operation `at`, before `end`, and those after it that pass through its tasks; returns
 * the one after them. */
static int run_from(struct cpu *c, const struct be_plan *p, int at, int end)
{
    const struct op *op = p->plan->op;
    struct call first = {c, p, &op[at]};
    union {
        struct norm_job norm;
        struct glu_job glu;
    } job;
    struct row_work before = {NULL, &job};
    if (at + 1 < end && is_input(&op[at], &op[at + 1])) {
        before.fn = first.op->kind == OP_NORM ? norm_task : glu_task;
        if (first.op->kind == OP_NORM) job.norm = norm_job_of(&first);
        else job.glu = glu_job_of(&first);
        at++;
    }
    if (op[at].kind != OP_LINEAR) {
        run_kind[op[at].kind](&first);
        return at + 1;
    }
    const struct call linear = {c, p, &op[at]}, glu = {c, p, &op[at + 1]};
    int fused = at + 1 < end && has_glu(p, at);
    cpu_run_linear(&linear, before.fn ? &before : NULL, fused ? &glu : NULL);
    return at + 1 + fused;
}

void cpu_run_ops(struct cpu *c, const struct be_plan *p, int n)
{
    for (int at = 0; at < n;) at = run_from(c, p, at, n);
}
