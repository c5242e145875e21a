/* job.h: one record on its way through the scheduler: its prompts as tokens, the requests made of
 * them, and what came back for each choice. Owns: the record and all of that. Must not know: files,
 * the form of the answer, other jobs. */
#ifndef CLI_MODES_BATCH_JOB_H
#define CLI_MODES_BATCH_JOB_H

#include "cli/text/out.h"
#include "cli/modes/batch/job_calls.h"
#include "cli/modes/batch/record.h"
#include "engine/breakers.h"
#include "engine/constraint.h"
#include "core/sched/request.h"
#include "core/text/stop.h"
#include "core/text/tokenizer.h"

/* Most bytes of one record's answer. */
#define JOB_MAX_ANSWER ((uint64_t)1 << 30)

struct job;
struct chat;
struct pooling;

/* Shared by all jobs of a run. */
struct job_env {
    const struct tokenizer *tokenizer; /* NULL: ids only */
    const struct chat *chat;
    const json_t *variables;   /* of the template, where a record says nothing else, or NULL */
    const char *system_prompt; /* before a line of text that is a message, or NULL */
    const int32_t *eos;        /* [n_eos] */
    int n_eos, vocab, n_ctx;
    int headless; /* the model makes embeddings only */
    struct breaker_texts *texts;
    struct constraints *constraints;        /* NULL: no tokenizer */
    const struct pooling *pooling;          /* of embeddings and scores */
    struct job_calls_env *calls;            /* NULL: answers are text */
    uint64_t seed;                          /* of the run, for records without one */
    void (*done)(void *arg, struct job *j); /* all requests of J ended */
    void *arg;
    double (*clock)(void);
};

/* A token with its log-probability, and where its alternatives are. */
struct job_score {
    int32_t id;
    float logprob;
    int top, n_top; /* tops[top .. top + n_top) */
    int rank;       /* of a prompt's token, from 1 on; 0: not asked for */
};
struct job_top {
    int32_t id;
    float logprob;
};

struct job_choice {
    struct tok_stream *stream;
    struct stop stop;
    struct out text; /* all of it; the first n_certain bytes are no stop string's beginning */
    size_t n_certain;
    struct out ids; /* int32_t [n_ids], EOS and stop tokens included */
    struct out scores,
        tops; /* struct job_score [n_ids], struct job_top; when log-probabilities were asked for */
    struct out special; /* where special tokens are in the text (job_calls.h) */
    enum finish finish;
    int stopped_by_string;    /* index of the stop string, or -1 */
    int32_t stopped_by_token; /* id of one of stop_token_ids, or -1 */
};

struct job_prompt {
    struct job *job;
    struct tok_ids ids;
    char *text; /* [text_bytes] for echo, or NULL: as the record has it, or what its ids say */
    size_t text_bytes;
    int from_ids;              /* the prompt was given as ids */
    int was_cut;               /* truncate_prompt_tokens took something off */
    struct tok_stream *stream; /* of the text behind the prompt, where each choice begins; NULL
                                  without a tokenizer */
    struct out scores, tops; /* of the prompt's tokens from position 1 on, for echo with logprobs
                                and prompt_logprobs */
    struct request request;
    struct job_choice *choice; /* [record.n]; NULL of a pooled record */
    /* of a pooled record: the sum of n_rows rows [dim] until the request ends, then the vector; or
     * the logits of two tokens */
    double *sum;
    int n_rows;
    float *vector, yes, no;
};

struct job {
    const struct job_env *env;
    struct record record;
    const char *field; /* of the record, that the prompts come from */
    const struct chat *chat; /* while its prompt is made */
    struct job_calls calls;
    struct dry_breakers breakers;
    struct tok_ids *bad_ids; /* [bad_room], bad_words as tokens */
    struct sampler_bad *bad; /* [n_bad] */
    int n_bad, bad_room;
    int n_first; /* of scores that are cosines: prompts of the first texts */
    struct constraint *constraint; /* NULL: its answers are free */
    int n_prompts, n_running;      /* requests not yet ended */
    int n_submitted;               /* the caller's: prompts of which the scheduler knows */
    struct request_group group;    /* of all its requests */
    struct job_prompt *prompt;     /* [n_prompts] */
    uint64_t bytes;                /* about as many as its answer has, as far as it is known */
    char failed[256];              /* why there is no answer, or "" */
    int status; /* of an answer that failed: 500 for the model's failure, 400 when the record asks
                   too much */
    uint64_t index, held; /* the caller's */
    int aborted;
    double start, first_token, end;                             /* seconds of env->clock */
    struct job *next, *previous, *next_finished, *next_waiting; /* the caller's */
};

/* A parsed record becomes a job with tokens and requests; *r moves into it (do not free it, also
 * when refused or failed: job_close does). 0; 1: refused (*why), *j stands for the record all the
 * same; -1: failed, *j is NULL. */
int job_open(struct job **j, const struct job_env *env, const struct input_line *line, int plain,
             const struct record_defaults *d, struct refusal *why, struct err *e);
void job_close(struct job *j);
/* Gives the requests their grammar. 0: they can be computed; 1: refused (*why); 2: it is not
 * compiled yet, never with WAIT; -1: failed. */
int job_take_grammar(struct job *j, int wait, struct refusal *why, struct err *e);
int job_prompt_tokens(const struct job *j);
int job_generated_tokens(const struct job *j);
/* Bytes of p->text that stand before the text of choice C, which has ended. */
size_t job_echo_bytes(const struct job_prompt *p, const struct job_choice *c);

#endif
