/* outputs.h: which files a run writes: none that it reads, no two the same, and all open before
 * anything is computed. Must not know: what is written into them. */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli/options.h"

#include <stdio.h>

/* Compares all files that the options name for writing, with those that come of them (journal,
 * parts), with all that are read and with each other, by device and inode; regular files only.
 * Opens nothing. -1: says which two are one. */
int outputs_check(const struct options *o, struct err *e);

/* The same for one file more, that WHAT (a command of a conversation) is going to write. */
int outputs_check_one(const struct options *o, const char *what, const char *path, struct err *e);

/* A file beside the answers (--report, --trace, --samples), open from the start, written at the
 * end: what it held stays until then, and if nothing comes to be written it is as it was. */
struct side_file {
    FILE *f; /* NULL: not asked for; a signal does not interrupt its writes */
    int fd;
    const char *option, *path;
    int created;
};

/* PATH NULL: not asked for. */
int side_open(struct side_file *s, const char *option, const char *path, struct err *e);
/* Empties the file; what is written to the result is complete after side_close. */
FILE *side_begin(struct side_file *s);
/* After side_begin: -1 when something could not be written. Without: a file that was not there
 * before goes. */
int side_close(struct side_file *s, struct err *e);

#endif
