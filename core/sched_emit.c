#include "core/sched_int.h"

/* Takes a job whose request said its last word out of the scheduler. */
static void drop_job(struct sched *s, struct job *j)
{
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->job == j && s->order[i]->state != SEQ_DONE) {
            seq_release_pages(s, s->order[i]);
            s->order[i]->state = SEQ_DONE;
        }
    j->request = NULL;
}

static int finish(struct sched *s, struct seq *q, enum finish why, struct err *e)
{
    struct job *j = q->job;
    const struct request *r = j->request;
    seq_release_pages(s, q);
    q->state = SEQ_DONE;
    if (r->sink->finished(r->arg, q->choice, why, e)) return -1;
    if (++j->n_finished < r->n_choices) return 0;
    j->request = NULL;
    return r->sink->done(r->arg, NULL, e);
}

static int fail_request(struct sched *s, struct seq *q, const char *msg, struct err *e)
{
    const struct request *r = q->job->request;
    drop_job(s, q->job);
    return r->sink->done(r->arg, msg, e);
}

static int is_one_of(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

static int emit_token(struct sched *s, struct seq *q, const struct sched_row *row, struct err *e)
{
    const struct request *r = q->job->request;
    const struct sampler_params *p = &r->sampling;
    const struct model_config *g = &s->forward->model->config;
    int32_t id = row->token.id;
    if (row->failed.msg[0]) return fail_request(s, q, row->failed.msg, e);
    q->generated[q->n_generated++] = id;
    s->stats.n_generated_tokens++;
    int end = r->sink->token(r->arg, q->choice, &row->token, e);
    if (end < 0) return -1;
    if (end || (!p->ignore_eos && is_one_of(g->eos, g->n_eos, id)) || is_one_of(p->stop_ids, p->n_stop_ids, id))
        return finish(s, q, FINISH_STOP, e);
    if (q->n_generated == r->max_tokens || seq_n_tokens(q) == s->options.n_ctx) return finish(s, q, FINISH_LENGTH, e);
    return 0;
}

/* What the prompt's row hands out. */
static int emit_prompt_row(struct sched *s, struct seq *q, const struct sched_row *row, const float *logits, struct err *e)
{
    const struct request *r = q->job->request;
    int scores = seq_scores(q, row->pos);
    q->job->next_row = row->pos + 1;
    if (r->sink->prompt_logits && r->sink->prompt_logits(r->arg, row->pos, logits, e)) return -1;
    if (!scores) return 0;
    if (row->failed.msg[0]) return fail_request(s, q, row->failed.msg, e);
    return r->sink->prompt_token(r->arg, row->pos + 1, &row->token, e);
}

/* Without tokens to generate a request ends with its prompt. */
static int finish_prompt_only(struct sched *s, struct job *j, struct err *e)
{
    const struct request *r = j->request;
    drop_job(s, j);
    for (int c = 0; c < r->n_choices; c++)
        if (r->sink->finished(r->arg, c, FINISH_LENGTH, e)) return -1;
    return r->sink->done(r->arg, NULL, e);
}

static int emit_seq(struct sched *s, struct seq *q, struct err *e)
{
    struct job *j = q->job;
    const struct request *r = j->request;
    int first = q->n_computed, end = first + q->n_rows, n_tokens = seq_n_tokens(q), at = q->first_logit;
    q->n_computed = end;
    if (end >= r->n_prompt) j->prompt_done = 1;
    if (first < r->n_prompt) s->stats.n_prompt_tokens += (uint64_t)q->n_rows;
    for (int pos = first; pos < end && q->state == SEQ_RUNNING; pos++) {
        if (!seq_wants(q, pos)) continue;
        const struct sched_row *row = &s->row[at];
        const float *logits = s->forward->logits + (size_t)at++ * (size_t)s->forward->model->config.vocab;
        CHECK(row->seq == q && row->pos == pos);
        if (pos < r->n_prompt && pos >= j->next_row && emit_prompt_row(s, q, row, logits, e)) return -1;
        if (q->state == SEQ_RUNNING && pos == n_tokens - 1 && r->max_tokens > 0 && emit_token(s, q, row, e)) return -1;
    }
    return q->state != SEQ_RUNNING || end < r->n_prompt || r->max_tokens ? 0 : finish_prompt_only(s, j, e);
}

int sched_emit(struct sched *s, struct err *e)
{
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->state == SEQ_RUNNING && s->order[i]->n_rows && emit_seq(s, s->order[i], e)) return -1;
    return 0;
}
