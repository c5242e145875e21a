/* batch_estimate.c: --estimate: what a batch would compute, and by a short calibration how long
 * that takes, without running it. */
#include "cli/modes/batch/batch.h"

#include "cli/modes/batch/calibrate.h"
#include "cli/modes/batch/prefixes.h"
#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, FAILED = 1, SOME_FAILED = 3, STOPPED = 4 };

/* What the records would compute. */
struct totals {
    struct estimate_request *request; /* [n] choices */
    size_t n, cap;
    struct prefixes prefixes;
    uint64_t n_failed, n_prompt, n_computed, n_shared, n_generated, n_greedy, n_sampled;
    struct sampler_params sampling; /* of a record like most */
    int n_top;
};

static int add_choice(struct totals *t, struct estimate_request r, struct err *e)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct estimate_request *grown = realloc(t->request, cap * sizeof *grown);
        if (!grown) return err_memory(e);
        t->request = grown;
        t->cap = cap;
    }
    t->request[t->n++] = r;
    return 0;
}

/* Tokens of a prompt that may come out of the prefix cache: what shows a result is computed. */
static int most_shared(const struct request *r)
{
    if (r->prompt_top >= 0) return 0;
    return r->hidden_end ? r->hidden_from : r->n_prompt - 1;
}

static int add_prompt(struct batch_run *b, struct totals *t, const struct request *r, struct err *e)
{
    int n = r->n_prompt, shared = 0, most = b->env.n_ctx - n,
        generated = r->max_tokens < most ? r->max_tokens : most;
    if (!b->o->engine.no_prefix_cache &&
        prefixes_add(&t->prefixes, r->prompt, n, most_shared(r), &shared, e))
        return -1;
    for (int i = 0; i < r->n_choices && (i < 1 || generated); i++) {
        /* further choices have the full pages of the first */
        if (i) shared = (n - 1) / KV_PAGE * KV_PAGE;
        t->n_shared += (uint64_t)shared;
        t->n_computed += (uint64_t)(n - shared);
        if (add_choice(t, (struct estimate_request){n, n - shared, generated}, e)) return -1;
    }
    t->n_generated += (uint64_t)generated * (uint64_t)r->n_choices;
    if (!generated) return 0;
    int greedy = r->sampling.temperature < 1e-5;
    uint64_t *like = greedy ? &t->n_greedy : &t->n_sampled;
    ++*like;
    if (2 * *like < t->n_greedy + t->n_sampled) return 0;
    t->sampling = r->sampling;
    t->n_top = r->n_top;
    return 0;
}

static int count(struct batch_run *b, struct totals *t, struct err *e)
{
    struct input_line line;
    uint64_t slot;
    int more;
    while ((more = batch_next(b, &line, &slot, e)) == 1) {
        struct job *j;
        struct refusal why;
        if (run_stop_requested) return STOPPED;
        int rc = job_open(&j, &b->env, &line, b->plain, &b->defaults, &why, e);
        if (!rc) rc = job_take_grammar(j, 1, &why, e);
        if (rc < 0) {
            job_close(j);
            return -1;
        }
        t->n_failed += rc != 0;
        if (!rc) t->n_prompt += (uint64_t)job_prompt_tokens(j);
        for (int i = 0; !rc && i < j->n_prompts; i++)
            rc = add_prompt(b, t, &j->prompt[i].request, e);
        batch_see_id(b, &j->record);
        job_close(j);
        if (rc < 0) return -1;
    }
    return more;
}

/* ---- time */

struct found {
    struct estimate_costs costs;
    struct estimate_times times;
    struct estimate_limits limits;
    double load, read; /* seconds until steps can begin; of reading the records */
    int pages_wanted;  /* by the longest requests that run at once */
};

static int mean(uint64_t sum, size_t n) { return n ? (int)((sum + n / 2) / n) : 0; }

