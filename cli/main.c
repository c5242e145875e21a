/* main.c: opt4gptq-run: from the options to the mode. */
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "cli/machine.h"
#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/usage.h"
#include "core/base/process.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

static void print_version(void)
{
    printf("opt4gptq-run %s\nbackends: cpu (", OPT4GPTQ_VERSION);
    for (int i = 0; cpu_ladder[i]; i++)
        printf(i ? " %s%s" : "%s%s", cpu_ladder[i]->name,
               cpu_ladder[i]->unusable() ? " [not on this processor]" : "");
    printf(")\n");
    if (!hip_image_name(0))
        printf("not in this build: GPU kernels for the backend hip (clang-19 was missing)\n");
    for (int i = 0; hip_image_name(i); i++)
        printf(i ? " %s" : "backends: hip (%s", hip_image_name(i));
    if (hip_image_name(0)) printf(")\n");
}

int main(int argc, char **argv)
{
    struct options o;
    struct err e = {0};
    int rc = EXIT_USAGE;
    process_begin("opt4gptq-run");
    if (!options_parse(&o, argc, argv, &e)) {
        if (o.help || o.version) {
            if (o.help) options_help();
            else print_version();
            return fflush(stdout) ? 1 : 0;
        }
        if (!usage_check(&o, &e) && !outputs_check(&o, &e)) {
            usage_say(&o);
            machine_settle(&o);
            process_maps(o.model);
            signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with a message */
            if (o.list_devices) rc = hip_list_devices(o.hip_library, &e) ? 1 : 0;
            else if (o.input) rc = run_batch(&o, &e);
            else if (o.perplexity) rc = run_perplexity(&o, &e);
            else if (o.choices) rc = run_choices(&o, &e);
            else rc = o.tokenize || o.detokenize ? run_tokens(&o, &e) : run_complete(&o, &e);
        }
    }
    if (e.msg[0]) fprintf(stderr, "opt4gptq-run: %s\n", e.msg);
    return rc;
}
