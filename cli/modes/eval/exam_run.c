#include "cli/modes/eval/exam_run.h"

#include "cli/modes/eval/exam_tokens.h"
#include "cli/modes/eval/fp32_softmax.h"
#include "core/base/progress.h"
#include "core/sample/logits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sitting;

/* A choice, or the whole answer that is generated. */
struct part {
    struct request request; /* of a leader */
    struct sitting *sitting;
    int32_t *id; /* [n] those that the model reads; of a choice also the last one, which is only
                    predicted */
    int n, from; /* first one that is predicted */
    int leader;  /* the part that reads the same tokens, perhaps itself */
    struct part *next; /* in the list of those that wait for a place */
};

/* A question that is being answered. */
struct sitting {
    struct run *run;
    struct exam *exam;
    int exam_at, q;
    int n_parts, n_left; /* leaders that are not done */
    int32_t *generated;  /* [most_tokens] */
    int n_generated;
    struct sitting *next, **link; /* in the list of those that run */
    struct part part[];
};

/* A text that ends an answer is looked for in so many of the last tokens. */
struct stop_text {
    char *text;
    int n_tokens;
};

struct exam_state {
    int n_begun, first_is_done;
    struct stop_text stop[TASK_MOST_STOPS + 1]; /* [n_stops] made with the first question */
    int n_stops;
};

struct run {
    struct exam_run_ask *ask;
    const struct tokenizer *t;
    int n_ctx, vocab;
    struct exam_state *exam; /* [ask->n] */
    int first;               /* exams before it have begun all questions */
    struct sitting *running;
    struct part *ready, **ready_end;
    int n_all;
    struct progress progress;
};

/* ---- tokens */

static int check_vocabulary(const struct run *r, const int32_t *id, int n, struct err *e)
{
    for (int i = 0; i < n; i++)
        if (id[i] >= r->vocab)
            return err_set(e, "token id %d: the model's vocabulary ends at %d", id[i],
                           r->vocab - 1);
    return 0;
}

/* Makes the part of IDS, whose last ones count where they are too many. */
static int take_ids(const struct run *r, struct part *p, struct tok_ids *ids, int from, int most,
                    struct err *e)
{
    int cut = (int)ids->n > most ? (int)ids->n - most : 0;
    p->id = ids->id;
    p->n = (int)ids->n - cut;
    p->from = from - cut;
    memmove(p->id, p->id + cut, (size_t)p->n * sizeof *p->id);
    *ids = (struct tok_ids){0};
    if (p->from < 1)
        return err_set(e, "a choice has %d tokens, the context %d", p->n - p->from, r->n_ctx);
    return check_vocabulary(r, p->id, p->n, e);
}

/* The tokens of choice I; those of another choice before it may be the same but the last. */
static int prepare_choice(struct sitting *s, int i, struct err *e)
{
    struct run *r = s->run;
    struct part *p = &s->part[i];
    struct tok_ids ids = {0};
    int from = 0;
    char *context = exam_context(s->exam, s->q, i, e),
         *continuation = context ? exam_continuation(s->exam, s->q, i, e) : NULL;
    int rc = continuation ? exam_encode_pair(r->t, context, continuation, &ids, &from, e) : -1;
    free(context);
    free(continuation);
    if (!rc) rc = take_ids(r, p, &ids, from, r->n_ctx + 1, e);
    tok_ids_free(&ids);
    p->leader = i;
    for (int k = 0; k < i && !rc && p->leader == i; k++) {
        const struct part *other = &s->part[k];
        if (other->leader == k && other->n == p->n && other->from == p->from &&
            !memcmp(other->id, p->id, (size_t)(p->n - 1) * sizeof *p->id))
            p->leader = k;
    }
    return rc;
}

static int prepare_prompt(struct sitting *s, struct err *e)
{
    struct run *r = s->run;
    const int most = r->n_ctx - s->exam->task->most_tokens;
    struct tok_ids ids = {0};
    if (most < 1)
        return err_set(e, "-c %d: %s generates %d tokens", r->n_ctx, s->exam->name,
                       s->exam->task->most_tokens);
    s->generated = malloc((size_t)s->exam->task->most_tokens * sizeof *s->generated);
    if (!s->generated) return err_memory(e);
    char *context = exam_context(s->exam, s->q, 0, e);
    int rc = context ? exam_encode(r->t, context, strlen(context), &ids, e) : -1;
    free(context);
    if (!rc) rc = take_ids(r, &s->part[0], &ids, (int)ids.n, most, e);
    tok_ids_free(&ids);
    return rc;
}

/* ---- stop texts */

