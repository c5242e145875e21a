/* exact_digits.hip: quantization of rows for hopper/exact_linear_wgmma.hip, which says the layout
 * of their tiles: sub-groups of 128 inputs. The same integers as exact_quantize and
 * exact_norm_quantize.
 *   grid      exact_quantize_tiles: (32 sub-groups, row); exact_norm_tiles: row
 *   threads   8 to a sub-group: number j has octets j and j + 8 */

/* 1.5 2^23 + v times inverse has the integer in its low bits; for two digits 64 more, so that the
 * first digit is above the lowest 7 bits. */
DEVICE int exact_biased(float v, float inverse, const int two)
{
    return (int)bits_of(v * inverse + (two ? 0x1.8p23f + 64 : 0x1.8p23f));
}

/* The bytes of inputs 2w, 2w + 4, 2w + 1 and 2w + 5 of an octet. */
DEVICE u32 exact_four_bytes(const int v[8], int w)
{
    const int four[4] = {v[2 * w], v[2 * w + 4], v[2 * w + 1], v[2 * w + 5]};
    return int8_bytes(four);
}

/* The place of a row's scale in its tile. */
DEVICE int exact_scale_place(int row, int digits)
{
    int of_16 = row % 16;
    if (digits == 2) return row - of_16 + of_16 % 4 * 4 + of_16 / 4;
    return row - of_16 + of_16 % 8 / 2 * 4 + of_16 / 8 * 2 + of_16 % 2;
}

DEVICE void exact_put_digits(const struct exact_quantize_args *a, const float v[2][8], int row,
                             int sub, const int two)
{
    const int digits = 1 + two;
    int maximum = 0, lane = thread() % 8;
    UNROLL for (int i = 0; i < 16; i++) maximum = larger_bits(v[i / 8][i % 8], maximum);
    maximum = most_of_lanes(maximum, 8);
    if (sub >= a->groups.n) return;
    const int low = !two && sub < a->to.low, top = 0x4b400000 + EXACT_LOW_TOP;
    struct int_scale s = exact_int_scale(maximum, two, low);
    int tile = row / a->to.tile, at_row = row - tile * a->to.tile, column = at_row * digits;
    u8 *rows = (u8 *)a->to.digit +
               (u64)(tile * a->groups.n + sub) * (u64)(a->to.tile * (digits * 128 + 4)),
       *to = rows + column * 128 + lane % 4 * 4;
    UNROLL for (int o = 0; o < 2; o++)
    {
        int bits[8], high[8], piece = (lane + 8 * o) / 4 * 2;
        UNROLL for (int i = 0; i < 8; i++) bits[i] = exact_biased(v[o][i], s.inverse, two);
        if (low) UNROLL for (int i = 0; i < 8; i++) bits[i] = bits[i] < top ? bits[i] : top;
        UNROLL for (int i = 0; i < 8; i++) high[i] = two ? bits[i] >> 7 : bits[i];
        UNROLL for (int w = 0; w < 2; w++)
        {
            *(u32 *)(to + ((piece + w) ^ column % 8) * 16) = exact_four_bytes(high, w);
            if (two)
                *(u32 *)(to + 128 + ((piece + w) ^ (column + 1) % 8) * 16) =
                    int8_second_digits(exact_four_bytes(bits, w));
        }
    }
    if (lane == 0)
        ((float *)(rows + a->to.tile * digits * 128))[exact_scale_place(at_row, digits)] = s.scale;
}

/* Writes a thread's inputs of sub-group `sub` of a row. All threads of a sub-group take part. */
DEVICE void exact_put_tile(const struct exact_quantize_args *a, const float v[2][8], int row,
                           int sub)
{
    if (a->to.digits == 2) exact_put_digits(a, v, row, sub, 1);
    else exact_put_digits(a, v, row, sub, 0);
}

/* Loads a thread's inputs of a sub-group of row x. */
DEVICE void exact_tile_inputs(const float *x, int sub, float v[2][8])
{
    UNROLL for (int o = 0; o < 2; o++) load_octet(x + sub * 128 + (thread() % 8 + 8 * o) * 8, v[o]);
}

/* exact_tile_inputs() in the order of a permutation, or of an activation. */
DEVICE void exact_tile_ordered(const struct exact_quantize_args *a, const float *x, int row,
                               int sub, float v[2][8])
{
    NO_UNROLL for (int o = 0; o < 2; o++) /* not unrolled: half of the code */
    {
        float octet[8];
        exact_inputs(a, x, row, sub * 128 + (thread() % 8 + 8 * o) * 8, octet);
        UNROLL for (int i = 0; i < 8; i++)
        {
            v[0][i] = o ? v[0][i] : octet[i];
            v[1][i] = octet[i];
        }
    }
}

KERNEL(exact_quantize_tiles, struct exact_quantize_args)
{
    const struct exact_quantize_args *a = ARGS;
    int row = block_x(), sub = block_y() * (THREADS / 8) + thread() / 8, valid = sub < a->groups.n;
    u64 offset = (u64)row * (u64)a->in;
    float v[2][8], up[2][8];
    UNROLL for (int i = 0; i < 16; i++) v[i / 8][i % 8] = 0;
    if (valid && !a->perm && !a->glu.gate) {
        exact_tile_inputs(a->x + offset, sub, v);
    } else if (valid && !a->perm && a->glu.activation == IS_SILU && a->glu.up) {
        exact_tile_inputs(a->x + offset, sub, v);
        exact_tile_inputs(a->glu.up + offset, sub, up);
        UNROLL for (int i = 0; i < 16; i++)
            v[i / 8][i % 8] = exact_silu(v[i / 8][i % 8]) * up[i / 8][i % 8];
    } else if (valid) {
        exact_tile_ordered(a, a->x + offset, row, sub, v);
    }
    exact_put_tile(a, v, row, sub);
}

KERNEL(exact_norm_tiles, struct exact_norm_quantize_args)
{
    LDS(f32x4, fours, EXACT_SPAN / 4);
    const struct exact_norm_quantize_args *a = ARGS;
    const struct exact_quantize_args *q = &a->quantize;
    float *span = (float *)fours, v[2][8];
    int row = block_x();
    exact_norm_row(&a->norm, span);
    barrier();
    const float *x = exact_norm_in_span(&a->norm) ? span : q->x + (u64)row * (u64)q->in;
    for (int sub0 = 0; sub0 < q->groups.n; sub0 += THREADS / 8) {
        int sub = sub0 + thread() / 8;
        UNROLL for (int i = 0; i < 16; i++) v[i / 8][i % 8] = 0;
        if (sub < q->groups.n && q->perm) exact_tile_ordered(q, x, row, sub, v);
        else if (sub < q->groups.n) exact_tile_inputs(x, sub, v);
        exact_put_tile(q, v, row, sub);
    }
}
