/* jinja_filters.c: the filters on sequences and numbers, and the table of all filters, as
 * jinja2/filters.py defines them. */
#include "core/text/jinja/jinja_filters.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes by a dotted name, as make_attrgetter ---- */

static int attribute(struct jinja_run *r, struct jinja_value v, struct jinja_value path,
                     const struct jinja_value *absent, struct jinja_value *out)
{
    *out = v;
    if (path.type == JINJA_NONE || path.type == JINJA_ABSENT) return 0;
    if (path.type != JINJA_STRING) {
        if (jinja_item(r, v, path, out)) return -1;
    } else {
        for (const char *p = path.s, *end = path.s + path.n; p <= end;) {
            const char *dot = memchr(p, '.', (size_t)(end - p));
            size_t n = (size_t)((dot ? dot : end) - p), digits = 0;
            while (digits < n && isdigit((unsigned char)p[digits])) digits++;
            struct jinja_value part = jinja_bytes(p, n), of = *out;
            if (n && digits == n) {
                if (n > 18) return jinja_fail(r, "an index of more than 18 digits");
                part = jinja_int(0);
                for (size_t i = 0; i < n; i++) part.i = part.i * 10 + (p[i] - '0');
            }
            if (jinja_item(r, of, part, out)) return -1;
            if (absent && absent->type != JINJA_ABSENT && absent->type != JINJA_NONE &&
                out->type == JINJA_UNDEFINED)
                *out = *absent;
            p += n + 1;
        }
    }
    return 0;
}

/* The key that sort, unique, min, max and groupby compare: the attribute, in lower case unless
 * case_sensitive. */
static int sort_key(struct jinja_run *r, struct jinja_value v, struct jinja_value path,
                    int case_sensitive, const struct jinja_value *absent, struct jinja_value *out)
{
    if (attribute(r, v, path, absent, out)) return -1;
    if (case_sensitive || out->type != JINJA_STRING) return 0;
    size_t from = r->n_out;
    return jinja_put_case(r, out->s, out->n, 'l') ? -1 : jinja_take(r, from, out);
}

/* ---- sorting: stable, by keys; a comparison may fail ---- */

struct keyed {
    struct jinja_value key, value;
};

static int merge_sort(struct jinja_run *r, struct keyed *a, struct keyed *tmp, size_t n,
                      int reverse)
{
    if (n < 2) return 0;
    size_t half = n / 2, i = 0, j = half, k = 0;
    if (merge_sort(r, a, tmp, half, reverse) || merge_sort(r, a + half, tmp, n - half, reverse))
        return -1;
    while (i < half && j < n) {
        int second_first = reverse ? jinja_less(r, a[i].key, a[j].key, OP_LT)
                                   : jinja_less(r, a[j].key, a[i].key, OP_LT);
        if (second_first < 0 || jinja_steps(r, 1)) return -1;
        tmp[k++] = second_first ? a[j++] : a[i++];
    }
    while (i < half) tmp[k++] = a[i++];
    memcpy(a, tmp, k * sizeof *a); /* the rest of the second half is in place */
    return 0;
}

/* Sorts a list by keys (keys[i] belongs to the i-th value). */
static int sort_list(struct jinja_run *r, struct jinja_list *l, const struct jinja_value *keys,
                     int reverse)
{
    struct keyed *a = jinja_get(r, 2 * l->n * sizeof *a);
    if (!a) return -1;
    for (size_t i = 0; i < l->n; i++) a[i] = (struct keyed){keys[i], l->item[i]};
    if (merge_sort(r, a, a + l->n, l->n, reverse)) return -1;
    for (size_t i = 0; i < l->n; i++) l->item[i] = a[i].value;
    return 0;
}

static struct jinja_value *keys_of(struct jinja_run *r, const struct jinja_list *l,
                                   struct jinja_value path, int case_sensitive,
                                   const struct jinja_value *absent)
{
    struct jinja_value *keys = jinja_get(r, l->n * sizeof *keys);
    for (size_t i = 0; keys && i < l->n; i++)
        if (sort_key(r, l->item[i], path, case_sensitive, absent, &keys[i])) return NULL;
    return keys;
}

