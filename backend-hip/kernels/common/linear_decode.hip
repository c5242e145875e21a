/* linear_decode.hip: 4-bit and dense linears of decode rows without matrix instructions.
 *   grid      (panel of 16 outputs, group of `rows` rows); 256 threads over all inputs, nothing is
 *             added across blocks
 *   threads   4-bit: thread (slice, lane) has the items slice, slice + 8, .. and of each the codes
 *             of its lane (args.h); dense: thread (slice, output) has chunks slice, slice + 16, ..
 *   pipeline  activations in shared memory, STAGE_CHUNKS chunks at a time; two items in registers,
 *             one in flight while the other is computed
 *   epilogue  the threads' sums of an output are added in shared memory, in order
 * Bits: the operations of a row and their order do not depend on `rows`. */

enum { SLICES = THREADS / 32 };

/* Chunks of activations in shared memory at a time, an even number of items for each slice; its
 * size in words. */
#define STAGE_CHUNKS(rows, x_bytes) ((rows) * (x_bytes) <= 2 ? 128 : 64)
#define DENSE_CHUNKS(rows) ((rows) == 1 ? 64 : 32)
#define SUM_WORDS(rows) (2 * THREADS * (rows)) /* two sums for each thread and row */
#define LDS_WORDS(chunks, rows, x_bytes)                                                           \
    ((chunks) * CHUNK / 4 * (rows) * (x_bytes) > SUM_WORDS(rows)                                   \
         ? (chunks) * CHUNK / 4 * (rows) * (x_bytes)                                               \
         : SUM_WORDS(rows))
#define DECODE_WORDS(rows, x_bytes) LDS_WORDS(STAGE_CHUNKS(rows, x_bytes), rows, x_bytes)
#define DENSE_WORDS(rows) LDS_WORDS(DENSE_CHUNKS(rows), rows, 4)

/* Copies chunks c0 .. of the rows from row0 on into stage[rows][chunks][CHUNK], with zeros for
 * padding. All loads are issued before the first store. */
DEVICE void stage_rows(const struct linear_args *a, u32x4 *stage, int row0, int c0, int rows,
                       int chunks, int x_bytes)
{
    const int per_row = chunks * CHUNK * x_bytes / 16,
              n = rows * per_row / THREADS; /* a row is a multiple of THREADS */
    int t = thread(), whole = a->n_chunks * CHUNK * x_bytes / 16;
    u32x4 v[8];
    UNROLL for (int k = 0; k < n; k++)
    {
        int row = row0 + k * THREADS / per_row,
            first = c0 * (CHUNK * x_bytes / 16) + k * THREADS % per_row;
        v[k] = (u32x4){0, 0, 0, 0};
        if (row < a->rows && t < whole - first)
            v[k] = *(const u32x4 *)(uniform((const u8 *)a->x +
                                            ((u64)row * (u64)whole + (u64)first) * 16) +
                                    of_lane((u32)t * 16));
    }
    UNROLL for (int k = 0; k < n; k++) stage[k * THREADS + t] = v[k];
}

/* Epilogue of dense linears: adds in order the sums of each of the panel's outputs; total[] of
 * thread s * PANEL + output is slice s. */
DEVICE void add_slices(const struct linear_args *a, const struct linear_part *p, int panel,
                       const float *total, float *sums, int row0, int rows)
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

/* Epilogue of 4-bit linears: lane 4r + t has part t of outputs r and r + 8 in total[row][2]. */
DEVICE void add_lanes(const struct linear_args *a, const struct linear_part *p, int panel,
                      float total[][2], float *sums, int row0, int rows)
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
        const float *source = sums + (2 * (i / PANEL) + i % PANEL / 8) * THREADS + i % 8 * 4;
        float sum = 0;
        for (int s = 0; s < THREADS / 32; s++) {
            f32x4 v = *(const f32x4 *)(source + s * 32);
            sum += (v[0] + v[1]) + (v[2] + v[3]);
        }
        write_output(a, p, row0 + i / PANEL, panel * PANEL + i % PANEL, sum);
    }
}