/* The run as the calibration has to be. */
static struct calibrate_like likeness(const struct batch_run *b, const struct totals *t,
                                      const struct estimate_limits *l)
{
    uint64_t computed = 0, contexts = 0, generated = 0;
    for (size_t i = 0; i < t->n; i++) {
        const struct estimate_request *r = &t->request[i];
        computed += (uint64_t)r->n_computed;
        generated += (uint64_t)r->n_generated;
        contexts += (uint64_t)r->n_generated * (uint64_t)(r->n_prompt + r->n_generated / 2);
    }
    struct calibrate_like like = {
        .n_prompt = mean(computed, t->n),
        .context = generated ? (int)(contexts / generated) + 1 : 0,
        .n_seqs = t->n < (size_t)l->n_seqs ? (int)t->n : l->n_seqs,
        .n_batch = l->n_batch,
        .n_ctx = b->env.n_ctx,
        .n_top = t->n_top,
        .sampling = t->sampling,
    };
    like.sampling.dry.breakers = NULL;
    like.sampling.dry.multiplier = 0;
    like.sampling.stop_ids = NULL;
    like.sampling.bias = NULL;
    like.sampling.allowed = NULL;
    like.sampling.bad = NULL;
    like.sampling.n_stop_ids = like.sampling.n_bias = like.sampling.n_bad = 0;
    like.sampling.ignore_eos = 1;
    like.sampling.min_tokens = 0;
    while (like.n_seqs > 1 && (int64_t)like.n_seqs * kv_pages(like.context + KV_PAGE) >
                                  b->engine.forward.options.n_pages)
        like.n_seqs /= 2;
    return like;
}

