#include "cli/usage.h"

#include "engine/backends.h"
#include "engine/devices.h"
#include "engine/placement.h"
#include "cli/modes/batch/shard.h"
#include "cli/modes/batch/table.h"
#include "cli/modes/eval/exam_list.h"
#include "cli/run.h"
#include "engine/sampling.h"
#include "core/base/json.h"
#include "core/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

/* What is for tables alone, where the input is none. */
static int check_no_table(const struct options *o, int is_row, struct err *e)
{
    if (o->prompt_template)
        return err_set(e, "%s needs a table: -i FILE.csv, -i FILE.tsv or --input-format csv or tsv",
                       options_given(o, &o->prompt_template));
    if (is_row)
        return err_set(e,
                       "%s %s needs a table as input: -i FILE.csv, -i FILE.tsv or --input-format",
                       options_given(o, &o->format), o->format);
    if (o->input && !o->format && table_separator_of_name(o->output))
        return err_set(e,
                       "-o %s: a table of answers needs a table as input (--format jsonl writes "
                       "JSON lines to any name)",
                       o->output);
    return 0;
}

/* A table as input, and what is for tables alone. */
static int check_table(struct options *o, struct err *e)
{
    char separator = o->input ? table_separator(o->input_format, o->input) : 0;
    int is_row = o->format && (!strcmp(o->format, "csv") || !strcmp(o->format, "tsv"));
    struct table *t;
    if (!separator) return check_no_table(o, is_row, e);
    if (!o->prompt_template)
        return err_set(e,
                       "-i %s: a table needs --prompt-template TEXT, where {column} is a cell "
                       "(--input-format text takes each line for a prompt)",
                       o->input);
    if (table_open(&t, o->prompt_template, separator, e))
        return err_prefix(e, "%s", options_given(o, &o->prompt_template));
    table_close(t);
    separator = o->format ? 0 : table_separator_of_name(o->output);
    if (separator) o->format = separator == ',' ? "csv" : "tsv";
    if (o->shard && (separator || is_row))
        return err_set(e, "%s needs --format jsonl: shards are put together line by line",
                       options_given(o, &o->shard));
    return 0;
}

/* What a batch needs beside its input. */
static int check_batch(const struct options *o, struct err *e)
{
    struct shard shard;
    if (!o->output && !o->check_only && !o->estimate)
        return err_set(e, "no output given (-o FILE, - for stdout, --check or --estimate)");
    /* a rank that no launcher gave is an error of the batch: the command may be right elsewhere */
    return o->shard && strcmp(o->shard, "auto") ? shard_parse(&shard, o->shard, e) : 0;
}

static int check_prompt(const struct options *o, struct err *e)
{
    const char *with_ids = o->chat         ? options_given(o, &o->chat)
                           : o->tokenize   ? options_given(o, &o->tokenize)
                           : o->detokenize ? options_given(o, &o->detokenize)
                                           : NULL;
    if (o->prompt_ids && with_ids)
        return err_set(e, "%s needs the prompt as text (-p or -f)", with_ids);
    if (o->prompt || o->file || o->prompt_ids || o->input || o->choices || o->eval ||
        o->conversation || o->info)
        return 0;
    return err_set(e, "no prompt given (-p TEXT, -f FILE, --prompt-ids, or -i for a batch)");
}

/* Which GPUs, and how they share the work. */
static int check_devices(const struct options *o, struct err *e)
{
    const int mode = o->given.mode, is_one = mode == RUN_COMPLETE || mode == RUN_CONVERSATION;
    int device[ENGINE_DEVICES], n;
    if (!o->engine.devices) return 0;
    const char *given = options_given(o, &o->engine.devices);
    if (!strcmp(o->engine.backend, "cpu")) return err_set(e, "%s needs --backend hip", given);
    if (devices_read(o->engine.devices, device, &n, e))
        return err_prefix(e, "%s %s", given, o->engine.devices);
    const void *places = o->engine.gpu_layers   ? (const void *)&o->engine.gpu_layers
                         : o->engine.experts_on ? (const void *)&o->engine.experts_on
                         : o->engine.n_cpu_moe  ? (const void *)&o->engine.n_cpu_moe
                         : o->engine.cpu_moe    ? (const void *)&o->engine.cpu_moe
                                                : NULL;
    if (places && n != 1)
        return err_set(e, "%s and %s exclude each other", options_given(o, places), given);
    if (is_one && o->engine.parallel_mode && !strcmp(o->engine.parallel_mode, "data"))
        return err_set(e,
                       "%s data is for batches (-i) and evaluations: a GPU would compute the one "
                       "answer, and the others nothing",
                       options_given(o, &o->engine.parallel_mode));
    return 0;
}

