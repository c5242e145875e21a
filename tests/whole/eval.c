/* eval.c: --perplexity and --multiple-choice. Without SHARED_DIR against what the same model's raw
 * logits (--logits-out) give by this file's own arithmetic; with it also against transformers'
 * perplexities and lm-evaluation-harness's log-likelihoods. usage: eval BUILD_DIR [SHARED_DIR
 * [--full [MODEL]]] --full (not in `make test`): every model, or this one; every window that
 * transformers was asked for, 100 questions. */
#include "core/base/safetensors.h"
#include "tests/whole/eval_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *model = "demo"; /* a file of temp_dir */
static int before[4], n_before;    /* the ids that its tokenizer puts before a text */

/* Sum and count of -log p(id[i]) for i >= from, from the raw logits of ids, computed by this file.
 */
static double nll_of(const char *ids, int from, int *count)
{
    char rest[4096];
    int32_t id[1024];
    int n = 0;
    double sum = 0;
    struct st_file s;
    struct err e;
    snprintf(rest, sizeof rest, "-m %%T/%s --kv f32 -n 0 --logits-out %%T/logits --prompt-ids %s",
             model, ids);
    free(run("opt4gptq-run", "", rest, 0));
    for (const char *p = ids; *p && n < 1024; p += strcspn(p, ","), p += *p == ',')
        id[n++] = atoi(p);
    snprintf(rest, sizeof rest, "%s/logits", temp_dir);
    if (st_open(&s, rest, &e)) return NAN;
    const struct st_tensor *t = st_find(&s, "logits");
    size_t vocab = t->bytes / 4 / (size_t)n;
    float *l = malloc(t->bytes);
    if (!l || st_read(&s, l, t->offset, t->bytes, &e)) exit(2);
    for (int i = from; i < n; i++) {
        double total = 0;
        for (size_t v = 0; v < vocab; v++) total += exp(l[(size_t)(i - 1) * vocab + v]);
        sum += log(total) - l[(size_t)(i - 1) * vocab + (size_t)id[i]];
    }
    *count = n - from;
    free(l);
    st_close(&s);
    return sum;
}

/* Ids [first .. first+n-1] of printed ids, joined by commas; what the tokenizer puts before a text
 * in the place of the first n_replaced. */
static void join(const char *ids, int first, int n, int n_replaced, char *out)
{
    const char *p = ids;
    for (int i = 0; i < first; i++) p += strcspn(p, " ") + 1;
    for (int i = 0; i < n; i++, p += strcspn(p, " ") + 1)
        out += sprintf(out, i ? ",%d" : "%d", i < n_replaced ? before[i] : atoi(p));
}

/* What the tokenizer puts before a text, then the printed ids, joined by commas; returns how many
 * ids there are. */
static int join_behind(const char *ids, char *out)
{
    int n = 1;
    for (int i = 0; i < n_before; i++) out += sprintf(out, "%d,", before[i]);
    for (const char *p = ids; *p; p++) n += *p == ' ';
    join(ids, 0, n, 0, out);
    return n_before + n;
}

static const char text[] = "The water of the river was cold, and the children who lived near it "
                           "went down every morning to fill their pots. "
                           "One day the youngest of them saw a bird that she had never seen "
                           "before. It sat on a stone in the middle of the "
                           "stream and looked at her as if it wanted to speak. She stood still and "
                           "waited, and the water went on round the "
                           "stone. Then the bird rose into the air and flew away over the trees "
                           "towards the hills, and nobody believed her.";

static void test_windows(const char *mode, int second_half)
{
    enum { WINDOW = 32, WINDOWS = 3 };
    char rest[512], ids[4096];
    snprintf(rest, sizeof rest,
             "-m %%T/%s --kv f32 --perplexity %s -f %%T/text -c %d --windows %d --report "
             "%%T/report -b 24 -np 2",
             model, mode, WINDOW, WINDOWS);
    free(run("opt4gptq-run", "", rest, 0));
    json_t *report = load_json(temp_dir, "report");
    char *all = run("opt4gptq-run", "", "-m %T/demo --tokenize -f %T/text", 0);
    double sum = 0;
    int tokens = 0, count = 0;
    for (int w = 0; all && w < WINDOWS; w++) {
        join(all, w * WINDOW, WINDOW, second_half ? n_before : 0, ids);
        sum += nll_of(ids, second_half ? WINDOW / 2 + 1 : 1, &count);
        tokens += count;
    }
    double got = json_real_value(json_object_get(report, "nll")), want = sum / tokens;
    judge(fabs(got - want) < 1e-6 &&
              json_integer_value(json_object_get(report, "tokens")) == tokens,
          "%s, %s: nll %.9f over %d tokens, from the logits %.9f", model, mode, got, tokens, want);
    json_decref(report);
    free(all);
}

