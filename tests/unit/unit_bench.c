/* unit_bench.c: the cost model of opt4gptq-bench (bytes read and operations of a step), statistics,
 * lists of options, made-up weights. */
#include "backend-cpu/cpu.h"
#include "bench/batches.h"
#include "bench/options.h"
#include "bench/shape.h"
#include "bench/stats.h"
#include "bench/cost.h"
#include "core/run/forward.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* TinyLlama-1.1B by hand. Linears of a layer: q 2048x2048, k and v 2048x256, o 2048x2048, gate and
 * up 2048x5632, down 5632x2048 = 44,040,192 weights; half a byte each, and 3 bytes of scale and
 * zero for 128. */
enum {
    LAYERS = 22,
    LAYER_WEIGHTS = 2 * 2048 * 2048 + 2 * 2048 * 256 + 3 * 2048 * 5632,
    HEAD = 2048 * 32000
};

static struct model tiny;

static int open_tiny(void **state)
{
    struct err e;
    (void)state;
    return shape_open(&tiny, &shapes[0], 0, &e);
}

static int close_tiny(void **state)
{
    (void)state;
    shape_close(&tiny);
    return 0;
}

static void bytes_of_a_model(void **state)
{
    (void)state;
    double bytes, parameters, norms = 45 * 2048;
    cost_model(&tiny, &bytes, &parameters);
    assert_true(parameters == 1100048384.0); /* the number in its model card */
    assert_true(bytes == (double)LAYERS * (LAYER_WEIGHTS / 2 + 3 * (LAYER_WEIGHTS / 128)) +
                             2 * 2.0 * HEAD + 4 * norms);
}

static struct cost sum_of(const struct step_shape *s, enum act act, enum kv_type kv)
{
    struct cost sum = {0};
    for (int i = 0; i < tiny.plan.n_ops; i++) {
        struct cost w = cost_op(&tiny.plan, &tiny.plan.op[i], s, act, kv);
        sum.weights += w.weights, sum.kv += w.kv, sum.fp32 += w.fp32, sum.int8 += w.int8;
    }
    return sum;
}

static void a_decode_step(void **state)
{
    (void)state;
    struct step_shape s = {1, 1, 999, 1};
    struct cost w = sum_of(&s, ACT_F32, KV_F16);
    double linears = (double)LAYERS * LAYER_WEIGHTS,
           position = 2 * 256 * 2; /* keys and values of a layer */
    double weights = linears / 2 + 3 * linears / 128 + 2.0 * HEAD + 2 * 2048 + 45 * 4 * 2048;
    assert_true(w.weights == weights);
    assert_true(w.kv == LAYERS * position * (1000 + 1)); /* all read, one written */
    assert_true(w.fp32 == 2 * linears + 2.0 * HEAD + LAYERS * 4.0 * 2048 * 1000);
    assert_true(w.int8 == 0);
    struct cost wide = sum_of(&s, ACT_F32, KV_F32);
    assert_true(wide.kv == 2 * w.kv);
}

static void integers_count_their_digits(void **state)
{
    (void)state;
    struct step_shape s = {8, 1, 0, 1};
    double linears = 2.0 * LAYERS * LAYER_WEIGHTS * 8;
    struct cost i16 = sum_of(&s, ACT_I16, KV_F16), int8 = sum_of(&s, ACT_INT8, KV_F16),
                f32 = sum_of(&s, ACT_F32, KV_F16);
    assert_true(i16.int8 == 2 * linears && int8.int8 == linears);
    assert_true(cost_products(&i16, ACT_I16) == f32.fp32 &&
                cost_products(&int8, ACT_INT8) == f32.fp32);
    assert_true(i16.weights == f32.weights);
    struct step_shape deep = {1, 1, 999, 1};
    struct cost in_f32 = sum_of(&deep, ACT_F32, KV_INT8), in_i16 = sum_of(&deep, ACT_I16, KV_INT8);
    double attention = LAYERS * 4.0 * 2048 * 1000;
    assert_true(in_f32.kv == LAYERS * 4 * 2 * (64 + 4.0) * (1000 + 1)); /* 4 heads of 64 */
    assert_true(in_i16.kv == in_f32.kv && in_f32.int8 == 0);
    assert_true(cost_products(&in_i16, ACT_I16) == in_f32.fp32);
    assert_true(in_i16.int8 - 2 * attention == sum_of(&deep, ACT_I16, KV_F16).int8);
}

