/* eval_tasks.c: --eval as a user runs it. With made-up questions and the demo model: every
 * log-likelihood against the raw logits of the tokens that --tokenize prints, generated texts
 * against ids of a plain run, reports and groups against the lines of single questions, refusals.
 * With SHARED_DIR some of the questions that lm-evaluation-harness answered.
 * usage: eval_tasks BUILD_DIR [SHARED_DIR] */
#include "core/base/safetensors.h"
#include "tests/whole/eval_tools.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char demo[] = "-m %T/demo --act f32";

/* The lines of a file of questions' results. */
static json_t *load_lines(const char *name)
{
    char path[1024], *line = NULL;
    size_t cap = 0;
    json_t *all = json_array();
    snprintf(path, sizeof path, "%s/%s", temp_dir, name);
    FILE *f = fopen(path, "r");
    while (f && getline(&line, &cap, f) > 0) json_array_append_new(all, json_loads(line, 0, NULL));
    if (f) fclose(f);
    free(line);
    return all;
}

static const char *text_at(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

/* ---- questions of the project's own */

static void write_questions(void)
{
    static const char *const subjects[] = {"anatomy", "virology", "sociology"};
    static const char question[] =
        "{\"question\": \"%s %d, said the %s?\", \"subject\": \"%s\", \"choices\": [\"the river\", "
        "\"a stone\", \"%d birds\", \"water\"], \"answer\": %d}\n";
    char text[8192] = "", name[64];
    if (mkdir(strcat(strcpy(text, temp_dir), "/q"), 0700)) exit(2);
    for (int split = 0; split < 2; split++) {
        *text = 0;
        for (int s = 0; s < 3; s++)
            for (int i = 0; i < 3 + s; i++)
                sprintf(text + strlen(text), question, split ? "What of" : "Who saw", i,
                        i % 2 ? "boy" : "old woman", subjects[s], i + 2, (i + s) % 4);
        snprintf(name, sizeof name, "q/mmlu_%s.jsonl", split ? "dev" : "test");
        write_text(name, text);
    }
    write_text(
        "q/hellaswag_validation.jsonl",
        "{\"activity_label\": \"Fishing\", \"ctx_a\": \"A boy sits by the river.\", "
        "\"ctx_b\": \"the Boy\", \"endings\": [\"[substeps] catches a fish.\", \"flies "
        "away.\", \"sings [title] loud\", \"goes home. \"], \"label\": \"0\"}\n"
        "\n{\"activity_label\": \"Home\", \"ctx_a\": \"[header] How to sleep [title] Rest.\", "
        "\"ctx_b\": \"\", \"endings\": [\"Lie down.\", \"Run to the hills.\", \"Eat.\", "
        "\"Lie down on a bed.\"], \"label\": 3}\n");
    write_text("q/winogrande.jsonl",
               "{\"sentence\": \"The boy gave the girl water because _ was thirsty.\", "
               "\"option1\": \"the boy\", \"option2\": \"the girl\", \"answer\": \"2\"}\n"
               "{\"sentence\": \"The stone broke the pot: _ was hard.\", \"option1\": \"the "
               "stone\", \"option2\": \"the pot\", \"answer\": 1}\n"
               "{\"sentence\": \"_ sang.\", \"option1\": \"He\", \"option2\": \"She\", "
               "\"answer\": \"1\"}\n");
    write_text("q/piqa.jsonl", "{\"goal\": \"To drink,\", \"sol1\": \"take a cup \", \"sol2\": "
                               "\"take a stone\", \"label\": 0}\n"
                               "{\"goal\": \"To sleep,\", \"sol1\": \"sing\", \"sol2\": \"lie "
                               "down\", \"label\": 1}\n");
    write_text("q/arc_easy.jsonl",
               "{\"question\": \"What do fish live in?\", \"choices\": {\"text\": [\"water\", "
               "\"sand\", \"fire\"], \"label\": [\"A\", \"B\", \"C\"]}, \"answerKey\": \"A\"}\n");
    write_text("q/gsm8k_test.jsonl",
               "{\"question\": \"A boy has 2 birds and gets 3. How many?\", \"answer\": "
               "\"<<2+3=5>>5\\n#### 5\"}\n{\"question\": \"How many legs have 4 birds?\", "
               "\"answer\": \"#### 8\"}\n");
    write_text("q/gsm8k_train.jsonl", "{\"question\": \"1 and 1?\", \"answer\": \"#### 2\"}\n"
                                      "{\"question\": \"2 and 2?\", \"answer\": \"#### 4\"}\n"
                                      "{\"question\": \"3 and 3?\", \"answer\": \"#### 6\"}\n");
}

/* ---- log-likelihoods */

/* The ids of a text with those that the tokenizer adds, separated by commas; their number. */
static int ids_of(const char *text, size_t n, char *ids)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/text", temp_dir);
    write_file(path, text, n);
    char *out = run("opt4gptq-run", "-m %T/demo --tokenize --special", "-f %T/text", 0);
    int count = 1;
    for (const char *p = out ? out : ""; *p && *p != '\n'; p++) {
        count += *p == ' ';
        *ids++ = *p == ' ' ? ',' : *p;
    }
    *ids = 0;
    free(out);
    return count;
}

