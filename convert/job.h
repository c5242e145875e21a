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

/* For job_*.c: one job on one thread. */
struct job_task {
    struct plan *plan;
    const struct plan_job *job;
    const struct job_buffers *buffers;
    const struct job_output *output;
    uint64_t n_bytes; /* written so far */
};
/* Writes the job's piece of a tensor, data [bytes] at OFFSET of the tensor, and stores its
 * checksum. */
int job_put(struct job_task *k, size_t tensor, uint64_t offset, const void *data, uint64_t bytes,
            struct err *e);
/* Reads n rows of a plain matrix from FIRST of the rows to be taken on into dst [n][in], elements
 * as stored. row: a buffer of row_max bytes. */
int job_read_rows(const struct plain_matrix *m, int64_t first, int64_t n, uint8_t *dst,
                  uint8_t *row, struct err *e);
/* JOB_PANELS (job_panels.c). */
int job_panels(struct job_task *k, struct err *e);
int job_turned(struct job_task *k, struct err *e);

#endif
