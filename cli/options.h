/* options.h: the command line of opt4gptq-run: one table of options (core/base/args.h).
 * Must not know: what the options do. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "core/base/args.h"
#include "core/base/err.h"
#include "engine/engine_options.h"
#include "engine/sampling.h"

#include <stdint.h>

/* The modes of opt4gptq-run, in the order in which messages name two of them. */
enum run_mode {
    RUN_COMPLETE, /* one prompt; no option chooses it */
    RUN_BATCH,
    RUN_PERPLEXITY,
    RUN_CHOICES,
    RUN_TASKS,
    RUN_DETOKENIZE,
    RUN_TOKENIZE,
    RUN_DEVICES,
    RUN_CONVERSATION,
    RUN_INFO,
};

struct options {
    const char *model;
    /* prompt */
    const char *prompt, *file, *prompt_ids;
    const char *system_prompt, *system_prompt_file, *chat_template_file;
    const char *template_kwargs;                     /* a JSON object, or NULL */
    const char *reasoning;                           /* NULL: not given */
    const char *tool_call_parser, *reasoning_parser; /* of a batch; NULL: not given */
    int trust_request_template;
    int chat, conversation, multiline, single_turn;
    /* generation; n_predict OPT_UNSET where not given */
    int n_predict, special;
    struct args_strings stop;
    /* what an answer has to be; NULL and 0 where not given */
    const char *json_schema, *json_schema_file, *regex, *grammar, *grammar_file;
    struct args_strings choice;
    int json, schema_order, any_order, compact_json, leading_space;
    const char *json_space;
    struct sampling_options sampling;
    /* output */
    const char *format, *logits_out, *logits_of;
    int logprobs; /* OPT_UNSET where not given */
    int no_display_prompt, verbose;
    /* batch; NULL and 0 where not given */
    const char *pooling, *score_template_file, *score_tokens;
    int embd_normalize; /* OPT_UNSET where not given */
    const char *input, *output, *input_format, *prompt_template, *order, *shard, *report, *trace;
    int restart, check_only, estimate, grace;
    /* evaluation; NULL and 0 where not given */
    const char *perplexity, *choices, *few_shot_file, *samples, *eval, *eval_data;
    int n_windows, n_few_shot, n_limit;
    /* model and machine; settled by options_settle */
    const char *cache_k, *cache_v; /* spellings of engine.kv; NULL: not given */
    struct engine_options engine;
    /* other modes */
    int tokenize, detokenize, list_devices, info, escape, no_escape;
    struct args_common common;
    struct args_given given; /* how it was written; its mode is an enum run_mode */
};

/* Fills *o with defaults, then from argv. */
int options_parse(struct options *o, int argc, char **argv, struct err *e);
/* The backend that an option of its own asks for, then engine_settle. */
int options_settle(struct options *o, struct err *e);
/* The name by which the option with this FIELD of *o was given; NULL when it was not. */
const char *options_given(const struct options *o, const void *field);
/* The value of the option with this name, which is a text. */
const char *options_text(const struct options *o, const char *name);
/* The table, for its help, manual page, completion and checks. */
extern const struct args_program run_program;

#endif
