/* hip_splits.c: the KV range of a decode row is split over blocks (flash-decoding, Dao et al.
 * 2023), whose results the next launch combines; prompt rows attend in tiles. */
#include "backend-hip/hip_splits.h"

#include "core/step/kv_open.h"

#include <string.h>

int hip_round_up(int n, int per_octave)
{
    int step = 1;
    while (2 * per_octave * step <= n) step *= 2;
    return (n + step - 1) / step * step;
}

static int n_kv_splits(int positions)
{
    int n = (positions + KV_SPLIT - 1) / KV_SPLIT;
    return hip_round_up(n > 1 ? n : 1, 2);
}

int hip_max_splits(const struct be_config *c) { return n_kv_splits(c->max_pages * PAGE); }

size_t hip_split_floats(const struct heads *g)
{
    return (size_t)g->n_heads * (size_t)((g->head_dim + 7) / 8 * 8 + 8);
}

/* Room for the partial results of 1,024 decode rows of the maximal length, in at most 128 MiB
 * unless one row takes more. */
size_t hip_part_floats(const struct be_config *c, size_t split_floats)
{
    size_t row = split_floats * (size_t)hip_max_splits(c);
    size_t n = c->max_rows < 1024 ? (size_t)c->max_rows : 1024;
    size_t fit = row ? ((size_t)32 << 20) / row : n;
    return (fit < 1 ? 1 : fit < n ? fit : n) * row;
}

int hip_kv_splits(const struct batch *b)
{
    int longest = 0;
    for (int i = 0; i < b->n_decode; i++)
        if (b->pos[i] >= longest) longest = b->pos[i] + 1;
    return n_kv_splits(longest);
}

/* Decode rows whose partial results fit into d_parts together. */
int hip_rows_at_once(const struct hip *h)
{
    size_t row = h->split_floats * (size_t)h->shape.n_splits;
    return row ? (int)(hip_part_floats(&h->config, h->split_floats) / row) : h->config.max_rows;
}

/* below so many decode rows there is no work list; an entry without work */
enum { LISTED_ROWS = 8, NO_WORK = 0xffff };

/* Lists the KV splits of decode rows row .. end - 1 by falling number of positions, so that the
 * last blocks to start are short. work [n]: (row - first row) << 16 | split. Returns n. */
static int list_splits(const struct batch *b, int row, int end, int32_t *work)
{
    enum { PAGES = KV_SPLIT / PAGE };
    int n_of[PAGES] = {0}, at[PAGES], n = 0; /* by the number of pages that a split lacks */
    for (int i = row; i < end; i++) {
        n_of[0] += b->pos[i] / KV_SPLIT;
        n_of[PAGES - 1 - b->pos[i] % KV_SPLIT / PAGE]++;
    }
    for (int i = 0; i < PAGES; n += n_of[i++]) at[i] = n;
    for (int i = row; i < end; i++) {
        int last = b->pos[i] / KV_SPLIT;
        for (int j = 0; j < last; j++) work[at[0]++] = (i - row) << 16 | j;
        work[at[PAGES - 1 - b->pos[i] % KV_SPLIT / PAGE]++] = (i - row) << 16 | last;
    }
    return n;
}

/* A grid of rows x splits is mostly empty where a few sequences are much longer than the others; a
 * list of the splits that exist replaces it. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work)
{
    int at_once = hip_rows_at_once(h), launches = 0, max_blocks = 0;
    h->shape.work_blocks = 0;
    for (int row = 0; row < b->n_decode; row += at_once, launches++) {
        int n = 0;
        for (int i = row; i < b->n_decode && i < row + at_once; i++) n += b->pos[i] / KV_SPLIT + 1;
        if (n > max_blocks) max_blocks = n;
    }
    max_blocks = hip_round_up(max_blocks, h->shape.single_rows ? 4 : 2);
    if (b->n_decode < LISTED_ROWS || b->n_decode >= 1 << 15 || max_blocks >= 1 << 16) return 0;
    if (8 * (size_t)launches * (size_t)max_blocks >
        7 * (size_t)b->n_decode * (size_t)h->shape.n_splits)
        return 0;
    for (int row = 0, k = 0; row < b->n_decode; row += at_once, k++) {
        int end = b->n_decode - row < at_once ? b->n_decode : row + at_once;
        for (int n = list_splits(b, row, end, work + k * max_blocks); n < max_blocks; n++)
            work[k * max_blocks + n] = NO_WORK;
    }
    h->shape.work_blocks = max_blocks;
    return launches * max_blocks;
}

/* A sequence's prompt rows, row begin .. end - 1, and how many groups they are. KV_INT4: groups end
 * at multiples of GROUP_ROWS positions, so that neighbouring rows share their own page; `skip` rows
 * are missing in the first. */
