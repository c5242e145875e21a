/* clock.h: the clocks of this machine, in seconds as a double. Must not know: what is timed. */
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H

double clock_now(void);     /* monotonic; the zero is arbitrary */
double clock_process(void); /* processor time of all threads of this process */
double clock_thread(void);  /* processor time of this thread */

/* Between two looks at what has been waited for so many seconds: lets others run, from 20 ms on
 * sleeps. */
void clock_rest(double waited);

#endif
