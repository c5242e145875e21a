/* args_exact.h, a part of args.h: arguments and layouts of the kernels in the CPU's order
 * (common/exact_*.hip). */
#ifndef KERNELS_ARGS_EXACT_H
#define KERNELS_ARGS_EXACT_H

/* Sub-groups of a 4-bit linear: at most 4 chunks of one group each, `each` to a group, n in all. */
struct exact_groups {
    int group_chunks, each, n, n_chunks; /* n_chunks: of all inputs, without padding */
    int pairs; /* 1: codes of 8 bits, whose halves are groups 2 i and 2 i + 1 of the weights */
};

/* Activations as integers. digit is [row][digit][stride] bytes, an integer is 128 * first digit +
 * second; 8 inputs are in the order 0 4 1 5 2 6 3 7, in which exact_linear.hip unpacks the codes.
 * tile, not 0: digits and scales are in tiles of so many rows, whose layout
 * hopper/exact_linear_wgmma.hip describes, and scaled is unused. lanes: the digits are for
 * common/exact_linear_lanes.hip, which describes their layout in images that have v_dot8. low:
 * sub-groups before this one have integers of 4 bits (ACT_INT4). */
struct exact_scaled {
    float scale; /* activation = scale * integer */
    int sum;     /* sum of the integers */
};

struct exact_digits {
    void *digit;
    struct exact_scaled *scaled; /* [sub-group][rows] */
    int stride, digits, rows, tile, lanes, low;
};

struct exact_quantize_args {
    const float *x;  /* [rows][in] */
    const int *perm; /* [k] or NULL; -1 gives 0 */
    struct exact_digits to;
    struct exact_groups groups;
    int in;
    const int *slot_expert; /* experts: [slots] whose permutations [experts][k] apply; row i is slot
                               i of x [slots / top_k][in]; NULL: rows */
    int k, top_k;
    /* With glu.gate the input is activation(x) * up, which is not stored; gate and up are
     * [rows][in] as x. */
    struct glu_any_args glu;
};

struct exact_linear_args {
    struct linear_args linear; /* x: of dense linears alone; for experts rows are slots, and `slot`
                                  has those of places */
    struct exact_digits of;
    struct exact_groups groups;
    /* For experts the tiles of a grouping, as in experts_args, and slot i reads input row i /
     * top_k; expert NULL: tiles are of rows. */
    const int *expert, *end, *n_tiles;
    int top_k;
    int row_warps; /* nvidia/exact_dense.hip: warps of a block with rows of their own, 1 or 2 */
    int tiles;     /* common/exact_linear_lanes.hip: tiles of rows of a block */
};

/* common/exact_linear_lanes.hip: outputs of a block, most tiles of 8 rows */
enum { EXACT_OUTPUTS = 64, EXACT_ROW_TILES = 4 };

/* Rows and panels of a block of exact_dense */
enum { EXACT_DENSE_ROWS = 8, EXACT_DENSE_PANELS = THREADS / 32 };

/* Rows of a block of exact_attend_rows, a divisor of GROUP_ROWS */
enum { EXACT_ATTEND_ROWS = 8 };

/* Floats of a row that shared memory holds, and whether a norm keeps its row there. */
enum { EXACT_SPAN = 4096 };
#define EXACT_NORM_IN_SPAN(dim) ((dim) <= EXACT_SPAN && (dim) % 4 == 0)

struct exact_norm_args {
    struct norm_args norm;
    const float *bias; /* centered: [dim] or NULL */
    int groups, centered;
    int own; /* groups have weights of their own */
};

/* A norm and the quantization of its result, which is stored, too, unless norm.out is NULL. */
struct exact_norm_quantize_args {
    struct exact_norm_args norm;
    struct exact_quantize_args quantize;
};

struct gather_args {
    const float *x;
    const int *row; /* [n] */
    float *out;     /* [n][dim] */
    int dim;
};

/* Spans of a row of logits, at most; where there are more than so many rows */
enum { ARGMAX_SPANS = 128, ARGMAX_FEW_ROWS = 8, ARGMAX_SPANS_OF_MANY = 32 };

struct largest {
    float value;
    int at;
};

struct argmax_args {
    const float *logits;   /* [rows][vocab] */
    struct largest *spans; /* [rows][n_spans] */
    int *id;               /* [rows] */
    int vocab, n_spans;
};

/* the largest logits of a row; room for all logits that are among them at some point; threads of a
 * block */
enum { TOP = 64, TOP_ROOM = 1024, TOP_THREADS = 1024 };

struct top_args {
    const float *logits; /* [][vocab] */
    const int *row;      /* [n] of logits */
    struct largest *top; /* [n][TOP_ROOM]; an `at` of -1 ends a list that is not full, and is the
                            first entry of one that did not fit */
    int vocab;
};

/* core/step/batch.h: struct batch_score; core/step/op.h: struct logits_score */
struct score_row {
    int row, id, n_top;
};
enum { SCORE_TOP = 20, SCORE_ROOM = 1024 };
struct score {
    double sum;
    float max, logit;
    int rank, n_top;
    struct largest top[SCORE_TOP];
};

struct score_args {
    const float *logits;         /* [][vocab] */
    const struct score_row *row; /* [n] */
    const int *best;             /* [] argmax of rows of logits */
    struct score *score;         /* [n] */
    int vocab;
};

/* core/step/batch.h: struct batch_sample, struct batch_change */
struct sample_draw {
    unsigned long long bits;
    double top_p;
    float scale;
    int most, row, top_k, first_change, n_changes;
    float repetition, frequency, presence;
    int score, mask;
};
struct sample_change_of {
    int id;
    unsigned seen;
    float add, was;
};
enum {
    SAMPLE_THREADS = 1024,
    SAMPLE_CLASSES = 2048, /* of depths, 1/64 nat */
    SAMPLE_ROOM = 1024,
    SAMPLE_SPANS = 32,
    SAMPLE_FEW = 128 /* rows of a step that have slots */
};

struct sample_member {
    unsigned long long key, weight;
    int id;
};

/* What the blocks of the spans of a row leave for the one that draws, which leaves zeros in
 * `weight`, `count` and n_listed. */
struct sample_slot {
    unsigned long long weight[SAMPLE_CLASSES], span_sum[SAMPLE_SPANS], before, total;
    struct sample_member listed[SAMPLE_ROOM];
    int count[SAMPLE_CLASSES];
    int n_listed, digit, n_digit,
        is_whole; /* is_whole: all of the classes up to the one cut are listed */
};

struct sample_args {
    float *logits;                  /* [][vocab]; changed in rows with changes */
    const struct sample_draw *draw; /* [n] */
    struct sample_change_of *change; /* `was` is written */
    int *best; /* [] argmax of rows of logits; the chosen tokens of the rows that are drawn */
    struct sample_slot *slot; /* [n], or NULL: a row is one block's alone */
    struct score *score;      /* [] of score_rows, or NULL: no row has one */
    const unsigned *masks;    /* [][(vocab + 31) / 32], or NULL: no row has one */
    int vocab, n_spans;       /* n_spans at most SAMPLE_SPANS */
};

#endif
