/* manuals.c: what the tables of options print: help, manual pages, completion. usage: manuals
 * BUILD_DIR. */
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], convert_bin[512];

#define RUN(p, ...) process_run(p, (char *[]){run_bin, __VA_ARGS__, NULL}, NULL)

/* No line is wider than a terminal; defaults are named. */
static void help(void)
{
    static const char *const programs[] = {"run", "convert", "bench"};
    struct process p;
    char path[560], what[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%.*s%s", (int)(strlen(run_bin) - 3), run_bin, programs[i]);
        process_run(&p, (char *[]){path, "--help", NULL}, NULL);
        size_t widest = 0;
        for (const char *s = p.out, *end; *s; s = end + (*end == '\n')) {
            end = s + strcspn(s, "\n");
            if ((size_t)(end - s) > widest) widest = (size_t)(end - s);
        }
        snprintf(what, sizeof what, "the help of %s fits 100 columns", programs[i]);
        check(p.code == 0 && !p.err_bytes && widest > 80 && widest <= 100, what, &p);
        process_free(&p);
    }
    RUN(&p, "--help");
    check(strstr(p.out, "--predict, --n-predict N") && strstr(p.out, "-h, --help, --usage"),
          "all names in the help", &p);
    check(strstr(p.out, "auto (default): f16") && strstr(p.out, "auto (default)") &&
              strstr(p.out, "(default -1:"),
          "defaults in the help", &p);
    process_free(&p);
}

/* The manual page of a program: roff without a warning, with every option of the help. */
static void manual(const char *program)
{
    struct process p;
    char command[900], what[128];
    snprintf(what, sizeof what, "the manual page of %s", program);
    if (system("command -v groff >/dev/null")) {
        skip("%s: no groff here", what);
        return;
    }
    snprintf(command, sizeof command, "%s --print-man | groff -man -Tutf8 -ww -P-c -P-b -P-u",
             program);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(p.code == 0 && !p.err_bytes && strstr(p.out, "NAME\n") && strstr(p.out, "EXIT STATUS") &&
              strstr(p.out, "--help, --usage") && strstr(p.out, "DESCRIPTION\n") &&
              strstr(p.out, "EXAMPLES\n") && strstr(p.out, "FILES\n") &&
              strstr(p.out, "SEE ALSO\n"),
          what, &p);
    process_free(&p);
}

/* What bash offers for the last of some words. */
static void completes(const char *program, const char *words, const char *offered)
{
    struct process p;
    char command[1200], what[128];
    const char *name = strrchr(program, '/') + 1;
    snprintf(what, sizeof what, "completion of: %s %s", name, words);
    snprintf(command, sizeof command,
             "eval \"$(%s --print-completion bash)\" && COMP_WORDS=(%s %s) && "
             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && f=_%s && { ${f//-/_}; "
             "echo \"${COMPREPLY[*]}\"; } && complete -p %s >/dev/null",
             program, name, words, name, name);
    process_run(&p, (char *[]){"/bin/bash", "-c", command, NULL}, NULL);
    p.out[strcspn(p.out, "\n")] = 0;
    check(p.code == 0 && !p.err_bytes && !strcmp(p.out, offered), what, &p);
    process_free(&p);
}

/* What the tables of options print beside the help. */
static void manuals_and_completion(void)
{
    char bench_bin[560];
    snprintf(bench_bin, sizeof bench_bin, "%.*sbench", (int)(strlen(run_bin) - 3), run_bin);
    manual(run_bin);
    manual(convert_bin);
    manual(bench_bin);
    if (access("/bin/bash", X_OK)) {
        skip("completion: no bash here");
        return;
    }
    completes(run_bin, "--perp", "--perplexity");
    completes(run_bin, "--perplexity ''", "second-half contiguous documents");
    completes(run_bin, "-m x --backend c", "cpu");
    completes(run_bin, "--model ''", "");
    completes(run_bin, "--cpu re", "ref");
    completes(run_bin, "--samplers top_", "top_n_sigma top_k top_p");
    completes(run_bin, "--backend = c", "cpu");
    completes(run_bin, "--kv =", "auto f16 f32 int8 int4");
    completes(run_bin, "-n ''", "");
    completes(convert_bin, "--ver", "--verbose --verify --version");
    completes(convert_bin, "dir", "");
    completes(bench_bin, "--act f32,i", "f32,i16 f32,int8 f32,int8-token f32,int4");
    struct process p;
    RUN(&p, "--print-completion", "tcsh");
    check(p.code == 2 && lines(p.err) == 1 && !p.out_bytes &&
              strstr(p.err, "--print-completion tcsh: must be one of bash, zsh"),
          "completion of another shell", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    help();
    manuals_and_completion();
    return report("manuals");
}
