/* hopper/norm_route.hip: norm, router and choice of experts of decode rows on sm_90a, with the
 * preparation of the experts' input and the grouping of the slots by expert.
 *   grid      a block of 256 threads for each row, in clusters of CLUSTER rows
 *   norm      of the block's row, whose parts go to the blocks that have the inputs
 *   products  a block has an equal share of the inputs, in stages of 64, for the rows of its
 *             cluster and all experts; a warp takes (stage, panel of 16 experts) in turn, the
 *             weights of ROUTE_EARLY of them are loaded before the producer launch has ended
 *   sums      those of a stage go to the block of the row, which adds them in order and chooses
 *   groups    by the block that ends last
 * Bits: those of norm_parts(), few_mma(), route() and group_expert(). */

enum { ROUTE_EARLY = 4, GROUP_IDS = NORM_ROUTE_SLOTS / THREADS };

/* The weights of a stage of a panel that a lane has: few_load() of numbered pairs. */
DEVICE struct few_weights pair_load(const struct norm_route_args *a, int pair, int n_panels,
                                    int first_stage, const int kind)
{
    const char *w = (const char *)a->router.weight +
                    (u64)(pair % n_panels) * (u64)a->linear.n_chunks * (2 * DENSE_PIECE);
    return few_load(&a->linear, w, first_stage + pair / n_panels, kind);
}

/* Gives the parts of a row y [dim] to the blocks that have its inputs. share: stages of a block */
DEVICE void give_parts(const float *y, u32 packed, int dim, int share, float factor, const int kind)
{
    const int parts = F16_PARTS(kind);
    for (int j = 4 * thread(); j < dim; j += 4 * THREADS) {
        f32x4 v = *(const f32x4 *)(y + j);
        u32 first[3], second[3];
        int to = j / (SUM_CHUNKS * CHUNK) / share, chunk = j / CHUNK - to * share * SUM_CHUNKS;
        split_f16(v[0] * factor, v[1] * factor, first, kind);
        split_f16(v[2] * factor, v[3] * factor, second, kind);
        UNROLL for (int q = 0; q < parts; q++)
        {
            int at = ((chunk * parts + q) * 2 + j / 4 % 2) * CLUSTER + cluster_rank();
            store_to_block(packed + (u32)(at * 4 + j % CHUNK / 8) * 8, to,
                           (u64)first[q] | (u64)second[q] << 32);
        }
    }
}

/* The products of a stage: few_stage() for CLUSTER rows. packed: of the stage */
DEVICE void pair_products(const struct few_weights *w, const u64 *packed, float part[2][4],
                          const int kind)
{
    const int parts = F16_PARTS(kind);
    int lane = thread() % WARP;
    UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++) part[j][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < parts; s++)
        UNROLL for (int h = 0; h < 2; h++)
    {
        u64 two = 0;
        if (lane < 4 * CLUSTER) two = packed[((c * parts + s) * 2 + h) * (4 * CLUSTER) + lane];
        UNROLL for (int j = 0; j < 2; j++)
        {
            if (kind == WEIGHT_BF16)
                mma_bf16(part[j], (u32)two, 0, (u32)(two >> 32), 0, w->q[c][j][2 * h],
                         w->q[c][j][2 * h + 1]);
            else
                mma_16x8x16(part[j], (u32)two, 0, (u32)(two >> 32), 0, w->q[c][j][2 * h],
                            w->q[c][j][2 * h + 1]);
        }
    }
}

/* The sum of n before this thread's, over the block. scratch [WARPS] */
DEVICE int sum_before(int n, int *scratch)
{
    int lane = thread() % WARP, warp = thread() / WARP, sum = n, before = 0;
    UNROLL for (int w = 1; w < WARP; w *= 2)
    {
        int other = (int)bits_of(shuffle_from(f32_of((u32)sum), lane - w));
        sum += lane >= w ? other : 0;
    }
    if (lane == WARP - 1) scratch[warp] = sum;
    barrier();
    UNROLL for (int i = 0; i < WARPS; i++) before += i < warp ? scratch[i] : 0;
    return before + sum - n;
}

