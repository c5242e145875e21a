/* cpu_linear.c: OP_LINEAR as tasks, with the row-wise operation that makes its input and the OP_GLU
 * that reads its results (core/step/op.h). Owns: how rows and outputs are cut, activations as the
 * kernels take them. Must not know: what a kernel does inside a task. */
#include "backend-cpu/cpu_internal.h"

#include <math.h>
#include <string.h>

/* Fewest rows of a part where rows are cut to make more tasks: of codes as many as the kernels take
 * to pay for unpacking them. Fewest outputs of a strip of plain weights, which may be as few as
 * those of a router. */
enum { PART_ROWS = 128, DENSE_PART_ROWS = 16, DENSE_WIDTH = 8 };

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
    int width;               /* outputs of a strip, those of whole panels where there are codes */
    int fetches;             /* each thread fetches all digits: one part of several rows */
    int end[OP_OUTS];        /* strips of linears 0 .. i */
    const struct row_work *before; /* what makes a row of x, or NULL */
    int is_glu;                    /* w[0], w[1] are gate and up of `glu`, whose result is y[0] */
    struct cpu_glu glu;
};

static int part_first(const struct linear_job *j, int part) { return part * j->part_rows; }

static int rows_of_part(const struct linear_job *j, int part)
{
    int left = j->rows - part_first(j, part);
    return left < j->part_rows ? left : j->part_rows;
}

static struct q4_digits digits_of_part(const struct linear_job *j, int part)
{
    const struct cpu *c = j->c;
    size_t first = (size_t)part_first(j, part), k = (size_t)q4i_inputs(j->w[0]),
           scales = first * (k / MF_GROUP_MULTIPLE);
    return (struct q4_digits){rows_of_part(j, part),
                              j->n_digits,
                              cpu_low(c, j->w[0]),
                              c->digit + first * k * (size_t)j->n_digits,
                              c->act_scale + scales,
                              c->act_sum + scales,
                              0};
}

struct linear cpu_strip_of(struct linear w, int n0, int n1)
{
    size_t n = (size_t)n0;
    w.out = n1 - n0;
    if (w.bias) w.bias += n;
    if (w.codes) {
        w.codes += n * (size_t)w.k / 2;
        w.scales = (const char *)w.scales + n * (size_t)w.n_groups * dtype_bytes(w.scale_type);
        w.zeros += n * (size_t)w.n_groups;
    } else w.weight = (const char *)w.weight + n * (size_t)w.in * dtype_bytes(w.weight_type);
    return w;
}

/* Outputs n0 .. n1-1 of a linear for a part, y [rows][w->out]. */
static void multiply(const struct linear_job *j, const struct linear *w, int part, float *y, int n0,
                     int n1, int thread)
{
    const struct cpu *c = j->c;
    size_t first = (size_t)part_first(j, part);
    const float *x = j->packed ? c->packed + first * (size_t)w->k : j->x + first * (size_t)w->in;
    float *scratch = (float *)(c->scratch + (size_t)thread * c->scratch_bytes);
    int p0 = n0 / 16, p1 = (n1 + 15) / 16;
    if (!w->codes) c->kernels->dense(w, x, y, rows_of_part(j, part), n0, n1);
    else if (!j->n_digits) c->kernels->q4(w, x, y, rows_of_part(j, part), p0, p1, scratch);
    else {
        struct q4_digits d = digits_of_part(j, part);
        c->kernels->q4i(w, &d, y, p0, p1, scratch);
    }
}

/* Computes gate and up of a strip into the thread's memory, and the result from there. */
static void glu_strip(const struct linear_job *j, int part, int strip, int thread)
{
    const struct cpu *c = j->c;
    int rows = rows_of_part(j, part), out = j->w[0]->out, n0 = strip * j->width,
        n1 = n0 + j->width < out ? n0 + j->width : out, width = n1 - n0;
    size_t n = (size_t)rows * (size_t)width, first = (size_t)part_first(j, part);
    /* Off a line's start: no kernel then stores it past the caches, from which it is read. */
    float *gate = c->strips + (size_t)thread * c->strip_floats + STRIP_OFF_LINE, *up = gate + n;
    for (int i = 0; i < 2; i++) {
        struct linear w = cpu_strip_of(*j->w[i], n0, n1);
        multiply(j, &w, part, i ? up : gate, 0, width, thread);
    }
    c->kernels->glu(&j->glu, gate, up, n);
    float *y = j->y[0] + first * (size_t)out + n0;
    for (int r = 0; r < rows; r++, y += out, gate += width)
        memcpy(y, gate, (size_t)width * sizeof *y);
}

/* Brings the digits of a few rows, each of which another thread has just written, into this
 * thread's cache. Each thread begins elsewhere, so that they do not all ask the same one. */
