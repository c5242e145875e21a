#include "core/grammar/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static net_expr or_else(struct net *n, net_expr a, net_expr b)
{
    return a == NET_FAILED ? b : b == NET_FAILED ? a : net_either(n, a, b);
}

static net_expr digit(struct net *n, int first, int last)
{
    return net_chars(n, &(struct net_range){'0' + (uint32_t)first, '0' + (uint32_t)last}, 1);
}

static net_expr digits(struct net *n, int at_least)
{
    return net_repeat(n, digit(n, 0, 9), at_least, NET_NO_LIMIT);
}

static int64_t power(int k)
{
    int64_t x = 1;
    while (k--) x *= 10;
    return x;
}

/* The digits of TEXT [n] without its sign, point and exponent; *point: how many of them stand in
 * front of the point. Returns their number, -1: too many. */
static int digits_of_text(const char *text, size_t n, char *out, int room, int *point)
{
    int count = 0, has_point = 0;
    size_t i = text[0] == '-';
    *point = 0;
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            has_point = 1;
            continue;
        }
        *point += !has_point;
        if (!count && text[i] == '0') { /* in front of all others */
            *point -= 1;
            continue;
        }
        if (count == room) {
            if (text[i] != '0') return -1;
            continue; /* of no weight, or counted by the point */
        }
        out[count++] = text[i];
    }
    if (i < n) {
        long exponent = strtol(text + i + 1, NULL, 10);
        if (exponent > 100000) exponent = 100000;
        if (exponent < -100000) exponent = -100000;
        *point += (int)exponent;
    }
    while (count && out[count - 1] == '0') count--;
    return count;
}

int decimal_read(struct decimal *d, const char *text, size_t n)
{
    char all[2 * NUMBERS_DIGITS];
    int point, count = digits_of_text(text, n, all, 2 * NUMBERS_DIGITS, &point);
    memset(d, 0, sizeof *d);
    d->whole[0] = '0';
    if (count < 0) return -1;
    if (!count) return 0;
    if (point > NUMBERS_DIGITS || count - point > NUMBERS_DIGITS) return -1;
    d->is_negative = text[0] == '-';
    for (int i = 0; i < point; i++) d->whole[i] = i < count ? all[i] : '0';
    for (int i = point < 0 ? point : 0, k = 0; i < 0; i++) d->digits[k++] = '0';
    for (int i = point > 0 ? point : 0, k = point < 0 ? -point : 0; i < count; i++)
        d->digits[k++] = all[i];
    return 0;
}

int decimal_of(struct decimal *d, double x)
{
    char text[64];
    int n = 15;
    if (!isfinite(x)) return -1;
    do snprintf(text, sizeof text, "%.*g", n++, x);
    while (n < 18 && strtod(text, NULL) != x);
    return decimal_read(d, text, strlen(text));
}

/* Of numbers without signs and zeros at their begin. */
static int order_of_whole(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    int order = na == nb ? strcmp(a, b) : na < nb ? -1 : 1;
    return (order > 0) - (order < 0);
}

int decimal_is_zero(const struct decimal *d) { return d->whole[0] == '0' && !*d->digits; }

int decimal_order(const struct decimal *a, const struct decimal *b)
{
    int below_a = a->is_negative && !decimal_is_zero(a),
        below_b = b->is_negative && !decimal_is_zero(b);
    if (below_a != below_b) return below_a ? -1 : 1;
    int order = order_of_whole(a->whole, b->whole);
    if (!order) order = strcmp(a->digits, b->digits);
    order = (order > 0) - (order < 0);
    return below_a ? -order : order;
}

/* ---- whole numbers, as their digits */

enum { WHOLE = NUMBERS_DIGITS + 2 };

static void add_one(char *x)
{
    size_t i = strlen(x);
    while (i && x[i - 1] == '9') x[--i] = '0';
    if (i) {
        x[i - 1]++;
        return;
    }
    memmove(x + 1, x, strlen(x) + 1);
    x[0] = '1';
}

