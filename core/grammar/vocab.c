#include "core/grammar/vocab.h"

#include "core/grammar/masks.h"

#include <stdlib.h>
#include <string.h>

struct vocab {
    int n;
    char *bytes; /* of all tokens, one behind the other */
    size_t *at;  /* [n + 1] where each begins */
    size_t longest, words;
    struct vocab_tree all;
    struct vocab_runs runs[VOCAB_ALPHABETS];
    struct masks *masks;
};

int vocab_n(const struct vocab *v) { return v->n; }
size_t vocab_longest(const struct vocab *v) { return v->longest; }
struct masks *vocab_masks(const struct vocab *v) { return v->masks; }
const struct vocab_tree *vocab_all(const struct vocab *v) { return &v->all; }
const struct vocab_runs *vocab_runs(const struct vocab *v, enum vocab_alphabet a)
{
    return &v->runs[a];
}

const char *vocab_token(const struct vocab *v, int32_t id, size_t *bytes)
{
    *bytes = v->at[id + 1] - v->at[id];
    return *bytes ? v->bytes + v->at[id] : NULL;
}

/* ---- trees */

/* A token, or its end, and the group that it belongs to. */
struct text {
    const char *text;
    uint32_t bytes;
    int32_t id, group;
};

static int by_text(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order                  ? order
           : x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1)
                                  : (x->id > y->id) - (x->id < y->id);
}

static uint32_t in_common(const struct text *a, const struct text *b)
{
    uint32_t n = 0, most = a->bytes < b->bytes ? a->bytes : b->bytes;
    if (a->group != b->group) return 0;
    while (n < most && a->text[n] == b->text[n]) n++;
    return n;
}

static void close_tree(struct vocab_tree *t)
{
    free(t->node);
    free(t->id);
}

/* The forest of texts [n], sorted, each with bytes; start [n_groups + 1] (or NULL): the first node
 * of each group. */
static int grow_tree(struct vocab_tree *t, const struct text *text, uint32_t n, int n_groups,
                     uint32_t *start, struct err *e)
{
    size_t nodes = 0;
    int group = 0;
    for (uint32_t i = 0; i < n; i++)
        nodes += text[i].bytes - (i ? in_common(&text[i - 1], &text[i]) : 0);
    t->node = malloc((nodes + 1) * sizeof *t->node);
    t->id = malloc(((size_t)n + 1) * sizeof *t->id);
    if (!t->node || !t->id) return err_memory(e);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t common = i ? in_common(&text[i - 1], &text[i]) : 0;
        for (; start && group <= text[i].group; group++) start[group] = t->n;
        for (uint32_t k = common; k < text[i].bytes; k++)
            t->node[t->n++] = (struct vocab_node){0, i, k + 1, (unsigned char)text[i].text[k]};
        t->id[t->n_ids++] = text[i].id;
    }
    for (; start && group <= n_groups; group++) start[group] = t->n;
    t->node[t->n] = (struct vocab_node){t->n + 1, n, 0, 0};
    for (uint32_t i = t->n; i-- > 0;) { /* behind it, and behind all that is deeper */
        uint32_t end = i + 1;
        while (t->node[end].depth > t->node[i].depth) end = t->node[end].end;
        t->node[i].end = end;
    }
    return 0;
}

/* ---- alphabets */

/* Bytes of the character at P that is plain, before END; 0: there is none. */
static int plain_character(const unsigned char *p, const unsigned char *end)
{
    int length = *p < 0x80                 ? 1
                 : *p >= 0xc2 && *p < 0xe0 ? 2
                 : *p >= 0xe0 && *p < 0xf0 ? 3
                 : *p >= 0xf0 && *p < 0xf5 ? 4
                                           : 0;
    if (*p < 0x20 || *p == '"' || *p == '\\' || !length || end - p < length) return 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] > 0x8f))
        return 0;
    return length;
}

