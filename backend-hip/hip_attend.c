/* hip_attend.c: rotation, storing and attention: which kernels, in which launches. Generated rows
 * attend in spans of positions that the next operation merges, prompts in tiles of rows. Must not
 * know: linears. */
#include "backend-hip/hip_internal.h"

#include <string.h>

/* Of two kernels for fp16 keys and values and heads of 64 and 128 the one that fits, or K_COUNT. */
static enum hip_kernel by_head(const struct hip *h, enum hip_kernel for_64, enum hip_kernel for_128)
{
    const struct be_config *c = &h->config;
    if (c->kv != KV_F16 || (c->head_dim != 64 && c->head_dim != 128)) return K_COUNT;
    enum hip_kernel k = c->head_dim == 64 ? for_64 : for_128;
    return hip_has(h, k) ? k : K_COUNT;
}

/* attend_prefill_wgmma.hip: with fp16 activations weights of values are halves, too. */
static enum hip_kernel wide_kernel(const struct hip *h)
{
    return h->config.act == ACT_F16 ? by_head(h, K_attend_half_64, K_attend_half_128)
                                    : by_head(h, K_attend_wide_64, K_attend_wide_128);
}

static enum hip_kernel pages_kernel(const struct hip *h)
{
    return by_head(h, K_attend_pages_64, K_attend_pages_128);
}

/* Spans of so many positions: a power of two or half as much again, so that steps repeat. */
static int spans(int positions)
{
    int n = 1, all = (positions + SPAN - 1) / SPAN;
    while (n < all) n *= 2;
    return n >= 4 && n / 4 * 3 >= all ? n / 4 * 3 : n;
}

static size_t part_floats(const struct be_config *c, int n_rows, int n_spans)
{
    return (size_t)n_rows * (size_t)c->n_heads * (size_t)n_spans *
           (size_t)((c->head_dim + 7) / 8 * 8 + 8);
}

int hip_most_spans(const struct be_config *c) { return spans(c->max_pages * PAGE); }

/* Generated tokens attend in spans, whose results need room: that of 128 tokens with most spans, in
 * 128 MiB if one does not take more. */
size_t hip_part_floats(const struct be_config *c)
{
    size_t n = c->max_rows < 128 ? (size_t)c->max_rows : 128,
           some = ((size_t)32 << 20) / part_floats(c, 1, hip_most_spans(c));
    return part_floats(c, (int)(some < 1 ? 1 : some < n ? some : n), hip_most_spans(c));
}

int hip_spans(const struct batch *b)
{
    int longest = 0;
    for (int i = 0; i < b->n_decode; i++)
        if (b->pos[i] >= longest) longest = b->pos[i] + 1;
    return spans(longest);
}

/* Generated rows whose spans there is room for at once. */
static int rows_at_once(const struct hip *h)
{
    return (int)(hip_part_floats(&h->config) / part_floats(&h->config, 1, h->n_spans));
}

/* of fewer rows there is no list; a span that no row has */
enum { LISTED_ROWS = 8, NOTHING = 0xffff };

/* A number of blocks that steps repeat: at most a quarter more. */
static int rounded(int n)
{
    int step = 1;
    while (8 * step <= n) step *= 2;
    return (n + step - 1) / step * step;
}

/* The spans of generated rows row .. end - 1, those of most positions first, so that what starts
 * last is short; returns how many. */
static int list_spans(const struct batch *b, int row, int end, int32_t *work)
{
    enum { PAGES = SPAN / PAGE };
    int n_of[PAGES] = {0}, at[PAGES],
        n = 0; /* by the pages that a span has less than a whole one */
    for (int i = row; i < end; i++) {
        n_of[0] += b->pos[i] / SPAN;
        n_of[PAGES - 1 - b->pos[i] % SPAN / PAGE]++;
    }
    for (int i = 0; i < PAGES; n += n_of[i++]) at[i] = n;
    for (int i = row; i < end; i++) {
        int last = b->pos[i] / SPAN;
        for (int j = 0; j < last; j++) work[at[0]++] = (i - row) << 16 | j;
        work[at[PAGES - 1 - b->pos[i] % SPAN / PAGE]++] = (i - row) << 16 | last;
    }
    return n;
}

/* A grid of rows and spans is mostly empty where a few sequences are longer than the others. */
int hip_fill_work(struct hip *h, const struct batch *b, int32_t *work)
{
    int at_once = rows_at_once(h), launches = 0, most = 0;
    h->work_blocks = 0;
    for (int row = 0; row < b->n_decode; row += at_once, launches++) {
        int n = 0;
        for (int i = row; i < b->n_decode && i < row + at_once; i++) n += b->pos[i] / SPAN + 1;
        if (n > most) most = n;
    }
    most = rounded(most);
    if (b->n_decode < LISTED_ROWS || b->n_decode >= 1 << 15 || most >= 1 << 16) return 0;
    if (8 * (size_t)launches * (size_t)most > 7 * (size_t)b->n_decode * (size_t)h->n_spans)
        return 0;
    for (int row = 0, k = 0; row < b->n_decode; row += at_once, k++) {
        int end = b->n_decode - row < at_once ? b->n_decode : row + at_once;
        for (int n = list_spans(b, row, end, work + k * most); n < most; n++)
            work[k * most + n] = NOTHING;
    }
    h->work_blocks = most;
    return launches * most;
}

