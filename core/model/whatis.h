/* whatis.h: what lies at a path that was given for something else, and the command for it.
 * Owns: the marks by which formats and directories are known. Must not know: how they are read.
 * Looks at names, types and first bytes; opens regular files only: a FIFO does not make it wait. */
#ifndef CORE_WHATIS_H
#define CORE_WHATIS_H

#include "core/base/err.h"

enum whatis_wanted {
    WHATIS_MODEL,      /* a model file of opt4gptq-convert */
    WHATIS_CHECKPOINT, /* a checkpoint directory of Hugging Face */
};

/* 1 and "PATH: is a ..., COMMAND" in *e when PATH is known and not what was wanted. 0, *e as it
 * was, when PATH is what was wanted, is nothing known or cannot be looked at, or *e is a lack of
 * memory: the caller's own message stands. To be asked after a failure, when *e is set. */
int whatis(const char *path, enum whatis_wanted wanted, struct err *e);

#endif
