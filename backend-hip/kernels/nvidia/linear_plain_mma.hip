/* linear_plain_mma.hip: linears with fp16 or bf16 weights by mma on sm_80 and sm_90a, with codes of
 * 8 bits on sm_90a, for all rows. Activations are fp32 in split precision: two halves with a power
 * of two for each row (22 bits), or three bfloats (24 bits); each part is multiplied by itself, so
 * that all products are exact. Those of codes of 8 bits are one half, as of 4-bit linears.
 *   grid      one block of 256 threads for each tile of outputs x rows
 *   warp      whole outputs over all inputs: no split-K
 *   pipeline  a ring in shared memory of DENSE_DEPTH stages of 64 inputs, filled by the whole block
 *             with cp.async; the first weights are loaded before the producer launch has ended
 * Bits: products of 64 inputs are summed, then added, so the order depends on the number of inputs
 * alone, and a row has the same bits in every batch. Rows are operand a here, unlike in the 4-bit
 * kernels: 16 bytes of weights are then two register pairs of operand b, without moves. */

/* Rows of an instruction; chunks of a stage, whose products are summed by themselves; stages of the
 * ring; bytes that a warp reads at once. */
enum { DENSE_ROWS = 16, SUM_CHUNKS = 2, DENSE_DEPTH = 4, DENSE_PIECE = 16 * WARP };

/* dense_parts(): parts of an activation; dense_stage_bytes(): bytes of a panel's weights in a
 * stage. */
DEVICE int dense_parts(const int kind)
{
    return kind == WEIGHT_BF16 ? 3 : kind == WEIGHT_F16 ? 2 : 1;
}
DEVICE int dense_stage_bytes(const int kind)
{
    return kind == WEIGHT_I8 ? BYTES_STAGE : SUM_CHUNKS * 2 * DENSE_PIECE;
}

/* Codes of 8 bits, code - 128, as pairs of neighbours; exact. */
DEVICE void unpack_bytes(u32 word, u32 pair[2])
{
    const f16x2 zero = {(f16)1152, (f16)1152};
    pair[0] = word_of(pair_of(chosen_bytes(word, 0x64646464u, 0x4140)) - zero);
    pair[1] = word_of(pair_of(chosen_bytes(word, 0x64646464u, 0x4342)) - zero);
}

/* The sum of a stage, from the sums of its two chunks. scales: a half for each chunk */
DEVICE float scaled_bytes(u32 scales, float first, float second)
{
    return fma32((float)half_of(scales >> 16), second, (float)half_of(scales) * first);
}

/* Splits two numbers into parts that add up to them, the largest first: 11 bits each by rounding
 * (halves), or 8 bits by truncation (bfloats). With codes of 8 bits the first half is all. */
DEVICE void split_two(float a, float b, u32 part[3], const int kind)
{
    if (kind == WEIGHT_I8) {
        part[0] = word_of((f16x2){(f16)a, (f16)b});
        return;
    }
    if (kind == WEIGHT_F16) {
        f16x2 high = {(f16)a, (f16)b}, low = {(f16)(a - (float)high[0]), (f16)(b - (float)high[1])};
        part[0] = word_of(high);
        part[1] = word_of(low);
        return;
    }
    UNROLL for (int q = 0; q < 3; q++)
    {
        part[q] = bits_of(a) >> 16 | (bits_of(b) & 0xffff0000u);
        a -= f32_of(bits_of(a) & 0xffff0000u);
        b -= f32_of(bits_of(b) & 0xffff0000u);
    }
}

/* Two numbers as two bfloats each, rounded to nearest; the third parts are 0. */
DEVICE void split_rounded(float a, float b, u32 part[3])
{
    part[2] = 0;
    UNROLL for (int q = 0; q < 2; q++)
    {
        u32 of_a = bits_of(a) + 0x7fff + (bits_of(a) >> 16 & 1),
            of_b = bits_of(b) + 0x7fff + (bits_of(b) >> 16 & 1);
        part[q] = of_a >> 16 | (of_b & 0xffff0000u);
        a -= f32_of(of_a & 0xffff0000u);
        b -= f32_of(of_b & 0xffff0000u);
    }
}

