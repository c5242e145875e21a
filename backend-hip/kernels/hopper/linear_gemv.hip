/* linear_gemv.hip: 4-bit linears of one generated token on sm_90a, plain weights, together with
 * what stands before and after them: each block makes the inputs itself, into LDS, by a norm, by
 * merging spans of attention or from a row as it is, and what comes out is added to the residual
 * stream, or gated. Blocks take panels of 16 outputs in turn, or where the results are gated the
 * same panel of both parts. Each of the 8 warps has an eighth of the inputs and a ring in LDS of
 * its own, which it fills items ahead and across panels, from before the launch before this one has
 * ended. As many blocks as are to fill a multiprocessor leave no room for more: or some
 * multiprocessors would get more blocks of a launch than others. The order of sums is that of
 * hopper/linear_decode_mma.hip, which has the same bits; norms and what is prepared are those of
 * vector.hip. */

/* GEMV_BUFFERS: panels whose sums may wait in LDS; GEMV_SCRATCH: floats */
enum { GEMV_BUFFERS = 2, GEMV_SCRATCH = 2 * GEMV_COMBINE_WEIGHTS, GEMV_ITEM = PLAIN_ITEM_BYTES };
enum gemv_source { GEMV_NORM, GEMV_COMBINE, GEMV_ROW };

/* Of a block's LDS, from its start on: rings [DECODE_SLICES][items][GEMV_ITEM bytes]; then sums
 * [GEMV_BUFFERS][DECODE_SLICES][panels][PANEL], barriers [2][GEMV_BUFFERS], scratch, inputs. */
struct gemv_shared {
    float *sums, *scratch;
    u32 full, empty; /* addresses of barriers, for each turn */
    u32 *inputs;
};

DEVICE struct gemv_shared gemv_shared_of(u32 *lds, const int panels, const int items)
{
    struct gemv_shared l;
    l.sums = (float *)(lds + DECODE_SLICES * items * (GEMV_ITEM / 4));
    u32 *end = (u32 *)(l.sums + GEMV_BUFFERS * DECODE_SLICES * panels * PANEL);
    l.full = lds_address(end);
    l.empty = l.full + 8 * GEMV_BUFFERS;
    l.scratch = (float *)(end + 4 * GEMV_BUFFERS);
    l.inputs = end + 4 * GEMV_BUFFERS + GEMV_SCRATCH;
    return l;
}

/* The next item that a warp asks for. */
struct gemv_prefetch {
    const char *codes[2], *meta[2]; /* of the item and its group, by panel */
    int out_tile, item, in_group;   /* in_group: items to come of this group */
    int begin, end, group,
        first_left; /* the slice; the group of its first item, and items to come of it */
    u32 to;
};

DEVICE void gemv_prefetch_tile(const struct gemv_args *a, struct gemv_prefetch *f, int out_tile,
                               const int panels)
{
    UNROLL for (int i = 0; i < panels; i++)
    {
        struct linear_part p = panels > 1 ? a->linear.part[i] : part_of(&a->linear, out_tile);
        u64 panel = (u64)(panels > 1 ? out_tile : out_tile - p.first);
        f->codes[i] = (const char *)p.weight +
                      (panel * (u64)(a->linear.n_chunks / ITEM_CHUNKS) + (u64)f->begin) *
                          (ITEM_CODES * 4);
        f->meta[i] = (const char *)p.meta +
                     (panel * (u64)(p.last_group + 1) + (u64)f->group) * (PANEL * 4);
    }
    f->out_tile = out_tile;
    f->item = f->begin;
    f->in_group = f->first_left;
}

/* Asks for an item of each panel and goes on to the next one of the slice, or to the slice of the
 * block's next out_tile. */
