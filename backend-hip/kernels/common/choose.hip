/* choose.hip: OP_CHOOSE (core/step/op.h) for every device, over all types of pages and in every
 * arithmetic: the scores of the indexer (DeepSeek-V3.2, 2.1), then the positions with the largest.
 * Bits: the order of the CPU (backend-cpu/choose_loops.h, cpu_choose.c): keys are read as numbers,
 * sums over elements and over heads ascend, fused; on ties the lower position is chosen, NaN is
 * below all. */

enum { CHOOSE_HEADS = 16, CHOOSE_COPIES = 8 };

/* 16 elements of a key from d on, as numbers. */
DEVICE void choose_key(const struct choose_args *a, const struct latent_place *p, int d,
                       float k[16])
{
    if (a->kv < PAGE_INT8) {
        int f32 = a->kv == PAGE_F32;
        UNROLL for (int i = 0; i < 2; i++)
        {
            u64 at = (u64)(((d / 8 + i) * PAGE + p->position) * 8);
            struct eight x = f32 ? load_eight(p->page, at, 1) : load_eight(p->page, at, 0);
            UNROLL for (int j = 0; j < 8; j++)
                k[8 * i + j] = f32 ? element(&x, j, 1) : element(&x, j, 0);
        }
        return;
    }
    int d16 = round16(a->latent + a->rotated);
    const float *scale = latent_scales(p->page, d16, p->packed) + p->position;
    u32x4 codes = latent_key_piece(p, d, d16);
    UNROLL for (int i = 0; i < 4; i++)
    {
        float s = scale[d + 4 * i < a->latent ? 0 : PAGE];
        UNROLL for (int j = 0; j < 4; j++) k[4 * i + j] = (float)latent_code(codes[i], j) * s;
    }
}

/* Where position p of row `row`, which is at pos, is. */
DEVICE struct latent_place choose_place(const struct choose_args *a, int row, int pos, int p)
{
    int hd = a->latent + a->rotated;
    const int *table = a->table + (u64)a->seq[row] * (u64)a->table_stride;
    if (a->kv == PAGE_INT4 && p / PAGE == pos / PAGE)
        return (struct latent_place){latent_open_page(&a->open, a->open.own[row], hd), p % PAGE, 0};
    return (struct latent_place){
        (const u8 *)a->pages + (u64)table[p / PAGE] * latent_page_bytes(hd, a->kv), p % PAGE,
        a->kv == PAGE_INT4};
}

/* total + the terms of heads h0 and further, whose queries are in q. */
DEVICE float choose_add(const struct choose_args *a, const struct latent_place *p, const float *q,
                        const float *w, int h0, float total)
{
    float sum[CHOOSE_HEADS];
    UNROLL for (int h = 0; h < CHOOSE_HEADS; h++) sum[h] = 0;
    NO_UNROLL for (int d = 0; d < round16(a->latent + a->rotated); d += 16)
    {
        float k[16];
        choose_key(a, p, d, k);
        UNROLL for (int h = 0; h < CHOOSE_HEADS; h++) UNROLL for (int i = 0; i < 16; i += 4)
        {
            f32x4 x = *(const f32x4 *)(q + h * CHOOSE_DIMS + d + i);
            UNROLL for (int j = 0; j < 4; j++) sum[h] = fma32(x[j], k[i + j], sum[h]);
        }
    }
    UNROLL for (int h = 0; h < CHOOSE_HEADS; h++) if (h0 + h < a->n_heads)
        total = fma32(w[h0 + h], max32(sum[h], 0), total);
    return total;
}

