/* list.h: description of a checkpoint that is not converted: --list. Owns: what is printed. Must
 * not know: how anything is read. */
#ifndef CONVERT_LIST_H
#define CONVERT_LIST_H

#include "core/base/err.h"

#include <stdio.h>

/* Prints what the checkpoint is, whether it converts, the sizes of the model file and of its memory
 * with sequences of N_CTX positions (0: 4,096, or the model's context where that is shorter). An error: it does not convert, and why; what is known is printed all the same. */
int list_print(FILE *out, const char *dir, int n_ctx, struct err *e);

#endif
