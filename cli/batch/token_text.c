#include "cli/batch/token_text.h"

#include <stdlib.h>
#include <string.h>

int token_text_open(struct token_text *t, const struct tokenizer *tokenizer, struct err *e)
{
    t->tokenizer = tokenizer;
    t->n = tok_n_ids(tokenizer);
    t->entry = calloc((size_t)t->n + 1, sizeof *t->entry);
    return t->entry ? 0 : err_memory(e);
}

void token_text_close(struct token_text *t)
{
    for (int32_t i = 0; t->entry && i < t->n; i++) free(t->entry[i].text);
    free(t->entry);
    *t = (struct token_text){0};
}

/* A decoder strips what begins a text (the space of "▁the"), so the token is decoded once and twice: what the second one
 * adds is how it reads inside a text. */
static int look_up(struct token_text *t, int32_t id, struct token_text_entry *entry, struct err *e)
{
    char *once = NULL, *twice = NULL;
    size_t n_once = 0, n_twice = 0;
    int rc = tok_decode(t->tokenizer, &id, 1, 0, &once, &n_once, e);
    if (!rc) rc = tok_decode(t->tokenizer, (int32_t[]){id, id}, 2, 0, &twice, &n_twice, e);
    if (!rc) {
        if (n_twice >= n_once && !memcmp(twice, once, n_once)) {
            memmove(twice, twice + n_once, n_twice - n_once);
            entry->bytes = n_twice - n_once;
            entry->text = twice;
            twice = NULL;
        } else {
            entry->bytes = n_once;
            entry->text = once;
            once = NULL;
        }
    }
    free(once);
    free(twice);
    return rc;
}

int token_text_get(struct token_text *t, int32_t id, const char **text, size_t *bytes, struct err *e)
{
    *text = "";
    *bytes = 0;
    if (id < 0 || id >= t->n) return 0;
    struct token_text_entry *entry = &t->entry[id];
    if (!entry->text && look_up(t, id, entry, e)) return -1;
    *text = entry->text;
    *bytes = entry->bytes;
    return 0;
}
