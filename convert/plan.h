/* plan.h: the plan of a conversion: all output tensors and the jobs that make them. Owns: names,
 * shapes, offsets and sources of the tensors; the jobs; all checks that are possible before a byte
 * is written. Must not know: threads, the writing of files. */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "convert/hf_config.h"
#include "convert/hf_dir.h"
#include "convert/quant_config.h"
#include "convert/slots.h"
#include "convert/unpack.h"

/* A matrix of the checkpoint that is not quantized, or one expert of a tensor that holds many. */
struct plain_matrix {
    const struct hf_tensor *t;
    uint64_t at;         /* offset in the tensor, bytes */
    int64_t in, out;     /* stored as [out][in], transposed: [in][out] */
    int64_t n_rows;      /* outputs that the model file takes */
    const int32_t *rows; /* [n_rows] output i is the checkpoint's rows[i]; NULL: i */
    int transposed;
};

/* How the tensors of a quantized module lie. */
enum quant_store {
    STORE_COLUMNS, /* GPTQ and AWQ: codes [words][out] (AWQ [in][words]), scales [groups][out],
                      zeros [groups][words] */
    STORE_ROWS,    /* compressed-tensors: codes [out][words], scales [out][groups], zeros
                      [words][groups] */
    STORE_MXFP4,   /* codes [out][in/2] bytes and scales [out][in/32] of one expert (mxfp4.h) */
    STORE_ROUNDED, /* a plain matrix that becomes 8-bit codes (round8.h) */
};

/* A quantized module of the checkpoint, or one expert of a tensor that holds many. */
struct quant_linear {
    char *module;                                      /* name in the checkpoint, for messages */
    const struct hf_tensor *qweight, *qzeros, *scales; /* qzeros NULL: all are 2^(bits-1) */
    int64_t in, out, n_source;          /* n_source: quantization groups in the checkpoint */
    int64_t n_words;                    /* of the codes of one output; of AWQ inputs */
    uint64_t qweight_from, scales_from; /* offsets of an expert in its tensors, bytes */
    enum quant_store store;
    const struct plain_matrix *plain; /* STORE_ROUNDED: the matrix */
    int64_t n_rows;                   /* outputs that the model file takes */
    const int32_t *rows;              /* [n_rows] output i is the checkpoint's rows[i]; NULL: i */
    int bits, group;                  /* as declared; group -1: one, 0: unknown */
    int ordered;                      /* as quant_module has it */
    int bytes;                        /* codes are signed bytes, whatever `bits` is */
    int one_scale;                    /* for all of the matrix */
    const struct hf_tensor
        *least; /* [out][groups]: W = scale * code + least (offsets.h); or NULL */
    enum unpack_layout layout;
    enum unpack_zeros zeros;
    enum dtype scale_type; /* in the model file */
    const struct slots *slots;
    int64_t first_panel; /* of the output tensors, where they hold more than this module */
    size_t codes_at, scales_at, zeros_at, offsets_at; /* indices of output tensors */
};

struct plan_linear;

struct out_tensor {
    char *name;
    enum dtype dtype;
    int n_dims;
    int64_t shape[ST_MAX_DIMS];
    uint64_t bytes, offset; /* offset in the data section, a multiple of 64 */
    uint32_t *crc;          /* [n_pieces], filled by the jobs */
    uint64_t *crc_bytes;    /* [n_pieces] bytes of each piece */
    size_t n_pieces;
};

enum { PLAN_TURNED = 64 }; /* columns of a turned matrix that a job reads at once */

enum job_kind { JOB_MEMORY, JOB_COPY, JOB_COLUMNS, JOB_ROWS, JOB_PANELS, JOB_TURNED };
struct plan_job {
    enum job_kind kind;
    size_t tensor, piece; /* JOB_PANELS: piece index in each of the linear's three tensors */
    const void *data;     /* JOB_MEMORY: the whole tensor */
    const struct hf_tensor *source; /* JOB_COPY, JOB_COLUMNS */
    uint64_t from;                  /* JOB_COPY, JOB_COLUMNS: offset in the source, bytes */
    uint64_t row_bytes, stride;     /* JOB_COLUMNS: of a row of the output, of the source */
    uint64_t at,
        bytes; /* JOB_COPY, JOB_COLUMNS, JOB_ROWS, JOB_TURNED: range of the output tensor, bytes */
    const struct plain_matrix *matrix; /* JOB_ROWS */
    int64_t row;                       /* JOB_ROWS: first output */
    const struct quant_linear *linear; /* JOB_PANELS, JOB_TURNED: its numbers [in][n_rows], fp32 */
    int64_t panel, n_panels;           /* JOB_PANELS: range of the linear's panels */
};

