/* arch_draft.h: the layer behind the last one, which only drafts tokens: of a token and of what the
 * last norm left of the position before it comes a row that one layer of the model's kind turns
 * into logits of the token after next (multi-token prediction, DeepSeek-V3, 2.2). Owns: the
 * tensors' names around the layer, the order of the operations. Must not know: architectures. */
#ifndef CORE_ARCH_DRAFT_H
#define CORE_ARCH_DRAFT_H

#include "core/model/arch_blocks.h"

/* Logits are those of the first tokens of the vocabulary, which are the most frequent ones. */
enum { DRAFT_VOCAB = 32768 };

/* Where the model has the layer: appends its operations to the plan's drafting ones. stream: the
 * model's, after arch_stream_end. layer: appends attention and MLP of b->layer between the norms of
 * *s, of which the first adds s->delta, and leaves in s->delta what the last one is to add;
 * sparse: the layer has experts. */
void arch_draft(struct builder *b, const struct arch_stream *stream,
                void (*layer)(struct builder *b, struct arch_stream *s, int sparse, void *arg),
                void *arg);

#endif
