/* probe_kernels.c: the loops whose speed is a peak. Enough independent sums to hide the latency of
 * the instruction; the empty asm keeps them, without a store. Each function is compiled for its own
 * instruction set. */
#include "bench/probe.h"
#include "bench/probe_kernels.h"

#include <stdint.h>
#include <string.h>

#define KEEP(x) __asm__ volatile("" : "+m"(x))
#if defined(__x86_64__)
#define KEEP_VECTOR(v) __asm__ volatile("" : : "v"(v))
#elif defined(__aarch64__)
#define KEEP_VECTOR(v) __asm__ volatile("" : : "w"(v))
#endif
/* Unrolled like the loops themselves: an index that is no constant would keep the sums in memory.
 */
#define KEEP_VECTORS(a)                                                                            \
    _Pragma("GCC unroll 32") for (size_t i_ = 0; i_ < sizeof(a) / sizeof(a[0]); i_++)              \
        KEEP_VECTOR(a[i_])

static int always(void) { return 1; }

/* --- portable: what the compiler makes of plain loops for the baseline of the architecture */
static double fp32_plain(long iterations)
{
    typedef float four __attribute__((vector_size(16)));
    four a[8], m = {0.999f, 0.999f, 0.999f, 0.999f}, sum = {0};
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = m * (float)i;
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) a[i] = a[i] * m + m;
    for (int i = 0; i < 8; i++) sum += a[i];
    KEEP(sum);
    return 8 * 8.0 * (double)iterations;
}

static double int8_plain(long iterations)
{
    int8_t x[64];
    uint8_t y[64];
    uint32_t sum = 0; /* wraps round */
    for (int i = 0; i < 64; i++) x[i] = (int8_t)(i - 32), y[i] = (uint8_t)(i % 16);
    for (long n = 0; n < iterations; n++) {
        KEEP(x);
        for (int i = 0; i < 64; i++) sum += (uint32_t)(x[i] * y[i]);
    }
    KEEP(sum);
    return 128.0 * (double)iterations;
}

static uint64_t read_plain(const void *p, size_t bytes)
{
    const uint64_t *v = p;
    uint64_t s[8] = {0};
    for (size_t i = 0; i < bytes / 8; i += 8)
        for (int k = 0; k < 8; k++) s[k] += v[i + (size_t)k];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOR(isa) __attribute__((target(isa)))

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

static int has_vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

FOR("avx2,fma") static double fp32_avx2(long iterations)
{
    __m256 a[12], m = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) a[i] = _mm256_set1_ps((float)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) a[i] = _mm256_fmadd_ps(a[i], m, b);
    KEEP_VECTORS(a);
    return 12 * 16.0 * (double)iterations;
}

/* vpmaddubsw and a 16-bit addition: codes of 4 bits allow some sums before they must be widened. As
 * assembly: the product of constants would be computed once. */
FOR("avx2") static double int8_avx2(long iterations)
{
    __m256i a[8], t, x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(1);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = _mm256_set1_epi16((short)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                    : "+x"(a[i]), "=&x"(t)
                    : "x"(x), "x"(y));
    KEEP_VECTORS(a);
    return 8 * 64.0 * (double)iterations;
}

FOR("avx512f") static double fp32_avx512(long iterations)
{
    __m512 a[24], m = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#pragma GCC unroll 24
    for (int i = 0; i < 24; i++) a[i] = _mm512_set1_ps((float)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) a[i] = _mm512_fmadd_ps(a[i], m, b);
    KEEP_VECTORS(a);
    return 24 * 32.0 * (double)iterations;
}

FOR("avx512f,avx512bw") static double int8_avx512(long iterations)
{
    __m512i a[16], t, x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_set1_epi16((short)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                    : "+v"(a[i]), "=&v"(t)
                    : "v"(x), "v"(y));
    KEEP_VECTORS(a);
    return 16 * 128.0 * (double)iterations;
}

/* As assembly: with the intrinsic, gcc 12 copies the accumulators to and fro. */
FOR("avx512f,avx512vnni") static double int8_vnni(long iterations)
{
    __m512i a[16], x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_set1_epi32(i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) __asm__("vpdpbusd %2, %1, %0" : "+v"(a[i]) : "v"(x), "v"(y));
    KEEP_VECTORS(a);
    return 16 * 128.0 * (double)iterations;
}

static int has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}

FOR("avx2,avxvnni") static double int8_avx_vnni(long iterations)
{
    __m256i a[12], x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(1);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) a[i] = _mm256_set1_epi32(i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(a[i]) : "x"(x), "x"(y));
    KEEP_VECTORS(a);
    return 12 * 64.0 * (double)iterations;
}

/* The processor has tiles, the system saves them (XCR0), and it lets this process use them
 * (arch_prctl). */
