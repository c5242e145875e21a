/* numbers.c: what researchers read: logits of prompt and answer, log-probabilities of tokens,
 * perplexity of documents, and the packed tensors, which the Python of docs/model-file.md takes
 * apart. Works on models/demo and tests/data/gptq; usage: numbers BUILD_DIR. */
#include "backend-cpu/kernels.h"
#include "core/base/safetensors.h"
#include "core/model/model.h"
#include "tests/harness.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char run_bin[512], convert_bin[512], dir[] = "/tmp/opt4gptq-numbers-XXXXXX", model[600];

#define RUN(p, ...) process_run(p, (char *[]){run_bin, "-m", model, __VA_ARGS__, NULL}, NULL)
static char prompt[] = "Once upon a time there was";

/* The path of a file here, valid for the next 15 calls. */
static char *in_dir(const char *name)
{
    static char path[16][600];
    static int n;
    snprintf(path[n % 16], sizeof path[0], "%s/%s", dir, name);
    return path[n++ % 16];
}

/* ---- logits */

struct logits {
    int rows, vocab, n_ids;
    float *row; /* [rows][vocab] */
    int32_t *id;
};

static struct logits load(const char *path)
{
    struct st_file f;
    struct err e;
    struct logits l = {0};
    if (st_open(&f, path, &e)) {
        check_that(0, "%s", e.msg);
        return l;
    }
    const struct st_tensor *t = st_find(&f, "logits"), *ids = st_find(&f, "generated");
    l.rows = (int)t->shape[0];
    l.vocab = (int)t->shape[1];
    l.row = malloc(t->bytes + 1);
    if (st_read(&f, l.row, t->offset, t->bytes, &e)) exit(2);
    if (ids) {
        l.n_ids = (int)ids->shape[0];
        l.id = malloc(ids->bytes + 1);
        if (st_read(&f, l.id, ids->offset, ids->bytes, &e)) exit(2);
    }
    st_close(&f);
    return l;
}

static void drop(struct logits *l)
{
    free(l->row);
    free(l->id);
}

static int same_rows(const struct logits *a, int i, const struct logits *b, int j, int n)
{
    return a->rows >= i + n && b->rows >= j + n && a->vocab == b->vocab &&
           !memcmp(a->row + (size_t)i * (size_t)a->vocab, b->row + (size_t)j * (size_t)b->vocab,
                   (size_t)n * (size_t)a->vocab * sizeof(float));
}

static struct logits logits_of(const char *which, const char *text, char *n, char *act)
{
    struct process p;
    char *path = in_dir("logits");
    RUN(&p, strchr(text, ',') ? "--prompt-ids" : "-p", (char *)text, "-n", n, "--temp", "0.8", "-s",
        "4", "--presence-penalty", "0.5", "--format", "ids", "--act", act, "--logits-out", path,
        "--logits-of", (char *)which);
    check(p.code == 0, "--logits-of", &p);
    process_free(&p);
    return load(path);
}

/* The rows of generated tokens are those of a prompt that has these tokens, and penalties are not
 * in them. */
static void logits(void)
{
    static char *const acts[] = {"i16", "f32"};
    for (int a = 0; a < 2; a++) {
        struct logits all = logits_of("all", prompt, "9", acts[a]),
                      before = logits_of("prompt", prompt, "9", acts[a]),
                      text = logits_of("generated", prompt, "9", acts[a]);
        struct process p;
        char ids[500];
        RUN(&p, "--tokenize", "--special", "-p", prompt);
        snprintf(ids, sizeof ids, "%s", p.out);
        process_free(&p);
        for (char *c = ids; *c; c++)
            if (*c == ' ' || *c == '\n') *c = ',';
        for (int i = 0; i < all.n_ids; i++)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%d,", all.id[i]);
        struct logits given = logits_of("prompt", ids, "0", acts[a]);
        int n = before.rows;
        check_that(n == 8 && all.rows == n + 8 && text.rows == 9 && text.n_ids == 9 &&
                       all.n_ids == 9 && !before.n_ids && given.rows == n + 9,
                   "rows: %d of the prompt, %d of the text, %d of both", n, text.rows, all.rows);
        check_that(same_rows(&all, 0, &before, 0, n), "the prompt's rows, --act %s", acts[a]);
        check_that(same_rows(&all, n - 1, &text, 0, 9), "the text's rows, --act %s", acts[a]);
        check_that(same_rows(&all, 0, &given, 0, n + 8),
                   "the rows of a prompt with these tokens, --act %s", acts[a]);
        check_that(all.n_ids == 9 && !memcmp(all.id, text.id, 9 * sizeof *all.id), "the ids");
        drop(&all), drop(&before), drop(&text), drop(&given);
    }
    struct logits none = logits_of("generated", prompt, "0", "i16"),
                  whole = logits_of("all", prompt, "0", "i16");
    check_that(none.rows == 0 && none.vocab == 4096 && none.n_ids == 0 && whole.rows == 8,
               "-n 0: no row of a text");
    drop(&none), drop(&whole);
}

