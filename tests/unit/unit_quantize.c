/* unit_quantize.c: sums, factors and solutions of quantize/ against plain loops in double
 * precision, every set of kernels and number of threads against every other, packed words, rules.
 */
#include "convert/unpack.h"
#include "core/base/dtype.h"
#include "quantize/act.h"
#include "quantize/pack.h"
#include "quantize/settings.h"
#include "quantize/solver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OUT = 64, ROWS = 700 };

static struct err e;
static unsigned seed;

static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 23) - 1;
}

/* ---- the plain way */

struct plain {
    int n, bits, sym, group, search;
    int low;       /* bits of all groups but the last, with ranges cut to 85%; 0: all are alike */
    double *h, *u; /* [n][n] in the order of quantization */
    double *w;     /* [OUT][n], becomes the rounded weights */
    int *codes;    /* [OUT][n] */
};

/* U with U^T U = the inverse of h: Gauss-Jordan, then Cholesky. */
static void plain_factor(struct plain *p)
{
    int n = p->n;
    double *a = malloc((size_t)(n * n) * 8), *inv = calloc((size_t)(n * n), 8);
    memcpy(a, p->h, (size_t)(n * n) * 8);
    for (int i = 0; i < n; i++) inv[i * n + i] = 1;
    for (int i = 0; i < n; i++) {
        double d = a[i * n + i];
        for (int j = 0; j < n; j++) a[i * n + j] /= d, inv[i * n + j] /= d;
        for (int r = 0; r < n; r++) {
            double x = a[r * n + i];
            for (int j = 0; j < n && r != i; j++)
                a[r * n + j] -= x * a[i * n + j], inv[r * n + j] -= x * inv[i * n + j];
        }
    }
    memset(p->u, 0, (size_t)(n * n) * 8);
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) {
            double sum = inv[i * n + j];
            for (int k = 0; k < i; k++) sum -= p->u[k * n + i] * p->u[k * n + j];
            p->u[i * n + j] = j == i ? sqrt(sum) : sum / p->u[i * n + i];
        }
    free(a);
    free(inv);
}

static double f16(double x) { return (double)f32_from_f16(f16_from_f32((float)x)); }

static double plain_code(const struct plain *p, double w, double scale, double zero)
{
    double q = rint(w / scale) + zero, top = (1 << p->bits) - 1;
    return q < 0 ? 0 : q > top ? top : q;
}

static void plain_range(const struct plain *p, const double *w, int n, double clip, double *scale,
                        double *zero)
{
    double low = 0, high = 0, best = INFINITY, top = (1 << p->bits) - 1;
    for (int i = 0; i < n; i++) low = fmin(low, w[i]), high = fmax(high, w[i]);
    if (p->sym) high = fmax(high, -low), low = -high;
    for (int step = 0; step < (p->search ? RANGE_STEPS : 1); step++) {
        double f = clip - step / 100.0, s = f16(f * (high - low) / top), sum = 0,
               z = p->sym ? 1 << (p->bits - 1) : fmax(1, fmin(top, rint(-f * low / s)));
        for (int i = 0; i < n; i++)
            sum += pow(fabs(s * (plain_code(p, w[i], s, z) - z) - w[i]), 2.4);
        if (sum < best) best = sum, *scale = s, *zero = z;
    }
}

static void plain_solve(struct plain *p)
{
    int n = p->n, bits = p->bits;
    for (int r = 0; r < OUT; r++) {
        double *w = p->w + r * n, scale = 1, zero = 0;
        for (int i = 0; i < n; i++) {
            int low = p->low && i < n - p->group;
            p->bits = low ? p->low : bits;
            if (i % p->group == 0)
                plain_range(p, w + i, n - i < p->group ? n - i : p->group, low ? 0.85 : 1, &scale,
                            &zero);
            double code = plain_code(p, w[i], scale, zero), value = scale * (code - zero),
                   error = (w[i] - value) / p->u[i * n + i];
            p->codes[r * n + i] = (int)code;
            w[i] = value;
            for (int j = i + 1; j < n; j++) w[j] -= error * p->u[i * n + j];
        }
    }
}

/* ---- beside it */

