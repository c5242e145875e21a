/* endpoints.c: lines of a batch for /v1/embeddings, /v1/score and /v1/rerank. Vectors are compared
 * with transformers' logits: a row of the last norm times the head is the row of logits, and their
 * means are, too. The bytes are the same however they are computed. Works on models/demo and
 * tests/data/gptq; usage: endpoints BUILD_DIR [SHARED_DIR]. */
#include "core/base/dtype.h"
#include "core/base/safetensors.h"
#include "core/model/modelfile.h"
#include "tests/whole/endpoint_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char library[512];

/* ---- vectors against logits */

enum { MOST_IDS = 128, MOST_DIM = 1024 };

struct head {
    struct modelfile file;
    struct tview w;
};

static float head_at(const struct head *h, size_t i)
{
    if (h->w.dtype == DT_F32) return ((const float *)h->w.data)[i];
    uint16_t bits = ((const uint16_t *)h->w.data)[i];
    return h->w.dtype == DT_F16 ? f32_from_f16(bits) : f32_from_bf16(bits);
}

/* The numbers of prompt number K in a line of --format ids. */
static int read_vector(const char *text, int k, double *v)
{
    int n = 0;
    for (; text && k; k--) text = strchr(text, '\t') ? strchr(text, '\t') + 1 : NULL;
    for (char *end; text && n < MOST_DIM; text = end + 1) {
        v[n++] = strtod(text, &end);
        if (*end != ' ') break;
    }
    return n;
}

/* The largest difference of head times V and the combination of rows of logits [n][vocab], in
 * standard deviations of these. */
static double difference(const struct head *h, const double *v, const float *logits, int n,
                         const char *pooling)
{
    int64_t vocab = h->w.shape[0], dim = h->w.shape[1];
    double most = 0, sum = 0, squares = 0;
    for (int64_t t = 0; t < vocab; t++) {
        double got = 0, want = 0;
        for (int64_t i = 0; i < dim; i++) got += v[i] * (double)head_at(h, (size_t)(t * dim + i));
        int from = !strcmp(pooling, "last") ? n - 1 : 0, end = !strcmp(pooling, "cls") ? 1 : n;
        for (int r = from; r < end; r++) want += (double)logits[r * vocab + t] / (end - from);
        most = fabs(got - want) > most ? fabs(got - want) : most;
        sum += want;
        squares += want * want;
    }
    double mean = sum / (double)vocab;
    return most / sqrt(squares / (double)vocab - mean * mean);
}

struct answers {
    int n; /* prompts */
    int n_ids[8];
    int64_t *id[8];
    float *logits[8];
};

static void *load(const struct st_file *s, const char *name, int k, size_t *n)
{
    struct err e;
    char full[32];
    snprintf(full, sizeof full, "%s.%d", name, k);
    const struct st_tensor *t = st_find(s, full);
    if (!t) return NULL;
    void *p = malloc(t->bytes + 1);
    if (!p || st_read(s, p, t->offset, t->bytes, &e)) exit(2);
    *n = t->bytes;
    return p;
}

static void read_answers(const char *from, struct answers *a)
{
    char path[600];
    struct st_file s;
    struct err e;
    size_t n;
    memset(a, 0, sizeof *a);
    snprintf(path, sizeof path, "%s/expected.safetensors", from);
    if (st_open(&s, path, &e)) return;
    while (a->n < 8 && (a->id[a->n] = load(&s, "ids", a->n, &n))) {
        a->n_ids[a->n] = (int)(n / sizeof(int64_t));
        a->logits[a->n] = load(&s, "logits", a->n, &n);
        a->n++;
    }
    st_close(&s);
}

static void write_inputs(const struct answers *a)
{
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    fprintf(f, "{\"url\":\"/v1/embeddings\",\"body\":{\"normalize\":false,\"input\":[");
    for (int k = 0; k < a->n; k++) {
        fprintf(f, k ? ",[" : "[");
        for (int i = 0; i < a->n_ids[k]; i++) fprintf(f, i ? ",%d" : "%d", (int)a->id[k][i]);
        fprintf(f, "]");
    }
    fprintf(f, "]}}\n");
    if (fclose(f)) exit(2);
}

