/* schema.h: what of JSON Schema is served, by files: schema.c values, schema_object.c objects,
 * schema_array.c arrays, schema_string.c strings, schema_number.c numbers, schema_merge.c several
 * schemas as one.
 * Everything else is refused by its keyword and its path; nothing is applied in part.
 *
 * Strings spell a character as json_chars() has it. Members come in the order that
 * is asked for, none twice. Where a
 * member that the schema does not name may come, its name is none of those that it names. */
#ifndef CORE_SCHEMA_H
#define CORE_SCHEMA_H

#include "core/base/json.h"
#include "core/grammar/grammar.h"
#include "core/grammar/net.h"
#include "core/grammar/schema_merge.h"

#include <string.h>

struct schema {
    struct net *net;
    struct schema_source *from;
    json_t *rules; /* text of a schema -> its rule */
    enum json_order order;
    int depth, n_cases; /* how deep it is now; cases so far, of all anyOf and oneOf */
    struct err *e;
};

/* The rule of the values that SUB allows, a part of the document; NAME is added to the path of an
 * error. -1: *e. */
int schema_rule(struct schema *s, json_t *sub, const char *name, uint32_t *rule);
/* The objects, and the texts of their names, that a flat schema allows. */
int schema_object(struct schema *s, json_t *flat, net_expr *x);
/* The arrays that a flat schema allows. */
int schema_array(struct schema *s, json_t *flat, net_expr *x);
/* *out: values of the enum that the rest of a flat schema lets through, a new reference. */
int schema_values(struct schema *s, json_t *flat, json_t **out);
/* The numbers that a flat schema allows; TYPES are those of them that it may have. */
int schema_number(struct schema *s, json_t *flat, unsigned types, net_expr *x);
/* The strings that a flat schema allows. */
int schema_string(struct schema *s, json_t *flat, net_expr *x);
/* The texts, without quotes, in which the CHOSEN ones of PATTERNS (names of an object, bit i the
 * i-th) find something and the others do not, and that are none of NAMES, an array. */
int schema_keys(struct schema *s, json_t *patterns, unsigned chosen, json_t *names, net_expr *x);
/* A length or a count: *value is the number under KEY, and stays where there is none. */
int schema_length(struct schema *s, json_t *flat, const char *key, int *value);
/* Refuses a document that has keywords or types of schemas that are made here. */
int schema_check_words(json_t *root, struct err *e);
int schema_refuse(struct schema *s, const char *keyword, const char *what);

/* Parts of expressions; or_else takes NET_FAILED as none. */
static inline net_expr ws(struct schema *s) { return net_call(s->net, net_named(s->net, "ws")); }
static inline net_expr comma(struct schema *s)
{
    return net_call(s->net, net_named(s->net, "comma"));
}
static inline net_expr text(struct schema *s, const char *t)
{
    return net_text(s->net, t, strlen(t));
}
static inline net_expr then(struct schema *s, net_expr a, net_expr b)
{
    return net_sequence(s->net, a, b);
}
static inline net_expr or_else(struct schema *s, net_expr a, net_expr b)
{
    return a == NET_FAILED ? b : net_either(s->net, a, b);
}

#endif
