/* args.h: the arguments of kernels, filled by the host and read by the device, and the layouts of
 * the memory that they point to: here those of all GPUs, in the folders beside this one those of
 * their own kernels (kernels/args.h has them all). Pointers are device addresses. Owns: layouts and
 * the constants that host and device share. Must not know: how a kernel computes.
 *
 * LINEARS. Outputs are in panels of 16, inputs in chunks of 32, the last one padded with zeros. A
 * 4-bit linear has a multiple of 4 chunks; the codes of 4 chunks of a panel are an item.
 *   codes   [panel][two chunks][lane 0..31][4 words of 8 codes]. The 4 words of lane 4r + t are
 *           inputs 8t .. 8t+7 of output r in the first chunk, of output r + 8 in the first, of r in
 *           the second, of r + 8 in the second: what the lane holds of four 16x16 fragments of a
 *           matrix instruction. In a word, code i is input 2i and code 4+i is input 2i+1: (word >>
 *           4i) & 0x000f000f is a pair of neighbours, in the low bits of two halves
 *   meta    [panel][group][16] of one word (fp16 scale, fp16 zero point << 16), or of two words
 *           (fp32 scale, fp32 zero point)
 *   weight  [panel][piece][16 outputs][16 bytes]. A piece is 8 inputs of fp16 or bf16, or 4 of fp32
 *     I8    [panel][two chunks][BYTES_STAGE bytes]: [t = 0 .. 3][16 outputs, number o at place o ^
 *           2t][16 bytes], the codes plus 128 of inputs 8t .. 8t+7 of the first chunk and of the
 *           second, so that a warp reads them from shared memory without bank conflicts; then a
 *           word of two fp16 scales, of the first and the second chunk, for outputs 0 8 1 9 .. 7
 *           15. An even number of chunks
 *   x       [rows][32 * chunks] of fp16 with a power of two for each row, or of fp32
 *     wgmma [tile][64 inputs][rows of a tile][128 bytes] of fp16. The 16 bytes at place i ^ (row %
 *           8) of a row (the 128-byte swizzle of TMA and wgmma) are, with p = i % 4, inputs 2p and
 *           2p + 1 of each eight of chunk i / 4
 *     parts split precision: two fp16 parts of an fp32 activation, with a power of two for each
 *           row, or three bf16 parts (nvidia/linear_plain_mma.hip); prompt rows in tiles, of
 *           bf16 in two parts (hopper/linear_plain_wgmma.hip)
 *
 * PAGES of keys and values of one layer, [page][kv head]. d8 and d16 are head_dim rounded up to 8
 * and 16, with zeros beyond head_dim:
 *   fp16, fp32  keys [d8 / 8][PAGE][8], then values [PAGE][d8]
 *   int8        keys [d16 / 16][PAGE][16], values [PAGE / 4][d16][4], so that a word of either is
 *               an operand of an integer dot product; then fp32 scales of the keys [PAGE] and of
 *               the values [PAGE]
 *   int4        of the keys the codes [8 d16], lo plus 128 and step [d16] of the channels (bytes);
 *               the same of the values; the scales as they are. The codes of two neighbouring words
 *               of int8 are a word, the first in the low bits of its bytes. Pages that are not full
 *               are of int8: struct open_pages
 *   LATENT      keys alone, of one head: the latent, which is the value, too, and behind it the
 *               rotated part; zeros from there to d16. Of integers the scales of latents [PAGE] and
 *               of rotated parts [PAGE] */
#ifndef KERNELS_COMMON_ARGS_H
#define KERNELS_COMMON_ARGS_H

/* PANEL and PAGE equal core's, which hip.c asserts. GPU_HEAD_DIM: maximal dimensions of a head,
 * LONG_HEAD_DIM those of kernels for long heads */
enum { PANEL = 16, CHUNK = 32, PAGE = 16, GPU_HEAD_DIM = 256, LONG_HEAD_DIM = 512 };
/* maximal elements of a latent key, and of its latent, which is a multiple of 16 */
enum { LATENT_DIMS = 640, LATENT_VALUE = 512 };
enum { THREADS = 256 }; /* threads of a block unless a list.h says otherwise */
/* Positions of a KV split; splits begin at multiples of KV_SPLIT. */
enum { KV_SPLIT = 256 };
/* Limits of combine_prepare: KV splits of a row, outputs of all heads, and weights, which are
 * splits + 1 for each head. attend_combine takes COMBINE_WEIGHTS - 1 splits. */
