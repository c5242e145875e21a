/* unit_pairs.c: which linears have pairs of groups (linear_find_pairs). */
#include "core/step/linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { OUT = 18, PANELS = 2, STACK = 2, GROUP = 32, GROUPS = 4, IN = GROUP * GROUPS / 2 };
enum { SCALES = STACK * PANELS * GROUPS * 16 };

/* A stack of two linears of pairs; outputs past the last have zero points and scales of 1. */
struct pairs {
    uint8_t codes[1], zeros[SCALES];
    uint16_t half[SCALES];
    float single[SCALES];
    int32_t perm[STACK * GROUP * GROUPS];
    struct linear w;
};

static void make(struct pairs *p, enum dtype scales)
{
    static const float scale[] = {0.75f,    -0.001f,    0,
                                  0x1p-24f, 0x1.8p-16f, 3000}; /* subnormal ones */
    for (int i = 0; i < SCALES; i++) {
        int high = i / 16 % 2 == 0, n = i / (GROUPS * 16) % PANELS * 16 + i % 16;
        float v = n >= OUT ? 1 : f32_from_f16(f16_from_f32(scale[n % 6])) * (high ? 16 : 1);
        p->zeros[i] = n >= OUT ? 1 : high ? 8 : 0;
        p->half[i] = f16_from_f32(v);
        p->single[i] = v;
    }
    for (int i = 0; i < STACK * GROUP * GROUPS; i++)
        p->perm[i] = i % (GROUP * GROUPS) / (2 * GROUP) * GROUP + i % GROUP;
    p->w = (struct linear){.in = IN,
                           .out = OUT,
                           .stack = STACK,
                           .k = 2 * IN,
                           .group = GROUP,
                           .n_groups = GROUPS,
                           .codes = p->codes,
                           .zeros = p->zeros,
                           .perm = p->perm,
                           .scales = scales == DT_F16 ? (void *)p->half : p->single,
                           .scale_type = scales};
}

static void expect(struct pairs *p, int pairs, int in_order)
{
    linear_find_pairs(&p->w);
    assert_int_equal(p->w.pairs, pairs);
    assert_int_equal(p->w.in_order, in_order);
}

static void pairs_are_found(void **state)
{
    struct pairs p;
    (void)state;
    for (int f16 = 0; f16 < 2; f16++) {
        make(&p, f16 ? DT_F16 : DT_F32);
        expect(&p, 1, 1);
        p.perm[3] = p.perm[GROUP + 3] = -1;
        expect(&p, 1, 0);
        make(&p, f16 ? DT_F16 : DT_F32);
        p.perm[sizeof p.perm / 4 - 1] = p.perm[sizeof p.perm / 4 - 1 - GROUP] = 0;
        expect(&p, 1, 0);
    }
}

/* One input, scale or zero point of the last linear is another's. */
static void others_are_not(void **state)
{
    struct pairs p;
    (void)state;
    for (int f16 = 0; f16 < 2; f16++)
        for (int n = 0; n < 2; n++) {
            int at = SCALES - GROUPS * 16 + n; /* high half of the last panel's first group */
            make(&p, f16 ? DT_F16 : DT_F32);
            p.half[at] ^= 1, p.single[at] *= 1 + 0x1p-20f;
            if (p.single[at] != 0) expect(&p, 0, 0);
            make(&p, f16 ? DT_F16 : DT_F32);
            p.half[at + 16] ^= 1, p.single[at + 16] *= 1 + 0x1p-20f;
            if (p.single[at] != 0) expect(&p, 0, 0);
            make(&p, f16 ? DT_F16 : DT_F32);
            p.zeros[at] = 7;
            expect(&p, 0, 0);
            make(&p, f16 ? DT_F16 : DT_F32);
            p.zeros[at + 16] = 1;
            expect(&p, 0, 0);
        }
    make(&p, DT_F32);
    p.perm[sizeof p.perm / 4 - 1] = 0;
    expect(&p, 0, 0);
    make(&p, DT_F32);
    p.w.perm = NULL;
    expect(&p, 0, 0);
}

/* The same with the last two groups a pair, the two before groups of 4 bits. */
static void make_outliers(struct pairs *p)
{
    make(p, DT_F16);
    for (int i = 0; i < SCALES; i++)
        if (i / 16 % GROUPS < 2 && i / (GROUPS * 16) % PANELS * 16 + i % 16 < OUT) p->zeros[i] = 8;
    for (int i = 0; i < STACK * GROUP * GROUPS; i++) {
        int j = i % (GROUP * GROUPS);
        p->perm[i] = j < 3 * GROUP ? j : j - GROUP;
    }
    p->w.in = 3 * GROUP;
}

static void expect_outliers(struct pairs *p, int outliers, int in_order)
{
    expect(p, 0, in_order);
    assert_int_equal(p->w.outliers, outliers);
    assert_int_equal(linear_low(&p->w), outliers ? 2 * GROUP : 0);
}

static void outliers_are_found(void **state)
{
    struct pairs p;
    int first = 2 * GROUP, at = SCALES - 32; /* of the pair of the last panel */
    (void)state;
    make_outliers(&p);
    expect_outliers(&p, 1, 1);
    assert_true(p.w.one_perm);
    p.perm[0] = 1, p.perm[1] = 0;
    expect_outliers(&p, 1, 0);
    assert_true(!p.w.one_perm);
    make_outliers(&p);
    p.perm[first] = 0;
    expect_outliers(&p, 0, 0);
    make_outliers(&p);
    p.half[at] ^= 1;
    expect_outliers(&p, 0, 0);
    make_outliers(&p);
    p.zeros[at - 16] = 7;
    expect_outliers(&p, 0, 0);
    make_outliers(&p);
    p.zeros[at + 16] = 1;
    expect_outliers(&p, 0, 0);
    make_outliers(&p);
    p.w.n_groups = 3, p.w.k = 3 * GROUP;
    expect_outliers(&p, 0, 0);
    make(&p, DT_F16); /* all are pairs */
    linear_find_pairs(&p.w);
    assert_true(p.w.pairs && !p.w.outliers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_are_found),
                                       cmocka_unit_test(others_are_not),
                                       cmocka_unit_test(outliers_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
