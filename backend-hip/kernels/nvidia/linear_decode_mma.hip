/* nvidia/linear_decode_mma.hip: 4-bit linears of decode rows by mma on sm_80.
 *   grid      persistent: each block of 256 threads has a contiguous range of output tiles of
 *             `panels` panels
 *   warp      split-K in the block: each of the 8 warps has an eighth of the inputs (a slice)
 *   pipeline  each warp fills a ring in shared memory of its own by cp.async, `depth` items of 128
 *             inputs ahead and across tiles; the first items are loaded before the producer launch
 *             has ended
 *   epilogue  the slices are added in order, through two buffers in turn
 * Bits: the order of additions depends on the number of inputs alone, so all kernels of the family
 * agree. */
enum { ITEM = MMA_ITEM }; /* words of an item of one panel: codes, then scales of 4 chunks */
/* sums [warp][8 rows][16 outputs], padded against bank conflicts */
enum { SUM_STRIDE = 20, SUM_WARP = 8 * SUM_STRIDE };
_Static_assert((int)MMA_SUMS == 2 * WARPS * SUM_WARP, "sums of two turns");

/* Position of a warp's prefetch: the next item that it loads. */
struct prefetch {
    const u32x4 *codes; /* the item's codes, in the tile's first panel */
    const u32 *meta;    /* scales of that panel, from group 0 on */
    int out_tile, item;
    int last; /* last existing panel of the tile */
    int plain, scale_f32, whole, last_group;
    int part_end; /* first output tile of the next part */
    u32 magic;
};

/* Plain weights: one-word scales, and every item of one group. The kernels are tuned for these. */
DEVICE int is_plain(const struct linear_part *p) { return p->whole_items && !p->scale_f32; }

DEVICE void prefetch_tile(const struct linear_args *a, struct prefetch *h, int out_tile, int item,
                          const int panels)
{
    struct linear_part p = part_of(a, out_tile);
    int panel = (out_tile - p.first) * panels;
    h->out_tile = out_tile;
    h->item = item;
    h->last = (p.out - 1) / PANEL - panel;
    h->plain = is_plain(&p);
    h->scale_f32 = p.scale_f32;
    h->whole = p.whole_items;
    h->last_group = p.last_group;
    h->magic = p.group_magic;
    h->part_end = p.first + (p.out + PANEL * panels - 1) / (PANEL * panels);
    h->codes = (const u32x4 *)p.weight +
               ((u64)panel * (u64)(a->n_chunks / 2) + (u64)(item * 2)) * WARP +
               (u64)(thread() % WARP);
    h->meta = (const u32 *)p.meta + (panel * (p.last_group + 1) * PANEL << p.scale_f32);
}

/* Advances from the end of a warp's slice of an output tile to its slice of the next tile, which
 * mostly follows in the same part. */
DEVICE void prefetch_next_tile(const struct linear_args *a, struct prefetch *h, int begin, int end,
                               const int panels)
{
    if (h->out_tile + 1 >= h->part_end) {
        prefetch_tile(a, h, h->out_tile + 1, begin, panels);
        return;
    }
    h->out_tile++;
    h->item = begin;
    h->last -= panels;
    h->codes += (a->n_chunks / 2 * panels - (end - begin) * 2) * WARP;
    h->meta += (h->last_group + 1) * panels * PANEL << h->scale_f32;
}

DEVICE int prefetch_group(const struct prefetch *h, int chunk)
{
    int group = (int)((u64)(u32)(h->item * ITEM_CHUNKS + chunk) * (u64)h->magic >> 31);
    return group < h->last_group ? group : h->last_group;
}

/* Loads an item asynchronously, if there is one: codes, then scales [group or chunk][16 outputs][1
 * or 2 words]. Advances to the next item before `end`, or to the next tile. A panel behind the last
 * one is a copy of it. */
