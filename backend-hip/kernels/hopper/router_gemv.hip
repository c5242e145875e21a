/* router_gemv.hip: the router of a single decode row on sm_90a with the norm that precedes it and
 * the preparation of the experts' input. A block of 256 threads computes a panel of 16 outputs;
 * every block computes the whole norm, block 0 writes it. Bits: those of norm_rows, prepare_row()
 * and linear_plain_mma.hip. */

/* Stages of a warp whose weights are in registers. */
enum { ROUTER_EARLY = 4 };

/* Splits a thread's pairs of the row y [dim] into parts. */
DEVICE void router_parts(const float *y, u32 *to, int dim, float factor, const int kind)
{
    const int parts = kind == WEIGHT_BF16 ? 3 : 2;
    for (int j = 2 * thread(); j < dim; j += 2 * THREADS) {
        u32 part[3];
        int at = (j / CHUNK * parts * 2 + j / 4 % 2) * 8 + j % CHUNK / 8 * 2 + j % 4 / 2;
        split_two(y[j] * factor, y[j + 1] * factor, part, kind);
        UNROLL for (int q = 0; q < parts; q++) to[at + q * 16] = part[q];
    }
}

DEVICE void norm_router(const struct norm_router_args *a, u32 *lds, float *scratch, const int kind)
{
    const int parts = kind == WEIGHT_BF16 ? 3 : 2;
    const struct linear_args *l = &a->linear;
    struct linear_part p = part_of(l, block_x());
    const struct norm_args *n = &a->norm;
    int t = thread(), dim = n->dim, n_items = l->n_chunks / SUM_CHUNKS;
    const char *w = (const char *)p.weight +
                    (u64)(block_x() - p.first) * (u64)l->n_chunks * (2 * DENSE_PIECE);
    u32 *packed = lds;
    float *y = (float *)(lds + l->n_chunks * parts * 16), *sums = y + dim, sum = 0, largest = 0;
    struct power_of_two power = {1, 1};
    struct few_weights early[ROUTER_EARLY];
    UNROLL for (int i = 0; i < ROUTER_EARLY; i++) early[i] = few_load(l, w, t / WARP + i * WARPS);
    wait_for_producer();
    for (int i = t; i < dim; i += THREADS) {
        float v = n->x[i];
        y[i] = v;
        sum = fma32(v, v, sum);
    }
    float f = rsqrt32(block_sum(sum, scratch) / (float)dim + n->eps);
    for (int i = t; i < dim; i += THREADS) {
        float v = y[i] * f * n->weight[i];
        y[i] = v;
        largest = max32(abs32(v), largest);
        if (block_x() == 0 && n->out) n->out[i] = v;
    }
    largest = block_max(largest, scratch);
    if (kind == WEIGHT_F16) power = power_for(largest, 14);
    router_parts(y, packed, dim, power.factor, kind);
    if (block_x() == 0 && a->packed) {
        struct power_of_two half = power_for(largest, 14);
        for (int i = t; i < a->stride; i += THREADS)
            ((f16 *)a->packed)[i] = i < dim ? (f16)(y[i] * half.factor) : (f16)0;
        if (t == 0) *a->scale = half.undo;
    }
    barrier();
    for (int first = t / WARP; first < n_items; first += ROUTER_EARLY * WARPS) {
        UNROLL for (int k = 0; k < ROUTER_EARLY; k++)
        {
            int item = first + k * WARPS;
            float part[2][4];
            if (item >= n_items) continue;
            few_stage(l, &early[k], packed, item, part, kind, 1);
            if (t % WARP < 4) UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 2; i++)
                sums[item * PANEL + 8 * j + 2 * (t % 4) + i] = part[j][i];
        }
        UNROLL for (int k = 0; k < ROUTER_EARLY; k++)
            early[k] = few_load(l, w, first + (ROUTER_EARLY + k) * WARPS);
    }
    barrier();
    int output = (block_x() - p.first) * PANEL + t;
    if (t >= PANEL || output >= p.out) return;
    sum = 0;
    for (int item = 0; item < n_items; item++) sum += sums[item * PANEL + t];
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
