/* batches.h: the rows of one step from spans of sequences: for the bench and for checkop, which
 * measure and test the operations on the same batches that a run makes. Must not know: what is
 * computed on them. */
#ifndef BENCH_BATCHES_H
#define BENCH_BATCHES_H

#include "core/step/batch.h"
#include "core/base/err.h"

#include <stddef.h>

struct span {
    int seq, pos0, rows; /* rows consecutive positions of a sequence */
};

/* Which pages the sequences have. */
struct page_map {
    int n_pages, stride;
    int32_t *table; /* [n_seqs][stride] */
};

/* int32_t that the arrays of a batch of so many rows, sequences, logits and pages a sequence take.
 */
size_t batch_ints(int rows, int seqs, int logits, int stride);
/* Points the arrays of *b into memory [batch_ints(the same)]. */
void batch_place(struct batch *b, int32_t *memory, int rows, int seqs, int logits, int stride);
/* Rows of n spans, one for each sequence of the batch; the first n_decode rows are decode rows.
 * The states of sequence i are in slot i, its seat is i.
 * Tokens and logit rows are left alone, n_logits and n_top become 0. */
void batch_set(struct batch *b, const struct page_map *m, const struct span *span, int n,
               int n_decode);

#endif
