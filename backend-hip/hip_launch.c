#include "backend-hip/hip_launch.h"

#include "backend-hip/hip_internal.h"

static void release(uint32_t *word, int n, uint32_t value)
{
    for (int i = 0; word && i < n; i++) __atomic_store_n(&word[i], value, __ATOMIC_RELEASE);
}

void hip_stop_peers(const struct hip *h)
{
    for (int q = 0; q < EXCHANGE_DEVICES; q++) {
        release(h->stop[q], 1, 1);
        release(h->words[q], TURN_WORDS, 1u << 30); /* waits for numbers are over */
        release(h->served[q], 1, 1u << 30);
    }
}

void hip_fail(struct hip *h, int code, const char *what)
{
    char text[160];
    if (!code || h->failed.msg[0]) return;
    err_set(&h->failed, "%s: %s: %s", h->device->name, what,
            hip_error_text(h->device->library, code, text, sizeof text));
    hip_stop_peers(h);
}

void hip_use(struct hip *h)
{
    struct err e;
    if (h->device->hung || !hip_device_use(h->device, &e) || h->failed.msg[0]) return;
    h->failed = e;
    hip_stop_peers(h);
}

int hip_has(const struct hip *h, enum hip_kernel k) { return h->has[k]; }

/* Most shared memory that launches of a kernel ask for. */
static unsigned shared_of(const struct hip *h, enum hip_kernel k)
{
    const struct hip_kernel_row *row = &hip_kernels[k];
    int spreads = hip_image_family(h->device->image) == IMAGES_SM90;
    return spreads && row->spread > row->shared ? row->spread : row->shared;
}

int hip_find_kernels(struct hip *h, struct err *e)
{
    int family = hip_image_family(h->device->image);
    for (int k = 0; k < K_COUNT; k++) {
        const struct hip_kernel_row *row = &hip_kernels[k];
        h->has[k] = (row->images & family) != 0;
        if (!h->has[k] || shared_of(h, k) <= h->device->shared) continue;
        h->has[k] = 0;
        if (row->op != FOR_LINEAR)
            return err_set(e, "%s: %s: cannot have %u bytes of shared memory", h->device->name,
                           row->name, shared_of(h, k));
    }
    return 0;
}

static void set_function(struct hip *h, enum hip_kernel k, int attribute, int value)
{
    int code = h->device->library->api.cuda_function_set(h->function[k], attribute, value);
    hip_fail(h, code, hip_kernels[k].name);
}

/* Loads a kernel before its first launch. On sm_90a, where launches overlap, all kernels ask for
 * the same division of a multiprocessor's memory; exact ones of few rows are slower so. */
static void load_kernel(struct hip *h, enum hip_kernel k)
{
    CHECK(h->has[k]);
    if (hip_device_function(h->device, hip_kernels[k].name, &h->function[k], &h->failed)) {
        hip_stop_peers(h); /* whose launches wait for this device's */
        return;
    }
    if (shared_of(h, k)) set_function(h, k, CUDA_FUNCTION_SHARED_BYTES, (int)shared_of(h, k));
    if (hip_image_family(h->device->image) == IMAGES_SM90 && !hip_is_exact(h))
        set_function(h, k, CUDA_FUNCTION_SHARED_PERCENT, 100);
}

void hip_launch(struct hip *h, enum hip_kernel k, struct hip_blocks blocks, const void *args,
                size_t bytes)
{
    const struct hip_kernel_row *row = &hip_kernels[k];
    if (h->failed.msg[0] || !blocks.x || !blocks.y || !blocks.z) return;
    if (!h->function[k]) load_kernel(h, k);
    if (h->failed.msg[0]) return;
    CHECK(blocks.x < 1u << 31 && blocks.y < 1u << 16 && blocks.z < 1u << 16);
    const struct launch l = {.function = h->function[k],
                             .name = row->name,
                             .grid = {(unsigned)blocks.x, (unsigned)blocks.y, (unsigned)blocks.z},
                             .threads = row->threads,
                             .shared = !blocks.shared       ? row->shared
                                       : blocks.shared == 1 ? row->spread
                                                            : blocks.shared,
                             .cluster = row->in_clusters ? (unsigned)row->in_clusters : 1,
                             .apart = row->op == FOR_EXCHANGE,
                             .args = args,
                             .bytes = bytes};
    if (!hip_stream_add(h->stream, &l)) return;
    err_memory(&h->failed);
    hip_stop_peers(h);
}

void hip_launch_elements(struct hip *h, enum hip_kernel k, size_t n, const void *args, size_t bytes)
{
    size_t threads = hip_kernels[k].threads;
    hip_launch(h, k, (struct hip_blocks){(n + threads - 1) / threads, 1, 1, 0}, args, bytes);
}

void hip_launch_rows(struct hip *h, enum hip_kernel k, int rows, const void *args, size_t bytes)
{
    hip_launch(h, k, (struct hip_blocks){(size_t)rows, 1, 1, 0}, args, bytes);
}

int hip_replay(struct hip *h, const void *key, size_t bytes)
{
    int replayed;
    int code = hip_stream_replay(h->stream, key, bytes, &replayed);
    if (code) hip_fail(h, code, "a step");
    return replayed;
}

void hip_issue(struct hip *h, const void *key, size_t bytes, int idle)
{
    const char *name;
    int code = h->failed.msg[0] ? 0 : hip_stream_issue(h->stream, key, bytes, idle, &name);
    if (code) hip_fail(h, code, name);
}

void hip_flush(struct hip *h) { hip_issue(h, NULL, 0, 0); }
