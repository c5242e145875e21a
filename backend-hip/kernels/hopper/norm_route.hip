/* hopper/norm_route.hip: norm, router and choice of experts of decode rows on sm_90a, with the
 * preparation of the experts' input and the grouping of the slots by expert.
 *   grid      clusters of ROUTE_CLUSTER blocks of 256 threads; a block has one row or, where there
 *             are many, two: rows r and r + 8 of the matrix operand are those of block r
 *   norm      of the block's rows, whose parts go to the blocks that have the inputs
 *   products  a block has an equal share of the inputs, in stages of 64, for the rows of its
 *             cluster and all experts; a warp takes (stage, panel of 16 experts) in turn, the
 *             weights of ROUTE_EARLY of them are loaded before the producer launch has ended
 *   sums      those of a stage go to the block of the row, which adds them in order
 *   choice    by a warp for each row, if it can (route_args.by_warp); else by another launch. The
 *             other warps write the experts' input
 *   groups    by the block that ends last
 * Bits: those of norm_parts(), few_mma(), route() and group_expert(). Beside it the choice alone,
 * of rows of any kind. */

enum { ROUTE_EARLY = 4, GROUP_IDS = NORM_ROUTE_SLOTS / THREADS, NORM_PIECES = 8 };

/* The weights that a lane has of a pair (stage, panel): few_load(), which is the same for halves
 * and bfloats. */
DEVICE struct few_weights pair_load(const struct norm_route_args *a, int pair, int n_panels,
                                    int first_stage)
{
    const char *w = (const char *)a->router.weight +
                    (u64)(pair % n_panels) * (u64)a->linear.n_chunks * (2 * DENSE_PIECE);
    return few_load(&a->linear, w, first_stage + pair / n_panels, WEIGHT_BF16);
}

/* The number of the block's row r. A cluster's rows are dealt to its blocks; numbers from n_rows on
 * do not exist. */
DEVICE int route_row(const struct norm_route_args *a, int r)
{
    return block_x() / ROUTE_CLUSTER * (ROUTE_CLUSTER * a->of_block) + r * ROUTE_CLUSTER +
           cluster_rank();
}

/* Norms the block's rows into y [rows][dim]. scratch [ROUTE_ROWS][THREADS] gets the largest
 * magnitude of each thread, to be read after a barrier. weight [dim]: the norm's, whose copy may be
 * in flight */
DEVICE void route_norm(const struct norm_route_args *a, float *y, const float *weight,
                       float *scratch, int n_rows)
{
    const struct norm_args *n = &a->norm;
    int t = thread(), dim = n->dim;
    float sum[ROUTE_ROWS] = {0, 0};
    for (int from = t; from < dim; from += NORM_PIECES * THREADS) {
        float v[ROUTE_ROWS][NORM_PIECES], delta[ROUTE_ROWS][NORM_PIECES];
        UNROLL for (int r = 0; r < ROUTE_ROWS; r++) if (r < n_rows)
            UNROLL for (int j = 0; j < NORM_PIECES; j++)
        {
            int i = from + j * THREADS;
            u64 offset = (u64)route_row(a, r) * (u64)dim + (u64)(i < dim ? i : t);
            v[r][j] = load_fresh(n->x + offset);
            delta[r][j] = n->delta ? load_fresh(n->delta + offset) : 0;
        }
        UNROLL for (int r = 0; r < ROUTE_ROWS; r++) if (r < n_rows)
            UNROLL for (int j = 0; j < NORM_PIECES; j++)
        {
            int i = from + j * THREADS;
            if (i >= dim) break;
            if (n->delta)
                n->x[(u64)route_row(a, r) * (u64)dim + (u64)i] = v[r][j] = v[r][j] + delta[r][j];
            y[r * dim + i] = v[r][j];
            sum[r] = fma32(v[r][j], v[r][j], sum[r]);
        }
    }
    COPIES_WAIT(0);
    UNROLL for (int r = 0; r < ROUTE_ROWS; r++) scratch[r * THREADS + t] = sum[r];
    barrier();
    UNROLL for (int r = 0; r < ROUTE_ROWS; r++) sum[r] = warp_tree(scratch + r * THREADS, 0);
    barrier();
    NO_UNROLL for (int r = 0; r < n_rows; r++)
    {
        u64 offset = (u64)route_row(a, r) * (u64)dim;
        float f = rsqrt32((r ? sum[1] : sum[0]) / (float)dim + n->eps), largest = 0;
        UNROLL_4 for (int i = t; i < dim; i += THREADS)
        {
            float v = y[r * dim + i] * f * weight[i];
            y[r * dim + i] = v;
            largest = max32(abs32(v), largest);
            if (n->out) n->out[offset + (u64)i] = v;
        }
        scratch[r * THREADS + t] = largest;
    }
}

