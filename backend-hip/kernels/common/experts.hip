/* experts.hip: mixtures of experts around their linears: the choice of experts (OP_ROUTE), the
 * grouping of slots by expert (args.h, EXPERTS), the preparation of their inputs, the weighted sum
 * (OP_MIX). Nothing depends on the order in which threads or blocks run. */

/* Whether element i comes before element e in descending order of c. */
DEVICE int comes_before(float ci, int i, float ce, int e) { return ci > ce || (ci == ce && i < e); }

/* Unrolled, the comparisons need more scalar registers than AMD's compiler has. */
#if defined(__NVPTX__)
#define RANK_UNROLL UNROLL_4
#else
#define RANK_UNROLL NO_UNROLL
#endif

/* The number of elements of c [n] that come before element e. c is filled up to a multiple of 4
 * with -inf. */
DEVICE int rank_of(const f32x4 *c, int n, int e)
{
    float ce = ((const float *)c)[e];
    int rank = 0;
    RANK_UNROLL for (int i = 0; i < n; i += 4)
    {
        f32x4 v = c[i / 4];
        UNROLL for (int k = 0; k < 4; k++) rank += comes_before(v[k], i + k, ce, e);
    }
    return rank;
}

/* Fills c [n] up to a multiple of 4. */
DEVICE void fill_up(float *c, int n)
{
    if (thread() < (n + 3) / 4 * 4 - n) c[n + thread()] = -__builtin_inff();
}

/* Shared memory of a block. */
struct route_shared {
    float *score, *choice, *other; /* [MAX_EXPERTS], by expert, or by group */
    int *list, *id;                /* [MAX_TOP_K] chosen experts, by rank and ascending */
    float *scratch;                /* [THREADS] */
};

/* The scores of a row: softmax or sigmoid. 1: one of them is NaN. */
DEVICE int route_scores(const struct route_args *a, const float *x, const struct route_shared *l)
{
    float largest = -__builtin_inff(), sum = 0, *s = l->score;
    if (!a->sigmoid) {
        for (int i = thread(); i < a->n; i += THREADS) largest = max32(largest, x[i]);
        largest = block_max(largest, l->scratch);
    }
    for (int i = thread(); i < a->n; i += THREADS) {
        float v = a->sigmoid ? rcp32(1 + exp32(-x[i])) : exp32(x[i] - largest);
        s[i] = v;
        sum += v;
    }
    sum = block_sum(sum, l->scratch);
    float r = rcp32(sum);
    if (!a->sigmoid)
        for (int i = thread(); i < a->n; i += THREADS) {
            float v = s[i], q = v * r;
            s[i] = fma32(fma32(-q, sum, v), r, q); /* the quotient v / sum */
        }
    return sum != sum;
}

/* The scores of a row in the CPU's order: exponentials are summed in 16 lanes, quotients rounded
 * once. */
DEVICE int exact_route_scores(const struct route_args *a, const float *x,
                              const struct route_shared *l)
{
    float largest = -__builtin_inff(), sum = 0, *s = l->score;
    int nan = 0;
    for (int i = thread(); i < a->n; i += THREADS) {
        nan |= x[i] != x[i];
        largest = max32(largest, x[i]);
    }
    largest = block_max(largest, l->scratch);
    int bad = block_max((float)nan, l->scratch) > 0;
    if (a->sigmoid) {
        for (int i = thread(); i < a->n; i += THREADS) s[i] = 1 / (1 + exact_exp(-x[i]));
        barrier();
        return bad;
    }
    for (int i = thread(); i < a->n; i += THREADS) s[i] = exact_exp(x[i] - largest);
    barrier();
    if (thread() < EXACT_LANES) {
        for (int i = thread(); i < a->n; i += EXACT_LANES) sum += s[i];
        l->scratch[thread()] = sum;
    }
    barrier();
    sum = exact_fold(l->scratch);
    for (int i = thread(); i < a->n; i += THREADS) s[i] = s[i] / sum;
    barrier();
    return bad || !(abs32(largest) < __builtin_inff());
}

/* Keeps the choices of the groups whose two largest have the largest sums, with group_best whose
 * largest one is; sums [groups]. */
DEVICE void keep_groups(const struct route_args *a, float *choice, float *sums)
{
    int size = a->n / a->groups;
    for (int g = thread(); g < a->groups; g += THREADS) {
        float first = -__builtin_inff(), second = first;
        NO_UNROLL for (int i = g * size; i < (g + 1) * size; i++) {
            float c = choice[i];
            second = c > first ? first : max32(second, c);
            first = max32(first, c);
        }
        sums[g] = size > 1 && !a->group_best ? first + second : first;
    }
    fill_up(sums, a->groups);
    barrier();
    for (int i = thread(); i < a->n; i += THREADS)
        if (rank_of((const f32x4 *)sums, a->groups, i / size) >= a->kept_groups)
            choice[i] = -__builtin_inff();
    barrier();
}

