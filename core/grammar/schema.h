/* schema.h: what of JSON Schema is served, by files: schema.c values, schema_object.c objects,
 * schema_merge.c several schemas as one. Everything else is refused by its keyword and its path;
 * nothing is applied in part.
 *
 * Strings spell a character as json_chars() has it. Members come in any order, none twice. Where a
 * member that the schema does not name may come, its name is none of those that it names. */
#ifndef CORE_SCHEMA_H
#define CORE_SCHEMA_H

#include "core/base/json.h"
#include "core/grammar/net.h"

struct schema {
    struct net *net;
    json_t *root;
    json_t *rules; /* text of a schema -> its rule */
    int ordered;
    int depth;
    struct err *e;
};

/* The rule of the values that SUB allows, a part of the document; NAME is added to the path of an
 * error. -1: *e. */
int schema_rule(struct schema *s, json_t *sub, const char *name, uint32_t *rule);
/* The objects, and the texts of their names, that a flat schema allows. */
int schema_object(struct schema *s, json_t *flat, net_expr *x);
/* The characters of a string that a regular expression of a schema finds something in. */
int schema_pattern(struct schema *s, const char *pattern, net_expr *x);
int schema_refuse(struct schema *s, const char *keyword, const char *what);

#endif