/* --chat-template-kwargs: an object, for chats. */
static int check_kwargs(const struct options *o, struct err *e)
{
    const char *name = options_given(o, &o->template_kwargs);
    struct err why = {0};
    if (!o->chat && !o->conversation && !o->input) return err_set(e, "%s needs --chat", name);
    json_t *v = json_read(o->template_kwargs, strlen(o->template_kwargs), JSON_REJECT_DUPLICATES,
                          NULL, &why);
    int is_object = json_is_object(v);
    json_decref(v);
    if (is_object) return 0;
    if (err_is_memory(&why)) return err_memory(e);
    return err_set(e, "%s %.80s: is no JSON object%s%.100s", name, o->template_kwargs,
                   why.msg[0] ? ": " : "", why.msg);
}

/* What the columns of the table do not say about options that need one another. */
static int check_relations(const struct options *o, struct err *e)
{
    if (o->eval && !o->eval_data)
        return err_set(e, "%s needs --eval-data DIR", options_given(o, &o->eval));
    if (o->n_few_shot && !o->few_shot_file && !o->eval)
        return err_set(e, "%s needs --few-shot-file", options_given(o, &o->n_few_shot));
    if (o->few_shot_file && !o->n_few_shot)
        return err_set(e, "%s needs --few-shot", options_given(o, &o->few_shot_file));
    if (placement_check(&o->engine, e)) return -1;
    if (check_devices(o, e)) return -1;
    if (o->engine.numa && !strcmp(o->engine.backend, "hip"))
        return err_set(e, "%s needs --backend cpu", options_given(o, &o->engine.numa));
    if (o->conversation && o->format && strcmp(o->format, "text"))
        return err_set(e, "%s %s: a conversation is text", options_given(o, &o->format), o->format);
    if (o->conversation && o->file && !strcmp(o->file, "-"))
        return err_set(e, "%s -: stdin has the messages of a conversation",
                       options_given(o, &o->file));
    if (o->engine.prefix_dir && o->engine.no_prefix_cache)
        return err_set(e, "%s and %s exclude each other", options_given(o, &o->engine.prefix_dir),
                       options_given(o, &o->engine.no_prefix_cache));
    if (o->engine.prefix_dir && !*o->engine.prefix_dir)
        return err_set(e, "%s: no directory is given", options_given(o, &o->engine.prefix_dir));
    if (o->chat_template_file && !o->chat && !o->conversation && !o->input)
        return err_set(e, "%s needs --chat", options_given(o, &o->chat_template_file));
    if (o->template_kwargs && check_kwargs(o, e)) return -1;
    if (o->perplexity && !strcmp(o->perplexity, "documents") && !o->file)
        return err_set(e, "%s documents needs -f FILE", options_given(o, &o->perplexity));
    if (o->engine.same_bits && (!strcmp(o->engine.act, "f32") || !strcmp(o->engine.act, "f16")))
        return err_set(
            e, "--same-bits: --act %s has sums of its own on every backend: i16, int8 or int4",
            o->engine.act);
    if (o->engine.same_bits && !strcmp(o->engine.act, act_formats[ACT_INT8_TOKEN].name))
        return err_set(e, "--same-bits: --act %s is for CPUs alone: i16, int8 or int4",
                       o->engine.act);
    if (o->engine.same_bits && !strcmp(o->engine.cpu, "ref"))
        return err_set(e, "--same-bits: --cpu ref adds in double precision, as nothing else does");
    if (o->engine.query_halves == 1 && !strcmp(o->engine.backend, "cpu"))
        return err_set(e, "--query-halves 1 needs --backend hip");
    if (o->engine.query_halves == 1 &&
        (o->engine.same_bits || (strcmp(o->engine.act, "auto") && strcmp(o->engine.act, "f16"))))
        return err_set(e, "--query-halves 1 needs --act f16%s",
                       o->engine.same_bits ? ", which --same-bits does not have" : "");
    const void *spelling = o->schema_order    ? (const void *)&o->schema_order
                           : o->any_order     ? (const void *)&o->any_order
                           : o->compact_json  ? (const void *)&o->compact_json
                           : o->json_space    ? (const void *)&o->json_space
                           : o->leading_space ? (const void *)&o->leading_space
                                              : NULL;
    if (o->any_order && o->schema_order)
        return err_set(e, "%s: beside %s", options_given(o, &o->any_order),
                       options_given(o, &o->schema_order));
    if (o->compact_json && o->json_space && strcmp(o->json_space, "none"))
        return err_set(e, "%s %s: beside %s", options_given(o, &o->json_space), o->json_space,
                       options_given(o, &o->compact_json));
    if (spelling && !o->input && !o->json && !o->json_schema && !o->json_schema_file)
        return err_set(e, "%s needs --json, --json-schema or --json-schema-file",
                       options_given(o, spelling));
    if (o->input && check_batch(o, e)) return -1;
    return check_prompt(o, e);
}