/* Takes over TEXT. */
static int add_stop(const struct run *r, struct exam_state *x, char *text, struct err *e)
{
    struct tok_ids ids = {0};
    if (!text) return err_memory(e);
    for (int i = 0; i < x->n_stops; i++)
        if (!strcmp(x->stop[i].text, text)) return free(text), 0;
    x->stop[x->n_stops++].text = text;
    int rc = tok_encode(r->t, text, strlen(text), 0, &ids, e);
    x->stop[x->n_stops - 1].n_tokens = (int)ids.n + 2;
    tok_ids_free(&ids);
    return rc;
}

/* The task's stop texts, and EOS as text. */
static int make_stops(const struct run *r, struct exam_state *x, const struct task *task,
                      struct err *e)
{
    const int32_t eos = tok_eos(r->t);
    char *text = NULL;
    size_t bytes;
    for (int i = 0; i < TASK_MOST_STOPS && task->stop[i]; i++)
        if (add_stop(r, x, strdup(task->stop[i]), e)) return -1;
    if (eos >= 0 && tok_decode(r->t, &eos, 1, 0, &text, &bytes, e)) return -1;
    if (text && *text) return add_stop(r, x, text, e);
    free(text);
    return 0;
}

/* 1: a stop text is among the last tokens. */
static int is_stopped(const struct sitting *s, struct err *e)
{
    const struct exam_state *x = &s->run->exam[s->exam_at];
    int n = s->n_generated, found = 0;
    for (int i = 0; i < x->n_stops && !found; i++) {
        int last = n < x->stop[i].n_tokens ? n : x->stop[i].n_tokens;
        char *text;
        size_t bytes;
        if (tok_decode(s->run->t, s->generated + n - last, (size_t)last, 0, &text, &bytes, e))
            return -1;
        found = strstr(text, x->stop[i].text) != NULL;
        free(text);
    }
    return found;
}

/* The text of the generated tokens up to the first of each stop text. */
static int make_text(struct sitting *s, struct err *e)
{
    const struct exam_state *x = &s->run->exam[s->exam_at];
    char *text;
    size_t bytes;
    if (tok_decode(s->run->t, s->generated, (size_t)s->n_generated, 1, &text, &bytes, e)) return -1;
    for (size_t i = 0; i < bytes; i++)
        if (!text[i]) text[i] = 1; /* the text goes on behind a zero byte */
    for (int i = 0; i < x->n_stops; i++) {
        char *hit = strstr(text, x->stop[i].text);
        if (hit) *hit = 0;
    }
    s->exam->question[s->q].text = text;
    return 0;
}

/* ---- results of requests */

static int on_logits(void *arg, int pos, const float *logits, struct err *e)
{
    const struct part *leader = arg;
    struct sitting *s = leader->sitting;
    struct exam_question *q = &s->exam->question[s->q];
    int vocab = s->run->vocab, best = logits_argmax(logits, vocab);
    if (best < 0)
        return err_set(e, "the model's results are not finite: the checkpoint is damaged or "
                          "overflows");
    const float max = logits[best], log_sum = fp32_softmax_log_sum(logits, vocab, max);
    for (int i = 0; i < s->n_parts; i++) {
        const struct part *p = &s->part[i];
        if (&s->part[p->leader] != leader) continue;
        int32_t id = p->id[pos + 1];
        q->log_likelihood[i] += (logits[id] - max) - log_sum;
        q->is_greedy[i] &= id == best;
    }
    return 0;
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct sitting *s = ((struct part *)arg)->sitting;
    (void)choice;
    s->generated[s->n_generated++] = t->id;
    return is_stopped(s, e);
}

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    (void)arg, (void)pos, (void)t, (void)e;
    return 0;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)arg, (void)choice, (void)why, (void)e;
    return 0;
}

static void show_progress(struct run *r, const char *name)
{
    char done[64], left[PROGRESS_TEXT];
    int n_done = r->ask->n_done;
    if (!progress_due(&r->progress)) return;
    snprintf(done, sizeof done, "%d of %d questions", n_done, r->n_all);
    progress_left(&r->progress, n_done, r->n_all, left);
    progress_show(&r->progress, (const char *const[]){done, left, name}, 3);
}

static void put_ready(struct run *r, struct part *p)
{
    p->next = NULL;
    *r->ready_end = p;
    r->ready_end = &p->next;
}

static void free_sitting(struct sitting *s)
{
    *s->link = s->next;
    if (s->next) s->next->link = s->link;
    for (int i = 0; i < s->n_parts; i++) free(s->part[i].id);
    free(s->generated);
    free(s);
}