/* Of what follows the context, and whether each token was the likeliest, from the raw logits. */
static double log_likelihood(const char *context, const char *continuation, int *is_greedy)
{
    char whole[4096], ids[8192], rest[8300];
    int from = ids_of(context, strlen(context), ids);
    snprintf(whole, sizeof whole, "%s%s", context, continuation);
    int n = ids_of(whole, strlen(whole), ids);
    snprintf(rest, sizeof rest, "--kv f32 -n 0 --logits-out %%T/logits --prompt-ids %s", ids);
    free(run("opt4gptq-run", demo, rest, 0));
    struct st_file s;
    struct err e;
    snprintf(rest, sizeof rest, "%s/logits", temp_dir);
    if (st_open(&s, rest, &e)) return NAN;
    const struct st_tensor *t = st_find(&s, "logits");
    size_t vocab = t->bytes / 4 / (size_t)n;
    float *l = malloc(t->bytes);
    if (!l || st_read(&s, l, t->offset, t->bytes, &e)) exit(2);
    double sum = 0;
    const char *p = ids;
    *is_greedy = 1;
    for (int i = 0; i < n; i++, p += strcspn(p, ","), p += *p == ',') {
        if (i < from) continue;
        const float *row = l + (size_t)(i - 1) * vocab;
        double total = 0;
        for (size_t v = 0; v < vocab; v++) {
            total += exp(row[v]);
            *is_greedy &= row[v] <= row[atoi(p)];
        }
        sum += row[atoi(p)] - log(total);
    }
    free(l);
    st_close(&s);
    return sum;
}

/* The choice with the largest value, the first of equals. LENGTHS (or NULL): divided by these. */
static int best(const double *v, const int *lengths, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (v[i] / (lengths ? lengths[i] : 1) > v[best] / (lengths ? lengths[best] : 1)) best = i;
    return best;
}

