/* progress.h: a line on stderr that is redrawn in place during a long operation. It fits the
 * terminal's current width, with room for the ^C that a terminal echoes, and is erased at the end.
 * Must not know: what takes long. */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

/* 1 when stderr is a terminal: a line may be drawn there. */
int progress_terminal(void);
/* Draws as many of PART [n] as fit, the first ones first, separated by "; ". NULL and empty ones
 * are left out. */
void progress_draw(const char *const part[], int n);
/* Prints all of PART [n] on a line of their own, for a stderr that is no terminal. */
void progress_log(const char *const part[], int n);
/* Erases the line, if one is drawn: before a message, and at the end. */
void progress_clear(void);
/* The bytes that erase the line, for a signal handler's message; "" where stderr is no terminal. */
const char *progress_erase(void);

#endif
