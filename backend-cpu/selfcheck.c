/* selfcheck.c: the known-answer check: each kernel of a variant runs on small fixed vectors at
 * start-up and must match variant scalar bit by bit. An instruction set that a compiler, an
 * emulator or a system gets wrong is found before it changes answers. Must not know: how the ladder
 * chooses. */
#include "backend-cpu/fp32.h"

#include <stdio.h>

/* Small sizes that reach every path of the kernels: several panels and a ragged one, all register
 * blocks of rows, a sub-group shorter than the longest, vectors and tails. */
enum {
    K = 160,
    OUT = 68,  /* 4 panels and a quarter: two tasks */
    ROWS = 13, /* 12 + 1, 8 + 4 + 1, 6 + 6 + 1: every height of register block */
    MANY = 17, /* for q4i, which then unpacks its codes: a tile of 16 and one more row */
    PAIRS_GROUPS = 4, /* of 32 packed inputs, for codes of 8 bits */
    DENSE_IN = 37,
    DENSE_OUT = 5,
    HEAD_DIM = 20,
    HEADS = 13,
    POSITIONS = 19,
    PAGES = 2,
    VECTOR = 37,
};

/* All inputs and outputs of a check; on the caller's stack, about 90 KiB. */
struct vectors {
    uint8_t codes[(OUT + 15) / 16 * K * 8], zeros[(OUT + 15) / 16 * 16];
    uint16_t half[DENSE_IN * DENSE_OUT], scales[(OUT + 15) / 16 * 16 * PAIRS_GROUPS];
    float x[MANY * K], bias[OUT], weight[DENSE_IN * DENSE_OUT];
    float page[PAGES * 2 * KV_PAGE * HEAD_DIM]; /* fp32 or, in its first half, fp16 */
    float scratch[CPU_PANELS * 16 * (CPU_SUBGROUP + CPU_ROW_TILE) + CPU_PANELS * 8 * K + 64 * 64];
    int8_t digit[MANY * K * 2 + DIGIT_SLACK];
    float act_scale[MANY * 2];
    int32_t act_sum[MANY * 2];
};

/* Outputs of a kernel. Digits are not compared: a variant may choose their layout; q4i's outputs
 * show that they are right. */
struct result {
    float f[MANY * OUT];
    int32_t sum[MANY * 2];
};

static uint32_t next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static float next_float(uint32_t *s) { return (float)(int32_t)(next(s) >> 8) * 0x1p-22f - 2; }

static void fill(struct vectors *v)
{
    uint32_t s = 1;
    for (size_t i = 0; i < sizeof v->codes; i++) v->codes[i] = (uint8_t)(next(&s) >> 24);
    for (size_t i = 0; i < sizeof v->zeros; i++)
        v->zeros[i] = i < 32 ? 8 : (uint8_t)((next(&s) >> 24) % 17);
    for (size_t i = 0; i < sizeof v->scales / 2; i++)
        v->scales[i] = (uint16_t)(i == 3 ? 0x0123 : next(&s) >> 18 | 0x1000); /* one subnormal */
    for (size_t i = 0; i < sizeof v->half / 2; i++)
        v->half[i] = (uint16_t)(next(&s) >> 18 & 0xbfff);
    for (size_t i = 0; i < sizeof v->x / 4; i++) v->x[i] = next_float(&s);
    for (size_t i = 0; i < sizeof v->bias / 4; i++) v->bias[i] = next_float(&s);
    for (size_t i = 0; i < sizeof v->weight / 4; i++) v->weight[i] = next_float(&s);
}

static struct linear quantized(const struct vectors *v)
{
    return (struct linear){.in = K,
                           .out = OUT,
                           .k = K,
                           .group = K,
                           .n_groups = 1,
                           .codes = v->codes,
                           .scales = v->scales,
                           .zeros = v->zeros,
                           .bias = v->bias,
                           .scale_type = DT_F16};
}

static struct linear of_pairs(const struct vectors *v)
{
    struct linear w = quantized(v);
    w.group = 32, w.n_groups = PAIRS_GROUPS, w.k = w.group * w.n_groups;
    w.pairs = w.in_order = 1;
    return w;
}

enum { PANELS = (OUT + 15) / 16 };

/* One row on all panels, several on two: the first two have only zero points 8, which may be a
 * special case. */
static void run_q4(const struct cpu_kernels *k, struct vectors *v, int rows, struct result *r)
{
    struct linear w = quantized(v);
    int p0 = rows == 1 || rows == 2 ? 0 : PANELS - 2, p1 = rows == 2 ? 2 : PANELS;
    for (int p = p0; p < p1; p += CPU_PANELS)
        k->q4(&w, v->x, r->f, rows, p, p + CPU_PANELS < p1 ? p + CPU_PANELS : p1, v->scratch);
}

