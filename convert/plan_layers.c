#include "convert/plan_layers.h"

#include "convert/plan_linear.h"
#include "convert/plan_names.h"
#include "convert/plan_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, COLUMN_BYTES = 1 << 20 };

static void traits_of(struct layer *l, const struct plan *p)
{
    const struct hf_config *c = p->config;
    int i = l->number, kind = c->linear ? c->linear[i] : KIND_ATTENTION,
        bare = kind != KIND_ATTENTION && !(c->traits & HF_FALCON),
        experts = c->experts && c->experts[i], own = !bare && (!c->kv_from || c->kv_from[i] == i);
    l->traits = c->traits;
    if (!c->no_rope || !c->no_rope[i]) l->traits |= LAYER_ROTATES;
    if (bare) l->traits |= LAYER_BARE;
    if (!bare && c->traits & HF_OLMO_HYBRID) l->traits |= HF_POST_NORMS | HF_QK_NORM_WHOLE;
    if (kind == KIND_STATE)
        l->traits |= c->traits & HF_MAMBA2       ? LAYER_MAMBA
                     : c->traits & HF_SHORT_CONV ? LAYER_CONV
                     : c->traits & HF_MAMBA1     ? LAYER_SCAN
                                                 : LAYER_DELTA;
    if (bare && c->traits & HF_KIMI) l->traits &= ~(uint64_t)HF_LATENT;
    if (experts) l->traits |= LAYER_EXPERTS;
    if (c->indexers && c->indexers[i]) l->traits |= LAYER_INDEXER;
    if (c->traits & HF_ONE_BLOCK ? kind == KIND_MLP : !experts || c->traits & HF_GEMMA4)
        l->traits |= LAYER_MLP;
    if (experts && c->shared_ffn) l->traits |= LAYER_SHARED;
    if (own) l->traits |= LAYER_KEYS;
    if (own && !(c->k_eq_v && !c->windows[i])) l->traits |= LAYER_VALUES;
    if (c->traits & HF_GPT_OSS && p->quant->by_gptqmodel) l->traits |= LAYER_HALVES;
}

static int applies(const struct layer *l, uint64_t need, uint64_t without)
{
    return (l->traits & need) == need && !(l->traits & without);
}

/* FROM of a rule, in the checkpoint. */
static void source_name(const struct plan *p, const struct layer *l, const char *from, int global,
                        char name[NAME_BYTES])
{
    if (global) snprintf(name, NAME_BYTES, "%s%s", p->prefix, from);
    else if (l->source) snprintf(name, NAME_BYTES, "%s%s", l->source, from);
    else snprintf(name, NAME_BYTES, "%slayers.%d.%s", p->prefix, l->number, from);
}

/* The rule among the alternatives from linear_rules[at] on whose module is in the checkpoint; if
 * there is none the first that applies; -1: none applies. *end: the first rule after them. */
static int choose_linear(const struct plan *p, const struct layer *l, int at, int *end)
{
    int first = -1, chosen = -1;
    char name[NAME_BYTES];
    const char *to = linear_rules[at].to;
    for (; linear_rules[at].to && !strcmp(linear_rules[at].to, to); at++) {
        const struct linear_rule *rule = &linear_rules[at];
        if (!applies(l, rule->need, rule->without)) continue;
        if (first < 0) first = at;
        source_name(p, l, rule->from, (rule->how & GLOBAL) != 0, name);
        if (chosen < 0 && plan_linear_exists(p, name)) chosen = at;
    }
    *end = at;
    return chosen < 0 ? first : chosen;
}

/* Two modules of half of the outputs each: the same rows of both. */
static void halve(struct linear_from *from, char second[NAME_BYTES])
{
    char *gate = strstr(second, "gate_proj");
    if (gate) {
        memmove(gate + 2, gate + 4, strlen(gate + 4) + 1);
        memcpy(gate, "up", 2);
    }
    from->part[0].out /= 2;
    from->part[0].n_rows /= 2;
    from->part[1] = from->part[0];
    from->part[1].module = second;
}

