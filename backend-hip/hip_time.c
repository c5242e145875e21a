/* hip_time.c: measurements for opt4gptq-bench: the paper's kernels alone, timed by two events, and
 * copies on the device. Must not know: the use of the figures. */
#include "backend-hip/hip_linear.h"
#include "backend-hip/hip_memory.h"

#include <stdio.h>

int hip_pin(struct be *be, const char *variant, struct err *e)
{
    struct hip *h = (struct hip *)be;
    int k;
    if (hip_find_variant(variant, hip_image_family(h->device->image), &k, e)) return -1;
    CHECK(k >= 0 && hip_kernels[k].op == FOR_PAPER && hip_runs_paper(h));
    h->pinned = k;
    return 0;
}

/* Two events, and the time between them once all work is done. */
struct stopwatch {
    void *from, *to;
};

static int stopwatch_open(struct stopwatch *s, struct hip *h, struct err *e)
{
    const struct hip_api *api = &h->device->library->api;
    *s = (struct stopwatch){0};
    hip_fail(h, api->event_create(&s->from, 0), "events");
    hip_fail(h, api->event_create(&s->to, 0), "events");
    return hip_sync(&h->be, e);
}

static int stopwatch_close(struct stopwatch *s, struct hip *h, double *seconds, struct err *e)
{
    const struct hip_api *api = &h->device->library->api;
    float ms = 0;
    hip_flush(h);
    hip_fail(h, api->event_record(s->to, NULL), "events");
    int rc = hip_sync(&h->be, e);
    if (!rc) hip_fail(h, api->event_ms(&ms, s->from, s->to), "events");
    *seconds = (double)ms * 1e-3;
    if (h->device->hung) return rc;
    if (s->from) api->event_destroy(s->from);
    if (s->to) api->event_destroy(s->to);
    return rc ? rc : hip_sync(&h->be, e);
}

int hip_time_paper(struct be *be, int n, const struct be_linear *const w[], int rows,
                   double *seconds, struct err *e)
{
    struct hip *h = (struct hip *)be;
    struct stopwatch s;
    CHECK(hip_runs_paper(h) && rows <= h->config.max_rows);
    if (stopwatch_open(&s, h, e)) return -1;
    hip_fail(h, h->device->library->api.event_record(s.from, NULL), "events");
    for (int i = 0; i < n; i++) hip_launch_paper(h, w[i], rows);
    int rc = stopwatch_close(&s, h, seconds, e);
    *seconds /= n;
    return rc;
}

int hip_copy_rate(struct be *be, double *rate, struct err *e)
{
    enum { BYTES = 512 << 20, COPIES = 8 };
    struct hip *h = (struct hip *)be;
    struct stopwatch s;
    double seconds, best = 0;
    char *d = hip_alloc(be, 2 * (size_t)BYTES);
    int rc = d ? 0 : err_set(e, "out of memory on %s: its copies cannot be timed", h->device->name);
    for (int i = 0; i < 3 && !rc; i++) {
        if ((rc = stopwatch_open(&s, h, e))) break;
        hip_fail(h, h->device->library->api.event_record(s.from, NULL), "events");
        for (int k = 0; k < COPIES; k++)
            hip_fail(h, h->device->library->api.copy_on(d, d + BYTES, BYTES), "copy on the device");
        rc = stopwatch_close(&s, h, &seconds, e);
        if (2.0 * BYTES * COPIES / seconds > best) best = 2.0 * BYTES * COPIES / seconds;
    }
    hip_free(be, d);
    *rate = best;
    return rc;
}
