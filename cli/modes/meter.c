#include "cli/modes/meter.h"

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TERMINAL_SECONDS 0.5
#define LOG_SECONDS 30.0
#define ENERGY_SECONDS 10.0

/* ---- times */

static void add_time(struct meter_times *t, double s)
{
    int i = s > 1e-6 ? (int)(log(s / 1e-6) / log(1.02)) : 0;
    t->count[i < METER_BUCKETS ? i : METER_BUCKETS - 1]++;
    t->n++;
    t->sum += s;
    if (s > t->max) t->max = s;
}

/* The middle of the bucket that holds the share P of all times, never more than the largest. */
static double percentile(const struct meter_times *t, double p)
{
    uint64_t before = 0, want = (uint64_t)ceil(p * (double)t->n);
    for (int i = 0; i < METER_BUCKETS && t->n; i++)
        if ((before += t->count[i]) >= want) return fmin(1e-6 * pow(1.02, i + 0.5), t->max);
    return 0;
}

/* ---- energy */

static int read_counter(const char *dir, const char *name, uint64_t *v)
{
    char path[128];
    unsigned long long x;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int ok = fscanf(f, "%llu", &x) == 1;
    fclose(f);
    if (ok) *v = x;
    return ok;
}

static void open_energy(struct meter_energy *g)
{
    for (int i = 0; i < METER_MAX_PACKAGES; i++) {
        char *path = g->package[g->n].path;
        snprintf(path, sizeof g->package[0].path, "/sys/class/powercap/intel-rapl:%d", i);
        if (read_counter(path, "energy_uj", &g->package[g->n].last) &&
            read_counter(path, "max_energy_range_uj", &g->package[g->n].range))
            g->n++;
    }
}

static void sample_energy(struct meter_energy *g)
{
    for (int i = 0; i < g->n; i++) {
        uint64_t v, last = g->package[i].last;
        if (!read_counter(g->package[i].path, "energy_uj", &v)) continue;
        g->joules += (double)(v >= last ? v - last : v + g->package[i].range - last) * 1e-6;
        g->package[i].last = v;
    }
}

/* ---- what is shown */

void meter_open(struct meter *m, uint64_t n_total, uint64_t n_resumed, int terminal)
{
    memset(m, 0, sizeof *m);
    m->start = m->shown = m->sampled = clock_now();
    m->terminal = terminal && progress_terminal();
    m->shown -= LOG_SECONDS * m->terminal; /* there at once */
    m->n_total = n_total;
    m->n_done = m->n_resumed = n_resumed;
    open_energy(&m->energy);
}

void meter_answer(struct meter *m, int prompt, int generated, double latency, double first_token)
{
    m->n_prompt_tokens += (uint64_t)prompt;
    m->n_generated_tokens += (uint64_t)generated;
    add_time(&m->latency, latency);
    if (first_token >= 0) add_time(&m->first_token, first_token);
}

double meter_left(const struct meter *m, const struct sched_stats *s, double t)
{
    double ran = (double)(m->n_done - m->n_resumed), answers = (double)m->latency.n,
           tokens = (double)m->n_generated_tokens;
    if (!answers) return -1;
    /* Of those that run, each is done as far as it has tokens of an answer's mean number. */
    double done = tokens > 0 ? fmax(answers, (double)s->n_generated_tokens * answers / tokens)
                             : answers;
    double left = answers + (double)(m->n_total - m->n_done) * answers / ran - done;
    return left > 0 ? t * left / done : 0;
}

