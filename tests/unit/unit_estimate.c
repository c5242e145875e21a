/* unit_estimate.c: tokens of shared beginnings against comparing all prompts with all, and the time
 * of small runs that are counted by hand. */
#include "cli/modes/batch/estimate.h"
#include "cli/modes/batch/prefixes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 300, LENGTH = 90, PAGE = 16 };

/* Prompts that begin alike: whole pages that an earlier one has, but for the last token. */
static void test_prefixes(void **state)
{
    static int32_t id[N][LENGTH];
    static int n[N];
    struct prefixes p = {0};
    struct err e = {0};
    uint32_t random = 7;
    (void)state;
    for (int i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u;
        n[i] = 1 + (int)(random >> 8) % LENGTH;
        int like = i ? (int)(random >> 12) % i : 0, same = (int)(random >> 20) % LENGTH;
        for (int k = 0; k < n[i]; k++)
            id[i][k] = k < same && k < n[like] ? id[like][k] : i * 100 + k;
        int longest = 0, got;
        for (int o = 0; o < i; o++) {
            int k = 0;
            while (k < n[i] && k < n[o] && id[i][k] == id[o][k]) k++;
            longest = k > longest ? k : longest;
        }
        if (longest > n[i] - 1) longest = n[i] - 1;
        assert_int_equal(prefixes_add(&p, id[i], n[i], n[i] - 1, &got, &e), 0);
        assert_int_equal(got, longest / PAGE * PAGE);
    }
    int got;
    assert_int_equal(prefixes_add(&p, id[5], n[5], 0, &got, &e), 0);
    assert_int_equal(got, 0);
    prefixes_free(&p);
}

/* A prompt row takes a second beside one for the step, a decode row two beside three. */
static struct estimate_costs costs(void)
{
    struct estimate_costs c = {0};
    estimate_add(&c.prompt, 1, 2);
    estimate_add(&c.prompt, 11, 12);
    estimate_add(&c.decode, 1, 5);
    estimate_add(&c.decode, 5, 13);
    return c;
}

static struct estimate_times run(const struct estimate_request *of, size_t n, int n_seqs,
                                 int n_batch, int n_pages, const struct estimate_costs *c)
{
    struct estimate_limits l = {n_seqs, n_batch, n_pages};
    struct estimate_request r[4];
    struct estimate_times t;
    struct err e;
    assert_true(n <= 4);
    memcpy(r, of, n * sizeof *r);
    assert_int_equal(estimate_run(r, n, &l, c, &t, &e), 0);
    return t;
}

static void test_times(void **state)
{
    struct estimate_costs c = costs();
    const struct estimate_request one[] = {{20, 10, 5}}, two[] = {{20, 10, 3}, {20, 4, 3}},
                                  none[] = {{30, 25, 0}};
    (void)state;
    /* a step of 10 rows, whose last one gives a token, and four steps more */
    struct estimate_times t = run(one, 1, 4, 512, 100, &c);
    assert_float_equal(t.prompts, 11, 1e-9);
    assert_float_equal(t.answers, 4 * 5, 1e-9);
    assert_int_equal(t.n_steps, 5);
    /* both prompts in one step, then two steps of two */
    t = run(two, 2, 4, 512, 100, &c);
    assert_float_equal(t.prompts, 15, 1e-9);
    assert_float_equal(t.answers, 2 * 7, 1e-9);
    /* one after the other */
    t = run(two, 2, 1, 512, 100, &c);
    assert_float_equal(t.prompts, 11 + 5, 1e-9);
    assert_float_equal(t.answers, 4 * 5, 1e-9);
    /* and where the pages are one request's */
    t = run(two, 2, 4, 512, 3, &c);
    assert_float_equal(t.prompts, 11 + 5, 1e-9);
    /* a budget of 10 rows: the second prompt beside a decode row of the first */
    t = run(two, 2, 4, 10, 100, &c);
    assert_float_equal(t.prompts, 11 + 3, 1e-9);
    assert_float_equal(t.answers, 5 + 7 + 5, 1e-9);
    /* nothing is generated; three steps of 10, 10 and 5 rows */
    t = run(none, 1, 4, 10, 100, &c);
    assert_float_equal(t.prompts, 11 + 11 + 6, 1e-9);
    assert_float_equal(t.answers, 0, 1e-9);
    /* the longest starts first: then the two others run beside it */
    const struct estimate_request uneven[] = {{20, 10, 3}, {20, 10, 3}, {20, 10, 5}};
    t = run(uneven, 3, 2, 512, 100, &c);
    assert_int_equal(t.n_steps, 6);
    /* contexts of 21, 22, 23, 24 against 11: a tenth of a second a position */
    c.attend = 0.1;
    c.context = 11;
    t = run(one, 1, 4, 512, 100, &c);
    assert_float_equal(t.answers, 4 * 5 + 1.0 + 1.1 + 1.2 + 1.3, 1e-9);
}

static void test_curve(void **state)
{
    struct estimate_costs c = {0};
    (void)state;
    assert_float_equal(estimate_step(&c, 0, 5), 0, 0);
    estimate_add(&c.prompt, 8, 4);
    assert_float_equal(estimate_step(&c, 0, 16), 8, 1e-9); /* one point: as many times as long */
    estimate_add(&c.prompt, 8, 9);
    estimate_add(&c.prompt, 16, 3); /* no less than fewer rows */
    assert_float_equal(estimate_step(&c, 0, 12), 4, 1e-9);
    assert_int_equal(c.prompt.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prefixes),
                                       cmocka_unit_test(test_times), cmocka_unit_test(test_curve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
