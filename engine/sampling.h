/* sampling.h: from options of sampling to the sampler's parameters, and the forms in which people
 * write orders of samplers and biases.
 * Must not know: records, which may have parameters of their own. */
#ifndef ENGINE_SAMPLING_H
#define ENGINE_SAMPLING_H

#include "engine/breakers.h"
#include "core/base/args.h"
#include "core/model/modelfile.h"
#include "core/sample/sampler.h"

enum { OPT_UNSET = -2000000000 }; /* an int option that was not given */
#define OPT_UNSET_REAL -1e300     /* the same for a real one */

/* Options of sampling; those that are unset come from the checkpoint. */
struct sampling_options {
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    double typical_p, top_n_sigma, xtc_probability, xtc_threshold;
    double dry_multiplier, dry_base, mirostat_tau, mirostat_eta;
    int top_k, repeat_last_n, dry_allowed_length, dry_last_n, mirostat, min_tokens, ignore_eos;
    const char *samplers, *sampler_seq;
    struct args_strings dry_breakers, logit_bias;
    struct args_seed seed;
};
/* What opt4gptq-run has where an option is not given. */
void sampling_set_defaults(struct sampling_options *o);

/* The defaults of llama.cpp, for one prompt, and those of OpenAI and vLLM, for a batch. */
extern const struct sampler_params sampling_llama, sampling_openai;
/* *p: what the options say, else the checkpoint's generation_config, else `otherwise`. The windows
 * of the penalties and of DRY are left to sampling_set_windows, breakers to breakers.h. */
int sampling_choose(struct sampler_params *p, const struct sampling_options *o,
                    const struct modelfile *m, const struct sampler_params *otherwise,
                    struct err *e);
/* The last tokens that the penalties and DRY look at, as llama.cpp writes them: -1 all, 0 off. */
void sampling_set_windows(struct sampler_params *p, int repeat_last_n, int dry_last_n);

/* The order of steps as names separated by semicolons or blanks ("top_k;temperature"), also with
 * "-" for "_", or as llama.cpp's letters ("kt"). -1: *e says which is unknown or comes twice. */
int sampling_read_names(struct sampler_params *p, const char *names, struct err *e);
int sampling_read_letters(struct sampler_params *p, const char *letters, struct err *e);
/* The sequence breakers of the command line, or the default ones; *n of them. */
const char *const *sampling_breakers(const struct sampling_options *o, int *n);
/* --logit-bias: biases [*n], malloc'd; NULL when there is none. Ids must be below `vocab`. */
int sampling_read_bias(const struct args_strings *s, int vocab, struct sampler_bias **bias, int *n,
                       struct err *e);

/* What the parameters of one prompt or of a conversation point to; zero-initialize. */
struct sampling_memory {
    struct sampler_bias *bias;
    struct dry_breakers breakers;
    struct breaker_texts texts;
};

/* All parameters that the options give, with llama.cpp's defaults. Tokenizer may be NULL. */
int sampling_open(struct sampler_params *p, struct sampling_memory *own,
                  const struct sampling_options *o, const struct modelfile *m,
                  const struct tokenizer *tokenizer, int vocab, struct err *e);
void sampling_close(struct sampling_memory *own);

#endif
