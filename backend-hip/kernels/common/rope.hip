/* rope.hip: RoPE and storage of keys and values in pages, for every device: heads by blocks of
 * several, with norms by a warp each, or one a block. Must not know: attention. */

DEVICE int round8(int n) { return (n + 7) / 8 * 8; }

/* Elements of one page for one KV head. */
DEVICE u64 head_page(int head_dim) { return (u64)(2 * PAGE * round8(head_dim)); }

/* One thread to an angle: the fp32 product of position and frequency, as the models were trained
 * with. */
KERNEL(rope_angles, struct angles_args)
{
    const struct angles_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i >= (u64)a->rows * (u64)a->half) return;
    float s, c, inv_freq = a->inv_freq[i % (u64)a->half];
    float scale = inv_freq == 0 ? 1 : a->scale;
    sincos32((float)a->pos[i / (u64)a->half] * inv_freq, &s, &c);
    a->sin[i] = s * scale;
    a->cos[i] = c * scale;
}

DEVICE void store(void *pages, u64 offset, float x, int f32)
{
    if (f32) ((float *)pages)[offset] = x;
    else ((f16 *)pages)[offset] = (f16)x;
}

DEVICE void load_octet(const float *from, float v[8])
{
    f32x4 a = *(const f32x4 *)from, b = *(const f32x4 *)(from + 4);
    UNROLL for (int i = 0; i < 4; i++) v[i] = a[i], v[4 + i] = b[i];
}

DEVICE void store_octet(void *to, u64 offset, const float v[8], int f32)
{
    if (f32) {
        UNROLL for (int i = 0; i < 2; i++)((f32x4 *)((float *)to + offset))[i] =
            (f32x4){v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]};
        return;
    }
    u32 w[4];
    UNROLL for (int i = 0; i < 4; i++) w[i] = word_of((f16x2){(f16)v[2 * i], (f16)v[2 * i + 1]});
    *(u32x4 *)((f16 *)to + offset) = (u32x4){w[0], w[1], w[2], w[3]};
}

/* Rotates dimensions d .. d + 7 and the same + half of a head of a row; x: at dimension d */
DEVICE void rope_octet(const struct rope_kernel_args *a, const float *x, int row, int d,
                       float y[2][8])
{
    int half = a->head_dim / 2;
    u64 angle = (u64)row * (u64)half + (u64)d;
    float lo[8], hi[8], c[8], s[8];
    load_octet(x, lo);
    load_octet(x + half, hi);
    load_octet(a->cos + angle, c);
    load_octet(a->sin + angle, s);
    UNROLL for (int i = 0; i < 8; i++)
    {
        y[0][i] = fma32(lo[i], c[i], -hi[i] * s[i]);
        y[1][i] = fma32(hi[i], c[i], lo[i] * s[i]);
    }
}

/* A thread's part of the heads of a block, which are of one row. */
struct head_octets {
    int part, first; /* octet of both halves of its head; the first thread of the head */
    int head, is_key, there;
    u64 from; /* element of the head in a->q or a->k */
};

DEVICE struct head_octets head_octets_of(const struct rope_kernel_args *a)
{
    int octets = a->head_dim / 16, t = thread(), part = t % octets;
    struct head_octets o = {part, t - part, block_y() * (THREADS / octets) + t / octets, 0, 0, 0};
    o.is_key = o.head >= a->n_heads;
    o.there = t < THREADS / octets * octets && o.head < a->n_heads + a->n_kv_heads;
    if (o.is_key) o.head -= a->n_heads;
    o.from = ((u64)block_x() * (u64)(o.is_key ? a->n_kv_heads : a->n_heads) + (u64)o.head) *
             (u64)a->head_dim;
    return o;
}

