/* arch.h: the builder with which an architecture's file (arch_*.c) makes the plan of a step: it
 * fetches weights by name and appends operations in order.
 * Owns: the list of architectures, the names of tensors. Must not know: backends, sequences.
 *
 * Builder functions return numbers of the plan. The first failure latches in the builder: later
 * calls do nothing and return 0, and arch_build reports it. */
#ifndef CORE_ARCH_H
#define CORE_ARCH_H

#include "core/base/json.h"
#include "core/step/plan.h"

/* What all architectures have. */
struct model_config {
    char architecture[32];
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context;
    float norm_eps, rope_scale;
    int bos;      /* -1: none */
    int headless; /* the checkpoint has no head: logits mean nothing */
    int n_eos;
    int32_t *eos; /* [n_eos] */
    int *windows; /* [n_layers] positions that a layer attends to, 0: all */
};

/* Where weights come from: a model file (tensors.h), or made-up ones (bench/shape.c). Each function
 * returns 1 and a checked weight, 0 when there is none of this name, -1 with an error. */
struct weight_source {
    void *self;
    const char *name; /* for messages: the file's path */
    int (*linear)(void *self, const char *name, int stack, int in, int out, struct linear *w,
                  struct err *e); /* stack: see struct linear */
    int (*vector)(void *self, const char *name, int n, const float **v, struct err *e);
};

struct builder {
    const struct model_config *config;
    const json_t *json; /* the file's object, for fields of one architecture; or NULL */
    struct weight_source from;
    struct step_plan *plan;
    int layer;  /* of the operations that are appended; -1: none */
    int drafts; /* operations are appended to those that draft tokens */
    int failed;
    struct err *err;
};

struct arch {
    const char *const *names; /* values of config.architecture, ends with NULL */
    void (*build)(struct builder *b);
};

/* Builds the plan of config->architecture. Error: unknown architecture, a missing or misshapen
 * tensor. *p is freed on failure. */
int arch_build(struct step_plan *p, const struct model_config *g, const json_t *json,
               const struct weight_source *from, struct err *e);

/* ---- for arch_*.c ---- */
/* Weights; %d in a name is the current layer. A missing weight is an error, or NO_WEIGHT from
 * *_or_none. */
int arch_linear(struct builder *b, const char *name, int in, int out);
int arch_linear_or_none(struct builder *b, const char *name, int in, int out);
int arch_stack(struct builder *b, const char *name, int n, int in, int out);
int arch_vector(struct builder *b, const char *name, int n);
int arch_vector_or_none(struct builder *b, const char *name, int n);
/* Rows of n elements of 4 bytes, one for each token. */
int arch_buffer(struct builder *b, const char *name, int n);
/* The buffer of this name and size, added by the first call: all layers have it in common. */
int arch_room(struct builder *b, const char *name, int n);
/* A number of b->json from lo to hi; missing or another is an error. arch_int: an integer;
 * arch_number_at, arch_int_at: entry b->layer of a list of n_layers. */
float arch_number(struct builder *b, const char *key, double lo, double hi);
float arch_number_at(struct builder *b, const char *key, double lo, double hi);
int arch_int(struct builder *b, const char *key, int lo, int hi);
int arch_int_at(struct builder *b, const char *key, int lo, int hi);
/* Index of the text b->json[key] in names [n]; missing or another is an error. */
int arch_choice(struct builder *b, const char *key, const char *const *names, int n);
/* Whether b->json has the key. */
int arch_has(const struct builder *b, const char *key);
/* Refuses the file for the value of a key. */
void arch_bad_key(struct builder *b, const char *key);
/* Appends the operation of b->layer; the pointer is good until the next one. */
struct op *arch_op(struct builder *b, enum op_kind kind, const char *name);
/* The operations that models share; blocks of them are in arch_blocks.h. Those that return their
 * operation have attributes that are 0 unless the caller sets them. */
