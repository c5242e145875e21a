#include "core/sched/sched_internal.h"

#include <string.h>

/* 1 if this row chooses the next token, or has the logits of one that was forced. */
static int generates(const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    int n_generated = row + 1 - r->n_prompt;
    if (r->max_tokens <= 0 || n_generated < 0) return 0;
    if (n_generated == q->n_generated) return !q->closed || q->n_known > n_generated;
    if (n_generated > q->n_generated) return n_generated <= q->n_generated + q->n_drafted;
    return request_shows_all(r) && n_generated >= q->n_rowed;
}

/* 1 if this row gives the log-probability of the prompt's next token, and no earlier step has. */
static int scores(const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    return row >= q->job->next_row && r->prompt_top >= 0 && row + 1 >= r->score_from &&
           row + 1 < r->n_prompt;
}

/* 1 if this row's logits go to the sink, and no earlier step's have. */
static int shows(const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    return r->sink->prompt_logits && row >= q->job->next_row && row >= r->show_from &&
           row < r->n_prompt;
}

/* 1 if this row's result of the last norm goes to the sink, and no earlier step's has. */
static int shows_hidden(const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    return row >= q->job->next_row && row >= r->hidden_from && row < r->hidden_end;
}

/* The logits that a row needs: only the argmax, the backend's `top`, or all of them. */
enum { WANTS_NOTHING, WANTS_BEST, WANTS_TOP, WANTS_LOGITS };

/* The largest top_k for which the backend's `top` suffices; 0 without it. */
static int max_top_k(const struct sched *s)
{
    int vocab = s->forward->model->config.vocab;
    return !s->forward->top ? 0 : vocab > OP_TOP_KEPT ? OP_TOP_KEPT : vocab - 1;
}

/* A row of a sequence with a grammar that chooses. Sampling draws from all logits that the mask
 * leaves; a greedy choice finds its token among the largest, or sched_settle fetches all. */
static int wants_masked(const struct sched *s, const struct seq *q, int n_generated)
{
    const struct request *r = q->job->request;
    if (q->n_known > q->n_generated) return WANTS_BEST;
    if (sampler_wants(&r->sampling, n_generated, 0) != SAMPLER_WANTS_BEST) return WANTS_LOGITS;
    return s->forward->top ? WANTS_TOP : WANTS_BEST;
}

static int wants(const struct sched *s, const struct seq *q, int row)
{
    static const int what[] = {[SAMPLER_WANTS_BEST] = WANTS_BEST,
                               [SAMPLER_WANTS_TOP] = WANTS_TOP,
                               [SAMPLER_WANTS_LOGITS] = WANTS_LOGITS};
    const struct request *r = q->job->request;
    if (scores(q, row) || shows(q, row)) return WANTS_LOGITS;
    if (!generates(q, row)) return WANTS_NOTHING;
    if (request_shows_all(r)) return WANTS_LOGITS;
    return r->grammar ? wants_masked(s, q, row + 1 - r->n_prompt)
                      : what[sampler_wants(&r->sampling, row + 1 - r->n_prompt, max_top_k(s))];
}

/* Whether a log-probability of the row's logits is asked for. */
static int is_scored(const struct seq *q, int row)
{
    return scores(q, row) || (generates(q, row) && q->job->request->n_top >= 0);
}

/* Whether the host needs all logits of a row with results, however its token is chosen. */
static int shows_logits(const struct sched *s, const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    if (shows(q, row) || (is_scored(q, row) && !s->batch.score)) return 1;
    return generates(q, row) && (r->sink->token_logits || r->named);
}

/* 1 if the device chooses the row's token, whose description goes to the batch: not the argmax
 * alone. Masks need all logits on the host. */