/* The prompt rows of a sequence: the first, and how many groups. */
static int prompt_groups(const struct batch *b, int seq, int *begin)
{
    *begin = b->seq_start[seq] > b->n_decode ? b->seq_start[seq] : b->n_decode;
    return b->seq_start[seq + 1] > *begin
               ? (b->seq_start[seq + 1] - *begin + GROUP_ROWS - 1) / GROUP_ROWS
               : 0;
}

/* Where all tiles run side by side, an early group is with a late one, so that they take equally
 * long; else neighbours, which share most of their keys and values, and tiles with most positions
 * come first: what starts last is short. */
int hip_fill_tiles(const struct hip *h, const struct batch *b, int32_t *tile)
{
    int n = 0, all = 0, begin;
    for (int i = 0; i < b->n_seqs; i++) all += (prompt_groups(b, i, &begin) + 1) / 2;
    int at_once = all * h->config.n_heads <= hip_stream_units(h->stream);
    for (int i = 0; i < b->n_seqs; i++) {
        int groups = prompt_groups(b, i, &begin), end = b->seq_start[i + 1];
        for (int j = (groups + 1) / 2 - 1; j >= 0; j--) {
            int of[TILE_GROUPS] = {at_once ? groups - 1 - j : 2 * j + 1, at_once ? j : 2 * j},
                at = n++;
            int last = begin + (of[0] < groups ? of[0] : of[1]) * GROUP_ROWS; /* row */
            for (; at > 0 && b->pos[tile[4 * at - 4]] < b->pos[last]; at--)
                memcpy(tile + 4 * at, tile + 4 * at - 4, 4 * sizeof *tile);
            for (int g = 0; g < TILE_GROUPS; g++) {
                int row = begin + of[g] * GROUP_ROWS,
                    there = of[g] < groups && (g == 0 || of[1] != of[0]);
                tile[4 * at + 2 * g] = there ? row : last;
                tile[4 * at + 2 * g + 1] = !there                   ? 0
                                           : end - row < GROUP_ROWS ? end - row
                                                                    : GROUP_ROWS;
            }
        }
    }
    return n;
}

void hip_launch_rope(struct hip *h, const struct rope_kernel_args *all, int row, int rows)
{
    struct rope_kernel_args a = *all;
    size_t at = (size_t)row, kv = at * (size_t)(a.n_kv_heads * a.head_dim),
           half = at * (size_t)(a.head_dim / 2);
    int heads = a.n_heads + a.n_kv_heads,
        of_block = a.in_octets ? THREADS / (a.head_dim / 16) : 1;
    a.q += at * (size_t)(a.n_heads * a.head_dim);
    a.k += kv;
    a.v += kv;
    a.cos += half;
    a.sin += half;
    a.slot += at;
    hip_launch(
        h, K_rope_store,
        (struct hip_blocks){(size_t)rows, (size_t)((heads + of_block - 1) / of_block), 1, 0}, &a,
        sizeof a);
}

void hip_rope_store(struct be *be, const struct rope_args *r)
{
    struct hip *h = (struct hip *)be;
    const struct be_config *c = &h->config;
    struct rope_kernel_args a = {
        .q = r->d_q,
        .k = r->d_k,
        .v = r->d_v,
        .q_norm = r->d_q_norm,
        .k_norm = r->d_k_norm,
        .cos = h->d_cos,
        .sin = h->d_sin,
        .slot = h->d_slot,
        .pages = r->d_kv,
        .eps = r->eps,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .kv_f32 = c->kv == KV_F32,
        .in_octets = !r->d_q_norm && !r->d_k_norm && c->head_dim % 16 == 0,
    };
    int n = h->batch->n_rows;
    if (a.in_octets && pages_kernel(h) < K_COUNT) {
        hip_wait_for_next(h, K_rope_store, r->d_q, n, c->n_heads * c->head_dim)->rope = a;
        return;
    }
    hip_settle(h);
    hip_launch_rope(h, &a, 0, n);
}

/* Whether no generated row has another one of its sequence beside it, whose key it would look at.
 */
static int single_rows(const struct batch *b)
{
    for (int i = 0; i < b->n_decode; i++)
        if (b->seq_start[b->seq[i] + 1] - b->seq_start[b->seq[i]] != 1) return 0;
    return 1;
}

