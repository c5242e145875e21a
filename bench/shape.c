#include "bench/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys of opt4gptq.config beside the sizes (core/model/modelfile.h). "experts" and "layer_types"
 * are added layer by layer. */
#define QWEN3_MOE "{\"n_experts\":128,\"top_k\":8,\"expert_ffn\":768,\"shared_ffn\":0," ROUTER "}"
#define MIXTRAL "{\"n_experts\":8,\"top_k\":2,\"expert_ffn\":14336,\"shared_ffn\":0," ROUTER "}"
#define MINIMAX_M2                                                                                 \
    "{\"n_experts\":256,\"top_k\":8,\"expert_ffn\":1536,\"shared_ffn\":0,"                         \
    "\"router_score\":\"sigmoid\",\"router_normalize\":1,\"router_scale\":1,"                      \
    "\"router_groups\":1,\"router_kept_groups\":1}"
#define QWEN3_5_SIZES                                                                              \
    "{\"n_experts\":256,\"top_k\":8,\"expert_ffn\":512,\"shared_ffn\":512," ROUTER ","             \
    "\"linear_key_heads\":16,\"linear_value_heads\":32,\"linear_key_dim\":128,"                    \
    "\"linear_value_dim\":128,\"conv_width\":4"
#define QWEN3_5_MOE QWEN3_5_SIZES "}"
#define QWEN3_5_MTP QWEN3_5_SIZES ",\"draft_layers\":1,\"draft_experts\":1}"
#define DEEPSEEK_V2_LITE                                                                           \
    "{\"n_experts\":64,\"top_k\":6,\"expert_ffn\":1408,\"shared_ffn\":2816,"                       \
    "\"router_score\":\"softmax\",\"router_normalize\":0,\"router_scale\":1,"                      \
    "\"router_groups\":1,\"router_kept_groups\":1,\"router_group_best\":0,"                        \
    "\"latent_dim\":512,\"nope_dim\":128,\"value_dim\":128,\"q_lora_dim\":0,"                      \
    "\"latent_eps\":1e-6,\"attend_scale\":0.1147}"
#define GLM_4_7_FLASH                                                                              \
    "{\"n_experts\":64,\"top_k\":4,\"expert_ffn\":1536,\"shared_ffn\":1536,"                       \
    "\"router_score\":\"sigmoid\",\"router_normalize\":1,\"router_scale\":1.8,"                    \
    "\"router_groups\":1,\"router_kept_groups\":1,"                                                \
    "\"latent_dim\":512,\"nope_dim\":192,\"value_dim\":256,\"q_lora_dim\":768,"                    \
    "\"latent_eps\":1e-6,\"attend_scale\":0.0625}"
#define NEMOTRON_3_NANO                                                                            \
    "{\"pattern\":\"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME\","                       \
    "\"n_experts\":128,\"top_k\":6,\"expert_ffn\":1856,\"shared_ffn\":3712,\"expert_dim\":0,"      \
    "\"router_score\":\"sigmoid\",\"router_normalize\":1,\"router_scale\":2.5,"                    \
    "\"router_groups\":1,\"router_kept_groups\":1,\"conv_bias\":1,\"conv_width\":4,"               \
    "\"linear_key_heads\":8,\"linear_value_heads\":64,\"linear_key_dim\":128,"                     \
    "\"linear_value_dim\":64}"
#define ROUTER                                                                                     \
    "\"router_score\":\"softmax\",\"router_normalize\":1,\"router_scale\":1,"                      \
    "\"router_groups\":1,\"router_kept_groups\":1"

