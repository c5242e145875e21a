/* sample.hip: chooses tokens by the sampler's rules (core/sample/weights.h, sampler.h) where the
 * logits are. All sums are of whole numbers, so they have no order. A block of 1024 threads takes a
 * row; of few rows the spans of a row have blocks of their own, in two launches ahead of it, which
 * leave it the histogram of the first digit (below), the tokens of the class that is cut, and sums.
 *
 * Tokens are in order of keys, the likeliest first: the depth, then the logit, which tells equal
 * depths apart, then the id. Top-k and top-p cut this order at the token where a sum of ones or of
 * weights exceeds a target. The cut is found digit by digit of the key, each by a histogram of the
 * tokens that have the digits before, until those of one class fit SAMPLE_ROOM: these are ranked. */

enum { SAMPLE_GROUP = 32, SAMPLE_DEEPEST = 2147483520 };
_Static_assert((int)SAMPLE_ROOM == SAMPLE_THREADS, "a thread for each member");

struct sample_lds {
    u64 sum[SAMPLE_THREADS];
    u64 group[SAMPLE_THREADS / SAMPLE_GROUP];
    u64 total, before, before_group; /* of locate() */
    int at, at_group;
    int n, digit, n_digit; /* members; the class that is cut, its tokens */
    u64 cut_key;
    int cut_id;
    union {
        struct {
            int low[SAMPLE_CLASSES], high[SAMPLE_CLASSES], count[SAMPLE_CLASSES];
        } histogram; /* weights in two words */
        struct sample_member member[SAMPLE_ROOM];
    } as;
};

/* A row of logits, how its tokens weigh, and the last token that is kept. */
struct sample_row {
    const float *x; /* [vocab] */
    int vocab, n_spans;
    float max, scale;
    int most;
    u64 cut_key;
    int cut_id;
};

DEVICE u32 multiply_high(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }

DEVICE u64 multiply_high_64(u64 a, u64 b)
{
    u64 low = (u64)(u32)a * (u32)b, x = (a >> 32) * (u32)b + (low >> 32);
    u64 y = (u64)(u32)a * (b >> 32) + (u32)x;
    return (a >> 32) * (b >> 32) + (x >> 32) + (y >> 32);
}

/* As weights_of of weights.c. */
DEVICE u64 sample_weight(int depth)
{
    u64 t = (u64)(u32)depth * 3098164009u;
    u32 f = (u32)(t >> 25), q = 46333;
    q = 632021 - multiply_high(q, f);
    q = 5702267 - multiply_high(q, f);
    q = 41298234 - multiply_high(q, f);
    q = 238385494 - multiply_high(q, f);
    q = 1031764650 - multiply_high(q, f);
    q = 2977044458u - multiply_high(q, f);
    return (((1ull << 32) - multiply_high(q, f)) << 12) >> (t >> 57);
}

DEVICE int sample_depth(const struct sample_row *r, float x)
{
    float y = (r->max - x) * r->scale;
    int depth = y < (float)SAMPLE_DEEPEST ? (int)y : SAMPLE_DEEPEST;
    return depth > r->most ? SAMPLE_DEEPEST : depth;
}

/* 63 bits: digits at 52, 41, 30 of 11 bits, at 20, 10, 0 of 10. */
DEVICE u64 sample_key(int depth, float x)
{
    return (u64)(u32)depth << 32 | (u32)~ordered_bits(x);
}

DEVICE int sample_digit_width(int shift) { return shift >= 30 ? 11 : 10; }

DEVICE int sample_keeps(const struct sample_row *r, u64 key, int id)
{
    return key < r->cut_key || (key == r->cut_key && id <= r->cut_id);
}

/* Finds where the running sum of the threads' values exceeds TARGET: l->at, the thread, -1 where it
 * never does, and l->before, the sum of those before it; the same of groups of 32 threads. l->total
 * is the sum of all. */
