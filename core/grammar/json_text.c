#include "core/grammar/json_text.h"

#include "core/grammar/chars.h"
#include "core/grammar/digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters */

/* The sequences of DIGITS digits in base 2^BITS from FIRST to LAST, each written by digit(). */
struct digits {
    struct net *n;
    int bits; /* of a digit */
    net_expr (*digit)(struct net *n, uint32_t first, uint32_t last, int place);
};

static net_expr digits_between(const struct digits *d, uint32_t first, uint32_t last, int places)
{
    if (places == 1) return d->digit(d->n, first, last, 0);
    int shift = d->bits * (places - 1);
    uint32_t low = 0, high = ((uint32_t)1 << shift) - 1, a = first >> shift, b = last >> shift;
    if (a == b)
        return net_sequence(d->n, d->digit(d->n, a, a, places - 1),
                            digits_between(d, first & high, last & high, places - 1));
    net_expr x = NET_FAILED;
    int has = 0;
    if ((first & high) != low) {
        x = net_sequence(d->n, d->digit(d->n, a, a, places - 1),
                         digits_between(d, first & high, high, places - 1));
        has = 1;
        a++;
    }
    int partly = (last & high) != high;
    if (a + (uint32_t)partly <= b) {
        net_expr y = net_sequence(d->n, d->digit(d->n, a, b - (uint32_t)partly, places - 1),
                                  digits_between(d, low, high, places - 1));
        x = has ? net_either(d->n, x, y) : y;
        has = 1;
    }
    if (partly) {
        net_expr y = net_sequence(d->n, d->digit(d->n, b, b, places - 1),
                                  digits_between(d, low, last & high, places - 1));
        x = has ? net_either(d->n, x, y) : y;
    }
    return x;
}

static net_expr hex_digit(struct net *n, uint32_t first, uint32_t last, int place)
{
    uint32_t set[8] = {0};
    (void)place;
    for (uint32_t d = first; d <= last; d++) {
        int lower = "0123456789abcdef"[d], upper = "0123456789ABCDEF"[d];
        set[lower / 32] |= 1u << lower % 32;
        set[upper / 32] |= 1u << upper % 32;
    }
    return net_byte(n, set);
}

static net_expr unit(struct net *n, uint32_t first, uint32_t last)
{
    const struct digits hex = {n, 4, hex_digit};
    return net_sequence(n, net_text(n, "\\u", 2), digits_between(&hex, first, last, 4));
}

/* A character beyond the first plane is a number of two digits of ten bits. */
static net_expr surrogate(struct net *n, uint32_t first, uint32_t last, int place)
{
    uint32_t base = place ? 0xd800 : 0xdc00;
    return unit(n, base + first, base + last);
}

static net_expr escaped_range(struct net *n, uint32_t first, uint32_t last)
{
    const struct digits pair = {n, 10, surrogate};
    if (first >= 0x10000) return digits_between(&pair, first - 0x10000, last - 0x10000, 2);
    return unit(n, first, last);
}

static net_expr or_else(struct net *n, net_expr a, net_expr b)
{
    return a == NET_FAILED ? b : net_either(n, a, b);
}

/* 1: all characters beyond ASCII are in the ranges. */
static int has_wide(const struct net_range *ranges, int n_ranges)
{
    uint32_t c = 0x80, from = 0;
    while (c != from && c <= CHARS_LAST) {
        from = c;
        if (c == 0xd800) c = 0xe000;
        for (int i = 0; i < n_ranges; i++)
            if (ranges[i].first <= c && c <= ranges[i].last) c = ranges[i].last + 1;
    }
    return c > CHARS_LAST;
}

