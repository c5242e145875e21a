#include "core/text/chat_continue.h"

#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

/* With a space at its end: a template that trims messages shows it by taking that. */
static const char mark[] = "OPT4GPTQ_GOES_ON_HERE ";
enum { N_MARK = sizeof mark - 1 };

static json_t *with_mark(const json_t *text)
{
    size_t n = json_string_length(text);
    char *s = malloc(n + N_MARK);
    if (!s) return NULL;
    memcpy(mempcpy(s, json_string_value(text), n), mark, N_MARK);
    json_t *v = json_stringn(s, n + N_MARK);
    free(s);
    return v;
}

int chat_continue_mark(json_t *messages, json_t **text, struct err *e)
{
    json_t *last = json_array_get(messages, json_array_size(messages) - 1), *part = last,
           *content = json_object_get(last, "content");
    const char *key = "content";
    *text = NULL;
    json_forget();
    if (json_is_array(content)) { /* the last part that is text */
        if (!(content = json_deep_copy(content)) || json_object_set_new(last, "content", content))
            return err_memory(e);
        for (size_t i = json_array_size(content); i-- > 0 && part == last;)
            if (json_object_get(json_array_get(content, i), "text"))
                part = json_array_get(content, i);
        key = "text";
    }
    content = part == last && *key == 't' ? NULL : json_object_get(part, key);
    if (!json_is_string(content)) return err_set(e, "the last message has no text to go on with");
    *text = json_incref(content);
    return json_object_set_new(part, key, with_mark(content)) ? err_memory(e) : json_check(e);
}

static int is_space(char c) { return c && strchr(" \t\n\v\f\r", c); }

int chat_continue_cut(char *rendered, size_t *n, const json_t *text, struct err *e)
{
    const char *s = json_string_value(text);
    size_t length = json_string_length(text), at = *n;
    while (length && is_space(s[length - 1])) length--;
    while (length && is_space(*s)) s++, length--;
    if (*n < N_MARK - 1) at = 0;
    else
        for (at = *n - (N_MARK - 1) + 1; at > 0; at--)
            if (!memcmp(rendered + at - 1, mark, N_MARK - 1)) break;
    if (!at-- || (length && !memmem(rendered, *n, s, length)))
        return err_set(e, "the chat template leaves out the last message, or part of it");
    int keeps_space = at + N_MARK <= *n && rendered[at + N_MARK - 1] == ' ';
    *n = at;
    while (!keeps_space && *n && is_space(rendered[*n - 1])) --*n;
    rendered[*n] = 0;
    return 0;
}
