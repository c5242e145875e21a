/* gptq.hip: quantization (core/step/gptq.h) with the bits of the host's loops
 * (quantize/kernels_loops.h, quantize/factor.c): chains of fused multiply-adds in ascending order.
 * Rows beyond the last are zeros, which change no chain. */

/* ---- sums of products: a block has a tile of 128 x 256, a thread 8 x 16 of it: rows 4y and 64 +
 * 4y on, columns 4x, 64 + 4x, .. on. Operands come GPTQ_ROWS rows at a time, the next while these
 * are multiplied. */

enum {
    GPTQ_TALL = GPTQ_TILE / 4, /* pieces of 4 of a row of a, and of b */
    GPTQ_WIDE = GPTQ_TILE_WIDE / 4,
    GPTQ_COPIES_A = GPTQ_ROWS * GPTQ_TALL / THREADS,
    GPTQ_COPIES_B = GPTQ_ROWS * GPTQ_WIDE / THREADS
};

/* Row r, columns from `column` on of an operand of n columns. */
DEVICE f32x4 gptq_piece(const struct gptq_product_args *a, const float *x, u64 ld, long long r,
                        int column, int n)
{
    f32x4 v = {0, 0, 0, 0};
    if (r >= a->nr || column >= n) return v;
    u64 row = (u64)(a->index ? a->index[r] : r);
    return *(const f32x4 *)(x + row * ld + column);
}

/* Pieces of the rows from r on, and of the step's place in shared memory. */
DEVICE void gptq_fetch(const struct gptq_product_args *a, long long r, f32x4 of_a[GPTQ_COPIES_A],
                       f32x4 of_b[GPTQ_COPIES_B])
{
    int t = thread(), i0 = block_y() * GPTQ_TILE, j0 = block_x() * GPTQ_TILE_WIDE;
    UNROLL for (int k = 0; k < GPTQ_COPIES_A; k++)
    {
        int at = t + k * THREADS;
        of_a[k] = gptq_piece(a, a->a, a->lda, r + at / GPTQ_TALL, i0 + at % GPTQ_TALL * 4, a->ni);
    }
    UNROLL for (int k = 0; k < GPTQ_COPIES_B; k++)
    {
        int at = t + k * THREADS;
        of_b[k] = gptq_piece(a, a->b, a->ldb, r + at / GPTQ_WIDE, j0 + at % GPTQ_WIDE * 4, a->nj);
    }
}

DEVICE void gptq_stage_both(f32x4 *as, f32x4 *bs, const f32x4 of_a[GPTQ_COPIES_A],
                            const f32x4 of_b[GPTQ_COPIES_B])
{
    UNROLL for (int k = 0; k < GPTQ_COPIES_A; k++) as[thread() + k * THREADS] = of_a[k];
    UNROLL for (int k = 0; k < GPTQ_COPIES_B; k++) bs[thread() + k * THREADS] = of_b[k];
}

/* v; what is computed from it is computed here, and not kept in registers through a loop. */
DEVICE int gptq_anew(int v)
{
#if defined(__NVPTX__)
    asm volatile("" : "+r"(v));
#elif defined(__AMDGCN__)
    __asm__ volatile("" : "+v"(v));
#endif
    return v;
}