/* Every line of a task against the raw logits; GOLD [lines]. */
static void check_choices(const char *task, const int *gold, int has_norm)
{
    char name[64];
    size_t at, i;
    json_t *line, *a;
    int wrong = 0, n = 0;
    double worst = 0;
    snprintf(name, sizeof name, "samples/samples_%s.jsonl", task);
    json_t *lines = load_lines(name);
    json_array_foreach (lines, at, line) {
        const json_t *args = json_object_get(line, "arguments"),
                     *all = json_object_get(line, "resps");
        double ll[8];
        int length[8];
        json_array_foreach (all, i, a) {
            char key[32];
            int greedy;
            snprintf(key, sizeof key, "gen_args_%zu", i);
            const json_t *pair = json_object_get(args, key), *got = json_array_get(a, 0);
            const char *follows = text_at(pair, "arg_1");
            ll[i] = log_likelihood(text_at(pair, "arg_0"), follows, &greedy);
            length[i] = (int)strlen(follows) - 1;
            worst = fmax(worst, fabs(ll[i] - atof(json_string_value(json_array_get(got, 0)))));
            wrong += strcmp(json_string_value(json_array_get(got, 1)), greedy ? "True" : "False");
            n++;
        }
        int m = (int)json_array_size(all);
        wrong += json_number_value(json_object_get(line, "acc")) != (best(ll, NULL, m) == gold[at]);
        if (has_norm)
            wrong += json_number_value(json_object_get(line, "acc_norm")) !=
                     (best(ll, length, m) == gold[at]);
    }
    judge(n && !wrong && worst < 1e-4,
          "%s: %d log-likelihoods, largest difference to the raw logits' %.1e, %d verdicts wrong",
          task, n, worst, wrong);
    json_decref(lines);
}

static void check_context(const char *task, int line, int arg, const char *context,
                          const char *continuation)
{
    char name[64], key[32];
    snprintf(name, sizeof name, "samples/samples_%s.jsonl", task);
    snprintf(key, sizeof key, "gen_args_%d", arg);
    json_t *lines = load_lines(name);
    const json_t *a =
        json_object_get(json_object_get(json_array_get(lines, (size_t)line), "arguments"), key);
    int ok = !strcmp(text_at(a, "arg_0"), context) && !strcmp(text_at(a, "arg_1"), continuation);
    judge(ok, "%s, question %d: \"%s\" + \"%s\"", task, line, ok ? "its text" : text_at(a, "arg_0"),
          text_at(a, "arg_1"));
    json_decref(lines);
}

/* The hashes of a question and of a task as Python's json and hashlib have them. */
static void test_hashes(void)
{
    static const char *const want[][2] = {
        {"doc_hash", "fe51eb43a70ad7a73f7890f86f11b78b2f69ecec813957fec4278eaaa53e8bb1"},
        {"prompt_hash", "9637d859f91224b960439b9c5608bf75a3d43d1db3e7451f43da5b08508d236b"},
        {"target_hash", "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"}};
    free(run("opt4gptq-run", demo,
             "--eval hellaswag,gsm8k --num-fewshot 0 --eval-data %T/q --samples %T/samples "
             "--report %T/report",
             0));
    json_t *lines = load_lines("samples/samples_hellaswag.jsonl"),
           *r = load_json(temp_dir, "report");
    const json_t *line = json_array_get(lines, 0), *doc = json_object_get(line, "doc"),
                 *all = json_object_get(r, "task_hashes");
    for (int i = 0; i < 3; i++)
        judge(!strcmp(text_at(line, want[i][0]), want[i][1]), "%s: %s", want[i][0],
              text_at(line, want[i][0]));
    judge(!strcmp(text_at(doc, "query"), "Fishing: A boy sits by the river. The boy") &&
              json_array_size(json_object_get(doc, "choices")) == 4 &&
              json_is_integer(json_object_get(doc, "gold")),
          "hellaswag: a document has what its definition adds");
    judge(!strcmp(text_at(all, "hellaswag"),
                  "3e109b8cbe09368710506ee25f02998f843de75491f358b211f02d3f32de087d") &&
              !strcmp(text_at(all, "gsm8k"),
                      "40eb25577a3082c8c594f2f4a5dc0e5c1aa7b950c780e7858cd3d3a710dab5b0"),
          "task_hashes: %s, %s", text_at(all, "hellaswag"), text_at(all, "gsm8k"));
    json_decref(lines);
    json_decref(r);
}

