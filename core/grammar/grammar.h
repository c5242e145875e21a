/* grammar.h: constrained answers: compiling what a record asks for, following an answer, and the
 * tokens that may come next. Owns: the kinds of grammars, their bounds. Must not know: records,
 * requests, logits.
 *
 * A grammar is shared by all records with the same text, also by threads. A cursor is one answer's
 * place in it. The tokens that a mask allows are exactly those after which some complete document
 * still exists; EOS is not among them: grammar_may_end says whether the answer may end.
 *
 * Notations (notation.h) are read into rules, rules made a network (net.h); places in it are found
 * as they are asked for, and kept with their masks (walk.h). */
#ifndef CORE_GRAMMAR_H
#define CORE_GRAMMAR_H

#include "core/base/err.h"
#include "core/grammar/vocab.h"

#include <stddef.h>
#include <stdint.h>

struct grammar;

/* What records and options name. */
enum grammar_kind {
    GRAMMAR_JSON,   /* any JSON object (response_format json_object) */
    GRAMMAR_SCHEMA, /* text: a JSON schema */
    GRAMMAR_REGEX,  /* text: a regular expression of ECMA-262, from begin to end */
    GRAMMAR_CHOICE, /* text: a JSON array of strings */
    GRAMMAR_GBNF,   /* text: llama.cpp's GBNF, rule root */
    GRAMMAR_CALLS,  /* text: calls of functions as calls.c has it */
};

/* Reasoning that may stand before the document, or that the prompt has begun (is_inside). */
struct grammar_thoughts {
    const char *begins, *ends; /* tags, which outlive the spec; begins NULL: there is none */
    int begins_is_token, ends_is_token, is_inside; /* special tokens (free_text.h) */
};

/* White space of a JSON document between its parts; no kind has any before a comma or a colon. */
enum json_space {
    JSON_SPACE_ONE,  /* {"a": 1, "b": 2}: a space behind each comma and colon */
    JSON_SPACE_NONE, /* {"a":1,"b":2} */
    JSON_SPACE_ANY   /* as writers of JSON have it, indented or not, the model chooses */
};

/* Members of an object that a schema names. */
enum json_order {
    JSON_ORDER_SCHEMA, /* in its order; in any where that order is not served */
    JSON_ORDER_STRICT, /* in its order; refused where that is not served */
    JSON_ORDER_ANY
};

struct grammar_spec {
    enum grammar_kind kind;
    const char *text; /* [bytes] UTF-8 */
    size_t bytes;
    enum json_order order;
    enum json_space space;
    int may_begin_with_space; /* a space may stand before a JSON document */
    struct grammar_thoughts thoughts;
};

/* -1: *e says in one line what is wrong or not supported, err_is_memory
 * when memory is short. V is the model's and outlives the grammar. */
int grammar_open(struct grammar **g, const struct grammar_spec *spec, const struct vocab *v,
                 struct err *e);
void grammar_close(struct grammar *g);

/* One answer's place. */
struct grammar_cursor;
int grammar_cursor_open(struct grammar_cursor **c, struct grammar *g, struct err *e);
void grammar_cursor_close(struct grammar_cursor *c);
/* TO goes to where FROM is, a cursor of the same grammar. */
void grammar_cursor_copy(struct grammar_cursor *to, const struct grammar_cursor *from);
/* Back to the beginning. */
void grammar_cursor_reset(struct grammar_cursor *c);

/* Reads TEXT [n] further. 1: done; 0: it does not fit, the cursor stays; -1: *e. */
int grammar_accept(struct grammar_cursor *c, const char *text, size_t n, struct err *e);
int grammar_accept_token(struct grammar_cursor *c, int32_t id, struct err *e);
/* 1: the answer may end here. */
int grammar_may_end(struct grammar_cursor *c);
/* 1: the document is complete and nothing but white space could follow: the answer ends here. */
int grammar_must_end(struct grammar_cursor *c);

/* Writes the set of tokens that may come next: bit id % 32 of bits[id / 32], [(vocab_n + 31) / 32].
 * *n_allowed is their number, *only (may be NULL) the one of lowest id. */
int grammar_mask(struct grammar_cursor *c, uint32_t *bits, int *n_allowed, int32_t *only,
                 struct err *e);

#endif
