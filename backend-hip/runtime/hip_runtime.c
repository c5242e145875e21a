#include "backend-hip/runtime/hip_runtime.h"

#include "backend-hip/runtime/hip_compile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const known_libraries[] = {
    "libamdhip64.so.7",  "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
    "libgalaxyhip.so.5", "libgalaxyhip.so",  "libcuda.so.1"};
enum { N_KNOWN = sizeof known_libraries / sizeof *known_libraries };

static struct hip_library *libraries;
static struct hip_device *devices;
static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER; /* of both */
static _Thread_local const struct hip_device *current;

struct hip_function {
    const char *name;
    void *module, *function;
    struct hip_function *next;
};

#define AT(field) offsetof(struct hip_api, field)
static const struct hip_symbol {
    size_t slot;            /* in struct hip_api */
    const char *hip, *cuda; /* NULL: that runtime has no such function */
    int optional;
} symbols[] = {
    {AT(init), "hipInit", "cuInit", 0},
    {AT(device_count), "hipGetDeviceCount", "cuDeviceGetCount", 0},
    {AT(device_get), "hipDeviceGet", "cuDeviceGet", 0},
    {AT(device_name), "hipDeviceGetName", "cuDeviceGetName", 0},
    {AT(device_memory), "hipDeviceTotalMem", "cuDeviceTotalMem_v2", 0},
    {AT(memory_info), "hipMemGetInfo", "cuMemGetInfo_v2", 0},
    {AT(alloc), "hipMalloc", "cuMemAlloc_v2", 0},
    {AT(free), "hipFree", "cuMemFree_v2", 0},
    {AT(copy_out), "hipMemcpyDtoH", "cuMemcpyDtoH_v2", 0},
    {AT(copy_on), "hipMemcpyDtoD", "cuMemcpyDtoD_v2", 0},
    {AT(host_alloc), "hipHostMalloc", "cuMemHostAlloc", 0},
    {AT(host_free), "hipHostFree", "cuMemFreeHost", 0},
    {AT(copy_in_later), "hipMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", 0},
    {AT(copy_out_later), "hipMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 0},
    {AT(fill), "hipMemsetD8", "cuMemsetD8_v2", 0},
    {AT(module_load), "hipModuleLoadData", "cuModuleLoadData", 0},
    {AT(module_unload), "hipModuleUnload", "cuModuleUnload", 0},
    {AT(function), "hipModuleGetFunction", "cuModuleGetFunction", 0},
    {AT(launch), "hipModuleLaunchKernel", "cuLaunchKernel", 0},
    {AT(event_create), "hipEventCreateWithFlags", "cuEventCreate", 0},
    {AT(event_destroy), "hipEventDestroy", "cuEventDestroy_v2", 0},
    {AT(event_record), "hipEventRecord", "cuEventRecord", 0},
    {AT(stream_open), "hipStreamCreateWithFlags", "cuStreamCreate", 1},
    {AT(cuda_wait_value), NULL, "cuStreamWaitValue32_v2", 1},
    {AT(cuda_write_value), NULL, "cuStreamWriteValue32_v2", 1},
    {AT(stream_wait), "hipStreamWaitEvent", "cuStreamWaitEvent", 1},
    {AT(event_query), "hipEventQuery", "cuEventQuery", 0},
    {AT(event_ms), "hipEventElapsedTime", "cuEventElapsedTime", 0},
    {AT(hip_error), "hipGetErrorString", NULL, 0},
    {AT(hip_set_device), "hipSetDevice", NULL, 0},
    {AT(hip_properties_r0600), "hipGetDevicePropertiesR0600", NULL, 1},
    {AT(hip_properties), "hipGetDeviceProperties", NULL, 1},
    {AT(cuda_error), NULL, "cuGetErrorString", 0},
    {AT(cuda_attribute), NULL, "cuDeviceGetAttribute", 0},
    {AT(cuda_context), NULL, "cuDevicePrimaryCtxRetain", 0},
    {AT(cuda_set_context), NULL, "cuCtxSetCurrent", 0},
    {AT(cuda_function_set), NULL, "cuFuncSetAttribute", 0},
    {AT(cuda_stream), NULL, "cuStreamCreate", 0},
    {AT(cuda_capture), NULL, "cuStreamBeginCapture_v2", 0},
    {AT(cuda_capture_end), NULL, "cuStreamEndCapture", 0},
    {AT(cuda_graph_make), NULL, "cuGraphInstantiateWithFlags", 0},
    {AT(cuda_graph_launch), NULL, "cuGraphLaunch", 0},
    {AT(cuda_graph_exec_drop), NULL, "cuGraphExecDestroy", 0},
    {AT(cuda_graph_drop), NULL, "cuGraphDestroy", 0},
    {AT(can_access_peer), "hipDeviceCanAccessPeer", "cuDeviceCanAccessPeer", 1},
    {AT(hip_enable_peer), "hipDeviceEnablePeerAccess", NULL, 1},
    {AT(cuda_enable_peer), NULL, "cuCtxEnablePeerAccess", 1},
    {AT(hip_alloc_fine), "hipExtMallocWithFlags", NULL, 1},
    {AT(hip_link_type), "hipExtGetLinkTypeAndHopCount", NULL, 1},
    {AT(cuda_tensor_map), NULL, "cuTensorMapEncodeTiled", 1},
    {AT(cuda_launch_ex), NULL, "cuLaunchKernelEx", 1},
};
#undef AT

enum { N_SYMBOLS = sizeof symbols / sizeof *symbols };

const char *hip_error_text(const struct hip_library *l, int code, char *buffer, size_t bytes)
{
    const char *text = NULL;
    if (l->is_cuda) l->api.cuda_error(code, &text);
    else text = l->api.hip_error(code);
    if (text) snprintf(buffer, bytes, "%s (%d)", text, code);
    else snprintf(buffer, bytes, "error %d", code);
    return buffer;
}

static int failed(const struct hip_library *l, int code, const char *what, struct err *e)
{
    char text[160];
    return err_set(e, "%s: %s: %s", l->path, what, hip_error_text(l, code, text, sizeof text));
}

/* Looks up all symbols; a missing one is the error. */
static int find_symbols(struct hip_library *l, void *handle, struct err *e)
{
    l->is_cuda = !dlsym(handle, "hipInit") && dlsym(handle, "cuInit");
    for (int i = 0; i < N_SYMBOLS; i++) {
        const char *name = l->is_cuda ? symbols[i].cuda : symbols[i].hip;
        void *p = name ? dlsym(handle, name) : NULL;
        if (name && !p && !symbols[i].optional) return err_set(e, "%s: has no %s", l->path, name);
        memcpy((char *)&l->api + symbols[i].slot, &p, sizeof p);
    }
    int code = l->api.init(0);
    if (!code) return 0;
    /* AMD's runtime reports "invalid device" if its driver is not loaded or not accessible */
    if (!l->is_cuda && access("/dev/kfd", R_OK | W_OK))
        return err_sys(e, "%s: does not start: /dev/kfd (AMD's driver)", l->path);
    return failed(l, code, "does not start", e);
}

static int open_listed(const struct hip_library **out, const char *path, struct err *e)
{
    for (struct hip_library *l = libraries; l; l = l->next)
        if (!strcmp(l->path, path)) {
            *out = l;
            return 0;
        }
    void *handle = dlopen(path,
                          RTLD_NOW | RTLD_LOCAL); /* never closed: runtimes do not survive
                                                     dlclose */
    if (!handle) return err_set(e, "%s", dlerror());
    struct hip_library *l = calloc(1, sizeof *l);
    if (!l) return err_memory(e);
    snprintf(l->path, sizeof l->path, "%s", path);
    if (find_symbols(l, handle, e)) {
        free(l);
        return -1;
    }
    l->next = libraries;
    *out = libraries = l;
    return 0;
}

static int open_one(const struct hip_library **out, const char *path, struct err *e)
{
    pthread_mutex_lock(&lists);
    int rc = open_listed(out, path, e);
    pthread_mutex_unlock(&lists);
    return rc;
}

int hip_library_open(const struct hip_library **library, const char *path, struct err *e)
{
    if (path) {
        if (strlen(path) >= sizeof libraries->path)
            return err_set(e, "--hip-library: the path is too long");
        return open_one(library, path, e) ? err_prefix(e, "--hip-library") : 0;
    }
    struct err why = {0};
    char tried[256] = "";
    for (int i = 0; i < N_KNOWN; i++) {
        struct err one;
        if (!open_one(library, known_libraries[i], &one)) return 0;
        if (strstr(one.msg, "cannot open shared object file") == NULL)
            why = one; /* a library that exists but does not start */
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), i ? ", %s" : "%s",
                 known_libraries[i]);
    }
    if (why.msg[0]) return err_set(e, "no GPU can be used: %s", why.msg);
    return err_set(e, "no GPU runtime library is installed (tried %s; --hip-library names another)",
                   tried);
}