enum { COMBINE_SPLITS = 16, COMBINE_DIMS = 8192, COMBINE_WEIGHTS = 2048 };
/* rows of a group, prompt rows of one sequence that attend together; groups of a tile */
enum { GROUP_ROWS = 64, TILE_GROUPS = 2 };
/* A block of vector.hip keeps a row in registers, in pieces of 4 elements for each thread. The
 * maximal pieces of a kernel are a template constant, because registers that a row does not need
 * lower the occupancy. */
enum { PIECE = 1024, SHORT_PIECES = 4, MEDIUM_PIECES = 11, ROW_PIECES = 14 };
enum { COMBINE_PIECES = COMBINE_DIMS / PIECE }; /* pieces of a combined row, at most */
/* Words of 8 bytes of shared memory in which a row of so many pieces is permuted: its halves, and a
 * zero. */
#define ORDERED(pieces) ((pieces) * PIECE / 4 + 1)
/* WEIGHT_I8: codes of 8 bits with a scale for each chunk, laid out as plain weights */
enum weight_kind { WEIGHT_F16, WEIGHT_BF16, WEIGHT_F32, WEIGHT_I8 };
/* types of keys and values, in the order of enum kv_type */
enum page_kind { PAGE_F16, PAGE_F32, PAGE_INT8, PAGE_INT4 };
/* Bytes of a page for one KV head, in int8 and in int4. */
#define INT8_PAGE(head_dim) (2 * PAGE * (((head_dim) + 15) / 16 * 16) + 8 * PAGE)
#define INT4_PAGE(head_dim) (20 * (((head_dim) + 15) / 16 * 16) + 8 * PAGE)
/* The same of latent heads. */
#define LATENT8_PAGE(head_dim) (PAGE * (((head_dim) + 15) / 16 * 16) + 8 * PAGE)
#define LATENT4_PAGE(head_dim) (10 * (((head_dim) + 15) / 16 * 16) + 8 * PAGE)

/* Columns of the lists of kernels. The operation: */
enum kernel_op {
    FOR_LINEAR,
    FOR_PAPER,
    FOR_GEMV,
    FOR_PACK,
    FOR_PREPARE,
    FOR_EMBED,
    FOR_NORM,
    FOR_GLU,
    FOR_GATHER,
    FOR_ROPE,
    FOR_ATTEND,
    FOR_COMBINE,
    FOR_SAMPLE,
    FOR_ADD,
    FOR_EXCHANGE,
    FOR_STATE,
    FOR_ROUTE,
    FOR_EXPERTS,
    FOR_EXACT,
    FOR_GPTQ
};
/* The rows that a linear kernel computes. */
enum linear_phase { PHASE_DECODE, PHASE_PREFILL, PHASE_BOTH };
/* The operands of a linear kernel: 4-bit codes with fp16 or fp32 activations, or dense weights with
 * fp32 activations, codes of 8 bits with fp16 ones, in the order of enum weight_kind; FORMAT_PAPER:
 * 4-bit codes in the paper's layout. */
enum linear_format {
    FORMAT_Q4_F16,
    FORMAT_Q4_F32,
    FORMAT_F16,
    FORMAT_BF16,
    FORMAT_F32,
    FORMAT_I8,
    FORMAT_PAPER
};
#define FORMAT_DENSE(weights) (FORMAT_F16 + (int)(weights))
/* The linears that a kernel takes; plain ones have one 16-bit scale for each 128 inputs or more. */
enum linear_set { ANY_LINEAR, PLAIN_LINEAR, OTHER_LINEAR };

/* An item: the codes of ITEM_CHUNKS chunks of a panel, of a plain linear with their 16 scales, of
 * another one with 16 for each chunk. */
enum { ITEM_CHUNKS = 4, ITEM_BYTES = 1024, PLAIN_ITEM_BYTES = ITEM_BYTES + 64 };
enum { OTHER_ITEM_BYTES = ITEM_BYTES + 64 * ITEM_CHUNKS };

/* nvidia/linear_plain_mma.hip: bytes of the codes of 64 inputs of a panel, and of codes with their
 * scales */
