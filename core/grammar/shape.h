/* shape.h: a JSON schema in normal form, between schema.c, which makes it, and json.c, which reads
 * documents by it. Owns: nothing but the description. Must not know: the syntax of schemas, bytes,
 * tokens.
 *
 * A value is described per kind; its alternatives are a union. All ids are inhabited: a part that
 * no document satisfies has been removed (a named property without value is forbidden, an item
 * without value ends the array, a shape that cannot be completed is gone). */
#ifndef CORE_SHAPE_H
#define CORE_SHAPE_H

#include "core/grammar/lang.h"

/* Index into shapes.value; 0: no value at all. */
typedef uint32_t value_id;

struct shape_value {
    uint8_t has_null, has_true, has_false;
    lang_id string; /* of the decoded text; LANG_NONE: no string */
    lang_id number; /* of the number's text in ASCII */
    int n_objects, n_arrays;
    const uint32_t *object, *array; /* [n_objects], [n_arrays] into shapes.object, shapes.array */
};

struct shape_named {
    const char *name; /* [bytes] UTF-8, decoded */
    size_t bytes;
    value_id value; /* 0: forbidden */
    int required;
};

/* Keys that are no named ones: KEYS of one shape are disjoint from each other and from all names; a
 * key in none is forbidden. */
struct shape_keys {
    lang_id keys;
    value_id value;
};

/* An object: its members in any order, each key once. */
struct shape_object {
    int n_named, n_keys, n_implied;
    const struct shape_named *named; /* [n_named] in the order of the schema */
    const struct shape_keys *keys;   /* [n_keys] */
    const int (*implied)[2];         /* [n_implied] named[a] demands named[b] */
    int64_t min, max;                /* number of members; max -1: any */
};

/* Between min and max elements satisfy it (max -1: any). */
struct shape_contains {
    int64_t min, max;
};

/* An element's values are given for each set of contains that it satisfies: bit c of SET is set for
 * those that satisfy contains[c], clear for those that do not. Without contains the only set is 0,
 * so prefix[i] is the value of element i and items[0] that of all after the prefix. */
struct shape_array {
    int n_prefix, n_contains;              /* n_contains <= 4 */
    const value_id *prefix;                /* [n_prefix << n_contains]: (i << n_contains) + SET */
    const value_id *items;                 /* [1 << n_contains]; all 0: none may follow */
    const struct shape_contains *contains; /* [n_contains] */
    int64_t min, max;                      /* max -1: any */
    int unique;                            /* only of strings, numbers and literals */
};

struct shapes {
    struct lang *lang;
    const struct shape_value *value; /* [n_values], the first is unused */
    const struct shape_object *object;
    const struct shape_array *array;
    uint32_t n_values, n_objects, n_arrays;
    value_id root;
};

#endif
