/* unit_linear.c: linears of a stack, rows of them, and stacks that are moved together have the
 * codes, scales, zero points, weights and biases of the same outputs; sizes by hand; pairs of
 * groups are found where all of a linear is one, and where one number differs they are not. */
#include "core/step/linear.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STACK = 3, IN = 64, OUT = 40, ROWS = 48, GROUP = 16, GROUPS = 4, K = GROUP * GROUPS };
enum { CODES = ROWS * K / 2, METAS = ROWS * GROUPS };

static uint8_t codes[STACK * CODES], zeros[STACK * METAS];
static uint16_t halves[STACK * OUT * IN];
static float scales[STACK * METAS], bias[STACK * OUT];
static int32_t perm[STACK * K];

static struct linear made(int is_plain)
{
    struct linear w = {.in = IN, .out = OUT, .stack = STACK, .k = K, .bias = bias};
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)(i * 37 + i / 251);
    for (size_t i = 0; i < sizeof zeros; i++) zeros[i] = (uint8_t)(i * 5 + i / 19);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) halves[i] = (uint16_t)(i * 13);
    for (int i = 0; i < STACK * METAS; i++) scales[i] = (float)i;
    for (int i = 0; i < STACK * OUT; i++) bias[i] = -(float)i;
    for (int i = 0; i < STACK * K; i++) perm[i] = (i * 7 + i / K) % K;
    if (is_plain) {
        w.weight = halves, w.weight_type = DT_BF16;
        return w;
    }
    w.group = GROUP, w.n_groups = GROUPS, w.scale_type = DT_F32;
    w.codes = codes, w.scales = scales, w.zeros = zeros, w.perm = perm;
    return w;
}

/* w is outputs first .. first + w->out - 1 of number i of the stack that was made. */
static void check_outputs(const struct linear *w, int is_plain, int i, int first)
{
    size_t at = (size_t)i, panel = (size_t)first / 16, panels = ((size_t)w->out + 15) / 16;
    assert_int_equal(w->stack, 0);
    assert_int_equal(w->pitch, 0);
    assert_memory_equal(w->bias, bias + at * OUT + first, (size_t)w->out * sizeof *bias);
    if (is_plain) {
        assert_null(w->codes);
        assert_memory_equal(w->weight, halves + (at * OUT + (size_t)first) * IN,
                            (size_t)w->out * IN * sizeof *halves);
        return;
    }
    assert_null(w->weight);
    assert_memory_equal(w->codes, codes + at * CODES + panel * 16 * K / 2, panels * 16 * K / 2);
    assert_memory_equal(w->scales, scales + at * METAS + panel * 16 * GROUPS,
                        panels * 16 * GROUPS * sizeof *scales);
    assert_memory_equal(w->zeros, zeros + at * METAS + panel * 16 * GROUPS, panels * 16 * GROUPS);
    assert_memory_equal(w->perm, perm + at * K, K * sizeof *perm);
}

static void parts_have_their_outputs(void **state)
{
    static const int from[][2] = {{0, OUT}, {0, 16}, {16, 16}, {16, 24}, {32, 8}};
    (void)state;
    for (int is_plain = 0; is_plain < 2; is_plain++)
        for (size_t n = 0; n < sizeof from / sizeof *from; n++) {
            struct linear all = made(is_plain), close;
            struct linear part = linear_rows(&all, from[n][0], from[n][1]);
            struct err e;
            void *memory;
            assert_int_equal(part.out, from[n][1]);
            assert_int_equal(part.pitch, OUT);
            assert_int_equal(linear_close_up(&part, &close, &memory, &e), 0);
            (void)made(is_plain); /* what was moved is a copy */
            assert_true(close.pitch == 0 && close.stack == STACK && close.perm == part.perm);
            for (int i = 0; i < STACK; i++) {
                struct linear one = linear_of_stack(&part, i), near = linear_of_stack(&close, i);
                check_outputs(&one, is_plain, i, from[n][0]);
                check_outputs(&near, is_plain, i, from[n][0]);
                one = linear_of_stack(&all, i);
                struct linear again = linear_of_stack(&one, 2), rows = linear_rows(&one, 16, 16);
                assert_true(again.codes == one.codes && again.weight == one.weight);
                check_outputs(&rows, is_plain, i, 16);
            }
            free(memory);
        }
}

/* A part of a part keeps the pitch of the whole. */
static void parts_of_parts(void **state)
{
    struct linear all = made(0), part = linear_rows(&all, 16, 24);
    (void)state;
    part = linear_rows(&part, 16, 8);
    for (int i = 0; i < STACK; i++) {
        struct linear one = linear_of_stack(&part, i);
        check_outputs(&one, 0, i, 32);
    }
}

