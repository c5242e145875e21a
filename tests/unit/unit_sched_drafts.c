/* unit_sched_drafts.c: drafts change no byte of an answer, whatever a drafter proposes, over many
 * ways to schedule the same requests; rows of drafts that are wrong leave nothing behind; what the
 * drafter of texts proposes. */
#include "tests/unit/sched_runs.h"
#include "core/sched/sched_internal.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_device.h"
#include "tests/unit/sched_teller.h"

#ifdef __SANITIZE_ADDRESS__
enum { WAYS = 10 };
#else
enum { WAYS = 40 };
#endif

enum { N = 14 };

static uint64_t total(uint64_t *sum, uint64_t more) { return *sum += more; }

static void over_all_ways(enum kv_type kv, uint64_t seed)
{
    static const int seqs[] = {1, 2, 7, 32}, batch[] = {1, 6, 16, 512}, pages[] = {13, 14, 20, 400};
    struct record *all = random_records(N, seed);
    static struct teller t;
    struct drafter teller = {.propose = tell, .self = &t};
    uint64_t *want = run_plain_kv(kv, NULL, all, N), drafted = 0, accepted = 0, preempted = 0;
    learn(&t, all, N);
    odd_open();
    int n_scoring = 0;
    n_scored_rows = 0;
    for (int i = 0; i < WAYS; i++) {
        const uint32_t draws = i / 2 % 2;
        odd.kinds = backend_cpu.kinds | 1u << OP_TOP | draws << OP_SCORE | draws << OP_SAMPLE;
        odd_hooks.after = draws ? find_top_or_draw : find_top;
        t.wrong = 2 + i % 7;
        const struct setup u = {.n_seqs = seqs[(i + i / 4) % 4],
                                .n_batch = batch[i % 4],
                                .n_pages = pages[i / 4 % 4],
                                .threads = 1 + (i % 5 == 1),
                                .cache = i / 3 % 2,
                                .shuffle = i / 2 % 2,
                                .max_logits = i % 3 ? 64 : 1 + i % 9,
                                .kv = kv,
                                .overlap = (i + i / 8) % 2,
                                .draft_most = 1 + i % 9,
                                .draft_always = i % 8 != 7, /* else clocks decide */
                                .draft_sure = i / 16 % 2,
                                .drafter = i % 5 == 2 ? NULL : &teller,
                                .ops = i / 7 % 2 ? &odd : NULL};
        struct sched_stats stats = run(&u, all, N);
        n_scoring += u.ops && draws;
        expect_same(&u, all, N, want);
        total(&drafted, stats.n_drafted_tokens);
        total(&accepted, stats.n_accepted_tokens);
        total(&preempted, stats.n_preemptions);
        assert_true(stats.n_accepted_tokens <= stats.n_drafted_tokens);
    }
    printf("# %d requests, %d ways: %d tokens of drafts, %d of them right; %d preemptions, %d rows "
           "scored\n",
           N, WAYS, (int)drafted, (int)accepted, (int)preempted, n_scored_rows);
    assert_true(accepted > 50 * WAYS && drafted - accepted > 20 * WAYS && preempted > WAYS / 8);
    assert_true(n_scoring > 0 && n_scored_rows > 50 * n_scoring);
    free(want);
    free_records(all, N);
}

static void drafts_change_no_answer(void **state)
{
    (void)state;
    over_all_ways(KV_F16, 1);
    over_all_ways(KV_INT8, 2);
}

static void nor_beside_packed_pages(void **state)
{
    (void)state;
    over_all_ways(KV_INT4, 3);
}

/* Makes a record ask for the likeliest tokens, so many of them. */
static void make_greedy(struct record *record, int n)
{
    struct request *r = &record->request;
    r->n_choices = 1;
    r->max_tokens = n;
    r->prompt_top = -1;
    r->sampling = (struct sampler_params){
        .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = 1};
    record->stop_after = 0;
}