static int samples(struct sched *s, const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    struct batch *b = &s->batch;
    if (!b->sample || q->cursor || !generates(q, row) || shows_logits(s, q, row)) return 0;
    if (sampler_wants(&r->sampling, row + 1 - r->n_prompt, 0) == SAMPLER_WANTS_BEST) return 0;
    struct sampler_context c = seq_context(s, q, row + 1 - r->n_prompt);
    struct batch_sample *to = &b->sample[b->n_samples];
    if (!sampler_describe(s->sampler, &c, to, b->change + b->n_changes,
                          BATCH_CHANGES - b->n_changes))
        return 0;
    to->row = b->n_logits;
    to->first_change = b->n_changes;
    b->n_changes += to->n_changes;
    b->n_samples++;
    return 1;
}

/* 1 if the device may choose the row's token under a mask, which is not known yet. A greedy choice
 * without a log-probability is found among the largest logits. */
static int is_for_later(const struct sched *s, const struct seq *q, int row)
{
    const struct request *r = q->job->request;
    int n_generated = row + 1 - r->n_prompt;
    if (!q->cursor || !s->later.sample || !generates(q, row) || shows_logits(s, q, row)) return 0;
    if (n_generated < q->n_known || n_generated > q->n_generated) return 0;
    if (r->n_top < 0 && sampler_wants(&r->sampling, n_generated, 0) == SAMPLER_WANTS_BEST) return 0;
    return sampler_is_for_device(&r->sampling);
}

/* Adds the row to those that the device finds log-probabilities of; -1: it does not, else the
 * number of its entry. The device may choose the row's token, with the others or later. */
static int add_score(struct sched *s, const struct sched_row *to, const struct seq *q, int row)
{
    struct batch *b = &s->batch;
    const struct request *r = q->job->request;
    int n_generated = row + 1 - r->n_prompt, scored = scores(q, row), id = -1,
        n_top = scored ? r->prompt_top : r->n_top, vocab = s->forward->model->config.vocab;
    if (!is_scored(q, row) || shows_logits(s, q, row)) return -1;
    if (scored) id = r->prompt[row + 1];
    else if (q->cursor && n_generated < q->n_known) id = q->generated[n_generated];
    else if (q->cursor && !to->later) return -1;
    else if (!to->sampled && !to->later &&
             sampler_wants(&r->sampling, n_generated, 0) != SAMPLER_WANTS_BEST)
        return -1;
    b->score[b->n_scores] = (struct batch_score){b->n_logits, id, least(n_top, vocab)};
    if (to->sampled) b->sample[b->n_samples - 1].score = b->n_scores + 1;
    return b->n_scores++;
}

/* The first row from FROM on whose results are needed; at the latest the last token's. */
static int first_row_with_results(const struct sched *s, const struct seq *q, int from)
{
    int last = seq_n_tokens(q) - 1, row = from;
    const struct request *r = q->job->request;
    if (!r->sink->prompt_logits && r->prompt_top < 0 && !r->hidden_end) return last;
    while (row < last && !wants(s, q, row) && !shows_hidden(q, row)) row++;
    return row;
}

/* A prefix that a sequence can continue: its positions, the serial of its last page, the slot of
 * its snapshot (-1: the sequence's own states). */
struct prefix {
    int n;
    uint64_t chain;
    int slot;
};

/* Gives back the cached pages that no snapshot follows. The sequence computes their positions
 * again and leaves a snapshot behind them. */
static void keep_prefix(struct sched *s, struct seq *q, const struct prefix *best)
{
    if (q->n_computed - best->n >= SNAPSHOT_FROM) q->leave_at = q->n_computed;
    for (; q->n_computed > best->n; q->n_computed -= KV_PAGE, q->n_shared--)
        kv_release(&s->kv, q->page[--q->n_pages]);
    q->chain = best->chain;
    if (best->slot < 0) return;
    states_hold(&s->states, best->slot);
    seq_continue_from(s, q, best->slot);
}

int seq_takes_pages(const struct seq *q)
{
    return q->n_computed < q->job->request->n_prompt && q->n_computed % KV_PAGE == 0 &&
           q->n_computed == q->n_shared * KV_PAGE;
}

