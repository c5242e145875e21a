/* unit_sched_states.c: the scheduler with a model whose operations keep states. The backend is the
 * CPU's with a recurrence beside it: the state of a sequence is a hash of the tokens that it has
 * seen, and every row of the embedding depends on it. A wrong slot, a state that a later step has
 * overwritten or a snapshot of another prefix changes answers; the state counts its tokens, so that
 * it is also noticed at once. */
#include "core/sched/statecache.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_odd.h"
#include "tests/unit/sched_store_dir.h"

/* Sanitizers cost a factor of ten. */
#ifdef __SANITIZE_ADDRESS__
enum { WAYS = 16, OPERATIONS = 2000 };
#else
enum { WAYS = 96, OPERATIONS = 20000 };
#endif

struct fake_state {
    uint64_t hash;
    int64_t n; /* tokens seen */
};

static int odd_calls;
static int n_wrong, n_kept_apart; /* states of another position; sequences from another slot */
static int break_every;           /* every so many steps a sequence begins with another slot's; 0 */

static uint64_t mixed(uint64_t h, int32_t token)
{
    h = (h ^ (uint32_t)token) * 0xd6e8feb86659fd93u;
    return h ^ h >> 29;
}

/* After the embedding: the recurrence over the rows of every sequence. */
static void recur(struct be *be, const struct stepwise_call *c)
{
    (void)be;
    if (c->op->kind != OP_EMBED) return;
    const struct batch *b = c->batch;
    const int32_t *chosen = odd_buffer(c, c->op->in[0]);
    struct fake_state *slot = c->memory->state[0];
    float *x = odd_buffer(c, c->op->out[0]);
    size_t dim = c->plan->buffer[c->op->out[0]].row_bytes / sizeof *x;
    int broken = break_every && ++odd_calls % break_every == 0;
    for (int s = 0; s < b->n_seqs; s++) {
        int from = b->state_from[s];
        struct fake_state state = {1, 0};
        if (from >= 0) state = slot[broken ? from ^ 1 : from];
        n_wrong += state.n != b->pos[b->seq_start[s]];
        n_kept_apart += from >= 0 && from != b->state_to[s];
        for (int r = b->seq_start[s]; r < b->seq_start[s + 1]; r++) {
            int32_t id = b->token[r] < 0 ? chosen[-1 - b->token[r]] : b->token[r];
            state.hash = mixed(state.hash, id);
            state.n++;
            x[(size_t)r * dim + state.hash % dim] *= 1.5f;
        }
        slot[b->state_to[s]] = state;
    }
}

struct way {
    int n_seqs, n_batch, cache, n_pages, n_states, overlap, shuffle;
    struct prefix_store *store;
};

static int step_or_fail(struct sched *s)
{
    struct err e = {0};
    int rc = sched_step(s, &e);
    if (rc < 0) fail_msg("%s", e.msg);
    return rc;
}

static struct sched_stats run(const struct way *u, struct record *all, int n)
{
    struct forward f;
    struct sched *s;
    struct sched_stats stats;
    struct err e = {0};
    const struct forward_options fo = {.n_threads = 1,
                                       .n_pages = u->n_pages,
                                       .max_rows = u->n_batch,
                                       .max_logits = 16,
                                       .max_seqs = u->n_seqs,
                                       .n_states = u->n_states};
    const struct sched_options so = {.n_seqs = u->n_seqs,
                                     .n_batch = u->n_batch,
                                     .n_ctx = N_CTX,
                                     .prefix_cache = u->cache,
                                     .store = u->store,
                                     .overlap = u->overlap};
    if (forward_open(&f, &model, &odd, &fo, &e) || sched_open(&s, &f, &so, &e))
        fail_msg("%s", e.msg);
    f.be->ops = &odd;
    for (int i = 0; i < n; i++) clear(&all[i]);
    for (int next = 0, busy = 1; busy || next < n; busy = step_or_fail(s))
        for (int want = sched_wants(s); want > 0 && next < n; want--, next++) {
            int at = u->shuffle ? (next * 7 + 3) % n : next;
            if (sched_submit(s, &all[at].request, &e)) fail_msg("%s", e.msg);
        }
    sched_stats(s, &stats);
    assert_int_equal(stats.n_pages_used, 0);
    assert_int_equal(stats.n_states_used, 0);
    for (int i = 0; i < n; i++) assert_int_equal(all[i].n_done, 1);
    sched_close(s);
    forward_close(&f);
    return stats;
}

