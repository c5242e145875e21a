/* automaton.h: what every kind of grammar is when it runs: a deterministic automaton over the bytes
 * of the answer whose states are made when they are reached. json.c, gbnf.c and regular.c make
 * automata; mask.c walks them. Must not know: tokens, schemas.
 *
 * From every state but STATE_DEAD some complete document can be reached. */
#ifndef CORE_AUTOMATON_H
#define CORE_AUTOMATON_H

#include "core/grammar/lang.h"

#include <stdint.h>

typedef uint32_t state_id;
enum { STATE_DEAD = 0 };
#define STATE_UNKNOWN UINT32_MAX /* a row's entry that was not computed yet */

enum {
    STATE_ACCEPTS = 1, /* what was read is a complete document */
    STATE_ENDS = 2,    /* ACCEPTS, and nothing but white space can follow: the answer ends here */
};

struct automaton {
    state_id (*row)[256]; /* [n_states] */
    uint8_t *flags;       /* [n_states] */
    uint32_t n_states;
    state_id start;
    struct lang *lang; /* of contents(); NULL: it has none */
    /* Computes row[s][byte] and returns it. STATE_UNKNOWN: the tables are full (or memory is
     * short); the caller rewinds and reads its text again. */
    state_id (*fill)(struct automaton *a, state_id s, uint8_t byte);
    /* In state S the answer is inside JSON strings whose contents are the byte states out [*n <=
     * cap] of lang: bytes but '"', '\\' and controls are read by these alone, and lead back into
     * the string. Returns 0 where that is not so (or more than CAP). NULL: never. */
    int (*contents)(const struct automaton *a, state_id s, lang_bytes *out, int cap, int *n);
    /* A state from which the same texts are live as from S, as far as they have less than three
     * '"': it forgets the texts of keys, so that walks from it share their states. Masks are made
     * from it, for tokens of three '"' from S. NULL: S itself. May be STATE_UNKNOWN as fill. */
    state_id (*loose)(struct automaton *a, state_id s);
    /* Forgets all states but START, which keeps its id. */
    void (*rewind)(struct automaton *a);
    void (*close)(struct automaton *a);
};

static inline state_id automaton_step(struct automaton *a, state_id s, uint8_t byte)
{
    state_id to = a->row[s][byte];
    return to == STATE_UNKNOWN ? a->fill(a, s, byte) : to;
}

#endif
