#include "cli/machine.h"

#include "backend-cpu/cpu.h"
#include "backend-hip/hip.h"
#include "core/base/pool.h"

#include <stdio.h>
#include <string.h>

static int wants_cpu(const struct options *o)
{
    return strcmp(o->cpu, "auto") || o->threads || !strcmp(o->act, "i16") ||
           !strcmp(o->act, "int8");
}

static int wants_gpu(const struct options *o)
{
    return strcmp(o->variant, "auto") || o->hip_library || o->device;
}

void machine_settle(struct options *o)
{
    struct err why;
    if (!strcmp(o->backend, "auto"))
        o->backend = wants_gpu(o) || (!wants_cpu(o) && !hip_probe(NULL, 0, &why)) ? "hip" : "cpu";
    const int gpu = !strcmp(o->backend, "hip");
    if (o->n_batch == OPT_UNSET) o->n_batch = gpu ? 2048 : 512;
    if (o->n_seqs == OPT_UNSET) o->n_seqs = gpu ? 256 : 16;
    if (!strcmp(o->act, "auto")) o->act = gpu ? "f16" : "i16";
    int processors = pool_n_processors();
    if (o->threads > processors) {
        /* a thread that is put to sleep within a task holds up all others: 4 on 2 processors lose a
         * quarter */
        fprintf(stderr, "note: -t %d: this process may use %d processor%s, so as many threads\n",
                o->threads, processors, processors == 1 ? "" : "s");
        o->threads = processors;
    }
}

const struct backend *machine_backend(const struct options *o)
{
    return strcmp(o->backend, "hip") ? &backend_cpu : &backend_hip;
}

void machine_say(const struct options *o, const struct be *be)
{
    if (o->verbose && be->ops == &backend_hip) hip_print_variants(be, stderr);
}

struct forward_options machine_forward(const struct options *o)
{
    static const char *const names[] = {
        [ACT_F32] = "f32", [ACT_F16] = "f16", [ACT_I16] = "i16", [ACT_INT8] = "int8"};
    struct forward_options f = {
        .variant = strcmp(o->backend, "hip") ? o->cpu : o->variant,
        .n_threads = o->threads,
        .library = o->hip_library,
        .device = o->device,
        .wait_seconds = o->gpu_timeout,
        .kv = strcmp(o->kv, "f32") ? KV_F16 : KV_F32,
    };
    while (strcmp(o->act, names[f.act])) f.act++;
    return f;
}
