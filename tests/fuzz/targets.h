/* targets.h: what strangers give the programs, one entry point for each kind of input. Owns: the
 * table, the inputs that changed ones are made of. Must not know: where changes come from (inputs.c
 * makes them by chance, libfuzzer.c by what they reach). The folder is the project's root. */
#ifndef FUZZ_TARGETS_H
#define FUZZ_TARGETS_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef void fuzz_add(const void *p, size_t n);

struct fuzz_target {
    const char *name;
    /* Gives the inputs to begin with. */
    void (*seeds)(fuzz_add *add);
    /* NULL: all is as it should be; else what is not. DATA [n] is exactly as long as its memory. */
    const char *(*run)(const uint8_t *data, size_t n);
    const char *words; /* parts of the notation, separated by spaces; NULL: none */
};

extern const struct fuzz_target fuzz_targets[];
/* A folder of more checkpoints, in formats that those of tests/data have not; NULL: none. */
extern const char *fuzz_fixtures;
enum { N_FUZZ_TARGETS = 16 };

/* For targets_*.c. */
/* An error says something, in one line: NULL, or what it does not. */
const char *fuzz_wrong_error(const struct err *e);
/* A file in memory that holds DATA [n]; its path stays valid until the next call with this K. */
enum { FUZZ_FILES = 2 };
const char *fuzz_file(int k, const void *data, size_t n);
/* A folder of this process, in memory; it is removed in the end. */
const char *fuzz_dir(void);
/* The file PATH as a seed: what is there of the first MOST bytes. */
void fuzz_seed_file(fuzz_add *add, const char *path, size_t most);
/* Whether the text [n] is one line of JSON. */
int fuzz_is_json(const char *text, size_t n);

/* targets_text.c */
void fuzz_seeds_tokenizer(fuzz_add *add), fuzz_seeds_sentencepiece(fuzz_add *add),
    fuzz_seeds_template(fuzz_add *add), fuzz_seeds_calls(fuzz_add *add),
    fuzz_seeds_reasoning(fuzz_add *add), fuzz_seeds_grammar(fuzz_add *add),
    fuzz_seeds_stop(fuzz_add *add);
const char *fuzz_run_tokenizer(const uint8_t *data, size_t n);
const char *fuzz_run_sentencepiece(const uint8_t *data, size_t n);
const char *fuzz_run_template(const uint8_t *data, size_t n);
const char *fuzz_run_calls(const uint8_t *data, size_t n);
const char *fuzz_run_reasoning(const uint8_t *data, size_t n);
const char *fuzz_run_grammar(const uint8_t *data, size_t n);
const char *fuzz_run_stop(const uint8_t *data, size_t n);

/* targets_files.c */
void fuzz_seeds_safetensors(fuzz_add *add), fuzz_seeds_model(fuzz_add *add),
    fuzz_seeds_checkpoint(fuzz_add *add), fuzz_seeds_gguf(fuzz_add *add),
    fuzz_seeds_journal(fuzz_add *add);
const char *fuzz_run_safetensors(const uint8_t *data, size_t n);
const char *fuzz_run_model(const uint8_t *data, size_t n);
const char *fuzz_run_checkpoint(const uint8_t *data, size_t n);
const char *fuzz_run_gguf(const uint8_t *data, size_t n);
const char *fuzz_run_journal(const uint8_t *data, size_t n);

/* targets_run.c */
void fuzz_seeds_line(fuzz_add *add), fuzz_seeds_options(fuzz_add *add),
    fuzz_seeds_conversation(fuzz_add *add), fuzz_seeds_table(fuzz_add *add);
const char *fuzz_run_line(const uint8_t *data, size_t n);
const char *fuzz_run_options(const uint8_t *data, size_t n);
const char *fuzz_run_conversation(const uint8_t *data, size_t n);
const char *fuzz_run_table(const uint8_t *data, size_t n);

#endif