/* Stores a part y of rotated heads. */
DEVICE void store_octets(const struct rope_kernel_args *a, const struct head_octets *o,
                         float y[2][8])
{
    int row = block_x(), hd = a->head_dim, half = hd / 2, d = o->part * 8;
    u64 from = o->from + (u64)d;
    float v[2][8];
    if (o->is_key)
        UNROLL for (int i = 0; i < 2; i++) load_octet(a->v + from + (u64)(i * half), v[i]);
    int slot = a->slot[row], offset = slot % PAGE;
    u64 page = ((u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)o->head) * head_page(hd);
    UNROLL for (int i = 0; i < 2; i++)
    {
        int index = d + i * half;
        if (o->is_key) {
            store_octet(a->pages, page + (u64)((index / 8 * PAGE + offset) * 8), y[i],
                        a->kv == PAGE_F32);
            store_octet(a->pages, page + (u64)(PAGE * hd + offset * hd + index), v[i],
                        a->kv == PAGE_F32);
        } else {
            store_octet(a->q, from + (u64)(i * half), y[i], 1);
        }
    }
}

/* Block (row, several heads), for heads without norm: thread (head, octet) has dimensions d .. d +
 * 7 and the same + half. */
DEVICE void rope_octets(const struct rope_kernel_args *a)
{
    const struct head_octets o = head_octets_of(a);
    float y[2][8];
    if (!o.there) return;
    rope_octet(a, (o.is_key ? a->k : a->q) + o.from + o.part * 8, block_x(), o.part * 8, y);
    store_octets(a, &o, y);
}

/* Stores heads that are rotated and transformed. Thread t of the block has 16 neighbouring
 * dimensions, number t % octets of a head: of a query, or of a key and of a value as codes. head
 * -1: the thread has none; maximum: the largest magnitudes of the head; codes[16 THREADS] */
DEVICE void put_heads_int8(const struct rope_kernel_args *a, float v[2][16], int head, int is_key,
                           const int maximum[2], u8 *codes)
{
    int row = block_x(), t = thread(), hd = a->head_dim, octets = hd / 16, part = t % octets,
        slot = a->slot ? a->slot[row] : 0, offset = slot % PAGE;
    if (head >= 0 && !is_key) {
        u64 to = ((u64)row * (u64)a->n_heads + (u64)head) * (u64)hd + (u64)(part * 16);
        float factor = 1.0f / (float)hadamard_run(hd);
        UNROLL for (int i = 0; i < 16; i++) v[0][i] *= factor;
        UNROLL for (int i = 0; i < 2; i++) store_octet(a->q, to + 8 * i, v[0] + 8 * i, 1);
    }
    if (!a->n_kv_heads) return;
    u8 *page = head >= 0 && is_key ? stored_page(a, row, slot, head) : (u8 *)0;
    UNROLL for (int k = 0; k < 2; k++)
    {
        struct int_scale s = int_scale_of(maximum[k], 127);
        u32 word[4] = {0, 0, 0, 0};
        if (!page) continue;
        UNROLL for (int i = 0; i < 16; i++)
            word[i / 4] |= ((u32)rounded_int(v[k][i], s.inverse) & 0xff) << (8 * (i % 4));
        u32x4 *to = k ? (u32x4 *)codes + t : (u32x4 *)(page + int8_key_at(part * 16, offset));
        *to = (u32x4){word[0], word[1], word[2], word[3]};
        if (part == 0) int8_scales(page, hd)[k * PAGE + offset] = s.scale;
    }
    barrier();
    /* neighbouring threads take the codes of values, so that they share lines of memory */
    int count = block_y() * (THREADS / octets) - a->n_heads, d = t;
    for (; d >= hd; d -= hd) count++;
    for (int i = t; i < THREADS / octets * hd; i += THREADS) {
        if (count >= 0 && count < a->n_kv_heads)
            stored_page(a, row, slot, count)[int8_value_at(d, offset, hd)] = codes[i];
        for (d += THREADS; d >= hd; d -= hd) count++;
    }
}

/* Transforms rotated heads and stores them in pages of int8; thread t then has 16 neighbouring
 * dimensions, number t among those of all heads of the block. y: the thread's part;
 * x[HADAMARD_FLOATS], largest[2 THREADS] */
