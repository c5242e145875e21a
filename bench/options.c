#include "bench/options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INT, TEXT, INTS, TEXTS, HEADING };

static const struct option_row {
    const char *name; /* long name; of a HEADING its text */
    char letter;      /* short name or 0 */
    enum kind kind;
    size_t offset; /* in struct bench_options */
    int lo, hi;    /* INT, INTS */
    const char *arg, *help;
    const char *const *allowed; /* TEXT, TEXTS: NULL allows all */
} table[] = {
#define AT(field) offsetof(struct bench_options, field)
#define ONE_OF(...)                                                                                                                        \
    (const char *const[]) { __VA_ARGS__, NULL }
    {"What is measured", 0, HEADING, 0, 0, 0, 0, 0, 0},
    {"model", 'm', TEXT, AT(model), 0, 0, "FILE", "model file; without it, made-up weights of TinyLlama-1.1B's shape", 0},
    {"n-prompt", 'p', INTS, AT(prompt), 0, 1 << 20, "N,..", "prompt tokens (default 512; 0: none)", 0},
    {"n-gen", 'n', INTS, AT(gen), 0, 1 << 20, "N,..", "tokens generated (default 128; 0: none)", 0},
    {"depth", 'd', INTS, AT(depth), 0, 1 << 24, "N,..", "positions already in the KV cache (default 0; --ops: 1024)", 0},
    {"np", 0, INTS, AT(parallel), 1, 65536, "N,..",
     "sequences that generate together (default 1; --ops, --roofline: 1,8; --ablation: rows of linears, 1,2,4,..32)", 0},
    {"Configurations, each with each", 0, HEADING, 0, 0, 0, 0, 0, 0},
    {"threads", 't', INTS, AT(threads), 0, 1024, "N,..", "threads (default 0: the processors this process may use)", 0},
    {"act", 0, TEXTS, AT(act), 0, 0, "A,..", "f32, f16, i16, int8 (default f32, --ops: with i16, int8; hip: f16)",
     ONE_OF("f32", "f16", "i16", "int8")},
    {"kv", 0, TEXTS, AT(kv), 0, 0, "T,..", "storage of keys and values: f16, f32 (default f16)", ONE_OF("f16", "f32")},
    {"cpu", 0, TEXTS, AT(cpu), 0, 0, "R,..", "rungs of the CPU backend (default auto; --ops: all that run here but ref, scalar)", 0},
    {"backend", 0, TEXT, AT(backend), 0, 0, "B", "cpu or hip", ONE_OF("cpu", "hip")},
    {"variant", 0, TEXTS, AT(variant), 0, 0, "V,..", "kernels for linears of the GPU (default auto; --ablation: all of the paper's)", 0},
    {"device", 0, INT, AT(device), 0, 1023, "N", "which GPU (default 0)", 0},
    {"hip-library", 0, TEXT, AT(hip_library), 0, 0, "PATH", "GPU runtime library (default: as opt4gptq-run)", 0},
    {"batch-size", 'b', INT, AT(n_batch), 1, 65536, "N", "prompt tokens computed in one step (default 512)", 0},
    {"How", 0, HEADING, 0, 0, 0, 0, 0, 0},
    {"repetitions", 'r', INT, AT(repetitions), 1, 1000, "N", "runs of each, in turn, after one to warm up (default 5; --ablation: 15)", 0},
    {"cpu-time", 0, FLAG, AT(cpu_time), 0, 0, 0, "processor time beside wall time; needs -t 1", 0},
    {"output", 'o', TEXT, AT(output), 0, 0, "FORMAT", "md, csv, json or jsonl (default md)", ONE_OF("md", "csv", "json", "jsonl")},
    {"Other modes", 0, HEADING, 0, 0, 0, 0, 0, 0},
    {"ops", 0, FLAG, AT(ops), 0, 0, 0, "every operation on every rung, and its share of this machine's peak", 0},
    {"roofline", 0, FLAG, AT(roofline), 0, 0, 0, "what bounds this model here: bytes, operations, floor, what is reached", 0},
    {"probe", 0, FLAG, AT(probe), 0, 0, 0, "read bandwidth and arithmetic peaks of this machine", 0},
    {"ablation", 0, FLAG, AT(ablation), 0, 0, 0, "the paper's table on a GPU: each optimization alone, and all; without a GPU, counts", 0},
    {"shape", 0, TEXTS, AT(shape), 0, 0, "S,..", "--ablation: models by shape (default: the paper's six)", 0},
    {"version", 0, FLAG, AT(version), 0, 0, 0, "version", 0},
    {"help", 'h', FLAG, AT(help), 0, 0, 0, "this text", 0},
    {"n-depth", 0, INTS, AT(depth), 0, 1 << 24, 0, 0, 0}, /* llama-bench's name of --depth */
#undef AT
};

