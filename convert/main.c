/* opt4gptq-convert: options and signals. */
#include "convert/convert.h"
#include "convert/info.h"
#include "convert/list.h"
#include "core/base/args_table.h"
#include "core/base/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 16 readers saturate any disk; each has buffers of about 35 MB */
enum { EXIT_USAGE = 2, MAX_THREADS = 16 };

static volatile sig_atomic_t stop_signal;

static void on_signal(int s) { stop_signal = s; }

/* The modes of opt4gptq-convert. */
enum mode { CONVERT, VERIFY, INFO, LIST };

struct call {
    int threads, quiet, verbose, no_tokenizer, no_mtp, verify, info, list, n_ctx;
    const char *plain;
    struct args_common common;
};

#define ARGS_STRUCT struct call
static const struct args_row table[] = {
    {HEADING("Options")},
    {NAMES("-t", "--threads"), INT(threads, 1, MAX_THREADS),
     .help = "worker threads, 1 to 16 (default: this machine's processors)"},
    {NAMES("--no-tokenizer"), FLAG(no_tokenizer),
     .help = "leave the tokenizer out: the result takes token ids only"},
    {NAMES("--no-mtp"), FLAG(no_mtp),
     .help = "leave the layer out that only drafts tokens (mtp.*, or the one behind the last)"},
    {NAMES("--plain"), TEXT(plain, "keep|8bit"), VALUES("keep", "8bit"),
     .help =
         "linears (and the head) that the checkpoint has in 16 or 32 bits: keep them (default), "
         "or store them with 8 bits and a scale for 32 inputs"},
    {NAMES("-v", "--verbose"), FLAG(verbose), .help = "notes on how the checkpoint was read, too"},
    {NAMES("-q", "--quiet"), FLAG(quiet),
     .help = "no progress and no notes; warnings and errors still appear"},
    {NAMES("--verify"), FLAG(verify),
     .help = "recompute the checksum of every tensor of FILE, and check the orders",
     .chooses = VERIFY},
    {NAMES("--info"), FLAG(info), .help = "print what FILE is", .chooses = INFO},
    {NAMES("--list"), FLAG(list),
     .help = "print what the checkpoint HF_DIR is, whether it converts, and how large it will be",
     .chooses = LIST},
    {NAMES("-c", "--ctx-size"), INT(n_ctx, 1, 1 << 24),
     .help = "positions of a sequence for which --list says the memory (default: 4096, or the "
             "model's context where that is less)",
     .modes = 1u << LIST},
    ARGS_COMMON_ROWS(common, "the version"),
};

static const struct args_mode modes[] = {
    [CONVERT] = {.needed = "a checkpoint"},
    [VERIFY] = {.needed = "--verify"},
    [INFO] = {.needed = "--info"},
    [LIST] = {.needed = "--list"},
};

/* Option names of other converters. */
static const struct args_other others[] = {
    {"-o --output --outfile", ARGS_REFUSED,
     "the output is the second word: opt4gptq-convert HF_DIR OUT.safetensors"},
    {"-i --input -m --model --model-path", ARGS_REFUSED,
     "the checkpoint is the first word: opt4gptq-convert HF_DIR OUT.safetensors"},
    {"--outtype --dtype --bits --group-size", ARGS_REFUSED,
     "nothing is quantized here: the checkpoint's own 2, 3, 4 or 8 bits become the model file's"},
    {"--vocab-only --bigendian --split-max-tensors --split-max-size --mmproj --mistral-format "
     "--metadata --model-name",
     ARGS_REFUSED, "nothing like it is here"},
    {"--remote -hf --hf-repo", ARGS_REFUSED,
     "nothing is downloaded here: hf download USER/MODEL --local-dir DIR, then opt4gptq-convert "
     "DIR OUT.safetensors"},
    {"-f --force --overwrite", ARGS_ACCEPTED,
     "a regular file of the output's name is always replaced"},
    {"--use-temp-file --no-lazy --no-tensor-first-split", ARGS_ACCEPTED,
     "tensors are read as they are needed"},
    {0},
};

static const char *const examples[] = {"--list ~/hub/TinyLlama-GPTQ -c 2048",
                                       "~/hub/TinyLlama-GPTQ tinyllama.safetensors",
                                       "--info tinyllama.safetensors",
                                       "--verify tinyllama.safetensors", NULL};

