#include "core/grammar/json_text.h"
#include "core/grammar/schema.h"
#include "core/grammar/schema_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_UNIQUE = 64, MAX_WANTED = 4, MAX_STATES = 20000, MAX_WAYS = 60000 };

/* Items of few values, each at most once. */
static int unique_items(struct schema *s, json_t *flat, json_t *items, int min, int max,
                        net_expr *x)
{
    json_t *values = NULL, *one, *item;
    size_t i;
    if (schema_flatten(s->from, items, &item, s->e)) return -1;
    int rc = 0,
        is_served = json_object_get(item, "enum") && !json_object_get(flat, "prefixItems") &&
                    !json_object_get(flat, "contains") &&
                    !json_object_get(flat, "opt4gptq:counted") && min <= 1 && max == NET_NO_LIMIT;
    if (is_served) rc = schema_values(s, item, &values);
    json_decref(item);
    if (rc) return -1;
    if (!is_served || json_array_size(values) > MAX_UNIQUE) {
        json_decref(values);
        return schema_refuse(s, "uniqueItems", "is served for items of an enum alone");
    }
    net_expr first = NET_FAILED, next = NET_FAILED;
    json_array_foreach (values, i, one) {
        net_expr value = json_value_of(s->net, one), mark = net_mark(s->net, (int)i);
        first = or_else(s, first, then(s, mark, value));
        next = or_else(s, next, then(s, mark, then(s, comma(s), value)));
    }
    json_decref(values);
    net_expr all = first == NET_FAILED ? min ? net_chars(s->net, NULL, 0) : net_empty(s->net)
                                       : then(s, first, net_repeat(s->net, next, 0, NET_NO_LIMIT));
    all = then(s, all, ws(s));
    if (min == 0) all = net_repeat(s->net, all, 0, 1);
    *x = then(s, then(s, then(s, text(s, "["), ws(s)), all), text(s, "]"));
    return 0;
}

/* Arrays of which so many items are as a schema says, beside bounds of all items: a rule for each
 * number of items and of those that were as each of the schemas says, up to where more changes
 * nothing. */
struct counted {
    struct schema *s;
    json_t *prefix, *items;
    int min, max, last;     /* items; the last number that is told apart */
    json_t *of[MAX_WANTED]; /* the schemas */
    int low[MAX_WANTED], high[MAX_WANTED], top[MAX_WANTED]; /* of them, likewise */
    int n_wanted;
    uint32_t *state; /* rules */
    int n_states;
};

static int clash(struct schema *s, const char *what) { return schema_refuse(s, "contains", what); }

static int add_wanted(struct counted *c, json_t *of, int low, int high)
{
    if (high == NET_NO_LIMIT && low == 0) return 0;
    if (c->n_wanted == MAX_WANTED) return clash(c->s, "more than 4 for one array are not served");
    int i = c->n_wanted++;
    c->of[i] = of;
    c->low[i] = low;
    c->high[i] = high;
    c->top[i] = high == NET_NO_LIMIT ? low : high;
    return 0;
}

/* `contains` of the schema, those that merged schemas added, and those with bounds. */
static int read_wanted(struct counted *c, json_t *flat)
{
    json_t *own = json_object_get(flat, "contains"), *v;
    size_t i;
    if (own && add_wanted(c, own, 1, NET_NO_LIMIT)) return -1;
    json_array_foreach (json_object_get(flat, "opt4gptq:moreContains"), i, v)
        if (add_wanted(c, v, 1, NET_NO_LIMIT)) return -1;
    json_array_foreach (json_object_get(flat, "opt4gptq:counted"), i, v) {
        int low = 1, high = NET_NO_LIMIT;
        if (schema_length(c->s, v, "minContains", &low) ||
            schema_length(c->s, v, "maxContains", &high) ||
            add_wanted(c, json_object_get(v, "contains"), low, high))
            return -1;
    }
    return 0;
}

/* The schema of item AT which is as the CHOSEN ones say, and not as those others of which there
 * are to be no more than some. */
static json_t *item_schema(const struct counted *c, int at, unsigned chosen)
{
    json_t *own = json_array_get(c->prefix, (size_t)at), *all = json_array();
    json_array_append(all, own ? own : c->items);
    for (int i = 0; i < c->n_wanted; i++)
        if (chosen >> i & 1) json_array_append(all, c->of[i]);
        else if (c->high[i] != NET_NO_LIMIT)
            json_array_append_new(all, json_pack("{s:O}", "not", c->of[i]));
    return json_pack("{s:o}", "allOf", all);
}

/* The numbers of state I: items, and of each schema. */
static void numbers_of(const struct counted *c, int i, int *at, int n[MAX_WANTED])
{
    for (int k = 0; k < c->n_wanted; k++) {
        n[k] = i % (c->top[k] + 1);
        i /= c->top[k] + 1;
    }
    *at = i;
}

/* The state behind an item of state (AT, N), or -1: there may be no such item, or another one of
 * the same state says as much. */
static int state_behind(const struct counted *c, int at, const int n[MAX_WANTED], unsigned chosen)
{
    int i = 0;
    if (c->max != NET_NO_LIMIT && at == c->max) return -1;
    i = at < c->last ? at + 1 : at;
    for (int k = c->n_wanted - 1; k >= 0; k--) {
        int more = chosen >> k & 1;
        if (more && n[k] == c->top[k]) return -1;
        i = i * (c->top[k] + 1) + n[k] + more;
    }
    return i;
}

