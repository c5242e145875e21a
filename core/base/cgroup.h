/* cgroup.h: the limits that the control group of this process (Slurm, a container, systemd) sets,
 * for cgroup versions 1 and 2. The arguments are CGROUP_SELF and CGROUP_MOUNT except in tests. */
#ifndef CORE_CGROUP_H
#define CORE_CGROUP_H

#include <stdint.h>

#define CGROUP_SELF "/proc/self/cgroup"
#define CGROUP_MOUNT "/sys/fs/cgroup"

/* Processor time per wall time that the group and its ancestors allow; 0: no limit. */
double cgroup_cpus(const char *self, const char *mount);
/* Bytes of memory that the group and its ancestors still allow; UINT64_MAX: no limit. */
uint64_t cgroup_memory_left(const char *self, const char *mount);

#endif
