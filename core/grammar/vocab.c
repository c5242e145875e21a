#include "core/grammar/vocab.h"

#include "core/grammar/shared.h"

#include <stdlib.h>
#include <string.h>

struct vocab {
    int n, n_sorted;
    char *bytes;      /* of all tokens, one behind the other */
    size_t *at;       /* [n + 1] where each begins */
    int32_t *sorted;  /* [n_sorted] */
    uint32_t *common; /* [n_sorted] */
    size_t longest;
    struct shared_masks *shared;
};

int vocab_n(const struct vocab *v) { return v->n; }
struct shared_masks *vocab_shared(const struct vocab *v) { return v->shared; }
size_t vocab_longest(const struct vocab *v) { return v->longest; }

const char *vocab_token(const struct vocab *v, int32_t id, size_t *bytes)
{
    *bytes = v->at[id + 1] - v->at[id];
    return *bytes ? v->bytes + v->at[id] : NULL;
}

const int32_t *vocab_sorted(const struct vocab *v, int *n, const uint32_t **common)
{
    *n = v->n_sorted;
    *common = v->common;
    return v->sorted;
}

static int by_bytes(const void *a, const void *b, void *arg)
{
    const struct vocab *v = arg;
    size_t n, m;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    const char *s = vocab_token(v, x, &n), *t = vocab_token(v, y, &m);
    int order = memcmp(s, t, n < m ? n : m);
    return order ? order : n != m ? (n < m ? -1 : 1) : x < y ? -1 : x > y;
}

static void sort(struct vocab *v)
{
    size_t n, m;
    for (int32_t id = 0; id < v->n; id++)
        if (vocab_token(v, id, &n)) v->sorted[v->n_sorted++] = id;
    qsort_r(v->sorted, (size_t)v->n_sorted, sizeof *v->sorted, by_bytes, v);
    for (int i = 0; i < v->n_sorted; i++) {
        const char *t = vocab_token(v, v->sorted[i], &m),
                   *s = i ? vocab_token(v, v->sorted[i - 1], &n) : t;
        uint32_t c = 0;
        while (i && c < n && c < m && s[c] == t[c]) c++;
        v->common[i] = c;
        if (m > v->longest) v->longest = m;
    }
}

int vocab_open(struct vocab **out, const struct vocab_source *source, struct err *e)
{
    size_t n = (size_t)source->n, all = 0, bytes;
    struct vocab *v = calloc(1, sizeof *v);
    if (!v) return err_memory(e);
    v->n = source->n;
    v->at = calloc(n + 1, sizeof *v->at);
    v->sorted = calloc(n + 1, sizeof *v->sorted);
    v->common = calloc(n + 1, sizeof *v->common);
    for (int32_t id = 0; id < v->n; id++)
        if (source->token(source->arg, id, &bytes)) all += bytes;
    v->bytes = malloc(all + 1);
    if (!v->at || !v->sorted || !v->common || !v->bytes || shared_open(&v->shared, e)) {
        vocab_close(v);
        return err_memory(e);
    }
    for (int32_t id = 0; id < v->n; id++) {
        const char *t = source->token(source->arg, id, &bytes);
        v->at[id + 1] = v->at[id] + (t ? bytes : 0);
        if (t) memcpy(v->bytes + v->at[id], t, bytes);
    }
    sort(v);
    *out = v;
    return 0;
}

void vocab_close(struct vocab *v)
{
    if (!v) return;
    free(v->bytes);
    free(v->at);
    free(v->sorted);
    free(v->common);
    shared_close(v->shared);
    free(v);
}
