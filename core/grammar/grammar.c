#include "core/grammar/grammar.h"

#include "core/grammar/choice.h"
#include "core/grammar/mask.h"
#include "core/grammar/masks.h"
#include "core/grammar/notation.h"
#include "core/grammar/walk.h"
#include "core/grammar/ways.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Choices are a trie, constant once it is made; everything else a walk, which grows with what is
 * asked of it: its lock is taken for every question. */
struct grammar {
    const struct vocab *vocab;
    struct choice *choice;
    struct walk *walk;
    uint64_t owner; /* of its masks */
    pthread_mutex_t lock;
    struct grammar_cursor *cursors; /* of the walk */
    int n_cursors;
};

struct grammar_cursor {
    struct grammar *g;
    uint32_t at;                 /* node of the trie, place of the walk */
    uint32_t *path, *other_path; /* [vocab_longest + 1] scratch of masks */
    struct grammar_cursor *next, **link;
};

int notation_of(struct net *net, const struct grammar_spec *spec, const struct vocab *v,
                uint32_t *root, struct err *e)
{
    const char *text = spec->text;
    switch (spec->kind) {
    case GRAMMAR_JSON: break;
    case GRAMMAR_SCHEMA: return notation_schema(net, spec, root, e);
    case GRAMMAR_REGEX: return notation_regex(net, text, spec->bytes, root, e);
    case GRAMMAR_CHOICE: return notation_choices(net, text, spec->bytes, root, e);
    case GRAMMAR_GBNF: return notation_gbnf(net, text, spec->bytes, v, root, e);
    case GRAMMAR_CALLS: return notation_calls(net, spec, root, e);
    }
    return notation_json(net, spec->space, root, e);
}

static int open_walk(struct grammar *g, const struct grammar_spec *spec, struct err *e)
{
    struct net *net;
    uint32_t root = 0;
    if (net_open(&net, e)) return -1;
    int rc = notation_of(net, spec, g->vocab, &root, e);
    if (!rc && spec->may_begin_with_space && spec->kind <= GRAMMAR_SCHEMA) {
        uint32_t document = root;
        root = net_rule(net, "begin", 5);
        net_define(net, root,
                   net_sequence(net, net_repeat(net, net_text(net, " ", 1), 0, 1),
                                net_call(net, document)));
    }
    if (!rc && spec->thoughts.begins) rc = notation_thoughts(net, &spec->thoughts, &root, e);
    if (!rc) rc = net_finish(net, root, e);
    if (!rc) rc = ways_check(net, root, WALK_MAX_WAYS, e);
    if (rc) {
        net_close(net);
        return -1;
    }
    return walk_open(&g->walk, net, root, e) || walk_reserve(g->walk, e) ? -1 : 0;
}

int grammar_open(struct grammar **out, const struct grammar_spec *spec, const struct vocab *v,
                 struct err *e)
{
    struct grammar *g = calloc(1, sizeof *g);
    if (!g) return err_memory(e);
    g->vocab = v;
    g->owner = masks_owner(vocab_masks(v));
    pthread_mutex_init(&g->lock, NULL);
    int is_trie = spec->kind == GRAMMAR_CHOICE && !spec->thoughts.begins;
    if (is_trie ? choice_open(&g->choice, spec->text, spec->bytes, e) : open_walk(g, spec, e)) {
        grammar_close(g);
        return -1;
    }
    *out = g;
    return 0;
}

void grammar_close(struct grammar *g)
{
    if (!g) return;
    choice_close(g->choice);
    walk_close(g->walk);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

int grammar_cursor_open(struct grammar_cursor **out, struct grammar *g, struct err *e)
{
    struct grammar_cursor *c = calloc(1, sizeof *c);
    size_t longest = vocab_longest(g->vocab) + 1;
    if (c) c->path = calloc(2 * longest, sizeof *c->path);
    if (!c || !c->path) {
        free(c);
        return err_memory(e);
    }
    c->g = g;
    c->other_path = c->path + longest;
    grammar_cursor_reset(c);
    pthread_mutex_lock(&g->lock);
    c->next = g->cursors;
    c->link = &g->cursors;
    if (c->next) c->next->link = &c->next;
    g->cursors = c;
    g->n_cursors++;
    pthread_mutex_unlock(&g->lock);
    *out = c;
    return 0;
}

void grammar_cursor_close(struct grammar_cursor *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->g->lock);
    *c->link = c->next;
    if (c->next) c->next->link = c->link;
    c->g->n_cursors--;
    pthread_mutex_unlock(&c->g->lock);
    free(c->path);
    free(c);
}