enum { BY_ROW = 9 }; /* one digit, one scale for all rows */

static struct q4_digits quantize(const struct cpu_kernels *k, const struct linear *w,
                                 struct vectors *v, int rows, int digits)
{
    int by_row = digits == BY_ROW;
    if (by_row) digits = 1;
    struct q4_digits q = {
        rows, digits ? digits : 1, digits ? 0 : K, v->digit, v->act_scale, v->act_sum, 0};
    if (by_row) q.largest = kv_largest(v->x, MANY * K);
    for (int row = 0; row < rows; row++) k->quantize(w, v->x + row * K, row, &q);
    return q;
}

/* digits 0: integers of 4 bits */
static void run_quantize(const struct cpu_kernels *k, struct vectors *v, int digits,
                         struct result *r)
{
    struct linear w = quantized(v);
    quantize(k, &w, v, MANY, digits);
    memcpy(r->f, v->act_scale, sizeof v->act_scale);
    memcpy(r->sum, v->act_sum, sizeof v->act_sum);
}

/* variant: rows * 10 + digits; negative: the weights are pairs */
static void run_q4i(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    struct linear w = variant < 0 ? of_pairs(v) : quantized(v);
    if (variant < 0) variant = -variant;
    struct q4_digits q = quantize(k, &w, v, variant / 10, variant % 10);
    for (int p = 0; p < PANELS; p += CPU_PANELS)
        k->q4i(&w, &q, r->f, p, p + CPU_PANELS < PANELS ? p + CPU_PANELS : PANELS, v->scratch);
}

static void run_dense(const struct cpu_kernels *k, struct vectors *v, int type, struct result *r)
{
    struct linear w = {.in = DENSE_IN,
                       .out = DENSE_OUT,
                       .weight = type == DT_F32 ? (void *)v->weight : v->half,
                       .weight_type = (enum dtype)type,
                       .bias = v->bias};
    k->dense(&w, v->x, r->f, ROWS, 0, DENSE_OUT);
    k->dense(&w, v->x + ROWS * DENSE_IN, r->f + ROWS * DENSE_OUT, 1, 0, DENSE_OUT);
}

static void run_norm(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    (void)variant;
    memcpy(r->f, v->x, VECTOR * sizeof(float));
    k->norm(r->f, v->x + VECTOR, v->bias, 1e-5f, r->f + VECTOR, VECTOR);
}

static void run_layer_norm(const struct cpu_kernels *k, struct vectors *v, int has_bias,
                           struct result *r)
{
    memcpy(r->f, v->x, VECTOR * sizeof(float));
    k->layer_norm(r->f, v->x + VECTOR, v->bias, has_bias ? v->bias + 1 : NULL, 1e-5f,
                  r->f + VECTOR, VECTOR);
}

static void run_add(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    memcpy(r->f, v->x, 3 * VECTOR * sizeof(float));
    k->add(r->f, v->x + 3 * VECTOR, v->bias, 0.3f, VECTOR);
    k->add(r->f + VECTOR, v->x + 4 * VECTOR, NULL, 1, VECTOR);
    k->add(r->f + 2 * VECTOR, NULL, NULL, 1.5f, VECTOR);
    (void)variant;
}

static void run_rope(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    k->rope(v->x, r->f, HEADS, HEAD_DIM, variant ? v->bias : NULL, 1e-5f, v->bias + HEAD_DIM,
            v->bias + 2 * HEAD_DIM);
}

/* Variants with sinks or a softcap, and fp16. */
enum { SINKS = 100, CAPPED };

static const int32_t table[PAGES] = {1, 0};

enum { BIASED = 1000000, BIAS_PAIRS = 2 };

/* Rows of two pairs, and the angles of one chunk. */
static void fill_biases(float *rows, float *turns, int hd)
{
    uint32_t s = 7;
    for (int i = 0; i < BIAS_PAIRS * KEY_BIAS_ROW; i++) rows[i] = 30 * next_float(&s);
    for (int i = 0; i < BIAS_PAIRS; i++)
        rows[i * KEY_BIAS_ROW + 2 * KEY_BIAS_CHUNK] = (float)(i * (hd / 2 - 1));
    for (int i = 0; i < hd; i++) turns[i] = next_float(&s);
}

/* Keys and values of integers; variant: head_dim * 1000 + largest integer of a query / 127; BIASED:
 * with key biases. */
