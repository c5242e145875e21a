#include "cli/vocabulary.h"

int vocabulary_tokenizer(struct tokenizer **t, const struct modelfile *m, struct err *e)
{
    struct tok_source src = {0};
    *t = NULL;
    src.json = mf_source_file(m, "tokenizer.json", &src.json_bytes);
    src.spm = mf_source_file(m, "tokenizer.model", &src.spm_bytes);
    src.config = mf_source_file(m, "tokenizer_config.json", &src.config_bytes);
    src.special_map = mf_source_file(m, "special_tokens_map.json", &src.special_map_bytes);
    if (!src.json && !src.spm) return 0;
    return tok_open(t, &src, e) ? err_prefix(e, "%s", m->st.path) : 0;
}

struct tokens {
    const struct vocabulary_source *source;
    struct tok_bytes bytes;
};

static const char *token(void *arg, int32_t id, size_t *bytes)
{
    const struct tokens *t = arg;
    *bytes = 0;
    for (int i = 0; i < t->source->n_eos; i++)
        if (t->source->eos[i] == id) return NULL;
    if (id >= t->bytes.n) return NULL;
    *bytes = t->bytes.start[id + 1] - t->bytes.start[id];
    return *bytes ? t->bytes.text + t->bytes.start[id] : NULL;
}

int vocabulary_open(struct vocab **v, const struct vocabulary_source *source, struct err *e)
{
    struct tokens t = {.source = source};
    const struct vocab_source all = {.n = source->vocab, .token = token, .arg = &t};
    int rc = tok_bytes_open(&t.bytes, source->tokenizer, e);
    if (!rc) rc = vocab_open(v, &all, e);
    tok_bytes_close(&t.bytes);
    return rc;
}
