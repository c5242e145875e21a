/* bench.c: opt4gptq-bench on models/demo: every mode and format, llama-bench's fields, what a wrong
 * option says. Nothing here depends on how fast the machine is. usage: bench BUILD_DIR. */
#include "bench/llama_bench_names.h"
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char bench_bin[512], dir[] = "/tmp/opt4gptq-bench-XXXXXX", model[600], hybrid[600];

#define RUN(p, ...) process_run(p, (char *[]){bench_bin, __VA_ARGS__, NULL}, NULL)

static json_t *parse(const struct process *p)
{
    return p->code ? NULL : json_loads(p->out, 0, NULL);
}

static double number(const json_t *record, const char *key)
{
    return json_number_value(json_object_get(record, key));
}

static int text_is(const json_t *record, const char *key, const char *want)
{
    const char *s = json_string_value(json_object_get(record, key));
    return s && !strcmp(s, want);
}

static int has_keys(const json_t *record, const char *const *keys)
{
    for (; *keys; keys++)
        if (!json_object_get(record, *keys)) {
            printf("  no key %s\n", *keys);
            return 0;
        }
    return 1;
}

/* On a terminal a measurement of more than a second says where it is. */
static void progress(void)
{
    char line[2000];
    struct process p;
    snprintf(line, sizeof line,
             "script -qec 'timeout 4 %s -m %s -p 256 -n 0 -r 1000 -t 1 -o csv' /dev/null",
             bench_bin, model);
    process_run(&p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
    check(strstr(p.out, " of 1000; test 1 of 1, pp256; ") && strstr(p.out, " left"),
          "where a measurement is", &p);
    process_free(&p);
}

static void errors(void)
{
    static const struct {
        const char *a, *b, *says;
        int code;
    } wrong[] = {
        {"-p", "x", "'x' is not an integer", 2},
        {"-p", "-1", "not in 0..", 2},
        {"-p", "8,", "'' is not an integer", 2},
        {"--act", "f32,bf16", "--act bf16: must be one of auto, f32, f16, i16, int8", 2},
        {"--kv", "q8", "--kv q8", 2},
        {"--cpu", "z80", "--cpu z80: unknown", 2},
        {"--backend", "cuda", "--backend cuda", 2},
        {"-o", "sql", "-o sql: must be one of md, csv, json, jsonl", 2},
        {"-r", "0", "not in 1..", 2},
        {"--frobnicate", "1", "--frobnicate", 2},
        {"stray", "--cpu-time", "stray", 2},
        {"-r1", "-ops", "unknown option '-r1' (see --help; a value is a word of its own: -r 1)", 2},
        {"-m", "-p", "-m needs a file", 2},
        {"--roofl", "1", "unknown option '--roofl' (is --roofline meant?)", 2},
        {"--n_prompt=x", "-h", "--n-prompt: 'x' is not an integer", 2},
        {"--ops", "--probe", "--ops and --probe exclude each other", 2},
        {"--ablation", "--model=x", "--ablation and --model exclude each other: --ablation makes",
         2},
        {"--backend=hip", "--cpu=avx2", "--cpu needs --backend cpu", 2},
        {"--backend=hip", "--threads=2", "--threads needs --backend cpu", 2},
        {"--backend=hip", "--numa=isolate", "--numa needs --backend cpu", 2},
        {"--device", "0", "--device needs --backend hip", 2},
        {"--query-halves", "1", "--query-halves needs --backend hip", 2},
        {"--cpu-time", "--threads=2", "needs -t 1", 2},
        {"--n-prompt=0", "--n-gen=0", "nothing to measure", 2},
        {"-np", "0", "not in 1..", 2},
        {"--spec-accept", "1.5", "--spec-accept", 2},
        {"-m", "/nonexistent", "/nonexistent", 1},
        {"-m", "README.md", "README.md", 1},
        {"-m", "models/demo", "convert it first: opt4gptq-convert models/demo OUT.safetensors", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct process p;
        char what[128];
        RUN(&p, (char *)wrong[i].a, (char *)wrong[i].b);
        snprintf(what, sizeof what, "error of: %s %s", wrong[i].a, wrong[i].b);
        check(p.code == wrong[i].code && strstr(p.err, wrong[i].says) && lines(p.err) == 1 &&
                  !p.out_bytes,
              what, &p);
        process_free(&p);
    }
    struct process p;
    RUN(&p, "-m", model, "-p", "8", "-n", "0", "-d", "16777216", "-np", "1");
    check(p.code == 1 && strstr(p.err, "KV cache") && lines(p.err) == 1,
          "a KV cache beyond all memory is refused", &p);
    process_free(&p);
}

/* Every name of llama-bench's: refused in one line, or accepted with a note; and what is said of
 * threads and made-up weights. */
static void habits(void)
{
    struct process p;
    int n = 0;
#define SMALL "-m", model, "-p", "2", "-n", "0", "-r", "1", "-o", "jsonl"
    for (const struct args_other *o = llama_bench_names; o->names; o++)
        for (const char *at = o->names; *at; at += strspn(at, " "), n++) {
            char name[64], want[512], what[128];
            size_t length = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            at += length;
            snprintf(what, sizeof what, "llama-bench's %s", name);
            if (o->answer == ARGS_ACCEPTED) RUN(&p, name, SMALL);
            else RUN(&p, name, "1", SMALL);
            snprintf(want, sizeof want,
                     o->answer == ARGS_REFUSED ? "opt4gptq-bench: %s: %s\n" : "note: %s: %s\n",
                     name, o->says);
            check(p.code == (o->answer == ARGS_REFUSED ? 2 : 0) && !strcmp(p.err, want) &&
                      !p.out_bytes == (p.code != 0),
                  what, &p);
            process_free(&p);
        }
    check(n > 60, "llama-bench's names were tried", NULL);
    RUN(&p, "-t", "1,1000,1001", SMALL);
    check(p.code == 0 && strstr(p.err, "note: -t 1000: this process may use ") &&
              strstr(p.err, "note: -t 1001: ") && lines(p.err) == 2,
          "more threads than processors", &p);
    char *end = strchr(p.out, '\n');
    check(end && lines(p.out) <= 2 && strstr(p.out, "\"n_threads\": 1"),
          "each number of threads once", &p);
    process_free(&p);
    RUN(&p, SMALL);
    check(p.code == 0 && strstr(p.out, "\"act\": \"i16\"") && !p.err_bytes,
          "the arithmetic is opt4gptq-run's", &p);
    process_free(&p);
    char odd[620];
    snprintf(odd, sizeof odd, "%s/m\xff", dir);
    if (symlink(model, odd)) exit(2);
    RUN(&p, SMALL, "--model", odd);
    json_t *record = parse(&p);
    const char *filename = json_string_value(json_object_get(record, "model_filename"));
    check(filename && strstr(filename, "/m\xef\xbf\xbd"), "a name that is not UTF-8", &p);
    json_decref(record);
    process_free(&p);
    unlink(odd);
    RUN(&p, SMALL, "--act", "auto,f32,i16");
    check(p.code == 0 && lines(p.out) == 2, "auto is one of those named", &p);
    process_free(&p);
    RUN(&p, "-p", "1", "-n", "0", "-r", "1", "-t", "1");
    check(p.code == 0 && lines(p.err) == 1 &&
              strstr(p.err, "made-up weights of TinyLlama-1.1B's shape, 0.77 GB") &&
              strstr(p.err, ": pp1, 1 run of each, about "),
          "without a model a line says what is run", &p);
    process_free(&p);
}

static void runs(void)
{
    static const char *const keys[] = {"cpu_info",   "backends",   "model_filename",
                                       "model_type", "model_size", "model_n_params",
                                       "n_batch",    "n_threads",  "type_k",
                                       "type_v",     "n_prompt",   "n_gen",
                                       "n_depth",    "test_time",  "avg_ns",
                                       "stddev_ns",  "avg_ts",     "stddev_ts",
                                       "samples_ns", "samples_ts", "act",
                                       "n_parallel", "median_ts",  "min_ts",
                                       "max_ts",     NULL};
    struct process p;
    RUN(&p, "-m", model, "-p", "5,20", "-n", "3", "-np", "1,3", "-d", "0,30", "--act", "f32,i16",
        "-t", "2", "-b", "7", "-r", "2", "-o", "json");
    json_t *all = parse(&p);
    /* prompts: 2 lengths x 2 depths; generations: 2 depths x 2 widths; each in 2 arithmetics */
    check(json_array_size(all) == 16, "json: one record for each test and configuration", &p);
    size_t i, n_gen = 0, n_deep = 0, n_wide = 0, n_i16 = 0;
    json_t *r;
    int keys_ok = 1, sums_ok = 1;
    json_array_foreach (all, i, r) {
        keys_ok &= has_keys(r, keys);
        double tokens = number(r, "n_prompt") + number(r, "n_gen") * number(r, "n_parallel");
        json_t *ns = json_object_get(r, "samples_ns"), *ts = json_object_get(r, "samples_ts");
        double a = json_number_value(json_array_get(ns, 0)),
               rate = json_number_value(json_array_get(ts, 0));
        sums_ok &= json_array_size(ns) == 2 && json_array_size(ts) == 2 && rate > 0 &&
                   rate * a > tokens * 0.999e9 && rate * a < tokens * 1.001e9;
        sums_ok &= number(r, "min_ts") <= number(r, "median_ts") &&
                   number(r, "median_ts") <= number(r, "max_ts");
        sums_ok &= (number(r, "n_prompt") == 0) != (number(r, "n_gen") == 0);
        n_gen += number(r, "n_gen") == 3;
        n_deep += number(r, "n_depth") == 30;
        n_wide += number(r, "n_parallel") == 3;
        n_i16 += text_is(r, "act", "i16");
    }
    check(keys_ok, "json: llama-bench's field names", NULL);
    check(sums_ok, "json: rates are tokens of all sequences by time", &p);
    check(n_gen == 8 && n_deep == 8 && n_wide == 4 && n_i16 == 8, "json: each with each", &p);
    json_decref(all);
    process_free(&p);

    RUN(&p, "-m", model, "-p", "4", "-n", "2", "-r", "1", "-t", "1", "--cpu-time", "-o", "jsonl");
    check(p.code == 0 && lines(p.out) == 2, "jsonl: a line for each record", &p);
    char *newline = strchr(p.out, '\n');
    if (newline) *newline = 0;
    json_t *first = parse(&p);
    check(number(first, "n_prompt") == 4 && number(first, "median_cpu_ns") > 0,
          "jsonl: each line is an object; --cpu-time has its field", &p);
    json_decref(first);
    process_free(&p);

    RUN(&p, "-m", model, "-p", "4", "-n", "2", "-r", "1", "-o", "csv");
    check(p.code == 0 && lines(p.out) == 3 && !strncmp(p.out, "\"build_version\",", 16),
          "csv: a heading and two records", &p);
    process_free(&p);

    RUN(&p, "-m", model, "-p", "4", "-n", "2", "-np", "2", "-r", "1");
    check(p.code == 0 && strstr(p.out, "| pp4 ") && strstr(p.out, "| tg2 x 2 ") && !p.err_bytes,
          "md: the tests by llama-bench's names", &p);
    process_free(&p);
}

static void modes(void)
{
    struct process p;
    size_t i;
    json_t *r;
    RUN(&p, "-m", model, "--ops", "-p", "9", "-np", "2", "-d", "20", "-r", "1", "-t", "1", "-o",
        "json");
    json_t *all = parse(&p);
    int attend = 0, gate_up = 0, argmax = 0, dense = 0, ok = 1;
    json_array_foreach (all, i, r) {
        attend += text_is(r, "op", "attend");
        gate_up += text_is(r, "op", "gate_up");
        argmax += text_is(r, "op", "argmax");
        dense += text_is(r, "op", "dense");
        ok &= number(r, "median_ns") > 0 && number(r, "bytes") > 0 &&
              (text_is(r, "bound", "-") || number(r, "share") > 0);
    }
    int variants = attend / 2; /* two row counts each */
    check(variants >= 1 && attend == 2 * variants && gate_up == 6 * variants &&
              argmax == variants && dense == 6 * variants,
          "--ops: every case on every variant", &p);
    check(ok, "--ops: times, bytes and shares", &p);
    json_decref(all);
    process_free(&p);

    RUN(&p, "-m", model, "--roofline", "-p", "9", "-np", "2", "-d", "20", "-r", "1", "--act",
        "int8", "-o", "json");
    all = parse(&p);
    int steps = 0;
    double sum[2] = {0}, whole[2] = {0};
    ok = 1;
    json_array_foreach (all, i, r) {
        int phase = text_is(r, "phase", "decode");
        double ns = number(r, "median_ns");
        if (text_is(r, "op", "step")) steps++, whole[phase] = ns;
        else if (!text_is(r, "op", "sampling, after") && !text_is(r, "op", "all small ones"))
            sum[phase] += ns;
        ok &= text_is(r, "bound", "-") || number(r, "floor_ns") > 0;
    }
    for (int k = 0; k < 2; k++)
        ok &= whole[k] > 0 && sum[k] > 0.999 * whole[k] && sum[k] < 1.001 * whole[k];
    check(steps == 2 && ok, "--roofline: the operations add up to the step", &p);
    json_decref(all);
    process_free(&p);

    RUN(&p, "-m", hybrid, "--roofline", "-p", "9", "-np", "2", "-r", "1", "-o", "json");
    all = parse(&p);
    int states = 0, experts = 0;
    json_array_foreach (all, i, r) {
        int bound = number(r, "floor_ns") > 0 && number(r, "bytes") > 0;
        states += bound && (text_is(r, "op", "conv") || text_is(r, "op", "delta"));
        experts += bound && text_is(r, "op", "expert_down");
    }
    check(states == 4 && experts == 2, "--roofline: floors of states and experts", &p);
    json_decref(all);
    process_free(&p);

    RUN(&p, "--probe", "-t", "1", "-o", "json");
    all = parse(&p);
    int read = 0, fp32 = 0, int8 = 0;
    ok = 1;
    json_array_foreach (all, i, r) {
        read += text_is(r, "probe", "read");
        fp32 += text_is(r, "probe", "fp32");
        int8 += text_is(r, "probe", "int8");
        ok &= number(r, "rate") > 0;
    }
    check(read == 1 && fp32 >= 1 && int8 >= 1 && ok, "--probe: bandwidth and peaks", &p);
    json_decref(all);
    process_free(&p);
}

/* Three lines: a schema with two good instances and a bad one, one that is refused, no JSON. */
static void schemas(void)
{
    static const char lines[] =
        "{\"name\": \"a\", \"schema\": {\"type\": \"object\", \"properties\": {\"n\": {\"type\": "
        "\"integer\"}}, \"required\": [\"n\"]}, \"tests\": [{\"valid\": true, \"data\": {\"n\": 1}}, "
        "{\"valid\": true, \"data\": {\"n\": 20, \"m\": \"x\"}}, {\"valid\": false, \"data\": "
        "{}}]}\n\n{\"name\": \"b\", \"schema\": {\"format\": \"iri\", \"type\": \"string\"}}\n{\n";
    char file[600];
    struct process p;
    snprintf(file, sizeof file, "%s/schemas.jsonl", dir);
    FILE *f = fopen(file, "w");
    if (!f || fputs(lines, f) < 0 || fclose(f)) return;
    RUN(&p, "--schemas", file, "-m", model, "-o", "json");
    json_t *r = parse(&p);
    check(number(r, "served") == 1 && number(r, "refused") == 1 && number(r, "valid") == 2 &&
              number(r, "valid_refused") == 0 && number(r, "invalid") == 1 &&
              number(r, "invalid_accepted") == 0 &&
              number(json_object_get(r, "refused_by"), "format") == 1 && number(r, "masks") > 8 &&
              number(r, "mask_us_mean") > 0 && number(r, "first_mask_us_mean") > 0 &&
              number(r, "mask_us_p50") <= number(r, "mask_us_p99") &&
              number(r, "mask_us_p99") <= number(r, "mask_us_max") && strstr(p.err, ":4: "),
          "--schemas: one object", &p);
    json_decref(r);
    process_free(&p);
    RUN(&p, "--schemas", file, "-m", model);
    check(p.code == 0 && strstr(p.out, "| 2 ") && strstr(p.out, "refused by: format 1"),
          "--schemas: a table", &p);
    process_free(&p);
    RUN(&p, "--ops", "--act", "int4");
    check(p.code == 2 && strstr(p.err, "--ops: has no linears with outliers"), "--ops int4", &p);
    process_free(&p);
    RUN(&p, "--act", "int4", "-p", "32", "-n", "0", "-r", "1", "--layers", "1");
    check(p.code == 1 && strstr(p.err, "has no group of 8 bits for outliers"), "made-up int4", &p);
    process_free(&p);
    RUN(&p, "--schemas", file);
    check(p.code == 2 && strstr(p.err, "--schemas needs -m FILE"), "--schemas without -m", &p);
    process_free(&p);
    RUN(&p, "--schemas", "/nonexistent", "-m", model);
    check(p.code == 1 && strstr(p.err, "/nonexistent"), "--schemas without a file", &p);
    process_free(&p);
    unlink(file);
}

/* Generation with drafts of a hybrid, whose states keep the rows of drafts. */
static void drafts(void)
{
    struct process p;
    RUN(&p, "-m", model, "--spec-accept", "0.5", "-p", "0");
    check(p.code == 1 && strstr(p.err, "no layer that drafts"), "drafts without a layer", &p);
    process_free(&p);
    RUN(&p, "-m", hybrid, "--spec-accept", "0.7", "-p", "4", "-n", "9", "-np", "1,3", "-r", "2",
        "-o", "json");
    json_t *all = parse(&p);
    check(json_array_size(all) == 1 + 2 * 4, "a prompt, and drafts of 0 to 3 tokens", &p);
    for (size_t i = 1; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        check(number(one, "n_drafts") == (double)((i - 1) % 4) && number(one, "avg_ts") > 0 &&
                  number(one, "n_parallel") == (i <= 4 ? 1 : 3),
              "one of them", &p);
    }
    json_decref(all);
    process_free(&p);
}

int main(int argc, char **argv)
{
    struct process p;
    char convert[512];
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(bench_bin, sizeof bench_bin, "%s/opt4gptq-bench", argv[1]);
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    process_run(&p, (char *[]){convert, "models/demo", model, NULL}, NULL);
    check(p.code == 0, "convert models/demo", &p);
    process_free(&p);
    snprintf(hybrid, sizeof hybrid, "%s/hybrid.safetensors", dir);
    process_run(&p, (char *[]){convert, "-q", "tests/data/gptq/qwen3.5-moe", hybrid, NULL}, NULL);
    check(p.code == 0, "convert a hybrid", &p);
    process_free(&p);
    RUN(&p, "--help");
    check(p.code == 0 && strstr(p.out, "--n-prompt") && strstr(p.out, "-np, "), "--help", &p);
    process_free(&p);
    errors();
    progress();
    habits();
    runs();
    modes();
    drafts();
    schemas();
    unlink(model);
    unlink(hybrid);
    rmdir(dir);
    return report("bench");
}