/* ---- log-probabilities */

static double log_softmax(const struct logits *l, int row, int id)
{
    const float *x = l->row + (size_t)row * (size_t)l->vocab;
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < l->vocab; i++) max = x[i] > max ? x[i] : max;
    for (int i = 0; i < l->vocab; i++) sum += exp(x[i] - max);
    return x[id] - max - log(sum);
}

static void logprobs(void)
{
    struct process p, q;
    char *path = in_dir("logits");
    RUN(&p, "-p", prompt, "-n", "6", "--temp", "0", "--logprobs", "3", "--format", "jsonl",
        "--logits-out", path, "--logits-of", "all");
    struct logits l = load(path);
    int row = 0;
    check(p.code == 0 && lines(p.out) == 14 && strstr(p.err, "perplexity"), "--logprobs", &p);
    double sum = 0;
    for (const char *at = p.out; *at; at = strchr(at, '\n') + 1, row++) {
        json_t *v = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL), *top = json_object_get(v, "top");
        int id = (int)json_integer_value(json_object_get(v, "id"));
        double lp = json_number_value(json_object_get(v, "logprob")), last = 0;
        int right = json_integer_value(json_object_get(v, "position")) == row;
        if (!row) right &= json_is_null(json_object_get(v, "logprob")) && !json_array_size(top);
        else right &= fabs(lp - log_softmax(&l, row - 1, id)) < 1e-6 && json_array_size(top) == 3;
        if (row && row < 8) sum += lp;
        for (size_t i = 0; i < json_array_size(top); i++) {
            json_t *t = json_array_get(top, i);
            double x = json_number_value(json_object_get(t, "logprob"));
            int other = (int)json_integer_value(json_object_get(t, "id"));
            right &= fabs(x - log_softmax(&l, row - 1, other)) < 1e-6 && (!i || x <= last) &&
                     json_is_string(json_object_get(t, "token"));
            if (!i) right &= x >= lp;
            if (!i && row >= 8) right &= id == other; /* greedy */
            last = x;
        }
        check_that(right, "the log-probabilities of token %d", row);
        json_decref(v);
    }
    const char *said = strstr(p.err, "log-probability ");
    check(said && fabs(atof(said + 16) - sum) < 1e-3, "the sum over the prompt", &p);
    drop(&l);
    process_free(&p);
    /* for people: the same tokens in columns */
    RUN(&p, "-p", prompt, "-n", "6", "--temp", "0", "--logprobs", "1");
    RUN(&q, "-p", prompt, "-n", "6", "--temp", "0", "--no-display-prompt");
    check(p.code == 0 && lines(p.out) == 14 && strstr(p.out, "\"Once\"") == NULL &&
              strstr(p.out, "         -  \"<|begin_of_text|>\"\n"),
          "--logprobs in columns", &p);
    const char *last = strrchr(p.out, '\t');
    char word[100] = "";
    if (last) sscanf(last + 1, "\"%99[^\"]", word);
    check(*word && strstr(q.out, word), "the last column is the likeliest token", &q);
    process_free(&p);
    process_free(&q);
    RUN(&p, "--prompt-ids", "5", "-n", "1", "--logprobs", "0");
    check(p.code == 0 && lines(p.out) == 2, "a prompt of one token", &p);
    process_free(&p);
    RUN(&p, "-p", "x", "--logprobs", "2", "--format", "ids");
    check(p.code == 2 && strstr(p.err, "--logprobs needs --format text or jsonl"), "ids", &p);
    process_free(&p);
    RUN(&p, "-p", "x", "--logprobs", "21");
    check(p.code == 2 && strstr(p.err, "--logprobs: 21 is not in 0..20"), "too many", &p);
    process_free(&p);
    RUN(&p, "-p", "x", "--logits-of", "all");
    check(p.code == 2 && strstr(p.err, "--logits-of needs --logits-out"), "no file", &p);
    process_free(&p);
}

/* ---- documents */

/* Sum of log-probabilities of a text, by --logprobs; *n: how many. */
static double score(const char *text, int *n)
{
    struct process p;
    RUN(&p, "-p", (char *)text, "-n", "0", "--logprobs", "0");
    const char *at = strstr(p.err, "first token: ");
    double sum = NAN;
    if (!at || sscanf(at, "first token: %d tokens, log-probability %lf", n, &sum) != 2)
        check(0, "the score of a text", &p);
    process_free(&p);
    return sum;
}

