/* notation.h: the notations of languages: each is read into rules of a net, whose root *root is.
 * Errors say what is wrong or not served, with its place in the text. Must not know: tokens. */
#ifndef CORE_NOTATION_H
#define CORE_NOTATION_H

#include "core/grammar/net.h"

/* ECMA-262's regular expressions without look-around, back references and word boundaries; TEXT
 * [bytes] describes the whole text, so that ^ and $ may stand at its ends only. */
int notation_regex(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e);
/* llama.cpp's GBNF (its grammars/README.md); the root is the rule "root". */
int notation_gbnf(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e);
/* A JSON object (RFC 8259), with any white space between its tokens or, COMPACT, with none. */
int notation_json(struct net *n, int compact, uint32_t *root, struct err *e);

#endif