static void test_choices(void)
{
    static const int ones[] = {0, 3}, wino[] = {1, 0, 0}, piqa[] = {0, 1}, arc[] = {0};
    static const int anatomy[] = {0, 1, 2}, virology[] = {1, 2, 3, 0},
                     sociology[] = {2, 3, 0, 1, 2};
    char *out = run("opt4gptq-run", demo,
                    "--eval hellaswag,winogrande,piqa,arc_easy,arc_easy_letters,mmlu_anatomy,"
                    "mmlu_virology,mmlu_sociology --eval-data %T/q --samples %T/samples -np 3",
                    0);
    judge(out && strstr(out, "hellaswag, 2 questions, 0-shot: acc ") == out &&
              strstr(out, "\narc_easy, 1 question, 0-shot: acc "),
          "results are printed");
    free(out);
    check_choices("hellaswag", ones, 1);
    check_choices("winogrande", wino, 0);
    check_choices("piqa", piqa, 1);
    check_choices("arc_easy", arc, 1);
    check_choices("arc_easy_letters", arc, 0);
    check_choices("mmlu_anatomy", anatomy, 0);
    check_choices("mmlu_virology", virology, 0);
    check_choices("mmlu_sociology", sociology, 0);
    check_context("hellaswag", 0, 0, "Fishing: A boy sits by the river. The boy",
                  "  catches a fish.");
    check_context("hellaswag", 1, 3, "Home: How to sleep. Rest.", " Lie down on a bed.");
    check_context("winogrande", 1, 1, "The stone broke the pot: the pot", " was hard.");
    check_context("piqa", 0, 0, "Question: To drink,\nAnswer:", " take a cup ");
    check_context("arc_easy_letters", 0, 2,
                  "What do fish live in?\nA. water\nB. sand\nC. fire\nAnswer:", " C");
    check_context("mmlu_virology", 1, 3,
                  "The following are multiple choice questions (with answers) about virology.\n\n"
                  "Who saw 1, said the boy?\nA. the river\nB. a stone\nC. 3 birds\nD. "
                  "water\nAnswer:",
                  " D");
}

/* With examples: the same bytes one question at a time without shared pages. */
static void test_examples(void)
{
    static const int wino[] = {1, 0, 0}, virology[] = {1, 2, 3, 0};
    static const char rest[] = "--eval winogrande,mmlu_virology --eval-data %T/q --num-fewshot 2 "
                               "--samples %T/";
    char both[256];
    snprintf(both, sizeof both, "%ssamples", rest);
    free(run("opt4gptq-run", demo, both, 0));
    check_choices("winogrande", wino, 0);
    check_choices("mmlu_virology", virology, 0);
    check_context("winogrande", 2, 1,
                  "The boy gave the girl water because the girl was thirsty.\n\n"
                  "The stone broke the pot: the stone was hard.\n\nShe",
                  " sang.");
    snprintf(both, sizeof both, "%salone -np 1 -b 7 --no-prefix-cache", rest);
    free(run("opt4gptq-run", demo, both, 0));
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"winogrande", "mmlu_virology"};
        char name[2][64];
        snprintf(name[0], sizeof name[0], "samples/samples_%s.jsonl", names[i]);
        snprintf(name[1], sizeof name[1], "alone/samples_%s.jsonl", names[i]);
        json_t *a = load_lines(name[0]), *b = load_lines(name[1]);
        judge(json_array_size(a) && json_equal(a, b), "%s: the same alone", names[i]);
        json_decref(a), json_decref(b);
    }
}

/* ---- generated answers */

