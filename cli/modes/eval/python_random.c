#include "cli/modes/eval/python_random.h"

#include <stdlib.h>

enum { N = PYTHON_RANDOM_WORDS, M = 397 };

static void begin(struct python_random *r, uint32_t seed)
{
    r->word[0] = seed;
    for (int i = 1; i < N; i++)
        r->word[i] = 1812433253u * (r->word[i - 1] ^ (r->word[i - 1] >> 30)) + (uint32_t)i;
}

/* The key is the seed's words, the low one first; 0 has one word. */
void python_random_seed(struct python_random *r, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const int n_key = key[1] ? 2 : 1;
    uint32_t *w = r->word;
    int i = 1, j = 0;
    begin(r, 19650218u);
    for (int k = 0; k < N; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1664525u)) + key[j] + (uint32_t)j;
        if (++i == N) w[0] = w[N - 1], i = 1;
        j = (j + 1) % n_key;
    }
    for (int k = 0; k < N - 1; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
        if (++i == N) w[0] = w[N - 1], i = 1;
    }
    w[0] = 0x80000000u;
    r->at = N;
}

static void renew(struct python_random *r)
{
    uint32_t *w = r->word;
    for (int i = 0; i < N; i++) {
        uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % N] & 0x7fffffffu);
        w[i] = w[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->at = 0;
}

uint32_t python_random_bits(struct python_random *r, int k)
{
    if (r->at == N) renew(r);
    uint32_t y = r->word[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    y ^= y >> 18;
    return y >> (32 - k);
}

/* A number below n > 0. */
static int32_t below(struct python_random *r, int n)
{
    int k = 32 - __builtin_clz((unsigned)n);
    uint32_t x;
    do x = python_random_bits(r, k);
    while (x >= (uint32_t)n);
    return (int32_t)x;
}

/* The largest n of which a list is made, for k elements of it. */
static int64_t list_size(int k)
{
    int64_t size = 21, power = 1;
    if (k <= 5) return size;
    while (power < 3 * (int64_t)k) power *= 4;
    return size + power;
}

int python_random_sample(struct python_random *r, int n, int k, int32_t *out, struct err *e)
{
    if (n > list_size(k)) {
        for (int i = 0, again; i < k; i += !again) {
            out[i] = below(r, n);
            again = 0;
            for (int j = 0; j < i && !again; j++) again = out[j] == out[i];
        }
        return 0;
    }
    int32_t *list = malloc((size_t)(n ? n : 1) * sizeof *list);
    if (!list) return err_memory(e);
    for (int i = 0; i < n; i++) list[i] = i;
    for (int i = 0; i < k; i++) {
        int32_t j = below(r, n - i);
        out[i] = list[j];
        list[j] = list[n - i - 1];
    }
    free(list);
    return 0;
}