static int define_state(struct counted *c, int i)
{
    struct schema *s = c->s;
    int at, n[MAX_WANTED], may_end;
    net_expr x = NET_FAILED;
    numbers_of(c, i, &at, n);
    may_end = at >= c->min;
    for (int k = 0; k < c->n_wanted; k++) may_end &= n[k] >= c->low[k];
    if (may_end) x = at ? ws(s) : net_empty(s->net);
    for (unsigned chosen = 0; chosen < 1u << c->n_wanted; chosen++) {
        int next = state_behind(c, at, n, chosen);
        uint32_t rule;
        if (next < 0) continue;
        json_t *item = item_schema(c, at, chosen);
        int rc = schema_rule(s, item, "contains", &rule);
        json_decref(item);
        if (rc) return -1;
        net_expr way = then(s, net_call(s->net, rule), net_call(s->net, c->state[next]));
        x = or_else(s, x, at ? then(s, comma(s), way) : way);
    }
    net_define(s->net, c->state[i], x == NET_FAILED ? net_chars(s->net, NULL, 0) : x);
    return 0;
}

/* Numbers the states; refuses too many. */
static int count_states(struct counted *c)
{
    int prefix = (int)json_array_size(c->prefix);
    long long n;
    c->last = c->max != NET_NO_LIMIT ? c->max : c->min > prefix ? c->min : prefix;
    if (c->last == 0) c->last = 1; /* behind the first item stands a comma */
    n = c->last + 1;
    for (int i = 0; i < c->n_wanted && n <= MAX_STATES; i++) n *= c->top[i] + 1;
    if (n > MAX_STATES || (n << c->n_wanted) > MAX_WAYS)
        return clash(c->s, "so many, beside such bounds of items, are not served");
    c->n_states = (int)n;
    return 0;
}

static int counted(struct schema *s, json_t *flat, int min, int max, net_expr *x)
{
    json_t *items = json_object_get(flat, "items");
    struct counted c = {.s = s,
                        .prefix = json_object_get(flat, "prefixItems"),
                        .items = items ? items : json_true(),
                        .min = min,
                        .max = max};
    int rc = read_wanted(&c, flat) || count_states(&c) ? -1 : 0;
    if (rc) return -1;
    if (!(c.state = calloc((size_t)c.n_states, sizeof *c.state))) return err_memory(s->e);
    for (int i = 0; i < c.n_states; i++) c.state[i] = net_rule(s->net, "items", 5);
    for (int i = 0; i < c.n_states && !rc; i++) rc = define_state(&c, i);
    if (!rc) {
        *x = then(s, then(s, text(s, "["), ws(s)), net_call(s->net, c.state[0]));
        *x = then(s, *x, text(s, "]"));
    }
    free(c.state);
    return rc;
}

int schema_array(struct schema *s, json_t *flat, net_expr *x)
{
    json_t *prefix = json_object_get(flat, "prefixItems"), *items = json_object_get(flat, "items"),
           *one;
    int min = 0, max = NET_NO_LIMIT, n = 0;
    uint32_t rule, rest_rule = net_named(s->net, "value");
    size_t i;
    if (schema_length(s, flat, "minItems", &min) || schema_length(s, flat, "maxItems", &max))
        return -1;
    if (max != NET_NO_LIMIT && max < min) return *x = net_chars(s->net, NULL, 0), 0;
    if (json_is_true(json_object_get(flat, "uniqueItems")) && max != 0 && max != 1)
        return unique_items(s, flat, items ? items : json_true(), min, max, x);
    if (json_object_get(flat, "contains") || json_object_get(flat, "opt4gptq:counted"))
        return counted(s, flat, min, max, x);
    if (items && schema_rule(s, items, "items", &rest_rule)) return -1;
    net_expr rest = net_call(s->net, rest_rule), tail, body;
    n = (int)json_array_size(prefix);
    int more = min > n ? min - n : 0, most = max == NET_NO_LIMIT ? NET_NO_LIMIT
                                             : max > n           ? max - n
                                                                 : 0;
    if (n == 0) {
        if (most == 0) body = net_empty(s->net);
        else {
            tail = net_repeat(s->net, then(s, comma(s), rest), more ? more - 1 : 0,
                              most == NET_NO_LIMIT ? most : most - 1);
            tail = then(s, tail, ws(s));
            body = net_repeat(s->net, then(s, rest, tail), more ? 1 : 0, 1);
        }
    } else {
        net_expr *item = calloc((size_t)n, sizeof *item);
        if (!item) return err_memory(s->e);
        json_array_foreach (prefix, i, one) {
            char name[32];
            snprintf(name, sizeof name, "items/%zu", i);
            if (schema_rule(s, one, name, &rule)) {
                free(item);
                return -1;
            }
            item[i] = net_call(s->net, rule);
        }
        body = then(s, net_repeat(s->net, then(s, comma(s), rest), more, most), ws(s));
        for (int k = n - 1; k >= 0; k--) {
            if (max != NET_NO_LIMIT && k >= max) {
                body = k ? ws(s) : net_empty(s->net);
                continue;
            }
            body = then(s, k ? then(s, comma(s), item[k]) : item[k], body);
            if (k >= min)
                body = k ? net_either(s->net, body, ws(s)) : net_repeat(s->net, body, 0, 1);
        }
        free(item);
    }
    *x = then(s, then(s, then(s, text(s, "["), ws(s)), body), text(s, "]"));
    return 0;
}
