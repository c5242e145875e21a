/* checkop_fuse.c: fused = unfused, to the bit. Parts of a layer, as a model has them, are compiled
 * twice: as one plan, where a backend may fuse operations, and operation by operation, where it
 * cannot. All results that are read after the plan have the same bits in both: those of the last
 * operations always, the intermediate ones (normed rows, rotated queries, results of attention and
 * gating) in runs that keep them, and the pages of keys and values. A generated row by itself has
 * the bits that it has beside others. For the hip backend every pattern of
 * backend-hip/hip_patterns.c that the device has kernels for must have been launched.
 * Which result is good to which error is checked by the other operations of checkop. */
#include "tests/checkop/checkop_fuse.h"

#include "backend-hip/hip.h"
#include "core/base/dtype.h"
#include "core/sample/weights.h"
#include "core/step/kv_open.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const buffer_names[N_BUFFERS] = {"x",
                                                    "cos",
                                                    "sin",
                                                    "h of q, k, v",
                                                    "q",
                                                    "k",
                                                    "v",
                                                    "a",
                                                    "z",
                                                    "q, k, v of delta",
                                                    "result of conv",
                                                    "decay",
                                                    "beta",
                                                    "delta of o",
                                                    "h of gate, up",
                                                    "gate",
                                                    "up",
                                                    "scores of experts",
                                                    "ids of experts",
                                                    "weights of experts",
                                                    "gate of experts",
                                                    "up of experts",
                                                    "down of experts",
                                                    "gate of the shared expert",
                                                    "shared expert",
                                                    "delta of down",
                                                    "h of logits",
                                                    "gathered",
                                                    "logits",
                                                    "best",
                                                    "top",
                                                    "score"};

enum keep { KEEP_NONE, KEEP_ALL, KEEP_SOME, KEEPS };

static const char *const keep_names[KEEPS] = {"kept none", "kept all", "kept some"};
static const char *const format_names[] = {"4-bit", "4-bit of 32", "4-bit, f32 scales",
                                           "8-bit", "f16",         "bf16",
                                           "f32"};
static const char *const order_names[] = {"", ", permuted", ", permuted each"};

#define H64                                                                                        \
    {                                                                                              \
        4, 2, 64                                                                                   \
    }
#define H128                                                                                       \
    {                                                                                              \
        2, 1, 128                                                                                  \
    }
#define H36                                                                                        \
    {                                                                                              \
        4, 2, 36                                                                                   \
    }

#define SHARED_ONE (BIT(W_GATE) | BIT(W_UP) | BIT(W_DOWN))
#define OF_QKV (BIT(W_Q) | BIT(W_K) | BIT(W_V))

