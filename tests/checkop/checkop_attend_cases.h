/* checkop_attend_cases.h: the cases of checkop_attend.c: shapes, sequences, kinds of keys and
 * values, and the attributes that lists of them have in common. */
#ifndef CHECKOP_ATTEND_CASES_H
#define CHECKOP_ATTEND_CASES_H

#include "tests/checkop/checkop.h"

enum { MAX_SEQS = 11 };

struct attend_case {
    int n_heads, n_kv_heads, head_dim;
    enum kv_type kv;
    int window;
    float gain; /* on the queries: 1 gives flat probabilities, 8 peaked ones */
    int n_decode, n_seqs;
    struct span span[MAX_SEQS]; /* seq is its index; decode rows come first and have one row */
};

/* many generated rows, few of them long */
#define MIXED_ROWS                                                                                 \
    {                                                                                              \
        {0, 900, 1}, {1, 0, 1}, {2, 17, 1}, {3, 255, 1}, {4, 256, 1}, {5, 300, 1}, {6, 5, 1},      \
            {7, 511, 1}, {8, 64, 1}, {9, 600, 1},                                                  \
        {                                                                                          \
            10, 40, 9                                                                              \
        }                                                                                          \
    }

static const struct attend_case cases[] = {
    {4, 4, 32, KV_F16, 0, 1, 0, 1, {{0, 0, 1}}},
    {4, 4, 32, KV_F32, 0, 1, 0, 1, {{0, 0, 33}}},
    {8, 2, 64, KV_F16, 0, 2, 2, 4, {{0, 15, 1}, {1, 16, 1}, {2, 0, 17}, {3, 250, 12}}},
    {8, 2, 64, KV_F32, 0, 2, 2, 4, {{0, 255, 1}, {1, 256, 1}, {2, 17, 31}, {3, 505, 9}}},
    {4, 1, 80, KV_F16, 0, 1, 3, 4, {{0, 0, 1}, {1, 511, 1}, {2, 300, 1}, {3, 100, 20}}},
    {7, 1, 36, KV_F16, 0, 4, 1, 3, {{0, 31, 1}, {1, 8, 13}, {2, 0, 5}}},
    {14, 2, 96, KV_F32, 0, 1, 1, 2, {{0, 1099, 1}, {1, 30, 7}}},
    {40, 1, 64, KV_F16, 0, 2, 1, 3, {{0, 280, 1}, {1, 0, 6}, {2, 254, 4}}},
    {66, 2, 32, KV_F16, 0, 1, 1, 2, {{0, 40, 1}, {1, 14, 4}}},
    {2, 2, 128, KV_F16, 0, 8, 1, 2, {{0, 1040, 1}, {1, 1000, 40}}},
    {32, 8, 128, KV_F16, 0, 1, 1, 2, {{0, 200, 1}, {1, 0, 18}}},
    /* windows: one page, across pages, across chunks, wider than the context, one position */
    {8, 2, 64, KV_F16, 16, 2, 2, 4, {{0, 15, 1}, {1, 300, 1}, {2, 0, 40}, {3, 250, 12}}},
    {4, 2, 32, KV_F32, 100, 2, 1, 3, {{0, 600, 1}, {1, 0, 130}, {2, 350, 12}}},
    {4, 4, 64, KV_F16, 257, 2, 1, 2, {{0, 1023, 1}, {1, 500, 40}}},
    {4, 4, 36, KV_F16, 4096, 1, 0, 1, {{0, 10, 30}}},
    {4, 2, 64, KV_F32, 1, 1, 1, 2, {{0, 300, 1}, {1, 0, 40}}},
    {4, 2, 64, KV_F16, 5, 4, 1, 2, {{0, 259, 1}, {1, 240, 40}}},
    /* chunks: of a page, across pages, longer than the context */
    {8, 2, 64, KV_F16, -16, 2, 2, 4, {{0, 15, 1}, {1, 300, 1}, {2, 0, 40}, {3, 250, 12}}},
    {4, 2, 32, KV_F32, -100, 2, 1, 3, {{0, 600, 1}, {1, 0, 230}, {2, 350, 12}}},
    {4, 4, 128, KV_F16, -300, 2, 10, 11, MIXED_ROWS},
    {4, 4, 36, KV_F16, -4096, 1, 0, 1, {{0, 10, 30}}},
    {8, 2, 64, KV_F16, 0, 2, 10, 11, MIXED_ROWS},
    {2, 2, 128, KV_F16, 300, 2, 10, 11, MIXED_ROWS},
    {4, 4, 36, KV_F32, 0, 1, 10, 11, MIXED_ROWS},
};

