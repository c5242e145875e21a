/* unit_hip_splits.c: every position that a row sees is computed by one block: lists of KV splits of
 * decode rows and tiles of prompt rows of random batches, their sizes and their order. */
#include "backend-hip/hip_latent.h"
#include "backend-hip/hip_splits.h"
#include "bench/batches.h"
#include "core/step/kv_open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEQS = 24, PAGES = 256, ROWS = 4096, BATCHES = 200, NO_WORK = 0xffff };

static struct hip h;
static struct batch b;
static int32_t memory[4 * ROWS + SEQS * (PAGES + 16)], table[SEQS * PAGES];
static int32_t list[SEQS * PAGES * 2], tile[ROWS];
static int multiprocessors;

int __wrap_hip_stream_multiprocessors(const struct hip_stream *s);
int __wrap_hip_stream_multiprocessors(const struct hip_stream *s)
{
    (void)s;
    return multiprocessors;
}

static int below(int n) { return n ? rand() % n : 0; }

/* n_decode sequences with `each` rows, the others prompts. Positions: short, or up to the end. */
static void make(int n, int n_decode, int each, int positions)
{
    const struct page_map map = {SEQS * PAGES, PAGES, table};
    struct span spans[SEQS];
    int left = ROWS;
    for (int i = 0; i < n; i++) {
        int rows = i < n_decode ? each : 1 + below(left / (n - i) - 1);
        spans[i] = (struct span){i, below(below(4) ? positions : KV_SPLIT), rows};
        left -= rows;
    }
    memset(&b, 0, sizeof b);
    batch_place(&b, memory, ROWS, SEQS, 1, PAGES);
    batch_set(&b, &map, spans, n, n_decode * each);
    h.shape.n_splits = hip_kv_splits(&b);
    h.shape.single_rows = hip_single_rows(&b);
}

static void open_device(size_t split_floats, enum kv_type kv)
{
    memset(&h, 0, sizeof h);
    h.config = (struct be_config){.max_rows = ROWS, .max_pages = PAGES, .max_seqs = SEQS, .kv = kv};
    h.split_floats = split_floats;
    h.most_heads = 4;
}

/* Pages that a split of a row has. */
static int pages_of(int pos, int split)
{
    int rest = pos + 1 - split * KV_SPLIT;
    return kv_pages(rest < KV_SPLIT ? rest : KV_SPLIT);
}

/* One launch of rows row .. end - 1: each split of each row once, long ones first. */
static void check_launch(const int32_t *work, int blocks, int row, int end)
{
    static uint8_t seen[SEQS * 4][PAGES * KV_PAGE / KV_SPLIT];
    int want = 0, n = 0, before = KV_SPLIT / KV_PAGE;
    memset(seen, 0, sizeof seen);
    for (int i = row; i < end; i++) want += b.pos[i] / KV_SPLIT + 1;
    for (; n < blocks && work[n] != NO_WORK; n++) {
        int i = row + (work[n] >> 16), split = work[n] & 0xffff;
        assert_true(i < end && split * KV_SPLIT <= b.pos[i] && !seen[i - row][split]++);
        assert_true(pages_of(b.pos[i], split) <= before);
        before = pages_of(b.pos[i], split);
    }
    assert_int_equal(n, want);
    for (; n < blocks; n++) assert_int_equal(work[n], NO_WORK);
}

/* The least number of three binary digits and zeros that is not below n: four an octave. */
static int rounded(int n)
{
    for (; n / (n & -n) >= 8; n++) {
    }
    return n;
}

static int check_work(void)
{
    memset(list, 0xa5, sizeof list);
    int at_once = hip_rows_at_once(&h), n = hip_fill_work(&h, &b, list), most = 0;
    int launches = (b.n_decode + at_once - 1) / at_once, blocks = h.shape.work_blocks;
    for (int row = 0; row < b.n_decode; row += at_once) {
        int sum = 0;
        for (int i = row; i < b.n_decode && i < row + at_once; i++) sum += b.pos[i] / KV_SPLIT + 1;
        if (sum > most) most = sum;
    }
    assert_int_equal(n, launches * blocks);
    assert_int_equal(list[n], (int32_t)0xa5a5a5a5); /* nothing behind it */
    if (!n) { /* too few rows, or more than seven eighths of the grid */
        assert_true(b.n_decode < 8 || !h.shape.single_rows ||
                    8 * launches * rounded(most) > 7 * b.n_decode * h.shape.n_splits);
        assert_null(hip_row_work(&h, 0));
        return 0;
    }
    assert_true(b.n_decode >= 8 && 8 * n <= 7 * b.n_decode * h.shape.n_splits);
    assert_true(blocks >= most && 2 * blocks <= 3 * most);
    if (h.shape.single_rows) assert_int_equal(blocks, rounded(most));
    h.shape.d_work = list;
    for (int row = 0; row < b.n_decode; row += at_once)
        check_launch(hip_row_work(&h, (size_t)row), blocks, row,
                     row + at_once < b.n_decode ? row + at_once : b.n_decode);
    return 1;
}

