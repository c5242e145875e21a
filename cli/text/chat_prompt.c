/* chat_prompt.c: the prompt of --chat: one message (and --system-prompt) through the model's chat
 * template. */
#include "cli/run.h"
#include "core/text/chat.h"
#include "core/text/reasoning.h"
#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t run_local_time(void)
{
    time_t now = time(NULL);
    struct tm tm = {0};
    localtime_r(&now, &tm);
    return (int64_t)now + tm.tm_gmtoff;
}

int run_read_template(const struct options *o, char **text, size_t *bytes, struct err *e)
{
    const struct options file = {.file = o->chat_template_file};
    *text = NULL;
    *bytes = 0;
    return o->chat_template_file ? run_read_text(&file, text, bytes, e) : 0;
}

int run_template_variables(const struct options *o, const struct chat *c, json_t **variables,
                           struct err *e)
{
    const char *text = o->template_kwargs, *name;
    json_t *v;
    *variables = NULL;
    if (!text) return 0;
    if (!(*variables = json_read(text, strlen(text), JSON_REJECT_DUPLICATES, NULL, e))) return -1;
    json_object_foreach (*variables, name, v)
        if (!chat_reads(c, 0, name) && !chat_reads(c, 1, name))
            return err_set(
                e, "--chat-template-kwargs: the model's chat template does not read '%.60s'", name);
    return 0;
}

int run_read_system(struct options *o, char **text, struct err *e)
{
    const struct options file = {.file = o->system_prompt_file};
    size_t n;
    *text = NULL;
    if (!file.file) return 0;
    if (run_read_text(&file, text, &n, e)) return -1;
    if (n && (*text)[n - 1] == '\n') (*text)[--n] = 0;
    json_t *readable = json_stringn(*text, n);
    int is_text = readable && strlen(*text) == n;
    json_decref(readable);
    if (!n) return err_set(e, "%s: is empty", file.file);
    if (!is_text) return err_set(e, "%s: the text is not UTF-8", file.file);
    o->system_prompt = *text;
    return 0;
}

int run_add_message(json_t *messages, const char *role, const char *text, size_t n,
                    const char *what, struct err *e)
{
    json_t *content = json_stringn(text, n);
    if (!content) return json_check(e) ? -1 : err_set(e, "%s is not valid UTF-8", what);
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", content);
    return !m || json_array_append_new(messages, m) ? err_memory(e) : json_check(e);
}

int run_chat_prompt(const struct options *o, const struct modelfile *m, char **text, size_t *bytes,
                    const struct reasoning_tags **tags, struct err *e)
{
    struct chat *c = NULL;
    char *user = NULL, *template = NULL;
    size_t n_user, n_template = 0;
    json_t *messages = json_array(), *variables = NULL;
    int rc = -1;
    if (!messages) return err_memory(e);
    if (run_read_template(o, &template, &n_template, e)) goto fail;
    if (chat_open_model(&c, m, template, n_template, run_local_time(), e)) goto fail;
    const char *source = chat_source(c, &n_template);
    if (tags) *tags = reasoning_tags_of(source, n_template);
    if (o->system_prompt && run_add_message(messages, "system", o->system_prompt,
                                            strlen(o->system_prompt), "--system-prompt", e))
        goto fail;
    if (run_read_text(o, &user, &n_user, e) ||
        run_add_message(messages, "user", user, n_user, "the prompt", e))
        goto fail;
    if (run_template_variables(o, c, &variables, e)) goto fail;
    const struct chat_input in = {
        .messages = messages, .extra = variables, .add_generation_prompt = 1};
    rc = chat_render(c, &in, text, bytes, e) ? err_prefix(e, "%s", o->model) : 0;
fail:
    chat_close(c);
    json_decref(messages);
    json_decref(variables);
    free(user);
    free(template);
    return rc;
}
