#include "cli/options.h"

#include "cli/llama_names.h"
#include "cli/modes/batch/shard.h"
#include "cli/vllm_names.h"
#include "engine/backends.h"
#include "engine/engine.h"
#include "core/base/args_table.h"

#include <stdio.h>
#include <string.h>

/* Sets of modes, and the group of what a prompt is taken from. */
#define EVALUATION (MODE(RUN_PERPLEXITY) | MODE(RUN_CHOICES) | MODE(RUN_TASKS))
#define PROMPT_OF_TALK MODE(RUN_CONVERSATION)
#define PROMPT_AS_IDS (MODE(RUN_COMPLETE) | MODE(RUN_TOKENIZE) | MODE(RUN_DETOKENIZE))
#define PROMPT_AS_TEXT (PROMPT_AS_IDS | MODE(RUN_PERPLEXITY))
#define ANSWERS (MODE(RUN_COMPLETE) | MODE(RUN_BATCH) | MODE(RUN_CONVERSATION))
/* Names of vLLM's; each is of a row of core/grammar/call_syntax.c. */
#define CALL_SYNTAX_NAMES                                                                          \
    "hermes", "llama3_json", "mistral", "qwen3_coder", "qwen3_xml", "deepseek_v3", "deepseek_v31", \
        "glm45", "glm47", "granite", "seed_oss", "minimax_m2", "kimi_k2", "internlm",              \
        "hunyuan_a13b", "jamba", "phi4_mini_json", "openai", "pythonic", "json"
#define REASONING_NAMES                                                                            \
    "think", "deepseek_r1", "qwen3", "glm45", "deepseek_v3", "granite", "mistral", "seed_oss",     \
        "openai_gptoss", "gemma4", "minimax_m2", "kimi_k2"
/* What completion offers for --cpu. */
#if defined(__x86_64__)
#define CPU_NAMES "scalar", "avx2", "avx512", "vnni", "amx"
#elif defined(__aarch64__)
#define CPU_NAMES "scalar", "neon", "dotprod", "i8mm"
#else
#define CPU_NAMES "scalar"
#endif
enum { NO_GROUP, GPUS, PROMPT, SYSTEM, ESCAPES, ORDER_OF_SAMPLERS, CONSTRAINT, NOT_RUN };

