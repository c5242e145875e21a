/* libfuzzer.c: the inputs of targets.h for libFuzzer (`make fuzz`), which chooses them by what they
 * reach. The first argument is --target=NAME. */
#include "tests/fuzz/targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = *argc > 1 && !strncmp((*argv)[1], "--target=", 9) ? (*argv)[1] + 9 : "";
    for (int i = 0; i < N_FUZZ_TARGETS; i++)
        if (!strcmp(fuzz_targets[i].name, name)) target = &fuzz_targets[i];
    fuzz_fixtures = "../shared/fixtures";
    if (target) return 0;
    fprintf(stderr, "libfuzzer: no target '%s'\n", name);
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *why = target->run(data, n);
    if (!why) return 0;
    fprintf(stderr, "%s: %s\n", target->name, why);
    abort();
}
