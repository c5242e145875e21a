#include "cli/modes/batch/prefixes.h"

#include "core/step/batch.h"

#include <stdlib.h>

void prefixes_free(struct prefixes *p)
{
    free(p->seen);
    *p = (struct prefixes){0};
}

/* The place of a hash, or the free one where it belongs. */
static size_t place_of(const struct prefixes *p, uint64_t h)
{
    size_t i = (size_t)(h >> 20) & (p->size - 1);
    while (p->seen[i] && p->seen[i] != h) i = (i + 1) & (p->size - 1);
    return i;
}

static int grow(struct prefixes *p, struct err *e)
{
    struct prefixes larger = {.n = p->n, .size = p->size ? 2 * p->size : 1024};
    if (!(larger.seen = calloc(larger.size, sizeof *larger.seen))) return err_memory(e);
    for (size_t i = 0; i < p->size; i++)
        if (p->seen[i]) larger.seen[place_of(&larger, p->seen[i])] = p->seen[i];
    free(p->seen);
    *p = larger;
    return 0;
}

/* The hash of a page behind one whose hash is H; never 0. */
static uint64_t next_hash(uint64_t h, const int32_t *id)
{
    for (int i = 0; i < KV_PAGE; i++) {
        h = (h ^ (uint32_t)id[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h | 1;
}

int prefixes_add(struct prefixes *p, const int32_t *id, int n, int limit, int *shared,
                 struct err *e)
{
    uint64_t h = 0;
    int known = 1;
    *shared = 0;
    for (int at = 0; at + KV_PAGE <= n; at += KV_PAGE) {
        if (2 * p->n >= p->size && !p->is_full && grow(p, e)) return -1;
        h = next_hash(h, id + at);
        size_t i = place_of(p, h);
        known &= p->seen[i] == h;
        if (known && at + KV_PAGE <= limit) *shared = at + KV_PAGE;
        if (p->seen[i]) continue;
        if (p->n >= MAX_PREFIXES) {
            p->is_full = 1;
            continue;
        }
        p->seen[i] = h;
        p->n++;
    }
    return 0;
}
