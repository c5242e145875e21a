#include "bench/drafts.h"

#include <stdlib.h>

/* A sequence: its next position, and right rows of its last draft. */
struct drafted {
    int pos, right;
};

int draft_run_positions(int depth, int n_gen) { return depth + (1 + BENCH_DRAFTS) * (n_gen + 1); }

/* The step: of each sequence a row, and those of its draft. numbers [2][n_seqs] */
static void set_step(struct setup *r, const struct draft_run *d, const struct drafted *s,
                     int32_t *numbers)
{
    const int rows = 1 + d->drafts, vocab = r->forward.model->config.vocab;
    const struct page_map map = setup_place(r, d->n_seqs);
    struct batch *b = &r->batch;
    for (int i = 0; i < d->n_seqs; i++) {
        r->spans[i] = (struct span){i, s[i].pos, rows};
        numbers[i] = d->drafts;
        numbers[d->n_seqs + i] = s[i].right;
    }
    batch_set(b, &map, r->spans, d->n_seqs, d->n_seqs * rows);
    b->n_logits = b->n_decode_logits = b->n_rows;
    for (int i = 0; i < b->n_rows; i++) {
        b->token[i] = (5 + 7 * b->pos[i]) % vocab;
        b->logit_row[i] = i;
    }
    if (!r->forward.plan.n_states) return;
    b->n_drafts = numbers;
    b->n_right = numbers + d->n_seqs;
}

/* The drafting steps: on all rows of the step, of which those of the last right tokens have logits,
 * then on a row of each sequence. */
static int draft(struct setup *r, const struct draft_run *d, const struct drafted *s, struct err *e)
{
    struct batch *b = &r->batch;
    b->n_drafts = b->n_right = NULL;
    b->n_logits = b->n_decode_logits = d->n_seqs;
    for (int i = 0; i < d->n_seqs; i++) b->logit_row[i] = i * (1 + d->drafts) + s[i].right;
    for (int step = 0; step < d->drafts; step++) {
        if (forward_draft(&r->forward, step > 0, b, e)) return -1;
        if (step + 1 == d->drafts) break;
        const struct page_map map = setup_place(r, d->n_seqs);
        for (int i = 0; i < d->n_seqs; i++)
            r->spans[i] = (struct span){i, s[i].pos + s[i].right + step + 1, 1};
        batch_set(b, &map, r->spans, d->n_seqs, d->n_seqs);
        b->n_logits = b->n_decode_logits = d->n_seqs;
        for (int i = 0; i < d->n_seqs; i++) b->logit_row[i] = i, b->token[i] = 5 + step;
    }
    return 0;
}

static int is_right(double accept, uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223; /* Numerical Recipes' generator */
    return (*seed >> 8) * 0x1p-24 < accept;
}

int draft_run_steps(struct setup *r, const struct draft_run *d, struct err *e)
{
    const long all = (long)d->n_gen * d->n_seqs;
    long n = 0;
    uint32_t seed = 1;
    int rc = 0;
    struct drafted *s = calloc((size_t)d->n_seqs, sizeof *s);
    int32_t *numbers = calloc(2 * (size_t)d->n_seqs, sizeof *numbers);
    if (!s || !numbers) rc = err_memory(e);
    for (int i = 0; !rc && i < d->n_seqs; i++) s[i].pos = d->depth;
    while (!rc && n < all) {
        set_step(r, d, s, numbers);
        rc = forward_step(&r->forward, &r->batch, NULL, e);
        for (int i = 0; !rc && i < d->n_seqs; i++) {
            s[i].right = 0;
            while (s[i].right < d->drafts && is_right(d->accept, &seed)) s[i].right++;
        }
        if (!rc) rc = draft(r, d, s, e);
        for (int i = 0; i < d->n_seqs; i++) {
            s[i].pos += 1 + s[i].right;
            n += 1 + s[i].right;
        }
    }
    free(s);
    free(numbers);
    return rc;
}
