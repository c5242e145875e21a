/* prefixes.h: which beginnings of prompts came before: full pages of KV_PAGE tokens, each known by
 * all tokens up to its end, as the prefix cache shares them. Must not know: records, the cache. */
#ifndef CLI_MODES_BATCH_PREFIXES_H
#define CLI_MODES_BATCH_PREFIXES_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Hashes of 64 bits; zero-initialize. */
struct prefixes {
    uint64_t *seen; /* [size] a power of two; 0: free */
    size_t n, size;
    int is_full; /* there were more than MAX_PREFIXES: later ones are not known */
};
enum { MAX_PREFIXES = 1 << 25 };

void prefixes_free(struct prefixes *p);
/* *shared: tokens at the beginning of ID [n] that came before, whole pages and at most LIMIT; then
 * all pages of ID are known. */
int prefixes_add(struct prefixes *p, const int32_t *id, int n, int limit, int *shared,
                 struct err *e);

#endif
