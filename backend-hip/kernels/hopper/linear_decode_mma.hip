/* hopper/linear_decode_mma.hip: 4-bit linears of up to 8 decode rows on sm_90a; of up to 16 for
 * weights that are not plain.
 *   grid      persistent: blocks of 256 threads take output tiles of one panel (16 outputs) in turn
 *   warp      split-K in the block: each of the 8 warps has an eighth of the inputs (a slice)
 *   pipeline  each warp fills a ring in shared memory of its own by cp.async, `depth` items of 128
 *             inputs ahead and across tiles; the first items are loaded before the producer launch
 *             has ended (programmatic dependent launch)
 *   epilogue  the warps add the slices of successive tiles in turn; the others do not wait
 * Bits: products are summed over an item, or over a chunk if an item is of several groups, then
 * scaled and added, and slices are added in order. hopper/linear_prefill_wgmma.hip (decode
 * kernels), linear_decode_wgmma.hip and linear_gemv.hip have the same order and the same bits. */

/* SLOT: bytes of an item's codes and scales in the ring of a plain linear */
enum { DECODE_SLICES = WARPS, SLOT = PLAIN_ITEM_BYTES };
/* Bytes of an item's codes and scales in the ring. */
#define DECODE_SLOT(plain) ((plain) ? (int)SLOT : (int)OTHER_ITEM_BYTES)

/* The first item of a slice. */
DEVICE int slice_begin(int n_items, int slice) { return n_items * slice / DECODE_SLICES; }

/* Codes and scales of an item that one lane has, of outputs r and r + 8; scales of each chunk where
 * linears are not plain. */
struct item_words {
    u32x4 q[2];
    u32 meta[2 * ITEM_CHUNKS];
};

/* Whether each chunk is a group, whose scales come with the codes. */
DEVICE int has_chunk_groups(const struct linear_part *p)
{
    return p->group_chunks == 1 && !p->scale_f32;
}

/* Position of a warp's prefetch: the next item that it loads. */
struct decode_prefetch {
    const char *codes; /* the item's, for this lane */
    const u32 *meta;   /* the panel's, for this lane */
    int out_tile, item, part_end, last_group, by_chunk;
    u32 to, magic;
};

DEVICE void decode_prefetch_tile(const struct linear_args *a, struct decode_prefetch *f,
                                 int out_tile, int item)
{
    struct linear_part p = part_of(a, out_tile);
    int lane = thread() % WARP;
    u64 panel = (u64)(out_tile - p.first);
    f->out_tile = out_tile;
    f->item = item;
    f->part_end = p.first + (p.out + PANEL - 1) / PANEL;
    f->codes = (const char *)p.weight +
               (panel * (u64)(a->n_chunks / ITEM_CHUNKS) + (u64)item) * (ITEM_CODES * 4) +
               lane * 16;
    f->meta = (const u32 *)p.meta + panel * (u64)((p.last_group + 1) * PANEL) + lane % 4 * 4;
    f->by_chunk = has_chunk_groups(&p);
    f->magic = p.group_magic;
    f->last_group = p.last_group;
}

/* Loads an item asynchronously and advances to the next item of the slice, or to the slice of the
 * block's next output tile. */
DEVICE void decode_prefetch_item(const struct linear_args *a, struct decode_prefetch *f, int begin,
                                 int end, u32 ring_end, u32 ring_bytes, const int plain)
{
    if (f->out_tile < a->n_blocks) {
        copy_16(f->to, f->codes);
        copy_16(f->to + 512, f->codes + 512);
        if (plain && thread() % WARP < 4) {
            int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
            copy_16(f->to + ITEM_CODES * 4,
                    f->meta + (group < f->last_group ? group : f->last_group) * PANEL);
        }
        if (!plain && f->by_chunk && thread() % WARP < 4 * ITEM_CHUNKS) {
            int group = f->item * ITEM_CHUNKS + thread() % WARP / 4;
            copy_16(f->to + ITEM_CODES * 4,
                    f->meta + (group < f->last_group ? group : f->last_group) * PANEL);
        }
        f->to += DECODE_SLOT(plain);
        if (f->to == ring_end) f->to -= ring_bytes;
        f->codes += ITEM_CODES * 4;
        if (++f->item == end) {
            f->item = begin;
            f->codes += (u64)(a->n_chunks / ITEM_CHUNKS * grid_x() - (end - begin)) *
                        (ITEM_CODES * 4);
            f->meta += (u64)((f->last_group + 1) * PANEL) * (u64)grid_x();
            f->out_tile += grid_x();
            if (f->out_tile >= f->part_end && f->out_tile < a->n_blocks)
                decode_prefetch_tile(a, f, f->out_tile, begin);
        }
    }
    copies_commit();
}

/* Multiplies half an item, chunks 2b and 2b + 1, by v[tile][chunk]. part carries the sums of an
 * item of one group from half to half. by_chunk: h->meta has the scales of every chunk */