static void run_attend_int8(const struct cpu_kernels *k, struct vectors *v, int variant,
                            struct result *r)
{
    int hd = variant % BIASED / 1000, heads = hd == HEAD_DIM ? HEADS : HEADS / 2;
    float rows[BIAS_PAIRS * KEY_BIAS_ROW], turns[64];
    size_t bytes = kv_head_bytes(KV_INT8, hd);
    char *page = (char *)v->page;
    uint32_t s = 3;
    for (size_t i = 0; i < PAGES * bytes; i++) page[i] = (char)(next(&s) >> 24);
    for (int p = 0; p < PAGES; p++)
        for (int i = 0; i < 2 * KV_PAGE; i++)
            ((float *)key_scales(page + (size_t)p * bytes, hd))[i] = (float)(next(&s) >> 8) *
                                                                     0x1p-28f;
    fill_biases(rows, turns, hd);
    k->attend(&(struct attend_task){.q = v->x,
                                    .out = r->f,
                                    .bias = rows,
                                    .turns = turns,
                                    .bias_pairs = variant / BIASED * BIAS_PAIRS,
                                    .row_stride = heads * hd,
                                    .out_stride = heads * hd,
                                    .n_rows = 1,
                                    .n_heads = heads,
                                    .pos0 = POSITIONS - 1,
                                    .head_dim = hd,
                                    .value_dim = hd,
                                    .scale = 0.25f,
                                    .kv = KV_INT8,
                                    .q_top = variant % 1000 * 127,
                                    .pages = page,
                                    .page_bytes = bytes,
                                    .table = table},
              v->scratch);
}

static void run_attend(const struct cpu_kernels *k, struct vectors *v, int kv, struct result *r)
{
    const float *sinks = kv == SINKS ? v->bias : NULL;
    size_t n = sizeof v->page / sizeof *v->page;
    uint32_t s = 2;
    float softcap = kv == CAPPED ? 3 : 0;
    if (kv >= SINKS) kv = KV_F16;
    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)(next(&s) >> 18 & 0xbfff);
        if (kv == KV_F16) memcpy((char *)v->page + 2 * i, &half, 2);
        else v->page[i] = next_float(&s);
    }
    struct attend_task t = {.q = v->x,
                            .out = r->f,
                            .row_stride = HEADS * HEAD_DIM,
                            .out_stride = HEADS * HEAD_DIM,
                            .n_rows = 1,
                            .n_heads = HEADS,
                            .pos0 = POSITIONS - 1,
                            .window = kv == KV_F16 ? 0 : POSITIONS - 1,
                            .head_dim = HEAD_DIM,
                            .value_dim = HEAD_DIM,
                            .scale = 0.25f,
                            .softcap = softcap,
                            .sinks = sinks,
                            .kv = (enum kv_type)kv,
                            .pages = (const char *)v->page,
                            .page_bytes = 2 * KV_PAGE * HEAD_DIM * kv_bytes((enum kv_type)kv),
                            .table = table};
    k->attend(&t, v->scratch);
}

/* A packed page of heads of n dimensions: keys and values. */
static void run_unpack(const struct cpu_kernels *k, struct vectors *v, int n, struct result *r)
{
    uint8_t *page = (uint8_t *)v->page;
    uint32_t s = 3;
    for (int i = 0; i < 20 * n; i++) page[i] = (uint8_t)(next(&s) >> 24);
    for (int i = 0; i < n; i++) page[9 * n + i] = page[19 * n + i] = (uint8_t)(1 + i % 17);
    for (enum kv_part part = KEYS; part <= VALUES; part++)
        k->unpack((const char *)page, part, n, (char *)r->f + (int)part * KV_PAGE * n);
}

/* variant: activation, + ALONE without the second factor */
enum { ALONE = 10 };

static void run_glu(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    for (int i = 0; i < VECTOR; i++) r->f[i] = v->x[i] * 8;
    r->f[1] = -200, r->f[2] = 200;
    struct cpu_glu a = {(enum activation)(variant % ALONE), 7, 1.702f, {0.8f, 1.1f, 0.5f, -1e-6f}};
    k->glu(&a, r->f, variant < ALONE ? v->x + VECTOR : NULL, VECTOR);
}

static void run_softcap(const struct cpu_kernels *k, struct vectors *v, int cap, struct result *r)
{
    memcpy(r->f, v->x, VECTOR * sizeof(float));
    r->f[1] = -1e-9f, r->f[2] = 1e9f;
    k->softcap(r->f, (float)cap, VECTOR);
}

