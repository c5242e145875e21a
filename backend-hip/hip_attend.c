/* hip_attend.c: rotation, storing and attention: which kernels, in which launches. Generated rows
 * attend in spans of positions that the next operation merges, prompts in tiles of rows. Must not
 * know: linears. */
#include "backend-hip/hip_plan.h"

#include <string.h>

/* Of two kernels for fp16 keys and values, heads of 64 and 128 and scores without a cap the one
 * that fits, or K_COUNT. */
static enum hip_kernel by_head(const struct hip *h, const struct op *attend,
                               enum hip_kernel for_64, enum hip_kernel for_128)
{
    const struct heads *g = &attend->as.attend.heads;
    if (h->config.kv != KV_F16 || attend->as.attend.softcap > 0) return K_COUNT;
    if (g->head_dim != 64 && g->head_dim != 128) return K_COUNT;
    enum hip_kernel k = g->head_dim == 64 ? for_64 : for_128;
    return hip_has(h, k) ? k : K_COUNT;
}

/* attend_prefill_wgmma.hip: with fp16 activations weights of values are halves, too. */
static enum hip_kernel wide_kernel(const struct hip *h, const struct op *attend)
{
    return h->config.act == ACT_F16 ? by_head(h, attend, K_attend_half_64, K_attend_half_128)
                                    : by_head(h, attend, K_attend_wide_64, K_attend_wide_128);
}

static enum hip_kernel pages_kernel(const struct hip *h, const struct op *attend)
{
    return by_head(h, attend, K_attend_pages_64, K_attend_pages_128);
}

/* Spans of so many positions: a power of two or half as much again, so that steps repeat. */
static int spans(int positions)
{
    int n = 1, all = (positions + SPAN - 1) / SPAN;
    while (n < all) n *= 2;
    return n >= 4 && n / 4 * 3 >= all ? n / 4 * 3 : n;
}

int hip_most_spans(const struct be_config *c) { return spans(c->max_pages * PAGE); }

size_t hip_span_floats(const struct heads *g)
{
    return (size_t)g->n_heads * (size_t)((g->head_dim + 7) / 8 * 8 + 8);
}

