/* batch.c: what a person meets in the batch mode: every kind of good and bad line, formats, pipes,
 * packing, shards, order, outputs that cannot be written, locks, and the same bytes however it is
 * computed. Works on models/demo, and with ../shared on real conversations;
 * usage: batch BUILD_DIR SHARED_DIR. */
#include "tests/whole/batch_tools.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char chat_model[300];

static int count(const char *s, const char *what)
{
    int n = 0;
    for (; (s = strstr(s, what)); s += strlen(what)) n++;
    return n;
}

/* ---- lines */

/* Every line of tests/data/batch/in.jsonl gets the answer or the refusal that expected.jsonl has,
 * byte for byte. */
static void battery(void)
{
    struct process p;
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "-c", "64");
    check(p.code == 3 && same_file(out, "tests/data/batch/expected.jsonl"),
          "good and bad lines have the expected answers", &p);
    check(count(p.err, "came before") == 1, "a custom_id that comes twice is warned of once", &p);
    process_free(&p);
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "-c", "64");
    check(p.code == 3 && strstr(p.err, "is complete"), "the same command again has nothing to do",
          &p);
    process_free(&p);
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "--check", "-c", "64");
    check(p.code == 3 && strstr(p.out, "line 24 (line-24): not UTF-8") &&
              strstr(p.out, "64 records, 44 would fail"),
          "--check", &p);
    process_free(&p);
    clean();
}

static void one(const char *record, const char *says, const char *what)
{
    struct process p;
    RUN(&p, record, "-i", "-", "-o", "-", "-s", "5");
    check(p.code == 0 && strstr(p.out, says), what, &p);
    process_free(&p);
}

static void log_probabilities(void)
{
    struct process p;
    RUN(&p,
        "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":2,\"temperature\":0,\"logprobs\":2,\"echo\":true}}\n",
        "-i", "-", "-o", "-");
    json_t *r = line_of(p.out, 0),
           *c = json_array_get(
               json_object_get(json_object_get(json_object_get(r, "response"), "body"), "choices"),
               0),
           *l = json_object_get(c, "logprobs"), *tokens = json_object_get(l, "tokens"),
           *values = json_object_get(l, "token_logprobs"),
           *tops = json_object_get(l, "top_logprobs"), *offsets = json_object_get(l, "text_offset");
    check(json_array_size(tokens) == 5 && json_array_size(values) == 5 &&
              json_array_size(tops) == 5 && json_array_size(offsets) == 5,
          "echo with logprobs: an entry per token of prompt and answer", &p);
    char text[256] = "";
    for (size_t i = 1; i < json_array_size(tokens); i++)
        strcat(text, json_string_value(json_array_get(tokens, i)));
    check(c && !strcmp(text, json_string_value(json_object_get(c, "text"))),
          "the tokens after BOS are the text", &p);
    check(json_is_null(json_array_get(values, 0)) && json_real_value(json_array_get(values, 1)) < 0,
          "the first token has no value", &p);
    json_t *top = json_array_get(tops, 4);
    double chosen = json_real_value(json_array_get(values, 4)), best = -1e9, v;
    const char *name;
    json_t *x;
    json_object_foreach (top, name, x)
        if ((v = json_real_value(x)) > best) best = v;
    check(json_object_size(top) == 2 && best == chosen,
          "the greedy token is the likeliest of the alternatives", &p);
    json_decref(r);
    process_free(&p);
}

static void sampling(void)
{
    struct process p, q;
    const char *lines =
        "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":8,\"n\":2}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":8,\"seed\":3}}\n"
        "{\"custom_id\":\"c\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"The "
        "heart\",\"max_tokens\":8,\"seed\":3}}\n";
    RUN(&p, lines, "-i", "-", "-o", "-", "--format", "ids");
    RUN(&q, lines, "-i", "-", "-o", "-", "--format", "ids", "-s", "9");
    char *a = strtok(p.out, "\n"), *b = strtok(NULL, "\n"), *c = strtok(NULL, "\n"),
         *a9 = strtok(q.out, "\n"), *b9 = strtok(NULL, "\n");
    char *tab = a ? strchr(a, '\t') : NULL;
    check(c && b9 && !strcmp(b, c) && !strcmp(b, b9), "a record's seed alone decides", &p);
    check(a9 && tab && strcmp(a, a9), "--seed decides where a record has none", &p);
    check(tab && strncmp(a, tab + 1, (size_t)(tab - a)), "choices differ", &p);
    process_free(&p);
    process_free(&q);
    one("{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":1,\"top_k\":1}}\n",
        "\"completion_tokens\":1", "top_k");
}