/* The vectors of a checkpoint with transformers' logits. */
static void check_vectors(const char *from)
{
    static const char *const pooling[] = {"last", "mean", "cls"};
    char model[300], *text;
    struct answers a;
    struct head h;
    struct process p;
    struct err e;
    double v[MOST_DIM];
    size_t n;
    snprintf(model, sizeof model, "%s/fixture.safetensors", dir);
    check_that(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, from, model), "convert %s",
               from);
    if (mf_open(&h.file, model, &e)) {
        check_that(0, "%s", e.msg);
        return;
    }
    int plain = mf_find(&h.file, "lm_head.weight", &h.w) ||
                (!mf_find(&h.file, "lm_head.codes", &h.w) &&
                 mf_find(&h.file, "embed_tokens.weight", &h.w));
    read_answers(from, &a);
    for (int k = 0; k < 3 && plain && a.n; k++) {
        write_inputs(&a);
        RUN(&p, model, "-i", in, "-o", out, "--format", "ids", "--act", "f32", "--kv", "f32",
            "--pooling", (char *)pooling[k], "-b", k == 1 ? "23" : "512");
        check(p.code == 0, "embeddings of ids", &p);
        process_free(&p);
        text = read_file(out, &n);
        for (int i = 0; i < a.n; i++) {
            double d = read_vector(text, i, v) == h.w.shape[1]
                           ? difference(&h, v, a.logits[i], a.n_ids[i], pooling[k])
                           : 1;
            check_that(d < 2e-4, "%s: %s of %d ids: off by %.1e standard deviations", from,
                       pooling[k], a.n_ids[i], d);
        }
        free(text);
        remove_outputs();
    }
    if (!plain || !a.n) skip("%s: the head is quantized, or there are no logits", from);
    for (int k = 0; k < a.n; k++) free(a.id[k]), free(a.logits[k]);
    mf_close(&h.file);
}

static void vectors(const char *shared)
{
    static const char *const here[] = {"llama",
                                       "llama-act-order-asym",
                                       "llama-sharded-tied",
                                       "qwen3",
                                       "qwen3-moe",
                                       "qwen3.5-moe"},
                             *const there[] = {"qwen2", "mistral-window", "awq", "llama-3.1"};
    char path[600];
    for (size_t i = 0; i < sizeof here / sizeof *here; i++) {
        snprintf(path, sizeof path, "tests/data/gptq/%s", here[i]);
        check_vectors(path);
    }
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        snprintf(path, sizeof path, "%s/fixtures/gptq/%s", shared ? shared : "", there[i]);
        if (shared && !access(path, R_OK)) check_vectors(path);
        else skip("%s: needs SHARED", there[i]);
    }
}

/* ---- the same bytes */

static const char *const texts[] = {"The heart of the matter", "Once upon a time there was a river",
                                    "In the year of the great frost", "Nothing"};

/* Embeddings, scores, ranks and completions whose prompts begin alike. */
static void write_mixed(const char *path, int n, int only_completions)
{
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    for (int i = 0; i < n; i++) {
        const char *t = texts[i % 4];
        if (i % 5 == 4)
            fprintf(f,
                    "{\"custom_id\":\"m%d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"%s "
                    "and more of the same, and so on and on %d\",\"max_tokens\":12,"
                    "\"temperature\":%d,%s}}\n",
                    i, t, i, i % 2,
                    i % 3 == 0   ? "\"prompt_logprobs\":3"
                    : i % 3 == 1 ? "\"logprobs\":1,\"logprob_token_ids\":[900,13,262]"
                                 : "\"allowed_token_ids\":[13,262,280,289,300,301,302],"
                                   "\"bad_words\":[\"the\"]");
        if (only_completions || i % 5 == 4) continue;
        if (i % 5 == 3)
            fprintf(f,
                    "{\"custom_id\":\"m%d\",\"url\":\"/v1/%s\",\"body\":{\"%s\":\"%s\","
                    "\"documents\":[\"%s\",\"a %d\",\"%s\"]}}\n",
                    i, i % 2 ? "score" : "rerank", i % 2 ? "queries" : "query", t,
                    texts[(i + 1) % 4], i, t);
        else
            fprintf(f,
                    "{\"custom_id\":\"m%d\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"%s "
                    "and more of the same, and so on and on %d\",\"%s\"]%s}}\n",
                    i, t, i, t,
                    i % 5 == 2 ? ",\"encoding_format\":\"base64\",\"dimensions\":32" : "");
    }
    if (fclose(f)) exit(2);
}

