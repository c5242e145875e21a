/* unit_selfcheck.c: the known-answer check of the CPU ladder detects a variant with one kernel
 * wrong in one bit; "auto" then takes the next lower variant and says so; a pinned variant is an
 * error that names it and the kernel. */
#include "backend-cpu/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Kernels that call scalar's and then flip the last bit of one output. */
static void flip(float *f) { *f = f32_from_bits(f32_bits(*f) ^ 1); }

static void bad_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
                   float *scratch)
{
    cpu_scalar.q4(w, x, y, rows, p0, p1, scratch);
    if (rows == 3) flip(y + p0 * 16);
}

static void bad_quantize(const struct linear *w, const float *x, int row, const struct q4_digits *q)
{
    cpu_scalar.quantize(w, x, row, q);
    ((int32_t *)q->sum)[row] ^= 1;
}

static void bad_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                    float *scratch)
{
    cpu_scalar.q4i(w, x, y, p0, p1, scratch);
    flip(y + w->out - 1);
}

static void bad_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    cpu_scalar.dense(w, x, y, rows, n0, n1);
    flip(y + n1 - 1);
}

static void bad_norm(float *x, const float *delta, const float *weight, float eps, float *out,
                     int dim)
{
    cpu_scalar.norm(x, delta, weight, eps, out, dim);
    flip(out + dim - 1);
}

static void bad_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                           float eps, float *out, int dim)
{
    cpu_scalar.layer_norm(x, delta, weight, bias, eps, out, dim);
    flip(out);
}

static void bad_add(float *x, const float *y, const float *gate, float factor, int n)
{
    cpu_scalar.add(x, y, gate, factor, n);
    flip(x + n - 1);
}

static void bad_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                     float eps, const float *cosv, const float *sinv)
{
    cpu_scalar.rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
    flip(y);
}

static void bad_attend(const struct attend_task *t, float *scratch)
{
    cpu_scalar.attend(t, scratch);
    flip(t->out + t->head_dim - 1);
}

static void bad_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    cpu_scalar.unpack(page, part, head_dim, to);
    if (part == VALUES) to[KV_PAGE * head_dim - 1] ^= 1;
}

static void bad_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    cpu_scalar.glu(a, gate, up, n);
    flip(gate + n - 1);
}

static void bad_softcap(float *x, float cap, size_t n)
{
    cpu_scalar.softcap(x, cap, n);
    flip(x + n - 1);
}

static void bad_sums(const float *x, int group, int groups, float *out)
{
    cpu_scalar.sums(x, group, groups, out);
    flip(out + groups - 1);
}

static const char *always(void) { return NULL; }
static const char *never(void) { return "this processor has none of it"; }

static void every_variant_passes(void **state)
{
    (void)state;
    for (int i = 0; cpu_ladder[i]; i++) {
        struct timespec a, b;
        if (cpu_ladder[i]->unusable()) {
            print_message("SKIP %s: %s\n", cpu_ladder[i]->name, cpu_ladder[i]->unusable());
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &a);
        const char *wrong = cpu_selfcheck(cpu_ladder[i]);
        clock_gettime(CLOCK_MONOTONIC, &b);
        print_message("# known-answer check of %s: %.0f us\n", cpu_ladder[i]->name,
                      (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) * 1e-3);
        assert_null(wrong);
    }
}

static void each_wrong_kernel_is_caught(void **state)
{
    (void)state;
    enum { KERNELS = 13 };
    struct cpu_kernels variant[KERNELS];
    static const char *const kernel[KERNELS] = {"q4",   "quantize", "q4i", "dense",   "norm",
                                                "rope", "attend",   "glu", "softcap", "layer_norm",
                                                "add",  "unpack",   "sums"};
    for (int i = 0; i < KERNELS; i++) {
        variant[i] = cpu_scalar;
        variant[i].name = "suspect";
        variant[i].unusable = always;
    }
    variant[0].q4 = bad_q4, variant[1].quantize = bad_quantize, variant[2].q4i = bad_q4i,
    variant[3].dense = bad_dense;
    variant[4].norm = bad_norm, variant[5].rope = bad_rope, variant[6].attend = bad_attend,
    variant[7].glu = bad_glu, variant[8].softcap = bad_softcap;
    variant[9].layer_norm = bad_layer_norm, variant[10].add = bad_add;
    variant[11].unpack = bad_unpack, variant[12].sums = bad_sums;
    for (int i = 0; i < KERNELS; i++) {
        const struct cpu_kernels *const ladder[] = {&cpu_ref, &cpu_scalar, &variant[i], NULL};
        char note[128];
        struct err e = {0};
        assert_string_equal(cpu_selfcheck(&variant[i]), kernel[i]);
        assert_ptr_equal(cpu_choose(ladder, "auto", note, sizeof note, &e), &cpu_scalar);
        assert_non_null(strstr(note, "suspect"));
        assert_non_null(strstr(note, kernel[i]));
        assert_null(cpu_choose(ladder, "suspect", note, sizeof note, &e));
        assert_non_null(strstr(e.msg, "suspect"));
        assert_non_null(strstr(e.msg, kernel[i]));
    }
}

/* ---- kernels that are wrong in one call of the check */

static int calls_left; /* the call at which this is 1 is wrong */

static int is_wrong(void) { return calls_left-- == 1; }

static void once_q4(const struct linear *w, const float *x, float *y, int rows, int p0, int p1,
                    float *scratch)
{
    cpu_scalar.q4(w, x, y, rows, p0, p1, scratch);
    if (is_wrong()) flip(y + p0 * 16);
}