/* Characters of several tokens: the bytes of the tokens are the answer's, chosen and likeliest. */
static void bytes_of_parts(void)
{
    static const char answer[] = "\u65e5 \U0001f600!";
    struct process p;
    char bytes[64] = "";
    size_t n = 0, i, k;
    int n_parts = 0, n_others = 0;
    json_t *entry, *byte, *top;
    process_run(&p, (char *[]){run_bin, "-m", chat_model, "-t", "1", "-i", "-", "-o", "-", NULL},
                "{\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\","
                "\"content\":\"hi\"}],\"logprobs\":true,\"top_logprobs\":20,"
                "\"structured_outputs\":{\"choice\":[\"\u65e5 \U0001f600!\"]},"
                "\"logprob_token_ids\":[150,151,152,153,154]}}\n");
    json_t *line = line_of(p.out, 0),
           *c = json_array_get(
               json_object_get(json_object_get(json_object_get(line, "response"), "body"),
                               "choices"),
               0);
    json_array_foreach (json_object_get(json_object_get(c, "logprobs"), "content"), i, entry) {
        json_array_foreach (json_object_get(entry, "bytes"), k, byte)
            if (n < sizeof bytes - 1) bytes[n++] = (char)json_integer_value(byte);
        n_parts += strstr(json_string_value(json_object_get(entry, "token")), "\xef\xbf\xbd") != 0;
        json_array_foreach (json_object_get(entry, "top_logprobs"), k, top)
            n_others += json_array_size(json_object_get(top, "bytes")) == 1;
    }
    const char *content =
        json_string_value(json_object_get(json_object_get(c, "message"), "content"));
    check(content && !strcmp(content, answer) && n == strlen(answer) && !memcmp(bytes, answer, n),
          "bytes of tokens that are parts of characters", &p);
    check(n_parts > 3 && n_others > 5, "bytes of the likeliest tokens", &p);
    json_decref(line);
    process_free(&p);
}

static void chats(void)
{
    struct process p;
    const char *lines =
        "{\"custom_id\":\"a\",\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"max_completion_tokens\":3,\"logprobs\":true,\"top_logprobs\":1}}\n"
        "{\"custom_id\":\"b\",\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":"
        "[{\"type\":\"text\",\"text\":\"hi\"}]}],\"max_tokens\":3,\"return_token_ids\":true}}\n"
        "{\"custom_id\":\"c\",\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\"}]}}\n"
        "{\"custom_id\":\"d\",\"url\":\"/v1/chat/"
        "completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
        "\"ignore_eos\":true}}\n";
    process_run(
        &p,
        (char *[]){run_bin, "-m", chat_model, "-t", "1", "-i", "-", "-o", "-", "-c", "40", NULL},
        lines);
    json_t *a = line_of(p.out, 0), *b = line_of(p.out, 1), *d = line_of(p.out, 3);
    json_t *choice = json_array_get(
        json_object_get(json_object_get(json_object_get(a, "response"), "body"), "choices"), 0);
    check(p.code == 3 &&
              json_array_size(json_object_get(json_object_get(choice, "logprobs"), "content")) == 3,
          "a chat with logprobs", &p);
    check(json_string_value(json_object_get(json_object_get(choice, "message"), "content")) != NULL,
          "a chat's message", &p);
    json_t *ids = json_object_get(json_object_get(json_object_get(b, "response"), "body"),
                                  "prompt_token_ids");
    check(json_array_size(ids) > 3 && json_integer_value(json_array_get(ids, 0)) !=
                                          json_integer_value(json_array_get(ids, 1)),
          "a chat's prompt has no double BOS", &p);
    check(count(p.out, "\"param\":\"messages\"") == 2,
          "a message without content is refused by the template", &p);
    json_t *usage = json_object_get(json_object_get(json_object_get(d, "response"), "body"),
                                    "usage");
    check(json_integer_value(json_object_get(usage, "total_tokens")) == 40,
          "a chat without max_tokens goes on to the context", &p);
    json_decref(a);
    json_decref(b);
    json_decref(d);
    process_free(&p);
    process_run(&p,
                (char *[]){run_bin, "-m", chat_model, "-i", "-", "-o", "-", "--chat", "-sys",
                           "Be brief.", "-n", "2", NULL},
                "hello\n");
    check(p.code == 0 && strstr(p.out, "chat.completion"),
          "--chat makes a message of each line of text", &p);
    process_free(&p);
}

/* ---- files */