#define ARGS_STRUCT struct options
static const struct args_row table[] = {
    {HEADING("Model and prompt")},
    {NAMES("-m", "--model"), READS(model, "FILE"), DECIDES("model (crc32 of its header)"),
     .help = "model file made by opt4gptq-convert"},
    {NAMES("-p", "--prompt"), TEXT(prompt, "TEXT"), .help = "prompt; with -cnv the first message",
     .modes = PROMPT_AS_TEXT | PROMPT_OF_TALK, .group = PROMPT},
    {NAMES("-f", "--file", "--in-file", "-bf", "--binary-file"), READS(file, "FILE"),
     .help = "prompt from a file, byte for byte; - is stdin; with -cnv the first message",
     .modes = PROMPT_AS_TEXT | PROMPT_OF_TALK, .group = PROMPT},
    {NAMES("--prompt-ids"), TEXT(prompt_ids, "1,2,3"), .help = "prompt as token ids, exactly these",
     .modes = PROMPT_AS_IDS, .group = PROMPT},
    {NAMES("-e", "--escape"), FLAG(escape), DECIDES_NOTHING, .group = ESCAPES,
     .help = "\\n, \\t, \\r, \\', \\\", \\\\ and \\xHH in -p, -sys, --prompt-template, --stop and "
             "--dry-sequence-breaker stand for the characters"},
    {NAMES("--chat"), FLAG(chat), DECIDES("--chat"),
     .help = "the prompt (of a batch of plain text: each line) is a message: apply the model's "
             "chat template",
     .modes = MODE(RUN_COMPLETE) | MODE(RUN_BATCH) | MODE(RUN_TOKENIZE) | PROMPT_OF_TALK},
    {NAMES("-sys", "--system-prompt"), TEXT(system_prompt, "TEXT"), DECIDES("--system-prompt"),
     .help = "with --chat or -cnv: the system message", .needs = "--chat -cnv", .group = SYSTEM},
    {NAMES("-sysf", "--system-prompt-file"), READS(system_prompt_file, "FILE"),
     DECIDES("--system-prompt"),
     .help = "the system message from a file, without the newline at its end",
     .needs = "--chat -cnv", .group = SYSTEM},
    {NAMES("--chat-template-file"), READS(chat_template_file, "FILE"),
     DECIDES("chat template (crc32)"),
     .help = "with --chat or -cnv: this Jinja template, not the model's"},
    {NAMES("--chat-template-kwargs", "--default-chat-template-kwargs"),
     TEXT(template_kwargs, "JSON"), DECIDES("--chat-template-kwargs"),
     .help = "with --chat or -cnv, of a batch where a record says nothing else: variables of the "
             "chat template, as {\"enable_thinking\": false} or {\"reasoning_effort\": \"low\"}"},
    {NAMES("--reasoning"), TEXT(reasoning, "keep|hide|only"), VALUES("keep", "hide", "only"),
     .help = "with --chat or -cnv: reasoning (<think> and the like) is printed, dim on a "
             "terminal (default), is left out, or is all that is printed",
     .modes = MODE(RUN_COMPLETE) | MODE(RUN_CONVERSATION), .needs = "--chat -cnv"},
    {NAMES("-cnv", "--conversation"), FLAG(conversation),
     .help = "converse: messages from the terminal, or a line each from stdin; /help lists its "
             "commands. --chat without a prompt does so on a terminal",
     .chooses = RUN_CONVERSATION},
    {NAMES("-mli", "--multiline-input"), FLAG(multiline),
     .help = "with -cnv: a message goes on until a line that ends with \\",
     .modes = PROMPT_OF_TALK},
    {NAMES("-st", "--single-turn"), FLAG(single_turn),
     .help = "with -cnv: one answer, then the end", .modes = PROMPT_OF_TALK},
    {HEADING("Generation")},
    {NAMES("-n", "--predict", "--n-predict"), INT(n_predict, -1, 1 << 24), DECIDES("-n"),
     .help = "tokens to generate (default -1: until end of text or context; a batch has its own; "
             "0: only evaluate the prompt)"},
    {NAMES("-c", "--ctx-size"), INT(engine.n_ctx, 0, 1 << 24), DECIDES("context (-c)"),
     .help = "context in tokens (default 0: the model's)"},
    {NAMES("--ignore-eos"), FLAG(sampling.ignore_eos), DECIDES("--ignore-eos"),
     .help = "an end-of-text token does not stop"},
    {NAMES("-b", "--batch-size"), INT(engine.n_batch, 1, 65536), DECIDES_NOTHING,
     .help = "tokens computed in one step (default 512, on a GPU 2048)"},
    {NAMES("--stop"), STRINGS(stop, "TEXT"), DECIDES("--stop"),
     .help = "stop before this text (may be given several times)"},
    {HEADING("Constrained answers (of a batch: where a record has no constraint of its own)")},
    {NAMES("--json"), FLAG(json), DECIDES("constraint"), .help = "an answer is a JSON object",
     .modes = ANSWERS, .group = CONSTRAINT},
    {NAMES("-j", "--json-schema"), TEXT(json_schema, "TEXT"), DECIDES("constraint (crc32)"),
     .help = "an answer is a JSON document that this schema allows", .modes = ANSWERS,
     .group = CONSTRAINT},
    {NAMES("-jf", "--json-schema-file"), READS(json_schema_file, "FILE"),
     DECIDES("constraint (crc32)"), .help = "the same with a schema from a file", .modes = ANSWERS,
     .group = CONSTRAINT},
    {NAMES("--regex"), TEXT(regex, "TEXT"), DECIDES("constraint (crc32)"),
     .help = "an answer matches this regular expression from begin to end", .modes = ANSWERS,
     .group = CONSTRAINT},
    {NAMES("--choice"), STRINGS(choice, "TEXT"), DECIDES("constraint (crc32)"),
     .help = "an answer is one of these texts (given several times)", .modes = ANSWERS,
     .group = CONSTRAINT},
    {NAMES("--grammar"), TEXT(grammar, "TEXT"), DECIDES("constraint (crc32)"),
     .help = "an answer is what rule root of this GBNF grammar gives", .modes = ANSWERS,
     .group = CONSTRAINT},
    {NAMES("--grammar-file"), READS(grammar_file, "FILE"), DECIDES("constraint (crc32)"),
     .help = "the same with a grammar from a file", .modes = ANSWERS, .group = CONSTRAINT},
    {NAMES("--schema-order"), FLAG(schema_order), DECIDES("--schema-order"),
     .help = "members of objects only in the order of the schema: refused where it is not served",
     .modes = ANSWERS},
    {NAMES("--any-order"), FLAG(any_order), DECIDES("--any-order"),
     .help = "members of objects in any order (without: in the order of the schema)",
     .modes = ANSWERS},
    {NAMES("--json-space"), TEXT(json_space, "KIND"), DECIDES("--json-space"),
     VALUES("one", "none", "any"),
     .help = "white space of JSON between its parts: one (default) space behind each comma and "
             "colon, none, or any that writers of JSON use",
     .modes = ANSWERS},
    {NAMES("--leading-space"), FLAG(leading_space), DECIDES("--leading-space"),
     .help = "a JSON answer to a plain prompt (no chat) may begin with a space", .modes = ANSWERS},
    {NAMES("--compact-json"), FLAG(compact_json), DECIDES("--json-space"),
     .help = "the same as --json-space none", .modes = ANSWERS},
    {HEADING("Sampling (defaults: the checkpoint's generation_config, else those in parentheses)")},
    {NAMES("--temp", "--temperature"), REAL(sampling.temperature, 0, 100), DECIDES("temperature"),
     .help = "temperature (0.8); 0 takes the most likely token"},
    {NAMES("--top-k"), INT(sampling.top_k, 0, 1 << 24), DECIDES("top-k"),
     .help = "only the N most likely tokens (40; 0: all)"},
    {NAMES("--top-p"), REAL(sampling.top_p, 0, 1), DECIDES("top-p"),
     .help = "only the most likely tokens that together reach X (0.95; 1: all)"},
    {NAMES("--min-p"), REAL(sampling.min_p, 0, 1), DECIDES("min-p"),
     .help = "only tokens at least X times as likely as the likeliest (0.05; 0: all)"},
    {NAMES("--repeat-penalty", "--repetition-penalty"), REAL(sampling.repeat_penalty, 0.01, 100),
     DECIDES("repeat-penalty"),
     .help = "divides the logits of tokens seen in prompt and text (1, which is off)"},
    {NAMES("--presence-penalty"), REAL(sampling.presence_penalty, -100, 100),
     DECIDES("presence-penalty"),
     .help = "subtracted once from tokens already generated (default 0)"},
    {NAMES("--frequency-penalty"), REAL(sampling.frequency_penalty, -100, 100),
     DECIDES("frequency-penalty"),
     .help = "subtracted for every time a token was generated (default 0)"},
    {NAMES("--repeat-last-n"), INT(sampling.repeat_last_n, -1, 1 << 24), DECIDES("repeat-last-n"),
     .help = "these penalties look at the last N tokens (default -1: all; 0: off)"},
    {NAMES("--typical", "--typical-p"), REAL(sampling.typical_p, 0, 1), DECIDES("typical"),
     .help = "locally typical tokens with this much probability (default 1: all)"},
    {NAMES("--top-nsigma", "--top-n-sigma"), REAL(sampling.top_n_sigma, -1, 1000),
     DECIDES("top-nsigma"),
     .help = "only logits within X standard deviations of the largest (default -1: off)"},
    {NAMES("--xtc-probability"), REAL(sampling.xtc_probability, 0, 1), DECIDES("xtc-probability"),
     .help = "how often XTC drops all but the last of the tokens that reach its threshold "
             "(default 0: never)"},
    {NAMES("--xtc-threshold"), REAL(sampling.xtc_threshold, 0, 1), DECIDES("xtc-threshold"),
     .help = "probability at which a token counts for XTC (default 0.1)"},
    {NAMES("--dry-multiplier"), REAL(sampling.dry_multiplier, 0, 1000), DECIDES("dry-multiplier"),
     .help = "DRY: what a token loses that would repeat --dry-allowed-length tokens (default 0: "
             "off)"},
    {NAMES("--dry-base"), REAL(sampling.dry_base, 1, 1000), DECIDES("dry-base"),
     .help = "times as much for each token more (default 1.75)"},
    {NAMES("--dry-allowed-length"), INT(sampling.dry_allowed_length, 1, 1 << 24),
     DECIDES("dry-allowed-length"),
     .help = "tokens of a repetition that begins to count (default 2)"},
    {NAMES("--dry-penalty-last-n"), INT(sampling.dry_last_n, -1, 1 << 24),
     DECIDES("dry-penalty-last-n"),
     .help = "DRY looks at the last N tokens (default -1: all; 0: off)"},
    {NAMES("--dry-sequence-breaker"), STRINGS(sampling.dry_breakers, "TEXT"),
     DECIDES("--dry-sequence-breaker"),
     .help = "no repetition reaches over TEXT (default newline, :, \" and *; may be given several "
             "times; none: there is none)"},
    {NAMES("--mirostat"), INT(sampling.mirostat, 0, 2), DECIDES("mirostat"),
     .help = "2: Mirostat 2 instead of all truncation (default 0)"},
    {NAMES("--mirostat-ent", "--mirostat-tau"), REAL(sampling.mirostat_tau, 0, 100),
     DECIDES("mirostat-ent"), .help = "surprise in bits that Mirostat keeps to (default 5)"},
    {NAMES("--mirostat-lr", "--mirostat-eta"), REAL(sampling.mirostat_eta, 0, 100),
     DECIDES("mirostat-lr"), .help = "how fast it does (default 0.1)"},
    {NAMES("--samplers"), TEXT(sampling.samplers, "A;B;.."), DECIDES("--samplers"),
     OFFERS("penalties", "dry", "temperature", "top_n_sigma", "min_p", "top_k", "typ_p", "top_p",
            "xtc"),
     .group = ORDER_OF_SAMPLERS,
     .help = "only these steps, in this order (default "
             "penalties; dry; temperature; top_n_sigma; min_p; top_k; typ_p; top_p; xtc)"},
    {NAMES("--sampler-seq", "--sampling-seq"), TEXT(sampling.sampler_seq, "LETTERS"),
     DECIDES("--sampler-seq"), .group = ORDER_OF_SAMPLERS,
     .help = "the same by letters (default edtsmkypx)"},
    {NAMES("-l", "--logit-bias"), STRINGS(sampling.logit_bias, "ID+X"), DECIDES("--logit-bias"),
     .help = "adds X to the logit of a token: 15043+1, 15043-1, 15043-inf; may be given several "
             "times"},
    {NAMES("--min-tokens"), INT(sampling.min_tokens, 0, 1 << 24), DECIDES("--min-tokens"),
     .help = "no end of text before so many tokens (default 0)"},
    {NAMES("-s", "--seed"), SEED(sampling.seed), DECIDES("--seed"),
     .help = "random seed (default 0: a run repeats; -1: one that is drawn and printed)"},
    {HEADING("Output")},
    {NAMES("--format"), TEXT(format, "text|ids|jsonl|csv|tsv"), DECIDES("--format"),
     VALUES("text", "ids", "jsonl", "csv", "tsv"),
     .help = "stream text (default) or print ids on one line; of batches: jsonl (default), a line "
             "of text or ids; of a table as input also csv, tsv: its rows with their answers "
             "(default where -o ends with .csv or .tsv)"},
    {NAMES("--no-display-prompt"), FLAG(no_display_prompt), DECIDES_NOTHING,
     .help = "do not print the prompt before the answer"},
    {NAMES("-sp", "--special"), FLAG(special), DECIDES("--special"),
     .help = "print special tokens; with --tokenize add BOS/EOS"},
    {NAMES("--logits-out"), WRITES(logits_out, "FILE"), .beside = ".part",
     .help = "write logits, fp32 [tokens, vocab], as safetensors", .modes = MODE(RUN_COMPLETE)},
    {NAMES("--logits-of"), TEXT(logits_of, "prompt|generated|all"),
     VALUES("prompt", "generated", "all"),
     .help =
         "those after each token of the prompt (default), those from which each generated token "
         "was chosen, or both",
     .modes = MODE(RUN_COMPLETE), .needs = "--logits-out"},
    {NAMES("--logprobs"), INT(logprobs, 0, 20),
     .help = "instead of the text print each token of prompt and answer with its log-probability "
             "and the N likeliest; --format jsonl: as JSON lines",
     .modes = MODE(RUN_COMPLETE)},
    {NAMES("-v", "--verbose", "--log-verbose"), FLAG(verbose), DECIDES_NOTHING,
     .help = "say more about model and machine"},
    {HEADING("Batch: a file of prompts in, a file of answers out (see docs/batch.md)")},
    {NAMES("-i", "--input", "--input-file"), READS(input, "FILE"), DECIDES("input (crc32)"),
     .help = "OpenAI batch lines, a prompt a line, or a table (.csv, .tsv) with "
             "--prompt-template; plain or gzip; - is stdin",
     .chooses = RUN_BATCH},
    {NAMES("-o", "--output", "--output-file"), WRITES(output, "FILE"), DECIDES_NOTHING,
     .beside = ".journal .journal.tmp .part",
     .help = "answers; .gz packs them; - is stdout (a pipe cannot be resumed)",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--input-format"), TEXT(input_format, "auto|jsonl|text|csv|tsv"),
     DECIDES("--input-format"), VALUES("auto", "jsonl", "text", "csv", "tsv"),
     .help = "auto (default): csv or tsv by the name's ending, jsonl when the first line begins "
             "with {"},
    {NAMES("--prompt-template"), TEXT(prompt_template, "TEXT"), DECIDES("--prompt-template"),
     .help = "the prompt of a table's row: {column} is a cell, {{ and }} are braces",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--tool-call-parser"), TEXT(tool_call_parser, "NAME"), DECIDES("--tool-call-parser"),
     VALUES(CALL_SYNTAX_NAMES),
     .help = "how the model writes calls of functions (default: what its chat template shows)",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--reasoning-parser"), TEXT(reasoning_parser, "NAME"), DECIDES("--reasoning-parser"),
     VALUES(REASONING_NAMES),
     .help = "of chats, reasoning (<think> and the like) goes into reasoning_content; "
             "every name does the same",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--trust-request-chat-template"), FLAG(trust_request_template),
     DECIDES("--trust-request-chat-template"),
     .help = "records may have a chat_template of their own", .modes = MODE(RUN_BATCH)},
    {NAMES("--order"), TEXT(order, "input|done"), DECIDES("--order"), VALUES("input", "done"),
     .help = "order of the answers: the input's (default), or as they finish"},
    {NAMES("--check"), FLAG(check_only), DECIDES_NOTHING,
     .help = "read all the input and say what would fail; computes nothing",
     .modes = MODE(RUN_BATCH), .group = NOT_RUN},
    {NAMES("--estimate"), FLAG(estimate), DECIDES_NOTHING,
     .help = "read all the input and say how many tokens, how much memory and, by timing some "
             "steps, how long it takes; --report FILE: as JSON",
     .modes = MODE(RUN_BATCH), .group = NOT_RUN},
    {NAMES("--restart"), FLAG(restart), DECIDES_NOTHING,
     .help = "start over instead of continuing what an earlier run left", .modes = MODE(RUN_BATCH)},
    {NAMES("--grace"), INT(grace, 0, 86400), DECIDES_NOTHING,
     .help = "seconds in which running requests may end after SIGTERM or Ctrl-C (default 20)"},
    {NAMES("-np", "--parallel"), INT(engine.n_seqs, 1, 65536), DECIDES_NOTHING,
     .help = "sequences that run at once (default 16, on a GPU 256, or 512 where "
             "its memory holds them)"},
    {NAMES("--kv-pages"), INT(engine.n_pages, 1, 1 << 28), DECIDES_NOTHING,
     .help = "pages of 16 positions in the KV cache, instead of what --mem gives",
     .modes = MODE(RUN_BATCH) | EVALUATION},
    {NAMES("--mem"), TEXT(engine.memory, "SIZE"), DECIDES_NOTHING,
     .help = "memory for model and cache, as 6G (default: 9/10 of what is free)",
     .modes = MODE(RUN_BATCH) | EVALUATION},
    {NAMES("--no-prefix-cache"), FLAG(engine.no_prefix_cache), DECIDES_NOTHING,
     .help = "compute equal beginnings of prompts for each of them"},
    {NAMES("--prefix-cache-dir"), TEXT(engine.prefix_dir, "DIR"), DECIDES_NOTHING,
     .help = "keep what was computed of prompts in files of DIR, for later runs that begin alike",
     .modes = ANSWERS | EVALUATION},
    {NAMES("--prefix-cache-size"), TEXT(engine.prefix_size, "SIZE"), DECIDES_NOTHING,
     .help = "most bytes of these files, as 800M (default 8G); the least recently used go first",
     .modes = ANSWERS | EVALUATION, .needs = "--prefix-cache-dir"},
    {NAMES("--speculate"), TEXT(engine.speculate, "KIND"), VALUES("auto", "off", "prompt", "mtp"),
     DECIDES_NOTHING,
     .help =
         "tokens that are likely to come next are computed beside the last one, and kept where "
         "they "
         "are those chosen: prompt takes them from the prompt and from answers before it, mtp from "
         "the layer that some models have for that; auto (default): both on a CPU, prompt on a GPU "
         "where it is sure to pay; no answer depends on it",
     .modes = ANSWERS},
    {NAMES("--draft-max", "--draft", "--draft-n", "--spec-draft-n-max"),
     INT(engine.draft_most, 1, 64), DECIDES_NOTHING,
     .help = "most tokens of such a draft (default 16)", .modes = ANSWERS},
    {NAMES("--shard"), TEXT(shard, "I/N"), DECIDES("--shard"),
     .help = "only every N-th record from the I-th (from 0); auto: by Slurm or MPI rank",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--report"), WRITES(report, "FILE"), DECIDES_NOTHING,
     .help = "write the run as JSON: throughput, latencies and memory of a batch; the results of "
             "an evaluation",
     .modes = MODE(RUN_BATCH) | EVALUATION},
    {NAMES("--trace"), WRITES(trace, "FILE"), DECIDES_NOTHING,
     .help = "write the steps as Chrome trace events", .modes = MODE(RUN_BATCH)},
    {NAMES("--pooling"), TEXT(pooling, "last|mean|cls|rank"), DECIDES("--pooling"),
     VALUES("last", "mean", "cls", "rank"),
     .help = "an embedding is the row of the last token, the mean of all rows, or the row of the "
             "first token; rank: scores are the likelihood of yes beside no (default: what the "
             "checkpoint says, else last and rank)",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--embd-normalize"), INT(embd_normalize, -1, 64), DECIDES("--embd-normalize"),
     .help = "embeddings are divided by: -1 nothing, 0 the largest magnitude (to 32760), 1 the sum "
             "of magnitudes, 2 the length, N the N-norm (default: what the checkpoint says, else "
             "2)",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--score-template-file"), READS(score_template_file, "FILE"),
     DECIDES("score template (crc32)"),
     .help = "Jinja template of a query and a document, for scores by yes and no (default: the "
             "model's chat template if it has one for these roles, else Qwen3-Reranker's)",
     .modes = MODE(RUN_BATCH)},
    {NAMES("--score-tokens"), TEXT(score_tokens, "YES,NO"), DECIDES("--score-tokens"),
     .help = "the two tokens of such a score (default yes,no)", .modes = MODE(RUN_BATCH)},
    {HEADING("Evaluation")},
    {NAMES("--perplexity"), TEXT(perplexity, "MODE"),
     VALUES("second-half", "contiguous", "documents"),
     .help =
         "of the text of -f (or -p) in windows of -c tokens; MODE is second-half or contiguous; "
         "documents: -f has JSON lines with a text each, which stand by themselves",
     .chooses = RUN_PERPLEXITY},
    {NAMES("--windows", "--chunks"), INT(n_windows, 1, 1 << 30),
     .help = "only the first N windows or documents (default: all)", .modes = MODE(RUN_PERPLEXITY)},
    {NAMES("--multiple-choice"), READS(choices, "FILE"),
     .help = "accuracy on JSON lines of query, choices, gold", .chooses = RUN_CHOICES},
    {NAMES("--eval"), TEXT(eval, "TASKS"),
     .help = "the tasks of lm-evaluation-harness 0.4.13, separated by commas: mmlu, mmlu_stem and "
             "the other groups, mmlu_SUBJECT, hellaswag, winogrande, piqa, arc_easy, "
             "arc_challenge, gsm8k (docs/evaluation.md)",
     .chooses = RUN_TASKS},
    {NAMES("--eval-data"), TEXT(eval_data, "DIR"),
     .help = "folder of their questions: TASK_test.jsonl and the like", .modes = MODE(RUN_TASKS)},
    {NAMES("--limit", "--multiple-choice-tasks"), INT(n_limit, 1, 1 << 30),
     .help = "only the first N questions, of each task (default: all)",
     .modes = MODE(RUN_CHOICES) | MODE(RUN_TASKS)},
    {NAMES("--few-shot", "--num-fewshot"), INT(n_few_shot, 0, 1000),
     .help = "N solved questions before each one (default 0; of --eval as the task says)",
     .modes = MODE(RUN_CHOICES) | MODE(RUN_TASKS)},
    {NAMES("--few-shot-file"), READS(few_shot_file, "FILE"),
     .help = "where they come from: its first N", .modes = MODE(RUN_CHOICES)},
    {NAMES("--samples"), WRITES(samples, "FILE"),
     .help = "write each question's or window's log-probabilities as JSON lines; with --eval of "
             "several tasks FILE is a folder",
     .modes = EVALUATION},
    {HEADING("Machine")},
    {NAMES("--backend"), TEXT(engine.backend, "auto|" BACKEND_CHOICE), DECIDES("backend"),
     VALUES("auto", BACKEND_NAMES),
     .help = "where to compute; auto (default) takes a GPU that runs the kernels; gpu is hip"},
    {NAMES("--cpu"), TEXT(engine.cpu, "NAME"), DECIDES("instruction set"),
     OFFERS("auto", CPU_NAMES, "ref"),
     .help = "instruction set of the CPU backend: auto (default), one that --version lists, or "
             "ref, the double-precision reference"},
    {NAMES("-t", "--threads"), INT(engine.threads, 0, 1024), DECIDES_NOTHING,
     .help = "threads, at most the processors this process may use (default 0: their cores)"},
    {NAMES("--numa"), TEXT(engine.numa, "MODE"), DECIDES_NOTHING,
     VALUES("distribute", "isolate", "numactl"),
     .help = "memory with several nodes: distribute spreads threads and pages over all, isolate "
             "keeps to the one it starts on, numactl takes what numactl has set, as without it"},
    {NAMES("--act"), TEXT(engine.act, "ACT"), DECIDES("--act"),
     VALUES("auto", "f32", "f16", "i16", "int8", "int8-token", "int4"),
     .help = "activations of 4-bit linears: f32 exact, f16 rounded to fp16 (as GPUs do), i16 "
             "integers of 15 bits, int8 of 8, int8-token of 8 with one scale a token (W8A8; on "
             "CPUs), int4 of 4 and of outliers 8 (files of "
             "opt4gptq-quantize --w4a4); auto (default): i16, on a GPU but gfx906 f16"},
    {NAMES("--same-bits"), FLAG(engine.same_bits), DECIDES("--act"),
     .help = "the same bytes on every processor and GPU: --act i16 unless int8 or int4 is asked "
             "for, --kv "
             "int8 unless another is; what would break it is refused"},
    {NAMES("--kv"), TEXT(engine.kv, "KV"), DECIDES("--kv"),
     VALUES("auto", "f16", "f32", "int8", "int4"),
     .help = "storage of keys and values: f16, f32, int8 (half the memory of f16), int4 (a third); "
             "auto (default): f16, with --same-bits int8, with --eval and --act f32 f32"},
    {NAMES("-ctk", "--cache-type-k"), TEXT(cache_k, "TYPE"), DECIDES("--kv"),
     VALUES("f32", "f16", "q8_0", "q4_0"),
     .help = "llama.cpp's spelling of --kv, for -ctv too: q8_0 is int8, q4_0 int4"},
    {NAMES("-ctv", "--cache-type-v"), TEXT(cache_v, "TYPE"), DECIDES("--kv"),
     VALUES("f32", "f16", "q8_0", "q4_0"),
     .help = "the same as -ctk: keys and values are stored alike"},
    {NAMES("--query-halves"), INT(engine.query_halves, 1, 2), DECIDES("--query-halves"),
     .help = "parts of fp16 that a query of a prompt has in attention, with --act f16 on a GPU: 2 "
             "(default) are 22 bits, 1 is 11 and faster"},
    {NAMES("--device"), INT(engine.device, 0, 1023), DECIDES_NOTHING, .group = GPUS,
     .help = "which GPU (default 0)"},
    {NAMES("--devices"), TEXT(engine.devices, "0,1,..|all"), DECIDES_NOTHING, .group = GPUS,
     .help = "several GPUs, by their numbers, or all of them"},
    {NAMES("--parallel-mode"), TEXT(engine.parallel_mode, "MODE"), DECIDES_NOTHING,
     VALUES("auto", "tensor", "layers", "data"), .needs = "--devices",
     .help = "how they share the work: data gives each the model and sequences of its own, tensor "
             "a part of each layer, layers some of the layers; auto (default): data for a batch or "
             "an evaluation where the model fits one, else layers, and tensor for one sequence"},
    {NAMES("--exchange"), TEXT(engine.exchange, "WAY"), DECIDES_NOTHING,
     VALUES("auto", "peer", "host"), .needs = "--devices",
     .help = "the memory through which GPUs exchange rows in the modes tensor and layers: each "
             "other's, the host's, or (auto, default) each other's where a test finds that it "
             "works, of AMD's over xGMI alone"},
    {NAMES("-ngl", "--gpu-layers", "--n-gpu-layers"), TEXT(engine.gpu_layers, "N|all|auto"),
     DECIDES("instruction set"), OFFERS("all", "auto", "0"),
     .help = "whole layers on the GPU: the last N, the CPU computes the others; 0: all on the CPU; "
             "auto (default): what fits, see --experts-on"},
    {NAMES("--experts-on"), TEXT(engine.experts_on, "auto|gpu|cpu|gpu:N"),
     DECIDES("instruction set"), OFFERS("auto", "gpu", "cpu", "gpu:1"),
     .help = "where a mixture's experts are computed: those of the last N layers on the GPU, the "
             "others on the CPU; auto (default): all on the GPU, of what does not fit as many "
             "layers' experts as do"},
    {NAMES("-ncmoe", "--n-cpu-moe"), INT(engine.n_cpu_moe, 0, 1 << 24), DECIDES("instruction set"),
     .help = "the experts of the first N layers are computed on the CPU (llama.cpp's spelling)"},
    {NAMES("-cmoe", "--cpu-moe"), FLAG(engine.cpu_moe), DECIDES("instruction set"),
     .help = "the same as --experts-on cpu"},
    {NAMES("--gpu-memory"), TEXT(engine.gpu_memory, "SIZE"), DECIDES("instruction set"),
     .help = "most that is taken of the GPU's memory, as 16G (default: what is free): the CPU "
             "computes what does not fit"},
    {NAMES("--info"), FLAG(info),
     .help = "print what would lie on GPU and CPU, or on the GPUs of --devices, and by a model of "
             "time what other choices would cost; with --gpu-memory SIZE without a GPU, too",
     .chooses = RUN_INFO},
    {NAMES("--list-devices"), FLAG(list_devices),
     .help = "print the GPUs and which embedded kernels fit them", .chooses = RUN_DEVICES},
    {NAMES("--hip-library"), READS(engine.hip_library, "PATH"), DECIDES_NOTHING,
     .help = "GPU runtime library (default: libamdhip64, libgalaxyhip or libcuda)"},
    {NAMES("--gpu-timeout"), INT(engine.gpu_timeout, 1, 86400), DECIDES_NOTHING,
     .help = "seconds after which a GPU that does not come to an end counts as hung (default 120)"},
    {NAMES("--variant"), TEXT(engine.variant, "NAME"), DECIDES("--variant"),
     .help = "pins one of the GPU's kernels for linears (default auto)"},
    {NAMES("--check-tensors"), FLAG(engine.check_tensors), DECIDES_NOTHING,
     .help = "compare every tensor with its crc32 before use"},
    {HEADING("Other")},
    {NAMES("--tokenize"), FLAG(tokenize), .help = "print the ids of -p or -f",
     .chooses = RUN_TOKENIZE},
    {NAMES("--detokenize"), FLAG(detokenize), .help = "print the text of the ids in -p or -f",
     .chooses = RUN_DETOKENIZE},
    ARGS_COMMON_ROWS(common, "version and what this build contains"),
    {NAMES("--no-escape"), FLAG(no_escape), DECIDES_NOTHING,
     .group = ESCAPES}, /* the default, not in the help */
};

