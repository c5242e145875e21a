/* kv_int8.h: keys and values of 8 bits: the Hadamard transform of queries and keys, rounding a head
 * of a row, its place in a page (layout: args.h), codes as numbers. Transform and rounding are
 * those of core/step/kv_format.h, operation by operation. Must not know: attention. */
#ifndef KERNELS_KV_INT8_H
#define KERNELS_KV_INT8_H

DEVICE int round16(int n) { return (n + 15) / 16 * 16; }

/* Bytes of dimension d of a position, from the begin of a head's page on. */
DEVICE u32 int8_key_at(int d, int position)
{
    return (u32)((d / 16 * PAGE + position) * 16 + d % 16);
}
DEVICE u32 int8_value_at(int d, int position, int d16)
{
    return (u32)(PAGE * d16 + (position / 4 * d16 + d) * 4 + position % 4);
}
/* The scales of a page's keys; those of the values follow. */
DEVICE float *int8_scales(u8 *page, int d16) { return (float *)(page + 2 * PAGE * d16); }
DEVICE const float *int8_scales_of(const u8 *page, int d16)
{
    return (const float *)(page + 2 * PAGE * d16);
}

/* How numbers whose largest magnitude has these bits become integers of up to `top`: number = scale
 * * integer, integer = number * inverse, rounded; all integers are 0 if inverse is. */
struct int_scale {
    float scale, inverse;
};

DEVICE struct int_scale int_scale_of(int largest_bits, float top)
{
    int finite = largest_bits < 0x7f800000;
    float largest = f32_of((u32)largest_bits);
    return (struct int_scale){finite ? largest / top : f32_of(0x7fc00000u),
                              finite && largest > 0x1p-100f ? top / largest : 0};
}

/* 1.5 2^23 + an integer has the integer in its low bits. */
DEVICE int rounded_int(float x, float inverse)
{
    return inverse == 0 ? 0 : (int)bits_of(x * inverse + 0x1.8p23f) - 0x4b400000;
}

/* The low bytes of four integers. */
DEVICE u32 int8_bytes(const int v[4])
{
    return chosen_bytes(chosen_bytes((u32)v[0], (u32)v[1], 0x40),
                        chosen_bytes((u32)v[2], (u32)v[3], 0x40), 0x5410);
}

/* The second digits of four integers that are 128 * first + second, from the low bytes of the
 * integers plus 64. */
DEVICE u32 int8_second_digits(u32 bytes)
{
    u32 v = (bytes & 0x7f7f7f7fu) ^ 0x40404040u;
    return v | (v & 0x40404040u) << 1;
}

/* Magnitudes are compared by their bits, so that NaN is above infinity. */
DEVICE int larger_bits(float x, int maximum)
{
    int bits = (int)(bits_of(x) & 0x7fffffffu);
    return bits > maximum ? bits : maximum;
}

#if !defined(__AMDGCN__)
/* The largest of the numbers of `lanes` neighbouring lanes, a power of two, in each of them. */
DEVICE int most_of_lanes(int x, int lanes)
{
    for (int apart = 1; apart < lanes; apart *= 2) {
        int other = (int)shuffle_xor((u32)x, apart);
        x = other > x ? other : x;
    }
    return x;
}
#endif

/* The largest of the block's numbers, in every thread. scratch[THREADS] may be reused afterwards.
 */
DEVICE int block_most(int x, int *scratch)
{
    int t = thread();
    scratch[t] = x;
    barrier();
    if (t < 16)
        UNROLL_8 for (int i = t + 16; i < THREADS; i += 16) x = scratch[i] > x ? scratch[i] : x;
    barrier();
    if (t < 16) scratch[t] = x;
    barrier();
    UNROLL_8 for (int i = 0; i < 16; i++) x = scratch[i] > x ? scratch[i] : x;
    barrier();
    return x;
}

/* Neighbouring dimensions that the transform mixes. It is sums and differences of dimensions 1, 2,
 * 4, .. apart, in this order; queries are divided by their number. */
DEVICE int hadamard_run(int hd) { return hd & -hd; }

/* Transforms a head x[hd] in shared memory; all threads of the block take part. */
DEVICE void hadamard_head(float *x, int hd)
{
    for (int apart = 1; apart < hadamard_run(hd); apart *= 2) {
        float y[LONG_HEAD_DIM / THREADS];
        barrier();
        UNROLL for (int j = 0, d = thread(); j < LONG_HEAD_DIM / THREADS;
                    j++, d += THREADS) if (d < hd) y[j] = d & apart ? x[d ^ apart] - x[d]
                                                                    : x[d] + x[d ^ apart];
        barrier();
        UNROLL for (int j = 0, d = thread(); j < LONG_HEAD_DIM / THREADS;
                    j++, d += THREADS) if (d < hd) x[d] = y[j];
    }
    barrier();
}

