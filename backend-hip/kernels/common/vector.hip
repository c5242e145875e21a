/* vector.hip: operations on rows of activations: preparation of a linear's input (permute, scale to
 * fp16, pack), embedding, RMSNorm, SwiGLU, gathering. One block of THREADS threads for each row
 * unless said otherwise. A row is held in registers where it fits. Bits: sums of a row depend on
 * its length alone, and fused kernels compute what the single ones do. */

DEVICE float permuted(const struct prepare_args *a, const float *x, int j)
{
    int from = j < a->k ? (a->perm ? a->perm[j] : j) : -1;
    return from < 0 ? 0 : x[from];
}

KERNEL(prepare_f32, struct prepare_args)
{
    const struct prepare_args *a = ARGS;
    int row = block_x();
    const float *x = a->x + (u64)row * (u64)a->in;
    float *packed = (float *)a->packed + (u64)row * (u64)a->stride;
    for (int j = thread(); j < a->stride; j += THREADS) packed[j] = permuted(a, x, j);
}

/* The power of two that brings the largest magnitude into [2^top, 2^(top+1)), and its inverse. With
 * top = 14 nothing overflows, and subnormal results are below 2^-28 of the largest. */
struct power_of_two {
    float factor, undo;
};

DEVICE struct power_of_two power_for(float largest, int top)
{
    int exponent = (int)(bits_of(largest) >> 23) - 127;
    if (exponent < -100) exponent = -100; /* zero and tiny rows */
    return (struct power_of_two){f32_of((u32)(top - exponent + 127) << 23),
                                 f32_of((u32)(exponent - top + 127) << 23)};
}

/* The destination of a row's packed fp16 inputs. */
struct row_place {
    f16 *at; /* input 0 */
    int tile, turn;
};

DEVICE struct row_place place_of(const struct prepare_args *a, int row)
{
#if defined(__AMDGCN__) /* no AMD kernel takes tiles */
    return (struct row_place){(f16 *)a->packed + (u64)row * (u64)a->stride, 0, 0};
#else
    struct row_place p;
    int first = row < a->n_first, r = first ? row : row - a->n_first, of_tile = 0;
    u64 begin = first ? 0 : a->rest_at;
    p.tile = first ? a->first_tile : a->rest_tile;
    if (p.tile) {
        of_tile = r % p.tile;
        begin += (u64)(of_tile * 64);
    }
    p.at = (f16 *)a->packed + begin + (u64)(r - of_tile) * (u64)a->stride;
    p.turn = of_tile % 8;
    return p;
#endif
}

/* The position of input j; inputs 2i and 2i + 1 are adjacent. */
DEVICE f16 *place_at(const struct row_place *p, int j)
{
    if (!p->tile) return p->at + j;
    return p->at + j / 64 * (p->tile * 64) +
           (((j / 32 % 2 * 4 + j % 8 / 2) ^ p->turn) * 8 + j % 32 / 8 * 2 + j % 2);
}

/* Packs the row x [in] as row number `row`. */
DEVICE void prepare_row(const struct prepare_args *a, const float *x, int row, float *scratch)
{
    struct row_place place = place_of(a, row);
    float largest = 0;
    for (int j = thread(); j < a->k; j += THREADS)
        largest = max32(abs32(permuted(a, x, j)), largest);
    struct power_of_two p = power_for(block_max(largest, scratch), a->top);
    for (int j = thread(); j < a->stride; j += THREADS)
        *place_at(&place, j) = (f16)(permuted(a, x, j) * p.factor);
    if (thread() == 0) a->scale[row] = p.undo;
}

/* Rows in registers: thread t has elements 4t .. 4t+3 of each piece, 4 elements for each of
 * `threads` threads. Having many 16-byte loads in flight at once makes a single row fast. */
#define FOR_PIECES_OF(threads, n, j, i, dim)                                                       \
    UNROLL for (int j = 0, i = 4 * thread(); j < (n); j++, i += 4 * (threads)) if (i < (dim))
