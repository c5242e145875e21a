/* exact_vector.hip: quantization, norms, angles, rotation and operations on elements in the order
 * of the CPU backend (docs/numerics.md), to the bit. */

/* The group of a sub-group; most groups are one, which saves a division. */
DEVICE int exact_group_with(const struct exact_groups *g, int sub)
{
    return g->each == 1 ? sub : sub / g->each;
}

/* The first chunk of a sub-group; *left: how many its group has from there on. */
DEVICE int exact_first(const struct exact_groups *g, int sub, int *left)
{
    int group = exact_group_with(g, sub), index = (sub - group * g->each) * 4,
        first = group * g->group_chunks + index, of_group = g->group_chunks - index;
    *left = of_group < g->n_chunks - first ? of_group : g->n_chunks - first;
    return first;
}

/* The first chunk of a sub-group; *n: the number of its chunks. */
DEVICE int exact_begin(const struct exact_groups *g, int sub, int *n)
{
    int first = exact_first(g, sub, n);
    if (*n > 4) *n = 4;
    return first;
}

/* The chunk that has the codes of chunk `first` of the inputs. Of pairs it has the high halves, and
 * the low ones are a group further. */
DEVICE int exact_packed(const struct exact_groups *g, int first)
{
    return g->pairs ? first + first / g->group_chunks * g->group_chunks : first;
}

/* The group that has the scale of chunk `first` of the inputs. */
DEVICE int exact_group_of(const struct exact_groups *g, int first)
{
    return g->pairs ? first / g->group_chunks * 2 + 1 : first / g->group_chunks;
}

/* activation(g) * up, by enum activation; up NULL: the activation alone */
DEVICE float exact_gated(const struct glu_any_args *a, float g, const float *of_up)
{
    float up = of_up ? *of_up : 0, z;
    if (a->activation == IS_XIELU) {
        float m = xielu_least(a, g);
        return xielu_of(a, g, xielu_curve(m, g, exact_exp(m)));
    }
    if (a->activation == IS_SWIGLU_CLAMPED) {
        g = g > a->limit ? a->limit : g;
        up = up > a->limit ? a->limit : up;
        up = (up < -a->limit ? -a->limit : up) + 1;
        z = a->alpha * g;
    } else if (a->activation == IS_GELU_TANH) {
        z = g * fma32(0x1.2444f2p-4f, g * g, 0x1.988454p+0f);
    } else {
        z = g;
    }
    float y = (a->activation == IS_SIGMOID ? 1 : g) / (1 + exact_exp(-z));
    if (a->activation == IS_RELU2) y = relu_squared(g);
    if (a->activation == IS_NONE) y = g;
    return of_up ? y * up : y;
}

/* The largest v >= 0 or the sum of v over 16 neighbouring threads, in each of them.
 * scratch[THREADS] */
DEVICE int exact_over_16(int v, int *scratch, const int largest)
{
#if defined(__AMDGCN__)
    int t = thread();
    scratch[t] = v;
    barrier();
    for (int i = 1; i < 16; i++) {
        int other = scratch[t / 16 * 16 + (t + i) % 16];
        v = !largest ? v + other : other > v ? other : v;
    }
    barrier();
#else
    (void)scratch;
    UNROLL for (int i = 1; i < 16; i *= 2)
    {
        int other = (int)shuffle_xor((u32)v, i);
        v = !largest ? v + other : other > v ? other : v;
    }
#endif
    return v;
}

/* 8 inputs as integers, of a sub-group that 16 neighbouring threads have. */
struct exact_integers {
    int of[8];
    struct exact_scaled scaled; /* scale and sum of the sub-group */
};

/* The largest integer of 4 bits (core/step/act_format.h), and scales for a largest magnitude. */
enum { EXACT_LOW_TOP = 7 };

DEVICE struct int_scale exact_int_scale(int maximum, int two, int low)
{
    int finite = maximum < 0x7f800000;
    if (low && finite) maximum = (int)bits_of(f32_of((u32)maximum) * 0.9f);
    return int_scale_of(maximum, two ? 16256 : low ? EXACT_LOW_TOP : 127);
}

