/* unit_sched_beside.c: requests beside each other: equal beginnings are computed once, nobody is
 * held up, what ends or fails does so alone. */
#include "backend-cpu/cpu.h"
#include "core/sched/scheduler.h"
#include "core/sample/logits.h"
#include "tests/unit/sched_device.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_odd.h"
#include "tests/unit/sched_records.h"
#include "tests/unit/sched_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct record *simple_records(int n, int n_prompt, int max_tokens)
{
    struct record *all = random_records(n, 6);
    for (int i = 0; i < n; i++) {
        struct request *r = &all[i].request;
        for (int j = 0; j < n_prompt; j++)
            all[i].prompt[j] = 3 + (j * 7 + (j < SYSTEM ? 0 : i * 13)) % 300;
        r->n_prompt = n_prompt;
        r->max_tokens = max_tokens;
        r->n_choices = 1;
        r->prompt_top = -1;
        r->sampling = (struct sampler_params){
            .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = 1};
        all[i].stop_after = 0;
    }
    return all;
}

static void equal_prefixes_are_computed_once(void **state)
{
    (void)state;
    enum { N = 20, PROMPT = SYSTEM + 14, SHARED = SYSTEM / KV_PAGE * KV_PAGE };
    struct record *all = simple_records(N, PROMPT, 5);
    struct setup u = {
        .n_seqs = 8, .n_batch = 128, .threads = 1, .cache = 1, .n_pages = 100, .max_logits = 8};
    struct sched_stats stats = run(&u, all, N);
    assert_int_equal(stats.n_cached_tokens, (N - 1) * SHARED);
    assert_int_equal(stats.n_prompt_tokens, SHARED + N * (PROMPT - SHARED));
    u.cache = 0;
    stats = run(&u, all, N);
    assert_int_equal(stats.n_cached_tokens, 0);
    assert_int_equal(stats.n_prompt_tokens, N * PROMPT);
    for (int i = 0; i < N; i++)
        all[i].request.n_choices =
            3; /* choices share pages without the prefix cache, too, except the last page */
    stats = run(&u, all, N);
    assert_int_equal(stats.n_prompt_tokens, N * (PROMPT + 2 * KV_PAGE));
    /* positions to be scored are computed again, earlier ones are not */
    u.cache = 1;
    for (int i = 0; i < N; i++)
        all[i].request.n_choices = 1, all[i].request.prompt_top = 0,
        all[i].request.score_from = KV_PAGE + 1;
    stats = run(&u, all, N);
    assert_int_equal(stats.n_cached_tokens, (N - 1) * KV_PAGE);
    free_records(all, N);
}

static void a_long_prompt_does_not_hold_up_others(void **state)
{
    (void)state;
    enum { N = 4, LONG = 160, BATCH = 16 };
    struct record *all = simple_records(N, 8, 60);
    all[N - 1].request.n_prompt = LONG;
    for (int j = 0; j < LONG; j++) all[N - 1].prompt[j] = 3 + (j * 11) % 300;
    const struct setup u = {
        .n_seqs = 8, .n_batch = BATCH, .threads = 1, .n_pages = 100, .max_logits = 8};
    struct forward f;
    struct sched *s;
    struct err e;
    open_scheduler(&u, &f, &s);
    for (int i = 0; i < N; i++) clear(&all[i]);
    for (int i = 0; i < N - 1; i++) assert_int_equal(sched_submit(s, &all[i].request, &e), 0);
    while (!all[N - 2].n_tokens[0]) step(s);
    assert_int_equal(sched_submit(s, &all[N - 1].request, &e), 0);
    int n_steps = 0, before[N];
    for (; !all[N - 1].n_tokens[0]; n_steps++) {
        for (int i = 0; i < N - 1; i++) before[i] = all[i].n_tokens[0];
        step(s);
        for (int i = 0; i < N - 1; i++) assert_int_equal(all[i].n_tokens[0], before[i] + 1);
    }
    assert_int_equal(n_steps, (LONG + BATCH - N) / (BATCH - (N - 1)));
    sched_close(s);
    forward_close(&f);
    free_records(all, N);
}

/* Steps with prompt rows, for requests that end one after the other. */
static int n_prompt_steps;

static void begin_and_look_for_prompts(struct be *be, const struct batch *b)
{
    n_prompt_steps += b->n_rows > b->n_decode;
    odd_begin_step(be, b);
}

