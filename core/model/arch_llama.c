/* arch_llama.c: Llama, Mistral, Qwen2, Qwen3 (dense) and Phi-3: pre-norm blocks of attention and
 * SwiGLU. The tensors say which: biases of q, k and v (Qwen2), norms of the heads of q and k
 * (Qwen3), a second RoPE table for long contexts (Phi-3); windows of attention are in the
 * configuration (Mistral, Qwen2, Phi-3). */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    arch_attention_rooms(b, &d.attention);
    arch_room(b, "gate", b->config->ffn);
    arch_room(b, "up", b->config->ffn);
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"llama", "mistral", "qwen2", "qwen3", "phi3", "unknown", NULL};
const struct arch arch_llama = {names, build};
