/* hopper/experts_split_mma.hip: stacks of plain 4-bit linears for grouped decode rows by mma on
 * sm_90a, split over the inputs.
 *   grid      persistent; every block has an equal range of the pairs (tile of a grouping, two
 *             panels of 16 outputs), tiles first
 *   warp      units of the range in turn: an eighth of the inputs of a pair. Both panels multiply
 *             the same registers of inputs, which stay for all units of a tile; the eighths of a
 *             warp recur after `turns` units
 *   pipeline  a ring of EXPERTS_SPLIT_DEPTH items of both panels in shared memory for each warp,
 *             filled by cp.async across units
 *   epilogue  the sums of the units of SPLIT_TURNS turns of the warps are in shared memory; the
 *             block adds those of the pairs that a turn completes in order
 * Bits: those of hopper/experts_decode_mma.hip. */

/* Units of a pair: the eighths that have items. */
DEVICE int n_units(int n_items) { return n_items < DECODE_SLICES ? n_items : (int)DECODE_SLICES; }

DEVICE int unit_begin(int n_items, int unit)
{
    return n_items < DECODE_SLICES ? unit : slice_begin(n_items, unit);
}

/* A unit of the block's range: of pair number `pair` of it, which is block `block` of tile `tile`.
 */
struct unit_at {
    int pair, unit, tile, block;
};

/* WARPS units on. */
DEVICE void unit_advance(struct unit_at *u, int units, int n_blocks)
{
    int pairs = WARPS / units;
    u->unit += WARPS % units;
    if (u->unit >= units) u->unit -= units, pairs++;
    u->pair += pairs;
    u->block += pairs;
    while (u->block >= n_blocks) u->block -= n_blocks, u->tile++;
}

/* The part and the expert of a pair, as long as they stay the same. */
struct unit_part {
    struct linear_part p;
    int tile, first, end; /* blocks of the part */
};

DEVICE int unit_part_of(const struct experts_args *e, const struct unit_at *u, struct unit_part *of)
{
    if (u->tile == of->tile && u->block < of->end) return 0;
    struct linear_part p = part_of(&e->linear, u->block);
    of->p = part_of_expert(&p, e->expert[u->tile]);
    of->tile = u->tile;
    of->first = p.first;
    of->end = p.first + (p.out + 2 * PANEL - 1) / (2 * PANEL);
    return 1;
}

/* Position of a warp's prefetch. Of a panel that is not there the first one's codes are copied
 * again. */
struct unit_prefetch {
    struct unit_at at;
    const char *part_codes, *part_meta; /* of the part's first panel, of this lane */
    const char *codes, *meta;           /* the next item's; the pair's scales that the lane copies */
    int tile, first, end, panels;       /* what part_codes and part_meta are of */
    int second, item, unit_end, last_group;
    u32 magic, to, to_meta;
};

/* Goes to the unit at f->at, if it is there. */
DEVICE void unit_prefetch_begin(const struct experts_args *e, struct unit_prefetch *f, int n_pairs,
                                int n_items)
{
    int lane = thread() % WARP;
    if (f->at.pair >= n_pairs) return;
    if (f->at.tile != f->tile || f->at.block >= f->end) {
        struct linear_part p = part_of(&e->linear, f->at.block);
        p = part_of_expert(&p, e->expert[f->at.tile]);
        f->tile = f->at.tile;
        f->first = p.first;
        f->panels = (p.out + PANEL - 1) / PANEL;
        f->end = p.first + (f->panels + 1) / 2;
        f->part_codes = (const char *)p.weight + lane * 16;
        f->part_meta = (const char *)p.meta + lane % 4 * 16;
        f->magic = p.group_magic;
        f->last_group = p.last_group;
    }
    int panel = 2 * (f->at.block - f->first), both = panel + 1 < f->panels;
    f->item = unit_begin(n_items, f->at.unit);
    f->unit_end = unit_begin(n_items, f->at.unit + 1);
    f->second = both ? n_items * ITEM_BYTES : 0;
    f->codes = f->part_codes + (u64)(u32)(panel * n_items + f->item) * ITEM_BYTES;
    f->meta = f->part_meta + (u64)(u32)((panel + (both && lane / 4 == 1)) *
                                        ((f->last_group + 1) * PANEL * 4));
}

