/* unit_place.c: the memory of a plan on a backend that only counts it: sizes by hand of a whole
 * plan and of a part of one, what is allocated and given back, also where any of it is refused; and
 * a run that needs as much as there is, or a byte more. The folder is the project's root. */
#include "backend-cpu/cpu_internal.h"
#include "bench/shape.h"
#include "core/run/forward.h"
#include "core/run/place.h"
#include "core/step/kv_open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VECTOR, LINEAR, OTHER_VECTOR, STACK, N_WEIGHTS };
enum { STEP, LOGITS, TOP, SCORES, BEST, SPARE, N_BUFFERS };
enum { N_KV = 2, N_STATES = 3, SCRATCH = 1000, PACKED = 7000, PAGE_BYTES = 320 };
static const float values[] = {1, 2, 3}, longer[] = {4, 5, 6};
static const uint16_t rows[8 * 16];

static int n_held, n_packed, fails_at, n_asked, counts_host;
static size_t allocated;
static uint64_t available_bytes;

/* The number of a request that is refused counts allocations, also the host's by calloc in
 * place_bind (tests.mk: -Wl,--wrap), and packed linears. */
static int refused(void) { return n_asked++ == fails_at; }

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return counts_host && refused() ? NULL : __real_calloc(n, size);
}

static void *get(struct be *be, size_t bytes)
{
    (void)be;
    if (refused()) return NULL;
    n_held++;
    allocated += bytes;
    return __real_calloc(1, bytes);
}
static void release(struct be *be, void *d)
{
    (void)be;
    n_held -= d != NULL;
    free(d);
}
static void upload(struct be *be, void *to, const void *from, size_t n)
{
    (void)be;
    memcpy(to, from, n);
}
static int pack(struct be *be, const struct linear *w, struct be_linear **out, struct err *e)
{
    (void)be, (void)w;
    if (refused()) return err_memory(e);
    n_packed++;
    *out = malloc(1);
    return 0;
}
static void drop(struct be *be, struct be_linear *w)
{
    (void)be;
    n_packed--;
    free(w);
}
static int sync_ok(struct be *be, struct err *e) { return (void)be, (void)e, 0; }
static uint64_t packed_bytes(const struct linear *w) { return w->stack ? 2 * PACKED : PACKED; }
static uint64_t scratch(const struct be_config *c, const struct step_plan *p)
{
    return (void)c, (void)p, SCRATCH;
}
static size_t page_bytes(enum kv_type t, const struct kv_cache *kv)
{
    return (size_t)kv->n_kv_heads * (t == KV_INT4 ? PAGE_BYTES : 2 * PAGE_BYTES);
}

static const struct backend ops = {.kinds = ~0u,
                                   .keeps_drafts = 2,
                                   .packed_bytes = packed_bytes,
                                   .scratch_bytes = scratch,
                                   .kv_page_bytes = page_bytes,
                                   .alloc = get,
                                   .free = release,
                                   .upload = upload,
                                   .pack = pack,
                                   .drop = drop,
                                   .sync = sync_ok};
static struct be be = {&ops};
static const struct forward_options options = {.kv = KV_INT4,
                                               .n_pages = 5,
                                               .max_rows = 7,
                                               .max_logits = 3,
                                               .max_seqs = 2,
                                               .max_pages = 4,
                                               .n_states = 6,
                                               .keeps_drafts = 1};

static void add(struct step_plan *p, struct op op)
{
    struct err e;
    assert_true(step_plan_add_op(p, &op, &e) >= 0);
}

/* Operations that use one weight of each kind, the first cache, two states of three, all buffers
 * but the last. */
