/* refusal.h: what is wrong with a record, for its answer. */
#ifndef CLI_MODES_BATCH_REFUSAL_H
#define CLI_MODES_BATCH_REFUSAL_H

#include "core/base/err.h"

#include <stdarg.h>

struct refusal {
    struct err why;
    const char *field; /* name of the field, or NULL */
};

/* Both return 1. The message is "FIELD: TEXT", or TEXT where FIELD is NULL. */
int refuse(struct refusal *why, const char *field, const char *text);
/* It is PLACE and, right behind it, the formatted text. */
int refuse_at(struct refusal *why, const char *field, const char *place, const char *fmt,
              va_list values) __attribute__((format(printf, 4, 0)));

#endif
