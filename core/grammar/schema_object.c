#include "core/grammar/json_text.h"
#include "core/grammar/schema.h"
#include "core/grammar/schema_merge.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 64, MAX_SOME = 3, MAX_PATTERNS = 4, MAX_NAME = 4096 };

/* The members of one object. */
struct members {
    struct schema *s;
    int n; /* that the schema names */
    const char **name;
    json_t *index;    /* name -> its number */
    net_expr *member; /* name, colon and value */
    uint32_t *rule;   /* of the value */
    char *is_required;
    json_t *final;     /* names of which the schema says all, patterns included; or NULL */
    json_t *all_names; /* patterns that find something in every name, or NULL */
    net_expr other;    /* a member that it does not name; NET_FAILED: none */
    uint32_t other_rule; /* it, where it is not NET_FAILED */
    /* such a member, and its rule, for each choice of what "opt4gptq:some" asks for [n_some] */
    net_expr some[1 << MAX_SOME];
    uint32_t some_rule[1 << MAX_SOME];
    int n_some;
};

/* A member of a key and a value. */
static net_expr member_of(struct schema *s, net_expr key, uint32_t rule)
{
    net_expr x = then(s, key, net_call(s->net, net_named(s->net, "colon")));
    return then(s, x, net_call(s->net, rule));
}

static int is_in(const struct members *m, const char *name)
{
    json_t *at = json_object_get(m->index, name);
    return at ? (int)json_integer_value(at) : -1;
}

/* A member of a name: the schema of the name, and of each pattern that finds something in it; none
 * where a pattern of all names (m->all_names) does not. */
static int add(struct members *m, const char *name, json_t *schema, json_t *patterns)
{
    int i = m->n, rc = 0;
    json_t *all = json_array(), *v;
    const char *pattern;
    size_t k;
    m->name[i] = name;
    if (strlen(name) > MAX_NAME)
        rc = schema_refuse(m->s, "properties", "a name of more than 4,096 bytes is not served");
    json_array_append(all, schema);
    json_array_foreach (m->all_names, k, v) {
        int finds = rc || json_is_false(v) ? -rc
                                           : schema_finds(json_string_value(v), name, m->s->e);
        if (finds < 0) rc = -1;
        if (!finds) json_array_append_new(all, json_false());
    }
    int is_final = schema_lists(m->final, name);
    json_object_foreach (patterns, pattern, v) {
        int finds = rc || is_final ? 0 : schema_finds(pattern, name, m->s->e);
        if (finds < 0) rc = -1;
        if (finds > 0) json_array_append(all, v);
    }
    json_t *both = json_array_size(all) > 1 ? json_pack("{s:O}", "allOf", all)
                                            : json_incref(schema);
    if (!rc) rc = schema_rule(m->s, both, name, &m->rule[i]);
    json_decref(both);
    json_decref(all);
    if (rc) return -1;
    m->member[i] = member_of(m->s, json_text_of(m->s->net, name, strlen(name)), m->rule[i]);
    json_object_set_new(m->index, name, json_integer(m->n++));
    return 0;
}

/* What is said of a name by CHOSEN patterns, all of them together. */
static json_t *of_patterns(json_t *patterns, unsigned chosen)
{
    json_t *all = json_array(), *v;
    const char *pattern;
    int i = 0;
    json_object_foreach (patterns, pattern, v)
        if (chosen >> i++ & 1) json_array_append(all, v);
    return json_pack("{s:o}", "allOf", all);
}

/* Patterns of names, each with what has to be: bits YES find something, all others do not. */
struct naming {
    json_t *patterns; /* pattern -> anything */
    unsigned yes, no; /* bits that have to be, and must not be */
};

static int bit_of(struct naming *w, const char *pattern)
{
    int i = 0;
    const char *p;
    json_t *v;
    json_object_foreach (w->patterns, p, v) {
        if (!strcmp(p, pattern)) return i;
        i++;
    }
    json_object_set_new(w->patterns, pattern, json_true());
    return i;
}

static void add_patterns(struct naming *w, json_t *list, int is_yes)
{
    json_t *v;
    size_t i;
    json_array_foreach (list, i, v) {
        if (json_is_false(v)) { /* of no name: to be, and not to be */
            w->yes = w->no = 1;
            return;
        }
        unsigned bit = 1u << bit_of(w, json_string_value(v));
        if (is_yes) w->yes |= bit;
        else w->no |= bit;
    }
}