/* Sends the parts of the block's row r, y [dim], to the blocks that multiply its inputs. share:
 * stages of a block */
DEVICE void give_parts(const float *y, u32 packed, int dim, int share, int r, int of_block,
                       float factor, int is_bf16)
{
    const int parts = F16_PARTS(WEIGHT_BF16);
    for (int j = 4 * thread(); j < dim; j += 4 * THREADS) {
        f32x4 v = *(const f32x4 *)(y + j) * factor;
        u32 first[3], second[3];
        int to = j / (SUM_CHUNKS * CHUNK) / share, chunk = j / CHUNK - to * share * SUM_CHUNKS;
        if (is_bf16) {
            split_f16(v[0], v[1], first, WEIGHT_BF16);
            split_f16(v[2], v[3], second, WEIGHT_BF16);
        } else {
            split_f16(v[0], v[1], first, WEIGHT_F16);
            split_f16(v[2], v[3], second, WEIGHT_F16);
        }
        UNROLL for (int q = 0; q < parts; q++)
        {
            int index = (((chunk * parts + q) * 2 + j / 4 % 2) * of_block + r) * WARP +
                        cluster_rank() * 4 + j % CHUNK / 8;
            store_to_block(packed + (u32)index * 8, to, (u64)first[q] | (u64)second[q] << 32);
        }
    }
}

/* The products of two pairs (stage, panel): few_stage() for the cluster's rows. packed: parts of
 * the pairs' stages */
DEVICE void pair_products(const struct few_weights w[2], const u64 *const packed[2], int of_block,
                          float part[2][2][4], const int kind)
{
    const int parts = F16_PARTS(kind);
    int lane = thread() % WARP;
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int j = 0; j < 2; j++)
        UNROLL for (int i = 0; i < 4; i++) part[k][j][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < parts; s++)
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int k = 0; k < 2; k++)
    {
        const u64 *from = packed[k] + ((c * parts + s) * 2 + h) * of_block * WARP + lane;
        u64 first = from[0], second = of_block > 1 ? from[WARP] : 0;
        const u32x4 *q = w[k].q[c];
        UNROLL for (int j = 0; j < 2; j++)
        {
            if (kind == WEIGHT_BF16)
                mma_bf16(part[k][j], (u32)first, (u32)second, (u32)(first >> 32),
                         (u32)(second >> 32), q[j][2 * h], q[j][2 * h + 1]);
            else
                mma_16x8x16(part[k][j], (u32)first, (u32)second, (u32)(first >> 32),
                            (u32)(second >> 32), q[j][2 * h], q[j][2 * h + 1]);
        }
    }
}

/* Writes the block's rows y as halves, by the threads from `first` on. largest: the rows' largest
 * magnitudes */
DEVICE void write_halves(const struct norm_route_args *a, const float *y, const float *largest,
                         int n_rows, int first)
{
    const struct prepare_args *half = &a->half;
    int dim = a->norm.dim;
    NO_UNROLL for (int r = 0; r < n_rows; r++)
    {
        int row = route_row(a, r);
        struct power_of_two p = power_for(largest[r], 14);
        f16 *to = (f16 *)half->packed + (u64)row * (u64)half->stride;
        UNROLL_4 for (int i = thread() - first; i < half->stride; i += THREADS - first) to[i] =
            i < dim ? (f16)(y[r * dim + i] * p.factor) : (f16)0;
        if (thread() == first) half->scale[row] = p.undo;
    }
}

/* What the block's share of the products needs. */
struct route_share {
    int n_panels, stages, first, n_pairs; /* first: the block's first stage */
};

/* Multiplies the block's pairs (stage, panel) and sends their sums to the blocks of the rows.
 * early: weights of a warp's first pairs; packed: the parts of the cluster's rows; sums [rows of a
 * block][stages][16 panels] */
