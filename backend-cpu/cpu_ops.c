/* cpu_ops.c: the operations of a plan, each cut into tasks for the thread pool. Must not know: what
 * a kernel does inside a task. */
#include "backend-cpu/cpu_internal.h"

#include "backend-cpu/cpu_math.h"
#include "core/sample/logits.h"
#include "core/step/kv_open.h"

#include <math.h>
#include <string.h>

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
        cpu_sincos((float)j->c->batch->pos[row] * j->inv_freq[i], &sinr[i], &cosr[i]);
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

/* All sequences are cut into blocks at once, so that one pool_run serves a step of many short ones.
 */
static void cut_blocks(struct cpu *c, int group)
{
    const struct batch *b = c->batch;
    int most = ATTEND_QUERIES / (group < ATTEND_QUERIES ? group : ATTEND_QUERIES);
    if (c->block_group == group) return;
    c->block_group = group;
    c->n_blocks = 0;
    for (int s = 0; s < b->n_seqs; s++)
        for (int row = b->seq_start[s], n; row < b->seq_start[s + 1]; row += n) {
            int left = b->seq_start[s + 1] - row;
            n = left < most ? left : most;
            if (kv_has_open(c->config.kv)) { /* the rows of a task have one page */
                int in_page = KV_PAGE - b->pos[row] % KV_PAGE;
                n = n < in_page ? n : in_page;
            }
            c->blocks[c->n_blocks++] = (struct attend_block){row, n, s};
        }
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
};

static void norm_task(void *arg, int row, int thread)
{
    const struct norm_job *j = arg;
    (void)thread;
    size_t at = (size_t)row * (size_t)j->groups * (size_t)j->dim;
    for (int i = 0; i < j->groups; i++, at += (size_t)j->dim) {
        const float *delta = j->delta ? j->delta + at : NULL;
        if (j->centered)
            j->k->layer_norm(j->x + at, delta, j->weight, j->bias, j->eps, j->out + at, j->dim);
        else j->k->norm(j->x + at, delta, j->weight, j->eps, j->out + at, j->dim);
    }
}

static void run_norm(const struct call *t)
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
    };
    CHECK(width % groups == 0 && !(j.delta && (groups > 1 || j.out == j.x)));
    pool_run(t->c->pool, rows_of(t, t->op->in[0]), norm_task, &j);
}

struct add_job {
    const struct call *t;
    float *x;                 /* [rows][n] */
    const float *y, *gate;    /* [rows][n] or NULL; [rows] or NULL */
    const int32_t *logit_row; /* rows of the step; NULL: all */
    int n;
};

