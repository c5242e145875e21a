/* formats.c: the formats of weights that opt4gptq-convert reads, on checkpoints that this program
 * writes: the weights of the model file must be those that were packed, for every expert; damaged
 * and foreign checkpoints are refused by one line. Usage: formats BUILD_DIR. */
#include "core/model/modelfile.h"
#include "tests/whole/formats_writers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *program, *run_program;

/* ---- conversion */

static int convert(const char *option, struct process *p)
{
    char line[700];
    write_checkpoint();
    snprintf(line, sizeof line, "cd %s && rm -f out && %s -q --no-tokenizer %s c out", dir, program,
             option);
    process_run(p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
    return p->code;
}

/* The weight of input i of output r of expert x (-1: no stack) of a linear of the model file; the
 * sum over all slots that name the input. */
static double weight_at(const struct modelfile *m, const char *name, int x, int r, int i)
{
    char full[150];
    struct tview c, s, z, p, w;
    snprintf(full, sizeof full, "%s.weight", name);
    if (mf_find(m, full, &w)) {
        int64_t rows = w.shape[w.n_dims - 2], in = w.shape[w.n_dims - 1];
        return (double)f32_at(w.data, w.dtype, (size_t)(((x < 0 ? 0 : x) * rows + r) * in + i));
    }
    snprintf(full, sizeof full, "%s.codes", name);
    if (!mf_find(m, full, &c)) return NAN;
    snprintf(full, sizeof full, "%s.scales", name);
    if (!mf_find(m, full, &s)) return NAN;
    snprintf(full, sizeof full, "%s.zeros", name);
    if (!mf_find(m, full, &z) || c.n_dims != (x < 0 ? 4 : 5)) return NAN;
    snprintf(full, sizeof full, "%s.perm", name);
    int has_perm = mf_find(m, full, &p), d = x < 0 ? 0 : 1;
    int64_t panels = c.shape[d], k = c.shape[d + 1] * MF_BLOCK, groups = s.shape[d + 1];
    int64_t panel = (x < 0 ? 0 : x) * panels + r / MF_PANEL;
    double sum = 0;
    for (int64_t j = 0; j < k; j++) {
        int64_t input = has_perm ? ((const int32_t *)p.data)[(x < 0 ? 0 : x) * k + j] : j;
        if (input != i) continue;
        uint8_t byte =
            ((const uint8_t *)c.data)[((panel * (k / 8) + j / 8) * 16 + r % 16) * 4 + j % 4];
        size_t at = (size_t)((panel * groups + j / (k / groups)) * 16 + r % 16);
        sum += (double)f32_at(s.data, s.dtype, at) *
               ((j % 8 < 4 ? byte & 15 : byte >> 4) - ((const uint8_t *)z.data)[at]);
    }
    return sum;
}

/* Opens the result. */
static int open_result(struct modelfile *m)
{
    char path[100];
    struct err e;
    snprintf(path, sizeof path, "%s/out", dir);
    return mf_open(m, path, &e);
}

/* Converts; the experts of the model file must have the weights of `want`. */
static void same(const char *what)
{
    struct process p;
    struct modelfile m;
    size_t n;
    struct err e;
    int rc = convert("", &p);
    check(rc == 0 && !p.err_bytes, what, &p);
    process_free(&p);
    if (rc || open_result(&m)) return;
    double worst = 0;
    for (int x = 0; x < EXPERTS; x++)
        for (int k = 0; k < LINEARS; k++) {
            char name[100];
            snprintf(name, sizeof name, "layers.0.mlp.experts.%s", linear_names[k]);
            const struct matrix *w = &want[x][k];
            for (int r = 0; r < w->out; r++)
                for (int i = 0; i < w->in; i++) {
                    double d = fabs(weight_at(&m, name, x, r, i) - (double)w->w[r][i]);
                    if (!(d <= worst)) worst = d;
                }
        }
    check_that(worst == 0, "%s: weights differ by %g", what, worst);
    check_that(!mf_verify(&m, NULL, &n, &e), "%s: checksums", what);
    mf_close(&m);
}

/* The conversion fails with one line that has SAYS. */
static void refused(const char *says)
{
    struct process p;
    convert("", &p);
    check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, says) && !p.out_bytes, says, &p);
    process_free(&p);
}

/* ---- the formats */

#define GPTQ "\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32"

