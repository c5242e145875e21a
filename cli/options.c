#include "cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, INT, REAL, SEED, TEXT, LIST, HEADING };

static const struct option_row {
    const char *name; /* long name; of a HEADING its text */
    char letter;      /* short name or 0 */
    enum kind kind;
    size_t offset; /* in struct options */
    double lo, hi; /* INT, REAL */
    const char *arg, *help;
} table[] = {
#define AT(field) offsetof(struct options, field)
    {"Model and prompt", 0, HEADING, 0, 0, 0, 0, 0},
    {"model", 'm', TEXT, AT(model), 0, 0, "FILE", "model file made by opt4gptq-convert"},
    {"prompt", 'p', TEXT, AT(prompt), 0, 0, "TEXT", "prompt"},
    {"file", 'f', TEXT, AT(file), 0, 0, "FILE", "prompt from a file, byte for byte; - is stdin"},
    {"prompt-ids", 0, TEXT, AT(prompt_ids), 0, 0, "1,2,3", "prompt as token ids, exactly these"},
    {"chat", 0, FLAG, AT(chat), 0, 0, 0, "the prompt (of a batch of plain text: each line) is a message: apply the model's chat template"},
    {"system-prompt", 0, TEXT, AT(system_prompt), 0, 0, "TEXT", "with --chat: the system message (also -sys)"},
    {"chat-template-file", 0, TEXT, AT(chat_template_file), 0, 0, "FILE", "with --chat: this Jinja template, not the model's"},
    {"Generation", 0, HEADING, 0, 0, 0, 0, 0},
    {"predict", 'n', INT, AT(n_predict), -1, 1 << 24, "N",
     "tokens to generate (-1: until end of text or context, the default but for batches; 0: only evaluate the prompt)"},
    {"ctx-size", 'c', INT, AT(n_ctx), 0, 1 << 24, "N", "context in tokens (0: the model's)"},
    {"ignore-eos", 0, FLAG, AT(ignore_eos), 0, 0, 0, "an end-of-text token does not stop"},
    {"batch-size", 'b', INT, AT(n_batch), 1, 65536, "N", "tokens computed in one step (default 512, on a GPU 2048)"},
    {"stop", 0, LIST, AT(stop), 0, 0, "TEXT", "stop before this text (may be given several times)"},
    {"Sampling (defaults: the checkpoint's generation_config, else temp 0.8, top-k 40, top-p 0.95, min-p 0.05)", 0, HEADING, 0, 0, 0, 0, 0},
    {"temp", 0, REAL, AT(temperature), 0, 100, "X", "temperature; 0 takes the most likely token"},
    {"top-k", 0, INT, AT(top_k), 0, 1 << 24, "N", "only the N most likely tokens (0: all)"},
    {"top-p", 0, REAL, AT(top_p), 0, 1, "X", "only the most likely tokens that together reach X (1: all)"},
    {"min-p", 0, REAL, AT(min_p), 0, 1, "X", "only tokens at least X times as likely as the likeliest (0: all)"},
    {"repeat-penalty", 0, REAL, AT(repeat_penalty), 0.01, 100, "X", "divides the logits of tokens seen in prompt and text (1: off)"},
    {"presence-penalty", 0, REAL, AT(presence_penalty), -100, 100, "X", "subtracted once from tokens already generated"},
    {"frequency-penalty", 0, REAL, AT(frequency_penalty), -100, 100, "X", "subtracted for every time a token was generated"},
    {"seed", 's', SEED, AT(seed), 0, 0, "N", "random seed (default 0: a run repeats)"},
    {"Output", 0, HEADING, 0, 0, 0, 0, 0},
    {"format", 0, TEXT, AT(format), 0, 0, "text|ids|jsonl",
     "stream text or print ids on one line; batches: jsonl (default), a line of text or ids"},
    {"no-display-prompt", 0, FLAG, AT(no_display_prompt), 0, 0, 0, "do not print the prompt before the answer"},
    {"special", 0, FLAG, AT(special), 0, 0, 0, "print special tokens; with --tokenize add BOS/EOS"},
    {"logits-out", 0, TEXT, AT(logits_out), 0, 0, "FILE", "write the prompt's logits, fp32 [tokens, vocab], as safetensors"},
    {"verbose", 'v', FLAG, AT(verbose), 0, 0, 0, "say more about model and machine"},
    {"Batch: a file of prompts in, a file of answers out (see docs/batch.md)", 0, HEADING, 0, 0, 0, 0, 0},
    {"input", 'i', TEXT, AT(input), 0, 0, "FILE", "OpenAI batch lines, or a prompt a line; plain or gzip; - is stdin"},
    {"output", 'o', TEXT, AT(output), 0, 0, "FILE", "answers; .gz packs them; - is stdout (a pipe cannot be resumed)"},
    {"input-format", 0, TEXT, AT(input_format), 0, 0, "auto|jsonl|text", "auto: jsonl when the first line begins with {"},
    {"order", 0, TEXT, AT(order), 0, 0, "input|done", "order of the answers: the input's, or as they finish"},
    {"check", 0, FLAG, AT(check_only), 0, 0, 0, "read all the input and say what would fail; computes nothing"},
    {"restart", 0, FLAG, AT(restart), 0, 0, 0, "start over instead of continuing what an earlier run left"},
    {"grace", 0, INT, AT(grace), 0, 86400, "S", "seconds in which running requests may end after SIGTERM or Ctrl-C (default 20)"},
    {"parallel", 0, INT, AT(n_seqs), 1, 65536, "N", "also -np: sequences that run at once (default 16, on a GPU 256)"},
    {"kv-pages", 0, INT, AT(n_pages), 1, 1 << 28, "N", "pages of 16 positions in the KV cache, instead of what --mem gives"},
    {"mem", 0, TEXT, AT(memory), 0, 0, "SIZE", "memory for model and cache, as 6G (default: 9/10 of what is free)"},
    {"no-prefix-cache", 0, FLAG, AT(no_prefix_cache), 0, 0, 0, "compute equal beginnings of prompts for each of them"},
    {"shard", 0, TEXT, AT(shard), 0, 0, "I/N", "only every N-th record from the I-th (from 0); auto: by Slurm or MPI rank"},
    {"report", 0, TEXT, AT(report), 0, 0, "FILE",
     "write the run as JSON: throughput, latencies and memory of a batch; the results of an evaluation"},
    {"trace", 0, TEXT, AT(trace), 0, 0, "FILE", "write the steps as Chrome trace events"},
    {"Evaluation", 0, HEADING, 0, 0, 0, 0, 0},
    {"perplexity", 0, TEXT, AT(perplexity), 0, 0, "second-half|contiguous", "of the text of -f (or -p) in windows of -c tokens"},
    {"windows", 0, INT, AT(n_windows), 1, 1 << 30, "N", "only the first N windows"},
    {"multiple-choice", 0, TEXT, AT(choices), 0, 0, "FILE", "accuracy on JSON lines of query, choices, gold"},
    {"limit", 0, INT, AT(n_limit), 1, 1 << 30, "N", "only the first N questions"},
    {"few-shot", 0, INT, AT(n_few_shot), 0, 1000, "N", "N solved questions before each one"},
    {"few-shot-file", 0, TEXT, AT(few_shot_file), 0, 0, "FILE", "where they come from: its first N"},
    {"samples", 0, TEXT, AT(samples), 0, 0, "FILE", "write each question's or window's log-probabilities as JSON lines"},
    {"Machine", 0, HEADING, 0, 0, 0, 0, 0},
    {"backend", 0, TEXT, AT(backend), 0, 0, "auto|cpu|hip", "where to compute; auto takes a GPU that can run the embedded kernels"},
    {"cpu", 0, TEXT, AT(cpu), 0, 0, "auto|ref|RUNG", "instructions of the CPU backend; ref is the double-precision reference"},
    {"threads", 't', INT, AT(threads), 0, 1024, "N", "threads, at most the processors this process may use (0: as many)"},
    {"act", 0, TEXT, AT(act), 0, 0, "auto|f32|f16|i16|int8",
     "activations of 4-bit linears: exact fp32, rounded to fp16 (as GPUs do), integers of 15 bits, of 8; auto: i16, on a GPU f16"},
    {"kv", 0, TEXT, AT(kv), 0, 0, "f16|f32", "storage of keys and values"},
    {"device", 0, INT, AT(device), 0, 1023, "N", "which GPU (default 0)"},
    {"list-devices", 0, FLAG, AT(list_devices), 0, 0, 0, "print the GPUs and which embedded kernels fit them"},
    {"hip-library", 0, TEXT, AT(hip_library), 0, 0, "PATH", "GPU runtime library (default: libamdhip64, libgalaxyhip or libcuda)"},
    {"gpu-timeout", 0, INT, AT(gpu_timeout), 1, 86400, "S",
     "seconds after which a GPU that does not come to an end counts as hung (default 120)"},
    {"variant", 0, TEXT, AT(variant), 0, 0, "auto|NAME", "pins one of the GPU's kernels for linears"},
    {"check-tensors", 0, FLAG, AT(check_tensors), 0, 0, 0, "compare every tensor with its crc32 before use"},
    {"Other", 0, HEADING, 0, 0, 0, 0, 0},
    {"tokenize", 0, FLAG, AT(tokenize), 0, 0, 0, "print the ids of -p or -f"},
    {"detokenize", 0, FLAG, AT(detokenize), 0, 0, 0, "print the text of the ids in -p or -f"},
    {"version", 0, FLAG, AT(version), 0, 0, 0, "version and what this build contains"},
    {"help", 'h', FLAG, AT(help), 0, 0, 0, "this text"},
#undef AT
};

