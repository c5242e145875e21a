/* record_tools.h: the fields of a chat about calls of functions and about the form of its message:
 * tools, tool_choice, parallel_tool_calls, include_reasoning. Must not know: syntaxes of calls,
 * templates, the other fields. */
#ifndef CLI_MODES_BATCH_RECORD_TOOLS_H
#define CLI_MODES_BATCH_RECORD_TOOLS_H

#include "core/base/err.h"

#include <jansson.h>

enum tool_choice { TOOLS_NONE, TOOLS_AUTO, TOOLS_REQUIRED, TOOLS_NAMED };

struct record_tools {
    enum tool_choice choice; /* TOOLS_NONE: answers are text */
    /* array of {"name", "parameters" (absent: none), "free": true (not strict, with auto)}; of
     * TOOLS_NAMED the one that is named */
    json_t *list;
    int is_single, is_strict; /* at most one call; some tool asks for its schema, or all have to */
    int hides_reasoning;
};

struct record;
struct refusal;
/* Fills r->calls from BODY, whose fields are known to be served. 0, 1 with *why, -1. */
int record_read_tools(struct record *r, const json_t *body, struct refusal *why, struct err *e);

#endif
