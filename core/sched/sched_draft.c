#include "core/base/clock.h"
#include "core/sched/sched_internal.h"
#include "core/step/kv_open.h"

#include <string.h>

/* How much of a new measurement counts; how many steps without a draft there are before one is
 * tried to learn what it costs now. */
static const double NEW_SECONDS = 0.1, NEW_OUTCOME = 0.05;
/* Most that a step counts as longer than those before; what drafts must bring beside none. */
static const double MOST_LONGER = 1.5, MARGIN = 1.02;
/* What a row more costs, as a part of a step per row, where that was not measured. */
static const double UNKNOWN_ROW = 0.15;
/* In a table of costs: rows of which there was one step, whose launches a device put together. */
static const double SEEN = -1;
enum { TRY_EVERY = 200, TRY_TOKENS = 3 };

/* ---- what steps cost */

/* Numbers of rows that are told apart: each up to 32, then eighths of octaves. */
static int bucket_of(int rows)
{
    int octave = 0, n = rows;
    if (rows <= 32) return rows;
    while (n >= 16) n >>= 1, octave++;
    int at = 33 + (octave - 2) * 8 + (n - 8);
    return at < SCHED_COSTS ? at : SCHED_COSTS - 1;
}

static int rows_of(int bucket)
{
    if (bucket <= 32) return bucket;
    int octave = (bucket - 33) / 8 + 2, n = (bucket - 33) % 8 + 8;
    return n << octave;
}

int sched_note_cost(const struct sched *s, double *cost, int rows, double seconds)
{
    double *c = &cost[bucket_of(rows)];
    if (!*c && s->options.overlap) {
        *c = SEEN;
        return 1;
    }
    const double before = *c > 0 ? *c : sched_cost(cost, rows, seconds);
    if (seconds > MOST_LONGER * before) seconds = MOST_LONGER * before; /* something came between */
    *c = *c > 0 ? *c + NEW_SECONDS * (seconds - *c) : seconds;
    return 0;
}

void sched_learn_cost(struct sched *s, const struct batch *b, double seconds)
{
    if (b->n_decode != b->n_rows || !(s->drafter.propose || s->mtp)) return;
    if (sched_note_cost(s, s->cost, b->n_rows, seconds)) s->patience.is_new = 1;
}

/* Seconds of so many rows: between what was measured, or beyond it. */
double sched_cost(const double *cost, int rows, double unknown)
{
    int at = bucket_of(rows), low = at, high = at;
    if (cost[at] > 0) return cost[at];
    while (low > 0 && !(cost[low] > 0)) low--;
    while (high < SCHED_COSTS && !(cost[high] > 0)) high++;
    double a = low ? cost[low] : 0, b = high < SCHED_COSTS ? cost[high] : 0;
    if (low && high < SCHED_COSTS)
        return a + (b - a) * (rows - rows_of(low)) / (rows_of(high) - rows_of(low));
    if (low) return a * (1 + UNKNOWN_ROW * (rows - rows_of(low)) / rows_of(low));
    return b > 0 ? b : unknown;
}

double sched_seconds(const struct sched *s, int rows) { return sched_cost(s->cost, rows, 1); }

/* ---- how many tokens */

static int class_of(int matched)
{
    static const int least_of[SCHED_TEXTS] = {0, 2, 3, 4, 6, 9, 16};
    int i = SCHED_TEXTS - 1;
    while (matched < least_of[i]) i--;
    return i;
}

/* Rows that the next step has without drafts: the last token's, and those of tokens before it that
 * a grammar forced. A sequence with states has one. */
static int has_few_rows(const struct sched *s, const struct seq *q)
{
    const int n = seq_n_tokens(q) - q->n_computed;
    if (q->n_computed < q->job->request->n_prompt) return 0;
    return n == 1 || (q->cursor && !s->states.n_slots && n <= KV_PAGE);
}

/* And nothing but tokens, a place in a grammar, and states that are put right, is kept from row to
 * row. */
