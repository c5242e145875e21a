/* job_calls.h: what a chat's answer is besides text: calls of functions, reasoning. Which syntax of
 * calls and which tags a record has, what that asks of a grammar, and the message that an answer
 * makes. Must not know: files, the rest of a line. */
#ifndef CLI_MODES_BATCH_JOB_CALLS_H
#define CLI_MODES_BATCH_JOB_CALLS_H

#include "core/grammar/call_syntax.h"
#include "core/grammar/grammar.h"
#include "core/text/chat.h"
#include "core/text/toolcalls.h"

struct job;
struct reasoning_tags;
struct job_prompt;
struct job_choice;
struct refusal;

/* Of a run. */
struct job_calls_env {
    const char *parser; /* --tool-call-parser; NULL: what the template says */
    int splits;         /* --reasoning-parser */
    /* chat templates of records; the last one is kept */
    const struct modelfile *file;
    int64_t now;
    char *template;
    struct chat *chat;
};
void job_calls_env_close(struct job_calls_env *env);

/* Of a record. */
struct job_calls {
    const struct call_syntax *syntax; /* NULL: answers have no calls */
    json_t *special;                  /* the syntax's special tokens */
    json_t *marked; /* those of them that are no tags of reasoning which stands apart; NULL: all */
    int is_exact;   /* a grammar holds answers to the syntax */
    int splits;     /* reasoning stands apart */
    const struct reasoning_tags *tags; /* by which it is told */
    struct grammar_thoughts thoughts;  /* begins NULL: a grammar knows of none */
};

/* The chat template of a record: 0, 1 with *why, -1. */
int job_calls_chat(struct job *j, const struct chat **chat, struct refusal *why, struct err *e);
/* Behind the prompt's text TEXT [n]: fills j->calls, and j->record.grammar where calls ask for
 * one. 0, -1. */
int job_calls_prepare(struct job *j, const char *text, size_t n, struct err *e);
void job_calls_close(struct job_calls *c);
/* Remembers a special token that was read into the choice's text, which had BEFORE bytes. */
int job_calls_see(struct job *j, struct job_choice *c, int32_t id, size_t before, struct err *e);

/* An answer as a message. */
struct job_message {
    struct toolcalls calls; /* its text: the content */
    char *thoughts;         /* [n_thoughts]; NULL: none */
    size_t n_thoughts;
    int is_null; /* the content */
};
/* 1: an answer of J is more than its text. */
int job_message_is_shaped(const struct job *j);
int job_message_open(struct job_message *m, const struct job_prompt *p, const struct job_choice *c,
                     struct err *e);
void job_message_close(struct job_message *m);
/* Tokens of a choice up to its answer, tags included; 0 where reasoning does not stand apart. */
int job_reasoning_tokens(const struct job_prompt *p, const struct job_choice *c, int *n,
                         struct err *e);

#endif
