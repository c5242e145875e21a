/* unit_sched_grammar.c: answers with a grammar. Against a plain loop that knows the choices as
 * texts and masks all logits; the same bytes in any schedule, with forced tokens as rows or sampled
 * one by one, on a backend that computes beside the host and has its kernels by phase; frequencies
 * of samples under a mask; how answers end. */
#include "tests/unit/sched_device.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_naive.h"
#include "tests/unit/sched_runs.h"
#include "tests/unit/sched_teller.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
enum { WAYS = 10 };
#else
enum { WAYS = 48 };
#endif

/* Tokens are all texts of one to three letters among A, B and C, then the letters from D on, each
 * of one token alone: an answer is undecided among the first and forced among the others. */
enum { MAX_TEXT = 120, N_TEXTS = 6, LETTERS = 26 };
static char token_text[VOCAB][4];
static struct vocab *vocab;

static const char *text_of(void *arg, int32_t id, size_t *bytes)
{
    (void)arg;
    *bytes = strlen(token_text[id]);
    return *bytes ? token_text[id] : NULL;
}

static int is_eos(int32_t id)
{
    for (int i = 0; i < model.config.n_eos; i++)
        if (model.config.eos[i] == id) return 1;
    return 0;
}

static int open_tokens(void **state)
{
    struct err e;
    const struct vocab_source source = {.n = VOCAB, .token = text_of};
    if (convert_model(state)) return -1;
    int n = 0;
    for (int32_t id = 3; id < VOCAB; id++) {
        if (is_eos(id)) continue;
        int k = n++, length = k < 3 ? 1 : k < 12 ? 2 : k < 39 ? 3 : 0;
        if (k >= 39) {
            if (k - 39 < LETTERS - 3) token_text[id][0] = (char)('D' + k - 39);
            continue;
        }
        k -= length == 1 ? 0 : length == 2 ? 3 : 12;
        for (int i = 0; i < length; i++, k /= 3) token_text[id][i] = (char)('A' + k % 3);
    }
    return vocab_open(&vocab, &source, &e);
}

static int close_tokens(void **state)
{
    vocab_close(vocab);
    return close_model(state);
}

/* The texts that an answer may be. */
struct texts {
    char text[N_TEXTS][MAX_TEXT];
    int n;
    struct grammar *grammar;
};

/* In turn as choices, which are a trie, and as a regular expression, whose places are found while
 * answers are made. */
static void open_grammar(struct texts *t)
{
    static int as_regex = 1;
    char text[N_TEXTS * (MAX_TEXT + 4) + 4] = "";
    struct err e = {0};
    as_regex = !as_regex;
    for (int i = 0; i < t->n; i++) {
        const char *before = as_regex ? (i ? "|" : "") : i ? "\",\"" : "[\"";
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", before, t->text[i]);
    }
    if (!as_regex) strcat(text, "\"]");
    const struct grammar_spec spec = {.kind = as_regex ? GRAMMAR_REGEX : GRAMMAR_CHOICE,
                                      .text = text,
                                      .bytes = strlen(text)};
    if (grammar_open(&t->grammar, &spec, vocab, &e)) fail_msg("%s", e.msg);
}

/* Some begin like others, some end inside others. */
static void random_texts(struct texts *t)
{
    t->n = 1 + below(N_TEXTS);
    for (int i = 0; i < t->n; i++) {
        char *s = t->text[i];
        int n = (below(2) ? 60 : 1) + below(MAX_TEXT - 62), from = i && below(3) ? below(n) : 0;
        if (i) memcpy(s, t->text[i - 1], (size_t)from);
        if ((size_t)from > strlen(t->text[i ? i - 1 : 0])) from = 0;
        for (int forced = below(2), j = from; j < n; j++) {
            if (!below(5)) forced = !forced;
            s[j] = (char)(forced ? 'D' + below(LETTERS - 3) : 'A' + below(3));
        }
        s[n] = 0;
    }
    open_grammar(t);
}