/* Adds a chain's sums to c, two rows at a time, and clears them. */
DEVICE void gptq_put_sums(const struct gptq_product_args *a, float sum[8][16])
{
    int t = gptq_anew(thread()), x = t % 16, y = t / 16, i0 = block_y() * GPTQ_TILE,
        j0 = block_x() * GPTQ_TILE_WIDE;
    float sign = a->minus ? -1 : 1; /* products with it are exact */
    UNROLL for (int i = 0; i < 8; i += 2)
    {
        f32x4 *to[8], c[8];
        UNROLL for (int k = 0; k < 8; k++)
        {
            int of = i + k / 4, row = i0 + of / 4 * 64 + 4 * y + of % 4,
                column = j0 + k % 4 * 64 + 4 * x, out = row >= a->ni || column >= a->nj;
            to[k] = out ? (f32x4 *)0 : (f32x4 *)(a->c + (u64)row * a->ldc + column);
            if (!out) c[k] = *to[k];
        }
        UNROLL for (int k = 0; k < 8; k++)
        {
            if (!to[k]) continue;
            UNROLL for (int j = 0; j < 4; j++)
            {
                c[k][j] = fma32(sum[i + k / 4][k % 4 * 4 + j], sign, c[k][j]);
            }
            *to[k] = c[k];
        }
    }
    UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 16; j++) sum[i][j] = 0;
}

KERNEL(gptq_product, struct gptq_product_args)
{
    enum { TALL = GPTQ_ROWS * GPTQ_TALL, WIDE = GPTQ_ROWS * GPTQ_WIDE };
    LDS(f32x4, as, 2 * TALL);
    LDS(f32x4, bs, 2 * WIDE);
    const struct gptq_product_args *a = ARGS;
    int x = thread() % 16, y = thread() / 16, stage = 0, left = a->chunk;
    if (a->upper && (block_x() + 1) * GPTQ_TILE_WIDE <= block_y() * GPTQ_TILE) return;
    float sum[8][16];
    f32x4 of_a[GPTQ_COPIES_A], of_b[GPTQ_COPIES_B];
    UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 16; j++) sum[i][j] = 0;
    gptq_fetch(a, 0, of_a, of_b);
    gptq_stage_both(as, bs, of_a, of_b);
    barrier();
    for (long long r = 0; r < a->nr; r += GPTQ_ROWS, stage ^= 1) {
        gptq_fetch(a, r + GPTQ_ROWS, of_a, of_b);
        UNROLL_2 for (int k = 0; k < GPTQ_ROWS; k++)
        {
            const f32x4 *pa = as + stage * TALL + k * GPTQ_TALL,
                        *pb = bs + stage * WIDE + k * GPTQ_WIDE;
            f32x4 va[2] = {pa[y], pa[16 + y]}, vb[4] = {pb[x], pb[16 + x], pb[32 + x], pb[48 + x]};
            UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 16; j++)
                sum[i][j] = fma32(va[i / 4][i % 4], vb[j / 4][j % 4], sum[i][j]);
        }
        gptq_stage_both(as + (stage ^ 1) * TALL, bs + (stage ^ 1) * WIDE, of_a, of_b);
        barrier();
        left -= GPTQ_ROWS;
        if (left) continue;
        left = a->chunk;
        gptq_put_sums(a, sum);
    }
    if (left != a->chunk) gptq_put_sums(a, sum);
}

