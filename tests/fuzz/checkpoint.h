/* checkpoint.h: a checkpoint directory in memory, written with changes. Owns: its small files as
 * JSON, its tensors' headers and bytes. Must not know: what a field or a tensor means. */
#ifndef FUZZ_CHECKPOINT_H
#define FUZZ_CHECKPOINT_H

#include "core/base/safetensors.h"

enum { CHECKPOINT_TEXTS = 12, CHECKPOINT_SHARDS = 4, CHECKPOINT_NAME = 160 };

struct checkpoint_tensor {
    char name[CHECKPOINT_NAME], dtype[24];
    int shard, n_dims, is_dropped;
    int64_t shape[ST_MAX_DIMS]; /* [n_dims] */
    uint64_t offset, bytes;     /* in the shard's data */
    int twin;                   /* the tensor comes twice in the header */
};

struct checkpoint_text {
    char name[64];
    json_t *json;             /* an object */
    const char *key, *value;  /* key of OBJECT with this text as its value, or NULL */
    json_t *object;           /* in json */
    int is_dropped, is_twice; /* the key goes; it comes twice, the second with `value` */
};

struct checkpoint_copy {
    struct checkpoint_text text[CHECKPOINT_TEXTS]; /* [n_texts] */
    int n_texts, n_shards;
    char shard[CHECKPOINT_SHARDS][64];      /* names of files */
    unsigned char *data[CHECKPOINT_SHARDS]; /* [data_bytes] behind the header */
    uint64_t data_bytes[CHECKPOINT_SHARDS];
    struct checkpoint_tensor *tensor; /* [n_tensors] */
    size_t n_tensors;
};

/* Without its expected.safetensors. -1: it cannot be read. */
int checkpoint_load(struct checkpoint_copy *c, const char *dir, struct err *e);
void checkpoint_free(struct checkpoint_copy *c);
/* Writes it into DIR, which exists, over what it has. */
int checkpoint_write(const struct checkpoint_copy *c, const char *dir, struct err *e);
/* Only the small file or the shard with this index. */
int checkpoint_write_text(const struct checkpoint_copy *c, int i, const char *dir, struct err *e);
int checkpoint_write_shard(const struct checkpoint_copy *c, int i, const char *dir, struct err *e);

#endif