static const struct args_mode modes[] = {
    [RUN_COMPLETE] = {.needed = "a prompt"},
    [RUN_BATCH] = {.needed = "-i FILE"},
    [RUN_PERPLEXITY] = {.needed = "--perplexity"},
    [RUN_CHOICES] = {.needed = "--multiple-choice"},
    [RUN_TASKS] = {.needed = "--eval"},
    [RUN_DETOKENIZE] = {.needed = "--detokenize"},
    [RUN_TOKENIZE] = {.needed = "--tokenize"},
    [RUN_DEVICES] = {.needed = "--list-devices", .alone = 1},
    [RUN_CONVERSATION] = {.needed = "-cnv"},
    [RUN_INFO] = {.needed = "--info"},
};

static const char *const usage[] = {"-m MODEL -p PROMPT [options]", "-m MODEL -cnv [options]",
                                    "-m MODEL -i PROMPTS -o ANSWERS [options]", NULL};

static const char *const examples[] = {
    "-m model.safetensors -p \"Once upon a time\" -n 64",
    "-m model.safetensors -cnv",
    "-m model.safetensors -i prompts.jsonl -o answers.jsonl",
    "-m model.safetensors --chat -p \"Name a river.\" --json-schema-file river.json",
    "-m model.safetensors -f wiki.txt --perplexity second-half -c 2048",
    NULL};

