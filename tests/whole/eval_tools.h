/* eval_tools.h: what eval.c and eval_tasks.c, which alone include it, have in common: judgements,
 * commands over a temporary folder, files in it. */
#ifndef TESTS_WHOLE_EVAL_TOOLS_H
#define TESTS_WHOLE_EVAL_TOOLS_H

#include "tests/harness.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *build_dir;
static char temp_dir[] = "/tmp/opt4gptq-eval-XXXXXX";
static char run_stderr[4096]; /* of the last run */

static void judge(int ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void judge(int ok, const char *format, ...)
{
    va_list v;
    va_start(v, format);
    if (ok) n_passed++;
    else n_failed++;
    printf(ok ? "ok   " : "FAIL ");
    vprintf(format, v);
    printf("\n");
    va_end(v);
}

/* Runs "PROGRAM FIRST REST": words separated by blanks, %T is the temporary directory. Returns
 * stdout (to free), NULL with another exit code than WANT. */
static char *run(const char *program, const char *first, const char *rest, int want)
{
    char line[8192] = "", path[1024], *argv[64];
    int n = 0;
    size_t at = 0;
    const char *parts[] = {first, " ", rest};
    for (int i = 0; i < 3; i++)
        for (const char *p = parts[i]; *p && at + 64 < sizeof line; p++) {
            if (p[0] == '%' && p[1] == 'T') at += (size_t)sprintf(line + at, "%s", temp_dir), p++;
            else line[at++] = *p;
        }
    line[at] = 0;
    snprintf(path, sizeof path, "%s/%s", build_dir, program);
    argv[n++] = path;
    for (char *w = strtok(line, " "); w && n < 63; w = strtok(NULL, " ")) argv[n++] = w;
    argv[n] = NULL;
    struct process p;
    process_run(&p, argv, NULL);
    char *out = p.code == want ? strdup(p.out) : NULL;
    snprintf(run_stderr, sizeof run_stderr, "%s", p.err);
    if (!out) printf("  %s %s %s: exit %d, not %d: %s", program, first, rest, p.code, want, p.err);
    process_free(&p);
    return out;
}

static void write_text(const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", temp_dir, name);
    write_file(path, text, strlen(text));
}

static json_t *load_json(const char *dir, const char *name)
{
    char path[1024];
    json_error_t why;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return json_load_file(path, 0, &why);
}

#endif
