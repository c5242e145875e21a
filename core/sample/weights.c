#include "core/sample/weights.h"
#include "core/sample/exp_lanes.h"

/* 2^-f = 1 - f q(f) for f in [0, 1]: q [DEGREE] in units of 2^-32, signs in turn, a minimax fit
 * with a relative error of 4.4e-11 */
enum { DEGREE = 7 };
static const uint64_t q_of[DEGREE] = {2977044458u, 1031764650u, 238385494u, 41298234u,
                                      5702267u,    632021u,     46333u};
static const uint64_t LOG2_E = 3098164009u; /* 2^31 / ln 2 */

uint64_t weights_of(int32_t depth)
{
    uint64_t t = (uint32_t)depth * LOG2_E, f = (t >> 25) & UINT32_MAX, q = q_of[DEGREE - 1];
    for (int i = DEGREE - 2; i >= 0; i--) q = q_of[i] - (q * f >> 32);
    return (((1ull << 32) - (q * f >> 32)) << 12) >> (t >> 57);
}

static void weigh_each(const float *x, int n, const struct weighing *w, int32_t *depth,
                       uint64_t *weight)
{
    for (int i = 0; i < n; i++) {
        int32_t d = weights_depth(x[i], w->max, w->scale);
        depth[i] = d > w->most ? WEIGHTS_DEEPEST : d;
        weight[i] = weights_of(depth[i]);
    }
}

#if defined(__x86_64__)
/* Weights of depths, 64-bit numbers in the lanes of a vector: weights_of in each. MULTIPLY is the
 * instruction for products of the low halves. */
typedef uint64_t of_four __attribute__((vector_size(32)));
typedef uint64_t of_eight __attribute__((vector_size(64)));
#define WEIGH(NAME, OF_LANES, TYPE, VECTOR, MULTIPLY)                                              \
    OF_LANES TYPE NAME(TYPE depth)                                                                 \
    {                                                                                              \
        const TYPE none = {0};                                                                     \
        TYPE t = (TYPE)MULTIPLY((VECTOR)depth, (VECTOR)(none + LOG2_E));                           \
        TYPE f = (t >> 25) & UINT32_MAX, q = none + q_of[DEGREE - 1];                              \
        for (int i = DEGREE - 2; i >= 0; i--)                                                      \
            q = q_of[i] - ((TYPE)MULTIPLY((VECTOR)q, (VECTOR)f) >> 32);                            \
        q = (1ull << 32) - ((TYPE)MULTIPLY((VECTOR)q, (VECTOR)f) >> 32);                           \
        return (q << 12) >> (t >> 57);                                                             \
    }
WEIGH(weigh_four, OF_FOURS, of_four, __m256i, _mm256_mul_epu32)
WEIGH(weigh_eight, OF_EIGHTS, of_eight, __m512i, _mm512_mul_epu32)
#undef WEIGH

__attribute__((target("avx2"))) static int
weigh_fours(const float *x, int n, const struct weighing *w, int32_t *depth, uint64_t *weight)
{
    const __m256 deepest = _mm256_set1_ps((float)WEIGHTS_DEEPEST);
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 y = _mm256_sub_ps(_mm256_set1_ps(w->max), _mm256_loadu_ps(x + i));
        y = _mm256_min_ps(_mm256_mul_ps(y, _mm256_set1_ps(w->scale)), deepest);
        __m256i d = _mm256_cvttps_epi32(y), out = _mm256_cmpgt_epi32(d, _mm256_set1_epi32(w->most));
        d = _mm256_blendv_epi8(d, _mm256_set1_epi32(WEIGHTS_DEEPEST), out);
        _mm256_storeu_si256((__m256i *)(depth + i), d);
        for (int j = 0; j < 2; j++) {
            __m128i half = j ? _mm256_extracti128_si256(d, 1) : _mm256_castsi256_si128(d);
            _mm256_storeu_si256((__m256i *)(weight + i + 4 * j),
                                (__m256i)weigh_four((of_four)_mm256_cvtepu32_epi64(half)));
        }
    }
    return i;
}

__attribute__((target("avx512f,avx512dq"))) static int
weigh_eights(const float *x, int n, const struct weighing *w, int32_t *depth, uint64_t *weight)
{
    const __m512 deepest = _mm512_set1_ps((float)WEIGHTS_DEEPEST);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 y = _mm512_sub_ps(_mm512_set1_ps(w->max), _mm512_loadu_ps(x + i));
        y = _mm512_min_ps(_mm512_mul_ps(y, _mm512_set1_ps(w->scale)), deepest);
        __m512i d = _mm512_cvttps_epi32(y);
        __mmask16 out = _mm512_cmpgt_epi32_mask(d, _mm512_set1_epi32(w->most));
        d = _mm512_mask_mov_epi32(d, out, _mm512_set1_epi32(WEIGHTS_DEEPEST));
        _mm512_storeu_si512(depth + i, d);
        __m512i a = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(d)),
                b = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(d, 1));
        _mm512_storeu_si512(weight + i, (__m512i)weigh_eight((of_eight)a));
        _mm512_storeu_si512(weight + i + 8, (__m512i)weigh_eight((of_eight)b));
    }
    return i;
}
#endif

int weights_row_by(int lanes, const float *logits, int n, const struct weighing *w, int32_t *depth,
                   uint64_t *weight)
{
    int i = 0;
    if (lanes != 1 && !(lanes > 2 && logits_has_lanes(lanes))) return -1;
#if defined(__x86_64__)
    if (lanes == 8) i = weigh_eights(logits, n, w, depth, weight);
    if (lanes == 4) i = weigh_fours(logits, n, w, depth, weight);
#endif
    weigh_each(logits + i, n - i, w, depth + i, weight + i);
    return 0;
}

uint64_t weights_row(const float *logits, int n, const struct weighing *w, int32_t *depth,
                     uint64_t *weight)
{
    uint64_t sum = 0;
    int lanes = logits_lanes();
    (void)weights_row_by(lanes > 2 ? lanes : 1, logits, n, w, depth, weight);
    for (int i = 0; i < n; i++) sum += weight[i];
    return sum;
}
