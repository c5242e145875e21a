/* batch.c: a file of prompts in, a file of answers out. Reads records, keeps the scheduler busy,
 * journals answers as they finish, puts the output in its place. docs/batch.md says what a user
 * sees of it. */
#include "cli/modes/batch/batch.h"

#include "engine/cards.h"
#include "cli/modes/batch/answer_table.h"
#include "cli/run.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/base/progress.h"
#include "core/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Records that are computed or wait, by bytes of their lines and choices, by their size, and those
 * whose grammars are being compiled, beside one for each sequence: no more are read then. */
enum { MAX_HELD = 256 << 20, CHOICE_BYTES = 1024, MAX_LARGE = 16, MAX_PENDING = 64 };
enum { OK = 0, FAILED = 1, SOME_FAILED = 3, STOPPED = 4 };

/* ---- the loop */

static int n_choices(const struct job *j) { return j->n_prompts * j->record.n; }

static int is_large(const struct batch_run *b, const struct job *j)
{
    return n_choices(j) > replicas_turn(b->engine.replicas);
}

static void link_job(struct batch_run *b, struct job *j, const struct input_line *line)
{
    j->held = line->n + (uint64_t)n_choices(j) * CHOICE_BYTES;
    b->held += j->held;
    b->n_large += is_large(b, j);
    j->next = b->live;
    if (b->live) b->live->previous = j;
    b->live = j;
}

static void drop_job(struct batch_run *b, struct job *j)
{
    if (j->previous) j->previous->next = j->next;
    else b->live = j->next;
    if (j->next) j->next->previous = j->previous;
    b->held -= j->held;
    b->n_large -= is_large(b, j);
    job_close(j);
}

/* Prepares the text of a second signal in the buffer that no handler reads now. */
static void prepare_words(struct batch_run *b)
{
    char *words = b->last_words[b->n_words++ % 2], name[PRINTABLE];
    if (b->journal_path)
        snprintf(words, sizeof b->last_words[0],
                 "%sstopped at once: %llu of %llu answers are kept in %s; the same command "
                 "continues\n",
                 progress_erase(), (unsigned long long)journal_count(b->journal),
                 (unsigned long long)b->n_slots, printable_text(b->journal_path, name));
    else
        snprintf(words, sizeof b->last_words[0],
                 "%sstopped at once: answers that were not written are lost\n", progress_erase());
    run_say_on_signal(b->first_words, words);
}

static int keep_line(struct batch_run *b, uint64_t slot, int is_error, struct err *e)
{
    b->meter.n_done++;
    b->meter.n_errors += is_error != 0;
    if (journal_add(b->journal, slot, is_error, b->line.p, b->line.n, e)) return -1;
    prepare_words(b);
    return 0;
}

/* Answers of the jobs that the last step finished. */
static int keep_finished(struct batch_run *b, struct err *e)
{
    int rc = 0;
    for (struct job *j; !rc && (j = b->finished);) {
        b->finished = j->next_finished;
        if (!j->aborted) {
            struct refusal why = {.field = NULL};
            int prompt = job_prompt_tokens(j), generated = job_generated_tokens(j);
            out_clear(&b->line);
            if (j->failed[0]) err_set(&why.why, "%s", j->failed);
            rc = j->failed[0] ? answer_refuse(&b->line, &b->answer, &j->record, j->status, &why, e)
                              : answer_write(&b->line, &b->answer, j, e);
            if (!rc) rc = keep_line(b, j->index, j->failed[0] != 0, e);
            meter_answer(&b->meter, prompt, generated, j->end - j->start,
                         j->first_token > 0 ? j->first_token - j->start : -1);
            trace_request(b->trace, j->index, j->start, j->first_token, j->end, prompt, generated);
        }
        drop_job(b, j);
    }
    return rc;
}

static int refuse_job(struct batch_run *b, const struct job *j, uint64_t slot,
                      const struct refusal *why, struct err *e)
{
    out_clear(&b->line);
    return answer_refuse(&b->line, &b->answer, &j->record, 400, why, e) || keep_line(b, slot, 1, e)
               ? -1
               : 0;
}

