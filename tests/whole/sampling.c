/* sampling.c: the options of sampling and the fields of records that have the same meaning: each
 * changes the answer as the definition says, the command line and batches agree, and a run that was
 * killed goes on with the same bytes. Works on models/demo; usage: sampling BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-sampling-XXXXXX", model[600], input[600],
                          output[600];

#define RUN(p, ...) process_run(p, (char *[]){run_bin, "-m", model, __VA_ARGS__, NULL}, NULL)
#define LONG_N "64"
static char prompt[] = "Once upon a time there was";

/* The one answer of a batch of one record, whose body has these members beside the prompt. The
 * caller frees it. */
static json_t *answer(const char *members)
{
    struct process p;
    char line[2000];
    snprintf(line, sizeof line,
             "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{"
             "\"prompt\":\"%s\",\"max_tokens\":64,\"return_token_ids\":true%s%s}}\n",
             prompt, *members ? "," : "", members);
    write_file(input, line, strlen(line));
    RUN(&p, "-i", input, "-o", "-");
    json_t *v = json_loads(p.out, JSON_DISABLE_EOF_CHECK, NULL);
    if (!v) check(0, members, &p);
    process_free(&p);
    return v;
}

/* The ids of such an answer as --format ids prints them. */
static void ids_of(const char *members, char *text)
{
    json_t *v = answer(members), *id;
    size_t i;
    const json_t *ids = json_object_get(
        json_array_get(
            json_object_get(json_object_get(json_object_get(v, "response"), "body"), "choices"), 0),
        "token_ids");
    *text = 0;
    json_array_foreach (ids, i, id)
        sprintf(text + strlen(text), i ? " %lld" : "%lld", json_integer_value(id));
    strcat(text, "\n");
    check_that(i > 0, "an answer to {%s}", members);
    json_decref(v);
}

/* What all options of one prompt have set to the defaults of a batch, and a seed. */
#define PLAIN "--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0", "-s", "5"

/* An option and a field of the same meaning give the same tokens, which are not those without. */
static void pairs(void)
{
    static char *const plain_args[] = {PLAIN};
    static const struct {
        char *args[12];
        const char *fields;
    } all[] = {
        {{"--typical", "0.5"}, "\"typical_p\":0.5"},
        {{"--top-nsigma", "0.7"}, "\"top_n_sigma\":0.7"},
        {{"--xtc-probability", "0.9", "--xtc-threshold", "0.02"},
         "\"xtc_probability\":0.9,\"xtc_threshold\":0.02"},
        {{"--mirostat", "2", "--mirostat-ent", "2", "--mirostat-lr", "0.5"},
         "\"mirostat\":2,\"mirostat_tau\":2,\"mirostat_eta\":0.5"},
        {{"--temp", "0", "--dry-multiplier", "2", "--dry-base", "1.5", "--dry-allowed-length", "1"},
         "\"temperature\":0,\"dry_multiplier\":2,\"dry_base\":1.5,\"dry_allowed_length\":1"},
        {{"--temp", "0", "--dry-multiplier", "2", "--dry-penalty-last-n", "20",
          "--dry-sequence-breaker", "none"},
         "\"temperature\":0,\"dry_multiplier\":2,\"dry_penalty_last_n\":20,"
         "\"dry_sequence_breakers\":[]"},
        {{"--temp", "0", "--dry-multiplier", "2", "--dry-sequence-breaker", " a",
          "--dry-sequence-breaker", "the s"},
         "\"temperature\":0,\"dry_multiplier\":2,\"dry_sequence_breakers\":[\" a\",\"the s\"]"},
        {{"--temp", "0", "--repeat-penalty", "1.5", "--repeat-last-n", "9"},
         "\"temperature\":0,\"repetition_penalty\":1.5,\"repeat_last_n\":9"},
        {{"--temp", "0.5", "--top-k", "20", "--samplers", "top_k;temperature"},
         "\"temperature\":0.5,\"top_k\":20,\"samplers\":[\"top_k\",\"temperature\"]"},
        {{"--top-p", "0.5", "--temp", "2", "--samplers", "top-p;temp"},
         "\"temperature\":2,\"top_p\":0.5,\"samplers\":\"pt\""},
        {{"--top-p", "0.5", "--temp", "2", "--sampler-seq", "pt"},
         "\"temperature\":2,\"top_p\":0.5,\"samplers\":\"top_p;temperature\""},
        {{"--temp", "0", "--repeat-penalty", "1.5"},
         "\"temperature\":0,\"repetition_penalty\":1.5,\"samplers\":[]"},
        {{"--temp", "0", "--logit-bias", "260-inf", "-l", "300+2.5"},
         "\"temperature\":0,\"logit_bias\":{\"260\":-100,\"300\":2.5}"},
    };
    struct process p, plain;
    RUN(&plain, "-p", prompt, "-n", LONG_N, "--format", "ids", PLAIN);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *argv[40] = {run_bin, "-m", model, "-p", prompt, "-n", LONG_N, "--format", "ids"};
        char fields[600], ids[1000];
        int n = 9;
        for (size_t k = 0; k < sizeof plain_args / sizeof *plain_args; k++)
            argv[n++] = plain_args[k];
        for (int k = 0; k < 12 && all[i].args[k]; k++) argv[n++] = all[i].args[k];
        argv[n] = NULL;
        /* the stream of a record without a seed is another one than that of the command line */
        snprintf(fields, sizeof fields, "\"seed\":5,%s", all[i].fields);
        ids_of(fields, ids);
        process_run(&p, argv, NULL);
        check(p.code == 0 && !strcmp(p.out, ids), fields, &p);
        check(strcmp(p.out, plain.out), "it changes the answer", &p);
        process_free(&p);
    }
    process_free(&plain);
}