DEVICE void sample_locate(struct sample_lds *l, u64 value, u64 target)
{
    int t = thread();
    barrier();
    l->sum[t] = value;
    barrier();
    if (t < SAMPLE_THREADS / SAMPLE_GROUP) {
        u64 sum = 0;
        UNROLL_4 for (int i = 0; i < SAMPLE_GROUP; i++) sum += l->sum[t * SAMPLE_GROUP + i];
        l->group[t] = sum;
    }
    barrier();
    if (t == 0) {
        u64 before = 0;
        int g = 0, i;
        while (g < SAMPLE_THREADS / SAMPLE_GROUP && before + l->group[g] <= target)
            before += l->group[g++];
        l->at = -1;
        l->at_group = g;
        l->before_group = before;
        for (i = g * SAMPLE_GROUP; i < SAMPLE_THREADS && before + l->sum[i] <= target; i++)
            before += l->sum[i];
        if (i < SAMPLE_THREADS) l->at = i;
        l->before = before;
        u64 total = 0;
        UNROLL_4 for (g = 0; g < SAMPLE_THREADS / SAMPLE_GROUP; g++) total += l->group[g];
        l->total = total;
    }
    barrier();
}

/* Counts kept tokens first .. end - 1 and sums their weights by the digit at SHIFT of those keys
 * whose bits above it are PREFIX. */
DEVICE void sample_histogram_of(struct sample_lds *l, const struct sample_row *r, int first,
                                int end, int shift, u64 prefix)
{
    int t = thread(), bits = sample_digit_width(shift);
    barrier();
    for (int i = t; i < SAMPLE_CLASSES; i += SAMPLE_THREADS)
        l->as.histogram.low[i] = l->as.histogram.high[i] = l->as.histogram.count[i] = 0;
    barrier();
    UNROLL_4 for (int i = first + t; i < end; i += SAMPLE_THREADS)
    {
        int depth = sample_depth(r, r->x[i]);
        u64 key = sample_key(depth, r->x[i]);
        if (depth == SAMPLE_DEEPEST || key >> (shift + bits) != prefix ||
            !sample_keeps(r, key, i))
            continue;
        u64 weight = sample_weight(depth);
        int digit = (int)(key >> shift) & ((1 << bits) - 1);
        u32 low = (u32)weight, was = (u32)take_numbers(&l->as.histogram.low[digit], (int)low);
        take_numbers(&l->as.histogram.high[digit], (int)(weight >> 32) + (was + low < low));
        take_numbers(&l->as.histogram.count[digit], 1);
    }
    barrier();
}

DEVICE void sample_histogram(struct sample_lds *l, const struct sample_row *r, int shift,
                             u64 prefix)
{
    sample_histogram_of(l, r, 0, r->vocab, shift, prefix);
}

DEVICE u64 sample_of_class(const struct sample_lds *l, int digit, int by_weight)
{
    u64 weight = (u64)(u32)l->as.histogram.high[digit] << 32 | (u32)l->as.histogram.low[digit];
    return by_weight ? weight : (u64)(u32)l->as.histogram.count[digit];
}

/* Finds the class of the histogram where the sum exceeds TARGET: l->digit (-1: none), l->n_digit,
 * l->before the sum of those before. */
DEVICE void sample_find_class(struct sample_lds *l, int by_weight, u64 target)
{
    int t = thread();
    u64 first = sample_of_class(l, 2 * t, by_weight);
    sample_locate(l, first + sample_of_class(l, 2 * t + 1, by_weight), target);
    int second = l->before + first <= target;
    barrier();
    if (t == l->at) {
        l->digit = 2 * t + second;
        l->n_digit = l->as.histogram.count[2 * t + second];
        if (second) l->before += first;
    }
    if (l->at < 0 && t == 0) l->digit = -1, l->n_digit = 0;
    barrier();
}

/* What a token adds: its weight if it is kept, or one if its key is ONLY (0: weights). */
DEVICE u64 sample_part(const struct sample_row *r, u64 only, int id)
{
    int depth = sample_depth(r, r->x[id]);
    u64 key = sample_key(depth, r->x[id]);
    if (only) return key == only;
    return sample_keeps(r, key, id) ? sample_weight(depth) : 0;
}

/* Tokens of a span of the row. */
DEVICE int sample_span(const struct sample_row *r)
{
    return (r->vocab + r->n_spans - 1) / r->n_spans;
}

/* A thread's part of the sum over its group's span, of 32. */
DEVICE u64 sample_sum_span(const struct sample_row *r, u64 only)
{
    int t = thread(), span = sample_span(r), first = t / SAMPLE_GROUP * span;
    int end = first + span < r->vocab ? first + span : r->vocab;
    u64 sum = 0;
    UNROLL_4 for (int i = first + t % SAMPLE_GROUP; i < end; i += SAMPLE_GROUP)
        sum += sample_part(r, only, i);
    return sum;
}

