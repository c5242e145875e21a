/* devices.h: the GPUs of a run, and how they share the work. Must not know: weights, schedulers,
 * command lines. */
#ifndef ENGINE_DEVICES_H
#define ENGINE_DEVICES_H

#include "engine/engine_options.h"
#include "core/base/err.h"

/* Tensor: every card computes its part of each layer. Layers: each has some of the layers. Data:
 * each has all of the model and sequences of its own. */
enum parallel { PARALLEL_AUTO, PARALLEL_TENSOR, PARALLEL_LAYERS, PARALLEL_DATA };

/* The numbers in TEXT ("0,1", "all": n stays 0), each once. -1: it is no such list. */
int devices_read(const char *text, int device[ENGINE_DEVICES], int *n, struct err *e);
/* Fills in o->device_at and o->n_devices from o->devices, or else from o->device, of a settled
 * backend: each is there. */
int devices_settle(struct engine_options *o, struct err *e);
/* The mode with this name; NULL is auto. -1: there is none. */
int parallel_read(const char *name, enum parallel *mode, struct err *e);
const char *parallel_name(enum parallel mode);
/* Where sums are not exact in arithmetic ACT, answers depend on the card: -1 where two that
 * identify themselves so are not of one kind. */
int devices_are_alike(const char *act, const char *first, const char *other, struct err *e);

#endif
