/* op.h: the operations of a step: a constant array over numbered buffers.
 * An architecture builds the array once (core/model/arch_*.c), a backend compiles it once and runs
 * it on every batch (core/step/backend.h). The CPU backend runs it operation by operation and so
 * defines what every operation computes; a backend may fuse operations whose results have no other
 * reader.
 * All buffers are row-major fp32 unless their operation says otherwise. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include "core/step/linear.h"

#include <stddef.h>

/* OP_EMBED        out0 [rows][dim] = row token[r] of the table w0 [vocab][dim], times scale (0: as
 *                 it is; one fp32 product). A negative token stands for in0[-1 - token[r]] (in0:
 *                 int32 [logits], the choices of the step before); a negative choice gives any row
 * OP_ANGLES       out0 = cos, out1 = sin [rows][pairs] of pos[r] * w0 [pairs] (fp32 products),
 *                 times scale where w0 is not 0: a frequency of 0 is a pair that does not rotate
 * OP_NORM         x = in0, updated in place: x += in1 (absent: not); out1 = x where in1 is there;
 *                 out0 = x / sqrt(mean(x^2) + eps) * w0 (RMSNorm, Zhang & Sennrich 2019), or for
 *                 `centered` (x - mean) / sqrt(mean((x - mean)^2) + eps) * w0 + w1 (LayerNorm, Ba
 *                 et al. 2016; w1 absent: 0). With groups > 1 (then without in1) each row is that
 *                 many rows of n / groups elements, all with the same w0 [n / groups], or with
 *                 `own` weights w0 [n]
 * OP_ADD          out0 = in0 = (in0 + in1 g) scale f, [rows][n]. in1 absent: 0. g = 1 / (1 +
 *                 e^-in2) with in2 [rows][1], absent: 1. scale 0: 1. f = 1 + beta ln(1 +
 *                 floor((pos[r] + first) / original)), original 0: 1
 * OP_LINEAR       out_i [rows][out_i] = w_i in0 + bias_i for n linears of one input [rows][in]
 * OP_GROUP_SUMS   out0 [rows][n / group] = the sum of each group of in0 [rows][n]: lane l of 16
 *                 takes elements l, l + 16, .. from 0 on, then the lanes are folded 8, 4, 2, 1.
 *                 group: a multiple of 16
 * OP_ROUTE        the experts of each row (Shazeer et al. 2017): s = softmax or sigmoid of in0
 *                 [rows][experts]; the top_k largest of s + w0 (absent: s), on ties the lower
 *                 index. With kept_groups < groups only experts of those groups are chosen whose
 *                 two best of s + w0 have the largest sums (DeepSeek-V3, 2.1.2), with group_best
 *                 whose best one is largest (DeepSeek-V2, 2.2.1). out0 int32
 *                 [rows][top_k] = their indices, ascending; out1 [rows][top_k] = s of each, over
 *                 their sum if `normalize`, times scale (0: 1), times w1[expert] (absent: 1). No
 *                 expert has a capacity: no row is dropped. A row with NaN gives experts 0 ..
 *                 top_k - 1 with NaN
 * OP_EXPERTS      out_i [rows][top_k][out_i]: slot j of row r = w_i[in1[r][j]] x + bias for n
 *                 stacks of linears; x = in0[r] [in], or with `each` slot j of in0 [rows][top_k]
 *                 [in]. in1 int32 [rows][top_k]; absent (then with `each`): slot j takes w_i[j], so
 *                 that every head has a linear of its own. Every element has the bits of OP_LINEAR
 *                 with that expert
 * OP_MIX          out0 [rows][n] = sum over j of in1[r][j] * in0[r][j] ([rows][top_k][n]), j
 *                 ascending: a product, then fused multiply-adds
 * OP_CONV         out0 [rows][channels] = silu(sum over t of w0[c][t] x[pos - width + 1 + t][c]), a
 *                 causal convolution of each channel, t ascending: a product, then fused
 *                 multiply-adds, then one addition of w1[c] (absent: none); x = in0, positions
 *                 before the sequence are 0. `linear`: the sum without silu. The state of a
 *                 sequence is its last width - 1 rows of x, fp32 [width - 1][channels]
 * OP_DELTA        gated delta rule (Yang et al. 2025, 3), row by row: per value head h of a
 *                 sequence a state S [dk][dv], fp32. in0 [rows][2 nk dk + nv dv] = q, k, v of all
 *                 heads; q and k of key head h / (nv / nk) over sqrt(sum of squares + 1e-6), q
 *                 over sqrt(dk); g = exp(w0[h] softplus(in1[r][h] + w1[h])), beta = beta_scale
 *                 (0: 1) / (1 + e^-in2[r][h]): S = g S; u = beta (v - k S); S += k u; out0
 *                 [rows][nv dv] = q S. Sums over dk ascend, fused. With DELTA_SSM (Mamba-2, Dao &
 *                 Gu 2024, 7) q and k as they are; beta = softplus(in1[r][h] + w1[h]), in2 absent;
 *                 u = beta v; out0 = q S + w2[h] v, fused. With DELTA_CHANNELS (Kimi Delta
 *                 Attention, Kimi Linear, Kimi Team 2025, 3) element i of a head's keys has a decay
 *                 of its own: in1 [rows][nv dk], w1 [nv dk], g_i = exp(w0[h] softplus(in1[r][h dk +
 *                 i] + w1[h dk + i])) for row i of S. With DELTA_SCAN (Mamba, Gu & Dao 2023, 3.2),
 *                 of one head, q and k as they are; in1 [rows][dv], w1 [dv] (absent: 0), w2 [dv],
 *                 w0 [dk][dv]; beta_c = softplus(in1[r][c] + w1[c]); S_ic = exp(beta_c w0[i][c])
 *                 S_ic + k_i (beta_c v_c); out0_c = the sum of q_i S_ic + w2[c] v_c, fused. With
 *                 in3 and in4 in0 is q alone, in3 k, in4 v
 * OP_ROPE_STORE   q = in0 [rows][n_heads * head_dim] in place (out0), k = in1, v = in2
 *                 [rows][n_kv_heads * head_dim], cos = in3, sin = in4: heads of q and k get an
 *                 RMSNorm (w0, w1 [head_dim]; absent: none) and are rotated (RoPE, Su et al. 2021,
 *                 halves); k and v are stored in the KV cache at slot[r]. k and v absent: nothing
 *                 is stored. Kinds of keys may have q and k transformed once more (kv_format.h),
 *                 unless `ahead`.
 *                 Latent heads (below): out0 [rows][n_heads * head_dim], each head of it in0
 *                 [rows][n_heads * value_dim] and behind it in5 [rows][n_heads * rotated], rotated;
 *                 stored is in2 [rows][value_dim] and behind it in1 [rows][rotated], rotated; with
 *                 `joined` both are in1 = in2 [rows][head_dim]
 * OP_CHOOSE       the positions that rows attend to (DeepSeek Sparse Attention, DeepSeek-V3.2,
 *                 2.1): out0 int32 [rows][top_k], ascending = the top_k positions p <= pos[r] with
 *                 the largest I(p) = sum over h of in1[r][h] max(q_h k_p, 0), on ties the lower; q
 *                 = in0 [rows][n_heads * head_dim], k_p the key of latent heads in the cache, in1
 *                 [rows][n_heads]. Sums over elements and over h ascend, fused; NaN is below all.
 *                 Nothing is written for rows with pos[r] < top_k, which attend to all positions
 * OP_ATTEND       out0 [rows][n_heads * value_dim] = softmax(s) v over the cached positions
 *                 p <= pos[r] with pos[r] - p < window (0: all; < 0: p
 *                 in the same chunk of -window positions, Llama 4); q = in0; s = scale q k, for a
 *                 softcap c > 0 (0: none) c tanh(s / c) of that (Gemma 2, Gemma Team 2024, 2). The
 *                 sum of exponentials has one more term, e^w0[head] (absent: none), without a value
 *                 (attention sinks, gpt-oss). With bias_pairs, over integers (kv_format.h), q k of
 *                 position p has one more term, q R(p) b: a bias of keys that they were stored
 *                 without, rotated by RoPE (key_bias.h). w1 [n_kv_heads][bias_pairs][KEY_BIAS_ROW]:
 *                 of a pair d, d + head_dim / 2 of elements both elements of R(i) b at positions i
 *                 below KEY_BIAS_CHUNK, then d; w2 [chunks][head_dim / 2][2]: cos and sin of every
 *                 pair's angle at the first position of each chunk. x, y: the pair of the query,
 *                 transformed by kv_rotate back, less that angle: x cos + y sin and y cos - x sin;
 *                 the term is summed in fp32 pair by pair from 0, x then y, fused, and added to the
 *                 score. With `chosen` (of latent heads, window 0) rows with pos[r] >= chosen see
 *                 the positions in1 int32 [rows][chosen] alone, as if they were 0 .. chosen - 1
 * OP_GLU          out0 = in0 = activation(in0) * in1, [rows][n] (GLU variants: Shazeer 2020); in1
 *                 absent: the activation alone
 * OP_SOFTCAP      out0 = in0 = cap tanh(in0 / cap), [rows][n]
 * OP_GATHER       out0 [logits][dim] = row logit_row[i] of in0 [rows][dim]
 * OP_ARGMAX       out0 int32 [logits] = index of the largest of in0 [logits][vocab], the lowest on
 *                 ties; -1 when one is NaN or the largest is not finite
 * OP_TOP          out0 struct logits_entry [top][OP_TOP_ROOM] in order of ids = every logit of
 *                 in0[top_row[i]] that is one of the OP_TOP_KEPT largest of the ids up to its own
 *                 (on ties the lower id), and possibly others. An id of -1 ends a list with room
 *                 left, and is the first entry when there is no room for all. Undefined where a
 *                 logit is NaN
 * OP_SCORE        out0 struct logits_score [scores] = what log-probabilities need of the rows of
 *                 in0 [logits][vocab] in batch.score; in1 int32 [logits]: what OP_ARGMAX has found.
 *                 Undefined where that is -1
 * OP_SAMPLE       in1 = out0 int32 [logits]: what OP_ARGMAX has found; of the rows of batch.sample
 *                 becomes the token that is drawn of in0 [logits][vocab] which its mask leaves,
 *                 after the changes of batch.change; both may be made in in0 itself; -1 stays, and
 *                 comes where no finite logit is left. in2 (absent: no row of batch.sample has a
 *                 score): OP_SCORE's result, in which the logit becomes that of the token before
 *                 the changes
 * OP_EXCHANGE     of a plan of several places (split.h), which all compute it: out0 [rows][groups]
 *                 [width], where place q of `to` has it: columns at[q] .. at[q + 1] - 1 of each
 *                 group are place q's in0 [rows][groups][at[q + 1] - at[q]]; absent in0: it has
 *                 none
 * States: OP_CONV and OP_DELTA read the state of sequence s from slot state_from[s] (-1: zeros) of
 * their state and write it to slot state_to[s] after the sequence's last row of the step that is no
 * draft (batch.h).
 * Rows of a sequence are computed one after another, so results do not depend on where steps are
 * cut. */
