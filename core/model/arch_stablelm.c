/* arch_stablelm.c: StableLM 2: Llama with LayerNorm. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_LAYER);
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"stablelm", NULL};
const struct arch arch_stablelm = {names, build};
