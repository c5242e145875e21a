/* hf_config.h: the architecture and its parameters, from config.json. Owns: supported
 * architectures, aliases and defaults of their keys, kinds of layers, sliding windows, RoPE tables.
 * Must not know: quantization, tensors. */
#ifndef CONVERT_HF_CONFIG_H
#define CONVERT_HF_CONFIG_H

#include "convert/notes.h"
#include "core/base/err.h"

#include <jansson.h>
#include <stdint.h>

/* What an architecture has; the tables of tensors (plan_names.c) depend on it. */
enum hf_trait {
    HF_QKV_BIAS = 1 << 0, /* always: of q, k, v, not only where the checkpoint has one */
    HF_O_BIAS = 1 << 1,
    HF_MLP_BIAS = 1 << 2,
    HF_QK_NORM = 1 << 3,       /* norms of the heads of q and k */
    HF_QK_NORM_WHOLE = 1 << 4, /* norms of all of q and of all of k */
    HF_NORM_PLUS_1 = 1 << 5,   /* norms multiply by 1 + w */
    HF_LAYER_NORM = 1 << 6,    /* LayerNorm with bias instead of RMSNorm */
    HF_GEMMA = 1 << 7,         /* four norms under Gemma's names, scaled embedding, two RoPEs */
    HF_GLM_NORMS = 1 << 8,     /* four norms under GLM-4's names */
    HF_POST_NORMS = 1 << 9,    /* norms of results only (OLMo 2) */
    HF_OUTPUT_GATE = 1 << 10,  /* rows of q_proj: of each head q, then its gate */
    HF_NO_GLU = 1 << 11,       /* MLP of c_fc and c_proj */
    HF_SINKS = 1 << 12,
    HF_EXPERTS = 1 << 13,
    HF_CHOICE_BIAS = 1 << 14, /* of the router, for the choice only */
    HF_SHARED_GATE = 1 << 15, /* sigmoid gate of the shared expert */
    HF_HYBRID = 1 << 16,      /* layers of gated DeltaNet */
    HF_GEMMA4 = 1 << 17,
    HF_PLE = 1 << 18,         /* per-layer embeddings (Gemma 4) */
    HF_INTERLEAVED = 1 << 19, /* RoPE rotates pairs (2i, 2i + 1) */
    HF_GPT_OSS = 1 << 20,     /* layouts of its experts; SwiGLU with limits */
    HF_NO_ROPE = 1 << 21,     /* some layers have no RoPE, or heads are rotated ahead (Hunyuan) */
    HF_SCALES = 1 << 22,      /* four multipliers (Granite) */
    HF_QUERY_SCALE = 1 << 23, /* queries grow with the position (Ministral 3) */
    HF_MROPE = 1 << 24,       /* RoPE has sections for images: of text all positions are equal */
    HF_TURNED_EXPERTS = 1 << 25, /* tensors of all experts are [E][in][out] */
    HF_SLIDING_ROPE = 1 << 26,   /* layers with a window have a RoPE of their own (OLMo 3) */
    HF_TIED = 1 << 27,           /* tied, whatever the language model alone says */
    HF_LATENT = 1 << 28,         /* multi-head latent attention */
    HF_Q_LORA = 1 << 29,         /* queries are made of a latent, too */
};
/* More than an enumeration holds; bits 44 to 50. */
#define HF_ONE_NORM (UINT64_C(1) << 44)  /* attention and MLP side by side on one norm (Cohere) */
#define HF_XIELU (UINT64_C(1) << 45)     /* xIELU with numbers of each layer (Apertus) */
#define HF_SOFTMAX (UINT64_C(1) << 46)   /* HF_CHOICE_BIAS with scores of a softmax (ERNIE) */
#define HF_MOE_SIZES (UINT64_C(1) << 47) /* the tensors say how wide experts are (Hunyuan) */
#define HF_LLAMA4 (UINT64_C(1) << 48)
#define HF_UNIT_NORMS (UINT64_C(1) << 49) /* norms of heads without weight where they rotate */

#define HF_MAMBA2 (UINT64_C(1) << 32)     /* layers of Mamba-2 */
#define HF_SHORT_CONV (UINT64_C(1) << 33) /* layers of gated short convolutions (LFM2) */
#define HF_STATES (HF_MAMBA2 | HF_SHORT_CONV)
#define HF_ONE_BLOCK (UINT64_C(1) << 34)      /* a layer is one block with one norm (Nemotron-H) */
#define HF_FALCON (UINT64_C(1) << 35)         /* attention beside Mamba-2 in every layer; factors */
#define HF_NOPE (UINT64_C(1) << 36)           /* nothing rotates */
#define HF_CONV_BIAS (UINT64_C(1) << 37)      /* of convolutions */
#define HF_LATENT_EXPERTS (UINT64_C(1) << 39) /* two linears around the experts */
#define HF_OLMO_HYBRID (UINT64_C(1) << 40)    /* DeltaNet normed ahead, attention as in OLMo 2 */
#define HF_MAMBA_NORM (UINT64_C(1) << 38)     /* of Mamba-2's result */
#define HF_KIMI (UINT64_C(1) << 42)           /* layers of Kimi Delta Attention */
#define HF_MAMBA1 (UINT64_C(1) << 43)         /* layers of Mamba-1 (Jamba) */
#define HF_INDEXER (UINT64_C(1) << 41)        /* chooses the positions of latent attention */

/* What a layer of a family with HF_STATES is. */
enum layer_kind { KIND_ATTENTION, KIND_STATE, KIND_MLP, KIND_EXPERTS };