enum op_kind {
    OP_EMBED,
    OP_ANGLES,
    OP_NORM,
    OP_ADD,
    OP_LINEAR,
    OP_GROUP_SUMS,
    OP_ROUTE,
    OP_EXPERTS,
    OP_MIX,
    OP_CONV,
    OP_DELTA,
    OP_ROPE_STORE,
    OP_CHOOSE,
    OP_ATTEND,
    OP_GLU,
    OP_SOFTCAP,
    OP_GATHER,
    OP_ARGMAX,
    OP_TOP,
    OP_SCORE,
    OP_SAMPLE,
    OP_EXCHANGE,
    OP_KINDS
};

enum { PLACES = 16 }; /* of a run, at most */

enum { KEY_BIAS_CHUNK = 256, KEY_BIAS_ROW = 2 * KEY_BIAS_CHUNK + 16 }; /* of OP_ATTEND's w1 */

enum { OP_TOP_KEPT = 64, OP_TOP_ROOM = 1024 };

/* A logit and its token id. */
struct logits_entry {
    float value;
    int32_t id;
};

enum { OP_SCORE_TOP = 20 };

/* Of a row of logits: the sum of exp(logit - max) in the order of logits_sum_exp (core/sample), the
 * largest logit, that of the token of batch_score.id, the token's place in descending order from 1
 * on, and the largest ones in this order, the lower id first on ties. */