/* sum += 8 weights of a word times 8 inputs. */
DEVICE float add_f16(const f16x2 w[4], u32x4 x, float sum)
{
    UNROLL for (int i = 0; i < 4; i++) sum = dot2(w[i], pair_of(x[i]), sum);
    return sum;
}

DEVICE float add_f32(const f16x2 w[4], const f32x4 *x, float sum)
{
    f32x4 lo = x[0], hi = x[1];
    UNROLL for (int i = 0; i < 2; i++)
        sum = fma32((float)w[i][1], lo[2 * i + 1], fma32((float)w[i][0], lo[2 * i], sum));
    UNROLL for (int i = 0; i < 2; i++)
        sum = fma32((float)w[2 + i][1], hi[2 * i + 1], fma32((float)w[2 + i][0], hi[2 * i], sum));
    return sum;
}

/* Dot product over a chunk in four independent chains of 8 inputs. */
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

/* A lane's codes of an item, two chunks of outputs r and r + 8 in each 16 bytes, and the words of
 * their scales. */
struct item_codes {
    u32x4 q[2];
    u32 meta[2][2];
};

/* codes, meta: the same in the block; codes_at, words_at: offsets of the lane; words: 4-byte words
 * to a scale */
DEVICE struct item_codes load_item_codes(const u8 *codes, const u8 *meta, u32 codes_at,
                                         u32 words_at, const int words)
{
    struct item_codes v;
    codes_at = of_lane(codes_at);
    words_at = of_lane(words_at);
    UNROLL for (int b = 0; b < 2; b++)
        v.q[b] = *(const u32x4 *)(codes + codes_at + (u32)(b * ITEM_BYTES / 2));
    UNROLL for (int j = 0; j < 2; j++) UNROLL for (int k = 0; k < words; k++)
        v.meta[j][k] = *(const u32 *)(meta + words_at + (u32)(4 * (8 * j * words + k)));
    return v;
}

/* Waits for an item here, before the load of the next one is issued. A wait at its use would cover
 * both. */
DEVICE void arrived(struct item_codes *v, const int words)
{
    UNROLL for (int b = 0; b < 2; b++) await_16(&v->q[b]);
    UNROLL for (int j = 0; j < 2; j++) UNROLL for (int k = 0; k < words; k++)
        await_4(&v->meta[j][k]);
}

/* sum[row][output] += 16 * (a chunk times the row's activations); q0, q1: words of outputs r and r
 * + 8. */
DEVICE void add_chunk(u32 q0, u32 q1, const struct unpack u[2], const u32x4 *x, float sum[][2],
                      const int rows, const int stage, const int half)
{
    const int piece = half ? 1 : 2;
    f16x2 w[2][4];
    unpack_16(q0, &u[0], w[0]);
    unpack_16(q1, &u[1], w[1]);
    UNROLL for (int m = 0; m < rows; m++)
    {
        const u32x4 *source = x + m * stage * 4 * piece;
        UNROLL for (int j = 0; j < 2; j++)
            sum[m][j] = half ? add_f16(w[j], *source, sum[m][j])
                             : add_f32(w[j], (const f32x4 *)source, sum[m][j]);
    }
}

DEVICE void add_scaled(float total[][2], const struct unpack u[2], float sum[][2], const int rows)
{
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int j = 0; j < 2; j++)
        total[m][j] = fma32(u[j].scale, sum[m][j], total[m][j]);
}

/* total += scale * an item of one group, its four chunks in one chain. */
DEVICE void add_item(const struct item_codes *v, const u32x4 *x, float total[][2], const int rows,
                     const int stage, const int half, const int words)
{
    struct unpack u[2];
    float sum[8][2];
    UNROLL for (int j = 0; j < 2; j++)
        u[j] = words == 2 ? unpack_of(f32_of(v->meta[j][0]), (f16)f32_of(v->meta[j][1]))
                          : unpack_of((float)half_of(v->meta[j][0]), half_of(v->meta[j][0] >> 16));
    UNROLL for (int m = 0; m < rows; m++) sum[m][0] = sum[m][1] = 0;
    UNROLL for (int c = 0; c < ITEM_CHUNKS; c++)
        add_chunk(v->q[c / 2][c % 2 * 2], v->q[c / 2][c % 2 * 2 + 1], u, x + c * 4 * (half ? 1 : 2),
                  sum, rows, stage, half);
    add_scaled(total, u, sum, rows);
}

