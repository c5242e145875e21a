/* hopper/experts_decode_mma.hip: stacks of 4-bit linears for decode rows by mma on sm_90a.
 *   grid      persistent; every block has an equal range of the tasks (tile of a grouping, two
 *             panels of 16 outputs), tiles first; its warps take them in turn, so that they have
 *             inputs in common and what is left over is spread over all multiprocessors
 *   warp      both panels of a task at once, over all inputs: no sums are exchanged; both multiply
 *             the same registers of inputs
 *   pipeline  a ring of `depth` items of both panels in shared memory for each warp, filled by
 *             cp.async across tasks; with e->early before the producer launch has ended
 *   inputs    row-major, each slot's row found by index (gather), through the L1 cache; those of
 *             the next item are loaded behind the products of this one
 * Bits: those of hopper/linear_decode_mma.hip: the eighths of the inputs are summed by themselves
 * and added in order. */

/* Panels that a warp computes at once. */
enum { TASK_PANELS = EXPERTS_MMA_PANELS };

/* A task: output block number `block` of all parts, for tile `tile` of the grouping, which is of
 * expert `expert`. left: tasks of the block's range from this one on */
struct task {
    int tile, block, left, expert;
};

/* Fetches the expert of a task, from memory that an earlier launch wrote. */
DEVICE void task_expert(const struct experts_args *e, struct task *t)
{
    t->expert = load_fresh_int(e->expert + t->tile);
}

DEVICE void task_advance(const struct experts_args *e, struct task *t)
{
    int tile = t->tile;
    t->left -= WARPS;
    t->block += WARPS;
    while (t->block >= e->linear.n_blocks) t->block -= e->linear.n_blocks, t->tile++;
    if (t->tile != tile && t->left > 0) task_expert(e, t);
}

/* The part of a task, with the weights of its expert. */
DEVICE struct linear_part task_part(const struct experts_args *e, const struct task *t)
{
    struct linear_part p = part_of(&e->linear, t->block);
    return part_of_expert(&p, t->expert);
}

/* The first panel of a task; how many it has. */
DEVICE int task_panel(const struct linear_part *p, const struct task *t)
{
    return (t->block - p->first) * TASK_PANELS;
}

DEVICE int task_panels(const struct linear_part *p, const struct task *t)
{
    int panels = (p->out + PANEL - 1) / PANEL - task_panel(p, t);
    return panels < TASK_PANELS ? panels : (int)TASK_PANELS;
}

/* Position of a warp's prefetch: the next item that it loads, of n panels. A task with one panel
 * copies the codes of that panel twice, which needs no branch. */
struct task_prefetch {
    const char *codes, *meta; /* codes: the item's, for this lane; meta: those of the panel whose
                                 scales the lane copies */
    struct task task;
    int n, second, item, last_group; /* second: bytes from a task's first panel to its second one */
    u32 to, to_meta, magic;
};

DEVICE void task_prefetch_begin(const struct experts_args *e, struct task_prefetch *f, int n_items)
{
    struct linear_part p = task_part(e, &f->task);
    int lane = thread() % WARP, panel = task_panel(&p, &f->task);
    f->n = task_panels(&p, &f->task);
    f->item = 0;
    f->second = f->n > 1 ? n_items * ITEM_BYTES : 0;
    f->codes = (const char *)p.weight + (u64)panel * (u64)(n_items * ITEM_BYTES) + lane * 16;
    if (f->n > 1 && lane / 4 == 1) panel++;
    f->meta = (const char *)p.meta + (u64)panel * (u64)((p.last_group + 1) * PANEL * 4) +
              lane % 4 * 16;
    f->magic = p.group_magic;
    f->last_group = p.last_group;
}

/* Loads an item asynchronously and advances to the next one; after a task's last item to the next
 * task. */
DEVICE void task_prefetch_item(const struct experts_args *e, struct task_prefetch *f, int n_items,
                               u32 ring_end, u32 ring_bytes, const int plain)
{
    if (f->task.left > 0) {
        int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
        if (group > f->last_group) group = f->last_group;
        UNROLL for (int i = 0; i < 2 * TASK_PANELS; i++)
            copy_16(f->to + i / 2 * SLOT + i % 2 * 512, f->codes + i / 2 * f->second + i % 2 * 512);
        if (plain && thread() % WARP < 4 * TASK_PANELS)
            copy_16(f->to + f->to_meta, f->meta + group * (PANEL * 4));
        f->to += TASK_PANELS * SLOT;
        if (f->to == ring_end) f->to -= ring_bytes;
        f->codes += ITEM_BYTES;
        if (++f->item == n_items) {
            task_advance(e, &f->task);
            if (f->task.left > 0) task_prefetch_begin(e, f, n_items);
        }
    }
    copies_commit();
}

