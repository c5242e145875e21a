#include "cli/options.h"

#include "cli/llama_names.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INT, REAL, SEED, TEXT, LIST };

static const struct option_row {
    struct args_row row;
    enum kind kind;
    size_t offset;              /* in struct options */
    double lo, hi;              /* INT, REAL */
    const char *const *allowed; /* TEXT: NULL allows all */
} table[] = {
#define AT(field) offsetof(struct options, field)
/* clang-format off */
#define NAMES(...) {__VA_ARGS__}
#define HEADING(text) {.row = {.help = text}}
#define IS_FLAG(names, field, help) {{names, NULL, help}, FLAG, AT(field), 0, 0, NULL}
#define IS_TEXT(names, field, arg, help) {{names, arg, help}, TEXT, AT(field), 0, 0, NULL}
#define IS_LIST(names, field, arg, help) {{names, arg, help}, LIST, AT(field), 0, 0, NULL}
#define IS_SEED(names, field, arg, help) {{names, arg, help}, SEED, AT(field), 0, 0, NULL}
#define IS_INT(names, field, lo, hi, help) {{names, "N", help}, INT, AT(field), lo, hi, NULL}
#define IS_REAL(names, field, lo, hi, help) {{names, "X", help}, REAL, AT(field), lo, hi, NULL}
#define IS_ONE_OF(names, field, arg, help, ...) \
    {{names, arg, help}, TEXT, AT(field), 0, 0, (const char *const[]){__VA_ARGS__, NULL}}
    /* clang-format on */
    HEADING("Model and prompt"),
    IS_TEXT(NAMES("-m", "--model"), model, "FILE", "model file made by opt4gptq-convert"),
    IS_TEXT(NAMES("-p", "--prompt"), prompt, "TEXT", "prompt"),
    IS_TEXT(NAMES("-f", "--file", "--in-file", "-bf", "--binary-file"), file, "FILE",
            "prompt from a file, byte for byte; - is stdin"),
    IS_TEXT(NAMES("--prompt-ids"), prompt_ids, "1,2,3", "prompt as token ids, exactly these"),
    IS_FLAG(NAMES("--chat"), chat,
            "the prompt (of a batch of plain text: each line) is a message: apply the model's chat "
            "template"),
    IS_TEXT(NAMES("-sys", "--system-prompt"), system_prompt, "TEXT",
            "with --chat: the system message"),
    IS_TEXT(NAMES("--chat-template-file"), chat_template_file, "FILE",
            "with --chat: this Jinja template, not the model's"),
    HEADING("Generation"),
    IS_INT(NAMES("-n", "--predict", "--n-predict"), n_predict, -1, 1 << 24,
           "tokens to generate (default -1: until end of text or context; a batch has its own; 0: "
           "only evaluate the prompt)"),
    IS_INT(NAMES("-c", "--ctx-size"), n_ctx, 0, 1 << 24,
           "context in tokens (default 0: the model's)"),
    IS_FLAG(NAMES("--ignore-eos"), ignore_eos, "an end-of-text token does not stop"),
    IS_INT(NAMES("-b", "--batch-size"), n_batch, 1, 65536,
           "tokens computed in one step (default 512, on a GPU 2048)"),
    IS_LIST(NAMES("--stop"), stop, "TEXT", "stop before this text (may be given several times)"),
    HEADING("Sampling (defaults: the checkpoint's generation_config, else those in parentheses)"),
    IS_REAL(NAMES("--temp", "--temperature"), temperature, 0, 100,
            "temperature (0.8); 0 takes the most likely token"),
    IS_INT(NAMES("--top-k"), top_k, 0, 1 << 24, "only the N most likely tokens (40; 0: all)"),
    IS_REAL(NAMES("--top-p"), top_p, 0, 1,
            "only the most likely tokens that together reach X (0.95; 1: all)"),
    IS_REAL(NAMES("--min-p"), min_p, 0, 1,
            "only tokens at least X times as likely as the likeliest (0.05; 0: all)"),
    IS_REAL(NAMES("--repeat-penalty", "--repetition-penalty"), repeat_penalty, 0.01, 100,
            "divides the logits of tokens seen in prompt and text (1, which is off)"),
    IS_REAL(NAMES("--presence-penalty"), presence_penalty, -100, 100,
            "subtracted once from tokens already generated (default 0)"),
    IS_REAL(NAMES("--frequency-penalty"), frequency_penalty, -100, 100,
            "subtracted for every time a token was generated (default 0)"),
    IS_SEED(NAMES("-s", "--seed"), seed, "N", "random seed (default 0: a run repeats)"),
    HEADING("Output"),
    IS_ONE_OF(NAMES("--format"), format, "text|ids|jsonl",
              "stream text (default) or print ids on one line; of batches: jsonl (default), a line "
              "of text or ids",
              "text", "ids", "jsonl"),
    IS_FLAG(NAMES("--no-display-prompt"), no_display_prompt,
            "do not print the prompt before the answer"),
    IS_FLAG(NAMES("-sp", "--special"), special,
            "print special tokens; with --tokenize add BOS/EOS"),
    IS_TEXT(NAMES("--logits-out"), logits_out, "FILE",
            "write the prompt's logits, fp32 [tokens, vocab], as safetensors"),
    IS_FLAG(NAMES("-v", "--verbose", "--log-verbose"), verbose, "say more about model and machine"),
    HEADING("Batch: a file of prompts in, a file of answers out (see docs/batch.md)"),
    IS_TEXT(NAMES("-i", "--input", "--input-file"), input, "FILE",
            "OpenAI batch lines, or a prompt a line; plain or gzip; - is stdin"),
    IS_TEXT(NAMES("-o", "--output", "--output-file"), output, "FILE",
            "answers; .gz packs them; - is stdout (a pipe cannot be resumed)"),
    IS_ONE_OF(NAMES("--input-format"), input_format, "auto|jsonl|text",
              "auto (default): jsonl when the first line begins with {", "auto", "jsonl", "text"),
    IS_ONE_OF(NAMES("--order"), order, "input|done",
              "order of the answers: the input's (default), or as they finish", "input", "done"),
    IS_FLAG(NAMES("--check"), check_only,
            "read all the input and say what would fail; computes nothing"),
    IS_FLAG(NAMES("--restart"), restart,
            "start over instead of continuing what an earlier run left"),
    IS_INT(NAMES("--grace"), grace, 0, 86400,
           "seconds in which running requests may end after SIGTERM or Ctrl-C (default 20)"),
    IS_INT(NAMES("-np", "--parallel"), n_seqs, 1, 65536,
           "sequences that run at once (default 16, on a GPU 256)"),
    IS_INT(NAMES("--kv-pages"), n_pages, 1, 1 << 28,
           "pages of 16 positions in the KV cache, instead of what --mem gives"),
    IS_TEXT(NAMES("--mem"), memory, "SIZE",
            "memory for model and cache, as 6G (default: 9/10 of what is free)"),
    IS_FLAG(NAMES("--no-prefix-cache"), no_prefix_cache,
            "compute equal beginnings of prompts for each of them"),
    IS_TEXT(NAMES("--shard"), shard, "I/N",
            "only every N-th record from the I-th (from 0); auto: by Slurm or MPI rank"),
    IS_TEXT(NAMES("--report"), report, "FILE",
            "write the run as JSON: throughput, latencies and memory of a batch; the results of an "
            "evaluation"),
    IS_TEXT(NAMES("--trace"), trace, "FILE", "write the steps as Chrome trace events"),
    HEADING("Evaluation"),
    IS_ONE_OF(
        NAMES("--perplexity"), perplexity, "MODE",
        "of the text of -f (or -p) in windows of -c tokens; MODE is second-half or contiguous",
        "second-half", "contiguous"),
    IS_INT(NAMES("--windows", "--chunks"), n_windows, 1, 1 << 30,
           "only the first N windows (default: all)"),
    IS_TEXT(NAMES("--multiple-choice"), choices, "FILE",
            "accuracy on JSON lines of query, choices, gold"),
    IS_INT(NAMES("--limit", "--multiple-choice-tasks"), n_limit, 1, 1 << 30,
           "only the first N questions (default: all)"),
    IS_INT(NAMES("--few-shot"), n_few_shot, 0, 1000,
           "N solved questions before each one (default 0)"),
    IS_TEXT(NAMES("--few-shot-file"), few_shot_file, "FILE", "where they come from: its first N"),
    IS_TEXT(NAMES("--samples"), samples, "FILE",
            "write each question's or window's log-probabilities as JSON lines"),
    HEADING("Machine"),
    IS_ONE_OF(NAMES("--backend"), backend, "auto|cpu|hip",
              "where to compute; auto (default) takes a GPU that can run the embedded kernels",
              "auto", "cpu", "hip"),
    IS_TEXT(NAMES("--cpu"), cpu, "NAME",
            "instructions of the CPU backend: auto (default), a rung of --version, or ref, the "
            "double-precision reference"),
    IS_INT(NAMES("-t", "--threads"), threads, 0, 1024,
           "threads, at most the processors this process may use (default 0: as many)"),
    IS_ONE_OF(NAMES("--act"), act, "ACT",
              "activations of 4-bit linears: f32 exact, f16 rounded to fp16 (as GPUs do), i16 "
              "integers of 15 bits, int8 of 8; auto (default): i16, on a GPU f16",
              "auto", "f32", "f16", "i16", "int8"),
    IS_ONE_OF(NAMES("--kv"), kv, "f16|f32", "storage of keys and values (default f16)", "f16",
              "f32"),
    IS_INT(NAMES("--device"), device, 0, 1023, "which GPU (default 0)"),
    IS_FLAG(NAMES("--list-devices"), list_devices,
            "print the GPUs and which embedded kernels fit them"),
    IS_TEXT(NAMES("--hip-library"), hip_library, "PATH",
            "GPU runtime library (default: libamdhip64, libgalaxyhip or libcuda)"),
    IS_INT(NAMES("--gpu-timeout"), gpu_timeout, 1, 86400,
           "seconds after which a GPU that does not come to an end counts as hung (default 120)"),
    IS_TEXT(NAMES("--variant"), variant, "NAME",
            "pins one of the GPU's kernels for linears (default auto)"),
    IS_FLAG(NAMES("--check-tensors"), check_tensors,
            "compare every tensor with its crc32 before use"),
    HEADING("Other"),
    IS_FLAG(NAMES("--tokenize"), tokenize, "print the ids of -p or -f"),
    IS_FLAG(NAMES("--detokenize"), detokenize, "print the text of the ids in -p or -f"),
    IS_FLAG(NAMES("--version"), version, "version and what this build contains"),
    IS_FLAG(NAMES("-h", "--help", "--usage"), help, "this text"),
    IS_FLAG(NAMES("--no-escape"), no_escape, NULL), /* the default */
#undef AT
};

