/* linear.h: what the kernels for linears share: parts, groups, unpacking of codes and dense
 * weights, the epilogue. Codes become fp16 without a conversion: 0x6400 | code is the half 1024
 * + code (Kim et al. 2022, "Who Says Elephants Can't Run"; also in FasterTransformer and
 * Marlin). code - zero is exact, so every way of unpacking gives the same bits. */
#ifndef KERNELS_LINEAR_H
#define KERNELS_LINEAR_H

/* The part that a block of the grid belongs to. (An index known only at run time would copy the
 * arguments to local memory.) */
DEVICE struct linear_part part_of(const struct linear_args *a, int block)
{
    struct linear_part p = a->part[0];
    if (a->n_parts > 1 && block >= a->part[1].first) p = a->part[1];
    if (a->n_parts > 2 && block >= a->part[2].first) p = a->part[2];
    return p;
}

/* Linear number `expert` of a stack. */
DEVICE struct linear_part part_of_expert(const struct linear_part *stack, int expert)
{
    struct linear_part p = *stack;
    p.weight = (const u8 *)p.weight + (u64)expert * p.next_weight;
    p.meta = (const u8 *)p.meta + (u64)expert * p.next_meta;
    if (p.bias) p.bias += (u64)expert * (u64)p.out;
    return p;
}

/* Tile number `tile` of a grouping as a launch of linears: the weights of its expert, rows up to
 * the end of its places. 0: there is no such tile. */
DEVICE int expert_tile(const struct experts_args *e, int tile, struct linear_args *a)
{
    if (e->end && tile >= *e->n_tiles) return 0;
    int expert = uniform_int(e->expert[tile]);
    *a = e->linear;
    UNROLL for (int i = 0; i < MAX_PARTS; i++) a->part[i] = part_of_expert(&a->part[i], expert);
    a->rows = e->end ? uniform_int(e->end[tile]) : tile + 1;
    return 1;
}

struct scale_zero {
    float scale;
    f16x2 zero; /* 1024 + zero, twice */
};

DEVICE struct scale_zero scale_zero_of(float scale, f16 zero)
{
    struct scale_zero m;
    f16 high = zero + (f16)1024;
    m.scale = scale;
    m.zero[0] = high;
    m.zero[1] = high;
    return m;
}

/* The group of a chunk; a padding chunk has the last group. */
DEVICE int group_of(const struct linear_part *p, int chunk)
{
    int group = p->group_shift >= 0 ? chunk >> p->group_shift : chunk / p->group_chunks;
    return group > p->last_group ? p->last_group : group;
}

/* The index of the scale of a panel's output 0, in scales. */
DEVICE u32 meta_row(const struct linear_part *p, int panel, int chunk)
{
    return (u32)(panel * (p->last_group + 1) + group_of(p, chunk)) * PANEL;
}

DEVICE struct scale_zero meta_at(const struct linear_part *p, u32 row, int output)
{
    const u32 *meta = (const u32 *)p->meta;
    u32 offset = row + (u32)output;
    if (p->scale_f32)
        return scale_zero_of(f32_of(meta[2 * offset]), (f16)f32_of(meta[2 * offset + 1]));
    return scale_zero_of((float)half_of(meta[offset]), half_of(meta[offset] >> 16));
}

/* a & mask | bits in one instruction; NVIDIA's compiler makes two of it. */
DEVICE u32 and_or(u32 a, u32 mask, u32 bits)
{
#if defined(__NVPTX__)
    u32 d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
    return d;
#else
    return (a & mask) | bits;
#endif
}

/* The 8 inputs of a word as code - zero, exact, with one shift: of the low code of each pair 0x6400
 * | code is the half 1024 + code; 0x6400 | code << 4 is the half 1024 + 16 code, a 16th of which is
 * 64 + code. */
