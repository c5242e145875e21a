/* arch_kimi_linear.c: Kimi-Linear (Kimi Team 2025): layers of Kimi Delta Attention, a delta rule
 * with a decay for each channel, between layers of multi-head latent attention without RoPE; a
 * mixture of experts with a shared one. */
#include "core/model/arch_latent.h"
#include "core/model/arch_states.h"

static void first_block(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    if (arch_int_at(b, "layer_types", 0, 1)) arch_delta_block(b, d->own, in, out);
    else arch_latent_attend(b, d, in, out);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_states delta = arch_states(b);
    struct arch_moe m = arch_moe(b);
    delta.apart = delta.channels_apart = 1;
    m.choice_bias = 1;
    d.moe = &m;
    d.own = &delta;
    d.attend = first_block;
    d.attention.scale = arch_number(b, "attend_scale", 1e-6, 1e6);
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"kimi_linear", NULL};
const struct arch arch_kimi_linear = {names, build};
