/* kernels_avx512.c: AVX-512. */
#ifdef __AVX512F__
#include <immintrin.h>

enum { F32_LANES = 16, F64_LANES = 8, TILE_I = 8 };
typedef __m512 f32v;
typedef __m512d f64v;
#define f32_set _mm512_set1_ps
#define f32_load _mm512_loadu_ps
#define f32_store _mm512_storeu_ps
#define f32_add _mm512_add_ps
#define f32_sub _mm512_sub_ps
#define f32_fma _mm512_fmadd_ps
#define f64_set _mm512_set1_pd
#define f64_load _mm512_loadu_pd
#define f64_store _mm512_storeu_pd
#define f64_add _mm512_add_pd
#define f64_sub _mm512_sub_pd
#define f64_fma _mm512_fmadd_pd
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#include "quantize/kernels_loops.h"
#else
typedef int kernels_avx512_none;
#endif