DEVICE void route_products(const struct norm_route_args *a, const struct route_share *s,
                           struct few_weights early[ROUTE_EARLY], const u64 *packed,
                           const float *sums)
{
    const int of_stage = SUM_CHUNKS * F16_PARTS(WEIGHT_BF16) * 2 * WARP;
    int lane = thread() % WARP, warp = warp_number(), of_block = a->of_block;
    NO_UNROLL for (int count = warp; count < s->n_pairs; count += ROUTE_EARLY * WARPS)
        UNROLL for (int k = 0; k < ROUTE_EARLY; k += 2)
    {
        int pair = count + k * WARPS, follows = pair + WARPS < s->n_pairs;
        if (pair >= s->n_pairs) break;
        float part[2][2][4];
        const u64 *const from[2] = {packed + pair / s->n_panels * of_stage * of_block,
                                    packed + (follows ? (pair + WARPS) / s->n_panels : 0) *
                                                 of_stage * of_block};
        if (a->is_bf16) pair_products(early + k, from, of_block, part, WEIGHT_BF16);
        else pair_products(early + k, from, of_block, part, WEIGHT_F16);
        UNROLL for (int i = 0; i < 2; i++)
        {
            int now = pair + i * WARPS, next = now + ROUTE_EARLY * WARPS;
            if (next < s->n_pairs) early[k + i] = pair_load(a, next, s->n_panels, s->first);
            u32 to = lds_address(
                sums + ((s->first + now / s->n_panels) * s->n_panels + now % s->n_panels) * PANEL +
                lane % 4 * 2);
            if (i && !follows) break;
            UNROLL for (int r = 0; r < ROUTE_ROWS; r++) if (r < of_block)
                UNROLL for (int j = 0; j < 2; j++) store_to_block(
                    to + (u32)(r * s->stages * s->n_panels * PANEL * 4 + 32 * j), lane / 4,
                    (u64)bits_of(part[i][j][2 * r]) | (u64)bits_of(part[i][j][2 * r + 1]) << 32);
        }
    }
}

/* route() by a warp. score [experts]: the router's outputs, which become scores; ids [WARP]; each:
 * scores of a lane */
DEVICE void route_scores_of(const struct route_args *a, float *score, int *ids, int row,
                            const int each)
{
    int lane = thread() % WARP, n = a->n;
    float v[WARP_SCORES], lanes[WARPS], sum, maximum = -__builtin_inff();
    u32 key[WARP_SCORES], top;
    UNROLL for (int j = 0; j < each; j++)
    {
        v[j] = j * WARP + lane < n ? score[j * WARP + lane] : -__builtin_inff();
        maximum = max32(maximum, v[j]);
    }
    maximum = of_ordered(max_of_warp(ordered_bits(maximum)));
    UNROLL for (int j = 0; j < WARPS; j++) lanes[j] = 0;
    UNROLL for (int j = 0; j < each; j++)
    {
        int i = j * WARP + lane;
        float s = exp32(a->sigmoid ? -v[j] : v[j] - maximum);
        s = a->sigmoid ? rcp32(1 + s) : s;
        key[j] = i < n ? ordered_bits(a->bias ? s + a->bias[i] : v[j]) : 0;
        lanes[j % WARPS] += i < n ? s : 0;
        v[j] = s;
    }
    sum = tree_of_lanes(lanes, 0);
    float r = rcp32(sum);
    UNROLL for (int j = 0; j < each; j++)
    {
        float q = v[j] * r;
        if (j * WARP + lane < n)
            score[j * WARP + lane] = a->sigmoid ? v[j] : fma32(fma32(-q, sum, v[j]), r, q);
    }
    int own = chosen_of_keys(a, key, ids, &top, each), bad = sum != sum;
    float count = own >= 0 && !bad ? score[own] : 0, all = 0;
    if (a->normalize) {
        NO_UNROLL for (int from = 0; from < a->top_k; from += 8) UNROLL for (int j = 0; j < 8; j++)
        {
            float other = shuffle_from(count, (from + j) % WARP);
            if (from + j < a->top_k) all += other;
        }
        float by = rcp32(all), q = count * by;
        count = fma32(fma32(-q, all, count), by, q);
    }
    if (lane >= a->top_k) return;
    u64 to = (u64)row * (u64)a->top_k + (u64)lane;
    count *= a->scale;
    a->id[to] = bad ? lane : own;
    a->weight[to] = bad ? f32_of(0x7fc00000u) : a->factor ? count * a->factor[own] : count;
}