/* 0: there is none below zero. */
static int take_one(char *x)
{
    size_t i = strlen(x);
    if (!strcmp(x, "0")) return 0;
    while (x[i - 1] == '0') x[--i] = '9';
    x[i - 1]--;
    if (x[0] == '0' && x[1]) memmove(x, x + 1, strlen(x));
    return 1;
}

static int is_all(const char *x, char c)
{
    while (*x == c) x++;
    return !*x;
}

/* Numbers of as many digits as A and B have, from A to B; NULL: the least, the greatest. */
static net_expr of_places(struct net *n, const char *a, const char *b, int places)
{
    if (a && is_all(a, '0')) a = NULL;
    if (b && is_all(b, '9')) b = NULL;
    if (places == 0) return net_empty(n);
    if (!a && !b) return net_repeat(n, digit(n, 0, 9), places, places);
    int first = a ? *a - '0' : 0, last = b ? *b - '0' : 9;
    const char *rest_a = a ? a + 1 : NULL, *rest_b = b ? b + 1 : NULL;
    if (first == last)
        return net_sequence(n, digit(n, first, first), of_places(n, rest_a, rest_b, places - 1));
    net_expr x = NET_FAILED;
    if (rest_a && !is_all(rest_a, '0')) {
        x = net_sequence(n, digit(n, first, first), of_places(n, rest_a, NULL, places - 1));
        first++;
    }
    int partly = rest_b && !is_all(rest_b, '9');
    if (first + partly <= last)
        x = or_else(n, x,
                    net_sequence(n, digit(n, first, last - partly),
                                 net_repeat(n, digit(n, 0, 9), places - 1, places - 1)));
    if (partly)
        x = or_else(n, x,
                    net_sequence(n, digit(n, last, last), of_places(n, NULL, rest_b, places - 1)));
    return x;
}

/* Whole numbers from A to B, without a bound where B is NULL; NET_FAILED: none. */
static net_expr whole_numbers(struct net *n, const char *a, const char *b)
{
    char low[WHOLE + 1], high[WHOLE + 1];
    net_expr x = NET_FAILED;
    int from = (int)strlen(a), to = b ? (int)strlen(b) : from;
    if (b && order_of_whole(a, b) > 0) return x;
    for (int places = from; places <= to; places++) {
        memset(low, '0', sizeof low);
        memset(high, '9', sizeof high);
        low[0] = places == 1 ? '0' : '1';
        low[places] = high[places] = 0;
        x = or_else(n, x,
                    of_places(n, places == from ? a : low, b && places == to ? b : high, places));
    }
    if (!b)
        x = or_else(
            n, x, net_sequence(n, digit(n, 1, 9), net_repeat(n, digit(n, 0, 9), to, NET_NO_LIMIT)));
    return x;
}

/* ---- decimals */

/* Digits behind a point between two sequences of digits, of which either may be without effect. */
struct fraction {
    struct net *n;
    const char *low, *high;
    int low_open, high_open;
};

static int digit_at(const char *digits, int i)
{
    return i < (int)strlen(digits) ? digits[i] - '0' : 0;
}

/* 1: a number whose digits end in front of the I-th is within the bounds that it has kept to so far
 * exactly: at_low, at_high. */
static int may_end(const struct fraction *f, int i, int at_low, int at_high)
{
    if (at_low && (i < (int)strlen(f->low) || f->low_open)) return 0;
    return !(at_high && i >= (int)strlen(f->high) && f->high_open);
}

/* Digits from the I-th on, at least one; NET_FAILED: none. */
static net_expr more_digits(const struct fraction *f, int i, int at_low, int at_high);

/* Digit A to B at I, and what may follow. */
static net_expr after_digits(const struct fraction *f, int a, int b, int i, int at_low, int at_high)
{
    if (a > b) return NET_FAILED;
    net_expr x = more_digits(f, i + 1, at_low, at_high), d = digit(f->n, a, b);
    if (!may_end(f, i + 1, at_low, at_high)) return x == NET_FAILED ? x : net_sequence(f->n, d, x);
    if (x == NET_FAILED) return d;
    return net_sequence(f->n, d, net_repeat(f->n, x, 0, 1));
}

