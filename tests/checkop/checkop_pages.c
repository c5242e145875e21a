/* checkop_pages.c: breaks pages of integers; see checkop_pages.h. */
#include "tests/checkop/checkop_pages.h"

/* Copies `bytes` of the device to p. */
static void fetch(struct be *be, const struct backend *fns, void *p, const void *d, size_t bytes)
{
    struct err e;
    fns->download(be, p, d, bytes);
    fns->sync(be, &e);
}

static void break_byte(struct page_fault f, struct be *be, const struct backend *fns,
                       const struct stepwise_call *c)
{
    const struct kv_cache *kv = &c->plan->kv[c->op->as.rope.kv];
    size_t bytes = fns->kv_page_bytes(f.kv, kv), head = bytes / (size_t)kv->n_kv_heads,
           at = (size_t)f.tenth * head / 10 + head / 20;
    for (int i = 0; i < c->batch->n_rows; i++) {
        char *page = (char *)c->memory->kv[c->op->as.rope.kv] +
                     (size_t)(c->batch->slot[i] / KV_PAGE) * bytes;
        uint8_t byte;
        if (c->batch->pos[i] % KV_PAGE != KV_PAGE - 1) continue;
        fetch(be, fns, &byte, page + at, 1);
        byte ^= 0x55;
        fns->upload(be, page + at, &byte, 1);
    }
}

/* Scales of keys, then of values, end a head's part of a page. */
static void break_scale(struct page_fault f, struct be *be, const struct backend *fns,
                        const struct stepwise_call *c)
{
    const struct kv_cache *kv = &c->plan->kv[c->op->as.rope.kv];
    int slot = c->batch->slot[c->batch->n_rows - 1];
    size_t bytes = fns->kv_page_bytes(KV_INT8, kv), head = bytes / (size_t)kv->n_kv_heads;
    char *page = (char *)c->memory->kv[c->op->as.rope.kv] + (size_t)(slot / KV_PAGE) * bytes;
    size_t at = head - (f.scale == FAULT_KEY_SCALE ? 2 : 1) * KV_PAGE * sizeof(float) +
                (size_t)(slot % KV_PAGE) * sizeof(float);
    float first;
    fetch(be, fns, &first, page + at, sizeof first);
    fns->upload(be, page + bytes - head + at, &first, sizeof first);
}

void break_pages(struct page_fault f, struct be *be, const struct backend *fns,
                 const struct stepwise_call *c)
{
    if (f.kv == KV_INT4 && f.tenth >= 0) break_byte(f, be, fns, c);
    if (f.kv == KV_INT8 && f.scale != FAULT_NO_SCALE) break_scale(f, be, fns, c);
}
