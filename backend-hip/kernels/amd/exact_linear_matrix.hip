/* exact_linear_matrix.hip: 4-bit linears of many rows in the CPU's order (common/exact_linear.hip)
 * by AMD's matrix instructions of signed bytes (matrix.h), to the bit. A block of 256 threads
 * computes a tile of 64 rows x 8 panels, a wave of 64 lanes 32 rows x 64 outputs of it, a wave of
 * 32 lanes 32 x 32. The integers of a sub-group's rows and its codes, unpacked to bytes, lie in
 * shared memory, the next sub-group's are in flight to registers. */
#include "backend-hip/kernels/amd/matrix.h"

/* Bytes between rows of integers and of codes, so that the 16 rows of a load are in all banks.
 * DOWN, DIGITS: row tiles of a wave; digits, at most */
enum { EXACT_MATRIX_STRIDE = 144, EXACT_DOWN = 2 };

/* A sub-group in shared memory: integers [digit][row], codes [output], scales. */
struct exact_matrix_lds {
    u8 *digits, *codes;
    struct exact_scaled *rows;   /* [EXACT_MATRIX_ROWS] */
    struct exact_scale *outputs; /* [EXACT_MATRIX_PANELS * PANEL] */
};

/* What a thread copies of each sub-group: 16 bytes of the integers of two rows, two chunks of an
 * output's codes, the scale of an output, that of a row. */
struct exact_matrix_copies {
    struct exact_panel codes, scales;
    int row[2], scaled; /* rows of the input, of digits and of scales; -1: none */
};

struct exact_matrix_next {
    u32x4 digits[2][2]; /* [digit][row] */
    u32x4 codes[2], low[2]; /* low: the low halves of pairs */
    struct exact_scale output;
    struct exact_scaled row;
    int n; /* chunks */
};

DEVICE void exact_matrix_fetch(const struct exact_linear_args *a,
                               const struct exact_matrix_copies *copies,
                               struct exact_matrix_next *x, int sub, const int digits,
                               const int pairs)
{
    int t = thread(), part = t % 8, first = exact_begin(&a->groups, sub, &x->n),
        packed = exact_packed(&a->groups, first), group = exact_group_of(&a->groups, first);
    UNROLL for (int d = 0; d < 2; d++) UNROLL for (int i = 0; i < 2; i++)
    {
        if (d == digits) break;
        const u8 *from = (const u8 *)a->of.digit +
                         (u64)(copies->row[i] * a->of.digits + d) * (u64)a->of.stride +
                         (u64)(first * CHUNK + part * 16);
        x->digits[d][i] = copies->row[i] >= 0 && part / 2 < x->n ? *(const u32x4 *)from
                                                                 : (u32x4){0, 0, 0, 0};
    }
    const u32x4 *codes = (const u32x4 *)copies->codes.codes + packed * PANEL + t % PANEL;
    UNROLL for (int i = 0; i < 2; i++)
    {
        int c = t / PANEL % 2 + 2 * i;
        const u32x4 *from = codes + (c < x->n ? c * PANEL : 0);
        x->codes[i] = from[0];
        if (pairs) x->low[i] = from[a->groups.group_chunks * PANEL];
    }
    x->output = (struct exact_scale){0, 0};
    if (t < EXACT_MATRIX_PANELS * PANEL && copies->scales.exists)
        x->output = exact_scale_of(&copies->scales.part, copies->scales.number, group, t % PANEL);
    if (pairs) x->output.zero = 0;
    x->row = (struct exact_scaled){0, 0};
    if (copies->scaled >= 0) x->row = *exact_scaled_at(&a->of, copies->scaled, sub);
}