static void splits_are_listed_once(void **state)
{
    int n_lists = 0, n_launches = 0;
    (void)state;
    srand(1);
    for (int i = 0; i < BATCHES; i++) {
        /* of few floats all rows fit at once, of many only some */
        open_device(i % 2 ? 272 : 1 << 18, KV_F16);
        int n = 1 + below(SEQS), each = 1 + (i % 8 == 7) * 2;
        make(n, n, each, i % 4 < 2 ? PAGES * KV_PAGE - 8 : KV_SPLIT);
        assert_int_equal(h.shape.single_rows, each == 1);
        int longest = 0;
        for (int r = 0; r < b.n_decode; r++)
            if (b.pos[r] / KV_SPLIT + 1 > longest) longest = b.pos[r] / KV_SPLIT + 1;
        assert_true(h.shape.n_splits >= longest && h.shape.n_splits <= 2 * longest - 1);
        assert_true(h.shape.n_splits <= hip_max_splits(&h.config));
        size_t row = h.split_floats * (size_t)h.shape.n_splits;
        assert_true((size_t)hip_rows_at_once(&h) * row <=
                    hip_part_floats(&h.config, h.split_floats));
        n_launches += hip_rows_at_once(&h) < b.n_decode;
        n_lists += check_work();
    }
    assert_true(n_lists > BATCHES / 10 && n_lists < BATCHES * 3 / 4 && n_launches > BATCHES / 10);
}

/* Room for at least one row, for at most 1,024, for 128 MiB otherwise. */
static void parts_have_bounds(void **state)
{
    struct be_config c = {.max_rows = 2000, .max_pages = PAGES};
    size_t splits = (size_t)hip_max_splits(&c), mib = 1 << 18; /* floats */
    (void)state;
    assert_int_equal(splits, PAGES * KV_PAGE / KV_SPLIT);
    assert_int_equal(hip_part_floats(&c, 16), 1024 * 16 * splits);
    c.max_rows = 100;
    assert_int_equal(hip_part_floats(&c, 16), 100 * 16 * splits);
    assert_int_equal(hip_part_floats(&c, mib / 4), 32 * splits * mib / 4);
    assert_int_equal(hip_part_floats(&c, 64 * mib), 64 * splits * mib);
    assert_int_equal(hip_part_floats(&c, 0), 0);
    assert_int_equal(hip_split_floats(&(struct heads){.n_heads = 3, .head_dim = 60}), 3 * 72);
    open_device(0, KV_F16);
    assert_int_equal(hip_rows_at_once(&h), ROWS);
}

/* Every prompt row is in one half of a tile, whose rows are of one sequence; 4 bits: halves end at
 * multiples of GROUP_ROWS positions. */
static void check_rows(int n)
{
    static uint8_t seen[ROWS];
    int skips = kv_has_open(h.config.kv);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 2 * n; i++) {
        int row = tile[2 * i], rows = tile[2 * i + 1];
        assert_true(rows >= 0 && rows <= GROUP_ROWS);
        if (i % 2) assert_true(rows || tile[2 * i - 1]);
        assert_int_equal(b.seq[row], b.seq[tile[4 * (i / 2)]]);
        for (int r = row; r < row + rows; r++) {
            assert_true(r >= b.n_decode && r < b.n_rows && b.seq[r] == b.seq[row]);
            assert_int_equal(seen[r]++, 0);
        }
        if (skips && rows)
            assert_int_equal(b.pos[row] / GROUP_ROWS, b.pos[row + rows - 1] / GROUP_ROWS);
    }
    for (int r = b.n_decode; r < b.n_rows; r++) assert_int_equal(seen[r], 1);
}

/* Where all run at once, the halves of a sequence's tiles lie as far from its begin as from its
 * end; else they are neighbours. */