/* The results of 128 generated rows of most spans, in 128 MiB if one row does not take more. */
size_t hip_part_floats(const struct be_config *c, size_t span_floats)
{
    size_t row = span_floats * (size_t)hip_most_spans(c);
    size_t n = c->max_rows < 128 ? (size_t)c->max_rows : 128;
    size_t some = row ? ((size_t)32 << 20) / row : n;
    return (some < 1 ? 1 : some < n ? some : n) * row;
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
    size_t row = h->span_floats * (size_t)h->shape.n_spans;
    return row ? (int)(hip_part_floats(&h->config, h->span_floats) / row) : h->config.max_rows;
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
    h->shape.work_blocks = 0;
    for (int row = 0; row < b->n_decode; row += at_once, launches++) {
        int n = 0;
        for (int i = row; i < b->n_decode && i < row + at_once; i++) n += b->pos[i] / SPAN + 1;
        if (n > most) most = n;
    }
    most = rounded(most);
    if (b->n_decode < LISTED_ROWS || b->n_decode >= 1 << 15 || most >= 1 << 16) return 0;
    if (8 * (size_t)launches * (size_t)most > 7 * (size_t)b->n_decode * (size_t)h->shape.n_spans)
        return 0;
    for (int row = 0, k = 0; row < b->n_decode; row += at_once, k++) {
        int end = b->n_decode - row < at_once ? b->n_decode : row + at_once;
        for (int n = list_spans(b, row, end, work + k * most); n < most; n++)
            work[k * most + n] = NOTHING;
    }
    h->shape.work_blocks = most;
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
    int at_once = all * h->most_heads <= hip_stream_units(h->stream);
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

static struct rope_kernel_args rope_args(const struct hip *h, const struct be_plan *p, int op)
{
    const struct heads *g = &hip_op(p, op)->as.rope.heads;
    const float *q_norm = hip_vector(p, op, 0), *k_norm = hip_vector(p, op, 1);
    return (struct rope_kernel_args){
        .q = hip_in(p, op, 0),
        .k = hip_in(p, op, 1),
        .v = hip_in(p, op, 2),
        .q_norm = q_norm,
        .k_norm = k_norm,
        .cos = hip_in(p, op, 3),
        .sin = hip_in(p, op, 4),
        .slot = h->shape.d_slot,
        .pages = p->memory->kv[hip_op(p, op)->as.rope.kv],
        .eps = hip_op(p, op)->as.rope.eps,
        .n_heads = g->n_heads,
        .n_kv_heads = g->n_kv_heads,
        .head_dim = g->head_dim,
        .kv_f32 = h->config.kv == KV_F32,
        .in_octets = !q_norm && !k_norm && g->head_dim % 16 == 0,
    };
}

/* Rows row .. row + rows - 1 of all. */
static void launch_rope(struct hip *h, const struct rope_kernel_args *all, int row, int rows)
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

void hip_rope_store(struct hip *h, const struct be_plan *p, int op)
{
    struct rope_kernel_args a = rope_args(h, p, op);
    launch_rope(h, &a, 0, h->shape.n_rows);
}

int hip_attend_rotates(const struct hip *h, const struct be_plan *p, int rope, int attend)
{
    const struct op *r = hip_op(p, rope), *a = hip_op(p, attend);
    return a->in[0] == r->out[0] && a->as.attend.kv == r->as.rope.kv &&
           rope_args(h, p, rope).in_octets && pages_kernel(h, a) < K_COUNT;
}

int hip_single_rows(const struct batch *b)
{
    for (int i = 0; i < b->n_decode; i++)
        if (b->seq_start[b->seq[i] + 1] - b->seq_start[b->seq[i]] != 1) return 0;
    return 1;
}

/* Whether a block can combine the spans of all heads of a row. */
static int combines_whole_rows(const struct hip *h, const struct heads *g)
{
    return h->shape.n_spans <= ROW_SPANS && g->n_heads * (MERGE_SPANS + 1) <= MERGE_WEIGHTS &&
           g->n_heads * g->head_dim <= MERGE_DIMS && g->head_dim % 4 == 0;
}

int hip_leaves_combine(const struct hip *h, const struct be_plan *p, int op)
{
    const struct hip_shape *s = &h->shape;
    return s->n_decode == s->n_rows && s->n_decode <= rows_at_once(h) &&
           combines_whole_rows(h, &hip_op(p, op)->as.attend.heads);
}

static struct merge_args combine_args(const struct hip *h, const struct be_plan *p, int op,
                                      size_t row)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    float *out = hip_out(p, op, 0);
    return (struct merge_args){.parts = h->d_parts,
                               .out = out + row * (size_t)(g->n_heads * g->head_dim),
                               .pos = h->shape.d_pos + row,
                               .n_spans = h->shape.n_spans,
                               .window = o->as.attend.window,
                               .n_heads = g->n_heads,
                               .head_dim = g->head_dim};
}

struct merge_args hip_combine_args(const struct hip *h, const struct be_plan *p, int op)
{
    return combine_args(h, p, op, 0);
}

/* Generated rows: each position split by a block of its own, then their combination. */
static void attend_spans(struct hip *h, const struct be_plan *p, int op,
                         const struct attend_kernel_args *a, int leave)
{
    const struct heads *g = &hip_op(p, op)->as.attend.heads;
    const struct hip_shape *t = &h->shape;
    size_t q_row = (size_t)g->n_heads * (size_t)g->head_dim,
           kv_row = (size_t)g->n_kv_heads * (size_t)g->head_dim, half = (size_t)g->head_dim / 2,
           n_decode = (size_t)t->n_decode, at_once = (size_t)rows_at_once(h);
    enum hip_kernel split = h->config.kv == KV_F32 ? K_attend_split_f32 : K_attend_split_f16,
                    pages = pages_kernel(h, hip_op(p, op));
    for (size_t row = 0; row < n_decode; row += at_once) {
        size_t n = n_decode - row < at_once ? n_decode - row : at_once,
               of_kv = (size_t)(g->n_heads / g->n_kv_heads),
               blocks = t->work_blocks ? (size_t)t->work_blocks : n,
               of_row = t->work_blocks ? 1 : (size_t)t->n_spans;
        struct attend_kernel_args s = *a;
        s.q += row * q_row;
        s.pos += row;
        s.seq += row;
        if (s.cos) s.cos += row * half, s.sin += row * half;
        if (s.k) s.k += row * kv_row, s.v += row * kv_row;
        s.parts = h->d_parts;
        s.n_spans = t->n_spans;
        s.work = t->work_blocks ? t->d_work + row / at_once * (size_t)t->work_blocks : NULL;
        struct hip_blocks grid = {blocks, (size_t)g->n_heads, of_row, 0};
        if (pages < K_COUNT)
            grid = (struct hip_blocks){(size_t)g->n_kv_heads * ((of_kv + 7) / 8), blocks, of_row, 0};
        hip_launch(h, pages < K_COUNT ? pages : split, grid, &s, sizeof s);
        if (leave) continue;
        struct merge_args m = combine_args(h, p, op, row);
        hip_launch(h, K_attend_merge, (struct hip_blocks){n, (size_t)g->n_heads, 1, 0}, &m,
                   sizeof m);
    }
}