int seq_shares_up_to(const struct sched *s, const struct seq *q)
{
    int limit = first_row_with_results(s, q, q->n_computed), end = q->job->request->n_prompt;
    return limit < end ? limit : end;
}

void seq_find_pages(struct sched *s, struct seq *q)
{
    const struct request *r = q->job->request;
    if (!seq_takes_pages(q)) return;
    int limit = seq_shares_up_to(s, q), start = q->n_computed;
    struct prefix best = {q->n_computed, q->chain, -1};
    while (q->n_computed + KV_PAGE <= limit) {
        int32_t page = kv_find(&s->kv, q->chain, r->prompt + q->n_computed);
        if (page < 0) break;
        CHECK(q->n_pages == q->n_shared);
        q->page[q->n_pages++] = page;
        q->n_shared++;
        q->chain = s->kv.page[page].serial;
        q->n_computed += KV_PAGE;
        int slot = s->states.n_slots ? states_find(&s->states, q->chain) : -1;
        if (slot >= 0) best = (struct prefix){q->n_computed, q->chain, slot};
    }
    if (s->states.n_slots) keep_prefix(s, q, &best);
    s->stats.n_cached_tokens += (uint64_t)(q->n_computed - start);
}

/* The tokens of a full page, perhaps in `text` [KV_PAGE]. */
static const int32_t *page_tokens(const struct seq *q, int page, int32_t *text)
{
    const struct request *r = q->job->request;
    int from = page * KV_PAGE;
    if (from + KV_PAGE <= r->n_prompt) return r->prompt + from;
    for (int i = 0; i < KV_PAGE; i++) text[i] = seq_token(q, from + i);
    return text;
}

/* Other sequences may use the pages that a step completes in the same step, because every layer
 * stores the keys and values of all rows before it attends; of a model with states they lack a
 * snapshot until the step has begun. */
void seq_publish(struct sched *s, struct seq *q, int end)
{
    const struct request *r = q->job->request;
    int32_t text[KV_PAGE];
    if (end > r->n_prompt && !s->options.share_generated) end = r->n_prompt;
    for (; (q->n_shared + 1) * KV_PAGE <= end; q->n_shared++) {
        const int32_t *token = page_tokens(q, q->n_shared, text);
        q->chain = kv_publish(&s->kv, q->page[q->n_shared], q->chain, token);
        if (s->store) seq_store_page(s, q, q->n_shared, token);
    }
}

/* The last page first, so that the end of a prefix is reused before its beginning. */
void seq_release(struct sched *s, struct seq *q)
{
    seq_drop_snapshot(s, q);
    if (q->own >= 0) states_release(&s->states, q->own);
    q->own = -1;
    if (q->seat >= 0) s->free_seat[s->n_seats++] = q->seat;
    q->seat = -1;
    while (q->n_pages) kv_release(&s->kv, q->page[--q->n_pages]);
    q->n_computed = q->n_shared = q->kept_at = 0;
    q->n_right = q->n_missed = q->n_guess = 0;
    q->chain = q->job->root;
}

void seq_leave(struct sched *s, struct seq *q, enum seq_state state)
{
    if (q->state == SEQ_RUNNING || q->state == SEQ_PREEMPTED) {
        int index = 0;
        while (s->order[index] != q) index++;
        memmove(&s->order[index], &s->order[index + 1],
                (size_t)(--s->n_order - index) * sizeof *s->order);
        seq_release(s, q);
    }
    q->state = state == SEQ_DONE && !q->n_flights ? SEQ_FREE : state;
}

/* Preempts the youngest running sequence younger than order[index]. 0: there is none. */
static int preempt(struct sched *s, int index)
{
    for (int i = s->n_order - 1; i > index; i--) {
        struct seq *q = s->order[i];
        if (q->state != SEQ_RUNNING) continue;
        seq_release(s, q);
        q->state = SEQ_PREEMPTED;
        s->rows_left += q->reserved;
        s->stats.n_preemptions++;
        return 1;
    }
    return 0;
}

/* Takes pages for up to ROWS more positions of order[index]; returns the positions that have pages.
 */