DEVICE void gemv_prefetch_item(const struct gemv_args *a, struct gemv_prefetch *f, u32 ring,
                               const int panels, const int items)
{
    u32 lane = (u32)thread() % WARP;
    if (f->out_tile < a->linear.n_blocks) {
        int last = --f->in_group == 0;
        u32 to = ring + f->to + lane * 16;
        UNROLL for (int i = 0; i < panels; i++)
        {
            copy_16(to + (u32)(i * GEMV_ITEM), f->codes[i] + lane * 16);
            copy_16(to + (u32)(i * GEMV_ITEM + 512), f->codes[i] + lane * 16 + 512);
            if (lane < 4)
                copy_16(to + (u32)(i * GEMV_ITEM + ITEM_CODES * 4), f->meta[i] + lane * 16);
            f->codes[i] += ITEM_CODES * 4;
            if (last) f->meta[i] += PANEL * 4;
        }
        if (last) f->in_group = a->linear.part[0].group_chunks / ITEM_CHUNKS;
        f->to += (u32)(panels * GEMV_ITEM);
        if (f->to == (u32)(items * GEMV_ITEM)) f->to = 0;
        if (++f->item == f->end) {
            f->out_tile += grid_x();
            if (f->out_tile < a->linear.n_blocks) gemv_prefetch_tile(a, f, f->out_tile, panels);
        }
    }
    copies_commit();
}

/* An item's codes q times v[chunk], by panel; lane 4r + t has codes of outputs r and r + 8. */
DEVICE void gemv_multiply(u32x4 q[][2], u32 meta[][2], const u32x4 v[ITEM_CHUNKS], float total[][4],
                          const int panels)
{
    float part[2][4];
    struct scale_zero g[2][2];
    UNROLL for (int i = 0; i < panels; i++)
    {
        UNROLL for (int j = 0; j < 2; j++)
            g[i][j] = scale_zero_of((float)half_of(meta[i][j]), half_of(meta[i][j] >> 16));
        UNROLL for (int e = 0; e < 4; e++) part[i][e] = 0;
    }
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) UNROLL for (int i = 0; i < panels; i++)
    {
        f16x2 lo[4], hi[4];
        unpack_word(q[i][c / 2][c % 2 * 2], &g[i][0], lo);
        unpack_word(q[i][c / 2][c % 2 * 2 + 1], &g[i][1], hi);
        mma_16x8x16(part[i], word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]),
                    v[c][0], v[c][1]);
        mma_16x8x16(part[i], word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]),
                    v[c][2], v[c][3]);
    }
    UNROLL for (int i = 0; i < panels; i++) UNROLL for (int e = 0; e < 4; e++)
        total[i][e] = fma32(g[i][e / 2].scale, part[i][e], total[i][e]);
}

/* Leaves a warp's sums of a out_tile in LDS, and makes them 0. The warp whose turn it is waits for
 * the others, adds the slices and writes the results; the others go on, as soon as what was left
 * GEMV_BUFFERS turns before was read. */
DEVICE void gemv_finish_tile(const struct gemv_args *a, const struct gemv_shared *l, int warp,
                             int out_tile, u32 turn, float total[][4], float scale,
                             const int panels)
{
    const int of_slice = panels * PANEL;
    int lane = thread() % WARP;
    u32 buffer = turn % GEMV_BUFFERS, parity = turn / GEMV_BUFFERS % 2;
    float *of = l->sums + buffer * (u32)(DECODE_SLICES * of_slice);
    if (turn >= GEMV_BUFFERS) mbarrier_wait(l->empty + 8 * buffer, parity ^ 1);
    UNROLL for (int i = 0; i < panels; i++)
    {
        if (lane % 4 == 0)
            UNROLL for (int j = 0; j < 2; j++)
                of[warp * of_slice + i * PANEL + lane / 4 + 8 * j] = total[i][2 * j];
        UNROLL for (int e = 0; e < 4; e++) total[i][e] = 0;
    }
    warp_barrier();
    mbarrier_arrive(l->full + 8 * buffer);
    if ((u32)warp != turn % DECODE_SLICES) return;
    struct linear_part p = part_of(&a->linear, out_tile);
    int output = (out_tile - p.first) * PANEL + lane % PANEL,
        there = output < p.out && lane < PANEL;
    const float *bias = panels > 1 && lane >= PANEL ? a->linear.part[1].bias : p.bias;
    float before = a->add && there ? p.y[output] : 0, sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL for (int w = 0; w < DECODE_SLICES; w++) sum = sum + of[w * of_slice + lane % of_slice];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (panels > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (there) p.y[output] = gated(sum, up);
    } else if (there) {
        p.y[output] = a->add ? before + sum : sum;
    }
    warp_barrier();
    mbarrier_arrive(l->empty + 8 * buffer);
}

