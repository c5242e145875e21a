/* gguf_checkpoint.h: a GGUF file seen as a checkpoint directory of Hugging Face. Owns: the names
 * and layouts that llama.cpp's converter gave tensors, keys and tokens, and what they were before.
 * Must not know: how a checkpoint is converted.
 * Linears of Q4_0, Q5_0, Q8_0, Q4_1 and Q4_K are seen as codes of compressed-tensors, in groups of
 * 32, the latter two with a tensor more, weight_least [out][groups]; all else as numbers, fp32
 * where fp16 does not hold them. */
#ifndef CONVERT_GGUF_CHECKPOINT_H
#define CONVERT_GGUF_CHECKPOINT_H

#include "convert/gguf.h"
#include "core/base/safetensors.h"

struct gguf_view;

/* One of the small files. */
struct gguf_text {
    const char *name;
    char *data; /* [n], NUL-terminated */
    size_t n;
};

enum { GGUF_TEXTS = 5 };

struct gguf_checkpoint {
    struct gguf file;
    const struct gguf_arch *arch;
    struct gguf_text text[GGUF_TEXTS]; /* [n_texts] */
    int n_texts, as_numbers;
    struct st_file shard;
    struct gguf_view *views;           /* [shard.n_tensors] in the order of the offsets */
    int n_wide;                        /* linears of layers, in blocks, that are seen as fp32 */
    const struct gguf_tensor *k_quant; /* the first of them with blocks of 256 numbers, or NULL */
};

/* What an architecture of GGUF is called in Hugging Face's configurations. */
struct gguf_arch {
    const char *name, *model_type, *class;
    int turns;  /* rows of q and k are pairs of RoPE side by side */
    int plus_1; /* norms are stored plus one */
    int gemma;  /* 2, 3: norms and windows of that generation; 0: none of them */
};

/* as_numbers: linears are numbers whatever their type. */
int gguf_checkpoint_open(struct gguf_checkpoint *k, const char *path, int as_numbers,
                         struct err *e);
void gguf_checkpoint_close(struct gguf_checkpoint *k);
/* The small file of that name, or NULL. */
const struct gguf_text *gguf_checkpoint_text(const struct gguf_checkpoint *k, const char *name);

/* For gguf_*.c. */
/* A number of the keys: NAME, or ARCH.NAME where it begins with a dot; `fallback` where it is
 * missing. */
int gguf_integer(const struct gguf_checkpoint *k, const char *name, int64_t fallback, int64_t *x,
                 struct err *e);
int gguf_real(const struct gguf_checkpoint *k, const char *name, double fallback, double *x,
              struct err *e);
const json_t *gguf_key(const struct gguf_checkpoint *k, const char *name);
/* Adds a small file, DATA [n, and a NUL behind], which it takes over; the other one of J. */
void gguf_add_text(struct gguf_checkpoint *k, const char *name, char *data, size_t n);
int gguf_add_json(struct gguf_checkpoint *k, const char *name, json_t *j, struct err *e);
int gguf_config(struct gguf_checkpoint *k, struct err *e);    /* config.json */
int gguf_tokenizer(struct gguf_checkpoint *k, struct err *e); /* the tokenizer's files */
int gguf_views(struct gguf_checkpoint *k, struct err *e);
/* Whether the linear is seen as codes. */
int gguf_is_coded(const struct gguf_checkpoint *k, const struct gguf_tensor *t);
/* The name in the checkpoint, ROOM [320]. */
int gguf_name(const struct gguf_checkpoint *k, const char *name, char *room, struct err *e);

#endif
