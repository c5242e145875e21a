/* chat.h: messages -> prompt text, by the checkpoint's own chat template. Owns: which template of a
 * checkpoint is meant, the variables it sees. Must not know: Jinja (jinja.h), token ids, requests.
 *
 * The text is what transformers' apply_chat_template(tokenize=False) gives. It holds BOS and the
 * other special tokens spelled out: encode it with add_special = 0, as apply_chat_template does, or
 * a prompt would begin with two BOS. */
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
    struct chat_file given; /* a template that goes before all others */
    struct chat_file jinja; /* chat_template.jinja */
    struct chat_file
        tool_use; /* additional_chat_templates/tool_use.jinja, beside chat_template.jinja */
    struct chat_file config; /* tokenizer_config.json: chat_template (text, or a list of named
                                ones), bos_token ... */
    struct chat_file
        special_map; /* special_tokens_map.json: the same tokens, where config does not name them */
    struct chat_file json; /* chat_template.json: comes last */
};

/* Parses the template (of several: "default" and "tool_use"). Without any template this succeeds,
 * and chat_render says so. NOW is what strftime_now shows: a wall clock as seconds since 1970-01-01
 * 00:00 of that clock. It is fixed here so that a run that is stopped and resumed renders the same
 * prompts: pass the time of the first start. */
int chat_open(struct chat **c, const struct chat_source *src, int64_t now, struct err *e);
/* The same from a model file; GIVEN [n] as above or NULL. */
int chat_open_model(struct chat **c, const struct modelfile *m, const char *given, size_t n,
                    int64_t now, struct err *e);
void chat_close(struct chat *c);

/* Renders MESSAGES (an array of objects). TOOLS (an array) or NULL; "tool_use" is taken when there
 * are tools and such a template. EXTRA (an object) or NULL: more variables (vLLM's
 * chat_template_kwargs, such as enable_thinking); they go before bos_token and the like. *text is
 * malloc'd, NUL-terminated, *bytes long. Takes well under 0.1 ms for a short chat; *c is not
 * changed. */
int chat_render(const struct chat *c, const json_t *messages, const json_t *tools,
                const json_t *extra, int add_generation_prompt, char **text, size_t *bytes,
                struct err *e);

/* 0 when the template that chat_render takes for tools reads none: they would change nothing. 1
 * also without a template. */
int chat_reads_tools(const struct chat *c);

/* Messages of an OpenAI request made into what templates expect, as vLLM does it: a content that is
 * a list of text parts becomes one text, its parts divided by newlines, unless the template itself
 * walks through parts; arguments of tool calls, JSON in a string, become the object. Refused by
 * number: a message that is no object or has no role, a part that is not text. *out is a new
 * reference. */
int chat_messages(const struct chat *c, const json_t *messages, json_t **out, struct err *e);

#endif
