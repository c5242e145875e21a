/* states.c: hybrids and mixtures of experts in the batch mode: conversations have the same bytes
 * however they are computed: sequences, rows, threads, order, shards, prefix cache, few pages, runs
 * that are killed. Works on tests/data, and with ../shared on checkpoints of transformers; usage:
 * states BUILD_DIR SHARED_DIR. */
#include "tests/harness.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 128, RECORDS = 48, SYSTEM = 100, LONGEST = 440 };

static char dir[] = "/tmp/opt4gptq-states-XXXXXX";
static const char *build_dir, *shared;
static unsigned long long seed = 5;

static int below(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (unsigned)n);
}

/* Runs a command in sh; what it prints is the caller's. */
__attribute__((format(printf, 1, 2))) static struct process shell(const char *fmt, ...)
{
    struct process p;
    char command[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    return p;
}

static void put_record(FILE *f, int i, const int *prompt, int n)
{
    static const int lengths[] = {4, 24, 60};
    fprintf(f, "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",", i);
    fprintf(f, "\"body\":{\"model\":\"m\",\"logprobs\":2,\"max_tokens\":%d", lengths[below(3)]);
    if (i % 2) fprintf(f, ",\"seed\":%d", i);
    else fprintf(f, ",\"temperature\":0");
    if (i % 5 == 4) fprintf(f, ",\"n\":3");
    for (int k = 0; k < n; k++) fprintf(f, "%s%d", k ? "," : ",\"prompt\":[", prompt[k]);
    fprintf(f, "]}}\n");
}

/* Conversations of four turns, each prompt the one before and more; half of them begin alike. */
static void write_conversations(void)
{
    char path[300];
    int system[SYSTEM], prompt[LONGEST], n = 0;
    snprintf(path, sizeof path, "%s/in", dir);
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    for (int i = 0; i < SYSTEM; i++) system[i] = 4 + below(VOCAB - 4);
    for (int i = 0; i < RECORDS; i++) {
        int more = i % 4 ? 5 + below(60) : 3 + below(120);
        if (i % 4 == 0) n = i % 8 ? 0 : SYSTEM;
        for (int k = 0; i % 4 == 0 && k < n; k++) prompt[k] = system[k];
        for (; more > 0 && n < LONGEST; more--) prompt[n++] = 4 + below(VOCAB - 4);
        put_record(f, i, prompt, n);
    }
    fclose(f);
}

static const struct way {
    const char *what, *options;
    enum { PLAIN, REVERSED, KILLED, SHARDS } how;
    const char *report; /* must be in the report: what the way is there for */
} ways[] = {
    {"-np 1", "-np 1", PLAIN, NULL},
    {"-np 3 -b 16", "-np 3 -b 16", PLAIN, NULL},
    {"-np 16 -b 64", "-np 16 -b 64", PLAIN, NULL},
    {"-np 16 -b 512 -t 2", "-np 16 -b 512 -t 2", PLAIN, NULL},
    {"reversed", "-np 3 -b 64", REVERSED, NULL},
    {"no prefix cache", "-np 16 -b 64 --no-prefix-cache", PLAIN, NULL},
    {"no prefix cache, -np 1", "-np 1 -b 16 --no-prefix-cache", PLAIN, NULL},
    {"few pages", "-np 9 -b 64 --kv-pages 33", PLAIN, "preemptions"},
    {"few pages, reversed", "-np 7 -b 16 --kv-pages 33", REVERSED, "preemptions"},
    {"killed and resumed", "-np 3 -b 16", KILLED, NULL},
    {"two shards", "-np 5 -b 64", SHARDS, NULL},
};

static char *run_way(const struct way *w, const char *model)
{
    static const char *const commands[] = {
        [PLAIN] = "$R -i $D/in -o $D/out --report $D/report",
        [REVERSED] = "tac $D/in > $D/ni && $R -i $D/ni -o $D/out --report $D/report",
        [KILLED] = "for t in .1 .2 .3 .4; do timeout -s KILL $t $R -i $D/in -o $D/out; done; "
                   "$R -i $D/in -o $D/out",
        [SHARDS] = "$R -i $D/in -o $D/out0 --shard 0/2 && $R -i $D/in -o $D/out1 --shard 1/2 && "
                   "cat $D/out?.?-of-2 > $D/out",
    };
    struct process p = shell("D=%s; R='%s/opt4gptq-run -m %s -c 512 %s'; rm -f $D/out*; { %s; "
                             "} 1>&2 && sort $D/out | sha256sum | cut -c1-16",
                             dir, build_dir, model, w->options, commands[w->how]);
    check(p.code == 0, w->what, &p);
    if (w->report) {
        struct process r = shell("grep -o '\"%s\":[1-9]' %s/report", w->report, dir);
        check(r.code == 0, "the pages run out", &r);
        process_free(&r);
    }
    char *hash = strndup(p.out, strcspn(p.out, "\n"));
    process_free(&p);
    return hash;
}

/* models/demo's tokenizer cut to VOCAB tokens: the checkpoints have none, and answers in text have
 * log-probabilities. */
static void write_tokenizer(void)
{
    char path[300];
    json_t *all = json_load_file("models/demo/tokenizer.json", 0, NULL), *value,
           *model = json_object_get(all, "model"), *vocab = json_object_get(model, "vocab");
    const char *key;
    void *next;
    json_object_foreach_safe(vocab, next, key, value) if (json_integer_value(value) >= VOCAB)
        json_object_del(vocab, key);
    json_array_clear(json_object_get(model, "merges"));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    if (!all || json_dump_file(all, path, 0)) exit(2);
    json_decref(all);
}

/* A conversation whose turns continue from snapshots has the answers of a batch. */
static void converse(const char *name, const char *model)
{
    char path[300];
    struct process p = shell(
        "D=%s; printf '{%%%% for m in messages %%%%}{{ m.content }}|{%%%% endfor %%%%}' > $D/t; "
        "printf '%%0200d\\nand why\\nwhat then\\nno\\n/save %%s/talk\\n' 7 $D | "
        "%s/opt4gptq-run -m %s -cnv -v -n 20 --temp 0 --ignore-eos --chat-template-file $D/t; "
        "rm -f $D/out*",
        dir, build_dir, model);
    int kept = 0, most = 0;
    for (const char *s = p.err; (s = strstr(s, "tokens, ")); s++)
        if (sscanf(s, "tokens, %d of them kept, ", &kept) == 1 && kept > most) most = kept;
    check(p.code == 0 && most >= 64, "a conversation keeps what it computed", &p);
    process_free(&p);
    snprintf(path, sizeof path, "%s/talk", dir);
    json_t *saved = json_load_file(path, 0, NULL), *m = json_object_get(saved, "messages"), *v,
           *before = json_array();
    size_t i;
    snprintf(path, sizeof path, "%s/talk.jsonl", dir);
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    json_array_foreach (m, i, v) {
        if (i % 2) {
            char *text = json_dumps(before, JSON_COMPACT);
            fprintf(f,
                    "{\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{"
                    "\"messages\":%s,\"temperature\":0,\"ignore_eos\":true,\"max_tokens\":20}}\n",
                    text);
            free(text);
        }
        json_array_append(before, v);
    }
    fclose(f);
    p = shell("%s/opt4gptq-run -m %s -i %s -o - --chat-template-file %s/t -np 1 --no-prefix-cache",
              build_dir, model, path, dir);
    const char *at = p.out;
    for (i = 1; i < json_array_size(m); i += 2) {
        json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const json_t *choice = json_array_get(
            json_object_get(json_object_get(json_object_get(line, "response"), "body"), "choices"),
            0);
        const json_t *text = json_object_get(json_object_get(choice, "message"), "content");
        check_that(text && json_equal(text, json_object_get(json_array_get(m, i), "content")),
                   "%s: turn %zu is that of a batch", name, i / 2);
        json_decref(line);
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : "";
    }
    check(i == 9, "four turns", &p);
    process_free(&p);
    json_decref(saved);
    json_decref(before);
}

static void test_model(const char *name, const char *from)
{
    char model[300];
    snprintf(model, sizeof model, "%s/%s.safetensors", dir, name);
    struct process p = shell("mkdir %s/%s && ln -s $(realpath %s)/* "
                             "%s/tokenizer.json %s/%s && %s/opt4gptq-convert -q %s/%s %s",
                             dir, name, from, dir, dir, name, build_dir, dir, name, model);
    check(p.code == 0, name, &p);
    process_free(&p);
    static const char *const arithmetic[] = {"f32", "i16"};
    for (int k = 0; k < 2; k++) {
        char *first = NULL;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            struct way w = ways[i];
            char options[200];
            snprintf(options, sizeof options, "%s --act %s", w.options, arithmetic[k]);
            w.options = options;
            char *hash = run_way(&w, model);
            if (!first) first = hash;
            printf("%-12s %s %-24s %s\n", name, arithmetic[k], w.what, hash);
            check_that(!strcmp(hash, first), "%s %s, %s: other bytes", name, arithmetic[k], w.what);
            if (hash != first) free(hash);
        }
        free(first);
    }
    converse(name, model);
}

int main(int argc, char **argv)
{
    static const char *const models[] = {
        "newer/gptq/qwen3.5",    "newer/gptq/qwen3.5-moe", "newer/gptq/qwen3-moe",
        "newest/nemotron-h-moe", "newest/granite4-h",      "newest/falcon-h1",
        "newest/lfm2-moe",
    };
    if (argc < 2 || !mkdtemp(dir)) return 2;
    build_dir = argv[1];
    shared = argc > 2 ? argv[2] : "../shared";
    write_conversations();
    write_tokenizer();
    test_model("hybrid", "tests/data/gptq/qwen3.5-moe");
    test_model("experts", "tests/data/gptq/qwen3-moe");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/fixtures/%s", shared, models[i]);
        if (access(path, R_OK)) skip("%s: not here", path);
        else test_model(strrchr(path, '/') + 1, path);
    }
    struct process p = shell("rm -rf %s", dir);
    process_free(&p);
    return report("states");
}