/* Makes the choice by a warp; only with a->by_warp. */
DEVICE void route_by_warp(const struct route_args *a, float *score, int *ids, int row)
{
    if (a->n <= FEW_EXPERTS) route_scores_of(a, score, ids, row, FEW_EXPERTS / WARP);
    else route_scores_of(a, score, ids, row, WARP_SCORES);
}

/* The sum of the numbers n of all threads before this one. scratch [WARPS] */
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

/* Gives the slots of all experts places and tiles, by one block. A row has an expert at most once,
 * so the slots before a slot are the rows before its row that have its expert; a bit stands for
 * each row. lds: rows [n_words][n_experts]; places of the experts' first slots, twice; WARPS
 * numbers */
DEVICE void group_rows(const struct expert_groups *g, int n, int top_k, int rows, u32 *lds)
{
    int n_words = (rows + 31) / 32, each = (n + THREADS - 1) / THREADS, from = thread() * each, tiles = 0;
    int to = from + each < n ? from + each : n;
    int *before = (int *)(lds + n * n_words), id[GROUP_IDS];
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
        if (id[j] >= 0) set_bits(&lds[row / 32 * n + id[j]], 1u << row % 32);
    }
    barrier();
    for (int e = from; e < to; e++) {
        int slots = 0;
        UNROLL_8 for (int w = 0; w < n_words; w++)
        {
            before[w * n + e] = slots;
            slots += __builtin_popcount(lds[w * n + e]);
        }
        tiles += (slots + g->tile - 1) / g->tile;
    }
    int tile = sum_before(tiles, before + n * n_words);
    if (thread() == THREADS - 1) *g->n_tiles = tile + tiles;
    for (int e = from; e < to; e++) {
        int last = (n_words - 1) * n + e, first = tile * g->tile,
            slots = before[last] + __builtin_popcount(lds[last]);
        UNROLL_8 for (int w = 0; w < n_words; w++) before[w * n + e] += first;
        for (; slots > 0; slots -= g->tile, tile++) {
            g->expert[tile] = e;
            g->end[tile] = tile * g->tile + (slots < g->tile ? slots : g->tile);
        }
    }
    barrier();
    UNROLL for (int j = 0; j < GROUP_IDS; j++)
    {
        int i = thread() + j * THREADS, row = i / top_k, index = row / 32 * n + id[j];
        if (id[j] < 0) continue;
        int place = before[index] + __builtin_popcount(lds[index] & ((1u << row % 32) - 1));
        g->slot[place] = i;
        g->place[i] = place;
    }
}

/* lds: the norm's weights, then in their place the sums of the rows' stages [rows][stages][16
 * panels]; the parts of the cluster's rows, then the scores of the block's; the normed rows. What
 * group_rows() needs takes the place of all that. */