enum { BYTES_CODES = 1024, BYTES_STAGE = BYTES_CODES + 64 };
/* common/linear_prefill.hip */
enum { PREFILL_OUTPUTS = 64, DENSE_PREFILL_ROWS = 64 };
/* Shared memory that a launch of SwiGLU asks for if it has few rows, so that a multiprocessor takes
 * one block only. Without it all blocks of a launch that starts early (programmatic dependent
 * launch) go to the few multiprocessors that are idle then. A block of
 * hopper/linear_decode_wgmma.hip fits beside it. */
enum { SPREAD_SHARED = 95 << 10 };

struct prepare_args {
    const float *x;              /* [rows][in] */
    const int *perm;             /* [k] or NULL; -1 gives 0 */
    const unsigned short *order; /* [stride] perm for rows in registers, with `in` in place of -1;
                                    NULL: no permutation, or the row is too long for registers */
    void *packed;                /* [rows][stride] of fp16 or fp32; zeros from k on */
    float *scale;                /* [rows], fp16 only: x = packed * scale */
    int in, k, stride;
    int top; /* fp16: the largest magnitude comes into [2^top, 2^(top+1)) */
    /* fp16: rows before n_first are in tiles of first_tile rows, those from n_first on in tiles of
     * rest_tile rows, which begin at half rest_at; a tile of 0 rows: row-major */
    int n_first, first_tile, rest_tile;
    unsigned long long rest_at;
    int rounded; /* linear_plain_mma.hip, bf16: 1 splits a number into two rounded parts, and the
                    third is 0 */
};

/* A part of a launch: one of up to MAX_PARTS linears with one input. */
struct linear_part {
    const void *weight; /* codes or weight */
    const void *meta;   /* 4-bit only */
    const float *bias;  /* [out] or NULL */
    const void *maps;   /* tensor maps of codes and meta for TMA (hip_pack.c), or NULL */
    float *y;           /* [rows][out], from the first row on */
    int out;
    int first; /* first block of the grid, each with the kernel's number of outputs */
    int group_chunks, group_shift,
        last_group;       /* a group is group_chunks chunks, = 1 << group_shift unless that is -1 */
    int scale_f32;        /* two words a scale */
    int whole_items;      /* every item is of one group */
    unsigned group_magic; /* chunk * this >> 31 is its group */
    unsigned long long next_weight, next_meta; /* bytes from one linear of a stack to the next */
};

enum { MAX_PARTS = 3 };

struct linear_args {
    struct linear_part part[MAX_PARTS];
    const void *x;      /* first row */
    const float *scale; /* [rows] from the first row on, or NULL */
    int n_parts, rows, n_chunks;
    int n_blocks;    /* blocks of all parts */
    const int *slot; /* [rows] the rows of y; NULL: row i of x gives row i of y */
    void *heads;     /* [DEALT_BYTES] of hopper/linear_dealt_wgmma.hip */
};

struct repack_args { /* a launch repacks whole panels */
    const void *src; /* codes as in the model file; or rows of `in` weights */
    void *dst;
    int n_panels, n_chunks;
    int in, out_left;  /* dense: inputs; rows that exist from the first panel on */
    int first, stride; /* the paper's layout: the first of these panels; outputs of a row */
    const void *scales; /* codes of 8 bits as pairs: the scales of n_panels panels as in the model
                           file */
    int group;
};

struct repack_meta_args {
    const void *scales;         /* fp16 or fp32, [n] */
    const unsigned char *zeros; /* [n] */
    void *dst;
    int n, scale_f32;
    int first, n_groups, stride; /* stride 0: dst [n]; else dst [group][stride], beginning at
                                    element `first` */
};

struct embed_args {
    const void *weight;
    const int *token;  /* [rows] */
    const int *chosen; /* tokens that the device chose; token -1 is the first of them, -2 the
                          second */
    float *out;        /* [rows][dim] */
    int dim, n_chunks;
    int kind; /* enum weight_kind */
    float scale;
};

struct norm_args {
    float *x;            /* [rows][dim] */
    const float *delta;  /* [rows][dim] or NULL */
    const float *weight; /* [dim] */
    float *out;          /* NULL: only norm_prepare's packed rows are read */
    float eps;
    int dim;
};

struct angles_args {
    const int *pos;        /* [rows] */
    const float *inv_freq; /* [half] */
    float *cos, *sin;      /* [rows][half] */
    float scale;
    int rows, half;
};

