/* arch_llama4.c: Llama 4 (text): layers that attend in chunks and rotate, with norms of heads
 * without weight, and layers that see all, do not rotate and scale queries by position; experts
 * whose input is scaled by the sigmoid of the router. */
#include "core/model/arch_blocks.h"

static void choose_attention(struct builder *b, struct arch_decoder *d)
{
    int rotates = !arch_int_at(b, "no_rope", 0, 1);
    float beta = arch_number(b, "query_beta", 0, 1e3);
    d->attention.rope = rotates ? d->rope : d->other_rope;
    d->attention.window = -arch_int_at(b, "chunks", 0, MODEL_MAX_SIZE);
    d->attention.query_beta = beta;
    d->attention.query_original = rotates || beta == 0 ? 0
                                                       : arch_int(b, "query_original", 1, 1 << 30);
    d->attention.query_first = 1;
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    struct arch_moe m = arch_moe(b);
    m.scaled_input = 1;
    if (m.top_k != 1) arch_bad_key(b, "top_k");
    d.moe = &m;
    arch_decoder_rope(b, &d);
    arch_decoder_no_rope(b, &d);
    d.begin = choose_attention;
    arch_decode(b, &d);
}

static const char *const names[] = {"llama4", NULL};
const struct arch arch_llama4 = {names, build};
