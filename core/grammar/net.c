#include "core/grammar/net.h"

#include "core/grammar/counters.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 1 << 20, MAX_EXPRS = 1 << 20, MAX_NAME = 48 };

enum expr_kind {
    EMPTY,
    BYTE,
    SEQUENCE,
    EITHER,
    REPEAT,
    CALL,
    MARK,
    TEST,
    NEED,
    COUNT,
    CHECK_ONLY,
    LENGTH,
    JUMP
};

struct expr {
    enum expr_kind kind;
    uint32_t a, b; /* expressions; BYTE: set; CALL, JUMP: rule; NEED: need; MARK: flag; TEST:
                      flags; COUNT, CHECK_ONLY, LENGTH: counter */
    int min, max;
};

struct rule {
    char name[MAX_NAME];
    net_expr body;
    uint32_t start;
    int is_nullable, mark;
};

/* LEAST of the rules needed[first] [count] have a text. */
struct need {
    uint32_t first, count, least;
};

struct net {
    struct expr *expr;
    struct net_node *node;
    struct rule *rule;
    uint32_t (*set)[8];
    uint64_t *flags;
    struct need *need;
    struct counters *counters;
    uint32_t *needed;
    uint32_t n_exprs, n_nodes, n_rules, n_sets, n_flags, n_needs, n_needed;
    uint32_t cap_exprs, cap_nodes, cap_rules, cap_sets, cap_flags, cap_needs, cap_needed;
    uint32_t *set_slot, n_set_slots; /* sets by what they are: hash table of set + 1 */
    uint32_t *found, n_found; /* nodes by what they are: hash table of node + 1, [n_found] */
    struct err why;
    int failed, is_empty;
};

static int fail(struct net *n, const char *text)
{
    if (!n->failed) err_set(&n->why, "%s", text);
    n->failed = 1;
    return -1;
}

/* Room for one more of an array of COUNT elements of SIZE bytes. */
static int grow(struct net *n, void *array, uint32_t count, uint32_t *cap, size_t size)
{
    if (n->failed) return -1;
    if (count < *cap) return 0;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *p = realloc(*(void **)array, more * size);
    if (!p) {
        n->failed = 1;
        return err_memory(&n->why);
    }
    *(void **)array = p;
    *cap = more;
    return 0;
}

int net_open(struct net **out, struct err *e)
{
    struct net *n = calloc(1, sizeof *n);
    if (!n) return err_memory(e);
    *out = n;
    return 0;
}

void net_close(struct net *n)
{
    if (!n) return;
    free(n->expr);
    free(n->node);
    free(n->rule);
    free(n->set);
    free(n->flags);
    free(n->need);
    counters_close(n->counters);
    free(n->needed);
    free(n->found);
    free(n->set_slot);
    free(n);
}

/* ---- expressions */

static net_expr add(struct net *n, struct expr x)
{
    if (n->n_exprs == MAX_EXPRS) fail(n, "is too large");
    if (grow(n, &n->expr, n->n_exprs, &n->cap_exprs, sizeof *n->expr)) return NET_FAILED;
    n->expr[n->n_exprs] = x;
    return n->n_exprs++;
}

net_expr net_empty(struct net *n) { return add(n, (struct expr){.kind = EMPTY}); }

static uint32_t *set_slot_of(const struct net *n, const uint32_t set[8])
{
    uint32_t h = 0;
    for (int k = 0; k < 8; k++) h = (h ^ set[k]) * 0x9e3779b1u, h ^= h >> 15;
    for (uint32_t at = h & (n->n_set_slots - 1);; at = (at + 1) & (n->n_set_slots - 1))
        if (!n->set_slot[at] || !memcmp(n->set[n->set_slot[at] - 1], set, sizeof *n->set))
            return &n->set_slot[at];
}

static int grow_sets(struct net *n)
{
    uint32_t more = n->n_set_slots ? 2 * n->n_set_slots : 256;
    uint32_t *slot = calloc(more, sizeof *slot);
    if (!slot) {
        n->failed = 1;
        return err_memory(&n->why);
    }
    free(n->set_slot);
    n->set_slot = slot;
    n->n_set_slots = more;
    for (uint32_t i = 0; i < n->n_sets; i++) *set_slot_of(n, n->set[i]) = i + 1;
    return 0;
}

