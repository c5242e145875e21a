/* places.c: a run on several places has the bits of one: logits of prompts in chunks and of decode
 * rows, for every rule of core/step/split.h; a transfer that is left out or puts columns in the
 * wrong place is noticed, and so are an exchange of linked GPUs that is left out, and one that is
 * not waited for. Places: two and three variants of the CPU, CPU and GPU, two, three, four and
 * eight GPUs (host code). usage: places BUILD_DIR [LIBRARY N [NAME..]]: on N GPUs of a library
 * instead */
#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"
#include "backend-hip/hip_exchange.h"
#include "core/run/places.h"
#include "tests/whole/fixture.h"

enum { N_STEPS = 5, MAX_LOGITS = N_STEPS * FIXTURE_SEQS };

static struct model model;
static int verbose, n_devices = 8; /* GPUs; places share them where these are fewer */
static char library[512], own[2][HIP_OPTIONS_BYTES]; /* exchange by the host, by peers' memory */

/* The logits of a run: [MAX_LOGITS][vocab]. */
struct run {
    float *logits;
    size_t n;
};

/* A chunk of sequence 0, the rest of it with all of sequence 1, three steps of both; tokens of
 * decode rows are the largest logits. 0 or -1. */
static int run(struct forward *f, struct run *r)
{
    static struct fixture_batch fb;
    static const struct span spans[N_STEPS][2] = {{{0, 0, 13}},
                                                  {{0, 13, 8}, {1, 0, 10}},
                                                  {{0, 21, 1}, {1, 10, 1}},
                                                  {{0, 22, 1}, {1, 11, 1}},
                                                  {{0, 23, 1}, {1, 12, 1}}};
    uint8_t wanted[FIXTURE_ROWS];
    int32_t next[FIXTURE_SEQS] = {0};
    size_t vocab = (size_t)model.config.vocab;
    struct err e;
    memset(wanted, 1, sizeof wanted);
    r->n = 0;
    for (int i = 0; i < N_STEPS; i++) {
        int n = spans[i][1].rows ? 2 : 1, decode = i >= 2;
        struct batch *b = fixture_batch(&fb, spans[i], n, decode ? n : 0, 0);
        for (int j = 0; j < b->n_rows; j++)
            b->token[j] = decode ? next[j] : fixture_token(&model, b->seq[j], b->pos[j]);
        if (forward_step(f, b, wanted, &e)) {
            check_that(0, "a step failed: %s", e.msg);
            return -1;
        }
        for (int j = 0; j < n; j++) {
            memcpy(r->logits + r->n++ * vocab, f->logits + (size_t)j * vocab,
                   vocab * sizeof(float));
            next[j] = f->best[j];
        }
    }
    return 0;
}

static int same(const struct run *a, const struct run *b)
{
    return a->n == b->n && a->n > 0 &&
           !memcmp(a->logits, b->logits, a->n * (size_t)model.config.vocab * sizeof(float));
}

/* ---- configurations */

enum machine { AVX2, SCALAR, AUTO, GPU, GPU_PEER, N_MACHINES };
static const char *const machine_name[] = {"avx2", "scalar", "auto", "gpu", "gpu, peers"};

static struct forward_place place_of(enum machine m, int q, enum act act)
{
    return m >= GPU
               ? (struct forward_place){&backend_hip, "auto", own[m - GPU], 2, q % n_devices, act}
               : (struct forward_place){&backend_cpu, machine_name[m], NULL, 2, 0, act};
}

enum { MOST_PLACES = 8 };
struct config {
    int n;
    enum machine machine[MOST_PLACES];
    int gpu;
};
static const struct config configs[] = {
    {2, {AVX2, SCALAR}, 0},       {3, {AUTO, SCALAR, AVX2}, 0},
    {2, {SCALAR, GPU}, 1},        {2, {GPU, GPU}, 1},
    {2, {GPU_PEER, GPU_PEER}, 1}, {3, {GPU_PEER, GPU_PEER, GPU_PEER}, 1},
    {4, {GPU, GPU, GPU, GPU}, 1}, {8, {GPU, GPU, GPU, GPU, GPU, GPU, GPU, GPU}, 1}};
static int is_linked(const struct config *c) { return c->machine[0] >= GPU; }
enum { N_CONFIGS = sizeof configs / sizeof *configs };

static const char *const rule_name[] = {"layers", "outputs", "experts"};

