/* batch.h: the rows of one step as flat arrays, which are all that a backend knows of sequences.
 * The scheduler fills them; begin_step passes them to the backend; they are constant up to
 * end_step. */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

#include <stdint.h>

/* Positions per KV page. A page holds one layer's keys and values of these positions for all KV
 * heads. */
enum { KV_PAGE = 16 };

/* Pages of n positions. */
static inline int kv_pages(int n) { return (n + KV_PAGE - 1) / KV_PAGE; }

/* By what OP_SAMPLE chooses the token of a row of logits; what tokens weigh is in
 * core/sample/weights.h. */
struct batch_sample {
    uint64_t bits; /* the draw, 53 random bits */
    double top_p;  /* share of the weights, 1: all */
    float scale;   /* of depths; 0: the largest logit is taken */
    int32_t most;  /* depth that a token has at most */
    int32_t row;   /* of logits */
    int32_t top_k; /* so many tokens, 0: all */
    int32_t first_change, n_changes;
    float repetition, frequency, presence; /* penalties */
    int32_t score; /* 1 + the number of its row's entry in batch.score; 0: it has none */
    int32_t mask;  /* 1 + the number of its mask of batch.masks; 0: it has none */
};

/* A row of logits of which OP_SCORE finds what log-probabilities need. */
struct batch_score {
    int32_t row;
    int32_t id;    /* the token that is scored; -1: the row's own, that of OP_ARGMAX or OP_SAMPLE */
    int32_t n_top; /* most probable tokens beside it, at most OP_SCORE_TOP and the vocabulary */
};

enum { BATCH_CHANGES = 1 << 17 }; /* of all rows of a step, at most */

/* A logit that changes before the choice: `add` is added; if the token was seen, penalties follow
 * (bit 31 of seen: in the prompt, the others: how often it was generated). */
struct batch_change {
    int32_t id;
    uint32_t seen;
    float add; /* -INFINITY: the token cannot come */
    float was; /* the device's: the logit before */
};

struct batch {
    int n_rows;   /* tokens of this step */
    int n_decode; /* rows 0 .. n_decode-1 are decode rows, the others prompt rows. All rows of a
                     sequence in one step have one phase; a sequence has several decode rows when it
                     is computed again after a preemption */
    int n_seqs;
    int n_logits;        /* rows whose logits are computed */
    int n_top;           /* rows of logits that OP_TOP reads, at most n_logits */
    int n_samples;       /* rows of logits whose tokens OP_SAMPLE chooses, at most n_logits */
    int n_changes;       /* of all of them */
    int n_scores;        /* rows of logits that OP_SCORE reads, at most n_logits */
    int n_decode_logits; /* rows of logits 0 .. n_decode_logits-1 are of decode rows */
    int n_hidden; /* rows whose results of the last norm are downloaded; needs a plan that keeps
                     them */
    int table_stride;    /* entries of a row of block_table */
    int32_t *token; /* [n_rows]; -1-i: the result of OP_ARGMAX or OP_SAMPLE of the last step in its
                       row of logits i, which the host may not have yet */
    int32_t *pos;   /* [n_rows] position in its sequence */
    int32_t *seq;   /* [n_rows] sequence of the row, 0 .. n_seqs-1 */
    int32_t *slot;  /* [n_rows] place of its key and value: page * KV_PAGE + pos % KV_PAGE */
    int32_t *seq_start;   /* [n_seqs + 1] first row of each sequence; a sequence's rows are
                             consecutive positions */
    int32_t *kv_len;      /* [n_seqs] positions in the KV cache, with those of this step */
    int32_t *block_table; /* [n_seqs][table_stride] page of positions KV_PAGE*i .. KV_PAGE*i + 15 */
    int32_t *state_from;  /* [n_seqs] slot of the states before the sequence's rows, -1: zeros */
    int32_t *state_to;    /* [n_seqs] slot of the states after them; no other sequence of the step
                             reads or writes it. Both are unused where a plan has no states */
    /* [n_seqs] the last n_drafts rows of a sequence, not all, are drafts: state_to gets the states
     * before them, and the sequence's seat keeps what they would change (struct state). The first
     * n_right rows that the seat kept in the sequence's last step come ahead of its rows of this
     * one. Both NULL: 0; no other value where a backend does not keep them (backend.h) */
    int32_t *n_drafts, *n_right;
    int32_t *seat;        /* [n_seqs] a number of the sequence as long as it runs, below the most that
                             run at once: its place for what is no page's (core/step/kv_open.h) */
    int32_t *logit_row;   /* [n_logits] rows 0 .. n_rows-1 */
    int32_t *top_row;     /* [n_top] rows of logits, 0 .. n_logits-1 */
    struct batch_sample *sample; /* [n_samples] */
    struct batch_score *score;   /* [n_scores], of different rows */
    /* the backend's memory: masks of (vocab + 31) / 32 words, in which bit i % 32 of word i / 32 is
     * set where token i may come; NULL: no row of batch.sample has one */
    const uint32_t *masks;
    int n_later; /* rows of logits whose tokens forward_choose chooses (core/run/forward.h) */
    struct batch_change *change; /* [n_changes] those of a sample have different ids */
    int32_t *hidden_row;  /* [n_hidden] rows 0 .. n_rows-1, ascending */
};

#endif
