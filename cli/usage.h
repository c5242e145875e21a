/* usage.h: checks the options of one call before any file is opened: the rules that the table of
 * options.h cannot say. Must not know: what the modes do. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "cli/options.h"

/* -1: wrong usage; the message names options as they were given. Fills in --format. */
int usage_check(struct options *o, struct err *e);
/* Notes on stderr: options without an effect, texts with escapes. */
void usage_say(const struct options *o);

#endif