static struct split_want want_of(enum split_rule rule, int n)
{
    struct split_want w = {.rule = rule, .n_places = n};
    int layers = model.config.n_layers;
    for (int q = 1; q < n; q++)
        w.first_layer[q] = rule == SPLIT_LAYERS ? q * layers / n : q == n - 1 ? layers - 1 : 0;
    return w;
}

static int open_split(struct forward *f, const struct config *c, enum split_rule rule,
                      const struct forward_options *o, struct err *e)
{
    struct forward_place place[MOST_PLACES];
    const struct split_want want = want_of(rule, c->n);
    for (int q = 0; q < c->n; q++) place[q] = place_of(c->machine[q], q, o->act);
    return forward_open_places(f, &model, place, &want, o, e);
}

/* Every place computes something, and rows are moved. */
static int is_split(const struct split *s)
{
    int n_transfers = 0, n_busy = 0;
    for (int i = 0; i < s->n_items; i++) n_transfers += !s->item[i].n_ops;
    for (int q = 0; q < s->n_places; q++) n_busy += s->plan[q].n_ops > 0;
    return n_transfers > 0 && n_busy == s->n_places;
}

/* Some of the linears and, where `heads`, of the caches are views of a share. */
static int is_shared(const struct split *s, const struct step_plan *p)
{
    return s->plan[0].n_weights > p->n_weights && s->plan[0].n_buffers > p->n_buffers;
}

/* ---- mutants */

static void leave_out(struct places *p, int i)
{
    struct split *s = &p->split;
    size_t behind = (size_t)(s->n_items - i - 1);
    memmove(s->item + i, s->item + i + 1, behind * sizeof *s->item);
    memmove(p->compiled + i, p->compiled + i + 1, behind * sizeof *p->compiled);
    s->n_items--;
    s->n_body -= i < s->n_body;
}

/* One column further; the next piece, or the end of the row, hides what is too much. 0: the
 * transfer is of whole rows. */
static int shift(struct places *p, int i)
{
    struct transfer *t = &p->split.item[i].transfer;
    if (t->n < 2) return 0;
    t->piece[0].column++;
    return 1;
}

/* Exchange number i of linked places goes nowhere. 0: there is none. */
static int silence(struct places *p, int i)
{
    int made = 0;
    for (int q = 0; q < p->split.n_places; q++) {
        struct be *be = p->be[q];
        struct err e;
        int n = 0;
        for (int j = 0; j < p->plan[q].n_ops; j++)
            if (p->plan[q].op[j].kind == OP_EXCHANGE && n++ == i)
                p->plan[q].op[j].as.exchange.to = 0, made = 1;
        be->ops->drop_plan(be, p->compiled[q]);
        p->compiled[q] = NULL;
        if (be->ops->compile(be, &p->plan[q], &p->memory[q], &p->compiled[q], &e)) return 0;
    }
    return made;
}

/* Linked places: every exchange is needed, and so is waiting for it. */
static void check_linked_mutants(const char *what, const struct config *c,
                                 const struct forward_options *o, const struct run *want)
{
    int n = 0, n_caught = 0;
    for (int i = -1, made = 1; made; i++) {
        struct forward f;
        struct err e;
        struct run got = {.logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * 4)};
        if (open_split(&f, c, SPLIT_OUTPUTS, o, &e)) {
            check_that(0, "%s: %s", what, e.msg);
            made = 0;
        } else {
            if (i < 0) hip_stop_peers((struct hip *)f.places->be[0]);
            else made = silence(f.places, i);
            if (i < 0) setenv("FIBERS_LATE", "0,3000", 1);
            n += made;
            n_caught += made && !run(&f, &got) && !same(&got, want);
            unsetenv("FIBERS_LATE");
            forward_close(&f);
        }
        free(got.logits);
    }
    check_that(n > 4 && n_caught == n, "%s: %d of %d exchanges left out or not waited for", what,
               n_caught, n);
}

/* Opens a run, breaks its transfer number i in one of two ways, and compares. 1: noticed; 0: not;
 * -1: there is no such mutant. */
static int mutant(const struct config *c, enum split_rule rule, const struct forward_options *o,
                  const struct run *want, int i, int kind)
{
    struct forward f;
    struct err e;
    struct run got = {.logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * 4)};
    int rc = -1;
    if (open_split(&f, c, rule, o, &e)) return -1;
    if (i < f.places->split.n_items && !f.places->split.item[i].n_ops) {
        int made = kind ? shift(f.places, i) : (leave_out(f.places, i), 1);
        if (made) rc = !run(&f, &got) && !same(&got, want);
    }
    forward_close(&f);
    free(got.logits);
    return rc;
}

