/* record_response.h: the fields of a record for /v1/responses that a chat has in another form: its
 * input as messages, flat tools, text.format, include, reasoning, and the settings that OpenAI's
 * response object repeats. Must not know: templates, syntaxes of calls, tokens. */
#ifndef CLI_MODES_BATCH_RECORD_RESPONSE_H
#define CLI_MODES_BATCH_RECORD_RESPONSE_H

#include "cli/text/out.h"
#include "core/base/err.h"

#include <jansson.h>

struct record_response {
    json_t *messages, *tools; /* as a chat has them; owned */
    struct out settings;      /* members of the answer's object, each with a comma before it */
    int drops_items;          /* truncation "auto" */
};

struct record;
struct refusal;
struct input_line;

/* Fills messages, tools, calls and logprobs from BODY, whose fields are known to be served. 0, 1
 * with *why, -1. */
int record_read_response(struct record *r, const json_t *body, struct refusal *why, struct err *e);
/* Copies the settings as LINE spells them; for a record that is complete otherwise. 0, -1. */
int record_keep_settings(struct record *r, const struct input_line *line, struct err *e);

#endif
