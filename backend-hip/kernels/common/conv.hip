/* conv.hip: causal convolution of each channel, mostly with SiLU (OP_CONV). Thread (rows, channel). Rows
 * that see positions before the step, the first width - 1 of a sequence, are computed by the thread
 * of the first of them, which then replaces the state; so a state may be read from and written to
 * one slot. Sums ascend. */

/* What is in front of a sequence's rows of the step, of which the first is `start`: the rows of
 * drafts that were right, and the state. */
struct conv_past {
    const float *old; /* [width - 1][channels] or NULL */
    struct kept_rows kept;
    int start;
};

/* x of a channel at a row of the sequence. */
DEVICE float conv_input(const struct conv_args *a, const struct conv_past *p, int row, int channel)
{
    int right = row - p->start + p->kept.right, at = right < 0 ? a->width - 1 + right : right;
    const float *x = right < 0 ? p->old : p->kept.from;
    if (row >= p->start) x = a->x, at = row;
    return x ? x[(u64)at * (u64)a->channels + (u64)channel] : 0;
}

/* What becomes of a sum. */
DEVICE float conv_result(const struct conv_args *a, float sum, int channel, const int exact)
{
    if (a->bias) sum += a->bias[channel];
    if (a->linear) return sum;
    return exact ? exact_silu(sum) : gated(sum, 1, 0);
}

/* The first rows of a sequence, and its new state. */
DEVICE void conv_begin(const struct conv_args *a, int seq, int start, int channel,
                       const int exact)
{
    const struct state_rows *s = &a->state;
    const float *w = a->weight + (u64)channel * (u64)a->width;
    const struct conv_past past = {
        s->from[seq] < 0 ? (const float *)0
                         : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats,
        kept_rows_of(s, seq), start};
    float *after = (float *)s->slots + (u64)s->to[seq] * s->slot_floats;
    int end = s->seq_start[seq + 1], before = a->width - 1, drafts = past.kept.drafts;
    for (int row = start; row < end && row < start + before; row++) {
        float sum = 0;
        UNROLL_4 for (int t = 0; t < a->width; t++)
        {
            float v = conv_input(a, &past, row - before + t, channel);
            sum = t ? fma32(w[t], v, sum) : w[t] * v;
        }
        a->out[(u64)row * (u64)a->channels + (u64)channel] = conv_result(a, sum, channel, exact);
    }
    /* ascending: an element of the same slot is read before it is replaced */
    for (int i = 0; i < before; i++)
        after[(u64)i * (u64)a->channels + (u64)channel] =
            conv_input(a, &past, end - drafts - before + i, channel);
    NO_UNROLL for (int i = 0; i < drafts; i++)
        past.kept.to[(u64)i * (u64)a->channels + (u64)channel] =
            a->x[(u64)(end - drafts + i) * (u64)a->channels + (u64)channel];
}

/* width: a->width as a constant, or 0 */
DEVICE void conv_row(const struct conv_args *a, int row, int channel, const int width,
                     const int exact)
{
    const float *w = a->weight + (u64)channel * (u64)a->width;
    const float *x = a->x + (u64)(row - a->width + 1) * (u64)a->channels + (u64)channel;
    float sum = w[0] * x[0];
    UNROLL for (int t = 1; t < (width ? width : a->width); t++)
        sum = fma32(w[t], x[(u64)t * (u64)a->channels], sum);
    a->out[(u64)row * (u64)a->channels + (u64)channel] = conv_result(a, sum, channel, exact);
}

/* CONV_ROWS rows for a width of 4, with all loads in flight at once. */
DEVICE void conv_four(const struct conv_args *a, int first, int channel, const int exact)
{
    const float *w = a->weight + (u64)channel * 4;
    u64 offset = (u64)first * (u64)a->channels + (u64)channel, next = (u64)a->channels;
    float x[CONV_ROWS + 3];
    UNROLL for (int i = 0; i < CONV_ROWS + 3; i++) x[i] = a->x[offset + (u64)i * next - 3 * next];
    float w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
    UNROLL for (int i = 0; i < CONV_ROWS; i++)
    {
        float sum = fma32(w3, x[i + 3], fma32(w2, x[i + 2], fma32(w1, x[i + 1], w0 * x[i])));
        a->out[offset + (u64)i * next] = conv_result(a, sum, channel, exact);
    }
}

/* Whether a thread's rows are CONV_ROWS of one sequence, none of which reads its state. */
DEVICE int conv_is_inside(const struct conv_args *a, int first)
{
    if (a->width != 4 || a->of_thread != CONV_ROWS || first + CONV_ROWS > a->rows) return 0;
    int seq = a->state.seq[first];
    return a->state.seq[first + CONV_ROWS - 1] == seq && first - a->state.seq_start[seq] >= 3;
}

/* exact: SiLU in the CPU's order */
DEVICE void conv_thread(const struct conv_args *a, const int exact)
{
    int channel = block_x() * THREADS + thread(), first = block_y() * a->of_thread;
    if (channel >= a->channels) return;
    if (conv_is_inside(a, first)) {
        conv_four(a, first, channel, exact);
        return;
    }
    NO_UNROLL for (int row = first; row < first + a->of_thread && row < a->rows; row++)
    {
        int seq = a->state.seq[row], start = a->state.seq_start[seq];
        if (row == start) conv_begin(a, seq, start, channel, exact);
        if (row - start < a->width - 1) continue;
        if (a->width == 4) conv_row(a, row, channel, 4, exact);
        else conv_row(a, row, channel, 0, exact);
    }
}

KERNEL(conv_rows, struct conv_args) { conv_thread(ARGS, 0); }
KERNEL(exact_conv, struct conv_args) { conv_thread(ARGS, 1); }
