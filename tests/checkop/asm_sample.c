/* asm_sample.c: small loops, one as it should be and one with each fault that asm.c must find in
 * the disassembly. */
void sample_good(float *y, const float *x, long n);
void sample_spill(float *y, const float *x, long n);
void sample_call(float *y, const float *x, long n);
void sample_division(float *y, const float *x, long n);

#if defined(__x86_64__)

#include <immintrin.h>
typedef __m256 vec;
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define DIVIDE(a, b) _mm256_div_ps(a, b)
#define ALL_VECTORS                                                                                \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",       \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

void sample_gather(float *y, const float *x, long n);
void sample_gather(float *y, const float *x, long n)
{
    vec a = LOAD(y);
    for (long i = 0; i < n; i += 8)
        a = FMA(_mm256_i32gather_ps(x, _mm256_loadu_si256((const void *)(x + i)), 4), LOAD(x + i),
                a);
    STORE(y, a);
}

#elif defined(__aarch64__)

#include <arm_neon.h>
typedef float32x4_t vec;
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define DIVIDE(a, b) vdivq_f32(a, b)
#define ALL_VECTORS                                                                                \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
        "v28", "v29", "v30", "v31"

#endif

#if defined(__x86_64__) || defined(__aarch64__)

void sample_good(float *y, const float *x, long n)
{
    vec a = LOAD(y);
    for (long i = 0; i < n; i += 8) a = FMA(LOAD(x + i), LOAD(x + i + n), a);
    STORE(y, a);
}

/* Between two iterations no vector register is left to keep the sum in. */
void sample_spill(float *y, const float *x, long n)
{
    vec a = LOAD(y);
    for (long i = 0; i < n; i += 8) {
        a = FMA(LOAD(x + i), LOAD(x + i + n), a);
        __asm__ volatile("" ::: ALL_VECTORS);
    }
    STORE(y, a);
}

__attribute__((noinline)) static void callee(float *y) { __asm__ volatile("" ::"r"(y) : "memory"); }

void sample_call(float *y, const float *x, long n)
{
    for (long i = 0; i < n; i += 8) {
        STORE(y, FMA(LOAD(x + i), LOAD(x + i + n), LOAD(y)));
        callee(y);
    }
}

void sample_division(float *y, const float *x, long n)
{
    vec a = LOAD(y);
    for (long i = 0; i < n; i += 8) a = FMA(LOAD(x + i), DIVIDE(LOAD(x + i + n), a), a);
    STORE(y, a);
}

#endif