int seq_may_draft(const struct sched *s, const struct seq *q)
{
    const struct request *r = q->job->request;
    if (q->cursor &&
        (q->closed || q->wrong.msg[0] || q->n_known != q->n_generated || q->masked != q->n_known))
        return 0;
    return q->state == SEQ_RUNNING && !r->sampling.mirostat &&
           (!s->states.n_slots || s->batch.n_drafts) && q->n_generated > 0 && has_few_rows(s, q) &&
           q->generated[q->n_generated - 1] >= 0 && q->n_generated < seq_limit(s, r);
}

/* Most tokens that a draft may have: the token behind it is chosen, too. A page that is packed when
 * it is full is not filled by a draft. */
static int most_of(const struct sched *s, const struct seq *q)
{
    int most = seq_limit(s, q->job->request) - q->n_generated - 1, pos = seq_n_tokens(q), n = 0;
    if (most > s->options.draft_most) most = s->options.draft_most;
    if (s->states.n_slots && most > STATE_DRAFTS) most = STATE_DRAFTS;
    if (!kv_has_open(s->forward->options.kv)) return most;
    while (n < most && (pos + n) % KV_PAGE != KV_PAGE - 1) n++;
    return n;
}

/* The tokens of a draft lie behind those of the sequence; returns how many there are. An equal part
 * of texts that is long enough comes ahead of the model's draft layer. */
static int ask(struct sched *s, struct seq *q, int most)
{
    enum { LONG_PART = 5 };
    int32_t *to = q->generated + q->n_generated;
    int matched = 0, n = 0;
    if (s->drafter.propose) {
        struct draft_ask a = seq_ask(s, q);
        n = s->drafter.propose(s->drafter.self, &a, to, most, &matched);
    }
    q->draft_class = class_of(matched);
    if (!q->n_mtp || (n && matched >= LONG_PART)) return n;
    q->draft_class = SCHED_TEXTS;
    n = q->n_mtp < most ? q->n_mtp : most;
    memcpy(to, q->mtp, (size_t)n * sizeof *to);
    return n;
}

/* Asks for drafts; they lie behind the sequences' tokens. Returns how many tokens there are. */
static int ask_all(struct sched *s)
{
    int n = 0, rests = sched_needs_patience(s) && !s->patience.awaits;
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];
        q->n_drafted = q->n_compared = 0;
        int most = !rests && seq_may_draft(s, q) ? most_of(s, q) : 0;
        if (most <= 0) continue;
        q->n_drafted = ask(s, q, most);
        n += q->n_drafted;
    }
    return n;
}

int sched_n_decoding(const struct sched *s)
{
    int n = 0;
    for (int i = 0; i < s->n_order; i++)
        n += s->order[i]->state == SEQ_RUNNING &&
             s->order[i]->n_computed >= s->order[i]->job->request->n_prompt;
    return n;
}

static int class_at(const struct seq *q, int i)
{
    int at = q->draft_class + (q->draft_class < SCHED_TEXTS ? 0 : i);
    return at < SCHED_CLASSES ? at : SCHED_CLASSES - 1;
}

/* Tokens of drafts by their probability: that they are chosen, and those before them. */
enum { LEVELS = 50 };
static int level_of(double chance) { return (int)(chance * LEVELS); }

/* Rows that a step of BASE sequences with drafts has: at most four numbers an octave, so that there
 * are measurements of each, and launches that a device has kept; but more than half of the drafts.
 */
static int rows_down(int rows, int base)
{
    int step = 1;
    while (8 * step <= rows && 4 * step <= rows - base) step *= 2;
    return rows / step * step;
}

/* Tokens of drafts that are kept: all above a level, and some of those of it. */
struct likely {
    int level, n_of_level;
};

/* How many tokens of drafts each level has, and what they bring: the sum of their chances. */
static void count_levels(const struct sched *s, int *n, double *gain)
{
    for (int i = 0; i < s->n_order; i++) {
        const struct seq *q = s->order[i];
        double chance = 1;
        for (int t = 0; t < q->n_drafted; t++) {
            chance *= s->accepts[class_at(q, t)];
            n[level_of(chance)]++;
            gain[level_of(chance)] += chance;
        }
    }
}