static void check_mutants(const char *what, const struct config *c, enum split_rule rule,
                          const struct forward_options *o, const struct run *want, int n_items)
{
    int n[2] = {0}, n_caught[2] = {0};
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0; i < n_items; i++) {
            int caught = mutant(c, rule, o, want, i, kind);
            n[kind] += caught >= 0;
            n_caught[kind] += caught > 0;
        }
    check_that(n[0] > 0 && n_caught[0] == n[0], "%s: %d of %d transfers left out are noticed", what,
               n_caught[0], n[0]);
    if (rule == SPLIT_OUTPUTS)
        check_that(n[1] > 0 && n_caught[1] == n[1], "%s: %d of %d wrong columns are noticed", what,
                   n_caught[1], n[1]);
}

/* ---- */

static void check_split(const char *what, const struct config *c, enum split_rule rule,
                        const struct forward_options *o, const struct run *want, int mutants)
{
    struct forward f;
    struct err e;
    struct run got = {.logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * 4)};
    if (verbose) fprintf(stderr, "%s\n", what);
    if (open_split(&f, c, rule, o, &e)) {
        check_that(0, "%s: %s", what, e.msg);
    } else {
        int n_items = f.places->split.n_items, split = is_split(&f.places->split);
        if (rule == SPLIT_OUTPUTS) split = split && is_shared(&f.places->split, &f.plan);
        int rc = run(&f, &got);
        check_that(split, "%s: is not split", what);
        check_that(!rc && same(&got, want), "%s: has not the bits of one place", what);
        forward_close(&f);
        if (mutants && is_linked(c)) check_linked_mutants(what, c, o, want);
        else if (mutants) check_mutants(what, c, rule, o, want, n_items);
    }
    free(got.logits);
}

/* ---- experts that come to the device */

static void (*wait_for_copies)(struct be *be, int later);
static void wait_for_those_before(struct be *be, int later)
{
    wait_for_copies(be, later + 1 < 3 ? later + 1 : later);
}

/* Of two, each has memory of its own. */
static int has_three(void)
{
    int n = 0, last = -1;
    for (int i = 0; i < model.plan.n_ops; i++)
        if (model.plan.op[i].kind == OP_EXPERTS && model.plan.op[i].layer != last)
            n++, last = model.plan.op[i].layer;
    return n > 2;
}

static int open_streams(struct forward *f, const struct forward_options *o, int rows, struct err *e)
{
    static uint8_t lists[2][256];
    const struct forward_place place[] = {place_of(GPU, 0, o->act), place_of(AUTO, 1, o->act)};
    const struct split_want want = {.rule = SPLIT_LAYERS,
                                    .n_places = 2,
                                    .streams = 1,
                                    .stream_rows = rows,
                                    .of_layer = lists[0],
                                    .of_experts = lists[1]};
    memset(lists[1], 1, sizeof lists[1]);
    return forward_open_places(f, &model, place, &want, o, e);
}

/* Steps of so many rows and more by the stream; a run without a wait, or which waits for the copy
 * before, is noticed. */
static void check_streams(const char *name, const struct forward_options *o, const struct run *want)
{
    static const int from[] = {1, 2, 11};
    struct run got = {.logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * 4)};
    struct forward f;
    struct err e;
    for (int i = 0; i < 3; i++) {
        int rc = open_streams(&f, o, from[i], &e);
        check_that(!rc && !run(&f, &got) && same(&got, want),
                   "%s: experts come to the device from %d rows on%s%s", name, from[i],
                   rc ? ": " : "", rc ? e.msg : "");
        if (!rc) forward_close(&f);
    }
    if (has_three() && !open_streams(&f, o, 1, &e)) {
        struct backend late = *f.be->ops;
        const struct backend *ops = f.be->ops;
        wait_for_copies = late.await;
        late.await = wait_for_those_before;
        f.be->ops = &late;
        check_that(!run(&f, &got) && !same(&got, want), "%s: a copy that is not waited for", name);
        f.be->ops = ops;
        forward_close(&f);
    }
    free(got.logits);
}

