/* checkop_outlier.c: the error of --act i16 and int8 in the worst case of a shared scale: in every
 * sub-group one activation is 1,000 to 2,000 times the size of the others. Unlike checkop_linear.c,
 * results are compared with those of the unquantized activations.
 *
 * Bound per output: an activation is off by at most half a step, step = largest of its sub-group /
 * 16,256 (i16) or / 127 (int8), so y by sum_j step(j)/2 * |w_j|; the floating-point part is within
 * 2^-14 * sum_j |x_j w_j| (checkop_linear.c). For comparison the same error is printed with
 * activations rounded to fp16, as in GPU engines. */
#include "tests/checkop/checkop.h"

#include <math.h>
#include <stdio.h>

enum { IN = 512, OUT = 64, GROUP = 128, N_ROWS = 32, PANEL = 16 };

struct setup {
    struct linear w;
    double weight[OUT][IN];
    float x[N_ROWS][IN];
    int spike[N_ROWS][IN / GROUP]; /* index of the outlier in each group */
};

/* Errors of one arithmetic: root mean squares over all outputs. */
struct error {
    double of_all, of_others; /* relative to the outputs; to the outputs without the outliers */
};

static struct setup *make_setup(struct arena *a, struct rng *r, float factor)
{
    struct setup *s = arena_get(a, sizeof *s);
    size_t n_scales = (size_t)OUT * (IN / GROUP);
    uint8_t *codes = arena_get(a, (size_t)OUT * IN / 2), *zeros = arena_get(a, n_scales);
    float *scales = arena_get(a, n_scales * sizeof *scales);
    for (size_t i = 0; i < n_scales; i++)
        zeros[i] = (uint8_t)rng_below(r, 17),
        scales[i] = 0.005f + 0.01f * (float)rng_below(r, 1000) / 1000;
    for (int n = 0; n < OUT; n++)
        for (int j = 0; j < IN; j++) {
            int code = rng_below(r, 16);
            size_t at = ((size_t)(n / PANEL) * (IN / GROUP) + (size_t)(j / GROUP)) * PANEL +
                        (size_t)(n % PANEL);
            codes[((size_t)(n / PANEL) * (IN / 8) + (size_t)(j / 8)) * 64 +
                  (size_t)(n % PANEL * 4 + j % 4)] |= (uint8_t)(j % 8 < 4 ? code : code << 4);
            s->weight[n][j] = (double)scales[at] * (code - zeros[at]);
        }
    for (int t = 0; t < N_ROWS; t++) {
        for (int j = 0; j < IN; j++) s->x[t][j] = rng_normal(r);
        for (int g = 0; g < IN / GROUP; g++) {
            s->spike[t][g] = rng_below(r, GROUP);
            s->x[t][g * GROUP + s->spike[t][g]] =
                factor * (1 + (float)rng_below(r, 1 << 20) * 0x1p-20f) * (rng_below(r, 2) ? 1 : -1);
        }
    }
    s->w = (struct linear){.in = IN,
                           .out = OUT,
                           .k = IN,
                           .group = GROUP,
                           .n_groups = IN / GROUP,
                           .codes = codes,
                           .zeros = zeros,
                           .scales = scales,
                           .scale_type = DT_F32};
    return s;
}

static void run(const struct variant *v, const struct setup *s, enum act act, float *y)
{
    struct side side;
    struct err e;
    struct arena a = {0};
    struct be_linear *packed;
    struct be_config config = plain_config(N_ROWS);
    config.act = act;
    side_open(&side, v, 1, config);
    CHECK(!side.ops->pack(side.be, &s->w, &packed, &e));
    struct dbuf x = dbuf_from(&side, s->x, sizeof s->x),
                out = dbuf_new(&side, (size_t)N_ROWS * OUT * sizeof *y);
    struct batch b = make_plain_batch(&a, N_ROWS, 0);
    struct trial t = {0};
    int in = trial_buffer(&t, x.d, ROWS_STEP, IN * 4),
        to = trial_buffer(&t, out.d, ROWS_STEP, OUT * 4), w = trial_linear(&t, &s->w, packed);
    trial_linears(&t, in, 1, &w, &to);
    trial_run(&t, &side, &b, 0);
    dbuf_get(&side, &out, y);
    side.ops->drop(side.be, packed);
    dbuf_free(&side, &x);
    dbuf_free(&side, &out);
    side_close(&side);
    arena_free(&a);
}