static const char *const usage[] = {"[options] HF_DIR OUT.safetensors", "--verify FILE",
                                    "--info FILE", "--list HF_DIR", NULL};

static const struct args_program program = {
    .name = "opt4gptq-convert",
    .examples = examples,
    .description =
        "Makes the one file that opt4gptq-run reads of a checkpoint directory of Hugging Face with "
        "quantized weights (GPTQ, AWQ, AutoRound, compressed-tensors, MXFP4), or of a GGUF file: "
        "weights, tokenizer, chat template and settings.",
    .files = "HF_DIR: config.json, the weights as safetensors, tokenizer.json or tokenizer.model, "
             "and what else the checkpoint has, or FILE.gguf; read only. OUT.safetensors: appears "
             "when it is complete.",
    .see_also = "opt4gptq-run(1), opt4gptq-bench(1), and manual.md and model-file.md beside the "
                "installed README.md.",
    .purpose = "convert a GPTQ or AWQ checkpoint into a model file of opt4gptq-run",
    .usage = usage,
    .about = "Converts a GPTQ (or AWQ) checkpoint directory of Hugging Face, or a GGUF file, into "
             "one model file for opt4gptq-run. OUT appears when it is complete; a regular file of "
             "that name is "
             "replaced, and where OUT is a symbolic link, the file that it names.",
    .exits = "0 done, 1 failed, 2 wrong usage",
    .rows = table,
    .n_rows = sizeof table / sizeof *table,
    .others = others,
    .modes = modes,
    .n_modes = sizeof modes / sizeof *modes,
    .n_words = 2,
};

static int fail(const struct err *e)
{
    fprintf(stderr, "opt4gptq-convert: %s\n", e->msg);
    return EXIT_FAILURE;
}

static int parse(struct call *c, struct args_given *given, int argc, char **argv, struct err *e)
{
    if (args_parse(&program, c, given, argc, argv, e)) return -1;
    if (args_asks(&c->common)) return 0;
    if (args_check(&program, given, e)) return -1;
    if (given->mode && given->n_words != 1)
        return err_set(e, "%s needs one %s (see --help)", modes[given->mode].needed,
                       given->mode == LIST ? "directory" : "file");
    if (!given->mode && given->n_words != 2)
        return err_set(e, "no %s given: opt4gptq-convert HF_DIR OUT.safetensors (see --help)",
                       given->n_words ? "output" : "checkpoint");
    args_say(given);
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

/* --verify, --info, --list and the texts. */
static int show(const struct call *c, const struct args_given *given, struct err *e)
{
    int rc = 0;
    if (args_asks(&c->common)) {
        if (!args_print(&program, &c->common, stdout)) args_version(&program, stdout);
    } else {
        process_maps(given->word[0]);
        rc = given->mode == LIST     ? list_print(stdout, given->word[0], c->n_ctx, e)
             : given->mode == VERIFY ? info_verify(stdout, given->word[0], e)
                                     : info_print(stdout, given->word[0], e);
    }
    if (!rc && fflush(stdout)) rc = err_sys(e, "standard output");
    return rc;
}

int main(int argc, char **argv)
{
    process_begin("opt4gptq-convert");
    struct err e = {0};
    struct args_given given;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct call c = {.threads = processors < 1             ? 1
                                : processors > MAX_THREADS ? MAX_THREADS
                                                           : (int)processors};
    if (parse(&c, &given, argc, argv, &e)) return fail(&e), EXIT_USAGE;
    if (given.mode || args_asks(&c.common)) return show(&c, &given, &e) ? fail(&e) : EXIT_SUCCESS;
    catch_signals();
    struct convert_options o = {
        .dir = given.word[0],
        .out = {given.word[1], c.threads, !c.quiet, &stop_signal},
        .notes = {.quiet = c.quiet, .verbose = c.verbose},
        .plan = {.no_tokenizer = c.no_tokenizer,
                 .no_mtp = c.no_mtp,
                 .plain_said = c.plain != NULL,
                 .plain8 = c.plain && !strcmp(c.plain, "8bit")},
    };
    if (!convert_run(&o, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (stop_signal) { /* the caller sees which signal ended the program */
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}
