/* constrained.c: answers that have to be something, as a person asks for them: by fields of records
 * and by options. Every answer is what it has to be, with the same bytes however it is computed,
 * killed, continued and sharded. Works on models/demo; usage: constrained BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-constrained-XXXXXX", model[300], in[300], out[300],
                          out2[300];

#define RUN(p, input, ...)                                                                         \
    process_run(p, (char *[]){run_bin, "-m", model, "-t", "1", __VA_ARGS__, NULL}, input)

/* ---- records */

static const char *const prompts[] = {"Once upon a time", "The heart of", "In the year", "A river"};
static const char *const choices[] = {"yes", "yes, of course it does", "no",
                                      "nobody knows, Grüße to all of them"};

/* Choices, greedy and sampled, with log-probabilities, several answers and few tokens. */
static void write_choices(const char *path, int n)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < n; i++) {
        const char *field = i % 2 ? "\"guided_choice\":" : "\"structured_outputs\":{\"choice\":";
        fprintf(f,
                "{\"custom_id\":\"c%d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"%s "
                "%d\",\"max_tokens\":%d,\"temperature\":%d,\"n\":%d%s,%s[\"%s\",\"%s\",\"%s\","
                "\"%s\"]%s}}\n",
                i, prompts[i % 4], i, i % 5 == 4 ? 3 : 60, i % 3 != 0, 1 + i % 2,
                i % 4 == 1 ? ",\"logprobs\":2" : "", field, choices[0], choices[1], choices[2],
                choices[3], i % 2 ? "" : "}");
    }
    if (!f || fclose(f)) exit(2);
}

static const char *text_of(const json_t *answer)
{
    const char *text = json_string_value(json_object_get(answer, "text"));
    return text ? text : "";
}

static int stopped(const json_t *answer)
{
    const char *why = json_string_value(json_object_get(answer, "finish_reason"));
    return why && !strcmp(why, "stop");
}

/* Calls fn for every answer of the file; returns their number. */
static int each(const char *path, void (*fn)(const json_t *answer, int line))
{
    size_t n, k;
    char *text = read_file(path, &n);
    int count = 0, line = 0;
    for (const char *at = text; at && *at; line++) {
        json_t *r = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL), *answer;
        json_t *all = json_object_get(json_object_get(json_object_get(r, "response"), "body"),
                                      "choices");
        json_array_foreach (all, k, answer) {
            fn(answer, line);
            count++;
        }
        json_decref(r);
        at = strchr(at, '\n');
        if (at) at++;
    }
    free(text);
    return count;
}

static int n_stopped, n_cut;

static void expect_choice(const json_t *answer, int line)
{
    const char *text = text_of(answer);
    int whole = 0, begins = 0;
    for (int i = 0; i < 4; i++) {
        whole |= !strcmp(text, choices[i]);
        begins |= !strncmp(text, choices[i], strlen(text));
    }
    stopped(answer) ? n_stopped++ : n_cut++;
    check_that(stopped(answer) ? whole : begins, "line %d: \"%s\" is a choice", line + 1, text);
}

/* The same bytes by any schedule; preempted, killed and continued, in shards. */
static void invariance(const char *name)
{
    const char *const ways[][2] = {
        {"-np", "1"}, {"-np", "4"}, {"-np", "16"}, {"-b", "20"}, {"--kv-pages", "8"}};
    struct process p;
    for (int i = 0; i < 5; i++) {
        RUN(&p, NULL, "-i", in, "-o", out2, "-c", "120", (char *)ways[i][0], (char *)ways[i][1]);
        check(p.code == 0 && same_file(out, out2), name, &p);
        process_free(&p);
        shell_code("rm -f %s %s.journal", out2, out2);
    }
    for (int i = 0; i < 3; i++)
        shell_code("timeout -s KILL 0.%d %s -m %s -t 1 -i %s -o %s -c 120 2>/dev/null", 2 + 3 * i,
              run_bin, model, in, out2);
    RUN(&p, NULL, "-i", in, "-o", out2, "-c", "120");
    check(p.code == 0 && same_file(out, out2), "killed and continued", &p);
    process_free(&p);
    shell_code("rm -f %s %s.journal", out2, out2);
    for (int i = 0; i < 3; i++) {
        char shard[8];
        snprintf(shard, sizeof shard, "%d/3", i);
        RUN(&p, NULL, "-i", in, "-o", out2, "-c", "120", "--shard", shard);
        check(p.code == 0, "a shard", &p);
        process_free(&p);
    }
    check(!shell_code("scripts/merge-shards %s && cmp %s %s", out2, out, out2), "three shards merged",
          NULL);
    shell_code("rm -f %s*", out2);
}

