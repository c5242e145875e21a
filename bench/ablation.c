/* ablation.c: Table 1 of the paper (Opt4GPTQ) for the GPU at hand: its baseline kernel, each of the
 * three optimizations alone, and all of them, in whole models and linear by linear. Without a GPU:
 * what the compiler made of the kernels for gfx906.
 *
 * Whole models, by the paper's protocol: 32 prompts of ShareGPT as one batch, tokens generated per
 * second, mean of 15 runs. Here the weights are made up, and the prompts' keys and values are a
 * constant: the time of a step depends on shapes and lengths. The variants' runs take turns.
 * Linears: the kernel alone, one launch for each layer between two events. */
#include "backend-hip/hip.h"
#include "bench/bench.h"
#include "bench/setup.h"
#include "bench/shape.h"
#include "bench/stats.h"
#include "core/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tokens (Llama-2's tokenizer) of the first 32 prompts of ShareGPT_V3 that have 4 to 1,024. */
static const int prompt_tokens[] = {776, 414, 152, 7,   70,  70,  13, 32,  12, 24,  18,
                                    46,  372, 439, 294, 4,   463, 9,  12,  81, 235, 527,
                                    17,  181, 17,  289, 209, 18,  11, 101, 10, 32};
enum { N_PROMPTS = sizeof prompt_tokens / sizeof *prompt_tokens };

/* The variants, and in which column of the paper's table they are; 0 is the baseline. */
static const struct {
    const char *name;
    int column;
} families[] = {{"base", 0},        {"smb", 1},        {"vml_half2", 2},   {"vml_wide", 2},
                {"ila_literal", 3}, {"ila_packed", 3}, {"all_literal", 4}, {"all_packed", 4}};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* The paper's improvements over its baseline on a DCU Z100, %: SMB, VML, ILA, all. */
static const struct {
    const char *shape;
    double improvement[4];
} paper[] = {
    {"llama-3-8b", {16.43, 5.89, 44.81, 61.78}},   {"llama-2-7b", {9.50, 4.91, 37.26, 54.55}},
    {"codellama-7b", {14.74, 5.88, 46.30, 67.55}}, {"llama-13b", {17.98, 11.03, 57.19, 84.42}},
    {"qwen1.5-1.8b", {4.94, 1.36, 16.75, 21.93}},  {"qwen1.5-4b", {6.83, 3.11, 28.74, 41.77}}};
enum { N_PAPER = sizeof paper / sizeof *paper };

struct ablation {
    const struct bench_options *o;
    const struct bench_facts *facts;
    const struct shape *shape;
    int family[N_FAMILIES], n_families; /* those asked for, the baseline first */
    struct model model;
    struct forward forward;
    struct batch batch;
    int32_t *ints;
    struct span span[N_PROMPTS];
    struct page_map map;
    double *sample; /* [n_families][repetitions] */
    char device[256], own[HIP_OPTIONS_BYTES];
};

/* Improvement in the paper's table; NaN-free: -1 where it has none. */
static double paper_says(const char *shape, int column)
{
    for (int i = 0; i < N_PAPER; i++)
        if (!strcmp(paper[i].shape, shape)) return column ? paper[i].improvement[column - 1] : -1;
    return -1;
}

static int choose_families(struct ablation *a, struct err *e)
{
    const struct args_texts *v = &a->o->variant;
    for (int i = 0; i < N_FAMILIES; i++) {
        int asked = v->is_default || i == 0; /* everything is compared with the baseline */
        for (int k = 0; k < v->n; k++) asked |= !strcmp(v->v[k], families[i].name);
        if (asked) a->family[a->n_families++] = i;
    }
    for (int k = 0; k < v->n && !v->is_default; k++) {
        int known = 0;
        for (int i = 0; i < N_FAMILIES; i++) known |= !strcmp(v->v[k], families[i].name);
        if (!known)
            return err_set(e,
                           "--ablation --variant %s: there are base, smb, vml_half2, vml_wide, "
                           "ila_literal, ila_packed, all_literal, all_packed",
                           v->v[k]);
    }
    return 0;
}