struct logits_score {
    double sum;
    float max, logit;
    int32_t rank, n_top;
    struct logits_entry top[OP_SCORE_TOP]; /* [n_top] */
};

/* x / (1 + e^-x); x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016), which is
 * x / (1 + e^-z) of z = x (GELU_1 + GELU_3 x^2); 1 / (1 + e^-x); gpt-oss' SwiGLU: with a =
 * min(x, limit) and b = clamp(in1, -limit, limit), a / (1 + e^(-alpha a)) * (b + 1); xIELU (Huang &
 * Schlag 2024), without in1: of x > 0 x (p x + beta), else n (e^min(x, eps) - 1 - x) + beta x;
 * max(x, 0)^2 (So et al. 2021); x */
enum activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_SWIGLU_CLAMPED,
    ACTIVATION_XIELU,
    ACTIVATION_RELU2,
    ACTIVATION_NONE
};

struct xielu {
    float p, n, beta, eps; /* eps -0.1 to 0 */
};

/* e^x - 1 - x of -1/2 < x <= 0 as x^2 times this, from the factor of x^6 on: what is left out is
 * below 2^-24 of it */
#define XIELU_SERIES(X)                                                                            \
    X(1.0f / 40320) X(1.0f / 5040) X(1.0f / 720) X(1.0f / 120) X(1.0f / 24) X(1.0f / 6) X(0.5f)

