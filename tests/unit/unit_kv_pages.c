/* unit_kv_pages.c: the codes of KV_INT4 for all 8-bit codes, and the numbers of open pages. */
#include "core/step/kv_int4.h"
#include "core/step/kv_open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every range of codes, every code in it. */
static void codes_are_at_most_half_a_step_off(void **state)
{
    (void)state;
    for (int least = -127; least <= 127; least++)
        for (int most = least; most <= 127; most++) {
            struct kv_channel ch = kv_channel_of(least, most);
            int inverse = kv_inverse(ch.step), range = most - least;
            assert_true(ch.step >= 1 && ch.step <= 17 && 15 * ch.step >= range);
            assert_true(ch.step == 1 || 15 * (ch.step - 1) < range);
            assert_true(ch.lo >= -128 && ch.lo <= least);
            for (int x = least; x <= most; x++) {
                int c = kv_code4(ch, inverse, x), y = ch.lo + ch.step * c;
                if (c < 0 || c > 15 || y < -128 || y > 127 || 2 * abs(y - x) > ch.step ||
                    c != (x - ch.lo + ch.step / 2) / ch.step)
                    fail_msg("code %d of %d .. %d: %d", x, least, most, c);
            }
        }
}

static void sixteen_levels_are_exact(void **state)
{
    (void)state;
    for (int least = -127; least <= 112; least++) {
        struct kv_channel ch = kv_channel_of(least, least + 15);
        for (int i = 0; i < 16; i++)
            assert_int_equal(ch.lo + kv_code4(ch, kv_inverse(ch.step), least + i), least + i);
    }
}

/* Sequences of 1 to 40 rows at all places of a page: every page that a step stores but a
 * sequence's last one has a number of its own, and there is room for all. */
static void step_pages_have_numbers(void **state)
{
    (void)state;
    enum { SEQS = 16, ROWS = 40 };
    for (int rows = 1; rows <= ROWS; rows++)
        for (int pos0 = 0; pos0 < 2 * KV_PAGE; pos0++) {
            int32_t pos[SEQS * ROWS], start[SEQS + 1] = {0}, first[SEQS], n = 0;
            struct batch b = {.n_seqs = SEQS, .pos = pos, .seq_start = start};
            for (int s = 0; s < SEQS; s++) {
                for (int i = 0; i < rows; i++) pos[n++] = pos0 + s + i;
                start[s + 1] = n;
            }
            int n_pages = kv_number_step_pages(&b, first), want = 0;
            for (int s = 0; s < SEQS; s++) {
                struct kv_stored p = kv_stored_pages(&b, s);
                assert_int_equal(first[s], want);
                assert_int_equal(p.first * KV_PAGE + p.begun, pos0 + s);
                assert_int_equal(p.end, pos0 + s + rows);
                assert_int_equal(p.last, (p.end - 1) / KV_PAGE);
                want += p.last - p.first;
            }
            assert_int_equal(n_pages, want);
            assert_true(n_pages <= kv_most_step_pages(n, SEQS));
        }
}

static void sizes_of_pages(void **state)
{
    (void)state;
    const struct kv_cache kv = {4, 64, 0};
    assert_int_equal(kv_format_page_bytes(KV_F16, &kv), 4 * 16 * 64 * 2 * 2);
    assert_int_equal(kv_format_page_bytes(KV_INT8, &kv), 4 * (16 * 64 * 2 + 128));
    assert_int_equal(kv_format_page_bytes(KV_INT4, &kv), 4 * (16 * 64 + 4 * 64 + 128));
    assert_int_equal(kv_open_bytes(KV_INT4, &kv), kv_format_page_bytes(KV_INT8, &kv));
    assert_int_equal(kv_open_bytes(KV_INT8, &kv), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_at_most_half_a_step_off),
        cmocka_unit_test(sixteen_levels_are_exact),
        cmocka_unit_test(step_pages_have_numbers),
        cmocka_unit_test(sizes_of_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
