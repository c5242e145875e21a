/* unit_scheduler.c: the results of a request do not depend on scheduling: bytes compared over
 * sequences, rows, threads, pages, prefix cache, order; against a plain loop over forward_step; and
 * with faulty backends, which must be detected. Also fairness, failure of one request, and steps
 * without allocations. */
#include "backend-cpu/cpu.h"
#include "core/sched/scheduler.h"
#include "core/sample/logits.h"
#include "tests/unit/sched_backends.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_naive.h"
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

/* Sanitizers cost a factor of ten. */
#ifdef __SANITIZE_ADDRESS__
enum { WAYS = 12, SOAK = 30 };
#else
enum { WAYS = 64, SOAK = 300 };
#endif

/* --- the contract */
static void over_all_ways(enum kv_type kv)
{
    enum { N = 12 };
    static const int seqs[] = {1, 2, 7, 64}, batch[] = {1, 3, 16, 512}, pages[] = {13, 14, 20, 400};
    struct record *all = random_records(N, 1);
    for (int i = 0; i < N; i += 2) { /* half of them without options that need all logits */
        struct request *r = &all[i].request;
        struct sampler_params *p = &r->sampling;
        *p = (struct sampler_params){.temperature = 0.7 + 0.1 * i,
                                     .top_k = 1 + 5 * i,
                                     .top_p = 0.9,
                                     .typical_p = 1,
                                     .repetition_penalty = 1,
                                     .seed = p->seed};
        r->n_top = -1;
    }
    uint64_t *want = run_plain_kv(kv, NULL, all, N);
    uint64_t n_preemptions = 0, n_cached = 0;
    odd_open();
    odd.kinds |= 1u << OP_TOP;
    odd_hooks.after = find_top;
    n_top_rows = n_without_room = 0;
    for (int i = 0; i < WAYS; i++) {
        const struct setup u = {.n_seqs = seqs[(i + i / 4) % 4],
                                .n_batch = batch[i % 4],
                                .n_pages = pages[i / 4 % 4],
                                .threads = 1 + (i % 5 == 1),
                                .cache = i / 3 % 2,
                                .shuffle = i / 2 % 2,
                                .max_logits = i % 3 ? 64 : 1 + i % 5,
                                .kv = kv,
                                .overlap = (i + i / 8) % 2,
                                .gather = i / 5 % 3,
                                .ops = i / 7 % 2 ? &odd : NULL};
        struct sched_stats stats = run(&u, all, N);
        expect_same(&u, all, N, want);
        n_preemptions += stats.n_preemptions;
        n_cached += u.cache ? stats.n_cached_tokens : 0;
    }
    printf("# %d requests, %d ways: %d preemptions, %d cached tokens, %d rows of which some logits "
           "are enough\n",
           N, WAYS, (int)n_preemptions, (int)n_cached, n_top_rows);
    assert_true(n_preemptions > WAYS / 8 && n_cached > 10 * WAYS);
    assert_true(n_top_rows > 10 * WAYS && n_without_room > WAYS);
    free(want);
    free_records(all, N);
}

static void answers_do_not_depend_on_scheduling(void **state)
{
    (void)state;
    over_all_ways(KV_F16);
}

static void neither_do_those_from_packed_pages(void **state)
{
    (void)state;
    over_all_ways(KV_INT4);
}