/* Groups of a power of two of items: the next item is in flight while one is computed, and every
 * address is a uniform base and a fixed offset of the lane. words: 4-byte words to a scale */
DEVICE void q4_items(const struct linear_args *a, const struct linear_part *p, u32x4 *lds,
                     float total[][2], const int rows, const int half, const int words)
{
    const int x_bytes = half ? 2 : 4, stage = STAGE_CHUNKS(rows, x_bytes), piece = 8 * x_bytes / 16,
              steps = stage / ITEM_CHUNKS / SLICES;
    const int step_x = SLICES * ITEM_CHUNKS * 4 * piece;
    int lane = thread() % 32, slice = thread() / 32, panel = block_x() - p->first,
        row0 = block_y() * rows;
    int n_items = a->n_chunks / ITEM_CHUNKS,
        own = (int)((u32)(n_items - slice + SLICES - 1) / SLICES), shift = p->group_shift - 2;
    const u8 *codes = (const u8 *)p->weight + (u64)panel * (u64)n_items * ITEM_BYTES;
    const u8 *meta = (const u8 *)p->meta +
                     (u64)panel * (u64)(p->last_group + 1) * (u64)(PANEL * 4 * words);
    int from = slice < n_items ? slice
                               : 0; /* with fewer items than slices, item 0 is read and not used */
    u32 codes_at = (u32)(from * ITEM_BYTES + lane * 16),
        words_at = (u32)((from >> shift) * PANEL + lane / 4) * (u32)(4 * words);
    struct item_codes even = load_item_codes(codes, meta, codes_at, words_at, words), odd;
    for (int first = 0; first * SLICES < n_items; first += steps) {
        const u32x4 *x = lds + (slice * (ITEM_CHUNKS * 4) + lane % 4) * piece;
        barrier();
        stage_rows(a, lds, row0, first * SLICES * ITEM_CHUNKS, rows, stage, x_bytes);
        barrier();
        NO_UNROLL for (int i = first; i < first + steps && i * SLICES < n_items;
                       i += 2, x += 2 * step_x)
        {
            const u8 *codes_1 = uniform(codes + (u32)((i + 1) * (SLICES * ITEM_BYTES)));
            const u8 *meta_1 =
                uniform(meta + (u32)(((i + 1) * SLICES >> shift) * (PANEL * 4 * words)));
            const u8 *codes_2 = uniform(codes_1 + SLICES * ITEM_BYTES);
            const u8 *meta_2 =
                uniform(meta + (u32)(((i + 2) * SLICES >> shift) * (PANEL * 4 * words)));
            arrived(&even, words);
            if (i + 1 < own) odd = load_item_codes(codes_1, meta_1, codes_at, words_at, words);
            if (i < own) add_item(&even, x, total, rows, stage, half, words);
            arrived(&odd, words);
            if (i + 2 < own) even = load_item_codes(codes_2, meta_2, codes_at, words_at, words);
            if (i + 1 < own) add_item(&odd, x + step_x, total, rows, stage, half, words);
        }
    }
}