static void test_documents(void)
{
    static const char *const texts[] = {"The water of the river was cold.", "One day", "\u20ac"};
    char rest[512], ids[1024], lines[512] = "";
    double sum = 0;
    int tokens = 0, count = 0;
    for (int i = 0; i < 3; i++) {
        sprintf(lines + strlen(lines), "{\"text\": \"%s\"}\n", texts[i]);
        write_text("p", texts[i]);
        char *t = run("opt4gptq-run", "", "-m %T/demo --tokenize -f %T/p", 0);
        if (t && join_behind(t, ids) > 1) {
            sum += nll_of(ids, n_before ? n_before : 1, &count);
            tokens += count;
        }
        free(t);
    }
    write_text("documents", lines);
    snprintf(rest, sizeof rest,
             "-m %%T/%s --kv f32 --perplexity documents -f %%T/documents --report %%T/report "
             "--samples %%T/samples",
             model);
    free(run("opt4gptq-run", "", rest, 0));
    json_t *report = load_json(temp_dir, "report");
    double got = json_real_value(json_object_get(report, "nll")), want = sum / tokens;
    judge(fabs(got - want) < 1e-6 &&
              json_integer_value(json_object_get(report, "tokens")) == tokens,
          "%s, documents: nll %.9f over %d tokens, from the logits %.9f", model, got, tokens, want);
    json_decref(report);
}

static void test_choices(void)
{
    write_text("questions", "{\"query\": \"Question: What do fish live in?\", \"choices\": "
                            "[\"water\", \"the dry sand of the hills\", \"fire\"], \"gold\": 0}\n"
                            "\n{\"gold\": 1, \"query\": \"Question: What is warm?\", \"choices\": "
                            "[\"ice\", \"the sun\"]}\n");
    char rest[512];
    snprintf(rest, sizeof rest,
             "-m %%T/%s --kv f32 --multiple-choice %%T/questions --samples %%T/samples "
             "--report %%T/report -np 3",
             model);
    char *out = run("opt4gptq-run", "", rest, 0);
    judge(out && !strncmp(out, "questions, 2 questions, 0-shot: acc ", 36),
          "multiple choice prints its accuracy: %s", out ? out : "nothing\n");
    free(out);
    snprintf(rest, sizeof rest, "-m %%T/%s --multiple-choice %%T/questions --limit 1", model);
    out = run("opt4gptq-run", "", rest, 0);
    judge(out && !strncmp(out, "questions, 1 question, 0-shot: acc ", 35), "one question: %s",
          out ? out : "nothing\n");
    free(out);
    char path[512], *line = NULL;
    size_t cap = 0;
    snprintf(path, sizeof path, "%s/samples", temp_dir);
    FILE *f = fopen(path, "r");
    json_t *s = f && getline(&line, &cap, f) > 0 ? json_loads(line, 0, NULL) : NULL;
    const json_t *ll = json_object_get(s, "loglikelihoods");
    static const char *const choices[] = {" water", " the dry sand of the hills", " fire"};
    char prompt[256], whole[1040];
    for (int i = 0; i < 3; i++) {
        int n_context = 0, count;
        snprintf(prompt, sizeof prompt, "Question: What do fish live in?\nAnswer:");
        write_text("p", prompt);
        char *c = run("opt4gptq-run", "", "-m %T/demo --tokenize -f %T/p", 0);
        strcat(prompt, choices[i]);
        write_text("p", prompt);
        char *w = run("opt4gptq-run", "", "-m %T/demo --tokenize -f %T/p", 0);
        for (const char *p = c; p && *p; p++) n_context += *p == ' ' || *p == '\n';
        join_behind(w, whole);
        double want = -nll_of(whole, n_before + n_context, &count),
               got = json_real_value(json_array_get(ll, (size_t)i));
        judge(fabs(got - want) < 1e-5 && count > 0,
              "%s, choice \"%s\": log-likelihood %.6f, from the logits %.6f", model, choices[i],
              got, want);
        free(c), free(w);
    }
    json_decref(s);
    free(line);
    if (f) fclose(f);
    json_t *report = load_json(temp_dir, "report");
    const json_t *result = json_object_get(json_object_get(report, "results"), "questions");
    judge(json_is_real(json_object_get(result, "acc_norm,none")) &&
              json_is_real(json_object_get(result, "acc_stderr,none")),
          "the report has lm-evaluation-harness's shape");
    json_decref(report);
}

