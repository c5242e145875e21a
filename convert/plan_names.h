/* plan_names.h: the tensors of a layer, as tables: which output comes from which names of the
 * checkpoint, with which rows. Owns: the names that architectures and quantizers use. Must not
 * know: formats of weights, how rows are read. */
#ifndef CONVERT_PLAN_NAMES_H
#define CONVERT_PLAN_NAMES_H

#include "convert/hf_config.h"

#include <stdint.h>

/* What a layer has, beside the traits of its architecture (enum hf_trait), bits below 51. */
#define LAYER_BARE (UINT64_C(1) << 59)               /* no attention */
#define LAYER_DELTA (LAYER_BARE | UINT64_C(1) << 52) /* gated DeltaNet instead */
#define LAYER_MAMBA (UINT64_C(1) << 60)              /* Mamba-2, instead or beside */
#define LAYER_SCAN (UINT64_C(1) << 51)               /* Mamba-1 */
#define LAYER_CONV (UINT64_C(1) << 61)               /* a gated short convolution */
#define LAYER_EXPERTS (UINT64_C(1) << 53)            /* router and experts */
#define LAYER_MLP (UINT64_C(1) << 54)
#define LAYER_SHARED (UINT64_C(1) << 55)  /* shared expert */
#define LAYER_KEYS (UINT64_C(1) << 56)    /* keys and values of its own */
#define LAYER_VALUES (UINT64_C(1) << 57)  /* v_proj */
#define LAYER_ROTATES (UINT64_C(1) << 62) /* queries and keys */
#define LAYER_HALVES (UINT64_C(1) << 58)  /* HALVES below */
#define LAYER_INDEXER (UINT64_C(1) << 63) /* chooses positions itself */

/* Sizes of a layer. */
enum layer_size {
    SIZE_NONE,
    SIZE_ONE,
    SIZE_DIM,
    SIZE_HEAD,
    SIZE_HEADS,
    SIZE_Q,
    SIZE_KV,
    SIZE_FFN,
    SIZE_EXPERTS,
    SIZE_EXPERT_FFN,
    SIZE_EXPERT_IN, /* dim, or that of latent experts */
    SIZE_SHARED_FFN,
    SIZE_KEYS,   /* DeltaNet: all key heads */
    SIZE_VALUES, /* all value heads */
    SIZE_VALUE_HEADS,
    SIZE_VALUE, /* one value head */
    SIZE_DELTA, /* q, k and v */
    SIZE_PLE,
    SIZE_DT_RANK,     /* Mamba-1 */
    SIZE_LATENT,      /* latent attention: the latent of keys and values */
    SIZE_Q_LORA,      /* the latent of queries */
    SIZE_NOPE,        /* of a query head what is not rotated */
    SIZE_NOPES,       /* of all heads */
    SIZE_ROTS,        /* of all heads what is rotated */
    SIZE_HEAD_VALUE,  /* a value */
    SIZE_HEAD_VALUES, /* of all heads */
    SIZE_INDEX_HEADS, /* indexer */
    SIZE_INDEX,       /* a key */
    SIZE_INDEX_RESTS, /* of all heads what is not rotated */
    SIZE_INDEX_ROTS,  /* of all heads what is rotated */
    N_SIZES
};

/* Rows of the checkpoint's module that an output takes; the module's are all rows of these. */
enum row_pick {
    PICK_ALL,
    PICK_Q, /* of [q, k, v] */
    PICK_K,
    PICK_V,
    PICK_FIRST, /* of two of equal size */
    PICK_SECOND,
    PICK_EVEN, /* of two that alternate */
    PICK_ODD,
    PICK_HEAD_FIRST, /* of two that alternate by head */
    PICK_HEAD_SECOND,
    PICK_DELTA_QKV, /* of [q, k, v.., z..] for each key head (Qwen3-Next) */
    PICK_DELTA_Z,
    PICK_DELTA_B, /* of [b.., a..] for each key head */
    PICK_DELTA_A,
    PICK_MAMBA_Z,   /* of [z, x, B, C, dt] (Mamba-2) */
    PICK_MAMBA_QKV, /* C, B, x */
    PICK_MAMBA_DT,
    PICK_SCAN_DT, /* of [dt, B, C] (Mamba-1) */
    PICK_SCAN_B,
    PICK_SCAN_C,
    PICK_THIRD_1, /* of three of equal size */
    PICK_THIRD_2,
    PICK_THIRD_3,
    PICK_LAYER, /* of a matrix of all layers */
    PICK_NOPE,  /* latent attention: of [not rotated, rotated] for each head */
    PICK_ROTATED,
    PICK_LATENT, /* of [latent, rotated part of the key] */
    PICK_LATENT_ROTATED,
    PICK_LATENT_KEYS, /* of [key, value] for each head */
    PICK_LATENT_VALUES,
    PICK_INDEX_REST, /* indexer: of [rotated, not rotated] for each head */
    PICK_INDEX_ROTATED,
    PICK_INDEX_KEY, /* of one such head what is not rotated, then the other */
    PICK_GROUPED_Q, /* of [q.., k, v] for each key head (InternLM2) */
    PICK_GROUPED_K,
    PICK_GROUPED_V,
};

enum linear_how {
    ROPE = 1,       /* rows in the order of the model file's RoPE */
    STACK = 2,      /* of all experts: names have the expert's number, or one tensor has them all */
    TRANSPOSED = 4, /* that tensor is [E][in][out] */
    PLAIN = 8,      /* is not quantized by --plain 8bit */
    HALVES = 16,    /* FROM is two modules, the second with up_proj for gate_proj, whose outputs
                       are one list: half of the rows are in each */
    GLOBAL = 32,    /* FROM is no tensor of a layer */
    HEADS = 64,     /* a stack of the heads' linears; the rows of FROM are those of all heads */
    TURNED = 128,   /* each of them transposed: OUT of the rule are its inputs */
};

/* A linear of the model file. Rules of the same TO are alternatives: the first whose module is in
 * the checkpoint. */
struct linear_rule {
    const char *to, *from;  /* below "layers.L." */
    uint64_t need, without; /* traits of the layer */
    enum layer_size in, out;
    enum row_pick pick;
    unsigned how;  /* enum linear_how */
    uint64_t bias; /* traits with which a bias is required */
};
extern const struct linear_rule linear_rules[]; /* ends with TO NULL */

enum vector_change {
    VECTOR_AS_IS,
    VECTOR_NORM,       /* + 1 with HF_NORM_PLUS_1 */
    VECTOR_HEADS,      /* that, and each head in the order of the model file's RoPE */
    VECTOR_NEG_EXP,    /* -e^v */
    VECTOR_ROOT,       /* v / sqrt(dim) */
    VECTOR_SCAN,       /* -e^v, [n][state] becomes [state][n] (Mamba-1) */
    VECTOR_ONES,       /* no source */
    VECTOR_ROWS,       /* [n][1][width] becomes [n][width] */
    VECTOR_MAMBA_ROWS, /* that, and rows of x, B, C become those of C, B, x, with their factors */
    VECTOR_MAMBA,      /* the same order of n numbers, without factors */
    VECTOR_FLAT,       /* may be [1][n] */
    VECTOR_INDEX,      /* in the order of PICK_INDEX_KEY */
};

/* A tensor of fp32 numbers; alternatives as above. */
struct vector_rule {
    const char *to, *from; /* tensors, below "layers.L." */
    uint64_t need, without;
    enum layer_size size;
    enum vector_change change;
};
extern const struct vector_rule vector_rules[]; /* ends with TO NULL */

#endif