/* int4: the pages of int8 that rows of the step store and read (core/step/kv_open.h) */
struct open_pages {
    void *seats, *steps; /* pages of n_kv_heads * INT8_PAGE bytes */
    const int *own;      /* [rows] the row's own page: a seat, or step page ~number */
};

struct open_job_args {
    struct open_pages open;
    void *pages;
    const int *jobs; /* [][2] open page, and page that it is packed to or step page that it is
                        copied to; -1: no job */
    int n_kv_heads, head_dim, packs;
};

struct rope_kernel_args {
    float *q;                     /* [rows][n_heads * head_dim] */
    const float *k, *v;           /* [rows][n_kv_heads * head_dim]; NULL: n_kv_heads is 0 */
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    const float *cos, *sin;       /* [rows][head_dim / 2] */
    const int *slot;              /* [rows] */
    void *pages;
    struct open_pages open; /* int4 */
    float eps;
    int n_heads, n_kv_heads, head_dim, kv; /* kv: enum page_kind */
    int in_octets; /* a block takes several heads: no q or k norm, head_dim is a multiple of 16 */
};

/* latent.hip */
struct latent_rope_args {
    const float *q_latent, *q_rot; /* [rows][n_heads * latent], [rows][n_heads * rotated] */
    const float *key, *k_rot;      /* [rows], rows of key_stride and of rot_stride floats */
    float *q;                      /* [rows][n_heads * (latent + rotated)] */
    const float *cos, *sin;        /* [rows][rotated / 2] */
    const int *slot;               /* [rows] */
    void *pages;
    struct open_pages open; /* int4 */
    int n_heads, latent, rotated, kv, key_stride, rot_stride;
};

struct latent_attend_args {
    const float *q; /* [rows][n_heads * (latent + rotated)] */
    const void *pages;
    float *out;           /* [rows][n_heads * latent] */
    const int *pos, *seq; /* [rows] */
    const int *table;     /* [n_seqs][table_stride] */
    float *parts;         /* as in combine_args, n_splits > 0: a block has one chunk */
    struct open_pages open;
    float scale;
    int table_stride, window, n_heads, latent, rotated, n_splits;
    int kv, digits; /* enum page_kind; of queries, 0: integers in fp32 */
    int n_rows, shares; /* attend_latent.hip: prompt rows; blocks that share a decode row */
    /* attend_chosen_chunk: rows from position n_chosen on see these positions alone, ascending */
    const int *chosen; /* [rows][n_chosen] */
    int n_chosen;
};

/* choose.hip. The greatest head */
enum { CHOOSE_DIMS = 256 };

struct choose_args {
    const float *q, *w; /* [rows][n_heads * (latent + rotated)], [rows][n_heads] */
    const void *pages;
    const int *pos, *seq; /* [rows] */
    const int *table;     /* [n_seqs][table_stride] */
    float *score;         /* [rows][positions] */
    int *out;             /* [rows][top_k] */
    struct open_pages open;
    unsigned long long positions;
    int table_stride, n_heads, latent, rotated, kv, top_k;
};

struct attend_kernel_args {
    const float *q; /* [rows][n_heads * head_dim] */
    const void *pages;
    float *out;
    const int *pos, *seq; /* [rows] */
    const int *table;     /* [n_seqs][table_stride] */
    const float *sinks;   /* [n_heads] logits without a value, or NULL; of prompt rows (decode
                             rows: combine_args) */
    float scale, softcap; /* softcap 0: none; only attend.hip's kernels have it */
    int table_stride, window, n_heads, n_kv_heads, head_dim;
    float *parts; /* attend_split, attend_pages: the partial results that combine_args reads */
    /* attend_decode_mma.hip, attend_prefill_wgmma.hip. cos not NULL: the kernel rotates the
     * queries. k not NULL: it also rotates the keys of decode rows, and stores keys and values. */
    const float *k, *v;           /* [rows][n_kv_heads * head_dim] */
    const float *cos, *sin;       /* [rows][head_dim / 2] */
    const float *q_norm, *k_norm; /* [head_dim] or NULL; attend_decode_mma.hip norms heads with them
                                     before it rotates */
    float eps;
    int n_splits;           /* KV splits of the longest decode row, or more */
    const int *work;  /* [] row << 16 | split for each block of decode rows; NULL: the grid has a
                         block for each row and split */
    const int *tiles; /* [][TILE_GROUPS][2] first row and number of rows, 0 to GROUP_ROWS, all of
                         one sequence */
    const void *values; /* attend_prefill_pages.hip: the tensor map of the pages, or NULL */
    int digits;         /* exact_attend_int8.hip, attend_chunk.hip: digits of a query's integers */
    int exact; /* attend_chunk.hip: 1 rotates in the CPU's order, as exact_rope_store does */
    struct open_pages open; /* int4; tiles begin at multiples of GROUP_ROWS positions, or at a
                               sequence's first row */
    /* the kernels with `biased` in their names, as OP_ATTEND has them (core/step/op.h) */
    const float *bias, *turns; /* [n_kv_heads][bias_pairs][BIAS_ROW], [chunks][head_dim / 2][2] */
    int bias_pairs;
};
enum { BIAS_ROW = 2 * 256 + 16 };