/* What does not come from the producer: where the inputs of a thread go that lie in another order
 * among the weights, and what a norm multiplies them with. To be asked for before the weights,
 * behind which it would come late. */
struct gemv_early {
    u32 to[ROW_PIECES][2]; /* two places each */
    f32x4 norm[GEMV_NORM_PIECES];
};

DEVICE void gemv_load_early(const struct gemv_args *a, struct gemv_early *o,
                            const enum gemv_source source)
{
    const int pieces = source == GEMV_NORM      ? GEMV_NORM_PIECES
                       : source == GEMV_COMBINE ? COMBINE_PIECES
                                                : ROW_PIECES;
    int dim = a->linear.n_chunks * CHUNK;
    if (a->place) FOR_PIECES(pieces, j, i, dim)
        {
            u64 four = *(const u64 *)(a->place + i);
            o->to[j][0] = (u32)four;
            o->to[j][1] = (u32)(four >> 32);
        }
    if (source == GEMV_NORM)
        FOR_PIECES(GEMV_NORM_PIECES, j, i, dim) o->norm[j] = *(const f32x4 *)(a->norm.weight + i);
}

/* Inputs as prepare_pieces() has them, to LDS; returns what undoes their factor. v[pieces] */
DEVICE float gemv_pack(const struct gemv_args *a, const struct gemv_shared *l,
                       const struct gemv_early *o, const f32x4 *v, int dim, const int pieces)
{
    const struct row_place place = {(f16 *)l->inputs, 0, 0};
    float largest = 0;
    FOR_PIECES(pieces, j, i, dim) largest = largest_of(v[j], largest);
    struct power_of_two p = power_for(largest_of_block(largest, l->scratch, THREADS), 14);
    FOR_PIECES(pieces, j, i, dim)
    {
        if (!a->place) place_piece(&place, i, v[j], p.factor);
        else
            UNROLL for (int e = 0; e < 4; e++)
                place.at[o->to[j][e / 2] >> (16 * (e % 2)) & 0xffffu] = (f16)(v[j][e] * p.factor);
    }
    return p.undo;
}

DEVICE float gemv_norm(const struct gemv_args *a, const struct gemv_shared *l,
                       const struct gemv_early *o)
{
    f32x4 v[GEMV_NORM_PIECES];
    int dim = a->norm.dim;
    wait_for_producer();
    FOR_PIECES(GEMV_NORM_PIECES, j, i, dim) v[j] = *(const f32x4 *)(a->norm.x + i);
    norm_pieces(&a->norm, v, o->norm, l->scratch, GEMV_NORM_PIECES);
    return gemv_pack(a, l, o, v, dim, GEMV_NORM_PIECES);
}

DEVICE float gemv_combine(const struct gemv_args *a, const struct gemv_shared *l,
                          const struct gemv_early *o)
{
    f32x4 v[COMBINE_PIECES];
    int dim = a->combine.n_heads * a->combine.head_dim;
    wait_for_producer();
    combine_row(&a->combine, 0, l->scratch, l->scratch + GEMV_COMBINE_WEIGHTS, v);
    barrier();
    return gemv_pack(a, l, o, v, dim, COMBINE_PIECES);
}

DEVICE float gemv_row(const struct gemv_args *a, const struct gemv_shared *l,
                      const struct gemv_early *o)
{
    f32x4 v[ROW_PIECES];
    int dim = a->linear.n_chunks * CHUNK;
    wait_for_producer();
    FOR_PIECES(ROW_PIECES, j, i, dim) v[j] = *(const f32x4 *)((const float *)a->linear.x + i);
    return gemv_pack(a, l, o, v, dim, ROW_PIECES);
}

