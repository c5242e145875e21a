/* e2e.c: whole programs against what transformers answers: converts checkpoints with the real
 * converter, runs the real opt4gptq-run on their token ids, compares logits and greedy tokens with
 * expected.safetensors. usage: e2e BUILD_DIR [SHARED_DIR]           the CPU backend; models/demo
 * and tests/data/gptq without SHARED_DIR
 *        e2e --hip LIBRARY BUILD_DIR [DIR..]  the GPU backend through that library ("default": what
 *                                             is installed), on DIR or the checkpoints in it
 *        e2e --hip-f16 LIBRARY BUILD_DIR [DIR..]  the same in f16 alone
 *        e2e --cpu BUILD_DIR DIR..            every instruction set of this machine
 *        e2e --auto BUILD_DIR [SHARED_DIR]    as the first, of the sets only the one that the CPU
 * backend takes Prints a table. A checkpoint may amplify roundings: fp16 logits may also be off by
 * ROUNDED times what the same roundings of activations, keys and values alone cost, on the CPU in
 * double precision. A row whose logits are further off must be as far off, but for that factor,
 * where the CPU rounds alike in another order: a rounding that makes a router choose another expert
 * does that. fp16 arithmetic may choose another greedy token where the two best logits are closer
 * than four times the bound; what comes after is not compared. */
#include "core/base/json.h"
#include "core/base/safetensors.h"
#include "tests/harness.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest |difference| allowed, in standard deviations of the expected logits. */
static const struct config {
    const char *name;
    double bound,
        trained_bound; /* of the fixtures, whose weights are random, and of trained models */
    const char *backend, *cpu, *act, *kv;
} cpu_configs[] = {{"ref", 1e-4, 1e-4, "cpu", "ref", "f32", "f32"},
                   {"scalar", 2e-4, 2e-4, "cpu", "scalar", "f32", "f32"},
                   {"auto", 2e-4, 2e-4, "cpu", "auto", "f32", "f32"},
                   {NULL, 0, 0, NULL, NULL, NULL, NULL}},
  control = {"cpu f16", 0, 0, "cpu", "ref", "f16", "f16"},
  other_orders[] = {{"cpu f16", 0, 0, "cpu", "auto", "f16", "f16"},
                    {"cpu f16, kv f32", 0, 0, "cpu", "ref", "f16", "f32"}},
  auto_configs[] = {{"auto", 2e-4, 2e-4, "cpu", "auto", "f32", "f32"},
                    {NULL, 0, 0, NULL, NULL, NULL, NULL}},
  gpu_configs[] = {{"f32", 2e-4, 2e-4, "hip", "auto", "f32", "f32"},
                   {"f16", 5e-3, 2e-2, "hip", "auto", "f16", "f16"},
                   {NULL, 0, 0, NULL, NULL, NULL, NULL}};

enum { MAX_IDS = 4096, MAX_CONFIGS = 16, MAX_ROWS = 16384 };
#define ROUNDED 1.5

static const struct config *configs = cpu_configs;
static struct config every_set[MAX_CONFIGS]; /* cpu_configs and the sets of find_sets() */
static const char *library;                  /* of the GPU, NULL: the installed one */

static const char *build_dir;
static char temp_dir[] = "/tmp/opt4gptq-e2e-XXXXXX";

static void check_model(int ok, const char *what, const char *name)
{
    check_that(ok, "%s: %s", name, what);
}

/* Runs a program; its exit code, its stdout in out [cap] (may be NULL). */
static int run(char *const argv[], char *out, size_t cap)
{
    struct process p;
    process_run(&p, argv, NULL);
    int code = p.code;
    if (out) snprintf(out, cap, "%s", p.out);
    if (code) printf("  %s", p.err);
    process_free(&p);
    return code;
}

static void *load(const struct st_file *s, const char *name, enum dtype want, size_t *n)
{
    struct err e;
    const struct st_tensor *t = st_find(s, name);
    if (!t || t->dtype != want) return NULL;
    void *p = malloc(t->bytes + 1);
    if (p && st_read(s, p, t->offset, t->bytes, &e)) free(p), p = NULL;
    *n = t->bytes / dtype_bytes(want);
    return p;
}