enum { DEFAULT_REPETITIONS = 5 };
enum { N_ROWS = sizeof table / sizeof *table };

static int set_int(const struct option_row *r, const char *arg, int *out, struct err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(arg, &end, 10);
    if (errno || end == arg || *end) return err_set(e, "--%s: '%s' is not an integer", r->name, arg);
    if (v < r->lo || v > r->hi) return err_set(e, "--%s: %s is not in %d..%d", r->name, arg, r->lo, r->hi);
    *out = (int)v;
    return 0;
}

static int check_text(const struct option_row *r, const char *arg, struct err *e)
{
    char list[64] = "";
    if (!r->allowed) return *arg ? 0 : err_set(e, "--%s: empty text", r->name);
    for (int i = 0; r->allowed[i]; i++) {
        if (!strcmp(arg, r->allowed[i])) return 0;
        snprintf(list + strlen(list), sizeof list - strlen(list), i ? ", %s" : "%s", r->allowed[i]);
    }
    return err_set(e, "--%s %s: must be one of %s", r->name, arg, list);
}

/* One element of a list; equal elements are kept once. */
static int add(const struct option_row *r, struct bench_options *o, const char *arg, struct err *e)
{
    char *field = (char *)o + r->offset;
    if (r->kind == INTS) {
        struct int_list *l = (struct int_list *)field;
        int v;
        if (set_int(r, arg, &v, e)) return -1;
        if (l->is_default) *l = (struct int_list){0};
        for (int i = 0; i < l->n; i++)
            if (l->v[i] == v) return 0;
        if (l->n == MAX_LIST) return err_set(e, "--%s: more than %d values", r->name, MAX_LIST);
        l->v[l->n++] = v;
        return 0;
    }
    struct text_list *l = (struct text_list *)field;
    if (check_text(r, arg, e)) return -1;
    if (strlen(arg) >= sizeof l->v[0]) return err_set(e, "--%s: '%s' is too long", r->name, arg);
    if (l->is_default) *l = (struct text_list){0};
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->v[i], arg)) return 0;
    if (l->n == MAX_LIST) return err_set(e, "--%s: more than %d values", r->name, MAX_LIST);
    strcpy(l->v[l->n++], arg);
    return 0;
}

static int add_list(const struct option_row *r, struct bench_options *o, const char *arg, struct err *e)
{
    char item[64];
    for (;;) {
        size_t n = strcspn(arg, ",");
        if (n >= sizeof item) return err_set(e, "--%s: '%s' is too long", r->name, arg);
        memcpy(item, arg, n);
        item[n] = 0;
        if (add(r, o, item, e)) return -1;
        if (!arg[n]) return 0;
        arg += n + 1;
    }
}

static int set_option(const struct option_row *r, struct bench_options *o, const char *arg, struct err *e)
{
    char *field = (char *)o + r->offset;
    switch (r->kind) {
    case FLAG: *(int *)field = 1; return 0;
    case INT: return set_int(r, arg, (int *)field, e);
    case TEXT: *(const char **)field = arg; return check_text(r, arg, e);
    default: return add_list(r, o, arg, e);
    }
}

