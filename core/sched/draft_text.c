#include "core/sched/draft.h"

#include <stdlib.h>
#include <string.h>

/* A place is looked up by its last GRAM tokens; of at most WALK places the longest equal part is
 * taken, up to LONGEST tokens of it are compared. */
enum { GRAM = 3, WALK = 16, LONGEST = 32, STORED = 1 << 19, STORE_HEADS = 1 << 17, NO_TOKEN = -1 };

/* The places of one sequence: behind[i] is the place before i that has the same GRAM tokens in
 * front of it, head the last one of each hash; -1: none. Place i is in front of token i. */
struct own_places {
    int32_t *behind; /* [n_ctx + 1] */
    int32_t *head;   /* [n_heads] */
    int n;           /* places up to this one are there */
};

/* Answers one after the other, NO_TOKEN between them; the last STORED tokens are kept. */
struct store {
    int32_t *token; /* [STORED] at place % STORED */
    uint32_t *back; /* [STORED] to the place before it with the same GRAM tokens; 0: none */
    uint64_t *head; /* [STORE_HEADS] */
    uint64_t n;     /* tokens that have come */
};

struct draft_text {
    struct own_places *own; /* [n_seqs] */
    int32_t *memory;        /* of all of them */
    int n_seqs, n_heads;
    struct store store;
};

static uint32_t hash_of(int32_t a, int32_t b, int32_t c)
{
    uint32_t h = (uint32_t)a * 0x9e3779b1u ^ (uint32_t)b * 0x85ebca77u ^ (uint32_t)c * 0xc2b2ae3du;
    return h ^ h >> 15;
}

static int heads_of(int n_ctx)
{
    int n = 256;
    while (n < n_ctx && n < 1 << 16) n *= 2;
    return n;
}

static size_t ints_of(int n_ctx) { return (size_t)n_ctx + 1 + (size_t)heads_of(n_ctx); }

uint64_t draft_text_bytes(int n_seqs, int n_ctx)
{
    const struct store *s = NULL;
    return (uint64_t)n_seqs * ints_of(n_ctx) * sizeof(int32_t) +
           STORED * (sizeof *s->token + sizeof *s->back) + STORE_HEADS * sizeof *s->head;
}

int draft_text_open(struct draft_text **out, int n_seqs, int n_ctx, struct err *e)
{
    struct draft_text *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return err_memory(e);
    d->n_seqs = n_seqs;
    d->n_heads = heads_of(n_ctx);
    const size_t each = ints_of(n_ctx);
    d->own = calloc((size_t)n_seqs, sizeof *d->own);
    d->memory = calloc((size_t)n_seqs * each, sizeof *d->memory);
    d->store.token = calloc(STORED, sizeof *d->store.token);
    d->store.back = calloc(STORED, sizeof *d->store.back);
    d->store.head = calloc(STORE_HEADS, sizeof *d->store.head);
    if (!d->own || !d->memory || !d->store.token || !d->store.back || !d->store.head) {
        draft_text_close(d);
        return err_memory(e);
    }
    for (int i = 0; i < n_seqs; i++) {
        d->own[i].behind = d->memory + (size_t)i * each;
        d->own[i].head = d->own[i].behind + n_ctx + 1;
    }
    *out = d;
    return 0;
}

void draft_text_close(struct draft_text *d)
{
    if (!d) return;
    free(d->own);
    free(d->memory);
    free(d->store.token);
    free(d->store.back);
    free(d->store.head);
    free(d);
}

static void begin(void *self, int seq)
{
    struct draft_text *d = self;
    memset(d->own[seq].head, 0xff, (size_t)d->n_heads * sizeof *d->own[seq].head);
    d->own[seq].n = 0;
}

static int32_t token_of(const struct draft_ask *a, int i)
{
    return i < a->n_prompt ? a->prompt[i] : a->generated[i - a->n_prompt];
}

static uint32_t hash_before(const struct draft_ask *a, int place)
{
    return hash_of(token_of(a, place - 3), token_of(a, place - 2), token_of(a, place - 1));
}

/* Adds the places of the sequence that have a token behind them. */
static void add_places(struct draft_text *d, const struct draft_ask *a)
{
    struct own_places *own = &d->own[a->seq];
    const int n = a->n_prompt + a->n_generated;
    if (own->n < GRAM) own->n = GRAM;
    for (; own->n < n; own->n++) {
        int32_t *head = &own->head[hash_before(a, own->n) & (uint32_t)(d->n_heads - 1)];
        own->behind[own->n] = *head;
        *head = own->n;
    }
}

