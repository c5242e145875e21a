/* meter.h: what a person sees of a batch while it runs and afterwards: a progress line on a
 * terminal, a line every 30 s elsewhere, --report as JSON. Owns: counters and clocks. Must not
 * know: records, files of answers. */
#ifndef CLI_MODES_METER_H
#define CLI_MODES_METER_H

#include "cli/text/out.h"
#include "core/sched/scheduler.h"

#include <stdint.h>

/* Times in buckets 2% apart from a microsecond to 11 days: percentiles in fixed memory. */
enum { METER_BUCKETS = 1396 };
struct meter_times {
    uint32_t count[METER_BUCKETS];
    uint64_t n;
    double sum, max;
};

/* Joules by the processor packages' own counters (RAPL), added up before they wrap. */
enum { METER_MAX_PACKAGES = 16 };
struct meter_energy {
    int n; /* packages read; 0: none may be read */
    struct {
        char path[80];
        uint64_t last, range; /* microjoules */
    } package[METER_MAX_PACKAGES];
    double joules;
};

struct meter {
    double start, shown, sampled; /* seconds of clock_now */
    int terminal;
    uint64_t n_total, n_done, n_errors,
        n_resumed; /* done includes errors and what an earlier run left */
    uint64_t n_prompt_tokens, n_generated_tokens; /* of this run's answers */
    struct meter_times latency, first_token;
    struct meter_energy energy;
};

/* TERMINAL 0: no line is drawn over itself, because answers go to the same terminal. */
void meter_open(struct meter *m, uint64_t n_total, uint64_t n_resumed, int terminal);
/* An answer: its tokens; seconds from submission to its end, and to its first token (< 0: none). */
void meter_answer(struct meter *m, int prompt, int generated, double latency, double first_token);
/* Shows where the run stands when it is time to (force: now). */
void meter_tick(struct meter *m, const struct sched_stats *s, int force);
/* Seconds that are left after T of them, or -1 when that is not known: by tokens, so that it does
 * not jump when a record ends. */
double meter_left(const struct meter *m, const struct sched_stats *s, double t);
/* The run as a JSON object, with `settings` (members, already JSON) first. */
void meter_report(struct meter *m, const struct sched_stats *s, const char *settings,
                  struct out *o);

#endif
