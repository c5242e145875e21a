/* hip_exchange.h: devices that exchange rows (OP_EXCHANGE): their memory for it, the choice of the
 * way, its test. Must not know: plans but for that operation. */
#ifndef BACKEND_HIP_HIP_EXCHANGE_H
#define BACKEND_HIP_HIP_EXCHANGE_H

#include "backend-hip/hip_plan.h"

/* backend.link: through peers' memory where all devices can reach it and what they write there
 * arrives as it was (on AMD over xGMI alone, unless asked for), else through the host's. Error: the
 * way that the options name cannot be taken, or none can. */
int hip_link(struct be *const *be, int n, const struct be_traffic *t, struct err *e);
uint64_t hip_link_bytes(int n, const struct be_traffic *t);
/* Of hip_close: the device has no launches left; so have the others. */
void hip_unlink(struct hip *h);
/* ", exchange of rows through ..", or "". */
const char *hip_link_text(const struct hip *h);

int hip_check_exchange(const struct hip *h, const struct op *op, struct err *e);
void hip_exchange(struct hip *h, const struct be_plan *p, int op);
/* Of microbatches: whether the operation takes rows of other devices, whether it gives them some,
 * and the wait for these rows. */
int hip_exchange_awaits(struct hip *h, const struct be_plan *p, int op);
int hip_exchange_sends(struct hip *h, const struct be_plan *p, int op);
void hip_await_exchange(struct hip *h, const struct be_plan *p, int op);

#endif
