#include "cli/usage.h"

#include "backend-cpu/kernels.h"
#include "cli/batch/shard.h"
#include "cli/run.h"
#include "core/base/memory.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* Fields of struct options, NULL at the end. */
#define FIELDS(...)                                                                                \
    (const void *const[]) { __VA_ARGS__, NULL }

/* Those given of the first against those of the second. */
static int exclude(const struct options *o, const void *const *these, const void *const *those,
                   struct err *e)
{
    for (; *these; these++)
        for (const void *const *p = those; *p && options_given(o, *these); p++)
            if (options_given(o, *p))
                return err_set(e, "%s and %s exclude each other", options_given(o, *these),
                               options_given(o, *p));
    return 0;
}

/* None of these may be given without what is needed. */
static int need(const struct options *o, const void *const *these, const char *needed,
                struct err *e)
{
    for (; *these; these++)
        if (options_given(o, *these))
            return err_set(e, "%s needs %s", options_given(o, *these), needed);
    return 0;
}

static int check_prompt(const struct options *o, struct err *e)
{
    if (exclude(o, FIELDS(&o->prompt), FIELDS(&o->file, &o->prompt_ids), e)) return -1;
    if (exclude(o, FIELDS(&o->file), FIELDS(&o->prompt_ids), e)) return -1;
    if (o->prompt || o->file || o->prompt_ids || o->input || o->choices) return 0;
    return err_set(e, "no prompt given (-p TEXT, -f FILE, --prompt-ids, or -i for a batch)");
}

static int check_batch(const struct options *o, struct err *e)
{
    struct shard shard;
    if (exclude(o, FIELDS(&o->input),
                FIELDS(&o->prompt, &o->file, &o->prompt_ids, &o->tokenize, &o->detokenize,
                       &o->logits_out),
                e))
        return -1;
    if (!o->output && !o->check_only)
        return err_set(e, "no output given (-o FILE, - for stdout, or --check)");
    /* a rank that no launcher gave is found out by the batch: the command may be right elsewhere */
    return o->shard && strcmp(o->shard, "auto") ? shard_parse(&shard, o->shard, e) : 0;
}

static int check_evaluation(const struct options *o, struct err *e)
{
    if (exclude(o, FIELDS(&o->perplexity), FIELDS(&o->choices), e)) return -1;
    if (exclude(o, FIELDS(&o->perplexity, &o->choices),
                FIELDS(&o->input, &o->prompt_ids, &o->tokenize, &o->detokenize, &o->logits_out,
                       &o->chat),
                e))
        return -1;
    if (exclude(o, FIELDS(&o->choices), FIELDS(&o->prompt, &o->file), e)) return -1;
    if (o->n_few_shot && !o->few_shot_file)
        return need(o, FIELDS(&o->n_few_shot), "--few-shot-file", e);
    return o->few_shot_file && !o->n_few_shot ? need(o, FIELDS(&o->few_shot_file), "--few-shot", e)
                                              : 0;
}

static int check_mode(const struct options *o, struct err *e)
{
    int evaluates = o->perplexity || o->choices;
    if (evaluates && check_evaluation(o, e)) return -1;
    if (!o->perplexity && need(o, FIELDS(&o->n_windows), "--perplexity", e)) return -1;
    if (!o->choices &&
        need(o, FIELDS(&o->n_limit, &o->n_few_shot, &o->few_shot_file), "--multiple-choice", e))
        return -1;
    if (!evaluates && need(o, FIELDS(&o->samples), "--perplexity or --multiple-choice", e))
        return -1;
    if (!o->input && need(o, FIELDS(&o->output, &o->check_only, &o->restart, &o->shard, &o->trace),
                          "-i FILE", e))
        return -1;
    if (!o->input && !evaluates &&
        need(o, FIELDS(&o->report, &o->memory, &o->n_pages), "-i FILE or an evaluation", e))
        return -1;
    if (o->input && check_batch(o, e)) return -1;
    if (check_prompt(o, e)) return -1;
    if (!o->chat && need(o, FIELDS(&o->system_prompt), "--chat", e)) return -1;
    if (!o->chat && !o->input && need(o, FIELDS(&o->chat_template_file), "--chat", e)) return -1;
    if (o->prompt_ids &&
        need(o, FIELDS(&o->chat, &o->tokenize, &o->detokenize), "the prompt as text (-p or -f)", e))
        return -1;
    return exclude(o, FIELDS(&o->detokenize), FIELDS(&o->chat, &o->tokenize), e);
}