static void join_ids(const int64_t *id, size_t n, char sep, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < n && at + 24 < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%lld%c", (long long)id[i], sep);
    if (at) out[at - 1] = 0;
}

/* Of the rows of all prompts of a model: the largest |got - want| in standard deviations of the
 * prompt's logits; infinity when shapes differ or a value is not finite. */
struct distances {
    double row[MAX_ROWS];
    size_t n;
};

/* Appends the rows of a prompt, want [rows][n / rows], to d; returns the largest. */
static double distance(const float *want, size_t n, size_t rows, const char *path,
                       struct distances *d)
{
    struct st_file s;
    struct err e;
    size_t n_got = 0;
    if (st_open(&s, path, &e)) return INFINITY;
    float *got = load(&s, "logits", DT_F32, &n_got);
    st_close(&s);
    double mean = 0, var = 0, worst = 0;
    for (size_t i = 0; i < n; i++) mean += want[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (want[i] - mean) * (want[i] - mean) / (double)n;
    for (size_t r = 0; r < rows; r++) {
        double far = !got || n_got != n ? INFINITY : 0;
        for (size_t i = r * (n / rows); i < (r + 1) * (n / rows) && far < INFINITY; i++) {
            double x = fabs((double)got[i] - want[i]);
            far = x <= far ? far : x == x ? x : INFINITY;
        }
        far /= sqrt(var);
        if (far > worst) worst = far;
        if (d->n < MAX_ROWS) d->row[d->n++] = far;
    }
    free(got);
    return worst;
}

/* Variants whose fp32 kernels are those of another one: avx512, or neon. */
static int shares_fp32(const char *variant)
{
    return !strcmp(variant, "vnni") || !strcmp(variant, "amx") || !strcmp(variant, "dotprod");
}

/* cpu_configs and a configuration for each other instruction set that this machine has. */
static void find_sets(void)
{
    static char version[1024];
    char bin[512];
    const struct config *c = cpu_configs;
    int n = 0;
    for (; c->name; c++) every_set[n++] = *c;
    snprintf(bin, sizeof bin, "%s/opt4gptq-run", build_dir);
    char *argv[] = {bin, "--version", NULL};
    char *from = run(argv, version, sizeof version) ? NULL : strstr(version, "cpu (ref scalar");
    if (from) from[strcspn(from, ")")] = 0;
    /* "avx2 avx512 [not on this processor] vnni [not on this processor]" */
    for (char *at = from ? from + strlen("cpu (ref scalar") : NULL, *name;
         at && n < MAX_CONFIGS - 1 && (name = strtok_r(at, " \n", &at));) {
        if (*at == '[') {
            at = strchr(at, ']') ? strchr(at, ']') + 1 : NULL;
            continue;
        }
        if (shares_fp32(name)) continue;
        every_set[n] = every_set[n - 1];
        every_set[n].name = every_set[n].cpu = name;
        n++;
    }
    check_that(from != NULL, "--version lists the instruction sets");
}

/* longrope: the largest context that has the short frequencies; 0 for other models. */
static int short_context(const char *dir)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_t *c = json_load_file(path, 0, NULL), *scaling = json_object_get(c, "rope_scaling"), *n;
    if (!scaling) scaling = json_object_get(c, "rope_parameters");
    if (!(n = json_object_get(c, "original_max_position_embeddings")))
        n = json_object_get(scaling, "original_max_position_embeddings");
    int positions = json_object_get(scaling, "long_factor") ? (int)json_integer_value(n) : 0;
    json_decref(c);
    return positions;
}

/* 1 when the token in which two greedy answers first differ was a close call: by the CPU's logits,
 * the two best were closer than four times the bound. */
