/* exact_linear.hip: linears in the order of the CPU backend (backend-cpu/kernels.h), to the bit.
 * 4-bit ones take activations as integers: the sum of a sub-group's products is exact, whatever
 * computes it; its terms sum * (activation scale * weight scale) are added sub-group by sub-group,
 * each operation rounded. Dense ones add in 16 lanes. */

/* Terms of a block in shared memory; the sub-groups of one pass over rows of `rows` rows */
enum { EXACT_TERMS = 8192 };
#define EXACT_SUBS(rows) (EXACT_TERMS / PANEL / (rows))

struct exact_scale {
    float scale;
    int zero;
};

DEVICE struct exact_scale exact_scale_of(const struct linear_part *p, int panel, int group,
                                         int output)
{
    const u32 *meta = (const u32 *)p->meta;
    u32 at = (u32)(panel * (p->last_group + 1) + group) * PANEL + (u32)output;
    if (p->scale_f32)
        return (struct exact_scale){f32_of(meta[2 * at]), (int)f32_of(meta[2 * at + 1])};
    return (struct exact_scale){(float)half_of(meta[at]), (int)half_of(meta[at] >> 16)};
}

/* 8 bytes of a row's integers: those of one octet of a chunk. */
DEVICE u64 exact_octet(const struct exact_digits *x, int row, int digit, int chunk, int octet)
{
    const u8 *from = (const u8 *)x->digit + (u64)(row * x->digits + digit) * (u64)x->stride;
    return *(const u64 *)(from + (u64)(chunk * CHUNK + octet * 8));
}

DEVICE float exact_term(const struct exact_scaled *x, const struct exact_scale *w, int sum)
{
    return (float)(sum - w->zero * x->sum) * (x->scale * w->scale);
}

DEVICE const struct exact_scaled *exact_scaled_at(const struct exact_digits *x, int row, int sub)
{
    return x->scaled + (u64)sub * (u64)x->rows + (u64)row;
}

/* A lane's codes of the n chunks from `first` on: octet lane % 4 of outputs lane / 4 and lane / 4 +
 * 8. */
DEVICE void exact_codes(const u32 *codes, int first, int n, int lane, u32 q[4][2])
{
    if (n == 4 && first % 2 == 0) {
        UNROLL for (int i = 0; i < 2; i++)
        {
            u32x4 v = *(const u32x4 *)(codes + (u64)(((first / 2 + i) * 32 + lane) * 4));
            UNROLL for (int j = 0; j < 4; j++) q[2 * i + j / 2][j % 2] = v[j];
        }
        return;
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        int c = first + (i < n ? i : 0);
        const u32 *from = codes + (u64)((c / 2 * 32 + lane) * 4 + c % 2 * 2);
        q[i][0] = from[0];
        q[i][1] = from[1];
    }
}

/* The sub-groups sub0 .. sub1 - 1 of rows row0 .. n_rows - 1 of a panel: terms[sub -
 * sub0][rows][PANEL]. Warps of 32 threads take sub-groups in turn; lane 4r + t has octet t of
 * outputs r and r + 8. */