/* Members of names that are none of NAMES: for each choice of the schema's own patterns, the N_OWN
 * first ones of W, what they say of the value, and MORE. */
static int members_of(struct members *m, json_t *flat, const struct naming *w, unsigned n_own,
                      json_t *names, json_t *more, net_expr *x)
{
    struct schema *s = m->s;
    json_t *other = json_object_get(flat, "additionalProperties"),
           *own = json_object_get(flat, "patternProperties");
    unsigned n = (unsigned)json_object_size(w->patterns), all = (1u << n) - 1;
    int rc = 0;
    *x = NET_FAILED;
    if (n > MAX_PATTERNS)
        return schema_refuse(s, "patternProperties", "more than 4 are not served");
    if (w->yes & w->no) return 0;
    for (unsigned chosen = 0; chosen <= all && !rc; chosen++) {
        net_expr key;
        uint32_t rule;
        unsigned of_own = chosen & ((1u << n_own) - 1);
        if ((chosen & w->yes) != w->yes || chosen & w->no) continue;
        if (!of_own && json_is_false(other)) continue;
        json_t *schema = of_own  ? of_patterns(own, of_own)
                         : other ? json_incref(other)
                                 : json_true(),
               *both = more ? json_pack("{s:[O, O]}", "allOf", schema, more) : json_incref(schema);
        rc = schema_keys(s, w->patterns, chosen, names, &key) ||
             schema_rule(s, both, "additionalProperties", &rule);
        json_decref(schema);
        json_decref(both);
        if (rc) break;
        key = then(s, then(s, text(s, "\""), key), text(s, "\""));
        *x = or_else(s, *x, member_of(s, key, rule));
    }
    return rc ? -1 : 0;
}

static json_t *known_names(const struct members *m)
{
    json_t *names = json_array();
    for (int i = 0; i < m->n; i++) json_array_append_new(names, json_string(m->name[i]));
    return names;
}

/* A member that the CHOSEN ones of "opt4gptq:some" ask for, of a name that the schema does not
 * name. */
static int find_some(struct members *m, json_t *flat, const struct naming *own, unsigned chosen)
{
    struct naming w = {json_copy(own->patterns), own->yes, own->no};
    unsigned n_own = (unsigned)json_object_size(json_object_get(flat, "patternProperties"));
    json_t *names = known_names(m), *some, *values = json_array(), *both;
    struct net *n = m->s->net;
    net_expr x;
    size_t i;
    json_array_foreach (json_object_get(flat, "opt4gptq:some"), i, some) {
        if (!(chosen >> i & 1)) continue;
        json_array_extend(names, json_object_get(some, "names"));
        add_patterns(&w, json_object_get(some, "yes"), 1);
        add_patterns(&w, json_object_get(some, "no"), 0);
        json_array_append(values, json_object_get(some, "value"));
    }
    both = json_pack("{s:o}", "allOf", values);
    int rc = members_of(m, flat, &w, n_own, names, both, &x);
    if (!rc) {
        m->some_rule[chosen] = net_rule(n, "some", 4);
        net_define(n, m->some_rule[chosen], x == NET_FAILED ? net_chars(n, NULL, 0) : x);
        m->some[chosen] = net_call(n, m->some_rule[chosen]);
    }
    json_decref(both);
    json_decref(w.patterns);
    json_decref(names);
    return rc;
}

/* Members that the schema does not name. */
static int other_members(struct members *m, json_t *flat, struct naming *own)
{
    struct schema *s = m->s;
    json_t *other = json_object_get(flat, "additionalProperties");
    unsigned n_own = (unsigned)json_object_size(json_object_get(flat, "patternProperties"));
    m->other = NET_FAILED;
    m->n_some = (int)json_array_size(json_object_get(flat, "opt4gptq:some"));
    if (m->n_some > MAX_SOME)
        return schema_refuse(s, "not", "of more than 3 of these members is not served");
    for (unsigned chosen = 1; chosen < 1u << m->n_some; chosen++)
        if (find_some(m, flat, own, chosen)) return -1;
    if (json_object_size(own->patterns) || own->yes) {
        json_t *names = known_names(m);
        int rc = members_of(m, flat, own, n_own, names, NULL, &m->other);
        json_decref(names);
        return rc;
    }
    if (json_is_false(other)) return 0;
    net_expr key;
    uint32_t rule = net_named(s->net, "value");
    if (other && schema_rule(s, other, "additionalProperties", &rule)) return -1;
    key = m->n ? json_other_text(s->net, m->name, m->n, s->e)
               : net_call(s->net, net_named(s->net, "string"));
    if (key == NET_FAILED) return -1;
    m->other = member_of(s, key, rule);
    return 0;
}