/* The first token in order of ids at which the sum of parts exceeds TARGET; SUM is
 * sample_sum_span's. */
DEVICE int sample_find(struct sample_lds *l, const struct sample_row *r, u64 only, u64 sum,
                       u64 target)
{
    int t = thread(), span = sample_span(r);
    sample_locate(l, sum, target);
    u64 left = target - l->before_group;
    int each = (span + SAMPLE_THREADS - 1) / SAMPLE_THREADS, first = l->at_group * span, end;
    end = first + span < r->vocab ? first + span : r->vocab;
    first += t * each;
    if (first + each < end) end = first + each;
    sum = 0;
    for (int i = first; i < end; i++) sum += sample_part(r, only, i);
    sample_locate(l, sum, left);
    if (t == l->at) {
        u64 before = l->before + sample_part(r, only, first);
        while (before <= left) before += sample_part(r, only, ++first);
        l->n = first;
    }
    barrier();
    return l->n;
}

/* Draws a kept token by 53 random bits; SUM is a thread's part of its group's span. */
DEVICE int sample_draw_token(struct sample_lds *l, const struct sample_row *r, u64 bits, u64 sum)
{
    sample_locate(l, sum, ~0ull >> 1);
    return sample_find(l, r, 0, sum, multiply_high_64(bits << 11, l->total));
}

/* Ranks the n members: the cut is where the sum of weights or ones exceeds LEFT. */
DEVICE void sample_rank(struct sample_lds *l, struct sample_row *r, int n, int by_weight, u64 left)
{
    int t = thread();
    if (t < n) {
        const struct sample_member m = l->as.member[t];
        u64 before = 0;
        for (int i = 0; i < n; i++) {
            const struct sample_member *o = &l->as.member[i];
            if (o->key < m.key || (o->key == m.key && o->id < m.id))
                before += by_weight ? o->weight : 1;
        }
        if (before <= left && before + (by_weight ? m.weight : 1) > left) {
            l->cut_key = m.key;
            l->cut_id = m.id;
        }
    }
    barrier();
    r->cut_key = l->cut_key;
    r->cut_id = l->cut_id;
    barrier();
}

/* Makes the kept tokens of the class members; returns their number. */
DEVICE int sample_gather(struct sample_lds *l, const struct sample_row *r, int shift, u64 prefix)
{
    int t = thread();
    if (t == 0) l->n = 0;
    barrier();
    UNROLL_4 for (int i = t; i < r->vocab; i += SAMPLE_THREADS)
    {
        int depth = sample_depth(r, r->x[i]);
        u64 key = sample_key(depth, r->x[i]);
        if (depth == SAMPLE_DEEPEST || key >> shift != prefix || !sample_keeps(r, key, i)) continue;
        l->as.member[take_numbers(&l->n, 1)] =
            (struct sample_member){key, sample_weight(depth), i};
    }
    barrier();
    return l->n;
}

/* Cuts what is kept where the sum of weights or of ones exceeds TARGET, in the class that is found
 * of the first digit. */
DEVICE void sample_cut(struct sample_lds *l, struct sample_row *r, int by_weight, u64 target)
{
    int shift = 52;
    u64 prefix = (u32)l->digit;
    target -= l->before;
    while (l->n_digit > SAMPLE_ROOM && shift) {
        shift -= shift > 30 ? 11 : 10;
        sample_histogram(l, r, shift, prefix);
        sample_find_class(l, by_weight, target);
        prefix = prefix << sample_digit_width(shift) | (u32)l->digit;
        target -= l->before;
    }
    if (l->n_digit <= SAMPLE_ROOM) {
        sample_rank(l, r, sample_gather(l, r, shift, prefix), by_weight, target);
    } else { /* equal logits, equal weights */
        u64 weight = by_weight ? sample_weight((int)(prefix >> 32)) : 1;
        r->cut_id = sample_find(l, r, prefix, sample_sum_span(r, prefix), target / weight);
        r->cut_key = prefix;
    }
    barrier();
}

/* As sampler_mass of sampler.c. */
DEVICE u64 sample_mass(double share, u64 total)
{
    double mass = share * (double)total;
    u64 whole = mass >= 1 ? (u64)mass : 1;
    return whole < total ? whole : total;
}

