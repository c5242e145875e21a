/* info.h: what a model file or a conversion is, in words: the metadata strings and --info.
 * Owns: opt4gptq.quantization and opt4gptq.source. Must not know: how the file is written. */
#ifndef CONVERT_INFO_H
#define CONVERT_INFO_H

#include "core/model/modelfile.h"

#include <stdio.h>

struct plan;

/* The __metadata__ object but for the checksums: *meta is a new reference. */
int info_metadata(const struct plan *p, json_t **meta, struct err *e);
/* Each mlp.order names every output once; *n: how many there are. */
int info_check_orders(const struct modelfile *m, int *n, struct err *e);
/* Prints what the file is. */
int info_print(FILE *out, const char *path, struct err *e);
/* Compares every tensor with its checksum and looks at the orders; prints how many there are. */
int info_verify(FILE *out, const char *path, struct err *e);

#endif
