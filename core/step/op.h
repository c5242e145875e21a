/* op.h: the operations of a step: a constant array over numbered buffers.
 * An architecture builds the array once (core/model/arch_*.c), a backend compiles it once and runs
 * it on every batch (core/step/backend.h). The CPU backend runs it operation by operation and so
 * defines what every operation computes; a backend may fuse operations whose results have no other
 * reader.
 * All buffers are row-major fp32 unless their operation says otherwise. */
#ifndef CORE_OP_H
#define CORE_OP_H

#include "core/model/linear.h"
#include "core/sample/logits.h"

#include <stddef.h>

/* OP_EMBED        out0 [rows][dim] = row token[r] of the table w0 [vocab][dim], times scale (0: as
 *                 it is; one fp32 product). A negative token stands for in0[-1 - token[r]] (in0:
 *                 int32 [logits], the choices of the step before); a negative choice gives any row
 * OP_ANGLES       out0 = cos, out1 = sin [rows][pairs] of pos[r] * w0 [pairs] (fp32 products),
 *                 times scale
 * OP_NORM         x = in0, updated in place: x += in1 (absent: not); out1 = x where in1 is there;
 *                 out0 = x / sqrt(mean(x^2) + eps) * w0 (RMSNorm, Zhang & Sennrich 2019)
 * OP_LINEAR       out_i [rows][out_i] = w_i in0 + bias_i for n linears of one input [rows][in]
 * OP_ROPE_STORE   q = in0 [rows][n_heads * head_dim] in place (out0), k = in1, v = in2
 *                 [rows][n_kv_heads * head_dim], cos = in3, sin = in4: heads of q and k get an
 *                 RMSNorm (w0, w1 [head_dim]; absent: none) and are rotated (RoPE, Su et al. 2021,
 *                 halves); k and v are stored in the KV cache at slot[r]
 * OP_ATTEND       out0 [rows][n_heads * head_dim] = softmax(s) v over the cached positions
 *                 p <= pos[r] with pos[r] - p < window (0: all); q = in0; s = scale q k, for a
 *                 softcap c > 0 (0: none) c tanh(s / c) of that (Gemma 2, Gemma Team 2024, 2)
 * OP_GLU          out0 = in0 = activation(in0) * in1, [rows][n] (GLU variants: Shazeer 2020)
 * OP_SOFTCAP      out0 = in0 = cap tanh(in0 / cap), [rows][n]
 * OP_GATHER       out0 [logits][dim] = row logit_row[i] of in0 [rows][dim]
 * OP_ARGMAX       out0 int32 [logits] = index of the largest of in0 [logits][vocab], the lowest on
 *                 ties; -1 when one is NaN or the largest is not finite
 * OP_TOP          out0 struct logits_entry [top][OP_TOP_ROOM] in order of ids = every logit of
 *                 in0[top_row[i]] that is one of the OP_TOP_KEPT largest of the ids up to its own
 *                 (on ties the lower id), and possibly others. An id of -1 ends a list with room
 *                 left, and is the first entry when there is no room for all. Undefined where a
 *                 logit is NaN */
enum op_kind {
    OP_EMBED,
    OP_ANGLES,
    OP_NORM,
    OP_LINEAR,
    OP_ROPE_STORE,
    OP_ATTEND,
    OP_GLU,
    OP_SOFTCAP,
    OP_GATHER,
    OP_ARGMAX,
    OP_TOP,
    OP_KINDS
};

enum { OP_TOP_KEPT = 64, OP_TOP_ROOM = 1024 };

/* x / (1 + e^-x); x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016), which is
 * x / (1 + e^-z) of z = x (GELU_1 + GELU_3 x^2) */
enum activation { ACTIVATION_SILU, ACTIVATION_GELU_TANH };

#define GELU_1 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define GELU_3 0x1.2444f2p-4f /* the same times 0.044715 */

enum { OP_INS = 5, OP_OUTS = 3, NO_BUFFER = -1, NO_WEIGHT = -1, OP_KEPT = 1 << 30 };

struct heads {
    int n_heads, n_kv_heads, head_dim; /* n_heads is a multiple of n_kv_heads */
};

struct op {
    enum op_kind kind;
    const char *name; /* for tables of times: "qkv", "down"; static */
    int layer;        /* -1: of no layer */
    int n;            /* OP_LINEAR: linears, 1 to OP_OUTS */
    int in[OP_INS], out[OP_OUTS], w[OP_OUTS]; /* buffers and weights of the plan, -1: none */
    int last[OP_OUTS]; /* the last operation that reads the result out[i]; its own index: none;
                          OP_KEPT: read after the step */
    int feeds;         /* first weight of the OP_LINEAR that is the first reader of out[0];
                          NO_WEIGHT: another operation is, or none. A slice of a plan keeps it */
    union {
        struct {
            float scale; /* 0: 1 */
        } embed;
        struct {
            float eps;
        } norm;
        struct {
            int pairs;
            float scale; /* on cos and sin */
        } angles;
        struct {
            struct heads heads;
            int kv; /* KV cache of the plan */
            float eps;
        } rope;
        struct {
            struct heads heads;
            int kv, window;
            float scale; /* on q.k */
            float softcap; /* 0: none */
        } attend;
        struct {
            enum activation activation;
        } glu;
        struct {
            float cap; /* > 0 */
        } softcap;
    } as;
};

/* Rows of a buffer: the tokens of the step, the rows of logits, the rows of OP_TOP. */
enum rows_of { ROWS_STEP, ROWS_LOGITS, ROWS_TOP };

struct buffer {
    const char *name; /* static */
    enum rows_of rows;
    size_t row_bytes;
};

/* A linear, or a vector [n]. */
struct weight {
    struct linear linear;
    const float *vector; /* [n]; NULL: a linear */
    int n;
};

/* Keys and values of one layer. */
struct kv_cache {
    int n_kv_heads, head_dim;
};

#endif
