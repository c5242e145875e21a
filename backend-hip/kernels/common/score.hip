/* score.hip: what log-probabilities need of rows of logits, with the bits of core/sample/logits.c.
 * Its sums have eight lanes, each of which adds every eighth exponential after the other: eight
 * threads add what the others, in the meantime, compute of the next piece of the row. A block takes
 * a row. The largest logits are gathered by a bound: each group of 32 threads knows the largest of
 * its logits, and as many of these as are asked for reach the least of them. */

enum {
    SCORE_ADDERS = 64, /* threads that compute no exponentials: two warps, or a wave */
    SCORE_PIECE = SAMPLE_THREADS - SCORE_ADDERS,
    SCORE_LANES = 8,
    SCORE_GROUPS = SAMPLE_THREADS / SAMPLE_GROUP
};
_Static_assert(SCORE_PIECE % SCORE_LANES == 0 && (int)SCORE_ROOM == SAMPLE_THREADS &&
                   (SCORE_GROUPS - SCORE_ADDERS / SAMPLE_GROUP) >= SCORE_TOP,
               "lanes, members, groups");

struct score_lds {
    union {
        double term[2][SCORE_PIECE];
        struct {
            u64 key[SAMPLE_THREADS], group[SCORE_GROUPS];
            struct largest found[SCORE_ROOM];
        } top;
    } as;
    double lane[SCORE_LANES];
    u64 bound;
    int n_found, n_above; /* n_above: tokens in front of the one that is scored */
};

/* exp of x <= 0, as logits_exp of core/sample/exp_lanes.h. */
DEVICE double score_exp(double x)
{
    static const double power[32] = {0x1p0,
                                     0x1.059b0d3158574p0,
                                     0x1.0b5586cf9890fp0,
                                     0x1.11301d0125b51p0,
                                     0x1.172b83c7d517bp0,
                                     0x1.1d4873168b9aap0,
                                     0x1.2387a6e756238p0,
                                     0x1.29e9df51fdee1p0,
                                     0x1.306fe0a31b715p0,
                                     0x1.371a7373aa9cbp0,
                                     0x1.3dea64c123422p0,
                                     0x1.44e086061892dp0,
                                     0x1.4bfdad5362a27p0,
                                     0x1.5342b569d4f82p0,
                                     0x1.5ab07dd485429p0,
                                     0x1.6247eb03a5585p0,
                                     0x1.6a09e667f3bcdp0,
                                     0x1.71f75e8ec5f74p0,
                                     0x1.7a11473eb0187p0,
                                     0x1.82589994cce13p0,
                                     0x1.8ace5422aa0dbp0,
                                     0x1.93737b0cdc5e5p0,
                                     0x1.9c49182a3f09p0,
                                     0x1.a5503b23e255dp0,
                                     0x1.ae89f995ad3adp0,
                                     0x1.b7f76f2fb5e47p0,
                                     0x1.c199bdd85529cp0,
                                     0x1.cb720dcef9069p0,
                                     0x1.d5818dcfba487p0,
                                     0x1.dfc97337b9b5fp0,
                                     0x1.ea4afa2a490dap0,
                                     0x1.f50765b6e454p0};
    if (x < -700) x = -700;
    double t = x * 0x1.71547652b82fep5 + 0x1.8p52, k = t - 0x1.8p52;
    double r = x - k * 0x1.62e42fefp-6 - k * 0x1.473de6af278edp-39;
    double p = r * (1.0 / 120) + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r * r + r;
    u64 bits, scaled;
    __builtin_memcpy(&bits, &t, 8);
    double from = power[bits & 31];
    from = from + from * p;
    __builtin_memcpy(&scaled, &from, 8);
    scaled += (bits & ~31ull) << 47;
    __builtin_memcpy(&from, &scaled, 8);
    return from;
}

/* Larger for a larger logit, of equal ones for the lower id. */
DEVICE u64 score_key(float x, int id) { return (u64)ordered_bits(x) << 32 | (u32)~id; }

/* A row of logits, its largest one, and the key of the token that is scored. */
struct score_view {
    const float *x; /* [vocab] */
    int vocab;
    float max;
    u64 key;
};

/* A thread's logit number i in its place of `term`; *largest: of the thread's keys. Returns whether
 * its token comes before the one that is scored. */
DEVICE int score_one(double *term, const struct score_view *v, int i, u64 *largest)
{
    if (i >= v->vocab) return 0;
    u64 own = score_key(v->x[i], i);
    if (own > *largest) *largest = own;
    *term = score_exp((double)v->x[i] - (double)v->max);
    return own > v->key;
}

/* Adds to a lane's sum its terms among the first n of a piece. */
DEVICE double score_add(const double *term, int n, double sum)
{
    UNROLL_8 for (int i = thread(); i < n; i += SCORE_LANES) sum += term[i];
    return sum;
}

/* l->lane: the sums of the lanes over the whole eights of the row. Returns the largest key of the
 * thread's logits. */