/* Blocks of eight rows, or of those that there are. */
static int pin(struct ablation *a, int family, int rows, struct err *e)
{
    char name[40];
    snprintf(name, sizeof name, "paper_%s_%d", families[family].name, rows < 8 ? rows : 8);
    return hip_pin(a->forward.be, name, e);
}

/* ---- whole models */

static int largest(const struct args_ints *l, int least)
{
    for (int i = 0; i < l->n; i++) least = l->v[i] > least ? l->v[i] : least;
    return least;
}

/* Every sequence has pages for its prompt and what is generated. */
static int open_batch(struct ablation *a, int n_gen, int *n_pages, struct err *e)
{
    a->map.stride = 0;
    *n_pages = 0;
    for (int i = 0; i < N_PROMPTS; i++) {
        int n = setup_pages(1, prompt_tokens[i] + n_gen);
        *n_pages += n;
        if (n > a->map.stride) a->map.stride = n;
    }
    size_t table = (size_t)N_PROMPTS * (size_t)a->map.stride;
    a->map.n_pages = *n_pages;
    a->ints = calloc(table + batch_ints(N_PROMPTS, N_PROMPTS, N_PROMPTS, a->map.stride),
                     sizeof *a->ints);
    if (!a->ints) return err_memory(e);
    a->map.table = a->ints;
    for (int i = 0, page = 0; i < N_PROMPTS; i++)
        for (int k = 0; k < setup_pages(1, prompt_tokens[i] + n_gen); k++)
            a->ints[i * a->map.stride + k] = page++;
    batch_place(&a->batch, a->ints + table, N_PROMPTS, N_PROMPTS, N_PROMPTS, a->map.stride);
    return 0;
}

static int open_model(struct ablation *a, int n_gen, struct err *e)
{
    hip_options_write(&(struct hip_options){.library = a->o->hip_library}, a->own, sizeof a->own);
    struct forward_options f = {.variant = "paper_base_8",
                                .own = a->own,
                                .device = a->o->device,
                                .act = ACT_F16,
                                .kv = KV_F16,
                                .max_logits = N_PROMPTS};
    f.max_rows = largest(&a->o->parallel, N_PROMPTS);
    if (open_batch(a, n_gen, &f.n_pages, e) || shape_open(&a->model, a->shape, 0, e)) return -1;
    f.max_seqs = N_PROMPTS;
    f.max_pages = a->map.stride;
    if (forward_open(&a->forward, &a->model, &backend_hip, &f, e) || setup_fill_kv(&a->forward, e))
        return -1;
    const char *text = a->forward.be->ops->describe(a->forward.be);
    snprintf(a->device, sizeof a->device, "%.*s", (int)strcspn(text, ")") + 1, text);
    return 0;
}

static void close_model(struct ablation *a)
{
    if (a->forward.be) forward_close(&a->forward);
    if (a->model.made_up) shape_close(&a->model);
    free(a->ints);
    a->ints = NULL;
}

/* n tokens for every sequence. */
static int generate(struct ablation *a, int n, struct err *e)
{
    struct batch *b = &a->batch;
    for (int step = 0; step < n; step++) {
        for (int i = 0; i < N_PROMPTS; i++) {
            a->span[i] = (struct span){i, prompt_tokens[i] + step, 1};
            b->token[i] = (5 + 7 * (i + step)) % a->shape->vocab;
            b->logit_row[i] = i;
        }
        batch_set(b, &a->map, a->span, N_PROMPTS, N_PROMPTS);
        b->n_logits = b->n_decode_logits = N_PROMPTS;
        if (forward_step(&a->forward, b, NULL, e)) return -1;
    }
    return 0;
}

/* One result: of a whole model (n_in, n_out 0) in tokens per second, of a linear in microseconds;
 * latency: of a token of a whole model, in milliseconds. */
