/* unit_core.c: number formats, elementary functions, safetensors headers, stop strings, thread
 * pool, options. */
#include "backend-cpu/cpu_math.h"
#include "cli/options.h"
#include "core/base/json.h"
#include "core/base/pool.h"
#include "core/base/printable.h"
#include "core/base/safetensors.h"
#include "core/step/sincos.h"
#include "core/text/stop.h"

#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void halves_survive_a_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f32_from_f16((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) assert_true(f != f);
        else assert_int_equal(f16_from_f32(f), h);
    }
    assert_true(f32_from_f16(0x3555) == 0x1.554p-2f);
    assert_true(f32_from_f16(0x0001) == 0x1p-24f);
}

/* The nearer neighbour is the result, the even one of a tie. */
static void rounding_to_half_is_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = f32_from_f16((uint16_t)h), b = f32_from_f16((uint16_t)(h + 1)),
              middle = (a + b) / 2;
        assert_int_equal(f16_from_f32(middle), h % 2 ? h + 1 : h);
        assert_int_equal(f16_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(f16_from_f32(-nextafterf(middle, 0)), h | 0x8000);
    }
    assert_int_equal(f16_from_f32(65519.0f), 0x7bff);
    assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(f16_from_f32(1e30f), 0x7c00);
}

static void exp_is_within_two_ulp(void **state)
{
    (void)state;
    for (double x = -86.9; x < 87.9; x += 0.00137) {
        double want = exp((double)(float)x), got = cpu_expf((float)x);
        assert_true(fabs(got - want) <= 2.5 * 0x1p-24 * want);
    }
    assert_true(cpu_expf(0) == 1);
    assert_true(cpu_expf(-INFINITY) == 0);
    assert_true(cpu_expf(-1000) == 0);
    assert_true(isnan(cpu_expf(NAN)));
}

static void sincos_are_correctly_rounded_or_nearly(void **state)
{
    (void)state;
    for (int i = 0; i < 400000; i++) {
        float angle = (float)((i % 2 ? -1 : 1) *
                              pow(1.00004, i)); /* up to 9e6: positions beyond any context */
        float s, c;
        step_sincos(angle, &s, &c);
        assert_true(fabs(s - sin((double)angle)) <= 0x1p-25 * 1.001);
        assert_true(fabs(c - cos((double)angle)) <= 0x1p-25 * 1.001);
    }
}

/* --- safetensors */
static int open_header(const char *json, size_t data_bytes, char *message)
{
    char path[] = "/tmp/opt4gptq-unit-XXXXXX";
    int fd = mkstemp(path);
    uint64_t n = strlen(json);
    assert_int_equal(write(fd, &n, 8), 8);
    assert_int_equal(write(fd, json, n), (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)(8 + n + data_bytes)), 0);
    close(fd);
    struct st_file s;
    struct err e = {0};
    int rc = st_open(&s, path, &e);
    if (!rc) st_close(&s);
    strcpy(message, e.msg);
    unlink(path);
    return rc;
}

/* What a file has by now is read, byte by byte as well; one that has become shorter is an error. */
static void reads_end_where_the_file_does(void **state)
{
    char path[] = "/tmp/opt4gptq-unit-XXXXXX", byte;
    const char json[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}abc";
    const uint64_t n = sizeof json - 4;
    struct st_file s;
    struct err e = {0};
    char got[4] = "";
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, &n, 8), 8);
    assert_int_equal(write(fd, json, n + 3), (ssize_t)n + 3);
    assert_int_equal(st_open(&s, path, &e), 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(st_read(&s, &byte, 8 + n + i, 1, &e), 0);
        assert_int_equal(byte, "abc"[i]);
    }
    assert_int_equal(ftruncate(fd, (off_t)(8 + n + 2)), 0);
    assert_int_equal(st_read(&s, got, 8 + n, 3, &e), -1);
    assert_non_null(strstr(e.msg, "while it is being read"));
    st_close(&s);
    close(fd);
    unlink(path);
}

