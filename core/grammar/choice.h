/* choice.h: the automaton of some texts: a trie of their bytes, constant once it is made. Node 0 is
 * dead, node 1 the beginning; from every other node one of the texts can be completed. Must not
 * know: tokens. */
#ifndef CORE_CHOICE_H
#define CORE_CHOICE_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct choice;
enum { CHOICE_DEAD, CHOICE_START };

/* TEXT [bytes]: a JSON array of strings, none of them empty. */
int choice_open(struct choice **c, const char *text, size_t bytes, struct err *e);
void choice_close(struct choice *c);
uint32_t choice_step(const struct choice *c, uint32_t node, unsigned char byte);
/* 1: a text is complete here; 1: and no other one goes on. */
int choice_may_end(const struct choice *c, uint32_t node);
int choice_must_end(const struct choice *c, uint32_t node);

#endif