static void tokens_keep_their_phase(void **state)
{
    (void)state;
    enum { N = 14 };
    struct record *all = random_records(N, 2);
    uint64_t *cpu = run_plain(NULL, all, N);
    odd_open();
    odd_hooks.after = linear_by_phase;
    uint64_t *want = run_plain(&odd, all, N);
    assert_true(n_different(all, N, cpu) > N / 2); /* the phase has an effect */
    uint64_t n_preemptions = 0;
    for (int i = 0; i < 16; i++) {
        const struct setup u = {.n_seqs = 1 + 3 * (i % 4),
                                .n_batch = i % 3 ? 64 : 5,
                                .threads = 1,
                                .n_pages = i % 2 ? 13 : 20,
                                .cache = i / 4 % 2,
                                .shuffle = i / 8,
                                .max_logits = 16,
                                .overlap = (i + i / 4) % 2,
                                .ops = &odd};
        n_preemptions += run(&u, all, N).n_preemptions;
        expect_same(&u, all, N, want);
    }
    assert_true(n_preemptions > 8);
    odd.begin_step = begin_without_phase;
    struct setup lost = plain;
    lost.ops = &odd;
    run(&lost, all, N);
    assert_true(n_different(all, N, want) > 0);
    free(cpu);
    free(want);
    free_records(all, N);
}

/* Steps begin before the tokens of the last one are known, as long as every row needs only the
 * argmax; sequences that end by a token or by their sink then have one row too many. */
static void the_next_step_need_not_know_the_tokens(void **state)
{
    (void)state;
    enum { N = 24 };
    struct record *all = random_records(N, 8);
    for (int i = 0; i < N; i++) {
        struct request *r = &all[i].request;
        r->n_top = -1;
        if (i % 10) r->prompt_top = -1;
        r->sampling = (struct sampler_params){.top_p = 1,
                                              .typical_p = 1,
                                              .repetition_penalty = 1,
                                              .ignore_eos = r->sampling.ignore_eos,
                                              .n_stop_ids = i % 2,
                                              .stop_ids = all[i].stop_ids};
        all[i].stop_after = i % 3 ? 0 : 1 + below(12);
    }
    uint64_t *want = run_plain(NULL, all, N);
    int n_stopped = 0, n_length = 0;
    for (int i = 0; i < N; i++) {
        const struct request *r = &all[i].request;
        n_stopped += r->max_tokens && all[i].why[0] == FINISH_STOP;
        n_length += r->max_tokens && all[i].why[0] == FINISH_LENGTH;
    }
    assert_true(n_stopped > N / 4 && n_length > N / 4);
    odd_open();
    odd.begin_step = begin_and_count;
    uint64_t n_preemptions = 0;
    for (int i = 0; i < 4; i++) {
        const struct setup u = {.n_seqs = 1 + 5 * i,
                                .n_batch = i % 3 ? 64 : 16,
                                .threads = 1,
                                .cache = i % 2,
                                .n_pages = i ? 12 + i : 100,
                                .shuffle = i / 2,
                                .max_logits = 16,
                                .overlap = 1,
                                .ops = &odd};
        n_chosen_there = 0;
        n_preemptions += run(&u, all, N).n_preemptions;
        expect_same(&u, all, N, want);
        assert_true(n_chosen_there > 100);
    }
    assert_true(n_preemptions > 2);
    odd_hooks.before = embed_the_first;
    const struct setup wrong = {.n_seqs = 3,
                                .n_batch = 64,
                                .threads = 1,
                                .n_pages = 100,
                                .max_logits = 16,
                                .overlap = 1,
                                .ops = &odd};
    run(&wrong, all, N);
    assert_true(n_different(all, N, want) > N / 8);
    free(want);
    free_records(all, N);
}

/* The comparison detects what is occasionally wrong. */
static void is_noticed(enum kv_type kv, void (*begin)(struct be *be, const struct batch *b))
{
    enum { N = 24 };
    struct record *all = random_records(N, 3);
    uint64_t *want = run_plain_kv(kv, NULL, all, N);
    odd_open();
    odd.begin_step = begin;
    struct setup u = plain;
    u.n_seqs = 7;
    u.ops = &odd;
    u.kv = kv;
    run(&u, all, N);
    assert_true(n_different(all, N, want) > 0);
    free(want);
    free_records(all, N);
}

static void wrong_pages_are_noticed(void **state)
{
    (void)state;
    is_noticed(KV_F16, begin_with_wrong_page);
}

