/* modelfile.h: our model file, opened read-only and checked. Owns: the mapping, the format. Must
 * not know: how anything is computed, where a checkpoint came from.
 *
 * FORMAT, version 1 (this text decides; docs/model-file.md has it as tables, with a reader in
 * Python). A valid safetensors file, so that any safetensors reader opens it. The data section
 * starts at a multiple of 64 and so does every tensor; gaps are closed by U8 tensors named "pad.N",
 * because the container allows no holes.
 *
 * __metadata__ (strings; the first four hold JSON):
 *   opt4gptq.version   1
 *   opt4gptq.config    the architecture, already resolved from the source's aliases: architecture
 *       ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3") n_layers, dim,
 *       ffn, n_heads, n_kv_heads, head_dim, vocab, context (ints) norm_eps (number), rope_scale
 *       (number: factor on cos and sin, 1 unless yarn), rope (text for people) windows: [n_layers]
 *       ints, 0 = attends to everything, w = to positions p with pos - p < w bos (int, -1 none),
 *       eos (list of ints); Gemma: embed_scale (factor on embeddings), attend_scale (on q.k),
 *       attend_softcap, logits_softcap (0: none) (numbers)
 *   opt4gptq.quantization   facts for people: method, bits, group, sym, act_order, zeros,
 *                      sorted_ffns (layers with mlp.order; files without this entry have none)
 *   opt4gptq.source    where it came from: directory, files with sizes, quantizer, converter
 *                      version
 *   opt4gptq.crc32     {tensor name: 8 hex digits} for every tensor but pad.N
 *   opt4gptq.header_crc32   8 hex digits: crc32 of the whole header, these digits taken as
 *                      "00000000". Checked when the file is opened: a changed head count or tensor
 *                      name must not give another answer silently
 *
 * Tensors (names are the source's without "model."; L = layer number):
 *   embed_tokens.weight               F16 | BF16 | F32 [vocab][dim]
 *   lm_head                           a linear [dim -> vocab]; absent when the embedding serves as
 *                                     head
 *   norm.weight, layers.L.input_layernorm.weight, layers.L.post_attention_layernorm.weight   F32
 *       [dim]
 *   layers.L.pre_feedforward_layernorm.weight, post_feedforward_layernorm.weight   F32 [dim], of
 *       Gemma only; all its norms are 1 + the source's weight
 *   layers.L.self_attn.q_norm.weight, k_norm.weight   F32 [head_dim], both or neither
 *   layers.L.self_attn.{q,k,v,o}_proj, layers.L.mlp.{gate,up,down}_proj   linears
 *   layers.L.mlp.order                I32 [ffn] optional: the outputs of gate and up, and so the
 *                                     inputs of down, are the source's in this order: number i is
 *                                     its order[i]. Nothing is to be done about it; it is there for
 *                                     who wants the source's matrices back
 *   rope.inv_freq                     F32 [head_dim/2]: angle = inv_freq * position, as the
 *                                     source's scaling has it
 *   rope.full.inv_freq, rope.sliding.inv_freq   the same of layers without and with a window:
 *                                     Gemma, instead of rope.inv_freq, which programs require that
 *                                     do not look at the architecture: they refuse the file
 *   file.NAME                         U8 [bytes]: the source's tokenizer.json, tokenizer.model,
 *                                     tokenizer_config.json, special_tokens_map.json,
 *                                     chat_template.jinja, chat_template.json,
 *                                     additional_chat_templates/tool_use.jinja,
 *                                     generation_config.json, config.json, each optional, byte for
 *                                     byte
 * A linear P of `in` inputs and `out` outputs is either
 *   P.weight   F16 | BF16 | F32 [out][in]
 * or 4-bit, W[n][k] = scale * (code - zero):
 *   P.codes    U8 [panels][k/8][16][4]   panels = ceil(out/16); byte b of row r in block c holds
 *              input 8c+b in its low nibble and input 8c+4+b in its high nibble; rows past `out`
 *              are zero
 *   P.scales   F16 | F32 [panels][groups][16]
 *   P.zeros    U8 [panels][groups][16]   0..16
 *   P.perm     I32 [k]    optional: packed input j is input perm[j] of the layer, -1 = a slot that
 *              is always 0
 *   with k = groups * group, group a multiple of 32 (so k is); without perm, k == in
 * and may have P.bias F32 [out]. Widths other than 4, act-order, short groups and v1 zeros are all
 * expressed by these (codes widened, inputs permuted, padded or named twice) and exist only in
 * convert/. Where down has act-order and gate, up and down are 4-bit here, gate's and up's outputs
 * are ordered as down's groups have them (what is between works on each element by itself): down
 * then has no perm, or one that only fills up or names twice. Files from before that have one with
 * jumps. */
#ifndef CORE_MODELFILE_H
#define CORE_MODELFILE_H

#include "core/base/safetensors.h"

#include <stddef.h>

enum { MF_VERSION = 1, MF_PANEL = 16, MF_BLOCK = 8, MF_GROUP_MULTIPLE = 32, MF_ALIGN = 64 };

/* A read-only view of one tensor in the mapping. */
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

/* crc32 of a header [n bytes] with its own digits taken as zeros; *at is where they stand. -1 when
 * it has none. */
int mf_header_crc(const char *header, size_t n, uint32_t *crc, size_t *at);
/* Opens and maps PATH; refuses files that are not ours, of another version or with a damaged
 * header, by name. */
int mf_open(struct modelfile *m, const char *path, struct err *e);
void mf_close(struct modelfile *m);
/* 1 and fills *v when the tensor exists, 0 when not. */
int mf_find(const struct modelfile *m, const char *name, struct tview *v);
/* The bytes of "file.NAME"; NULL and *n = 0 when the source had none. Not NUL-terminated. */
const char *mf_source_file(const struct modelfile *m, const char *name, size_t *n);
/* Recomputes the crc32 of every tensor and compares; the first mismatch, missing or surplus entry
 * is an error. *n_checked receives the number of tensors compared. */
int mf_verify(const struct modelfile *m, size_t *n_checked, struct err *e);

#endif