net_expr json_chars(struct net *n, const struct net_range *ranges, int n_ranges)
{
    static const struct net_range plain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, CHARS_LAST}},
                                  spelled[] = {{0, 0x1f},
                                               {0x7f, 0xd7ff},
                                               {0xe000, 0xffff},
                                               {0x10000, CHARS_LAST}};
    static const char named[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    struct net_range as_is[64];
    uint32_t short_ones[8] = {0};
    net_expr x = NET_FAILED;
    int n_as_is = 0, has_short = 0, wide = has_wide(ranges, n_ranges);
    if (wide) x = net_call(n, net_named(n, "wide"));
    for (int i = 0; i < n_ranges; i++)
        for (int k = 0; k < 3; k++) {
            uint32_t most = wide && plain[k].last > 0x7f ? 0x7f : plain[k].last,
                     a = ranges[i].first > plain[k].first ? ranges[i].first : plain[k].first,
                     b = ranges[i].last < most ? ranges[i].last : most;
            if (a <= b) as_is[n_as_is++] = (struct net_range){a, b};
            if (n_as_is < 64 - 3) continue;
            x = or_else(n, x, net_chars(n, as_is, n_as_is));
            n_as_is = 0;
        }
    if (n_as_is) x = or_else(n, x, net_chars(n, as_is, n_as_is));
    for (int i = 0; i < n_ranges; i++)
        for (int k = 0; k < 4; k++) {
            uint32_t a = ranges[i].first > spelled[k].first ? ranges[i].first : spelled[k].first,
                     b = ranges[i].last < spelled[k].last ? ranges[i].last : spelled[k].last;
            if (a <= b) x = or_else(n, x, escaped_range(n, a, b));
        }
    for (int k = 0; named[k]; k++)
        for (int i = 0; i < n_ranges; i++)
            if (ranges[i].first <= (uint32_t)named[k] && (uint32_t)named[k] <= ranges[i].last) {
                short_ones[(unsigned char)letters[k] / 32] |= 1u << (unsigned char)letters[k] % 32;
                has_short = 1;
            }
    if (has_short)
        x = or_else(n, x, net_sequence(n, net_text(n, "\\", 1), net_byte(n, short_ones)));
    return x == NET_FAILED ? net_chars(n, NULL, 0) : x;
}

net_expr json_any_chars(struct net *n)
{
    return net_repeat(n, net_call(n, net_named(n, "char")), 0, NET_NO_LIMIT);
}

/* ---- given texts */

net_expr json_chars_of(struct net *n, const char *text, size_t bytes)
{
    struct chars t = {text, text, text + bytes};
    net_expr x = net_empty(n);
    while (t.p < t.end) {
        uint32_t c = chars_next(&t);
        x = net_sequence(n, x, json_chars(n, &(struct net_range){c, c}, 1));
    }
    return x;
}

net_expr json_text_of(struct net *n, const char *text, size_t bytes)
{
    net_expr x = net_sequence(n, net_text(n, "\"", 1), json_chars_of(n, text, bytes));
    return net_sequence(n, x, net_text(n, "\"", 1));
}

