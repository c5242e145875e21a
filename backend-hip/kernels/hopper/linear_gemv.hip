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

/* ONE_TURNS: panels whose sums may wait in LDS; ONE_SCRATCH: floats */
enum { ONE_TURNS = 2, ONE_SCRATCH = 2 * ONE_MERGE_WEIGHTS, ONE_ITEM = PLAIN_ITEM_BYTES };
enum one_source { ONE_NORM, ONE_MERGE, ONE_ROW };

/* Of a block's LDS, from its start on: rings [DECODE_SLICES][items][ONE_ITEM bytes]; then sums
 * [ONE_TURNS][DECODE_SLICES][panels][PANEL], barriers [2][ONE_TURNS], scratch, inputs. */
struct one_lds {
    float *sums, *scratch;
    u32 full, empty; /* addresses of barriers, for each turn */
    u32 *inputs;
};

DEVICE struct one_lds one_lds_of(u32 *lds, const int panels, const int items)
{
    struct one_lds l;
    l.sums = (float *)(lds + DECODE_SLICES * items * (ONE_ITEM / 4));
    u32 *end = (u32 *)(l.sums + ONE_TURNS * DECODE_SLICES * panels * PANEL);
    l.full = lds_address(end);
    l.empty = l.full + 8 * ONE_TURNS;
    l.scratch = (float *)(end + 4 * ONE_TURNS);
    l.inputs = end + 4 * ONE_TURNS + ONE_SCRATCH;
    return l;
}

/* The next item that a warp asks for. */
struct one_fetch {
    const char *codes[2], *meta[2]; /* of the item and its group, by panel */
    int unit, item, in_group;       /* in_group: items to come of this group */
    int begin, end, group,
        first_left; /* the slice; the group of its first item, and items to come of it */
    u32 to;
};

DEVICE void one_enter(const struct one_row_args *a, struct one_fetch *f, int unit, const int panels)
{
    UNROLL for (int i = 0; i < panels; i++)
    {
        struct linear_part p = panels > 1 ? a->linear.part[i] : part_of(&a->linear, unit);
        u64 panel = (u64)(panels > 1 ? unit : unit - p.first);
        f->codes[i] = (const char *)p.weight +
                      (panel * (u64)(a->linear.n_chunks / ITEM_CHUNKS) + (u64)f->begin) *
                          (ITEM_CODES * 4);
        f->meta[i] = (const char *)p.meta +
                     (panel * (u64)(p.last_group + 1) + (u64)f->group) * (PANEL * 4);
    }
    f->unit = unit;
    f->item = f->begin;
    f->in_group = f->first_left;
}

/* Asks for an item of each panel and goes on to the next one of the slice, or to the slice of the
 * block's next unit. */
DEVICE void one_next(const struct one_row_args *a, struct one_fetch *f, u32 ring, const int panels,
                     const int items)
{
    u32 lane = (u32)thread() % WARP;
    if (f->unit < a->linear.n_blocks) {
        int last = --f->in_group == 0;
        u32 to = ring + f->to + lane * 16;
        UNROLL for (int i = 0; i < panels; i++)
        {
            copy_16(to + (u32)(i * ONE_ITEM), f->codes[i] + lane * 16);
            copy_16(to + (u32)(i * ONE_ITEM + 512), f->codes[i] + lane * 16 + 512);
            if (lane < 4)
                copy_16(to + (u32)(i * ONE_ITEM + ITEM_CODES * 4), f->meta[i] + lane * 16);
            f->codes[i] += ITEM_CODES * 4;
            if (last) f->meta[i] += PANEL * 4;
        }
        if (last) f->in_group = a->linear.part[0].group_chunks / ITEM_CHUNKS;
        f->to += (u32)(panels * ONE_ITEM);
        if (f->to == (u32)(items * ONE_ITEM)) f->to = 0;
        if (++f->item == f->end) {
            f->unit += grid_x();
            if (f->unit < a->linear.n_blocks) one_enter(a, f, f->unit, panels);
        }
    }
    copies_commit();
}