struct result {
    int family, n_in, n_out, n_rows;
    struct stats stats;
    double improvement; /* over the baseline, % */
    double latency;
};

static int write_result(const struct ablation *a, const struct result *r, struct out *out,
                        struct err *e)
{
    const struct stats *s = &r->stats;
    const char *name = families[r->family].name;
    const int linear = r->n_in != 0;
    double says = linear ? -1 : paper_says(a->shape->name, families[r->family].column);
    if (!out_is_md(out)) {
        json_t *j = json_pack("{s:s s:s s:s s:i s:i s:i s:s s:f s:f s:f s:f s:i s:f s:s}", "model",
                              a->shape->name, "test", linear ? "linear" : "generation", "variant",
                              name, "n_in", r->n_in, "n_out", r->n_out, "n_rows", r->n_rows, "unit",
                              linear ? "us" : "tok/s", "mean", s->mean, "stddev", s->deviation,
                              "min", s->lowest, "max", s->highest, "repetitions", a->o->repetitions,
                              "improvement_percent", r->improvement, "device", a->device);
        if (j) json_object_set_new(j, "paper_percent", says >= 0 ? json_real(says) : json_null());
        if (j) json_object_set_new(j, "latency_ms", linear ? json_null() : json_real(r->latency));
        return out_record(out, j, e);
    }
    if (linear) return 0;
    if (out_row(out, e)) return -1;
    out_cell(out, 0, "%s", a->shape->name);
    out_cell(out, 1, "%s", name);
    out_cell(out, 2, "%.1f ± %.1f", s->mean, s->deviation);
    out_cell(out, 3, "%.2f", r->latency);
    if (r->family) out_cell(out, 4, "%+.2f%%", r->improvement);
    if (says >= 0) out_cell(out, 5, "%+.2f%%", says);
    return 0;
}

static int run_model(struct ablation *a, int n_gen, struct out *out, struct err *e)
{
    int reps = a->o->repetitions;
    for (int f = 0; f < a->n_families; f++)
        if (pin(a, a->family[f], N_PROMPTS, e) || generate(a, n_gen < 2 ? n_gen : 2, e)) return -1;
    for (int r = 0; r < reps; r++)
        for (int f = 0; f < a->n_families; f++) {
            if (pin(a, a->family[f], N_PROMPTS, e)) return -1;
            double start = clock_now();
            if (generate(a, n_gen, e)) return -1;
            a->sample[f * reps + r] = (double)N_PROMPTS * n_gen / (clock_now() - start);
        }
    double base = 0;
    for (int f = 0; f < a->n_families; f++) {
        struct stats s = stats_of(a->sample + f * reps, reps);
        if (f == 0) base = s.mean;
        const struct result r = {.family = a->family[f],
                                 .n_rows = N_PROMPTS,
                                 .stats = s,
                                 .improvement = 100 * (s.mean / base - 1),
                                 .latency = 1e3 * N_PROMPTS / s.mean};
        if (write_result(a, &r, out, e)) return -1;
    }
    return 0;
}

/* ---- linears */

/* The linears that are timed: number k of the operation of this name, in every layer. */
struct timed_linear {
    const char *name;
    int k;
};

/* The operations of this name in f's plan; the first, of the lowest layer, is *first. */
static int linears_of(const struct forward *f, const struct timed_linear *t,
                      const struct be_linear **w, int *first)
{
    int n = 0;
    for (int i = f->plan.n_ops - 1; i >= 0; i--)
        if (!strcmp(f->plan.op[i].name, t->name)) {
            w[n++] = f->memory.linear[f->plan.op[i].w[t->k]];
            *first = i;
        }
    return n;
}