int hip_device_count(const struct hip_library *l, int *n, struct err *e)
{
    int code = l->api.device_count(n);
    return code ? failed(l, code, "no device", e) : 0;
}

int hip_device_use(const struct hip_device *d, struct err *e)
{
    const struct hip_library *l = d->library;
    if (current == d) return 0;
    current = NULL;
    int code = l->is_cuda ? l->api.cuda_set_context(d->context) : l->api.hip_set_device(d->ordinal);
    if (code) return failed(l, code, "cannot use the device", e);
    current = d;
    return 0;
}

/* Sets the architecture's name, for messages and the order of trials; "": unknown. */
static void find_arch(struct hip_device *d)
{
    const struct hip_api *api = &d->library->api;
    int major = 0, minor = 0;
    if (d->library->is_cuda) {
        if (!api->cuda_attribute(&major, CUDA_ATTRIBUTE_MAJOR, d->handle) &&
            !api->cuda_attribute(&minor, CUDA_ATTRIBUTE_MINOR, d->handle))
            snprintf(d->arch, sizeof d->arch, "sm_%d%d", major, minor);
        return;
    }
    char *p = calloc(1, HIP_PROPERTIES_BYTES);
    if (!p) return;
    int at = 0;
    if (api->hip_properties_r0600 && !api->hip_properties_r0600(p, d->ordinal))
        at = HIP_ARCH_AT_R0600;
    else if (api->hip_properties && !api->hip_properties(p, d->ordinal)) at = HIP_ARCH_AT_LEGACY;
    if (at && !strncmp(p + at, "gfx", 3)) snprintf(d->arch, sizeof d->arch, "%.40s", p + at);
    free(p);
}

