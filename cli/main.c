/* main.c: opt4gptq-run: checks what options mean together and calls the mode. */
#include "backend-cpu/kernels.h"
#include "backend-hip/hip.h"
#include "cli/machine.h"
#include "cli/run.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

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

static int check_batch(const struct options *o, struct err *e)
{
    if (o->prompt || o->file || o->prompt_ids) return err_set(e, "-i excludes -p, -f and --prompt-ids");
    if (o->tokenize || o->detokenize || o->logits_out) return err_set(e, "-i excludes --tokenize, --detokenize and --logits-out");
    if (!o->output && !o->check_only) return err_set(e, "no output given (-o FILE, - for stdout, or --check)");
    if (one_of("--input-format", o->input_format, (const char *const[]){"auto", "jsonl", "text", NULL}, e)) return -1;
    return one_of("--order", o->order, (const char *const[]){"input", "done", NULL}, e);
}

static int check_evaluation(const struct options *o, struct err *e)
{
    if (o->perplexity && o->choices) return err_set(e, "--perplexity and --multiple-choice exclude each other");
    if (o->input || o->tokenize || o->detokenize || o->logits_out || o->prompt_ids || o->chat)
        return err_set(e, "--perplexity and --multiple-choice exclude -i, --prompt-ids, --tokenize, --detokenize, --logits-out and --chat");
    if (o->choices && (o->prompt || o->file)) return err_set(e, "--multiple-choice reads its own file, not -p or -f");
    if (o->choices && !!o->n_few_shot != !!o->few_shot_file) return err_set(e, "--few-shot and --few-shot-file belong together");
    return o->perplexity ? one_of("--perplexity", o->perplexity, (const char *const[]){"second-half", "contiguous", NULL}, e) : 0;
}

static int check(const struct options *o, struct err *e)
{
    int evaluates = o->perplexity || o->choices;
    if (o->list_devices) return 0;
    if (!o->model) return err_set(e, "no model given (-m FILE; see --help)");
    if (evaluates && check_evaluation(o, e)) return -1;
    if (!o->perplexity && o->n_windows) return err_set(e, "--windows needs --perplexity");
    if (!o->choices && (o->n_limit || o->n_few_shot || o->few_shot_file))
        return err_set(e, "--limit, --few-shot and --few-shot-file need --multiple-choice");
    if (!evaluates && o->samples) return err_set(e, "--samples needs --perplexity or --multiple-choice");
    if (!o->input && (o->output || o->check_only || o->restart || o->shard || o->trace || (o->report && !evaluates)))
        return err_set(e, "-o, --check, --restart, --shard, --report and --trace need -i");
    if (!o->input && !evaluates && (o->memory || o->n_pages)) return err_set(e, "--mem and --kv-pages need -i or an evaluation");
    if (o->input && check_batch(o, e)) return -1;
    int prompts = !!o->prompt + !!o->file + !!o->prompt_ids;
    if (prompts > 1) return err_set(e, "-p, -f and --prompt-ids exclude each other");
    if (!prompts && !o->input && !o->choices) return err_set(e, "no prompt given (-p TEXT, -f FILE, --prompt-ids, or -i for a batch)");
    if (o->chat && o->prompt_ids) return err_set(e, "--chat needs the prompt as text (-p or -f)");
    if (o->chat && o->detokenize) return err_set(e, "--chat and --detokenize exclude each other");
    if (o->system_prompt && !o->chat) return err_set(e, "--system-prompt needs --chat");
    if (o->chat_template_file && !o->chat && !o->input) return err_set(e, "--chat-template-file needs --chat");
    if (o->tokenize && o->detokenize) return err_set(e, "--tokenize and --detokenize exclude each other");
    if ((o->tokenize || o->detokenize) && o->prompt_ids) return err_set(e, "--tokenize and --detokenize read -p or -f");
    if (one_of("--backend", o->backend, (const char *const[]){"auto", "cpu", "hip", NULL}, e)) return -1;
    if (one_of("--act", o->act, (const char *const[]){"auto", "f32", "f16", "i16", "int8", NULL}, e)) return -1;
    if (one_of("--kv", o->kv, (const char *const[]){"f16", "f32", NULL}, e)) return -1;
    if (one_of("--format", o->format,
               o->input ? (const char *const[]){"jsonl", "text", "ids", NULL} : (const char *const[]){"text", "ids", NULL}, e))
        return -1;
    if (o->n_stop && !strcmp(o->format, "ids")) return err_set(e, "--stop needs --format text");
    return 0;
}

int main(int argc, char **argv)
{
    struct options o;
    struct err e = {0};
    int rc = EXIT_USAGE;
    if (!options_parse(&o, argc, argv, &e)) {
        if (o.help || o.version) {
            if (o.help) options_help();
            else print_version();
            return fflush(stdout) ? 1 : 0;
        }
        if (!o.format) o.format = o.input ? "jsonl" : "text";
        if (!check(&o, &e)) {
            machine_settle(&o);
            signal(SIGINT, run_on_signal);
            signal(SIGTERM, run_on_signal);
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
