/* notation.h: the notations of languages: each is read into rules of a net, whose root *root is.
 * Errors say what is wrong or not served, with its place in the text. Must not know: tokens, but
 * for those that GBNF names. */
#ifndef CORE_NOTATION_H
#define CORE_NOTATION_H

#include "core/grammar/grammar.h"
#include "core/grammar/net.h"
#include "core/grammar/vocab.h"

/* ECMA-262's regular expressions without look-around, back references and word boundaries, and
 * Python's names of groups; TEXT [bytes] describes the whole text. ^ and $ stand for its ends. */
int notation_regex(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e);
/* How the characters of an expression are read, and what it describes. */
struct regex_way {
    net_expr (*chars)(struct net *n, const struct net_range *ranges, int n_ranges);
    /* a character that may stand around the expression, where no ^ and $ end it; NULL: none */
    net_expr (*any)(struct net *n);
    int counter; /* of the net, which counts characters; -1: none */
};
int notation_regex_as(struct net *n, const char *text, size_t bytes, const struct regex_way *way,
                      net_expr *x, struct err *e);
/* llama.cpp's GBNF (its grammars/README.md), with tokens of V, or none of them where V is NULL; the
 * root is the rule "root". */
int notation_gbnf(struct net *n, const char *text, size_t bytes, const struct vocab *v,
                  uint32_t *root, struct err *e);
/* A JSON object (RFC 8259); *root is the rule of objects, net_named() gives value, array, string,
 * char, number, and the parts between them: comma, colon, ws (behind an opening and before a
 * closing bracket). */
int notation_json(struct net *n, enum json_space space, uint32_t *root, struct err *e);
/* The JSON documents that a schema (JSON Schema, drafts 4 to 2020-12) allows; see schema.h. */
int notation_schema(struct net *n, const struct grammar_spec *spec, uint32_t *root, struct err *e);
/* Calls of functions; calls.c says what the text is. */
int notation_calls(struct net *n, const struct grammar_spec *spec, uint32_t *root, struct err *e);
/* The texts of a JSON array. */
int notation_choices(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e);
/* What the spec asks for, but for its thoughts. */
int notation_of(struct net *n, const struct grammar_spec *spec, const struct vocab *v,
                uint32_t *root, struct err *e);
/* *root: reasoning, then what it was. */
int notation_thoughts(struct net *n, const struct grammar_thoughts *t, uint32_t *root,
                      struct err *e);

#endif
