/* json.h: reading JSON when memory is short. jansson 2.14 drops a character for which its buffer
 * cannot grow and goes on, so its result after a failed allocation may differ from the text. All
 * allocations of jansson in this process go through a hook that json.c installs before main: a
 * failed one ends json_read at once and is remembered for json_check. Must not know: what is read.
 */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include "core/base/err.h"

#include <jansson.h>
#include <stddef.h>

/* 1: a failed allocation of jansson's is seen here. 0: another part of the process has set functions
 * of its own, and nothing of this may be used. */
int json_is_ours(void);

/* json_loadb for TEXT [n] with jansson's FLAGS. NULL: e says "out of memory" (err_is_memory) or
 * jansson's reason; WHY (may be NULL) then has line and position. */
json_t *json_read(const char *text, size_t n, size_t flags, json_error_t *why, struct err *e);

/* The same for a file that Python reads and writes: NaN, Infinity and -Infinity, which JSON has not,
 * and numbers that no 64 bits hold become strings, so that no reader takes them for a number. */
json_t *json_read_python(const char *text, size_t n, size_t flags, json_error_t *why,
                         struct err *e);

/* The reason why a text is not JSON, in a few words. */
const char *json_why(const json_error_t *why);

/* A JSON string of S (a file's name, say); bytes that are not UTF-8 become U+FFFD. NULL: S is NULL,
 * or memory is short (json_check). */
json_t *json_text(const char *s);

/* -1 and "out of memory" when an allocation of jansson has failed in this thread since json_forget.
 * Called once after a series of json_pack, json_object_set and the like, in place of a check of
 * each. */
int json_check(struct err *e);
void json_forget(void);

#endif