/* Appends to `pending` or `turns`. */
static void append(struct job **list, struct job *j)
{
    while (*list) list = &(*list)->next_waiting;
    j->next_waiting = NULL;
    *list = j;
}

static int submit_prompt(struct batch_run *b, struct job *j, struct err *e)
{
    b->turn_left -= j->record.n;
    return replicas_submit(b->engine.replicas, &j->prompt[j->n_submitted++].request, e);
}

/* Submits a job, a large one by turns, or answers it with an error. 2: its grammar is not compiled
 * yet. */
static int submit(struct batch_run *b, struct job *j, int wait, struct err *e)
{
    struct refusal why;
    int rc = job_take_grammar(j, wait, &why, e);
    if (rc == 1) {
        rc = refuse_job(b, j, j->index, &why, e);
        drop_job(b, j);
        return rc;
    }
    if (rc) return rc;
    if (is_large(b, j)) {
        append(&b->turns, j);
        b->turn_left = 0;
        return 0;
    }
    while (j->n_submitted < j->n_prompts)
        if (submit_prompt(b, j, e)) return -1;
    return 0;
}

/* Submits the jobs whose grammars are there; WAIT: as constraint_get, for the first. */
static int submit_pending(struct batch_run *b, int wait, struct err *e)
{
    for (struct job **at = &b->pending; *at && !run_stop_requested;) {
        struct job *j = *at, *next = j->next_waiting;
        *at = next; /* it may get into another list */
        int rc = submit(b, j, wait, e);
        if (rc < 0) return -1;
        wait = CONSTRAINT_NO_WAIT;
        b->n_pending -= rc != 2;
        if (rc != 2) continue;
        j->next_waiting = next;
        *at = j;
        at = &j->next_waiting;
    }
    return 0;
}

/* One record: into the scheduler, or answered with an error. */
static int take_record(struct batch_run *b, const struct input_line *line, uint64_t slot,
                       struct err *e)
{
    struct refusal why;
    struct job *j;
    int rc = job_open(&j, &b->env, line, b->plain, &b->defaults, &why, e);
    if (rc < 0) return -1;
    batch_see_id(b, &j->record);
    if (rc) {
        rc = refuse_job(b, j, slot, &why, e);
        job_close(j);
        return rc;
    }
    link_job(b, j, line);
    j->index = slot;
    j->start = clock_now();
    for (int i = 0; i < j->n_prompts; i++) j->prompt[i].request.group = &j->group;
    rc = submit(b, j, CONSTRAINT_NO_WAIT, e);
    if (rc != 2) return rc;
    append(&b->pending, j);
    b->n_pending++;
    return 0;
}

static int may_read(const struct batch_run *b)
{
    return !b->at_end && !run_stop_requested && b->held < MAX_HELD && b->n_large < MAX_LARGE &&
           b->n_pending < MAX_PENDING + b->engine.n_seqs;
}

/* The place in `turns` of the first job that may submit a prompt: behind a stop only what has
 * started goes on, and choices that wait in the scheduler come first. */
static struct job **next_in_turn(struct batch_run *b)
{
    struct job **at = &b->turns;
    for (; *at; at = &(*at)->next_waiting) {
        const struct job *j = *at;
        int n_waiting = j->n_submitted * j->record.n - j->group.n_started;
        if (run_stop_requested && !j->group.n_started) continue;
        if (n_waiting < replicas_turn(b->engine.replicas)) break;
    }
    return at;
}

/* The next prompt of a large job, which then comes behind the others when its turn is over. */
static int feed_job(struct batch_run *b, struct job **at, struct err *e)
{
    struct job *j = *at;
    if (submit_prompt(b, j, e)) return -1;
    if (j->n_submitted == j->n_prompts) b->turn_left = 0;
    if (b->turn_left > 0) return 0;
    *at = j->next_waiting;
    if (j->n_submitted < j->n_prompts) append(&b->turns, j);
    return 0;
}

static int feed_record(struct batch_run *b, struct err *e)
{
    struct input_line line;
    uint64_t slot;
    int more = batch_next(b, &line, &slot, e);
    if (more < 0) return -1;
    b->at_end = !more;
    if (!more || journal_has(b->journal, slot)) return 0;
    if (take_record(b, &line, slot, e)) return -1;
    return journal_sync(b->journal, clock_now(), 0, e);
}