/* The integers are those of backend-cpu/act_quant.h. two: digits; low: of 4 bits */
DEVICE struct exact_integers exact_integers_of(const float v[8], int two, int low, int *scratch)
{
    struct exact_integers to = {{0, 0, 0, 0, 0, 0, 0, 0}, {0, 0}};
    int maximum = 0, sum = 0;
    UNROLL for (int i = 0; i < 8; i++) maximum = larger_bits(v[i], maximum);
    maximum = exact_over_16(maximum, scratch, 1);
    struct int_scale s = exact_int_scale(maximum, two, low);
    int top = low ? EXACT_LOW_TOP : 16256;
    UNROLL for (int i = 0; i < 8; i++)
    {
        int q = rounded_int(v[i], s.inverse);
        to.of[i] = q < top ? q : top;
        sum += to.of[i];
    }
    to.scaled.sum = exact_over_16(sum, scratch, 0);
    to.scaled.scale = s.scale;
    return to;
}

/* The digits of 8 integers as bytes: word[d] has digit d in the order of struct exact_digits. */
DEVICE void exact_bytes_of(const int q[8], int two, u32 word[2][2])
{
    int high[8], low[8];
    UNROLL for (int i = 0; i < 8; i++)
    {
        high[i] = two ? (q[i] + 64) >> 7 : q[i];
        low[i] = q[i] - high[i] * 128;
    }
    UNROLL for (int w = 0; w < 2; w++)
    {
        const int index[4] = {2 * w, 2 * w + 4, 2 * w + 1, 2 * w + 5};
        const int first[4] = {high[index[0]], high[index[1]], high[index[2]], high[index[3]]},
                  second[4] = {low[index[0]], low[index[1]], low[index[2]], low[index[3]]};
        word[0][w] = int8_bytes(first);
        word[1][w] = int8_bytes(second);
    }
}

/* 8 integers plus 128 (two digits: 32,768) as nibbles, the highest nibbles of all 8 first, the
 * inputs in the order of a word of codes: 0 2 4 6 1 3 5 7. low: signed
 * integers of 4 bits. */
DEVICE void exact_nibbles_of(const int q[8], int two, int low, u32 word[4])
{
    UNROLL for (int n = 0; n < 4; n++)
    {
        word[n] = 0;
        UNROLL for (int i = 0; i < 8; i++)
        {
            u32 v = (u32)(q[i] + (two ? 32768 : low ? 0 : 128)) << (two ? 0 : low ? 12 : 8);
            word[n] |= (v >> (12 - 4 * n) & 15) << (16 * (i % 2) + i / 2 * 4);
        }
    }
}

/* 8 inputs of row `row` from number `index` on. */
DEVICE void exact_inputs(const struct exact_quantize_args *a, const float *x, int row, int index,
                         float v[8])
{
    const int *perm = a->perm;
    const float *of_up = a->glu.up ? a->glu.up + (u64)(row / a->top_k) * (u64)a->in : a->glu.up;
    float up[8];
    if (perm && a->slot_expert) perm += (u64)a->slot_expert[row] * (u64)a->k;
    if (!perm) {
        load_octet(x + index, v);
        if (of_up) load_octet(of_up + index, up);
    } else {
        UNROLL for (int i = 0; i < 8; i++)
        {
            int from = perm[index + i];
            v[i] = from < 0 ? 0 : x[from];
            if (of_up) up[i] = from < 0 ? 0 : of_up[from];
        }
    }
    if (!a->glu.gate) return;
    if (a->glu.activation == IS_SILU && of_up) {
        UNROLL for (int i = 0; i < 8; i++) v[i] = exact_silu(v[i]) * up[i];
        return;
    }
    UNROLL for (int i = 0; i < 8; i++) if (!perm || perm[index + i] >= 0)
        v[i] = exact_gated(&a->glu, v[i], of_up ? up + i : of_up);
}