/* The same as a rule, so that it is known whether there can be any. */
static int find_other(struct members *m, json_t *flat, struct naming *own)
{
    struct net *n = m->s->net;
    if (other_members(m, flat, own)) return -1;
    if (m->other == NET_FAILED) return 0;
    m->other_rule = net_rule(n, "other", 5);
    net_define(n, m->other_rule, m->other);
    m->other = net_call(n, m->other_rule);
    return 0;
}

/* How many members there may be. */
struct bounds {
    int min, max; /* NET_NO_LIMIT */
};

/* Members in any order: a flag for each that the schema names, so that it comes once (of more than
 * 64, those behind may come twice), and those that are required are there in the end. A flag is set
 * in front of the comma: what follows it exists. */
struct any_order {
    struct members *m;
    net_expr first, next; /* a member, and one behind a comma */
    uint64_t test;
    int n_flags;
};

static net_expr mark_of(struct schema *s, int flag)
{
    return flag < MAX_FLAGS ? net_mark(s->net, flag) : net_empty(s->net);
}

static void add_member(struct any_order *o, net_expr mark, net_expr member)
{
    struct schema *s = o->m->s;
    o->first = or_else(s, o->first, then(s, mark, member));
    o->next = or_else(s, o->next, then(s, mark, then(s, comma(s), member)));
}

/* Those that must be there have the first flags. */
static int add_all_required(struct any_order *o)
{
    struct members *m = o->m;
    int n = m->n_some;
    for (int i = 0; i < m->n; i++) n += m->is_required[i];
    if (n > MAX_FLAGS)
        return schema_refuse(m->s, "required",
                             "more than 64 are served in the order of the schema "
                             "only (without --any-order)");
    for (int i = 0; i < m->n; i++)
        if (m->is_required[i]) add_member(o, mark_of(m->s, o->n_flags++), m->member[i]);
    for (unsigned chosen = 1; chosen < 1u << m->n_some; chosen++) {
        net_expr marks = net_empty(m->s->net);
        for (int i = 0; i < m->n_some; i++)
            if (chosen >> i & 1) marks = then(m->s, marks, mark_of(m->s, o->n_flags + i));
        add_member(o, marks, m->some[chosen]);
    }
    o->n_flags += m->n_some;
    o->test = n == MAX_FLAGS ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    return 0;
}

/* Members that need not be there, MOST of them: the first takes the first of so many further flags,
 * and so on; with what is required all flags count a member each. All of a member's flags are set
 * in front of its comma: one that no flag is left for, or that no text is, begins with none. */
static int add_counted(struct any_order *o, int most)
{
    struct members *m = o->m;
    struct schema *s = m->s;
    int first = o->n_flags + m->n; /* behind those that members have */
    net_expr any = m->other, next = any;
    if (first + most > MAX_FLAGS)
        return schema_refuse(s, "maxProperties", "of so many is not served");
    if (next != NET_FAILED) next = then(s, comma(s), next);
    for (int i = 0, flag = o->n_flags; i < m->n; i++) {
        if (m->is_required[i]) continue;
        net_expr mark = net_mark(s->net, flag++);
        any = or_else(s, any, then(s, mark, m->member[i]));
        next = or_else(s, next, then(s, mark, then(s, comma(s), m->member[i])));
    }
    if (any == NET_FAILED) return 0;
    for (int i = 0; i < most; i++) {
        uint64_t before = i ? (((uint64_t)1 << i) - 1) << first : 0;
        net_expr count = then(s, net_test(s->net, before), net_mark(s->net, first + i));
        o->first = or_else(s, o->first, then(s, count, any));
        o->next = or_else(s, o->next, then(s, count, next));
    }
    return 0;
}

/* Nothing, where so many members can be there beyond those that are required: any number of those
 * that the schema does not name, each other one once. */
static net_expr enough(struct members *m, int min, int n_required)
{
    struct schema *s = m->s;
    uint32_t *rules = calloc((size_t)m->n + 1, sizeof *rules);
    int n = 0;
    if (!rules) return NET_FAILED;
    for (int i = 0; i < m->n; i++)
        if (!m->is_required[i]) rules[n++] = m->rule[i];
    net_expr x = net_need_some(s->net, rules, n, min - n_required);
    free(rules);
    return m->other == NET_FAILED ? x : net_either(s->net, x, net_need(s->net, m->other_rule));
}

