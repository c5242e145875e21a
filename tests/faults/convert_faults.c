/* convert_faults.c: the converter, and opening its files, when allocations and system calls fail.
 * Each allocation fails once, and from there on; each system call fails once; the process is killed
 * at each change on disk. What is done in spite of it has the bytes of an undisturbed run; else
 * there is one message and no file. Usage: convert_faults [CHECKPOINT..] (only the allocations of
 * converting those).
 *
 * The converter is linked into this program with its allocations and system calls wrapped
 * (Makefile: -Wl,--wrap), those of the libraries that are linked statically, too; every run is a
 * forked child. */
#include "tests/harness.h"
#include "convert/convert.h"
#include "convert/info.h"
#include "convert/list.h"
#include "core/text/gen_config.h"
#include "core/model/model.h"
#include "core/base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { SLOWER = 16 }; /* a run takes many times as long */
#else
enum { SLOWER = 1 };
#endif

enum { MAX_OUT = 4 << 20 };
enum syscall_op {
    OP_OPEN,
    OP_READ,
    OP_WRITE,
    OP_CLAIM,
    OP_SIZE,
    OP_SYNC,
    OP_LINK,
    OP_RENAME,
    OP_THREAD,
    N_OPS
};
static const char *const op_names[N_OPS] = {"open", "read", "write",  "claim", "size",
                                            "sync", "link", "rename", "thread"};

/* Shared with the children. */
static struct shared {
    /* the plan */
    long fail_from, fail_to; /* allocations of these numbers (from 1) fail; 0: none */
    enum syscall_op op;      /* the call number `nth` (from 1, 0: none) of this kind ... */
    long nth;                /* ... */
    int error, kill, shrink; /* fails so, or the process dies at it, or the file is cut before it */
    int no_nameless;         /* 1: the file system has no O_TMPFILE; 2: there is no /proc */
    /* what happened */
    int hit, rc, signal;
    long n_allocations, n_calls[N_OPS];
    char message[sizeof((struct err *)0)->msg];
    size_t n_out;
    char out[MAX_OUT]; /* what --info printed */
} *shared;

static int active; /* in a child: the wrappers do what the plan says */
static char dir[] = "/tmp/opt4gptq-convert-faults-XXXXXX";

/* ---- wrappers */

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static int lacks_memory(void)
{
    if (!active) return 0;
    long i = ++shared->n_allocations;
    if (!shared->fail_from || i < shared->fail_from || i > shared->fail_to) return 0;
    shared->hit = 1;
    errno = ENOMEM;
    return 1;
}

WRAP(void *, malloc, size_t n) { return lacks_memory() ? NULL : __real_malloc(n); }
WRAP(void *, calloc, size_t n, size_t m) { return lacks_memory() ? NULL : __real_calloc(n, m); }
WRAP(void *, realloc, void *p, size_t n) { return lacks_memory() ? NULL : __real_realloc(p, n); }
WRAP(char *, strdup, const char *s) { return lacks_memory() ? NULL : __real_strdup(s); }
WRAP(char *, strndup, const char *s, size_t n)
{
    return lacks_memory() ? NULL : __real_strndup(s, n);
}
WRAP(char *, realpath, const char *s, char *to)
{
    return lacks_memory() ? NULL : __real_realpath(s, to);
}

/* 1: the call is to fail, errno is set. */
static int fails(enum syscall_op op, int fd)
{
    if (!active) return 0;
    long i = ++shared->n_calls[op];
    if (op != shared->op || i != shared->nth) return 0;
    shared->hit = 1;
    if (shared->kill) raise(SIGKILL);
    struct stat sb;
    if (shared->shrink) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (fstat(fd, &sb) || truncate(path, sb.st_size / 2)) _exit(2);
        return 0;
    }
    errno = shared->error;
    return 1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
    va_end(ap);
    if (active && shared->no_nameless == 1 && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return fails(OP_OPEN, -1) ? -1 : __real_open(path, flags, mode);
}
WRAP(ssize_t, pread, int fd, void *p, size_t n, off_t at)
{
    return fails(OP_READ, fd) ? -1 : __real_pread(fd, p, n, at);
}
WRAP(ssize_t, pwrite, int fd, const void *p, size_t n, off_t at)
{
    return fails(OP_WRITE, fd) ? -1 : __real_pwrite(fd, p, n, at);
}
WRAP(int, fallocate, int fd, int mode, off_t at, off_t n)
{
    return fails(OP_CLAIM, fd) ? -1 : __real_fallocate(fd, mode, at, n);
}
WRAP(int, ftruncate, int fd, off_t n) { return fails(OP_SIZE, fd) ? -1 : __real_ftruncate(fd, n); }
WRAP(int, fsync, int fd) { return fails(OP_SYNC, fd) ? -1 : __real_fsync(fd); }
WRAP(int, linkat, int a, const char *from, int b, const char *to, int flags)
{
    return fails(OP_LINK, -1) ? -1 : __real_linkat(a, from, b, to, flags);
}
WRAP(int, rename, const char *from, const char *to)
{
    return fails(OP_RENAME, -1) ? -1 : __real_rename(from, to);
}
WRAP(int, access, const char *path, int mode)
{
    return active && shared->no_nameless == 2 && !strncmp(path, "/proc/", 6)
               ? -1
               : __real_access(path, mode);
}
WRAP(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
    return fails(OP_THREAD, -1) ? EAGAIN : __real_pthread_create(t, a, f, arg);
}

