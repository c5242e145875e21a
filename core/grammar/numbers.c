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

int decimal_of(struct decimal *d, double x)
{
    char text[400];
    int n = 15;
    *d = (struct decimal){.is_negative = x < 0};
    x = fabs(x);
    if (!(x <= 1e15)) return -1;
    do snprintf(text, sizeof text, "%.*g", n++, x);
    while (n < 18 && strtod(text, NULL) != x);
    const char *exponent = strchr(text, 'e');
    int behind = 0, counted = 0;
    for (const char *p = text; p < (exponent ? exponent : text + strlen(text)); p++)
        if (*p == '.') counted = 1;
        else behind += counted;
    if (exponent) behind -= atoi(exponent + 1);
    if (behind > NUMBERS_DIGITS) return -1;
    snprintf(text, sizeof text, "%.*f", behind > 0 ? behind : 0, x);
    char *point = strchr(text, '.');
    if (point) *point = 0;
    d->whole = strtoll(text, NULL, 10);
    if (!point) return 0;
    snprintf(d->digits, sizeof d->digits, "%s", point + 1);
    for (size_t k = strlen(d->digits); k && d->digits[k - 1] == '0'; k--) d->digits[k - 1] = 0;
    return 0;
}

/* ---- whole numbers */

/* Numbers of exactly PLACES digits, leading zeros counted, from A to B. */
static net_expr of_places(struct net *n, int64_t a, int64_t b, int places)
{
    if (places == 0) return net_empty(n);
    int64_t unit = power(places - 1), high = unit - 1;
    int first = (int)(a / unit), last = (int)(b / unit);
    a %= unit, b %= unit;
    if (first == last)
        return net_sequence(n, digit(n, first, first), of_places(n, a, b, places - 1));
    net_expr x = NET_FAILED;
    if (a) {
        x = net_sequence(n, digit(n, first, first), of_places(n, a, high, places - 1));
        first++;
    }
    int partly = b != high;
    if (first + partly <= last)
        x = or_else(n, x,
                    net_sequence(n, digit(n, first, last - partly),
                                 net_repeat(n, digit(n, 0, 9), places - 1, places - 1)));
    if (partly)
        x = or_else(n, x, net_sequence(n, digit(n, last, last), of_places(n, 0, b, places - 1)));
    return x;
}

/* Whole numbers from A >= 0 to B, without a bound where B is INT64_MAX; NET_FAILED: none. */
static net_expr whole_numbers(struct net *n, int64_t a, int64_t b)
{
    enum { PLACES = 16 };
    net_expr x = NET_FAILED;
    for (int places = 1; places <= PLACES; places++) {
        int64_t low = places == 1 ? 0 : power(places - 1), high = power(places) - 1;
        if (a > low) low = a;
        if (b < high) high = b;
        if (low <= high) x = or_else(n, x, of_places(n, low, high, places));
    }
    if (b == INT64_MAX)
        x = or_else(
            n, x,
            net_sequence(n, digit(n, 1, 9), net_repeat(n, digit(n, 0, 9), PLACES, NET_NO_LIMIT)));
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
    int64_t low = b->low.whole, high = b->has_high ? b->high.whole : INT64_MAX;
    if (b->whole) {
        if (*f.low || f.low_open) low++;
        if (b->has_high && !*f.high && f.high_open) high--;
        return low > high ? NET_FAILED : whole_numbers(n, low, high);
    }
    if (low > high) return NET_FAILED;
    if (b->has_high && low == high) return with_fraction(&f, whole_numbers(n, low, low), 1, 1);
    net_expr x = with_fraction(&f, whole_numbers(n, low, low), 1, 0);
    if (!b->has_high)
        return or_else(n, x, with_fraction(&f, whole_numbers(n, low + 1, high), 0, 0));
    x = or_else(n, x, with_fraction(&f, whole_numbers(n, low + 1, high - 1), 0, 0));
    return or_else(n, x, with_fraction(&f, whole_numbers(n, high, high), 0, 1));
}

static int is_zero(const struct decimal *d) { return d->whole == 0 && !*d->digits; }

net_expr numbers_between(struct net *n, const struct number_bounds *b)
{
    static const struct decimal zero;
    struct number_bounds up = *b, down = *b;
    net_expr x = NET_FAILED;
    int low_below = !b->has_low || b->low.is_negative,
        high_above = !b->has_high || !b->high.is_negative;
    if (high_above) {
        if (low_below) up.has_low = 1, up.low = zero, up.low_open = 0;
        x = above_zero(n, &up);
    }
    if (low_below || is_zero(&b->low)) { /* also -0 */
        down.low = high_above ? zero : b->high;
        down.low_open = high_above ? b->has_high && is_zero(&b->high) && b->high_open
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
    struct multiples m = {n, step->whole, (int)strlen(step->digits), whole, NULL};
    if (m.places > 9 || m.step > MAX_RULES) return NET_FAILED;
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
