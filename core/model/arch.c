#include "core/model/arch.h"

#include <stdio.h>
#include <string.h>

/* The files arch_NAME.c. */
#define ARCHS(X)                                                                                   \
    X(apertus)                                                                                     \
    X(bamba)                                                                                       \
    X(cohere2)                                                                                     \
    X(falcon_h1)                                                                                   \
    X(gemma)                                                                                       \
    X(gemma4)                                                                                      \
    X(glm4)                                                                                        \
    X(gpt_oss)                                                                                     \
    X(granite)                                                                                     \
    X(hunyuan)                                                                                     \
    X(jamba)                                                                                       \
    X(kimi_linear)                                                                                 \
    X(latent_models)                                                                               \
    X(lfm2)                                                                                        \
    X(llama)                                                                                       \
    X(llama4)                                                                                      \
    X(ministral3)                                                                                  \
    X(mixture)                                                                                     \
    X(nemotron_h)                                                                                  \
    X(olmo2)                                                                                       \
    X(olmo_hybrid)                                                                                 \
    X(qwen3_next)                                                                                  \
    X(smollm3)                                                                                     \
    X(stablelm)                                                                                    \
    X(starcoder2)

#define DECLARE(name) extern const struct arch arch_##name;
#define ADDRESS(name) &arch_##name,
ARCHS(DECLARE)
static const struct arch *const archs[] = {ARCHS(ADDRESS)};

static const struct arch *find_arch(const char *name)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (const char *const *n = archs[i]->names; *n; n++)
            if (!strcmp(*n, name)) return archs[i];
    return NULL;
}

/* Latches a failure; a number is 0 then. */
static int keep(struct builder *b, int number)
{
    if (number < 0) b->failed = 1;
    return number < 0 ? 0 : number;
}

int arch_build(struct step_plan *p, const struct model_config *g, const json_t *json,
               const struct weight_source *from, struct err *e)
{
    const struct arch *a = find_arch(g->architecture);
    step_plan_init(p);
    if (!a)
        return err_set(e, "%s: architecture '%s' is not known to this version", from->name,
                       g->architecture);
    struct builder b = {g, json, *from, p, -1, 0, 0, e};
    a->build(&b);
    if (b.failed) {
        step_plan_free(p);
        return -1;
    }
    step_plan_liveness(p, 0);
    return 0;
}

enum { NAME_BYTES = 160 };

/* "layers.%d.x" with the current layer. */
static void full_name(const struct builder *b, const char *name, char out[NAME_BYTES])
{
    const char *mark = strstr(name, "%d");
    if (mark) snprintf(out, NAME_BYTES, "%.*s%d%s", (int)(mark - name), name, b->layer, mark + 2);
    else snprintf(out, NAME_BYTES, "%s", name);
}

/* The offsets of a 4-bit linear, if it has some: 1, 0, or -1 with an error. */
static int offsets_of(struct builder *b, const char *name, const struct linear *w,
                      struct linear *offsets)
{
    char full[NAME_BYTES + 16];
    if (!w->codes) return 0;
    snprintf(full, sizeof full, "%s.offsets", name);
    int there = b->from.linear(b->from.self, full, 0, w->n_groups, w->out, offsets, b->err);
    if (there <= 0) return there;
    if (w->stack || w->perm || offsets->codes)
        return err_set(b->err,
                       "%s: '%s' must be plain, of a linear that is no stack and has no perm",
                       b->from.name, full);
    return 1;
}

static int linear(struct builder *b, const char *name, int stack, int in, int out, int may_lack)
{
    char full[NAME_BYTES];
    struct weight w = {.n = 0}, offsets = {.n = 0};
    if (b->failed) return 0;
    full_name(b, name, full);
    int there = b->from.linear(b->from.self, full, stack, in, out, &w.linear, b->err);
    if (!there && may_lack) return NO_WEIGHT;
    if (!there) err_set(b->err, "%s: tensor '%s.weight' is missing", b->from.name, full);
    if (there > 0) w.has_offsets = offsets_of(b, full, &w.linear, &offsets.linear);
    if (there <= 0 || w.has_offsets < 0) return keep(b, -1);
    int number = keep(b, step_plan_add_weight(b->plan, &w, b->err));
    if (w.has_offsets) keep(b, step_plan_add_weight(b->plan, &offsets, b->err));
    return number;
}

