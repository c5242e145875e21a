/* unit_sched_store.c: the scheduler with prompts on disk: the same answers whatever the disk has,
 * over all kinds of pages, runs and sizes; on a backend with phases; on one whose copies arrive
 * late. Pages of another arithmetic under the same name must be noticed. */
#include "tests/unit/sched_device.h"
#include "tests/unit/sched_model.h"
#include "tests/unit/sched_runs.h"
#include "tests/unit/sched_store_dir.h"

#ifdef __SANITIZE_ADDRESS__
enum { WAYS = 4 };
#else
enum { WAYS = 16 };
#endif

static struct sched_stats run_stored(struct setup u, const char *depends, uint64_t most,
                                     struct record *all, int n)
{
    u.store = open_store(&backend_cpu, u.kv, depends, most);
    u.cache = 1;
    struct sched_stats stats = run(&u, all, n);
    assert_int_equal(prefix_store_stats(u.store).n_damaged, 0);
    prefix_store_close(u.store);
    return stats;
}

static struct setup way(int i, enum kv_type kv)
{
    static const int seqs[] = {1, 2, 7, 64}, batch[] = {1, 3, 16, 512}, pages[] = {13, 14, 20, 400};
    return (struct setup){.n_seqs = seqs[(i + i / 4) % 4],
                          .n_batch = batch[i % 4],
                          .n_pages = pages[i / 4 % 4],
                          .threads = 1 + (i % 5 == 1),
                          .shuffle = i / 2 % 2,
                          .max_logits = i % 3 ? 64 : 1 + i % 5,
                          .kv = kv,
                          .overlap = (i + i / 8) % 2,
                          .gather = i / 5 % 3};
}

static void over_all_ways(enum kv_type kv)
{
    enum { N = 12 };
    struct record *all = random_records(N, 1);
    uint64_t *want = run_plain_kv(kv, NULL, all, N), n_stored = 0, n_preemptions = 0;
    char depends[16];
    for (int i = 0; i < WAYS; i++) {
        const struct setup u = way(i, kv);
        /* every fourth begins with nothing; some have room for little */
        snprintf(depends, sizeof depends, "%d %d", (int)kv, i / 4);
        struct sched_stats stats = run_stored(u, depends, i % 4 == 2 ? 200000 : 0, all, N);
        expect_same(&u, all, N, want);
        n_stored += stats.n_stored_tokens;
        n_preemptions += stats.n_preemptions;
        assert_true(stats.n_cached_tokens >= stats.n_stored_tokens);
    }
    printf("# %d ways: %d tokens from disk, %d preemptions\n", WAYS, (int)n_stored,
           (int)n_preemptions);
    assert_true(n_stored > 50 * WAYS && n_preemptions > WAYS / 8);
    assert_int_equal(n_store_notes, 0);
    free(want);
    free_records(all, N);
}

static void answers_are_the_same(void **state)
{
    (void)state;
    over_all_ways(KV_F16);
}

static void those_of_packed_pages_too(void **state)
{
    (void)state;
    over_all_ways(KV_INT4);
}

static void nothing_is_computed_twice(void **state)
{
    (void)state;
    enum { N = 6 };
    struct record *all = random_records(N, 3);
    struct setup u = plain;
    uint64_t n_pages = 0, n_tokens = 0;
    for (int i = 0; i < N; i++) {
        struct request *r = &all[i].request;
        for (int k = 0; k < 120; k++) all[i].prompt[k] = k < 96 ? k + 7 : 3 + (k * i) % 300;
        r->n_prompt = 100 + i;
        r->max_tokens = 3;
        r->n_choices = 1;
        r->prompt_top = -1;
        n_tokens += 100 + (uint64_t)i - 96;
    }
    n_pages = 6;
    assert_int_equal(run_stored(u, "a", 0, all, N).n_stored_tokens, 0);
    struct sched_stats stats = run_stored(u, "a", 0, all, N);
    assert_int_equal(stats.n_stored_tokens, n_pages * KV_PAGE);
    assert_int_equal(stats.n_prompt_tokens, n_tokens);
    assert_int_equal(run_stored(u, "b", 0, all, N).n_stored_tokens, 0); /* of another model */
    free_records(all, N);
}

/* A test of the tests: what is read from disk does decide. */
static void pages_of_another_arithmetic_would_be_noticed(void **state)
{
    (void)state;
    enum { N = 14 };
    struct record *all = random_records(N, 2);
    struct setup u = plain;
    uint64_t *cpu = run_plain(NULL, all, N);
    odd_open();
    odd_hooks.after = linear_by_phase;
    u.ops = &odd;
    run_stored(u, "cpu", 0, all, N);
    u.ops = NULL;
    assert_true(run_stored(u, "cpu", 0, all, N).n_stored_tokens > 0);
    assert_true(n_different(all, N, cpu) > 0);
    assert_int_equal(run_stored(u, "another", 0, all, N).n_stored_tokens, 0);
    assert_int_equal(n_different(all, N, cpu), 0);
    free(cpu);
    free_records(all, N);
}

