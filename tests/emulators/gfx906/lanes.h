/* How the lane files are written. Each is compiled twice, for any processor and for AVX2, FMA and
 * F16C; the table symbol is given by the Makefile (-DLANE_TABLE=...), decode.c takes the one that
 * the processor can run. Loops have no dependence between lanes: the destination is a source row
 * itself or another row, never a shifted one. */
#ifndef LANES_H
#define LANES_H
#include "gpu.h"
#include "numeric.h"

#define EACH_LANE _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++)
#define ROWS uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c
#define UNUSED_ROWS (void)a, (void)b, (void)c
/* An operation on 32-bit patterns: A, B, C are the sources of this lane. */
#define LANE(name, expr)                                                                           \
    static void name(ROWS)                                                                         \
    {                                                                                              \
        UNUSED_ROWS;                                                                               \
        EACH_LANE d[l] = (uint32_t)(expr);                                                         \
    }
#define A a[l]
#define B b[l]
#define C c[l]
#define SA ((int32_t)a[l])
#define SB ((int32_t)b[l])
#define SC ((int32_t)c[l])
/* fp32 */
#define FA f32(a[l])
#define FB f32(b[l])
#define FC f32(c[l])
/* fp16 */
#define HA half(a[l])
#define HB half(b[l])
#define HC half(c[l])
/* 64 bit */
#define QA join(a, l)
#define QB join(b, l)
#define QC join(c, l)
#define DA f64(join(a, l))
#define DB f64(join(b, l))
#define DC f64(join(c, l))
#define LANE64(name, expr)                                                                         \
    static void name(ROWS)                                                                         \
    {                                                                                              \
        UNUSED_ROWS;                                                                               \
        for (int l = 0; l < LANES; l++) split(d, l, (uint64_t)(expr));                             \
    }
#define MASK(name, expr)                                                                           \
    static uint64_t name(const uint32_t *a, const uint32_t *b)                                     \
    {                                                                                              \
        uint64_t r = 0;                                                                            \
        (void)a, (void)b;                                                                          \
        for (int l = 0; l < LANES; l++) r |= (uint64_t)((expr) != 0) << l;                         \
        return r;                                                                                  \
    }

extern const struct op LANE_TABLE[];
#endif