#if HAS_WGMMA
/* Splits two numbers into the F16_PARTS parts of plain linears in f16. */
DEVICE void split_f16(float a, float b, u32 part[3], const int kind)
{
    if (kind == WEIGHT_BF16) split_rounded(a, b, part);
    else split_two(a, b, part, kind);
}

/* Where inputs j and j + 1 of 64 are in a row of a tile in the 128-byte swizzle, in halves, for
 * hopper/linear_plain_wgmma.hip and plain_decode_wgmma.hip. in_order 0: in the order of decode rows
 * and codes, whose lanes load words of 8 inputs. */
DEVICE int plain_place(int j, int row, int in_order)
{
    int piece = in_order ? j / 8 : j / CHUNK * 4 + j % 8 / 2,
        within = in_order ? j % 8 : j % CHUNK / 8 * 2;
    return (piece ^ row % 8) * 8 + within;
}

/* Packs a row as [tile][64 inputs][part][rows of a tile][128 bytes]. row: its number among those in
 * tiles */
DEVICE void prepare_plain_row(const struct prepare_args *a, const float *x, int row, int prompt,
                              float factor, const int kind)
{
    const int parts = F16_PARTS(kind);
    int tile = prompt ? a->rest_tile : a->first_tile, of_tile = row % tile;
    f16 *to = (f16 *)a->packed + (prompt ? a->rest_at : 0) +
              (u64)(row - of_tile) * (u64)(a->stride * parts) + of_tile * 64;
    for (int j = 2 * thread(); j < a->stride; j += 2 * THREADS) {
        u32 part[3];
        split_f16(permuted(a, x, j) * factor, permuted(a, x, j + 1) * factor, part, kind);
        UNROLL for (int q = 0; q < parts; q++)
            *(u32 *)(to + (j / 64 * parts + q) * (tile * 64) +
                     plain_place(j % 64, of_tile, prompt && kind != WEIGHT_I8)) = part[q];
    }
}
#endif

/* packed [rows / 16][chunk][part][h][lane][4 words], operand a: lane 4r + t has inputs 8t + 4h and
 * 8t + 4h + 1 of rows r and r + 8, then the next two inputs of both. tiles: rows may be in tiles */
DEVICE void prepare_parts(const struct prepare_args *a, const float *x, int to_row, float *scratch,
                          const int kind, const int tiles)
{
    (void)tiles;
    const int parts = dense_parts(kind);
    int row = to_row % DENSE_ROWS;
    u32 *packed = (u32 *)a->packed +
                  (u64)(to_row / DENSE_ROWS) * (u64)(a->stride / 2 * parts * DENSE_ROWS) +
                  row % 8 * 16 + row / 8;
    struct power_of_two p = {1, 1};
    if (kind != WEIGHT_BF16) {
        float largest = 0;
        for (int j = thread(); j < a->k; j += THREADS)
            largest = max32(abs32(permuted(a, x, j)), largest);
        p = power_for(block_max(largest, scratch), a->top);
    }
    if (thread() == 0) a->scale[to_row] = p.undo;
#if HAS_WGMMA
    int prompt = to_row >= a->n_first;
    if (tiles && (prompt ? a->rest_tile : a->first_tile)) {
        prepare_plain_row(a, x, prompt ? to_row - a->n_first : to_row, prompt, p.factor, kind);
        return;
    }
#endif
    for (int j = 2 * thread(); j < a->stride; j += 2 * THREADS) {
        u32 part[3], *to = packed + j / CHUNK * (parts * 2 * DENSE_PIECE / 4) +
                           j / 4 % 2 * (DENSE_PIECE / 4) + j % CHUNK / 8 * 4 + j % 4;
        float first = permuted(a, x, j) * p.factor, second = permuted(a, x, j + 1) * p.factor;
        if (kind == WEIGHT_BF16 && a->rounded) split_rounded(first, second, part);
        else split_two(first, second, part, kind);
        UNROLL for (int q = 0; q < parts; q++) to[q * (2 * DENSE_PIECE / 4)] = part[q];
    }
}