static int take_pages(struct sched *s, int index, int rows)
{
    struct seq *q = s->order[index];
    while (q->n_pages * KV_PAGE < q->n_computed + rows) {
        int32_t page = kv_take(&s->kv);
        if (page >= 0) q->page[q->n_pages++] = page;
        else if (!preempt(s, index)) break;
    }
    int got = q->n_pages * KV_PAGE - q->n_computed;
    return got < rows ? got : rows;
}

/* The same for a draft behind SURE rows, for which nothing is preempted. */
static int take_free_pages(struct sched *s, int index, int sure, int rows)
{
    struct seq *q = s->order[index];
    int32_t page;
    int got = take_pages(s, index, sure);
    if (got < sure) return got;
    while (q->n_pages * KV_PAGE < q->n_computed + rows && (page = kv_take(&s->kv)) >= 0)
        q->page[q->n_pages++] = page;
    got = q->n_pages * KV_PAGE - q->n_computed;
    return got < rows ? got : rows;
}

/* The next position at which the sequence leaves a snapshot, if there is a slot for it; else the
 * end of its prompt. */
static int next_snapshot(const struct sched *s, const struct seq *q)
{
    const int at[] = {q->leave_at, q->job->leave_at[0], q->job->leave_at[1], seq_store_at(s, q)};
    int next = q->job->request->n_prompt;
    if (!states_n_free(&s->states)) return next;
    for (int i = 0; i < 4; i++)
        if (at[i] > q->n_computed && at[i] < next) next = at[i];
    return next;
}

int requests_alike(const struct request *a, const struct request *b)
{
    int n = 0, most = (a->n_prompt < b->n_prompt ? a->n_prompt : b->n_prompt) - 1;
    while (n < most && a->prompt[n] == b->prompt[n]) n++;
    return n / KV_PAGE * KV_PAGE;
}

/* 1 if order[index] has computed nothing behind the snapshot that it continues from, and can
 * continue from a later one that an older sequence, which is as far, will leave: it waits for that.
 */
static int waits(const struct sched *s, int index)
{
    const struct seq *q = s->order[index];
    if (!s->states.n_slots || q->n_computed != q->kept_at) return 0;
    for (int i = 0; i < index; i++) {
        const struct seq *p = s->order[i];
        const struct request *r = p->job->request;
        if (p->state != SEQ_RUNNING || p->job->root != q->job->root) continue;
        int writes = p->n_rows && p->to != p->own,
            at = writes ? p->n_computed + p->n_rows : next_snapshot(s, p);
        if (at < r->n_prompt && p->n_computed < at && q->n_computed <= p->n_computed &&
            requests_alike(r, q->job->request) >= at && first_row_with_results(s, q, 0) >= at)
            return 1;
    }
    return 0;
}

/* Plans the rows of one sequence. Called for the oldest sequence first, so that only younger ones
 * are preempted for it. */
static void plan_seq(struct sched *s, int index)
{
    struct seq *q = s->order[index];
    int n_prompt = q->job->request->n_prompt;
    seq_find_pages(s, q);
    if (waits(s, index)) return;
    int snapshot = next_snapshot(s, q),
        end = q->n_computed < n_prompt ? snapshot : seq_n_tokens(q) - q->closed + q->n_drafted,
        rows = q->reserved + s->rows_left;
    if (rows > end - q->n_computed) rows = end - q->n_computed;
    int n_logits = 0;
    for (int i = 0; i < rows; i++)
        if (wants(s, q, q->n_computed + i) && n_logits++ == s->logits_left + 1)
            rows = i, n_logits--;
    int sure = q->n_drafted ? least(seq_n_tokens(q) - q->n_computed, rows) : rows,
        got = take_free_pages(s, index, sure, rows);
    for (; rows > got; rows--) n_logits -= wants(s, q, q->n_computed + rows - 1) != WANTS_NOTHING;
    if (q->n_drafted) q->n_drafted = rows > sure ? rows - sure : 0;
    s->stats.n_drafted_tokens += (uint64_t)q->n_drafted;
    if (q->draft_class >= SCHED_TEXTS) s->stats.n_mtp_tokens += (uint64_t)q->n_drafted;
    s->rows_left -= rows - q->reserved;
    if (n_logits > 1) s->logits_left -= n_logits - 1;
    q->n_rows = rows;
    q->n_logits = n_logits;
    q->to = q->own;
    if (rows && snapshot < n_prompt && q->n_computed + rows == snapshot)
        q->to = states_take(&s->states);
    seq_publish(s, q, q->n_computed + rows - q->n_drafted);
}

