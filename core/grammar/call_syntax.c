#include "core/grammar/call_syntax.h"

#include <string.h>

#define OBJECT(arguments) .body = CALL_JSON, .name_key = "name", .arguments_key = arguments
#define DEEPSEEK(between_calls)                                                                    \
    .begin = "<｜tool▁calls▁begin｜>", .end = "<｜tool▁calls▁end｜>", .between = between_calls,    \
    .body = CALL_NAMED
#define GLM(name_ends, key_ends, value_ends)                                                       \
    .call = "<tool_call>", .body = CALL_MEMBERS, .name_end = name_ends, .key = "<arg_key>",        \
    .key_end = key_ends, .value_end = value_ends, .call_end = "</tool_call>"

/* The first row that fits is taken. */
static const struct call_syntax table[] = {
    {.name = "seed_oss",
     .signs = {"<seed:tool_call>", "<function=", "<parameter="},
     .call = "<seed:tool_call>\n<function=",
     .body = CALL_MEMBERS,
     .name_end = ">\n",
     .key = "<parameter=",
     .key_end = ">",
     .value_end = "</parameter>\n",
     .call_end = "</function>\n</seed:tool_call>",
     .between = "\n"},
    {.name = "minimax_m2",
     .aliases = "minimax_m2_1 minimax_m2_5 ",
     .signs = {"<minimax:tool_call>", "<invoke name="},
     .begin = "<minimax:tool_call>\n",
     .end = "</minimax:tool_call>",
     .call = "<invoke name=\"",
     .body = CALL_MEMBERS,
     .name_end = "\">\n",
     .key = "<parameter name=\"",
     .key_end = "\">",
     .value_end = "</parameter>\n",
     .call_end = "</invoke>\n"},
    {.name = "kimi_k2",
     .signs = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
               "<|tool_call_argument_begin|>"},
     .begin = "<|tool_calls_section_begin|>",
     .end = "<|tool_calls_section_end|>",
     .call = "<|tool_call_begin|>functions.",
     .body = CALL_NAMED,
     .index = ":",
     .name_end = "<|tool_call_argument_begin|>",
     .call_end = "<|tool_call_end|>"},
    {.name = "openai",
     .aliases = "gpt_oss ",
     .signs = {"<|channel|>commentary", "<|call|>"},
     .maybe = "<|start|>assistant",
     .call = "<|channel|>commentary to=functions.",
     .body = CALL_NAMED,
     .name_end = " <|constrain|>json<|message|>",
     .is_single = 1},
    {.name = "internlm",
     .signs = {"<|action_start|>", "<|plugin|>"},
     .call = "<|action_start|><|plugin|>\n",
     .call_end = "<|action_end|>",
     .between = "\n",
     OBJECT("parameters")},
    {.name = "hunyuan_a13b",
     .aliases = "jamba ",
     .signs = {"<tool_calls>", "</tool_calls>"},
     .begin = "<tool_calls>[",
     .end = "]\n</tool_calls>",
     .between = ", ",
     OBJECT("arguments")},
    {.name = "phi4_mini_json",
     .signs = {"<|tool|>", "<|/tool|>"},
     .begin = "functools[",
     .end = "]",
     .between = ", ",
     OBJECT("arguments")},
    {.name = "qwen3_coder",
     .aliases = "qwen3_xml ",
     .signs = {"<function=", "<parameter="},
     .call = "<tool_call>\n<function=",
     .body = CALL_MEMBERS,
     .name_end = ">\n",
     .key = "<parameter=",
     .key_end = ">\n",
     .value_end = "\n</parameter>\n",
     .call_end = "</function>\n</tool_call>",
     .between = "\n"},
    {.name = "glm45",
     .aliases = "glm46 glm4_moe ",
     .signs = {"<arg_key>", "</arg_key>\n<arg_value>"},
     GLM("\n", "</arg_key>\n<arg_value>", "</arg_value>\n"),
     .between = "\n"},
    {.name = "glm47",
     .signs = {"<arg_key>", "<arg_value>"},
     GLM("", "</arg_key><arg_value>", "</arg_value>")},
    {.name = "deepseek_v3",
     .aliases = "deepseek_r1 ",
     .signs = {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "```json"},
     DEEPSEEK("\n"),
     .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .name_end = "\n```json\n",
     .call_end = "\n```<｜tool▁call▁end｜>"},
    {.name = "deepseek_v31",
     .aliases = "deepseek_v32 ",
     .signs = {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
     DEEPSEEK(""),
     .call = "<｜tool▁call▁begin｜>",
     .name_end = "<｜tool▁sep｜>",
     .call_end = "<｜tool▁call▁end｜>"},
    {.name = "mistral",
     .signs = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     .call = "[TOOL_CALLS]",
     .body = CALL_NAMED,
     .call_id = "[CALL_ID]",
     .name_end = "[ARGS]",
     .short_ids = 1},
    {.name = "mistral",
     .signs = {"[TOOL_CALLS]", "[ARGS]"},
     .call = "[TOOL_CALLS]",
     .body = CALL_NAMED,
     .name_end = "[ARGS]",
     .short_ids = 1},
    {.name = "mistral",
     .signs = {"[TOOL_CALLS]["},
     .begin = "[TOOL_CALLS][",
     .end = "]",
     .between = ", ",
     OBJECT("arguments"),
     .short_ids = 1},
    {.name = "mistral",
     .signs = {"[TOOL_CALLS]"},
     .begin = "[TOOL_CALLS] [",
     .end = "]",
     .between = ", ",
     OBJECT("arguments"),
     .short_ids = 1},
    {.name = "granite",
     .signs = {"<|tool_call|>"},
     .begin = "<|tool_call|>[",
     .end = "]",
     .between = ", ",
     OBJECT("arguments")},
    {.name = "hermes",
     .signs = {"<tool_call>", "</tool_call>"},
     .call = "<tool_call>\n",
     .call_end = "\n</tool_call>",
     .between = "\n",
     OBJECT("arguments")},
    {.name = "llama3_json",
     .aliases = "llama4_json ",
     .signs = {"<|python_tag|>", "\"parameters\""},
     .maybe = "<|python_tag|>",
     .between = "; ",
     OBJECT("parameters"),
     .is_single = 1},
    {.name = "pythonic",
     .aliases = "llama4_pythonic ",
     .signs = {"[func_name1("},
     .maybe = "<|python_start|>",
     .begin = "[",
     .end = "]",
     .between = ", ",
     .body = CALL_PYTHON},
    {.name = "json", .begin = "[", .end = "]", .between = ", ", OBJECT("parameters")},
};
enum { N_ROWS = sizeof table / sizeof *table };

