#include "core/sched/sched_internal.h"
#include "core/sample/logits.h"

#include <math.h>
#include <string.h>

/* The place of ID in the order of logits [n], from 1 on; of equal ones the lower id comes first. */
static int rank_of(const float *logits, int n, int32_t id)
{
    float x = logits[id];
    int rank = 1;
    for (int i = 0; i < n; i++) rank += logits[i] > x || (logits[i] == x && i < id);
    return rank;
}

/* Fills in the log-probability of ID and those of its alternatives: the N_TOP most probable tokens,
 * or those that the request names for a generated token. */
static void describe(struct sched_row *row, const float *logits, int best, int vocab, int32_t id,
                     int n_top)
{
    const struct request *r = row->seq->job->request;
    int32_t ids[REQUEST_MAX_TOP];
    const int32_t *shown = ids;
    row->token = (struct token_info){.id = id, .logprob = NAN, .top = row->top};
    if (n_top < 0 || best < 0) return;
    double max = logits[best], log_sum = logits_log(logits_sum_exp(logits, vocab, max, 1));
    row->token.logprob = logits[id] - max - log_sum;
    if (r->ranks && !row->generates) row->token.rank = rank_of(logits, vocab, id);
    if (r->named && row->generates) {
        shown = r->named;
        row->token.n_top = r->n_named;
    } else {
        row->token.n_top = n_top < vocab ? n_top : vocab;
        logits_top(logits, vocab, row->token.n_top, ids);
    }
    for (int i = 0, at; i < row->token.n_top; i++) {
        float x = logits[shown[i]];
        for (at = i; at && shown != ids && x > logits[row->top[at - 1].id]; at--)
            row->top[at] = row->top[at - 1];
        row->top[at] = (struct token_top){shown[i], x - max - log_sum};
    }
}

/* The same of what the device has found. */
static void describe_scored(struct sched_row *row, const struct logits_score *score, int best,
                            int32_t id)
{
    const struct request *r = row->seq->job->request;
    row->token = (struct token_info){.id = id, .logprob = NAN, .top = row->top};
    if (best < 0) return;
    double max = score->max, log_sum = logits_log(score->sum);
    row->token.logprob = score->logit - max - log_sum;
    if (r->ranks && !row->generates) row->token.rank = score->rank;
    row->token.n_top = score->n_top;
    for (int i = 0; i < score->n_top; i++)
        row->top[i] = (struct token_top){score->top[i].id, score->top[i].value - max - log_sum};
}

/* Describes token ID of the row, of whose alternatives N_TOP are asked for. */
static void describe_row(struct sched *s, struct sched_row *row, int at, int32_t id, int n_top)
{
    int vocab = s->forward->model->config.vocab, best = s->forward->best[at];
    if (row->score_at >= 0) describe_scored(row, &s->forward->score[row->score_at], best, id);
    else describe(row, s->forward->logits + (size_t)at * (size_t)vocab, best, vocab, id, n_top);
}

static int choose(struct sched *s, const struct sched_row *row, const float *logits, int best,
                  int thread, int32_t *id, struct err *e)
{
    const struct seq *q = row->seq;
    const struct request *r = q->job->request;
    int n_generated = row_n_generated(row), of_model = best;
    const struct model_config *g = &s->forward->model->config;
    struct sampler *sampler = &s->sampler[thread];
    struct sampler_context c = seq_context(s, q, n_generated);
    c.mu = &row->seq->mu;
    if (row->sampled) {
        *id = best;
        return sampler_check(best, e);
    }
    if (row->top_at >= 0) {
        const struct logits_entry *top = s->forward->top + (size_t)row->top_at * OP_TOP_ROOM;
        return sampler_choose_top(sampler, &c, top, forward_n_top(s->forward, row->top_at), best,
                                  id, e);
    }
    if (row->picked >= 0) {
        *id = row->picked;
        return 0;
    }
    /* Log-probabilities stay those of the model. */
    int adjusts = sampler_adjusts(&r->sampling, n_generated);
    if (q->cursor && sampler_check(best, e)) return -1;
    if (q->cursor && !adjusts && !sampler_chains(&r->sampling)) {
        if (!mask_allows(row->mask, best)) best = logits_argmax_in(logits, g->vocab, row->mask);
        c.mask = row->mask;
    } else if (q->cursor) {
        float *masked = s->adjusted + (size_t)thread * (size_t)g->vocab;
        logits_mask(logits, g->vocab, row->mask, masked);
        if (adjusts) sampler_adjust(sampler, &c, masked);
        if (adjusts || !mask_allows(row->mask, best)) best = logits_argmax(masked, g->vocab);
        logits = masked;
    } else if (adjusts) {
        float *adjusted = s->adjusted + (size_t)thread * (size_t)g->vocab;
        memcpy(adjusted, logits, (size_t)g->vocab * sizeof *adjusted);
        sampler_adjust(sampler, &c, adjusted);
        logits = adjusted;
        best = logits_argmax(logits, g->vocab);
    }
    if (best < 0 && of_model >= 0 && sampler_forbids(&r->sampling))
        return err_set(e, "no token may come: what is allowed and what is bad leave none");
    return sampler_choose(sampler, &c, logits, best, id, e);
}

