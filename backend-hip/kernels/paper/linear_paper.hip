/* linear_paper.hip: the baseline kernel of the paper (Opt4GPTQ) and its three optimizations
 * (sections 3.1 to 3.3) as switches, to measure each alone and all together. Not for production:
 * sums are halves, committed by atomics in no fixed order.
 *   baseline  vLLM's ExLlama-derived kernel: 128 threads; a block takes 128 inputs x 512 outputs
 *             and 1 to 8 rows, a thread 4 outputs; activations in shared memory; 9 operations
 *             unpack 8 codes; products are added by fused multiply-adds of pairs (__hfma2); each
 *             block adds its half2 sums to the result: k / 128 collisions an output
 *   smb       (3.1) the block takes 4 k-slices of 128 inputs x 128 outputs and adds the slices as
 *             half2 in the shared memory of the activations; one thread commits an output pair,
 *             once a block. (Algorithm 1 taken literally adds up the outputs of all threads, which
 *             are different outputs.)
 *   vml       (3.2) VML_HALF2: activations by 4-byte loads of half2 into shared memory, as in
 *             algorithm 2; VML_WIDE: by 16-byte loads into and out of it
 *   ila       (3.3) multiply-adds and additions by inline assembly: as printed (two scalar-half
 *             instructions each), or packed
 * Activations are fp16 with a power of two for each row, their largest magnitude in [2^8, 2^9), so
 * that 4 products of 16 codes do not overflow a half. Eight products are summed in halves, all else
 * in fp32 up to the commit. weight [k / 8][stride] words as in args.h, meta [group][stride] */
#include "backend-hip/kernels/paper/ila.h"

enum vml { VML_NONE, VML_HALF2, VML_WIDE };

#define PAPER_X(rows, smb) ((rows) * PAPER_INPUTS * PAPER_SLICES(smb))

/* Copies rows of `width` inputs from k0 on to xs[rows][width]. */
DEVICE void stage_halves(const struct paper_args *a, f16 *xs, int row0, int k0, const int rows,
                         const int width, const enum vml vml)
{
    const f16 *x = (const f16 *)a->x;
    const int each = vml == VML_WIDE ? 8 : vml == VML_HALF2 ? 2 : 1;
    for (int i = thread(); i < rows * width / each; i += PAPER_THREADS) {
        int row = row0 + i * each / width, k = k0 + i * each % width,
            valid = row < a->rows && k < a->k;
        u64 from = (u64)row * (u64)a->k + (u64)k;
        if (vml == VML_WIDE) {
            u32x4 v = {0, 0, 0, 0};
            if (valid) v = *(const u32x4 *)(x + from);
            ((u32x4 *)xs)[i] = v;
        } else if (vml == VML_HALF2) {
            ((u32 *)xs)[i] = valid ? *(const u32 *)(x + from) : 0;
        } else {
            xs[i] = valid ? x[from] : (f16)0;
        }
    }
}

/* Scale and zero point of an output and group: -(1024 + zero) and -(64 + zero), twice each. */
struct paper_group {
    float scale;
    f16x2 zero, zero_16;
};

DEVICE void load_groups(const struct paper_args *a, int group, int n, struct paper_group g[4])
{
    u32x4 meta = *(const u32x4 *)((const u32 *)a->meta + (u64)group * (u64)a->stride + (u64)n);
    UNROLL for (int c = 0; c < 4; c++)
    {
        f16 zero = half_of(meta[c] >> 16), z = -(f16)1024 - zero, z_16 = -(f16)64 - zero;
        g[c] = (struct paper_group){(float)half_of(meta[c]), (f16x2){z, z}, (f16x2){z_16, z_16}};
    }
}

/* The 8 inputs of a word as code - zero, exact: a shift, 4 masks, 2 additions, 2 multiply-adds. */
DEVICE void dequantize(u32 word, const struct paper_group *g, f16x2 w[4], const enum ila ila)
{
    const f16x2 sixteenth = {(f16)0.0625f, (f16)0.0625f};
    u32 high = word >> 8;
    w[0] = add(pair_of(and_or(word, 0x000f000fu, 0x64006400u)), g->zero, ila);
    w[1] = multiply_add(pair_of(and_or(word, 0x00f000f0u, 0x64006400u)), sixteenth, g->zero_16,
                        ila);
    w[2] = add(pair_of(and_or(high, 0x000f000fu, 0x64006400u)), g->zero, ila);
    w[3] = multiply_add(pair_of(and_or(high, 0x00f000f0u, 0x64006400u)), sixteenth, g->zero_16,
                        ila);
}

