/* unit_plan.c: plans that are copied, cut and put in another order: the last readers of results,
 * what must not be moved, the order of launches of the GPU backend. */
#include "backend-cpu/cpu.h"
#include "backend-hip/hip_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { X, NORMED, SCORES, IDS, GATE, UP, OUT, LOGITS, BEST, TOP, N_BUFFERS };

/* Valid until the next one. */
static struct op *add(struct step_plan *p, enum op_kind kind, const char *name, int in, int out)
{
    struct op op = op_of(kind, name, 0);
    struct err e;
    op.in[0] = in;
    op.out[0] = out;
    int i = step_plan_add_op(p, &op, &e);
    return &p->op[i];
}

/* norm, router, choice, a linear of two weights of the same input, its SwiGLU, head, argmax, top;
 * the weights are of fp16, or quantized. */
static void make(struct step_plan *p, int plain, enum op_kind last)
{
    static const uint8_t code[8];
    struct weight w = {.linear = {.weight = plain ? code : NULL, .codes = plain ? NULL : code}};
    struct err e;
    step_plan_init(p);
    for (int i = 0; i < N_BUFFERS; i++) step_plan_add_buffer(p, "b", ROWS_STEP, 16, &e);
    for (int i = 0; i < 4; i++) step_plan_add_weight(p, &w, &e);
    add(p, OP_NORM, "norm", X, NORMED);
    add(p, OP_LINEAR, "router", NORMED, SCORES)->w[0] = 0;
    add(p, OP_ROUTE, "route", SCORES, IDS);
    struct op *shared = add(p, OP_LINEAR, "shared", NORMED, GATE);
    shared->n = 2;
    shared->out[1] = UP;
    shared->w[0] = 1;
    shared->w[1] = 2;
    add(p, OP_GLU, "glu", GATE, GATE)->in[1] = UP;
    p->n_body = 5;
    add(p, OP_LINEAR, "head", GATE, LOGITS)->w[0] = 3;
    add(p, last == OP_TOP ? OP_ARGMAX : OP_TOP, "best", LOGITS, last == OP_TOP ? BEST : TOP);
    add(p, last, "top", LOGITS, last == OP_TOP ? TOP : BEST);
    p->logits = LOGITS;
    p->best = BEST;
    p->top = TOP;
    step_plan_liveness(p, 0);
}

static void moves_keep_the_readers(void **state)
{
    struct step_plan p, q;
    struct err e;
    (void)state;
    make(&p, 1, OP_TOP);
    assert_int_equal(p.op[0].last[0], 3);
    assert_int_equal(step_plan_copy(&p, &q, &e), 0);
    assert_int_equal(step_plan_move_up(&q, 3, 2), 1);
    assert_string_equal(q.op[2].name, "shared");
    assert_string_equal(q.op[3].name, "route");
    assert_int_equal(q.op[0].last[0], 2);             /* the norm */
    assert_int_equal(q.op[1].last[0], 3);             /* scores */
    assert_int_equal(q.op[2].last[1], 4);             /* up */
    assert_int_equal(q.op[5].last[0], OP_KEPT);       /* logits */
    assert_string_equal(p.op[3].name, "shared");      /* the original */
    assert_int_equal(step_plan_move_up(&q, 4, 2), 0); /* SwiGLU reads the linear's result */
    assert_int_equal(step_plan_move_up(&q, 1, 0), 0); /* the router reads the norm's */
    assert_int_equal(step_plan_move_up(&q, 5, 0), 0); /* n_body lies between */
    q.op[3].out[0] = NORMED; /* a choice that overwrote what the linear reads */
    q.op[2] = p.op[2], q.op[2].out[0] = NORMED, q.op[3] = p.op[3];
    assert_int_equal(step_plan_move_up(&q, 3, 2), 0);
    step_plan_free_slice(&q);
    step_plan_free(&p);
}

/* What each operation finds, by its layer, if every result depends on the operation, on all that it
 * reads and on what its buffer had before: two plans are equal only if each operation reads and
 * overwrites the same. */
