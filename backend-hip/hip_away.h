/* hip_away.h: stacks whose packed weights stay in the host's memory and come to one of some slots
 * of the device ahead of their use, by a stream of copies beside the launches. Owns: the slots,
 * that stream. Must not know: plans, when a stack is used. */
#ifndef BACKEND_HIP_HIP_AWAY_H
#define BACKEND_HIP_HIP_AWAY_H

#include "backend-hip/hip_internal.h"

/* As hip_pack, but that the weights are in the device's memory of SLOT, which all stacks that are
 * given it share, only between hip_fetch and the next one of another of them. All must have one
 * size. */
int hip_pack_away(struct be *be, const struct linear *w, int slot, struct be_linear **out,
                  struct err *e);
/* Copies w [n] to their slots, behind all launches so far; what comes next may run beside it. */
void hip_fetch(struct be *be, struct be_linear *const *w, int n);
/* Launches from here on wait for the copy of the last hip_fetch but `later`. */
void hip_await(struct be *be, int later);
void hip_away_close(struct hip *h);

#endif
