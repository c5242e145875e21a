/* arch_jamba.c: Jamba (Lieber et al. 2024): layers of Mamba-1 between some of attention without
 * RoPE; experts in place of some MLPs. */
#include "core/model/arch_states.h"

static void first_block(struct builder *b, const struct arch_decoder *d, int in, int out)
{
    if (arch_int_at(b, "layer_types", 0, 1)) arch_scan_block(b, d->own, in, out);
    else arch_attend_block(b, &d->attention, in, out);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    const struct arch_scan scan = arch_scan(b);
    struct arch_moe moe;
    d.own = &scan;
    d.attend = first_block;
    if (arch_has(b, "experts")) moe = arch_moe(b), d.moe = &moe;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"jamba", NULL};
const struct arch arch_jamba = {names, build};
