/* kv_open.h: the open pages of KV_INT4. Its pages are written once, when all their positions are
 * there; the rows of a page read themselves and each other in an open page, which is a page of
 * KV_INT8. So what a row reads depends on its position alone.
 *
 * Of the pages that a step stores for a sequence the last one lies in the sequence's seat, of which
 * every cache has its own, from step to step; the others lie in step pages, which hold from
 * OP_ROPE_STORE to the last OP_ATTEND of their cache. A step that begins within a page and goes
 * beyond it finds the page in the seat and copies it to the step page first. Owns: the numbers of
 * open pages. Must not know: backends, what a page holds. */
#ifndef CORE_KV_OPEN_H
#define CORE_KV_OPEN_H

#include "core/step/batch.h"
#include "core/step/kv_format.h"

static inline int kv_has_open(enum kv_type t) { return t == KV_INT4; }

/* Room for an open page of one cache in any backend's layout: heads of a multiple of 16. */
static inline size_t kv_open_bytes(enum kv_type t, const struct kv_cache *kv)
{
    int dims = (kv->head_dim + 15) / 16 * 16;
    size_t bytes = kv_is_latent(kv) ? kv_latent_bytes(KV_INT8, dims)
                                    : (size_t)kv->n_kv_heads * kv_head_bytes(KV_INT8, dims);
    return kv_has_open(t) ? bytes : 0;
}

/* Most step pages of a step: a sequence with r rows stores at most (r + 14) / 16 pages ahead of its
 * last one. */
static inline int kv_most_step_pages(int max_rows, int max_seqs)
{
    int by_rows = max_rows / 2, by_seqs = (max_rows + (KV_PAGE - 2) * max_seqs) / KV_PAGE;
    return by_rows < by_seqs ? by_rows : by_seqs;
}

/* The pages that a step stores for sequence s: `first` to `last` of the sequence. */
struct kv_stored {
    int first, last;
    int begun, end; /* positions of page `first` that earlier steps stored; of all when it ends */
};

static inline struct kv_stored kv_stored_pages(const struct batch *b, int s)
{
    int pos0 = b->pos[b->seq_start[s]], last = b->pos[b->seq_start[s + 1] - 1];
    return (struct kv_stored){pos0 / KV_PAGE, last / KV_PAGE, pos0 % KV_PAGE, last + 1};
}

/* Numbers the step pages: first [n_seqs] is the number of each sequence's first one, the others
 * follow it. Returns how many there are. */
int kv_number_step_pages(const struct batch *b, int32_t *first);

#endif
