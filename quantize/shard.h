/* shard.h: a safetensors file that appears complete or not at all. Must not know: what its tensors
 * are. */
#ifndef QUANTIZE_SHARD_H
#define QUANTIZE_SHARD_H

#include "core/base/safetensors.h"

#include <signal.h>
#include <stddef.h>

/* Its bytes are in memory, or in another file. */
struct shard_tensor {
    const char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[ST_MAX_DIMS];
    uint64_t bytes;
    const void *data;           /* or NULL */
    const struct st_file *file; /* from byte `offset` on */
    uint64_t offset;
};

/* Writes PATH through PATH.part. Error: among others, a disk without room, which is found first. */
int shard_write(const char *path, const struct shard_tensor *t, size_t n, json_t *metadata,
                const volatile sig_atomic_t *stop, struct err *e);
/* A whole small file, in the same way. */
int shard_write_text(const char *path, const char *text, size_t n, struct err *e);
/* Until names that were made or changed in a directory are on the medium. */
int shard_sync_dir(const char *dir, struct err *e);

#endif
