/* router_gemv.hip: the router of a single decode row on sm_90a with the norm that precedes it and
 * the preparation of the experts' input. A block of 256 threads computes half a panel, 8 outputs;
 * every block computes the whole norm, the last one writes it and what the experts read. Bits:
 * those of norm_rows, prepare_row() and linear_plain_mma.hip. */

/* Stages of a warp whose weights are in registers; outputs of a block. */
enum { ROUTER_EARLY = 4, ROUTER_OUTPUTS = PANEL / 2 };

struct router_weights {
    u32x4 q[SUM_CHUNKS];
};

/* The weights that a lane has of a stage. w: the half panel's */
DEVICE struct router_weights router_load(const struct linear_args *a, const char *w, int item)
{
    const u32x4 none = {0, 0, 0, 0};
    struct router_weights v;
    int lane = thread() % WARP;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
    {
        int chunk = item * SUM_CHUNKS + c;
        const u32x4 *from = (const u32x4 *)(w + (u64)chunk * (2 * DENSE_PIECE) +
                                            (lane % 4 * PANEL + lane / 4) * 16);
        v.q[c] = chunk < a->n_chunks ? *from : none;
    }
    return v;
}

/* The products of stages first, first + WARPS, .., one after another, by few_stage() for half a
 * panel. */
DEVICE void router_stages(const struct linear_args *a, const struct router_weights *w,
                          const u32 *packed, int first, float part[][4], const int kind)
{
    const int parts = F16_PARTS(kind);
    int lane = thread() % WARP;
    UNROLL for (int k = 0; k < ROUTER_EARLY; k++) UNROLL for (int i = 0; i < 4; i++) part[k][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int s = 0; s < parts; s++)
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int k = 0; k < ROUTER_EARLY; k++)
    {
        int chunk = (first + k * WARPS) * SUM_CHUNKS + c;
        u64 two = 0;
        if (lane < 4 && chunk < a->n_chunks)
            two = ((const u64 *)packed)[((chunk * parts + s) * 2 + h) * 4 + lane];
        if (kind == WEIGHT_BF16)
            mma_bf16(part[k], (u32)two, 0, (u32)(two >> 32), 0, w[k].q[c][2 * h],
                     w[k].q[c][2 * h + 1]);
        else
            mma_16x8x16(part[k], (u32)two, 0, (u32)(two >> 32), 0, w[k].q[c][2 * h],
                        w[k].q[c][2 * h + 1]);
    }
}

/* Splits a thread's pairs of the row y [dim] into parts. */
DEVICE void router_parts(const float *y, u32 *to, int dim, float factor, const int kind)
{
    const int parts = F16_PARTS(kind);
    for (int j = 2 * thread(); j < dim; j += 2 * THREADS) {
        u32 part[3];
        int index = (j / CHUNK * parts * 2 + j / 4 % 2) * 8 + j % CHUNK / 8 * 2 + j % 4 / 2;
        split_f16(y[j] * factor, y[j + 1] * factor, part, kind);
        UNROLL for (int q = 0; q < parts; q++) to[index + q * 16] = part[q];
    }
}

/* Norms the row into y [dim]; returns its largest magnitude. adds: n->delta may be given */
DEVICE float router_norm(const struct norm_args *n, int row, float *y, float *scratch, int writes,
                         const int adds)
{
    enum { PIECES = ROUTER_INPUTS / THREADS };
    int t = thread(), dim = n->dim;
    u64 offset = (u64)row * (u64)dim;
    float *x = n->x + offset, v[PIECES], weight[PIECES], sum = 0, largest = 0;
    UNROLL for (int j = 0; j < PIECES; j++)
        weight[j] = t + j * THREADS < dim ? n->weight[t + j * THREADS] : 0;
    wait_for_producer();
    UNROLL for (int j = 0; j < PIECES; j++) v[j] = t + j * THREADS < dim ? x[t + j * THREADS] : 0;
    if (adds && n->delta) {
        float delta[PIECES];
        UNROLL for (int j = 0; j < PIECES; j++)
            delta[j] = t + j * THREADS < dim ? n->delta[offset + (u64)(t + j * THREADS)] : 0;
        UNROLL for (int j = 0; j < PIECES; j++) if (t + j * THREADS < dim)
            x[t + j * THREADS] = v[j] = v[j] + delta[j];
    }
    UNROLL for (int j = 0; j < PIECES; j++) sum = fma32(v[j], v[j], sum);
    float f = rsqrt32(block_sum(sum, scratch) / (float)dim + n->eps);
    UNROLL for (int j = 0; j < PIECES; j++)
    {
        int i = t + j * THREADS;
        if (i >= dim) continue;
        v[j] = v[j] * f * weight[j];
        y[i] = v[j];
        largest = max32(abs32(v[j]), largest);
        if (writes && n->out) n->out[offset + (u64)i] = v[j];
    }
    return block_max(largest, scratch);
}

