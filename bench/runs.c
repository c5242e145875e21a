/* runs.c: prompts and generations as opt4gptq-run --temp 0 computes them, without text. The
 * repetitions of all tests take turns: a machine that slows down for a while slows all of them. */
#include "bench/bench.h"
#include "bench/drafts.h"
#include "bench/setup.h"
#include "bench/stats.h"
#include "backend-cpu/cpu.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/pool.h"
#include "core/base/progress.h"
#include "core/base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So many that the time until all GPUs have something to do, and that at the end, is a small part.
 */
enum { ROUNDS = 16 };

struct test {
    struct setup *setup;
    int n_prompt, n_gen; /* one of them is 0 */
    int depth, n_parallel;
    int drafts; /* of a generation: tokens of each draft */
    double accept;
    int n_rounds; /* prompts that a microbatch computes one behind another */
    time_t start;
    double *wall, *cpu; /* [repetitions] seconds */
};

struct tests {
    const struct bench_options *o;
    struct setups setups;
    struct test *test;
    int n;
};

/* Between steps, as the scheduler does. */
static void heed_neighbours(const struct test *t)
{
    struct pool *pool = forward_pool(&t->setup->forward);
    if (pool) pool_heed(pool);
}

/* Steps of one prompt, or of one round of a generation. */
static int n_chunks(const struct test *t, int n_batch)
{
    return (t->n_prompt + n_batch - 1) / n_batch;
}

static int n_steps(const struct test *t, int n_batch)
{
    return t->n_prompt ? t->n_rounds * n_chunks(t, n_batch) : t->n_gen;
}

/* Step i of a microbatch that has a share of the sequences, and its results. */
static struct step_shape shape_of(const struct test *t, int microbatch, int i, int n_batch,
                                  enum setup_output *output)
{
    const int n = t->setup->n_microbatches,
              n_seqs = t->n_parallel / n + (microbatch < t->n_parallel % n);
    *output = SETUP_BEST;
    if (!t->n_prompt) return (struct step_shape){n_seqs, 1, t->depth + i, 1};
    const int at = i % n_chunks(t, n_batch) * n_batch, left = t->n_prompt - at;
    if (left > n_batch) *output = SETUP_NOTHING;
    return (struct step_shape){n_seqs, left < n_batch ? left : n_batch, t->depth + at, 0};
}

/* Of each microbatch as many steps as the scheduler has are begun before the last one ends. */
static int run_steps(const struct test *t, int n, int n_batch, struct err *e)
{
    if (t->drafts) {
        const struct draft_run d = {t->n_parallel, t->depth, n, t->drafts, t->accept};
        return draft_run_steps(t->setup, &d, e);
    }
    const int ahead = forward_overlaps(&t->setup->forward),
              n_microbatches = t->setup->n_microbatches;
    for (int i = 0; i < n + ahead; i++) {
        heed_neighbours(t);
        for (int k = 0; k < n_microbatches && k < t->n_parallel; k++) {
            struct setup *microbatch = setup_microbatch(t->setup, k);
            enum setup_output output;
            struct step_shape s = shape_of(t, k, i, n_batch, &output);
            if (i < n) setup_begin(microbatch, &s, output);
            if (i >= ahead && forward_end(&microbatch->forward, e)) return -1;
        }
    }
    return 0;
}

static int run(struct test *t, int repetition, int n_batch, struct err *e)
{
    double wall = clock_now(), cpu = clock_process();
    if (repetition == 0) t->start = time(NULL);
    if (run_steps(t, n_steps(t, n_batch), n_batch, e)) return -1;
    t->wall[repetition] = clock_now() - wall;
    t->cpu[repetition] = clock_process() - cpu;
    return 0;
}

static int add_test(struct tests *t, const struct test *test, struct err *e)
{
    const size_t n = (size_t)t->o->repetitions;
    struct test *x = &t->test[t->n++];
    *x = *test;
    x->wall = malloc(n * sizeof *x->wall);
    x->cpu = malloc(n * sizeof *x->cpu);
    return x->wall && x->cpu ? 0 : err_memory(e);
}