#define FOR_PIECES(n, j, i, dim) FOR_PIECES_OF(THREADS, n, j, i, dim)

/* Whether the row is packed without permutation or padding. */
DEVICE int stays(const struct prepare_args *a) { return !a->perm && a->stride == a->in; }

/* Whether a row fits the registers before and after its preparation. */
DEVICE int fits_pieces(const struct prepare_args *a, const int pieces)
{
    return a->in <= pieces * PIECE && a->stride <= pieces * PIECE && a->in % 4 == 0 &&
           a->k % 4 == 0;
}

/* Stores four halves from input i on. */
DEVICE void place_four(const struct row_place *place, int i, f16x2 lo, f16x2 hi)
{
#if defined(__NVPTX__) /* a thread has 4 bytes of each of two 16-byte units; after an exchange
                          with lane ^ 2 it has 8 of one */
    if (place->tile) {
        u32 give = thread() & 2 ? word_of(lo) : word_of(hi), got = shuffle_xor(give, 2);
        if (thread() & 2) *(u64 *)place_at(place, i - 8 + 2) = (u64)got | (u64)word_of(hi) << 32;
        else *(u64 *)place_at(place, i) = (u64)word_of(lo) | (u64)got << 32;
        return;
    }
#elif !defined(__AMDGCN__)
    if (place->tile) {
        *(f16x2 *)place_at(place, i) = lo;
        *(f16x2 *)place_at(place, i + 2) = hi;
        return;
    }
#endif
    *(u64 *)(place->at + i) = (u64)word_of(lo) | (u64)word_of(hi) << 32;
}

DEVICE float largest_of(f32x4 v, float largest)
{
    UNROLL for (int e = 0; e < 4; e++) largest = max32(abs32(v[e]), largest);
    return largest;
}

DEVICE void place_piece(const struct row_place *place, int i, f32x4 v, float factor)
{
    f16x2 lo = {(f16)(v[0] * factor), (f16)(v[1] * factor)},
          hi = {(f16)(v[2] * factor), (f16)(v[3] * factor)};
    place_four(place, i, lo, hi);
}

/* The scale of a row v[n]. */
DEVICE struct power_of_two power_of_pieces(const f32x4 *v, int dim, int top, float *scratch,
                                           const int n)
{
    float largest = 0;
    FOR_PIECES(n, j, i, dim) largest = largest_of(v[j], largest);
    return power_for(block_max(largest, scratch), top);
}

/* Packs the row x from memory, permuted or padded; the block's writes of x are behind a barrier.
 * Dependent loads are issued AT_ONCE at a time. */
DEVICE void place_permuted(const struct prepare_args *a, const struct row_place *place,
                           const float *x, float factor, const int n)
{
    enum { AT_ONCE = 4 };
    for (int j0 = 0; j0 < n; j0 += AT_ONCE) {
        u32x4 from[AT_ONCE];
        f32x4 v[AT_ONCE];
        int i0 = 4 * thread() + j0 * PIECE;
        UNROLL for (int j = 0, i = i0; j < AT_ONCE; j++, i += PIECE)
        {
            if (i < a->k)
                from[j] = a->perm ? *(const u32x4 *)(a->perm + i)
                                  : (u32x4){(u32)i, (u32)i + 1, (u32)i + 2, (u32)i + 3};
            else from[j] = (u32x4){~0u, ~0u, ~0u, ~0u};
        }
        UNROLL for (int j = 0; j < AT_ONCE; j++) UNROLL for (int e = 0; e < 4; e++)
            v[j][e] = (int)from[j][e] < 0 ? 0 : x[from[j][e]];
        UNROLL for (int j = 0, i = i0; j < AT_ONCE; j++, i += PIECE) if (i < a->stride)
            place_piece(place, i, v[j], factor);
    }
}

/* Loads the permutation of a thread's inputs, order[n], before the wait for the producer: it is
 * known early, and has left the caches since the last step. Longer rows have no registers for it
 * until the row has left them. */
