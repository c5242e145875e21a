/* cut.c: whether an answer that its length ended is a whole document. */
#include "cli/run.h"

#include <stdio.h>

int run_say_cut(struct grammar *g, const struct tok_ids *ids, int full, struct err *e)
{
    struct grammar_cursor *c;
    int rc = 1;
    if (grammar_cursor_open(&c, g, e)) return -1;
    for (size_t i = 0; i < ids->n && rc == 1; i++) rc = grammar_accept_token(c, ids->id[i], e);
    if (rc >= 0 && !(rc && grammar_may_end(c)))
        fprintf(stderr, "note: %s ended the answer before its document was complete\n",
                full ? "the context" : "-n");
    grammar_cursor_close(c);
    return rc < 0 ? -1 : 0;
}