DEVICE void prefetch_item(const struct linear_args *a, struct prefetch *h, u32 to, int begin,
                          int end, int end_tile, const int panels)
{
    int lane = thread() % WARP;
    if (h->out_tile < end_tile) {
        UNROLL for (int k = 0; k < panels; k++, to += 4 * ITEM)
        {
            int panel = k < h->last || k == 0 ? k : h->last, shift = 4 + h->scale_f32,
                n = (h->whole ? 1 : ITEM_CHUNKS) << shift;
            const u32x4 *codes = h->codes + panel * (a->n_chunks / 2 * WARP);
            const u32 *meta = h->meta + (panel * (h->last_group + 1) << shift);
            copy_16(to + 16 * lane, codes);
            copy_16(to + 2 * ITEM_CODES + 16 * lane, codes + WARP);
            if (h->plain) {
                if (lane < PANEL / 4)
                    copy_16(to + 4 * ITEM_CODES + 16 * lane,
                            meta + prefetch_group(h, 0) * PANEL + lane * 4);
            } else {
                NO_UNROLL for (int i = lane; i < n; i += WARP) copy_4(
                    to + 4 * (ITEM_CODES + i),
                    meta + (prefetch_group(h, i >> shift) << shift) + (i & ((1 << shift) - 1)));
            }
        }
        h->codes += 2 * WARP;
        if (++h->item == end) prefetch_next_tile(a, h, begin, end, panels);
    }
    copies_commit();
}

DEVICE struct scale_zero item_meta(const u32 *item, int chunk, int output, int scale_f32)
{
    const u32 *meta = item + ITEM_CODES + (chunk * PANEL << scale_f32);
    if (scale_f32)
        return scale_zero_of(f32_of(meta[2 * output]), (f16)f32_of(meta[2 * output + 1]));
    return scale_zero_of((float)half_of(meta[output]), half_of(meta[output] >> 16));
}

/* total += scale * one chunk of an item times v[tiles]. */
DEVICE void multiply_chunk(const struct linear_part *p, const u32 *item, int c, const u32x4 *v,
                           float total[][8][4], const int tiles, const int panels)
{
    int lane = thread() % WARP;
    UNROLL for (int k = 0; k < panels; k++)
    {
        const u32 *source = item + k * ITEM,
                  *q = source + c / 2 * (ITEM_CODES / 2) + lane * 4 + c % 2 * 2;
        int row = p->whole_items ? 0 : c;
        struct scale_zero g[2];
        f16x2 lo[4], hi[4];
        UNROLL for (int j = 0; j < 2; j++)
            g[j] = item_meta(source, row, lane / 4 + j * 8, p->scale_f32);
        unpack_word(q[0], &g[0], lo);
        unpack_word(q[1], &g[1], hi);
        UNROLL for (int m = 0; m < tiles; m++)
            mma_chunk(total[k][m], lo, hi, v[m], g[0].scale, g[1].scale);
    }
}

/* total += a plain item of one panel times v[chunk][tiles], without branches, by the operations of
 * multiply_chunk() in the same order. */
DEVICE void multiply_item(const u32 *item, u32x4 v[][2], float total[8][4], const int tiles)
{
    int lane = thread() % WARP;
    struct scale_zero g[2];
    UNROLL for (int j = 0; j < 2; j++) g[j] = item_meta(item, 0, lane / 4 + j * 8, 0);
    UNROLL for (int b = 0; b < ITEM_CHUNKS / 2; b++)
    {
        u32x4 q = *(const u32x4 *)(item + b * (ITEM_CODES / 2) + lane * 4);
        UNROLL for (int c = 0; c < 2; c++)
        {
            f16x2 lo[4], hi[4];
            unpack_word(q[2 * c], &g[0], lo);
            unpack_word(q[2 * c + 1], &g[1], hi);
            UNROLL for (int m = 0; m < tiles; m++)
                mma_chunk(total[m], lo, hi, v[2 * b + c][m], g[0].scale, g[1].scale);
        }
    }
}

/* tiles: tiles of 8 rows; depth: items of a warp's ring. lds: rings [WARPS][depth][panels][ITEM],
 * sums [2][WARPS][SUM_WARP] */
