/* attend_decode_mma.hip: attention of decode rows by mma on sm_80 and sm_90a, flash-decoding (Dao
 * et al. 2023): the KV range of a row is split over blocks, online softmax (Milakov & Gimelshein
 * 2018) within a split; fp16 KV cache.
 *   grid      (KV head x groups of 8 query heads, row, split) or a work list; 128 threads
 *   warp      every fourth 32 positions (two pages) of the split, copied to shared memory by
 *             cp.async while those before are computed
 *   queries   16 threads of a head prepare its query once for all warps, in shared memory
 *   products  positions or dimensions are mma's outputs, heads its rows, so that keys and values
 *             are read once for all heads of a group; queries and weights in split precision (two
 *             halves, 22 bits)
 *   epilogue  the warps' results are combined in order, their weights made by a thread a head, and
 *             written as one partial result
 * With a->k the kernel also rotates queries and the row's own key, and stores its key and value.
 * With a->q_norm and a->k_norm heads are normed before; bits: those of rope_head().
 * TURN: positions of a warp's step; TURNS: steps of a split. */

enum {
    SPLIT_WARPS = SPLIT_THREADS / WARP,
    SPLIT_HEADS = 8,
    TURN = 32,
    TURNS = KV_SPLIT / (SPLIT_WARPS * TURN),
    SPLIT_PAGES = TURN / PAGE
};

/* The factor of a head's norm. s: this lane's sums of squares, of dimensions that are d and d + 1
 * modulo 2 * lanes */
DEVICE float head_factor(const struct attend_kernel_args *a, const float s[2], const int lanes,
                         const int dims)
{
    float v[2] = {s[0], s[1]};
    UNROLL for (int i = lanes / 2; i; i /= 2) UNROLL for (int e = 0; e < 2; e++)
        v[e] += f32_of(shuffle_xor(bits_of(v[e]), i));
    return rsqrt32((v[0] + v[1]) / (float)dims + a->eps);
}

/* Threads of a head, and the pairs that one has: 2t of octets g + 4k, k < dims / 32, of which those
 * dims / 2 apart are rotated together. */
enum { QUERY_THREADS = 16, QUERY_PAIRS = GPU_HEAD_DIM / 32 };

DEVICE int query_at(const int k)
{
    return (thread() % QUERY_THREADS / 4 + 4 * k) * 8 + thread() % 4 * 2;
}

/* Norms a head. The squares are folded in a tree, as block_tree() does. */
DEVICE void norm_query(const struct attend_kernel_args *a, float x[][2], const int dims)
{
    const int n = dims / 32;
    float s[QUERY_PAIRS][2], weight[QUERY_PAIRS][2];
    UNROLL for (int k = 0; k < n; k++) UNROLL for (int e = 0; e < 2; e++)
    {
        weight[k][e] = a->q_norm[query_at(k) + e];
        s[k][e] = x[k][e] * x[k][e];
    }
    UNROLL for (int w = n / 2; w; w /= 2) UNROLL for (int k = 0; k < w; k++)
        UNROLL for (int e = 0; e < 2; e++) s[k][e] += s[k + w][e];
    float f = head_factor(a, s[0], QUERY_THREADS, dims);
    UNROLL for (int k = 0; k < n; k++) UNROLL for (int e = 0; e < 2; e++)
        x[k][e] = x[k][e] * f * weight[k][e];
}

DEVICE void rotate_query(const struct attend_kernel_args *a, int row, float x[][2], const int dims)
{
    const int half = dims / 64; /* pairs */
    u64 from = (u64)row * (u64)(dims / 2);
    UNROLL for (int k = 0; k < half; k++)
    {
        f32x2 cos = *(const f32x2 *)(a->cos + from + query_at(k)),
              sin = *(const f32x2 *)(a->sin + from + query_at(k));
        UNROLL for (int e = 0; e < 2; e++)
        {
            float lo = x[k][e], hi = x[k + half][e];
            x[k][e] = fma32(lo, cos[e], -hi * sin[e]);
            x[k + half][e] = fma32(hi, cos[e], lo * sin[e]);
        }
    }
}

