/* decode.hip: linears for few rows: a block computes ROWS rows of one panel of 16 outputs over all of its inputs, so that
 * nothing is added up across blocks. With 4-bit weights thread (slice, lane) takes the pairs of chunks slice, slice + 8, ..,
 * and of each what its lane holds (args.h); with dense ones thread (slice, output) the chunks slice, slice + 16, .. What the
 * threads have of an output is added in LDS, in order. What is computed for a row, and in which order, does not depend on
 * ROWS. */

/* Chunks of activations in LDS at a time, and its size in words. */
#define STAGE_CHUNKS(rows, x_bytes) ((rows) * (x_bytes) <= 8 ? 64 : (rows) * (x_bytes) <= 16 ? 32 : 16)
#define STAGE_WORDS(rows, x_bytes) (STAGE_CHUNKS(rows, x_bytes) * CHUNK / 4 * (rows) * (x_bytes))
#define SUM_WORDS(rows) (2 * THREADS * (rows)) /* two sums a thread and row */
#define DECODE_WORDS(rows, x_bytes) (STAGE_WORDS(rows, x_bytes) > SUM_WORDS(rows) ? STAGE_WORDS(rows, x_bytes) : SUM_WORDS(rows))

/* Copies chunks c0 .. of the rows from row0 on into stage[rows][chunks][CHUNK], zeros where there are none. */
DEVICE void stage_rows(const struct linear_args *a, u32x4 *stage, int row0, int c0, int rows, int chunks, int x_bytes)
{
    const int per_row = chunks * CHUNK * x_bytes / 16, whole = a->n_chunks * CHUNK * x_bytes / 16;
    const u32x4 *x = (const u32x4 *)a->x;
    for (int i = thread(); i < rows * per_row; i += THREADS) {
        int row = row0 + i / per_row, at = c0 * (CHUNK * x_bytes / 16) + i % per_row;
        u32x4 v = {0, 0, 0, 0};
        if (row < a->rows && at < whole) v = x[(u64)row * (u64)whole + (u64)at];
        stage[i] = v;
    }
}

/* Adds `slices` sums of each of the panel's outputs, which thread s * PANEL + output has in total[], in order. */
DEVICE void add_slices(const struct linear_args *a, const struct linear_part *p, int panel, const float *total, float *sums, int row0,
                       int rows)
{
    int t = thread();
    barrier();
    UNROLL for (int m = 0; m < rows; m++) sums[m * THREADS + t] = total[m];
    barrier();
    for (int i = t; i < PANEL * rows; i += THREADS) {
        int m = i / PANEL;
        float sum = 0;
        for (int s = 0; s < THREADS / PANEL; s++) sum += sums[m * THREADS + s * PANEL + i % PANEL];
        write_output(a, p, row0 + m, panel * PANEL + i % PANEL, sum);
    }
}

/* The same for lanes: lane 4r + t has part t of the outputs r and r + 8 in total[row][2]. */
DEVICE void add_lanes(const struct linear_args *a, const struct linear_part *p, int panel, float total[][2], float *sums, int row0,
                      int rows)
{
    int t = thread();
    barrier();
    UNROLL for (int m = 0; m < rows; m++)
    {
        sums[(2 * m) * THREADS + t] = total[m][0];
        sums[(2 * m + 1) * THREADS + t] = total[m][1];
    }
    barrier();
    for (int i = t; i < PANEL * rows; i += THREADS) {
        const float *of = sums + (2 * (i / PANEL) + i % PANEL / 8) * THREADS + i % 8 * 4;
        float sum = 0;
        for (int s = 0; s < THREADS / 32; s++) {
            f32x4 v = *(const f32x4 *)(of + s * 32);
            sum += (v[0] + v[1]) + (v[2] + v[3]);
        }
        write_output(a, p, row0 + i / PANEL, panel * PANEL + i % PANEL, sum);
    }
}

/* What a lane holds of two chunks of one output: 8 products in one chain for each chunk. */
DEVICE float lane_f16(const f16x2 w[4], u32x4 x)
{
    float sum = 0;
    UNROLL for (int i = 0; i < 4; i++) sum = dot2(w[i], pair_of(x[i]), sum);
    return sum;
}

DEVICE float lane_f32(const f16x2 w[4], const f32x4 *x)
{
    f32x4 lo = x[0], hi = x[1];
    float sum = 0;
    UNROLL for (int i = 0; i < 2; i++) sum = fma32((float)w[i][1], lo[2 * i + 1], fma32((float)w[i][0], lo[2 * i], sum));
    UNROLL for (int i = 0; i < 2; i++) sum = fma32((float)w[2 + i][1], hi[2 * i + 1], fma32((float)w[2 + i][0], hi[2 * i], sum));
    return sum;
}

