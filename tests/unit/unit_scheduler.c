/* unit_scheduler.c: the results of a request do not depend on scheduling: bytes compared over
 * sequences, rows, threads, pages, prefix cache, order; against a plain loop over forward_step; and
 * with faulty backends, which must be detected; steps without allocations. */
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
    n_top_rows = n_without_room = n_drawn_rows = n_scored_rows = 0;
    for (int i = 0; i < WAYS; i++) {
        odd.kinds = backend_cpu.kinds | 1u << OP_TOP | (uint32_t)(i % 2) << OP_SAMPLE |
                    (uint32_t)(i % 2) << OP_SCORE;
        odd_hooks.after = i % 2 ? find_top_or_draw : find_top;
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
           "are enough, %d whose tokens the device draws, %d that it scores\n",
           N, WAYS, (int)n_preemptions, (int)n_cached, n_top_rows, n_drawn_rows, n_scored_rows);
    assert_true(n_preemptions > WAYS / 8 && n_cached > 10 * WAYS);
    assert_true(n_top_rows > 5 * WAYS && n_without_room > WAYS / 2 && n_drawn_rows > 5 * WAYS &&
                n_scored_rows > 5 * WAYS);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_a_plain_loop),
        cmocka_unit_test(the_context_chooses_frequencies),
        cmocka_unit_test(answers_do_not_depend_on_scheduling),
        cmocka_unit_test(neither_do_those_from_packed_pages),
        cmocka_unit_test(tokens_keep_their_phase),
        cmocka_unit_test(the_next_step_need_not_know_the_tokens),
        cmocka_unit_test(wrong_pages_are_noticed),
        cmocka_unit_test(wrong_seats_are_noticed),
        cmocka_unit_test(many_requests),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
