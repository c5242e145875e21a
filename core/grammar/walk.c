#include "core/grammar/walk.h"

#include <stdlib.h>
#include <string.h>

/* Beyond this, what is kept is forgotten between two masks. The first memory is that of most
 * grammars. */
enum { LARGE_PLACES = 1 << 16, FIRST = 2048, NO_FRAME = UINT32_MAX };
enum { MAX_SEEN = WALK_MAX_WAYS };

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
    uint32_t notes[WALK_NOTES];
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
    /* steps: as walk_steps has them; a map is found by the sets that its places read, KEYS */
    struct walk_steps steps;
    struct walk_row *row;
    unsigned char (*map)[256];
    walk_place *next;
    uint32_t *key; /* number of sets, the sets in ascending order, ... */
    struct map {
        uint32_t key, n_classes;
    } *maps;
    uint32_t *stamp, now; /* [n_sets]: the last place that has the set */
    uint32_t n_maps, n_next, n_keys, n_sets, cap_rows, cap_map, cap_maps, cap_next, cap_keys;
    struct table found_maps;
};

static int grow(void *array, uint32_t count, uint32_t *cap, size_t size, struct err *e)
{
    if (count < *cap) return 0;
    uint32_t more = *cap ? 2 * *cap : size > 64 ? FIRST / 32 : FIRST;
    while (more <= count) more *= 2;
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

/* What walk_reserve takes: enough for the documents of 19 in 20 schemas of JSONSchemaBench. */
enum {
    ROOM_PLACES = 4096,
    ROOM_CONFIGS = 32768,
    ROOM_FRAMES = 1024,
    ROOM_STEPS = 32768,
    ROOM_MAPS = 128,
    ROOM_KEYS = 1024,
    ROOM_SEEN = 1024,
};

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

/* Puts all frames into their table, which is empty. */
static void put_frames(struct walk *w)
{
    w->frames.used = 0;
    for (uint32_t i = 0; i < w->n_frames; i++)
        put(&w->frames, hash_of(w->frame[i].node, w->frame[i].below, w->frame[i].flags), i);
}

static int find_frame(struct walk *w, struct frame f, uint32_t *out, struct err *e)
{
    int rc = widen(&w->frames, e);
    if (rc < 0) return -1;
    if (rc) put_frames(w);
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
    if (w->n_seen == MAX_SEEN)
        return err_set(e, "the grammar is too ambiguous: more than %d ways at one place", MAX_SEEN);
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

static int by_config(const struct config *x, const struct config *y)
{
    return x->node != y->node     ? (x->node < y->node ? -1 : 1)
           : x->frame != y->frame ? (x->frame < y->frame ? -1 : 1)
           : x->flags != y->flags ? (x->flags < y->flags ? -1 : 1)
                                  : 0;
}

/* Shell's sort (1959): without memory, which qsort may take. */
static void sort_configs(struct config *c, uint32_t n)
{
    for (uint32_t gap = n > 16 ? n / 3 : 1; n > 1 && gap > 0; gap = gap == 1 ? 0 : gap / 3 + 1)
        for (uint32_t i = gap; i < n; i++) {
            struct config x = c[i];
            uint32_t k = i;
            for (; k >= gap && by_config(&x, &c[k - gap]) < 0; k -= gap) c[k] = c[k - gap];
            c[k] = x;
        }
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

/* Splits the classes of a map by a set; class 0 is that of bytes in none. */
static uint32_t split(unsigned char map[256], uint32_t n_classes, const uint32_t set[8])
{
    uint32_t inside[256], outside[256], n = 1;
    memset(inside, 0, n_classes * sizeof *inside);
    memset(outside, 0, n_classes * sizeof *outside);
    for (int b = 0; b < 256; b++) {
        uint32_t *to = set[b / 32] >> b % 32 & 1 ? &inside[map[b]] : &outside[map[b]];
        if (to == &outside[0]) {
            map[b] = 0;
            continue;
        }
        if (!*to) *to = n++;
        map[b] = (unsigned char)*to;
    }
    return n;
}

static uint32_t key_hash(const uint32_t *key, uint32_t n)
{
    uint32_t h = 0x811c9dc5u;
    for (uint32_t i = 0; i < n; i++) h = mix(h, key[i]);
    return h;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Writes the sets that configs [n] read behind the keys; returns how many. */
static int write_key(struct walk *w, const struct config *c, uint32_t n, uint32_t *n_sets,
                     struct err *e)
{
    *n_sets = 0;
    w->now++;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t set = w->node[c[i].node].a;
        if (w->stamp[set] == w->now) continue;
        w->stamp[set] = w->now;
        if (grow(&w->key, w->n_keys + *n_sets + 1, &w->cap_keys, sizeof *w->key, e)) return -1;
        w->key[w->n_keys + 1 + (*n_sets)++] = set;
    }
    if (grow(&w->key, w->n_keys, &w->cap_keys, sizeof *w->key, e)) return -1;
    w->key[w->n_keys] = *n_sets;
    qsort(w->key + w->n_keys + 1, *n_sets, sizeof *w->key, ascending);
    return 0;
}

static void put_maps(struct walk *w)
{
    w->found_maps.used = 0;
    for (uint32_t i = 0; i < w->n_maps; i++)
        put(&w->found_maps, key_hash(w->key + w->maps[i].key, w->key[w->maps[i].key] + 1), i);
}

/* The map of the configs [n]. */
static int find_map(struct walk *w, uint32_t first, uint32_t n, uint32_t *out, struct err *e)
{
    uint32_t n_sets;
    if (write_key(w, n ? w->config + first : NULL, n, &n_sets, e)) return -1;
    int rc = widen(&w->found_maps, e);
    if (rc < 0) return -1;
    if (rc) put_maps(w);
    const uint32_t *key = w->key + w->n_keys;
    uint32_t hash = key_hash(key, n_sets + 1), at = hash & (w->found_maps.size - 1);
    for (; w->found_maps.slot[at]; at = (at + 1) & (w->found_maps.size - 1)) {
        uint32_t i = w->found_maps.slot[at] - 1;
        if (!memcmp(w->key + w->maps[i].key, key, ((size_t)n_sets + 1) * sizeof *key))
            return *out = i, 0;
    }
    if (grow(&w->maps, w->n_maps, &w->cap_maps, sizeof *w->maps, e) ||
        grow(&w->map, w->n_maps, &w->cap_map, sizeof *w->map, e))
        return -1;
    unsigned char *map = w->map[w->n_maps];
    uint32_t n_classes = 1;
    memset(map, 0, 256);
    for (uint32_t i = 0; i < n_sets; i++)
        n_classes = split(map, n_classes, net_set(w->net, key[1 + i]));
    w->maps[w->n_maps] = (struct map){w->n_keys, n_classes};
    w->n_keys += n_sets + 1;
    put(&w->found_maps, hash, w->n_maps);
    *out = w->n_maps++;
    w->steps.map = (const unsigned char(*)[256])w->map;
    return 0;
}

/* Room for the steps of the place that is added next. */
static int add_row(struct walk *w, uint32_t map, struct err *e)
{
    uint32_t n = w->maps[map].n_classes;
    if (grow(&w->row, w->n_places, &w->cap_rows, sizeof *w->row, e) ||
        grow(&w->next, w->n_next + n, &w->cap_next, sizeof *w->next, e))
        return -1;
    w->row[w->n_places] = (struct walk_row){map, w->n_next};
    w->next[w->n_next] = WALK_DEAD;
    for (uint32_t i = 1; i < n; i++) w->next[w->n_next + i] = WALK_UNKNOWN;
    w->n_next += n;
    w->steps.row = w->row;
    w->steps.next = w->next;
    return 0;
}

/* A new place of the configs behind n_configs [n]. */
static int add_place(struct walk *w, uint32_t n, int may_end, struct err *e)
{
    struct place p = {.first = w->n_configs, .n = n, .may_end = may_end};
    uint32_t map;
    memset(p.notes, 0xff, sizeof p.notes);
    if (grow(&w->place, w->n_places, &w->cap_places, sizeof *w->place, e) ||
        find_map(w, p.first, n, &map, e) || add_row(w, map, e))
        return -1;
    w->place[w->n_places++] = p;
    w->n_configs += n;
    return 0;
}

static void put_places(struct walk *w)
{
    w->places.used = 0;
    for (uint32_t i = WALK_START; i < w->n_places; i++)
        put(&w->places, place_hash(w, &w->place[i]), i);
}

/* The place of the configs behind n_configs [n]. */
static int find_place(struct walk *w, uint32_t n, int may_end, walk_place *out, struct err *e)
{
    struct place p = {.first = w->n_configs, .n = n, .may_end = may_end};
    if (n > 1) sort_configs(w->config + p.first, n);
    int rc = widen(&w->places, e);
    if (rc < 0) return -1;
    if (rc) put_places(w);
    uint32_t hash = place_hash(w, &p), at = hash & (w->places.size - 1);
    for (; w->places.slot[at]; at = (at + 1) & (w->places.size - 1)) {
        const struct place *q = &w->place[w->places.slot[at] - 1];
        if (q->n == n && q->may_end == may_end &&
            (!n || !memcmp(w->config + q->first, w->config + p.first, n * sizeof *w->config)))
            return *out = w->places.slot[at] - 1, 0;
    }
    if (add_place(w, n, may_end, e)) return -1;
    put(&w->places, hash, w->n_places - 1);
    *out = w->n_places - 1;
    return 0;
}

/* Where the rule returns to. */
static int push_return(struct walk *w, uint32_t frame, struct err *e)
{
    const struct frame f = w->frame[frame];
    return push(w, f.node, f.below, f.flags, e);
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
        case NET_COUNT:
        case NET_CHECK: {
            uint64_t count = c.flags;
            if (net_goes_on(w->net, x.a, x.kind == NET_CHECK, &count) &&
                push(w, x.b, frame, count, e))
                return -1;
            break;
        }
        case NET_LENGTH:
            if (net_is_long(w->net, x.a, c.flags) && push(w, x.b, frame, c.flags, e)) return -1;
            break;
        case NET_JUMP:
            if (push(w, net_start(w->net, x.a), frame, c.flags, e)) return -1;
            break;
        case NET_CALL: /* the last call of a rule returns to where the rule returns */
            if (w->node[x.b].kind != NET_END &&
                find_frame(w, (struct frame){x.b, c.frame, c.flags}, &frame, e))
                return -1;
            if (push(w, net_start(w->net, x.a), frame, 0, e)) return -1;
            break;
        case NET_END:
            if (frame == NO_FRAME) may_end = 1;
            else if (push_return(w, frame, e)) return -1;
            break;
        case NET_DEAD: break;
        }
    }
    if (!n && !may_end) return *out = WALK_DEAD, 0;
    return find_place(w, n, may_end, out, e);
}

/* The dead place, and the beginning. */
static int begin_places(struct walk *w, walk_place *start, struct err *e)
{
    if (add_place(w, 0, 0, e)) return -1;
    begin(w);
    return push(w, w->root, NO_FRAME, 0, e) || close_over(w, start, e) ? -1 : 0;
}

int walk_open(struct walk **out, struct net *net, uint32_t root, struct err *e)
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
    for (uint32_t i = 0; i < w->n_nodes; i++)
        if (w->node[i].kind == NET_READ && w->node[i].a >= w->n_sets) w->n_sets = w->node[i].a + 1;
    w->stamp = calloc((size_t)w->n_sets + 1, sizeof *w->stamp);
    if (!w->stamp || begin_places(w, &start, e)) {
        if (!w->stamp) err_memory(e);
        walk_close(w);
        return -1;
    }
    *out = w;
    return 0;
}