FILTER(sort) /* reverse case_sensitive attribute */
{
    (void)args;
    if (jinja_to_list(r, on, JINJA_LIST, out)) return -1;
    struct jinja_list *l = out->list;
    if (slot[2].type == JINJA_STRING &&
        memchr(slot[2].s, ',', slot[2].n)) { /* several attributes: tuples of them */
        struct jinja_value *keys = jinja_get(r, l->n * sizeof *keys), part;
        for (size_t i = 0; i < l->n; i++) {
            if (!keys || jinja_list(r, JINJA_TUPLE, 4, &keys[i])) return -1;
            for (const char *p = slot[2].s, *end = p + slot[2].n; p <= end;) {
                const char *comma = memchr(p, ',', (size_t)(end - p));
                size_t n = (size_t)((comma ? comma : end) - p);
                if (sort_key(r, l->item[i], jinja_bytes(p, n), jinja_truth(slot[1]), NULL, &part) ||
                    jinja_push(r, keys[i].list, part))
                    return -1;
                p += n + 1;
            }
        }
        return sort_list(r, l, keys, jinja_truth(slot[0]));
    }
    struct jinja_value *keys = keys_of(r, l, slot[2], jinja_truth(slot[1]), NULL);
    return keys ? sort_list(r, l, keys, jinja_truth(slot[0])) : -1;
}

FILTER(dictsort) /* case_sensitive by reverse */
{
    (void)args;
    if (on.type != JINJA_DICT)
        return jinja_fail(r, "dictsort needs a dict, not %s", jinja_type_name(on));
    int by_value = slot[1].type != JINJA_ABSENT && jinja_is_text(slot[1], "value");
    if (slot[1].type != JINJA_ABSENT && !by_value && !jinja_is_text(slot[1], "key"))
        return jinja_fail(r, "You can only sort by either \"key\" or \"value\"");
    if (jinja_pairs(r, on.dict, JINJA_LIST, out)) return -1;
    struct jinja_value *keys = keys_of(r, out->list, jinja_int(by_value), jinja_truth(slot[0]),
                                       NULL);
    return keys ? sort_list(r, out->list, keys, jinja_truth(slot[2])) : -1;
}

FILTER(groupby) /* attribute default case_sensitive */
{
    struct jinja_value all, group, pair;
    int case_sensitive = jinja_truth(slot[2]);
    (void)args;
    if (jinja_to_list(r, on, JINJA_LIST, &all) || jinja_list(r, JINJA_LIST, 4, out)) return -1;
    struct jinja_value *keys = keys_of(r, all.list, slot[0], case_sensitive, &slot[1]);
    if (!keys || sort_list(r, all.list, keys, 0) ||
        !(keys = keys_of(r, all.list, slot[0], case_sensitive, &slot[1])))
        return -1;
    for (size_t i = 0; i < all.list->n; i++) {
        int same = i ? jinja_equal(r, keys[i - 1], keys[i]) : 0;
        if (same < 0) return -1;
        if (!same) {
            struct jinja_value key;
            if (attribute(r, all.list->item[i], slot[0], &slot[1], &key) ||
                jinja_list(r, JINJA_LIST, 4, &group) || jinja_list(r, JINJA_TUPLE, 2, &pair) ||
                jinja_push(r, pair.list, key) || jinja_push(r, pair.list, group))
                return -1;
            pair.flag = 1;
            if (jinja_push(r, out->list, pair)) return -1;
        }
        if (jinja_push(r, group.list, all.list->item[i])) return -1;
    }
    return 0;
}

FILTER(unique) /* case_sensitive attribute */
{
    struct jinja_iter it;
    struct jinja_value v, key, seen, same;
    int rc;
    (void)args;
    if (jinja_iterate(r, on, &it) || jinja_list(r, JINJA_GENERATOR, 4, out) ||
        jinja_dict(r, JINJA_DICT, 4, &seen))
        return -1;
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        if (sort_key(r, v, slot[1], jinja_truth(slot[0]), NULL, &key)) return -1;
        int known = jinja_dict_find(r, seen.dict, key, &same);
        if (known < 0 ||
            (!known && (jinja_dict_set(r, seen.dict, key, key) || jinja_push(r, out->list, v))))
            return -1;
    }
    return rc;
}