/* Chooses the experts of a row, of its inputs x [n]; their ids are in l->id when it returns.
 * writes: the results, too. The order of scores without a bias is that of the inputs, which have no
 * rounding; exact: that of the scores, as on the CPU. */
DEVICE void route(const struct route_args *a, const float *x, int row,
                  const struct route_shared *l, int writes, const int exact)
{
    int *id = a->id + (u64)row * (u64)a->top_k, by_groups = a->kept_groups < a->groups,
        t = thread();
    float *weight = a->weight + (u64)row * (u64)a->top_k;
    int bad = exact ? exact_route_scores(a, x, l) : route_scores(a, x, l);
    for (int i = t; i < a->n; i += THREADS)
        l->choice[i] = a->bias              ? l->score[i] + a->bias[i]
                       : by_groups || exact ? l->score[i]
                                            : x[i];
    fill_up(l->choice, a->n);
    if (bad && t < a->top_k) {
        l->id[t] = t;
        if (writes) id[t] = t, weight[t] = f32_of(0x7fc00000u);
    }
    barrier();
    if (bad) return;
    if (by_groups) keep_groups(a, l->choice, l->other);
    for (int i = t; i < a->n; i += THREADS) {
        int rank = rank_of((const f32x4 *)l->choice, a->n, i);
        if (rank < a->top_k) l->list[rank] = i;
    }
    barrier();
    int own = 0, index = 0;
    if (t < a->top_k) {
        own = l->list[t];
        NO_UNROLL for (int j = 0; j < a->top_k; j++) index += l->list[j] < own;
        l->id[index] = own;
        l->other[index] = l->score[own];
    }
    barrier();
    if (!writes || t >= a->top_k) return;
    float v = l->score[own], sum = 0;
    if (a->normalize) {
        NO_UNROLL for (int j = 0; j < a->top_k; j++) sum += l->other[j];
        float r = rcp32(sum), q = v * r;
        v = exact ? v / sum : fma32(fma32(-q, sum, v), r, q);
    }
    v *= a->scale;
    id[index] = own;
    weight[index] = a->factor ? v * a->factor[own] : v;
}

#define ROUTE_LDS(l)                                                                               \
    LDS(f32x4, route_score, MAX_EXPERTS / 4);                                                      \
    LDS(f32x4, route_choice, MAX_EXPERTS / 4);                                                     \
    LDS(f32x4, route_other, MAX_EXPERTS / 4);                                                      \
    LDS(int, route_list, MAX_TOP_K);                                                               \
    LDS(int, route_id, MAX_TOP_K);                                                                 \
    LDS(float, route_scratch, THREADS);                                                            \
    const struct route_shared l = {                                                                \
        (float *)route_score, (float *)route_choice, (float *)route_other, route_list, route_id,   \
        route_scratch}

/* One block to a row. */
KERNEL(route_rows, struct route_args)
{
    ROUTE_LDS(l);
    const struct route_args *a = ARGS;
    route(a, a->x + (u64)block_x() * (u64)a->n, block_x(), &l, 1, 0);
}

KERNEL(exact_route, struct route_args)
{
    ROUTE_LDS(l);
    const struct route_args *a = ARGS;
    route(a, a->x + (u64)block_x() * (u64)a->n, block_x(), &l, 1, 1);
}

/* sum[t] = the sum of v of threads 0 .. t. */
DEVICE int sum_up_to(int v, int *sum)
{
    int t = thread();
    barrier();
    sum[t] = v;
    barrier();
    for (int w = 1; w < THREADS; w *= 2) {
        int before = t >= w ? sum[t - w] : 0;
        barrier();
        sum[t] += before;
        barrier();
    }
    return sum[t];
}

/* Experts of slots from, from + THREADS, .., up to GROUP_AT_ONCE of them, whose loads wait for
 * memory together; -1: there is no such slot before `to`. */
#if defined(__NVPTX__)
enum { GROUP_AT_ONCE = 8 };
#else /* AMD has 11 code objects, in which unrolling costs bytes */
enum { GROUP_AT_ONCE = 1 };
#endif
enum { GROUP_WORDS = 8 * THREADS };
DEVICE void group_ids(const int *ids, int from, int to, int id[GROUP_AT_ONCE])
{
    UNROLL for (int j = 0; j < GROUP_AT_ONCE; j++)
        id[j] = from + j * THREADS < to ? ids[from + j * THREADS] : -1;
}

