/* opt4gptq-convert: options and signals. */
#include "convert/convert.h"
#include "convert/info.h"
#include "core/process.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MAX_THREADS = 16 }; /* 16 readers saturate any disk, and each holds some 35 MB */

static volatile sig_atomic_t stop_signal;

static void on_signal(int s) { stop_signal = s; }

static const char usage[] =
    "usage: opt4gptq-convert [options] HF_DIR OUT.safetensors\n"
    "       opt4gptq-convert --verify FILE\n"
    "       opt4gptq-convert --info FILE\n"
    "\n"
    "Converts a GPTQ (or AWQ) checkpoint directory of Hugging Face into one model file\n"
    "for opt4gptq-run. OUT appears when it is complete; a regular file of that name is\n"
    "replaced, and where OUT is a symbolic link, the file that it names.\n"
    "\n"
    "  -t, --threads N     worker threads, 1 to 16 (default: the processors of this machine)\n"
    "      --no-tokenizer  leave the tokenizer out: the result takes token ids only\n"
    "  -v, --verbose       notes on how the checkpoint was read, too\n"
    "  -q, --quiet         no progress and no notes; warnings and errors still appear\n"
    "      --verify        recompute the checksum of every tensor of FILE, and check the orders\n"
    "      --info          print what FILE is\n"
    "  -h, --help          this text\n"
    "      --version       the version\n"
    "\n"
    "exit status: 0 done, 1 failed, 2 wrong usage\n";

static int fail(const struct err *e)
{
    fprintf(stderr, "opt4gptq-convert: %s\n", e->msg);
    return EXIT_FAILURE;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction a = {.sa_handler = on_signal}, old;
    for (int i = 0; i < 3; i++)
        if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL); /* nohup stays nohup */
}

int main(int argc, char **argv)
{
    enum { OPT_VERIFY = 256, OPT_INFO, OPT_VERSION, OPT_NO_TOKENIZER };
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'},
        {"no-tokenizer", no_argument, NULL, OPT_NO_TOKENIZER},
        {"verbose", no_argument, NULL, 'v'},
        {"quiet", no_argument, NULL, 'q'},
        {"verify", no_argument, NULL, OPT_VERIFY},
        {"info", no_argument, NULL, OPT_INFO},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, OPT_VERSION},
        {NULL, 0, NULL, 0},
    };
    process_begin("opt4gptq-convert");
    struct convert_options o = {0};
    struct err e = {0};
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    int opt, mode = 0;
    if (threads < 1) threads = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    while ((opt = getopt_long(argc, argv, "t:vqh", options, NULL)) != -1) {
        char *end;
        switch (opt) {
        case 't':
            errno = 0;
            threads = strtol(optarg, &end, 10);
            if (errno || end == optarg || *end || threads < 1 || threads > MAX_THREADS) {
                fprintf(stderr, "opt4gptq-convert: --threads takes 1 to %d, not '%s'\n", MAX_THREADS, optarg);
                return EXIT_USAGE;
            }
            break;
        case 'v': o.notes.verbose = 1; break;
        case OPT_NO_TOKENIZER: o.no_tokenizer = 1; break;
        case 'q': o.notes.quiet = 1; break;
        case 'h': fputs(usage, stdout); return EXIT_SUCCESS;
        case OPT_VERSION: puts("opt4gptq-convert " OPT4GPTQ_VERSION); return EXIT_SUCCESS;
        case OPT_VERIFY:
        case OPT_INFO: mode = opt; break;
        default: fprintf(stderr, "opt4gptq-convert: try --help\n"); return EXIT_USAGE;
        }
    }
    if (argc - optind != (mode ? 1 : 2)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    if (mode) {
        process_maps(argv[optind]);
        int rc = mode == OPT_VERIFY ? info_verify(stdout, argv[optind], &e) : info_print(stdout, argv[optind], &e);
        if (!rc && fflush(stdout)) rc = err_sys(&e, "standard output");
        return rc ? fail(&e) : EXIT_SUCCESS;
    }
    catch_signals();
    o.dir = argv[optind];
    o.out = (struct writer_options){argv[optind + 1], (int)threads, !o.notes.quiet && isatty(STDERR_FILENO), &stop_signal};
    if (!convert_run(&o, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (stop_signal) { /* let the caller see which signal it was */
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}
