/* opt4gptq-quantize: options and signals. */
#include "core/base/args_table.h"
#include "core/base/memory.h"
#include "core/base/process.h"
#include "engine/backends.h"
#include "quantize/quantize.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, MAX_THREADS = 1024 };

static volatile sig_atomic_t stop_signal;

static void on_signal(int s) { stop_signal = s; }

struct call {
    const char *bits, *group, *order, *calibrate, *mem, *report, *backend, *hip_library;
    int sym, asym, w4a4, mse, no_mse, no_calibration, tokens, sequence, threads, device,
        gpu_timeout, quiet, verbose;
    double foem, damp;
    struct args_strings rules;
    struct args_common common;
};

enum { GROUP_NONE, GROUP_SYM, GROUP_MSE };

#define ARGS_STRUCT struct call
static const struct args_row table[] = {
    {HEADING("Result")},
    {NAMES("--bits"), TEXT(bits, "2|3|4|8"), VALUES("2", "3", "4", "8"),
     .help = "bits of a weight (default: 4)"},
    {NAMES("--group", "--group-size"), TEXT(group, "32|64|128|channel"),
     VALUES("32", "64", "128", "channel", "-1"),
     .help = "inputs of an output that share a scale (default: 128)"},
    {NAMES("--sym"), FLAG(sym), .group = GROUP_SYM, .help = "zero points in the middle (default)"},
    {NAMES("--asym"), FLAG(asym), .group = GROUP_SYM, .help = "zero points of their own"},
    {NAMES("--rule"), STRINGS(rules, "RULE"),
     .help =
         "modules whose name matches a regular expression from its beginning: '-:REGEX' stay as "
         "they are, '+:REGEX{bits=8,group=32,sym=false}' get settings of their own; the first "
         "rule that matches counts (repeatable)"},
    {NAMES("--w4a4"), FLAG(w4a4),
     .help =
         "for opt4gptq-run --act int4 (Atom): inputs in the order of their size, the last group "
         "in 8 bits, the others in 4 with ranges cut to 85%, and GPTQ with activations rounded "
         "as they will be"},
    {HEADING("Method")},
    {NAMES("--order"), TEXT(order, "ORDER"), VALUES("group", "full", "none", "rising", "falling"),
     .help = "order in which inputs are quantized: the largest first within groups, and groups by "
             "their largest (group, default); the largest of all first, which gives a file with "
             "act-order (full); as they are (none). With --w4a4: the smallest first (rising, "
             "default) or the largest of those with 4 bits (falling)"},
    {NAMES("--mse"), FLAG(mse), .group = GROUP_MSE,
     .help = "scales by the least error among 80 ranges (default)"},
    {NAMES("--no-mse"), FLAG(no_mse), .group = GROUP_MSE, .help = "scales by the largest weight"},
    {NAMES("--foem"), REAL(foem, 0, 1),
     .help = "strength of the first-order correction FOEM; 0.2 is usual (default: 0, none)"},
    {NAMES("--damp", "--damp-percent"), REAL(damp, 0, 1),
     .help = "part of the mean square sum that is added to the Hessian's diagonal (default: 0.05)"},
    {HEADING("Calibration")},
    {NAMES("--calibrate"), READS(calibrate, "FILE"),
     .help = "a text, or JSON lines (.jsonl, .jsonl.gz) with text or messages (default: a text "
             "that is built in)"},
    {NAMES("--tokens"), INT(tokens, 128, 1 << 26),
     .help = "tokens of it (default: 16384, or all of the built-in text)"},
    {NAMES("--sequence"), INT(sequence, 32, 1 << 15),
     .help = "tokens of a sequence (default: 2048, or the model's context where that is less)"},
    {NAMES("--no-calibration"), FLAG(no_calibration),
     .help = "round each weight by itself: no text, no forward pass"},
    {HEADING("Run")},
    {NAMES("-t", "--threads"), INT(threads, 1, MAX_THREADS),
     .help = "worker threads (default: this machine's cores); the bytes do not depend on it"},
    {NAMES("--backend"), TEXT(backend, "auto|" BACKEND_CHOICE), VALUES("auto", BACKEND_NAMES),
     .help =
         "where the calibration is computed: the bytes are the same (default: auto, a GPU where "
         "there is one)"},
    {NAMES("--device"), INT(device, 0, 63), .help = "number of the GPU (default: 0)"},
    {NAMES("--gpu-timeout"), INT(gpu_timeout, 1, 1 << 20),
     .help = "seconds after which a GPU that does not answer is given up (default: 120)"},
    {NAMES("--hip-library"), READS(hip_library, "PATH"),
     .help = "the GPU's runtime library (default: the known ones)"},
    {NAMES("--mem"), TEXT(mem, "SIZE"),
     .help = "memory for the rows of the calibration, such as 4G; more of them lie in a file"},
    {NAMES("--report"), WRITES(report, "FILE"),
     .help = "write what was done with each module as JSON: error, damping, rows"},
    {NAMES("-v", "--verbose"), FLAG(verbose), .help = "notes on what is quantized, too"},
    {NAMES("-q", "--quiet"), FLAG(quiet),
     .help = "no progress and no notes; warnings and errors still appear"},
    ARGS_COMMON_ROWS(common, "the version"),
};