static void choices_of_records(void)
{
    struct process p;
    write_choices(in, 40);
    RUN(&p, NULL, "-i", in, "-o", out, "-c", "120");
    check(p.code == 0, "records with choices", &p);
    process_free(&p);
    check(each(out, expect_choice) == 60, "60 answers", NULL);
    check_that(n_stopped > 30 && n_cut > 4, "%d complete answers, %d cut", n_stopped, n_cut);
    invariance("the same choices");
    RUN(&p, NULL, "-i", in, "--check");
    check(p.code == 0 && strstr(p.out, "40 records, 0 would fail"), "--check", &p);
    process_free(&p);
    shell_code("rm -f %s*", out);
}

/* ---- documents */

/* What a test sees of an answer that is V, or TEXT. */
static int is_pet(const json_t *v, const char *text)
{
    const char *name = json_string_value(json_object_get(v, "name")),
               *kind = json_string_value(json_object_get(v, "kind"));
    const json_t *age = json_object_get(v, "age");
    (void)text;
    return json_object_size(v) == 3 && name && strlen(name) <= 4 * 8 && kind &&
           (!strcmp(kind, "cat") || !strcmp(kind, "dog")) && json_is_integer(age) &&
           json_integer_value(age) >= 0 && json_integer_value(age) <= 30;
}

static int is_list(const json_t *v, const char *text)
{
    size_t i, n = json_array_size(v);
    (void)text;
    for (i = 0; i < n; i++)
        if (!json_is_boolean(json_array_get(v, i))) return 0;
    return json_is_array(v) && n >= 2 && n <= 4;
}

static int is_compact(const json_t *v, const char *text)
{
    return is_pet(v, text) && !strpbrk(text, "\n\t") && !strstr(text, "\": ");
}

/* Members in the schema's order, a space behind commas and colons. */
static int is_plain_pet(const json_t *v, const char *text)
{
    char want[512];
    const char *name = strstr(text, "\"name\": "), *kind = strstr(text, ", \"kind\": ");
    if (!is_pet(v, text) || !name || !kind) return 0;
    snprintf(want, sizeof want, "{%.*s, \"kind\": \"%s\", \"age\": ", (int)(kind - name), name,
             json_string_value(json_object_get(v, "kind")));
    return !strncmp(text, want, strlen(want)) && !strchr(text + strlen(want), ' ');
}

static int is_date(const json_t *v, const char *text)
{
    int y, m, d, n = 0;
    (void)v;
    return sscanf(text, "%4d-%2d-%2d%n", &y, &m, &d, &n) == 3 && n == 10 && !text[n];
}

static int is_sum(const json_t *v, const char *text)
{
    size_t n = strspn(text, "0123456789");
    (void)v;
    return n && text[n] == '+' && strlen(text + n + 1) == strspn(text + n + 1, "0123456789") &&
           text[n + 1];
}

static int is_object(const json_t *v, const char *text)
{
    (void)text;
    return json_is_object(v);
}

#define PET                                                                                        \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"name\",\"kind\",\"age\"]" \
    ","                                                                                            \
    "\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":8},\"kind\":{\"enum\":[\"cat\","  \
    "\"dog\"]},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":30}}}"
