/* gpu.c: what goes wrong with a GPU, on those that the tests pretend (fiber_runtime.c, gfx906/):
 * memory that does not suffice, at any point; a kernel that never ends; a device that is lost in
 * the middle of a batch; a device that no embedded kernel fits; a matrix instruction that is wrong;
 * and what is said about memory, devices and kernels. usage: gpu BUILD_DIR [--fibers]; --fibers:
 * only what needs no interpreter, which takes minutes when it is sanitized */
#include "core/base/safetensors.h"
#include "tests/harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char run_bin[512], bench_bin[512], checkop_bin[512], fibers[512], cuda[512], hopper[512],
    gfx906[512], dir[] = "/tmp/opt4gptq-gpu-XXXXXX", model[300], in[300], out[300];
static int only_fibers;

/* Five tokens of prompt and two more, through the library. */
#define COMPLETE(p, library, ...)                                                                  \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "--backend", "hip", "--hip-library", library,     \
                           "--prompt-ids", "1,5,9,3,2", "-n", "2", "--temp", "0", "--format",      \
                           "ids", __VA_ARGS__, NULL},                                              \
                NULL)
#define BATCH(p, library, ...)                                                                     \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "--backend", "hip", "--hip-library", library,     \
                           "-i", in, "-o", out, "--format", "ids", "-c", "64", __VA_ARGS__, NULL}, \
                NULL)

/* Runs with a variable of the environment set to n. */
static void with(const char *name, long n)
{
    char value[32];
    snprintf(value, sizeof value, "%ld", n);
    setenv(name, value, 1);
}

/* A whole file as text; "" when it is not there. */
static char *read_text(const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    return text ? text : strdup("");
}

static void start_over(void)
{
    char journal[320];
    snprintf(journal, sizeof journal, "%s.journal", out);
    unlink(out);
    unlink(journal);
}

/* Every allocation fails once, of device and of pinned memory: one line, exit 1, nothing lost (with
 * a sanitizer). */
static void allocations(void)
{
    struct process p;
    int n, ok = 1;
    for (n = 1; n < 500 && ok; n++) {
        with("FIBERS_FAIL_ALLOC", n);
        COMPLETE(&p, fibers, "-t", "0");
        int done = p.code == 0;
        ok = done || (p.code == 1 && lines(p.err) == 1 && strstr(p.err, "memory"));
        if (!ok) printf("  allocation %d: exit %d, %s\n", n, p.code, p.err);
        process_free(&p);
        if (done) break;
    }
    unsetenv("FIBERS_FAIL_ALLOC");
    check(ok && n > 40 && n < 500, "a failing allocation is one line and exit 1, wherever it is",
          NULL);
    if (only_fibers) return;
    for (n = 1; n < 60; n += 20) {
        with("GFX906_FAIL_ALLOC", n);
        COMPLETE(&p, gfx906, "-t", "0");
        check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, "memory"),
              "the same of the interpreter", &p);
        process_free(&p);
    }
    unsetenv("GFX906_FAIL_ALLOC");
}

static void sizes(void)
{
    struct process p;
    with("FIBERS_MEMORY", 4 << 20);
    COMPLETE(&p, fibers, "-t", "0");
    check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, "weights") &&
              strstr(p.err, "KV cache") && strstr(p.err, "4 MiB that are free"),
          "a model larger than the memory is refused with the sizes", &p);
    process_free(&p);
    BATCH(&p, fibers, "-np", "2");
    check(p.code == 1 && strstr(p.err, "free memory 4 MiB: the model takes"),
          "so is one for a batch", &p);
    process_free(&p);
    unsetenv("FIBERS_MEMORY");
    start_over();
    BATCH(&p, fibers, "-np", "2", "-b", "512", "--mem", "40M", "-v");
    check(p.code == 0 && strstr(p.err, "GPU memory: model") &&
              strstr(p.err, "kernel: q4_decode_f16_1"),
          "a batch says what it takes of the GPU's memory, and with -v which kernels there are",
          &p);
    process_free(&p);
    start_over();
    BATCH(&p, fibers, "-np", "2", "--mem", "5M");
    check(p.code == 1 && strstr(p.err, "--mem 5 MiB"), "--mem is the GPU's memory", &p);
    process_free(&p);
    if (only_fibers) return;
    process_run(&p, (char *[]){run_bin, "--list-devices", "--hip-library", gfx906, NULL}, NULL);
    check(
        p.code == 0 &&
            strstr(p.out,
                   "0: gfx906 interpreter, gfx906:sramecc-:xnack-, 16.0 GiB, kernels for gfx906 ("),
        "--list-devices", &p);
    process_free(&p);
}

