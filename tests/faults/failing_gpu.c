/* failing_gpu.c: a library to preload that stands between the program and a GPU's runtime library:
 * the calls of one entry point, or of all, are counted, and one of them fails (gpu_sites.c). Of the
 * system it wraps dlsym alone, by which the program finds entry points.
 * FAIL_KIND: the entry point, "gpu" for all; FAIL_AT: its n-th call fails (from 0), with
 * FAIL_ALWAYS all from there on; FAIL_CODE: what it returns (719, a launch that failed, if not
 * given). FAIL_LOG: a file for the number of calls of each entry point, a line each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An entry point has at most twelve arguments, none a floating-point number. */
typedef long entry(long, long, long, long, long, long, long, long, long, long, long, long);

enum { MAX_ENTRIES = 64 };
static struct {
    char name[64];
    entry *real;
    atomic_long n_calls;
} entries[MAX_ENTRIES];
static int n_entries;

static const char *kind;
static long fail_at, code;
static int always;
static atomic_long n_calls; /* of any */

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAIL_AT"), *text = getenv("FAIL_CODE");
    kind = getenv("FAIL_KIND");
    fail_at = at ? atol(at) : -1;
    code = text ? atol(text) : 719;
    always = getenv("FAIL_ALWAYS") != NULL;
    unsetenv("LD_PRELOAD"); /* not for what the program starts */
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_LOG");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "gpu %ld\n", (long)n_calls);
    for (int i = 0; i < n_entries; i++)
        fprintf(f, "%s %ld\n", entries[i].name, (long)entries[i].n_calls);
    fclose(f);
}

static int fails(int i)
{
    long all = atomic_fetch_add(&n_calls, 1), own = atomic_fetch_add(&entries[i].n_calls, 1);
    if (!kind || fail_at < 0) return 0;
    long k = !strcmp(kind, "gpu") ? all : !strcmp(kind, entries[i].name) ? own : -1;
    return k == fail_at || (k > fail_at && always);
}

#define STAND_IN(i)                                                                                \
    static long stand_in_##i(long a, long b, long c, long d, long e, long f, long g, long h,       \
                             long j, long k, long l, long m)                                       \
    {                                                                                              \
        return fails(i) ? code : entries[i].real(a, b, c, d, e, f, g, h, j, k, l, m);              \
    }
#define EACH8(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7)
#define EACH(X)                                                                                    \
    EACH8(X, 0)                                                                                    \
    EACH8(X, 01) EACH8(X, 02) EACH8(X, 03) EACH8(X, 04) EACH8(X, 05) EACH8(X, 06) EACH8(X, 07)
EACH (STAND_IN)
#define ITS_NAME(i) stand_in_##i,
    static entry *const stand_ins[MAX_ENTRIES] = {EACH (ITS_NAME)};

/* Texts of errors are no calls that fail, and what is optional and absent stays so. */
static int is_entry(const char *name)
{
    return (!strncmp(name, "hip", 3) ||
            (!strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z')) &&
           !strstr(name, "ErrorString");
}

#ifdef __x86_64__
#define FIRST_VERSION "GLIBC_2.2.5"
#else
#define FIRST_VERSION "GLIBC_2.17"
#endif

void *dlsym(void *library, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real) real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
    void *p = real(library, name);
    if (!p || !is_entry(name)) return p;
    for (int i = 0; i < n_entries; i++) /* the library is opened again */
        if (!strcmp(entries[i].name, name) && entries[i].real == (entry *)p)
            return (void *)stand_ins[i];
    if (n_entries == MAX_ENTRIES) abort();
    snprintf(entries[n_entries].name, sizeof entries->name, "%s", name);
    entries[n_entries].real = (entry *)p;
    return (void *)stand_ins[n_entries++];
}
