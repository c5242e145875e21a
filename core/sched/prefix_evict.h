/* prefix_evict.h: the files of a store (prefix_store.h) as a directory lists them, and which of
 * them go first. Owns: the form of their names. Must not know: what they hold. */
#ifndef CORE_PREFIX_EVICT_H
#define CORE_PREFIX_EVICT_H

#include "core/sched/prefix_store.h"

enum { PREFIX_NAME = 64 };

/* The file name of an item. */
void prefix_name(char name[PREFIX_NAME], const struct prefix_item *item);
/* A name under which one file is written, that no other process takes. */
void prefix_new_name(char name[PREFIX_NAME], uint64_t random);
/* Bytes of a file as the bound counts them. */
uint64_t prefix_file_bytes(uint64_t bytes);
/* Bytes of all files of stores in the directory DIR_FD. Files that a process left half written are
 * removed an hour later. -1: the directory cannot be listed. */
int prefix_measure(int dir_fd, uint64_t *bytes, struct err *e);
/* Removes the files that were not used for the longest time until the rest takes at most MOST, or,
 * with a NEWCOMER that is to be written (NULL: none), until only those are left that stand in front
 * of it, without which nobody would find it (1). *bytes receives what is left. -1: as above, or
 * memory is short. */
int prefix_evict(int dir_fd, uint64_t most, const struct prefix_item *newcomer, uint64_t *bytes,
                 uint64_t *n_evicted, struct err *e);

#endif
