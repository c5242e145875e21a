#include "cli/modes/batch/record_tools.h"

#include "cli/modes/batch/record.h"
#include "core/base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int
refuse_tools(struct refusal *why, const char *field, const char *fmt, ...)
{
    char place[64];
    va_list values;
    snprintf(place, sizeof place, "%s: ", field);
    va_start(values, fmt);
    refuse_at(why, field, place, fmt, values);
    va_end(values);
    return 1;
}

static int is_absent(const json_t *v) { return !v || json_is_null(v); }

/* One of tools into the list. SEEN: the names of those in front of it with their numbers. */
static int add_tool(struct record_tools *t, json_t *seen, const json_t *tool, size_t i,
                    struct refusal *why)
{
    const json_t *type = json_object_get(tool, "type"), *f = json_object_get(tool, "function");
    json_t *name = json_object_get(f, "name"), *parameters = json_object_get(f, "parameters"),
           *strict = json_object_get(f, "strict"), *other, *own;
    if (!json_is_object(tool)) return refuse_tools(why, "tools", "%zu is not an object", i);
    if (!json_is_string(type) || strcmp(json_string_value(type), "function"))
        return refuse_tools(why, "tools", "the type of %zu is not \"function\"", i);
    if (!json_is_object(f)) return refuse_tools(why, "tools", "%zu has no function", i);
    if (!json_string_length(name) || strlen(json_string_value(name)) != json_string_length(name))
        return refuse_tools(why, "tools", "function.name of %zu is missing or no text", i);
    if (!is_absent(parameters) && !json_is_object(parameters) && !json_is_boolean(parameters))
        return refuse_tools(why, "tools",
                            "function.parameters of %zu are not a JSON schema: an object", i);
    if (!is_absent(strict) && !json_is_boolean(strict))
        return refuse_tools(why, "tools", "function.strict of %zu is not true or false", i);
    if ((other = json_object_get(seen, json_string_value(name))))
        return refuse_tools(why, "tools", "%lld and %zu have the same name",
                            (long long)json_integer_value(other), i);
    json_object_set_new(seen, json_string_value(name), json_integer((json_int_t)i));
    json_array_append_new(t->list, own = json_object());
    json_object_set(own, "name", name);
    if (json_is_true(strict)) t->is_strict = 1;
    if (is_absent(parameters)) return 0;
    json_object_set(own, "parameters", parameters);
    if (!json_is_true(strict)) json_object_set_new(own, "free", json_true());
    return 0;
}

static int read_list(struct record_tools *t, const json_t *tools, struct refusal *why)
{
    json_t *tool, *seen = json_object();
    size_t i;
    int rc = 0;
    t->list = json_array();
    json_array_foreach ((json_t *)(uintptr_t)tools, i, tool)
        if ((rc = add_tool(t, seen, tool, i, why))) break;
    json_decref(seen);
    return rc;
}

/* Leaves the named function alone in the list. */
static int choose(struct record_tools *t, const json_t *v, struct refusal *why)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    json_t *name = json_object_get(json_object_get(v, "function"), "name"), *tool = NULL;
    size_t i;
    if (!type || strcmp(type, "function") || !json_is_string(name))
        return refuse_tools(why, "tool_choice",
                            "must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
                            "\"function\": {\"name\": ..}}");
    json_array_foreach (t->list, i, tool)
        if (json_equal(json_object_get(tool, "name"), name)) break;
    if (i == json_array_size(t->list))
        return refuse_tools(why, "tool_choice", "'%.60s' is none of the tools",
                            json_string_value(name));
    json_t *alone = json_array();
    json_array_append(alone, tool);
    json_decref(t->list);
    t->list = alone;
    t->is_single = 1;
    return 0;
}

/* 1: V, an object of a type of its own, names a function; *name. */
static int names_function(const json_t *v, json_t **name)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    *name = json_object_get(json_object_get(v, "function"), "name");
    return type && !strcmp(type, "function") && json_is_string(*name);
}

/* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}: leaves these functions in the
 * list, and sees to it by a grammar that no other is called. */
static int allow(struct record_tools *t, const json_t *choice, struct refusal *why)
{
    const json_t *v = json_object_get(choice, "allowed_tools");
    const char *mode = json_string_value(json_object_get(v, "mode"));
    json_t *tools = json_object_get(v, "tools"), *tool, *name, *list = json_array();
    json_t *names = json_object(); /* of those that are allowed */
    size_t i;
    int rc = 0;
    if (!mode || (strcmp(mode, "auto") && strcmp(mode, "required")))
        rc = refuse_tools(why, "tool_choice",
                          "allowed_tools.mode must be \"auto\" or \"required\"");
    else if (!json_is_array(tools) || !json_array_size(tools))
        rc = refuse_tools(why, "tool_choice", "allowed_tools.tools must be an array of functions");
    else t->choice = strcmp(mode, "auto") ? TOOLS_REQUIRED : TOOLS_AUTO;
    json_array_foreach (tools, i, tool)
        if (names_function(tool, &name)) json_object_set(names, json_string_value(name), name);
    json_array_foreach (t->list, i, tool) { /* a zero byte ends a key, but not an allowed name */
        name = json_object_get(tool, "name");
        if (json_equal(json_object_get(names, json_string_value(name)), name))
            json_array_append(list, tool);
    }
    json_decref(names);
    if (!rc && json_array_size(list) != json_array_size(tools))
        rc = refuse_tools(
            why, "tool_choice",
            "allowed_tools.tools has something that is none of the tools, or one twice");
    json_decref(t->list);
    t->list = list;
    t->is_strict = 1;
    return rc;
}

/* Every call has to have the arguments of its schema. */
static void bind(struct record_tools *t)
{
    json_t *tool;
    size_t i;
    json_array_foreach (t->list, i, tool) json_object_del(tool, "free");
    t->is_strict = 1;
}

int record_read_tools(struct record *r, const json_t *body, struct refusal *why, struct err *e)
{
    struct record_tools *t = &r->calls;
    const json_t *choice = json_object_get(body, "tool_choice"),
                 *parallel = json_object_get(body, "parallel_tool_calls"),
                 *reasoning = json_object_get(body, "include_reasoning");
    const char *word = json_string_value(choice);
    t->choice = r->tools ? TOOLS_AUTO : TOOLS_NONE;
    t->hides_reasoning = json_is_false(reasoning);
    if (word && !strcmp(word, "none")) t->choice = TOOLS_NONE;
    else if (word && !strcmp(word, "required")) t->choice = TOOLS_REQUIRED;
    else if (json_is_object(choice)) t->choice = TOOLS_NAMED;
    else if (!is_absent(choice) && (!word || strcmp(word, "auto")))
        return refuse(
            why, "tool_choice",
            "must be \"none\", \"auto\", \"required\" or an object that names a function");
    if (t->choice == TOOLS_NONE) return 0;
    if (!r->tools) return refuse_tools(why, "tool_choice", "needs tools");
    if (!is_absent(parallel) && !json_is_boolean(parallel))
        return refuse_tools(why, "parallel_tool_calls", "must be true or false");
    t->is_single = json_is_false(parallel);
    if (read_list(t, r->tools, why)) return 1;
    word = json_string_value(json_object_get(choice, "type"));
    int is_allowed = word && !strcmp(word, "allowed_tools");
    if (is_allowed && allow(t, choice, why)) return json_check(e) ? -1 : 1;
    if (t->choice == TOOLS_NAMED && choose(t, choice, why)) return 1;
    if (t->choice != TOOLS_AUTO) bind(t);
    return json_check(e);
}