static int any_order(struct members *m, const struct bounds *b, net_expr *x)
{
    struct schema *s = m->s;
    struct any_order o = {.m = m, .first = NET_FAILED, .next = NET_FAILED};
    if (add_all_required(&o)) return -1;
    const int n_required = o.n_flags, min = b->min;
    if (b->max != NET_NO_LIMIT) {
        if (m->n_some || b->max < n_required) {
            if (m->n_some) return schema_refuse(s, "maxProperties", "beside this is not served");
            return *x = net_chars(s->net, NULL, 0), 0;
        }
        if (add_counted(&o, b->max - n_required)) return -1;
    } else {
        if (m->other != NET_FAILED) {
            o.first = or_else(s, o.first, m->other);
            o.next = or_else(s, o.next, then(s, comma(s), m->other));
        }
        for (int i = 0; i < m->n; i++)
            if (!m->is_required[i]) add_member(&o, mark_of(s, o.n_flags++), m->member[i]);
    }
    if (o.first == NET_FAILED) {
        *x = min ? net_chars(s->net, NULL, 0) : net_empty(s->net);
        return 0;
    }
    *x = then(s, o.first, net_repeat(s->net, o.next, min > 1 ? min - 1 : 0, NET_NO_LIMIT));
    net_expr test = net_test(s->net, o.test);
    *x = then(s, *x, then(s, test, ws(s))); /* behind white space nothing sets flags any more */
    if (!min) *x = net_either(s->net, *x, test);
    for (int i = 0; i < m->n; i++)
        if (m->is_required[i]) *x = then(s, net_need(s->net, m->rule[i]), *x);
    if (min > n_required - m->n_some) {
        net_expr all = enough(m, min, n_required - m->n_some);
        if (all == NET_FAILED) return net_error(s->net, s->e), err_memory(s->e);
        *x = then(s, all, *x);
    }
    for (int i = 0; i < m->n_some; i++) *x = then(s, net_need(s->net, m->some_rule[1 << i]), *x);
    return 0;
}

/* The keyword that the schema's order does not serve, or NULL. */
static const char *unordered(const struct members *m, const struct bounds *b)
{
    if (m->n_some) return "not";
    if (b->min > 1) return "minProperties";
    if (b->max != NET_NO_LIMIT && (m->other != NET_FAILED || b->max < m->n)) return "maxProperties";
    return NULL;
}

/* Members in the order of the schema, others behind them: rules of what comes from a member on,
 * behind a comma or not. */
static int in_order(struct members *m, const struct bounds *b, net_expr *x)
{
    struct schema *s = m->s;
    const int min = b->min;
    net_expr others = ws(s), first = net_empty(s->net);
    uint32_t alone, behind;
    const char *keyword = unordered(m, b);
    if (keyword) return schema_refuse(s, keyword, "is not served in the schema's order");
    if (m->other != NET_FAILED) {
        others = net_repeat(s->net, then(s, comma(s), m->other), 0, NET_NO_LIMIT);
        others = then(s, others, ws(s));
        first = then(s, m->other, others);
        if (!min) first = net_repeat(s->net, first, 0, 1);
    } else if (min) {
        first = net_chars(s->net, NULL, 0);
    }
    for (int i = m->n - 1; i >= 0; i--) {
        behind = net_rule(s->net, m->name[i], strlen(m->name[i]));
        net_define(s->net, behind, others);
        alone = net_rule(s->net, m->name[i], strlen(m->name[i]));
        net_define(s->net, alone, first);
        net_expr with = then(s, m->member[i], net_call(s->net, behind)),
                 more = then(s, comma(s), with);
        first = m->is_required[i] ? with : net_either(s->net, with, net_call(s->net, alone));
        others = m->is_required[i] ? more : net_either(s->net, more, net_call(s->net, behind));
    }
    *x = first;
    return 0;
}

/* A name that is required and not described: patterns speak of it, else what is said of others. */
static int add_required(struct members *m, const char *name, json_t *other, json_t *patterns)
{
    const char *pattern;
    json_t *v;
    int is_known = 0;
    json_object_foreach (patterns, pattern, v) {
        int finds = schema_finds(pattern, name, m->s->e);
        if (finds < 0) return -1;
        is_known |= finds;
    }
    return add(m, name, is_known || !other ? json_true() : other, patterns);
}

