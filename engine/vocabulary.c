#include "engine/vocabulary.h"

#include "core/grammar/free_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int vocabulary_tokenizer(struct tokenizer **t, const struct modelfile *m, struct err *e)
{
    struct tok_source src = {0};
    *t = NULL;
    src.json = mf_source_file(m, "tokenizer.json", &src.json_bytes);
    src.spm = mf_source_file(m, "tokenizer.model", &src.spm_bytes);
    src.config = mf_source_file(m, "tokenizer_config.json", &src.config_bytes);
    src.special_map = mf_source_file(m, "special_tokens_map.json", &src.special_map_bytes);
    src.added = mf_source_file(m, "added_tokens.json", &src.added_bytes);
    if (!src.json && !src.spm) return 0;
    return tok_open(t, &src, e) ? err_prefix(e, "%s", m->st.path) : 0;
}

struct tokens {
    const struct vocabulary_source *source;
    struct tok_bytes bytes;
    char **special; /* [bytes.n] special tokens between marks; NULL: is none */
};

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    const struct tokens *t = arg;
    *bytes = 0;
    for (int i = 0; i < t->source->n_eos; i++)
        if (t->source->eos[i] == id) return NULL;
    if (id >= t->bytes.n) return NULL;
    if (t->special[id]) {
        *bytes = strlen(t->special[id]);
        return t->special[id];
    }
    const char *text = t->bytes.text + t->bytes.start[id];
    size_t n = t->bytes.start[id + 1] - t->bytes.start[id];
    if (!n || memchr(text, FREE_TEXT_MARK[0], n)) return NULL; /* no UTF-8 text goes on so */
    *bytes = n;
    return text;
}

/* The special tokens as grammars have them (core/grammar/free_text.h). */
static int open_special(struct tokens *t, const struct tokenizer *tokenizer, struct err *e)
{
    if (!(t->special = calloc((size_t)t->bytes.n + 1, sizeof *t->special))) return err_memory(e);
    for (int32_t id = 0; id < t->bytes.n; id++) {
        char *text;
        size_t n;
        if (!tok_is_special(tokenizer, id)) continue;
        if (tok_decode_inside(tokenizer, id, &text, &n, e)) return -1;
        int is_text = n && !memchr(text, 0, n) && !memchr(text, FREE_TEXT_MARK[0], n);
        if (is_text && (t->special[id] = malloc(n + 3)))
            snprintf(t->special[id], n + 3, FREE_TEXT_MARK "%s" FREE_TEXT_MARK, text);
        free(text);
        if (is_text && !t->special[id]) return err_memory(e);
    }
    return 0;
}

int vocabulary_open(struct vocab **v, const struct vocabulary_source *source, struct err *e)
{
    struct tokens t = {.source = source};
    const struct vocab_source all = {.n = source->vocab, .token = token, .arg = &t};
    int rc = tok_bytes_open(&t.bytes, source->tokenizer, e);
    if (!rc) rc = open_special(&t, source->tokenizer, e);
    if (!rc) rc = vocab_open(v, &all, e);
    for (int32_t i = 0; t.special && i < t.bytes.n; i++) free(t.special[i]);
    free(t.special);
    tok_bytes_close(&t.bytes);
    return rc;
}
