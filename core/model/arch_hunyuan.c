/* arch_hunyuan.c: Hunyuan (dense): Llama with norms of the heads of q and k after their rotation.
 */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    arch_decoder_rope(b, &d);
    arch_norm_rotated(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"hunyuan_v1_dense", NULL};
const struct arch arch_hunyuan = {names, build};
