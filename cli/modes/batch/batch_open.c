/* batch_open.c: what a batch is made of before its loop: the input read once, the model and what
 * answers share, the output's name, the journal of an earlier run and whether it is this one's. */
#include "cli/modes/batch/batch.h"

#include "cli/modes/batch/json_signs.h"
#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/text/chat.h"
#include "engine/sampling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* The values of fields that a record lacks. */
static int open_defaults(struct batch_run *b, struct err *e)
{
    const struct options *o = b->o;
    if (sampling_choose(&b->defaults.sampling, &o->sampling, &b->engine.model.file,
                        &sampling_openai, e))
        return -1;
    if (sampling_read_bias(&o->sampling.logit_bias, b->engine.model.config.vocab, &b->bias,
                           &b->defaults.sampling.n_bias, e))
        return -1;
    b->defaults.sampling.bias = b->bias;
    b->defaults.repeat_last_n = o->sampling.repeat_last_n;
    b->defaults.dry_last_n = o->sampling.dry_last_n;
    b->defaults.breakers = sampling_breakers(&o->sampling, &b->defaults.n_breakers);
    b->defaults.max_tokens = o->n_predict == OPT_UNSET ? -1 : o->n_predict < 0 ? -2 : o->n_predict;
    b->defaults.stop = o->stop.v;
    b->defaults.n_stop = o->stop.n;
    b->defaults.vocab = b->engine.model.config.vocab;
    b->defaults.chat = o->chat;
    b->defaults.include_special = o->special;
    b->defaults.trusts_templates = o->trust_request_template;
    if (constraint_read(&b->constraint, o, e)) return -1;
    b->defaults.grammar.field = b->constraint.name;
    b->defaults.grammar.spec = b->constraint.spec;
    return 0;
}

/* The grammar of the command line must be right before anything is computed. */
static int open_constraints(struct batch_run *b, struct err *e)
{
    const struct model_config *g = &b->engine.model.config;
    const struct vocabulary_source source = {b->engine.tokenizer, g->eos, g->n_eos, g->vocab};
    struct constraint *k;
    struct grammar *compiled;
    if (!b->engine.tokenizer)
        return b->constraint.name ? err_set(e, "%s: has no tokenizer: %s is of no use", b->o->model,
                                            b->constraint.name)
                                  : 0;
    if (constraints_open(&b->constraints, &source, e)) return -1;
    if (!b->constraint.name) return 0;
    if (constraint_ask(b->constraints, &b->constraint.spec, &k, e)) return -1;
    int rc = constraint_get(b->constraints, k, CONSTRAINT_WAIT, &compiled, e);
    constraint_drop(b->constraints, k);
    return rc < 0 ? err_prefix(e, "%s", b->constraint.name) : 0;
}

/* The chat template, with the time of the first start, so that a resumed run renders the same
 * prompts. */
static int open_chat(struct batch_run *b, struct err *e)
{
    char *given;
    size_t n, n_old = 0;
    const char *old = b->journal && !b->o->restart ? journal_manifest(b->journal, &n_old) : NULL;
    b->started = run_local_time();
    b->seed = b->o->sampling.seed.value;
    if (old && (manifest_started(old, n_old, &b->started, e) ||
                (b->o->sampling.seed.is_random && manifest_seed(old, n_old, &b->seed, e))))
        return err_prefix(e, "%s", b->journal_path);
    run_say_seed(b->o, b->seed);
    if (run_read_template(b->o, &given, &n, e)) return -1;
    if (given) b->template_crc = (uint32_t)crc32_z(0, (unsigned char *)given, n);
    int rc = chat_open_model(&b->chat, &b->engine.model.file, given, n, b->started, e);
    free(given);
    return rc ? rc : run_template_variables(b->o, b->chat, &b->variables, e);
}

/* How vectors and scores are made. */
static int open_pooling(struct batch_run *b, struct err *e)
{
    const struct options *o = b->o, file = {.file = o->score_template_file};
    char *given = NULL;
    size_t n = 0;
    if (o->score_template_file && run_read_text(&file, &given, &n, e)) return -1;
    const struct pooling_options how = {.kind = o->pooling,
                                        .norm = o->embd_normalize == OPT_UNSET ? NULL
                                                                               : &o->embd_normalize,
                                        .template_text = given,
                                        .template_bytes = n,
                                        .score_tokens = o->score_tokens};
    int rc = pooling_open(&b->pooling, &how, &b->engine.model, b->engine.tokenizer, b->chat, e);
    free(given);
    return rc;
}

