/* fiber_matrix.c: warp instructions for fibers.c: matrix products of AMD and NVIDIA, exchanges
 * between lanes, asynchronous copies and mbarriers. */
#include "tests/emulators/fibers/fibers_int.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An array of n that this thread of the host has for itself. */
#define OWN(array, n)                                                                              \
    do                                                                                             \
        if (!(array)) (array) = fiber_memory((n) * sizeof *(array));                               \
    while (0)

/* ---- dynamic shared memory, and copies to it ---- */
enum { MAX_COPIES = 256 };
static FIBER_LOCAL char (*dynamic)[DYNAMIC_BYTES];      /* [MAX_BLOCKS] */
static FIBER_LOCAL struct thread_barrier *warp_barrier; /* [MAX_THREADS / 32] */

/* What all 32 lanes of a warp execute together. A lane that comes to something else than the first
 * one shows a branch that not all lanes take: a card would wait forever. */
enum meeting {
    MEET_BARRIER,
    MEET_SHUFFLE,
    MEET_NUMBER,
    MEET_TRANSPOSED,
    MEET_MATRICES,
    MEET_MMA,
    MEET_WGMMA
};

static void meet(enum meeting what)
{
    static const char *const name[] = {"warp_barrier", "shuffle", "warp_number", "transposed",
                                       "load_matrices", "mma", "wgmma"};
    static FIBER_LOCAL enum meeting *of_first; /* [MAX_THREADS / 32] */
    OWN(of_first, MAX_THREADS / 32);
    int warp = fibers.self / 32;
    if (!warp_barrier[warp].came) of_first[warp] = what;
    if (of_first[warp] != what) {
        fprintf(stderr, "fibers: one lane of a warp is in %s, another in %s\n",
                name[of_first[warp]], name[what]);
        abort();
    }
    fiber_arrive_and_wait(&warp_barrier[warp], 32, 32);
}

void fiber_warp_barrier(void) { meet(MEET_BARRIER); }

/* threads of a warpgroup */
enum { GROUP = 128 };
static FIBER_LOCAL struct thread_barrier *group_barrier; /* [MAX_THREADS / GROUP] */

/* The end of an instruction of a warpgroup: no lane continues, and reports that operands were read,
 * before all of its warps have read. */
static void meet_group(void)
{
    OWN(group_barrier, MAX_THREADS / GROUP);
    fiber_arrive_and_wait(&group_barrier[fibers.self / GROUP], GROUP, GROUP);
}

struct copies {
    struct {
        unsigned to;
        const void *from;
        size_t bytes;
        int group;
    } copy[MAX_COPIES];
    int n, group;
};
static FIBER_LOCAL struct copies *copies; /* [MAX_THREADS] */
static FIBER_LOCAL int used_copies;       /* the first of them that are no longer as they begin */

void *fiber_dynamic_lds(void) { return dynamic[fiber_block_of_cluster()]; }

/* Both kinds of shared memory have addresses; those of fiber_lds() come last. */
unsigned fiber_lds_address(const void *p)
{
    const char *at = p, *fixed = fiber_static_lds[fiber_block_of_cluster()];
    return (unsigned)(at >= fixed && at < fixed + LDS_BYTES
                          ? at - fixed + DYNAMIC_BYTES
                          : at - dynamic[fiber_block_of_cluster()]);
}

static char *of_block(unsigned address, int block)
{
    return address < DYNAMIC_BYTES ? dynamic[block] + address
                                   : fiber_static_lds[block] + (address - DYNAMIC_BYTES);
}

static char *at_address(unsigned address) { return of_block(address, fiber_block_of_cluster()); }

void *fiber_lds_pointer(unsigned address) { return at_address(address); }

static struct copies *own_copies(void)
{
    if (used_copies <= fibers.self) used_copies = fibers.self + 1;
    return &copies[fibers.self];
}

void fiber_copy(unsigned to, const void *from, size_t bytes)
{
    struct copies *c = own_copies();
    size_t end = to < DYNAMIC_BYTES ? fibers.dynamic_bytes
                                    : DYNAMIC_BYTES + fibers.lds_high[fiber_block_of_cluster()];
    if (to % bytes || to + bytes > end || c->n == MAX_COPIES) {
        fprintf(
            stderr,
            "fibers: a copy to %u, of shared memory that ends at %zu, and %d copies under way\n",
            to, end, c->n);
        abort();
    }
    memset(at_address(to), 0xff, bytes);
    c->copy[c->n].to = to;
    c->copy[c->n].from = from;
    c->copy[c->n].bytes = bytes;
    c->copy[c->n++].group = c->group;
}

