/* safetensors.h: the header of a safetensors file, checked. Owns: the rules of the container
 * (https://github.com/huggingface/safetensors, "Format"). After st_open every offset, size and
 * shape in the directory is known to lie inside the file and to fit. Must not know: what any tensor
 * means. Used for Hugging Face shards and for our own model files. */
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
    uint64_t offset, bytes;     /* position in the file (not in the data section) and length */
};

struct st_file {
    char *path;
    int fd; /* open for reading until st_close */
    uint64_t file_bytes;
    json_t *header;            /* the parsed header; owns the names */
    const json_t *metadata;    /* __metadata__ (an object of strings) or NULL */
    struct st_tensor *tensors; /* [n_tensors], sorted by name */
    size_t n_tensors;
};

/* Reads and checks the header of PATH. On failure nothing stays open and the message names file and
 * tensor. */
int st_open(struct st_file *s, const char *path, struct err *e);
void st_close(struct st_file *s);
/* The tensor of that name, or NULL. */
const struct st_tensor *st_find(const struct st_file *s, const char *name);
/* The string under KEY of __metadata__, or NULL. */
const char *st_meta(const struct st_file *s, const char *key);
/* "F16", "I32", ... as the format spells them. */
const char *st_dtype_name(enum dtype t);
/* Reads BYTES at OFFSET completely; an early end of file is an error. Thread-safe. */
int st_read(const struct st_file *s, void *dst, uint64_t offset, uint64_t bytes, struct err *e);

#endif