/* The largest of the threads' values, for all. */
DEVICE u64 sample_largest(struct sample_lds *l, u64 value)
{
    int t = thread();
    barrier();
    l->sum[t] = value;
    for (int w = SAMPLE_THREADS / 2; w; w /= 2) {
        barrier();
        if (t < w && l->sum[t + w] > l->sum[t]) l->sum[t] = l->sum[t + w];
    }
    barrier();
    return l->sum[0];
}

/* Whether the row's logits change before the draw. */
DEVICE int sample_changes_row(const struct sample_args *a, const struct sample_draw *d)
{
    return a->best[d->row] >= 0 && (d->n_changes || (a->masks && d->mask));
}

/* Tokens that the mask leaves out weigh nothing. */
DEVICE void sample_mask(const struct sample_args *a, const struct sample_draw *d, float *x)
{
    const u32 *mask = a->masks + (u64)(d->mask - 1) * (u64)((a->vocab + 31) / 32);
    UNROLL_4 for (int i = thread(); i < a->vocab; i += SAMPLE_THREADS)
    {
        if (!(mask[i / 32] >> i % 32 & 1)) x[i] = -__builtin_inff();
    }
    barrier();
}

/* Applies the mask, biases and penalties (sampler_penalized of sampler.c) to the row; a->best
 * becomes its argmax, or -1 where the largest is not finite. */
DEVICE void sample_change(struct sample_lds *l, const struct sample_args *a,
                          const struct sample_draw *d)
{
    float *x = a->logits + (u64)d->row * (u64)a->vocab;
    int t = thread();
    u64 best = 0;
    if (a->masks && d->mask) sample_mask(a, d, x);
    for (int i = t; i < d->n_changes; i += SAMPLE_THREADS) {
        struct sample_change_of *c = &a->change[d->first_change + i];
        float y = x[c->id] + c->add;
        c->was = x[c->id];
        u32 times = c->seen & 0x7fffffffu;
        if (c->seen) y = y > 0 ? y / d->repetition : y * d->repetition;
        if (times) y -= d->frequency * (float)(int)times + d->presence;
        x[c->id] = y;
    }
    barrier();
    for (int i = t; i < a->vocab; i += SAMPLE_THREADS) {
        u64 key = (u64)ordered_bits(x[i]) << 32 | (u32)~i;
        if (key > best) best = key;
    }
    int id = (int)~(u32)sample_largest(l, best);
    if (t == 0) a->best[d->row] = x[id] - x[id] == 0 ? id : -1;
    barrier();
}

/* A thread's part of the number of tokens in classes up to a digit. */
DEVICE u64 sample_count_up_to(const struct sample_lds *l, int digit)
{
    int i = 2 * thread();
    return (i <= digit ? (u64)(u32)l->as.histogram.count[i] : 0) +
           (i + 1 <= digit ? (u64)(u32)l->as.histogram.count[i + 1] : 0);
}

/* The row of a draw; 0: there is nothing to draw. */
DEVICE int sample_row_of(const struct sample_args *a, const struct sample_draw *d,
                         struct sample_row *r)
{
    int best = a->best[d->row];
    r->x = a->logits + (u64)d->row * (u64)a->vocab;
    r->vocab = a->vocab;
    r->n_spans = SAMPLE_SPANS;
    r->scale = d->scale;
    r->most = d->most;
    r->cut_key = ~0ull;
    r->cut_id = a->vocab;
    if (best < 0) return 0;
    r->max = r->x[best];
    return d->scale > 0;
}

enum { CUTS_NUMBER = 1, CUTS_SHARE = 2, SAMPLE_NOT_LISTED = -2 };

DEVICE int sample_cuts(const struct sample_args *a, const struct sample_draw *d)
{
    return (d->top_k > 0 && d->top_k < a->vocab ? CUTS_NUMBER : 0) |
           (d->top_p < 1 ? CUTS_SHARE : 0);
}

/* From the histogram of the first digit: the class that top-k cuts, or that top-p cuts of `total`.
 */
DEVICE u64 sample_first_class(struct sample_lds *l, const struct sample_draw *d, int by_weight)
{
    u64 target = (u64)d->top_k - 1;
    if (by_weight) {
        sample_find_class(l, 1, ~0ull >> 1);
        target = sample_mass(d->top_p, l->total) - 1;
    }
    sample_find_class(l, by_weight, target);
    return target;
}

