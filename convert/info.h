/* info.h: what a model file or a conversion is, in words: the metadata strings and --info.
 * Owns: opt4gptq.quantization and opt4gptq.source. Must not know: how the file is written. */
#ifndef CONVERT_INFO_H
#define CONVERT_INFO_H

#include "convert/plan.h"
#include "core/modelfile.h"

#include <stdio.h>

/* The __metadata__ object but for the checksums, or NULL when memory is out. */
json_t *info_metadata(const struct plan *p);
/* Each mlp.order names every output once; *n: how many there are. */
int info_check_orders(const struct modelfile *m, int *n, struct err *e);
/* Prints what FILE is. */
int info_print(FILE *out, const char *path, struct err *e);

#endif