net_expr net_byte(struct net *n, const uint32_t set[8])
{
    if (n->failed || (2 * (n->n_sets + 1) > n->n_set_slots && grow_sets(n))) return NET_FAILED;
    uint32_t *slot = set_slot_of(n, set);
    if (!*slot) {
        if (grow(n, &n->set, n->n_sets, &n->cap_sets, sizeof *n->set)) return NET_FAILED;
        memcpy(n->set[n->n_sets++], set, sizeof *n->set);
        *slot = n->n_sets;
    }
    return add(n, (struct expr){.kind = BYTE, .a = *slot - 1});
}

static net_expr bytes(struct net *n, unsigned first, unsigned last)
{
    uint32_t set[8] = {0};
    for (unsigned b = first; b <= last; b++) set[b / 32] |= 1u << b % 32;
    return net_byte(n, set);
}

net_expr net_text(struct net *n, const char *text, size_t n_bytes)
{
    net_expr x = net_empty(n);
    for (size_t i = 0; i < n_bytes && !n->failed; i++) {
        unsigned char b = (unsigned char)text[i];
        x = net_sequence(n, x, bytes(n, b, b));
    }
    return x;
}

static int encode(uint32_t c, unsigned char u[4])
{
    if (c < 0x80) return u[0] = (unsigned char)c, 1;
    int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, c >>= 6) u[i] = (unsigned char)(0x80 | (c & 63));
    u[0] = (unsigned char)((0xf00 >> length & 0xff) | c);
    return length;
}

/* The sequences of bytes between two of one length that agree in their first AT bytes. */
static net_expr between(struct net *n, const unsigned char *first, const unsigned char *last,
                        int at, int length)
{
    static const unsigned char low[4] = {0x80, 0x80, 0x80, 0x80},
                               high[4] = {0xbf, 0xbf, 0xbf, 0xbf};
    if (at == length) return net_empty(n);
    if (at == length - 1) return bytes(n, first[at], last[at]);
    if (first[at] == last[at])
        return net_sequence(n, bytes(n, first[at], first[at]),
                            between(n, first, last, at + 1, length));
    unsigned a = first[at], b = last[at];
    net_expr x = NET_FAILED;
    int has = 0;
    if (memcmp(first + at + 1, low, (size_t)(length - at - 1))) {
        x = net_sequence(n, bytes(n, a, a), between(n, first, high, at + 1, length));
        has = 1;
        a++;
    }
    net_expr end = NET_FAILED;
    int has_end = memcmp(last + at + 1, high, (size_t)(length - at - 1)) != 0;
    if (has_end) {
        end = net_sequence(n, bytes(n, b, b), between(n, low, last, at + 1, length));
        b--;
    }
    if (a <= b) {
        net_expr middle = net_sequence(n, bytes(n, a, b), between(n, low, high, at + 1, length));
        x = has ? net_either(n, x, middle) : middle;
        has = 1;
    }
    if (has_end) x = has ? net_either(n, x, end) : end;
    return x;
}

net_expr net_chars(struct net *n, const struct net_range *ranges, int n_ranges)
{
    /* code points by their length in UTF-8, without surrogates */
    static const struct net_range part[] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
    uint32_t ascii[8] = {0};
    net_expr x = NET_FAILED;
    int has = 0;
    for (int i = 0; i < n_ranges; i++)
        for (uint32_t c = ranges[i].first; c <= ranges[i].last && c < 0x80; c++)
            ascii[c / 32] |= 1u << c % 32;
    if (ascii[0] | ascii[1] | ascii[2] | ascii[3]) x = net_byte(n, ascii), has = 1;
    for (int i = 0; i < n_ranges; i++)
        for (int k = 1; k < 5; k++) {
            uint32_t first = ranges[i].first > part[k].first ? ranges[i].first : part[k].first,
                     last = ranges[i].last < part[k].last ? ranges[i].last : part[k].last;
            unsigned char a[4], b[4];
            if (first > last) continue;
            int length = encode(first, a);
            encode(last, b);
            net_expr y = between(n, a, b, 0, length);
            x = has ? net_either(n, x, y) : y;
            has = 1;
        }
    if (!has) return net_byte(n, ascii); /* no character: dead */
    return x;
}

net_expr net_sequence(struct net *n, net_expr a, net_expr b)
{
    return add(n, (struct expr){.kind = SEQUENCE, .a = a, .b = b});
}

net_expr net_either(struct net *n, net_expr a, net_expr b)
{
    return add(n, (struct expr){.kind = EITHER, .a = a, .b = b});
}

