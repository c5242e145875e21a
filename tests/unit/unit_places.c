/* unit_places.c: a model with made-up weights on two and three places of the CPU has the bits of
 * one place, by every rule of core/step/split.h, and what the places take is what one takes. The
 * folder is the project's root. Slower and wider, with GPUs: tests/whole/places.c. */
#include "backend-cpu/cpu.h"
#include "bench/batches.h"
#include "bench/shape.h"
#include "core/run/forward.h"
#include "core/run/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEQS = 2, PAGES = 2, ROWS = 24, LOGITS = 3, STEPS = 4, MOST = 1 + 2 * (STEPS - 1) };

/* Attention alone; attention and experts; both of them with states and a shared expert; linears
 * with offsets, which move no more rows. */
#define ROUTER                                                                                     \
    "\"router_score\":\"softmax\",\"router_normalize\":1,\"router_scale\":1,"                      \
    "\"router_groups\":1,\"router_kept_groups\":1,\"n_experts\":6,\"top_k\":2,\"expert_ffn\":128"
static const struct shape made[] = {
    {"dense", 3, 128, 256, 4, 2, 32, 96, 256, 64, NULL, NULL, 0},
    {"experts", 3, 128, 128, 4, 2, 32, 96, 256, 64, "qwen3_moe", "{\"shared_ffn\":0," ROUTER "}",
     0},
    {"states", 4, 128, 128, 4, 2, 32, 96, 256, 64, "qwen3_next",
     "{\"shared_ffn\":128,\"linear_key_heads\":2,\"linear_value_heads\":4,\"linear_key_dim\":32,"
     "\"linear_value_dim\":32,\"conv_width\":4,\"layer_types\":[0,1,0,1]," ROUTER "}",
     0},
    {"latent", 3, 128, 256, 4, 1, 16, 96, 256, 64, "deepseek_v2",
     "{\"shared_ffn\":128,\"router_group_best\":0,\"latent_dim\":64,\"nope_dim\":32,\"value_dim\":"
     "32,\"q_lora_dim\":0,\"latent_eps\":1e-6,\"attend_scale\":0.2," ROUTER "}",
     0},
    {"offsets", 3, 128, 256, 4, 2, 32, 96, 256, 64, NULL, NULL, SHAPE_OFFSETS},
};
enum { N_MADE = sizeof made / sizeof *made };
static struct model model;
static const struct forward_place cpu = {&backend_cpu, "scalar", NULL, 1, 0, ACT_I16};

static struct forward_options options_of(enum kv_type kv)
{
    return (struct forward_options){.variant = "scalar",
                                    .n_threads = 1,
                                    .act = ACT_I16,
                                    .kv = kv,
                                    .n_pages = SEQS * PAGES,
                                    .max_rows = ROWS,
                                    .max_logits = LOGITS,
                                    .max_seqs = SEQS,
                                    .max_pages = PAGES,
                                    .hidden = 1};
}

/* Of a prompt, of another beside its rest, and of two decode steps: the logits [MOST][vocab],
 * behind them the results of the last norm [STEPS][ROWS][dim]. */
static void run(struct forward *f, float *logits)
{
    static const struct span spans[STEPS][SEQS] = {
        {{0, 0, 9}}, {{0, 9, 5}, {1, 0, 10}}, {{0, 14, 1}, {1, 10, 1}}, {{0, 15, 1}, {1, 11, 1}}};
    static int32_t memory[1024], table[SEQS * PAGES] = {0, 1, 2, 3};
    struct page_map map = {SEQS * PAGES, PAGES, table};
    size_t vocab = (size_t)model.config.vocab, dim = (size_t)model.config.dim;
    float *hidden = logits + MOST * vocab;
    uint8_t wanted[ROWS];
    int32_t rows[ROWS];
    struct err e;
    memset(wanted, 1, sizeof wanted);
    assert_true(batch_ints(ROWS, SEQS, LOGITS, PAGES) <= 1024);
    for (int i = 0, k = 0; i < STEPS; i++) {
        struct batch b = {0};
        int n = spans[i][1].rows ? 2 : 1;
        batch_place(&b, memory, ROWS, SEQS, LOGITS, PAGES);
        batch_set(&b, &map, spans[i], n, i >= 2 ? n : 0);
        for (int j = 0; j < n; j++) b.logit_row[b.n_logits++] = b.seq_start[j + 1] - 1;
        for (int j = 0; i >= 2 && j < n; j++) b.n_decode_logits++;
        for (int j = 0; j < b.n_rows; j++)
            b.token[j] = (b.seq[j] * 31 + b.pos[j] * 7 + 5) % (int32_t)vocab;
        b.hidden_row = rows;
        for (int j = 1; j < b.n_rows; j++) rows[b.n_hidden++] = j; /* not the first */
        if (forward_step(f, &b, wanted, &e)) fail_msg("%s", e.msg);
        for (int j = 0; j < n; j++, k++)
            memcpy(logits + (size_t)k * vocab, f->logits + (size_t)j * vocab,
                   vocab * sizeof(float));
        memcpy(hidden + (size_t)i * ROWS * dim + dim, f->hidden + dim,
               (size_t)b.n_hidden * dim * sizeof(float));
    }
}

