/* unit_crowd.c: how many threads are used beside made-up neighbours. */
#include "core/base/crowd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A machine: preemptions in a second when n threads run on it. */
struct machine {
    int processors, taken; /* by others that never sleep */
    double each, usual;    /* of a thread too many, of every thread anyway */
};

static double rate(const struct machine *m, int n)
{
    int over = n - (m->processors - m->taken);
    return m->usual * n + m->each * (over > 0 ? over : 0);
}

/* Runs for some seconds; *n threads at the end, the fewest and the most of the last half. */
static void live(struct crowd *c, const struct machine *m, double *now, double seconds, int *n,
                 int *fewest, int *most)
{
    static double preempted;
    double end = *now + seconds, half = *now + seconds / 2;
    *fewest = *most = *n;
    for (; *now < end; *now += 0.01) { /* steps of 10 ms */
        if (*now < half) *fewest = *most = *n;
        preempted += 0.01 * rate(m, *n);
        if (crowd_due(c, *now)) *n = crowd_look(c, *n, m->processors, *now, (long)preempted);
        if (*n < *fewest) *fewest = *n;
        if (*n > *most) *most = *n;
    }
}

static void nobody_is_left_out_alone(void **state)
{
    (void)state;
    static const int processors[] = {1, 2, 16, 64, 192};
    for (int i = 0; i < 5; i++) {
        struct machine m = {.processors = processors[i], .usual = 3.5};
        struct crowd c = {0};
        double now = 100;
        int n = processors[i], fewest, most;
        live(&c, &m, &now, 20, &n, &fewest, &most);
        assert_int_equal(fewest, processors[i]);
    }
}

static void taken_processors_cost_a_thread_each(void **state)
{
    (void)state;
    struct machine m = {.processors = 16, .taken = 2, .each = 1600, .usual = 3};
    struct crowd c = {0};
    double now = 100;
    int n = 16, fewest, most;
    live(&c, &m, &now, 10, &n, &fewest, &most);
    assert_int_equal(fewest, 14);
    assert_int_equal(most, 15); /* one more is tried now and then */
    m.taken = 8;
    live(&c, &m, &now, 10, &n, &fewest, &most);
    assert_int_equal(fewest, 8);
    assert_true(most <= 9);
    m.taken = 0;
    live(&c, &m, &now, 10, &n, &fewest, &most);
    assert_int_equal(fewest, 16);
}

/* Of two threads each does half: nothing that another process does to one costs that much. */
static void a_half_is_not_given_up(void **state)
{
    (void)state;
    struct machine m = {.processors = 2, .taken = 1, .each = 2000, .usual = 3};
    struct crowd c = {0};
    double now = 100;
    int n = 2, fewest, most;
    live(&c, &m, &now, 10, &n, &fewest, &most);
    assert_int_equal(fewest, 2);
}

/* With three of four processors taken, one thread more is tried at most every two seconds. */
static void trying_becomes_rare(void **state)
{
    (void)state;
    struct machine m = {.processors = 4, .taken = 3, .each = 8000, .usual = 3};
    struct crowd c = {0};
    double now = 100, preempted = 0;
    int n = 4, tries = 0, before;
    for (; now < 130; now += 0.01) {
        preempted += 0.01 * rate(&m, n);
        before = n;
        if (crowd_due(&c, now)) n = crowd_look(&c, n, 4, now, (long)preempted);
        tries += now > 110 && n > before;
        assert_true(n >= 1 && n <= 4);
    }
    assert_in_range(tries, 8, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_left_out_alone),
        cmocka_unit_test(taken_processors_cost_a_thread_each),
        cmocka_unit_test(a_half_is_not_given_up),
        cmocka_unit_test(trying_becomes_rare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