/* 1 + beta ln(1 + floor(pos / original)), rounded once */
static float position_factor(const struct op *op, int pos)
{
    double n = 1 + pos / op->as.add.original;
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

/* Fewest rows of a part where rows are cut to make more tasks: as many as the kernels take to pay
 * for unpacking the codes. */
enum { PART_ROWS = 128 };

/* Some linears of one input as one list of tasks: the rows in parts, for each part the outputs of
 * all linears in strips. */
struct linear_job {
    struct cpu *c;
    const struct linear *w[OP_OUTS];
    float *y[OP_OUTS]; /* [rows][out] */
    const float *x;    /* [rows][in] */
    int n, rows;
    int part_rows, n_digits; /* rows of a part, but the last; 0: activations are fp32 */
    int packed;              /* they are in c->packed */
    int panels;              /* of a strip */
    int end[OP_OUTS];        /* strips of linears 0 .. i */
};

static int is_integer(enum act act) { return act == ACT_I16 || act == ACT_INT8; }

static int part_first(const struct linear_job *j, int part) { return part * j->part_rows; }

static int rows_of_part(const struct linear_job *j, int part)
{
    int left = j->rows - part_first(j, part);
    return left < j->part_rows ? left : j->part_rows;
}

static struct q4_digits digits_of_part(const struct linear_job *j, int part)
{
    const struct cpu *c = j->c;
    size_t first = (size_t)part_first(j, part), k = (size_t)j->w[0]->k,
           scales = first * (k / MF_GROUP_MULTIPLE);
    return (struct q4_digits){rows_of_part(j, part), j->n_digits,
                              c->digit + first * k * (size_t)j->n_digits, c->act_scale + scales,
                              c->act_sum + scales};
}

static void linear_task(void *arg, int task, int thread)
{
    const struct linear_job *j = arg;
    const struct cpu *c = j->c;
    int i = 0, strips = j->end[j->n - 1], part = task / strips, strip = task % strips;
    while (strip >= j->end[i]) i++;
    if (i) strip -= j->end[i - 1];
    const struct linear *w = j->w[i];
    int rows = rows_of_part(j, part);
    size_t first = (size_t)part_first(j, part);
    float *y = j->y[i] + first * (size_t)w->out;
    const float *x = j->packed ? c->packed + first * (size_t)w->k : j->x + first * (size_t)w->in;
    if (w->codes) {
        int panels = (w->out + 15) / 16, p0 = strip * j->panels,
            p1 = p0 + j->panels < panels ? p0 + j->panels : panels;
        float *scratch = (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
        if (j->n_digits) {
            struct q4_digits d = digits_of_part(j, part);
            c->kernels->q4i(w, &d, y, p0, p1, scratch);
        } else c->kernels->q4(w, x, y, rows, p0, p1, scratch);
    } else {
        int unit = j->panels * 16, n0 = strip * unit, n1 = n0 + unit < w->out ? n0 + unit : w->out;
        c->kernels->dense(w, x, y, rows, n0, n1);
    }
}

/* Powers of two whose product brings the largest magnitude of packed inputs into [2^14, 2^15), for
 * ACT_F16. In two steps, because one factor may be beyond fp32. */
struct two_factors {
    float a, b;
};

static struct two_factors f16_factors(const struct linear *w, const float *x)
{
    float largest = 0;
    int e;
    for (int j = 0; j < w->k; j++) {
        float v = !w->perm ? fabsf(x[j]) : w->perm[j] < 0 ? 0 : fabsf(x[w->perm[j]]);
        largest = v > largest ? v : largest;
    }
    frexpf(largest, &e);
    return (struct two_factors){ldexpf(1, (15 - e) / 2), ldexpf(1, 15 - e - (15 - e) / 2)};
}

void cpu_pack_row(const struct linear *w, const float *x, float *to, int rows, int row,
                  int round_f16)
{
    struct two_factors f = round_f16 ? f16_factors(w, x) : (struct two_factors){1, 1};
    for (int j0 = 0, j1; j0 < w->k; j0 = j1) {
        j1 = q4_next(w, j0);
        float *group = to + (size_t)j0 * (size_t)rows + (size_t)row * (size_t)(j1 - j0),
              *out = group;
        if (w->perm)
            for (int i = j0; i < j1; i++) *out++ = w->perm[i] < 0 ? 0 : x[w->perm[i]];
        else memcpy(out, x + j0, (size_t)(j1 - j0) * sizeof *out);
        if (round_f16)
            for (int i = 0; i < j1 - j0; i++)
                group[i] = f32_from_f16(f16_from_f32(group[i] * f.a * f.b)) / f.a / f.b;
    }
}

/* Converts a row of the input for all linears. */
static void convert_task(void *arg, int row, int thread)
{
    const struct linear_job *j = arg;
    const struct cpu *c = j->c;
    const struct linear *w = j->w[0];
    const float *x = j->x + (size_t)row * (size_t)w->in;
    int part = row / j->part_rows, first = part_first(j, part);
    (void)thread;
    if (j->n_digits) {
        struct q4_digits d = digits_of_part(j, part);
        c->kernels->quantize(w, x, row - first, &d);
    } else
        cpu_pack_row(w, x, c->packed + (size_t)first * (size_t)w->k, rows_of_part(j, part),
                     row - first, c->config.act == ACT_F16);
}

int cpu_same_input(const struct linear *a, const struct linear *b)
{
    return !!a->codes == !!b->codes &&
           (!a->codes || (a->perm == b->perm && a->k == b->k && a->group == b->group));
}

/* Tasks a thread, so that the last ones are a small part of all. */
enum { TASKS_EACH = 8 };

/* Cuts the outputs into strips; returns their number. */
static int cut_strips(struct linear_job *j, int panels)
{
    int strips = 0;
    j->panels = panels;
    for (int i = 0; i < j->n; i++) {
        strips += (j->w[i]->out + panels * 16 - 1) / (panels * 16);
        j->end[i] = strips;
    }
    return strips;
}

/* Cuts the rows so that the activations of a part stay in a core's cache (cached_bytes in
 * kernels.h); then rows and outputs so that there are enough tasks. */
static void cut_tasks(struct linear_job *j)
{
    const struct cpu *c = j->c;
    const struct linear *w = j->w[0];
    int parts = 1, enough = TASKS_EACH * pool_n_threads(c->pool);
    size_t each = j->n_digits ? (size_t)j->n_digits : sizeof(float),
           bytes = (size_t)j->rows * (size_t)w->k * each, most = c->kernels->cached_bytes;
    if (w->codes && most && bytes > most) parts = (int)((bytes + most - 1) / most);
    int strips = cut_strips(j, CPU_PANELS), most_parts = j->rows / PART_ROWS;
    while (parts < most_parts && parts * strips < enough) parts++;
    if (parts * strips < enough) cut_strips(j, CPU_PANELS / 2);
    j->part_rows = parts == 1 ? j->rows : ((j->rows + parts - 1) / parts + 15) / 16 * 16;
}

/* The linears w[0 .. n-1] of j, which read the same input. */
static void run_linears(struct linear_job *j)
{
    struct cpu *c = j->c;
    const struct linear *w = j->w[0];
    enum act act = c->config.act;
    j->n_digits = !w->codes || !is_integer(act) ? 0 : act == ACT_I16 ? 2 : 1;
    j->packed = w->codes && !j->n_digits && (w->perm || j->rows > 1 || act == ACT_F16);
    cut_tasks(j);
    if (j->n_digits || j->packed) pool_run(c->pool, j->rows, convert_task, j);
    int parts = j->rows ? (j->rows + j->part_rows - 1) / j->part_rows : 0;
    pool_run(c->pool, parts * j->end[j->n - 1], linear_task, j);
}

static void run_linear(const struct call *t)
{
    int rows = rows_of(t, t->op->in[0]), n = t->op->n;
    for (int i = 0; i < n;) {
        struct linear_job j = {.c = t->c, .x = in_of(t, 0), .rows = rows};
        const struct linear *first = linear_of(t, i);
        for (; i < n && cpu_same_input(first, linear_of(t, i)); i++) {
            j.w[j.n] = linear_of(t, i);
            j.y[j.n++] = out_of(t, i);
        }
        run_linears(&j);
    }
}

struct rope_job {
    const struct call *t;
    struct cpu *c;
    float *q;                     /* [rows][n_heads * head_dim] */
    const float *k, *v;           /* [rows][n_kv_heads * head_dim] or NULL: nothing is stored */
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    const float *cos, *sin;       /* [rows][head_dim / 2] */
    char *pages;
    size_t page_bytes;
    struct heads heads;
    float eps;
};

/* store_page for KV_INT8. */
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

/* n heads of a row, for a kind of keys that needs it. */
static void rotate_heads(enum kv_type t, float *x, int n, int head_dim, float factor)
{
    if (!kv_formats[t].rotates) return;
    for (int h = 0; h < n; h++, x += head_dim) kv_rotate(x, head_dim, factor);
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
    rotate_heads(type, q, g->n_heads, g->head_dim, 1.0f / (float)kv_rotation(g->head_dim));
    if (!j->k) return;
    float *k = c->rotated + (size_t)row * kv_row;
    const float *v = j->v + (size_t)row * kv_row;
    c->kernels->rope(j->k + (size_t)row * kv_row, k, g->n_kv_heads, g->head_dim, j->k_norm, j->eps,
                     cosr, sinr);
    rotate_heads(type, k, g->n_kv_heads, g->head_dim, 1);
    const struct batch *b = c->batch;
    char *page = j->pages + (size_t)(b->slot[row] / KV_PAGE) * j->page_bytes;
    if (kv_has_open(type)) {
        page = cpu_open_page(j->t, j->t->op->as.rope.kv, b->seq[row], b->pos[row] / KV_PAGE);
        type = KV_INT8;
    }
    for (size_t h = 0; h < (size_t)g->n_kv_heads; h++)
        store_page(page + h * kv_head_bytes(type, g->head_dim), type, g->head_dim,
                   b->slot[row] % KV_PAGE, k + h * hd, v + h * hd);
}

static void run_rope_store(const struct call *t)
{
    const struct step_plan *p = t->p->plan;
    int kv = t->op->as.rope.kv;
    struct rope_job j = {
        .t = t,
        .c = t->c,
        .q = in_of(t, 0),
        .k = in_of(t, 1),
        .v = in_of(t, 2),
        .q_norm = vector_of(t, 0),
        .k_norm = vector_of(t, 1),
        .cos = in_of(t, 3),
        .sin = in_of(t, 4),
        .heads = t->op->as.rope.heads,
        .eps = t->op->as.rope.eps,
    };
    CHECK(!j.k == !j.v);
    if (j.k) {
        j.pages = t->p->memory->kv[kv];
        j.page_bytes = cpu_kv_page_bytes(t->c->config.kv, &p->kv[kv]);
    }
    int opens = j.k && kv_has_open(t->c->config.kv);
    if (opens) cpu_open_begin(t, kv);
    pool_run(t->c->pool, t->c->batch->n_rows, rope_task, &j);
    if (opens) cpu_open_pack(t, kv);
}

struct attend_job {
    const struct call *t;
    const struct cpu *c;
    const float *q; /* [rows][n_heads * head_dim] */
    float *out;     /* the same */
    const char *pages;
    size_t page_bytes;
    struct heads heads;
    int window, heads_per_task, head_tasks; /* query heads of one task, such tasks of a KV head */
    float scale, softcap;
    const float *sinks; /* [n_heads] or NULL */
};

static void attend_task_run(void *arg, int task, int thread)
{
    const struct attend_job *j = arg;
    const struct cpu *c = j->c;
    const struct batch *b = c->batch;
    const struct heads *g = &j->heads;
    int per_block = g->n_kv_heads * j->head_tasks, kv_head = task % per_block / j->head_tasks,
        part = task % j->head_tasks;
    const struct attend_block *block = &c->blocks[task / per_block];
    int group = g->n_heads / g->n_kv_heads, first = part * j->heads_per_task, row = block->row,
        head = kv_head * group + first;
    size_t stride = (size_t)g->n_heads * (size_t)g->head_dim,
           at = (size_t)row * stride + (size_t)head * (size_t)g->head_dim;
    struct attend_task t = {
        .q = j->q + at,
        .out = j->out + at,
        .row_stride = (int)stride,
        .n_rows = block->n_rows,
        .n_heads = group - first < j->heads_per_task ? group - first : j->heads_per_task,
        .pos0 = b->pos[row],
        .window = j->window,
        .head_dim = g->head_dim,
        .scale = j->scale,
        .softcap = j->softcap,
        .sinks = j->sinks ? j->sinks + head : NULL,
        .kv = c->config.kv,
        .q_top = kv_query_top(c->config.act),
        .pages = j->pages + (size_t)kv_head * kv_head_bytes(c->config.kv, g->head_dim),
        .page_bytes = j->page_bytes,
        .table = b->block_table + (size_t)block->seq * (size_t)b->table_stride,
    };
    float *scratch = (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
    if (kv_has_open(t.kv)) {
        t.kv = KV_INT8;
        t.unpack = c->kernels->unpack;
        t.own = cpu_open_page(j->t, j->t->op->as.attend.kv, block->seq, t.pos0 / KV_PAGE) +
                (size_t)kv_head * kv_head_bytes(KV_INT8, g->head_dim);
        t.unpacked = (char *)(scratch + attend_floats(g->head_dim));
    }
    c->kernels->attend(&t, scratch);
}

static void run_attend(const struct call *t)
{
    const struct heads *g = &t->op->as.attend.heads;
    int group = g->n_heads / g->n_kv_heads, kv = t->op->as.attend.kv;
    struct attend_job j = {
        .t = t,
        .c = t->c,
        .q = in_of(t, 0),
        .out = out_of(t, 0),
        .pages = t->p->memory->kv[kv],
        .page_bytes = cpu_kv_page_bytes(t->c->config.kv, &t->p->plan->kv[kv]),
        .heads = *g,
        .window = t->op->as.attend.window,
        .heads_per_task = group < ATTEND_QUERIES ? group : ATTEND_QUERIES,
        .scale = t->op->as.attend.scale,
        .softcap = t->op->as.attend.softcap,
        .sinks = vector_of(t, 0),
    };
    j.head_tasks = (group + j.heads_per_task - 1) / j.heads_per_task;
    cut_blocks(t->c, group);
    pool_run(t->c->pool, t->c->n_blocks * g->n_kv_heads * j.head_tasks, attend_task_run, &j);
}

enum { GLU_TASK = 16384 };

struct glu_job {
    const struct cpu_kernels *k;
    struct cpu_glu a;
    float *gate;
    const float *up; /* or NULL */
    size_t n;
};

static void glu_task(void *arg, int task, int thread)
{
    const struct glu_job *j = arg;
    (void)thread;
    size_t at = (size_t)task * GLU_TASK;
    j->k->glu(&j->a, j->gate + at, j->up ? j->up + at : NULL,
              j->n - at < GLU_TASK ? j->n - at : GLU_TASK);
}

static void run_glu(const struct call *t)
{
    int gate = t->op->in[0];
    size_t n = (size_t)rows_of(t, gate) * (size_t)width_of(t, gate);
    struct cpu_glu a = {t->op->as.glu.activation, t->op->as.glu.limit, t->op->as.glu.alpha};
    struct glu_job j = {t->c->kernels, a, in_of(t, 0), in_of(t, 1), n};
    CHECK(j.up || a.activation != ACTIVATION_SWIGLU_CLAMPED);
    pool_run(t->c->pool, (int)((n + GLU_TASK - 1) / GLU_TASK), glu_task, &j);
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
    size_t at = (size_t)task * GLU_TASK;
    j->k->softcap(j->x + at, j->cap, j->n - at < GLU_TASK ? j->n - at : GLU_TASK);
}

static void run_softcap(const struct call *t)
{
    int x = t->op->in[0];
    size_t n = (size_t)rows_of(t, x) * (size_t)width_of(t, x);
    struct softcap_job j = {t->c->kernels, in_of(t, 0), t->op->as.softcap.cap, n};
    pool_run(t->c->pool, (int)((n + GLU_TASK - 1) / GLU_TASK), softcap_task, &j);
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

static void (*const run_kind[OP_KINDS])(const struct call *t) = {
    [OP_EMBED] = run_embed,           [OP_ANGLES] = run_angles, [OP_NORM] = run_norm,
    [OP_LINEAR] = run_linear,         [OP_ATTEND] = run_attend, [OP_GLU] = run_glu,
    [OP_ROPE_STORE] = run_rope_store, [OP_GATHER] = run_gather, [OP_ARGMAX] = run_argmax,
    [OP_SOFTCAP] = run_softcap,       [OP_ADD] = run_add,       [OP_CONV] = cpu_run_conv,
    [OP_DELTA] = cpu_run_delta,       [OP_ROUTE] = cpu_run_route,
    [OP_EXPERTS] = cpu_run_experts,   [OP_MIX] = cpu_run_mix,
};

void cpu_run_op(struct cpu *c, const struct be_plan *p, const struct op *op)
{
    run_kind[op->kind](&(struct call){c, p, op});
}
