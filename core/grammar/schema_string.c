/* schema_string.c: strings of a schema. One condition is an expression; several are followed
 * together (regular.h). */
#include "core/grammar/chars.h"
#include "core/grammar/digits.h"
#include "core/grammar/json_text.h"
#include "core/grammar/notation.h"
#include "core/grammar/regular.h"
#include "core/grammar/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONDITIONS = 7, MAX_LENGTH = 100000 };

static const struct {
    const char *name, *pattern;
} formats[] = {
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|"                                                                                            \
    "02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|"                       \
    "(?:[02468][048]|[13579][26])00)-02-29)"
/* A leap second ends a day of UTC; only local times that are UTC show that. */
#define TIME                                                                                       \
    "(?:(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?"                                       \
    "(?:[zZ]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d))|23:59:60(?:\\.\\d+)?(?:[zZ]|[+-]00:00))"
#define A "[a-zA-Z0-9]"
#define C "[a-zA-Z0-9-]"
/* At most 63; none begins like an A-label ("xn--"), most of which spell no name (RFC 5890). */
#define LABEL A "(?:" A "|" C A "|" C C A "|" C "(?:" A C "|-" A ")" C "{0,58}" A ")?"
#define HOST LABEL "(?:\\." LABEL ")*"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define H "[0-9a-fA-F]{1,4}"
#define H_(times) "(?:" H ":){" times "}" /* so many, each with its colon */
#define LAST "(?:" H ":" H "|" IPV4 ")"
/* RFC 3986, section 3.2.2 */
#define IPV6                                                                                       \
    "(?:" H_("6") LAST "|::" H_("5") LAST "|(?:" H ")?::" H_("4") LAST "|(?:" H_("0,1") H          \
    ")?::" H_("3") LAST "|(?:" H_("0,2") H ")?::" H_("2") LAST "|(?:" H_("0,3") H ")?::" H ":"     \
    LAST "|(?:" H_("0,4") H ")?::" LAST "|(?:" H_("0,5") H ")?::" H "|(?:" H_("0,6") H ")?::)"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define QUOTED "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"" /* RFC 5321, section 4.1.2 */
/* RFC 3986, appendix A */
#define ESCAPED "%[0-9A-Fa-f]{2}"
#define OF(more) "(?:[A-Za-z0-9._~!$&'()*+,;=" more "-]|" ESCAPED ")"
#define IP_LITERAL "\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]"
#define AUTHORITY "(?:" OF(":") "*@)?(?:" IP_LITERAL "|" OF("") "*)(?::\\d*)?"
#define SEGMENTS "(?:/" OF(":@") "*)*"
#define ABSOLUTE "/(?:" OF(":@") "+" SEGMENTS ")?" /* a path that no authority is taken for */
#define REST "(?:\\?" OF(":@/?") "*)?(?:#" OF(":@/?") "*)?"
#define URI "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY SEGMENTS "|" ABSOLUTE "|" OF(":@") "+"       \
    SEGMENTS "|)" REST
#define RELATIVE "(?://" AUTHORITY SEGMENTS "|" ABSOLUTE "|" OF("@") "+" SEGMENTS "|)" REST
/* RFC 6570, section 2 */
#define VARIABLE                                                                                   \
    "(?:\\w|" ESCAPED ")(?:\\.?(?:\\w|" ESCAPED "))*(?::[1-9]\\d{0,3}|\\*)?"
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "[tT]" TIME "$"},
    {"email", "^(?:" ATOM "(?:\\." ATOM ")*|" QUOTED ")@(?:" HOST "|\\[(?:" IPV4 "|IPv6:" IPV6
              ")\\])$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"uri", "^" URI "$"},
    {"uri-reference", "^(?:" URI "|" RELATIVE ")$"},
    {"uri-template", "^(?:[^\\x00-\\x20\\x7f-\\x9f\"%<>\\\\^`{|}]|" ESCAPED "|\\{[+#./;?&=,!@|]?"
                     VARIABLE "(?:," VARIABLE ")*\\})*$"},
    {"duration", "^P(?:\\d+W|(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
                 "(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))?|"
                 "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))$"},
    {"json-pointer", "^" POINTER "$"},
    {"relative-json-pointer", "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$"},
};
static const char *const unserved[] = {"iri", "iri-reference", "idn-email", "idn-hostname",
                                       "regex"};

static const struct net_range every[] = {{0, CHARS_LAST}};
static net_expr any(struct net *n) { return net_call(n, net_named(n, "char")); }
static net_expr any_spelled(struct net *n) { return json_chars(n, every, 1); }

/* What strings have to be, or must not be. */
struct condition {
    const char *pattern; /* NULL: texts, or any */
    json_t *texts;
    int is_not;
};