static void hostile_headers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says; /* NULL: accepted */
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[0],\"data_offsets\":[16,16]}"
         "}",
         NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,20]}}",
         "its shape and dtype need 16"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", "truncated"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[17],\"data_offsets\":[0,17]}}", "truncated"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[16,17]}}", "truncated"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "bad data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[3,5]}}",
         "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,4],\"data_offsets\":[0,16]}}", NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]}}", "bad data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}",
         "shape overflows"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}",
         "not a list of sizes"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[4],\"data_offsets\":[0,16]}}",
         "unknown dtype 'F33'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}",
         "7 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"U8\","
         "\"shape\":[2],\"data_offsets\":[8,10]}}",
         "overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"U8\","
         "\"shape\":[4],\"data_offsets\":[4,8]}}",
         "twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", "'a'"},
        {"{\"__metadata__\":{\"x\":1}}", "'x'"},
        {"[1,2]", "not a JSON object"},
        {"{\"a\":", "not JSON"},
    };
    char message[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = open_header(cases[i].json, 16, message);
        assert_int_equal(rc, cases[i].says ? -1 : 0);
        if (cases[i].says && !strstr(message, cases[i].says))
            fail_msg("case %zu: '%s' does not say '%s'", i, message, cases[i].says);
        if (cases[i].says) assert_non_null(strstr(message, "/tmp/opt4gptq-unit-"));
    }
}

