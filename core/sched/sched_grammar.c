#include "core/sched/sched_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int queued_open(struct queued *q, struct request *r, struct err *e)
{
    *q = (struct queued){.request = r};
    if (!r->grammar || r->max_tokens <= 0) return 0;
    q->cursor = calloc((size_t)r->n_choices, sizeof *q->cursor);
    if (!q->cursor) return err_memory(e);
    for (; q->n_cursors < r->n_choices; q->n_cursors++)
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

static void allow(struct seq *q, int32_t id) { q->mask[id / 32] |= 1u << id % 32; }

int seq_allows(const struct seq *q, int32_t id) { return q->mask[id / 32] >> id % 32 & 1; }

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

/* Makes the mask of the next token; 1: it is forced, *id. */
static int look(struct sched *s, struct seq *q, int32_t *id)
{
    const struct model_config *g = &s->forward->model->config;
    int n_allowed;
    if (grammar_mask(q->cursor, q->mask, &n_allowed, id, &q->wrong)) return 0;
    q->masked = q->n_known;
    int may_end = grammar_may_end(q->cursor), takes_eos = !q->job->request->sampling.ignore_eos;
    if (may_end && takes_eos)
        for (int i = 0; i < g->n_eos; i++) allow(q, g->eos[i]);
    else if (!n_allowed)
        err_set(&q->wrong, "no token of the vocabulary continues the answer%s",
                may_end ? ", and ignore_eos forbids its end" : "");
    return n_allowed == 1 && !may_end && is_forced(s, q, *id);
}

void seq_look_ahead(struct sched *s, struct seq *q)
{
    int32_t id;
    while (!q->closed && !q->wrong.msg[0] && q->masked != q->n_known && look(s, q, &id))
        seq_know(s, q, id);
}

/* A grammar answers one question at a time, so that a task looks ahead for all of its sequences. */
static void look_task(void *arg, int task, int thread)
{
    struct sched *s = arg;
    (void)thread;
    for (int i = s->look_first[task]; i < s->look_first[task + 1]; i++)
        seq_look_ahead(s, s->looking[i]);
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

void sched_look_ahead(struct sched *s, const struct flight *f)
{
    int n = 0;
    for (int i = 0; i < f->n_seqs; i++) {
        struct seq *q = f->seq[i].seq;
        if (q->cursor && q->state != SEQ_DONE && !q->closed && q->masked != q->n_known)
            s->looking[n++] = q;
    }
    int n_tasks = by_grammar(s, n);
    if (n_tasks > 1) pool_run(s->pool, n_tasks, look_task, s);
    else if (n_tasks) look_task(s, 0, 0);
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
    const struct seq *q = row->seq;
    if (best < 0 || seq_allows(q, best)) return best;
    if (row->top_at < 0 || !forward_has_top(s->forward, row->top_at)) return -1;
    const struct logits_entry *top = s->forward->top + (size_t)row->top_at * OP_TOP_ROOM;
    int n = forward_n_top(s->forward, row->top_at), found = -1, n_before = 0;
    for (int i = 0; i < n; i++)
        if (seq_allows(q, top[i].id) && (found < 0 || top[i].value > top[found].value)) found = i;
    if (found < 0) return -1;
    /* The list has the OP_TOP_KEPT largest logits: among these, what is missing is smaller. */
    for (int i = 0; i < n; i++)
        n_before += top[i].value > top[found].value ||
                    (top[i].value == top[found].value && i < found);
    return n_before < OP_TOP_KEPT ? top[found].id : -1;
}
