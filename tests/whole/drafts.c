/* drafts.c: the layer that drafts tokens: kept by the converter, left out with --no-mtp, and its
 * logits and its chain of three tokens those that the checkpoint's expected.safetensors has, on
 * every CPU variant, or on a GPU. And answers of models with and without states are the same with
 * drafts, right and wrong ones and those of that layer. usage: drafts BUILD_DIR [SHARED_DIR
 * [LIBRARY]] */
#include "backend-cpu/cpu.h"
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "bench/batches.h"
#include "core/base/safetensors.h"
#include "core/run/forward.h"
#include "core/sched/sched_internal.h"
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

/* ---- answers with drafts */

enum { REQUESTS = 7, PROMPT = 40, ANSWER = 48 };

/* Its answer without drafts, and the one that comes. */
struct told {
    struct request request;
    int32_t prompt[PROMPT], want[ANSWER], got[ANSWER];
    double logprob[2][ANSWER];
    int n_want, n_got;
};

/* Proposes what the answers without drafts go on with, but for one token of `wrong`. */
struct teller {
    struct told *all;
    int wrong, n;
};

static int take_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    struct told *r = arg;
    (void)choice, (void)e;
    if (r->n_got < ANSWER) {
        r->logprob[1][r->n_got] = t->logprob;
        r->got[r->n_got] = t->id;
    }
    r->n_got++;
    return 0;
}

static int take_end(void *arg, int choice, enum finish why, struct err *e)
{
    (void)arg, (void)choice, (void)why, (void)e;
    return 0;
}

static int take_done(void *arg, const char *msg, struct err *e)
{
    (void)arg, (void)e;
    if (msg) check_that(0, "a request failed: %s", msg);
    return 0;
}

static const struct request_sink sink = {.token = take_token,
                                         .finished = take_end,
                                         .done = take_done};

static int tell(void *self, const struct draft_ask *a, int32_t *token, int most, int *matched)
{
    struct teller *t = self;
    int n = 0;
    *matched = 6;
    for (int i = 0; i < REQUESTS; i++)
        for (; a->prompt == t->all[i].prompt && n < most; n++) {
            int at = a->n_generated + n;
            token[n] = at < t->all[i].n_want ? t->all[i].want[at] : 1;
            if (++t->n % t->wrong == 0) token[n] = (token[n] + 1) % model.config.vocab;
        }
    return n;
}

/* Prompts of different lengths, of which some begin alike; half of them sampled, some with
 * penalties or log-probabilities. */
static void make_requests(struct told *all)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct told *r = &all[i];
        memset(r, 0, sizeof *r);
        for (int k = 0; k < PROMPT; k++)
            r->prompt[k] = (k * 31 + (i / 2) * 17 + 5) % model.config.vocab;
        r->request = (struct request){.prompt = r->prompt,
                                      .n_prompt = 3 + i * 6,
                                      .n_choices = 1,
                                      .max_tokens = ANSWER - i,
                                      .n_top = i % 3 == 2 ? 2 : -1,
                                      .prompt_top = -1,
                                      .stream = (uint64_t)i,
                                      .sink = &sink,
                                      .arg = r};
        r->request.sampling = (struct sampler_params){.temperature = i % 2 ? 0.9 : 0,
                                                      .top_p = 1,
                                                      .typical_p = 1,
                                                      .repetition_penalty = i == 3 ? 1.2 : 1,
                                                      .ignore_eos = 1,
                                                      .seed = 7};
    }
}

struct way {
    enum act act;
    enum kv_type kv;
    int n_seqs, n_batch, n_pages, mtp, wrong; /* wrong 0: nothing is told */
};

/* of a GPU: the library that pretends to be one; NULL: the CPU answers */
static const char *gpu;

