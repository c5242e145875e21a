/* whatis.h: recognizes a file or directory that is not of the wanted kind, and names the command
 * for it. Owns: the marks of formats and directories. Must not know: how they are read. It looks at
 * names, types and first bytes, and opens regular files only, because opening a FIFO blocks. */
#ifndef CORE_WHATIS_H
#define CORE_WHATIS_H

#include "core/base/err.h"

enum whatis_wanted {
    WHATIS_MODEL,      /* a model file of opt4gptq-convert */
    WHATIS_CHECKPOINT, /* a checkpoint directory of Hugging Face */
};

/* Called after a failure, with *e set. 1: PATH is something known that was not wanted; *e becomes
 * "PATH: is a ..., COMMAND". 0, *e unchanged: PATH is of the wanted kind, unknown or unreadable, or
 * *e says that memory ran out. */
int whatis(const char *path, enum whatis_wanted wanted, struct err *e);
/* The same by the first bytes of a regular file alone: a web page, an archive, a file of another
 * program. */
int whatis_format(const char *path, struct err *e);

#endif
