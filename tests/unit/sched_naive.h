/* sched_naive.h: for unit_scheduler.c and unit_sched_grammar.c, one request alone by a plain loop,
 * and its log-probabilities by the textbook. */
#ifndef TESTS_SCHED_NAIVE_H
#define TESTS_SCHED_NAIVE_H

#include "core/run/forward.h"
#include "tests/unit/sched_records.h"

#include <math.h>

static float *naive_logits(struct forward *f, const int32_t *token, int n)
{
    static uint8_t wanted[N_CTX];
    int32_t token_[N_CTX], pos[N_CTX], seq[N_CTX], slot[N_CTX], start[2] = {0, 0}, len, table[16],
                                                                row[N_CTX];
    struct err e;
    struct batch b = {.n_seqs = 1,
                      .table_stride = 16,
                      .token = token_,
                      .pos = pos,
                      .seq = seq,
                      .slot = slot,
                      .seq_start = start,
                      .kv_len = &len,
                      .block_table = table,
                      .logit_row = row};
    for (int i = 0; i < 16; i++) table[i] = i;
    for (int i = 0; i < n; i++) token_[i] = token[i], pos[i] = slot[i] = row[i] = i, seq[i] = 0;
    b.n_rows = b.n_logits = start[1] = len = n;
    memset(wanted, 1, sizeof wanted);
    assert_int_equal(forward_step(f, &b, wanted, &e), 0);
    return f->logits;
}

static double naive_logprob(const float *logits, int32_t id)
{
    long double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += expl((long double)logits[i] - logits[id]);
    return (double)-logl(sum);
}

static void take(const char **at, void *p, size_t n)
{
    memcpy(p, *at, n);
    *at += n;
}

/* Compares one logged token_info with LOGITS: the token, its log-probability and the most probable
 * tokens. */
static int32_t check_info(const char **at, const float *logits, int n_top)
{
    int32_t id, top_id, n;
    double logprob, top, last = INFINITY;
    take(at, &id, sizeof id);
    take(at, &logprob, sizeof logprob);
    take(at, &n, sizeof n);
    assert_int_equal(n, n_top > 0 ? n_top : 0);
    assert_true(n_top < 0 ? isnan(logprob) : fabs(logprob - naive_logprob(logits, id)) < 1e-12);
    for (int i = 0, better; i < n; i++) {
        take(at, &top_id, sizeof top_id);
        take(at, &top, sizeof top);
        assert_true(top <= last && fabs(top - naive_logprob(logits, top_id)) < 1e-12);
        last = top;
        better = 0;
        for (int j = 0; j < VOCAB; j++)
            better += logits[j] > logits[top_id] || (logits[j] == logits[top_id] && j < top_id);
        assert_int_equal(better, i);
    }
    return id;
}

#endif
