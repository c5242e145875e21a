#include "cli/modes/batch/record_response.h"

#include "cli/modes/batch/record.h"
#include "core/base/json.h"
#include "core/base/json_span.h"
#include "core/sched/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An item or a part that is being read, as errors name it. */
struct place {
    char name[96];
    struct refusal *why;
};

/* FIELD of the body; the text goes on behind "FIELD". */
__attribute__((format(printf, 3, 4))) static int
refuse_field(struct refusal *why, const char *field, const char *fmt, ...)
{
    va_list values;
    va_start(values, fmt);
    refuse_at(why, field, field, fmt, values);
    va_end(values);
    return 1;
}

__attribute__((format(printf, 2, 3))) static int refuse_place(const struct place *at,
                                                              const char *fmt, ...)
{
    va_list values;
    va_start(values, fmt);
    refuse_at(at->why, "input", at->name, fmt, values);
    va_end(values);
    return 1;
}

static int is_absent(const json_t *v) { return !v || json_is_null(v); }

static int is_nothing(const json_t *v)
{
    return is_absent(v) || json_is_false(v) || (json_is_string(v) && !json_string_length(v)) ||
           (json_is_array(v) && !json_array_size(v)) || (json_is_object(v) && !json_object_size(v));
}

static int is_among(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

/* Members of an item that no reader knows. */
static int check_members(const json_t *v, const char *const *known, const struct place *at)
{
    static const char *const all[] = {"type", "id", "status", NULL};
    const char *name;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)v, name, member)
        if (!is_among(name, all) && !is_among(name, known) && !is_nothing(member))
            return refuse_place(at, ": %.60s is not served", name);
    return 0;
}

/* ---- items of the input */

/* A text, or a list of parts that are texts; *content is a chat's, a new reference. */
static int read_content(const json_t *v, const struct place *at, json_t **content)
{
    static const char *const known[] = {"text", "refusal", "annotations", "logprobs", NULL};
    size_t i;
    json_t *part;
    *content = NULL;
    if (json_is_string(v)) {
        *content = json_incref((json_t *)(uintptr_t)v);
        return 0;
    }
    if (!json_is_array(v)) return refuse_place(at, ": must be a string or an array of parts");
    *content = json_array();
    json_array_foreach ((json_t *)(uintptr_t)v, i, part) {
        const char *type = json_string_value(json_object_get(part, "type")), *key;
        struct place in = {.why = at->why};
        snprintf(in.name, sizeof in.name, "%.60s[%zu]", at->name, i);
        if (!type) return refuse_place(&in, ": has no type");
        key = !strcmp(type, "refusal") ? "refusal" : "text";
        if (*key == 't' && strcmp(type, "input_text") && strcmp(type, "output_text") &&
            strcmp(type, "text"))
            return refuse_place(&in, ": type \"%.40s\" is not served, only texts are", type);
        json_t *text = json_object_get(part, key);
        if (!json_is_string(text)) return refuse_place(&in, ".%s: must be a string", key);
        if (check_members(part, known, &in)) return 1;
        json_array_append_new(*content, json_pack("{s:s, s:O}", "type", "text", "text", text));
    }
    return 0;
}

static int content_at(const json_t *item, const char *name, const struct place *at,
                      json_t **content)
{
    struct place in = {.why = at->why};
    snprintf(in.name, sizeof in.name, "%.60s.%s", at->name, name);
    return read_content(json_object_get(item, name), &in, content);
}

/* The last message, where an item of the assistant's turn may be added to it; else a new one. OPEN:
 * whether the item before was of the same turn. */
static json_t *turn(json_t *messages, int open)
{
    size_t n = json_array_size(messages);
    if (open && n) return json_array_get(messages, n - 1);
    json_t *m = json_pack("{s:s, s:n}", "role", "assistant", "content");
    json_array_append_new(messages, m);
    return m;
}