/* What definitions say of whole answers. */
static void effects(void)
{
    struct process p, q;
    RUN(&p, "-p", prompt, "-n", LONG_N, "--temp", "0", "--no-display-prompt");
    const char *again = strstr(p.out, "people were all in the same state");
    check(again && strstr(again + 1, "people were all in the same state"),
          "the demo model repeats itself", &p);
    process_free(&p);
    RUN(&p, "-p", prompt, "-n", LONG_N, "--temp", "0", "--no-display-prompt", "--dry-multiplier",
        "3");
    again = strstr(p.out, "people were all in the same state");
    check(again && !strstr(again + 40, "were all in the same state"), "DRY ends that", &p);
    process_free(&p);
    RUN(&p, "-p", prompt, "-n", "16", "--format", "ids", PLAIN);
    RUN(&q, "-p", prompt, "-n", "16", "--format", "ids", PLAIN, "--samplers",
        "penalties; dry; temperature;top_n_sigma;min_p;top_k;typ_p;top_p;xtc");
    check(q.code == 0 && !strcmp(p.out, q.out), "the default order, written out", &q);
    process_free(&q);
    RUN(&q, "-p", prompt, "-n", "16", "--format", "ids", PLAIN, "--sampler-seq", "edtsmkypx");
    check(q.code == 0 && !strcmp(p.out, q.out), "the same in letters", &q);
    process_free(&p);
    process_free(&q);
    /* a step that is not named is off, the temperature, too */
    RUN(&p, "-p", prompt, "-n", "16", "--format", "ids", "--temp", "0", "--top-k", "1",
        "--samplers", "top_k");
    RUN(&q, "-p", prompt, "-n", "16", "--format", "ids", "--temp", "0");
    check(q.code == 0 && !strcmp(p.out, q.out), "--top-k 1 alone takes the likeliest", &q);
    process_free(&p);
    RUN(&p, "-p", prompt, "-n", "16", "--format", "ids", "--temp", "0", "--samplers", "typ_p");
    check(p.code == 0 && strcmp(p.out, q.out), "--temp is not applied where it is not named", &p);
    process_free(&p);
    process_free(&q);
    /* the demo model's end of text, favoured: --min-tokens holds it back */
    RUN(&p, "-p", prompt, "-n", "16", "--format", "ids", "--temp", "0", "-l", "1+100");
    RUN(&q, "-p", prompt, "-n", "16", "--format", "ids", "--temp", "0", "-l", "1+100",
        "--min-tokens", "7");
    int n = 0, m = 0;
    for (const char *s = p.out; (s = strchr(s, ' ')); s++) n++;
    for (const char *s = q.out; (s = strchr(s, ' ')); s++) m++;
    check(p.code == 0 && q.code == 0 && n == 0 && m == 6, "--min-tokens", &q);
    process_free(&p);
    process_free(&q);
}