/* Runs one operation of f alone, which prepares the inputs of its linears. */
static int run_one(struct forward *f, int op, struct err *e)
{
    struct step_plan slice;
    struct be_plan *compiled;
    if (step_plan_slice(&f->plan, op, 1, &slice, e)) return -1;
    int rc = f->be->ops->compile(f->be, &slice, &f->memory, &compiled, e);
    if (!rc) {
        f->be->ops->run(f->be, compiled);
        rc = f->be->ops->sync(f->be, e);
        f->be->ops->drop_plan(f->be, compiled);
    }
    step_plan_free_slice(&slice);
    return rc;
}

/* Microseconds of one launch on `rows` rows, for each variant in turn. */
static int time_linear(struct ablation *a, const struct timed_linear *t, int rows, struct stats s[],
                       struct err *e)
{
    struct forward *f = &a->forward;
    int reps = a->o->repetitions, first = 0;
    const struct be_linear **w = malloc((size_t)f->plan.n_ops * sizeof *w);
    if (!w) return err_memory(e);
    int n = linears_of(f, t, w, &first);
    int rc = pin(a, 0, rows, e);
    if (!rc) rc = run_one(f, first, e);
    for (int r = -2; r < reps && !rc; r++) /* what comes a second time becomes a graph */
        for (int k = 0; k < a->n_families && !rc; k++) {
            double seconds = 0;
            rc = pin(a, a->family[k], rows, e) || hip_time_paper(f->be, n, w, rows, &seconds, e)
                     ? -1
                     : 0;
            if (r >= 0) a->sample[k * reps + r] = seconds * 1e6;
        }
    for (int k = 0; k < a->n_families && !rc; k++) s[k] = stats_of(a->sample + k * reps, reps);
    free(w);
    return rc;
}

static const struct linear *linear_of(const struct model *m, const struct timed_linear *t)
{
    int i = 0;
    while (strcmp(m->plan.op[i].name, t->name)) i++;
    return &m->plan.weight[m->plan.op[i].w[t->k]].linear;
}

static int run_linears(struct ablation *a, struct out *out, struct out *table, struct err *e)
{
    static const struct timed_linear order[] = {
        {"qkv", 0}, {"qkv", 1}, {"gate_up", 0}, {"down", 0}};
    const int q_out = linear_of(&a->model, &order[0])->out;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct linear *w = linear_of(&a->model, &order[i]);
        if (i == 1 && w->out == q_out) continue;
        for (int r = 0; r < a->o->parallel.n; r++) {
            struct stats s[N_FAMILIES];
            int rows = a->o->parallel.v[r];
            if (time_linear(a, &order[i], rows, s, e)) return -1;
            if (out_is_md(out) && out_row(table, e)) return -1;
            for (int k = 0; k < a->n_families; k++) {
                double improvement = 100 * (s[0].mean / s[k].mean - 1);
                const struct result result = {a->family[k], w->in,       w->out, rows,
                                              s[k],         improvement, 0};
                if (write_result(a, &result, out, e)) return -1;
                if (!out_is_md(out)) continue;
                if (k) out_cell(table, 3 + k, "%+.1f%%", improvement);
                else out_cell(table, 3, "%.1f ± %.1f", s[0].mean, s[0].deviation);
            }
            if (!out_is_md(out)) continue;
            out_cell(table, 0, "%s", a->shape->name);
            out_cell(table, 1, "%d->%d", w->in, w->out);
            out_cell(table, 2, "%d", rows);
        }
    }
    return 0;
}

/* ---- without a GPU */

