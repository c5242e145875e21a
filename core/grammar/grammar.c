#include "core/grammar/grammar.h"

#include "core/grammar/choice.h"

#include <stdlib.h>
#include <string.h>

/* Constant once it is made, so that threads need no lock. */
struct grammar {
    const struct vocab *vocab;
    struct choice *choice;
};

struct grammar_cursor {
    const struct grammar *g;
    uint32_t node;
    uint32_t *path; /* [vocab_longest + 1] scratch of masks */
};

int grammar_open(struct grammar **out, const struct grammar_spec *spec, const struct vocab *v,
                 struct err *e)
{
    static const char *const refused[] = {[GRAMMAR_JSON] = "JSON objects",
                                          [GRAMMAR_SCHEMA] = "JSON schemas",
                                          [GRAMMAR_REGEX] = "regular expressions",
                                          [GRAMMAR_GBNF] = "grammars"};
    if (spec->kind != GRAMMAR_CHOICE)
        return err_set(e, "%s are not served; choices are", refused[spec->kind]);
    struct grammar *g = calloc(1, sizeof *g);
    if (!g) return err_memory(e);
    g->vocab = v;
    if (choice_open(&g->choice, spec->text, spec->bytes, e)) {
        free(g);
        return -1;
    }
    *out = g;
    return 0;
}

void grammar_close(struct grammar *g)
{
    if (!g) return;
    choice_close(g->choice);
    free(g);
}

int grammar_cursor_open(struct grammar_cursor **out, struct grammar *g, struct err *e)
{
    struct grammar_cursor *c = calloc(1, sizeof *c);
    if (c) c->path = calloc(vocab_longest(g->vocab) + 1, sizeof *c->path);
    if (!c || !c->path) {
        free(c);
        return err_memory(e);
    }
    c->g = g;
    grammar_cursor_reset(c);
    *out = c;
    return 0;
}

void grammar_cursor_close(struct grammar_cursor *c)
{
    if (!c) return;
    free(c->path);
    free(c);
}

void grammar_cursor_reset(struct grammar_cursor *c) { c->node = CHOICE_START; }

int grammar_accept(struct grammar_cursor *c, const char *text, size_t n, struct err *e)
{
    uint32_t node = c->node;
    (void)e;
    for (size_t i = 0; i < n && node; i++)
        node = choice_step(c->g->choice, node, (unsigned char)text[i]);
    if (!node) return 0;
    c->node = node;
    return 1;
}

int grammar_accept_token(struct grammar_cursor *c, int32_t id, struct err *e)
{
    size_t bytes;
    const char *t = vocab_token(c->g->vocab, id, &bytes);
    return t ? grammar_accept(c, t, bytes, e) : 0;
}

int grammar_may_end(struct grammar_cursor *c) { return choice_may_end(c->g->choice, c->node); }
int grammar_must_end(struct grammar_cursor *c) { return choice_must_end(c->g->choice, c->node); }

/* Goes over the tokens in order of their bytes: a token takes the path of the one before it as far
 * as they agree, and those that begin like one that does not fit are passed over. */
int grammar_mask(struct grammar_cursor *c, uint32_t *bits, int *n_allowed, int32_t *only,
                 struct err *e)
{
    const struct vocab *v = c->g->vocab;
    const uint32_t *common;
    int n;
    const int32_t *id = vocab_sorted(v, &n, &common);
    int32_t lowest = INT32_MAX;
    (void)e;
    memset(bits, 0, ((size_t)vocab_n(v) + 31) / 32 * sizeof *bits);
    *n_allowed = 0;
    c->path[0] = c->node;
    for (int i = 0; i < n;) {
        size_t bytes, k = common[i];
        const char *t = vocab_token(v, id[i], &bytes);
        while (k < bytes &&
               (c->path[k + 1] = choice_step(c->g->choice, c->path[k], (unsigned char)t[k])))
            k++;
        if (k < bytes) { /* path[k] has no byte t[k] */
            for (i++; i < n && common[i] > k;) i++;
            continue;
        }
        bits[id[i] / 32] |= 1u << id[i] % 32;
        ++*n_allowed;
        if (id[i] < lowest) lowest = id[i];
        i++;
    }
    if (only) *only = *n_allowed ? lowest : -1;
    return 0;
}
