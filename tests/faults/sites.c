/* sites.c: each system call of a conversion, an evaluation, a conversation, a prompt and a
 * quantization that fails, one at a time (failing.c), or all that need room on a disk: the program
 * ends by itself, with what it would have given or with a line that says what failed, and leaves no
 * half of a file; where there is room again, the same command goes on.
 *
 * usage: sites BUILD_DIR [--show | --all] [TASK]
 *        --all: every call; else of each kind the first ones and as many spread over the rest */
#include "tests/whole/quantize_tools.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_PATH = 700, SITES = 24, WAIT_SECONDS = 300, CPU_SECONDS = 30 };

static char library[MAX_PATH];
static const char *build;
static int shows, all;

/* A command, its input, and the file that it writes (or NULL: stdout is what it gives). */
static const struct task {
    const char *name, *command, *input, *file;
} tasks[] = {
    {"convert", "%s/opt4gptq-convert -q -t 2 ../models/models/demo out.st", "", "out.st"},
    {"prompt", "%s/opt4gptq-run -m demo.st -p Once -n 4 -t 2 --temp 0", "", NULL},
    {"perplexity", "%s/opt4gptq-run -m demo.st --perplexity contiguous -f text.txt -c 32 -t 2", "",
     NULL},
    {"eval", "%s/opt4gptq-run -m demo.st --multiple-choice choices.jsonl -t 2", "", NULL},
    {"conversation", "%s/opt4gptq-run -m demo.st -cnv -n 3 -t 2 --temp 0",
     "Hello\n/save saved.json\n/load saved.json\nMore\n", "saved.json"},
    {"batch", "%s/opt4gptq-run -m demo.st -i in.txt -o answers.jsonl -n 3 -t 2 --temp 0", "",
     "answers.jsonl"},
    {"logits", "%s/opt4gptq-run -m demo.st -p Once -n 2 -t 2 --temp 0 --logits-out l.st", "",
     "l.st"},
    {"tokenize", "%s/opt4gptq-run -m demo.st --tokenize -p Once", "", NULL},
    {"quantize",
     "%s/opt4gptq-quantize plain quantized -q -t 2 --group 32 --tokens 128 --sequence 64", "",
     NULL},
};
static const struct kind {
    const char *name;
    long sites;  /* as many are tried */
    int goes_on; /* the same command then gives what it would have given */
} kinds[] = {
    {"open", SITES, 0},   {"read", SITES, 0},      {"write", SITES, 0},
    {"fsync", SITES, 0},  {"ftruncate", SITES, 0}, {"mmap", SITES, 0},
    {"rename", SITES, 0}, {"fork", SITES, 0},      {"pthread_create", SITES, 0},
    {"disk", 4, 1},                         /* full, and stays so */
    {"quota", 2, 1},      {"create", 2, 1}, /* no file or folder can be made */
    {"flock", 2, 1},                        /* a file system without locks */
};

/* ---- one run in a folder of its own */

struct outcome {
    int code, is_hung; /* code: of exit, or minus the signal */
    long n_calls;
    char *out, *err, *file;
    size_t n_out, n_file;
};

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *p = f ? malloc(1 << 24) : NULL;
    *n = p ? fread(p, 1, (1 << 24) - 1, f) : 0;
    if (p) p[*n] = 0;
    if (f) fclose(f);
    return p;
}

static void free_outcome(struct outcome *o) { free(o->out), free(o->err), free(o->file); }

static int is_link(const struct dirent *f)
{
    return strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
}

/* Removes what a run left; 1: there was a file whose name says that it is unfinished. */
static int clean(const struct task *t)
{
    int n_left = 0;
    struct dirent **f;
    int n = scandir("run", &f, is_link, alphasort);
    for (int i = 0; i < n; i++) {
        char path[MAX_PATH];
        struct stat sb;
        snprintf(path, sizeof path, "run/%s", f[i]->d_name);
        free(f[i]);
        if (lstat(path, &sb) || S_ISLNK(sb.st_mode)) continue;
        int is_journal = strstr(path, ".journal") != NULL; /* is meant to stay */
        n_left += !is_journal && (strstr(path, ".part") || strstr(path, ".tmp"));
        if (S_ISDIR(sb.st_mode)) shell_code("rm -rf %s/%s", dir, path);
        unlink(path);
    }
    if (n >= 0) free(f);
    (void)t;
    return n_left;
}