static void make(struct step_plan *p, int is_part)
{
    static const struct weight of[N_WEIGHTS] = {
        {.vector = values, .n = 3, .longer = longer, .longer_from = 48},
        {.linear = {.in = 8, .out = 16, .k = 8, .weight = rows, .weight_type = DT_F16}},
        {.vector = values, .n = 3},
        {.linear = {.in = 8, .out = 4, .k = 8, .stack = 4, .weight = rows, .weight_type = DT_F16}}};
    static const enum rows_of rows_of[N_BUFFERS] = {ROWS_STEP,   ROWS_LOGITS, ROWS_TOP,
                                                    ROWS_SCORES, ROWS_LOGITS, ROWS_STEP};
    static const size_t row_bytes[N_BUFFERS] = {16, 384, 32, 24, 4, 64};
    struct err e;
    step_plan_init(p);
    for (int i = 0; i < N_BUFFERS; i++) step_plan_add_buffer(p, "b", rows_of[i], row_bytes[i], &e);
    for (int i = 0; i < N_WEIGHTS; i++) step_plan_add_weight(p, &of[i], &e);
    p->kv = calloc(N_KV, sizeof *p->kv);
    p->state = calloc(N_STATES, sizeof *p->state);
    p->n_kv = N_KV, p->n_states = N_STATES;
    for (int i = 0; i < N_KV; i++) p->kv[i] = (struct kv_cache){1 + i, 24, 0};
    for (int i = 0; i < N_STATES; i++)
        p->state[i] = (struct state){(size_t)100 << 2 * i, (size_t)8 << i};
    struct op norm = op_of(OP_NORM, "norm", 0), linear = op_of(OP_LINEAR, "linear", 0),
              attend = op_of(OP_ATTEND, "attend", 0), conv = op_of(OP_CONV, "conv", 0),
              delta = op_of(OP_DELTA, "delta", 0), top = op_of(OP_TOP, "top", 0),
              score = op_of(OP_SCORE, "score", 0), best = op_of(OP_ARGMAX, "best", 0);
    norm.w[0] = VECTOR, norm.in[0] = norm.out[0] = STEP;
    linear.w[0] = LINEAR, linear.n = 1, linear.in[0] = STEP, linear.out[0] = LOGITS;
    attend.as.attend.kv = 0, conv.as.conv.state = 0, delta.as.delta.state = 1;
    top.in[0] = score.in[0] = best.in[0] = LOGITS;
    top.out[0] = TOP, score.out[0] = SCORES, best.out[0] = BEST;
    const struct op all[] = {norm, attend, conv, delta, linear, best, top, score};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) add(p, all[i]);
    p->n_body = 4;
    p->logits = LOGITS, p->top = TOP, p->score = SCORES, p->best = BEST;
    p->is_part = is_part;
}

/* Bytes of buffers by hand; those of choices and scores have a part of the device and two of the
 * host. */
static uint64_t buffers_of(int is_part)
{
    return 7 * 16 + 3 * 384 + 3 * 32 + 3 * 3 * 24 + 3 * 3 * 4 + (is_part ? 0 : 7 * 64);
}

/* Of an open page of 24 elements, which take 32, and one or two heads. */
static uint64_t open_of(int heads)
{
    return kv_open_bytes(KV_INT4, &(struct kv_cache){.n_kv_heads = heads, .head_dim = 32});
}

static void parts_need_what_they_use(void **state)
{
    (void)state;
    for (int part = 0; part < 2; part++) {
        struct forward_options o = options;
        struct forward_need n;
        struct step_plan p;
        make(&p, part);
        place_need(&p, &ops, &o, &n);
        uint64_t linears = 8 * 16 * 2, kept = 2 * STATE_DRAFTS * 2 * (8 + 16 + (part ? 0 : 32)),
                 masks = 3 * 3 * 4, open = 2 * (open_of(1) + (part ? 0 : open_of(2)));
        assert_int_equal(n.weights, part ? PACKED : 3 * PACKED);
        assert_int_equal(n.mapped, part ? linears : 2 * linears);
        assert_int_equal(n.page, (part ? 1 : 3) * PAGE_BYTES);
        assert_int_equal(n.state, 100 + 400 + (part ? 0 : 1600));
        assert_int_equal(n.steps, SCRATCH + buffers_of(part) + masks + open + kept);
        assert_int_equal(n.read[0], linears);
        assert_int_equal(n.read[1], linears);
        assert_int_equal(place_kv_bytes(&p, &ops, KV_F16, 5), 5 * (part ? 2 : 6) * PAGE_BYTES);
        assert_int_equal(place_seat_bytes(&p, KV_F16), 0);
        o.keeps_drafts = 0;
        place_need(&p, &ops, &o, &n);
        assert_int_equal(n.steps, SCRATCH + buffers_of(part) + masks + open);
        p.top = p.score = -1; /* of a backend that lacks them */
        assert_int_equal(place_buffer_bytes(&p, TOP, &o), 0);
        assert_int_equal(place_buffer_bytes(&p, SCORES, &o), 0);
        assert_int_equal(place_buffer_bytes(&p, BEST, &o), 3 * 3 * 4);
        step_plan_free(&p);
    }
}

