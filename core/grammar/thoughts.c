/* thoughts.c: answers behind a part of reasoning, and choices as rules, where they stand behind
 * one.
 */
#include "core/grammar/free_text.h"
#include "core/grammar/grammar.h"
#include "core/grammar/notation.h"

#include <string.h>

int notation_choices(struct net *n, const char *text, size_t bytes, uint32_t *root, struct err *e)
{
    size_t i;
    json_t *one, *all = json_read(text, bytes, JSON_ALLOW_NUL, NULL, e);
    net_expr x = net_chars(n, NULL, 0);
    if (!all) return -1;
    *root = net_rule(n, "choices", 7);
    json_array_foreach (all, i, one)
        if (json_is_string(one))
            x = net_either(n, x, net_text(n, json_string_value(one), json_string_length(one)));
    net_define(n, *root, x);
    json_decref(all);
    return 0;
}

int notation_thoughts(struct net *n, const struct grammar_thoughts *t, uint32_t *root,
                      struct err *e)
{
    const char *const text[] = {t->begins, t->ends};
    const int is_token[] = {t->begins_is_token, t->ends_is_token};
    json_forget();
    json_t *special = json_array();
    for (int i = 0; i < 2; i++)
        if (is_token[i]) json_array_append_new(special, json_string(text[i]));
    size_t begin = strlen(t->begins), end = strlen(t->ends);
    net_expr x = net_sequence(n, free_text_without(n, t->ends, end, special),
                              free_text_fixed(n, t->ends, end, special));
    if (!t->is_inside) {
        x = net_sequence(n, free_text_fixed(n, t->begins, begin, special), x);
        x = net_sequence(n, free_text_space(n), x);
    }
    x = net_sequence(n, x, free_text_space(n));
    if (!t->is_inside) x = net_repeat(n, x, 0, 1);
    uint32_t answer = *root;
    *root = net_rule(n, "thoughts", 8);
    net_define(n, *root, net_sequence(n, x, net_call(n, answer)));
    json_decref(special);
    return json_check(e);
}
