/* numbers.h: numbers of JSON as expressions of a net: between bounds, multiples of a step; without
 * an exponent. Must not know: schemas. */
#ifndef CORE_NUMBERS_H
#define CORE_NUMBERS_H

#include "core/grammar/net.h"

/* A number as it is written: whole + 0.digits, below zero where is_negative. */
enum { NUMBERS_DIGITS = 20 };
struct decimal {
    int is_negative;
    int64_t whole;
    char digits[NUMBERS_DIGITS + 1]; /* behind the point, without zeros at the end */
};
/* The decimal with the fewest digits that is read as X; -1: beyond 10^15, or of more digits than
 * there is room for. */
int decimal_of(struct decimal *d, double x);

/* Numbers with low <= x <= high; whole ones, or with decimals. A bound is infinite where has_low,
 * has_high is 0; it is itself not among them where it is open. */
struct number_bounds {
    int has_low, has_high, low_open, high_open, whole;
    struct decimal low, high;
};
net_expr numbers_between(struct net *n, const struct number_bounds *b);

/* Multiples of STEP, above zero; whole ones, or with decimals. NET_FAILED: more cases than are
 * served. */
net_expr numbers_multiples(struct net *n, const struct decimal *step, int whole);

#endif