/* Experts by chance: of 4 one row of two reads a half, so many that all are read nearly all. */
static void chosen_experts_are_read(void **state)
{
    struct op op = op_of(OP_EXPERTS, "experts", 0), norm = op_of(OP_NORM, "norm", 0);
    struct step_plan p;
    uint64_t all = 4 * 8 * 4 * 2;
    (void)state;
    make(&p, 0);
    op.w[0] = STACK, op.n = 1, op.as.experts.top_k = 2;
    assert_int_equal(place_op_reads(&p, &op, 1), all / 2);
    assert_int_equal(place_op_reads(&p, &op, 2), all * 3 / 4);
    assert_in_range(place_op_reads(&p, &op, 64), all - 1, all);
    op.as.experts.top_k = 4;
    assert_int_equal(place_op_reads(&p, &op, 1), all);
    assert_int_equal(place_op_reads(&p, &norm, 1), 0);
    step_plan_free(&p);
}

static void check_bound(const struct step_plan *p, const struct plan_memory *m, int part)
{
    struct forward_need n;
    uint64_t vectors = (part ? 1 : 2) * sizeof values, masks = 3 * 3 * 4;
    place_need(p, &ops, &options, &n);
    assert_int_equal(allocated, vectors + 5 * n.page + 6 * n.state + n.steps - SCRATCH - masks);
    assert_int_equal(n_packed, part ? 1 : 2);
    assert_true(m->linear[LINEAR] && !m->linear[VECTOR] && m->vector[VECTOR]);
    assert_true(m->kv[0] && m->seat[0] && m->state[1] && m->kept[1]);
    const void *const spare[] = {
        m->linear[STACK], m->vector[OTHER_VECTOR], m->kv[1], m->seat[1], m->state[2],
        m->kept[2],       m->buffer[SPARE]};
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        assert_int_equal(spare[i] == NULL, part);
    assert_memory_equal(m->vector[VECTOR], longer, sizeof longer); /* 64 positions are over 48 */
}

/* Each request is refused once: an error about memory, and nothing is kept. */
static void all_is_given_back(void **state)
{
    (void)state;
    for (int part = 0; part < 2; part++) {
        int n_kv_errors = 0, rc = -1;
        struct step_plan p;
        make(&p, part);
        for (fails_at = 0; rc; fails_at++) {
            struct plan_memory m = {0};
            struct err e = {.msg = ""};
            n_asked = 0, allocated = 0;
            counts_host = 1;
            rc = place_bind(&be, &p, &options, &m, &e);
            counts_host = 0;
            if (rc) assert_true(err_is_memory(&e));
            else check_bound(&p, &m, part);
            n_kv_errors += strstr(e.msg, "the KV cache needs 0 MiB for 80 positions") != NULL;
            place_release(&be, &p, &m);
            assert_true(!n_held && !n_packed && !m.buffer && !m.linear);
        }
        assert_int_equal(fails_at - 1, n_asked);
        assert_int_equal(n_kv_errors, part ? 1 : 2);
        step_plan_free(&p);
    }
}

/* Microbatches: packed weights are lent, the rest is their own; short frequencies up to 48. */
static void weights_are_lent(void **state)
{
    struct forward_options o = options;
    struct plan_memory first = {0}, second = {.lender = &first};
    struct step_plan p;
    struct err e;
    (void)state;
    make(&p, 0);
    fails_at = -1;
    o.context = 48;
    assert_int_equal(place_bind(&be, &p, &o, &first, &e), 0);
    assert_memory_equal(first.vector[VECTOR], values, sizeof values);
    int held = n_held;
    assert_int_equal(place_bind(&be, &p, &o, &second, &e), 0);
    assert_int_equal(n_packed, 2);
    assert_ptr_equal(second.linear[STACK], first.linear[STACK]);
    assert_ptr_equal(second.vector[VECTOR], first.vector[VECTOR]);
    assert_ptr_not_equal(second.kv[1], first.kv[1]);
    place_release(&be, &p, &second);
    assert_int_equal(n_held, held);
    assert_int_equal(n_packed, 2);
    place_release(&be, &p, &first);
    assert_true(!n_held && !n_packed);
    step_plan_free(&p);
}

/* ---- a run fits the memory that there is, or not */

