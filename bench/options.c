#include "bench/options.h"

#include "bench/llama_bench_names.h"
#include "core/base/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INT, TEXT, INTS, TEXTS };

static const struct option_row {
    struct args_row row;
    enum kind kind;
    size_t offset;              /* in struct bench_options */
    int lo, hi;                 /* INT, INTS */
    const char *const *allowed; /* TEXT, TEXTS: NULL allows all */
} table[] = {
#define AT(field) offsetof(struct bench_options, field)
/* clang-format off */
#define NAMES(...) {__VA_ARGS__}
#define HEADING(text) {.row = {.help = text}}
#define IS_FLAG(names, field, help) {{names, NULL, help}, FLAG, AT(field), 0, 0, NULL}
#define IS_INT(names, field, lo, hi, help) {{names, "N", help}, INT, AT(field), lo, hi, NULL}
#define IS_INTS(names, field, lo, hi, help) {{names, "N,..", help}, INTS, AT(field), lo, hi, NULL}
#define IS_TEXT(names, field, arg, help) {{names, arg, help}, TEXT, AT(field), 0, 0, NULL}
#define IS_TEXTS(names, field, arg, help) {{names, arg, help}, TEXTS, AT(field), 0, 0, NULL}
#define IS_ONE_OF(kind, names, field, arg, help, ...) \
    {{names, arg, help}, kind, AT(field), 0, 0, (const char *const[]){__VA_ARGS__, NULL}}
    /* clang-format on */
    HEADING("What is measured"),
    IS_TEXT(NAMES("-m", "--model"), model, "FILE",
            "model file (default: made-up weights of TinyLlama-1.1B's shape)"),
    IS_INTS(NAMES("-p", "--n-prompt"), prompt, 0, 1 << 20, "prompt tokens (default 512; 0: none)"),
    IS_INTS(NAMES("-n", "--n-gen"), gen, 0, 1 << 20, "tokens generated (default 128; 0: none)"),
    IS_INTS(NAMES("-d", "--depth", "--n-depth"), depth, 0, 1 << 24,
            "positions already in the KV cache (default 0; --ops: 1024)"),
    IS_INTS(NAMES("-np", "--parallel", "--np"), parallel, 1, 65536,
            "sequences that generate together (default 1; --ops, --roofline: 1,8; --ablation: rows "
            "of linears, 1,2,4,..32)"),
    HEADING("Configurations, each with each"),
    IS_INTS(NAMES("-t", "--threads"), threads, 0, 1024,
            "threads, at most the processors this process may use (default 0: as many)"),
    IS_ONE_OF(TEXTS, NAMES("--act"), act, "A,..",
              "auto, f32, f16, i16, int8 (default auto: i16, with hip f16, as opt4gptq-run; --ops: "
              "f32,i16,int8)",
              "auto", "f32", "f16", "i16", "int8"),
    IS_ONE_OF(TEXTS, NAMES("--kv"), kv, "T,..",
              "storage of keys and values: f16, f32 (default f16)", "f16", "f32"),
    IS_TEXTS(NAMES("--cpu"), cpu, "R,..",
             "rungs of the CPU backend (default auto; --ops: all that run here but ref, scalar)"),
    IS_ONE_OF(TEXT, NAMES("--backend"), backend, "cpu|hip", "where to compute (default cpu)", "cpu",
              "hip"),
    IS_TEXTS(NAMES("--variant"), variant, "V,..",
             "kernels for linears of the GPU (default auto; --ablation: all of the paper's)"),
    IS_INT(NAMES("--device"), device, 0, 1023, "which GPU (default 0)"),
    IS_TEXT(NAMES("--hip-library"), hip_library, "PATH",
            "GPU runtime library (default: as opt4gptq-run)"),
    IS_INT(NAMES("-b", "--batch-size"), n_batch, 1, 65536,
           "prompt tokens computed in one step (default 512)"),
    HEADING("How"),
    IS_INT(NAMES("-r", "--repetitions"), repetitions, 1, 1000,
           "runs of each, in turn, after one to warm up (default 5; --ablation: 15)"),
    IS_FLAG(NAMES("--cpu-time"), cpu_time, "processor time beside wall time; needs -t 1"),
    IS_ONE_OF(TEXT, NAMES("-o", "--output"), output, "FORMAT",
              "md, csv, json or jsonl (default md)", "md", "csv", "json", "jsonl"),
    HEADING("Other modes"),
    IS_FLAG(NAMES("--ops"), ops,
            "every operation on every rung, and its share of this machine's peak"),
    IS_FLAG(NAMES("--roofline"), roofline,
            "what bounds this model here: bytes, operations, floor, what is reached"),
    IS_FLAG(NAMES("--probe"), probe, "read bandwidth and arithmetic peaks of this machine"),
    IS_FLAG(NAMES("--ablation"), ablation,
            "the paper's table on a GPU: each optimization alone, and all; without a GPU, counts"),
    IS_TEXTS(NAMES("--shape"), shape, "S,..",
             "--ablation: models by shape (default: the paper's six)"),
    IS_FLAG(NAMES("--version"), version, "version"),
    IS_FLAG(NAMES("-h", "--help", "--usage"), help, "this text"),
#undef AT
};