/* With right drafts of four tokens an answer takes a fifth of the steps. */
static void right_drafts_save_steps(void **state)
{
    struct setup u = plain;
    struct record *all = random_records(N, 4);
    static struct teller t;
    struct drafter teller = {.propose = tell, .self = &t};
    (void)state;
    for (int i = 0; i < N; i++) {
        all[i].request.n_choices = 1;
        all[i].request.max_tokens = 50;
        all[i].request.sampling.ignore_eos = 1;
        all[i].request.sampling.mirostat = all[i].request.sampling.n_stop_ids = 0;
        all[i].stop_after = 0;
    }
    struct sched_stats before = run(&u, all, N);
    learn(&t, all, N);
    t.wrong = 1 << 30;
    u.draft_most = 4;
    u.draft_always = 1;
    u.drafter = &teller;
    struct sched_stats after = run(&u, all, N);
    assert_int_equal(before.n_steps, N * 50);
    assert_int_equal(after.n_steps, N * (1 + 50 / 5)); /* the prompt's token, then five a step */
    assert_int_equal(after.n_generated_tokens, before.n_generated_tokens);
    t.wrong = 1; /* and wrong ones add none */
    after = run(&u, all, N);
    assert_int_equal(after.n_steps, before.n_steps);
    assert_int_equal(after.n_accepted_tokens, 0);
    u.overlap = 1; /* beside a device, which is waited for as long as drafts are right */
    struct sched_stats beside = run(&u, all, N);
    printf("# %d tokens of wrong drafts, %d beside a device\n", (int)after.n_drafted_tokens,
           (int)beside.n_drafted_tokens);
    assert_true(beside.n_drafted_tokens < after.n_drafted_tokens / 2);
    t.wrong = 1 << 30;
    assert_true(run(&u, all, N).n_steps < before.n_steps * 4 / 10);
    u.draft_always = 0; /* guesses that are wrong are not computed once */
    u.draft_sure = 1;
    t.wrong = 1;
    assert_int_equal(run(&u, all, N).n_drafted_tokens, 0);
    free_records(all, N);
}

/* Whether a step of so many rows beside 8 sequences may have drafts: at most four numbers an
 * octave, and more than half of the drafts. */
static int is_on_grid(int rows)
{
    const int step = rows < 12 ? 1 : rows < 16 ? 2 : rows < 32 ? 4 : 8;
    return rows % step == 0;
}

/* Where rows cost nothing more, right drafts are computed, in few numbers of rows; where each costs
 * as much as the first, none are. */
static void costs_decide(void **state)
{
    enum { SEQS = 8, ANSWER = 40 };
    struct setup u = plain;
    struct record *all = random_records(SEQS, 6);
    static struct teller t;
    struct drafter teller = {.propose = tell, .self = &t};
    (void)state;
    for (int i = 0; i < SEQS; i++) make_greedy(&all[i], ANSWER);
    u.n_seqs = SEQS;
    u.n_pages = 400;
    run(&u, all, SEQS);
    learn(&t, all, SEQS);
    t.wrong = 1 << 30;
    u.draft_most = 5;
    u.drafter = &teller;
    for (int is_dear = 0; is_dear < 2; is_dear++) {
        struct forward f;
        struct sched *s;
        struct err e;
        int n_steps = 0;
        open_scheduler(&u, &f, &s);
        for (int i = 0; i < SEQS; i++) {
            clear(&all[i]);
            assert_int_equal(sched_submit(s, &all[i].request, &e), 0);
        }
        for (int busy = 1; busy; n_steps++) {
            for (int i = 0; i < SCHED_COSTS; i++) s->cost[i] = is_dear ? 0 : 1;
            if (is_dear)
                for (int i = 1; i <= 32; i++) s->cost[i] = i;
            busy = step(s);
            if (s->batch.n_decode == s->batch.n_rows && s->n_drafting == SEQS)
                assert_true(s->batch.n_rows == SEQS || is_on_grid(s->batch.n_rows));
        }
        struct sched_stats stats;
        sched_stats(s, &stats);
        if (is_dear) assert_int_equal(stats.n_drafted_tokens, 0);
        else assert_true(stats.n_accepted_tokens > SEQS * ANSWER / 2 && n_steps < ANSWER / 2);
        sched_close(s);
        forward_close(&f);
    }
    free_records(all, SEQS);
}

/* The next turn of a conversation finds the pages that accepted drafts have completed. */
static void pages_of_drafts_are_shared(void **state)
{
    enum { PROMPT = 20, ANSWER = 45 }; /* the last position computed ends a page */
    struct setup u = plain;
    struct record *all = random_records(N, 5);
    static struct teller t;
    struct drafter teller = {.propose = tell, .self = &t};
    (void)state;
    for (int i = 0; i < N; i++) {
        make_greedy(&all[i], ANSWER);
        all[i].request.n_prompt = PROMPT;
    }
    run(&u, all, N);
    learn(&t, all, N);
    t.wrong = 1 << 30;
    memcpy(all[1].prompt, all[0].prompt, PROMPT * sizeof *all[0].prompt);
    memcpy(all[1].prompt + PROMPT, t.token[0][0], ANSWER * sizeof *all[0].prompt);
    all[1].request.n_prompt = PROMPT + ANSWER;
    u.cache = u.share_generated = 1;
    struct sched_stats without = run(&u, all, 2);
    u.draft_most = 4;
    u.draft_always = 1;
    u.drafter = &teller;
    struct sched_stats with = run(&u, all, 2);
    assert_int_equal(without.n_cached_tokens, PROMPT + ANSWER - 1);
    assert_int_equal(with.n_cached_tokens, PROMPT + ANSWER - 1);
    assert_true(with.n_accepted_tokens > ANSWER / 2);
    free_records(all, N);
}

