#include "core/text/reasoning.h"

#include <stdlib.h>
#include <string.h>

static const char begins[] = "<think>", ends[] = "</think>";
enum { N_BEGINS = sizeof begins - 1, N_ENDS = sizeof ends - 1 };
enum { AT_START, INSIDE, BEHIND };

static size_t white(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t')) i++;
    return i;
}

void reasoning_open(struct reasoning *r, const char *prompt, size_t n)
{
    *r = (struct reasoning){.state = AT_START};
    while (n && white(prompt + n - 1, 1)) n--;
    if (n >= N_BEGINS && !memcmp(prompt + n - N_BEGINS, begins, N_BEGINS)) r->state = INSIDE;
}

void reasoning_close(struct reasoning *r)
{
    free(r->held);
    *r = (struct reasoning){0};
}

int reasoning_push(struct reasoning *r, const char *piece, size_t n, struct err *e)
{
    if (r->n_taken) memmove(r->held, r->held + r->n_taken, r->n_held -= r->n_taken);
    r->n_taken = 0;
    if (r->n_held + n > r->cap) {
        size_t cap = 2 * (r->n_held + n) + 64;
        char *grown = realloc(r->held, cap);
        if (!grown) return err_memory(e);
        r->held = grown;
        r->cap = cap;
    }
    if (n) memcpy(r->held + r->n_held, piece, n);
    r->n_held += n;
    return 0;
}

void reasoning_end(struct reasoning *r) { r->at_end = 1; }

/* Bytes at the end of S [n] that may begin the end tag. */
static size_t may_begin_end(const char *s, size_t n)
{
    size_t k = n < N_ENDS - 1 ? n : N_ENDS - 1;
    while (k && memcmp(s + n - k, ends, k)) k--;
    return k;
}

/* At the start: the length of the tag with the white space before it; 0: there is none; -1: it may
 * still come. */
static int begin_tag(const struct reasoning *r, const char *s, size_t n)
{
    size_t at = white(s, n), left = n - at;
    if (left >= N_BEGINS) return memcmp(s + at, begins, N_BEGINS) ? 0 : (int)(at + N_BEGINS);
    return r->at_end || memcmp(s + at, begins, left) ? 0 : -1;
}

int reasoning_next(struct reasoning *r, enum reasoning_part *part, const char **text, size_t *n)
{
    size_t left = r->n_held - r->n_taken, give = left;
    if (!left) return 0; /* perhaps nothing was pushed, and held is NULL */
    const char *s = r->held + r->n_taken;
    if (r->state == AT_START) {
        int tag = begin_tag(r, s, left);
        if (tag < 0) return 0;
        r->state = tag ? INSIDE : BEHIND;
        if (tag) {
            *part = REASONING_TAG;
            give = (size_t)tag;
            goto found;
        }
    }
    *part = r->state == INSIDE ? REASONING_TEXT : REASONING_ANSWER;
    if (r->state == INSIDE) {
        const char *end = memmem(s, left, ends, N_ENDS);
        if (end == s) {
            *part = REASONING_TAG;
            give = N_ENDS;
            r->state = BEHIND;
        } else if (end) {
            give = (size_t)(end - s);
        } else if (!r->at_end) {
            give = left - may_begin_end(s, left);
        }
    }
found:
    if (!give) return 0;
    *text = s;
    *n = give;
    r->n_taken += give;
    return 1;
}