static void best_act_of(char *library, const char *arch, char *variant, const char *act)
{
    struct process p;
    char what[64];
    if (arch) setenv("FIBERS_ARCH", arch, 1);
    start_over();
    BATCH(&p, library, "-np", "2", "--variant", variant);
    snprintf(what, sizeof what, "activations %s", act);
    check(p.code == 0 && strstr(p.err, what), "the arithmetic of --act auto is the device's", &p);
    process_free(&p);
    unsetenv("FIBERS_ARCH");
}

static void best_acts(void)
{
    best_act_of(fibers, "gfx906", "auto", "i16");
    best_act_of(fibers, "gfx906", "q4_decode_f16_4", "f16");
    best_act_of(fibers, "gfx90a", "auto", "f16");
    best_act_of(cuda, NULL, "auto", "f16");
}

/* While the model is uploaded, in the prompt, while it generates, until there are no more launches.
 */
static void hangs(void)
{
    struct process p;
    int n_hung = 0;
    const char *options = getenv("ASAN_OPTIONS");
    char *before = strdup(options ? options : "");
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* what a hung device has is given up with it */
    for (long at = 1;; at *= 4, n_hung++) {
        with("FIBERS_HANG", at);
        COMPLETE(&p, fibers, "--gpu-timeout", "1");
        int done = p.code == 0;
        if (done) process_free(&p);
        if (done) break;
        check(p.code == 1 && lines(p.err) == 1 &&
                  strstr(p.err, "the device hangs: no end of the work after 1 s"),
              "a kernel that never ends is found out, and no call waits for it for ever",
              &p); /* such a call aborts, see fiber_runtime.c */
        process_free(&p);
    }
    unsetenv("FIBERS_HANG");
    setenv("ASAN_OPTIONS", before, 1);
    free(before);
    check(n_hung >= 3, "it hung now and then", NULL);
}

/* A batch whose device is lost goes on with the same command, and the file is what it would have
 * been. */
static void device_lost(void)
{
    struct process p;
    int n_lost = 0;
    start_over();
    BATCH(&p, gfx906, "-np", "2");
    char *whole = read_text(out);
    check(p.code == 0 && lines(whole) == 6, "an undisturbed batch", &p);
    process_free(&p);
    for (long at = 30;; at *= 2, n_lost++) {
        start_over();
        with("GFX906_LOSE_DEVICE", at);
        BATCH(&p, gfx906, "-np", "2");
        unsetenv("GFX906_LOSE_DEVICE");
        int done = p.code == 0;
        if (done) process_free(&p);
        if (done) break;
        check(p.code == 1 && strstr(p.err, "gfx906 interpreter: ") &&
                  strstr(p.err, "unknown error (999)") && access(out, F_OK),
              "a lost device ends the batch with a line and exit 1", &p);
        process_free(&p);
        BATCH(&p, gfx906, "-np", "2");
        char *again = read_text(out);
        check(p.code == 0 && !strcmp(again, whole), "the same command continues to the same bytes",
              &p);
        free(again);
        process_free(&p);
    }
    check(n_lost >= 3, "it was lost now and then", NULL);
    free(whole);
}

/* Seconds for a compiler on a machine that does much else. */
#define PATIENCE "3000"

/* A device that takes none of the embedded code objects; its compiler is as GFX906_RTC has it. */
static void completed_as(struct process *p, const char *compiler, char *patience)
{
    setenv("GFX906_ONLY_COMPILED", "1", 1);
    setenv("GFX906_RTC", compiler, 1);
    COMPLETE(p, gfx906, "--gpu-timeout", patience);
    unsetenv("GFX906_RTC");
    unsetenv("GFX906_ONLY_COMPILED");
}

