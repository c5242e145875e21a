/* backends.h: the list of backends, and what the command lines of opt4gptq-run and opt4gptq-bench
 * know about each. A new backend is an entry in backends.c and its name here.
 * Must not know: the programs' tables of options, models, steps. */
#ifndef ENGINE_BACKENDS_H
#define ENGINE_BACKENDS_H

#include "core/step/backend.h"
#include "engine/engine_options.h"

#include <stdio.h>

/* The names of all entries, for --backend; gpu is hip by another name (backend_name). */
#define BACKEND_NAMES "cpu", "gpu", "hip"
#define BACKEND_CHOICE "cpu|gpu|hip"

/* Options of the command lines that only one backend has: --hip-library (NULL: none),
 * --gpu-timeout,
 * --query-halves. */
struct backend_own {
    const char *library;
    int wait_seconds, query_halves;
    const char *exchange; /* "auto" (NULL, too), "peer" or "host" */
};
enum { BACKEND_OWN_BYTES = 512 };

struct backend_entry {
    const struct backend *ops; /* its name is that of --backend */
    const char *also;          /* another name for it, or NULL */
    /* Options that only this backend has, separated by blanks: of opt4gptq-run, where one that
     * differs from its default chooses it under --backend auto, and of opt4gptq-bench. */
    const char *options, *bench_options;
    const char *variant_option; /* the one that pins a variant */
    size_t variant_field;       /* offset of its value in struct engine_options */
    enum act act[ACT_TYPES];    /* arithmetics (--act) that it has, that of "auto" first, unless
                                   best_act says which */
    enum act timed_act[4];      /* those that opt4gptq-bench --ops takes by default */
    int n_acts, n_timed_acts;
    int n_batch, n_seqs; /* defaults of -b and -np */
    int most_seqs;       /* that of -np where memory is there, 0: the same */
    int paper;           /* it has the kernels of the paper's ablation */

    /* Writes options that only this backend has as be_config.own wants them; NULL: it has none. */
    void (*write_own)(const struct backend_own *o, char *out, size_t cap);
    /* The arithmetic of "auto" on a device, with a variant. */
    enum act (*best_act)(const char *library, int device, const char *variant);
    /* 0 when this machine can run it; NULL: every machine can. */
    int (*probe)(const char *library, int device, struct err *e);
    /* The names of its variants but "auto"; NULL after the last. */
    const char *(*variant)(int i);
    /* 1 when there is such a variant, on any machine; NULL: opening it tells. */
    int (*knows_variant)(const char *name);
    /* -1 when this machine cannot run a variant; NULL: opening it tells. */
    int (*check_variant)(const char *name, struct err *e);
    /* 1 when all variants and devices give the same bits in this arithmetic; NULL: never. */
    int (*is_exact)(enum act act, const char *variant);
    /* Names the instructions or the device of an open backend, on which floating-point sums
     * depend: out [cap]. Journals hold the text (cli/modes/batch/manifest.h): its form is fixed. */
    void (*identify)(const struct be *be, char *out, size_t cap);
    /* Lines of --version; of -v, about an open backend; of --list-devices. NULL: it has none. */
    void (*print_version)(FILE *f);
    void (*print_variants)(const struct be *be, FILE *f);
    int (*list_devices)(const char *library, struct err *e);
    int (*count_devices)(const char *library, int *n, struct err *e); /* NULL: it has none */
};

/* In order of preference, the last first; ops NULL ends the list. */
extern const struct backend_entry backend_entries[];
/* The first call of main: 1 when the process was started by a backend, not by a user, and has done
 * its work; it ends with *status. */
int backend_asked(int argc, char **argv, int *status);
/* The entry with this name, which the list has. */
const struct backend_entry *backend_find(const char *name);
/* The name of an entry that is asked for by another one, any other name itself. */
const char *backend_name(const char *name);
/* The entry of --backend auto: the last that has the arithmetic and that this machine can run. */
const struct backend_entry *backend_best(const char *act);
/* The text for be_config.own, in out [BACKEND_OWN_BYTES]; NULL: the backend has no such options. */
const char *backend_own_text(const struct backend_entry *b, const struct backend_own *o, char *out);
/* The arithmetic of --act auto; library, device and variant: of the options. */
const char *backend_best_act(const struct backend_entry *b, const char *library, int device,
                             const char *variant);

/* The variant that the options pin, or "auto". */
const char *backend_variant(const struct backend_entry *b, const struct engine_options *o);

/* Whether arithmetic and storage have names that exist, or "auto". */
int backend_check_names(const struct engine_options *o, struct err *e);

/* The values with these names, which act_formats and kv_formats have. */
enum act backend_act(const char *name);
enum kv_type backend_kv(const char *name);

#endif
