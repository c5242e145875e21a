/* batch_faults.c: a batch survives what machines do: it is killed at any byte it writes, loses
 * power with every write that was not brought to disk, and has each write, sync, rename, open and
 * allocation fail once. After each the same command must give the bytes of an undisturbed run.
 * Works on models/demo; usage: batch_faults BUILD_DIR [--some]; --some: every fifth allocation.
 *
 * The batch mode is linked into this program with its system calls and allocations wrapped
 * (Makefile: -Wl,--wrap); every run is a forked child. The clock is wrapped too, so that the
 * journal's groups end after a few steps. */
#include "engine/engine.h"
#include "cli/run.h"
#include "core/base/err.h"
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* each run takes several times as long */
enum { N_KILLS = 20, FIRST_VARIANT = 2, NEXT_OCCURRENCE = 15, ALLOCATION_STEP = 17 };
#else
enum { N_KILLS = 200, FIRST_VARIANT = 0, NEXT_OCCURRENCE = 1, ALLOCATION_STEP = 1 };
#endif
enum {
    KILLED = 99,
    MAX_OPS = 4096,
    MAX_FILES = 64,
    ARENA = 8 << 20,
    MAX_SITES = 4096,
    MAX_NAME = 64
};
enum syscall_op {
    OP_OPEN,
    OP_WRITE,
    OP_TRUNCATE,
    OP_SYNC,
    OP_SYNC_DIR,
    OP_RENAME,
    OP_REMOVE,
    N_OPS
};
static const char *const op_names[N_OPS] = {
    "open", "write", "truncate", "sync", "sync of the directory", "rename", "remove"};

/* One change on disk, as the power-loss replay needs it. */
struct entry {
    enum syscall_op op;
    int file;                      /* index of the opened file */
    int flags;                     /* OP_OPEN */
    char a[MAX_NAME], b[MAX_NAME]; /* names without directory: OP_OPEN, OP_RENAME, OP_REMOVE */
    uint64_t offset, n, at;        /* OP_WRITE: n bytes at arena[at]; OP_TRUNCATE: to n */
};

struct site {
    void *caller;
    uint64_t n;
};

/* Shared with the children. */
static struct shared {
    /* the plan */
    uint64_t kill_at; /* 0: never; else die when so many units (bytes and calls) are done */
    enum syscall_op fail_op;
    int fail_nth, fail_errno, fail_short; /* 0: never; else the n-th call of that kind fails */
    void *fail_caller;                    /* an allocation asked for from here ... */
    uint64_t fail_occurrence;             /* ... the n-th time fails */
    uint64_t fail_allocation;             /* the n-th of all fails, none after it; 0: none */
    int hit;                              /* the planned failure happened */
    /* what happened */
    uint64_t units, n_allocations;
    int calls[N_OPS], n_entries, overflow, n_sites;
    struct entry entry[MAX_OPS];
    struct site site[MAX_SITES];
    uint64_t arena_used;
    char arena[ARENA];
} *shared;

static int active;        /* in a child: the wrappers do what the plan says */
static char watched[256]; /* directory of the output */
static struct {
    int fd, is_dir;
} files[MAX_FILES]; /* opened below `watched`, in order */
static int n_files;
static uint64_t ticks;

static char dir[] = "/tmp/opt4gptq-faults-XXXXXX", model[300], input[300];

/* ---- wrappers */

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __real_pwrite(int fd, const void *p, size_t n, off_t at);
int __real_ftruncate(int fd, off_t n);
int __real_fdatasync(int fd);
int __real_fsync(int fd);
int __real_rename(const char *a, const char *b);
int __real_unlink(const char *a);
int __real_clock_gettime(clockid_t c, struct timespec *t);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at);
int __wrap_ftruncate(int fd, off_t n);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);
int __wrap_rename(const char *a, const char *b);
int __wrap_unlink(const char *a);
int __wrap_clock_gettime(clockid_t c, struct timespec *t);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);

static const char *below(const char *path)
{
    size_t n = strlen(watched);
    return active && !strncmp(path, watched, n) && path[n] == '/' ? path + n + 1 : NULL;
}

static int file_of(int fd)
{
    for (int i = n_files - 1; active && i >= 0; i--)
        if (files[i].fd == fd) return i;
    return -1;
}

