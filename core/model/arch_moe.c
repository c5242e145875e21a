/* arch_moe.c: Mixtral, Qwen2-MoE, Qwen3-MoE, GLM-4.5, dots1, Hunyuan 3, MiniMax-M2, ERNIE 4.5,
 * Hunyuan: Llama with a mixture of experts in place of the MLP of some or all layers. Some have a
 * shared expert, that of Qwen2-MoE with a gate; some choose by scores with a bias. */
#include "core/model/arch_blocks.h"

#include <string.h>

static int is(const struct builder *b, const char *name)
{
    return !strcmp(b->config->architecture, name);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_moe m = arch_moe(b);
    m.shared_gate = m.shared_ffn && is(b, "qwen2_moe");
    m.choice_bias = is(b, "glm4_moe") || is(b, "dots1") || is(b, "hy_v3") || is(b, "minimax_m2") ||
                    (is(b, "ernie4_5_moe") && arch_int(b, "router_bias", 0, 1));
    d.moe = &m;
    if (is(b, "minimax_m2")) d.attention.head_norm = HEAD_NORM_WHOLE;
    arch_decoder_rope(b, &d);
    if (is(b, "hunyuan_v1_moe")) arch_norm_rotated(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"mixtral",        "qwen2_moe", "qwen3_moe",  "glm4_moe",
                                    "dots1",          "hy_v3",     "minimax_m2", "ernie4_5_moe",
                                    "hunyuan_v1_moe", NULL};
const struct arch arch_mixture = {names, build};