DEVICE void norm_router(const struct norm_router_args *a, u32 *lds, float *scratch, const int kind)
{
    const int parts = F16_PARTS(kind);
    const struct linear_args *l = &a->linear;
    int t = thread(), dim = a->norm.dim, n_items = l->n_chunks / SUM_CHUNKS,
        panel = block_x() / 2 < l->n_blocks ? block_x() / 2 : 0, half = block_x() % 2,
        is_last = block_x() == 2 * l->n_blocks;
    struct linear_part p = part_of(l, panel);
    const char *w = (const char *)p.weight +
                    (u64)(panel - p.first) * (u64)l->n_chunks * (2 * DENSE_PIECE) + half * 128;
    u32 *packed = lds;
    float *y = (float *)(lds + l->n_chunks * parts * 16), *sums = y + dim, sum = 0;
    struct power_of_two power = {1, 1};
    struct router_weights early[ROUTER_EARLY];
    UNROLL for (int i = 0; i < ROUTER_EARLY; i++)
        early[i] = router_load(l, w, t / WARP + i * WARPS);
    float largest = router_norm(&a->norm, 0, y, scratch, is_last, 0);
    if (is_last) {
        power = power_for(largest, 14);
        for (int i = t; i < a->stride; i += THREADS)
            ((f16 *)a->packed)[i] = i < dim ? (f16)(y[i] * power.factor) : (f16)0;
        if (t == 0) *a->scale = power.undo;
        return;
    }
    if (kind == WEIGHT_F16) power = power_for(largest, 14);
    router_parts(y, packed, dim, power.factor, kind);
    barrier();
    for (int first = t / WARP; first < n_items; first += ROUTER_EARLY * WARPS) {
        float part[ROUTER_EARLY][4];
        router_stages(l, early, packed, first, part, kind);
        UNROLL for (int k = 0; k < ROUTER_EARLY;
                    k++) if (t % WARP < 4 && first + k * WARPS < n_items)
            UNROLL for (int i = 0; i < 2; i++)
                sums[(first + k * WARPS) * ROUTER_OUTPUTS + 2 * (t % 4) + i] = part[k][i];
        UNROLL for (int k = 0; k < ROUTER_EARLY; k++)
            early[k] = router_load(l, w, first + (ROUTER_EARLY + k) * WARPS);
    }
    barrier();
    int output = (panel - p.first) * PANEL + half * ROUTER_OUTPUTS + t;
    if (t >= ROUTER_OUTPUTS || output >= p.out) return;
    UNROLL_8 for (int item = 0; item < n_items; item++) sum += sums[item * ROUTER_OUTPUTS + t];
    sum *= power.undo;
    p.y[output] = p.bias ? sum + p.bias[output] : sum;
}

KERNEL(norm_router_f16, struct norm_router_args)
{
    LDS(float, scratch, THREADS);
    norm_router(EARLY_ARGS, dynamic_lds, scratch, WEIGHT_F16);
}

KERNEL(norm_router_bf16, struct norm_router_args)
{
    LDS(float, scratch, THREADS);
    norm_router(EARLY_ARGS, dynamic_lds, scratch, WEIGHT_BF16);
}