static int read_linear(struct plan *p, const struct layer *l, const struct linear_rule *rule,
                       struct plan_linear **result, struct err *e)
{
    char module[NAME_BYTES], second[NAME_BYTES];
    int32_t *rows;
    int64_t total;
    if (rows_pick(l, p->config, rule, &rows, &total, e)) return -1;
    source_name(p, l, rule->from, (rule->how & GLOBAL) != 0, module);
    memcpy(second, module, sizeof second);
    struct linear_from from = {
        .part = {{.module = module, .out = total, .rows = rows, .n_rows = l->size[rule->out]}},
        .in = l->size[rule->in],
        .n_experts = rule->how & HEADS   ? p->config->n_heads
                     : rule->how & STACK ? p->config->n_experts
                                         : 0,
        .by_rows = (rule->how & HEADS) != 0,
        .turned = (rule->how & TURNED) != 0,
        .transposed = (rule->how & TRANSPOSED) != 0,
        .keep_plain = (rule->how & PLAIN) != 0,
        .bias = l->traits & rule->bias ? BIAS_REQUIRED : BIAS_IF_THERE,
    };
    if (rule->how & HALVES) halve(&from, second);
    int rc = plan_linear_read(p, &from, result, e);
    free(rows);
    return rc;
}

/* The linears that an act-order of down can reorder. */
struct mlp {
    struct plan_linear *gate, *up, *down;
};

/* MLPs of a layer whose outputs between may be ordered, and the names of their linears begin so. */
enum { MLPS = 3 };
static const char *const mlp_names[MLPS] = {"mlp.", "mlp.experts.", "mlp.shared_expert."};

static void note_mlp(struct mlp m[MLPS], const char *to, struct plan_linear *linear)
{
    for (int i = 0; i < MLPS; i++, m++) {
        size_t n = strlen(mlp_names[i]);
        if (strncmp(to, mlp_names[i], n)) continue;
        if (!strcmp(to + n, "gate_proj")) m->gate = linear;
        if (!strcmp(to + n, "up_proj")) m->up = linear;
        if (!strcmp(to + n, "down_proj")) m->down = linear;
    }
}

/* Experts are ordered in W4A4 alone, where all of a layer share an order. */
static int sort_mlps(struct plan *p, const struct layer *l, const struct mlp m[MLPS], struct err *e)
{
    char name[NAME_BYTES];
    int before = p->facts.n_sorted; /* counts layers */
    for (int i = 0; i < MLPS && (!i || p->quant->outliers); i++) {
        snprintf(name, sizeof name, "layers.%d.%sorder", l->number, mlp_names[i]);
        if (m[i].down && m[i].up && plan_linear_sort(p, m[i].gate, m[i].up, m[i].down, name, e))
            return -1;
    }
    if (p->facts.n_sorted > before) p->facts.n_sorted = before + 1;
    return 0;
}

enum { MAX_RULES = 192 };

/* A bias that the architecture does not require is in every layer that has the module, or in none.
 * before [MAX_RULES]: by rule, one more than the layer that was read first, negative without bias.
 */
static int check_bias(const struct plan *p, const struct layer *l, int rule, int *before,
                      const struct plan_linear *linear, struct err *e)
{
    char name[NAME_BYTES];
    int first = rule;
    while (first && !strcmp(linear_rules[first - 1].to, linear_rules[rule].to)) first--;
    CHECK(first < MAX_RULES);
    int *had = &before[first];
    if (!*had) *had = linear->has_bias ? l->number + 1 : -l->number - 1;
    if ((*had > 0) == linear->has_bias) return 0;
    source_name(p, l, linear_rules[rule].from, (linear_rules[rule].how & GLOBAL) != 0, name);
    return err_set(e, "%s: module '%s' has %s bias, layer %d has %s: the checkpoint is damaged",
                   p->dir->path, name, linear->has_bias ? "a" : "no", abs(*had) - 1,
                   linear->has_bias ? "none" : "one");
}

/* Experts of a model whose MLPs have no gate have none, too. */
static int lacks_gate(const struct layer *l, const char *to)
{
    return l->traits & HF_NO_GLU && strstr(to, "expert") && strstr(to, "gate_proj");
}

static int add_linears(struct plan *p, const struct layer *l, int *biases, struct err *e)
{
    enum { MOST = 32 };
    struct plan_linear *read[MOST];
    const char *to[MOST];
    struct mlp mlp[MLPS] = {{NULL, NULL, NULL}};
    char name[NAME_BYTES];
    int n = 0;
    for (int at = 0; linear_rules[at].to;) {
        int rule = choose_linear(p, l, at, &at);
        if (rule < 0 || lacks_gate(l, linear_rules[rule].to)) continue;
        CHECK(n < MOST);
        to[n] = linear_rules[rule].to;
        if (read_linear(p, l, &linear_rules[rule], &read[n], e) ||
            check_bias(p, l, rule, biases, read[n], e))
            return -1;
        note_mlp(mlp, to[n], read[n]);
        n++;
    }
    if (sort_mlps(p, l, mlp, e)) return -1;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "layers.%d.%s", l->number, to[i]);
        if (plan_linear_put(p, read[i], name, e)) return -1;
    }
    return 0;
}

