#include "cli/modes/batch/estimate.h"

#include "core/step/batch.h"

#include <stdlib.h>
#include <string.h>

void estimate_add(struct estimate_curve *c, int rows, double seconds)
{
    int last = c->n - 1;
    CHECK(c->n < ESTIMATE_POINTS && rows > 0);
    if (last >= 0 && rows <= c->rows[last]) return;
    if (last >= 0 && seconds < c->seconds[last]) seconds = c->seconds[last];
    c->rows[c->n] = rows;
    c->seconds[c->n++] = seconds;
}

static double at(const struct estimate_curve *c, int rows)
{
    int i = 1;
    if (!rows || !c->n) return 0;
    if (rows <= c->rows[0]) return c->seconds[0];
    if (c->n == 1) return c->seconds[0] * rows / c->rows[0];
    while (i < c->n - 1 && rows > c->rows[i]) i++;
    double slope = (c->seconds[i] - c->seconds[i - 1]) / (c->rows[i] - c->rows[i - 1]);
    return c->seconds[i - 1] + slope * (rows - c->rows[i - 1]);
}

double estimate_step(const struct estimate_costs *c, int decode_rows, int prompt_rows)
{
    if (!decode_rows) return at(&c->prompt, prompt_rows);
    /* the weights are read once for both */
    double more = prompt_rows ? at(&c->prompt, prompt_rows) - at(&c->prompt, 1) : 0;
    return at(&c->decode, decode_rows) + (more > 0 ? more : 0);
}

/* A sequence that runs. */
struct running {
    int to_compute, to_generate, context;
    int pages; /* that it has in the middle of its life, about */
};

struct run {
    struct running *seq; /* [n] */
    int n, n_pages;
};

/* Brings the longest answer of requests r [n] that the scheduler holds (sched_wants) to the front,
 * in the order of the others. */
static void bring_longest(struct estimate_request *r, size_t n, const struct estimate_limits *l)
{
    size_t held = 3 * (size_t)l->n_seqs, at = 0;
    for (size_t i = 1; i < n && i < held; i++)
        if (r[i].n_generated > r[at].n_generated) at = i;
    const struct estimate_request first = r[at];
    memmove(r + 1, r, at * sizeof *r);
    r[0] = first;
}

/* Lets the next requests run as long as there are room and pages. */
static void admit(struct run *x, struct estimate_request *r, size_t n, size_t *next,
                  const struct estimate_limits *l)
{
    while (*next < n && x->n < l->n_seqs) {
        bring_longest(r + *next, n - *next, l);
        const struct estimate_request *q = &r[*next];
        int pages = (q->n_prompt + q->n_generated / 2) / KV_PAGE + 1;
        if (x->n && x->n_pages + pages > l->n_pages) return;
        x->seq[x->n++] = (struct running){q->n_computed, q->n_generated, q->n_prompt, pages};
        x->n_pages += pages;
        ++*next;
    }
}

/* Decode rows and the sum of their contexts; *steps: how many steps leave that as it is. */
static int decoding(const struct run *x, int64_t *contexts, int *steps)
{
    int n = 0;
    *contexts = 0;
    for (int i = 0; i < x->n; i++) {
        if (x->seq[i].to_compute) continue;
        if (!n++ || x->seq[i].to_generate < *steps) *steps = x->seq[i].to_generate;
        *contexts += x->seq[i].context;
    }
    return n;
}

/* Prompt rows of a step with a budget; what they leave is taken off. Sequences whose prompt is
 * computed then have their first token. */
static int compute_prompts(struct run *x, int budget)
{
    int rows = 0;
    for (int i = 0; i < x->n && rows < budget; i++) {
        struct running *q = &x->seq[i];
        int take = q->to_compute < budget - rows ? q->to_compute : budget - rows;
        if (!q->to_compute) continue;
        rows += take;
        q->to_compute -= take;
        if (q->to_compute || !q->to_generate) continue;
        q->to_generate--;
        q->context++;
    }
    return rows;
}

static void generate(struct run *x, int steps)
{
    for (int i = 0; i < x->n; i++) {
        if (x->seq[i].to_compute) continue;
        x->seq[i].to_generate -= steps;
        x->seq[i].context += steps;
    }
}

static void drop_ended(struct run *x)
{
    int kept = 0;
    for (int i = 0; i < x->n; i++) {
        if (x->seq[i].to_compute || x->seq[i].to_generate > 0) x->seq[kept++] = x->seq[i];
        else x->n_pages -= x->seq[i].pages;
    }
    x->n = kept;
}

int estimate_run(struct estimate_request *r, size_t n, const struct estimate_limits *l,
                 const struct estimate_costs *c, struct estimate_times *t, struct err *e)
{
    struct run x = {.seq = calloc((size_t)l->n_seqs, sizeof *x.seq)};
    size_t next = 0;
    *t = (struct estimate_times){0};
    if (!x.seq) return err_memory(e);
    for (;;) {
        admit(&x, r, n, &next, l);
        if (!x.n) break;
        int64_t contexts;
        int steps = 1, b = decoding(&x, &contexts, &steps), waits = b < x.n;
        if (waits) steps = 1;
        if (b) generate(&x, steps);
        int rows = waits ? compute_prompts(&x, l->n_batch > b ? l->n_batch - b : 1) : 0;
        double alone = b ? estimate_step(c, b, 0) : 0, longer = 0;
        if (b) /* contexts grow by a position a step */
            longer = c->attend * ((double)(contexts - (int64_t)b * c->context) * steps +
                                  (double)b * steps * (steps - 1) / 2);
        t->answers += alone * steps + (longer > -alone * steps ? longer : 0);
        if (rows) t->prompts += estimate_step(c, b, rows) - alone;
        t->n_steps += (uint64_t)steps;
        drop_ended(&x);
    }
    free(x.seq);
    return 0;
}
