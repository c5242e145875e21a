/* unit_key_bias.c: keys with biases of up to 1,000, stored in 8 and 4 bits: logits beside those of
 * fp32 keys and values, on a trained model's shape with biases of its own; which pairs of a plan
 * are taken, and what is left alone. */
#include "backend-cpu/cpu.h"
#include "core/run/forward.h"
#pragma GCC diagnostic ignored "-Wunused-function" /* of records */
#include "tests/unit/sched_model.h"

enum { ROWS = 400, KV_DIM = 256, HEAD_DIM = 64 };

static float biases[2][KV_DIM];

/* Every 16th element of the keys of both layers, of size up to `size` and of either sign. */
static void set_biases(float size)
{
    struct step_plan *p = &model.plan;
    random_state = 5;
    for (int i = 0, layer = 0; i < p->n_ops; i++) {
        const struct op *op = &p->op[i];
        if (op->kind != OP_LINEAR || strcmp(op->name, "qkv")) continue;
        for (int d = 0; d < KV_DIM; d++)
            biases[layer][d] = d % 16 ? 0 : size * (below(2) ? 1 : -1) * (1 - (float)below(4) / 8);
        p->weight[op->w[1]].linear.bias = biases[layer++];
    }
}

static const struct forward_options *options_of(enum act act, enum kv_type kv)
{
    static struct forward_options o;
    o = (struct forward_options){.variant = "auto",
                                 .n_threads = 1,
                                 .act = act,
                                 .kv = kv,
                                 .max_rows = ROWS,
                                 .max_logits = ROWS,
                                 .max_seqs = 1,
                                 .max_pages = ROWS / KV_PAGE,
                                 .n_pages = ROWS / KV_PAGE};
    return &o;
}

/* Logits [ROWS][VOCAB] of a text of random ids, in steps of `each` rows. */
static void compute(enum act act, enum kv_type kv, int each, float *logits)
{
    struct forward f;
    struct err e = {0};
    static uint8_t wanted[ROWS];
    int32_t token[ROWS], pos[ROWS], seq[ROWS] = {0}, row[ROWS], start[2] = {0}, len,
                                    table[ROWS / KV_PAGE], own[ROWS] = {0};
    memset(wanted, 1, sizeof wanted);
    if (forward_open(&f, &model, &backend_cpu, options_of(act, kv), &e)) fail_msg("%s", e.msg);
    for (int i = 0; i < ROWS / KV_PAGE; i++) table[i] = i;
    for (int i = 0; i < ROWS; i++) token[i] = 3 + i * i * 7 % 311, pos[i] = i, row[i] = i;
    for (int at = 0, n; at < ROWS; at += n) {
        n = ROWS - at < each ? ROWS - at : each;
        start[1] = n, len = at + n;
        struct batch b = {.n_rows = n,
                          .n_seqs = 1,
                          .n_logits = n,
                          .table_stride = ROWS / KV_PAGE,
                          .token = token + at,
                          .pos = pos + at,
                          .seq = seq,
                          .slot = pos + at,
                          .seq_start = start,
                          .kv_len = &len,
                          .seat = own,
                          .block_table = table,
                          .logit_row = row};
        if (forward_step(&f, &b, wanted, &e)) fail_msg("%s", e.msg);
        memcpy(logits + (size_t)at * VOCAB, f.logits, (size_t)(n * VOCAB) * sizeof *logits);
    }
    forward_close(&f);
}

static float want[ROWS * VOCAB], got[ROWS * VOCAB], other[ROWS * VOCAB];

/* The root mean square of the differences over that of the logits; *best: rows with the same
 * largest logit. */
static double difference(int *best)
{
    double sum = 0, all = 0;
    *best = 0;
    for (int i = 0; i < ROWS; i++) {
        int x = 0, y = 0;
        for (int j = 0; j < VOCAB; j++) {
            double a = want[i * VOCAB + j], b = got[i * VOCAB + j];
            sum += (a - b) * (a - b);
            all += a * a;
            if (a > want[i * VOCAB + x]) x = j;
            if (b > got[i * VOCAB + y]) y = j;
        }
        *best += x == y;
    }
    return sqrt(sum / all);
}