static const struct attend_case integers[] = {
    {8, 2, 64, KV_INT8, 0, 2, 2, 4, {{0, 15, 1}, {1, 256, 1}, {2, 0, 17}, {3, 250, 12}}},
    {4, 4, 128, KV_INT8, 0, 2, 10, 11, MIXED_ROWS}, /* a warp a chunk: hip_warp_kernel() */
    {32, 4, 64, KV_INT8, 0, 1, 1, 2, {{0, 530, 1}, {1, 300, 9}}},
    {8, 8, 128, KV_INT8, 300, 4, 10, 11, MIXED_ROWS},
    {8, 2, 128, KV_INT8, -100, 2, 10, 11, MIXED_ROWS},
    {12, 4, 128, KV_INT8, 0, 2, 10, 11, MIXED_ROWS}, /* the same of several query heads */
    {4, 4, 32, KV_INT8, 0, 1, 0, 1, {{0, 0, 1}}},
    {4, 1, 80, KV_INT8, 0, 1, 3, 4, {{0, 0, 1}, {1, 511, 1}, {2, 300, 1}, {3, 100, 20}}},
    {7, 1, 36, KV_INT8, 0, 4, 1, 3, {{0, 31, 1}, {1, 8, 13}, {2, 0, 5}}},
    {14, 2, 96, KV_INT8, 257, 1, 1, 2, {{0, 1099, 1}, {1, 30, 40}}},
    {66, 2, 32, KV_INT8, 5, 1, 1, 2, {{0, 40, 1}, {1, 14, 4}}},
    {2, 2, 128, KV_INT8, 0, 8, 1, 2, {{0, 1040, 1}, {1, 1000, 40}}},
    {8, 2, 128, KV_INT8, 300, 2, 10, 11, MIXED_ROWS},
    {2, 1, 2, KV_INT8, 0, 1, 1, 2, {{0, 20, 1}, {1, 1, 3}}},
    {4, 2, 64, KV_INT8, 1, 1, 1, 2, {{0, 300, 1}, {1, 0, 40}}},
};
/* positions before, in and behind a page that a step begins, continues or fills */
static const struct attend_case packed[] = {
    {8, 2, 64, KV_INT4, 0, 2, 3, 5, {{0, 15, 1}, {1, 16, 1}, {2, 33, 1}, {3, 0, 49}, {4, 250, 12}}},
    {4, 4, 128, KV_INT4, 0, 2, 10, 11, MIXED_ROWS}, /* a warp a chunk: hip_warp_kernel() */
    {32, 4, 64, KV_INT4, 0, 8, 1, 2, {{0, 530, 1}, {1, 300, 9}}},
    {8, 8, 128, KV_INT4, 300, 4, 10, 11, MIXED_ROWS},
    {8, 2, 128, KV_INT4, -100, 2, 10, 11, MIXED_ROWS},
    {12, 4, 128, KV_INT4, 0, 2, 10, 11, MIXED_ROWS},
    {4, 4, 32, KV_INT4, 0, 1, 0, 1, {{0, 0, 1}}},
    {4, 1, 80, KV_INT4, 0, 1, 3, 4, {{0, 0, 1}, {1, 511, 1}, {2, 300, 1}, {3, 100, 20}}},
    {7, 1, 36, KV_INT4, 0, 4, 1, 3, {{0, 31, 1}, {1, 8, 13}, {2, 0, 65}}},
    {14, 2, 96, KV_INT4, 257, 1, 1, 2, {{0, 1099, 1}, {1, 30, 40}}},
    {66, 2, 32, KV_INT4, 5, 1, 1, 2, {{0, 40, 1}, {1, 14, 4}}},
    {2, 2, 128, KV_INT4, 0, 8, 1, 2, {{0, 1040, 1}, {1, 1000, 40}}},
    {8, 2, 128, KV_INT4, 300, 2, 10, 11, MIXED_ROWS},
    {2, 1, 2, KV_INT4, 0, 1, 1, 2, {{0, 20, 1}, {1, 1, 30}}},
    {4, 2, 64, KV_INT4, 1, 1, 1, 2, {{0, 300, 1}, {1, 0, 40}}},
    {8, 1, 512, KV_INT4, 40, 1, 1, 2, {{0, 280, 1}, {1, 0, 50}}},
};
static const struct attend_case capped[] = {
    {8, 2, 64, KV_F16, 0, 8, 2, 4, {{0, 15, 1}, {1, 16, 1}, {2, 0, 17}, {3, 250, 12}}},
    {4, 2, 32, KV_F32, 100, 2, 1, 3, {{0, 600, 1}, {1, 0, 130}, {2, 350, 12}}},
    {2, 1, 128, KV_F16, 0, 8, 1, 2, {{0, 1040, 1}, {1, 300, 12}}},
    {2, 1, 256, KV_F16, 16, 4, 1, 2, {{0, 280, 1}, {1, 20, 7}}},
    {8, 2, 64, KV_INT8, 100, 8, 1, 3, {{0, 600, 1}, {1, 0, 130}, {2, 350, 12}}},
    {4, 4, 128, KV_INT4, 0, 8, 10, 11, MIXED_ROWS},
};
/* heads of 256 and 512 dimensions; scores of scale 1 reach 700 */
static const struct attend_case large[] = {
    {2, 1, 512, KV_F16, 0, 1, 1, 2, {{0, 280, 1}, {1, 20, 7}}},
    {4, 4, 256, KV_F32, 0, 1, 1, 2, {{0, 40, 1}, {1, 250, 12}}},
    {8, 1, 512, KV_F16, 40, 1, 1, 2, {{0, 90, 1}, {1, 0, 50}}},
    {4, 2, 64, KV_F16, 0, 8, 1, 2, {{0, 600, 1}, {1, 30, 20}}},
    {8, 1, 512, KV_INT8, 40, 1, 1, 2, {{0, 280, 1}, {1, 0, 50}}},
    {4, 2, 256, KV_INT8, 0, 1, 1, 2, {{0, 40, 1}, {1, 250, 12}}},
    {4, 2, 256, KV_F16, 0, 1, 1, 2, {{0, 40, 1}, {1, 250, 12}}},
};
static const struct attend_case sunk[] = {
    {8, 2, 64, KV_F16, 0, 2, 2, 4, {{0, 15, 1}, {1, 256, 1}, {2, 0, 17}, {3, 505, 9}}},
    {64, 8, 64, KV_F16, 128, 1, 1, 2, {{0, 400, 1}, {1, 120, 20}}},
    {7, 1, 36, KV_F32, 0, 4, 1, 3, {{0, 31, 1}, {1, 8, 13}, {2, 0, 5}}},
    {40, 1, 64, KV_F16, 0, 2, 1, 3, {{0, 280, 1}, {1, 0, 6}, {2, 254, 4}}},
    {4, 4, 128, KV_F16, 0, 1, 10, 11, MIXED_ROWS},
    {40, 1, 64, KV_INT8, 0, 2, 1, 3, {{0, 280, 1}, {1, 0, 6}, {2, 254, 4}}},
    {8, 1, 64, KV_INT4, 100, 2, 1, 2, {{0, 280, 1}, {1, 20, 50}}},
};