enum { EARLY_PIECES = 8 };

DEVICE void load_order(const struct prepare_args *a, u64 *order, const int n, const int threads)
{
    FOR_PIECES_OF(threads, n, j, i, a->stride) order[j] = *(const u64 *)(a->order + i);
}

DEVICE void early_order(const struct prepare_args *a, u64 *order, const int n, const int threads)
{
    if (a->order && n <= EARLY_PIECES) load_order(a, order, n, threads);
    else if (a->order) prefetch_lines(a->order, a->stride * 2);
}

/* Packs the row v[n]. order[n]: from early_order(). ordered [ORDERED of its pieces of PIECE]:
 * shared memory through which a row is permuted; NULL: no row is. */
DEVICE void place_pieces(const struct prepare_args *a, const struct row_place *place,
                         const f32x4 *v, float factor, u64 *order, u64 *ordered, const int n,
                         const int threads)
{
    const f32x4 none = {0, 0, 0, 0};
    if (!ordered || !a->order) {
        FOR_PIECES_OF(threads, n, j, i, a->stride)
        place_piece(place, i, i < a->in ? v[j] : none, factor);
        return;
    }
    const struct row_place natural = {(f16 *)ordered, 0, 0};
    const u16 *from = (const u16 *)ordered;
    FOR_PIECES_OF(threads, n, j, i, a->in) place_piece(&natural, i, v[j], factor);
    if (n > EARLY_PIECES) load_order(a, order, n, threads);
    if (thread() == 0) natural.at[a->in] = 0;
    barrier();
    FOR_PIECES_OF(threads, n, j, i, a->stride)
    {
        u32 h[4];
        UNROLL for (int e = 0; e < 4; e++) h[e] = from[(u32)(order[j] >> (16 * e)) & 0xffffu];
        place_four(place, i, pair_of(h[0] | h[1] << 16), pair_of(h[2] | h[3] << 16));
    }
}

DEVICE void prepare_pieces(const struct prepare_args *a, int row, const f32x4 *v, u64 *order,
                           float *scratch, u64 *ordered, const int n)
{
    struct row_place place = place_of(a, row);
    struct power_of_two p = power_of_pieces(v, a->in, a->top, scratch, n);
    if (thread() == 0) a->scale[row] = p.undo;
    place_pieces(a, &place, v, p.factor, order, ordered, n, THREADS);
}

DEVICE void prepare_rows(const struct prepare_args *a, float *scratch, u64 *ordered,
                         const int pieces)
{
    int row = block_x();
    f32x4 v[ROW_PIECES];
    u64 order[ROW_PIECES];
    early_order(a, order, pieces, THREADS);
    wait_for_producer();
    if (!fits_pieces(a, pieces)) {
        prepare_row(a, a->x + (u64)row * (u64)a->in, row, scratch);
        return;
    }
    FOR_PIECES(pieces, j, i, a->in) v[j] = *(const f32x4 *)(a->x + (u64)row * (u64)a->in + i);
    prepare_pieces(a, row, v, order, scratch, ordered, pieces);
}

KERNEL(prepare_f16_4, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_prepare_f16_4));
    prepare_rows(EARLY_ARGS, scratch, ordered, PIECES_OF_prepare_f16_4);
}

KERNEL(prepare_f16_11, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_prepare_f16_11));
    prepare_rows(EARLY_ARGS, scratch, ordered, PIECES_OF_prepare_f16_11);
}

KERNEL(prepare_f16_14, struct prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_prepare_f16_14));
    prepare_rows(EARLY_ARGS, scratch, ordered, PIECES_OF_prepare_f16_14);
}

