/* json_text.h: parts of JSON documents as expressions of a net that has JSON's rules
 * (notation_json): characters as strings spell them, given values. */
#ifndef CORE_JSON_TEXT_H
#define CORE_JSON_TEXT_H

#include "core/base/json.h"
#include "core/grammar/net.h"

/* One character of a string that is in the ranges: as it is, by its short escape, or, where it is a
 * control character or not of ASCII, as \uXXXX (two of them beyond the first plane). */
net_expr json_chars(struct net *n, const struct net_range *ranges, int n_ranges);
/* Any characters of a string. */
net_expr json_any_chars(struct net *n);
/* A string of exactly this text, UTF-8, with its quotes. */
net_expr json_text_of(struct net *n, const char *text, size_t bytes);
/* The same without quotes. */
net_expr json_chars_of(struct net *n, const char *text, size_t bytes);
/* A string, with its quotes, that is one of TEXT [count], which are sorted here. */
struct json_string {
    const char *text; /* [bytes] UTF-8 */
    size_t bytes;
};
net_expr json_text_of_some(struct net *n, struct json_string *text, int count);
/* A string, with its quotes, that is none of TEXT [count]. */
net_expr json_other_text(struct net *n, const char *const *text, int count, struct err *e);
/* Exactly this value: members of objects in its order. */
net_expr json_value_of(struct net *n, json_t *value);

#endif