static void invariance(const char *pooling)
{
    static const char *const ways[][3] = {{"-np", "1", NULL},
                                          {"-np", "8", NULL},
                                          {"-b", "9", NULL},
                                          {"--kv-pages", "40", NULL},
                                          {"--no-prefix-cache", NULL, NULL}};
    char *how = (char *)pooling;
    struct process p;
    write_mixed(in, 40, 0);
#define MIXED(...)                                                                                 \
    RUN(&p, demo, "-i", in, "-c", "512", "--pooling", how, "--score-tokens", "is,was", __VA_ARGS__)
    MIXED("-o", out);
    check(p.code == 0, "a mixed batch", &p);
    process_free(&p);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        MIXED("-o", out2, (char *)ways[i][0], (char *)ways[i][1]);
        check(p.code == 0, ways[i][0], &p);
        check_that(same_file(out, out2), "%s: the same bytes with %s", pooling, ways[i][0]);
        process_free(&p);
        shell_code("rm -f %s*", out2);
    }
    for (int i = 0; i < 3; i++)
        shell_code(
            "timeout -s KILL 0.0%d %s -m %s -t 1 -i %s -o %s -c 512 --pooling %s --score-tokens "
            "is,was 2>/dev/null",
            3 + 2 * i, run_bin, demo, in, out2, pooling);
    MIXED("-o", out2);
    check(p.code == 0 && same_file(out, out2), "killed and continued", &p);
    process_free(&p);
    shell_code("rm -f %s*", out2);
    for (int i = 0; i < 2; i++) {
        MIXED("-o", out2, "--shard", i ? "1/2" : "0/2");
        check(p.code == 0, "a shard", &p);
        process_free(&p);
    }
    check(!shell_code("scripts/merge-shards %s && cmp %s %s", out2, out, out2), "two shards", NULL);
    shell_code("rm -f %s*", out2);
#undef MIXED
    remove_outputs();
}

/* In integer arithmetic a GPU, its kernels computed as host code, gives the bytes of the CPU. */
static void same_on_gpu(const char *pooling)
{
    struct process p;
    if (access(library, R_OK)) {
        skip("no GPU kernels as host code in this build");
        return;
    }
    write_mixed(in, 9, 0);
    RUN(&p, demo, "-i", in, "-o", out, "-c", "256", "--act", "i16", "--pooling", (char *)pooling,
        "--score-tokens", "is,was", "--backend", "hip", "--hip-library", library, "-np", "3", "-b",
        "40");
    int none = p.code == 1 && strstr(p.err, "contains no kernels");
    if (none) skip("this build has no GPU kernels");
    else check(p.code == 0, "a mixed batch on a GPU", &p);
    process_free(&p);
    if (none) return;
    RUN(&p, demo, "-i", in, "-o", out2, "-c", "256", "--act", "i16", "--pooling", (char *)pooling,
        "--score-tokens", "is,was");
    check(p.code == 0 && same_file(out, out2), "the same bytes on CPU and GPU", &p);
    process_free(&p);
    remove_outputs();
}

/* Completions have the bytes of a batch without embeddings, whose steps keep no rows. */
static void completions_beside(void)
{
    struct process p;
    write_mixed(in, 40, 1);
    RUN(&p, demo, "-i", in, "-o", out, "-c", "512");
    check(p.code == 0, "completions alone", &p);
    process_free(&p);
    write_mixed(in, 40, 0);
    RUN(&p, demo, "-i", in, "-o", out2, "-c", "512", "--pooling", "mean");
    process_free(&p);
    check(!shell_code("grep text_completion %s | cmp - %s", out2, out), "beside embeddings", NULL);
    remove_outputs();
}