/* Unrolled loads wait for memory together. */
#if defined(__NVPTX__)
#define EMBED_UNROLL UNROLL_8
#else /* AMD has 11 code objects, in which unrolling costs bytes */
#define EMBED_UNROLL NO_UNROLL
#endif
KERNEL(embed_rows, struct embed_args)
{
    const struct embed_args *a = ARGS;
    int row = block_x(), token = a->token[row], pieces = a->kind == WEIGHT_F32 ? 8 : 4,
        inputs = CHUNK / pieces;
    if (token < 0) token = a->chosen[-1 - token];
    if (token < 0) token = 0;
    u64 first = (u64)(token / PANEL) * (u64)(a->n_chunks * pieces * PANEL) + (u64)(token % PANEL);
    EMBED_UNROLL for (int j = thread(); j < a->dim; j += THREADS)
    {
        u64 offset = (first + (u64)(j / inputs * PANEL)) * (u64)inputs + (u64)(j % inputs);
        float v;
        if (a->kind == WEIGHT_F32) v = ((const float *)a->weight)[offset];
        else if (a->kind == WEIGHT_BF16) v = f32_of_bf16(((const u16 *)a->weight)[offset]);
        else v = (float)half_of(((const u16 *)a->weight)[offset]);
        a->out[(u64)row * (u64)a->dim + (u64)j] = v * a->scale;
    }
}

/* RMSNorm of a row in memory. Thread t sums elements t, t + THREADS, .. */
DEVICE void norm_row(const struct norm_args *a, int row, float *scratch)
{
    u64 offset = (u64)row * (u64)a->dim;
    float *x = a->x + offset, sum = 0;
    for (int i = thread(); i < a->dim; i += THREADS) {
        float v = x[i];
        if (a->delta) x[i] = v = v + a->delta[offset + (u64)i];
        sum = fma32(v, v, sum);
    }
    float f = rsqrt32(block_sum(sum, scratch) / (float)a->dim + a->eps);
    for (int i = thread(); i < a->dim; i += THREADS)
        a->out[offset + (u64)i] = x[i] * f * a->weight[i];
}

/* norm_row() in the order of norm_pieces(): thread t sums elements 4t .. 4t + 3, then 4 (THREADS +
 * t) .. and so on. dim is a multiple of 4. */
DEVICE void norm_row_by_4(const struct norm_args *a, int row, float *scratch)
{
    u64 offset = (u64)row * (u64)a->dim;
    float *x = a->x + offset, sum = 0;
    for (int i = 4 * thread(); i < a->dim; i += 4 * THREADS)
        for (int e = i; e < i + 4; e++) {
            float v = x[e];
            if (a->delta) x[e] = v = v + a->delta[offset + (u64)e];
            sum = fma32(v, v, sum);
        }
    float f = rsqrt32(block_sum(sum, scratch) / (float)a->dim + a->eps);
    for (int i = 4 * thread(); i < a->dim; i += 4 * THREADS)
        for (int e = i; e < i + 4; e++) a->out[offset + (u64)e] = x[e] * f * a->weight[e];
}

KERNEL(norm_rows, struct norm_args)
{
    LDS(float, scratch, THREADS);
    norm_row(ARGS, block_x(), scratch);
}

KERNEL(norm_rows_by_4, struct norm_args)
{
    LDS(float, scratch, THREADS);
    norm_row_by_4(ARGS, block_x(), scratch);
}

/* RMSNorm of a row v[pieces]; w[pieces]: the weights */
DEVICE void norm_pieces(const struct norm_args *n, f32x4 *v, const f32x4 *w, float *scratch,
                        const int pieces)
{
    float sum = 0;
    FOR_PIECES(pieces, j, i, n->dim)
    UNROLL for (int e = 0; e < 4; e++) sum = fma32(v[j][e], v[j][e], sum);
    float f = rsqrt32(block_sum(sum, scratch) / (float)n->dim + n->eps);
    FOR_PIECES(pieces, j, i, n->dim)
    UNROLL for (int e = 0; e < 4; e++) v[j][e] = v[j][e] * f * w[j][e];
}

