/* machine.c: what is said of the backend: what is slow on it, and with -v its kernels. */
#include "cli/run.h"
#include "engine/engine.h"

#include <stdio.h>
#include <string.h>

void run_say_slow(const struct options *o)
{
    const struct engine_options *g = &o->engine;
    const int mode = o->given.mode;
    if (mode == RUN_TOKENIZE || mode == RUN_DETOKENIZE || mode == RUN_DEVICES) return;
    if (!backend_find(g->backend)->probe || strcmp(g->kv, "f16")) return;
    if (act_is_integer(backend_act(g->act)))
        fprintf(stderr,
                "note: on a GPU with --act %s, prompts over --kv f16 take up to six times as long "
                "as over --kv int8\n",
                g->act);
}

void run_say_variants(const struct options *o, const struct engine *g)
{
    for (int q = 0; o->verbose && q < g->placement.n; q++)
        if (g->placement.entry[q]->print_variants)
            g->placement.entry[q]->print_variants(forward_be(&g->forward, q), stderr);
}