DEVICE void store_octets_int8(const struct rope_kernel_args *a, const struct head_octets *o,
                              float y[2][8], float *x, int *largest)
{
    int t = thread(), hd = a->head_dim, half = hd / 2, octets = hd / 16, maximum[2] = {0, 0};
    float v[2][16];
    if (o->there)
        UNROLL for (int i = 0; i < 16; i++)
            x[HADAMARD_AT(o->first * 16 + o->part * 8 + i / 8 * half + i % 8)] = y[i / 8][i % 8];
    else
        UNROLL for (int i = 0; i < 16; i++) x[20 * t + i] = 0;
    hadamard_heads(x, hadamard_run(hd));
    UNROLL for (int i = 0; i < 16; i++) v[0][i] = x[20 * t + i];
    if (o->there && o->is_key)
        UNROLL for (int i = 0; i < 2; i++)
            load_octet(a->v + o->from + o->part * 16 + 8 * i, v[1] + 8 * i);
    UNROLL for (int k = 0; k < 2; k++)
    {
        if (o->there && o->is_key)
            UNROLL for (int i = 0; i < 16; i++) maximum[k] = larger_bits(v[k][i], maximum[k]);
        largest[k * THREADS + t] = maximum[k];
    }
    barrier();
    UNROLL for (int k = 0; k < 2; k++) for (int i = o->first; i < o->first + octets && i < THREADS;
                                            i++)
        maximum[k] = largest[k * THREADS + i] > maximum[k] ? largest[k * THREADS + i] : maximum[k];
    put_heads_int8(a, v, o->there ? o->head : -1, o->is_key, maximum, (u8 *)x);
}

DEVICE void rope_octets_int8(const struct rope_kernel_args *a, float *x, int *largest)
{
    const struct head_octets o = head_octets_of(a);
    float y[2][8];
    if (o.there)
        rope_octet(a, (o.is_key ? a->k : a->q) + o.from + o.part * 8, block_x(), o.part * 8, y);
    store_octets_int8(a, &o, y, x, largest);
}

#if !defined(__AMDGCN__)
/* Whether the threads of a head are 2, 4, 8 or 16 lanes: one would have dimensions of both halves.
 */
DEVICE int rope_in_lanes(const struct rope_kernel_args *a)
{
    int lanes = a->head_dim / 16;
    return lanes > 1 && lanes <= 16 && !(lanes & (lanes - 1));
}

/* Rotates, transforms and stores heads for which rope_in_lanes() holds. exact: rotates in the CPU's
 * order */
DEVICE void rope_lanes_int8(const struct rope_kernel_args *a, u8 *codes, const int exact)
{
    int row = block_x(), t = thread(), hd = a->head_dim, half = hd / 2, lanes = hd / 16,
        d = t % lanes * 16, head = block_y() * (THREADS / lanes) + t / lanes,
        is_key = head >= a->n_heads, valid = head < a->n_heads + a->n_kv_heads, maximum[2] = {0, 0};
    if (is_key) head -= a->n_heads;
    u64 from = ((u64)row * (u64)(is_key ? a->n_kv_heads : a->n_heads) + (u64)head) * (u64)hd;
    float v[2][16];
    UNROLL for (int i = 0; i < 16; i++) v[0][i] = v[1][i] = 0;
    if (valid) {
        const float *x = (is_key ? a->k : a->q) + from, *far = x + (d < half ? half : -half);
        u64 angle = (u64)row * (u64)half + (u64)(d % half);
        UNROLL for (int k = 0; k < 16; k += 8)
        {
            float near[8], other[8], c[8], s[8];
            load_octet(x + d + k, near);
            load_octet(far + d + k, other);
            load_octet(a->cos + angle + k, c);
            load_octet(a->sin + angle + k, s);
            UNROLL for (int i = 0; i < 8; i++)
            {
                float far_part = (d < half ? -other[i] : other[i]) * s[i];
                v[0][k + i] = exact ? near[i] * c[i] + far_part : fma32(near[i], c[i], far_part);
            }
            if (is_key) load_octet(a->v + from + d + k, v[1] + k);
        }
    }
    UNROLL for (int apart = 1; apart < 16; apart *= 2) hadamard_step(v[0], 16, apart);
    for (int apart = 1; apart < lanes; apart *= 2) UNROLL for (int i = 0; i < 16; i++)
        {
            float other = f32_of(shuffle_xor(bits_of(v[0][i]), apart));
            v[0][i] = t & apart ? other - v[0][i] : v[0][i] + other;
        }
    UNROLL for (int k = 0; k < 2; k++)
    {
        UNROLL for (int i = 0; i < 16; i++) maximum[k] = larger_bits(v[k][i], maximum[k]);
        maximum[k] = most_of_lanes(maximum[k], lanes);
    }
    put_heads_int8(a, v, valid ? head : -1, is_key, maximum, codes);
}
#endif

