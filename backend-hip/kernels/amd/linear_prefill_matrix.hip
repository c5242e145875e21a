/* linear_prefill_matrix.hip: 4-bit GEMM of prompt rows by AMD's matrix instructions (matrix.h). A
 * block of 256 threads computes a tile of 128 outputs x 64 rows, a wave of 64 lanes 64 x 32 of it,
 * a wave of 32 lanes 32 x 32, over pairs of chunks in LDS, the next pair in flight to registers.
 * Bits: the products of a chunk are summed, then scaled and added, so the order depends on the
 * number of inputs alone. */
#include "backend-hip/kernels/amd/matrix.h"

enum { MATRIX_ROWS = 64, MATRIX_OUTPUTS = 128, DOWN = 2 }; /* DOWN: tiles of 16 rows to a wave */
/* 16-byte pieces of activations that a thread loads */
enum { PIECES = MATRIX_ROWS * 8 / THREADS };

/* Position of 16 bytes number i of a row of a pair of chunks, swizzled: 8 neighbouring rows are in
 * 8 places of a line of LDS, and so are words of two neighbouring outputs, which are written
 * together. */
DEVICE int matrix_place(int row, int i) { return row * 8 + (i ^ (row % 2 * 4 + row / 2 % 4)); }

/* What a thread loads of a pair of chunks: activations, and codes and scales of two outputs and two
 * chunks. */
struct matrix_next {
    u32x4 x[PIECES], q;
    struct scale_zero g[4];
};

DEVICE struct matrix_next matrix_fetch(const struct linear_args *a, const struct linear_part *p,
                                       int row0, int panel, int pair)
{
    struct matrix_next n;
    int n_pairs = a->n_chunks / 2, lane = thread() % 32;
    UNROLL for (int k = 0; k < PIECES; k++)
    {
        int index = thread() + k * THREADS, row = row0 + index / 8;
        n.x[k] = (u32x4){0, 0, 0, 0};
        if (row < a->rows)
            n.x[k] =
                ((const u32x4 *)a->x)[((u64)row * (u64)n_pairs + (u64)pair) * 8 + (u64)(index % 8)];
    }
    n.q = (u32x4){0, 0, 0, 0};
    UNROLL for (int j = 0; j < 4; j++) n.g[j] = scale_zero_of(0, 0);
    if (panel * PANEL < p->out) {
        n.q = ((const u32x4 *)p->weight)[((u64)panel * (u64)n_pairs + (u64)pair) * 32 + (u64)lane];
        UNROLL for (int j = 0; j < 4; j++)
            n.g[j] = meta_at(p, meta_row(p, panel, 2 * pair + j / 2), lane / 4 + j % 2 * 8);
    }
    return n;
}

DEVICE void matrix_store(const struct matrix_next *n, u32x4 *xs, u32x4 *ws, float *scales)
{
    int lane = thread() % 32;
    UNROLL for (int k = 0; k < PIECES; k++)
    {
        int index = thread() + k * THREADS;
        xs[matrix_place(index / 8, index % 8)] = n->x[k];
    }
    UNROLL for (int j = 0; j < 4; j++)
    {
        int output = thread() / 32 * PANEL + lane / 4 + j % 2 * 8;
        f16x2 w[4];
        u32x4 words;
        unpack_word(n->q[j], &n->g[j], w);
        UNROLL for (int i = 0; i < 4; i++) words[i] = word_of(w[i]);
        ws[matrix_place(output, j / 2 * 4 + lane % 4)] = words;
        if (lane % 4 == 0) scales[j / 2 * MATRIX_OUTPUTS + output] = n->g[j].scale;
    }
}

DEVICE void matrix_prefill(const struct linear_args *a, u32x4 *xs, u32x4 *ws, float *scales,
                           const int kind)
{
    const int lanes = matrix_lanes(kind), words = matrix_words(kind), values = matrix_values(kind),
              across = lanes / MATRIX;
    struct linear_part p = part_of(a, block_x());
    int lane = thread() % lanes, wave = thread() / lanes, row0 = block_y() * MATRIX_ROWS,
        block = block_x() - p.first;
    int first_row = wave % 2 * DOWN * MATRIX + lane % MATRIX,
        first_output = wave / 2 * across * MATRIX + lane % MATRIX;
    int panel = block * (MATRIX_OUTPUTS / PANEL) + thread() / 32;
    float total[DOWN][4][8];
    UNROLL for (int i = 0; i < DOWN; i++) UNROLL for (int j = 0; j < across; j++)
        UNROLL for (int v = 0; v < values; v++) total[i][j][v] = 0;
    struct matrix_next next = matrix_fetch(a, &p, row0, panel, 0);
    for (int pair = 0; pair < a->n_chunks / 2; pair++) {
        barrier();
        matrix_store(&next, xs, ws, scales);
        barrier();
        if (pair + 1 < a->n_chunks / 2) next = matrix_fetch(a, &p, row0, panel, pair + 1);
        NO_UNROLL for (int c = 0; c < 2; c++)
        {
            u32x4 x[DOWN][4];
            UNROLL for (int i = 0; i < DOWN; i++) UNROLL for (int w = 0; w < words; w++) x[i][w] =
                xs[matrix_place(first_row + i * MATRIX, 4 * c + matrix_word(kind, lane, w))];
            UNROLL for (int j = 0; j < across; j++)
            {
                int output = first_output + j * MATRIX;
                u32x4 y[4];
                UNROLL for (int w = 0; w < words; w++)
                    y[w] = ws[matrix_place(output, 4 * c + matrix_word(kind, lane, w))];
                UNROLL for (int i = 0; i < DOWN; i++)
                {
                    float part[8];
                    matrix_chunk(kind, x[i], y, part);
                    UNROLL for (int v = 0; v < values; v++) total[i][j][v] =
                        fma32(scales[c * MATRIX_OUTPUTS + output], part[v], total[i][j][v]);
                }
            }
        }
    }
    UNROLL for (int i = 0; i < DOWN; i++) UNROLL for (int j = 0; j < across; j++)
        UNROLL for (int v = 0; v < values; v++)
            write_output(a, &p,
                         row0 + first_row - lane % MATRIX + i * MATRIX + matrix_row(kind, lane, v),
                         block * MATRIX_OUTPUTS + first_output + j * MATRIX, total[i][j][v]);
}

#define Q4_PREFILL_MATRIX(name, images, kind, of_block, outs)                                      \
    _Static_assert((of_block) == MATRIX_ROWS && (outs) == MATRIX_OUTPUTS, "a block of " #name);    \
    ON_##images(KERNEL_TWICE(name, struct linear_args) {                                           \
        LDS(u32x4, xs, MATRIX_ROWS * 8);                                                           \
        LDS(u32x4, ws, MATRIX_OUTPUTS * 8);                                                        \
        LDS(float, scales, 2 * MATRIX_OUTPUTS);                                                    \
        matrix_prefill(ARGS, xs, ws, scales, kind);                                                \
    })
#define Q4_PREFILL_MATRIX_EXPERTS(name, images, kind, of_block, outs)                              \
    ON_##images(KERNEL_TWICE(name, struct experts_args) {                                          \
        LDS(u32x4, xs, MATRIX_ROWS * 8);                                                           \
        LDS(u32x4, ws, MATRIX_OUTPUTS * 8);                                                        \
        LDS(float, scales, 2 * MATRIX_OUTPUTS);                                                    \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a)) matrix_prefill(&a, xs, ws, scales, kind);            \
    })
#include "backend-hip/kernels/amd/list.h"
