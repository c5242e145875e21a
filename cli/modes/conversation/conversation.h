/* conversation.h: what the files of a conversation share: conversation.c (lines, answers) and
 * commands.c. Owns: the messages. Must not know: how lines are edited, how an answer is shown. */
#ifndef CLI_MODES_CONVERSATION_CONVERSATION_H
#define CLI_MODES_CONVERSATION_CONVERSATION_H

#include "cli/modes/conversation/line.h"
#include "cli/text/constraint_text.h"
#include "engine/engine.h"
#include "engine/sampling.h"
#include "cli/text/show.h"
#include "core/text/chat.h"

struct conversation {
    const struct options *o;
    struct engine engine;
    struct chat *chat;
    json_t *variables; /* of its template, or NULL */
    struct sampler_params sampling;
    struct sampling_memory memory;
    struct constraint_one constraint;
    struct grammar *grammar; /* of every answer, or NULL */
    struct line_reader *lines;
    json_t *messages; /* as a record of a batch has them */
    struct out read; /* of /read: begins the next message */
    int n_ctx;
    uint64_t n_again; /* how often the last answer was made again: names its random stream */
    int n_failed;     /* messages and commands that failed, of a pipe */
    uint64_t n_answers, n_generated, n_prompt;
    double prompt_seconds, generate_seconds;

    /* the answer that is being made */
    struct show show;
    struct tok_ids prompt;
    struct tok_ids chosen; /* the answer's, with a grammar */
    int begun, n_tokens, stopped;
    enum finish finish;
    char failed[256]; /* of the model, or "" */
};

/* What a command leaves to be done. */
enum command_then { COMMAND_DONE, COMMAND_ANSWER, COMMAND_EXIT };

/* Whether a line is a command, or what somebody meant as one. Other lines that begin with "/" (a
 * path, a comment) are messages. */
int conversation_is_command(const char *line);
/* A line that is a command; blanks at its end are taken off. -1: it failed, *e says why, and
 * nothing has changed. */
int conversation_command(struct conversation *c, char *line, enum command_then *then,
                         struct err *e);
/* The role of the last message, or "". */
const char *conversation_last(const struct conversation *c);
/* Drops the last message. */
void conversation_drop(struct conversation *c);

#endif