static void find_shared(struct hip_device *d)
{
    int bytes = 0;
    if (d->library->is_cuda &&
        !d->library->api.cuda_attribute(&bytes, CUDA_ATTRIBUTE_SHARED_BYTES, d->handle))
        d->shared = (size_t)bytes;
}

static int same_arch(const struct hip_device *d, const char *arch)
{
    size_t n = strlen(arch);
    return !strncmp(d->arch, arch, n) && (d->arch[n] == 0 || d->arch[n] == ':');
}

static const char entry_mark[] = ".visible .entry ";

/* Finds the kernels of a PTX text, which has some; -1: no memory. */
static int find_entries(struct hip_device *d, const char *text)
{
    const size_t mark = sizeof entry_mark - 1;
    const char *end = text + strlen(text), *p = text;
    int room = 0, n = 0;
    free(d->entry);
    d->entry = NULL;
    do {
        p = memmem(p, (size_t)(end - p), entry_mark, mark);
        if (n == room) {
            room = room ? 2 * room : 512;
            const char **more = realloc(d->entry, (size_t)room * sizeof *more);
            if (!more) return -1;
            d->entry = more;
        }
        d->entry[n++] = p ? p : end;
    } while (p++);
    d->n_entries = n - 1;
    return 0;
}

/* A PTX text of one kernel, to be freed: what stands ahead of all of them, and this one; NULL: no
 * memory. */
static char *text_of_entry(const struct hip_device *d, const char *text, int i)
{
    size_t head = (size_t)(d->entry[0] - text), n = (size_t)(d->entry[i + 1] - d->entry[i]);
    char *one = malloc(head + n + 1);
    if (!one) return NULL;
    memcpy(one, text, head);
    memcpy(one + head, d->entry[i], n);
    one[head + n] = 0;
    return one;
}

/* Loads an image; of PTX the first kernel, which says whether the device accepts it. Returns
 * whether it does; e: no memory. */
static int load_image(struct hip_device *d, const struct hip_image *m, const char *object,
                      struct err *e)
{
    void *module;
    if (!m->is_ptx) return !d->library->api.module_load(&d->module, object);
    if (find_entries(d, object)) return err_memory(e), 0;
    char *one = text_of_entry(d, object, 0);
    if (!one) return err_memory(e), 0;
    int code = d->library->api.module_load(&module, one);
    free(one);
    if (code) return 0;
    d->library->api.module_unload(module);
    d->text = object;
    return 1;
}

/* Tries the image of the device's own name first, then all others, because a chip may accept code
 * of a related one. */
static void choose_image(struct hip_device *d)
{
    for (int pass = 0; pass < 2; pass++)
        for (const struct hip_image *m = hip_images; m->arch; m++) {
            if (m->is_ptx != d->library->is_cuda || (pass == 0) != same_arch(d, m->arch)) continue;
            struct err e = {0};
            char *object = hip_image_unpack(m, &e);
            if (object && load_image(d, m, object, &e)) {
                d->image = m->arch;
                d->object = object;
                return;
            }
            free(object);
            if (!e.msg[0]) continue;
            snprintf(d->why, sizeof d->why, "%.*s", (int)sizeof d->why - 1, e.msg);
            return;
        }
}

