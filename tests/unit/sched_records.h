/* sched_records.h: random requests to the scheduler, and sinks that record all results as bytes for
 * comparison. */
#ifndef TESTS_SCHED_RECORDS_H
#define TESTS_SCHED_RECORDS_H

#include "core/sched/scheduler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VOCAB = 320, N_CTX = 200, MAX_CHOICES = 3, SYSTEM = 50 };

static struct model model;
static uint64_t random_state;

static int below(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

/* A request and the results that its sink received, as bytes. */
struct record {
    struct request request;
    int32_t prompt[N_CTX];
    struct sampler_bias bias[2];
    int32_t stop_ids[2];
    int stop_after;             /* the sink ends a choice at this token; 0: never */
    char *log[MAX_CHOICES + 1]; /* of each choice; the last one of the prompt */
    size_t n_log[MAX_CHOICES + 1], log_size;
    int n_tokens[MAX_CHOICES], n_finished[MAX_CHOICES], n_done, last_pos;
    enum finish why[MAX_CHOICES];
    char msg[128];
};

static void log_bytes(struct record *r, int which, const void *p, size_t n)
{
    assert_true(r->n_log[which] + n <= r->log_size);
    memcpy(r->log[which] + r->n_log[which], p, n);
    r->n_log[which] += n;
}

static void log_info(struct record *r, int which, const struct token_info *t)
{
    log_bytes(r, which, &t->id, sizeof t->id);
    log_bytes(r, which, &t->logprob, sizeof t->logprob);
    log_bytes(r, which, &t->n_top, sizeof t->n_top);
    for (int i = 0; i < t->n_top; i++) {
        log_bytes(r, which, &t->top[i].id, sizeof t->top[i].id);
        log_bytes(r, which, &t->top[i].logprob, sizeof t->top[i].logprob);
    }
}

static int on_prompt(void *arg, int pos, const struct token_info *t, struct err *e)
{
    struct record *r = arg;
    (void)e;
    assert_true(r->request.prompt_top >= 0 && pos >= 1 && pos >= r->request.score_from &&
                t->id == r->prompt[pos]);
    assert_true(pos > r->last_pos && !r->n_done);
    for (int c = 0; c < MAX_CHOICES; c++) assert_int_equal(r->n_tokens[c], 0);
    r->last_pos = pos;
    log_bytes(r, MAX_CHOICES, &pos, sizeof pos);
    log_info(r, MAX_CHOICES, t);
    return 0;
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct record *r = arg;
    (void)e;
    assert_true(choice >= 0 && choice < r->request.n_choices && !r->n_finished[choice] &&
                !r->n_done);
    log_info(r, choice, t);
    return ++r->n_tokens[choice] == r->stop_after;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    struct record *r = arg;
    (void)e;
    assert_true(!r->n_finished[choice] && !r->n_done);
    r->n_finished[choice]++;
    r->why[choice] = why;
    log_bytes(r, choice, &why, sizeof why);
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct record *r = arg;
    (void)e;
    assert_int_equal(r->n_done++, 0);
    if (msg) snprintf(r->msg, sizeof r->msg, "%s", msg);
    else
        for (int c = 0; c < r->request.n_choices; c++) assert_int_equal(r->n_finished[c], 1);
    return 0;
}

static const struct request_sink sink = {.prompt_token = on_prompt,
                                         .token = on_token,
                                         .finished = on_finished,
                                         .done = on_done};

static void clear(struct record *r)
{
    memset(r->n_log, 0, sizeof r->n_log);
    memset(r->n_tokens, 0, sizeof r->n_tokens);
    memset(r->n_finished, 0, sizeof r->n_finished);
    r->n_done = r->last_pos = 0;
    r->msg[0] = 0;
}

static void random_sampling(struct record *r)
{
    struct sampler_params *p = &r->request.sampling;
    *p = (struct sampler_params){.temperature = below(3) ? 0.3 + 0.1 * below(10) : 0,
                                 .top_k = below(2) ? 0 : 1 + below(40),
                                 .top_p = below(2) ? 1 : 0.5 + 0.05 * below(10),
                                 .min_p = below(3) ? 0 : 0.05,
                                 .typical_p = below(4) ? 1 : 0.9,
                                 .repetition_penalty = below(3) ? 1 : 1.2,
                                 .presence_penalty = below(3) ? 0 : 0.5,
                                 .frequency_penalty = below(3) ? 0 : 0.3,
                                 .min_tokens = below(3) ? 0 : below(40),
                                 .ignore_eos = !below(4),
                                 .seed = (uint64_t)below(3)};
    if (!below(3))
        p->dry = (struct dry_params){
            .multiplier = 2, .base = 1.5, .allowed_length = 1 + below(2), .last_n = below(2) * 30};
    if (!below(3)) p->penalty_last_n = 1 + below(20);
    if (!below(3)) p->xtc_probability = 0.5, p->xtc_threshold = 0.01;
    if (!below(4)) p->top_n_sigma = 1.5;
    if (!below(4)) p->mirostat = 1, p->mirostat_tau = 3, p->mirostat_eta = 0.2;
    for (int i = 0; !below(4) && i < SAMPLER_STEPS; i++) p->step[p->n_steps++] = (uint8_t)i;
    for (int i = p->n_steps - 1; i > 0; i--) { /* any order */
        int j = below(i + 1);
        uint8_t t = p->step[i];
        p->step[i] = p->step[j];
        p->step[j] = t;
    }
    r->bias[0] = (struct sampler_bias){model.config.eos[0],
                                       (float)below(3)}; /* so that some answers end by EOS */
    r->bias[1] = (struct sampler_bias){below(VOCAB - 3) + 3, -INFINITY};
    p->bias = r->bias;
    p->n_bias = below(3);
    r->stop_ids[0] = 3 + below(VOCAB - 3);
    r->stop_ids[1] = 3 + below(VOCAB - 3);
    p->stop_ids = r->stop_ids;
    p->n_stop_ids = below(2);
    r->stop_after = below(3) ? 0 : 1 + below(12);
    if (r->request.stream % 4) return; /* greedy: the host needs only the argmax */
    *p = (struct sampler_params){
        .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .ignore_eos = p->ignore_eos};
    r->request.n_top = -1;
}

/* Half of the prompts share a beginning; some of them share one page, a few are identical. */
static struct record *random_records(int n, uint64_t seed)
{
    struct record *all = calloc((size_t)n, sizeof *all);
    int32_t system[SYSTEM];
    random_state = seed;
    for (int i = 0; i < SYSTEM; i++) system[i] = below(VOCAB);
    for (int i = 0; i < n; i++) {
        struct record *r = &all[i];
        int n_prompt = 1 + below(below(4) ? 40 : 150), alike = below(2)   ? SYSTEM
                                                               : below(2) ? below(SYSTEM)
                                                                          : 0;
        for (int j = 0; j < n_prompt; j++) r->prompt[j] = j < alike ? system[j] : below(VOCAB);
        r->request = (struct request){.prompt = r->prompt,
                                      .n_prompt = n_prompt,
                                      .n_choices = below(4) ? 1 : 1 + below(MAX_CHOICES),
                                      .max_tokens = below(10)  ? 1 + below(40)
                                                    : below(2) ? 0
                                                               : 1000,
                                      .n_top = below(2) ? -1 : below(6),
                                      .prompt_top = below(3) ? -1 : below(4),
                                      .score_from = below(2) ? 0 : below(60),
                                      .stream = (uint64_t)i,
                                      .sink = &sink,
                                      .arg = r};
        random_sampling(r);
        if (below(2)) { /* some answers are long, so that pages run out */
            r->request.n_prompt = 1 + r->request.n_prompt / 4;
            r->request.max_tokens = 50 + below(40);
            r->request.sampling.ignore_eos = 1;
            r->request.sampling.n_stop_ids = r->stop_after = 0;
        }
        r->log_size = N_CTX * (2 * sizeof(int) + 8 + sizeof(int) + 6 * 12) + 64;
        for (int c = 0; c <= MAX_CHOICES; c++) r->log[c] = malloc(r->log_size);
    }
    return all;
}

static void free_records(struct record *all, int n)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c <= MAX_CHOICES; c++) free(all[i].log[c]);
    free(all);
}

static uint64_t hash_log(const char *log, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)log[i]) * 0x100000001b3u;
    return h;
}

/* A hash of all results of a request. */
static uint64_t digest(const struct record *r)
{
    uint64_t h = 0;
    for (int c = 0; c <= MAX_CHOICES; c++) h = h * 31 + hash_log(r->log[c], r->n_log[c]);
    return h;
}

#endif