/* All tests in the order of the table: what is run, then on what, then with how long drafts. */
static int list_tests(struct tests *t, struct err *e)
{
    const struct bench_options *o = t->o;
    size_t most = (size_t)(o->prompt.n + o->gen.n) *
                  (size_t)(o->depth.n * o->parallel.n * t->setups.n) * (1 + BENCH_DRAFTS);
    t->test = calloc(most, sizeof *t->test);
    if (!t->test) return err_memory(e);
    for (int i = 0; i < o->prompt.n + o->gen.n; i++)
        for (int d = 0; d < o->depth.n; d++)
            for (int p = 0; p < o->parallel.n; p++)
                for (int r = 0; r < t->setups.n; r++) {
                    int prompt = i < o->prompt.n,
                        n = prompt ? o->prompt.v[i] : o->gen.v[i - o->prompt.n];
                    if (!n || (prompt && p)) continue; /* a prompt for each microbatch */
                    const int n_microbatches = t->setups.setup[r].n_microbatches;
                    struct test x = {.setup = &t->setups.setup[r],
                                     .n_prompt = prompt ? n : 0,
                                     .n_gen = prompt ? 0 : n,
                                     .depth = o->depth.v[d],
                                     .n_parallel = prompt ? n_microbatches : o->parallel.v[p],
                                     .accept = o->spec_accept,
                                     .n_rounds = prompt && n_microbatches > 1 ? ROUNDS : 1};
                    for (; x.drafts <= (prompt || !x.accept ? 0 : BENCH_DRAFTS); x.drafts++)
                        if (add_test(t, &x, e)) return -1;
                }
    return 0;
}

static int largest(const struct args_ints *l)
{
    int most = 0;
    for (int i = 0; i < l->n; i++) most = l->v[i] > most ? l->v[i] : most;
    return most;
}

static struct setup_size size_of(const struct bench_options *o)
{
    int prompt = largest(&o->prompt), gen = largest(&o->gen), depth = largest(&o->depth),
        parallel = gen ? largest(&o->parallel) : 1;
    int rows = prompt < o->n_batch ? prompt : o->n_batch;
    struct setup_size s = {rows > parallel ? rows : parallel, parallel,
                           setup_pages(1, depth + prompt),
                           setup_pages(1, depth + (prompt > gen ? prompt : gen)), 0};
    if (setup_pages(parallel, depth + gen) > s.n_pages)
        s.n_pages = setup_pages(parallel, depth + gen);
    if (!gen || !o->spec_accept) return s;
    const int positions = draft_run_positions(depth, gen);
    s.drafts = BENCH_DRAFTS;
    if (setup_logits(&s) > s.max_rows) s.max_rows = setup_logits(&s);
    if (kv_pages(positions) > s.seq_pages) s.seq_pages = kv_pages(positions);
    if (setup_pages(parallel, positions) > s.n_pages) s.n_pages = setup_pages(parallel, positions);
    return s;
}

static double tokens_of(const struct test *t)
{
    return (double)t->n_parallel * (t->n_prompt ? t->n_prompt * t->n_rounds : t->n_gen);
}

static json_t *record(const struct test *t, const struct bench_options *o,
                      const struct bench_facts *facts)
{
    const struct setup_config *c = &t->setup->config;
    int n = o->repetitions;
    double tokens = tokens_of(t);
    char when[32];
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t->start, &tm));
    json_t *ns = json_array(), *ts = json_array();
    double rate[1000], wall[1000], cpu[1000]; /* as many as --repetitions allows */
    for (int i = 0; i < n; i++) {
        wall[i] = t->wall[i] * 1e9;
        cpu[i] = t->cpu[i] * 1e9;
        rate[i] = tokens / t->wall[i];
        json_array_append_new(ns, json_integer((json_int_t)wall[i]));
        json_array_append_new(ts, json_real(rate[i]));
    }
    struct stats w = stats_of(wall, n), r = stats_of(rate, n), p = stats_of(cpu, n);
    char machine[640];
    placement_describe(&t->setup->forward, machine, sizeof machine);
    json_t *j = json_pack(
        "{s:s s:s s:s s:s s:s s:o s:s s:I s:I s:i s:i s:i s:s s:s}", "build_version",
        OPT4GPTQ_VERSION, "build_commit", args_commit(), "cpu_info", facts->cpu_info, "gpu_info",
        c->backend == &backend_cpu ? "" : machine, "backends", o->backend, "model_filename",
        json_text(facts->filename), "model_type", facts->model_type, "model_size",
        (json_int_t)facts->model_bytes, "model_n_params", (json_int_t)facts->n_params, "n_batch",
        o->n_batch, "n_ubatch", o->n_batch, "n_threads", c->threads, "type_k",
        kv_formats[c->kv].name, "type_v", kv_formats[c->kv].name);
    json_t *more = json_pack(
        "{s:s s:s s:i s:i s:i s:i s:i s:s s:I s:I s:f s:f s:I s:f s:f s:f s:o s:o}", "act",
        act_formats[c->act].name, "cpu", c->cpu, "n_gpus", c->n_gpus, "n_parallel", t->n_parallel,
        "n_prompt", t->n_prompt, "n_gen", t->n_gen, "n_depth", t->depth, "test_time", when,
        "avg_ns", (json_int_t)w.mean, "stddev_ns", (json_int_t)w.deviation, "avg_ts", r.mean,
        "stddev_ts", r.deviation, "median_ns", (json_int_t)w.median, "median_ts", r.median,
        "min_ts", r.lowest, "max_ts", r.highest, "samples_ns", ns, "samples_ts", ts);
    json_object_update(j, more);
    json_decref(more);
    if (t->accept) json_object_set_new(j, "n_drafts", json_integer(t->drafts));
    if (o->cpu_time) json_object_set_new(j, "median_cpu_ns", json_integer((json_int_t)p.median));
    return j;
}

