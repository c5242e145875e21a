/* gpu_sites.c: each call of a GPU's runtime library that fails, one at a time (failing_gpu.c), or
 * with all that come after it, as those of a card that is gone, or events that never come, on GPUs
 * as host code (fiber_runtime.c): a batch on one card, by tensor, by layers, by data and with
 * experts on the CPU, a prompt, a conversation, an evaluation, a quantization. The program ends by
 * itself, with what it would have given or with a line that says what failed; a batch and a
 * quantization go on with the same command.
 *
 * usage: gpu_sites BUILD_DIR [--show | --all] [TASK]
 *        --all: some calls of each entry point in each task, minutes a task; else those of quick[]
 */
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PATH = 700, MAX_ENTRIES = 80 };

static char build[512], dir[] = "/tmp/opt4gptq-gpu-sites-XXXXXX";
static int shows, all;

static const struct task {
    const char *name, *library, *devices, *command, *input, *file; /* file: of the answers */
} tasks[] = {
#define BATCH "-m moe.st -i in.jsonl -o out.txt --format ids -c 64 -np 2 --same-bits "
    {"tensor", "libcuda-fibers-80", "2", BATCH "--devices 0,1 --parallel-mode tensor", NULL,
     "out.txt"},
    {"layers", "libcuda-fibers-80", "2", BATCH "--devices 0,1 --parallel-mode layers", NULL,
     "out.txt"},
    {"batch", "libhip-fibers", "1", BATCH "--backend hip", NULL, "out.txt"},
    {"graphs", "libcuda-fibers-80", "1", BATCH "--backend hip", NULL, "out.txt"},
    {"tensor-host", "libhip-fibers", "2", BATCH "--devices 0,1 --parallel-mode tensor", NULL,
     "out.txt"},
    {"data", "libhip-fibers", "2", BATCH "--devices 0,1 --parallel-mode data", NULL, "out.txt"},
    {"experts", "libcuda-fibers-80", "1", BATCH "--backend hip --experts-on cpu", NULL, "out.txt"},
    {"experts-gpu", "libhip-fibers", "1", BATCH "--backend hip --experts-on gpu:1 -ngl 2", NULL,
     "out.txt"},
    {"prompt", "libcuda-fibers-80", "1",
     "-m moe.st --backend hip --prompt-ids 1,5,9 -n 3 --temp 0 --format ids", NULL, NULL},
    {"evaluation", "libhip-fibers", "1",
     "-m demo.st --backend hip --perplexity contiguous -f text.txt -c 16", NULL, NULL},
    {"conversation", "libcuda-fibers-80", "1", "-m demo.st --backend hip -cnv -n 2 --temp 0",
     "Hello\nMore\n", NULL},
    {"quantize", "libhip-fibers", "1",
     "dense out --backend hip -q --group 32 --tokens 256 --sequence 64", NULL,
     "out/model.safetensors"},
};

/* ---- one run */

struct fault {
    const char *kind; /* entry point; NULL: none */
    long at;
    int always, code; /* code 0: that of a launch that failed */
};

static void set(const char *name, long n)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", n);
    setenv(name, text, 1);
}

static int quantizes(const struct task *t) { return !strcmp(t->name, "quantize"); }
static const char *program(const struct task *t) { return quantizes(t) ? "quantize" : "run"; }