/* ---- what is tried */

static void check_call(int ok, const char *what, const char *of, long number)
{
    if (ok) n_passed++;
    else n_failed++;
    if (!ok && n_failed <= 20)
        printf("FAIL %s: %s, number %ld: rc %d, signal %d, '%s'\n", of, what, number, shared->rc,
               shared->signal, shared->message);
}

static char out_path[300], model_path[300]; /* the first in a directory of its own */

static int do_convert(const char *what, int n_threads, int plain8, struct err *e)
{
    static const volatile sig_atomic_t never;
    struct convert_options o = {
        .dir = what, .out = {out_path, n_threads, 0, &never}, .notes = {.quiet = 1},
        .plan = {.plain8 = plain8}};
    return convert_run(&o, e);
}

static int alone(const char *what, struct err *e) { return do_convert(what, 1, 0, e); }
static int in_threads(const char *what, struct err *e) { return do_convert(what, 3, 0, e); }
static int rounded(const char *what, struct err *e) { return do_convert(what, 1, 1, e); }

/* F prints to shared->out. */
static int print(const char *path, int (*f)(FILE *, const char *, struct err *), struct err *e)
{
    active = 0; /* not part of what is tried: the file that is printed to */
    FILE *out = fmemopen(shared->out, MAX_OUT, "w");
    active = 1;
    int rc = f(out, path, e);
    active = 0;
    shared->n_out = (size_t)ftell(out);
    fclose(out);
    active = 1;
    return rc;
}

static int info(const char *what, struct err *e) { return print(what, info_print, e); }
static int list_short(FILE *out, const char *path, struct err *e)
{
    return list_print(out, path, 0, e);
}
static int list(const char *what, struct err *e) { return print(what, list_short, e); }
static int verify(const char *what, struct err *e) { return print(what, info_verify, e); }

static int open_model(const char *what, struct err *e)
{
    struct model m;
    struct sampler_params s = {.top_k = 40};
    if (model_open(&m, what, e)) return -1;
    int rc = gen_config_apply(&m.file, &s, e);
    if (!rc) { /* what was read, as bytes */
        memcpy(shared->out, &m.config, sizeof m.config);
        memset(shared->out + offsetof(struct model_config, eos), 0,
               sizeof m.config - offsetof(struct model_config, eos));
        memcpy(shared->out + sizeof m.config, &s, sizeof s);
        shared->n_out = sizeof m.config + sizeof s;
    }
    model_close(&m);
    return rc;
}

static void plan_nothing(void) { memset(shared, 0, offsetof(struct shared, out)); }

static void run(int (*f)(const char *, struct err *), const char *what)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) exit(2);
    if (!pid) {
        struct err e = {0};
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        active = 1;
        int rc = f(what, &e);
        active = 0;
        strcpy(shared->message, e.msg);
        _exit(rc ? 1 : 0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid) exit(2);
    shared->rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    shared->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Removes what is there beside OUT; how many files those were. */
static int clear(int *has_out)
{
    char where[300], path[600];
    int n = 0;
    snprintf(where, sizeof where, "%s/out", dir);
    DIR *d = opendir(where);
    *has_out = 0;
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", where, x->d_name);
        int is_out = !strcmp(path, out_path);
        *has_out |= is_out;
        n += !is_out;
        unlink(path);
    }
    closedir(d);
    return n;
}

