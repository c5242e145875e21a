#include "core/grammar/walk.h"

#include <stdlib.h>
#include <string.h>

/* Beyond these, what is kept is forgotten between two masks. */
enum { LARGE_PLACES = 1 << 16, NO_FRAME = UINT32_MAX, UNKNOWN = UINT32_MAX };
static const size_t LARGE_MASKS = (size_t)256 << 20;

/* A return: to a node with the flags of its rule, and from that rule to the frame below. Equal ones
 * are one. */
struct frame {
    uint32_t node, below;
    uint64_t flags;
};

/* A node that reads, the frame that its rule returns to, the rule's flags. */
struct config {
    uint32_t node, frame;
    uint64_t flags;
};

struct place {
    uint32_t first, n; /* configs */
    int may_end;
    uint32_t *next;           /* [256], NULL: none is known */
    walk_place inner;         /* UNKNOWN: not looked for */
    struct walk_mask mask[2]; /* as a place of the language, as an inner one */
};

struct table { /* of frames or of places: open addressing, 0 is free, else the number + 1 */
    uint32_t *slot, size, used;
};

struct walk {
    struct net *net;
    const struct net_node *node;
    uint32_t root, n_nodes;
    struct frame *frame;
    struct place *place;
    struct config *config;
    uint32_t n_frames, n_places, n_configs, cap_frames, cap_places, cap_configs;
    struct table frames, places;
    /* a place in the making: the configs behind n_configs, and pairs seen on the way */
    struct config *seen, *todo;
    uint32_t n_seen, n_todo, cap_seen, cap_todo;
    struct table marks;
    size_t mask_words, mask_bytes;
};

static int grow(void *array, uint32_t count, uint32_t *cap, size_t size, struct err *e)
{
    if (count < *cap) return 0;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *p = realloc(*(void **)array, more * size);
    if (!p) return err_memory(e);
    *(void **)array = p;
    *cap = more;
    return 0;
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

/* Room for one more; the caller puts its entries back into a table that became larger. */
static int widen(struct table *t, struct err *e)
{
    if (2 * (t->used + 1) <= t->size) return 0;
    uint32_t size = t->size ? 2 * t->size : 128;
    uint32_t *slot = calloc(size, sizeof *slot);
    if (!slot) return err_memory(e);
    free(t->slot);
    t->slot = slot;
    t->size = size;
    t->used = 0;
    return 1;
}

static void put(struct table *t, uint32_t hash, uint32_t i)
{
    uint32_t at = hash & (t->size - 1);
    while (t->slot[at]) at = (at + 1) & (t->size - 1);
    t->slot[at] = i + 1;
    t->used++;
}

static uint32_t hash_of(uint32_t a, uint32_t b, uint64_t flags)
{
    return mix(mix(mix(mix(0x811c9dc5u, a), b), (uint32_t)flags), (uint32_t)(flags >> 32));
}

static int find_frame(struct walk *w, struct frame f, uint32_t *out, struct err *e)
{
    int rc = widen(&w->frames, e);
    if (rc < 0) return -1;
    for (uint32_t i = 0; rc && i < w->n_frames; i++)
        put(&w->frames, hash_of(w->frame[i].node, w->frame[i].below, w->frame[i].flags), i);
    uint32_t hash = hash_of(f.node, f.below, f.flags), at = hash & (w->frames.size - 1);
    for (; w->frames.slot[at]; at = (at + 1) & (w->frames.size - 1)) {
        uint32_t i = w->frames.slot[at] - 1;
        if (w->frame[i].node == f.node && w->frame[i].below == f.below &&
            w->frame[i].flags == f.flags)
            return *out = i, 0;
    }
    if (grow(&w->frame, w->n_frames, &w->cap_frames, sizeof *w->frame, e)) return -1;
    w->frame[w->n_frames] = f;
    put(&w->frames, hash, w->n_frames);
    *out = w->n_frames++;
    return 0;
}

/* 1: seen for the first time. */
static int mark(struct walk *w, struct config c, struct err *e)
{
    int rc = widen(&w->marks, e);
    if (rc < 0) return -1;
    for (uint32_t i = 0; rc && i < w->n_seen; i++)
        put(&w->marks, hash_of(w->seen[i].node, w->seen[i].frame, w->seen[i].flags), i);
    uint32_t hash = hash_of(c.node, c.frame, c.flags), at = hash & (w->marks.size - 1);
    for (; w->marks.slot[at]; at = (at + 1) & (w->marks.size - 1)) {
        const struct config *s = &w->seen[w->marks.slot[at] - 1];
        if (s->node == c.node && s->frame == c.frame && s->flags == c.flags) return 0;
    }
    if (grow(&w->seen, w->n_seen, &w->cap_seen, sizeof *w->seen, e)) return -1;
    w->seen[w->n_seen] = c;
    put(&w->marks, hash, w->n_seen++);
    return 1;
}

static int push(struct walk *w, uint32_t node, uint32_t frame, uint64_t flags, struct err *e)
{
    struct config c = {node, frame, flags};
    if (w->node[node].kind == NET_DEAD) return 0;
    int is_new = mark(w, c, e);
    if (is_new <= 0) return is_new;
    if (grow(&w->todo, w->n_todo, &w->cap_todo, sizeof *w->todo, e)) return -1;
    w->todo[w->n_todo++] = c;
    return 0;
}

static void begin(struct walk *w)
{
    w->n_seen = w->n_todo = 0;
    if (w->marks.size > 4096) { /* a large one was needed once */
        free(w->marks.slot);
        w->marks = (struct table){0};
    }
    if (w->marks.slot) memset(w->marks.slot, 0, w->marks.size * sizeof *w->marks.slot);
    w->marks.used = 0;
}

static int by_config(const void *a, const void *b)
{
    const struct config *x = a, *y = b;
    return x->node != y->node     ? (x->node < y->node ? -1 : 1)
           : x->frame != y->frame ? (x->frame < y->frame ? -1 : 1)
           : x->flags != y->flags ? (x->flags < y->flags ? -1 : 1)
                                  : 0;
}

static uint32_t place_hash(const struct walk *w, const struct place *p)
{
    uint32_t h = mix(0x811c9dc5u, (uint32_t)p->may_end);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct config *c = &w->config[p->first + i];
        h = mix(h, hash_of(c->node, c->frame, c->flags));
    }
    return h;
}

