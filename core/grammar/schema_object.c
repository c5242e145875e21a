#include "core/grammar/json_text.h"
#include "core/grammar/schema.h"
#include "core/grammar/schema_merge.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 64 };

/* The members of one object. */
struct members {
    struct schema *s;
    int n; /* that the schema names */
    const char **name;
    net_expr *member; /* name, colon, value and the white space behind it */
    uint32_t *rule;   /* of the value */
    char *is_required;
    net_expr other; /* a member that it does not name; NET_FAILED: none */
};

/* A member of a key and a value. */
static net_expr member_of(struct schema *s, net_expr key, uint32_t rule)
{
    net_expr x = then(s, then(s, key, ws(s)), then(s, text(s, ":"), ws(s)));
    return then(s, x, then(s, net_call(s->net, rule), ws(s)));
}

static int is_in(const struct members *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->name[i], name)) return i;
    return -1;
}

/* A member of a name: the schema of the name, and of each pattern that finds something in it. */
static int add(struct members *m, const char *name, json_t *schema, json_t *patterns)
{
    int i = m->n, rc = 0;
    json_t *all = json_array(), *v;
    const char *pattern;
    m->name[i] = name;
    json_array_append(all, schema);
    json_object_foreach (patterns, pattern, v) {
        int finds = rc ? 0 : schema_finds(m->s, pattern, name);
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
    m->n++;
    return 0;
}

/* Members of names in which the CHOSEN patterns find something, and the others nothing. */
static int add_other(struct members *m, json_t *patterns, unsigned chosen, json_t *names,
                     json_t *schema)
{
    struct schema *s = m->s;
    net_expr key;
    uint32_t rule;
    if (schema_keys(s, patterns, chosen, names, &key) ||
        schema_rule(s, schema, "additionalProperties", &rule))
        return -1;
    key = then(s, then(s, text(s, "\""), key), text(s, "\""));
    net_expr x = member_of(s, key, rule);
    m->other = m->other == NET_FAILED ? x : net_either(s->net, m->other, x);
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

/* Members that the schema does not name: of all combinations of its patterns, and of none. */
static int find_other(struct members *m, json_t *flat)
{
    struct schema *s = m->s;
    json_t *other = json_object_get(flat, "additionalProperties"),
           *patterns = json_object_get(flat, "patternProperties"), *names = json_array();
    unsigned n = (unsigned)json_object_size(patterns);
    int rc = 0;
    m->other = NET_FAILED;
    if (n > 4) rc = schema_refuse(s, "patternProperties", "more than 4 are not served");
    for (int i = 0; i < m->n; i++) json_array_append_new(names, json_string(m->name[i]));
    for (unsigned chosen = 1; chosen < 1u << n && !rc; chosen++) {
        json_t *schema = of_patterns(patterns, chosen);
        rc = add_other(m, patterns, chosen, names, schema);
        json_decref(schema);
    }
    if (!rc && n && !json_is_false(other))
        rc = add_other(m, patterns, 0, names, other ? other : json_true());
    json_decref(names);
    if (rc || n || json_is_false(other)) return rc;
    net_expr key;
    uint32_t rule = net_named(s->net, "value");
    if (other && schema_rule(s, other, "additionalProperties", &rule)) return -1;
    key = m->n ? json_other_text(s->net, m->name, m->n, s->e)
               : net_call(s->net, net_named(s->net, "string"));
    if (key == NET_FAILED) return -1;
    m->other = member_of(s, key, rule);
    return 0;
}

/* Members in any order: a flag for each that the schema names, so that it comes once (of more than
 * 64, those behind may come twice), and those that are required are there in the end. A flag is set
 * in front of the comma: what follows it exists. */
static int any_order(struct members *m, int min, net_expr *x)
{
    struct schema *s = m->s;
    net_expr first = m->other, next = NET_FAILED, comma = then(s, text(s, ","), ws(s));
    uint64_t required = 0;
    int n_required = 0;
    if (m->other != NET_FAILED) next = then(s, comma, m->other);
    for (int i = 0; i < m->n; i++) n_required += m->is_required[i];
    if (n_required > MAX_FLAGS)
        return schema_refuse(s, "required",
                             "more than 64 are served in the order of the schema "
                             "only (--schema-order)");
    int free_flag = n_required; /* those that are required have the first flags */
    for (int i = 0; i < m->n; i++) {
        int flag = m->is_required[i] ? --n_required : free_flag++;
        net_expr mark = flag < MAX_FLAGS ? net_mark(s->net, flag) : net_empty(s->net);
        net_expr a = then(s, mark, m->member[i]), b = then(s, mark, then(s, comma, m->member[i]));
        first = first == NET_FAILED ? a : net_either(s->net, first, a);
        next = next == NET_FAILED ? b : net_either(s->net, next, b);
        if (m->is_required[i]) required |= (uint64_t)1 << flag;
    }
    if (first == NET_FAILED) {
        *x = min ? net_chars(s->net, NULL, 0) : net_empty(s->net);
        return 0;
    }
    *x = then(s, first, net_repeat(s->net, next, 0, NET_NO_LIMIT));
    if (!min) *x = net_repeat(s->net, *x, 0, 1);
    *x = then(s, *x, net_test(s->net, required));
    for (int i = 0; i < m->n; i++)
        if (m->is_required[i]) *x = then(s, net_need(s->net, m->rule[i]), *x);
    return 0;
}

/* Members in the order of the schema, others behind them: rules of what comes from a member on,
 * behind a comma or not. */
static int in_order(struct members *m, int min, net_expr *x)
{
    struct schema *s = m->s;
    net_expr comma = then(s, text(s, ","), ws(s)), others = net_empty(s->net), first = others;
    uint32_t alone, behind;
    if (m->other != NET_FAILED) {
        others = net_repeat(s->net, then(s, comma, m->other), 0, NET_NO_LIMIT);
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
                 more = then(s, comma, with);
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
        int finds = schema_finds(m->s, pattern, name);
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

int schema_object(struct schema *s, json_t *flat, net_expr *x)
{
    size_t room = json_object_size(json_object_get(flat, "properties")) +
                  json_array_size(json_object_get(flat, "required")) + 1;
    struct members m = {.s = s};
    int min = 0, least = 0, most = NET_NO_LIMIT, rc = 0;
    if (schema_length(s, flat, "minProperties", &least) ||
        schema_length(s, flat, "maxProperties", &most))
        return -1;
    m.name = calloc(room, sizeof *m.name);
    m.member = calloc(room, sizeof *m.member);
    m.rule = calloc(room, sizeof *m.rule);
    m.is_required = calloc(room, 1);
    if (!m.name || !m.member || !m.rule || !m.is_required) rc = err_memory(s->e);
    if (!rc) rc = read_members(&m, flat);
    if (!rc) rc = find_other(&m, flat);
    int n_required = 0;
    for (int i = 0; i < m.n; i++) n_required += m.is_required[i];
    if (!rc && least > n_required) {
        if (least == 1) min = 1;
        else
            rc = schema_refuse(s, "minProperties",
                               "more than one, and more than are required, is not served");
    }
    if (!rc && most != NET_NO_LIMIT && (m.other != NET_FAILED || most < m.n))
        rc = schema_refuse(s, "maxProperties", "is served where no more are known");
    net_expr body = NET_FAILED;
    if (!rc) rc = s->ordered ? in_order(&m, min, &body) : any_order(&m, min, &body);
    if (!rc) *x = then(s, then(s, then(s, text(s, "{"), ws(s)), body), text(s, "}"));
    free(m.name);
    free(m.member);
    free(m.rule);
    free(m.is_required);
    return rc;
}