static void formats(void)
{
    struct process p;
    char path[400], packed[400];
    RUN(&p, "Once upon a time there was\r\n\n  \nThe heart", "-i", "-", "-o", out, "--temp", "0",
        "-n", "3", "--format", "text");
    process_free(&p);
    size_t n;
    char *text = read_file(out, &n);
    check(text && !strcmp(text, " a great crowd\n of the man\n"),
          "plain text in and out: a line per prompt, empty lines skipped", NULL);
    free(text);
    clean();
    RUN(&p, "{\"a prompt\" in braces\n", "-i", "-", "-o", "-", "--input-format", "text", "--temp",
        "0", "-n", "2", "--format", "ids");
    check(p.code == 0 && strlen(p.out) > 2, "--input-format text takes a line that looks like JSON",
          &p);
    process_free(&p);

    snprintf(packed, sizeof packed, "%s/out.jsonl.gz", dir);
    shell_ok("gzip -c tests/data/batch/in.jsonl >%s/in.gz", dir);
    snprintf(path, sizeof path, "%s/in.gz", dir);
    RUN(&p, NULL, "-i", path, "-o", packed, "-c", "64");
    check(p.code == 3, "gzip in and out", &p);
    process_free(&p);
    shell_ok("gzip -dc %s | cmp - tests/data/batch/expected.jsonl", packed);
    shell_ok("head -c 500 %s/in.gz >%s/out.cut", dir, dir);
    snprintf(path, sizeof path, "%s/out.cut", dir);
    RUN(&p, NULL, "-i", path, "-o", "-", "-c", "64");
    check(p.code == 1 && strstr(p.err, "gzip"), "a cut gzip file", &p);
    process_free(&p);

    shell_ok("%s -m %s -t 1 -i - -o - -c 64 <tests/data/batch/in.jsonl 2>/dev/null | cmp - "
             "tests/data/batch/expected.jsonl",
             run_bin, model);
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "-c", "64", "--order", "done");
    process_free(&p);
    shell_ok("! cmp -s %s tests/data/batch/expected.jsonl && sort %s >%s/out.a && sort "
             "tests/data/batch/expected.jsonl | cmp - %s/out.a",
             out, out, dir, dir);
    clean();

    char shard[8];
    for (int i = 0; i < 3; i++) {
        snprintf(shard, sizeof shard, "%d/3", i);
        RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", packed, "-c", "64", "--shard",
            shard);
        check(p.code == 3, "a shard", &p);
        process_free(&p);
    }
    shell_ok("scripts/merge-shards %s && gzip -dc %s | cmp - tests/data/batch/expected.jsonl",
             packed, packed);
    clean();
    setenv("SLURM_PROCID", "1", 1), setenv("SLURM_NTASKS", "2", 1);
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "--shard", "auto");
    check(p.code == 2 && strstr(p.err, "--shard auto"), "a batch script is not a Slurm task", &p);
    process_free(&p);
    setenv("SLURM_STEP_ID", "0", 1);
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "--shard", "auto", "-c", "64");
    check(p.code == 0 && strstr(p.err, "32 of 32") && !strstr(p.err, " 0 of them errors"),
          "--shard auto takes the Slurm task's share, and refused records are no failure", &p);
    process_free(&p);
    unsetenv("SLURM_PROCID"), unsetenv("SLURM_NTASKS"), unsetenv("SLURM_STEP_ID");
    clean();
}