void fiber_copies_commit(void) { own_copies()->group++; }

void fiber_copies_wait(int n)
{
    struct copies *c = &copies[fibers.self];
    int left = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->copy[i].group >= c->group - n) c->copy[left++] = c->copy[i];
        else if (c->copy[i].from)
            memcpy(at_address(c->copy[i].to), c->copy[i].from, c->copy[i].bytes);
        else memset(at_address(c->copy[i].to), 0, c->copy[i].bytes);
    }
    c->n = left;
}

/* ---- instructions of NVIDIA's warps ---- */
/* A register of each lane of the warp. Two buffers are used, by the parity of the warp's barrier: a
 * lane comes to a barrier after the next only when all have read this one's. */
static const unsigned *exchange(unsigned mine, enum meeting what)
{
    static FIBER_LOCAL unsigned(*mail)[MAX_THREADS]; /* [2] */
    OWN(mail, 2);
    int t = fibers.self, turn = warp_barrier[t / 32].number & 1;
    mail[turn][t] = mine;
    meet(what);
    return mail[turn] + t / 32 * 32;
}

unsigned fiber_shuffle(unsigned v, int lane) { return exchange(v, MEET_SHUFFLE)[lane & 31]; }

int fiber_warp_number(void)
{
    meet(MEET_NUMBER);
    return fiber_thread / 32;
}

static unsigned half_at(const unsigned *v, int i) { return v[i / 2] >> (16 * (i % 2)) & 0xffff; }

unsigned fiber_transposed(unsigned v)
{
    const unsigned *of = exchange(v, MEET_TRANSPOSED);
    int row = fiber_thread % 32 / 4, column = fiber_thread % 4 * 2;
    return half_at(of + 4 * column, row) | half_at(of + 4 * (column + 1), row) << 16;
}

void fiber_load_matrices(unsigned address, unsigned m[4], int transposed)
{
    const unsigned *of = exchange(address, MEET_MATRICES);
    int row = fiber_thread % 32 / 4, column = fiber_thread % 4 * 2;
    for (int i = 0; i < 4; i++) {
        uint16_t v[2];
        for (int e = 0; e < 2; e++) {
            int r = transposed ? column + e : row, c = transposed ? row : column + e;
            memcpy(&v[e], at_address(of[8 * i + r]) + 2 * c, 2);
        }
        m[i] = v[0] | (unsigned)v[1] << 16;
    }
    meet(MEET_MATRICES); /* no lane continues before all have read */
}

enum { LANES = 16 };
typedef float vector __attribute__((vector_size(4 * LANES)));
typedef int ints __attribute__((vector_size(4 * LANES)));
typedef unsigned words __attribute__((vector_size(4 * LANES)));
typedef uint16_t shorts __attribute__((vector_size(2 * LANES)));

/* Numbers of 16 bits. */
static inline vector numbers_of(const uint16_t from[LANES], int is_bf16)
{
    shorts narrow;
    memcpy(&narrow, from, sizeof narrow);
    words h = __builtin_convertvector(narrow, words);
    if (is_bf16) return (vector)(h << 16);
    words magnitude = h & 0x7fff, is_subnormal = (words)(magnitude < 0x400);
    words is_special = (words)(magnitude >= 0x7c00); /* infinity, NaN */
    words rebias = (112u << 23) + (is_special & (112u << 23));
    words subnormal = (words)(__builtin_convertvector((ints)magnitude, vector) * 0x1p-24f);
    words bits = (is_subnormal & subnormal) | (~is_subnormal & ((magnitude << 13) + rebias));
    return (vector)(bits | (h & 0x8000) << 16);
}

static int wrong_lane(void)
{
    static int asked = -1;
    if (asked < 0) asked = env_number("FIBERS_WRONG_LANE", 0) != 0;
    return asked;
}

/* The last lane to come computes for the warp. */
static int is_last_of_warp(void) { return warp_barrier[fibers.self / 32].came == 31; }

