/* capture.c: the inputs of linears (core/step/capture.h) against what the operations compute: every
 * output of every linear is the product of its weights, taken from the codes by hand, and the
 * captured inputs; sums x x^T over two chunks of a prompt are those of the whole prompt; the same
 * on a GPU as host code. Llama, a mixture of experts, a hybrid with experts, act-order. usage:
 * capture BUILD_DIR */
#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"
#include "core/step/capture.h"
#include "core/step/stepwise.h"
#include "tests/whole/fixture.h"

#include <math.h>

enum { ROWS = 21, MAX_OPS = 512, MAX_WIDTH = 1024 };

struct recorded {
    float *in, *out[OP_OUTS];
    int32_t *ids;
};

static struct model model;
static struct forward forward;
static struct recorded recorded[MAX_OPS]; /* by operation of the plan */
static double *sums;                      /* [MAX_WIDTH][MAX_WIDTH] x x^T of one layer's linears */
static int n_linears, n_experts, n_wrong;
static long n_rows_seen;

/* ---- weights by hand: core/step/linear.h */

static double element(const void *p, enum dtype t, size_t i)
{
    return t == DT_F32   ? ((const float *)p)[i]
           : t == DT_F16 ? f32_from_f16(((const uint16_t *)p)[i])
                         : f32_from_bf16(((const uint16_t *)p)[i]);
}

static double product(const struct linear *w, int o, const float *x, double *size)
{
    double y = w->bias ? w->bias[o] : 0;
    *size = fabs(y);
    for (int j = 0; j < w->k; j++) {
        int from = w->perm ? w->perm[j] : j;
        double weight;
        if (from < 0) continue;
        if (w->codes) {
            size_t at = ((size_t)(o / 16) * (size_t)(w->k / 8) + (size_t)(j / 8)) * 64 +
                        (size_t)(o % 16 * 4 + j % 4),
                   group = ((size_t)(o / 16) * (size_t)w->n_groups + (size_t)(j / w->group)) * 16 +
                           (size_t)(o % 16);
            int code = j % 8 < 4 ? w->codes[at] & 15 : w->codes[at] >> 4;
            weight = element(w->scales, w->scale_type, group) * (code - w->zeros[group]);
        } else {
            weight = element(w->weight, w->weight_type, (size_t)o * (size_t)w->in + (size_t)j);
        }
        y += weight * x[from];
        *size += fabs(weight * x[from]);
    }
    return y;
}

/* ---- what the operations compute */

static float *download(struct be *be, const struct stepwise_call *c, int buffer)
{
    const struct buffer *b = &c->plan->buffer[buffer];
    size_t rows = (size_t)(b->rows == ROWS_STEP ? c->batch->n_rows : c->batch->n_logits);
    float *x = malloc(rows * b->row_bytes);
    struct err e;
    forward.be->ops->download(be, x, c->memory->buffer[buffer], rows * b->row_bytes);
    if (forward.be->ops->sync(be, &e)) exit(2);
    return x;
}

static int is_linear(const struct op *op)
{
    return op->kind == OP_LINEAR || op->kind == OP_EXPERTS;
}

static void before_op(struct be *be, const struct stepwise_call *c)
{
    struct recorded *r = &recorded[c->op - c->plan->op];
    if (!is_linear(c->op)) return;
    r->in = download(be, c, c->op->in[0]);
    if (c->op->kind == OP_EXPERTS) r->ids = (int32_t *)(void *)download(be, c, c->op->in[1]);
}

static void after_op(struct be *be, const struct stepwise_call *c)
{
    struct recorded *r = &recorded[c->op - c->plan->op];
    for (int i = 0; is_linear(c->op) && i < c->op->n; i++)
        r->out[i] = download(be, c, c->op->out[i]);
}

static void forget(void)
{
    for (int i = 0; i < MAX_OPS; i++) {
        free(recorded[i].in);
        free(recorded[i].ids);
        for (int k = 0; k < OP_OUTS; k++) free(recorded[i].out[k]);
    }
    memset(recorded, 0, sizeof recorded);
}