DEVICE void exact_matrix_store(const struct exact_matrix_lds *l, const struct exact_matrix_next *x,
                               const int digits, const int pairs)
{
    int t = thread();
    UNROLL for (int d = 0; d < 2; d++) UNROLL for (int i = 0; i < 2; i++) if (d < digits)
        *(u32x4 *)(l->digits + (d * EXACT_MATRIX_ROWS + t / 8 + 32 * i) * EXACT_MATRIX_STRIDE +
                   t % 8 * 16) = x->digits[d][i];
    UNROLL for (int i = 0; i < 2; i++)
    {
        const struct exact_lane_bytes b = exact_lane_unpack(&x->codes[i], &x->low[i], pairs);
        u8 *to = l->codes + (t / 32 * PANEL + t % PANEL) * EXACT_MATRIX_STRIDE +
                 (t / PANEL % 2 + 2 * i) * CHUNK;
        UNROLL for (int k = 0; k < 2; k++)
            *(u32x4 *)(to + 16 * k) = (u32x4){b.half[k].low[0], b.half[k].high[0],
                                              b.half[k].low[1], b.half[k].high[1]};
    }
    if (t < EXACT_MATRIX_PANELS * PANEL) l->outputs[t] = x->output;
    if (t < EXACT_MATRIX_ROWS) l->rows[t] = x->row;
}

/* A lane's words of chunk c of a row of bytes. */
DEVICE void exact_matrix_words(const u8 *row, int lane, int c, u32x2 v[4], const int kind)
{
    UNROLL for (int w = 0; w < matrix_words(kind); w++)
        v[w] = *(const u32x2 *)(row + c * CHUNK + 8 * matrix_word(kind, lane, w));
}

/* Adds the terms of a sub-group of n chunks. first_row, first_output: where the lane begins in the
 * tile */
DEVICE void exact_matrix_add(const struct exact_matrix_lds *l, int n, int first_row,
                             int first_output, float total[EXACT_DOWN][4][8], const int digits,
                             const int kind)
{
    const int lanes = matrix_lanes(kind), across = lanes / MATRIX, values = matrix_values(kind);
    int lane = thread() % lanes, sum[EXACT_DOWN][4][8];
    UNROLL for (int i = 0; i < EXACT_DOWN; i++) UNROLL for (int j = 0; j < across; j++)
        UNROLL for (int v = 0; v < values; v++) sum[i][j][v] = 0;
    UNROLL for (int d = 0; d < 2; d++)
    {
        if (d == digits) break;
        NO_UNROLL for (int c = 0; c < n; c++)
        {
            u32x2 x[EXACT_DOWN][4], y[4];
            UNROLL for (int i = 0; i < EXACT_DOWN; i++)
                exact_matrix_words(l->digits + (d * EXACT_MATRIX_ROWS + first_row + i * MATRIX) *
                                                   EXACT_MATRIX_STRIDE,
                                   lane, c, x[i], kind);
            UNROLL for (int j = 0; j < across; j++)
            {
                exact_matrix_words(l->codes + (first_output + j * MATRIX) * EXACT_MATRIX_STRIDE,
                                   lane, c, y, kind);
                UNROLL for (int i = 0; i < EXACT_DOWN; i++)
                    matrix_add_chunk_s8(kind, x[i], y, sum[i][j]);
            }
        }
        if (d + 1 < digits)
            UNROLL for (int i = 0; i < EXACT_DOWN; i++) UNROLL for (int j = 0; j < across; j++)
                UNROLL for (int v = 0; v < values; v++) sum[i][j][v] *= 128;
    }
    UNROLL for (int i = 0; i < EXACT_DOWN; i++) UNROLL for (int v = 0; v < values; v++)
    {
        const struct exact_scaled x =
            l->rows[first_row - lane % MATRIX + i * MATRIX + matrix_row(kind, lane, v)];
        UNROLL for (int j = 0; j < across; j++) total[i][j][v] =
            total[i][j][v] +
            exact_term(&x, &l->outputs[first_output + j * MATRIX], sum[i][j][v]);
    }
}