static net_expr more_digits(const struct fraction *f, int i, int at_low, int at_high)
{
    struct net *n = f->n;
    int past_low = i >= (int)strlen(f->low), past_high = i >= (int)strlen(f->high);
    if (at_high && past_high) { /* only zeros may follow */
        int reached = !at_low || past_low;
        if (!reached || f->high_open || (at_low && f->low_open)) return NET_FAILED;
        return net_repeat(n, digit(n, 0, 0), 1, NET_NO_LIMIT);
    }
    if (!at_high && (!at_low || (past_low && !f->low_open))) return digits(n, 1);
    if (!at_high && past_low)
        return net_sequence(n, net_repeat(n, digit(n, 0, 0), 0, NET_NO_LIMIT),
                            net_sequence(n, digit(n, 1, 9), digits(n, 0)));
    int low = at_low ? digit_at(f->low, i) : 0, high = at_high ? digit_at(f->high, i) : 9;
    if (at_low && at_high && low == high) return after_digits(f, low, low, i, 1, 1);
    net_expr x = after_digits(f, low + at_low, high - at_high, i, 0, 0);
    if (at_low) x = or_else(n, x, after_digits(f, low, low, i, 1, 0));
    if (at_high) x = or_else(n, x, after_digits(f, high, high, i, 0, 1));
    return x;
}

/* WHOLE (NET_FAILED: none) and what may stand behind the point. */
static net_expr with_fraction(const struct fraction *f, net_expr whole, int at_low, int at_high)
{
    if (whole == NET_FAILED) return whole;
    net_expr x = more_digits(f, 0, at_low, at_high);
    if (x != NET_FAILED) x = net_sequence(f->n, net_text(f->n, ".", 1), x);
    if (may_end(f, 0, at_low, at_high))
        x = x == NET_FAILED ? net_empty(f->n) : net_repeat(f->n, x, 0, 1);
    return x == NET_FAILED ? x : net_sequence(f->n, whole, x);
}

/* Numbers >= 0 within bounds that are >= 0. */
static net_expr above_zero(struct net *n, const struct number_bounds *b)
{
    const struct fraction f = {n, b->low.digits, b->high.digits, b->low_open, b->high_open};
    char low[WHOLE + 1] = "0", high[WHOLE + 1], next[WHOLE + 1];
    strcpy(low, b->low.whole[0] ? b->low.whole : "0");
    strcpy(high, b->high.whole);
    if (b->whole) {
        if (*f.low || f.low_open) add_one(low);
        if (b->has_high && !*f.high && f.high_open && !take_one(high)) return NET_FAILED;
        return whole_numbers(n, low, b->has_high ? high : NULL);
    }
    if (b->has_high && order_of_whole(low, high) > 0) return NET_FAILED;
    if (b->has_high && !strcmp(low, high))
        return with_fraction(&f, whole_numbers(n, low, low), 1, 1);
    net_expr x = with_fraction(&f, whole_numbers(n, low, low), 1, 0);
    strcpy(next, low);
    add_one(next);
    if (!b->has_high) return or_else(n, x, with_fraction(&f, whole_numbers(n, next, NULL), 0, 0));
    x = or_else(n, x, with_fraction(&f, whole_numbers(n, high, high), 0, 1));
    take_one(high);
    return or_else(n, x, with_fraction(&f, whole_numbers(n, next, high), 0, 0));
}