/* total + scale * the sum of 8 products, in halves. */
DEVICE float dot8(const f16x2 w[4], const f16 *x, float scale, float total, const enum vml vml,
                  const enum ila ila)
{
    f16x2 sum = {0, 0};
    u32x4 all = {0, 0, 0, 0};
    if (vml == VML_WIDE) all = *(const u32x4 *)x;
    UNROLL for (int i = 0; i < 4; i++)
        sum = multiply_add(w[i], vml == VML_WIDE ? pair_of(all[i]) : *(const f16x2 *)(x + 2 * i),
                           sum, ila);
    return fma32((float)sum[0] + (float)sum[1], scale, total);
}

/* The sums of two outputs as they are committed. */
DEVICE f16x2 scaled_pair(const struct paper_args *a, int row, float first, float second)
{
    float scale = row < a->rows ? a->scale[row] : 0;
    return (f16x2){(f16)(first * scale), (f16)(second * scale)};
}

DEVICE void commit(const struct paper_args *a, int row, int n, f16x2 v)
{
    if (row < a->rows && n < a->stride)
        atomic_add_pair((u32 *)a->y + ((u64)row * (u64)a->stride + (u64)n) / 2, v);
}

DEVICE void paper(const struct paper_args *a, f16 *xs, const int rows, const int smb,
                  const enum vml vml, const enum ila ila)
{
    const int slices = PAPER_SLICES(smb), lanes = PAPER_THREADS / slices,
              width = slices * PAPER_INPUTS;
    int t = thread(), slice = t / lanes, lane = t % lanes, n = (block_x() * lanes + lane) * 4,
        row0 = block_y() * rows, k0 = block_z() * width, k = k0 + slice * PAPER_INPUTS,
        end = k + PAPER_INPUTS < a->k ? k + PAPER_INPUTS : a->k,
        next = (k / a->group + 1) * a->group;
    float total[8][4];
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c++) total[m][c] = 0;
    stage_halves(a, xs, row0, k0, rows, width, vml);
    barrier();
    struct paper_group g[4];
    if (n < a->stride && k < end) load_groups(a, k / a->group, n, g);
    for (; n < a->stride && k < end; k += CHUNK) {
        if (k == next) {
            load_groups(a, k / a->group, n, g);
            next += a->group;
        }
        UNROLL for (int j = 0; j < 4; j++)
        {
            u32x4 q = *(const u32x4 *)((const u32 *)a->weight + (u64)(k / 8 + j) * (u64)a->stride +
                                       (u64)n);
            f16x2 w[4][4];
            UNROLL for (int c = 0; c < 4; c++) dequantize(q[c], &g[c], w[c], ila);
            UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c++) total[m][c] =
                dot8(w[c], xs + m * width + k - k0 + 8 * j, g[c].scale, total[m][c], vml, ila);
        }
    }
    if (!smb) {
        UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c += 2)
            commit(a, row0 + m, n + c, scaled_pair(a, row0 + m, total[m][c], total[m][c + 1]));
        return;
    }
    f16x2 *sums = (f16x2 *)xs; /* [slices][rows][2 * lanes], as many bytes as the activations */
    barrier();
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c += 2)
        sums[(slice * rows + m) * 2 * lanes + 2 * lane + c / 2] =
            scaled_pair(a, row0 + m, total[m][c], total[m][c + 1]);
    barrier();
    for (int i = t; i < rows * 2 * lanes; i += PAPER_THREADS) {
        f16x2 sum = sums[i];
        UNROLL for (int s = 1; s < slices; s++)
            sum = add(sum, sums[s * rows * 2 * lanes + i], ILA_NONE);
        commit(a, row0 + i / (2 * lanes), block_x() * lanes * 4 + i % (2 * lanes) * 2, sum);
    }
}

/* y[rows][out] = the committed sums + bias; one thread to an output */
KERNEL(paper_result, struct paper_result_args)
{
    const struct paper_result_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i >= (u64)a->rows * (u64)a->out) return;
    u64 row = i / (u64)a->out, n = i % (u64)a->out;
    float y = (float)((const f16 *)a->sums)[row * (u64)a->stride + n];
    a->y[i] = a->bias ? y + a->bias[n] : y;
}

#define PAPER(name, images, of_block, smb, vml, ila)                                               \
    KERNEL(name, struct paper_args)                                                                \
    {                                                                                              \
        LDS(u32x4, xs, PAPER_X(of_block, smb) / 8);                                                \
        paper(ARGS, (f16 *)xs, of_block, smb, vml, ila);                                           \
    }
#include "backend-hip/kernels/paper/list.h"