static int extreme(struct jinja_run *r, struct jinja_value on, const struct jinja_value *slot,
                   int op, struct jinja_value *out)
{
    struct jinja_iter it;
    struct jinja_value v, key, best = {0};
    int rc;
    if (jinja_iterate(r, on, &it)) return -1;
    *out = jinja_undefined(JINJA_HINT, on, "No aggregated item, sequence was empty.", 39);
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        if (sort_key(r, v, slot[1], jinja_truth(slot[0]), NULL, &key)) return -1;
        int better = best.type == JINJA_ABSENT ? 1 : jinja_less(r, key, best, op);
        if (better < 0 || jinja_steps(r, 1)) return -1;
        if (better) best = key, *out = v;
    }
    return rc;
}

FILTER(min)
{
    (void)args;
    return extreme(r, on, slot, OP_LT, out);
} /* case_sensitive attribute */
FILTER(max)
{
    (void)args;
    return extreme(r, on, slot, OP_GT, out);
}

/* ---- choosing and mapping ---- */

static int map(struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,
               struct jinja_value *slot, struct jinja_value *out)
{
    struct jinja_iter it;
    struct jinja_value v, x, path = {0}, absent = {0};
    const struct jinja_callable *f = NULL;
    struct jinja_args rest = *args;
    int rc;
    (void)slot;
    for (size_t i = 0; !args->n && i < args->n_kw; i++) {
        const struct jinja_keyword *k = &args->kw[i];
        if (k->n == 9 && !memcmp(k->name, "attribute", 9)) path = k->value;
        else if (k->n == 7 && !memcmp(k->name, "default", 7)) absent = k->value;
        else
            return jinja_fail(r, "Unexpected keyword argument '%.*s'", k->n > 60 ? 60 : (int)k->n,
                              k->name);
    }
    if (path.type == JINJA_ABSENT) {
        if (!args->n) return jinja_fail(r, "map requires a filter argument");
        if (args->pos[0].type == JINJA_STRING)
            f = jinja_find_callable(jinja_filters, args->pos[0].s, args->pos[0].n);
        if (!f)
            return jinja_fail(
                r, "No filter named '%.*s' found.",
                args->pos[0].type == JINJA_STRING && args->pos[0].n < 60 ? (int)args->pos[0].n : 0,
                args->pos[0].s);
        rest.pos++, rest.n--;
    }
    if (jinja_list(r, JINJA_GENERATOR, 4, out)) return -1;
    if (!jinja_truth(on)) return 0;
    if (jinja_iterate(r, on, &it)) return -1;
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        if (jinja_steps(r, 1) || jinja_enter(r)) return -1;
        if (f ? jinja_call(r, f, v, &rest, &x) : attribute(r, v, path, &absent, &x)) return -1;
        r->depth--;
        if (jinja_push(r, out->list, x)) return -1;
    }
    return rc;
}

static int choose(struct jinja_run *r, struct jinja_value on, const struct jinja_args *args,
                  int by_attribute, int wanted, struct jinja_value *out)
{
    struct jinja_iter it;
    struct jinja_value v, x, path = {0}, yes;
    const struct jinja_callable *f = NULL;
    struct jinja_args rest = *args;
    int rc;
    if (by_attribute) {
        if (!rest.n) return jinja_fail(r, "Missing parameter for attribute name");
        path = *rest.pos++;
        rest.n--;
    }
    if (rest.n) {
        if (rest.pos[0].type == JINJA_STRING)
            f = jinja_find_callable(jinja_tests, rest.pos[0].s, rest.pos[0].n);
        if (!f)
            return jinja_fail(
                r, "No test named '%.*s' found.",
                rest.pos[0].type == JINJA_STRING && rest.pos[0].n < 60 ? (int)rest.pos[0].n : 0,
                rest.pos[0].s);
        rest.pos++, rest.n--;
    }
    if (jinja_list(r, JINJA_GENERATOR, 4, out)) return -1;
    if (!jinja_truth(on)) return 0;
    if (jinja_iterate(r, on, &it)) return -1;
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        if (jinja_steps(r, 1) || attribute(r, v, path, NULL, &x)) return -1;
        yes = x;
        if (f && jinja_call(r, f, x, &rest, &yes)) return -1;
        if (jinja_truth(yes) == wanted && jinja_push(r, out->list, v)) return -1;
    }
    return rc;
}

