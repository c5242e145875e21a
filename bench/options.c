#include "bench/options.h"

#include "bench/llama_bench_names.h"
#include "engine/backends.h"
#include "engine/placement.h"
#include "core/base/args_table.h"
#include "core/base/pool.h"

#include <stdio.h>
#include <string.h>

#define ARGS_STRUCT struct bench_options
static const struct args_row table[] = {
    {HEADING("What is measured")},
    {NAMES("-m", "--model"), READS(model, "FILE"),
     .help = "model file (default: made-up weights of TinyLlama-1.1B's shape)",
     .modes = MODE(BENCH_RUNS) | MODE(BENCH_OPS) | MODE(BENCH_ROOFLINE) | MODE(BENCH_SCHEMAS)},
    {NAMES("-p", "--n-prompt"), INTS(prompt, 0, 1 << 20),
     .help = "prompt tokens (default 512; 0: none)"},
    {NAMES("-n", "--n-gen"), INTS(gen, 0, 1 << 20),
     .help = "tokens generated (default 128; 0: none)"},
    {NAMES("-d", "--depth", "--n-depth"), INTS(depth, 0, 1 << 24),
     .help = "positions already in the KV cache (default 0; --ops: 1024)"},
    {NAMES("-np", "--parallel", "--np"), INTS(parallel, 1, 65536),
     .help = "sequences that generate together (default 1; --ops, --roofline: 1,8; --ablation: "
             "rows of linears, 1,2,4,..32)"},
    {NAMES("--spec-accept"), REAL(spec_accept, 0, 1),
     .help =
         "generation also with drafts of 1, 2 and 3 tokens by the draft layer, each of which is "
         "right with this probability (default 0: without)",
     .modes = MODE(BENCH_RUNS)},
    {HEADING("Configurations, each with each")},
    {NAMES("-t", "--threads"), INTS(threads, 0, 1024),
     .help = "threads, at most the processors this process may use (default 0: their cores)"},
    {NAMES("--numa"), TEXT(numa, "MODE"), VALUES("distribute", "isolate", "numactl"),
     .help = "memory with several nodes, as opt4gptq-run",
     .modes = MODE(BENCH_RUNS) | MODE(BENCH_OPS) | MODE(BENCH_ROOFLINE) | MODE(BENCH_PROBE)},
    {NAMES("--act"), TEXTS(act, "A,.."),
     VALUES("auto", "f32", "f16", "i16", "int8", "int8-token", "int4"),
     .help =
         "auto, f32, f16, i16, int8, int4 (default auto: as opt4gptq-run; --ops: f32,i16,int8)"},
    {NAMES("--kv"), TEXTS(kv, "T,.."), VALUES("f16", "f32", "int8", "int4"),
     .help = "storage of keys and values: f16, f32, int8, int4 (default f16)"},
    {NAMES("--cpu"), TEXTS(cpu, "R,.."),
     .help = "instruction-set variants of the CPU backend (default auto; --ops: all that run "
             "here but ref and scalar)"},
    {NAMES("--backend"), TEXT(backend, BACKEND_CHOICE), VALUES(BACKEND_NAMES),
     .help = "where to compute (default cpu); gpu and hip are one"},
    {NAMES("--variant"), TEXTS(variant, "V,.."),
     .help = "kernels for linears of the GPU (default auto; --ablation: all of the paper's)"},
    {NAMES("--query-halves"), INT(query_halves, 1, 2), .help = "as opt4gptq-run (default 2)"},
    {NAMES("--device"), INT(device, 0, 1023), .help = "which GPU (default 0)"},
    {NAMES("--gpus"), INTS(gpus, 1, PLACES),
     .help = "so many GPUs from --device on compute together (default 1)",
     .modes = MODE(BENCH_RUNS)},
    {NAMES("--parallel-mode"), TEXT(parallel_mode, "tensor|layers"), VALUES("tensor", "layers"),
     .help = "what each of several has: a share of every linear, or some layers (default tensor)",
     .modes = MODE(BENCH_RUNS)},
    {NAMES("--exchange"), TEXT(exchange, "auto|peer|host"), VALUES("auto", "peer", "host"),
     .help = "as opt4gptq-run (default auto)", .modes = MODE(BENCH_RUNS)},
    {NAMES("--hip-library"), READS(hip_library, "PATH"),
     .help = "GPU runtime library (default: as opt4gptq-run)"},
    {NAMES("-ngl", "--gpu-layers", "--n-gpu-layers"), TEXT(engine.gpu_layers, "N|all|auto"),
     .help = "whole layers on the GPU, the others on the CPU, as opt4gptq-run",
     .modes = MODE(BENCH_RUNS)},
    {NAMES("--experts-on"), TEXT(engine.experts_on, "auto|gpu|cpu|gpu:N"),
     .help = "where experts are computed, as opt4gptq-run", .modes = MODE(BENCH_RUNS)},
    {NAMES("-ncmoe", "--n-cpu-moe"), INT(engine.n_cpu_moe, 0, 1 << 24),
     .help = "experts of the first N layers on the CPU", .modes = MODE(BENCH_RUNS)},
    {NAMES("-cmoe", "--cpu-moe"), FLAG(engine.cpu_moe), .help = "those of all layers",
     .modes = MODE(BENCH_RUNS)},
    {NAMES("--gpu-memory"), TEXT(engine.gpu_memory, "SIZE"),
     .help = "most that is taken of the GPU's memory: the CPU computes what does not fit",
     .modes = MODE(BENCH_RUNS)},
    {NAMES("-b", "--batch-size"), INT(n_batch, 1, 65536),
     .help = "prompt tokens computed in one step (default 512)"},
    {HEADING("How")},
    {NAMES("-r", "--repetitions"), INT(repetitions, 1, 1000),
     .help = "runs of each, in turn, after one to warm up (default 5; --ablation: 15)"},
    {NAMES("--cpu-time"), FLAG(cpu_time), .help = "processor time beside wall time; needs -t 1",
     .modes = MODE(BENCH_RUNS) | MODE(BENCH_OPS) | MODE(BENCH_ABLATION)},
    {NAMES("-o", "--output"), TEXT(output, "FORMAT"), VALUES("md", "csv", "json", "jsonl"),
     .help = "md, csv, json or jsonl (default md)"},
    {HEADING("Other modes")},
    {NAMES("--ops"), FLAG(ops),
     .help = "every operation in every variant, and its share of this machine's peak",
     .chooses = BENCH_OPS},
    {NAMES("--roofline"), FLAG(roofline),
     .help = "what bounds this model here: bytes, operations, floor, what is reached",
     .chooses = BENCH_ROOFLINE},
    {NAMES("--probe"), FLAG(probe), .help = "read bandwidth and arithmetic peaks of this machine",
     .chooses = BENCH_PROBE},
    {NAMES("--ablation"), FLAG(ablation),
     .help = "the paper's table on a GPU: each optimization alone, and all; without a GPU, counts",
     .chooses = BENCH_ABLATION},
    {NAMES("--schemas"), READS(schemas, "FILE"),
     .help = "JSON schemas with instances, one a line: which are served, how long masks take with "
             "the tokens of -m (lines {\"name\", \"schema\", \"tests\": [{\"valid\", \"data\"}]})",
     .chooses = BENCH_SCHEMAS},
    {NAMES("--shape"), TEXTS(shape, "S,.."),
     .help = "made-up models by shape, with --ablation several (default: the paper's six)",
     .modes = MODE(BENCH_RUNS) | MODE(BENCH_OPS) | MODE(BENCH_ROOFLINE) | MODE(BENCH_ABLATION)},
    {NAMES("--layers"), INT(layers, 0, 4096),
     .help = "layers of a made-up model (default 0: as many as its shape has)",
     .modes = MODE(BENCH_RUNS) | MODE(BENCH_OPS) | MODE(BENCH_ROOFLINE)},
    ARGS_COMMON_ROWS(common, "version"),
};

