/* decode.hip: linears for few rows: a block computes ROWS rows of one panel of 16 outputs over all of its inputs, so that
 * nothing is added up across blocks. Thread (slice, output) takes the chunks slice, slice + 16, ..; the 16 slices are added
 * in LDS in order. What is computed for a row, and in which order, does not depend on ROWS. */

enum { SLICES = THREADS / PANEL };

/* Chunks of activations in LDS at a time, and its size in words. */
#define STAGE_CHUNKS(rows, x_bytes) ((rows) * (x_bytes) <= 8 ? 64 : (rows) * (x_bytes) <= 16 ? 32 : 16)
#define STAGE_WORDS(rows, x_bytes) (STAGE_CHUNKS(rows, x_bytes) * CHUNK / 4 * (rows) * (x_bytes))
#define DECODE_WORDS(rows, x_bytes) \
    (STAGE_WORDS(rows, x_bytes) > THREADS * (rows) ? STAGE_WORDS(rows, x_bytes) : THREADS * (rows))

/* Two codes as (code - zero): 0x6400 | code is the half 1024 + code, and the difference is exact. */
DEVICE f16x2 code_pair(u32 word, int i, f16x2 zero) { return pair_of((word >> (4 * i) & 0x000f000fu) | 0x64006400u) - zero; }

struct scale_zero {
    float scale;
    f16x2 zero; /* 1024 + zero, twice */
};

DEVICE struct scale_zero meta_at(const struct linear_args *a, int panel, int chunk, int output)
{
    int group = a->group_shift >= 0 ? chunk >> a->group_shift : chunk / a->group_chunks;
    u32 at = (u32)(panel * a->n_groups + group) * PANEL + (u32)output;
    const u32 *meta = (const u32 *)a->meta;
    struct scale_zero m;
    f16 zero;
    if (a->wide_meta) {
        m.scale = f32_of(meta[2 * at]);
        zero = (f16)f32_of(meta[2 * at + 1]);
    } else {
        u32 both = meta[at];
        m.scale = (float)half_of(both);
        zero = half_of(both >> 16);
    }
    zero += (f16)1024;
    m.zero[0] = zero;
    m.zero[1] = zero;
    return m;
}

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

/* Sums over a chunk in four chains, one for each 8 inputs. */
DEVICE float dot_f16(const f16x2 w[16], const u32x4 *x)
{
    float s[4];
    UNROLL for (int j = 0; j < 4; j++)
    {
        u32x4 v = x[j];
        float sum = 0;
        UNROLL for (int i = 0; i < 4; i++) sum = dot2(w[4 * j + i], pair_of(v[i]), sum);
        s[j] = sum;
    }
    return (s[0] + s[1]) + (s[2] + s[3]);
}

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

DEVICE void q4_unpack(u32x4 q, f16x2 zero, f16x2 w[16])
{
    UNROLL for (int j = 0; j < 4; j++) UNROLL for (int i = 0; i < 4; i++) w[4 * j + i] = code_pair(q[j], i, zero);
}

DEVICE void widen(const f16x2 w[16], float v[CHUNK])
{
    UNROLL for (int i = 0; i < 16; i++) v[2 * i] = (float)w[i][0], v[2 * i + 1] = (float)w[i][1];
}

/* One chunk of dense weights of one output. */
DEVICE void dense_chunk(const void *weight, u64 chunk, int output, int kind, float v[CHUNK])
{
    const int pieces = kind == WEIGHT_F32 ? 8 : 4;
    const u32x4 *w = (const u32x4 *)weight + chunk * (u64)(pieces * PANEL) + (u64)output;
    UNROLL for (int j = 0; j < pieces; j++)
    {
        u32x4 p = w[j * PANEL];
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (kind == WEIGHT_F32) {
                v[4 * j + i] = f32_of(p[i]);
            } else if (kind == WEIGHT_BF16) {
                v[8 * j + 2 * i] = f32_of_bf16(p[i] & 0xffff);
                v[8 * j + 2 * i + 1] = f32_of_bf16(p[i] >> 16);
            } else {
                f16x2 h = pair_of(p[i]);
                v[8 * j + 2 * i] = (float)h[0];
                v[8 * j + 2 * i + 1] = (float)h[1];
            }
        }
    }
}

/* Adds the slices of total[rows] in order and writes the outputs of the panel. */
DEVICE void add_slices(const struct linear_args *a, const float *total, float *sums, int row0, int rows)
{
    int t = thread(), panel = block_x();
    barrier();
    UNROLL for (int m = 0; m < rows; m++) sums[m * THREADS + t] = total[m];
    barrier();
    for (int i = t; i < PANEL * rows; i += THREADS) {
        int m = i / PANEL, row = row0 + m, n = panel * PANEL + i % PANEL;
        if (row >= a->rows || n >= a->out) continue;
        float sum = 0;
        for (int s = 0; s < SLICES; s++) sum += sums[m * THREADS + s * PANEL + i % PANEL];
        if (a->scale) sum *= a->scale[row];
        a->y[(u64)row * (u64)a->out + (u64)n] = a->bias ? sum + a->bias[n] : sum;
    }
}

/* half: activations are fp16; otherwise fp32 */
DEVICE void q4_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int half)
{
    const int x_bytes = half ? 2 : 4, stage = STAGE_CHUNKS(rows, x_bytes);
    int output = thread() % PANEL, slice = thread() / PANEL, panel = block_x(), row0 = block_y() * rows;
    const u32x4 *codes = (const u32x4 *)a->weight + (u64)panel * (u64)a->n_chunks * PANEL + (u64)output;
    float total[16];
    UNROLL for (int m = 0; m < rows; m++) total[m] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, x_bytes);
        barrier();
        for (int i = slice; i < stage && c0 + i < a->n_chunks; i += SLICES) {
            struct scale_zero g = meta_at(a, panel, c0 + i, output);
            f16x2 w[16];
            float v[CHUNK];
            q4_unpack(codes[(u64)(c0 + i) * PANEL], g.zero, w);
            if (!half) widen(w, v);
            UNROLL for (int m = 0; m < rows; m++)
            {
                const u32x4 *x = lds + (m * stage + i) * (CHUNK * x_bytes / 16);
                total[m] = fma32(g.scale, half ? dot_f16(w, x) : dot_f32(v, (const f32x4 *)x), total[m]);
            }
        }
    }
    add_slices(a, total, (float *)lds, row0, rows);
}

DEVICE void dense_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int kind)
{
    const int stage = STAGE_CHUNKS(rows, 4);
    int output = thread() % PANEL, slice = thread() / PANEL, panel = block_x(), row0 = block_y() * rows;
    float total[16];
    UNROLL for (int m = 0; m < rows; m++) total[m] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, 4);
        barrier();
        for (int i = slice; i < stage && c0 + i < a->n_chunks; i += SLICES) {
            float v[CHUNK];
            dense_chunk(a->weight, (u64)panel * (u64)a->n_chunks + (u64)(c0 + i), output, kind, v);
            UNROLL for (int m = 0; m < rows; m++) total[m] += dot_f32(v, (const f32x4 *)lds + (m * stage + i) * (CHUNK / 4));
        }
    }
    add_slices(a, total, (float *)lds, row0, rows);
}

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

KERNEL(q4_decode_f16_16, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(16, 2) / 4);
    q4_decode(ARGS, lds, 16, 1);
}

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

KERNEL(q4_decode_f32_16, struct linear_args)
{
    LDS(u32x4, lds, DECODE_WORDS(16, 4) / 4);
    q4_decode(ARGS, lds, 16, 0);
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
