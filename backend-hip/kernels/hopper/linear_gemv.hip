/* linear_gemv.hip: 4-bit GEMV of one decode row on sm_90a with fused prologue and epilogue; plain
 * weights.
 *   fusion    prologue: norm, combination of KV splits, or the row as it is, into shared memory;
 *             epilogue: y, y += (residual stream), or SwiGLU of two parts
 *   grid      persistent: `blocks` blocks of 256 threads a multiprocessor; they take output tiles
 *             of one panel (16 outputs) in turn, with SwiGLU the same panel of both parts
 *   warp      split-K in the block: each of the 8 warps has an eighth of the inputs (a slice)
 *   pipeline  each warp fills a ring in shared memory of its own by cp.async, items of 128 inputs
 *             ahead and across tiles; the first items are loaded before the producer launch has
 *             ended (programmatic dependent launch)
 *   products  mma with the row in all 8 columns; a warp leaves its sums in one of GEMV_BUFFERS
 *             buffers guarded by mbarriers, and one warp in turn adds the slices
 * The blocks of a launch fill all multiprocessors exactly; otherwise some would get more blocks
 * than others. Bits: the order of sums is that of hopper/linear_decode_mma.hip, norms and packed
 * inputs are those of vector.hip. */

/* GEMV_BUFFERS: tiles whose sums shared memory holds at a time; GEMV_SCRATCH: floats of scratch */
enum { GEMV_BUFFERS = 2, GEMV_SCRATCH = 2 * GEMV_COMBINE_WEIGHTS, GEMV_ITEM = PLAIN_ITEM_BYTES };

/* Shared memory of a block, in order: rings [DECODE_SLICES][items][GEMV_ITEM bytes], sums
 * [GEMV_BUFFERS][DECODE_SLICES][panels][PANEL], mbarriers [2][GEMV_BUFFERS], scratch, inputs. */
struct gemv_shared {
    float *sums, *scratch;
    u32 full, empty; /* addresses of the mbarriers of each buffer */
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

/* Position of a warp's prefetch: the next item that it loads. */
struct gemv_prefetch {
    const char *codes[2], *meta[2];    /* codes: the item's, meta: its group's, for each panel */
    int out_tile, item, in_group;      /* in_group: items left of this group */
    int begin, end, group, first_left; /* the first item and the end of the slice; the group of its
                                          first item, and how many items of that group are left */
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

/* Loads an item of each panel asynchronously and advances to the next item of the slice, or to the
 * slice of the block's next output tile. */
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

/* total += scale * (codes q of an item times v[chunk]), for each panel; lane 4r + t has the codes
 * of outputs r and r + 8. */
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

/* Stores a warp's sums of an output tile in shared memory and clears them. The warp in turn waits
 * for all slices, adds them in order and runs the epilogue. The other warps continue as soon as the
 * buffer of GEMV_BUFFERS tiles before has been read. */
DEVICE void gemv_finish_tile(const struct gemv_args *a, const struct gemv_shared *l, int warp,
                             int out_tile, u32 turn, float total[][4], float scale,
                             const int panels)
{
    const int of_slice = panels * PANEL;
    int lane = thread() % WARP;
    u32 buffer = turn % GEMV_BUFFERS, parity = turn / GEMV_BUFFERS % 2;
    float *source = l->sums + buffer * (u32)(DECODE_SLICES * of_slice);
    if (turn >= GEMV_BUFFERS) mbarrier_wait(l->empty + 8 * buffer, parity ^ 1);
    UNROLL for (int i = 0; i < panels; i++)
    {
        if (lane % 4 == 0)
            UNROLL for (int j = 0; j < 2; j++)
                source[warp * of_slice + i * PANEL + lane / 4 + 8 * j] = total[i][2 * j];
        UNROLL for (int e = 0; e < 4; e++) total[i][e] = 0;
    }
    warp_barrier();
    mbarrier_arrive(l->full + 8 * buffer);
    if ((u32)warp != turn % DECODE_SLICES) return;
    struct linear_part p = part_of(&a->linear, out_tile);
    int output = (out_tile - p.first) * PANEL + lane % PANEL,
        valid = output < p.out && lane < PANEL;
    const float *bias = panels > 1 && lane >= PANEL ? a->linear.part[1].bias : p.bias;
    float before = a->add && valid ? p.y[output] : 0, sum = 0;
    mbarrier_wait(l->full + 8 * buffer, parity);
    UNROLL for (int w = 0; w < DECODE_SLICES; w++)
        sum = sum + source[w * of_slice + lane % of_slice];
    sum *= scale;
    if (bias && output < p.out) sum += bias[output];
    if (panels > 1) {
        float up = shuffle_from(sum, lane % PANEL + PANEL);
        if (valid) p.y[output] = gated(sum, up, 0);
    } else if (valid) {
        p.y[output] = a->add ? before + sum : sum;
    }
    warp_barrier();
    mbarrier_arrive(l->empty + 8 * buffer);
}

/* Data that does not depend on the producer launch: the packed positions of a thread's inputs, and
 * the norm's weights. Loaded before the prefetch of weights, which would delay it. */
struct gemv_early {
    u32 to[ROW_PIECES][2]; /* two positions each */
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

/* Packs the inputs v[pieces] into shared memory as prepare_pieces() does; returns the row's
 * scale. */
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

/* panels: of an output tile (2 with SwiGLU); items: of a ring */
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
    if (begin == end) f.out_tile = a->linear.n_blocks; /* an empty slice: fewer items than slices */
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
#include "backend-hip/kernels/hopper/list.h"
