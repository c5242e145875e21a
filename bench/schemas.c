/* schemas.c: JSON schemas of a file, as JSONSchemaBench and MaskBench have them (Geng et al. 2025):
 * which are served, whether their instances are judged rightly, how long the masks along valid
 * instances take. One thread, processor time. Instances are spelled with ", " and ": ", characters
 * as UTF-8. Must not know: how masks are made. */
#include "bench/bench.h"
#include "engine/vocabulary.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/base/json_span.h"
#include "core/base/printable.h"
#include "core/grammar/grammar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { MAX_LINE = 64 << 20, MIN_LINE = 1 << 16 };

struct times {
    float *us; /* [n] */
    size_t n, cap;
};

struct result {
    int schemas, served, valid, valid_refused, invalid, invalid_accepted;
    json_t *refused_by; /* reason -> number of schemas */
    struct times masks, first;
    double compile_us;
};

struct schemas {
    const struct vocab *vocab;
    const struct tokenizer *tokenizer;
    uint32_t *mask; /* [vocab_n / 32] */
    struct tok_ids ids;
    struct result r;
};

static int add_time(struct times *t, double seconds, struct err *e)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 4096;
        float *us = realloc(t->us, cap * sizeof *us);
        if (!us) return err_memory(e);
        t->us = us;
        t->cap = cap;
    }
    t->us[t->n++] = (float)(seconds * 1e6);
    return 0;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double mean(const struct times *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->n; i++) sum += t->us[i];
    return t->n ? sum / (double)t->n : 0;
}

/* The smallest time that a share of all do not exceed; sorted. */
static double quantile(const struct times *t, double share)
{
    if (!t->n) return 0;
    double at = ceil(share * (double)t->n) - 1;
    return t->us[at < 0 ? 0 : (size_t)at];
}

/* ---- one schema */

/* The last part of a refusal's path that is a keyword of JSON Schema: "#: a: b: keyword: what". */
static void count_refusal(struct result *r, const char *why)
{
    static const char keywords[] =
        " $ref additionalItems additionalProperties allOf anyOf const contains dependencies "
        "dependentRequired dependentSchemas else enum exclusiveMaximum exclusiveMinimum format if "
        "items maxContains maxItems maxLength maxProperties maximum minContains minItems minLength "
        "minProperties minimum multipleOf not oneOf pattern patternProperties prefixItems "
        "properties propertyNames required then type unevaluatedItems unevaluatedProperties "
        "uniqueItems ";
    char keyword[48] = "other", part[48];
    for (const char *p = why, *end; (end = strstr(p, ": ")); p = end + 2) {
        int n = snprintf(part, sizeof part, " %.*s ", (int)(end - p), p);
        if (n < (int)sizeof part && strstr(keywords, part))
            snprintf(keyword, sizeof keyword, "%.*s", (int)(end - p), p);
    }
    json_object_set_new(
        r->refused_by, keyword,
        json_integer(1 + json_integer_value(json_object_get(r->refused_by, keyword))));
}

/* 1: the grammar reads TEXT [n] to its end and may end there; -1: *e. */
static int is_document(struct grammar_cursor *c, const char *text, size_t n, struct err *e)
{
    grammar_cursor_reset(c);
    int rc = grammar_accept(c, text, n, e);
    return rc <= 0 ? rc : grammar_may_end(c);
}

/* 1: these tokens are TEXT [n], from the first one on that is not of a space or an end of line. */
static int spell(const struct schemas *s, const char *text, size_t n, size_t *first)
{
    size_t at = 0, bytes;
    const char *t;
    for (*first = 0; *first < s->ids.n; ++*first)
        if ((t = vocab_token(s->vocab, s->ids.id[*first], &bytes)) &&
            !(bytes == 1 && (*t == ' ' || *t == '\n')))
            break;
    for (size_t i = *first; i < s->ids.n; i++) {
        if (!(t = vocab_token(s->vocab, s->ids.id[i], &bytes))) return 0;
        if (bytes > n - at || memcmp(t, text + at, bytes)) return 0;
        at += bytes;
    }
    return at == n;
}

/* The tokens of a document, from *first on. SentencePiece puts a space in front of a text's first
 * token, so that the document then stands behind an end of line. */
static int encode(struct schemas *s, const char *text, size_t n, size_t *first, struct err *e)
{
    s->ids.n = 0;
    if (tok_encode(s->tokenizer, text, n, 0, &s->ids, e)) return -1;
    if (spell(s, text, n, first)) return 0;
    char *behind = malloc(n + 1);
    if (!behind) return err_memory(e);
    behind[0] = '\n';
    memcpy(behind + 1, text, n);
    s->ids.n = 0;
    int rc = tok_encode(s->tokenizer, behind, n + 1, 0, &s->ids, e);
    free(behind);
    if (!rc && !spell(s, text, n, first)) *first = 0;
    return rc;
}

