/* constraint.h: the grammars of a run: one compiled grammar for all who ask for the same text.
 * Compiled on a thread of its own, so that answers are computed meanwhile. Owns: the grammars, the
 * tokenizer's vocabulary as bytes. Must not know: options, records, requests. */
#ifndef ENGINE_CONSTRAINT_H
#define ENGINE_CONSTRAINT_H

#include "engine/vocabulary.h"
#include "core/grammar/grammar.h"

struct constraints;
struct constraint; /* a grammar that someone asked for */

/* SOURCE: of the run's tokens. */
int constraints_open(struct constraints **c, const struct vocabulary_source *source, struct err *e);
/* Nothing more is compiled, and the tokenizer not read any more. A grammar that is being compiled
 * goes on. */
void constraints_stop(struct constraints *c);
/* Requests with its grammars must have ended. Where one is still being compiled the memory stays:
 * the process is to end. */
void constraints_close(struct constraints *c);
/* Copies the text; returns at once. Everybody who asked drops it in the end. */
int constraint_ask(struct constraints *c, const struct grammar_spec *spec, struct constraint **k,
                   struct err *e);
void constraint_drop(struct constraints *c, struct constraint *k);
/* 1: *g is compiled; 0: not yet, never with CONSTRAINT_WAIT; -1: *e says why there is none.
 * CONSTRAINT_BRIEFLY: waits until it or another one is compiled, or some hundredths of a second. */
enum { CONSTRAINT_NO_WAIT, CONSTRAINT_WAIT, CONSTRAINT_BRIEFLY };
int constraint_get(struct constraints *c, struct constraint *k, int wait, struct grammar **g,
                   struct err *e);

#endif