/* Converts the demo checkpoint with this post-processor (its configuration names BOS all the same)
 * as `name`, which becomes the model under test. */
static void convert_with(const char *name, json_t *post_processor, int n, const int *ids)
{
    static const char *const same[] = {"config.json", "model.safetensors", "tokenizer_config.json",
                                       "quantize_config.json", "generation_config.json"};
    char dir[512], from[1100], to[600], rest[512];
    snprintf(dir, sizeof dir, "%s/hf-%s", temp_dir, name);
    if (mkdir(dir, 0700)) exit(2);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *models = realpath("models/demo", NULL);
        snprintf(from, sizeof from, "%s/%s", models, same[i]);
        snprintf(to, sizeof to, "%s/%s", dir, same[i]);
        if (access(from, R_OK) == 0 && symlink(from, to)) exit(2);
        free(models);
    }
    json_t *j = load_json("models/demo", "tokenizer.json");
    snprintf(to, sizeof to, "%s/tokenizer.json", dir);
    if (json_object_set_new(j, "post_processor", post_processor) || json_dump_file(j, to, 0))
        exit(2);
    json_decref(j);
    snprintf(rest, sizeof rest, "%%T/hf-%s %%T/%s", name, name);
    free(run("opt4gptq-convert", "", rest, 0));
    model = name;
    if (n) memcpy(before, ids, (size_t)n * sizeof *ids);
    n_before = n;
}

/* Evaluations put before a text what the tokenizer puts there: nothing, or more than BOS. */
static void test_before(void)
{
    char *p = run("opt4gptq-run", "", "-m %T/demo --tokenize -p water", 0);
    int bos = before[0], two[] = {p ? atoi(p) : 0, bos};
    free(p);
    for (int i = 0; i < 2; i++) {
        if (i)
            convert_with(
                "two",
                json_pack("{s:s,s:[{s:{s:s}},{s:{s:s}},{s:{s:s}}],s:{s:{s:[i]},s:{s:[i]}}}", "type",
                          "TemplateProcessing", "single", "SpecialToken", "id", "w", "SpecialToken",
                          "id", "b", "Sequence", "id", "A", "special_tokens", "w", "ids", two[0],
                          "b", "ids", two[1]),
                2, two);
        else convert_with("none", json_null(), 0, NULL);
        test_windows("contiguous", 0);
        test_windows("second-half", 1);
        test_documents();
        test_choices();
    }
    free(run("opt4gptq-run", "", "-m %T/two --perplexity documents -f %T/documents -c 2", 1));
    judge(strstr(run_stderr, "-c 2: a window has at least 3 tokens") != NULL,
          "a window that has room for no token of a text");
    model = "demo", before[0] = bos, n_before = 1;
}

/* What a report says of the part that was computed, and of names that are not UTF-8. */
static void test_parts(void)
{
    static const char bad[] = "q\xff.jsonl";
    char path[512];
    write_text(bad, "{\"query\": \"A\", \"choices\": [\"b\", \"c\"], \"gold\": 0}\n"
                    "\n{\"query\": \"D\", \"choices\": [\"e\", \"f\"], \"gold\": 1}\n"
                    "{\"query\": \"G\", \"choices\": [\"h\", \"i\"], \"gold\": 1}\n");
    char *out = run("opt4gptq-run", "",
                    "-m %T/demo --multiple-choice %T/q\xff.jsonl --limit 2 --few-shot 1 "
                    "--few-shot-file %T/q\xff.jsonl "
                    "--report %T/report",
                    0);
    judge(out && strstr(out, "q\xef\xbf\xbd, 2 questions, 1-shot") == out,
          "a name that is not UTF-8: %s", out ? out : "nothing\n");
    free(out);
    json_t *report = load_json(temp_dir, "report");
    const json_t *n = json_object_get(json_object_get(report, "n-samples"), "q\xef\xbf\xbd");
    judge(json_integer_value(json_object_get(n, "original")) == 3 &&
              json_integer_value(json_object_get(n, "effective")) == 2,
          "--limit: the questions of the file beside those asked");
    const char *shots =
        json_string_value(json_object_get(json_object_get(report, "config"), "few_shot_file"));
    judge(shots && strstr(shots, "/q\xef\xbf\xbd.jsonl"), "a report in UTF-8");
    json_decref(report);
    free(run("opt4gptq-run", "", "-m %T/demo --multiple-choice %T/q\xff.jsonl --report %T/report",
             0));
    report = load_json(temp_dir, "report");
    n = json_object_get(json_object_get(report, "n-samples"), "q\xef\xbf\xbd");
    judge(json_integer_value(json_object_get(n, "original")) == 3 &&
              json_integer_value(json_object_get(n, "effective")) == 3,
          "without --limit they are all");
    json_decref(report);
    free(run("opt4gptq-run", "",
             "-m %T/demo --perplexity contiguous -f %T/text -c 16 --windows 2 --report %T/report",
             0));
    char *all = run("opt4gptq-run", "", "-m %T/demo --tokenize -f %T/text", 0);
    int tokens = 1;
    for (const char *p = all; p && *p; p++) tokens += *p == ' ';
    report = load_json(temp_dir, "report");
    judge(json_integer_value(json_object_get(report, "windows")) == 2 &&
              json_integer_value(json_object_get(report, "windows_of")) == tokens / 16,
          "--windows: the windows of the text beside those computed");
    json_decref(report);
    free(all);
    snprintf(path, sizeof path, "%s/%s", temp_dir, bad);
    unlink(path);
}