/* Block (row, head): query heads, then KV heads; thread t has dimensions t, t + THREADS, .. below
 * `maximum`. x[maximum] */
DEVICE void rope_head(const struct rope_kernel_args *a, float *scratch, float *x, const int maximum,
                      const int int8)
{
    int row = block_x(), is_key = block_y() >= a->n_heads,
        head = is_key ? block_y() - a->n_heads : block_y();
    int hd = a->head_dim, half = hd / 2;
    u64 from = ((u64)row * (u64)(is_key ? a->n_kv_heads : a->n_heads) + (u64)head) * (u64)hd;
    const float *weight = is_key ? a->k_norm : a->q_norm;
    float v[LONG_HEAD_DIM / THREADS], sum = 0;
    UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS)
    {
        v[j] = d < hd ? (is_key ? a->k : a->q)[from + (u64)d] : 0;
        sum = fma32(v[j], v[j], sum);
    }
    float f = weight ? rsqrt32(block_sum(sum, scratch) / (float)hd + a->eps) : 1;
    UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS)
    {
        if (weight && d < hd) v[j] = v[j] * f * weight[d];
        x[d] = v[j];
    }
    barrier();
    int d8 = round8(hd), slot = is_key ? a->slot[row] : 0, offset = slot % PAGE;
    u64 page = (u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)head;
    float y[LONG_HEAD_DIM / THREADS]; /* 0: the padding of a key to a multiple of 8 */
    UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS)
    {
        y[j] = 0;
        if (d < hd) {
            u64 angle = (u64)row * (u64)half + (u64)(d % half);
            float other = x[d < half ? d + half : d - half];
            y[j] = fma32(v[j], a->cos[angle], (d < half ? -other : other) * a->sin[angle]);
        }
        if (!int8 && !is_key && d < hd) a->q[from + (u64)d] = y[j];
    }
    if (int8) {
        barrier();
        UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS) x[d] = y[j];
        hadamard_head(x, hd);
        if (is_key)
            int8_store_head(stored_page(a, row, slot, head), offset, x, a->v + from, hd,
                            (int *)scratch);
        else
            for (int d = thread(); d < hd; d += THREADS)
                a->q[from + (u64)d] = x[d] * (1.0f / (float)hadamard_run(hd));
        return;
    }
    if (!is_key) return;
    page *= head_page(hd);
    UNROLL for (int j = 0, d = thread(); j < maximum / THREADS; j++, d += THREADS)
    {
        if (d >= d8) continue;
        store(a->pages, page + (u64)((d / 8 * PAGE + offset) * 8 + d % 8), y[j], a->kv == PAGE_F32);
        store(a->pages, page + (u64)(PAGE * d8 + offset * d8 + d), d < hd ? a->v[from + (u64)d] : 0,
              a->kv == PAGE_F32);
    }
}