/* The row of a tile that a lane loads, and the rows of the results that it has. */
struct tile_rows {
    const u32x4 *x;
    int slot[2]; /* -1: none */
    float scale[2];
};

/* Brings the inputs of a tile's rows into the L1 cache together. */
DEVICE void touch_tile(const struct experts_args *e, int first, int end)
{
    const struct linear_args *a = &e->linear;
    int lines = a->n_chunks / 2, n = lines * (end - first);
    for (int i = thread() % WARP; i < n; i += 4 * WARP) {
        const char *cursor[4];
        UNROLL for (int j = 0; j < 4; j++)
        {
            int line = i + j * WARP < n ? i + j * WARP : i, place = first + line / lines,
                slot = e->end ? a->slot[place] : place;
            cursor[j] = (const char *)a->x +
                        (u64)(slot / e->top_k) * (u64)(a->n_chunks * CHUNK * 2) +
                        line % lines * 128;
        }
        touch(cursor);
    }
}

DEVICE void tile_rows_of(const struct experts_args *e, struct tile_rows *r, int tile)
{
    const struct linear_args *a = &e->linear;
    int lane = thread() % WARP, first = e->end ? tile * 8 : tile,
        end = e->end ? e->end[tile] : tile + 1,
        place = first + lane / 4; /* a row behind the last one is a copy of the first */
    touch_tile(e, first, end);
    if (place >= end) place = first;
    int slot = e->end ? a->slot[place] : place;
    r->x = (const u32x4 *)a->x + (u64)(slot / e->top_k) * (u64)(a->n_chunks * 4) + lane % 4;
    UNROLL for (int i = 0; i < 2; i++)
    {
        int to = first + lane % 4 * 2 + i;
        r->slot[i] = -1;
        r->scale[i] = 0;
        if (to >= end) continue;
        r->slot[i] = e->end ? a->slot[to] : to;
        r->scale[i] = a->scale[r->slot[i] / e->top_k];
    }
}

/* Codes and scales of an item of a panel that one lane has: of outputs r and r + 8. */
struct task_words {
    u32x4 q[2];
    u32 meta[2];
};

DEVICE void task_words_of(struct task_words *w, const u32 *item, const int plain)
{
    int lane = thread() % WARP;
    UNROLL for (int b = 0; b < 2; b++)
        w->q[b] = *(const u32x4 *)(item + b * (ITEM_CODES / 2) + lane * 4);
    UNROLL for (int j = 0; j < 2; j++)
        w->meta[j] = plain ? item[ITEM_CODES + lane / 4 + 8 * j] : 0;
}

/* Multiplies chunk c of an item by v. part carries the sums of an item of one group from chunk to
 * chunk. */
DEVICE void task_chunk(const struct linear_part *p, const struct task_words *w, u32x4 v, int panel,
                       int item, float part[4], float total[4], const int c, const int plain)
{
    int lane = thread() % WARP, whole = plain || p->whole_items;
    struct scale_zero g[2];
    f16x2 lo[4], hi[4];
    UNROLL for (int j = 0; j < 2; j++)
        g[j] = plain ? scale_zero_of((float)half_of(w->meta[j]), half_of(w->meta[j] >> 16))
                     : meta_at(p, meta_row(p, panel, item * ITEM_CHUNKS + c), lane / 4 + 8 * j);
    unpack_word(w->q[c / 2][c % 2 * 2], &g[0], lo);
    unpack_word(w->q[c / 2][c % 2 * 2 + 1], &g[1], hi);
    if (c == 0 || !whole) UNROLL for (int i = 0; i < 4; i++) part[i] = 0;
    mma_16x8x16(part, word_of(lo[0]), word_of(hi[0]), word_of(lo[1]), word_of(hi[1]), v[0], v[1]);
    mma_16x8x16(part, word_of(lo[2]), word_of(hi[2]), word_of(lo[3]), word_of(hi[3]), v[2], v[3]);
    if (c < ITEM_CHUNKS - 1 && whole) return;
    UNROLL for (int i = 0; i < 4; i++) total[i] = fma32(g[i / 2].scale, part[i], total[i]);
}

DEVICE void task_write(const struct linear_part *p, const struct tile_rows *r, int panel,
                       const float sum[4])
{
    int lane = thread() % WARP;
    UNROLL for (int i = 0; i < 4; i++)
    {
        int output = panel * PANEL + lane / 4 + i / 2 * 8, slot = r->slot[i % 2];
        float v = sum[i] * r->scale[i % 2];
        if (slot >= 0 && output < p->out)
            p->y[(u64)slot * (u64)p->out + (u64)output] = p->bias ? v + p->bias[output] : v;
    }
}