/* Rows of x, B and C in the order C, B, x; with_factors: times their factors. f [n] */
static int order_mamba(const struct hf_config *c, const struct layer *l, float *f, int64_t n,
                       int with_factors, struct err *e)
{
    int64_t width = n / l->size[SIZE_DELTA], keys = l->size[SIZE_KEYS] * width,
            values = l->size[SIZE_VALUES] * width;
    const int64_t from[] = {values + keys, values, 0}, count[] = {keys, keys, values};
    float *source = malloc((size_t)n * sizeof *source), *to = f;
    if (!source) return err_memory(e);
    memcpy(source, f, (size_t)n * sizeof *source);
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < count[k]; i++) {
            double factor = with_factors && c->traits & HF_FALCON ? c->falcon.conv[2 - k] : 1;
            *to++ = (float)(source[from[k] + i] * factor);
        }
    free(source);
    return 0;
}

/* -e^v of f [n / state][state], turned. */
static int turn_decays(const struct hf_config *c, float *f, int64_t n, struct err *e)
{
    int64_t state = c->linear_key_dim, inner = n / state;
    float *source = malloc((size_t)n * sizeof *source);
    if (!source) return err_memory(e);
    memcpy(source, f, (size_t)n * sizeof *source);
    for (int64_t i = 0; i < n; i++) f[i] = (float)-exp(source[i % inner * state + i / inner]);
    free(source);
    return 0;
}

/* Changes f [n], v of the rule. */
static int change_vector(const struct hf_config *c, const struct layer *l,
                         const struct vector_rule *rule, float *f, int64_t n, struct err *e)
{
    int64_t head = l->size[SIZE_HEAD];
    int plus = c->traits & HF_NORM_PLUS_1 &&
               (rule->change == VECTOR_NORM || rule->change == VECTOR_HEADS);
    for (int64_t i = 0; i < n; i++) {
        if (plus) f[i] += 1;
        if (rule->change == VECTOR_NEG_EXP) f[i] = (float)-exp(f[i]);
        if (rule->change == VECTOR_ROOT) f[i] = (float)(f[i] / sqrt(c->dim));
    }
    if (rule->change == VECTOR_MAMBA_ROWS || rule->change == VECTOR_MAMBA)
        return order_mamba(c, l, f, n, rule->change == VECTOR_MAMBA_ROWS, e);
    if (rule->change == VECTOR_SCAN) return turn_decays(c, f, n, e);
    int index = rule->change == VECTOR_INDEX;
    if (!index && (rule->change != VECTOR_HEADS || rows_keep_order(c))) return 0;
    float *source = malloc((size_t)n * sizeof *source);
    if (!source) return err_memory(e);
    memcpy(source, f, (size_t)n * sizeof *source);
    for (int64_t i = 0; i < n; i++)
        f[i] = source[index ? rows_index_source(c, i)
                            : i / head * head + rows_rope_source(c, head, i % head)];
    free(source);
    return 0;
}

static int add_ones(struct plan *p, const char *name, int64_t n, struct err *e)
{
    float *f = malloc((size_t)n * sizeof *f);
    if (!f) return err_memory(e);
    for (int64_t i = 0; i < n; i++) f[i] = 1;
    return plan_memory(p, name, DT_F32, n, f, e);
}

/* A tensor of n numbers in one dimension: all others are 1. */
static int is_flat(const struct st_tensor *t, int64_t n)
{
    int ones = 0, all = 0;
    for (int i = 0; i < t->n_dims; i++) ones += t->shape[i] == 1, all += t->shape[i] == n;
    return t->n_dims > 0 && (n == 1 ? ones == t->n_dims : all == 1 && ones == t->n_dims - 1);
}

