/* unit_endpoints.c: vectors and scores against their definitions; tokens that a request forbids;
 * the plan whose body ends with the last norm. */
#include "engine/embedding.h"
#include "core/sample/sampler.h"
#include "core/step/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void norms_are_those_of_llama_cpp(void **state)
{
    (void)state;
    const double sum[] = {3, -4, 0, 12};
    const float want[][4] = {[0] = {8190, -10920, 0, 32760},
                             [1] = {3 / 19.0F, -4 / 19.0F, 0, 12 / 19.0F},
                             [2] = {3 / 13.0F, -4 / 13.0F, 0, 12 / 13.0F}};
    float v[4];
    assert_int_equal(embedding_make(sum, 4, 2, EMBEDDING_NO_NORM, v), 0);
    assert_true(v[0] == 1.5F && v[1] == -2 && v[2] == 0 && v[3] == 6); /* the mean of two rows */
    for (int norm = 0; norm < 3; norm++) {
        assert_int_equal(embedding_make(sum, 4, 2, norm, v), 0);
        for (int i = 0; i < 4; i++) assert_true(fabsf(v[i] - want[norm][i]) <= 1e-7F * fabsf(v[i]));
    }
    assert_int_equal(embedding_make(sum, 4, 2, 64, v), 0); /* nearly the largest magnitude */
    assert_true(fabsf(v[3] - 1) < 1e-6F && fabsf(v[1] + 4 / 12.0F) < 1e-6F);
}

static void bad_sums(void **state)
{
    (void)state;
    const double zeros[2] = {0}, large[2] = {1e300, 1e300}, nan[2] = {1, NAN},
                 inf[2] = {1, INFINITY};
    float v[2];
    for (int norm = -1; norm < 4; norm++) {
        assert_int_equal(embedding_make(zeros, 2, 1, norm, v), 0);
        assert_true(v[0] == 0 && v[1] == 0);
        assert_int_equal(embedding_make(nan, 2, 1, norm, v), -1);
        assert_int_equal(embedding_make(inf, 2, 1, norm, v), -1);
    }
    assert_int_equal(embedding_make(large, 2, 1, -1, v), -1); /* no fp32 */
    assert_int_equal(embedding_make(large, 2, 1, 3, v), 0);
    assert_true(fabsf(v[0] - cbrtf(0.5F)) < 1e-6F);
}

static void scores_are_cosines_and_shares(void **state)
{
    (void)state;
    const float a[] = {1, 2, 2}, b[] = {-2, -4, -4}, c[] = {2, -1, 0}, zero[3] = {0};
    assert_true(fabs(embedding_cosine(a, a, 3) - 1) < 1e-15);
    assert_true(fabs(embedding_cosine(a, b, 3) + 1) < 1e-15);
    assert_true(embedding_cosine(a, c, 3) == 0 && embedding_cosine(a, zero, 3) == 0);
    for (float d = -60; d <= 60; d += 0.37F) {
        double want = 1 / (1 + exp(-(double)d));
        assert_true(fabs(embedding_share(d + 1, 1) - want) < 1e-6 * want + 1e-14);
    }
    assert_true(embedding_share(3, 3) == 0.5);
    assert_true(embedding_share(1000, -1000) == 1 && embedding_share(-1000, 1000) < 1e-300);
}

enum { VOCAB = 70 };

static void forbidden_tokens_are_not_chosen(void **state)
{
    (void)state;
    const int32_t pair[] = {7, 9}, one[] = {3}, long_one[] = {1, 2, 3, 4, 5, 66};
    const struct sampler_bad bad[] = {{pair, 2}, {one, 1}, {long_one, 6}};
    const int32_t generated[] = {1, 2, 3, 4, 7}, other[] = {9, 7, 4}, whole[] = {1, 2, 3, 4, 5};
    uint32_t allowed[3] = {~0u, ~0u, ~0u};
    struct sampler_params p = {.temperature = 0, .top_p = 1, .repetition_penalty = 1};
    struct sampler s;
    struct err e;
    float logits[VOCAB];
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    assert_false(sampler_forbids(&p) || sampler_adjusts(&p, 5));
    p.bad = bad;
    p.n_bad = 3;
    assert_true(sampler_forbids(&p) && sampler_adjusts(&p, 5));
    assert_int_equal(sampler_wants(&p, 5, 20), SAMPLER_WANTS_LOGITS);
    const struct {
        const int32_t *generated;
        int n, nine, sixty_six;
    } cases[] = {{generated, 5, 1, 0}, {generated, 4, 0, 0}, {other, 3, 0, 0},
                 {other, 2, 1, 0},     {whole, 5, 0, 1},     {NULL, 0, 0, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct sampler_context c = {
            .params = &p, .n_generated = cases[k].n, .generated = cases[k].generated};
        for (int i = 0; i < VOCAB; i++) logits[i] = (float)i;
        sampler_adjust(&s, &c, logits);
        for (int i = 0; i < VOCAB; i++) {
            int forbidden = i == 3 || (i == 9 && cases[k].nine) || (i == 66 && cases[k].sixty_six);
            assert_true(logits[i] == (forbidden ? -INFINITY : (float)i));
        }
    }
    p.n_bad = 0;
    p.allowed = allowed;
    allowed[0] = 1u << 4;
    allowed[1] = 0;
    allowed[2] = 1u << 1;
    const struct sampler_context c = {.params = &p};
    for (int i = 0; i < VOCAB; i++) logits[i] = (float)i;
    sampler_adjust(&s, &c, logits);
    for (int i = 0; i < VOCAB; i++)
        assert_true(logits[i] == (i == 4 || i == 65 ? (float)i : -INFINITY));
    sampler_close(&s);
}

/* A plan of a norm before the last layer's end, the last norm, gather and head. */
static void a_plan_keeps_hidden_rows(void **state)
{
    (void)state;
    struct step_plan p, kept;
    struct err e;
    step_plan_init(&p);
    int x = step_plan_add_buffer(&p, "x", ROWS_STEP, 16, &e),
        h = step_plan_add_buffer(&p, "h", ROWS_STEP, 16, &e),
        last = step_plan_add_buffer(&p, "last", ROWS_LOGITS, 16, &e);
    struct op norm = op_of(OP_NORM, "norm", 0), gather = op_of(OP_GATHER, "gather", -1);
    norm.in[0] = x, norm.out[0] = h;
    gather.in[0] = h, gather.out[0] = last;
    assert_int_equal(step_plan_add_op(&p, &norm, &e), 0);
    assert_int_equal(step_plan_add_op(&p, &norm, &e), 1);
    assert_int_equal(step_plan_add_op(&p, &gather, &e), 2);
    p.n_body = 1;
    p.hidden = h;
    step_plan_liveness(&p, 0);
    assert_int_equal(p.op[1].last[0], 2);
    assert_int_equal(step_plan_keep_hidden(&p, &kept, &e), 0);
    assert_int_equal(kept.n_body, 2);
    assert_true(kept.keeps_hidden && kept.op != p.op && p.n_body == 1 && !p.keeps_hidden);
    assert_int_equal(kept.op[1].last[0], OP_KEPT);
    assert_int_equal(kept.op[0].last[0], 0); /* the next norm overwrites it unread */
    assert_int_equal(p.op[1].last[0], 2);
    step_plan_free_slice(&kept);
    step_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_llama_cpp),
        cmocka_unit_test(bad_sums),
        cmocka_unit_test(scores_are_cosines_and_shares),
        cmocka_unit_test(forbidden_tokens_are_not_chosen),
        cmocka_unit_test(a_plan_keeps_hidden_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
