/* talk_tools.h: what conversation.c and terminal.c, which alone include it, have in common:
 * models/demo, conversations through a pipe, and what /save wrote of them. */
#ifndef TESTS_WHOLE_TALK_TOOLS_H
#define TESTS_WHOLE_TALK_TOOLS_H

#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-conversation-XXXXXX", model[600], saved[600],
                          template[600];

/* A conversation through a pipe. */
#define TALK(p, text, ...)                                                                         \
    process_run(p, (char *[]){run_bin, "-m", model, "-cnv", __VA_ARGS__, NULL}, text)

static json_t *load_messages(void)
{
    json_t *v = json_load_file(saved, 0, NULL), *m = json_incref(json_object_get(v, "messages"));
    json_decref(v);
    return m;
}

static const char *content(const json_t *messages, size_t i)
{
    const char *s = json_string_value(json_object_get(json_array_get(messages, i), "content"));
    return s ? s : "(no message)";
}

/* A template whose answers begin within reasoning, and options of answers with it. */
static void write_thinking(void)
{
    static const char text[] =
        "{{ bos_token }}{% for m in messages %}{{ m.content }}{% if m.reasoning_content %}"
        "[thought {{ m.reasoning_content | length > 5 }}]{% endif %}\n{% endfor %}"
        "{% if add_generation_prompt %}<think>\n{% endif %}";
    write_file(template, text, sizeof text - 1);
}
#define THINK "-n", "20", "--temp", "0", "--chat-template-file", template

/* Converts models/demo. */
static void begin(const char *build)
{
    if (!mkdtemp(dir)) exit(2);
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", build);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(saved, sizeof saved, "%s/saved.json", dir);
    snprintf(template, sizeof template, "%s/t.jinja", dir);
    shell_ok("%s/opt4gptq-convert -q models/demo %s", build, model);
}

#endif