static void seeds(void)
{
    struct process p, q;
    char seed[32] = "", text[64];
    RUN(&p, "-p", prompt, "-n", LONG_N, "--format", "ids", "-s", "-1");
    check(p.code == 0 && sscanf(p.err, "seed: %31s", seed) == 1, "a drawn seed is printed", &p);
    RUN(&q, "-p", prompt, "-n", LONG_N, "--format", "ids", "--seed", seed);
    check(q.code == 0 && !strcmp(p.out, q.out), "the printed seed repeats it", &q);
    process_free(&q);
    RUN(&q, "-p", prompt, "-n", LONG_N, "--format", "ids", "--seed", "-1");
    snprintf(text, sizeof text, "seed: %s\n", seed);
    check(q.code == 0 && strcmp(p.out, q.out) && !strstr(q.err, text), "another one is drawn", &q);
    process_free(&p);
    process_free(&q);
    /* of a batch it is that of the first start */
    char lines_text[4000] = "";
    for (int i = 0; i < 20; i++)
        sprintf(lines_text + strlen(lines_text), "The heart of number %d\n", i);
    write_file(input, lines_text, strlen(lines_text));
    RUN(&p, "-i", input, "-o", output, "-s", "-1");
    check(p.code == 0 && sscanf(strstr(p.err, "seed: ") ? strstr(p.err, "seed: ") : "",
                                "seed: %31s", seed) == 1,
          "a batch with a drawn seed", &p);
    process_free(&p);
    size_t n, n_again;
    char *first = read_file(output, &n), *again;
    unlink(output); /* computed again, as after a loss of the output */
    RUN(&p, "-i", input, "-o", output, "-s", "-1");
    snprintf(text, sizeof text, "seed: %s\n", seed);
    again = read_file(output, &n_again);
    check(p.code == 0 && strstr(p.err, text) && first && again && n == n_again &&
              !memcmp(first, again, n),
          "the same command goes on with the seed of the first", &p);
    process_free(&p);
    RUN(&p, "-i", input, "-o", output, "-s", seed);
    check(p.code == 0 && strstr(p.err, "is complete"), "so does that seed", &p);
    process_free(&p);
    RUN(&p, "-i", input, "-o", output, "-s", seed, "--dry-multiplier", "1");
    check(p.code == 1 && strstr(p.err, "dry-multiplier was 0, is 1"), "not with another sampler",
          &p);
    process_free(&p);
    free(first);
    free(again);
}

static void escapes(void)
{
    struct process p, q;
    RUN(&p, "--tokenize", "-p", "a\nb\tc\\d\"e'A\xc3\xa9\\q\\x4");
    RUN(&q, "--tokenize", "-e", "-p", "a\\nb\\tc\\\\d\\\"e\\'\\x41\\xc3\\xA9\\q\\x4");
    check(q.code == 0 && !strcmp(p.out, q.out), "-e", &q);
    process_free(&p);
    process_free(&q);
    RUN(&p, "-p", prompt, "-n", LONG_N, "--temp", "0", "--stop", "\\x2E", "-e");
    check(p.code == 0 && strstr(p.out, "same state\n") && !strchr(p.out, '.'), "-e in --stop", &p);
    process_free(&p);
}