static const struct {
    const char *fields;
    int (*is)(const json_t *v, const char *text);
} kinds[] = {
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"pet\","
     "\"schema\":" PET "}}",
     is_plain_pet},
    {"\"guided_json\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,"
     "\"maxItems\":4}",
     is_list},
    {"\"structured_outputs\":{\"disable_any_whitespace\":true,\"json\":" PET "}", is_compact},
    {"\"guided_regex\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}\"", is_date},
    {"\"guided_grammar\":\"root ::= n \\\"+\\\" n\\nn ::= [0-9] [0-9]?\"", is_sum},
    {"\"response_format\":{\"type\":\"json_object\"}", is_object},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void write_documents(const char *path, int n)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < n; i++)
        fprintf(f,
                "{\"custom_id\":\"d%d\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"%s "
                "%d\",\"max_tokens\":%d,\"temperature\":%d%s,%s}}\n",
                i, prompts[i % 4], i, i % 7 == 6 ? 4 : 80, i / N_KINDS % 3 != 0,
                i % 4 == 1 ? ",\"logprobs\":2" : "", kinds[i % N_KINDS].fields);
    if (!f || fclose(f)) exit(2);
}

static void expect_document(const json_t *answer, int line)
{
    json_t *v = json_loads(text_of(answer), JSON_DECODE_ANY, NULL);
    stopped(answer) ? n_stopped++ : n_cut++;
    if (stopped(answer))
        check_that(kinds[line % N_KINDS].is(v, text_of(answer)), "line %d: %s is what %s asks for",
                   line + 1, text_of(answer), kinds[line % N_KINDS].fields);
    json_decref(v);
}

static void documents_of_records(void)
{
    struct process p;
    n_stopped = n_cut = 0;
    write_documents(in, 60);
    RUN(&p, NULL, "-i", in, "-o", out, "-c", "120");
    check(p.code == 0, "records with schemas, expressions and grammars", &p);
    process_free(&p);
    check(each(out, expect_document) == 60, "60 answers", NULL);
    check_that(n_stopped > 30 && n_cut > 4, "%d complete answers, %d cut", n_stopped, n_cut);
    invariance("the same documents");
    shell_code("rm -f %s*", out);
}

/* ---- refusals */

static void refused(const char *fields, const char *field, const char *says)
{
    struct process p;
    char line[1000];
    snprintf(line, sizeof line,
             "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":4,%s}}\n",
             fields);
    RUN(&p, line, "-i", "-", "-o", "-", "-c", "100");
    json_t *r = json_loads(p.out, JSON_DISABLE_EOF_CHECK, NULL),
           *e = json_object_get(json_object_get(json_object_get(r, "response"), "body"), "error");
    const char *param = json_string_value(json_object_get(e, "param")),
               *message = json_string_value(json_object_get(e, "message"));
    check(p.code == 3 && param && !strcmp(param, field) && message && strstr(message, says), fields,
          &p);
    json_decref(r);
    process_free(&p);
}

static void refusals(void)
{
    refused("\"guided_choice\":[\"a\"],\"guided_regex\":\"a\"", "guided_choice", "already says");
    refused(
        "\"response_format\":{\"type\":\"json_object\"},\"guided_grammar\":\"root ::= \\\"a\\\"\"",
        "guided_grammar", "response_format already says");
    refused("\"structured_outputs\":{\"choice\":[\"a\"],\"regex\":\"a\"}", "structured_outputs",
            "more than one");
    refused("\"structured_outputs\":{\"choice\":[\"a\"],\"whitespace_pattern\":\" \"}",
            "structured_outputs", "whitespace_pattern is not served");
    refused("\"structured_outputs\":{\"disable_any_whitespace\":true}", "structured_outputs",
            "asks for none");
    refused("\"guided_whitespace_pattern\":\" \"", "guided_whitespace_pattern", "not served");
    refused("\"guided_choice\":[]", "guided_choice", "array of strings");
    refused("\"guided_choice\":[1]", "guided_choice", "array of strings");
    refused("\"guided_regex\":7", "guided_regex", "must be a string");
    refused("\"guided_json\":[]", "guided_json", "must be a JSON schema");
    refused("\"response_format\":\"json\"", "response_format", "must be an object");
    refused("\"response_format\":{\"type\":\"structural_tag\"}", "response_format", "only");
    refused("\"response_format\":{\"type\":\"json_schema\"}", "response_format", "is missing");
    refused("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\"}}",
            "response_format", "has no schema");
    refused(
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":1,\"schema\":{}}}",
        "response_format", "name must be a string");
    refused(
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{},\"x\":1}}",
        "response_format", "x is not served");
    refused("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":7}}",
            "response_format", "must be a JSON schema");
}

