#include "backend-hip/hip_away.h"

#include "backend-hip/hip_memory.h"
#include "backend-hip/hip_pack.h"

#include <stdlib.h>
#include <string.h>

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }
static void *stream_of(const struct hip *h) { return hip_stream_handle(h->stream); }

static size_t number_of(const struct be_linear *l) { return l->stack ? (size_t)l->stack : 1; }
static size_t weight_of(const struct be_linear *l) { return number_of(l) * l->weight_bytes; }
static size_t meta_of(const struct be_linear *l) { return number_of(l) * l->meta_bytes; }

static int open_stream(struct hip *h, struct err *e)
{
    enum { NOT_BLOCKING = 1 };
    const struct hip_api *api = api_of(h);
    struct hip_away *a = &h->away;
    char text[160];
    if (a->is_open) return 0;
    if (!api->stream_open || !api->stream_wait)
        return err_set(e, "%s: has no streams of copies", h->device->library->path);
    int code = api->stream_open(&a->stream, NOT_BLOCKING);
    if (!code) code = api->event_create(&a->used, 0);
    for (int i = 0; i < FETCHES && !code; i++) code = api->event_create(&a->arrived[i], 0);
    a->is_open = !code;
    return code ? err_set(e, "%s: no stream of copies: %s", h->device->name,
                          hip_error_text(h->device->library, code, text, sizeof text))
                : 0;
}

/* Memory of a slot for weights like those of l. */
static int take_slot(struct hip *h, int slot, const struct be_linear *l, struct err *e)
{
    struct hip_slot_of_weights *s = &h->away.slot[slot];
    if (!s->d_weight) {
        s->d_weight = hip_alloc(&h->be, weight_of(l));
        s->d_meta = meta_of(l) ? hip_alloc(&h->be, meta_of(l)) : NULL;
        s->weight = weight_of(l);
        s->meta = meta_of(l);
        if (!s->d_weight || (s->meta && !s->d_meta))
            return err_memory_for(e, "out of memory on %s", h->device->name);
    }
    return s->weight == weight_of(l) && s->meta == meta_of(l)
               ? 0
               : err_set(e, "stacks of several sizes cannot share memory");
}

/* Page-locked, or plain where that fails: copies are slower then. */
static int take_host(struct hip *h, struct be_linear *l, struct err *e)
{
    void *p = NULL;
    size_t bytes = weight_of(l) + meta_of(l);
    l->is_pinned = !api_of(h)->host_alloc(&p, bytes, 0) && p;
    l->away = l->is_pinned ? p : malloc(bytes);
    return l->away ? 0 : err_memory(e);
}

/* The packed weights go to the host, the linear to the slot. */
static int move_away(struct hip *h, struct be_linear *l, int slot, struct err *e)
{
    const struct hip_slot_of_weights *s = &h->away.slot[slot];
    if (take_slot(h, slot, l, e) || take_host(h, l, e)) return -1;
    hip_download(&h->be, l->away, l->d_weight, weight_of(l));
    hip_download(&h->be, l->away + weight_of(l), l->d_meta, meta_of(l));
    hip_free(&h->be, l->d_weight);
    hip_free(&h->be, l->d_meta);
    l->d_weight = s->d_weight;
    l->d_meta = s->d_meta;
    hip_make_maps(h, l);
    return hip_sync(&h->be, e);
}

int hip_pack_away(struct be *be, const struct linear *w, int slot, struct be_linear **out,
                  struct err *e)
{
    struct hip *h = (struct hip *)be;
    CHECK(slot >= 0 && slot < AWAY_SLOTS);
    hip_use(h);
    if (open_stream(h, e) || hip_pack(be, w, out, e)) return -1;
    if (!move_away(h, *out, slot, e)) return 0;
    hip_drop(be, *out);
    *out = NULL;
    return -1;
}

void hip_fetch(struct be *be, struct be_linear *const *w, int n)
{
    struct hip *h = (struct hip *)be;
    struct hip_away *a = &h->away;
    const struct hip_api *api = api_of(h);
    hip_use(h);
    hip_flush(h);
    if (h->failed.msg[0]) return;
    hip_fail(h, api->event_record(a->used, stream_of(h)), "a kernel failed");
    hip_fail(h, api->stream_wait(a->stream, a->used, 0), "copy of weights");
    for (int i = 0; i < n && !h->failed.msg[0]; i++) {
        const struct be_linear *l = w[i];
        hip_fail(h, api->copy_in_later(l->d_weight, l->away, weight_of(l), a->stream),
                 "copy of weights");
        if (meta_of(l) && !h->failed.msg[0])
            hip_fail(h,
                     api->copy_in_later(l->d_meta, l->away + weight_of(l), meta_of(l), a->stream),
                     "copy of weights");
    }
    if (!h->failed.msg[0])
        hip_fail(h, api->event_record(a->arrived[a->n_fetched % FETCHES], a->stream),
                 "copy of weights");
    a->n_fetched++;
}

void hip_await(struct be *be, int later)
{
    struct hip *h = (struct hip *)be;
    const struct hip_away *a = &h->away;
    hip_use(h);
    hip_flush(h);
    if (h->failed.msg[0]) return; /* nothing has been fetched since */
    CHECK(later >= 0 && later < FETCHES && a->n_fetched > (unsigned)later);
    hip_fail(h,
             api_of(h)->stream_wait(stream_of(h),
                                    a->arrived[(a->n_fetched - 1 - (unsigned)later) % FETCHES], 0),
             "copy of weights");
}

void hip_away_close(struct hip *h)
{
    struct hip_away *a = &h->away;
    const struct hip_api *api = api_of(h);
    if (h->device->hung) return;
    for (int i = 0; i < AWAY_SLOTS; i++) {
        hip_free(&h->be, a->slot[i].d_weight);
        hip_free(&h->be, a->slot[i].d_meta);
    }
    if (a->used) api->event_destroy(a->used);
    for (int i = 0; i < FETCHES; i++)
        if (a->arrived[i]) api->event_destroy(a->arrived[i]);
}
