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

#endif