enum { DEFAULT_REPETITIONS = 5 };
enum { N_ROWS = sizeof table / sizeof *table };
_Static_assert((int)N_ROWS <= (int)BENCH_MAX_OPTIONS, "struct bench_options has room for fewer");

/* NAME is the option as it was given. */
static int set_int(const struct option_row *r, const char *name, const char *arg, int *out,
                   struct err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(arg, &end, 10);
    if (errno || end == arg || *end) return err_set(e, "%s: '%s' is not an integer", name, arg);
    if (v < r->lo || v > r->hi)
        return err_set(e, "%s: %s is not in %d..%d", name, arg, r->lo, r->hi);
    *out = (int)v;
    return 0;
}

static int check_text(const struct option_row *r, const char *name, const char *arg, struct err *e)
{
    char list[64] = "";
    if (!r->allowed) return *arg ? 0 : err_set(e, "%s: empty text", name);
    for (int i = 0; r->allowed[i]; i++) {
        if (!strcmp(arg, r->allowed[i])) return 0;
        snprintf(list + strlen(list), sizeof list - strlen(list), i ? ", %s" : "%s", r->allowed[i]);
    }
    return err_set(e, "%s %s: must be one of %s", name, arg, list);
}

/* One element of a list; equal elements are kept once. */
static int add(const struct option_row *r, struct bench_options *o, const char *name,
               const char *arg, struct err *e)
{
    char *field = (char *)o + r->offset;
    if (r->kind == INTS) {
        struct int_list *l = (struct int_list *)field;
        int v;
        if (set_int(r, name, arg, &v, e)) return -1;
        if (l->is_default) *l = (struct int_list){0};
        for (int i = 0; i < l->n; i++)
            if (l->v[i] == v) return 0;
        if (l->n == MAX_LIST) return err_set(e, "%s: more than %d values", name, MAX_LIST);
        l->v[l->n++] = v;
        return 0;
    }
    struct text_list *l = (struct text_list *)field;
    if (check_text(r, name, arg, e)) return -1;
    if (strlen(arg) >= sizeof l->v[0]) return err_set(e, "%s: '%s' is too long", name, arg);
    if (l->is_default) *l = (struct text_list){0};
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->v[i], arg)) return 0;
    if (l->n == MAX_LIST) return err_set(e, "%s: more than %d values", name, MAX_LIST);
    strcpy(l->v[l->n++], arg);
    return 0;
}

static int add_list(const struct option_row *r, struct bench_options *o, const char *name,
                    const char *arg, struct err *e)
{
    char item[64];
    for (;;) {
        size_t n = strcspn(arg, ",");
        if (n >= sizeof item) return err_set(e, "%s: '%s' is too long", name, arg);
        memcpy(item, arg, n);
        item[n] = 0;
        if (add(r, o, name, item, e)) return -1;
        if (!arg[n]) return 0;
        arg += n + 1;
    }
}

static int set_option(const struct option_row *r, struct bench_options *o, const char *name,
                      const char *arg, struct err *e)
{
    char *field = (char *)o + r->offset;
    switch (r->kind) {
    case FLAG: *(int *)field = 1; return 0;
    case INT: return set_int(r, name, arg, (int *)field, e);
    case TEXT: *(const char **)field = arg; return check_text(r, name, arg, e);
    default: return add_list(r, o, name, arg, e);
    }
}

/* The first of these fields of *o that were given, by its name; NULL: none. */
static const char *given(const struct bench_options *o, const void *const *fields)
{
    for (; *fields; fields++)
        for (int i = 0; i < N_ROWS; i++)
            if (o->given[i] && table[i].offset == (size_t)((const char *)*fields - (const char *)o))
                return o->given[i];
    return NULL;
}

#define GIVEN(...) given(o, (const void *const[]){__VA_ARGS__, NULL})

static int check(const struct bench_options *o, struct err *e)
{
    const void *const modes[] = {&o->ops, &o->roofline, &o->probe, &o->ablation, NULL};
    const char *mode = given(o, modes), *name;
    for (int i = 0; modes[i]; i++)
        if ((name = GIVEN(modes[i])) && name != mode)
            return err_set(e, "%s and %s exclude each other", mode, name);
    if (o->ablation && (name = GIVEN(&o->model)))
        return err_set(
            e, "--ablation makes its models up: %s has no part in it (--shape names them)", name);
    if (!strcmp(o->backend, "hip") && (name = GIVEN(&o->cpu, &o->threads, &o->cpu_time, &o->probe)))
        return err_set(e, "%s is about the CPU, not --backend hip", name);
    if (strcmp(o->backend, "hip") && !o->ablation &&
        (name = GIVEN(&o->variant, &o->device, &o->hip_library)))
        return err_set(e, "%s needs --backend hip", name);
    if (!o->ablation && (name = GIVEN(&o->shape))) return err_set(e, "%s needs --ablation", name);
    if (o->cpu_time && (o->threads.n != 1 || o->threads.v[0] != 1))
        return err_set(
            e, "--cpu-time needs -t 1: threads that wait for each other use processor time too");
    if (o->cpu_time && (o->roofline || o->probe))
        return err_set(e, "--cpu-time and %s exclude each other", mode);
    if (o->probe && (name = GIVEN(&o->model)))
        return err_set(e, "--probe measures the machine: %s has no part in it", name);
    int most = 0;
    for (int i = 0; i < o->prompt.n; i++) most = o->prompt.v[i] > most ? o->prompt.v[i] : most;
    for (int i = 0; i < o->gen.n; i++) most = o->gen.v[i] > most ? o->gen.v[i] : most;
    return most ? 0 : err_set(e, "nothing to measure: -p and -n are 0");
}