/* Block (row, chunk of KV_SPLIT positions): a thread is a position. */
KERNEL(choose_scores, struct choose_args)
{
    LDS(f32x4, queries, CHOOSE_HEADS *CHOOSE_DIMS / 4);
    const struct choose_args *a = ARGS;
    int row = block_x(), pos = a->pos[row], c0 = block_y() * KV_SPLIT, p = c0 + thread(),
        hd = a->latent + a->rotated, d16 = round16(hd);
    float *q = (float *)queries, total = 0;
    const float *from = a->q + (u64)row * (u64)(a->n_heads * hd),
                *w = a->w + (u64)row * (u64)a->n_heads;
    if (pos < a->top_k || c0 > pos) return;
    const struct latent_place at = choose_place(a, row, pos, p <= pos ? p : pos);
    NO_UNROLL for (int h0 = 0; h0 < a->n_heads; h0 += CHOOSE_HEADS)
    {
        barrier();
        for (int i = thread(); i < CHOOSE_HEADS * d16; i += THREADS) {
            int h = h0 + i / d16, d = i % d16;
            q[i / d16 * CHOOSE_DIMS + d] =
                h < a->n_heads && d < hd ? from[(u64)h * (u64)hd + (u64)d] : 0;
        }
        barrier();
        total = choose_add(a, &at, q, w, h0, total);
    }
    if (p <= pos) a->score[(u64)row * a->positions + (u64)p] = total;
}

/* A score in an order of integers: NaN is 0, the zeros are equal. */
DEVICE u32 choose_rank(float x) { return x != x ? 0 : ordered_bits(x); }

/* The sum of x[] over threads before this one (below 1) or behind it. */
DEVICE int choose_sum(const int x[THREADS], const int below)
{
    int t = thread(), sum = 0;
    UNROLL_8 for (int i = 0; i < THREADS; i++) if (below ? i < t : i > t) sum += x[i];
    return sum;
}

/* What is known of the least rank that is chosen: its bits under mask, how many have to be chosen
 * of those that have these bits. */
struct choose_least {
    u32 prefix, mask;
    int left;
};

/* The next 8 bits of the least rank, by a histogram of those of the scores x [n] whose bits before
 * are its own. count: [THREADS][CHOOSE_COPIES], all [THREADS] */
DEVICE void choose_digit(const float *x, int n, int shift, int *count, int *all,
                         struct choose_least *least)
{
    int t = thread();
    UNROLL for (int i = 0; i < CHOOSE_COPIES; i++) count[t * CHOOSE_COPIES + i] = 0;
    barrier();
    for (int i = t; i < n; i += THREADS) {
        u32 rank = choose_rank(x[i]);
        if ((rank & least->mask) == least->prefix)
            take_numbers(count + (rank >> shift & 255) * CHOOSE_COPIES + t % CHOOSE_COPIES, 1);
    }
    barrier();
    int own = 0;
    UNROLL for (int i = 0; i < CHOOSE_COPIES; i++) own += count[t * CHOOSE_COPIES + i];
    all[t] = own;
    barrier();
    int above = choose_sum(all, 0), left = least->left;
    barrier();
    if (above < left && above + own >= left) { /* one thread */
        all[0] = t;
        all[1] = left - above;
    }
    barrier();
    least->prefix |= (u32)all[0] << shift;
    least->mask |= 255u << shift;
    least->left = all[1];
    barrier();
}

/* Block (row): a thread has a span of positions. */
KERNEL(choose_rows, struct choose_args)
{
    LDS(int, count, THREADS *CHOOSE_COPIES);
    LDS(int, all, THREADS);
    const struct choose_args *a = ARGS;
    int row = block_x(), n = a->pos[row] + 1, t = thread(), span = (n + THREADS - 1) / THREADS,
        begin = t * span < n ? t * span : n, end = begin + span < n ? begin + span : n;
    const float *x = a->score + (u64)row * a->positions;
    int *out = a->out + (u64)row * (u64)a->top_k, above = 0, equal = 0;
    struct choose_least least = {0, 0, a->top_k};
    if (n <= a->top_k) return;
    NO_UNROLL for (int shift = 24; shift >= 0; shift -= 8)
        choose_digit(x, n, shift, count, all, &least);
    for (int i = begin; i < end; i++) {
        u32 rank = choose_rank(x[i]);
        above += rank > least.prefix;
        equal += rank == least.prefix;
    }
    all[t] = above;
    count[t] = equal;
    barrier();
    int before = choose_sum(all, 1), ties = choose_sum(count, 1),
        at = before + (ties < least.left ? ties : least.left);
    for (int i = begin; i < end; i++) {
        u32 rank = choose_rank(x[i]);
        if (rank > least.prefix || (rank == least.prefix && ties++ < least.left)) out[at++] = i;
    }
}