/* 1: TEXT and then MORE begin one of the texts; *ends: they are one of them. */
static int fits(const struct texts *t, const char *text, const char *more, int *ends)
{
    char all[2 * MAX_TEXT];
    int begins = 0;
    snprintf(all, sizeof all, "%s%s", text, more);
    *ends = 0;
    for (int i = 0; i < t->n; i++) {
        begins |= !strncmp(t->text[i], all, strlen(all));
        *ends |= !strcmp(t->text[i], all);
    }
    return begins;
}

/* Whether anything may follow TEXT. */
static int goes_on(const struct texts *t, const char *text)
{
    int ends;
    for (int32_t id = 0; id < VOCAB; id++)
        if (token_text[id][0] && fits(t, text, token_text[id], &ends)) return 1;
    return 0;
}

/* Masks by trying every token. */
static void forbid(const struct texts *t, const char *text, int eos, float *logits)
{
    int ends, whole;
    fits(t, text, "", &whole);
    for (int32_t id = 0; id < VOCAB; id++) {
        int allowed = is_eos(id) ? eos && whole
                                 : token_text[id][0] && fits(t, text, token_text[id], &ends);
        if (!allowed) logits[id] = -INFINITY;
    }
}

/* --- against a plain loop */
static void check_choice(struct forward *f, struct sampler *s, const struct record *r,
                         const struct texts *t, int choice)
{
    const struct request *q = &r->request;
    const struct sampler_params *p = &q->sampling;
    const char *at = r->log[choice];
    char text[2 * MAX_TEXT] = "";
    int32_t token[N_CTX + 1];
    double mu;
    struct err e;
    enum finish why = FINISH_LENGTH, got;
    memcpy(token, r->prompt, sizeof r->prompt);
    for (int n = q->n_prompt, end = 0; !end; n++) {
        float masked[VOCAB], *logits = naive_logits(f, token, n) + (size_t)(n - 1) * VOCAB;
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
        memcpy(masked, logits, sizeof masked);
        forbid(t, text, !p->ignore_eos, masked);
        sampler_adjust(s, &c, masked);
        assert_int_equal(sampler_choose(s, &c, masked, logits_argmax(masked, VOCAB), &id, &e), 0);
        token[n] = id;
        assert_int_equal(check_info(&at, logits, q->n_top), id);
        int n_generated = n + 1 - q->n_prompt, stop = n_generated == r->stop_after;
        if (is_eos(id)) stop = 1;
        else strcat(text, token_text[id]);
        for (int i = 0; i < p->n_stop_ids; i++) stop |= id == p->stop_ids[i];
        if (stop || !goes_on(t, text)) why = FINISH_STOP, stop = 1;
        end = stop || n_generated == q->max_tokens || n + 1 == N_CTX;
    }
    take(&at, &got, sizeof got);
    assert_int_equal(got, why);
    assert_int_equal(at - r->log[choice], r->n_log[choice]);
}