static void find_results(const struct step_plan *p, uint32_t *found)
{
    uint32_t value[N_BUFFERS];
    for (int i = 0; i < N_BUFFERS; i++) value[i] = (uint32_t)i;
    for (int i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        uint32_t mixed = ((uint32_t)op->layer + 1) * 0x85ebca6bu;
        for (int k = 0; k < OP_INS; k++)
            mixed = (mixed ^ (op->in[k] < 0 ? 77 : value[op->in[k]])) * 0x9e3779b1u + mixed / 7;
        found[op->layer] = mixed;
        for (int k = 0; k < OP_OUTS; k++)
            if (op->out[k] >= 0) value[op->out[k]] = value[op->out[k]] * 31 + mixed + (uint32_t)k;
    }
    memcpy(found + p->n_ops, value, sizeof value);
}

/* The last operation that reads what i leaves in a buffer; i: none. */
static int reader_of(const struct step_plan *p, int i, int buffer)
{
    int last = i;
    for (int j = i + 1; j < p->n_ops; j++) {
        for (int k = 0; k < OP_INS; k++)
            if (p->op[j].in[k] == buffer) last = j;
        for (int k = 0; k < OP_OUTS; k++)
            if (p->op[j].out[k] == buffer) return last;
    }
    return last;
}

static void make_random(struct step_plan *p, int n)
{
    struct err e;
    step_plan_init(p);
    for (int i = 0; i < N_BUFFERS; i++) step_plan_add_buffer(p, "b", ROWS_STEP, 16, &e);
    for (int i = 0; i < n; i++) {
        struct op op = op_of(OP_LINEAR, "random", i);
        for (int k = 0; k < 2; k++) {
            op.in[k] = rand() % (N_BUFFERS + 1) - 1;
            op.out[k] = rand() % (N_BUFFERS + 1) - 1;
        }
        step_plan_add_op(p, &op, &e);
    }
    p->n_body = n;
    step_plan_liveness(p, 0);
}

/* A move is made exactly where all operations find the same afterwards. */
static void moves_change_no_result(void **state)
{
    enum { OPS = 5, PLANS = 4000 };
    int n_moved = 0;
    (void)state;
    srand(3);
    for (int n = 0; n < PLANS; n++) {
        uint32_t before[OPS + N_BUFFERS], after[OPS + N_BUFFERS];
        struct step_plan p, moved;
        struct err e;
        int from = rand() % OPS, to = rand() % (from + 1);
        make_random(&p, OPS);
        assert_int_equal(step_plan_copy(&p, &moved, &e), 0);
        const struct op op = moved.op[from];
        memmove(moved.op + to + 1, moved.op + to, (size_t)(from - to) * sizeof op);
        moved.op[to] = op;
        find_results(&p, before);
        find_results(&moved, after);
        int same = !memcmp(before, after, sizeof before);
        assert_int_equal(step_plan_move_up(&p, from, to), same);
        for (int i = 0; i < OPS; i++) assert_int_equal(p.op[i].layer, same ? moved.op[i].layer : i);
        for (int i = 0; i < OPS; i++)
            for (int k = 0; k < OP_OUTS; k++)
                assert_int_equal(p.op[i].last[k],
                                 p.op[i].out[k] < 0 ? i : reader_of(&p, i, p.op[i].out[k]));
        n_moved += same && from > to;
        step_plan_free_slice(&moved);
        step_plan_free(&p);
    }
    assert_true(n_moved > PLANS / 20);
}

static void tops_are_dropped_wherever_they_are(void **state)
{
    static const enum op_kind last[] = {OP_TOP, OP_ARGMAX};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct step_plan p, q;
        struct err e;
        make(&p, 1, last[i]);
        assert_int_equal(step_plan_copy(&p, &q, &e), 0);
        step_plan_drop(&q, OP_TOP);
        assert_int_equal(q.n_ops, 7);
        assert_int_equal(q.n_body, 5);
        assert_int_equal(q.top, NO_BUFFER);
        assert_int_equal(q.op[6].kind, OP_ARGMAX);
        assert_int_equal(q.op[6].last[0], OP_KEPT);
        assert_int_equal(p.n_ops, 8);
        step_plan_free_slice(&q);
        step_plan_free(&p);
    }
}

