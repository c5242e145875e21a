/* hip_attend.h: attention, rotation and storage of keys and values, open pages of KV_INT4. Must not
 * know: linears. */
#ifndef BACKEND_HIP_HIP_ATTEND_H
#define BACKEND_HIP_HIP_ATTEND_H

#include "backend-hip/hip_plan.h"

/* ---- hip_attend.c */
/* Makes the tensor maps of a plan where its prompts need some. 0 or -1. */
int hip_map_values(struct hip *h, struct be_plan *p, struct err *e);
/* Attention. rope: the rotation that it includes, -1: none. leave: the next launch combines the KV
 * splits; only if hip_leaves_combine(). */
void hip_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave);
/* Whether attention can include its gate, the OP_GLU after it; both. */
int hip_can_attend_gated(const struct be_plan *p, int op);
void hip_attend_gated(struct hip *h, const struct be_plan *p, int op, int rope);

/* ---- hip_exact_attend.c */
/* Attention in the CPU's order. rope: the rotation that it includes where it can, hip_rope_rows()
 * elsewhere; -1: none. leave: the next launch combines the chunks, of a single decode row only. */
void hip_exact_attend(struct hip *h, const struct be_plan *p, int op, int rope, int leave);
/* Attention of the prompt rows, in the CPU's order unless --act f32 reads integers: kernels that
 * neighbouring rows share; in f16 and f32 for heads that no other kernel takes. */
void hip_attend_rows(struct hip *h, const struct attend_kernel_args *all);

/* ---- hip_rope.c */
struct hip_rope_rows {
    int op;
    int without_decode;  /* attention rotates and stores decode rows */
    int keys_of_prompts; /* attention rotates the queries of prompt rows */
};
/* Rotation of queries and keys, storage of keys and values, with the jobs of open pages. */
void hip_rope_rows(struct hip *h, const struct be_plan *p, const struct hip_rope_rows *r);
void hip_rope_store(struct hip *h, const struct be_plan *p, int op);

/* ---- hip_open.c */
/* Launches around the stores of an OP_ROPE_STORE. The first copies pages that the step goes beyond
 * from their seats. The second packs those that the step fills; by_attention: attention packs those
 * of decode rows; by_pages: nvidia/rope_pages.hip packs those whose rows are all prompt rows of
 * this step */
void hip_open_begin(struct hip *h, const struct be_plan *p, int op);
void hip_open_pack(struct hip *h, const struct be_plan *p, int op, int by_attention, int by_pages);

#endif