/* Every third request has a new prompt; the two after it continue it, as a conversation does. */
static struct record *conversations(int n, uint64_t seed)
{
    struct record *all = random_records(n, seed);
    for (int i = 0; i < n; i++) {
        struct request *r = &all[i].request;
        int n_old = i % 3 ? all[i - 1].request.n_prompt : 0, n_new = 20 + below(50);
        if (!n_old) continue;
        memcpy(all[i].prompt, all[i - 1].prompt, (size_t)n_old * sizeof *all[i].prompt);
        for (int j = n_old; j < n_old + n_new && j < N_CTX; j++) all[i].prompt[j] = below(VOCAB);
        r->n_prompt = n_old + n_new < N_CTX - 20 ? n_old + n_new : N_CTX - 20;
    }
    return all;
}

static uint64_t *expected(struct record *all, int n)
{
    uint64_t *want = malloc((size_t)n * sizeof *want);
    const struct way alone = {.n_seqs = 1, .n_batch = 512, .n_pages = 64, .n_states = 1};
    run(&alone, all, n);
    for (int i = 0; i < n; i++) want[i] = digest(&all[i]);
    return want;
}

static int n_different(const struct record *all, int n, const uint64_t *want)
{
    int k = 0;
    for (int i = 0; i < n; i++) k += digest(&all[i]) != want[i];
    return k;
}

static void answers_do_not_depend_on_slots(void **state)
{
    (void)state;
    enum { N = 30 };
    static const int seqs[] = {1, 2, 7, 16}, batch[] = {1, 5, 16, 40, 512}, pages[] = {13, 20, 400},
                     more[] = {0, 1, 4, 30};
    struct record *all = conversations(N, 11);
    uint64_t *want = expected(all, N), n_preemptions = 0, n_cached = 0;
    for (int i = 0; i < WAYS; i++) {
        int n = seqs[i % 4];
        const struct way u = {.n_seqs = n,
                              .n_batch = batch[i % 5] < n ? n : batch[i % 5],
                              .cache = i / 3 % 4 != 0,
                              .n_pages = pages[i / 5 % 3],
                              .n_states = i % 11 == 10 ? 1 : n + more[i / 7 % 4],
                              .overlap = i / 2 % 2,
                              .shuffle = i / 4 % 2};
        n_wrong = 0;
        struct sched_stats stats = run(&u, all, N);
        n_preemptions += stats.n_preemptions;
        n_cached += stats.n_cached_tokens;
        if (n_wrong || n_different(all, N, want))
            fail_msg("%d answers differ, %d states of another position: n_seqs %d, n_batch %d, "
                     "cache %d, %d pages, %d slots, overlap %d, shuffle %d",
                     n_different(all, N, want), n_wrong, u.n_seqs, u.n_batch, u.cache, u.n_pages,
                     u.n_states, u.overlap, u.shuffle);
    }
    printf("# %d requests, %d ways: %d preemptions, %d cached tokens, %d states read from another "
           "slot\n",
           N, WAYS, (int)n_preemptions, (int)n_cached, n_kept_apart);
    assert_true(n_preemptions > WAYS && n_cached > 100 * WAYS && n_kept_apart > 10 * WAYS);
    free(want);
    free_records(all, N);
}

static void wrong_slots_are_noticed(void **state)
{
    (void)state;
    enum { N = 12 };
    struct record *all = conversations(N, 4);
    uint64_t *want = expected(all, N);
    const struct way u = {
        .n_seqs = 4, .n_batch = 16, .cache = 1, .n_pages = 100, .n_states = 8, .overlap = 1};
    n_wrong = 0;
    break_every = 9;
    run(&u, all, N);
    break_every = 0;
    assert_true(n_wrong > 0 && n_different(all, N, want) > 0);
    free(want);
    free_records(all, N);
}

