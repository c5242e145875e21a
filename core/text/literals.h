/* literals.h: values as Python writes them: True, False and None (in any case), strings in single
 * quotes, tuples, a comma behind the last element, numbers such as +5, .5 and 1_000. Must not know:
 * calls, schemas. */
#ifndef CORE_LITERALS_H
#define CORE_LITERALS_H

#include "core/base/err.h"

#include <stddef.h>

/* The JSON of the value that [p, end) begins with, *json [*n], malloc'd; *behind: the byte after
 * it. What is JSON stays as it is. Returns 1; 0: there is no such value; -1: *e. */
int literal_to_json(const char *p, const char *end, const char **behind, char **json, size_t *n,
                    struct err *e);

#endif