#if HAS_MMA
DEVICE void exact_terms(const struct exact_linear_args *a, const struct linear_part *p, int panel,
                        int row0, int n_rows, int sub0, int sub1, float *terms, const int rows,
                        const int digits)
{
    int lane = thread() % 32, of_row = row0 + lane / 4;
    const u32 *codes = (const u32 *)p->weight + (u64)panel * (u64)(a->linear.n_chunks * 4 * PANEL);
    for (int sub = sub0 + thread() / 32; sub < sub1; sub += THREADS / 32) {
        int n, first = exact_begin(&a->groups, sub, &n), sum[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
        u32 q[4][2];
        u64 x[4][2];
        exact_codes(codes, first, n, lane, q);
        UNROLL for (int i = 0; i < 4; i++) UNROLL for (int d = 0; d < digits; d++) x[i][d] =
            i < n && of_row < n_rows ? exact_octet(&a->of, of_row, d, first + i, lane % 4) : 0;
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (i >= n) break;
            UNROLL for (int d = 0; d < digits; d++) mma_s8(
                sum[d], q[i][0] & 0x0f0f0f0fu, q[i][1] & 0x0f0f0f0fu, q[i][0] >> 4 & 0x0f0f0f0fu,
                q[i][1] >> 4 & 0x0f0f0f0fu, (u32)x[i][d], (u32)(x[i][d] >> 32));
        }
        int group = first / a->groups.group_chunks;
        struct exact_scale w[2] = {exact_scale_of(p, panel, group, lane / 4),
                                   exact_scale_of(p, panel, group, lane / 4 + 8)};
        UNROLL for (int e = 0; e < 4; e++)
        {
            int row = lane % 4 * 2 + e % 2,
                v = digits == 2 ? sum[0][e] * 128 + sum[1][e] : sum[0][e];
            if (row < rows && row0 + row < n_rows)
                terms[((sub - sub0) * rows + row) * PANEL + lane / 4 + e / 2 * 8] =
                    exact_term(exact_scaled_at(&a->of, row0 + row, sub), &w[e / 2], v);
        }
    }
}
#else
DEVICE void exact_terms(const struct exact_linear_args *a, const struct linear_part *p, int panel,
                        int row0, int n_rows, int sub0, int sub1, float *terms, const int rows,
                        const int digits)
{
    int lane = thread() % 32;
    const u32 *codes = (const u32 *)p->weight + (u64)panel * (u64)(a->linear.n_chunks * 4 * PANEL);
    for (int step = sub0; step < sub1; step += THREADS / 32) {
        int sub = step + thread() / 32, n = 0;
        int first = sub < sub1 ? exact_begin(&a->groups, sub, &n) : 0;
        int sum[8][2];
        UNROLL for (int m = 0; m < rows; m++) sum[m][0] = sum[m][1] = 0;
        u32 q[4][2];
        exact_codes(codes, first, n, lane, q);
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (i >= n) break;
            u32 low[2] = {q[i][0] & 0x0f0f0f0fu, q[i][1] & 0x0f0f0f0fu},
                high[2] = {q[i][0] >> 4 & 0x0f0f0f0fu, q[i][1] >> 4 & 0x0f0f0f0fu};
            UNROLL for (int m = 0; m < rows; m++)
            {
                if (row0 + m >= n_rows) break;
                UNROLL for (int d = 0; d < digits; d++)
                {
                    u64 x = exact_octet(&a->of, row0 + m, d, first + i, lane % 4);
                    UNROLL for (int j = 0; j < 2; j++)
                    {
                        int s = dot4((u32)x, low[j], dot4((u32)(x >> 32), high[j], 0));
                        sum[m][j] += digits == 2 && d == 0 ? s * 128 : s;
                    }
                }
            }
        }
        struct exact_scale w[2];
        int group = first / a->groups.group_chunks;
        UNROLL for (int j = 0; j < 2; j++) w[j] = exact_scale_of(p, panel, group, lane / 4 + 8 * j);
        UNROLL for (int m = 0; m < rows; m++) UNROLL for (int j = 0; j < 2; j++)
        {
            int all = int_sum_of_4(sum[m][j]);
            if (lane % 4 == m % 4 && row0 + m < n_rows && sub < sub1)
                terms[((sub - sub0) * rows + m) * PANEL + lane / 4 + 8 * j] =
                    exact_term(exact_scaled_at(&a->of, row0 + m, sub), &w[j], all);
        }
    }
}
#endif

/* Block (panel of all parts, `rows` rows); experts: (the same, slot) */
DEVICE void exact_q4(const struct exact_linear_args *a, float *terms, const int rows,
                     const int digits)
{
    struct linear_part p = part_of(&a->linear, block_x());
    int panel = block_x() - p.first, row0 = block_y() * rows, end = a->linear.rows, t = thread(),
        output = panel * PANEL + t % PANEL, row = row0 + t / PANEL, x0 = row0;
    int there = t < PANEL * rows && row < end && output < p.out;
    if (a->slot_expert) {
        p = part_of_expert(&p, uniform_int(a->slot_expert[row0]));
        x0 = row0 / a->top_k;
        end = x0 + 1;
    }
    float sum = 0;
    for (int sub0 = 0; sub0 < a->groups.n; sub0 += EXACT_SUBS(rows)) {
        int n = a->groups.n - sub0 < EXACT_SUBS(rows) ? a->groups.n - sub0 : EXACT_SUBS(rows);
        exact_terms(a, &p, panel, x0, end, sub0, sub0 + n, terms, rows, digits);
        barrier();
        if (there) UNROLL_8 for (int i = 0; i < n; i++) sum = sum + terms[i * rows * PANEL + t];
        barrier();
    }
    if (there) p.y[(u64)row * (u64)p.out + (u64)output] = p.bias ? sum + p.bias[output] : sum;
}