static int say_available(const struct be_config *c, uint64_t *bytes, struct err *e)
{
    (void)c, (void)e;
    *bytes = available_bytes;
    return 0;
}

static void runs_fit_to_the_byte(void **state)
{
    static const struct shape shape = {"dense", 1, 128, 128, 4, 2, 32, 96, 256, 64, NULL, NULL, 0};
    struct forward_options o = {.variant = "scalar",
                                .n_threads = 1,
                                .act = ACT_I16,
                                .kv = KV_INT8,
                                .n_pages = 3,
                                .max_rows = 4,
                                .max_logits = 2,
                                .max_seqs = 2,
                                .max_pages = 2};
    struct backend device = backend_cpu;
    struct forward_need n;
    struct forward f;
    struct model model;
    struct err e;
    (void)state;
    device.available = say_available;
    device.packed_bytes = linear_bytes;
    if (shape_open(&model, &shape, 0, &e)) fail_msg("%s", e.msg);
    forward_need(&model, &device, &o, &n);
    uint64_t whole = n.weights + 3 * n.page + n.steps;
    assert_int_equal(forward_kv_bytes(&model, &device, KV_INT8, 3), 3 * n.page);
    for (int i = -1; i <= 1; i++) {
        available_bytes = whole + (uint64_t)i;
        int rc = forward_open(&f, &model, &device, &o, &e);
        assert_int_equal(rc, i < 0 ? -1 : 0);
        if (!rc) forward_close(&f);
        else assert_true(err_is_memory(&e));
    }
    available_bytes = 0; /* unknown */
    assert_int_equal(forward_open(&f, &model, &device, &o, &e), 0);
    forward_close(&f);
    available_bytes = 3 << 20;
    o.n_pages = 1 << 16;
    char text[256];
    forward_need(&model, &device, &o, &n);
    snprintf(text, sizeof text,
             "out of memory: weights %.0f MiB, KV cache %.0f MiB for 1048576 positions, steps %.0f "
             "MiB: more than the 3 MiB that are free",
             (double)n.weights / (1 << 20), (double)n.page / 16, (double)n.steps / (1 << 20));
    assert_int_equal(forward_open(&f, &model, &device, &o, &e), -1);
    assert_string_equal(e.msg, text);
    device.kv_types &= ~(1u << KV_INT8);
    assert_int_equal(forward_open(&f, &model, &device, &o, &e), -1);
    assert_non_null(strstr(e.msg, "has no --kv int8"));
    shape_close(&model);
}

/* A backend has room for the largest of its plans by each measure, whichever comes first. */
static void every_plan_has_its_scratch(void **state)
{
    static const int width[][2] = {{64, 8}, {64, 512}, {2048, 8}, {16, 4}}; /* inputs, keys */
    const struct be_config c = {.variant = "scalar", .n_threads = 1, .max_rows = 4};
    struct be_plan *compiled[4];
    struct be *own;
    struct err e;
    int k = 0, kv = 0;
    (void)state;
    assert_int_equal(backend_cpu.open(&own, &c, &e), 0);
    const struct cpu *cpu = (const struct cpu *)own;
    for (int i = 0; i < 4; i++) {
        struct weight w = {.linear = {.in = width[i][0], .k = width[i][0], .out = 16}};
        struct kv_cache keys = {.n_kv_heads = 1, .head_dim = width[i][1]};
        const struct step_plan p = {.weight = &w, .n_weights = 1, .kv = &keys, .n_kv = 1};
        const struct plan_memory m = {0};
        assert_int_equal(backend_cpu.compile(own, &p, &m, &compiled[i], &e), 0);
        k = width[i][0] > k ? width[i][0] : k;
        kv = width[i][1] > kv ? width[i][1] : kv;
        assert_true(cpu->max_k >= k && cpu->max_kv >= kv);
        memset(cpu->packed, 1, (size_t)c.max_rows * (size_t)k * sizeof(float));
        memset(cpu->rotated, 1, (size_t)c.max_rows * (size_t)kv * sizeof(float));
    }
    for (int i = 0; i < 4; i++) backend_cpu.drop_plan(own, compiled[i]);
    backend_cpu.close(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_need_what_they_use), cmocka_unit_test(chosen_experts_are_read),
        cmocka_unit_test(all_is_given_back),        cmocka_unit_test(weights_are_lent),
        cmocka_unit_test(runs_fit_to_the_byte),     cmocka_unit_test(every_plan_has_its_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
