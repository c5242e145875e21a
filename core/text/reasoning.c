#include "core/text/reasoning.h"

#include <stdlib.h>
#include <string.h>

/* Mistral's Magistral and Ministral, Seed-OSS, gpt-oss (harmony), Gemma 4, all others. */
static const struct reasoning_tags rows[] = {
    {"[THINK]", "[THINK]", "[/THINK]", NULL, NULL, 1},
    {"seed:think>", "<seed:think>", "</seed:think>", NULL, NULL, 1},
    {"<|channel|>analysis", "<|channel|>analysis<|message|>", "<|end|>",
     "<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>", 0},
    {"<|channel>", "<|channel>thought", "<channel|>", NULL, NULL, 0},
    {NULL, "<think>", "</think>", NULL, NULL, 1},
};

enum { AT_START, INSIDE, BEFORE_ANSWER, BEHIND };

const struct reasoning_tags *reasoning_tags_of(const char *source, size_t n)
{
    const struct reasoning_tags *t = rows;
    while (t->sign && !(source && memmem(source, n, t->sign, strlen(t->sign)))) t++;
    return t;
}

int reasoning_has_token(const struct reasoning_tags *t, const char *text)
{
    const char *const texts[] = {t->begins, t->ends, t->then, t->direct};
    for (int i = 0; i < 4 && *text; i++)
        if (texts[i] && strstr(texts[i], text)) return 1;
    return 0;
}

static size_t white(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t')) i++;
    return i;
}

void reasoning_open(struct reasoning *r, const struct reasoning_tags *tags, const char *prompt,
                    size_t n)
{
    size_t tag = strlen(tags->begins);
    *r = (struct reasoning){.tags = tags, .state = AT_START};
    while (n && white(prompt + n - 1, 1)) n--;
    if (n >= tag && !memcmp(prompt + n - tag, tags->begins, tag)) r->state = INSIDE;
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
static size_t may_begin_end(const struct reasoning *r, const char *s, size_t n)
{
    size_t most = strlen(r->tags->ends) - 1, k = n < most ? n : most;
    while (k && memcmp(s + n - k, r->tags->ends, k)) k--;
    return k;
}

/* The length of TAG at the start of S [n], with the white space before it; 0: it is not there; -1:
 * it may still come. */
static int tag_at(const struct reasoning *r, const char *tag, const char *s, size_t n)
{
    size_t at = white(s, n), left = n - at, length = tag ? strlen(tag) : 0;
    if (!tag) return 0;
    if (left >= length) return memcmp(s + at, tag, length) ? 0 : (int)(at + length);
    return r->at_end || memcmp(s + at, tag, left) ? 0 : -1;
}

/* Before reasoning or answer: 1: *n bytes of S [*n] are a tag; 0: none; -1: one may still come. */
static int begin_tag(struct reasoning *r, const char *s, size_t *n)
{
    int at_start = r->state == AT_START, begins = 0, other;
    if (at_start) begins = tag_at(r, r->tags->begins, s, *n);
    other = tag_at(r, at_start ? r->tags->direct : r->tags->then, s, *n);
    if (begins <= 0 && other <= 0 && (begins < 0 || other < 0)) return -1;
    r->state = begins > 0 ? INSIDE : BEHIND;
    if (begins <= 0 && other <= 0) return 0;
    *n = (size_t)(begins > 0 ? begins : other);
    return 1;
}

int reasoning_next(struct reasoning *r, enum reasoning_part *part, const char **text, size_t *n)
{
    size_t left = r->n_held - r->n_taken, give = left, ends = strlen(r->tags->ends);
    if (!left) return 0; /* perhaps nothing was pushed, and held is NULL */
    const char *s = r->held + r->n_taken;
    if (r->state == AT_START || r->state == BEFORE_ANSWER) {
        int tag = begin_tag(r, s, &give);
        if (tag < 0) return 0;
        if (tag) {
            *part = REASONING_TAG;
            goto found;
        }
    }
    *part = r->state == INSIDE ? REASONING_TEXT : REASONING_ANSWER;
    if (r->state == INSIDE) {
        const char *end = memmem(s, left, r->tags->ends, ends);
        if (end == s) {
            *part = REASONING_TAG;
            give = ends;
            r->state = r->tags->then ? BEFORE_ANSWER : BEHIND;
        } else if (end) {
            give = (size_t)(end - s);
        } else if (!r->at_end) {
            give = left - may_begin_end(r, s, left);
        }
    }
found:
    if (!give) return 0;
    *text = s;
    *n = give;
    r->n_taken += give;
    return 1;
}
