#include "core/text/chat.h"
#include "core/text/jinja.h"
#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

struct chat {
    struct jinja *plain, *tool_use; /* NULL: none */
    json_t *tokens;                 /* bos_token etc. as the checkpoint names them */
    char names[200]; /* of the templates, if there are several and none is the default */
    int64_t now;
    int walks_parts;            /* the template loops over the parts of a content */
    struct chat_file source[2]; /* of plain and tool_use; owned */
};

static int load(json_t **j, const struct chat_file *f, const char *name, struct err *e)
{
    *j = NULL;
    if (!f->text) return 0;
    /* Integers are read as reals: some of these files write out 1e30. */
    *j = json_read_python(f->text, f->bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL, e);
    if (json_is_object(*j)) return 0;
    if (*j) err_set(e, "not an object");
    err_prefix(e, "%s", name);
    json_decref(*j);
    *j = NULL;
    return -1;
}

/* Collects the special tokens by name: each is a text, or an object with a content. */
static int collect_tokens(struct chat *c, const json_t *config, const json_t *special_map,
                          struct err *e)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const json_t *const files[] = {config, special_map};
    if (!(c->tokens = json_object())) return err_memory(e);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int f = 0; f < 2; f++) {
            json_t *v = json_object_get(files[f], names[i]);
            if (json_is_object(v)) v = json_object_get(v, "content");
            if (!json_is_string(v)) continue;
            if (json_object_set(c->tokens, names[i], v)) return err_memory(e);
            break;
        }
    return 0;
}

static int parse(struct chat *c, struct jinja **t, const char *text, size_t n, const char *name,
                 struct err *e)
{
    if (!text || *t) return 0;
    struct chat_file *source = &c->source[t == &c->tool_use];
    char *copy = malloc(n + 1);
    if (!copy) return err_memory(e);
    memcpy(copy, text, n);
    free((char *)source->text);
    *source = (struct chat_file){copy, n};
    return jinja_open(t, text, n, e) ? err_prefix(e, "chat template%s%s", *name ? " of " : "", name)
                                     : 0;
}

/* Parses a chat_template value: one text, or several with names (a list of objects, or an object).
 */
static int parse_value(struct chat *c, const json_t *v, const char *file, struct err *e)
{
    if (!v || json_is_null(v)) return 0;
    if (json_is_string(v))
        return parse(c, &c->plain, json_string_value(v), json_string_length(v), file, e);
    if (!json_is_array(v) && !json_is_object(v))
        return err_set(e, "%s: chat_template is neither a text nor a list", file);
    const char *key;
    json_t *item;
    json_t *named = json_object();
    size_t i;
    int rc = named ? 0 : err_memory(e);
    json_array_foreach (v, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!rc && (!name || !json_is_string(json_object_get(item, "template"))))
            rc = err_set(e, "%s: chat_template: item %zu has no name or no template", file, i);
        if (!rc && json_object_set(named, name, json_object_get(item, "template")))
            rc = err_memory(e);
    }
    json_object_foreach ((json_t *)(uintptr_t)(json_is_array(v) ? named : v), key, item) {
        struct jinja **t = !strcmp(key, "default")    ? &c->plain
                           : !strcmp(key, "tool_use") ? &c->tool_use
                                                      : NULL;
        if (!rc && t && json_is_string(item))
            rc = parse(c, t, json_string_value(item), json_string_length(item), file, e);
        if (strlen(c->names) + strlen(key) + 3 < sizeof c->names)
            strcat(strcat(c->names, *c->names ? ", " : ""), key);
    }
    json_decref(named);
    return rc;
}

int chat_open(struct chat **out, const struct chat_source *src, int64_t now, struct err *e)
{
    json_t *config = NULL, *special_map = NULL, *file = NULL;
    int rc = -1;
    *out = NULL;
    struct chat *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e);
    c->now = now;
    if (load(&config, &src->config, "tokenizer_config.json", e) ||
        load(&special_map, &src->special_map, "special_tokens_map.json", e) ||
        collect_tokens(c, config, special_map, e))
        goto fail;
    if (src->given.text) {
        if (parse(c, &c->plain, src->given.text, src->given.bytes, "", e)) goto fail;
    } else if (src->jinja.text) {
        if (parse(c, &c->plain, src->jinja.text, src->jinja.bytes, "chat_template.jinja", e) ||
            parse(c, &c->tool_use, src->tool_use.text, src->tool_use.bytes,
                  "additional_chat_templates/tool_use.jinja", e))
            goto fail;
    } else {
        if (parse_value(c, json_object_get(config, "chat_template"), "tokenizer_config.json", e))
            goto fail;
        if (!c->plain && !*c->names &&
            (load(&file, &src->json, "chat_template.json", e) ||
             parse_value(c, json_object_get(file, "chat_template"), "chat_template.json", e)))
            goto fail;
    }
    if (json_check(e)) goto fail;
    if (c->plain && (c->walks_parts = jinja_loops_over(c->plain, "content")) < 0) {
        err_memory(e);
        goto fail;
    }
    *out = c;
    c = NULL;
    rc = 0;
