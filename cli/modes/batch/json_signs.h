/* json_signs.h: what tells that a file which was taken for plain prompts is JSON. Owns: the signs.
 * Must not know: files, records. */
#ifndef CLI_MODES_BATCH_JSON_SIGNS_H
#define CLI_MODES_BATCH_JSON_SIGNS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Zero-initialize. */
struct json_signs {
    int is_comment; /* the first line looks like one */
};

/* Looks at a line that is not empty; N_BEFORE: how many came before. -1: *e says what it is. */
int json_signs_see(struct json_signs *s, const char *line, size_t n, uint64_t n_before,
                   struct err *e);
/* 1: PATH ends as names of JSON files do, packed or not. */
int json_signs_name(const char *path);

#endif