struct combine_args {
    const float *parts; /* [rows][n_heads][n_splits][part_floats(head_dim)] */
    float *out;         /* [rows][n_heads * head_dim] */
    const int *pos;     /* [rows] */
    const float *sinks; /* [n_heads] logits without a value, or NULL */
    float weight_scale; /* factor of the weights in `parts` */
    float *gate; /* attend_combine: NULL, or the gate, in whose place sigmoid(gate) times the result
                    is written, and not to `out` */
    int n_splits, window, n_heads, head_dim;
    int most; /* exact_combine: positions that a row sees at most; 0: all */
};

/* A producer fused with the preparation of a linear's input. A block reads back rows of `out` that
 * it has written; rows without other readers may stay in registers. */
struct norm_prepare_args {
    struct norm_args norm;
    struct prepare_args prepare;
};

struct combine_prepare_args {
    struct combine_args combine;
    struct prepare_args prepare;
};

struct glu_args {
    float *gate;
    const float *up;
    unsigned long long n;
    int gelu; /* GELU by tanh instead of SiLU; vector_1024.hip and linear_gemv.hip have SiLU only */
};

enum { SUM_LANES = 16 }; /* of a group */

/* vector.hip: OP_GROUP_SUMS */
struct group_sums_args {
    const float *x;       /* [n][group] */
    float *out;           /* [n] */
    unsigned long long n; /* groups of all rows */
    int group;            /* elements, a multiple of SUM_LANES */
};

struct softcap_args {
    float *x;
    unsigned long long n;
    float cap;
};

struct glu_prepare_args {
    struct glu_args glu; /* n: of a row */
    struct prepare_args prepare;
    int keep; /* 1: the result is stored in glu.gate, too, for other readers */
};

/* norm.hip. out may be x */
struct norm_groups_args {
    struct norm_args norm; /* norm.dim: elements of a group; norm.delta is NULL */
    int n;                 /* groups of all rows */
    int own; /* groups of a row, which have weights of their own; 0: they share them */
};

struct norm_centered_args {
    struct norm_args norm;
    const float *bias; /* [dim] or NULL */
};

/* element.hip */
struct glu_any_args {
    float *gate;
    const float *up; /* NULL: 1 */
    unsigned long long n;
    int activation; /* enum activation of core/step/op.h */
    float limit, alpha;
    float p, n_below, beta, eps; /* of its struct xielu */
};

struct add_args {
    float *x;           /* [rows][dim] */
    const float *delta; /* [rows][dim] or NULL */
    const float *gate;  /* [rows] or NULL */
    const int *pos;     /* positions of the rows of the step */
    const int *row;     /* [rows] the row of the step that row i is; NULL: row i */
    int dim, original, first;
    float scale, beta;
};

/* exchange.hip: OP_EXCHANGE. A device has a region of memory that others write, of these parts, all
 * [devices][EXCHANGE_BLOCKS]: messages of each sender that have arrived; messages to each receiver
 * that it has taken; rings [senders of the region] of `slots` messages of each, and rings of marked
 * ones. A message is a piece of the slice of a block. Every word of a marked message has the
 * message's number beside it. Numbers of messages count from the opening on. */