/* Sub-groups sub0 .. sub0 + 15 of a row with inputs x: 16 threads to a sub-group, 8 inputs each. */
DEVICE void exact_quantize_16(const struct exact_quantize_args *a, const float *x, int sub0,
                              int row, int *scratch)
{
    int octet = thread() % 16, sub = sub0 + thread() / 16, n = 0;
    int first = sub < a->groups.n ? exact_begin(&a->groups, sub, &n) * CHUNK : 0;
    int valid = octet * 8 < n * CHUNK, index = first + octet * 8, digits = a->to.digits;
    float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (valid) exact_inputs(a, x, row, index, v);
    struct exact_integers integers = exact_integers_of(v, digits == 2, sub < a->to.low, scratch);
    int nibbles = HAS_DOT8 ? a->to.lanes : 0;
    u32 word[2][2];
    if (!nibbles) exact_bytes_of(integers.of, digits == 2, word);
    u8 *of_row = (u8 *)a->to.digit + (u64)row * (u64)(digits * a->to.stride);
    if (valid && nibbles) {
        u32 of_octet[4], *to = (u32 *)(of_row + index / CHUNK * CHUNK * digits) + octet % 4;
        exact_nibbles_of(integers.of, digits == 2, sub < a->to.low, of_octet);
        UNROLL for (int i = 0; i < 4; i++) if (i < 2 * digits) to[4 * i] = of_octet[i];
    } else if (valid) {
        UNROLL for (int d = 0; d < 2; d++) if (d < digits) *
            (u64 *)(of_row + d * a->to.stride + index) = (u64)word[d][0] | (u64)word[d][1] << 32;
    }
    if (octet == 0 && sub < a->groups.n)
        a->to.scaled[(u64)sub * (u64)a->to.rows + (u64)row] = integers.scaled;
}

/* Block (row, 16 sub-groups) */
KERNEL(exact_quantize, struct exact_quantize_args)
{
    LDS(int, scratch, THREADS);
    const struct exact_quantize_args *a = ARGS;
    int row = block_x();
    exact_quantize_16(a, a->x + (u64)(row / a->top_k) * (u64)a->in, block_y() * 16, row, scratch);
}

/* Sums of a row in 16 lanes, EXACT_SPAN elements at a time through shared memory; a thread holds
 * EXACT_HELD fours of a span. */
enum { EXACT_HELD = EXACT_SPAN / THREADS / 4 };

/* Adds a span of n elements in shared memory to the lanes, of which the first threads have one
 * each. */
DEVICE float exact_add_span(const float *span, int n, float lane)
{
    barrier();
    if (thread() < EXACT_LANES) {
        int i = thread();
        for (; i + 15 * EXACT_LANES < n; i += 16 * EXACT_LANES) {
            float v[16];
            UNROLL for (int k = 0; k < 16; k++) v[k] = span[i + k * EXACT_LANES];
            UNROLL for (int k = 0; k < 16; k++) lane += v[k];
        }
        for (; i < n; i += EXACT_LANES) lane += span[i];
    }
    barrier();
    return lane;
}

/* The folded lanes, in every thread. */
DEVICE float exact_fold_lanes(float lane, float *scratch)
{
    if (thread() < EXACT_LANES) scratch[thread()] = lane;
    barrier();
    float sum = exact_fold(scratch);
    barrier();
    return sum;
}

/* The sum of x - mean (power 1) or of its square, in every thread. */
DEVICE float exact_sum(const float *x, int n, float mean, const int power, float *span)
{
    float lane = 0;
    for (int from = 0; from < n; from += EXACT_SPAN) {
        int left = n - from < EXACT_SPAN ? n - from : EXACT_SPAN;
        for (int i = thread(); i < left; i += THREADS) {
            float v = x[from + i] - mean;
            span[i] = power == 2 ? v * v : v;
        }
        lane = exact_add_span(span, left, lane);
    }
    return exact_fold_lanes(lane, span);
}

/* Of the block's group. */
DEVICE const float *exact_norm_weight(const struct exact_norm_args *a)
{
    return a->norm.weight + (a->own ? (u64)(block_x() % a->groups) * (u64)a->norm.dim : 0);
}

