/* exact_linear_mma.hip: 4-bit linears in the CPU's order by int8 matrix instructions, to the bit
 * (common/exact_linear.hip): the integers of a sub-group are summed by mma, its terms are added by
 * one thread of an output, sub-group by sub-group. */

/* The codes of a chunk as operand A: outputs lane / 4 and lane / 4 + 8, octet lane % 4. b: 8 bytes
 * of a row, operand B */
DEVICE void exact_mma_chunk(int sum[4], const u32 q[2], u64 b)
{
    mma_s8(sum, q[0] & 0x0f0f0f0fu, q[1] & 0x0f0f0f0fu, q[0] >> 4 & 0x0f0f0f0fu,
           q[1] >> 4 & 0x0f0f0f0fu, (u32)b, (u32)(b >> 32));
}

/* A panel of the launch: its part, its number there, its codes. */
struct exact_panel {
    struct linear_part part;
    const u32 *codes;
    int number, exists;
};

DEVICE struct exact_panel exact_panel_of(const struct exact_linear_args *a, int block)
{
    struct exact_panel p;
    p.exists = block < a->linear.n_blocks;
    p.part = part_of(&a->linear, p.exists ? block : 0);
    p.number = p.exists ? block - p.part.first : 0;
    p.codes = (const u32 *)p.part.weight + (u64)p.number * (u64)(a->linear.n_chunks * 4 * PANEL);
    return p;
}

/* ---- few rows: the sub-groups are shared out among the warps of a block */

/* Codes and scales of a sub-group of a lane. */
struct exact_sub {
    u32 q[4][2];
    struct exact_scale scale[2];
    int first, n;
};

DEVICE void exact_load_sub(const struct exact_linear_args *a, const struct exact_panel *p, int sub,
                           struct exact_sub *s)
{
    int lane = thread() % WARP;
    s->n = 0;
    if (sub >= a->groups.n) return;
    s->first = exact_begin(&a->groups, sub, &s->n);
    exact_codes(p->codes, s->first, s->n, lane, s->q);
    UNROLL for (int j = 0; j < 2; j++) s->scale[j] =
        exact_scale_of(&p->part, p->number, s->first / a->groups.group_chunks, lane / 4 + 8 * j);
}

/* Block (panels of all parts, 8 * tiles rows); experts: (panel, slot). Warp w has sub-groups w, w +
 * 8, ..; a pass is of as many sub-groups as have room for their terms. */
DEVICE void exact_split(const struct exact_linear_args *a, const int tiles, const int panels,
                        const int digits)
{
    const int rows = 8 * tiles, outputs = PANEL * panels, all = rows * outputs,
              pass = EXACT_SPLIT_SHARED(tiles) / 4 / all, each = (all + THREADS - 1) / THREADS;
    int lane = thread() % WARP, t = thread(), row0 = block_y() * (a->slot_expert ? 1 : rows),
        x0 = row0, end = a->linear.rows;
    float *terms = (float *)dynamic_lds;
    struct exact_panel p[2];
    struct exact_sub s[2];
    if (a->slot_expert) wait_for_producer();
    UNROLL for (int i = 0; i < panels; i++)
    {
        p[i] = exact_panel_of(a, block_x() * panels + i);
        if (a->slot_expert) {
            p[i].part = part_of_expert(&p[i].part, a->slot_expert[row0]);
            p[i].codes = (const u32 *)p[i].part.weight +
                         (u64)p[i].number * (u64)(a->linear.n_chunks * 4 * PANEL);
        }
        exact_load_sub(a, &p[i], warp_number(), &s[i]);
    }
    if (a->slot_expert) {
        x0 = row0 / a->top_k;
        end = x0 + 1;
    } else {
        wait_for_producer();
    }
    float total[8];
    UNROLL for (int j = 0; j < each; j++) total[j] = 0;
    for (int sub0 = 0; sub0 < a->groups.n; sub0 += pass) {
        int n_subs = a->groups.n - sub0 < pass ? a->groups.n - sub0 : pass;
        NO_UNROLL for (int at = warp_number(); at < n_subs; at += WARPS)
        {
            int sum[2][8][2][4];
            struct exact_sub now[2];
            UNROLL for (int i = 0; i < panels; i++)
            {
                now[i] = s[i];
                exact_load_sub(a, &p[i], sub0 + at + WARPS, &s[i]);
                UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int e = 0; e < 4; e++)
                    sum[i][m][0][e] = sum[i][m][1][e] = 0;
            }
            UNROLL for (int c = 0; c < 4; c++)
            {
                UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int d = 0; d < digits; d++)
                {
                    int row = x0 + 8 * m + lane / 4;
                    u64 x = 0;
                    if (c < now[0].n && row < end)
                        x = exact_octet(&a->of, row, d, now[0].first + c, lane % 4);
                    UNROLL for (int i = 0; i < panels; i++)
                        exact_mma_chunk(sum[i][m][d], now[i].q[c], x);
                }
            }
            UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int e = 0; e < 2; e++)
            {
                int row = 8 * m + lane % 4 * 2 + e;
                if (x0 + row >= end) continue;
                struct exact_scaled x = *exact_scaled_at(&a->of, x0 + row, sub0 + at);
                UNROLL for (int i = 0; i < panels; i++) UNROLL for (int j = 0; j < 2; j++)
                {
                    int v = sum[i][m][0][e + 2 * j];
                    if (digits == 2) v = v * 128 + sum[i][m][1][e + 2 * j];
                    terms[(at * rows + row) * outputs + i * PANEL + lane / 4 + 8 * j] =
                        exact_term(&x, &now[i].scale[j], v);
                }
            }
        }
        barrier();
        UNROLL for (int j = 0; j < each; j++)
        {
            int of = t + j * THREADS;
            if (of >= all || x0 + of / outputs >= end) continue;
            UNROLL_8 for (int i = 0; i < n_subs; i++) total[j] = total[j] + terms[i * all + of];
        }
        barrier();
    }
    UNROLL for (int j = 0; j < each; j++)
    {
        int of = t + j * THREADS, row = row0 + of / outputs, i = of % outputs / PANEL;
        if (of >= all || x0 + of / outputs >= end) continue;
        const struct exact_panel *to = panels > 1 && i ? &p[1] : &p[0];
        int output = to->number * PANEL + of % PANEL;
        if (!to->exists || output >= to->part.out) continue;
        to->part.y[(u64)row * (u64)to->part.out + (u64)output] =
            to->part.bias ? total[j] + to->part.bias[output] : total[j];
    }
}

