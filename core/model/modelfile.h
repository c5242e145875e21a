/* modelfile.h: the model file, opened read-only and checked. Owns: the mapping, the format.
 * Must not know: checkpoints, computation.
 *
 * FORMAT, versions 1 and 2. This text is normative; docs/model-file.md has it as tables, with a
 * reader in Python. The file is a valid safetensors file. The data section and every tensor start
 * at a multiple of 64; U8 tensors named "pad.N" fill the gaps, because the container allows none.
 *
 * __metadata__ (strings; the first four hold JSON):
 *   opt4gptq.version         1; 2 where a linear has offsets, which other programs would leave out
 *   opt4gptq.config          the architecture, resolved from the source's aliases:
 *       architecture             a name listed in core/model/arch_*.c
 *       n_layers, dim, ffn, n_heads, n_kv_heads, head_dim, vocab, context      integers
 *       norm_eps                 number
 *       rope_scale               number: factor on cos and sin where a frequency is not 0
 *       rope                     text for people
 *       windows                  [n_layers] integers: 0 = all positions, w = positions p with
 *                                pos - p < w
 *       bos                      integer, -1: none
 *       eos                      list of integers
 *       headless                 1, optional: there is no lm_head, only hidden rows mean anything
 *       rope_long_from           integer, optional: longer sequences take rope.inv_freq.long
 *       embed_scale, attend_scale, attend_softcap, logits_softcap, residual_scale, logits_scale
 *                                numbers, of Gemma and Granite: factors on embeddings, q.k, results
 *                                of blocks and logits; softcaps (0: none)
 *       query_beta, query_original, no_rope, swiglu_limit, swiglu_alpha
 *       experts, n_experts, top_k, expert_ffn, shared_ffn, router_score, router_normalize,
 *           router_scale, router_groups, router_kept_groups      of mixtures of experts
 *       latent_dim, nope_dim, value_dim, q_lora_dim, latent_eps, router_group_best
 *                                of multi-head latent attention
 *       layer_types, linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim,
 *           conv_width           of gated DeltaNet and Mamba-2
 *       conv_bias, mamba_norm, mamba_*_scale, attend_out_scale, mlp_*_scale, expert_dim,
 *           router_bias          of hybrids
 *       head_dims, kv_heads, ffns, kv_from, layer_scalar, ple_dim         of Gemma 4
 *                                docs/model-file.md says what they mean
 *   opt4gptq.quantization    for people: method, bits, group, sym, act_order, zeros, sorted_ffns
 *                            (number of layers with mlp.order; absent: none),
 *                            plain_8bit (plain linears stored with 8 bits; absent: none),
 *                            outliers (inputs of W4A4 with 8 bits; absent: none)
 *   opt4gptq.source          for people: directory, files with sizes, quantizer, converter version
 *   opt4gptq.crc32           {tensor name: 8 hex digits} for every tensor but pad.N
 *   opt4gptq.header_crc32    8 hex digits: crc32 of the whole header with these digits as zeros;
 *                            compared when the file is opened, because a changed head count or
 *                            tensor name would change answers silently
 *
 * Tensors (names are the source's without "model."; L = layer number):
 *   embed_tokens.weight                        F16 | BF16 | F32 [vocab][dim]
 *   lm_head                                    a linear [dim -> vocab]; absent: the embedding
 *   norm.weight                                F32 [dim]
 *   layers.L.input_layernorm.weight            F32 [dim]
 *   layers.L.post_attention_layernorm.weight   F32 [dim]
 *   layers.L.pre_feedforward_layernorm.weight  F32 [dim], of Gemma and GLM-4; where the source
 *   layers.L.post_feedforward_layernorm.weight   multiplies by 1 + w, that is stored
 *                                              .bias F32 [dim] beside any of these: LayerNorm
 *   layers.L.self_attn.q_norm.weight           F32 [head_dim], with k_norm or absent
 *   layers.L.self_attn.k_norm.weight           F32 [head_dim], with q_norm or absent
 *   layers.L.self_attn.{q,k,v,o}_proj          linears
 *   layers.L.self_attn.{q_a,q_nope,q_rope,kv_a,k_rope}_proj, layers.L.self_attn.kv_b_{k,v}
 *                                              linears and stacks [n_heads] of latent attention
 *   layers.L.mlp.{gate,up,down}_proj           linears
 *   layers.L.mlp.router                        linear [dim -> n_experts]
 *   layers.L.mlp.experts.{gate,up,down}_proj   stacks of linears
 *   layers.L.mlp.shared_expert.{gate,up,down}_proj, layers.L.mlp.shared_expert_gate   linears
 *   layers.L.linear_attn.{qkv,z,b,a,out}_proj  linears of gated DeltaNet, Mamba-2, and with c, v of
 *                                              short convolutions
 *                                              further vectors of experts, DeltaNet and Gemma 4:
 *                                              docs/model-file.md
 *   layers.L.mlp.order                         I32 [ffn], optional: output i of gate and up, and so
 *                                              input i of down, is number order[i] of the source.
 *                                              Inference ignores it; it serves to rebuild the
 *                                              source's matrices
 *   rope.inv_freq                              F32 [head_dim/2]: angle = inv_freq * position, with
 *                                              the source's scaling applied
 *   rope.inv_freq.long, rope.none.inv_freq     of longrope; of layers without RoPE (zeros)
 *   rope.full.inv_freq, rope.sliding.inv_freq  of Gemma in place of rope.inv_freq: of layers
 *                                              without and with a window. Programs that do not look
 *                                              at the architecture require rope.inv_freq and refuse
 *                                              the file
 *   file.NAME                                  U8 [bytes]: a file of the source, each optional:
 *                                              tokenizer.json, tokenizer.model,
 *                                              tokenizer_config.json, special_tokens_map.json,
 *                                              added_tokens.json,
 *                                              chat_template.jinja, chat_template.json,
 *                                              additional_chat_templates/tool_use.jinja,
 *                                              generation_config.json, config.json,
 *                                              modules.json, 1_Pooling/config.json
 *
 * A linear P of `in` inputs and `out` outputs is either plain,
 *   P.weight   F16 | BF16 | F32 [out][in]
 * or 4-bit, W[n][k] = scale * (code - zero), with panels = ceil(out/16) and k = groups * group,
 * group a multiple of 32:
 *   P.codes    U8 [panels][k/8][16][4]: byte b of row r in block c holds input 8c+b in its low
 *              nibble and input 8c+4+b in its high nibble; rows past `out` are zero
 *   P.scales   F16 | F32 [panels][groups][16]
 *   P.zeros    U8 [panels][groups][16], 0..16
 *   P.perm     I32 [k], optional: packed input j is input perm[j] of the layer, -1: the slot is 0.
 *              Without it k = in
 *   P.offsets  a plain linear [out][groups] (so P.offsets.weight), optional, without perm and not
 *              of a stack: W[n][k] = scale * (code - zero) + offset, what zero points that are no
 *              integers leave. Files that have one are of version 2
 * Either may have
 *   P.bias     F32 [out]
 * A stack has one more dimension [n_experts] in front of each tensor (codes have 5, of
 * ST_MAX_DIMS); all experts have the same k, group and types, and all or none a perm.
 *
 * The converter expresses widths other than 4, act-order, short groups, v1 zeros, MXFP4 and plain
 * linears rounded to 8 bits by these: codes are widened, inputs permuted, padded or repeated. Where
 * down has act-order and gate, up and down are 4-bit, the outputs of gate and up are sorted by
 * down's groups (the operations between are elementwise), so that down has no perm, or one that
 * only pads or repeats. */
