#include "cli/modes/batch/record_tokens.h"

#include "core/sched/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BAD_WORDS = 1024, MAX_BAD_BYTES = 4096 };

static int by_id(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Ids in ascending order, each once. */
static int read_ids(const json_t *v, const char *name, int vocab, int32_t **ids, int *n,
                    struct refusal *why, struct err *e)
{
    size_t i, count = json_array_size(v);
    json_t *item;
    if (!count) return refuse(why, name, "must be an array of token ids that is not empty");
    if (!(*ids = malloc(count * sizeof **ids))) return err_memory(e);
    json_array_foreach ((json_t *)v, i, item) {
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id >= vocab)
            return refuse(why, name, "must be an array of token ids inside the vocabulary");
        (*ids)[i] = (int32_t)id;
    }
    qsort(*ids, count, sizeof **ids, by_id);
    *n = 0;
    for (i = 0; i < count; i++)
        if (!i || (*ids)[i] != (*ids)[i - 1]) (*ids)[(*n)++] = (*ids)[i];
    return 0;
}

static int read_named(struct record *r, const json_t *v, int vocab, struct refusal *why,
                      struct err *e)
{
    int rc = read_ids(v, "logprob_token_ids", vocab, &r->named, &r->n_named, why, e);
    if (rc || r->n_named <= REQUEST_MAX_NAMED) return rc;
    return refuse(why, "logprob_token_ids", "more than 128 ids");
}

static int read_allowed(struct record *r, const json_t *v, int vocab, struct refusal *why,
                        struct err *e)
{
    int32_t *ids = NULL;
    int n = 0, rc = read_ids(v, "allowed_token_ids", vocab, &ids, &n, why, e);
    if (!rc && !(r->allowed = calloc((size_t)(vocab + 31) / 32, sizeof *r->allowed)))
        rc = err_memory(e);
    for (int i = 0; !rc && i < n; i++) r->allowed[ids[i] / 32] |= 1u << ids[i] % 32;
    free(ids);
    return rc;
}

static int read_bad_words(struct record *r, const json_t *v, struct refusal *why)
{
    size_t i;
    json_t *word;
    if (!json_is_array(v)) return refuse(why, "bad_words", "must be an array of strings");
    if (json_array_size(v) > MAX_BAD_WORDS) return refuse(why, "bad_words", "more than 1024 words");
    json_array_foreach ((json_t *)v, i, word)
        if (!json_string_length(word) || json_string_length(word) > MAX_BAD_BYTES)
            return refuse(why, "bad_words", "must be an array of strings of 1 to 4096 bytes");
    r->bad_words = json_array_size(v) ? v : NULL;
    return 0;
}

int record_tokens_side(struct record *r, const json_t *v, struct refusal *why)
{
    const char *side = json_string_value(v);
    if (!side || (strcmp(side, "left") && strcmp(side, "right")))
        return refuse(why, "truncation_side", "must be \"left\" or \"right\"");
    r->truncates_end = !strcmp(side, "right");
    return 0;
}

int record_tokens_read(struct record *r, const char *name, const json_t *v, int vocab,
                       struct refusal *why, struct err *e)
{
    if (!strcmp(name, "logprob_token_ids")) return read_named(r, v, vocab, why, e);
    if (!strcmp(name, "allowed_token_ids")) return read_allowed(r, v, vocab, why, e);
    if (!strcmp(name, "bad_words")) return read_bad_words(r, v, why);
    if (!strcmp(name, "truncation_side")) return record_tokens_side(r, v, why);
    return 0;
}

int record_tokens_check(const struct record *r, struct refusal *why)
{
    return r->named && r->logprobs < 0 ? refuse(why, "logprob_token_ids", "needs logprobs") : 0;
}