/* The place of the configs behind n_configs [n]. */
static int find_place(struct walk *w, uint32_t n, int may_end, walk_place *out, struct err *e)
{
    struct place p = {.first = w->n_configs, .n = n, .may_end = may_end, .inner = UNKNOWN};
    if (n) qsort(w->config + p.first, n, sizeof *w->config, by_config);
    int rc = widen(&w->places, e);
    if (rc < 0) return -1;
    for (uint32_t i = WALK_START; rc && i < w->n_places; i++)
        put(&w->places, place_hash(w, &w->place[i]), i);
    uint32_t hash = place_hash(w, &p), at = hash & (w->places.size - 1);
    for (; w->places.slot[at]; at = (at + 1) & (w->places.size - 1)) {
        const struct place *q = &w->place[w->places.slot[at] - 1];
        if (q->n == n && q->may_end == may_end &&
            (!n || !memcmp(w->config + q->first, w->config + p.first, n * sizeof *w->config)))
            return *out = w->places.slot[at] - 1, 0;
    }
    if (grow(&w->place, w->n_places, &w->cap_places, sizeof *w->place, e)) return -1;
    w->place[w->n_places] = p;
    w->n_configs += n;
    put(&w->places, hash, w->n_places);
    *out = w->n_places++;
    return 0;
}

/* Follows all that was pushed to the nodes that read. */
static int close_over(struct walk *w, walk_place *out, struct err *e)
{
    uint32_t n = 0;
    int may_end = 0;
    while (w->n_todo) {
        const struct config c = w->todo[--w->n_todo];
        const struct net_node x = w->node[c.node];
        uint32_t frame = c.frame;
        switch (x.kind) {
        case NET_READ:
            if (grow(&w->config, w->n_configs + n, &w->cap_configs, sizeof *w->config, e))
                return -1;
            w->config[w->n_configs + n++] = c;
            break;
        case NET_SPLIT:
            if (push(w, x.a, frame, c.flags, e) || push(w, x.b, frame, c.flags, e)) return -1;
            break;
        case NET_MARK:
            if (!(c.flags >> x.a & 1) && push(w, x.b, frame, c.flags | (uint64_t)1 << x.a, e))
                return -1;
            break;
        case NET_TEST: {
            uint64_t need = net_flags(w->net, x.a);
            if ((c.flags & need) == need && push(w, x.b, frame, c.flags, e)) return -1;
            break;
        }
        case NET_NEED:
            if (push(w, x.b, frame, c.flags, e)) return -1;
            break;
        case NET_CALL: /* the last call of a rule returns to where the rule returns */
            if (w->node[x.b].kind != NET_END &&
                find_frame(w, (struct frame){x.b, c.frame, c.flags}, &frame, e))
                return -1;
            if (push(w, net_start(w->net, x.a), frame, 0, e)) return -1;
            break;
        case NET_END:
            if (frame == NO_FRAME) may_end = 1;
            else {
                const struct frame f = w->frame[frame];
                if (push(w, f.node, f.below, f.flags, e)) return -1;
            }
            break;
        case NET_DEAD: break;
        }
    }
    if (!n && !may_end) return *out = WALK_DEAD, 0;
    return find_place(w, n, may_end, out, e);
}