/* Compiles the embedded source if no image fits. */
static void compile_image(struct hip_device *d, int seconds)
{
    struct err e;
    void *object;
    if (d->library->is_cuda) return;
    if (hip_compile(d->library->path, d->arch, seconds, &object, &e)) {
        snprintf(d->why, sizeof d->why, "%.*s", (int)sizeof d->why - 1, e.msg);
        return;
    }
    int code = d->library->api.module_load(&d->module, object);
    if (code) {
        char text[160];
        snprintf(d->why, sizeof d->why, "what it compiles does not load: %s",
                 hip_error_text(d->library, code, text, sizeof text));
        free(object);
        return;
    }
    d->image = d->arch;
    d->object = object;
}

static int device_open(struct hip_device **device, const struct hip_library *l, int ordinal,
                       int compile_seconds, struct err *e)
{
    int n, code;
    for (struct hip_device *d = devices; d; d = d->next)
        if (d->library == l && d->ordinal == ordinal) {
            *device = d;
            if (!d->image && !d->why[0] && compile_seconds) compile_image(d, compile_seconds);
            return hip_device_use(d, e);
        }
    if (hip_device_count(l, &n, e)) return -1;
    if (!n) return err_set(e, "%s: there is no device", l->path);
    if (ordinal >= n)
        return err_set(e, "--device %d: there %s %d (0 is the first)", ordinal,
                       n == 1 ? "is" : "are", n);
    struct hip_device *d = calloc(1, sizeof *d);
    if (!d) return err_memory(e);
    d->library = l;
    d->ordinal = ordinal;
    pthread_mutex_init(&d->lock, NULL);
    if ((code = l->api.device_get(&d->handle, ordinal)) ||
        (code = l->api.device_name(d->name, sizeof d->name, d->handle)) ||
        (code = l->api.device_memory(&d->memory, d->handle)) ||
        (l->is_cuda && (code = l->api.cuda_context(&d->context, d->handle)))) {
        failed(l, code, "cannot ask the device", e);
        free(d);
        return -1;
    }
    if (hip_device_use(d, e)) {
        free(d);
        return -1;
    }
    find_arch(d);
    find_shared(d);
    choose_image(d);
    if (!d->image && !d->why[0] && compile_seconds) compile_image(d, compile_seconds);
    d->next = devices;
    *device = devices = d;
    return 0;
}

int hip_device_open(struct hip_device **device, const struct hip_library *l, int ordinal,
                    int compile_seconds, struct err *e)
{
    pthread_mutex_lock(&lists);
    int rc = device_open(device, l, ordinal, compile_seconds, e);
    pthread_mutex_unlock(&lists);
    return rc;
}

/* The module of a kernel of PTX. */
static int load_entry(const struct hip_device *d, const char *name, void **module, struct err *e)
{
    const size_t mark = sizeof entry_mark - 1, n = strlen(name);
    int i = 0;
    while (i < d->n_entries &&
           (strncmp(d->entry[i] + mark, name, n) || d->entry[i][mark + n] != '('))
        i++;
    if (i == d->n_entries) return err_set(e, "%s: is not among the kernels of %s", name, d->image);
    char *one = text_of_entry(d, d->text, i);
    if (!one) return err_memory(e);
    int code = d->library->api.module_load(module, one);
    free(one);
    return code ? failed(d->library, code, name, e) : 0;
}

static int find_function(struct hip_device *d, const char *name, void **function, struct err *e)
{
    for (const struct hip_function *f = d->functions; f; f = f->next)
        if (!strcmp(f->name, name)) {
            *function = f->function;
            return 0;
        }
    struct hip_function *f = calloc(1, sizeof *f);
    if (!f) return err_memory(e);
    *f = (struct hip_function){name, d->module, NULL, d->functions};
    if (!f->module && load_entry(d, name, &f->module, e)) {
        free(f);
        return -1;
    }
    int code = d->library->api.function(&f->function, f->module, name);
    if (code) {
        if (!d->module) d->library->api.module_unload(f->module);
        free(f);
        return failed(d->library, code, name, e);
    }
    *function = f->function;
    d->functions = f;
    return 0;
}

int hip_device_function(struct hip_device *d, const char *name, void **function, struct err *e)
{
    pthread_mutex_lock(&d->lock);
    int rc = find_function(d, name, function, e);
    pthread_mutex_unlock(&d->lock);
    return rc;
}