static int has_amx(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d, xcr0, high;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0; /* OSXSAVE */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 25 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    return (xcr0 >> 17 & 3) == 3 && !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
}

/* Two by two tiles of 16 x 16 sums, as a kernel has them. */
FOR("amx-tile,amx-int8") static double int8_amx(long iterations)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64)));
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) config.rows[i] = 16, config.row_bytes[i] = 64;
    __asm__ volatile(
        ""
        :
        : "r"(&config)
        : "memory"); /* gcc 12 believes that 8 bytes of it are read and leaves out the rest */
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (long n = 0; n < iterations; n++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_release();
    return 4 * 2.0 * 16 * 16 * 64 * (double)iterations;
}

FOR("avx2") static uint64_t read_avx2(const void *p, size_t bytes)
{
    const __m256i *v = p;
    __m256i s[8];
    for (int k = 0; k < 8; k++) s[k] = _mm256_setzero_si256();
    for (size_t i = 0; i < bytes / 32; i += 8)
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) s[k] = _mm256_add_epi64(s[k], _mm256_load_si256(v + i + k));
    KEEP_VECTORS(s);
    return 0;
}

uint64_t probe_read(const void *p, size_t bytes)
{
    return has_avx2() ? read_avx2(p, bytes) : read_plain(p, bytes);
}

#elif defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

static double fp32_neon(long iterations)
{
    float32x4_t a[24], m = vdupq_n_f32(0.999f);
#pragma GCC unroll 24
    for (int i = 0; i < 24; i++) a[i] = vdupq_n_f32((float)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) a[i] = vfmaq_f32(a[i], m, m);
    KEEP_VECTORS(a);
    return 24 * 8.0 * (double)iterations;
}

/* As assembly: the product of constants would be computed once. */
static double int8_neon(long iterations)
{
    int16x8_t a[16];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(1);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = vdupq_n_s16((int16_t)i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 8
        for (int i = 0; i < 16; i += 2) {
            __asm__("smlal %0.8h, %1.8b, %2.8b" : "+w"(a[i]) : "w"(x), "w"(y));
            __asm__("smlal2 %0.8h, %1.16b, %2.16b" : "+w"(a[i + 1]) : "w"(x), "w"(y));
        }
    KEEP_VECTORS(a);
    return 16 * 16.0 * (double)iterations;
}

static int has_dotprod(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }

__attribute__((target("arch=armv8.2-a+dotprod"))) static double int8_dotprod(long iterations)
{
    int32x4_t a[24];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(1);
#pragma GCC unroll 24
    for (int i = 0; i < 24; i++) a[i] = vdupq_n_s32(i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) a[i] = vdotq_s32(a[i], x, y);
    KEEP_VECTORS(a);
    return 24 * 32.0 * (double)iterations;
}

static int has_i8mm(void) { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }

__attribute__((target("arch=armv8.2-a+i8mm"))) static double int8_i8mm(long iterations)
{
    int32x4_t a[24];
    int8x16_t x = vdupq_n_s8(3), y = vdupq_n_s8(1);
#pragma GCC unroll 24
    for (int i = 0; i < 24; i++) a[i] = vdupq_n_s32(i);
    for (long n = 0; n < iterations; n++)
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++) a[i] = vmmlaq_s32(a[i], x, y);
    KEEP_VECTORS(a);
    return 24 * 64.0 * (double)iterations;
}

uint64_t probe_read(const void *p, size_t bytes) { return read_plain(p, bytes); }

#else

uint64_t probe_read(const void *p, size_t bytes) { return read_plain(p, bytes); }

#endif

const struct probe_peak probe_peaks[] = {
    {"plain", PROBE_FP32, always, fp32_plain},
#if defined(__x86_64__)
    {"avx2", PROBE_FP32, has_avx2, fp32_avx2},
    {"avx512", PROBE_FP32, has_avx512, fp32_avx512},
#elif defined(__aarch64__)
    {"neon", PROBE_FP32, always, fp32_neon},
#endif
    {"plain", PROBE_INT8, always, int8_plain},
#if defined(__x86_64__)
    {"avx2", PROBE_INT8, has_avx2, int8_avx2},
    {"avxvnni", PROBE_INT8, has_avx_vnni, int8_avx_vnni},
    {"avx512", PROBE_INT8, has_avx512, int8_avx512},
    {"vnni", PROBE_INT8, has_vnni, int8_vnni},
    {"amx", PROBE_INT8, has_amx, int8_amx},
#elif defined(__aarch64__)
    {"neon", PROBE_INT8, always, int8_neon},
    {"dotprod", PROBE_INT8, has_dotprod, int8_dotprod},
    {"i8mm", PROBE_INT8, has_i8mm, int8_i8mm},
#endif
    {0},
};