static void run_sums(const struct cpu_kernels *k, struct vectors *v, int group, struct result *r)
{
    k->sums(v->x, group, K / group, r->f);
}

enum { CONV_BIASED = 100, CONV_LINEAR = 200 };

static void run_conv(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    k->states->conv(&(struct conv_task){.x = v->bias,
                                        .out = r->f,
                                        .before = v->x + MANY,
                                        .weight = v->x,
                                        .bias = variant / CONV_BIASED % 2 ? v->x + 1 : NULL,
                                        .row_stride = 0,
                                        .rows = 1,
                                        .width = variant % CONV_BIASED,
                                        .channels = VECTOR,
                                        .linear = variant >= CONV_LINEAR});
}

/* variant: columns, and a rule or twice beta */
enum { SSM = 1000, BETA_2 = 2000, CHANNELS = 3000, SCAN = 4000 };

/* Rows of a head, and what they leave of S. */
static void run_delta(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r)
{
    enum { DELTA_ROWS = 5 };
    int columns = variant % SSM;
    static const enum delta_rule rules[] = {DELTA_GATED, DELTA_SSM, DELTA_GATED, DELTA_CHANNELS,
                                            DELTA_SCAN};
    enum delta_rule rule = rules[variant / SSM];
    int gates = rule == DELTA_CHANNELS ? HEAD_DIM : 1, steps = rule == DELTA_SCAN ? columns : 1;
    float g[DELTA_ROWS * HEAD_DIM], beta[DELTA_ROWS * DELTA_COLUMNS],
        decay[HEAD_DIM * DELTA_COLUMNS], *s = r->f + DELTA_ROWS * DELTA_COLUMNS, *unit = v->scratch;
    for (int i = 0; i < DELTA_ROWS; i++)
        k->states->delta_prepare(&(struct delta_inputs){.key_heads = 1,
                                                        .value_heads = 1,
                                                        .key_dim = HEAD_DIM,
                                                        .gates = gates,
                                                        .steps = steps,
                                                        .rule = rule,
                                                        .beta_scale = variant / BETA_2 == 1 ? 2 : 1,
                                                        .q = v->x + i * K,
                                                        .k = v->x + i * K + 2 * HEAD_DIM,
                                                        .a = v->x + i * K + HEAD_DIM,
                                                        .b = v->x + i,
                                                        .decay = v->bias,
                                                        .bias = v->bias + 1,
                                                        .unit = unit + i * 2 * HEAD_DIM,
                                                        .g = g + i * gates,
                                                        .beta = beta + i * steps});
    for (int i = 0; i < HEAD_DIM * DELTA_COLUMNS; i++)
        s[i] = i % DELTA_COLUMNS < columns ? v->x[i] : 0, decay[i] = -fabsf(s[i]);
    k->states->delta(&(struct delta_task){.unit = unit,
                                          .v = v->x + K,
                                          .g = g,
                                          .beta = beta,
                                          .out = r->f,
                                          .s = s,
                                          .decay = decay,
                                          .skips = v->x,
                                          .v_stride = K,
                                          .beta_stride = steps,
                                          .out_stride = DELTA_COLUMNS,
                                          .rows = DELTA_ROWS,
                                          .key_dim = HEAD_DIM,
                                          .columns = columns,
                                          .rule = rule,
                                          .skip = 0.75f});
}

/* The positions of a page, of several heads. */
static void run_choose(const struct cpu_kernels *k, struct vectors *v, int heads, struct result *r)
{
    k->states->choose(&(struct choose_task){.q = v->x,
                                            .w = v->x + 3,
                                            .keys = v->x + HEAD_DIM,
                                            .score = r->f,
                                            .stride = KV_PAGE,
                                            .rows = 2,
                                            .n_heads = heads,
                                            .head_dim = HEAD_DIM});
}

