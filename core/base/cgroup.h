/* cgroup.h: what the control group of this process (Slurm, a container, systemd) lets it use,
 * versions 1 and 2. SELF and MOUNT are "/proc/self/cgroup" and "/sys/fs/cgroup" on a real system.
 */
#ifndef CORE_CGROUP_H
#define CORE_CGROUP_H

#include <stdint.h>

#define CGROUP_SELF "/proc/self/cgroup"
#define CGROUP_MOUNT "/sys/fs/cgroup"

/* Processors' worth of time that the group and those above it may use; 0: no limit. */
double cgroup_cpus(const char *self, const char *mount);
/* Bytes of memory that they may still take; UINT64_MAX: no limit. */
uint64_t cgroup_memory_left(const char *self, const char *mount);

#endif