/* N requests with the same 96 first tokens, and others behind them. */
static struct record *alike(int n, int choices)
{
    struct record *all = random_records(n, 5);
    for (int i = 0; i < n; i++) {
        struct request *r = &all[i].request;
        for (int j = 0; j < 100; j++) all[i].prompt[j] = j < 96 ? 3 + (j * 13) % 300 : 3 + i + j;
        *r = (struct request){.prompt = all[i].prompt,
                              .n_prompt = 100,
                              .n_choices = choices,
                              .max_tokens = 4,
                              .n_top = -1,
                              .prompt_top = -1,
                              .stream = (uint64_t)i,
                              .sink = &sink,
                              .arg = &all[i]};
        r->sampling = (struct sampler_params){
            .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = 1};
        all[i].stop_after = 0;
    }
    return all;
}

/* A shared prefix is computed once where a request runs after another; choices share the prompt up
 * to its last page without the prefix cache, too; without free slots nothing is shared. */
static void snapshots_save_work(void **state)
{
    (void)state;
    enum { N = 10 };
    struct record *all = alike(N, 1);
    struct way u = {.n_seqs = 1, .n_batch = 64, .cache = 1, .n_pages = 100, .n_states = 4};
    assert_int_equal(run(&u, all, N).n_prompt_tokens, 96 + 4 * N);
    u.n_seqs = 4, u.n_states = 6;
    assert_int_equal(run(&u, all, N).n_prompt_tokens, 96 + 4 * N);
    u.cache = 0, u.n_seqs = 1;
    assert_int_equal(run(&u, all, N).n_prompt_tokens, 100 * N);
    u.cache = 1, u.n_states = 1;
    assert_int_equal(run(&u, all, N).n_prompt_tokens, 100 * N);
    free_records(all, N);
    all = alike(2, 3);
    u.cache = 0, u.n_states = 4;
    assert_int_equal(run(&u, all, 2).n_prompt_tokens, 2 * (100 + 2 * 4));
    free_records(all, 2);
}

static struct sched_stats run_stored(struct way u, const char *depends, struct record *all, int n)
{
    u.cache = 1;
    u.store = open_store(&backend_cpu, KV_F16, depends, 0);
    struct sched_stats stats = run(&u, all, n);
    assert_int_equal(prefix_store_stats(u.store).n_damaged, 0);
    prefix_store_close(u.store);
    return stats;
}

/* Removes every file of the store whose name ends with END, or one byte of each. */
static void spoil(const char *how, const char *end)
{
    char command[200];
    snprintf(command, sizeof command, "for f in %s/*%s; do %s $f; done", store_dir, end, how);
    assert_int_equal(system(command), 0);
}

static void answers_do_not_depend_on_the_disk(void **state)
{
    (void)state;
    enum { N = 30, STORED_WAYS = 6 + WAYS / 16 };
    static const int seqs[] = {1, 2, 7, 16}, batch[] = {1, 5, 16, 40, 512}, pages[] = {13, 20, 400},
                     more[] = {0, 1, 4, 30};
    struct record *all = conversations(N, 11);
    uint64_t *want = expected(all, N), n_stored = 0;
    for (int i = 0; i < STORED_WAYS; i++) {
        int n = seqs[i % 4];
        char depends[16];
        const struct way u = {.n_seqs = n,
                              .n_batch = batch[i % 5] < n ? n : batch[i % 5],
                              .n_pages = pages[i / 5 % 3],
                              .n_states = i % 11 == 10 ? 1 : n + more[i / 7 % 4],
                              .overlap = i / 2 % 2,
                              .shuffle = i / 4 % 2};
        snprintf(depends, sizeof depends, "%d", i / 8);
        n_wrong = 0;
        n_stored += run_stored(u, depends, all, N).n_stored_tokens;
        if (n_wrong || n_different(all, N, want))
            fail_msg("%d answers differ, %d states of another position, way %d",
                     n_different(all, N, want), n_wrong, i);
        if (i % 8 == 3) spoil("rm -f", "0*.state");
        if (i % 8 == 5) spoil("rm -f", "0*.page");
    }
    printf("# %d tokens from disk\n", (int)n_stored);
    assert_true(n_stored > 50 * STORED_WAYS);
    assert_int_equal(n_store_notes, 0);
    free(want);
    free_records(all, N);
}

