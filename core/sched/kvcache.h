/* kvcache.h: allocator of KV pages with prefix caching (paged attention: Kwon et al. 2023). Owns:
 * page ids, their reference counts, and the map from a prefix of tokens to the page that continues
 * it. Must not know: sequences, device memory, what a step computes.
 *
 * A page without references is free. A published page keeps its contents until it is taken again,
 * the least recently used first. It is found by (its predecessor, its own tokens), both compared in
 * full; the hash only selects a bucket. The predecessor is named by a serial number that is never
 * reused, so a page taken for other contents is not mistaken for its former contents.
 *
 * Only pages whose tokens were all computed in the prompt phase may be published: a backend may
 * choose its kernels by phase, and a cached prefix must have the bits that the prompt phase gives.
 */
#ifndef CORE_KVCACHE_H
#define CORE_KVCACHE_H

#include "core/step/batch.h"
#include "core/base/err.h"

#include <stdint.h>

struct kv_page {
    int32_t n_refs;
    int32_t prev, next;     /* list of pages without references */
    int32_t chain;          /* next page of the same bucket, -1: none */
    uint64_t serial;        /* 0: not published */
    uint64_t parent;        /* serial of the predecessor, or the root */
    int32_t token[KV_PAGE]; /* of a published page */
};

struct kv {
    int n_pages, n_used;  /* n_used: pages with references */
    int32_t n_buckets;    /* a power of two */
    int32_t first, last;  /* pages without references; first is taken next */
    uint64_t next_serial; /* serials start at 1 */
    struct kv_page *page; /* [n_pages] */
    int32_t *bucket;      /* [n_buckets] first page, -1: none */
};

int kv_open(struct kv *kv, int n_pages, struct err *e);
void kv_close(struct kv *kv);
/* Pages that kv_take can give. */
int kv_n_free(const struct kv *kv);
/* Takes a page for new contents, with one reference; -1: none is free. */
int32_t kv_take(struct kv *kv);
/* Drops one reference. */
void kv_release(struct kv *kv, int32_t page);
/* A new root: pass it as PARENT of a first page to share pages under it only. */
uint64_t kv_root(struct kv *kv);
/* Takes a reference to the published page with these tokens [KV_PAGE] after PARENT (a page's serial
 * or a root; 0 is the common root); -1: there is none. */
int32_t kv_find(struct kv *kv, uint64_t parent, const int32_t *token);
/* Publishes PAGE with its tokens [KV_PAGE] after PARENT. Returns the serial of this prefix, which
 * is another page's if that was published first. */
uint64_t kv_publish(struct kv *kv, int32_t page, uint64_t parent, const int32_t *token);

#endif