KERNEL(prepare_parts_f16, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    const struct prepare_args *a = ARGS;
    prepare_parts(a, a->x + (u64)block_x() * (u64)a->in, block_x(), scratch, WEIGHT_F16, 1);
}

KERNEL(prepare_parts_bf16, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    const struct prepare_args *a = ARGS;
    prepare_parts(a, a->x + (u64)block_x() * (u64)a->in, block_x(), scratch, WEIGHT_BF16, 1);
}

ON_SM90(KERNEL(prepare_parts_i8, struct prepare_args) {
    LDS(float, scratch, THREADS);
    const struct prepare_args *a = ARGS;
    prepare_parts(a, a->x + (u64)block_x() * (u64)a->in, block_x(), scratch, WEIGHT_I8, 1);
})

/* Element i of what mix_slots and add_rows would add to a row. */
DEVICE float mixed_at(const struct mix_parts_args *m, int row, int i, float gate)
{
    const struct mix_args *a = &m->mix;
    const float *x = a->x + (u64)row * (u64)a->top_k * (u64)a->n + (u64)i,
                *w = a->weight + (u64)row * (u64)a->top_k;
    float shared = m->shared[(u64)row * (u64)a->n + (u64)i],
          sum = weighted_slots(x, w, a->top_k, a->n);
    return m->gate ? fma32(shared, gate, sum) : sum + shared;
}

/* Norms a row, prepares it for a plain linear and, if it is a decode row, for the experts. mix:
 * NULL, or the arguments that a is part of. y [NORM_PARTS_INPUTS] */
DEVICE void norm_parts(const struct norm_parts_args *a, const struct mix_parts_args *mix,
                       float *scratch, float *y, const int kind)
{
    const struct norm_args *n = &a->norm;
    const int at_once = mix ? 1 : 4; /* elements of a thread whose loads wait for memory together */
    int row = block_x(), dim = n->dim;
    prefetch_lines(n->weight, 4 * dim);
    wait_for_producer();
    u64 offset = (u64)(a->from ? a->from[row] : row) * (u64)dim;
    float sum = 0, largest = 0, gate = mix && mix->gate ? sigmoid32(mix->gate[row]) : 1;
    for (int first = thread(); first < dim; first += at_once * THREADS) {
        float v[4], delta[4];
        UNROLL for (int j = 0; j < at_once; j++)
        {
            int i = first + j * THREADS < dim ? first + j * THREADS : first;
            v[j] = n->x[offset + (u64)i];
            delta[j] = mix ? mixed_at(mix, row, i, gate) : n->delta ? n->delta[offset + (u64)i] : 0;
        }
        UNROLL for (int j = 0; j < at_once; j++)
        {
            int i = first + j * THREADS;
            if (i >= dim) break;
            if (mix || n->delta) v[j] = v[j] + delta[j];
            if (mix || (n->delta && !a->from)) n->x[offset + (u64)i] = v[j];
            y[i] = v[j];
            sum = fma32(v[j], v[j], sum);
        }
    }
    float f = rsqrt32(block_sum(sum, scratch) / (float)dim + n->eps);
    UNROLL_4 for (int i = thread(); i < dim; i += THREADS)
    {
        float v = y[i] * f * n->weight[i];
        y[i] = v;
        if (n->out) n->out[offset + (u64)i] = v;
        largest = max32(abs32(v), largest);
    }
    barrier();
    prepare_parts(&a->parts, y, row, scratch, kind, 1);
    if (row >= a->n_half) return;
    struct power_of_two p = power_for(block_max(largest, scratch), a->half.top);
    for (int i = thread(); i < a->half.stride; i += THREADS)
        ((f16 *)a->half.packed)[(u64)row * (u64)a->half.stride + (u64)i] =
            i < dim ? (f16)(y[i] * p.factor) : (f16)0;
    if (thread() == 0) a->half.scale[row] = p.undo;
}

