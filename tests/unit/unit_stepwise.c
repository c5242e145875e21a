/* unit_stepwise.c: a plan that runs operation by operation, on a backend that only writes down what
 * it is asked for: order, hooks, what is left out, and that all of it is dropped again. */
#include "core/step/plan.h"
#include "core/step/stepwise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OPS = 5, BODY = 3, LACKED = 1 };

/* What happened in a run: 'b' before, 'r' run, 'a' after, each with the operation's number. */
static char happened[8 * OPS];
static int n_open, fails_at; /* compiled and not dropped */
static struct be inner;
static const struct batch *batch;

/* A compiled operation is a copy of its layer, which is its number in the plan. */
static int compile(struct be *be, const struct step_plan *p, const struct plan_memory *m,
                   struct be_plan **out, struct err *e)
{
    assert_true(be == &inner && !m && p->n_ops == 1);
    if (p->op[0].layer == fails_at) return err_set(e, "no room for it");
    int *plan = malloc(sizeof *plan);
    assert_non_null(plan);
    *plan = p->op[0].layer;
    *out = (struct be_plan *)plan;
    n_open++;
    return 0;
}

static void drop_plan(struct be *be, struct be_plan *p)
{
    assert_true(be == &inner && p != NULL);
    free(p);
    n_open--;
}

static void note(char what, int op)
{
    char text[] = {what, (char)('0' + op), 0};
    assert_true(strlen(happened) + 2 < sizeof happened);
    strcat(happened, text);
}

static void run(struct be *be, const struct be_plan *p) { (void)be, note('r', *(const int *)p); }

static const struct backend ops = {.kinds = ~(1u << OP_GLU),
                                   .compile = compile,
                                   .drop_plan = drop_plan,
                                   .run = run};

static void check_call(struct be *be, const struct stepwise_call *c)
{
    assert_true(be == &inner && c->self == happened && c->batch == batch && !c->memory);
    assert_true(c->op == &c->plan->op[c->op->layer]);
}
static void before(struct be *be, const struct stepwise_call *c)
{
    check_call(be, c);
    note('b', c->op->layer);
}
static void after(struct be *be, const struct stepwise_call *c)
{
    check_call(be, c);
    note('a', c->op->layer);
}

/* Operations that are compiled are changed; the plan itself is not. */
static int n_changed;
static void change(struct op *op) { op->n = 77, n_changed++; }

static void make(struct step_plan *p)
{
    struct err e;
    step_plan_init(p);
    for (int i = 0; i < 2; i++) step_plan_add_buffer(p, "b", ROWS_STEP, 16, &e);
    for (int i = 0; i < OPS; i++) {
        struct op op = op_of(i == LACKED ? OP_GLU : OP_NORM, "op", i);
        op.in[0] = i % 2;
        op.out[0] = 1 - i % 2;
        assert_true(step_plan_add_op(p, &op, &e) >= 0);
    }
    p->n_body = BODY;
    step_plan_liveness(p, 0);
}

static void check_run(const struct stepwise_hooks *hooks, const struct be_plan *plan,
                      const struct batch *b, const char *want)
{
    happened[0] = 0;
    batch = b;
    stepwise_run(&inner, &ops, hooks, plan, b);
    assert_string_equal(happened, want);
}

static void operations_run_in_order(void **state)
{
    const struct stepwise_hooks hooks = {change, before, after, happened}, none = {0};
    const struct batch body = {.n_rows = 1}, logits = {.n_rows = 1, .n_logits = 1},
                       top = {.n_rows = 1, .n_top = 1};
    struct step_plan p;
    struct be_plan *plan;
    struct err e;
    (void)state;
    make(&p);
    fails_at = -1;
    assert_int_equal(stepwise_compile(&inner, &ops, &hooks, &p, NULL, &plan, &e), 0);
    assert_int_equal(n_open, OPS - 1);
    assert_int_equal(n_changed, OPS - 1);
    assert_int_not_equal(p.op[0].n, 77);
    check_run(&hooks, plan, &body, "b0r0a0b1a1b2r2a2");
    check_run(&hooks, plan, &logits, "b0r0a0b1a1b2r2a2b3r3a3b4r4a4");
    check_run(&none, plan, &top, "r0r2r3r4");
    happened[0] = 0;
    for (int i = 0; i < OPS; i++) stepwise_run_one(&inner, &ops, plan, i);
    assert_string_equal(happened, "r0r2r3r4");
    stepwise_drop(&inner, &ops, plan);
    assert_int_equal(n_open, 0);
    stepwise_drop(&inner, &ops, NULL);
    step_plan_free(&p);
}

/* An operation that is refused: its error, and the ones before it are dropped. */
static void refused_operations_leave_nothing(void **state)
{
    struct step_plan p;
    struct be_plan *plan = NULL;
    (void)state;
    make(&p);
    for (fails_at = 0; fails_at < OPS; fails_at++) {
        struct err e = {.msg = ""};
        int rc = stepwise_compile(&inner, &ops, NULL, &p, NULL, &plan, &e);
        assert_int_equal(rc, fails_at == LACKED ? 0 : -1);
        if (rc) assert_string_equal(e.msg, "no room for it");
        else stepwise_drop(&inner, &ops, plan);
        assert_int_equal(n_open, 0);
    }
    step_plan_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_run_in_order),
                                       cmocka_unit_test(refused_operations_leave_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