static int vector(struct builder *b, const char *name, int n, int may_lack)
{
    char full[NAME_BYTES];
    struct weight w = {.n = n};
    if (b->failed) return 0;
    full_name(b, name, full);
    int there = b->from.vector(b->from.self, full, n, &w.vector, b->err);
    if (!there && may_lack) return NO_WEIGHT;
    if (!there) err_set(b->err, "%s: tensor '%s' is missing", b->from.name, full);
    return keep(b, there > 0 ? step_plan_add_weight(b->plan, &w, b->err) : -1);
}

int arch_linear(struct builder *b, const char *name, int in, int out)
{
    return linear(b, name, 0, in, out, 0);
}

int arch_linear_or_none(struct builder *b, const char *name, int in, int out)
{
    return linear(b, name, 0, in, out, 1);
}

int arch_stack(struct builder *b, const char *name, int n, int in, int out)
{
    return linear(b, name, n, in, out, 0);
}

int arch_vector(struct builder *b, const char *name, int n) { return vector(b, name, n, 0); }

int arch_vector_or_none(struct builder *b, const char *name, int n)
{
    return vector(b, name, n, 1);
}

/* The value of a key, or for_layer its entry b->layer. NULL: there is none. */
static const json_t *value_of(const struct builder *b, const char *key, int for_layer)
{
    const json_t *v = json_object_get(b->json, key);
    return for_layer ? json_array_get(v, (size_t)b->layer) : v;
}

int arch_has(const struct builder *b, const char *key)
{
    return json_object_get(b->json, key) != NULL;
}

void arch_bad_key(struct builder *b, const char *key)
{
    if (!b->failed)
        err_set(b->err, "%s: config: '%s' is missing or out of range", b->from.name, key);
    b->failed = 1;
}

static float number(struct builder *b, const char *key, int for_layer, double lo, double hi)
{
    const json_t *v = value_of(b, key, for_layer);
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= lo && x <= hi)) arch_bad_key(b, key);
    return b->failed ? 0 : (float)x;
}

static int integer(struct builder *b, const char *key, int for_layer, int lo, int hi)
{
    const json_t *v = value_of(b, key, for_layer);
    json_int_t x = json_integer_value(v);
    if (!json_is_integer(v) || x < lo || x > hi) arch_bad_key(b, key);
    return b->failed ? lo : (int)x;
}

float arch_number(struct builder *b, const char *key, double lo, double hi)
{
    return number(b, key, 0, lo, hi);
}

float arch_number_at(struct builder *b, const char *key, double lo, double hi)
{
    return number(b, key, 1, lo, hi);
}

int arch_int(struct builder *b, const char *key, int lo, int hi)
{
    return integer(b, key, 0, lo, hi);
}

int arch_int_at(struct builder *b, const char *key, int lo, int hi)
{
    return integer(b, key, 1, lo, hi);
}

int arch_choice(struct builder *b, const char *key, const char *const *names, int n)
{
    const char *text = json_string_value(json_object_get(b->json, key));
    for (int i = 0; text && i < n; i++)
        if (!strcmp(text, names[i])) return i;
    arch_bad_key(b, key);
    return 0;
}

static int buffer(struct builder *b, const char *name, enum rows_of rows, size_t row_bytes)
{
    return b->failed ? 0 : keep(b, step_plan_add_buffer(b->plan, name, rows, row_bytes, b->err));
}

int arch_buffer(struct builder *b, const char *name, int n)
{
    return buffer(b, name, ROWS_STEP, (size_t)n * sizeof(float));
}

static int room(struct builder *b, const char *name, enum rows_of rows, int n)
{
    const struct step_plan *p = b->plan;
    const size_t bytes = (size_t)n * sizeof(float);
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffer[i].row_bytes == bytes && p->buffer[i].rows == rows &&
            !strcmp(p->buffer[i].name, name))
            return i;
    return buffer(b, name, rows, bytes);
}

int arch_room(struct builder *b, const char *name, int n) { return room(b, name, ROWS_STEP, n); }

