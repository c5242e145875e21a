/* ladder.c: the instruction-set variants, slowest first, and the choice among them. */
#include "backend-cpu/kernels.h"

#include <pthread.h>
#include <stdio.h>

const struct cpu_kernels *const cpu_ladder[] = {
    &cpu_ref,  &cpu_scalar,
#if defined(__x86_64__)
    &cpu_avx2, &cpu_avx512, &cpu_vnni, &cpu_amx,
#elif defined(__aarch64__)
    &cpu_neon, &cpu_dotprod, &cpu_i8mm,
#endif
    NULL,
};

/* What cpu_selfcheck says; of the variants of this build once a process, for the tests open the
 * backend thousands of times. */
static const char *check(const struct cpu_kernels *k)
{
    enum { VARIANTS = sizeof cpu_ladder / sizeof *cpu_ladder };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *wrong[VARIANTS];
    static int is_checked[VARIANTS];
    int i = 0;
    while (cpu_ladder[i] && cpu_ladder[i] != k) i++;
    if (!cpu_ladder[i]) return cpu_selfcheck(k);
    pthread_mutex_lock(&lock);
    if (!is_checked[i]) wrong[i] = cpu_selfcheck(k);
    is_checked[i] = 1;
    pthread_mutex_unlock(&lock);
    return wrong[i];
}

static const struct cpu_kernels *pinned(const struct cpu_kernels *k, struct err *e)
{
    const char *why = k->unusable(), *wrong = why ? NULL : check(k);
    if (why) err_set(e, "--cpu %s: %s", k->name, why);
    else if (wrong)
        err_set(e,
                "--cpu %s: its kernel %s gives wrong results on this machine (known-answer check)",
                k->name, wrong);
    return why || wrong ? NULL : k;
}

const struct cpu_kernels *cpu_choose(const struct cpu_kernels *const *ladder, const char *name,
                                     char *note, size_t note_bytes, struct err *e)
{
    char names[128] = "";
    int n = 0;
    *note = 0;
    for (; ladder[n]; n++) {
        if (!strcmp(name, ladder[n]->name)) return pinned(ladder[n], e);
        snprintf(names + strlen(names), sizeof names - strlen(names), ", %s", ladder[n]->name);
    }
    if (strcmp(name, "auto")) {
        err_set(e, "--cpu %s: unknown; this build has auto%s", name, names);
        return NULL;
    }
    while (n--) {
        if (ladder[n]->unusable()) continue;
        const char *wrong = check(ladder[n]);
        if (!wrong) return ladder[n];
        snprintf(note + strlen(note), note_bytes - strlen(note),
                 "; not %s: its %s gives wrong results here", ladder[n]->name, wrong);
    }
    err_set(e, "--cpu auto: no variant runs on this machine");
    return NULL;
}