void meter_tick(struct meter *m, const struct sched_stats *s, int force)
{
    double now = clock_now(), t = now - m->start;
    if (now - m->sampled >= ENERGY_SECONDS) {
        sample_energy(&m->energy);
        m->sampled = now;
    }
    if (!force && now - m->shown < (m->terminal ? TERMINAL_SECONDS : LOG_SECONDS)) return;
    m->shown = now;
    enum { DONE, ERRORS, LEFT, OUT, SEQUENCES, IN, PAGES, DRAFTS, N_PARTS };
    char part[N_PARTS][64] = {""};
    const char *parts[N_PARTS];
    double left = meter_left(m, s, t);
    snprintf(part[DONE], sizeof part[0], "%llu/%llu done", (unsigned long long)m->n_done,
             (unsigned long long)m->n_total);
    if (left >= 0) progress_duration(left, part[LEFT]);
    if (m->n_errors)
        snprintf(part[ERRORS], sizeof part[0], "%llu error%s", (unsigned long long)m->n_errors,
                 m->n_errors == 1 ? "" : "s");
    if (s->n_steps) {
        snprintf(part[OUT], sizeof part[0], "%.1f tok/s", (double)s->n_generated_tokens / t);
        snprintf(part[IN], sizeof part[0], "prompts %.1f tok/s", (double)s->n_prompt_tokens / t);
    }
    snprintf(part[SEQUENCES], sizeof part[0], "%d running, %d waiting", s->n_running, s->n_waiting);
    snprintf(part[PAGES], sizeof part[0], "KV pages %d/%d", s->n_pages_used, s->n_pages);
    if (s->n_drafted_tokens)
        snprintf(part[DRAFTS], sizeof part[0], "drafts %llu, %.0f%% right",
                 (unsigned long long)s->n_drafted_tokens,
                 100 * (double)s->n_accepted_tokens / (double)s->n_drafted_tokens);
    for (int i = 0; i < N_PARTS; i++) parts[i] = part[i];
    if (m->terminal) progress_draw(parts, N_PARTS);
    else progress_log(parts, N_PARTS);
}

static void put_real(struct out *o, const char *name, double v)
{
    char s[96];
    snprintf(s, sizeof s, ",\"%s\":%.9g", name, isfinite(v) ? v : 0);
    out_text(o, s);
}

static void put_count(struct out *o, const char *name, uint64_t v)
{
    char s[96];
    snprintf(s, sizeof s, ",\"%s\":%llu", name, (unsigned long long)v);
    out_text(o, s);
}

static void put_times(struct out *o, const char *name, const struct meter_times *t)
{
    char s[256];
    snprintf(
        s, sizeof s,
        ",\"%s\":{\"n\":%llu,\"mean\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g,\"max\":%.6g}",
        name, (unsigned long long)t->n, t->n ? t->sum / (double)t->n : 0, percentile(t, .5),
        percentile(t, .9), percentile(t, .99), t->max);
    out_text(o, s);
}

void meter_report(struct meter *m, const struct sched_stats *s, const char *settings, struct out *o)
{
    double t = clock_now() - m->start;
    sample_energy(&m->energy);
    out_text(o, "{");
    out_text(o, settings);
    put_count(o, "records", m->n_total);
    put_count(o, "done", m->n_done);
    put_count(o, "errors", m->n_errors);
    put_count(o, "from_an_earlier_run", m->n_resumed);
    put_real(o, "elapsed_time", t);
    put_real(o, "forward_seconds",
             s->forward_seconds); /* the rest is reading, scheduling, sampling and writing */
    put_real(o, "requests_per_second", (double)(m->n_done - m->n_resumed) / t);
    put_count(o, "total_num_tokens", m->n_prompt_tokens + m->n_generated_tokens);
    put_real(o, "tokens_per_second", (double)(m->n_prompt_tokens + m->n_generated_tokens) / t);
    put_count(o, "prompt_tokens", m->n_prompt_tokens);
    put_count(o, "completion_tokens", m->n_generated_tokens);
    put_real(o, "completion_tokens_per_second", (double)m->n_generated_tokens / t);
    put_count(o, "computed_prompt_tokens", s->n_prompt_tokens);
    put_count(o, "cached_prompt_tokens", s->n_cached_tokens);
    put_count(o, "prompt_tokens_from_disk", s->n_stored_tokens);
    put_count(o, "steps", s->n_steps);
    put_count(o, "preemptions", s->n_preemptions);
    put_count(o, "draft_tokens", s->n_drafted_tokens);
    put_count(o, "accepted_draft_tokens", s->n_accepted_tokens);
    put_count(o, "mtp_draft_tokens", s->n_mtp_tokens);
    put_count(o, "accepted_mtp_draft_tokens", s->n_mtp_right);
    put_real(o, "steps_saved", s->steps_saved);
    put_count(o, "kv_pages", (uint64_t)s->n_pages);
    if (s->n_states) put_count(o, "state_slots", (uint64_t)s->n_states);
    if (s->n_states) put_count(o, "state_bytes", s->state_bytes);
    put_times(o, "latency_seconds", &m->latency);
    put_times(o, "first_token_seconds", &m->first_token);
    put_count(o, "peak_memory_bytes", memory_peak());
    if (m->energy.n) put_real(o, "energy_joules", m->energy.joules);
    else out_text(o, ",\"energy_joules\":null");
    out_text(o, "}\n");
}
