/* arch_smollm3.c: SmolLM3: Llama with layers without RoPE (NoPE: Kazemnejad et al. 2023), whose
 * table has frequencies of 0. */
#include "core/model/arch_blocks.h"

static int any_without_rope(struct builder *b)
{
    int any = 0;
    for (b->layer = 0; b->layer < b->config->n_layers; b->layer++)
        any |= arch_int_at(b, "no_rope", 0, 1);
    b->layer = -1;
    return any;
}

static void choose_rope(struct builder *b, struct arch_decoder *d)
{
    if (arch_int_at(b, "no_rope", 0, 1)) d->attention.rope = d->other_rope;
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, 0);
    arch_decoder_rope(b, &d);
    d.other_rope = d.rope;
    if (any_without_rope(b))
        d.other_rope = arch_angles(b, "rope.none.inv_freq", b->config->head_dim / 2, 1);
    d.begin = choose_rope;
    arch_decode(b, &d);
}

static const char *const names[] = {"smollm3", NULL};
const struct arch arch_smollm3 = {names, build};