/* Places and tiles of all experts' slots, by one block. Each row has an expert once, so that the
 * rows before a slot's that have its expert, a bit each, are the slots before it. lds: rows
 * [n_experts][n_words], first place [n_experts], WARPS numbers */
DEVICE void group_rows(const struct norm_route_args *a, u32 *lds)
{
    const struct expert_groups *g = &a->groups;
    int n = a->route.n, top_k = a->route.top_k, n_words = (a->linear.rows + 31) / 32,
        each = (n + THREADS - 1) / THREADS, from = thread() * each, tiles = 0;
    int to = from + each < n ? from + each : n;
    int *first = (int *)(lds + n * n_words), id[GROUP_IDS];
    UNROLL for (int j = 0; j < GROUP_IDS; j++)
    {
        int i = thread() + j * THREADS;
        id[j] = i < g->n_slots ? load_fresh_int(g->id + i) : -1;
    }
    for (int i = thread(); i < n * n_words; i += THREADS) lds[i] = 0;
    barrier();
    UNROLL for (int j = 0; j < GROUP_IDS; j++)
    {
        int row = (thread() + j * THREADS) / top_k;
        if (id[j] >= 0) set_bits(&lds[id[j] * n_words + row / 32], 1u << row % 32);
    }
    barrier();
    for (int e = from; e < to; e++) {
        int slots = 0;
        for (int w = 0; w < n_words; w++) slots += __builtin_popcount(lds[e * n_words + w]);
        tiles += (slots + g->tile - 1) / g->tile;
    }
    int tile = sum_before(tiles, first + n);
    if (thread() == THREADS - 1) *g->n_tiles = tile + tiles;
    for (int e = from; e < to; e++) {
        int slots = 0;
        first[e] = tile * g->tile;
        for (int w = 0; w < n_words; w++) slots += __builtin_popcount(lds[e * n_words + w]);
        for (; slots > 0; slots -= g->tile, tile++) {
            g->expert[tile] = e;
            g->end[tile] = tile * g->tile + (slots < g->tile ? slots : g->tile);
        }
    }
    barrier();
    UNROLL for (int j = 0; j < GROUP_IDS; j++)
    {
        if (id[j] < 0) break;
        int i = thread() + j * THREADS, row = i / top_k, place = first[id[j]];
        const u32 *rows = lds + id[j] * n_words;
        for (int w = 0; w < row / 32; w++) place += __builtin_popcount(rows[w]);
        place += __builtin_popcount(rows[row / 32] & ((1u << row % 32) - 1));
        g->slot[place] = i;
        g->place[i] = place;
    }
}

/* lds: sums of the row's stages [stages][16 panels], parts of the cluster's rows, the normed row;
 * then in place of the last two what route() needs and the scores; in place of all that what
 * group_rows() needs */
