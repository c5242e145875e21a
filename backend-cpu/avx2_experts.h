/* avx2_experts.h: the digits of variant "avx2" in rows of a block; its kernels of OP_ROUTE, OP_MIX.
 */
#ifndef BACKEND_CPU_AVX2_EXPERTS_H
#define BACKEND_CPU_AVX2_EXPERTS_H

#include "backend-cpu/act_quant.h"
#include "backend-cpu/avx2_attend.h"
#include "backend-cpu/fp32_experts.h"

/* A block of up to four rows; blocks have equal height. Two-digit activations of a block are stored
 * as [sub-group][row of the block][n], one stream per block: rows a power of two apart would
 * conflict in L1 and L2. */
struct row_block {
    int first, n;
};

ALWAYS_INLINE struct row_block row_block_of(int row, int rows)
{
    int blocks = (rows + 3) / 4, n = rows / blocks,
        shorter = (blocks - rows % blocks) * n; /* rows in blocks of n, before blocks of n + 1 */
    if (row < shorter) return (struct row_block){row / n * n, n};
    return (struct row_block){shorter + (row - shorter) / (n + 1) * (n + 1), n + 1};
}

static void avx2_route(const struct route_task *t) { fp32_route(t, avx2_exps); }

static void avx2_sums(const float *x, int group, int groups, float *out)
{
    fp32_sums(x, group, groups, out);
}

static void avx2_mix(const float *x, const float *weight, int top_k, float *out, int n)
{
    fp32_mix(x, weight, top_k, out, n);
}

static void avx2_copy_digits(const struct linear *w, const struct q4_digits *from,
                             const struct q4_digits *to, int row)
{
    if (to->n_digits == 1) {
        digits_copy(w, from, to, row);
        return;
    }
    struct row_block b = row_block_of(row, to->rows);
    int8_t *block = (int8_t *)to->digit + (size_t)b.first * (size_t)q4i_inputs(w) * 2;
    size_t s = (size_t)row;
    for (int j0 = 0, n, i = 0; j0 < q4i_inputs(w); j0 += n, s += (size_t)to->rows, i++) {
        n = q4_next(w, j0) - j0;
        memcpy(block + ((size_t)j0 * (size_t)b.n + (size_t)(row - b.first) * (size_t)n) * 2,
               from->digit + (size_t)j0 * 2, (size_t)n * 2);
        ((float *)to->scale)[s] = from->scale[i];
        ((int32_t *)to->sum)[s] = from->sum[i];
    }
}

#endif
