/* attend_decode_int8.hip: attention of decode rows over pages of int8 and int4 by mma on sm_80 and
 * sm_90a, as attend_decode_mma.hip has it for fp16, but for
 *   grid      a block has SPLIT_INT8_WARPS warps, which take steps of 32 positions (two pages) of a
 *             split in turn
 *   pipeline  a warp has a ring of three slots in shared memory: the keys of a step, its values,
 * the keys of the step after it, ..; what is next is copied while one is computed. So many blocks,
 * in all phases, share a multiprocessor operands  codes as they lie, exact as halves; the scales of
 * keys multiply scores, those of values weights; queries and weights in split precision weights are
 * relative to a power of two above the largest scale of the values so far int4      steps over
 * packed pages, then one over the row's own page, which is of int8 In a slot a page of int8 has
 * keys [dims / 16][place][16], where position p has place p / 2 + 8 (p % 2), so that a lane of the
 * scores has neighbouring positions, then the scales; or values [PAGE / 4][dims][4] with 32 bytes
 * between fours of positions. Keys of int4, with lo and step, and the scales, or values with lo and
 * step. */

#define INT8_FOURS(dims) (4 * (dims) + 32)

/* Bytes of keys of a page in a slot, behind which the scales are; place of page i of a slot. */
DEVICE u32 key_bytes_of(const int dims, const int packed)
{
    return (u32)((packed ? 10 : PAGE) * dims);
}
DEVICE u32 key_place(const int i, const int dims, const int packed)
{
    return (u32)i * (key_bytes_of(dims, packed) + 8 * PAGE);
}
DEVICE u32 value_place_of(const int i, const int dims, const int packed)
{
    return (u32)i * (packed ? (u32)(10 * dims) : (u32)(4 * INT8_FOURS(dims)));
}

/* The work of a warp. */
struct split_int8 {
    int row, split, head0, heads, kv_head,
        first_heads;         /* query heads of the KV head; whether they are its first */
    int pos, first, p0;      /* visible positions are first .. pos; the split's first position */
    int begin, end, n_steps; /* steps of TURN positions from begin on; int4: up to end, of packed
                                pages; then one of the own page where that is the split's */
    int has_own, page;       /* lane i: number of page i of the split */
};

DEVICE struct split_int8 split_int8_of(const struct attend_kernel_args *a, const int int4)
{
    struct split_int8 s;
    int of_kv = a->n_heads / a->n_kv_heads, groups = (of_kv + 7) / 8, group = block_x() % groups;
    s.kv_head = block_x() / groups;
    s.head0 = s.kv_head * of_kv + group * 8;
    s.heads = of_kv - group * 8 < 8 ? of_kv - group * 8 : 8;
    s.first_heads = group == 0;
    const struct row_split work = row_split_of(a, block_y(), block_z());
    s.row = work.row;
    s.split = work.split;
    s.pos = a->pos[s.row];
    s.first = a->window && s.pos >= a->window ? s.pos - a->window + 1 : 0;
    s.p0 = s.split * KV_SPLIT;
    int from = s.first > s.p0 ? s.first : s.p0, own = s.pos / PAGE * PAGE,
        at = s.p0 / PAGE + thread() % (KV_SPLIT / PAGE);
    s.begin = from / TURN * TURN;
    s.end = int4 ? own : s.pos + 1;
    if (s.end > s.p0 + KV_SPLIT) s.end = s.p0 + KV_SPLIT;
    s.n_steps = from < s.end ? (s.end - 1 - s.begin) / TURN + 1 : 0;
    s.has_own = int4 && own >= s.p0 && own < s.p0 + KV_SPLIT;
    s.page = 0;
    if (at >= from / PAGE && at * PAGE <= s.pos)
        s.page = a->table[(u64)a->seq[s.row] * (u64)a->table_stride + (u64)at];
    return s;
}