/* ---- what answers say */

static void embeddings(void)
{
    batch("{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"One\"}}\n"
          "{\"custom_id\":\"b\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"One\"],"
          "\"dimensions\":8,\"model\":\"its name\"}}\n"
          "{\"custom_id\":\"c\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":[\"One\",\"Two\"],"
          "\"encoding_format\":\"base64\",\"dimensions\":3}}\n"
          "{\"custom_id\":\"d\",\"url\":\"/v1/score\",\"body\":{\"text_1\":\"One\",\"text_2\":"
          "[\"Two\",\"One\"]}}\n"
          "{\"custom_id\":\"e\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"Two\"}}\n"
          "{\"custom_id\":\"f\",\"url\":\"/v1/rerank\",\"body\":{\"query\":\"One\",\"documents\":"
          "[\"Two\",{\"text\":\"One\"},\"Three\"],\"top_n\":2}}\n",
          "--pooling", "last");
    json_t *a = body_of(out, "a"), *b = body_of(out, "b"), *c = body_of(out, "c"),
           *d = body_of(out, "d"), *two = body_of(out, "e"), *f = body_of(out, "f");
    const json_t *va = json_object_get(first(a, "data"), "embedding"),
                 *vb = json_object_get(first(b, "data"), "embedding"),
                 *ve = json_object_get(first(two, "data"), "embedding");
    double length = 0, dot = 0, part = 0, ratio = 0;
    for (size_t i = 0; i < json_array_size(va); i++) {
        double x = number(json_array_get(va, i));
        length += x * x;
        dot += x * number(json_array_get(ve, i));
        if (i < 8) part += x * x;
    }
    for (size_t i = 0; i < 8; i++)
        ratio = fmax(ratio, fabs(number(json_array_get(va, i)) / sqrt(part) -
                                 number(json_array_get(vb, i))));
    check_that(json_array_size(va) == 256 && fabs(length - 1) < 1e-6, "256 elements of length 1");
    check_that(json_array_size(vb) == 8 && ratio < 1e-6, "cut, then normalized");
    check_that(!strcmp(json_string_value(json_object_get(b, "model")), "its name"), "its model");
    const char *letters = json_string_value(json_object_get(first(c, "data"), "embedding"));
    check_that(letters && strlen(letters) == 16, "12 bytes are 16 letters");
    check_that(json_array_size(json_object_get(c, "data")) == 2, "two inputs");
    const json_t *usage = json_object_get(c, "usage");
    check_that(number(json_object_get(usage, "prompt_tokens")) > 1 &&
                   number(json_object_get(usage, "prompt_tokens")) ==
                       number(json_object_get(usage, "total_tokens")),
               "usage");
    check_that(fabs(number(json_object_get(first(d, "data"), "score")) - dot) < 1e-6,
               "a score is the cosine: %g, %g", number(json_object_get(first(d, "data"), "score")),
               dot);
    const json_t *results = json_object_get(f, "results"), *top = json_array_get(results, 0);
    check_that(
        json_array_size(results) == 2 && number(json_object_get(top, "index")) == 1 &&
            fabs(number(json_object_get(top, "relevance_score")) - 1) < 1e-6 &&
            !strcmp(json_string_value(json_object_get(json_object_get(top, "document"), "text")),
                    "One"),
        "the same text comes first");
    json_decref(a), json_decref(b), json_decref(c), json_decref(d), json_decref(two),
        json_decref(f);
}

/* Bytes of base64, at most cap; -1: it is none. */
static int decode_base64(const char *s, unsigned char *to, int cap)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int n = 0;
    uint32_t bits = 0;
    size_t length = strcspn(s, "=");
    if (strlen(s) % 4 || strlen(s) - length > 2) return -1;
    for (size_t i = 0; i < length; i++) {
        const char *at = strchr(letters, s[i]);
        if (!at) return -1;
        bits = bits << 6 | (uint32_t)(at - letters);
        if (i % 4 && n < cap) to[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    return n;
}

/* The letters hold the fp32 values that the list shows, for every length of the padding. */
static void letters_of_vectors(void)
{
    for (int n = 1; n <= 7; n += 2) {
        char lines[600];
        unsigned char bytes[64];
        snprintf(lines, sizeof lines,
                 "{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"One\","
                 "\"dimensions\":%d}}\n{\"custom_id\":\"b\",\"url\":\"/v1/embeddings\",\"body\":{"
                 "\"input\":\"One\",\"dimensions\":%d,\"encoding_format\":\"base64\"}}\n",
                 n, n);
        batch(lines, "--pooling", "last");
        json_t *a = body_of(out, "a"), *b = body_of(out, "b");
        const json_t *v = json_object_get(first(a, "data"), "embedding");
        const char *s = json_string_value(json_object_get(first(b, "data"), "embedding"));
        int same = s && decode_base64(s, bytes, sizeof bytes) == 4 * n;
        for (int i = 0; i < n && same; i++) {
            float x;
            memcpy(&x, bytes + 4 * i, 4);
            same = x == (float)number(json_array_get(v, (size_t)i));
        }
        check_that(same, "%d elements in base64: %s", n, s ? s : "none");
        json_decref(a), json_decref(b);
    }
}

/* A score by two tokens against the log-probabilities of these. */
static void likelihoods(void)
{
    struct process p;
    char path[320];
    remove_outputs();
    snprintf(path, sizeof path, "%s/pair.jinja", dir);
    write_file(path, "{{ instruction }} Q {{ query }} D {{ document }} so it", 54);
    const char *lines =
        "{\"custom_id\":\"a\",\"url\":\"/v1/score\",\"body\":{\"text_1\":\"a heart\",\"text_2\":"
        "\"my heart\",\"instruction\":\"Judge:\"}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Judge: Q a heart "
        "D "
        "my heart so it\",\"add_special_tokens\":false,\"max_tokens\":1,\"logprobs\":0,"
        "\"logprob_token_ids\":[260,262]}}\n";
    write_file(in, lines, strlen(lines));
    RUN(&p, demo, "-i", in, "-o", out, "--score-template-file", path, "--score-tokens",
        "\xC4\xA0the,\xC4\xA0"
        "a"); /* as byte-level BPE spells " the" and " a" */
    check(p.code == 0, "scores by two tokens", &p);
    process_free(&p);
    json_t *a = body_of(out, "a"), *b = body_of(out, "b");
    const json_t *top = json_array_get(
        json_object_get(json_object_get(first(b, "choices"), "logprobs"), "top_logprobs"), 0);
    double yes = number(json_object_get(top, " the")), no = number(json_object_get(top, " a")),
           score = number(json_object_get(first(a, "data"), "score"));
    check_that(yes < 0 && no < 0 && fabs(score - 1 / (1 + exp(no - yes))) < 1e-6, "%g of %g and %g",
               score, yes, no);
    json_decref(a), json_decref(b);
    remove_outputs();
}

/* ---- refusals */

static void refusals(void)
{
    static const struct {
        const char *url, *body, *field;
    } cases[] = {
        {"embeddings", "\"n\":2,\"input\":\"x\"", "n"},
        {"embeddings", "", "input"},
        {"embeddings", "\"input\":[]", "input"},
        {"embeddings", "\"input\":[[]]", "input"},
        {"embeddings", "\"input\":{}", "input"},
        {"embeddings", "\"input\":[1,99999]", "input"},
        {"embeddings", "\"input\":\"x\",\"dimensions\":0", "dimensions"},
        {"embeddings", "\"input\":\"x\",\"dimensions\":257", "dimensions"},
        {"embeddings", "\"input\":\"x\",\"encoding_format\":\"hex\"", "encoding_format"},
        {"embeddings", "\"input\":\"x\",\"normalize\":3", "normalize"},
        {"embeddings", "\"input\":\"x\",\"messages\":[{}]", "messages"},
        {"embeddings", "\"input\":\"x\",\"temperature\":1", "temperature"},
        {"score", "\"text_1\":\"x\"", "text_2"},
        {"score", "\"text_1\":\"x\",\"text_2\":[1]", "text_2"},
        {"score", "\"text_1\":[\"x\",\"y\"],\"text_2\":[\"x\",\"y\",\"z\"]", "text_1"},
        {"score", "\"text_1\":\"x\",\"queries\":\"x\",\"text_2\":\"y\"", "queries"},
        {"rerank", "\"documents\":[\"x\"]", "query"},
        {"rerank", "\"query\":\"x\",\"documents\":[]", "documents"},
        {"rerank", "\"query\":[\"x\"],\"documents\":[\"x\"]", "query"},
        {"rerank", "\"query\":\"x\",\"documents\":[\"x\"],\"top_n\":-1", "top_n"},
        {"completions", "\"prompt\":\"x\",\"prompt_logprobs\":21", "prompt_logprobs"},
        {"completions", "\"prompt\":\"x\",\"logprob_token_ids\":[1]", "logprob_token_ids"},
        {"completions", "\"prompt\":\"x\",\"logprobs\":0,\"logprob_token_ids\":[]",
         "logprob_token_ids"},
        {"completions", "\"prompt\":\"x\",\"allowed_token_ids\":[]", "allowed_token_ids"},
        {"completions", "\"prompt\":\"x\",\"allowed_token_ids\":[99999]", "allowed_token_ids"},
        {"completions", "\"prompt\":\"x\",\"bad_words\":[\"\"]", "bad_words"},
        {"completions", "\"prompt\":\"x\",\"bad_words\":\"x\"", "bad_words"},
        {"completions", "\"prompt\":\"x\",\"truncate_prompt_tokens\":-2", "truncate_prompt_tokens"},
        {"completions", "\"prompt\":\"x\",\"truncate_prompt_tokens\":9999999",
         "truncate_prompt_tokens"},
        {"completions", "\"prompt\":\"x\",\"truncate_prompt_tokens\":0", "prompt"},
        {"completions", "\"prompt\":\"x\",\"truncation_side\":\"up\"", "truncation_side"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct process p;
    remove_outputs();
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    for (int i = 0; i < N; i++)
        fprintf(f, "{\"custom_id\":\"%d\",\"url\":\"/v1/%s\",\"body\":{%s}}\n", i, cases[i].url,
                cases[i].body);
    if (fclose(f)) exit(2);
    RUN(&p, demo, "-i", in, "-o", out, "--pooling", "last");
    check(p.code == 3, "refused records", &p);
    process_free(&p);
    for (int i = 0; i < N; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        json_t *body = body_of(out, id);
        const char *param =
            json_string_value(json_object_get(json_object_get(body, "error"), "param"));
        check_that(param && !strcmp(param, cases[i].field), "%s {%s}: refused by %s, not %s",
                   cases[i].url, cases[i].body, cases[i].field, param ? param : "none");
        json_decref(body);
    }
    remove_outputs();
    const char *none = ASK("a", "\"allowed_token_ids\":[500],\"guided_choice\":[\"yes\"]");
    write_file(in, none, strlen(none));
    RUN(&p, demo, "-i", in, "-o", out);
    json_t *body = body_of(out, "a");
    const char *why = json_string_value(json_object_get(json_object_get(body, "error"), "message"));
    check(p.code == 3 && why && strstr(why, "no token may come"), "nothing is left", &p);
    json_decref(body);
    process_free(&p);
    remove_outputs();
}

/* ---- checkpoints */

/* Messages of an embedding are rendered without the beginning of an answer, and with it where the
 * record asks for that; of equal scores the first document comes first. */
static void messages_and_ties(void)
{
    static const char template[] = "{{ messages[0].content }}{% if add_generation_prompt %} and "
                                   "so{% endif %}";
    char path[320];
    snprintf(path, sizeof path, "%s/t.jinja", dir);
    write_file(path, template, sizeof template - 1);
    const char *lines =
        "{\"custom_id\":\"m\",\"url\":\"/v1/"
        "embeddings\",\"body\":{\"messages\":[{\"role\":\"user\","
        "\"content\":\"The king\"}],\"add_special_tokens\":true}}\n"
        "{\"custom_id\":\"t\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"The king\"}}\n"
        "{\"custom_id\":\"n\",\"url\":\"/v1/"
        "embeddings\",\"body\":{\"messages\":[{\"role\":\"user\","
        "\"content\":\"The king\"}],\"add_generation_prompt\":true,\"add_special_tokens\":true}}\n"
        "{\"custom_id\":\"u\",\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"The king and "
        "so\"}}\n";
    const char *ties =
        "{\"custom_id\":\"r\",\"url\":\"/v1/rerank\",\"body\":{\"query\":\"One\",\"documents\":"
        "[\"Two\",\"Two\",\"Two\",\"Two\"]}}\n";
    batch(lines, "--chat-template-file", path);
    json_t *m = body_of(out, "m"), *t = body_of(out, "t"), *n = body_of(out, "n"),
           *u = body_of(out, "u");
    check(m && json_equal(json_object_get(m, "data"), json_object_get(t, "data")) && n &&
              json_equal(json_object_get(n, "data"), json_object_get(u, "data")) &&
              !json_equal(json_object_get(m, "data"), json_object_get(n, "data")),
          "an embedding of messages is that of their text", NULL);
    remove_outputs();
    batch(ties, "--pooling", "last");
    json_t *r = body_of(out, "r"), *one;
    size_t i, n_right = 0;
    json_array_foreach (json_object_get(r, "results"), i, one)
        n_right += json_integer_value(json_object_get(one, "index")) == (json_int_t)i;
    check(n_right == 4, "equal scores in the order of the documents", NULL);
    json_decref(m);
    json_decref(t);
    json_decref(n);
    json_decref(u);
    json_decref(r);
    remove_outputs();
}

/* The dimensions that a checkpoint lists are served, and no others. */
static void matryoshka(void)
{
    static const char *const lists[] = {"\"matryoshka_dimensions\": [16, 32, 4096],",
                                        "\"is_matryoshka\": false,"};
    struct process p;
    char copy[320], model[360];
    const char *line =
        "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[1,2,3],\"dimensions\":32}}\n"
        "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[1,2,3],\"dimensions\":24}}\n";
    snprintf(copy, sizeof copy, "%s/matryoshka", dir);
    snprintf(model, sizeof model, "%s.safetensors", copy);
    write_file(in, line, strlen(line));
    for (int i = 0; i < 2; i++) {
        shell_code("rm -rf %s && cp -r tests/data/gptq/qwen3 %s && sed -i '0,/{/s/{/{%s/' "
                   "%s/config.json",
                   copy, copy, lists[i], copy);
        check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, model), "convert", NULL);
        RUN(&p, model, "-i", in, "-o", "-", "--pooling", "last", "--format", "ids");
        const char *second = p.out ? strchr(p.out, '\n') : NULL;
        check(p.code == 3 && second && !strcmp(second, "\n\n") && (*p.out == '\n') == i,
              "dimensions that the checkpoint lists", &p);
        process_free(&p);
    }
}

/* What modules.json and 1_Pooling say is what the options would; a model without head. */
static void checkpoints(void)
{
    struct process p;
    char copy[320], model[360], headless[360];
    const char *line = "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[1,2,3,4]}}\n"
                       "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[1,2,3,4]}}\n";
    snprintf(copy, sizeof copy, "%s/copy", dir);
    snprintf(model, sizeof model, "%s.safetensors", copy);
    snprintf(headless, sizeof headless, "%s.headless.safetensors", copy);
    shell_code("cp -r tests/data/gptq/qwen3 %s && mkdir %s/1_Pooling", copy, copy);
    shell_code("echo '[{\"type\":\"sentence_transformers.models.Transformer\"},{\"type\":"
               "\"sentence_transformers.models.Pooling\"}]' > %s/modules.json",
               copy);
    shell_code("echo '{\"pooling_mode_mean_tokens\":true,\"pooling_mode_lasttoken\":false}' > "
               "%s/1_Pooling/config.json",
               copy);
    check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, model), "convert", NULL);
    write_file(in, line, strlen(line));
    RUN(&p, model, "-i", in, "-o", out, "--format", "ids");
    process_free(&p);
    RUN(&p, model, "-i", in, "-o", out2, "--format", "ids", "--pooling", "mean", "--embd-normalize",
        "-1");
    check(p.code == 0 && same_file(out, out2), "the mean, as modules.json says", &p);
    process_free(&p);
    remove_outputs();
    RUN(&p, model, "-i", in, "-o", out2, "--format", "ids", "--pooling", "last", "--embd-normalize",
        "-1");
    process_free(&p);
    RUN(&p, model, "-i", in, "-o", out, "--format", "ids");
    check(p.code == 0 && !same_file(out, out2), "the last row is another", &p);
    process_free(&p);
    shell_code("cp %s %s.keep", out, out);
    /* the same without its head: what would be the embedding takes no other value */
    shell_code(
        "cd %s && LC_ALL=C sed -i 's/lm_head.weight/visual.weights/' model.safetensors && sed -i "
        "'s/Qwen3ForCausalLM/Qwen3Model/' config.json",
        copy);
    check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, headless), "without head",
          NULL);
    shell_code("rm -f %s*", out2);
    RUN(&p, headless, "-i", in, "-o", out2, "--format", "ids");
    check(p.code == 3 &&
              !shell_code("[ \"$(head -n 1 %s)\" = \"$(head -n 1 %s.keep)\" ]", out2, out),
          "embeddings without head, and nothing else", &p);
    process_free(&p);
    RUN(&p, headless, "--prompt-ids", "1,2", "-n", "1");
    check(p.code == 1 && strstr(p.err, "no head"), "nothing is generated without head", &p);
    process_free(&p);
    shell_code("sed -i 's/true/\"true\"/' %s/1_Pooling/config.json", copy);
    check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, headless), "with text", NULL);
    RUN(&p, headless, "-i", in, "--check", "--format", "ids");
    check(p.code == 3 && strstr(p.out, "pooling_mode_mean_tokens is neither true nor false"),
          "a boolean that is text", &p);
    process_free(&p);
    shell_code("sed -i 's/\"true\"/1/' %s/1_Pooling/config.json", copy);
    check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, headless), "with 1", NULL);
    shell_code("rm -f %s*", out2);
    RUN(&p, headless, "-i", in, "-o", out2, "--format", "ids");
    check(p.code == 3 &&
              !shell_code("[ \"$(head -n 1 %s)\" = \"$(head -n 1 %s.keep)\" ]", out2, out),
          "a boolean that is 1", &p);
    process_free(&p);
    shell_code("sed -i 's/Pooling\"/Dense\"/' %s/modules.json && rm -r %s/1_Pooling", copy, copy);
    check(!shell_code("%s -q %s %s 2>/dev/null", convert_bin, copy, headless), "with Dense", NULL);
    RUN(&p, headless, "-i", in, "--check", "--format", "ids");
    check(p.code == 3 && strstr(p.out, "Dense"), "a module that is not served", &p);
    process_free(&p);
    remove_outputs();
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    snprintf(library, sizeof library, "%s/tests/bin/libhip-fibers.so", argv[1]);
    vectors(argc > 2 ? argv[2] : NULL);
    invariance("mean");
    invariance("last");
    invariance("rank");
    same_on_gpu("mean");
    same_on_gpu("rank");
    completions_beside();
    embeddings();
    letters_of_vectors();
    likelihoods();
    refusals();
    messages_and_ties();
    matryoshka();
    checkpoints();
    shell_code("rm -r %s", dir);
    return report("endpoints");
}
