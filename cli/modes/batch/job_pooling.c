#include "cli/modes/batch/job_internal.h"

#include "cli/modes/batch/record_pooling.h"
#include "engine/pooling.h"
#include "core/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse_text(struct refusal *why, const char *field, const char *text)
{
    struct err inner;
    if (field) err_set(&inner, "%s: %s", field, text);
    else err_set(&inner, "%s", text);
    return job_refuse(why, field, &inner);
}

/* ---- what the record asks for */

static int check_dimensions(const struct pooling *p, int n, struct refusal *why)
{
    char text[128];
    int known = !p->n_dimensions || n == p->dim;
    for (int i = 0; i < p->n_dimensions; i++) known |= p->dimensions[i] == n;
    if (n <= p->dim && known && (p->may_cut || n == p->dim)) return 0;
    if (n > p->dim) snprintf(text, sizeof text, "the model's vectors have %d elements", p->dim);
    else
        snprintf(text, sizeof text, "the model's config.json does not offer vectors of %d elements",
                 n);
    return refuse_text(why, "dimensions", text);
}

int job_check_pooling(const struct job *j, struct refusal *why)
{
    const struct record *r = &j->record;
    const struct pooling *p = j->env->pooling;
    int pairs = r->kind != RECORD_EMBEDDING;
    if (pairs && p->ranks) return p->wrong_pair[0] ? refuse_text(why, NULL, p->wrong_pair) : 0;
    if (p->wrong[0]) return refuse_text(why, NULL, p->wrong);
    if (pairs && r->pooling.instruction)
        return refuse_text(why, "instruction",
                           "is for scores by yes and no, this model's are "
                           "cosines: write it into the text");
    return r->pooling.dimensions ? check_dimensions(p, r->pooling.dimensions, why) : 0;
}

/* ---- prompts of pairs */

/* The variables of the template beside query and document; *extra is a new reference or NULL. */
static int variables(const struct record *r, json_t **extra, struct err *e)
{
    *extra = NULL;
    if (!r->kwargs && !r->pooling.instruction) return 0;
    *extra = r->kwargs ? json_copy((json_t *)r->kwargs) : json_object();
    if (r->pooling.instruction)
        json_object_set(*extra, "instruction", (json_t *)r->pooling.instruction);
    return !*extra || json_check(e) ? err_memory(e) : 0;
}

static int render_pair(struct job *j, size_t i, const json_t *extra, struct refusal *why,
                       struct err *e)
{
    const struct record_pooling *p = &j->record.pooling;
    const json_t *query = record_pooling_text(p->a, record_pooling_count(p->a) > 1 ? i : 0),
                 *document = record_pooling_text(p->b, i);
    struct err inner = {0};
    char *text = NULL;
    size_t bytes = 0;
    int rc = pooling_render(j->env->pooling, query, document, extra, &text, &bytes, &inner);
    if (rc) json_check(&inner);
    if (rc && !err_is_memory(&inner)) rc = job_refuse(why, p->b_field, &inner);
    else if (rc) *e = inner;
    else rc = job_encode(j, text, bytes, &j->prompt[i], why, e);
    free(text);
    return rc;
}

int job_read_pairs(struct job *j, struct refusal *why, struct err *e)
{
    struct record *r = &j->record;
    const struct record_pooling *p = &r->pooling;
    size_t a = record_pooling_count(p->a), b = record_pooling_count(p->b);
    int ranks = j->env->pooling->ranks, rc = 0;
    json_t *extra;
    size_t n = ranks ? b : a + b;
    if (n > RECORD_MAX_CHOICES) return refuse_text(why, p->b_field, "more than 65536 texts");
    if (job_add_prompts(j, (int)n, e) || variables(r, &extra, e)) return -1;
    if (ranks) r->add_special = 0; /* the template spells them out */
    for (size_t i = 0; i < n && !rc; i++) {
        if (ranks) {
            rc = render_pair(j, i, extra, why, e);
            continue;
        }
        const json_t *text = i < a ? record_pooling_text(p->a, i)
                                   : record_pooling_text(p->b, i - a);
        rc = job_encode(j, json_string_value(text), json_string_length(text), &j->prompt[i], why,
                        e);
    }
    json_decref(extra);
    j->n_first = ranks ? 0 : (int)a;
    return rc;
}

/* ---- the answer's size */

static int n_elements(const struct job *j)
{
    int n = j->record.pooling.dimensions;
    return n ? n : j->env->pooling->dim;
}