/* The page of position p of the split. */
DEVICE const u8 *split_page(const struct attend_kernel_args *a, const struct split_int8 *s, int p,
                            const int dims, const int int4)
{
    int page =
        (int)bits_of(shuffle_from(f32_of((u32)s->page), (p - s->p0) / PAGE % (KV_SPLIT / PAGE)));
    return (const u8 *)a->pages + ((u64)page * (u64)a->n_kv_heads + (u64)s->kv_head) *
                                      (u64)(int4 ? INT4_PAGE(dims) : INT8_PAGE(dims));
}

/* Copies the keys with the scales, or the values, of a page of int8. */
DEVICE void copy_half_int8(const u8 *page, u32 lds, const int values, const int dims)
{
    int lane = thread() % WARP, place = lane % PAGE, block = lane / PAGE,
        position = place % 8 * 2 + place / 8;
    UNROLL for (int j = 0; j < dims / 32; j++)
    {
        int n = j * WARP + lane, four = n / (dims / 4), at = n % (dims / 4);
        if (values)
            copy_16(lds + (u32)(four * INT8_FOURS(dims) + at * 16), page + PAGE * dims + n * 16);
        else
            copy_16(lds + (u32)(((2 * j + block) * PAGE + place) * 16),
                    page + int8_key_at((2 * j + block) * 16, position));
    }
    if (!values && lane < 8)
        copy_16(lds + key_bytes_of(dims, 0) + (u32)(lane * 16), page + 2 * PAGE * dims + lane * 16);
}

/* The same of a page of int4. */
DEVICE void copy_half_int4(const u8 *page, u32 lds, const int values, const int dims)
{
    const int n_codes = 10 * dims / 16, all = values ? n_codes : n_codes + 8;
    const u8 *codes = page + int4_part_at(values, dims);
    UNROLL for (int j = 0; j < all; j += WARP)
    {
        int n = j + thread() % WARP;
        if (n < all)
            copy_16(lds + (u32)(n * 16),
                    n < n_codes ? codes + n * 16 : page + 20 * dims + (n - n_codes) * 16);
    }
}

/* Copies the keys or the values of step i to a slot: from n_steps on, those of the own page. */
DEVICE void copy_half(const struct attend_kernel_args *a, const struct split_int8 *s, u32 lds,
                      int i, const int values, const int dims, const int int4)
{
    if (i < s->n_steps) {
        UNROLL for (int k = 0; k < SPLIT_PAGES; k++)
        {
            int p = s->begin + i * TURN + k * PAGE;
            const u8 *page = split_page(a, s, p, dims, int4);
            u32 to = lds + (values ? value_place_of(k, dims, int4) : key_place(k, dims, int4));
            if (p >= s->end || p + PAGE <= s->first) continue;
            if (int4) copy_half_int4(page, to, values, dims);
            else copy_half_int8(page, to, values, dims);
        }
    } else if (int4 && i == s->n_steps && s->has_own) {
        copy_half_int8(own_page_of(a, s->row, s->kv_head), lds, values, dims);
    }
    copies_commit();
}

/* The largest of the warp's numbers, in every lane. */
DEVICE int most_of_warp(int x)
{
    UNROLL for (int i = 1; i < WARP; i *= 2)
    {
        int other = (int)shuffle_xor((u32)x, i);
        x = other > x ? other : x;
    }
    return x;
}

/* The row's own key, rotated and transformed, and value: lane l has dimensions 2l and 2l + 1, and
 * the same + dims / 2. */
struct own_int8 {
    u32 code[2][2]; /* of key, value: pairs of bytes */
    float scale[2];
    int at; /* position of the split; -1: another warp's */
};

