#include "core/grammar/regular.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STATES = 10000, MAX_WALKS = 8 };

struct product {
    struct net *net;
    struct walk *const *walk;
    int n_in, n; /* walks */
    int counter; /* of the net; -1: none */
    uint32_t (*state)[MAX_WALKS];
    uint32_t *rule, *slot; /* of states; hash table of states + 1, [n_slots] */
    uint32_t n_states, cap, n_slots;
};

static uint32_t hash_of(const uint32_t *place, int n)
{
    uint32_t h = 0x811c9dc5u;
    for (int i = 0; i < n; i++) h = (h ^ place[i]) * 0x9e3779b1u, h ^= h >> 15;
    return h;
}

/* The number of a state, which is new or not. */
static int find(struct product *p, const uint32_t *place, uint32_t *out, struct err *e)
{
    uint32_t at = hash_of(place, p->n) & (p->n_slots - 1);
    for (; p->slot[at]; at = (at + 1) & (p->n_slots - 1))
        if (!memcmp(p->state[p->slot[at] - 1], place, (size_t)p->n * sizeof *place))
            return *out = p->slot[at] - 1, 0;
    if (p->n_states == MAX_STATES)
        return err_set(e, "these together are more than %d cases", MAX_STATES);
    memcpy(p->state[p->n_states], place, (size_t)p->n * sizeof *place);
    p->rule[p->n_states] = net_rule(p->net, "strings", 7);
    p->slot[at] = p->n_states + 1;
    *out = p->n_states++;
    return 0;
}

static int is_accepted(const struct product *p, const uint32_t *place)
{
    for (int i = 0; i < p->n; i++)
        if ((place[i] != WALK_DEAD && walk_may_end(p->walk[i], place[i])) != (i < p->n_in))
            return 0;
    return 1;
}

/* The state after a byte: 1; 0: no text goes on so. */
static int step(struct product *p, uint32_t from, int byte, uint32_t *to, struct err *e)
{
    uint32_t place[MAX_WALKS];
    for (int i = 0; i < p->n; i++) {
        place[i] = WALK_DEAD;
        if (p->state[from][i] != WALK_DEAD &&
            walk_step(p->walk[i], p->state[from][i], (unsigned char)byte, &place[i], e))
            return -1;
        if (i < p->n_in && place[i] == WALK_DEAD) return 0;
    }
    return find(p, place, to, e) ? -1 : 1;
}

/* The classes of bytes of a state, a map for each walk; a step may move them. Returns how many. */
static int maps_of(const struct product *p, uint32_t from, const unsigned char *map[MAX_WALKS])
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const struct walk_steps *s = p->walk[i] ? walk_steps(p->walk[i]) : NULL;
        if (s) map[n++] = s->map[s->row[p->state[from][i]].map];
    }
    return n;
}

static net_expr go_to(struct product *p, uint32_t state)
{
    return p->counter < 0 ? net_call(p->net, p->rule[state]) : net_jump(p->net, p->rule[state]);
}

/* In front of a byte: a character begins, or goes on. */
static net_expr counted(struct product *p, const uint32_t *place)
{
    int i = p->n_in - 1, begins = walk_may_end(p->walk[i], place[i]);
    return begins ? net_count(p->net, p->counter) : net_check(p->net, p->counter);
}

/* The rule of a state: the bytes that lead to each next one. */
static int define(struct product *p, uint32_t from, struct err *e)
{
    const unsigned char *map[MAX_WALKS];
    uint32_t to[256];
    net_expr x = NET_FAILED;
    char has[256];
    int n = maps_of(p, from, map);
    for (int b = 0; b < 256; b++) {
        int i = b ? 0 : n + 1; /* beyond n: another class than the byte before */
        for (; i < n && map[i][b] == map[i][b - 1];) i++;
        if (i == n) {
            to[b] = to[b - 1];
            has[b] = has[b - 1];
            continue;
        }
        int rc = step(p, from, b, &to[b], e);
        if (rc < 0) return -1;
        has[b] = (char)rc;
        maps_of(p, from, map);
    }
    for (int b = 0; b < 256; b++) {
        uint32_t set[8] = {0};
        if (!has[b]) continue;
        for (int k = b; k < 256; k++)
            if (has[k] && to[k] == to[b]) {
                set[k / 32] |= 1u << k % 32;
                if (k > b) has[k] = 0;
            }
        net_expr one = net_sequence(p->net, net_byte(p->net, set), go_to(p, to[b]));
        if (p->counter >= 0) one = net_sequence(p->net, counted(p, p->state[from]), one);
        x = x == NET_FAILED ? one : net_either(p->net, x, one);
    }
    if (is_accepted(p, p->state[from])) {
        net_expr end = p->counter < 0 ? net_empty(p->net) : net_length(p->net, p->counter);
        x = x == NET_FAILED ? end : net_either(p->net, x, end);
    }
    net_define(p->net, p->rule[from], x == NET_FAILED ? net_chars(p->net, NULL, 0) : x);
    return 0;
}

int regular_product(struct net *net, struct walk *const walk[], int n_in, int n_out,
                    const struct regular_lengths *lengths, net_expr *x, struct err *e)
{
    struct product p = {
        .net = net, .walk = walk, .n_in = n_in, .n = n_in + n_out, .counter = -1, .n_slots = 65536};
    uint32_t start[MAX_WALKS], first;
    if (p.n > MAX_WALKS) return err_set(e, "more than %d of these together", MAX_WALKS);
    p.state = malloc(MAX_STATES * sizeof *p.state);
    p.rule = malloc(MAX_STATES * sizeof *p.rule);
    p.slot = calloc(p.n_slots, sizeof *p.slot);
    int rc = p.state && p.rule && p.slot ? 0 : err_memory(e);
    for (int i = 0; i < p.n; i++) start[i] = walk[i] ? WALK_START : WALK_DEAD;
    if (!rc) rc = find(&p, start, &first, e);
    if (!rc && lengths) p.counter = net_counter(net, p.rule[first], lengths->min, lengths->max);
    for (uint32_t i = 0; i < p.n_states && !rc; i++) rc = define(&p, i, e);
    if (!rc) *x = net_call(net, p.rule[first]);
    free(p.state);
    free(p.rule);
    free(p.slot);
    return rc;
}