/* Half of the records are greedy. Nothing forbids the only token that a grammar allows. */
static struct record *constrained_records(struct texts *texts, int n, uint64_t seed)
{
    struct record *all = random_records(n, seed);
    for (int i = 0; i < n; i++) {
        struct record *r = &all[i];
        random_texts(&texts[i]);
        r->request.grammar = texts[i].grammar;
        if (!r->request.max_tokens) r->request.max_tokens = 1 + below(60);
        if (r->request.n_prompt > 70) r->request.n_prompt = 70;
        r->request.sampling.n_bias = r->request.sampling.n_bias ? 1 : 0;
        if (i % 3 == 0)
            r->request.sampling =
                (struct sampler_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
        if (i % 6 == 1) /* what a backend's largest logits would decide without a mask */
            r->request.sampling = (struct sampler_params){.temperature = 0.8,
                                                          .top_k = 20,
                                                          .top_p = 0.9,
                                                          .typical_p = 1,
                                                          .repetition_penalty = 1};
        if (i % 6 == 1 || i % 6 == 5) r->request.n_top = -1;
        if (i % 6 == 0) r->request.n_top = 2;
        /* EOS may be all that is allowed */
        r->request.sampling.min_tokens = 0;
    }
    return all;
}

static void close_records(struct texts *texts, struct record *all, int n)
{
    for (int i = 0; i < n; i++) grammar_close(texts[i].grammar);
    free_records(all, n);
}

static void answers_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    enum { N = 40 };
    static struct texts texts[N];
    struct record *all = constrained_records(texts, N, 21);
    const struct setup u = {
        .n_seqs = 5, .n_batch = 40, .threads = 2, .cache = 1, .n_pages = 40, .max_logits = 8};
    run(&u, all, N);
    struct forward f;
    struct sampler s;
    struct err e;
    const struct forward_options fo = {
        .n_threads = 1, .n_pages = 16, .max_rows = N_CTX, .max_logits = N_CTX};
    assert_int_equal(forward_open(&f, &model, &backend_cpu, &fo, &e), 0);
    assert_int_equal(sampler_open(&s, VOCAB, &e), 0);
    int n_stopped = 0, n_length = 0;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < all[i].request.n_choices; c++) {
            assert_string_equal(all[i].msg, "");
            check_choice(&f, &s, &all[i], &texts[i], c);
            n_stopped += all[i].why[c] == FINISH_STOP;
            n_length += all[i].why[c] == FINISH_LENGTH;
        }
    printf("# %d answers are complete or stopped, %d have max_tokens\n", n_stopped, n_length);
    assert_true(n_stopped > N / 2 && n_length > 4);
    sampler_close(&s);
    forward_close(&f);
    close_records(texts, all, N);
}

/* --- the contract, with the bits of a phase and with a backend's largest logits */
static void hooks_of_a_device(struct be *be, const struct stepwise_call *c)
{
    linear_by_phase(be, c);
    find_top_or_draw(be, c);
}

static void open_device(void)
{
    odd_open();
    odd_hooks.after = hooks_of_a_device;
    odd.kinds |= 1u << OP_TOP | 1u << OP_SCORE | 1u << OP_SAMPLE;
}

static struct setup way(int i)
{
    static const int seqs[] = {1, 2, 7, 64}, batch[] = {3, 1, 16, 512}, pages[] = {13, 14, 20, 400};
    return (struct setup){.n_seqs = seqs[(i + i / 4) % 4],
                          .n_batch = batch[i % 4],
                          .n_pages = pages[i / 4 % 4],
                          .threads = 1 + (i % 5 == 1),
                          .shuffle = i / 2 % 2,
                          .max_logits = i % 3 ? 64 : 1 + i % 5,
                          .overlap = (i + i / 8) % 2,
                          .gather = i / 5 % 3,
                          .ops = &odd};
}

static void answers_do_not_depend_on_scheduling(void **state)
{
    (void)state;
    enum { N = 16 };
    static struct texts texts[N];
    struct record *all = constrained_records(texts, N, 22);
    open_device();
    odd.kinds = backend_cpu.kinds; /* the host chooses */
    uint64_t *want = run_plain(&odd, all, N), n_preemptions = 0, steps[2] = {0};
    open_device();
    n_masked_rows = n_masked_scores = 0;
    for (int i = 0; i < WAYS; i++) {
        struct setup u = way(i);
        for (u.sample_forced = 0; u.sample_forced < 2; u.sample_forced++) {
            struct sched_stats stats = run(&u, all, N);
            expect_same(&u, all, N, want);
            n_preemptions += stats.n_preemptions;
            steps[u.sample_forced] += stats.n_steps;
        }
    }
    printf("# %d ways: %d preemptions; %d steps, %d with forced tokens one by one; %d rows under "
           "masks of a device, %d of them scored\n",
           2 * WAYS, (int)n_preemptions, (int)steps[0], (int)steps[1], n_masked_rows,
           n_masked_scores);
    assert_true(n_preemptions > WAYS / 4 && steps[0] < steps[1] && n_scored_rows > WAYS &&
                n_masked_rows > WAYS && n_masked_scores > WAYS);
    free(want);
    close_records(texts, all, N);
}

