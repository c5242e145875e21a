/* neon_states.h: the vectors of states_loops.h in NEON. Included by neon.c alone. */
#ifndef BACKEND_CPU_NEON_STATES_H
#define BACKEND_CPU_NEON_STATES_H

enum { VEC_LANES = 4 };
typedef float32x4_t vec;
#define vec_load vld1q_f32
#define vec_store vst1q_f32
#define vec_set1 vdupq_n_f32
#define vec_add vaddq_f32
#define vec_sub vsubq_f32
#define vec_mul vmulq_f32
#define vec_exp exp4
#define vec_max vmaxnmq_f32
#define vec_fma(a, b, c) vfmaq_f32(c, a, b)

ALWAYS_INLINE vec vec_silu(vec x)
{
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), exp4(vsubq_f32(vdupq_n_f32(0), x))));
}

#include "backend-cpu/choose_loops.h"

static void neon_conv(const struct conv_task *t) { states_conv(t); }
static void neon_delta_prepare(const struct delta_inputs *t) { states_delta_prepare(t); }
static void neon_delta(const struct delta_task *t) { states_delta(t); }
static void neon_choose(const struct choose_task *t) { states_choose(t); }

const struct state_kernels neon_states = {neon_conv, neon_delta_prepare, neon_delta, neon_choose};

#endif
