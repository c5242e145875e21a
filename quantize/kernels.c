/* kernels.c: plain C over short vectors, for processors without a file of their own, and the
 * choice. */
#include <math.h>
#include <string.h>

enum { F32_LANES = 4, F64_LANES = 2, TILE_I = 8 };
typedef float f32v __attribute__((vector_size(16)));
typedef double f64v __attribute__((vector_size(16)));

static inline f32v f32_load(const float *p)
{
    f32v v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void f32_store(float *p, f32v v) { memcpy(p, &v, sizeof v); }
static inline f64v f64_load(const double *p)
{
    f64v v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void f64_store(double *p, f64v v) { memcpy(p, &v, sizeof v); }
#define f32_set(x) ((f32v){0} + (x))
#define f32_add(a, b) ((a) + (b))
#define f32_sub(a, b) ((a) - (b))
#define f64_set(x) ((f64v){0} + (x))
#define f64_add(a, b) ((a) + (b))
#define f64_sub(a, b) ((a) - (b))
#ifdef __aarch64__
#include <arm_neon.h>
#define f32_fma(a, b, c) ((f32v)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define f64_fma(a, b, c) ((f64v)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
static inline f32v f32_fma(f32v a, f32v b, f32v c)
{
    for (int i = 0; i < F32_LANES; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
static inline f64v f64_fma(f64v a, f64v b, f64v c)
{
    for (int i = 0; i < F64_LANES; i++) c[i] = fma(a[i], b[i], c[i]);
    return c;
}
#endif
#define KERNELS kernels_plain
#define KERNELS_NAME "plain"
#include "quantize/kernels_loops.h"

const struct quantize_kernels *quantize_kernels(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return &kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kernels_avx2;
#endif
    return &kernels_plain;
}