enum {
    EXCHANGE_DEVICES = 16,
    EXCHANGE_BLOCKS = 128,
    EXCHANGE_SLOTS = 2,      /* of a ring, at least; a power of two */
    EXCHANGE_FLOATS = 16384, /* of a message, at most */
    EXCHANGE_MARKED = 2048,  /* of a marked one */
    EXCHANGE_FLAG = 8,       /* words from one number to the next */
    EXCHANGE_OF_BLOCK = 256, /* floats of a slice, unless all blocks have more */
    WORD_THREADS = 64
};
#define EXCHANGE_FLAGS (4ull * EXCHANGE_DEVICES * EXCHANGE_BLOCKS * EXCHANGE_FLAG)
#define EXCHANGE_RINGS(senders, slots) (4ull * (senders)*EXCHANGE_BLOCKS * (slots)*EXCHANGE_FLOATS)
#define EXCHANGE_REGION(senders, slots)                                                            \
    (2 * EXCHANGE_FLAGS + EXCHANGE_RINGS(senders, slots) +                                         \
     8ull * (senders)*EXCHANGE_BLOCKS * (slots)*EXCHANGE_MARKED)

struct exchange_args {
    void *region[EXCHANGE_DEVICES]; /* of each device */
    unsigned *count; /* [2][EXCHANGE_DEVICES][EXCHANGE_BLOCKS] messages sent to each device, and
                        taken from it */
    const unsigned *stop; /* of the host: not 0: nobody waits any more */
    const float *own;     /* [n][columns of this device] or NULL */
    float *out;           /* [n][width] or NULL */
    unsigned n, width;
    unsigned to; /* bit q: device q receives */
    unsigned char ring_there[EXCHANGE_DEVICES], /* number of this device's ring in region q */
        ring_here[EXCHANGE_DEVICES];            /* of device q's ring in this one's region */
    unsigned slots;                             /* messages of a ring */
    unsigned long long marked_at;               /* where rings of marked messages begin, in bytes */
    unsigned *arrivals[EXCHANGE_DEVICES]; /* of microbatches: numbers of the messages that came from
                                             device p to block 0 of device q, at p * EXCHANGE_FLAG
                                             of number q; NULL */
    int devices, device, blocks;
    int is_marked;                /* messages are: slices have EXCHANGE_MARKED floats at most */
    int at[EXCHANGE_DEVICES + 1]; /* columns at[q] .. at[q + 1] - 1 are device q's */
};

/* exchange.hip: a word that others write */
struct word_args {
    unsigned *word;
    const unsigned *stop; /* of exchange_args */
    unsigned value;
    int waits; /* until the word has come to the value; 0: sets it */
};

/* conv.hip, delta.hip: states of sequences, in slots */
struct state_rows {
    const int *seq;       /* [rows] */
    const int *seq_start; /* [n_seqs + 1] */
    const int *from, *to; /* [n_seqs] slots; from -1: the state begins with zeros */
    void *slots;
    unsigned long long slot_floats;
    /* Rows of drafts (core/step/batch.h), kept.hip. NULL: no sequence has any, or right ones.
     * [n_seqs][KEPT_INTS]: how many are drafts, how many of the last ones were right, the numbers
     * in `kept` of those of the last step and of the places of this one's */
    const int *kept_of;
    float *kept; /* of kept_floats each: inputs of STATE_DRAFTS rows */
    unsigned long long kept_floats;
};
enum { KEPT_DRAFTS, KEPT_RIGHT, KEPT_READ, KEPT_WRITTEN, KEPT_INTS };
enum { MAX_DRAFTS = 4 }; /* STATE_DRAFTS of core/step/op.h */

enum { CONV_ROWS = 8 }; /* rows of a thread in long prompts */

struct conv_args {
    struct state_rows state; /* [width - 1][channels] of a slot */
    const float *x;          /* [rows][channels] */
    const float *weight;     /* [channels][width] */
    const float *bias;       /* [channels] or NULL */
    float *out;              /* [rows][channels] */
    int rows, channels, width;
    int linear;    /* no silu */
    int of_thread; /* rows of a thread: 1 or CONV_ROWS */
};

/* exact_states.hip: a block of exact_ssm has so many columns, of a key head's value heads */
enum { EXACT_SSM_THREADS = 64 };

/* A block has DELTA_COLUMNS columns of the state of a value head: DELTA_THREADS consumers, and as
 * many producers where a sequence has several rows. DELTA_STAGE: floats of a chunk of rows */
enum { DELTA_THREADS = 128, DELTA_COLUMNS = DELTA_THREADS / 4 };
#define DELTA_STAGE(dims, rows) ((rows) * (2 * (dims) + DELTA_COLUMNS + 2))

