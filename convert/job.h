/* job.h: execution of one job of a plan: read, transform, write, checksum. Thread-safe: jobs share
 * only the plan, and each writes its own crc slots. Must not know: the order of jobs, the header.
 */
#ifndef CONVERT_JOB_H
#define CONVERT_JOB_H

#include "convert/plan.h"

/* A thread's buffers, with the sizes of the plan. */
struct job_buffers {
    uint8_t *src, *dst, *codes, *row;
};

struct job_output {
    const char *path; /* for messages */
    int fd;
    uint64_t data_start;
};

int job_buffers_init(struct job_buffers *b, const struct plan *p, struct err *e);
void job_buffers_free(struct job_buffers *b);
/* Runs job j; *n_bytes: bytes written. */
int job_run(struct plan *p, const struct plan_job *j, const struct job_buffers *b,
            const struct job_output *o, uint64_t *n_bytes, struct err *e);
/* Writes data [bytes] at OFFSET of the file. */
int job_write(const struct job_output *o, const void *data, uint64_t bytes, uint64_t offset,
              struct err *e);

#endif
