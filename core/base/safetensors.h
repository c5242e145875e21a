/* safetensors.h: reader of a safetensors file's header (https://github.com/huggingface/safetensors,
 * "Format"), for Hugging Face shards and our model files. Owns: the rules of the container. After
 * st_open every offset, size and shape is known to lie inside the file and not to overflow. Must
 * not know: what a tensor means. */
#ifndef CORE_SAFETENSORS_H
#define CORE_SAFETENSORS_H

#include "core/base/dtype.h"
#include "core/base/err.h"

#include <jansson.h>
#include <stdint.h>

enum { ST_MAX_DIMS = 6 };

struct st_tensor {
    const char *name; /* owned by the st_file */
    enum dtype dtype;
    int n_dims;
    int64_t shape[ST_MAX_DIMS]; /* [n_dims], all >= 0 */
    uint64_t offset, bytes;     /* bytes from the beginning of the file; length in bytes */
};

struct st_file {
    char *path;
    int fd; /* open for reading until st_close */
    uint64_t file_bytes;
    json_t *header;            /* the parsed header; owns the names */
    const json_t *metadata;    /* __metadata__ (an object of strings) or NULL */
    struct st_tensor *tensors; /* [n_tensors], sorted by name */
    size_t n_tensors;
    /* What st_read does where the tensors' bytes are made as they are read; NULL: those of the
     * file.
     */
    int (*read)(const void *self, void *dst, uint64_t offset, uint64_t bytes, struct err *e);
    const void *self;
};

/* Opens PATH, reads and checks its header. On failure nothing stays open and the message names file
 * and tensor. */
int st_open(struct st_file *s, const char *path, struct err *e);
void st_close(struct st_file *s);
/* The tensor of that name, or NULL. */
const struct st_tensor *st_find(const struct st_file *s, const char *name);
/* The string under KEY of __metadata__, or NULL. */
const char *st_meta(const struct st_file *s, const char *key);
/* "F16", "I32", ...: the format's spelling. */
const char *st_dtype_name(enum dtype t);
/* Reads BYTES at OFFSET of the file into dst; an early end of file is an error. Thread-safe. */
int st_read(const struct st_file *s, void *dst, uint64_t offset, uint64_t bytes, struct err *e);

#endif
