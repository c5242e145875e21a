/* fiber_matrix.c: warp instructions for fibers.c: matrix products of AMD and NVIDIA, exchanges
 * between lanes, asynchronous copies and mbarriers. */
#include "tests/emulators/fibers/fibers_int.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- dynamic shared memory, and copies to it ---- */
enum { MAX_COPIES = 256 };
static char dynamic[MAX_BLOCKS][DYNAMIC_BYTES] __attribute__((aligned(1024)));
static struct thread_barrier warp_barrier[MAX_THREADS / 32];

void fiber_warp_barrier(void) { fiber_arrive_and_wait(&warp_barrier[fibers.self / 32], 32); }

static struct copies {
    struct {
        unsigned to;
        const void *from;
        size_t bytes;
        int group;
    } copy[MAX_COPIES];
    int n, group;
} copies[MAX_THREADS];

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

void fiber_copy(unsigned to, const void *from, size_t bytes)
{
    struct copies *c = &copies[fibers.self];
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

void fiber_copies_commit(void) { copies[fibers.self].group++; }

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
/* A register of each lane of the warp. Two buffers are used alternately: a lane reaches the
 * exchange after the next only when all have read this one. */
static const unsigned *exchange(unsigned mine)
{
    static unsigned mail[2][MAX_THREADS];
    static int turn_of[MAX_THREADS];
    int t = fibers.self, turn = turn_of[t] ^= 1;
    mail[turn][t] = mine;
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32);
    return mail[turn] + t / 32 * 32;
}

unsigned fiber_shuffle(unsigned v, int lane) { return exchange(v)[lane & 31]; }

static unsigned half_at(const unsigned *v, int i) { return v[i / 2] >> (16 * (i % 2)) & 0xffff; }

unsigned fiber_transposed(unsigned v)
{
    const unsigned *of = exchange(v);
    int row = fiber_thread % 32 / 4, column = fiber_thread % 4 * 2;
    return half_at(of + 4 * column, row) | half_at(of + 4 * (column + 1), row) << 16;
}

void fiber_load_matrices(unsigned address, unsigned m[4], int transposed)
{
    const unsigned *of = exchange(address);
    int row = fiber_thread % 32 / 4, column = fiber_thread % 4 * 2;
    for (int i = 0; i < 4; i++) {
        uint16_t v[2];
        for (int e = 0; e < 2; e++) {
            int r = transposed ? column + e : row, c = transposed ? row : column + e;
            memcpy(&v[e], at_address(of[8 * i + r]) + 2 * c, 2);
        }
        m[i] = v[0] | (unsigned)v[1] << 16;
    }
    fiber_arrive_and_wait(&warp_barrier[fibers.self / 32],
                          32); /* no lane continues before all have read */
}

static float number_of(unsigned bits, int is_bf16)
{
    unsigned wide = bits << 16;
    uint16_t narrow = (uint16_t)bits;
    _Float16 half;
    float f;
    if (is_bf16) memcpy(&f, &wide, 4);
    else memcpy(&half, &narrow, 2), f = (float)half;
    return f;
}

typedef float vector __attribute__((vector_size(64)));

static float sum_of_products(const vector *a, const vector *b)
{
    vector v = *a * *b;
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += v[i];
    return sum;
}

static int wrong_lane(void)
{
    static int asked = -1;
    if (asked < 0) asked = env_number("FIBERS_WRONG_LANE", 0) != 0;
    return asked;
}

void fiber_mma(float *c, const unsigned *a, const unsigned *b, int is_bf16)
{
    /* Two buffers used alternately, as in exchange(): rows of A and columns of B. */
    static vector operand[2][MAX_THREADS / 32][24];
    static int turn_of[MAX_THREADS];
    int t = fibers.self, lane = t % 32, turn = turn_of[t] ^= 1;
    vector *of = operand[turn][t / 32];
    for (int i = 0; i < 8; i++)
        of[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] = number_of(half_at(a, i),
                                                                                   is_bf16);
    for (int i = 0; i < 4; i++)
        of[16 + lane / 4][lane % 4 * 2 + i / 2 * 8 + i % 2] = number_of(half_at(b, i), is_bf16);
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int i = 0; i < 4; i++)
        c[i] += sum_of_products(&of[lane / 4 + i / 2 * 8], &of[16 + lane % 4 * 2 + i % 2]);
}

void fiber_mma_s8(int *c, const unsigned *a, const unsigned *b)
{
    static signed char operand[2][MAX_THREADS / 32][24][32]; /* rows of A and columns of B */
    static int turn_of[MAX_THREADS];
    int t = fibers.self, lane = t % 32, turn = turn_of[t] ^= 1;
    signed char(*of)[32] = operand[turn][t / 32];
    for (int i = 0; i < 4; i++)
        memcpy(&of[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16], &a[i], 4);
    for (int i = 0; i < 2; i++) memcpy(&of[16 + lane / 4][lane % 4 * 4 + i * 16], &b[i], 4);
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 32; j++)
            c[i] += of[lane / 4 + i / 2 * 8][j] * of[16 + lane % 4 * 2 + i % 2][j];
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