/* ---- options */

static void options(void)
{
    struct process p;
    RUN(&p, NULL, "-p", "Once upon", "--choice", "a princess, in", "--choice", "a dragon", "-c",
        "100", "--no-display-prompt", "--temp", "0");
    check(p.code == 0 && (!strcmp(p.out, "a princess, in\n") || !strcmp(p.out, "a dragon\n")),
          "--choice", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "Once upon", "--choice", "a princess, in", "-c", "100", "-n", "2",
        "--no-display-prompt");
    check(p.code == 0 && strlen(p.out) > 1 && strlen(p.out) < 14, "-n cuts a choice", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--choice", "a", "--regex", "b");
    check(p.code == 2 && strstr(p.err, "--regex") && strstr(p.err, "--choice"),
          "two constraints are refused", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--choice", "a", "--compact-json");
    check(p.code == 2 && strstr(p.err, "--compact-json needs"), "--compact-json alone", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--json-space", "any");
    check(p.code == 2 && strstr(p.err, "--json-space needs"), "--json-space alone", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--leading-space");
    check(p.code == 2 && strstr(p.err, "--leading-space needs"), "--leading-space alone", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--json", "--any-order", "--schema-order");
    check(p.code == 2 && strstr(p.err, "--any-order: beside --schema-order"), "two orders", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--json", "--compact-json", "--json-space", "one");
    check(p.code == 2 && strstr(p.err, "--json-space one: beside --compact-json"), "two kinds", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--grammar-file", "/nowhere/x");
    check(p.code == 1 && strstr(p.err, "--grammar-file") && strstr(p.err, "/nowhere/x"),
          "a file that is not there", &p);
    process_free(&p);
    RUN(&p, NULL, "-p", "a", "--json-schema", "{\"type\": 7}");
    check(p.code == 1 && strstr(p.err, "--json-schema"), "a schema that is none", &p);
    process_free(&p);

    const char *lines =
        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":9}}\n"
        "{\"url\":\"/v1/"
        "completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":9,\"guided_choice\":["
        "\"mine\"]}}\n"
        "{\"url\":\"/v1/"
        "completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":9,\"response_format\":"
        "{\"type\":\"text\"}}}\n";
    write_file(in, lines, strlen(lines));
    RUN(&p, NULL, "-i", in, "-o", out, "--choice", "ours", "--format", "text", "--temp", "0");
    size_t n;
    char *text = read_file(out, &n);
    check(p.code == 0 && text && !strncmp(text, "ours\nmine\n", 10) && n > 15,
          "the option is for records without a constraint", &p);
    free(text);
    process_free(&p);
    RUN(&p, NULL, "-i", in, "-o", out, "--choice", "theirs", "--format", "text", "--temp", "0");
    check(p.code == 1 && strstr(p.err, "constraint"), "another constraint does not continue", &p);
    process_free(&p);
    shell_code("rm -f %s*", out);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(in, sizeof in, "%s/in.jsonl", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(out2, sizeof out2, "%s/two", dir);
    check(!shell_code("%s/opt4gptq-convert -q models/demo %s", argv[1], model), "convert models/demo",
          NULL);
    choices_of_records();
    documents_of_records();
    refusals();
    options();
    shell_code("rm -r %s", dir);
    return report("constrained");
}