/* Loads and rounds them, and stores them in the page, in the warp that has the row's position. */
DEVICE struct own_int8 own_int8_of(const struct attend_kernel_args *a, const struct split_int8 *s,
                                   const int dims)
{
    struct own_int8 own = {{{0, 0}, {0, 0}}, {0, 0}, -1};
    int d = thread() % WARP * 2;
    if (!a->k || s->pos < s->p0 || s->pos >= s->p0 + KV_SPLIT ||
        (s->pos - s->begin) / TURN % SPLIT_INT8_WARPS != thread() / WARP)
        return own;
    own.at = s->pos - s->p0;
    float x[2][2][2]; /* of key, value */
    UNROLL for (int k = 0; k < 2; k++) UNROLL for (int i = 0; i < 2; i++)
        x[k][i][0] = x[k][i][1] = 0;
    if (d < dims / 2) {
        u64 from = ((u64)s->row * (u64)a->n_kv_heads + (u64)s->kv_head) * (u64)dims + (u64)d,
            angle = (u64)s->row * (u64)(dims / 2) + (u64)d;
        f32x2 lo = *(const f32x2 *)(a->k + from), hi = *(const f32x2 *)(a->k + from + dims / 2),
              v0 = *(const f32x2 *)(a->v + from), v1 = *(const f32x2 *)(a->v + from + dims / 2),
              cos = *(const f32x2 *)(a->cos + angle), sin = *(const f32x2 *)(a->sin + angle);
        UNROLL for (int e = 0; e < 2; e++)
        {
            x[0][0][e] = fma32(lo[e], cos[e], -hi[e] * sin[e]);
            x[0][1][e] = fma32(hi[e], cos[e], lo[e] * sin[e]);
            x[1][0][e] = v0[e];
            x[1][1][e] = v1[e];
        }
    }
    float *key = &x[0][0][0];
    hadamard_step(key, 4, 1);
    UNROLL for (int lanes = 1; lanes < dims / 4; lanes *= 2) hadamard_lanes(key, 4, lanes);
    hadamard_step(key, 4, 2);
    u8 *page = (u8 *)split_page(a, s, s->pos, dims, 0);
    int p = own.at % PAGE;
    UNROLL for (int k = 0; k < 2; k++)
    {
        int most = 0;
        UNROLL for (int i = 0; i < 4; i++) most = larger_bits(x[k][i / 2][i % 2], most);
        struct int_scale to = int_scale_of(most_of_warp(most), 127);
        own.scale[k] = to.scale;
        UNROLL for (int i = 0; i < 2; i++)
        {
            int n = d + i * dims / 2;
            u32 lo = (u32)rounded_int(x[k][i][0], to.inverse) & 0xff,
                hi = (u32)rounded_int(x[k][i][1], to.inverse) & 0xff;
            own.code[k][i] = lo | hi << 8;
            if (!s->first_heads || d >= dims / 2) continue;
            if (k) {
                page[int8_value_at(n, p, dims)] = (u8)lo;
                page[int8_value_at(n + 1, p, dims)] = (u8)hi;
            } else {
                *(u16 *)(page + int8_key_at(n, p)) = (u16)own.code[k][i];
            }
        }
        if (s->first_heads && d == 0) int8_scales(page, dims)[k * PAGE + p] = to.scale;
    }
    return own;
}

/* Puts the key and the scales, or the value, into the slot of the step from position at0 of the
 * split on, if it is that of the row. */
DEVICE void put_own_int8(u8 *slot, const struct own_int8 *own, int at0, const int value,
                         const int dims)
{
    int lane = thread() % WARP, d = lane * 2, at = own->at - at0, p = at % PAGE;
    if (own->at < 0 || at < 0 || at >= TURN) return;
    u8 *page = slot +
               (value ? value_place_of(1, dims, 0) : key_place(1, dims, 0)) * (u32)(at / PAGE);
    if (!value && lane < 2)
        ((float *)(page + key_bytes_of(dims, 0)))[lane * PAGE + p] = lane ? own->scale[1]
                                                                          : own->scale[0];
    UNROLL for (int i = 0; i < 2 && d < dims / 2; i++)
    {
        int n = d + i * dims / 2, place = p / 2 + p % 2 * 8;
        u8 *to = page + p / 4 * INT8_FOURS(dims) + p % 4 + 4 * n;
        if (value) to[0] = (u8)own->code[1][i], to[4] = (u8)(own->code[1][i] >> 8);
        else *(u16 *)(page + (n / 16 * PAGE + place) * 16 + n % 16) = (u16)own->code[0][i];
    }
    warp_barrier();
}

/* Scores of a page of a step in units of the keys' scales: element 2h + e of lane 4r + t is of
 * position 2r + h and head 2t + e. lds: of the page */
