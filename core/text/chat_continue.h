/* chat_continue.h: a prompt that ends within its last message, so that the answer goes on with it:
 * continue_final_message of transformers' apply_chat_template. Must not know: templates. */
#ifndef CORE_CHAT_CONTINUE_H
#define CORE_CHAT_CONTINUE_H

#include "core/base/err.h"

#include <jansson.h>

/* Puts a mark behind the text of the last of MESSAGES, whose objects are the caller's own. *text is
 * what it was; a new reference. -1: *e; it has no text, or memory is short. */
int chat_continue_mark(json_t *messages, json_t **text, struct err *e);
/* Cuts the rendered RENDERED [*n] at the mark; -1: *e, the template leaves the message out. */
int chat_continue_cut(char *rendered, size_t *n, const json_t *text, struct err *e);

#endif