static int check(const struct bench_options *o, struct err *e)
{
    if (o->ops + o->roofline + o->probe + o->ablation > 1)
        return err_set(e, "--ops, --roofline, --probe and --ablation exclude each other");
    if (o->ablation && o->model) return err_set(e, "--ablation makes its models up: -m has no part in it (--shape names them)");
    if (!strcmp(o->backend, "hip") && (!o->cpu.is_default || !o->threads.is_default || o->cpu_time || o->probe))
        return err_set(e, "--cpu, -t, --cpu-time and --probe are about the CPU, not --backend hip");
    if (strcmp(o->backend, "hip") && !o->ablation && (!o->variant.is_default || o->device || o->hip_library))
        return err_set(e, "--variant, --device and --hip-library need --backend hip");
    if (o->cpu_time && (o->threads.n != 1 || o->threads.v[0] != 1))
        return err_set(e, "--cpu-time needs -t 1: threads that wait for each other use processor time too");
    if (o->cpu_time && (o->roofline || o->probe)) return err_set(e, "--cpu-time: whole runs and --ops only");
    if (o->probe && o->model) return err_set(e, "--probe measures the machine: -m has no part in it");
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
    add_default(&o->act, "f32");
    add_default(&o->kv, "f16");
    add_default(&o->cpu, "auto");
    add_default(&o->variant, "auto");
    o->shape.is_default = 1;
}

static void set_mode_defaults(struct bench_options *o)
{
    if (o->ablation && o->parallel.is_default) o->parallel = (struct int_list){6, 1, {1, 2, 4, 8, 16, 32}};
    if (o->ablation && o->repetitions == DEFAULT_REPETITIONS) o->repetitions = 15; /* as the paper */
    if (o->ops && o->depth.is_default) o->depth.v[0] = 1024;
    if ((o->ops || o->roofline) && o->parallel.is_default) o->parallel = (struct int_list){2, 1, {1, 8}};
    if (!strcmp(o->backend, "hip") && o->act.is_default) {
        strcpy(o->act.v[0], "f16");
    } else if (o->ops && o->act.is_default) {
        add_default(&o->act, "i16");
        add_default(&o->act, "int8");
    }
}

int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e)
{
    struct option longs[N_ROWS + 1];
    char letters[2 * N_ROWS + 2] = ":"; /* a missing argument is reported as ':' */
    int n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        if (table[i].kind == HEADING) continue;
        longs[n++] = (struct option){table[i].name, table[i].kind != FLAG, NULL, 1000 + i};
        if (table[i].letter) snprintf(letters + strlen(letters), 3, "%c%s", table[i].letter, table[i].kind == FLAG ? "" : ":");
    }
    longs[n] = (struct option){0};
    set_defaults(o);
    opterr = 0;
    optind = 1;
    for (;;) {
        /* long_only: people write -np, as with llama.cpp */
        int at = optind, c = getopt_long_only(argc, argv, letters, longs, NULL);
        if (c == -1) break;
        if (c == '?') return err_set(e, "unknown option '%s' (see --help)", argv[at]);
        if (c == ':') return err_set(e, "option '%s' needs an argument", argv[optind - 1]);
        for (int i = 0; i < N_ROWS; i++)
            if (table[i].kind != HEADING && (c == 1000 + i || c == table[i].letter)) {
                if (set_option(&table[i], o, optarg, e)) return -1;
                break;
            }
    }
    if (optind < argc) return err_set(e, "unexpected argument '%s' (see --help)", argv[optind]);
    set_mode_defaults(o);
    return o->help || o->version ? 0 : check(o, e);
}

void bench_options_help(void)
{
    printf("usage: opt4gptq-bench [-m MODEL] [options]\n");
    for (int i = 0; i < N_ROWS; i++) {
        const struct option_row *r = &table[i];
        if (r->kind == HEADING) printf("\n%s\n", r->name);
        if (r->kind == HEADING || !r->help) continue;
        char left[64];
        const char *dashes = strlen(r->name) == 2 ? "-" : "--";
        snprintf(left, sizeof left, "%c%c%s %s%s %s", r->letter ? '-' : ' ', r->letter ? r->letter : ' ', r->letter ? "," : " ", dashes,
                 r->name, r->arg ? r->arg : "");
        printf("  %-30s %s\n", left, r->help);
    }
    printf("\nRates count the tokens of all sequences. In --ops and --roofline, operations are those of the matrix product (2 per weight\n"
           "and row); the share of an integer peak counts each digit of i16. Exit: 0 ok, 1 failed, 2 wrong usage.\n");
}