FILTER(select_)
{
    (void)slot;
    return choose(r, on, args, 0, 1, out);
}
FILTER(reject)
{
    (void)slot;
    return choose(r, on, args, 0, 0, out);
}
FILTER(selectattr)
{
    (void)slot;
    return choose(r, on, args, 1, 1, out);
}
FILTER(rejectattr)
{
    (void)slot;
    return choose(r, on, args, 1, 0, out);
}

/* ---- sequences ---- */

FILTER(items)
{
    (void)args, (void)slot;
    if (on.type == JINJA_UNDEFINED) return jinja_list(r, JINJA_GENERATOR, 0, out);
    if (on.type != JINJA_DICT) return jinja_fail(r, "Can only get item pairs from a mapping.");
    return jinja_pairs(r, on.dict, JINJA_GENERATOR, out);
}

FILTER(length)
{
    (void)args, (void)slot;
    *out = jinja_int(0);
    return jinja_length(r, on, &out->i);
}

FILTER(list)
{
    (void)args, (void)slot;
    return jinja_to_list(r, on, JINJA_LIST, out);
}

FILTER(first)
{
    struct jinja_iter it;
    (void)args, (void)slot;
    if (jinja_iterate(r, on, &it)) return -1;
    int rc = jinja_next(r, &it, out);
    if (!rc) *out = jinja_undefined(JINJA_HINT, on, "No first item, sequence was empty.", 34);
    return rc < 0 ? -1 : 0;
}

FILTER(last)
{
    struct jinja_value all;
    (void)args, (void)slot;
    if (on.type == JINJA_GENERATOR || on.type == JINJA_UNDEFINED)
        return jinja_fail(r, "'%s' object is not reversible", jinja_type_name(on));
    if (jinja_to_list(r, on, JINJA_LIST, &all)) return -1;
    *out = all.list->n ? all.list->item[all.list->n - 1]
                       : jinja_undefined(JINJA_HINT, on, "No last item, sequence was empty.", 33);
    return 0;
}

