/* process.h: set-up that every program does first: descriptors 0 to 2, and signals that would end
 * it without a message. Must not know: what the program does. */
#ifndef CORE_PROCESS_H
#define CORE_PROCESS_H

/* To be called first in main. NAME is the program's name in messages.
 * - Closed descriptors among 0 to 2 are opened so that every use fails (EBADF): a file opened later
 * cannot get such a number and receive the program's messages.
 * - SIGXFSZ is ignored: a write over a limit fails with EFBIG.
 * - SIGBUS in a mapping (file truncated, disk failed) ends the process with one line and exit
 * code 1. */
void process_begin(const char *name);
/* Names the mapped file in the message of SIGBUS; NULL: none. */
void process_maps(const char *path);

#endif