static int answer(const struct way *w, struct told *all, int drafts, struct sched_stats *stats)
{
    char own[HIP_OPTIONS_BYTES];
    struct forward f;
    struct sched *s = NULL;
    struct err e;
    struct teller t = {all, w->wrong, 0};
    const struct drafter teller = {.propose = tell, .self = &t};
    const struct forward_options fo = {.variant = "auto",
                                       .n_threads = 2,
                                       .own = gpu ? own : NULL,
                                       .act = w->act,
                                       .kv = w->kv,
                                       .n_pages = w->n_pages,
                                       .max_rows = w->n_batch,
                                       .max_logits = w->n_batch,
                                       .max_seqs = w->n_seqs,
                                       .max_pages = 8,
                                       .n_states = w->n_seqs + 2,
                                       .drafts = drafts && w->mtp,
                                       .keeps_drafts = 1};
    struct sched_options so = {.n_seqs = w->n_seqs,
                               .n_batch = w->n_batch,
                               .n_ctx = 8 * KV_PAGE,
                               .prefix_cache = 1,
                               .draft_most = drafts ? 5 : 0,
                               .draft_always = 1,
                               .drafter = w->wrong ? &teller : NULL,
                               .no_texts = !w->wrong,
                               .mtp_most = drafts ? w->mtp : 0};
    hip_options_write(&(struct hip_options){.library = gpu}, own, sizeof own);
    int rc = forward_open(&f, &model, gpu ? &backend_hip : &backend_cpu, &fo, &e);
    if (!rc) so.overlap = forward_overlaps(&f);
    if (!rc && !(rc = sched_open(&s, &f, &so, &e))) {
        for (int i = 0; i < REQUESTS && !rc; i++) {
            all[i].n_got = 0;
            rc = sched_submit(s, &all[i].request, &e);
        }
        while (!rc && (rc = sched_step(s, &e)) == 1) rc = 0;
        sched_stats(s, stats);
        sched_close(s);
    }
    check_that(!rc, "%s", rc ? e.msg : "");
    if (f.be) forward_close(&f);
    return rc;
}

static int differs(const struct told *r)
{
    return r->n_got != r->n_want || memcmp(r->got, r->want, (size_t)r->n_want * sizeof *r->want) ||
           memcmp(r->logprob[0], r->logprob[1], (size_t)r->n_want * sizeof(double));
}

static void same_answers(const char *name, const struct way *w)
{
    static struct told all[REQUESTS];
    struct sched_stats stats = {0}, plain = {0};
    int n = 0;
    make_requests(all);
    struct way alone = *w;
    alone.n_pages = 64;
    if (answer(&alone, all, 0, &plain)) return;
    for (int i = 0; i < REQUESTS; i++) {
        all[i].n_want = all[i].n_got;
        memcpy(all[i].want, all[i].got, sizeof all[i].want);
        memcpy(all[i].logprob[0], all[i].logprob[1], sizeof all[i].logprob[0]);
    }
    if (answer(w, all, 1, &stats)) return;
    for (int i = 0; i < REQUESTS; i++) n += differs(&all[i]);
    check_that(!n, "%s: %d of %d answers are others with drafts", name, n, REQUESTS);
    printf(
        "  %-12s kv %d, %d at once, mtp %d: %4d drafts, %4d right (mtp %d, %d), %d preemptions\n",
        name, (int)w->kv, w->n_seqs, w->mtp, (int)stats.n_drafted_tokens,
        (int)stats.n_accepted_tokens, (int)stats.n_mtp_tokens, (int)stats.n_mtp_right,
        (int)stats.n_preemptions);
    check_that(stats.n_drafted_tokens > 0, "%s: there are drafts", name);
    if (w->wrong > 2)
        check_that(stats.n_accepted_tokens > 20 && stats.steps_saved > 5, "%s: some are right",
                   name);
    check_that(!w->mtp || stats.n_mtp_tokens > 0 || w->wrong, "%s: the layer drafts", name);
}

static void test_answers(const char *folder, const char *name)
{
    static const struct way of_cpu[] = {
        {ACT_I16, KV_INT8, 1, 16, 64, 0, 3},  {ACT_I16, KV_F16, 4, 24, 64, 0, 5},
        {ACT_INT8, KV_INT4, 3, 32, 18, 0, 4}, {ACT_I16, KV_F16, 6, 12, 15, 0, 4},
        {ACT_I16, KV_INT8, 1, 16, 64, 3, 0},  {ACT_I16, KV_INT4, 4, 32, 18, 3, 0},
        {ACT_I16, KV_F16, 6, 24, 15, 2, 0},   {0},
    };
    /* a pretended one is slow */
    static const struct way of_gpu[] = {
        {ACT_INT8, KV_INT4, 3, 32, 18, 0, 4},
        {ACT_F16, KV_INT8, 4, 24, 64, 0, 4},
        {ACT_F16, KV_F16, 5, 24, 18, 3, 0},
        {0},
    };
    const struct way *way = gpu ? of_gpu : of_cpu;
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", folder, name);
    if (access(dir, R_OK)) {
        skip("%s: not here", dir);
        return;
    }
    if (open_model(dir, NULL)) return;
    for (; way->n_seqs; way++)
        if (!way->mtp || model.plan.n_draft) same_answers(name, way);
    model_close(&model);
}

/* ---- the scheduler's chains */

/* Drafts as the scheduler has them where it asks for some, and the tokens before them. */
enum { SEEN = 24 };
struct watch {
    const struct sched *s;
    int n;
    struct seen {
        int64_t token[PROMPT + ANSWER];
        int32_t chain[CHAIN];
        size_t n;
    } seen[SEEN];
};

