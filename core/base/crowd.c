#include "core/base/crowd.h"

/* Seconds. A Xeon of 16 processors, all threads at work: alone 20 to 50 preemptions a second, with
 * two processors taken 700 to 3,300, each of which costs 0.08 to 0.18 ms (docs/cores.md). */
static const double look = 0.05, longest_pause = 2, cost = 0.12e-3;
enum { USUAL = 6 }; /* preemptions of a thread in a second that mean nothing */

int crowd_due(const struct crowd *c, double now) { return now - c->since >= look; }

int crowd_look(struct crowd *c, int n, int most, double now, long preempted)
{
    double seconds = now - c->since,
           held = cost * ((double)(preempted - c->preempted) - USUAL * n * seconds);
    c->since = now;
    c->preempted = preempted;
    if (n > 1 && held * n > seconds) { /* more than what one thread of n does */
        c->pause = c->pause > 0 ? 2 * c->pause : 2 * look;
        if (c->pause > longest_pause) c->pause = longest_pause;
        c->retry = now + c->pause;
        c->trying = 0;
        return n - 1;
    }
    if (now < c->retry) return n;
    if (c->trying) c->pause = 0; /* the one that was tried stays */
    c->trying = n < most;
    c->retry = now + 3 * look;
    return n + c->trying;
}
