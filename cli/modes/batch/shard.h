/* shard.h: which records are this process's, when several share one input file: every n-th, from
 * the i-th on. The ranks of Slurm and MPI are read from the launcher's environment, for this only,
 * and only when asked ("auto"). */
#ifndef CLI_MODES_BATCH_SHARD_H
#define CLI_MODES_BATCH_SHARD_H

#include "core/base/err.h"

#include <stdint.h>

struct shard {
    uint64_t i, n; /* 0 <= i < n; n 1: not sharded */
};

/* TEXT: NULL (all), "i/n" with i from 0, or "auto". */
int shard_parse(struct shard *s, const char *text, struct err *e);
/* Which of the processes on this machine this one is, as its launcher counts them: 0 <= i < n; n is
 * i + 1 where it does not say how many there are, {0, 1} where it says nothing. */
struct shard shard_local(void);
/* Records of N_RECORDS that are this shard's. */
uint64_t shard_count(const struct shard *s, uint64_t n_records);

#endif