static int add_vector(struct plan *p, const struct layer *l, const struct vector_rule *rule,
                      struct err *e)
{
    const struct hf_config *c = p->config;
    char source[NAME_BYTES], name[NAME_BYTES];
    int64_t n = l->size[rule->size];
    float *f;
    snprintf(name, sizeof name, "layers.%d.%s", l->number, rule->to);
    if (rule->change == VECTOR_ONES) return add_ones(p, name, n, e);
    source_name(p, l, rule->from, 0, source);
    const struct hf_tensor *t = plan_find(p, source, "");
    if (!t) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, source);
    struct tensor_shape shape = {1, {n}};
    int rows = rule->change == VECTOR_ROWS || rule->change == VECTOR_MAMBA_ROWS;
    if (rows) {
        char have[128];
        if (t->t->n_dims != 3 || t->t->shape[0] != n || t->t->shape[1] != 1 ||
            t->t->shape[2] != c->conv_width)
            return err_set(e, "%s: tensor '%s' is %s, must be [%" PRId64 ", 1, %d]", t->shard->path,
                           source, plan_shape(t, have), n, c->conv_width);
        shape = (struct tensor_shape){2, {n, c->conv_width}};
        n *= c->conv_width;
    }
    if (rule->change == VECTOR_SCAN) {
        char have[128];
        if (t->t->n_dims != 2 || t->t->shape[0] != n || t->t->shape[1] != c->linear_key_dim)
            return err_set(e, "%s: tensor '%s' is %s, must be [%" PRId64 ", %d]", t->shard->path,
                           source, plan_shape(t, have), n, c->linear_key_dim);
        shape = (struct tensor_shape){2, {c->linear_key_dim, n}};
        n *= c->linear_key_dim;
        rows = 1;
    }
    int flat = (rule->change == VECTOR_FLAT || rule->change == VECTOR_NEG_EXP) && is_flat(t->t, n);
    if (flat || rows ? plan_numbers_at(t, 0, n, &f, e) : plan_floats(t, n, &f, e)) return -1;
    if (change_vector(c, l, rule, f, n, e)) {
        free(f);
        return -1;
    }
    return plan_data(p, name, DT_F32, shape, f, e);
}

/* choose_linear() for vector_rules; NULL: none applies. */
static const struct vector_rule *choose_vector(const struct plan *p, const struct layer *l,
                                               const struct vector_rule *at,
                                               const struct vector_rule **end)
{
    const struct vector_rule *first = NULL, *chosen = NULL;
    const char *to = at->to;
    char name[NAME_BYTES];
    for (; at->to && !strcmp(at->to, to); at++) {
        if (!applies(l, at->need, at->without)) continue;
        if (!first) first = at;
        if (chosen || !at->from) continue;
        source_name(p, l, at->from, 0, name);
        if (hfd_find(p->dir, name)) chosen = at;
    }
    *end = at;
    return chosen ? chosen : first;
}

static int add_vectors(struct plan *p, const struct layer *l, struct err *e)
{
    for (const struct vector_rule *at = vector_rules; at->to;) {
        const struct vector_rule *rule = choose_vector(p, l, at, &at);
        if (rule && add_vector(p, l, rule, e)) return -1;
    }
    return 0;
}

/* Gemma 4: the factor on a layer's result. */
static int take_scalar(struct plan *p, struct hf_config *c, const struct layer *l, struct err *e)
{
    char name[NAME_BYTES];
    float *f;
    source_name(p, l, "layer_scalar", 0, name);
    const struct hf_tensor *t = plan_find(p, name, "");
    if (!t) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, name);
    if (plan_floats(t, 1, &f, e)) return -1;
    double x = c->layer_scalar[l->number] = *f;
    free(f);
    if (x >= 1e-9 && x <= 1e9) return 0;
    return err_set(e, "%s: tensor '%s' is %g: the checkpoint is damaged", t->shard->path, name, x);
}

/* A number of layer l's activation; `fallback` where the checkpoint has none. */
static int read_number(struct plan *p, const struct layer *l, const char *from, double fallback,
                       double *out, struct err *e)
{
    char name[NAME_BYTES];
    float *f;
    source_name(p, l, from, 0, name);
    const struct hf_tensor *t = plan_find(p, name, "");
    *out = fallback;
    if (!t && isnan(fallback)) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, name);
    if (!t) return 0;
    int n = t->t->n_dims == 0 || (t->t->n_dims == 1 && t->t->shape[0] == 1);
    if (!n) return err_set(e, "%s: tensor '%s' is no single number", t->shard->path, name);
    if (plan_numbers_at(t, 0, 1, &f, e)) return -1;
    *out = *f;
    free(f);
    return 0;
}

static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

