#include "cli/modes/batch/token_text.h"

#include <stdlib.h>

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

int token_text_get(struct token_text *t, int32_t id, const char **text, size_t *bytes,
                   struct err *e)
{
    *text = "";
    *bytes = 0;
    if (id < 0 || id >= t->n) return 0;
    struct token_text_entry *entry = &t->entry[id];
    if (!entry->text && tok_decode_inside(t->tokenizer, id, &entry->text, &entry->bytes, e))
        return -1;
    *text = entry->text;
    *bytes = entry->bytes;
    return 0;
}
