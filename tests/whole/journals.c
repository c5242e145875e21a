/* journals.c: what a batch writes beside its answers. Its journal, which it reads when it is begun
 * again: forged ones, every option that changes answers, names that are not UTF-8, and a kill after
 * which it goes on; --report and --trace. Works on models/demo; usage: journals BUILD_DIR. */
#include "tests/whole/batch_tools.h"

#include <zlib.h>

/* A journal of the command `-i IN -o OUT -n 2` whose first frame has this payload, and a second one
 * of type c that one. */
static void forge_journal(const char *manifest, const char *completion)
{
    char path[400];
    snprintf(path, sizeof path, "%s.journal", out);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 2; i++) {
        const char *text = i ? completion : manifest;
        char header[64];
        if (!text) continue;
        sprintf(header, "#%c %016x 0 %010zx ", i ? 'c' : 'm', 0, strlen(text));
        fprintf(f, "%s%08lx\n%s", header,
                crc32_z(crc32(0, (unsigned char *)header, 33), (const unsigned char *)text,
                        strlen(text)),
                text);
    }
    if (!f || fclose(f)) exit(2);
}

static void forged_journals(void)
{
    static const char *const manifests[] = {"x\n",
                                            "[]\n",
                                            "{\"a\"\n",
                                            "{}\n",
                                            "{\"started\":\"x\"}\n",
                                            "{\"started\":1,\"model (name)\":\"m\xff\"}\n"};
    static const char *const completions[] = {"x\n",
                                              "{\"errors\":1}\n",
                                              "{\"errors\":41,\"bytes\":1,\"crc32\":1}\n",
                                              "{\"errors\":-1,\"bytes\":1,\"crc32\":1}\n",
                                              "{\"errors\":1,\"bytes\":1,\"crc32\":99999999999}\n",
                                              "{\"errors\":1,\"bytes\":1,\"crc32\":1}x\n"};
    struct process p;
    char path[400], *own;
    size_t n;
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) {
        forge_journal(manifests[i], NULL);
        RUN(&p, NULL, "-i", in, "-o", out, "-n", "2");
        check(p.code == 1 && strstr(p.err, "out.journal: is damaged: ") &&
                  !strstr(p.err, "memory:") == !strstr(p.err, "machine:") &&
                  !strstr(p.err, "out of memory"),
              manifests[i], &p);
        process_free(&p);
    }
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "2", "--restart");
    check(p.code == 0, "--restart starts over", &p);
    process_free(&p);
    snprintf(path, sizeof path, "%s.journal", out);
    char *whole = read_file(path, &n);
    own = whole ? strchr(whole, '{') : NULL;
    if (own) *strchr(own, '\n') = 0;
    char *manifest = NULL;
    if (!own || asprintf(&manifest, "%s\n", own) < 0) exit(2);
    for (size_t i = 0; i < sizeof completions / sizeof *completions; i++) {
        forge_journal(manifest, completions[i]);
        RUN(&p, NULL, "-i", in, "-o", out, "-n", "2");
        check(p.code == 1 && strstr(p.err, "out.journal: is damaged: "), completions[i], &p);
        process_free(&p);
    }
    free(whole);
    free(manifest);
    clean();
}

/* Every option that changes answers is part of what is kept. */
static void other_options(void)
{
    static const struct {
        const char *option[3], *says;
    } ways[] = {
        {{"--min-p", "0.3"}, "min-p was 0, is 0.3;"},
        {{"--temp", "0.29999999999999999"}, "temperature was 1, is 0.3;"},
        {{"--top-k", "7"}, "top-k was 0, is 7;"},
        {{"--top-p", "0.7"}, "top-p was 1, is 0.7;"},
        {{"--repeat-penalty", "1.1"}, "repeat-penalty was 1, is 1.1;"},
        {{"--presence-penalty", "0.1"}, "presence-penalty was 0, is 0.1;"},
        {{"--frequency-penalty", "-2.5"}, "frequency-penalty was 0, is -2.5;"},
        {{"--seed", "7"}, "--seed was 0, is 7;"},
        {{"-n", "3"}, "-n was 2, is 3;"},
        {{"-c", "99"}, "context (-c) was "},
        {{"--ignore-eos"}, "--ignore-eos was 0, is 1;"},
        {{"--special"}, "--special was 0, is 1;"},
        {{"--stop", "x"}, "--stop was [], is [\"x\"];"},
        {{"--chat"}, "--chat was 0, is 1;"},
        {{"--format", "text"}, "--format was "},
        {{"--order", "done"}, "--order was "},
        {{"--input-format", "text"}, "--input-format was "},
        {{"--act", "int8"}, "--act was "},
        {{"--kv", "f32"}, "--kv was "},
        {{"--cpu", "ref"}, "instruction set was null, is "},
    };
    struct process p;
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "2");
    check(p.code == 0, "a run", &p);
    process_free(&p);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *argv[16] = {run_bin, "-m", model, "-t", "1", "-i", in, "-o", out, "-n", "2"},
             says[100];
        for (int k = 0; k < 2; k++) argv[11 + k] = (char *)ways[i].option[k];
        process_run(&p, argv, NULL);
        snprintf(says, sizeof says, "%.*s", (int)strcspn(ways[i].says, ";"), ways[i].says);
        check(p.code == 1 && strstr(p.err, says) && strstr(p.err, "--restart"), ways[i].says, &p);
        process_free(&p);
    }
    clean();
}

