/* arch_apertus.c: Apertus: Llama with norms of the heads of q and k and an MLP of two linears with
 * xIELU, whose numbers each layer has. */
#include "core/model/arch_blocks.h"

static void take_numbers(struct builder *b, struct arch_decoder *d)
{
    d->xielu.p = arch_number_at(b, "xielu_p", -1e6, 1e6);
    d->xielu.n = arch_number_at(b, "xielu_n", -1e6, 1e6);
    d->xielu.beta = arch_number_at(b, "xielu_beta", -1e6, 1e6);
    d->xielu.eps = arch_number_at(b, "xielu_eps", -0.1, 0);
}

static void build(struct builder *b)
{
    struct arch_decoder d = arch_decoder(b, NORM_RMS);
    d.ungated = 1;
    d.activation = ACTIVATION_XIELU;
    d.begin = take_numbers;
    arch_decoder_rope(b, &d);
    arch_decode(b, &d);
}

static const char *const names[] = {"apertus", NULL};
const struct arch arch_apertus = {names, build};