KERNEL(norm_parts_f16, struct norm_parts_args)
{
    LDS(float, scratch, THREADS);
    LDS(float, y, NORM_PARTS_INPUTS);
    norm_parts(EARLY_ARGS, 0, scratch, y, WEIGHT_F16);
}

KERNEL(norm_parts_bf16, struct norm_parts_args)
{
    LDS(float, scratch, THREADS);
    LDS(float, y, NORM_PARTS_INPUTS);
    norm_parts(EARLY_ARGS, 0, scratch, y, WEIGHT_BF16);
}

ON_SM90(KERNEL(norm_parts_i8, struct norm_parts_args) {
    LDS(float, scratch, THREADS);
    LDS(float, y, NORM_PARTS_INPUTS);
    norm_parts(EARLY_ARGS, 0, scratch, y, WEIGHT_I8);
})

#if HAS_WGMMA
/* The norms of a row's groups, gated, and their preparation: norm_groups, glu and prepare_parts. */
DEVICE void gated_parts(const struct gated_parts_args *a, float *scratch, float *y, const int kind)
{
    int dim = a->norm.dim, t = thread() % 8;
    u64 row = (u64)block_x() * (u64)a->parts.in;
    for (int begin = 0; begin < a->parts.in; begin += THREADS / 8 * dim) {
        int group = begin + thread() / 8 * dim, valid = group < a->parts.in,
            first = valid ? group : 0; /* threads without a group take part in the sums */
        const float *x = a->norm.x + row + (u64)first, *gate = a->gate + row + (u64)first;
        float sum = 0;
        UNROLL_4 for (int i = 4 * t; i < dim; i += 32)
        {
            f32x4 v = *(const f32x4 *)(x + i);
            UNROLL for (int e = 0; e < 4; e++) sum = fma32(v[e], v[e], sum);
        }
        float f = rsqrt32(sum_of_8(sum) / (float)dim + a->norm.eps);
        UNROLL_4 for (int i = 4 * t; i < dim && valid; i += 32)
        {
            f32x4 v = *(const f32x4 *)(x + i), g = *(const f32x4 *)(gate + i),
                  w = *(const f32x4 *)(a->norm.weight + i);
            UNROLL for (int e = 0; e < 4; e++) v[e] = gated(g[e], v[e] * f * w[e], 0);
            *(f32x4 *)(y + first + i) = v;
        }
    }
    barrier();
    prepare_parts(&a->parts, y, block_x(), scratch, kind, 1);
}

#define MIX_PARTS(name, weights)                                                                   \
    KERNEL(name, struct mix_parts_args)                                                            \
    {                                                                                              \
        LDS(float, scratch, THREADS);                                                              \
        LDS(float, y, NORM_PARTS_INPUTS);                                                          \
        const struct mix_parts_args *a = EARLY_ARGS;                                                \
        norm_parts(&a->both, a, scratch, y, weights);                                              \
    }
#define GATED_PARTS(name, weights)                                                                 \
    KERNEL(name, struct gated_parts_args)                                                          \
    {                                                                                              \
        LDS(float, scratch, THREADS);                                                              \
        LDS(f32x4, y, NORM_PARTS_INPUTS / 4);                                                      \
        gated_parts(ARGS, scratch, (float *)y, weights);                                           \
    }
MIX_PARTS(mix_parts_bf16, WEIGHT_BF16)
MIX_PARTS(mix_parts_i8, WEIGHT_I8)
GATED_PARTS(gated_parts_bf16, WEIGHT_BF16)
GATED_PARTS(gated_parts_i8, WEIGHT_I8)
#undef MIX_PARTS
#undef GATED_PARTS
#endif

KERNEL(slots_prepare_parts_f16, struct slot_prepare_args)
{
    const struct slot_prepare_args *s = ARGS;
    LDS(float, scratch, THREADS);
    struct prepare_args a;
    for (int c = 0, slot = block_x() * s->copies; c < s->copies; c++, slot++) {
        const float *x = slot_input(s, slot, &a);
        prepare_parts(&a, x, place_of_slot(s, slot), scratch, WEIGHT_F16, 0);
    }
}

