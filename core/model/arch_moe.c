/* arch_moe.c: Mixtral, Qwen2-MoE, Qwen3-MoE, GLM-4.5: Llama with a mixture of experts in place of
 * the MLP of some or all layers. Qwen2-MoE and GLM-4.5 have a shared expert, the former with a
 * gate; GLM-4.5 chooses by scores with a bias. */
#include "core/model/arch_blocks.h"

#include <string.h>

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, 0);
    struct arch_moe m = arch_moe(b);
    m.shared_gate = m.shared_ffn && !strcmp(b->config->architecture, "qwen2_moe");
    m.choice_bias = !strcmp(b->config->architecture, "glm4_moe");
    d.moe = &m;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"mixtral", "qwen2_moe", "qwen3_moe", "glm4_moe", NULL};
const struct arch arch_mixture = {names, build};
