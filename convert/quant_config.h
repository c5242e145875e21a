/* quant_config.h: the quantization settings that a checkpoint declares. Owns: the places of the
 * declaration, the aliases of each key, conflicts between places, `dynamic` overrides. Must not
 * know: the tensors (where they contradict the settings, plan_linear.c follows the tensors). */
#ifndef CONVERT_QUANT_CONFIG_H
#define CONVERT_QUANT_CONFIG_H

#include "convert/hf_dir.h"

enum quant_method { QUANT_GPTQ, QUANT_AWQ, QUANT_COMPRESSED, QUANT_MXFP4 };
/* declared storage of zeros (and of 3-bit codes) */
enum quant_label { LABEL_V1, LABEL_V2, LABEL_PLANAR };

struct quant_config {
    int present; /* 1: some place declares settings */
    enum quant_method method;
    enum quant_label label;
    int bits, group;   /* bits 0, group 0: not declared; group -1: one group */
    int sym, sym_said; /* sym: the zero points are in the middle */
    int desc_act;      /* as declared, for messages */
    int by_gptqmodel;  /* meta.quantizer names GPTQModel */
    int outliers; /* W4A4 of opt4gptq-quantize: modules have codes of 4 bits in fields of 8, but
                     in their last group, of so many inputs; 0: not */
    int by_auto_round;  /* the configuration names AutoRound's version */
    char quantizer[64]; /* meta.quantizer, or empty */
    char *base_name;    /* model_file_base_name, or NULL */
    json_t *dynamic;    /* {pattern: overrides} in file order, or NULL */
    json_t *extra;      /* AutoRound's extra_config: {name or pattern: overrides}, or NULL */
    json_t *groups;     /* compressed-tensors' config_groups, or NULL */
};

/* Settings of one module, `dynamic` included. */
struct quant_module {
    int bits, group, sym, sym_said;
    int ordered; /* compressed-tensors: its inputs are sorted by group, and weight_g_idx says how */
};

/* Reads quantize_config.json, quant_config.json and config.json's quantization_config. CONFIG:
 * config.json, parsed. */
int qc_read(struct quant_config *q, const struct hf_dir *d, const json_t *config,
            const struct notes *n, struct err *e);
/* The settings in config.json, or NULL; *key: where they stand. */
const json_t *qc_inside(const json_t *config, const char **key);
/* Reads the settings in the shards: AutoGPTQ's metadata, TGI's gptq_bits tensors. After
 * hfd_open_shards. */
int qc_read_shards(struct quant_config *q, const struct hf_dir *d, const struct notes *n,
                   struct err *e);
/* Merges the object of one place; WHERE names it in messages. For qc_read and tests. */
int qc_merge(struct quant_config *q, const json_t *j, const char *where, const struct notes *n,
             struct err *e);
int qc_module(const struct quant_config *q, const char *module, struct quant_module *m,
              struct err *e);
/* Python's re.match of a pattern of the configuration: anchored at the start. With limits, because
 * patterns are input. */
int qc_match(const char *pattern, const char *module, int *yes, struct err *e);
/* The method's name in messages and in the model file. */
const char *qc_method_name(enum quant_method m);
void qc_free(struct quant_config *q);

#endif
