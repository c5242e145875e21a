/* What attention executes on a gfx906 for each key and value element that a row reads, counted by
 * the interpreter: heads of 128 dimensions, a KV split of 256 positions. As a test against limits,
 * and as a table. */
#include "backend-hip/kernels/common/args.h"
#include "tests/emulators/gfx906/test/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 128, HEADS = 4, PAGES = KV_SPLIT / PAGE, ROWS = EXACT_ATTEND_ROWS };

/* valu: vector instructions for each element and row, of a wave's 64 lanes, at most */
static const struct attend_counted {
    const char *name;
    int rows; /* of a block; they see all positions but up to rows - 1 */
    int digits;
    const char *pages; /* int4: all but the last */
    double valu;
} counted[] = {
    {"attend_split_f16", 1, 0, "f16", 3.2},
    {"exact_attend_split_f16", 1, 0, "f16", 3.4},
    {"attend_split_int8", 1, 0, "int8", 3.9},
    {"attend_split_int4", 1, 0, "int4", 6.5},
    {"exact_attend_split_int8", 1, 2, "int8", 2.5},
    {"exact_attend_split_int8", 1, 1, "int8", 2.4},
    {"exact_attend_split_int8", 1, 2, "int4", 5.7},
    {"exact_attend_split_int8", 1, 1, "int4", 5.5},
    {"exact_attend_rows_f16", ROWS, 0, "f16", 1.7},
    {"exact_attend_rows_int8", ROWS, 2, "int8", 1.3},
    {"exact_attend_rows_int4", ROWS, 2, "int4", 1.85},
};

/* Device memory of zeros; NULL: there is none. */
static void *zeros(size_t bytes)
{
    void *d = NULL, *p = calloc(1, bytes);
    if (p && (gpu.alloc(&d, bytes) || gpu.to_device(d, p, bytes))) d = NULL;
    free(p);
    return d;
}

static int count(void *module, const struct attend_counted *k, struct gfx906_stats *s)
{
    const int packed = !strcmp(k->pages, "int4");
    int pos[ROWS], table[PAGES], tiles[TILE_GROUPS][2] = {{0, ROWS}, {0, 0}};
    for (int i = 0; i < ROWS; i++) pos[i] = k->rows == 1 ? KV_SPLIT - 1 : KV_SPLIT - ROWS + i;
    for (int i = 0; i < PAGES; i++) table[i] = i;
    struct attend_kernel_args a = {.q = zeros(ROWS * HEADS * DIMS * 4),
                                   .pages = zeros((size_t)HEADS * PAGES * 2 * PAGE * DIMS * 2),
                                   .out = zeros(ROWS * HEADS * DIMS * 4),
                                   .pos = zeros(sizeof pos),
                                   .seq = zeros(ROWS * 4),
                                   .table = zeros(sizeof table),
                                   .tiles = zeros(sizeof tiles),
                                   .open = {.seats = zeros(HEADS * INT8_PAGE(DIMS)),
                                            .own = packed ? zeros(sizeof pos) : NULL},
                                   .parts = zeros(HEADS * (DIMS + 8) * 4),
                                   .scale = 1,
                                   .table_stride = PAGES,
                                   .n_heads = HEADS,
                                   .n_kv_heads = HEADS,
                                   .head_dim = DIMS,
                                   .n_splits = 1,
                                   .digits = k->digits};
    size_t bytes = sizeof a;
    /* of int4 a tile begins at a multiple of its rows: the last of its blocks has these */
    unsigned blocks = packed && k->rows > 1 ? GROUP_ROWS / (unsigned)k->rows : 1;
    void *f, *extra[] = {(void *)1, &a, (void *)2, &bytes, (void *)3};
    if (!a.q || !a.pages || !a.out || !a.pos || !a.seq || !a.table || !a.tiles || !a.parts ||
        !a.open.seats || (packed && !a.open.own) ||
        gpu.to_device((void *)a.pos, pos, sizeof pos) ||
        gpu.to_device((void *)a.table, table, sizeof table) ||
        gpu.to_device((void *)a.tiles, tiles, sizeof tiles))
        return -1;
    gpu.stats_reset();
    return gpu.function(&f, module, k->name) ||
           gpu.launch(f, k->rows > 1 ? HEADS : blocks, k->rows > 1 ? blocks : HEADS, 1, THREADS,
                      1, 1, 0, NULL, NULL, extra) ||
           gpu.sync() || gpu.stats(k->name, s);
}

static double per_element(const struct attend_counted *k, uint64_t n)
{
    return (double)n * 64 / ((double)HEADS * KV_SPLIT * 2 * DIMS * k->rows);
}

/* show: also prints a table. */
void test_attend_counts(const char *build_dir, int show)
{
    void *module = gfx906_module(build_dir);
    if (!module) {
        skip("counts of attention: no code object for gfx906 in this build");
        return;
    }
    if (show) printf("kernel\tdigits\tpages\tvalu\tlds\tvmem\tvgprs\tlds_size\n");
    for (int i = 0; i < COUNT(counted); i++) {
        const struct attend_counted *k = &counted[i];
        struct gfx906_stats s;
        if (count(module, k, &s)) {
            check(0, "%s: %s", k->name, gpu.last_fault());
            continue;
        }
        double valu = per_element(k, s.valu);
        check(valu <= k->valu && valu > k->valu / 2,
              "%s: %.3f vector instructions an element and row, at most %.2f, more than half",
              k->name, valu, k->valu);
        if (show)
            printf("%s\t%d\t%s\t%.3f\t%.3f\t%.3f\t%u\t%u\n", k->name, k->digits,
                   k->pages, valu, per_element(k, s.lds), per_element(k, s.vmem), s.vgprs,
                   s.lds_size);
    }
    gpu.unload(module);
}