/* Few pages, beside a device: the end of an answer may be found to be forced while the rows of a
 * preempted sequence are computed again, which choose nothing. */
static void forced_ends_come_after_preemptions(void **state)
{
    (void)state;
    enum { N = 16, SEEDS = 6 };
    static struct texts texts[N];
    const struct setup u = {.n_seqs = 64,
                            .n_batch = 512,
                            .n_pages = 13,
                            .threads = 1,
                            .shuffle = 1,
                            .max_logits = 64,
                            .overlap = 1,
                            .ops = &odd};
    uint64_t n_preemptions = 0;
    open_device();
    for (int k = 0; k < SEEDS; k++) {
        struct record *all = constrained_records(texts, N, (uint64_t)(28 + k));
        uint64_t *want = run_plain(&odd, all, N);
        n_preemptions += run(&u, all, N).n_preemptions;
        expect_same(&u, all, N, want);
        free(want);
        close_records(texts, all, N);
    }
    printf("# %d preemptions\n", (int)n_preemptions);
    assert_true(n_preemptions >= SEEDS);
}

/* Some letters from A to F, of which a wrong draft is mostly allowed, in front of forced ones. */
static void free_letters(struct texts *t, struct record *r)
{
    static const char text[] = "([A-F]{1,6}UVWXYZ){1,9}";
    const struct grammar_spec spec = {
        .kind = GRAMMAR_REGEX, .text = text, .bytes = sizeof text - 1};
    struct err e;
    grammar_close(t->grammar);
    if (grammar_open(&t->grammar, &spec, vocab, &e)) fail_msg("%s", e.msg);
    r->request.grammar = t->grammar;
    r->request.max_tokens = 40;
    r->request.n_top = below(2) ? 2 : -1;
}

/* Right drafts and wrong ones, some of which the grammar does not allow or reach behind its end. */
static void drafts_change_no_answer(void **state)
{
    (void)state;
    enum { N = 16 };
    static struct texts texts[N];
    static struct teller t;
    struct record *all = constrained_records(texts, N, 28);
    for (int i = 0; i < N; i += 2) free_letters(&texts[i], &all[i]);
    const struct drafter teller = {.propose = tell, .self = &t};
    open_device();
    uint64_t *want = run_plain(&odd, all, N), drafted = 0, right = 0, steps[2] = {0};
    learn(&t, all, N);
    for (int i = 0; i < WAYS; i++) {
        struct setup u = way(i);
        if (u.n_batch < 3) u.n_batch = 6; /* a draft needs rows of its own */
        u.sample_forced = i % 7 == 3;
        steps[0] += run(&u, all, N).n_steps;
        t.wrong = 2 + i % 9;
        u.draft_most = 1 + i % 9;
        u.draft_always = i % 8 != 7;
        u.drafter = i % 5 == 2 ? NULL : &teller;
        struct sched_stats stats = run(&u, all, N);
        expect_same(&u, all, N, want);
        steps[1] += stats.n_steps;
        drafted += stats.n_drafted_tokens;
        right += stats.n_accepted_tokens;
    }
    printf("# %d ways: %d tokens of drafts, %d of them right; %d steps, %d without\n", WAYS,
           (int)drafted, (int)right, (int)steps[1], (int)steps[0]);
    assert_true(right > 20 * (uint64_t)WAYS && drafted > right + 20 * (uint64_t)WAYS &&
                steps[1] < steps[0] * 95 / 100);
    free(want);
    close_records(texts, all, N);
}

/* --- alone */
static void one_request(struct record *r, const struct texts *t)
{
    r->request.grammar = t->grammar;
    r->request.n_choices = 1;
    r->request.n_top = r->request.prompt_top = -1;
    r->request.max_tokens = 60;
    r->request.n_prompt = 20;
    r->stop_after = 0;
    r->request.sampling =
        (struct sampler_params){.top_p = 1, .typical_p = 1, .repetition_penalty = 1};
}