/* clang-format off */
const struct shape shapes[] = {
    {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 128, NULL, NULL, 0},
    {"llama-3-8b", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 128, NULL, NULL, 0},
    {"llama-2-7b", 32, 4096, 11008, 32, 32, 128, 32000, 4096, 128, NULL, NULL, 0},
    {"codellama-7b", 32, 4096, 11008, 32, 32, 128, 32016, 16384, 128, NULL, NULL, 0},
    {"llama-13b", 40, 5120, 13824, 40, 40, 128, 32000, 2048, 128, NULL, NULL, 0},
    {"llama-2-70b", 80, 8192, 28672, 64, 8, 128, 32000, 4096, 128, NULL, NULL, 0},
    {"qwen1.5-1.8b", 24, 2048, 5504, 16, 16, 128, 151936, 32768, 128, NULL, NULL, 0},
    {"qwen1.5-4b", 40, 2560, 6912, 20, 20, 128, 151936, 32768, 128, NULL, NULL, 0},
    {"qwen3-30b-a3b", 48, 2048, 768, 32, 4, 128, 151936, 32768, 128, "qwen3_moe", QWEN3_MOE, 0},
    {"qwen3-30b-a3b-8bit", 48, 2048, 768, 32, 4, 128, 151936, 32768, 128, "qwen3_moe", QWEN3_MOE,
     SHAPE_HEAD_8BIT},
    {"mixtral-8x7b", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 128, "mixtral", MIXTRAL, 0},
    {"minimax-m2-8-layers", 8, 3072, 1536, 48, 8, 128, 200064, 32768, 128, "minimax_m2", MINIMAX_M2,
     0},
    {"qwen3.5-35b-a3b", 40, 2048, 512, 16, 2, 256, 248320, 32768, 128, "qwen3_next", QWEN3_5_MOE,
     SHAPE_PLAIN},
    {"qwen3.5-35b-a3b-8bit", 40, 2048, 512, 16, 2, 256, 248320, 32768, 128, "qwen3_next",
     QWEN3_5_MOE, SHAPE_PLAIN_8BIT},
    {"qwen3.5-35b-a3b-mtp", 40, 2048, 512, 16, 2, 256, 248320, 32768, 128, "qwen3_next",
     QWEN3_5_MTP, SHAPE_PLAIN},
    {"deepseek-v2-lite", 27, 2048, 10944, 16, 1, 64, 102400, 32768, 128, "deepseek_v2",
     DEEPSEEK_V2_LITE, 0},
    {"glm-4.7-flash", 47, 2048, 10240, 20, 1, 64, 154880, 32768, 128, "glm4_moe_lite",
     GLM_4_7_FLASH, 0},
    {"nemotron-3-nano-30b-a3b", 52, 2688, 1856, 32, 2, 128, 131072, 262144, 64, "nemotron_h",
     NEMOTRON_3_NANO, 0},
    {"tinyllama-1.1b-q4_1", 22, 2048, 5632, 32, 4, 64, 32000, 2048, 32, NULL, NULL, SHAPE_OFFSETS},
    {"llama-3-8b-q4_1", 32, 4096, 14336, 32, 8, 128, 128256, 8192, 32, NULL, NULL, SHAPE_OFFSETS},
    {"tiny", 1, 128, 256, 2, 1, 64, 320, 2048, 128, NULL, NULL, 0},
    {0},
};
/* clang-format on */

/* One block for all weights: first counted, then handed out. */
struct pool_of_bytes {
    char *at; /* NULL: only count */
    size_t n;
};

/* The source of weights of one shape. */
struct made {
    const struct shape *shape;
    int n_layers; /* those behind are of drafts */
    struct pool_of_bytes bytes;
};

static void *take(struct pool_of_bytes *p, size_t bytes)
{
    char *got = p->at ? p->at + p->n : NULL;
    p->n += (bytes + MF_ALIGN - 1) / MF_ALIGN * MF_ALIGN;
    return got;
}

/* SplitMix64 (Steele, Lea, Flood, 2014): all bits of a word are random. */
static uint64_t random_word(uint64_t n)
{
    n *= 0x9e3779b97f4a7c15;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    return n ^ n >> 31;
}

static void fill_random(void *p, size_t bytes, uint64_t seed)
{
    uint64_t *v = p;
    for (size_t i = 0; i < bytes / 8; i++) v[i] = random_word(seed + i);
}

/* Codes whose mean is the zero point 8: there is none of 0. Otherwise all outputs have a part of
 * the sum of the inputs in common, which grows from layer to layer until all tokens are alike and
 * choose the same experts. */
static void fill_codes(void *p, size_t bytes, uint64_t seed)
{
    const uint64_t lowest = 0x1111111111111111;
    uint64_t *v = p;
    fill_random(p, bytes, seed);
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t some = v[i] | v[i] >> 2;
        v[i] |= (~(some | some >> 1) & lowest) << 3;
    }
}

static void fill_halves(uint16_t *p, size_t n, float scale)
{
    enum { PERIOD = 1 << 16 };
    uint16_t some[8];
    for (int i = 0; i < 8; i++) some[i] = f16_from_f32(scale * (float)(i - 4));
    for (size_t i = 0; i < n && i < PERIOD; i++) p[i] = some[(i + i / 8) % 8];
    for (size_t i = PERIOD; i < n; i += PERIOD)
        memcpy(p + i, p, (n - i < PERIOD ? n - i : PERIOD) * sizeof *p);
}

/* Random signs and mantissas of bf16, or f32, with one exponent: 2^-6; of embeddings 2^0, so that
 * a layer adds little to a token and tokens stay different. bytes: a multiple of 8. */