enum { N_ROWS = sizeof table / sizeof *table };
_Static_assert((int)N_ROWS <= (int)MAX_OPTIONS, "struct options has room for fewer options");

static void set_defaults(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->n_predict = OPT_UNSET;
    o->n_batch = o->n_seqs = OPT_UNSET;
    o->temperature = o->top_p = o->min_p = o->repeat_penalty = OPT_UNSET_REAL;
    o->top_k = OPT_UNSET;
    o->input_format = "auto";
    o->order = "input";
    o->grace = 20;
    o->backend = o->cpu = o->act = o->variant = "auto";
    o->kv = "f16";
}

/* NAME is the option as it was given. */
static int set_number(const struct option_row *r, struct options *o, const char *name,
                      const char *arg, struct err *e)
{
    char *end;
    errno = 0;
    if (r->kind == SEED) {
        unsigned long long v = strtoull(arg, &end, 10);
        if (errno || end == arg || *end || strchr(arg, '-'))
            return err_set(e, "%s: '%s' is not a number from 0 to 2^64-1%s", name, arg,
                           strcmp(arg, "-1") ? "" : " (none is random: a run repeats)");
        *(uint64_t *)((char *)o + r->offset) = v;
        return 0;
    }
    double v = r->kind == INT ? (double)strtoll(arg, &end, 10) : strtod(arg, &end);
    if (errno || end == arg || *end || !isfinite(v))
        return err_set(e, "%s: '%s' is not %s", name, arg,
                       r->kind == INT ? "an integer" : "a number");
    if (v < r->lo || v > r->hi)
        return err_set(e, "%s: %s is not in %.10g..%.10g", name, arg, r->lo, r->hi);
    if (r->kind == INT) *(int *)((char *)o + r->offset) = (int)v;
    else *(double *)((char *)o + r->offset) = v;
    return 0;
}

