/* sched_patience.c: whether steps of a device that computes beside the host are waited for, so that
 * drafts, which stand behind tokens that are known, can follow. They are as long as a row of such a
 * step has more right tokens than the step takes longer. Without waiting it is guesses, drafts that
 * are not computed, that say how many tokens would be right. Owns: these measurements. Must not
 * know: how drafts are computed. */
#include "core/base/clock.h"
#include "core/sched/sched_internal.h"

#include <stdlib.h>

int sched_needs_patience(const struct sched *s)
{
    return s->options.overlap && (s->drafter.propose || s->mtp);
}

/* ---- what is measured */

/* Adds the time between two steps that only decode, of as many sequences, to that of steps like the
 * last one. The first of a shape, whose launches are put together, does not count, nor do those
 * that are in flight as waiting begins or ends; a longer one counts less than a shorter one, for
 * there are many shapes at first. */
static void measure_step(struct sched *s)
{
    enum { SETTLES = 2 };
    static const double SHORTER = 0.3, LONGER = 0.1, MOST_LONGER = 2;
    struct sched_patience *p = &s->patience;
    const double now = clock_now(), seconds = now - p->at;
    double *step = &p->step[p->awaits];
    const int counts = s->n_drafting && s->n_drafting == p->n_seqs && !p->is_new &&
                       ++p->n_steps > SETTLES && s->batch.n_decode == s->batch.n_rows;
    if (counts && 8 * abs(p->step_seqs[p->awaits] - s->n_drafting) > s->n_drafting) {
        *step = seconds;
        p->step_seqs[p->awaits] = s->n_drafting;
    } else if (counts) {
        double longer = seconds < MOST_LONGER * *step ? seconds : MOST_LONGER * *step;
        *step += (longer > *step ? LONGER : SHORTER) * (longer - *step);
    }
    p->at = now;
    p->n_seqs = s->n_drafting;
    p->is_new = 0;
}

static void add_outcomes(struct sched *s, double rows, double right)
{
    struct sched_patience *p = &s->patience;
    p->rows += rows;
    p->right += right;
    if (p->rows > 96 + 12 * s->n_drafting) p->rows /= 2, p->right /= 2;
}

/* Compares what was guessed with the tokens that came, and guesses again. */
static void guess(struct sched *s, struct seq *q)
{
    struct draft_ask a = seq_ask(s, q);
    int matched, right = 0;
    while (a.n_generated && q->generated[a.n_generated - 1] < 0) a.n_generated--;
    if (q->n_guess && a.n_generated < q->guess_at + q->n_guess) return;
    while (right < q->n_guess && q->generated[q->guess_at + right] == q->guess[right]) right++;
    add_outcomes(s, 1, right);
    q->guess_at = a.n_generated;
    q->n_guess = s->drafter.propose(s->drafter.self, &a, q->guess, SCHED_GUESS, &matched);
}

/* Guesses what one of the sequences goes on with; the next one in the next step. */
static void guess_one(struct sched *s)
{
    struct sched_patience *p = &s->patience;
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[p->turn++ % (unsigned)s->n_order];
        if (q->state != SEQ_RUNNING || q->n_computed < q->job->request->n_prompt) continue;
        guess(s, q);
        return;
    }
}

/* ---- what follows from it */

/* Right tokens of a row that make up for waiting. */
static double needed(const struct sched *s)
{
    static const double unknown = 0.1, unknown_surely = 0.4;
    const struct sched_patience *p = &s->patience;
    const int change = abs(p->step_seqs[1] - p->step_seqs[0]);
    if (s->options.draft_always || !p->step_seqs[0] || 8 * change > p->step_seqs[1])
        return s->options.draft_sure ? unknown_surely : unknown;
    return p->step[1] / p->step[0] - 1;
}

static void begin(struct sched *s, int awaits, int n_steps)
{
    struct sched_patience *p = &s->patience;
    if (awaits != p->awaits) p->n_steps = 0;
    p->awaits = awaits;
    p->n_left = n_steps;
}

/* Steps of a look, at least; those without waiting, to measure them; how many looks lie between.
 * Where guesses say nothing there is a rest, twice as long each time. */
enum { LOOK = 16, LOOKS = 32, GLANCE = 10, REST = 256, LONG_REST = 1024, MOST_REST = 4096 };

/* Of the model's own layer there are no guesses. */
static int guesses_count(const struct sched *s) { return !s->mtp && !s->options.draft_always; }

static void weigh_look(struct sched *s)
{
    struct sched_patience *p = &s->patience;
    const int sure = guesses_count(s) && s->options.draft_sure;
    if (p->right < needed(s) * p->rows) {
        p->rest = !p->rest ? sure ? LONG_REST : REST : p->rest < MOST_REST ? 2 * p->rest : p->rest;
        begin(s, 0, guesses_count(s) && !sure ? GLANCE : p->rest);
    } else if (!s->options.draft_always && (!p->step_seqs[0] || ++p->n_looks % LOOKS == 0)) {
        p->rest = 0;
        begin(s, 0, GLANCE);
    } else {
        begin(s, 1, LOOK);
    }
}

/* A little more than is needed, so that it does not change its mind at once; or much more. */
static int may_pay(const struct sched *s)
{
    static const double margin[] = {0.05, 0.4};
    static const int enough[] = {8, 48};
    const struct sched_patience *p = &s->patience;
    const int sure = s->options.draft_sure;
    if (!guesses_count(s)) return 1;
    return p->rows >= enough[sure] && p->right >= (needed(s) + margin[sure]) * p->rows;
}

void sched_weigh_waiting(struct sched *s)
{
    struct sched_patience *p = &s->patience;
    if (!sched_needs_patience(s)) return;
    measure_step(s);
    if (p->awaits)
        add_outcomes(s, s->n_drafting, (double)(s->stats.n_accepted_tokens - p->n_accepted));
    else if (s->drafter.propose) guess_one(s);
    p->n_accepted = s->stats.n_accepted_tokens;
    if (--p->n_left > 0) return;
    if (p->awaits) weigh_look(s);
    else if (may_pay(s)) begin(s, 1, LOOK);
    else begin(s, 0, GLANCE);
}