struct op *arch_op(struct builder *b, enum op_kind kind, const char *name)
{
    static struct op unused; /* of a builder that failed */
    struct op op = op_of(kind, name, b->layer);
    struct step_plan *p = b->plan;
    if (b->failed) return &unused;
    int i = keep(b, b->drafts ? step_plan_add_draft(p, &op, b->err)
                              : step_plan_add_op(p, &op, b->err));
    return b->failed ? &unused : b->drafts ? &p->draft[i] : &p->op[i];
}

struct op *arch_embed(struct builder *b, int table, int x)
{
    struct step_plan *p = b->plan;
    if (!b->failed && (!p->weight[table].linear.weight || p->weight[table].linear.bias)) {
        err_set(b->err, "%s: the embedding must be unquantized and without bias", b->from.name);
        b->failed = 1;
    }
    if (p->best < 0) p->best = buffer(b, "best", ROWS_LOGITS, sizeof(int32_t));
    struct op *op = arch_op(b, OP_EMBED, "embed");
    op->in[0] = p->best;
    op->out[0] = x;
    op->w[0] = table;
    return op;
}

/* The second set of frequencies of longrope (LongRoPE, Ding et al. 2024). */
static void longer_angles(struct builder *b, const char *inv_freq, int w)
{
    char name[NAME_BYTES];
    if (b->failed) return;
    struct weight *to = &b->plan->weight[w];
    snprintf(name, sizeof name, "%s.long", inv_freq);
    int there = b->from.vector(b->from.self, name, to->n, &to->longer, b->err);
    if (keep(b, there) && !b->failed)
        to->longer_from = arch_int(b, "rope_long_from", 1, MODEL_MAX_SIZE);
}

struct arch_rope arch_angles(struct builder *b, const char *inv_freq, int pairs, float scale)
{
    struct arch_rope r = {.pairs = pairs};
    int w = arch_vector(b, inv_freq, pairs);
    longer_angles(b, inv_freq, w);
    r.cos = arch_buffer(b, "cos", pairs);
    r.sin = arch_buffer(b, "sin", pairs);
    struct op *op = arch_op(b, OP_ANGLES, "angles");
    op->as.angles.pairs = pairs;
    op->as.angles.scale = scale;
    op->w[0] = w;
    op->out[0] = r.cos;
    op->out[1] = r.sin;
    return r;
}

struct op *arch_norm(struct builder *b, const char *name, int x, int delta, int weight, int out)
{
    struct op *op = arch_op(b, OP_NORM, name);
    op->in[0] = x;
    op->in[1] = delta;
    op->w[0] = weight;
    op->out[0] = out;
    if (delta >= 0) op->out[1] = x;
    op->as.norm.eps = b->config->norm_eps;
    return op;
}

void arch_norm_center(struct op *norm, enum arch_norm_kind kind, int bias)
{
    norm->w[1] = bias;
    norm->as.norm.centered = kind != NORM_RMS;
}

struct op *arch_add(struct builder *b, const char *name, int x, int delta)
{
    struct op *op = arch_op(b, OP_ADD, name);
    op->in[0] = op->out[0] = x;
    op->in[1] = delta;
    return op;
}

/* Linears of one input usually were permuted alike; one pointer for equal permutations lets a
 * backend gather once. */
static void share_perm(struct linear *a, const struct linear *b)
{
    if (a->perm && b->perm && a->k == b->k &&
        !memcmp(a->perm, b->perm, (size_t)a->k * sizeof *a->perm))
        a->perm = b->perm;
}

/* arch_linears() without offsets. */
static void plain_linears(struct builder *b, const char *name, int in, int n, const int *w,
                          const int *out)
{
    struct op *op = arch_op(b, OP_LINEAR, name);
    if (b->failed) return;
    op->n = n;
    op->in[0] = in;
    for (int i = 0; i < n; i++) {
        op->w[i] = w[i];
        op->out[i] = out[i];
        if (i) share_perm(&b->plan->weight[w[i]].linear, &b->plan->weight[w[0]].linear);
    }
}