static void forced_tokens_take_one_step(void **state)
{
    (void)state;
    struct texts t = {.text = {"DEFGHIJKLMNOPQRSTUVWXYZDEFGHIJKLMNOP"}, .n = 1};
    struct record *r = random_records(1, 23);
    struct setup u = plain;
    open_grammar(&t);
    one_request(r, &t);
    struct sched_stats stats = run(&u, r, 1);
    assert_int_equal(stats.n_steps, 1);
    assert_int_equal(r->n_tokens[0], strlen(t.text[0]));
    assert_int_equal(r->why[0], FINISH_STOP);
    /* cut by the sink in between, and by max_tokens */
    r->stop_after = 5;
    run(&u, r, 1);
    assert_int_equal(r->n_tokens[0], 5);
    assert_int_equal(r->why[0], FINISH_STOP);
    r->stop_after = 0;
    r->request.max_tokens = 7;
    for (u.overlap = 0; u.overlap < 2; u.overlap++) {
        run(&u, r, 1);
        assert_int_equal(r->n_tokens[0], 7);
        assert_int_equal(r->why[0], FINISH_LENGTH);
    }
    /* a token of stop_ids among them */
    r->request.max_tokens = 60;
    for (int32_t id = 0; id < VOCAB; id++)
        if (!strcmp(token_text[id], "G")) r->stop_ids[0] = id;
    r->request.sampling.n_stop_ids = 1;
    r->request.sampling.stop_ids = r->stop_ids;
    run(&u, r, 1);
    assert_int_equal(r->n_tokens[0], 4);
    assert_int_equal(r->why[0], FINISH_STOP);
    close_records(&t, r, 1);
}

static void what_is_forbidden_fails_alone(void **state)
{
    (void)state;
    struct texts t = {.text = {"DEF"}, .n = 1};
    struct record *r = random_records(1, 24);
    open_grammar(&t);
    one_request(r, &t);
    for (int32_t id = 0; id < VOCAB; id++)
        if (!strcmp(token_text[id], "E")) r->bias[0] = (struct sampler_bias){id, -INFINITY};
    r->request.sampling.bias = r->bias;
    r->request.sampling.n_bias = 1;
    run(&plain, r, 1);
    assert_non_null(strstr(r->msg, "no token is allowed"));
    close_records(&t, r, 1);
}

/* A choice that no token can continue ends by EOS, or not at all. */
static void what_cannot_be_spelled_ends(void **state)
{
    (void)state;
    struct texts t = {.text = {"DE", "DE?"}, .n = 2};
    struct record *r = random_records(1, 27);
    open_grammar(&t);
    one_request(r, &t);
    for (int how = 0; how < 4; how++) {
        struct setup u = plain;
        int32_t last;
        u.overlap = how & 1;
        r->request.n_top = how / 2 ? 1 : -1;
        r->request.sampling.ignore_eos = 0;
        run(&u, r, 1);
        assert_int_equal(r->n_tokens[0], 3);
        assert_int_equal(r->why[0], FINISH_STOP);
        memcpy(&last, r->log[0] + 2 * (r->n_log[0] - sizeof(enum finish)) / 3, sizeof last);
        assert_true(is_eos(last));
        r->request.sampling.ignore_eos = 1;
        run(&u, r, 1);
        assert_non_null(strstr(r->msg, "ignore_eos forbids its end"));
    }
    close_records(&t, r, 1);
}

/* The first token of many requests with the same logits: frequencies against the softmax over the
 * tokens that are allowed, by chi-square. */