/* A [16][16]: halves as the lanes have them. */
static void store_a(uint16_t half[16][16], unsigned lane, const unsigned *a)
{
    for (unsigned i = 0; i < 4; i++)
        memcpy(&half[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8], &a[i], 4);
}

/* sum [16][LANES] = A [16][16] B [16][LANES], each sum in the order of the inputs. */
static void multiply(const vector a[16], const vector *b, size_t b_stride, vector *sum,
                     size_t sum_stride)
{
    vector s[16] = {0};
    for (int k = 0; k < 16; k++)
        for (int r = 0; r < 16; r++) s[r] += a[r][k] * b[(size_t)k * b_stride];
    for (int r = 0; r < 16; r++) sum[(size_t)r * sum_stride] = s[r];
}

/* Of a warp: A, B (its other columns are zeros), the product. */
struct operands {
    uint16_t a[16][16], b[16][LANES];
    vector sum[16];
};

static __attribute__((noinline)) void multiply_operands(struct operands *of, int is_bf16)
{
    vector rows[16], by_input[16];
    for (int r = 0; r < 16; r++) rows[r] = numbers_of(of->a[r], is_bf16);
    for (int k = 0; k < 16; k++) by_input[k] = numbers_of(of->b[k], is_bf16);
    multiply(rows, by_input, 1, of->sum, 1);
}

void fiber_mma(float *c, const unsigned *a, const unsigned *b, int is_bf16)
{
    static FIBER_LOCAL struct operands(*operands)[MAX_THREADS / 32]; /* [2] as in exchange() */
    OWN(operands, 2);
    unsigned t = (unsigned)fibers.self, lane = t % 32, turn = warp_barrier[t / 32].number & 1;
    struct operands *of = &operands[turn][t / 32];
    store_a(of->a, lane, a);
    for (unsigned i = 0; i < 4; i++)
        of->b[lane % 4 * 2 + i / 2 * 8 + i % 2][lane / 4] = (uint16_t)half_at(b, (int)i);
    if (is_last_of_warp()) multiply_operands(of, is_bf16);
    meet(MEET_MMA);
    if (wrong_lane() && lane == 1) lane = 2;
    for (unsigned i = 0; i < 4; i++) c[i] += of->sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

/* The same with 32 inputs of signed bytes: sums of 32 products are exact as fp32. */
struct bytes {
    signed char a[16][2][LANES], b[2][LANES][LANES]; /* inputs by halves */
    vector sum[2][16];
};

static vector numbers_of_bytes(const signed char from[LANES])
{
    typedef signed char chars __attribute__((vector_size(LANES)));
    chars narrow;
    memcpy(&narrow, from, sizeof narrow);
    return __builtin_convertvector(narrow, vector);
}

/* A [16][32] as the lanes have it. */
static void store_bytes(signed char of[16][2][LANES], unsigned lane, const unsigned *a)
{
    for (unsigned i = 0; i < 4; i++)
        memcpy(&of[lane / 4 + i % 2 * 8][i / 2][lane % 4 * 4], &a[i], 4);
}

static __attribute__((noinline)) void multiply_bytes(struct bytes *of)
{
    for (int half = 0; half < 2; half++) {
        vector rows[16], by_input[16];
        for (int r = 0; r < 16; r++) rows[r] = numbers_of_bytes(of->a[r][half]);
        for (int k = 0; k < 16; k++) by_input[k] = numbers_of_bytes(of->b[half][k]);
        multiply(rows, by_input, 1, of->sum[half], 1);
    }
}

void fiber_mma_s8(int *c, const unsigned *a, const unsigned *b)
{
    static FIBER_LOCAL struct bytes(*operands)[MAX_THREADS / 32]; /* [2] as in exchange() */
    OWN(operands, 2);
    unsigned t = (unsigned)fibers.self, lane = t % 32, turn = warp_barrier[t / 32].number & 1;
    struct bytes *of = &operands[turn][t / 32];
    store_bytes(of->a, lane, a);
    for (unsigned i = 0; i < 8; i++)
        of->b[i / 4][lane % 4 * 4 + i % 4][lane / 4] = (signed char)(b[i / 4] >> i % 4 * 8);
    if (is_last_of_warp()) multiply_bytes(of);
    meet(MEET_MMA);
    if (wrong_lane() && lane == 1) lane = 2;
    for (unsigned i = 0; i < 4; i++) {
        unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        c[i] += (int)(of->sum[0][row][column] + of->sum[1][row][column]);
    }
}

/* ---- matrix instructions of AMD ---- */
enum { MFMA, WMMA, WMMA12 }; /* enum matrix_kind */

/* The input in half n of a lane's registers of A (or B, the same); and the row of the lane's value
 * n. */
static int matrix_input(int kind, int lane, int n)
{
    return kind == MFMA ? 4 * (lane / 16) + n : kind == WMMA ? n : 8 * (lane / 16) + n;
}

static int matrix_row_of(int kind, int lane, int n)
{
    return kind == MFMA   ? 4 * (lane / 16) + n
           : kind == WMMA ? 2 * n + lane / 16
                          : 8 * (lane / 16) + n;
}

static struct thread_barrier *barrier_of_wave(int lanes)
{
    return &warp_barrier[fibers.self / lanes * (lanes / 32)];
}

static int is_last_of_wave(int lanes) { return barrier_of_wave(lanes)->came == lanes - 1; }

/* Waits for the lanes of a wave. */
static void wave_barrier(int lanes) { fiber_arrive_and_wait(barrier_of_wave(lanes), lanes, lanes); }

/* A wave's A [row][input], B [input][column] as halves, and the product; two used alternately: a
 * lane reaches the instruction after the next only after a barrier of all that read this one. */
void fiber_matrix(int kind, const unsigned *a, const unsigned *b, float *c)
{
    static FIBER_LOCAL struct operands(*operands)[MAX_THREADS / 32]; /* [2] */
    static FIBER_LOCAL int *turn_of;                                 /* [MAX_THREADS] */
    OWN(operands, 2);
    OWN(turn_of, MAX_THREADS);
    int lanes = kind == MFMA ? 64 : 32,
        halves = kind == MFMA   ? 4
                 : kind == WMMA ? 16
                                : 8,
        values = kind == MFMA ? 4 : 8;
    int t = fibers.self, lane = t % lanes, turn = turn_of[t] ^= 1;
    struct operands *of = &operands[turn][t / lanes];
    for (int n = 0; n < halves; n++) {
        int input = matrix_input(kind, lane, n);
        of->a[lane % 16][input] = (uint16_t)half_at(a, n);
        of->b[input][lane % 16] = (uint16_t)half_at(b, n);
    }
    if (is_last_of_wave(lanes)) multiply_operands(of, 0);
    wave_barrier(lanes);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int n = 0; n < values; n++) c[n] += of->sum[matrix_row_of(kind, lane, n)][lane % 16];
}

