/* exact_linear_mma.hip: 4-bit linears of many rows in the CPU's order, to the bit
 * (common/exact_linear.hip). Block (64 rows, 8 panels): a warp has a panel and all rows. The
 * integers of 4 chunks are in shared memory, those of the next 4 on their way there. */

/* Copies 4 chunks of the digits of the block's rows; chunks and rows that are not there become
 * zeros. */
DEVICE void exact_stage(const struct exact_digits *x, u32 to, int row0, int n_rows, int chunk,
                        int n_chunks, const int digits)
{
    UNROLL for (int i = 0; i < EXACT_MMA_ROWS * 8 / THREADS * digits; i++)
    {
        int at = i * THREADS + thread(), part = at % 8, row = at / 8 % EXACT_MMA_ROWS,
            d = at / (8 * EXACT_MMA_ROWS),
            there = row0 + row < n_rows && chunk + part / 2 < n_chunks;
        const u8 *from = (const u8 *)x->digit;
        if (there)
            from += (u64)((row0 + row) * x->digits + d) * (u64)x->stride +
                    (u64)(chunk * CHUNK + part * 16);
        copy_16_or_zeros(to + (u32)((d * EXACT_MMA_ROWS + row) * EXACT_MMA_STRIDE + part * 16),
                         from, there);
    }
}

enum { EXACT_TILES = EXACT_MMA_ROWS / 8 };

/* total += the terms of a sub-group; sum becomes 0. x: scales and sums of the lane's first row */
DEVICE void exact_mma_add(const struct exact_scaled *x, int rows, const struct exact_scale w[2],
                          int sum[EXACT_TILES][2][4], float total[EXACT_TILES][4], const int digits)
{
    UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
    {
        int v = digits == 2 ? sum[i][0][e] * 128 + sum[i][1][e] : sum[i][0][e];
        struct exact_scaled of = {0, 0};
        if (8 * i + e % 2 < rows) of = x[8 * i + e % 2];
        total[i][e] = total[i][e] + exact_term(&of, &w[e / 2], v);
        sum[i][0][e] = sum[i][1][e] = 0;
    }
}

DEVICE void exact_mma(const struct exact_linear_args *a, const int digits)
{
    int lane = thread() % WARP, row0 = block_x() * EXACT_MMA_ROWS, n_rows = a->linear.rows,
        block = block_y() * EXACT_MMA_PANELS + warp_number(), n_chunks = a->groups.n_chunks,
        exists = block < a->linear.n_blocks, row = row0 + lane % 4 * 2;
    struct linear_part p = part_of(&a->linear, exists ? block : 0);
    int panel = exists ? block - p.first : 0, sub = 0, left, stage = 0;
    const u32 *codes = (const u32 *)p.weight + (u64)panel * (u64)(a->linear.n_chunks * 4 * PANEL);
    u32 shared = lds_address(dynamic_lds);
    int sum[EXACT_TILES][2][4];
    float total[EXACT_TILES][4];
    UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
    {
        total[i][e] = 0;
        sum[i][0][e] = sum[i][1][e] = 0;
    }
    (void)exact_begin(&a->groups, 0, &left);
    exact_stage(&a->of, shared, row0, n_rows, 0, n_chunks, digits);
    copies_commit();
    NO_UNROLL for (int chunk = 0; chunk < n_chunks; chunk += 4)
    {
        u32 q[4][2];
        exact_codes(codes, chunk, 4, lane, q);
        if (chunk + 4 < n_chunks)
            exact_stage(&a->of, shared + (u32)((stage ^ 1) * EXACT_MMA_STAGE), row0, n_rows,
                        chunk + 4, n_chunks, digits);
        copies_commit();
        COPIES_WAIT(1);
        barrier();
        const u8 *from = (const u8 *)dynamic_lds + stage * EXACT_MMA_STAGE +
                         lane / 4 * EXACT_MMA_STRIDE + lane % 4 * 8;
        UNROLL for (int c = 0; c < 4; c++)
        {
            /* chunks behind the last have digits of 0, and no sub-group */
            UNROLL for (int d = 0; d < digits; d++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
            {
                u64 b = *(const u64 *)(from + (d * EXACT_MMA_ROWS + 8 * i) * EXACT_MMA_STRIDE +
                                       c * CHUNK);
                mma_s8(sum[i][d], q[c][0] & 0x0f0f0f0fu, q[c][1] & 0x0f0f0f0fu,
                       q[c][0] >> 4 & 0x0f0f0f0fu, q[c][1] >> 4 & 0x0f0f0f0fu, (u32)b,
                       (u32)(b >> 32));
            }
            if (--left == 0 && sub < a->groups.n) {
                struct exact_scale w[2];
                int group = (chunk + c) / a->groups.group_chunks;
                UNROLL for (int j = 0; j < 2; j++)
                    w[j] = exact_scale_of(&p, panel, group, lane / 4 + 8 * j);
                exact_mma_add(exact_scaled_at(&a->of, row, sub), n_rows - row, w, sum, total,
                              digits);
                if (++sub < a->groups.n) (void)exact_begin(&a->groups, sub, &left);
            }
        }
        barrier();
        stage ^= 1;
    }
    UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
    {
        int of = row + 8 * i + e % 2, output = panel * PANEL + lane / 4 + e / 2 * 8;
        if (!exists || of >= n_rows || output >= p.out) continue;
        p.y[(u64)of * (u64)p.out + (u64)output] = p.bias ? total[i][e] + p.bias[output]
                                                         : total[i][e];
    }
}

KERNEL(exact_q4_mma, struct exact_linear_args)
{
    const struct exact_linear_args *a = ARGS;
    if (a->of.digits == 2) exact_mma(a, 2);
    else exact_mma(a, 1);
}