#define EXACT_SPLIT(name, images, tiles, panels)                                                   \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        const struct exact_linear_args *a = EARLY_ARGS;                                            \
        if (a->of.digits == 2) exact_split(a, tiles, panels, 2);                                   \
        else exact_split(a, tiles, panels, 1);                                                     \
    })
#include "backend-hip/kernels/kernel_list.h"

/* ---- many rows: tiles of 64 rows and 8 panels; a warp has 32 rows and 2 panels */

/* The sub-group of a chunk. */
DEVICE int exact_sub_of(const struct exact_groups *g, int chunk)
{
    return chunk / g->group_chunks * g->each + chunk % g->group_chunks / 4;
}

/* Copies 4 chunks of the digits of the block's rows, and scales and sums of the sub-groups in them.
 * Chunks and rows that are not there become zeros. */
DEVICE void exact_stage(const struct exact_linear_args *a, u32 to, int row0, int chunk,
                        const int digits)
{
    const struct exact_digits *x = &a->of;
    int t = thread(), rows = a->linear.rows;
    UNROLL for (int i = 0; i < EXACT_MMA_ROWS * 8 / THREADS * digits; i++)
    {
        int at = i * THREADS + t, part = at % 8, row = at / 8 % EXACT_MMA_ROWS,
            d = at / (8 * EXACT_MMA_ROWS),
            there = row0 + row < rows && chunk + part / 2 < a->groups.n_chunks;
        const u8 *from = (const u8 *)x->digit;
        if (there)
            from += (u64)((row0 + row) * x->digits + d) * (u64)x->stride +
                    (u64)(chunk * CHUNK + part * 16);
        copy_16_or_zeros(to + (u32)((d * EXACT_MMA_ROWS + row) * EXACT_MMA_STRIDE + part * 16),
                         from, there);
    }
    int sub = exact_sub_of(&a->groups, chunk) + t / EXACT_MMA_ROWS, row = row0 + t % EXACT_MMA_ROWS;
    const struct exact_scaled *from = x->scaled;
    if (sub < a->groups.n && row < rows) from = exact_scaled_at(x, row, sub);
    copy_8(to + EXACT_MMA_DIGITS + (u32)t * 8, from);
}

enum { EXACT_TILES = EXACT_MMA_ROWS / 2 / 8 };