static void refusals(void)
{
    struct process p;
    char here[400];
#define REFUSED(exit_code, says, ...)                                                              \
    RUN(&p, NULL, "-i", in, __VA_ARGS__);                                                          \
    check(p.code == exit_code && strstr(p.err, says) && !strstr(p.err, "records done"),            \
          "refused: " says, &p);                                                                   \
    process_free(&p)
    REFUSED(2, "no output", "-c", "64");
    REFUSED(2, "--order", "-o", out, "--order", "random");
    REFUSED(2, "-i and -p exclude", "-o", out, "-p", "x");
    REFUSED(1, "is a directory", "-o", dir);
    REFUSED(2, "is also the file of -i", "-o", in);
    REFUSED(1, "No such file", "-o", "/nonexistent/out");
    REFUSED(2, "--shard 3/3", "-o", out, "--shard", "3/3");
    REFUSED(2, "--mem 5X", "-o", out, "--mem", "5X");
    REFUSED(1, "--mem 1 MiB", "-o", out, "--mem", "1M");
    REFUSED(1, "one context", "-o", out, "--kv-pages", "3");
    RUN(&p, NULL, "-i", "tests/data/batch/in.jsonl", "-o", out, "--chat");
    check(p.code == 1 && strstr(p.err, "--chat is for lines"), "--chat with a batch file", &p);
    process_free(&p);
    write_file(out, "mine\n", 5);
    REFUSED(1, "exists and was not written", "-o", out);
    REFUSED(1, "exists and was not written", "-o", out, "--restart");
    clean();
    snprintf(here, sizeof here, "%s.journal", out);
    write_file(here, "mine as well, and longer than the header of a journal's frame\n", 62);
    REFUSED(1, "not a journal", "-o", out);
    clean();
    RUN(&p, NULL, "-i", dir, "-o", out);
    check(p.code == 1 && strstr(p.err, "is a directory"), "a directory as input", &p);
    process_free(&p);
    RUN(&p, "", "-i", "-", "-o", out);
    check(p.code == 1 && strstr(p.err, "no records"), "an empty input", &p);
    process_free(&p);
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "2");
    check(p.code == 0, "a run", &p);
    process_free(&p);
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "3", "--act", "int8");
    check(p.code == 1 && strstr(p.err, "-n was 2, is 3") && strstr(p.err, "--act was") &&
              strstr(p.err, "--restart"),
          "another command", &p);
    process_free(&p);
    struct stat st;
    chmod(out, 0600);
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "3", "--restart");
    check(p.code == 0 && strstr(p.err, "done") && !stat(out, &st) && (st.st_mode & 0777) == 0600,
          "--restart, which keeps the permissions", &p);
    process_free(&p);
    write_file(out, "changed\n", 8);
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "3");
    check(p.code == 1 && strstr(p.err, "changed since"), "an output that somebody changed", &p);
    process_free(&p);
    unlink(out);
    RUN(&p, NULL, "-i", in, "-o", out, "-n", "3");
    check(p.code == 0 && strstr(p.err, "done"),
          "an output that somebody took away is computed again", &p);
    process_free(&p);
    clean();
    RUN(&p, NULL, "-i", in, "-o", "/dev/full", "-n", "2");
    check(p.code == 1 && strstr(p.err, "No space left"), "a full disk under a stream", &p);
    process_free(&p);
    shell_ok(
        "{ %s -m %s -i %s -o - -n 2 2>%s; echo $? >>%s; } | true; tail -n 1 %s | grep -qx 1 && "
        "grep -q 'Broken pipe' %s",
        run_bin, model, in, log_path, log_path, log_path, log_path);
    clean();
}

static void locks(void)
{
    char journal[400];
    struct process p;
    snprintf(journal, sizeof journal, "%s.journal", out);
    int fd = open(journal, O_RDWR | O_CREAT, 0666);
    check(fd >= 0 && !flock(fd, LOCK_EX), "the journal is locked by somebody", NULL);
    RUN(&p, NULL, "-i", in, "-o", out);
    check(p.code == 1 && strstr(p.err, "another run"), "two runs on one output", &p);
    process_free(&p);
    close(fd);
    unlink(journal);
}

/* ---- records that ask for too much, or for what cannot be */

/* N times WHAT with commas between, in place of the @ in LINE. */
static void put_many(FILE *f, const char *line, const char *what, int n)
{
    const char *at = strchr(line, '@');
    fwrite(line, 1, (size_t)(at - line), f);
    for (int i = 0; i < n; i++) fprintf(f, i ? ",%s" : "%s", what);
    fprintf(f, "%s\n", at + 1);
}

