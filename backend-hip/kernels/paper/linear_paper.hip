/* linear_paper.hip: the baseline kernel of the paper (Opt4GPTQ) and its three optimizations
 * (sections 3.1 to 3.3) as switches, to measure each alone and all together. Not for production:
 * sums are halves, committed by atomics in no fixed order.
 *   baseline  vLLM's ExLlama-derived kernel: 128 threads; a block takes 128 inputs x 512 outputs, a
 *             thread 4 outputs; activations in shared memory; each block adds its half2 sums to the
 *             result: k / 128 collisions an output
 *   smb       (3.1) the block takes 4 k-slices of 128 inputs x 128 outputs and adds the slices in
 *             shared memory; one thread commits an output pair, once a block. (Algorithm 1 taken
 *             literally adds up the outputs of all threads, which are different outputs.)
 *   vml       (3.2) activations by 16-byte loads into and out of shared memory
 *   ila       (3.3) multiply-add by inline assembly: as printed (two scalar-half instructions), or
 *             packed
 * Activations are fp16 with a power of two for each row, their largest magnitude in [2^8, 2^9), so
 * that 4 products of 16 codes do not overflow a half. Eight products are summed in halves, all else
 * in fp32 up to the commit. weight [k / 8][stride] words as in args.h, meta [group][stride] */
#include "backend-hip/kernels/paper/ila.h"

#define PAPER_X(rows, smb) ((rows) * PAPER_INPUTS * PAPER_SLICES(smb))
#define PAPER_SUMS(rows, smb) ((smb) ? (rows) * 4 * PAPER_THREADS : 1)

/* Copies rows of `width` inputs from k0 on to xs[rows][width]. */
DEVICE void stage_halves(const struct paper_args *a, f16 *xs, int row0, int k0, const int rows,
                         const int width, const int vml)
{
    const f16 *x = (const f16 *)a->x;
    const int each = vml ? 8 : 1;
    for (int i = thread(); i < rows * width / each; i += PAPER_THREADS) {
        int row = row0 + i * each / width, k = k0 + i * each % width,
            there = row < a->rows && k < a->k;
        u64 from = (u64)row * (u64)a->k + (u64)k;
        if (vml) {
            u32x4 v = {0, 0, 0, 0};
            if (there) v = *(const u32x4 *)(x + from);
            ((u32x4 *)xs)[i] = v;
        } else {
            xs[i] = there ? x[from] : (f16)0;
        }
    }
}

/* Sum of 8 inputs of one output: (code - zero) * x, in halves. */
DEVICE float dot8(u32 codes, f16x2 zero, const f16 *x, const int vml, const int ila)
{
    f16x2 sum = {0, 0};
    u32x4 all = {0, 0, 0, 0};
    if (vml) all = *(const u32x4 *)x;
    UNROLL for (int i = 0; i < 4; i++)
        sum = multiply_add(code_pair(codes, i, zero),
                           vml ? pair_of(all[i]) : *(const f16x2 *)(x + 2 * i), sum, (enum ila)ila);
    return (float)sum[0] + (float)sum[1];
}

DEVICE void commit(const struct paper_args *a, int row, int n, float first, float second)
{
    f16x2 v;
    if (row >= a->rows) return;
    v[0] = (f16)(first * a->scale[row]);
    v[1] = (f16)(second * a->scale[row]);
    atomic_add_pair((u32 *)a->y + ((u64)row * (u64)a->stride + (u64)n) / 2, v);
}

DEVICE void paper(const struct paper_args *a, f16 *xs, float *sums, const int rows, const int smb,
                  const int vml, const int ila)
{
    const int slices = PAPER_SLICES(smb), lanes = PAPER_THREADS / slices,
              width = slices * PAPER_INPUTS;
    int t = thread(), slice = t / lanes, lane = t % lanes, n = (block_x() * lanes + lane) * 4,
        row0 = block_y() * rows;
    int k0 = block_z() * width, k1 = k0 + slice * PAPER_INPUTS;
    float total[8][4];
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c++) total[m][c] = 0;
    stage_halves(a, xs, row0, k0, rows, width, vml);
    barrier();
    for (int k = k1; n < a->stride && k < k1 + PAPER_INPUTS && k < a->k; k += CHUNK) {
        u32x4 meta =
            *(const u32x4 *)((const u32 *)a->meta + (u64)(k / a->group) * (u64)a->stride + (u64)n);
        NO_UNROLL for (int j = 0; j < 4; j++) /* unrolled, 8 rows would exceed the registers */
        {
            u32x4 q = *(const u32x4 *)((const u32 *)a->weight + (u64)(k / 8 + j) * (u64)a->stride +
                                       (u64)n);
            UNROLL for (int c = 0; c < 4; c++)
            {
                f16 z = half_of(meta[c] >> 16) + (f16)1024;
                f16x2 zero = {z, z};
                UNROLL for (int m = 0; m < rows; m++) total[m][c] =
                    fma32((float)half_of(meta[c]),
                          dot8(q[c], zero, xs + m * width + k - k0 + 8 * j, vml, ila), total[m][c]);
            }
        }
    }
    if (!smb) {
        UNROLL for (int m = 0; m < rows; m++)
        {
            if (n >= a->stride) continue;
            commit(a, row0 + m, n, total[m][0], total[m][1]);
            commit(a, row0 + m, n + 2, total[m][2], total[m][3]);
        }
        return;
    }
    UNROLL for (int m = 0; m < rows; m++) UNROLL for (int c = 0; c < 4; c++)
        sums[(slice * rows + m) * 4 * lanes + 4 * lane + c] = total[m][c];
    barrier();
    for (int i = t; i < rows * 2 * lanes; i += PAPER_THREADS) {
        int m = i / (2 * lanes), pair = i % (2 * lanes), at = block_x() * lanes * 4 + 2 * pair;
        float first = 0, second = 0;
        for (int s = 0; s < slices; s++) {
            first += sums[(s * rows + m) * 4 * lanes + 2 * pair];
            second += sums[(s * rows + m) * 4 * lanes + 2 * pair + 1];
        }
        if (at < a->stride) commit(a, row0 + m, at, first, second);
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
    ON_##images(KERNEL(name, struct paper_args) {                                                  \
        LDS(u32x4, xs, PAPER_X(of_block, smb) / 8);                                                \
        LDS(float, sums, PAPER_SUMS(of_block, smb));                                               \
        paper(ARGS, (f16 *)xs, sums, of_block, smb, vml, ila);                                     \
    })
#include "backend-hip/kernels/kernel_list.h"
