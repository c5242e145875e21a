/* arch_gpt_oss.c: gpt-oss: attention with sinks, every second layer with a window; a mixture of
 * experts with clamped SwiGLU in every layer. Its biases are parts of the linears. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_moe m = arch_moe(b);
    d.attention.sinks = 1;
    m.activation = ACTIVATION_SWIGLU_CLAMPED;
    m.limit = arch_number(b, "swiglu_limit", 1e-6, 1e6);
    m.alpha = arch_number(b, "swiglu_alpha", 1e-6, 1e6);
    d.moe = &m;
    d.all_experts = 1;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"gpt_oss", NULL};
const struct arch arch_gpt_oss = {names, build};