/* The work of a warp. */
struct split {
    int row, split, head0, heads, kv_head,
        first_heads;              /* number of the block's query heads; whether they are the first
                                     ones of the KV head */
    int pos, first, p0;           /* visible positions are first .. pos; first position of the
                                     warp's first step */
    u64 page[TURNS][SPLIT_PAGES]; /* where the pages of each step begin, in elements, of int8 in
                                     bytes */
};

/* of_page: elements of a page of one KV head */
DEVICE struct split split_of(const struct attend_kernel_args *a, const int of_page)
{
    struct split s;
    int of_kv = a->n_heads / a->n_kv_heads, groups = (of_kv + 7) / 8, group = block_x() % groups;
    s.kv_head = block_x() / groups;
    s.head0 = s.kv_head * of_kv + group * 8;
    s.heads = of_kv - group * 8 < 8 ? of_kv - group * 8 : 8;
    s.first_heads = group == 0;
    const struct row_split work = row_split_of(a, block_y(), block_z());
    s.row = work.row;
    s.split = work.split;
    s.pos = a->pos[s.row];
    s.first = first_seen(s.pos, a->window);
    s.p0 = s.split * KV_SPLIT + thread() / WARP * TURN;
    const int *table = a->table + (u64)a->seq[s.row] * (u64)a->table_stride;
    UNROLL for (int k = 0; k < TURNS; k++) UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
    {
        int index = s.p0 + k * SPLIT_WARPS * TURN + i * PAGE;
        index = index > s.pos ? s.pos : index < s.first ? s.first : index;
        s.page[k][i] = ((u64)table[index / PAGE] * (u64)a->n_kv_heads + (u64)s.kv_head) *
                       (u64)of_page;
    }
    return s;
}

/* turn_begin(): the first position of a step; turn_seen(): whether any of its positions is
 * visible. */
DEVICE int turn_begin(const struct split *s, const int turn)
{
    return s->p0 + turn * SPLIT_WARPS * TURN;
}
DEVICE int turn_seen(const struct split *s, const int turn)
{
    return turn_begin(s, turn) <= s->pos && turn_begin(s, turn) + TURN > s->first;
}

/* A warp's shared memory: keys [page][dims / 8][PAGE][8], then values [page][PAGE][dims], 16 bytes
 * number i of a position at i ^ (position % 8). */
DEVICE u32 value_place(int p, int octet, const int dims)
{
    return (u32)(p * dims * 2 + (octet ^ p % 8) * 16);
}

/* Copies the keys of a step; positions that are not visible become zeros. */
DEVICE void copy_keys(const struct attend_kernel_args *a, const struct split *s, u32 lds,
                      const int turn, const int dims)
{
    int lane = thread() % WARP;
    UNROLL for (int i = 0; i < SPLIT_PAGES && turn_seen(s, turn); i++)
        UNROLL for (int j = 0; j < dims / 16; j++)
    {
        int n = j * WARP + lane, p = turn_begin(s, turn) + i * PAGE + n % PAGE;
        copy_16_or_zeros(lds + (u32)(i * PAGE * dims * 2 + n * 16),
                         (const f16 *)a->pages + s->page[turn][i] + n * 8,
                         p >= s->first && p <= s->pos);
    }
    copies_commit();
}

DEVICE void copy_values(const struct attend_kernel_args *a, const struct split *s, u32 lds,
                        const int turn, const int dims)
{
    int lane = thread() % WARP;
    lds += (u32)(SPLIT_PAGES * PAGE * dims * 2);
    UNROLL for (int i = 0; i < SPLIT_PAGES && turn_seen(s, turn); i++)
        UNROLL for (int j = 0; j < dims / 16; j++)
    {
        int n = j * WARP + lane, index = n / (dims / 8), p = turn_begin(s, turn) + i * PAGE + index;
        copy_16_or_zeros(lds + (u32)(i * PAGE * dims * 2) +
                             value_place(index, n % (dims / 8), dims),
                         (const f16 *)a->pages + s->page[turn][i] + PAGE * dims + n * 8,
                         p >= s->first && p <= s->pos);
    }
    copies_commit();
}

