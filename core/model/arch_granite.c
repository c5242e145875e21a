/* arch_granite.c: Granite: Llama with factors on embeddings, scores, blocks and logits. Granite 4
 * H: Mamba-2 in place of the attention of most layers, experts beside a shared one. */
#include "core/model/arch_states.h"

#include <string.h>

static float factor(struct builder *b, const char *key) { return arch_number(b, key, 1e-6, 1e6); }

static void first_block(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    if (arch_int_at(b, "layer_types", 0, 1)) arch_mamba_block(b, d->own, in, out);
    else arch_attend_block(b, &d->attention, in, out);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_mamba mamba;
    struct arch_moe moe;
    d.residual = factor(b, "residual_scale");
    d.attention.scale = factor(b, "attend_scale");
    d.stream.tail.scale = factor(b, "logits_scale");
    d.embed_scale = factor(b, "embed_scale");
    if (!strcmp(b->config->architecture, "granite_hybrid")) {
        mamba = arch_mamba(b);
        d.own = &mamba;
        d.attend = first_block;
        if (arch_has(b, "experts")) moe = arch_moe(b), d.moe = &moe;
    }
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"granite", "granite_hybrid", NULL};
const struct arch arch_granite = {names, build};
