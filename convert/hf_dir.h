/* hf_dir.h: a Hugging Face checkpoint directory, or a GGUF file in its place: its small files, its
 * shards, its tensors by name. Owns: the choice of the safetensors files that belong to the
 * checkpoint, and their open headers. Must not know: what a tensor or a setting means. */
#ifndef CONVERT_HF_DIR_H
#define CONVERT_HF_DIR_H

#include "convert/notes.h"
#include "core/base/safetensors.h"

struct hf_tensor {
    const struct st_file *shard;
    const struct st_tensor *t; /* t->name is the name in the checkpoint */
};

struct hf_dir {
    char *path;
    struct st_file *shards;    /* [n_shards] */
    char **shard_names;        /* [n_shards] relative to path */
    struct hf_tensor *tensors; /* [n_tensors] sorted by name, unique */
    size_t n_shards, n_tensors;
    struct gguf_checkpoint *gguf; /* the GGUF file, or NULL */
};

/* Checks that PATH is a directory, or opens the GGUF file; opens no shard. as_numbers: linears of a
 * GGUF file are numbers whatever their type. */
int hfd_open(struct hf_dir *d, const char *path, int as_numbers, struct err *e);
/* Finds and opens the shards. BASE: model_file_base_name of the quantization config, or NULL. */
int hfd_open_shards(struct hf_dir *d, const char *base, struct err *e);
void hfd_close(struct hf_dir *d);

/* Parses NAME, which must hold a JSON object; *j = NULL: there is no such file. The caller owns *j.
 */
int hfd_json(const struct hf_dir *d, const char *name, json_t **j, struct err *e);
/* Reads NAME; *data = NULL: there is no such file. The caller frees *data (NUL-terminated, *n
 * bytes). */
int hfd_file(const struct hf_dir *d, const char *name, char **data, size_t *n, struct err *e);
/* The tensor of that name, or NULL. */
const struct hf_tensor *hfd_find(const struct hf_dir *d, const char *name);

#endif