/* Counts a call: dies at it or fails it when that is the plan. 1: fail. */
static int call(enum syscall_op op)
{
    shared->calls[op]++;
    if (shared->kill_at && ++shared->units >= shared->kill_at) _exit(KILLED);
    if (!shared->kill_at) shared->units++;
    if (shared->fail_nth && shared->fail_op == op && shared->calls[op] == shared->fail_nth) {
        shared->hit = 1;
        errno = shared->fail_errno;
        return 1;
    }
    return 0;
}

static struct entry *record_entry(enum syscall_op op, int file)
{
    if (shared->n_entries == MAX_OPS) {
        shared->overflow = 1;
        return &shared->entry[MAX_OPS - 1];
    }
    struct entry *x = &shared->entry[shared->n_entries++];
    *x = (struct entry){.op = op, .file = file};
    return x;
}

int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    const char *name = below(path);
    int is_dir = active && !strcmp(path, watched);
    if (!name && !is_dir) return __real_open(path, flags, mode);
    if (call(OP_OPEN)) return -1;
    int fd = __real_open(path, flags, mode);
    if (fd < 0 || n_files == MAX_FILES) return fd;
    if (!is_dir) {
        struct entry *x = record_entry(OP_OPEN, n_files);
        x->flags = flags;
        snprintf(x->a, MAX_NAME, "%s", name);
    }
    files[n_files].fd = fd;
    files[n_files++].is_dir = is_dir;
    return fd;
}

/* Writes through; dies in the middle when the plan says so, fails, or writes only the first half.
 */
static ssize_t write_at(int fd, const void *p, size_t n, off_t at)
{
    int file = file_of(fd);
    if (file < 0) return __real_pwrite(fd, p, n, at);
    if (call(OP_WRITE)) {
        if (shared->fail_short && n > 1) n /= 2;
        else return -1;
    }
    if (shared->kill_at && shared->units + n >= shared->kill_at) {
        if (__real_pwrite(fd, p, (size_t)(shared->kill_at - shared->units), at) < 0) _exit(98);
        _exit(KILLED);
    }
    shared->units += n;
    ssize_t w = __real_pwrite(fd, p, n, at);
    if (w > 0 && shared->arena_used + (uint64_t)w <= ARENA) {
        struct entry *x = record_entry(OP_WRITE, file);
        x->offset = (uint64_t)at;
        x->n = (uint64_t)w;
        x->at = shared->arena_used;
        memcpy(shared->arena + x->at, p, (size_t)w);
        shared->arena_used += (uint64_t)w;
    } else {
        shared->overflow = 1;
    }
    return w;
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t at) { return write_at(fd, p, n, at); }
ssize_t __wrap_write(int fd, const void *p, size_t n) { return __real_write(fd, p, n); }

int __wrap_ftruncate(int fd, off_t n)
{
    int file = file_of(fd);
    if (file < 0) return __real_ftruncate(fd, n);
    if (call(OP_TRUNCATE)) return -1;
    record_entry(OP_TRUNCATE, file)->n = (uint64_t)n;
    return __real_ftruncate(fd, n);
}

/* Nothing is really synced: the model below says what would have been kept. */
static int sync_file(int fd)
{
    int file = file_of(fd);
    if (file < 0) return 0;
    enum syscall_op op = files[file].is_dir ? OP_SYNC_DIR : OP_SYNC;
    if (call(op)) return -1;
    record_entry(op, file);
    return 0;
}

int __wrap_fdatasync(int fd) { return sync_file(fd); }
int __wrap_fsync(int fd) { return sync_file(fd); }

int __wrap_rename(const char *a, const char *b)
{
    if (!below(b)) return __real_rename(a, b);
    if (call(OP_RENAME)) return -1;
    struct entry *x = record_entry(OP_RENAME, -1);
    snprintf(x->a, MAX_NAME, "%s", below(a));
    snprintf(x->b, MAX_NAME, "%s", below(b));
    return __real_rename(a, b);
}

int __wrap_unlink(const char *a)
{
    if (!below(a)) return __real_unlink(a);
    if (call(OP_REMOVE)) return -1;
    snprintf(record_entry(OP_REMOVE, -1)->a, MAX_NAME, "%s", below(a));
    return __real_unlink(a);
}

int __wrap_clock_gettime(clockid_t c, struct timespec *t)
{
    int rc = __real_clock_gettime(c, t);
    if (active && c == CLOCK_MONOTONIC) *t = (struct timespec){(time_t)(1000 + ++ticks / 4), 0};
    return rc;
}

