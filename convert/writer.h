/* writer.h: execution of a plan: header, threads, checksums, and a file that appears complete or
 * not at all. Owns: the temporary file, the worker threads, progress. Must not know: what the
 * tensors mean. */
#ifndef CONVERT_WRITER_H
#define CONVERT_WRITER_H

#include "core/base/err.h"

#include <jansson.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct plan;

struct writer_options {
    const char *path;
    int n_threads;
    int progress; /* show it on stderr */
    const volatile sig_atomic_t
        *stop; /* set by a signal handler: stop and remove the temporary file */
    /* Asked of the complete file under a name of its own before it gets PATH's; -1: it gets none.
     */
    int (*check)(const char *path, struct err *e);
};

struct writer_result {
    uint64_t file_bytes;
    double seconds;
};

/* Writes the file. META: the __metadata__ strings without opt4gptq.crc32. OUT must be absent or a
 * regular file that does not belong to the checkpoint. */
int writer_run(struct plan *p, const json_t *meta, const struct writer_options *o,
               struct writer_result *r, struct err *e);

#endif
