#include "cli/modes/batch/calibrate.h"

#include "core/base/clock.h"

#include <stdlib.h>

enum { TIMED = 17, SLOW_TIMED = 3, SHORT = 8, MOST_STEPS = 4096, MOST_REQUESTS = 64 };
#define SLOW_STEP 0.25

/* A step: its rows and seconds. */
struct timed {
    int prompt_rows, decode_rows;
    double seconds;
};

struct bench {
    struct engine *g;
    const struct calibrate_like *like;
    uint32_t random;
    struct request *request; /* [MOST_REQUESTS] */
    int32_t *id;             /* [n_ctx + n_batch]: the prompts of one run */
    struct timed *step;      /* [MOST_STEPS] */
    int n_steps, n_timed;    /* tokens that are timed of each request */
    int shortest;            /* prompt */
    int generates;           /* 0: prompts are evaluated, and nothing more */
    double per_row;          /* seconds of a prompt row, about */
};

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    (void)arg, (void)choice, (void)t, (void)e;
    return 0;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)arg, (void)choice, (void)why, (void)e;
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    (void)arg;
    return msg ? err_set(e, "a made-up prompt: %s", msg) : 0;
}

static const struct request_sink sink = {.token = on_token,
                                         .finished = on_finished,
                                         .done = on_done};

/* Runs N requests with N_PROMPT tokens that no other had, N_CHOICES and N_TOKENS each, and keeps
 * what their steps took. */
static int run(struct bench *x, int n, int n_prompt, int n_choices, int n_tokens, struct err *e)
{
    const struct calibrate_like *like = x->like;
    struct sched_stats before, now;
    struct sched *s = x->g->sched;
    const int vocab = x->g->model.config.vocab;
    x->n_steps = 0;
    for (int i = 0; i < n; i++) {
        int32_t *id = x->id + (size_t)i * (size_t)n_prompt;
        for (int k = 0; k < n_prompt; k++) {
            x->random = x->random * 1664525u + 1013904223u;
            id[k] = (int32_t)((x->random >> 8) % (uint32_t)vocab);
        }
        x->request[i] = (struct request){.prompt = id,
                                         .n_prompt = n_prompt,
                                         .n_choices = n_choices,
                                         .max_tokens = n_tokens,
                                         .n_top = like->n_top,
                                         .prompt_top = -1,
                                         .sampling = like->sampling,
                                         .sink = &sink};
        if (sched_submit(s, &x->request[i], e)) return -1;
    }
    sched_stats(s, &before);
    for (int busy = 1; busy;) {
        double start = clock_now();
        if ((busy = sched_step(s, e)) < 0) return -1;
        struct timed t = {.seconds = clock_now() - start};
        sched_stats(s, &now);
        t.prompt_rows = (int)(now.n_prompt_tokens - before.n_prompt_tokens);
        t.decode_rows = (int)(now.n_generated_tokens - before.n_generated_tokens);
        before = now;
        if (x->n_steps < MOST_STEPS) x->step[x->n_steps++] = t;
    }
    return 0;
}

/* The mean of steps with ROWS decode rows and no others: what disturbs some of them disturbs the
 * run, too. 0: there is none. */
static double decode_seconds(const struct bench *x, int rows)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < x->n_steps; i++)
        if (!x->step[i].prompt_rows && x->step[i].decode_rows == rows) {
            sum += x->step[i].seconds;
            n++;
        }
    return n ? sum / n : 0;
}

