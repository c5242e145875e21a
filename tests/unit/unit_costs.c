/* unit_costs.c: the model of time (engine/costs.h): what follows from its definition by hand, and
 * that it says of several H200 about what was measured on them (docs/devices.md). With --table it
 * prints both. */
#include "bench/shape.h"
#include "engine/costs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct engine_options two = {.n_devices = 2, .threads = 2, .device_at = {0, 1}};

/* A placement of a shape on N GPUs. */
struct run {
    struct model model;
    struct placement p;
};

static void open_run(struct run *r, const char *name, int n, enum parallel by)
{
    const struct engine_options o = {.n_devices = n, .threads = 2};
    const struct forward_options f = {.variant = "auto",
                                      .act = ACT_F16,
                                      .kv = KV_F16,
                                      .n_pages = 1,
                                      .max_rows = 2048,
                                      .max_logits = 64,
                                      .max_seqs = 64,
                                      .max_pages = 1};
    const struct shape *shape;
    struct err e;
    memset(&r->p, 0, sizeof r->p);
    assert_int_equal(shape_find(name, &shape, &e), 0);
    assert_int_equal(shape_count(&r->model, shape, 0, &e), 0);
    r->p.n = 1;
    r->p.entry[0] = backend_find("hip");
    if (n == 1) assert_int_equal(placement_need(&r->p, &r->model, &f, &e), 0);
    else
        assert_int_equal(placement_open_gpus(&r->p, &o, &r->model, backend_find("hip"), &f, by, &e),
                         0);
}

static double seconds(const struct run *r, const struct costs *c, int rows, double positions)
{
    struct err e;
    double s = 0;
    const struct costs_step step = {rows, positions};
    assert_int_equal(costs_seconds(c, &r->p, &r->model, &step, &s, &e), 0);
    return s;
}

static void close_run(struct run *r)
{
    placement_close(&r->p);
    shape_close(&r->model);
}

static int is_near(double a, double b, double within) { return fabs(a / b - 1) <= within; }

/* ---- by hand */

/* Llama-2-7B: 32 layers of 4 * 4096^2 + 3 * 4096 * 11008 weights of 67/128 bytes, a head in fp16.
 */
static void one_gpu(void **state)
{
    const double linears = 32 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008) * 67 / 128,
                 head = 2 * 4096.0 * 32000, bytes = linears + head;
    struct costs c = costs_of(&two);
    struct run r;
    (void)state;
    open_run(&r, "llama-2-7b", 1, PARALLEL_AUTO);
    c.gpu_bytes = 1e12;
    c.gpu_ops = 0;
    assert_true(is_near(seconds(&r, &c, 1, 0), bytes / 1e12, 1e-3));
    assert_true(is_near(seconds(&r, &c, 64, 0), bytes / 1e12, 1e-3));
    /* a position: keys and values of 32 layers, 4096 halves each */
    const double more = seconds(&r, &c, 1, 1000) - seconds(&r, &c, 1, 0);
    assert_true(is_near(more, 1000 * 32 * 2 * 4096.0 * 2 / 1e12, 1e-3));
    c.gpu_ops = 1e14;
    const double works = seconds(&r, &c, 100, 0) - seconds(&r, &c, 50, 0);
    assert_true(is_near(works, 50 * bytes * 2 * 8 / 4.25 / 1e14, 1e-3));
    close_run(&r);
}

/* Exchanges that cost nothing: shares alone are left, with attention's output linear, 8% of a
 * layer, whole on both. Of each layer three or four rows come from the other GPU, half of each. */