static void once_quantize(const struct linear *w, const float *x, int row,
                          const struct q4_digits *q)
{
    cpu_scalar.quantize(w, x, row, q);
    if (is_wrong()) ((int32_t *)q->sum)[row] ^= 1 << 20;
}

static void once_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
                     float *scratch)
{
    cpu_scalar.q4i(w, x, y, p0, p1, scratch);
    if (is_wrong()) flip(y + p0 * 16);
}

static void once_dense(const struct linear *w, const float *x, float *y, int rows, int n0, int n1)
{
    cpu_scalar.dense(w, x, y, rows, n0, n1);
    if (is_wrong()) flip(y + n1 - 1);
}

static void once_norm(float *x, const float *delta, const float *weight, float eps, float *out,
                      int dim)
{
    cpu_scalar.norm(x, delta, weight, eps, out, dim);
    if (is_wrong()) flip(x + dim - 1);
}

static void once_layer_norm(float *x, const float *delta, const float *weight, const float *bias,
                            float eps, float *out, int dim)
{
    cpu_scalar.layer_norm(x, delta, weight, bias, eps, out, dim);
    if (is_wrong()) flip(out + dim - 1);
}

static void once_add(float *x, const float *y, const float *gate, float factor, int n)
{
    cpu_scalar.add(x, y, gate, factor, n);
    if (is_wrong()) flip(x);
}

static void once_rope(const float *x, float *y, int n_heads, int head_dim, const float *weight,
                      float eps, const float *cosv, const float *sinv)
{
    cpu_scalar.rope(x, y, n_heads, head_dim, weight, eps, cosv, sinv);
    if (is_wrong()) flip(y + n_heads * head_dim - 1);
}

static void once_attend(const struct attend_task *t, float *scratch)
{
    cpu_scalar.attend(t, scratch);
    if (is_wrong()) flip(t->out + t->n_heads * t->head_dim - 1);
}

static void once_unpack(const char *page, enum kv_part part, int head_dim, char *to)
{
    cpu_scalar.unpack(page, part, head_dim, to);
    if (is_wrong()) *to ^= 1;
}

static void once_glu(const struct cpu_glu *a, float *gate, const float *up, size_t n)
{
    cpu_scalar.glu(a, gate, up, n);
    if (is_wrong()) flip(gate + n - 1);
}

static void once_softcap(float *x, float cap, size_t n)
{
    cpu_scalar.softcap(x, cap, n);
    if (is_wrong()) flip(x);
}

static void once_sums(const float *x, int group, int groups, float *out)
{
    cpu_scalar.sums(x, group, groups, out);
    if (is_wrong()) flip(out);
}

static void once_conv(const struct conv_task *t)
{
    cpu_scalar.states->conv(t);
    if (is_wrong()) flip(t->out + t->channels - 1);
}

static void once_delta_prepare(const struct delta_inputs *t)
{
    cpu_scalar.states->delta_prepare(t);
    if (is_wrong()) *t->beta *= 1.5f;
}

static void once_delta(const struct delta_task *t)
{
    cpu_scalar.states->delta(t);
    if (is_wrong()) flip(t->s + t->key_dim - 1);
}

static void once_choose(const struct choose_task *t)
{
    cpu_scalar.states->choose(t);
    if (is_wrong()) flip(t->score);
}

/* Each vector of the check is compared with scalar's: one wrong call of any kernel is seen. */
static void each_vector_is_compared(void **state)
{
    (void)state;
    enum { CALLS = 322 }; /* fewer: vectors of the check are gone */
    const struct state_kernels states = {once_conv, once_delta_prepare, once_delta, once_choose};
    struct cpu_kernels k = cpu_scalar;
    k.q4 = once_q4, k.quantize = once_quantize, k.q4i = once_q4i, k.dense = once_dense;
    k.norm = once_norm, k.layer_norm = once_layer_norm, k.add = once_add, k.rope = once_rope;
    k.attend = once_attend, k.unpack = once_unpack, k.glu = once_glu, k.softcap = once_softcap;
    k.sums = once_sums;
    k.states = &states;
    calls_left = 1 << 20;
    assert_null(cpu_selfcheck(&k));
    int calls = (1 << 20) - calls_left;
    if (calls < CALLS) fail_msg("%d calls", calls);
    for (int i = 1; i <= calls; i++) {
        calls_left = i;
        if (!cpu_selfcheck(&k)) fail_msg("call %d of %d is not compared", i, calls);
    }
}

static void a_sound_variant_is_taken(void **state)
{
    (void)state;
    struct cpu_kernels sound = cpu_scalar, absent = cpu_scalar;
    const struct cpu_kernels *const ladder[] = {&cpu_ref, &cpu_scalar, &sound, &absent, NULL};
    char note[128];
    struct err e = {0};
    sound.name = "sound", absent.name = "absent", absent.unusable = never;
    assert_ptr_equal(cpu_choose(ladder, "auto", note, sizeof note, &e), &sound);
    assert_string_equal(note, "");
    assert_ptr_equal(cpu_choose(ladder, "sound", note, sizeof note, &e), &sound);
    assert_ptr_equal(cpu_choose(ladder, "ref", note, sizeof note, &e), &cpu_ref);
    assert_null(cpu_choose(ladder, "absent", note, sizeof note, &e));
    assert_non_null(strstr(e.msg, "none of it"));
    assert_null(cpu_choose(ladder, "z80", note, sizeof note, &e));
    assert_non_null(strstr(e.msg, "sound"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_passes),
        cmocka_unit_test(each_wrong_kernel_is_caught),
        cmocka_unit_test(each_vector_is_compared),
        cmocka_unit_test(a_sound_variant_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