FILTER(reverse)
{
    (void)args, (void)slot;
    if (on.type == JINJA_STRING) {
        const struct jinja_value back[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
        return jinja_slice(r, on, back, out);
    }
    if (jinja_to_list(r, on, on.type == JINJA_GENERATOR ? JINJA_LIST : JINJA_GENERATOR, out))
        return -1;
    struct jinja_list *l = out->list;
    for (size_t i = 0; i < l->n / 2; i++) {
        struct jinja_value v = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = v;
    }
    return 0;
}

FILTER(join) /* d attribute */
{
    struct jinja_iter it;
    struct jinja_value v, x, d = jinja_static("");
    size_t from = r->n_out, n = 0;
    int rc;
    (void)args;
    if ((slot[0].type != JINJA_ABSENT && jinja_str(r, slot[0], &d)) || jinja_iterate(r, on, &it))
        return -1;
    for (; (rc = jinja_next(r, &it, &v)) > 0; n++)
        if (jinja_steps(r, 1) || (n && jinja_put(r, d.s, d.n)) ||
            attribute(r, v, slot[1], NULL, &x) || jinja_put_str(r, x))
            return -1;
    return rc ? -1 : jinja_take(r, from, out);
}

FILTER(sum) /* attribute start */
{
    struct jinja_iter it;
    struct jinja_value v, x;
    int rc;
    (void)args;
    *out = slot[1].type == JINJA_ABSENT ? jinja_int(0) : slot[1];
    if (out->type == JINJA_STRING)
        return jinja_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    if (jinja_iterate(r, on, &it)) return -1;
    while ((rc = jinja_next(r, &it, &v)) > 0) {
        struct jinja_value so_far = *out;
        if (jinja_steps(r, 1) || attribute(r, v, slot[0], NULL, &x) ||
            jinja_binary(r, '+', so_far, x, out))
            return -1;
    }
    return rc;
}

FILTER(batch) /* !linecount fill_with */
{
    struct jinja_value all, row = {0};
    (void)args;
    if (slot[0].type != JINJA_INT || slot[0].i < 1 || slot[0].i > 1 << 20)
        return jinja_fail(r, "batch needs a number of items from 1 to %d", 1 << 20);
    if (jinja_to_list(r, on, JINJA_LIST, &all) || jinja_list(r, JINJA_GENERATOR, 4, out)) return -1;
    for (size_t i = 0; i < all.list->n; i++) {
        if (i % (size_t)slot[0].i == 0 &&
            (jinja_list(r, JINJA_LIST, 4, &row) || jinja_push(r, out->list, row)))
            return -1;
        if (jinja_push(r, row.list, all.list->item[i])) return -1;
    }
    if (row.type && slot[1].type != JINJA_ABSENT && slot[1].type != JINJA_NONE)
        while (row.list->n < (size_t)slot[0].i)
            if (jinja_steps(r, 1) || jinja_push(r, row.list, slot[1])) return -1;
    return 0;
}

FILTER(slice) /* !slices fill_with */
{
    struct jinja_value all, part;
    (void)args;
    if (slot[0].type != JINJA_INT || slot[0].i < 1 || slot[0].i > 1 << 20)
        return jinja_fail(r, "slice needs a number of slices from 1 to %d", 1 << 20);
    if (jinja_to_list(r, on, JINJA_LIST, &all) || jinja_list(r, JINJA_GENERATOR, 4, out)) return -1;
    size_t n = (size_t)slot[0].i, each = all.list->n / n, more = all.list->n % n, at = 0;
    for (size_t i = 0; i < n; i++) {
        if (jinja_steps(r, 1) || jinja_list(r, JINJA_LIST, each + 2, &part) ||
            jinja_push(r, out->list, part))
            return -1;
        for (size_t k = each + (i < more); k; k--)
            if (jinja_push(r, part.list, all.list->item[at++])) return -1;
        if (i >= more && slot[1].type != JINJA_ABSENT && slot[1].type != JINJA_NONE &&
            jinja_push(r, part.list, slot[1]))
            return -1;
    }
    return 0;
}

/* ---- numbers ---- */

FILTER(abs_)
{
    (void)args, (void)slot;
    if (on.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, on);
    if (!jinja_is_number(on))
        return jinja_fail(r, "bad operand type for abs(): '%s'", jinja_type_name(on));
    if (on.type == JINJA_FLOAT) *out = jinja_float(fabs(on.f));
    else if (on.i == INT64_MIN) return jinja_fail(r, "an integer beyond 64 bits is not supported");
    else *out = jinja_int(on.i < 0 ? -on.i : on.i);
    return 0;
}

/* Python's int(text, base): 1 and *v, 0: no integer, -1: beyond 64 bits. */
static int text_to_int(struct jinja_run *r, struct jinja_value s, int base, int64_t *v)
{
    char text[80];
    s = jinja_strip(s, NULL, 1, 1);
    size_t at = 0, n = 0, digits_from;
    if (s.n + 1 >= sizeof text) return 0;
    if (at < s.n && (s.s[at] == '-' || s.s[at] == '+')) text[n++] = s.s[at++];
    if (at + 1 < s.n && s.s[at] == '0') {
        int p = s.s[at + 1] | 32, of = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
        if (of && (base == of || base == 0)) at += 2, base = of;
    }
    digits_from = at;
    for (; at < s.n; at++) {
        if (s.s[at] == '_' && (at == digits_from || at + 1 == s.n || s.s[at + 1] == '_')) return 0;
        if (!isalnum((unsigned char)s.s[at]) && s.s[at] != '_') return 0;
        if (s.s[at] != '_') text[n++] = s.s[at];
    }
    text[n] = 0;
    char *end;
    errno = 0;
    *v = strtoll(text, &end, base ? base : 10);
    if (*end || end == text || at == digits_from) return 0;
    return errno ? jinja_fail(r, "an integer beyond 64 bits is not supported") : 1;
}

/* float(text): 1 and *v, or 0. */
static int text_to_float(struct jinja_value s, double *v)
{
    char text[400], *end;
    size_t n = 0;
    s = jinja_strip(s, NULL, 1, 1);
    if (s.n + 1 >= sizeof text) return 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.s[i] == '_' && (!i || i + 1 == s.n || !isdigit((unsigned char)s.s[i - 1]) ||
                              !isdigit((unsigned char)s.s[i + 1])))
            return 0;
        if (s.s[i] == 'x' || s.s[i] == 'X' || s.s[i] == '(' || !s.s[i])
            return 0; /* C parses these, Python does not */
        if (s.s[i] != '_') text[n++] = s.s[i];
    }
    text[n] = 0;
    *v = strtod(text, &end);
    return n && !*end;
}