/* Block (tile of 64 rows or of an expert's places, 8 panels) */
DEVICE void exact_matrix(const struct exact_linear_args *a, const struct exact_matrix_lds *l,
                         const int digits, const int pairs, const int kind)
{
    const int lanes = matrix_lanes(kind), across = lanes / MATRIX, values = matrix_values(kind);
    if (!exact_tile_exists(a, block_x())) return;
    const struct exact_block_rows r = exact_rows_of_tile(a, block_x(), EXACT_MATRIX_ROWS,
                                                         !!a->expert);
    const int of_expert = a->expert ? block_x() : -1;
    int t = thread(), lane = t % lanes, wave = t / lanes, panel0 = block_y() * EXACT_MATRIX_PANELS,
        first_row = wave % 2 * EXACT_DOWN * MATRIX + lane % MATRIX,
        first_output = wave / 2 * across * MATRIX + lane % MATRIX;
    struct exact_matrix_copies copies;
    struct exact_matrix_next next;
    copies.codes = exact_panel_of(a, panel0 + t / 32, of_expert);
    copies.scales = exact_panel_of(a, panel0 + t / PANEL % EXACT_MATRIX_PANELS, of_expert);
    UNROLL for (int i = 0; i < 2; i++)
    {
        int place = r.first + t / 8 + 32 * i;
        copies.row[i] = place < r.end ? exact_input(a, place) : -1;
    }
    copies.scaled = t < EXACT_MATRIX_ROWS && r.first + t < r.end ? exact_input(a, r.first + t) : -1;
    float total[EXACT_DOWN][4][8];
    UNROLL for (int i = 0; i < EXACT_DOWN; i++) UNROLL for (int j = 0; j < across; j++)
        UNROLL for (int v = 0; v < values; v++) total[i][j][v] = 0;
    exact_matrix_fetch(a, &copies, &next, 0, digits, pairs);
    NO_UNROLL for (int sub = 0; sub < a->groups.n; sub++)
    {
        int n = next.n;
        barrier();
        exact_matrix_store(l, &next, digits, pairs);
        barrier();
        if (sub + 1 < a->groups.n) exact_matrix_fetch(a, &copies, &next, sub + 1, digits, pairs);
        exact_matrix_add(l, n, first_row, first_output, total, digits, kind);
    }
    UNROLL for (int j = 0; j < across; j++)
    {
        const struct exact_panel panel = exact_panel_of(a, panel0 + first_output / PANEL + j,
                                                        of_expert);
        const struct linear_part p = panel.part;
        int output = panel.number * PANEL + lane % PANEL;
        if (!panel.exists || output >= p.out) continue;
        UNROLL for (int i = 0; i < EXACT_DOWN; i++) UNROLL for (int v = 0; v < values; v++)
        {
            int place = r.first + first_row - lane % MATRIX + i * MATRIX +
                        matrix_row(kind, lane, v);
            if (place >= r.end) continue;
            p.y[(u64)exact_slot(a, place) * (u64)p.out + (u64)output] =
                p.bias ? total[i][j][v] + p.bias[output] : total[i][j][v];
        }
    }
}

#define EXACT_MATRIX(name, images, kind)                                                           \
    ON_##images(KERNEL(name, struct exact_linear_args) {                                           \
        LDS(u32x4, digits, 2 * EXACT_MATRIX_ROWS * EXACT_MATRIX_STRIDE / 16);                      \
        LDS(u32x4, codes, EXACT_MATRIX_PANELS *PANEL *EXACT_MATRIX_STRIDE / 16);                   \
        LDS(struct exact_scaled, rows, EXACT_MATRIX_ROWS);                                         \
        LDS(struct exact_scale, outputs, EXACT_MATRIX_PANELS *PANEL);                              \
        const struct exact_matrix_lds l = {(u8 *)digits, (u8 *)codes, rows, outputs};              \
        const struct exact_linear_args *a = ARGS;                                                  \
        if (a->groups.pairs) exact_matrix(a, &l, a->of.digits, 1, kind);                           \
        else if (a->of.digits == 2) exact_matrix(a, &l, 2, 0, kind);                               \
        else exact_matrix(a, &l, 1, 0, kind);                                                      \
    })
#include "backend-hip/kernels/amd/list.h"