/* A tile of 128 x 64, a thread has rows y + 16 i and columns x + 16 j. */
KERNEL(gptq_product_64, struct gptq_product_64_args)
{
    LDS(double, as, GPTQ_STEP *GPTQ_TILE);
    LDS(double, bs, GPTQ_STEP *GPTQ_TILE_64);
    const struct gptq_product_64_args *a = ARGS;
    int t = thread(), x = t % 16, y = t / 16, i0 = block_y() * GPTQ_TILE,
        j0 = block_x() * GPTQ_TILE_64;
    if (a->upper && j0 + GPTQ_TILE_64 <= i0) return;
    double sum[8][4];
    UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 4; j++) sum[i][j] = 0;
    for (int r = 0; r < a->nr; r += GPTQ_STEP) {
        UNROLL for (int k = 0; k < GPTQ_STEP * GPTQ_TILE / THREADS; k++)
        {
            int at = t + k * THREADS, row = r + at / GPTQ_TILE, i = i0 + at % GPTQ_TILE;
            as[at] = row < a->nr && i < a->ni ? a->a[(u64)row * a->lda + (u64)i] : 0;
        }
        UNROLL for (int k = 0; k < GPTQ_STEP * GPTQ_TILE_64 / THREADS; k++)
        {
            int at = t + k * THREADS, row = r + at / GPTQ_TILE_64, j = j0 + at % GPTQ_TILE_64;
            bs[at] = row < a->nr && j < a->nj ? a->b[(u64)row * a->ldb + (u64)j] : 0;
        }
        barrier();
        UNROLL_4 for (int k = 0; k < GPTQ_STEP; k++)
        {
            double va[8], vb[4];
            UNROLL for (int i = 0; i < 8; i++) va[i] = as[k * GPTQ_TILE + y + 16 * i];
            UNROLL for (int j = 0; j < 4; j++) vb[j] = bs[k * GPTQ_TILE_64 + x + 16 * j];
            UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 4; j++)
                sum[i][j] = __builtin_fma(va[i], vb[j], sum[i][j]);
        }
        barrier();
    }
    UNROLL for (int i = 0; i < 8; i++) UNROLL for (int j = 0; j < 4; j++)
    {
        int row = i0 + y + 16 * i, column = j0 + x + 16 * j;
        if (row >= a->ni || column >= a->nj) continue;
        double *to = a->c + (u64)row * a->ldc + (u64)column, c = a->set ? 0 : *to;
        *to = a->minus ? c - sum[i][j] : c + sum[i][j];
    }
}

/* ---- the matrix and its factor: a block of threads for pieces of a row */

KERNEL(gptq_matrix, struct gptq_matrix_args)
{
    const struct gptq_matrix_args *a = ARGS;
    int i = block_y(), j = block_x() * THREADS + thread(), n = a->n;
    if (j < i || j >= n) return;
    u64 x = (u64)a->order[n - 1 - i], y = (u64)a->order[n - 1 - j];
    double v = x < y ? a->sum[x * (u64)n + y] : a->sum[y * (u64)n + x];
    if (i == j) v = v > 0 ? v + a->add : a->add > 0 ? a->add : 1;
    a->g[(u64)i * a->ld + (u64)j] = v;
}

KERNEL(gptq_corner, struct gptq_corner_args)
{
    const struct gptq_corner_args *a = ARGS;
    int at = block_x() * THREADS + thread(), i = at / GPTQ_PLACES, j = at % GPTQ_PLACES;
    if (i < a->n && j < a->n) a->to[at] = a->from[(u64)i * a->ld + (u64)j];
}

KERNEL(gptq_factor, struct gptq_factor_args)
{
    const struct gptq_factor_args *a = ARGS;
    int i = block_y(), j = block_x() * THREADS + thread(), n = a->n;
    if (j >= n) return;
    int row = n - 1 - i, column = n - 1 - j, block = row / GPTQ_PLACES;
    double v = 0;
    if (j >= i && column / GPTQ_PLACES < block) v = a->g[(u64)row * a->ld + (u64)column];
    else if (j >= i)
        v = a->inverse[((u64)block * GPTQ_PLACES + (u64)(column % GPTQ_PLACES)) * GPTQ_PLACES +
                       (u64)(row % GPTQ_PLACES)];
    a->u[(u64)i * (u64)n + (u64)j] = (float)v;
}

KERNEL(gptq_diagonal, struct gptq_diagonal_args)
{
    const struct gptq_diagonal_args *a = ARGS;
    int i = block_x() * THREADS + thread();
    if (i < a->n) a->to[i] = a->sum[(u64)i * (u64)a->n + (u64)i];
}

/* ---- the weights by places, and back */

KERNEL(gptq_take, struct gptq_places_args)
{
    const struct gptq_places_args *a = ARGS;
    int place = block_y(), row = block_x() * THREADS + thread();
    if (row >= a->out) return;
    float w = a->w[(u64)row * (u64)a->in + (u64)a->order[place]];
    a->places[(u64)place * (u64)a->out + (u64)row] = a->dead[place] ? 0 : w;
}

