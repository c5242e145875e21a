/* devices.c: several GPUs in one run, pretended by the host code of the kernels: batches by data,
 * tensor and layers have the bytes of one device and of the CPU, also when they are killed or lose
 * a card and go on with other cards, and where peers' memory is broken; what is said of each card;
 * what is refused. usage: devices BUILD_DIR */
#include "tests/harness.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_bin[512], fibers[512], cuda[512],
    dir[] = "/tmp/opt4gptq-devices-XXXXXX", model[300], in[300], out[300], journal[320], side[300];
static char *whole; /* the answers of the CPU */

enum { RECORDS = 10 };

/* A batch on the cards of LIST, in integers. */
#define BATCH(p, library, list, ...)                                                               \
    process_run(p, (char *[]){run_bin, "-m",        model,      "-i",          in,                 \
                              "-o",    out,         "--format", "ids",         "-c",               \
                              "64",    "-np",       "2",        "--same-bits", "--hip-library",    \
                              library, "--devices", list,       __VA_ARGS__,   NULL},              \
                NULL)

static void start_over(void)
{
    unlink(out);
    unlink(journal);
}

static int is_whole(void)
{
    size_t n;
    char *text = read_file(out, &n);
    int same = text && !strcmp(text, whole);
    free(text);
    return same;
}

/* Sets variables "NAME=VALUE" of the pretended GPUs; 0: unsets them. */
static void with(const char *const variables[], int on)
{
    for (int i = 0; variables[i]; i++) {
        char name[64];
        const char *is = strchr(variables[i], '=');
        snprintf(name, sizeof name, "%.*s", (int)(is - variables[i]), variables[i]);
        if (on) setenv(name, is + 1, 1);
        else unsetenv(name);
    }
}
#define WITH(...)                                                                                  \
    for (const char *const variables_[] = {__VA_ARGS__, NULL}, *once_ = (with(variables_, 1), ""); \
         once_; once_ = (with(variables_, 0), NULL))

static void write_input(void)
{
    FILE *f = fopen(in, "w");
    for (int i = 0; f && i < RECORDS; i++) {
        fprintf(f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                "\"prompt\":[%d",
                i, i + 2);
        for (int k = 0; k < 2 + i * 3 % 8; k++) fprintf(f, ",%d", 3 + (k * 7 + i / 2) % 90);
        fprintf(f, "],\"max_tokens\":%d,\"temperature\":%d,\"seed\":%d}}\n", 2 + i % 4, i % 2, i);
    }
    if (!f || fclose(f)) exit(2);
}

static void of_the_cpu(void)
{
    struct process p;
    size_t n;
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-i", in, "-o", out, "--format", "ids", "-c", "64",
                           "--same-bits", "--backend", "cpu", NULL},
                NULL);
    whole = read_file(out, &n);
    check(p.code == 0 && whole && lines(whole) == RECORDS, "a batch on the CPU", &p);
    process_free(&p);
    if (!whole) exit(2);
}

/* ---- answers, report, trace */

static int tokens_of(const json_t *devices, const char *field)
{
    size_t i;
    json_t *d;
    int sum = 0;
    json_array_foreach (devices, i, d) sum += (int)json_integer_value(json_object_get(d, field));
    return sum;
}

static void read_report(int n)
{
    json_t *report = json_load_file(side, 0, NULL), *d = json_object_get(report, "devices");
    int ok = json_array_size(d) == (size_t)n &&
             !strcmp(json_string_value(json_object_get(report, "parallel_mode")), "data");
    for (int i = 0; ok && i < n; i++) {
        const json_t *one = json_array_get(d, (size_t)i);
        ok = json_integer_value(json_object_get(one, "device")) == i &&
             json_integer_value(json_object_get(one, "steps")) > 0 &&
             json_integer_value(json_object_get(one, "completion_tokens")) > 0 &&
             json_real_value(json_object_get(one, "busy_seconds")) > 0;
    }
    check_that(ok, "--report has what each of %d cards did", n);
    const char *const fields[] = {"steps", "completion_tokens", "computed_prompt_tokens"};
    for (int i = 0; i < 3; i++)
        check_that(tokens_of(d, fields[i]) ==
                       json_integer_value(json_object_get(report, fields[i])),
                   "%s of the cards add up", fields[i]);
    json_decref(report);
}

