/* unit_kvcache.c: ownership of pages, prefix lookup, and the order of reuse. */
#include "core/sched/kvcache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void pages_are_found_by_their_tokens_only(void **state)
{
    (void)state;
    enum { N = 64 };
    struct kv kv;
    struct err e;
    int32_t token[N][KV_PAGE], page[N];
    assert_int_equal(kv_open(&kv, N, &e), 0);
    kv.n_buckets = 1; /* everything collides */
    uint64_t random = 8;
    uint64_t parent[N], serial[N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < KV_PAGE; j++) token[i][j] = j == i % KV_PAGE ? i : 5;
        random = random * 6364136223846793005u + 1442695040888963407u;
        parent[i] = i ? serial[(random >> 33) % (uint64_t)i] : 0;
        page[i] = kv_take(&kv);
        serial[i] = kv_publish(&kv, page[i], parent[i], token[i]);
    }
    assert_int_equal(kv_take(&kv), -1);
    for (int i = 0; i < N; i++) {
        assert_int_equal(kv_find(&kv, parent[i], token[i]), page[i]);
        assert_int_equal(kv_find(&kv, kv_root(&kv), token[i]), -1);
        token[i][15] ^= 1;
        assert_int_equal(kv_find(&kv, parent[i], token[i]), -1);
        token[i][15] ^= 1;
        kv_release(&kv, page[i]);
    }
    assert_int_equal(kv_n_free(&kv), 0);
    /* the least recently used page is reused first and is not found any more; its child is not
     * found under a page that took its place */
    for (int i = 0; i < N; i++) kv_release(&kv, page[i]);
    assert_int_equal(kv_find(&kv, parent[0], token[0]), page[0]);
    kv_release(&kv, page[0]);
    assert_int_equal(kv_take(&kv), page[1]);
    assert_int_equal(kv_find(&kv, parent[1], token[1]), -1);
    uint64_t again = kv_publish(&kv, page[1], parent[1], token[1]);
    assert_true(again != serial[1]);
    for (int i = 2; i < N; i++)
        if (parent[i] == serial[1]) assert_int_equal(kv_find(&kv, again, token[i]), -1);
    /* unpublished pages are reused before all published ones */
    assert_int_equal(kv_take(&kv), page[2]);
    kv_release(&kv, page[2]);
    assert_int_equal(kv_take(&kv), page[2]);
    /* the first publication keeps its serial */
    assert_true(kv_publish(&kv, page[2], parent[3], token[3]) == serial[3]);
    kv_close(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pages_are_found_by_their_tokens_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