/* Submits prompts as long as the scheduler has room for more: of large records and of those behind
 * them by turns. */
static int feed(struct batch_run *b, struct err *e)
{
    double start = clock_now();
    int n = 0;
    for (; replicas_wants(b->engine.replicas) > 0; n++) {
        struct job **at = next_in_turn(b);
        int reads = may_read(b);
        if (!*at && !reads) break;
        if (b->turn_left <= 0 || (b->reads ? !reads : !*at)) {
            b->reads = *at && reads ? !b->reads : reads;
            b->turn_left = replicas_turn(b->engine.replicas);
        }
        if (b->reads ? feed_record(b, e) : feed_job(b, at, e)) return -1;
    }
    if (n) trace_span(b->trace, "read", start, clock_now());
    return 0;
}

static void trace_steps(struct batch_run *b, double start, double end)
{
    for (int i = 0; b->trace && i < replicas_n(b->engine.replicas); i++) {
        struct sched_stats stats;
        if (!replicas_has_moved(b->engine.replicas, i)) continue;
        replicas_stats_of(b->engine.replicas, i, &stats);
        trace_step(b->trace, i, start, end, &stats);
    }
}

/* Answers that were finished before a failure are kept. */
static int fail(struct batch_run *b)
{
    struct err ignored;
    (void)keep_finished(b, &ignored);
    return -1;
}

/* 0: all records answered; STOPPED; -1. */
static int loop(struct batch_run *b, struct err *e)
{
    struct sched_stats stats;
    double stop_at = 0;
    int busy = 1;
    while (busy || !b->at_end || b->turns || (b->pending && !stop_at)) {
        if (submit_pending(b, busy ? CONSTRAINT_NO_WAIT : CONSTRAINT_BRIEFLY, e) || feed(b, e))
            return -1;
        if (run_stop_requested && !stop_at) {
            double now = clock_now();
            stop_at = now + b->o->grace;
            replicas_drain(b->engine.replicas);
            trace_span(b->trace, "stopping", now, now);
        }
        double start = clock_now();
        if (stop_at && start >= stop_at) {
            if (replicas_abort(b->engine.replicas, e)) return -1;
            b->turns = NULL; /* they stay in `live` */
        }
        if ((busy = replicas_step(b->engine.replicas, e)) < 0) return fail(b);
        double end = clock_now();
        replicas_stats(b->engine.replicas, &stats);
        trace_steps(b, start, end);
        if (keep_finished(b, e) || journal_sync(b->journal, end, 0, e)) return -1;
        if (!b->journal_path && result_advance(&b->result, b->journal, b->n_slots, e)) return -1;
        meter_tick(&b->meter, &stats, 0);
        if (stop_at && !busy) return journal_count(b->journal) == b->n_slots ? 0 : STOPPED;
    }
    return 0;
}

/* ---- the end */

static int put_in_place(struct batch_run *b, struct err *e)
{
    char done[128];
    if (journal_sync(b->journal, clock_now(), 1, e) ||
        result_advance(&b->result, b->journal, b->n_slots, e) || result_finish(&b->result, e))
        return -1;
    if (!b->journal_path) return 0;
    int n = snprintf(done, sizeof done, BATCH_COMPLETION,
                     (unsigned long long)journal_errors(b->journal),
                     (unsigned long long)b->result.bytes, (unsigned long long)b->result.crc);
    return journal_complete(b->journal, done, (size_t)n, e);
}

