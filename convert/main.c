/* opt4gptq-convert: options and signals. */
#include "convert/convert.h"
#include "convert/info.h"
#include "core/base/args.h"
#include "core/base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 16 readers saturate any disk; each has buffers of about 35 MB */
enum { EXIT_USAGE = 2, MAX_THREADS = 16 };

static volatile sig_atomic_t stop_signal;

static void on_signal(int s) { stop_signal = s; }

enum {
    OPT_THREADS,
    OPT_NO_TOKENIZER,
    OPT_VERBOSE,
    OPT_QUIET,
    OPT_VERIFY,
    OPT_INFO,
    OPT_HELP,
    OPT_VERSION,
    N_OPTIONS
};

static const struct args_row table[N_OPTIONS] = {
    [OPT_THREADS] = {{"-t", "--threads"},
                     "N",
                     "worker threads, 1 to 16 (default: this machine's processors)"},
    [OPT_NO_TOKENIZER] = {{"--no-tokenizer"},
                          NULL,
                          "leave the tokenizer out: the result takes token ids only"},
    [OPT_VERBOSE] = {{"-v", "--verbose"}, NULL, "notes on how the checkpoint was read, too"},
    [OPT_QUIET] = {{"-q", "--quiet"},
                   NULL,
                   "no progress and no notes; warnings and errors still appear"},
    [OPT_VERIFY] = {{"--verify"},
                    NULL,
                    "recompute the checksum of every tensor of FILE, and check the orders"},
    [OPT_INFO] = {{"--info"}, NULL, "print what FILE is"},
    [OPT_HELP] = {{"-h", "--help", "--usage"}, NULL, "this text"},
    [OPT_VERSION] = {{"--version"}, NULL, "the version"},
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

static void print_help(void)
{
    printf("usage: opt4gptq-convert [options] HF_DIR OUT.safetensors\n"
           "       opt4gptq-convert --verify FILE\n"
           "       opt4gptq-convert --info FILE\n\n"
           "Converts a GPTQ (or AWQ) checkpoint directory of Hugging Face into one model\n"
           "file for opt4gptq-run. OUT appears when it is complete; a regular file of that\n"
           "name is replaced, and where OUT is a symbolic link, the file that it names.\n\n");
    args_help(table, sizeof *table, N_OPTIONS, stdout);
    printf("\nexit status: 0 done, 1 failed, 2 wrong usage\n");
}

static int fail(const struct err *e)
{
    fprintf(stderr, "opt4gptq-convert: %s\n", e->msg);
    return EXIT_FAILURE;
}

struct call {
    long threads;
    int quiet, verbose, no_tokenizer;
    int mode; /* OPT_VERIFY, OPT_INFO, OPT_HELP, OPT_VERSION; 0: converts */
    const char *path[2];
};

static int parse(struct call *c, int argc, char **argv, struct err *e)
{
    struct args a;
    struct args_word w;
    int rc, n_paths = 0;
    args_open(&a, table, sizeof *table, N_OPTIONS, others, argc, argv);
    while ((rc = args_next(&a, &w, e)) > 0) {
        char *end;
        if (w.row == OPT_QUIET) {
            c->quiet = 1;
        } else if (w.row == OPT_VERBOSE) {
            c->verbose = 1;
        } else if (w.row == OPT_NO_TOKENIZER) {
            c->no_tokenizer = 1;
        } else if (w.row == OPT_THREADS) {
            errno = 0;
            c->threads = strtol(w.value, &end, 10);
            if (errno || end == w.value || *end || c->threads < 1 || c->threads > MAX_THREADS)
                return err_set(e, "%s takes 1 to %d, not '%s'", w.name, MAX_THREADS, w.value);
        } else if (w.row >= 0) {
            if (c->mode != OPT_HELP && c->mode != OPT_VERSION) c->mode = w.row;
        } else if (n_paths == 2) {
            return err_set(e, "unexpected argument '%s' (see --help)", w.value);
        } else {
            c->path[n_paths++] = w.value;
        }
    }
    if (rc < 0 || c->mode == OPT_HELP || c->mode == OPT_VERSION) return rc;
    if (c->mode && n_paths != 1)
        return err_set(e, "%s needs one file (see --help)", table[c->mode].names[0]);
    if (!c->mode && n_paths != 2)
        return err_set(e, "%s (see --help)",
                       n_paths ? "no output given: opt4gptq-convert HF_DIR OUT.safetensors"
                               : "no checkpoint given: opt4gptq-convert HF_DIR OUT.safetensors");
    args_say(a.note, a.n_notes, stderr);
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
    process_begin("opt4gptq-convert");
    struct err e = {0};
    struct call c = {.threads = sysconf(_SC_NPROCESSORS_ONLN)};
    if (c.threads < 1) c.threads = 1;
    if (c.threads > MAX_THREADS) c.threads = MAX_THREADS;
    if (parse(&c, argc, argv, &e)) return fail(&e), EXIT_USAGE;
    if (c.mode == OPT_HELP) print_help();
    if (c.mode == OPT_VERSION) puts("opt4gptq-convert " OPT4GPTQ_VERSION);
    if (c.mode) {
        process_maps(c.path[0]);
        int rc = c.mode == OPT_VERIFY ? info_verify(stdout, c.path[0], &e)
                 : c.mode == OPT_INFO ? info_print(stdout, c.path[0], &e)
                                      : 0;
        if (!rc && fflush(stdout)) rc = err_sys(&e, "standard output");
        return rc ? fail(&e) : EXIT_SUCCESS;
    }
    catch_signals();
    struct convert_options o = {
        .dir = c.path[0],
        .out = {c.path[1], (int)c.threads, !c.quiet && isatty(STDERR_FILENO), &stop_signal},
        .notes = {.quiet = c.quiet, .verbose = c.verbose},
        .no_tokenizer = c.no_tokenizer,
    };
    if (!convert_run(&o, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (stop_signal) { /* the caller sees which signal ended the program */
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}