DEVICE void norm_prepare(const struct norm_prepare_args *a, float *scratch, u64 *ordered,
                         const int pieces)
{
    const struct norm_args *n = &a->norm;
    u64 order[ROW_PIECES];
    int dim = n->dim;
    early_order(&a->prepare, order, pieces, THREADS);
    wait_for_producer();
    if (!fits_pieces(&a->prepare, pieces)) {
        norm_row(n, block_x(), scratch);
        barrier();
        prepare_row(&a->prepare, a->prepare.x + (u64)block_x() * (u64)dim, block_x(), scratch);
        return;
    }
    u64 offset = (u64)block_x() * (u64)dim;
    f32x4 v[ROW_PIECES], w[ROW_PIECES];
    FOR_PIECES(pieces, j, i, dim) v[j] = *(const f32x4 *)(n->x + offset + i);
    if (n->delta) FOR_PIECES(pieces, j, i, dim) w[j] = *(const f32x4 *)(n->delta + offset + i);
    if (n->delta) FOR_PIECES(pieces, j, i, dim) v[j] = v[j] + w[j];
    FOR_PIECES(pieces, j, i, dim) w[j] = *(const f32x4 *)(n->weight + i);
    if (n->delta) FOR_PIECES(pieces, j, i, dim) * (f32x4 *)(n->x + offset + i) = v[j];
    norm_pieces(n, v, w, scratch, pieces);
    if (n->out) FOR_PIECES(pieces, j, i, dim) * (f32x4 *)(n->out + offset + i) = v[j];
    prepare_pieces(&a->prepare, block_x(), v, order, scratch, ordered, pieces);
}

KERNEL(norm_prepare_4, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_norm_prepare_4));
    norm_prepare(EARLY_ARGS, scratch, ordered, PIECES_OF_norm_prepare_4);
}

KERNEL(norm_prepare_11, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_norm_prepare_11));
    norm_prepare(EARLY_ARGS, scratch, ordered, PIECES_OF_norm_prepare_11);
}

KERNEL(norm_prepare_14, struct norm_prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(u64, ordered, ORDERED(PIECES_OF_norm_prepare_14));
    norm_prepare(EARLY_ARGS, scratch, ordered, PIECES_OF_norm_prepare_14);
}

/* SiLU or GELU (core/step/op.h) of gate, times up */
DEVICE float gated(float gate, float up, const int gelu)
{
    float z = gate;
    if (gelu) z = gate * fma32(0x1.2444f2p-4f, gate * gate, 0x1.988454p+0f);
    return gate * rcp32(1 + exp32(-z)) * up;
}

/* One thread to an element. */
KERNEL(glu, struct glu_args)
{
    const struct glu_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i < a->n) a->gate[i] = gated(a->gate[i], a->up[i], a->gelu);
}

/* One thread to a group, in the CPU's order. */
KERNEL(group_sums, struct group_sums_args)
{
    const struct group_sums_args *a = ARGS;
    u64 place = (u64)block_x() * THREADS + (u64)thread();
    if (place >= a->n) return;
    const float *x = a->x + place * (u64)a->group;
    float sum[SUM_LANES] = {0};
    for (int i = 0; i < a->group; i += SUM_LANES)
        UNROLL for (int l = 0; l < SUM_LANES; l++) sum[l] += x[i + l];
    UNROLL for (int w = SUM_LANES / 2; w; w /= 2) UNROLL for (int l = 0; l < w; l++)
        sum[l] += sum[l + w];
    a->out[place] = sum[0];
}

/* One thread to an element. */
KERNEL(softcap, struct softcap_args)
{
    const struct softcap_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i < a->n) a->x[i] = softcapped(a->x[i], a->cap);
}

/* SwiGLU and preparation. `kept` pieces stay in registers, the others in shared memory; at_once:
 * pieces whose loads are in flight together. */