static int allocation_fails(void *caller)
{
    if (!active) return 0;
    if (++shared->n_allocations == shared->fail_allocation) {
        shared->hit = 1;
        errno = ENOMEM;
        return 1;
    }
    int i = 0;
    while (i < shared->n_sites && shared->site[i].caller != caller) i++;
    if (i == MAX_SITES) {
        shared->overflow = 1;
        return 0;
    }
    if (i == shared->n_sites) shared->site[shared->n_sites++] = (struct site){caller, 0};
    if (++shared->site[i].n != shared->fail_occurrence || caller != shared->fail_caller) return 0;
    shared->hit = 1;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t n)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : __real_realloc(p, n);
}

/* ---- runs */

static void check_code(int ok, const char *what, int detail)
{
    if (ok) {
        n_passed++;
        return;
    }
    n_failed++;
    if (n_failed > 40) return;
    printf("FAIL %s (%d)\n", what, detail);
}

static uint64_t random_state = 1;
static uint64_t draw(uint64_t below_n)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u; /* splitmix64 (Steele, Lea, Flood 2014) */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below_n;
}

/* Runs the batch in a child with the plan in *shared; its stderr is in dir/stderr. Returns its exit
 * code or -signal. */
static int batch(const char *output)
{
    char out_path[400], err_path[300];
    snprintf(out_path, sizeof out_path, "%s/%s", watched, output);
    snprintf(err_path, sizeof err_path, "%s/stderr", dir);
    shared->units = shared->arena_used = shared->n_allocations = 0;
    shared->n_entries = shared->overflow = shared->n_sites = shared->hit = 0;
    memset(shared->calls, 0, sizeof shared->calls);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        struct options o;
        struct err e = {0};
        int fd = __real_open(err_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(fd, 2);
        char *argv[] = {"opt4gptq-run", "-m", model, "-i", input, "-o",  out_path, "-t", "1",
                        "-np",          "3",  "-b",  "32", "-c",  "256", "--score-tokens",
                        "\xC4\xA0the,\xC4\xA0of", NULL};
        int rc = options_parse(&o, sizeof argv / sizeof *argv - 1, argv, &e) ? 2 : 0;
        if (!rc && options_settle(&o, &e)) rc = 2;
        o.format = "jsonl";
        active = 1;
        if (!rc) rc = run_batch(&o, &e);
        active = 0;
        if (e.msg[0]) fprintf(stderr, "opt4gptq-run: %s\n", e.msg);
        fflush(NULL);
        _exit(rc);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void plan_nothing(void)
{
    shared->kill_at = 0;
    shared->fail_nth = 0;
    shared->fail_caller = NULL;
    shared->fail_allocation = 0;
    shared->fail_occurrence = 0;
}

static void new_directory(void)
{
    static int n;
    if (n) {
        struct process p;
        process_run(&p, (char *[]){"/bin/rm", "-r", watched, NULL}, NULL);
        process_free(&p);
    }
    snprintf(watched, sizeof watched, "%s/run%d", dir, n++);
    if (mkdir(watched, 0777)) exit(2);
}

static int same_output(const char *output, const char *want, size_t n_want)
{
    char path[400];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", watched, output);
    char *got = read_file(path, &n);
    int same = got && n == n_want && !memcmp(got, want, n);
    free(got);
    return same;
}

/* The same command without trouble must complete and give the bytes. */
static int completes(const char *output, const char *want, size_t n_want)
{
    plan_nothing();
    int rc = batch(output);
    if (rc != 3 || !same_output(output, want, n_want)) return 0;
    /* Now and then: once more, and there is nothing left to do. */
    return draw(8) || (batch(output) == 3 && !shared->calls[OP_WRITE] && !shared->calls[OP_RENAME]);
}

/* ---- the proofs */

static void kills(const char *output, const char *want, size_t n_want, int n)
{
    plan_nothing();
    new_directory();
    check_code(batch(output) == 3 && same_output(output, want, n_want), "an undisturbed run", 0);
    uint64_t units = shared->units;
    for (int i = 0; i < n; i++) {
        new_directory();
        int died = 0, rc = 0;
        for (int again = 0; again < 3;
             again++) { /* killed up to three times, each time somewhere else */
            plan_nothing();
            shared->kill_at = 1 + draw(units);
            rc = batch(output);
            died += rc == KILLED;
            if (rc != KILLED || draw(2)) break;
        }
        check_code(died > 0 && (rc == KILLED || rc == 3), "a run is killed where planned", rc);
        check_code(completes(output, want, n_want),
                   "after a kill the same command gives the same bytes", i);
    }
}

/* A file system that forgets what was not synced. */
struct inode {
    char *now, *kept; /* contents: as written; as on the medium */
    size_t n_now, n_kept;
};
struct name {
    char text[MAX_NAME];
    int inode; /* -1: none */
};
struct disk {
    struct inode inode[MAX_FILES];
    int n_inodes, opened[MAX_FILES];
    struct name now[16], kept[16];
    int n_names;
};

static int *lookup(struct disk *d, struct name *names, const char *text)
{
    for (int i = 0; i < d->n_names; i++)
        if (!strcmp(names[i].text, text)) return &names[i].inode;
    int i = d->n_names++;
    snprintf(d->now[i].text, MAX_NAME, "%s", text);
    snprintf(d->kept[i].text, MAX_NAME, "%s", text);
    d->now[i].inode = d->kept[i].inode = -1;
    return &names[i].inode;
}

static void resize(struct inode *f, size_t n)
{
    f->now = realloc(f->now, n + 1);
    if (n > f->n_now) memset(f->now + f->n_now, 0, n - f->n_now);
    f->n_now = n;
}

static void replay(struct disk *d, const struct entry *x)
{
    struct inode *f = x->file >= 0 && x->op != OP_OPEN && x->op != OP_SYNC_DIR
                          ? &d->inode[d->opened[x->file]]
                          : NULL;
    int *at;
    switch (x->op) {
    case OP_OPEN:
        at = lookup(d, d->now, x->a);
        if (*at < 0) *at = d->n_inodes++;
        if (x->flags & O_TRUNC) resize(&d->inode[*at], 0);
        d->opened[x->file] = *at;
        break;
    case OP_WRITE:
        if (f->n_now < x->offset + x->n) resize(f, x->offset + x->n);
        memcpy(f->now + x->offset, shared->arena + x->at, x->n);
        break;
    case OP_TRUNCATE: resize(f, x->n); break;
    case OP_SYNC:
        f->kept = realloc(f->kept, f->n_now + 1);
        if (f->n_now) memcpy(f->kept, f->now, f->n_now);
        f->n_kept = f->n_now;
        break;
    case OP_RENAME:
        at = lookup(d, d->now, x->a);
        *lookup(d, d->now, x->b) = *at;
        *at = -1;
        break;
    case OP_REMOVE: *lookup(d, d->now, x->a) = -1; break;
    default: memcpy(d->kept, d->now, sizeof d->kept); break;
    }
}

/* Whether the last run's stderr holds this. */
static int was_said(const char *what)
{
    char path[300];
    size_t n;
    snprintf(path, sizeof path, "%s/stderr", dir);
    char *text = read_file(path, &n);
    int there = text && strstr(text, what);
    free(text);
    return there;
}

/* What is on the medium after a loss of power. Variant 0: nothing that was not synced; 1: names as
 * they were, contents only what was synced; 2: any mixture: names one way or the other, of unsynced
 * writes some beginning, or zeros. */
static void materialize(struct disk *d, int variant)
{
    int names_now = variant == 1 || (variant == 2 && draw(2));
    for (int i = 0; i < d->n_names; i++) {
        int k = names_now ? d->now[i].inode : d->kept[i].inode;
        if (k < 0) continue;
        struct inode *f = &d->inode[k];
        char path[400];
        char *content = calloc(1, f->n_now + f->n_kept + 1);
        size_t n = f->n_kept;
        if (n) memcpy(content, f->kept, n);
        if (variant == 2 && f->n_now > n && (!n || !memcmp(f->now, f->kept, n))) {
            size_t more = (size_t)draw(f->n_now - n + 1);
            memcpy(content + n, f->now + n,
                   (size_t)draw(more + 1)); /* the length was kept, of the bytes a beginning */
            n += more;
        }
        snprintf(path, sizeof path, "%s/%s", watched, d->kept[i].text);
        write_file(path, content, n);
        free(content);
    }
}

static void power_loss(const char *output, const char *want, size_t n_want)
{
    static struct entry log[MAX_OPS];
    static char bytes[ARENA];
    plan_nothing();
    new_directory();
    check_code(batch(output) == 3 && !shared->overflow, "a run is logged", 0);
    int n = shared->n_entries, n_placed = 0;
    memcpy(log, shared->entry, sizeof log);
    memcpy(bytes, shared->arena, shared->arena_used);
    size_t n_bytes = shared->arena_used;
    for (int k = 0; k <= n; k++)
        for (int variant = FIRST_VARIANT; variant < 3; variant++) {
            struct disk d = {0};
            memcpy(shared->arena, bytes, n_bytes);
            for (int i = 0; i < k; i++) replay(&d, &log[i]);
            new_directory();
            materialize(&d, variant);
            for (int i = 0; i < d.n_inodes; i++) {
                free(d.inode[i].now);
                free(d.inode[i].kept);
            }
            char path[400];
            snprintf(path, sizeof path, "%s/%s", watched, output);
            if (!access(path,
                        F_OK)) { /* the output was in its place: nothing of it is computed again */
                plan_nothing();
                check_code(batch(output) == 3 &&
                               (was_said("is complete") || was_said("continuing: 8 of 8")),
                           "after a loss of power what was complete is not computed again",
                           10 * k + variant);
                n_placed++;
            }
            check_code(completes(output, want, n_want),
                       "after a loss of power the same command gives the same bytes",
                       10 * k + variant);
        }
    check_code(n_placed > 3, "power is lost after the output was in its place", n_placed);
    printf("power lost after each of %d changes on disk, in %d ways\n", n, 3 - FIRST_VARIANT);
}

/* One line on stderr says what failed. */
static int said_why(void)
{
    char path[300];
    size_t n;
    snprintf(path, sizeof path, "%s/stderr", dir);
    char *text = read_file(path, &n), *at = text ? strstr(text, "opt4gptq-run: ") : NULL;
    int ok = at && strlen(at) > 20 && strchr(at, '\n') == at + strlen(at) - 1;
    free(text);
    return ok;
}

static void failing_calls(const char *output, const char *want, size_t n_want)
{
    int calls[N_OPS], n_sites = 0;
    plan_nothing();
    new_directory();
    check_code(batch(output) == 3, "a run is counted", 0);
    memcpy(calls, shared->calls, sizeof calls);
    for (int op = 0; op < N_OPS; op++)
        for (int i = 1; i <= calls[op]; i++) {
            new_directory();
            plan_nothing();
            shared->fail_op = (enum syscall_op)op;
            shared->fail_nth = i;
            shared->fail_errno = i % 2 ? ENOSPC : EIO;
            shared->fail_short = op == OP_WRITE && i % 3 == 0;
            int shortened = shared->fail_short, rc = batch(output);
            check_code(shared->hit, "a call fails where planned", i);
            check_code(shortened ? rc == 3 : rc == 1 && said_why(), op_names[op], rc);
            check_code(completes(output, want, n_want),
                       "after a failed call the same command gives the same bytes", i);
            n_sites++;
        }
    printf("%d failing calls: ", n_sites);
    for (int op = 0; op < N_OPS; op++) printf("%s%d %s", op ? ", " : "", calls[op], op_names[op]);
    printf("\n");
}

static void failing_allocations(const char *output, const char *want, size_t n_want)
{
    static struct site sites[MAX_SITES];
    plan_nothing();
    new_directory();
    check_code(batch(output) == 3 && !shared->overflow, "allocations are counted",
               shared->overflow);
    int n = shared->n_sites, n_runs = 0;
    memcpy(sites, shared->site, sizeof sites);
    for (int i = 0; i < n; i++)
        for (uint64_t at = 1; at <= sites[i].n; at += NEXT_OCCURRENCE * (1 + at / 2)) {
            new_directory();
            plan_nothing();
            shared->fail_caller = sites[i].caller;
            shared->fail_occurrence = at;
            int rc = batch(output);
            n_runs++;
            check_code(shared->hit, "an allocation fails where planned", i);
            int fine = rc == 3 && same_output(output, want, n_want); /* it could do without */
            check_code(fine || (rc == 1 && said_why()), "a failed allocation is one line", rc);

            check_code(fine || completes(output, want, n_want),
                       "after a failed allocation the same command gives the same bytes", i);
        }
    printf("%d failing allocations at %d places\n", n_runs, n);
}

/* Each allocation of a whole small batch, or one of `step`, fails once, and no other: exit 1 with
 * "out of memory", or the same bytes. */
static void each_allocation(const char *output, uint64_t step)
{
    static const char lines[] =
        "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":2,\"stop\":[\"zz\"],\"logit_bias\":{\"5\":3},\"logprobs\":1,"
        "\"echo\":true}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"A\",\"wish\":1}}\n"
        "{\"custom_id\":\"c\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"The heart\",[5]],"
        "\"dimensions\":4,\"truncate_prompt_tokens\":2}}\n"
        "{\"custom_id\":\"d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":2,\"prompt_logprobs\":1,\"logprobs\":0,\"logprob_token_ids\":[7,5],"
        "\"allowed_token_ids\":[5,6,7],\"bad_words\":[\"the\"]}}\n"
        "{\"custom_id\":\"e\",\"url\":\"/v1/rerank\",\"body\":{\"query\":\"A\",\"documents\":["
        "\"B\",\"C\"],\"instruction\":\"Judge\"}}\n"
        "not a record\n";
    char path[400];
    size_t n_want;
    write_file(input, lines, sizeof lines - 1);
    plan_nothing();
    new_directory();
    check_code(batch(output) == 3, "a small batch", 0);
    snprintf(path, sizeof path, "%s/%s", watched, output);
    char *want = read_file(path, &n_want);
    uint64_t n = shared->n_allocations;
    for (uint64_t k = 1; k <= n; k += step) {
        new_directory();
        plan_nothing();
        shared->fail_allocation = k;
        int rc = batch(output), fine = rc == 3 && same_output(output, want, n_want);
        check_code(shared->hit, "the k-th allocation fails", (int)k);
        check_code(fine || (rc == 1 && said_why() && was_said("out of memory")),
                   "the k-th allocation fails: \"out of memory\", or the same bytes", (int)k);
        if (!shared->calls[OP_WRITE] && k % 16) continue; /* nothing was begun */
        check_code(fine || completes(output, want, n_want),
                   "after it the same command gives the same bytes", (int)k);
    }
    printf("%llu of %llu allocations failed once each\n",
           (unsigned long long)((n + step - 1) / step), (unsigned long long)n);
    free(want);
}

int main(int argc, char **argv)
{
    static const char lines[] =
        "{\"custom_id\":\"first\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Once upon a "
        "time\",\"max_tokens\":24,\"temperature\":0}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":[\"The "
        "heart\",\"The "
        "lungs\"],\"n\":2,\"max_tokens\":3,\"logprobs\":2}}\n"
        "{\"custom_id\":\"c\",\"url\":\"/v1/"
        "completions\",\"body\":{\"prompt\":[260,610],\"max_tokens\":4,\"stop\":[\"e\"],\"logit_"
        "bias\":{\"5\":3}}}\n"
        "not a record\n"
        "{\"custom_id\":\"d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"In the "
        "sea\",\"max_tokens\":2,\"echo\":true,\"logprobs\":1}}\n"
        "{\"custom_id\":\"e\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"A "
        "king\",\"max_tokens\":5,\"stop_token_ids\":[7]}}\n"
        "{\"custom_id\":\"f\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"A "
        "queen\",\"wish\":1}}\n"
        "{\"custom_id\":\"g\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"A "
        "cell\",\"max_tokens\":1,\"return_token_ids\":true}}\n";
    char convert[512];
    struct process p;
    size_t n_plain, n_packed;
    if (argc < 2 || !mkdtemp(dir)) return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(input, sizeof input, "%s/in.jsonl", dir);
    write_file(input, lines, sizeof lines - 1);
    process_run(&p, (char *[]){convert, "models/demo", model, NULL}, NULL);
    check_code(p.code == 0, "convert models/demo", p.code);
    process_free(&p);

    char path[400];
    plan_nothing();
    new_directory();
    check_code(batch("out.jsonl") == 3, "a run as it should be", 0);
    snprintf(path, sizeof path, "%s/out.jsonl", watched);
    char *plain = read_file(path, &n_plain);
    check_code(batch("out.gz") == 3, "a run as it should be, packed", 0);
    snprintf(path, sizeof path, "%s/out.gz", watched);
    char *packed = read_file(path, &n_packed);

    kills("out.jsonl", plain, n_plain, N_KILLS - N_KILLS / 4);
    kills("out.gz", packed, n_packed, N_KILLS / 4);
    power_loss("out.jsonl", plain, n_plain);
    failing_calls("out.jsonl", plain, n_plain);
    failing_allocations("out.jsonl", plain, n_plain);
    int some = argc > 2 && !strcmp(argv[2], "--some") && ALLOCATION_STEP < 5;
    each_allocation("out.jsonl", some ? 5 : ALLOCATION_STEP);
    free(plain);
    free(packed);
    process_run(&p, (char *[]){"/bin/rm", "-r", dir, NULL}, NULL);
    process_free(&p);
    return report("batch_faults");
}