/* The norm of a row, or of one of its groups, that does not fit a span. */
DEVICE void exact_norm_long(const struct exact_norm_args *a, float *x, const float *delta,
                            float *out, float *span)
{
    const float *weight = exact_norm_weight(a);
    int dim = a->norm.dim, t = thread();
    float mean = 0;
    for (int i = t; delta && i < dim; i += THREADS) x[i] += delta[i];
    barrier();
    if (a->centered) mean = exact_sum(x, dim, 0, 1, span) / (float)dim;
    float f = 1.0f / exact_sqrt(exact_sum(x, dim, mean, 2, span) / (float)dim + a->norm.eps);
    for (int i = t; i < dim; i += THREADS) {
        float y = (x[i] - mean) * f * weight[i];
        out[i] = a->bias ? y + a->bias[i] : y;
    }
}

DEVICE int exact_norm_in_span(const struct exact_norm_args *a)
{
    return EXACT_NORM_IN_SPAN(a->norm.dim) && !a->centered;
}

/* The norm of a row, or of one of its groups, that fits a span. It stays in registers; the result
 * is in `span`, too; out may be NULL. */
DEVICE void exact_norm_row(const struct exact_norm_args *a, float *span)
{
    const struct norm_args *norm_of = &a->norm;
    int dim = norm_of->dim, t = thread() * 4;
    u64 offset = (u64)block_x() * (u64)dim;
    float *x = norm_of->x + offset, *out = norm_of->out ? norm_of->out + offset : norm_of->out;
    const float *delta = norm_of->delta ? norm_of->delta + offset : norm_of->delta;
    const float *weight = exact_norm_weight(a);
    f32x4 v[EXACT_HELD];
    if (!exact_norm_in_span(a)) {
        exact_norm_long(a, x, delta, out, span);
        return;
    }
    UNROLL for (int k = 0; k < EXACT_HELD; k++) if (t + k * 4 * THREADS < dim)
        v[k] = *(const f32x4 *)(x + t + k * 4 * THREADS);
    if (delta) UNROLL for (int k = 0; k < EXACT_HELD; k++) if (t + k * 4 * THREADS < dim)
    {
        v[k] += *(const f32x4 *)(delta + t + k * 4 * THREADS);
        *(f32x4 *)(x + t + k * 4 * THREADS) = v[k];
    }
    UNROLL for (int k = 0; k < EXACT_HELD; k++) if (t + k * 4 * THREADS < dim) *
        (f32x4 *)(span + t + k * 4 * THREADS) = v[k] * v[k];
    float sum = exact_fold_lanes(exact_add_span(span, dim, 0), span),
          f = 1.0f / exact_sqrt(sum / (float)dim + norm_of->eps);
    UNROLL for (int k = 0; k < EXACT_HELD; k++) if (t + k * 4 * THREADS < dim)
    {
        f32x4 y = v[k] * (f32x4){f, f, f, f} *
                  *(const f32x4 *)(weight + t + k * 4 * THREADS);
        if (out) *(f32x4 *)(out + t + k * 4 * THREADS) = y;
        *(f32x4 *)(span + t + k * 4 * THREADS) = y;
    }
}

KERNEL(exact_norm, struct exact_norm_args)
{
    LDS(f32x4, span, EXACT_SPAN / 4);
    exact_norm_row(ARGS, (float *)span);
}

KERNEL(exact_norm_quantize, struct exact_norm_quantize_args)
{
    LDS(f32x4, fours, EXACT_SPAN / 4);
    LDS(int, scratch, THREADS);
    const struct exact_norm_quantize_args *a = ARGS;
    float *span = (float *)fours;
    const struct exact_quantize_args *q = &a->quantize;
    int row = block_x();
    exact_norm_row(&a->norm, span);
    barrier();
    for (int sub = 0; sub < q->groups.n; sub += 16)
        exact_quantize_16(q,
                          exact_norm_in_span(&a->norm) ? span : q->x + (u64)row * (u64)q->in, sub,
                          row, scratch);
}