static void on_done(void *arg, struct job *j)
{
    struct batch_run *b = arg;
    j->next_finished = b->finished;
    b->finished = j;
}

static enum answer_format answer_format(const char *name)
{
    if (!strcmp(name, "csv") || !strcmp(name, "tsv")) return ANSWER_TABLE;
    if (!strcmp(name, "text")) return ANSWER_TEXT;
    return strcmp(name, "ids") ? ANSWER_JSONL : ANSWER_IDS;
}

int batch_open_model(struct batch_run *b, struct err *e)
{
    const struct options *o = b->o;
    const char *name = strrchr(o->model, '/');
    if (engine_open_model(&b->engine, o->model, &o->engine, e) || open_defaults(b, e) ||
        open_constraints(b, e) || open_chat(b, e) || open_pooling(b, e))
        return -1;
    b->engine.longest_first = 1;
    b->engine.hidden = b->may_pool && !b->plain;
    if (!b->engine.tokenizer && strcmp(o->format, "ids"))
        return err_set(e, "%s: has no tokenizer: --format ids answers in token ids", o->model);
    if (!b->engine.tokenizer && o->stop.n)
        return err_set(e, "%s: has no tokenizer: --stop cannot be found", o->model);
    if (b->engine.tokenizer && token_text_open(&b->tokens, b->engine.tokenizer, e)) return -1;
    name = name ? name + 1 : o->model;
    snprintf(b->model_name, sizeof b->model_name, "%.*s",
             (int)(file_name_ends(name, ".safetensors") ? strlen(name) - strlen(".safetensors")
                                                        : strlen(name)),
             name);
    b->calls = (struct job_calls_env){.parser = o->tool_call_parser,
                                      .splits = o->reasoning_parser != NULL,
                                      .file = &b->engine.model.file,
                                      .now = b->started};
    b->env = (struct job_env){
        .tokenizer = b->engine.tokenizer,
        .chat = b->chat,
        .variables = b->variables,
        .system_prompt = o->system_prompt,
        .eos = b->engine.model.config.eos,
        .n_eos = b->engine.model.config.n_eos,
        .vocab = b->engine.model.config.vocab,
        .n_ctx = engine_context(&b->engine),
        .headless = b->engine.model.config.headless,
        .texts = &b->texts,
        .constraints = b->constraints,
        .pooling = &b->pooling,
        .calls = &b->calls,
        .seed = b->seed,
        .done = on_done,
        .arg = b,
        .clock = clock_now,
    };
    b->answer = (struct answer_env){
        .format = answer_format(o->format),
        .model = b->model_name,
        .tokens = &b->tokens,
        .table = b->table,
        .separator = !strcmp(o->format, "tsv") ? '\t' : ',',
        .splits = o->chat && b->calls.splits,
    };
    return 0;
}

/* 1 unless the line is sure to be none of the records that are pooled, whose urls have these words;
 * an escape may hide a letter. Answers do not depend on it, only whether steps keep hidden rows. */
