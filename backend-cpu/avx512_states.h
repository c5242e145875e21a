/* avx512_states.h: the vectors of states_loops.h in AVX-512. Included by avx512.c alone. */
#ifndef BACKEND_CPU_AVX512_STATES_H
#define BACKEND_CPU_AVX512_STATES_H

enum { VEC_LANES = 16 };
typedef __m512 vec;
#define vec_load _mm512_loadu_ps
#define vec_store _mm512_storeu_ps
#define vec_set1 _mm512_set1_ps
#define vec_add _mm512_add_ps
#define vec_sub _mm512_sub_ps
#define vec_mul _mm512_mul_ps
#define vec_exp(x) exp16(x, 0)
#define vec_max _mm512_max_ps
#define vec_fma _mm512_fmadd_ps

ALWAYS_INLINE vec vec_silu(vec x)
{
    vec e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), x), 1);
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

#include "backend-cpu/choose_loops.h"

static void avx512_conv(const struct conv_task *t) { states_conv(t); }
static void avx512_delta_prepare(const struct delta_inputs *t) { states_delta_prepare(t); }
static void avx512_delta(const struct delta_task *t) { states_delta(t); }
static void avx512_choose(const struct choose_task *t) { states_choose(t); }

const struct state_kernels avx512_states = {avx512_conv, avx512_delta_prepare, avx512_delta,
                                            avx512_choose};

#endif
