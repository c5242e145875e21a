/* vnni.c: variant "vnni": AVX-512 with its four-way int8 dot product. Empty on other architectures.
 */
#if defined(__x86_64__)

#include "backend-cpu/avx512.h"

static const char *vnni_unusable(void)
{
    __builtin_cpu_init();
    const char *why = cpu_avx512.unusable();
    return why                                    ? why
           : __builtin_cpu_supports("avx512vnni") ? NULL
                                                  : "this processor has no AVX-512 VNNI";
}

/* In assembly: with the intrinsic, gcc 12 copies and spills accumulators in every iteration. The
 * intrinsic is for tests/emulators/immintrin, which compiles this file for processors without the
 * instruction. */
ALWAYS_INLINE __m512i dot_vnni(__m512i acc, __m512i codes, __m512i digits)
{
#ifdef __AVX512VNNI__
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(codes), "v"(digits));
    return acc;
#else
    return _mm512_dpbusd_epi32(acc, codes, digits);
#endif
}

#include "backend-cpu/vnni_attend.h"

/* Each is a function of its own, for gcc's register allocation. */
#define ROWS(digits, m)                                                                            \
    NOT_INLINE void rows_##digits##_##m(const struct q4i_call *c, int p)                           \
    {                                                                                              \
        q4i_rows(c, p, digits, m, dot_vnni);                                                       \
    }
ROWS(1, 2)
ROWS(1, 3)
ROWS(1, 4)
ROWS(1, 5)
ROWS(1, 6)
ROWS(1, 7)
ROWS(1, 8)
ROWS(2, 2)
ROWS(2, 3)
ROWS(2, 4)
ROWS(2, 5)

/* With two digits, 6 to 8 rows gain little (docs/tried-cpu.md) for the size of their functions. */
enum { FEW_ROWS_OF_TWO = 5 };

void vnni_q4i(const struct linear *w, const struct q4_digits *x, float *y, int p0, int p1,
              float *scratch)
{
    static void (*const rows[][FEW_ROWS + 1])(const struct q4i_call *c, int p) = {
        {[2] = rows_1_2, rows_1_3, rows_1_4, rows_1_5, rows_1_6, rows_1_7, rows_1_8},
        {[2] = rows_2_2, rows_2_3, rows_2_4, rows_2_5}};
    const struct q4i_call c = {w, x, y, p0, p1};
    if (!takes_few(w, x, x->n_digits == 2 ? FEW_ROWS_OF_TWO : FEW_ROWS)) {
        q4i_512(&c, scratch, 12, 1, dot_vnni);
        return;
    }
    for (int p = p0; p < p1; p++) rows[x->n_digits - 1][x->rows](&c, p);
}

const struct cpu_kernels cpu_vnni = {
    .name = "vnni",
    .unusable = vnni_unusable,
    .q4 = avx512_q4,
    .quantize = avx512_quantize,
    .q4i = vnni_q4i,
    .dense = avx512_dense,
    .norm = avx512_norm,
    .layer_norm = avx512_layer_norm,
    .add = avx512_add,
    .rope = avx512_rope,
    .attend = vnni_attend,
    .merge = avx512_merge,
    .glu = avx512_glu,
    .softcap = avx512_softcap,
    .cached_bytes = CACHED_BYTES,
    .states = &avx512_states,
    .copy_digits = digits_copy,
    .scatter = avx512_scatter,
    .route = avx512_route,
    .mix = avx512_mix,
    .sums = avx512_sums,
    .unpack = avx512_unpack,
};

#else
typedef int translation_unit_is_not_empty;
#endif