/* An empty table with room for at least `count` entries. */
static int make_table(struct table *t, uint32_t count, struct err *e)
{
    uint32_t size = t->size ? t->size : 128;
    while (size < 2 * (count + 1)) size *= 2;
    uint32_t *slot = calloc(size, sizeof *slot);
    if (!slot) return err_memory(e);
    free(t->slot);
    *t = (struct table){.slot = slot, .size = size};
    return 0;
}

int walk_reserve(struct walk *w, struct err *e)
{
    if (grow(&w->place, ROOM_PLACES - 1, &w->cap_places, sizeof *w->place, e) ||
        grow(&w->row, ROOM_PLACES - 1, &w->cap_rows, sizeof *w->row, e) ||
        grow(&w->config, ROOM_CONFIGS - 1, &w->cap_configs, sizeof *w->config, e) ||
        grow(&w->frame, ROOM_FRAMES - 1, &w->cap_frames, sizeof *w->frame, e) ||
        grow(&w->next, ROOM_STEPS - 1, &w->cap_next, sizeof *w->next, e) ||
        grow(&w->map, ROOM_MAPS - 1, &w->cap_map, sizeof *w->map, e) ||
        grow(&w->maps, ROOM_MAPS - 1, &w->cap_maps, sizeof *w->maps, e) ||
        grow(&w->key, ROOM_KEYS - 1, &w->cap_keys, sizeof *w->key, e))
        return -1;
    w->steps.row = w->row;
    w->steps.next = w->next;
    w->steps.map = (const unsigned char(*)[256])w->map;
    if (make_table(&w->places, ROOM_PLACES, e)) return -1;
    put_places(w);
    if (make_table(&w->frames, ROOM_FRAMES, e)) return -1;
    put_frames(w);
    if (make_table(&w->found_maps, ROOM_MAPS, e)) return -1;
    put_maps(w);
    w->n_seen = 0;
    return make_table(&w->marks, ROOM_SEEN - 1, e);
}

