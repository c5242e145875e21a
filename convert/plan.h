/* plan.h: what the output will hold and which piece of work makes each part of it. Owns: names,
 * shapes, offsets and sources of every output tensor; the jobs; all checks that can be made before
 * a byte is written. Must not know: threads, files being written. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "convert/hf_config.h"
#include "convert/hf_dir.h"
#include "convert/quant_config.h"
#include "convert/slots.h"
#include "convert/unpack.h"

/* One quantized module of the source. */
struct linear {
    char *module; /* its name in the checkpoint, for messages */
    const struct hf_tensor *qweight, *qzeros, *scales;
    int64_t in, out, n_source; /* n_source: groups in the checkpoint */
    int bits;
    enum unpack_layout layout;
    enum unpack_zeros zeros;
    enum dtype scale_type; /* of our scales */
    const int32_t *order;  /* [out], output i of ours is the checkpoint's order[i]; NULL: i */
    struct slots slots;
    size_t codes_at, scales_at, zeros_at; /* indices of output tensors */
};

struct out_tensor {
    char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[4];
    uint64_t bytes, offset; /* offset in the data section, a multiple of 64 */
    uint32_t *crc;          /* [n_pieces], filled by the jobs */
    uint64_t *crc_bytes;    /* [n_pieces] */
    size_t n_pieces;
};

enum job_kind { JOB_MEMORY, JOB_COPY, JOB_PANELS };
struct job {
    enum job_kind kind;
    size_t tensor, piece;           /* JOB_PANELS: piece of each of the linear's three tensors */
    const void *data;               /* JOB_MEMORY: the whole tensor */
    const struct hf_tensor *source; /* JOB_COPY */
    uint64_t at, bytes;             /* JOB_COPY: this part of the tensor */
    struct linear *linear;          /* JOB_PANELS */
    int64_t panel, n_panels;        /* JOB_PANELS: this slice */
};

/* What was found, for the metadata and for people. */
struct plan_facts {
    int n_quantized, n_plain, n_act_order;
    int n_unordered;   /* modules without g_idx where desc_act says that there is an order */
    int n_label_wrong; /* modules whose zeros contradict checkpoint_format */
    int n_v1, n_v2;    /* how zeros were read */
    int word_plus;     /* v1 zeros of asymmetric modules were read as GPTQModel writes them */
    int n_asymmetric;
    uint64_t
        n_all_ones; /* v1 fields of asymmetric modules that are all ones: where readers differ */
    int bits_seen[9];
    int group_min, group_max; /* of the source */
    int n_zero_biases;        /* dropped */
    int n_sorted;             /* layers whose gate and up leave their results in down's order */
};

struct plan {
    const struct hf_dir *dir;
    const struct hf_config *config;
    const struct quant_config *quant;
    const struct notes *notes;
    const char *prefix; /* "model." or "" */
    uint8_t *used;      /* [dir->n_tensors] */
    struct out_tensor *tensors;
    struct job *jobs;
    struct linear **linears; /* pointers, because jobs refer to them */
    void **blobs;            /* memory of JOB_MEMORY */
    size_t n_tensors, n_jobs, n_linears, n_blobs;
    size_t src_max, dst_max, codes_max, row_max; /* buffers that the largest job needs */
    struct plan_facts facts;
};

/* config may be changed in one respect: ffn follows the tensors. NO_TOKENIZER: leave the tokenizer
 * out. */
int plan_build(struct plan *p, const struct hf_dir *d, struct hf_config *c,
               const struct quant_config *q, int no_tokenizer, const struct notes *n,
               struct err *e);
void plan_free(struct plan *p);

/* The tensors file.NAME, in plan_texts.c. A tokenizer that opt4gptq-run could not use is refused, a
 * chat template warned of. */
int plan_texts(struct plan *p, int no_tokenizer, struct err *e);

/* For plan_linear.c and plan_texts.c. */
int plan_tensor(struct plan *p, size_t *at, const char *name, enum dtype type, int n_dims,
                const int64_t *shape, size_t n_pieces, struct err *e);
int plan_job(struct plan *p, const struct job *j, struct err *e);
/* Takes over DATA, also when it fails. */
int plan_memory(struct plan *p, const char *name, enum dtype type, int64_t n, void *data,
                struct err *e);
const struct hf_tensor *plan_find(struct plan *p, const char *module, const char *what);
/* F16, BF16 or F32 tensor of n numbers as fp32; refuses NaN and infinity. The caller frees *out. */
int plan_floats(const struct hf_tensor *t, int64_t n, float **out, struct err *e);
/* "[3, 4]" for messages. */
const char *plan_shape(const struct hf_tensor *t, char text[128]);
/* A quantized module, looked through; *l belongs to the plan, and may get another order before it
 * is put out. */
int plan_linear(struct plan *p, const char *module, int64_t in, int64_t out, struct linear **l,
                struct err *e);
/* Its tensors, called NAME in the output, and their jobs. */
int plan_put_linear(struct plan *p, struct linear *l, const char *name, struct err *e);

#endif