/* The embedded source is compiled for such a device, in a child: by AMD's compiler where that is
 * installed, and for a chip without dot products, by one that takes a lock of the initialized
 * runtime. */
static void compiled(void)
{
    static const struct {
        const char *mode, *says;
    } wrong[] = {{"fail", "to compile them for it failed: error 6: main.hip: does not compile"},
                 {"crash", "the compiler crashed: Aborted"},
                 {"hang", "the compiler hangs: killed after 1 s"}};
    struct process plain, p;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        completed_as(&p, wrong[i].mode, strcmp(wrong[i].mode, "hang") ? PATIENCE : "1");
        check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, wrong[i].says), wrong[i].mode, &p);
        process_free(&p);
    }
    setenv("GFX906_ONLY_COMPILED", "1", 1);
    process_run(&p, (char *[]){run_bin, "--list-devices", "--hip-library", gfx906, NULL}, NULL);
    unsetenv("GFX906_ONLY_COMPILED");
    check(p.code == 0 && strstr(p.out, "they will be compiled"), "--list-devices compiles nothing",
          &p);
    process_free(&p);
    COMPLETE(&plain, gfx906, "-v");
    void *amd = dlopen("libamdhip64.so.5", RTLD_LAZY | RTLD_LOCAL);
    const char *const compilers[] = {amd ? "real" : "", "locked,no-dot"};
    for (int i = 0; i < 2; i++) {
        completed_as(&p, compilers[i], PATIENCE);
        check(p.code == 0 && plain.code == 0 && !strcmp(p.out, plain.out),
              i ? "those for a chip without dot products, of a compiler that takes a lock, do, too"
                : "compiled kernels give the embedded ones' answer",
              &p);
        process_free(&p);
    }
    if (!amd) {
        skip("kernels compiled by AMD's hiprtc: no libamdhip64.so.5 (Debian: libamdhip64-5)");
    } else if (access("/dev/kfd", F_OK)) {
        COMPLETE(&p, "libamdhip64.so.5", "-v");
        check(p.code == 1 && lines(p.err) == 1 &&
                  strstr(p.err, "/dev/kfd (AMD's driver): No such file"),
              "AMD's library alone", &p);
        process_free(&p);
    }
    process_free(&plain);
}

/* A device that takes only code objects of its family. */
static void generic(void)
{
    struct process plain, p;
    COMPLETE(&plain, gfx906, "-v");
    setenv("GFX906_ONLY_GENERIC", "1", 1);
    process_run(&p, (char *[]){run_bin, "--list-devices", "--hip-library", gfx906, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "kernels for gfx9-generic"), "--list-devices says so", &p);
    process_free(&p);
    COMPLETE(&p, gfx906, "-v");
    unsetenv("GFX906_ONLY_GENERIC");
    check(p.code == 0 && plain.code == 0 && !strcmp(p.out, plain.out),
          "the kernels of a family give the answer of a chip's own", &p);
    process_free(&p);
    process_free(&plain);
}