static int may_pool(const char *line, size_t n)
{
    static const char *const words[] = {"embeddings", "score", "rerank", "\\u00"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (line && memmem(line, n, words[i], strlen(words[i]))) return 1;
    return 0;
}

/* A line of what --input-format auto takes for plain prompts: JSON is none. */
static int check_plain(struct batch_run *b, struct json_signs *signs, const struct input_line *line,
                       struct err *e)
{
    static const char way_out[] = "(--input-format text takes any line for a prompt)";
    const char *path = b->o->input;
    if (strcmp(b->o->input_format, "auto") || !b->plain) return 0;
    if (json_signs_see(signs, line->text, line->n, b->n_records, e)) {
        char why[sizeof e->msg];
        if (err_is_memory(e)) return -1;
        memcpy(why, e->msg, sizeof why);
        return err_set(e, "%s: %.200s %s", path, why, way_out);
    }
    if (b->n_records || !json_signs_name(path)) return 0;
    return err_set(e,
                   "%s: is named as JSON lines are, but its first line does not begin with '{' %s",
                   path, way_out);
}

/* The rows of a table, of which the first is its header. */
static int open_table(struct batch_run *b, char separator, struct err *e)
{
    struct input_line line;
    if (table_open(&b->table, b->o->prompt_template, separator, e))
        return err_prefix(e, "--prompt-template");
    input_take_rows(b->input, separator);
    b->plain = 1;
    int more = input_next(b->input, &line, e);
    if (!more) return err_set(e, "%s: has no header", b->o->input);
    return more < 0 ? -1 : table_take_header(b->table, &line, b->o->input, e);
}

/* Begins the input again, behind the header of a table. */
static int begin_again(struct batch_run *b, struct err *e)
{
    struct input_line line;
    return input_rewind(b->input, e) || (b->table && input_next(b->input, &line, e) < 0) ? -1 : 0;
}

/* Reads the input once: its checksum, how many records, which format. */
int batch_scan_input(struct batch_run *b, struct err *e)
{
    struct input_line line;
    struct json_signs signs = {0};
    int more;
    char separator = table_separator(b->o->input_format, b->o->input);
    b->plain = !strcmp(b->o->input_format, "text");
    if (input_check_text(b->input, e)) return -1;
    if (separator && open_table(b, separator, e)) return -1;
    while ((more = input_next(b->input, &line, e)) == 1) {
        if (!b->n_records && !b->table && !strcmp(b->o->input_format, "auto"))
            b->plain = line.text[strspn(line.text, " \t")] != '{';
        if (!b->table && check_plain(b, &signs, &line, e)) return -1;
        b->may_pool |= may_pool(line.text, line.n);
        b->n_records++;
    }
    if (more < 0) return -1;
    b->input_crc = input_crc(b->input);
    b->input_bytes = input_bytes(b->input);
    b->n_slots = shard_count(&b->shard, b->n_records);
    for (b->n_seen = 64; b->n_seen < 2 * b->n_slots;) b->n_seen *= 2;
    int has_ids = b->table ? table_names_rows(b->table) : !b->plain;
    b->seen = has_ids ? calloc(b->n_seen, sizeof *b->seen) : NULL;
    if (has_ids && !b->seen) return err_memory(e);
    return begin_again(b, e);
}

int batch_next(struct batch_run *b, struct input_line *line, uint64_t *slot, struct err *e)
{
    int more;
    while ((more = input_next(b->input, line, e)) == 1) {
        uint64_t record = b->n_read++;
        if (record % b->shard.n != b->shard.i) continue;
        *slot = record / b->shard.n;
        return b->table && table_read_row(b->table, line, e) ? -1 : 1;
    }
    if (more < 0) return -1;
    if (input_crc(b->input) != b->input_crc || input_bytes(b->input) != b->input_bytes)
        return err_set(e, "%s: was changed while it was read: --restart starts over", b->o->input);
    return 0;
}

void batch_see_id(struct batch_run *b, const struct record *r)
{
    if (!b->seen || r->id == r->name || b->warned_of_duplicate) return;
    uint64_t h = record_hash(r) | 1, i = h >> 1 & (b->n_seen - 1);
    for (; b->seen[i] && b->seen[i] != h; i = (i + 1) & (b->n_seen - 1)) {
    }
    if (b->seen[i]) {
        char id[81];
        snprintf(id, sizeof id, "%.*s", (int)(r->id_bytes < 80 ? r->id_bytes : 80), r->id);
        printable_bytes(id, strlen(id));
        progress_clear();
        fprintf(stderr,
                "note: %s %llu has a custom_id that came before (\"%s\"); all of them are "
                "answered\n",
                b->table ? "row" : "line", (unsigned long long)r->number, id);
        b->warned_of_duplicate = 1;
    }
    b->seen[i] = h;
}

/* Names of output and journal; where links lead is what gets replaced. */
int batch_name_output(struct batch_run *b, struct err *e)
{
    const char *path = b->o->output;
    struct stat st;
    char *target = NULL;
    int rc = 0;
    if (b->shard.n > 1 && strcmp(path, "-")) {
        rc = asprintf(&b->output, "%s.%llu-of-%llu", path, (unsigned long long)b->shard.i,
                      (unsigned long long)b->shard.n);
    } else {
        b->output = strdup(path);
    }
    if (rc < 0 || !b->output) {
        b->output = NULL;
        return err_memory(e);
    }
    if (!lstat(b->output, &st) && S_ISLNK(st.st_mode)) {
        if (!(target = realpath(b->output, NULL))) return err_sys(e, "%s", b->output);
        free(b->output);
        b->output = target;
    }
    int stream = result_is_stream(b->output, e);
    if (stream) return stream < 0 ? -1 : 0;
    if (asprintf(&b->journal_path, "%s.journal", b->output) >= 0) return 0;
    b->journal_path = NULL;
    return err_memory(e);
}

int batch_open_journal(struct batch_run *b, struct err *e)
{
    struct stat st;
    char note[256];
    if (b->journal_path && stat(b->journal_path, &st) && !stat(b->output, &st) && st.st_size)
        return err_set(
            e, "%s: exists and was not written by this command: remove it or name another file",
            b->output);
    if (journal_open(&b->journal, b->journal_path, b->n_slots, note, e) ||
        journal_take_mode(b->journal, b->output, e))
        return -1;
    printable_bytes(note, strlen(note));
    if (note[0]) fprintf(stderr, "note: %s\n", note);
    return 0;
}

/* The completion note of a journal: errors, bytes and checksum of its output. */
static int read_completion(const struct batch_run *b, const char *text, size_t n,
                           unsigned long long v[3], struct err *e)
{
    char copy[128], again[128];
    snprintf(copy, sizeof copy, "%.*s", (int)(n < sizeof copy ? n : 0), text);
    int fits = sscanf(copy, BATCH_COMPLETION, &v[0], &v[1], &v[2]) == 3 && v[0] <= b->n_slots &&
               v[2] <= UINT32_MAX;
    if (fits) snprintf(again, sizeof again, BATCH_COMPLETION, v[0], v[1], v[2]);
    if (fits && strlen(again) == n && !memcmp(again, text, n)) return 0;
    return err_set(e, "%s: is damaged: what it says of %s cannot be: --restart starts over",
                   b->journal_path, b->output);
}

/* The journal's manifest against this run's: continues or starts. 1: the run was complete already.
 */
int batch_match_journal(struct batch_run *b, struct err *e)
{
    struct manifest m = {
        .options = b->o,
        .shard = b->shard,
        .input_crc = b->input_crc,
        .input_bytes = b->input_bytes,
        .n_records = b->n_records,
        .model_name = b->model_name,
        .model_crc = st_meta(&b->engine.model.file.st, "opt4gptq.header_crc32"),
        .sampling = b->defaults.sampling,
        .seed = b->seed,
        .n_ctx = b->env.n_ctx,
        .backend = engine_order(&b->engine),
        .instructions = engine_sums(&b->engine),
        .template_crc = b->template_crc,
        .constraint = &b->constraint,
        .pooling = &b->pooling,
        .started = b->started,
    };
    size_t n_old, n_done;
    const char *old = journal_manifest(b->journal, &n_old),
               *done = journal_completion(b->journal, &n_done);
    out_clear(&b->line);
    if (manifest_write(&b->line, &m, e)) return -1;
    if (!old || b->o->restart) return journal_start(b->journal, b->line.p, b->line.n, e);
    int other = manifest_check(old, n_old, b->line.p, b->line.n, e);
    if (other > 0)
        return err_prefix(e, "%s: was begun by another command: --restart starts over",
                          b->journal_path);
    if (other) return err_prefix(e, "%s", b->journal_path);
    if (!done) return 0;
    uint64_t bytes, bytes_now, errors;
    uint32_t crc, crc_now;
    unsigned long long v[3];
    if (read_completion(b, done, n_done, v, e)) return -1;
    errors = v[0], bytes = v[1], crc = (uint32_t)v[2];
    int missing = result_checksum(b->output, &bytes_now, &crc_now, e);
    if (missing < 0) return -1;
    if (missing) { /* the output was removed: compute it again */
        out_clear(&b->line);
        return manifest_write(&b->line, &m, e) ? -1
                                               : journal_start(b->journal, b->line.p, b->line.n, e);
    }
    if (bytes != bytes_now || crc != crc_now)
        return err_set(e,
                       "%s: was complete and has been changed since: --restart computes it again",
                       b->output);
    char name[PRINTABLE];
    fprintf(stderr, "%s is complete: %llu record%s, %llu of them errors\n",
            printable_text(b->output, name), (unsigned long long)b->n_slots, units_s(b->n_slots),
            (unsigned long long)errors);
    b->meter.n_errors = errors;
    return 1;
}
