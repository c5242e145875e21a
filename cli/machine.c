/* machine.c: what -v says of the open backend. */
#include "cli/run.h"
#include "engine/engine.h"

#include <stdio.h>

void run_say_variants(const struct options *o, const struct engine *g)
{
    if (o->verbose && g->entry->print_variants) g->entry->print_variants(g->forward.be, stderr);
}
