/* units.h: amounts as people read them. */
#ifndef CORE_UNITS_H
#define CORE_UNITS_H

#include <stdint.h>

enum { UNITS_TEXT = 32 };

/* "5.2 MB", "140 ms": three digits; a nonzero value never shows as 0. */
const char *units_bytes(uint64_t bytes, char text[UNITS_TEXT]);
const char *units_seconds(double seconds, char text[UNITS_TEXT]);

/* What a noun of N things ends with. */
static inline const char *units_s(uint64_t n) { return n == 1 ? "" : "s"; }

#endif