net_expr numbers_between(struct net *n, const struct number_bounds *b)
{
    static const struct decimal zero = {.whole = "0"};
    struct number_bounds up = *b, down = *b;
    net_expr x = NET_FAILED;
    int low_below = !b->has_low || b->low.is_negative,
        high_above = !b->has_high || !b->high.is_negative;
    if (high_above) {
        if (low_below) up.has_low = 1, up.low = zero, up.low_open = 0;
        x = above_zero(n, &up);
    }
    if (low_below || decimal_is_zero(&b->low)) { /* also -0 */
        down.low = high_above ? zero : b->high;
        down.low_open = high_above ? b->has_high && decimal_is_zero(&b->high) && b->high_open
                                   : b->high_open;
        down.has_high = b->has_low;
        down.high = b->low;
        down.high_open = b->low_open;
        net_expr y = above_zero(n, &down);
        if (y != NET_FAILED) x = or_else(n, x, net_sequence(n, net_text(n, "-", 1), y));
    }
    return x == NET_FAILED ? net_chars(n, NULL, 0) : x;
}

/* ---- multiples: what is read so far, as a whole number without its point, has a remainder */

enum { MAX_RULES = 5000 };

struct multiples {
    struct net *n;
    int64_t step; /* of numbers times 10^places */
    int places, whole;
    uint32_t *rule; /* [(places + 2) * step]: of a remainder, in front of the point, behind k digits
                     */
};

static int is_multiple(const struct multiples *m, int64_t remainder, int missing)
{
    return remainder * power(missing) % m->step == 0;
}

static uint32_t rule_of(const struct multiples *m, int64_t remainder, int stage)
{
    return m->rule[(size_t)stage * (size_t)m->step + (size_t)remainder];
}

/* Stage 0: digits in front of the point; 1 + k: k behind it. */
static net_expr remainder_of(const struct multiples *m, int64_t remainder, int stage)
{
    struct net *n = m->n;
    net_expr x = NET_FAILED;
    int k = stage - 1;
    if (stage && k == m->places) /* only zeros may follow */
        return remainder ? net_chars(n, NULL, 0)
                         : net_repeat(n, digit(n, 0, 0), k == 0, NET_NO_LIMIT);
    for (int d = 0; d < 10; d++)
        x = or_else(n, x,
                    net_sequence(n, digit(n, d, d),
                                 net_call(n, rule_of(m, (remainder * 10 + d) % m->step,
                                                     stage ? stage + 1 : 0))));
    if (stage == 0 && !m->whole)
        x = or_else(n, x,
                    net_sequence(n, net_text(n, ".", 1), net_call(n, rule_of(m, remainder, 1))));
    if (stage != 1 && is_multiple(m, remainder, stage ? m->places - k : m->places))
        x = or_else(n, x, net_empty(n));
    return x;
}

net_expr numbers_multiples(struct net *n, const struct decimal *step, int whole)
{
    struct multiples m = {n, 0, (int)strlen(step->digits), whole, NULL};
    if (m.places > 9 || strlen(step->whole) > 9) return NET_FAILED;
    m.step = atoll(step->whole);
    if (m.step > MAX_RULES) return NET_FAILED;
    m.step = m.step * power(m.places) + (m.places ? atoll(step->digits) : 0);
    int stages = whole ? 1 : m.places + 2;
    if (m.step < 1 || m.step * stages > MAX_RULES) return NET_FAILED;
    size_t rules = (size_t)m.step * (size_t)stages;
    if (!(m.rule = malloc(rules * sizeof *m.rule))) return NET_FAILED;
    for (size_t i = 0; i < rules; i++) m.rule[i] = net_rule(n, "multiple", 8);
    for (size_t i = 0; i < rules; i++)
        net_define(n, m.rule[i], remainder_of(&m, (int64_t)i % m.step, (int)((int64_t)i / m.step)));
    net_expr x = NET_FAILED; /* no zeros in front but one alone */
    for (int d = 1; d < 10; d++)
        x = or_else(n, x, net_sequence(n, digit(n, d, d), net_call(n, rule_of(&m, d % m.step, 0))));
    net_expr zero = net_empty(n);
    if (!whole)
        zero = net_repeat(n, net_sequence(n, net_text(n, ".", 1), net_call(n, rule_of(&m, 0, 1))),
                          0, 1);
    x = or_else(n, x, net_sequence(n, digit(n, 0, 0), zero));
    free(m.rule);
    return net_sequence(n, net_repeat(n, net_text(n, "-", 1), 0, 1), x);
}