/* ---- the drafter of texts */

static int propose(const struct drafter *d, int seq, const char *prompt, const char *generated,
                   char *draft, int most)
{
    int32_t p[400], g[400], token[64];
    int n_p = (int)strlen(prompt), n_g = (int)strlen(generated), matched, n;
    for (int i = 0; i < n_p; i++) p[i] = prompt[i];
    for (int i = 0; i < n_g; i++) g[i] = generated[i];
    struct draft_ask a = {seq, p, g, n_p, n_g};
    n = d->propose(d->self, &a, token, most, &matched);
    for (int i = 0; i < n; i++) draft[i] = (char)token[i];
    draft[n] = 0;
    return matched;
}

static void end_with(const struct drafter *d, int seq, const char *prompt, const char *generated)
{
    int32_t p[400], g[400];
    int n_p = (int)strlen(prompt), n_g = (int)strlen(generated);
    for (int i = 0; i < n_p; i++) p[i] = prompt[i];
    for (int i = 0; i < n_g; i++) g[i] = generated[i];
    struct draft_ask a = {seq, p, g, n_p, n_g};
    d->end(d->self, &a);
}

static void texts_say_what_comes_next(void **state)
{
    struct draft_text *text;
    struct err e;
    char draft[65];
    (void)state;
    assert_int_equal(draft_text_open(&text, 2, 400, &e), 0);
    struct drafter d = draft_text_drafter(text);
    d.begin(d.self, 0);
    d.begin(d.self, 1);
    assert_int_equal(propose(&d, 0, "ab", "", draft, 9), 0);
    assert_int_equal(propose(&d, 0, "the cat sat; the ca", "", draft, 99), 6);
    assert_string_equal(draft, "t sat; the c"); /* twice as many as were alike */
    propose(&d, 0, "the cat sat; the ca", "t", draft, 3);
    assert_string_equal(draft, " sa");
    propose(&d, 0, "the cat sat; the ca", "r is red; the ca", draft, 9); /* the longest, the last */
    assert_string_equal(draft, "r is red;");
    propose(&d, 1, "xyxyxyx", "", draft, 9); /* beyond the end: what the draft begins with */
    assert_string_equal(draft, "yxyxyxyxy");
    d.begin(d.self, 1); /* fewer than three, of the last place; none of another sequence's */
    assert_int_equal(propose(&d, 1, "abc, xbc-d; z", "b", draft, 9), 1);
    assert_string_equal(draft, "c-");
    assert_int_equal(propose(&d, 1, "abc, xbc-d; z", "bc", draft, 9), 2);
    assert_string_equal(draft, "-d; ");
    assert_int_equal(propose(&d, 1, "abc, xbc-d; z", "bc?", draft, 9), 0);
    d.begin(d.self, 1);
    assert_int_equal(propose(&d, 1, "a", "a", draft, 9), 1);
    d.begin(d.self, 1); /* two of an earlier place before one of the last */
    assert_int_equal(propose(&d, 1, "abX, cbY; ", "ab", draft, 9), 2);
    assert_string_equal(draft, "X, c");
    /* an answer of before; a sequence of the same number forgets */
    end_with(&d, 0, "say it: ", "hello world");
    d.begin(d.self, 0);
    assert_int_equal(propose(&d, 0, "qqq t: hel", "", draft, 9), 6);
    assert_string_equal(draft, "lo world"); /* not beyond its end */
    propose(&d, 0, "qqq t: hel", "lo wor", draft, 9);
    assert_string_equal(draft, "ld");
    assert_int_equal(propose(&d, 0, "qqq t: hel", "lo world", draft, 9), 0);
    d.begin(d.self, 0);
    assert_int_equal(propose(&d, 0, "the ca", "", draft, 9), 0);
    /* the store is bounded, and older answers leave it */
    for (int i = 0; i < 20000; i++) {
        char answer[64];
        snprintf(answer, sizeof answer, "number %d and number %d are numbers", i, 7 * i);
        end_with(&d, 1, "zzz", answer);
    }
    d.begin(d.self, 0);
    assert_int_equal(propose(&d, 0, "qqq t: hel", "", draft, 9), 0);
    propose(&d, 0, "number 19999 an", "", draft, 9);
    assert_string_equal(draft, "d number ");
    draft_text_close(text);
}