DEVICE void route_decode_rows(const struct norm_route_args *a, u32 *lds, float *scratch)
{
    const int parts = F16_PARTS(WEIGHT_BF16);
    LDS(int, last, 1);
    LDS(int, ids, ROUTE_ROWS * WARP);
    LDS(float, undo, ROUTE_ROWS);
    LDS(float, largest, ROUTE_ROWS);
    int t = thread(), warp = warp_number(), dim = a->norm.dim, of_block = a->of_block,
        out = a->router.out, n_panels = (out + PANEL - 1) / PANEL,
        stages = a->linear.n_chunks / SUM_CHUNKS,
        share = (stages + ROUTE_CLUSTER - 1) / ROUTE_CLUSTER, first = cluster_rank() * share,
        own = stages - first < share ? stages - first : share, pairs = own > 0 ? own * n_panels : 0;
    const struct route_share portion = {n_panels, stages, first, pairs};
    float *sums = (float *)lds, *y, *scores;
    int of_sums = of_block * stages * n_panels * PANEL;
    u32 *packed = lds + (of_sums > dim ? of_sums : dim);
    struct few_weights early[ROUTE_EARLY];
    int n_rows = 0;
    UNROLL for (int r = 0; r < ROUTE_ROWS; r++)
        n_rows += r < of_block && route_row(a, r) < a->linear.rows;
    y = (float *)(packed + share * SUM_CHUNKS * parts * 2 * 2 * WARP * of_block);
    scores = (float *)packed;
    cluster_arrive(); /* all blocks of the cluster run before one writes to another */
    UNROLL for (int k = 0; k < ROUTE_EARLY; k++)
        early[k] = pair_load(a, warp + k * WARPS < pairs ? warp + k * WARPS : 0, n_panels,
                             pairs ? first : 0);
    if (pairs > ROUTE_EARLY * WARPS)
        for (int panel = block_x() / ROUTE_CLUSTER; panel < n_panels;
             panel += grid_x() / ROUTE_CLUSTER)
            prefetch_lines((const char *)a->router.weight +
                               (u64)(panel * stages + first) * (2 * SUM_CHUNKS * DENSE_PIECE),
                           own * (2 * SUM_CHUNKS * DENSE_PIECE));
    for (int i = 4 * t; i < dim; i += 4 * THREADS)
        copy_16(lds_address(sums + i), a->norm.weight + i);
    copies_commit();
    wait_for_producer();
    route_norm(a, y, sums, scratch, n_rows);
    barrier();
    cluster_wait();
    NO_UNROLL for (int r = 0; r < n_rows; r++)
    {
        struct power_of_two p = {1, 1};
        if (!a->is_bf16) p = power_for(warp_tree(scratch + r * THREADS, 1), 14);
        if (t == 0) undo[r] = p.undo;
        give_parts(y + r * dim, lds_address(packed), dim, share, r, of_block, p.factor, a->is_bf16);
    }
    cluster_arrive_written();
    if (warp < n_rows) {
        float maximum = warp_tree(scratch + warp * THREADS, 1);
        if (t % WARP == 0) largest[warp] = maximum;
    }
    cluster_wait();
    route_products(a, &portion, early, (const u64 *)packed, sums);
    cluster_arrive_written();
    NO_UNROLL for (int r = 0; a->parts.packed && r < n_rows; r++)
    {
        barrier(); /* scratch may be read */
        if (a->is_bf16)
            prepare_parts(&a->parts, y + r * dim, route_row(a, r), scratch, WEIGHT_BF16, 1);
        else prepare_parts(&a->parts, y + r * dim, route_row(a, r), scratch, WEIGHT_F16, 1);
    }
    cluster_wait();
    for (int i = t; i < n_rows * out; i += THREADS) {
        int r = i >= out, row = route_row(a, r), e = i - r * out;
        const float *from = sums + r * stages * n_panels * PANEL + e;
        float sum = 0;
        UNROLL_8 for (int s = 0; s < stages; s++) sum += from[s * n_panels * PANEL];
        sum *= undo[r];
        if (a->router.bias) sum += a->router.bias[e];
        if (a->route.by_warp) scores[i] = sum;
        a->router.y[(u64)row * (u64)out + (u64)e] = sum;
    }
    int choosing = a->route.by_warp ? n_rows : 0;
    barrier();
    if (warp < choosing)
        route_by_warp(&a->route, scores + warp * out, ids + warp * WARP, route_row(a, warp));
    else if (a->half.packed) write_halves(a, y, largest, n_rows, choosing * WARP);
    if (!a->groups.n_slots) return;
    barrier();
    if (t == 0) last[0] = count_block(a->counter) == grid_x() - 1;
    barrier();
    if (!last[0]) return;
    if (t == 0) *a->counter = 0;
    group_rows(&a->groups, a->route.n, a->route.top_k, a->linear.rows, lds);
}

KERNEL(norm_route, struct norm_route_args)
{
    LDS(float, scratch, ROUTE_ROWS * THREADS);
    route_decode_rows(EARLY_ARGS, dynamic_lds, scratch);
}

/* A row to a warp, of up to SOME_EXPERTS experts. A block alone also groups the slots. */
KERNEL(route_warps, struct route_warps_args)
{
    LDS(float, scores, WARPS * SOME_EXPERTS);
    LDS(int, ids, THREADS);
    const struct route_args *a = &ARGS->route;
    const struct expert_groups *g = &EARLY_ARGS->groups;
    int warp = warp_number(), row = block_x() * WARPS + warp;
    if (row < a->rows) {
        float *score = scores + warp * SOME_EXPERTS;
        for (int i = thread() % WARP; i < a->n; i += WARP)
            score[i] = a->x[(u64)row * (u64)a->n + (u64)i];
        if (a->n <= FEW_EXPERTS)
            route_scores_of(a, score, ids + warp * WARP, row, FEW_EXPERTS / WARP);
        else route_scores_of(a, score, ids + warp * WARP, row, SOME_EXPERTS / WARP);
    }
    if (!g->n_slots) return;
    barrier();
    group_rows(g, a->n, a->top_k, a->rows, (u32 *)scores);
}