static void hostile_records(void)
{
    static const struct {
        const char *line, *what; /* WHAT, n times, in place of @ */
        int n;
        const char *says; /* NULL: is answered */
    } records[] = {
#define COMPLETION(body) "{\"url\":\"/v1/completions\",\"body\":{\"max_tokens\":1," body "}}"
#define CHAT(messages)                                                                             \
    "{\"url\":\"/v1/chat/completions\",\"body\":{\"max_tokens\":1,\"messages\":[" messages "]}}"
        {CHAT("{\"role\":\"user\",\"content\":[{\"type\":\"out of memory\"}]}"), 0, 0,
         "'out of memory' is not supported"},
        {CHAT("{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
              "\"tool_calls\":[{\"type\":\"function\","
              "\"function\":{\"name\":\"f\",\"arguments\":\"\\\"out of memory\"}}]}"),
         0, 0,
         "messages[1].tool_calls[0].function.arguments: not JSON: it ends too early (at byte "},
        {CHAT("{\"role\":\"user\",\"content\":\"big\"}"), 0, 0,
         "chat template"}, /* over its own memory */
        {CHAT("{\"role\":\"user\",\"content\":\"x\",\"x\":[@]}"), "0", 12000000,
         "the line holds more than 4194304 values"},
        {CHAT("{\"role\":\"user\",\"content\":\"x\",\"x\":[@]}"), "0", 1000000, NULL},
        {COMPLETION("\"prompt\":[@],\"n\":1024"), "\"a\"", 20000,
         "20000 prompts with n 1024 are 20480000 choices"},
        {COMPLETION("\"prompt\":[@]"), "[1]", 65537, "65537 choices, a record may ask for 65536"},
        {COMPLETION("\"prompt\":[@],\"n\":4,\"echo\":true"),
         "\""
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "\"",
         64, NULL},
        {COMPLETION("\"prompt\":\"a\",\"stop_token_ids\":[@]"), "1", 4097,
         "stop_token_ids: has more ids than the vocabulary"},
        {COMPLETION("\"prompt\":\"a\",\"min_tokens\":1,\"stop_token_ids\":[4096]"), 0, 0,
         "inside the vocabulary"},
        {COMPLETION("\"prompt\":\"a\",\"min_tokens\":1,\"stop_token_ids\":[4095]"), 0, 0, NULL},
        {COMPLETION("\"prompt\":\"a\",\"logit_bias\":{\"4096\":1}"), 0, 0, "inside the vocabulary"},
        {COMPLETION("\"prompt\":\"a\",\"logit_bias\":{\"4095\":1}"), 0, 0, NULL},
        {COMPLETION("\"prompt\":[4096]"), 0, 0, "outside the vocabulary"},
        {COMPLETION("\"prompt\":[4095]"), 0, 0, NULL},
        {COMPLETION("\"prompt\":\"a\",\"seed\":9223372036854775808"), 0, 0,
         "seed: must be an integer from -9223372036854775808 to 9223372036854775807"},
        {COMPLETION("\"prompt\":\"a\",\"seed\":18446744073709551615"), 0, 0,
         "seed: must be an integer from"},
        {COMPLETION("\"prompt\":\"a\",\"seed\":9223372036854775807"), 0, 0, NULL},
        {COMPLETION("\"prompt\":\"a\",\"top_k\":100000000000000000000"), 0, 0,
         "top_k: must be an integer from -1 to 16777216"},
        {COMPLETION("\"prompt\":[1,100000000000000000000]"), 0, 0,
         "prompt: holds an integer that is not from"},
        {COMPLETION("\"prompt\":\"a\",\"temperature\":1e999"), 0, 0,
         "not JSON: a number is too large (at byte "},
        {COMPLETION("\"prompt\":\"a\",\"stop\":\"\\u0000\""), 0, 0,
         "stop: a stop string contains NUL"},
        {COMPLETION("\"prompt\":\"a\\q\""), 0, 0,
         "not JSON: an unknown escape in a string (at byte "},
        {COMPLETION("\"prompt\":\"a\"}"), 0, 0, "not JSON: something follows its end (at byte "},
        {COMPLETION("\"prompt\":\"a\" \"n\":1"), 0, 0, "not JSON: "},
        {COMPLETION("\"prompt\":tru"), 0, 0, "not JSON: an unknown word (at byte "},
#undef COMPLETION
#undef CHAT
    };
    enum { N = sizeof records / sizeof *records };
    char path[400], template[400];
    struct process p;
    int errors = 0;
    size_t n;
    snprintf(path, sizeof path, "%s/hostile.jsonl", dir);
    snprintf(template, sizeof template, "%s/hostile.jinja", dir);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < N; i++) {
        if (records[i].n) put_many(f, records[i].line, records[i].what, records[i].n);
        else fprintf(f, "%s\n", records[i].line);
        errors += records[i].says != NULL;
    }
    if (!f || fclose(f)) exit(2);
    const char *text = "{% for m in messages %}{{ m['content'] }}{% if m['content'] == 'big' %}{{ "
                       "'x' * 300000000 }}{% endif %}{% endfor %}";
    write_file(template, text, strlen(text));
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-t", "1", "-i", path, "-o", out, "-c", "64",
                           "--chat-template-file", template, NULL},
                NULL);
    check(p.code == 3, "hostile records do not end a batch", &p);
    process_free(&p);
    char *answers = read_file(out, &n), *line = answers ? strtok(answers, "\n") : NULL;
    for (int i = 0; i < N; i++, line = strtok(NULL, "\n")) {
        struct process q = {.out = line, .err = (char *)""};
        int ok = line && (records[i].says
                              ? strstr(line, records[i].says) && strstr(line, "\"status_code\":400")
                              : strstr(line, "\"error\":null") != NULL);
        check(ok, records[i].line, line ? &q : NULL);
    }
    check(!line, "an answer for each", NULL);
    free(answers);
    process_run(&p,
                (char *[]){run_bin, "-m", model, "-i", path, "--check", "-c", "64",
                           "--chat-template-file", template, NULL},
                NULL);
    char want[100];
    snprintf(want, sizeof want, "%d records, %d would fail", N, errors);
    check(p.code == 3 && strstr(p.out, want), "--check finds the same", &p);
    process_free(&p);
    clean();
    unlink(path);
    unlink(template);
}