static int float_to_int(struct jinja_run *r, double f, struct jinja_value *out)
{
    if (!(f > -9.2e18 && f < 9.2e18))
        return jinja_fail(r, "an integer beyond 64 bits is not supported");
    *out = jinja_int((int64_t)f);
    return 0;
}

FILTER(int_) /* default base */
{
    struct jinja_value absent = slot[0].type == JINJA_ABSENT ? jinja_int(0) : slot[0];
    int64_t base = slot[1].type == JINJA_INT ? slot[1].i : 10;
    double f;
    (void)args;
    *out = absent;
    if (on.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, on);
    if (on.type == JINJA_BOOL || on.type == JINJA_INT) {
        *out = jinja_int(on.i);
    } else if (on.type == JINJA_FLOAT) {
        if (isfinite(on.f)) return float_to_int(r, on.f, out);
        if (isinf(on.f)) return jinja_fail(r, "cannot convert float infinity to integer");
    } else if (on.type == JINJA_STRING) {
        int64_t v;
        int found = base == 0 || (base >= 2 && base <= 36) ? text_to_int(r, on, (int)base, &v) : 0;
        if (found < 0) return -1;
        if (found) *out = jinja_int(v);
        else if (text_to_float(on, &f) && isfinite(f)) return float_to_int(r, f, out);
    }
    return 0;
}

FILTER(float_) /* default */
{
    double f;
    (void)args;
    if (on.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, on);
    if (jinja_is_number(on)) *out = jinja_float(jinja_number(on));
    else if (on.type == JINJA_STRING && text_to_float(on, &f)) *out = jinja_float(f);
    else *out = slot[0].type == JINJA_ABSENT ? jinja_float(0) : slot[0];
    return 0;
}

FILTER(round_) /* precision method */
{
    int64_t precision = slot[0].type == JINJA_ABSENT ? 0 : slot[0].i;
    int up = jinja_is_text(slot[1], "ceil"), down = jinja_is_text(slot[1], "floor");
    (void)args;
    if (slot[0].type != JINJA_ABSENT && slot[0].type != JINJA_INT)
        return jinja_fail(r, "round needs an integer precision");
    if (slot[1].type != JINJA_ABSENT && !up && !down && !jinja_is_text(slot[1], "common"))
        return jinja_fail(r, "method must be common, ceil or floor");
    if (on.type == JINJA_UNDEFINED) return jinja_fail_undefined(r, on);
    if (!jinja_is_number(on))
        return jinja_fail(r, "type %s doesn't define __round__ method", jinja_type_name(on));
    if (precision < -300 || precision > 300)
        return jinja_fail(r, "a precision from -300 to 300 is supported");
    double x = jinja_number(on), power = pow(10, (double)precision);
    if (up || down) {
        double whole = up ? ceil(x * power) : floor(x * power);
        *out = jinja_float(whole == 0 ? 0 : whole / power); /* an integer, which has no -0 */
    } else if (on.type != JINJA_FLOAT) {
        if (precision < 0)
            return jinja_fail(r, "rounding an integer to a negative precision is not supported");
        *out = jinja_int(on.i);
    } else if (precision < 0) {
        *out = jinja_float(rint(x / pow(10, (double)-precision)) * pow(10, (double)-precision));
    } else { /* correctly rounded by decimal conversion, as in Python */
        char text[720];
        snprintf(text, sizeof text, "%.*f", (int)precision, x);
        *out = jinja_float(isfinite(x) ? strtod(text, NULL) : x);
    }
    return 0;
}

