/* fuzz.c: damaged checkpoints through the converter, damaged model files through the program.
 * usage: fuzz BUILD_DIR DATA_DIR [--cases N] [--seed S] [--only CASE] Each case copies one
 * checkpoint of DATA_DIR, or the model file made from it, damages one thing (seeded: a case is
 * repeated by its seed and number, --only runs just one and says what it damaged) and runs the
 * built programs. Whatever the damage: no signal, no sanitizer report, no hang, exit status 0 or 1,
 * and with 1 exactly one line of error that names the path. What the damage must lead to beyond
 * that is said per kind (enum expect). */
#include "core/base/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processor time that a run may take, some hundred times what it needs, and the wait for one that
 * uses none: a busy machine changes neither. */
enum { CPU_SECONDS = 60, WAIT_SECONDS = 600 };

enum { MAX_FIXTURES = 32, MAX_FILES = 16, OUTPUT_BYTES = 8192, SANITIZER_EXIT = 99 };

/* What must happen to a damaged model file; a damaged checkpoint only has to convert or be refused.
 */
enum expect {
    MAY_CHANGE,      /* refused, or runs to its end: other weights give other tokens */
    REFUSED_OR_SAME, /* what is not refused must not matter */
    REFUSED,
};

struct bytes {
    unsigned char *p;
    size_t n;
};

struct result {
    int timed_out, signal, status,
        n_errors; /* n_errors: lines of error, without warnings and notes */
    char out[OUTPUT_BYTES], err[OUTPUT_BYTES];
};

static char temp_dir[] = "/tmp/opt4gptq-fuzz-XXXXXX";
static const char *build_dir;
static int n_failed, n_passed;

/* ---- random numbers: splitmix64 ---- */
static uint64_t rng_state;

static uint64_t next(void)
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n) { return n ? next() % n : 0; }

/* ---- files ---- */
static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
    exit(2);
}

static struct bytes read_file(const char *path)
{
    struct bytes b = {0};
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st)) die(path);
    b.n = (size_t)st.st_size;
    b.p = malloc(b.n + 1);
    if (!b.p || read(fd, b.p, b.n) != (ssize_t)b.n) die(path);
    close(fd);
    return b;
}

static void write_file(const char *path, const struct bytes *b)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || write(fd, b->p, b->n) != (ssize_t)b->n) die(path);
    close(fd);
}

/* Replaces cut bytes at `at` by text. */
static void put_text(struct bytes *b, size_t at, size_t cut, const char *text)
{
    size_t n = strlen(text);
    unsigned char *p = malloc(b->n - cut + n + 1);
    if (!p) die("malloc");
    memcpy(p, b->p, at);
    memcpy(p + at, text, n);
    memcpy(p + at + n, b->p + at + cut, b->n - at - cut);
    free(b->p);
    b->p = p;
    b->n = b->n - cut + n;
}

/* ---- running ---- */
static void read_output(const char *path, char *text)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, OUTPUT_BYTES - 1);
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0) close(fd);
}

static void count_errors(struct result *r)
{
    for (const char *s = r->err; *s; s = strchr(s, '\n') + 1) {
        int extra = !strncmp(s, "opt4gptq-convert: warning: ", 27) ||
                    !strncmp(s, "opt4gptq-convert: note: ", 24);
        r->n_errors += !extra;
        if (!strchr(s, '\n')) break;
    }
}

static volatile pid_t waited_for;

static void on_alarm(int sig)
{
    (void)sig;
    kill(waited_for, SIGKILL);
}

