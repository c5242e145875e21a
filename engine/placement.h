/* placement.h: which backend computes what: one of them all, a GPU and the CPU some layers each, or
 * several GPUs shares of every layer or some layers each (core/step/split.h). Owns: the places of a
 * run and the lists of layers that its split refers to. Must not know: how many pages of keys and
 * values there are, schedulers. */
#ifndef ENGINE_PLACEMENT_H
#define ENGINE_PLACEMENT_H

#include "core/model/model.h"
#include "core/run/forward.h"
#include "core/step/split.h"
#include "engine/backends.h"
#include "engine/devices.h"

/* Place 0 has the embedding, the head and all results. */
struct placement {
    int n; /* places; 1: the backend alone, by forward_open */
    const struct backend_entry *entry[PLACES];
    struct forward_place place[PLACES];
    struct split_want want;           /* of several */
    struct forward_need need[PLACES]; /* what each takes of its memory */
    uint8_t *lists;                   /* of want */
    int has_store;                    /* prompts are kept on disk */
    int n_layers;
    int has_gpus;                    /* all places are GPUs */
    int may_stream;                  /* experts may come to the GPU (core/run/streams.h) */
    int n_gpu_layers, n_gpu_experts; /* layers on place 0; those of them whose experts are there */
    int n_experts;                   /* layers with experts */
};

/* What the model may take. */
struct placement_room {
    uint64_t bytes;              /* of the backend; 0: unknown */
    int least_pages, most_pages; /* of keys and values that a run needs, and can fill */
    int n_states;
};

/* Whether options of placement contradict one another or the backend, or are no values; names of
 * options in errors are those of the command line. */
int placement_check(const struct engine_options *o, struct err *e);
/* What the options ask for, before a backend is chosen: CPU: all on it; GPU: one is needed. */
enum placement_asks { PLACEMENT_NOTHING, PLACEMENT_CPU, PLACEMENT_GPU };
enum placement_asks placement_asks(const struct engine_options *o);
/* --gpu-memory; 0: not given. */
uint64_t placement_gpu_memory(const struct engine_options *o);

/* Of a settled backend and its options F. Where nothing is asked for and all fits ROOM, and where
 * nothing less fits either, the backend computes all. */
int placement_open(struct placement *p, const struct engine_options *o, const struct model *m,
                   const struct backend_entry *entry, const struct forward_options *f,
                   const struct placement_room *room, struct err *e);
/* Of two places, whose lists there are: the last N layers are on the GPU, and of those with experts
 * the experts of the last K. */
void placement_set(struct placement *p, const struct model *m, int n, int k);
/* Several GPUs, those of the options, by tensor or by layers. */
int placement_open_gpus(struct placement *p, const struct engine_options *o, const struct model *m,
                        const struct backend_entry *entry, const struct forward_options *f,
                        enum parallel mode, struct err *e);
/* First layers of n places that read about as many bytes for a step each, the head's beside those
 * of place 0 by half. n: at most the layers of the model. */
int placement_share_layers(const struct model *m, int n, int first_layer[PLACES], struct err *e);
/* Whether the GPUs of the options would compute a single row sooner by tensor than the first of
 * them alone, which has room for the model. */
int placement_gains(const struct placement *p, const struct engine_options *o);
/* Whether the first place has room for what it takes with the fewest pages. */
int placement_fits(const struct placement *p, const struct placement_room *room);
/* A GPU that computes all becomes two places, of which placement_set may give the CPU some. */
int placement_add_host(struct placement *p, const struct engine_options *o, const struct model *m,
                       struct err *e);
void placement_close(struct placement *p);
/* Fills p->need again, for other options F of a step. */
int placement_need(struct placement *p, const struct model *m, const struct forward_options *f,
                   struct err *e);

int placement_open_forward(const struct placement *p, struct forward *f, const struct model *m,
                           const struct forward_options *o, struct err *e);
/* Whether the sums of all places are exact: then bytes do not depend on the placement. */
int placement_is_exact(const struct placement *p);
/* A row's bits depend on its phase. */
int placement_has_phases(const struct placement *p);
/* Names what sums depend on, and which layers are where: out [cap]. */
void placement_identify(const struct placement *p, const struct forward *f, char *out, size_t cap);
/* Lines about the open backends, one behind the other: out [cap]. */
void placement_describe(const struct forward *f, char *out, size_t cap);

#endif