static void free_places(struct walk *w)
{
    free(w->place);
    free(w->config);
    free(w->frame);
    free(w->row);
    free(w->next);
    free(w->frames.slot);
    free(w->places.slot);
}

void walk_close(struct walk *w)
{
    if (!w) return;
    free_places(w);
    free(w->map);
    free(w->maps);
    free(w->key);
    free(w->stamp);
    free(w->found_maps.slot);
    free(w->seen);
    free(w->todo);
    free(w->marks.slot);
    net_close(w->net);
    free(w);
}

const struct walk_steps *walk_steps(const struct walk *w) { return &w->steps; }
uint32_t *walk_notes(struct walk *w, walk_place at) { return w->place[at].notes; }

int walk_step(struct walk *w, walk_place at, unsigned char byte, walk_place *to, struct err *e)
{
    const struct walk_row row = w->row[at];
    const uint32_t step = row.first + w->map[row.map][byte];
    const struct place p = w->place[at];
    if (w->next[step] != WALK_UNKNOWN) return *to = w->next[step], 0;
    begin(w);
    for (uint32_t i = 0; i < p.n; i++) {
        const struct config c = w->config[p.first + i];
        const uint32_t *set = net_set(w->net, w->node[c.node].a);
        if (set[byte / 32] >> byte % 32 & 1 && push(w, w->node[c.node].b, c.frame, c.flags, e))
            return -1;
    }
    if (close_over(w, to, e)) return -1;
    w->next[step] = *to;
    return 0;
}