/* Writes N tokens at the place PLACE of a text. */
static void put_tokens(int32_t *text, int place, const int32_t *token, int n)
{
    memcpy(text + place, token, (size_t)n * sizeof *token);
}

/* In a long text places are found anywhere, of several the longest of those that are not far back.
 */
static void long_texts_have_places(void **state)
{
    enum { LONG = 40000 };
    static int32_t text[LONG];
    const int32_t farther[] = {4, 5, 1, 2, 3, 11}, far[] = {5, 1, 2, 3, 6},
                  near[] = {7, 1, 2, 3, 9}, last[] = {8, 1, 2, 3, 10}, other[] = {20, 21, 22, 23};
    struct draft_text *d;
    struct err e;
    int32_t draft[8];
    int matched;
    (void)state;
    for (int i = 0; i < LONG; i++) text[i] = 1000 + i;
    put_tokens(text, 50, other, 4);
    put_tokens(text, 60, farther, 6);
    put_tokens(text, 100, far, 5);
    put_tokens(text, 39000, near, 5);
    put_tokens(text, 39500, last, 5);
    put_tokens(text, LONG - 3, other, 3);
    assert_int_equal(draft_text_open(&d, 2, 2 * LONG, &e), 0);
    assert_true(draft_text_bytes(2, 2 * LONG) < 8 << 20);
    struct drafter drafter = draft_text_drafter(d);
    drafter.begin(drafter.self, 1);
    struct draft_ask a = {1, text, NULL, LONG, 0};
    assert_int_equal(drafter.propose(d, &a, draft, 8, &matched), 6);
    assert_int_equal(matched, 3);
    assert_true(draft[0] == 23 && draft[1] == 1054);
    put_tokens(text, LONG - 4, near, 4);
    drafter.begin(drafter.self, 1);
    assert_int_equal(drafter.propose(d, &a, draft, 8, &matched), 8);
    assert_true(matched == 4 && draft[0] == 9 && draft[1] == 1000 + 39005);
    put_tokens(text, LONG - 5, farther, 5); /* what is before a place far back is forgotten */
    drafter.begin(drafter.self, 1);
    assert_int_equal(drafter.propose(d, &a, draft, 8, &matched), 8);
    assert_true(matched == 4 && draft[0] == 6);
    draft_text_close(d);
}

/* Of the places with the same tokens in front of them the last 16 are looked at: in the text
 * itself, and in answers of before. */
static void few_places_are_looked_at(void **state)
{
    enum { SEEN = 16, LONG = 4 * (SEEN + 3) };
    int32_t text[LONG + 5], draft[2];
    struct draft_text *d;
    struct err e;
    int matched;
    (void)state;
    for (int far = SEEN - 1; far <= SEEN; far++)
        for (int stored = 0; stored < 2; stored++) {
            int n = 0;
            text[n++] = 9; /* the longest equal part begins here, FAR others come behind it */
            for (int i = 0; i <= far; i++) {
                const int32_t part[] = {1, 2, 3, 100 + i};
                put_tokens(text, n, part, 4);
                n += 4;
            }
            assert_int_equal(draft_text_open(&d, 2, 400, &e), 0);
            struct drafter drafter = draft_text_drafter(d);
            drafter.begin(d, 0);
            struct draft_ask a = {0, text, text + n, n, 0}, before = {1, text, text, 0, n};
            if (stored) drafter.end(d, &before);
            put_tokens(text, stored ? 0 : n, (const int32_t[]){9, 1, 2, 3}, 4);
            if (stored) a.n_prompt = 4;
            else a.n_generated = 4;
            assert_int_equal(drafter.propose(d, &a, draft, 1, &matched), 1);
            assert_int_equal(matched, far < SEEN ? 4 : 3);
            assert_int_equal(draft[0], far < SEEN ? 100 : 100 + far);
            draft_text_close(d);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_change_no_answer),
        cmocka_unit_test(nor_beside_packed_pages),
        cmocka_unit_test(right_drafts_save_steps),
        cmocka_unit_test(pages_of_drafts_are_shared),
        cmocka_unit_test(costs_decide),
        cmocka_unit_test(texts_say_what_comes_next),
        cmocka_unit_test(long_texts_have_places),
        cmocka_unit_test(few_places_are_looked_at),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