static const struct args_mode modes[] = {
    [BENCH_RUNS] = {.needed = "whole runs"},
    [BENCH_OPS] = {.needed = "--ops"},
    [BENCH_ROOFLINE] = {.needed = "--roofline"},
    [BENCH_PROBE] = {.needed = "--probe", .why = "--probe measures the machine"},
    [BENCH_ABLATION] = {.needed = "--ablation",
                        .why = "--ablation makes its models up (--shape names them)"},
    [BENCH_SCHEMAS] = {.needed = "--schemas FILE",
                       .why = "--schemas computes no logits"},
};

static const char *const examples[] = {"-m model.safetensors -p 512 -n 64 -t 1,2",
                                       "-m model.safetensors --roofline", "--probe", NULL};

static const char *const usage[] = {"[-m MODEL] [options]", NULL};

const struct args_program bench_program = {
    .name = "opt4gptq-bench",
    .examples = examples,
    .description = "Times whole runs (prompt and generation) of a model file or of made-up weights, "
                   "single operations, or the machine itself. Field names of the JSON are those of "
                   "llama-bench.",
    .files = "MODEL.safetensors: a model file that opt4gptq-convert made, read only.",
    .see_also = "opt4gptq-run(1), opt4gptq-convert(1), and performance.md beside the installed "
                "README.md.",
    .purpose = "measure a GPTQ language model, its operations, or this machine",
    .usage = usage,
    .more = "Rates count the tokens of all sequences. In --ops and --roofline, operations are "
            "those of the matrix product (2 per weight and row); the share of an integer peak "
            "counts each digit of i16.",
    .exits = "0 ok, 1 failed, 2 wrong usage",
    .rows = table,
    .n_rows = sizeof table / sizeof *table,
    .others = llama_bench_names,
    .modes = modes,
    .n_modes = sizeof modes / sizeof *modes,
};

enum { DEFAULT_REPETITIONS = 5 };

static const char *given(const struct bench_options *o, const char *name)
{
    return args_any_given(&bench_program, &o->given, name);
}