/* out[i] += R s for the linears from `first` on whose groups are as large as its: R the offsets of
 * w[i], s the sums of the groups of `in`. */
static void add_offsets(struct builder *b, int in, int first, int n, const int *w, const int *out)
{
    static const char *const names[OP_OUTS] = {"offsets", "offsets_2", "offsets_3"};
    const struct step_plan *p = b->plan;
    const struct linear *one = &p->weight[w[first]].linear;
    const int group = one->group, rows = (int)p->buffer[in].rows;
    int number[OP_OUTS], y[OP_OUTS], r[OP_OUTS], found = 0;
    for (int i = first; i < n; i++) {
        if (!p->weight[w[i]].has_offsets || p->weight[w[i]].linear.group != group) continue;
        number[found] = w[i] + 1;
        y[found] = out[i];
        r[found] = room(b, names[found], (enum rows_of)rows, p->weight[w[i]].linear.out);
        found++;
    }
    int sums = room(b, "sums", (enum rows_of)rows, one->n_groups);
    struct op *op = arch_op(b, OP_GROUP_SUMS, "sums");
    op->as.sums.group = group;
    op->in[0] = in;
    op->out[0] = sums;
    plain_linears(b, "offsets", sums, found, number, r);
    for (int i = 0; i < found; i++) arch_add(b, "offsets_add", y[i], r[i]);
}

void arch_linears(struct builder *b, const char *name, int in, int n, const int *w, const int *out)
{
    plain_linears(b, name, in, n, w, out);
    for (int i = 0; i < n && !b->failed; i++) {
        const struct weight *own = &b->plan->weight[w[i]];
        int done = 0;
        for (int j = 0; j < i; j++)
            done |= b->plan->weight[w[j]].has_offsets &&
                    b->plan->weight[w[j]].linear.group == own->linear.group;
        if (own->has_offsets && !done) add_offsets(b, in, i, n, w, out);
    }
}

void arch_experts(struct builder *b, const char *name, int in, int ids, int top_k, int each, int n,
                  const int *w, const int *out)
{
    struct op *op = arch_op(b, OP_EXPERTS, name);
    op->n = n;
    op->in[0] = in;
    op->in[1] = ids;
    for (int i = 0; i < n; i++) op->w[i] = w[i], op->out[i] = out[i];
    op->as.experts.top_k = top_k;
    op->as.experts.each = each;
}

int arch_state(struct builder *b, size_t bytes, size_t kept_bytes)
{
    struct state s = {bytes, kept_bytes};
    return b->failed ? 0 : keep(b, step_plan_add_state(b->plan, s, b->err));
}

struct arch_head_norms arch_head_norms(struct builder *b, const char *q, const char *k, int n)
{
    struct arch_head_norms w = {arch_vector_or_none(b, q, n), arch_vector_or_none(b, k, n)};
    if (w.q < 0 && w.k >= 0) arch_vector(b, q, n); /* says that it is missing */
    if (w.k < 0 && w.q >= 0) arch_vector(b, k, n);
    return w;
}

static struct op *rope(struct builder *b, const char *name, struct arch_rope rope,
                       struct heads heads, int kv)
{
    struct op *op = arch_op(b, OP_ROPE_STORE, name);
    op->in[3] = rope.cos;
    op->in[4] = rope.sin;
    op->as.rope.heads = heads;
    op->as.rope.kv = kv;
    op->as.rope.eps = b->config->norm_eps;
    return op;
}

static int cache_of(struct builder *b, const struct heads *h)
{
    struct kv_cache kv = {h->n_kv_heads, h->head_dim, h->value_dim};
    return keep(b, step_plan_add_kv(b->plan, kv, b->err));
}

int arch_rope_store(struct builder *b, const int qkv[3], struct arch_rope r, struct heads heads,
                    struct arch_head_norms norms)
{
    if (b->failed) return 0;
    int kv = cache_of(b, &heads);
    struct op *op = rope(b, "rope_store", r, heads, kv);
    memcpy(op->in, qkv, 3 * sizeof *qkv);
    op->out[0] = qkv[0];
    op->w[0] = norms.q;
    op->w[1] = norms.k;
    return kv;
}