/* The same of signed bytes. */
struct small_bytes {
    signed char a[16][LANES], b[16][LANES];
    ints sum[16];
};

static __attribute__((noinline)) void multiply_small_bytes(struct small_bytes *of)
{
    for (int r = 0; r < 16; r++) of->sum[r] = (ints){0};
    for (int k = 0; k < 16; k++) {
        ints y = __builtin_convertvector(numbers_of_bytes(of->b[k]), ints);
        for (int r = 0; r < 16; r++) of->sum[r] += of->a[r][k] * y;
    }
}

void fiber_matrix_s8(int kind, const unsigned *a, const unsigned *b, int *c)
{
    static FIBER_LOCAL struct small_bytes(*operands)[MAX_THREADS / 32]; /* as above */
    static FIBER_LOCAL int *turn_of;
    OWN(operands, 2);
    OWN(turn_of, MAX_THREADS);
    int lanes = kind == MFMA ? 64 : 32,
        bytes = kind == MFMA   ? 4
                : kind == WMMA ? 16
                               : 8,
        values = kind == MFMA ? 4 : 8;
    int t = fibers.self, lane = t % lanes, turn = turn_of[t] ^= 1;
    struct small_bytes *of = &operands[turn][t / lanes];
    for (int n = 0; n < bytes; n++) {
        int input = matrix_input(kind, lane, n);
        of->a[lane % 16][input] = ((const signed char *)a)[n];
        of->b[input][lane % 16] = ((const signed char *)b)[n];
    }
    if (is_last_of_wave(lanes)) multiply_small_bytes(of);
    wave_barrier(lanes);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int n = 0; n < values; n++) c[n] += of->sum[matrix_row_of(kind, lane, n)][lane % 16];
}

