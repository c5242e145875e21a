/* lang.h: regular languages of strings, as hash-consed expressions over Unicode code points with
 * derivatives (Brzozowski 1964; Owens, Reppy, Turon 2009). Owns: the expressions, their boolean
 * operations, regular expressions of ECMA-262, formats, decimal numbers. Must not know: JSON,
 * schemas, tokens.
 *
 * Equal expressions have equal ids. Expressions are immutable; a step is remembered. Every id but
 * LANG_NONE stands for a language with at least one string: the constructors that can make an empty
 * one (and, not, length, step) decide it. What that costs is bounded by the limits; whoever exceeds
 * them gets LANG_NONE, and lang_check tells it from an empty language. One thread at a time. */
#ifndef CORE_LANG_H
#define CORE_LANG_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct lang;
typedef uint32_t lang_id;
enum { LANG_NONE, LANG_EMPTY, LANG_ALL }; /* no string; only ""; every string */

struct lang_limits {
    uint32_t nodes; /* most expressions and byte states */
    uint64_t work;  /* most elementary operations between two calls of lang_check */
};

int lang_open(struct lang **l, const struct lang_limits *limits, struct err *e);
void lang_close(struct lang *l);
/* -1 with "too complex ..." in *e (or out of memory) if a limit was exceeded since the last call;
 * begins a new count of work. */
int lang_check(struct lang *l, struct err *e);
/* Everything made from now on goes when lang_rewind is called; what was made before stays. */
void lang_keep(struct lang *l);
void lang_rewind(struct lang *l);

struct lang_range {
    uint32_t lo, hi; /* code points, both included */
};
lang_id lang_chars(struct lang *l, const struct lang_range *r, int n);
lang_id lang_text(struct lang *l, const char *utf8, size_t n);
lang_id lang_cat(struct lang *l, lang_id a, lang_id b);
lang_id lang_or(struct lang *l, lang_id a, lang_id b);
lang_id lang_and(struct lang *l, lang_id a, lang_id b);
lang_id lang_not(struct lang *l, lang_id a);
/* A repeated lo to hi times; hi -1: without end. */
lang_id lang_repeat(struct lang *l, lang_id a, int lo, int hi);
/* The strings of A with lo to hi code points; hi -1: without end. */
lang_id lang_length(struct lang *l, lang_id a, int64_t lo, int64_t hi);

/* A regular expression of ECMA-262 with flag u: the strings that it matches anywhere (JSON Schema's
 * pattern) or, with WHOLE, from begin to end. -1: *e names the syntax error or what is not regular
 * (back references). */
int lang_regex(struct lang *l, const char *pattern, size_t n, int whole, lang_id *x, struct err *e);
/* The strings of a format of JSON Schema; 0: the format is not known. */
int lang_format(struct lang *l, const char *name, lang_id *x);

/* Texts of JSON numbers by value. Bounds and divisor are texts of JSON numbers (any exponent),
 * exact; NULL: none. Without any constraint but integer every spelling is in the language,
 * exponents included; otherwise those without exponent. -0 is 0; an integer may end in ".0". */
struct lang_number {
    const char *min, *max, *multiple_of;
    int min_open, max_open; /* exclusive */
    int integer;
};
int lang_decimal(struct lang *l, const struct lang_number *n, lang_id *x, struct err *e);
/* The spellings of one number. */
int lang_equal(struct lang *l, const char *number, lang_id *x, struct err *e);

int lang_has_empty(const struct lang *l, lang_id a);
/* Derivative: what may follow C. */
lang_id lang_step(struct lang *l, lang_id a, uint32_t c);
/* 1 if a string of A begins with a code point in [lo, hi]. */
int lang_begins(struct lang *l, lang_id a, uint32_t lo, uint32_t hi);
int lang_contains(struct lang *l, lang_id a, const char *utf8, size_t n);
/* Number of strings, at most CAP. */
uint64_t lang_count(struct lang *l, lang_id a, uint64_t cap);

/* The same languages byte by byte in UTF-8. A byte state is an expression and the part of a
 * character that was read; 0 is dead, all others are live. */
typedef uint32_t lang_bytes;
lang_bytes lang_bytes_of(struct lang *l, lang_id a);
/* The expression of a state between characters; LANG_NONE inside one. */
lang_id lang_of_bytes(const struct lang *l, lang_bytes s);
/* Row of S: [256] next states, LANG_UNKNOWN where lang_byte has not been asked yet. Valid until the
 * next call that makes anything. */
#define LANG_UNKNOWN UINT32_MAX
const lang_bytes *lang_row(struct lang *l, lang_bytes s);
lang_bytes lang_byte(struct lang *l, lang_bytes s, uint8_t byte);

#endif
