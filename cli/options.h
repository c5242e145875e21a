/* options.h: the command line, from one table that gives parsing, ranges and help.
 * Must not know: what the options do. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "core/base/args.h"
#include "core/base/err.h"

#include <stdint.h>

enum { OPT_UNSET = -2000000000 }; /* an int option that was not given */
#define OPT_UNSET_REAL -1e300     /* the same for a real one */

enum { MAX_STOPS = 64, MAX_OPTIONS = 96 };

struct options {
    const char *model;
    /* prompt */
    const char *prompt, *file, *prompt_ids;
    const char *system_prompt, *chat_template_file;
    int chat;
    /* generation; n_predict OPT_UNSET where not given */
    int n_predict, n_ctx, n_batch, ignore_eos, special;
    const char *stop[MAX_STOPS];
    int n_stop;
    /* sampling; unset values come from the checkpoint */
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int top_k;
    uint64_t seed;
    /* output */
    const char *format, *logits_out;
    int no_display_prompt, verbose;
    /* batch; NULL and 0 where not given */
    const char *input, *output, *input_format, *order, *shard, *memory, *report, *trace;
    int restart, check_only, grace, n_seqs, n_pages, no_prefix_cache;
    /* evaluation; NULL and 0 where not given */
    const char *perplexity, *choices, *few_shot_file, *samples;
    int n_windows, n_few_shot, n_limit;
    /* machine */
    const char *backend, *cpu, *act, *kv, *hip_library, *variant;
    int threads, check_tensors, device, gpu_timeout;
    /* other modes */
    int tokenize, detokenize, list_devices, version, help;
    /* how it was written */
    const char *given[MAX_OPTIONS]; /* the name by which each row of the table was given, or NULL */
    struct args_note note[ARGS_NOTES]; /* of options that change nothing here */
    int n_notes, no_escape;
};

/* Fills *o with defaults, then from argv. */
int options_parse(struct options *o, int argc, char **argv, struct err *e);
/* The name by which the option with this FIELD of *o was given; NULL when it was not. */
const char *options_given(const struct options *o, const void *field);
void options_help(void);

#endif
