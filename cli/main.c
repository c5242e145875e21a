/* main.c: opt4gptq-run: checks what options mean together and calls the mode. */
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "cli/run.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

/* The first signal ends generation at the next token, the second one the process. */
static void on_signal(int sig)
{
    run_stop_requested = 1;
    signal(sig, SIG_DFL);
}

static void print_version(void)
{
    printf("opt4gptq-run %s\nbackends: cpu (", OPT4GPTQ_VERSION);
    for (int i = 0; cpu_ladder[i]; i++)
        printf(i ? " %s%s" : "%s%s", cpu_ladder[i]->name, cpu_ladder[i]->unusable() ? " [not on this processor]" : "");
    printf(")\n");
    if (!hip_image_name(0)) printf("not in this build: GPU kernels for the backend hip (clang-19 was missing)\n");
    for (int i = 0; hip_image_name(i); i++) printf(i ? " %s" : "backends: hip (%s", hip_image_name(i));
    if (hip_image_name(0)) printf(")\n");
}

static int one_of(const char *option, const char *value, const char *const *allowed, struct err *e)
{
    char list[64] = "";
    for (int i = 0; allowed[i]; i++) {
        if (!strcmp(value, allowed[i])) return 0;
        snprintf(list + strlen(list), sizeof list - strlen(list), i ? ", %s" : "%s", allowed[i]);
    }
    return err_set(e, "%s %s: must be one of %s", option, value, list);
}

static int check(const struct options *o, struct err *e)
{
    if (o->list_devices) return 0;
    if (!o->model) return err_set(e, "no model given (-m FILE; see --help)");
    int prompts = !!o->prompt + !!o->file + !!o->prompt_ids;
    if (prompts > 1) return err_set(e, "-p, -f and --prompt-ids exclude each other");
    if (!prompts) return err_set(e, "no prompt given (-p TEXT, -f FILE or --prompt-ids)");
    if (o->chat && o->prompt_ids) return err_set(e, "--chat needs the prompt as text (-p or -f)");
    if (o->chat && o->detokenize) return err_set(e, "--chat and --detokenize exclude each other");
    if (o->system_prompt && !o->chat) return err_set(e, "--system-prompt needs --chat");
    if (o->chat_template_file && !o->chat) return err_set(e, "--chat-template-file needs --chat");
    if (o->tokenize && o->detokenize) return err_set(e, "--tokenize and --detokenize exclude each other");
    if ((o->tokenize || o->detokenize) && o->prompt_ids) return err_set(e, "--tokenize and --detokenize read -p or -f");
    if (one_of("--backend", o->backend, (const char *const[]){"auto", "cpu", "hip", NULL}, e)) return -1;
    if (one_of("--act", o->act, (const char *const[]){"auto", "f32", "f16", "i16", "int8", NULL}, e)) return -1;
    if (one_of("--kv", o->kv, (const char *const[]){"f16", "f32", NULL}, e)) return -1;
    if (one_of("--format", o->format, (const char *const[]){"text", "ids", NULL}, e)) return -1;
    if (o->n_stop && !strcmp(o->format, "ids")) return err_set(e, "--stop needs --format text");
    return 0;
}

int main(int argc, char **argv)
{
    struct options o;
    struct err e = {""};
    int rc = EXIT_USAGE;
    if (!options_parse(&o, argc, argv, &e)) {
        if (o.help || o.version) {
            if (o.help) options_help();
            else print_version();
            return fflush(stdout) ? 1 : 0;
        }
        if (!check(&o, &e)) {
            signal(SIGINT, on_signal);
            signal(SIGTERM, on_signal);
            signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error with a message */
            rc = o.list_devices               ? (hip_list_devices(o.hip_library, &e) ? 1 : 0)
                 : o.tokenize || o.detokenize ? run_tokens(&o, &e)
                                              : run_complete(&o, &e);
        }
    }
    if (e.msg[0]) fprintf(stderr, "opt4gptq-run: %s\n", e.msg);
    return rc;
}