static int has_name(const struct call_syntax *s, const char *name)
{
    size_t n = strlen(name);
    if (!strcmp(s->name, name)) return 1;
    for (const char *at = s->aliases; n && at && (at = strstr(at, name)); at += n)
        if (at[n] == ' ' && (at == s->aliases || at[-1] == ' ')) return 1;
    return 0;
}

int call_syntax_is_name(const char *name)
{
    for (int i = 0; i < N_ROWS; i++)
        if (has_name(&table[i], name)) return 1;
    return 0;
}

static int fits(const struct call_syntax *s, const char *source, size_t n)
{
    for (int i = 0; i < 3 && s->signs[i]; i++)
        if (!memmem(source, n, s->signs[i], strlen(s->signs[i]))) return 0;
    return s->signs[0] != NULL;
}

const struct call_syntax *call_syntax_find(const char *source, size_t n, const char *name)
{
    const struct call_syntax *first = NULL;
    for (int i = 0; i < N_ROWS; i++) {
        if (name && !has_name(&table[i], name)) continue;
        if (source && fits(&table[i], source, n)) return &table[i];
        if (name && !first) first = &table[i];
    }
    return first;
}

const struct call_syntax *call_syntax_plain(void) { return &table[N_ROWS - 1]; }

const struct call_syntax *call_syntax_row(long long row)
{
    return row >= 0 && row < N_ROWS ? &table[row] : NULL;
}

int call_syntax_number(const struct call_syntax *s) { return (int)(s - table); }

const char *call_syntax_opening(const struct call_syntax *s, size_t *n)
{
    const char *text = s->begin ? s->begin : s->call ? s->call : "";
    *n = !s->signs[0] ? 0 : s->maybe ? strlen(text) : strcspn(text, " \n");
    return text;
}

int call_syntax_takes_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || strchr("<>[]{}\"\xff\x7f", name[i])) return 0;
    return n > 0;
}

void call_syntax_texts(const struct call_syntax *s, const char *texts[CALL_SYNTAX_TEXTS])
{
    const char *const all[CALL_SYNTAX_TEXTS] = {s->maybe,    s->begin,   s->end,      s->call,
                                                s->call_end, s->between, s->call_id,  s->name_end,
                                                s->key,      s->key_end, s->value_end};
    for (int i = 0; i < CALL_SYNTAX_TEXTS; i++) texts[i] = all[i] ? all[i] : "";
}