DEVICE void page_scores_int8(u32 lds, struct two_halves q[][2], float score[4], const int dims)
{
    int matrix = thread() % WARP / 8, j = thread() % 8;
    float low[4] = {0, 0, 0, 0}; /* a chain of sums of its own */
    UNROLL for (int c = 0; c < dims / 32; c++)
    {
        u32 k[4];
        load_matrices(lds + (u32)(((2 * c + matrix / 2) * PAGE + matrix % 2 * 8 + j) * 16), k);
        UNROLL for (int b = 0; b < 2; b++)
        {
            u32 k0 = code_halves(k[2 * b], 0), k1 = code_halves(k[2 * b + 1], 0),
                k2 = code_halves(k[2 * b], 1), k3 = code_halves(k[2 * b + 1], 1);
            const struct two_halves *x = q[2 * c + b];
            mma_16x8x16(score, k0, k1, k2, k3, x[0].high, x[1].high);
            mma_16x8x16(low, k0, k1, k2, k3, x[0].low, x[1].low);
        }
    }
    UNROLL for (int e = 0; e < 4; e++) score[e] += low[e];
}

/* The same with the queries in the order of packed pages. */
DEVICE void page_scores_own(const u8 *page, struct two_halves q[][2], float score[4],
                            const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    UNROLL for (int c = 0; c < dims / 32; c++) UNROLL for (int b = 0; b < 2; b++)
    {
        const u8 *key = page + ((2 * c + t / 2) * PAGE + r) * 16 + t % 2 * 8 + 4 * b;
        u32 k0 = *(const u32 *)key, k1 = *(const u32 *)(key + 128);
        u32 a0 = code_halves(k0, 0), a1 = code_halves(k1, 0), a2 = code_halves(k0, 1),
            a3 = code_halves(k1, 1);
        const struct two_halves *x = q[2 * c + b];
        mma_16x8x16(score, a0, a1, a2, a3, x[0].high, x[1].high);
        mma_16x8x16(score, a0, a1, a2, a3, x[0].low, x[1].low);
    }
}

/* The same of a packed page. */
DEVICE void page_scores_int4(const u8 *page, struct two_halves q[][2], float score[4],
                             const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    float low[4] = {0, 0, 0, 0}; /* a chain of sums of its own */
    UNROLL for (int c = 0; c < dims / 32; c++)
    {
        const u8 *codes = page + ((2 * c + t / 2) * PAGE + 2 * r) * 8 + t % 2 * 4;
        u32 k0 = *(const u32 *)codes, k1 = *(const u32 *)(codes + 8);
        u32x2 lo = *(const u32x2 *)(page + int4_lo_at(0, dims) + 32 * c + 8 * t),
              step = *(const u32x2 *)(page + int4_step_at(0, dims) + 32 * c + 8 * t);
        UNROLL for (int b = 0; b < 2; b++)
        {
            struct channel_pairs of = channel_pairs_of(lo[b], step[b], 0);
            u32 a0 = int4_halves(k0, &of, b, 0), a1 = int4_halves(k1, &of, b, 0),
                a2 = int4_halves(k0, &of, b, 1), a3 = int4_halves(k1, &of, b, 1);
            const struct two_halves *x = q[2 * c + b];
            mma_16x8x16(score, a0, a1, a2, a3, x[0].high, x[1].high);
            mma_16x8x16(low, a0, a1, a2, a3, x[0].low, x[1].low);
        }
    }
    UNROLL for (int e = 0; e < 4; e++) score[e] += low[e];
}

/* Running maximum, sum and total of a warp, for heads 2t and 2t + 1; the totals are in units of
 * the power of two `unit`. */
struct split_sum_int8 {
    float largest[2], sum[2], top_value, total[GPU_HEAD_DIM / 16][4];
    struct power_of_two unit;
};

/* The scales of the keys of page i of a step; those of the values follow. */
DEVICE const float *step_scales(const u8 *slot, const int i, const int dims, const int packed)
{
    return (const float *)(slot + key_place(i, dims, packed) + key_bytes_of(dims, packed));
}