KERNEL(gptq_codes, struct gptq_places_args)
{
    const struct gptq_places_args *a = ARGS;
    int place = block_y(), row = block_x() * THREADS + thread();
    if (row >= a->out) return;
    a->codes[(u64)a->order[place] * (u64)a->out + (u64)row] =
        a->q[(u64)place * (u64)a->out + (u64)row];
}

KERNEL(gptq_errors, struct gptq_places_args)
{
    const struct gptq_places_args *a = ARGS;
    int row = block_x() * THREADS + thread();
    if (row >= a->out) return;
    double lost = 0, all = 0;
    for (int i = 0; i < a->in; i++) {
        u64 at = (u64)i * (u64)a->out + (u64)row;
        double was = a->dead[i] ? a->w[(u64)row * (u64)a->in + (u64)a->order[i]] : a->raw[at],
               is = a->places[at];
        lost += (was - is) * (was - is);
        all += was * was;
    }
    a->error[3 * row + 1] = lost;
    a->error[3 * row + 2] = all;
}

/* ---- ranges: 16 outputs of a block, of each 16 threads, which try every 16th range */

DEVICE float gptq_nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
DEVICE float gptq_least(float a, float b) { return a < b ? a : b; }
DEVICE float gptq_most(float a, float b) { return a > b ? a : b; }

DEVICE float gptq_to_f16(float s)
{
    float split = s * 8193.0f, normal = split - (split - s), small = (s + 0.5f) - 0.5f;
    small = gptq_most(small, 0x1p-24f);
    return gptq_least(s < 0x1p-14f ? small : normal, 65504.0f);
}

DEVICE float gptq_power(float x)
{
    float a = gptq_most(abs32(x), 0x1p-60f), small = abs32(x) < 0x1p-60f ? 0.0f : 1.0f;
    int bits = (int)bits_of(a), up = (bits & 0x7fffff) > 0x3504f3;
    int e = ((bits >> 23) & 255) - 127 + up;
    float f = f32_of((u32)((bits & 0x7fffff) | (127 - up) << 23)) - 1.0f;
    float p = fma32(f, -0.1549f, 0.2270f);
    p = fma32(f, p, -0.2490f);
    p = fma32(f, p, 0.2865f);
    p = fma32(f, p, -0.36045f);
    p = fma32(f, p, 0.48087f);
    p = fma32(f, p, -0.721349f);
    p = fma32(f, p, 1.442695f);
    float y = 0.4f * fma32(f, p, (float)e), whole = gptq_nearest(y), rest = y - whole;
    float g = fma32(rest, 0.009618f, 0.0555041f);
    g = fma32(rest, g, 0.2402265f);
    g = fma32(rest, g, 0.6931472f);
    g = fma32(rest, g, 1.0f);
    y = f32_of((u32)(((int)whole + 127) << 23));
    return small * (a * a) * (g * y);
}

struct gptq_range {
    float scale, inverse, zero, error;
};

DEVICE struct gptq_range gptq_range_at(const struct gptq_range_args *a, float low, float high,
                                       float factor)
{
    float codes = (float)((1 << a->bits) - 1), middle = (float)(1 << (a->bits - 1));
    struct gptq_range r;
    low = low * factor, high = high * factor;
    r.scale = gptq_to_f16((high - low) / codes);
    r.inverse = 1.0f / r.scale;
    float zero = gptq_nearest(gptq_most(gptq_least(-low * r.inverse, 4096.0f), 0.0f));
    r.zero = a->sym ? middle : gptq_most(1.0f, gptq_least(zero, codes));
    r.error = 0;
    return r;
}

DEVICE float gptq_code(float w, float inverse, float zero, float codes)
{
    float q = gptq_nearest(gptq_most(-65536.0f, gptq_least(65536.0f, w * inverse))) + zero;
    return gptq_most(0.0f, gptq_least(codes, q));
}