void fiber_matrix(int kind, const unsigned *a, const unsigned *b, float *c)
{
    /* Two buffers used alternately: a lane reaches the instruction after the next only after a
     * barrier of all that read this one. */
    static float operand[2][MAX_THREADS / 32][2][16][16]; /* [wave][A, B][row or column][input] */
    static int turn_of[MAX_THREADS];
    int lanes = kind == MFMA ? 64 : 32,
        halves = kind == MFMA   ? 4
                 : kind == WMMA ? 16
                                : 8,
        values = kind == MFMA ? 4 : 8;
    int t = fibers.self, lane = t % lanes, turn = turn_of[t] ^= 1;
    float(*of)[16][16] = operand[turn][t / lanes];
    for (int n = 0; n < halves; n++) {
        _Float16 x, y;
        memcpy(&x, (const char *)a + 2 * n, 2);
        memcpy(&y, (const char *)b + 2 * n, 2);
        of[0][lane % 16][matrix_input(kind, lane, n)] = (float)x;
        of[1][lane % 16][matrix_input(kind, lane, n)] = (float)y;
    }
    fiber_barrier();
    if (wrong_lane() && lane == 1) lane = 2;
    for (int n = 0; n < values; n++) {
        const float *x = of[0][matrix_row_of(kind, lane, n)], *y = of[1][lane % 16];
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += x[k] * y[k];
        c[n] += sum;
    }
}

/* ---- Hopper: mbarriers that count bytes, TMA copies, products of warpgroups (wgmma), clusters
 * ---- */
static struct phase {
    int arrivals, pending, bytes;
    unsigned parity;
    unsigned long made; /* run of the block or cluster in which it was initialized */
} phases[MAX_BLOCKS][DYNAMIC_BYTES / 8];
static unsigned long runs;

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
    const struct phase *p = phase_at(barrier);
    while (p->parity == parity) fiber_suspend();
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
    char *at = at_address(to);
    check_piece(to, bytes, 128);
    for (unsigned k = 0; k < m->box[2]; k++)
        for (unsigned j = 0; j < m->box[1]; j++)
            for (unsigned i = 0; i < m->box[0]; i++, at += 4) {
                unsigned long long x = (unsigned)c0 + i, y = (unsigned)c1 + j, z = (unsigned)c2 + k;
                if (x >= m->sizes[0] || y >= m->sizes[1] || z >= m->sizes[2]) memset(at, 0, 4);
                else
                    memcpy(at, (const char *)m->d + 4 * x + m->strides[0] * y + m->strides[1] * z,
                           4);
            }
    count(phase_at(barrier), 0, -(int)bytes);
}

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

void fiber_wgmma(float *c, const unsigned *a, unsigned long long b, int n, int by_columns,
                 int accumulate)
{
    static vector operand[MAX_THREADS / 32][16];
    int t = fibers.self, lane = t % 32;
    vector *of = operand[t / 32];
    for (int i = 0; i < 8; i++)
        of[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] = number_of(half_at(a, i),
                                                                                   0);
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int j = 0; j < n / 8; j++)
        for (int e = 0; e < 2; e++) {
            vector column;
            for (unsigned k = 0; k < 16; k++) {
                uint16_t bits;
                memcpy(&bits,
                       at_address(place_of(b, by_columns, (unsigned)(8 * j + lane % 4 * 2 + e), k)),
                       2);
                column[k] = number_of(bits, 0);
            }
            for (int o = 0; o < 2; o++) {
                float *to = &c[4 * j + 2 * o + e];
                *to = (accumulate ? *to : 0) + sum_of_products(&of[lane / 4 + 8 * o], &column);
            }
        }
    fiber_arrive_and_wait(
        &warp_barrier[t / 32],
        32); /* no lane continues, and reports that b was read, before all have read */
}

void fiber_wgmma_s8(int *c, const unsigned *a, unsigned long long b, int accumulate)
{
    static signed char operand[MAX_THREADS / 32][16][32];
    int t = fibers.self, lane = t % 32;
    signed char(*of)[32] = operand[t / 32];
    for (int i = 0; i < 4; i++)
        memcpy(&of[lane / 4 + i % 2 * 8][lane % 4 * 4 + i / 2 * 16], &a[i], 4);
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32);
    if (wrong_lane() && lane == 1) lane = 2;
    for (int j = 0; j < 8; j++)
        for (int e = 0; e < 2; e++) {
            signed char column[32];
            for (unsigned i = 0; i < 2; i++) /* 16 bytes, which are 8 halves for others */
                memcpy(column + 16 * i,
                       at_address(place_of(b, 0, (unsigned)(8 * j + lane % 4 * 2 + e), 8 * i)), 16);
            for (int o = 0; o < 2; o++) {
                int *to = &c[4 * j + 2 * o + e], sum = accumulate ? *to : 0;
                for (int k = 0; k < 32; k++) sum += of[lane / 4 + 8 * o][k] * column[k];
                *to = sum;
            }
        }
    fiber_arrive_and_wait(&warp_barrier[t / 32], 32); /* as in fiber_wgmma */
}

/* Finished threads of the cluster do not count. */
void fiber_cluster_barrier(void)
{
    static struct thread_barrier m;
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

static struct thread_barrier numbered[MAX_BLOCKS][16];

void fiber_barrier_numbered(int id, int n)
{
    fiber_arrive_and_wait(&numbered[fiber_block_of_cluster()][id], n);
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
    memset(warp_barrier, 0, sizeof warp_barrier);
    memset(numbered, 0, sizeof numbered);
    for (int i = 0; i < fiber_cluster_blocks; i++) memset(dynamic[i], 0xff, fibers.dynamic_bytes);
    for (int t = 0; t < fibers.n_threads * fiber_cluster_blocks; t++)
        copies[t].n = copies[t].group = 0;
}