/* Places and tiles of one expert's slots: every block counts the slots of all experts, then has a
 * bit for each slot of its own, 32 * GROUP_WORDS slots at a time. count [MAX_EXPERTS], sums
 * [THREADS], bits [GROUP_WORDS] */
DEVICE void group_expert(const struct expert_groups *g, int n_experts, int expert, int *count,
                         int *sums, int *bits)
{
    int t = thread(), tiles = 0, id[GROUP_AT_ONCE];
    for (int i = t; i < n_experts; i += THREADS) count[i] = 0;
    barrier();
    for (int i = t; i < g->n_slots; i += GROUP_AT_ONCE * THREADS) {
        group_ids(g->id, i, g->n_slots, id);
        UNROLL for (int j = 0; j < GROUP_AT_ONCE; j++)
            if (id[j] >= 0) take_numbers(&count[id[j]], 1);
    }
    barrier();
    for (int i = t; i < expert; i += THREADS) tiles += (count[i] + g->tile - 1) / g->tile;
    int first = (int)block_sum((float)tiles, (float *)sums), n = count[expert], /* exact */
        n_tiles = (n + g->tile - 1) / g->tile, place = first * g->tile;
    if (expert == n_experts - 1 && t == 0) *g->n_tiles = first + n_tiles;
    if (!n) return;
    for (int i = t; i < n_tiles; i += THREADS) {
        int left = n - i * g->tile;
        g->expert[first + i] = expert;
        g->end[first + i] = (first + i) * g->tile + (left < g->tile ? left : g->tile);
    }
    for (int from = 0; from < g->n_slots; from += 32 * GROUP_WORDS) {
        int to = g->n_slots - from < 32 * GROUP_WORDS ? g->n_slots : from + 32 * GROUP_WORDS,
            words = (to - from + 31) / 32, each = (words + THREADS - 1) / THREADS, own = 0;
        for (int i = t; i < words; i += THREADS) bits[i] = 0;
        barrier();
        for (int i = from + t; i < to; i += GROUP_AT_ONCE * THREADS) {
            group_ids(g->id, i, to, id);
            UNROLL for (int j = 0; j < GROUP_AT_ONCE; j++)
            {
                int bit = i - from + j * THREADS;
                if (id[j] == expert) take_numbers(&bits[bit / 32], (int)(1u << bit % 32));
            }
        }
        barrier();
        for (int w = t * each; w < (t + 1) * each && w < words; w++)
            own += __builtin_popcount((u32)bits[w]);
        int index = place + sum_up_to(own, sums) - own;
        for (int w = t * each; w < (t + 1) * each && w < words; w++)
            for (u32 left = (u32)bits[w]; left; left &= left - 1) {
                int slot = from + w * 32 + __builtin_ctz(left);
                g->slot[index] = slot;
                g->place[slot] = index++;
            }
        place += sums[THREADS - 1];
        barrier();
    }
}

/* grid (expert, phase) */
KERNEL(group_slots, struct group_args)
{
    const struct group_args *a = ARGS;
    LDS(int, count, MAX_EXPERTS);
    LDS(int, sums, THREADS);
    LDS(int, bits, GROUP_WORDS);
    struct expert_groups g = a->phase[0];
    if (block_y()) g = a->phase[1];
    if (g.n_slots) group_expert(&g, a->n_experts, block_x(), count, sums, bits);
}

/* The row of a slot's input, after the activation that precedes it; *a: with the permutation of the
 * slot's expert. */
DEVICE const float *slot_input(const struct slot_prepare_args *s, int slot, struct prepare_args *a)
{
    *a = s->prepare;
    const float *x = a->x + (u64)(slot / s->top_k) * (u64)a->in;
    if (a->perm) a->perm += (u64)uniform_int(s->id[slot]) * (u64)a->k;
    if (s->gate) {
        float *gate = s->gate + (u64)slot * (u64)a->in;
        const float *up = s->up + (u64)slot * (u64)a->in;
        for (int i = thread(); i < a->in; i += THREADS) gate[i] = gated(gate[i], up[i], s->gelu);
        barrier();
        x = gate;
    }
    return x;
}

DEVICE int place_of_slot(const struct slot_prepare_args *s, int slot)
{
    return s->place ? uniform_int(s->place[slot]) : slot;
}

