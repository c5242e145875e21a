/* hopper/delta_gated.hip: the delta rule for sequences of one row (common/delta.hip) on sm_90a with
 * the norm of each head's result and its gate, for values of CLUSTER blocks of columns. The blocks
 * of a head are a cluster and read each other's results. A block's columns of the state are loaded
 * before the producer launch has ended. Bits: those of delta_one(), norm_groups and glu. */

/* The factor of a head's norm; the results of block i of the cluster are at `result` of its shared
 * memory. */
DEVICE float gated_factor(u32 result, float eps)
{
    float o[CLUSTER][4], sum = 0;
    UNROLL for (int i = 0; i < CLUSTER; i++) UNROLL for (int e = 0; e < 4; e++)
        o[i][e] = load_of_block(result + (u32)(4 * (thread() % 8 * 4 + e)), i);
    UNROLL for (int i = 0; i < CLUSTER; i++) UNROLL for (int e = 0; e < 4; e++)
        sum = fma32(o[i][e], o[i][e], sum);
    return rsqrt32(sum_of_8(sum) / (float)(CLUSTER * DELTA_COLUMNS) + eps);
}

KERNEL(delta_gated_128, struct delta_gated_args)
{
    enum { DIMS = 128 };
    const struct delta_gated_args *g = EARLY_ARGS;
    const struct delta_args *a = &g->delta;
    LDS(float, lds, DELTA_STAGE(DIMS, 1));
    LDS(float, result, DELTA_COLUMNS);
    struct delta_block b = delta_block_of(a);
    struct delta_chunk chunk = delta_chunk_of(a, &b, lds, DIMS, 1);
    struct delta_loads l;
    struct delta_columns c;
    int column = b.column0 + thread() % DELTA_COLUMNS;
    u64 offset = (u64)b.row * (u64)chunk.stride + (u64)(b.head * a->value_dim + column);
    chunk.n = 1; /* a constant */
    chunk.out = result + chunk.pair * 2;
    chunk.stride = 0;
    delta_read(a, &b, &c, DIMS);
    float weight = g->norm[column];
    wait_for_producer();
    l.t = thread();
    l.row = b.row;
    delta_load(a, &b, &l, DIMS, 1, 0);
    float gate = g->gate[offset];
    delta_store(a, &b, &l, &chunk.s, DIMS, 1, 0);
    barrier();
    delta_rows(&c, &chunk, DIMS);
    cluster_barrier();
    if (thread() < DELTA_COLUMNS) {
        float f = gated_factor(lds_address(result), g->eps);
        g->gate[offset] = gated(gate, result[thread()] * f * weight, 0);
    }
    cluster_arrive(); /* no block ends while another reads its results */
    delta_write(a, &b, &c, DIMS);
    cluster_wait();
}