static void sequences_start_together(void **state)
{
    (void)state;
    enum { N = 40 };
    struct record *all = simple_records(N, 8, 1);
    for (int i = 0; i < N; i++) all[i].request.max_tokens = 5 + i % 7 * 3;
    odd_open();
    odd.begin_step = begin_and_look_for_prompts;
    for (int gather = 0; gather <= 4; gather += 4) {
        const struct setup u = {.n_seqs = 8,
                                .n_batch = 64,
                                .threads = 1,
                                .n_pages = 100,
                                .max_logits = 8,
                                .gather = gather,
                                .ops = &odd};
        n_prompt_steps = 0;
        run(&u, all, N);
        if (gather) assert_in_range(n_prompt_steps, N / 8, 1 + (N - 8 + gather - 1) / gather);
        else assert_true(n_prompt_steps > N / 3);
    }
    free_records(all, N);
}

/* One long answer behind short ones does not remain alone at the end. */
static void the_longest_start_first(void **state)
{
    (void)state;
    enum { N = 12, SHORT = 8, LONG = 40 };
    struct record *all = simple_records(N, 8, SHORT);
    uint64_t n_steps[2];
    for (int i = 0; i < N; i++) all[i].request.sampling.ignore_eos = 1;
    all[N - 1].request.max_tokens = LONG;
    uint64_t *want = run_plain(NULL, all, N);
    for (int longest_first = 0; longest_first < 2; longest_first++) {
        const struct setup u = {.n_seqs = 4,
                                .n_batch = 64,
                                .threads = 1,
                                .n_pages = 100,
                                .max_logits = 8,
                                .longest_first = longest_first};
        n_steps[longest_first] = run(&u, all, N).n_steps;
        expect_same(&u, all, N, want);
    }
    assert_true(n_steps[0] >= 2 * SHORT + LONG);
    assert_true(n_steps[1] < LONG + SHORT);
    free(want);
    free_records(all, N);
}

static void an_abort_ends_every_choice_once(void **state)
{
    (void)state;
    enum { N = 12 };
    struct record *all = random_records(N, 7);
    for (int steps = 0; steps < 30; steps += 3) {
        const struct setup u = {.n_seqs = 4,
                                .n_batch = 32,
                                .threads = 1,
                                .n_pages = 20,
                                .max_logits = 8,
                                .overlap = steps % 2};
        struct forward f;
        struct sched *s;
        struct sched_stats stats;
        struct err e;
        open_scheduler(&u, &f, &s);
        for (int i = 0; i < N; i++) {
            clear(&all[i]);
            assert_int_equal(sched_submit(s, &all[i].request, &e), 0);
        }
        for (int i = 0; i < steps; i++) step(s);
        assert_int_equal(sched_abort(s, &e), 0);
        for (int i = 0; i < N; i++)
            assert_int_equal(all[i].n_done, 1); /* on_done has checked the choices */
        assert_int_equal(all[N - 1].why[0], FINISH_ABORTED);
        sched_stats(s, &stats);
        assert_int_equal(stats.n_pages_used + stats.n_running + stats.n_waiting, 0);
        assert_int_equal(step(s), 0);
        sched_close(s);
        forward_close(&f);
    }
    free_records(all, N);
}

/* At an abort a choice that ended is not ended again while another request's choice of that number
 * runs. */
static void an_abort_ends_choices_of_their_requests(void **state)
{
    (void)state;
    struct record *all = simple_records(2, 8, 40);
    const struct setup u = {
        .n_seqs = 4, .n_batch = 32, .threads = 1, .n_pages = 64, .max_logits = 8};
    struct forward f;
    struct sched *s;
    struct err e;
    open_scheduler(&u, &f, &s);
    for (int i = 0; i < 2; i++) {
        clear(&all[i]);
        all[i].request.n_choices = 2;
        if (!i) all[i].request.max_tokens = 5;
        assert_int_equal(sched_submit(s, &all[i].request, &e), 0);
    }
    while (!all[0].n_finished[0]) step(s); /* the second choice began behind the prompt */
    assert_true(!all[0].n_finished[1] && !all[1].n_finished[0]);
    assert_int_equal(sched_abort(s, &e), 0);
    assert_true(all[0].why[0] == FINISH_LENGTH && all[0].why[1] == FINISH_ABORTED);
    for (int c = 0; c < 2; c++) assert_int_equal(all[1].why[c], FINISH_ABORTED);
    for (int i = 0; i < 2; i++) assert_int_equal(all[i].n_done, 1);
    sched_close(s);
    forward_close(&f);
    free_records(all, 2);
}

enum { POISON = 317 };