static void fill_plain(void *p, size_t bytes, enum dtype type, int is_embedding, uint64_t seed)
{
    uint64_t keep = 0x807f807f807f807f,
             exponent = is_embedding ? 0x3f803f803f803f80 : 0x3c803c803c803c80, *v = p;
    if (type == DT_F32) keep = 0x807fffff807fffff, exponent = 0x3c8000003c800000;
    fill_random(p, bytes, seed);
    for (size_t i = 0; i < bytes / 8; i++) v[i] = (v[i] & keep) | exponent;
}

/* eight: an 8-bit linear, which names every input twice (docs/model-file.md). */
static void make_linear(struct pool_of_bytes *p, struct linear *w, int group, int eight)
{
    int k = eight ? 2 * w->in : w->in, n = w->stack ? w->stack : 1;
    size_t rows = ((size_t)w->out + 15) / 16 * 16 * (size_t)n, codes = rows * (size_t)k / 2,
           groups = rows * (size_t)(k / group);
    uint8_t *c = take(p, codes), *z = take(p, groups);
    uint16_t *s = take(p, groups * 2);
    int32_t *perm = eight ? take(p, (size_t)k * sizeof *perm) : NULL;
    w->k = k, w->group = group, w->n_groups = k / group, w->scale_type = DT_F16;
    w->codes = c, w->zeros = z, w->scales = s, w->perm = perm;
    if (!p->at) { /* bytes are counted: what is there is not NULL */
        w->codes = w->zeros = (const uint8_t *)p;
        w->scales = p;
        return;
    }
    fill_codes(c, codes, (uint64_t)w->out + p->n);
    for (size_t i = 0; i < groups; i++) {
        int low = eight && i / 16 % 2; /* of a pair of groups */
        z[i] = low ? 0 : 8;
        s[i] = low ? 0x0c00 : 0x1c00; /* 2^-8, 2^-12 */
    }
    for (int i = 0; eight && i < k; i++) perm[i] = i / (2 * group) * group + i % group;
    linear_find_pairs(w);
}

/* How a linear is stored: a draft layer is left plain by quantizers. */
enum storage { FOUR_BIT, EIGHT_BIT, PLAIN };

static int is_of_drafts(const char *name, int n_layers)
{
    int layer;
    return !strncmp(name, "draft.", 6) ||
           (sscanf(name, "layers.%d.", &layer) == 1 && layer >= n_layers);
}

static enum storage storage_of(const struct shape *s, int n_layers, const char *name)
{
    static const char *const plain[] = {"embed_tokens", "router",  "expert_gate",
                                        ".b_proj",      ".a_proj", ".kv_b_k"},
                             *const mostly[] = {"lm_head", "self_attn", "linear_attn",
                                                "shared_expert"};
    if (strstr(name, ".offsets") || is_of_drafts(name, n_layers)) return PLAIN;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strstr(name, plain[i])) return PLAIN;
    for (size_t i = 0; i < sizeof mostly / sizeof *mostly; i++)
        if ((s->plain == SHAPE_PLAIN || s->plain == SHAPE_PLAIN_8BIT) && strstr(name, mostly[i]))
            return s->plain == SHAPE_PLAIN ? PLAIN : EIGHT_BIT;
    if (strcmp(name, "lm_head")) return FOUR_BIT;
    return s->plain == SHAPE_HEAD_8BIT ? EIGHT_BIT : PLAIN;
}

static int made_linear(void *self, const char *name, int stack, int in, int out, struct linear *w,
                       struct err *e)
{
    struct made *made = self;
    const struct shape *s = made->shape;
    struct pool_of_bytes *p = &made->bytes;
    enum storage as = storage_of(s, made->n_layers, name);
    enum { GROUP_OF_8BIT = 32 };
    (void)e;
    if (strstr(name, ".offsets") && s->plain != SHAPE_OFFSETS) return 0;
    *w = (struct linear){.in = in, .out = out, .stack = stack, .k = in};
    if (as != PLAIN) {
        make_linear(p, w, as == EIGHT_BIT ? GROUP_OF_8BIT : s->group, as == EIGHT_BIT);
        return 1;
    }
    /* quantized checkpoints give the turned linear of keys in fp32 */
    w->weight_type = strstr(name, ".kv_b_k") ? DT_F32 : s->json ? DT_BF16 : DT_F16;
    size_t n = (size_t)in * (size_t)out * (size_t)(stack ? stack : 1),
           bytes = (n * dtype_bytes(w->weight_type) + 7) / 8 * 8;
    void *v = take(p, bytes);
    w->weight = p->at ? v : self; /* while bytes are counted: not NULL */
    if (p->at && s->json)
        fill_plain(v, bytes, w->weight_type, !!strstr(name, "embed_tokens"), p->n);
    else if (p->at) fill_halves(v, n, 0.01f);
    return 1;
}