static int take_xielu(struct plan *p, struct hf_config *c, const struct layer *l, struct err *e)
{
    struct hf_xielu x;
    if (!c->xielu && !(c->xielu = calloc((size_t)c->n_layers, sizeof *c->xielu)))
        return err_memory(e);
    if (read_number(p, l, "mlp.act_fn.alpha_p", NAN, &x.p, e) ||
        read_number(p, l, "mlp.act_fn.alpha_n", NAN, &x.n, e) ||
        read_number(p, l, "mlp.act_fn.beta", 0.5, &x.beta, e) ||
        read_number(p, l, "mlp.act_fn.eps", -1e-6, &x.eps, e))
        return -1;
    if (!(x.eps <= 0 && x.eps >= -0.1))
        return err_set(e, "%s: layer %d: mlp.act_fn.eps %g is not supported, 0 to -0.1 is",
                       p->dir->path, l->number, x.eps);
    x.p = softplus(x.p);
    x.n = x.beta + softplus(x.n);
    c->xielu[l->number] = x;
    return 0;
}

/* Marks the tensors of modules that a layer with another layer's keys and values does not use. */
static void skip_shared(struct plan *p, const struct layer *l)
{
    static const char *const modules[] = {"k_proj.", "v_proj.", "k_norm.", "v_norm."};
    char name[NAME_BYTES], from[64];
    for (size_t k = 0; k < sizeof modules / sizeof *modules; k++) {
        snprintf(from, sizeof from, "self_attn.%s", modules[k]);
        source_name(p, l, from, 0, name);
        for (size_t i = 0; i < p->dir->n_tensors; i++)
            if (!strncmp(p->dir->tensors[i].t->name, name, strlen(name))) p->used[i] = 1;
    }
}

/* Takes the inner dimension from the tensors: some quantizers pad it without updating config.json.
 */
static int ffn_of_tensors(struct plan *p, struct hf_config *c, struct err *e)
{
    char module[NAME_BYTES];
    snprintf(module, sizeof module, "%slayers.0.%s", p->prefix,
             c->traits & HF_SHORT_CONV ? "feed_forward.w1" : "mlp.gate_proj");
    int64_t ffn = c->traits & HF_GEMMA4 ? 0 : plan_linear_outputs(p, module);
    if (!ffn) ffn = c->ffn;
    if (ffn < 1 || ffn > 1 << 20)
        return err_set(e, "%s: tensor '%s': %" PRId64 " outputs are out of range", p->dir->path,
                       module, ffn);
    if (ffn != c->ffn)
        note_warn(p->notes,
                  "intermediate_size is %d in config.json, %" PRId64
                  " in the tensors: using the latter",
                  c->ffn, ffn);
    c->ffn = (int)ffn;
    return 0;
}

/* Takes the widths of experts and of the shared one from the tensors of the first layer. */
static int moe_sizes_of_tensors(struct plan *p, struct hf_config *c, struct err *e)
{
    char module[NAME_BYTES];
    if (!(c->traits & HF_MOE_SIZES)) return 0;
    snprintf(module, sizeof module, "%slayers.0.mlp.experts.%%d.gate_proj", p->prefix);
    int64_t one = plan_linear_outputs(p, module);
    snprintf(module, sizeof module, "%slayers.0.mlp.shared_mlp.gate_proj", p->prefix);
    int64_t shared = c->shared_ffn ? plan_linear_outputs(p, module) : 0;
    if (one > 1 << 20 || shared > 1 << 20)
        return err_set(e, "%s: tensor '%s': its size is out of range", p->dir->path, module);
    if (one > 0) c->expert_ffn = (int)one;
    if (shared > 0) c->shared_ffn = (int)shared;
    return 0;
}

/* Outputs of gate and up alternate in gpt-oss' own checkpoints. GPTQModel cuts them in halves and
 * calls the halves gate_proj and up_proj; llm-compressor's,
 * AutoRound's and opt4gptq-quantize's gate_proj are gates. */
static int check_halves(const struct plan *p, struct err *e)
{
    const struct quant_config *q = p->quant;
    char module[NAME_BYTES];
    if (!(p->config->traits & HF_GPT_OSS) || q->by_gptqmodel || q->by_auto_round) return 0;
    if (!strncmp(q->quantizer, "opt4gptq-quantize", 17)) return 0;
    if (q->method != QUANT_GPTQ && q->method != QUANT_AWQ) return 0;
    snprintf(module, sizeof module, "%slayers.0.mlp.experts.0.gate_proj", p->prefix);
    if (!plan_linear_exists(p, module)) return 0;
    return err_set(e,
                   "%s: module '%s' is either gates or half of the alternating gates and ups, and "
                   "the quantization configuration does not say which program made it "
                   "(meta.quantizer)",
                   p->dir->path, module);
}