/* Bytes of what run writes. */
static size_t run_bytes(void)
{
    return sizeof(float) * ((size_t)MOST * (size_t)model.config.vocab +
                            (size_t)STEPS * ROWS * (size_t)model.config.dim);
}

static struct split_want want_of(enum split_rule rule, int n)
{
    struct split_want w = {.rule = rule, .n_places = n};
    for (int q = 1; q < n; q++)
        w.first_layer[q] = rule == SPLIT_LAYERS ? q : q == n - 1 ? model.config.n_layers - 1 : 0;
    return w;
}

static const char *const rule_name[] = {"layers", "outputs", "experts"};

/* Transfers of a step, of two and of three places: more would cost time and leave the bits alone.
 */
static const int n_moved[N_MADE][3][2] = {{{6, 10}, {20, 30}},
                                          {{6, 10}, {20, 30}, {4, 12}},
                                          {{6, 8}, {54, 81}, {4, 16}},
                                          {{6, 10}, {38, 57}, {4, 12}},
                                          {{6, 10}, {20, 30}}};

static void check_is_split(const struct places *p, int moved)
{
    int n = 0;
    for (int i = 0; i < p->split.n_items; i++) n += !p->split.item[i].n_ops;
    assert_int_equal(n, moved);
    for (int q = 0; q < p->split.n_places; q++) assert_true(p->split.plan[q].n_ops > 0);
}

static int names(const int *ids, int n, int buffer)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == buffer) return 1;
    return 0;
}

/* A buffer that is read after the step. */
static int is_result(const struct step_plan *p, int buffer)
{
    return buffer == p->best || buffer == p->logits || buffer == p->top || buffer == p->score ||
           (p->keeps_hidden && buffer == p->hidden);
}

/* What a segment says of the last reader of a result: the operation itself where nobody reads it,
 * OP_KEPT where one behind the segment does, or another place, or who reads the step's results. */
static int last_reader(const struct split *s, int item, int j, int buffer)
{
    const struct split_item *t = &s->item[item];
    const struct step_plan *p = &s->plan[t->place];
    int last = j, at_end = buffer == p->best || buffer == p->logits || buffer == p->hidden;
    for (int i = j + 1; i < t->n_ops; i++) {
        if (names(t->plan.op[i].in, OP_INS, buffer)) last = i;
        if (names(t->plan.op[i].out, OP_OUTS, buffer)) return last;
    }
    for (int i = 0; i < s->n_items; i++) /* a place keeps what it sends at any time */
        for (int k = 0; !s->item[i].n_ops && k < s->item[i].transfer.n; k++)
            at_end |= s->item[i].transfer.piece[k].from == t->place &&
                      s->item[i].transfer.piece[k].buffer == buffer;
    for (int i = t->first + t->n_ops; i < p->n_ops && !at_end; i++) {
        if (names(p->op[i].in, OP_INS, buffer)) at_end = 1;
        if (names(p->op[i].out, OP_OUTS, buffer)) break;
    }
    return at_end ? OP_KEPT : last;
}

static void check_readers(const struct split *s)
{
    for (int i = 0; i < s->n_items; i++)
        for (int j = 0; j < s->item[i].n_ops; j++) {
            const struct op *op = &s->item[i].plan.op[j];
            for (int k = 0; k < OP_OUTS; k++)
                assert_int_equal(op->last[k],
                                 op->out[k] < 0 ? j : last_reader(s, i, j, op->out[k]));
        }
}

/* ---- a place that copies late: what is downloaded is there when it was waited for */

enum { COPIES = 64 };
static struct backend device;
static struct copy {
    void *to, *rows;
    size_t bytes;
} copies[COPIES];
static int n_copies;

static int open_device(struct be **be, const struct be_config *c, struct err *e)
{
    if (backend_cpu.open(be, c, e)) return -1;
    (*be)->ops = &device;
    return 0;
}