static void test_answers(void)
{
    free(run("opt4gptq-run", demo, "--eval gsm8k --eval-data %T/q --num-fewshot 2 --samples %T/s",
             0));
    json_t *lines = load_lines("s"), *line;
    size_t at;
    int same = 0;
    json_array_foreach (lines, at, line) {
        const json_t *args = json_object_get(json_object_get(line, "arguments"), "gen_args_0");
        const char *got =
            json_string_value(json_array_get(json_array_get(json_object_get(line, "resps"), 0), 0));
        write_text("text", text_at(args, "arg_0"));
        char *ids = run("opt4gptq-run", demo,
                        "--kv f32 -f %T/text -n 256 --temp 0 --repeat-penalty 1 --format ids "
                        "--no-display-prompt",
                        0);
        write_text("ids", ids ? ids : "");
        char *text = run("opt4gptq-run", "-m %T/demo --detokenize", "-f %T/ids", 0), *cut;
        if (text && (cut = strstr(text, "Question:"))) *cut = 0;
        size_t n = text ? strlen(text) : 0;
        if (n && text[n - 1] == '\n' && got && strlen(got) < n) text[n - 1] = 0;
        same += text && got && !strcmp(text, got);
        if (text && got && strcmp(text, got)) printf("  %s\n  %s\n", got, text);
        free(ids);
        free(text);
    }
    judge(json_array_size(lines) == 4 && same == 4, "gsm8k: %d of 4 texts are those of a plain run",
          same);
    const json_t *first = json_array_get(lines, 0), *last = json_array_get(lines, 3);
    judge(!strcmp(text_at(first, "filter"), "flexible-extract") &&
              !strcmp(text_at(last, "filter"), "strict-match") &&
              json_integer_value(json_object_get(last, "doc_id")) == 1,
          "a line for each filter");
    json_decref(lines);
}

/* ---- reports */

static double number_at(const json_t *j, const char *a, const char *b, const char *c)
{
    return json_number_value(json_object_get(json_object_get(json_object_get(j, a), b), c));
}

/* All 57 subjects of one question, three of which have more: groups as pooled sums. */
static void test_groups(void)
{
    static const char *const humanities[] = {"philosophy", "prehistory"};
    (void)humanities;
    char *help = run("opt4gptq-run", demo, "--eval mmlu --eval-data %T/q", 1);
    judge(help && strstr(run_stderr, "has no questions of subject "),
          "a subject that is missing: %s", run_stderr);
    free(help);
    help = run("opt4gptq-run", demo, "--eval mmlu_social_sciences --eval-data %T/q", 1);
    free(help);
    /* the subjects that are not there */
    static const char *const names[] = {"econometrics",
                                        "high_school_geography",
                                        "high_school_government_and_politics",
                                        "high_school_macroeconomics",
                                        "high_school_microeconomics",
                                        "high_school_psychology",
                                        "human_sexuality",
                                        "professional_psychology",
                                        "public_relations",
                                        "security_studies",
                                        "us_foreign_policy"};
    char name[96];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[2048] = "";
        for (int k = 0; k < 2; k++)
            sprintf(text + strlen(text),
                    "{\"question\": \"Is %zu %d?\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], "
                    "\"answer\": %d}\n",
                    i, k, (int)(i + (size_t)k) % 4);
        snprintf(name, sizeof name, "q/mmlu_%s_test.jsonl", names[i]);
        write_text(name, text);
    }
    free(run("opt4gptq-run", demo,
             "--eval mmlu_social_sciences,gsm8k,piqa --eval-data %T/q --num-fewshot 0 --limit 4 "
             "--report %T/report",
             0));
    json_t *r = load_json(temp_dir, "report"), *v;
    const char *key;
    double right = 0, n = 0, k = 0, squares = 0;
    json_object_foreach (json_object_get(r, "results"), key, v) {
        if (strncmp(key, "mmlu_", 5) || !strcmp(key, "mmlu_social_sciences")) continue;
        double m = json_number_value(json_object_get(v, "sample_len")),
               mean = json_number_value(json_object_get(v, "acc,none")),
               s = json_number_value(json_object_get(v, "acc_stderr,none"));
        right += m * mean, n += m, k++, squares += (m - 1) * m * s * s;
    }
    double mean = number_at(r, "groups", "mmlu_social_sciences", "acc,none"),
           error = number_at(r, "groups", "mmlu_social_sciences", "acc_stderr,none");
    judge(k == 12 && n == 26 && fabs(mean - right / n) < 1e-12 &&
              fabs(error - sqrt(squares / (n - k) / n)) < 1e-12,
          "group of %g subjects, %g questions: %.4f +/- %.4f", k, n, mean, error);
    judge(json_array_size(json_object_get(json_object_get(r, "group_subtasks"),
                                          "mmlu_social_sciences")) == 12 &&
              number_at(r, "n-samples", "mmlu_sociology", "original") == 5 &&
              number_at(r, "n-samples", "mmlu_sociology", "effective") == 4 &&
              json_is_real(json_object_get(json_object_get(json_object_get(r, "results"), "gsm8k"),
                                           "exact_match_stderr,flexible-extract")) &&
              !strcmp(text_at(json_object_get(json_object_get(r, "results"), "mmlu_sociology"),
                              "alias"),
                      "sociology") &&
              json_is_string(json_object_get(r, "total_evaluation_time_seconds")),
          "the report has lm-evaluation-harness's names");
    json_decref(r);
    free(run("opt4gptq-run", demo, "--eval piqa --eval-data %T/q --limit 1 --report %T/report", 0));
    r = load_json(temp_dir, "report");
    judge(
        !strcmp(text_at(json_object_get(json_object_get(r, "results"), "piqa"), "acc_stderr,none"),
                "N/A"),
        "one question has no standard error");
    json_decref(r);
}