/* One block to `copies` slots. */
KERNEL(slots_prepare_f32, struct slot_prepare_args)
{
    const struct slot_prepare_args *s = ARGS;
    struct prepare_args a;
    for (int c = 0, slot = block_x() * s->copies; c < s->copies; c++, slot++) {
        const float *x = slot_input(s, slot, &a);
        float *packed = (float *)a.packed + (u64)place_of_slot(s, slot) * (u64)a.stride;
        for (int j = thread(); j < a.stride; j += THREADS) packed[j] = permuted(&a, x, j);
    }
}

/* Prepares slots in registers, without permutation; the slots of a block have equal inputs. places
 * [MAX_TOP_K] */
DEVICE void prepare_copies(const struct slot_prepare_args *s, int slot, float *scratch, int *places)
{
    const struct prepare_args *a = &s->prepare;
    const float *x = a->x + (u64)(slot / s->top_k) * (u64)a->in;
    f32x4 v[SHORT_PIECES];
    if (thread() < s->copies) /* the barriers of power_of_pieces() are behind it */
        places[thread()] = s->place ? s->place[slot + thread()] : slot + thread();
    FOR_PIECES(SHORT_PIECES, j, i, a->in)
    {
        if (s->gate) {
            float *gate = s->gate + (u64)slot * (u64)a->in + i;
            f32x4 g = *(const f32x4 *)gate,
                  u = *(const f32x4 *)(s->up + (u64)slot * (u64)a->in + i);
            UNROLL for (int e = 0; e < 4; e++) v[j][e] = gated(g[e], u[e], s->gelu);
            if (s->keep) *(f32x4 *)gate = v[j];
        } else {
            v[j] = *(const f32x4 *)(x + i);
        }
    }
    struct power_of_two p = power_of_pieces(v, a->in, a->top, scratch, SHORT_PIECES);
    for (int c = 0; c < s->copies; c++) {
        int to = uniform_int(places[c]);
        struct row_place place = place_of(a, to);
        if (thread() == 0) a->scale[to] = p.undo;
        place_pieces(a, &place, v, p.factor, 0, 0, SHORT_PIECES, THREADS);
    }
}

KERNEL(slots_prepare_f16, struct slot_prepare_args)
{
    const struct slot_prepare_args *s = ARGS;
    LDS(float, scratch, THREADS);
    LDS(int, places, MAX_TOP_K);
    int slot = block_x() * s->copies;
    if (!s->prepare.perm && fits_pieces(&s->prepare, SHORT_PIECES)) {
        prepare_copies(s, slot, scratch, places);
        return;
    }
    for (int c = 0; c < s->copies; c++, slot++) {
        struct prepare_args a;
        const float *x = slot_input(s, slot, &a);
        prepare_row(&a, x, place_of_slot(s, slot), scratch);
    }
}

/* The weighted sum of a row's slots: element 0 of each at x, n apart. */
#if defined(__NVPTX__)
DEVICE float weighted_slots(const float *x, const float *w, int top_k, int n)
{
    enum { AT_ONCE = 8 }; /* whose loads wait for memory together */
    float sum = 0;
    NO_UNROLL for (int from = 0; from < top_k; from += AT_ONCE)
    {
        float v[AT_ONCE], count[AT_ONCE];
        UNROLL for (int j = 0; j < AT_ONCE; j++)
        {
            int slot = from + j < top_k ? from + j : from;
            v[j] = x[(u64)slot * (u64)n];
            count[j] = w[slot];
        }
        UNROLL for (int j = 0; j < AT_ONCE; j++)
        {
            if (from + j == 0) sum = count[j] * v[j];
            else if (from + j < top_k) sum = fma32(count[j], v[j], sum);
        }
    }
    return sum;
}
#else /* AMD has 11 code objects, in which unrolling costs bytes */
DEVICE float weighted_slots(const float *x, const float *w, int top_k, int n)
{
    float sum = w[0] * x[0];
    for (int j = 1; j < top_k; j++) sum = fma32(w[j], x[(u64)j * (u64)n], sum);
    return sum;
}
#endif

/* One thread to an element. */
KERNEL(mix_slots, struct mix_args)
{
    const struct mix_args *a = ARGS;
    u64 i = (u64)block_x() * THREADS + (u64)thread();
    if (i >= a->count) return;
    u64 row = i / (u64)a->n;
    const float *x = a->x + row * (u64)a->top_k * (u64)a->n + i % (u64)a->n,
                *w = a->weight + row * (u64)a->top_k;
    float sum = weighted_slots(x, w, a->top_k, a->n);
    a->out[i] = a->add ? a->out[i] + sum : sum;
}