/* A lane's pairs of the row's own key, rotated, and of its value: lane l has dimensions 2l and 2l +
 * 1 of each 64 of both halves of a head; pair number 2i + j begins at dimension 64i + j * dims / 2
 * + 2l. */
enum { OWN_PAIRS = GPU_HEAD_DIM / 64 };
struct own_pairs {
    u32 key[OWN_PAIRS], value[OWN_PAIRS];
};
#define OWN_OF(dims) ((dims) > 64 ? (dims) / 64 : 2)

DEVICE int own_at(const int i, const int dims)
{
    return i / 2 * 64 + i % 2 * (dims / 2) + thread() % WARP * 2;
}

/* Norms the own key x[OWN_OF(dims)]. */
DEVICE void norm_own(const struct attend_kernel_args *a, f32x2 x[], const int dims)
{
    const int n = OWN_OF(dims);
    float s[OWN_PAIRS][2];
    UNROLL for (int i = 0; i < n; i++) UNROLL for (int e = 0; e < 2; e++)
        s[i][e] = x[i][e] * x[i][e];
    UNROLL for (int i = 0; i < n; i += 2) UNROLL for (int e = 0; e < 2; e++) s[i][e] += s[i + 1][e];
    UNROLL for (int i = 2; i < n; i += 2) UNROLL for (int e = 0; e < 2; e++) s[0][e] += s[i][e];
    float f = head_factor(a, s[0], dims < 128 ? dims / 4 : WARP, dims);
    UNROLL for (int i = 0; i < n; i++)
    {
        f32x2 w = *(const f32x2 *)(a->k_norm + own_at(i, dims) % dims);
        UNROLL for (int e = 0; e < 2; e++) x[i][e] = x[i][e] * f * w[e];
    }
}

/* What the own key and value are made of, in the warp that has the row's position. */
struct own_parts {
    int turn; /* the step that has the row's position, or -1 */
    f32x2 key[OWN_PAIRS], value[OWN_PAIRS], cos[OWN_PAIRS / 2], sin[OWN_PAIRS / 2];
};

DEVICE struct own_parts own_parts_of(const struct attend_kernel_args *a, const struct split *s,
                                     const int dims)
{
    const f32x2 none = {0, 0};
    struct own_parts own;
    int valid = thread() % WARP * 2 < dims / 2, index = s->pos - s->p0;
    own.turn = a->k && index >= 0 && index % (SPLIT_WARPS * TURN) < TURN
                   ? index / (SPLIT_WARPS * TURN)
                   : -1;
    if (own.turn >= TURNS) own.turn = -1;
    valid &= own.turn >= 0;
    u64 from = ((u64)s->row * (u64)a->n_kv_heads + (u64)s->kv_head) * (u64)dims,
        angle = (u64)s->row * (u64)(dims / 2);
    UNROLL for (int i = 0; i < OWN_OF(dims); i++)
    {
        own.key[i] = valid ? *(const f32x2 *)(a->k + from + own_at(i, dims)) : none;
        own.value[i] = valid ? *(const f32x2 *)(a->v + from + own_at(i, dims)) : none;
        if (i % 2) continue;
        own.cos[i / 2] = valid ? *(const f32x2 *)(a->cos + angle + own_at(i, dims)) : none;
        own.sin[i / 2] = valid ? *(const f32x2 *)(a->sin + angle + own_at(i, dims)) : none;
    }
    return own;
}