enum {
    COL_TEST,
    COL_ACT,
    COL_KV,
    COL_CPU,
    COL_THREADS,
    COL_GPUS,
    COL_MEDIAN,
    COL_RANGE,
    COL_MEAN,
    COL_CPU_TIME,
    N_COLUMNS
};

static int row(const struct test *t, const json_t *j, struct out *out, struct err *e)
{
    const struct setup_config *c = &t->setup->config;
    char depth[24] = "", parallel[24] = "", drafts[24] = "";
    if (out_row(out, e)) return -1;
    if (t->drafts) snprintf(drafts, sizeof drafts, ", drafts of %d", t->drafts);
    if (t->depth) snprintf(depth, sizeof depth, " @ d%d", t->depth);
    const int n = t->n_parallel * t->n_rounds;
    if (n > 1) snprintf(parallel, sizeof parallel, " x %d", n);
    out_cell(out, COL_TEST, "%s%d%s%s%s", t->n_prompt ? "pp" : "tg", t->n_prompt + t->n_gen,
             parallel, depth, drafts);
    out_cell(out, COL_ACT, "%s", act_formats[c->act].name);
    out_cell(out, COL_KV, "%s", kv_formats[c->kv].name);
    out_cell(out, COL_CPU, "%s", c->cpu);
    out_cell(out, COL_THREADS, "%d", c->threads);
    out_cell(out, COL_GPUS, "%d", c->n_gpus);
    out_cell(out, COL_MEDIAN, "%.2f", json_number_value(json_object_get(j, "median_ts")));
    out_cell(out, COL_RANGE, "%.2f-%.2f", json_number_value(json_object_get(j, "min_ts")),
             json_number_value(json_object_get(j, "max_ts")));
    out_cell(out, COL_MEAN, "%.2f ± %.2f", json_number_value(json_object_get(j, "avg_ts")),
             json_number_value(json_object_get(j, "stddev_ts")));
    double tokens = tokens_of(t);
    out_cell(out, COL_CPU_TIME, "%.2f",
             1e9 * tokens / json_number_value(json_object_get(j, "median_cpu_ns")));
    return 0;
}

static int report(const struct tests *t, const struct bench_facts *facts, struct out *out,
                  struct err *e)
{
    static const char *const heading[N_COLUMNS] = {
        "test:",      "act:",           "kv:",       "cpu:",     "t", "gpus",
        "median t/s", "lowest-highest", "mean ± sd", "per cpu s"};
    if (out_is_md(out) && out_table(out, N_COLUMNS, heading, e)) return -1;
    for (int i = 0; i < t->n; i++) {
        json_t *j = record(&t->test[i], t->o, facts);
        if (j && out_is_md(out) && row(&t->test[i], j, out, e)) return -1;
        if (out_record(out, j, e)) return -1;
    }
    if (!out_is_md(out)) return 0;
    const struct bench_options *o = t->o;
    const int hide[N_COLUMNS] = {[COL_KV] = o->kv.n == 1,
                                 [COL_CPU] = o->cpu.n == 1,
                                 [COL_GPUS] = o->gpus.n == 1,
                                 [COL_CPU_TIME] = !o->cpu_time};
    char machine[640];
    placement_describe(&t->setups.setup[0].forward, machine, sizeof machine);
    char size[UNITS_TEXT];
    /* what differs among the configurations is a column of the table */
    printf("%s, %s; %s; %.*s, kv %s; %d run%s%s\n\n", facts->model_type,
           units_bytes((uint64_t)facts->model_bytes, size), facts->cpu_info,
           (int)(o->threads.n > 1 ? strcspn(machine, ",") : strlen(machine)), machine,
           kv_formats[t->setups.setup[0].config.kv].name, o->repetitions,
           o->repetitions == 1 ? "" : "s", o->repetitions == 1 ? "" : " in turn");
    out_print(out, hide);
    return 0;
}