DEVICE void unit_prefetch_item(const struct experts_args *e, struct unit_prefetch *f, int n_pairs,
                               int n_items, int units, u32 ring_end, u32 ring_bytes)
{
    if (f->at.pair < n_pairs) {
        int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
        if (group > f->last_group) group = f->last_group;
        UNROLL for (int i = 0; i < 4; i++)
            copy_16(f->to + i / 2 * SLOT + i % 2 * 512, f->codes + i / 2 * f->second + i % 2 * 512);
        if (thread() % WARP < 8) copy_16(f->to + f->to_meta, f->meta + group * (PANEL * 4));
        f->to += 2 * SLOT;
        if (f->to == ring_end) f->to -= ring_bytes;
        f->codes += ITEM_BYTES;
        if (++f->item == f->unit_end) {
            unit_advance(&f->at, units, e->linear.n_blocks);
            unit_prefetch_begin(e, f, n_pairs, n_items);
        }
    }
    copies_commit();
}

/* Loads the inputs of a unit: of the row of place lane / 4; of the first one where there is none.
 */
DEVICE void unit_inputs(const struct experts_args *e, const struct unit_at *u, int n_items,
                        u32x4 *v, const int items)
{
    const struct linear_args *a = &e->linear;
    int lane = thread() % WARP, first = u->tile * 8, place = first + lane / 4,
        item = unit_begin(n_items, u->unit);
    int slot = a->slot[place], end = e->end[u->tile],
        row = (int)bits_of(shuffle_from(f32_of((u32)slot), 0));
    row = (place < end ? slot : row) / e->top_k;
    const u32x4 *x = (const u32x4 *)a->x + (u64)row * (u64)(a->n_chunks * 4) + lane % 4;
    UNROLL for (int i = 0; i < items; i++) UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
    {
        int at = item + i < n_items ? item + i : item;
        v[i * ITEM_CHUNKS + c] = load_input(x + (at * ITEM_CHUNKS + c) * 4);
    }
}

/* What a thread writes of every pair: one output and one slot of each tile. */
struct unit_results {
    struct unit_at at;
    struct unit_part of;
    int slot; /* -1: none */
    float scale;
};

/* Adds the sums of the pairs up to `end`, excluded. sums [SPLIT_TURNS * WARPS][THREADS] */
DEVICE void unit_reduce(const struct experts_args *e, struct unit_results *r, const float *sums,
                        int end, int units)
{
    const struct linear_args *a = &e->linear;
    int t = thread(), lane = t % WARP, i = t / WARP % 4, column = lane % 4 * 2 + i % 2;
    NO_UNROLL for (; r->at.pair < end; r->at.pair++)
    {
        int tile = r->of.tile;
        float sum = 0;
        if (unit_part_of(e, &r->at, &r->of) && r->of.tile != tile) {
            int place = r->at.tile * 8 + column;
            r->slot = place < e->end[r->at.tile] ? a->slot[place] : -1;
            r->scale = r->slot < 0 ? 0 : a->scale[r->slot / e->top_k];
        }
        NO_UNROLL for (int u = r->at.pair * units; u < (r->at.pair + 1) * units; u++)
            sum += sums[u % (SPLIT_TURNS * WARPS) * THREADS + t];
        int output = (2 * (r->at.block - r->of.first) + t / (THREADS / 2)) * PANEL + lane / 4 +
                     i / 2 * 8;
        float v = sum * r->scale;
        if (r->slot >= 0 && output < r->of.p.out)
            r->of.p.y[(u64)r->slot * (u64)r->of.p.out + (u64)output] =
                r->of.p.bias ? v + r->of.p.bias[output] : v;
        if (++r->at.block == a->n_blocks) r->at.block = 0, r->at.tile++;
    }
}

/* turns: units of a warp after which its eighths recur; items: the most of a unit. lds: rings
 * [WARPS][EXPERTS_SPLIT_DEPTH][2][SLOT], sums [SPLIT_TURNS * WARPS][THREADS] */