fail:
    chat_close(c);
    json_decref(config);
    json_decref(special_map);
    json_decref(file);
    return rc;
}

int chat_open_model(struct chat **c, const struct modelfile *m, const char *given, size_t n,
                    int64_t now, struct err *e)
{
    struct chat_source src = {.given = {given, n}};
    const struct {
        const char *name;
        struct chat_file *file;
    } files[] = {{"chat_template.jinja", &src.jinja},
                 {"additional_chat_templates/tool_use.jinja", &src.tool_use},
                 {"tokenizer_config.json", &src.config},
                 {"special_tokens_map.json", &src.special_map},
                 {"chat_template.json", &src.json}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        files[i].file->text = mf_source_file(m, files[i].name, &files[i].file->bytes);
    return chat_open(c, &src, now, e) ? err_prefix(e, "%s", m->st.path) : 0;
}

void chat_close(struct chat *c)
{
    if (!c) return;
    jinja_close(c->plain);
    jinja_close(c->tool_use);
    free((char *)c->source[0].text);
    free((char *)c->source[1].text);
    json_decref(c->tokens);
    free(c);
}

int chat_reads(const struct chat *c, int tools, const char *name)
{
    const struct jinja *t = tools && c->tool_use ? c->tool_use : c->plain;
    return !t || jinja_reads(t, name);
}

int chat_reads_tools(const struct chat *c) { return chat_reads(c, 1, "tools"); }

const char *chat_source(const struct chat *c, size_t *n)
{
    const struct chat_file *f = &c->source[c->tool_use != NULL];
    *n = f->bytes;
    return f->text;
}

/* json_object_set takes a non-const value; it only adds a reference. */
static int set(json_t *to, const char *key, const json_t *v)
{
    return json_object_set(to, key, (json_t *)(uintptr_t)v);
}

int chat_render(const struct chat *c, const struct chat_input *in, char **text, size_t *bytes,
                struct err *e)
{
    const json_t *tools = in->tools, *extra = in->extra;
    static const char *const ours[] = {"messages", "tools", "add_generation_prompt"};
    const struct jinja *t = tools && c->tool_use ? c->tool_use : c->plain;
    *text = NULL;
    if (!t && *c->names)
        return err_set(e, "the model's chat templates are %s, none of them is the default",
                       c->names);
    if (!t)
        return err_set(e, "the model has no chat template (give one with --chat-template-file)");
    if (!json_is_array(in->messages)) return err_set(e, "messages is not a list");
    if (tools && !json_is_array(tools)) return err_set(e, "tools is not a list");
    if (extra && !json_is_object(extra))
        return err_set(e, "the template's further variables are not an object");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_object_get(extra, ours[i]))
            return err_set(e, "the template's further variables may not hold '%s'", ours[i]);
    json_t *v = json_object();
    int rc = -1;
    if (!v || json_object_update(v, c->tokens) ||
        json_object_set_new(v, "documents", json_null()) ||
        (extra && json_object_update(v, (json_t *)(uintptr_t)extra)) ||
        set(v, "messages", in->messages) ||
        (tools ? set(v, "tools", tools) : json_object_set_new(v, "tools", json_null())) ||
        json_object_set_new(v, "add_generation_prompt", json_boolean(in->add_generation_prompt)) ||
        json_check(e))
        err_memory(e);
    else if (jinja_render(t, v, c->now, text, bytes, e)) err_prefix(e, "chat template");
    else rc = 0;
    json_decref(v);
    return rc;
}

/* Messages of an OpenAI request. */

