/* microbatches.c: microbatches of a run by layers on several GPUs (host code), whose steps are in
 * flight at once and apart, have the bits of one place: prompts in chunks and decode rows, where
 * rows go through rings without waiting for room; microbatches that share a cache are noticed.
 * usage: microbatches BUILD_DIR */
#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"
#include "core/run/places.h"
#include "tests/whole/fixture.h"

enum { N_STEPS = 5, MAX_LOGITS = N_STEPS * FIXTURE_SEQS, MOST_MICROBATCHES = 4 };

static struct model model;
static char hip_own[2][HIP_OPTIONS_BYTES], cuda_own[HIP_OPTIONS_BYTES];

/* A run of all steps, which may be in flight. */
struct microbatch {
    struct forward f;
    struct fixture_batch batch;
    float *logits; /* [MAX_LOGITS][vocab] */
    size_t n;
    int32_t next[FIXTURE_SEQS];
    int number; /* each has prompts of its own */
};

static const struct span spans[N_STEPS][2] = {{{0, 0, 13}},
                                              {{0, 13, 8}, {1, 0, 10}},
                                              {{0, 21, 1}, {1, 10, 1}},
                                              {{0, 22, 1}, {1, 11, 1}},
                                              {{0, 23, 1}, {1, 12, 1}}};

static void begin_step(struct microbatch *l, int i)
{
    uint8_t wanted[FIXTURE_ROWS];
    const int n = spans[i][1].rows ? 2 : 1, decode = i >= 2;
    struct batch *b = fixture_batch(&l->batch, spans[i], n, decode ? n : 0, 0);
    memset(wanted, 1, sizeof wanted);
    for (int j = 0; j < b->n_rows; j++)
        b->token[j] = decode ? l->next[j]
                             : fixture_token(&model, 2 * l->number + b->seq[j], b->pos[j]);
    forward_begin(&l->f, b, wanted);
}

static int end_step(struct microbatch *l, int i)
{
    const size_t vocab = (size_t)model.config.vocab;
    struct err e;
    while (!forward_ready(&l->f)) sched_yield();
    if (forward_end(&l->f, &e)) {
        check_that(0, "a step failed: %s", e.msg);
        return -1;
    }
    for (int j = 0; j < (spans[i][1].rows ? 2 : 1); j++) {
        memcpy(l->logits + l->n++ * vocab, l->f.logits + (size_t)j * vocab, vocab * sizeof(float));
        l->next[j] = l->f.best[j];
    }
    return 0;
}

/* Microbatch k is k steps behind the first. */
static int run(struct microbatch *microbatch, int n)
{
    int rc = 0;
    for (int k = 0; k < n; k++) microbatch[k].n = 0;
    for (int i = 0; i < N_STEPS + n - 1 && !rc; i++) {
        for (int k = 0; k < n; k++)
            if (i >= k && i - k < N_STEPS) begin_step(&microbatch[k], i - k);
        for (int k = n - 1; k >= 0 && !rc; k--)
            if (i >= k && i - k < N_STEPS) rc = end_step(&microbatch[k], i - k);
    }
    return rc;
}

static int same(const struct microbatch *a, const struct microbatch *b)
{
    return a->n == b->n && a->n > 0 &&
           !memcmp(a->logits, b->logits, a->n * (size_t)model.config.vocab * sizeof(float));
}

static void open_logits(struct microbatch *l)
{
    l->logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * sizeof(float));
    if (!l->logits) exit(2);
}

/* N microbatches on so many GPUs; 0 or -1. */
static int open_microbatches(struct microbatch *microbatch, int n, int n_places, const char *own,
                             enum act act, enum kv_type kv)
{
    struct forward_place place[MOST_MICROBATCHES];
    struct split_want want = {.rule = SPLIT_LAYERS, .n_places = n_places};
    struct forward_options o = fixture_options(act, kv);
    struct err e;
    for (int q = 0; q < n_places; q++) {
        want.first_layer[q] = q * model.config.n_layers / n_places;
        place[q] = (struct forward_place){&backend_hip, "auto", own, 2, q, act};
    }
    o.n_microbatches = n;
    for (int k = 0; k < n; k++) {
        struct forward f;
        if (forward_open_places(&f, &model, place, &want, &o, &e)) {
            check_that(0, "microbatch %d of %d: %s", k, n, e.msg);
            while (k--) forward_close(&microbatch[k].f);
            return -1;
        }
        microbatch[k].f = f;
        o.lender = &microbatch[0].f;
    }
    return 0;
}

