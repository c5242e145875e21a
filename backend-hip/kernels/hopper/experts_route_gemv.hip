/* hopper/experts_route_gemv.hip: the first stacks of a mixture of experts for a single decode row
 * on sm_90a with the choice of the experts; plain weights.
 *   grid      persistent; blocks take tasks (slot, panel of 16 outputs) in turn; the last block
 *             writes the choice and computes no task
 *   choice    by a warp of each block, whose lanes have the scores, a round for each expert
 *   warp      split-K in the block: each of the 8 warps has an eighth of the inputs (a slice)
 *   pipeline  a ring of EXPERTS_ROUTE_DEPTH items in shared memory for each warp, filled by
 *             cp.async across tasks
 * Bits: route(), and hopper/linear_decode_mma.hip: the slices are added in order. */

/* Scores that a lane has: lane i has those of experts i, i + 32, ... There are fewer for up to
 * FEW_EXPERTS and SOME_EXPERTS experts, so that a launch fetches few instructions. */
enum { WARP_SCORES = WARP_EXPERTS / WARP };

/* Chooses the experts of a row by a warp, from their keys (ordered_bits() of the scores; 0: no
 * expert). Lane i gets the i-th of them in ascending order, or -1. ids[WARP]: memory of the warp;
 * *top: the largest key; each: keys of a lane */
DEVICE int chosen_of_keys(const struct route_args *a, u32 *key, int *ids, u32 *top, const int each)
{
    int lane = thread() % WARP, ranked = -1, place = 0;
    NO_UNROLL for (int r = 0; r < a->top_k; r++)
    {
        /* by a tree: comparisons one after another would wait for each other */
        u32 best[WARP_SCORES], index[WARP_SCORES];
        UNROLL for (int j = 0; j < each; j++) best[j] = key[j], index[j] = (u32)(j * WARP + lane);
        UNROLL for (int w = 1; w < each; w *= 2) UNROLL for (int j = 0; j < each; j += 2 * w)
        {
            index[j] = best[j + w] > best[j] ? index[j + w] : index[j];
            best[j] = best[j + w] > best[j] ? best[j + w] : best[j];
        }
        u32 maximum = max_of_warp(best[0]),
            first = ~max_of_warp(best[0] == maximum ? ~index[0] : 0);
        if (r == 0) *top = maximum;
        if (lane == r) ranked = (int)first;
        UNROLL for (int j = 0; j < each; j++) key[j] = first == (u32)(j * WARP + lane) ? 0 : key[j];
    }
    NO_UNROLL for (int from = 0; from < a->top_k; from += 8) UNROLL for (int r = 0; r < 8; r++)
    {
        int other = (int)bits_of(shuffle_from(f32_of((u32)ranked), from + r));
        place += other >= 0 && other < ranked;
    }
    if (lane < a->top_k) ids[place] = ranked;
    warp_barrier();
    return lane < a->top_k ? ids[lane] : -1;
}

/* chosen_of_keys() for the scores of a launch that has ended. */
DEVICE int chosen_of_scores(const struct route_args *a, int *ids, const int each)
{
    int lane = thread() % WARP;
    float x[WARP_SCORES];
    u32 key[WARP_SCORES], bad = 0, top;
    UNROLL for (int j = 0; j < each; j++) /* all loads wait for memory together */
    {
        int i = j * WARP + lane;
        x[j] = load_fresh(a->x + (i < a->n ? i : 0));
    }
    UNROLL for (int j = 0; j < each; j++)
    {
        int i = j * WARP + lane;
        key[j] = 0;
        if (i >= a->n) continue;
        bad |= (u32)(x[j] != x[j]);
        key[j] = ordered_bits(a->bias ? rcp32(1 + exp32(-x[j])) + a->bias[i] : x[j]);
    }
    int chosen = chosen_of_keys(a, key, ids, &top, each);
    if (!a->sigmoid) /* the largest is infinite */
        bad |= (u32)(top <= ordered_bits(-__builtin_inff()) ||
                     top >= ordered_bits(__builtin_inff()));
    return !max_of_warp(bad) ? chosen : lane < a->top_k ? lane : -1;
}