#ifndef CORE_MODELFILE_H
#define CORE_MODELFILE_H

#include "core/base/progress.h"
#include "core/base/safetensors.h"

#include <stddef.h>

enum { MF_VERSION = 1, MF_VERSION_OFFSETS = 2 };
enum { MF_PANEL = 16, MF_BLOCK = 8, MF_GROUP_MULTIPLE = 32, MF_ALIGN = 64 };

/* A tensor in the mapping, read-only. */
struct tview {
    const void *data;
    size_t bytes;
    enum dtype dtype;
    int n_dims;
    int64_t shape[ST_MAX_DIMS];
};

struct modelfile {
    struct st_file st;
    const uint8_t *map; /* [st.file_bytes], read-only */
};

/* crc32 of a header [n bytes] with its 8 digits as zeros; *at: their offset. -1: it has none. */
int mf_header_crc(const char *header, size_t n, uint32_t *crc, size_t *at);
/* Opens and maps PATH. Error: not a model file, another version, a damaged header. */
int mf_open(struct modelfile *m, const char *path, struct err *e);
void mf_close(struct modelfile *m);
/* 1 and fills *v when the tensor exists, 0 when not. */
int mf_find(const struct modelfile *m, const char *name, struct tview *v);
/* The bytes of "file.NAME", not NUL-terminated; NULL and *n = 0 when there is none. */
const char *mf_source_file(const struct modelfile *m, const char *name, size_t *n);
/* Compares the crc32 of every tensor with the file's list. Error: the first mismatch, missing or
 * surplus entry. *n_checked: tensors compared. PROGRESS, which has begun, is shown; NULL: none. */
int mf_verify(const struct modelfile *m, struct progress *progress, size_t *n_checked,
              struct err *e);

#endif