/* Findings, for the metadata and for messages. */
struct plan_facts {
    int n_quantized, n_plain, n_act_order;
    int n_unordered; /* modules without g_idx although desc_act is set */
    const char
        *no_g_idx;     /* the first GPTQ module of several groups without usable g_idx, or NULL */
    int n_label_wrong; /* modules whose zeros contradict checkpoint_format */
    int n_v1, n_v2;    /* modules by format of the zeros */
    int word_plus;     /* v1 zeros of asymmetric modules are read as GPTQModel writes them */
    int n_asymmetric;
    /* v1 fields of asymmetric modules with all bits set, which readers interpret differently */
    uint64_t n_all_ones;
    int bits_seen[9];
    int group_min, group_max; /* group sizes of the checkpoint */
    int n_offsets;            /* modules whose zero points are no integers */
    int n_zero_biases;        /* biases dropped because all values are 0 */
    int outliers;             /* inputs of the last group of a W4A4 module, 0: there is none */
    int n_rounded;            /* of n_plain, stored with 8 bits */
    size_t n_skipped;         /* tensors of vision, audio and draft layers */
    size_t n_kv_scales;       /* tensors of keys and values in 8 bits */
    int n_sorted; /* layers whose gate and up have their outputs in the order of down's inputs */
};

struct plan_options {
    int no_tokenizer; /* leave the tokenizer out */
    int plain8;       /* --plain 8bit: plain linears and the head are rounded to 8 bits */
    int plain_said;   /* --plain: somebody chose what becomes of plain linears */
    int no_mtp;       /* leave the layer out that only drafts tokens */
    int sizes_only;   /* the plan is not carried out: weights to be rounded are not read */
};

struct plan {
    struct plan_options options;
    const struct hf_dir *dir;
    const struct hf_config *config;
    const struct quant_config *quant;
    const struct notes *notes;
    const char *prefix;      /* in front of the tensors of the language model: "model." */
    const char *head_prefix; /* in front of the head: "" */
    const char *embed, *norm, *head; /* "embed_tokens", "norm", "lm_head" */
    uint8_t *used;           /* [dir->n_tensors] */
    struct out_tensor *tensors;
    struct plan_job *jobs;
    struct plan_linear **linears; /* pointers: jobs refer to their parts */
    void **blobs;                 /* data of JOB_MEMORY */
    size_t n_tensors, n_jobs, n_linears, n_blobs;
    uint64_t src_max, dst_max, codes_max,
        row_max; /* buffer sizes that the largest job needs, bytes */
    struct plan_facts facts;
};

/* Builds the plan. It may change c->ffn to the size in the tensors. */
int plan_build(struct plan *p, const struct hf_dir *d, struct hf_config *c,
               const struct quant_config *q, const struct plan_options *o, const struct notes *n,
               struct err *e);
void plan_free(struct plan *p);

/* Adds the tensors file.NAME (plan_texts.c). A tokenizer that opt4gptq-run cannot use is an error,
 * such a chat template a warning. */
int plan_texts(struct plan *p, struct hf_config *c, int no_tokenizer, struct err *e);

/* For plan_*.c. */
struct tensor_shape {
    int n_dims;
    int64_t size[ST_MAX_DIMS]; /* [n_dims] */
};
/* Adds a tensor that is written in n_pieces pieces; *index: its index. */
int plan_tensor(struct plan *p, size_t *index, const char *name, enum dtype type,
                struct tensor_shape shape, size_t n_pieces, struct err *e);
int plan_add_job(struct plan *p, const struct plan_job *j, struct err *e);
/* Adds a tensor with the contents DATA, which it takes over, even on failure. */
int plan_data(struct plan *p, const char *name, enum dtype type, struct tensor_shape shape,
              void *data, struct err *e);
/* plan_data() of n elements. */
int plan_memory(struct plan *p, const char *name, enum dtype type, int64_t n, void *data,
                struct err *e);
/* The tensor MODULE.WHAT, or MODULE where WHAT is "", marked as used; NULL: it is not there. */
const struct hf_tensor *plan_find(struct plan *p, const char *module, const char *what);
/* Converts an F16, BF16 or F32 tensor of n numbers to fp32; NaN and infinity are errors. The caller
 * frees *out. */
int plan_floats(const struct hf_tensor *t, int64_t n, float **out, struct err *e);
/* The same of n numbers from number FIRST on, whatever the tensor's shape; they are in it. */
int plan_numbers_at(const struct hf_tensor *t, int64_t first, int64_t n, float **out,
                    struct err *e);
/* Requires F16, BF16 or F32. */
int plan_is_float(const struct hf_tensor *t, struct err *e);
/* "[3, 4]" for messages. */
const char *plan_shape(const struct hf_tensor *t, char text[128]);

#endif