DEVICE void decode_half(const struct linear_part *p, const struct item_words *h,
                        u32x4 v[][ITEM_CHUNKS], int panel, int number, float part[][4],
                        float total[][4], int by_chunk, const int b, const int tiles,
                        const int plain)
{
    int lane = thread() % WARP;
    struct scale_zero g[2];
    if (plain)
        UNROLL for (int j = 0; j < 2; j++)
            g[j] = scale_zero_of((float)half_of(h->meta[j]), half_of(h->meta[j] >> 16));
    UNROLL for (int c = 2 * b; c < 2 * b + 2; c++)
    {
        f16x2 lo[4], hi[4];
        int whole = plain || p->whole_items;
        if (!plain && by_chunk)
            UNROLL for (int j = 0; j < 2; j++) g[j] = scale_zero_of(
                (float)half_of(h->meta[2 * c + j]), half_of(h->meta[2 * c + j] >> 16));
        else if (!plain)
            UNROLL for (int j = 0; j < 2; j++)
                g[j] = meta_at(p, meta_row(p, panel, number * ITEM_CHUNKS + c), lane / 4 + 8 * j);
        unpack_word(h->q[b][c % 2 * 2], &g[0], lo);
        unpack_word(h->q[b][c % 2 * 2 + 1], &g[1], hi);
        UNROLL for (int m = 0; m < tiles; m++)
        {
            if (c == 0 || !whole) UNROLL for (int i = 0; i < 4; i++) part[m][i] = 0;
            mma_16x8x16(part[m], word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]),
                        v[m][c][0], v[m][c][1]);
            mma_16x8x16(part[m], word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]),
                        v[m][c][2], v[m][c][3]);
            if (c < ITEM_CHUNKS - 1 && whole) continue;
            UNROLL for (int i = 0; i < 4; i++)
                total[m][i] = fma32(g[i / 2].scale, part[m][i], total[m][i]);
        }
    }
}

/* Stores a warp's sums of a panel in shared memory and clears them. The warp in turn waits for the
 * others, adds the slices that each of its lanes has, and writes them; the others continue. A warp
 * that reaches tile t has been in turn in one of the 8 tiles before it, so all warps have reached
 * tile t - 7, and the buffer of tile t - 8 has been read. sums
 * [8][tiles][DECODE_SLICES][lane][4] */
DEVICE void finish_panel(const struct linear_args *a, float *sums, int out_tile, int turn,
                         float total[][4], const float *scale, const int tiles)
{
    const int sum_floats = DECODE_SLICES * WARP * 4;
    int lane = thread() % WARP, warp = warp_number();
    float *source = sums + turn % DECODE_SLICES * tiles * sum_floats + lane * 4;
    UNROLL for (int m = 0; m < tiles; m++)
    {
        *(f32x4 *)(source + m * sum_floats + warp * (WARP * 4)) = (f32x4){total[m][0], total[m][1],
                                                                          total[m][2], total[m][3]};
        UNROLL for (int i = 0; i < 4; i++) total[m][i] = 0;
    }
    if (warp != turn % DECODE_SLICES) {
        barrier_arrive(1 + turn % DECODE_SLICES);
        return;
    }
    barrier_numbered(1 + turn % DECODE_SLICES);
    struct linear_part p = part_of(a, out_tile);
    int output = (out_tile - p.first) * PANEL + lane / 4;
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row0 = (block_y() * tiles + m) * 8 + lane % 4 * 2;
        f32x4 sum = {0, 0, 0, 0};
        if (row0 >= a->rows) continue;
        UNROLL for (int w = 0; w < DECODE_SLICES; w++)
            sum = sum + *(const f32x4 *)(source + m * sum_floats + w * (WARP * 4));
        UNROLL for (int i = 0; i < 4; i++)
            write_scaled(a, &p, row0 + i % 2, output + i / 2 * 8, sum[i] * scale[2 * m + i % 2]);
    }
}

/* Brings the inputs of a warp's slice into the L1 cache together. */
DEVICE void touch_inputs(const struct linear_args *a, int row0, int rows, int begin, int end)
{
    int lines = (end - begin) * (ITEM_CHUNKS * CHUNK * 2 / 128),
        n = lines * (a->rows - row0 < rows ? a->rows - row0 : rows);
    const char *x = (const char *)a->x +
                    (u64)(row0 * a->n_chunks + begin * ITEM_CHUNKS) * (CHUNK * 2);
    for (int i = thread() % WARP; i < n; i += 4 * WARP) {
        const char *cursor[4];
        UNROLL for (int j = 0; j < 4; j++)
        {
            int line = i + j * WARP < n ? i + j * WARP : i;
            cursor[j] = x + line / lines * a->n_chunks * (CHUNK * 2) + line % lines * 128;
        }
        touch(cursor);
    }
}

