#include "backend-hip/hip_pending.h"

#include "backend-hip/hip_internal.h"

void hip_settle(struct hip *h)
{
    struct hip_pending *p = &h->pending;
    enum hip_kernel k = p->kernel;
    p->kernel = K_COUNT;
    if (hip_one_launch(h, k)) return;
    if (k == K_norm_rows) hip_launch_rows(h, k, p->rows, &p->norm, sizeof p->norm);
    if (k == K_glu) hip_launch_elements(h, k, p->glu.n, &p->glu, sizeof p->glu);
    if (k == K_attend_merge)
        hip_launch(h, k, (struct hip_blocks){(size_t)p->rows, (size_t)p->merge.n_heads, 1, 0},
                   &p->merge, sizeof p->merge);
    if (k == K_rope_store) hip_launch_rope(h, &p->rope, 0, p->rows);
}

void hip_settle_and_flush(struct hip *h)
{
    hip_settle(h);
    hip_flush(h);
}

struct hip_pending *hip_wait_for_next(struct hip *h, enum hip_kernel k, const float *out, int rows,
                                      int dim)
{
    hip_settle(h);
    h->pending.kernel = k;
    h->pending.out = out;
    h->pending.rows = rows;
    h->pending.dim = dim;
    return &h->pending;
}
