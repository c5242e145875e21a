/* out.h: a growing buffer of bytes, and the only writer of JSON in answers: no spaces, keys in the
 * caller's order, numbers and escapes in one fixed form, so that equal answers are equal bytes.
 * Must not know: what is written.
 *
 * A failed allocation latches: later calls do nothing, out_failed says so at the end. */
#ifndef CLI_TEXT_OUT_H
#define CLI_TEXT_OUT_H

#include <stddef.h>
#include <stdint.h>

struct out {
    char *p; /* [n], not NUL-terminated */
    size_t n, cap;
    int failed;
};

/* Zero-initialize. */
void out_free(struct out *o);
void out_clear(struct out *o);
/* 1 when an allocation failed since the last clear. */
int out_failed(const struct out *o);
void out_bytes(struct out *o, const void *p, size_t n);
void out_text(struct out *o, const char *s);
void out_int(struct out *o, int64_t v);
/* A JSON string, quotes included. Only what JSON demands is escaped; a byte of S [n] that is not
 * UTF-8 becomes U+FFFD. */
void out_string(struct out *o, const char *s, size_t n);
/* S [n] as a terminal may have it: control characters but newline and tab as ^[, ^M or <U+009B>. */
void out_shown(struct out *o, const char *s, size_t n);
/* S [n] within one line, as a journal keeps it: a line's end is DLE n, DLE itself DLE d. */
void out_folded(struct out *o, const char *s, size_t n);
/* What was folded into *o from byte FROM on, as it was. */
void out_unfold(struct out *o, size_t from);
/* A log-probability: rounded to fp32 and printed with the 9 digits that give back that fp32 value.
 * The rounding hides the last bits of a double, in which the C libraries' exp and log differ
 * between machines. -inf is -9999.0, as in vLLM. */
void out_logprob(struct out *o, double v);
/* A finite number, rounded and printed likewise. */
void out_real(struct out *o, double v);

#endif
