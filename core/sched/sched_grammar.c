#include "core/sched/sched_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int queued_open(struct queued *q, struct request *r, struct err *e)
{
    *q = (struct queued){.request = r};
    if (!r->grammar || r->max_tokens <= 0) return 0;
    q->cursor = calloc((size_t)r->n_choices + 1, sizeof *q->cursor);
    if (!q->cursor) return err_memory(e);
    for (; q->n_cursors <= r->n_choices; q->n_cursors++) /* the last one reads drafts */
        if (grammar_cursor_open(&q->cursor[q->n_cursors], r->grammar, e)) {
            queued_close(q);
            return -1;
        }
    return 0;
}

void queued_close(struct queued *q)
{
    for (int i = 0; i < q->n_cursors; i++) grammar_cursor_close(q->cursor[i]);
    free(q->cursor);
    *q = (struct queued){0};
}

static void end_with(struct seq *q, enum finish why)
{
    q->closed = 1;
    q->why = why;
}

/* EOS is no part of a document and is not read. */
static int is_eos(const struct sched *s, int32_t id)
{
    const struct model_config *g = &s->forward->model->config;
    for (int i = 0; i < g->n_eos; i++)
        if (g->eos[i] == id) return 1;
    return 0;
}

void seq_know(struct sched *s, struct seq *q, int32_t id)
{
    const struct request *r = q->job->request;
    q->generated[q->n_known++] = id;
    if (is_eos(s, id) && !r->sampling.ignore_eos) {
        end_with(q, FINISH_STOP);
        return;
    }
    int fits = grammar_accept_token(q->cursor, id, &q->wrong);
    if (!fits) err_set(&q->wrong, "the grammar does not read token %d, which it allowed", id);
    if (sched_is_end(s, r, id) || (fits > 0 && grammar_must_end(q->cursor)))
        end_with(q, FINISH_STOP);
    else if (q->n_known == seq_limit(s, r)) end_with(q, FINISH_LENGTH);
}

/* Whether the only token that may come is chosen whatever its logits are, and leaves nothing behind
 * but itself. Mirostat keeps count of choices; a forbidden token is the sampler's to refuse. */
static int is_forced(const struct sched *s, const struct seq *q, int32_t id)
{
    const struct sampler_params *p = &q->job->request->sampling;
    if (s->options.sample_forced || p->mirostat || sampler_forbids(p)) return 0;
    for (int i = 0; i < p->n_bias; i++)
        if (p->bias[i].id == id && p->bias[i].value == -INFINITY) return 0;
    return q->n_known >= p->min_tokens || !(is_eos(s, id) || sched_is_end(s, q->job->request, id));
}

/* Makes the mask [n_mask] of what the cursor allows next, EOS included. *only: the one token of the
 * grammar's that may come, -1: there are others, or the answer may end. -1: *wrong. */
static int make_mask(const struct sched *s, const struct request *r, struct grammar_cursor *c,
                     uint32_t *mask, int32_t *only, struct err *wrong)
{
    const struct model_config *g = &s->forward->model->config;
    int n_allowed;
    if (grammar_mask(c, mask, &n_allowed, only, wrong)) return -1;
    int may_end = grammar_may_end(c), takes_eos = !r->sampling.ignore_eos;
    if (may_end && takes_eos)
        for (int i = 0; i < g->n_eos; i++) mask[g->eos[i] / 32] |= 1u << g->eos[i] % 32;
    else if (!n_allowed)
        return err_set(wrong, "no token of the vocabulary continues the answer%s",
                       may_end ? ", and ignore_eos forbids its end" : "");
    if (n_allowed != 1 || may_end) *only = -1;
    return 0;
}

/* Makes the mask of the next token; 1: it is forced, *id. */
static int look(struct sched *s, struct seq *q, int32_t *id)
{
    int rc = make_mask(s, q->job->request, q->cursor, q->mask, id, &q->wrong);
    q->masked = q->n_known;
    return !rc && *id >= 0 && is_forced(s, q, *id);
}

void seq_look_ahead(struct sched *s, struct seq *q)
{
    int32_t id;
    while (!q->closed && !q->wrong.msg[0] && q->masked != q->n_known && look(s, q, &id))
        seq_know(s, q, id);
}

/* The tokens of its draft up to the first one that may not come, or that needs no row because the
 * answer ends with it. The rows of the others have their masks then. */
static void cut_draft(struct sched *s, struct seq *q)
{
    const struct request *r = q->job->request;
    const int32_t *draft = q->generated + q->n_generated;
    const uint32_t *mask = q->mask;
    uint32_t *to = s->draft_masks + (size_t)q->draft_mask * (size_t)s->n_mask;
    struct err wrong;
    int n = 0;
    grammar_cursor_copy(q->ahead, q->cursor);
    for (; n < q->n_drafted; n++, mask = to, to += s->n_mask) {
        int32_t only;
        if (!mask_allows(mask, draft[n]) || is_eos(s, draft[n]) || sched_is_end(s, r, draft[n]))
            break;
        if (grammar_accept_token(q->ahead, draft[n], &wrong) <= 0 || grammar_must_end(q->ahead))
            break;
        if (make_mask(s, r, q->ahead, to, &only, &wrong)) break;
    }
    q->n_drafted = n;
}

/* A grammar answers one question at a time, so that a task has all of its sequences. */
struct look {
    struct sched *s;
    void (*ask)(struct sched *s, struct seq *q);
};

static void look_task(void *arg, int task, int thread)
{
    const struct look *l = arg;
    (void)thread;
    for (int i = l->s->look_first[task]; i < l->s->look_first[task + 1]; i++)
        l->ask(l->s, l->s->looking[i]);
}

