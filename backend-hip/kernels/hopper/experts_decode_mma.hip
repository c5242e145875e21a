/* hopper/experts_decode_mma.hip: stacks of 4-bit linears for decode rows by mma on sm_90a.
 *   grid      persistent; every warp works for itself and has an equal range of the tasks (tile of
 *             a grouping, panel of 16 outputs), tiles first
 *   warp      a panel over all inputs: no sums are exchanged
 *   pipeline  a ring of `depth` items in shared memory for each warp, filled by cp.async across
 *             tasks
 *   inputs    row-major, each slot's row found by index (gather), through the L1 cache
 * Bits: those of hopper/linear_decode_mma.hip: the eighths of the inputs are summed by themselves
 * and added in order. */

/* Position of a warp's prefetch: the next item that it loads. */
struct task_prefetch {
    const char *codes, *meta; /* the item's, of this lane; the panel's */
    int task, item, last_group;
    u32 to, magic;
};

DEVICE int task_expert(const struct experts_args *e, int task)
{
    return e->expert[task / e->linear.n_blocks];
}

/* The part of a task, with the weights of its expert. */
DEVICE struct linear_part task_part(const struct experts_args *e, int task)
{
    struct linear_part p = part_of(&e->linear, task % e->linear.n_blocks);
    return part_of_expert(&p, task_expert(e, task));
}

DEVICE void task_prefetch_begin(const struct experts_args *e, struct task_prefetch *f, int task)
{
    struct linear_part p = task_part(e, task);
    int lane = thread() % WARP, panel = task % e->linear.n_blocks - p.first;
    f->task = task;
    f->item = 0;
    f->codes = (const char *)p.weight +
               (u64)panel * (u64)(e->linear.n_chunks / ITEM_CHUNKS) * ITEM_BYTES + lane * 16;
    f->meta = (const char *)p.meta + (u64)panel * (u64)((p.last_group + 1) * PANEL * 4) + lane * 16;
    f->magic = p.group_magic;
    f->last_group = p.last_group;
}

/* Loads an item asynchronously and advances to the next one, of the next task after the last. */
DEVICE void task_prefetch_item(const struct experts_args *e, struct task_prefetch *f, int end_task,
                               int n_items, u32 ring_end, u32 ring_bytes, const int plain)
{
    if (f->task < end_task) {
        copy_16(f->to, f->codes);
        copy_16(f->to + 512, f->codes + 512);
        if (plain && thread() % WARP < 4) {
            int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
            copy_16(f->to + ITEM_BYTES,
                    f->meta + (group < f->last_group ? group : f->last_group) * (PANEL * 4));
        }
        f->to += SLOT;
        if (f->to == ring_end) f->to -= ring_bytes;
        f->codes += ITEM_BYTES;
        if (++f->item == n_items) {
            f->task++;
            f->item = 0;
            if (f->task < end_task) task_prefetch_begin(e, f, f->task);
        }
    }
    copies_commit();
}

/* The rows of a tile that a lane loads, and those of its results. */
struct tile_rows {
    const u32x4 *x[4];
    int slot[8]; /* -1: none */
    float scale[8];
};

/* Brings the inputs of a tile's rows into the L1 cache together. */
DEVICE void touch_tile(const struct experts_args *e, int first, int end)
{
    const struct linear_args *a = &e->linear;
    int lines = a->n_chunks / 2, n = lines * (end - first);
    for (int i = thread() % WARP; i < n; i += 4 * WARP) {
        const char *at[4];
        UNROLL for (int j = 0; j < 4; j++)
        {
            int line = i + j * WARP < n ? i + j * WARP : i, place = first + line / lines,
                slot = e->end ? a->slot[place] : place;
            at[j] = (const char *)a->x + (u64)(slot / e->top_k) * (u64)(a->n_chunks * CHUNK * 2) +
                    line % lines * 128;
        }
        touch(at);
    }
}

DEVICE void tile_rows_of(const struct experts_args *e, struct tile_rows *r, int tile,
                         const int tiles)
{
    const struct linear_args *a = &e->linear;
    int lane = thread() % WARP, first = e->end ? tile * 8 * tiles : tile,
        end = e->end ? e->end[tile] : tile + 1;
    touch_tile(e, first, end);
    UNROLL for (int m = 0; m < tiles; m++)
    {
        int place = first + 8 * m + lane / 4; /* one beyond the last is a copy of the first */
        if (place >= end) place = first;
        int slot = e->end ? a->slot[place] : place;
        r->x[m] = (const u32x4 *)a->x + ((u64)(slot / e->top_k) * (u64)(a->n_chunks * 4) +
                                         (u64)(lane % 4));
        UNROLL for (int i = 0; i < 2; i++)
        {
            int to = first + 8 * m + lane % 4 * 2 + i;
            r->slot[2 * m + i] = -1;
            r->scale[2 * m + i] = 0;
            if (to >= end) continue;
            r->slot[2 * m + i] = e->end ? a->slot[to] : to;
            r->scale[2 * m + i] = a->scale[r->slot[2 * m + i] / e->top_k];
        }
    }
}

/* Multiplies chunk c of an item by v[tile]. part carries the sums of an item of one group from
 * chunk to chunk. */