static void attend_prompts(struct hip *h, const struct op *attend,
                           const struct attend_kernel_args *all)
{
    const struct heads *g = &attend->as.attend.heads;
    struct attend_kernel_args a = *all;
    size_t n_decode = (size_t)h->shape.n_decode, n_prompt = (size_t)h->shape.n_rows - n_decode;
    enum hip_kernel wide = wide_kernel(h, attend),
                    tile = by_head(h, attend, K_attend_tile_64, K_attend_tile_128);
    if (wide < K_COUNT || tile < K_COUNT) {
        size_t of_tile = wide < K_COUNT ? 1 : TILE_GROUPS; /* blocks */
        a.tiles = h->shape.d_tiles;
        hip_launch(h, wide < K_COUNT ? wide : tile,
                   (struct hip_blocks){(size_t)g->n_heads, (size_t)h->shape.n_tiles * of_tile, 1, 0},
                   &a, sizeof a);
        return;
    }
    size_t q_row = (size_t)g->n_heads * (size_t)g->head_dim;
    a.q += n_decode * q_row;
    a.out += n_decode * q_row;
    a.pos += n_decode;
    a.seq += n_decode;
    hip_launch(h, h->config.kv == KV_F32 ? K_attend_f32 : K_attend_f16,
               (struct hip_blocks){n_prompt, (size_t)g->n_heads, 1, 0}, &a, sizeof a);
}

/* What attention does of rotation and storing itself, and the launches for the rest: generated rows
 * that have no other row of their sequence beside them, queries of prompts where the kernel can. */
static void rotate(struct hip *h, const struct op *attend, const struct rope_kernel_args *rope,
                   struct attend_kernel_args *generated, struct attend_kernel_args *prompts)
{
    int n = h->shape.n_rows, n_decode = h->shape.n_decode;
    struct rope_kernel_args keys = *rope;
    if (n_decode && h->shape.single_rows) {
        generated->cos = rope->cos;
        generated->sin = rope->sin;
        generated->k = rope->k;
        generated->v = rope->v;
    } else if (n_decode) {
        launch_rope(h, rope, 0, n_decode);
    }
    if (wide_kernel(h, attend) < K_COUNT) {
        prompts->cos = rope->cos;
        prompts->sin = rope->sin;
        keys.n_heads = 0; /* no queries */
    }
    if (n > n_decode) launch_rope(h, &keys, n_decode, n - n_decode);
}

void hip_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave)
{
    const struct op *o = hip_op(p, op);
    const struct heads *g = &o->as.attend.heads;
    struct attend_kernel_args a = {
        .q = hip_in(p, op, 0),
        .pages = p->memory->kv[o->as.attend.kv],
        .out = hip_out(p, op, 0),
        .pos = h->shape.d_pos,
        .seq = h->shape.d_seq,
        .table = h->shape.d_table,
        .scale = o->as.attend.scale,
        .softcap = o->as.attend.softcap,
        .table_stride = h->shape.table_stride,
        .window = o->as.attend.window,
        .n_heads = g->n_heads,
        .n_kv_heads = g->n_kv_heads,
        .head_dim = g->head_dim,
    };
    struct attend_kernel_args prompts = a;
    if (rope >= 0) {
        struct rope_kernel_args r = rope_args(h, p, rope);
        rotate(h, o, &r, &a, &prompts);
    }
    attend_spans(h, p, op, &a, leave);
    if (h->shape.n_rows > h->shape.n_decode) attend_prompts(h, o, &prompts);
}