/* ---- Hopper: mbarriers that count bytes, TMA copies, products of warpgroups (wgmma), clusters
 * ---- */
struct phase {
    int arrivals, pending, bytes, parity;
    unsigned long made; /* run of the block or cluster in which it was initialized */
};
static FIBER_LOCAL struct phase (*phases)[DYNAMIC_BYTES / 8]; /* [MAX_BLOCKS] */
static FIBER_LOCAL unsigned long runs;

static struct phase *place_of_phase(unsigned barrier)
{
    if (barrier % 8 || barrier + 8 > fibers.dynamic_bytes) {
        fprintf(stderr, "fibers: a barrier at %u of %zu bytes of shared memory\n", barrier,
                fibers.dynamic_bytes);
        abort();
    }
    return &phases[fiber_block_of_cluster()][barrier / 8];
}

static struct phase *phase_at(unsigned barrier)
{
    struct phase *p = place_of_phase(barrier);
    if (p->made != runs) {
        fprintf(stderr, "fibers: a barrier at %u that this block has not made ready\n", barrier);
        abort();
    }
    return p;
}

static void count(struct phase *p, int arrived, int bytes)
{
    p->pending -= arrived;
    p->bytes += bytes;
    if (p->pending < 0) {
        fprintf(stderr, "fibers: more arrivals at a barrier than it has\n");
        abort();
    }
    if (p->pending || p->bytes) return;
    p->parity ^= 1;
    p->pending = p->arrivals;
    fibers.progress = 1;
}

void fiber_phase_init(unsigned barrier, int arrivals)
{
    *place_of_phase(barrier) = (struct phase){arrivals, arrivals, 0, 0, runs};
}
void fiber_phase_arrive(unsigned barrier, int bytes) { count(phase_at(barrier), 1, bytes); }

void fiber_phase_wait(unsigned barrier, unsigned parity)
{
    fiber_wait(&phase_at(barrier)->parity, (int)parity, 32);
}

static void check_piece(unsigned to, size_t bytes, unsigned multiple)
{
    if (!(to % multiple) && to + bytes <= fibers.dynamic_bytes) return;
    fprintf(stderr, "fibers: a copy of %zu bytes to %u of %zu bytes of shared memory\n", bytes, to,
            fibers.dynamic_bytes);
    abort();
}

void fiber_copy_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
    check_piece(to, bytes, 16);
    memcpy(at_address(to), from, bytes);
    count(phase_at(barrier), 0, -(int)bytes);
}

void fiber_copy_box(unsigned to, const void *map, int c0, int c1, int c2, unsigned barrier)
{
    const struct fiber_map *m = map;
    unsigned bytes = 4 * m->box[0] * m->box[1] * m->box[2];
    check_piece(to, bytes, m->swizzled ? 1024 : 128);
    for (unsigned k = 0; k < m->box[2]; k++)
        for (unsigned j = 0; j < m->box[1]; j++)
            for (unsigned i = 0; i < m->box[0]; i++, to += 4) {
                char *at = at_address(m->swizzled ? to ^ (to >> 7 & 7) << 4 : to);
                unsigned long long x = (unsigned)c0 + i, y = (unsigned)c1 + j, z = (unsigned)c2 + k;
                if (x >= m->sizes[0] || y >= m->sizes[1] || z >= m->sizes[2]) memset(at, 0, 4);
                else
                    memcpy(at, (const char *)m->d + 4 * x + m->strides[0] * y + m->strides[1] * z,
                           4);
            }
    count(phase_at(barrier), 0, -(int)bytes);
}

enum { MAX_COLUMNS = 256 }; /* of B in wgmma */

/* Offset of input k of row n by the descriptor: PTX ISA, "Matrix descriptor" and the layouts of
 * shared memory. */
static unsigned place_of(unsigned long long b, int by_columns, unsigned n, unsigned k)
{
    unsigned at = (unsigned)(b & 0x3fff) << 4, leading = (unsigned)(b >> 16 & 0x3fff) << 4,
             stride = (unsigned)(b >> 32 & 0x3fff) << 4;
    if (by_columns) at += n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2;
    else if (b >> 62) at += n / 8 * stride + n % 8 * 128 + k * 2;
    else return at + k / 8 * leading + n / 8 * stride + n % 8 * 16 + k % 8 * 2;
    return at ^ (at >> 7 & 7) << 4;
}