static const char *const examples[] = {
    "~/hub/Qwen3-0.6B qwen3-gptq", "~/hub/Qwen3-0.6B qwen3.safetensors --bits 4 --group 64",
    "~/hub/Qwen3-0.6B qwen3-gptq --calibrate chats.jsonl --tokens 131072 --report report.json",
    "~/hub/Qwen3-0.6B qwen3-gptq --rule '-:.*down_proj' --rule '+:.*v_proj{bits=8}'", NULL};

static const char *const usage[] = {"[options] HF_DIR OUT_DIR", "[options] HF_DIR OUT.safetensors",
                                    NULL};

static const struct args_other others[] = {
    {"-o --output --outfile --out", ARGS_REFUSED,
     "the result is the second word: opt4gptq-quantize HF_DIR OUT"},
    {"-i --input -m --model", ARGS_REFUSED,
     "the checkpoint is the first word: opt4gptq-quantize HF_DIR OUT"},
    {"--desc-act --act-order", ARGS_REFUSED,
     "it is --order full here; --order group costs nothing "
     "when the model runs"},
    {"--imatrix", ARGS_REFUSED, "the importance of inputs comes from --calibrate FILE"},
    {0},
};

static const struct args_program program = {
    .name = "opt4gptq-quantize",
    .purpose = "quantize the published weights of a model to a GPTQ checkpoint",
    .usage = usage,
    .about = "Quantizes a checkpoint directory of Hugging Face in 16 or 32 bits: to a GPTQ "
             "checkpoint OUT_DIR, which opt4gptq-convert, GPTQModel and vLLM read, or directly to "
             "a model file OUT.safetensors of opt4gptq-run. OUT must not be there and appears when "
             "it is complete; until then OUT.work holds what is finished, from which the same "
             "command goes on after a kill.",
    .examples = examples,
    .files = "HF_DIR: config.json, the weights as safetensors, the tokenizer; read only. OUT.work: "
             "finished modules and a copy of the weights, removed at the end.",
    .see_also = "opt4gptq-convert(1), opt4gptq-run(1), and quantize.md beside the installed "
                "README.md.",
    .exits = "0 done, 1 failed, 2 wrong usage",
    .rows = table,
    .n_rows = sizeof table / sizeof *table,
    .others = others,
    .n_words = 2,
};

static int fail(const struct err *e)
{
    fprintf(stderr, "opt4gptq-quantize: %s\n", e->msg);
    return EXIT_FAILURE;
}

static int parse(struct call *c, struct args_given *given, int argc, char **argv, struct err *e)
{
    if (args_parse(&program, c, given, argc, argv, e)) return -1;
    if (args_asks(&c->common)) return 0;
    if (args_check(&program, given, e)) return -1;
    if (given->n_words != 2)
        return err_set(e, "no %s given: opt4gptq-quantize HF_DIR OUT (see --help)",
                       given->n_words ? "result" : "checkpoint");
    const char *method =
        args_any_given(&program, given,
                       "--calibrate --tokens --sequence --foem --damp --order --mem "
                       "--backend --device --gpu-timeout --hip-library");
    if (c->no_calibration && method)
        return err_set(e, "%s has no meaning with --no-calibration", method);
    args_say(given);
    return 0;
}

/* What --w4a4 leaves no choice of. */
static int check_w4a4(const struct call *c, struct err *e)
{
    int outliers_last = c->order && (!strcmp(c->order, "rising") || !strcmp(c->order, "falling"));
    if (!c->w4a4)
        return outliers_last ? err_set(e, "--order %s has a meaning with --w4a4 alone", c->order)
                             : 0;
    if (c->bits && strcmp(c->bits, "4"))
        return err_set(e, "--w4a4 has weights of 4 bits: --bits %s contradicts it", c->bits);
    if (c->asym) return err_set(e, "--w4a4 has zero points in the middle: --asym contradicts it");
    if (c->group && settings_group(c->group) < 0)
        return err_set(e, "--w4a4 needs groups: --group %s contradicts it", c->group);
    if (c->no_calibration)
        return err_set(e, "--w4a4 needs a calibration to know the outliers: --no-calibration "
                          "contradicts it");
    if (c->order && !outliers_last)
        return err_set(e, "--w4a4 has its own order: rising or falling, not --order %s", c->order);
    return 0;
}