/* 1: the turn has nothing but reasoning yet. */
static int is_thought(const json_t *messages, int open)
{
    size_t n = json_array_size(messages);
    const json_t *m = open && n ? json_array_get(messages, n - 1) : NULL;
    return m && json_is_null(json_object_get(m, "content")) && !json_object_get(m, "tool_calls");
}

static int read_message(json_t *messages, const json_t *item, int *open, const struct place *at)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer", NULL},
                             *const known[] = {"role", "content", "phase", NULL};
    const char *role = json_string_value(json_object_get(item, "role"));
    json_t *content;
    if (!role || !is_among(role, roles))
        return refuse_place(at,
                            ".role: must be \"user\", \"assistant\", \"system\" or \"developer\"");
    if (check_members(item, known, at)) return 1;
    if (content_at(item, "content", at, &content)) {
        json_decref(content);
        return 1;
    }
    if (strcmp(role, "assistant")) {
        json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content));
        *open = 0;
        return 0;
    }
    json_object_set_new(turn(messages, is_thought(messages, *open)), "content", content);
    *open = 1;
    return 0;
}

static int read_call(json_t *messages, const json_t *item, int *open, const struct place *at)
{
    static const char *const known[] = {"call_id", "name", "arguments", NULL};
    json_t *id = json_object_get(item, "call_id"), *name = json_object_get(item, "name"),
           *arguments = json_object_get(item, "arguments");
    struct err inner = {0};
    json_error_t why;
    if (!json_is_string(id)) return refuse_place(at, ".call_id: must be a string");
    if (!json_string_length(name)) return refuse_place(at, ".name: must be a string");
    if (!json_is_string(arguments)) return refuse_place(at, ".arguments: must be a string");
    if (check_members(item, known, at)) return 1;
    const char *text = json_string_value(arguments);
    if (strspn(text, " \t\r\n") < json_string_length(arguments)) {
        json_t *v = json_read(text, json_string_length(arguments), JSON_DECODE_ANY | JSON_ALLOW_NUL,
                              &why, &inner);
        if (!v && !err_is_memory(&inner))
            return refuse_place(at, ".arguments: not JSON: %s (at byte %d)", json_why(&why),
                                why.position);
        json_decref(v);
    }
    json_t *m = turn(messages, *open), *calls = json_object_get(m, "tool_calls");
    if (!calls) json_object_set_new(m, "tool_calls", calls = json_array());
    json_array_append_new(calls, json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", id, "type", "function",
                                           "function", "name", name, "arguments", arguments));
    *open = 1;
    return 0;
}

static int read_output(json_t *messages, const json_t *item, int *open, const struct place *at)
{
    static const char *const known[] = {"call_id", "output", NULL};
    json_t *id = json_object_get(item, "call_id"), *content;
    if (!json_is_string(id)) return refuse_place(at, ".call_id: must be a string");
    if (check_members(item, known, at)) return 1;
    if (content_at(item, "output", at, &content)) {
        json_decref(content);
        return 1;
    }
    json_array_append_new(messages, json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id,
                                              "content", content));
    *open = 0;
    return 0;
}

/* TEXT with MORE in a line of its own behind it; NULL: there is none yet. */
static json_t *join(json_t *text, const json_t *more)
{
    const char *s = json_string_value(more);
    size_t n = json_string_length(more);
    if (!text) return json_stringn(s, n);
    json_t *joined = json_pack("s%++%", json_string_value(text), json_string_length(text), "\n", s,
                               n);
    json_decref(text);
    return joined;
}

/* Appends the texts of a list of parts. */
static int add_texts(const json_t *parts, json_t **text)
{
    size_t i;
    json_t *part;
    if (!is_absent(parts) && !json_is_array(parts)) return 1;
    json_array_foreach ((json_t *)(uintptr_t)parts, i, part) {
        const json_t *more = json_object_get(part, "text");
        if (!json_is_string(more)) return 1;
        *text = join(*text, more);
    }
    return 0;
}