/* Adds part K of N equal parts of the columns of a matrix as TO. */
static int add_columns(struct plan *p, const struct hf_tensor *t, const char *to, int k, int n,
                       struct err *e)
{
    int64_t columns = t->t->shape[1] / n;
    uint64_t row = (uint64_t)columns * dtype_bytes(t->t->dtype), rows = (uint64_t)t->t->shape[0],
             step = COLUMN_BYTES > row ? COLUMN_BYTES / row : 1;
    struct plan_job j = {
        .kind = JOB_COLUMNS, .source = t, .row_bytes = row, .stride = row * (uint64_t)n};
    if (step * row > p->src_max) p->src_max = step * row;
    if (plan_tensor(p, &j.tensor, to, t->t->dtype,
                    (struct tensor_shape){2, {t->t->shape[0], columns}}, (rows + step - 1) / step,
                    e))
        return -1;
    uint64_t at = 0;
    for (j.piece = 0; at < rows; j.piece++, at += step) {
        j.at = at * row, j.from = at * j.stride + (uint64_t)k * row;
        j.bytes = (rows - at < step ? rows - at : step) * row;
        if (plan_add_job(p, &j, e)) return -1;
    }
    return 0;
}

/* ---- the layer that drafts tokens (Gloeckle et al. 2024; DeepSeek-V3, 2.2) */

/* Where its tensors are, and what they are called there. */
struct draft_names {
    char source[NAME_BYTES]; /* in front of the layer's */
    char outer[NAME_BYTES];  /* in front of these */
    const char *proj, *embed_norm, *hidden_norm, *norm;
};

static int find_draft(const struct plan *p, struct draft_names *d)
{
    static const char *const outer[] = {"mtp.", "model.mtp.", "language_model.mtp.",
                                        "model.language_model.mtp.", NULL};
    char module[NAME_BYTES + 16];
    *d = (struct draft_names){.proj = "fc",
                              .embed_norm = "pre_fc_norm_embedding",
                              .hidden_norm = "pre_fc_norm_hidden",
                              .norm = "norm"};
    for (const char *const *o = outer; *o && p->config->traits & HF_HYBRID; o++) {
        snprintf(d->outer, sizeof d->outer, "%s", *o);
        snprintf(d->source, sizeof d->source, "%slayers.0.", *o);
        snprintf(module, sizeof module, "%s%s", d->outer, d->proj);
        if (plan_linear_exists(p, module)) return 1;
    }
    *d = (struct draft_names){.proj = "eh_proj",
                              .embed_norm = "enorm",
                              .hidden_norm = "hnorm",
                              .norm = "shared_head.norm"};
    snprintf(d->source, sizeof d->source, "%slayers.%d.", p->prefix, p->config->n_layers);
    memcpy(d->outer, d->source, sizeof d->outer);
    snprintf(module, sizeof module, "%s%s", d->outer, d->proj);
    return plan_linear_exists(p, module);
}

/* The layer is one of attention, with experts if it has a router, with an indexer of its own. */
static void draft_traits(struct plan *p, struct layer *l)
{
    const struct hf_config *c = p->config;
    char router[NAME_BYTES];
    l->traits = c->traits | LAYER_ROTATES | LAYER_KEYS | LAYER_VALUES;
    source_name(p, l, "mlp.gate", 0, router);
    if (!(c->traits & HF_EXPERTS) || !plan_linear_exists(p, router)) l->traits |= LAYER_MLP;
    else l->traits |= LAYER_EXPERTS | (c->shared_ffn ? LAYER_SHARED : 0);
    if (c->indexers) l->traits |= LAYER_INDEXER;
    rows_sizes(l, c);
}

/* The first tensor or module of the layer that the checkpoint lacks. 0: it lacks none. */
static int draft_lacks(const struct plan *p, const struct layer *l, const struct draft_names *d,
                       char name[NAME_BYTES])
{
    const char *const norms[] = {d->embed_norm, d->hidden_norm, d->norm};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        snprintf(name, NAME_BYTES, "%.200s%s.weight", d->outer, norms[i]);
        if (!hfd_find(p->dir, name)) return 1;
    }
    for (const struct vector_rule *at = vector_rules; at->to;) {
        const struct vector_rule *rule = choose_vector(p, l, at, &at);
        if (!rule || !rule->from) continue;
        source_name(p, l, rule->from, 0, name);
        if (!hfd_find(p->dir, name)) return 1;
    }
    for (int at = 0; linear_rules[at].to;) {
        int rule = choose_linear(p, l, at, &at);
        if (rule < 0 || lacks_gate(l, linear_rules[rule].to)) continue;
        source_name(p, l, linear_rules[rule].from, (linear_rules[rule].how & GLOBAL) != 0, name);
        if (!plan_linear_exists(p, name)) return 1;
    }
    return 0;
}