/* Tokens in front of the place that are those at the end of the sequence. */
static int own_length(const struct draft_ask *a, int place)
{
    const int n = a->n_prompt + a->n_generated;
    int i = 0;
    while (i < LONGEST && i < place && token_of(a, place - 1 - i) == token_of(a, n - 1 - i)) i++;
    return i;
}

static int32_t stored(const struct store *s, uint64_t i) { return s->token[i % STORED]; }

/* The same of a place of the store. */
static int store_length(const struct store *s, const struct draft_ask *a, uint64_t place)
{
    const int n = a->n_prompt + a->n_generated;
    const uint64_t first = s->n > STORED ? s->n - STORED : 0;
    int i = 0;
    while (i < LONGEST && i < n && place - (uint64_t)i > first &&
           stored(s, place - 1 - (uint64_t)i) == token_of(a, n - 1 - i))
        i++;
    return i;
}

/* The longest equal part, and the place behind it: of the sequence itself, else of the store. */
struct match {
    int length, own;
    uint64_t place;
};

static void look_in_own(struct draft_text *d, const struct draft_ask *a, struct match *m)
{
    const int n = a->n_prompt + a->n_generated;
    int place = d->own[a->seq].head[hash_before(a, n) & (uint32_t)(d->n_heads - 1)];
    for (int i = 0; i < WALK && place >= 0; i++, place = d->own[a->seq].behind[place]) {
        int length = own_length(a, place);
        if (length > m->length) *m = (struct match){length, 1, (uint64_t)place};
    }
}

static void look_in_store(const struct store *s, const struct draft_ask *a, struct match *m)
{
    const int n = a->n_prompt + a->n_generated;
    uint64_t place = s->head[hash_before(a, n) & (STORE_HEADS - 1)];
    for (int i = 0; i < WALK && place && s->n - place < STORED; i++) {
        int length = store_length(s, a, place);
        if (length > m->length) *m = (struct match){length, 0, place};
        uint32_t back = s->back[place % STORED];
        if (!back || back >= place) break;
        place -= back;
    }
}

/* What follows the place; of the sequence itself beyond its end what the draft begins with. */
static int copy_behind(const struct draft_text *d, const struct draft_ask *a, const struct match *m,
                       int32_t *token, int most)
{
    const int n = a->n_prompt + a->n_generated;
    int i = 0;
    for (; i < most; i++) {
        uint64_t at = m->place + (uint64_t)i;
        if (m->own) token[i] = at < (uint64_t)n ? token_of(a, (int)at) : token[at - (uint64_t)n];
        else if (at >= d->store.n || (token[i] = stored(&d->store, at)) == NO_TOKEN) break;
    }
    return i;
}

static int propose(void *self, const struct draft_ask *a, int32_t *token, int most, int *matched)
{
    struct draft_text *d = self;
    struct match m = {.length = GRAM - 1};
    *matched = 0;
    if (a->n_prompt + a->n_generated <= GRAM) return 0;
    add_places(d, a);
    look_in_own(d, a, &m);
    look_in_store(&d->store, a, &m);
    if (m.length < GRAM) return 0;
    *matched = m.length;
    return copy_behind(d, a, &m, token, most < m.length ? most : m.length);
}

static void put(struct store *s, int32_t token)
{
    const uint64_t place = s->n;
    s->token[place % STORED] = token;
    s->back[place % STORED] = 0;
    s->n++;
    if (place < GRAM) return;
    int32_t a = stored(s, place - 3), b = stored(s, place - 2), c = stored(s, place - 1);
    if (a == NO_TOKEN || b == NO_TOKEN || c == NO_TOKEN || token == NO_TOKEN) return;
    uint64_t *head = &s->head[hash_of(a, b, c) & (STORE_HEADS - 1)];
    if (*head && place - *head < STORED) s->back[place % STORED] = (uint32_t)(place - *head);
    *head = place;
}

/* The answer, behind the end of its prompt. */
static void end(void *self, const struct draft_ask *a)
{
    struct draft_text *d = self;
    int from = a->n_prompt > GRAM ? a->n_prompt - GRAM : 0;
    if (a->n_generated <= 0) return;
    for (int i = from; i < a->n_prompt + a->n_generated; i++) put(&d->store, token_of(a, i));
    put(&d->store, NO_TOKEN);
}

struct drafter draft_text_drafter(struct draft_text *d)
{
    return (struct drafter){begin, propose, end, d};
}