static const struct {
    const char *kernel;
    void (*run)(const struct cpu_kernels *k, struct vectors *v, int variant, struct result *r);
    int variant;
} checks[] = {
    {"q4", run_q4, 1},
    {"q4", run_q4, 2},
    {"q4", run_q4, 3},
    {"q4", run_q4, 4},
    {"q4", run_q4, ROWS},
    {"quantize", run_quantize, 0},
    {"quantize", run_quantize, BY_ROW},
    {"quantize", run_quantize, 1},
    {"quantize", run_quantize, 2},
    {"q4i", run_q4i, 11},
    {"q4i", run_q4i, 12},
    {"q4i", run_q4i, 21},
    {"q4i", run_q4i, 22},
    {"q4i", run_q4i, 31},
    {"q4i", run_q4i, 32},
    {"q4i", run_q4i, 41},
    {"q4i", run_q4i, 42},
    {"q4i", run_q4i, 51},
    {"q4i", run_q4i, 52},
    {"q4i", run_q4i, 61},
    {"q4i", run_q4i, 71},
    {"q4i", run_q4i, 81},
    {"q4i", run_q4i, 10 * ROWS + 1},
    {"q4i", run_q4i, 10 * ROWS + 2},
    {"q4i", run_q4i, 10 * MANY + 1},
    {"q4i", run_q4i, 10 * MANY + 2},
    {"q4i", run_q4i, -11},
    {"q4i", run_q4i, -12},
    {"q4i", run_q4i, -(10 * ROWS + 1)},
    {"q4i", run_q4i, -(10 * ROWS + 2)},
    {"q4i", run_q4i, -(10 * MANY + 1)},
    {"q4i", run_q4i, -(10 * MANY + 2)},
    {"dense", run_dense, DT_F16},
    {"dense", run_dense, DT_BF16},
    {"dense", run_dense, DT_F32},
    {"norm", run_norm, 0},
    {"layer_norm", run_layer_norm, 0},
    {"layer_norm", run_layer_norm, 1},
    {"add", run_add, 0},
    {"rope", run_rope, 0},
    {"rope", run_rope, 1},
    {"attend", run_attend, KV_F16},
    {"attend", run_attend, KV_F32},
    {"attend", run_attend, SINKS},
    {"attend", run_attend, CAPPED},
    {"attend", run_attend_int8, HEAD_DIM * 1000},
    {"attend", run_attend_int8, HEAD_DIM * 1000 + 1},
    {"attend", run_attend_int8, HEAD_DIM * 1000 + 128},
    {"attend", run_attend_int8, 64 * 1000 + 128},
    {"attend", run_attend_int8, BIASED + HEAD_DIM * 1000},
    {"attend", run_attend_int8, BIASED + 64 * 1000 + 128},
    {"unpack", run_unpack, 64},
    {"unpack", run_unpack, HEAD_DIM},
    {"glu", run_glu, ACTIVATION_SILU},
    {"glu", run_glu, ACTIVATION_GELU_TANH},
    {"glu", run_glu, ACTIVATION_SIGMOID},
    {"glu", run_glu, ACTIVATION_SWIGLU_CLAMPED},
    {"glu", run_glu, ALONE + ACTIVATION_SILU},
    {"glu", run_glu, ALONE + ACTIVATION_GELU_TANH},
    {"glu", run_glu, ALONE + ACTIVATION_SIGMOID},
    {"glu", run_glu, ALONE + ACTIVATION_XIELU},
    {"glu", run_glu, ACTIVATION_RELU2},
    {"glu", run_glu, ALONE + ACTIVATION_RELU2},
    {"glu", run_glu, ACTIVATION_NONE},
    {"softcap", run_softcap, 2},
    {"sums", run_sums, 32},
    {"sums", run_sums, 80},
    {"conv", run_conv, 2},
    {"conv", run_conv, 4},
    {"conv", run_conv, 4 + CONV_BIASED},
    {"conv", run_conv, 3 + CONV_LINEAR},
    {"conv", run_conv, 3 + CONV_LINEAR + CONV_BIASED},
    {"delta", run_delta, DELTA_COLUMNS},
    {"delta", run_delta, 20},
    {"delta", run_delta, 20 + BETA_2},
    {"delta", run_delta, SSM + DELTA_COLUMNS},
    {"delta", run_delta, SSM + 20},
    {"delta", run_delta, CHANNELS + 20},
    {"delta", run_delta, SCAN + DELTA_COLUMNS},
    {"delta", run_delta, SCAN + 20},
    {"choose", run_choose, 9},
};

const char *cpu_selfcheck(const struct cpu_kernels *k)
{
    struct vectors v;
    struct result want, got;
    if (k == &cpu_ref || k == &cpu_scalar) return NULL;
    CHECK(attend_floats(64) <= sizeof v.scratch / sizeof *v.scratch &&
          PAGES * kv_head_bytes(KV_INT8, 64) <= sizeof v.page);
    fill(&v);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        memset(&want, 0, sizeof want);
        memset(&got, 0, sizeof got);
        checks[i].run(&cpu_scalar, &v, checks[i].variant, &want);
        checks[i].run(k, &v, checks[i].variant, &got);
        if (memcmp(&want, &got, sizeof want)) return checks[i].kernel;
    }
    return NULL;
}