enum delta_rule { DELTA_GATED, DELTA_SSM, DELTA_CHANNELS, DELTA_SCAN };

enum router_score { ROUTER_SOFTMAX, ROUTER_SIGMOID };
enum { ROUTE_MAX_EXPERTS = 1024, ROUTE_MAX_TOP = 64 }; /* of OP_ROUTE */

#define GELU_1 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define GELU_3 0x1.2444f2p-4f /* the same times 0.044715 */

enum { OP_INS = 6, OP_OUTS = 3, NO_BUFFER = -1, NO_WEIGHT = -1, OP_KEPT = 1 << 30 };

struct heads {
    int n_heads, n_kv_heads; /* n_heads is a multiple of n_kv_heads */
    int head_dim;            /* elements of a query and of a key */
    int value_dim;           /* of a value; 0: head_dim */
    int rotated;             /* elements at the end that are rotated; 0: all */
};

/* Values as long as keys, all of which is rotated. */
static inline int heads_are_plain(const struct heads *h)
{
    return (!h->value_dim || h->value_dim == h->head_dim) &&
           (!h->rotated || h->rotated == h->head_dim);
}

/* Multi-head latent attention (DeepSeek-V2, 2.1): one key for all heads, a latent and behind it a
 * part that is rotated; the latent is the value, too. Queries and results of heads are brought into
 * the latent's space and out of it by linears of their own. */
static inline int heads_are_latent(const struct heads *h)
{
    return h->n_kv_heads == 1 && h->value_dim > 0 && h->rotated > 0 && h->rotated % 4 == 0 &&
           h->value_dim % 4 == 0 && h->value_dim + h->rotated == h->head_dim;
}

/* Elements of a value. */
static inline int heads_value_dim(const struct heads *h)
{
    return h->value_dim ? h->value_dim : h->head_dim;
}

/* The first position that a row at pos attends to. */
static inline int op_first_seen(int pos, int window)
{
    if (window < 0) return pos - pos % -window;
    return window && pos - window + 1 > 0 ? pos - window + 1 : 0;
}