static int has_experts(void)
{
    for (int i = 0; i < model.plan.n_ops; i++)
        if (model.plan.op[i].kind == OP_EXPERTS) return 1;
    return 0;
}

struct arithmetic {
    enum act act;
    enum kv_type kv;
    const char *name;
    int gpu;      /* has the same bits there */
    int gpu_only; /* those of one GPU */
};
static const struct arithmetic arithmetics[] = {{ACT_I16, KV_INT8, "i16", 1, 0},
                                                {ACT_INT8, KV_INT4, "int8", 1, 0},
                                                {ACT_F32, KV_F16, "f32", 0, 0},
                                                {ACT_F16, KV_F16, "f16", 1, 1}};

/* thorough: every arithmetic on every number of GPUs, and mutants. */
static void check_arithmetic(const char *name, const struct arithmetic *a, int gpu, int thorough)
{
    if (a->gpu_only && !gpu) return;
    struct forward_options o = fixture_options(a->act, a->kv);
    struct run want = {.logits = malloc((size_t)MAX_LOGITS * (size_t)model.config.vocab * 4)};
    struct forward one;
    struct err e;
    o.variant = a->gpu_only ? "auto" : "scalar";
    o.own = a->gpu_only ? own[0] : NULL;
    if (forward_open(&one, &model, a->gpu_only ? &backend_hip : &backend_cpu, &o, &e) ||
        run(&one, &want)) {
        check_that(0, "%s, %s: one place", name, a->name);
        exit(1);
    }
    forward_close(&one);
    for (int i = 0; i < N_CONFIGS; i++)
        for (enum split_rule rule = SPLIT_LAYERS; rule <= SPLIT_EXPERTS; rule++) {
            char what[160];
            const struct config *c = &configs[i];
            if ((c->gpu && !(gpu && a->gpu)) || (rule == SPLIT_EXPERTS && !has_experts())) continue;
            if (c->gpu && (a->act != ACT_I16 || c->n >= 4) && rule != SPLIT_OUTPUTS) continue;
            if (a->gpu_only && !is_linked(c)) continue;
            if (c->n == 8 && (a->act != ACT_I16 || !has_experts())) continue;
            if (c->n == 4 && a->act == ACT_INT8) continue; /* it has two and three */
            if (is_linked(c) && !thorough && (c->n != 3 || a->act != ACT_I16)) continue;
            snprintf(what, sizeof what, "%s, %s, %d places (%s, %s), by %s", name, a->name, c->n,
                     machine_name[c->machine[0]], machine_name[c->machine[1]], rule_name[rule]);
            int breaks = i == 0 || (i == 4 && rule == SPLIT_OUTPUTS);
            check_split(what, c, rule, &o, &want,
                        thorough && breaks && a->act == ACT_I16 &&
                            !(is_linked(c) && !has_experts()));
        }
    if (gpu && a->act == ACT_I16 && has_experts()) check_streams(name, &o, &want);
    free(want.logits);
}

int main(int argc, char **argv)
{
    static const char *const fixtures[] = {
        "llama", "gemma3-capped", "qwen3-moe", "gguf-least", "qwen3.5-moe", "gpt-oss", "gemma4"};
    if (argc != 2 && argc < 4) return 2;
    fixture_begin(argv[1]);
    snprintf(library, sizeof library, "%s/tests/bin/libhip-fibers.so", argv[1]);
    if (argc >= 4) {
        snprintf(library, sizeof library, "%s", argv[2]);
        n_devices = atoi(argv[3]);
        verbose = 1;
    }
    for (int i = 0; i < 2; i++)
        hip_options_write(
            &(struct hip_options){.library = library,
                                  .exchange = i ? HIP_EXCHANGE_PEER : HIP_EXCHANGE_HOST},
            own[i], sizeof own[i]);
    setenv("FIBERS_DEVICES", "8", 1);
    int gpu = argc >= 4 || (!access(library, R_OK) && hip_image_name(0));
    if (!gpu) skip("places on GPUs as host code: built without clang-19");
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        int asked = argc <= 4;
        for (int j = 4; j < argc; j++) asked |= !strcmp(argv[j], fixtures[i]);
        if (!asked || fixture_open(&model, fixtures[i])) continue;
        for (size_t j = 0; j < sizeof arithmetics / sizeof *arithmetics; j++)
            check_arithmetic(fixtures[i], &arithmetics[j], gpu && i < 5, i == 0 || i == 2);
        model_close(&model);
    }
    return report("places");
}
