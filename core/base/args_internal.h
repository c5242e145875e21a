/* args_internal.h: what the files args*.c share. */
#ifndef CORE_ARGS_INTERNAL_H
#define CORE_ARGS_INTERNAL_H

#include "core/base/args.h"

static inline unsigned args_bit(int mode) { return 1u << mode; }

/* Whether its value is a path. */
int args_is_file(const struct args_row *r);
/* Sets g->mode: the first one, in the order of p->modes, that an option chose; a mode that stands
 * alone comes before the others. */
void args_choose_mode(const struct args_program *p, struct args_given *g);
/* The options that choose these modes, as "-i FILE, --x or --y": out [cap]. */
void args_modes_needed(const struct args_program *p, unsigned modes, char *out, size_t cap);

#endif
