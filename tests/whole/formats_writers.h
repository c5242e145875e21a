/* formats_writers.h: writes the checkpoints of formats.c, which alone includes it: their files, and
 * matrices of random codes packed in each format. Must not know: what is tested. */
#ifndef TESTS_WHOLE_FORMATS_WRITERS_H
#define TESTS_WHOLE_FORMATS_WRITERS_H

#include "tests/harness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Sizes of the models: one layer of EXPERTS experts. FFN is no multiple of the group. */
enum { DIM = 64, FFN = 48, EXPERTS = 3, VOCAB = 32, MAX_TENSORS = 200, MAX_IN = 64, MAX_OUT = 96 };

static char dir[] = "/tmp/opt4gptq-formats-XXXXXX";
static uint32_t seed;

static uint32_t next_random(void) { return seed = seed * 1664525u + 1013904223u, seed >> 8; }

/* ---- a checkpoint that is being written */

struct tensor {
    char name[120];
    const char *dtype;
    int n_dims;
    int64_t shape[4];
    size_t bytes;
    uint8_t *data;
};

static struct checkpoint {
    struct tensor t[MAX_TENSORS];
    int n;
    const char *model; /* keys of config.json of the model */
    char quant[1200];  /* quantization_config */
} ck;

static void clear(void)
{
    for (int i = 0; i < ck.n; i++) free(ck.t[i].data);
    ck.n = 0;
    ck.quant[0] = 0;
}

static size_t item_of(const char *dtype)
{
    return !strcmp(dtype, "I64")                            ? 8
           : !strcmp(dtype, "I32") || !strcmp(dtype, "F32") ? 4
           : !strcmp(dtype, "U8") || !strcmp(dtype, "I8")   ? 1
                                                            : 2;
}

/* Adds a tensor of zeros; returns its data. */
static void *add(const char *dtype, int n_dims, const int64_t *shape, const char *format, ...)
{
    if (ck.n == MAX_TENSORS) exit(2);
    struct tensor *t = &ck.t[ck.n++];
    va_list ap;
    va_start(ap, format);
    vsnprintf(t->name, sizeof t->name, format, ap);
    va_end(ap);
    t->dtype = dtype, t->n_dims = n_dims, t->bytes = item_of(dtype);
    for (int i = 0; i < n_dims; i++) t->shape[i] = shape[i], t->bytes *= (size_t)shape[i];
    if (!(t->data = calloc(1, t->bytes + 8))) exit(2);
    return t->data;
}

#define SHAPE(...)                                                                                 \
    (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static struct tensor *tensor(const char *name)
{
    for (int i = 0; i < ck.n; i++)
        if (!strcmp(ck.t[i].name, name)) return &ck.t[i];
    fprintf(stderr, "no tensor %s\n", name);
    exit(2);
}

static uint16_t bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)((u + 0x8000) >> 16);
}

/* A plain BF16 tensor of random numbers. */
static uint16_t *add_random(int n_dims, const int64_t *shape, const char *name)
{
    uint16_t *d = add("BF16", n_dims, shape, "%s", name);
    for (size_t i = 0; i < ck.t[ck.n - 1].bytes / 2; i++)
        d[i] = bf16(((float)(next_random() % 2000) - 1000) / 4000);
    return d;
}

static void write_checkpoint(void)
{
    char path[300], *header = malloc(400 * MAX_TENSORS + 100);
    uint64_t at = 0, n = 1;
    strcpy(header, "{");
    for (int i = 0; i < ck.n; i++) {
        const struct tensor *t = &ck.t[i];
        n += (uint64_t)sprintf(header + n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "",
                               t->name, t->dtype);
        for (int k = 0; k < t->n_dims; k++)
            n += (uint64_t)sprintf(header + n, "%s%" PRId64, k ? "," : "", t->shape[k]);
        n += (uint64_t)sprintf(header + n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                               at + t->bytes);
        at += t->bytes;
    }
    header[n++] = '}';
    while (n % 8) header[n++] = ' ';
    snprintf(path, sizeof path, "%s/c", dir);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/c/model.safetensors", dir);
    FILE *f = fopen(path, "wb");
    if (!f) exit(2);
    fwrite(&n, 8, 1, f);
    fwrite(header, 1, n, f);
    for (int i = 0; i < ck.n; i++) fwrite(ck.t[i].data, 1, ck.t[i].bytes, f);
    fclose(f);
    snprintf(header, 4000, "{%s%s%s%s}", ck.model, *ck.quant ? ",\"quantization_config\":{" : "",
             ck.quant, *ck.quant ? "}" : "");
    snprintf(path, sizeof path, "%s/c/config.json", dir);
    write_file(path, header, strlen(header));
    free(header);
}

/* ---- packing, and the weights that are packed */

struct how {
    int bits, group; /* group 0: one */
    int asym, act;   /* zero points that differ; 1: a random order of inputs, 2: g_idx without one */
    int minus_one;   /* GPTQ: zero points are stored minus one */
};

