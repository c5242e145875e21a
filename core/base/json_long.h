/* json_long.h: JSON whose numbers keep all digits. One that jansson's integers and doubles do not
 * hold stands as an object of one member, JSON_LONG, its text; no user's text may have that name.
 */
#ifndef CORE_JSON_LONG_H
#define CORE_JSON_LONG_H

#include "core/base/json.h"

#define JSON_LONG "opt4gptq:number"

/* json_read of any value; NULL: *e. */
json_t *json_read_long(const char *text, size_t bytes, struct err *e);
/* 1: TEXT [bytes], which is JSON, has such a number. */
int json_has_long(const char *text, size_t bytes);
/* The text of such a number; NULL: V is none. */
const char *json_long(const json_t *v);

#endif
