/* python_random.h: the draws of Python's random.Random(seed): MT19937 (Matsumoto and Nishimura
 * 1998), seeded with the 32-bit words of the seed, and sample(). Owns: the generator's state. Must
 * not know: what is drawn. */
#ifndef CLI_MODES_EVAL_PYTHON_RANDOM_H
#define CLI_MODES_EVAL_PYTHON_RANDOM_H

#include "core/base/err.h"

#include <stdint.h>

enum { PYTHON_RANDOM_WORDS = 624 };

struct python_random {
    uint32_t word[PYTHON_RANDOM_WORDS];
    int at; /* the next word to be given out; PYTHON_RANDOM_WORDS: all have been */
};

void python_random_seed(struct python_random *r, uint64_t seed);
/* getrandbits(k), 1 <= k <= 32. */
uint32_t python_random_bits(struct python_random *r, int k);
/* sample(range(n), k), 0 <= k <= n, into out [k]. */
int python_random_sample(struct python_random *r, int n, int k, int32_t *out, struct err *e);

#endif