DEVICE void load_item(const u32x4 *const x[], u32x4 v[][ITEM_CHUNKS], int item, const int tiles)
{
    UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
        v[m][c] = load_input(x[m] + item * 16 + 4 * c);
}

/* tiles: tiles of 8 rows; depth: items of a ring; early_x: the inputs of the next item are loaded
 * once those of this item have arrived, because an earlier load would be part of the wait for
 * these. lds: sums, rings [DECODE_SLICES][depth][DECODE_SLOT] */
DEVICE void q4_hopper_decode(const struct linear_args *a, u32 *lds, const int tiles,
                             const int depth, const int plain, const int early_x)
{
    const int slot = DECODE_SLOT(plain), ring_bytes = depth * slot;
    int lane = thread() % WARP, warp = warp_number(), n_items = a->n_chunks / ITEM_CHUNKS,
        row0 = block_y() * 8 * tiles;
    int begin = slice_begin(n_items, warp), end = slice_begin(n_items, warp + 1),
        out_tile = block_x(), turn = 0, item = begin, index = 0;
    const u32 *ring = lds + DECODE_SLICES * tiles * DECODE_SLICES * WARP * 4 +
                      warp * (ring_bytes / 4);
    u32 ring_end = lds_address(ring) + (u32)ring_bytes + 16 * (u32)lane;
    struct decode_prefetch f;
    float part[2][4], total[2][4], scale[4];
    const u32x4 *x[2];
    u32x4 v[2][2][ITEM_CHUNKS];
    decode_prefetch_tile(a, &f, out_tile, begin);
    f.to = ring_end - (u32)ring_bytes;
    if (begin == end) f.out_tile = a->n_blocks; /* an empty slice: fewer items than slices */
    NO_UNROLL for (int i = 0; i < depth; i++)
        decode_prefetch_item(a, &f, begin, end, ring_end, ring_bytes, plain);
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int row = row0 + 8 * m + lane / 4; /* lanes of a row behind the last one read a copy of the
                                              last, and do not write */
        if (row >= a->rows) row = a->rows - 1;
        x[m] = (const u32x4 *)a->x + (row * a->n_chunks * 4 + lane % 4);
        UNROLL for (int i = 0; i < 4; i++) total[m][i] = 0;
    }
    wait_for_producer();
    touch_inputs(a, row0, 8 * tiles, begin, end);
    UNROLL for (int i = 0; i < 2 * tiles; i++)
    {
        int row = row0 + i / 2 * 8 + lane % 4 * 2 + i % 2;
        scale[i] = row < a->rows ? a->scale[row] : 0;
    }
    struct linear_part p = part_of(a, out_tile);
    if (begin == end) {
        for (; out_tile < a->n_blocks; out_tile += grid_x(), turn++)
            finish_panel(a, (float *)lds, out_tile, turn, total, scale, tiles);
        return;
    }
    if (early_x) load_item(x, v[0], item, tiles);
    for (;;) {
        UNROLL for (int k = 0; k < 2; k++)
        {
            struct item_words h;
            int by_chunk = !plain && has_chunk_groups(&p);
            COPIES_WAIT(depth - 1);
            warp_barrier();
            UNROLL for (int b = 0; b < 2; b++)
                h.q[b] = *(const u32x4 *)(ring + index + b * (ITEM_CODES / 2) + lane * 4);
            UNROLL for (int j = 0; j < 2 * ITEM_CHUNKS; j++) h.meta[j] =
                (plain ? j < 2 : by_chunk) ? ring[index + ITEM_CODES + lane / 4 + 8 * j] : 0;
            if (!early_x) load_item(x, v[k], item, tiles);
            decode_half(&p, &h, v[k], out_tile - p.first, item, part, total, by_chunk, 0, tiles,
                        plain);
            warp_barrier();
            decode_prefetch_item(a, &f, begin, end, ring_end, ring_bytes, plain);
            if (early_x) load_item(x, v[1 - k], item + 1 == end ? begin : item + 1, tiles);
            decode_half(&p, &h, v[k], out_tile - p.first, item, part, total, by_chunk, 1, tiles,
                        plain);
            index = index == (depth - 1) * (slot / 4) ? 0 : index + slot / 4;
            if (++item < end) continue;
            finish_panel(a, (float *)lds, out_tile, turn++, total, scale, tiles);
            item = begin;
            out_tile += grid_x();
            if (out_tile >= a->n_blocks) return;
            if (!plain) p = part_of(a, out_tile);
        }
    }
}

/* With more shared memory the L1 cache would be too small for the inputs. */
#define Q4_DECODE_HOPPER(name, images, tiles, depth, which, blocks)                                \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        const int plain = (which) == PLAIN_LINEAR;                                                 \
        q4_hopper_decode(EARLY_ARGS, dynamic_lds, tiles, depth, plain, plain);                     \
    })
#include "backend-hip/kernels/hopper/list.h"