/* Options of another backend than the one that is measured. */
static int check_backend(const struct bench_options *o, struct err *e)
{
    const char *name;
    for (const struct backend_entry *b = backend_entries; b->ops; b++) {
        if (!strcmp(b->ops->name, o->backend) || !(name = given(o, b->bench_options))) continue;
        if (!b->probe && placement_asks(&o->engine) == PLACEMENT_GPU) continue; /* its part */
        if (o->given.mode == BENCH_ABLATION && b->paper) continue; /* its own backend */
        return err_set(e, "%s needs --backend %s", name, b->ops->name);
    }
    return 0;
}

static int check(const struct bench_options *o, struct err *e)
{
    if (args_check(&bench_program, &o->given, e) || check_backend(o, e)) return -1;
    if (o->cpu_time && (o->threads.n != 1 || o->threads.v[0] != 1))
        return err_set(
            e, "--cpu-time needs -t 1: threads that wait for each other use processor time too");
    int most = 0;
    for (int i = 0; i < o->prompt.n; i++) most = o->prompt.v[i] > most ? o->prompt.v[i] : most;
    for (int i = 0; i < o->gen.n; i++) most = o->gen.v[i] > most ? o->gen.v[i] : most;
    if (o->given.mode != BENCH_ABLATION && o->shape.n > 1)
        return err_set(e, "--shape: one, but with --ablation");
    if (o->model && (o->shape.n || o->layers))
        return err_set(e, "%s is of a model without a file (-m)",
                       o->shape.n ? "--shape" : "--layers");
    for (int i = 0; i < o->act.n && o->given.mode == BENCH_OPS; i++)
        if (!strcmp(o->act.v[i], "int4"))
            return err_set(e, "--ops: has no linears with outliers, which --act int4 needs");
    if (o->schemas && !o->model) return err_set(e, "--schemas needs -m FILE");
    return most ? 0 : err_set(e, "nothing to measure: -p and -n are 0");
}

static void add_default(struct args_texts *l, const char *text)
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
                                .gpus = {1, 1, {1}},
                                .parallel_mode = "tensor",
                                .exchange = "auto",
                                .backend = "cpu",
                                .engine = {.backend = "cpu", .cpu = "auto", .variant = "auto"},
                                .output = "md",
                                .n_batch = 512,
                                .query_halves = 2,
                                .repetitions = DEFAULT_REPETITIONS};
    add_default(&o->act, "auto");
    add_default(&o->kv, "f16");
    add_default(&o->cpu, "auto");
    add_default(&o->variant, "auto");
    o->shape.is_default = 1;
}

/* "auto" is what opt4gptq-run takes; each arithmetic stays once in the list. */
static void settle_act(struct bench_options *o, const struct backend_entry *b)
{
    struct args_texts *l = &o->act;
    const char *variant = "auto", *best = NULL;
    if (o->given.mode == BENCH_ABLATION) variant = "the paper's"; /* it pins one after the other */
    for (int i = 0; i < o->variant.n; i++)
        if (strcmp(o->variant.v[i], "auto")) variant = o->variant.v[i];
    for (int i = 0; i < l->n && !best; i++)
        if (!strcmp(l->v[i], "auto"))
            best = backend_best_act(b, o->hip_library, o->device, variant);
    struct args_texts settled = {.is_default = l->is_default};
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
    const struct backend_entry *b = backend_find(o->backend);
    const int mode = o->given.mode;
    if (mode == BENCH_ABLATION && o->parallel.is_default)
        o->parallel = (struct args_ints){6, 1, {1, 2, 4, 8, 16, 32}};
    if (mode == BENCH_ABLATION && o->repetitions == DEFAULT_REPETITIONS)
        o->repetitions = 15; /* as the paper */
    if (mode == BENCH_OPS && o->depth.is_default) o->depth.v[0] = 1024;
    if ((mode == BENCH_OPS || mode == BENCH_ROOFLINE) && o->parallel.is_default)
        o->parallel = (struct args_ints){2, 1, {1, 8}};
    if (mode == BENCH_OPS && o->act.is_default) {
        o->act.n = 0;
        for (int i = 0; i < b->n_timed_acts; i++)
            add_default(&o->act, act_formats[b->timed_act[i]].name);
    }
    settle_act(o, b);
}

int bench_options_parse(struct bench_options *o, int argc, char **argv, struct err *e)
{
    set_defaults(o);
    if (args_parse(&bench_program, o, &o->given, argc, argv, e)) return -1;
    o->backend = o->engine.backend = backend_name(o->backend);
    if (placement_check(&o->engine, e)) return -1;
    if (args_asks(&o->common)) return 0;
    set_mode_defaults(o); /* may ask a GPU which it is */
    return check(o, e);
}

int bench_options_settle(struct bench_options *o, struct err *e)
{
    if (numa_begin(&o->nodes, o->numa, e)) return -1;
    struct args_ints settled = {.is_default = o->threads.is_default};
    int processors = pool_n_processors();
    args_say(&o->given);
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
    return 0;
}

const struct args_texts *bench_options_variants(const struct bench_options *o,
                                                const struct backend_entry *b)
{
    const struct args_row *r = args_find(&bench_program, b->variant_option);
    CHECK(r && r->kind == ARGS_IS_TEXTS);
    return (const void *)((const char *)o + r->offset);
}
