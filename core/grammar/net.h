/* net.h: a language of bytes as rules that may name each other, and the network that recognizes it:
 * nodes that read a byte, branch, or go through another rule. Owns: expressions, nodes, byte sets.
 * Must not know: tokens, JSON, the notations that rules are written in. */
#ifndef CORE_NET_H
#define CORE_NET_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct net;

/* An expression of the net, a small number; NET_FAILED after an error, which net_finish returns, so
 * that the calls below need no checks between them. */
typedef uint32_t net_expr;
enum { NET_FAILED = UINT32_MAX, NET_NO_LIMIT = -1 };

/* Bytes first to last. */
struct net_range {
    uint32_t first, last;
};

int net_open(struct net **out, struct err *e);
void net_close(struct net *n);

net_expr net_empty(struct net *n);
/* One byte of SET: bit b % 32 of set[b / 32]. */
net_expr net_byte(struct net *n, const uint32_t set[8]);
/* These bytes, one after the other. */
net_expr net_text(struct net *n, const char *text, size_t bytes);
/* One character (a code point as UTF-8, no surrogates) of the ranges [n_ranges], which may touch.
 */
net_expr net_chars(struct net *n, const struct net_range *ranges, int n_ranges);
net_expr net_sequence(struct net *n, net_expr a, net_expr b);
net_expr net_either(struct net *n, net_expr a, net_expr b);
/* A at least MIN times, at most MAX (NET_NO_LIMIT). */
net_expr net_repeat(struct net *n, net_expr a, int min, int max);

/* Within a rule, 64 flags, all clear where it begins: what reads nothing but sets flag FLAG, where
 * it is clear; and what reads nothing where all flags of FLAGS are set. A rule that needs flags set
 * must be able to set them, whatever it has read. */
net_expr net_mark(struct net *n, int flag);
net_expr net_test(struct net *n, uint64_t flags);
/* Nothing, where RULE has a text at all; or LEAST of RULES [count] do. */
net_expr net_need(struct net *n, uint32_t rule);
net_expr net_need_some(struct net *n, const uint32_t *rules, int count, int least);

/* A counter of a rule, whose flags are then its number, and which has no marks: net_count adds one
 * where what follows it can still end with MIN to MAX (NET_NO_LIMIT) of them, net_check adds none,
 * net_length reads nothing where there are MIN. Ways that part within what is counted begin with
 * net_check. */
int net_counter(struct net *n, uint32_t rule, int min, int max);
net_expr net_count(struct net *n, int counter);
net_expr net_check(struct net *n, int counter);
net_expr net_length(struct net *n, int counter);
/* Goes on as a rule does, in place of the rest of this one, with its flags. */
net_expr net_jump(struct net *n, uint32_t rule);

/* A rule, to be defined once; NAME [bytes] is for messages. */
uint32_t net_rule(struct net *n, const char *name, size_t bytes);
/* The rule of that name, which is there. */
uint32_t net_named(const struct net *n, const char *name);
net_expr net_call(struct net *n, uint32_t rule);
void net_define(struct net *n, uint32_t rule, net_expr body);

/* Makes the network, of which ROOT is the language. Errors: a rule that begins with itself, a
 * language without any text, more than the bounds allow. */
int net_finish(struct net *n, uint32_t root, struct err *e);
/* -1, and *e says what made an expression NET_FAILED, if the net did. */
int net_error(const struct net *n, struct err *e);
/* 1: net_finish failed because the language is without any text. */
int net_is_empty(const struct net *n);

/* ---- the finished network */

enum net_kind {
    NET_END,    /* of a rule */
    NET_READ,   /* a byte of set a, then b */
    NET_SPLIT,  /* a or b */
    NET_CALL,   /* rule a, then b */
    NET_MARK,   /* flag a, then b */
    NET_TEST,   /* flags a, then b */
    NET_NEED,   /* as net_need_some: the a-th of these, then b */
    NET_COUNT,  /* as net_count, at the a-th place of all counters, then b */
    NET_CHECK,  /* as net_check, likewise */
    NET_LENGTH, /* of counter a, then b */
    NET_JUMP,   /* rule a */
    NET_DEAD    /* no text ends from here */
};
struct net_node {
    enum net_kind kind;
    uint32_t a, b;
};
const struct net_node *net_nodes(const struct net *n, uint32_t *count);
const uint32_t *net_set(const struct net *n, uint32_t set); /* [8] */
uint64_t net_flags(const struct net *n, uint32_t flags);
/* *count: what a counter has after NET_COUNT at place A or, where IS_CHECK, NET_CHECK, from *count;
 * returns 0 where nothing that follows can end. */
int net_goes_on(const struct net *n, uint32_t a, int is_check, uint64_t *count);
/* 1: COUNT is enough for counter A. */
int net_is_long(const struct net *n, uint32_t a, uint64_t count);
/* The first node of a rule. */
uint32_t net_start(const struct net *n, uint32_t rule);

#endif