static void *device_view(struct be *be, void *d, size_t bytes)
{
    (void)be, (void)d;
    return calloc(1, bytes);
}
static void drop_device_view(struct be *be, void *view) { (void)be, free(view); }

static void copy_late(struct be *be, void *dst, const void *src, size_t bytes)
{
    (void)be;
    assert_true(n_copies < COPIES);
    copies[n_copies] = (struct copy){dst, malloc(bytes), bytes};
    memcpy(copies[n_copies++].rows, src, bytes);
}

static int copy_now(struct be *be, struct err *e)
{
    for (int i = 0; i < n_copies; i++) {
        memcpy(copies[i].to, copies[i].rows, copies[i].bytes);
        free(copies[i].rows);
    }
    n_copies = 0;
    return backend_cpu.sync(be, e);
}

static void make_device(void)
{
    device = backend_cpu;
    device.asynchronous = 1;
    device.open = open_device;
    device.view = device_view, device.drop_view = drop_device_view;
    device.download = copy_late;
    device.wait_step = device.sync = copy_now;
}

/* ---- */

static void check_rule(int m, enum split_rule rule, int n, const struct forward_options *o,
                       const float *logits)
{
    const struct forward_place first =
                                   {n == 2 ? &device : &backend_cpu, "auto", NULL, 1, 0, o->act},
                               place[] = {first, cpu, cpu};
    const struct split_want want = want_of(rule, n);
    size_t bytes = run_bytes();
    float *got = calloc(1, bytes);
    struct forward f;
    struct err e;
    if (forward_open_places(&f, &model, place, &want, o, &e))
        fail_msg("%s by %s: %s", made[m].name, rule_name[rule], e.msg);
    check_is_split(f.places, n_moved[m][rule][n - 2]);
    check_readers(&f.places->split);
    assert_true(n == 3 || rule == SPLIT_OUTPUTS || f.places->landing);
    run(&f, got);
    if (memcmp(got, logits, bytes))
        fail_msg("%s on %d places by %s: other bits than those of one", made[m].name, n,
                 rule_name[rule]);
    forward_close(&f);
    free(got);
}

/* Places that have layers or experts of their own take together what one place takes; where
 * KV heads cannot be shared evenly each has all. */
static void check_need(enum split_rule rule, int n, const struct forward_options *o)
{
    const struct forward_place place[] = {cpu, cpu, cpu};
    const struct split_want want = want_of(rule, n);
    const struct step_plan *p = &model.plan;
    struct forward_need whole, need[3], sum = {0};
    uint64_t page = 0, buffers = 0;
    struct err e;
    forward_need(&model, &backend_cpu, o, &whole);
    if (forward_need_places(&model, place, &want, o, need, &e)) fail_msg("%s", e.msg);
    for (int q = 0; q < n; q++) {
        sum.mapped += need[q].mapped;
        sum.page += need[q].page;
        sum.state += need[q].state;
        sum.steps += need[q].steps;
        for (int k = 0; k < 2; k++) sum.read[k] += need[q].read[k];
        assert_true(need[q].steps > 0 && need[q].steps < 2 * whole.steps);
    }
    assert_true(sum.steps > whole.steps && sum.mapped >= whole.mapped);
    for (int i = 0; i < p->n_kv; i++) page += backend_cpu.kv_page_bytes(o->kv, &p->kv[i]);
    for (int i = 0; i < p->n_buffers; i++)
        buffers += p->buffer[i].row_bytes * (p->buffer[i].rows == ROWS_STEP     ? ROWS
                                             : p->buffer[i].rows == ROWS_LOGITS ? LOGITS
                                                                                : 0);
    assert_true(whole.page == page && whole.steps >= buffers && whole.steps < 2 * buffers);
    assert_true(whole.mapped > 0 && whole.page > 0 && whole.read[1] >= whole.read[0]);
    int own_heads = rule != SPLIT_OUTPUTS || model.config.n_kv_heads % n == 0;
    assert_int_equal(sum.page, own_heads ? whole.page : (uint64_t)n * whole.page);
    if (rule == SPLIT_OUTPUTS) return;
    assert_int_equal(sum.mapped, whole.mapped);
    assert_int_equal(sum.state, whole.state);
    for (int k = 0; k < 2; k++) assert_int_equal(sum.read[k], whole.read[k]);
}

/* ---- experts that come to place 0: the CPU in the part of a GPU, which says what may not be read
 * yet */

