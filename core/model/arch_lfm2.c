/* arch_lfm2.c: LFM2: Llama with gated short convolutions in place of the attention of most layers;
 * an MLP or experts. */
#include "core/model/arch_states.h"

static void first_block(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    if (arch_int_at(b, "layer_types", 0, 1)) arch_short_conv_block(b, d->own, in, out);
    else arch_attend_block(b, &d->attention, in, out);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_moe moe;
    const struct arch_short_conv conv = arch_short_conv(b);
    if (arch_has(b, "experts")) {
        moe = arch_moe(b);
        moe.choice_bias = arch_int(b, "router_bias", 0, 1);
        d.moe = &moe;
    }
    d.attention.head_norm = HEAD_NORM_EACH;
    d.own = &conv;
    d.attend = first_block;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"lfm2", NULL};
const struct arch arch_lfm2 = {names, build};