/* ---- packed files, refusals */

static void test_packed(void)
{
    char command[1024], *a = run("opt4gptq-run", demo, "--eval piqa --eval-data %T/q", 0), *b;
    static const char *const packers[] = {"gzip", "xz"};
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "command -v %s >/dev/null && mkdir -p %s/%s && cp %s/q/piqa.jsonl %s/%s && %s "
                 "%s/%s/piqa.jsonl",
                 packers[i], temp_dir, packers[i], temp_dir, temp_dir, packers[i], packers[i],
                 temp_dir, packers[i]);
        if (system(command)) {
            skip("a file packed by %s: it is not installed", packers[i]);
            continue;
        }
        snprintf(command, sizeof command, "--eval piqa --eval-data %%T/%s", packers[i]);
        b = run("opt4gptq-run", demo, command, 0);
        judge(a && b && !strcmp(a, b), "questions packed by %s", packers[i]);
        free(b);
    }
    free(a);
    if (mkdir(strcat(strcpy(command, temp_dir), "/cut"), 0700)) exit(2);
    write_text("cut/piqa.jsonl.xz", "\xfd"
                                    "7zXZ");
    free(run("opt4gptq-run", demo, "--eval piqa --eval-data %T/cut", 1));
    judge(strstr(run_stderr, "piqa.jsonl.xz: damaged or cut xz file") != NULL, "a damaged xz file");
}

