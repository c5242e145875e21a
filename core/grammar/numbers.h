/* numbers.h: numbers of JSON as expressions of a net: between bounds, multiples of a step; without
 * an exponent. Must not know: schemas. */
#ifndef CORE_NUMBERS_H
#define CORE_NUMBERS_H

#include "core/grammar/net.h"

/* A number as it is written, without an exponent: whole and 0.digits, below zero where is_negative.
 */
enum { NUMBERS_DIGITS = 350 };
struct decimal {
    int is_negative;
    char whole[NUMBERS_DIGITS + 1];  /* in front of the point, without zeros at the begin; "0" */
    char digits[NUMBERS_DIGITS + 1]; /* behind the point, without zeros at the end */
};
/* The number that TEXT [n], a number of JSON, is; -1: of more digits than there is room for. */
int decimal_read(struct decimal *d, const char *text, size_t n);
/* The decimal with the fewest digits that is read as X; -1: X is not finite, or as above. */
int decimal_of(struct decimal *d, double x);
/* As a is less, equal, more than b: -1, 0, 1. */
int decimal_order(const struct decimal *a, const struct decimal *b);
int decimal_is_zero(const struct decimal *d);

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
