/* exact_linear.hip: linears in the order of the CPU backend (backend-cpu/kernels.h), to the bit.
 * 4-bit ones take activations as integers: the sum of a sub-group's products is exact, whatever
 * computes it; its terms sum * (activation scale * weight scale) are added sub-group by sub-group,
 * each operation rounded. Dense ones add in 16 lanes. */

/* Codes of a chunk as bytes: of the low nibbles of two words, of the high ones. */
struct exact_bytes {
    u32 low[2], high[2];
};

DEVICE struct exact_bytes exact_unpack_half(const u32 q[2])
{
    struct exact_bytes b;
    UNROLL for (int j = 0; j < 2; j++)
    {
        b.low[j] = q[j] & 0x0f0f0f0fu;
        b.high[j] = q[j] >> 4 & 0x0f0f0f0fu;
    }
    return b;
}

/* Codes of 8 bits minus 128, q: the high halves, l: the low ones */
DEVICE struct exact_bytes exact_unpack_pair(const u32 q[2], const u32 l[2])
{
    struct exact_bytes b;
    UNROLL for (int j = 0; j < 2; j++)
    {
        b.low[j] = ((q[j] << 4 & 0xf0f0f0f0u) | (l[j] & 0x0f0f0f0fu)) ^ 0x80808080u;
        b.high[j] = ((q[j] & 0xf0f0f0f0u) | (l[j] >> 4 & 0x0f0f0f0fu)) ^ 0x80808080u;
    }
    return b;
}

struct exact_scale {
    float scale;
    int zero;
};

DEVICE struct exact_scale exact_scale_of(const struct linear_part *p, int panel, int group,
                                         int output)
{
    const u32 *meta = (const u32 *)p->meta;
    u32 offset = (u32)(panel * (p->last_group + 1) + group) * PANEL + (u32)output;
    if (p->scale_f32)
        return (struct exact_scale){f32_of(meta[2 * offset]), (int)f32_of(meta[2 * offset + 1])};
    return (struct exact_scale){(float)half_of(meta[offset]), (int)half_of(meta[offset] >> 16)};
}

DEVICE float exact_term(const struct exact_scaled *x, const struct exact_scale *w, int sum)
{
    return (float)(sum - w->zero * x->sum) * (x->scale * w->scale);
}

DEVICE const struct exact_scaled *exact_scaled_at(const struct exact_digits *x, int row, int sub)
{
    return x->scaled + (u64)sub * (u64)x->rows + (u64)row;
}

/* The rows of a block: places first .. end - 1 of the expert of a tile, or rows. */
struct exact_block_rows {
    int first, end;
};

DEVICE int exact_tile_exists(const struct exact_linear_args *a, int tile)
{
    return !a->end || tile < *a->n_tiles;
}

/* The rows of tile number `tile`, which has `rows` rows. */
DEVICE struct exact_block_rows exact_rows_of_tile(const struct exact_linear_args *a, int tile,
                                                  int rows, const int experts)
{
    if (experts && a->end)
        return (struct exact_block_rows){tile * rows, uniform_int(a->end[tile])};
    if (experts) return (struct exact_block_rows){tile, tile + 1};
    int end = tile * rows + rows;
    return (struct exact_block_rows){tile * rows, end < a->linear.rows ? end : a->linear.rows};
}

/* exact_slot(): the row of the results that a place has; exact_input(): the row of its inputs. */
DEVICE int exact_slot(const struct exact_linear_args *a, int place)
{
    return a->linear.slot ? a->linear.slot[place] : place;
}

DEVICE int exact_input(const struct exact_linear_args *a, int place)
{
    if (!a->expert) return place;
    int slot = exact_slot(a, place);
    return a->top_k == 1 ? slot : slot / a->top_k;
}

/* A panel of the launch: its part (that of the tile's expert in a stack; tile -1: no stack), its
 * number there, and its codes. */