/* ALONE: nothing is taken away from these strings, so that characters may be spelled in any way;
 * else only as json_chars() does, which other conditions know, too. COUNTER: of characters, -1. */
static int expression(struct net *n, const struct condition *c, int alone, int counter, net_expr *x,
                      struct err *e)
{
    const struct regex_way way = {json_chars, alone ? any : any_spelled, counter};
    if (c->pattern) {
        if (notation_regex_as(n, c->pattern, strlen(c->pattern), &way, x, e))
            return err_prefix(e, "pattern");
    } else if (c->texts) {
        json_t *one;
        size_t i;
        *x = net_chars(n, NULL, 0);
        json_array_foreach (c->texts, i, one)
            if (json_is_string(one))
                *x = net_either(n, *x,
                                json_chars_of(n, json_string_value(one), json_string_length(one)));
    } else {
        *x = net_repeat(n, way.any(n), 0, NET_NO_LIMIT);
    }
    return 0;
}

/* A net of its own for one condition; *w is NULL where it has no text. */
static int open_walk(struct walk **w, const struct condition *c, struct err *e)
{
    struct net *n;
    uint32_t object, root;
    net_expr x;
    *w = NULL;
    if (net_open(&n, e)) return -1;
    int rc = notation_json(n, JSON_SPACE_NONE, &object, e);
    if (!rc) {
        root = net_rule(n, "strings", 7);
        rc = expression(n, c, 0, -1, &x, e);
    }
    if (!rc) {
        net_define(n, root, x);
        rc = net_finish(n, root, e);
        if (rc && !err_is_memory(e) && net_is_empty(n)) {
            net_close(n);
            return 0;
        }
    }
    if (!rc) return walk_open(w, n, root, e);
    net_close(n);
    return -1;
}

/* One condition that must hold, and lengths: a rule that counts its characters. */
static int one_of_length(struct schema *s, const struct condition *c,
                         const struct regular_lengths *lengths, net_expr *x)
{
    uint32_t rule = net_rule(s->net, "string", 6);
    int counter = net_counter(s->net, rule, lengths->min, lengths->max);
    if (expression(s->net, c, 1, counter, x, s->e)) return -1;
    net_define(s->net, rule, net_sequence(s->net, *x, net_length(s->net, counter)));
    *x = net_call(s->net, rule);
    return 0;
}

/* All conditions together, LENGTHS (NULL: any) included; one alone that must hold needs no
 * product. */
static int together(struct schema *s, const struct condition *c, int n,
                    const struct regular_lengths *lengths, net_expr *x)
{
    static const struct condition all = {0};
    struct walk *walk[MAX_CONDITIONS + 2] = {0};
    int n_in = 0, n_all = 0, rc = 0, is_empty = 0;
    if (n == 0 && lengths)
        return *x = net_repeat(s->net, any(s->net), lengths->min, lengths->max), 0;
    if (n == 0) return *x = json_any_chars(s->net), 0;
    if (n == 1 && !c->is_not && lengths) return one_of_length(s, c, lengths, x);
    if (n == 1 && !c->is_not) return expression(s->net, c, 1, -1, x, s->e);
    for (int i = 0; i < n && !rc; i++)
        if (!c[i].is_not) rc = open_walk(&walk[n_in++], &c[i], s->e);
    if (!rc && (n_in == 0 || lengths)) rc = open_walk(&walk[n_in++], &all, s->e);
    n_all = n_in;
    for (int i = 0; i < n && !rc; i++)
        if (c[i].is_not) rc = open_walk(&walk[n_all++], &c[i], s->e);
    for (int i = 0; i < n_in; i++) is_empty |= !walk[i];
    if (!rc && is_empty) *x = net_chars(s->net, NULL, 0);
    else if (!rc) rc = regular_product(s->net, walk, n_in, n_all - n_in, lengths, x, s->e);
    for (int i = 0; i < n_all; i++) walk_close(walk[i]);
    return rc;
}

int schema_keys(struct schema *s, json_t *patterns, unsigned chosen, json_t *names, net_expr *x)
{
    struct condition c[MAX_CONDITIONS];
    const char *pattern;
    json_t *v;
    int n = 0, i = 0;
    if (json_object_size(patterns) + 1 > MAX_CONDITIONS)
        return schema_refuse(s, "patternProperties", "more than 6 are not served");
    json_object_foreach (patterns, pattern, v) {
        c[n++] = (struct condition){.pattern = pattern, .is_not = !(chosen >> i & 1)};
        i++;
    }
    if (json_array_size(names)) c[n++] = (struct condition){.texts = names, .is_not = 1};
    if (!together(s, c, n, NULL, x)) return 0;
    return err_is_memory(s->e) ? -1 : err_prefix(s->e, "patternProperties");
}