/* B [16][n] by its descriptor; 8 halves of a column, or of an input, lie together. */
static void load_b(float to[16][MAX_COLUMNS], unsigned long long b, int n, int by_columns,
                   int is_bf16)
{
    for (int j = 0; j < n; j += 8)
        for (int i = 0; i < 16; i++) {
            int column = by_columns ? j : j + i % 8, k = by_columns ? i : i / 8 * 8;
            uint16_t half[LANES] = {0};
            memcpy(half, at_address(place_of(b, by_columns, (unsigned)column, (unsigned)k)), 16);
            vector f = numbers_of(half, is_bf16);
            if (by_columns) memcpy(&to[k][column], &f, 8 * sizeof(float));
            else
                for (int e = 0; e < 8; e++) to[k + e][column] = f[e];
        }
}

static __attribute__((noinline)) void multiply_described(const uint16_t a[16][16],
                                                         unsigned long long b, int n,
                                                         int by_columns, int is_bf16,
                                                         vector *sum)
{
    static FIBER_LOCAL float(*columns)[MAX_COLUMNS]; /* [16] */
    OWN(columns, 16);
    vector rows[16];
    for (int r = 0; r < 16; r++) rows[r] = numbers_of(a[r], is_bf16);
    load_b(columns, b, n, by_columns, is_bf16);
    for (int j = 0; j < n; j += LANES)
        multiply(rows, (const vector *)&columns[0][j], MAX_COLUMNS / LANES, sum + j / LANES,
                 MAX_COLUMNS / LANES);
}

static void wgmma_of_type(float *c, const unsigned *a, unsigned long long b, int n, int by_columns,
                          int is_bf16, int accumulate)
{
    static FIBER_LOCAL uint16_t(*rows)[16][16]; /* of each warp */
    static FIBER_LOCAL vector(*sums)[16][MAX_COLUMNS / LANES];
    OWN(rows, MAX_THREADS / 32);
    OWN(sums, MAX_THREADS / 32);
    unsigned t = (unsigned)fibers.self, lane = t % 32, warp = t / 32;
    store_a(rows[warp], lane, a);
    if (is_last_of_warp()) multiply_described(rows[warp], b, n, by_columns, is_bf16, sums[warp][0]);
    meet(MEET_WGMMA);
    if (wrong_lane() && lane == 1) lane = 2;
    for (unsigned e = 0; e < 4; e++) {
        const float *sum = (const float *)sums[warp][lane / 4 + e / 2 * 8] + lane % 4 * 2 + e % 2;
        for (int j = 0; j < n / 8; j++)
            c[4 * j + (int)e] = (accumulate ? c[4 * j + (int)e] : 0) + sum[8 * j];
    }
    meet_group();
}

void fiber_wgmma(float *c, const unsigned *a, unsigned long long b, int n, int by_columns,
                 int accumulate)
{
    wgmma_of_type(c, a, b, n, by_columns, 0, accumulate);
}

void fiber_wgmma_bf16(float *c, const unsigned *a, unsigned long long b, int n, int accumulate)
{
    wgmma_of_type(c, a, b, n, 0, 1, accumulate);
}

void fiber_wgmma_shared(float *c, unsigned long long a, unsigned long long b, int n,
                        int accumulate)
{
    unsigned held[4], lane = (unsigned)fibers.self % 32, warp = (unsigned)fibers.self % 128 / 32;
    for (unsigned i = 0; i < 4; i++)
        memcpy(&held[i], at_address(place_of(a, 0, 16 * warp + lane / 4 + i % 2 * 8,
                                             lane % 4 * 2 + i / 2 * 8)), 4);
    wgmma_of_type(c, held, b, n, 0, 0, accumulate);
}

enum { BYTE_COLUMNS = 64 };

typedef vector byte_sums[16][BYTE_COLUMNS / LANES];

