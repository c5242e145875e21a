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
        cmocka_unit_test(tops_are_dropped_wherever_they_are),
        cmocka_unit_test(slices_know_the_whole),
        cmocka_unit_test(other_heads_are_refused),
        cmocka_unit_test(plain_linears_of_a_shared_expert_follow_the_router),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
