/* arch_smollm3.c: SmolLM3: Llama with layers without RoPE (NoPE: Kazemnejad et al. 2023). */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    arch_decoder_rope(b, &d);
    arch_decoder_no_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"smollm3", NULL};
const struct arch arch_smollm3 = {names, build};