/* What each of several cards did. */
static void report_cards(const struct batch_run *b, struct out *o)
{
    const struct engine *g = &b->engine;
    if (!g->n_cards) return;
    out_text(o, ",\"parallel_mode\":\"data\",\"devices\":[");
    for (int i = 0; i <= g->n_cards; i++) {
        struct sched_stats s;
        const char *name = cards_be(g, i)->ops->describe(cards_be(g, i));
        replicas_stats_of(g->replicas, i, &s);
        out_text(o, i ? ",{\"device\":" : "{\"device\":");
        out_int(o, b->o->engine.device_at[i]);
        out_text(o, ",\"machine\":");
        out_string(o, name, strlen(name));
        out_text(o, ",\"steps\":");
        out_int(o, (int64_t)s.n_steps);
        out_text(o, ",\"computed_prompt_tokens\":");
        out_int(o, (int64_t)s.n_prompt_tokens);
        out_text(o, ",\"completion_tokens\":");
        out_int(o, (int64_t)s.n_generated_tokens);
        out_text(o, ",\"kv_pages\":");
        out_int(o, s.n_pages);
        out_text(o, ",\"busy_seconds\":");
        out_real(o, s.busy_seconds);
        out_text(o, "}");
    }
    out_text(o, "]");
}

static int write_report(struct batch_run *b, struct err *e)
{
    struct sched_stats stats;
    struct out o = {0}, s = {0};
    replicas_stats(b->engine.replicas, &stats);
    out_text(&s, "\"model\":");
    out_string(&s, b->model_name, strlen(b->model_name));
    out_text(&s, ",\"machine\":");
    char machine[400];
    placement_describe(&b->engine.forward, machine, sizeof machine);
    out_string(&s, machine, strlen(machine));
    out_text(&s, ",\"act\":");
    out_string(&s, b->o->engine.act, strlen(b->o->engine.act));
    out_text(&s, ",\"parallel\":");
    out_int(&s, b->engine.n_seqs);
    out_text(&s, ",\"batch_size\":");
    out_int(&s, b->o->engine.n_batch);
    report_cards(b, &s);
    out_bytes(&s, "", 1);
    if (!out_failed(&s)) meter_report(&b->meter, &stats, s.p, &o);
    int rc = out_failed(&s) || out_failed(&o) ? err_memory(e) : 0;
    if (!rc) {
        fwrite(o.p, 1, o.n, side_begin(&b->report));
        rc = side_close(&b->report, e);
    }
    out_free(&s);
    out_free(&o);
    return rc;
}

/* COMPLETE: all answers are where -o says, whatever else failed. */
static void say_end(struct batch_run *b, int rc, int complete)
{
    const struct meter *m = &b->meter;
    double t = clock_now() - m->start;
    struct sched_stats s;
    char from_disk[64] = "";
    replicas_stats(b->engine.replicas, &s);
    if (b->o->engine.prefix_dir)
        snprintf(from_disk, sizeof from_disk, " (%llu from disk)",
                 (unsigned long long)s.n_stored_tokens);
    progress_clear();
    fprintf(stderr,
            "%llu of %llu record%s done, %llu of them errors; %.1f s; prompts %llu token%s%s, "
            "generated %llu (%.1f tok/s)\n",
            (unsigned long long)m->n_done, (unsigned long long)m->n_total, units_s(m->n_total),
            (unsigned long long)m->n_errors, t, (unsigned long long)m->n_prompt_tokens,
            units_s(m->n_prompt_tokens), from_disk, (unsigned long long)m->n_generated_tokens,
            (double)m->n_generated_tokens / t);
    if (rc == OK) return;
    char name[PRINTABLE];
    if (complete) fprintf(stderr, "all answers are in %s\n", printable_text(b->result.path, name));
    else if (b->journal_path)
        fprintf(stderr, "%llu of %llu answers are kept in %s; the same command continues\n",
                (unsigned long long)journal_count(b->journal), (unsigned long long)b->n_slots,
                printable_text(b->journal_path, name));
    else
        fprintf(stderr, "answers that were not written are lost: %s cannot be continued\n",
                printable_text(b->output, name));
}

/* The exit code of a run whose answers are all there. A launcher takes any code but 0 of one
 * process for the failure of the job and ends the others: with --shard auto refused records are
 * said, not returned. */
static int end_code(const struct batch_run *b)
{
    const char *shard = b->o->shard;
    return b->meter.n_errors && (!shard || strcmp(shard, "auto")) ? SOME_FAILED : OK;
}

/* The header of a table of answers. */
static int begin_table(struct batch_run *b, struct err *e)
{
    b->result.unfolds = 1;
    if (answer_table_header(&b->result.pending, &b->answer, e)) return -1;
    out_unfold(&b->result.pending, 0);
    return 0;
}