/* Puts looking [n] in the order of their grammars; returns the number of these. */
static int by_grammar(struct sched *s, int n)
{
    int n_tasks = 0;
    for (int i = 0; i < n; n_tasks++) {
        const struct grammar *g = s->looking[i]->job->request->grammar;
        s->look_first[n_tasks] = i++;
        for (int k = i; k < n; k++) {
            struct seq *q = s->looking[k];
            if (q->job->request->grammar != g) continue;
            s->looking[k] = s->looking[i];
            s->looking[i++] = q;
        }
    }
    s->look_first[n_tasks] = n;
    return n_tasks;
}

/* Asks the grammars of looking [n]. */
static void look_all(struct sched *s, int n, void (*ask)(struct sched *, struct seq *))
{
    struct look l = {s, ask};
    int n_tasks = by_grammar(s, n);
    if (n_tasks > 1) pool_run(s->pool, n_tasks, look_task, &l);
    else if (n_tasks) look_task(&l, 0, 0);
}

void sched_look_ahead(struct sched *s, const struct flight *f)
{
    int n = 0;
    for (int i = 0; i < f->n_seqs; i++) {
        struct seq *q = f->seq[i].seq;
        if (q->cursor && q->state != SEQ_DONE && !q->closed && q->masked != q->n_known)
            s->looking[n++] = q;
    }
    look_all(s, n, seq_look_ahead);
}

/* Adds the choice of token ID, which is known by now, for its log-probability. */
static int add_known(struct sched *s, const struct sched_row *row, int at, int32_t id)
{
    struct batch *b = &s->later;
    uint32_t *mask = s->later_masks + (size_t)b->n_samples * (size_t)s->n_mask;
    if (row->score_at < 0) return 0;
    memset(mask, 0, (size_t)s->n_mask * sizeof *mask);
    mask[id / 32] |= 1u << id % 32;
    b->sample[b->n_samples] =
        (struct batch_sample){.top_p = 1, .row = at, .repetition = 1, .score = row->score_at + 1};
    b->sample[b->n_samples].mask = b->n_samples + 1;
    b->n_samples++;
    return 1;
}

/* Adds the choice of a row whose mask is known to s->later; 0: the device cannot make it. */
static int add_later(struct sched *s, const struct sched_row *row, int at)
{
    struct batch *b = &s->later;
    const struct seq *q = row->seq;
    const int number = row_n_generated(row);
    if (number < q->n_known) return add_known(s, row, at, q->generated[number]);
    if (q->closed || q->wrong.msg[0]) return 0;
    struct sampler_context c = seq_context(s, q, number);
    struct batch_sample *to = &b->sample[b->n_samples];
    if (!sampler_describe(s->sampler, &c, to, b->change + b->n_changes,
                          BATCH_CHANGES - b->n_changes))
        return 0;
    to->row = at;
    to->score = row->score_at + 1;
    to->first_change = b->n_changes;
    b->n_changes += to->n_changes;
    memcpy(s->later_masks + (size_t)b->n_samples * (size_t)s->n_mask, row->mask,
           (size_t)s->n_mask * sizeof *row->mask);
    to->mask = ++b->n_samples;
    return 1;
}

void sched_choose(struct sched *s, struct flight *f)
{
    struct batch *b = &s->later;
    b->n_logits = f->n_logits;
    b->n_samples = b->n_changes = 0;
    for (int i = 0; i < f->n_logits; i++) {
        struct sched_row *row = &f->row[i];
        if (!row->later) continue;
        row->sampled = add_later(s, row, i);
        if (!row->sampled) row->score_at = -1; /* that of another token */
    }
    forward_choose(s->forward, b, s->later_masks, b->n_samples);
}

void sched_cut_drafts(struct sched *s)
{
    int n = 0, n_masks = 0;
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];
        if (!q->cursor || q->n_drafted <= 0) continue;
        if (q->n_drafted > s->n_draft_masks - n_masks) q->n_drafted = s->n_draft_masks - n_masks;
        q->draft_mask = n_masks;
        n_masks += q->n_drafted;
        if (q->n_drafted) s->looking[n++] = q;
    }
    look_all(s, n, cut_draft);
}

void sched_take_forced(struct sched *s)
{
    for (int i = 0; i < s->n_order;) {
        struct seq *q = s->order[i];
        if (!q->cursor || !q->n_generated) {
            i++;
            continue;
        }
        if (q->n_generated < q->n_known) q->n_generated = q->n_known;
        /* Then the results in flight are the last ones. */
        int ends = q->closed && (!request_shows_all(q->job->request) || q->n_rowed == q->n_known);
        if (ends) seq_leave(s, q, SEQ_ENDING);
        else i++;
    }
}

int sched_pick(const struct sched *s, const struct sched_row *row, int best)
{
    if (best < 0 || mask_allows(row->mask, best)) return best;
    if (row->top_at < 0 || !forward_has_top(s->forward, row->top_at)) return -1;
    const struct logits_entry *top = s->forward->top + (size_t)row->top_at * OP_TOP_ROOM;
    int n = forward_n_top(s->forward, row->top_at), found = -1, n_before = 0;
    for (int i = 0; i < n; i++)
        if (mask_allows(row->mask, top[i].id) && (found < 0 || top[i].value > top[found].value))
            found = i;
    if (found < 0) return -1;
    /* The list has the OP_TOP_KEPT largest logits: among these, what is missing is smaller. */
    for (int i = 0; i < n; i++)
        n_before += top[i].value > top[found].value ||
                    (top[i].value == top[found].value && i < found);
    return n_before < OP_TOP_KEPT ? top[found].id : -1;
}
