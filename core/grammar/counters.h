/* counters.h: how many of what is counted may still follow a node of a net, so that a way that
 * could not end with a number in the bounds of its counter is not begun. Owns: the counters of a
 * net. Must not know: expressions, what is counted. */
#ifndef CORE_COUNTERS_H
#define CORE_COUNTERS_H

#include "core/base/err.h"
#include "core/grammar/net.h"

struct counters;

/* A new one of *c, which is made if it is NULL; returns its number, or -1. */
int counters_add(struct counters **c, uint32_t rule, int min, int max, struct err *e);
void counters_close(struct counters *c);
uint32_t counters_n(const struct counters *c);

/* The nodes of a net. NET_COUNT and NET_CHECK have the numbers of their counters, and receive those
 * of their places. */
struct counters_net {
    struct net_node *node; /* [n_nodes] */
    const uint32_t *start; /* of each rule */
    const uint32_t (*set)[8];
    uint32_t n_nodes;
};
int counters_measure(struct counters *c, const struct counters_net *net, struct err *e);
/* 1: no text of *rule has a number within the bounds of counter I. */
int counters_is_empty(const struct counters *c, uint32_t i, uint32_t *rule);
/* As net_goes_on and net_is_long. */
int counters_go_on(const struct counters *c, uint32_t place, int is_check, uint64_t *count);
int counters_is_long(const struct counters *c, uint32_t counter, uint64_t count);

#endif
