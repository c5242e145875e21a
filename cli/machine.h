/* machine.h: from the options of the command line to a backend and its settings. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "cli/options.h"
#include "core/forward.h"

/* The backend that the options ask for, NULL with an error; fills what concerns the machine in *f. --backend auto takes a
 * GPU when one can run the embedded kernels and no option asks for what only the CPU has. */
const struct backend *machine_choose(const struct options *o, struct forward_options *f, struct err *e);

#endif