#if HAS_MMA
/* Block (row, 8 heads): a warp has a head of 32 n dimensions, lane i dimensions i, i + 32, ..; the
 * sum of squares by the tree of rope_head(). */
DEVICE void rope_warp(const struct rope_kernel_args *a, const int n)
{
    int row = block_x(), lane = thread() % 32, head = block_y() * (THREADS / 32) + thread() / 32,
        is_key = head >= a->n_heads;
    const int hd = 32 * n, half = hd / 2;
    if (head >= a->n_heads + a->n_kv_heads) return;
    if (is_key) head -= a->n_heads;
    u64 from = ((u64)row * (u64)(is_key ? a->n_kv_heads : a->n_heads) + (u64)head) * (u64)hd +
               (u64)lane,
        angle = (u64)row * (u64)half + (u64)lane;
    const float *weight = is_key ? a->k_norm : a->q_norm, *x = (is_key ? a->k : a->q) + from;
    float v[THREADS / 32], square[THREADS / 32], y[THREADS / 32], f = 1;
    UNROLL for (int i = 0; i < THREADS / 32; i++)
    {
        v[i] = i < n ? x[32 * i] : 0;
        square[i] = v[i] * v[i];
    }
    if (weight) f = rsqrt32(tree_of_lanes(square, 0) / (float)hd + a->eps);
    UNROLL for (int i = 0; i < n; i++) if (weight) v[i] = v[i] * f * weight[lane + 32 * i];
    UNROLL for (int i = 0; i < n; i++)
    {
        float other = i < n / 2 ? -v[i + n / 2] : v[i - n / 2];
        u64 address = angle + (u64)(i % (n / 2) * 32);
        y[i] = fma32(v[i], a->cos[address], other * a->sin[address]);
    }
    if (!is_key) {
        UNROLL for (int i = 0; i < n; i++) a->q[from + (u64)(32 * i)] = y[i];
        return;
    }
    int slot = a->slot[row], offset = slot % PAGE;
    u64 page = ((u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)head) * head_page(hd);
    UNROLL for (int i = 0; i < n; i++)
    {
        int d = lane + 32 * i;
        store(a->pages, page + (u64)((d / 8 * PAGE + offset) * 8 + d % 8), y[i], a->kv == PAGE_F32);
        store(a->pages, page + (u64)(PAGE * hd + offset * hd + d), a->v[from + (u64)(32 * i)],
              a->kv == PAGE_F32);
    }
}

KERNEL(rope_store_warps, struct rope_kernel_args)
{
    const struct rope_kernel_args *a = ARGS;
    if (a->head_dim == 128) rope_warp(a, 4);
    else rope_warp(a, 8);
}
#endif

/* in_octets: the heads are those of rope_octets() */
#define ROPE_STORE(name, maximum)                                                                  \
    KERNEL(name, struct rope_kernel_args)                                                          \
    {                                                                                              \
        LDS(float, scratch, THREADS);                                                              \
        LDS(float, x, maximum);                                                                    \
        const struct rope_kernel_args *a = ARGS;                                                   \
        if (a->in_octets) rope_octets(a);                                                          \
        else rope_head(a, scratch, x, maximum, 0);                                                 \
    }
ROPE_STORE(rope_store, GPU_HEAD_DIM)
ROPE_STORE(rope_store_512, LONG_HEAD_DIM)
#undef ROPE_STORE

KERNEL(rope_store_int8, struct rope_kernel_args)
{
    LDS(float, scratch, 2 * THREADS);
    LDS(float, x, HADAMARD_FLOATS);
    const struct rope_kernel_args *a = ARGS;
#if !defined(__AMDGCN__)
    if (a->in_octets && rope_in_lanes(a)) {
        rope_lanes_int8(a, (u8 *)x, 0);
        return;
    }
#endif
    if (a->in_octets) rope_octets_int8(a, x, (int *)scratch);
    else rope_head(a, scratch, x, LONG_HEAD_DIM, 1);
}