/* Scores that exponentials take to the smallest floats, and values of which every third is tiny. */
static const struct attend_case uneven[] = {
    {4, 2, 64, KV_INT8, 0, 8, 2, 3, {{0, 280, 1}, {1, 600, 1}, {2, 30, 20}}},
    {4, 4, 36, KV_INT8, 0, 4, 1, 2, {{0, 40, 1}, {1, 250, 12}}},
    {4, 1, 64, KV_INT4, 0, 8, 1, 2, {{0, 280, 1}, {1, 30, 20}}},
};

/* Attributes that a list of cases has in common. */
/* across chunks and pages; of heads whose transform has runs */
static const struct attend_case biased[] = {
    {8, 2, 64, KV_INT8, 0, 0.1f, 2, 4, {{0, 15, 1}, {1, 256, 1}, {2, 0, 17}, {3, 250, 12}}},
    {8, 2, 128, KV_INT4, 0, 0.1f, 2, 4, {{0, 15, 1}, {1, 530, 1}, {2, 0, 49}, {3, 250, 12}}},
    {4, 1, 80, KV_INT8, 100, 0.1f, 3, 4, {{0, 0, 1}, {1, 511, 1}, {2, 300, 1}, {3, 100, 20}}},
    {14, 2, 96, KV_INT8, -300, 0.1f, 1, 2, {{0, 1099, 1}, {1, 30, 40}}},
    {4, 2, 36, KV_INT4, 0, 0.1f, 1, 2, {{0, 600, 1}, {1, 8, 33}}},
};

struct attend_form {
    const char *name;
    float softcap, scale; /* scale 0: 1 / sqrt(head_dim) */
    float faint;          /* factor of the values of every third position; 0: as all */
    int sinks, biases;
    const struct attend_case *k;
    int n, n_quick; /* the first n_quick with --quick */
};
#define CASES(k) k, sizeof k / sizeof *k
static const struct attend_form forms[] = {
    {"capped, ", 5, 0, 0, 0, 0, CASES(capped), 2},
    {"sinks, ", 0, 0, 0, 1, 0, CASES(sunk), 2},
    {"scale 1, ", 0, 1, 0, 0, 0, CASES(large), 1},
    {"", 0, 0, 0, 0, 0, CASES(integers), 5},
    {"", 0, 0, 0, 0, 0, CASES(packed), 5},
    {"scale 1, faint values, ", 0, 1, 1e-20f, 0, 0, CASES(uneven), 1},
    {"key biases, ", 0, 0, 0, 0, 1, CASES(biased), 2},
    {"key biases, capped, ", 5, 0, 0, 1, 1, CASES(biased), 0},
    {"scale 1, values alike, ", 0, 1, 0, 0, 0, CASES(uneven), 1},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_FORMS = sizeof forms / sizeof *forms };

#endif
