/* result.h: the output of a batch: answers out of the journal, in the input's order or as they
 * finished.
 *
 * A regular file is written when the last answer is there, as OUT.part, brought to the medium and
 * renamed to OUT: a reader of OUT sees the old file or the whole new one. (To watch a run, read
 * OUT.journal without its lines that begin with '#'.) stdout, a pipe or a device gets each answer
 * as soon as the order allows, and cannot be resumed. Must not know: what an answer looks like,
 * what a journal looks like. */
#ifndef CLI_MODES_BATCH_RESULT_H
#define CLI_MODES_BATCH_RESULT_H

#include "cli/modes/batch/journal.h"

struct result {
    const char *path;
    char *part; /* NULL: a stream */
    int fd, gzip, as_finished;
    int unfolds; /* the caller's: answers are folded (out.h) */
    void *deflate;
    struct out pending;
    int64_t at;
    uint64_t next, offset; /* next slot; next place in the journal */
    uint64_t bytes;        /* written so far, as they are in the file */
    uint32_t crc;
};

/* What OUT is. Returns 1 for a stream ("-", pipe, device), 0 for a regular file or a name not
 * taken, -1: a directory. */
int result_is_stream(const char *path, struct err *e);
/* Nothing is opened yet for a regular file. gzip by the name's ending. */
int result_open(struct result *r, const char *path, int stream, int gzip, int as_finished,
                struct err *e);
/* Writes what the order allows; a file only when ALL answers are there. */
int result_advance(struct result *r, struct journal *j, uint64_t n_slots, struct err *e);
/* After the last answer: puts a file in its place. */
int result_finish(struct result *r, struct err *e);
void result_close(struct result *r);
/* crc32 and bytes of a file as it is on disk; 1 when it is not there. */
int result_checksum(const char *path, uint64_t *bytes, uint32_t *crc, struct err *e);

#endif