/* Reasoning before the assistant's message: its text, or else its summary. */
static int read_reasoning(json_t *messages, const json_t *item, int *open, const struct place *at)
{
    static const char *const known[] = {"summary", "content", "encrypted_content", NULL};
    json_t *text = NULL;
    const char *wrong = NULL;
    if (check_members(item, known, at)) return 1;
    if (add_texts(json_object_get(item, "content"), &text)) wrong = "content";
    else if (!text && add_texts(json_object_get(item, "summary"), &text)) wrong = "summary";
    if (wrong || !text) {
        json_decref(text);
        if (wrong) return refuse_place(at, ".%s: must be an array of parts with a text", wrong);
        return is_nothing(json_object_get(item, "encrypted_content"))
                   ? 0
                   : refuse_place(at, ".encrypted_content: cannot be read, and there is no text "
                                      "beside it");
    }
    /* items of reasoning behind each other are one text */
    json_t *m = turn(messages, is_thought(messages, *open)),
           *before = json_object_get(m, "reasoning_content");
    json_object_set_new(m, "reasoning_content", before ? join(json_incref(before), text) : text);
    if (before) json_decref(text);
    *open = 1;
    return 0;
}

/* OPEN: the assistant's turn, to which the last item belongs, may go on. */
static int read_item(json_t *messages, const json_t *item, int *open, const struct place *at)
{
    const json_t *given = json_object_get(item, "type");
    const char *type = json_string_value(given);
    if (!json_is_object(item)) return refuse_place(at, ": must be an object");
    if (!is_absent(given) && !type) return refuse_place(at, ".type: must be a string");
    if (!type)
        type = !json_object_get(item, "role") && json_object_get(item, "id") ? "item_reference"
                                                                             : "message";
    if (!strcmp(type, "message")) return read_message(messages, item, open, at);
    if (!strcmp(type, "function_call")) return read_call(messages, item, open, at);
    if (!strcmp(type, "function_call_output")) return read_output(messages, item, open, at);
    if (!strcmp(type, "reasoning")) return read_reasoning(messages, item, open, at);
    if (!strcmp(type, "item_reference"))
        return refuse_place(at, ": item_reference: no earlier response is kept");
    return refuse_place(at, ": type \"%.60s\" is not served", type);
}

