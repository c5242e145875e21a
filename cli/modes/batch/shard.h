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
/* Records of N_RECORDS that are this shard's. */
uint64_t shard_count(const struct shard *s, uint64_t n_records);

#endif
