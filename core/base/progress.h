/* progress.h: a line on stderr that is drawn over itself while something takes long. It fits the
 * terminal's width of the moment, with room for the ^C that a terminal echoes, and leaves nothing
 * behind. Must not know: what takes long. */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

/* 1 when stderr is a terminal: a line may be drawn there. */
int progress_terminal(void);
/* Draws PART [n] with "; " between, the most important ones first: as many as fit. NULL and empty
 * ones are left out. */
void progress_draw(const char *const part[], int n);
/* The same on a line of its own, all of it: for what is no terminal. */
void progress_log(const char *const part[], int n);
/* Takes the line off the terminal, if there is one: before a message, and at the end. */
void progress_clear(void);
/* What takes the line off: for a signal handler's words, before them. "" where stderr is no
 * terminal. */
const char *progress_erase(void);

#endif