DEVICE void norm_route(const struct norm_route_args *a, u32 *lds, float *scratch, const int kind)
{
    const int parts = F16_PARTS(kind);
    LDS(int, last, 1);
    int t = thread(), lane = t % WARP, warp = warp_number(), row = block_x(), dim = a->norm.dim,
        there = row < a->linear.rows, n_panels = (a->router.out + PANEL - 1) / PANEL,
        stages = a->linear.n_chunks / SUM_CHUNKS, share = (stages + CLUSTER - 1) / CLUSTER,
        first = cluster_rank() * share, mine = stages - first < share ? stages - first : share,
        pairs = mine > 0 ? mine * n_panels : 0;
    float *sums = (float *)lds, *y;
    u32 *packed = lds + stages * n_panels * PANEL;
    struct few_weights early[ROUTE_EARLY];
    struct power_of_two power = {1, 1}, half = {1, 1};
    y = (float *)(packed + share * SUM_CHUNKS * parts * 2 * 8 * CLUSTER);
    cluster_arrive(); /* all blocks of the cluster run before one writes to another */
    UNROLL for (int k = 0; k < ROUTE_EARLY; k++)
        early[k] = pair_load(a, warp + k * WARPS < pairs ? warp + k * WARPS : 0, n_panels,
                             pairs ? first : 0, kind);
    for (int panel = row / CLUSTER; panel < n_panels && pairs; panel += grid_x() / CLUSTER)
        prefetch_lines((const char *)a->router.weight +
                           (u64)(panel * stages + first) * (2 * SUM_CHUNKS * DENSE_PIECE),
                       mine * (2 * SUM_CHUNKS * DENSE_PIECE));
    if (there) {
        float largest = router_norm(&a->norm, row, y, scratch, 1, 1);
        half = power_for(largest, 14);
        if (kind == WEIGHT_F16) power = half;
    } else {
        wait_for_producer();
    }
    cluster_wait();
    if (there) {
        give_parts(y, lds_address(packed), dim, share, power.factor, kind);
        if (a->half.packed) {
            f16 *to = (f16 *)a->half.packed + (u64)row * (u64)a->half.stride;
            for (int i = t; i < a->half.stride; i += THREADS)
                to[i] = i < dim ? (f16)(y[i] * half.factor) : (f16)0;
            if (t == 0) a->half.scale[row] = half.undo;
        }
        if (a->parts.packed) prepare_parts(&a->parts, y, row, scratch, kind, 1);
    }
    cluster_barrier();
    NO_UNROLL for (int of = warp; of < pairs; of += ROUTE_EARLY * WARPS)
    {
        UNROLL for (int k = 0; k < ROUTE_EARLY; k++)
        {
            int pair = of + k * WARPS, next = pair + ROUTE_EARLY * WARPS;
            if (pair >= pairs) break;
            float part[2][4];
            int stage = pair / n_panels;
            pair_products(&early[k],
                          (const u64 *)packed + stage * (SUM_CHUNKS * parts * 2 * 4 * CLUSTER),
                          part, kind);
            early[k] = pair_load(a, next < pairs ? next : 0, n_panels, first, kind);
            u32 to = lds_address(sums + ((first + stage) * n_panels + pair % n_panels) * PANEL +
                                 lane % 4 * 2);
            if (lane < 4 * CLUSTER)
                UNROLL for (int j = 0; j < 2; j++)
                    store_to_block(to + 32 * (u32)j, lane / 4,
                                   (u64)bits_of(part[j][0]) | (u64)bits_of(part[j][1]) << 32);
        }
    }
    cluster_barrier();
    if (!there) return;
    const struct route_shared l = route_shared_at(packed);
    float *scores = (float *)(l.id + MAX_TOP_K);
    for (int e = t; e < a->router.out; e += THREADS) {
        float sum = 0;
        UNROLL_8 for (int s = 0; s < stages; s++) sum += sums[s * n_panels * PANEL + e];
        sum *= power.undo;
        if (a->router.bias) sum += a->router.bias[e];
        scores[e] = sum;
        a->router.y[(u64)row * (u64)a->router.out + (u64)e] = sum;
    }
    barrier();
    route(&a->route, scores, row, &l, 1, 0);
    if (!a->groups.n_slots) return;
    barrier();
    if (t == 0) last[0] = count_block(a->counter) == a->linear.rows - 1;
    barrier();
    if (!last[0]) return;
    if (t == 0) *a->counter = 0;
    group_rows(a, lds);
}

KERNEL(norm_route_f16, struct norm_route_args)
{
    LDS(float, scratch, THREADS);
    norm_route(EARLY_ARGS, dynamic_lds, scratch, WEIGHT_F16);
}

KERNEL(norm_route_bf16, struct norm_route_args)
{
    LDS(float, scratch, THREADS);
    norm_route(EARLY_ARGS, dynamic_lds, scratch, WEIGHT_BF16);
}