/* The error stands where OpenAI has it and where vLLM has it, with a code that is a string. */
/* Large records, by prompts, texts and answers, do not hold up the small ones behind them. */
static void turns(void)
{
    static const char *const large[] = {
        "{\"url\":\"/v1/completions\",\"body\":{\"max_tokens\":1,\"prompt\":[@]}}",
        "{\"url\":\"/v1/embeddings\",\"body\":{\"input\":[@]}}",
        "{\"url\":\"/v1/completions\",\"body\":{\"max_tokens\":1,\"prompt\":[@],\"n\":200}}"};
    char path[400], *done;
    size_t n;
    struct process p;
    snprintf(path, sizeof path, "%s/out.turns.jsonl", dir);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 5; i++)
        put_many(f, large[i % 3], "\"The heart\"", i % 3 == 2 ? 2 : 300);
    for (int i = 0; f && i < 6; i++)
        fprintf(
            f, "{\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"Some %d\",\"max_tokens\":3}}\n",
            i);
    if (!f || fclose(f)) exit(2);
    RUN(&p, NULL, "-i", path, "-o", out, "-np", "4", "--order", "done");
    check(p.code == 0, "large records and small ones", &p);
    process_free(&p);
    done = read_file(out, &n);
    int small = 0;
    for (const char *at = done; at && small < 6 && strcspn(at, "\n") < 1000; small++)
        at = strchr(at, '\n') + 1;
    check_that(small == 6, "%d of 6 small records end before the large ones", small);
    free(done);
    RUN(&p, NULL, "-i", path, "-o", out2, "-np", "1");
    check(p.code == 0, "the same one by one", &p);
    process_free(&p);
    shell_ok("sort %s >%s/out.a && sort %s | cmp - %s/out.a", out, dir, out2, dir);
    clean();
}

static void error_records(void)
{
    struct process p;
    RUN(&p, "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":7}}\n", "-i",
        "-", "-o", "-");
    json_t *r = line_of(p.out, 0), *response = json_object_get(r, "response"),
           *error = json_object_get(r, "error"),
           *inner = json_object_get(json_object_get(response, "body"), "error");
    check(p.code == 3 && json_integer_value(json_object_get(response, "status_code")) == 400 &&
              json_equal(error, inner) && json_object_size(error) == 4 &&
              json_is_string(json_object_get(error, "code")) &&
              json_is_string(json_object_get(error, "type")) &&
              json_is_string(json_object_get(error, "message")) &&
              json_is_string(json_object_get(error, "param")),
          "the form of an error record", &p);
    json_decref(r);
    process_free(&p);
}

/* ---- what is no text */

/* JSON that is no JSON lines is refused, plain prompts that begin as JSON may are answered. */
static void json_for_prompts(void)
{
#define RECORD "{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"}}"
    static const struct {
        const char *name, *text, *says; /* NULL: prompts */
    } inputs[] = {
        {"a", "[\n" RECORD ",\n" RECORD "\n]\n", "is a JSON array"},
        {"a", "\n  [" RECORD "]\n", "is a JSON array"},
        {"a", "\xef\xbb\xbf[ {\"role\":\"user\",\"content\":\"hi\"}]\n", "is a JSON array"},
        {"a", "[\"x\", \"y\"]\n", "is a JSON array"},
        {"a", "# mine\n" RECORD "\n", "begins with a comment"},
        {"a", "// mine\n{\"prompt\": \"x\"}\n", "begins with a comment"},
        {"a", "# mine\n\n# more\n" RECORD "\n", "has records"},
        {"a", "hi\n[{\"role\": \"user\", \"content\": \"hi\"}]\n", "has records"},
        {"a", "\"custom_id\":\"a\",\"body\":{\"prompt\":\"x\"}}\n", "beginning is missing"},
        {"a", "custom_id\": \"a\", \"body\": {\"prompt\": \"x\"}}\n" RECORD "\n",
         "beginning is missing"},
        {"a", "\"url\":\"/v1/completions\",\"body\" : {}},\n", "beginning is missing"},
        {"a.json", "hi\n", "named as JSON lines"},
        {"a.JSONL", "hi\n", "named as JSON lines"},
        {"a.ndjson.gz", "hi\n", "named as JSON lines"},
        {"a.txt", "[INST] hi [/INST]\n[1] is a note\n", NULL},
        {"a.txt", "# A title\nThe king\n", NULL},
        {"a.jsonl.txt", "Repair {\"a\": 1\n{\"name\": \"x\"} is an object\n\"Yes,\" he said\n",
         NULL},
        {"a", "The custom_id of a record, its \"body\": what are they?\n", NULL},
    };
#undef RECORD
    struct process p;
    char path[400];
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, inputs[i].name);
        write_file(path, inputs[i].text, strlen(inputs[i].text));
        RUN(&p, NULL, "-i", path, "-o", out, "-n", "1");
        if (inputs[i].says)
            check(p.code == 1 && strstr(p.err, inputs[i].says) && strstr(p.err, path) &&
                      strstr(p.err, "--input-format text") && count(p.err, "\n") == 1 &&
                      access(out, F_OK),
                  inputs[i].text, &p);
        else check(p.code == 0 && strstr(p.err, " 0 of them errors"), inputs[i].text, &p);
        process_free(&p);
        clean();
        RUN(&p, NULL, "-i", path, "-o", out, "-n", "1", "--input-format", "text");
        check(p.code == 0 && strstr(p.err, " 0 of them errors"), "any line as a prompt", &p);
        process_free(&p);
        clean();
        unlink(path);
    }
}