const struct args_program run_program = {
    .name = "opt4gptq-run",
    .purpose = "answer prompts with a GPTQ language model",
    .usage = usage,
    .more =
        "Options of llama.cpp and vLLM that are not here are refused with what to do instead, or "
        "accepted with a note where they change nothing.\n"
        "Text goes to stdout, everything else to stderr.",
    .exits = "0 ok, 1 failed, 2 wrong usage, 3 some records failed, 4 stopped early",
    .rows = table,
    .n_rows = sizeof table / sizeof *table,
    .others = llama_names,
    .others_too = vllm_names,
    .description =
        "Answers one prompt (-p, -f), a conversation (-cnv) or a file of prompts (-i), or "
        "evaluates "
        "(--perplexity, --multiple-choice, --eval), with a model file that opt4gptq-convert made. "
        "The same "
        "prompt gives the same answer on any number of threads and in any batch; a batch that was "
        "interrupted is continued by the same command.",
    .examples = examples,
    .files = "MODEL.safetensors: a model file, read only. ANSWERS: appears when it is complete; "
             "until then ANSWERS.journal holds what is done, afterwards a note by which the same "
             "command knows that nothing is left.",
    .see_also = "opt4gptq-convert(1), opt4gptq-bench(1), opt4gptq-merge-shards(1), and manual.md "
                "and batch.md beside the installed README.md.",
    .modes = modes,
    .n_modes = sizeof modes / sizeof *modes,
};

