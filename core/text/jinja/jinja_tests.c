/* jinja_tests.c: the tests (x is y), as jinja2/tests.py, and the global functions, as
 * transformers'. */
#include "core/text/jinja/jinja_filters.h"

#include <math.h>
#include <string.h>
#include <time.h>

static int yes(struct jinja_value *out, int b)
{
    *out = jinja_bool(b);
    return 0;
}

#define TEST(name, condition)                                                                      \
    FILTER(name)                                                                                   \
    {                                                                                              \
        (void)r, (void)args, (void)slot;                                                           \
        return yes(out, condition);                                                                \
    }
TEST(is_defined, on.type != JINJA_UNDEFINED)
TEST(is_undefined, on.type == JINJA_UNDEFINED)
TEST(is_none, on.type == JINJA_NONE)
TEST(is_boolean, on.type == JINJA_BOOL)
TEST(is_true, on.type == JINJA_BOOL && on.i)
TEST(is_false, on.type == JINJA_BOOL && !on.i)
TEST(is_integer, on.type == JINJA_INT || on.type == JINJA_LONG)
TEST(is_float, on.type == JINJA_FLOAT)
TEST(is_number, jinja_is_number(on) || on.type == JINJA_LONG)
TEST(is_string, on.type == JINJA_STRING)
TEST(is_mapping, on.type == JINJA_DICT)
TEST(is_iterable,
     on.type == JINJA_UNDEFINED || on.type == JINJA_STRING || on.type == JINJA_LOOP ||
         (on.type >= JINJA_LIST && on.type <= JINJA_RANGE && on.type != JINJA_NAMESPACE))
/* values with a length and items by [] */
TEST(is_sequence, on.type == JINJA_UNDEFINED || on.type == JINJA_STRING || on.type == JINJA_LIST ||
                      on.type == JINJA_TUPLE || on.type == JINJA_DICT || on.type == JINJA_RANGE)
TEST(is_callable, on.type >= JINJA_MACRO || on.type == JINJA_UNDEFINED)
TEST(is_escaped, on.type == JINJA_STRING && on.flag)
TEST(is_filter, on.type == JINJA_STRING && jinja_find_callable(jinja_filters, on.s, on.n))
TEST(is_test, on.type == JINJA_STRING && jinja_find_callable(jinja_tests, on.s, on.n))
#undef TEST

static int remainder_is(struct jinja_run *r, struct jinja_value on, struct jinja_value by,
                        int64_t want, struct jinja_value *out)
{
    struct jinja_value rest;
    if (jinja_binary(r, '%', on, by, &rest)) return -1;
    int same = jinja_equal(r, rest, jinja_int(want));
    return same < 0 ? -1 : yes(out, same);
}

FILTER(is_odd)
{
    (void)args, (void)slot;
    return remainder_is(r, on, jinja_int(2), 1, out);
}
FILTER(is_even)
{
    (void)args, (void)slot;
    return remainder_is(r, on, jinja_int(2), 0, out);
}
FILTER(is_divisibleby)
{
    (void)args;
    return remainder_is(r, on, slot[0], 0, out);
}

static int case_is(struct jinja_run *r, struct jinja_value on, int what, struct jinja_value *out)
{
    struct jinja_value s;
    return jinja_str(r, on, &s) ? -1 : yes(out, jinja_text_is(s, what));
}

FILTER(is_lower)
{
    (void)args, (void)slot;
    return case_is(r, on, 'l', out);
}
FILTER(is_upper)
{
    (void)args, (void)slot;
    return case_is(r, on, 'u', out);
}

/* Identity: values stored by reference must be the same object. */
FILTER(is_sameas)
{
    struct jinja_value b = slot[0];
    (void)args;
    if (on.type != b.type) return yes(out, 0);
    if (on.type == JINJA_STRING)
        return jinja_fail(r, "sameas on text is not supported: it depends on Python's memory");
    if (on.type <= JINJA_NONE) return yes(out, on.type == JINJA_NONE);
    return yes(out, on.i == b.i);
}

