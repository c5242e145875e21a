/* hip_memory.c: device memory, copies and waiting. Uploads go through two pinned buffers in order
 * with the kernels, so that reading the next piece of a model file overlaps with the copy of the
 * last; results of a step come back through pinned memory. Every wait has a limit: a device that
 * exceeds hip_options.wait_seconds is given up and gets no further calls, because each could block.
 * Must not know: what is stored. */
#include "backend-hip/hip_memory.h"

#include "core/base/clock.h"

#include <stdio.h>
#include <string.h>

/* Each allocation stores its length in front of the data, for the sum of all. */
enum { BLOCK_HEADER = 256 };

static const struct hip_api *api_of(const struct hip *h) { return &h->device->library->api; }
static void *stream_of(const struct hip *h) { return hip_stream_handle(h->stream); }

/* Whether the work up to an event has come to its end, good or bad; SINCE: when it was first waited
 * for. */
static int is_over(struct hip *h, void *event, double since)
{
    const int limit = hip_wait_seconds(h);
    int code = HIP_NOT_READY;
    if (h->failed.msg[0] || (!h->device->hung && !(code = api_of(h)->event_query(event)))) return 1;
    if (code != HIP_NOT_READY) {
        hip_fail(h, code, "a kernel failed");
    } else if (h->device->hung || clock_now() - since > limit) { /* another that has it may know */
        h->device->hung = 1;
        err_set(&h->failed, "%s: the device hangs: no end of the work after %d s (--gpu-timeout)",
                h->device->name, limit);
        hip_stop_peers(h);
    }
    return h->failed.msg[0] != 0;
}

static void wait_for(struct hip *h, void *event)
{
    double start = clock_now();
    while (!is_over(h, event, start)) clock_rest(clock_now() - start);
}

static void wait_for_all(struct hip *h)
{
    hip_flush(h);
    if (!h->failed.msg[0])
        hip_fail(h, api_of(h)->event_record(h->all_done, stream_of(h)), "a kernel failed");
    wait_for(h, h->all_done);
}

void *hip_alloc(struct be *be, size_t bytes)
{
    struct hip *h = (struct hip *)be;
    void *d = NULL;
    uint64_t whole = bytes + BLOCK_HEADER;
    hip_use(h);
    if (bytes > SIZE_MAX / 2 || h->failed.msg[0]) return NULL;
    int code = api_of(h)->alloc(&d, whole);
    if (code && code != HIP_OUT_OF_MEMORY) hip_fail(h, code, "allocating memory");
    if (code) return NULL;
    hip_fail(h, api_of(h)->fill(d, 0, whole), "clearing memory");
    hip_upload(be, d, &whole,
               sizeof whole); /* a synchronous copy would block behind a kernel that hangs */
    h->bytes += whole;
    return (char *)d + BLOCK_HEADER;
}

void hip_free(struct be *be, void *d)
{
    struct hip *h = (struct hip *)be;
    uint64_t whole = 0;
    if (!d || h->device->hung) return;
    hip_use(h);
    hip_flush(h);
    d = (char *)d - BLOCK_HEADER;
    if (!api_of(h)->copy_out(&whole, d, sizeof whole)) h->bytes -= whole;
    hip_fail(h, api_of(h)->free(d), "freeing memory");
}

void *hip_common_memory(const struct hip *h, size_t bytes)
{
    unsigned flags = HOST_PORTABLE | HOST_MAPPED |
                     (h->device->library->is_cuda ? 0 : HIP_HOST_COHERENT);
    void *p = NULL;
    if (api_of(h)->host_alloc(&p, bytes, flags) || !p) return NULL;
    return memset(p, 0, bytes);
}

void *hip_view(struct be *be, void *d, size_t bytes)
{
    struct hip *h = (struct hip *)be;
    void *p = NULL;
    (void)d;
    hip_use(h);
    if (h->failed.msg[0]) return NULL;
    int code = api_of(h)->host_alloc(&p, bytes, 0);
    if (code && code != HIP_OUT_OF_MEMORY) hip_fail(h, code, "allocating pinned memory");
    for (int i = 0; i < VIEWS && !code; i++)
        if (!h->view[i].pinned) {
            h->view[i] = (struct hip_view){p, bytes};
            break;
        }
    return code ? NULL : p;
}

void hip_drop_view(struct be *be, void *view)
{
    struct hip *h = (struct hip *)be;
    if (!view || h->device->hung) return;
    hip_use(h);
    hip_flush(h);
    for (int i = 0; i < VIEWS; i++)
        if (h->view[i].pinned == view) h->view[i].pinned = NULL;
    hip_fail(h, api_of(h)->host_free(view), "freeing pinned memory");
}