/* Files too short for the length field, and header lengths beyond the file: 8 bytes and N more. */
static void a_header_ends_with_its_file(void **state)
{
    (void)state;
    const struct {
        uint64_t length, n;
        const char *says;
    } cases[] = {{2, 2, NULL},
                 {3, 2, "its header would be 3 bytes"},
                 {2, 1, "its header would be 2"},
                 {UINT64_MAX, 2, "its header"},
                 {100000001, 100000001, "its header would be 100000001"},
                 {2, (uint64_t)-1, "only 7 bytes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/opt4gptq-unit-XXXXXX";
        struct st_file s;
        struct err e = {0};
        int fd = mkstemp(path), rc;
        assert_int_equal(write(fd, &cases[i].length, 8), 8);
        assert_int_equal(write(fd, "{}", 2), 2);
        assert_int_equal(ftruncate(fd, (off_t)(8 + cases[i].n)), 0);
        close(fd);
        rc = st_open(&s, path, &e);
        if (!rc) st_close(&s);
        unlink(path);
        assert_int_equal(rc, cases[i].says ? -1 : 0);
        if (cases[i].says && !strstr(e.msg, cases[i].says)) fail_msg("case %zu: '%s'", i, e.msg);
    }
}

/* --- stop strings */
/* What Python's json writes and JSON has not is read as text. */
static void numbers_of_python_are_read_as_text(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\": Infinity, \"b\": [-Infinity,NaN, 1.5], \"Infinity\": \"NaN, \\\" NaN\", "
        "\"c\": 1000000000000000019884624838656, \"d\": -1e999, \"e\": 9223372036854775807, "
        "\"f\": [\"x\", NaN], \"g\":NaN}";
    struct err e = {0};
    assert_null(json_read(text, sizeof text - 1, 0, NULL, &e));
    json_t *j = json_read_python(text, sizeof text - 1, 0, NULL, &e);
    assert_non_null(j);
    char *have = json_dumps(j, JSON_COMPACT | JSON_PRESERVE_ORDER);
    assert_string_equal(have, "{\"a\":\"Infinity\",\"b\":[\"-Infinity\",\"NaN\",1.5],"
                              "\"Infinity\":\"NaN, \\\" NaN\","
                              "\"c\":\"1000000000000000019884624838656\",\"d\":\"-1e999\","
                              "\"e\":9223372036854775807,\"f\":[\"x\",\"NaN\"],\"g\":\"NaN\"}");
    free(have);
    json_decref(j);
    static const char *const bad[] = {"{\"a\": Nan}",      "{\"a\": NaN1}", "{NaN: 1}",
                                      "{\"a\": \"NaN",     "{\"a\": NaN",   "NaN",
                                      "{\"a\": +Infinity}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(json_read_python(bad[i], strlen(bad[i]), 0, NULL, &e));
}

static void strangers_cannot_move_a_terminal(void **state)
{
    (void)state;
    char text[] = "a\x1b[2J\n\x7f \xc2\x9b"
                  "31m \xe2\x80\xae \xe2\x81\xa7 \xc3\xa9 \xe2\x82\xac";
    err_printable(text);
    assert_string_equal(text, "a?[2J?? ??31m ??? ??? \xc3\xa9 \xe2\x82\xac");
}

static void feed(const char *const *stops, int n, const char *const *pieces, const char *want,
                 int want_stopped)
{
    struct stop s;
    struct err e;
    char got[256] = "";
    const char *out;
    size_t n_out;
    int stopped = 0;
    assert_int_equal(stop_open(&s, stops, n, &e), 0);
    for (int i = 0; pieces[i] && !stopped; i++) {
        stopped = stop_push(&s, pieces[i], strlen(pieces[i]), &out, &n_out, &e);
        strncat(got, out, n_out);
    }
    if (!stopped) {
        stop_flush(&s, &out, &n_out);
        strncat(got, out, n_out);
    }
    stop_close(&s);
    assert_string_equal(got, want);
    assert_int_equal(stopped, want_stopped);
}

/* The first piece of a text may have any length. */
static void stop_strings_in_long_pieces(void **state)
{
    static const char *const stops[] = {"END"};
    char text[1100];
    (void)state;
    for (size_t n = 1; n <= 1000; n++) {
        struct stop s;
        struct err e;
        const char *out;
        size_t n_out;
        memset(text, 'x', n);
        memcpy(text + n, "EN", 2);
        assert_int_equal(stop_open(&s, stops, 1, &e), 0);
        assert_int_equal(stop_push(&s, text, n + 2, &out, &n_out, &e), 0);
        assert_int_equal(n_out, n);
        assert_memory_equal(out, text, n);
        assert_int_equal(stop_push(&s, "D", 1, &out, &n_out, &e), 1);
        assert_int_equal(n_out, 0);
        stop_close(&s);
    }
}

static void stop_strings_straddle_pieces(void **state)
{
    (void)state;
#define P (const char *const[])
    feed(P{"END"}, 1, P{"abc", "E", "N", "D", "x", NULL}, "abc", 1);
    feed(P{"END"}, 1, P{"abcEN", "Ex", NULL}, "abcENEx", 0);
    feed(P{"END"}, 1, P{"EEND", NULL}, "E", 1);
    feed(P{"aab"}, 1, P{"aa", "a", "b", NULL}, "a", 1);
    feed(P{"END", "."}, 2, P{"one", ". two END", NULL}, "one", 1);
    feed(P{"END"}, 1, P{"half EN", NULL}, "half EN", 0);
    feed(NULL, 0, P{"text", NULL}, "text", 0);
    feed(NULL, 0, P{"", "text", NULL}, "text", 0);
    struct stop s;
    struct err e;
    assert_int_equal(stop_open(&s, P{""}, 1, &e), -1);
}

/* --- pool */
struct counted {
    _Atomic int times[1000];
    _Atomic int bad_thread;
    int n_threads;
};

static void count_task(void *arg, int task, int thread)
{
    struct counted *c = arg;
    atomic_fetch_add(&c->times[task], 1);
    if (thread < 0 || thread >= c->n_threads) atomic_store(&c->bad_thread, 1);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    struct err e;
    for (int threads = 1; threads <= 5; threads += 2) {
        struct pool *p;
        static struct counted c;
        assert_int_equal(pool_open(&p, threads, &e), 0);
        for (int round = 0; round < 300; round++) {
            int n = round % 7 ? round * 3 : round / 7;
            memset(&c, 0, sizeof c);
            c.n_threads = threads;
            pool_run(p, n, count_task, &c);
            for (int i = 0; i < 1000; i++) assert_int_equal(c.times[i], i < n);
            assert_int_equal(c.bad_thread, 0);
            if (round % 50 == 0) usleep(2000); /* long enough that the workers sleep */
        }
        pool_close(p);
    }
}

struct held {
    _Atomic int n_done, by_caller;
    int n;
};

/* The caller's first task lasts until all others are done. */
static void hold_task(void *arg, int task, int thread)
{
    struct held *h = arg;
    (void)task;
    if (thread == 0 && !h->by_caller++)
        while (h->n_done < h->n - 1) sched_yield();
    h->n_done++;
}

static void the_share_of_a_slow_thread_goes_to_others(void **state)
{
    (void)state;
    struct err e;
    struct pool *p;
    struct pool_watch w = {0};
    struct held h = {.n = 64};
    assert_int_equal(pool_open(&p, 4, &e), 0);
    pool_watch(p, &w);
    for (int round = 0; round < 1000 && h.by_caller != 1; round++) {
        h = (struct held){.n = 64};
        pool_run(p, h.n, hold_task, &h);
        assert_int_equal(h.n_done, h.n);
        assert_true(h.by_caller <= 1); /* 0: the others had been faster from the start */
    }
    assert_int_equal(h.by_caller, 1);
    assert_true(w.wall >= w.slowest && w.slowest >= w.mean && w.mean > 0);
    pool_close(p);
}

enum { USE_THREADS = 4, USE_ROUNDS = 2000 };
struct used {
    _Atomic int n_tasks[USE_THREADS]; /* of the operation */
    _Atomic int begun;
    int together; /* tasks that begin before any ends; 0: each ends at once */
};

static void use_task(void *arg, int task, int thread)
{
    struct used *u = arg;
    (void)task;
    u->n_tasks[thread]++;
    for (u->begun++; u->begun < u->together;) sched_yield();
}

/* A thread that is no longer used takes part in at most one operation, into which it came late;
 * used again, all work at once. */
static void threads_may_be_left_out(void **state)
{
    (void)state;
    struct err e;
    struct pool *p;
    assert_int_equal(pool_open(&p, USE_THREADS, &e), 0);
    for (int n = USE_THREADS; n >= 1; n--) {
        int late[USE_THREADS] = {0};
        pool_use(p, n);
        for (int round = 0; round < USE_ROUNDS; round++) {
            struct used u = {.together = 0};
            int sum = 0;
            pool_run(p, 13, use_task, &u);
            for (int i = 0; i < USE_THREADS; i++) sum += u.n_tasks[i], late[i] += u.n_tasks[i] > 0;
            assert_int_equal(sum, 13);
        }
        for (int i = n; i < USE_THREADS; i++) assert_true(late[i] <= 1);
        for (int i = 0; i <= USE_THREADS; i++)
            assert_int_equal(pool_first_task(p, 13, i),
                             i < n ? i * (13 / n) + (i < 13 % n ? i : 13 % n) : 13);
    }
    pool_use(p, USE_THREADS);
    struct used u = {.together = USE_THREADS};
    pool_run(p, USE_THREADS, use_task, &u);
    for (int i = 0; i < USE_THREADS; i++) assert_int_equal(u.n_tasks[i], 1);
    pool_use(p, 2);
    pool_close(p); /* with threads that sleep */
}

/* --- options */
static int parse(struct options *o, struct err *e, char **argv)
{
    int n = 0;
    while (argv[n]) n++;
    return options_parse(o, n, argv, e);
}

static void options_are_checked(void **state)
{
    (void)state;
    struct options o;
    struct err e;
#define ARGV(...) (char *[]){"opt4gptq-run", __VA_ARGS__, NULL}
    assert_int_equal(parse(&o, &e,
                           ARGV("-m", "x", "-n", "5", "--temp", "0.5", "--stop", "a", "--stop", "b",
                                "-s", "18446744073709551615")),
                     0);
    assert_string_equal(o.model, "x");
    assert_int_equal(o.n_predict, 5);
    assert_true(o.sampling.temperature == 0.5);
    assert_int_equal(o.stop.n, 2);
    assert_true(o.sampling.seed.value == UINT64_MAX && !o.sampling.seed.is_random);
    char **const bad[] = {
        ARGV("-n", "x"),        ARGV("-n", "-2"),   ARGV("--temp", "nan"),
        ARGV("--top-p", "1.5"), ARGV("--nonsense"), ARGV("-m"),
        ARGV("word"),           ARGV("-s", "-2"),   ARGV("-n", "99999999999999999999"),
        ARGV("--stop", ""),     ARGV("-t", "1.5")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.msg[0] = 0;
        assert_int_equal(parse(&o, &e, bad[i]), -1);
        assert_true(e.msg[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_survive_a_round_trip),
        cmocka_unit_test(rounding_to_half_is_to_nearest_even),
        cmocka_unit_test(exp_is_within_two_ulp),
        cmocka_unit_test(sincos_are_correctly_rounded_or_nearly),
        cmocka_unit_test(reads_end_where_the_file_does),
        cmocka_unit_test(hostile_headers_are_refused_by_name),
        cmocka_unit_test(a_header_ends_with_its_file),
        cmocka_unit_test(numbers_of_python_are_read_as_text),
        cmocka_unit_test(strangers_cannot_move_a_terminal),
        cmocka_unit_test(stop_strings_in_long_pieces),
        cmocka_unit_test(stop_strings_straddle_pieces),
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(the_share_of_a_slow_thread_goes_to_others),
        cmocka_unit_test(threads_may_be_left_out),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