static int look(void *self, const struct draft_ask *a, int32_t *token, int most, int *matched)
{
    struct watch *w = self;
    const struct seq *q = &w->s->seq[a->seq];
    struct seen *x = &w->seen[w->n % SEEN];
    (void)token, (void)most, (void)matched;
    if (q->n_mtp < CHAIN || (a->n_prompt + a->n_generated) % 5) return 0; /* here and there */
    memcpy(x->chain, q->mtp, sizeof x->chain);
    x->n = 0;
    for (int i = 0; i < a->n_prompt; i++) x->token[x->n++] = a->prompt[i];
    for (int i = 0; i < a->n_generated; i++) x->token[x->n++] = a->generated[i];
    w->n++;
    return 0;
}

/* They are those of the layer on these tokens alone. */
static void chains_are_those_alone(const char *dir, int n_seqs)
{
    static struct told all[REQUESTS];
    static struct watch w;
    static struct steps alone;
    const struct forward_options fo = {.variant = "auto",
                                       .n_threads = 2,
                                       .act = ACT_I16,
                                       .kv = KV_INT8,
                                       .n_pages = 64,
                                       .max_rows = 24,
                                       .max_logits = 24,
                                       .max_seqs = n_seqs,
                                       .max_pages = 8,
                                       .n_states = n_seqs + 2,
                                       .drafts = 1,
                                       .keeps_drafts = 1};
    const struct drafter watcher = {.propose = look, .self = &w};
    const struct sched_options so = {.n_seqs = n_seqs,
                                     .n_batch = 24,
                                     .n_ctx = 8 * KV_PAGE,
                                     .draft_most = CHAIN,
                                     .draft_always = 1,
                                     .drafter = &watcher,
                                     .mtp_most = CHAIN};
    struct forward f;
    struct sched *s = NULL;
    struct err e;
    w.n = 0;
    make_requests(all);
    int rc = forward_open(&f, &model, &backend_cpu, &fo, &e) || sched_open(&s, &f, &so, &e);
    w.s = s;
    for (int i = 0; i < REQUESTS && !rc; i++) rc = sched_submit(s, &all[i].request, &e);
    while (!rc && (rc = sched_step(s, &e)) == 1) rc = 0;
    sched_close(s);
    forward_close(&f);
    if (!rc) rc = open_steps(&alone, &backend_cpu, "auto", NULL, ACT_I16, &e);
    for (int i = 0; i < SEEN && i < w.n && !rc; i++) {
        struct seen *x = &w.seen[i];
        int32_t chain[CHAIN];
        const struct prompt p = {.ids = x->token, .greedy = x->token + x->n - 1, .n = x->n - 1};
        rc = run(&alone, &p, chain, &e);
        check_that(!memcmp(chain, x->chain, sizeof chain),
                   "%s: %d at once: behind %zu tokens %d, %d, %d, not %d, %d, %d", dir, n_seqs,
                   x->n, x->chain[0], x->chain[1], x->chain[2], chain[0], chain[1], chain[2]);
    }
    check_that(!rc && w.n > 8, "%s: %d chains: %s", dir, w.n, rc ? e.msg : "");
    free(alone.logits);
    if (!rc) forward_close(&alone.f);
}

static void test_chains(const char *dir)
{
    if (open_model(dir, NULL)) return;
    for (int n_seqs = 1; n_seqs < 5; n_seqs += 3) chains_are_those_alone(dir, n_seqs);
    model_close(&model);
}

int main(int argc, char **argv)
{
    const char *shared = argc > 2 ? argv[2] : "../shared", *library = argc > 3 ? argv[3] : NULL;
    char dir[512];
    build = argv[1];
    snprintf(file, sizeof file, "/tmp/opt4gptq-drafts-%d", (int)getpid());
    test_dir("tests/data/gptq/qwen3.5-moe", library);
    test_dir("tests/data/gptq/glm-moe-dsa", library);
    snprintf(dir, sizeof dir, "%s/fixtures/newest/qwen3.5-mtp", shared);
    test_dir(dir, library);
    snprintf(dir, sizeof dir, "%s/fixtures/newest/deepseek-v3", shared);
    test_dir(dir, library);
    gpu = library;
    if (library) {
        test_answers("tests/data/gptq", "qwen3.5-moe");
        test_answers("tests/data/gptq", "deepseek-v3");
    } else {
        static const char *const others[] = {"kimi-linear", "jamba", "deepseek-v32"};
        test_answers("tests/data/gptq", "qwen3.5-moe");
        test_answers("tests/data/gptq", "deepseek-v3");
        test_chains("tests/data/gptq/qwen3.5-moe");
        test_chains("tests/data/gptq/glm-moe-dsa");
        snprintf(dir, sizeof dir, "%s/fixtures/newest", shared);
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) test_answers(dir, others[i]);
    }
    return report("drafts");
}
