/* kept.hip: rows of drafts in operations with states (core/step/batch.h). A state is stored as it is
 * ahead of them; their inputs are kept for the sequence, as they come, and those of the right ones
 * are rows in front of the next step's. What is read and what is written are different rows of
 * `kept`, so blocks need not wait for each other. */

struct kept_rows {
    int drafts, right; /* rows at the end of the sequence's; ahead of them */
    const float *from; /* [MAX_DRAFTS] of the right ones */
    float *to;         /* [MAX_DRAFTS] */
};

DEVICE struct kept_rows kept_rows_of(const struct state_rows *s, int seq)
{
    if (!s->kept_of) return (struct kept_rows){0, 0, (const float *)0, (float *)0};
    const int *k = s->kept_of + seq * KEPT_INTS;
    return (struct kept_rows){k[KEPT_DRAFTS], k[KEPT_RIGHT],
                              s->kept + (u64)k[KEPT_READ] * s->kept_floats,
                              s->kept + (u64)k[KEPT_WRITTEN] * s->kept_floats};
}

/* Where a row's inputs are: row `row` of what these arguments say. */
struct delta_source {
    struct delta_args a;
    int row;
};

/* Of row `row`, of a sequence whose rows of the step begin at `start`; a right row of the last
 * step's drafts is a row before it. Kept are [MAX_DRAFTS] rows of q, k and v, then those of a, then
 * those of b. */
DEVICE struct delta_source delta_source_of(const struct delta_args *a, const struct kept_rows *k,
                                           int start, int row)
{
    struct delta_source s = {*a, row};
    if (row >= start) return s;
    int keys = a->key_heads * a->key_dim, qkv = 2 * keys + a->value_heads * a->value_dim;
    s.row = row - start + k->right;
    s.a.qk_stride = s.a.v_stride = qkv;
    s.a.q = k->from;
    s.a.k = k->from + keys;
    s.a.v = k->from + 2 * keys;
    s.a.a = k->from + MAX_DRAFTS * qkv;
    s.a.b = s.a.a + MAX_DRAFTS * a->of_a;
    return s;
}

/* Copies n floats: thread `t` of `threads`. */
DEVICE void keep_floats(float *to, const float *from, int n, int t, int threads)
{
    NO_UNROLL for (int i = t; i < n; i += threads) to[i] = from[i];
}

/* Keeps the rows of drafts, the last ones before `end`: thread `t` of `threads`. */
DEVICE void delta_keep(const struct delta_args *a, const struct kept_rows *k, int end, int t,
                       int threads)
{
    int keys = a->key_heads * a->key_dim, values = a->value_heads * a->value_dim,
        qkv = 2 * keys + values, of_a = a->of_a, of_b = a->b ? a->value_heads : 0;
    float *gates = k->to + MAX_DRAFTS * qkv;
    NO_UNROLL for (int i = 0; i < k->drafts; i++)
    {
        u64 row = (u64)(end - k->drafts + i);
        float *to = k->to + i * qkv;
        keep_floats(to, a->q + row * (u64)a->qk_stride, keys, t, threads);
        keep_floats(to + keys, a->k + row * (u64)a->qk_stride, keys, t, threads);
        keep_floats(to + 2 * keys, a->v + row * (u64)a->v_stride, values, t, threads);
        keep_floats(gates + i * of_a, a->a + row * (u64)of_a, of_a, t, threads);
        keep_floats(gates + MAX_DRAFTS * of_a + i * of_b, a->b + row * (u64)of_b, of_b, t, threads);
    }
}