static int read_input(struct record *r, const json_t *body, struct refusal *why)
{
    const json_t *input = json_object_get(body, "input"),
                 *instructions = json_object_get(body, "instructions");
    json_t *messages = r->response.messages = json_array(), *item;
    struct place at = {.why = why};
    size_t i;
    int open = 0;
    r->messages = messages;
    if (!is_absent(instructions) && !json_is_string(instructions))
        return refuse_field(why, "instructions", ": must be a string");
    if (json_string_length(instructions))
        json_array_append_new(messages,
                              json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (is_absent(input)) return refuse_field(why, "input", ": is missing");
    if (json_is_string(input))
        return json_array_append_new(messages,
                                     json_pack("{s:s, s:O}", "role", "user", "content", input)),
               0;
    if (!json_is_array(input) || !json_array_size(input))
        return refuse_field(why, "input",
                            ": must be a string or an array of items that is not empty");
    json_array_foreach ((json_t *)(uintptr_t)input, i, item) {
        snprintf(at.name, sizeof at.name, "input[%zu]", i);
        if (read_item(messages, item, &open, &at)) return 1;
    }
    return 0;
}

/* ---- tools */

/* One of tools in a chat's form. */
static int read_tool(json_t *list, const json_t *tool, size_t i, struct refusal *why)
{
    const char *type = json_string_value(json_object_get(tool, "type")), *name;
    const json_t *text = json_object_get(tool, "name"),
                 *parameters = json_object_get(tool, "parameters"),
                 *strict = json_object_get(tool, "strict");
    json_t *v, *own, *function = json_object();
    if (json_array_append_new(
            list, own = json_pack("{s:s, s:o}", "type", "function", "function", function)))
        return 0; /* json_check says so */
    if (!type) return refuse_field(why, "tools", ": %zu has no type", i);
    if (strcmp(type, "function"))
        return refuse_field(why, "tools",
                            ": the type of %zu, \"%.40s\", is not served: only functions", i, type);
    if (json_object_get(tool, "function"))
        return refuse_field(why, "tools",
                            ": %zu is a chat's: name and parameters stand in the tool", i);
    if (!json_string_length(text) || strlen(json_string_value(text)) != json_string_length(text))
        return refuse_field(why, "tools", ": name of %zu is missing or no text", i);
    if (!is_absent(parameters) && !json_is_object(parameters) && !json_is_boolean(parameters))
        return refuse_field(why, "tools", ": parameters of %zu are not a JSON schema: an object",
                            i);
    if (!is_absent(strict) && !json_is_boolean(strict))
        return refuse_field(why, "tools", ": strict of %zu is not true or false", i);
    json_object_foreach ((json_t *)(uintptr_t)tool, name, v)
        if (strcmp(name, "type") && !json_is_null(v)) json_object_set(function, name, v);
    return 0;
}

/* {"type": "function", "name": ..} as a chat has it. */
static json_t *named_function(const json_t *v)
{
    return json_pack("{s:s, s:{s:O*}}", "type",
                     json_is_string(json_object_get(v, "type"))
                         ? json_string_value(json_object_get(v, "type"))
                         : "",
                     "function", "name", json_object_get(v, "name"));
}

/* tool_choice in a chat's form. */
static json_t *read_choice(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    size_t i;
    json_t *tool, *list;
    if (!json_is_object(v)) return json_incref((json_t *)(uintptr_t)v);
    if (!type || strcmp(type, "allowed_tools")) return named_function(v);
    const json_t *tools = json_object_get(v, "tools");
    list = json_array();
    json_array_foreach ((json_t *)(uintptr_t)tools, i, tool)
        json_array_append_new(list, named_function(tool));
    return json_pack("{s:s, s:{s:O*, s:o}}", "type", type, "allowed_tools", "mode",
                     json_object_get(v, "mode"), "tools", list);
}

static int read_tools(struct record *r, const json_t *body, struct refusal *why, struct err *e)
{
    const json_t *choice = json_object_get(body, "tool_choice"),
                 *parallel = json_object_get(body, "parallel_tool_calls");
    const char *type = json_string_value(json_object_get(choice, "type"));
    json_t *tool, *as_chat;
    size_t i;
    if (r->tools) {
        const json_t *given = r->tools;
        r->tools = r->response.tools = json_array();
        json_array_foreach ((json_t *)(uintptr_t)given, i, tool)
            if (read_tool(r->response.tools, tool, i, why)) return 1;
    }
    if (json_is_object(choice) &&
        (!type || (strcmp(type, "function") && strcmp(type, "allowed_tools"))))
        return refuse_field(why, "tool_choice",
                            ": must be \"none\", \"auto\", \"required\" or an object whose type is "
                            "\"function\" or \"allowed_tools\"");
    if (!is_absent(parallel) && !json_is_boolean(parallel))
        return refuse_field(why, "parallel_tool_calls", ": must be true or false");
    as_chat = json_object();
    if (!is_absent(choice)) json_object_set_new(as_chat, "tool_choice", read_choice(choice));
    if (parallel) json_object_set(as_chat, "parallel_tool_calls", (json_t *)(uintptr_t)parallel);
    int rc = json_check(e) ? -1 : record_read_tools(r, as_chat, why, e);
    json_decref(as_chat);
    return rc;
}

/* ---- the other fields */

static int read_logprobs(struct record *r, const json_t *body, struct refusal *why)
{
    const json_t *include = json_object_get(body, "include"),
                 *top = json_object_get(body, "top_logprobs");
    json_int_t n = json_integer_value(top);
    size_t i;
    json_t *item;
    int asks = 0;
    if (!is_absent(include) && !json_is_array(include))
        return refuse_field(why, "include", ": must be an array of strings");
    json_array_foreach ((json_t *)(uintptr_t)include, i, item) {
        const char *name = json_string_value(item);
        if (!name || strcmp(name, "message.output_text.logprobs"))
            return refuse_field(why, "include",
                                ": \"%.60s\" is not served, only "
                                "\"message.output_text.logprobs\" is",
                                name ? name : "");
        asks = 1;
    }
    if (!is_absent(top) && (!json_is_integer(top) || n < 0 || n > REQUEST_MAX_TOP))
        return refuse_field(why, "top_logprobs", ": must be an integer from 0 to 20");
    if (n && !asks)
        return refuse_field(why, "top_logprobs",
                            ": needs \"message.output_text.logprobs\" in include");
    if (asks) r->logprobs = (int)n;
    return 0;
}

/* The word of WORDS that V is. */
static int read_word(const json_t **word, const char *field, const json_t *v,
                     const char *const *words, struct refusal *why)
{
    char all[160] = "";
    const char *s = json_string_value(v);
    if (is_absent(v)) return 0;
    if (s && is_among(s, words)) {
        *word = v;
        return 0;
    }
    for (int i = 0; words[i]; i++) {
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s \"%s\"", i ? "," : "", words[i]);
    }
    return refuse_field(why, field, ": must be one of%s", all);
}

