/* arch_cohere2.c: Cohere (Command R) and Cohere 2 (Command A): attention and MLP side by side on
 * one LayerNorm without bias, a factor on logits; layers without a window do not rotate (Cohere 2).
 */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_CENTERED);
    d.parallel = 1;
    d.stream.tail.scale = arch_number(b, "logits_scale", 1e-9, 1e9);
    arch_decoder_rope(b, &d);
    arch_decoder_no_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"cohere2", NULL};
const struct arch arch_cohere2 = {names, build};