/* Makes the own key and value, and stores them in their page. */
DEVICE struct own_pairs own_of(const struct attend_kernel_args *a, const struct split *s,
                               struct own_parts *x, const int dims)
{
    const int n = OWN_OF(dims);
    struct own_pairs own = {{0}, {0}};
    if (x->turn < 0) return own;
    if (a->k_norm) norm_own(a, x->key, dims);
    if (thread() % WARP * 2 >= dims / 2) return own;
    UNROLL for (int i = 0; i < n; i += 2)
    {
        f32x2 cos = x->cos[i / 2], sin = x->sin[i / 2];
        float y[2][2];
        UNROLL for (int e = 0; e < 2; e++)
        {
            float lo = x->key[i][e], hi = x->key[i + 1][e];
            y[0][e] = fma32(lo, cos[e], -hi * sin[e]);
            y[1][e] = fma32(hi, cos[e], lo * sin[e]);
        }
        UNROLL for (int j = 0; j < 2; j++)
        {
            f32x2 v = x->value[i + j];
            own.key[i + j] = word_of((f16x2){(f16)y[j][0], (f16)y[j][1]});
            own.value[i + j] = word_of((f16x2){(f16)v[0], (f16)v[1]});
        }
    }
    if (!s->first_heads) return own;
    int in_turn = (s->pos - s->p0) % (SPLIT_WARPS * TURN), p = in_turn % PAGE;
    u64 number = s->page[0][0];
    UNROLL for (int k = 0; k < TURNS; k++) UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
        if (k == x->turn && i == in_turn / PAGE) number = s->page[k][i];
    f16 *page = (f16 *)a->pages + number;
    UNROLL for (int i = 0; i < n; i++)
    {
        int to = own_at(i, dims);
        *(u32 *)(page + (to / 8 * PAGE + p) * 8 + to % 8) = own.key[i];
        *(u32 *)(page + PAGE * dims + p * dims + to) = own.value[i];
    }
    return own;
}

/* Copies the own key and value to the warp's shared memory, in the step that has the row's
 * position. */
DEVICE void put_own(const struct attend_kernel_args *a, const struct split *s, u8 *lds,
                    const struct own_pairs *own, const int turn, const int value, const int dims)
{
    int d = thread() % WARP * 2, index = s->pos - turn_begin(s, turn), p = index % PAGE;
    if (!a->k || index < 0 || index >= TURN) return;
    u8 *page = lds + (value * SPLIT_PAGES + index / PAGE) * (PAGE * dims * 2);
    UNROLL for (int i = 0; i < OWN_OF(dims) && d < dims / 2; i++)
    {
        int n = own_at(i, dims);
        *(u32 *)(page + (value ? value_place(p, n / 8, dims) : (u32)((n / 8 * PAGE + p) * 16)) +
                 n % 8 * 2) = value ? own->value[i] : own->key[i];
    }
    warp_barrier();
}

/* The largest number, or the sum, of the lanes with the same t. */
DEVICE float over_rows(float x, const int max)
{
    UNROLL for (int i = 4; i < 32; i *= 2)
    {
        float other = f32_of(shuffle_xor(bits_of(x), i));
        x = max ? max32(x, other) : x + other;
    }
    return x;
}

/* Running maximum, sum and total of a warp, for heads 2t and 2t + 1. */
struct split_sum {
    float largest[2], sum[2], total[GPU_HEAD_DIM / 16][4];
};

/* Scores of a step, from the keys in shared memory. */
DEVICE void turn_scores(u32 lds, struct two_halves q[][2], float score[SPLIT_PAGES][4],
                        const int dims)
{
    int matrix = thread() % WARP / 8, j = thread() % 8;
    UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
    {
        UNROLL for (int e = 0; e < 4; e++) score[i][e] = 0;
        UNROLL for (int c = 0; c < dims / 16; c++)
        {
            u32 k[4];
            load_matrices(lds + (u32)(i * PAGE * dims * 2 + (2 * c + matrix / 2) * PAGE * 16 +
                                      (matrix % 2 * 8 + j) * 16),
                          k);
            mma_16x8x16(score[i], k[0], k[1], k[2], k[3], q[c][0].high, q[c][1].high);
            mma_16x8x16(score[i], k[0], k[1], k[2], k[3], q[c][0].low, q[c][1].low);
        }
    }
}

