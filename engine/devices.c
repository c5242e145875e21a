#include "engine/devices.h"

#include "engine/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_names[] = {"auto", "tensor", "layers", "data"};

int parallel_read(const char *name, enum parallel *mode, struct err *e)
{
    for (int i = PARALLEL_AUTO; i <= PARALLEL_DATA; i++)
        if (!strcmp(name ? name : "auto", mode_names[i])) {
            *mode = (enum parallel)i;
            return 0;
        }
    return err_set(e, "there is no way %s to share work: tensor, layers, data or auto", name);
}

const char *parallel_name(enum parallel mode) { return mode_names[mode]; }

int devices_are_alike(const char *act, const char *first, const char *other, struct err *e)
{
    return strcmp(first, other)
               ? err_set(e,
                         "--devices: in --act %s answers depend on the card, and these are "
                         "different: %s, %s (--same-bits makes all alike)",
                         act, first, other)
               : 0;
}

static int add(int device[ENGINE_DEVICES], int *n, long number, struct err *e)
{
    for (int i = 0; i < *n; i++)
        if (device[i] == number) return err_set(e, "%ld is named twice", number);
    if (*n == ENGINE_DEVICES) return err_set(e, "more than %d devices", ENGINE_DEVICES);
    device[(*n)++] = (int)number;
    return 0;
}

int devices_read(const char *text, int device[ENGINE_DEVICES], int *n, struct err *e)
{
    *n = 0;
    if (!strcmp(text, "all")) return 0;
    if (!*text) return err_set(e, "no device is given");
    for (const char *at = text;; at++) {
        char *end;
        if (*at < '0' || *at > '9') return err_set(e, "not a list of numbers (0,1) nor all");
        long number = strtol(at, &end, 10);
        if (number > 1023) return err_set(e, "there is no device with so large a number");
        if (add(device, n, number, e)) return -1;
        at = end;
        if (!*at) return 0;
        if (*at != ',') return err_set(e, "not a list of numbers (0,1) nor all");
    }
}

/* Whether somebody has chosen the cards that this process sees. */
static int are_chosen(void)
{
    return getenv("CUDA_VISIBLE_DEVICES") || getenv("ROCR_VISIBLE_DEVICES") ||
           getenv("HIP_VISIBLE_DEVICES");
}

static void say(const struct engine_options *o, int n_there)
{
    char line[160];
    int n = snprintf(line, sizeof line, "note: process %d of %d on this machine takes GPU%s",
                     o->local_rank + 1, o->n_local, o->n_devices > 1 ? "s" : "");
    for (int i = 0; i < o->n_devices; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %d", i ? "," : "", o->device_at[i]);
    if (o->n_local > n_there)
        snprintf(line + n, sizeof line - (size_t)n, ", as others do: there %s %d",
                 n_there == 1 ? "is" : "are", n_there);
    if (o->n_local > 1 && (n_there > 1 || o->n_local > n_there)) engine_note(o, "%s", line);
}

/* All cards that are there, of several processes on the machine its share of them. */
static void take_all(struct engine_options *o, int n_there)
{
    const int shares = o->n_local > 1 && !are_chosen();
    int first = shares ? o->local_rank * n_there / o->n_local : 0,
        end = shares ? (o->local_rank + 1) * n_there / o->n_local : n_there;
    if (first == end) end = (first = o->local_rank % n_there) + 1;
    for (int i = first; i < end; i++) o->device_at[o->n_devices++] = i;
    if (shares) say(o, n_there);
}

/* Without --devices: --device, or of several processes on the machine each the next one. */
static int settle_one(struct engine_options *o, const struct backend_entry *b, struct err *e)
{
    int n_there;
    o->n_devices = 1;
    o->device_at[0] = o->device;
    if (o->n_local < 2 || !b->count_devices) return 0;
    if (b->count_devices(o->hip_library, &n_there, e)) return -1;
    if (n_there > 0) o->device = o->device_at[0] = o->local_rank % n_there;
    say(o, n_there);
    return 0;
}

int devices_settle(struct engine_options *o, struct err *e)
{
    const struct backend_entry *b = backend_find(o->backend);
    int n_there;
    if (!o->devices) return settle_one(o, b, e);
    if (!b->count_devices) return err_set(e, "--devices: --backend %s has no devices", o->backend);
    if (devices_read(o->devices, o->device_at, &o->n_devices, e))
        return err_prefix(e, "--devices %s", o->devices);
    if (o->survey && o->gpu_memory && o->n_devices) return o->device = o->device_at[0], 0;
    if (b->count_devices(o->hip_library, &n_there, e)) return -1;
    if (!n_there) return err_set(e, "--devices %s: there is no device", o->devices);
    if (!o->n_devices && n_there > ENGINE_DEVICES)
        return err_set(e, "--devices all: there are %d; up to %d are supported", n_there,
                       ENGINE_DEVICES);
    if (!o->n_devices) take_all(o, n_there);
    for (int i = 0; i < o->n_devices; i++)
        if (o->device_at[i] >= n_there)
            return err_set(e, "--devices %s: there %s %d (0 is the first)", o->devices,
                           n_there == 1 ? "is" : "are", n_there);
    o->device = o->device_at[0];
    return 0;
}
