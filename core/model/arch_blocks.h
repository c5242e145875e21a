/* arch_blocks.h: the blocks of a decoder: the residual stream with its norms, attention, MLP,
 * mixture of experts. A file arch_*.c puts them in order and says what its models have of them.
 * Owns: the tensors' names in these blocks, the order of their operations, their buffers
 * (arch_room). Must not know: architectures. */
#ifndef CORE_ARCH_BLOCKS_H
#define CORE_ARCH_BLOCKS_H

#include "core/model/arch.h"

/* ---- the residual stream x: a block reads h and writes delta, which the next norm adds to x */
struct arch_stream {
    int x, h, delta; /* buffers [dim] */
    int added;       /* what the next norm adds to x; NO_BUFFER: nothing */
    int embed;       /* weight: the table of embeddings */
    enum arch_norm_kind layer_norm;
    struct arch_tail tail;
};
/* Fetches embed_tokens, lm_head (absent: the table), norm.weight and a LayerNorm's norm.bias. */
struct arch_stream arch_stream(struct builder *b, enum arch_norm_kind layer_norm);
/* x += what is to be added; h = norm of x with the weight "NAME.weight" (and "NAME.bias"). */
void arch_stream_norm(struct builder *b, struct arch_stream *s, const char *name);
/* The same norm into another buffer out; x stays as it is. */
void arch_stream_norm_to(struct builder *b, const struct arch_stream *s, const char *name, int out);
/* delta is to be added. */
void arch_stream_delta(struct arch_stream *s);
/* delta, normed with the weight "NAME.weight", is to be added. */
void arch_stream_norm_delta(struct builder *b, struct arch_stream *s, const char *name);
/* x = (x + what is to be added) scale; scale 0: 1 */
void arch_stream_add(struct builder *b, struct arch_stream *s, float scale);
void arch_stream_end(struct builder *b, const struct arch_stream *s);

/* ---- attention */
enum arch_head_norm {
    HEAD_NORM_IF_THERE, /* q_norm and k_norm of each head, or neither */
    HEAD_NORM_EACH,     /* required */
    HEAD_NORM_WHOLE,    /* required, over the whole projections of q and of k (OLMo 2) */
    HEAD_NORM_ROTATED   /* of each head after RoPE, or neither (Hunyuan) */
};
struct arch_attention {
    struct heads heads;
    struct arch_rope rope, no_rope; /* no_rope: HEAD_NORM_ROTATED, does not rotate */
    int window;                     /* as of OP_ATTEND */
    float scale;                    /* of q.k */
    float softcap;                  /* 0: none */
    enum arch_head_norm head_norm;
    int gated; /* the result times sigmoid(gate_proj) (Qwen3-Next) */
    int sinks; /* a logit of each head in the sum of exponentials (gpt-oss) */
    float query_beta;
    int query_original; /* q times 1 + beta ln(1 + floor((position + first) / original)); 0: not */
    int query_first;
};
/* Heads of the configuration, scale 1 / sqrt(head_dim), no RoPE table yet, the rest 0. */
struct arch_attention arch_attention(const struct builder *b);
/* The buffers of attention, for an architecture that adds them in an order of its own. */
void arch_attention_rooms(struct builder *b, const struct arch_attention *a);
/* out = o_proj(attention) of the current layer. in, out: [dim] */
void arch_attend_block(struct builder *b, const struct arch_attention *a, int in, int out);
/* The last part of it: q [n_heads * head_dim] attends to the cache kv. gate: of the result, the
 * same size, or NO_BUFFER */
void arch_attend_out(struct builder *b, const struct arch_attention *a, int q, int kv, int gate,
                     int out);

/* ---- MLP */
/* out = down(activation(gate(in)) * up(in)) of the linears layers.L.mlp.{gate,up,down}_proj */
void arch_mlp(struct builder *b, int ffn, enum activation activation, int in, int out);
/* The same with SiLU, whose input has a factor. */
void arch_mlp_scaled(struct builder *b, int ffn, float gate_scale, int in, int out);
/* out = down(activation(up(in))) */
void arch_mlp_ungated(struct builder *b, int ffn, enum activation activation, int in, int out,
                      const struct xielu *xielu);