/* Online softmax: turns scores into weights, and scales the sums so far to the new maximum. p0:
 * first position of the step */
DEVICE void turn_weights(const struct split *s, int p0, const float to_score[2],
                         float score[SPLIT_PAGES][4], struct split_sum *y, const int dims)
{
    int r = thread() % WARP / 4;
    float shrink[2];
    UNROLL for (int e = 0; e < 2; e++)
    {
        float extra = 0, larger = -__builtin_inff();
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) UNROLL for (int h = 0; h < 2; h++)
        {
            int p = p0 + i * PAGE + h * 8 + r;
            float *x = &score[i][2 * h + e];
            *x = p >= s->first && p <= s->pos ? *x * to_score[e] : -__builtin_inff();
            larger = max32(*x, larger);
        }
        larger = max32(over_rows(larger, 1),
                       y->largest[e]); /* finite: the step has a visible position */
        shrink[e] = exp32(y->largest[e] - larger);
        y->largest[e] = larger;
        UNROLL for (int i = 0; i < SPLIT_PAGES; i++) UNROLL for (int h = 0; h < 2; h++)
        {
            float *x = &score[i][2 * h + e];
            *x = exp32(*x - larger) *
                 0x1p14f; /* cancels in the division by the sum; keeps the bits of small weights */
            extra += *x;
        }
        y->sum[e] = fma32(y->sum[e], shrink[e], over_rows(extra, 0));
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++)
        y->total[d][e] *= shrink[e % 2];
}

/* total += weights x values of a step, which are in shared memory behind the keys. */
DEVICE void turn_values(u32 lds, const float score[SPLIT_PAGES][4], struct split_sum *y,
                        const int dims)
{
    int matrix = thread() % WARP / 8, j = thread() % 8;
    UNROLL for (int i = 0; i < SPLIT_PAGES; i++)
    {
        struct two_halves w[2];
        UNROLL for (int h = 0; h < 2; h++)
        {
            w[h] = split_pair(score[i][2 * h], score[i][2 * h + 1]);
            w[h].high = transposed(w[h].high);
            w[h].low = transposed(w[h].low);
        }
        UNROLL for (int d = 0; d < dims / 16; d++)
        {
            u32 v[4];
            load_transposed(lds + (u32)((SPLIT_PAGES + i) * PAGE * dims * 2) +
                                value_place(matrix / 2 * 8 + j, 2 * d + matrix % 2, dims),
                            v);
            mma_16x8x16(y->total[d], v[0], v[1], v[2], v[3], w[0].high, w[1].high);
            mma_16x8x16(y->total[d], v[0], v[1], v[2], v[3], w[0].low, w[1].low);
        }
    }
}

/* Shared memory of a block beside the pages. */
struct split_shared {
    u32x4 *query; /* [dims / 16][SPLIT_HEADS][t]: high parts of the pairs 2t and 8 + 2t, then low
                     parts */
    float *small; /* [SPLIT_SMALL] */
};

/* Where `small` has: the factors that make scores of heads' sums [SPLIT_HEADS]; maximum and sum of
 * each warp [warp][SPLIT_HEADS]; weights of the warps' results [SPLIT_HEADS][warp]. */
enum {
    SPLIT_FACTOR = 0,
    SPLIT_MOST = SPLIT_HEADS,
    SPLIT_SUM = SPLIT_MOST + SPLIT_WARPS * SPLIT_HEADS,
    SPLIT_WEIGHT = SPLIT_SUM + SPLIT_WARPS * SPLIT_HEADS,
    SPLIT_SMALL = SPLIT_WEIGHT + SPLIT_WARPS * SPLIT_HEADS
};

/* Prepares the row's queries, times a power of two for the head that brings the largest into
 * [2^14, 2^15); zeros beyond the block's heads. */
