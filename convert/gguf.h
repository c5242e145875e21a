/* gguf.h: reader of a GGUF file (https://github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3.
 * Owns: the container's rules, the types of blocks and what numbers they hold. After gguf_open
 * every tensor is known to lie inside the file. Must not know: what a key or a tensor means. */
#ifndef CONVERT_GGUF_H
#define CONVERT_GGUF_H

#include "core/base/err.h"

#include <jansson.h>
#include <stdint.h>

/* A type of blocks: `per` numbers in `bytes` bytes. */
struct gguf_type {
    int id, per, bytes;
    const char *name;
    /* Numbers of a block as fp32, y [per]. */
    void (*floats)(const uint8_t *block, float *y);
    /* Codes of a block, q [per], in groups of 32: scale * (q - 2^(bits - 1)), where the scale is
     * the block's first half; or, where there is `pairs`, scale * q + least. */
    void (*codes)(const uint8_t *block, uint8_t *q);
    int bits; /* of codes; 0: there are none */
    /* Scales and least values of a block's groups [per / 32]: halves of blocks of 32 */
    void (*pairs)(const uint8_t *block, float *scale, float *least);
};

struct gguf_tensor {
    const char *name; /* owned by the file */
    const struct gguf_type *type;
    int n_dims;
    int64_t size[4];        /* [n_dims] the first one is a row's */
    uint64_t offset, bytes; /* from the beginning of the file */
};

struct gguf {
    char *path;
    int fd;
    uint64_t file_bytes;
    json_t *keys;                /* key: value; arrays too */
    json_t *names;               /* owns the tensors' names */
    struct gguf_tensor *tensors; /* [n_tensors] */
    size_t n_tensors;
};

int gguf_open(struct gguf *g, const char *path, struct err *e);
void gguf_close(struct gguf *g);
/* Reads BYTES at OFFSET of the file; as st_read(). */
int gguf_read(const struct gguf *g, void *dst, uint64_t offset, uint64_t bytes, struct err *e);
/* The tensor of that name, or NULL. */
const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name);
/* The type of that number, or NULL; its name in messages, also of one that is not read. */
const struct gguf_type *gguf_type(uint32_t id);
const char *gguf_type_name(uint32_t id);

#endif
