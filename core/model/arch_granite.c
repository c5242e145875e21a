/* arch_granite.c: Granite: Llama with factors on embeddings, scores, blocks and logits. */
#include "core/model/arch_blocks.h"

static float factor(struct builder *b, const char *key) { return arch_number(b, key, 1e-6, 1e6); }

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    d.residual = factor(b, "residual_scale");
    d.attention.scale = factor(b, "attend_scale");
    d.stream.tail.scale = factor(b, "logits_scale");
    d.embed_scale = factor(b, "embed_scale");
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"granite", NULL};
const struct arch arch_granite = {names, build};
