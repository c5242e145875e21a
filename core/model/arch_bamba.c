/* arch_bamba.c: Bamba: Llama with Mamba-2 in place of the attention of most layers. */
#include "core/model/arch_states.h"

static void first_block(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    if (arch_int_at(b, "layer_types", 0, 1)) arch_mamba_block(b, d->own, in, out);
    else arch_attend_block(b, &d->attention, in, out);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    const struct arch_mamba mamba = arch_mamba(b);
    d.own = &mamba;
    d.attend = first_block;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"bamba", NULL};
const struct arch arch_bamba = {names, build};
