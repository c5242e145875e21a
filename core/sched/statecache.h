/* statecache.h: allocator of state slots (core/step/op.h, states) with snapshots. Owns: slot
 * numbers, their reference counts, and the map from a prefix of tokens to the snapshot of its
 * states. Must not know: sequences, pages, device memory.
 *
 * A snapshot is a published slot: the states after a prefix, which no step writes again. The prefix
 * is named by the serial of its last KV page (kvcache.h); serials are never reused. A slot without
 * references is free; a snapshot without references keeps its contents until its slot is taken
 * again, the least recently used first. */
#ifndef CORE_STATECACHE_H
#define CORE_STATECACHE_H

#include "core/base/err.h"

#include <stdint.h>

struct state_slot {
    int32_t n_refs;
    int32_t prev, next; /* list of slots without references */
    int32_t chain;      /* next slot of the same bucket, -1: none */
    uint64_t serial;    /* 0: no snapshot */
};

struct states {
    int n_slots, n_used;     /* n_used: slots with references */
    int32_t n_buckets;       /* a power of two */
    int32_t first, last;     /* slots without references; first is taken next */
    struct state_slot *slot; /* [n_slots] */
    int32_t *bucket;         /* [n_buckets] first slot, -1: none */
};

/* n_slots may be 0: a model without states. */
int states_open(struct states *s, int n_slots, struct err *e);
void states_close(struct states *s);
/* Slots that states_take can give. */
int states_n_free(const struct states *s);
/* Takes a slot for new contents, with one reference; -1: none is free. */
int32_t states_take(struct states *s);
/* Drops one reference. */
void states_release(struct states *s, int32_t slot);
/* The snapshot of the prefix with this serial, without a reference; -1: there is none. */
int32_t states_find(const struct states *s, uint64_t serial);
/* Takes a reference to a snapshot that states_find has found. */
void states_hold(struct states *s, int32_t slot);
/* Publishes a slot as the snapshot of a prefix, unless the prefix has one. */
void states_publish(struct states *s, int32_t slot, uint64_t serial);

#endif
