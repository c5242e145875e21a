/* main.c: opt4gptq-run: from the options to the mode. */
#include "engine/engine.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/usage.h"
#include "core/base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void print_version(void)
{
    args_version(&run_program, stdout);
    for (const struct backend_entry *b = backend_entries; b->ops; b++) b->print_version(stdout);
}

/* --list-devices: those of every backend that has devices. */
static int list_devices(const struct options *o, struct err *e)
{
    int rc = 0;
    for (const struct backend_entry *b = backend_entries; b->ops && !rc; b++)
        if (b->list_devices) rc = b->list_devices(o->engine.hip_library, e);
    return rc ? 1 : 0;
}

static int run_mode(const struct options *o, struct err *e)
{
    switch ((enum run_mode)o->given.mode) {
    case RUN_COMPLETE: return run_complete(o, e);
    case RUN_CONVERSATION: return run_conversation(o, e);
    case RUN_BATCH: return run_batch(o, e);
    case RUN_PERPLEXITY:
        return strcmp(o->perplexity, "documents") ? run_perplexity(o, e) : run_documents(o, e);
    case RUN_CHOICES: return run_choices(o, e);
    case RUN_TASKS: return run_tasks(o, e);
    case RUN_DETOKENIZE:
    case RUN_TOKENIZE: return run_tokens(o, e);
    case RUN_DEVICES: return list_devices(o, e);
    case RUN_INFO: return run_info(o, e);
    }
    return EXIT_USAGE;
}

static int run(struct options *o, struct err *e)
{
    usage_say(o);
    run_draw_seed(o);
    if (options_settle(o, e)) return 1;
    process_maps(o->model);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with a message */
    char *system;
    int rc = run_read_system(o, &system, e) ? 1 : run_mode(o, e);
    free(system);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o;
    struct err e = {0};
    int rc = EXIT_USAGE;
    if (backend_asked(argc, argv, &rc)) return rc;
    process_begin("opt4gptq-run");
    if (!options_parse(&o, argc, argv, &e)) {
        if (args_asks(&o.common)) {
            if (!args_print(&run_program, &o.common, stdout)) print_version();
            return fflush(stdout) ? 1 : 0;
        }
        if (!usage_check(&o, &e) && !outputs_check(&o, &e)) rc = run(&o, &e);
    }
    if (rc && e.msg[0]) fprintf(stderr, "opt4gptq-run: %s\n", e.msg);
    return rc;
}