KERNEL(exact_angles, struct angles_args)
{
    const struct angles_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i >= (u64)a->rows * (u64)a->half) return;
    float s, c, inv_freq = a->inv_freq[i % (u64)a->half];
    exact_sincos((float)a->pos[i / (u64)a->half] * inv_freq, &s, &c);
    a->sin[i] = inv_freq == 0 ? s : s * a->scale;
    a->cos[i] = inv_freq == 0 ? c : c * a->scale;
}

/* Block (row, head): query heads, then KV heads. */
KERNEL(exact_rope_store, struct rope_kernel_args)
{
    LDS(float, scratch, EXACT_SPAN);
    LDS(float, x, LONG_HEAD_DIM);
    const struct rope_kernel_args *a = ARGS;
    int row = block_x(), is_key = block_y() >= a->n_heads,
        head = is_key ? block_y() - a->n_heads : block_y();
    int hd = a->head_dim, half = hd / 2, d8 = round8(hd);
    u64 from = ((u64)row * (u64)(is_key ? a->n_kv_heads : a->n_heads) + (u64)head) * (u64)hd;
    const float *weight = is_key ? a->k_norm : a->q_norm, *all = (is_key ? a->k : a->q) + from;
    float f = 1;
    if (weight) f = 1.0f / exact_sqrt(exact_sum(all, hd, 0, 2, scratch) / (float)hd + a->eps);
    for (int d = thread(); d < hd; d += THREADS) x[d] = weight ? all[d] * f * weight[d] : all[d];
    barrier();
    int slot = is_key ? a->slot[row] : 0, offset = slot % PAGE;
    int held = a->kv >= PAGE_INT8; /* the head is kept in shared memory */
    u64 page = ((u64)(slot / PAGE) * (u64)a->n_kv_heads + (u64)head) * head_page(hd);
    for (int d = thread(); d < d8; d += THREADS) {
        float y = 0; /* also the padding of a key to a multiple of 8 */
        if (d < hd) {
            u64 angle = (u64)row * (u64)half + (u64)(d % half);
            float c = a->cos[angle], s = a->sin[angle];
            y = d < half ? x[d] * c - x[d + half] * s : x[d] * c + x[d - half] * s;
            if (!is_key && !held) a->q[from + (u64)d] = y;
        }
        if (held) scratch[THREADS + d] = y;
        if (held || !is_key) continue;
        store(a->pages, page + (u64)((d / 8 * PAGE + offset) * 8 + d % 8), y, a->kv == PAGE_F32);
        store(a->pages, page + (u64)(PAGE * d8 + offset * d8 + d), d < hd ? a->v[from + (u64)d] : 0,
              a->kv == PAGE_F32);
    }
    if (!held) return;
    hadamard_head(scratch + THREADS, hd);
    if (is_key)
        int8_store_head(stored_page(a, row, slot, head), offset, scratch + THREADS, a->v + from, hd,
                        (int *)scratch);
    else
        for (int d = thread(); d < hd; d += THREADS)
            a->q[from + (u64)d] = scratch[THREADS + d] * (1.0f / (float)hadamard_run(hd));
}

/* 1 over the root of the mean square of a thread's head. v: its part, zeros of a head that is not
 * there; x[HADAMARD_FLOATS] */