static void wrong_seats_are_noticed(void **state)
{
    (void)state;
    is_noticed(KV_INT4, begin_with_wrong_seat);
}

/* --- against a plain loop: one request alone */
static void check_choice(struct forward *f, struct sampler *s, const struct record *r, int choice)
{
    const struct request *q = &r->request;
    const struct sampler_params *p = &q->sampling;
    const char *at = r->log[choice];
    int32_t token[N_CTX + 1];
    double mu;
    struct err e;
    enum finish why = FINISH_LENGTH, got;
    memcpy(token, r->prompt, sizeof r->prompt);
    for (int n = q->n_prompt, end = q->max_tokens == 0; !end; n++) {
        float adjusted[VOCAB], *logits = naive_logits(f, token, n) + (size_t)(n - 1) * VOCAB;
        int32_t id;
        const struct sampler_context c = {p,
                                          sampler_key(p->seed, q->stream, (uint64_t)choice),
                                          q->n_prompt,
                                          n - q->n_prompt,
                                          model.config.n_eos,
                                          token,
                                          token + q->n_prompt,
                                          model.config.eos,
                                          &mu,
                                          NULL};
        memcpy(adjusted, logits, sizeof adjusted);
        sampler_adjust(s, &c, adjusted);
        assert_int_equal(sampler_choose(s, &c, adjusted, logits_argmax(adjusted, VOCAB), &id, &e),
                         0);
        token[n] = id;
        assert_int_equal(check_info(&at, logits, q->n_top), id);
        int n_generated = n + 1 - q->n_prompt, stop = n_generated == r->stop_after;
        for (int i = 0; i < model.config.n_eos && !p->ignore_eos; i++)
            stop |= id == model.config.eos[i];
        for (int i = 0; i < p->n_stop_ids; i++) stop |= id == p->stop_ids[i];
        if (stop) why = FINISH_STOP;
        end = stop || n_generated == q->max_tokens || n + 1 == N_CTX;
    }
    take(&at, &got, sizeof got);
    assert_int_equal(got, why);
    assert_int_equal(at - r->log[choice], r->n_log[choice]);
}

static void answers_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    enum { N = 14 };
    struct record *all = random_records(N, 4);
    struct setup u = {
        .n_seqs = 5, .n_batch = 40, .threads = 1, .cache = 1, .n_pages = 30, .max_logits = 8};
    run(&u, all, N);
    struct forward f;
    struct sampler s;
    struct err e;
    const struct forward_options fo = {
        .n_threads = 1, .n_pages = 16, .max_rows = N_CTX, .max_logits = N_CTX};
    assert_int_equal(forward_open(&f, &model, &backend_cpu, &fo, &e), 0);
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    int n_stopped = 0, n_length = 0;
    for (int i = 0; i < N; i++) {
        const struct record *r = &all[i];
        const struct request *q = &r->request;
        const char *at = r->log[MAX_CHOICES];
        float *logits = naive_logits(&f, r->prompt, q->n_prompt);
        for (int pos = 1; q->prompt_top >= 0 && pos < q->n_prompt; pos++) {
            int got;
            if (pos < q->score_from) continue;
            take(&at, &got, sizeof got);
            assert_int_equal(got, pos);
            assert_int_equal(check_info(&at, logits + (size_t)(pos - 1) * VOCAB, q->prompt_top),
                             r->prompt[pos]);
        }
        assert_int_equal(at - r->log[MAX_CHOICES], r->n_log[MAX_CHOICES]);
        for (int c = 0; c < q->n_choices; c++) {
            check_choice(&f, &s, r, c);
            n_stopped += r->why[c] == FINISH_STOP;
            n_length += r->why[c] == FINISH_LENGTH;
        }
    }
    assert_true(n_stopped > 2 && n_length > 2);
    sampler_close(&s);
    forward_close(&f);
    free_records(all, N);
}