/* The columns of the projection [dim][2 dim] as a matrix for the embedding and one for the hidden
 * row. */
static int add_draft_projections(struct plan *p, const struct hf_tensor *t, struct err *e)
{
    static const char *const to[] = {"draft.embed_proj.weight", "draft.hidden_proj.weight"};
    for (int k = 0; k < 2; k++)
        if (add_columns(p, t, to[k], k, 2, e)) return -1;
    p->facts.n_plain += 2;
    return 0;
}

static int add_draft_norm(struct plan *p, const struct draft_names *d, const char *from,
                          const char *to, struct err *e)
{
    const int64_t n = p->config->dim;
    char name[NAME_BYTES];
    float *f;
    snprintf(name, sizeof name, "%.200s%s", d->outer, from);
    const struct hf_tensor *t = plan_find(p, name, "weight");
    if (!t) return err_set(e, "%s: tensor '%s.weight' is missing", p->dir->path, name);
    if (plan_floats(t, n, &f, e)) return -1;
    for (int64_t i = 0; i < n && p->config->traits & HF_NORM_PLUS_1; i++) f[i] += 1;
    return plan_memory(p, to, DT_F32, n, f, e);
}

static int add_draft(struct plan *p, const struct layer *l, const struct draft_names *d,
                     const struct hf_tensor *proj, struct err *e)
{
    int biases[MAX_RULES] = {0};
    p->used[proj - p->dir->tensors] = 1;
    return add_draft_norm(p, d, d->embed_norm, "draft.embed_norm.weight", e) ||
                   add_draft_norm(p, d, d->hidden_norm, "draft.hidden_norm.weight", e) ||
                   add_draft_norm(p, d, d->norm, "draft.norm.weight", e) ||
                   add_draft_projections(p, proj, e) || add_vectors(p, l, e) ||
                   add_linears(p, l, biases, e)
               ? -1
               : 0;
}

/* Architectures whose file reads the layer (arch_draft.h). */
static int has_drafts(const struct hf_config *c)
{
    static const char *const names[] = {
        "qwen3_next",   "glm4_moe",    "deepseek_v3", "glm4_moe_lite",
        "deepseek_v32", "glm_moe_dsa", NULL};
    for (const char *const *n = names; *n; n++)
        if (!strcmp(*n, c->architecture)) return 1;
    return 0;
}

int plan_draft_layer(struct plan *p, struct hf_config *c, struct err *e)
{
    struct draft_names d;
    struct layer l = {.number = c->n_layers, .source = d.source};
    char name[NAME_BYTES + 16], have[128];
    if (p->options.no_mtp || !has_drafts(c) || !find_draft(p, &d)) return 0;
    draft_traits(p, &l);
    if (draft_lacks(p, &l, &d, name)) {
        note_info(p->notes, "the layer that drafts tokens is left out: '%s' is missing", name);
        return 0;
    }
    snprintf(name, sizeof name, "%s%s.weight", d.outer, d.proj);
    const struct hf_tensor *proj = hfd_find(p->dir, name);
    if (!proj || proj->t->n_dims != 2 || proj->t->shape[0] != c->dim ||
        proj->t->shape[1] != 2 * (int64_t)c->dim) {
        note_info(p->notes,
                  "the layer that drafts tokens is left out: '%s' is %s, plain [%d, %d] is read",
                  name, proj ? plan_shape(proj, have) : "quantized", c->dim, 2 * c->dim);
        return 0;
    }
    if (plan_is_float(proj, e) || add_draft(p, &l, &d, proj, e)) {
        err_prefix(e, "the layer that drafts tokens (--no-mtp leaves it out): ");
        return -1;
    }
    c->draft = l.traits & LAYER_EXPERTS ? HF_DRAFT_EXPERTS : HF_DRAFT_MLP;
    return 0;
}

int plan_layers(struct plan *p, struct hf_config *c, struct err *e)
{
    struct layer l = {.source = NULL};
    int biases[MAX_RULES] = {0};
    if (check_halves(p, e) || ffn_of_tensors(p, c, e) || moe_sizes_of_tensors(p, c, e)) return -1;
    for (l.number = 0; l.number < c->n_layers; l.number++) {
        traits_of(&l, p);
        rows_sizes(&l, c);
        if (add_vectors(p, &l, e) || add_linears(p, &l, biases, e)) return -1;
        if (c->traits & HF_XIELU && take_xielu(p, c, &l, e)) return -1;
        if (!(c->traits & HF_GEMMA4)) continue;
        if (take_scalar(p, c, &l, e)) return -1;
        if (!(l.traits & LAYER_KEYS)) skip_shared(p, &l);
    }
    return 0;
}

