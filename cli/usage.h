/* usage.h: what the options of one call mean together: wrong usage, before anything is opened.
 * Must not know: how the options are written (options.h), what the modes do. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "cli/options.h"

/* -1 and the options by the names by which they were given. Fills in --format. */
int usage_check(struct options *o, struct err *e);
/* Notes on stderr: options that change nothing, texts that may not be what was meant. */
void usage_say(const struct options *o);

#endif