/* Seconds that a test takes, from a few of its tokens. */
static int estimate(const struct test *x, const struct tests *t, double *seconds, struct err *e)
{
    enum { SOME = 32, STEPS = 2 };
    const int n = x->n_prompt ? (x->n_prompt < SOME ? x->n_prompt : SOME)
                              : (x->n_gen < STEPS ? x->n_gen : STEPS);
    struct test some = *x;
    if (x->n_prompt) some.n_prompt = n;
    for (int i = 0; i < 2; i++) { /* the first time touches the weights */
        double start = clock_now();
        if (run_steps(&some, x->n_prompt ? n_steps(&some, t->o->n_batch) : n, t->o->n_batch, e))
            return -1;
        *seconds = (clock_now() - start) / n * (x->n_prompt + x->n_gen);
    }
    return 0;
}

/* The rest of the line on what was asked for without a model: what is run, how often, how long that
 * takes. */
static int announce(const struct tests *t, struct err *e)
{
    double seconds = 0;
    for (int i = 0; i < t->n; i++) {
        double one;
        if (estimate(&t->test[i], t, &one, e)) {
            fprintf(stderr, "\n");
            return -1;
        }
        seconds += one * (t->o->repetitions +
                          (t->test[i].n_prompt > 0)); /* a prompt warms up as a whole */
        if (i < 4)
            fprintf(stderr, "%s%s%d", i ? ", " : "", t->test[i].n_prompt ? "pp" : "tg",
                    t->test[i].n_prompt + t->test[i].n_gen);
    }
    const char *more = t->n > 4 ? ", ..," : ",";
    fprintf(stderr, "%s %d run%s of each, about %.0f s\n", more, t->o->repetitions,
            t->o->repetitions == 1 ? "" : "s", ceil(seconds));
    return 0;
}

/* Where the measurement is: ROUND 0 warms up, TEST comes next in it. */
static void say_progress(const struct tests *t, struct progress *p, int round, int test)
{
    const struct test *x = &t->test[test];
    const int rounds = t->o->repetitions;
    char where[PROGRESS_TEXT], next[PROGRESS_TEXT], parallel[24] = "", left[PROGRESS_TEXT] = "";
    if (!progress_due(p)) return;
    if (round) snprintf(where, sizeof where, "run %d of %d", round, rounds);
    else snprintf(where, sizeof where, "warming up");
    const int n = x->n_parallel * x->n_rounds;
    if (n > 1) snprintf(parallel, sizeof parallel, " x %d", n);
    snprintf(next, sizeof next, "test %d of %d, %s%d%s", test + 1, t->n, x->n_prompt ? "pp" : "tg",
             x->n_prompt + x->n_gen, parallel);
    if (round) progress_left(p, round - 1 + (double)test / t->n, rounds, left);
    progress_show(p, (const char *const[]){where, next, left}, 3);
}

static int measure_runs(struct tests *t, struct progress *p, struct err *e)
{
    for (int i = 0; i < t->n; i++) { /* warm-up: the whole prompt, or a few steps of a generation */
        const struct test *x = &t->test[i];
        say_progress(t, p, 0, i);
        if (run_steps(x, x->n_gen > 4 ? 4 : n_steps(x, t->o->n_batch), t->o->n_batch, e)) return -1;
    }
    p->start = clock_now(); /* what is left is told by what was measured */
    for (int r = 0; r < t->o->repetitions; r++)
        for (int i = 0; i < t->n; i++) {
            say_progress(t, p, r + 1, i);
            if (run(&t->test[i], r, t->o->n_batch, e)) return -1;
        }
    return 0;
}

static int measure(struct tests *t, struct err *e)
{
    struct progress p;
    if (!t->o->model && announce(t, e)) return -1;
    progress_begin(&p);
    int rc = measure_runs(t, &p, e);
    progress_clear();
    return rc;
}

int bench_runs(const struct bench_options *o, const struct model *m,
               const struct bench_facts *facts, struct out *out, struct err *e)
{
    struct tests t = {.o = o};
    struct setup_size size = size_of(o);
    if (size.drafts && !m->plan.n_draft)
        return err_set(e, "--spec-accept: the model has no layer that drafts tokens");
    for (int i = 0; size.drafts && i < o->gpus.n; i++)
        if (o->gpus.v[i] > 1)
            return err_set(e, "--spec-accept: --gpus %d is several", o->gpus.v[i]);
    int rc = setups_open(&t.setups, m, o, &size, e) || list_tests(&t, e) || measure(&t, e) ||
                     report(&t, facts, out, e)
                 ? -1
                 : 0;
    for (int i = 0; i < t.n; i++) free(t.test[i].wall), free(t.test[i].cpu);
    free(t.test);
    setups_close(&t.setups);
    return rc;
}
