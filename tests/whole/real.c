/* real.c: a model that speaks. SmolLM2-135M-Instruct comes as a GGUF file out of a package of PyPI
 * (scripts/real-model); without the registry all is skipped. Converted exactly, it answers 20
 * prompts and questions word for word as transformers 5.24 does in fp32 with the same weights
 * (tests/data/real/answers.jsonl); its tokenizer has the ids of Hugging Face's for 2,000 lines, and
 * its logits and the likelihood of a text are those of transformers as near as fp16 weights allow;
 * with a head of 8 bits, it extracts values from 20 texts under schemas with the same bytes on
 * every machine, and says what it says anyway under an expression that allows that; quantized here
 * to 4 bits it still knows a capital. usage: real BUILD_DIR SHARED_DIR */
#include "core/base/safetensors.h"
#include "tests/harness.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* of the ids as --tokenize writes them; tokenizers 0.23 has the same 146,418 */
#define IDS_SUM "5080c2ddda6a4e049d0b25bea87f658479e7a610dabb6fd03ec97d884d954a73"

static char dir[] = "/tmp/opt4gptq-real-XXXXXX", build[512];

/* The text of an answer. */
static const char *text_of(const json_t *line)
{
    const json_t *body = json_object_get(json_object_get(line, "response"), "body"),
                 *choice = json_array_get(json_object_get(body, "choices"), 0),
                 *message = json_object_get(choice, "message"),
                 *text = message ? json_object_get(message, "content")
                                 : json_object_get(choice, "text");
    return text ? json_string_value(text) : "";
}

/* {custom_id: line} of a file of JSON lines. */
static json_t *read_lines(const char *path)
{
    size_t n;
    char *text = read_file(path, &n);
    json_t *all = json_object();
    for (char *at = text, *end; at && (end = strchr(at, '\n')); at = end + 1) {
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        const char *id = json_string_value(json_object_get(line, "custom_id"));
        if (id) json_object_set(all, id, line);
        json_decref(line);
    }
    free(text);
    return all;
}

/* Answers N requests of the file DIR_OF/REQUESTS with MODEL; all answers are those stored. */
static void answer_of(const char *model, const char *dir_of, const char *requests, size_t n_asked,
                      const char *options)
{
    char out[600];
    const char *id;
    json_t *line, *want = read_lines("tests/data/real/answers.jsonl");
    snprintf(out, sizeof out, "%s/of-%s", dir, requests);
    shell_ok("%s/opt4gptq-run -m %s/%s -i %s/%s -o %s %s 2>%s/log || { cat %s/log; false; }", build,
             dir, model, dir_of, requests, out, options, dir, dir);
    json_t *got = read_lines(out);
    check_that(json_object_size(got) == n_asked, "%s: %zu answers", requests, n_asked);
    json_object_foreach (got, id, line) {
        const char *own = json_string_value(json_object_get(json_object_get(want, id), "text"));
        check_that(own && !strcmp(own, text_of(line)), "%s: '%.300s', not '%.300s'", id,
                   text_of(line), own ? own : "nothing");
    }
    json_decref(got);
    json_decref(want);
}

static void answer(const char *model, const char *requests, const char *options)
{
    answer_of(model, "tests/data/real", requests, 20, options);
}

/* Answers that a constraint allows are those without it. */
static void allowed(void)
{
    shell_ok("tail -n 8 tests/data/real/requests.jsonl | "
             "sed 's/\"max_tokens\"/\"guided_regex\": \"[^{}]{0,2000}\", &/' >%s/allowed.jsonl && "
             "grep -c guided_regex %s/allowed.jsonl | grep -qx 8",
             dir, dir);
    answer_of("exact", dir, "allowed.jsonl", 8, "--act f32 --kv f32");
}

static void tokens(const char *shared)
{
    char lines_of[600];
    snprintf(lines_of, sizeof lines_of, "%s/data/eval/wiki.test.raw", shared);
    if (access(lines_of, R_OK)) {
        skip("ids of 2,000 lines: %s is not there", lines_of);
        return;
    }
    shell_ok("head -n 2000 %s >%s/lines && %s/opt4gptq-run -m %s/exact --tokenize -f %s/lines | "
             "sha256sum | grep -q ^" IDS_SUM,
             lines_of, dir, build, dir, dir);
}

/* Tensor NAME, with K behind it from 0 on, of an open file [*n], of four bytes each; NULL: it is
 * not there. */
static void *tensor(const struct st_file *f, const char *name, int k, size_t *n)
{
    char full[64];
    struct err e;
    if (k < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "%s%d", name, k);
    const struct st_tensor *t = st_find(f, full);
    void *data = t ? malloc((size_t)t->bytes + 1) : NULL;
    *n = t ? (size_t)t->bytes / 4 : 0;
    if (data && !st_read(f, data, t->offset, t->bytes, &e)) return data;
    free(data);
    return NULL;
}

