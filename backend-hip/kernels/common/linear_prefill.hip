/* linear_prefill.hip: 4-bit and dense GEMM of prompt rows without matrix instructions. A block of
 * 256 threads computes a tile of 64 outputs x 64 or 128 rows, a thread 4 x 4 or 4 x 8 of it, over
 * two chunks of inputs in shared memory at a time. Bits: the products of a chunk are summed, then
 * scaled and added, so the order depends on the number of inputs alone. */

/* outputs of a tile; chunks in shared memory at a time */
enum { TILE = PREFILL_OUTPUTS, STEP = 2 };

/* The thread's position in the tile; it has `down` x 4 results: rows block_y * 16 * down + down *
 * tile_row() .., outputs block_x * TILE + 4 * tile_col() .. */
DEVICE int tile_row(void) { return thread() / 16; }
DEVICE int tile_col(void) { return thread() % 16; }

/* Position of output `column` among those of input k of a chunk, swizzled: the four words of an
 * output are written together, to different banks. */
DEVICE int column_place(int k, int column) { return column ^ (k / 8 * 8); }

/* Copies two chunks of activations transposed to xs[input pair][row] (fp16) or xs[input][row]
 * (fp32), with zeros for padding. */
DEVICE void stage_x(const struct linear_args *a, u32 *xs, int c0, const int half, const int down)
{
    const int x_bytes = half ? 2 : 4, per_row = STEP * CHUNK * x_bytes / 16, rows = 16 * down,
              n = rows * per_row / THREADS;
    int whole = a->n_chunks * CHUNK * x_bytes / 16;
    const u32x4 *x = (const u32x4 *)a->x;
    u32x4 v[4];
    UNROLL for (int k = 0; k < n; k++)
    {
        int i = thread() + k * THREADS, row = block_y() * rows + i % rows,
            index = c0 * (CHUNK * x_bytes / 16) + i / rows;
        v[k] = (u32x4){0, 0, 0, 0};
        if (row < a->rows && index < whole) v[k] = x[(u64)row * (u64)whole + (u64)index];
    }
    UNROLL for (int k = 0; k < n; k++)
    {
        int i = thread() + k * THREADS;
        UNROLL for (int j = 0; j < 4; j++) xs[(4 * (i / rows) + j) * rows + i % rows] = v[k][j];
    }
}

DEVICE void write_tile(const struct linear_args *a, const struct linear_part *p, float total[][4],
                       const int down)
{
    UNROLL for (int i = 0; i < down; i++) UNROLL for (int j = 0; j < 4; j++)
        write_output(a, p, (block_y() * 16 + tile_row()) * down + i,
                     (block_x() - p->first) * TILE + 4 * tile_col() + j, total[i][j]);
}

/* part[i][j] = sum over a chunk in shared memory. */
DEVICE void chunk_f16(const u32 *xs, const u32 *ws, float part[][4], const int down)
{
    UNROLL for (int i = 0; i < down; i++) UNROLL for (int j = 0; j < 4; j++) part[i][j] = 0;
    NO_UNROLL for (int first = 0; first < CHUNK / 2;
                   first += 4) /* more would exceed the registers for two blocks */
    {
        const u32 *source = ws + column_place(2 * first, 4 * tile_col());
        UNROLL for (int k = first; k < first + 4; k++)
        {
            u32x4 w = *(const u32x4 *)(source + k * TILE);
            UNROLL for (int i = 0; i < down; i += 4)
            {
                u32x4 x = *(const u32x4 *)(xs + (k * 16 + tile_row()) * down + i);
                UNROLL for (int r = 0; r < 4; r++) UNROLL for (int j = 0; j < 4; j++)
                    part[i + r][j] = dot2(pair_of(x[r]), pair_of(w[j]), part[i + r][j]);
            }
        }
    }
}

DEVICE void chunk_f32(const u32 *xs, const u32 *ws, float part[][4])
{
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) part[i][j] = 0;
    UNROLL_4 for (int k = 0; k < CHUNK; k++)
    {
        u32x4 x = *(const u32x4 *)(xs + k * 64 + 4 * tile_row());
        u32x4 w = *(const u32x4 *)(ws + k * TILE + column_place(k, 4 * tile_col()));
        UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
            part[i][j] = fma32(f32_of(x[i]), f32_of(w[j]), part[i][j]);
    }
}

/* Unpacks a lane's codes of a pair of chunks, transposed, into ws[input pair][output] or
 * ws[input][output], and its scales. */
DEVICE void stage_codes(const struct linear_args *a, const struct linear_part *p, u32 *ws,
                        float *scales, int c0, const int half)
{
    const int chunk_words = (half ? CHUNK / 2 : CHUNK) * TILE;
    int lane = thread() % 32, in_tile = thread() / 32,
        panel = (block_x() - p->first) * (TILE / PANEL) + in_tile;
    u32x4 q = {0, 0, 0, 0};
    int valid = panel * PANEL < p->out;
    if (valid)
        q = ((const u32x4 *)p->weight)[((u64)panel * (u64)a->n_chunks + (u64)c0) * 16 + (u64)lane];
    UNROLL for (int j = 0; j < 4; j++)
    {
        int column = in_tile * PANEL + lane / 4 + j % 2 * 8;
        u32 *to = ws + j / 2 * chunk_words + column_place(lane % 4 * 8, column);
        struct scale_zero g = scale_zero_of(0, 0);
        f16x2 w[4];
        if (valid) g = meta_at(p, meta_row(p, panel, c0 + j / 2), column % PANEL);
        unpack_word(q[j], &g, w);
        UNROLL for (int i = 0; i < 4; i++)
        {
            int pair = lane % 4 * 4 + i;
            if (half) {
                u32 word;
                __builtin_memcpy(&word, &w[i], 4);
                to[pair * TILE] = word;
            } else {
                to[2 * pair * TILE] = bits_of((float)w[i][0]);
                to[(2 * pair + 1) * TILE] = bits_of((float)w[i][1]);
            }
        }
        if (lane % 4 == 0) scales[j / 2 * TILE + column] = g.scale;
    }
}