enum { SLOTS = 16, FETCHED = 256, AWAY = 64, PLANS = 64 };
static struct away {
    struct be_linear *w;
    int slot, has_come; /* since the last fetch into the slot */
} away[AWAY];
static int fetched[FETCHED]; /* of away, in order; -1 ends a fetch */
static int n_away, n_fetched, n_read, n_early;
static struct compiled {
    struct be_plan *plan;
    const struct step_plan *p;
    const struct plan_memory *m;
} compiled[PLANS];

static int pack_away(struct be *be, const struct linear *w, int slot, struct be_linear **out,
                     struct err *e)
{
    assert_true(slot >= 0 && slot < SLOTS && n_away < AWAY);
    if (backend_cpu.pack(be, w, out, e)) return -1;
    away[n_away++] = (struct away){*out, slot, 0};
    return 0;
}

static struct away *away_of(const struct be_linear *w)
{
    for (int i = 0; i < n_away; i++)
        if (away[i].w == w) return &away[i];
    return NULL;
}

static void fetch(struct be *be, struct be_linear *const *w, int n)
{
    (void)be;
    assert_true(n > 0 && n_fetched + n < FETCHED);
    for (int i = 0; i < n; i++) {
        struct away *a = away_of(w[i]);
        assert_non_null(a);
        for (int k = 0; k < n_away; k++)
            if (away[k].slot == a->slot) away[k].has_come = 0;
        fetched[n_fetched++] = (int)(a - away);
    }
    fetched[n_fetched++] = -1;
}

/* All but the last `later` fetches have come. */
static void await(struct be *be, int later)
{
    int end = n_fetched;
    (void)be;
    assert_true(later >= 0 && later <= 3);
    for (; later && end; later--)
        for (end--; end && fetched[end - 1] >= 0;) end--;
    for (int i = 0; i < end; i++)
        if (fetched[i] >= 0) away[fetched[i]].has_come = 1;
    memmove(fetched, fetched + end, (size_t)(n_fetched - end) * sizeof *fetched);
    n_fetched -= end;
}

static int note_plan(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                     struct be_plan **out, struct err *e)
{
    int i = 0;
    if (backend_cpu.compile(be, p, m, out, e)) return -1;
    while (i < PLANS && compiled[i].plan) i++;
    assert_true(i < PLANS);
    compiled[i] = (struct compiled){*out, p, m};
    return 0;
}

static void run_if_there(struct be *be, const struct be_plan *plan)
{
    for (int i = 0; i < PLANS; i++) {
        const struct step_plan *p = compiled[i].plan == plan ? compiled[i].p : NULL;
        for (int j = 0; p && j < p->n_ops; j++)
            for (int k = 0; k < p->op[j].n && p->op[j].kind == OP_EXPERTS; k++) {
                const struct away *a = away_of(compiled[i].m->linear[p->op[j].w[k]]);
                n_read += a != NULL;
                n_early += a && !a->has_come;
            }
    }
    backend_cpu.run(be, plan);
}

/* Where weights are copied: experts stay with the host, and those of two layers have room. */
static void check_streams_need(const struct forward_place *place, const struct split_want *want,
                               const struct forward_options *o, uint64_t steps)
{
    struct backend copying = device;
    copying.packed_bytes = linear_bytes;
    const struct forward_place of[] = {{&copying, "scalar", NULL, 1, 0, o->act}, place[1]};
    const struct step_plan *p = &model.plan;
    uint64_t layer[8] = {0}, experts = 0, most = 0, all = 0;
    struct forward_need need[2];
    struct err e;
    for (int i = 0; i < p->n_weights; i++)
        if (!p->weight[i].vector) all += linear_bytes(&p->weight[i].linear);
    for (int i = 0; i < p->n_ops; i++)
        for (int k = 0; k < p->op[i].n && p->op[i].kind == OP_EXPERTS && p->op[i].in[1] >= 0; k++)
            layer[p->op[i].layer] += linear_bytes(&p->weight[p->op[i].w[k]].linear);
    for (int i = 0; i < 8; i++) {
        experts += layer[i];
        most = layer[i] > most ? layer[i] : most;
    }
    assert_int_equal(forward_need_places(&model, of, want, o, need, &e), 0);
    assert_int_equal(need[0].away, experts);
    assert_int_equal(need[0].slots, 2 * most);
    assert_int_equal(need[0].steps, steps + 2 * most);
    assert_true(need[0].weights + experts == all && most > 0);
}

/* What a part of the whole plan says of the last reader of each result is what the whole says of
 * it, numbered from the part's begin; OP_KEPT: one behind the part reads it, or it lies where the
 * step's results are. */