struct problem {
    int n;
    float *x, *w; /* [ROWS][n], [OUT][n] */
};

static void make(struct problem *p, int n, unsigned from)
{
    seed = from;
    p->n = n;
    p->x = malloc((size_t)(ROWS * n) * 4);
    p->w = malloc((size_t)(OUT * n) * 4);
    for (int r = 0; r < ROWS; r++) {
        double common = uniform();
        for (int i = 0; i < n; i++)
            p->x[r * n + i] = (float)((uniform() + 2 * common) * (1 + 3.0 * (i % 7 == 0)));
    }
    for (int i = 0; i < OUT * n; i++) p->w[i] = (float)(uniform() * uniform());
}

static void drop(struct problem *p)
{
    free(p->x);
    free(p->w);
}

/* Square sum of what the outputs lose. */
static double loss(const struct problem *p, const float *w)
{
    double sum = 0;
    for (int o = 0; o < OUT; o++)
        for (int r = 0; r < ROWS; r++) {
            double y = 0;
            for (int i = 0; i < p->n; i++)
                y += ((double)w[o * p->n + i] - (double)p->w[o * p->n + i]) *
                     (double)p->x[r * p->n + i];
            sum += y * y;
        }
    return sum;
}

struct trial {
    enum quant_order kind;
    int group, bits, sym, search, threads;
    double beta;
    const struct quantize_kernels *k;
    int low;
};

struct solution {
    struct solver_matrix m;
    struct factor f;
    struct hessian h;
};

static void solve(const struct problem *p, const struct trial *t, struct solution *s)
{
    struct pool *pool;
    const struct input_rows rows = {p->x, (size_t)p->n, NULL, ROWS};
    const struct factor_want want = {t->kind, t->group, 0.05, NULL};
    const struct solver_settings how = {t->bits, t->sym, t->search, t->beta, t->low, 0.85f};
    assert_int_equal(pool_open(&pool, t->threads, &e), 0);
    assert_int_equal(hessian_open(&s->h, p->n, NULL, &e), 0);
    hessian_add(&s->h, &rows, pool, t->k);
    assert_int_equal(factor_open(&s->f, p->n, &s->h, &want, &e), 0);
    assert_int_equal(factor_solve(&s->f, &s->h, want.damp, pool, t->k, &e), 0);
    assert_int_equal(s->f.failed, 0);
    assert_int_equal(solver_open(&s->m, p->n, OUT, s->f.n_groups, &e), 0);
    memcpy(s->m.w, p->w, (size_t)(OUT * p->n) * 4);
    assert_int_equal(solver_run(&s->m, &s->f, &how, pool, t->k, &e), 0);
    pool_close(pool);
}

static void forget(struct solution *s)
{
    solver_close(&s->m);
    factor_close(&s->f);
    hessian_close(&s->h);
}

/* The Hessian against sums in double precision, which go into q with the damping. */
static void compare_sums(const struct problem *p, const struct solution *s, struct plain *q)
{
    int n = p->n;
    double mean = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int x = s->f.order[i], y = s->f.order[j];
            double sum = 0, size = 0;
            for (int r = 0; r < ROWS; r++) {
                double one = (double)p->x[r * n + x] * (double)p->x[r * n + y];
                sum += one, size += fabs(one);
            }
            q->h[i * n + j] = sum;
            double have = (double)s->h.sum[x < y ? x * n + y : y * n + x];
            assert_true(fabs(have - sum) <= (HESSIAN_ROWS + 3) * 0x1p-24 * size);
        }
    for (int i = 0; i < n; i++) mean += q->h[i * n + i] / n;
    for (int i = 0; i < n; i++) q->h[i * n + i] += 0.05 * mean;
}

static void compare_factor(const struct solution *s, const struct plain *q)
{
    int n = q->n;
    for (int b = 0; b < s->f.n_blocks; b++) {
        const struct order_block *k = &s->f.blocks[b];
        for (int i = 0; i < k->n; i++)
            for (int j = i; j < n - k->first; j++) {
                size_t at = k->at +
                            (size_t)((j / TN_COLUMNS * k->n + i) * TN_COLUMNS + j % TN_COLUMNS);
                int row = k->first + i;
                double have = (double)s->f.u[at], want = q->u[row * n + k->first + j];
                assert_true(fabs(have - want) <= 1e-4 * q->u[row * n + row]);
            }
    }
}