/* Makes the choice by one warp; only with a->by_warp. hurried: other warps wait for it */
DEVICE int chosen_by_warp(const struct route_args *a, int *ids, const int hurried)
{
    if (a->n <= FEW_EXPERTS) return chosen_of_scores(a, ids, FEW_EXPERTS / WARP);
    if (hurried && a->n <= SOME_EXPERTS) return chosen_of_scores(a, ids, SOME_EXPERTS / WARP);
    return chosen_of_scores(a, ids, WARP_SCORES);
}

/* Shared memory of route(), in the memory of a block that has no tasks. */
DEVICE struct route_shared route_shared_at(u32 *lds)
{
    struct route_shared l;
    l.score = (float *)lds;
    l.choice = l.score + MAX_EXPERTS;
    l.other = l.choice + MAX_EXPERTS;
    l.scratch = l.other + MAX_EXPERTS;
    l.list = (int *)(l.scratch + THREADS);
    l.id = l.list + MAX_TOP_K;
    return l;
}

/* Position of a warp's prefetch: the next item of its slice. chosen: chosen_by_warp() */
struct slice_prefetch {
    const char *codes, *meta; /* codes: the item's, for this lane; meta: the panel's */
    int task, item, begin, end, last_group, chosen;
    u32 magic;
};

/* The part of a task, with the weights of its expert. */
DEVICE struct linear_part slot_part(const struct experts_args *e, int task, int chosen)
{
    struct linear_part p = part_of(&e->linear, task % e->linear.n_blocks);
    return part_of_expert(
        &p, (int)bits_of(shuffle_from(f32_of((u32)chosen), task / e->linear.n_blocks)));
}

DEVICE void slice_prefetch_begin(const struct experts_args *e, struct slice_prefetch *f)
{
    struct linear_part p = slot_part(e, f->task, f->chosen);
    int lane = thread() % WARP, panel = f->task % e->linear.n_blocks - p.first;
    f->item = f->begin;
    f->codes = (const char *)p.weight +
               (u64)(panel * (e->linear.n_chunks / ITEM_CHUNKS) + f->begin) * ITEM_BYTES +
               lane * 16;
    f->meta = (const char *)p.meta + (u64)panel * (u64)((p.last_group + 1) * PANEL * 4) + lane * 16;
    f->magic = p.group_magic;
    f->last_group = p.last_group;
}

/* Loads an item asynchronously into `slot` of shared memory and advances to the next one; after a
 * task's last item to the block's next task. */
DEVICE void slice_prefetch_item(const struct experts_args *e, struct slice_prefetch *f, int n_tasks,
                                u32 slot)
{
    if (f->task < n_tasks) {
        u32 to = slot + (u32)(thread() % WARP * 16);
        copy_16(to, f->codes);
        copy_16(to + 512, f->codes + 512);
        if (thread() % WARP < 4) {
            int group = (int)((u64)(u32)(f->item * ITEM_CHUNKS) * (u64)f->magic >> 31);
            copy_16(to + ITEM_BYTES,
                    f->meta + (group < f->last_group ? group : f->last_group) * (PANEL * 4));
        }
        f->codes += ITEM_BYTES;
        if (++f->item == f->end) {
            f->task += grid_x() - 1;
            if (f->task < n_tasks) slice_prefetch_begin(e, f);
        }
    }
    copies_commit();
}

/* Adds the products of a warp's slice to total. */
DEVICE void slice_products(const struct experts_args *e, struct slice_prefetch *f, int n_tasks,
                           u32 ring, u32 *from, float total[4])
{
    int lane = thread() % WARP;
    const struct linear_part p = e->linear.part[0]; /* plain linears read nothing of it */
    float part[4];
    NO_UNROLL for (int item = f->begin; item < f->end; item++)
    {
        const u32x4 *x = (const u32x4 *)e->linear.x + item * (ITEM_CHUNKS * 4) + lane % 4;
        struct task_words w;
        u32x4 v[2];
        v[0] = load_input(x);
        COPIES_WAIT(EXPERTS_ROUTE_DEPTH - 1);
        warp_barrier();
        UNROLL for (int b = 0; b < 2; b++)
            w.q[b] = lds_words(ring + *from + (u32)(b * (ITEM_BYTES / 2) + lane * 16));
        UNROLL for (int j = 0; j < 2; j++)
            w.meta[j] = lds_word(ring + *from + (u32)(ITEM_BYTES + lane / 4 * 4 + 32 * j));
        warp_barrier();
        slice_prefetch_item(e, f, n_tasks, ring + *from);
        UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
        {
            if (c < ITEM_CHUNKS - 1) v[1 - c % 2] = load_input(x + 4 * (c + 1));
            task_chunk(&p, &w, v[c % 2], 0, item, part, total, c, 1);
        }
        *from = *from == (EXPERTS_ROUTE_DEPTH - 1) * SLOT ? 0 : *from + SLOT;
    }
}