static struct result run(const char *program, ...)
{
    struct result r = {0};
    char path[512], out[64], err[64];
    char *argv[32] = {path};
    int n = 1;
    va_list ap;
    va_start(ap, program);
    while ((argv[n] = va_arg(ap, char *)) && n < 31) n++;
    va_end(ap);
    snprintf(path, sizeof path, "%s/%s", build_dir, program);
    snprintf(out, sizeof out, "%s/out", temp_dir);
    snprintf(err, sizeof err, "%s/err", temp_dir);
    fflush(stdout); /* the child must not print it again */
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (!pid) {
        if (setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS})) _exit(2);
        if (!freopen(out, "w", stdout) || !freopen(err, "w", stderr) ||
            !freopen("/dev/null", "r", stdin))
            _exit(2);
        execv(path, argv);
        _exit(2);
    }
    int status = 0;
    waited_for = pid;
    alarm(WAIT_SECONDS);
    waitpid(pid, &status, 0);
    alarm(0);
    r.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    r.timed_out = r.signal == SIGXCPU || r.signal == SIGKILL;
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_output(out, r.out);
    read_output(err, r.err);
    count_errors(&r);
    return r;
}

static struct result generate(const char *model, int check_tensors)
{
    return run("opt4gptq-run", "-m", model, "--prompt-ids", "1,17,42,99,3,120,7,8,9,10", "-n", "6",
               "--temp", "0", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--ignore-eos",
               "--format", "ids", "-t", "1", check_tensors ? "--check-tensors" : NULL, NULL);
}

/* ---- one case ---- */
struct fuzz_case {
    int number;
    const char *fixture, *kind;
    char what[200];
};

