/* batch_tools.h: what batch.c and journals.c, which alone include it, have in common: a model, a
 * file of prompts, names of outputs, and commands over them. */
#ifndef TESTS_WHOLE_BATCH_TOOLS_H
#define TESTS_WHOLE_BATCH_TOOLS_H

#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-batch-XXXXXX", model[300],
                                            in[300], out[300], out2[300], log_path[300];

#define RUN(p, input, ...)                                                                         \
    process_run(p, (char *[]){run_bin, "-m", model, "-t", "1", __VA_ARGS__, NULL}, input)

static void clean(void) { shell_ok("cd %s && rm -rf out*", dir); }

static json_t *line_of(const char *text, int i)
{
    while (i-- && text) text = strchr(text, '\n'), text = text ? text + 1 : NULL;
    return text ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

/* Converts models/demo, and writes 40 prompts to `in`; argv[1]: the build directory. */
static void begin(char **argv)
{
    struct process p;
    char plain[1600]; /* without its chat template, which a record of in.jsonl misses */
    if (!mkdtemp(dir)) exit(2);
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.txt", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(out2, sizeof out2, "%s/out2", dir);
    snprintf(log_path, sizeof log_path, "%s/out.log", dir);
    snprintf(plain, sizeof plain,
             "mkdir %s/plain && cp models/demo/*.json models/demo/*.safetensors %s/plain && %s -q "
             "%s/plain %s && rm -r %s/plain",
             dir, dir, convert_bin, dir, model, dir);
    process_run(&p, (char *[]){"/bin/sh", "-c", plain, NULL}, NULL);
    check(p.code == 0, "convert models/demo", &p);
    process_free(&p);
    FILE *f = fopen(in, "w");
    for (int i = 0; f && i < 40; i++) fprintf(f, "The %d. king and the queen of the sea\n", i);
    if (!f || fclose(f)) exit(2);
}

#endif