static void read_trace(int n)
{
    json_t *events = json_load_file(side, 0, NULL), *v;
    size_t i;
    int n_steps[8] = {0}, ok = 1;
    json_array_foreach (events, i, v)
        if (!strcmp(json_string_value(json_object_get(v, "name")), "step"))
            n_steps[json_integer_value(json_object_get(v, "tid")) & 7]++;
    for (int k = 1; k <= n; k++) ok &= n_steps[k] > 0;
    check_that(ok, "--trace has the steps of each of %d cards", n);
    json_decref(events);
}

static void the_same_answers(void)
{
    struct process p;
    start_over();
    WITH("FIBERS_DEVICES=3", "FIBERS_SLOW=1,30,4")
    BATCH(&p, fibers, "all", "--parallel-mode", "data", "--report", side);
    check(p.code == 0 && is_whole(), "three cards, one of them slower: the bytes of the CPU", &p);
    check(strstr(p.err, "parallel: data: each of 3 GPUs") && strstr(p.err, "machine: GPU 0: ") &&
              strstr(p.err, "machine: GPU 2: "),
          "what each has is said", &p);
    process_free(&p);
    read_report(3);
    start_over();
    unlink(side);
    WITH("FIBERS_DEVICES=2") BATCH(&p, cuda, "1,0", "--trace", side);
    check(p.code == 0 && is_whole(), "two cards that replay graphs: the bytes of the CPU", &p);
    process_free(&p);
    read_trace(2);
    start_over();
    WITH("FIBERS_DEVICES=2", "FIBERS_ARCH=gfx90a,gfx906", "FIBERS_MEMORY=,100000000")
    BATCH(&p, fibers, "0,1", "--order", "input");
    check(p.code == 0 && is_whole(), "unequal cards with unequal memory: the bytes of the CPU", &p);
    process_free(&p);
}

/* ---- ends */

static int is_one_line(const struct process *p, const char *what)
{
    const char *last = p->err; /* the last line but for those that say what is kept */
    return p->code == 1 && (last = strstr(p->err, "opt4gptq-run: ")) &&
           strstr(last, what) != NULL && lines(last) == 1;
}

/* A fault of card 1 ends the run; the same command goes on with others. */
static void ends_and_goes_on(const char *fault, const char *says, char *other)
{
    struct process p;
    start_over();
    WITH("FIBERS_DEVICES=3", fault) BATCH(&p, fibers, "0,1,2", "--gpu-timeout", "1");
    check(is_one_line(&p, says) && access(out, F_OK), fault, &p);
    check(strstr(p.err, "answers are kept in") != NULL, "what is done is kept", &p);
    process_free(&p);
    WITH("FIBERS_DEVICES=3") BATCH(&p, fibers, other, "-v");
    check(p.code == 0 && is_whole(), "the same command goes on with other cards", &p);
    check(strstr(p.err, "continuing: ") != NULL, "and computes nothing twice", &p);
    process_free(&p);
}

static void lost_together(void);

static void faults(void)
{
    const char *options = getenv("ASAN_OPTIONS");
    char *before = strdup(options ? options : "");
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* what such a device has is given up with it */
    ends_and_goes_on("FIBERS_LOST=,180", "GPU 1: fibers: ", "0,2");
    ends_and_goes_on("FIBERS_FAIL_COPY=,129", "GPU 1: fibers: ", "2,0");
    ends_and_goes_on("FIBERS_HANG=,,150", "GPU 2: fibers: the device hangs", "1");
    lost_together();
    setenv("ASAN_OPTIONS", before, 1);
    free(before);
}

static void does_not_open(const char *fault, const char *says, char *mode)
{
    struct process p;
    start_over();
    WITH("FIBERS_DEVICES=2", fault) BATCH(&p, fibers, "0,1", "--parallel-mode", mode);
    check(is_one_line(&p, says), fault, &p);
    process_free(&p);
}