static double member(const json_t *v, const char *name)
{
    return json_number_value(json_object_get(v, name));
}

static void documents(void)
{
    static const char *const texts[] = {"Once upon a time there was a king who was old.",
                                        "The heart pumps blood through the body.",
                                        "Gr\xc3\xbc\xc3\x9f"
                                        "e, he said."};
    struct process p;
    char *path = in_dir("docs.jsonl"), *report = in_dir("report"), *samples = in_dir("samples");
    FILE *f = fopen(path, "w");
    double nll[3], all = 0, squares = 0;
    int n[3], tokens = 0;
    for (int i = 0; i < 3; i++) {
        json_t *v = json_pack("{s:i, s:s}", "id", i, "text", texts[i]);
        json_dumpf(v, f, 0);
        fputs(i == 1 ? "\n{\"text\": \"\"}\n\n" : "\n", f);
        json_decref(v);
        all += nll[i] = -score(texts[i], &n[i]);
        tokens += n[i];
    }
    fclose(f);
    RUN(&p, "--perplexity", "documents", "-f", path, "--report", report, "--samples", samples);
    json_t *r = json_load_file(report, 0, NULL);
    for (int i = 0; i < 3; i++) squares += pow(nll[i] - all / tokens * n[i], 2);
    double error = sqrt(squares * 3 / 2) / tokens;
    check(p.code == 0 && fabs(member(r, "nll") - all / tokens) < 1e-4 &&
              (int)member(r, "tokens") == tokens && (int)member(r, "documents") == 3 &&
              fabs(member(r, "nll_stderr") - error) < 1e-4 &&
              fabs(member(r, "perplexity") - exp(all / tokens)) < 0.01 &&
              strstr(p.err, "1 document without tokens"),
          "perplexity of documents is that of their tokens", &p);
    json_decref(r);
    process_free(&p);
    size_t size;
    char *text = read_file(samples, &size);
    int row = 0;
    for (const char *at = text; text && *at; at = strchr(at, '\n') + 1, row++) {
        json_t *v = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        check_that(fabs(member(v, "nll") - nll[row]) < 1e-3 &&
                       json_array_size(json_object_get(v, "logprobs")) == (size_t)n[row],
                   "document %d", row);
        json_decref(v);
    }
    check_that(row == 3, "a line of --samples for each document");
    free(text);
    /* windows: every token once, the first of a window given the one before it */
    RUN(&p, "--perplexity", "documents", "-f", path, "-c", "6", "--report", report);
    r = json_load_file(report, 0, NULL);
    check(p.code == 0 && (int)member(r, "tokens") == tokens && member(r, "nll") > all / tokens,
          "documents in windows", &p);
    json_decref(r);
    process_free(&p);
    RUN(&p, "--perplexity", "documents", "-f", path, "--windows", "1");
    check(p.code == 0 && strstr(p.out, "one document: no standard error"), "one document", &p);
    process_free(&p);
    static const char *const bad[][2] = {{"{\"text\": 3}\n", "line 1: has no \"text\""},
                                         {"{\"text\": \"a b c\"}\n{\n", "line 2: not JSON"},
                                         {"[]\n", "line 1: has no \"text\""},
                                         {"{\"text\": \"\"}\n", "has no documents"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(path, bad[i][0], strlen(bad[i][0]));
        RUN(&p, "--perplexity", "documents", "-f", path);
        check(p.code == 1 && strstr(p.err, bad[i][1]) && !p.out_bytes, bad[i][1], &p);
        process_free(&p);
    }
    RUN(&p, "--perplexity", "documents", "-p", "x");
    check(p.code == 2 && strstr(p.err, "--perplexity documents needs -f FILE"), "no file", &p);
    process_free(&p);
}

/* ---- the packed tensors */

/* Output n of a linear for an input that is 1 at packed place j: what the reference makes of it. */
static void column(const struct linear *w, int j, float *x, float *y, float *scratch)
{
    int panels = (w->out + 15) / 16;
    memset(x, 0, (size_t)w->k * sizeof *x);
    x[j] = 1;
    for (int p = 0; p < panels; p += CPU_PANELS)
        cpu_ref.q4(w, x, y, 1, p, p + CPU_PANELS < panels ? p + CPU_PANELS : panels, scratch);
}

/* The matrix that Python read from PATH is the one that the engine multiplies with. offsets: those
 * of w, or NULL. */
static int same_matrix(const struct linear *w, const struct linear *offsets, const char *path)
{
    size_t n;
    float *python = (float *)read_file(path, &n);
    int rows = (w->out + 15) / 16 * 16, right = python != NULL;
    size_t size = (size_t)rows * (size_t)w->in;
    if (n != size * sizeof(float)) right = 0;
    float *whole = calloc(size, sizeof *whole), *x = malloc((size_t)w->k * sizeof *x),
          *y = malloc((size_t)rows * sizeof *y), *scratch = malloc(1 << 20);
    struct linear plain = *w;
    plain.bias = NULL;
    for (int j = 0; j < w->k && right; j++) {
        int in = w->perm ? w->perm[j] : j;
        if (in < 0) continue;
        column(&plain, j, x, y, scratch);
        for (int i = 0; i < w->out; i++) whole[(size_t)i * (size_t)w->in + (size_t)in] += y[i];
    }
    for (size_t i = 0; i < (size_t)w->out * (size_t)w->in && right; i++) {
        size_t group = i / (size_t)w->in * (size_t)w->n_groups +
                       i % (size_t)w->in / (size_t)w->group;
        if (offsets) whole[i] += f32_at(offsets->weight, offsets->weight_type, group);
        right = python[i] == whole[i];
    }
    free(python), free(whole), free(x), free(y), free(scratch);
    return right;
}

static void python_of(const char *checkpoint, const char *script)
{
    struct process p;
    struct model m;
    struct err e;
    char *path = in_dir("packed.safetensors"), *matrix = in_dir("matrix");
    int n = 0, n_permuted = 0;
    process_run(&p, (char *[]){convert_bin, "-q", (char *)checkpoint, path, NULL}, NULL);
    check(p.code == 0, checkpoint, &p);
    process_free(&p);
    process_run(&p, (char *[]){"/usr/bin/env", "python3", (char *)script, path, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "norm.weight"), "the list of tensors", &p);
    process_free(&p);
    if (model_open(&m, path, &e)) {
        check_that(0, "%s", e.msg);
        return;
    }
    for (size_t i = 0; i < m.file.st.n_tensors; i++) {
        const struct st_tensor *t = &m.file.st.tensors[i];
        size_t length = strlen(t->name);
        char name[200];
        if (length < 6 || strcmp(t->name + length - 6, ".codes") || t->n_dims != 4) continue;
        const struct linear *w = NULL, *offsets = NULL;
        for (int k = 0; k < m.plan.n_weights; k++) {
            const struct linear *l = &m.plan.weight[k].linear;
            if (m.plan.weight[k].vector || l->codes != m.file.map + t->offset) continue;
            w = l;
            offsets = m.plan.weight[k].has_offsets ? &m.plan.weight[k + 1].linear : NULL;
        }
        if (!w || n++ % 5) continue; /* every fifth */
        n_permuted += w->perm != NULL;
        snprintf(name, sizeof name, "%.*s", (int)length - 6, t->name);
        process_run(&p,
                    (char *[]){"/usr/bin/env", "python3", (char *)script, path, name, matrix, NULL},
                    NULL);
        check(p.code == 0 && same_matrix(w, offsets, matrix), name, &p);
        process_free(&p);
    }
    check_that(n > 0, "%s has packed linears", checkpoint);
    check_that(!strstr(checkpoint, "act-order") || n_permuted, "%s has permuted ones", checkpoint);
    model_close(&m);
}

static void python(void)
{
    if (system("python3 -c 'import numpy' 2>/dev/null")) {
        skip("the Python of docs/model-file.md: no python3 with numpy here");
        return;
    }
    size_t n;
    char *doc = read_file("docs/model-file.md", &n), *script = in_dir("read.py");
    char *from = doc ? strstr(doc, "```python\n") : NULL,
         *to = from ? strstr(from, "\n```\n") : NULL;
    check_that(to != NULL, "docs/model-file.md has Python");
    if (to) write_file(script, from + 10, (size_t)(to - from) - 9);
    free(doc);
    if (!to) return;
    python_of("models/demo", script);
    python_of("tests/data/gptq/llama-act-order-asym", script);
    python_of("tests/data/gptq/bits8", script);
    python_of("tests/data/gptq/gguf-least/model.gguf", script);
}

int main(int argc, char **argv)
{
    struct process p;
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    process_run(&p, (char *[]){convert_bin, "models/demo", model, NULL}, NULL);
    check(p.code == 0, "convert models/demo", &p);
    process_free(&p);
    logits();
    logprobs();
    documents();
    python();
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", dir);
    if (system(command)) return 2;
    return report("numbers");
}
