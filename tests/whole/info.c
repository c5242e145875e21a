/* info.c: --info: what would lie where and what other choices would cost, of GPUs that are not here
 * by --gpu-memory. Works on data/gptq/qwen3-moe (3 layers, 2 with experts); usage: info BUILD_DIR.
 */
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-info-XXXXXX", model[300];

/* No library of a GPU is found. */
#define INFO(p, ...)                                                                               \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "--info", "-c", "64", "--hip-library",            \
                           "/none.so", __VA_ARGS__, NULL},                                         \
                NULL)
#define SAYS(p, what, ...) says(p, what, (const char *const[]){__VA_ARGS__, NULL})

/* All of the lines are there, in this order, and nothing is on stderr. */
static void says(struct process *p, const char *what, const char *const *line)
{
    const char *at = p->out;
    while (at && *line && (at = strstr(at, *line))) line++;
    check(p->code == 0 && at && !*line && !*p->err, what, p);
    process_free(p);
}

static void one_gpu(void)
{
    struct process p;
    INFO(&p, "--gpu-memory", "16G");
    SAYS(&p, "all on the GPU", "\nGPU    3 of   3    2 of   2 ", "\n   0 ", "\n   1 ", "\n   2 ",
         " (this run)\n");
    INFO(&p, "--gpu-memory", "16G", "-cmoe");
    SAYS(&p, "the experts on the CPU", "bytes of answers are those of this split",
         "\nGPU    3 of   3    0 of   2 ", "\nCPU    0 of   3    2 of   2 ", "\n   0 ",
         " (this run)\n   1 ", "\n   2 ");
    INFO(&p, "--gpu-memory", "16G", "-ngl", "1", "--same-bits");
    SAYS(&p, "a layer on the GPU", "GPU    1 of   3    1 of   2 ", "\nCPU    2 of   3    1 of   2 ",
         "\nlayers on the GPU", "\n   0 ", "\n   1 ", " (this run)\n   2 ", "\n   3 ");
    INFO(&p, "--backend", "cpu");
    SAYS(&p, "all on the CPU", "\nCPU    3 of   3    2 of   2 ", "--gpu-memory SIZE says");
}

/* Less memory than all takes: what fits. */
static void what_fits(void)
{
    struct process p;
    char size[32];
    int experts = -1, n = 0, last = 2;
    INFO(&p, "--gpu-memory", "16G", "-b", "16");
    double all = 0, one = 0;
    const char *at = strstr(p.out, "\nGPU ");
    if (at) sscanf(at, " GPU %*d of %*d %*d of %*d %lf MiB %*f MiB %*f MiB %lf MiB", &all, &one);
    check(all + one > 1, "what all takes", &p);
    process_free(&p);
    for (int kib = (int)((all + one + 4) * 1024); kib > 0 && last > 0; kib -= 48) {
        snprintf(size, sizeof size, "%dK", kib);
        INFO(&p, "--gpu-memory", size, "-b", "16", "--same-bits");
        at = strstr(p.out, "GPU ");
        if (p.code || !at || sscanf(at, "GPU %*d of %*d %d of", &experts) != 1) break;
        check_that(experts <= last, "less memory, fewer experts: %d after %d", experts, last);
        n += experts < last;
        last = experts;
        process_free(&p);
    }
    check(n > 0, "experts that do not fit are on the CPU", &p);
    process_free(&p);
}

static void several(void)
{
    struct process p;
    INFO(&p, "--gpu-memory", "16G", "--devices", "0,1,2", "--parallel-mode", "layers");
    SAYS(&p, "three GPUs by layers", "\nGPU    1 of   3    0 of   2 ",
         "\nGPU    1 of   3    1 of   2 ", "\nGPU    1 of   3    1 of   2 ",
         "\n3 GPUs: ", "\none GPU ", "\ntensor ", "\nlayers ", " (this run)\ndata ");
    INFO(&p, "--gpu-memory", "16G", "--devices", "0,1", "--parallel-mode", "tensor");
    SAYS(&p, "two by tensor", "\nGPU    3 of   3    2 of   2 ", "\nGPU    3 of   3    2 of   2 ",
         "\ntensor ", " (this run)\nlayers ");
    INFO(&p, "--gpu-memory", "16G", "--devices", "0,1,2,3,4,5,6,7");
    SAYS(&p, "eight, which have all of the model", "data: each of 8 GPUs", "\none GPU ",
         "\ntensor ", "\ndata ", " (this run)\n");
}

static void refused(int code, const char *text, char *const options[])
{
    struct process p;
    char *argv[16] = {run_bin, "-m", model, "--info", "--hip-library", "/none.so"};
    for (int i = 0; options[i]; i++) argv[6 + i] = options[i];
    process_run(&p, argv, NULL);
    check(p.code == code && strstr(p.err, text) && lines(p.err) == 1, text, &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/moe.safetensors", dir);
    check(!shell_code("%s/opt4gptq-convert -q tests/data/gptq/qwen3-moe %s 2>/dev/null", argv[1],
                      model),
          "convert", NULL);
    one_gpu();
    what_fits();
    several();
#define REFUSED(code, text, ...) refused(code, text, (char *[]){__VA_ARGS__, NULL})
    REFUSED(2, "--info and -p exclude each other", "-p", "x");
    char fibers[600];
    snprintf(fibers, sizeof fibers, "%s/tests/bin/libhip-fibers.so", argv[1]);
    const char *none = "cannot open shared object file",
               *why = access(fibers, R_OK) ? "contains no kernels" : none;
    REFUSED(1, why, "--backend", "gpu");
    REFUSED(1, none, "--gpu-memory", "1G", "--devices", "all");
    REFUSED(1, "--gpu-memory 1 MiB: the model takes", "--gpu-memory", "1M");
    REFUSED(1, "4 devices for 3 layers", "--gpu-memory", "1G", "--devices", "0,1,2,3",
            "--parallel-mode", "layers");
    shell_code("rm -rf %s", dir);
    return report("info");
}
