/* machine.h: from the options of the command line to a backend and its settings. */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

#include "cli/options.h"
#include "core/step/forward.h"

/* Replaces "auto" in --backend and --act by what is taken: a GPU when one can run the embedded
 * kernels and no option asks for what only the CPU has; then the fastest arithmetic whose error is
 * not above that of fp16 activations (docs/performance.md). */
void machine_settle(struct options *o);
/* Of settled options. */
const struct backend *machine_backend(const struct options *o);
/* -v: more of an open backend, on stderr. */
void machine_say(const struct options *o, const struct be *be);
/* What they say about the backend: variant, threads, device, arithmetic, storage of keys and
 * values. */
struct forward_options machine_forward(const struct options *o);

#endif
