/* chars.h: reading characters and sets of them from a notation's text. */
#ifndef CORE_CHARS_H
#define CORE_CHARS_H

#include "core/grammar/net.h"

/* A text that is being read. */
struct chars {
    const char *begin, *p, *end;
};

/* The next character, which must be there; 0xfffd for a byte that is no UTF-8. */
uint32_t chars_next(struct chars *t);
/* The value of exactly DIGITS hexadecimal digits, which are passed; -1: they are not there. */
int64_t chars_hex(struct chars *t, int digits);
/* A decimal number of at most 6 digits; -1: none, or a longer one. */
int chars_number(struct chars *t);

/* A set of characters as ranges. */
enum { CHARS_LAST = 0x10ffff };
struct char_set {
    struct net_range *range; /* [n] */
    int n, cap;
};
int char_set_add(struct char_set *s, uint32_t first, uint32_t last, struct err *e);
/* All other characters. */
int char_set_invert(struct char_set *s, struct err *e);
void char_set_close(struct char_set *s);

#endif