/* The bench on a GPU: runs, and the ablation in every format. */
static void bench(void)
{
    struct process p;
    process_run(&p,
                (char *[]){bench_bin, "--backend", "hip", "--hip-library", fibers, "-m", model,
                           "-p", "4", "-n", "2", "-r", "1", NULL},
                NULL);
    check(p.code == 0 && strstr(p.out, "| pp4 ") && strstr(p.out, "| f16 ") &&
              strstr(p.out, "fibers"),
          "bench: runs on a GPU", &p);
    process_free(&p);
    process_run(&p,
                (char *[]){bench_bin, "--ablation", "--hip-library", gfx906, "--shape", "tiny",
                           "-n", "1", "-r", "1", "-np", "1", "--variant", "smb,all_literal", "-o",
                           "csv", NULL},
                NULL);
    /* the heading; 3 variants of the model; 3 of each of 4 linears */
    check(p.code == 0 && lines(p.out) == 1 + 3 + 4 * 3 && strstr(p.out, "\"all_literal\"") &&
              !strstr(p.out, "\"vml_wide\""),
          "bench: the ablation", &p);
    process_free(&p);
    process_run(&p,
                (char *[]){bench_bin, "--backend", "hip", "--hip-library", gfx906, "-m", model,
                           "--ops", "-p", "2", "-np", "1", "-d", "4", "-r", "1", "-o", "csv", NULL},
                NULL);
    check(p.code == 0 && strstr(p.out, "\"argmax\"") && strstr(p.out, "\"top\""),
          "bench: operations", &p);
    process_free(&p);
    process_run(&p, (char *[]){bench_bin, "--ablation", "--hip-library", "/nonexistent", NULL},
                NULL);
    check(p.code == 0 && lines(p.err) == 1 && strstr(p.out, "| paper_all_packed_1 "),
          "bench: the counts, where there is no GPU", &p);
    process_free(&p);
    process_run(
        &p, (char *[]){bench_bin, "--ablation", "--hip-library", gfx906, "--shape", "gpt-5", NULL},
        NULL);
    check(p.code == 1 && strstr(p.err, "--shape gpt-5: there are") && lines(p.err) == 1,
          "bench: an unknown shape", &p);
    process_free(&p);
}

/* Answers the requests of a file: n answers, those of *first, which they become the first time.
 * pages NULL: as many as are wanted. */
static void same_answers(const char *library, const char *of, const char *requests, int n,
                         const char *np, const char *pages, char **first, const char *what)
{
    struct process p;
    start_over();
    process_run(&p,
                (char *[]){run_bin,
                           "-m",
                           (char *)of,
                           "--backend",
                           "hip",
                           "--hip-library",
                           (char *)library,
                           "-i",
                           (char *)requests,
                           "-o",
                           out,
                           "--format",
                           "ids",
                           "-c",
                           "64",
                           "-np",
                           (char *)np,
                           pages ? "--kv-pages" : NULL,
                           (char *)pages,
                           NULL},
                NULL);
    char *text = read_text(out);
    check(p.code == 0 && lines(text) == n && (!*first || !strcmp(text, *first)), what, &p);
    process_free(&p);
    if (*first) free(text);
    else *first = text;
    start_over();
}

/* NVIDIA's kernels are chosen by the number of generated rows, of outputs and of multiprocessors,
 * and by the size of groups: always the same answers. */
static void any_batch(const char *library, const char *of, int n_runs)
{
    static const char *const at_once[] = {"7", "13", "24", "40", "13", "24", "40", "13"};
    static const int units[] = {2, 2, 2, 2, 20, 20, 20, 30};
    char many[320], *first = NULL;
    snprintf(many, sizeof many, "%s/many.jsonl", dir);
    FILE *f = fopen(many, "w");
    for (int i = 0; f && i < 40; i++)
        fprintf(f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/"
                "completions\",\"body\":{\"model\":\"m\",\"prompt\":[%d],"
                "\"max_tokens\":2,\"temperature\":0,\"ignore_eos\":true}}\n",
                i, i + 2);
    if (!f || fclose(f)) return;
    for (int i = 0; i < n_runs; i++) {
        with("FIBERS_UNITS", units[i]);
        same_answers(library, of, many, 40, at_once[i], NULL, &first,
                     "the same answers with any -np");
    }
    free(first);
    unsetenv("FIBERS_UNITS");
}

/* A checkpoint's copy whose inputs belong to groups in no order, as act-order leaves them; those of
 * one layer alike. 0 or -1. */
