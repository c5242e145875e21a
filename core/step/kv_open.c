/* kv_open.c: numbers of open pages. */
#include "core/step/kv_open.h"

int kv_number_step_pages(const struct batch *b, int32_t *first)
{
    int n = 0;
    for (int s = 0; s < b->n_seqs; s++) {
        struct kv_stored p = kv_stored_pages(b, s);
        first[s] = n;
        n += p.last - p.first;
    }
    return n;
}
