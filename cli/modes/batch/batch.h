/* batch.h: what the files of the batch mode share: batch_open.c (opening), batch.c (the loop, the
 * end), batch_check.c (--check) and batch_estimate.c (--estimate). Owns: one run over one input
 * file. Must not know: how answers are computed, written or kept. */
#ifndef CLI_MODES_BATCH_BATCH_H
#define CLI_MODES_BATCH_BATCH_H

#include "cli/modes/batch/answer.h"
#include "engine/engine.h"
#include "cli/modes/batch/input.h"
#include "cli/modes/batch/journal.h"
#include "cli/modes/batch/manifest.h"
#include "engine/pooling.h"
#include "cli/modes/meter.h"
#include "cli/modes/batch/result.h"
#include "cli/modes/batch/table.h"
#include "cli/outputs.h"
#include "cli/modes/batch/trace.h"

/* What the journal ends with when the output is complete. */
#define BATCH_COMPLETION "{\"errors\":%llu,\"bytes\":%llu,\"crc32\":%llu}\n"

struct batch_run {
    const struct options *o;
    struct chat *chat;
    json_t *variables;     /* of its template, or NULL */
    uint32_t template_crc; /* of --chat-template-file */
    int64_t started;       /* when the run was first begun */
    struct token_text tokens;
    struct breaker_texts texts; /* for DRY */
    struct constraints *constraints;
    struct job_calls_env calls;
    struct constraint_text constraint; /* of the command line */
    struct sampler_bias *bias;         /* of --logit-bias */
    uint64_t seed;                     /* of the run: a drawn one is that of its first start */
    struct engine engine;
    struct input *input;
    int plain;                                /* a prompt a line, or a row */
    struct table *table;                      /* NULL: lines are no rows */
    uint64_t input_bytes, n_records, n_slots; /* of the whole input; slots: records of this shard */
    uint32_t input_crc;
    struct shard shard;
    struct record_defaults defaults;
    struct pooling pooling;
    int may_pool; /* some line may ask for an embedding or a score */
    struct job_env env;
    struct answer_env answer;
    char model_name[256];

    char *output, *journal_path; /* with the shard's suffix; journal_path NULL for a stream */
    struct journal *journal;
    struct result result;
    struct meter meter;
    struct trace *trace;
    struct side_file report;

    uint64_t n_read; /* records of the input read by the loop */
    int at_end;
    uint64_t held;               /* bytes of `live`, about */
    struct job *live, *finished; /* in the scheduler; handed back and not yet answered */
    struct job *pending;         /* of `live`: their grammars are being compiled */
    int n_pending;
    /* of `live`: the scheduler does not know all their prompts; they and the next records of the
     * input are submitted by turns */
    struct job *turns;
    int n_large;          /* of `live`: more choices than a turn has */
    int reads, turn_left; /* 1: the input's turn, 0: the first one's of `turns` */
    struct out line;
    uint64_t *seen; /* [n_seen] hash set of custom_ids, 0: free */
    uint64_t n_seen;
    int warned_of_duplicate;
    char first_words[128], last_words[2][4096]; /* on signals */
    unsigned n_words;
};

/* Reads all records and prints those that would fail. Returns the exit code. */
int batch_check(struct batch_run *b, struct err *e);
/* Reads all records and prints what a run would compute and how long that takes, likewise. */
int batch_estimate(struct batch_run *b, struct err *e);
/* The next record of this shard. 1: *line and *slot; 0: the end of the input. */
int batch_next(struct batch_run *b, struct input_line *line, uint64_t *slot, struct err *e);
/* Warns once when a custom_id comes twice. */
void batch_see_id(struct batch_run *b, const struct record *r);

/* batch_open.c. Each -1: *e. Reads all the input once: records, checksum, kind of lines. */
int batch_scan_input(struct batch_run *b, struct err *e);
/* The output's name and its journal's, with the shard's suffix. */
int batch_name_output(struct batch_run *b, struct err *e);
/* The model, and what is read of it once for all records. */
int batch_open_model(struct batch_run *b, struct err *e);
int batch_open_journal(struct batch_run *b, struct err *e);
/* Begins or continues the journal. 1: the output is complete already. */
int batch_match_journal(struct batch_run *b, struct err *e);

#endif
