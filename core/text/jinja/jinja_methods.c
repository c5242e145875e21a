/* jinja_methods.c: Python's methods of str, list and dict; those that would change a list or a dict
 * are unsafe, as in jinja2's immutable sandbox. */
#include "core/text/jinja/jinja_filters.h"

#include <string.h>

static int need_text(struct jinja_run *r, struct jinja_value v)
{
    if (v.type == JINJA_STRING) return 0;
    if (v.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    return jinja_fail(r, "must be str, not %s", jinja_type_name(v));
}

static int need_int(struct jinja_run *r, struct jinja_value v)
{
    if (v.type == JINJA_INT || v.type == JINJA_BOOL || v.type == JINJA_ABSENT ||
        v.type == JINJA_NONE)
        return 0;
    if (v.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, v);
    return jinja_fail(r, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
}

static int is_given(struct jinja_value v) { return v.type != JINJA_ABSENT && v.type != JINJA_NONE; }

static int cased(struct jinja_run *r, struct jinja_value on, int mode, struct jinja_value *out)
{
    size_t from = r->n_out;
    return jinja_put_case(r, on.s, on.n, mode) ? -1 : jinja_take(r, from, out);
}

FILTER(upper)
{
    (void)args, (void)slot;
    return cased(r, on, 'u', out);
}
FILTER(lower)
{
    (void)args, (void)slot;
    return cased(r, on, 'l', out);
}
FILTER(capitalize)
{
    (void)args, (void)slot;
    return cased(r, on, 'c', out);
}
FILTER(title)
{
    (void)args, (void)slot;
    return cased(r, on, 't', out);
}
FILTER(swapcase)
{
    (void)args, (void)slot;
    return cased(r, on, 's', out);
}

static int strip_of(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                    int left, int right, struct jinja_value *out)
{
    if (is_given(slot[0]) && need_text(r, slot[0])) return -1;
    *out = jinja_strip(on, is_given(slot[0]) ? &slot[0] : NULL, left, right);
    return 0;
}

FILTER(strip)
{
    (void)args;
    return strip_of(r, on, slot, 1, 1, out);
}
FILTER(lstrip)
{
    (void)args;
    return strip_of(r, on, slot, 1, 0, out);
}
FILTER(rstrip)
{
    (void)args;
    return strip_of(r, on, slot, 0, 1, out);
}

/* ---- splitting ---- */

static int push_part(struct jinja_run *r, struct jinja_list *l, const char *s, size_t from,
                     size_t to)
{
    return jinja_steps(r, 1) || jinja_push(r, l, jinja_bytes(s + from, to - from)) ? -1 : 0;
}

/* Reverses a list. */
static void turn(struct jinja_list *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jinja_value v = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = v;
    }
}

static int split_space(struct jinja_run *r, struct jinja_value s, int64_t max, struct jinja_list *l)
{
    for (s = jinja_strip(s, NULL, 1, 0); s.n; max -= max > 0) {
        size_t to = 0, next = 0;
        if (!max) return push_part(r, l, s.s, 0, s.n); /* the rest, its end unstripped */
        for (; to < s.n; to = next)
            if (jinja_is_space(jinja_point(s.s, s.n, &next))) break;
        if (push_part(r, l, s.s, 0, to)) return -1;
        s = jinja_strip(jinja_bytes(s.s + to, s.n - to), NULL, 1, 0);
    }
    return 0;
}

static int rsplit_space(struct jinja_run *r, struct jinja_value s, int64_t max,
                        struct jinja_list *l)
{
    for (s = jinja_strip(s, NULL, 0, 1); s.n; max -= max > 0) {
        size_t from = s.n;
        if (!max) {
            if (push_part(r, l, s.s, 0, s.n)) return -1;
            break;
        }
        while (from) {
            size_t last = from - 1, next;
            while (last && ((unsigned char)s.s[last] & 0xc0) == 0x80) last--;
            next = last;
            if (jinja_is_space(jinja_point(s.s, s.n, &next))) break;
            from = last;
        }
        if (push_part(r, l, s.s, from, s.n)) return -1;
        s = jinja_strip(jinja_bytes(s.s, from), NULL, 0, 1);
    }
    turn(l);
    return 0;
}

FILTER(split) /* sep maxsplit */
{
    int64_t max = is_given(slot[1]) ? slot[1].i : -1;
    size_t at = 0;
    (void)args;
    if (need_int(r, slot[1]) || jinja_list(r, JINJA_LIST, 4, out)) return -1;
    if (!is_given(slot[0])) return split_space(r, on, max, out->list);
    if (need_text(r, slot[0])) return -1;
    if (!slot[0].n) return jinja_fail(r, "empty separator");
    for (const char *hit; max && (hit = memmem(on.s + at, on.n - at, slot[0].s, slot[0].n));
         max -= max > 0) {
        if (push_part(r, out->list, on.s, at, (size_t)(hit - on.s))) return -1;
        at = (size_t)(hit - on.s) + slot[0].n;
    }
    return push_part(r, out->list, on.s, at, on.n);
}

/* Offset of the last `what` that ends within the first n bytes, or SIZE_MAX. */
static size_t find_last(const char *s, size_t n, struct jinja_value what)
{
    for (size_t at = n >= what.n ? n - what.n + 1 : 0; at--;)
        if (!memcmp(s + at, what.s, what.n)) return at;
    return SIZE_MAX;
}

FILTER(rsplit) /* sep maxsplit */
{
    int64_t max = is_given(slot[1]) ? slot[1].i : -1;
    size_t end = on.n, hit;
    (void)args;
    if (need_int(r, slot[1]) || jinja_list(r, JINJA_LIST, 4, out)) return -1;
    if (!is_given(slot[0])) return rsplit_space(r, on, max, out->list);
    if (need_text(r, slot[0])) return -1;
    if (!slot[0].n) return jinja_fail(r, "empty separator");
    for (; max && (hit = find_last(on.s, end, slot[0])) != SIZE_MAX; max -= max > 0) {
        if (push_part(r, out->list, on.s, hit + slot[0].n, end)) return -1;
        end = hit;
    }
    if (push_part(r, out->list, on.s, 0, end)) return -1;
    turn(out->list);
    return 0;
}

FILTER(splitlines) /* keepends */
{
    (void)args;
    return jinja_list(r, JINJA_LIST, 8, out)
               ? -1
               : jinja_put_splitlines(r, on, jinja_truth(slot[0]), out->list);
}

static int partition_at(struct jinja_run *r, struct jinja_value on, struct jinja_value sep,
                        int last, struct jinja_value *out)
{
    if (need_text(r, sep)) return -1;
    if (!sep.n) return jinja_fail(r, "empty separator");
    const char *first = last ? NULL : memmem(on.s, on.n, sep.s, sep.n);
    size_t at = last ? find_last(on.s, on.n, sep) : first ? (size_t)(first - on.s) : SIZE_MAX;
    if (jinja_list(r, JINJA_TUPLE, 3, out)) return -1;
    if (at == SIZE_MAX) {
        size_t cut = last ? 0 : on.n;
        return push_part(r, out->list, on.s, 0, cut) || push_part(r, out->list, on.s, 0, 0) ||
                       push_part(r, out->list, on.s, cut, on.n)
                   ? -1
                   : 0;
    }
    if (push_part(r, out->list, on.s, 0, at) || push_part(r, out->list, on.s, at, at + sep.n))
        return -1;
    return push_part(r, out->list, on.s, at + sep.n, on.n);
}

FILTER(partition)
{
    (void)args;
    return partition_at(r, on, slot[0], 0, out);
}
FILTER(rpartition)
{
    (void)args;
    return partition_at(r, on, slot[0], 1, out);
}

/* ---- searching ---- */

/* The part of a text between two positions (code points, with the rules of slices); *before: code
 * points in front of it. */
static int part_of(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                   struct jinja_value *part, int64_t *before)
{
    struct jinja_value bound[3] = {jinja_none(), jinja_none(), jinja_none()};
    if (need_int(r, slot[0]) || need_int(r, slot[1])) return -1;
    for (int i = 0; i < 2; i++)
        if (is_given(slot[i])) bound[i] = slot[i];
    if (jinja_slice(r, on, bound, part)) return -1;
    *before = bound[0].type == JINJA_NONE ? 0
                                          : (int64_t)jinja_points(on.s, (size_t)(part->s - on.s));
    return 0;
}

static int affix(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                 int at_end, struct jinja_value *out)
{
    struct jinja_value part, one = slot[0];
    const struct jinja_value *options = &one;
    size_t n = 1;
    int64_t before;
    if (slot[0].type == JINJA_TUPLE) options = slot[0].list->item, n = slot[0].list->n;
    if (part_of(r, on, slot + 1, &part, &before)) return -1;
    *out = jinja_bool(0);
    for (size_t i = 0; i < n; i++) {
        if (need_text(r, options[i])) return -1;
        if (options[i].n <= part.n &&
            !memcmp(part.s + (at_end ? part.n - options[i].n : 0), options[i].s, options[i].n))
            *out = jinja_bool(1);
    }
    return 0;
}

FILTER(startswith)
{
    (void)args;
    return affix(r, on, slot, 0, out);
}
FILTER(endswith)
{
    (void)args;
    return affix(r, on, slot, 1, out);
}

static int find_in(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                   int last, int must, struct jinja_value *out)
{
    struct jinja_value part;
    int64_t before;
    if (need_text(r, slot[0]) || part_of(r, on, slot + 1, &part, &before)) return -1;
    const char *first = last ? NULL : memmem(part.s, part.n, slot[0].s, slot[0].n);
    size_t at = last    ? find_last(part.s, part.n, slot[0])
                : first ? (size_t)(first - part.s)
                        : SIZE_MAX;
    if (at == SIZE_MAX && must) return jinja_fail(r, "substring not found");
    *out = jinja_int(at == SIZE_MAX ? -1 : before + (int64_t)jinja_points(part.s, at));
    return 0;
}

FILTER(find)
{
    (void)args;
    return find_in(r, on, slot, 0, 0, out);
}
FILTER(rfind)
{
    (void)args;
    return find_in(r, on, slot, 1, 0, out);
}
FILTER(index_of)
{
    (void)args;
    return find_in(r, on, slot, 0, 1, out);
}
FILTER(rindex_of)
{
    (void)args;
    return find_in(r, on, slot, 1, 1, out);
}

FILTER(count_text)
{
    struct jinja_value part;
    int64_t before, n = 0;
    (void)args;
    if (need_text(r, slot[0]) || part_of(r, on, slot + 1, &part, &before)) return -1;
    if (!slot[0].n) {
        *out = jinja_int((int64_t)jinja_points(part.s, part.n) + 1);
        return 0;
    }
    const char *at = part.s, *end = part.s + part.n;
    while ((at = memmem(at, (size_t)(end - at), slot[0].s, slot[0].n))) n++, at += slot[0].n;
    *out = jinja_int(n);
    return 0;
}

/* ---- making text ---- */

FILTER(join) /* !iterable */
{
    struct jinja_iter it;
    struct jinja_value v;
    size_t from = r->n_out, n = 0;
    int rc;
    (void)args;
    if (jinja_iterate(r, slot[0], &it)) return -1;
    for (; (rc = jinja_next(r, &it, &v)) > 0; n++) {
        if (v.type != JINJA_STRING)
            return jinja_fail(r, "sequence item %zu: expected str instance, %s found", n,
                              jinja_type_name(v));
        if (jinja_steps(r, 1) || (n && jinja_put(r, on.s, on.n)) || jinja_put(r, v.s, v.n))
            return -1;
    }
    return rc ? -1 : jinja_take(r, from, out);
}

FILTER(replace) /* !old !new count */
{
    (void)args;
    if (need_text(r, slot[0]) || need_text(r, slot[1]) || need_int(r, slot[2])) return -1;
    return jinja_replace(r, on, slot[0], slot[1], is_given(slot[2]) ? slot[2].i : -1, out);
}

static int padded(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                  int align, struct jinja_value *out)
{
    struct jinja_value fill = is_given(slot[1]) ? slot[1] : jinja_static(" ");
    if (slot[0].type != JINJA_INT || fill.type != JINJA_STRING || jinja_points(fill.s, fill.n) != 1)
        return jinja_fail(r, "a width and one letter to fill with are needed");
    return jinja_center(r, on, slot[0].i, fill.s, fill.n, align, out);
}

FILTER(center)
{
    (void)args;
    return padded(r, on, slot, 'c', out);
}
FILTER(ljust)
{
    (void)args;
    return padded(r, on, slot, '<', out);
}
FILTER(rjust)
{
    (void)args;
    return padded(r, on, slot, '>', out);
}

FILTER(zfill) /* !width */
{
    struct jinja_value rest = on;
    size_t sign = on.n && (on.s[0] == '-' || on.s[0] == '+');
    (void)args;
    if (slot[0].type != JINJA_INT) return jinja_fail(r, "a width is needed");
    rest.s += sign, rest.n -= sign;
    if (jinja_center(r, rest, slot[0].i < 0 ? 0 : slot[0].i - (int64_t)sign, "0", 1, '>', &rest))
        return -1;
    return sign ? jinja_concat(r, jinja_bytes(on.s, 1), rest, out) : (*out = rest, 0);
}

FILTER(removeprefix)
{
    (void)args;
    if (need_text(r, slot[0])) return -1;
    *out = on;
    if (slot[0].n <= on.n && !memcmp(on.s, slot[0].s, slot[0].n))
        out->s += slot[0].n, out->n -= slot[0].n;
    return 0;
}

FILTER(removesuffix)
{
    (void)args;
    if (need_text(r, slot[0])) return -1;
    *out = on;
    if (slot[0].n <= on.n && !memcmp(on.s + on.n - slot[0].n, slot[0].s, slot[0].n))
        out->n -= slot[0].n;
    return 0;
}

FILTER(expandtabs) /* tabsize */
{
    int64_t size = is_given(slot[0]) ? slot[0].i : 8, column = 0;
    size_t start = r->n_out;
    (void)args;
    if (need_int(r, slot[0])) return -1;
    for (size_t at = 0, from = 0; at < on.n; from = at) {
        int32_t c = jinja_point(on.s, on.n, &at);
        if (c != '\t') {
            if (jinja_put(r, on.s + from, at - from)) return -1;
            column = c == '\n' || c == '\r' ? 0 : column + 1;
            continue;
        }
        if (size > 1000) return jinja_fail(r, "tabs of more than 1000 columns");
        for (int64_t n = size > 0 ? size - column % size : 0; n; n--, column++)
            if (jinja_put(r, " ", 1)) return -1;
    }
    return jinja_take(r, start, out);
}

FILTER(format)
{
    (void)slot;
    return jinja_str_format(r, on, args, out);
}

#define IS(name, what)                                                                             \
    FILTER(name)                                                                                   \
    {                                                                                              \
        (void)r, (void)args, (void)slot;                                                           \
        *out = jinja_bool(jinja_text_is(on, what));                                                \
        return 0;                                                                                  \
    }
IS(is_alpha, 'a')
IS(is_alnum, 'A')
IS(is_digit, 'd')
IS(is_decimal, 'D')
IS(is_numeric, 'n')
IS(is_space, 's')
IS(is_upper, 'u')
IS(is_lower, 'l')
IS(is_title, 't')
IS(is_ascii, 'i')
#undef IS

static const struct jinja_callable of_str[] = {
    {"capitalize", "", capitalize},
    {"center", "!width fillchar", center},
    {"count", "!sub start end", count_text},
    {"endswith", "!suffix start end", endswith},
    {"expandtabs", "tabsize", expandtabs},
    {"find", "!sub start end", find},
    {"format", "*", format},
    {"index", "!sub start end", index_of},
    {"isalnum", "", is_alnum},
    {"isalpha", "", is_alpha},
    {"isascii", "", is_ascii},
    {"isdecimal", "", is_decimal},
    {"isdigit", "", is_digit},
    {"islower", "", is_lower},
    {"isnumeric", "", is_numeric},
    {"isspace", "", is_space},
    {"istitle", "", is_title},
    {"isupper", "", is_upper},
    {"join", "!iterable", join},
    {"ljust", "!width fillchar", ljust},
    {"lower", "", lower},
    {"lstrip", "chars", lstrip},
    {"partition", "!sep", partition},
    {"removeprefix", "!prefix", removeprefix},
    {"removesuffix", "!suffix", removesuffix},
    {"replace", "!old !new count", replace},
    {"rfind", "!sub start end", rfind},
    {"rindex", "!sub start end", rindex_of},
    {"rjust", "!width fillchar", rjust},
    {"rpartition", "!sep", rpartition},
    {"rsplit", "sep maxsplit", rsplit},
    {"rstrip", "chars", rstrip},
    {"split", "sep maxsplit", split},
    {"splitlines", "keepends", splitlines},
    {"startswith", "!prefix start end", startswith},
    {"strip", "chars", strip},
    {"swapcase", "", swapcase},
    {"title", "", title},
    {"upper", "", upper},
    {"zfill", "!width", zfill},
    {"casefold", "*", NULL},
    {"encode", "*", NULL},
    {"format_map", "*", NULL},
    {"isidentifier", "*", NULL},
    {"isprintable", "*", NULL},
    {"maketrans", "*", NULL},
    {"translate", "*", NULL},
    {0},
};

/* ---- list, tuple ---- */

FILTER(list_index) /* !value start */
{
    (void)args;
    if (slot[1].type != JINJA_ABSENT) return jinja_fail(r, "index() with a start is not supported");
    for (size_t i = 0; i < on.list->n; i++) {
        int same = jinja_equal(r, on.list->item[i], slot[0]);
        if (same < 0 || jinja_steps(r, 1)) return -1;
        *out = jinja_int((int64_t)i);
        if (same) return 0;
    }
    return jinja_fail(r, "the value is not in list");
}

FILTER(list_count) /* !value */
{
    int64_t n = 0;
    (void)args;
    for (size_t i = 0; i < on.list->n; i++) {
        int same = jinja_equal(r, on.list->item[i], slot[0]);
        if (same < 0 || jinja_steps(r, 1)) return -1;
        n += same;
    }
    *out = jinja_int(n);
    return 0;
}

FILTER(list_copy)
{
    (void)args, (void)slot;
    return jinja_to_list(r, on, JINJA_LIST, out);
}

static const struct jinja_callable of_list[] = {{"count", "!value", list_count},
                                                {"index", "!value start", list_index},
                                                {"copy", "", list_copy},
                                                {0}};
static const char *const unsafe_of_list[] = {"append", "clear",   "extend", "insert", "pop",
                                             "remove", "reverse", "sort",   NULL};

/* ---- dict ---- */

int jinja_pairs(struct jinja_run *r, const struct jinja_dict *d, enum jinja_type type,
                struct jinja_value *out)
{
    if (jinja_list(r, type, d->n, out) || jinja_steps(r, d->n)) return -1;
    for (size_t i = 0; i < d->n; i++) {
        struct jinja_value pair;
        if (jinja_list(r, JINJA_TUPLE, 2, &pair) || jinja_push(r, pair.list, d->pair[i].key) ||
            jinja_push(r, pair.list, d->pair[i].value) || jinja_push(r, out->list, pair))
            return -1;
    }
    return 0;
}

FILTER(items)
{
    (void)args, (void)slot;
    if (jinja_pairs(r, on.dict, JINJA_VIEW, out)) return -1;
    out->flag = 'i';
    return 0;
}

static int half_of(struct jinja_run *r, struct jinja_value on, int keys, struct jinja_value *out)
{
    if (jinja_list(r, JINJA_VIEW, on.dict->n, out) || jinja_steps(r, on.dict->n)) return -1;
    for (size_t i = 0; i < on.dict->n; i++)
        if (jinja_push(r, out->list, keys ? on.dict->pair[i].key : on.dict->pair[i].value))
            return -1;
    out->flag = keys ? 'k' : 'v';
    return 0;
}

FILTER(keys)
{
    (void)args, (void)slot;
    return half_of(r, on, 1, out);
}
FILTER(values)
{
    (void)args, (void)slot;
    return half_of(r, on, 0, out);
}

FILTER(get) /* !key default */
{
    (void)args;
    int found = jinja_dict_find(r, on.dict, slot[0], out);
    if (!found) *out = slot[1].type == JINJA_ABSENT ? jinja_none() : slot[1];
    return found < 0 ? -1 : 0;
}

FILTER(dict_copy)
{
    (void)args, (void)slot;
    if (jinja_dict(r, JINJA_DICT, on.dict->n, out) || jinja_steps(r, on.dict->n)) return -1;
    if (on.dict->n) memcpy(out->dict->pair, on.dict->pair, on.dict->n * sizeof *on.dict->pair);
    out->dict->n = on.dict->n;
    return 0;
}

static const struct jinja_callable of_dict[] = {{"get", "!key default", get},
                                                {"items", "", items},
                                                {"keys", "", keys},
                                                {"values", "", values},
                                                {"copy", "", dict_copy},
                                                {"fromkeys", "*", NULL},
                                                {0}};
static const char *const unsafe_of_dict[] = {"clear",      "pop",    "popitem",
                                             "setdefault", "update", NULL};

int jinja_method_of(struct jinja_run *r, struct jinja_value on, const char *s, size_t n,
                    struct jinja_value *out)
{
    const struct jinja_callable *table = NULL;
    const char *const *unsafe = NULL;
    if (on.type == JINJA_STRING) table = of_str;
    if (on.type == JINJA_LIST) table = of_list, unsafe = unsafe_of_list;
    if (on.type == JINJA_TUPLE) table = of_list;
    if (on.type == JINJA_DICT) table = of_dict, unsafe = unsafe_of_dict;
    if (!table) return 0;
    for (; unsafe && *unsafe; unsafe++)
        if (strlen(*unsafe) == n && !memcmp(*unsafe, s, n)) {
            *out = jinja_undefined(JINJA_UNSAFE, on, s, n);
            return 1;
        }
    const struct jinja_callable *c = jinja_find_callable(table, s, n);
    if (!c || (on.type == JINJA_TUPLE && c->run == list_copy)) return 0;
    if (!c->run)
        return jinja_fail(r, "the method '%s' of %s is not supported in chat templates", c->name,
                          jinja_type_name(on));
    struct jinja_method *m = jinja_get(r, sizeof *m);
    if (!m) return -1;
    *m = (struct jinja_method){on, c};
    *out = (struct jinja_value){.type = JINJA_METHOD, .method = m};
    return 1;
}
