/* jinja_filters.h: declarations shared by the filters, tests, methods and globals. */
#ifndef CORE_JINJA_FILTERS_H
#define CORE_JINJA_FILTERS_H

#include "core/text/jinja/jinja_internal.h"

/* The signature of a filter, test, method or global (struct jinja_callable). */
#define FILTER_PARAMS                                                                              \
    struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,                     \
        struct jinja_value *slot, struct jinja_value *out
#define FILTER(name) static int name(FILTER_PARAMS)

/* in jinja_strings.c */
int jinja_filter_capitalize(FILTER_PARAMS);
int jinja_filter_center(FILTER_PARAMS);
int jinja_filter_escape(FILTER_PARAMS);
int jinja_filter_forceescape(FILTER_PARAMS);
int jinja_filter_format(FILTER_PARAMS);
int jinja_filter_indent(FILTER_PARAMS);
int jinja_filter_lower(FILTER_PARAMS);
int jinja_filter_replace(FILTER_PARAMS);
int jinja_filter_safe(FILTER_PARAMS);
int jinja_filter_string(FILTER_PARAMS);
int jinja_filter_title(FILTER_PARAMS);
int jinja_filter_tojson(FILTER_PARAMS);
int jinja_filter_trim(FILTER_PARAMS);
int jinja_filter_truncate(FILTER_PARAMS);
int jinja_filter_upper(FILTER_PARAMS);
int jinja_filter_wordcount(FILTER_PARAMS);

/* (key, value) tuples of a dict. */
int jinja_pairs(struct jinja_run *r, const struct jinja_dict *d, enum jinja_type type,
                struct jinja_value *out);
/* Properties of a whole text as str.isalpha() and so on: 'a' alpha, 'd' digit, 'D' decimal, 'n'
 * numeric, 'A' alnum, 's' space, 'u' upper, 'l' lower, 't' title, 'i' ascii. */
int jinja_text_is(struct jinja_value v, int what);

#endif