/* A second run continues from the states that the first one left, of a shared beginning; without
 * their files it leaves new ones where the pages end. */
static void states_stay_on_disk(void **state)
{
    (void)state;
    enum { N = 10 };
    struct record *all = alike(N, 1);
    const struct way u = {.n_seqs = 4, .n_batch = 64, .n_pages = 100, .n_states = 6};
    assert_int_equal(run_stored(u, "a", all, N).n_prompt_tokens, 96 + 4 * N);
    struct sched_stats stats = run_stored(u, "a", all, N);
    assert_int_equal(stats.n_prompt_tokens, 4 * N);
    assert_int_equal(stats.n_stored_tokens, 96);
    spoil("rm", ".state");
    assert_int_equal(run_stored(u, "a", all, 1).n_prompt_tokens, 100);
    assert_int_equal(run_stored(u, "a", all, 1).n_prompt_tokens, 4);
    assert_int_equal(n_store_notes, 0);
    spoil("truncate -s 100", ".state");
    struct prefix_store *s = open_store(&backend_cpu, KV_F16, "a", 0);
    struct way damaged = u;
    damaged.cache = 1;
    damaged.store = s;
    assert_int_equal(run(&damaged, all, N).n_prompt_tokens, 96 + 4 * N);
    prefix_store_close(s);
    assert_int_equal(n_store_notes, 1);
    assert_int_equal(run_stored(u, "a", all, N).n_prompt_tokens, 4 * N);
    free_records(all, N);
}

/* Against a plain array: which slot has which prefix. */
static void slots_keep_what_is_held(void **state)
{
    (void)state;
    enum { SLOTS = 9 };
    struct states s;
    struct err e;
    int refs[SLOTS] = {0}, n_found = 0;
    uint64_t serial[SLOTS] = {0}, next = 1;
    assert_int_equal(states_open(&s, SLOTS, &e), 0);
    random_state = 5;
    for (int k = 0; k < OPERATIONS; k++) {
        int i = below(SLOTS), used = 0;
        for (int j = 0; j < SLOTS; j++) used += refs[j] > 0;
        assert_int_equal(states_n_free(&s), SLOTS - used);
        switch (below(5)) {
        case 0:
            if (used == SLOTS) break;
            i = states_take(&s);
            assert_true(i >= 0 && !refs[i]);
            refs[i] = 1, serial[i] = 0;
            break;
        case 1:
            if (!refs[i] || serial[i]) break;
            states_publish(&s, i, serial[i] = next++);
            break;
        case 2:
            if (!serial[i]) break;
            assert_int_equal(states_find(&s, serial[i]), i);
            states_hold(&s, i);
            refs[i]++, n_found++;
            break;
        default:
            if (!refs[i]) break;
            states_release(&s, i);
            refs[i]--;
        }
    }
    assert_true(n_found > OPERATIONS / 20);
    states_close(&s);
}

static int open_model(void **state)
{
    struct err e;
    if (convert_model(state)) return -1;
    odd_open();
    odd_hooks.after = recur;
    return step_plan_add_state(&model.plan, (struct state){sizeof(struct fake_state), 0}, &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_keep_what_is_held),
        cmocka_unit_test(answers_do_not_depend_on_slots),
        cmocka_unit_test(wrong_slots_are_noticed),
        cmocka_unit_test(snapshots_save_work),
        cmocka_unit_test_setup_teardown(answers_do_not_depend_on_the_disk, make_store_dir,
                                        remove_store_dir),
        cmocka_unit_test_setup_teardown(states_stay_on_disk, make_store_dir, remove_store_dir),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
