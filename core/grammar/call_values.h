/* call_values.h: how an argument is written by a syntax that writes each by itself (CALL_MEMBERS):
 * a string as it is, every other value as JSON. Where a schema allows strings and other values, and
 * the others are all values of their types, a text is read as one of these if it is one, else as a
 * string. Where a schema says more, strings have their quotes. Must not know: nets, answers. */
#ifndef CORE_CALL_VALUES_H
#define CORE_CALL_VALUES_H

#include "core/grammar/schema_merge.h"

struct call_value {
    int has_text;    /* strings stand without quotes */
    int is_any_text; /* any of them */
    unsigned others; /* enum schema_type: values that are read as JSON */
};

/* Of the values that SCHEMA allows, a part of the document ROOT. -1: *e. */
int call_value_of(json_t *root, json_t *schema, struct call_value *v, struct err *e);
/* The schema of argument KEY where PARAMETERS, a flat schema of objects, has one: of its
 * properties, else of what it says of others; true where it says nothing. Borrowed. */
json_t *call_value_schema(json_t *parameters, const char *key);
/* PARAMETERS of a function (NULL: it has none) as a flat schema; a new reference. */
int call_value_flatten(json_t *parameters, json_t **flat, struct err *e);

#endif