/* NaN logits after one token. */
static void poison_logits(struct be *be, const struct stepwise_call *c)
{
    (void)be;
    if (c->op->kind != OP_ARGMAX) return;
    float *logits = odd_buffer(c, c->op->in[0]);
    for (int i = 0; i < c->batch->n_logits; i++)
        if (c->batch->token[c->batch->logit_row[i]] == POISON) logits[i * VOCAB + 7] = NAN;
}

/* What is allowed and bad leaves no token: the request says so, whichever token the model finds
 * best; where it finds none, that is said. */
static void no_token_may_come(void **state)
{
    enum { N = 6 };
    (void)state;
    struct record *all = simple_records(N, 30, 12);
    uint32_t allowed[VOCAB / 32] = {0};
    int32_t one = 7;
    const struct sampler_bad bad = {&one, 1};
    const struct setup u = {
        .n_seqs = 3, .n_batch = 64, .threads = 1, .n_pages = 40, .max_logits = 8, .ops = &odd};
    allowed[0] = 1u << one;
    for (int i = 0; i < 4; i++) {
        all[i].request.sampling.allowed = allowed;
        all[i].request.sampling.temperature = i % 2 ? 0.7f : 0;
        if (i < 2) continue;
        all[i].request.sampling.bad = &bad;
        all[i].request.sampling.n_bad = 1;
    }
    all[4].prompt[29] = POISON;
    all[4].request.sampling.allowed = allowed;
    odd_open();
    odd_hooks.before = poison_logits;
    run(&u, all, N);
    for (int i = 0; i < N; i++) {
        if (i == 4) assert_non_null(strstr(all[i].msg, "not finite"));
        else if (i == 2 || i == 3) assert_non_null(strstr(all[i].msg, "no token may come"));
        else assert_true(!all[i].msg[0] && all[i].n_tokens[0] == 12);
    }
    free_records(all, N);
}

static void a_request_that_fails_fails_alone(void **state)
{
    (void)state;
    enum { N = 10 };
    struct record *all = simple_records(N, 30, 12);
    uint64_t *want = run_plain(NULL, all, N);
    all[4].prompt[29] = POISON;
    all[4].request.n_choices = 2;
    odd_open();
    odd_hooks.before = poison_logits;
    for (int overlap = 0; overlap < 2; overlap++) {
        const struct setup u = {.n_seqs = 5,
                                .n_batch = 64,
                                .threads = 1,
                                .cache = 1,
                                .n_pages = 40,
                                .max_logits = 8,
                                .overlap = overlap,
                                .ops = &odd};
        run(&u, all, N);
        for (int i = 0; i < N; i++) {
            if (i == 4) assert_non_null(strstr(all[i].msg, "not finite"));
            else assert_true(digest(&all[i]) == want[i] && !all[i].msg[0]);
        }
    }
    free(want);
    free_records(all, N);
}

static size_t n_downloaded;
static int draws; /* the backend has OP_SAMPLE and OP_SCORE */

static void counting_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    n_downloaded += bytes;
    backend_cpu.download(be, dst, d_src, bytes);
}

/* Bytes downloaded from the backend while one request of 7 + 5 tokens runs beside three greedy
 * ones. */
