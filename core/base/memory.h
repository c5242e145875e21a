/* memory.h: memory that is available to this process, and memory that it uses. */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

#include "core/base/err.h"

#include <stdint.h>

/* Parses "800M", "6G", "1.5G"; a number without a letter is bytes. */
int memory_parse(uint64_t *bytes, const char *text, struct err *e);
/* Available bytes: MemAvailable, or what the control group (Slurm, container) allows if that is
 * less. 0: unknown. */
uint64_t memory_available(void);
/* Largest resident size of this process so far, in bytes. */
uint64_t memory_peak(void);
/* What is left of the address space that this process may have (ulimit -v, RLIMIT_AS) once N_THREADS
 * have their stacks; UINT64_MAX: it has no bound. Files that are mapped already do not count. */
uint64_t memory_space_left(int n_threads);

#endif