static void gptq_experts(void)
{
    static const struct how plain = {4, 32, 0, 0, 1}, order = {4, 32, 1, 1, 1},
                            wide = {8, 32, 1, 0, 1}, as_stored = {4, 16, 1, 0, 0},
                            in_order = {4, 32, 0, 2, 1};
    make_model(put_gptq, &plain, NULL, GPTQ);
    same("experts of GPTQ");
    make_model(put_gptq, &order, NULL, GPTQ ",\"desc_act\":true,\"sym\":false");
    same("experts of GPTQ, each with an order of its own");
    make_model(put_gptq, &in_order, &order, GPTQ ",\"sym\":false");
    same("one expert with an order");
    make_model(put_gptq, &plain, &wide,
               GPTQ ",\"dynamic\":{\"-:.*self_attn.*\":{},\"lm_head\":{},"
                    "\"+:.*experts[.]1[.]gate.*\":{\"bits\":8,\"sym\":false}}");
    same("one expert with 8 bits, by dynamic");
    make_model(put_gptq, &as_stored, NULL,
               "\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":16,\"sym\":false,"
               "\"checkpoint_format\":\"gptq_v2\"");
    same("experts of gptq_v2 in groups of 16");
    make_model(put_awq, &(struct how){4, 32, 1, 0, 0}, NULL,
               "\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\"");
    same("experts of AWQ");
    make_model(put_plain, &plain, NULL, "");
    struct process p;
    struct modelfile m;
    check(!convert("--plain 8bit", &p) && lines(p.err) == 1 &&
              strstr(p.err, "is not quantized, its weights are rounded to 8 bits (--plain 8bit)"),
          "plain experts with 8 bits", &p);
    process_free(&p);
    check(!convert("", &p) && lines(p.err) == 1 &&
              strstr(p.err, "is not quantized, its weights are copied as they are (--plain 8bit "
                            "makes half of it)"),
          "plain experts", &p);
    process_free(&p);
    if (open_result(&m)) return;
    check_that(weight_at(&m, "layers.0.mlp.experts.up_proj", 2, 7, 9) ==
                   (double)want[2][UP].w[7][9],
               "plain experts");
    mf_close(&m);
}

/* Qwen3-VL-MoE: tensors of all experts, [in][out] each, ups behind the gates. */
static void turned_experts(void)
{
    struct process p;
    struct modelfile m;
    int wrong = 0;
    clear();
    ck.model = qwen3_vl_moe;
    put_rest();
    add_random(SHAPE(EXPERTS, DIM, 2 * FFN), "model.layers.0.mlp.experts.gate_up_proj");
    add_random(SHAPE(EXPERTS, FFN, DIM), "model.layers.0.mlp.experts.down_proj");
    const void *gate_up = tensor("model.layers.0.mlp.experts.gate_up_proj")->data,
               *down = tensor("model.layers.0.mlp.experts.down_proj")->data;
    check(!convert("", &p), "turned experts", &p);
    process_free(&p);
    if (open_result(&m)) return;
    for (int x = 0; x < EXPERTS; x++)
        for (int r = 0; r < FFN; r++)
            for (int i = 0; i < DIM; i++) {
                size_t at = (size_t)((x * DIM + i) * 2 * FFN + r);
                wrong += weight_at(&m, "layers.0.mlp.experts.gate_proj", x, r, i) !=
                         (double)f32_at(gate_up, DT_BF16, at);
                wrong += weight_at(&m, "layers.0.mlp.experts.up_proj", x, r, i) !=
                         (double)f32_at(gate_up, DT_BF16, at + FFN);
                wrong += weight_at(&m, "layers.0.mlp.experts.down_proj", x, i, r) !=
                         (double)f32_at(down, DT_BF16, (size_t)((x * FFN + r) * DIM + i));
            }
    check_that(!wrong, "turned experts: %d weights are wrong", wrong);
    mf_close(&m);
}

static void compressed_tensors(void)
{
    static const struct how g32 = {4, 32, 0, 0, 0}, asym = {4, 32, 1, 0, 0},
                            order = {4, 32, 1, 1, 0}, channel = {4, 0, 0, 0, 0},
                            wide = {8, 32, 0, 0, 0}, wide_channel = {8, 0, 1, 0, 0},
                            two = {2, 32, 1, 0, 0};
    make_model(put_compressed, &g32, NULL, CT("4", "32", "group", "true"));
    same("compressed-tensors, symmetric");
    make_model(put_compressed, &asym, NULL, CT("4", "32", "group", "false"));
    same("compressed-tensors, asymmetric");
    make_model(put_compressed, &order, NULL, CT("4", "32", "group", "false"));
    same("compressed-tensors with weight_g_idx");
    make_model(put_compressed, &channel, NULL, CT("4", "null", "channel", "true"));
    same("compressed-tensors, one scale for an output");
    make_model(put_compressed, &wide, NULL, CT("8", "32", "group", "true"));
    same("compressed-tensors, 8 bits");
    make_model(put_compressed, &wide_channel, NULL, CT("8", "null", "channel", "false"));
    same("compressed-tensors, 8 bits, asymmetric, one scale for an output");
    make_model(put_compressed, &two, NULL, CT("2", "32", "group", "false"));
    same("compressed-tensors, 2 bits");
    make_model(put_compressed, &g32, &wide,
               CT_GROUPS("\"a\":{\"targets\":[\"Linear\"]," WEIGHTS(
                   "4", "32", "group",
                   "true") "},"
                           "\"b\":{\"targets\":[\"re:.*experts[.]1[.]gate_proj$\"]," WEIGHTS(
                               "8", "32", "group", "true") "}"));
    same("compressed-tensors: a pattern has priority over a class");
    make_model(put_compressed, &g32, &wide,
               CT_GROUPS("\"a\":{\"targets\":[\"model.layers.0.mlp.experts.1.gate_proj\"]," WEIGHTS(
                   "8", "32", "group",
                   "true") "},\"b\":{\"targets\":[\"re:.*experts.*\"]," WEIGHTS("4", "32", "group",
                                                                                "true") "}"));
    same("compressed-tensors: a name has priority over a pattern");
    make_model(put_compressed, &g32, NULL, CT("4", "32", "group", "true"));
    int32_t *g = add("I32", SHAPE(DIM), "model.layers.0.mlp.experts.0.up_proj.weight_g_idx");
    for (int i = 0; i < DIM; i++) g[i] = -1;
    same("compressed-tensors: weight_g_idx of -1 says nothing");
}