DEVICE void unpack_word(u32 word, const struct scale_zero *g, f16x2 w[4])
{
    const f16x2 sixteenth = {(f16)0.0625f, (f16)0.0625f}, offset = {(f16)960, (f16)960};
    f16x2 zero_16 = offset - g->zero; /* -(64 + zero) */
    u32 high = word >> 8;
    w[0] = pair_of(and_or(word, 0x000f000fu, 0x64006400u)) - g->zero;
    w[1] = fma16x2(pair_of(and_or(word, 0x00f000f0u, 0x64006400u)), sixteenth, zero_16);
    w[2] = pair_of(and_or(high, 0x000f000fu, 0x64006400u)) - g->zero;
    w[3] = fma16x2(pair_of(and_or(high, 0x00f000f0u, 0x64006400u)), sixteenth, zero_16);
}

/* Constants for unpacking codes of one output and group. */
struct unpack {
    float scale;
    u32 zero;   /* the halves 1024 + 16 zero, twice, as bits */
    f16x2 bias; /* -16 (1024 + 17 zero) */
};

DEVICE struct unpack unpack_of(float scale, f16 zero)
{
    const f16x2 z = {zero, zero}, sixteen = {(f16)16, (f16)16}, top = {(f16)1024, (f16)1024},
                times = {(f16)-272, (f16)-272}, offset = {(f16)-16384, (f16)-16384};
    struct unpack u;
    u.scale = scale;
    u.zero = word_of(fma16x2(z, sixteen, top));
    u.bias = fma16x2(z, times, offset);
    return u;
}

/* 16 * (code - zero) of the 8 inputs of a word in 8 operations, all exact. A byte of two codes is
 * the half 1024 + low + 16 high. With 16 zero in place of the high code it is 1024 + low + 16 zero.
 * The difference of the two is 16 (high - zero), and 16 times the second without its bias is 16
 * (low - zero). */
DEVICE void unpack_16(u32 word, const struct unpack *u, f16x2 w[4])
{
    const f16x2 sixteen = {(f16)16, (f16)16};
    UNROLL for (int b = 0; b < 2; b++)
    {
        u32 both = spread_bytes(word, b, 0x64);
        f16x2 low = pair_of((both & 0xff0fff0fu) | u->zero);
        w[2 * b] = fma16x2(low, sixteen, u->bias);
        w[2 * b + 1] = pair_of(both) - low;
    }
}

/* One chunk of dense weights of one output. */
DEVICE void dense_chunk(const void *weight, u64 chunk, int output, int kind, float v[CHUNK])
{
    const int pieces = kind == WEIGHT_F32 ? 8 : 4;
    const u32x4 *w = (const u32x4 *)weight + chunk * (u64)(pieces * PANEL) + (u64)output;
    UNROLL for (int j = 0; j < pieces; j++)
    {
        u32x4 p = w[j * PANEL];
        UNROLL for (int i = 0; i < 4; i++)
        {
            if (kind == WEIGHT_F32) {
                v[4 * j + i] = f32_of(p[i]);
            } else if (kind == WEIGHT_BF16) {
                v[8 * j + 2 * i] = f32_of_bf16(p[i] & 0xffff);
                v[8 * j + 2 * i + 1] = f32_of_bf16(p[i] >> 16);
            } else {
                f16x2 h = pair_of(p[i]);
                v[8 * j + 2 * i] = (float)h[0];
                v[8 * j + 2 * i + 1] = (float)h[1];
            }
        }
    }
}

DEVICE void write_scaled(const struct linear_args *a, const struct linear_part *p, int row,
                         int output, float sum)
{
    if (row >= a->rows || output >= p->out) return;
    u64 to = (u64)(a->slot ? a->slot[row] : row);
    p->y[to * (u64)p->out + (u64)output] = p->bias ? sum + p->bias[output] : sum;
}

DEVICE void write_output(const struct linear_args *a, const struct linear_part *p, int row,
                         int output, float sum)
{
    if (a->scale && row < a->rows) sum *= a->scale[row];
    write_scaled(a, p, row, output, sum);
}

#endif