static void add_default(struct text_list *l, const char *text)
{
    l->is_default = 1;
    strcpy(l->v[l->n++], text);
}

/* What is not given depends on the mode. */
static void set_defaults(struct bench_options *o)
{
    *o = (struct bench_options){.prompt = {1, 1, {512}},
                                .gen = {1, 1, {128}},
                                .depth = {1, 1, {0}},
                                .parallel = {1, 1, {1}},
                                .threads = {1, 1, {0}},
                                .backend = "cpu",
                                .output = "md",
                                .n_batch = 512,
                                .repetitions = DEFAULT_REPETITIONS};
    add_default(&o->act, "auto");
    add_default(&o->kv, "f16");
    add_default(&o->cpu, "auto");
    add_default(&o->variant, "auto");
    o->shape.is_default = 1;
}

/* "auto" is what opt4gptq-run takes; each arithmetic stays once in the list. */
static void settle_act(struct text_list *l, const char *best)
{
    struct text_list settled = {.is_default = l->is_default};
    for (int i = 0; i < l->n; i++) {
        const char *act = strcmp(l->v[i], "auto") ? l->v[i] : best;
        int k = 0;
        while (k < settled.n && strcmp(settled.v[k], act)) k++;
        if (k == settled.n) strcpy(settled.v[settled.n++], act);
    }
    *l = settled;
}

static void set_mode_defaults(struct bench_options *o)
{
    if (o->ablation && o->parallel.is_default)
        o->parallel = (struct int_list){6, 1, {1, 2, 4, 8, 16, 32}};
    if (o->ablation && o->repetitions == DEFAULT_REPETITIONS)
        o->repetitions = 15; /* as the paper */
    if (o->ops && o->depth.is_default) o->depth.v[0] = 1024;
    if ((o->ops || o->roofline) && o->parallel.is_default)
        o->parallel = (struct int_list){2, 1, {1, 8}};
    const int gpu = !strcmp(o->backend, "hip");
    if (o->ops && o->act.is_default && !gpu) {
        o->act.n = 0;
        add_default(&o->act, "f32");
        add_default(&o->act, "i16");
        add_default(&o->act, "int8");
    }
    settle_act(&o->act, gpu ? "f16" : "i16");
}

int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e)
{
    struct args a;
    struct args_word w;
    int rc;
    set_defaults(o);
    args_open(&a, table, sizeof *table, N_ROWS, llama_bench_names, argc, argv);
    while ((rc = args_next(&a, &w, e)) > 0) {
        if (w.row < 0) return err_set(e, "unexpected argument '%s' (see --help)", w.value);
        if (set_option(&table[w.row], o, w.name, w.value, e)) return -1;
        o->given[w.row] = w.name;
    }
    if (rc) return -1;
    memcpy(o->note, a.note, sizeof o->note);
    o->n_notes = a.n_notes;
    set_mode_defaults(o);
    return o->help || o->version ? 0 : check(o, e);
}

void bench_options_settle(struct bench_options *o)
{
    struct int_list settled = {.is_default = o->threads.is_default};
    int processors = pool_n_processors();
    args_say(o->note, o->n_notes, stderr);
    for (int i = 0; i < o->threads.n; i++) {
        int t = o->threads.v[i], k = 0;
        if (t > processors) {
            fprintf(stderr,
                    "note: -t %d: this process may use %d processor%s, so as many threads\n", t,
                    processors, processors == 1 ? "" : "s");
            t = processors;
        }
        while (k < settled.n && settled.v[k] != t) k++;
        if (k == settled.n) settled.v[settled.n++] = t;
    }
    o->threads = settled;
}

void bench_options_help(void)
{
    printf("usage: opt4gptq-bench [-m MODEL] [options]\n");
    args_help(table, sizeof *table, N_ROWS, stdout);
    printf("\nRates count the tokens of all sequences. In --ops and --roofline, operations are\n"
           "those of the matrix product (2 per weight and row); the share of an integer peak\n"
           "counts each digit of i16. Exit: 0 ok, 1 failed, 2 wrong usage.\n");
}