static void test_refusals(void)
{
    static const struct {
        const char *rest;
        int code;
        const char *says;
    } cases[] = {
        {"--eval piqa", 2, "--eval needs --eval-data DIR"},
        {"--eval-data %T/q -p x", 2, "--eval-data needs --eval"},
        {"--eval piqa,quiz --eval-data %T/q", 2, "\"quiz\" is none of"},
        {"--eval piqa --eval-data %T/q --few-shot-file %T/q/piqa.jsonl", 2, "--few-shot-file"},
        {"--eval piqa --multiple-choice x --eval-data %T/q", 2, "--eval"},
        {"--eval piqa --eval-data %T/none", 1, "--eval-data %T/none: No such file"},
        {"--eval piqa --eval-data %T/demo", 1, "is not a folder"},
        {"--eval arc_challenge --eval-data %T/q", 1, "no file arc_challenge_test.jsonl in "},
        {"--eval arc_easy --eval-data %T/q --num-fewshot 1", 1, "no file arc_easy_train.jsonl"},
        {"--eval piqa --eval-data %T/q --num-fewshot 2", 1, "2 examples and the question itself"},
        {"--eval gsm8k --eval-data %T/q", 1, "gsm8k: 5 examples: "},
        {"--eval gsm8k --eval-data %T/q --num-fewshot 0 -c 256", 1, "gsm8k generates 256 tokens"},
        {"--eval hellaswag --eval-data %T/q -c 2", 1,
         "hellaswag_validation.jsonl line 1: a choice "},
        {"--eval piqa --eval-data %T/q --report %T/q/piqa.jsonl", 1, "is also a file of questions"},
        {"--eval piqa --eval-data %T/q --samples %T/q/piqa.jsonl", 1,
         "is also a file of questions"},
        {"--eval piqa,winogrande --eval-data %T/q --samples %T/demo", 2, "is also the file of"},
        {"--eval piqa,winogrande --eval-data %T/q --samples %T/text", 1, "2 tasks need a folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char says[256] = "";
        for (const char *p = cases[i].says; *p; p++) {
            if (p[0] == '%' && p[1] == 'T') strcat(says, temp_dir), p++;
            else strncat(says, p, 1);
        }
        char *out = run("opt4gptq-run", demo, cases[i].rest, cases[i].code);
        judge(out && strstr(run_stderr, says), "refused: %s", cases[i].rest);
        if (out && !strstr(run_stderr, says)) printf("  %s", run_stderr);
        free(out);
    }
    json_t *lines = load_lines("q/piqa.jsonl");
    judge(json_array_size(lines) == 2, "the questions are still there");
    json_decref(lines);
}

/* ---- lm-evaluation-harness's own answers */

struct difference {
    int n, texts, verdicts;
    double ll;
};

static void compare_choices(const json_t *line, const json_t *item, struct difference *d)
{
    const json_t *want = json_object_get(item, "wiki-g128"), *lls = json_object_get(want, "ll"),
                 *many = json_object_get(item, "contexts"),
                 *continuations = json_object_get(item, "continuations");
    static const char *const verdicts[] = {"acc", "acc_norm"};
    for (size_t i = 0; i < json_array_size(lls); i++) {
        char key[32];
        snprintf(key, sizeof key, "gen_args_%zu", i);
        const json_t *a = json_object_get(json_object_get(line, "arguments"), key),
                     *got = json_array_get(json_array_get(json_object_get(line, "resps"), i), 0);
        const char *context = many ? json_string_value(json_array_get(many, i))
                                   : text_at(item, "context"),
                   *follows = continuations ? json_string_value(json_array_get(continuations, i))
                                            : text_at(item, "continuation");
        d->texts += strcmp(text_at(a, "arg_0"), context) || strcmp(text_at(a, "arg_1"), follows);
        const char *ll = json_string_value(json_array_get(got, 0));
        d->ll = fmax(d->ll,
                     fabs((ll ? atof(ll) : NAN) - json_number_value(json_array_get(lls, i))));
    }
    for (int i = 0; i < 2; i++)
        if (json_object_get(want, verdicts[i]))
            d->verdicts += json_number_value(json_object_get(line, verdicts[i])) !=
                           json_number_value(json_object_get(want, verdicts[i]));
}

static void compare_answer(const json_t *line, const json_t *item, struct difference *d)
{
    const json_t *want = json_object_get(item, "wiki-g128");
    const int strict = !strcmp(text_at(line, "filter"), "strict-match");
    const char *text = json_string_value(
                   json_array_get(json_array_get(json_object_get(line, "resps"), 0), 0)),
               *found =
                   json_string_value(json_array_get(json_object_get(line, "filtered_resps"), 0));
    d->texts += !text || strcmp(text, text_at(want, "text"));
    d->verdicts +=
        !found || strcmp(found, text_at(want, strict ? "strict" : "flexible")) ||
        json_number_value(json_object_get(line, "exact_match")) !=
            json_number_value(json_array_get(json_object_get(want, "exact_match"), strict ? 0 : 1));
}

static void test_reference(const char *shared, const char *task, int n_examples, int n)
{
    char rest[1024], path[1024];
    snprintf(rest, sizeof rest,
             "--eval %s --eval-data %s/data/lm_eval/data --num-fewshot %d --limit %d --samples "
             "%%T/s",
             task, shared, n_examples, n);
    free(run("opt4gptq-run", "-m %T/wiki --act f32", rest, 0));
    snprintf(path, sizeof path, "%s/data/lm_eval/%s-%dshot.json", shared, task, n_examples);
    json_t *all = json_load_file(path, 0, NULL), *lines = load_lines("s"), *line;
    struct difference d = {0};
    size_t at;
    json_array_foreach (lines, at, line) {
        const json_t *item =
            json_array_get(json_object_get(all, "items"),
                           (size_t)json_integer_value(json_object_get(line, "doc_id")));
        d.n++;
        if (json_object_get(item, "fewshot")) compare_answer(line, item, &d);
        else compare_choices(line, item, &d);
    }
    judge(d.n == n * (strcmp(task, "gsm8k") ? 1 : 2) && !d.texts && !d.verdicts && d.ll < 1e-4,
          "%s, %d-shot: %d questions as lm-evaluation-harness: %d texts differ, %d verdicts, "
          "log-likelihoods by %.1e",
          task, n_examples, d.n, d.texts, d.verdicts, d.ll);
    json_decref(all);
    json_decref(lines);
}

/* The hashes of lm-evaluation-harness's run of three questions a task: texts, examples, documents.
 */
static void test_reference_hashes(const char *shared)
{
    char rest[1024];
    snprintf(rest, sizeof rest,
             "--eval piqa,winogrande,hellaswag,mmlu_college_computer_science,"
             "mmlu_high_school_geography,gsm8k --eval-data %s/data/lm_eval/data --limit 3 --report "
             "%%T/report",
             shared);
    free(run("opt4gptq-run", "-m %T/demo", rest, 0));
    snprintf(rest, sizeof rest, "%s/data/lm_eval", shared);
    json_t *want = load_json(rest, "results-example.json"), *got = load_json(temp_dir, "report");
    judge(json_object_size(json_object_get(want, "task_hashes")) == 6 &&
              json_equal(json_object_get(want, "task_hashes"), json_object_get(got, "task_hashes")),
          "hashes of six tasks as lm-evaluation-harness");
    json_decref(want);
    json_decref(got);
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc < 2 || argc > 3)
        return fprintf(stderr, "usage: eval_tasks BUILD_DIR [SHARED_DIR]\n"), 2;
    build_dir = argv[1];
    if (!mkdtemp(temp_dir)) return perror(temp_dir), 2;
    free(run("opt4gptq-convert", "models/demo", "%T/demo", 0));
    write_questions();
    test_choices();
    test_hashes();
    test_examples();
    test_answers();
    test_groups();
    test_packed();
    test_refusals();
    snprintf(path, sizeof path, "%s/data/lm_eval/check.py", argc > 2 ? argv[2] : "");
    if (argc > 2 && access(path, R_OK) == 0) {
        snprintf(path, sizeof path, "%s/models/wiki-g128", argv[2]);
        free(run("opt4gptq-convert", path, "%T/wiki", 0));
        test_reference(argv[2], "mmlu_high_school_geography", 5, 8);
        test_reference(argv[2], "mmlu_college_computer_science", 5, 1);
        test_reference(argv[2], "hellaswag", 0, 6);
        test_reference(argv[2], "winogrande", 0, 12);
        test_reference(argv[2], "piqa", 0, 12);
        test_reference(argv[2], "gsm8k", 1, 1);
        test_reference_hashes(argv[2]);
    } else {
        skip("lm-evaluation-harness's answers: no %s", path);
    }
    snprintf(path, sizeof path, "rm -r %s", temp_dir);
    if (system(path)) perror(path);
    return report("eval_tasks");
}