int hip_waiting_open(struct hip *h, struct err *e)
{
    char text[160];
    int code = api_of(h)->event_create(&h->all_done, 0);
    for (int i = 0; i < STEPS && !code; i++) code = api_of(h)->event_create(&h->step_done[i], 0);
    if (code)
        return err_set(e, "%s: no event: %s", h->device->name,
                       hip_error_text(h->device->library, code, text, sizeof text));
    for (int i = 0; i < UPLOADS; i++) {
        struct hip_upload *u = &h->upload[i];
        code = api_of(h)->host_alloc(&u->pinned, UPLOAD_BYTES, 0);
        if (!code) code = api_of(h)->event_create(&u->sent, 0);
        if (code)
            return err_set(e, "%s: no pinned memory for uploads: %s", h->device->name,
                           hip_error_text(h->device->library, code, text, sizeof text));
    }
    return 0;
}

void hip_waiting_close(struct hip *h)
{
    if (h->device->hung) return;
    if (h->all_done) hip_fail(h, api_of(h)->event_destroy(h->all_done), "events");
    for (int i = 0; i < STEPS; i++)
        if (h->step_done[i]) hip_fail(h, api_of(h)->event_destroy(h->step_done[i]), "events");
    for (int i = 0; i < UPLOADS; i++) {
        struct hip_upload *u = &h->upload[i];
        if (u->sent) api_of(h)->event_destroy(u->sent);
        if (u->pinned) api_of(h)->host_free(u->pinned);
    }
}

void hip_upload(struct be *be, void *d, const void *src, size_t bytes)
{
    struct hip *h = (struct hip *)be;
    hip_use(h);
    hip_flush(h);
    for (size_t at = 0; at < bytes && !h->failed.msg[0]; at += UPLOAD_BYTES) {
        struct hip_upload *u = &h->upload[h->n_uploads++ % UPLOADS];
        size_t n = bytes - at < UPLOAD_BYTES ? bytes - at : UPLOAD_BYTES;
        if (u->used) wait_for(h, u->sent);
        if (h->failed.msg[0]) return;
        memcpy(u->pinned, (const char *)src + at, n);
        hip_fail(h, api_of(h)->copy_in_later((char *)d + at, u->pinned, n, stream_of(h)),
                 "copy to the device");
        hip_fail(h, api_of(h)->event_record(u->sent, stream_of(h)), "copy to the device");
        u->used = 1;
    }
}

void hip_download(struct be *be, void *dst, const void *d_src, size_t bytes)
{
    struct hip *h = (struct hip *)be;
    if (!bytes) return;
    hip_use(h);
    for (int i = 0; i < VIEWS; i++) {
        const struct hip_view *v = &h->view[i];
        if (!v->pinned || (char *)dst < v->pinned || (char *)dst >= v->pinned + v->bytes) continue;
        hip_flush(h);
        if (!h->failed.msg[0])
            hip_fail(h, api_of(h)->copy_out_later(dst, (void *)d_src, bytes, stream_of(h)),
                     "copy from the device");
        return;
    }
    wait_for_all(h);
    if (!h->failed.msg[0])
        hip_fail(h, api_of(h)->copy_out(dst, (void *)d_src, bytes), "copy from the device");
}

void hip_clear(struct hip *h, void *d, size_t n)
{
    hip_flush(h);
    if (!h->failed.msg[0]) hip_fail(h, api_of(h)->fill(d, 0, n), "clearing memory");
}

void hip_end_step(struct be *be)
{
    struct hip *h = (struct hip *)be;
    CHECK(h->n_ended - h->n_waited < STEPS);
    hip_use(h);
    hip_flush(h);
    if (!h->failed.msg[0])
        hip_fail(h, api_of(h)->event_record(h->step_done[h->n_ended % STEPS], stream_of(h)),
                 "a kernel failed");
    if (h->failed.msg[0]) hip_stop_peers(h); /* whatever failed, they wait in vain */
    h->n_ended++;
}

int hip_wait_step(struct be *be, struct err *e)
{
    struct hip *h = (struct hip *)be;
    CHECK(h->n_waited < h->n_ended);
    hip_use(h);
    wait_for(h, h->step_done[h->n_waited++ % STEPS]);
    h->asked_since = 0;
    if (!h->failed.msg[0]) return 0;
    *e = h->failed;
    return -1;
}

int hip_step_done(struct be *be)
{
    struct hip *h = (struct hip *)be;
    CHECK(h->n_waited < h->n_ended);
    hip_use(h);
    if (!h->asked_since) h->asked_since = clock_now();
    return is_over(h, h->step_done[h->n_waited % STEPS], h->asked_since);
}

int hip_sync(struct be *be, struct err *e)
{
    struct hip *h = (struct hip *)be;
    hip_use(h);
    wait_for_all(h);
    if (!h->failed.msg[0]) return 0;
    *e = h->failed;
    return -1;
}