static void compare(int n, struct trial t)
{
    struct problem p;
    struct solution s;
    size_t nn = (size_t)(n * n), on = (size_t)(OUT * n);
    t.k = quantize_kernels();
    make(&p, n, (unsigned)(n + t.group));
    solve(&p, &t, &s);
    struct plain q = {n,     t.bits,        t.sym,          t.group,        t.search,
                      t.low, calloc(nn, 8), malloc(nn * 8), malloc(on * 8), malloc(on * 4)};
    compare_sums(&p, &s, &q);
    plain_factor(&q);
    compare_factor(&s, &q);
    for (int r = 0; r < OUT; r++)
        for (int i = 0; i < n; i++) q.w[r * n + i] = (double)p.w[r * n + s.f.order[i]];
    plain_solve(&q);
    float *plain = malloc(on * 4);
    int same = 0;
    for (int r = 0; r < OUT; r++)
        for (int i = 0; i < n; i++) {
            plain[r * n + s.f.order[i]] = (float)q.w[r * n + i];
            same += q.codes[r * n + i] == s.m.codes[s.f.order[i] * OUT + r];
        }
    double a = loss(&p, s.m.w), b = loss(&p, plain);
    print_message("n %d group %d bits %d: %.1f%% of the codes alike, lost %.5g, plain %.5g\n", n,
                  t.group, t.bits, 100.0 * same / (OUT * n), a, b);
    assert_true(same >= OUT * n * 9 / 10 && fabs(a - b) <= 0.03 * b);
    free(plain);
    free(q.h), free(q.u), free(q.w), free(q.codes);
    forget(&s);
    drop(&p);
}

static void test_solutions(void **state)
{
    (void)state;
    compare(64, (struct trial){ORDER_NONE, 32, 4, 1, 0, 1, 0, NULL, 0});
    compare(320, (struct trial){ORDER_NONE, 64, 4, 1, 1, 2, 0, NULL, 0});
    compare(320, (struct trial){ORDER_FULL, 128, 3, 0, 1, 2, 0, NULL, 0});
    compare(416, (struct trial){ORDER_NONE, 128, 4, 0, 1, 3, 0, NULL, 0});
    compare(288, (struct trial){ORDER_FULL, 288, 4, 1, 1, 2, 0, NULL, 0});
    compare(160, (struct trial){ORDER_GROUP, 32, 8, 1, 1, 2, 0, NULL, 0});
    compare(320, (struct trial){ORDER_RISING, 64, 8, 1, 0, 2, 0, NULL, 4});
    compare(256, (struct trial){ORDER_FALLING, 128, 8, 1, 0, 3, 0, NULL, 4});
}

static int same(const struct solution *a, const struct solution *b)
{
    size_t n = (size_t)a->m.in * OUT, g = (size_t)a->m.n_groups * OUT;
    return !memcmp(a->m.codes, b->m.codes, n) && !memcmp(a->m.w, b->m.w, n * 4) &&
           !memcmp(a->m.scales, b->m.scales, g * 2) && !memcmp(a->m.zeros, b->m.zeros, g) &&
           !memcmp(&a->m.error, &b->m.error, sizeof a->m.error);
}

static void test_same_bits(void **state)
{
    static const int threads[] = {1, 2, 5};
    const struct quantize_kernels *all[] = {&kernels_plain, NULL, NULL};
    struct problem p;
    int n = 1;
    (void)state;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all[n++] = &kernels_avx2;
    if (quantize_kernels() == &kernels_avx512) all[n++] = &kernels_avx512;
#endif
    make(&p, 224, 5);
    for (int i = 0; i < ROWS; i++) p.x[i * p.n + 40] = 0; /* an input that is always 0 */
    for (int kind = ORDER_GROUP; kind <= ORDER_NONE; kind++) {
        struct solution first, other;
        struct trial t = {(enum quant_order)kind,       64,     4, kind != ORDER_FULL, 1, 1,
                          kind == ORDER_NONE ? 0.2 : 0, all[0], 0};
        solve(&p, &t, &first);
        for (int k = 0; k < n; k++)
            for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
                t.k = all[k], t.threads = threads[i];
                solve(&p, &t, &other);
                if (!same(&first, &other)) fail_msg("%s, %d threads", t.k->name, t.threads);
                forget(&other);
            }
        for (int o = 0; o < OUT; o++) assert_true(first.m.w[o * p.n + 40] == 0);
        forget(&first);
    }
    drop(&p);
}