static size_t download_of(const struct request *how)
{
    struct record *all = simple_records(4, 7, 5);
    const struct setup u = {
        .n_seqs = 4, .n_batch = 64, .threads = 1, .n_pages = 40, .max_logits = 8, .ops = &odd};
    for (int i = 0; i < 4; i++) all[i].request.n_top = -1;
    all[2].request.n_top = how->n_top;
    all[2].request.named = how->named;
    all[2].request.n_named = how->n_named;
    all[2].request.prompt_top = how->prompt_top;
    all[2].request.score_from = 0;
    all[2].request.sampling = how->sampling;
    odd_open();
    odd.download = counting_download;
    odd.kinds |= 1u << OP_TOP | (uint32_t)draws << OP_SAMPLE | (uint32_t)draws << OP_SCORE;
    odd_hooks.after = find_top_or_draw;
    n_top_rows = 0;
    n_downloaded = 0;
    run(&u, all, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(all[i].n_tokens[0], 5);
    free_records(all, 4);
    return n_downloaded;
}

static void only_wanted_logits_leave_the_backend(void **state)
{
    (void)state;
    const struct sampler_params greedy = {
        .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = 1};
    const struct request best = {.n_top = -1, .prompt_top = -1, .sampling = greedy};
    const size_t tokens = 4 * 5 * sizeof(int32_t), row = VOCAB * sizeof(float),
                 score = sizeof(struct logits_score);
    struct request how = best;
    assert_int_equal(download_of(&how), tokens);
    how.n_top = 0;
    assert_int_equal(download_of(&how), tokens + 5 * row);
    how = best;
    how.sampling.temperature = 0.7;
    assert_int_equal(download_of(&how), tokens + 5 * row);
    how.sampling.top_k = OP_TOP_KEPT;
    assert_int_equal(download_of(&how), tokens + 5 * OP_TOP_ROOM * sizeof(struct logits_entry));
    how.sampling.top_k++;
    assert_int_equal(download_of(&how), tokens + 5 * row);
    how.sampling = greedy;
    how.sampling.min_tokens = 3; /* no token is forbidden any more */
    assert_int_equal(download_of(&how), tokens + 3 * row);
    draws = 1;
    how = best;
    how.sampling.temperature = 0.7;
    how.sampling.top_p = 0.8;
    assert_int_equal(download_of(&how), tokens);
    how.sampling.top_k = OP_TOP_KEPT + 1;
    how.sampling.min_p = 0.01;
    how.sampling.repetition_penalty = 1.2;
    assert_int_equal(download_of(&how), tokens);
    how.sampling.typical_p = 0.9;
    assert_int_equal(download_of(&how), tokens + 5 * row);
    how.sampling.typical_p = 1;
    how.n_top = 0;
    assert_int_equal(download_of(&how), tokens + 5 * score);
    how = best;
    how.n_top = 20;
    assert_int_equal(download_of(&how), tokens + 5 * score);
    how.named = &(int32_t){3};
    how.n_named = 1;
    assert_int_equal(download_of(&how), tokens + 5 * row);
    how = best;
    how.sampling.min_tokens = 3;
    assert_int_equal(download_of(&how), tokens);
    how = best;
    how.prompt_top = 0; /* six of the seven, and the argmax of the last */
    assert_int_equal(download_of(&how), tokens + 6 * (score + sizeof(int32_t)));
    draws = 0;
    assert_int_equal(download_of(&how), tokens + 6 * (row + sizeof(int32_t)));
}

static void what_can_never_run_is_refused(void **state)
{
    (void)state;
    struct record *r = simple_records(1, N_CTX, 1);
    struct setup u = {.n_seqs = 1, .n_batch = 64, .threads = 1, .n_pages = 5, .max_logits = 1};
    struct forward f;
    struct sched *s;
    struct err e;
    open_scheduler(&u, &f, &s);
    assert_int_equal(sched_submit(s, &r->request, &e), -1);
    assert_non_null(strstr(e.msg, "context"));
    r->request.n_prompt = 40;
    r->request.max_tokens = 42; /* the last token is not computed: 81 positions */
    assert_int_equal(sched_submit(s, &r->request, &e), -1);
    assert_non_null(strstr(e.msg, "6 KV pages"));
    r->request.max_tokens = 41;
    clear(r);
    assert_int_equal(sched_submit(s, &r->request, &e), 0);
    while (step(s)) {
    }
    assert_int_equal(r->n_tokens[0], 41);
    sched_close(s);
    forward_close(&f);
    free_records(r, 1);
}

/* After sched_drain running requests end, with all choices and all requests of the group; no other
 * request starts. */
static void what_waits_does_not_begin_after_a_drain(void **state)
{
    enum { N = 24, SEQS = 4, GROUP = 3 };
    (void)state;
    for (int way = 0; way < 16; way++) {
        struct record *all = random_records(N, 5);
        struct setup u = {.n_seqs = SEQS,
                          .n_batch = 64,
                          .threads = 1,
                          .n_pages = 64,
                          .max_logits = 64,
                          .cache = 1};
        struct forward f;
        struct sched *s;
        struct sched_stats stats;
        struct err e = {0};
        struct request_group group[N / GROUP] = {{0}};
        int groups = way & 1, choices = way & 4 ? 2 : 1;
        u.overlap = way >> 1 & 1;
        u.gather = way & 8 ? SEQS : 0;
        open_scheduler(&u, &f, &s);
        for (int i = 0; i < N; i++) {
            struct request *r = &all[i].request;
            clear(&all[i]);
            r->n_prompt = 3 + i;
            r->max_tokens = 10 + i;
            r->n_choices = choices;
            r->prompt_top = -1;
            r->sampling = (struct sampler_params){
                .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = 1};
            all[i].stop_after = 0;
            r->group = groups ? &group[i / GROUP] : NULL;
            if (sched_submit(s, r, &e)) fail_msg("%s", e.msg);
        }
        for (int i = 0; i < 3 + 2 * way; i++) assert_int_equal(step(s), 1);
        sched_stats(s, &stats);
        int begun = N - stats.n_waiting, n = groups ? (begun + GROUP - 1) / GROUP * GROUP : begun;
        assert_true(begun >= SEQS / choices && begun < N / 2);
        sched_drain(s);
        while (step(s)) {
        }
        for (int i = 0; i < N; i++) {
            assert_int_equal(all[i].n_done, i < n);
            for (int c = 0; c < choices; c++)
                assert_int_equal(all[i].n_tokens[c], i < n ? 10 + i : 0);
        }
        sched_stats(s, &stats);
        assert_int_equal(stats.n_running, 0);
        assert_int_equal(stats.n_waiting, N - n);
        assert_int_equal(sched_abort(s, &e), 0);
        for (int i = n; i < N; i++) assert_true(all[i].n_done && all[i].why[0] == FINISH_ABORTED);
        sched_close(s);
        forward_close(&f);
        free_records(all, N);
    }
}

static int count_prompt(void *arg, int pos, const struct token_info *t, struct err *e)
{
    (void)arg, (void)pos, (void)t, (void)e;
    return 0;
}

static int count_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    (void)arg, (void)choice, (void)t, (void)e;
    return 0;
}