int walk_open(struct walk **out, struct net *net, uint32_t root, size_t mask_words, struct err *e)
{
    struct walk *w = calloc(1, sizeof *w);
    walk_place start;
    if (!w) {
        net_close(net);
        return err_memory(e);
    }
    w->net = net;
    w->node = net_nodes(net, &w->n_nodes);
    w->root = net_start(net, root);
    w->mask_words = mask_words;
    if (grow(&w->place, 0, &w->cap_places, sizeof *w->place, e)) {
        walk_close(w);
        return -1;
    }
    w->place[0] = (struct place){0}; /* WALK_DEAD */
    w->n_places = WALK_START;
    begin(w);
    if (push(w, w->root, NO_FRAME, 0, e) || close_over(w, &start, e)) {
        walk_close(w);
        return -1;
    }
    *out = w;
    return 0;
}

static void free_places(struct walk *w)
{
    for (uint32_t i = 0; i < w->n_places; i++) {
        free(w->place[i].next);
        for (int k = 0; k < 2; k++) {
            free(w->place[i].mask[k].bits);
            free(w->place[i].mask[k].end);
            free(w->place[i].mask[k].common);
        }
    }
    free(w->place);
    free(w->config);
    free(w->frame);
    free(w->frames.slot);
    free(w->places.slot);
}

void walk_close(struct walk *w)
{
    if (!w) return;
    free_places(w);
    free(w->seen);
    free(w->todo);
    free(w->marks.slot);
    net_close(w->net);
    free(w);
}

int walk_step(struct walk *w, walk_place at, unsigned char byte, walk_place *to, struct err *e)
{
    struct place *p = &w->place[at];
    if (p->next && p->next[byte] != UNKNOWN) return *to = p->next[byte], 0;
    if (!p->next) {
        if (!(p->next = malloc(256 * sizeof *p->next))) return err_memory(e);
        memset(p->next, 0xff, 256 * sizeof *p->next);
    }
    begin(w);
    for (uint32_t i = 0; i < p->n; i++) {
        const struct config c = w->config[p->first + i];
        const uint32_t *set = net_set(w->net, w->node[c.node].a);
        if (set[byte / 32] >> byte % 32 & 1 && push(w, w->node[c.node].b, c.frame, c.flags, e))
            return -1;
    }
    if (close_over(w, to, e)) return -1;
    w->place[at].next[byte] = *to; /* places may have moved */
    return 0;
}

int walk_may_end(const struct walk *w, walk_place at) { return w->place[at].may_end; }
int walk_must_end(const struct walk *w, walk_place at)
{
    return w->place[at].may_end && !w->place[at].n;
}

static int depth_of(const struct walk *w, uint32_t frame)
{
    int n = 0;
    for (; frame != NO_FRAME; frame = w->frame[frame].below) n++;
    return n;
}

/* The deepest frame that both return to. */
static uint32_t common_frame(const struct walk *w, uint32_t a, uint32_t b)
{
    int of_a = depth_of(w, a), of_b = depth_of(w, b);
    for (; of_a > of_b; of_a--) a = w->frame[a].below;
    for (; of_b > of_a; of_b--) b = w->frame[b].below;
    while (a != b) a = w->frame[a].below, b = w->frame[b].below;
    return a;
}

/* The frame without those from BASE on. */
static int cut(struct walk *w, uint32_t frame, uint32_t base, uint32_t *out, struct err *e)
{
    enum { MAX_CUT = 64 };
    uint32_t chain[MAX_CUT];
    int n = 0;
    for (; frame != base; frame = w->frame[frame].below) {
        if (n == MAX_CUT) return 1;
        chain[n++] = frame;
    }
    *out = NO_FRAME;
    while (n--) {
        struct frame f = w->frame[chain[n]];
        f.below = *out;
        if (find_frame(w, f, out, e)) return -1;
    }
    return 0;
}

int walk_inner(struct walk *w, walk_place at, walk_place *inner, struct err *e)
{
    const struct place p = w->place[at];
    if (p.inner != UNKNOWN) return *inner = p.inner, 0;
    uint32_t base = p.n ? w->config[p.first].frame : NO_FRAME;
    int rc = 0;
    for (uint32_t i = 1; i < p.n; i++) base = common_frame(w, base, w->config[p.first + i].frame);
    *inner = at;
    if (base != NO_FRAME && !p.may_end) {
        for (uint32_t i = 0; i < p.n && !rc; i++) {
            if (grow(&w->config, w->n_configs + i, &w->cap_configs, sizeof *w->config, e))
                return -1;
            struct config c = w->config[p.first + i];
            rc = cut(w, c.frame, base, &c.frame, e);
            w->config[w->n_configs + i] = c;
        }
        if (!rc) rc = find_place(w, p.n, 0, inner, e);
        if (rc < 0) return -1;
    }
    w->place[at].inner = *inner;
    return 0;
}

