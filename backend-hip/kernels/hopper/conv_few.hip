/* hopper/conv_few.hip: causal convolutions of a width of 4 on sm_90a, for sequences of few rows
 * (common/conv.hip). Thread (channel, sequence): what is in front of the rows and the weights are
 * loaded before the producer launch has ended, then all rows at once. Bits: those of conv_rows. */

KERNEL(conv_few, struct conv_args)
{
    enum { BEFORE = 3, ALL = BEFORE + CONV_FEW };
    const struct conv_args *a = EARLY_ARGS;
    const struct state_rows *s = &a->state;
    int channel = block_x() * THREADS + thread(), seq = block_y(), start = s->seq_start[seq],
        n = s->seq_start[seq + 1] - start;
    if (channel >= a->channels) return;
    u64 next = (u64)a->channels, first = (u64)start * next + (u64)channel;
    const struct conv_past past = {
        s->from[seq] < 0 ? (const float *)0
                         : (const float *)s->slots + (u64)s->from[seq] * s->slot_floats,
        kept_rows_of(s, seq), start};
    float *after = (float *)s->slots + (u64)s->to[seq] * s->slot_floats + channel, v[ALL];
    f32x4 w = *(const f32x4 *)(a->weight + 4 * channel);
    UNROLL for (int i = 0; i < BEFORE; i++)
        v[i] = conv_input(a, &past, start - BEFORE + i, channel);
    wait_for_producer();
    UNROLL for (int i = 0; i < CONV_FEW; i++)
        v[BEFORE + i] = i < n ? a->x[first + (u64)i * next] : 0;
    UNROLL for (int i = 0; i < CONV_FEW; i++) if (i < n)
    {
        float sum = w[0] * v[i];
        UNROLL for (int t = 1; t < 4; t++) sum = fma32(w[t], v[i + t], sum);
        a->out[first + (u64)i * next] = conv_result(a, sum, channel, 0);
    }
    int sure = n - past.kept.drafts; /* rows that are no drafts */
    UNROLL for (int i = 0; i < ALL; i++)
    {
        int of_state = i - sure, of_kept = i - BEFORE - sure;
        if (of_state >= 0 && of_state < BEFORE) after[(u64)of_state * next] = v[i];
        if (of_kept >= 0 && of_kept < past.kept.drafts)
            past.kept.to[(u64)of_kept * next + (u64)channel] = v[i];
    }
}