DEVICE void experts_split(const struct experts_args *e, u32 *lds, const int turns, const int items)
{
    const int ring_bytes = EXPERTS_SPLIT_DEPTH * 2 * SLOT;
    int lane = thread() % WARP, warp = warp_number(), n_blocks = e->linear.n_blocks,
        n_items = e->linear.n_chunks / ITEM_CHUNKS, units = n_units(n_items), at = 0;
    const u32 *ring = lds + warp * (ring_bytes / 4);
    float *sums = (float *)(lds + WARPS * (ring_bytes / 4));
    u32 ring_end = lds_address(ring) + (u32)ring_bytes + 16 * (u32)lane;
    wait_for_producer();
    int n = *e->n_tiles * n_blocks, some = n / grid_x(), more = n % grid_x(), block = block_x(),
        begin = block * some + (block < more ? block : more), n_pairs = some + (block < more);
    struct unit_at unit = {warp / units, warp % units, begin / n_blocks, begin % n_blocks};
    struct unit_results result;
    struct unit_prefetch f;
    u32x4 v[3 * ITEM_CHUNKS];
    int tile[3];
    result.at = (struct unit_at){0, 0, unit.tile, unit.block};
    result.of.tile = -1;
    unit.block += unit.pair;
    while (unit.block >= n_blocks) unit.block -= n_blocks, unit.tile++;
    f.at = unit;
    f.tile = -1;
    f.to = ring_end - (u32)ring_bytes;
    f.to_meta = (u32)(lane / 4 * SLOT + ITEM_BYTES - lane / 4 * 64);
    unit_prefetch_begin(e, &f, n_pairs, n_items);
    NO_UNROLL for (int i = 0; i < EXPERTS_SPLIT_DEPTH; i++)
        unit_prefetch_item(e, &f, n_pairs, n_items, units, ring_end, (u32)ring_bytes);
    UNROLL for (int s = 0; s < turns; s++) tile[s] = -1;
    NO_UNROLL for (int turn = 0; turn * WARPS < n_pairs * units; turn += turns)
    {
        UNROLL for (int s = 0; s < turns; s++)
        {
            if (unit.pair < n_pairs) {
                int left = unit_begin(n_items, unit.unit + 1) - unit_begin(n_items, unit.unit);
                float total[2][4], *to = sums + ((turn + s) % SPLIT_TURNS * WARPS + warp) * THREADS;
                UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 4; i++)
                    total[k][i] = 0;
                if (unit.tile != tile[s]) {
                    unit_inputs(e, &unit, n_items, v + s * items * ITEM_CHUNKS, items);
                    tile[s] = unit.tile;
                }
                UNROLL for (int j = 0; j < items; j++)
                {
                    if (j >= left) break;
                    struct task_words w[2];
                    float part[2][4];
                    COPIES_WAIT(EXPERTS_SPLIT_DEPTH - 1);
                    warp_barrier();
                    UNROLL for (int k = 0; k < 2; k++)
                        task_words_of(&w[k], ring + at + k * (SLOT / 4), 1);
                    warp_barrier();
                    unit_prefetch_item(e, &f, n_pairs, n_items, units, ring_end, (u32)ring_bytes);
                    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++) UNROLL for (int k = 0; k < 2; k++)
                        task_chunk(&e->linear.part[0], &w[k], v[(s * items + j) * ITEM_CHUNKS + c], 0,
                                   0, part[k], total[k], c, 1);
                    at += 2 * (SLOT / 4);
                    if (at == ring_bytes / 4) at = 0;
                }
                UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 4; i++)
                    to[(k * 4 + i) * WARP + lane] = total[k][i];
                unit_advance(&unit, units, n_blocks);
            }
            barrier();
            int done = (turn + s + 1) * WARPS / units;
            unit_reduce(e, &result, sums, done < n_pairs ? done : n_pairs, units);
        }
    }
}

#define EXPERTS_SPLIT(name, images, turns, items)                                                  \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        experts_split(EARLY_ARGS, dynamic_lds, turns, items);                                      \
    })
#include "backend-hip/kernels/kernel_list.h"