static void check_pairs(int n, int at_once)
{
    for (int i = 0; i < n; i++) {
        const int32_t *t = tile + 4 * i;
        int from = b.seq_start[b.seq[t[0]]], end = b.seq_start[b.seq[t[0]] + 1];
        int skip = kv_has_open(h.config.kv) ? b.pos[from] % GROUP_ROWS : 0;
        int groups = (end - from + skip + GROUP_ROWS - 1) / GROUP_ROWS;
        int late = (t[0] - from + skip) / GROUP_ROWS, early = (t[2] - from + skip) / GROUP_ROWS;
        if (i) assert_true(b.pos[t[0]] <= b.pos[t[-4]]);
        if (t[1] && t[3])
            assert_int_equal(at_once ? late + early : late - early, at_once ? groups - 1 : 1);
        else if (at_once) assert_true(t[1] && 2 * late + 1 == groups);
        else assert_true(t[3] && early == groups - 1 && early % 2 == 0);
    }
}

static void prompts_are_tiled_once(void **state)
{
    int n_at_once = 0;
    (void)state;
    srand(2);
    for (int i = 0; i < BATCHES; i++) {
        open_device(272, i % 2 ? KV_INT4 : KV_F16);
        int seqs = 1 + below(SEQS), want = 0, positions = 0;
        make(seqs, below(seqs), 1, 64);
        assert_true(h.shape.single_rows);
        for (int s = 0; s < seqs; s++) {
            int from = b.seq_start[s], rows = b.seq_start[s + 1] - from;
            int skip = i % 2 ? b.pos[from] % GROUP_ROWS : 0;
            if (from < b.n_decode) continue;
            want += ((rows + skip + GROUP_ROWS - 1) / GROUP_ROWS + 1) / 2;
            positions += b.pos[from + rows - 1] + 1;
        }
        /* just enough, just too few */
        multiprocessors = want * h.most_heads - (i / 2 % 2);
        int n = hip_fill_tiles(&h, &b, tile);
        assert_int_equal(n, want);
        assert_true(4 * (size_t)n <= hip_most_tiles(b.n_rows, seqs));
        int p = h.shape.prompt_positions;
        assert_true(p >= positions && (p & (p - 1)) == 0 && (p == 1 || p / 2 < positions));
        check_rows(n);
        check_pairs(n, i / 2 % 2 == 0);
        n_at_once += i / 2 % 2 == 0 && n > seqs;
    }
    assert_true(n_at_once > BATCHES / 10);
}

/* Blocks of eight query heads of a KV head: of rows and splits, or of a list. */
static void grids_have_all_heads(void **state)
{
    (void)state;
    open_device(272, KV_F16);
    h.shape.n_splits = 3;
    const struct heads wide = {.n_heads = 36, .n_kv_heads = 4},
                       one = {.n_heads = 4, .n_kv_heads = 4};
    struct hip_blocks g = hip_pages_grid(&h, &wide, 5);
    assert_true(g.x == 8 && g.y == 5 && g.z == 3 && !g.shared);
    h.shape.work_blocks = 7;
    g = hip_pages_grid(&h, &one, 5);
    assert_true(g.x == 4 && g.y == 7 && g.z == 1);
}

static void latent_heads_have_bounds(void **state)
{
    static const struct {
        int dim, value, right;
    } of[] = {{LATENT_DIMS, LATENT_VALUE, 1},
              {LATENT_DIMS + 1, LATENT_VALUE, 0},
              {576, LATENT_VALUE + 16, 0},
              {576, 512, 1},
              {96, 40, 0},
              {24, 16, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const struct heads g = {.head_dim = of[i].dim, .value_dim = of[i].value};
        struct err e = {.msg = ""};
        assert_int_equal(hip_check_latent(&g, &e), of[i].right ? 0 : -1);
        assert_true(of[i].right || strstr(e.msg, "multiples of 16 up to 512"));
    }
    struct err e;
    hip_check_latent(&(struct heads){.head_dim = 700, .value_dim = 512}, &e);
    assert_non_null(strstr(e.msg, "latents of 512 and 188 elements"));
    const struct kv_cache kv = {.n_kv_heads = 1, .head_dim = 40, .value_dim = 32};
    assert_int_equal(hip_latent_page_bytes(KV_F16, &kv), KV_PAGE * 48 * 2);
    assert_int_equal(hip_latent_page_bytes(KV_F32, &kv), KV_PAGE * 48 * 4);
    assert_int_equal(hip_latent_page_bytes(KV_INT8, &kv), LATENT8_PAGE(40));
    assert_int_equal(hip_latent_page_bytes(KV_INT4, &kv), LATENT4_PAGE(40));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_listed_once),   cmocka_unit_test(parts_have_bounds),
        cmocka_unit_test(prompts_are_tiled_once),   cmocka_unit_test(grids_have_all_heads),
        cmocka_unit_test(latent_heads_have_bounds),
    };
    for (int i = 0; i < SEQS * PAGES; i++) table[i] = i;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
