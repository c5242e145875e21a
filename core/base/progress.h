/* progress.h: a line on stderr that is redrawn in place during a long operation. It fits the
 * terminal's current width, with room for the ^C that a terminal echoes, and is erased at the end.
 * Must not know: what takes long. */
#ifndef CORE_PROGRESS_H
#define CORE_PROGRESS_H

#include <stdint.h>

/* 1 when stderr is a terminal: a line may be drawn there. */
int progress_terminal(void);
/* Draws as many of PART [n] as fit, the first ones first, separated by "; ". NULL and empty ones
 * are left out. */
void progress_draw(const char *const part[], int n);
/* Prints all of PART [n] on a line of their own, for a stderr that is no terminal. */
void progress_log(const char *const part[], int n);
/* Erases the line, if one is drawn: before a message, and at the end. */
void progress_clear(void);
/* Work whose amount is known. */
struct progress {
    double start, shown; /* seconds of clock_now */
    int terminal;
};

/* The work begins now. */
void progress_begin(struct progress *p);
/* 1: its line is to be drawn now: on a terminal after a second and then twice a second, elsewhere
 * after 30 s and then every 30 s. */
int progress_due(struct progress *p);
/* Draws or logs PART [n], as the stderr of this work wants it. */
void progress_show(const struct progress *p, const char *const part[], int n);
/* "WHAT 45%; 12 s left; 1.2 GB of 2.7 GB", when it is due. */
void progress_bytes(struct progress *p, const char *what, uint64_t done, uint64_t total);
enum { PROGRESS_TEXT = 64 };
/* The time that is left when DONE of TOTAL took the time until now, as "12 s left", "1:05 min
 * left", "2:30 h left"; "" when nothing is done yet or it would be months. */
const char *progress_left(const struct progress *p, double done, double total,
                          char text[PROGRESS_TEXT]);
/* So many seconds in the same words. */
const char *progress_duration(double seconds, char text[PROGRESS_TEXT]);

/* The bytes that erase the line, for a signal handler's message; "" where stderr is no terminal. */
const char *progress_erase(void);

#endif