FILTER(default_) /* default_value boolean */
{
    int use = on.type == JINJA_UNDEFINED || (jinja_truth(slot[1]) && !jinja_truth(on));
    (void)args, (void)r;
    *out = !use ? on : slot[0].type == JINJA_ABSENT ? jinja_static("") : slot[0];
    return 0;
}

FILTER(attr) /* !name */
{
    struct jinja_value v;
    (void)args;
    if (slot[0].type != JINJA_STRING)
        return jinja_fail(r, "attribute name must be string, not '%s'", jinja_type_name(slot[0]));
    if (on.type == JINJA_DICT &&
        !jinja_method_of(r, on, slot[0].s, slot[0].n, &v)) { /* attributes only, no items */
        *out = jinja_undefined(JINJA_NO_ATTRIBUTE, on, slot[0].s, slot[0].n);
        return 0;
    }
    return jinja_attribute(r, on, slot[0].s, slot[0].n, out);
}

const struct jinja_callable jinja_filters[] = {
    {"abs", "", abs_},
    {"attr", "!name", attr},
    {"batch", "!linecount fill_with", batch},
    {"capitalize", "", jinja_filter_capitalize},
    {"center", "width", jinja_filter_center},
    {"count", "", length},
    {"d", "default_value boolean", default_},
    {"default", "default_value boolean", default_},
    {"dictsort", "case_sensitive by reverse", dictsort},
    {"e", "", jinja_filter_escape},
    {"escape", "", jinja_filter_escape},
    {"first", "", first},
    {"float", "default", float_},
    {"forceescape", "", jinja_filter_forceescape},
    {"format", "*", jinja_filter_format},
    {"groupby", "!attribute default case_sensitive", groupby},
    {"indent", "width first blank", jinja_filter_indent},
    {"int", "default base", int_},
    {"items", "", items},
    {"join", "d attribute", join},
    {"last", "", last},
    {"length", "", length},
    {"list", "", list},
    {"lower", "", jinja_filter_lower},
    {"map", "*", map},
    {"max", "case_sensitive attribute", max},
    {"min", "case_sensitive attribute", min},
    {"reject", "*", reject},
    {"rejectattr", "*", rejectattr},
    {"replace", "!old !new count", jinja_filter_replace},
    {"reverse", "", reverse},
    {"round", "precision method", round_},
    {"safe", "", jinja_filter_safe},
    {"select", "*", select_},
    {"selectattr", "*", selectattr},
    {"slice", "!slices fill_with", slice},
    {"sort", "reverse case_sensitive attribute", sort},
    {"string", "", jinja_filter_string},
    {"sum", "attribute start", sum},
    {"title", "", jinja_filter_title},
    {"tojson", "ensure_ascii indent separators sort_keys", jinja_filter_tojson},
    {"trim", "chars", jinja_filter_trim},
    {"truncate", "length killwords end leeway", jinja_filter_truncate},
    {"unique", "case_sensitive attribute", unique},
    {"upper", "", jinja_filter_upper},
    {"wordcount", "", jinja_filter_wordcount},
    {"filesizeformat", "*", NULL},
    {"pprint", "*", NULL},
    {"random", "*", NULL},
    {"striptags", "*", NULL},
    {"urlencode", "*", NULL},
    {"urlize", "*", NULL},
    {"wordwrap", "*", NULL},
    {"xmlattr", "*", NULL},
    {0},
};
