/* top.hip: the candidates of sampling: drops every logit of a row that is not among the TOP largest
 * of the row up to it, in order of ids. A scan of the row that keeps at most TOP largest logits has
 * the same result over the candidates as over the row, in every detail.
 *
 * A block of 1024 threads takes a row, in pieces as long as all pieces before together, at most
 * TOP_PIECE. It keeps the TOP largest logits of the pieces before; a hit is a logit above the
 * smallest of these (of randomly ordered logits TOP in every piece that doubles the length). A
 * hit's place among the largest is the number of larger hits and old ones; its place in the list is
 * the number of hits before it. */

enum { TOP_ITEMS = 4, TOP_PIECE = TOP_ITEMS * TOP_THREADS, TOP_FIRST_PIECE = 256 };

struct top_lds {
    float kept[2][TOP]; /* in descending order; one has the old values, one the new */
    struct largest found[TOP_ROOM];
    int n_found[3]; /* of this piece, the next, and the last, which other threads may still read */
};

/* The state after the pieces before. */
struct top_state {
    float bound; /* the smallest of the TOP largest */
    int now, n_found, n_pieces;
};

/* Merges the piece's hits [n] into the TOP largest, and writes them to the list in order. */
DEVICE void top_rank(struct top_lds *l, struct largest *out, struct top_state s, int n)
{
    const float *kept = l->kept[s.now];
    for (int i = thread(); i < TOP + n; i += TOP_THREADS) {
        int place = i, before = s.n_found;
        struct largest x = {0, -1};
        if (i < TOP) x.value = kept[i];
        else {
            x = l->found[s.n_found + i - TOP];
            place = 0; /* after equal old ones */
            UNROLL for (int k = 5; k >= 0; k--)
                place += kept[place + (1 << k) - 1] >= x.value ? 1 << k : 0;
        }
        UNROLL_4 for (int j = s.n_found; j < s.n_found + n; j++)
        {
            struct largest y = l->found[j];
            place += (y.value > x.value) | ((y.value == x.value) & (y.at < x.at));
            before += y.at < x.at;
        }
        if (place < TOP) l->kept[1 - s.now][place] = x.value;
        if (i >= TOP) out[before] = x;
    }
}

/* Processes the items numbered lo .. hi - 1; item[0] is number `index`. */
DEVICE struct top_state top_piece(struct top_lds *l, struct largest *out, const float *item,
                                  int index, int lo, int hi, struct top_state s)
{
    int *count = &l->n_found[s.n_pieces % 3], hits = 0;
    if (thread() == 0) l->n_found[(s.n_pieces + 1) % 3] = 0;
    UNROLL for (int i = 0; i < TOP_ITEMS; i++)
    {
        int number = index + i * TOP_THREADS;
        hits |= ((item[i] > s.bound) & (number >= lo) & (number < hi)) << i;
    }
    if (hits) {
        UNROLL for (int i = 0; i < TOP_ITEMS; i++) if (hits >> i & 1)
        {
            int to = s.n_found + take_numbers(count, 1);
            if (to < TOP_ROOM) l->found[to] = (struct largest){item[i], index + i * TOP_THREADS};
        }
    }
    barrier();
    int n = *count;
    s.n_pieces++;
    if (n && s.n_found + n <= TOP_ROOM) {
        top_rank(l, out, s, n);
        barrier();
        s.now = 1 - s.now;
        s.bound = l->kept[s.now][TOP - 1];
    }
    s.n_found += n;
    return s;
}

DEVICE void top_load(float *item, const float *x, int index, int vocab)
{
    if (index - thread() + TOP_PIECE <= vocab) {
        UNROLL for (int i = 0; i < TOP_ITEMS; i++) item[i] = x[index + i * TOP_THREADS];
    } else {
        UNROLL for (int i = 0; i < TOP_ITEMS; i++)
        {
            float value = x[index + i * TOP_THREADS < vocab ? index + i * TOP_THREADS : vocab - 1];
            item[i] = index + i * TOP_THREADS < vocab ? value : -__builtin_inff();
        }
    }
}

KERNEL(top_rows, struct top_args)
{
    LDS(struct top_lds, l, 1);
    const struct top_args *a = ARGS;
    const float *x = a->logits + (u64)a->row[block_x()] * (u64)a->vocab;
    struct largest *out = a->top + (u64)block_x() * TOP_ROOM;
    struct top_state s = {-__builtin_inff(), 0, 0, 0};
    float item[TOP_ITEMS], next[TOP_ITEMS];
    int t = thread();
    if (t < TOP) l->kept[0][t] = -__builtin_inff();
    if (t == 0) l->n_found[0] = 0;
    top_load(item, x, t, a->vocab);
    top_load(next, x, TOP_PIECE + t, a->vocab);
    barrier();
    for (int lo = 0, hi = TOP_FIRST_PIECE; lo < TOP_PIECE && s.n_found <= TOP_ROOM;
         lo = hi, hi *= 2)
        s = top_piece(l, out, item, t, lo, hi, s);
    for (int first = TOP_PIECE; first < a->vocab && s.n_found <= TOP_ROOM; first += TOP_PIECE) {
        UNROLL for (int i = 0; i < TOP_ITEMS; i++) item[i] = next[i];
        top_load(next, x, first + TOP_PIECE + t, a->vocab);
        s = top_piece(l, out, item, first + t, 0, a->vocab, s);
    }
    if (t == 0 && s.n_found != TOP_ROOM)
        out[s.n_found > TOP_ROOM ? 0 : s.n_found] = (struct largest){0, -1};
}