struct exact_panel {
    struct linear_part part;
    const u32 *codes;
    int number, exists;
};

DEVICE struct exact_panel exact_panel_of(const struct exact_linear_args *a, int block, int tile)
{
    struct exact_panel p;
    p.exists = block < a->linear.n_blocks;
    p.part = part_of(&a->linear, p.exists ? block : 0);
    p.number = p.exists ? block - p.part.first : 0;
    if (tile >= 0) p.part = part_of_expert(&p.part, a->expert[tile]);
    p.codes = (const u32 *)p.part.weight + (u64)p.number * (u64)(a->linear.n_chunks * 4 * PANEL);
    return p;
}

/* ---- dense linears: a thread has half of the lanes of an output. Inputs that are not there have
 * weights of 0 and values of 0, and add nothing. */

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

/* Folds the lanes of an output, of which two threads have half each, and writes it. */
DEVICE void dense_write(const struct linear_part *p, int valid, int row, int output,
                        const float sum[8], float *lanes)
{
    int t = thread(), half = t / PANEL % 2;
    barrier();
    if (half) UNROLL for (int i = 0; i < 8; i++) lanes[i * THREADS + t] = sum[i];
    barrier();
    if (half || !valid || output >= p->out) return;
    float all[16];
    UNROLL for (int i = 0; i < 8; i++) all[i] = sum[i], all[8 + i] = lanes[i * THREADS + t + PANEL];
    float y = exact_fold(all);
    p->y[(u64)row * (u64)p->out + (u64)output] = p->bias ? y + p->bias[output] : y;
}

/* Block (row, panel of all parts); experts: slot. A span of the panel's weights and of the row goes
 * to shared memory, by loads that are all issued at once; there a thread has a lane of an
 * output. */
enum { EXACT_SPAN_BYTES = 1024 }; /* of an output's weights */
DEVICE void exact_dense_row(const struct exact_linear_args *a, u32x4 *span, float *x,
                            const int kind)
{
    const int bytes = kind == WEIGHT_F32 ? 4 : 2, inputs = EXACT_SPAN_BYTES / bytes,
              pieces = EXACT_SPAN_BYTES / 16;
    const struct linear_args *l = &a->linear;
    int t = thread(), output = t / EXACT_LANES, lane = t % EXACT_LANES, row = block_x(),
        in = a->groups.n;
    struct linear_part p = part_of(l, block_y());
    int panel = block_y() - p.first, all = l->n_chunks * CHUNK * bytes / 16;
    if (a->expert) p = part_of_expert(&p, uniform_int(a->expert[row]));
    const float *from = (const float *)l->x + (u64)exact_input(a, row) * (u64)in;
    const u32x4 *weight = (const u32x4 *)p.weight + (u64)panel * (u64)(all * PANEL);
    float sum = 0;
    for (int p0 = 0, j0 = 0; p0 < all; p0 += pieces, j0 += inputs) {
        u32x4 w[pieces * PANEL / THREADS];
        float v[2] = {0, 0};
        UNROLL for (int i = 0; i < pieces * PANEL / THREADS;
                    i++) if (p0 + (i * THREADS + t) / PANEL < all)
            w[i] = weight[p0 * PANEL + i * THREADS + t];
        UNROLL for (int i = 0; i < inputs / THREADS; i++) if (j0 + i * THREADS + t < in)
            v[i] = from[j0 + i * THREADS + t];
        barrier();
        UNROLL for (int i = 0; i < pieces * PANEL / THREADS; i++) span[i * THREADS + t] = w[i];
        UNROLL for (int i = 0; i < inputs / THREADS; i++) x[i * THREADS + t] = v[i];
        barrier();
        int n = in - j0 < inputs ? in - j0 : inputs;
        UNROLL_8 for (int j = lane; j < n; j += EXACT_LANES)
        {
            int index = (j * bytes / 16 * PANEL + output) * (16 / bytes) + j % (16 / bytes);
            float q = kind == WEIGHT_F32    ? ((const float *)span)[index]
                      : kind == WEIGHT_BF16 ? f32_of_bf16(((const u16 *)span)[index])
                                            : (float)((const f16 *)span)[index];
            sum = fma32(q, x[j], sum);
        }
    }
    barrier();
    x[t] = sum;
    barrier();
    int count = panel * PANEL + t;
    if (t >= PANEL || count >= p.out) return;
    float y = exact_fold(x + t * EXACT_LANES);
    p.y[(u64)row * (u64)p.out + (u64)count] = p.bias ? y + p.bias[count] : y;
}