/* The first task of a warp. */
DEVICE struct task first_task(const struct experts_args *e)
{
    int tiles = e->end ? load_fresh_int(e->n_tiles) : e->linear.rows,
        n = tiles * e->linear.n_blocks, some = n / grid_x(), extra = n % grid_x(),
        first = block_x() * some + (block_x() < extra ? block_x() : extra) + warp_number();
    struct task t = {first / e->linear.n_blocks, first % e->linear.n_blocks,
                     some + (block_x() < extra) - warp_number(), 0};
    if (t.left > 0) task_expert(e, &t);
    return t;
}

/* depth: items of a ring. lds: rings [WARPS][depth][TASK_PANELS][SLOT] */
DEVICE void experts_mma(const struct experts_args *e, u32 *lds, const int depth, const int plain)
{
    const int ring_bytes = depth * TASK_PANELS * SLOT;
    int n_items = e->linear.n_chunks / ITEM_CHUNKS, index = 0, tile = -1;
    const u32 *ring = lds + warp_number() * (ring_bytes / 4);
    u32 ring_end = lds_address(ring) + (u32)ring_bytes + 16 * (u32)(thread() % WARP);
    if (e->early) next_may_start();
    else wait_before_next();
    struct task_prefetch f;
    struct tile_rows r;
    struct task task = f.task = first_task(e);
    u32x4 v[ITEM_CHUNKS];
    if (task.left <= 0) return;
    task_prefetch_begin(e, &f, n_items);
    f.to = ring_end - (u32)ring_bytes;
    int lane = thread() % WARP; /* f.to has the lane's 16 bytes of codes */
    f.to_meta = (u32)(lane / 4 * SLOT + ITEM_BYTES - lane / 4 * 64);
    NO_UNROLL for (int i = 0; i < depth; i++)
        task_prefetch_item(e, &f, n_items, ring_end, (u32)ring_bytes, plain);
    if (e->early) wait_for_producer();
    NO_UNROLL while (task.left > 0)
    {
        float total[TASK_PANELS][4], sum[TASK_PANELS][4];
        struct linear_part p = task_part(e, &task);
        int n = task_panels(&p, &task), panel = task_panel(&p, &task), slice = 0, slice_end = 0;
        if (task.tile != tile) {
            tile_rows_of(e, &r, tile = task.tile);
            UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) v[c] = load_input(r.x + 4 * c);
        }
        UNROLL for (int k = 0; k < TASK_PANELS; k++) UNROLL for (int i = 0; i < 4; i++)
            total[k][i] = sum[k][i] = 0;
        NO_UNROLL for (int item = 0; item < n_items; item++)
        {
            struct task_words w[TASK_PANELS];
            float part[TASK_PANELS][4];
            const u32x4 *next = r.x + (item + 1 < n_items ? item + 1 : 0) * 16;
            if (item == slice_end) {
                UNROLL for (int k = 0; k < TASK_PANELS; k++) UNROLL for (int i = 0; i < 4; i++)
                    sum[k][i] += total[k][i], total[k][i] = 0;
                while (slice_end <= item) slice_end = slice_begin(n_items, ++slice);
            }
            COPIES_WAIT(depth - 1);
            warp_barrier();
            UNROLL for (int k = 0; k < TASK_PANELS; k++)
                task_words_of(&w[k], ring + index + k * (SLOT / 4), plain);
            warp_barrier();
            task_prefetch_item(e, &f, n_items, ring_end, (u32)ring_bytes, plain);
            UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
            {
                /* a panel that does not exist is computed from what the ring has, and not
                 * written */
                UNROLL for (int k = 0; k < TASK_PANELS; k++) task_chunk(
                    &p, &w[k], v[c], panel + (k < n ? k : 0), item, part[k], total[k], c, plain);
                v[c] = load_input(next + 4 * c);
            }
            index += TASK_PANELS * (SLOT / 4);
            if (index == ring_bytes / 4) index = 0;
        }
        UNROLL for (int k = 0; k < TASK_PANELS; k++) UNROLL for (int i = 0; i < 4; i++)
            sum[k][i] += total[k][i];
        UNROLL for (int k = 0; k < TASK_PANELS; k++)
            if (k < n) task_write(&p, &r, panel + k, sum[k]);
        task_advance(e, &task);
    }
}

#define EXPERTS_MMA(name, images, depth, which, blocks)                                            \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        experts_mma(EARLY_ARGS, dynamic_lds, depth, (which) == PLAIN_LINEAR);                      \
    })
#include "backend-hip/kernels/hopper/list.h"