/* Sequence number n_seqs of the batch, but for its rows. */
static void add_seq(struct sched *s, struct batch *b, struct seq *q)
{
    b->seq_start[b->n_seqs] = b->n_rows;
    b->kv_len[b->n_seqs] = q->n_computed + q->n_rows;
    b->state_from[b->n_seqs] = q->from;
    b->state_to[b->n_seqs] = q->to;
    b->seat[b->n_seqs] = q->seat;
    if (b->n_drafts) b->n_drafts[b->n_seqs] = q->n_drafted, b->n_right[b->n_seqs] = q->n_right;
    if (s->of_batch) s->of_batch[b->n_seqs] = q, s->n_of_batch = b->n_seqs + 1;
    memcpy(b->block_table + (size_t)b->n_seqs * (size_t)b->table_stride, q->page,
           (size_t)q->n_pages * sizeof *q->page);
}

static void add_rows(struct sched *s, struct flight *f, struct seq *q)
{
    struct batch *b = &s->batch;
    const struct request *r = q->job->request;
    q->first_logit = b->n_logits;
    q->first_hidden = b->n_hidden;
    add_seq(s, b, q);
    for (int i = 0; i < q->n_rows; i++) {
        int row = b->n_rows++, pos = q->n_computed + i;
        b->token[row] = seq_token(q, pos);
        b->pos[row] = pos;
        b->seq[row] = b->n_seqs;
        b->slot[row] = q->page[pos / KV_PAGE] * KV_PAGE + pos % KV_PAGE;
        if (shows_hidden(q, pos)) {
            f->hidden[b->n_hidden] = (struct hidden_row){pos, row};
            b->hidden_row[b->n_hidden++] = row;
            f->shows = 1;
        }
        int what = wants(s, q, pos);
        if (!what) continue;
        struct sched_row *to = &f->row[b->n_logits];
        to->sampled = what >= WANTS_TOP && samples(s, q, pos);
        to->later = what >= WANTS_TOP && is_for_later(s, q, pos);
        to->score_at = add_score(s, to, q, pos);
        f->n_later += to->later;
        if (to->sampled || to->later || to->score_at >= 0) what = WANTS_BEST;
        /* the next choice looks at this one's token */
        f->n_wanted += to->sampled && b->sample[b->n_samples - 1].n_changes;
        f->wanted[b->n_logits] = what == WANTS_LOGITS;
        f->n_wanted += what >= WANTS_TOP || q->cursor || q->n_drafted || s->needs_tokens ||
                       s->patience.awaits;
        to->top_at = what == WANTS_TOP ? b->n_top : -1;
        to->wants_all = what == WANTS_LOGITS;
        to->behind_draft = q->n_drafted && pos >= seq_n_tokens(q);
        to->picked = -1;
        to->mask = !q->cursor ? NULL
                   : to->behind_draft
                       ? s->draft_masks +
                             (size_t)(q->draft_mask + pos - seq_n_tokens(q)) * (size_t)s->n_mask
                       : q->mask;
        if (what == WANTS_TOP) b->top_row[b->n_top++] = b->n_logits;
        to->seq = q;
        to->pos = pos;
        to->generates = generates(q, pos);
        to->scores = scores(q, pos);
        to->shows = shows(q, pos);
        f->shows |= to->shows || (to->generates && r->sink->token_logits);
        b->logit_row[b->n_logits++] = row;
    }
    CHECK(b->n_logits - q->first_logit == q->n_logits);
    q->n_hidden = b->n_hidden - q->first_hidden;
    b->seq_start[++b->n_seqs] = b->n_rows;
}

