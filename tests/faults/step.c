/* step.c: a step allocates nothing and makes no system call but futex, in any phase, on any
 * variant, in any arithmetic. A child opens the model, runs warm-up steps, then lets a seccomp
 * filter trap every other system call of all its threads and counts allocations. Backends that are
 * broken on purpose must be caught. usage: step BUILD_DIR */
#include "bench/setup.h"
#include "backend-cpu/kernels.h"
#include "tests/harness.h"
#include "core/step/stepwise.h"

#include <dirent.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child saw, in memory that the parent shares. */
static struct seen {
    _Atomic int armed, allocations, frees, syscall, done, failed;
} * seen;

/* Both run before main, too, when nothing is shared yet. */
static void count_allocation(void)
{
    if (seen && atomic_load(&seen->armed)) atomic_fetch_add(&seen->allocations, 1);
}

static void count_free(void)
{
    if (seen && atomic_load(&seen->armed)) atomic_fetch_add(&seen->frees, 1);
}

/* What follows replaces functions of libraries, or libraries look for it: the build hides all else.
 */
#pragma GCC visibility push(default)
#if defined(__SANITIZE_ADDRESS__)
/* The sanitizer owns malloc, and tells of it. */
void __sanitizer_malloc_hook(const volatile void *p, size_t bytes);
void __sanitizer_free_hook(const volatile void *p);

void __sanitizer_malloc_hook(const volatile void *p, size_t bytes)
{
    (void)p, (void)bytes;
    count_allocation();
}

void __sanitizer_free_hook(const volatile void *p)
{
    (void)p;
    count_free();
}
#else
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *p);

void *malloc(size_t bytes)
{
    count_allocation();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count_allocation();
    return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
    count_allocation();
    return __libc_realloc(p, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    count_allocation();
    return __libc_memalign(align, bytes);
}

void free(void *p)
{
    count_free();
    __libc_free(p);
}
#endif
#pragma GCC visibility pop

static void on_sigsys(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    int none = 0;
    atomic_compare_exchange_strong(&seen->syscall, &none, info->si_syscall);
    syscall(SYS_exit_group, 0);
}

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

/* Traps all system calls of all threads but futex, and the way out. */
static int lock(void)
{
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(nr)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter code[] = {LOAD(arch),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 LOAD(nr),
                                 ALLOW(SYS_futex),
                                 ALLOW(SYS_exit_group),
                                 ALLOW(SYS_restart_syscall),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)};
#undef LOAD
#undef ALLOW
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? -1
                                                                                              : 0;
}

enum fault { NO_FAULT, ALLOCATES, CALLS };

static enum fault fault_now;

static void misbehave(struct be *inner, const struct stepwise_call *c)
{
    (void)inner;
    if (c->op->kind != OP_GLU) return;
    if (fault_now == ALLOCATES) {
        void *volatile p = malloc(64);
        free(p);
    }
    if (fault_now == CALLS) syscall(SYS_getppid);
}

static const struct stepwise_hooks hooks = {.before = misbehave};
static const struct backend *inner;
static const struct batch *batch;

static void broken_begin(struct be *be, const struct batch *b)
{
    batch = b;
    inner->begin_step(be, b);
}

static void broken_run(struct be *be, const struct be_plan *p)
{
    stepwise_run(be, inner, &hooks, p, batch);
}

static void broken_drop(struct be *be, struct be_plan *p) { stepwise_drop(be, inner, p); }

static void break_backend(struct forward *f, enum fault fault)
{
    static struct backend broken;
    struct err e;
    if (fault == NO_FAULT) return;
    fault_now = fault;
    inner = f->be->ops;
    broken = *inner;
    broken.begin_step = broken_begin;
    broken.run = broken_run;
    broken.drop_plan = broken_drop;
    inner->drop_plan(f->be, f->compiled);
    if (stepwise_compile(f->be, inner, &hooks, &f->plan, &f->memory, &f->compiled, &e)) exit(3);
    f->be->ops = &broken;
}