static void any_bias_costs_what_none_costs(void **state)
{
    static const float sizes[] = {0, 3, 10, 100, 300, 1000};
    static const struct {
        enum act act;
        enum kv_type kv;
        double most;
        int best;
    } kinds[] = {{ACT_F32, KV_INT8, 0.04, 380},
                 {ACT_I16, KV_INT8, 0.04, 380},
                 {ACT_I16, KV_INT4, 0.35, 270},
                 {ACT_F32, KV_F16, 0.08, 370}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        set_biases(sizes[i]);
        compute(ACT_F32, KV_F32, ROWS, want);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            int best;
            compute(kinds[k].act, kinds[k].kv, ROWS, got);
            double off = difference(&best);
            print_message("# bias %g, act %s, kv %s: off by %.5f, best the same in %d of %d\n",
                          (double)sizes[i], act_formats[kinds[k].act].name,
                          kv_formats[kinds[k].kv].name, off, best, ROWS);
            assert_true(off < kinds[k].most);
            assert_true(best >= kinds[k].best);
        }
    }
}

static void chunks_change_no_bit(void **state)
{
    (void)state;
    set_biases(300);
    for (enum kv_type kv = KV_INT8; kv <= KV_INT4; kv++) {
        compute(ACT_I16, kv, ROWS, got);
        compute(ACT_I16, kv, 37, other);
        assert_memory_equal(got, other, sizeof got);
    }
}

/* What keeps an operation that stores keys as it is. */
enum kept { NONE, AHEAD, LATENT, NORMED };

static void keep(struct op *rope, enum kept why)
{
    if (why == AHEAD) rope->as.rope.ahead = 1;
    if (why == LATENT) rope->as.rope.heads.value_dim = HEAD_DIM / 2;
    if (why == NORMED) rope->w[1] = 0;
}

static int n_biased_but(enum kv_type kv, enum kept why)
{
    struct step_plan p;
    struct key_biases k;
    struct err e = {0};
    int n = 0;
    assert_int_equal(step_plan_copy(&model.plan, &p, &e), 0);
    for (int i = 0; i < p.n_ops; i++)
        if (p.op[i].kind == OP_ROPE_STORE) keep(&p.op[i], why);
    assert_int_equal(key_biases_take(&k, &p, kv, ROWS, &e), 0);
    for (int i = 0; i < p.n_ops; i++)
        n += p.op[i].kind == OP_ATTEND && p.op[i].as.attend.bias_pairs;
    assert_int_equal(!!k.weight, n > 0);
    key_biases_free(&k);
    step_plan_free_slice(&p);
    return n;
}

static int n_biased(enum kv_type kv) { return n_biased_but(kv, NONE); }

static void only_large_biases_of_integers_are_taken(void **state)
{
    (void)state;
    set_biases(2);
    assert_int_equal(n_biased(KV_INT8), 0);
    set_biases(30);
    assert_int_equal(n_biased(KV_INT8), 2);
    assert_int_equal(n_biased(KV_INT4), 2);
    assert_int_equal(n_biased(KV_F16), 0);
    assert_int_equal(n_biased(KV_F32), 0);
    for (enum kept why = AHEAD; why <= NORMED; why++)
        assert_int_equal(n_biased_but(KV_INT8, why), 0);
    for (int i = 0; i < KV_DIM; i++) biases[0][i] = biases[1][i] = i < HEAD_DIM ? -9 : 0;
    assert_int_equal(n_biased(KV_INT8), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_large_biases_of_integers_are_taken),
        cmocka_unit_test(any_bias_costs_what_none_costs),
        cmocka_unit_test(chunks_change_no_bit),
    };
    return cmocka_run_group_tests(tests, convert_model, close_model);
}
