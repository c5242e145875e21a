#include "core/sample/dry.h"

#include <string.h>

static const double MOST = 1e30; /* a finite loss that nothing survives */

static int n_tokens(const struct dry_history *h) { return h->n_prompt + h->n_generated; }

static int32_t token(const struct dry_history *h, int i)
{
    return i < h->n_prompt ? h->prompt[i] : h->generated[i - h->n_prompt];
}

/* The first token that is looked at. */
static int first(const struct dry_params *p, const struct dry_history *h)
{
    int n = n_tokens(h);
    return p->last_n && n > p->last_n ? n - p->last_n : 0;
}

double dry_loss(const struct dry_params *p, uint32_t length)
{
    double loss = p->multiplier;
    for (uint32_t n = (uint32_t)p->allowed_length; n < length && loss < MOST; n++) loss *= p->base;
    return loss < MOST ? loss : MOST;
}

/* The length beyond which the loss stays the same. */
static int longest_that_counts(const struct dry_params *p, int n)
{
    double loss = p->multiplier;
    int length = p->allowed_length;
    if (p->base <= 1) return length;
    for (; loss < MOST && length < n; length++) loss *= p->base;
    return length;
}

static struct dry_text text_of(const struct dry_breakers *b, int32_t id)
{
    return id < b->n_tokens && b->token[id].text ? b->token[id] : (struct dry_text){"", 0};
}

/* 1 if the token's own text holds a breaker. */
static int holds_breaker(const struct dry_breakers *b, int32_t id)
{
    const struct dry_text t = text_of(b, id);
    for (int i = 0; i < b->n; i++)
        if (memmem(t.text, t.bytes, b->string[i], strlen(b->string[i]))) return 1;
    return 0;
}

/* The byte AT bytes before the end of token i's text, which earlier tokens continue to the left;
 * -1: before token `from`. */
static int byte_before(const struct dry_breakers *b, const struct dry_history *h, int from, int i,
                       size_t at)
{
    for (; i >= from; i--) {
        const struct dry_text t = text_of(b, token(h, i));
        if (at < t.bytes) return (unsigned char)t.text[t.bytes - 1 - at];
        at -= t.bytes;
    }
    return -1;
}

/* 1 if a breaker of several tokens ends within token i. */
static int breaker_ends(const struct dry_breakers *b, const struct dry_history *h, int from, int i)
{
    size_t own = text_of(b, token(h, i)).bytes;
    for (int k = 0; k < b->n; k++) {
        size_t n = strlen(b->string[k]);
        for (size_t end = 0; end < own; end++) {
            size_t j = 0;
            while (j < n &&
                   byte_before(b, h, from, i, end + j) == (unsigned char)b->string[k][n - 1 - j])
                j++;
            if (j == n) return 1;
        }
    }
    return 0;
}

/* Tokens behind the last breaker, at most MOST_TOKENS. */
static int tail(const struct dry_params *p, const struct dry_history *h, int from, int most_tokens)
{
    const struct dry_breakers *b = p->breakers;
    int n = n_tokens(h), length = 0;
    while (length < most_tokens && n - 1 - length >= from) {
        int at = n - 1 - length;
        if (b && b->n &&
            (holds_breaker(b, token(h, at)) || (b->longest > 1 && breaker_ends(b, h, from, at))))
            break;
        length++;
    }
    return length;
}

void dry_mark(const struct dry_params *p, const struct dry_history *h, uint32_t *length)
{
    int n = n_tokens(h), from = first(p, h), last = n - 1;
    int most = tail(p, h, from, longest_that_counts(p, n - from));
    if (most < p->allowed_length) return;
    for (int i = from; i < last; i++) {
        int k = 0;
        while (k < most && i - k >= from && token(h, i - k) == token(h, last - k)) k++;
        int32_t next = token(h, i + 1);
        if (k < p->allowed_length || length[next] >= (uint32_t)k) continue;
        if (p->breakers && holds_breaker(p->breakers, next)) continue;
        length[next] = (uint32_t)k;
    }
}

void dry_clear(const struct dry_params *p, const struct dry_history *h, uint32_t *length,
               float *logits)
{
    for (int i = first(p, h) + 1; i < n_tokens(h); i++) {
        int32_t id = token(h, i);
        if (length[id] && logits) logits[id] = (float)(logits[id] - dry_loss(p, length[id]));
        length[id] = 0;
    }
}
