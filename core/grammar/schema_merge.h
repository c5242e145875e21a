/* schema_merge.h: JSON schemas as data: references followed, several schemas made into one that
 * allows what all of them allow, schemas told apart. Must not know: nets. */
#ifndef CORE_SCHEMA_MERGE_H
#define CORE_SCHEMA_MERGE_H

#include "core/base/err.h"
#include "core/base/json.h"

#include <stdint.h>

enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_STRING = 4,
    SCHEMA_INTEGER = 8,
    SCHEMA_FRACTION = 16, /* numbers that are not whole */
    SCHEMA_OBJECT = 32,
    SCHEMA_ARRAY = 64,
    SCHEMA_ALL = 127
};

/* The types that "type", "enum" and "const" leave, as bits. -1: *e. */
int schema_types(json_t *schema, unsigned *types, struct err *e);
unsigned schema_type_of(json_t *value);
/* As the value of "type". */
json_t *schema_types_as_json(unsigned types);
/* 1: KEY says nothing about which documents are allowed, or is no keyword of JSON Schema. */
int schema_is_silent(const char *key);
/* The types of values that a keyword says something about, as bits. */
unsigned schema_is_about(const char *key);

/* The document that references are looked up in, and the work that it took so far, which is
 * bounded.
 */
struct schema_source {
    json_t *root;
    int n_steps;
    uint64_t work; /* about the bytes of schemas that were read or written */
};
/* 1: it says that it is of a draft before 2019-09. */
int schema_draft_is_old(const struct schema_source *from);
/* The keyword by which a schema refers to another one, or NULL. */
const char *schema_reference_key(json_t *schema);
/* The schema that KEY of SCHEMA refers to, in the same document: by a JSON pointer, an anchor, or a
 * part's own $id. NULL: *e. */
json_t *schema_reference(struct schema_source *from, json_t *schema, const char *key,
                         struct err *e);
/* 1: the schema speaks of members or items that no other part of it evaluates (JSON Schema 2019-09,
 * Core 9.3); *out: the same without these keywords, flat. */
int schema_has_unevaluated(const struct schema_source *from, json_t *schema);
int schema_unevaluated(struct schema_source *from, json_t *schema, int depth, json_t **out,
                       struct err *e);
/* Adds to the work. -1: *e, it is more than is served. */
int schema_work(struct schema_source *from, uint64_t more, struct err *e);
/* *out: the schema, a new reference: without $ref, allOf and const (an enum of one). */
int schema_flatten(struct schema_source *from, json_t *schema, json_t **out, struct err *e);
/* The same of a schema that is DEPTH references and parts below the first. */
int schema_flatten_at(struct schema_source *from, json_t *schema, int depth, json_t **out,
                      struct err *e);
/* *out: what both allow, of flat schemas; a new reference. */
int schema_both(struct schema_source *from, json_t *a, json_t *b, json_t **out, struct err *e);
/* A flat schema without its KEY, anyOf or oneOf; of several anyOf the next one takes its place. */
json_t *schema_without_cases(json_t *flat, const char *key);
/* The values of a list, to be asked for: the same value; 1 and 1.0 are. */
json_t *schema_value_set(json_t *values);
int schema_value_in(json_t *set, json_t *v);
/* 1: the same value, likewise. */
int schema_equal(json_t *a, json_t *b);
/* A propertyNames as a list of patterns that must all find something in a name, or false: no name
 * may be; a new reference. NULL: it is none. */
json_t *schema_name_patterns(json_t *schema);
/* 1: the regular expression finds something in the text; 0: not; -1: *e, it is none. */
int schema_finds(const char *pattern, const char *text, struct err *e);
/* 1: TEXT is in the list, which may be NULL. */
int schema_lists(json_t *list, const char *text);
/* The failures of one keyword, KEY: V of FLAT, are added to CASES, schemas of which any holds. */
int schema_negate_keyword(const char *key, json_t *v, json_t *flat, json_t *cases, struct err *e);
/* 1: no document is allowed by both, as far as can be seen; 0: that is not known. */
int schema_apart(struct schema_source *from, json_t *a, json_t *b, int depth);

#endif