static void samples_have_the_masked_distribution(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct texts t = {.text = {"AB", "BA", "CA", "DA", "EA", "FAB"}, .n = N_TEXTS};
    struct record *all = calloc(N, sizeof *all);
    struct record *one = random_records(1, 25);
    double p[VOCAB], sum = 0, chi = 0;
    int count[VOCAB] = {0}, n_cells = 0;
    open_grammar(&t);
    for (int i = 0; i < N; i++) {
        all[i].request = (struct request){.prompt = one->prompt,
                                          .n_prompt = 20,
                                          .n_choices = 1,
                                          .max_tokens = 1,
                                          .n_top = -1,
                                          .prompt_top = -1,
                                          .stream = (uint64_t)i,
                                          .sink = &sink,
                                          .arg = &all[i],
                                          .grammar = t.grammar};
        all[i].request.sampling = (struct sampler_params){
            .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
        all[i].log_size = 128;
        for (int c = 0; c <= MAX_CHOICES; c++) all[i].log[c] = malloc(128);
    }
    const struct setup u = {
        .n_seqs = 16, .n_batch = 64, .threads = 1, .n_pages = 64, .max_logits = 16, .cache = 1};
    run(&u, all, N);
    struct forward f;
    struct err e;
    const struct forward_options fo = {
        .n_threads = 1, .n_pages = 16, .max_rows = N_CTX, .max_logits = N_CTX};
    assert_int_equal(forward_open(&f, &model, &backend_cpu, &fo, &e), 0);
    float logits[VOCAB];
    memcpy(logits, naive_logits(&f, one->prompt, 20) + (size_t)19 * VOCAB, sizeof logits);
    forbid(&t, "", 1, logits);
    for (int i = 0; i < VOCAB; i++) sum += p[i] = exp((double)logits[i]);
    for (int i = 0; i < N; i++) {
        int32_t id;
        memcpy(&id, all[i].log[0], sizeof id);
        count[id]++;
    }
    for (int i = 0; i < VOCAB; i++) {
        double expected = N * p[i] / sum;
        if (p[i] == 0) assert_int_equal(count[i], 0);
        if (p[i] > 0) n_cells++, chi += (count[i] - expected) * (count[i] - expected) / expected;
    }
    printf("# chi-square %.1f of %d cells\n", chi, n_cells);
    assert_true(n_cells > 6 && chi < n_cells + 5 * sqrt(2.0 * n_cells));
    forward_close(&f);
    free_records(one, 1);
    grammar_close(t.grammar);
    free_records(all, N);
}

/* An abort in the middle gives back every cursor (a leak is AddressSanitizer's to find). */
static void an_abort_ends_them(void **state)
{
    (void)state;
    enum { N = 9 };
    static struct texts texts[N];
    struct record *all = constrained_records(texts, N, 26);
    for (int overlap = 0; overlap < 2; overlap++) {
        struct setup u = plain;
        struct forward f;
        struct sched *s;
        struct err e;
        u.n_seqs = 4;
        u.overlap = overlap;
        open_scheduler(&u, &f, &s);
        for (int i = 0; i < N; i++) {
            clear(&all[i]);
            assert_int_equal(sched_submit(s, &all[i].request, &e), 0);
        }
        for (int i = 0; i < 3; i++) step(s);
        if (overlap) assert_int_equal(sched_abort(s, &e), 0);
        for (int i = 0; overlap && i < N; i++) assert_int_equal(all[i].n_done, 1);
        sched_close(s);
        forward_close(&f);
    }
    close_records(texts, all, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_a_plain_loop),
        cmocka_unit_test(answers_do_not_depend_on_scheduling),
        cmocka_unit_test(forced_ends_come_after_preemptions),
        cmocka_unit_test(drafts_change_no_answer),
        cmocka_unit_test(forced_tokens_take_one_step),
        cmocka_unit_test(what_is_forbidden_fails_alone),
        cmocka_unit_test(what_cannot_be_spelled_ends),
        cmocka_unit_test(samples_have_the_masked_distribution),
        cmocka_unit_test(an_abort_ends_them),
    };
    return cmocka_run_group_tests(tests, open_tokens, close_tokens);
}