/* The order of W4A4: the 32 largest last, groups of 32, the last but one shorter; sizes decide, not
 * the Hessian. Ties go by number. */
static void test_outliers(void **state)
{
    enum { N = 96 + 32 };
    float size[N];
    struct factor f;
    (void)state;
    for (int i = 0; i < N; i++) size[i] = (float)(i * 37 % N);
    size[5] = size[6] = 1000;
    for (int kind = ORDER_RISING; kind <= ORDER_FALLING; kind++) {
        const struct factor_want want = {(enum quant_order)kind, 64, 0, size};
        assert_int_equal(factor_open(&f, N - 32, NULL, &want, &e), 0);
        int n = N - 32;
        assert_true(f.n_groups == 2 && f.groups[0].first == 0 && f.groups[0].n == 32 &&
                    f.groups[1].first == 32 && f.groups[1].n == 64 && f.groups[1].number == 1);
        for (int i = 1; i < n; i++) {
            float a = size[f.order[i - 1]], b = size[f.order[i]];
            if (kind == ORDER_RISING) assert_true(a <= b);
            else if (i != 32) assert_true(a >= b);
        }
        for (int i = 32; i < n; i++) assert_true(size[f.order[i]] >= size[f.order[0]]);
        int first = kind == ORDER_RISING ? n - 1 : 32, step = kind == ORDER_RISING ? -1 : 1;
        assert_true(f.order[first] == 5 && f.order[first + step] == 6);
        factor_close(&f);
    }
}

/* A row by hand: 64 inputs, of which number 32 .. 63 are outliers. Of the others the largest is 7
 * (steps of 0.9), so 7 and -7 become 7 and -8 of them, as 6.9 does; outliers have steps of 1 / 127
 * of the largest. */
static void test_rounded_rows(void **state)
{
    enum { N = 64 };
    float size[N], x[2 * N] = {0};
    struct factor f;
    struct pool *pool;
    (void)state;
    for (int i = 0; i < N; i++) size[i] = (float)(i + 1);
    x[0] = 7, x[1] = -7, x[2] = 6.9f, x[3] = 0.44f, x[4] = 0.46f, x[5] = -1.36f;
    x[32] = 127, x[33] = -126.6f, x[34] = 0.49f, x[35] = 0.51f;
    x[N] = 0x1p-101f; /* too small for a scale */
    const struct factor_want want = {ORDER_RISING, 32, 0, size};
    const struct input_rows rows = {x, N, NULL, 2};
    assert_int_equal(pool_open(&pool, 2, &e), 0);
    assert_int_equal(factor_open(&f, N, NULL, &want, &e), 0);
    assert_int_equal(act_round(&rows, &f, pool, &e), 0);
    const float step = 7 * 0.9f / 7;
    assert_true(x[0] == step * 7 && x[1] == step * -8 && x[2] == step * 7);
    assert_true(x[3] == 0 && x[4] == step && x[5] == step * -2);
    assert_true(x[32] == 127 && x[33] == -127 && x[34] == 0 && x[35] == 1);
    assert_true(x[N] == 0);
    x[0] = 3, x[N] = 4;
    act_sizes(size, N, &rows, pool);
    assert_true(size[0] == 25 && size[32] == 127 * 127);
    factor_close(&f);
    pool_close(pool);
}

