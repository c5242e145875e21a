#include "core/sample/weights.h"
#include "core/sample/exp_lanes.h"

/* 2^-f = 1 - f q(f) for f in [0, 1]: q [DEGREE] in units of 2^-32, signs in turn, a minimax fit
 * with a relative error of 4.4e-11 */
enum { DEGREE = 7 };
#define Q0 2977044458u
#define Q1 1031764650u
#define Q2 238385494u
#define Q3 41298234u
#define Q4 5702267u
#define Q5 632021u
#define Q6 46333u
static const uint64_t LOG2_E = 3098164009u; /* 2^31 / ln 2 */

uint64_t weights_of(int32_t depth)
{
    static const uint32_t q_of[DEGREE] = {Q0, Q1, Q2, Q3, Q4, Q5, Q6};
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
/* Four depths as 64-bit numbers. */
OF_FOURS __m256i weigh_four(__m256i d)
{
    const __m256i one = _mm256_set1_epi64x(1ll << 32), low = _mm256_set1_epi64x(UINT32_MAX);
    __m256i t = _mm256_mul_epu32(d, _mm256_set1_epi64x((long long)LOG2_E));
    __m256i f = _mm256_and_si256(_mm256_srli_epi64(t, 25), low), q = _mm256_set1_epi64x(Q6);
#define STEP(c)                                                                                    \
    q = _mm256_sub_epi64(_mm256_set1_epi64x(c), _mm256_srli_epi64(_mm256_mul_epu32(q, f), 32))
    STEP(Q5);
    STEP(Q4);
    STEP(Q3);
    STEP(Q2);
    STEP(Q1);
    STEP(Q0);
#undef STEP
    q = _mm256_sub_epi64(one, _mm256_srli_epi64(_mm256_mul_epu32(q, f), 32));
    return _mm256_srlv_epi64(_mm256_slli_epi64(q, 12), _mm256_srli_epi64(t, 57));
}

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
                                weigh_four(_mm256_cvtepu32_epi64(half)));
        }
    }
    return i;
}

OF_EIGHTS __m512i weigh_eight(__m512i d)
{
    const __m512i one = _mm512_set1_epi64(1ll << 32), low = _mm512_set1_epi64(UINT32_MAX);
    __m512i t = _mm512_mul_epu32(d, _mm512_set1_epi64((long long)LOG2_E));
    __m512i f = _mm512_and_si512(_mm512_srli_epi64(t, 25), low), q = _mm512_set1_epi64(Q6);
#define STEP(c)                                                                                    \
    q = _mm512_sub_epi64(_mm512_set1_epi64(c), _mm512_srli_epi64(_mm512_mul_epu32(q, f), 32))
    STEP(Q5);
    STEP(Q4);
    STEP(Q3);
    STEP(Q2);
    STEP(Q1);
    STEP(Q0);
#undef STEP
    q = _mm512_sub_epi64(one, _mm512_srli_epi64(_mm512_mul_epu32(q, f), 32));
    return _mm512_srlv_epi64(_mm512_slli_epi64(q, 12), _mm512_srli_epi64(t, 57));
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
        _mm512_storeu_si512(weight + i, weigh_eight(a));
        _mm512_storeu_si512(weight + i + 8, weigh_eight(b));
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