static void fetch_digits(const struct linear_job *j, int thread)
{
    enum { LINE = 64 };
    const struct q4_digits d = digits_of_part(j, 0);
    size_t lines = (size_t)d.rows * (size_t)d.n_digits * (size_t)q4i_inputs(j->w[0]) / LINE,
           at = lines * (size_t)thread / (size_t)pool_n_threads(j->c->pool);
    for (size_t i = 0; i < lines; i++, at = at + 1 < lines ? at + 1 : 0)
        __builtin_prefetch(d.digit + at * LINE, 0, 2);
}

static void linear_task(void *arg, int task, int thread)
{
    const struct linear_job *j = arg;
    int i = 0, strips = j->end[j->n - 1], part = task / strips, strip = task % strips;
    if (j->fetches && task == pool_first_task(j->c->pool, strips, thread)) fetch_digits(j, thread);
    if (j->is_glu) {
        glu_strip(j, part, strip, thread);
        return;
    }
    while (strip >= j->end[i]) i++;
    if (i) strip -= j->end[i - 1];
    const struct linear *w = j->w[i];
    int n0 = strip * j->width, n1 = n0 + j->width < w->out ? n0 + j->width : w->out;
    multiply(j, w, part, j->y[i] + (size_t)part_first(j, part) * (size_t)w->out, n0, n1, thread);
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
    if (j->before) j->before->fn(j->before->job, row, thread);
    if (j->n_digits) {
        struct q4_digits d = digits_of_part(j, part);
        d.largest = cpu_row_largest(c, w, x);
        c->kernels->quantize(w, x, row - first, &d);
    } else if (j->packed)
        cpu_pack_row(w, x, c->packed + (size_t)first * (size_t)w->k, rows_of_part(j, part),
                     row - first, c->config.act == ACT_F16);
}

int cpu_same_input(const struct linear *a, const struct linear *b)
{
    return !!a->codes == !!b->codes &&
           (!a->codes ||
            ((a->perm == b->perm || (a->in_order && b->in_order)) && a->k == b->k &&
             a->group == b->group && a->pairs == b->pairs && a->outliers == b->outliers));
}

/* Tasks a thread, so that the last ones are a small part of all. */
enum { TASKS_EACH = 8 };

/* Cuts the outputs into strips; returns their number. */
static int cut_strips(struct linear_job *j, int width)
{
    int strips = 0;
    j->width = width;
    for (int i = 0; i < (j->is_glu ? 1 : j->n); i++) {
        strips += (j->w[i]->out + width - 1) / width;
        j->end[i] = strips;
    }
    if (j->is_glu) j->end[1] = strips;
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
           inputs = (size_t)(j->n_digits ? q4i_inputs(w) : w->k),
           bytes = (size_t)j->rows * inputs * each, most = c->kernels->cached_bytes;
    if (w->codes && most && bytes > most) parts = (int)((bytes + most - 1) / most);
    if (j->is_glu && parts < (j->rows + STRIP_ROWS - 1) / STRIP_ROWS)
        parts = (j->rows + STRIP_ROWS - 1) / STRIP_ROWS;
    int width = CPU_PANELS * 16, least = w->codes ? width / 2 : DENSE_WIDTH,
        most_parts = j->rows / (w->codes ? PART_ROWS : DENSE_PART_ROWS), strips;
    strips = cut_strips(j, width);
    while (parts < most_parts && parts * strips < enough) parts++;
    while (width > least && parts * strips < enough) strips = cut_strips(j, width /= 2);
    j->part_rows = parts == 1 ? j->rows : ((j->rows + parts - 1) / parts + 15) / 16 * 16;
}

/* The linears w[0 .. n-1] of j, which read the same input. */
static void run_linears(struct linear_job *j)
{
    struct cpu *c = j->c;
    const struct linear *w = j->w[0];
    enum act act = c->config.act;
    j->n_digits = !w->codes ? 0 : act_formats[act].digits;
    j->packed = w->codes && !j->n_digits && (w->perm || j->rows > 1 || act == ACT_F16);
    cut_tasks(j);
    if (j->n_digits || j->packed || j->before) cpu_run_rows(c, j->rows, w->in, convert_task, j);
    j->fetches = j->n_digits && j->rows > 1 && j->part_rows == j->rows &&
                 pool_n_threads(c->pool) > 2;
    int parts = j->rows ? (j->rows + j->part_rows - 1) / j->part_rows : 0;
    pool_run(c->pool, parts * j->end[j->n - 1], linear_task, j);
}

void cpu_run_linear(const struct call *t, const struct row_work *before, const struct call *glu)
{
    int rows = rows_of(t, t->op->in[0]), n = t->op->n;
    for (int i = 0; i < n;) {
        struct linear_job j = {.c = t->c, .x = in_of(t, 0), .rows = rows};
        const struct linear *first = linear_of(t, i);
        if (!i) j.before = before;
        if (glu) j.is_glu = 1, j.glu = cpu_glu_of(glu->op);
        for (; i < n && cpu_same_input(first, linear_of(t, i)); i++) {
            j.w[j.n] = linear_of(t, i);
            j.y[j.n++] = out_of(t, i);
        }
        run_linears(&j);
    }
}