/* Online softmax of a step of so many pages, as turn_weights() has it. p0, last: its first
 * position, the last visible one */
DEVICE void step_weights_int8(const struct split_int8 *s, const u8 *slot, int p0, int last,
                              const float to_score[2], float score[SPLIT_PAGES][4],
                              struct split_sum_int8 *y, const int pages, const int dims,
                              const int packed)
{
    int lane = thread() % WARP, r = lane / 4;
    float shrink[2], value = 0;
    UNROLL for (int i = 0; i < pages; i++)
    {
        int p = p0 + i * PAGE + lane % PAGE;
        if (p >= s->first && p <= last)
            value = max32(abs32(step_scales(slot, i, dims, packed)[PAGE + lane % PAGE]), value);
    }
    y->top_value = max32(f32_of((u32)most_of_warp((int)bits_of(value))), y->top_value);
    struct power_of_two unit = power_for(y->top_value, -1);
    float to_unit = y->unit.undo * unit.factor;
    y->unit = unit;
    UNROLL for (int e = 0; e < 2; e++)
    {
        float more = 0, larger = -__builtin_inff();
        UNROLL for (int i = 0; i < pages; i++)
        {
            f32x2 of_key = *(const f32x2 *)(step_scales(slot, i, dims, packed) + 2 * r);
            UNROLL for (int h = 0; h < 2; h++)
            {
                int p = p0 + i * PAGE + 2 * r + h;
                float *x = &score[i][2 * h + e];
                *x = p >= s->first && p <= last ? *x * of_key[h] * to_score[e] : -__builtin_inff();
                larger = max32(*x, larger);
            }
        }
        larger = max32(over_rows(larger, 1), y->largest[e]);
        shrink[e] = exp32(y->largest[e] - larger);
        y->largest[e] = larger;
        UNROLL for (int i = 0; i < pages; i++) UNROLL for (int h = 0; h < 2; h++)
        {
            float *x = &score[i][2 * h + e];
            *x = exp32(*x - larger) * 0x1p14f;
            more += *x;
        }
        y->sum[e] = fma32(y->sum[e], shrink[e], over_rows(more, 0));
        shrink[e] *= to_unit;
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++)
        y->total[d][e] *= shrink[e % 2];
}

/* total += weights x values of a page. Element e of total[4c + j] is of dimension 64c + 32 (e / 2)
 * + 4r + j. page: of shared memory; w: weights of positions 2r + h */
DEVICE void page_values_int8(const u8 *page, const struct two_halves w[2], struct split_sum_int8 *y,
                             const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    const u8 *values = page + t * INT8_FOURS(dims) + 16 * r;
    UNROLL for (int c = 0; c < dims / 64; c++)
    {
        u32x4 lo = *(const u32x4 *)(values + 256 * c),
              hi = *(const u32x4 *)(values + 256 * c + 128);
        UNROLL for (int j = 0; j < 4; j++)
        {
            u32 v0 = code_halves(lo[j], 0), v1 = code_halves(hi[j], 0), v2 = code_halves(lo[j], 1),
                v3 = code_halves(hi[j], 1);
            mma_16x8x16(y->total[4 * c + j], v0, v1, v2, v3, w[0].high, w[1].high);
            mma_16x8x16(y->total[4 * c + j], v0, v1, v2, v3, w[0].low, w[1].low);
        }
    }
}

/* The same of a packed page. */
DEVICE void page_values_int4(const u8 *page, const struct two_halves w[2], struct split_sum_int8 *y,
                             const int dims)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    const u8 *codes = page + (u32)((t * dims + 4 * r) * 2);
    UNROLL for (int c = 0; c < dims / 64; c++)
    {
        u32x2 code[2];
        u32 lo[2], step[2];
        UNROLL for (int h = 0; h < 2; h++)
        {
            code[h] = *(const u32x2 *)(codes + 128 * c + 64 * h);
            lo[h] = *(const u32 *)(page + int4_lo_at(0, dims) + 64 * c + 32 * h + 4 * r);
            step[h] = *(const u32 *)(page + int4_step_at(0, dims) + 64 * c + 32 * h + 4 * r);
        }
        UNROLL for (int j = 0; j < 4; j++)
        {
            u32 v[2][2];
            UNROLL for (int h = 0; h < 2; h++)
            {
                struct channel_pairs of = row_pairs_of(lo[h], step[h], j);
                UNROLL for (int odd = 0; odd < 2; odd++)
                    v[h][odd] = int4_halves(code[h][j / 2], &of, j % 2, odd);
            }
            mma_16x8x16(y->total[4 * c + j], v[0][0], v[1][0], v[0][1], v[1][1], w[0].high,
                        w[1].high);
            mma_16x8x16(y->total[4 * c + j], v[0][0], v[1][0], v[0][1], v[1][1], w[0].low,
                        w[1].low);
        }
    }
}

