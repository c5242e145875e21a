/* hip_heads.h: the kernels of attention for an operation's heads and the types of its keys and
 * values. Owns: their tables. Must not know: launches. */
#ifndef BACKEND_HIP_HIP_HEADS_H
#define BACKEND_HIP_HIP_HEADS_H

#include "backend-hip/hip_plan.h"

/* Of prompt rows: hopper/attend_prefill_*.hip, nvidia/attend_prefill_*.hip; K_COUNT: none */
enum hip_kernel hip_wgmma_kernel(const struct hip *h, const struct op *attend);
enum hip_kernel hip_tile_kernel(const struct hip *h, const struct op *attend);
/* Of decode rows: nvidia/attend_chunk.hip; that or nvidia/attend_decode_mma.hip; K_COUNT: none */
enum hip_kernel hip_chunk_kernel(const struct hip *h, const struct op *attend);
enum hip_kernel hip_pages_kernel(const struct hip *h, const struct op *attend);
/* chunk, or hopper/attend_warp.hip in its place for a launch of this grid */
enum hip_kernel hip_warp_kernel(const struct hip *h, const struct heads *g, enum hip_kernel chunk,
                                const struct hip_blocks *grid);
/* Whether prompts have a kernel with the query_halves of the options. 0 or -1. */
int hip_check_queries(const struct hip *h, const struct op *attend, struct err *e);
/* Whether attention can include the rotation and storage of operation rope. */
int hip_can_attend_rotating(const struct hip *h, const struct be_plan *p, int rope, int attend);
/* Whether the launch after the attention of decode rows can combine their KV splits; its arguments
 * for rows from row `row` on. */
int hip_leaves_combine(const struct hip *h, const struct be_plan *p, int op);
struct combine_args hip_combine_args(const struct hip *h, const struct be_plan *p, int op,
                                     size_t row);

#endif