DEVICE void put_split_queries(const struct attend_kernel_args *a, const struct split *s,
                              const struct split_shared *l, const int dims)
{
    const int n = dims / 32;
    int head = thread() / QUERY_THREADS, valid = head < s->heads;
    float x[QUERY_PAIRS][2], largest = 0;
    const float *from =
        a->q + ((u64)s->row * (u64)a->n_heads + (u64)(s->head0 + (valid ? head : 0))) * (u64)dims;
    UNROLL for (int k = 0; k < n; k++)
    {
        const f32x2 none = {0, 0};
        f32x2 v = valid ? *(const f32x2 *)(from + query_at(k)) : none;
        x[k][0] = v[0], x[k][1] = v[1];
    }
    if (a->q_norm) norm_query(a, x, dims);
    if (a->cos) rotate_query(a, s->row, x, dims);
    UNROLL for (int k = 0; k < n; k++)
        largest = max32(max32(abs32(x[k][0]), abs32(x[k][1])), largest);
    UNROLL for (int i = QUERY_THREADS / 2; i; i /= 2)
        largest = max32(f32_of(shuffle_xor(bits_of(largest), i)), largest);
    struct power_of_two p = power_for(largest, 14);
    UNROLL for (int k = 0; k < n; k++)
    {
        struct two_halves two = split_pair(x[k][0] * p.factor, x[k][1] * p.factor);
        u32 *to = (u32 *)(l->query + (query_at(k) / 16 * SPLIT_HEADS + head) * 4 + thread() % 4) +
                  query_at(k) / 8 % 2;
        to[0] = two.high, to[2] = two.low;
    }
    if (thread() % QUERY_THREADS == 0) l->small[SPLIT_FACTOR + head] = p.undo * a->scale;
}

/* Operand b of the scores: lane (r, t) has the query of head r. */
DEVICE void load_split_queries(const struct split_shared *l, struct two_halves q[][2],
                               const int dims)
{
    UNROLL for (int c = 0; c < dims / 16; c++)
    {
        u32x4 v = l->query[c * (SPLIT_HEADS * 4) + thread() % WARP];
        q[c][0] = (struct two_halves){v[0], v[2]};
        q[c][1] = (struct two_halves){v[1], v[3]};
    }
}

DEVICE float *split_part(const struct attend_kernel_args *a, const struct split *s, int head,
                         const int dims)
{
    return a->parts +
           (((u64)s->row * (u64)a->n_heads + (u64)(s->head0 + head)) * (u64)a->n_splits +
            (u64)s->split) *
               (u64)(dims + 8);
}

/* Combines the warps' results, out [warp][head][dims + 4], in order. stride: floats from one warp's
 * to the next */
DEVICE void combine_warps(const struct attend_kernel_args *a, const struct split *s, float *small,
                          const float *out, const int stride, const int dims)
{
    float *weight = small + SPLIT_WEIGHT;
    barrier();
    if (thread() < s->heads) {
        int h = thread();
        const float *largest = small + SPLIT_MOST + h, *sum = small + SPLIT_SUM + h;
        float top = largest[0], all = 0, *part = split_part(a, s, h, dims);
        UNROLL for (int i = 1; i < SPLIT_WARPS; i++) top = max32(largest[SPLIT_HEADS * i], top);
        UNROLL for (int i = 0; i < SPLIT_WARPS; i++)
        {
            float w = exp32(largest[SPLIT_HEADS * i] - top);
            weight[SPLIT_WARPS * h + i] = w;
            all = fma32(sum[SPLIT_HEADS * i], w, all);
        }
        part[dims] = top, part[dims + 1] = all;
    }
    barrier();
    for (int index = thread(); index < s->heads * dims; index += SPLIT_THREADS) {
        int h = index / dims, d = index % dims;
        float y = 0;
        UNROLL for (int i = 0; i < SPLIT_WARPS; i++)
            y = fma32(out[i * stride + h * (dims + 4) + d], weight[SPLIT_WARPS * h + i], y);
        split_part(a, s, h, dims)[d] = y;
    }
}

