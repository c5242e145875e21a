#include "core/sched/draft.h"

#include <stdlib.h>
#include <string.h>

/* A place is looked up by its last GRAM tokens; of at most WALK places the longest equal part is
 * taken, up to LONGEST tokens of it are compared. Where there is none, the last place of the
 * sequence with fewer equal tokens is. */
enum { GRAM = 3, WALK = 16, LONGEST = 32, STORED = 1 << 19, STORE_HEADS = 1 << 17, NO_TOKEN = -1 };
/* Places of a sequence that have one before them; heads of all sequences. */
enum { PLACES = 1 << 14, MIN_HEADS = 1 << 10, MAX_HEADS = 1 << 22 };

/* The places of one sequence: behind[i % PLACES] is the place before i that has the same GRAM
 * tokens in front of it; -1: none. Place i is in front of token i. */
struct own_places {
    int32_t *behind; /* [n_places] */
    int n;           /* places below this one are there */
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
    /* [n_heads] by the hash of a sequence and of 1 to GRAM tokens: the last place behind them. They
     * may be others' by now: who takes a place compares its tokens. */
    int32_t *head;
    int n_places, n_heads;
    struct store store;
};

static uint32_t hash_of(int32_t a, int32_t b, int32_t c)
{
    uint32_t h = (uint32_t)a * 0x9e3779b1u ^ (uint32_t)b * 0x85ebca77u ^ (uint32_t)c * 0xc2b2ae3du;
    return h ^ h >> 15;
}

static int places_of(int n_ctx) { return n_ctx < PLACES ? n_ctx : PLACES; }

static int heads_of(int n_seqs, int n_ctx)
{
    int n = MIN_HEADS;
    while (n < MAX_HEADS && n < GRAM * (int64_t)n_ctx * n_seqs) n *= 2;
    return n;
}

uint64_t draft_text_bytes(int n_seqs, int n_ctx)
{
    const struct store *s = NULL;
    const uint64_t places = (uint64_t)n_seqs * (uint64_t)places_of(n_ctx),
                   heads = (uint64_t)heads_of(n_seqs, n_ctx);
    return (places + heads) * sizeof(int32_t) + STORED * (sizeof *s->token + sizeof *s->back) +
           STORE_HEADS * sizeof *s->head;
}

int draft_text_open(struct draft_text **out, int n_seqs, int n_ctx, struct err *e)
{
    struct draft_text *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d) return err_memory(e);
    d->n_places = places_of(n_ctx);
    d->n_heads = heads_of(n_seqs, n_ctx);
    d->own = calloc((size_t)n_seqs, sizeof *d->own);
    d->memory = calloc((size_t)n_seqs * (size_t)d->n_places, sizeof *d->memory);
    d->head = calloc((size_t)d->n_heads, sizeof *d->head);
    d->store.token = calloc(STORED, sizeof *d->store.token);
    d->store.back = calloc(STORED, sizeof *d->store.back);
    d->store.head = calloc(STORE_HEADS, sizeof *d->store.head);
    if (!d->own || !d->memory || !d->head || !d->store.token || !d->store.back || !d->store.head) {
        draft_text_close(d);
        return err_memory(e);
    }
    for (int i = 0; i < n_seqs; i++) d->own[i].behind = d->memory + (size_t)i * (size_t)d->n_places;
    *out = d;
    return 0;
}

void draft_text_close(struct draft_text *d)
{
    if (!d) return;
    free(d->own);
    free(d->memory);
    free(d->head);
    free(d->store.token);
    free(d->store.back);
    free(d->store.head);
    free(d);
}

static void begin(void *self, int seq) { ((struct draft_text *)self)->own[seq].n = 0; }

static int32_t token_of(const struct draft_ask *a, int i)
{
    return i < a->n_prompt ? a->prompt[i] : a->generated[i - a->n_prompt];
}

/* Of the N tokens in front of the place. */
static uint32_t hash_before(const struct draft_ask *a, int place, int n)
{
    return hash_of(token_of(a, place - 1), n > 1 ? token_of(a, place - 2) : NO_TOKEN,
                   n > 2 ? token_of(a, place - 3) : NO_TOKEN);
}

/* The last place of the sequence with the same N tokens in front of it as PLACE has. */
static int32_t *head_of(const struct draft_text *d, const struct draft_ask *a, int place, int n)
{
    uint32_t h = hash_before(a, place, n) + (uint32_t)(GRAM * a->seq + n) * 0x9e3779b1u;
    return &d->head[(h ^ h >> 13) & (uint32_t)(d->n_heads - 1)];
}

/* Adds the places of the sequence that have a token behind them. */
static void add_places(const struct draft_text *d, const struct draft_ask *a)
{
    struct own_places *own = &d->own[a->seq];
    const int n = a->n_prompt + a->n_generated;
    if (!own->n) own->n = 1;
    for (; own->n < n; own->n++) {
        for (int g = 1; g <= GRAM && g <= own->n; g++) {
            int32_t *head = head_of(d, a, own->n, g);
            if (g == GRAM) own->behind[own->n % d->n_places] = *head < own->n ? *head : -1;
            *head = own->n;
        }
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

static void look_in_own(const struct draft_text *d, const struct draft_ask *a, struct match *m)
{
    const int n = a->n_prompt + a->n_generated;
    int place = *head_of(d, a, n, GRAM);
    for (int i = 0; i < WALK && place > 0 && place < n; i++) {
        int length = own_length(a, place);
        if (length > m->length) *m = (struct match){length, 1, (uint64_t)place};
        place = place >= GRAM && n - place < d->n_places
                    ? d->own[a->seq].behind[place % d->n_places]
                    : -1;
    }
}

static void look_in_store(const struct store *s, const struct draft_ask *a, struct match *m)
{
    const int n = a->n_prompt + a->n_generated;
    uint64_t place = s->head[hash_before(a, n, GRAM) & (STORE_HEADS - 1)];
    for (int i = 0; i < WALK && place && s->n - place < STORED; i++) {
        int length = store_length(s, a, place);
        if (length > m->length) *m = (struct match){length, 0, place};
        uint32_t back = s->back[place % STORED];
        if (!back || back >= place) break;
        place -= back;
    }
}

/* The last place with fewer equal tokens. */
static void look_for_less(const struct draft_text *d, const struct draft_ask *a, struct match *m)
{
    const int n = a->n_prompt + a->n_generated;
    for (int g = GRAM - 1; g > 0 && !m->length; g--) {
        int place = g < n ? *head_of(d, a, n, g) : 0;
        if (place > 0 && place < n && own_length(a, place) >= g)
            *m = (struct match){g, 1, (uint64_t)place};
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

/* At most twice as many tokens as were equal. */
static int propose(void *self, const struct draft_ask *a, int32_t *token, int most, int *matched)
{
    struct draft_text *d = self;
    struct match m = {.length = GRAM - 1};
    add_places(d, a);
    if (a->n_prompt + a->n_generated > GRAM) {
        look_in_own(d, a, &m);
        look_in_store(&d->store, a, &m);
    }
    if (m.length < GRAM) m.length = 0;
    look_for_less(d, a, &m);
    *matched = m.length;
    return m.length ? copy_behind(d, a, &m, token, most < 2 * m.length ? most : 2 * m.length) : 0;
}

static void put(struct store *s, int32_t token)
{
    const uint64_t place = s->n;
    s->token[place % STORED] = token;
    s->back[place % STORED] = 0;
    s->n++;
    if (place < GRAM) return;
    int32_t a = stored(s, place - 1), b = stored(s, place - 2), c = stored(s, place - 3);
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