DEVICE void task_chunk(const struct linear_part *p, u32 q0, u32 q1, const u32 meta[2],
                       const u32x4 v[4], int panel, int item, float part[][4], float total[][4],
                       const int c, const int tiles, const int plain)
{
    int lane = thread() % WARP, whole = plain || p->whole_items;
    struct scale_zero g[2];
    f16x2 lo[4], hi[4];
    UNROLL for (int j = 0; j < 2; j++)
        g[j] = plain ? scale_zero_of((float)half_of(meta[j]), half_of(meta[j] >> 16))
                     : meta_at(p, meta_row(p, panel, item * ITEM_CHUNKS + c), lane / 4 + 8 * j);
    unpack_word(q0, &g[0], lo);
    unpack_word(q1, &g[1], hi);
    UNROLL for (int m = 0; m < tiles; m++)
    {
        if (c == 0 || !whole) UNROLL for (int i = 0; i < 4; i++) part[m][i] = 0;
        mma_16x8x16(part[m], word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]),
                    v[m][0], v[m][1]);
        mma_16x8x16(part[m], word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]),
                    v[m][2], v[m][3]);
        if (c < ITEM_CHUNKS - 1 && whole) continue;
        UNROLL for (int i = 0; i < 4; i++)
            total[m][i] = fma32(g[i / 2].scale, part[m][i], total[m][i]);
    }
}

DEVICE void task_write(const struct linear_part *p, const struct tile_rows *r, int panel,
                       float sum[][4], const int tiles)
{
    int lane = thread() % WARP;
    UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
    {
        int output = panel * PANEL + lane / 4 + i / 2 * 8, slot = r->slot[2 * m + i % 2];
        float v = sum[m][i] * r->scale[2 * m + i % 2];
        if (slot >= 0 && output < p->out)
            p->y[(u64)slot * (u64)p->out + (u64)output] = p->bias ? v + p->bias[output] : v;
    }
}

/* tiles: of 8 rows; depth: items of a ring. lds: rings [WARPS][depth][SLOT] */
DEVICE void experts_mma(const struct experts_args *e, u32 *lds, const int tiles, const int depth,
                        const int plain)
{
    const int ring_bytes = depth * SLOT;
    int lane = thread() % WARP, warp = warp_number(), n_items = e->linear.n_chunks / ITEM_CHUNKS;
    const u32 *ring = lds + warp * (ring_bytes / 4);
    u32 ring_end = lds_address(ring) + (u32)ring_bytes + 16 * (u32)lane;
    wait_for_producer();
    int n_blocks = e->linear.n_blocks, n_tasks = (e->end ? *e->n_tiles : e->linear.rows) * n_blocks,
        at = 0, tile = -1;
    u64 number = (u64)(block_x() * WARPS + warp), all = (u64)(grid_x() * WARPS);
    int task = (int)((u64)n_tasks * number / all),
        end_task = (int)((u64)n_tasks * (number + 1) / all);
    struct task_prefetch f;
    struct tile_rows r;
    if (task == end_task) return;
    task_prefetch_begin(e, &f, task);
    f.to = ring_end - (u32)ring_bytes;
    NO_UNROLL for (int i = 0; i < depth; i++)
        task_prefetch_item(e, &f, end_task, n_items, ring_end, (u32)ring_bytes, plain);
    NO_UNROLL for (; task < end_task; task++)
    {
        float part[4][4], total[4][4], sum[4][4];
        int panel, slice = 1;
        struct linear_part p = task_part(e, task);
        if (task / n_blocks != tile) tile_rows_of(e, &r, tile = task / n_blocks, tiles);
        panel = task % n_blocks - p.first;
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
            total[m][i] = sum[m][i] = 0;
        NO_UNROLL for (int item = 0; item < n_items; item++)
        {
            u32x4 q[2], v[2][4];
            u32 meta[2];
            if (item >= slice_begin(n_items, slice)) {
                UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
                    sum[m][i] += total[m][i], total[m][i] = 0;
                while (item >= slice_begin(n_items, slice)) slice++;
            }
            UNROLL for (int m = 0; m < tiles; m++) v[0][m] = load_input(r.x[m] + item * 16);
            COPIES_WAIT(depth - 1);
            warp_barrier();
            UNROLL for (int b = 0; b < 2; b++)
                q[b] = *(const u32x4 *)(ring + at + b * (ITEM_CODES / 2) + lane * 4);
            UNROLL for (int j = 0; j < 2; j++)
                meta[j] = plain ? ring[at + ITEM_CODES + lane / 4 + 8 * j] : 0;
            warp_barrier();
            task_prefetch_item(e, &f, end_task, n_items, ring_end, (u32)ring_bytes, plain);
            UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
            {
                if (c < ITEM_CHUNKS - 1) UNROLL for (int m = 0; m < tiles; m++)
                    v[1 - c % 2][m] = load_input(r.x[m] + item * 16 + 4 * (c + 1));
                task_chunk(&p, q[c / 2][c % 2 * 2], q[c / 2][c % 2 * 2 + 1], meta, v[c % 2], panel,
                           item, part, total, c, tiles, plain);
            }
            at = at == (depth - 1) * (SLOT / 4) ? 0 : at + SLOT / 4;
        }
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
            sum[m][i] += total[m][i];
        task_write(&p, &r, panel, sum, tiles);
    }
}

#define EXPERTS_MMA(name, images, tiles, depth, which, blocks)                                     \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        experts_mma(EARLY_ARGS, dynamic_lds, tiles, depth, (which) == PLAIN_LINEAR);               \
    })
#include "backend-hip/kernels/kernel_list.h"
