/* run.h: the modes of opt4gptq-run. Each returns the exit code: 0 ok, 1 failed, 4 stopped early. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/options.h"
#include "core/run/forward.h"
#include "core/grammar/grammar.h"
#include "core/text/tokenizer.h"

#include <signal.h>

/* Set by SIGINT and SIGTERM; generation ends at the next token. */
extern volatile sig_atomic_t run_stop_requested;
/* From here on the first signal sets it, the second one ends the process. To be called when there
 * is something to bring to an end: until then a signal ends the process at once, whatever it waits
 * for. A call that waits (an answer's pipe) returns with EINTR. */
void run_catch_signals(void);
/* While ON, SIGINT only sets run_stop_requested, however often; SIGTERM is as above. The value is
 * the signal's number. */
void run_interrupts_only_ask(int on);
/* A descriptor that can be read once a signal came, on whatever thread; -1: the system has none. */
int run_signal_fd(void);
/* The texts of the first signal and of the second, which then ends the process with exit code 4.
 * NULL (the default): says nothing; the second signal kills. The texts are the caller's until
 * replaced. */
void run_say_on_signal(const char *first, const char *second);

/* Evaluates the prompt and generates (-p, -f, --prompt-ids). */
int run_complete(const struct options *o, struct err *e);
/* Answers a file of prompts (-i). Also returns 3: some records failed; 4 then means that the same
 * command continues. */
int run_batch(const struct options *o, struct err *e);
/* How well the model predicts a text (--perplexity). */
int run_perplexity(const struct options *o, struct err *e);
/* The same for documents, each by itself (--perplexity documents). */
int run_documents(const struct options *o, struct err *e);
/* Accuracy on questions with choices (--multiple-choice). */
int run_choices(const struct options *o, struct err *e);
/* The tasks of lm-evaluation-harness (--eval). */
int run_tasks(const struct options *o, struct err *e);
/* Messages and answers in turns (-cnv). */
int run_conversation(const struct options *o, struct err *e);
/* What would lie where, and what other choices would cost (--info). */
int run_info(const struct options *o, struct err *e);
/* --tokenize and --detokenize. */
int run_tokens(const struct options *o, struct err *e);

/* One note where the settled options ask for what is much slower than a sibling; once the engine is
 * open, so that a failure is one line. */
void run_say_slow(const struct options *o);
/* -v: more about the open backend, on stderr. */
struct reasoning_tags;
struct chat;
struct engine;
void run_say_variants(const struct options *o, const struct engine *g);

/* Takes the byte order mark off the begin of TEXT [n]; returns the bytes that are left. */
size_t run_drop_mark(char *text, size_t n);
/* Prompt text of -p or -f (malloc'd, *bytes long, NUL-terminated), without such a mark. */
int run_read_text(const struct options *o, char **text, size_t *bytes, struct err *e);
/* The prompt of --chat: that text as a message, through the chat template; holds its special tokens
 * spelled out. */
int run_chat_prompt(const struct options *o, const struct modelfile *m, char **text, size_t *bytes,
                    const struct reasoning_tags **tags, struct err *e);
/* Seconds since 1970-01-01 00:00 by the local wall clock: the time that a chat template reads. */
int64_t run_local_time(void);
/* --seed -1: draws the seed. */
void run_draw_seed(struct options *o);
/* Prints a seed that was drawn. */
void run_say_seed(const struct options *o, uint64_t seed);
/* -e: replaces \n, \xHH and so on in TEXT in place; an escape that is not known stays. -1: a NUL
 * would come out. */
int run_unescape(char *text);
/* --chat-template-kwargs as an object, NULL without it. An error names a variable that the template
 * does not read. */
int run_template_variables(const struct options *o, const struct chat *c, json_t **variables,
                           struct err *e);
/* --chat-template-file as text; *text NULL when none is given. */
/* -sysf FILE: *text owns what o->system_prompt then is; NULL: not given. */
int run_read_system(struct options *o, char **text, struct err *e);
int run_read_template(const struct options *o, char **text, size_t *bytes, struct err *e);
/* Appends {"role", "content"} to an array of messages; WHAT names the text in an error. */
int run_add_message(json_t *messages, const char *role, const char *text, size_t n,
                    const char *what, struct err *e);
/* Appends an id. */
int run_keep_id(struct tok_ids *ids, int32_t id, struct err *e);
/* After an answer that its length ended: one note where the tokens IDS are no whole document of the
 * grammar. FULL: the context ended it, not -n. */
int run_say_cut(struct grammar *g, const struct tok_ids *ids, int full, struct err *e);
/* Ids separated by commas, spaces or newlines. */
int run_parse_ids(const char *text, struct tok_ids *ids, struct err *e);

/* A safetensors file with the tensor `logits` fp32 [rows][vocab], written row by row, and perhaps
 * `generated` I32: the ids that were chosen; visible when complete. */
struct logits_file;
int logits_file_open(struct logits_file **f, const char *path, int vocab, struct err *e);
int logits_file_write(struct logits_file *f, const float *rows, int n, struct err *e);
/* Finishes (keep != 0) or removes the file; frees f. */
int logits_file_close(struct logits_file *f, int keep, struct err *e);
/* Adds the tensor `generated` [n], once, after the last row. */
int logits_file_ids(struct logits_file *f, const int32_t *ids, size_t n, struct err *e);

#endif