static int is_utf8(const char *s)
{
    utf8proc_int32_t c;
    for (utf8proc_ssize_t n; *s; s += n)
        if ((n = utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &c)) <= 0) return 0;
    return 1;
}

/* Texts that are compared with the model's or written as JSON must be UTF-8; a plain prompt may
 * have any bytes. */
static int check_texts(const struct options *o, struct err *e)
{
    const struct args_strings *const lists[] = {&o->stop, &o->choice};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->n; i++)
            if (!is_utf8(lists[k]->v[i]))
                return err_set(e, "%s: the text is not UTF-8", options_given(o, lists[k]));
    if (o->prompt_template && !is_utf8(o->prompt_template))
        return err_set(e, "%s: the text is not UTF-8", options_given(o, &o->prompt_template));
    if (o->system_prompt && !is_utf8(o->system_prompt))
        return err_set(e, "%s: the text is not UTF-8", options_given(o, &o->system_prompt));
    if ((o->chat || o->conversation) && o->prompt && !is_utf8(o->prompt))
        return err_set(e, "%s: the text is not UTF-8, a message (--chat) must be",
                       options_given(o, &o->prompt));
    return 0;
}

/* Orders of samplers and biases, which are read again when the vocabulary is known. */
static int check_sampling(const struct options *o, struct err *e)
{
    struct sampler_params p = {0};
    struct sampler_bias *bias;
    int n;
    if (o->sampling.mirostat == 1)
        return err_set(e, "%s 1 is not here, 2 (Mirostat 2) is",
                       options_given(o, &o->sampling.mirostat));
    if (o->sampling.samplers && sampling_read_names(&p, o->sampling.samplers, e))
        return err_prefix(e, "%s", options_given(o, &o->sampling.samplers));
    if (o->sampling.sampler_seq && sampling_read_letters(&p, o->sampling.sampler_seq, e))
        return err_prefix(e, "%s", options_given(o, &o->sampling.sampler_seq));
    if (sampling_read_bias(&o->sampling.logit_bias, INT32_MAX, &bias, &n, e)) return -1;
    free(bias);
    return 0;
}

/* -e, in the memory of the command line: escapes are longer than what they stand for. */
static int unescape(const struct options *o, struct err *e)
{
    const char *const *lists[] = {&o->prompt, &o->system_prompt, &o->prompt_template, o->stop.v,
                                  o->sampling.dry_breakers.v};
    const int n[] = {o->prompt != NULL, o->system_prompt != NULL, o->prompt_template != NULL,
                     o->stop.n, o->sampling.dry_breakers.n};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < n[i]; k++)
            if (run_unescape((char *)(uintptr_t)lists[i][k]))
                return err_set(e, "%s: a text cannot hold \\x00", options_given(o, &o->escape));
    return 0;
}

static int check_tasks(const char *names, struct err *e)
{
    struct exam_list list;
    if (exam_list_open(&list, names, e)) return -1;
    exam_list_close(&list);
    return 0;
}