static void refused(const char *says, char *const args[])
{
    struct process p;
    char *argv[20] = {run_bin, "-m", "/nonexistent", "-p", "x"};
    for (int i = 0; (argv[5 + i] = args[i]); i++) {
    }
    process_run(&p, argv, NULL);
    check(p.code == 2 && lines(p.err) == 1 && strstr(p.err, says), says, &p);
    process_free(&p);
}

static void refusals(void)
{
#define REFUSED(says, ...) refused(says, (char *[]){__VA_ARGS__, NULL})
    REFUSED("--mirostat 1 is not here, 2", "--mirostat", "1");
    REFUSED("--samplers: 'top_z' is none of penalties", "--samplers", "top_k;top_z");
    REFUSED("--samplers: top_k comes twice", "--samplers", "top_k;top-k");
    REFUSED("--samplers: no sampler is named", "--samplers", "");
    REFUSED("--sampler-seq: 'z' is none of", "--sampler-seq", "kz");
    REFUSED("--samplers and --sampling-seq exclude", "--samplers", "xtc", "--sampling-seq", "k");
    REFUSED("--logit-bias: '12' is not a token id", "--logit-bias", "12");
    REFUSED("--logit-bias: 'x+1' is not a token id", "-l", "x+1");
    REFUSED("'+inf' is not a number", "-l", "12+inf");
    REFUSED("'+-3' is not a number", "-l", "12+-3");
    REFUSED("'-nan' is not a number", "-l", "12-nan");
    REFUSED("id 12 comes twice", "-l", "12-1", "-l", "12+1");
    REFUSED("-e: a text cannot hold", "-e", "--stop", "a\\x00b");
    REFUSED("-e and --no-escape exclude", "-e", "--no-escape");
    REFUSED("--dry-base: 0.5 is not in 1..1000", "--dry-base", "0.5");
    struct process p;
    RUN(&p, "-p", "x", "-l", "4096+1");
    check(p.code == 1 &&
              strstr(p.err, "--logit-bias: id 4096: the model's vocabulary ends at 4095"),
          "a bias beyond the vocabulary", &p);
    process_free(&p);
    static const char *const fields[][2] = {
        {"\"mirostat\":1", "mirostat: 1 is not served"},
        {"\"samplers\":[\"top_k\",\"top_k\"]", "samplers: top_k comes twice"},
        {"\"samplers\":[3]", "samplers: must be an array of names"},
        {"\"samplers\":\"kq\"", "samplers: 'q' is none of"},
        {"\"dry_sequence_breakers\":\"x\"", "dry_sequence_breakers: must be an array"},
        {"\"dry_sequence_breakers\":[\"\"]", "dry_sequence_breakers: must be an array"},
        {"\"dry_base\":0.9", "dry_base: must be a number from 1"},
        {"\"xtc_threshold\":2", "xtc_threshold: must be a number"},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        json_t *v = answer(fields[i][0]);
        const char *message =
            json_string_value(json_object_get(json_object_get(v, "error"), "message"));
        check_that(message && strstr(message, fields[i][1]), "%s: %s", fields[i][0],
                   message ? message : "no error");
        json_decref(v);
    }
}

int main(int argc, char **argv)
{
    struct process p;
    char convert_bin[600];
    if (argc < 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(input, sizeof input, "%s/in", dir);
    snprintf(output, sizeof output, "%s/out", dir);
    process_run(&p, (char *[]){convert_bin, "models/demo", model, NULL}, NULL);
    check(p.code == 0, "convert models/demo", &p);
    process_free(&p);
    pairs();
    effects();
    seeds();
    escapes();
    refusals();
    char command[700];
    snprintf(command, sizeof command, "rm -r %s", dir);
    if (system(command)) return 2;
    return report("sampling");
}