/* A context beyond the model's positions is said in every mode. */
static void test_long_context(void)
{
    static const char *const modes[] = {"-p x -n 0", "--perplexity contiguous -f %T/long",
                                        "--multiple-choice %T/questions", "-i %T/lines -o - -n 1"};
    char rest[512], want[128];
    FILE *f;
    snprintf(rest, sizeof rest, "%s/long", temp_dir);
    f = fopen(rest, "w");
    for (int i = 0; f && i < 1200; i++) fprintf(f, "The water of the river. ");
    if (!f || fclose(f)) exit(2);
    write_text("lines", "The water\n");
    snprintf(want, sizeof want,
             "note: -c 1200 is more than the 1024 positions that the model was made for");
    for (int i = 0; i < 4; i++) {
        snprintf(rest, sizeof rest, "-m %%T/demo -c 1200 -np 1 %s", modes[i]);
        free(run("opt4gptq-run", "", rest, 0));
        judge(strstr(run_stderr, want) != NULL, "a note on -c 1200: %s", modes[i]);
        snprintf(rest, sizeof rest, "-m %%T/demo -c 1024 -np 1 %s", modes[i]);
        free(run("opt4gptq-run", "", rest, 0));
        judge(!strstr(run_stderr, "positions that"), "none on -c 1024: %s", modes[i]);
    }
}

static void test_refusals(void)
{
    static const struct {
        const char *rest;
        int code;
    } cases[] = {
        {"-m %T/demo --perplexity sometimes -f %T/text", 2},
        {"-m %T/demo --perplexity contiguous", 2},
        {"-m %T/demo --perplexity contiguous -f %T/text -c 4096",
         1}, /* fewer tokens than a window */
        {"-m %T/demo --perplexity contiguous -f %T/missing", 1},
        {"-m %T/demo --multiple-choice %T/bad", 1},
        {"-m %T/demo --multiple-choice %T/questions --few-shot 2", 2},
        {"-m %T/demo --windows 3 -p x", 2},
    };
    write_text("bad", "{\"query\": \"Q\", \"choices\": [\"a\", \"b\"], \"gold\": 2}\n");
    int bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = run("opt4gptq-run", "", cases[i].rest, cases[i].code);
        bad += !out;
        free(out);
    }
    judge(!bad, "%zu wrong uses are refused", sizeof cases / sizeof *cases);
}

/* One entry of a model's expected perplexities, by both conventions, on the model converted last.
 */
static void test_perplexity(const char *shared, const char *name, const json_t *want)
{
    static const char *const modes[] = {"second-half", "contiguous"}, *const keys[] = {
                                                                          "second_half",
                                                                          "contiguous"};
    int windows = (int)json_integer_value(json_object_get(want, "windows"));
    char rest[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(rest, sizeof rest,
                 "-m %%T/model --act f32 --kv f32 --perplexity %s -f %s/data/eval/wiki.test.raw -c "
                 "%d --windows %d --report %%T/report",
                 modes[i], shared, (int)json_integer_value(json_object_get(want, "ctx")), windows);
        free(run("opt4gptq-run", "", rest, 0));
        json_t *report = load_json(temp_dir, "report");
        const json_t *e = json_object_get(want, keys[i]);
        double got = json_real_value(json_object_get(report, "perplexity")),
               ppl = json_real_value(json_object_get(e, "ppl"));
        judge(fabs(got / ppl - 1) < 1e-4 && json_integer_value(json_object_get(report, "tokens")) ==
                                                json_integer_value(json_object_get(e, "tokens")),
              "%s %s, %d windows: perplexity %.6f, transformers %.6f (%.1e)", name, modes[i],
              windows, got, ppl, fabs(got / ppl - 1));
        json_decref(report);
    }
}