static int end_sitting(struct sitting *s, struct err *e)
{
    struct run *r = s->run;
    struct exam *x = s->exam;
    int rc = x->task->most_tokens ? make_text(s, e) : 0;
    if (!rc) rc = exam_judge(x, s->q, e);
    r->exam[s->exam_at].first_is_done |= !s->q;
    r->ask->n_done++;
    free_sitting(s);
    show_progress(r, x->name);
    return rc;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct part *p = arg;
    struct sitting *s = p->sitting;
    if (msg) return err_set(e, "%s", msg);
    if (p == s->part)
        for (int i = 1; i < s->n_parts; i++)
            if (s->part[i].leader == i) put_ready(s->run, &s->part[i]);
    return --s->n_left ? 0 : end_sitting(s, e);
}

static const struct request_sink choice_sink = {.prompt_token = on_prompt_token,
                                                .prompt_logits = on_logits,
                                                .token = on_token,
                                                .finished = on_finished,
                                                .done = on_done},
                                 answer_sink = {.prompt_token = on_prompt_token,
                                                .token = on_token,
                                                .finished = on_finished,
                                                .done = on_done};

/* ---- requests */

static void make_requests(struct sitting *s)
{
    const int most = s->exam->task->most_tokens;
    for (int i = 0; i < s->n_parts; i++) {
        struct part *p = &s->part[i];
        p->sitting = s;
        s->n_left += p->leader == i;
        p->request = (struct request){.prompt = p->id,
                                      .n_prompt = p->n - !most,
                                      .n_choices = 1,
                                      .max_tokens = most,
                                      .n_top = -1,
                                      .prompt_top = -1,
                                      .show_from = most ? 0 : p->from - 1,
                                      .sampling = *s->run->ask->sampling,
                                      .sink = most ? &answer_sink : &choice_sink,
                                      .arg = p};
    }
}

/* Begins question Q: *r is its first request. */
static int begin_sitting(struct run *run, int exam_at, int q, struct request **r, struct err *e)
{
    struct exam *x = &run->ask->x[exam_at];
    int n = x->task->most_tokens ? 1 : x->question[q].item.n_choices, rc = 0;
    struct sitting *s = calloc(1, sizeof *s + (size_t)n * sizeof *s->part);
    if (!s) return err_memory(e);
    *s = (struct sitting){.run = run, .exam = x, .exam_at = exam_at, .q = q, .n_parts = n};
    s->next = run->running;
    s->link = &run->running;
    if (s->next) s->next->link = &s->next;
    run->running = s;
    if (x->task->most_tokens && !q) rc = make_stops(run, &run->exam[exam_at], x->task, e);
    if (x->task->most_tokens && !rc) rc = prepare_prompt(s, e);
    for (int i = 0; !x->task->most_tokens && i < n && !rc; i++) rc = prepare_choice(s, i, e);
    if (rc) {
        free_sitting(s);
        return err_prefix(e, "%s line %d", x->docs.file->path, x->docs.doc[q]->line);
    }
    make_requests(s);
    *r = &s->part[0].request;
    return 0;
}

static int next_request(void *arg, struct request **request, struct err *e)
{
    struct run *r = arg;
    struct part *p = r->ready;
    if (p) {
        if (!(r->ready = p->next)) r->ready_end = &r->ready;
        *request = &p->request;
        return 0;
    }
    for (int i = r->first; i < r->ask->n; i++) {
        struct exam_state *exam = &r->exam[i];
        const struct exam *x = &r->ask->x[i];
        int over = exam->n_begun == x->n;
        if (over && i == r->first) r->first++;
        if (over || (exam->n_begun && !exam->first_is_done && exam_shares_examples(x))) continue;
        return begin_sitting(r, i, exam->n_begun++, request, e);
    }
    return 0;
}

int exam_run(struct exam_run_ask *ask, struct err *e)
{
    const struct engine *g = &ask->scorer->engine;
    struct run r = {
        .ask = ask, .t = g->tokenizer, .n_ctx = ask->scorer->n_ctx, .vocab = g->model.config.vocab};
    r.ready_end = &r.ready;
    ask->n_done = 0;
    for (int i = 0; i < ask->n; i++) r.n_all += ask->x[i].n;
    r.exam = calloc((size_t)ask->n, sizeof *r.exam);
    if (!r.exam) return err_memory(e);
    progress_begin(&r.progress);
    int rc = scorer_compute(ask->scorer, next_request, &r, e);
    progress_clear();
    while (r.running) free_sitting(r.running);
    for (int i = 0; i < ask->n; i++)
        for (int k = 0; k < r.exam[i].n_stops; k++) free(r.exam[i].stop[k].text);
    free(r.exam);
    return rc;
}