/* Of a whole row by one block. */
DEVICE void sample_cut_row(struct sample_lds *l, struct sample_row *r, const struct sample_draw *d,
                           int cuts)
{
    NO_UNROLL for (int by_weight = 0; by_weight < 2; by_weight++) {
        if (!(cuts & 1 << by_weight)) continue;
        sample_histogram(l, r, 52, 0);
        u64 target = sample_first_class(l, d, by_weight);
        if (l->digit >= 0) sample_cut(l, r, by_weight, target);
    }
}

/* Cuts the n members, which are all that may be kept; TOTAL: what all tokens of the row weigh. */
DEVICE void sample_cut_listed(struct sample_lds *l, struct sample_row *r,
                              const struct sample_draw *d, int n, int cuts, u64 total)
{
    int t = thread();
    if (cuts & CUTS_NUMBER) {
        sample_rank(l, r, n, 0, (u64)(d->top_k < n ? d->top_k : n) - 1);
        int keeps = t < n && sample_keeps(r, l->as.member[t].key, l->as.member[t].id);
        sample_locate(l, keeps ? l->as.member[t].weight : 0, ~0ull >> 1);
        total = l->total;
    }
    if (cuts & CUTS_SHARE) sample_rank(l, r, n, 1, sample_mass(d->top_p, total) - 1);
}

/* A thread's part of its group's span: what is kept of the members, and what the span's block has
 * summed, where members are not all that may be kept. */
DEVICE u64 sample_sum_listed(const struct sample_lds *l, const struct sample_row *r,
                             const struct sample_slot *slot, int n, int is_whole)
{
    int t = thread(), span = sample_span(r), group = t / SAMPLE_GROUP;
    int is_first = t % SAMPLE_GROUP == 0 && group < r->n_spans && !is_whole;
    u64 sum = is_first ? slot->span_sum[group] : 0;
    for (int i = t % SAMPLE_GROUP; i < n; i += SAMPLE_GROUP) {
        const struct sample_member *m = &l->as.member[i];
        if (m->id / span == group && sample_keeps(r, m->key, m->id)) sum += m->weight;
    }
    return sum;
}

/* Draws from what the spans' blocks have left. */
DEVICE int sample_finish(struct sample_lds *l, struct sample_row *r, const struct sample_draw *d,
                         struct sample_slot *slot, int n_spans, int cuts)
{
    int t = thread(), n = cuts ? slot->n_listed : 0, is_whole = cuts && slot->is_whole;
    r->n_spans = n_spans;
    if ((u32)t < (u32)n) l->as.member[t] = slot->listed[t];
    barrier();
    if (is_whole) {
        sample_cut_listed(l, r, d, n, cuts, slot->total);
    } else if (cuts) {
        u64 target = cuts == CUTS_SHARE ? sample_mass(d->top_p, slot->total) - 1
                                        : (u64)d->top_k - 1;
        sample_rank(l, r, n, cuts == CUTS_SHARE, target - slot->before);
    }
    return sample_draw_token(l, r, d->bits, sample_sum_listed(l, r, slot, n, is_whole));
}

/* The logit of the token that was chosen, as it was before the changes, becomes its score's. */
DEVICE void sample_note(const struct sample_args *a, const struct sample_draw *d)
{
    barrier();
    int id = a->best[d->row], t = thread();
    if (id < 0) return;
    float *logit = &a->score[d->score - 1].logit;
    if (t == 0) *logit = a->logits[(u64)d->row * (u64)a->vocab + (u64)id];
    barrier();
    for (int i = t; i < d->n_changes; i += SAMPLE_THREADS) {
        const struct sample_change_of *c = &a->change[d->first_change + i];
        if (c->id == id) *logit = c->was;
    }
}

KERNEL(sample_rows, struct sample_args)
{
    LDS(struct sample_lds, l, 1);
    const struct sample_args *a = ARGS;
    const struct sample_draw *d = &a->draw[block_x()];
    struct sample_slot *slot = a->slot ? &a->slot[block_x()] : 0;
    struct sample_row r;
    int t = thread(), cuts = sample_cuts(a, d);
    if (!slot && sample_changes_row(a, d)) sample_change(l, a, d);
    if (sample_row_of(a, d, &r)) {
        int best, is_left = slot && (!cuts || slot->digit != SAMPLE_NOT_LISTED);
        if (is_left) {
            best = sample_finish(l, &r, d, slot, a->n_spans, cuts);
        } else {
            sample_cut_row(l, &r, d, cuts);
            best = sample_draw_token(l, &r, d->bits, sample_sum_span(&r, 0));
        }
        barrier();
        if (t == 0) a->best[d->row] = best;
    }
    if (a->score && d->score) sample_note(a, d);
    if (!slot) return;
    for (int i = t; i < SAMPLE_CLASSES; i += SAMPLE_THREADS) slot->weight[i] = slot->count[i] = 0;
    if (t == 0) slot->n_listed = 0;
}