/* Killed with some answers on disk, and continued on more cards. */
static void killed(void)
{
    struct process p;
    int n = 0, status;
    start_over();
    setenv("FIBERS_DEVICES", "3", 1);
    pid_t child = fork();
    if (!child) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        execl(run_bin, run_bin, "-m", model, "-i", in, "-o", out, "--format", "ids", "-c", "64",
              "-np", "1", "--same-bits", "--hip-library", fibers, "--devices", "0,1", (char *)NULL);
        _exit(2);
    }
    while (n < 2 && !waitpid(child, &status, WNOHANG)) {
        size_t bytes;
        char *text = read_file(journal, &bytes);
        n = 0;
        for (const char *at = text; at && (at = strstr(at, "\n")); at++) n++;
        free(text);
        n -= 2;
        usleep(5000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    check_that(access(out, F_OK), "a batch on two cards was killed");
    BATCH(&p, fibers, "all", "-v");
    check(p.code == 0 && is_whole() && strstr(p.err, "continuing: "),
          "killed on two cards, it goes on with three", &p);
    process_free(&p);
    unsetenv("FIBERS_DEVICES");
}

/* ---- sequences at once, where -np is not given */

static void at_once(const char *memory, char *context, char *const more[2], int expected)
{
    struct process p;
    start_over();
    WITH(memory)
    process_run(&p, (char *[]){run_bin, "-m",          model,       "-i",    in,
                               "-o",    out,           "--format",  "ids",   "-c",
                               context, "--same-bits", "--backend", "hip",   "--hip-library",
                               fibers,  "--report",    side,        more[0], more[1],
                               NULL},
                NULL);
    json_t *report = json_load_file(side, 0, NULL);
    check(p.code == 0 && is_whole() &&
              json_integer_value(json_object_get(report, "parallel")) == expected,
          memory, &p);
    json_decref(report);
    process_free(&p);
}

/* 512 where as many of 768 positions, or of a shorter context, fit. */
static void memory_decides(void)
{
    char *const nothing[2] = {NULL}, *const told[2] = {"-np", "9"}, *const mem[2] = {"--mem", "2G"};
    at_once("FIBERS_MEMORY=8000000000", "1024", nothing, 512);
    at_once("FIBERS_MEMORY=300000000", "1024", nothing, 256);
    at_once("FIBERS_MEMORY=300000000", "64", nothing, 512);
    at_once("FIBERS_MEMORY=8000000000", "1024", told, 9);
    at_once("FIBERS_MEMORY=8000000000", "1024", mem, 256);
}

/* ---- cards that compute together */

static void together(void)
{
    struct process p;
    start_over();
    WITH("FIBERS_DEVICES=3") BATCH(&p, fibers, "all", "--parallel-mode", "tensor");
    check(p.code == 0 && is_whole() && strstr(p.err, "the host's memory"),
          "three cards by tensor, of AMD through the host: the bytes of the CPU", &p);
    process_free(&p);
    start_over();
    WITH("FIBERS_DEVICES=2") BATCH(&p, cuda, "0,1", "--parallel-mode", "tensor");
    check(p.code == 0 && is_whole() && strstr(p.err, "peers' memory"),
          "two cards by tensor, through peers' memory and graphs: the bytes of the CPU", &p);
    process_free(&p);
    start_over();
    WITH("FIBERS_DEVICES=2", "FIBERS_XGMI=1") BATCH(&p, fibers, "1,0", "--parallel-mode", "layers");
    check(p.code == 0 && is_whole() && strstr(p.err, "peers' memory"),
          "two cards by layers, with links of their own: the bytes of the CPU", &p);
    check(strstr(p.err, "pipeline: 2 microbatches of up to 1 sequence ") != NULL,
          "two microbatches", &p);
    process_free(&p);
}

/* Groups of sequences that take turns on cards with some of the layers each; a context of 64
 * positions takes 4 pages. */
static void in_microbatches(void)
{
    static char *const of[][5] = {
        {"-np", "7", "--kv-pages", "8", "pipeline: 2 microbatches of up to 4 sequences "},
        {"-np", "1", "--kv-pages", "8", NULL},
        {"-np", "7", "--kv-pages", "7", NULL}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct process p;
        const char *what = of[i][4];
        start_over();
        WITH("FIBERS_DEVICES=2")
        BATCH(&p, cuda, "0,1", "--parallel-mode", "layers", of[i][0], of[i][1], of[i][2], of[i][3]);
        check(p.code == 0 && is_whole() && !strstr(p.err, what ? what : "pipeline: ") == !what,
              what ? what : "no microbatches of one sequence, or where pages are few", &p);
        process_free(&p);
    }
}

/* Peers whose memory cannot be reached, or changes what is written there. */
static void broken_peers(void)
{
    static const char *const how[] = {"FIBERS_PEER=none", "FIBERS_PEER=corrupt"},
                             *const says[] = {"cannot reach the memory of device",
                                              "arrives changed"};
    for (int i = 0; i < 2; i++) {
        struct process p;
        start_over();
        WITH("FIBERS_DEVICES=2", how[i]) BATCH(&p, cuda, "0,1", "--parallel-mode", "tensor");
        check(p.code == 0 && is_whole() && strstr(p.err, "the host's memory"), how[i], &p);
        process_free(&p);
        start_over();
        WITH("FIBERS_DEVICES=2", how[i])
        BATCH(&p, cuda, "0,1", "--parallel-mode", "tensor", "--exchange", "peer");
        check(is_one_line(&p, says[i]), says[i], &p);
        process_free(&p);
    }
}

/* A prompt that is kept on disk is read by the same split alone: others have other pages. */
static void kept_prompts(void)
{
    static char *const how[][5] = {{"--devices", "0,1", "--parallel-mode", "tensor", NULL},
                                   {"--devices", "1", NULL},
                                   {"--devices", "0,1", "--parallel-mode", "layers", NULL}};
    char ids[1000] = "", *first = NULL, store[320];
    for (int i = 0; i < 150; i++) sprintf(ids + strlen(ids), i ? ",%d" : "%d", 3 + i * 7 % 90);
    snprintf(store, sizeof store, "%s/store", dir);
    setenv("FIBERS_DEVICES", "2", 1);
    for (int i = 0; i < 6; i++) { /* each a second time, out of its own pages */
        struct process p;
        char *argv[24] = {run_bin,       "-m",
                          model,         "--prompt-ids",
                          ids,           "-n",
                          "4",           "--format",
                          "ids",         "-v",
                          "--same-bits", "--hip-library",
                          cuda,          "--prefix-cache-dir",
                          store};
        for (int k = 0; how[i % 3][k]; k++) argv[15 + k] = how[i % 3][k];
        process_run(&p, argv, NULL);
        if (!first) first = strdup(p.out);
        check(p.code == 0 && *p.out && !strcmp(p.out, first),
              "prompts on disk are those of the same split", &p);
        process_free(&p);
    }
    free(first);
    unsetenv("FIBERS_DEVICES");
}

/* One of several is lost, or a copy to it fails: the others do not wait for it; what is done is
 * kept for one card. */
static void lost_in(char *mode, const char *when, const char *says)
{
    struct process p;
    start_over();
    WITH("FIBERS_DEVICES=2", when)
    BATCH(&p, fibers, "0,1", "--parallel-mode", mode, "--gpu-timeout", "20");
    check(is_one_line(&p, says) && !strstr(p.err, "hangs"),
          "a card is lost, and the other does not wait for it", &p);
    process_free(&p);
    WITH("FIBERS_DEVICES=1") BATCH(&p, fibers, "0", "-v");
    check(p.code == 0 && is_whole() && strstr(p.err, "continuing: "), "one card goes on", &p);
    process_free(&p);
}

static void lost_together(void)
{
    lost_in("tensor", "FIBERS_LOST=,400", "unspecified launch failure");
    lost_in("tensor", "FIBERS_FAIL_COPY=,140", "fibers: ");
    lost_in("layers", "FIBERS_LOST=,300", "unspecified launch failure");
}

/* ---- one line each */

static void refuse(int code, const char *says, char *const options[])
{
    struct process p;
    char *argv[32] = {run_bin, "-m", model};
    int n = 3;
    for (int i = 0; options[i]; i++) argv[n++] = options[i];
    process_run(&p, argv, NULL);
    char what[200];
    snprintf(what, sizeof what, "refused in a line: %s", says);
    check(p.code == code && strstr(p.err, says) && lines(p.err) == 1, what, &p);
    process_free(&p);
}

static void refusals(void)
{
#define REFUSE(code, says, ...)                                                                    \
    refuse(code, says, (char *[]){"-i", in, "-o", out, __VA_ARGS__, NULL})
#define GPUS "--hip-library", fibers
    static char many[] = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";
    start_over();
    setenv("FIBERS_DEVICES", "2", 1);
    REFUSE(2, "--devices : no device is given", "--devices", "");
    REFUSE(2, "not a list of numbers", "--devices", "0,");
    REFUSE(2, "not a list of numbers", "--devices", ",0");
    REFUSE(2, "not a list of numbers", "--devices", "0-1");
    REFUSE(2, "not a list of numbers", "--devices", "-1");
    REFUSE(2, "not a list of numbers", "--devices", "0, 1");
    REFUSE(2, "1 is named twice", "--devices", "1,0,01");
    REFUSE(2, "more than 16 devices", "--devices", many);
    REFUSE(2, "so large a number", "--devices", "4294967297");
    REFUSE(2, "exclude each other", "--devices", "0,1", "--device", "1");
    REFUSE(2, "--devices needs --backend hip", "--devices", "0,1", "--backend", "cpu");
    REFUSE(2, "--gpu-layers and --devices exclude each other", "--devices", "0,1", "--gpu-layers",
           "1");
    REFUSE(2, "--parallel-mode needs --devices", "--parallel-mode", "data");
    REFUSE(2, "--parallel-mode", "--devices", "0", "--parallel-mode", "pipeline");
    if (!access(fibers, R_OK))
        REFUSE(1, "--devices 0,2: there are 2 (0 is the first)", GPUS, "--devices", "0,2");
    REFUSE(1, "cannot open shared object file", "--hip-library", "/none.so", "--devices", "0,1");
    refuse(2, "is for batches",
           (char *[]){"-p", "x", GPUS, "--devices", "0,1", "--parallel-mode", "data", NULL});
    unsetenv("FIBERS_DEVICES");
}

/* The same figures from two cards, on a model with a tokenizer. */
static void evaluation(const char *convert)
{
    static const char text[] = "{\"text\":\"Once upon a time there was a king.\"}\n"
                               "{\"text\":\"The sea was blue.\"}\n{\"text\":\"He was old.\"}\n";
    struct process p, q;
    char demo[320], documents[320];
    snprintf(demo, sizeof demo, "%s/demo.safetensors", dir);
    snprintf(documents, sizeof documents, "%s/documents.jsonl", dir);
    write_file(documents, text, sizeof text - 1);
    process_run(&p, (char *[]){(char *)(uintptr_t)convert, "-q", "models/demo", demo, NULL}, NULL);
    check(p.code == 0, "conversion", &p);
    process_free(&p);
#define EVALUATE(p, ...)                                                                           \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", demo, "-f", documents, "--perplexity", "documents",      \
                           "-c", "64", "--same-bits", __VA_ARGS__, NULL},                          \
                NULL)
    EVALUATE(&p, "--backend", "cpu");
    WITH("FIBERS_DEVICES=2") EVALUATE(&q, "--hip-library", fibers, "--devices", "0,1");
    check(p.code == 0 && q.code == 0 && p.out_bytes > 40 && !strcmp(p.out, q.out) &&
              strstr(q.err, "each of 2 GPUs"),
          "an evaluation on two cards", &q);
    process_free(&p);
    process_free(&q);
}