/* Times the masks along a document; 1: each allowed the token that came; 0: one did not. */
static int follow(struct schemas *s, struct grammar_cursor *c, const char *text, size_t n,
                  struct err *e)
{
    int n_allowed, rc = 1;
    size_t first;
    grammar_cursor_reset(c);
    if (encode(s, text, n, &first, e)) return -1;
    for (size_t i = first; i < s->ids.n && rc == 1; i++) {
        int32_t id = s->ids.id[i];
        double start = clock_thread();
        if (grammar_mask(c, s->mask, &n_allowed, NULL, e)) return -1;
        if (add_time(&s->r.masks, clock_thread() - start, e)) return -1;
        if (!(s->mask[id / 32] >> id % 32 & 1)) return 0;
        rc = grammar_accept_token(c, id, e);
    }
    return rc == 1 ? grammar_may_end(c) : rc;
}

static int try_instances(struct schemas *s, struct grammar_cursor *c, const char *name,
                         json_t *tests, struct err *e)
{
    json_t *test;
    size_t i;
    json_array_foreach (tests, i, test) {
        int valid = json_is_true(json_object_get(test, "valid"));
        char shown[PRINTABLE];
        char *data = json_dumps(json_object_get(test, "data"),
                                JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (!data) continue; /* a test without data */
        int rc = valid ? follow(s, c, data, strlen(data), e)
                       : is_document(c, data, strlen(data), e);
        if (rc >= 0 && rc != valid)
            fprintf(stderr, "%s, test %zu: a%s instance is %s\n", printable_text(name, shown), i,
                    valid ? " valid" : "n invalid", valid ? "refused" : "accepted");
        free(data);
        if (rc < 0) return -1;
        s->r.valid += valid;
        s->r.invalid += !valid;
        s->r.valid_refused += valid && !rc;
        s->r.invalid_accepted += !valid && rc;
    }
    return 0;
}

/* line: that of the record; its schema is taken as the line spells it, with all digits. */
static int try_schema(struct schemas *s, json_t *record, const char *line, struct err *e)
{
    const char *name = json_string_value(json_object_get(record, "name"));
    const char *end = line + strlen(line), *text = json_span_space(line, end);
    if (!json_span_member(&text, &end, "schema"))
        return err_set(e, "a line without \"schema\"");
    const struct grammar_spec spec = {.kind = GRAMMAR_SCHEMA,
                                      .text = text,
                                      .bytes = (size_t)(end - text),
                                      .order = JSON_ORDER_ANY, /* instances have any */
                                      .space = JSON_SPACE_ANY};
    struct grammar *g;
    struct grammar_cursor *c;
    struct err why = {0};
    int n_allowed, rc = 0;
    double start = clock_thread();
    s->r.schemas++;
    if (grammar_open(&g, &spec, s->vocab, &why)) {
        if (err_is_memory(&why)) return err_memory(e);
        count_refusal(&s->r, why.msg);
        return 0;
    }
    double compiled = clock_thread() - start;
    s->r.compile_us += compiled * 1e6;
    s->r.served++;
    if (grammar_cursor_open(&c, g, e)) rc = -1;
    else {
        start = clock_thread();
        rc = grammar_mask(c, s->mask, &n_allowed, NULL, e);
        if (!rc) rc = add_time(&s->r.first, compiled + clock_thread() - start, e);
        if (!rc) rc = try_instances(s, c, name ? name : "-", json_object_get(record, "tests"), e);
        grammar_cursor_close(c);
    }
    grammar_close(g);
    return rc;
}

/* ---- all of them */

/* A line without its end, 0: none is left. */
static int read_line(gzFile f, char **line, size_t *cap, struct err *e)
{
    size_t n = 0;
    for (;;) {
        if (*cap - n < 2) {
            size_t more = *cap ? 2 * *cap : MIN_LINE;
            if (more > MAX_LINE) return err_set(e, "a line beyond 64 MiB");
            char *p = realloc(*line, more);
            if (!p) return err_memory(e);
            *line = p;
            *cap = more;
        }
        if (!gzgets(f, *line + n, (int)(*cap - n))) return n > 0;
        n += strlen(*line + n);
        if (n && (*line)[n - 1] == '\n') return 1;
    }
}

static int read_all(struct schemas *s, const char *file, struct err *e)
{
    gzFile f = gzopen(file, "rb");
    char *line = NULL;
    size_t cap = 0;
    int rc, number = 0;
    if (!f) return err_sys(e, "%s", file);
    while ((rc = read_line(f, &line, &cap, e)) == 1) {
        struct err why = {0};
        json_t *record;
        number++;
        if (!line[strspn(line, " \t\r\n")]) continue;
        record = json_read(line, strlen(line), JSON_ALLOW_NUL, NULL, &why);
        if (!record && !err_is_memory(&why)) /* perhaps an integer beyond 64 bits */
            record = json_read(line, strlen(line), JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL,
                               &why);
        if (!record && err_is_memory(&why)) rc = err_memory(e);
        else if (!record) fprintf(stderr, "%s:%d: %s; left out\n", file, number, why.msg);
        else if (try_schema(s, record, line, e)) rc = err_prefix(e, "%s:%d", file, number);
        json_decref(record);
        if (rc < 0) break;
    }
    free(line);
    gzclose(f);
    return rc;
}

static void put_table(struct out *out, const struct result *r, struct err *e)
{
    static const char *const heading[] = {
        "schemas:", "served", "valid refused", "invalid accepted", "mask us mean",
        "p50",      "p99",    "max",           "first mask us"};
    if (out_table(out, 9, heading, e) || out_row(out, e)) return;
    out_cell(out, 0, "%d", r->schemas);
    out_cell(out, 1, "%d", r->served);
    out_cell(out, 2, "%d of %d", r->valid_refused, r->valid);
    out_cell(out, 3, "%d of %d", r->invalid_accepted, r->invalid);
    out_cell(out, 4, "%.1f", mean(&r->masks));
    out_cell(out, 5, "%.1f", quantile(&r->masks, 0.5));
    out_cell(out, 6, "%.0f", quantile(&r->masks, 0.99));
    out_cell(out, 7, "%.0f", quantile(&r->masks, 1));
    out_cell(out, 8, "%.0f", mean(&r->first));
    out_print(out, NULL);
}

static void put_refusals(const struct result *r)
{
    const char *keyword;
    json_t *count;
    if (json_object_size(r->refused_by)) printf("\nrefused by:");
    json_object_foreach (r->refused_by, keyword, count)
        printf(" %s %d", keyword, (int)json_integer_value(count));
    if (json_object_size(r->refused_by)) printf("\n");
}

/* One object, in every format but md. */
static int put_record(struct out *out, struct result *r, struct err *e)
{
    json_t *o = json_pack(
        "{s:i, s:i, s:i, s:O, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "schemas",
        r->schemas, "served", r->served, "refused", r->schemas - r->served, "refused_by",
        r->refused_by, "valid", r->valid, "valid_refused", r->valid_refused, "invalid", r->invalid,
        "invalid_accepted", r->invalid_accepted, "mask_us_mean", mean(&r->masks), "mask_us_p50",
        quantile(&r->masks, 0.5), "mask_us_p99", quantile(&r->masks, 0.99), "mask_us_max",
        quantile(&r->masks, 1), "first_mask_us_mean", mean(&r->first), "compile_us_mean",
        r->served ? r->compile_us / r->served : 0.0);
    json_object_set_new(o, "masks", json_integer((json_int_t)r->masks.n));
    out->is_alone = 1;
    return out_record(out, o, e);
}

/* Tokens that end an answer, [m->config.n_eos] at most, to eos; returns how many. An ordinary token
 * of text is none here, though the configuration of a made-up model may say so: documents need it. */
static int ends_of_text(const struct model *m, const struct tokenizer *t, int32_t *eos)
{
    int n = 0;
    for (int i = 0; i < m->config.n_eos; i++) {
        int32_t id = m->config.eos[i];
        if (tok_is_special(t, id)) eos[n++] = id;
        else fprintf(stderr, "opt4gptq-bench: token %d ends no text here: it is not special\n", id);
    }
    return n;
}

int bench_schemas(const struct bench_options *o, const struct model *m, struct out *out,
                  struct err *e)
{
    struct schemas s = {.r.refused_by = json_object()};
    struct tokenizer *t = NULL;
    struct vocab *v = NULL;
    int32_t *eos = calloc((size_t)m->config.n_eos + 1, sizeof *eos);
    int rc = eos ? vocabulary_tokenizer(&t, &m->file, e) : err_memory(e);
    if (!rc && !t) rc = err_set(e, "%s carries no tokenizer", o->model);
    if (!rc) {
        const struct vocabulary_source source = {t, eos, ends_of_text(m, t, eos),
                                                 m->config.vocab};
        rc = vocabulary_open(&v, &source, e);
        s.tokenizer = t;
        s.vocab = v;
    }
    if (!rc && !(s.mask = calloc((size_t)vocab_n(v) / 32 + 1, sizeof *s.mask))) rc = err_memory(e);
    if (!rc) rc = read_all(&s, o->schemas, e);
    if (s.r.masks.n) qsort(s.r.masks.us, s.r.masks.n, sizeof *s.r.masks.us, ascending);
    if (!rc && !out_is_md(out)) rc = put_record(out, &s.r, e);
    else if (!rc) {
        put_table(out, &s.r, e);
        put_refusals(&s.r);
    }
    json_decref(s.r.refused_by);
    tok_ids_free(&s.ids);
    free(s.mask);
    free(s.r.masks.us);
    free(s.r.first.us);
    vocab_close(v);
    tok_close(t);
    free(eos);
    return rc;
}
