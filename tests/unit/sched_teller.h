/* sched_teller.h: a drafter that knows the answers of an earlier run, for tests of drafts. */
#ifndef TESTS_SCHED_TELLER_H
#define TESTS_SCHED_TELLER_H

#include "tests/unit/sched_runs.h"

/* The answers that are to come, of which the teller proposes the next tokens: right ones, but for
 * one of WRONG. */
enum { TELLER_RECORDS = 16 };
struct teller {
    struct record *all; /* [n] */
    int32_t token[TELLER_RECORDS][MAX_CHOICES][N_CTX];
    int n, n_token[TELLER_RECORDS][MAX_CHOICES], wrong, n_asked;
};

/* The tokens in a log of sched_records.h. */
static int tokens_of(const struct record *r, int choice, int32_t *token)
{
    const char *p = r->log[choice], *end = p + r->n_log[choice] - sizeof(enum finish);
    int n = 0, n_top;
    while (p < end) {
        memcpy(&token[n++], p, sizeof *token);
        memcpy(&n_top, p + sizeof *token + sizeof(double), sizeof n_top);
        p += sizeof *token + sizeof(double) + sizeof n_top +
             (size_t)n_top * (sizeof *token + sizeof(double));
    }
    return n;
}

static void learn(struct teller *t, struct record *all, int n)
{
    t->all = all;
    t->n = n;
    for (int i = 0; i < t->n; i++)
        for (int c = 0; c < all[i].request.n_choices; c++)
            t->n_token[i][c] = all[i].n_log[c] ? tokens_of(&all[i], c, t->token[i][c]) : 0;
}

static int tell(void *self, const struct draft_ask *a, int32_t *token, int most, int *matched)
{
    struct teller *t = self;
    *matched = 1 + t->n_asked % 20;
    for (int i = 0; i < t->n; i++)
        for (int c = 0; a->prompt == t->all[i].prompt && c < MAX_CHOICES; c++) {
            int n = 0;
            if (t->n_token[i][c] < a->n_generated ||
                memcmp(t->token[i][c], a->generated, (size_t)a->n_generated * sizeof *token))
                continue;
            for (; n < most; n++) { /* behind the end of an answer, too */
                int at = a->n_generated + n, known = at < t->n_token[i][c];
                token[n] = known ? t->token[i][c][at] : at % VOCAB;
                if (++t->n_asked % t->wrong == 0) token[n] = (token[n] + 1) % VOCAB;
            }
            return n;
        }
    return 0;
}

#endif