static void estimate(void)
{
    struct process p;
    WITH("FIBERS_DEVICES=2")
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-i", in, "--format", "ids", "--estimate", "-c",
                           "64", "-np", "2", "--same-bits", "--hip-library", fibers, "--devices",
                           "all", NULL},
                NULL);
    check(p.code == 0 && strstr(p.out, "10 records, 0 would fail") &&
              strstr(p.out, "time for all of them about"),
          "--estimate of two cards", &p);
    process_free(&p);
}

/* Processes that a launcher began beside each other. */
static void ranks(void)
{
    static const struct {
        const char *rank, *n_local, *devices, *visible, *says;
    } cases[] = {{"1", "2", NULL, NULL, "process 2 of 2 on this machine takes GPU 1\n"},
                 {"3", "4", NULL, "0,1,2", "takes GPU 0, as others do: there are 3\n"},
                 {"1", "2", "all", NULL, "takes GPUs 1, 2\n"},
                 {"0", "2", "all", NULL, "takes GPU 0\n"},
                 {"1", "2", "all", "0,1,2", "each of 3 GPUs"},
                 {"1", "2", "0,1", NULL, "each of 2 GPUs"}};
    setenv("FIBERS_DEVICES", "3", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct process p;
        char *devices = cases[i].devices ? strdup(cases[i].devices) : NULL;
        setenv("OMPI_COMM_WORLD_RANK", "9", 1); /* of the last record */
        setenv("OMPI_COMM_WORLD_SIZE", "10", 1);
        setenv("OMPI_COMM_WORLD_LOCAL_RANK", cases[i].rank, 1);
        setenv("OMPI_COMM_WORLD_LOCAL_SIZE", cases[i].n_local, 1);
        const char *chosen = i % 2 ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
        if (cases[i].visible) setenv(chosen, cases[i].visible, 1);
        process_run(&p,
                    (char *[]){run_bin, "-m", model, "-i", in, "-o", out, "--restart", "--format",
                               "ids", "-c", "64", "--shard", "auto", "--hip-library", fibers,
                               devices ? "--devices" : NULL, devices, NULL},
                    NULL);
        check(p.code == 0 && strstr(p.err, cases[i].says), cases[i].says, &p);
        process_free(&p);
        unsetenv(chosen);
        free(devices);
    }
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("FIBERS_DEVICES");
}