/* The sums and differences of x[n], `apart` elements apart; constants. */
DEVICE void hadamard_step(float *x, const int n, const int apart)
{
    UNROLL for (int i = 0; i < n; i++) if (!(i & apart))
    {
        float a = x[i], b = x[i + apart];
        x[i] = a + b;
        x[i + apart] = a - b;
    }
}

/* Transforms heads that lie one after another in shared memory, element e at HADAMARD_AT(e). Each
 * thread of the block has 16 dimensions: first 16 neighbours, then 16 elements 16 apart. */
#define HADAMARD_AT(e) ((e) + (e) / 16 * 4)
enum { HADAMARD_FLOATS = 20 * THREADS };

DEVICE void hadamard_heads(float *x, int run)
{
    int t = thread();
    float v[16];
    barrier();
    UNROLL for (int i = 0; i < 16; i++) v[i] = x[20 * t + i];
    UNROLL for (int apart = 1; apart < 16; apart *= 2) if (apart < run) hadamard_step(v, 16, apart);
    UNROLL for (int i = 0; i < 16; i++) x[20 * t + i] = v[i];
    barrier();
    if (run <= 16) return;
    int first = HADAMARD_AT(t / 16 * 256) + t % 16;
    UNROLL for (int i = 0; i < 16; i++) v[i] = x[first + 20 * i];
    UNROLL for (int apart = 1; apart < 16; apart *= 2) if (16 * apart < run)
        hadamard_step(v, 16, apart);
    UNROLL for (int i = 0; i < 16; i++) x[first + 20 * i] = v[i];
    barrier();
    if (run <= 256) return;
    UNROLL for (int i = 0; i < 8; i++)
    {
        int index = HADAMARD_AT(512 * i + t), far = HADAMARD_AT(512 * i + 256 + t);
        float a = x[index], b = x[far];
        x[index] = a + b;
        x[far] = a - b;
    }
    barrier();
}

/* Stores a key and a value of one head: the block's threads have dimensions t, t + THREADS, .. of
 * them. page: of the head; key[hd] in shared memory, value[hd] */
DEVICE void int8_store_head(u8 *page, int position, const float *key, const float *value, int hd,
                            int *scratch)
{
    int d16 = round16(hd);
    UNROLL for (int i = 0; i < 2; i++)
    {
        const float *x = i ? value : key;
        int maximum = 0;
        for (int d = thread(); d < hd; d += THREADS) maximum = larger_bits(x[d], maximum);
        struct int_scale s = int_scale_of(block_most(maximum, scratch), 127);
        for (int d = thread(); d < d16; d += THREADS)
            page[i ? int8_value_at(d, position, d16) : int8_key_at(d, position)] =
                (u8)(d < hd ? rounded_int(x[d], s.inverse) : 0);
        if (thread() == 0) int8_scales(page, d16)[i * PAGE + position] = s.scale;
    }
}

/* Bytes 0 and 2 (odd 0) or 1 and 3 of a word of codes as halves, which are exact: 1024 + code + 128
 * has the byte code ^ 0x80 in its low bits. */
DEVICE u32 code_halves(u32 word, const int odd)
{
#if defined(__AMDGCN__) /* an instruction for a pair, of which the compiler makes two */
    u32 halves;
    __asm__ volatile("v_pk_add_f16 %0, %1, %2"
                     : "=v"(halves)
                     : "v"(spread_bytes(word ^ 0x80808080u, odd, 0x64)), "s"(0xe480e480u));
    return halves;
#else
    u32 biased = (word >> (8 * odd) & 0x00ff00ffu) ^ 0x64806480u;
    return word_of(pair_of(biased) - (f16x2){(f16)1152, (f16)1152});
#endif
}

/* Adds the products of w[4] and the codes of a word, in order. */
DEVICE void add_codes(u32 word, const float w[4], float *sum)
{
    f16x2 even = pair_of(code_halves(word, 0)), odd = pair_of(code_halves(word, 1));
    UNROLL for (int i = 0; i < 4;
                i++) *sum = fma32(w[i], (float)(i % 2 ? odd[i / 2] : even[i / 2]), *sum);
}

#endif
