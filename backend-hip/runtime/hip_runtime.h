/* hip_runtime.h: libraries, devices, code objects and launches. Owns: what is open in this process
 * (a library and a device stay open until it ends). Must not know: tensors. */
#ifndef BACKEND_HIP_HIP_RUNTIME_H
#define BACKEND_HIP_HIP_RUNTIME_H

#include "backend-hip/runtime/hip_api.h"
#include "backend-hip/runtime/hip_images.h"
#include "core/base/err.h"

#include <pthread.h>

struct hip_library {
    char path[256];
    struct hip_api api;
    int is_cuda;
    struct hip_library *next;
};

struct hip_device {
    const struct hip_library *library;
    int ordinal, handle;
    char name[128], arch[64];
    size_t memory;
    const char *image; /* architecture of the image in use, or of what was compiled here; NULL: none
                        */
    char why[400];     /* no image fits: why compiling failed; else "" */
    size_t shared;     /* most shared memory of a block that a kernel may ask for; 0: not known */
    void *module;      /* of a code object; PTX has one for each kernel that is used */
    void *object;      /* the image: stays allocated, because some runtimes read it later */
    const char *text;   /* of PTX, NULL: the image is a code object */
    const char **entry; /* where its kernels begin, [n_entries], and its end */
    int n_entries;
    struct hip_function *functions; /* found so far */
    void *context;                  /* CUDA's; NULL: not used yet */
    pthread_mutex_t lock;           /* of functions */
    int hung;                       /* given up: gets no further calls */
    struct hip_device *next;
};

/* Opens PATH, or the first of the known names that can be opened and has all entry points. */
int hip_library_open(const struct hip_library **library, const char *path, struct err *e);
int hip_device_count(const struct hip_library *l, int *n, struct err *e);
/* Opens device `ordinal` with the first embedded image that it accepts, or with the embedded source
 * compiled for it within so many seconds (0: not tried). Every caller gets the same object. That no
 * image fits is no error here. */
int hip_device_open(struct hip_device **device, const struct hip_library *l, int ordinal,
                    int compile_seconds, struct err *e);
/* Makes the device current for this thread; costs nothing where it is. */
int hip_device_use(const struct hip_device *d, struct err *e);
/* One kernel of the device's image. NVIDIA's driver compiles it when it is first asked for: all of
 * an image take most of a minute, those of a run some seconds. */
int hip_device_function(struct hip_device *d, const char *name, void **function, struct err *e);
/* The text of a runtime's error code, or its number. */
const char *hip_error_text(const struct hip_library *l, int code, char *buffer, size_t bytes);

#endif