/* Changes of few rows, ahead of the spans. */
KERNEL(sample_changes, struct sample_args)
{
    LDS(struct sample_lds, l, 1);
    const struct sample_args *a = ARGS;
    const struct sample_draw *d = &a->draw[block_x()];
    if (sample_changes_row(a, d)) sample_change(l, a, d);
}

/* Of a span: the sum of weights, or its part of the histogram of the first digit. */
KERNEL(sample_spans, struct sample_args)
{
    LDS(struct sample_lds, l, 1);
    const struct sample_args *a = ARGS;
    const struct sample_draw *d = &a->draw[block_y()];
    struct sample_slot *slot = &a->slot[block_y()];
    struct sample_row r;
    if (!sample_row_of(a, d, &r)) return;
    r.n_spans = a->n_spans;
    int t = thread(), first = block_x() * sample_span(&r), end = first + sample_span(&r);
    if (end > a->vocab) end = a->vocab;
    if (!sample_cuts(a, d)) {
        u64 sum = 0;
        UNROLL_4 for (int i = first + t; i < end; i += SAMPLE_THREADS)
            sum += sample_part(&r, 0, i);
        sample_locate(l, sum, ~0ull >> 1);
        if (t == 0) slot->span_sum[block_x()] = l->total;
        return;
    }
    sample_histogram_of(l, &r, first, end, 52, 0);
    for (int i = t; i < SAMPLE_CLASSES; i += SAMPLE_THREADS)
        if (l->as.histogram.count[i]) {
            add_of_all(&slot->weight[i], sample_of_class(l, i, 1));
            take_of_all(&slot->count[i], l->as.histogram.count[i]);
        }
}

/* Of a span: its tokens in the class that is cut, or up to it, and the sum of those before. */
KERNEL(sample_listed, struct sample_args)
{
    LDS(struct sample_lds, l, 1);
    const struct sample_args *a = ARGS;
    const struct sample_draw *d = &a->draw[block_y()];
    struct sample_slot *slot = &a->slot[block_y()];
    struct sample_row r;
    int t = thread(), cuts = sample_cuts(a, d);
    if (!sample_row_of(a, d, &r) || !cuts) return;
    r.n_spans = a->n_spans;
    int first = block_x() * sample_span(&r), end = first + sample_span(&r);
    if (end > a->vocab) end = a->vocab;
    for (int i = t; i < SAMPLE_CLASSES; i += SAMPLE_THREADS) {
        l->as.histogram.low[i] = (int)(u32)slot->weight[i];
        l->as.histogram.high[i] = (int)(slot->weight[i] >> 32);
        l->as.histogram.count[i] = slot->count[i];
    }
    barrier();
    sample_first_class(l, d, !(cuts & CUTS_NUMBER));
    int digit = l->digit < 0 ? SAMPLE_CLASSES - 1 : l->digit, n_digit = l->n_digit;
    u64 before = l->before, total = l->total;
    sample_locate(l, sample_count_up_to(l, digit), ~0ull >> 1);
    int is_whole = l->total <= SAMPLE_ROOM;
    int lists = is_whole || (n_digit <= SAMPLE_ROOM && l->digit >= 0 && cuts != 3);
    if (t == 0 && block_x() == 0) {
        slot->digit = lists ? digit : SAMPLE_NOT_LISTED;
        slot->is_whole = is_whole;
        slot->before = before;
        slot->total = total;
    }
    if (!lists) return;
    u64 sum = 0;
    UNROLL_4 for (int i = first + t; i < end; i += SAMPLE_THREADS)
    {
        int depth = sample_depth(&r, r.x[i]), of = depth >> 20;
        if (depth == SAMPLE_DEEPEST || of > digit) continue;
        u64 weight = sample_weight(depth);
        if (of == digit || is_whole)
            slot->listed[take_of_all(&slot->n_listed, 1)] =
                (struct sample_member){sample_key(depth, r.x[i]), weight, i};
        else sum += weight;
    }
    sample_locate(l, sum, ~0ull >> 1);
    if (t == 0) slot->span_sum[block_x()] = l->total;
}