/* One linear: codes, scales, zeros and groups of inputs, and W [out][in]. */
struct matrix {
    int in, out, groups, of[MAX_IN], code[MAX_OUT][MAX_IN], zero[MAX_OUT][MAX_IN];
    uint16_t scale[MAX_OUT][MAX_IN];
    float w[MAX_OUT][MAX_IN];
};

static void make_matrix(struct matrix *m, int in, int out, const struct how *how)
{
    int group = how->group ? how->group : in, top = (1 << how->bits) - 1;
    *m = (struct matrix){.in = in, .out = out, .groups = (in + group - 1) / group};
    for (int i = 0; i < in; i++) m->of[i] = i / group;
    for (int i = in - 1; i > 0 && how->act == 1; i--) {
        int j = (int)(next_random() % (uint32_t)(i + 1)), t = m->of[i];
        m->of[i] = m->of[j], m->of[j] = t;
    }
    for (int r = 0; r < out; r++) {
        for (int g = 0; g < m->groups; g++) {
            m->scale[r][g] = bf16((float)(next_random() % 1000 + 500) / 40000);
            m->zero[r][g] = how->asym ? (int)(next_random() % (uint32_t)top) + 1 : top / 2 + 1;
        }
        for (int i = 0; i < in; i++) {
            m->code[r][i] = (int)(next_random() & (uint32_t)top);
            m->w[r][i] = f32_from_bf16(m->scale[r][m->of[i]]) *
                         (float)(m->code[r][i] - m->zero[r][m->of[i]]);
        }
    }
}

/* Puts field j of a bit stream. */
static void put(uint32_t *words, size_t stride, int j, int bits, int code)
{
    words[(size_t)(j * bits / 32) * stride] |= (uint32_t)code << j * bits % 32;
}

static int words(int n, int bits) { return (n * bits + 31) / 32; }

static void put_gptq(const struct matrix *m, const char *module, const struct how *how)
{
    int b = how->bits;
    uint32_t *q = add("I32", SHAPE(words(m->in, b), m->out), "%s.qweight", module),
             *z = add("I32", SHAPE(m->groups, words(m->out, b)), "%s.qzeros", module);
    uint16_t *s = add("BF16", SHAPE(m->groups, m->out), "%s.scales", module);
    int32_t *g = how->act ? add("I32", SHAPE(m->in), "%s.g_idx", module) : NULL;
    for (int i = 0; i < m->in && g; i++) g[i] = m->of[i];
    for (int r = 0; r < m->out; r++) {
        for (int i = 0; i < m->in; i++) put(q + r, (size_t)m->out, i, b, m->code[r][i]);
        for (int k = 0; k < m->groups; k++) {
            s[k * m->out + r] = m->scale[r][k];
            put(z + k * words(m->out, b), 1, r, b, m->zero[r][k] - how->minus_one);
        }
    }
}

static void put_awq(const struct matrix *m, const char *module, const struct how *how)
{
    static const int place[8] = {0, 4, 1, 5, 2, 6, 3, 7}; /* nibble of column 8c + i */
    (void)how;
    int n = m->out / 8;
    uint32_t *q = add("I32", SHAPE(m->in, n), "%s.qweight", module),
             *z = add("I32", SHAPE(m->groups, n), "%s.qzeros", module);
    uint16_t *s = add("BF16", SHAPE(m->groups, m->out), "%s.scales", module);
    for (int r = 0; r < m->out; r++) {
        int at = 4 * place[r % 8];
        for (int i = 0; i < m->in; i++) q[i * n + r / 8] |= (uint32_t)m->code[r][i] << at;
        for (int k = 0; k < m->groups; k++) {
            s[k * m->out + r] = m->scale[r][k];
            z[k * n + r / 8] |= (uint32_t)m->zero[r][k] << at;
        }
    }
}

static void put_compressed(const struct matrix *m, const char *module, const struct how *how)
{
    int b = how->bits, n = words(m->in, b);
    uint32_t *q = add("I32", SHAPE(m->out, n), "%s.weight_packed", module),
             *z = how->asym ? add("I32", SHAPE(words(m->out, b), m->groups), "%s.weight_zero_point",
                                  module)
                            : NULL;
    uint16_t *s = add("BF16", SHAPE(m->out, m->groups), "%s.weight_scale", module);
    int64_t *shape = add("I64", SHAPE(2), "%s.weight_shape", module);
    int32_t *g = how->act ? add("I32", SHAPE(m->in), "%s.weight_g_idx", module) : NULL;
    shape[0] = m->out, shape[1] = m->in;
    for (int i = 0; i < m->in && g; i++) g[i] = m->of[i];
    for (int r = 0; r < m->out; r++) {
        for (int i = 0; i < m->in; i++) put(q + r * n, 1, i, b, m->code[r][i]);
        for (int k = 0; k < m->groups; k++) {
            s[r * m->groups + k] = m->scale[r][k];
            if (z) put(z + k, (size_t)m->groups, r, b, m->zero[r][k]);
        }
    }
}