/* ---- mixture of experts (Shazeer et al. 2017) */
struct arch_moe {
    int n_experts, top_k, ffn; /* of an expert */
    int shared_ffn;            /* of the expert that every row passes; 0: none */
    int shared_gate;           /* it has a gate: times sigmoid(shared_expert_gate) */
    int ungated;               /* experts are down(activation(up(in))) */
    int latent; /* size of what experts read and write, between two linears; 0: dim */
    enum router_score score;
    int normalize, groups, kept_groups;
    int group_best; /* groups are chosen by their best expert, not by their two best */
    float scale;
    int choice_bias, expert_scale; /* vectors of the router that the models have */
    enum activation activation;
    float limit, alpha; /* ACTIVATION_SWIGLU_CLAMPED */
    int scaled_input;   /* the weight is a factor of an expert's input, top_k 1 (Llama 4) */
};
/* Reads the keys; flags 0, activation SiLU. */
struct arch_moe arch_moe(struct builder *b);
/* out = the mixture, with the shared expert. in, out: [dim] */
void arch_moe_block(struct builder *b, const struct arch_moe *m, int in, int out);
/* Its parts for an architecture whose router reads another input than the experts. The chosen
 * experts are in buffers of their own from arch_moe_route to arch_moe_experts. */
void arch_moe_route(struct builder *b, const struct arch_moe *m, int in);
void arch_moe_experts(struct builder *b, const struct arch_moe *m, int in, int out);

/* ---- a decoder: layers of attention and MLP or experts between a table and a head */
struct arch_decoder {
    struct arch_stream stream;
    struct arch_attention attention;
    struct arch_rope rope;       /* of every layer, unless `begin` changes it */
    const struct arch_moe *moe;  /* NULL: MLPs */
    int parallel;                /* MLP beside attention, on the same norm (Cohere) */
    int all_experts;             /* moe in every layer; else in those that "experts" lists */
    int norm_out;                /* what blocks add is normed, too (GLM-4, Gemma) */
    int ungated;                 /* the MLP has no gate */
    enum activation activation;  /* of the MLP */
    struct xielu xielu;          /* ACTIVATION_XIELU */
    float embed_scale, residual; /* factors; 0: none */
    /* What differs from layer to layer, before its first norm; NULL: nothing. */
    void (*begin)(struct builder *b, struct arch_decoder *d);
    /* The layer's first block, in to out; NULL: attention. */
    void (*attend)(struct builder *b, const struct arch_decoder *d, int in, int out);
    const void *own;             /* of the architecture, for `attend` */
    struct arch_rope other_rope; /* for `begin` */
};
/* The stream, attention, the table "rope.inv_freq" of half a head; windows of the configuration,
 * SwiGLU. */
struct arch_decoder arch_decoder(struct builder *b, enum arch_norm_kind layer_norm);
/* The table of angles, which arch_decoder() leaves to be made after the architecture's own keys. */
void arch_decoder_rope(struct builder *b, struct arch_decoder *d);
/* A table that does not rotate. */
struct arch_rope arch_no_rope(struct builder *b);
/* The same, if the key no_rope lists a layer; else `otherwise`. */
struct arch_rope arch_no_rope_if_used(struct builder *b, struct arch_rope otherwise);
/* Layers that no_rope lists do not rotate. Sets `begin`. */
void arch_decoder_no_rope(struct builder *b, struct arch_decoder *d);
/* HEAD_NORM_ROTATED for every layer. */
void arch_norm_rotated(struct builder *b, struct arch_decoder *d);
/* arch_draft()'s layer of attention or `attend`, and experts or an MLP. arg: struct arch_decoder */
void arch_draft_layer(struct builder *b, struct arch_stream *s, int sparse, void *arg);
/* Embedding, layers, tail. */
void arch_decode(struct builder *b, struct arch_decoder *d);

#endif