/* Brings the inputs of the slice into the L1 cache. */
DEVICE void touch_slice(const struct experts_args *e, const struct slice_prefetch *f)
{
    const char *x = (const char *)e->linear.x + f->begin * (ITEM_CHUNKS * CHUNK * 2);
    int lines = (f->end - f->begin) * (ITEM_CHUNKS * CHUNK * 2 / 128);
    for (int i = thread() % WARP; i < lines; i += WARP) {
        const char *const cursor[4] = {x + i * 128, x + i * 128, x + i * 128, x + i * 128};
        touch(cursor);
    }
}

/* lds: rings [WARPS][EXPERTS_ROUTE_DEPTH][SLOT]; sums [2][WARPS][PANEL], the second of which hold
 * the choice first; the row's scale */
DEVICE void experts_route(const struct route_experts_args *a, u32 *lds)
{
    enum { RING = EXPERTS_ROUTE_DEPTH * SLOT };
    const struct experts_args *e = &a->experts;
    int lane = thread() % WARP, warp = warp_number(), n_items = e->linear.n_chunks / ITEM_CHUNKS,
        n_tasks = e->linear.rows * e->linear.n_blocks;
    u32 ring = lds_address(lds) + (u32)(warp * RING), from = 0, turn = 0;
    float *sums = (float *)(lds + WARPS * (RING / 4));
    struct slice_prefetch f;
    f.task = block_x();
    f.begin = slice_begin(n_items, warp);
    f.end = slice_begin(n_items, warp + 1);
    int *choice = (int *)(sums + WARPS * PANEL);
    if (warp == 0) choice[WARP + lane] = chosen_by_warp(&a->route, choice, 1);
    touch_slice(e, &f);
    barrier();
    f.chosen = choice[WARP + lane];
    if (thread() == 0) sums[2 * WARPS * PANEL] = e->linear.scale[0];
    if (f.task < n_tasks) slice_prefetch_begin(e, &f);
    if (f.begin == f.end) f.task = n_tasks;
    NO_UNROLL for (int i = 0; i < EXPERTS_ROUTE_DEPTH; i++)
        slice_prefetch_item(e, &f, n_tasks, ring + (u32)(i * SLOT));
    NO_UNROLL for (int task = block_x(); task < n_tasks; task += grid_x() - 1, turn++)
    {
        float total[4] = {0, 0, 0, 0}, *count = sums + turn % 2 * (WARPS * PANEL);
        slice_products(e, &f, n_tasks, ring, &from, total);
        if (lane % 4 == 0)
            UNROLL for (int j = 0; j < 2; j++)
                count[warp * PANEL + lane / 4 + 8 * j] = total[2 * j];
        barrier();
        if ((u32)warp != turn % WARPS) continue;
        struct linear_part p = slot_part(e, task, f.chosen);
        int output = (task % e->linear.n_blocks - p.first) * PANEL + lane;
        if (lane >= PANEL || output >= p.out) continue;
        float sum = 0;
        UNROLL for (int w = 0; w < WARPS; w++) sum += count[w * PANEL + lane];
        sum *= sums[2 * WARPS * PANEL];
        p.y[(u64)(task / e->linear.n_blocks) * (u64)p.out + (u64)output] =
            p.bias ? sum + p.bias[output] : sum;
    }
}

KERNEL(q4_experts_route, struct route_experts_args)
{
    const struct route_experts_args *a = EARLY_ARGS;
    wait_before_next();
    if (block_x() < grid_x() - 1) {
        experts_route(a, dynamic_lds);
        return;
    }
    const struct route_shared l = route_shared_at(dynamic_lds);
    route(&a->route, a->route.x, 0, &l, 1, 0);
}