#define W8 WEIGHTS("8", "null", "channel", "true")

/* The signed bytes of W8A8 and W4A8, whose inputs have a scale for each token. */
static void bytes(void)
{
    static const struct how channel = {8, 0, 0, 0, 0}, low = {4, 32, 0, 0, 0},
                            packed = {4, 32, 0, 0, 0};
    static const char gate[] = "model.layers.0.mlp.experts.1.gate_proj";
    char name[100];
    make_model(put_bytes, &channel, NULL, INTS("int-quantized", TOKENS, W8));
    same("compressed-tensors W8A8");
    make_model(put_bytes, &channel, NULL,
               INTS("naive-quantized", "\"input_activations\":null", W8));
    same("compressed-tensors, bytes for 16-bit inputs");
    make_model(put_bytes, &low, NULL,
               INTS("int-quantized", TOKENS, WEIGHTS("4", "32", "group", "true")));
    same("compressed-tensors W4A8 as bytes");
    make_model(put_compressed, &packed, NULL,
               INTS("pack-quantized", TOKENS, WEIGHTS("4", "32", "group", "true")));
    same("compressed-tensors W4A8, packed");
    make_model(put_bytes, &channel, NULL,
               INTS("int-quantized", TOKENS, WEIGHTS("8", "null", "tensor", "true")));
    struct matrix *w = &want[1][GATE];
    snprintf(name, sizeof name, "%s.weight_scale", gate);
    struct tensor *t = tensor(name);
    t->n_dims = 1, t->shape[0] = 1, t->bytes = 2;
    for (int r = 0; r < w->out; r++)
        for (int i = 0; i < w->in; i++)
            w->w[r][i] = f32_from_bf16(w->scale[0][0]) * (float)(w->code[r][i] - 128);
    same("compressed-tensors W8A8, one scale for a matrix");
    make_model(put_bytes, &low, NULL,
               INTS("int-quantized", TOKENS, WEIGHTS("4", "32", "group", "true")));
    snprintf(name, sizeof name, "%s.weight", gate);
    ((int8_t *)tensor(name)->data)[5] = -9;
    refused("holds the number -9 of input 5, more than 4 bits");
}

/* Scales and zero points of an 8-bit cache, by all their names, are left out with a note; other
 * tensors of a layer are not. The settings may stand under an older key. */
