#include "bench/bench.h"
#include "bench/probe.h"
#include "bench/probe_kernels.h"
#include "bench/stats.h"

#include "core/base/clock.h"
#include "core/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A pass reads the buffer in pieces that threads claim: one that is slower than the others does not
 * hold them up. */
enum { PEAK_PASSES = 5, READ_PASSES = 6, PIECE = 1 << 20 };

/* n threads that start together. */
enum { GATE_SHUT, GATE_OPEN, GATE_GO_HOME };

struct team {
    _Atomic int n_ready, gate;
    void (*work)(void *arg, int thread);
    void *arg;
};

struct member {
    struct team *team;
    pthread_t thread;
    int index;
    double start, end;
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    int gate;
    m->team->n_ready++;
    while (!(gate = m->team->gate)) sched_yield();
    if (gate == GATE_GO_HOME) return NULL;
    m->start = clock_now();
    m->team->work(m->team->arg, m->index);
    m->end = clock_now();
    return NULL;
}

/* Seconds from the first start to the last end; -1 when the threads cannot be started. */
static double team_run(int n, void (*work)(void *arg, int thread), void *arg)
{
    struct team t = {.work = work, .arg = arg};
    struct member *m = calloc((size_t)n, sizeof *m);
    int started = 0;
    while (m && started < n) {
        m[started] = (struct member){&t, 0, started, 0, 0};
        if (pthread_create(&m[started].thread, NULL, member_main, &m[started])) break;
        started++;
    }
    while (t.n_ready < started) sched_yield();
    t.gate = started == n ? GATE_OPEN : GATE_GO_HOME;
    double first = 0, last = 0;
    for (int i = 0; i < started; i++) {
        pthread_join(m[i].thread, NULL);
        first = !i || m[i].start < first ? m[i].start : first;
        last = m[i].end > last ? m[i].end : last;
    }
    free(m);
    return started == n ? last - first : -1;
}

struct peak_job {
    const struct probe_peak *p;
    long iterations;
    double *rate; /* [threads] */
};

/* By processor time: a neighbour on the same core does not change what the core can do. */
static void peak_work(void *arg, int thread)
{
    struct peak_job *j = arg;
    double start = clock_thread(), ops = j->p->run(j->iterations);
    j->rate[thread] = ops / (clock_thread() - start);
}

int probe_peak_rate(const struct probe_peak *p, int n_threads, double *rate, struct err *e)
{
    struct peak_job j = {p, 1000, calloc((size_t)n_threads, sizeof(double))};
    int rc = j.rate ? 0 : err_memory(e);
    *rate = 0;
    for (double t = 0; !rc; j.iterations *= 4) {
        double start = clock_thread();
        p->run(j.iterations);
        t = clock_thread() - start;
        if (t >= 0.02) break; /* long enough to time */
    }
    for (int i = 0; i < PEAK_PASSES && !rc; i++) {
        double sum = 0;
        if (team_run(n_threads, peak_work, &j) < 0)
            rc = err_set(e, "cannot start %d threads", n_threads);
        for (int k = 0; k < n_threads && !rc; k++) sum += j.rate[k];
        if (sum > *rate) *rate = sum;
    }
    free(j.rate);
    return rc;
}

size_t probe_cache_bytes(void)
{
    /* what lscpu shows: the C library adds up the caches of a whole host */
    static const char path[] = "/sys/devices/system/cpu/cpu0/cache/index3/size";
    FILE *f = fopen(path, "r");
    double kib = 0;
    if (f && fscanf(f, "%lfK", &kib) != 1) kib = 0;
    if (f) fclose(f);
    return kib > 0 ? (size_t)(kib * 1024) : (size_t)32 << 20;
}

struct read_job {
    char *p;
    int n_pieces;
    _Atomic int next;
    _Atomic uint64_t sum;
};

static void touch_work(void *arg, int thread)
{
    struct read_job *j = arg;
    (void)thread;
    for (int i; (i = j->next++) < j->n_pieces;) memset(j->p + (size_t)i * PIECE, 1, PIECE);
}

static void read_work(void *arg, int thread)
{
    struct read_job *j = arg;
    uint64_t sum = 0;
    (void)thread;
    for (int i; (i = j->next++) < j->n_pieces;) sum += probe_read(j->p + (size_t)i * PIECE, PIECE);
    j->sum += sum;
}

static int read_rate(int n_threads, size_t bytes, int huge, double *rate, struct err *e)
{
    struct read_job j = {.n_pieces = (int)(bytes / PIECE)};
    j.p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (j.p == MAP_FAILED) return err_sys(e, "the bandwidth probe wants %zu bytes", bytes);
    madvise(j.p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); /* where the kernel knows it */
    double t = team_run(n_threads, touch_work, &j);
    *rate = 0;
    for (int i = 0; i < READ_PASSES && t >= 0; i++) {
        j.next = 0;
        t = team_run(n_threads, read_work, &j);
        double r = (double)j.n_pieces * PIECE / t;
        if (t > 0 && r > *rate) *rate = r;
    }
    munmap(j.p, bytes);
    return t < 0 ? err_set(e, "cannot start %d threads", n_threads) : 0;
}

