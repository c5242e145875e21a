/* arch_glm4.c: GLM-4 (dense): what attention and MLP add to the stream is normed itself, SwiGLU.
 * Its interleaved rotation of half a head is expressed by the order of rows and the RoPE table. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    d.norm_out = 1;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"glm4", NULL};
const struct arch arch_glm4 = {names, build};
