/* crowd.h: how many threads are worth while beside other processes. Owns: the rule. Must not know:
 * threads, where its numbers come from.
 *
 * Threads of one operation wait for each other: one whose processor another process takes, or that
 * shares one with a thread that only waits, holds up all, many times a second. With one thread
 * fewer for each processor that is taken nobody does. */
#ifndef CORE_CROWD_H
#define CORE_CROWD_H

/* Begins as zeros. */
struct crowd {
    double since;  /* when it was last looked */
    double retry;  /* when one thread more is tried */
    double pause;  /* between giving a thread up and trying it again */
    int trying;    /* it was, and nothing speaks against it so far */
    long preempted; /* as of `since` */
};

/* 1: enough time has passed for the next look. */
int crowd_due(const struct crowd *c, double now);
/* From the n of at most `most` threads that worked since the last look, and how often threads of
 * this process have been preempted in its life: how many to go on with, n or one more or less. */
int crowd_look(struct crowd *c, int n, int most, double now, long preempted);

#endif