net_expr net_repeat(struct net *n, net_expr a, int min, int max)
{
    return add(n, (struct expr){.kind = REPEAT, .a = a, .min = min, .max = max});
}

net_expr net_mark(struct net *n, int flag)
{
    return add(n, (struct expr){.kind = MARK, .a = (uint32_t)flag});
}

net_expr net_test(struct net *n, uint64_t flags)
{
    uint32_t i = 0;
    while (i < n->n_flags && n->flags[i] != flags) i++;
    if (i == n->n_flags) {
        if (grow(n, &n->flags, n->n_flags, &n->cap_flags, sizeof *n->flags)) return NET_FAILED;
        n->flags[n->n_flags++] = flags;
    }
    return add(n, (struct expr){.kind = TEST, .a = i});
}

net_expr net_need_some(struct net *n, const uint32_t *rules, int count, int least)
{
    const struct need x = {n->n_needed, (uint32_t)count, (uint32_t)least};
    for (int i = 0; i < count; i++) {
        if (grow(n, &n->needed, n->n_needed, &n->cap_needed, sizeof *n->needed)) return NET_FAILED;
        n->needed[n->n_needed++] = rules[i];
    }
    if (grow(n, &n->need, n->n_needs, &n->cap_needs, sizeof *n->need)) return NET_FAILED;
    n->need[n->n_needs] = x;
    return add(n, (struct expr){.kind = NEED, .a = n->n_needs++});
}

net_expr net_need(struct net *n, uint32_t rule) { return net_need_some(n, &rule, 1, 1); }

int net_counter(struct net *n, uint32_t rule, int min, int max)
{
    if (n->failed) return 0;
    int counter = counters_add(&n->counters, rule, min, max, &n->why);
    if (counter < 0) n->failed = 1;
    return counter < 0 ? 0 : counter;
}

net_expr net_count(struct net *n, int counter)
{
    return add(n, (struct expr){.kind = COUNT, .a = (uint32_t)counter});
}

net_expr net_check(struct net *n, int counter)
{
    return add(n, (struct expr){.kind = CHECK_ONLY, .a = (uint32_t)counter});
}

net_expr net_length(struct net *n, int counter)
{
    return add(n, (struct expr){.kind = LENGTH, .a = (uint32_t)counter});
}

net_expr net_jump(struct net *n, uint32_t rule)
{
    return add(n, (struct expr){.kind = JUMP, .a = rule});
}

uint32_t net_rule(struct net *n, const char *name, size_t n_bytes)
{
    if (grow(n, &n->rule, n->n_rules, &n->cap_rules, sizeof *n->rule)) return 0;
    struct rule *r = &n->rule[n->n_rules];
    *r = (struct rule){.body = NET_FAILED};
    if (n_bytes >= MAX_NAME) n_bytes = MAX_NAME - 1;
    memcpy(r->name, name, n_bytes);
    return n->n_rules++;
}

uint32_t net_named(const struct net *n, const char *name)
{
    uint32_t i = 0;
    while (i + 1 < n->n_rules && strcmp(n->rule[i].name, name)) i++;
    return i;
}

net_expr net_call(struct net *n, uint32_t rule)
{
    return add(n, (struct expr){.kind = CALL, .a = rule});
}

void net_define(struct net *n, uint32_t rule, net_expr body)
{
    if (!n->failed) n->rule[rule].body = body;
}

/* ---- nodes: an expression is made with the node that comes after it, so that all nodes that it
 * leads to are there already, but for those of a loop */

static uint32_t node(struct net *n, enum net_kind kind, uint32_t a, uint32_t b)
{
    if (n->n_nodes == MAX_NODES) fail(n, "is too large");
    if (grow(n, &n->node, n->n_nodes, &n->cap_nodes, sizeof *n->node)) return 0;
    n->node[n->n_nodes] = (struct net_node){kind, a, b};
    return n->n_nodes++;
}

static uint32_t *place_of(struct net *n, const struct net_node *x)
{
    uint32_t h = (x->a * 0x9e3779b1u ^ x->b) * 0x85ebca6bu ^ (uint32_t)x->kind * 0xc2b2ae35u;
    uint32_t at = (h ^ h >> 15) & (n->n_found - 1);
    for (; n->found[at]; at = (at + 1) & (n->n_found - 1)) {
        const struct net_node *y = &n->node[n->found[at] - 1];
        if (y->kind == x->kind && y->a == x->a && y->b == x->b) break;
    }
    return &n->found[at];
}

