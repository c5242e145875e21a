/* estimate.c: --estimate against runs of the same files: tokens of prompts and of shared beginnings
 * as the run counts them, generated tokens where nothing ends an answer early, refused records,
 * exit codes. How long it says a run takes is only looked at for being there: no machine is the
 * same twice. Works on models/demo; usage: estimate BUILD_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char run_bin[512], dir[] = "/tmp/opt4gptq-estimate-XXXXXX", model[300], in[300], out[300],
                          report_file[300], other[310];

#define RUN(p, input, ...)                                                                         \
    process_run(p,                                                                                 \
                (char *[]){run_bin, "-m", model, "-t", "1", "-c", "200", "-i", input, "--report",  \
                           report_file, __VA_ARGS__, NULL},                                        \
                NULL)

static int64_t number(const char *name)
{
    json_t *v = json_load_file(report_file, 0, NULL);
    const json_t *n = json_object_get(v, name);
    int64_t x = json_is_number(n) ? (int64_t)(1e3 * json_number_value(n)) : -1;
    json_decref(v);
    return x < 0 ? -1 : x / 1000;
}

static void name_input(const char *ending) { snprintf(in, sizeof in, "%s/in.%s", dir, ending); }

static FILE *begin(const char *ending)
{
    name_input(ending);
    FILE *f = fopen(in, "w");
    if (!f) exit(2);
    return f;
}

#define ALIKE "The heart of the matter is that the river runs to the sea and that all of them know"
static void write_lines(void)
{
    FILE *f = begin("jsonl");
    for (int i = 0; i < 24; i++)
        fprintf(f,
                "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[\"" ALIKE " %d\",\"%d times "
                "\"],\"n\":%d,\"max_tokens\":%d,\"ignore_eos\":true%s}}\n",
                i / 2, i, i % 5 ? 1 : 2, i == 7 ? 1000 : i % 9,
                i % 6 == 2 ? ",\"prompt_logprobs\":1" : "");
    fprintf(f,
            "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[]}}\n{\"a\":\n"
            "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"" ALIKE " 3 \"}}\n"
            "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"a\",\"guided_regex\":\"(\"}}\n");
    fclose(f);
}

/* A run one by one, so that nothing is computed twice at once. */
static void compare(int code, char *option[4])
{
    struct process p, q;
    RUN(&p, in, "--estimate", option[0], option[1], option[2], option[3]);
    int64_t prompt = number("prompt_tokens"), shared = number("cached_prompt_tokens"),
            generated = number("completion_tokens_at_most"), errors = number("errors"),
            records = number("records");
    check(p.code == code && strstr(p.out, "time for all of them about ") &&
              strstr(p.out, "memory ") && number("seconds") >= 0 && number("model_bytes") > 0 &&
              number("kv_cache_bytes") > 0 && number("steps") > 0,
          "an estimate", &p);
    RUN(&q, in, "-o", out, "-np", "1", option[0], option[1], option[2], option[3]);
    check(q.code == code, "the run", &q);
    check_that(records == number("records") && errors == number("errors"), "%d records, %d errors",
               (int)records, (int)errors);
    check_that(prompt == number("prompt_tokens") && prompt > 0, "%d prompt tokens, %d in the run",
               (int)prompt, (int)number("prompt_tokens"));
    check_that(shared == number("cached_prompt_tokens"), "%d shared tokens, %d in the run",
               (int)shared, (int)number("cached_prompt_tokens"));
    check_that(generated == number("completion_tokens"), "%d tokens at most, %d in the run",
               (int)generated, (int)number("completion_tokens"));
    process_free(&p);
    process_free(&q);
    shell_code("rm -f %s* %s", out, report_file);
}