/* Generated rows: spans of positions, which the next operation merges. */
static void attend_spans(struct hip *h, const struct attend_kernel_args *a)
{
    const struct be_config *c = &h->config;
    size_t q_row = (size_t)c->n_heads * (size_t)c->head_dim,
           kv_row = (size_t)c->n_kv_heads * (size_t)c->head_dim, half = (size_t)c->head_dim / 2,
           n_decode = (size_t)h->batch->n_decode, at_once = (size_t)rows_at_once(h);
    for (size_t row = 0; row < n_decode; row += at_once) {
        enum hip_kernel k = c->kv == KV_F32 ? K_attend_split_f32 : K_attend_split_f16,
                        pages = pages_kernel(h);
        size_t n = n_decode - row < at_once ? n_decode - row : at_once;
        size_t of_kv = (size_t)(c->n_heads / c->n_kv_heads),
               blocks = h->work_blocks ? (size_t)h->work_blocks : n,
               of_row = h->work_blocks ? 1 : (size_t)h->n_spans;
        struct attend_kernel_args s = *a;
        s.q += row * q_row;
        s.pos += row;
        s.seq += row;
        if (s.cos) s.cos += row * half, s.sin += row * half;
        if (s.k) s.k += row * kv_row, s.v += row * kv_row;
        s.parts = h->d_parts;
        s.n_spans = h->n_spans;
        s.work = h->work_blocks ? h->d_work + row / at_once * (size_t)h->work_blocks : NULL;
        hip_settle(h);
        if (pages < K_COUNT)
            hip_launch(h, pages,
                       (struct hip_blocks){(size_t)c->n_kv_heads * ((of_kv + 7) / 8), blocks,
                                           of_row, 0},
                       &s, sizeof s);
        else
            hip_launch(h, k, (struct hip_blocks){blocks, (size_t)c->n_heads, of_row, 0}, &s,
                       sizeof s);
        hip_wait_for_next(h, K_attend_merge, a->out + row * q_row, (int)n, (int)q_row)->merge =
            (struct merge_args){h->d_parts, a->out + row * q_row, s.pos,      h->n_spans,
                                a->window,  c->n_heads,           c->head_dim};
    }
}

static void attend_prompts(struct hip *h, const struct attend_kernel_args *all)
{
    const struct be_config *c = &h->config;
    struct attend_kernel_args a = *all;
    size_t n_decode = (size_t)h->batch->n_decode;
    enum hip_kernel wide = wide_kernel(h),
                    tile = by_head(h, K_attend_tile_64, K_attend_tile_128);
    if (wide < K_COUNT || tile < K_COUNT) {
        size_t of_tile = wide < K_COUNT ? 1 : TILE_GROUPS; /* blocks */
        a.tiles = h->d_tiles;
        hip_launch(
            h, wide < K_COUNT ? wide : tile,
            (struct hip_blocks){(size_t)c->n_heads, (size_t)h->n_tiles * of_tile, 1, 0}, &a,
            sizeof a);
        return;
    }
    size_t q_row = (size_t)c->n_heads * (size_t)c->head_dim;
    a.q += n_decode * q_row;
    a.out += n_decode * q_row;
    a.pos += n_decode;
    a.seq += n_decode;
    hip_launch(
        h, c->kv == KV_F32 ? K_attend_f32 : K_attend_f16,
        (struct hip_blocks){(size_t)h->batch->n_rows - n_decode, (size_t)c->n_heads, 1, 0}, &a,
        sizeof a);
}

void hip_attend(struct be *be, const struct attend_args *t)
{
    struct hip *h = (struct hip *)be;
    const struct be_config *c = &h->config;
    struct attend_kernel_args a = {
        .q = t->d_q,
        .pages = t->d_kv,
        .out = t->d_out,
        .pos = h->d_pos,
        .seq = h->d_seq,
        .table = h->d_table,
        .scale = t->scale,
        .table_stride = h->batch->table_stride,
        .window = t->window,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
    };
    struct attend_kernel_args of_prompts = a, of_generated = a;
    int n = h->batch->n_rows, n_decode = h->batch->n_decode;
    if (h->pending.kernel == K_rope_store && h->pending.rope.q == t->d_q) {
        struct rope_kernel_args rope = h->pending.rope, keys = rope;
        h->pending.kernel = K_COUNT;
        if (n_decode && single_rows(h->batch)) {
            of_generated.cos = rope.cos;
            of_generated.sin = rope.sin;
            of_generated.k = rope.k;
            of_generated.v = rope.v;
        } else if (n_decode) {
            hip_launch_rope(h, &rope, 0, n_decode);
        }
        if (wide_kernel(h) < K_COUNT) {
            of_prompts.cos = rope.cos;
            of_prompts.sin = rope.sin;
            keys.n_heads = 0; /* no queries */
        }
        if (n > n_decode) hip_launch_rope(h, &keys, n_decode, n - n_decode);
    }
    hip_settle(h);
    attend_spans(h, &of_generated);
    if (n == n_decode) return;
    hip_settle(h);
    attend_prompts(h, &of_prompts);
}