static int by_bytes(const void *a, const void *b)
{
    const struct json_string *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static size_t in_common(const struct json_string *a, const struct json_string *b, size_t from)
{
    size_t at = from;
    while (at < a->bytes && at < b->bytes && a->text[at] == b->text[at]) at++;
    while (at > from && at < a->bytes && (a->text[at] & 0xc0) == 0x80) at--;
    while (at > from && at < b->bytes && (b->text[at] & 0xc0) == 0x80) at--;
    return at;
}

/* What is left of sorted texts [count] from byte AT on, where they agree up to there. */
static net_expr some(struct net *n, const struct json_string *text, int count, size_t at, int depth)
{
    enum { MAX_DEPTH = 500 }; /* beyond, one by one */
    size_t common = count == 1 ? text->bytes : in_common(&text[0], &text[count - 1], at);
    net_expr x = NET_FAILED;
    for (int i = 0, k; i < count; i = k) {
        k = i + 1;
        if (text[i].bytes == common) {
            while (k < count && text[k].bytes == common) k++;
            x = or_else(n, x, net_text(n, "\"", 1));
            continue;
        }
        while (k < count && depth < MAX_DEPTH && in_common(&text[i], &text[k], common) > common)
            k++;
        size_t from = common;
        if (k == i + 1) from = text[i].bytes;
        net_expr rest = k == i + 1 ? net_text(n, "\"", 1)
                                   : some(n, text + i, k - i, common, depth + 1);
        x = or_else(n, x,
                    net_sequence(n, json_chars_of(n, text[i].text + common, from - common), rest));
    }
    return net_sequence(n, json_chars_of(n, text->text + at, common - at), x);
}

net_expr json_text_of_some(struct net *n, struct json_string *text, int count)
{
    if (!count) return net_chars(n, NULL, 0);
    qsort(text, (size_t)count, sizeof *text, by_bytes);
    return net_sequence(n, net_text(n, "\"", 1), some(n, text, count, 0, 0));
}

/* What is left of each of the sorted texts T [count], which agree so far; one may be complete. */
static net_expr others(struct net *n, struct chars *t, int count, struct err *e)
{
    struct char_set all = {0};
    net_expr x = NET_FAILED;
    int i = 0, rc = 0;
    while (i < count && t[i].p == t[i].end) i++;
    if (!i) x = net_text(n, "\"", 1);
    while (i < count && !rc) {
        uint32_t c = chars_next(&t[i]);
        int from = i++;
        for (; i < count; i++) {
            struct chars next = t[i];
            if (chars_next(&next) != c) break;
            t[i] = next;
        }
        rc = char_set_add(&all, c, c, e);
        net_expr rest = rc ? NET_FAILED : others(n, t + from, i - from, e);
        if (rest == NET_FAILED) rc = -1;
        else x = or_else(n, x, net_sequence(n, json_chars(n, &(struct net_range){c, c}, 1), rest));
    }
    if (!rc) rc = char_set_invert(&all, e);
    net_expr other = rc ? NET_FAILED
                        : net_sequence(n, json_chars(n, all.range, all.n),
                                       net_call(n, net_named(n, "rest")));
    char_set_close(&all);
    return rc ? NET_FAILED : or_else(n, x, other);
}

static int by_text(const void *a, const void *b)
{
    const struct chars *x = a, *y = b;
    return strcmp(x->p, y->p);
}

net_expr json_other_text(struct net *n, const char *const *text, int count, struct err *e)
{
    struct chars *t = calloc((size_t)count + 1, sizeof *t);
    if (!t) {
        err_memory(e);
        return NET_FAILED;
    }
    for (int i = 0; i < count; i++)
        t[i] = (struct chars){text[i], text[i], text[i] + strlen(text[i])};
    qsort(t, (size_t)count, sizeof *t, by_text);
    net_expr x = others(n, t, count, e);
    free(t);
    if (x == NET_FAILED) {
        net_error(n, e);
        return x;
    }
    uint32_t rule = net_rule(n, "others", 6); /* of its own, so that all ends in a rule's end */
    net_define(n, rule, net_sequence(n, net_text(n, "\"", 1), x));
    return net_call(n, rule);
}

/* A number without an exponent, and as jansson writes it; a whole one that is written with a point
 * may have zeros behind it. */
static net_expr number_of(struct net *n, const json_t *value)
{
    char digits[DIGITS_TEXT], text[64] = "";
    if (json_is_real(value))
        for (int most = 15; most < 18; most++) { /* with the fewest digits that give it back */
            snprintf(text, sizeof text, "%.*g", most, json_real_value(value));
            if (strtod(text, NULL) == json_real_value(value)) break;
        }
    if (digits_plain(value, digits)) return net_chars(n, NULL, 0);
    net_expr x = net_text(n, digits, strlen(digits));
    if (digits_has_point(value) && !strchr(digits, '.')) { /* 2.0 is 2 */
        net_expr zeros = net_repeat(n, net_text(n, "0", 1), 1, NET_NO_LIMIT);
        x = net_sequence(n, x, net_repeat(n, net_sequence(n, net_text(n, ".", 1), zeros), 0, 1));
    }
    return strchr(text, 'e') ? net_either(n, x, net_text(n, text, strlen(text))) : x;
}

net_expr json_value_of(struct net *n, json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;
    int first = 1;
    net_expr ws = net_call(n, net_named(n, "ws")), comma = net_call(n, net_named(n, "comma")), x;
    if (digits_is(value)) return number_of(n, value);
    if (json_is_string(value))
        return json_text_of(n, json_string_value(value), json_string_length(value));
    if (json_is_object(value)) {
        x = net_sequence(n, net_text(n, "{", 1), ws);
        json_object_foreach (value, key, member) {
            if (!first) x = net_sequence(n, x, comma);
            x = net_sequence(n, x, json_text_of(n, key, strlen(key)));
            x = net_sequence(n, x, net_call(n, net_named(n, "colon")));
            x = net_sequence(n, x, json_value_of(n, member));
            first = 0;
        }
        if (!first) x = net_sequence(n, x, ws);
        return net_sequence(n, x, net_text(n, "}", 1));
    }
    if (json_is_array(value)) {
        x = net_sequence(n, net_text(n, "[", 1), ws);
        json_array_foreach (value, i, member) {
            if (i) x = net_sequence(n, x, comma);
            x = net_sequence(n, x, json_value_of(n, member));
        }
        if (json_array_size(value)) x = net_sequence(n, x, ws);
        return net_sequence(n, x, net_text(n, "]", 1));
    }
    const char *word = json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false";
    return net_text(n, word, strlen(word));
}
