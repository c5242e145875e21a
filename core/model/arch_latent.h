/* arch_latent.h: the block of multi-head latent attention (DeepSeek-V2, 2.1), for architectures
 * that have it beside others. Owns: the tensors' names and keys of the configuration of this block.
 */
#ifndef CORE_ARCH_LATENT_H
#define CORE_ARCH_LATENT_H

#include "core/model/arch_blocks.h"

/* out = attention of the current layer, with d's RoPE and scale: arch_decoder.attend. in, out:
 * [dim] */
void arch_latent_attend(struct builder *b, const struct arch_decoder *d, int in, int out);

#endif
