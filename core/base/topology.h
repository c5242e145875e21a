/* topology.h: which processors share a core, as Linux tells. Must not know: threads. */
#ifndef CORE_TOPOLOGY_H
#define CORE_TOPOLOGY_H

#define TOPOLOGY_SYS "/sys"

#ifndef _GNU_SOURCE
#error "sched.h: cpu_set_t"
#endif
#include <sched.h>

/* The numbers of a list of sysfs like "3,19" or "0-1,8"; what is no number ends it. */
void topology_list(cpu_set_t *set, const char *list);
/* Cores that the processors of *set belong to. sys: where sysfs is mounted; a processor of which it
 * says nothing counts as a core. */
int topology_n_cores(const cpu_set_t *set, const char *sys);

#endif