/* x = rows of an unquantized table [vocab][n] */
struct op *arch_embed(struct builder *b, int table, int x);
struct arch_rope {
    int cos, sin, pairs; /* buffers */
};
/* Where the model has a tensor "INV_FREQ.long", that one holds for contexts of more than
 * `rope_long_from` positions (a key of the configuration). */
struct arch_rope arch_angles(struct builder *b, const char *inv_freq, int pairs, float scale);
/* x += delta (NO_BUFFER: not); out = RMSNorm(x) * weight */
struct op *arch_norm(struct builder *b, const char *name, int x, int delta, int weight, int out);
enum arch_norm_kind {
    NORM_RMS,
    NORM_LAYER,   /* LayerNorm with a bias */
    NORM_CENTERED /* LayerNorm without one */
};
/* Gives a norm its kind; bias: weight, or NO_WEIGHT. */
void arch_norm_center(struct op *norm, enum arch_norm_kind kind, int bias);
/* x += delta (NO_BUFFER: not) */
struct op *arch_add(struct builder *b, const char *name, int x, int delta);
/* out[i] = w[i] in, n at most OP_OUTS. Equal permutations become one pointer. Offsets that a linear
 * has are added by operations of their own, behind it. */
void arch_linears(struct builder *b, const char *name, int in, int n, const int *w, const int *out);
/* The norms of heads of q and k: both or neither. */
struct arch_head_norms {
    int q, k; /* weights [head_dim], or NO_WEIGHT */
};
struct arch_head_norms arch_head_norms(struct builder *b, const char *q, const char *k, int n);
/* out[i] = slots of linears of stacks w[i]; ids [rows][top_k]; each: `in` has top_k slots, too; ids
 * NO_BUFFER: slot j takes linear j */
void arch_experts(struct builder *b, const char *name, int in, int ids, int top_k, int each, int n,
                  const int *w, const int *out);
/* A state for each sequence; its number. kept_bytes: of a draft's row (struct state). */
int arch_state(struct builder *b, size_t bytes, size_t kept_bytes);
/* qkv[3] buffers; the KV cache that is added for it. */
int arch_rope_store(struct builder *b, const int qkv[3], struct arch_rope rope, struct heads heads,
                    struct arch_head_norms norms);
/* The same of latent heads (op.h): q of all heads from its parts q_latent and q_rot; key: the
 * latent and its rotated part. */
struct arch_latent {
    int q, q_latent, q_rot; /* buffers */
    int latent, k_rot;      /* k_rot NO_BUFFER: behind the latent in its buffer */
};
int arch_rope_store_latent(struct builder *b, const struct arch_latent *l, struct arch_rope rope,
                           struct heads heads);
/* The same for q alone: keys and values are those of an earlier layer's cache kv. */
void arch_rope(struct builder *b, int q, struct arch_rope rope, struct heads heads, int q_norm,
               int kv);
/* Rotates heads ahead of the arch_rope_store() of the layer and changes nothing else. */
void arch_rope_ahead(struct builder *b, int x, struct arch_rope rope, struct heads heads);
/* out = attention of q; window 0: all positions; scale: of q.k */
struct op *arch_attend(struct builder *b, int q, int out, struct heads heads, int kv, int window,
                       float scale);
/* chosen = the top_k positions of the cache that rows with the queries q and weights w attend to */
void arch_choose(struct builder *b, int q, int w, int chosen, struct heads heads, int kv,
                 int top_k);
/* gate = activation(gate) * up (NO_BUFFER: 1) */
struct op *arch_glu(struct builder *b, int gate, int up, enum activation activation);
/* What comes after the last layer. */
struct arch_tail {
    int norm, norm_bias; /* weights; norm_bias NO_WEIGHT: there is none */
    enum arch_norm_kind norm_kind;
    int head;
    float scale, softcap; /* of the logits, in this order; 0: none */
};
/* x += delta (NO_BUFFER: not), final norm into h, gather, head, scale, softcap, argmax, top. */
void arch_tail(struct builder *b, int x, int delta, int h, const struct arch_tail *t);

#endif