static int close_call(const char *model, const char *prompt, const char *greedy, const char *got,
                      double bound, char *context)
{
    static char ids[2 * MAX_IDS * 8];
    char bin[512], logits[512];
    size_t same = 0, n = 0;
    for (size_t i = 0; greedy[i] && greedy[i] == got[i]; i++)
        if (greedy[i] == ' ') same = i;
    int at = snprintf(ids, sizeof ids, "%s", prompt);
    if (same)
        snprintf(ids + at, sizeof ids - (size_t)at, ",%.*s", (int)same,
                 greedy); /* ids may be separated by spaces */
    snprintf(bin, sizeof bin, "%s/opt4gptq-run", build_dir);
    snprintf(logits, sizeof logits, "%s/close.safetensors", temp_dir);
    char *argv[] = {bin,   "-m",    (char *)model, "--prompt-ids", ids,    "--backend",
                    "cpu", "--act", "f32",         "--kv",         "f32",  "-n",
                    "0",   "-c",    context,       "--logits-out", logits, NULL};
    struct st_file s;
    struct err e;
    if (run(argv, NULL, 0) || st_open(&s, logits, &e)) return 0;
    const struct st_tensor *t = st_find(&s, "logits");
    size_t vocab = t ? (size_t)t->shape[1] : 0;
    float *x = load(&s, "logits", DT_F32, &n);
    st_close(&s);
    unlink(logits);
    if (!x || n < vocab) return 0;
    double best = -INFINITY, second = -INFINITY, mean = 0, var = 0;
    for (size_t i = n - vocab; i < n; i++) {
        if (x[i] > best) second = best, best = x[i];
        else if (x[i] > second) second = x[i];
        mean += x[i] / (double)vocab;
    }
    for (size_t i = n - vocab; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)vocab;
    free(x);
    return best - second < 4 * bound * sqrt(var);
}

/* A converted model and what transformers answers. */
struct subject {
    const char *name, *model; /* model: path of the model file */
    struct st_file want;
    int trained;
    int short_context; /* answers of up to so many tokens have longrope's short frequencies */
};

/* The program for one configuration: plain C, where fmaf() is a call and takes most of the time, is
 * compiled for this processor (tests.mk), but for a quarter of the fixtures. */
static void program_of(const struct subject *m, const struct config *r, char bin[512])
{
    unsigned sum = 0;
    for (const char *p = m->name; *p; p++) sum += (unsigned char)*p;
    snprintf(bin, 512, "%s/tests/bin/run-native", build_dir);
    if ((!m->trained && sum % 4 == 0) || strcmp(r->cpu, "scalar") || access(bin, X_OK))
        snprintf(bin, 512, "%s/opt4gptq-run", build_dir);
}

/* All prompts of one model in one configuration: logits of the prompt, then the greedy
 * continuation. */
static double test_config(const struct subject *m, const struct config *r, double bound,
                          int *greedy_ok, struct distances *rows)
{
    const struct st_file *want = &m->want;
    const char *name = m->name, *model = m->model;
    char context[16];
    static char ids[MAX_IDS * 8], greedy[MAX_IDS * 8], got[MAX_IDS * 8];
    char bin[512], logits[512], count[16], key[32];
    double worst = 0;
    program_of(m, r, bin);
    snprintf(logits, sizeof logits, "%s/logits.safetensors", temp_dir);
    *greedy_ok = 1;
    rows->n = 0;
    for (int i = 0;; i++) {
        size_t n = 0, n_greedy = 0, n_logits = 0;
        snprintf(key, sizeof key, "ids.%d", i);
        int64_t *prompt = load(want, key, DT_I64, &n);
        if (!prompt) return i ? worst : INFINITY;
        snprintf(key, sizeof key, "greedy.%d", i);
        int64_t *expected = load(want, key, DT_I64, &n_greedy);
        snprintf(key, sizeof key, "logits.%d", i);
        float *expected_logits = load(want, key, DT_F32, &n_logits);
        join_ids(prompt, n, ',', ids, sizeof ids);
        join_ids(expected, n_greedy, ' ', greedy, sizeof greedy);
        snprintf(count, sizeof count, "%zu", n_greedy);
        snprintf(context, sizeof context, "%d",
                 n + n_greedy <= (size_t)m->short_context ? m->short_context : 0);
        char *argv[] = {bin,
                        "-m",
                        (char *)model,
                        "--prompt-ids",
                        ids,
                        "--temp",
                        "0",
                        "--ignore-eos",
                        "--format",
                        "ids",
                        "-n",
                        count,
                        "-c",
                        context,
                        "--logits-out",
                        logits,
                        "--backend",
                        (char *)r->backend,
                        "--cpu",
                        (char *)r->cpu,
                        "--act",
                        (char *)r->act,
                        "--kv",
                        (char *)r->kv,
                        library ? "--hip-library" : NULL,
                        (char *)library,
                        NULL};
        int rc = run(argv, got, sizeof got);
        got[strcspn(got, "\n")] = 0;
        double d = rc ? INFINITY : distance(expected_logits, n_logits, n, logits, rows);
        if (d > worst) worst = d;
        if (rc || strcmp(got, greedy)) {
            int close = !rc && !strcmp(r->act, "f16") &&
                        close_call(model, ids, greedy, got, bound, context);
            if (*greedy_ok) *greedy_ok = close ? 2 : 0;
            if (!rc && !close && r->bound > 0)
                printf("  %s %s prompt %d: greedy %s\n  %*s expected: %s\n", name, r->name, i, got,
                       (int)strlen(name), "", greedy);
        }
        unlink(logits);
        free(prompt);
        free(expected);
        free(expected_logits);
    }
}