/* Members of the object FIELD that are none of KNOWN. */
static int check_object(const json_t *v, const char *field, const char *const *known,
                        struct refusal *why)
{
    const char *name;
    json_t *member;
    if (is_absent(v)) return 0;
    if (!json_is_object(v)) return refuse_field(why, field, ": must be an object");
    json_object_foreach ((json_t *)(uintptr_t)v, name, member)
        if (!is_among(name, known) && !is_nothing(member))
            return refuse_field(why, field, ".%.60s: is not served", name);
    return 0;
}

static int read_words(struct record *r, const json_t *body, struct refusal *why)
{
    static const char *const of_reasoning[] = {"effort", NULL},
                             *const of_text[] = {"format", "verbosity", NULL},
                             *const efforts[] = {"none", "minimal", "low", "medium",
                                                 "high", "xhigh",   "max", NULL},
                             *const verbosities[] = {"low", "medium", "high", NULL},
                             *const ways[] = {"auto", "disabled", NULL};
    const json_t *reasoning = json_object_get(body, "reasoning"),
                 *text = json_object_get(body, "text"), *way = NULL;
    if (check_object(reasoning, "reasoning", of_reasoning, why) ||
        check_object(text, "text", of_text, why) ||
        read_word(&r->effort, "reasoning.effort", json_object_get(reasoning, "effort"), efforts,
                  why) ||
        read_word(&r->verbosity, "text.verbosity", json_object_get(text, "verbosity"), verbosities,
                  why) ||
        read_word(&way, "truncation", json_object_get(body, "truncation"), ways, why))
        return 1;
    r->response.drops_items = way && !strcmp(json_string_value(way), "auto");
    return 0;
}

/* Fields without effect that the answer repeats. */
static int check_repeated(const json_t *body, struct refusal *why)
{
    static const char *const texts[] = {"user", "safety_identifier", "prompt_cache_key",
                                        "service_tier", NULL};
    const json_t *metadata = json_object_get(body, "metadata"),
                 *store = json_object_get(body, "store"),
                 *most = json_object_get(body, "max_tool_calls"), *v;
    const char *name;
    json_t *member;
    if (!is_absent(metadata) && !json_is_object(metadata))
        return refuse_field(why, "metadata", ": must be an object of strings");
    json_object_foreach ((json_t *)(uintptr_t)metadata, name, member)
        if (!json_is_string(member))
            return refuse_field(why, "metadata", ": must be an object of strings");
    if (!is_absent(store) && !json_is_boolean(store))
        return refuse_field(why, "store", ": must be true or false");
    if (!is_absent(most) && !json_is_integer(most))
        return refuse_field(why, "max_tool_calls", ": must be an integer");
    for (int i = 0; texts[i]; i++)
        if (!is_absent(v = json_object_get(body, texts[i])) && !json_is_string(v))
            return refuse_field(why, texts[i], ": must be a string");
    return 0;
}