/* The node that is so; equal ones are one, so that places behind equal texts are. */
static uint32_t same(struct net *n, enum net_kind kind, uint32_t a, uint32_t b)
{
    const struct net_node x = {kind, a, b};
    if (n->failed) return 0;
    if (2 * (n->n_nodes + 1) > n->n_found) {
        uint32_t more = n->n_found ? 2 * n->n_found : 1024, *found = calloc(more, sizeof *found);
        if (!found) {
            n->failed = 1;
            return (uint32_t)err_memory(&n->why);
        }
        free(n->found);
        n->found = found;
        n->n_found = more;
        for (uint32_t i = 0; i < n->n_nodes; i++) {
            uint32_t *at = place_of(n, &n->node[i]);
            if (!*at) *at = i + 1;
        }
    }
    uint32_t *at = place_of(n, &x);
    if (*at) return *at - 1;
    uint32_t made = node(n, kind, a, b);
    if (!n->failed) *at = made + 1;
    return made;
}

static uint32_t make(struct net *n, net_expr at, uint32_t then)
{
    while (!n->failed) {
        const struct expr x = n->expr[at];
        switch (x.kind) {
        case EMPTY: return then;
        case BYTE: return same(n, NET_READ, x.a, then);
        case CALL: return same(n, NET_CALL, x.a, then);
        case MARK: return same(n, NET_MARK, x.a, then);
        case TEST: return same(n, NET_TEST, x.a, then);
        case NEED: return same(n, NET_NEED, x.a, then);
        case COUNT: return same(n, NET_COUNT, x.a, then);
        case CHECK_ONLY: return same(n, NET_CHECK, x.a, then);
        case LENGTH: return same(n, NET_LENGTH, x.a, then);
        case JUMP: return same(n, NET_JUMP, x.a, 0);
        case EITHER: { /* many are nested to the left */
            uint32_t split = make(n, x.b, then);
            for (at = x.a; !n->failed && n->expr[at].kind == EITHER; at = n->expr[at].a)
                split = same(n, NET_SPLIT, make(n, n->expr[at].b, then), split);
            return n->failed ? 0 : same(n, NET_SPLIT, make(n, at, then), split);
        }
        case SEQUENCE:
            then = make(n, x.b, then);
            at = x.a;
            continue;
        case REPEAT: {
            uint32_t end = then;
            if (x.max == NET_NO_LIMIT) {
                uint32_t loop = node(n, NET_SPLIT, UINT32_MAX, then), body = make(n, x.a, loop);
                if (n->failed) return 0;
                n->node[loop].a = body;
                then = loop;
            }
            for (int i = x.min; i < x.max && !n->failed; i++)
                then = same(n, NET_SPLIT, make(n, x.a, then), end);
            for (int i = 0; i < x.min && !n->failed; i++) then = make(n, x.a, then);
            return then;
        }
        }
    }
    return 0;
}

/* Which nodes lead to the end of their rule. */
static int has_needed(const struct net *n, const char *good, uint32_t i)
{
    const struct need *x = &n->need[i];
    uint32_t found = 0;
    for (uint32_t k = 0; k < x->count && found < x->least; k++)
        found += (uint32_t)good[n->rule[n->needed[x->first + k]].start];
    return found >= x->least;
}

static int leads_on(const struct net *n, const char *good, uint32_t i)
{
    const struct net_node *x = &n->node[i];
    switch (x->kind) {
    case NET_END: return 1;
    case NET_READ: {
        uint32_t any = 0;
        for (int k = 0; k < 8; k++) any |= n->set[x->a][k];
        return any && good[x->b];
    }
    case NET_SPLIT: return good[x->a] || good[x->b];
    case NET_CALL: return good[n->rule[x->a].start] && good[x->b];
    case NET_NEED: return has_needed(n, good, x->a) && good[x->b];
    case NET_MARK:
    case NET_COUNT:
    case NET_CHECK:
    case NET_LENGTH:
    case NET_TEST: return good[x->b];
    case NET_JUMP: return good[n->rule[x->a].start];
    case NET_DEAD: return 0;
    }
    return 0;
}

/* Who is asked again when a node turns out to be good: [from[i], from[i + 1]) of WHO. */
struct askers {
    uint32_t *from, *who;
};