/* lds: keys and values of a step of each warp, then the queries; small [SPLIT_SMALL] */
DEVICE void attend_pages(const struct attend_kernel_args *a, u32 *lds, float *small, const int dims)
{
    const int warp_bytes = 2 * SPLIT_PAGES * PAGE * dims * 2;
    struct split s = split_of(a, 2 * PAGE * dims);
    struct split_sum y;
    struct two_halves q[GPU_HEAD_DIM / 16][2];
    int warp = thread() / WARP, lane = thread() % WARP, r = lane / 4, t = lane % 4,
        from = s.split * KV_SPLIT;
    int nothing = from > s.pos || from + KV_SPLIT <= s.first;
    u8 *own = (u8 *)lds + warp * warp_bytes;
    u32 offset = lds_address(lds) + (u32)(warp * warp_bytes);
    const struct split_shared l = {(u32x4 *)((u8 *)lds + SPLIT_WARPS * warp_bytes), small};
    /* Pages that no launch of this step writes are loaded before the producer launch has ended. */
    if (!a->k) wait_for_producer();
    if (!nothing) {
        copy_keys(a, &s, offset, 0, dims);
        copy_values(a, &s, offset, 0, dims);
    }
    if (a->q_norm) prefetch_lines(a->q_norm, dims * 4);
    if (a->k_norm) prefetch_lines(a->k_norm, dims * 4);
    if (a->k) wait_for_producer();
    if (nothing) return;
    struct own_parts parts = own_parts_of(a, &s, dims);
    put_split_queries(a, &s, &l, dims);
    struct own_pairs new_pairs = own_of(a, &s, &parts, dims);
    barrier();
    load_split_queries(&l, q, dims);
    float to_score[2];
    UNROLL for (int e = 0; e < 2; e++) /* heads 2t and 2t + 1 */
    {
        to_score[e] = small[SPLIT_FACTOR + 2 * t + e];
        y.largest[e] = -__builtin_inff();
        y.sum[e] = 0;
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++) y.total[d][e] = 0;
    UNROLL for (int turn = 0; turn < TURNS;
                turn++) /* copies in flight: keys, then values, of this step */
    {
        float score[SPLIT_PAGES][4];
        COPIES_WAIT(1);
        warp_barrier();
        if (turn_seen(&s, turn)) {
            put_own(a, &s, own, &new_pairs, turn, 0, dims);
            turn_scores(offset, q, score, dims);
            turn_weights(&s, turn_begin(&s, turn), to_score, score, &y, dims);
        }
        warp_barrier();
        if (turn + 1 < TURNS) {
            copy_keys(a, &s, offset, turn + 1, dims);
            COPIES_WAIT(1);
        } else {
            COPIES_WAIT(0);
        }
        warp_barrier();
        if (turn_seen(&s, turn)) {
            put_own(a, &s, own, &new_pairs, turn, 1, dims);
            turn_values(offset, score, &y, dims);
        }
        warp_barrier();
        if (turn + 1 < TURNS) copy_values(a, &s, offset, turn + 1, dims);
    }
    float *out = (float *)own; /* replaces the keys */
    UNROLL for (int e = 0; e < 2; e++) if (r == 0)
    {
        small[SPLIT_MOST + SPLIT_HEADS * warp + 2 * t + e] = y.largest[e];
        small[SPLIT_SUM + SPLIT_HEADS * warp + 2 * t + e] = y.sum[e];
    }
    UNROLL for (int d = 0; d < dims / 16; d++) UNROLL for (int e = 0; e < 4; e++)
        out[(2 * t + e % 2) * (dims + 4) + 16 * d + e / 2 * 8 + r] = y.total[d][e];
    combine_warps(a, &s, small, (const float *)lds, warp_bytes / 4, dims);
}

#define ATTEND_PAGES(name, images, dims)                                                           \
    ON_##images(KERNEL(name, struct attend_kernel_args) {                                          \
        LDS(float, small, SPLIT_SMALL);                                                            \
        attend_pages(EARLY_ARGS, dynamic_lds, small, dims);                                        \
    })
#include "backend-hip/kernels/nvidia/list.h"