/* A step from position p0 on: the weights of its positions, in w [page][2r + h], from its keys.
 * own: of the row's own page beside packed ones */
DEVICE void attend_keys_int8(const struct split_int8 *s, const u8 *slot, u32 at, int p0, int last,
                             struct two_halves q[][2], const float to_score[2],
                             struct split_sum_int8 *y, struct two_halves w[SPLIT_PAGES][2],
                             const int own, const int dims, const int packed)
{
    const int pages = own ? 1 : SPLIT_PAGES;
    int r = thread() % WARP / 4;
    float score[SPLIT_PAGES][4];
    UNROLL for (int i = 0; i < pages; i++)
    {
        UNROLL for (int e = 0; e < 4; e++) score[i][e] = 0;
        if (packed) page_scores_int4(slot + key_place(i, dims, 1), q, score[i], dims);
        else if (own) page_scores_own(slot, q, score[i], dims);
        else page_scores_int8(at + key_place(i, dims, 0), q, score[i], dims);
    }
    step_weights_int8(s, slot, p0, last, to_score, score, y, pages, dims, packed);
    UNROLL for (int i = 0; i < pages; i++)
    {
        f32x2 of_value = *(const f32x2 *)(step_scales(slot, i, dims, packed) + PAGE + 2 * r);
        UNROLL for (int h = 0; h < 2; h++)
        {
            /* stale memory may hold NaN */
            int p = p0 + i * PAGE + 2 * r + h;
            float x = p >= s->first && p <= last ? of_value[h] * y->unit.factor : 0;
            w[i][h] = split_pair(score[i][2 * h] * x, score[i][2 * h + 1] * x);
            w[i][h].high = transposed(w[i][h].high);
            w[i][h].low = transposed(w[i][h].low);
        }
    }
}

/* Adds its values. */
DEVICE void attend_values_int8(const u8 *slot, struct two_halves w[SPLIT_PAGES][2],
                               struct split_sum_int8 *y, const int own, const int dims,
                               const int packed)
{
    UNROLL for (int i = 0; i < (own ? 1 : SPLIT_PAGES); i++)
    {
        if (packed) page_values_int4(slot + value_place_of(i, dims, 1), w[i], y, dims);
        else page_values_int8(slot + value_place_of(i, dims, 0), w[i], y, dims);
    }
}

/* The row's queries: dimensions 4t, 4t + 2 and 4t + 1, 4t + 3 of each 16 of head r of the block, of
 * int4 8t + 4i, .. of each 32 in number i of 16; times a power of two for the head that brings the
 * largest into [2^14, 2^15). Returns its inverse. */
