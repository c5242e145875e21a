/* quant_config.h: how the checkpoint says it was quantized. Owns: the places that say it, the
 * aliases of each key, conflicts between places, `dynamic` overrides. Must not know: what the
 * tensors hold (they have the last word; see plan_linear.c). */
#ifndef CONVERT_QUANT_CONFIG_H
#define CONVERT_QUANT_CONFIG_H

#include "convert/hf_dir.h"

enum quant_method { QUANT_GPTQ, QUANT_AWQ };
/* how zeros (and 3-bit codes) are stored, as declared */
enum quant_label { LABEL_V1, LABEL_V2, LABEL_PLANAR };

struct quant_config {
    int present; /* some place says something */
    enum quant_method method;
    enum quant_label label;
    int bits, group;    /* bits 0 and group 0 = not said; group -1 = one group */
    int sym, sym_said;  /* -> zeros lie in the middle */
    int desc_act;       /* as declared: a fact for people */
    int by_gptqmodel;   /* meta.quantizer names GPTQModel */
    char quantizer[64]; /* meta.quantizer, or empty */
    char *base_name;    /* model_file_base_name, or NULL */
    json_t *dynamic;    /* {pattern: overrides} in file order, or NULL */
};

/* Settings of one module after `dynamic`. */
struct quant_module {
    int bits, group, sym, sym_said;
};

/* Reads quantize_config.json, quant_config.json and config.json's quantization_config. CONFIG:
 * config.json, parsed. */
int qc_read(struct quant_config *q, const struct hf_dir *d, const json_t *config,
            const struct notes *n, struct err *e);
/* What only the shards say: AutoGPTQ's metadata, TGI's gptq_bits tensors. After hfd_open_shards. */
int qc_read_shards(struct quant_config *q, const struct hf_dir *d, const struct notes *n,
                   struct err *e);
/* One place's object, for qc_read and for tests. WHERE names it in messages. */
int qc_merge(struct quant_config *q, const json_t *j, const char *where, const struct notes *n,
             struct err *e);
int qc_module(const struct quant_config *q, const char *module, struct quant_module *m,
              struct err *e);
void qc_free(struct quant_config *q);

#endif