struct prompt {
    int begin, end, skip, groups;
};

static struct prompt prompt_of(const struct hip *h, const struct batch *b, int seq)
{
    struct prompt p = {.begin = b->seq_start[seq], .end = b->seq_start[seq + 1]};
    if (p.begin < b->n_decode) p.begin = b->n_decode;
    if (p.end <= p.begin) return p;
    if (kv_has_open(h->config.kv)) p.skip = b->pos[p.begin] % GROUP_ROWS;
    p.groups = (p.end - p.begin + p.skip + GROUP_ROWS - 1) / GROUP_ROWS;
    return p;
}

/* First row of a group. */
static int group_begin(const struct prompt *p, int group)
{
    return group ? p->begin + group * GROUP_ROWS - p->skip : p->begin;
}

size_t hip_most_tiles(int rows, int seqs)
{
    return 2 * TILE_GROUPS * (2 * (size_t)seqs + (size_t)rows / (TILE_GROUPS * GROUP_ROWS));
}

/* A tile has two groups of one sequence. If all tiles run at once, an early group is paired with a
 * late one, so that all tiles take equally long. Otherwise neighbours are paired, which share most
 * of their keys and values, and tiles are ordered by falling position, so that the last ones to
 * start are short. Fills shape.prompt_positions, too. */
int hip_fill_tiles(struct hip *h, const struct batch *b, int32_t *tile)
{
    int n = 0, all = 0, positions = 0;
    h->shape.prompt_positions = 1;
    for (int i = 0; i < b->n_seqs; i++) {
        const struct prompt p = prompt_of(h, b, i);
        all += (p.groups + 1) / 2;
        if (p.groups) positions += b->pos[p.end - 1] + 1;
    }
    while (h->shape.prompt_positions < positions) h->shape.prompt_positions *= 2;
    int at_once = all * h->most_heads <= hip_stream_multiprocessors(h->stream);
    for (int i = 0; i < b->n_seqs; i++) {
        const struct prompt p = prompt_of(h, b, i);
        int groups = p.groups;
        for (int j = (groups + 1) / 2 - 1; j >= 0; j--) {
            int of[TILE_GROUPS] = {at_once ? groups - 1 - j : 2 * j + 1, at_once ? j : 2 * j},
                at = n++;
            int last = group_begin(&p, of[0] < groups ? of[0] : of[1]); /* row */
            for (; at > 0 && b->pos[tile[4 * at - 4]] < b->pos[last]; at--)
                memcpy(tile + 4 * at, tile + 4 * at - 4, 4 * sizeof *tile);
            for (int g = 0; g < TILE_GROUPS; g++) {
                int there = of[g] < groups && (g == 0 || of[1] != of[0]), row = last, end = last;
                if (there) row = group_begin(&p, of[g]), end = group_begin(&p, of[g] + 1);
                tile[4 * at + 2 * g] = row;
                tile[4 * at + 2 * g + 1] = (end < p.end ? end : p.end) - row;
            }
        }
    }
    return n;
}

int hip_single_rows(const struct batch *b)
{
    for (int i = 0; i < b->n_decode; i++)
        if (b->seq_start[b->seq[i] + 1] - b->seq_start[b->seq[i]] != 1) return 0;
    return 1;
}

struct hip_blocks hip_pages_grid(const struct hip *h, const struct heads *g, size_t n)
{
    size_t of_kv = (size_t)(g->n_heads / g->n_kv_heads), blocks = (size_t)h->shape.work_blocks;
    return (struct hip_blocks){(size_t)g->n_kv_heads * ((of_kv + 7) / 8), blocks ? blocks : n,
                               blocks ? 1 : (size_t)h->shape.n_splits, 0};
}

const int32_t *hip_row_work(const struct hip *h, size_t row)
{
    size_t blocks = (size_t)h->shape.work_blocks;
    return blocks ? h->shape.d_work + row / (size_t)hip_rows_at_once(h) * blocks : NULL;
}