/* Places first .. of the group, GPTQ_PLACES at most, to w [place][16]. */
DEVICE void gptq_stage(const struct gptq_range_args *a, float *w, int first, int n)
{
    barrier();
    for (int i = thread(); i < n * GPTQ_RANGE_ROWS; i += THREADS) {
        int row = block_x() * GPTQ_RANGE_ROWS + i % GPTQ_RANGE_ROWS;
        w[i] = a->w[(u64)(first + i / GPTQ_RANGE_ROWS) * (u64)a->out + (u64)row];
    }
    barrier();
}

DEVICE void gptq_put_range(const struct gptq_range_args *a, int row, struct gptq_range r)
{
    f16 half = (f16)r.scale;
    a->scale[row] = r.scale;
    a->inverse[row] = r.inverse;
    a->zero[row] = r.zero;
    __builtin_memcpy(&a->scales[row], &half, 2);
    a->zeros[row] = (u8)r.zero;
}

KERNEL(gptq_ranges, struct gptq_range_args)
{
    enum { ROWS = GPTQ_RANGE_ROWS, LANES = GPTQ_RANGE_LANES, STEPS = GPTQ_RANGE_STEPS / LANES };
    LDS(float, w, GPTQ_PLACES *ROWS);
    LDS(float, lows, THREADS);
    LDS(float, highs, THREADS);
    LDS(struct gptq_range, best_of, THREADS);
    const struct gptq_range_args *a = ARGS;
    int t = thread(), l = t % ROWS, lane = t / ROWS, row = block_x() * ROWS + l;
    float low = 0, high = 0, codes = (float)((1 << a->bits) - 1);
    for (int at = 0; at < a->n; at += GPTQ_PLACES) {
        int n = a->n - at < GPTQ_PLACES ? a->n - at : GPTQ_PLACES;
        gptq_stage(a, w, at, n);
        for (int i = lane; i < n; i += LANES) {
            low = gptq_least(low, w[i * ROWS + l]);
            high = gptq_most(high, w[i * ROWS + l]);
        }
    }
    lows[t] = low, highs[t] = high;
    barrier();
    for (int i = 0; i < LANES; i++) {
        low = gptq_least(low, lows[i * ROWS + l]);
        high = gptq_most(high, highs[i * ROWS + l]);
    }
    float top = gptq_most(-low, high), none = top == 0 ? 1.0f : 0.0f;
    if (a->sym) low = -top, high = top;
    low -= none, high += none;
    if (!a->search) {
        if (!lane) gptq_put_range(a, row, gptq_range_at(a, low, high, a->clip > 0 ? a->clip : 1));
        return;
    }
    struct gptq_range r[STEPS];
    UNROLL for (int k = 0; k < STEPS; k++)
        r[k] = gptq_range_at(a, low, high, 1 - (float)(lane + k * LANES) / 100);
    for (int at = 0; at < a->n; at += GPTQ_PLACES) {
        int n = a->n - at < GPTQ_PLACES ? a->n - at : GPTQ_PLACES;
        gptq_stage(a, w, at, n);
        for (int i = 0; i < n; i++) {
            float v = w[i * ROWS + l];
            UNROLL for (int k = 0; k < STEPS; k++)
            {
                float q = gptq_code(v, r[k].inverse, r[k].zero, codes) - r[k].zero;
                r[k].error += gptq_power(fma32(q, r[k].scale, -v));
            }
        }
    }
    /* The first of the least errors: over the numbers lane + 16 k. */
    struct gptq_range best = r[0];
    int of = lane;
    UNROLL for (int k = 1; k < STEPS; k++) if (r[k].error < best.error) best = r[k],
                                                                        of = lane + k * LANES;
    best_of[t] = best;
    lows[t] = (float)of;
    barrier();
    if (lane) return;
    for (int i = 1; i < LANES; i++) {
        struct gptq_range other = best_of[i * ROWS + l];
        int number = (int)lows[i * ROWS + l];
        if (other.error < best.error || (other.error == best.error && number < of))
            best = other, of = number;
    }
    gptq_put_range(a, row, best);
}