/* Spellings of llama.cpp that getopt would read as a short option with an argument. */
static const struct {
    const char *spelling, *name;
} aliases[] = {{"-sys", "--system-prompt"}, {"-np", "--parallel"}};

enum { N_ROWS = sizeof table / sizeof *table };

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

static int set_number(const struct option_row *r, struct options *o, const char *arg, struct err *e)
{
    char *end;
    errno = 0;
    if (r->kind == SEED) {
        unsigned long long v = strtoull(arg, &end, 10);
        if (errno || end == arg || *end || strchr(arg, '-')) return err_set(e, "--%s: '%s' is not a number from 0 to 2^64-1", r->name, arg);
        *(uint64_t *)((char *)o + r->offset) = v;
        return 0;
    }
    double v = r->kind == INT ? (double)strtoll(arg, &end, 10) : strtod(arg, &end);
    if (errno || end == arg || *end || !isfinite(v))
        return err_set(e, "--%s: '%s' is not %s", r->name, arg, r->kind == INT ? "an integer" : "a number");
    if (v < r->lo || v > r->hi) return err_set(e, "--%s: %s is not in %.10g..%.10g", r->name, arg, r->lo, r->hi);
    if (r->kind == INT) *(int *)((char *)o + r->offset) = (int)v;
    else *(double *)((char *)o + r->offset) = v;
    return 0;
}