static void test_model(const char *shared, const char *name, int full)
{
    char rest[1024], dir[512];
    snprintf(dir, sizeof dir, "%s/models/%s", shared, name);
    snprintf(rest, sizeof rest, "%s %%T/model", dir);
    free(run("opt4gptq-convert", "", rest, 0));
    json_t *want = load_json(dir, "expected.json");
    const json_t *all = json_object_get(want, "perplexity"); /* many windows, then 8 */
    for (size_t i = full ? 0 : 1; i < json_array_size(all); i++)
        test_perplexity(shared, name, json_array_get(all, i));
    json_decref(want);
}

/* The first N_QUESTIONS against what lm-evaluation-harness got. */
static void test_arc(const char *shared, const char *task, int n_questions)
{
    char rest[1024], dir[512], *line = NULL;
    size_t cap = 0;
    snprintf(dir, sizeof dir, "%s/models/wiki-g128", shared);
    snprintf(rest, sizeof rest, "%s %%T/model", dir);
    free(run("opt4gptq-convert", "", rest, 0));
    snprintf(rest, sizeof rest,
             "-m %%T/model --act f32 --kv f32 --multiple-choice %s/data/eval/%s.jsonl --limit %d "
             "--samples %%T/samples",
             shared, task, n_questions);
    free(run("opt4gptq-run", "", rest, 0));
    json_t *all = load_json(dir, "arc.json");
    const json_t *samples = json_object_get(json_object_get(json_object_get(all, "results"), task),
                                            "samples");
    snprintf(rest, sizeof rest, "%s/samples", temp_dir);
    FILE *f = fopen(rest, "r");
    double worst = 0;
    int n = 0, right = 0;
    for (; f && getline(&line, &cap, f) > 0; n++) {
        json_t *s = json_loads(line, 0, NULL);
        const json_t *a = json_object_get(s, "loglikelihoods"),
                     *want = json_array_get(samples, (size_t)n),
                     *b = json_object_get(want, "loglikelihoods");
        for (size_t i = 0; i < json_array_size(b); i++)
            worst = fmax(worst, fabs(json_number_value(json_array_get(a, i)) -
                                     json_number_value(json_array_get(b, i))));
        right += json_number_value(json_object_get(s, "acc")) ==
                     json_number_value(json_object_get(want, "acc")) &&
                 json_number_value(json_object_get(s, "acc_norm")) ==
                     json_number_value(json_object_get(want, "acc_norm"));
        json_decref(s);
    }
    judge(n == n_questions && worst < 1e-3 && right == n,
          "%s: %d questions, largest difference of a log-likelihood %.1e, %d with equal verdicts",
          task, n, worst, right);
    if (f) fclose(f);
    free(line);
    json_decref(all);
}

int main(int argc, char **argv)
{
    int full = argc >= 4 && !strcmp(argv[3], "--full");
    if (argc < 2 || argc > (full ? 5 : 3))
        return fprintf(stderr, "usage: eval BUILD_DIR [SHARED_DIR [--full [MODEL]]]\n"), 2;
    build_dir = argv[1];
    if (!mkdtemp(temp_dir)) return perror(temp_dir), 2;
    free(run("opt4gptq-convert", "", "models/demo %T/demo", 0));
    write_text("text", text);
    char *first = run("opt4gptq-run", "", "-m %T/demo --tokenize --special -p x", 0);
    before[0] = first ? atoi(first) : 0, n_before = 1;
    free(first);
    test_windows("contiguous", 0);
    test_windows("second-half", 1);
    test_documents();
    test_choices();
    test_before();
    test_parts();
    test_long_context();
    test_refusals();
    if (argc >= 3 && access(argv[2], R_OK) == 0) {
        static const char *const models[] = {
            "demo",      "demo-8bit-g64",  "demo-2bit-g32", "wiki-g128-act-asym",
            "demo-g128", "demo-3bit-g128", "wiki-g128"}; /* the last three in full runs */
        for (int i = 0; i < (full ? 7 : 4); i++)
            if (argc < 5 || !strcmp(argv[4], models[i])) test_model(argv[2], models[i], full);
        test_arc(argv[2], "arc_easy", full ? 100 : 40);
        test_arc(argv[2], "arc_challenge", full ? 100 : 40);
    } else {
        skip("transformers' perplexities and lm-evaluation-harness's answers: no directory "
             "%s",
             argc >= 3 ? argv[2] : "given");
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", temp_dir);
    if (system(command)) perror(command);
    return report("eval");
}