static void a_prompt_reads_the_head_once_and_attends_in_a_triangle(void **state)
{
    (void)state;
    struct step_shape s = {1, 512, 100, 0};
    struct cost head = cost_step(&tiny.plan, "head", &s, ACT_F32, KV_F16),
                attend = cost_step(&tiny.plan, "attend", &s, ACT_F32, KV_F16);
    assert_true(head.fp32 == 2.0 * HEAD && head.weights == 2.0 * HEAD);
    assert_true(attend.fp32 == LAYERS * 4.0 * 2048 * (512 * 100 + 512 * 513 / 2));
    assert_true(attend.kv == LAYERS * 612.0 * 2 * 256 * 2);
}

static void a_window_bounds_what_is_seen(void **state)
{
    (void)state;
    struct step_shape s = {2, 3, 10, 0};
    struct op op = op_of(OP_ATTEND, "attend", 0);
    op.as.attend.heads = (struct heads){32, 4, 64, 0, 0};
    op.as.attend.window = 4;
    struct cost w = cost_op(&tiny.plan, &op, &s, ACT_F32, KV_F16);
    assert_true(w.fp32 == 4.0 * 2048 * 2 * 3 * 4);
    assert_true(w.kv == 2 * (13 - 7) * 2 * 256 * 2.0); /* positions 7..12 */
    op.as.attend.heads = (struct heads){20, 1, 576, 512, 64}; /* latent: values are of the keys */
    w = cost_op(&tiny.plan, &op, &s, ACT_F32, KV_F16);
    assert_true(w.fp32 == 2.0 * 20 * (576 + 512) * 2 * 3 * 4);
    assert_true(w.kv == 2 * (13 - 7) * 576 * 2.0);
}

static void odd_linears(void **state)
{
    (void)state;
    static const uint8_t codes[1];
    static const int32_t perm[1];
    static const float bias[1];
    struct linear w = {.in = 60,
                       .out = 17,
                       .k = 64,
                       .group = 32,
                       .n_groups = 2,
                       .codes = codes,
                       .perm = perm,
                       .bias = bias,
                       .scale_type = DT_F32};
    struct cost q = cost_linear(&w, 3, ACT_F32);
    assert_true(q.weights == 32 * 64 / 2 + 32 * 2 * 5 + 4 * 64 + 4 * 17);
    assert_true(q.fp32 == 2.0 * 64 * 17 * 3);
    struct linear d = {.in = 60, .out = 17, .weight = codes, .weight_type = DT_BF16};
    struct cost p = cost_linear(&d, 3, ACT_INT8); /* an unquantized linear stays in fp32 */
    assert_true(p.weights == 60 * 17 * 2 && p.fp32 == 2.0 * 60 * 17 * 3 && p.int8 == 0);
}

static void statistics(void **state)
{
    (void)state;
    double odd[] = {9, 1, 2}, even[] = {4, 1, 2, 9}, one[] = {7};
    struct stats s = stats_of(odd, 3);
    assert_true(s.median == 2 && s.lowest == 1 && s.highest == 9 && s.mean == 4);
    assert_true(fabs(s.deviation - sqrt((25.0 + 9 + 4) / 2)) < 1e-12);
    assert_true(stats_of(even, 4).median == 3);
    s = stats_of(one, 1);
    assert_true(s.median == 7 && s.deviation == 0);
}

#define PARSE(o, e, ...)                                                                           \
    bench_options_parse(o, (int)(sizeof(char *[]){"bench", __VA_ARGS__} / sizeof(char *)),         \
                        (char *[]){"bench", __VA_ARGS__}, e)