/* Any groups: chunk by chunk. */
DEVICE void q4_chunks(const struct linear_args *a, const struct linear_part *p, u32x4 *lds,
                      float total[][2], const int rows, const int half)
{
    const int x_bytes = half ? 2 : 4, stage = STAGE_CHUNKS(rows, x_bytes), piece = 8 * x_bytes / 16;
    int lane = thread() % 32, slice = thread() / 32, panel = block_x() - p->first,
        row0 = block_y() * rows;
    const u32 *codes = (const u32 *)p->weight +
                       (u64)panel * (u64)a->n_chunks * (ITEM_BYTES / ITEM_CHUNKS / 4) +
                       (u64)(lane * 4);
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, x_bytes);
        barrier();
        NO_UNROLL for (int i = slice * ITEM_CHUNKS; i < stage && c0 + i < a->n_chunks;
                       i += i % ITEM_CHUNKS < ITEM_CHUNKS - 1 ? 1 : (SLICES - 1) * ITEM_CHUNKS + 1)
        {
            int chunk = c0 + i;
            const u32 *q = codes + (u64)(chunk / 2 * 128 + chunk % 2 * 2);
            struct unpack u[2];
            float sum[8][2];
            UNROLL for (int m = 0; m < rows; m++) sum[m][0] = sum[m][1] = 0;
            UNROLL for (int j = 0; j < 2; j++)
            {
                struct scale_zero g = meta_at(p, meta_row(p, panel, chunk), lane / 4 + j * 8);
                u[j] = unpack_of(g.scale, g.zero[0] - (f16)1024);
            }
            add_chunk(q[0], q[1], u, lds + (i * 4 + lane % 4) * piece, sum, rows, stage, half);
            add_scaled(total, u, sum, rows);
        }
    }
}

/* half: activations are fp16; otherwise fp32 */
DEVICE void q4_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int half)
{
    struct linear_part p = part_of(a, block_x());
    float total[8][2];
    UNROLL for (int m = 0; m < rows; m++) total[m][0] = total[m][1] = 0;
    if (!p.whole_items || p.group_shift < 0) q4_chunks(a, &p, lds, total, rows, half);
    else if (p.scale_f32) q4_items(a, &p, lds, total, rows, half, 2);
    else q4_items(a, &p, lds, total, rows, half, 1);
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int j = 0; j < 2; j++) total[m][j] *= 0.0625f;
    add_lanes(a, &p, block_x() - p.first, total, (float *)lds, block_y() * rows, rows);
}

DEVICE void dense_decode(const struct linear_args *a, u32x4 *lds, const int rows, const int kind)
{
    const int stage = DENSE_CHUNKS(rows), slices = THREADS / PANEL;
    struct linear_part p = part_of(a, block_x());
    int output = thread() % PANEL, slice = thread() / PANEL, panel = block_x() - p.first,
        row0 = block_y() * rows;
    float total[8];
    UNROLL for (int m = 0; m < rows; m++) total[m] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += stage) {
        barrier();
        stage_rows(a, lds, row0, c0, rows, stage, 4);
        barrier();
        for (int i = slice; i < stage && c0 + i < a->n_chunks; i += slices) {
            float v[CHUNK];
            dense_chunk(p.weight, (u64)panel * (u64)a->n_chunks + (u64)(c0 + i), output, kind, v);
            UNROLL for (int m = 0; m < rows; m++)
                total[m] += dot_f32(v, (const f32x4 *)lds + (m * stage + i) * (CHUNK / 4));
        }
    }
    add_slices(a, &p, panel, total, (float *)lds, row0, rows);
}

#define Q4_DECODE(name, images, of_block, half)                                                    \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        LDS(u32x4, lds, DECODE_WORDS(of_block, (half) ? 2 : 4) / 4);                               \
        q4_decode(ARGS, lds, of_block, half);                                                      \
    })
#define DENSE_DECODE(name, images, weights, of_block)                                              \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        LDS(u32x4, lds, DENSE_WORDS(of_block) / 4);                                                \
        dense_decode(ARGS, lds, of_block, weights);                                                \
    })
#define Q4_DECODE_EXPERTS(name, images, of_block, half)                                            \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        LDS(u32x4, lds, DECODE_WORDS(of_block, (half) ? 2 : 4) / 4);                               \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a)) q4_decode(&a, lds, of_block, half);                  \
    })
#define DENSE_DECODE_EXPERTS(name, images, weights, of_block)                                      \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        LDS(u32x4, lds, DENSE_WORDS(of_block) / 4);                                                \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a)) dense_decode(&a, lds, of_block, weights);            \
    })
#include "backend-hip/kernels/common/list.h"
