/* draft.h: tokens that a sequence may go on with, before its logits say so. A draft is only
 * compared with the tokens that its rows choose as they would without it, so that no answer depends
 * on the drafter. Must not know: rows, sampling, how many drafts are worth while. */
#ifndef CORE_DRAFT_H
#define CORE_DRAFT_H

#include "core/base/err.h"

#include <stdint.h>

/* A sequence: its number among those that a scheduler holds, and its tokens, of which the last one
 * is the last that was chosen. */
struct draft_ask {
    int seq;
    const int32_t *prompt, *generated; /* [n_prompt], [n_generated] */
    int n_prompt, n_generated;
};

struct drafter {
    /* A new sequence begins under this number. */
    void (*begin)(void *self, int seq);
    /* Up to MOST tokens that may come next; returns how many; *matched: how many tokens before them
     * say so. Allocates nothing. */
    int (*propose)(void *self, const struct draft_ask *ask, int32_t *token, int most, int *matched);
    /* The sequence has ended. */
    void (*end)(void *self, const struct draft_ask *ask);
    void *self;
};

/* Drafts from text: what came behind the longest equal part of the sequence's own tokens, or of the
 * answers of sequences that have ended, of which the last STORED tokens are kept (suffix decoding:
 * Oliaro et al. 2024; prompt lookup: Saxena 2023). For sequences 0 .. n_seqs - 1 of up to N_CTX
 * tokens. */
struct draft_text;
int draft_text_open(struct draft_text **out, int n_seqs, int n_ctx, struct err *e);
/* The host's memory for it. */
uint64_t draft_text_bytes(int n_seqs, int n_ctx);
void draft_text_close(struct draft_text *d);
struct drafter draft_text_drafter(struct draft_text *d);

#endif