static int is_spike(const struct setup *s, int t, int j)
{
    return s->spike[t][j / GROUP] == j % GROUP;
}

/* want, bound [N_ROWS][OUT] */
static void expect(const struct setup *s, double top, float *want, float *bound)
{
    for (int t = 0; t < N_ROWS; t++)
        for (int n = 0; n < OUT; n++) {
            double y = 0, limit = 0;
            for (int g = 0; g < IN / GROUP; g++) {
                double largest = 0;
                for (int j = g * GROUP; j < (g + 1) * GROUP; j++)
                    largest = fmax(largest, fabs((double)s->x[t][j]));
                for (int j = g * GROUP; j < (g + 1) * GROUP; j++) {
                    double p = s->x[t][j] * s->weight[n][j];
                    y += p;
                    limit += largest / top / 2 * fabs(s->weight[n][j]) + 0x1p-14 * fabs(p);
                }
            }
            want[t * OUT + n] = (float)y;
            bound[t * OUT + n] = (float)limit;
        }
}

/* y: an arithmetic's result; NULL: of activations rounded to fp16. */
static struct error measure(const struct setup *s, const float *y)
{
    double wrong = 0, all = 0, others = 0;
    for (int t = 0; t < N_ROWS; t++)
        for (int n = 0; n < OUT; n++) {
            double exact = 0, rest = 0, half = 0;
            for (int j = 0; j < IN; j++) {
                exact += s->x[t][j] * s->weight[n][j];
                rest += is_spike(s, t, j) ? 0 : s->x[t][j] * s->weight[n][j];
                half += (double)f32_from_f16(f16_from_f32(s->x[t][j])) * s->weight[n][j];
            }
            double d = (y ? (double)y[t * OUT + n] : half) - exact;
            wrong += d * d, all += exact * exact, others += rest * rest;
        }
    return (struct error){sqrt(wrong / all), sqrt(wrong / others)};
}

void check_outlier(struct check *c)
{
    static const struct {
        enum act act;
        const char *name;
        double top;
    } arithmetic[] = {{ACT_I16, "i16", 127 * 128}, {ACT_INT8, "int8", 127}};
    static const float factor[] = {1, 1000};
    size_t n = (size_t)N_ROWS * OUT;
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < 2; i++) {
            struct arena a = {0};
            char name[NAME_BYTES];
            snprintf(name, sizeof name, "%s, one activation times %.0f", arithmetic[i].name,
                     (double)factor[f]);
            struct rng r = rng_for(c->seed, "outlier");
            struct setup *s = make_setup(&a, &r, factor[f]);
            float *want = arena_get(&a, n * 4), *bound = arena_get(&a, n * 4),
                  *got = arena_get(&a, n * 4), *kept = arena_get(&a, n * 4);
            expect(s, arithmetic[i].top, want, bound);
            run(&c->ref, s, arithmetic[i].act, got);
            count_case(c, REF);
            compare(c, REF, name, "output", got, want, bound, N_ROWS, OUT);
            struct error e = measure(s, got), half = measure(s, NULL);
            printf("     %-32s error %.1e of the output (fp16 activations %.1e), %.1e of the other "
                   "inputs' part (fp16 %.1e)\n",
                   name, e.of_all, half.of_all, e.of_others, half.of_others);
            for (int v = 0; v < c->n; v++) {
                run(&c->v[v], s, arithmetic[i].act, got);
                count_case(c, v);
                compare(c, v, name, "output", got, want, bound, N_ROWS, OUT);
                compare_variants(c, v, name, "output", kept, got, n, OUT);
            }
            arena_free(&a);
        }
}
