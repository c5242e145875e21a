/* drafts.c: the layer that drafts tokens: kept by the converter, left out with --no-mtp, and its
 * logits and its chain of three tokens those that the checkpoint's expected.safetensors has, on
 * every CPU variant, or on a GPU. usage: drafts BUILD_DIR [SHARED_DIR] [--hip LIBRARY]. */
#include "backend-cpu/cpu.h"
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "bench/batches.h"
#include "core/base/safetensors.h"
#include "core/run/forward.h"
#include "engine/backends.h"
#include "tests/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES = 16, ROWS = PAGES * KV_PAGE, CHAIN = 3 };

static const char *build;
static char file[64];
static struct model model;

/* ---- files */

static void *load(const struct st_file *s, const char *name, int i, enum dtype want, size_t *n)
{
    char key[64];
    struct err e;
    snprintf(key, sizeof key, "%s.%d", name, i);
    const struct st_tensor *t = st_find(s, key);
    if (!t || t->dtype != want) return NULL;
    void *p = malloc(t->bytes + 1);
    if (p && st_read(s, p, t->offset, t->bytes, &e)) free(p), p = NULL;
    *n = t->bytes / dtype_bytes(want);
    return p;
}

/* A prompt with its greedy answer, and the logits of the draft layer behind each of its tokens;
 * chain: what the layer goes on with behind the last one, or NULL. */
struct prompt {
    int64_t *ids, *greedy, *chain;
    float *logits; /* [n][vocab] */
    size_t n;
};

static int read_prompt(const struct st_file *s, int i, struct prompt *p)
{
    size_t n_logits, n;
    *p = (struct prompt){.n = 0};
    if (!(p->ids = load(s, "ids", i, DT_I64, &p->n))) return 0;
    p->greedy = load(s, "greedy", i, DT_I64, &n);
    p->chain = load(s, "mtp_draft", i, DT_I64, &n);
    p->logits = load(s, "mtp_logits", i, DT_F32, &n_logits);
    return p->greedy && p->logits && n_logits == p->n * (size_t)model.config.vocab;
}

static void free_prompt(struct prompt *p)
{
    free(p->ids);
    free(p->greedy);
    free(p->chain);
    free(p->logits);
}

/* ---- steps */

struct steps {
    struct forward f;
    struct batch b;
    struct page_map map;
    int32_t table[PAGES], memory[8192];
    float *logits; /* [rows][vocab] of the draft layer */
};

static int open_steps(struct steps *s, const struct backend *ops, const char *variant,
                      const char *own, enum act act, struct err *e)
{
    const struct forward_options o = {.variant = variant,
                                      .n_threads = 2,
                                      .own = own,
                                      .act = act,
                                      .kv = act == ACT_F32 ? KV_F32 : KV_INT8,
                                      .n_pages = PAGES,
                                      .max_rows = ROWS,
                                      .max_logits = ROWS,
                                      .max_seqs = 1,
                                      .max_pages = PAGES,
                                      .drafts = 1};
    for (int i = 0; i < PAGES; i++) s->table[i] = i;
    s->map = (struct page_map){PAGES, PAGES, s->table};
    s->logits = malloc((size_t)ROWS * (size_t)model.config.vocab * sizeof *s->logits);
    return s->logits ? forward_open(&s->f, &model, ops, &o, e) : err_memory(e);
}

/* One span of the sequence with all logits. */
static struct batch *rows_of(struct steps *s, int pos0, int rows)
{
    struct batch *b = &s->b;
    CHECK(batch_ints(ROWS, 1, ROWS, PAGES) <= 8192);
    memset(b, 0, sizeof *b);
    batch_place(b, s->memory, ROWS, 1, ROWS, PAGES);
    batch_set(b, &s->map, &(struct span){0, pos0, rows}, 1, 0);
    for (int i = 0; i < rows; i++) b->logit_row[b->n_logits++] = i;
    return b;
}

static int take_logits(struct steps *s, int first, int n, struct err *e)
{
    const struct backend *ops = s->f.be->ops;
    size_t row = (size_t)model.config.vocab;
    ops->download(s->f.be, s->logits + (size_t)first * row,
                  s->f.memory.buffer[s->f.plan.draft_logits], (size_t)n * row * sizeof(float));
    return ops->sync(s->f.be, e);
}

/* The prompt in two chunks, each followed by its drafting step, then two drafts behind the first.
 */
