#include "cli/modes/batch/answer_pooling.h"

#include "cli/modes/batch/answer_ids.h"
#include "cli/modes/batch/record_pooling.h"
#include "engine/pooling.h"

#include <stdlib.h>
#include <string.h>

static int n_elements(const struct job *j)
{
    return j->record.pooling.dimensions ? j->record.pooling.dimensions : j->env->pooling->dim;
}

/* ---- embeddings */

/* The fp32 values in the order of their bytes on little-endian machines, six bits a letter. */
static void put_base64(struct out *o, const float *v, int n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = 4 * (size_t)n;
    out_text(o, "\"");
    for (size_t at = 0; at < bytes; at += 3) {
        uint32_t three = 0;
        for (size_t k = 0; k < 3; k++) {
            uint32_t bits = 0;
            if (at + k < bytes) memcpy(&bits, &v[(at + k) / 4], sizeof bits);
            three = three << 8 | (bits >> (at + k) % 4 * 8 & 0xff);
        }
        char s[4];
        for (int k = 0; k < 4; k++)
            s[k] = at + (size_t)k > bytes ? '=' : letters[three >> (18 - 6 * k) & 63];
        out_bytes(o, s, 4);
    }
    out_text(o, "\"");
}

static void put_vector(struct out *o, const float *v, int n, const char *between)
{
    for (int i = 0; i < n; i++) {
        if (i) out_text(o, between);
        out_real(o, (double)v[i]);
    }
}

static void put_embeddings(struct out *o, const struct job *j)
{
    int n = n_elements(j);
    out_text(o, ",\"data\":[");
    for (int i = 0; i < j->n_prompts; i++) {
        out_text(o, i ? ",{\"index\":" : "{\"index\":");
        out_int(o, i);
        out_text(o, ",\"object\":\"embedding\",\"embedding\":");
        if (j->record.pooling.base64) put_base64(o, j->prompt[i].vector, n);
        else {
            out_text(o, "[");
            put_vector(o, j->prompt[i].vector, n, ",");
            out_text(o, "]");
        }
        out_text(o, "}");
    }
    out_text(o, "]");
}

/* ---- scores */

static int n_scores(const struct job *j) { return j->n_prompts - j->n_first; }

static double score(const struct job *j, int i)
{
    if (!j->n_first) return embedding_share(j->prompt[i].yes, j->prompt[i].no);
    const struct job_prompt *a = &j->prompt[j->n_first > 1 ? i : 0],
                            *b = &j->prompt[j->n_first + i];
    return embedding_cosine(a->vector, b->vector, j->env->pooling->dim);
}

static void put_scores(struct out *o, const struct job *j)
{
    out_text(o, ",\"data\":[");
    for (int i = 0; i < n_scores(j); i++) {
        out_text(o, i ? ",{\"index\":" : "{\"index\":");
        out_int(o, i);
        out_text(o, ",\"object\":\"score\",\"score\":");
        out_real(o, score(j, i));
        out_text(o, "}");
    }
    out_text(o, "]");
}

struct ranked {
    int index;
    float score; /* as it is printed */
};

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

/* The documents by falling score, *n of them; NULL: out of memory. */
static struct ranked *rank(const struct job *j, int *n, struct err *e)
{
    int all = n_scores(j), top = j->record.pooling.top_n;
    struct ranked *list = malloc(((size_t)all + 1) * sizeof *list);
    if (!list) {
        err_memory(e);
        return NULL;
    }
    for (int i = 0; i < all; i++) list[i] = (struct ranked){i, (float)score(j, i)};
    qsort(list, (size_t)all, sizeof *list, by_score);
    *n = top && top < all ? top : all;
    return list;
}

static int put_ranks(struct out *o, const struct job *j, struct err *e)
{
    int n;
    struct ranked *list = rank(j, &n, e);
    if (!list) return -1;
    out_text(o, ",\"results\":[");
    for (int i = 0; i < n; i++) {
        out_text(o, i ? ",{\"index\":" : "{\"index\":");
        out_int(o, list[i].index);
        if (j->record.pooling.return_documents) {
            const json_t *d = record_pooling_text(j->record.pooling.b, (size_t)list[i].index);
            out_text(o, ",\"document\":{\"text\":");
            out_string(o, json_string_value(d), json_string_length(d));
            out_text(o, "}");
        }
        out_text(o, ",\"relevance_score\":");
        out_real(o, (double)list[i].score);
        out_text(o, "}");
    }
    out_text(o, "]");
    free(list);
    return 0;
}

/* ---- lines */

int answer_pooled(struct out *o, const struct job *j, const char *model, struct err *e)
{
    static const char *const prefix[] = {
        [RECORD_EMBEDDING] = "embd", [RECORD_SCORE] = "score", [RECORD_RERANK] = "rerank"};
    const struct record *r = &j->record;
    int n = job_prompt_tokens(j);
    out_text(o, "{\"id\":");
    answer_put_id(o, prefix[r->kind], r);
    if (r->kind != RECORD_RERANK) out_text(o, ",\"object\":\"list\",\"created\":0");
    out_text(o, ",\"model\":");
    out_string(o, model, strlen(model));
    if (r->kind == RECORD_EMBEDDING) put_embeddings(o, j);
    else if (r->kind == RECORD_SCORE) put_scores(o, j);
    else if (put_ranks(o, j, e)) return -1;
    out_text(o, ",\"usage\":{\"prompt_tokens\":");
    out_int(o, n);
    out_text(o, ",\"total_tokens\":");
    out_int(o, n);
    out_text(o, "}}");
    return 0;
}

int answer_pooled_plain(struct out *o, const struct job *j, struct err *e)
{
    int n;
    if (j->record.kind == RECORD_RERANK) {
        struct ranked *list = rank(j, &n, e);
        if (!list) return -1;
        for (int i = 0; i < n; i++) {
            if (i) out_text(o, "\t");
            out_int(o, list[i].index);
            out_text(o, " ");
            out_real(o, (double)list[i].score);
        }
        free(list);
        return 0;
    }
    n = j->record.kind == RECORD_EMBEDDING ? j->n_prompts : n_scores(j);
    for (int i = 0; i < n; i++) {
        if (i) out_text(o, "\t");
        if (j->record.kind == RECORD_SCORE) out_real(o, score(j, i));
        else put_vector(o, j->prompt[i].vector, n_elements(j), " ");
    }
    return 0;
}