/* The largest of the rows that are off by more than the bound and, but for ROUNDED, further than
 * where the CPU rounds alike in another order; 0: none. */
static double unexplained(const struct subject *m, const struct distances *have, double bound)
{
    static struct distances other;
    static double most[MAX_ROWS];
    double worst = 0;
    int greedy_ok, rows = 0;
    memset(most, 0, sizeof most);
    for (size_t k = 0; k < sizeof other_orders / sizeof *other_orders; k++) {
        test_config(m, &other_orders[k], bound, &greedy_ok, &other);
        for (size_t i = 0; other.n == have->n && i < have->n; i++)
            if (isfinite(other.row[i])) most[i] = fmax(most[i], other.row[i]);
    }
    for (size_t i = 0; i < have->n; i++) {
        if (have->row[i] <= bound) continue;
        if (have->row[i] <= ROUNDED * most[i]) rows++;
        else worst = fmax(worst, have->row[i]);
    }
    printf("  (%d rows as other orders of rounding have them)", rows);
    return worst;
}

/* Converts; 0, or the exit code, after which it is known whether the family was refused by name. */
static int convert(const char *dir, const char *model, int *by_name)
{
    char bin[512], gguf[2048];
    struct process p;
    snprintf(bin, sizeof bin, "%s/opt4gptq-convert", build_dir);
    snprintf(gguf, sizeof gguf, "%s/model.gguf", dir);
    char *argv[] = {bin, access(gguf, R_OK) ? (char *)dir : gguf, (char *)model, NULL};
    process_run(&p, argv, NULL);
    int code = p.code;
    *by_name = code && strstr(p.err, "architecture '") && strstr(p.err, "is not supported");
    if (code && !*by_name) printf("  %s", p.err);
    process_free(&p);
    return code;
}

