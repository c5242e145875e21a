/* avx2_states.h: the vectors of states_loops.h in AVX2. Included by avx2.c alone. */
#ifndef BACKEND_CPU_AVX2_STATES_H
#define BACKEND_CPU_AVX2_STATES_H

enum { VEC_LANES = 8 };
typedef __m256 vec;
#define vec_load _mm256_loadu_ps
#define vec_store _mm256_storeu_ps
#define vec_set1 _mm256_set1_ps
#define vec_add _mm256_add_ps
#define vec_sub _mm256_sub_ps
#define vec_mul _mm256_mul_ps
#define vec_exp exp8
#define vec_max _mm256_max_ps
#define vec_fma _mm256_fmadd_ps

ALWAYS_INLINE vec vec_silu(vec x)
{
    vec e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), x));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

#include "backend-cpu/choose_loops.h"

static void avx2_conv(const struct conv_task *t) { states_conv(t); }
static void avx2_delta_prepare(const struct delta_inputs *t) { states_delta_prepare(t); }
static void avx2_delta(const struct delta_task *t) { states_delta(t); }
static void avx2_choose(const struct choose_task *t) { states_choose(t); }

static const struct state_kernels avx2_states = {avx2_conv, avx2_delta_prepare, avx2_delta,
                                                 avx2_choose};

#endif
