/* tokenizer.c: opening a tokenizer and encoding a text. Owns: the order of the stages: added tokens
 * in the raw text, normalizers, added tokens in the normalized text, pre-tokenizers, merges,
 * post-processor. Must not know: file formats, how a stage works. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

int tok_open(struct tokenizer **t, const struct tok_source *src, struct err *e)
{
    struct tok_side side = {0};
    struct tokenizer *x = calloc(1, sizeof *x);
    if (!x) return err_memory(e);
    x->bos = x->eos = -1;
    x->bpe.unk = -1;
    x->around = malloc(sizeof *x->around);
    if (!x->around) {
        err_memory(e);
        goto fail;
    }
    x->around[0] = TOK_TEXT_HERE;
    x->n_around = 1;
    if (!src->json && !src->spm) {
        err_set(e, "no tokenizer.json and no tokenizer.model");
        goto fail;
    }
    if (tok_side_open(&side, src, e)) goto fail;
    side.raw = !src->json;
    if (src->json ? tok_json_read(x, src, e) : tok_spm_read(x, src, &side, e)) {
        err_prefix(e, src->json ? "tokenizer.json" : "tokenizer.model");
        goto fail;
    }
    if (tok_side_tokens(x, &side, e)) goto fail;
    if (tok_added_settle(x, e)) {
        err_prefix(e, src->json ? "tokenizer.json" : "tokenizer.model");
        goto fail;
    }
    /* If BOS is not named, it is the post-processor's first id. */
    if (src->json && x->n_around && x->around[0] >= 0) x->bos = x->around[0];
    tok_side_ends(x, &side);
    for (size_t i = 0; i < x->n_around; i++)
        if (x->around[i] >= x->n_ids) {
            err_set(e, "tokenizer.json: post_processor: the id %d does not exist", x->around[i]);
            goto fail;
        }
    tok_side_close(&side);
    *t = x;
    return 0;
fail:
    tok_side_close(&side);
    tok_close(x);
    return -1;
}

void tok_close(struct tokenizer *t)
{
    if (!t) return;
    tok_bpe_free(&t->bpe);
    tok_added_free(&t->added);
    tok_steps_free(&t->norm);
    tok_steps_free(&t->pre);
    tok_steps_free(&t->dec);
    free(t->around);
    free(t);
}

int32_t tok_n_ids(const struct tokenizer *t) { return t->n_ids; }

int32_t tok_id_of(const struct tokenizer *t, const char *token)
{
    size_t n = strlen(token);
    const struct tok_added *a = tok_added_by_text(&t->added, token, n);
    return a ? a->id : tok_bpe_find(&t->bpe, token, n);
}

int32_t tok_bos(const struct tokenizer *t) { return t->bos; }

int32_t tok_eos(const struct tokenizer *t) { return t->eos; }

const int32_t *tok_before(const struct tokenizer *t, size_t *n)
{
    for (*n = 0; *n < t->n_around && t->around[*n] != TOK_TEXT_HERE;) ++*n;
    return t->around;
}

int tok_is_special(const struct tokenizer *t, int32_t id)
{
    const struct tok_added *a = tok_added_by_id(&t->added, id);
    return a && a->special;
}

/* Encodes text without normalized added tokens: pre-tokenizers, then merges. */
static int encode_plain(const struct tokenizer *t, struct tok_scratch *sc, const char *s, size_t n,
                        int first, struct tok_ids *out, struct err *e)
{
    if (tok_pretokenize(&t->pre, sc, &s, &n, first, e)) return -1;
    for (size_t i = 0; i < sc->pieces.n; i++)
        if (tok_bpe_encode(&t->bpe, sc, s + sc->pieces.p[i].off, sc->pieces.p[i].len, out, e))
            return -1;
    return 0;
}

static int encode_section(const struct tokenizer *t, struct tok_scratch *sc, const char *s,
                          size_t n, int first, struct tok_ids *out, struct err *e)
{
    struct tok_section_walk w = {0};
    struct tok_section x;
    if (tok_normalize(&t->norm, sc, &s, &n, &first, e)) return -1;
    while (tok_added_next(&t->added, &t->added.norm, sc->match, s, n, &w, &x)) {
        if (x.added >= 0 ? x.len && tok_ids_push(out, t->added.a[x.added].id, e)
                         : encode_plain(t, sc, s + x.off, x.len, first && x.off == 0, out, e))
            return -1;
    }
    return 0;
}

static int encode_text(const struct tokenizer *t, struct tok_scratch *sc, const char *s, size_t n,
                       struct tok_ids *out, struct err *e)
{
    struct tok_section_walk w = {0};
    struct tok_section x;
    while (tok_added_next(&t->added, &t->added.raw, sc->match, s, n, &w, &x)) {
        if (x.added >= 0 ? x.len && tok_ids_push(out, t->added.a[x.added].id, e)
                         : encode_section(t, sc, s + x.off, x.len, x.off == 0, out, e))
            return -1;
    }
    return 0;
}

int tok_encode(const struct tokenizer *t, const char *text, size_t n, int add_special,
               struct tok_ids *out, struct err *e)
{
    struct tok_scratch sc = {0};
    size_t start = out->n;
    int rc = -1;
    if (n > TOK_MAX_TEXT)
        return err_set(e, "a text of %zu bytes is larger than %u", n, TOK_MAX_TEXT);
    if (tok_match_open(&sc.match, e)) goto fail;
    if (tok_utf8_valid(text, n) != n) {
        if (tok_utf8_lossy(&sc.lossy, text, n, 0, NULL, e)) goto fail;
        text = sc.lossy.p;
        n = sc.lossy.n;
    }
    for (size_t i = 0; i < t->n_around; i++) {
        if (t->around[i] == TOK_TEXT_HERE ? encode_text(t, &sc, text, n, out, e)
                                          : add_special && tok_ids_push(out, t->around[i], e))
            goto fail;
    }
    rc = tok_match_check(sc.match, e);
fail:
    if (rc) out->n = start;
    tok_scratch_free(&sc);
    return rc;
}