/* Of the steps with prompt rows: how many they have in the mean and what they take. */
static int prompt_seconds(const struct bench *x, double *seconds)
{
    int n = 0, rows = 0;
    *seconds = 0;
    for (int i = 0; i < x->n_steps; i++) {
        if (!x->step[i].prompt_rows) continue;
        n++;
        rows += x->step[i].prompt_rows;
        *seconds += x->step[i].seconds;
    }
    if (!n) return 0;
    *seconds /= n;
    return rows / n;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Prompt tokens that the time allows. */
static int affordable(const struct bench *x, int n)
{
    double most = CALIBRATE_SECONDS / 3 / x->per_row;
    int room = x->like->n_ctx - x->n_timed - 1;
    if (n > room) n = room;
    if (n > most) n = (int)most;
    return n > x->shortest ? n : x->shortest;
}

/* Steps of prompts: of one, and of as many as fit into a step. */
static int time_prompts(struct bench *x, struct estimate_costs *c, struct err *e)
{
    const struct calibrate_like *like = x->like;
    int n_prompt = affordable(x, like->n_prompt),
        n = least(least(like->n_seqs, MOST_REQUESTS), affordable(x, like->n_batch) / n_prompt);
    double seconds, first;
    for (int i = 0; i < 2; i++) {
        int rows = 0;
        if (i && n < 2) return 0;
        if (run(x, i ? n : 1, n_prompt, 1, x->generates, e)) return -1;
        rows = prompt_seconds(x, &first);
        if (run(x, i ? n : 1, n_prompt, 1, x->generates, e)) return -1;
        prompt_seconds(x, &seconds);
        if (rows > 0) estimate_add(&c->prompt, rows, (first + seconds) / 2);
    }
    return 0;
}

/* Steps of 1, some and all sequences that decode, near the context of the run. */
static int time_decoding(struct bench *x, struct estimate_costs *c, struct err *e)
{
    const struct calibrate_like *like = x->like;
    int rows[] = {2, 4, 8, like->n_seqs};
    c->context = affordable(x, like->context);
    if (run(x, 1, c->context, 1, x->n_timed, e)) return -1;
    estimate_add(&c->decode, 1, decode_seconds(x, 1));
    for (int i = 0; i < 4; i++) {
        if (rows[i] > like->n_seqs || rows[i] < 2) continue;
        if (run(x, 1, c->context, rows[i], x->n_timed, e)) return -1;
        double seconds = decode_seconds(x, rows[i]);
        if (seconds > 0) estimate_add(&c->decode, rows[i], seconds);
    }
    if (c->context < 4 * x->shortest) return 0;
    if (run(x, 1, x->shortest, like->n_seqs, x->n_timed, e)) return -1;
    double near = decode_seconds(x, like->n_seqs),
           far = c->decode.n ? c->decode.seconds[c->decode.n - 1] : 0;
    if (near > 0 && far > near)
        c->attend = (far - near) / like->n_seqs / (c->context - x->shortest);
    return 0;
}

int calibrate(struct engine *g, const struct calibrate_like *like, struct estimate_costs *c,
              struct err *e)
{
    struct bench x = {.g = g, .like = like, .random = 1, .n_timed = TIMED};
    double seconds;
    *c = (struct estimate_costs){0};
    x.request = calloc(MOST_REQUESTS, sizeof *x.request);
    x.id = calloc((size_t)like->n_ctx + (size_t)like->n_batch, sizeof *x.id);
    x.step = calloc(MOST_STEPS, sizeof *x.step);
    int rc = !x.request || !x.id || !x.step ? err_memory(e) : 0;
    x.generates = like->context > 0;
    x.shortest = like->n_ctx > SHORT + 1 ? SHORT : 1;
    /* the first run reads the weights */
    if (!rc) rc = run(&x, 1, x.shortest, 1, x.generates, e);
    if (!rc) rc = run(&x, 1, x.shortest, 1, x.generates * SLOW_TIMED, e);
    if (!rc) {
        int rows = prompt_seconds(&x, &seconds);
        estimate_add(&c->prompt, rows > 0 ? rows : 1, seconds);
        x.per_row = seconds / (rows > 0 ? rows : 1) + 1e-9;
        if (decode_seconds(&x, 1) > SLOW_STEP) x.n_timed = SLOW_TIMED;
        rc = time_prompts(&x, c, e);
    }
    if (!rc && like->context) rc = time_decoding(&x, c, e);
    free(x.request);
    free(x.id);
    free(x.step);
    return rc;
}