static const struct fuse_case cases[] = {
    /* whole layers */
    {1, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, 0},
    {1, WHOLE, 256, 384, H128, KV_F16, 0, 3, Q4_128, DENSE_F16, BIT(W_DOWN), ALIKE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 40, 3, Q4_32, 0, 0, IN_PLACE, 0},
    {0, WHOLE, 256, 384, H128, KV_F16, 300, 3, Q4_128, 0, 0, OWN, 0},
    {0, WHOLE, 256, 384, H64, KV_F32, 0, 3, Q4_F32, 0, 0, ALIKE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, DENSE_F16, BIT(W_K) | BIT(W_UP), IN_PLACE, 1},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, DENSE_F16, Q4_128, BIT(W_O), IN_PLACE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, DENSE_BF16, Q4_128, BIT(W_Q) | BIT(W_GATE), IN_PLACE,
     0},
    {0, WHOLE, 250, 370, H36, KV_F32, 0, 3, DENSE_F32, Q4_32, BIT(W_GATE) | BIT(W_UP), ALIKE, 1},
    {1, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, Q4_32, BIT(W_V) | BIT(W_UP), IN_PLACE, 0},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, Q4_128, BIT(W_HEAD), ALIKE, 0},
    /* attention without rotation before it, without a linear behind it, heads of other sizes */
    {1, ATTEND | O, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND | O, 256, 0, H36, KV_F32, 0, 0, Q4_32, 0, 0, ALIKE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H36, KV_F16, 20, 0, Q4_32, 0, 0, ALIKE, 0},
    {0, ROPE | ATTEND | O, 256, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H128, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 1},
    {0, ROPE | ATTEND | O, 256, 0, H128, KV_F32, 256, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 128, 0, {40, 8, 64}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    /* of all heads: a block merges 64 of 128 dimensions, 120 of 64, not more */
    {0, ROPE | ATTEND | O, 64, 0, {64, 8, 128}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {66, 6, 128}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {120, 2, 64}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {122, 2, 64}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    /* attributes that the kernels of several operations lack */
    {1, WHOLE, 256, 384, H64, KV_F16, 40, 3, Q4_128, 0, 0, IN_PLACE, SINKS | CLAMPED},
    {0, WHOLE, 256, 384, H128, KV_F16, 0, 3, Q4_128, 0, 0, ALIKE, SINKS | CENTERED | ADDED},
    {0, WHOLE, 256, 384, H36, KV_F32, 0, 3, Q4_32, 0, 0, ALIKE, Q_NORM | SINKS | ALONE},
    {0, WHOLE, 256, 384, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, QUERIES | SIGMOID},
    {0, ROPE | ATTEND | O, 64, 0, {64, 8, 128}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, SINKS},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 256}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {1, ROPE | ATTEND | O, 64, 0, {8, 1, 128}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {0, ROPE | ATTEND | O, 64, 0, {6, 2, 64}, KV_F16, 40, 0, Q4_128, 0, 0, ALIKE, Q_NORM},
    {0, ROPE | ATTEND, 64, 0, {18, 2, 256}, KV_F16, 300, 0, Q4_128, 0, 0, OWN, 0},
    {1, ROPE | ATTEND | O, 256, 0, H64, KV_INT8, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND, 256, 0, H128, KV_INT8, 300, 0, Q4_128, 0, 0, IN_PLACE, 0},
    /* so many heads, each with its own key: a chunk is a warp's (hopper/attend_warp.hip) */
    {1, ROPE | ATTEND | O, 64, 0, {16, 16, 128}, KV_INT8, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, WHOLE, 256, 384, H128, KV_INT8, 0, 3, Q4_128, 0, 0, OWN, SINKS},
    /* attention packs pages that decode rows fill */
    {1, ROPE | ATTEND | O, 256, 0, H64, KV_INT4, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, ROPE | ATTEND, 256, 0, {18, 1, 128}, KV_INT4, 300, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, ROPE | ATTEND | O, 64, 0, {16, 16, 128}, KV_INT4, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {1, ROPE | ATTEND | O, 64, 0, {12, 4, 128}, KV_INT4, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {1, ROPE | ATTEND | O, 64, 0, {16, 4, 128}, KV_INT8, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, WHOLE, 256, 384, H128, KV_INT4, 0, 3, Q4_128, 0, 0, OWN, SINKS},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 256}, KV_INT4, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {0, ROPE | ATTEND | O, 128, 0, {40, 2, 64}, KV_INT8, 20, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 256}, KV_INT8, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {0, ROPE | ATTEND | O, 256, 0, H36, KV_INT8, 0, 0, Q4_32, 0, 0, ALIKE, 0},
    {1, ROPE | ATTEND | O, 64, 0, {2, 1, 512}, KV_F16, 300, 0, Q4_128, 0, 0, IN_PLACE, SINKS},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 512}, KV_F32, 0, 0, Q4_128, 0, 0, IN_PLACE, Q_NORM},
    {0, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, CENTERED | ALONE},
    {1, BLOCK | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, ADDED | CLAMPED},
    {1, CHOOSE, 64, 0, {4, 1, 32}, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, STATES | O | MLP, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, STATES | O | MLP, 256, 384, H128, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, CENTERED},
    {0, STATES | O | MLP, 256, 384, H128, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, GATED},
    {1, STATES | O, 64, 0, H128, KV_F16, 0, 0, DENSE_BF16, 0, 0, IN_PLACE, GATED},
    {1, ROPE | ATTEND | O, 64, 0, {4, 1, 256}, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, GATED | Q_NORM},
    {1, ATTEND | O, 64, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, GATED},
    {1, ROPE | ATTEND | O, 64, 0, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, GATED},
    {0, ROPE | ATTEND | O, 64, 0, {2, 1, 512}, KV_F16, 300, 0, Q4_128, 0, 0, ALIKE, GATED},
    /* one and two linears of a norm; gating by itself and with what follows */
    {1, QKV, 256, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 256, 0, H64, KV_F16, 0, 2, Q4_128, 0, 0, OWN, 0},
    {0, QKV, 256, 0, H64, KV_F16, 0, 2, Q4_128, 0, 0, ALIKE, 0},
    {1, BLOCK | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, DENSE_F16, BIT(W_DOWN), ALIKE, 0},
    {0, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, BLOCK | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, BLOCK, 258, 390, H36, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, BLOCK, 255, 385, H36, KV_F16, 0, 0, Q4_32, 0, 0, OWN, 0},
    {0, MLP, 256, 384, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP | TAIL, 256, 384, H64, KV_F16, 0, 0, Q4_128, DENSE_F32, BIT(W_GATE), IN_PLACE, 0},
    {1, QKV, 256, 0, H64, KV_F16, 0, 2, DENSE_F16, 0, 0, IN_PLACE, 0},
    /* plain linears */
    {1, QKV, 640, 0, H64, KV_F16, 0, 3, DENSE_BF16, 0, 0, IN_PLACE, APART},
    {1, O | QKV, 256, 0, H128, KV_F16, 0, 3, DENSE_F16, 0, 0, IN_PLACE, APART},
    {0, O | QKV, 4096, 0, H64, KV_F16, 0, 3, DENSE_BF16, DENSE_F16, BIT(W_K) | BIT(W_V), IN_PLACE,
     APART},
    {1, BLOCK | TAIL, 256, 1088, H64, KV_F16, 0, 0, DENSE_BF16, 0, 0, IN_PLACE, 0},
    {0, BLOCK | TAIL, 4160, 8192, H64, KV_F16, 0, 0, DENSE_F16, 0, 0, IN_PLACE, 0},
    {0, BLOCK, 64, 8256, H64, KV_F16, 0, 0, DENSE_BF16, 0, 0, IN_PLACE, 0},
    {1, MLP, 128, 576, H64, KV_F16, 0, 0, DENSE_F16, 0, 0, IN_PLACE, 0},
    {1, STATES | O, 256, 0, H64, KV_F16, 0, 0, DENSE_BF16, 0, 0, IN_PLACE, MIXES},
    {0, STATES | O, 640, 0, H128, KV_F16, 0, 0, DENSE_BF16, 0, 0, IN_PLACE, MIXES | GATED},
    {0, STATES | O, 256, 0, H64, KV_F16, 0, 0, DENSE_F16, 0, 0, IN_PLACE, MIXES},
    /* codes of 8 bits */
    {1, STATES | O, 384, 0, H64, KV_F16, 0, 0, DENSE_BF16, Q8_32, BIT(W_MIXED), IN_PLACE, MIXES},
    {1, QKV, 640, 0, H64, KV_F16, 0, 3, Q8_32, DENSE_BF16, BIT(W_K) | BIT(W_V), IN_PLACE, APART},
    {1, BLOCK | TAIL, 256, 1088, H64, KV_F16, 0, 0, Q8_32, Q8_32, BIT(W_HEAD), IN_PLACE, 0},
    {0, O | QKV, 4096, 0, H64, KV_F16, 0, 3, Q8_32, DENSE_F16, BIT(W_Q), IN_PLACE, APART},
    {0, BLOCK | TAIL, 4160, 8192, H64, KV_F16, 0, 0, Q8_32, 0, 0, IN_PLACE, 0},
    {1, BLOCK_OF_EXPERTS | TAIL, 384, 128, H64, KV_F16, 0, 0, Q4_128, Q8_32, SHARED_ONE, IN_PLACE,
     SHARED | BESIDE},
    {0, MOE | QKV, 640, 128, H64, KV_F16, 0, 3, Q4_128, Q8_32, SHARED_ONE | BIT(W_ROUTER), IN_PLACE,
     SHARED | BESIDE},
    {1, MOE | QKV, 640, 128, H64, KV_F16, 0, 3, Q4_128, Q8_32, SHARED_ONE | OF_QKV, IN_PLACE,
     SHARED | BESIDE},
    {1, MOE | QKV, 256, 128, H64, KV_F16, 0, 3, Q4_128, DENSE_BF16, SHARED_ONE | OF_QKV, IN_PLACE,
     SHARED | BESIDE | APART},
    {0, MOE | QKV, 384, 128, H64, KV_F16, 0, 3, Q4_128, DENSE_BF16, OF_QKV, ALIKE, SHARED},
    /* permuted stacks, which no launch sums */
    {1, MOE | QKV, 384, 128, H64, KV_F16, 0, 3, Q4_128, DENSE_BF16, SHARED_ONE | OF_QKV, ALIKE,
     SHARED | BESIDE},
    {1, MOE | QKV, 256, 128, H64, KV_F16, 0, 2, Q4_128, DENSE_BF16, SHARED_ONE | OF_QKV, ALIKE,
     SHARED | BESIDE | APART},
    {1, STATES | O, 64, 0, H128, KV_F16, 0, 0, Q8_32, 0, 0, IN_PLACE, GATED},
    /* mixtures of experts */
    {1, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {1, BLOCK_OF_EXPERTS | TAIL, 256, 144, H64, KV_F16, 0, 0, Q4_128, DENSE_F16, BIT(W_ROUTER), OWN,
     0},
    {1, MOE | QKV, 256, 128, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MOE | QKV, 384, 128, H64, KV_F16, 0, 3, Q4_128, 0, 0, ALIKE, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 384, 256, H64, KV_F16, 0, 0, Q4_128, DENSE_F16,
     BIT(W_ROUTER) | BIT(W_DOWNS), IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS, 256, 96, H64, KV_F16, 0, 0, Q4_32, DENSE_F32, BIT(W_ROUTER), IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, Q4_F32, 0, 0, IN_PLACE, 0},
    {0, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, DENSE_BF16, Q4_128, BIT(W_O),
     IN_PLACE, 0},
    {0, MOE | TAIL, 1152, 2176, H64, KV_F16, 0, 0, Q4_128, Q4_32, BIT(W_UPS), IN_PLACE, 0},
    {1, BLOCK_OF_EXPERTS | TAIL, 256, 128, H64, KV_F16, 0, 0, Q4_128, DENSE_BF16, SHARED_ONE,
     IN_PLACE, SHARED},
    {1, BLOCK_OF_EXPERTS | TAIL, 384, 128, H64, KV_F16, 0, 0, Q4_128, DENSE_BF16, SHARED_ONE,
     IN_PLACE, SHARED | BESIDE},
    /* a router of codes: the shared expert is where it was (hip_order.c) */
    {1, MOE | TAIL, 256, 128, H64, KV_F16, 0, 0, DENSE_BF16, Q4_128,
     BIT(W_ROUTER) | BIT(W_GATES) | BIT(W_UPS) | BIT(W_DOWNS), IN_PLACE, SHARED},
    {1, MOE, 64, 1088, H64, KV_F16, 0, 0, Q4_128, DENSE_BF16, SHARED_ONE, IN_PLACE,
     SHARED | BESIDE},
    {0, MOE | QKV, 640, 128, H64, KV_F16, 0, 3, Q4_128, DENSE_F16, SHARED_ONE, IN_PLACE, SHARED},
    {0, MOE | QKV, 640, 128, H64, KV_F16, 0, 3, Q4_128, DENSE_F16, SHARED_ONE | BIT(W_ROUTER),
     IN_PLACE, SHARED | BESIDE},
    {0, BLOCK_OF_EXPERTS, 256, 128, H64, KV_F16, 0, 0, Q4_128, DENSE_F32, SHARED_ONE, ALIKE,
     SHARED | BESIDE},
    {0, BLOCK_OF_EXPERTS, 256, 128, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, SHARED},
    /* sizes of norms */
    {0, O | QKV, 4096, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, O | QKV, 4224, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 5120, 0, H64, KV_F16, 0, 3, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 5248, 0, H64, KV_F16, 0, 3, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 11264, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 11392, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 14336, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    {0, QKV, 14464, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, IN_PLACE, 0},
    {0, QKV, 14466, 0, H64, KV_F16, 0, 1, Q4_128, 0, 0, ALIKE, 0},
    /* sizes of gated rows */
    {0, MLP, 128, 4096, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 4224, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 11264, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 11392, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 14336, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
    {0, MLP, 128, 14464, H64, KV_F16, 0, 0, Q4_128, 0, 0, IN_PLACE, 0},
    {0, MLP, 128, 14462, H64, KV_F16, 0, 0, Q4_128, 0, 0, ALIKE, 0},
};

enum { N_CASES = sizeof cases / sizeof *cases };

/* The rows of a step. */
enum rows_use { QUICK = 1, BY_POSITION = 2, MANY = 4 };
struct rows {
    int use; /* BY_POSITION: only where there is attention; MANY: only with small sizes */
    const char *name;
    int n_decode, n_seqs;
    struct span span[MAX_SPANS];
};

static const struct rows rows[] = {
    {QUICK, "a row", 1, 1, {{0, 5, 1}}},
    {BY_POSITION, "a row in 2 spans", 1, 1, {{0, 300, 1}}},
    {QUICK | BY_POSITION, "a row in 3 spans", 1, 1, {{0, 700, 1}}},
    {QUICK | BY_POSITION, "a row in 4 spans", 1, 1, {{0, 900, 1}}},
    {BY_POSITION, "a row in 6 spans", 1, 1, {{0, 1400, 1}}},
    {BY_POSITION, "a row in 7 spans", 1, 1, {{0, 1700, 1}}},
    {QUICK, "3 rows", 3, 3, {{0, 300, 1}, {1, 0, 1}, {2, 17, 1}}},
    {BY_POSITION, "2 rows in 7 spans", 2, 2, {{0, 1700, 1}, {1, 900, 1}}},
    {BY_POSITION | MANY,
     "10 rows of many lengths",
     10,
     10,
     {{0, 900, 1},
      {1, 0, 1},
      {2, 17, 1},
      {3, 255, 1},
      {4, 256, 1},
      {5, 300, 1},
      {6, 5, 1},
      {7, 511, 1},
      {8, 64, 1},
      {9, 600, 1}}},
    {QUICK | MANY,
     "9 rows",
     9,
     9,
     {{0, 5, 1},
      {1, 0, 1},
      {2, 17, 1},
      {3, 25, 1},
      {4, 6, 1},
      {5, 30, 1},
      {6, 5, 1},
      {7, 1, 1},
      {8, 4, 1}}},
    {0, "2 rows of a sequence", 3, 2, {{0, 254, 2}, {1, 40, 1}}},
    {QUICK, "a prompt", 0, 1, {{0, 0, 5}}},
    {BY_POSITION | MANY, "the rest of a prompt", 0, 2, {{0, 250, 70}, {1, 0, 3}}},
    {QUICK, "2 rows and a prompt", 2, 3, {{0, 300, 1}, {1, 15, 1}, {2, 30, 6}}},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* The inputs of a step, and what it left. */
struct content {
    struct batch b;
    uint32_t *buffer[N_BUFFERS]; /* [rows][width] */
    void *pages, *seats; /* seats: of KV_INT4 */
    size_t page_bytes, seat_bytes;
};

static int rows_of(const struct batch *b, int buffer)
{
    if (buffer == B_TOP || buffer == B_SCORE) return buffer == B_TOP ? b->n_top : b->n_scores;
    return buffer >= B_G && buffer <= B_BEST ? b->n_logits : b->n_rows;
}

static size_t bytes_of(const struct fuse *f, const struct batch *b, int buffer)
{
    return (size_t)rows_of(b, buffer) * f->width[buffer];
}

static int has_id(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return 1;
    return 0;
}

/* What the operations do to a buffer. */
struct use {
    int given;   /* it is read before it is written */
    int written; /* by an operation */
    int last;    /* nothing reads what it holds at the end */
};

static struct use use_of(const struct trial *t, int buffer)
{
    struct use u = {0};
    for (int i = 0; i < t->n_ops; i++) {
        int reads = has_id(t->op[i].in, OP_INS, buffer),
            writes = has_id(t->op[i].out, OP_OUTS, buffer);
        if (reads && !u.written) u.given = 1;
        if (reads) u.last = 0;
        if (writes) u.written = u.last = 1;
    }
    return u;
}

/* The states of conv and delta, all alike at first. */
static void open_states(struct fuse *f, struct trial *t, struct numbers *n, struct dbuf state[2])
{
    struct fuse_heads g = f->k->heads;
    const size_t floats[] = {f->width[B_MIXED] / 4 * (CONV_WIDTH - 1),
                             (size_t)(g.n_heads * g.head_dim * g.head_dim)};
    for (int i = 0; i < 2; i++) {
        size_t of_slot = f->k->parts & STATES ? floats[i] : 1, all = of_slot * MAX_SPANS;
        float *x = malloc(all * sizeof *x);
        CHECK(x);
        for (size_t j = 0; j < all; j++) x[j] = 0.25f * (float)(j % of_slot % 9) - 1;
        state[i] = dbuf_from(&f->s, x, all * sizeof *x);
        free(x);
        n->state[i] = trial_state(t, state[i].d, of_slot * sizeof(float), NULL, 0);
    }
}

/* What a device buffer holds, which is freed. */
static void *take_out(struct fuse *f, struct dbuf *b, const char *name, struct arena *a)
{
    void *x = arena_get(a, b->bytes);
    dbuf_get(&f->s, b, x);
    compare_fences(f->c, f->v, f->name, name, &f->s, b);
    dbuf_free(&f->s, b);
    return x;
}

/* Where nothing is read after the plan the rows of norms share a buffer, and so do the deltas, as
 * in a model: the first of those that share one with `buffer`. */
static int shared_with(int buffer)
{
    return buffer == B_H2 || buffer == B_H3 ? B_H1 : buffer == B_D2 ? B_D1 : buffer;
}

/* Runs the case on what *in has; what was kept is left in *out, whose other pointers become NULL.
 * kept: bit B_..: this buffer is read after the plan. */
static void run(struct fuse *f, const struct content *in, unsigned kept, int apart, struct arena *a,
                struct content *out)
{
    struct trial t = {0};
    struct numbers n = {.more = f->k->more};
    struct dbuf d[N_BUFFERS], pages = dbuf_from(&f->s, in->pages, in->page_bytes),
                              seats = dbuf_from(&f->s, in->seats, in->seat_bytes), state[2];
    for (int i = 0; i < N_LINEARS; i++) n.linear[i] = trial_linear(&t, &f->w[i], f->packed[i]);
    for (int i = 0; i < N_VECTORS; i++) n.vector[i] = trial_vector(&t, f->d_vector[i].d, f->n[i]);
    n.kv = trial_kv(&t, pages.d, f->k->heads.n_kv_heads, f->k->heads.head_dim);
    t.kv[n.kv] = fuse_cache(f->k);
    t.d_seat[n.kv] = seats.d;
    open_states(f, &t, &n, state);
    for (int i = 0; i < N_BUFFERS; i++) {
        int same = kept ? i : shared_with(i);
        if (same != i) {
            d[i] = d[same];
            n.buffer[i] = n.buffer[same];
            continue;
        }
        d[i] = dbuf_new(&f->s, bytes_of(f, &in->b, i));
        n.buffer[i] = trial_buffer(&t, d[i].d,
                                   i == B_TOP                ? ROWS_TOP
                                   : i == B_SCORE            ? ROWS_SCORES
                                   : i >= B_G && i <= B_BEST ? ROWS_LOGITS
                                                             : ROWS_STEP,
                                   f->width[i]);
    }
    fuse_ops(f, &t, &n);
    for (int i = 0; i < N_BUFFERS; i++) {
        struct use u = use_of(&t, n.buffer[i]);
        if (shared_with(i) != i && !kept) continue;
        /* the choice of the first positions is not written */
        if (u.given || (i == B_IDS && f->k->parts & CHOOSE))
            f->s.ops->upload(f->s.be, d[i].d, in->buffer[i], d[i].bytes);
        t.kept[n.buffer[i]] = u.written && (u.last || kept >> i & 1 || i == B_X);
    }
    trial_run(&t, &f->s, &in->b, apart);
    *out = (struct content){.b = in->b,
                            .page_bytes = in->page_bytes,
                            .seat_bytes = in->seat_bytes};
    for (int i = 0; i < N_BUFFERS; i++) {
        if (shared_with(i) != i && !kept) continue;
        if (t.kept[n.buffer[i]]) {
            out->buffer[i] = arena_get(a, d[i].bytes);
            dbuf_get(&f->s, &d[i], out->buffer[i]);
        }
        compare_fences(f->c, f->v, f->name, buffer_names[i], &f->s, &d[i]);
        dbuf_free(&f->s, &d[i]);
    }
    out->pages = take_out(f, &pages, "pages", a);
    out->seats = take_out(f, &seats, "seats", a);
    for (int i = 0; i < 2; i++) {
        compare_fences(f->c, f->v, f->name, "states", &f->s, &state[i]);
        dbuf_free(&f->s, &state[i]);
    }
}

/* ---- inputs */
/* Integers: bytes of small numbers are codes in any layout, and the numbers scales. */
static void fill_pages(const struct fuse *f, struct rng *r, struct content *x)
{
    float factor = kv_is_integer(f->k->kv) ? 0.01f : 1;
    for (size_t i = 0; i < x->page_bytes / (f->k->kv == KV_F16 ? 2 : 4); i++) {
        float value = rng_normal(r) * factor;
        if (f->k->kv == KV_F16) ((uint16_t *)x->pages)[i] = f16_from_f32(value);
        else ((float *)x->pages)[i] = value;
    }
    for (size_t i = 0; i < x->seat_bytes / 4; i++) ((float *)x->seats)[i] = rng_normal(r) * 0.01f;
}

/* The draw of the token at a position, the same beside others and alone. */
static struct batch_sample draw_at(int pos, int row)
{
    struct rng r = {(uint64_t)pos};
    return (struct batch_sample){.bits = rng_next(&r) >> 11,
                                 .top_p = 1,
                                 .scale = weights_scale(0.7),
                                 .most = WEIGHTS_DEEPEST,
                                 .row = row,
                                 .repetition = 1};
}

/* The logits of the last row of each sequence, so of every generated row but where a sequence has
 * several. */
static void set_logits(struct arena *a, struct rng *r, struct batch *b)
{
    size_t bytes = (size_t)b->n_seqs * sizeof(int32_t);
    b->logit_row = arena_get(a, bytes);
    b->top_row = arena_get(a, bytes);
    b->sample = arena_get(a, (size_t)b->n_seqs * sizeof *b->sample);
    b->score = arena_get(a, (size_t)b->n_seqs * sizeof *b->score);
    for (int i = 0; i < b->n_seqs; i++) {
        b->logit_row[i] = b->seq_start[i + 1] - 1;
        b->top_row[i] = i;
        b->score[i] = (struct batch_score){i, -1, OP_SCORE_TOP};
        b->sample[i] = draw_at(b->pos[b->logit_row[i]], i);
        b->n_decode_logits += b->logit_row[i] < b->n_decode;
    }
    b->n_logits = b->n_top = b->n_samples = b->n_scores = b->n_seqs;
    for (int i = 0; i < b->n_rows; i++) b->token[i] = rng_below(r, VOCAB);
}

/* Rows of all kinds, but of queries, keys and values such as fp16 holds after the rotation. */
static void fill_buffer(struct rng *r, int buffer, float *x, int n_rows, int width)
{
    for (int i = 0; buffer == B_IDS && i < n_rows * width; i++)
        ((int32_t *)(void *)x)[i] = i % width;
    if (buffer == B_IDS) return;
    if (buffer != B_Q && buffer != B_K && buffer != B_V) {
        fill_rows(r, 0, x, n_rows, width);
        return;
    }
    for (int i = 0; i < n_rows * width; i++) x[i] = 2 * rng_normal(r);
}

static struct content make_content(const struct fuse *f, struct arena *a, struct rng *r,
                                   const struct page_map *m, const struct rows *of)
{
    struct content x = {.b = make_batch(a, m, of->span, of->n_seqs, of->n_decode)};
    struct kv_cache kv = fuse_cache(f->k);
    set_logits(a, r, &x.b);
    for (int i = 0; i <= B_D2; i++) {
        x.buffer[i] = arena_get(a, bytes_of(f, &x.b, i));
        fill_buffer(r, i, (float *)x.buffer[i], x.b.n_rows, (int)(f->width[i] / 4));
    }
    for (int v = 0; v < f->c->n && f->k->parts & (ROPE | ATTEND | CHOOSE); v++) {
        size_t bytes = (size_t)m->n_pages * f->c->v[v].ops->kv_page_bytes(f->k->kv, &kv);
        if (bytes > x.page_bytes) x.page_bytes = bytes;
    }
    if (!x.page_bytes) x.page_bytes = 64;
    x.pages = arena_get(a, x.page_bytes);
    x.seat_bytes = MAX_SPANS * kv_open_bytes(f->k->kv, &kv);
    if (!x.seat_bytes) x.seat_bytes = 64;
    x.seats = arena_get(a, x.seat_bytes);
    fill_pages(f, r, &x);
    return x;
}

/* ---- comparison */
/* Entries up to the one that ends a row; n: of a buffer, in elements of 4 bytes. */
static size_t clear_top(uint32_t *top, size_t n)
{
    size_t of_row = OP_TOP_ROOM * sizeof(struct logits_entry) / 4;
    for (size_t row = 0; row < n; row += of_row) {
        struct logits_entry *e = (struct logits_entry *)(void *)(top + row);
        int i = 0;
        while (i < OP_TOP_ROOM && e[i].id >= 0) i++;
        for (; i < OP_TOP_ROOM; i++) e[i] = (struct logits_entry){.id = -1};
    }
    return n;
}

/* x [n] has no NaN: no input is one, so it would be a result that was not written. */
static void check_written(struct fuse *f, const char *name, int buffer, const uint32_t *x, size_t n)
{
    for (size_t i = 0; i < n && buffer != B_BEST && buffer < B_TOP; i++)
        if (isnan(f32_from_bits(x[i]))) {
            fail(f->c, f->v, name, "%s: element %zu of %zu is NaN", buffer_names[buffer], i, n);
            return;
        }
}

/* The buffer of all that were kept whose result is left in i where some share theirs. */
static int left_in(int i, unsigned kept, const struct content *all)
{
    int last = i;
    for (int j = i + 1; !kept && j < N_BUFFERS; j++)
        if (shared_with(j) == i && all->buffer[j]) last = j;
    return last;
}

/* What the plan has kept is what its operations, one by one, have left; `apart` has all of it. */
static void compare_contents(struct fuse *f, const char *name, unsigned kept,
                             const struct content *fused, const struct content *apart)
{
    for (int i = 0; i < N_BUFFERS; i++) {
        size_t n = bytes_of(f, &fused->b, i) / 4;
        CHECK(kept != ~0u || !fused->buffer[i] == !apart->buffer[i]);
        if (!fused->buffer[i]) continue;
        uint32_t *expected = apart->buffer[left_in(i, kept, apart)];
        CHECK(expected);
        if (i == B_TOP) clear_top(fused->buffer[i], n), clear_top(expected, n);
        check_written(f, name, i, expected, n);
        compare_bits(f->c, f->v, name, buffer_names[i], fused->buffer[i], expected, n,
                     f->width[i] / 4);
    }
    compare_bits(f->c, f->v, name, "pages", fused->pages, apart->pages, fused->page_bytes / 4, 64);
    compare_bits(f->c, f->v, name, "seats", fused->seats, apart->seats, fused->seat_bytes / 4, 64);
}

/* Each generated row, of many every third in quick runs, as the only one of a step, where it is the
 * only one of its sequence. */
static void rows_alone(struct fuse *f, const char *name, const struct rows *of,
                       const struct page_map *m, const struct content *in, unsigned kept,
                       const struct content *whole)
{
    struct rng some = rng_for(f->c->seed, name);
    int step = f->c->quick && of->n_decode > 3 ? 3 : 1;
    for (int row = rng_below(&some, step); row < of->n_decode && row < of->n_seqs; row += step) {
        struct arena a = {0};
        struct content x = *in, out;
        struct rng r = {1};
        char what[64];
        if (of->span[row].rows != 1 || of->span[row].seq != in->b.seq[row]) break;
        x.b = make_batch(&a, m, &of->span[row], 1, 1);
        set_logits(&a, &r, &x.b);
        x.b.token[0] = in->b.token[row];
        for (int i = 0; i < N_BUFFERS; i++)
            if (in->buffer[i]) x.buffer[i] = in->buffer[i] + (size_t)row * f->width[i] / 4;
        run(f, &x, kept, 0, &a, &out);
        for (int i = 0; i < N_BUFFERS; i++) {
            size_t n = f->width[i] / 4;
            if (!out.buffer[i]) continue;
            if (i == B_TOP) clear_top(out.buffer[i], n);
            snprintf(what, sizeof what, "row %d by itself: %s", row, buffer_names[i]);
            compare_bits(f->c, f->v, name, what, out.buffer[i], whole->buffer[i] + (size_t)row * n,
                         n, n);
        }
        arena_free(&a);
    }
}

/* The rows that a case has: all by position where there is attention, few where sizes are large. */
static int takes(const struct fuse *f, const struct rows *of)
{
    int attends = f->k->parts & (ROPE | ATTEND), long_rows = f->k->dim + f->k->ffn > 4000,
        many_heads = f->k->heads.n_heads > 40;
    if ((of->use & BY_POSITION && !attends) || (f->c->quick && !(of->use & QUICK))) return 0;
    return !(of->use & MANY) || (!long_rows && !many_heads);
}

/* By variant and pattern, in runs that are compared; patterns of several operations are launched in
 * whole plans alone. */
static long launched[MAX_VARIANTS][MAX_PATTERNS];

static void count_patterns(const struct fuse *f, int sign)
{
    if (f->s.ops != &backend_hip) return;
    for (int i = 0; i < MAX_PATTERNS && hip_pattern_name(i); i++)
        launched[f->v][i] += sign * hip_pattern_count(f->s.be, i);
}

/* Plans that keep none, all or some of their results, beside the operations one by one. */
static void check_rows(struct fuse *f, const struct page_map *m, const struct rows *of)
{
    struct arena a = {0};
    struct content fused, apart;
    char name[NAME_BYTES];
    if (is_caught(f->c)) return;
    snprintf(name, NAME_BYTES, "%s; %s", f->name, of->name);
    struct rng r = rng_for(f->c->seed, name);
    struct content x = make_content(f, &a, &r, m, of);
    count_patterns(f, -1);
    run(f, &x, ~0u, 1, &a, &apart);
    count_patterns(f, 1);
    for (int keep = 0; keep < (f->c->quick ? KEEP_SOME : KEEPS) && !is_caught(f->c); keep++) {
        unsigned kept = keep == KEEP_NONE  ? 0
                        : keep == KEEP_ALL ? ~0u
                                           : (unsigned)rng_next(&r) | 1u << B_X;
        snprintf(name, NAME_BYTES, "%s; %s; %s", f->name, of->name, keep_names[keep]);
        count_patterns(f, -1);
        run(f, &x, kept, 0, &a, &fused);
        count_patterns(f, 1);
        compare_contents(f, name, kept, &fused, &apart);
        if (of->n_decode > 1 && (keep != KEEP_ALL || !f->c->quick))
            rows_alone(f, name, of, m, &x, kept, &fused);
    }
    arena_free(&a);
}

/* Pages for the rows of all steps of a case. */
static struct page_map pages_of(const struct fuse *f, struct arena *a, struct rng *r)
{
    int n_ctx[MAX_SPANS] = {0};
    for (int i = 0; i < N_ROWS; i++)
        for (int j = 0; takes(f, &rows[i]) && j < rows[i].n_seqs; j++) {
            const struct span *s = &rows[i].span[j];
            if (s->pos0 + s->rows > n_ctx[s->seq]) n_ctx[s->seq] = s->pos0 + s->rows;
        }
    return make_pages(a, r, n_ctx, MAX_SPANS);
}

static int open_fuse(struct fuse *f, const struct page_map *m)
{
    struct be_config config = plain_config(80);
    struct err e;
    config.act = f->act;
    config.kv = f->k->kv;
    config.max_pages = m->stride;
    side_open(&f->s, &f->c->v[f->v], 1, config);
    for (int i = 0; i < N_LINEARS; i++)
        if (f->s.ops->pack(f->s.be, &f->w[i], &f->packed[i], &e)) {
            fail(f->c, f->v, f->name, "pack: %s", e.msg);
            while (i-- > 0) f->s.ops->drop(f->s.be, f->packed[i]);
            side_close(&f->s);
            return -1;
        }
    for (int i = 0; i < N_VECTORS; i++)
        f->d_vector[i] = dbuf_from(&f->s, f->vector[i], (size_t)f->n[i] * 4);
    return 0;
}

static void close_fuse(struct fuse *f)
{
    for (int i = 0; i < N_LINEARS; i++) f->s.ops->drop(f->s.be, f->packed[i]);
    for (int i = 0; i < N_VECTORS; i++) dbuf_free(&f->s, &f->d_vector[i]);
    side_close(&f->s);
}

static void check_case(struct check *c, const struct fuse_case *k, enum act act)
{
    struct arena a = {0};
    char name[NAME_BYTES];
    struct fuse f = {.c = c, .k = k, .name = name, .act = act};
    snprintf(name, NAME_BYTES,
             "%s, parts %x, %d, %d, heads %d/%d of %d, kv %s, window %d, %s, %x %s%s, more %x",
             act == ACT_F16 ? "f16" : "f32", (unsigned)k->parts, k->dim, k->ffn, k->heads.n_heads,
             k->heads.n_kv_heads, k->heads.head_dim, kv_formats[k->kv].name, k->window,
             format_names[k->format], (unsigned)k->others, format_names[k->other],
             order_names[k->order], (unsigned)k->more);
    struct rng r = rng_for(c->seed, name);
    fuse_widths(&f);
    fuse_weights(&f, &a, &r);
    struct page_map m = pages_of(&f, &a, &r);
    for (f.v = 0; f.v < c->n && !is_caught(c); f.v++) {
        count_case(c, f.v);
        if (open_fuse(&f, &m)) continue;
        for (int i = 0; i < N_ROWS; i++)
            if (takes(&f, &rows[i])) check_rows(&f, &m, &rows[i]);
        close_fuse(&f);
    }
    arena_free(&a);
}

/* Every pattern that the device has kernels for was launched. */
static void check_coverage(struct check *c, int v)
{
    struct be_config config = plain_config(1);
    struct side s;
    if (c->v[v].ops != &backend_hip) return;
    config.act = gpu.act != ACT_F32 ? gpu.act : ACT_F16;
    side_open(&s, &c->v[v], 1, config);
    if (hip_pattern_name(MAX_PATTERNS)) fail(c, v, "coverage", "more patterns than MAX_PATTERNS");
    for (int i = 0; i < MAX_PATTERNS && hip_pattern_name(i); i++)
        if (hip_has_pattern(s.be, i) && !launched[v][i])
            fail(c, v, "coverage", "no case has launched '%s'", hip_pattern_name(i));
    side_close(&s);
}

/* The CPU backend fuses nothing: some quick cases, of its first variant, check the harness itself.
 */
static void check_harness(struct check *c)
{
    int quick = c->quick, n = c->n, taken = 0;
    c->quick = c->n = 1;
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].quick && taken++ % 6 == 0) check_case(c, &cases[i], ACT_F32);
    c->quick = quick, c->n = n;
}

void check_fuse(struct check *c)
{
    if (!strcmp(c->v[0].ops->name, "cpu")) {
        check_harness(c);
        return;
    }
    memset(launched, 0, sizeof launched);
    for (int i = 0; i < N_CASES; i++) {
        if (c->quick && !cases[i].quick) continue;
        if (gpu.act == ACT_F32) check_case(c, &cases[i], ACT_F16);
        if (gpu.act != ACT_F32 || !c->quick || cases[i].parts & ATTEND)
            check_case(c, &cases[i], ACT_F32);
    }
    for (int v = 0; v < c->n; v++) check_coverage(c, v);
}
