#include "cli/modes/batch/trace.h"

#include "cli/outputs.h"

#include <stdio.h>
#include <stdlib.h>

struct trace {
    struct side_file side;
    FILE *f;                           /* side's; empty until the first event */
    double origin;                     /* seconds; the first event's */
    struct sched_stats last[REPLICAS]; /* by card */
    int n;
};

int trace_open(struct trace **result, const char *path, struct err *e)
{
    *result = NULL;
    if (!path) return 0;
    struct trace *t = calloc(1, sizeof *t);
    if (!t) return err_memory(e);
    if (side_open(&t->side, "--trace", path, e)) {
        free(t);
        return -1;
    }
    *result = t;
    return 0;
}

/* Microseconds since the first event. */
static double at(struct trace *t, double seconds)
{
    if (!t->n) t->origin = seconds;
    return (seconds - t->origin) * 1e6;
}

static void begin(struct trace *t)
{
    if (!t->f) t->f = side_begin(&t->side);
    fputs(t->n++ ? ",\n" : "[\n", t->f);
}

void trace_step(struct trace *t, int card, double start, double end, const struct sched_stats *s)
{
    if (!t) return;
    struct sched_stats *last = &t->last[card];
    double ts = at(t, start);
    char which[24] = "";
    if (card) snprintf(which, sizeof which, " %d", card);
    begin(t);
    fprintf(
        t->f,
        "{\"name\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.1f,\"dur\":%.1f,\"args\":"
        "{\"prompt\":%llu,\"decode\":%llu,"
        "\"cached\":%llu,\"preempted\":%llu}}",
        card + 1, ts, (end - start) * 1e6,
        (unsigned long long)(s->n_prompt_tokens - last->n_prompt_tokens),
        (unsigned long long)(s->n_generated_tokens - last->n_generated_tokens),
        (unsigned long long)(s->n_cached_tokens - last->n_cached_tokens),
        (unsigned long long)(s->n_preemptions - last->n_preemptions));
    begin(t);
    fprintf(t->f,
            "{\"name\":\"scheduler%s\",\"ph\":\"C\",\"pid\":1,\"ts\":%.1f,\"args\":{\"running\":%d,"
            "\"waiting\":%d,\"KV pages\":%d}}",
            which, ts, s->n_running, s->n_waiting, s->n_pages_used);
    *last = *s;
}

void trace_span(struct trace *t, const char *what, double start, double end)
{
    if (!t) return;
    double ts = at(t, start);
    begin(t);
    fprintf(t->f, "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%.1f,\"dur\":%.1f}",
            what, ts, (end - start) * 1e6);
}

void trace_request(struct trace *t, uint64_t index, double start, double first_token, double end,
                   int prompt, int generated)
{
    if (!t) return;
    double ts = at(t, start);
    const char *form = "{\"name\":\"%s\",\"cat\":\"request\",\"ph\":\"%c\",\"id\":%llu,\"pid\":1,"
                       "\"tid\":1,\"ts\":%.1f";
    unsigned long long id = index;
    begin(t);
    fprintf(t->f, form, "request", 'b', id, ts);
    fprintf(t->f, ",\"args\":{\"record\":%llu,\"prompt\":%d,\"generated\":%d}}", id, prompt,
            generated);
    if (first_token > 0) {
        begin(t);
        fprintf(t->f, form, "first token", 'n', id, at(t, first_token));
        fputs("}", t->f);
    }
    begin(t);
    fprintf(t->f, form, "request", 'e', id, at(t, end));
    fputs("}", t->f);
}

int trace_close(struct trace *t, struct err *e)
{
    if (!t) return 0;
    if (t->f) fputs("\n]\n", t->f);
    int rc = side_close(&t->side, e);
    free(t);
    return rc;
}