static void fail(const struct fuzz_case *c, const struct result *r, const char *fmt, ...)
{
    va_list ap;
    n_failed++;
    printf("FAIL case %d (%s, %s: %s): ", c->number, c->fixture, c->kind, c->what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
    if (r && *r->err)
        printf("     stderr: %.600s%s", r->err, r->err[strlen(r->err) - 1] == '\n' ? "" : "\n");
}

/* The rules for every run; 1 when they hold. */
static int orderly(const struct fuzz_case *c, const struct result *r, const char *step,
                   const char *path)
{
    if (r->timed_out) fail(c, r, "%s: does not come to an end", step);
    else if (r->signal) fail(c, r, "%s: killed by signal %d", step, r->signal);
    else if (r->status == SANITIZER_EXIT || strstr(r->err, "runtime error:") ||
             strstr(r->err, "Sanitizer"))
        fail(c, r, "%s: sanitizer report", step);
    else if (r->status != 0 && r->status != 1) fail(c, r, "%s: exit status %d", step, r->status);
    else if (r->status == 1 && r->n_errors != 1)
        fail(c, r, "%s: %d lines of error", step, r->n_errors);
    else if (r->status == 1 && !strstr(r->err, path))
        fail(c, r, "%s: the error does not name %s", step, path);
    else return 1;
    return 0;
}

/* ---- damage ---- */
static const char *const numbers[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "3",
                                      "7",
                                      "15",
                                      "16",
                                      "17",
                                      "31",
                                      "33",
                                      "64",
                                      "255",
                                      "65535",
                                      "65537",
                                      "1048577",
                                      "16777217",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "4503599627370497",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "1e3",
                                      "1e-3",
                                      "0.5",
                                      "1e308",
                                      "-0",
                                      "null",
                                      "true",
                                      "\"x\"",
                                      "[]",
                                      "{}",
                                      "[1,2,3,4,5,6,7,8,9]",
                                      ""};
static const char *const dtypes[] = {
    "F16",     "BF16",    "F32", "F64", "I8",
    "U8",      "I16",     "I32", "I64", "U32",
    "BOOL",    "F8_E4M3", "",    "F",   "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
    "\\u0000", "f16"};

static uint64_t header_bytes(const struct bytes *b)
{
    uint64_t n = 0;
    if (b->n >= 8) memcpy(&n, b->p, 8);
    return n;
}

/* Finds a run of number characters that starts at or after `from` (round the end once); 0 when
 * there is none. */
static int find_number(const struct bytes *b, size_t from, size_t lo, size_t hi, size_t *at,
                       size_t *len)
{
    for (size_t k = 0; k < hi - lo; k++) {
        size_t i = lo + (from - lo + k) % (hi - lo);
        if (b->p[i] < '0' || b->p[i] > '9') continue;
        while (i > lo && strchr("0123456789.-+eE", b->p[i - 1]) && b->p[i - 1]) i--;
        size_t j = i;
        while (j < hi && b->p[j] && strchr("0123456789.-+eE", b->p[j])) j++;
        *at = i, *len = j - i;
        return 1;
    }
    return 0;
}

static int find_text(const struct bytes *b, size_t from, size_t lo, size_t hi, const char *text,
                     size_t *at)
{
    size_t n = strlen(text);
    for (size_t k = 0; k < hi - lo; k++) {
        size_t i = lo + (from - lo + k) % (hi - lo);
        if (i + n <= hi && !memcmp(b->p + i, text, n)) {
            *at = i;
            return 1;
        }
    }
    return 0;
}

/* Damages JSON text in b[lo, hi); the caller repairs lengths. */
static void damage_json(struct bytes *b, size_t lo, size_t hi, char *what, size_t cap)
{
    size_t at = lo + below(hi - lo), len = 0, keep;
    if (hi == lo) return;
    switch (below(6)) {
    case 0: /* random bytes */
        for (size_t i = 0, n = 1 + below(4); i < n; i++, at = lo + below(hi - lo))
            b->p[at] = (unsigned char)next();
        snprintf(what, cap, "random bytes in JSON");
        return;
    case 1: /* one bit */
        b->p[at] ^= (unsigned char)(1 << below(8));
        snprintf(what, cap, "bit of JSON byte %zu", at);
        return;
    case 2:
    case 3: { /* a number */
        const char *v = numbers[below(sizeof numbers / sizeof *numbers)];
        if (!find_number(b, at, lo, hi, &keep, &len)) return;
        snprintf(what, cap, "number %.*s at %zu becomes '%s'", (int)(len < 24 ? len : 24),
                 (const char *)b->p + keep, keep, v);
        put_text(b, keep, len, v);
        return;
    }
    case 4: { /* a piece left out or doubled */
        len = 1 + below(hi - at < 60 ? hi - at : 60);
        char piece[64] = "";
        if (next() & 1) {
            memcpy(piece, b->p + at, len);
            piece[len] = 0;
            put_text(b, at, 0, piece);
        } else {
            put_text(b, at, len, "");
        }
        snprintf(what, cap, "%zu JSON bytes at %zu left out or doubled", len, at);
        return;
    }
    default: { /* something inserted: depth, controls, wrong UTF-8, length */
        static const char *const junk[] = {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                                           "{\"a\":{\"a\":{\"a\":",
                                           "\\u0000",
                                           "\x01",
                                           "\xff\xfe",
                                           "\"",
                                           ",",
                                           "}",
                                           "]",
                                           "\\",
                                           "1e999999",
                                           "-",
                                           "\xed\xa0\x80",
                                           "NaN"};
        const char *j = junk[below(sizeof junk / sizeof *junk)];
        if (below(8) == 0) { /* deep enough to exhaust a stack that parses recursively */
            size_t n = 100000;
            char *deep = malloc(n + 1);
            if (!deep) die("malloc");
            memset(deep, '[', n);
            deep[n] = 0;
            put_text(b, at, 0, deep);
            free(deep);
            snprintf(what, cap, "%zu brackets at JSON byte %zu", n, at);
            return;
        }
        put_text(b, at, 0, j);
        snprintf(what, cap, "'%s' inserted at JSON byte %zu", j, at);
    }
    }
}

/* Damages the JSON of a safetensors header and, mostly, corrects the length field. */
static void damage_header(struct bytes *b, char *what, size_t cap)
{
    size_t n = header_bytes(b), before = b->n, at;
    switch (below(4)) {
    case 0: { /* a dtype */
        const char *d = dtypes[below(sizeof dtypes / sizeof *dtypes)];
        if (!find_text(b, 8 + below(n), 8, 8 + n, "\"dtype\":\"", &at)) break;
        at += 9;
        size_t len = strcspn((const char *)b->p + at, "\"");
        snprintf(what, cap, "dtype %.*s at %zu becomes '%.20s'", (int)len, (const char *)b->p + at,
                 at, d);
        put_text(b, at, len, d);
        break;
    }
    case 1: { /* a tensor's name */
        if (!find_text(b, 8 + below(n), 8, 8 + n, "\":{\"dtype", &at)) break;
        size_t start = at;
        while (b->p[start - 1] != '"') start--;
        static const char *const suffix[] = {"x", "\\u0000", ".weight", "\x7f", "0", "\\ud800"};
        char name[160] = "";
        size_t from;
        int how = (int)below(4);
        if (how == 0 && at - start < sizeof name &&
            find_text(b, 8 + below(n), 8, 8 + n, "\":{\"dtype", &from)) { /* as another one */
            size_t s = from;
            while (b->p[s - 1] != '"') s--;
            if (from - s < sizeof name) memcpy(name, b->p + s, from - s);
        } else if (how == 1) {
            memset(name, 'n', sizeof name - 1);
        } else if (how == 2) {
            snprintf(name, sizeof name, "%.*s%s", (int)(at - start), (const char *)b->p + start,
                     suffix[below(6)]);
        }
        snprintf(what, cap, "name %.*s becomes '%.40s'", (int)(at - start),
                 (const char *)b->p + start, name);
        put_text(b, start, at - start, name);
        break;
    }
    default: damage_json(b, 8, 8 + n, what, cap);
    }
    n = n + b->n - before;
    if (below(12)) memcpy(b->p, &n, 8);
    /* The data of a model file must start at a multiple of 64: pad the header with blanks, so that
     * the damage is seen by what comes after that check. */
    if (below(3) && 8 + n <= b->n) {
        char blanks[64] = "";
        memset(blanks, ' ', (64 - (8 + n) % 64) % 64);
        size_t m = strlen(blanks);
        put_text(b, 8 + n, 0, blanks);
        n += m;
        memcpy(b->p, &n, 8);
    }
}

static void damage_length(struct bytes *b, char *what, size_t cap)
{
    uint64_t n = header_bytes(b);
    const uint64_t edges[] = {0,          1,          2,          n - 1,          n + 1,
                              n - 64,     n + 64,     n / 2,      n * 2,          b->n - 8,
                              b->n - 7,   b->n,       100000000,  100000001,      1u << 31,
                              1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7, next()};
    uint64_t v = edges[below(sizeof edges / sizeof *edges)];
    snprintf(what, cap, "header length %llu becomes %llu", (unsigned long long)n,
             (unsigned long long)v);
    memcpy(b->p, &v, 8);
}

static const char *suffix_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Payload of a tensor, the kinds of tensors equally often (a bit of a g_idx matters more than one
 * of the codes). */
static void damage_payload(struct bytes *b, const struct st_file *s, char *what, size_t cap)
{
    const char *kinds[64];
    size_t n_kinds = 0;
    for (size_t i = 0; i < s->n_tensors; i++) {
        size_t k = 0;
        const char *kind = suffix_of(s->tensors[i].name);
        while (k < n_kinds && strcmp(kinds[k], kind)) k++;
        if (k == n_kinds && n_kinds < 64 && strncmp(s->tensors[i].name, "pad.", 4) &&
            s->tensors[i].bytes)
            kinds[n_kinds++] = kind;
    }
    const char *kind = kinds[below(n_kinds)];
    /* Half of the time what is used as an index or has a range: there damage leads out of bounds.
     */
    static const char *const ranged[] = {"perm", "g_idx", "zeros", "qzeros"};
    if (next() & 1)
        for (size_t i = 0; i < n_kinds; i++)
            for (size_t k = 0; k < 4; k++)
                if (!strcmp(kinds[i], ranged[k]) && (kind != kinds[i]) && below(2)) kind = kinds[i];
    const struct st_tensor *t = NULL;
    for (size_t i = 0, seen = 0; i < s->n_tensors; i++)
        if (!strcmp(suffix_of(s->tensors[i].name), kind) && s->tensors[i].bytes &&
            below(++seen) == 0)
            t = &s->tensors[i];
    unsigned char *p = b->p + t->offset, old[16];
    size_t e = dtype_bytes(t->dtype), at = below(t->bytes / e) * e, n = t->bytes;
    static const uint32_t words[] = {0xffffffff, 0x7fffffff, 0x80000000, 0x7fc00000,
                                     0x7f800000, 0xff800000, 0x7c007c00, 0x7bff7bff,
                                     0x7f7f7f7f, 0x00000001, 0x0000ffff, 0x00010001,
                                     0xfffffffe, 0x00000100, 0x01000000, 0x10000000};
    memcpy(old, p + at, e);
    switch (below(5)) {
    case 0: p[at] ^= (unsigned char)(1 << below(8)); break;
    case 1:
        for (size_t i = 0; i < 16; i++) p[below(n)] = (unsigned char)next();
        break;
    case 2: {
        uint32_t w = words[below(sizeof words / sizeof *words)];
        memcpy(p + at, &w, e < 4 ? e : 4);
        break;
    }
    case 3: memset(p, next() & 1 ? 0xff : 0, n); break;
    default:
        for (size_t i = 0, m = n < 4096 ? n : 4096; i < m; i++) p[i] = (unsigned char)next();
    }
    p[at] = (unsigned char)(p[at] == old[0] ? p[at] + 1 : p[at]); /* something did change */
    snprintf(what, cap, "payload of %s", t->name);
}

static enum expect damage_size(struct bytes *b, char *what, size_t cap)
{
    if (next() & 1) {
        size_t n = header_bytes(b);
        const size_t edges[] = {0,         1,         7,           8,          9,
                                8 + n / 2, 8 + n - 1, 8 + n,       8 + n + 1,  b->n - 1,
                                b->n - 64, b->n / 2,  below(b->n), below(b->n)};
        b->n = edges[below(sizeof edges / sizeof *edges)];
        snprintf(what, cap, "cut to %zu bytes", b->n);
        return REFUSED;
    }
    char tail[5000];
    size_t n = 1 + below(sizeof tail - 1);
    memset(tail, 'x', n);
    tail[n] = 0;
    put_text(b, b->n, 0, tail);
    snprintf(what, cap, "%zu bytes appended", n);
    return REFUSED_OR_SAME;
}

static enum expect damage_safetensors(struct bytes *b, const char *path, struct fuzz_case *c,
                                      int *payload)
{
    struct st_file s;
    struct err e;
    size_t cap = sizeof c->what;
    *payload = 0;
    switch (below(8)) {
    case 0:
        c->kind = "length";
        damage_length(b, c->what, cap);
        return REFUSED_OR_SAME;
    case 1: c->kind = "size"; return damage_size(b, c->what, cap);
    case 2:
    case 3:
    case 4:
        c->kind = "header";
        damage_header(b, c->what, cap);
        return MAY_CHANGE;
    default:
        c->kind = "payload";
        if (st_open(&s, path, &e)) die(e.msg);
        damage_payload(b, &s, c->what, cap);
        st_close(&s);
        *payload = 1;
        return MAY_CHANGE;
    }
}

/* ---- the two kinds of cases ---- */
struct fixture {
    char name[64], dir[512], model[512], tokens[OUTPUT_BYTES];
    char *file[MAX_FILES]; /* of the checkpoint, but for expected.safetensors */
    int n_files;
};

static struct tally {
    const char *kind;
    int n, refused, same, changed;
} tallies[2][8];

static void count(int converted, const char *kind, int refused, int same)
{
    struct tally *t = tallies[converted];
    while (t->kind && strcmp(t->kind, kind)) t++;
    t->kind = kind;
    t->n++;
    t->refused += refused;
    t->same += !refused && same;
    t->changed += !refused && !same;
}

static void model_case(struct fuzz_case *c, const struct fixture *f)
{
    char path[512];
    int payload, failed = n_failed;
    struct bytes b = read_file(f->model);
    enum expect expect = damage_safetensors(&b, f->model, c, &payload);
    snprintf(path, sizeof path, "%s/case-%d.safetensors", temp_dir, c->number);
    write_file(path, &b);
    free(b.p);
    struct result r = generate(path, 0);
    int same = !strcmp(r.out, f->tokens);
    if (orderly(c, &r, "run", path)) {
        if (r.status == 0 && expect == REFUSED) fail(c, &r, "not refused");
        if (r.status == 0 && expect == REFUSED_OR_SAME && !same)
            fail(c, &r, "not refused, and the output differs: %.60s", r.out);
    }
    count(1, c->kind, r.status != 0, same);
    if (payload) {
        struct result checked = generate(path, 1),
                      verified = run("opt4gptq-convert", "--verify", path, NULL);
        if (orderly(c, &checked, "run --check-tensors", path) && checked.status != 1)
            fail(c, &checked, "--check-tensors does not see it");
        if (orderly(c, &verified, "convert --verify", path) && verified.status != 1)
            fail(c, &verified, "--verify does not see it");
    }
    n_passed += n_failed == failed;
    unlink(path);
}

/* A checkpoint directory of links, with one file damaged or missing. */
static void checkpoint_case(struct fuzz_case *c, const struct fixture *f)
{
    char dir[512], from[1024], path[1024], out[600];
    int failed = n_failed, victim = (int)below((size_t)f->n_files), missing = below(40) == 0,
        payload = 0;
    /* half of the damage to tensors, the rest to the JSON files */
    while (next() & 1 && !strstr(f->file[victim], ".safetensors"))
        victim = (int)below((size_t)f->n_files);
    snprintf(dir, sizeof dir, "%s/case-%d", temp_dir, c->number);
    snprintf(out, sizeof out, "%s/case-%d.safetensors", temp_dir, c->number);
    mkdir(dir, 0755);
    for (int i = 0; i < f->n_files; i++) {
        snprintf(from, sizeof from, "%s/%s", f->dir, f->file[i]);
        snprintf(path, sizeof path, "%s/%s", dir, f->file[i]);
        if (i != victim && symlink(from, path)) die(path);
    }
    snprintf(from, sizeof from, "%s/%s", f->dir, f->file[victim]);
    snprintf(path, sizeof path, "%s/%s", dir, f->file[victim]);
    size_t n = strlen(path);
    if (missing) {
        c->kind = "missing";
    } else {
        struct bytes b = read_file(from);
        if (n > 12 && !strcmp(path + n - 12, ".safetensors")) {
            damage_safetensors(&b, from, c, &payload);
        } else {
            c->kind = "json";
            if (below(12) == 0) b.n = below(b.n);
            else damage_json(&b, 0, b.n, c->what, sizeof c->what);
        }
        write_file(path, &b);
        free(b.p);
    }
    size_t used = strlen(c->what);
    snprintf(c->what + used, sizeof c->what - used, " in %s", f->file[victim]);
    struct result r = run("opt4gptq-convert", "-q", "-t", "2", dir, out, NULL);
    int ok = orderly(c, &r, "convert", dir), same = 0, refused = r.status != 0;
    if (ok && r.status == 1 && access(out, F_OK) == 0) fail(c, &r, "failed, but left %s", out);
    if (ok && r.status == 0) {
        struct result v = run("opt4gptq-convert", "--verify", out, NULL), g = generate(out, 1);
        if (orderly(c, &v, "convert --verify", out) && v.status)
            fail(c, &v, "the result does not verify");
        orderly(c, &g, "run", out);
        same = !strcmp(g.out, f->tokens);
    }
    count(0, c->kind, refused, same);
    n_passed += n_failed == failed;
    for (int i = 0; i < f->n_files; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, f->file[i]);
        unlink(path);
    }
    unlink(out);
    if (rmdir(dir)) fail(c, NULL, "files were left in the checkpoint directory");
}

