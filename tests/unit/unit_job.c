/* unit_job.c: the answer of a record has a bound, whatever makes it large; a record that exceeds it
 * fails alone. */
#include "cli/modes/batch/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int n_done;
static void on_done(void *arg, struct job *j) { (void)arg, (void)j, n_done++; }
static double no_clock(void) { return 1; }

static const struct job_env env = {.vocab = 10,
                                   .n_ctx = 1 << 24,
                                   .done = on_done,
                                   .clock = no_clock};
static const struct record_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1},
                                                .max_tokens = -1,
                                                .vocab = 10};

static int open_job(struct job **j, const char *body, struct refusal *why)
{
    char *text;
    struct err e = {0};
    int n = asprintf(&text, "{\"url\":\"/v1/completions\",\"body\":{%s}}", body);
    assert_true(n > 0);
    int rc = job_open(j, &env, &(struct input_line){.text = text, .n = (size_t)n, .number = 1}, 0,
                      &defaults, why, &e);
    free(text);
    return rc;
}

/* Emits tokens to all choices in turn until they end, at most LIMIT each; returns their number. */
static uint64_t hand_out(struct job *j, uint64_t limit)
{
    struct token_top top[REQUEST_MAX_TOP] = {{1, -1}};
    const struct request *r = &j->prompt[0].request;
    const struct token_info t = {
        .id = 1, .logprob = -1, .n_top = r->n_top > 0 ? r->n_top : 0, .top = top};
    struct err e;
    uint64_t n = 0, k = 0;
    int open = r->n_choices, *ended = calloc((size_t)open, sizeof *ended);
    for (; open && k < limit; k++)
        for (int c = 0; c < r->n_choices; c++) {
            if (ended[c]) continue;
            int end = r->sink->token(r->arg, c, &t, &e);
            assert_true(end >= 0);
            n++;
            if (!end && k + 1 < limit) continue;
            assert_int_equal(r->sink->finished(r->arg, c, end ? FINISH_STOP : FINISH_LENGTH, &e),
                             0);
            ended[c] = 1;
            open--;
        }
    assert_int_equal(r->sink->done(r->arg, NULL, &e), 0);
    free(ended);
    return n;
}

static void an_answer_has_a_bound(void **state)
{
    static const struct {
        const char *body;
        uint64_t most; /* tokens of all choices, approximately */
    } ways[] = {{"\"prompt\":[1],\"n\":16,\"logprobs\":20,\"max_tokens\":16777216", 500000},
                {"\"prompt\":[1],\"n\":1,\"logprobs\":20,\"max_tokens\":16777216", 500000}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job *j;
        struct refusal why;
        n_done = 0;
        assert_int_equal(open_job(&j, ways[i].body, &why), 0);
        uint64_t n = hand_out(j, UINT64_MAX);
        assert_true(n > ways[i].most / 2 && n < ways[i].most);
        assert_int_equal(n_done, 1);
        assert_int_equal(j->status, 400);
        assert_non_null(strstr(j->failed, "the answer takes more than 1024 MiB"));
        job_close(j);
    }
}

static void an_ordinary_one_is_far_from_it(void **state)
{
    struct job *j;
    struct refusal why;
    (void)state;
    assert_int_equal(
        open_job(&j, "\"prompt\":[1,2,3],\"n\":8,\"logprobs\":20,\"echo\":true,\"max_tokens\":2000",
                 &why),
        0);
    assert_int_equal(hand_out(j, 2000), 16000);
    assert_string_equal(j->failed, "");
    assert_null(j->record.prompt); /* freed */
    job_close(j);
}

static void what_is_known_before_is_refused_before(void **state)
{
    struct job *j;
    struct refusal why;
    struct out body = {0};
    (void)state;
    out_text(&body, "\"n\":1024,\"echo\":true,\"logprobs\":5,\"prompt\":[1");
    for (int i = 0; i < 2000; i++) out_text(&body, ",1");
    out_bytes(&body, "]", 2);
    assert_int_equal(open_job(&j, body.p, &why), 1);
    assert_non_null(strstr(why.why.msg, "the answer takes more than 1024 MiB"));
    assert_null(j->prompt[0].choice);
    job_close(j);
    out_free(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_has_a_bound),
        cmocka_unit_test(an_ordinary_one_is_far_from_it),
        cmocka_unit_test(what_is_known_before_is_refused_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