struct op {
    enum op_kind kind;
    const char *name; /* for tables of times: "qkv", "down"; static */
    int layer;        /* -1: of no layer */
    int n;            /* OP_LINEAR: linears, 1 to OP_OUTS */
    int in[OP_INS], out[OP_OUTS], w[OP_OUTS]; /* buffers and weights of the plan, -1: none */
    int last[OP_OUTS]; /* the last operation that reads the result out[i]; its own index: none;
                          OP_KEPT: read after the step */
    union {
        struct {
            float scale; /* 0: 1 */
        } embed;
        struct {
            float eps;
            int groups;   /* 0: 1 */
            int centered; /* LayerNorm */
            int own;      /* groups have weights of their own */
        } norm;
        struct {
            float scale; /* 0: 1 */
            float beta;
            int original; /* 0: no factor of positions */
            int first;
        } add;
        struct {
            int group;
        } sums;
        struct {
            int n_experts, top_k;
            enum router_score score;
            int normalize, groups, kept_groups, group_best; /* groups 0: 1 */
            float scale;                                    /* 0: 1 */
        } route;
        struct {
            int top_k, each;
        } experts;
        struct {
            int top_k;
        } mix;
        struct {
            int channels, width;
            int linear; /* no silu */
            int state;  /* state of the plan */
        } conv;
        struct {
            int key_heads, value_heads; /* value_heads is a multiple of key_heads */
            int key_dim, value_dim;
            enum delta_rule rule;
            float beta_scale; /* 0: 1 */
            int state;
        } delta;
        struct {
            int pairs;
            float scale; /* on cos and sin */
        } angles;
        struct {
            struct heads heads;
            int kv; /* KV cache of the plan */
            int step_set; /* which step pages the cache uses (kv_open.h): not those of another one
                             that an OP_ATTEND still reads */
            float eps;
            int ahead; /* rotation alone: a later one stores what becomes of the heads */
            int joined; /* the key of latent heads is in one buffer */
        } rope;
        struct {
            struct heads heads;
            int kv, step_set, top_k;
        } choose;
        struct {
            struct heads heads;
            int kv, window, step_set;
            float scale;    /* on q.k */
            float softcap;  /* 0: none */
            int bias_pairs; /* 0: keys are stored as they are */
            int chosen;     /* 0: all positions */
        } attend;
        struct {
            enum activation activation;
            float limit, alpha; /* ACTIVATION_SWIGLU_CLAMPED */
            struct xielu xielu; /* ACTIVATION_XIELU */
        } glu;
        struct {
            float cap; /* > 0 */
        } softcap;
        struct {
            int groups, n_places, place; /* place: the plan's own */
            unsigned to;                 /* bit q: place q receives */
            int at[PLACES + 1];
        } exchange;
    } as;
};

/* Numbers of a row and a value head of OP_DELTA: decays, and what multiplies values. */
static inline int delta_decays(const struct op *op)
{
    enum delta_rule rule = op->as.delta.rule;
    return rule == DELTA_CHANNELS ? op->as.delta.key_dim : rule != DELTA_SCAN;
}
static inline int delta_steps(const struct op *op)
{
    return op->as.delta.rule == DELTA_SCAN ? op->as.delta.value_dim : 1;
}

/* The cache that an operation stores or reads; -1: none. */
static inline int op_cache(const struct op *op)
{
    switch (op->kind) {
    case OP_ROPE_STORE: return op->as.rope.kv;
    case OP_CHOOSE: return op->as.choose.kv;
    case OP_ATTEND: return op->as.attend.kv;
    default: return -1;
    }
}

/* Rows of a buffer: the tokens of the step, the rows of logits, the rows of OP_TOP, of OP_SCORE. */
enum rows_of { ROWS_STEP, ROWS_LOGITS, ROWS_TOP, ROWS_SCORES };

struct buffer {
    const char *name; /* static */
    enum rows_of rows;
    size_t row_bytes;
};

/* A linear, a stack of linears, or a vector [n]. */
struct weight {
    struct linear linear;
    const float *vector; /* [n]; NULL: a linear */
    int n;
    int has_offsets; /* of a 4-bit linear: the weight behind it is the plain linear [out][n_groups]
                        of its offsets, which OP_GROUP_SUMS and an addition apply */
    const float *longer; /* [n] or NULL: takes the vector's place where sequences of the run may
                            have more than longer_from positions */
    int longer_from;
};

/* Keys and values of one layer. */
struct kv_cache {
    int n_kv_heads, head_dim;
    int value_dim; /* 0: head_dim; else the values are the first so many elements of the keys, which
                      are stored once */
};

static inline int kv_is_latent(const struct kv_cache *kv)
{
    return kv->value_dim && kv->value_dim < kv->head_dim;
}

/* What an operation keeps of a sequence from step to step, the same for any number of positions. */
struct state {
    size_t bytes;      /* of one sequence, a multiple of 4 */
    size_t kept_bytes; /* of one row of a draft: what it would change, a multiple of 4 */
};

enum { STATE_DRAFTS = 4 }; /* rows of drafts that a seat keeps */

#endif