/* ---- fixtures ---- */
static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(const char *dir, char **names, int cap)
{
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) die(dir);
    for (struct dirent *f; (f = readdir(d)) && n < cap;)
        if (f->d_name[0] != '.' && strcmp(f->d_name, "expected.safetensors"))
            names[n++] = strdup(f->d_name);
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_string);
    return n;
}

/* Converts and runs the undamaged checkpoint. 0: it is a GGUF file, of which unit_gguf damages one.
 */
static int open_fixture(struct fixture *f, const char *data, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/config.json", data, name);
    if (access(path, R_OK)) return 0;
    snprintf(path, sizeof path, "%s/%s", data, name);
    char *real = realpath(path, NULL);
    if (!real || strlen(real) >= sizeof f->dir) die(path);
    strcpy(f->dir, real);
    free(real);
    snprintf(f->name, sizeof f->name, "%.63s", name);
    snprintf(f->model, sizeof f->model, "%s/%.63s.safetensors", temp_dir, name);
    f->n_files = list(f->dir, f->file, MAX_FILES);
    struct result r = run("opt4gptq-convert", "-q", f->dir, f->model, NULL);
    struct result g = generate(f->model, 1);
    if (r.status || g.status || !*g.out) {
        fprintf(stderr, "fuzz: %s: the undamaged checkpoint does not run: %s%s", name, r.err,
                g.err);
        exit(2);
    }
    strcpy(f->tokens, g.out);
    return 1;
}