/* ---- rounding: a thread has an output, whose places of the block lie in shared memory. Of
 * GPTQ_AT_ONCE places the errors stay in registers until all places behind have got them. */

/* Rounds place i, whose weight is v; returns its error. */
DEVICE float gptq_round_place(const struct gptq_round_args *a, int row, int i, float *v,
                              const struct gptq_range *r)
{
    u64 at = (u64)i * (u64)a->out + (u64)row;
    float codes = (float)((1 << a->bits) - 1), d = 1.0f / a->u[(u64)i * a->ldu + (u64)i],
          code = gptq_code(*v, r->inverse, r->zero, codes), value = r->scale * (code - r->zero),
          drift = *v - value;
    if (a->beta > 0) drift = fma32(-a->beta, *v - a->raw[at], drift);
    float e = drift * d;
    a->q[at] = (u8)code;
    a->e[at] = e;
    *v = value;
    return e;
}

/* FOEM's change of place i, before it is rounded. */
DEVICE float gptq_correct(const struct gptq_round_args *a, int row, int i, float v)
{
    return fma32(-a->beta, v - a->raw[(u64)i * (u64)a->out + (u64)row], v);
}

KERNEL(gptq_round, struct gptq_round_args)
{
    enum { ROWS = GPTQ_ROUND_ROWS, MANY = GPTQ_AT_ONCE };
    LDS(float, all, GPTQ_PLACES *ROWS);
    const struct gptq_round_args *a = ARGS;
    int row = block_x() * ROWS + thread(), n = a->n;
    if (row >= a->out) return;
    float *w = all + thread(), e[MANY], v[MANY];
    const struct gptq_range r = {a->scale[row], a->inverse[row], a->zero[row], 0};
    double error = a->error[3 * row];
    UNROLL_4 for (int i = a->from; i < n; i++) w[i * ROWS] = a->w[(u64)i * (u64)a->out + (u64)row];
    for (int first = a->from; first < a->to; first += MANY) {
        const float *u = a->u + (u64)first * a->ldu;
        UNROLL for (int i = 0; i < MANY; i++) v[i] = w[(first + i) * ROWS];
        UNROLL for (int i = 0; i < MANY; i++)
        {
            e[i] = gptq_round_place(a, row, first + i, &v[i], &r);
            error += (double)e[i] * (double)e[i];
            UNROLL for (int j = i + 1; j < MANY; j++)
                v[j] = fma32(-u[(u64)i * a->ldu + (u64)(first + j)], e[i], v[j]);
            if (a->beta > 0 && i + 1 < MANY)
                v[i + 1] = gptq_correct(a, row, first + i + 1, v[i + 1]);
        }
        UNROLL for (int i = 0; i < MANY; i++) w[(first + i) * ROWS] = v[i];
        for (int j = first + MANY; j < n; j += 4) {
            float x[4] = {w[j * ROWS], w[(j + 1) * ROWS], w[(j + 2) * ROWS], w[(j + 3) * ROWS]};
            UNROLL for (int i = 0; i < MANY; i++)
            {
                f32x4 of = *(const f32x4 *)(u + (u64)i * a->ldu + (u64)j);
                UNROLL for (int k = 0; k < 4; k++) x[k] = fma32(-of[k], e[i], x[k]);
            }
            UNROLL for (int k = 0; k < 4; k++) w[(j + k) * ROWS] = x[k];
        }
        int next = first + MANY;
        if (a->beta > 0 && next < n) w[next * ROWS] = gptq_correct(a, row, next, w[next * ROWS]);
    }
    UNROLL_4 for (int i = a->from; i < n; i++) a->w[(u64)i * (u64)a->out + (u64)row] = w[i * ROWS];
    a->error[3 * row] = error;
}
