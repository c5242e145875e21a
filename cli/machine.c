#include "cli/machine.h"

#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"

#include <string.h>

static int wants_cpu(const struct options *o)
{
    return strcmp(o->cpu, "auto") || o->threads || !strcmp(o->act, "i16") || !strcmp(o->act, "int8");
}

static int wants_gpu(const struct options *o)
{
    return strcmp(o->variant, "auto") || o->hip_library || o->device || !strcmp(o->act, "f16");
}

const struct backend *machine_choose(const struct options *o, struct forward_options *f, struct err *e)
{
    struct err why;
    int hip = !strcmp(o->backend, "hip");
    if (!strcmp(o->backend, "auto")) hip = wants_gpu(o) || (!wants_cpu(o) && !hip_probe(o->hip_library, o->device, &why));
    if (!hip && !strcmp(o->act, "f16")) {
        err_set(e, "--act f16: only the backend hip has it");
        return NULL;
    }
    f->variant = hip ? o->variant : o->cpu;
    f->n_threads = o->threads;
    f->library = o->hip_library;
    f->device = o->device;
    f->act = !strcmp(o->act, "i16")                                     ? ACT_I16
             : !strcmp(o->act, "int8")                                  ? ACT_INT8
             : !strcmp(o->act, "f16") || (hip && strcmp(o->act, "f32")) ? ACT_F16
                                                                        : ACT_F32;
    f->kv = strcmp(o->kv, "f32") ? KV_F16 : KV_F32;
    return hip ? &backend_hip : &backend_cpu;
}