DEVICE float exact_head_factor(const struct rope_kernel_args *a, const struct head_octets *o,
                               float v[2][8], float *x)
{
    int hd = a->head_dim, heads = THREADS / (hd / 16), lanes = heads * EXACT_LANES,
        first = thread() < heads * (hd / 16) ? o->first * 16 : -1; /* -1: no part of a head */
    float sum[EXACT_LANES];
    if (first >= 0)
        UNROLL for (int i = 0; i < 16; i++)
            x[HADAMARD_AT(first + o->part * 8 + i / 8 * (hd / 2) + i % 8)] =
                v[i / 8][i % 8] * v[i / 8][i % 8];
    barrier();
    UNROLL for (int k = 0; k < EXACT_LANES; k++) /* (head, lane) */
    {
        int i = thread() + k * THREADS, index = i / EXACT_LANES * hd + i % EXACT_LANES;
        sum[k] = 0;
        if (i < lanes)
            for (int d = 0; d < hd; d += EXACT_LANES) sum[k] += x[HADAMARD_AT(index + d)];
    }
    barrier();
    UNROLL for (int k = 0; k < EXACT_LANES; k++)
    {
        int i = thread() + k * THREADS;
        if (i < lanes) x[HADAMARD_AT(i / EXACT_LANES * hd) + i % EXACT_LANES] = sum[k];
    }
    barrier();
    float all = exact_fold(x + HADAMARD_AT(first < 0 ? 0 : first));
    barrier();
    return 1.0f / exact_sqrt(all / (float)hd + a->eps);
}

/* Block (row, several heads), for heads of a multiple of 16 dimensions up to 256: as rope_octets()
 * and rope_octets_int8(). */
KERNEL(exact_rope_octets, struct rope_kernel_args)
{
    LDS(int, largest, 2 * THREADS);
    LDS(float, x, HADAMARD_FLOATS);
    const struct rope_kernel_args *a = ARGS;
#if !defined(__AMDGCN__)
    if (a->kv >= PAGE_INT8 && a->in_octets && rope_in_lanes(a)) {
        rope_lanes_int8(a, (u8 *)x, 1);
        return;
    }
#endif
    const struct head_octets o = head_octets_of(a);
    int half = a->head_dim / 2, d = o.part * 8;
    const float *weight = o.is_key ? a->k_norm : a->q_norm,
                *head = (o.is_key ? a->k : a->q) + o.from;
    float v[2][8], y[2][8], c[8], s[8];
    UNROLL for (int i = 0; i < 16; i++) v[i / 8][i % 8] = 0;
    if (o.there) UNROLL for (int i = 0; i < 2; i++) load_octet(head + i * half + d, v[i]);
    if (a->q_norm || a->k_norm) {
        float f = exact_head_factor(a, &o, v, x);
        if (o.there && weight)
            UNROLL for (int i = 0; i < 16; i++)
                v[i / 8][i % 8] = v[i / 8][i % 8] * f * weight[i / 8 * half + d + i % 8];
    }
    if (o.there) {
        u64 angle = (u64)block_x() * (u64)half + (u64)d;
        load_octet(a->cos + angle, c);
        load_octet(a->sin + angle, s);
        UNROLL for (int i = 0; i < 8; i++)
        {
            y[0][i] = v[0][i] * c[i] - v[1][i] * s[i];
            y[1][i] = v[1][i] * c[i] + v[0][i] * s[i];
        }
    }
    if (a->kv >= PAGE_INT8) store_octets_int8(a, &o, y, x, largest);
    else if (o.there) store_octets(a, &o, y);
}

KERNEL(exact_glu, struct glu_any_args)
{
    const struct glu_any_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i < a->n) a->gate[i] = exact_gated(a, a->gate[i], a->up ? a->up + i : (const float *)0);
}

/* Block (row, elements) */
KERNEL(exact_add, struct add_args)
{
    const struct add_args *a = ARGS;
    int i = block_y() * THREADS + thread(), row = block_x();
    if (i >= a->dim) return;
    u64 offset = (u64)row * (u64)a->dim + (u64)i;
    float v = a->x[offset], factor = a->scale;
    if (a->original) {
        double n = 1 + (a->pos[a->row ? a->row[row] : row] + a->first) / a->original;
        factor *= (float)(1 + (double)a->beta * exact_log(n));
    }
    if (a->delta) v = fma32(a->delta[offset], a->gate ? 1 / (1 + exact_exp(-a->gate[row])) : 1, v);
    a->x[offset] = v * factor;
}

KERNEL(exact_softcap, struct softcap_args)
{
    const struct softcap_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i < a->n) a->x[i] = a->cap * exact_tanh(a->x[i] / a->cap);
}