static int made_vector(void *self, const char *name, int n, const float **out, struct err *e)
{
    struct made *made = self;
    (void)e;
    int head_norm = strstr(name, "q_norm") || strstr(name, "k_norm");
    const char *architecture = made->shape->architecture;
    if (strstr(name, ".long") ||
        (head_norm && (!architecture ||
                       (strncmp(architecture, "qwen3", 5) && strcmp(architecture, "minimax_m2")))))
        return 0;
    float *v = take(&made->bytes, (size_t)n * sizeof *v);
    int angles = !strcmp(name, "rope.inv_freq");
    float same = strstr(name, ".decay") ? -0.05f : 1; /* states of DeltaNet must not grow */
    for (int i = 0; made->bytes.at && i < n; i++)
        v[i] = angles ? powf(10000.0f, -(float)i / (float)n) : same;
    *out = made->bytes.at ? v : self; /* while bytes are counted: not NULL */
    return 1;
}

/* The configuration's keys; "experts": all layers; "layer_types": every fourth is attention, or as
 * "pattern" says. */
static json_t *make_json(const struct shape *s, int n_layers)
{
    enum { FULL_EVERY = 4 };
    static const char letters[] = "*M-E"; /* attention, Mamba-2, MLP, experts */
    if (!s->json) return NULL;
    json_t *j = json_loads(s->json, 0, NULL), *experts = json_array(), *types = json_array();
    const char *pattern = json_string_value(json_object_get(j, "pattern"));
    for (int i = 0; i < n_layers; i++) {
        int kind = pattern ? (int)(strchr(letters, pattern[i]) - letters)
                           : (i + 1) % FULL_EVERY != 0;
        json_array_append_new(experts, json_integer(!pattern || letters[kind] == 'E'));
        json_array_append_new(types, json_integer(kind));
    }
    json_object_set_new(j, "experts", experts);
    json_object_set_new(j, "layer_types", types);
    return j;
}

int shape_find(const char *name, const struct shape **s, struct err *e)
{
    char names[512] = "";
    for (*s = shapes; (*s)->name; ++*s) {
        if (!strcmp((*s)->name, name)) return 0;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                 (*s)->name);
    }
    return err_set(e, "--shape %s: there are %s", name, names);
}

/* All of *m but the plan. */
static int configure(struct model *m, const struct shape *s, int n_layers, struct err *e)
{
    memset(m, 0, sizeof *m);
    m->config = (struct model_config){.n_layers = n_layers,
                                      .dim = s->dim,
                                      .ffn = s->ffn,
                                      .n_heads = s->n_heads,
                                      .n_kv_heads = s->n_kv_heads,
                                      .head_dim = s->head_dim,
                                      .vocab = s->vocab,
                                      .context = s->context,
                                      .norm_eps = 1e-5f,
                                      .rope_scale = 1,
                                      .bos = -1};
    snprintf(m->config.architecture, sizeof m->config.architecture, "%s",
             s->architecture ? s->architecture : "llama");
    m->config.windows = calloc((size_t)n_layers, sizeof *m->config.windows);
    return m->config.windows ? 0 : err_memory(e);
}

/* The plan, of weights at `at`; NULL: they are only counted. *bytes: what they take. */
static int build(struct model *m, const struct shape *s, char *at, size_t *bytes, struct err *e)
{
    struct made made = {.shape = s, .n_layers = m->config.n_layers, .bytes = {at, 0}};
    const struct weight_source from = {&made, s->name, made_linear, made_vector};
    json_t *json = make_json(s, m->config.n_layers);
    int rc = arch_build(&m->plan, &m->config, json, &from, e);
    json_decref(json);
    *bytes = made.bytes.n;
    return rc;
}

int shape_count(struct model *m, const struct shape *s, int n_layers, struct err *e)
{
    size_t bytes;
    if (!configure(m, s, n_layers ? n_layers : s->n_layers, e) && !build(m, s, NULL, &bytes, e))
        return 0;
    shape_close(m);
    return -1;
}

int shape_open(struct model *m, const struct shape *s, int n_layers, struct err *e)
{
    size_t bytes, filled;
    if (configure(m, s, n_layers ? n_layers : s->n_layers, e) || build(m, s, NULL, &bytes, e))
        goto fail;
    step_plan_free(&m->plan);
    m->made_up = aligned_alloc(MF_ALIGN, bytes);
    if (!m->made_up) {
        err_memory_for(e, "out of memory for made-up weights (%zu bytes)", bytes);
        goto fail;
    }
    if (build(m, s, m->made_up, &filled, e)) goto fail;
    CHECK(filled == bytes);
    return 0;
fail:
    shape_close(m);
    return -1;
}

void shape_close(struct model *m)
{
    step_plan_free(&m->plan);
    free(m->config.windows);
    free(m->made_up);
    memset(m, 0, sizeof *m);
}