FILTER(is_eq)
{
    int same = jinja_equal(r, on, slot[0]);
    (void)args;
    return same < 0 ? -1 : yes(out, same);
}

FILTER(is_ne)
{
    int same = jinja_equal(r, on, slot[0]);
    (void)args;
    return same < 0 ? -1 : yes(out, !same);
}

static int ordered(struct jinja_run *r, struct jinja_value a, struct jinja_value b, int op,
                   struct jinja_value *out)
{
    int is = jinja_less(r, a, b, op);
    return is < 0 ? -1 : yes(out, is);
}

FILTER(is_lt)
{
    (void)args;
    return ordered(r, on, slot[0], OP_LT, out);
}
FILTER(is_le)
{
    (void)args;
    return ordered(r, on, slot[0], OP_LE, out);
}
FILTER(is_gt)
{
    (void)args;
    return ordered(r, on, slot[0], OP_GT, out);
}
FILTER(is_ge)
{
    (void)args;
    return ordered(r, on, slot[0], OP_GE, out);
}

FILTER(is_in)
{
    int in = jinja_contains(r, slot[0], on);
    (void)args;
    return in < 0 ? -1 : yes(out, in);
}

const struct jinja_callable jinja_tests[] = {
    {"odd", "", is_odd},
    {"even", "", is_even},
    {"divisibleby", "!num", is_divisibleby},
    {"defined", "", is_defined},
    {"undefined", "", is_undefined},
    {"filter", "", is_filter},
    {"test", "", is_test},
    {"none", "", is_none},
    {"boolean", "", is_boolean},
    {"false", "", is_false},
    {"true", "", is_true},
    {"integer", "", is_integer},
    {"float", "", is_float},
    {"lower", "", is_lower},
    {"upper", "", is_upper},
    {"string", "", is_string},
    {"mapping", "", is_mapping},
    {"number", "", is_number},
    {"sequence", "", is_sequence},
    {"iterable", "", is_iterable},
    {"callable", "", is_callable},
    {"sameas", "!other", is_sameas},
    {"escaped", "", is_escaped},
    {"in", "!seq", is_in},
    {"==", "!b", is_eq},
    {"eq", "!b", is_eq},
    {"equalto", "!b", is_eq},
    {"!=", "!b", is_ne},
    {"ne", "!b", is_ne},
    {">", "!b", is_gt},
    {"gt", "!b", is_gt},
    {"greaterthan", "!b", is_gt},
    {"ge", "!b", is_ge},
    {">=", "!b", is_ge},
    {"<", "!b", is_lt},
    {"lt", "!b", is_lt},
    {"lessthan", "!b", is_lt},
    {"<=", "!b", is_le},
    {"le", "!b", is_le},
    {0},
};

/* ---- globals ---- */