/* panels: of a out_tile, 2 where the results are gated; items: in a ring */
DEVICE void q4_gemv(const struct gemv_args *a, u32 *lds, const enum gemv_source source,
                    const int panels, const int items)
{
    const int stages = items / panels;
    const struct gemv_shared l = gemv_shared_of(lds, panels, items);
    int lane = thread() % WARP, warp = warp_number(), n_items = a->linear.n_chunks / ITEM_CHUNKS;
    int begin = slice_begin(n_items, warp), end = slice_begin(n_items, warp + 1),
        out_tile = block_x(), item = begin;
    u32 turn = 0, ring = lds_address(lds) + (u32)(warp * items * GEMV_ITEM), from = 0;
    struct gemv_prefetch f;
    struct gemv_early known;
    float total[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (thread() == 0) {
        for (int i = 0; i < GEMV_BUFFERS; i++) {
            mbarrier_init(l.full + 8 * (u32)i, DECODE_SLICES * 32);
            mbarrier_init(l.empty + 8 * (u32)i, 32);
        }
        mbarrier_init_done();
    }
    int of_group = a->linear.part[0].group_chunks / ITEM_CHUNKS;
    f.begin = begin;
    f.end = end;
    f.group = begin / of_group;
    f.first_left = (f.group + 1) * of_group - begin;
    f.to = 0;
    gemv_load_early(a, &known, source);
    gemv_prefetch_tile(a, &f, out_tile, panels);
    if (begin == end) f.out_tile = a->linear.n_blocks; /* there are fewer items than slices */
    NO_UNROLL for (int i = 0; i < stages; i++) gemv_prefetch_item(a, &f, ring, panels, items);
    float scale = source == GEMV_NORM      ? gemv_norm(a, &l, &known)
                  : source == GEMV_COMBINE ? gemv_combine(a, &l, &known)
                                           : gemv_row(a, &l, &known);
    barrier();
    for (; begin == end && out_tile < a->linear.n_blocks; out_tile += grid_x())
        gemv_finish_tile(a, &l, warp, out_tile, turn++, total, scale, panels);
    u32 inputs = lds_address(l.inputs) + (u32)(lane % 4 * 16);
    while (out_tile < a->linear.n_blocks) {
        u32x4 q[2][2], v[ITEM_CHUNKS];
        u32 meta[2][2];
        COPIES_WAIT(stages - 1);
        warp_barrier();
        UNROLL for (int i = 0; i < panels; i++) UNROLL for (int j = 0; j < 2; j++)
        {
            q[i][j] =
                lds_words(ring + from + (u32)(i * GEMV_ITEM + j * ITEM_CODES * 2 + lane * 16));
            meta[i][j] = lds_word(ring + from +
                                  (u32)(i * GEMV_ITEM + ITEM_CODES * 4 + lane / 4 * 4 + 32 * j));
        }
        UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
            v[c] = lds_words(inputs + (u32)((item * ITEM_CHUNKS + c) * (CHUNK * 2)));
        warp_barrier();
        gemv_prefetch_item(a, &f, ring, panels, items);
        gemv_multiply(q, meta, v, total, panels);
        from += (u32)(panels * GEMV_ITEM);
        if (from == (u32)(items * GEMV_ITEM)) from = 0;
        if (++item < end) continue;
        gemv_finish_tile(a, &l, warp, out_tile, turn++, total, scale, panels);
        item = begin;
        out_tile += grid_x();
    }
}

#define Q4_GEMV(name, images, source, panels, items, blocks, of_row)                               \
    ON_##images(KERNEL(name, struct gemv_args) {                                                   \
        q4_gemv(EARLY_ARGS, dynamic_lds, source, panels, items);                                   \
    })
#include "backend-hip/kernels/kernel_list.h"
