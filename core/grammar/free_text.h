/* free_text.h: text between the texts that a syntax fixes, and special tokens in it.
 *
 * A special token adds no text to an answer. Grammars and readers of calls see it as its spelling
 * between two bytes FREE_TEXT_MARK, which no UTF-8 text has: so a spelling by other tokens is told
 * from the token itself. Must not know: what the texts are for. */
#ifndef CORE_FREE_TEXT_H
#define CORE_FREE_TEXT_H

#include "core/base/json.h"
#include "core/grammar/net.h"

#define FREE_TEXT_MARK "\xff"

/* The text [bytes]; what of it is in SPECIAL, an array of strings, is that token. */
net_expr free_text_fixed(struct net *n, const char *text, size_t bytes, const json_t *special);
/* Characters, perhaps none, without MARKER [bytes]. A marker that is in SPECIAL cannot come. Its
 * first character is nowhere else in it. */
net_expr free_text_without(struct net *n, const char *marker, size_t bytes, const json_t *special);
/* White space, perhaps none. */
net_expr free_text_space(struct net *n);
/* The longest of SPECIAL with which the text [bytes] begins, its length; 0: none does. */
size_t free_text_special(const char *text, size_t bytes, const json_t *special);

#endif