static int run(struct batch_run *b, struct err *e)
{
    const struct options *o = b->o;
    if (shard_parse(&b->shard, o->shard, e)) return FAILED;
    if (input_open(&b->input, o->input, o->output && strcmp(o->output, "-") ? o->output : NULL,
                   e) ||
        batch_scan_input(b, e))
        return FAILED;
    if (!b->n_records) {
        err_set(e, b->table ? "%s: has a header and no rows" : "%s: has no records", o->input);
        return FAILED;
    }
    if (o->chat && !b->plain) {
        err_set(e, "--chat is for lines of text: in a batch file each record's url says whether it "
                   "is a chat");
        return FAILED;
    }
    const int computes = !o->check_only && !o->estimate;
    if (computes && (batch_name_output(b, e) || batch_open_journal(b, e))) return FAILED;
    if (computes &&
        (trace_open(&b->trace, o->trace, e) || side_open(&b->report, "--report", o->report, e)))
        return FAILED;
    if (batch_open_model(b, e)) return FAILED;
    if (!computes) return o->estimate ? batch_estimate(b, e) : batch_check(b, e);
    if (engine_open(&b->engine, e)) return FAILED;
    run_say_variants(b->o, &b->engine);
    run_say_slow(b->o);
    snprintf(b->first_words, sizeof b->first_words,
             "%sstopping: running requests have %d s to end; a second signal ends at once\n",
             progress_erase(), o->grace);
    prepare_words(b);
    run_catch_signals(); /* before the journal begins: from then on there is something to continue
                          */
    if (b->journal_path) {
        int complete = batch_match_journal(b, e);
        if (complete) return complete < 0 ? FAILED : end_code(b);
    }
    if (result_open(&b->result, b->output, !b->journal_path, file_name_ends(o->output, ".gz"),
                    !strcmp(o->order, "done"), e))
        return FAILED;
    if (b->answer.format == ANSWER_TABLE && begin_table(b, e)) return FAILED;
    meter_open(&b->meter, b->n_slots, journal_count(b->journal),
               b->journal_path || !isatty(1) || strcmp(b->output, "-"));
    b->meter.n_errors = journal_errors(b->journal);
    if (b->meter.n_resumed)
        fprintf(stderr, "continuing: %llu of %llu answer%s are there\n",
                (unsigned long long)b->meter.n_resumed, (unsigned long long)b->n_slots,
                units_s(b->n_slots));
    int rc = loop(b, e), complete = 0;
    struct err late;
    if (rc == STOPPED && journal_sync(b->journal, 0, 1, e)) rc = -1;
    if (!rc) {
        rc = put_in_place(b, e);
        complete = !rc;
    }
    if (rc >= 0 && o->report && write_report(b, e)) rc = -1;
    int trace_rc = trace_close(b->trace, &late);
    b->trace = NULL;
    if (trace_rc && rc >= 0) {
        *e = late;
        rc = -1;
    }
    say_end(b, rc, complete);
    return rc < 0 ? FAILED : rc == STOPPED ? STOPPED : end_code(b);
}

int run_batch(const struct options *o, struct err *e)
{
    struct batch_run b = {.o = o, .result.fd = -1};
    struct err ignored;
    int rc = run(&b, e);
    run_say_on_signal(NULL, NULL);
    trace_close(b.trace, &ignored);
    side_close(&b.report, &ignored);
    for (struct job *j = b.live, *next; j; j = next) {
        next = j->next;
        job_close(j);
    }
    constraint_text_close(&b.constraint);
    result_close(&b.result);
    journal_close(b.journal);
    token_text_close(&b.tokens);
    breakers_close(&b.texts);
    free(b.bias);
    pooling_close(&b.pooling);
    table_close(b.table);
    chat_close(b.chat);
    json_decref(b.variables);
    job_calls_env_close(&b.calls);
    constraints_stop(b.constraints);
    engine_close(&b.engine); /* the scheduler's cursors go before their grammars */
    constraints_close(b.constraints);
    input_close(b.input);
    out_free(&b.line);
    free(b.seen);
    free(b.output);
    free(b.journal_path);
    return rc;
}