/* An item's codes q times v[chunk], by panel; lane 4r + t has codes of outputs r and r + 8. */
DEVICE void one_products(u32x4 q[][2], u32 meta[][2], const u32x4 v[ITEM_CHUNKS], float total[][4],
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

/* Leaves a warp's sums of a unit in LDS, and makes them 0. The warp whose turn it is waits for the
 * others, adds the slices and writes the results; the others go on, as soon as what was left
 * ONE_TURNS turns before was read. */
DEVICE void one_finish(const struct one_row_args *a, const struct one_lds *l, int warp, int unit,
                       u32 turn, float total[][4], float scale, const int panels)
{
    const int of_slice = panels * PANEL;
    int lane = thread() % WARP;
    u32 buffer = turn % ONE_TURNS, parity = turn / ONE_TURNS % 2;
    float *of = l->sums + buffer * (u32)(DECODE_SLICES * of_slice);
    if (turn >= ONE_TURNS) mbarrier_wait(l->empty + 8 * buffer, parity ^ 1);
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
    struct linear_part p = part_of(&a->linear, unit);
    int output = (unit - p.first) * PANEL + lane % PANEL, there = output < p.out && lane < PANEL;
    const float *bias = panels > 1 && lane >= PANEL ? a->linear.part[1].bias : p.bias;
    float before = a->add && there ? p.y[output] : 0, sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL for (int w = 0; w < DECODE_SLICES; w++) sum = sum + of[w * of_slice + lane % of_slice];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (panels > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (there) p.y[output] = gated(sum, up, 0);
    } else if (there) {
        p.y[output] = a->add ? before + sum : sum;
    }
    warp_barrier();
    mbarrier_arrive(l->empty + 8 * buffer);
}

/* What does not come from the producer: where the inputs of a thread go that lie in another order
 * among the weights, and what a norm multiplies them with. To be asked for before the weights,
 * behind which it would come late. */
struct one_known {
    u32 to[ROW_PIECES][2]; /* two places each */
    f32x4 norm[ONE_NORM_PIECES];
};

DEVICE void one_ask(const struct one_row_args *a, struct one_known *o, const enum one_source source)
{
    const int pieces = source == ONE_NORM    ? ONE_NORM_PIECES
                       : source == ONE_MERGE ? MERGE_PIECES
                                             : ROW_PIECES;
    int dim = a->linear.n_chunks * CHUNK;
    if (a->place) FOR_PIECES(pieces, j, i, dim)
        {
            u64 four = *(const u64 *)(a->place + i);
            o->to[j][0] = (u32)four;
            o->to[j][1] = (u32)(four >> 32);
        }
    if (source == ONE_NORM)
        FOR_PIECES(ONE_NORM_PIECES, j, i, dim) o->norm[j] = *(const f32x4 *)(a->norm.weight + i);
}

/* Inputs as prepare_pieces() has them, to LDS; returns what undoes their factor. v[pieces] */
DEVICE float one_place(const struct one_row_args *a, const struct one_lds *l,
                       const struct one_known *o, const f32x4 *v, int dim, const int pieces)
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

DEVICE float one_norm(const struct one_row_args *a, const struct one_lds *l,
                      const struct one_known *o)
{
    f32x4 v[ONE_NORM_PIECES];
    int dim = a->norm.dim;
    wait_for_producer();
    FOR_PIECES(ONE_NORM_PIECES, j, i, dim) v[j] = *(const f32x4 *)(a->norm.x + i);
    norm_pieces(&a->norm, v, o->norm, l->scratch, ONE_NORM_PIECES);
    return one_place(a, l, o, v, dim, ONE_NORM_PIECES);
}

DEVICE float one_merge(const struct one_row_args *a, const struct one_lds *l,
                       const struct one_known *o)
{
    f32x4 v[MERGE_PIECES];
    int dim = a->merge.n_heads * a->merge.head_dim;
    wait_for_producer();
    merge_row(&a->merge, 0, l->scratch, l->scratch + ONE_MERGE_WEIGHTS, v);
    barrier();
    return one_place(a, l, o, v, dim, MERGE_PIECES);
}

DEVICE float one_row(const struct one_row_args *a, const struct one_lds *l,
                     const struct one_known *o)
{
    f32x4 v[ROW_PIECES];
    int dim = a->linear.n_chunks * CHUNK;
    wait_for_producer();
    FOR_PIECES(ROW_PIECES, j, i, dim) v[j] = *(const f32x4 *)((const float *)a->linear.x + i);
    return one_place(a, l, o, v, dim, ROW_PIECES);
}

/* panels: of a unit, 2 where the results are gated; items: in a ring */
DEVICE void q4_hopper_one(const struct one_row_args *a, u32 *lds, const enum one_source source,
                          const int panels, const int items)
{
    const int stages = items / panels;
    const struct one_lds l = one_lds_of(lds, panels, items);
    int lane = thread() % WARP, warp = warp_number(), n_items = a->linear.n_chunks / ITEM_CHUNKS;
    int begin = slice_begin(n_items, warp), end = slice_begin(n_items, warp + 1), unit = block_x(),
        item = begin;
    u32 turn = 0, ring = lds_address(lds) + (u32)(warp * items * ONE_ITEM), from = 0;
    struct one_fetch f;
    struct one_known known;
    float total[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (thread() == 0) {
        for (int i = 0; i < ONE_TURNS; i++) {
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
    one_ask(a, &known, source);
    one_enter(a, &f, unit, panels);
    if (begin == end) f.unit = a->linear.n_blocks; /* there are fewer items than slices */
    NO_UNROLL for (int i = 0; i < stages; i++) one_next(a, &f, ring, panels, items);
    float scale = source == ONE_NORM    ? one_norm(a, &l, &known)
                  : source == ONE_MERGE ? one_merge(a, &l, &known)
                                        : one_row(a, &l, &known);
    barrier();
    for (; begin == end && unit < a->linear.n_blocks; unit += grid_x())
        one_finish(a, &l, warp, unit, turn++, total, scale, panels);
    u32 inputs = lds_address(l.inputs) + (u32)(lane % 4 * 16);
    while (unit < a->linear.n_blocks) {
        u32x4 q[2][2], v[ITEM_CHUNKS];
        u32 meta[2][2];
        COPIES_WAIT(stages - 1);
        warp_barrier();
        UNROLL for (int i = 0; i < panels; i++) UNROLL for (int j = 0; j < 2; j++)
        {
            q[i][j] = lds_words(ring + from + (u32)(i * ONE_ITEM + j * ITEM_CODES * 2 + lane * 16));
            meta[i][j] = lds_word(ring + from +
                                  (u32)(i * ONE_ITEM + ITEM_CODES * 4 + lane / 4 * 4 + 32 * j));
        }
        UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
            v[c] = lds_words(inputs + (u32)((item * ITEM_CHUNKS + c) * (CHUNK * 2)));
        warp_barrier();
        one_next(a, &f, ring, panels, items);
        one_products(q, meta, v, total, panels);
        from += (u32)(panels * ONE_ITEM);
        if (from == (u32)(items * ONE_ITEM)) from = 0;
        if (++item < end) continue;
        one_finish(a, &l, warp, unit, turn++, total, scale, panels);
        item = begin;
        unit += grid_x();
    }
}

#define Q4_ONE(name, images, source, panels, items, blocks, of_row)                                \
    ON_##images(KERNEL(name, struct one_row_args) {                                                \
        q4_hopper_one(EARLY_ARGS, dynamic_lds, source, panels, items);                             \
    })
#include "backend-hip/kernels/kernel_list.h"