int schema_length(struct schema *s, json_t *flat, const char *key, int *value)
{
    json_t *v = json_object_get(flat, key);
    if (!v) return 0;
    struct decimal d;
    int is_read = digits_is(v) && !digits_of(v, &d);
    if (!digits_is(v) || (is_read && (d.is_negative || *d.digits)))
        return schema_refuse(s, key, "is not a number of 0 or more");
    if (!is_read || strlen(d.whole) > 6 || atoi(d.whole) > MAX_LENGTH)
        return schema_refuse(s, key, "more than 100,000 is not served");
    *value = atoi(d.whole);
    return 0;
}

static int find_format(struct schema *s, const char *format, const char **pattern)
{
    *pattern = NULL;
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++)
        if (!strcmp(format, unserved[i]))
            return schema_refuse(s, "format", "this one is not served");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(format, formats[i].name)) *pattern = formats[i].pattern;
    return 0;
}

/* Puts the keywords that speak of strings before an error, unless it names its own. */
static int name_keywords(struct schema *s, json_t *flat)
{
    static const char *const keys[] = {"pattern", "opt4gptq:morePatterns", "format", "minLength",
                                       "maxLength"};
    char names[100] = "";
    const char *before = "";
    if (!strncmp(s->e->msg, "pattern: ", 9)) return -1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!json_object_get(flat, keys[i])) continue;
        if (i == 1 && *before) continue; /* named already */
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", before,
                 i == 1 ? "pattern" : keys[i]);
        before = ", ";
    }
    if (json_object_get(flat, "opt4gptq:notPattern") || json_object_get(flat, "opt4gptq:notFormat"))
        snprintf(names + strlen(names), sizeof names - strlen(names), "%snot", before);
    return *names ? err_prefix(s->e, "%s", names) : -1;
}

int schema_string(struct schema *s, json_t *flat, net_expr *x)
{
    const char *pattern = json_string_value(json_object_get(flat, "pattern")),
               *format = json_string_value(json_object_get(flat, "format"));
    json_t *no = json_object_get(flat, "opt4gptq:notEnum"), *v;
    struct condition c[MAX_CONDITIONS + 2];
    int min = 0, max = NET_NO_LIMIT, n = 0;
    size_t i;
    static const char *const texts[] = {"pattern", "format"};
    for (i = 0; i < 2; i++)
        if ((v = json_object_get(flat, texts[i])) && !json_is_string(v))
            return schema_refuse(s, texts[i], "is not a string");
    if (schema_length(s, flat, "minLength", &min) || schema_length(s, flat, "maxLength", &max))
        return -1;
    if (max != NET_NO_LIMIT && max < min) return *x = net_chars(s->net, NULL, 0), 0;
    if (pattern) c[n++] = (struct condition){.pattern = pattern};
    if (format && find_format(s, format, &pattern)) return -1;
    if (format && pattern) c[n++] = (struct condition){.pattern = pattern};
    for (int is_not = 0; is_not < 2; is_not++)
        json_array_foreach (
            json_object_get(flat, is_not ? "opt4gptq:notPattern" : "opt4gptq:morePatterns"), i, v) {
            if (!json_is_string(v)) return schema_refuse(s, "pattern", "is not a string");
            if (n <= MAX_CONDITIONS)
                c[n++] = (struct condition){.pattern = json_string_value(v), .is_not = is_not};
        }
    json_array_foreach (json_object_get(flat, "opt4gptq:notFormat"), i, v) {
        if (!json_is_string(v) || find_format(s, json_string_value(v), &pattern)) return -1;
        if (!pattern) return *x = net_chars(s->net, NULL, 0), 0; /* a format that nothing fails */
        if (n <= MAX_CONDITIONS) c[n++] = (struct condition){.pattern = pattern, .is_not = 1};
    }
    if (no) c[n++] = (struct condition){.texts = no, .is_not = 1};
    if (n > MAX_CONDITIONS)
        return schema_refuse(s, "pattern", "more than 7 conditions are not served");
    int has_length = min > 0 || max != NET_NO_LIMIT;
    if (n == 0 && !has_length) return *x = net_call(s->net, net_named(s->net, "string")), 0;
    const struct regular_lengths lengths = {min, max};
    net_expr body;
    if (together(s, c, n, has_length ? &lengths : NULL, &body))
        return err_is_memory(s->e) ? -1 : name_keywords(s, flat);
    *x = net_sequence(s->net, net_sequence(s->net, net_text(s->net, "\"", 1), body),
                      net_text(s->net, "\"", 1));
    return 0;
}
