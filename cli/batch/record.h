/* record.h: what one line of a batch file asks for: a line of an OpenAI batch file, as vLLM's
 * run-batch takes them, or a prompt as plain text. Checks every field's type and range; refuses by
 * name what would change the answer and is not served; fills what a record leaves open from the
 * defaults of the run. Must not know: tokens' text, the context, scheduling, other records. */
#ifndef CLI_RECORD_H
#define CLI_RECORD_H

#include "cli/batch/input.h"
#include "core/grammar/grammar.h"
#include "core/sample/sampler.h"

#include <jansson.h>

/* What the answers of a record have to be. */
struct record_grammar {
    int is_given;      /* the record has a field about it, perhaps one that leaves them free */
    const char *field; /* that asks for the grammar; NULL: answers are free */
    struct grammar_spec spec;
    char *owned; /* the spec's text, or NULL: it is the run's */
};

enum record_kind { RECORD_COMPLETION, RECORD_CHAT };

/* The values of fields that a record lacks. */
struct record_defaults {
    struct sampler_params sampling;
    int max_tokens; /* -1: 16 for completions and up to the context for chat; -2: up to the context
                     */
    const char *const *stop;
    int n_stop;
    /* windows of penalties and DRY (sampling_set_windows), which `sampling` is without */
    int repeat_last_n, dry_last_n;
    const char *const *breakers; /* [n_breakers] of DRY */
    int n_breakers;
    int vocab;
    struct record_grammar grammar; /* field: the name of the option */
    int chat;                      /* a line of plain text is a message */
    int include_special;           /* special tokens are part of the text */
};

struct record {
    uint64_t number; /* of the line */
    char name[32];   /* "line-12", when the line has no custom_id */
    const char *id;  /* [id_bytes] custom_id or name */
    size_t id_bytes;
    enum record_kind kind;
    json_t *root;     /* NULL for plain text; owns what the pointers below point to */
    const char *text; /* [text_bytes] plain text prompt: the line's memory */
    size_t text_bytes;
    const json_t *prompt; /* of a completion: string, ids, or array of these; or NULL */
    const json_t *messages, *tools,
        *kwargs;       /* of a chat; tools and kwargs (chat_template_kwargs) may be NULL */
    const char *model; /* as the record names it, or NULL */
    int n, max_tokens; /* max_tokens -1: up to the context */
    int logprobs;      /* -1: none; else that many alternatives */
    int echo, return_ids, include_stop, skip_special, add_special, add_generation_prompt;
    int has_seed;
    struct sampler_params sampling; /* stop_ids and bias are the record's; no DRY breakers yet */
    int repeat_last_n, dry_last_n;
    const char **breakers; /* [n_breakers] strings of DRY */
    int n_breakers;
    const char **stop; /* [n_stop] */
    int n_stop;
    struct record_grammar grammar;
};

/* Most choices of one record: its prompts times n. */
enum { RECORD_MAX_CHOICES = 65536 };

/* Why a record is refused. */
struct refusal {
    struct err why;
    const char *field; /* name of the field, or NULL */
};

/* Parses a batch line, or (plain) a line of text. 0; 1: *why says what is wrong with it, r->id
 * names it; -1: out of memory. Frees with record_free in every case. */
int record_parse(struct record *r, const struct input_line *line, int plain,
                 const struct record_defaults *d, struct refusal *why, struct err *e);
void record_free(struct record *r);
/* Gives back what is not needed any more once the prompts are made: prompt, messages, tools and
 * kwargs are gone. */
void record_settle(struct record *r);
/* FNV-1a (Fowler, Noll, Vo; 64 bits) of the record's id: names its random stream and the ids in its
 * answer. */
uint64_t record_hash(const struct record *r);

#endif