static int is_utf8(const char *s)
{
    utf8proc_int32_t c;
    for (utf8proc_ssize_t n; *s; s += n)
        if ((n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c)) <= 0) return 0;
    return 1;
}

/* Texts that meet the model's own or go into JSON. A plain prompt may have any bytes. */
static int check_texts(const struct options *o, struct err *e)
{
    for (int i = 0; i < o->n_stop; i++)
        if (!is_utf8(o->stop[i]))
            return err_set(e, "%s: the text is not UTF-8", options_given(o, &o->stop));
    if (o->system_prompt && !is_utf8(o->system_prompt))
        return err_set(e, "%s: the text is not UTF-8", options_given(o, &o->system_prompt));
    if (o->chat && o->prompt && !is_utf8(o->prompt))
        return err_set(e, "%s: the text is not UTF-8, a message (--chat) must be",
                       options_given(o, &o->prompt));
    return 0;
}

static int check_values(const struct options *o, struct err *e)
{
    uint64_t bytes;
    int known = !strcmp(o->cpu, "auto");
    struct tok_ids ids = {0};
    for (int i = 0; cpu_ladder[i]; i++) known |= !strcmp(o->cpu, cpu_ladder[i]->name);
    if (!known) return err_set(e, "--cpu %s: unknown (--version lists what there is)", o->cpu);
    if (o->memory && memory_parse(&bytes, o->memory, e))
        return err_prefix(e, "%s %s", options_given(o, &o->memory), o->memory);
    int rc = o->prompt_ids ? run_parse_ids(o->prompt_ids, &ids, e) : 0;
    if (rc) err_prefix(e, "--prompt-ids");
    else if (o->prompt_ids && !ids.n) rc = err_set(e, "--prompt-ids: no ids, the prompt is empty");
    tok_ids_free(&ids);
    return rc;
}

int usage_check(struct options *o, struct err *e)
{
    if (o->list_devices) return 0;
    if (!o->model) return err_set(e, "no model given (-m FILE; see --help)");
    if (check_mode(o, e) || check_texts(o, e) || check_values(o, e)) return -1;
    if (!o->format) o->format = o->input ? "jsonl" : "text";
    if (!o->input && !strcmp(o->format, "jsonl"))
        return err_set(e, "%s jsonl needs -i FILE: without it text or ids",
                       options_given(o, &o->format));
    if (o->n_stop && !strcmp(o->format, "ids"))
        return err_set(e, "%s needs --format text", options_given(o, &o->stop));
    return 0;
}

/* Texts are taken as they are, which those who know llama.cpp do not expect. */
static void say_escapes(const char *name, const char *text)
{
    static const char letters[] = "nrt";
    const char *p = text;
    while (p && (p = strchr(p, '\\')) && (!p[1] || !strchr(letters, p[1]))) p += p[1] ? 2 : 1;
    if (!p || strchr(text, '\n')) return;
    fprintf(
        stderr,
        "note: %s: \\%c is a backslash and a letter here; a shell makes the character of $'\\%c'\n",
        name, p[1], p[1]);
}

void usage_say(const struct options *o)
{
    args_say(o->note, o->n_notes, stderr);
    if (o->no_escape) return;
    say_escapes(options_given(o, &o->prompt), o->prompt);
    say_escapes(options_given(o, &o->system_prompt), o->system_prompt);
    for (int i = 0; i < o->n_stop; i++) say_escapes(options_given(o, &o->stop), o->stop[i]);
}
