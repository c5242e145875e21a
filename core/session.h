/* session.h: one sequence on an opened forward: prompt in chunks, then token by token.
 * Owns: its batch arrays, its page table, how many positions are computed. Must not know: sampling, text. */
#ifndef CORE_SESSION_H
#define CORE_SESSION_H

#include "core/forward.h"

struct session {
    struct forward *forward;
    const volatile int *stop; /* may be NULL; when it becomes nonzero a prompt ends between two steps */
    int n_ctx;                /* positions that fit */
    int n_computed;           /* positions whose keys and values are stored */
    struct batch batch;
    float *logits; /* [max_logits][vocab] of the last step */
};

/* Takes the first ceil(n_ctx/KV_PAGE) pages of the forward. */
int session_open(struct session *s, struct forward *f, int n_ctx, struct err *e);
void session_close(struct session *s);
/* Receives the logits [n][vocab] of n consecutive positions from pos on. Returns 0, or -1 with *e set. */
typedef int logits_fn(void *arg, const float *logits, int n, int pos, struct err *e);
/* Computes n prompt tokens after those already there (n_computed + n <= n_ctx, ids inside the vocabulary). With each
 * NULL only the last token's logits are computed and left in s->logits; otherwise each receives all rows, in order.
 * Returns 0, -1 on failure, or 1 when *stop asked for an end and some tokens are not computed. */
int session_prompt(struct session *s, const int32_t *token, int n, logits_fn *each, void *arg, struct err *e);
/* Computes one generated token; its logits are in s->logits. */
int session_decode(struct session *s, int32_t token, struct err *e);

#endif