static void set_defaults(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->n_predict = OPT_UNSET;
    o->logprobs = o->embd_normalize = OPT_UNSET;
    sampling_set_defaults(&o->sampling);
    o->input_format = "auto";
    o->order = "input";
    o->grace = 20;
    o->engine.query_halves = 2;
    o->engine.backend = o->engine.cpu = o->engine.act = o->engine.kv = o->engine.variant = "auto";
}

/* -ctk and -ctv as --kv. One that is not given is f16, as in llama.cpp. */
static int take_cache_types(struct options *o, struct err *e)
{
    const char *k = o->cache_k, *v = o->cache_v, *kv = options_given(o, &o->engine.kv);
    const char *given = options_given(o, k ? &o->cache_k : &o->cache_v);
    if (!k && !v) return 0;
    if (kv) return err_set(e, "%s and %s exclude each other", given, kv);
    if (!k) k = "f16";
    if (!v) v = "f16";
    if (strcmp(k, v))
        return err_set(e, "%s: keys and values are stored alike: -ctk %s -ctv %s", given,
                       o->cache_k ? k : v, o->cache_k ? k : v);
    o->engine.kv = !strcmp(k, "q8_0") ? "int8" : !strcmp(k, "q4_0") ? "int4" : k;
    return 0;
}

int options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    set_defaults(o);
    int rc = args_parse(&run_program, o, &o->given, argc, argv, e);
    if (!rc) rc = take_cache_types(o, e);
    o->engine.backend = backend_name(o->engine.backend);
    return rc;
}