/* int-quantized: signed bytes. */
static void put_bytes(const struct matrix *m, const char *module, const struct how *how)
{
    int8_t *q = add("I8", SHAPE(m->out, m->in), "%s.weight", module);
    uint16_t *s = add("BF16", SHAPE(m->out, m->groups), "%s.weight_scale", module);
    for (int r = 0; r < m->out; r++) {
        for (int i = 0; i < m->in; i++)
            q[r * m->in + i] = (int8_t)(m->code[r][i] - (1 << (how->bits - 1)));
        for (int k = 0; k < m->groups; k++) s[r * m->groups + k] = m->scale[r][k];
    }
}

static void put_plain(const struct matrix *m, const char *module, const struct how *how)
{
    (void)how;
    float *w = add("F32", SHAPE(m->out, m->in), "%s.weight", module);
    for (int r = 0; r < m->out; r++) memcpy(w + r * m->in, m->w[r], (size_t)m->in * 4);
}

/* ---- models */

enum { GATE, UP, DOWN, LINEARS };
static const char *const linear_names[] = {"gate_proj", "up_proj", "down_proj"};
static struct matrix want[EXPERTS][LINEARS];

typedef void put_fn(const struct matrix *, const char *, const struct how *);

#define QWEN3_MOE(class, type)                                                                     \
    "\"architectures\":[\"" class "\"],\"model_type\":\"" type "\",\"hidden_size\":64,"            \
                                  "\"intermediate_size\":48,"                                      \
                                  "\"moe_intermediate_size\":48,\"num_hidden_layers\":1,\"num_"    \
                                  "attention_heads\":2,"                                           \
                                  "\"num_key_value_heads\":1,\"head_dim\":32,\"vocab_size\":32,"   \
                                  "\"num_experts\":3,"                                             \
                                  "\"num_experts_per_tok\":2,\"norm_topk_prob\":true,\"decoder_"   \
                                  "sparse_step\":1,"                                               \
                                  "\"mlp_only_layers\":[],\"max_position_embeddings\":128,\"rms_"  \
                                  "norm_eps\":1e-6,"                                               \
                                  "\"rope_theta\":10000.0,\"tie_word_embeddings\":true,\"hidden_"  \
                                  "act\":\"silu\""
static const char qwen3_moe[] = QWEN3_MOE("Qwen3MoeForCausalLM", "qwen3_moe"),
                  qwen3_vl_moe[] = QWEN3_MOE("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe");

/* All tensors of the model but its experts. */
static void put_rest(void)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm",
                                        "self_attn.q_norm", "self_attn.k_norm"};
    char name[100];
    add_random(SHAPE(VOCAB, DIM), "model.embed_tokens.weight");
    add_random(SHAPE(DIM), "model.norm.weight");
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "model.layers.0.%s.weight", norms[i]);
        add_random(SHAPE(i < 2 ? DIM : 32), name);
    }
    add_random(SHAPE(64, DIM), "model.layers.0.self_attn.q_proj.weight");
    add_random(SHAPE(32, DIM), "model.layers.0.self_attn.k_proj.weight");
    add_random(SHAPE(32, DIM), "model.layers.0.self_attn.v_proj.weight");
    add_random(SHAPE(DIM, 64), "model.layers.0.self_attn.o_proj.weight");
    add_random(SHAPE(EXPERTS, DIM), "model.layers.0.mlp.gate.weight");
}

/* A Qwen3-MoE whose experts are packed by `fn`. ODD: how expert 1's gate is made; NULL: as the
 * others. */
static void make_model(put_fn *fn, const struct how *how, const struct how *odd, const char *quant)
{
    char module[100];
    clear();
    ck.model = qwen3_moe;
    snprintf(ck.quant, sizeof ck.quant, "%s", quant ? quant : "");
    put_rest();
    for (int x = 0; x < EXPERTS; x++)
        for (int k = 0; k < LINEARS; k++) {
            const struct how *h = odd && x == 1 && k == GATE ? odd : how;
            make_matrix(&want[x][k], k == DOWN ? FFN : DIM, k == DOWN ? DIM : FFN, h);
            snprintf(module, sizeof module, "model.layers.0.mlp.experts.%d.%s", x, linear_names[k]);
            fn(&want[x][k], module, h);
        }
}

/* Settings of compressed-tensors. */
#define WEIGHTS(bits, group, strategy, sym)                                                        \
    "\"weights\":{\"num_bits\":" bits ",\"group_size\":" group ",\"strategy\":\"" strategy         \
    "\",\"symmetric\":" sym ",\"type\":\"int\"}"
#define CT_GROUPS(groups)                                                                          \
    "\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\",\"ignore\":"            \
    "[\"lm_head\"],\"config_groups\":{" groups "}"
#define CT(bits, group, strategy, sym)                                                             \
    CT_GROUPS("\"group_0\":{\"targets\":[\"Linear\"]," WEIGHTS(bits, group, strategy, sym) "}")
#define TOKENS                                                                                     \
    "\"input_activations\":{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"token\","               \
    "\"symmetric\":true,\"dynamic\":true}"
#define INTS(format, inputs, weights)                                                              \
    "\"quant_method\":\"compressed-tensors\",\"format\":\"" format                                 \
    "\",\"ignore\":[\"lm_head\"],\"config_groups\":{\"a\":{\"targets\":[\"Linear\"]," inputs       \
    "," weights "}}"

#endif
