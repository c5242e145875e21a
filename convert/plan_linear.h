/* plan_linear.h: the linears of the model file and the modules of the checkpoint they come from.
 * Owns: which formats of weights are read (quantized and plain), stacks of experts, the choice of
 * rows. Must not know: architectures, and so the names of modules.
 *
 * A linear of the model file takes a list of outputs ("rows") of one module of the checkpoint, or
 * of two modules with the same inputs, one after the other. A stack takes the same rows of the same
 * parts of every expert. Use:
 *
 *     struct linear_from from = {.part = {{.module = "model.layers.0.self_attn.qkv_proj",
 *                                          .out = 6144, .rows = k_rows, .n_rows = 1024}},
 *                                .in = 4096, .bias = BIAS_IF_THERE};
 *     struct plan_linear *l;
 *     if (plan_linear_read(p, &from, &l, e) || plan_linear_put(p, l, "layers.0.self_attn.k_proj",
 * e))
 *
 * What the module holds decides the format: .qweight (GPTQ, AWQ), .weight_packed
 * (compressed-tensors), .weight (plain). Of a stack: modules named with the expert's number, or one
 * tensor of three dimensions, or X_blocks and X_scales (MXFP4). */
#ifndef CONVERT_PLAN_LINEAR_H
#define CONVERT_PLAN_LINEAR_H

#include "convert/plan.h"

/* Of the modules' biases (MODULE.bias; of one tensor of all experts: MODULE_bias [E][out]). A bias
 * of zeros is dropped. */
enum linear_bias { BIAS_IF_THERE, BIAS_REQUIRED, BIAS_IGNORED };

/* A module of the checkpoint and the rows to take. */
struct linear_part {
    const char *module;  /* complete name. Of a stack: with "%d" in place of the expert's number
                            ("model.layers.3.mlp.experts.%d.up_proj"), or without it the name of one
                            tensor of all experts ("model.layers.3.mlp.experts.gate_up_proj") */
    int64_t out;         /* outputs of the module in the checkpoint */
    const int32_t *rows; /* [n_rows] output i of the model file is output rows[i] of the module, in
                            [0, out); NULL: all of them in order. Copied */
    int64_t n_rows;      /* a multiple of 16 where another part follows */
};

enum { LINEAR_PARTS = 2 };

struct linear_from {
    struct linear_part part[LINEAR_PARTS]; /* part[1].module NULL: one part */
    int64_t in;                            /* inputs of all parts */
    int n_experts;                         /* of a stack; 0: a linear */
    int transposed; /* a tensor of all experts is [E][in][out], not [E][out][in] */
    int by_rows;    /* a stack whose linears are rows of one module: rows [n_experts * n_rows] */
    int turned;     /* of them: each is transposed, rows become inputs; fp32 if quantized */
    int keep_plain; /* a plain module is copied even with --plain 8bit: router, gates, a and b */
    enum linear_bias bias;
};

/* Finds the modules, and checks their tensors and reads their parameters. The plan owns *l. Errors
 * name the first tensor that is missing, damaged or of a format that is not read, and experts that
 * cannot be in one stack. */
int plan_linear_read(struct plan *p, const struct linear_from *from, struct plan_linear **l,
                     struct err *e);
/* Adds the linear's tensors (codes, scales, zeros, perm; weight; bias), called NAME.x in the
 * output, and their jobs. */
int plan_linear_put(struct plan *p, struct plan_linear *l, const char *name, struct err *e);
/* Both. */
int plan_linear(struct plan *p, const struct linear_from *from, const char *name, struct err *e);
/* Between read and put of an MLP whose operation between is elementwise: where down is quantized
 * with act-order, gate and up (NULL: there is none) produce their outputs in the order of down's
 * groups, so that down needs no permutation. Adds the tensor ORDER_NAME. Does nothing where it
 * cannot be done: plain linears, stacks, AWQ. */
int plan_linear_sort(struct plan *p, struct plan_linear *gate, struct plan_linear *up,
                     struct plan_linear *down, const char *order_name, struct err *e);
/* 1 if the checkpoint has weights under this name, in any format, supported or not. MODULE as in
 * struct linear_part; "%d": expert 0. Marks nothing as used. */
int plan_linear_exists(const struct plan *p, const char *module);
/* Outputs of a module, from the shapes of its tensors; 0: there is no such module or its shape does
 * not say. For quantizers that pad without updating config.json. */
int64_t plan_linear_outputs(const struct plan *p, const char *module);
void plan_linear_free(struct plan_linear *l);

/* A linear or a stack. For plan_*.c and quantize/modules.c only. */
struct plan_linear {
    struct linear_from from; /* names and rows are copies */
    char *name;              /* in the model file, NULL before it is put */
    int n_modules;           /* parts times experts; of expert x part k: x * n_parts + k */
    int n_parts;
    struct quant_linear *quant; /* [n_modules], or NULL */
    struct plain_matrix *plain; /* [n_modules], or NULL; both: the matrices are rounded */
    struct slots **slots;       /* [n_slots] owned */
    size_t n_slots;
    int joined;               /* two parts with different orders of inputs: see plan_linear.c */
    float *bias;              /* [experts][outputs], or NULL */
    int has_bias;             /* the checkpoint has one, be it of zeros */
    int64_t n_rows, n_panels; /* outputs, panels of one expert */
};

/* One quantized module: GPTQ and AWQ (plan_quant.c), compressed-tensors, MXFP4, a plain matrix to
 * be rounded (plan_packed.c). l has its module, sizes and rows; the functions find its tensors,
 * check them and fill in the rest but slots. */
int plan_quant_read(struct plan *p, struct quant_linear *l, struct err *e);
int plan_packed_read(struct plan *p, struct quant_linear *l, struct err *e);
/* Of expert x of n_experts. */
int plan_mxfp4_read(struct plan *p, struct quant_linear *l, int x, int n_experts, struct err *e);
int plan_rounded_read(struct plan *p, struct quant_linear *l, struct err *e);
/* Requires I32 of shape [a, b], or [a] if b is 0. */
int plan_expect(const struct hf_tensor *t, int64_t a, int64_t b, const char *why, struct err *e);
/* Checks that all scales are finite. Those of the model file are F16 if all of them (and 16 times
 * them, for codes of more than 4 bits) are exact in F16. */
int plan_scan_scales(struct quant_linear *l, struct err *e);
/* Checks that all of a matrix of F16, BF16 or F32 are finite. */
int plan_scan_finite(const struct hf_tensor *t, struct err *e);
/* Notes bits and group size of a module for the metadata. group: as declared. */
void plan_quant_count(struct plan *p, const struct quant_linear *l, int bits, int group);
/* Plans the slots of a module. planes: nibble planes, at least those of its codes. */
int plan_quant_slots(struct plan *p, struct quant_linear *l, int planes, struct slots *s,
                     struct err *e);
/* Adds the job that writes expert x of a turned stack, the fp32 tensor. */
int plan_turned_job(struct plan *p, const struct quant_linear *l, size_t tensor, int x,
                    struct err *e);
/* Adds the jobs of a quantized module whose output tensors are there, as pieces PIECE.. on.
 * *n: pieces (of jobs); P NULL: only counts. */
int plan_quant_jobs(struct plan *p, const struct quant_linear *l, size_t piece, size_t *n,
                    struct err *e);

#endif