static int check_values(const struct options *o, struct err *e)
{
    uint64_t bytes;
    struct tok_ids ids = {0};
    for (const struct backend_entry *b = backend_entries; b->ops; b++) {
        const char *variant = options_text(o, b->variant_option);
        if (b->knows_variant && !b->knows_variant(variant))
            return err_set(e, "%s %s: unknown (--version lists what there is)", b->variant_option,
                           variant);
    }
    if (o->eval && check_tasks(o->eval, e)) return -1;
    if (o->engine.memory && memory_parse(&bytes, o->engine.memory, e))
        return err_prefix(e, "%s %s", options_given(o, &o->engine.memory), o->engine.memory);
    if (o->engine.prefix_size && memory_parse(&bytes, o->engine.prefix_size, e))
        return err_prefix(e, "%s %s", options_given(o, &o->engine.prefix_size),
                          o->engine.prefix_size);
    int rc = o->prompt_ids ? run_parse_ids(o->prompt_ids, &ids, e) : 0;
    if (rc) err_prefix(e, "--prompt-ids");
    else if (o->prompt_ids && !ids.n) rc = err_set(e, "--prompt-ids: no ids, the prompt is empty");
    tok_ids_free(&ids);
    return rc;
}

int usage_check(struct options *o, struct err *e)
{
    if (o->given.mode == RUN_DEVICES) return 0;
    if (o->given.mode == RUN_COMPLETE && o->chat && !o->prompt && !o->file && !o->prompt_ids &&
        isatty(0)) {
        o->given.mode = RUN_CONVERSATION;
        o->conversation = 1;
    }
    if (!o->model) return err_set(e, "no model given (-m FILE; see --help)");
    if (args_check(&run_program, &o->given, e) || check_relations(o, e)) return -1;
    if (o->escape && unescape(o, e)) return -1;
    if (check_table(o, e)) return -1;
    if (check_texts(o, e) || check_sampling(o, e) || check_values(o, e)) return -1;
    if (!o->format) o->format = o->input ? "jsonl" : "text";
    if (!o->input && o->logprobs == OPT_UNSET && !strcmp(o->format, "jsonl"))
        return err_set(e, "%s jsonl needs -i FILE or --logprobs: without them text or ids",
                       options_given(o, &o->format));
    if (o->logprobs >= 0 && !strcmp(o->format, "ids"))
        return err_set(e, "%s needs --format text or jsonl", options_given(o, &o->logprobs));
    if (o->stop.n && !strcmp(o->format, "ids"))
        return err_set(e, "%s needs --format text", options_given(o, &o->stop));
    return 0;
}

/* Escapes in texts are not interpreted, as llama.cpp does: a note says so. */
static void say_escapes(const char *name, const char *text)
{
    static const char letters[] = "nrt";
    const char *p = text;
    while (p && (p = strchr(p, '\\')) && (!p[1] || !strchr(letters, p[1]))) p += p[1] ? 2 : 1;
    if (!p || strchr(text, '\n')) return;
    fprintf(stderr, "note: %s: \\%c is a backslash and a letter here; -e makes it the character\n",
            name, p[1]);
}

/* Options of batches that have nothing to do elsewhere. */
static void say_idle(const struct options *o)
{
    static const struct {
        const char *names;
        int evaluation; /* evaluations have them, too */
    } rows[] = {{"-np --no-prefix-cache", 1}, {"--order --grace --input-format", 0}};
    const int mode = o->given.mode,
              evaluation = mode == RUN_PERPLEXITY || mode == RUN_CHOICES || mode == RUN_TASKS;
    if (mode == RUN_BATCH || mode == RUN_DEVICES || mode == RUN_INFO) return;
    for (int i = 0; i < 2; i++) {
        if (evaluation && rows[i].evaluation) continue;
        for (const char *at = rows[i].names; *at; at += strspn(at, " ")) {
            char name[64];
            size_t n = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)n, at);
            at += n;
            const char *given = args_any_given(&run_program, &o->given, name);
            if (given)
                fprintf(stderr, "note: %s: changes nothing here, it is for a batch (-i FILE)%s\n",
                        given, rows[i].evaluation ? " or an evaluation" : "");
        }
    }
}

void usage_say(const struct options *o)
{
    args_say(&o->given);
    say_idle(o);
    if (o->escape || o->no_escape) return;
    say_escapes(options_given(o, &o->prompt), o->prompt);
    say_escapes(options_given(o, &o->system_prompt), o->system_prompt);
    say_escapes(options_given(o, &o->prompt_template), o->prompt_template);
    for (int i = 0; i < o->stop.n; i++) say_escapes(options_given(o, &o->stop), o->stop.v[i]);
}
