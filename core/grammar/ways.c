#include "core/grammar/ways.h"

#include <stdlib.h>

enum { MAX_WORK = 20000000 }; /* nodes that are looked at */

struct ways {
    const struct net *net;
    const struct net_node *node; /* [count] */
    uint32_t count, n_todo;
    uint32_t *todo;           /* [count] */
    uint32_t *seen;           /* [count] the last round in which it was reached */
    char *is_used, *is_inner; /* [count] ROOT leads to it; it is a branch of a split */
};

/* Notes a node that is reached in a round. */
static void reach(struct ways *w, uint32_t at, uint32_t round)
{
    if (w->node[at].kind == NET_DEAD || w->seen[at] == round) return;
    w->seen[at] = round;
    w->todo[w->n_todo++] = at;
}

static void mark_used(struct ways *w, uint32_t root)
{
    reach(w, net_start(w->net, root), 1);
    while (w->n_todo) {
        uint32_t at = w->todo[--w->n_todo];
        struct net_node x = w->node[at];
        w->is_used[at] = 1;
        if (x.kind == NET_SPLIT) {
            w->is_inner[x.a] = w->is_inner[x.b] = 1;
            reach(w, x.a, 1);
        }
        if (x.kind == NET_CALL || x.kind == NET_JUMP) reach(w, net_start(w->net, x.a), 1);
        if (x.kind != NET_END && x.kind != NET_JUMP && x.kind != NET_DEAD) reach(w, x.b, 1);
    }
}

/* Nodes that are reached from AT without a byte, at most MOST + 1. */
static uint32_t n_ways(struct ways *w, uint32_t at, uint32_t round, uint32_t most)
{
    uint32_t n = 0;
    w->n_todo = 0;
    reach(w, at, round);
    while (w->n_todo && n <= most) {
        struct net_node x = w->node[w->todo[--w->n_todo]];
        n++;
        if (x.kind == NET_CALL || x.kind == NET_JUMP) reach(w, net_start(w->net, x.a), round);
        if (x.kind != NET_SPLIT) continue;
        reach(w, x.a, round);
        reach(w, x.b, round);
    }
    return n;
}

static int check(struct ways *w, uint32_t root, uint32_t most, struct err *e)
{
    uint64_t work = 0;
    mark_used(w, root);
    for (uint32_t i = 0, round = 2; i < w->count && work < MAX_WORK; i++) {
        if (!w->is_used[i] || w->is_inner[i] || w->node[i].kind != NET_SPLIT) continue;
        uint32_t n = n_ways(w, i, round++, most);
        work += n;
        if (n > most)
            return err_set(e, "the grammar is too ambiguous: more than %u ways at one place", most);
    }
    return 0;
}

int ways_check(const struct net *n, uint32_t root, uint32_t most, struct err *e)
{
    struct ways w = {.net = n};
    w.node = net_nodes(n, &w.count);
    size_t room = (size_t)w.count + 1;
    w.todo = malloc(room * sizeof *w.todo);
    w.seen = calloc(room, sizeof *w.seen);
    w.is_used = calloc(room, 1);
    w.is_inner = calloc(room, 1);
    int failed = !w.todo || !w.seen || !w.is_used || !w.is_inner,
        rc = failed ? err_memory(e) : check(&w, root, most, e);
    free(w.todo);
    free(w.seen);
    free(w.is_used);
    free(w.is_inner);
    return rc;
}