uint64_t job_pooled_bytes(const struct job *j)
{
    const struct record *r = &j->record;
    uint64_t bytes = 0, n = (uint64_t)j->n_prompts;
    if (r->kind == RECORD_EMBEDDING)
        return n * (64 + (uint64_t)n_elements(j) * (r->pooling.base64 ? 6 : 16));
    if (!j->env->pooling->ranks) bytes = n * (uint64_t)n_elements(j) * sizeof(float);
    for (size_t i = 0; r->pooling.b && i < record_pooling_count(r->pooling.b); i++)
        bytes += 96 + json_string_length(record_pooling_text(r->pooling.b, i));
    return bytes;
}

/* ---- requests and what comes back */

static int on_hidden(void *arg, int pos, const float *hidden, struct err *e)
{
    struct job_prompt *p = arg;
    int dim = p->job->env->pooling->dim;
    (void)pos;
    if (!p->sum && !(p->sum = calloc((size_t)dim, sizeof *p->sum))) return err_memory(e);
    for (int i = 0; i < dim; i++) p->sum[i] += (double)hidden[i];
    p->n_rows++;
    return 0;
}

static int on_logits(void *arg, int pos, const float *logits, struct err *e)
{
    struct job_prompt *p = arg;
    const struct pooling *by = p->job->env->pooling;
    (void)pos, (void)e;
    p->yes = logits[by->yes];
    p->no = logits[by->no];
    return 0;
}

static int on_finished(void *arg, int choice, enum finish why, struct err *e)
{
    struct job_prompt *p = arg;
    (void)choice, (void)e;
    if (why == FINISH_ABORTED) p->job->aborted = 1;
    return 0;
}

/* Makes the vector. *finite 0: the model overflowed. */
static int make_vector(struct job_prompt *p, int *finite, struct err *e)
{
    const struct job *j = p->job;
    const struct record *r = &j->record;
    int n = n_elements(j), norm = j->env->pooling->norm;
    if (r->kind != RECORD_EMBEDDING) norm = EMBEDDING_NO_NORM; /* a cosine has no use for one */
    else if (r->pooling.norm != RECORD_NO_NORM) norm = r->pooling.norm;
    if (!(p->vector = malloc((size_t)n * sizeof *p->vector))) return err_memory(e);
    *finite = !embedding_make(p->sum, n, p->n_rows, norm, p->vector);
    free(p->sum);
    p->sum = NULL;
    return 0;
}

static int on_done(void *arg, const char *msg, struct err *e)
{
    struct job_prompt *p = arg;
    int finite = 1;
    if (!msg && p->sum && make_vector(p, &finite, e)) return -1;
    if (!msg && !p->request.hidden_end && !p->job->aborted)
        finite = isfinite(p->yes) && isfinite(p->no);
    return job_end_prompt(p, finite ? msg
                                    : "the model's results are not finite: the checkpoint is "
                                      "damaged or overflows");
}

static int on_prompt_token(void *arg, int pos, const struct token_info *t, struct err *e)
{
    (void)arg, (void)pos, (void)t, (void)e;
    return 0;
}

static int on_token(void *arg, int choice, const struct token_info *t, struct err *e)
{
    (void)arg, (void)choice, (void)t, (void)e;
    return 0;
}

static const struct request_sink vector_sink = {.prompt_token = on_prompt_token,
                                                .prompt_hidden = on_hidden,
                                                .token = on_token,
                                                .finished = on_finished,
                                                .done = on_done},
                                 rank_sink = {.prompt_token = on_prompt_token,
                                              .prompt_logits = on_logits,
                                              .token = on_token,
                                              .finished = on_finished,
                                              .done = on_done};

void job_make_pooled(struct job *j)
{
    const struct pooling *by = j->env->pooling;
    int ranks = j->record.kind != RECORD_EMBEDDING && by->ranks;
    for (int i = 0; i < j->n_prompts; i++) {
        struct job_prompt *p = &j->prompt[i];
        int n = (int)p->ids.n;
        p->request = (struct request){.prompt = p->ids.id,
                                      .n_prompt = n,
                                      .n_choices = 1,
                                      .n_top = -1,
                                      .prompt_top = -1,
                                      .show_from = n - 1,
                                      .sampling = j->record.sampling,
                                      .sink = ranks ? &rank_sink : &vector_sink,
                                      .arg = p};
        if (ranks) continue;
        p->request.hidden_from = by->kind == POOLING_LAST ? n - 1 : 0;
        p->request.hidden_end = by->kind == POOLING_CLS ? 1 : n;
    }
    j->n_running = j->n_prompts;
}