/* Block (16 panels of all parts, 8 rows): a thread has an output of two panels. x: the inputs of a
 * span in shared memory, zeros where there are none */
enum { EXACT_DENSE_SPAN = 256 };
DEVICE void exact_dense(const struct exact_linear_args *a, float *x, float *lanes, const int kind)
{
    const struct linear_args *l = &a->linear;
    int t = thread(), half = t / PANEL % 2, row0 = block_y() * EXACT_DENSE_ROWS, in = a->groups.n,
        panel[2], valid[2];
    struct linear_part p[2];
    u64 first[2];
    float sum[2][EXACT_DENSE_ROWS][8];
    UNROLL for (int k = 0; k < 2; k++)
    {
        int block = (block_x() * EXACT_DENSE_PANELS + t / 32) * 2 + k;
        valid[k] = block < l->n_blocks;
        p[k] = part_of(l, valid[k] ? block : 0);
        panel[k] = valid[k] ? block - p[k].first : 0;
        first[k] = (u64)panel[k] * (u64)(l->n_chunks * (CHUNK / 8));
        UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++) UNROLL for (int i = 0; i < 8; i++)
            sum[k][m][i] = 0;
    }
    NO_UNROLL for (int j0 = 0; j0 < in; j0 += EXACT_DENSE_SPAN)
    {
        barrier();
        UNROLL for (int i = 0; i < EXACT_DENSE_ROWS; i++)
        {
            int there_too = row0 + i < l->rows && j0 + t < in;
            x[i * EXACT_DENSE_SPAN + t] =
                there_too ? ((const float *)l->x)[(u64)(row0 + i) * (u64)in + (u64)(j0 + t)] : 0;
        }
        barrier();
        int n = in - j0 < EXACT_DENSE_SPAN ? in - j0 : EXACT_DENSE_SPAN;
        NO_UNROLL for (int j = 8 * half; j < n; j += 16)
        {
            float w[2][8];
            UNROLL for (int k = 0; k < 2; k++)
                dense_octet(p[k].weight, first[k] + (u64)((j0 + j) / 8), t % PANEL, kind, w[k]);
            UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
            {
                float v[8];
                load_octet(x + m * EXACT_DENSE_SPAN + j, v);
                UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 8; i++)
                    sum[k][m][i] = fma32(w[k][i], v[i], sum[k][m][i]);
            }
        }
    }
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int m = 0; m < EXACT_DENSE_ROWS; m++)
        dense_write(&p[k], valid[k] && row0 + m < l->rows, row0 + m, panel[k] * PANEL + t % PANEL,
                    sum[k][m], lanes);
}

#define EXACT_DENSE(name, images, kind)                                                            \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(u32x4, span, EXACT_SPAN_BYTES);                                                        \
        LDS(float, x, EXACT_SPAN_BYTES / 2);                                                       \
        exact_dense_row(ARGS, span, x, kind);                                                      \
    })
#define EXACT_DENSE_8(name, images, kind)                                                       \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(float, lanes, THREADS * 8);                                                            \
        LDS(float, x, EXACT_DENSE_ROWS *EXACT_DENSE_SPAN);                                         \
        exact_dense(ARGS, x, lanes, kind);                                                         \
    })
#include "backend-hip/kernels/common/list.h"
