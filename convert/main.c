/* opt4gptq-convert: options, and the order of things. */
#include "convert/info.h"
#include "convert/writer.h"
#include "core/modelfile.h"
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

static int convert(const char *dir, struct writer_options *o, const struct notes *n, struct err *e)
{
    struct hf_dir d = {0};
    struct hf_config c = {0};
    struct quant_config q = {0};
    struct plan p = {0};
    struct writer_result r;
    json_t *config = NULL, *generation = NULL, *meta = NULL;
    int rc = -1;
    if (hfd_open(&d, dir, e) || hfd_json(&d, "config.json", &config, e)) goto fail;
    if (!config) {
        err_set(e, "%s: has no config.json: not a Hugging Face checkpoint", dir);
        goto fail;
    }
    if (hfd_json(&d, "generation_config.json", &generation, e)) goto fail;
    if (hfc_read(&c, config, generation, n, e)) {
        err_prefix(e, "%s", d.path);
        goto fail;
    }
    if (qc_read(&q, &d, config, n, e) || hfd_open_shards(&d, q.base_name, e) || qc_read_shards(&q, &d, n, e)) goto fail;
    if (plan_build(&p, &d, &c, &q, n, e)) goto fail;
    if (!(meta = info_metadata(&p))) {
        err_memory(e);
        goto fail;
    }
    if (writer_run(&p, meta, o, &r, e)) goto fail;
    note_info(n, "%s: %s, %d quantized and %d plain linears, %.2f GB in %.1f s", o->path, c.architecture, p.facts.n_quantized,
              p.facts.n_plain, (double)r.file_bytes / 1e9, r.seconds);
    rc = 0;
fail:
    plan_free(&p);
    qc_free(&q);
    hfc_free(&c);
    hfd_close(&d);
    json_decref(meta);
    json_decref(config);
    json_decref(generation);
    return rc;
}

static int verify(const char *path, struct err *e)
{
    struct modelfile m;
    size_t n;
    if (mf_open(&m, path, e)) return -1;
    int n_orders, rc = mf_verify(&m, &n, e) || info_check_orders(&m, &n_orders, e) ? -1 : 0;
    if (!rc) printf("%s: %zu tensors match their checksums\n", path, n);
    if (!rc && n_orders) printf("%s: in %d layers gate and up are ordered as down wants them (mlp.order)\n", path, n_orders);
    mf_close(&m);
    return rc;
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
    process_begin("opt4gptq-convert");
    struct notes n = {0};
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
        case 'q': n.quiet = 1; break;
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
        int rc = mode == OPT_VERIFY ? verify(argv[optind], &e) : info_print(stdout, argv[optind], &e);
        if (!rc && fflush(stdout)) rc = err_sys(&e, "standard output");
        return rc ? fail(&e) : EXIT_SUCCESS;
    }
    catch_signals();
    struct writer_options o = {argv[optind + 1], (int)threads, !n.quiet && isatty(STDERR_FILENO), &stop_signal};
    if (!convert(argv[optind], &o, &n, &e)) return EXIT_SUCCESS;
    int rc = fail(&e);
    if (stop_signal) { /* let the caller see which signal it was */
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}
