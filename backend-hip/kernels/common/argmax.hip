/* argmax.hip: the index of the largest logit of a row, in two launches: a block of 256 threads for
 * each of up to ARGMAX_SPANS spans of the row, so that one row occupies as many multiprocessors,
 * then a block for each row over its spans. The lower index wins a tie. */

/* A logit that is NaN or infinite is larger than all others and has index -1. */
DEVICE struct largest largest_at(float x, int index)
{
    return x < __builtin_inff() ? (struct largest){x, index}
                                : (struct largest){__builtin_inff(), -1};
}

DEVICE struct largest larger_of(struct largest a, struct largest b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* The largest of all threads' values, in thread 0. scratch[THREADS] */
DEVICE struct largest block_largest(struct largest best, struct largest *scratch)
{
    int t = thread();
    scratch[t] = best;
    for (int w = THREADS / 2; w; w /= 2) {
        barrier();
        if (t < w) scratch[t] = best = larger_of(best, scratch[t + w]);
    }
    return best;
}

KERNEL(argmax_spans, struct argmax_args)
{
    LDS(struct largest, scratch, THREADS);
    const struct argmax_args *a = ARGS;
    const float *x = a->logits + (u64)block_x() * (u64)a->vocab;
    int span = (a->vocab + a->n_spans - 1) / a->n_spans, first = block_y() * span;
    int end = first + span < a->vocab ? first + span : a->vocab;
    struct largest best = {-__builtin_inff(), 0x7fffffff};
    UNROLL_8 for (int i = first + thread(); i < end; i += THREADS)
        best = larger_of(best, largest_at(x[i], i));
    best = block_largest(best, scratch);
    if (thread() == 0) a->spans[block_x() * a->n_spans + block_y()] = best;
}

KERNEL(argmax_rows, struct argmax_args)
{
    LDS(struct largest, scratch, THREADS);
    const struct argmax_args *a = ARGS;
    int t = thread();
    struct largest best = {-__builtin_inff(), -1};
    if (t < a->n_spans) best = a->spans[block_x() * a->n_spans + t];
    best = block_largest(best, scratch);
    if (t == 0) a->id[block_x()] = best.value == -__builtin_inff() ? -1 : best.at;
}