/* 1 when OUT and what was printed are those of the undisturbed run. */
static int same(const char *want, size_t n_want, const char *text, size_t n_text)
{
    size_t n;
    char *have = read_file(out_path, &n);
    int ok = want ? have && n == n_want && !memcmp(have, want, n) : !have;
    free(have);
    return ok && shared->n_out == n_text && (!n_text || !memcmp(shared->out, text, n_text));
}

/* ---- allocations */

/* Every allocation once, and everything from it on; after the first FIRST ones only some. */
static void allocations(const char *name, int (*f)(const char *, struct err *), const char *what,
                        long first)
{
    plan_nothing();
    run(f, what);
    check_call(!shared->rc, "undisturbed", name, 0);
    size_t n_want, n_text = shared->n_out;
    char *want = read_file(out_path, &n_want), *text = malloc(n_text + 1);
    memcpy(text, shared->out, n_text);
    long n = shared->n_allocations, tried = 0, in_spite = 0;
    int has_out;
    for (int all = 0; all < 2; all++)
        for (long k = 1; k <= n; k += SLOWER * (k < first ? 1 : 1 + k / 50)) {
            clear(&has_out);
            plan_nothing();
            shared->fail_from = k;
            shared->fail_to = all ? n * 2 : k;
            run(f, what);
            tried++;
            check_call(shared->hit, "an allocation fails where planned", name, k);
            if (!shared->rc) {
                in_spite++;
                check_call(same(want, n_want, text, n_text), "other bytes without a word", name, k);
                check_call(!clear(&has_out), "a file is left", name, k);
            } else {
                check_call(shared->rc == 1 && strstr(shared->message, "out of memory") != NULL,
                           all ? "all fail from here on" : "one fails", name, k);
                check_call(!clear(&has_out) && !has_out, "a file is left", name, k);
            }
        }
    printf("%s: %ld failures of %ld allocations, %ld without effect\n", name, tried, n, in_spite);
    clear(&has_out);
    free(want);
    free(text);
}

/* ---- system calls */

static char *wanted; /* bytes of an undisturbed conversion */
static size_t n_wanted;

/* Each call of each kind but threads, once, then SIGKILL at each change on disk; with and without a
 * file to replace. */
static void calls(const char *name, const char *what, int no_nameless)
{
    static const int errors[] = {ENOSPC, EIO, EFBIG, EINVAL};
    static const char old[] = "what was there before";
    long n_calls[N_OPS], n_tried = 0;
    int has_out;
    for (int replaces = 0; replaces < 2; replaces++) {
        plan_nothing();
        shared->no_nameless = no_nameless;
        if (replaces) write_file(out_path, old, sizeof old);
        run(alone, what);
        check_call(!shared->rc && same(wanted, n_wanted, NULL, 0) && !clear(&has_out),
                   "undisturbed", name, replaces);
        memcpy(n_calls, shared->n_calls, sizeof n_calls);
        for (int dies = 0; dies < (no_nameless ? 1 : 2); dies++)
            for (int op = 0; op < OP_THREAD; op++)
                for (long i = 1; i <= n_calls[op]; i++, n_tried++) {
                    if (dies && (op == OP_OPEN || op == OP_READ)) break;
                    plan_nothing();
                    if (replaces) write_file(out_path, old, sizeof old);
                    shared->no_nameless = no_nameless;
                    shared->op = (enum syscall_op)op, shared->nth = i, shared->kill = dies,
                    shared->error = errors[i % 4];
                    run(alone, what);
                    check_call(shared->hit && shared->signal == (dies ? SIGKILL : 0),
                               "fails where planned", op_names[op], i);
                    size_t n;
                    char *have = read_file(out_path, &n);
                    int is_old = have ? replaces && n == sizeof old && !memcmp(have, old, n)
                                      : !replaces;
                    int is_new = have && n == n_wanted && !memcmp(have, wanted, n);
                    check_call(is_old || is_new, "OUT is neither as before nor whole", op_names[op],
                               i);
                    if (!dies)
                        check_call(shared->rc ? shared->rc == 1 && *shared->message : is_new,
                                   "no message", op_names[op], i);
                    /* between its two names a finished file has the first one */
                    int left = clear(&has_out);
                    check_call(!left || (dies && replaces && op == OP_RENAME && left == 1),
                               "a file is left", op_names[op], i);
                    free(have);
                }
    }
    printf("%s: %ld calls fail or kill\n", name, n_tried);
}

