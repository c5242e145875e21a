#include "core/sched/sched_internal.h"

#include <math.h>

/* Removes a completed or failed request's job from the scheduler. */
static void drop_job(struct sched *s, struct sched_job *j)
{
    for (int i = 0; i < s->n_held; i++)
        if (s->seq[i].state != SEQ_FREE && s->seq[i].state != SEQ_DONE && s->seq[i].job == j)
            seq_leave(s, &s->seq[i], SEQ_DONE);
    j->request = NULL;
    queued_close(&j->queued);
}

static int finish(struct sched *s, struct seq *q, enum finish why, struct err *e)
{
    struct sched_job *j = q->job;
    const struct request *r = j->request;
    sched_drafter_end(s, q);
    seq_leave(s, q, SEQ_DONE);
    if (r->sink->finished(r->arg, q->choice, why, e)) return -1;
    if (++j->n_finished < r->n_choices) return 0;
    j->request = NULL;
    queued_close(&j->queued);
    return r->sink->done(r->arg, NULL, e);
}

static int fail_request(struct sched *s, struct seq *q, const char *msg, struct err *e)
{
    const struct request *r = q->job->request;
    drop_job(s, q->job);
    return r->sink->done(r->arg, msg, e);
}

static int is_over(const struct seq *q) { return q->state == SEQ_DONE || q->state == SEQ_FREE; }

/* ENDS: the token ends the choice, whatever its sink says. */
static int emit_token(struct sched *s, struct seq *q, const struct token_info *t, int ends,
                      struct err *e)
{
    const struct request *r = q->job->request;
    s->stats.n_generated_tokens++;
    q->n_emitted++;
    int end = r->sink->token(r->arg, q->choice, t, e);
    if (end < 0) return -1;
    if (end || ends) return finish(s, q, FINISH_STOP, e);
    if (q->n_emitted == seq_limit(s, r)) return finish(s, q, FINISH_LENGTH, e);
    return 0;
}

/* Emits tokens that are known and need no rows. */
static int emit_known(struct sched *s, struct seq *q, struct err *e)
{
    while (!is_over(q) && !request_shows_all(q->job->request) && q->n_emitted < q->n_known) {
        const struct token_info t = {.id = q->generated[q->n_emitted], .logprob = NAN};
        int last = q->closed && q->n_emitted + 1 == q->n_known;
        if (emit_token(s, q, &t, last && q->why == FINISH_STOP, e)) return -1;
    }
    return 0;
}

/* Emits the token that a row chose, and those that are known behind it. */
static int emit_row(struct sched *s, const struct sched_row *row, const float *logits,
                    struct err *e)
{
    struct seq *q = row->seq;
    const struct request *r = q->job->request;
    if (row->failed.msg[0]) return fail_request(s, q, row->failed.msg, e);
    if (row_n_generated(row) == q->n_emitted) {
        if (r->sink->token_logits && r->sink->token_logits(r->arg, q->choice, logits, e)) return -1;
        if (emit_token(s, q, &row->token, row->ends, e)) return -1;
    }
    return emit_known(s, q, e);
}

/* Emits the results of a prompt row. */
static int emit_prompt_row(struct sched *s, const struct sched_row *row, const float *logits,
                           struct err *e)
{
    const struct request *r = row->seq->job->request;
    if (row->shows && r->sink->prompt_logits(r->arg, row->pos, logits, e)) return -1;
    if (!row->scores) return 0;
    if (row->failed.msg[0]) return fail_request(s, row->seq, row->failed.msg, e);
    return r->sink->prompt_token(r->arg, row->pos + 1, &row->token, e);
}

/* Finishes a request that only evaluates its prompt. */
static int finish_prompt_only(struct sched *s, struct sched_job *j, struct err *e)
{
    const struct request *r = j->request;
    drop_job(s, j);
    for (int c = 0; c < r->n_choices; c++)
        if (r->sink->finished(r->arg, c, FINISH_LENGTH, e)) return -1;
    return r->sink->done(r->arg, NULL, e);
}

static int emit_seq(struct sched *s, const struct flight *f, const struct flight_seq *p,
                    struct err *e)
{
    struct seq *q = p->seq;
    q->n_flights--;
    for (int i = p->first_hidden; i < p->first_hidden + p->n_hidden && !is_over(q); i++) {
        const struct request *r = q->job->request;
        const float *hidden = s->forward->hidden +
                              (size_t)f->hidden[i].row * (size_t)s->forward->model->config.dim;
        if (r->sink->prompt_hidden(r->arg, f->hidden[i].pos, hidden, e)) return -1;
    }
    for (int at = p->first_logit; at < p->first_logit + p->n_logits && !is_over(q); at++) {
        const struct sched_row *row = &f->row[at];
        const float *logits = s->forward->logits +
                              (size_t)at * (size_t)s->forward->model->config.vocab;
        CHECK(row->seq == q);
        if ((row->scores || row->shows) && emit_prompt_row(s, row, logits, e)) return -1;
        if (row->generates && !is_over(q) && emit_row(s, row, logits, e)) return -1;
    }
    /* found after a preemption, while rows were computed again that choose nothing */
    if (!is_over(q) && q->n_emitted && emit_known(s, q, e)) return -1;
    if (q->state == SEQ_DONE && !q->n_flights) q->state = SEQ_FREE;
    return q->state == SEQ_ENDING && !q->n_flights && !q->job->request->max_tokens
               ? finish_prompt_only(s, q->job, e)
               : 0;
}

int sched_emit(struct sched *s, struct flight *f, struct err *e)
{
    for (int i = 0; i < f->n_seqs; i++)
        if (emit_seq(s, f, &f->seq[i], e)) return -1;
    return 0;
}
