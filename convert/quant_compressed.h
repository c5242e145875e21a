/* quant_compressed.h: the settings of compressed-tensors (llm-compressor): config_groups, their
 * targets and the formats that are not read. Must not know: tensors. `ignore` is not looked at: a
 * module has packed weights or it has not. */
#ifndef CONVERT_QUANT_COMPRESSED_H
#define CONVERT_QUANT_COMPRESSED_H

#include "convert/quant_config.h"

/* Checks a quantization_config of compressed-tensors and keeps its groups in q->groups. WHERE names
 * it in messages. */
int qct_merge(struct quant_config *q, const json_t *j, const char *where, struct err *e);
/* The settings of the group that a module belongs to: by its name, else by a pattern ("re:..."),
 * else by its class ("Linear"). */
int qct_module(const struct quant_config *q, const char *module, struct quant_module *m,
               struct err *e);

#endif