static int count_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)arg, (void)choice, (void)why, (void)e;
    return 0;
}

static int count_done(void *arg, const char *msg, struct err *e)
{
    (void)msg, (void)e;
    ((struct record *)arg)->n_done++;
    return 0;
}

/* Of more choices than a struct record has room for. */
static const struct request_sink counting = {.prompt_token = count_prompt,
                                             .token = count_token,
                                             .finished = count_finished,
                                             .done = count_done};

/* Of many records, each with more choices than run at once, no one waits until another one has
 * all; a record that has few is not cut into turns. */
static void records_take_turns(void **state)
{
    enum { LARGE = 3, SMALL = 6, N = LARGE + SMALL, SEQS = 2, CHOICES = 40, TOKENS = 4 };
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct record *all = simple_records(N, 20, TOKENS);
        struct setup u = {.n_seqs = SEQS,
                          .n_batch = 64,
                          .threads = 1,
                          .n_pages = 64,
                          .max_logits = 64,
                          .cache = 1,
                          .overlap = way & 1,
                          .gather = way & 2 ? SEQS : 0};
        struct forward f;
        struct sched *s;
        struct sched_stats stats;
        struct err e = {0};
        int next = 0, n_done = 0, first_large = 0;
        open_scheduler(&u, &f, &s);
        for (int i = 0; i < N; i++) {
            clear(&all[i]);
            all[i].request.n_choices = i < LARGE ? CHOICES : 1;
            all[i].request.sink = &counting;
        }
        while (next < N || step(s)) {
            for (; next < N && sched_wants(s) > 0; next++)
                if (sched_submit(s, &all[next].request, &e)) fail_msg("%s", e.msg);
            if (next < N) step(s);
            n_done = 0;
            for (int i = LARGE; i < N; i++) n_done += all[i].n_done;
            for (int i = 0; i < LARGE && n_done < SMALL; i++) first_large |= all[i].n_done;
        }
        assert_int_equal(n_done, SMALL);
        assert_false(first_large);
        sched_stats(s, &stats);
        assert_int_equal(stats.n_generated_tokens, (LARGE * CHOICES + SMALL) * TOKENS);
        for (int i = 0; i < N; i++) assert_int_equal(all[i].n_done, 1);
        sched_close(s);
        forward_close(&f);
        free_records(all, N);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_prefixes_are_computed_once),
        cmocka_unit_test(a_long_prompt_does_not_hold_up_others),
        cmocka_unit_test(sequences_start_together),
        cmocka_unit_test(the_longest_start_first),
        cmocka_unit_test(an_abort_ends_every_choice_once),
        cmocka_unit_test(an_abort_ends_choices_of_their_requests),
        cmocka_unit_test(no_token_may_come),
        cmocka_unit_test(a_request_that_fails_fails_alone),
        cmocka_unit_test(only_wanted_logits_leave_the_backend),
        cmocka_unit_test(what_can_never_run_is_refused),
        cmocka_unit_test(what_waits_does_not_begin_after_a_drain),
        cmocka_unit_test(records_take_turns),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