/* Falcon-H1: factors, and where the norm of Mamba-2's result stands ("none": nowhere). */
struct hf_falcon {
    double attend_in, mamba_in; /* of the inputs, moved into those below */
    double attend_out, mamba_out, mlp_gate, mlp_out, gate, dt;
    double conv[3]; /* of x, B and C */
    const char *norm;
};

/* xIELU (Huang & Schlag 2024): of u > 0 p u^2 + beta u, else n (e^min(u, eps) - 1 - u) + beta u. */
struct hf_xielu {
    double p, n, beta, eps;
};

/* A layer of attention that only drafts tokens. */
enum hf_draft { HF_DRAFT_NONE, HF_DRAFT_MLP, HF_DRAFT_EXPERTS };

struct hf_config {
    const char *architecture; /* value of the model file's key */
    uint64_t traits;          /* enum hf_trait and HF_*, bits below 52 */
    int n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context;
    int tied;          /* the embedding is also the head, unless the checkpoint has another */
    int may_lack_head; /* its class has none: it makes embeddings */
    int headless;      /* plan_build found none */
    double norm_eps, rope_scale;
    char rope[160];       /* description, for messages */
    float *inv_freq;      /* [head_dim/2]; Gemma 4: [head dim of full layers / 2] */
    float *inv_freq_long; /* [head_dim/2] for sequences of more than rope_long_from positions;
                             NULL: the same */
    int rope_long_from;
    int rotary;   /* dimensions of a head that rotate, the first ones of the source's order */
    int *windows; /* [n_layers], 0 = none */
    int bos;      /* -1 = none */
    int *eos;     /* [n_eos] */
    size_t n_eos;
    int n_drafts; /* layers after n_layers that only draft tokens */
    enum hf_draft draft; /* the one of them that the model file has (plan_layers.c) */
    /* Gemma, Granite: */
    float *sliding_inv_freq; /* [head_dim/2] of layers with a window; HF_SLIDING_ROPE, too */
    double embed_scale, attend_scale, attend_softcap, logits_softcap; /* softcaps 0: none */
    double residual_scale, logits_scale;
    /* HF_EXPERTS: */
    int *experts; /* [n_layers] 1: the layer has router and experts */
    int n_experts, top_k, expert_ffn, shared_ffn; /* shared_ffn 0: no shared expert */
    int router_sigmoid, router_normalize, router_groups, router_kept_groups;
    int router_group_best; /* groups are chosen by their best expert */
    double router_scale;
    double swiglu_limit, swiglu_alpha; /* HF_GPT_OSS */
    /* HF_HYBRID: */
    int *linear; /* [n_layers] enum layer_kind; KIND_STATE without HF_STATES: gated DeltaNet */
    int linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim, conv_width;
    int *chunks;                       /* HF_LLAMA4: [n_layers] positions, 0: all */
    struct hf_xielu *xielu;            /* HF_XIELU: [n_layers] filled from the tensors (plan.c) */
    int *no_rope;                      /* HF_NO_ROPE: [n_layers] 1: the layer has none */
    double query_beta, query_original; /* HF_QUERY_SCALE */
    /* HF_LATENT; head_dim is the rotated part of a head, attend_scale the whole factor of scores:
     */
    int latent_dim, nope_dim, value_dim, q_lora_dim; /* q_lora_dim 0: none */
    int index_top_k, index_heads, index_dim;         /* HF_INDEXER */
    int index_pairs; /* it rotates pairs (2i, 2i + 1), else (i, i + half) */
    int *indexers;   /* [n_layers] 1: the layer has its own, 0: takes the last choice before */
    int dt_rank;     /* HF_MAMBA1: latent of the steps of channels */
    struct hf_falcon falcon;                         /* HF_FALCON */
    double beta_scale;                               /* HF_OLMO_HYBRID */
    int expert_dim; /* HF_ONE_BLOCK: size of what experts read and write; 0: dim */
    /* HF_GEMMA4: */
    int *head_dims, *kv_heads, *ffns; /* [n_layers] */
    int *kv_from;                     /* [n_layers] layer whose keys and values it reads */
    int k_eq_v;                       /* layers without a window have no v_proj */
    double *layer_scalar;             /* [n_layers] filled from the tensors (plan.c) */
    int ple_dim;                      /* 0: no per-layer embeddings */
};

/* Reads CONFIG (config.json) and GENERATION (generation_config.json or NULL). Messages begin with
 * "config.json: ". */
int hfc_read(struct hf_config *c, const json_t *config, const json_t *generation,
             const struct notes *n, struct err *e);
/* Adds the tokenizer's own end token to those of the configuration; id -1: it has none. */
int hfc_end(struct hf_config *c, int id, const struct notes *n, struct err *e);
void hfc_free(struct hf_config *c);
/* The metadata string "opt4gptq.config" (core/model/modelfile.h) as an object. */
json_t *hfc_to_json(const struct hf_config *c);

/* What a family's configuration class has for keys that are missing. */
struct hf_rope_defaults {
    double theta;
    double partial; /* part of a head that rotates */
};
/* Computes inv_freq, inv_freq_long, rope_long_from, rope_scale, rotary and rope from
 * rope_theta, rope_scaling or rope_parameters. head_dim, context and traits must be set. In rope.c.
 */
int hfc_rope(struct hf_config *c, const json_t *config, const struct hf_rope_defaults *d,
             const struct notes *n, struct err *e);
/* The same where nothing rotates: zeros. */
int hfc_no_rope(struct hf_config *c, struct err *e);

#endif