static void lists_of_options(void **state)
{
    (void)state;
    struct bench_options o;
    struct err e;
    assert_int_equal(
        PARSE(&o, &e, "-p", "1,2,2", "-p", "30", "-np", "8,32", "-n", "0", "--act", "int8,f32"), 0);
    assert_int_equal(o.prompt.n, 3);
    assert_int_equal(o.prompt.v[2], 30);
    assert_int_equal(o.parallel.v[1], 32);
    assert_true(o.gen.n == 1 && o.gen.v[0] == 0);
    assert_true(o.act.n == 2 && !strcmp(o.act.v[0], "int8"));
    assert_int_equal(PARSE(&o, &e, "--n-depth", "7", "--ops"), 0);
    assert_true(o.depth.v[0] == 7 && o.act.n == 3 && o.parallel.n == 2);
    assert_int_equal(PARSE(&o, &e, "-p", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"), -1);
}

static void rows_of_several_sequences(void **state)
{
    (void)state;
    int32_t table[] = {5, 2, 9, 4}, memory[64];
    struct page_map m = {10, 2, table};
    struct span span[] = {{1, 15, 2}, {0, 0, 1}};
    struct batch b;
    assert_true(batch_ints(3, 2, 2, 2) <= 64);
    batch_place(&b, memory, 3, 2, 2, 2);
    batch_set(&b, &m, span, 2, 1);
    assert_true(b.n_rows == 3 && b.n_seqs == 2 && b.n_decode == 1);
    assert_true(b.pos[0] == 15 && b.pos[1] == 16 && b.pos[2] == 0);
    assert_true(b.slot[0] == 9 * KV_PAGE + 15 && b.slot[1] == 4 * KV_PAGE &&
                b.slot[2] == 5 * KV_PAGE);
    assert_true(b.seq[1] == 0 && b.seq[2] == 1 && b.seq_start[1] == 2 && b.seq_start[2] == 3);
    assert_true(b.kv_len[0] == 17 && b.kv_len[1] == 1 && b.block_table[0] == 9 &&
                b.block_table[2] == 5);
}

enum { MIXTURE_VOCAB = 1024 };

static void expect_different_tokens(const struct shape *mixture)
{
    enum { ROWS = 32, VOCAB = MIXTURE_VOCAB, PAGES = ROWS / KV_PAGE };
    static float logits[ROWS][VOCAB];
    int32_t memory[512], table[PAGES] = {0, 1};
    uint8_t wanted[ROWS];
    struct page_map map = {PAGES, PAGES, table};
    struct span span = {0, 0, ROWS};
    struct model m;
    struct forward f;
    struct batch b;
    struct err e;
    struct forward_options o = {.max_rows = ROWS, .max_seqs = 1, .max_pages = PAGES,
                                .n_pages = PAGES, .max_logits = ROWS, .act = ACT_I16,
                                .kv = KV_F16};
    assert_int_equal(shape_open(&m, mixture, 0, &e), 0);
    assert_int_equal(forward_open(&f, &m, &backend_cpu, &o, &e), 0);
    assert_true(batch_ints(ROWS, 1, ROWS, PAGES) <= sizeof memory / sizeof *memory);
    batch_place(&b, memory, ROWS, 1, ROWS, PAGES);
    batch_set(&b, &map, &span, 1, 0);
    for (int i = 0; i < ROWS; i++) b.token[i] = 5 + 7 * i, b.logit_row[i] = i;
    b.n_logits = ROWS;
    memset(wanted, 1, sizeof wanted);
    assert_int_equal(forward_step(&f, &b, wanted, &e), 0);
    memcpy(logits, f.logits, sizeof logits);
    for (int i = 1; i < ROWS; i++) {
        double ii = 0, jj = 0, ij = 0;
        for (int k = 0; k < VOCAB; k++) {
            double x = logits[i][k], y = logits[i - 1][k];
            ii += x * x, jj += y * y, ij += x * y;
        }
        assert_true(fabs(ij) < 0.6 * sqrt(ii * jj));
    }
    forward_close(&f);
    shape_close(&m);
}

/* Were tokens alike behind some layers, all would choose the same experts, and a mixture would be
 * timed with a part of its weights. */
static void made_up_weights_keep_tokens_different(void **state)
{
#define MIXTURE                                                                                    \
    "{\"n_experts\":32,\"top_k\":4,\"expert_ffn\":128,\"shared_ffn\":0,"                           \
    "\"router_score\":\"softmax\",\"router_normalize\":1,\"router_scale\":1,"                      \
    "\"router_groups\":1,\"router_kept_groups\":1"
    static const struct shape mixtures[] = {
        {"mixture", 6, 256, 128, 4, 2, 64, MIXTURE_VOCAB, 2048, 128, "qwen3_moe", MIXTURE "}", 0},
        {"latent", 6, 256, 128, 4, 1, 32, MIXTURE_VOCAB, 2048, 128, "glm4_moe_lite",
         MIXTURE ",\"latent_dim\":128,\"nope_dim\":64,\"value_dim\":64,\"q_lora_dim\":128,"
                 "\"latent_eps\":1e-6,\"attend_scale\":0.1}",
         0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        expect_different_tokens(&mixtures[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_a_model),
        cmocka_unit_test(a_decode_step),
        cmocka_unit_test(integers_count_their_digits),
        cmocka_unit_test(a_prompt_reads_the_head_once_and_attends_in_a_triangle),
        cmocka_unit_test(a_window_bounds_what_is_seen),
        cmocka_unit_test(odd_linears),
        cmocka_unit_test(statistics),
        cmocka_unit_test(lists_of_options),
        cmocka_unit_test(rows_of_several_sequences),
        cmocka_unit_test(made_up_weights_keep_tokens_different),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