static void binary_inputs(void)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *says; /* NULL: is text */
    } inputs[] = {
#define BYTES(s) s, sizeof s - 1
        {BYTES("PK\3\4\24\0\0\0\10\0abcdefgh\n"), "a zip archive"},
        {BYTES("\xfd"
               "7zXZ\0\0\4\xe6\xd6\xb4\x46\n"),
         "an xz file"},
        {BYTES("\x28\xb5\x2f\xfd\x24\x10\x81\0\0hello\n"), "a zstd file"},
        {BYTES("BZh91AY&SY\xfd\x11\0\x41"), "a bzip2 file"},
        {BYTES("GGUF\3\0\0\0\x20\1\0\0"), "a GGUF model"},
        {BYTES("\x40\1\0\0\0\0\0\0{\"a\":{\"dtype\":\"F16\"}}\n"), "a safetensors file"},
        {BYTES("\xff\xfeh\0e\0l\0l\0o\0\n\0"), "UTF-16 text"},
        {BYTES("\xfe\xff\0h\0e\0l\0l\0o\0\n"), "UTF-16 text"},
        {BYTES("h\0e\0l\0l\0o\0\n\0"), "UTF-16 text"},
        {BYTES("\x80\4\x95\0\0\0\0\0\0\0\0}"), "a Python pickle"},
        {BYTES("hello\n\0\0\0\0\n"), "byte 6 is zero"},
        {BYTES("caf\xe9 au lait\nhello\n"), "byte 3 is no part of a character"},
        {BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "a PNG image"},
        {BYTES("GGUF is a format\n"), NULL},
        {BYTES("\xef\xbb\xbfhello\n"), NULL},
        {BYTES("1\n2\n3\n4\n5\n6\n7\nb\xff"
               "d\n9\n"),
         NULL},
#undef BYTES
    };
    char path[400];
    struct process p;
    snprintf(path, sizeof path, "%s/binary", dir);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        write_file(path, inputs[i].bytes, inputs[i].n);
        for (int packed = 0; packed < 2; packed++) {
            if (packed) shell_ok("gzip -f %s && mv %s.gz %s", path, path, path);
            RUN(&p, NULL, "-i", path, "-o", out, "-n", "1");
            if (inputs[i].says)
                check(p.code == 1 && strstr(p.err, inputs[i].says) && count(p.err, "\n") == 1 &&
                          access(out, F_OK),
                      inputs[i].says, &p);
            else check(p.code == 0 || p.code == 3, "a text", &p);
            process_free(&p);
            clean();
        }
    }
    const char *mixed = "\xef\xbb\xbf{\"url\":\"/v1/"
                        "completions\",\"body\":{\"prompt\":\"a\",\"max_tokens\":1}}\n{\"\xff\n";
    write_file(path, mixed, strlen(mixed));
    RUN(&p, NULL, "-i", path, "-o", out);
    check(p.code == 3 && strstr(p.err, "2 of 2 records done, 1 of them errors"),
          "a byte order mark, and a line that is not UTF-8", &p);
    process_free(&p);
    clean();
    shell_ok("seq 1 5000 | gzip -c | head -c 5000 >%s", path);
    RUN(&p, NULL, "-i", path, "-o", out);
    check(p.code == 1 && strstr(p.err, "damaged or cut gzip file: ") && !strstr(p.err, "<fd"),
          "a cut gzip file names no descriptor", &p);
    process_free(&p);
    clean();
    unlink(path);
}

/* ---- the same bytes however computed */