int walk_may_end(const struct walk *w, walk_place at) { return w->place[at].may_end; }
int walk_must_end(const struct walk *w, walk_place at)
{
    return w->place[at].may_end && !w->place[at].n;
}

int walk_is_large(const struct walk *w) { return w->n_places > LARGE_PLACES; }

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
    w->row = NULL;
    w->next = NULL;
    w->frames = w->places = (struct table){0};
    w->n_frames = w->n_configs = w->n_next = w->n_places = 0;
    w->cap_frames = w->cap_places = w->cap_configs = w->cap_rows = w->cap_next = 0;
    if (!rc) rc = begin_places(w, &kept[n], e);
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
    if (rc) { /* the places as they were; maps, and what finds places, serve both */
        struct walk failed = *w;
        free_places(&failed);
        w->frame = old.frame, w->place = old.place, w->config = old.config;
        w->row = old.row, w->next = old.next;
        w->frames = old.frames, w->places = old.places;
        w->n_frames = old.n_frames, w->n_places = old.n_places, w->n_configs = old.n_configs;
        w->n_next = old.n_next, w->cap_next = old.cap_next, w->cap_rows = old.cap_rows;
        w->cap_frames = old.cap_frames, w->cap_places = old.cap_places;
        w->cap_configs = old.cap_configs;
        w->steps.row = w->row, w->steps.next = w->next;
    } else {
        free_places(&old);
    }
    return rc;
}