static void test_checkpoint(const char *name, const char *dir, int trained)
{
    char path[2048], model[512], bin[512];
    struct subject m = {
        .name = name, .model = model, .trained = trained, .short_context = short_context(dir)};
    static struct distances rows;
    struct err e;
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    if (access(path, R_OK)) return;
    snprintf(bin, sizeof bin, "%s/opt4gptq-convert", build_dir);
    snprintf(model, sizeof model, "%s/model.safetensors", temp_dir);
    int by_name = 0;
    if (convert(dir, model, &by_name)) {
        if (by_name && strstr(dir, "/newest/")) skip("%s: its family is refused by name", name);
        else check_model(0, "does not convert", name);
        return;
    }
    char *verify[] = {bin, "--verify", model, NULL};
    check_model(run(verify, NULL, 0) == 0, "converted file does not verify", name);
    if (st_open(&m.want, path, &e)) {
        check_model(0, e.msg, name);
        return;
    }
    printf("%-24s", name);
    for (const struct config *r = configs; r->name; r++) {
        int greedy_ok;
        double bound = trained ? r->trained_bound : r->bound;
        if (!strcmp(r->act, "f16")) {
            double alone = test_config(&m, &control, bound, &greedy_ok, &rows);
            check_model(isfinite(alone), "the reference in fp16 fails", name);
            if (isfinite(alone) && ROUNDED * alone > bound)
                bound = ROUNDED * alone, printf("  rounded %.1e", alone);
        }
        double d = test_config(&m, r, bound, &greedy_ok, &rows);
        printf("  %s %.1e %s", r->name, d,
               greedy_ok == 1 ? "same"
               : greedy_ok    ? "same up to a close call"
                              : "DIFFERS");
        if (d > bound && isfinite(d) && !strcmp(r->act, "f16"))
            d = unexplained(&m, &rows, bound);
        fflush(stdout);
        check_model(d <= bound, "logits out of bound", name);
        check_model(greedy_ok, "greedy tokens differ", name);
    }
    printf("\n");
    st_close(&m.want);
    unlink(model);
}

static int by_string(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether a path of so many characters is a folder called "models": the checkpoints in it are
 * trained. */
static int is_models(const char *path, size_t length)
{
    return length >= 6 && !strncmp(path + length - 6, "models", 6) &&
           (length == 6 || path[length - 7] == '/');
}

/* The checkpoints in a folder. */
static void test_folder(const char *folder)
{
    size_t length = strlen(folder);
    int trained = is_models(folder, length);
    char *names[256], path[1024];
    int n = 0;
    DIR *d = opendir(folder);
    if (!d) {
        skip("%s: not there", folder);
        return;
    }
    for (struct dirent *f; (f = readdir(d)) && n < 256;)
        if (f->d_name[0] != '.') names[n++] = strdup(f->d_name);
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_string);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        test_checkpoint(names[i], path, trained);
        free(names[i]);
    }
}

/* A checkpoint, or all in a folder. */
static void test_path(const char *path)
{
    char expected[2048];
    const char *slash = strrchr(path, '/');
    snprintf(expected, sizeof expected, "%s/expected.safetensors", path);
    if (access(expected, R_OK)) test_folder(path);
    else test_checkpoint(path, path, slash && is_models(path, (size_t)(slash - path)));
}

/* few: the sets for trained models; many: for what is small. */
static void test_all(const char *shared, const struct config *few, const struct config *many)
{
    char path[512];
    configs = few;
    test_folder("models");
    snprintf(path, sizeof path, "%s/fixtures/gptq", shared);
    test_folder(path);
    configs = many;
    test_folder("tests/data/gptq");
    snprintf(path, sizeof path, "%s/fixtures/newer/gptq", shared);
    test_folder(path);
    snprintf(path, sizeof path, "%s/fixtures/newest", shared);
    test_folder(path);
    configs = few;
    snprintf(path, sizeof path, "%s/models", shared);
    test_folder(path);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(temp_dir)) return 2;
    int halves = argc > 3 && !strcmp(argv[1], "--hip-f16"),
        gpu = halves || (argc > 3 && !strcmp(argv[1], "--hip")),
        cpu = argc > 3 && !strcmp(argv[1], "--cpu"),
        only_auto = argc > 2 && !strcmp(argv[1], "--auto");
    build_dir = argv[gpu ? 3 : cpu || only_auto ? 2 : 1];
    if (gpu && strcmp(argv[2], "default")) library = argv[2];
    if (!gpu) find_sets();
    printf(
        "largest |logit difference| to transformers in standard deviations, and greedy tokens\n");
    if (gpu || cpu) {
        configs = gpu ? gpu_configs + halves : every_set;
        for (int i = gpu ? 4 : 3; i < argc; i++) test_path(argv[i]);
    } else {
        const char *shared = argc > 2 + only_auto ? argv[2 + only_auto] : "../shared";
        test_all(shared, only_auto ? auto_configs : cpu_configs,
                 only_auto ? auto_configs : every_set);
    }
    rmdir(temp_dir);
    return report("e2e");
}