DEVICE float split_queries_int8(const struct attend_kernel_args *a, const struct split_int8 *s,
                                struct two_halves q[][2], const int dims, const int int4)
{
    int r = thread() % WARP / 4, t = thread() % 4;
    float largest = 0, x[GPU_HEAD_DIM / 4]; /* dimension 4t + e of number i of 16 at 4i + e */
    UNROLL for (int i = 0; i < dims / 4; i++) x[i] = 0;
    if (r < s->heads) {
        const float *from = a->q +
                            ((u64)s->row * (u64)a->n_heads + (u64)(s->head0 + r)) * (u64)dims +
                            (u64)((int4 ? 8 : 4) * t);
        UNROLL for (int i = 0; i < dims / 16; i++)
        {
            f32x4 v = *(const f32x4 *)(from + (int4 ? i / 2 * 32 + i % 2 * 4 : 16 * i));
            UNROLL for (int e = 0; e < 4; e++) x[4 * i + e] = v[e];
        }
        u64 angle = (u64)s->row * (u64)(dims / 2) + (u64)(4 * t);
        UNROLL for (int i = 0; i < dims / 32 && a->cos && !int4; i++)
        {
            f32x4 cos = *(const f32x4 *)(a->cos + angle + (u64)(16 * i)),
                  sin = *(const f32x4 *)(a->sin + angle + (u64)(16 * i));
            UNROLL for (int e = 0; e < 4; e++)
            {
                float lo = x[4 * i + e], hi = x[4 * i + dims / 8 + e];
                x[4 * i + e] = fma32(lo, cos[e], -hi * sin[e]);
                x[4 * i + dims / 8 + e] = fma32(hi, cos[e], lo * sin[e]);
            }
        }
    }
    if (a->cos && !int4) { /* by all lanes */
        UNROLL for (int apart = 1; apart < 4; apart *= 2) hadamard_step(x, dims / 4, apart);
        UNROLL for (int lanes = 1; lanes < 4; lanes *= 2) hadamard_lanes(x, dims / 4, lanes);
        UNROLL for (int apart = 4; apart < dims / 4; apart *= 2) hadamard_step(x, dims / 4, apart);
        UNROLL for (int i = 0; i < dims / 4; i++) x[i] *= 1.0f / (float)dims;
    }
    UNROLL for (int i = 0; i < dims / 4; i++) largest = max32(abs32(x[i]), largest);
    struct power_of_two p = power_for(quad_max(largest), 14);
    UNROLL for (int i = 0; i < dims / 16; i++) UNROLL for (int e = 0; e < 2; e++)
        q[i][e] = split_pair(x[4 * i + e] * p.factor, x[4 * i + e + 2] * p.factor);
    return p.undo;
}

/* The results of the warps, most [warp][8], sum [warp][8] and totals in their shared memory,
 * warp_bytes apart, combined as a partial result of the block's heads. */
DEVICE void put_part_int8(const struct attend_kernel_args *a, const struct split_int8 *s,
                          const struct split_sum_int8 *y, u8 *lds, float *most, float *sum,
                          const int warp_bytes, const int dims)
{
    int warp = thread() / WARP, r = thread() % WARP / 4, t = thread() % 4;
    float *out = (float *)(lds + warp * warp_bytes);
    UNROLL for (int e = 0; e < 2; e++)
    {
        int h = 2 * t + e;
        if (h >= s->heads) continue;
        UNROLL for (int c = 0; c < dims / 64; c++) UNROLL for (int half = 0; half < 2; half++)
        {
            f32x4 v;
            UNROLL for (int j = 0; j < 4; j++)
                v[j] = y->total[4 * c + j][2 * half + e] * y->unit.undo;
            *(f32x4 *)(out + h * (dims + 4) + 64 * c + 32 * half + 4 * r) = v;
        }
        if (r == 0) most[8 * warp + h] = y->largest[e], sum[8 * warp + h] = y->sum[e];
    }
    barrier();
    for (int h = 0; h < s->heads; h++) {
        float *part = a->parts +
                      (((u64)s->row * (u64)a->n_heads + (u64)(s->head0 + h)) * (u64)a->n_splits +
                       (u64)s->split) *
                          (u64)(dims + 8);
        float top = most[h], all = 0, weight[SPLIT_INT8_WARPS];
        UNROLL for (int i = 1; i < SPLIT_INT8_WARPS; i++) top = max32(most[8 * i + h], top);
        UNROLL for (int i = 0; i < SPLIT_INT8_WARPS; i++)
        {
            weight[i] = exp32(most[8 * i + h] - top);
            all = fma32(sum[8 * i + h], weight[i], all);
        }
        for (int d = thread(); d < dims; d += SPLIT_INT8_THREADS) {
            float x = 0;
            UNROLL for (int i = 0; i < SPLIT_INT8_WARPS; i++) x =
                fma32(((const float *)(lds + i * warp_bytes))[h * (dims + 4) + d], weight[i], x);
            part[d] = x;
        }
        if (thread() == 0) part[dims] = top, part[dims + 1] = all;
    }
}