static void left_out(void)
{
    static const struct how g32 = {4, 32, 0, 0, 0};
    static const char *const names[] = {"k_scale",
                                        "v_scale",
                                        "q_scale",
                                        "kv_scale",
                                        "prob_scale",
                                        "k_zero_point",
                                        "v_zero_point",
                                        "q_zero_point",
                                        "k_proj.output_scale",
                                        "v_proj.output_scale",
                                        "q_proj.output_scale",
                                        "k_proj.output_zero_point"};
    static char old[2000];
    struct process p;
    char line[700];
    size_t n = sizeof names / sizeof *names;
    make_model(put_compressed, &g32, NULL, CT("4", "32", "group", "true"));
    for (size_t i = 0; i < n; i++) add("F32", SHAPE(1), "model.layers.0.self_attn.%s", names[i]);
    same("scales of an 8-bit cache");
    snprintf(line, sizeof line, "cd %s && %s --no-tokenizer c out", dir, program);
    process_run(&p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
    snprintf(line, sizeof line, "%zu scales of keys and values in 8 bits left out", n);
    check(p.code == 0 && strstr(p.err, line), "a note of scales that are left out", &p);
    process_free(&p);
    add("F32", SHAPE(1), "model.layers.0.self_attn.o_proj.output_scale");
    refused("tensor 'model.layers.0.self_attn.o_proj.output_scale' is not part of");
    snprintf(old, sizeof old, "%s,\"compression_config\":{%s}", qwen3_moe,
             CT("4", "32", "group", "true"));
    make_model(put_compressed, &g32, NULL, NULL);
    ck.model = old;
    same("compression_config, the older key");
    snprintf(old, sizeof old, "%s,\"compression_config\":{%s}", qwen3_moe,
             "\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"");
    refused("format 'float-quantized', 8-bit floats (fp8), is not supported");
}

static void auto_round(void)
{
    static const struct how as_stored = {4, 32, 1, 0, 0}, minus_one = {4, 32, 1, 0, 1},
                            wide = {8, 32, 1, 0, 1};
#define AUTO_ROUND                                                                                 \
    "\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":32,\"sym\":false,\"data_type\":"    \
    "\"int\",\"packing_format\":"
    make_model(put_gptq, &minus_one, NULL, AUTO_ROUND "\"auto_round:auto_gptq\"");
    same("AutoRound, zero points minus one");
    make_model(put_gptq, &minus_one, NULL, AUTO_ROUND "\"auto_round:gptq:exllamav2\"");
    same("AutoRound, an older name of it");
    make_model(put_gptq, &as_stored, NULL, AUTO_ROUND "\"auto_round\"");
    same("AutoRound, zero points as they are");
    make_model(put_awq, &as_stored, NULL, AUTO_ROUND "\"auto_round:auto_awq\"");
    same("AutoRound, AWQ's layout");
    make_model(put_gptq, &minus_one, &wide,
               AUTO_ROUND "\"auto_round:auto_gptq\",\"extra_config\":{\"model.layers.0.mlp.experts."
                          "1.gate_proj\":{\"bits\":8},\"model.layers.0.self_attn.q_proj\":{\"bits\""
                          ":16,\"data_type\":\"float\"}}");
    same("AutoRound, extra_config by name");
    make_model(put_gptq, &minus_one, &wide,
               AUTO_ROUND "\"auto_round:auto_gptq\",\"extra_config\":{\".*experts.1.gate.*\":"
                          "{\"bits\":8}}");
    same("AutoRound, extra_config by pattern");
    make_model(put_gptq, &as_stored, NULL, AUTO_ROUND "\"auto_round:fp8\"");
    refused("auto-round packing_format 'auto_round:fp8' is not supported");
}

/* ---- MXFP4 of gpt-oss: the same weights as 4-bit floats and as plain numbers */

static const char gpt_oss[] =
    "\"architectures\":[\"GptOssForCausalLM\"],\"model_type\":\"gpt_oss\",\"hidden_size\":64,"
    "\"intermediate_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":32,\"vocab_size\":32,\"num_local_experts\":3,"
    "\"num_experts_per_tok\":2,\"sliding_window\":16,\"layer_types\":[\"full_attention\"],"
    "\"attention_bias\":true,\"hidden_act\":\"silu\",\"swiglu_limit\":7.0,"
    "\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5,\"rope_theta\":150000.0,"
    "\"tie_word_embeddings\":false";
enum { OSS_FFN = 32 };

static uint8_t oss_blocks[EXPERTS][2 * OSS_FFN][DIM / 2],
    oss_scales[EXPERTS][2 * OSS_FFN][DIM / 32];

static float oss_weight(int x, int r, int i)
{
    static const float value[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    int code = oss_blocks[x][r][i / 2] >> (i % 2 ? 4 : 0) & 15;
    return ldexpf(code & 8 ? -value[code & 7] : value[code & 7], oss_scales[x][r][i / 32] - 127);
}

/* BLOCKS: as MXFP4, else as BF16 [E][in][out]. */
static void make_oss(int blocks)
{
    static const char *const qkvo[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    char name[100];
    clear();
    seed = 77;
    ck.model = gpt_oss;
    if (blocks) strcpy(ck.quant, "\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[]");
    add_random(SHAPE(VOCAB, DIM), "model.embed_tokens.weight");
    add_random(SHAPE(VOCAB, DIM), "lm_head.weight");
    add_random(SHAPE(DIM), "model.norm.weight");
    add_random(SHAPE(DIM), "model.layers.0.input_layernorm.weight");
    add_random(SHAPE(DIM), "model.layers.0.post_attention_layernorm.weight");
    for (int i = 0; i < 4; i++) {
        int out = i == 1 || i == 2 ? 32 : 64;
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s.weight", qkvo[i]);
        add_random(SHAPE(out, 64), name);
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s.bias", qkvo[i]);
        add_random(SHAPE(out), name);
    }
    add_random(SHAPE(2), "model.layers.0.self_attn.sinks");
    add_random(SHAPE(EXPERTS, DIM), "model.layers.0.mlp.router.weight");
    add_random(SHAPE(EXPERTS), "model.layers.0.mlp.router.bias");
    add_random(SHAPE(EXPERTS, 2 * OSS_FFN), "model.layers.0.mlp.experts.gate_up_proj_bias");
    add_random(SHAPE(EXPERTS, DIM), "model.layers.0.mlp.experts.down_proj_bias");
    for (int k = 0; k < 2; k++) {
        int in = k ? OSS_FFN : DIM, out = k ? DIM : 2 * OSS_FFN;
        const char *which = k ? "down_proj" : "gate_up_proj";
        for (int x = 0; x < EXPERTS; x++)
            for (int r = 0; r < out; r++) {
                for (int i = 0; i < in / 2; i++) oss_blocks[x][r][i] = (uint8_t)next_random();
                for (int g = 0; g < in / 32; g++)
                    oss_scales[x][r][g] = (uint8_t)(110 + next_random() % 12);
            }
        if (blocks) {
            uint8_t *b = add("U8", SHAPE(EXPERTS, out, in / 32, 16),
                             "model.layers.0.mlp.experts.%s_blocks", which),
                    *s = add("U8", SHAPE(EXPERTS, out, in / 32),
                             "model.layers.0.mlp.experts.%s_scales", which);
            for (int x = 0; x < EXPERTS; x++)
                for (int r = 0; r < out; r++) {
                    memcpy(b + (x * out + r) * in / 2, oss_blocks[x][r], (size_t)in / 2);
                    memcpy(s + (x * out + r) * in / 32, oss_scales[x][r], (size_t)in / 32);
                }
        } else {
            uint16_t *w = add("BF16", SHAPE(EXPERTS, in, out), "model.layers.0.mlp.experts.%s",
                              which);
            for (int x = 0; x < EXPERTS; x++)
                for (int r = 0; r < out; r++)
                    for (int i = 0; i < in; i++)
                        w[(x * in + i) * out + r] = bf16(oss_weight(x, r, i));
        }
    }
}

/* The reference's logits of both model files of gpt-oss; only the order of sums differs. */
static void check_logits(void)
{
    struct st_file f[2];
    struct process p;
    struct err e;
    char line[700], path[100];
    float logits[2][4 * VOCAB];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line,
                 "cd %s && %s -m out%d --prompt-ids 3,9,4,20 -n 0 --act f32 --kv f32 --cpu ref "
                 "--logits-out logits%d",
                 dir, run_program, i, i);
        process_run(&p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
        check(!p.code, "logits of gpt-oss", &p);
        process_free(&p);
        snprintf(path, sizeof path, "%s/logits%d", dir, i);
        if (st_open(&f[i], path, &e)) {
            check_that(0, "%s", e.msg);
            return;
        }
        const struct st_tensor *t = st_find(&f[i], "logits");
        int ok = t && t->bytes == sizeof logits[i] &&
                 !st_read(&f[i], logits[i], t->offset, t->bytes, &e);
        check_that(ok, "logits of 4 tokens");
        st_close(&f[i]);
        if (!ok) return;
    }
    double worst = 0, largest = 0;
    for (int i = 0; i < 4 * VOCAB; i++) {
        worst = fmax(worst, fabs((double)logits[0][i] - (double)logits[1][i]));
        largest = fmax(largest, fabs((double)logits[1][i]));
    }
    check_that(largest > 0 && worst <= 2e-6 * largest, "logits of MXFP4 differ by %g of %g", worst,
               largest);
}

static void mxfp4(void)
{
    struct process p;
    struct modelfile m[2];
    char command[300];
    int bad = 0;
    for (int plain = 0; plain < 2; plain++) {
        make_oss(!plain);
        check(!convert("", &p), plain ? "gpt-oss, plain experts" : "gpt-oss, MXFP4", &p);
        int failed = p.code;
        process_free(&p);
        if (failed) return;
        snprintf(command, sizeof command, "cp %s/out %s/out%d", dir, dir, plain);
        process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
        process_free(&p);
        snprintf(command, sizeof command, "%s/out%d", dir, plain);
        struct err e;
        if (mf_open(&m[plain], command, &e)) return;
    }
    for (int k = 0; k < LINEARS; k++) {
        char name[100];
        int in = k == DOWN ? OSS_FFN : DIM, out = k == DOWN ? DIM : OSS_FFN;
        struct tview a, b;
        snprintf(name, sizeof name, "layers.0.mlp.experts.%s", linear_names[k]);
        for (int x = 0; x < EXPERTS; x++)
            for (int r = 0; r < out; r++)
                for (int i = 0; i < in; i++)
                    bad += weight_at(&m[0], name, x, r, i) != weight_at(&m[1], name, x, r, i);
        strcat(name, ".bias");
        bad += !mf_find(&m[0], name, &a) || !mf_find(&m[1], name, &b) ||
               memcmp(a.data, b.data, a.bytes) != 0;
    }
    check_that(!bad, "MXFP4 equals the same numbers in BF16: %d differ", bad);
    mf_close(&m[0]);
    mf_close(&m[1]);
    check_logits();
    make_oss(1);
    tensor("model.layers.0.mlp.experts.down_proj_scales")->data[5] = 255;
    refused("down_proj_scales' holds a scale that is not a number");
    make_oss(1);
    tensor("model.layers.0.mlp.experts.down_proj_blocks")->shape[2] = 2;
    tensor("model.layers.0.mlp.experts.down_proj_blocks")->shape[3] = 8;
    refused("down_proj_blocks' is [3, 64, 2, 8], config.json wants [3, 64, 1, 16]");
}

/* ---- --plain 8bit */

static void rounded(void)
{
    static const struct how how = {4, 32, 0, 0, 1};
    struct process p;
    struct modelfile m;
    struct tview v;
    make_model(put_gptq, &how, NULL, GPTQ);
    check(!convert("--plain 8bit", &p), "--plain 8bit", &p);
    process_free(&p);
    if (open_result(&m)) return;
    const struct tensor *q = tensor("model.layers.0.self_attn.q_proj.weight"),
                        *e = tensor("model.embed_tokens.weight");
    double over = 0, worst = 0;
    for (int r = 0; r < 64; r++)
        for (int g = 0; g < DIM; g += 32) {
            double largest = 0;
            for (int i = g; i < g + 32; i++)
                largest = fmax(largest,
                               fabs((double)f32_at(q->data, DT_BF16, (size_t)(r * DIM + i))));
            for (int i = g; i < g + 32; i++) {
                double d = fabs(weight_at(&m, "layers.0.self_attn.q_proj", -1, r, i) -
                                (double)f32_at(q->data, DT_BF16, (size_t)(r * DIM + i)));
                over = fmax(over, d / (largest / 127 * 0.5 * 1.001));
            }
        }
    for (int r = 0; r < VOCAB; r++)
        for (int i = 0; i < DIM; i++)
            worst = fmax(worst, fabs(weight_at(&m, "lm_head", -1, r, i) -
                                     (double)f32_at(e->data, DT_BF16, (size_t)(r * DIM + i))));
    check_that(over > 0.5 && over <= 1, "--plain 8bit rounds to nearest: %g half steps", over);
    check_that(worst > 0 && worst < 0.26 / 127, "--plain 8bit: the tied head: %g", worst);
    check_that(mf_find(&m, "layers.0.mlp.router.weight", &v) &&
                   mf_find(&m, "embed_tokens.weight", &v) &&
                   !mf_find(&m, "layers.0.self_attn.q_proj.weight", &v) &&
                   mf_find(&m, "layers.0.self_attn.q_proj.scales", &v) && v.dtype == DT_F16,
               "--plain 8bit: the router stays, scales are F16");
    mf_close(&m);
    for (size_t i = 0; i < q->bytes / 2; i++)
        ((uint16_t *)(void *)q->data)[i] = bf16(f32_at(q->data, DT_BF16, i) * 1e-4f);
    check(!convert("--plain 8bit", &p), "--plain 8bit of small weights", &p);
    process_free(&p);
    if (open_result(&m)) return;
    check_that(mf_find(&m, "layers.0.self_attn.q_proj.scales", &v) && v.dtype == DT_F32,
               "--plain 8bit of small weights has F32 scales");
    mf_close(&m);
    ((uint16_t *)(void *)q->data)[9] = 0x7f80;
    check(convert("--plain 8bit", &p) == 1 && lines(p.err) == 1 &&
              strstr(p.err, "q_proj.weight' holds NaN or infinity"),
          "--plain 8bit of infinity", &p);
    process_free(&p);
}

/* ---- what is refused */

static void damaged(void)
{
    static const struct how how = {4, 32, 0, 1, 1}, other = {4, 16, 0, 0, 1}, ct = {4, 32, 1, 1, 0};
    static const char up[] = "model.layers.0.mlp.experts.2.up_proj";
    char name[100];
    make_model(put_gptq, &how, NULL, GPTQ);
    snprintf(name, sizeof name, "%s.qweight", up);
    strcpy(tensor(name)->name, "model.layers.0.mlp.experts.9.up_proj.qweight");
    refused("module 'model.layers.0.mlp.experts.2.up_proj' has neither qweight nor weight");
    make_model(put_gptq, &how, NULL, GPTQ);
    snprintf(name, sizeof name, "%s.g_idx", up);
    ((int32_t *)(void *)tensor(name)->data)[3] = 2;
    refused("experts.2.up_proj': g_idx[3] is 2, but there are 2 groups");
    make_model(put_gptq, &how, NULL, GPTQ);
    snprintf(name, sizeof name, "%s.qweight", up);
    tensor(name)->shape[0] = 4, tensor(name)->shape[1] = 2 * FFN;
    refused("experts.2.up_proj.qweight' is [4, 96], must be [8, 48]");
    make_model(put_gptq, &how, &other, GPTQ);
    refused("of the same stack of experts");
    make_model(put_awq, &(struct how){4, 32, 1, 0, 0}, NULL,
               "\"quant_method\":\"awq\",\"bits\":8,\"group_size\":32,\"version\":\"gemm\"");
    refused("AWQ with 8 bits is not supported, 4 is");
    make_model(put_gptq, &how, NULL, GPTQ);
    add_random(SHAPE(FFN, DIM), "model.layers.0.mlp.experts.0.gate_proj.weight");
    snprintf(name, sizeof name, "model.layers.0.mlp.experts.0.gate_proj.qweight");
    strcpy(tensor(name)->name, "model.extra");
    refused("experts.1.gate_proj' is quantized, unlike others of the same linear or stack");
    make_model(put_compressed, &ct, NULL, CT("4", "32", "group", "false"));
    snprintf(name, sizeof name, "%s.weight_shape", up);
    ((int64_t *)(void *)tensor(name)->data)[1] = 32;
    refused("experts.2.up_proj.weight_shape' is [48, 32], config.json wants [48, 64]");
    make_model(put_compressed, &ct, NULL, CT("4", "32", "group", "false"));
    snprintf(name, sizeof name, "%s.weight_zero_point", up);
    strcpy(tensor(name)->name, "model.extra");
    refused("is asymmetric in config.json but has no weight_zero_point");
    make_model(put_compressed, &ct, NULL, CT("4", "32", "group", "false"));
    snprintf(name, sizeof name, "%s.weight_g_idx", up);
    ((int32_t *)(void *)tensor(name)->data)[60] = -1;
    refused("experts.2.up_proj': g_idx[60] is -1");
    make_model(put_compressed, &ct, NULL, CT("8", "32", "group", "false"));
    refused("experts.0.gate_proj.weight_packed' is [48, 8], must be [48, 16] for 64 inputs");
    make_model(put_compressed, &ct, NULL,
               CT_GROUPS("\"a\":{\"targets\":[\"re:.*self_attn.*\"]," WEIGHTS("4", "32", "group",
                                                                              "false") "}"));
    refused("but no group of config_groups has a target for it");
}

/* Settings of compressed-tensors with actorder. */
#define CT_ORDER(order)                                                                            \
    CT_GROUPS("\"a\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":4,\"group_size\":32,"     \
              "\"strategy\":\"group\",\"symmetric\":false,\"actorder\":" order "}}")

/* An order of inputs that is lost, or has another length than the inputs. */
static void orders(void)
{
    static const struct how gptq = {4, 32, 0, 1, 1}, ct = {4, 32, 1, 1, 0}, none = {4, 32, 1, 0, 0},
                            trivial = {4, 32, 1, 2, 0};
    static const char *const lost[] = {"\"group\"", "true", "\"GROUP\"", "\"dynamic\""};
    static const char *const kept[] = {"\"weight\"", "\"static\"", "false", "null"};
    static const char up[] = "model.layers.0.mlp.experts.2.up_proj";
    char name[100];
    for (int i = 0; i < 4; i++) {
        make_model(put_compressed, &none, NULL, NULL);
        snprintf(ck.quant, sizeof ck.quant, CT_ORDER("%s"), lost[i]);
        refused("experts.0.gate_proj' has no weight_g_idx, but actorder is 'group'");
        make_model(put_compressed, &none, NULL, NULL);
        snprintf(ck.quant, sizeof ck.quant, CT_ORDER("%s"), kept[i]);
        same("compressed-tensors without an order");
    }
    make_model(put_compressed, &ct, NULL, CT_ORDER("\"group\""));
    same("compressed-tensors, actorder group");
    make_model(put_compressed, &trivial, NULL, CT_ORDER("\"group\""));
    same("compressed-tensors, actorder group, groups in order");
    make_model(put_compressed, &ct, NULL, CT_ORDER("\"group\""));
    snprintf(name, sizeof name, "%s.weight_g_idx", up);
    strcpy(tensor(name)->name, "model.extra");
    refused("experts.2.up_proj' has no weight_g_idx, but actorder is 'group'");
    make_model(put_compressed, &ct, NULL, CT_ORDER("\"sorted\""));
    refused("actorder 'sorted' is not supported");
    for (int i = 0; i < 3; i++) { /* one input too few, one too many, two dimensions */
        for (int k = 0; k < 2; k++) {
            make_model(k ? put_compressed : put_gptq, k ? &ct : &gptq, NULL,
                       k ? CT_ORDER("\"group\"") : GPTQ);
            snprintf(name, sizeof name, "%s.%sg_idx", up, k ? "weight_" : "");
            struct tensor *t = tensor(name);
            if (i < 2) t->shape[0] += i ? 1 : -1, t->bytes = 4 * (size_t)t->shape[0];
            else t->n_dims = 2, t->shape[0] = 2, t->shape[1] = DIM / 2;
            refused(i == 0   ? "g_idx' is [63], must be [64] for its inputs"
                    : i == 1 ? "g_idx' is [65], must be [64] for its inputs"
                             : "g_idx' is [2, 32], must be [64] for its inputs");
        }
    }
    for (int k = 0; k < 2; k++) { /* with and without the promise of an order */
        make_model(put_gptq, &gptq, NULL, k ? GPTQ ",\"desc_act\":true" : GPTQ);
        snprintf(name, sizeof name, "%s.g_idx", up);
        strcpy(tensor(name)->name, "model.extra");
        refused("module 'model.layers.0.mlp.experts.2.up_proj' has no usable g_idx, but 8 others");
    }
    for (int k = 0; k < 2; k++) { /* zeros, which say nothing */
        make_model(k ? put_compressed : put_gptq, k ? &ct : &gptq, NULL,
                   k ? CT_ORDER("\"group\"") : GPTQ);
        snprintf(name, sizeof name, "%s.%sg_idx", up, k ? "weight_" : "");
        memset(tensor(name)->data, 0, tensor(name)->bytes);
        refused(k ? "experts.2.up_proj': weight_g_idx is all 0, but there are 2 groups"
                  : "experts.2.up_proj' has no usable g_idx, but 8 others");
    }
}

static void foreign(void)
{
    static const char *const quants[][2] = {
        {"\"quant_method\":\"fp8\"", "quant_method 'fp8' (8-bit floats) is not supported"},
        {"\"quant_method\":\"bitsandbytes\"", "quant_method 'bitsandbytes' ("},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"",
         "format 'float-quantized', 8-bit floats (fp8), is not supported: use the W4A16"},
#define INPUTS(fields) "\"input_activations\":{\"num_bits\":8,\"strategy\":\"token\"," fields "}"
        {INTS("int-quantized", INPUTS("\"dynamic\":false"), W8),
         "group 'a': static scales of inputs (dynamic is not true) are not supported"},
        {INTS("int-quantized", INPUTS("\"symmetric\":true"), W8), "static scales of inputs"},
        {INTS("int-quantized", INPUTS("\"dynamic\":true,\"symmetric\":false"), W8),
         "asymmetric inputs are not supported"},
        {INTS("int-quantized",
              "\"input_activations\":{\"num_bits\":8,\"strategy\":\"tensor\",\"dynamic\":true}",
              W8),
         "scales of inputs by other than token"},
        {INTS("int-quantized",
              "\"input_activations\":{\"num_bits\":4,\"strategy\":\"token\",\"dynamic\":true}", W8),
         "inputs of other than 8 bits"},
        {INTS("int-quantized", INPUTS("\"dynamic\":true,\"type\":\"float\""), W8),
         "inputs of another type than int"},
        {INTS("int-quantized", TOKENS, WEIGHTS("8", "null", "channel", "false")),
         "asymmetric weights as bytes are not supported"},
        {INTS("int-quantized", TOKENS, WEIGHTS("2", "null", "channel", "true")),
         "num_bits 2 as bytes is not supported"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"",
         "(nvfp4), is not supported"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"marlin-24\"",
         "format 'marlin-24', a layout for one GPU kernel"},
        {"\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"",
         "has no config_groups"},
        {CT_GROUPS(
             "\"a\":{\"targets\":[\"Linear\"],\"input_activations\":{\"num_bits\":8}," WEIGHTS(
                 "4", "32", "group", "true") "}"),
         "group 'a': static scales of inputs"},
        {CT("3", "32", "group", "true"), "num_bits 3 is not supported (2, 4 and 8 are)"},
        {CT("4", "32", "block", "true"), "strategy 'block' is not supported"},
        {"\"quant_method\":\"auto-round\",\"data_type\":\"mx_fp\"",
         "auto-round data_type 'mx_fp' is not supported"},
    };
    static const struct how how = {4, 32, 0, 0, 0};
    for (size_t i = 0; i < sizeof quants / sizeof *quants; i++) {
        make_model(put_compressed, &how, NULL, quants[i][0]);
        refused(quants[i][1]);
    }
}

/* ---- heads of models that say tie_word_embeddings */

static void heads(void)
{
    static const struct how how = {4, 32, 0, 0, 0};
    static const char *const what[] = {"a copy of the embedding", "a head of its own",
                                       "the embedding under the head's name"};
    enum { COPY, OWN, ONLY };
    for (int i = COPY; i <= ONLY; i++) {
        struct process p;
        struct modelfile m;
        struct tview w, v;
        make_model(put_compressed, &how, NULL, CT("4", "32", "group", "true"));
        uint16_t *head = add_random(SHAPE(VOCAB, DIM), "lm_head.weight");
        struct tensor *embed = tensor("model.embed_tokens.weight"),
                      *last = tensor("lm_head.weight");
        if (i == COPY) memcpy(head, embed->data, embed->bytes);
        if (i == ONLY) snprintf(embed->name, sizeof embed->name, "unused.weight");
        int rc = convert("", &p);
        check(rc == 0, what[i], &p);
        process_free(&p);
        if (rc || open_result(&m)) continue;
        int found = mf_find(&m, "lm_head.weight", &w),
            table = mf_find(&m, "embed_tokens.weight", &v);
        check_that(found == (i == OWN), "%s: %s", what[i], found ? "is written" : "is not there");
        check_that(!found || !memcmp(w.data, head, last->bytes), "%s: its weights", what[i]);
        check_that(table && !memcmp(v.data, i == ONLY ? last->data : embed->data, last->bytes),
                   "%s: the table's weights", what[i]);
        mf_close(&m);
    }
}

/* ---- --list */

static void list(void)
{
    static const struct how how = {4, 32, 0, 0, 0};
    struct process p;
    char path[100];
    snprintf(path, sizeof path, "%s/c", dir);
    make_model(put_compressed, &how, NULL, CT("4", "32", "group", "true"));
    write_checkpoint();
    process_run(&p, (char *[]){(char *)program, "--list", path, NULL}, NULL);
    check(p.code == 0 && !p.err_bytes &&
              strstr(p.out, "compressed-tensors, 4 bits, groups of 32") &&
              strstr(p.out, "converts       yes, as qwen3_moe\n") &&
              strstr(p.out, "experts        3 in 1 of 1 layer, 2 active for a token\n") &&
              strstr(p.out, "memory ") && strstr(p.out, "with --plain 8bit"),
          "--list", &p);
    process_free(&p);
    process_run(&p, (char *[]){(char *)program, "--list", path, "-c", "100000", NULL}, NULL);
    check(p.code == 0 && strstr(p.out, " at -c 100000: weights ") &&
              strstr(p.out, "the model was made for "),
          "--list -c", &p);
    process_free(&p);
    make_model(put_compressed, &how, NULL, "\"quant_method\":\"hqq\"");
    write_checkpoint();
    process_run(&p, (char *[]){(char *)program, "--list", path, NULL}, NULL);
    check(p.code == 1 && lines(p.err) == 1 && strstr(p.out, "model          qwen3_moe") &&
              strstr(p.out, "converts       no: "),
          "--list of what does not convert", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    struct process p;
    char path[1100], run_path[1100], *build;
    if (argc != 2 || !(build = realpath(argv[1], NULL)) || !mkdtemp(dir)) return 2;
    snprintf(path, sizeof path, "%s/opt4gptq-convert", build);
    snprintf(run_path, sizeof run_path, "%s/opt4gptq-run", build);
    program = path, run_program = run_path;
    gptq_experts();
    turned_experts();
    compressed_tensors();
    bytes();
    left_out();
    auto_round();
    mxfp4();
    rounded();
    damaged();
    orders();
    foreign();
    heads();
    list();
    clear();
    process_run(&p, (char *[]){"/bin/rm", "-rf", dir, NULL}, NULL);
    process_free(&p);
    free(build);
    return report("formats");
}
