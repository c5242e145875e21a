/* unit_forward.c: which rows of results are copied from a device, and that no flag of a row beyond
 * the last is read: a backend that only writes down what it is asked for. */
#include "core/run/forward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { VOCAB = 3, MOST = 12 };

static int copied[MOST], n_copies, n_syncs; /* copied [row]: how often */

static void note_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    (void)be;
    size_t row = (size_t)((const float *)d_src - (const float *)0x1000) / VOCAB;
    assert_int_equal(bytes % (VOCAB * sizeof(float)), 0);
    assert_int_equal(((float *)dst - (float *)0x800000) / VOCAB, row);
    for (size_t i = 0; i < bytes / (VOCAB * sizeof(float)); i++) {
        assert_true(row + i < MOST);
        copied[row + i]++;
    }
    n_copies++;
}

static int note_sync(struct be *be, struct err *e)
{
    (void)be;
    (void)e;
    n_syncs++;
    return 0;
}

/* The flags end where memory ends: reading one more is a fault. */
static uint8_t *flags_before_nothing(int n, char **map)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*map != MAP_FAILED);
    assert_int_equal(munmap(*map + page, page), 0);
    return (uint8_t *)*map + page - n;
}

static void wanted_rows_are_copied_once(void **state)
{
    (void)state;
    const struct backend ops = {.download = note_download, .sync = note_sync};
    struct be be = {&ops};
    struct model model = {.config.vocab = VOCAB};
    void *buffer[] = {(void *)0x1000};
    struct forward f = {.model = &model,
                        .be = &be,
                        .plan.logits = 0,
                        .memory.buffer = buffer,
                        .logits = (float *)0x800000};
    struct err e = {0};
    for (int n = 0; n <= 8; n++)
        for (unsigned set = 0; set < 1u << n; set++) {
            char *map;
            uint8_t *wanted = flags_before_nothing(n, &map);
            int runs = 0;
            memset(copied, 0, sizeof copied);
            n_copies = n_syncs = 0;
            for (int i = 0; i < n; i++) wanted[i] = set >> i & 1;
            for (int i = 0; i < n; i++) runs += wanted[i] && (!i || !wanted[i - 1]);
            assert_int_equal(forward_fetch(&f, wanted, n, &e), 0);
            for (int i = 0; i < MOST; i++) assert_int_equal(copied[i], i < n ? wanted[i] : 0);
            assert_int_equal(n_copies, runs);
            assert_int_equal(n_syncs, runs > 0);
            munmap(map, (size_t)sysconf(_SC_PAGESIZE));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(wanted_rows_are_copied_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