static void check_stream_readers(const struct step_plan *whole)
{
    int n_parts = 0, n_kept = 0;
    for (int i = 0; i < PLANS; i++) {
        const struct step_plan *p = compiled[i].plan ? compiled[i].p : NULL;
        if (!p || p->whole != whole) continue;
        n_parts++;
        for (int j = 0; j < p->n_ops; j++)
            for (int k = 0; k < OP_OUTS; k++) {
                int last = whole->op[p->first + j].last[k];
                int to = p->op[j].out[k], at_end = to >= 0 && is_result(whole, to);
                int want = !at_end && last < p->first + p->n_ops ? last - p->first : OP_KEPT;
                assert_int_equal(p->op[j].last[k], want);
                n_kept += want == OP_KEPT;
            }
    }
    assert_true(n_parts > model.config.n_layers && n_kept > n_parts);
}

static void check_streams(const char *name, const struct forward_options *o, const float *logits)
{
    static const uint8_t of_layer[8], of_experts[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    device.pack_away = pack_away, device.fetch = fetch, device.await = await;
    device.compile = note_plan, device.run = run_if_there;
    const struct forward_place place[] = {{&device, "scalar", NULL, 1, 0, o->act}, cpu};
    const struct split_want want = {.rule = SPLIT_LAYERS,
                                    .n_places = 2,
                                    .streams = 1,
                                    .stream_rows = 2,
                                    .of_layer = of_layer,
                                    .of_experts = of_experts};
    size_t bytes = run_bytes();
    float *got = calloc(1, bytes);
    struct forward_need whole, need[2];
    struct forward f;
    struct err e;
    n_away = n_fetched = n_read = n_early = 0;
    memset(compiled, 0, sizeof compiled);
    forward_need(&model, &backend_cpu, o, &whole);
    if (forward_need_places(&model, place, &want, o, need, &e)) fail_msg("%s: %s", name, e.msg);
    assert_int_equal(need[0].steps, whole.steps); /* it computes whole steps, too */
    check_streams_need(place, &want, o, need[0].steps);
    if (forward_open_places(&f, &model, place, &want, o, &e)) fail_msg("%s: %s", name, e.msg);
    assert_int_equal(n_away, 3 * model.config.n_layers);
    check_stream_readers(&f.plan);
    run(&f, got);
    assert_true(n_read > 0 && n_early == 0);
    assert_memory_equal(got, logits, bytes);
    f.places->stream_rows = ROWS; /* more than any step has */
    n_read = 0;
    run(&f, got);
    assert_int_equal(n_read, 0);
    assert_memory_equal(got, logits, bytes);
    forward_close(&f);
    free(got);
}

static void places_have_the_bits_of_one(void **state)
{
    (void)state;
    for (int i = 0; i < N_MADE; i++) {
        struct forward_options o = options_of(i ? KV_INT4 : KV_INT8);
        const int experts = made[i].json != NULL;
        struct forward one;
        struct err e;
        if (shape_open(&model, &made[i], 0, &e)) fail_msg("%s: %s", made[i].name, e.msg);
        float *logits = calloc(1, run_bytes());
        if (forward_open(&one, &model, &backend_cpu, &o, &e))
            fail_msg("%s: %s", made[i].name, e.msg);
        run(&one, logits);
        forward_close(&one);
        make_device();
        for (enum split_rule rule = SPLIT_LAYERS; rule <= SPLIT_EXPERTS; rule++)
            for (int n = 2; n <= 3 && (experts || rule != SPLIT_EXPERTS); n++) {
                check_rule(i, rule, n, &o, logits);
                check_need(rule, n, &o);
            }
        if (experts) check_streams(made[i].name, &o, logits);
        free(logits);
        shape_close(&model);
    }
}

static void wrong_splits_are_refused(void **state)
{
    const struct split_want one = {.rule = SPLIT_LAYERS, .n_places = 1},
                            many = {.rule = SPLIT_OUTPUTS, .n_places = PLACES + 1},
                            falls = {
                                .rule = SPLIT_EXPERTS, .n_places = 3, .first_layer = {0, 2, 1}};
    const struct split_want *const wrong[] = {&one, &many, &falls};
    struct split s;
    struct err e;
    (void)state;
    assert_int_equal(shape_open(&model, &made[0], 0, &e), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(split_plan(&model.plan, wrong[i], &s, &e), -1);
        assert_non_null(strstr(e.msg, i < 2 ? "2 to" : "do not ascend"));
    }
    const struct split_want most = {.rule = SPLIT_OUTPUTS, .n_places = PLACES};
    assert_int_equal(split_plan(&model.plan, &most, &s, &e), 0);
    split_free(&s);
    shape_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_have_the_bits_of_one),
                                       cmocka_unit_test(wrong_splits_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
