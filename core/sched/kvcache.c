#include "core/sched/kvcache.h"

#include <stdlib.h>
#include <string.h>

int kv_open(struct kv *kv, int n_pages, struct err *e)
{
    memset(kv, 0, sizeof *kv);
    kv->n_pages = n_pages;
    kv->next_serial = 1;
    for (kv->n_buckets = 1; kv->n_buckets < n_pages && kv->n_buckets < 1 << 30;) kv->n_buckets *= 2;
    kv->page = calloc((size_t)n_pages, sizeof *kv->page);
    kv->bucket = malloc((size_t)kv->n_buckets * sizeof *kv->bucket);
    if (!kv->page || !kv->bucket) {
        kv_close(kv);
        return err_memory_for(e, "out of memory for %d KV pages", n_pages);
    }
    for (int32_t i = 0; i < kv->n_buckets; i++) kv->bucket[i] = -1;
    for (int i = 0; i < n_pages; i++)
        kv->page[i] =
            (struct kv_page){.prev = i - 1, .next = i + 1 < n_pages ? i + 1 : -1, .chain = -1};
    kv->first = n_pages ? 0 : -1;
    kv->last = n_pages - 1;
    return 0;
}

void kv_close(struct kv *kv)
{
    free(kv->page);
    free(kv->bucket);
    memset(kv, 0, sizeof *kv);
}

int kv_n_free(const struct kv *kv) { return kv->n_pages - kv->n_used; }

uint64_t kv_root(struct kv *kv) { return kv->next_serial++; }

static int32_t *bucket_of(struct kv *kv, uint64_t parent, const int32_t *token)
{
    uint64_t h = parent * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < KV_PAGE; i++)
        h = ((h ^ h >> 32) + (uint32_t)token[i]) * 0xd6e8feb86659fd93u;
    return &kv->bucket[(h ^ h >> 32) & (uint64_t)(kv->n_buckets - 1)];
}

static void list_remove(struct kv *kv, int32_t i)
{
    struct kv_page *p = &kv->page[i];
    *(p->prev < 0 ? &kv->first : &kv->page[p->prev].next) = p->next;
    *(p->next < 0 ? &kv->last : &kv->page[p->next].prev) = p->prev;
}

static void list_add(struct kv *kv, int32_t i, int at_end)
{
    struct kv_page *p = &kv->page[i];
    p->prev = at_end ? kv->last : -1;
    p->next = at_end ? -1 : kv->first;
    *(p->prev < 0 ? &kv->first : &kv->page[p->prev].next) = i;
    *(p->next < 0 ? &kv->last : &kv->page[p->next].prev) = i;
}

static void unpublish(struct kv *kv, int32_t i)
{
    struct kv_page *p = &kv->page[i];
    int32_t *at = bucket_of(kv, p->parent, p->token);
    while (*at != i) at = &kv->page[*at].chain;
    *at = p->chain;
    p->serial = 0;
}

int32_t kv_take(struct kv *kv)
{
    int32_t i = kv->first;
    if (i < 0) return -1;
    list_remove(kv, i);
    if (kv->page[i].serial) unpublish(kv, i);
    kv->page[i].n_refs = 1;
    kv->n_used++;
    return i;
}

void kv_release(struct kv *kv, int32_t i)
{
    struct kv_page *p = &kv->page[i];
    CHECK(p->n_refs > 0);
    if (--p->n_refs) return;
    kv->n_used--;
    list_add(kv, i, p->serial != 0); /* unpublished contents are reused first */
}

static int32_t lookup(struct kv *kv, uint64_t parent, const int32_t *token)
{
    int32_t i = *bucket_of(kv, parent, token);
    while (i >= 0 && (kv->page[i].parent != parent ||
                      memcmp(kv->page[i].token, token, sizeof kv->page[i].token)))
        i = kv->page[i].chain;
    return i;
}

int32_t kv_find(struct kv *kv, uint64_t parent, const int32_t *token)
{
    int32_t i = lookup(kv, parent, token);
    if (i >= 0 && !kv->page[i].n_refs++) {
        list_remove(kv, i);
        kv->n_used++;
    }
    return i;
}

uint64_t kv_publish(struct kv *kv, int32_t i, uint64_t parent, const int32_t *token)
{
    int32_t known = lookup(kv, parent, token);
    if (known >= 0) return kv->page[known].serial;
    struct kv_page *p = &kv->page[i];
    CHECK(p->n_refs > 0 && !p->serial);
    p->serial = kv->next_serial++;
    p->parent = parent;
    memcpy(p->token, token, sizeof p->token);
    int32_t *at = bucket_of(kv, parent, token);
    p->chain = *at;
    *at = i;
    return p->serial;
}
