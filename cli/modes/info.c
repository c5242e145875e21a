/* info.c: the mode --info: what a batch with these options would have where, and what other choices
 * would cost, on stdout. Computes nothing. */
#include "cli/run.h"
#include "engine/engine.h"

#include <stdio.h>

static void print_line(void *arg, const char *line)
{
    (void)arg;
    printf("%s\n", line);
}

int run_info(const struct options *o, struct err *e)
{
    struct engine_options own = o->engine;
    struct engine g;
    own.note = print_line;
    own.quiet = 0;
    int rc = engine_open_model(&g, o->model, &own, e) || engine_open(&g, e) ? 1 : 0;
    engine_close(&g);
    if (fflush(stdout) && !rc) rc = err_sys(e, "cannot write to stdout") ? 1 : 0;
    return rc;
}
