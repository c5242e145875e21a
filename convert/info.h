/* info.h: description of a model file or a conversion: metadata strings and --info. Owns:
 * opt4gptq.quantization and opt4gptq.source. Must not know: how the file is written. */
#ifndef CONVERT_INFO_H
#define CONVERT_INFO_H

#include "core/model/modelfile.h"

#include <stdio.h>

struct plan;

/* Builds __metadata__ without the checksums; *meta is a new reference. */
int info_metadata(const struct plan *p, json_t **meta, struct err *e);
/* Checks that each mlp.order is a permutation; *n: number of orders. */
int info_check_orders(const struct modelfile *m, int *n, struct err *e);
/* Prints the description of the file. */
int info_print(FILE *out, const char *path, struct err *e);
/* Compares every tensor with its checksum, checks the orders, and prints the number of tensors. */
int info_verify(FILE *out, const char *path, struct err *e);

#endif
