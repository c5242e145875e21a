/* sched_device.h: properties of devices that the CPU's backend lacks. */
#ifndef TESTS_SCHED_DEVICE_H
#define TESTS_SCHED_DEVICE_H

#include "core/sample/logits.h"
#include "core/sample/weights.h"
#include "tests/unit/ever_top.h"
#include "tests/unit/sched_odd.h"
#include "tests/unit/sched_records.h"

/* Another kernel for each phase, as devices have them: rows of prompts get another rounding. */
__attribute__((unused)) static void linear_by_phase(struct be *be, const struct stepwise_call *c)
{
    const struct op *op = c->op;
    (void)be;
    if (op->kind != OP_LINEAR) return;
    for (int i = 0; i < op->n; i++) {
        const struct buffer *b = &c->plan->buffer[op->out[i]];
        int of_step = b->rows == ROWS_STEP, rows = of_step ? c->batch->n_rows : c->batch->n_logits,
            n_decode = of_step ? c->batch->n_decode : c->batch->n_decode_logits;
        size_t width = b->row_bytes / sizeof(float);
        float *y = odd_buffer(c, op->out[i]);
        for (size_t j = (size_t)n_decode * width; j < (size_t)rows * width; j++)
            y[j] *= 1 + 0x1p-9f;
    }
}

static int n_top_rows, n_without_room;

/* What a backend with OP_TOP does, on its tenth row as if there was not room. */
__attribute__((unused)) static void find_top(struct be *be, const struct stepwise_call *c)
{
    (void)be;
    if (c->op->kind != OP_TOP) return;
    const float *logits = odd_buffer(c, c->op->in[0]);
    struct logits_entry *top = odd_buffer(c, c->op->out[0]);
    size_t vocab = c->plan->buffer[c->op->in[0]].row_bytes / sizeof *logits;
    for (int r = 0; r < c->batch->n_top; r++, top += OP_TOP_ROOM) {
        const float *x = logits + (size_t)c->batch->top_row[r] * vocab;
        uint8_t is[VOCAB];
        int n = 0;
        ever_top(x, (int)vocab, OP_TOP_KEPT, is);
        for (int i = 0; i < (int)vocab; i++)
            if (is[i]) top[n++] = (struct logits_entry){x[i], i};
        top[n].id = -1;
        if (++n_top_rows % 10 == 0) top->id = -1, n_without_room++;
    }
}

static int n_drawn_rows;

/* Tokens of a row in the order of their likelihood: depth [n], id [n]. */
static int tokens_in_order(const struct batch_sample *d, const float *x, int vocab, int best,
                           int32_t *id)
{
    int n = 0;
    for (int i = 0; i < vocab; i++) {
        int32_t depth = weights_depth(x[i], x[best], d->scale);
        if (depth > d->most || depth == WEIGHTS_DEEPEST) continue;
        int at = n++;
        for (; at && x[i] > x[id[at - 1]]; at--) id[at] = id[at - 1];
        id[at] = i;
    }
    return n;
}

static int32_t drawn_token(const struct batch_sample *d, const float *x, int vocab, int best)
{
    int32_t id[VOCAB];
    uint64_t weight[VOCAB] = {0}, total = 0, sum = 0, kept = 0;
    int n = tokens_in_order(d, x, vocab, best, id);
    if (d->top_k && d->top_k < n) n = d->top_k;
    for (int i = 0; i < n; i++) total += weights_of(weights_depth(x[id[i]], x[best], d->scale));
    double mass = d->top_p * (double)total;
    for (int i = 0; i < n && (!i || d->top_p >= 1 || kept < (uint64_t)mass); i++)
        kept += weight[id[i]] = weights_of(weights_depth(x[id[i]], x[best], d->scale));
    uint64_t target = (uint64_t)((unsigned __int128)d->bits * kept >> 53);
    for (int i = 0;; i++)
        if ((sum += weight[i]) > target) return i;
}

static int n_masked_rows, n_masked_scores;

static void change_logits(const struct batch *b, const struct batch_sample *d, float *x, int vocab)
{
    const uint32_t *mask = d->mask ? b->masks + (d->mask - 1) * ((vocab + 31) / 32) : NULL;
    for (int i = 0; mask && i < vocab; i++)
        if (!(mask[i / 32] >> i % 32 & 1)) x[i] = -INFINITY;
    n_masked_rows += mask != NULL;
    for (int i = d->first_change; i < d->first_change + d->n_changes; i++) {
        const struct batch_change *c = &b->change[i];
        float *l = &x[c->id], times = (float)(c->seen & ~(1u << 31));
        *l += c->add;
        if (c->seen) *l = *l > 0 ? *l / d->repetition : *l * d->repetition;
        if (times > 0) *l -= d->frequency * times + d->presence;
    }
}

static int n_scored_rows;

/* What a backend with OP_SCORE does. */
__attribute__((unused)) static void find_scores(const struct stepwise_call *c)
{
    if (c->op->kind != OP_SCORE) return;
    const float *logits = odd_buffer(c, c->op->in[0]);
    const int32_t *best = odd_buffer(c, c->op->in[1]);
    struct logits_score *s = odd_buffer(c, c->op->out[0]);
    int vocab = (int)(c->plan->buffer[c->op->in[0]].row_bytes / sizeof *logits);
    for (int i = 0; i < c->batch->n_scores; i++, s++, n_scored_rows++) {
        const struct batch_score *b = &c->batch->score[i];
        const float *x = logits + (size_t)b->row * (size_t)vocab;
        int32_t top[OP_SCORE_TOP], id = b->id < 0 ? best[b->row] : b->id;
        if (best[b->row] < 0) continue;
        *s = (struct logits_score){.max = x[best[b->row]], .logit = x[id], .n_top = b->n_top};
        s->sum = logits_sum_exp(x, vocab, s->max, 1);
        for (int k = 0; k < vocab; k++) s->rank += x[k] > x[id] || (x[k] == x[id] && k <= id);
        logits_top(x, vocab, b->n_top, top);
        for (int k = 0; k < b->n_top; k++) s->top[k] = (struct logits_entry){x[top[k]], top[k]};
    }
}

/* What a backend with OP_TOP, OP_SCORE and OP_SAMPLE does. */
__attribute__((unused)) static void find_top_or_draw(struct be *be, const struct stepwise_call *c)
{
    find_top(be, c);
    find_scores(c);
    if (c->op->kind != OP_SAMPLE) return;
    float *logits = odd_buffer(c, c->op->in[0]);
    int32_t *best = odd_buffer(c, c->op->out[0]);
    int vocab = (int)(c->plan->buffer[c->op->in[0]].row_bytes / sizeof *logits);
    for (int i = 0; i < c->batch->n_samples; i++, n_drawn_rows++) {
        const struct batch_sample *d = &c->batch->sample[i];
        float *x = logits + (size_t)d->row * (size_t)vocab;
        if (best[d->row] < 0) continue;
        float was[VOCAB];
        memcpy(was, x, (size_t)vocab * sizeof *x);
        change_logits(c->batch, d, x, vocab);
        int32_t max = logits_argmax(x, vocab);
        best[d->row] = max < 0 || d->scale <= 0 ? max : drawn_token(d, x, vocab, max);
        if (!d->score || best[d->row] < 0) continue;
        struct logits_score *s = odd_buffer(c, c->op->in[2]);
        s[d->score - 1].logit = was[best[d->row]];
        n_masked_scores += d->mask > 0;
    }
}

#endif