static struct batch *prompt(struct fixture_batch *f, int first, int n)
{
    const struct span span = {0, first, n};
    struct batch *b = fixture_batch(f, &span, 1, 0, 1);
    for (int i = 0; i < n; i++) b->token[i] = fixture_token(&model, 0, first + i);
    return b;
}

static void record(void)
{
    static struct fixture_batch f;
    const struct stepwise_hooks hooks = {.before = before_op, .after = after_op};
    const struct backend *ops = forward.be->ops;
    struct be_plan *steps;
    struct err e;
    struct batch *b = prompt(&f, 0, ROWS);
    CHECK(forward.plan.n_ops <= MAX_OPS);
    if (stepwise_compile(forward.be, ops, &hooks, &forward.plan, &forward.memory, &steps, &e))
        exit(2);
    ops->begin_step(forward.be, b);
    stepwise_run(forward.be, ops, &hooks, steps, b);
    ops->end_step(forward.be);
    if (ops->wait_step(forward.be, &e)) exit(2);
    stepwise_drop(forward.be, ops, steps);
}

/* ---- captured */

/* The operation of the plan with these weights. */
static int number_of(const struct op *op)
{
    for (int i = 0; i < forward.plan.n_ops; i++)
        if (is_linear(&forward.plan.op[i]) && forward.plan.op[i].w[0] == op->w[0]) return i;
    return -1;
}

/* The slot of a row that an expert has; 0 of a linear. */
static int slot_of(const struct recorded *r, const struct capture_rows *c, int i)
{
    int k = c->expert < 0 ? 1 : c->op->as.experts.top_k, slot = 0;
    while (c->expert >= 0 && slot < k - 1 && r->ids[c->row[i] * k + slot] != c->expert) slot++;
    return c->row[i] * k + slot;
}

static void compare(const struct capture_rows *c, double bound)
{
    const struct recorded *r = &recorded[number_of(c->op)];
    for (int j = 0; j < c->op->n; j++) {
        struct linear w = forward.plan.weight[c->op->w[j]].linear;
        if (c->expert >= 0) w = linear_of_stack(&w, c->expert);
        for (int i = 0; i < c->n; i++) {
            const float *x = c->x + (size_t)i * (size_t)c->width,
                        *y = r->out[j] + (size_t)slot_of(r, c, i) * (size_t)w.out;
            for (int o = 0; o < w.out; o++) {
                double size, want = product(&w, o, x, &size);
                n_wrong += !(fabs(want - (double)y[o]) <= bound * size + 1e-30);
            }
        }
    }
}

static double bound_of_products;

static int take(void *self, const struct capture_rows *c, struct err *e)
{
    (void)self, (void)e;
    n_linears += c->expert < 0;
    n_experts += c->expert >= 0;
    n_rows_seen += c->n;
    CHECK(c->width <= MAX_WIDTH);
    if (bound_of_products > 0) compare(c, bound_of_products);
    for (int i = 0; i < c->n; i++) {
        const float *x = c->x + (size_t)i * (size_t)c->width;
        for (int a = 0; a < c->width; a++)
            for (int b = a; b < c->width; b++)
                sums[a * MAX_WIDTH + b] += (double)x[a] * (double)x[b];
    }
    return 0;
}

static int run_layer(int layer, const int *chunk, int n)
{
    static struct fixture_batch f;
    const struct capture_of of = {forward.be, &forward.plan, &forward.memory, FIXTURE_ROWS, layer};
    struct capture *c;
    struct err e;
    memset(sums, 0, sizeof *sums * MAX_WIDTH * MAX_WIDTH);
    if (capture_open(&c, &of, take, NULL, &e)) return -1;
    int rc = 0;
    for (int i = 0, at = 0; i < n && !rc; at += chunk[i++])
        rc = capture_step(c, prompt(&f, at, chunk[i]), &e);
    capture_close(c);
    return rc;
}

/* Rows that all linears and experts of a layer have to be handed. */
static long rows_of_layer(int layer)
{
    long n = 0;
    for (int i = 0; i < forward.plan.n_ops; i++) {
        const struct op *op = &forward.plan.op[i];
        if (op->layer != layer) continue;
        if (op->kind == OP_LINEAR) n += ROWS;
        if (op->kind == OP_EXPERTS) n += (long)ROWS * op->as.experts.top_k;
    }
    return n;
}

