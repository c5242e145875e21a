#include "core/grammar/named_tokens.h"

#include "core/grammar/chars.h"
#include "core/grammar/free_text.h"

#include <string.h>

enum { MAX_BYTES = 256 }; /* of a name */

/* Whether a token of the vocabulary has these bytes. */
static int is_token(const struct vocab *v, const char *text, size_t bytes)
{
    const struct vocab_tree *t = vocab_all(v);
    uint32_t at = 0, end = t->n;
    for (size_t i = 0; i < bytes; i++) {
        while (at < end && t->node[at].byte != (unsigned char)text[i]) at = t->node[at].end;
        if (at >= end) return 0;
        if (i + 1 == bytes) return t->node[at + 1].first > t->node[at].first;
        end = t->node[at++].end;
    }
    return 0;
}

static int by_number(struct named_token *t, const struct vocab *v, const char **p, const char *end,
                     struct err *e)
{
    struct chars c = {*p, *p, end};
    int id = chars_number(&c);
    if (id < 0 || end - c.p < 2 || memcmp(c.p, "]>", 2))
        return err_set(e, "<[ is followed by the number of a token and ]>");
    *p = c.p + 2;
    if (id >= vocab_n(v)) return err_set(e, "<[%d]>: the model has %d tokens", id, vocab_n(v));
    t->text = vocab_token(v, id, &t->bytes);
    t->is_special = t->text && t->bytes && t->text[0] == FREE_TEXT_MARK[0];
    if (t->is_special) {
        t->text++;
        t->bytes -= 2;
        return 0;
    }
    return err_set(e,
                   t->text && t->bytes
                       ? "<[%d]> is a token of text: write its text in quotes"
                       : "<[%d]> is no token that an answer can have (one that ends it, perhaps)",
                   id);
}

int named_token_read(struct named_token *t, const struct vocab *v, const char **p, const char *end,
                     struct err *e)
{
    char marked[MAX_BYTES + 2];
    if (!v) return err_set(e, "tokens are not served in a grammar beside tools");
    if (*p < end && **p == '[') return ++*p, by_number(t, v, p, end, e);
    const char *from = *p - 1;
    while (*p < end && **p != '>' && **p != '\n') ++*p;
    if (*p == end || **p != '>') return err_set(e, "a token's name is not closed with >");
    size_t bytes = (size_t)(++*p - from);
    if (bytes > MAX_BYTES) return err_set(e, "a token's name is too long");
    marked[0] = marked[bytes + 1] = FREE_TEXT_MARK[0];
    memcpy(marked + 1, from, bytes);
    t->is_special = is_token(v, marked, bytes + 2);
    t->text = from;
    t->bytes = bytes;
    if (t->is_special || is_token(v, from, bytes)) return 0;
    return err_set(e, "%.*s is no token that an answer of this model can have", (int)bytes, from);
}

/* A character, or a special token other than NOT. */
static net_expr any_but(const struct named_token * not, const struct vocab *v, struct net *n)
{
    static const struct net_range all = {0, CHARS_LAST};
    net_expr x = net_chars(n, &all, 1);
    for (int32_t id = 0; id < vocab_n(v); id++) {
        size_t bytes;
        const char *text = vocab_token(v, id, &bytes);
        if (!text || bytes < 3 || text[0] != FREE_TEXT_MARK[0]) continue;
        if (bytes - 2 == not ->bytes && !memcmp(text + 1, not ->text, not ->bytes)) continue;
        x = net_either(n, x, net_text(n, text, bytes));
    }
    return x;
}

int named_token_without(const struct named_token *t, const struct vocab *v, int min, struct net *n,
                        net_expr *x, struct err *e)
{
    enum { MAX_TEXT = 64 };
    if (t->is_special) {
        *x = net_repeat(n, any_but(t, v, n), min, NET_NO_LIMIT);
        return 0;
    }
    if (min || t->bytes > MAX_TEXT || memchr(t->text + 1, t->text[0], t->bytes - 1))
        return err_set(e,
                       "%.*s is a token of text: of !<..> only * behind it is served, and names "
                       "of at most 64 bytes without a second <",
                       (int)t->bytes, t->text);
    *x = free_text_without(n, t->text, t->bytes, NULL);
    return 0;
}

net_expr named_token_itself(const struct named_token *t, struct net *n)
{
    net_expr x = net_text(n, t->text, t->bytes), mark = net_text(n, FREE_TEXT_MARK, 1);
    return t->is_special ? net_sequence(n, net_sequence(n, mark, x), mark) : x;
}