DEVICE void exact_mma(const struct exact_linear_args *a, const int digits)
{
    int lane = thread() % WARP, row0 = block_x() * EXACT_MMA_ROWS, n_rows = a->linear.rows,
        half = warp_number() / 4 * (EXACT_MMA_ROWS / 2), left, sub = 0, stage = 0;
    struct exact_panel p[2];
    struct exact_scale scale[2][2];
    u32 shared = lds_address(dynamic_lds);
    int sum[2][EXACT_TILES][2][4];
    float total[2][EXACT_TILES][4];
    (void)exact_begin(&a->groups, 0, &left);
    UNROLL for (int k = 0; k < 2; k++)
    {
        p[k] = exact_panel_of(a, block_y() * EXACT_MMA_PANELS + warp_number() % 4 * 2 + k);
        UNROLL for (int j = 0; j < 2; j++)
            scale[k][j] = exact_scale_of(&p[k].part, p[k].number, 0, lane / 4 + 8 * j);
        UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 4; e++)
        {
            total[k][i][e] = 0;
            sum[k][i][0][e] = sum[k][i][1][e] = 0;
        }
    }
    exact_stage(a, shared, row0, 0, digits);
    copies_commit();
    NO_UNROLL for (int chunk = 0; chunk < a->groups.n_chunks; chunk += 4)
    {
        u32 q[2][4][2];
        UNROLL for (int k = 0; k < 2; k++) exact_codes(p[k].codes, chunk, 4, lane, q[k]);
        if (chunk + 4 < a->groups.n_chunks)
            exact_stage(a, shared + (u32)((stage ^ 1) * EXACT_MMA_STAGE), row0, chunk + 4, digits);
        copies_commit();
        COPIES_WAIT(1);
        barrier();
        const u8 *lds = (const u8 *)dynamic_lds + stage * EXACT_MMA_STAGE,
                 *from = lds + (half + lane / 4) * EXACT_MMA_STRIDE + lane % 4 * 8;
        const struct exact_scaled *x = (const struct exact_scaled *)(lds + EXACT_MMA_DIGITS) +
                                       half + lane % 4 * 2;
        UNROLL for (int c = 0; c < 4; c++)
        {
            /* chunks behind the last have digits of 0, and no sub-group */
            UNROLL for (int d = 0; d < digits; d++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
            {
                u64 b = *(const u64 *)(from + (d * EXACT_MMA_ROWS + 8 * i) * EXACT_MMA_STRIDE +
                                       c * CHUNK);
                UNROLL for (int k = 0; k < 2; k++) exact_mma_chunk(sum[k][i][d], q[k][c], b);
            }
            if (--left || sub == a->groups.n) continue;
            UNROLL for (int i = 0; i < EXACT_TILES; i++) UNROLL for (int e = 0; e < 2; e++)
            {
                struct exact_scaled of = x[8 * i + e];
                UNROLL for (int k = 0; k < 2; k++) UNROLL for (int j = 0; j < 2; j++)
                {
                    int v = sum[k][i][0][e + 2 * j];
                    if (digits == 2) v = v * 128 + sum[k][i][1][e + 2 * j];
                    total[k][i][e + 2 * j] = total[k][i][e + 2 * j] +
                                             exact_term(&of, &scale[k][j], v);
                    sum[k][i][0][e + 2 * j] = sum[k][i][1][e + 2 * j] = 0;
                }
            }
            x += EXACT_MMA_ROWS;
            if (++sub == a->groups.n) continue;
            int group = exact_begin(&a->groups, sub, &left) / a->groups.group_chunks;
            UNROLL for (int k = 0; k < 2; k++) UNROLL for (int j = 0; j < 2; j++)
                scale[k][j] = exact_scale_of(&p[k].part, p[k].number, group, lane / 4 + 8 * j);
        }
        barrier();
        stage ^= 1;
    }
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < EXACT_TILES; i++)
        UNROLL for (int e = 0; e < 4; e++)
    {
        int row = row0 + half + 8 * i + lane % 4 * 2 + e % 2,
            output = p[k].number * PANEL + lane / 4 + e / 2 * 8;
        if (!p[k].exists || row >= n_rows || output >= p[k].part.out) continue;
        p[k].part.y[(u64)row * (u64)p[k].part.out + (u64)output] =
            p[k].part.bias ? total[k][i][e] + p[k].part.bias[output] : total[k][i][e];
    }
}

KERNEL(exact_q4_mma, struct exact_linear_args)
{
    const struct exact_linear_args *a = ARGS;
    if (a->of.digits == 2) exact_mma(a, 2);
    else exact_mma(a, 1);
}