/* Of two sets of frequencies: by the context, where it is not given by the pages of a sequence. */
static void the_context_chooses_frequencies(void **state)
{
    (void)state;
    static const struct {
        int context, max_pages, longer;
    } cases[] = {{20, 2, 0}, {21, 2, 1}, {20, 64, 0}, {1 << 17, 2, 1}, {0, 1, 0}, {0, 2, 1}};
    int w = 0;
    for (int i = 0; i < model.plan.n_ops; i++)
        if (model.plan.op[i].kind == OP_ANGLES) w = model.plan.op[i].w[0];
    struct weight *to = &model.plan.weight[w];
    float *longer = calloc((size_t)to->n, sizeof *longer);
    assert_non_null(to->vector);
    to->longer = longer;
    to->longer_from = 20;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forward f;
        struct err e;
        const struct forward_options fo = {.n_threads = 1,
                                           .n_pages = 64,
                                           .max_rows = 8,
                                           .max_logits = 8,
                                           .max_pages = cases[i].max_pages,
                                           .context = cases[i].context};
        assert_int_equal(forward_open(&f, &model, &backend_cpu, &fo, &e), 0);
        assert_memory_equal(f.memory.vector[w], cases[i].longer ? longer : to->vector,
                            (size_t)to->n * sizeof *longer);
        forward_close(&f);
    }
    to->longer = NULL;
    free(longer);
}

static void many_requests(void **state)
{
    (void)state;
    enum { N = SOAK };
    struct record *all = random_records(N, 5);
    uint64_t *want = run_plain(NULL, all, N);
    for (int i = 0; i < 2; i++) {
        const struct setup u = {.n_seqs = i ? 20 : 64,
                                .n_batch = i ? 30 : 256,
                                .threads = 1 + i,
                                .cache = 1,
                                .n_pages = i ? 60 : 400,
                                .shuffle = 1,
                                .max_logits = 64,
                                .overlap = i};
        run(&u, all, N);
        expect_same(&u, all, N, want);
    }
    free(want);
    free_records(all, N);
}

/* --- sharing, fairness, failure */
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
    all[2].request.prompt_top = how->prompt_top;
    all[2].request.score_from = 0;
    all[2].request.sampling = how->sampling;
    odd_open();
    odd.download = counting_download;
    odd.kinds |= 1u << OP_TOP;
    odd_hooks.after = find_top;
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
    const size_t tokens = 4 * 5 * sizeof(int32_t), row = VOCAB * sizeof(float);
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
    how = best;
    how.prompt_top = 0; /* six of the seven, and the argmax of the last */
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
        cmocka_unit_test(what_waits_does_not_begin_after_a_drain),
        cmocka_unit_test(records_take_turns),
        cmocka_unit_test(answers_are_those_of_a_plain_loop),
        cmocka_unit_test(the_context_chooses_frequencies),
        cmocka_unit_test(answers_do_not_depend_on_scheduling),
        cmocka_unit_test(neither_do_those_from_packed_pages),
        cmocka_unit_test(tokens_keep_their_phase),
        cmocka_unit_test(the_next_step_need_not_know_the_tokens),
        cmocka_unit_test(wrong_pages_are_noticed),
        cmocka_unit_test(wrong_seats_are_noticed),
        cmocka_unit_test(many_requests),
        cmocka_unit_test(equal_prefixes_are_computed_once),
        cmocka_unit_test(a_long_prompt_does_not_hold_up_others),
        cmocka_unit_test(sequences_start_together),
        cmocka_unit_test(an_abort_ends_every_choice_once),
        cmocka_unit_test(an_abort_ends_choices_of_their_requests),
        cmocka_unit_test(no_token_may_come),
        cmocka_unit_test(a_request_that_fails_fails_alone),
        cmocka_unit_test(only_wanted_logits_leave_the_backend),
        cmocka_unit_test(what_can_never_run_is_refused),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