static void invariance(const char *model_path, const char *input, char *const common[],
                       const char *pages, int preempted, const char *name)
{
    const char *const ways[][4] = {{"-np", "1"},          {"-np", "7"},         {"-np", "64"},
                                   {"-b", "33"},          {"-t", "2"},          {"-t", "4"},
                                   {"--no-prefix-cache"}, {"--kv-pages", pages}};
    char what[300];
    struct process p;
    for (size_t i = 0; i <= sizeof ways / sizeof *ways; i++) {
        char *argv[32] = {run_bin, "-m",           (char *)model_path, "-i",    (char *)input,
                          "-o",    i ? out2 : out, "--report",         log_path};
        int n = 9;
        for (int k = 0; common[k]; k++) argv[n++] = common[k];
        for (int k = 0; i && k < 4 && ways[i - 1][k]; k++) argv[n++] = (char *)ways[i - 1][k];
        process_run(&p, argv, NULL);
        snprintf(what, sizeof what, "%s with %s %s has the bytes of the first run", name,
                 i ? ways[i - 1][0] : "no option", i && ways[i - 1][1] ? ways[i - 1][1] : "");
        check((p.code == 0 || p.code == 3) && (!i || same_file(out, out2)), what, &p);
        process_free(&p);
        unlink(out2);
        char journal[400];
        snprintf(journal, sizeof journal, "%s.journal", out2);
        unlink(journal);
    }
    size_t n;
    char *report = read_file(log_path, &n);
    check(report && (strstr(report, "\"preemptions\":0,") == NULL) == preempted,
          "whether few pages force preemptions", NULL);
    free(report);
    clean();
}

static void conversations(const char *shared)
{
    char path[600], wiki[300], input[300], wiki_model[600];
    enum { N = 6 };
    snprintf(path, sizeof path, "%s/data/eval/ShareGPT_V3_filtered_500.json", shared);
    snprintf(wiki_model, sizeof wiki_model, "%s/models/wiki-g128", shared);
    json_t *all = json_load_file(path, 0, NULL);
    if (!all || access(wiki_model, R_OK)) {
        skip("conversations: %s or %s is not there", path, wiki_model);
        json_decref(all);
        return;
    }
    snprintf(wiki, sizeof wiki, "%s/wiki.safetensors", dir);
    snprintf(input, sizeof input, "%s/conversations.jsonl", dir);
    struct process p;
    process_run(&p, (char *[]){convert_bin, wiki_model, wiki, NULL}, NULL);
    process_free(&p);
    FILE *f = fopen(input, "w");
    for (int i = 0, k = 0; f && k < N; i += 83, k++) {
        json_t *c = json_array_get(all, (size_t)i);
        json_t *line = json_pack(
            "{s:O, s:s, s:{s:O, s:i, s:i, s:i}}", "custom_id", json_object_get(c, "id"), "url",
            "/v1/completions", "body", "prompt",
            json_object_get(json_array_get(json_object_get(c, "conversations"), 0), "value"),
            "max_tokens", 6, "logprobs", 2, "n", 1 + i % 3 / 2);
        json_dumpf(line, f, JSON_COMPACT);
        fputc('\n', f);
        json_decref(line);
    }
    if (!f || fclose(f)) exit(2);
    invariance(wiki, input, (char *[]){"-c", "1024", "--act", "int8", "-t", "1", NULL}, "66", 0,
               "conversations");
    json_decref(all);
    unlink(wiki);
    unlink(input);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    begin(argv);
    snprintf(chat_model, sizeof chat_model, "%s/chat.safetensors", dir);
    shell_ok(
        "mkdir %s/chat && cp models/demo/*.json models/demo/*.safetensors %s/chat && printf '%%s' "
        "\"{{ bos_token }}{%% for m in "
        "messages %%}{{ "
        "m['content'] + '|' }}{%% endfor %%}\" >%s/chat/chat_template.jinja && %s %s/chat %s 2>&1",
        dir, dir, dir, convert_bin, dir, chat_model);

    battery();
    log_probabilities();
    sampling();
    chats();
    bytes_of_parts();
    formats();
    refusals();
    locks();
    hostile_records();
    turns();
    error_records();
    binary_inputs();
    json_for_prompts();
    /* about bits, not memory: sanitized they would take minutes */
#ifdef __SANITIZE_ADDRESS__
    skip("invariance: sanitized build");
    (void)invariance;
#else
    invariance(model, in,
               (char *[]){"--ignore-eos", "-n", "40", "-s", "3", "-c", "256", "-t", "1", NULL},
               "20", 1, "sampled text");
    invariance(model, in,
               (char *[]){"--ignore-eos", "-n", "40", "-s", "3", "-c", "256", "-t", "1", "--kv",
                          "int8", NULL},
               "20", 1, "sampled text over 8-bit pages");
#endif
    conversations(argv[2]);
    shell_ok("rm -r %s", dir);
    return report("batch");
}