static int set_text(const struct option_row *r, struct options *o, const char *name,
                    const char *arg, struct err *e)
{
    char list[64] = "";
    *(const char **)((char *)o + r->offset) = arg;
    for (int i = 0; r->allowed && r->allowed[i]; i++) {
        size_t n = strlen(list);
        if (!strcmp(arg, r->allowed[i])) return 0;
        snprintf(list + n, sizeof list - n, i ? ", %s" : "%s", r->allowed[i]);
    }
    return r->allowed ? err_set(e, "%s %s: must be one of %s", name, arg, list) : 0;
}

static int set_option(const struct option_row *r, struct options *o, const char *name,
                      const char *arg, struct err *e)
{
    switch (r->kind) {
    case FLAG: *(int *)((char *)o + r->offset) = 1; return 0;
    case TEXT: return set_text(r, o, name, arg, e);
    case LIST:
        if (!*arg) return err_set(e, "%s: empty text", name);
        if (o->n_stop == MAX_STOPS) return err_set(e, "%s: more than %d times", name, MAX_STOPS);
        o->stop[o->n_stop++] = arg;
        return 0;
    default: return set_number(r, o, name, arg, e);
    }
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    struct args a;
    struct args_word w;
    int rc;
    set_defaults(o);
    args_open(&a, table, sizeof *table, N_ROWS, llama_names, argc, argv);
    while ((rc = args_next(&a, &w, e)) > 0) {
        if (w.row < 0) return err_set(e, "unexpected argument '%s' (see --help)", w.value);
        if (set_option(&table[w.row], o, w.name, w.value, e)) return -1;
        o->given[w.row] = w.name;
    }
    memcpy(o->note, a.note, sizeof o->note);
    o->n_notes = a.n_notes;
    return rc;
}

const char *options_given(const struct options *o, const void *field)
{
    for (int i = 0; i < N_ROWS; i++)
        if (table[i].row.names[0] &&
            table[i].offset == (size_t)((const char *)field - (const char *)o))
            return o->given[i];
    return NULL;
}

void options_help(void)
{
    printf("usage: opt4gptq-run -m MODEL -p PROMPT [options]\n"
           "       opt4gptq-run -m MODEL -i PROMPTS -o ANSWERS [options]\n");
    args_help(table, sizeof *table, N_ROWS, stdout);
    printf("\nOptions of llama.cpp that are not here are refused with what to do instead, or\n"
           "accepted with a note where they change nothing.\n"
           "Text goes to stdout, everything else to stderr. Exit: 0 ok, 1 failed, 2 wrong\n"
           "usage, 3 some records failed, 4 stopped early.\n");
}