/* delta_channels.hip, delta_scan.hip: most dimensions of a key; columns of a block */
enum { CHANNELS_KEYS = 128, CHANNELS_THREADS = 64, SCAN_KEYS = 16, SCAN_THREADS = 64 };

struct delta_args {
    struct state_rows state; /* [value_heads][key_dim][value_dim] of a slot */
    const float *q, *k, *v;  /* [rows], of rows of qk_stride and v_stride floats */
    int qk_stride, v_stride;
    const float *a, *b; /* [rows][of_a], [rows][value_heads] */
    /* [value_heads], [of_a]; DELTA_SCAN: [key_dim][value_dim], and dt may be NULL */
    const float *decay, *dt;
    const float *skip; /* DELTA_SSM: [value_heads], DELTA_SCAN: [value_dim]; b is NULL there */
    float *out;              /* [rows][value_heads * value_dim] */
    float q_scale;           /* 1 / sqrt(key_dim) */
    float beta_scale;
    int key_heads, value_heads, key_dim, value_dim; /* key_dim: a multiple of 4, as rows of
                                                        x; value_dim: of 2 */
    int of_a; /* value_heads; DELTA_CHANNELS: times key_dim; DELTA_SCAN: value_dim */
};

/* EXPERTS. Slot row * top_k + j is choice j of a row. Grouping gives every slot a place, so that an
 * expert's slots are neighbours, ascending, and every tile of `tile` places is of one expert: tile
 * t has places t * tile .. end[t] - 1, those up to (t + 1) * tile are unused. All numbers count
 * from the first row of a phase, each of which is grouped by itself. */
enum { MAX_EXPERTS = 1024, MAX_TOP_K = 64 };

struct route_args {
    const float *x;      /* [rows][n] */
    const float *bias;   /* [n] or NULL: added for the choice */
    const float *factor; /* [n] or NULL: what an expert's weight is multiplied by */
    int *id;             /* [rows][top_k] */
    float *weight;       /* [rows][top_k] */
    int n, top_k, sigmoid, normalize, groups, kept_groups, group_best;
    int by_warp; /* 1: one warp can make the choice (hopper/experts_route_gemv.hip) */
    int rows;    /* route_warps */
    float scale;
};

struct expert_groups {
    const int *id;     /* [n_slots] expert of a slot */
    int *place;        /* [n_slots] of a slot */
    int *slot;         /* [places] of a place in use */
    int *expert, *end; /* [tiles] */
    int *n_tiles;      /* [1] */
    int n_slots, tile;
};

struct group_args {
    struct expert_groups phase[2]; /* n_slots 0: the phase has no rows */
    int n_experts;
};

/* Prepares the input of every slot as prepare_args describes it for rows. packed and scale begin
 * with place 0; all places are in tiles of first_tile rows. perm is [experts][k]. */
struct slot_prepare_args {
    struct prepare_args prepare;
    const int *id, *place; /* [slots]; place NULL: slot i has place i */
    int top_k;             /* slots of a row of x; 1: every slot has its own */
    int copies;            /* slots that a block prepares: top_k, or 1 */
    float *gate;           /* NULL, or [slots][in]: the input is activation(gate) * up in place of
                              x */
    const float *up;
    int gelu;
    int keep;    /* 1: the result is stored in gate, too, for other readers */
    int n_slots; /* slots_gate_f16: all slots */
};

/* A stack of linears on the tiles of a grouping. linear is that of the first expert; its rows are
 * places. */
struct experts_args {
    struct linear_args linear; /* rows: slots */
    const int *expert;         /* [tiles], or [slots] where every slot is a tile: the tile's
                                  expert */
    const int *end;            /* [tiles] the end of a tile's places; NULL: every slot is a tile */
    const int *n_tiles;        /* [1] */
    int top_k;                 /* experts_decode_mma.hip: slots of a row of x and scale */
    int early; /* experts_decode_mma.hip: a launch before the preceding one waited for the grouping
                  before it let others start */
};

struct mix_args {
    const float *x;      /* [rows][top_k][n] */
    const float *weight; /* [rows][top_k] */
    float *out;          /* [rows][n] */
    unsigned long long count;
    int n, top_k;
    int add; /* out += */
};

#include "backend-hip/kernels/common/args_exact.h"
#include "backend-hip/kernels/common/args_gptq.h"

#endif