static void tokens_keep_their_phase(void **state)
{
    (void)state;
    enum { N = 14 };
    struct record *all = random_records(N, 2);
    odd_open();
    odd_hooks.after = linear_by_phase;
    uint64_t *want = run_plain(&odd, all, N), n_stored = 0;
    for (int i = 0; i < WAYS; i++) {
        struct setup u = way(i, KV_F16);
        u.ops = &odd;
        n_stored += run_stored(u, i / 4 % 2 ? "odd" : "even", 0, all, N).n_stored_tokens;
        expect_same(&u, all, N, want);
    }
    assert_true(n_stored > 50 * WAYS);
    free(want);
    free_records(all, N);
}

/* ---- copies that arrive late, as those of a device do */

enum { COPIES = 4096 };
static struct copy {
    void *to, *data;
    size_t bytes;
    unsigned step; /* complete when so many steps were waited for */
} copies[COPIES];
static int n_copies, n_late;
static unsigned steps_begun, steps_waited;
static char *late_view;
static size_t late_bytes;

static void *view_late(struct be *be, void *d, size_t bytes)
{
    if (d) return backend_cpu.view(be, d, bytes);
    late_bytes = bytes;
    return late_view = malloc(bytes);
}

static void drop_view_late(struct be *be, void *view)
{
    if (view != late_view) backend_cpu.drop_view(be, view);
    else free(view), late_view = NULL;
}

static void download_late(struct be *be, void *dst, const void *src, size_t bytes)
{
    if ((char *)dst < late_view || (char *)dst >= late_view + late_bytes) {
        backend_cpu.download(be, dst, src, bytes);
        return;
    }
    assert_true(n_copies < COPIES);
    struct copy *c = &copies[n_copies++];
    in_step = 0;
    *c = (struct copy){dst, malloc(bytes), bytes, steps_begun + 1};
    memcpy(c->data, src, bytes); /* as it is now: the steps that have begun are computed */
    memset(dst, 0x5a, bytes);
    n_late++;
}

static void arrive(int all)
{
    int left = 0;
    for (int i = 0; i < n_copies; i++) {
        struct copy *c = &copies[i];
        if (!all && (int)(steps_waited - c->step) < 0) {
            copies[left++] = *c;
            continue;
        }
        memcpy(c->to, c->data, c->bytes);
        free(c->data);
    }
    n_copies = left;
}

static void begin_late(struct be *be, const struct batch *b)
{
    steps_begun++;
    odd_begin_step(be, b);
}

static int wait_late(struct be *be, struct err *e)
{
    steps_waited++;
    arrive(0);
    return backend_cpu.wait_step(be, e);
}

static int sync_late(struct be *be, struct err *e)
{
    arrive(1);
    return backend_cpu.sync(be, e);
}

static void late_copies_are_waited_for(void **state)
{
    (void)state;
    enum { N = 12 };
    struct record *all = random_records(N, 1);
    uint64_t *want = run_plain_kv(KV_INT8, NULL, all, N), n_stored = 0;
    odd_open();
    odd.asynchronous = 1;
    odd.begin_step = begin_late;
    odd.wait_step = wait_late;
    odd.sync = sync_late;
    odd.view = view_late;
    odd.drop_view = drop_view_late;
    odd.download = download_late;
    for (int i = 0; i < WAYS; i++) {
        struct setup u = way(i, KV_INT8);
        char depends[16];
        u.ops = &odd;
        u.overlap = i % 4 != 3;
        snprintf(depends, sizeof depends, "%d", i / 2);
        steps_begun = steps_waited = 0;
        n_stored += run_stored(u, depends, 0, all, N).n_stored_tokens;
        expect_same(&u, all, N, want);
        assert_int_equal(n_copies, 0);
    }
    printf("# %d copies, %d tokens from disk\n", n_late, (int)n_stored);
    assert_true(n_stored > 30 * WAYS && n_late > 6 * WAYS);
    free(want);
    free_records(all, N);
}

int main(void)
{
#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_store_dir, remove_store_dir)
    const struct CMUnitTest tests[] = {
        IN_DIR(answers_are_the_same),      IN_DIR(those_of_packed_pages_too),
        IN_DIR(nothing_is_computed_twice), IN_DIR(pages_of_another_arithmetic_would_be_noticed),
        IN_DIR(tokens_keep_their_phase),   IN_DIR(late_copies_are_waited_for),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