DEVICE u64 score_pass(struct score_lds *l, const struct score_view *v)
{
    int t = thread(), at = t - SCORE_ADDERS, n_above = 0;
    int whole = v->vocab / SCORE_LANES * SCORE_LANES;
    u64 largest = 0;
    double sum = 0;
    for (int first = 0, which = 0; first < v->vocab + SCORE_PIECE;
         first += SCORE_PIECE, which = 1 - which) {
        int last = first - SCORE_PIECE, n = whole - last < SCORE_PIECE ? whole - last : SCORE_PIECE;
        if (at >= 0) n_above += score_one(&l->as.term[which][at], v, first + at, &largest);
        else if (t < SCORE_LANES && last >= 0) sum = score_add(l->as.term[1 - which], n, sum);
        barrier();
    }
    if (t < SCORE_LANES) l->lane[t] = sum;
    if (n_above) take_numbers(&l->n_above, n_above);
    barrier();
    return largest;
}

/* The sum of the lanes and of what is behind the whole eights, in the order of logits_sum_exp. */
DEVICE double score_total(const struct score_lds *l, const struct score_view *v)
{
    const double *s = l->lane;
    double total = ((s[0] + s[2]) + (s[4] + s[6])) + ((s[1] + s[3]) + (s[5] + s[7]));
    for (int i = v->vocab / SCORE_LANES * SCORE_LANES; i < v->vocab; i++)
        total += score_exp((double)v->x[i] - (double)v->max);
    return total;
}

/* l->bound: at least n keys of the row reach it. */
DEVICE void score_bound(struct score_lds *l, u64 largest, int n)
{
    int t = thread(), place = 0;
    l->as.top.key[t] = largest;
    if (t == 0) l->bound = 0;
    barrier();
    if (t < SCORE_GROUPS) {
        u64 most = 0;
        UNROLL_4 for (int i = 0; i < SAMPLE_GROUP; i++)
        {
            u64 key = l->as.top.key[t * SAMPLE_GROUP + i];
            if (key > most) most = key;
        }
        l->as.top.group[t] = most;
    }
    barrier();
    if (t < SCORE_GROUPS) {
        UNROLL_4 for (int i = 0; i < SCORE_GROUPS; i++)
            place += l->as.top.group[i] > l->as.top.group[t];
        if (place == n - 1) l->bound = l->as.top.group[t];
    }
    barrier();
}

/* Where more keys reach the bound than there is room for: the largest below the last, n times. */
DEVICE void score_top_slowly(struct score_lds *l, const float *x, int vocab, int n,
                             struct largest *out)
{
    int t = thread();
    u64 last = ~0ull;
    for (int k = 0; k < n; k++) {
        u64 most = 0;
        UNROLL_4 for (int i = t; i < vocab; i += SAMPLE_THREADS)
        {
            u64 key = score_key(x[i], i);
            if (key < last && key > most) most = key;
        }
        score_bound(l, most, 1);
        last = l->bound;
        int id = (int)~(u32)last;
        if (t == 0) out[k] = (struct largest){x[id], id};
        barrier();
    }
}

/* The n largest logits, in descending order. */
DEVICE void score_top(struct score_lds *l, const float *x, int vocab, u64 largest, int n,
                      struct largest *out)
{
    int t = thread();
    score_bound(l, largest, n);
    u64 bound = l->bound;
    UNROLL_4 for (int i = t; i < vocab; i += SAMPLE_THREADS)
    {
        if (score_key(x[i], i) < bound) continue;
        int to = take_numbers(&l->n_found, 1);
        if (to < SCORE_ROOM) l->as.top.found[to] = (struct largest){x[i], i};
    }
    barrier();
    int n_found = l->n_found;
    if (n_found > SCORE_ROOM) {
        score_top_slowly(l, x, vocab, n, out);
        return;
    }
    if (t >= n_found) return;
    struct largest own = l->as.top.found[t];
    u64 key = score_key(own.value, own.at);
    int place = 0;
    for (int i = 0; i < n_found; i++)
        place += score_key(l->as.top.found[i].value, l->as.top.found[i].at) > key;
    if (place < n) out[place] = own;
}

KERNEL(score_rows, struct score_args)
{
    LDS(struct score_lds, l, 1);
    const struct score_args *a = ARGS;
    const struct score_row *r = &a->row[block_x()];
    struct score *out = &a->score[block_x()];
    const float *x = a->logits + (u64)r->row * (u64)a->vocab;
    int best = a->best[r->row], id = r->id < 0 ? best : r->id;
    if (best < 0) return;
    if (thread() == 0) l->n_above = l->n_found = 0;
    barrier();
    const struct score_view v = {x, a->vocab, x[best], score_key(x[id], id)};
    u64 largest = score_pass(l, &v);
    if (thread() == 0) {
        out->sum = score_total(l, &v);
        out->max = x[best];
        out->logit = x[id];
        out->rank = 1 + l->n_above;
        out->n_top = r->n_top;
    }
    if (r->n_top) score_top(l, x, a->vocab, largest, r->n_top, out->top);
}