/* Inputs that depend on each other, without damping: the ladder gives some. */
static void test_damping(void **state)
{
    struct pool *pool;
    struct hessian h;
    struct factor f;
    const struct factor_want want = {ORDER_GROUP, 32, 0, NULL};
    float x[4 * 64];
    (void)state;
    seed = 9;
    for (int i = 0; i < 4 * 64; i++) x[i] = (float)uniform();
    const struct input_rows rows = {x, 64, NULL, 4};
    assert_int_equal(pool_open(&pool, 2, &e), 0);
    assert_int_equal(hessian_open(&h, 64, NULL, &e), 0);
    hessian_add(&h, &rows, pool, quantize_kernels());
    assert_int_equal(factor_open(&f, 64, &h, &want, &e), 0);
    assert_int_equal(factor_solve(&f, &h, 0, pool, quantize_kernels(), &e), 0);
    assert_true(!f.failed && f.damp > 0 && f.damp <= 1);
    factor_close(&f);
    x[3] = NAN;
    hessian_add(&h, &rows, pool, quantize_kernels());
    assert_int_equal(hessian_is_finite(&h), 0);
    hessian_close(&h);
    pool_close(pool);
}

static void test_words(void **state)
{
    enum { IN = 64, GROUPS = 3 };
    static const int bits[] = {2, 3, 4, 8};
    (void)state;
    for (int b = 0; b < 4; b++) {
        uint8_t codes[IN * OUT], back[IN * OUT], zeros[GROUPS * OUT], zeros_back[GROUPS * OUT],
            panel[IN * UNPACK_COLS];
        uint32_t words[IN * OUT / 4], zero_words[GROUPS * OUT / 4];
        uint16_t row[OUT];
        int top = (1 << bits[b]) - 1;
        seed = 3;
        for (int i = 0; i < IN * OUT; i++) codes[i] = (uint8_t)((int)(uniform() * 1e6) & top);
        for (int i = 0; i < GROUPS * OUT; i++)
            zeros[i] = (uint8_t)(1 + ((int)(uniform() * 1e6 + 1e6) % top));
        const struct pack_columns half = {IN, OUT, 0, OUT / 2, bits[b]},
                                  rest = {IN, OUT, OUT / 2, OUT, bits[b]};
        pack_codes(words, codes, &half);
        pack_codes(words, codes, &rest);
        unpack_all_codes(back, words, IN, OUT, bits[b]);
        assert_memory_equal(codes, back, sizeof codes);
        unpack_codes(panel, words + 16, OUT, IN, UNPACK_STREAM, bits[b]); /* the converter's */
        for (int i = 0; i < IN; i++)
            assert_memory_equal(panel + i * UNPACK_COLS, codes + i * OUT + 16, UNPACK_COLS);
        pack_zeros(zero_words, zeros, GROUPS, OUT, bits[b]);
        unpack_all_zeros(zeros_back, zero_words, GROUPS, OUT, bits[b]);
        assert_memory_equal(zeros, zeros_back, sizeof zeros);
        unpack_zero_row(row, zero_words + OUT * bits[b] / 32, OUT, UNPACK_STREAM, bits[b],
                        ZEROS_WORD_PLUS, NULL);
        for (int i = 0; i < OUT; i++) assert_int_equal(row[i], zeros[OUT + i]);
    }
}

static void test_rules(void **state)
{
    static struct settings s = {.all = {4, 128, 1, 0}};
    const struct args_strings rules = {3,
                                       {"-:.*down_proj$", "+:.*layers\\.1\\..*{bits=8,sym=false}",
                                        "+:.*\\d{1,2}\\.x{\"group_size\": 32}"}};
    struct module_settings m;
    (void)state;
    assert_int_equal(settings_rules(&s, &rules, &e), 0);
    assert_int_equal(settings_of(&s, "a.layers.1.down_proj", &m, &e), 0);
    assert_true(m.skip);
    assert_int_equal(settings_of(&s, "a.layers.1.x", &m, &e), 0);
    assert_true(m.bits == 8 && m.group == 128 && m.sym == 0 && !m.skip);
    assert_int_equal(settings_of(&s, "a.layers.22.x", &m, &e), 0);
    assert_true(m.bits == 4 && m.group == 32 && m.sym == 1);
    assert_int_equal(settings_of(&s, "a.layers.22.y", &m, &e), 0);
    assert_true(m.bits == 4 && m.group == 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_solutions),    cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_damping),      cmocka_unit_test(test_words),
        cmocka_unit_test(test_rules),        cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_rounded_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