static void slices_know_the_whole(void **state)
{
    struct step_plan p, half, norm;
    struct err e;
    (void)state;
    make(&p, 1, OP_TOP);
    assert_int_equal(hip_first_fed(&p, 0), 0);
    assert_int_equal(hip_first_fed(&p, 1), NO_WEIGHT); /* a choice reads the scores */
    assert_int_equal(hip_first_fed(&p, 4), 3);
    assert_int_equal(step_plan_slice(&p, 3, 2, &half, &e), 0);
    assert_int_equal(step_plan_slice(&half, 1, 1, &norm, &e), 0);
    assert_ptr_equal(norm.whole, &p);
    assert_int_equal(norm.first, 4);
    assert_int_equal(hip_first_fed(&norm, 0), 3);
    assert_int_equal(hip_first_fed(&half, 1), 3);
    step_plan_free_slice(&norm);
    step_plan_free_slice(&half);
    step_plan_free(&p);
}

static void plain_linears_of_a_shared_expert_follow_the_router(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct step_plan p, q;
        struct err e;
        make(&p, plain, OP_TOP);
        assert_int_equal(hip_order(&p, &q, &e), 0);
        assert_string_equal(q.op[2].name, plain ? "shared" : "route");
        assert_string_equal(q.op[3].name, plain ? "route" : "shared");
        step_plan_free_slice(&q);
        p.op[3].in[0] = IDS; /* a linear of another input */
        assert_int_equal(hip_order(&p, &q, &e), 0);
        assert_string_equal(q.op[2].name, "route");
        step_plan_free_slice(&q);
        p.op[3].in[0] = NORMED;
        p.op[3].layer = 1; /* of the next layer */
        assert_int_equal(hip_order(&p, &q, &e), 0);
        assert_string_equal(q.op[2].name, "route");
        step_plan_free_slice(&q);
        step_plan_free(&p);
    }
}

/* Sizes of heads that nobody computes yet are refused by name. */
static void other_heads_are_refused(void **state)
{
    static const struct heads heads[] = {
        {2, 1, 16, 0, 0}, {2, 1, 16, 16, 16}, {2, 1, 16, 8, 0}, {2, 1, 16, 0, 8}};
    const struct be_config c = {
        .variant = "scalar", .n_threads = 1, .max_rows = 1, .max_seqs = 1, .max_pages = 1};
    struct be *be;
    struct err e;
    (void)state;
    assert_int_equal(backend_cpu.open(&be, &c, &e), 0);
    for (int i = 0; i < 4; i++) {
        struct step_plan p;
        struct plan_memory m = {0};
        struct be_plan *compiled = NULL;
        step_plan_init(&p);
        for (int k = 0; k < 2; k++) step_plan_add_buffer(&p, "b", ROWS_STEP, 128, &e);
        step_plan_add_kv(&p, (struct kv_cache){1, 16, 0}, &e);
        add(&p, OP_ATTEND, "attend", 0, 1)->as.attend.heads = heads[i];
        assert_int_equal(heads_are_plain(&heads[i]), i < 2);
        assert_int_equal(backend_cpu.compile(be, &p, &m, &compiled, &e), i < 2 ? 0 : -1);
        if (i >= 2) assert_non_null(strstr(e.msg, "another size"));
        else backend_cpu.drop_plan(be, compiled);
        step_plan_free(&p);
    }
    backend_cpu.close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_keep_the_readers),
        cmocka_unit_test(moves_change_no_result),
        cmocka_unit_test(tops_are_dropped_wherever_they_are),
        cmocka_unit_test(slices_know_the_whole),
        cmocka_unit_test(other_heads_are_refused),
        cmocka_unit_test(plain_linears_of_a_shared_expert_follow_the_router),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