static void by_tensor(void **state)
{
    struct costs c = costs_of(&two), free = c;
    struct run one, more;
    (void)state;
    open_run(&one, "llama-2-7b", 1, PARALLEL_AUTO);
    open_run(&more, "llama-2-7b", 2, PARALLEL_TENSOR);
    free.exchange = free.further = 0;
    free.link = 1e30;
    double shares = 2 * seconds(&more, &free, 64, 0) / seconds(&one, &c, 64, 0);
    assert_true(shares >= 1 && shares < 1.1);
    double first = seconds(&more, &c, 1, 0) - seconds(&more, &free, 1, 0),
           row = (seconds(&more, &c, 1025, 0) - seconds(&more, &free, 1025, 0) - first) / 1024;
    assert_true(first > 32 * 3 * (c.exchange + c.further) &&
                first < 32 * 5 * (c.exchange + c.further));
    assert_true(row > 32 * 4.0 * (2 * 4096 + 11008) / 2 / c.link);
    assert_true(row < 32 * 4.0 * (3 * 4096 + 11008) / 2 / c.link);
    close_run(&one);
    close_run(&more);
}

/* One row is on one GPU after the other; many are a pipeline, whose microbatches read the weights
 * again each. */
static void by_layers(void **state)
{
    struct costs c = costs_of(&two);
    struct run one, more;
    (void)state;
    open_run(&one, "llama-2-70b", 1, PARALLEL_AUTO);
    open_run(&more, "llama-2-70b", 4, PARALLEL_LAYERS);
    const double alone = seconds(&one, &c, 1, 0), apart = seconds(&more, &c, 1, 0);
    assert_true(apart > alone && apart < 1.02 * alone);
    assert_true(is_near(seconds(&one, &c, 1 << 16, 0) / seconds(&more, &c, 1 << 16, 0), 4, 0.05));
    c.gpu_ops = 0; /* reads alone: nothing is gained */
    assert_true(is_near(seconds(&one, &c, 64, 0) / seconds(&more, &c, 64, 0), 1, 0.05));
    close_run(&one);
    close_run(&more);
}

static void beside_the_cpu(void **state)
{
    const struct engine_options o = {
        .n_devices = 1, .threads = 2, .cpu = "auto", .variant = "auto"};
    const struct forward_options f = {.variant = "auto",
                                      .act = ACT_I16,
                                      .n_pages = 1,
                                      .max_rows = 64,
                                      .max_logits = 1,
                                      .max_seqs = 1,
                                      .max_pages = 1};
    struct costs c = costs_of(&o);
    struct run r;
    struct err e;
    (void)state;
    assert_true(is_near(c.host_bytes, 16e9, 1e-9));
    open_run(&r, "qwen3-30b-a3b", 1, PARALLEL_AUTO);
    r.p.n_layers = r.p.n_gpu_layers = r.p.n_experts = r.p.n_gpu_experts = 48;
    r.p.place[0] =
        (struct forward_place){.ops = r.p.entry[0]->ops, .variant = "auto", .act = ACT_I16};
    assert_int_equal(placement_add_host(&r.p, &o, &r.model, &e), 0);
    placement_set(&r.p, &r.model, 48, 40); /* the experts of 8 layers on the CPU */
    assert_int_equal(placement_need(&r.p, &r.model, &f, &e), 0);
    const double experts = 8 * 8 * 3 * 2048.0 * 768 * 67 / 128; /* 8 of 128 */
    const double all = seconds(&r, &c, 1, 0);
    assert_true(is_near(
        all, (double)r.p.need[0].read[0] / c.gpu_bytes + experts / c.host_bytes + 16 * c.turn,
        0.01));
    close_run(&r);
}

/* ---- beside what was measured */

/* Tokens a second on one H200 and on several by tensor, in one call each, `-d 128`, f16. */
static const struct {
    const char *shape;
    int n, rows;
    double alone, several;
} measured[] = {{"llama-2-70b", 2, 1, 53.5, 76.8},    {"llama-2-70b", 4, 1, 53.5, 83.8},
                {"llama-2-70b", 2, 64, 1958, 2661},   {"llama-2-70b", 4, 64, 1958, 2820},
                {"llama-2-70b", 2, 256, 3646, 4525},  {"llama-2-70b", 4, 256, 3646, 4789},
                {"llama-2-70b", 2, 1024, 4389, 5410}, {"llama-2-70b", 4, 1024, 4389, 5635},
                {"llama-2-7b", 2, 1, 637, 493},       {"llama-2-7b", 2, 64, 13473, 13824},
                {"llama-2-7b", 2, 256, 19235, 23575}, {"llama-2-7b", 2, 1024, 43856, 47214},
                {"qwen3-30b-a3b", 2, 1, 475, 375},    {"qwen3-30b-a3b", 2, 256, 20264, 20665}};
