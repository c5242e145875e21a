/* cli_tools.h: what cli.c and chat.c, which alone include it, have in common: models/demo, calls of
 * opt4gptq-run, and calls that fail. */
#ifndef TESTS_WHOLE_CLI_TOOLS_H
#define TESTS_WHOLE_CLI_TOOLS_H

#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-cli-XXXXXX", model[600];

#define RUN(p, input, ...) process_run(p, (char *[]){run_bin, __VA_ARGS__, NULL}, input)
#define ASK(p, ...) RUN(p, NULL, "-m", model, "--temp", "0", __VA_ARGS__)

/* A failing call: the exit code, one line on stderr that says what, nothing on stdout. */
static void expect_error(char *const argv[], int code, const char *says)
{
    struct process p;
    process_run(&p, argv, NULL);
    char what[256] = "error of:";
    for (int i = 1; argv[i]; i++)
        snprintf(what + strlen(what), sizeof what - strlen(what), " %s", argv[i]);
    check(p.code == code && lines(p.err) == 1 && strstr(p.err, says) && !p.out_bytes, what, &p);
    process_free(&p);
}
#define ERROR(code, says, ...) expect_error((char *[]){run_bin, __VA_ARGS__, NULL}, code, says)

/* Converts models/demo. */
static void begin(const char *build)
{
    struct process p;
    if (!mkdtemp(dir)) exit(2);
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", build);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", build);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    process_run(&p, (char *[]){convert_bin, "models/demo", model, NULL}, NULL);
    check(p.code == 0, "convert models/demo", &p);
    process_free(&p);
}

#endif