static void check_layer(const char *what, int layer, double bound)
{
    static const int whole[] = {ROWS}, chunks[] = {13, 8};
    double *first = malloc(sizeof *first * MAX_WIDTH * MAX_WIDTH);
    n_wrong = n_linears = n_experts = 0;
    n_rows_seen = 0;
    bound_of_products = bound;
    int rc = run_layer(layer, whole, 1);
    check_that(!rc && !n_wrong && n_linears + n_experts > 0 && n_rows_seen == rows_of_layer(layer),
               "%s, layer %d: %d of the outputs are not W x, %ld rows of %ld", what, layer, n_wrong,
               n_rows_seen, rows_of_layer(layer));
    memcpy(first, sums, sizeof *first * MAX_WIDTH * MAX_WIDTH);
    bound_of_products = 0;
    rc = run_layer(layer, chunks, 2);
    double worst = 0, largest = 0;
    for (int i = 0; i < MAX_WIDTH * MAX_WIDTH; i++) {
        worst = fmax(worst, fabs(first[i] - sums[i]));
        largest = fmax(largest, fabs(first[i]));
    }
    check_that(!rc && largest > 0 && worst <= 1e-12 * largest,
               "%s, layer %d: sums of two chunks differ by %g of %g", what, layer, worst, largest);
    free(first);
}

static int stop(void *self, const struct capture_rows *c, struct err *e)
{
    (void)self, (void)c;
    return err_set(e, "enough");
}

static void check_refusals(const char *what)
{
    static struct fixture_batch f;
    struct capture_of of = {forward.be, &forward.plan, &forward.memory, FIXTURE_ROWS, 99};
    struct capture *c;
    struct err e;
    check_that(capture_open(&c, &of, take, NULL, &e) == -1, "%s: a layer that is not there", what);
    of.layer = 0;
    int rc = capture_open(&c, &of, stop, NULL, &e);
    check_that(!rc && capture_step(c, prompt(&f, 0, 3), &e) == -1 && !strcmp(e.msg, "enough"),
               "%s: a function that ends the step", what);
    if (!rc) capture_close(c);
}

struct machine {
    const char *name;
    const struct backend *ops;
    const char *own;
    double bound; /* of an output, of the sum of the products' magnitudes */
};

static void check_model(const char *name, const struct machine *machine)
{
    struct forward_options o = fixture_options(ACT_F32, KV_F16);
    struct err e;
    char what[128];
    snprintf(what, sizeof what, "%s, %s", name, machine->name);
    o.own = machine->own;
    if (fixture_open(&model, name)) return;
    if (forward_open(&forward, &model, machine->ops, &o, &e)) {
        check_that(0, "%s: %s", what, e.msg);
    } else {
        record();
        for (int layer = -1; layer < model.config.n_layers; layer++)
            check_layer(what, layer, machine->bound);
        check_refusals(what);
        forget();
        forward_close(&forward);
    }
    model_close(&model);
}

int main(int argc, char **argv)
{
    static const char *const fixtures[] = {"llama", "llama-act-order-asym", "qwen3-moe",
                                           "qwen3.5-moe"};
    char library[512], own[HIP_OPTIONS_BYTES];
    if (argc != 2) return 2;
    fixture_begin(argv[1]);
    sums = malloc(sizeof *sums * MAX_WIDTH * MAX_WIDTH);
    snprintf(library, sizeof library, "%s/tests/bin/libhip-fibers.so", argv[1]);
    hip_options_write(&(struct hip_options){.library = library}, own, sizeof own);
    const struct machine cpu = {"cpu", &backend_cpu, NULL, 0x1p-18},
                         gpu = {"hip", &backend_hip, own, 0x1p-14};
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        check_model(fixtures[i], &cpu);
        if (access(library, R_OK) || !hip_image_name(0))
            skip("%s on a GPU as host code: built without clang-19", fixtures[i]);
        else if (i >= 2) check_model(fixtures[i], &gpu);
    }
    free(sums);
    return report("capture");
}