static void bytes_by_hand(void **state)
{
    struct linear w = made(0);
    (void)state;
    uint64_t one = ROWS * K / 2 + ROWS * GROUPS * (4 + 1) + 4 * K + 4 * OUT;
    assert_int_equal(linear_bytes(&w), STACK * one);
    w.stack = 0;
    assert_int_equal(linear_bytes(&w), one);
    w.perm = NULL, w.bias = NULL, w.scale_type = DT_F16;
    assert_int_equal(linear_bytes(&w), ROWS * K / 2 + ROWS * GROUPS * (2 + 1));
    w = made(1);
    assert_int_equal(linear_bytes(&w), STACK * (OUT * IN * 2 + 4 * OUT));
}

/* ---- pairs */

/* Groups first, first + 2, .. are high halves of the ones behind them; those before are of 4 bits.
 */
static struct linear paired(int first, int is_f16)
{
    struct linear w = made(0);
    w.scale_type = is_f16 ? DT_F16 : DT_F32;
    w.scales = is_f16 ? (const void *)halves : scales;
    for (int s = 0; s < STACK; s++)
        for (int g = 0, input = 0; g < GROUPS; g++) {
            int high = g >= first && (g - first) % 2 == 0, low = g >= first && !high;
            for (int j = 0; j < GROUP; j++) perm[s * K + g * GROUP + j] = input + j;
            if (!high) input += GROUP;
            for (int p = 0; p < ROWS / 16; p++)
                for (int i = 0; i < 16; i++) {
                    int at = (s * (ROWS / 16) + p) * GROUPS * 16 + g * 16 + i;
                    int is_there = p * 16 + i < OUT;
                    zeros[at] = is_there ? (low ? 0 : 8) : 3;
                    scales[at] = is_there ? (high ? 16.0f : 1.0f) * (float)(i + 1) : (float)g;
                    halves[at] = (uint16_t)(is_there ? 0x3000 + i + (high ? 4 << 10 : 0) : g);
                }
        }
    w.in = first == GROUPS - 2 ? K - GROUP : K / 2;
    return w;
}

static void check_found(struct linear *w, int pairs, int outliers, int in_order)
{
    linear_find_pairs(w);
    assert_int_equal(w->pairs, pairs);
    assert_int_equal(w->outliers, outliers);
    assert_int_equal(w->in_order, in_order);
}

static void pairs_are_found(void **state)
{
    (void)state;
    for (int is_f16 = 0; is_f16 < 2; is_f16++)
        for (int first = 0; first <= 2; first += 2) {
            struct linear w = paired(first, is_f16);
            check_found(&w, !first, first > 0, 1);
            assert_int_equal(w.one_perm, 1);
            w.in += 16; /* inputs that no group has */
            check_found(&w, !first, first > 0, 0);
            w = paired(first, is_f16);
            for (int k = 0; k < GROUP; k++) { /* the last linear, both halves of the last pair */
                perm[2 * K + 2 * GROUP + k] ^= 1;
                perm[2 * K + 3 * GROUP + k] ^= 1;
            }
            check_found(&w, !first, first > 0, 0);
            assert_int_equal(w.one_perm, 0);
        }
    struct linear plain = made(1), other = made(0);
    check_found(&plain, 0, 0, 0);
    check_found(&other, 0, 0, 0);
    assert_int_equal(other.one_perm, 0);
    struct linear one = paired(0, 0);
    one.stack = 1;
    check_found(&one, 1, 0, 1);
    assert_int_equal(one.one_perm, 1);
    perm[K] = perm[K + GROUP] = 5; /* behind it */
    one.stack = 0;
    check_found(&one, 1, 0, 1);
    assert_int_equal(one.one_perm, 0);
}

/* One number of the last output that is there, of each kind of group: it is no pair any more. One
 * of an output that is not: it is. */
static void pairs_are_whole(void **state)
{
    enum { LAST = (STACK * ROWS / 16 - 1) * GROUPS * 16, OF_LAST = OUT % 16 - 1 };
    (void)state;
    for (int is_f16 = 0; is_f16 < 2; is_f16++)
        for (int first = 0; first <= 2; first += 2)
            for (int g = 0; g < GROUPS; g++)
                for (int i = 0; i < 2; i++) {
                    int at = LAST + g * 16 + OF_LAST + i;
                    struct linear w = paired(first, is_f16);
                    zeros[at]++;
                    check_found(&w, !i ? 0 : !first, !i ? 0 : first > 0, i);
                    w = paired(first, is_f16);
                    scales[at] += 1, halves[at]++;
                    int right = i || g < first;
                    check_found(&w, right && !first, right && first > 0, right);
                }
    struct linear w = paired(0, 0);
    perm[K + GROUP + 3] = 40; /* of one low half */
    check_found(&w, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_their_outputs),
        cmocka_unit_test(parts_of_parts),
        cmocka_unit_test(bytes_by_hand),
        cmocka_unit_test(pairs_are_found),
        cmocka_unit_test(pairs_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