int arch_rope_store_latent(struct builder *b, const struct arch_latent *l, struct arch_rope r,
                           struct heads heads)
{
    if (b->failed) return 0;
    int kv = cache_of(b, &heads);
    struct op *op = rope(b, "rope_store", r, heads, kv);
    op->in[0] = l->q_latent;
    op->in[1] = l->k_rot == NO_BUFFER ? l->latent : l->k_rot;
    op->in[2] = l->latent;
    op->in[5] = l->q_rot;
    op->as.rope.joined = l->k_rot == NO_BUFFER;
    op->out[0] = l->q;
    return kv;
}

void arch_rope(struct builder *b, int q, struct arch_rope r, struct heads heads, int q_norm, int kv)
{
    struct op *op = rope(b, "rope", r, heads, kv);
    op->in[0] = op->out[0] = q;
    op->w[0] = q_norm;
}

void arch_rope_ahead(struct builder *b, int x, struct arch_rope r, struct heads heads)
{
    struct op *op = rope(b, "rope_ahead", r, heads, b->plan->n_kv);
    op->in[0] = op->out[0] = x;
    op->as.rope.ahead = 1;
}

struct op *arch_attend(struct builder *b, int q, int out, struct heads heads, int kv, int window,
                       float scale)
{
    struct op *op = arch_op(b, OP_ATTEND, "attend");
    op->in[0] = q;
    op->out[0] = out;
    op->as.attend.heads = heads;
    op->as.attend.kv = kv;
    op->as.attend.window = window;
    op->as.attend.scale = scale;
    return op;
}

void arch_choose(struct builder *b, int q, int w, int chosen, struct heads heads, int kv, int top_k)
{
    struct op *op = arch_op(b, OP_CHOOSE, "choose");
    op->in[0] = q;
    op->in[1] = w;
    op->out[0] = chosen;
    op->as.choose.heads = heads;
    op->as.choose.kv = kv;
    op->as.choose.top_k = top_k;
}

struct op *arch_glu(struct builder *b, int gate, int up, enum activation activation)
{
    struct op *op = arch_op(b, OP_GLU, "glu");
    op->in[0] = op->out[0] = gate;
    op->in[1] = up;
    op->as.glu.activation = activation;
    return op;
}

void arch_tail(struct builder *b, int x, int delta, int h, const struct arch_tail *t)
{
    struct step_plan *p = b->plan;
    size_t dim = (size_t)b->config->dim * sizeof(float);
    b->layer = -1;
    p->n_body = p->n_ops;
    arch_norm_center(arch_norm(b, "norm", x, delta, t->norm, h), t->norm_kind, t->norm_bias);
    p->hidden = h;
    int last = buffer(b, "last", ROWS_LOGITS, dim);
    p->logits = buffer(b, "logits", ROWS_LOGITS, (size_t)b->config->vocab * sizeof(float));
    p->top = buffer(b, "top", ROWS_TOP, OP_TOP_ROOM * sizeof(struct logits_entry));
    p->score = buffer(b, "score", ROWS_SCORES, sizeof(struct logits_score));
    struct op *op = arch_op(b, OP_GATHER, "gather");
    op->in[0] = h;
    op->out[0] = last;
    arch_linears(b, "head", last, 1, &t->head, &p->logits);
    if (t->scale > 0) arch_add(b, "logits_scale", p->logits, NO_BUFFER)->as.add.scale = t->scale;
    if (t->softcap > 0) {
        op = arch_op(b, OP_SOFTCAP, "softcap");
        op->in[0] = op->out[0] = p->logits;
        op->as.softcap.cap = t->softcap;
    }
    op = arch_op(b, OP_ARGMAX, "argmax");
    op->in[0] = p->logits;
    op->out[0] = p->best;
    op = arch_op(b, OP_TOP, "top");
    op->in[0] = p->logits;
    op->out[0] = p->top;
    op = arch_op(b, OP_SCORE, "score");
    op->in[0] = p->logits;
    op->in[1] = p->best;
    op->out[0] = p->score;
    op = arch_op(b, OP_SAMPLE, "sample");
    op->in[0] = p->logits;
    op->in[1] = op->out[0] = p->best;
    op->in[2] = p->score;
}