enum { N_MEASURED = sizeof measured / sizeof *measured };

/* Of row i of the table: prompts of 1,024, else a token of each sequence. */
static void predict(int i, double *alone, double *several)
{
    enum { POSITIONS = 160 };
    const struct costs c = costs_of(&two);
    const int rows = measured[i].rows;
    const double positions = rows == 1024 ? 0 : (double)rows * POSITIONS;
    struct run one, more;
    open_run(&one, measured[i].shape, 1, PARALLEL_AUTO);
    open_run(&more, measured[i].shape, measured[i].n, PARALLEL_TENSOR);
    *alone = rows / seconds(&one, &c, rows, positions);
    *several = rows / seconds(&more, &c, rows, positions);
    close_run(&one);
    close_run(&more);
}

static void as_measured(void **state)
{
    (void)state;
    for (int i = 0; i < N_MEASURED; i++) {
        double alone, several, real = measured[i].several / measured[i].alone;
        predict(i, &alone, &several);
        /* launches of small kernels, which mixtures have, cost more than bytes */
        if (!strcmp(measured[i].shape, "qwen3-30b-a3b") && measured[i].rows == 1) continue;
        assert_true(is_near(several / alone, real, 0.2));
        assert_true(is_near(several, measured[i].several, 0.2));
    }
}

static void print_table(void)
{
    printf("shape          GPUs tokens     one: model measured    by tensor: model measured    "
           "multiple: model measured\n");
    for (int i = 0; i < N_MEASURED; i++) {
        double alone, several;
        predict(i, &alone, &several);
        printf("%-14s %4d %6d %14.1f %8.1f %19.1f %8.1f %19.2f %8.2f\n", measured[i].shape,
               measured[i].n, measured[i].rows, alone, measured[i].alone, several,
               measured[i].several, several / alone, measured[i].several / measured[i].alone);
    }
}

/* Multiples of one GPU that nobody has measured here. */
static void print_ways(void)
{
    static const int rows[] = {1, 64, 256, 1024, 4096};
    static const int counts[] = {2, 4, 8};
    static const enum parallel ways[] = {PARALLEL_TENSOR, PARALLEL_LAYERS, PARALLEL_DATA};
    const struct costs c = costs_of(&two);
    printf("Llama-2-70B, multiples of one by the model: tokens 1, 64, 256, 1024, 4096\n");
    for (int w = 0; w < 3; w++)
        for (int k = 0; k < 3; k++) {
            const int n = counts[k], is_data = ways[w] == PARALLEL_DATA;
            struct run one, more;
            open_run(&one, "llama-2-70b", 1, PARALLEL_AUTO);
            open_run(&more, "llama-2-70b", is_data ? 1 : n, ways[w]);
            printf("%-7s %d", parallel_name(ways[w]), n);
            for (int i = 0; i < 5; i++) {
                const double positions = rows[i] > 256 ? 0 : rows[i] * 160.0;
                const int part = is_data ? (rows[i] + n - 1) / n : rows[i];
                printf(" %6.2f", seconds(&one, &c, rows[i], positions) /
                                     seconds(&more, &c, part, positions * part / rows[i]));
            }
            printf("\n");
            close_run(&one);
            close_run(&more);
        }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_gpu),     cmocka_unit_test(by_tensor),
        cmocka_unit_test(by_layers),   cmocka_unit_test(beside_the_cpu),
        cmocka_unit_test(as_measured),
    };
    if (argc > 1 && !strcmp(argv[1], "--table")) return print_table(), print_ways(), 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