const char *options_given(const struct options *o, const void *field)
{
    return args_name_given(&run_program, &o->given,
                           (size_t)((const char *)field - (const char *)o));
}

const char *options_text(const struct options *o, const char *name)
{
    const struct args_row *r = args_find(&run_program, name);
    CHECK(r && r->kind == ARGS_IS_TEXT);
    return *(const char *const *)((const char *)o + r->offset);
}

static int differs(const struct options *o, const struct options *defaults, const char *name)
{
    const struct args_row *r = args_find(&run_program, name);
    CHECK(r && (r->kind == ARGS_IS_TEXT || r->kind == ARGS_IS_INT));
    const char *a = (const char *)o + r->offset, *b = (const char *)defaults + r->offset;
    if (r->kind == ARGS_IS_INT) return *(const int *)a != *(const int *)b;
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return !x || !y ? x != y : strcmp(x, y) != 0;
}

/* Whether one of the named options ("--a --b", integers and texts) does not have its default. */
static int differ(const struct options *o, const char *names)
{
    struct options defaults;
    set_defaults(&defaults);
    for (const char *at = names; *at; at += strspn(at, " ")) {
        char name[64];
        size_t n = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n;
        if (differs(o, &defaults, name)) return 1;
    }
    return 0;
}

static void say(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

int options_settle(struct options *o, struct err *e)
{
    const enum placement_asks asks = placement_asks(&o->engine);
    if (asks != PLACEMENT_NOTHING && !strcmp(o->engine.backend, "auto"))
        o->engine.backend = asks == PLACEMENT_CPU ? "cpu" : "hip";
    const char *asked = o->engine.backend;
    for (const struct backend_entry *b = backend_entries; b->ops; b++)
        if (!strcmp(o->engine.backend, "auto") && differ(o, b->options)) asked = b->ops->name;
    o->engine.backend = asked;
    o->engine.embeds = o->input != NULL || o->info;
    o->engine.survey = o->info;
    o->engine.note = say;
    if (o->shard && !strcmp(o->shard, "auto") && !options_given(o, &o->engine.device)) {
        const struct shard local = shard_local();
        o->engine.local_rank = (int)local.i;
        o->engine.n_local = (int)local.n;
    }
    /* log-likelihoods of exact activations are those of exact keys and values */
    if (o->eval && !strcmp(o->engine.act, "f32") && !strcmp(o->engine.kv, "auto"))
        o->engine.kv = "f32";
    return engine_settle(&o->engine, e);
}
