/* batch.h: the rows of one step as flat arrays, the only thing a backend learns about sequences.
 * Filled by whoever schedules; uploaded by begin_step; constant during the step. */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

#include <stdint.h>

/* Positions per KV page. A page holds one layer's keys and values of these positions for all KV
 * heads. */
enum { KV_PAGE = 16 };

struct batch {
    int n_rows;   /* tokens computed in this step */
    int n_decode; /* the first n_decode rows are generated tokens, the others prompt tokens; a
                     sequence may have several of either (generated ones when it is computed again
                     after a preemption), never both in one step */
    int n_seqs;
    int n_logits; /* rows whose logits are wanted */
    int n_top; /* those of them of whose logits the backend's `top` is wanted, at most n_logits */
    int n_decode_logits; /* the first n_decode_logits of them are decode rows */
    int table_stride;    /* entries per row of block_table */
    int32_t *token; /* [n_rows]; -1-i: what the step before chose from its i-th row of logits, which
                       the host may not know yet */
    int32_t *pos;   /* [n_rows] position in its sequence */
    int32_t *seq;   /* [n_rows] sequence of the row, 0 .. n_seqs-1 */
    int32_t *slot;  /* [n_rows] where its key and value go: page * KV_PAGE + pos % KV_PAGE */
    int32_t *seq_start;   /* [n_seqs + 1] first row of each sequence; a sequence's rows are
                             consecutive positions */
    int32_t *kv_len;      /* [n_seqs] positions stored once this step's rows are */
    int32_t *block_table; /* [n_seqs][table_stride] page that holds positions KV_PAGE*i .. */
    int32_t *logit_row;   /* [n_logits] */
    int32_t *top_row;     /* [n_top] rows of logits, 0 .. n_logits-1 */
};

#endif
