/* toolcalls.h: the calls of functions that an answer holds, by the description of their syntax
 * (core/grammar/call_syntax.h): what calls.c lets through, and what models write of it by
 * themselves. Owns: calls that were read. Must not know: tokens, requests, the form of an answer.
 */
#ifndef CORE_TOOLCALLS_H
#define CORE_TOOLCALLS_H

#include "core/base/json.h"
#include "core/grammar/call_syntax.h"

struct tool_call {
    char *name, *arguments;       /* arguments: JSON as the model spells it */
    char id[CALL_ID_LETTERS + 1]; /* that the model gave; "": none */
};

struct toolcalls {
    struct tool_call *call; /* [n] */
    int n;
    char *text; /* [text_bytes] what stands around the calls; without calls: all of the answer */
    size_t text_bytes;
};

struct toolcalls_source {
    const struct call_syntax *syntax;
    const json_t *special; /* the syntax's special tokens, array of strings */
    json_t *tools;         /* array of {"name", "parameters"} */
    int is_cut;            /* the answer did not come to its end */
    int is_exact;          /* a grammar held the answer to the syntax: nothing lacks its end */
};

/* Reads TEXT [n], in which special tokens stand between marks (core/grammar/free_text.h). Where a
 * call is not whole, there is none; whole is also one that lacks an outer tag or the end of a
 * value, and one with values as Python writes them, unless is_exact. Frees with toolcalls_close in
 * every case. */
int toolcalls_read(struct toolcalls *t, const struct toolcalls_source *s, const char *text,
                   size_t n, struct err *e);
void toolcalls_close(struct toolcalls *t);

/* Takes marks out of TEXT [*n], with what is between them (KEEP: without). */
void toolcalls_unmark(char *text, size_t *n, int keep);

#endif