KERNEL(slots_prepare_parts_bf16, struct slot_prepare_args)
{
    const struct slot_prepare_args *s = ARGS;
    LDS(float, scratch, THREADS);
    struct prepare_args a;
    for (int c = 0, slot = block_x() * s->copies; c < s->copies; c++, slot++) {
        const float *x = slot_input(s, slot, &a);
        prepare_parts(&a, x, place_of_slot(s, slot), scratch, WEIGHT_BF16, 0);
    }
}

/* Position of output r's inputs in a chunk, [piece t][16 outputs ^ 2t][16 bytes], without bank
 * conflicts for reads and for copies of 8 outputs. Output r + 8 is 128 bytes further. */
DEVICE int dense_place(int piece, int output)
{
    return (piece * PANEL + (output ^ (2 * piece))) * 16;
}

/* Where a lane's 16 bytes of a stage begin in memory: it has piece t of output r. */
DEVICE int dense_lane(const int kind)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    return kind == WEIGHT_I8 ? dense_place(t, r) : (t * PANEL + r) * 16;
}

/* total[panel][outputs 0 .. 7 or 8 .. 15][rows] += SUM_CHUNKS chunks of `panels` panels times
 * `tiles` sixteens of rows. w, x: of this lane; w_stride, x_stride: bytes from one panel or sixteen
 * to the next. */
DEVICE void multiply_dense(const char *w, const char *x, float total[][2][4][4], const int tiles,
                           const int panels, const int w_stride, const int x_stride, const int kind)
{
    const int parts = dense_parts(kind);
    float part[4][2][4][4];
    UNROLL for (int k = 0; k < panels; k++) UNROLL for (int j = 0; j < 2; j++)
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
            part[k][j][m][i] = 0;
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
    {
        u32x4 q[4][2];
        UNROLL for (int k = 0; k < panels; k++) UNROLL for (int j = 0; j < 2; j++)
            q[k][j] = *(const u32x4 *)(w + k * w_stride + c * (2 * DENSE_PIECE) + j * 128);
        UNROLL for (int s = 0; s < parts; s++) UNROLL for (int h = 0; h < 2; h++)
        {
            u32x4 v[4];
            UNROLL for (int m = 0; m < tiles; m++)
                v[m] = *(const u32x4 *)(x + m * x_stride + ((c * parts + s) * 2 + h) * DENSE_PIECE);
            UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int k = 0; k < panels; k++)
                UNROLL for (int j = 0; j < 2; j++)
            {
                float *sum = part[k][j][m];
                u32 b0 = q[k][j][2 * h], b1 = q[k][j][2 * h + 1];
                if (kind == WEIGHT_BF16) mma_bf16(sum, v[m][0], v[m][1], v[m][2], v[m][3], b0, b1);
                else mma_16x8x16(sum, v[m][0], v[m][1], v[m][2], v[m][3], b0, b1);
            }
        }
    }
    UNROLL for (int k = 0; k < panels; k++) UNROLL for (int j = 0; j < 2; j++)
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
            total[k][j][m][i] += part[k][j][m][i];
}

/* multiply_dense() for codes of 8 bits. scales: of outputs 2 t and 2 t + 1 */
DEVICE void multiply_bytes(const char *w, const char *scales, const char *x,
                           float total[][2][4][4], const int tiles, const int panels,
                           const int x_stride)
{
    u32x4 v[SUM_CHUNKS][2][4];
    UNROLL for (int c = 0; c < SUM_CHUNKS; c++) UNROLL for (int h = 0; h < 2; h++)
        UNROLL for (int m = 0; m < tiles; m++)
            v[c][h][m] = *(const u32x4 *)(x + m * x_stride + (c * 2 + h) * DENSE_PIECE);
    UNROLL for (int k = 0; k < panels; k++)
    {
        u32x4 count = *(const u32x4 *)(scales + k * BYTES_STAGE);
        UNROLL for (int j = 0; j < 2; j++)
        {
            u32x4 q = *(const u32x4 *)(w + k * BYTES_STAGE + j * 128);
            float part[SUM_CHUNKS][4][4];
            UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
            {
                UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
                    part[c][m][i] = 0;
                UNROLL for (int h = 0; h < 2; h++)
                {
                    u32 b[2];
                    unpack_bytes(q[2 * c + h], b);
                    UNROLL for (int m = 0; m < tiles; m++)
                        mma_16x8x16(part[c][m], v[c][h][m][0], v[c][h][m][1], v[c][h][m][2],
                                    v[c][h][m][3], b[0], b[1]);
                }
            }
            UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
                total[k][j][m][i] +=
                scaled_bytes(count[2 * (i % 2) + j], part[0][m][i], part[1][m][i]);
        }
    }
}

