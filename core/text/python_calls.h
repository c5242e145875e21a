/* python_calls.h: a call of a function as Python writes it: NAME(KEY=VALUE, ..), values as
 * literals.h has them. Must not know: tools, schemas, what stands around it. */
#ifndef CORE_PYTHON_CALLS_H
#define CORE_PYTHON_CALLS_H

#include "core/base/err.h"

/* The call that [p, end) begins with, behind white space: *name, and *arguments as an object in
 * JSON, both malloc'd; *behind: the byte after it. Returns 1; 0: there is none; -1: *e. A key that
 * comes twice is none. */
int python_call_read(const char *p, const char *end, const char **behind, char **name,
                     char **arguments, struct err *e);

#endif
