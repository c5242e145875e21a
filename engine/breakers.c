#include "engine/breakers.h"

#include <stdlib.h>
#include <string.h>

const char *const breakers_default[] = {"\n", ":", "\"", "*", NULL};

static int make_texts(struct breaker_texts *t, const struct tokenizer *tokenizer, struct err *e)
{
    t->n = tok_n_ids(tokenizer);
    t->token = calloc((size_t)t->n + 1, sizeof *t->token);
    if (!t->token) return err_memory(e);
    for (int32_t i = 0; i < t->n; i++) {
        char *text;
        if (tok_decode_inside(tokenizer, i, &text, &t->token[i].bytes, e)) return -1;
        t->token[i].text = text;
    }
    return 0;
}

int breakers_open(struct dry_breakers *b, struct breaker_texts *t,
                  const struct tokenizer *tokenizer, const char *const *string, int n,
                  struct err *e)
{
    *b = (struct dry_breakers){.string = string};
    if (!tokenizer || !n) return 0;
    if (!t->token && make_texts(t, tokenizer, e)) return -1;
    b->token = t->token;
    b->n_tokens = t->n;
    b->n = n;
    for (int i = 0; i < n; i++)
        if (strlen(string[i]) > b->longest) b->longest = strlen(string[i]);
    return 0;
}

void breakers_close(struct breaker_texts *t)
{
    for (int i = 0; t->token && i < t->n; i++) free((void *)t->token[i].text);
    free(t->token);
    *t = (struct breaker_texts){0};
}