/* Microbatch 1 has the pages of microbatch 0 from here on, or its own again. */
static void share_pages(struct microbatch *microbatch)
{
    for (int q = 0; q < microbatch[0].f.places->split.n_places; q++) {
        void **a = microbatch[0].f.places->memory[q].kv, **b = microbatch[1].f.places->memory[q].kv;
        for (int i = 0; i < model.plan.n_kv; i++) {
            static void *own[PLACES][256];
            if (a[i] == b[i]) {
                b[i] = own[q][i];
            } else {
                own[q][i] = b[i];
                b[i] = a[i];
            }
        }
    }
}

static void check_microbatches(const char *name, int n, int n_places, const char *own, enum act act,
                               enum kv_type kv, const struct microbatch *want)
{
    static struct microbatch microbatch[MOST_MICROBATCHES];
    for (int k = 0; k < n; k++) microbatch[k].number = k, open_logits(&microbatch[k]);
    if (n_places <= model.config.n_layers &&
        !open_microbatches(microbatch, n, n_places, own, act, kv)) {
        int rc = run(microbatch, n);
        for (int k = 0; k < n; k++)
            check_that(!rc && same(&microbatch[k], &want[k]),
                       "%s: microbatch %d of %d on %d GPUs in %s", name, k, n, n_places,
                       act_formats[act].name);
        if (n == 3 && model.plan.n_kv && model.plan.n_kv < 256) {
            share_pages(microbatch);
            check_that(!run(microbatch, n) &&
                           !(same(&microbatch[0], want) && same(&microbatch[1], want + 1)),
                       "%s: two microbatches with the pages of one are noticed", name);
            share_pages(microbatch);
        }
        for (int k = n - 1; k >= 0; k--) forward_close(&microbatch[k].f);
    }
    for (int k = 0; k < n; k++) free(microbatch[k].logits);
}

static void check_model(const char *name, enum act act, enum kv_type kv)
{
    static struct microbatch want[MOST_MICROBATCHES];
    struct forward_options o = fixture_options(act, kv);
    struct err e;
    o.variant = "scalar";
    for (int k = 0; k < MOST_MICROBATCHES; k++) {
        want[k].number = k;
        open_logits(&want[k]);
        if (forward_open(&want[k].f, &model, &backend_cpu, &o, &e) || run(&want[k], 1)) {
            check_that(0, "%s: one place", name);
            exit(1);
        }
        forward_close(&want[k].f);
    }
    check_microbatches(name, 2, 2, hip_own[0], act, kv, want);
    check_microbatches(name, 4, 4, hip_own[1], act, kv, want);
    check_microbatches(name, 3, 2, cuda_own, act, kv, want);
    for (int k = 0; k < MOST_MICROBATCHES; k++) free(want[k].logits);
}

int main(int argc, char **argv)
{
    static const char *const fixtures[] = {"llama", "qwen3.5-moe", "gemma4"};
    static char hip[512], cuda[512];
    if (argc != 2) return 2;
    fixture_begin(argv[1]);
    snprintf(hip, sizeof hip, "%s/tests/bin/libhip-fibers.so", argv[1]);
    snprintf(cuda, sizeof cuda, "%s/tests/bin/libcuda-fibers-90.so", argv[1]);
    if (access(hip, R_OK) || access(cuda, R_OK) || !hip_image_name(0)) {
        skip("microbatches of GPUs as host code: built without clang-19");
        return report("microbatches");
    }
    for (int i = 0; i < 2; i++)
        hip_options_write(
            &(struct hip_options){.library = hip,
                                  .exchange = i ? HIP_EXCHANGE_PEER : HIP_EXCHANGE_HOST},
            hip_own[i], sizeof hip_own[i]);
    hip_options_write(&(struct hip_options){.library = cuda}, cuda_own, sizeof cuda_own);
    setenv("FIBERS_DEVICES", "4", 1);
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        if (fixture_open(&model, fixtures[i])) continue;
        if (i) check_model(fixtures[i], ACT_I16, KV_INT8);
        else check_model(fixtures[i], ACT_INT8, KV_INT4);
        model_close(&model);
    }
    return report("microbatches");
}
