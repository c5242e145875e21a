/* writer.h: carries out a plan: header, threads, checksums, and a file that appears whole or not at
 * all. Owns: the temporary file, the worker threads, progress. Must not know: what the tensors
 * mean. */
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
    int progress;                      /* show it on stderr */
    const volatile sig_atomic_t *stop; /* set by a signal handler: give up and leave nothing */
};

struct writer_result {
    uint64_t file_bytes;
    double seconds;
};

/* META: the __metadata__ strings but for opt4gptq.crc32. OUT must be absent or a regular file that
 * is not part of the checkpoint. */
int writer_run(struct plan *p, const json_t *meta, const struct writer_options *o,
               struct writer_result *r, struct err *e);

#endif