static int read_members(struct members *m, json_t *flat)
{
    json_t *properties = json_object_get(flat, "properties"),
           *required = json_object_get(flat, "required"),
           *other = json_object_get(flat, "additionalProperties"),
           *patterns = json_object_get(flat, "patternProperties"), *v;
    const char *name;
    size_t i;
    if (properties && !json_is_object(properties))
        return schema_refuse(m->s, "properties", "is not an object");
    if (patterns && !json_is_object(patterns))
        return schema_refuse(m->s, "patternProperties", "is not an object");
    if (required && !json_is_array(required))
        return schema_refuse(m->s, "required", "is not an array");
    json_object_foreach (properties, name, v)
        if (add(m, name, v, patterns)) return -1;
    json_array_foreach (required, i, v) {
        if (!json_is_string(v)) return schema_refuse(m->s, "required", "is not an array of names");
        int at = is_in(m, json_string_value(v));
        if (at < 0 && add_required(m, json_string_value(v), other, patterns)) return -1;
        m->is_required[at < 0 ? m->n - 1 : at] = 1;
    }
    return 0;
}

static int names_of(struct members *m, json_t *flat, struct naming *own)
{
    json_t *names = json_object_get(flat, "propertyNames");
    *own = (struct naming){.patterns = json_object()};
    json_object_update(own->patterns, json_object_get(flat, "patternProperties"));
    if (!names) return 0;
    if (!(m->all_names = schema_name_patterns(names)))
        return schema_refuse(m->s, "propertyNames", "is served for patterns, lengths and texts");
    add_patterns(own, m->all_names, 1);
    return 0;
}

/* How many members there must be beyond those that are required; none of those that are known, once
 * each, may be too few. */
static void settle(const struct members *m, struct bounds *b)
{
    int n_required = 0;
    for (int i = 0; i < m->n; i++) n_required += m->is_required[i];
    if (b->min <= n_required) b->min = 0;
    if (m->other == NET_FAILED && b->max >= m->n) b->max = NET_NO_LIMIT;
}

int schema_object(struct schema *s, json_t *flat, net_expr *x)
{
    enum { MAX_MIN = 64 };
    size_t room = json_object_size(json_object_get(flat, "properties")) +
                  json_array_size(json_object_get(flat, "required")) + 1;
    struct members m = {.s = s, .final = json_object_get(flat, "opt4gptq:final")};
    struct naming own = {0};
    struct bounds b = {0, NET_NO_LIMIT};
    int rc = 0;
    if (schema_length(s, flat, "minProperties", &b.min) ||
        schema_length(s, flat, "maxProperties", &b.max))
        return -1;
    m.index = json_object();
    m.name = calloc(room, sizeof *m.name);
    m.member = calloc(room, sizeof *m.member);
    m.rule = calloc(room, sizeof *m.rule);
    m.is_required = calloc(room, 1);
    if (!m.name || !m.member || !m.rule || !m.is_required) rc = err_memory(s->e);
    if (!rc) rc = names_of(&m, flat, &own);
    if (!rc) rc = read_members(&m, flat);
    if (!rc) rc = find_other(&m, flat, &own);
    net_expr body = NET_FAILED;
    int is_empty = (b.max != NET_NO_LIMIT && b.min > b.max) ||
                   (m.other == NET_FAILED && !m.n_some && b.min > m.n);
    settle(&m, &b);
    if (!rc && b.min > MAX_MIN)
        rc = schema_refuse(s, "minProperties", "more than 64 are not served");
    int n_required = 0;
    for (int i = 0; i < m.n; i++) n_required += m.is_required[i];
    if (!rc && m.other != NET_FAILED && b.min > n_required + 1) /* others may come twice */
        rc = schema_refuse(s, "minProperties",
                           "more than one, and more than are required, is not served");
    if (!rc && is_empty) body = net_chars(s->net, NULL, 0);
    int any = s->order == JSON_ORDER_ANY || (s->order == JSON_ORDER_SCHEMA && unordered(&m, &b));
    if (!rc && !is_empty) rc = any ? any_order(&m, &b, &body) : in_order(&m, &b, &body);
    if (!rc) *x = then(s, then(s, then(s, text(s, "{"), ws(s)), body), text(s, "}"));
    json_decref(m.index);
    json_decref(m.all_names);
    json_decref(own.patterns);
    free(m.name);
    free(m.member);
    free(m.rule);
    free(m.is_required);
    return rc;
}