/* The key under which a part of this type has its text, as vLLM takes them; NULL: it has none. */
static const char *text_key(const char *type)
{
    static const char *const keys[][2] = {{"text", "text"},
                                          {"input_text", "text"},
                                          {"output_text", "text"},
                                          {"refusal", "refusal"},
                                          {"thinking", "thinking"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(type, keys[i][0])) return keys[i][1];
    return NULL;
}

/* A string, or the text of an object that check_parts has seen. */
static json_t *part_text(json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? json_object_get(part, text_key(type)) : part;
}

/* Joins a list of text parts. */
static int join_parts(const json_t *parts, size_t at, json_t **out, struct err *e)
{
    size_t n = 0, i;
    json_t *part;
    *out = NULL;
    json_array_foreach (parts, i, part) n += json_string_length(part_text(part)) + 1;
    char *text = malloc(n + 1), *p = text;
    if (!text) return err_memory(e);
    json_array_foreach (parts, i, part) {
        const json_t *s = part_text(part);
        if (i) *p++ = '\n';
        if (json_string_length(s)) p = mempcpy(p, json_string_value(s), json_string_length(s));
    }
    *out = json_stringn(text, (size_t)(p - text));
    free(text);
    return *out ? 0 : err_memory_for(e, "messages[%zu].content: out of memory", at);
}

/* The parts for a template that loops over them: those of other types become texts. */
static int name_parts(const json_t *parts, json_t **out, struct err *e)
{
    size_t i;
    json_t *part;
    int failed = !(*out = json_array());
    json_array_foreach (parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (type && strcmp(type, "text"))
            failed |= json_array_append_new(*out, json_pack("{s:s, s:O}", "type", "text", "text",
                                                            part_text(part))) != 0;
        else failed |= json_array_append(*out, part) != 0;
    }
    if (!failed) return 0;
    json_decref(*out);
    return err_memory(e);
}

static int check_parts(const json_t *parts, size_t at, struct err *e)
{
    size_t i;
    json_t *part;
    json_array_foreach (parts, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        if (json_is_string(part)) continue;
        if (!type) return err_set(e, "messages[%zu].content[%zu] has no type", at, i);
        if (!text_key(type))
            return err_set(e, "messages[%zu].content[%zu]: '%.40s' is not supported, only text is",
                           at, i, type);
        if (!json_is_string(part_text(part)))
            return err_set(e, "messages[%zu].content[%zu] has no %s", at, i, text_key(type));
    }
    return 0;
}

static int is_null(const json_t *v) { return !v || json_is_null(v); }

static int is_empty(const json_t *v)
{
    return is_null(v) || (json_is_string(v) && !json_string_length(v));
}

/* The reasoning of an earlier turn under the names that templates read: of those that programs
 * write, the first that has text fills the others. */
static int name_reasoning(json_t *message, struct err *e)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *text = NULL;
    for (int i = 0; i < 3 && !json_string_length(text); i++) {
        json_t *v = json_object_get(message, names[i]);
        if (json_is_string(v)) text = v;
    }
    for (int i = 0; i < 2 && text; i++)
        if (is_empty(json_object_get(message, names[i])) &&
            json_object_set(message, names[i], text))
            return err_memory(e);
    return 0;
}

/* The arguments of one call: JSON in a string is its value, nothing and null are none. */
static int read_call(json_t *function, size_t at, size_t i, struct err *e)
{
    json_t *arguments = json_object_get(function, "arguments"), *read = NULL;
    const char *text = json_string_value(arguments);
    size_t n = json_string_length(arguments);
    json_error_t why;
    if (!json_is_object(function) || (!is_null(arguments) && !text)) return 0;
    if (text && strspn(text, " \t\r\n") < n) {
        read = json_read(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why, e);
        if (!read && err_is_memory(e)) return -1;
        if (!read)
            return err_set(
                e, "messages[%zu].tool_calls[%zu].function.arguments: not JSON: %s (at byte %d)",
                at, i, json_why(&why), why.position);
    }
    if (is_null(read)) {
        json_decref(read);
        read = json_object();
    }
    return !read || json_object_set_new(function, "arguments", read) ? err_memory(e) : 0;
}

/* Replaces the arguments of a message's tool calls by their values. */
static int read_arguments(json_t *message, size_t at, struct err *e)
{
    json_t *calls = json_object_get(message, "tool_calls"), *copy, *call;
    size_t i;
    if (!json_is_array(calls)) return 0;
    if (!(copy = json_deep_copy(calls)) || json_object_set_new(message, "tool_calls", copy))
        return err_memory(e);
    json_array_foreach (copy, i, call)
        if (read_call(json_object_get(call, "function"), at, i, e)) return -1;
    return 0;
}

int chat_messages(const struct chat *c, const json_t *messages, json_t **out, struct err *e)
{
    size_t i;
    json_t *m;
    *out = NULL;
    if (!json_is_array(messages) || !json_array_size(messages))
        return err_set(e, "messages is not a list with at least one message");
    json_t *list = json_array();
    int rc = list ? 0 : err_memory(e);
    json_array_foreach (messages, i, m) {
        json_t *copy = NULL, *content = json_object_get(m, "content"), *text;
        if (rc) break;
        if (!json_is_object(m)) rc = err_set(e, "messages[%zu] is not an object", i);
        else if (!json_is_string(json_object_get(m, "role")))
            rc = err_set(e, "messages[%zu].role is not a text", i);
        else if (content && !json_is_string(content) && !json_is_null(content) &&
                 !json_is_array(content))
            rc = err_set(e, "messages[%zu].content is neither a text nor a list of parts", i);
        else if (!(copy = json_copy(m)) || json_array_append_new(list, copy)) rc = err_memory(e);
        else if (json_is_array(content)) rc = check_parts(content, i, e);
        if (!rc && json_is_array(content)) {
            rc = c->walks_parts ? name_parts(content, &text, e) : join_parts(content, i, &text, e);
            if (!rc && json_object_set_new(copy, "content", text)) rc = err_memory(e);
        }
        if (!rc) rc = name_reasoning(copy, e);
        if (!rc) rc = read_arguments(copy, i, e);
    }
    if (!rc) rc = json_check(e); /* json_copy drops members when memory is short */
    if (rc) json_decref(list);
    else *out = list;
    return rc;
}