static int make_act_order(const char *from, const char *to)
{
    char path[400];
    struct process p;
    struct st_file s;
    struct err e;
    process_run(&p, (char *[]){"/bin/cp", "-r", (char *)from, (char *)to, NULL}, NULL);
    process_free(&p);
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    int n = 0, f = chmod(path, 0600) ? -1 : open(path, O_WRONLY);
    if (f < 0 || st_open(&s, path, &e)) return -1;
    for (size_t i = 0; i < s.n_tensors; i++) {
        const struct st_tensor *t = &s.tensors[i];
        size_t name = strlen(t->name);
        if (name < 6 || strcmp(t->name + name - 6, ".g_idx")) continue;
        int inputs = (int)(t->bytes / 4), *group = malloc(t->bytes), *other = malloc(t->bytes);
        if (st_read(&s, group, t->offset, t->bytes, &e)) return -1;
        for (int j = 0; j < inputs; j++) other[j] = group[(j * 37 + 11) % inputs];
        n += pwrite(f, other, t->bytes, (off_t)t->offset) == (ssize_t)t->bytes;
        free(group);
        free(other);
    }
    st_close(&s);
    return close(f) || !n ? -1 : 0;
}

/* The linears of a single generated row are launched with the operations around them, rows that
 * have a multiprocessor each are prepared by more threads: the same answers as beside others. */
static void few_rows(const char *of, const char *what)
{
    char *first = NULL;
    with("FIBERS_UNITS", 2);
    same_answers(hopper, of, in, 6, "6", NULL, &first, what);
    same_answers(hopper, of, in, 6, "1", NULL, &first, what);
    with("FIBERS_UNITS", 8);
    same_answers(hopper, of, in, 6, "6", NULL, &first, what);
    unsetenv("FIBERS_UNITS");
    free(first);
}

/* Steps begin before the last one's tokens are known, or wait for them where they are drawn: the
 * same answers whatever runs beside them, with few pages and with many. */
static void kinds_of_requests(void)
{
    static const char *const kind[] = {
        "\"temperature\":0",
        "\"temperature\":0.9,\"seed\":3",
        "\"temperature\":0,\"stop_token_ids\":[30,60,90,120,150,180,210,240,270]",
        "\"temperature\":0,\"logprobs\":2",
        "\"temperature\":1,\"n\":2",
        "\"temperature\":0,\"min_tokens\":3"};
    static const char *const at_once[] = {"1", "5", "6", "16"}, *const pages[] = {"16", "16", "4",
                                                                                  "16"};
    char mixed[320], *first = NULL;
    snprintf(mixed, sizeof mixed, "%s/mixed.jsonl", dir);
    FILE *f = fopen(mixed, "w");
    for (int i = 0; f && i < 18; i++)
        fprintf(f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/"
                "completions\",\"body\":{\"model\":\"m\",\"prompt\":[%d,%d,8],"
                "\"max_tokens\":%d,%s}}\n",
                i, i + 2, 7 * i + 1, 3 + i % 4, kind[(i + i / 6) % 6]);
    if (!f || fclose(f)) return;
    for (int i = 0; i < 4; i++)
        same_answers(fibers, model, mixed, 18, at_once[i], pages[i], &first,
                     "the same answers beside requests of any kind");
    free(first);
}

/* The device draws tokens, or, where log-probabilities of named tokens are wanted, the host does
 * from all logits: the same ones. */
static void some_logits(void)
{
    static const char *const what[] = {"", ",\"logprobs\":0,\"logprob_token_ids\":[5]"};
    char drawn[320], *first = NULL;
    snprintf(drawn, sizeof drawn, "%s/drawn.jsonl", dir);
    for (int whole = 0; whole < 2; whole++) {
        FILE *f = fopen(drawn, "w");
        for (int i = 0; f && i < 12; i++)
            fprintf(
                f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/"
                "completions\",\"body\":{\"model\":\"m\",\"prompt\":[%d,8],"
                "\"max_tokens\":5,\"temperature\":%d,\"top_k\":%d,\"top_p\":%s,\"seed\":%d%s}}\n",
                i, i + 2, 1 + i % 3, 1 + 9 * (i % 8), i % 2 ? "1" : "0.9", i, what[whole]);
        if (!f || fclose(f)) return;
        same_answers(fibers, model, drawn, 12, whole ? "5" : "7", NULL, &first,
                     "the same tokens from some logits as from all");
    }
    free(first);
}

