/* signals.h: what the converter does when a signal comes.
 * Owns: the handlers. Must not know: what is being done. */
#ifndef CONVERT_SIGNALS_H
#define CONVERT_SIGNALS_H

#include <signal.h>

extern volatile sig_atomic_t signals_stop; /* the signal that asks to stop, or 0 */

/* SIGBUS, which a mapped file gives when it becomes shorter, ends the program with one line and exit status 1; a file size limit
 * is an error of write. */
void signals_of_files(void);
/* SIGINT, SIGTERM and SIGHUP set signals_stop, but for those that are ignored already. They interrupt what waits. */
void signals_of_people(void);

#endif