static int static_table(struct out *out, struct err *e)
{
    static const char *const keys[] = {"kernel",
                                       "rows",
                                       "vgprs",
                                       "lds_bytes",
                                       "waves_per_simd",
                                       "valu_per_weight",
                                       "loop_loads_16",
                                       "loop_lds_reads_16",
                                       "loop_lds_reads_less",
                                       "narrow_loads",
                                       "atomics_per_pair"};
    static const char *const heading[] = {"kernel:",       "rows",          "VGPRs",
                                          "LDS",           "waves",         "VALU / weight, row",
                                          "16-byte loads", "LDS reads 16",  "LDS reads less",
                                          "narrow loads",  "atomics / pair"};
    enum { N = sizeof keys / sizeof *keys };
    if (!*hip_kernel_table)
        return err_set(
            e, "no GPU, and no table of the kernels in this build (it needs clang-19 and llvm-19)");
    if (out_is_md(out) && out_table(out, N, heading, e)) return -1;
    for (const char *p = hip_kernel_table; *p;) {
        json_t *j = out_is_md(out) ? NULL : json_object();
        if (out_is_md(out) && out_row(out, e)) return -1;
        for (int i = 0; i < N; i++) {
            int n = (int)strcspn(p, "\t\n");
            if (j)
                json_object_set_new(j, keys[i],
                                    i ? json_real(atof(p)) : json_stringn(p, (size_t)n));
            else out_cell(out, i, "%.*s", n, p);
            p += n + 1;
        }
        if (j && out_record(out, j, e)) return -1;
    }
    if (!out_is_md(out)) return 0;
    printf("gfx906 by the disassembly. VALU instructions, 16-byte loads and reads of LDS are those "
           "of the inner loop; narrow loads: of less "
           "than 16 bytes, anywhere\n(activations half by half, scales); atomics that meet on a "
           "pair of outputs of 4,096 inputs\n\n");
    out_print(out, NULL);
    return 0;
}

/* ---- */

static int run_shape(struct ablation *a, const char *name, int n_gen, struct out *out,
                     struct out *table, struct err *e)
{
    if (shape_find(name, &a->shape, e)) return -1;
    memset(&a->forward, 0, sizeof a->forward);
    memset(&a->model, 0, sizeof a->model);
    int rc = open_model(a, n_gen, e) || run_model(a, n_gen, out, e) || run_linears(a, out, table, e)
                 ? -1
                 : 0;
    close_model(a);
    return rc ? err_prefix(e, "%s", name) : 0;
}

int bench_ablation(const struct bench_options *o, const struct bench_facts *facts, struct out *out,
                   struct err *e)
{
    static const char *const models_heading[] = {"model:",     "variant:", "tok/s",
                                                 "ms a token", "to base",  "in the paper"};
    struct ablation a = {.o = o, .facts = facts};
    struct out table = {.format = out->format};
    struct err why;
    int n_gen = largest(&o->gen, 1), n_shapes = o->shape.is_default ? N_PAPER : o->shape.n, rc = 0;
    if (hip_probe(o->hip_library, o->device, &why)) {
        fprintf(stderr, "opt4gptq-bench: note: no measurement: %s\n", why.msg);
        return static_table(out, e);
    }
    if (choose_families(&a, e)) return -1;
    a.sample = malloc((size_t)N_FAMILIES * (size_t)o->repetitions * sizeof *a.sample);
    if (!a.sample) return err_memory(e);
    if (out_is_md(out)) {
        const char *heading[3 + N_FAMILIES] = {"model:", "linear:", "rows", "base us"};
        for (int k = 1; k < a.n_families; k++) heading[3 + k] = families[a.family[k]].name;
        rc = out_table(out, 6, models_heading, e) || out_table(&table, 3 + a.n_families, heading, e)
                 ? -1
                 : 0;
    }
    for (int i = 0; i < n_shapes && !rc; i++)
        rc = run_shape(&a, o->shape.is_default ? paper[i].shape : o->shape.v[i], n_gen, out, &table,
                       e);
    if (!rc && out_is_md(out)) {
        printf("%s\n\ngeneration, %d prompts of ShareGPT as one batch (%d to %d tokens), %d tokens "
               "each; mean ± sd of %d runs in turn\n\n",
               a.device, N_PROMPTS, 4, 776, n_gen, o->repetitions);
        out_print(out, NULL);
        printf("\nlinears, the kernel alone: microseconds of the baseline, improvement of the "
               "others\n\n");
        out_print(&table, NULL);
    }
    free(table.cells);
    free(a.sample);
    return rc;
}