/* Has the file system of the test's directory files without a name? */
static int has_nameless(void)
{
    int fd = open(dir, O_TMPFILE | O_WRONLY, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void threads(const char *what)
{
    int has_out;
    for (int i = 1; i <= 2; i++) {
        plan_nothing();
        shared->op = OP_THREAD, shared->nth = i;
        run(in_threads, what);
        check_call(shared->hit && !shared->rc && same(wanted, n_wanted, NULL, 0),
                   "a thread cannot start", "convert", i);
        clear(&has_out);
    }
}

/* A shard loses its end before each read of it. */
static void shrinking(const char *what)
{
    char copy[300], shard[400], command[800];
    size_t n;
    int has_out;
    snprintf(copy, sizeof copy, "%s/checkpoint", dir);
    snprintf(command, sizeof command, "cp -r %s %s", what, copy);
    if (system(command)) exit(2);
    snprintf(shard, sizeof shard, "%s/model.safetensors", copy);
    char *whole = read_file(shard, &n);
    plan_nothing();
    run(alone, copy);
    long n_reads = shared->n_calls[OP_READ], refused = 0, tried = 0;
    clear(&has_out);
    for (long i = 1; i <= n_reads; i += SLOWER, tried++) {
        plan_nothing();
        shared->op = OP_READ, shared->nth = i, shared->shrink = 1;
        write_file(shard, whole, n);
        run(alone, copy);
        check_call(!shared->signal && (!shared->rc || strstr(shared->message, shard) ||
                                       strstr(shared->message, "json")),
                   "a shard that shrinks", "convert", i);
        refused += shared->rc == 1;
        check_call((!clear(&has_out) && !has_out) || !shared->rc, "a file is left", "convert", i);
    }
    check_call(refused > tried / 4, "a shard that shrinks is seen", "convert", refused);
    free(whole);
}

/* A model file loses its end while it is mapped. */
static void shrinking_mapped(void)
{
    char copy[300], err[300];
    size_t n;
    snprintf(copy, sizeof copy, "%s/short", dir);
    snprintf(err, sizeof err, "%s/stderr", dir);
    write_file(copy, wanted, n_wanted);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        struct modelfile m;
        struct err e;
        if (!freopen(err, "w", stderr)) _exit(2);
        process_begin("convert_faults");
        process_maps(copy);
        if (mf_open(&m, copy, &e) || truncate(copy, 8192)) _exit(2);
        _exit(mf_verify(&m, NULL, &n, &e) ? 3 : 0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid) exit(2);
    char *said = read_file(err, &n);
    said[n] = 0;
    check_call(WIFEXITED(status) && WEXITSTATUS(status) == 1 &&
                   strchr(said, '\n') == said + n - 1 && strstr(said, copy),
               "a mapped file that shrinks", "--verify", status);
    free(said);
}

int main(int argc, char **argv)
{
    static const char small[] = "tests/data/gptq/llama-act-order-asym",
                      sharded[] = "tests/data/gptq/llama-sharded-tied",
                      experts[] = "tests/data/gptq/gpt-oss";
    char command[300];
    int has_out;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(dir)) return 2;
    snprintf(out_path, sizeof out_path, "%s/out", dir);
    if (mkdir(out_path, 0755)) return 2;
    strcat(out_path, "/out.safetensors");
    snprintf(model_path, sizeof model_path, "%s/model.safetensors", dir);
    for (int i = 1; i < argc; i++) allocations(argv[i], alone, argv[i], 2000);
    if (argc > 1) return report("convert_faults");
    run(alone, small);
    if (shared->rc || !(wanted = read_file(out_path, &n_wanted)) || rename(out_path, model_path)) {
        fprintf(stderr, "convert_faults: %s\n", shared->message);
        return 2;
    }
    allocations("convert", alone, small, 4000);
    allocations("convert a checkpoint in shards", alone, sharded, 4000);
    allocations("convert a GGUF file", alone, "tests/data/gptq/gguf-least/model.gguf", 1000);
    allocations("convert the demo", alone, "models/demo", 100);
    allocations("convert experts, plain linears with 8 bits", rounded, experts, 500);
    allocations("--list", list, experts, 500);
    allocations("--info", info, model_path, 4000);
    allocations("--verify", verify, model_path, 4000);
    allocations("open", open_model, model_path, 4000);
    if (has_nameless()) {
        calls("convert", small, 0);
    } else {
        skip("files without a name: the file system of /tmp has none");
    }
    calls("convert where the file system has names only", small, 1);
    calls("convert without /proc", small, 2);
    threads(small);
    shrinking(small);
    shrinking_mapped();
    clear(&has_out);
    snprintf(command, sizeof command, "rm -r %s", dir);
    if (system(command)) n_failed++;
    return report("convert_faults");
}