/* A model whose name is not UTF-8: whatever is written is, and the run can be continued. */
static void names_that_are_not_utf8(void)
{
    char odd[400], journal[400], *text[4];
    struct process p;
    size_t n[4];
    snprintf(odd, sizeof odd, "%s/m\xff\xc3.safetensors", dir);
    snprintf(journal, sizeof journal, "%s.journal", out);
    if (symlink(model, odd)) exit(2);
    char *argv[] = {run_bin, "-m", odd, "-t",       "1",  "-i",      in,       "-o",
                    out,     "-n", "2", "--report", out2, "--trace", log_path, NULL};
    process_run(&p, argv, NULL);
    check(p.code == 0, "a model whose name is not UTF-8", &p);
    process_free(&p);
    const char *const paths[] = {out, out2, log_path, journal};
    for (int i = 0; i < 4; i++) {
        text[i] = read_file(paths[i], &n[i]);
        json_t *j = json_string(text[i] ? text[i] : "\xff"); /* NULL when not UTF-8 */
        check(j && n[i] > 10, paths[i], NULL);
        json_decref(j);
    }
    json_t *line = line_of(text[0], 0), *report = json_loads(text[1], 0, NULL);
    check(json_object_size(line) == 4 && json_object_size(report) > 4,
          "answers and report are JSON", NULL);
    json_decref(line);
    json_decref(report);
    process_run(&p, argv, NULL);
    check(p.code == 0 && strstr(p.err, "is complete"), "the run knows itself again", &p);
    process_free(&p);
    for (int i = 0; i < 4; i++) free(text[i]);
    unlink(odd);
    clean();
}

/* A report against the answers in `out` that are no errors: tokens, and each one's times. */
static int adds_up(const json_t *report)
{
    const json_t *all = json_object_get(report, "latency_seconds"),
                 *first = json_object_get(report, "first_token_seconds");
    double mean = json_number_value(json_object_get(all, "mean")),
           to_first = json_number_value(json_object_get(first, "mean"));
    int prompt = 0, answer = 0, n = 0, a, b;
    size_t bytes;
    char *text = read_file(out, &bytes);
    static const char usage[] = "\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%*d,"
                                "\"completion_tokens\":%d}";
    for (char *p = text; p && (p = strstr(p, "\"usage\":")); p++)
        if (sscanf(p, usage, &a, &b) == 2) prompt += a, answer += b, n += b > 0;
    free(text);
    return n > 0 && prompt == json_integer_value(json_object_get(report, "prompt_tokens")) &&
           answer == json_integer_value(json_object_get(report, "completion_tokens")) &&
           n == json_integer_value(json_object_get(first, "n")) && 0 < to_first &&
           to_first < mean && mean < json_number_value(json_object_get(report, "elapsed_time"));
}

/* "cpu ISA, 1 thread" */
static int names_the_cpu(const char *machine)
{
    size_t n = machine ? strlen(machine) : 0;
    return n > 14 && !strncmp(machine, "cpu ", 4) && !strcmp(machine + n - 10, ", 1 thread");
}

static void reports(void)
{
    struct process p;
    size_t n;
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "-c", "64", "--report", out2,
        "--trace", log_path);
    process_free(&p);
    char *text = read_file(out2, &n), *trace = read_file(log_path, &n);
    json_t *r = json_loads(text ? text : "", 0, NULL), *t = json_loads(trace ? trace : "", 0, NULL);
    check(json_integer_value(json_object_get(r, "done")) == 64 &&
              json_integer_value(json_object_get(r, "errors")) == 44 &&
              json_real_value(json_object_get(r, "elapsed_time")) > 0 &&
              names_the_cpu(json_string_value(json_object_get(r, "machine"))) &&
              json_integer_value(json_object_get(json_object_get(r, "latency_seconds"), "n")) == 20,
          "--report", NULL);
    check(adds_up(r), "--report has the answers' tokens and times", NULL);
    check(json_array_size(t) > 40 &&
              !strcmp(json_string_value(json_object_get(json_array_get(t, 1), "name")), "step"),
          "--trace", NULL);
    json_decref(r);
    json_decref(t);
    free(text);
    free(trace);
    clean();
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv);
    forged_journals();
    other_options();
    names_that_are_not_utf8();
    reports();
    shell_ok("rm -r %s", dir);
    return report("journals");
}
