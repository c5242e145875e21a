/* numa.h: memory with several nodes (--numa): which processors each has, threads and pages spread
 * over them. Owns: what sysfs says of nodes, the kernel's memory policies. Must not know: pools,
 * models. */
#ifndef CORE_NUMA_H
#define CORE_NUMA_H

#include "core/base/err.h"
#include "core/base/topology.h"

#include <stddef.h>

enum { NUMA_NODES = 64 };

/* Nodes by rising number; 0 and 1 of them: memory is alike for all processors, nothing below does
 * anything. */
struct numa {
    int n;
    struct numa_node {
        int id;        /* the system's number */
        cpu_set_t set; /* its processors that this process may use; never empty */
    } node[NUMA_NODES];
};

/* Nodes that have processors of *set; none where sysfs, mounted at sys, tells nothing. */
int numa_find(struct numa *m, const cpu_set_t *set, const char *sys, struct err *e);
/* The processors for a thread: each node has a run of threads, in proportion to its processors. */
const cpu_set_t *numa_of(const struct numa *m, int thread, int n_threads);
/* The processors of the node that has this one; NULL: none has it. */
const cpu_set_t *numa_around(const struct numa *m, int processor);
/* What a mode of --numa asks of this process, before its first thread and its memory:
 *  "distribute"  pages of memory and files go to all nodes in turn; *m has the nodes for threads
 *  "isolate"     it keeps to the processors of the node that it runs on; m->n is 0
 *  "numactl", NULL  nothing: numactl has set processors and policy; m->n is 0
 * Says on stderr when there are not two nodes to tell apart. */
int numa_begin(struct numa *m, const char *mode, struct err *e);
/* Brings bytes mapped at p (a multiple of the page size) into memory and to all nodes in turn;
 * pages that other processes map stay where they are. */
int numa_interleave(const struct numa *m, void *p, size_t bytes, struct err *e);

#endif
