/* json.h: reading JSON when memory is short. jansson 2.14 leaves out the character for which its
 * buffer could not grow and goes on, so what it returns after a failed allocation is not what the
 * text says. Every allocation of jansson in this process goes through the hook of json.c, which is
 * there before main: a failed one ends json_read at once and is remembered for the rest. Must not
 * know: what is read. */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include "core/base/err.h"

#include <jansson.h>
#include <stddef.h>

/* json_loadb for TEXT [n] with jansson's FLAGS. NULL: e says "out of memory" (err_is_memory) or
 * what jansson says of the text; WHY (may be NULL) then has line and position. */
json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *why, struct err *e);

/* What is wrong with a text that is not JSON, in a few words. */
const char *json_why(const json_error_t *why);

/* A string of S, where a byte that is not UTF-8 becomes U+FFFD: names of files go into JSON by
 * this. NULL: S is NULL, or memory is short (json_check). */
json_t *json_text(const char *s);

/* -1 and "out of memory" when an allocation of jansson failed in this thread since json_forget (or
 * ever): to be asked after json_pack, json_object_set and their like, whose results are used
 * without a look at each. */
int json_check(struct err *e);
void json_forget(void);

#endif
