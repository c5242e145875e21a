/* parts.h: the parts of a run's memory that outlive it: pages of keys and values, and slots of
 * states, as rows of bytes on the host and back. A page's bytes are those of all caches one behind
 * the other, a slot's those of all states; of a run on several places those of each place one
 * behind the other. Must not know: whose they are, layouts of backends. */
#ifndef CORE_RUN_PARTS_H
#define CORE_RUN_PARTS_H

#include "core/run/forward.h"

enum part { PART_PAGE, PART_STATES };

/* Bytes of one page or slot. */
size_t part_bytes(const struct forward *f, enum part part);
/* Host memory for part_save; NULL: out of memory. */
void *part_memory(struct forward *f, size_t bytes);
void part_memory_free(struct forward *f, void *memory);
/* Copies page or slot I, as the steps that have begun leave it, to `to`, which is in part_memory.
 * Complete behind the end of the next step that begins, or part_sync; on a backend that is not
 * asynchronous at once. */
void part_save(struct forward *f, enum part part, int i, void *to);
/* Copies it back, behind the steps that have begun and ahead of those that begin; `from` may change
 * afterwards. */
void part_load(struct forward *f, enum part part, int i, const void *from);
/* Waits for all copies. -1: the backend failed, in these or in a step. */
int part_sync(struct forward *f, struct err *e);

#endif