DEVICE void attend_pages_int8(const struct attend_kernel_args *a, u32 *lds, float *most, float *sum,
                              const int dims, const int int4)
{
    const int warps = SPLIT_INT8_WARPS;
    int warp = thread() / WARP;
    u8 *ring = (u8 *)lds + warp * INT8_RING * INT8_SLOT(dims, int4);
    u32 at = lds_address(lds) + (u32)(warp * INT8_RING * INT8_SLOT(dims, int4));
    const u32 slot = INT8_SLOT(dims, int4);
    /* Pages that no launch of this step writes are loaded before the producer launch has ended. */
    int early = !int4 && a->k;
    if (!early) wait_for_producer();
    const struct split_int8 s = split_int8_of(a, int4);
    int nothing = s.p0 > s.pos || s.p0 + KV_SPLIT <= s.first;
    if (!nothing) {
        copy_half(a, &s, at, warp, 0, dims, int4);
        copy_half(a, &s, at + slot, warp, 1, dims, int4);
    }
    if (early) wait_for_producer();
    if (nothing) return;
    struct split_sum_int8 y;
    struct two_halves q[GPU_HEAD_DIM / 16][2], w[SPLIT_PAGES][2];
    struct own_int8 own = {{{0, 0}, {0, 0}}, {0, 0}, -1};
    if (!int4) own = own_int8_of(a, &s, dims);
    float undo = split_queries_int8(a, &s, q, dims, int4), to_score[2];
    UNROLL for (int e = 0; e < 2; e++) /* heads 2t and 2t + 1 */
    {
        to_score[e] = shuffle_from(undo, (2 * (thread() % 4) + e) * 4) * a->scale;
        y.largest[e] = -__builtin_inff();
        y.sum[e] = 0;
    }
    y.top_value = 0;
    y.unit = power_for(0, -1);
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++) y.total[d][e] = 0;
    u32 keys = 0, values = slot, next = 2 * slot; /* slots */
    int i = warp;
    NO_UNROLL for (; i < s.n_steps; i += warps)
    {
        int p0 = s.begin + i * TURN;
        copy_half(a, &s, at + next, i + warps, 0, dims, int4);
        COPIES_WAIT(2);
        warp_barrier();
        put_own_int8(ring + keys, &own, p0 - s.p0, 0, dims);
        attend_keys_int8(&s, ring + keys, at + keys, p0, s.end - 1, q, to_score, &y, w, 0, dims,
                         int4);
        warp_barrier();
        copy_half(a, &s, at + keys, i + warps, 1, dims, int4);
        COPIES_WAIT(2);
        warp_barrier();
        put_own_int8(ring + values, &own, p0 - s.p0, 1, dims);
        attend_values_int8(ring + values, w, &y, 0, dims, int4);
        warp_barrier();
        u32 used = values;
        values = keys;
        keys = next;
        next = used;
    }
    if (int4 && s.has_own && i == s.n_steps) {
        COPIES_WAIT(0);
        warp_barrier();
        attend_keys_int8(&s, ring + keys, at + keys, s.pos / PAGE * PAGE, s.pos, q, to_score, &y, w,
                         1, dims, 0);
        attend_values_int8(ring + values, w, &y, 1, dims, 0);
    }
    COPIES_WAIT(0); /* none, before the ring is used again */
    warp_barrier();
    put_part_int8(a, &s, &y, (u8 *)lds, most, sum, INT8_RING * (int)slot, dims);
}

#define ATTEND_PAGES_INT8(name, images, dims, int4, blocks)                                        \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(float, most, 8 * SPLIT_INT8_WARPS);                                                    \
        LDS(float, sum, 8 * SPLIT_INT8_WARPS);                                                     \
        attend_pages_int8(EARLY_ARGS, dynamic_lds, most, sum, dims, int4);                         \
    })
#include "backend-hip/kernels/kernel_list.h"
