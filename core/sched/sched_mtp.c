/* sched_mtp.c: drafts by the model's draft layer (core/model/arch_draft.h). It runs on the rows of
 * a step when their tokens are known, so that its own keys and values are those of all positions,
 * and then on its own drafts, one step for each further token. What it has stored of drafts that
 * were wrong is written over. Owns: its batches, how many steps are worth while. Must not know:
 * rows of the model's steps but the last one's. */
#include "core/base/clock.h"
#include "core/sched/sched_internal.h"
#include "core/step/kv_open.h"

#include <stdlib.h>
#include <string.h>

/* Steps without a draft between tries to learn what one is worth now; steps of a try. */
enum { TRY_EVERY = 256, TRY_STEPS = 4 };

struct sched_mtp {
    int most;          /* tokens of a draft */
    int depth;         /* tokens of drafts that were worth while in the last step; 0: none */
    int n_off;         /* steps since that became 0 */
    struct seq **asks; /* [n_asks] by row of logits of the drafting step */
    int *depth_of;     /* the same: steps that each takes */
    int n_asks;
    struct batch again; /* of a drafting step behind the first: a row for each */
    int32_t *token;     /* [n_batch] of the first */
    int32_t *logit_row; /* [n_slots] */
    double first[SCHED_COSTS], next[SCHED_COSTS]; /* seconds by rows, as sched.cost */
};

static int open_again(struct batch *b, size_t slots, size_t stride)
{
    int32_t *p = calloc(7 * slots + 1 + slots * stride, sizeof *p);
    if (!p) return -1;
    b->table_stride = (int)stride;
    b->token = p;
    b->pos = p += slots;
    b->seq = p += slots;
    b->slot = p += slots;
    b->kv_len = p += slots;
    b->seat = p += slots;
    b->seq_start = p += slots;
    b->block_table = p + slots + 1;
    return 0;
}

int sched_mtp_open(struct sched *s, struct err *e)
{
    struct sched_mtp *m = s->mtp = calloc(1, sizeof *m);
    const size_t slots = (size_t)s->n_slots;
    if (!m) return err_memory(e);
    CHECK(s->forward->options.drafts);
    m->most = s->options.mtp_most < SCHED_MTP ? s->options.mtp_most : SCHED_MTP;
    m->depth = s->needs_tokens = 1;
    s->of_batch = calloc(slots, sizeof *s->of_batch);
    m->asks = calloc(slots, sizeof *m->asks);
    m->depth_of = calloc(slots, sizeof *m->depth_of);
    m->token = calloc((size_t)s->options.n_batch + slots, sizeof *m->token);
    if (!s->of_batch || !m->asks || !m->depth_of || !m->token) return err_memory(e);
    if (open_again(&m->again, slots, (size_t)s->batch.table_stride)) return err_memory(e);
    m->logit_row = m->token + s->options.n_batch;
    return 0;
}

void sched_mtp_close(struct sched *s)
{
    struct sched_mtp *m = s->mtp;
    if (!m) return;
    free(s->of_batch);
    free(m->asks);
    free(m->depth_of);
    free(m->token);
    free(m->again.token);
    free(m);
}

/* ---- how many steps */

/* The number of steps that makes the most tokens in the shortest time, of the sequences that
 * decode. */
static int best_depth(const struct sched *s)
{
    const struct sched_mtp *m = s->mtp;
    const int n = sched_n_decoding(s);
    const double step = sched_seconds(s, n),
                 layer = step / (s->forward->model->config.n_layers + 1);
    double gain = 0, p = 1, cost = sched_cost(m->first, n, 2 * layer), best = n / step;
    int depth = 0;
    for (int d = 1; d <= m->most; d++) {
        gain += p *= s->accepts[SCHED_TEXTS + d - 1];
        if (d > 1) cost += sched_cost(m->next, n, 2 * layer);
        double rate = n * (1 + gain) / (sched_seconds(s, n * (1 + d)) + cost);
        if (rate > best) best = rate, depth = d;
    }
    return depth;
}

static void choose_depth(struct sched *s)
{
    struct sched_mtp *m = s->mtp;
    if (s->options.draft_always) {
        m->depth = m->most;
        return;
    }
    if (!sched_n_decoding(s)) return;
    if (s->options.overlap && !s->patience.awaits) {
        m->depth = 0;
        return;
    }
    int depth = best_depth(s);
    m->n_off = depth ? 0 : m->n_off + 1;
    if (m->n_off % TRY_EVERY >= TRY_EVERY - TRY_STEPS) depth = 1;
    m->depth = depth;
}

/* ---- the first drafting step */

/* Rows of the last step that are still the sequence's. */
static int is_live(const struct sched *s, int i)
{
    const struct seq *q = s->of_batch[i];
    return q->state == SEQ_RUNNING && q->n_computed > s->batch.pos[s->batch.seq_start[i]];
}

/* The sequence goes on long enough for the layer to be worth its rows. */
static int goes_on(const struct sched *s, const struct seq *q)
{
    enum { LEAST = 8 };
    return seq_limit(s, q->job->request) - q->n_generated >= (s->options.draft_always ? 2 : LEAST);
}

/* Drafting steps of a sequence, for which it has pages; a page that is packed when it is full is
 * not filled by a draft. */