int record_read_response(struct record *r, const json_t *body, struct refusal *why, struct err *e)
{
    if (read_words(r, body, why) || check_repeated(body, why) || read_logprobs(r, body, why) ||
        read_input(r, body, why))
        return 1;
    return json_check(e) ? -1 : read_tools(r, body, why, e);
}

/* ---- what the answer repeats */

/* The value in [p, end) without white space between its parts. */
static void put_compact(struct out *o, const char *p, const char *end)
{
    const char *from = p;
    int in_string = 0;
    for (; p < end; p++) {
        if (in_string && *p == '\\') p++;
        else if (*p == '"') in_string = !in_string;
        else if (!in_string && strchr(" \t\r\n", *p)) {
            out_bytes(o, from, (size_t)(p - from));
            from = p + 1;
        }
    }
    out_bytes(o, from, (size_t)(end - from));
}

/* Member NAME of the object in [p, end), as it is spelled; OTHERWISE where it is absent or null. */
static void put_member(struct out *o, const char *p, const char *end, const char *name,
                       const char *otherwise)
{
    if (p && json_span_member(&p, &end, name) && *p != 'n') put_compact(o, p, end);
    else out_text(o, otherwise);
}

/* A number with as few digits as give it back. */
static void put_number(struct out *o, const char *name, double x)
{
    char s[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        if (strtod(s, NULL) == x) break;
    }
    out_text(o, name);
    out_text(o, s);
}

/* text and reasoning, whose members have defaults of their own. */
static void put_objects(struct out *o, const char *p, const char *end)
{
    const char *text = p, *text_end = end, *thought = p, *thought_end = end;
    if (!json_span_member(&text, &text_end, "text") || *text == 'n') text = NULL;
    if (!json_span_member(&thought, &thought_end, "reasoning") || *thought == 'n') thought = NULL;
    out_text(o, ",\"reasoning\":{\"effort\":");
    put_member(o, thought, thought_end, "effort", "null");
    out_text(o, ",\"summary\":null},\"text\":{\"format\":");
    put_member(o, text, text_end, "format", "{\"type\":\"text\"}");
    out_text(o, ",\"verbosity\":");
    put_member(o, text, text_end, "verbosity", "null");
    out_text(o, "}");
}

int record_keep_settings(struct record *r, const struct input_line *line, struct err *e)
{
    static const char *const rows[][2] = {
        {"background", "false"},
        {"instructions", "null"},
        {"max_tool_calls", "null"},
        {"parallel_tool_calls", "true"},
        {"previous_response_id", "null"},
        {"prompt_cache_key", "null"},
        {"prompt_cache_retention", "null"},
        {"safety_identifier", "null"},
        {"service_tier", "null"},
        {"store", "false"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"top_logprobs", "0"},
        {"truncation", "\"disabled\""},
        {"user", "null"},
        {"metadata", "{}"},
    };
    struct out *o = &r->response.settings;
    const char *end = line->text + line->n, *p = json_span_space(line->text, end);
    int has_body = json_span_member(&p, &end, "body");
    CHECK(has_body);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        out_text(o, ",\"");
        out_text(o, rows[i][0]);
        out_text(o, "\":");
        put_member(o, p, end, rows[i][0], rows[i][1]);
    }
    out_text(o, ",\"max_output_tokens\":");
    if (r->max_tokens < 0) out_text(o, "null");
    else out_int(o, r->max_tokens);
    put_number(o, ",\"temperature\":", r->sampling.temperature);
    put_number(o, ",\"top_p\":", r->sampling.top_p);
    put_objects(o, p, end);
    return out_failed(o) ? err_memory(e) : 0;
}