static int run(struct steps *s, const struct prompt *p, int32_t chain[CHAIN], struct err *e)
{
    int cut = (int)p->n / 2, from[] = {0, cut}, n[] = {cut, (int)p->n - cut};
    for (int k = 0; k < 2; k++) {
        if (!n[k]) continue;
        struct batch *b = rows_of(s, from[k], n[k]);
        for (int i = 0; i < n[k]; i++) b->token[i] = (int32_t)p->ids[from[k] + i];
        if (forward_step(&s->f, b, NULL, e)) return -1;
        for (int i = 0; i < n[k]; i++) {
            size_t at = (size_t)(from[k] + i) + 1;
            b->token[i] = (int32_t)(at < p->n ? p->ids[at] : p->greedy[0]);
        }
        if (forward_draft(&s->f, 0, b, e) || take_logits(s, from[k], n[k], e)) return -1;
        chain[0] = s->f.draft_best[n[k] - 1];
        if (k && n[k] > 1) { /* its hidden row has to be the first */
            b->logit_row[0] = n[k] - 1;
            b->n_logits = 1;
            if (forward_draft(&s->f, 0, b, e)) return -1;
        }
    }
    for (int k = 1; k < CHAIN; k++) {
        struct batch *b = rows_of(s, (int)p->n - 1 + k, 1);
        b->token[0] = chain[k - 1];
        if (forward_draft(&s->f, 1, b, e)) return -1;
        chain[k] = s->f.draft_best[0];
    }
    return 0;
}

/* The largest difference in standard deviations of the prompt's logits. */
static double distance(const float *want, const float *got, size_t n)
{
    double mean = 0, var = 0, worst = 0;
    for (size_t i = 0; i < n; i++) mean += want[i] / (double)n;
    for (size_t i = 0; i < n; i++) var += (want[i] - mean) * (want[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double x = fabs((double)got[i] - want[i]);
        if (!(x <= worst)) worst = x == x ? x : INFINITY;
    }
    return worst / sqrt(var);
}

/* ---- configurations */

static void compare(const struct st_file *want, const char *name, const char *variant,
                    const struct backend *ops, const char *own, double bound)
{
    static struct steps s;
    struct prompt p;
    struct err e;
    int n = 0, n_chains = 0;
    double worst = 0;
    if (open_steps(&s, ops, variant, own, ACT_F32, &e)) {
        check_that(0, "%s, %s: %s", name, variant, e.msg);
        return;
    }
    for (int i = 0; read_prompt(want, i, &p); i++, n++) {
        int32_t chain[CHAIN];
        if (run(&s, &p, chain, &e)) check_that(0, "%s, %s: %s", name, variant, e.msg);
        double d = distance(p.logits, s.logits, p.n * (size_t)model.config.vocab);
        if (d > worst) worst = d;
        for (int k = 0; k < CHAIN && p.chain; k++, n_chains++)
            check_that(chain[k] == p.chain[k], "%s, %s: prompt %d: draft %d is %d, not %d", name,
                       variant, i, k, chain[k], (int)p.chain[k]);
        free_prompt(&p);
    }
    free_prompt(&p);
    check_that(n > 0 && worst <= bound, "%s, %s: %d prompts, largest error %.2g of at most %.2g",
               name, variant, n, worst, bound);
    printf("  %-16s %-10s %2d prompts, %2d drafts, largest error %.1e\n", name, variant, n,
           n_chains, worst);
    free(s.logits);
    forward_close(&s.f);
}

static int open_model(const char *dir, const char *option)
{
    char convert[512];
    struct process p;
    struct err e;
    snprintf(convert, sizeof convert, "%s/opt4gptq-convert", build);
    process_run(&p,
                (char *[]){convert, (char *)(uintptr_t)dir, file, (char *)(uintptr_t)option, NULL},
                NULL);
    int bad = p.code != 0 || model_open(&model, file, &e);
    check(!bad, dir, &p);
    process_free(&p);
    unlink(file);
    return bad ? -1 : 0;
}

static void test_dir(const char *dir, const char *library)
{
    const char *name = strrchr(dir, '/') + 1;
    char path[600], own[HIP_OPTIONS_BYTES];
    struct st_file want;
    struct err e;
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    if (st_open(&want, path, &e)) {
        skip("%s", e.msg);
        return;
    }
    if (!open_model(dir, "--no-mtp")) {
        check_that(!model.plan.n_draft, "%s: --no-mtp leaves the layer out", name);
        model_close(&model);
    }
    if (open_model(dir, NULL)) {
        st_close(&want);
        return;
    }
    check_that(model.plan.n_draft > 0, "%s: the draft layer is there", name);
    if (library && model.plan.n_draft) {
        hip_options_write(&(struct hip_options){.library = library}, own, sizeof own);
        compare(&want, name, "auto", &backend_hip, own, 2e-4);
    } else if (model.plan.n_draft) {
        for (int i = 0; cpu_ladder[i]; i++)
            if (!cpu_ladder[i]->unusable())
                compare(&want, name, cpu_ladder[i]->name, &backend_cpu, NULL, i ? 2e-4 : 1e-4);
    }
    model_close(&model);
    st_close(&want);
}

int main(int argc, char **argv)
{
    const char *shared = argc > 2 ? argv[2] : "../shared", *library = argc > 3 ? argv[3] : NULL;
    char dir[512];
    build = argv[1];
    snprintf(file, sizeof file, "/tmp/opt4gptq-drafts-%d", (int)getpid());
    test_dir("tests/data/gptq/qwen3.5-moe", library);
    snprintf(dir, sizeof dir, "%s/fixtures/newest/qwen3.5-mtp", shared);
    test_dir(dir, library);
    snprintf(dir, sizeof dir, "%s/fixtures/newest/deepseek-v3", shared);
    test_dir(dir, library);
    return report("drafts");
}
