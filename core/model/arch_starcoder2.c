/* arch_starcoder2.c: StarCoder 2: LayerNorm, an MLP of two linears with GELU, windows; its biases
 * are parts of the linears. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_LAYER);
    d.ungated = 1;
    d.activation = ACTIVATION_GELU_TANH;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"starcoder2", NULL};
const struct arch arch_starcoder2 = {names, build};