static __attribute__((noinline)) void multiply_described_bytes(const signed char a[16][2][LANES],
                                                               unsigned long long b,
                                                               byte_sums sum[2])
{
    static FIBER_LOCAL float(*columns)[BYTE_COLUMNS]; /* [16] */
    OWN(columns, 16);
    for (unsigned half = 0; half < 2; half++) { /* 16 bytes, which are 8 halves for others */
        vector rows[16];
        for (int r = 0; r < 16; r++) rows[r] = numbers_of_bytes(a[r][half]);
        for (unsigned n = 0; n < BYTE_COLUMNS; n++) {
            vector f = numbers_of_bytes(
                (const signed char *)at_address(place_of(b, 0, n, 8 * half)));
            for (int k = 0; k < 16; k++) columns[k][n] = f[k];
        }
        for (int j = 0; j < BYTE_COLUMNS / LANES; j++)
            multiply(rows, (const vector *)columns[0] + j, BYTE_COLUMNS / LANES, &sum[half][0][j],
                     BYTE_COLUMNS / LANES);
    }
}

void fiber_wgmma_s8(int *c, const unsigned *a, unsigned long long b, int accumulate)
{
    static FIBER_LOCAL signed char(*rows)[16][2][LANES]; /* of each warp */
    static FIBER_LOCAL byte_sums(*sums)[2];
    OWN(rows, MAX_THREADS / 32);
    OWN(sums, MAX_THREADS / 32);
    unsigned t = (unsigned)fibers.self, lane = t % 32, warp = t / 32;
    store_bytes(rows[warp], lane, a);
    if (is_last_of_warp()) multiply_described_bytes(rows[warp], b, sums[warp]);
    meet(MEET_WGMMA);
    if (wrong_lane() && lane == 1) lane = 2;
    for (unsigned e = 0; e < 4; e++) {
        unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        const float *first = (const float *)sums[warp][0][row] + column,
                    *second = (const float *)sums[warp][1][row] + column;
        for (unsigned j = 0; j < BYTE_COLUMNS / 8; j++)
            c[4 * j + e] = (accumulate ? c[4 * j + e] : 0) + (int)(first[8 * j] + second[8 * j]);
    }
    meet_group();
}

/* Finished threads of the cluster do not count. */
void fiber_cluster_barrier(void)
{
    static FIBER_LOCAL struct thread_barrier m;
    int number = m.number;
    m.came++;
    while (m.number == number) {
        if (m.came == fibers.n_threads * fiber_cluster_blocks - fibers.n_done) {
            m.came = 0;
            m.number++;
            fibers.progress = 1;
        } else {
            fiber_suspend();
        }
    }
}

int fiber_cluster_rank(void) { return fiber_block_of_cluster(); }

float fiber_load_of_block(unsigned address, int rank)
{
    float v;
    memcpy(&v, of_block(address, rank), 4);
    return v;
}

void fiber_store_to_block(unsigned address, int rank, unsigned long long v)
{
    memcpy(of_block(address, rank), &v, sizeof v);
}

static FIBER_LOCAL struct thread_barrier (*numbered)[16]; /* [MAX_BLOCKS] */

void fiber_barrier_numbered(int id, int n)
{
    fiber_arrive_and_wait(&numbered[fiber_block_of_cluster()][id], n, 32);
}

void fiber_barrier_arrive(int id, int n)
{
    struct thread_barrier *m = &numbered[fiber_block_of_cluster()][id];
    if (++m->came < n) return;
    m->came = 0;
    m->number++;
    fibers.progress = 1;
}

void fiber_matrix_begin(void)
{
    runs++;
    OWN(dynamic, MAX_BLOCKS);
    OWN(copies, MAX_THREADS);
    OWN(phases, MAX_BLOCKS);
    OWN(warp_barrier, MAX_THREADS / 32);
    OWN(numbered, MAX_BLOCKS);
    memset(warp_barrier, 0, MAX_THREADS / 32 * sizeof *warp_barrier);
    if (group_barrier) memset(group_barrier, 0, MAX_THREADS / GROUP * sizeof *group_barrier);
    memset(numbered, 0, MAX_BLOCKS * sizeof *numbered);
    for (int i = 0; i < fiber_cluster_blocks; i++) memset(dynamic[i], 0xff, fibers.dynamic_bytes);
    while (used_copies) { /* each lies pages from the next */
        used_copies--;
        copies[used_copies].n = copies[used_copies].group = 0;
    }
}
