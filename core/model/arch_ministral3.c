/* arch_ministral3.c: Ministral 3: Llama with a factor on queries that grows with the position. */
#include "core/model/arch_blocks.h"

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    d.attention.query_beta = arch_number(b, "query_beta", 0, 1e3);
    d.attention.query_original = (int)arch_number(b, "query_original", 1, MODEL_MAX_SIZE);
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"ministral3", NULL};
const struct arch arch_ministral3 = {names, build};