/* Copies a warp's share of the weights of a stage. */
DEVICE void fetch_weights(const struct linear_args *a, const char *const weights[2], u32 to,
                          int item, const int panels, const int kind)
{
    if (kind == WEIGHT_I8) {
        int lane = thread() % WARP, valid = item * SUM_CHUNKS < a->n_chunks;
        UNROLL for (int k = 0; k < panels; k++)
        {
            const char *from = weights[k] + (u64)(valid ? item : 0) * BYTES_STAGE;
            u32 offset = to + (u32)(k * BYTES_STAGE);
            UNROLL for (int j = 0; j < 2; j++) copy_16_or_zeros(
                offset + (u32)(j * DENSE_PIECE + lane * 16), from + j * DENSE_PIECE, valid);
            if (lane < 4)
                copy_16_or_zeros(offset + BYTES_CODES + (u32)(lane * 16), from + BYTES_CODES,
                                 valid);
        }
        return;
    }
    UNROLL for (int k = 0; k < panels; k++) UNROLL for (int c = 0; c < SUM_CHUNKS; c++)
    {
        int lane = thread() % WARP, chunk = item * SUM_CHUNKS + c, valid = chunk < a->n_chunks;
        const char *from = weights[k] + (u64)(valid ? chunk : 0) * (2 * DENSE_PIECE);
        UNROLL for (int j = 0; j < 2; j++)
            copy_16_or_zeros(to + (u32)((k * SUM_CHUNKS + c) * (2 * DENSE_PIECE) +
                                        dense_place(lane / PANEL + 2 * j, lane % PANEL)),
                             from + j * DENSE_PIECE, valid);
    }
}

/* A warp has `panels` panels and `tiles` sixteens of rows; `ways` warps share panels and have
 * different rows. lds [DENSE_DEPTH] stages of weights, then activations. */