static int set_option(const struct option_row *r, struct options *o, const char *arg, struct err *e)
{
    switch (r->kind) {
    case FLAG: *(int *)((char *)o + r->offset) = 1; return 0;
    case TEXT: *(const char **)((char *)o + r->offset) = arg; return 0;
    case LIST:
        if (!*arg) return err_set(e, "--%s: empty text", r->name);
        if (o->n_stop == MAX_STOPS) return err_set(e, "--%s: more than %d times", r->name, MAX_STOPS);
        o->stop[o->n_stop++] = arg;
        return 0;
    default: return set_number(r, o, arg, e);
    }
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    struct option longs[N_ROWS + 1];
    char letters[2 * N_ROWS + 2] = ":"; /* a missing argument is reported as ':' */
    int n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        if (table[i].kind == HEADING) continue;
        longs[n++] = (struct option){table[i].name, table[i].kind != FLAG, NULL, 1000 + i};
        if (table[i].letter) snprintf(letters + strlen(letters), 3, "%c%s", table[i].letter, table[i].kind == FLAG ? "" : ":");
    }
    longs[n] = (struct option){0};
    set_defaults(o);
    opterr = 0;
    optind = 1;
    for (;;) {
        for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
            if (optind < argc && !strcmp(argv[optind], aliases[i].spelling)) argv[optind] = (char *)(uintptr_t)aliases[i].name;
        int at = optind, c = getopt_long(argc, argv, letters, longs, NULL);
        if (c == -1) break;
        if (c == '?') return err_set(e, "unknown option '%s' (see --help)", argv[at]);
        if (c == ':') return err_set(e, "option '%s' needs an argument", argv[optind - 1]);
        for (int i = 0; i < N_ROWS; i++)
            if (table[i].kind != HEADING && (c == 1000 + i || c == table[i].letter)) {
                if (set_option(&table[i], o, optarg, e)) return -1;
                break;
            }
    }
    if (optind < argc) return err_set(e, "unexpected argument '%s' (see --help)", argv[optind]);
    return 0;
}

void options_help(void)
{
    printf("usage: opt4gptq-run -m MODEL -p PROMPT [options]\n       opt4gptq-run -m MODEL -i PROMPTS -o ANSWERS [options]\n");
    for (int i = 0; i < N_ROWS; i++) {
        const struct option_row *r = &table[i];
        if (r->kind == HEADING) {
            printf("\n%s\n", r->name);
            continue;
        }
        char left[64];
        snprintf(left, sizeof left, "%c%c%s --%s %s", r->letter ? '-' : ' ', r->letter ? r->letter : ' ', r->letter ? "," : " ", r->name,
                 r->arg ? r->arg : "");
        printf("  %-34s %s\n", left, r->help);
    }
    printf(
        "\nText goes to stdout, everything else to stderr. Exit: 0 ok, 1 failed, 2 wrong usage, 3 some records failed, 4 stopped early.\n");
}