_Static_assert((int)CHOICE_DEAD == (int)WALK_DEAD && (int)CHOICE_START == (int)WALK_START,
               "a cursor begins alike");
void grammar_cursor_copy(struct grammar_cursor *to, const struct grammar_cursor *from)
{
    pthread_mutex_lock(&to->g->lock);
    to->at = from->at;
    pthread_mutex_unlock(&to->g->lock);
}

void grammar_cursor_reset(struct grammar_cursor *c)
{
    pthread_mutex_lock(&c->g->lock);
    c->at = CHOICE_START;
    pthread_mutex_unlock(&c->g->lock);
}

/* One byte further from AT, which is not dead. The lock is held. */
static int step(const struct grammar *g, uint32_t at, char byte, uint32_t *to, struct err *e)
{
    if (g->walk) return walk_step(g->walk, at, (unsigned char)byte, to, e);
    *to = choice_step(g->choice, at, (unsigned char)byte);
    return 0;
}

int grammar_accept(struct grammar_cursor *c, const char *text, size_t n, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&c->g->lock);
    uint32_t at = c->at; /* under the lock: make_room gives places new numbers */
    for (size_t i = 0; i < n && at && !rc; i++) rc = step(c->g, at, text[i], &at, e);
    if (!rc && at) c->at = at;
    pthread_mutex_unlock(&c->g->lock);
    return rc ? -1 : at != 0;
}

int grammar_accept_token(struct grammar_cursor *c, int32_t id, struct err *e)
{
    size_t bytes;
    const char *t = vocab_token(c->g->vocab, id, &bytes);
    return t ? grammar_accept(c, t, bytes, e) : 0;
}

int grammar_may_end(struct grammar_cursor *c)
{
    if (c->g->choice) return choice_may_end(c->g->choice, c->at);
    pthread_mutex_lock(&c->g->lock);
    int may = walk_may_end(c->g->walk, c->at);
    pthread_mutex_unlock(&c->g->lock);
    return may;
}

int grammar_must_end(struct grammar_cursor *c)
{
    if (c->g->choice) return choice_must_end(c->g->choice, c->at);
    pthread_mutex_lock(&c->g->lock);
    int must = walk_must_end(c->g->walk, c->at);
    pthread_mutex_unlock(&c->g->lock);
    return must;
}

/* Before a mask: what was found is forgotten when it is much, but for the cursors' places. */
static int make_room(struct grammar *g, struct err *e)
{
    int n = 0;
    if (!walk_is_large(g->walk)) return 0;
    walk_place **places = malloc((size_t)(g->n_cursors + 1) * sizeof *places);
    if (!places) return err_memory(e);
    for (struct grammar_cursor *c = g->cursors; c; c = c->next) places[n++] = &c->at;
    int rc = walk_forget(g->walk, places, n, e);
    if (!rc) g->owner = masks_owner(vocab_masks(g->vocab)); /* places have new numbers */
    free(places);
    return rc;
}

static int walk_to_mask(struct grammar_cursor *c, uint32_t *bits, int *n_allowed, int32_t *lowest,
                        struct err *e)
{
    struct grammar *g = c->g;
    struct masks *kept = vocab_masks(g->vocab);
    if (make_room(g, e)) return -1;
    if (masks_find(kept, g->owner, c->at, bits, n_allowed, lowest)) return 0;
    struct mask_maker m = {g->walk, g->vocab, g->owner, c->path, c->other_path};
    if (mask_of(&m, c->at, bits, e)) return -1;
    masks_keep(kept, g->owner, c->at, bits, n_allowed, lowest);
    return 0;
}

int grammar_mask(struct grammar_cursor *c, uint32_t *bits, int *n_allowed, int32_t *only,
                 struct err *e)
{
    int32_t lowest;
    int rc = 0;
    if (c->g->walk) {
        pthread_mutex_lock(&c->g->lock);
        rc = walk_to_mask(c, bits, n_allowed, &lowest, e);
        pthread_mutex_unlock(&c->g->lock);
    } else {
        mask_of_choice(c->g->choice, c->at, c->g->vocab, c->path, bits);
        masks_count(bits, ((size_t)vocab_n(c->g->vocab) + 31) / 32, n_allowed, &lowest);
    }
    if (!rc && only) *only = lowest;
    return rc;
}