static int depth_of(const struct sched *s, const struct seq *q, int is_prompt)
{
    const struct sched_mtp *m = s->mtp;
    int most = seq_limit(s, q->job->request) - q->n_generated - 1,
        room = q->n_pages * KV_PAGE - q->n_computed + 1;
    if (!seq_may_draft(s, q) || q->n_missed * 8 > q->n_computed) return 0;
    if (q->n_computed != seq_n_tokens(q) - 1) return 0; /* tokens that a grammar forced */
    if (most > m->depth) most = m->depth;
    if (most > room) most = room;
    if (is_prompt && most > 1) most = 1;
    if (!kv_has_open(s->forward->options.kv)) return most;
    int n = most > 0;
    while (n < most && (q->n_computed - 1 + n) % KV_PAGE != KV_PAGE - 1) n++;
    return n;
}

/* Rows of logits: of decoding sequences those with the most steps first, then of prompts. */
static void ask_rows(struct sched *s, struct batch *b)
{
    struct sched_mtp *m = s->mtp;
    m->n_asks = b->n_decode_logits = 0;
    for (int depth = m->depth; depth >= 0; depth--) {
        for (int i = 0; i < s->n_of_batch; i++) {
            struct seq *q = s->of_batch[i];
            const int row = b->seq_start[i], is_prompt = row >= b->n_decode;
            if (!is_live(s, i) || is_prompt != !depth) continue;
            const int d = depth_of(s, q, is_prompt);
            if (d < 1 || (!is_prompt && d != depth)) continue;
            m->logit_row[m->n_asks] = row + q->n_computed - 1 - b->pos[row];
            m->depth_of[m->n_asks] = d;
            m->asks[m->n_asks++] = q;
        }
        if (depth) b->n_decode_logits = m->n_asks;
    }
    b->n_logits = m->n_asks;
}

/* The tokens behind the last step's rows. Returns whether a sequence is worth it. */
static int next_tokens(struct sched *s, struct batch *b)
{
    int any = 0;
    for (int i = 0; i < s->n_of_batch; i++) {
        const struct seq *q = s->of_batch[i];
        const int live = is_live(s, i);
        any |= live && goes_on(s, q);
        for (int r = b->seq_start[i]; r < b->seq_start[i + 1]; r++) {
            int at = b->pos[r] + 1;
            int32_t id = live && at < seq_n_tokens(q) ? seq_token(q, at) : 0;
            b->token[r] = id < 0 ? 0 : id;
        }
    }
    return any;
}

static void miss_rows(struct sched *s)
{
    for (int i = 0; i < s->n_of_batch; i++)
        if (is_live(s, i))
            s->of_batch[i]->n_missed += s->batch.seq_start[i + 1] - s->batch.seq_start[i];
}

static void take(struct sched_mtp *m, int n, const int32_t *best)
{
    for (int i = 0; i < n; i++) {
        struct seq *q = m->asks[i];
        if (best[i] >= 0) q->mtp[q->n_mtp++] = best[i];
        else m->depth_of[i] = 0;
    }
}

/* ---- further ones */

/* One row for each sequence that takes a step more; they are the first ones. Returns how many. */
static int next_rows(struct sched_mtp *m, int step)
{
    struct batch *b = &m->again;
    int n = 0;
    for (; n < m->n_asks && m->depth_of[n] > step; n++) {
        const struct seq *q = m->asks[n];
        int pos = q->n_computed - 1 + step;
        b->token[n] = q->mtp[step - 1];
        b->pos[n] = pos;
        b->seq[n] = b->seq_start[n] = n;
        b->slot[n] = q->page[pos / KV_PAGE] * KV_PAGE + pos % KV_PAGE;
        b->kv_len[n] = pos + 1;
        b->seat[n] = q->seat;
        memcpy(b->block_table + (size_t)n * (size_t)b->table_stride, q->page,
               (size_t)q->n_pages * sizeof *q->page);
        m->logit_row[n] = n;
    }
    b->seq_start[n] = n;
    b->logit_row = m->logit_row;
    b->n_rows = b->n_decode = b->n_seqs = b->n_logits = b->n_decode_logits = n;
    return n;
}

static int run(struct sched *s, int again, const struct batch *b, double *cost, struct err *e)
{
    double start = clock_now();
    if (forward_draft(s->forward, again, b, e)) return -1;
    double seconds = clock_now() - start;
    s->stats.forward_seconds += seconds;
    if (b->n_decode == b->n_rows && sched_note_cost(s, cost, b->n_rows, seconds))
        s->patience.is_new = 1;
    take(s->mtp, b->n_logits, s->forward->draft_best);
    return 0;
}

int sched_mtp_draft(struct sched *s, struct err *e)
{
    struct sched_mtp *m = s->mtp;
    struct batch b = s->batch;
    int known = s->forward->n_begun == s->forward->n_ended, rc = 0;
    for (int i = 0; i < s->n_order; i++) s->order[i]->n_mtp = 0;
    if (!s->n_of_batch) return 0;
    choose_depth(s);
    s->needs_tokens = m->depth > 0;
    b.token = m->token;
    b.logit_row = m->logit_row;
    b.n_top = b.n_samples = b.n_changes = b.n_hidden = 0;
    b.n_drafts = b.n_right = NULL;
    if (!known || !m->depth || !next_tokens(s, &b)) {
        miss_rows(s);
    } else {
        ask_rows(s, &b);
        rc = run(s, 0, &b, m->first, e);
        for (int step = 1; !rc && step < m->depth && next_rows(m, step); step++)
            rc = run(s, 1, &m->again, m->next, e);
    }
    s->n_of_batch = 0;
    return rc;
}