DEVICE void dense_mma(const struct linear_args *a, u32 *lds, const int tiles, const int ways,
                      const int panels, const int kind)
{
    const int parts = dense_parts(kind), columns = WARPS / ways, copied = panels / ways;
    const int panel_bytes = dense_stage_bytes(kind), w_bytes = columns * panels * panel_bytes;
    const int of_tile = SUM_CHUNKS * parts * 2,
              pieces = tiles * ways * of_tile; /* pieces of activations in a stage */
    const int slot_bytes = w_bytes + pieces * DENSE_PIECE,
              last_slot = (DENSE_DEPTH - 1) * slot_bytes;
    int lane = thread() % WARP, warp = thread() / WARP, r = lane / 4, t = lane % 4,
        tile0 = block_y() * tiles * ways;
    int column = warp % columns * panels, tile = warp / columns * tiles;
    struct linear_part p = part_of(a, block_x());
    int n_items = (a->n_chunks + SUM_CHUNKS - 1) / SUM_CHUNKS,
        first = (block_x() - p.first) * (columns * panels);
    int last_tile = (a->rows - 1) / DENSE_ROWS -
                    tile0; /* a tile or panel behind the last one is a copy of it and not written */
    const char *weights[2], *x = (const char *)a->x +
                                 (u64)tile0 * (u64)a->n_chunks * (u64)(parts * 2 * DENSE_PIECE) +
                                 (u64)(lane * 16);
    u32 ring = lds_address(lds), to = 0, w_to = (u32)(warp * copied * panel_bytes);
    float total[4][2][4][4];
    UNROLL for (int k = 0; k < copied; k++)
    {
        int last = (p.out - 1) / PANEL, panel = first + warp * copied + k;
        weights[k] = (const char *)p.weight +
                     (u64)(panel < last ? panel : last) *
                         (kind == WEIGHT_I8 ? (u64)(a->n_chunks / SUM_CHUNKS) * BYTES_STAGE
                                            : (u64)a->n_chunks * (2 * DENSE_PIECE)) +
                     (u64)(lane * 16);
    }
    UNROLL for (int k = 0; k < panels; k++) UNROLL for (int j = 0; j < 2; j++)
        UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int i = 0; i < 4; i++)
            total[k][j][m][i] = 0;
    UNROLL for (int item = 0; item < DENSE_DEPTH - 1; item++)
        fetch_weights(a, weights, ring + w_to + (u32)(item * slot_bytes), item, copied, kind);
    wait_for_producer();
    NO_UNROLL for (int item = 1 - DENSE_DEPTH; item < n_items;
                   item++) /* before item 0: activations of the stages whose weights are loaded
                              above */
    {
        int next = item + DENSE_DEPTH - 1; /* loaded into the stage of the item before this one */
        if (item >= 0) {
            COPIES_WAIT(DENSE_DEPTH - 2);
            barrier();
        }
        if (next < n_items) {
            if (item >= 0) fetch_weights(a, weights, ring + w_to + to, next, copied, kind);
            UNROLL for (int j = 0; j < (pieces + WARPS - 1) / WARPS; j++)
            {
                int piece = warp + j * WARPS, m = piece / of_tile, index = piece % of_tile;
                int valid = next * SUM_CHUNKS + index / (parts * 2) < a->n_chunks;
                const char *from =
                    x + (u64)((m < last_tile ? m : last_tile) * a->n_chunks * parts * 2 + index) *
                            DENSE_PIECE;
                if (piece < pieces)
                    copy_16_or_zeros(ring + to + (u32)(w_bytes + piece * DENSE_PIECE + lane * 16),
                                     from, valid);
            }
            x += of_tile * DENSE_PIECE;
        }
        copies_commit();
        to = to == (u32)last_slot ? 0 : to + (u32)slot_bytes;
        if (item < 0) continue;
        const char *slot = (const char *)lds + (u32)(item % DENSE_DEPTH) * (u32)slot_bytes;
        const char *w = slot + column * panel_bytes,
                   *v = slot + w_bytes + tile * (of_tile * DENSE_PIECE) + lane * 16;
        if (kind == WEIGHT_I8)
            multiply_bytes(w + dense_place(t, r), w + BYTES_CODES + t * 16, v, total, tiles, panels,
                           of_tile * DENSE_PIECE);
        else
            multiply_dense(w + dense_place(t, r), v, total, tiles, panels, panel_bytes,
                           of_tile * DENSE_PIECE, kind);
    }
    UNROLL for (int m = 0; m < tiles; m++) UNROLL for (int k = 0; k < panels; k++)
        UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 4; i++)
            write_output(a, &p, (tile0 + tile + m) * DENSE_ROWS + r + i / 2 * 8,
                         (first + column + k) * PANEL + 8 * j + 2 * t + i % 2, total[k][j][m][i]);
}

#define DENSE_MMA(name, images, weights, parts, tiles, ways, panels, blocks)                       \
    ON_##images(KERNEL(name, struct linear_args) {                                                 \
        dense_mma(EARLY_ARGS, dynamic_lds, tiles, ways, panels, weights);                          \
    })
#define DENSE_MMA_EXPERTS(name, images, weights, parts, tiles, ways, panels, blocks)               \
    ON_##images(KERNEL(name, struct experts_args) {                                                \
        struct linear_args a;                                                                      \
        if (expert_tile(ARGS, block_y(), &a))                                                      \
            dense_mma(&a, dynamic_lds, tiles, ways, panels, weights);                              \
    })
#include "backend-hip/kernels/nvidia/list.h"