DEVICE void q4_mma_decode(const struct linear_args *a, u32 *lds, const int tiles, const int panels,
                          const int depth)
{
    const int item_words = panels * ITEM;
    int lane = thread() % WARP, warp = thread() / WARP, row0 = block_y() * 8 * tiles;
    int n_items = a->n_chunks / ITEM_CHUNKS, slice = (n_items + WARPS - 1) / WARPS,
        begin = warp * slice;
    int end = begin + slice < n_items ? begin + slice : n_items, turn = 0;
    u32 *ring = lds + warp * depth * item_words, *slot = ring;
    float *sums = (float *)(lds + WARPS * depth * item_words);
    const u32x4 *x = (const u32x4 *)a->x;
    u32 offset[8], ring_at = lds_address(ring);
    struct prefetch h;
    int first_tile = tile_share(a, block_x()), end_tile = tile_share(a, block_x() + 1);
    prefetch_tile(a, &h, first_tile, begin, panels);
    if (begin >= end) h.out_tile = end_tile; /* an empty slice: fewer items than warps */
    NO_UNROLL for (int i = 0; i < depth; i++)
        prefetch_item(a, &h, ring_at + 4 * i * item_words, begin, end, end_tile, panels);
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row = row0 + 8 * m + lane / 4; /* lanes of a row behind the last one read a copy of the
                                              last, and do not write */
        if (row >= a->rows) row = a->rows - 1;
        offset[m] = (u32)(row * a->n_chunks * 4 + lane % 4);
    }
    wait_for_producer();
    float scale[8];
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row = row0 + 8 * m + thread() / PANEL % 8;
        scale[m] = row < a->rows ? a->scale[row] : 0;
    }
    struct linear_part p = part_of(a, first_tile);
    for (int out_tile = first_tile; out_tile < end_tile; out_tile++) {
        if (out_tile >= p.first + (p.out + PANEL * panels - 1) / (PANEL * panels))
            p = part_of(a, out_tile);
        float total[4][8][4];
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int m = 0; m < tiles; m++)
            UNROLL for (int i = 0; i < 4; i++) total[k][m][i] = 0;
        for (int item = begin; item < end; item++) {
            u32 now = (u32)(item * ITEM_CHUNKS * 4);
            if (tiles <= 2 && is_plain(&p)) {
                u32x4 v[ITEM_CHUNKS][2]; /* loaded before the wait */
                UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) UNROLL for (int m = 0; m < tiles; m++)
                    v[c][m] = x[offset[m] + now + (u32)(4 * c)];
                COPIES_WAIT(depth - 1);
                warp_barrier();
                UNROLL for (int k = 0; k < panels; k++)
                    multiply_item(slot + k * ITEM, v, total[k], tiles);
            } else {
                COPIES_WAIT(depth - 1);
                warp_barrier();
                NO_UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
                {
                    u32x4 v[8];
                    UNROLL for (int m = 0; m < tiles; m++) v[m] = x[offset[m] + now + (u32)(4 * c)];
                    multiply_chunk(&p, slot, c, v, total, tiles, panels);
                }
            }
            warp_barrier();
            prefetch_item(a, &h, ring_at + (u32)(4 * (slot - ring)), begin, end, end_tile, panels);
            slot = slot == ring + (depth - 1) * item_words ? ring : slot + item_words;
        }
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int m = 0; m < tiles; m++)
        {
            float *source = sums + turn * (WARPS * SUM_WARP),
                  *own = source + warp * SUM_WARP + lane % 4 * 2 * SUM_STRIDE + lane / 4;
            turn ^= 1;
            own[0] = total[k][m][0];
            own[SUM_STRIDE] = total[k][m][1];
            own[8] = total[k][m][2];
            own[SUM_STRIDE + 8] = total[k][m][3];
            barrier(); /* a warp two buffers ahead has passed the next barrier, so this buffer
                          has been read */
            if (thread() < 8 * PANEL) {
                int row = thread() / PANEL, output = thread() % PANEL;
                float sum = 0;
                UNROLL for (int w = 0; w < WARPS; w++)
                    sum += source[w * SUM_WARP + row * SUM_STRIDE + output];
                write_scaled(a, &p, row0 + 8 * m + row,
                             ((out_tile - p.first) * panels + k) * PANEL + output, sum * scale[m]);
            }
        }
    }
}

#define Q4_DECODE_MMA(name, images, tiles, panels, depth, blocks)                                  \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        q4_mma_decode(EARLY_ARGS, dynamic_lds, tiles, panels, depth);                              \
    })
#define Q4_DECODE_MMA_EXPERTS(name, images, tiles, panels, depth, blocks)                          \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a))                                                      \
            q4_mma_decode(&a, dynamic_lds, tiles, panels, depth);                                  \
    })
#include "backend-hip/kernels/nvidia/list.h"
