#include "cli/modes/eval/score.h"

#include "cli/run.h"
#include "core/base/progress.h"

#include <stdio.h>
#include <string.h>

int scorer_open(struct scorer *s, const struct options *o, struct err *e)
{
    memset(s, 0, sizeof *s);
    if (engine_open_model(&s->engine, o->model, &o->engine, e)) return -1;
    if (!s->engine.tokenizer)
        return err_set(e, "%s: has no tokenizer: its checkpoint came without one", o->model);
    s->n_ctx = engine_context(&s->engine);
    if (engine_open(&s->engine, e)) return -1;
    run_say_variants(o, &s->engine);
    run_say_slow(o);
    return 0;
}

void scorer_close(struct scorer *s) { engine_close(&s->engine); }

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    struct score *c = arg;
    (void)e;
    c->logprob[pos - c->from] = t->logprob;
    return 0;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    (void)arg, (void)choice, (void)why, (void)e;
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct score *c = arg;
    return msg ? err_set(e, "%s", msg) : c->scorer->done(c->scorer->arg, c, e);
}

static const struct request_sink sink = {.prompt_token = on_prompt_token,
                                         .finished = on_finished,
                                         .done = on_done};

static void prepare(struct scorer *s, struct score *c)
{
    CHECK(c->from >= 1 && c->from < c->n);
    c->scorer = s;
    c->request = (struct request){.prompt = c->id,
                                  .n_prompt = c->n,
                                  .n_choices = 1,
                                  .n_top = -1,
                                  .prompt_top = 0,
                                  .score_from = c->from,
                                  .sink = &sink,
                                  .arg = c};
}

static int run(struct scorer *s, int (*next)(void *arg, struct request **r, struct err *e),
               void *arg, struct err *e)
{
    for (int busy = 1;
         ;) { /* an idle scheduler is asked again: its last done() may have made next() give more */
        int submitted = 0;
        if (run_stop_requested) return 1;
        for (; replicas_wants(s->engine.replicas) > 0; submitted = 1) {
            struct request *r = NULL;
            if (next(arg, &r, e)) return -1;
            if (!r) break;
            if (replicas_submit(s->engine.replicas, r, e)) return -1;
        }
        if (!busy && !submitted) return 0;
        busy = replicas_step(s->engine.replicas, e);
        if (busy < 0) return -1;
    }
}

int scorer_compute(struct scorer *s, int (*next)(void *arg, struct request **r, struct err *e),
                   void *arg, struct err *e)
{
    char words[2][80];
    snprintf(words[0], sizeof words[0],
             "%sstopping after this step; a second signal ends at once\n", progress_erase());
    snprintf(words[1], sizeof words[1], "%sstopped at once\n", progress_erase());
    run_say_on_signal(words[0], words[1]);
    int rc = run(s, next, arg, e);
    run_say_on_signal(NULL, NULL);
    return rc;
}

struct giver {
    struct scorer *scorer;
    int (*next)(void *arg, struct score **score, struct err *e);
    void *arg;
};

static int next_score(void *arg, struct request **r, struct err *e)
{
    struct giver *g = arg;
    struct score *c = NULL;
    if (g->next(g->arg, &c, e)) return -1;
    if (!c) return 0;
    prepare(g->scorer, c);
    *r = &c->request;
    return 0;
}

int scorer_run(struct scorer *s, int (*next)(void *arg, struct score **score, struct err *e),
               int (*done)(void *arg, struct score *score, struct err *e), void *arg, struct err *e)
{
    struct giver g = {s, next, arg};
    s->done = done;
    s->arg = arg;
    return scorer_compute(s, next_score, &g, e);
}
