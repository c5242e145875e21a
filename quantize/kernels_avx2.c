/* kernels_avx2.c: AVX2 with FMA. */
#ifdef __AVX2__
#include <immintrin.h>

enum { F32_LANES = 8, F64_LANES = 4, TILE_I = 4 };
typedef __m256 f32v;
typedef __m256d f64v;
#define f32_set _mm256_set1_ps
#define f32_load _mm256_loadu_ps
#define f32_store _mm256_storeu_ps
#define f32_add _mm256_add_ps
#define f32_sub _mm256_sub_ps
#define f32_fma _mm256_fmadd_ps
#define f64_set _mm256_set1_pd
#define f64_load _mm256_loadu_pd
#define f64_store _mm256_storeu_pd
#define f64_add _mm256_add_pd
#define f64_sub _mm256_sub_pd
#define f64_fma _mm256_fmadd_pd
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
#include "quantize/kernels_loops.h"
#else
typedef int kernels_avx2_none;
#endif
