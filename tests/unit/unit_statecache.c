/* unit_statecache.c: slots of recurrent states: what is taken first, what is found again. */
#include "core/sched/statecache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SLOTS = 5 };

/* All slots, each once; then none. */
static void take_all(struct states *s, int32_t *slot, int n)
{
    int seen[SLOTS] = {0};
    for (int i = 0; i < n; i++) {
        slot[i] = states_take(s);
        assert_true(slot[i] >= 0 && slot[i] < SLOTS && !seen[slot[i]]++);
    }
}

static void slots_are_taken_in_order(void **state)
{
    (void)state;
    struct states s;
    struct err e;
    int32_t slot[SLOTS], again[SLOTS];
    assert_int_equal(states_open(&s, SLOTS, &e), 0);
    assert_int_equal(states_n_free(&s), SLOTS);
    take_all(&s, slot, SLOTS);
    assert_int_equal(states_take(&s), -1);
    assert_int_equal(states_n_free(&s), 0);
    states_publish(&s, slot[0], 10);
    states_publish(&s, slot[1], 11);
    states_publish(&s, slot[2], 11); /* is known: the slot stays without */
    assert_int_equal(states_find(&s, 11), slot[1]);
    for (int i = 0; i < SLOTS; i++) states_release(&s, slot[i]);
    assert_int_equal(states_n_free(&s), SLOTS);
    /* first those without a snapshot, the last one released ahead; then the oldest snapshot */
    take_all(&s, again, SLOTS - 1);
    assert_int_equal(again[0], slot[4]);
    assert_int_equal(again[1], slot[3]);
    assert_int_equal(again[2], slot[2]);
    assert_int_equal(again[3], slot[0]);
    assert_int_equal(states_find(&s, 10), -1);
    assert_int_equal(states_find(&s, 11), slot[1]);
    states_close(&s);
}

static void held_slots_are_kept(void **state)
{
    (void)state;
    struct states s;
    struct err e;
    int32_t slot[SLOTS];
    assert_int_equal(states_open(&s, SLOTS, &e), 0);
    take_all(&s, slot, SLOTS);
    states_publish(&s, slot[3], 7);
    states_hold(&s, slot[3]);
    states_release(&s, slot[3]);
    assert_int_equal(states_n_free(&s), 0); /* one user is left */
    assert_int_equal(states_take(&s), -1);
    states_release(&s, slot[3]);
    assert_int_equal(states_n_free(&s), 1);
    states_hold(&s, slot[3]); /* out of the free ones */
    assert_int_equal(states_n_free(&s), 0);
    assert_int_equal(states_take(&s), -1);
    assert_int_equal(states_find(&s, 7), slot[3]);
    states_release(&s, slot[3]);
    assert_int_equal(states_take(&s), slot[3]);
    assert_int_equal(states_find(&s, 7), -1);
    states_close(&s);
}

/* Many serial numbers in few buckets. */
static void snapshots_share_buckets(void **state)
{
    (void)state;
    struct states s;
    struct err e;
    int32_t slot[SLOTS];
    assert_int_equal(states_open(&s, SLOTS, &e), 0);
    for (uint64_t round = 0; round < 200; round++) {
        take_all(&s, slot, SLOTS);
        for (int i = 0; i < SLOTS; i++)
            states_publish(&s, slot[i], 1 + round * SLOTS + (unsigned)i);
        for (int i = 0; i < SLOTS; i++)
            assert_int_equal(states_find(&s, 1 + round * SLOTS + (unsigned)i), slot[i]);
        for (int i = 0; round && i < SLOTS; i++)
            assert_int_equal(states_find(&s, 1 + (round - 1) * SLOTS + (unsigned)i), -1);
        for (int i = 0; i < SLOTS; i++) states_release(&s, slot[(i * 3 + (int)round) % SLOTS]);
    }
    states_close(&s);
}

static void no_slots(void **state)
{
    (void)state;
    struct states s;
    struct err e;
    assert_int_equal(states_open(&s, 0, &e), 0);
    assert_int_equal(states_take(&s), -1);
    assert_int_equal(states_find(&s, 1), -1);
    assert_int_equal(states_n_free(&s), 0);
    states_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_taken_in_order), cmocka_unit_test(held_slots_are_kept),
        cmocka_unit_test(snapshots_share_buckets), cmocka_unit_test(no_slots)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
