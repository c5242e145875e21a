/* grammar_libfuzzer.c: strangers' grammars for libFuzzer (`make fuzz`), which chooses its inputs by
 * what they reach. */
#include "tests/fuzz/grammar_input.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct grammar_cost cost;
    const char *why;
    if (grammar_input_try(data, n, &cost, &why)) {
        fprintf(stderr, "grammar_libfuzzer: %s\n", why);
        abort();
    }
    if (cost.open > 1 || cost.step > 1)
        fprintf(stderr, "slow: %.2f s to open, %.2f s a mask: %.*s\n", cost.open, cost.step,
                n < 400 ? (int)n : 400, (const char *)data);
    return 0;
}