/* A module with other bits or groups has no outliers. */
static int check_w4a4_rules(const struct settings *s, struct err *e)
{
    for (int i = 0; i < s->n_rules && s->w4a4; i++)
        if (!s->rule[i].to.skip)
            return err_set(e,
                           "--rule '+:%s{..}': with --w4a4 all modules have the same settings; "
                           "'-:' leaves some as they are",
                           s->rule[i].pattern);
    return 0;
}

static int fill(struct quantize_options *o, const struct call *c, struct err *e)
{
    struct settings *s = &o->settings;
    const char *group = c->group && !strcmp(c->group, "-1") ? "channel" : c->group;
    if (check_w4a4(c, e)) return -1;
    s->all = (struct module_settings){c->bits ? atoi(c->bits) : 4,
                                      settings_group(group ? group : "128"), !c->asym, 0};
    s->order = !c->order || !strcmp(c->order, "group") ? ORDER_GROUP
               : !strcmp(c->order, "full")             ? ORDER_FULL
                                                       : ORDER_NONE;
    s->search = !c->no_mse;
    if ((s->w4a4 = c->w4a4)) {
        s->all.bits = 8; /* as they are stored: codes of 4 bits, of outliers of 8 */
        s->order = c->order && !strcmp(c->order, "falling") ? ORDER_FALLING : ORDER_RISING;
        s->search = c->mse;
        s->clip = 0.85;
    }
    s->calibrated = !c->no_calibration;
    s->beta = c->foem;
    s->damp = c->damp;
    if (c->mem && memory_parse(&o->mem, c->mem, e)) return err_prefix(e, "--mem");
    return settings_rules(s, &c->rules, e) || check_w4a4_rules(s, e) ? -1 : 0;
}

/* The backend that is asked for, or the best one that is there and quantizes. */
static const struct backend_entry *choose_backend(const struct call *c)
{
    const char *name = c->backend ? c->backend : "auto";
    if (strcmp(name, "auto")) return backend_find(backend_name(name));
    for (const struct backend_entry *b = backend_entries; b->ops; b++) {
        struct err why;
        if (b->ops->gptq && !b->probe(c->hip_library, c->device, &why)) return b;
    }
    return backend_find("cpu");
}

/* -1: options that contradict each other. */
static int take_backend(struct quantize_options *o, const struct call *c,
                        const struct backend_entry *b, struct err *e)
{
    static char own[BACKEND_OWN_BYTES];
    const char *own_option = c->hip_library   ? "--hip-library"
                             : c->device      ? "--device"
                             : c->gpu_timeout ? "--gpu-timeout"
                                              : NULL;
    if (!b->ops->gptq && own_option)
        return err_set(e, "%s has no meaning with --backend %s", own_option, b->ops->name);
    const struct backend_own of = {.library = c->hip_library, .wait_seconds = c->gpu_timeout};
    o->backend = b->ops;
    o->device = c->device;
    o->own = backend_own_text(b, &of, own);
    return 0;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction a = {.sa_handler = on_signal}, old;
    for (int i = 0; i < 3; i++)
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &a, NULL); /* keep nohup's SIG_IGN */
}

int main(int argc, char **argv)
{
    int asked;
    if (backend_asked(argc, argv, &asked)) return asked;
    process_begin("opt4gptq-quantize");
    struct err e = {0};
    struct args_given given;
    struct call c = {.threads = pool_n_cores(), .damp = 0.05};
    static struct quantize_options o;
    if (parse(&c, &given, argc, argv, &e)) return fail(&e), EXIT_USAGE;
    if (args_asks(&c.common)) {
        if (!args_print(&program, &c.common, stdout)) args_version(&program, stdout);
        return fflush(stdout) ? err_sys(&e, "standard output"), fail(&e) : EXIT_SUCCESS;
    }
    const struct backend_entry *b = c.no_calibration ? backend_find("cpu") : choose_backend(&c);
    if (fill(&o, &c, &e) || take_backend(&o, &c, b, &e)) return fail(&e), EXIT_USAGE;
    if (c.backend && b->probe && b->probe(c.hip_library, c.device, &e)) return fail(&e);
    catch_signals();
    o.in = given.word[0], o.out = given.word[1], o.report = c.report;
    o.calibrate = c.calibrate, o.n_tokens = c.tokens, o.sequence = c.sequence;
    o.n_threads = c.threads, o.stop = &stop_signal;
    o.notes =
        (struct notes){.quiet = c.quiet, .verbose = c.verbose, .program = "opt4gptq-quantize"};
    if (!quantize_run(&o, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (stop_signal) { /* the caller sees which signal ended the program */
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}