DEVICE void q4_prefill(const struct linear_args *a, u32 *xs, u32 *ws, float *scales, const int half,
                       const int down)
{
    const int inputs = half ? CHUNK / 2 : CHUNK;
    struct linear_part p = part_of(a, block_x());
    float total[8][4];
    UNROLL for (int i = 0; i < down; i++) UNROLL for (int j = 0; j < 4; j++) total[i][j] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += STEP) {
        barrier();
        stage_x(a, xs, c0, half, down);
        if (thread() < TILE / PANEL * 32) stage_codes(a, &p, ws, scales, c0, half);
        barrier();
        NO_UNROLL for (int c = 0; c < STEP; c++)
        {
            float part[8][4];
            if (half) chunk_f16(xs + c * inputs * 16 * down, ws + c * inputs * TILE, part, down);
            else chunk_f32(xs + c * inputs * 16 * down, ws + c * inputs * TILE, part);
            f32x4 s = *(const f32x4 *)(scales + c * TILE + 4 * tile_col());
            UNROLL for (int i = 0; i < down; i++) UNROLL for (int j = 0; j < 4; j++)
                total[i][j] = fma32(s[j], part[i][j], total[i][j]);
        }
    }
    write_tile(a, &p, total, down);
}

DEVICE void dense_prefill(const struct linear_args *a, u32 *xs, u32 *ws, const int kind)
{
    struct linear_part p = part_of(a, block_x());
    float total[4][4];
    UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++) total[i][j] = 0;
    for (int c0 = 0; c0 < a->n_chunks; c0 += STEP) {
        barrier();
        stage_x(a, xs, c0, 0, 4);
        if (thread() < STEP * TILE) {
            int column = thread() % TILE, c = thread() / TILE,
                panel = (block_x() - p.first) * (TILE / PANEL) + column / PANEL;
            float v[CHUNK];
            UNROLL for (int k = 0; k < CHUNK; k++) v[k] = 0;
            if (panel * PANEL < p.out && c0 + c < a->n_chunks)
                dense_chunk(p.weight, (u64)panel * (u64)a->n_chunks + (u64)(c0 + c), column % PANEL,
                            kind, v);
            UNROLL for (int k = 0; k < CHUNK; k++)
                ws[(c * CHUNK + k) * TILE + column_place(k, column)] = bits_of(v[k]);
        }
        barrier();
        for (int c = 0; c < STEP; c++) {
            float part[4][4];
            chunk_f32(xs + c * CHUNK * TILE, ws + c * CHUNK * TILE, part);
            UNROLL for (int i = 0; i < 4; i++) UNROLL for (int j = 0; j < 4; j++)
                total[i][j] += part[i][j];
        }
    }
    write_tile(a, &p, total, 4);
}

/* Activations are halves or floats in shared memory, and so are weights. */
#define Q4_PREFILL(name, images, half, down)                                                       \
    ON_##images(Q4_PREFILL_TWICE_##half(name, struct linear_args) {                                \
        LDS(u32x4, xs, STEP *CHUNK / ((half) ? 2 : 1) * 16 * (down) / 4);                          \
        LDS(u32x4, ws, STEP *CHUNK / ((half) ? 2 : 1) * TILE / 4);                                 \
        LDS(f32x4, scales, STEP *TILE / 4);                                                        \
        q4_prefill(ARGS, (u32 *)xs, (u32 *)ws, (float *)scales, half, down);                       \
    })
#define Q4_PREFILL_TWICE_0 KERNEL
#define Q4_PREFILL_TWICE_1 KERNEL_TWICE
#define DENSE_PREFILL(name, images, weights)                                                       \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        LDS(u32x4, xs, STEP *CHUNK *DENSE_PREFILL_ROWS / 4);                                       \
        LDS(u32x4, ws, STEP *CHUNK *TILE / 4);                                                     \
        dense_prefill(ARGS, (u32 *)xs, (u32 *)ws, weights);                                        \
    })
#define Q4_PREFILL_EXPERTS(name, images, half, down)                                               \
    ON_##images(Q4_PREFILL_TWICE_##half(name, struct experts_args) {                               \
        LDS(u32x4, xs, STEP *CHUNK / ((half) ? 2 : 1) * 16 * (down) / 4);                          \
        LDS(u32x4, ws, STEP *CHUNK / ((half) ? 2 : 1) * TILE / 4);                                 \
        LDS(f32x4, scales, STEP *TILE / 4);                                                        \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a))                                                      \
            q4_prefill(&a, (u32 *)xs, (u32 *)ws, (float *)scales, half, down);                     \
    })
#define DENSE_PREFILL_EXPERTS(name, images, weights)                                               \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        LDS(u32x4, xs, STEP *CHUNK *DENSE_PREFILL_ROWS / 4);                                       \
        LDS(u32x4, ws, STEP *CHUNK *TILE / 4);                                                     \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a)) dense_prefill(&a, (u32 *)xs, (u32 *)ws, weights);    \
    })
#include "backend-hip/kernels/common/list.h"
#undef Q4_PREFILL_TWICE_0
#undef Q4_PREFILL_TWICE_1