static int by_pages(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

/* Pages that the n_seqs longest requests have at their ends. */
static int count_pages(const struct totals *t, int n_seqs, int *pages, struct err *e)
{
    int *all = malloc((t->n + 1) * sizeof *all);
    int64_t sum = 0;
    if (!all) return err_memory(e);
    for (size_t i = 0; i < t->n; i++)
        all[i] = kv_pages(t->request[i].n_prompt + t->request[i].n_generated);
    qsort(all, t->n, sizeof *all, by_pages);
    for (size_t i = 0; i < t->n && i < (size_t)n_seqs; i++) sum += all[i];
    free(all);
    *pages = sum < INT32_MAX ? (int)sum : INT32_MAX;
    return 0;
}

/* The requests of one of N cards, all alike: every N-th. */
static int estimate_card(const struct totals *t, size_t n_cards, struct found *f, struct err *e)
{
    size_t n = 0;
    struct estimate_request *own = malloc((t->n + 1) * sizeof *own);
    if (!own) return err_memory(e);
    for (size_t i = 0; i < t->n; i += n_cards) own[n++] = t->request[i];
    int rc = estimate_run(own, n, &f->limits, &f->costs, &f->times, e);
    free(own);
    return rc;
}

static int find_time(struct batch_run *b, const struct totals *t, struct found *f, struct err *e)
{
    struct engine_options own = b->o->engine;
    double start = clock_now();
    own.speculate = "off"; /* made-up texts say nothing about drafts, and are not kept on disk */
    own.prefix_dir = own.prefix_size = NULL;
    engine_use(&b->engine, &own);
    int rc = engine_open(&b->engine, e);
    f->load += clock_now() - start;
    f->limits = (struct estimate_limits){b->engine.n_seqs, own.n_batch,
                                         rc ? 0 : b->engine.forward.options.n_pages};
    if (!rc) rc = count_pages(t, b->engine.n_seqs, &f->pages_wanted, e);
    if (!rc && t->n) {
        struct calibrate_like like = likeness(b, t, &f->limits);
        rc = calibrate(&b->engine, &like, &f->costs, e);
        if (!rc) rc = estimate_card(t, (size_t)replicas_n(b->engine.replicas), f, e);
    }
    engine_stop(&b->engine);
    engine_use(&b->engine, &b->o->engine);
    return rc;
}

/* ---- what is said */

static double seconds(const struct found *f)
{
    return f->load + f->read + f->times.prompts + f->times.answers;
}

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static double last_of(const struct estimate_curve *c, int *rows)
{
    *rows = c->n ? c->rows[c->n - 1] : 0;
    return c->n ? c->seconds[c->n - 1] * 1e3 : 0;
}

/* Nothing where no record is computed. */
static void print_calibration(const struct found *f)
{
    int prompt_rows, decode_rows;
    double prompt = last_of(&f->costs.prompt, &prompt_rows),
           decode = last_of(&f->costs.decode, &decode_rows);
    if (!prompt_rows) return;
    printf("calibrated on this machine: %.2f ms a step of %d prompt tokens", prompt, prompt_rows);
    if (decode_rows)
        printf(", %.2f ms a step of %d answer%s at context %d, without drafts", decode, decode_rows,
               units_s((uint64_t)decode_rows), f->costs.context);
    printf("\n");
}

static void print(const struct batch_run *b, const struct totals *t, const struct found *f)
{
    const struct engine_memory *m = &b->engine.memory;
    printf("%llu record%s, %llu would fail\n", (unsigned long long)b->n_slots, units_s(b->n_slots),
           (unsigned long long)t->n_failed);
    printf("prompt tokens %llu, %llu to be computed, the others are in shared beginnings%s; "
           "generated tokens at most %llu\n",
           (unsigned long long)t->n_prompt, (unsigned long long)t->n_computed,
           t->prefixes.is_full ? " (of the first 33554432 pages)" : "",
           (unsigned long long)t->n_generated);
    printf("time for all of them about %.1f s: load %.1f s, reading %.1f s, prompts %.1f s, "
           "answers %.1f s\n",
           seconds(f), f->load, f->read, f->times.prompts, f->times.answers);
    print_calibration(f);
    printf("memory %.0f MiB: model %.0f MiB, KV cache %.0f MiB (%d pages; the longest records at "
           "once need %d), %ssteps %.0f MiB\n",
           mib(m->model + m->cache + m->states + m->steps), mib(m->model), mib(m->cache),
           f->limits.n_pages, f->pages_wanted, m->states ? "states, " : "", mib(m->steps));
}

static void put_count(struct out *o, const char *name, uint64_t v)
{
    out_text(o, name);
    out_int(o, (int64_t)v);
}

static void put_real(struct out *o, const char *name, double v)
{
    out_text(o, name);
    out_real(o, v);
}

static void put_curve(struct out *o, const char *name, const struct estimate_curve *c)
{
    out_text(o, name);
    for (int i = 0; i < c->n; i++) {
        put_count(o, i ? ",{\"rows\":" : "{\"rows\":", (uint64_t)c->rows[i]);
        put_real(o, ",\"seconds\":", c->seconds[i]);
        out_text(o, "}");
    }
    out_text(o, "]");
}

static int write_report(struct batch_run *b, const struct totals *t, const struct found *f,
                        struct err *e)
{
    const struct engine_memory *m = &b->engine.memory;
    struct out o = {0};
    put_count(&o, "{\"records\":", b->n_slots);
    put_count(&o, ",\"errors\":", t->n_failed);
    put_count(&o, ",\"prompt_tokens\":", t->n_prompt);
    put_count(&o, ",\"computed_prompt_tokens\":", t->n_computed);
    put_count(&o, ",\"cached_prompt_tokens\":", t->n_shared);
    put_count(&o, ",\"completion_tokens_at_most\":", t->n_generated);
    put_real(&o, ",\"seconds\":", seconds(f));
    put_real(&o, ",\"load_seconds\":", f->load);
    put_real(&o, ",\"read_seconds\":", f->read);
    put_real(&o, ",\"prompt_seconds\":", f->times.prompts);
    put_real(&o, ",\"answer_seconds\":", f->times.answers);
    put_count(&o, ",\"steps\":", f->times.n_steps);
    put_curve(&o, ",\"prompt_steps\":[", &f->costs.prompt);
    put_curve(&o, ",\"answer_steps\":[", &f->costs.decode);
    put_count(&o, ",\"model_bytes\":", m->model);
    put_count(&o, ",\"kv_cache_bytes\":", m->cache);
    put_count(&o, ",\"state_bytes\":", m->states);
    put_count(&o, ",\"step_bytes\":", m->steps);
    put_count(&o, ",\"kv_pages\":", (uint64_t)f->limits.n_pages);
    put_count(&o, ",\"kv_pages_wanted\":", (uint64_t)f->pages_wanted);
    out_text(&o, "}\n");
    int rc = out_failed(&o) ? err_memory(e) : 0;
    if (!rc) {
        fwrite(o.p, 1, o.n, side_begin(&b->report));
        rc = side_close(&b->report, e);
    }
    out_free(&o);
    return rc;
}

int batch_estimate(struct batch_run *b, struct err *e)
{
    struct totals t = {.n_top = -1};
    struct found f = {.load = clock_process()}; /* of model and tokenizer, until here */
    double start = clock_now();
    int rc = side_open(&b->report, "--report", b->o->report, e) ? -1 : count(b, &t, e);
    f.read = clock_now() - start;
    if (rc == STOPPED) fprintf(stderr, "stopped before the end of the input\n");
    if (!rc) rc = find_time(b, &t, &f, e);
    if (!rc) print(b, &t, &f);
    if (!rc && b->o->report) rc = write_report(b, &t, &f, e);
    if (!rc && fflush(stdout)) rc = err_sys(e, "cannot write to stdout");
    uint64_t n_failed = t.n_failed;
    prefixes_free(&t.prefixes);
    free(t.request);
    return rc < 0 ? FAILED : rc ? rc : n_failed ? SOME_FAILED : OK;
}