static int character(enum vocab_alphabet a, const unsigned char *p, const unsigned char *end)
{
    if (a == VOCAB_PLAIN) return plain_character(p, end);
    if (*p >= 'a' && *p <= 'z') return 1;
    return a == VOCAB_ALNUM && ((*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'));
}

/* Characters that a token begins with; *bytes: of these. */
static int count_run(enum vocab_alphabet a, const char *text, size_t n, size_t *bytes)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + n;
    int count = 0, length;
    for (; p < end && (length = character(a, p, end)); p += length) count++;
    *bytes = (size_t)(p - (const unsigned char *)text);
    return count;
}

/* ROOM: for a text of each token. */
static int take_apart(struct vocab *v, enum vocab_alphabet a, struct text *room, struct err *e)
{
    struct vocab_runs *r = &v->runs[a];
    uint32_t n = 0;
    r->words = v->words;
    r->pure = calloc((VOCAB_RUN + 2) * v->words + 1, sizeof *r->pure);
    if (!r->pure) return err_memory(e);
    for (uint32_t i = 0; i < v->all.n_ids; i++) {
        size_t bytes, run;
        int32_t id = v->all.id[i];
        const char *t = vocab_token(v, id, &bytes);
        int count = count_run(a, t, bytes, &run), group = count > VOCAB_RUN ? VOCAB_RUN + 1 : count;
        if (run == bytes) r->pure[(size_t)group * v->words + (uint32_t)id / 32] |= 1u << id % 32;
        else room[n++] = (struct text){t + run, (uint32_t)(bytes - run), id, group};
    }
    for (size_t i = v->words; i < (VOCAB_RUN + 2) * v->words; i++)
        r->pure[i] |= r->pure[i - v->words];
    qsort(room, n, sizeof *room, by_text);
    if (grow_tree(&r->rest, room, n, VOCAB_RUN + 2, r->start, e)) return -1;
    n = 0;
    for (uint32_t i = 0; i < v->all.n_ids; i++) { /* which are in order */
        size_t bytes, run;
        const char *t = vocab_token(v, v->all.id[i], &bytes);
        if (count_run(a, t, bytes, &run) > VOCAB_RUN)
            room[n++] = (struct text){t, (uint32_t)bytes, v->all.id[i], 0};
    }
    if (grow_tree(&r->longer, room, n, 0, NULL, e)) return -1;
    n = 0;
    for (uint32_t i = 0; i < v->all.n_ids && a == VOCAB_PLAIN; i++) {
        size_t bytes, run;
        const char *t = vocab_token(v, v->all.id[i], &bytes);
        count_run(a, t, bytes, &run);
        if (run < bytes) room[n++] = (struct text){t, (uint32_t)bytes, v->all.id[i], 0};
    }
    return grow_tree(&r->mixed, room, n, 0, NULL, e);
}

static int sort(struct vocab *v, struct err *e)
{
    struct text *text = malloc(((size_t)v->n + 1) * sizeof *text);
    uint32_t n = 0;
    if (!text) return err_memory(e);
    for (int32_t id = 0; id < v->n; id++) {
        size_t bytes;
        const char *t = vocab_token(v, id, &bytes);
        if (!t) continue;
        text[n++] = (struct text){t, (uint32_t)bytes, id, 0};
        if (bytes > v->longest) v->longest = bytes;
    }
    qsort(text, n, sizeof *text, by_text);
    int rc = grow_tree(&v->all, text, n, 0, NULL, e);
    for (int a = 0; a < VOCAB_ALPHABETS && !rc; a++) rc = take_apart(v, a, text, e);
    free(text);
    return rc;
}

int vocab_open(struct vocab **out, const struct vocab_source *source, struct err *e)
{
    size_t n = (size_t)source->n, all = 0, bytes;
    struct vocab *v = calloc(1, sizeof *v);
    if (!v) return err_memory(e);
    v->n = source->n;
    v->words = (n + 31) / 32;
    v->at = calloc(n + 1, sizeof *v->at);
    for (int32_t id = 0; id < v->n; id++)
        if (source->token(source->arg, id, &bytes)) all += bytes;
    v->bytes = malloc(all + 1);
    if (!v->at || !v->bytes || masks_open(&v->masks, v->words, e)) {
        vocab_close(v);
        return err_memory(e);
    }
    for (int32_t id = 0; id < v->n; id++) {
        const char *t = source->token(source->arg, id, &bytes);
        v->at[id + 1] = v->at[id] + (t ? bytes : 0);
        if (t) memcpy(v->bytes + v->at[id], t, bytes);
    }
    if (sort(v, e)) {
        vocab_close(v);
        return -1;
    }
    *out = v;
    return 0;
}

void vocab_close(struct vocab *v)
{
    if (!v) return;
    for (int a = 0; a < VOCAB_ALPHABETS; a++) {
        free(v->runs[a].pure);
        close_tree(&v->runs[a].rest);
        close_tree(&v->runs[a].longer);
        close_tree(&v->runs[a].mixed);
    }
    close_tree(&v->all);
    free(v->bytes);
    free(v->at);
    masks_close(v->masks);
    free(v);
}
