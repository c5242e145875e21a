/* memory.h: how much memory a run may take, and what it takes. */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

#include "core/base/err.h"

#include <stdint.h>

/* "800M", "6G", "1.5G", bytes without a letter. */
int memory_parse(uint64_t *bytes, const char *text, struct err *e);
/* What the machine can still give: MemAvailable, less where a control group (Slurm, container)
 * allows less. 0: unknown. */
uint64_t memory_available(void);
/* Largest resident size of this process so far. */
uint64_t memory_peak(void);

#endif
