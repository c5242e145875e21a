/* digits.h: numbers in JSON schemas with all digits that they are written with (json_long.h).
 * Must not know: keywords, nets. */
#ifndef CORE_DIGITS_H
#define CORE_DIGITS_H

#include "core/base/json_long.h"
#include "core/grammar/numbers.h"

/* 1: V is a number, in either form. */
int digits_is(const json_t *v);
/* 1: V is a number that jansson does not hold. */
int digits_is_long(const json_t *v);
/* 1: it is written with a point or an exponent. */
int digits_has_point(const json_t *v);
/* 1: no number in V has too many digits. */
int digits_have_room(const json_t *v);
/* *d: the number; -1: it has more digits than there is room for. */
int digits_of(const json_t *v, struct decimal *d);
/* As a is less, equal, more than b: -1, 0, 1; DIGITS_UNKNOWN: one has too many digits. */
enum { DIGITS_UNKNOWN = 2 };
int digits_order(const json_t *a, const json_t *b);
/* The text of V without white space, its numbers without exponents where they have room; to be
 * freed. NULL: memory. */
char *digits_dump(const json_t *v);
/* The same, equal for values that JSON Schema takes for equal. */
char *digits_key(const json_t *v);
/* The same of one number. */
enum { DIGITS_TEXT = 2 * NUMBERS_DIGITS + 4 };
int digits_plain(const json_t *v, char text[DIGITS_TEXT]);

#endif