struct settle_arg {
    struct sched *s;
    struct flight *f;
};

static void row_task(void *arg, int at, int thread)
{
    const struct settle_arg *j = arg;
    struct sched *s = j->s;
    struct sched_row *row = &j->f->row[at];
    if (row->seq->state == SEQ_DONE) return;
    const struct request *r = row->seq->job->request;
    int vocab = s->forward->model->config.vocab, best = s->forward->best[at];
    const float *logits = s->forward->logits + (size_t)at * (size_t)vocab;
    int32_t id;
    row->failed.msg[0] = 0;
    if (row->generates && row_n_generated(row) < row->seq->n_known) { /* was forced */
        id = row->seq->generated[row_n_generated(row)];
        describe_row(s, row, at, id, r->n_top);
        if (request_shows_all(r) && best < 0) (void)sampler_check(best, &row->failed);
    } else if (row->generates && row->seq->wrong.msg[0]) {
        row->failed = row->seq->wrong;
    } else if (row->generates) {
        if (!choose(s, row, logits, best, thread, &id, &row->failed))
            describe_row(s, row, at, id, r->n_top);
    } else if (row->scores) {
        if (best < 0) (void)sampler_check(best, &row->failed);
        else describe_row(s, row, at, r->prompt[row->pos + 1], r->prompt_top);
    }
}

static int is_one_of(const int32_t *ids, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

int sched_is_end(const struct sched *s, const struct request *r, int32_t id)
{
    const struct sampler_params *p = &r->sampling;
    const struct model_config *g = &s->forward->model->config;
    return (!p->ignore_eos && is_one_of(g->eos, g->n_eos, id)) ||
           is_one_of(p->stop_ids, p->n_stop_ids, id);
}

static int ends(const struct sched *s, const struct sched_row *row)
{
    const struct seq *q = row->seq;
    if (row->failed.msg[0]) return 1;
    if (!q->cursor) return sched_is_end(s, q->job->request, row->token.id);
    return q->closed && q->why == FINISH_STOP && row_n_generated(row) + 1 == q->n_known;
}

/* 1 if the row's token is chosen greedily under a mask without all logits. */
static int picks(const struct sched_row *row)
{
    const struct seq *q = row->seq;
    if (!row->generates || !q->cursor || row->wants_all || q->state == SEQ_DONE) return 0;
    return row_n_generated(row) >= q->n_known && !q->wrong.msg[0];
}

/* Fetches all logits of rows for which the backend's `top` had more entries than room, or which a
 * mask leaves undecided. */
static int fetch(struct sched *s, struct flight *f, struct err *e)
{
    for (int i = 0; i < f->n_logits; i++) {
        struct sched_row *row = &f->row[i];
        f->wanted[i] = row->top_at >= 0 && !forward_has_top(s->forward, row->top_at);
        if (f->wanted[i]) row->top_at = -1;
        row->picked = -1;
        if (!picks(row)) continue;
        if (row->later) {
            f->wanted[i] = !row->sampled;
            continue;
        }
        row->picked = sched_pick(s, row, s->forward->best[i]);
        f->wanted[i] = row->picked < 0;
        row->top_at = -1;
    }
    return forward_fetch(s->forward, f->wanted, f->n_logits, e);
}

int sched_settle(struct sched *s, struct flight *f, struct err *e)
{
    struct settle_arg j = {s, f};
    if (f->n_wanted && fetch(s, f, e)) return -1;
    if (f->n_wanted > 1) pool_run(s->pool, f->n_logits, row_task, &j);
    else
        for (int i = 0; i < f->n_logits; i++) row_task(&j, i, 0);
    for (int i = 0; i < f->n_logits; i++) {
        struct sched_row *row = &f->row[i];
        if (row->seq->state == SEQ_DONE || !row->generates) continue;
        if (!seq_accept(s, row->seq, row)) {
            row->generates = 0;
            continue;
        }
        if (row->seq->cursor && !row->failed.msg[0] && row_n_generated(row) == row->seq->n_known)
            seq_know(s, row->seq, row->token.id);
        row->seq->generated[row_n_generated(row)] = row->failed.msg[0] ? 0 : row->token.id;
        row->ends = ends(s, row);
        if (row->ends) seq_leave(s, row->seq, SEQ_ENDING);
    }
    return 0;
}