FILTER(range)
{
    int64_t v[3] = {0, 0, 1};
    (void)on, (void)slot;
    if (!args->n || args->n > 3 || args->n_kw)
        return jinja_fail(r, "range expected 1 to 3 arguments, got %zu", args->n + args->n_kw);
    for (size_t i = 0; i < args->n; i++) {
        struct jinja_value a = args->pos[i];
        if (a.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, a);
        if (a.type != JINJA_INT && a.type != JINJA_BOOL)
            return jinja_fail(r, "'%s' object cannot be interpreted as an integer",
                              jinja_type_name(a));
        v[args->n == 1 ? 1 : i] = a.i;
    }
    if (!v[2]) return jinja_fail(r, "range() arg 3 must not be zero");
    __int128 span = v[2] > 0 ? (__int128)v[1] - v[0] : (__int128)v[0] - v[1],
             step = v[2] > 0 ? v[2] : -(__int128)v[2];
    __int128 n = span > 0 ? (span + step - 1) / step : 0;
    if (n > 100000)
        return jinja_fail(
            r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    struct jinja_range *range = jinja_get(r, sizeof *range);
    if (!range) return -1;
    *range = (struct jinja_range){v[0], v[1], v[2], (int64_t)n};
    *out = (struct jinja_value){.type = JINJA_RANGE, .range = range};
    return 0;
}

/* dict(mapping or pairs, name=value...) into out, a dict or a namespace. */
static int fill(struct jinja_run *r, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_iter it;
    struct jinja_value v;
    int rc = 0;
    if (args->n > 1) return jinja_fail(r, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n && args->pos[0].type == JINJA_UNDEFINED)
        return jinja_fail_undefined(r, args->pos[0]);
    if (args->n && args->pos[0].type == JINJA_DICT) {
        const struct jinja_dict *d = args->pos[0].dict;
        for (size_t i = 0; i < d->n; i++)
            if (jinja_dict_set(r, out->dict, d->pair[i].key, d->pair[i].value)) return -1;
    } else if (args->n) {
        if (jinja_iterate(r, args->pos[0], &it)) return -1;
        while ((rc = jinja_next(r, &it, &v)) > 0) {
            struct jinja_value pair;
            if (jinja_to_list(r, v, JINJA_LIST, &pair)) return -1;
            if (pair.list->n != 2)
                return jinja_fail(
                    r, "dictionary update sequence element has length %zu; 2 is required",
                    pair.list->n);
            if (jinja_dict_set(r, out->dict, pair.list->item[0], pair.list->item[1])) return -1;
        }
    }
    for (size_t i = 0; i < args->n_kw && !rc; i++)
        rc = jinja_dict_set(r, out->dict, jinja_bytes(args->kw[i].name, args->kw[i].n),
                            args->kw[i].value);
    return rc;
}

FILTER(dict)
{
    (void)on, (void)slot;
    return jinja_dict(r, JINJA_DICT, 4, out) || fill(r, args, out) ? -1 : 0;
}
FILTER(namespace)
{
    (void)on, (void)slot;
    return jinja_dict(r, JINJA_NAMESPACE, 4, out) || fill(r, args, out) ? -1 : 0;
}

FILTER(raise_exception) /* !message */
{
    struct jinja_value s;
    (void)on, (void)args, (void)out;
    if (jinja_str(r, slot[0], &s)) return -1;
    return jinja_fail(r, "%.*s", s.n > 350 ? (int)jinja_point_offset(s.s, s.n, 80) : (int)s.n, s.s);
}

FILTER(strftime_now) /* !format */
{
    char format[256], text[1024];
    struct tm tm;
    time_t now = (time_t)r->now;
    (void)on, (void)args;
    if (slot[0].type != JINJA_STRING || slot[0].n + 2 > sizeof format ||
        memchr(slot[0].s, 0, slot[0].n))
        return jinja_fail(r, "strftime_now needs a format of up to %zu bytes", sizeof format - 2);
    /* No zone, as Python's local time. The letter in front distinguishes an empty result from one
     * that is too long. */
    size_t n = 0;
    format[n++] = 'x';
    for (size_t i = 0; i < slot[0].n; i++) {
        if (slot[0].s[i] == '%' && i + 1 < slot[0].n) {
            if (slot[0].s[i + 1] != 'z' && slot[0].s[i + 1] != 'Z')
                format[n++] = '%', format[n++] = slot[0].s[i + 1];
            i++;
        } else {
            format[n++] = slot[0].s[i];
        }
    }
    format[n] = 0;
    if (!gmtime_r(&now, &tm)) return jinja_fail(r, "strftime_now: the time is out of range");
    n = strftime(text, sizeof text, format, &tm);
    if (!n) return jinja_fail(r, "strftime_now: a text of more than %zu bytes", sizeof text - 2);
    return jinja_string(r, text + 1, n - 1, out);
}

const struct jinja_callable jinja_globals[] = {
    {"range", "*", range},
    {"dict", "*", dict},
    {"namespace", "*", namespace},
    {"raise_exception", "!message", raise_exception},
    {"strftime_now", "!format", strftime_now},
    {"lipsum", "*", NULL},
    {"cycler", "*", NULL},
    {"joiner", "*", NULL},
    {"self", "*", NULL},
    {0},
};
