/* hip_turns.h: microbatches on one device (core/run/forward.h): one at a time computes, in the
 * order in which their steps are issued, and waits for rows of other devices while another
 * computes. On CUDA the streams wait for words in the host's memory: a block that waits would take
 * the room of a block that needs a whole multiprocessor. Elsewhere a thread waits. Must not know:
 * operations. */
#ifndef BACKEND_HIP_HIP_TURNS_H
#define BACKEND_HIP_HIP_TURNS_H

#include "backend-hip/hip_internal.h"

struct hip_turns {
    uint32_t *words; /* [TURN_WORDS] on the host: exchange_args.arrivals, then who has the turn */
    const uint32_t *stop; /* of exchange_args */
    uint32_t *served;     /* that of microbatch 0, and how many have asked for it */
    unsigned *n_asked, n_asked_here;
    unsigned ticket, n_arrived[EXCHANGE_DEVICES];
    int has_turn;
};

/* Where streams cannot wait, microbatches share one and compute one behind the other. */
int hip_can_take_turns(const struct hip *h);
/* Gives h->turns to a microbatch; lender: microbatch 0 on the device, NULL: this is it. Nothing
 * where they cannot take turns. */
int hip_turns_open(struct hip *h, const struct hip *lender, const uint32_t *stop, struct err *e);
void hip_turns_close(struct hip *h);
/* What follows waits for the turn, or is the last for which it is needed. */
void hip_take_turn(struct hip *h);
void hip_give_turn(struct hip *h);
/* What follows waits for n further messages of device q. */
void hip_await_messages(struct hip *h, int q, unsigned n);

#endif