/* One lane of a matrix instruction gets what is another's: checkop of `op` in --act `act` fails. */
static void wrong_lane_of(const char *library, const char *op, const char *act, const char *what)
{
    struct process p;
    process_run(&p,
                (char *[]){checkop_bin, "--backend", "hip", "--hip-library", (char *)library,
                           "--variant", "auto", "--quick", "--first", "--op", (char *)op,
                           act ? "--act" : NULL, (char *)act, NULL},
                NULL);
    check(p.code == 1 && strstr(p.out, "FAIL"), what, &p);
    process_free(&p);
}

/* The test of the test of matrix instructions, of each family. */
static void wrong_lane(void)
{
    setenv("FIBERS_WRONG_LANE", "1", 1);
    setenv("FIBERS_ARCH", "gfx1100", 1);
    wrong_lane_of(fibers, "f16", NULL, "a wrong lane of a matrix instruction of AMD's is noticed");
    static const char *const arch[] = {"gfx90a", "gfx1100", "gfx1201"};
    for (int i = 0; i < 3; i++) {
        setenv("FIBERS_ARCH", arch[i], 1);
        wrong_lane_of(fibers, "attend", NULL, "a wrong lane in attention in fp16 is noticed");
        wrong_lane_of(fibers, "attend", "i16", "a wrong lane in attention in i16 is noticed");
    }
    unsetenv("FIBERS_ARCH");
    wrong_lane_of(cuda, "attend", NULL,
                  "a wrong lane of a matrix instruction of NVIDIA's is noticed");
    unsetenv("FIBERS_WRONG_LANE");
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(dir)) return 2;
    struct process p;
    char convert[512];
    only_fibers = argc > 2 && !strcmp(argv[2], "--fibers");
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(bench_bin, sizeof bench_bin, "%s/opt4gptq-bench", argv[1]);
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", argv[1]);
    snprintf(checkop_bin, sizeof checkop_bin, "%s/tests/bin/checkop", argv[1]);
    snprintf(fibers, sizeof fibers, "%s/tests/bin/libhip-fibers.so", argv[1]);
    snprintf(cuda, sizeof cuda, "%s/tests/bin/libcuda-fibers-80.so", argv[1]);
    snprintf(hopper, sizeof hopper, "%s/tests/bin/libcuda-fibers-90.so", argv[1]);
    snprintf(gfx906, sizeof gfx906, "%s/tests/bin/libamdhip64-gfx906.so", argv[1]);
    snprintf(model, sizeof model, "%s/model.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out.txt", dir);
    process_run(&p, (char *[]){convert, "tests/data/gptq/qwen3", model, NULL}, NULL);
    check(p.code == 0, "conversion", &p);
    process_free(&p);
    FILE *f = fopen(in, "w");
    for (int i = 0; f && i < 6; i++)
        fprintf(f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/"
                "completions\",\"body\":{\"model\":\"m\",\"prompt\":[%d,7,9],\"max_tokens\":%d,"
                "\"temperature\":0}}\n",
                i, i + 2, 2 + i % 3);
    if (!f || fclose(f)) return 2;
    allocations();
    sizes();
    hangs();
    kinds_of_requests();
    some_logits();
    if (!only_fibers) {
        best_acts();
        device_lost();
        compiled();
        generic();
        bench();
        wrong_lane();
        any_batch(cuda, model, 4);
        any_batch(hopper, model, 8);
        few_rows(model, "the same answers to few requests at a time");
        char other[320], folder[300];
        snprintf(other, sizeof other, "%s/other.safetensors", dir);
        snprintf(folder, sizeof folder, "%s/act-order", dir);
        check(!make_act_order("tests/data/gptq/qwen3", folder), "a checkpoint in no order", NULL);
        process_run(&p, (char *[]){convert, folder, other, NULL}, NULL);
        check(p.code == 0, "conversion", &p);
        process_free(&p);
        few_rows(other, "the same answers to few requests at a time, act-order");
        process_run(&p, (char *[]){convert, "tests/data/gptq/bits8", other, NULL},
                    NULL); /* groups of 64 */
        check(p.code == 0, "conversion", &p);
        process_free(&p);
        any_batch(hopper, other, 3);
    }
    process_run(&p, (char *[]){"/bin/rm", "-rf", dir, NULL}, NULL);
    process_free(&p);
    return report("gpu");
}