/* Adds MODULE.WHAT of the language model, [n], as TO.WHAT; it gets `plus` added. */
static int add_global(struct plan *p, const char *module, const char *to, const char *what,
                      int64_t n, float plus, struct err *e)
{
    char source[NAME_BYTES], tensor[NAME_BYTES];
    float *f;
    snprintf(source, sizeof source, "%s%s.%s", p->prefix, module, what);
    snprintf(tensor, sizeof tensor, "%s.%s", to, what);
    const struct hf_tensor *t = plan_find(p, source, "");
    if (!t) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, source);
    if (plan_floats(t, n, &f, e)) return -1;
    for (int64_t i = 0; i < n; i++) f[i] += plus;
    return plan_memory(p, tensor, DT_F32, n, f, e);
}

/* Gemma 4: the columns of every layer of embed_tokens_per_layer [vocab][layers * ple]. */
static int add_layer_embeddings(struct plan *p, struct err *e)
{
    const struct hf_config *c = p->config;
    char source[NAME_BYTES], name[NAME_BYTES], have[128];
    snprintf(source, sizeof source, "%sembed_tokens_per_layer.weight", p->prefix);
    const struct hf_tensor *t = plan_find(p, source, "");
    if (!t) return err_set(e, "%s: tensor '%s' is missing", p->dir->path, source);
    if (plan_is_float(t, e)) return -1;
    if (t->t->n_dims != 2 || t->t->shape[0] != c->vocab ||
        t->t->shape[1] != (int64_t)c->n_layers * c->ple_dim)
        return err_set(e, "%s: tensor '%s' is %s, must be [%d, %d]", t->shard->path, source,
                       plan_shape(t, have), c->vocab, c->n_layers * c->ple_dim);
    for (int i = 0; i < c->n_layers; i++) {
        snprintf(name, sizeof name, "layers.%d.embed_tokens_per_layer.weight", i);
        if (add_columns(p, t, name, i, c->n_layers, e)) return -1;
    }
    return 0;
}

int plan_final_norm(struct plan *p, struct err *e)
{
    const struct hf_config *c = p->config;
    const char *ple = "per_layer_projection_norm";
    float plus = c->traits & HF_NORM_PLUS_1 ? 1 : 0;
    if (add_global(p, p->norm, "norm", "weight", c->dim, plus, e)) return -1;
    if (c->traits & HF_LAYER_NORM && add_global(p, p->norm, "norm", "bias", c->dim, 0, e))
        return -1;
    if (!(c->traits & HF_PLE)) return 0;
    return add_layer_embeddings(p, e) || add_global(p, ple, ple, "weight", c->ple_dim, 0, e) ? -1
                                                                                             : 0;
}

/* f: [n], NULL: zeros */
static int add_frequencies(struct plan *p, const char *name, const float *f, int64_t n,
                           struct err *e)
{
    float *copy = calloc((size_t)n, sizeof *copy);
    if (!copy) return err_memory(e);
    if (f) memcpy(copy, f, (size_t)n * sizeof *f);
    return plan_memory(p, name, DT_F32, n, copy, e);
}

int plan_rope_tables(struct plan *p, struct err *e)
{
    const struct hf_config *c = p->config;
    int64_t n = c->head_dim / 2, full = n;
    if (c->sliding_inv_freq) {
        for (int i = 0; c->traits & HF_GEMMA4 && i < c->n_layers; i++)
            if (!c->windows[i]) full = c->head_dims[i] / 2;
        return add_frequencies(p, "rope.full.inv_freq", c->inv_freq, full, e) ||
                       add_frequencies(p, "rope.sliding.inv_freq", c->sliding_inv_freq, n, e)
                   ? -1
                   : 0;
    }
    if (add_frequencies(p, "rope.inv_freq", c->inv_freq, n, e)) return -1;
    if (c->inv_freq_long && add_frequencies(p, "rope.inv_freq.long", c->inv_freq_long, n, e))
        return -1;
    return c->traits & HF_NO_ROPE ? add_frequencies(p, "rope.none.inv_freq", NULL, n, e) : 0;
}
