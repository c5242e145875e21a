/* chat.h: messages to prompt text by the checkpoint's chat template. Owns: the choice among a
 * checkpoint's templates, and their variables. Must not know: Jinja (jinja.h), token ids, requests.
 *
 * The text equals that of transformers' apply_chat_template(tokenize=False). It spells out BOS and
 * the other special tokens: encode it with add_special = 0, or the prompt gets two BOS. */
#ifndef CORE_CHAT_H
#define CORE_CHAT_H

#include "core/model/modelfile.h"

#include <jansson.h>

struct chat;

/* Files of a checkpoint as bytes, not NUL-terminated; NULL where it has none. */
struct chat_file {
    const char *text;
    size_t bytes;
};
struct chat_source {
    struct chat_file given; /* overrides all others */
    struct chat_file jinja; /* chat_template.jinja */
    struct chat_file
        tool_use; /* additional_chat_templates/tool_use.jinja, beside chat_template.jinja */
    struct chat_file config; /* tokenizer_config.json: chat_template (text, or a list of named
                                ones), bos_token ... */
    struct chat_file
        special_map; /* special_tokens_map.json: the special tokens that config does not name */
    struct chat_file json; /* chat_template.json: the last choice */
};

/* Parses the template; of several, "default" and "tool_use". Without a template chat_open succeeds
 * and chat_render fails. NOW, for strftime_now, is local time in seconds since 1970-01-01 00:00
 * local time. A resumed run passes the time of its first start, so that it renders the same
 * prompts. */
int chat_open(struct chat **c, const struct chat_source *src, int64_t now, struct err *e);
/* chat_open with the files in a model file; GIVEN [n bytes] is a template that overrides them, or
 * NULL. */
int chat_open_model(struct chat **c, const struct modelfile *m, const char *given, size_t n,
                    int64_t now, struct err *e);
void chat_close(struct chat *c);

/* The variables of a template; none is owned. */
struct chat_input {
    const json_t *messages; /* array of objects */
    const json_t *tools;    /* array or NULL; with tools the template "tool_use" is rendered, if
                               there is one */
    const json_t *extra;    /* object of further variables (vLLM's chat_template_kwargs, such as
                               enable_thinking) or NULL; overrides bos_token and the like */
    int add_generation_prompt;
};

/* Renders the template. *text is malloc'd, NUL-terminated, *bytes long. A short chat takes less
 * than 0.1 ms; *c stays constant. */
int chat_render(const struct chat *c, const struct chat_input *in, char **text, size_t *bytes,
                struct err *e);

/* 0 if the template for tools does not read them, so that tools would have no effect; 1 otherwise,
 * and without a template. */
int chat_reads_tools(const struct chat *c);

/* 1 if the template that is rendered (TOOLS: with tools) reads the variable NAME, and without a
 * template. */
int chat_reads(const struct chat *c, int tools, const char *name);

/* The source of the template for tools, [*n]; NULL: there is none. */
const char *chat_source(const struct chat *c, size_t *n);

/* Converts the messages of an OpenAI request to what templates expect, as vLLM does. A content that
 * is a list of text parts is joined with newlines, unless the template loops over parts; the
 * arguments of a tool call, JSON in a string, become an object, an empty one where they are null or
 * missing. Reasoning, as reasoning_content, thinking or reasoning, gets the first two names. Errors
 * name the message by number: it is no object, has no role, or has a part that is not text. *out is a new reference. */
int chat_messages(const struct chat *c, const json_t *messages, json_t **out, struct err *e);

#endif