/* Sums over a chunk in four chains, one for each 8 inputs. */
DEVICE float dot_f32(const float w[CHUNK], const f32x4 *x)
{
    float s[4];
    UNROLL for (int j = 0; j < 4; j++)
    {
        f32x4 lo = x[2 * j], hi = x[2 * j + 1];
        float sum = 0;
        UNROLL for (int i = 0; i < 4; i++) sum = fma32(w[8 * j + i], lo[i], sum);
        UNROLL for (int i = 0; i < 4; i++) sum = fma32(w[8 * j + 4 + i], hi[i], sum);
        s[j] = sum;
    }
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* half: activations are fp16; otherwise fp32 */
DEVICE void q4_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int half)
{
    const int x_bytes = half ? 2 : 4, stage = STAGE_CHUNKS(rows, x_bytes), piece = 8 * x_bytes / 16, slices = THREADS / 32;
    struct linear_part p = part_of(a, block_x());
    int lane = thread() % 32, slice = thread() / 32, panel = block_x() - p.first, row0 = block_y() * rows;
    const u32x4 *codes = (const u32x4 *)p.weight + (u64)panel * (u64)(a->n_chunks / 2 * 32) + (u64)lane;
    float total[8][2];
    UNROLL for (int m = 0; m < rows; m++) total[m][0] = total[m][1] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, x_bytes);
        barrier();
        for (int i = 2 * slice; i < stage && c0 + i < a->n_chunks; i += 2 * slices) {
            u32x4 q = codes[(c0 + i) / 2 * 32];
            UNROLL for (int j = 0; j < 4; j++)
            {
                int chunk = c0 + i + j / 2;
                struct scale_zero g = meta_at(&p, meta_row(&p, panel, chunk), lane / 4 + j % 2 * 8);
                f16x2 w[4];
                unpack_word(q[j], &g, w);
                UNROLL for (int m = 0; m < rows; m++)
                {
                    const u32x4 *x = lds + ((m * stage + i + j / 2) * 4 + lane % 4) * piece;
                    total[m][j % 2] = fma32(g.scale, half ? lane_f16(w, *x) : lane_f32(w, (const f32x4 *)x), total[m][j % 2]);
                }
            }
        }
    }
    add_lanes(a, &p, panel, total, (float *)lds, row0, rows);
}

DEVICE void dense_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int kind)
{
    const int stage = STAGE_CHUNKS(rows, 4), slices = THREADS / PANEL;
    struct linear_part p = part_of(a, block_x());
    int output = thread() % PANEL, slice = thread() / PANEL, panel = block_x() - p.first, row0 = block_y() * rows;
    float total[8];
    UNROLL for (int m = 0; m < rows; m++) total[m] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, 4);
        barrier();
        for (int i = slice; i < stage && c0 + i < a->n_chunks; i += slices) {
            float v[CHUNK];
            dense_chunk(p.weight, (u64)panel * (u64)a->n_chunks + (u64)(c0 + i), output, kind, v);
            UNROLL for (int m = 0; m < rows; m++) total[m] += dot_f32(v, (const f32x4 *)lds + (m * stage + i) * (CHUNK / 4));
        }
    }
    add_slices(a, &p, panel, total, (float *)lds, row0, rows);
}

#if !MATRIX_F16 /* mma_decode.hip has the others */
KERNEL(q4_decode_f16_1, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(1, 2) / 4);
    q4_decode(ARGS, lds, 1, 1);
}

KERNEL(q4_decode_f16_2, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(2, 2) / 4);
    q4_decode(ARGS, lds, 2, 1);
}

KERNEL(q4_decode_f16_4, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(4, 2) / 4);
    q4_decode(ARGS, lds, 4, 1);
}

KERNEL(q4_decode_f16_8, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(8, 2) / 4);
    q4_decode(ARGS, lds, 8, 1);
}
#endif

KERNEL(q4_decode_f32_1, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(1, 4) / 4);
    q4_decode(ARGS, lds, 1, 0);
}

KERNEL(q4_decode_f32_4, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(4, 4) / 4);
    q4_decode(ARGS, lds, 4, 0);
}

KERNEL(dense_decode_f16_1, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(1, 4) / 4);
    dense_decode(ARGS, lds, 1, WEIGHT_F16);
}

KERNEL(dense_decode_f16_4, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(4, 4) / 4);
    dense_decode(ARGS, lds, 4, WEIGHT_F16);
}

KERNEL(dense_decode_f16_8, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(8, 4) / 4);
    dense_decode(ARGS, lds, 8, WEIGHT_F16);
}

KERNEL(dense_decode_bf16_1, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(1, 4) / 4);
    dense_decode(ARGS, lds, 1, WEIGHT_BF16);
}

KERNEL(dense_decode_bf16_4, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(4, 4) / 4);
    dense_decode(ARGS, lds, 4, WEIGHT_BF16);
}

KERNEL(dense_decode_bf16_8, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(8, 4) / 4);
    dense_decode(ARGS, lds, 8, WEIGHT_BF16);
}

KERNEL(dense_decode_f32_1, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(1, 4) / 4);
    dense_decode(ARGS, lds, 1, WEIGHT_F32);
}

KERNEL(dense_decode_f32_4, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(4, 4) / 4);
    dense_decode(ARGS, lds, 4, WEIGHT_F32);
}

KERNEL(dense_decode_f32_8, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(8, 4) / 4);
    dense_decode(ARGS, lds, 8, WEIGHT_F32);
}