/* The nodes that node I waits for are counted or, where they are, told of it. */
static void waits_for(const struct net *n, uint32_t i, struct askers *a, int is_counted)
{
    const struct net_node *x = &n->node[i];
    uint32_t on[2] = {x->b, x->b};
    int count = 1;
    if (x->kind == NET_END || x->kind == NET_DEAD) return;
    if (x->kind == NET_SPLIT) on[count++] = x->a;
    else if (x->kind == NET_CALL) on[count++] = n->rule[x->a].start;
    else if (x->kind == NET_JUMP) on[0] = n->rule[x->a].start;
    for (int k = 0; k < count; k++)
        if (is_counted) a->who[--a->from[on[k]]] = i;
        else a->from[on[k]]++;
    for (uint32_t k = 0; x->kind == NET_NEED && k < n->need[x->a].count; k++) {
        uint32_t start = n->rule[n->needed[n->need[x->a].first + k]].start;
        if (is_counted) a->who[--a->from[start]] = i;
        else a->from[start]++;
    }
}

static int find_askers(const struct net *n, struct askers *a)
{
    a->from = calloc((size_t)n->n_nodes + 1, sizeof *a->from);
    if (!a->from) return -1;
    for (uint32_t i = 0; i < n->n_nodes; i++) waits_for(n, i, a, 0);
    for (uint32_t i = 1; i <= n->n_nodes; i++) a->from[i] += a->from[i - 1];
    a->who = calloc((size_t)a->from[n->n_nodes] + 1, sizeof *a->who);
    if (!a->who) return -1;
    for (uint32_t i = 0; i < n->n_nodes; i++) waits_for(n, i, a, 1);
    return 0;
}

/* Each node is asked once for each node that it waits for. */
static int bury(struct net *n)
{
    struct askers a = {0};
    char *good = calloc(n->n_nodes, 1);
    uint32_t *todo = calloc((size_t)n->n_nodes + 1, sizeof *todo), n_todo = 0;
    int rc = good && todo ? find_askers(n, &a) : -1;
    for (uint32_t i = 0; i < n->n_nodes && !rc; i++) /* of NET_END, and needs of nothing */
        if (!good[i] && leads_on(n, good, i)) good[i] = 1, todo[n_todo++] = i;
    while (n_todo && !rc) {
        uint32_t i = todo[--n_todo];
        for (uint32_t k = a.from[i]; k < a.from[i + 1]; k++) {
            uint32_t j = a.who[k];
            if (!good[j] && leads_on(n, good, j)) good[j] = 1, todo[n_todo++] = j;
        }
    }
    for (uint32_t i = 0; i < n->n_nodes && !rc; i++)
        if (!good[i]) n->node[i].kind = NET_DEAD;
    free(a.from);
    free(a.who);
    free(good);
    free(todo);
    return rc;
}

/* Goes from node I of a rule without reading; returns 1 where the rule can end so, -1 where it goes
 * through a rule that is being looked at. seen [n_nodes]: the rule that came by, + 1. */
static int goes_through(struct net *n, uint32_t i, uint32_t rule, uint32_t *seen, uint32_t *bad);

static int look_at(struct net *n, uint32_t rule, uint32_t *seen, uint32_t *bad)
{
    struct rule *r = &n->rule[rule];
    enum { NEW, OPEN, DONE };
    if (r->mark == OPEN) {
        *bad = rule;
        return -1;
    }
    if (r->mark == DONE) return 0;
    r->mark = OPEN;
    int ends = goes_through(n, r->start, rule, seen, bad);
    if (ends < 0) return -1;
    n->rule[rule].is_nullable = ends;
    n->rule[rule].mark = DONE;
    return 0;
}

static int goes_through(struct net *n, uint32_t i, uint32_t rule, uint32_t *seen, uint32_t *bad)
{
    int ends = 0;
    while (seen[i] != rule + 1) {
        const struct net_node x = n->node[i];
        seen[i] = rule + 1;
        if (x.kind == NET_END) return 1;
        if (x.kind == NET_READ || x.kind == NET_DEAD) return ends;
        if (x.kind == NET_JUMP) {
            if (look_at(n, x.a, seen, bad)) return -1;
            return ends | n->rule[x.a].is_nullable;
        }
        if (x.kind == NET_SPLIT) {
            int one = goes_through(n, x.a, rule, seen, bad);
            if (one < 0) return -1;
            ends |= one;
        } else if (x.kind == NET_CALL) {
            if (look_at(n, x.a, seen, bad)) return -1;
            if (!n->rule[x.a].is_nullable) return ends;
        }
        i = x.b;
    }
    return ends;
}

/* Refuses what would be too many nodes before any is made. An expression is made where it is used,
 * and stands behind its parts. */
