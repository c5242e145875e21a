/* opt4gptq-convert: options, and the order of things. */
#include "convert/convert.h"
#include "convert/info.h"
#include "convert/signals.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MAX_THREADS = 16 }; /* 16 readers saturate any disk, and each holds some 35 MB */

static const char usage[] = "usage: opt4gptq-convert [options] HF_DIR OUT.safetensors\n"
                            "       opt4gptq-convert --verify FILE\n"
                            "       opt4gptq-convert --info FILE\n"
                            "\n"
                            "Converts a GPTQ (or AWQ) checkpoint directory of Hugging Face into one model file for opt4gptq-run.\n"
                            "OUT appears when it is complete; a regular file of that name is replaced.\n"
                            "\n"
                            "  -t, --threads N   worker threads, 1 to 16 (default: the processors of this machine)\n"
                            "  -q, --quiet       no progress and no notes; warnings and errors still appear\n"
                            "      --verify      recompute the checksum of every tensor of FILE, and check the orders\n"
                            "      --info        print what FILE is\n"
                            "  -h, --help        this text\n"
                            "      --version     the version\n"
                            "\n"
                            "exit status: 0 done, 1 failed, 2 wrong usage\n";

static int fail(const struct err *e)
{
    fprintf(stderr, "opt4gptq-convert: %s\n", e->msg);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    enum { OPT_VERIFY = 256, OPT_INFO, OPT_VERSION };
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'},
        {"quiet", no_argument, NULL, 'q'},
        {"verify", no_argument, NULL, OPT_VERIFY},
        {"info", no_argument, NULL, OPT_INFO},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, OPT_VERSION},
        {NULL, 0, NULL, 0},
    };
    struct convert_options o = {0};
    struct err e = {0};
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    int opt, mode = 0;
    if (threads < 1) threads = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    while ((opt = getopt_long(argc, argv, "t:qh", options, NULL)) != -1) {
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
    signals_of_files();
    if (mode) {
        int rc = mode == OPT_VERIFY ? info_verify(stdout, argv[optind], &e) : info_print(stdout, argv[optind], &e);
        if (!rc && fflush(stdout)) rc = err_sys(&e, "standard output");
        return rc ? fail(&e) : EXIT_SUCCESS;
    }
    signals_of_people();
    o.dir = argv[optind];
    o.out = (struct writer_options){argv[optind + 1], (int)threads, !o.notes.quiet && isatty(STDERR_FILENO), &signals_stop};
    if (!convert_run(&o, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (signals_stop) { /* let the caller see which signal it was */
        signal(signals_stop, SIG_DFL);
        raise(signals_stop);
    }
    return rc;
}