static void run(struct process *p, const struct task *t, const struct fault *f)
{
    static const char *const names[] = {"FAIL_KIND", "FAIL_AT", "FAIL_ALWAYS", "FAIL_CODE"};
    char command[2 * MAX_PATH], preload[MAX_PATH],
        *argv[40] = {"/usr/bin/timeout", "-s", "KILL", "60", "/usr/bin/env", preload};
    int n = 6;
    snprintf(command, sizeof command,
             "%s/opt4gptq-%s %s -t 2 --gpu-timeout 1 --hip-library %s/tests/bin/%s.so", build,
             program(t), t->command, build, t->library);
    for (char *w = strtok(command, " "); w && n < 39; w = strtok(NULL, " ")) argv[n++] = w;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/tests/bin/failing_gpu.so", build);
    setenv("FIBERS_DEVICES", t->devices, 1);
    setenv("FAIL_LOG", "calls", 1);
    if (f) {
        setenv("FAIL_KIND", f->kind, 1);
        set("FAIL_AT", f->at);
        if (f->always) setenv("FAIL_ALWAYS", "1", 1);
        if (f->code) set("FAIL_CODE", f->code);
    }
    process_run(p, argv, t->input);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static void start_over(void)
{
    shell_code("cd %s && rm -rf out.txt out.txt.journal out out.work", dir);
}

/* What a run gave: the file, or stdout. */
static char *given(const struct task *t, const struct process *p)
{
    size_t n;
    char *text = t->file ? read_file(t->file, &n) : strdup(p->out);
    return text ? text : strdup("");
}

/* ---- judgement */

/* What is wrong with a run whose answers are GOT; NULL: nothing. */
static const char *wrong(const struct task *t, const struct process *p, const char *got,
                         const char *is)
{
    char begin[32];
    snprintf(begin, sizeof begin, "opt4gptq-%s: ", program(t));
    const char *last = strstr(p->err, begin);
    for (const char *next; last && (next = strstr(last + 1, begin));) last = next;
    if (p->code == -9 || p->code == 137) return "does not end";
    if (p->code < 0 || p->code > 4) return "has an exit status of its own";
    if (p->code == 0 && strcmp(got, is)) return "succeeds with other answers";
    if (p->code == 0) return NULL;
    if (!last) return "fails without a word";
    if (t->file && !access(t->file, F_OK)) return "fails, and leaves a file of answers";
    return NULL;
}

static void try_fault(const struct task *t, const struct fault *f, const char *is)
{
    struct process p;
    char name[300];
    start_over();
    run(&p, t, f);
    char *got = given(t, &p);
    const char *why = wrong(t, &p, got, is);
    int code = p.code;
    free(got);
    snprintf(name, sizeof name, "%s: %s %ld%s: %s", t->name, f->kind, f->at,
             f->always ? " and all behind it" : "", why ? why : "");
    check(!why, name, &p);
    if (shows) printf("%s exit %d: %s", name, p.code, p.err);
    process_free(&p);
    if (why || !code || access(quantizes(t) ? "out.work" : "out.txt.journal", F_OK))
        return; /* nothing to go on with */
    run(&p, t, NULL);
    got = given(t, &p);
    snprintf(name, sizeof name, "%s: %s %ld: the same command goes on", t->name, f->kind, f->at);
    check(p.code == 0 && !strcmp(got, is), name, &p);
    free(got);
    process_free(&p);
}

/* ---- which calls */

static struct entry {
    char name[64];
    long n_calls;
} entries[MAX_ENTRIES];

/* Of the run before; their number. */
static int read_calls(void)
{
    int n = 0;
    FILE *f = fopen("calls", "r");
    while (f && n < MAX_ENTRIES && fscanf(f, "%63s %ld", entries[n].name, &entries[n].n_calls) == 2)
        n++;
    if (f) fclose(f);
    return n;
}

static int is_query(const char *name) { return strstr(name, "EventQuery") != NULL; }

/* Call AT of an entry point: alone, with all behind it, or never done. */
static void try_call(const struct task *t, const char *name, long at, int which, const char *is)
{
    enum { NOT_READY = 600 };
    const struct fault how[] = {{name, at, 0, 0}, {name, at, 1, 0}, {name, at, 1, NOT_READY}};
    if (which < 2 || is_query(name)) try_fault(t, &how[which], is);
}

/* The first call of entry point I, one in the middle, this one also with all behind it, the last.
 */
static void try_entry(const struct task *t, int i, const char *is)
{
    long most = entries[i].n_calls, middle = most / 2;
    if (most) try_call(t, entries[i].name, 0, 0, is);
    if (middle) try_call(t, entries[i].name, middle, 0, is);
    if (most > middle + 1) try_call(t, entries[i].name, most - 1, 0, is);
    for (int which = 1; which < 3 && most; which++) try_call(t, entries[i].name, middle, which, is);
    printf("%-12s %-32s %5ld calls\n", t->name, entries[i].name, most);
    fflush(stdout);
}

/* What is tried without --all: a call at this part of all, in sixths; 6: the last one. */
enum { ALONE, GONE, NEVER }; /* as try_call has it */
static const struct {
    const char *task, *entry;
    int sixths, which;
} quick[] = {
    {"tensor", "gpu", 4, GONE},
    {"tensor", "cuModuleLoadData", 3, ALONE}, /* of one device, within a step */
    {"layers", "cuEventQuery", 3, NEVER},
    {"experts", "cuMemsetD8_v2", 6, ALONE}, /* ahead of the first copy of experts */
    {"quantize", "hipMemcpyDtoH", 4, ALONE},
    {"quantize", "hipMalloc", 3, ALONE},
    {"quantize", "gpu", 5, GONE},
};
enum { N_QUICK = sizeof quick / sizeof *quick };

static int is_quick(const struct task *t)
{
    for (int k = 0; k < N_QUICK; k++)
        if (!strcmp(quick[k].task, t->name)) return 1;
    return 0;
}

static void try_quick(const struct task *t, int i, const char *is)
{
    for (int k = 0; k < N_QUICK; k++)
        if (!strcmp(quick[k].task, t->name) && !strcmp(quick[k].entry, entries[i].name))
            try_call(t, entries[i].name, (entries[i].n_calls - 1) * quick[k].sixths / 6,
                     quick[k].which, is);
}

static void try_task(const struct task *t)
{
    struct process p;
    start_over();
    run(&p, t, NULL);
    char *is = given(t, &p);
    int n = read_calls();
    check(p.code == 0 && n > 15, t->name, &p);
    process_free(&p);
    for (int i = 0; i < n; i++)
        if (all) try_entry(t, i, is);
        else try_quick(t, i, is);
    free(is);
}

static void prepare(int with_demo)
{
    shell_ok("%s/tests/bin/quantize %s %s/dense", build, build, dir);
    static const char text[] = "Once upon a time there was a great crowd of people, and the people";
    shell_ok("%s/opt4gptq-convert -q tests/data/gptq/qwen3-moe %s/moe.st 2>/dev/null", build, dir);
    if (with_demo) shell_ok("%s/opt4gptq-convert -q models/demo %s/demo.st", build, dir);
    if (chdir(dir)) exit(2);
    write_file("text.txt", text, strlen(text));
    FILE *f = fopen("in.jsonl", "w");
    for (int i = 0; f && i < 4; i++)
        fprintf(f,
                "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
                "\"prompt\":[%d,7,9],\"max_tokens\":%d,\"temperature\":%d,\"seed\":1}}\n",
                i, i + 2, 2 + i % 3, i % 2);
    if (!f || fclose(f)) exit(2);
}

int main(int argc, char **argv)
{
    char *path = argc > 1 ? realpath(argv[1], NULL) : NULL;
    const char *only = argc > 2 && argv[argc - 1][0] != '-' ? argv[argc - 1] : NULL;
    shows = argc > 2 && !strcmp(argv[2], "--show");
    all = argc > 2 && !strcmp(argv[2], "--all");
    if (!path || !mkdtemp(dir)) {
        fprintf(stderr, "usage: gpu_sites BUILD_DIR [--show | --all] [TASK]\n");
        return 2;
    }
    snprintf(build, sizeof build, "%s", path);
    free(path);
    prepare(all || only);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (only ? !strcmp(only, tasks[i].name) : all || is_quick(&tasks[i])) try_task(&tasks[i]);
    shell_code("rm -rf %s", dir);
    return report("gpu_sites");
}
