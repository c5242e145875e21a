/* hf_family.h: the table of supported architectures, and reading of keys. Private to hf_*.c. */
#ifndef CONVERT_HF_FAMILY_H
#define CONVERT_HF_FAMILY_H

#include "convert/hf_config.h"

/* How a family's layers get their windows. */
enum hf_windows {
    WINDOWS_NONE,
    WINDOWS_ALL,     /* every layer, where sliding_window is not null */
    WINDOWS_LISTED,  /* the same, or layer_types */
    WINDOWS_USED,    /* every layer, where use_sliding_window is true */
    WINDOWS_QWEN,    /* where use_sliding_window is true: layer_types, or from max_window_layers */
    WINDOWS_EVEN,    /* the same: even layers below max_window_layers (Qwen2-MoE) */
    WINDOWS_NO_ROPE, /* where use_sliding_window is true: layer_types, or layers without RoPE */
    WINDOWS_TYPES,   /* layer_types, or all but every n-th layer */
    WINDOWS_ROPE,    /* where sliding_window is not null: layer_types, or all but every n-th layer;
                        the others have no RoPE */
    WINDOWS_FROM,    /* where sliding_window is not null: layer_types, or from max_window_layers */
};

/* Defaults of transformers' configuration classes, for keys that a config leaves out. */
struct hf_family {
    const char *name;              /* architecture in the model file */
    const char *classes[4];        /* of `architectures` */
    const char *types[4];          /* of model_type */
    int layers, dim, heads, vocab; /* vocab 0: required */
    int kv_heads;                  /* 0 = as many as heads */
    int head_dim;                  /* 0 = dim / heads */
    int context, bos, eos, ffn;
    int tied;
    uint64_t traits;
    enum hf_windows windows;
    int window;                   /* of a missing sliding_window; 0: none */
    int full_every;               /* of so many layers the last has no window, or full attention */
    int gemma;                    /* 0, or the generation */
    int ple;                      /* Gemma 4: size of a missing hidden_size_per_layer_input */
    double eps;                   /* 0: 1e-6 */
    const char *eps_key;          /* NULL: rms_norm_eps */
    struct hf_rope_defaults rope; /* 0: 10000, all of a head */
    double softcaps[2];           /* Gemma: of scores, of logits; 0: none */
    int experts, top_k, expert_ffn;
    int shared_ffn;       /* HF_SHARED_GATE: of the shared expert; else how many experts' */
    const char *bias_key; /* switches on the traits bias_traits; NULL: none */
    int bias_default;
    uint64_t bias_traits;
    int more_eos[2];         /* beside eos; 0: none */
    int normalize;           /* of the chosen experts' weights: -1: always */
    int dense_layers;        /* the first so many have no experts */
    int groups, kept_groups; /* of the router; 0: 1 */
    double router_scale;     /* 0: 1 */
    struct {
        int kv_lora, q_lora, nope, rotated, value;
    } latent; /* HF_LATENT */
};

/* The family of CONFIG; *nested: 1: its language model is in text_config; 2: and is of a family of
 * its own. */
const struct hf_family *hff_find(const json_t *config, int *nested, struct err *e);

/* An integer of [lo, hi]. A missing or null key gives `fallback`; a fallback below lo makes the key
 * required. */
int hff_int(const json_t *j, const char *key, int fallback, int lo, int hi, int *out,
            struct err *e);
/* A number of [lo, hi]. A missing key gives `fallback`, null 0. */
int hff_number(const json_t *j, const char *key, double fallback, double lo, double hi, double *out,
               struct err *e);
/* The value, or NULL for a missing key and null. */
const json_t *hff_value(const json_t *j, const char *key);
/* A boolean, also as Python's 0 or 1, or `fallback` for a missing key and null. */
int hff_flag(const json_t *j, const char *key, int fallback, int *out, struct err *e);
/* *list: [n] zeros. */
int hff_list(int **list, int n, struct err *e);
/* layer_types: NULL where it is missing; an error unless it names c->n_layers layers. */
int hff_types(const struct hf_config *c, const json_t *config, const json_t **types, struct err *e);
/* 1 if layer_types[layer] is `type`. */
int hff_type_is(const json_t *types, int layer, const char *type);

/* Windows, kinds of layers, experts (hf_layers.c). */
int hff_layers(struct hf_config *c, const json_t *config, const struct hf_family *f,
               const struct notes *n, struct err *e);
/* Gemma's keys, RoPE tables (hf_gemma.c). */
int hff_gemma(struct hf_config *c, const json_t *config, const struct hf_family *f,
              const struct notes *n, struct err *e);
/* The RoPE tables of layers with and without a window. */
int hff_two_ropes(struct hf_config *c, const json_t *config, const struct hf_family *f,
                  const struct notes *n, struct err *e);
/* Sizes of latent attention; the factor of its scores, from the RoPE's keys (hf_latent.c). */
int hff_latent(struct hf_config *c, const json_t *config, const struct hf_family *f, struct err *e);
int hff_latent_scale(struct hf_config *c, const json_t *config, struct err *e);
/* Gemma 4: lists by layer, after hff_layers. */
int hff_gemma4_layers(struct hf_config *c, const json_t *config, struct err *e);

#endif