int main(int argc, char **argv)
{
    static struct fixture fixture[MAX_FIXTURES];
    char *names[MAX_FIXTURES];
    int n_cases = 800, only = -1, n = 0;
    uint64_t seed = 1;
    signal(SIGALRM, on_alarm);
    for (int i = 3; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--cases")) n_cases = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--only")) only = atoi(argv[i + 1]);
        else argc = 0;
    }
    if (argc < 3 || argc % 2 == 0) {
        fprintf(stderr, "usage: fuzz BUILD_DIR DATA_DIR [--cases N] [--seed S] [--only CASE]\n");
        return 2;
    }
    build_dir = argv[1];
    if (!mkdtemp(temp_dir)) die(temp_dir);
    /* A file that asks for more memory than there is must get an error message, not an abort of the
     * sanitizer. */
    setenv("ASAN_OPTIONS", "exitcode=99:allocator_may_return_null=1:detect_leaks=1", 1);
    setenv("LSAN_OPTIONS", "exitcode=99", 1);
    setenv("UBSAN_OPTIONS", "exitcode=99:print_stacktrace=1", 1);
    int n_fixtures = list(argv[2], names, MAX_FIXTURES);
    for (int i = 0; i < n_fixtures; i++) {
        n += open_fixture(&fixture[n], argv[2], names[i]);
        free(names[i]);
    }
    for (int i = 0; i < n_cases; i++) {
        struct fuzz_case c = {.number = i, .fixture = fixture[i / 2 % n].name, .kind = "?"};
        rng_state = (seed << 32) + (uint64_t)i;
        next();
        if (only >= 0 && i != only) continue;
        if (i % 2) model_case(&c, &fixture[i / 2 % n]);
        else checkpoint_case(&c, &fixture[i / 2 % n]);
        if (only >= 0) printf("case %d: %s, %s: %s\n", i, c.fixture, c.kind, c.what);
    }
    for (int k = 0; k < 2; k++)
        for (struct tally *t = tallies[k]; t->kind; t++)
            printf("%-11s %-8s %4d damaged: %4d refused, %4d harmless, %4d with another answer\n",
                   k ? "model file" : "checkpoint", t->kind, t->n, t->refused, t->same, t->changed);
    for (int i = 0; i < n; i++) {
        unlink(fixture[i].model);
        while (fixture[i].n_files) free(fixture[i].file[--fixture[i].n_files]);
    }
    char path[64];
    snprintf(path, sizeof path, "%s/out", temp_dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/err", temp_dir);
    unlink(path);
    rmdir(temp_dir);
    printf("fuzz: %d passed, %d failed, 0 skipped\n", n_passed, n_failed);
    return n_failed != 0;
}