static void tables(void)
{
    FILE *f = begin("csv");
    fprintf(f, "id,q\n");
    for (int i = 0; i < 20; i++)
        fprintf(f, i % 9 == 4 ? "%d\n" : "%d,\"" ALIKE ",\nor %d\"\n", i, i);
    fclose(f);
    char *option[] = {"--prompt-template", "{q} {id}", "-n", "5", "--ignore-eos", NULL};
    struct process p;
    RUN(&p, in, "--estimate", option[0], option[1], option[2], option[3]);
    check(p.code == 3 && strstr(p.out, "20 records, 2 would fail") &&
              number("completion_tokens_at_most") == 90,
          "a table", &p);
    int64_t prompt = number("prompt_tokens");
    process_free(&p);
    snprintf(other, sizeof other, "%s.gz", in);
    shell_code("gzip -k %s", in);
    RUN(&p, other, "--estimate", option[0], option[1], option[2], option[3]);
    check(p.code == 3 && number("prompt_tokens") == prompt, "a packed table", &p);
    process_free(&p);
    RUN(&p, in, "--estimate", option[0], option[1], "--shard", "1/4");
    check(p.code == 3 && number("records") == 5, "a shard", &p);
    process_free(&p);
}

static void others(void)
{
    struct process p;
    FILE *f = begin("txt");
    fprintf(f, "One\nTwo\n");
    fclose(f);
    shell_code("rm -f %s", report_file);
    RUN(&p, in, "--estimate");
    check(p.code == 0 && strstr(p.out, "2 records, 0 would fail"), "lines of text", &p);
    check_that(number("completion_tokens_at_most") == 32, "16 tokens each");
    process_free(&p);
    RUN(&p, in, "--estimate", "--check");
    check(p.code == 2 && strstr(p.err, "--estimate"), "beside --check", &p);
    process_free(&p);
    snprintf(other, sizeof other, "%s/kept", dir);
    RUN(&p, in, "--estimate", "--prefix-cache-dir", other);
    check(p.code == 0 && !shell_code("! ls %s/* 2>/dev/null", other), "nothing is kept", &p);
    process_free(&p);
    RUN(&p, in, "--estimate", "--mem", "6M");
    check(p.code == 1 && strstr(p.err, "--mem"), "too little memory", &p);
    process_free(&p);
    f = begin("jsonl");
    for (int i = 0; i < 3; i++)
        fprintf(f, "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":\"" ALIKE "\"}}\n");
    fclose(f);
    RUN(&p, in, "--estimate", "--pooling", "mean");
    check(p.code == 0 && number("cached_prompt_tokens") == 0 &&
              number("completion_tokens_at_most") == 0,
          "embeddings", &p);
    process_free(&p);
    f = begin("jsonl");
    fprintf(f, "{}\n");
    fclose(f);
    RUN(&p, in, "--estimate");
    check(p.code == 3 && strstr(p.out, "1 record, 1 would fail"), "nothing but errors", &p);
    process_free(&p);
}

/* What is timed fits the smallest contexts, too. */
static void small_contexts(void)
{
    struct process p;
    FILE *f = begin("jsonl");
    fprintf(f, "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":[5],\"max_tokens\":1}}\n");
    fclose(f);
    for (int c = 2; c < 12; c++) {
        char context[8];
        snprintf(context, sizeof context, "%d", c);
        process_run(&p,
                    (char *[]){run_bin, "-m", model, "-t", "1", "-c", context, "-i", in,
                               "--estimate", NULL},
                    NULL);
        check(p.code == 0 && strstr(p.out, "1 record, 0 would fail"), context, &p);
        process_free(&p);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(dir)) return 2;
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", argv[1]);
    snprintf(model, sizeof model, "%s/demo.safetensors", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(report_file, sizeof report_file, "%s/report.json", dir);
    check(!shell_code("%s/opt4gptq-convert -q models/demo %s", argv[1], model), "convert", NULL);
    write_lines();
    compare(3, (char *[4]){NULL});
    compare(3, (char *[4]){"--no-prefix-cache", NULL});
    tables();
    others();
    small_contexts();
    shell_code("rm -rf %s", dir);
    return report("estimate");
}
