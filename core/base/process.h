/* process.h: what each program does first: descriptors 0 to 2, and signals that would end it
 * without a word. Must not know: what the program does. */
#ifndef CORE_PROCESS_H
#define CORE_PROCESS_H

/* main's first line. NAME is the program's in messages.
 * - Descriptors 0 to 2 that are closed become ones whose every use fails (EBADF): no file that is
 *   opened later takes their place, where this process's own messages would be written into it.
 * - SIGXFSZ is ignored: a write over a limit fails with EFBIG.
 * - SIGBUS in a mapping (its file was cut, or its disk failed) ends the process with one line and
 *   exit code 1. */
void process_begin(const char *name);
/* The file that SIGBUS most likely comes from. */
void process_maps(const char *path);

#endif
