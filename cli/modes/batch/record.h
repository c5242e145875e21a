/* record.h: what one line of a batch file asks for: a line of an OpenAI batch file, as vLLM's
 * run-batch takes them, or a prompt as plain text. Checks every field's type and range; refuses by
 * name what would change the answer and is not served; fills what a record leaves open from the
 * defaults of the run. Must not know: tokens' text, the context, scheduling, other records. */
#ifndef CLI_MODES_BATCH_RECORD_H
#define CLI_MODES_BATCH_RECORD_H

#include "cli/modes/batch/input.h"
#include "cli/modes/batch/record_response.h"
#include "cli/modes/batch/record_tools.h"
#include "cli/modes/batch/refusal.h"
#include "core/grammar/grammar.h"
#include "core/sample/sampler.h"

#include <jansson.h>

/* What the answers of a record have to be. */
struct record_grammar {
    int is_given;      /* the record has a field about it, perhaps one that leaves them free */
    const char *field; /* that asks for the grammar; NULL: answers are free */
    struct grammar_spec spec;
    int has_space, has_order; /* the record says them itself */
    char *owned;              /* the spec's text, or NULL: it is the run's */
};

/* Those from RECORD_EMBEDDING on are pooled: their prompts are evaluated, nothing is generated. */
enum record_kind {
    RECORD_COMPLETION,
    RECORD_CHAT,
    RECORD_RESPONSE,
    RECORD_EMBEDDING,
    RECORD_SCORE,
    RECORD_RERANK
};

/* Fields of a pooled record (record_pooling.c). The values are the record's. */
struct record_pooling {
    const json_t *a; /* input; of scores one text or many: text_1, queries, query ... */
    const json_t *b; /* text_2, documents ... */
    const char *a_field, *b_field; /* what they are called */
    const json_t *instruction;     /* a string, or NULL */
    int base64, dimensions;        /* dimensions 0: all */
    int norm;                      /* of embedding_make; RECORD_NO_NORM: the model's */
    int top_n;                     /* 0: all */
    int return_documents;
};
enum { RECORD_NO_NORM = -2 };

/* truncate_prompt_tokens: that of no record; as many as fit. */
enum { RECORD_WHOLE = -2, RECORD_FITTING = -1 };

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
    int trusts_templates;          /* a record may have a chat template */
};

struct record {
    uint64_t number; /* of the line */
    char name[32];   /* "line-12", when the line has no custom_id */
    const char *id;  /* [id_bytes] custom_id or name */
    size_t id_bytes;
    char *own; /* of a table's row: [n_row] the row as the file has it, then its id; else NULL */
    size_t n_row;
    enum record_kind kind;
    json_t *root;     /* NULL for plain text; owns what the pointers below point to */
    const char *text; /* [text_bytes] plain text prompt: the line's memory */
    size_t text_bytes;
    const json_t *prompt; /* of a completion: string, ids, or array of these; or NULL */
    const json_t *messages, *tools,
        *kwargs; /* of a chat; tools and kwargs (chat_template_kwargs) may be NULL */
    const json_t *effort, *verbosity; /* words for the chat template; NULL: not given */
    const char *model;                /* as the record names it, or NULL */
    int n, max_tokens;                /* max_tokens -1: up to the context */
    int logprobs;                     /* -1: none; else that many alternatives */
    int prompt_logprobs;              /* likewise, of the prompt's tokens */
    int truncate, truncates_end;      /* tokens of a prompt that stay, or an enum above */
    int32_t *named;                   /* [n_named] logprob_token_ids, ascending, or NULL */
    int n_named;
    uint32_t *allowed;       /* allowed_token_ids as bits [vocab], or NULL */
    const json_t *bad_words; /* array of strings, or NULL */
    int echo, return_ids, include_stop, skip_special, add_special, add_generation_prompt;
    int has_seed;
    struct sampler_params sampling; /* stop_ids and bias are the record's; no DRY breakers yet */
    int repeat_last_n, dry_last_n;
    const char **breakers; /* [n_breakers] strings of DRY */
    int n_breakers;
    const char **stop; /* [n_stop] */
    int n_stop;
    struct record_grammar grammar;
    struct record_pooling pooling;
    struct record_tools calls;
    struct record_response response;
    int continue_final;          /* the answer goes on with the last message */
    const json_t *chat_template; /* of the record; NULL: the run's */
};

/* 1: the prompt is messages in a chat template, the answer a message. */
static inline int record_is_chat(const struct record *r)
{
    return r->kind == RECORD_CHAT || r->kind == RECORD_RESPONSE;
}

/* Most choices of one record: its prompts times n. */
enum { RECORD_MAX_CHOICES = 65536 };

/* Parses a batch line, or (plain) a line of text. 0; 1: *why says what is wrong with it, r->id
 * names it; -1: out of memory. Frees with record_free in every case. */
int record_parse(struct record *r, const struct input_line *line, int plain,
                 const struct record_defaults *d, struct refusal *why, struct err *e);
void record_free(struct record *r);
/* Gives back what is not needed any more once the prompts are made: prompt, messages, tools,
 * kwargs and chat_template are gone; r->calls stays. */
void record_settle(struct record *r);
/* FNV-1a (Fowler, Noll, Vo; 64 bits) of the record's id: names its random stream and the ids in its
 * answer. */
uint64_t record_hash(const struct record *r);

#endif