static void child(const struct task *t, const char *kind, long at, int counter)
{
    char command[MAX_PATH], text[32], *argv[32];
    int n = 0;
    snprintf(command, sizeof command, t->command, build);
    for (char *p = strtok(command, " "); p && n < 31; p = strtok(NULL, " ")) argv[n++] = p;
    argv[n] = NULL;
    if (chdir("run")) _exit(120);
    int in = memfd_create("in", 0);
    if (write(in, t->input, strlen(t->input)) < 0) _exit(121);
    lseek(in, 0, SEEK_SET);
    dup2(in, 0);
    dup2(open("../out", O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
    dup2(open("../err", O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
    snprintf(text, sizeof text, "%ld", at);
    setenv("FAIL_KIND", kind, 1);
    setenv("FAIL_AT", text, 1);
    snprintf(text, sizeof text, "%d", counter);
    setenv("FAIL_COUNT", text, 1);
    setenv("LD_PRELOAD", library, 1);
    const struct rlimit cpu = {CPU_SECONDS, CPU_SECONDS};
    setrlimit(RLIMIT_CPU, &cpu);
    alarm(WAIT_SECONDS);
    execv(argv[0], argv);
    _exit(127);
}

static struct outcome attempt(const struct task *t, const char *kind, long at)
{
    struct outcome o = {0};
    int status, counter = memfd_create("count", 0);
    char text[32] = "", path[MAX_PATH];
    size_t n;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) child(t, kind, at, counter);
    waitpid(pid, &status, 0);
    o.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    o.is_hung = o.code == -SIGALRM || o.code == -SIGXCPU || o.code == -SIGKILL;
    if (pread(counter, text, sizeof text - 1, 0) > 0) o.n_calls = atol(text);
    close(counter);
    o.out = slurp("out", &o.n_out);
    o.err = slurp("err", &n);
    if (t->file) {
        snprintf(path, sizeof path, "run/%s", t->file);
        o.file = slurp(path, &o.n_file);
    }
    return o;
}

/* ---- judgement */

static int equal_file(const struct outcome *a, const struct outcome *b)
{
    return !a->file == !b->file && a->n_file == b->n_file &&
           (!a->file || !memcmp(a->file, b->file, a->n_file));
}

/* What is wrong with a run beside one without a failing call; NULL: nothing. */
static const char *wrong(const struct task *t, const struct outcome *o, const struct outcome *is)
{
    if (o->is_hung) return "does not end";
    if (o->code < 0) return "is killed by a signal";
    if (o->code > 4) return "has an exit status of its own";
    if (o->code == 0 && t->file && !equal_file(o, is)) return "succeeds with another file";
    if (o->code == 0 && !t->file && (o->n_out != is->n_out || memcmp(o->out, is->out, o->n_out)))
        return "succeeds with another output";
    if (o->code && (!o->err || !*o->err)) return "fails without a word";
    if (o->code && o->file && !equal_file(o, is)) return "fails, and leaves a half of the file";
    return NULL;
}

/* The same command again, where a run failed. */
static const char *again(const struct task *t, const struct outcome *is)
{
    struct outcome o = attempt(t, "none", -1);
    const char *why = wrong(t, &o, is);
    if (o.code) why = "the same command does not go on";
    if (why) printf("  %s", o.err);
    free_outcome(&o);
    return why;
}

static void try_sites(const struct task *t, const struct kind *kind, const struct outcome *is,
                      long most)
{
    long n_ended = 0, n_sites = 0, half = kind->sites / 2;
    for (long at = 0; at < most; at += all || at < half ? 1 : 1 + most / half) {
        struct outcome o = attempt(t, kind->name, at);
        const char *why = wrong(t, &o, is);
        if (!why && kind->goes_on && o.code) why = again(t, is);
        int left = clean(t);
        if (!why && left && o.code == 0) why = "succeeds, and leaves an unfinished file";
        n_ended += o.code != 0;
        n_sites++;
        char name[300];
        snprintf(name, sizeof name, "%s: %s %ld of %ld: %s", t->name, kind->name, at, most,
                 why ? why : "");
        const struct process p = {.code = o.code, .out = "", .err = o.err ? o.err : ""};
        check(!why, name, &p);
        if (shows) printf("%s: %s %ld: exit %d: %s", t->name, kind->name, at, o.code, o.err);
        free_outcome(&o);
    }
    if (n_sites)
        printf("%-13s %-14s %4ld of %4ld calls, %3ld of them end it\n", t->name, kind->name,
               n_sites, most, n_ended);
}

static void try_task(const struct task *t)
{
    struct outcome is = attempt(t, "none", -1);
    const struct process p = {.code = is.code, .out = "", .err = is.err ? is.err : ""};
    clean(t);
    check(is.code == 0, t->name, &p);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && is.code == 0; k++) {
        struct outcome count = attempt(t, kinds[k].name, -1);
        clean(t);
        free_outcome(&count);
        try_sites(t, &kinds[k], &is, count.n_calls);
    }
    free_outcome(&is);
}

static void put_text(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) exit(2);
}

static void prepare(const char *root)
{
    const char *links[] = {"demo.st", "text.txt", "in.txt", "choices.jsonl", "plain"};
    shell_code("%s/opt4gptq-convert -q %s/models/demo %s/demo.st", build, root, dir);
    put_text("text.txt", "Once upon a time there was a great crowd of people, and the people were "
                         "all in the same state. They had come from far away to see the king, who "
                         "was said to be wise, and to hear what he would say to them that day.\n");
    put_text("in.txt", "One\nTwo\nThree\n");
    put_text("choices.jsonl",
             "{\"query\":\"Two and two?\",\"choices\":[\"four\",\"five\"],\"gold\":0}\n");
    mkdir("run", 0755);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        char to[MAX_PATH], name[100];
        snprintf(to, sizeof to, "../%s", links[i]);
        snprintf(name, sizeof name, "run/%s", links[i]);
        if (symlink(to, name)) exit(2);
    }
    if (symlink(root, "models")) exit(2);
}

int main(int argc, char **argv)
{
    char *root = getcwd(NULL, 0);
    const char *only = argc > 2 && argv[argc - 1][0] != '-' ? argv[argc - 1] : NULL;
    shows = argc > 2 && !strcmp(argv[2], "--show");
    all = argc > 2 && !strcmp(argv[2], "--all");
    if (argc < 2 || !(build = realpath(argv[1], NULL))) {
        fprintf(stderr, "usage: sites BUILD_DIR [--show] [TASK]\n");
        return 2;
    }
    snprintf(library, sizeof library, "%s/tests/bin/failing.so", build);
    snprintf(quantize, sizeof quantize, "%s/opt4gptq-quantize", build);
    if (!mkdtemp(dir) || !make("plain", 0, 0) || chdir(dir)) return 2;
    prepare(root);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (!only || !strcmp(only, tasks[i].name)) try_task(&tasks[i]);
    shell_code("rm -rf %s", dir);
    free(root);
    return report("sites");
}