#define EXACT_Q4(name, images, of_block)                                                           \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, terms, EXACT_TERMS);                                                            \
        const struct exact_linear_args *a = ARGS;                                                  \
        if (a->of.digits == 2) exact_q4(a, terms, of_block, 2);                                    \
        else exact_q4(a, terms, of_block, 1);                                                      \
    })

/* Block (8 panels of all parts, 4 rows or a slot): a thread has half of the lanes of an output. */

/* 8 neighbouring inputs of an output, of the piece layout of args.h; octet: 8 inputs */
DEVICE void dense_octet(const void *weight, u64 octet, int output, const int kind, float v[8])
{
    if (kind == WEIGHT_F32) {
        UNROLL for (int j = 0; j < 2; j++)
        {
            u32x4 w = ((const u32x4 *)weight)[(2 * octet + (u64)j) * PANEL + (u64)output];
            UNROLL for (int i = 0; i < 4; i++) v[4 * j + i] = f32_of(w[i]);
        }
        return;
    }
    u32x4 w = ((const u32x4 *)weight)[octet * PANEL + (u64)output];
    UNROLL for (int i = 0; i < 8; i++)
    {
        u32 u = w[i / 2] >> (16 * (i % 2)) & 0xffffu;
        v[i] = kind == WEIGHT_BF16 ? f32_of_bf16(u) : (float)half_of(u);
    }
}

DEVICE void exact_dense(const struct exact_linear_args *a, float *lanes, const int kind)
{
    const struct linear_args *l = &a->linear;
    int t = thread(), half = t / PANEL % 2, block = block_x() * EXACT_DENSE_PANELS + t / 32,
        row0 = block_y() * (a->slot_expert ? 1 : EXACT_DENSE_ROWS),
        end = a->slot_expert ? row0 + 1 : l->rows;
    int exists = block < l->n_blocks;
    struct linear_part p = part_of(l, exists ? block : 0);
    int panel = exists ? block - p.first : 0, output = panel * PANEL + t % PANEL, in = a->groups.n;
    if (a->slot_expert) p = part_of_expert(&p, uniform_int(a->slot_expert[row0]));
    float sum[EXACT_DENSE_ROWS][8];
    UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++) UNROLL for (int i = 0; i < 8; i++)
        sum[m][i] = 0;
    const float *x = (const float *)l->x;
    u64 first = (u64)panel * (u64)(l->n_chunks * (CHUNK / 8));
    for (int j = 8 * half; j < in && exists; j += 16) {
        float w[8];
        dense_octet(p.weight, first + (u64)(j / 8), t % PANEL, kind, w);
        UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
        {
            int row = row0 + m;
            if (row >= end) break;
            const float *v = x + (u64)(row / a->top_k) * (u64)in + (u64)j;
            if (j + 8 <= in && in % 4 == 0) {
                float each[8];
                load_octet(v, each);
                UNROLL for (int i = 0; i < 8; i++) sum[m][i] = fma32(w[i], each[i], sum[m][i]);
            } else {
                UNROLL for (int i = 0; i < 8; i++) if (j + i < in)
                    sum[m][i] = fma32(w[i], v[i], sum[m][i]);
            }
        }
    }
    UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
    {
        barrier();
        UNROLL for (int i = 0; i < 8; i++) lanes[t * 8 + i] = sum[m][i];
        barrier();
        if (half || !exists || output >= p.out || row0 + m >= end) continue;
        float all[16];
        UNROLL for (int i = 0; i < 8; i++)
        {
            all[i] = sum[m][i];
            all[8 + i] = lanes[(t + PANEL) * 8 + i];
        }
        float y = exact_fold(all);
        p.y[(u64)(row0 + m) * (u64)p.out + (u64)output] = p.bias ? y + p.bias[output] : y;
    }
}

#define EXACT_DENSE(name, images, kind)                                                            \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, lanes, THREADS * 8);                                                            \
        exact_dense(ARGS, lanes, kind);                                                            \
    })
#include "backend-hip/kernels/kernel_list.h"