static int measure(struct net *n)
{
    uint64_t all = 0;
    uint32_t *size = calloc((size_t)n->n_exprs + 1, sizeof *size);
    if (!size) {
        n->failed = 1;
        return err_memory(&n->why);
    }
    for (uint32_t i = 0; i < n->n_exprs; i++) {
        const struct expr x = n->expr[i];
        uint64_t most = 1;
        if (x.kind == EMPTY) most = 0;
        else if (x.kind == SEQUENCE) most = (uint64_t)size[x.a] + size[x.b];
        else if (x.kind == EITHER) most = (uint64_t)size[x.a] + size[x.b] + 1;
        else if (x.kind == REPEAT)
            most = ((uint64_t)size[x.a] + 1) *
                   (uint64_t)(x.max == NET_NO_LIMIT ? x.min + 1 : x.max);
        size[i] = most > MAX_NODES ? MAX_NODES + 1 : (uint32_t)most;
    }
    for (uint32_t r = 0; r < n->n_rules; r++)
        if (n->rule[r].body != NET_FAILED) all += size[n->rule[r].body];
    free(size);
    return all > MAX_NODES ? fail(n, "is too large") : 0;
}

/* What counters let through; a rule that has no text of such a length is dead. */
static void measure_counters(struct net *n)
{
    uint32_t count, rule;
    if (!n->counters || n->failed) return;
    uint32_t *starts = calloc((size_t)n->n_rules + 1, sizeof *starts),
             dead = node(n, NET_DEAD, 0, 0);
    for (uint32_t r = 0; starts && r < n->n_rules; r++) starts[r] = n->rule[r].start;
    const struct counters_net of = {n->node, starts, n->set, n->n_nodes};
    if (!starts || counters_measure(n->counters, &of, &n->why)) {
        if (!starts) err_memory(&n->why);
        n->failed = 1;
    }
    count = n->failed ? 0 : counters_n(n->counters);
    for (uint32_t i = 0; i < count; i++)
        if (counters_is_empty(n->counters, i, &rule)) n->rule[rule].start = dead;
    free(starts);
}

int net_finish(struct net *n, uint32_t root, struct err *e)
{
    if (!n->failed) measure(n);
    uint32_t end = node(n, NET_END, 0, 0), bad = 0;
    for (uint32_t r = 0; r < n->n_rules && !n->failed; r++) {
        if (n->rule[r].body == NET_FAILED) {
            err_set(&n->why, "rule '%s' is not defined", n->rule[r].name);
            n->failed = 1;
        } else {
            uint32_t start = make(n, n->rule[r].body, end);
            n->rule[r].start = start;
        }
    }
    measure_counters(n);
    if (!n->failed && bury(n)) {
        n->failed = 1;
        err_memory(&n->why);
    }
    if (!n->failed && n->node[n->rule[root].start].kind == NET_DEAD)
        n->is_empty = fail(n, "allows no text at all") != 0;
    uint32_t *seen = n->failed ? NULL : calloc(n->n_nodes, sizeof *seen);
    if (!n->failed && !seen) {
        n->failed = 1;
        err_memory(&n->why);
    }
    for (uint32_t r = 0; r < n->n_rules && !n->failed; r++)
        if (look_at(n, r, seen, &bad)) {
            n->failed = 1;
            err_set(&n->why, "rule '%s' begins with itself: left recursion is not served",
                    n->rule[bad].name);
        }
    free(seen);
    free(n->expr);
    n->expr = NULL;
    if (!n->failed) return 0;
    *e = n->why;
    return -1;
}

int net_error(const struct net *n, struct err *e)
{
    if (n->failed) *e = n->why;
    return -1;
}

int net_is_empty(const struct net *n) { return n->is_empty; }

const struct net_node *net_nodes(const struct net *n, uint32_t *count)
{
    *count = n->n_nodes;
    return n->node;
}
const uint32_t *net_set(const struct net *n, uint32_t set) { return n->set[set]; }
uint64_t net_flags(const struct net *n, uint32_t flags) { return n->flags[flags]; }
int net_goes_on(const struct net *n, uint32_t a, int is_check, uint64_t *count)
{
    return counters_go_on(n->counters, a, is_check, count);
}
int net_is_long(const struct net *n, uint32_t a, uint64_t count)
{
    return counters_is_long(n->counters, a, count);
}
uint32_t net_start(const struct net *n, uint32_t rule) { return n->rule[rule].start; }