/* The logits [rows][vocab] of the prompt ID [n], as the program writes them. */
static float *logits_of(const int32_t *id, size_t n, size_t *n_logits)
{
    char ids[2048], path[600];
    struct st_file f;
    struct err e;
    int at = 0;
    for (size_t i = 0; i < n && at < (int)sizeof ids - 16; i++)
        at += snprintf(ids + at, sizeof ids - (size_t)at, "%s%d", i ? "," : "", (int)id[i]);
    snprintf(path, sizeof path, "%s/logits", dir);
    shell_ok("%s/opt4gptq-run -m %s/exact --act f32 --kv f32 --prompt-ids %s -n 1 --ignore-eos "
             "--logits-out %s 2>/dev/null >&2",
             build, dir, ids, path);
    if (st_open(&f, path, &e)) return NULL;
    float *x = tensor(&f, "logits", -1, n_logits);
    st_close(&f);
    return x;
}

/* One stored prompt: the last row at some columns, the largest of each row and where it is. The
 * stored ones are of weights rounded to fp16, by 2^-11 at most: a hundredth of the logits'
 * deviation is allowed. */
static void prompt_logits(const struct st_file *f, int k)
{
    size_t n, n_columns, unused, n_logits = 0;
    int32_t *id = tensor(f, "ids.", k, &n), *best = tensor(f, "argmax.", k, &unused),
            *column = tensor(f, "columns", -1, &n_columns);
    float *last = tensor(f, "last.columns.", k, &unused), *max = tensor(f, "max.", k, &unused),
          *std = tensor(f, "std.", k, &unused), *x = id ? logits_of(id, n, &n_logits) : NULL;
    int ok = id && best && column && last && max && std && x && n_logits / n * n == n_logits;
    double worst = 0;
    for (size_t r = 0; ok && r < n; r++) {
        const float *row = x + r * (n_logits / n);
        worst = fmax(worst, fabs((double)row[best[r]] - max[r]));
        for (size_t i = 0; i < n_logits / n; i++) ok &= row[i] <= row[best[r]];
    }
    for (size_t i = 0; ok && i < n_columns; i++)
        worst = fmax(worst,
                     fabs((double)x[(n - 1) * (n_logits / n) + (size_t)column[i]] - last[i]));
    check_that(ok && worst < .01 * *std, "logits of prompt %d differ by %g", k, worst);
    free(id), free(best), free(column), free(last), free(max), free(std), free(x);
}

/* The first window of a text, beside the nll that transformers gives it. */
static void likelihood(const char *shared)
{
    char path[600];
    size_t n;
    snprintf(path, sizeof path, "%s/models/real/expected/smollm2.json", shared);
    json_t *stored = json_load_file(path, 0, NULL),
           *want = json_object_get(json_object_get(stored, "perplexity_without_bos_transformers"),
                                   "nll_of_windows_fp32_log_softmax");
    shell_ok("%s/opt4gptq-run -m %s/exact --act f32 --kv f32 --perplexity second-half -c 512 "
             "--windows 1 -f %s/data/eval/wiki.test.raw --samples %s/samples 2>/dev/null >&2",
             build, dir, shared, dir);
    snprintf(path, sizeof path, "%s/samples", dir);
    char *text = read_file(path, &n);
    json_t *line = text ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL,
           *all = json_object_get(line, "logprobs");
    double nll = 0, n_all = (double)json_array_size(all);
    for (size_t i = 0; i < json_array_size(all); i++)
        nll -= json_number_value(json_array_get(all, i));
    double off = (nll - json_number_value(json_array_get(want, 0))) / n_all;
    check_that(n_all == 255 && fabs(off) < 5e-4, "a token's nll is off by %g", off);
    json_decref(line);
    free(text);
    json_decref(stored);
}

static void numbers(const char *shared)
{
    char path[600];
    struct st_file f;
    struct err e;
    snprintf(path, sizeof path, "%s/models/real/expected/smollm2.safetensors", shared);
    if (st_open(&f, path, &e)) {
        skip("transformers' logits: %s", e.msg);
        return;
    }
    for (int k = 0; k < 10; k += 2) prompt_logits(&f, k);
    st_close(&f);
    likelihood(shared);
}

static void quantized(void)
{
    struct process p;
    char command[1400];
    shell_ok("%s/opt4gptq-quantize build/real/smollm2.gguf %s/four.safetensors --group 64 "
             "--no-calibration 2>/dev/null",
             build, dir);
    snprintf(command, sizeof command,
             "%s/opt4gptq-run -m %s/four.safetensors --chat -p 'What is the capital of France?' "
             "--temp 0 -n 32 --same-bits",
             build, dir);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "Paris"), "a capital, with 4 bits", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    if (argc < 3 || !mkdtemp(dir)) return 2;
    snprintf(build, sizeof build, "%s", argv[1]);
    if (shell_code("scripts/real-model build/real >%s/log 2>&1", dir) == 3) {
        size_t n;
        char *why, log[600];
        snprintf(log, sizeof log, "%s/log", dir);
        why = read_file(log, &n);
        skip("a real model: %.200s", why ? why : "");
        free(why);
    } else {
        shell_ok("%s/opt4gptq-convert -q build/real/smollm2.gguf %s/exact 2>/dev/null", build, dir);
        answer("exact", "requests.jsonl", "--act f32 --kv f32");
        allowed();
        tokens(argv[2]);
        numbers(argv[2]);
        shell_ok("%s/opt4gptq-convert -q build/real/smollm2.gguf %s/eight --plain 8bit 2>/dev/null",
                 build, dir);
        answer("eight", "extractions.jsonl", "--same-bits");
        quantized();
    }
    shell_ok("rm -r %s", dir);
    return report("real");
}