/* A prompt in two chunks, one sequence alone, some together. */
static int steps(struct setup *r, struct err *e)
{
    static const struct step_shape shapes[] = {
        {1, 12, 0, 0}, {1, 4, 12, 0}, {1, 1, 16, 1}, {3, 1, 17, 1}, {3, 1, 18, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (setup_step(r, &shapes[i],
                       i == 0  ? SETUP_NOTHING
                       : i % 2 ? SETUP_BEST
                               : SETUP_SAMPLED,
                       e))
            return -1;
    return 0;
}

/* Until all other threads sleep, which they do as soon as there is nothing to compute: one that the
 * warm-up steps did not wait for may not even have begun, and its C library would make system calls
 * of its own. */
static void await_threads(void)
{
    for (int busy = 1; busy; usleep(1000)) {
        DIR *d = opendir("/proc/self/task");
        busy = 0;
        for (struct dirent *t; d && (t = readdir(d));) {
            char name[300], text[400] = "";
            snprintf(name, sizeof name, "/proc/self/task/%s/stat", t->d_name);
            FILE *f = atoi(t->d_name) == getpid() || t->d_name[0] == '.' ? NULL : fopen(name, "r");
            if (!f) continue;
            if (fgets(text, sizeof text, f) && strstr(text, ") "))
                busy |= strncmp(strstr(text, ") "), ") S", 3) != 0;
            fclose(f);
        }
        if (d) closedir(d);
    }
}

/* Exit 3: no model, or no seccomp here. */
static void child(const char *path, struct bench_options *o, enum fault fault)
{
    struct model m;
    struct setups setups;
    struct err e;
    struct setup_size size = {12, 3, setup_pages(3, 20), setup_pages(1, 20), 0};
    struct sigaction trap = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
    if (model_open(&m, path, &e) || setups_open(&setups, &m, o, &size, &e) ||
        steps(&setups.setup[0], &e)) {
        fprintf(stderr, "step: %s\n", e.msg);
        _exit(3);
    }
    break_backend(&setups.setup[0].forward, fault);
    await_threads();
    if (sigaction(SIGSYS, &trap, NULL) || lock()) {
        perror("step: seccomp");
        _exit(3);
    }
    atomic_store(&seen->armed, 1);
    if (steps(&setups.setup[0], &e)) atomic_store(&seen->failed, 1);
    atomic_store(&seen->armed, 0);
    atomic_store(&seen->done, 1);
    syscall(SYS_exit_group, 0);
}

static void guard(const char *path, const char *cpu, const char *act, enum fault fault)
{
    struct bench_options o;
    struct err e;
    char *argv[] = {"step", "--cpu", (char *)cpu, "--act", (char *)act, "-t", "2"};
    CHECK(!bench_options_parse(&o, 7, argv, &e));
    memset(seen, 0, sizeof *seen);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) exit(2);
    if (!pid) child(path, &o, fault);
    int status, ok;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
        skip("step guard of %s %s: see above", cpu, act);
        return;
    }
    if (fault == ALLOCATES) ok = seen->allocations > 0 && seen->frees > 0;
    else if (fault == CALLS) ok = seen->syscall == SYS_getppid && !seen->done;
    else ok = seen->done && !seen->failed && !seen->syscall && !seen->allocations && !seen->frees;
    ok ? n_passed++ : n_failed++;
    if (ok) return;
    printf("FAIL %s %s%s: status 0x%x, %d allocations, %d frees, system call %d, done %d\n", cpu,
           act, fault ? ", broken on purpose and not caught" : "", status, seen->allocations,
           seen->frees, seen->syscall, seen->done);
}

int main(int argc, char **argv)
{
    static const char *const acts[] = {"f32", "i16", "int8"};
    struct process p;
    char convert[512], dir[] = "/tmp/opt4gptq-step-XXXXXX", path[600];
    if (argc < 2 || !mkdtemp(dir)) return 2;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) return 2;
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", argv[1]);
    snprintf(path, sizeof path, "%s/demo.safetensors", dir);
    process_run(&p, (char *[]){convert, "models/demo", path, NULL}, NULL);
    CHECK(p.code == 0);
    process_free(&p);
    for (int i = 0; cpu_ladder[i]; i++)
        for (int a = 0; a < 3 && !cpu_ladder[i]->unusable(); a++)
            guard(path, cpu_ladder[i]->name, acts[a], NO_FAULT);
    guard(path, "auto", "f32", ALLOCATES);
    guard(path, "auto", "f32", CALLS);
    unlink(path);
    rmdir(dir);
    return report("step");
}