static void only_alike(void)
{
    static char *const modes[] = {"data", "tensor"};
    for (int i = 0; i < 2; i++) {
        struct process p;
        start_over();
        WITH("FIBERS_DEVICES=2", "FIBERS_NAME=,other")
        process_run(&p, (char *[]){run_bin,  "-m",
                                   model,    "-i",
                                   in,       "-o",
                                   out,      "--format",
                                   "ids",    "--act",
                                   "f16",    "-c",
                                   "64",     "--hip-library",
                                   fibers,   "--devices",
                                   "0,1",    "--parallel-mode",
                                   modes[i], NULL},
                    NULL);
        check(is_one_line(&p, "answers depend on the card"), "in f16 the cards must be alike", &p);
        process_free(&p);
    }
}

int main(int argc, char **argv)
{
    struct process p;
    char convert[512];
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", argv[1]);
    snprintf(fibers, sizeof fibers, "%s/tests/bin/libhip-fibers.so", argv[1]);
    snprintf(cuda, sizeof cuda, "%s/tests/bin/libcuda-fibers-90.so", argv[1]);
    snprintf(model, sizeof model, "%s/model.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out.txt", dir);
    snprintf(journal, sizeof journal, "%s.journal", out);
    snprintf(side, sizeof side, "%s/side.json", dir);
    process_run(&p, (char *[]){convert, "-q", "tests/data/gptq/qwen3", model, NULL}, NULL);
    check(p.code == 0, "conversion", &p);
    process_free(&p);
    write_input();
    of_the_cpu();
    refusals();
    if (access(fibers, R_OK) || access(cuda, R_OK)) {
        skip("several GPUs as host code: built without clang-19");
    } else {
        the_same_answers();
        faults();
        memory_decides();
        together();
        in_microbatches();
        broken_peers();
        kept_prompts();
        does_not_open("FIBERS_MEMORY=,3000000", "GPU 1: ", "data");
        does_not_open("FIBERS_MEMORY=,80000000", "GPU 1: free memory", "tensor");
        does_not_open("FIBERS_FAIL_ALLOC=,9", "GPU 1: ", "data");
        only_alike();
        ranks();
        evaluation(convert);
        estimate();
        killed();
    }
    free(whole);
    shell_ok("rm -rf %s", dir);
    return report("devices");
}