void sched_plan(struct sched *s, struct flight *f)
{
    /* Every running sequence is sure of a logits row, every decoding one also of a row: n_slots is
     * at most n_batch and max_logits. */
    s->rows_left = s->options.n_batch;
    s->logits_left = s->forward->options.max_logits;
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];
        q->n_rows = q->n_logits = 0;
        q->reserved = q->state == SEQ_RUNNING && q->n_computed >= q->job->request->n_prompt;
        s->rows_left -= q->reserved;
        s->logits_left -= q->state == SEQ_RUNNING;
    }
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->state == SEQ_RUNNING) plan_seq(s, i);

    struct batch *b = &s->batch;
    b->n_rows = b->n_seqs = b->n_logits = b->n_top = b->n_hidden = 0;
    b->n_samples = b->n_changes = b->n_scores = 0;
    f->n_seqs = f->n_wanted = f->n_later = f->shows = 0;
    for (int decode = 1; decode >= 0; decode--) {
        for (int i = 0; i < s->n_order; i++) {
            struct seq *q = s->order[i];
            if (q->n_rows && (q->n_computed >= q->job->request->n_prompt) == decode)
                add_rows(s, f, q);
        }
        if (decode) b->n_decode = b->n_rows, b->n_decode_logits = b->n_logits;
    }
    CHECK(b->n_rows > 0);
    f->n_logits = b->n_logits;
    b->n_later = f->n_later;
    for (int i = 0; i < s->n_order; i++)
        if (s->order[i]->n_rows)
            f->seq[f->n_seqs++] =
                (struct flight_seq){s->order[i], s->order[i]->first_logit, s->order[i]->n_logits,
                                    s->order[i]->first_hidden, s->order[i]->n_hidden};
}

/* Publishes the snapshot that the step leaves. */
static void advance_states(struct sched *s, struct seq *q)
{
    seq_drop_snapshot(s, q);
    q->from = q->to;
    if (q->to == q->own) return;
    states_publish(&s->states, q->to, q->chain);
    q->kept_at = q->n_computed + q->n_rows;
    if (s->store) seq_store_states(s, q);
}

/* The number of tokens is known when a step begins, the tokens themselves are not. */
void sched_advance(struct sched *s, struct flight *f)
{
    for (int i = 0; i < f->n_seqs; i++) {
        const struct flight_seq *p = &f->seq[i];
        struct seq *q = p->seq;
        const struct request *r = q->job->request;
        int last = p->first_logit + p->n_logits - 1 - q->n_drafted,
            is_prompt = q->n_computed < r->n_prompt;
        q->n_flights++;
        q->n_right = 0;
        if (s->states.n_slots) advance_states(s, q);
        q->n_computed += q->n_rows - q->n_drafted;
        if (is_prompt) s->stats.n_prompt_tokens += (uint64_t)q->n_rows;
        if (is_prompt && q->job->next_row < q->n_computed) q->job->next_row = q->n_computed;
        if (q->n_computed >= r->n_prompt) q->job->prompt_done = 1;
        int generated = p->n_logits && f->row[last].generates ? row_n_generated(&f->row[last]) + 1
                                                              : 0;
        if (q->n_rowed < generated) q->n_rowed = generated;
        if (generated > q->n_generated) {
            /* with a grammar nothing is planned before the token is there, or is known already */
            if (!q->cursor && !q->n_drafted) q->generated[q->n_generated] = -1 - last;
            if (++q->n_generated == seq_limit(s, r)) seq_leave(s, q, SEQ_ENDING);
        } else if (q->closed && q->n_rowed == q->n_known) {
            seq_leave(s, q, SEQ_ENDING);
        } else if (!r->max_tokens && q->n_computed == r->n_prompt) {
            seq_leave(s, q, SEQ_ENDING);
        }
    }
}