int probe_bandwidth(int n_threads, double *rate, size_t *buffer_bytes, struct err *e)
{
    *buffer_bytes = 2 * probe_cache_bytes();
    if (*buffer_bytes < (size_t)256 << 20) *buffer_bytes = (size_t)256 << 20;
    *rate = 0;
    for (int huge = 0; huge < 2; huge++) {
        double r = 0;
        if (read_rate(n_threads, *buffer_bytes, huge, &r, e)) return -1;
        if (r > *rate) *rate = r;
    }
    return 0;
}

/* The peak of a variant's own instructions; NULL: the variant is not in the table. */
static const struct probe_peak *peak_of(const char *variant, enum probe_kind kind)
{
    static const struct {
        const char *variant, *fp32, *int8;
    } own[] = {{"ref", "plain", "plain"},  {"scalar", "plain", "plain"},
               {"avx2", "avx2", "avx2"},   {"avx512", "avx512", "avx512"},
               {"vnni", "avx512", "vnni"}, {"amx", "avx512", "amx"},
               {"neon", "neon", "neon"},   {"dotprod", "neon", "dotprod"},
               {"i8mm", "neon", "i8mm"}};
    const char *isa = NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(variant, own[i].variant)) isa = kind == PROBE_FP32 ? own[i].fp32 : own[i].int8;
    for (const struct probe_peak *p = probe_peaks; isa && p->isa; p++)
        if (p->kind == kind && !strcmp(p->isa, isa) && p->usable()) return p;
    return NULL;
}

int probe_limits_measure(struct probe_limits *l, const char *variant, int n_threads, struct err *e)
{
    const struct probe_peak *fp32 = peak_of(variant, PROBE_FP32),
                            *int8 = peak_of(variant, PROBE_INT8);
    size_t bytes;
    if (!fp32 || !int8)
        return err_set(e, "no probe measures the peak of the variant '%s'", variant);
    *l = (struct probe_limits){
        .variant = variant, .n_threads = n_threads, .bandwidth = l->bandwidth};
    return (!(l->bandwidth > 0) && probe_bandwidth(n_threads, &l->bandwidth, &bytes, e)) ||
                   probe_peak_rate(fp32, n_threads, &l->fp32, e) ||
                   probe_peak_rate(int8, n_threads, &l->int8, e)
               ? -1
               : 0;
}

struct probe_result {
    const char *what, *isa, *unit;
    int n_threads;
    size_t bytes; /* of the buffer that is read; 0: none */
    double rate;  /* units a second, 1e9 of which are printed as one */
};

static int report(struct out *out, const struct bench_facts *facts, const struct probe_result *r,
                  struct err *e)
{
    if (!out_is_md(out))
        return out_record(out,
                          json_pack("{s:s s:s s:s s:i s:I s:f s:s}", "cpu_info", facts->cpu_info,
                                    "probe", r->what, "isa", r->isa, "n_threads", r->n_threads,
                                    "buffer_bytes", (json_int_t)r->bytes, "rate", r->rate * 1e-9,
                                    "unit", r->unit),
                          e);
    if (out_row(out, e)) return -1;
    out_cell(out, 0, "%s", r->what);
    out_cell(out, 1, "%s", r->isa);
    out_cell(out, 2, "%d", r->n_threads);
    out_cell(out, 3, "%.1f", r->rate * 1e-9);
    out_cell(out, 4, "%s", r->unit);
    return 0;
}

int bench_probe(const struct bench_options *o, const struct bench_facts *facts, struct out *out,
                struct err *e)
{
    static const char *const heading[] = {"probe:", "isa:", "t", "rate", "unit:"};
    struct args_ints threads = o->threads;
    int all = pool_n_processors();
    if (threads.is_default) threads = (struct args_ints){all > 1 ? 2 : 1, 0, {1, all}};
    if (out_is_md(out)) {
        printf("%s, last-level cache %zu MiB\n\n", facts->cpu_info, probe_cache_bytes() >> 20);
        if (out_table(out, 5, heading, e)) return -1;
    }
    for (int i = 0; i < threads.n; i++) {
        struct probe_result r = {.what = "read", .isa = "-", .unit = "GB/s"};
        r.n_threads = threads.v[i] ? threads.v[i] : all;
        if (probe_bandwidth(r.n_threads, &r.rate, &r.bytes, e) || report(out, facts, &r, e))
            return -1;
    }
    for (const struct probe_peak *p = probe_peaks; p->isa; p++)
        for (int i = 0; i < threads.n && p->usable(); i++) {
            struct probe_result r = {.what = p->kind == PROBE_FP32 ? "fp32" : "int8",
                                     .isa = p->isa,
                                     .unit = "GOP/s"};
            r.n_threads = threads.v[i] ? threads.v[i] : all;
            if (probe_peak_rate(p, r.n_threads, &r.rate, e) || report(out, facts, &r, e))
                return -1;
        }
    if (out_is_md(out)) out_print(out, NULL);
    return 0;
}
