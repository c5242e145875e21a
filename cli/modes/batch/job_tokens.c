#include "cli/modes/batch/job_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- truncate_prompt_tokens */

/* How many of the ids of TEXT the tokenizer added in front of the others and behind them. */
static int find_added(const struct job *j, const char *text, size_t bytes,
                      const struct tok_ids *whole, size_t *before, size_t *behind, struct err *e)
{
    struct tok_ids plain = {0};
    *before = *behind = 0;
    if (!text || !j->record.add_special) return 0;
    int rc = tok_encode(j->env->tokenizer, text, bytes, 0, &plain, e);
    for (size_t at = 0; !rc && at + plain.n <= whole->n; at++) {
        if (memcmp(whole->id + at, plain.id, plain.n * sizeof *plain.id)) continue;
        *before = at;
        *behind = whole->n - plain.n - at;
        break;
    }
    tok_ids_free(&plain);
    return rc;
}

int job_cut(const struct job *j, const char *text, size_t bytes, struct job_prompt *p,
            struct refusal *why, struct err *e)
{
    const struct record *r = &j->record;
    int n_ctx = j->env->n_ctx, keep = r->truncate;
    size_t before, behind, n = p->ids.n;
    struct err inner;
    if (keep == RECORD_WHOLE) return 0;
    if (keep == RECORD_FITTING) keep = n_ctx - (r->max_tokens < 0 ? 1 : r->max_tokens);
    if (keep < 0 || keep > n_ctx || (r->truncate == RECORD_FITTING && !keep)) {
        if (r->truncate == RECORD_FITTING)
            err_set(&inner,
                    "truncate_prompt_tokens: max_tokens %d leaves no room in the context %d",
                    r->max_tokens, n_ctx);
        else err_set(&inner, "truncate_prompt_tokens: %d, the context is %d", keep, n_ctx);
        return job_refuse(why, "truncate_prompt_tokens", &inner);
    }
    if (n <= (size_t)keep) return 0;
    if (find_added(j, text, bytes, &p->ids, &before, &behind, e)) return -1;
    if (before + behind > (size_t)keep) before = behind = 0;
    size_t middle = (size_t)keep - before - behind,
           from = r->truncates_end ? before : n - behind - middle;
    memmove(p->ids.id + before, p->ids.id + from, middle * sizeof *p->ids.id);
    memmove(p->ids.id + before + middle, p->ids.id + n - behind, behind * sizeof *p->ids.id);
    p->ids.n = (size_t)keep;
    p->was_cut = 1;
    return 0;
}

/* ---- bad_words */

/* What Python's str.lstrip takes off. */
static size_t leading_space(const char *s, size_t n)
{
    size_t at = 0;
    while (at < n) {
        utf8proc_int32_t c;
        utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s + at,
                                                (utf8proc_ssize_t)(n - at), &c);
        if (got <= 0) break;
        const utf8proc_property_t *p = utf8proc_get_property(c);
        if (p->category != UTF8PROC_CATEGORY_ZS && p->bidi_class != UTF8PROC_BIDI_CLASS_WS &&
            p->bidi_class != UTF8PROC_BIDI_CLASS_B && p->bidi_class != UTF8PROC_BIDI_CLASS_S)
            break;
        at += (size_t)got;
    }
    return at;
}

static int refuse_word(const char *what, struct refusal *why)
{
    struct err inner;
    err_set(&inner, "bad_words: %s", what);
    return job_refuse(why, "bad_words", &inner);
}

/* Ids of a word at the beginning of a text, or behind a space. */
static int encode_word(const struct job *j, const char *s, size_t n, int space, struct tok_ids *ids,
                       struct refusal *why, struct err *e)
{
    struct err inner = {0};
    char *text = malloc(n + 2);
    if (!text) return err_memory(e);
    text[0] = ' ';
    memcpy(text + space, s, n);
    int rc = tok_encode(j->env->tokenizer, text, n + (size_t)space, 0, ids, &inner);
    free(text);
    if (rc && err_is_memory(&inner)) {
        *e = inner;
        return -1;
    }
    if (rc) return refuse_word(inner.msg, why);
    for (size_t i = 0; i < ids->n; i++)
        if (ids->id[i] >= j->env->vocab)
            return refuse_word("a word has a token outside the model's vocabulary", why);
    return 0;
}

/* As vLLM has it: the ids of the word; and those of the word behind a space, where they are as many
 * and begin with another token. */
static int take_word(struct job *j, const json_t *word, struct refusal *why, struct err *e)
{
    const char *s = json_string_value(word);
    size_t n = json_string_length(word), skip = leading_space(s, n);
    struct tok_ids *ids = &j->bad_ids[j->n_bad];
    int rc = encode_word(j, s + skip, n - skip, 0, &ids[0], why, e);
    if (rc) return rc;
    if (!ids[0].n) return refuse_word("a word has no token", why);
    j->n_bad++;
    rc = encode_word(j, s + skip, n - skip, 1, &ids[1], why, e);
    if (rc) return rc;
    if (ids[1].n == ids[0].n && ids[1].id[0] != ids[0].id[0]) j->n_bad++;
    else ids[1].n = 0; /* the next word's place */
    return 0;
}

int job_take_bad_words(struct job *j, struct refusal *why, struct err *e)
{
    size_t i, n = json_array_size(j->record.bad_words);
    json_t *word;
    if (!n) return 0;
    if (!j->env->tokenizer) return refuse_word("the model has no tokenizer", why);
    j->bad_ids = calloc(2 * n + 1, sizeof *j->bad_ids); /* two of a word */
    j->bad = calloc(2 * n, sizeof *j->bad);
    if (!j->bad_ids || !j->bad) return err_memory(e);
    j->bad_room = 2 * (int)n + 1;
    json_array_foreach ((json_t *)j->record.bad_words, i, word) {
        int rc = take_word(j, word, why, e);
        if (rc) return rc;
    }
    for (int k = 0; k < j->n_bad; k++)
        j->bad[k] = (struct sampler_bad){j->bad_ids[k].id, (int)j->bad_ids[k].n};
    return 0;
}
