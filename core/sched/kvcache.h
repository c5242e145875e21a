/* kvcache.h: which KV page holds what: page ids, who refers to them, and which prefix of tokens a
 * full page continues. Owns: page ids. Must not know: sequences, device memory, what a step
 * computes.
 *
 * A page that nobody refers to is free; one that was published keeps its contents until it is taken
 * again, the longest unused first. A published page is found again by (the page before it, its own
 * tokens), both compared in full: the hash only finds the place to look. "The page before it" is
 * named by a serial number that is never used twice, so a page taken for other contents cannot pass
 * for its former self.
 *
 * Only pages whose tokens were all computed in the prompt phase may be published: a backend may
 * choose its kernels by phase, and a prompt's bits must be those that the prompt phase gives,
 * whether a page is found or not. */
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
    uint64_t parent;        /* serial of the page before it, or the root it was published under */
    int32_t token[KV_PAGE]; /* of a published page */
};

struct kv {
    int n_pages, n_used;  /* used: with references */
    int32_t n_buckets;    /* a power of two */
    int32_t first, last;  /* pages without references: first is taken next */
    uint64_t next_serial; /* serials start at 1 */
    struct kv_page *page; /* [n_pages] */
    int32_t *bucket;      /* [n_buckets] first page, -1: none */
};

int kv_open(struct kv *kv, int n_pages, struct err *e);
void kv_close(struct kv *kv);
/* Pages that kv_take can give. */
int kv_n_free(const struct kv *kv);
/* A page for new contents with one reference, or -1. */
int32_t kv_take(struct kv *kv);
/* Drops one reference. */
void kv_release(struct kv *kv, int32_t page);
/* A number for a prefix of its own (to share pages under it only): pass it as PARENT of a first
 * page. */
uint64_t kv_root(struct kv *kv);
/* The published page with these tokens [KV_PAGE] after PARENT (a page's serial or a root; 0 is the
 * common root), with one reference more; -1 when there is none. */
int32_t kv_find(struct kv *kv, uint64_t parent, const int32_t *token);
/* Publishes PAGE. Returns the serial under which the prefix that ends here is known: another page's
 * when it was published before. */
uint64_t kv_publish(struct kv *kv, int32_t page, uint64_t parent, const int32_t *token);

#endif