/* The likeliest tokens, as many as make the most tokens in the shortest time. */
static struct likely find_likely(const struct sched *s)
{
    const int base = s->n_drafting;
    struct likely best = {LEVELS + 1, 0};
    double gain[LEVELS + 1] = {0}, sum = 0, best_rate = MARGIN * base / sched_seconds(s, base);
    int n[LEVELS + 1] = {0}, rows = base;
    count_levels(s, n, gain);
    for (int k = LEVELS; k > 0; k--) {
        const int kept = rows_down(rows + n[k], base) - rows;
        if (kept > 0) {
            double gained = sum + gain[k] * kept / n[k],
                   rate = (base + gained) / sched_seconds(s, rows + kept);
            if (rate > best_rate) best_rate = rate, best = (struct likely){k, kept};
        }
        sum += gain[k];
        rows += n[k];
    }
    return best;
}

/* Keeps the tokens of drafts that are likely enough to come. */
static void choose_likely(struct sched *s)
{
    struct likely keep = find_likely(s);
    int kept = 0;
    const int is_try = s->n_undrafted >= TRY_EVERY;
    for (int i = 0; i < s->n_order; i++) {
        struct seq *q = s->order[i];
        int n = 0;
        double chance = 1;
        for (; n < q->n_drafted; n++) {
            chance *= s->accepts[class_at(q, n)];
            if (level_of(chance) < keep.level) break;
            if (level_of(chance) == keep.level && keep.n_of_level-- <= 0) break;
        }
        if (is_try && !kept && !n) n = q->n_drafted < TRY_TOKENS ? q->n_drafted : TRY_TOKENS;
        q->n_drafted = n;
        kept += n;
    }
    s->n_undrafted = kept ? 0 : s->n_undrafted + 1;
}

void sched_draft(struct sched *s)
{
    if (!s->drafter.propose && !s->mtp) return;
    s->n_drafting = sched_n_decoding(s);
    sched_weigh_waiting(s);
    if (ask_all(s) && !s->options.draft_always) choose_likely(s);
}

/* ---- what became of them */

int seq_accept(struct sched *s, struct seq *q, const struct sched_row *row)
{
    const int32_t guess = q->generated[row_n_generated(row)];
    if (q->cursor && row_n_generated(row) < q->n_known)
        return 1; /* a grammar has forced its token */
    if (row->behind_draft && (q->n_drafted < 0 || q->state != SEQ_RUNNING))
        return 0; /* a token before it was another one, or the last */
    if (row->behind_draft) {
        q->n_generated++;
        q->n_computed++;
        q->n_rowed = q->n_generated;
        s->stats.n_accepted_tokens++;
        s->stats.n_mtp_right += q->draft_class >= SCHED_TEXTS;
        s->stats.steps_saved += 1.0 / s->n_drafting;
        if (s->states.n_slots) q->n_right++;
        seq_publish(s, q, q->n_computed);
        if (q->n_generated == seq_limit(s, q->job->request)) seq_leave(s, q, SEQ_ENDING);
    }
    if (!q->n_drafted) return 1;
    double *p = &s->accepts[class_at(q, q->n_compared++)];
    int is_right = !row->failed.msg[0] && guess == row->token.id;
    *p += NEW_OUTCOME * (is_right - *p);
    q->n_drafted = is_right ? q->n_drafted - 1 : -1;
    return 1;
}

void sched_drafter_begin(struct sched *s, const struct seq *q)
{
    if (s->drafter.begin) s->drafter.begin(s->drafter.self, (int)(q - s->seq));
}

void sched_drafter_end(struct sched *s, const struct seq *q)
{
    struct draft_ask a;
    if (!s->drafter.end) return;
    a = seq_ask(s, q);
    a.n_generated = q->n_emitted;
    s->drafter.end(s->drafter.self, &a);
}