DEVICE void glu_prepare(const struct glu_prepare_args *a, float *scratch, f32x4 *held,
                        const int pieces, const int kept, const int at_once)
{
    int dim = (int)a->glu.n, row = block_x();
    u64 offset = (u64)row * a->glu.n;
    float *gate = a->glu.gate + offset, largest = 0;
    const float *up = a->glu.up + offset;
    if (!fits_pieces(&a->prepare, pieces)) {
        for (int i = thread(); i < dim; i += THREADS) gate[i] = gated(gate[i], up[i], a->glu.gelu);
        barrier();
        prepare_row(&a->prepare, gate, row, scratch);
        return;
    }
    f32x4 v[ROW_PIECES];
    UNROLL for (int j0 = 0; j0 < pieces; j0 += at_once)
    {
        f32x4 g[ROW_PIECES], w[ROW_PIECES];
        UNROLL for (int j = 0, i = 4 * thread() + j0 * PIECE; j < at_once && j0 + j < pieces;
                    j++, i += PIECE) if (i < dim) g[j] = *(const f32x4 *)(gate + i),
                                                  w[j] = *(const f32x4 *)(up + i);
        UNROLL for (int j = 0, i = 4 * thread() + j0 * PIECE; j < at_once && j0 + j < pieces;
                    j++, i += PIECE)
        {
            if (i >= dim) continue;
            UNROLL for (int e = 0; e < 4; e++) g[j][e] = gated(g[j][e], w[j][e], a->glu.gelu);
            if (a->keep) *(f32x4 *)(gate + i) = g[j];
            largest = largest_of(g[j], largest);
            if (j0 + j < kept) v[j0 + j] = g[j];
            else held[(j0 + j - kept) * THREADS + thread()] = g[j];
        }
    }
    struct power_of_two p = power_for(block_max(largest, scratch), a->prepare.top);
    struct row_place place = place_of(&a->prepare, row);
    if (!stays(&a->prepare)) place_permuted(&a->prepare, &place, gate, p.factor, pieces);
    else FOR_PIECES(pieces, j, i, dim)
    place_piece(&place, i, j < kept ? v[j] : held[(j - kept) * THREADS + thread()], p.factor);
    if (thread() == 0) a->prepare.scale[row] = p.undo;
}

/* Pieces in shared memory, for rows of up to 11 and 14 pieces: on NVIDIA a multiprocessor is to
 * hold four blocks. */
#if defined(__NVPTX__)
enum { GLU_HELD_11 = 5, GLU_HELD_14 = 8, GLU_AT_ONCE = 3 };
#else
enum { GLU_HELD_11 = 0, GLU_HELD_14 = 0, GLU_AT_ONCE = 5 };
#endif

KERNEL(glu_prepare_4, struct glu_prepare_args)
{
    LDS(float, scratch, THREADS);
    glu_prepare(ARGS, scratch, (f32x4 *)scratch, PIECES_OF_glu_prepare_4, PIECES_OF_glu_prepare_4,
                PIECES_OF_glu_prepare_4);
}

KERNEL(glu_prepare_11, struct glu_prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(f32x4, held, GLU_HELD_11 * THREADS + 1);
    glu_prepare(ARGS, scratch, held, PIECES_OF_glu_prepare_11,
                PIECES_OF_glu_prepare_11 - GLU_HELD_11, GLU_AT_ONCE);
}

KERNEL(glu_prepare_14, struct glu_prepare_args)
{
    LDS(float, scratch, THREADS);
    LDS(f32x4, held, GLU_HELD_14 * THREADS + 1);
    glu_prepare(ARGS, scratch, held, PIECES_OF_glu_prepare_14,
                PIECES_OF_glu_prepare_14 - GLU_HELD_14, GLU_AT_ONCE);
}

KERNEL(gather_rows, struct gather_args)
{
    const struct gather_args *a = ARGS;
    const float *x = a->x + (u64)a->row[block_x()] * (u64)a->dim;
    float *out = a->out + (u64)block_x() * (u64)a->dim;
    for (int i = thread(); i < a->dim; i += THREADS) out[i] = x[i];
}