int walk_write_down(const struct walk *w, walk_place at, uint32_t *words, int max)
{
    const struct place *p = &w->place[at];
    uint32_t n_common, id = net_common(w->net, &n_common);
    int n = 0;
    if (!id || max < 2) return 0;
    words[n++] = id;
    words[n++] = (uint32_t)p->may_end;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct config c = w->config[p->first + i];
        struct frame f = {c.node, c.frame, c.flags};
        for (;;) {
            if (f.node >= n_common || f.flags || n + 2 > max) return 0;
            words[n++] = f.node;
            if (f.below == NO_FRAME) break;
            f = w->frame[f.below];
        }
        words[n++] = UINT32_MAX;
    }
    return n;
}

const struct walk_mask *walk_mask(const struct walk *w, walk_place at, int is_inner)
{
    const struct walk_mask *m = &w->place[at].mask[is_inner];
    return m->bits ? m : NULL;
}

int walk_keep_mask(struct walk *w, walk_place at, int is_inner, const struct walk_mask *m,
                   struct err *e)
{
    size_t bytes = w->mask_words * sizeof *m->bits;
    uint32_t *copy = malloc(bytes + 1);
    if (!copy) return err_memory(e);
    memcpy(copy, m->bits, bytes);
    w->place[at].mask[is_inner] = *m;
    w->place[at].mask[is_inner].bits = copy;
    w->mask_bytes += bytes + 2 * (size_t)m->n_ends * sizeof *m->end;
    return 0;
}

int walk_is_large(const struct walk *w)
{
    return w->n_places > LARGE_PLACES || w->mask_bytes > LARGE_MASKS;
}

/* A frame of OLD in the new walk. */
static int keep_frame(struct walk *w, const struct walk *old, uint32_t i, uint32_t *out,
                      struct err *e)
{
    uint32_t n = 0, chain[1024], rest = i;
    if (i == NO_FRAME) return *out = NO_FRAME, 0;
    while (rest != NO_FRAME && n < 1024) chain[n++] = rest, rest = old->frame[rest].below;
    if (keep_frame(w, old, rest, out, e)) return -1;
    while (n--)
        if (find_frame(w,
                       (struct frame){old->frame[chain[n]].node, *out, old->frame[chain[n]].flags},
                       out, e))
            return -1;
    return 0;
}

int walk_forget(struct walk *w, walk_place *const places[], int n, struct err *e)
{
    struct walk old = *w;
    walk_place *kept = calloc((size_t)n + 1, sizeof *kept);
    int rc = kept ? 0 : err_memory(e);
    w->frame = NULL;
    w->place = NULL;
    w->config = NULL;
    w->frames = w->places = (struct table){0};
    w->n_frames = w->n_configs = w->cap_frames = w->cap_places = w->cap_configs = 0;
    w->n_places = 0;
    w->mask_bytes = 0;
    if (!rc) rc = grow(&w->place, 0, &w->cap_places, sizeof *w->place, e);
    if (!rc) {
        w->place[0] = (struct place){0};
        w->n_places = WALK_START;
        begin(w);
        rc = push(w, w->root, NO_FRAME, 0, e) || close_over(w, &kept[n], e) ? -1 : 0;
    }
    for (int i = 0; i < n && !rc; i++) {
        const struct place *p = &old.place[*places[i]];
        if (*places[i] == WALK_DEAD) continue;
        for (uint32_t k = 0; k < p->n && !rc; k++) {
            struct config c = old.config[p->first + k];
            rc = keep_frame(w, &old, c.frame, &c.frame, e);
            if (!rc) rc = grow(&w->config, w->n_configs + k, &w->cap_configs, sizeof *w->config, e);
            if (!rc) w->config[w->n_configs + k] = c;
        }
        if (!rc) rc = find_place(w, p->n, p->may_end, &kept[i], e);
    }
    for (int i = 0; i < n && !rc; i++) *places[i] = kept[i];
    free(kept);
    old.seen = w->seen, old.todo = w->todo, old.marks = w->marks;
    old.n_seen = w->n_seen, old.n_todo = w->n_todo;
    old.cap_seen = w->cap_seen, old.cap_todo = w->cap_todo;
    free_places(rc ? w : &old);
    if (rc) *w = old;
    return rc;
}
