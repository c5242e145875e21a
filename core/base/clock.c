#include "core/base/clock.h"

#include <sched.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double clock_now(void) { return seconds(CLOCK_MONOTONIC); }
double clock_process(void) { return seconds(CLOCK_PROCESS_CPUTIME_ID); }
double clock_thread(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

void clock_rest(double waited)
{
    static const double spin_seconds = 0.02;
    if (waited > spin_seconds) nanosleep(&(struct timespec){0, 50000}, NULL);
    else sched_yield();
}
